//! Definitions and parameters, all arbitrary: rendering, admission, schema and health answer or
//! refuse under a budget, and say the same when asked twice. The input has up to five parts with a
//! line of `---` between them: the component's template, JSON parameters of component and trait,
//! the trait's template, a status text, and the JSON context of that. What is absent is the first.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use vela_render::{
    App, Component, Definition, Gates, DefinitionKind, NoHost, Options, Renderer, Target, Trait, contract,
};

fuzz_target!(|text: &str| {
    let mut parts = text.split("\n---\n");
    let template = parts.next().unwrap_or_default();
    let properties: Option<Value> = serde_json::from_str(parts.next().unwrap_or("{}")).ok();
    let on_top = parts.next().unwrap_or(template);
    let status = parts.next().unwrap_or(template);
    let live: Value = parts
        .next()
        .and_then(|context| serde_json::from_str(context).ok())
        .unwrap_or_else(|| json!({ "name": "c" }));
    // Kept: the packages of providers are compiled once, of the templates next to none.
    static RENDERER: OnceLock<Renderer> = OnceLock::new();
    let renderer = RENDERER.get_or_init(|| {
        let limits = cue::Limits { steps: 100_000, depth: 200, ..cue::Limits::default() };
        Renderer::new(Options { limits, cache_bytes: 100_000, ..Options::default() })
    });
    let spec = |template: &str| {
        json!({
            "schematic": { "cue": { "template": template } },
            "status": { "customStatus": status, "healthPolicy": status, "details": status },
        })
    };
    let definition = Definition::from_spec(DefinitionKind::Component, "x", &spec(template));
    let as_trait = Definition::from_spec(DefinitionKind::Trait, "y", &spec(on_top));
    let component = Component {
        name: "c",
        kind: "x",
        definition: &definition,
        properties: properties.as_ref(),
        traits: vec![Trait { kind: "y", definition: &as_trait, properties: properties.as_ref() }],
        patch: None,
    };
    let app = App::default();
    let render = || {
        let mut rendered = renderer.render(&app, &Target::default(), &component, &mut NoHost)?;
        contract::apply(&mut rendered, &app, "c", "x");
        Ok::<_, vela_render::RenderError>(format!("{rendered:?}"))
    };
    match (render(), render()) {
        (Ok(once), Ok(twice)) => assert_eq!(once, twice),
        (Err(once), Err(twice)) => assert_eq!(once.message, twice.message),
        (once, twice) => panic!("{once:?} and then {twice:?}"),
    }
    let _ = renderer.check(&app, &component, &Gates::default());
    let _ = renderer.schema(&definition);
    let _ = renderer.schema(&as_trait);
    let _ = renderer.health_in(&definition.status, &live, properties.as_ref());
});
