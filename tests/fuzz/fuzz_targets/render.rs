//! A definition and parameters, both arbitrary: rendering, schema and health answer or refuse
//! under a budget, whatever they are. The input is a template, a line of `---`, and JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vela_render::{App, Component, Definition, Kind, NoHost, Options, Renderer, Target, Trait};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (template, parameters) = text.split_once("\n---\n").unwrap_or((text, "{}"));
    let properties = serde_json::from_str(parameters).ok();
    let limits = cue::Limits { steps: 100_000, ..cue::Limits::default() };
    let renderer = Renderer::new(Options { limits, ..Options::default() });
    let spec = serde_json::json!({
        "schematic": { "cue": { "template": template } },
        "status": { "customStatus": template, "healthPolicy": template, "details": template },
    });
    let component = Definition::from_spec(Kind::Component, "x", &spec);
    let as_trait = Definition::from_spec(Kind::Trait, "x", &spec);
    let traits =
        vec![Trait { kind: "x", definition: &as_trait, properties: properties.as_ref() }];
    let component = Component {
        name: "c",
        kind: "x",
        definition: &component,
        properties: properties.as_ref(),
        traits,
        patch: None,
    };
    let _ = renderer.render(&App::default(), &Target::default(), &component, &mut NoHost);
    let _ = renderer.check(&App::default(), &component, &vela_render::Gates::default());
    let _ = renderer.schema(component.definition);
    let context = serde_json::json!({ "name": "c" });
    let _ = renderer.health_in(&component.definition.status, &context, properties.as_ref());
});
