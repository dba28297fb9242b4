//! Definitions with mistakes and parameters that do not fit: everything ends with an answer or an
//! error, within its budget. The fuzz target `render` (`tests/fuzz`) does the same without end.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

mod builtin;

use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use vela_render::{
    App, Component, Definition, DefinitionKind, Gates, NoHost, Options, Renderer, Target, Trait,
};

/// What evaluates runs on threads with this much stack, here as in the deployables.
const STACK: usize = 64 << 20;

/// The templates of our own components and traits.
fn templates() -> &'static [String] {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = builtin::definitions(&["component", "trait"]);
        let mut all: Vec<String> =
            all.iter().map(|definition| definition.template.text().to_owned()).collect();
        all.sort();
        all
    })
}

fn parameters() -> impl Strategy<Value = Json> {
    let names = prop::sample::select(vec![
        "image",
        "ports",
        "port",
        "env",
        "name",
        "containers",
        "replicas",
        "http",
        "cpu",
        "labels",
        "volumeMounts",
        "objects",
        "patch",
        "value",
        "output",
        "containerName",
        "mountPath",
    ]);
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(|f| json!(f)),
        ".{0,6}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::vec((names.clone(), inner), 0..4).prop_map(|fields| Json::Object(
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

/// A template with some of its lines gone, doubled or swapped.
fn damaged() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..4);
    (any::<prop::sample::Index>(), edits).prop_map(|(which, edits)| {
        let mut lines: Vec<&str> = which.get(templates()).lines().collect();
        for (at, edit) in edits {
            let at = at.index(lines.len());
            match edit {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at]),
                2 => lines.swap(at, 0),
                _ => lines[at] = "parameter: context",
            }
            if lines.is_empty() {
                break;
            }
        }
        lines.join("\n")
    })
}

/// All that is done with a definition.
fn everything(template: &str, properties: Option<&Json>) {
    let limits = cue::Limits { steps: 100_000, ..cue::Limits::default() };
    let renderer = Renderer::new(Options { limits, ..Options::default() });
    let spec = json!({
        "schematic": { "cue": { "template": template } },
        "status": { "customStatus": template, "healthPolicy": template, "details": template },
    });
    let component = Definition::from_spec(DefinitionKind::Component, "x", &spec);
    let as_trait = Definition::from_spec(DefinitionKind::Trait, "x", &spec);
    let component = Component {
        name: "c",
        kind: "x",
        definition: &component,
        properties,
        traits: vec![Trait { kind: "x", definition: &as_trait, properties }],
        patch: None,
    };
    let _ = renderer.render(&App::default(), &Target::default(), &component, &mut NoHost);
    let _ = renderer.check(&App::default(), &component, &Gates::default());
    let _ = renderer.schema(component.definition);
    let context = json!({ "name": "c" });
    let _ = renderer.health_in(&component.definition.status, &context, properties);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(template in damaged(), properties in prop::option::of(parameters())) {
        let worked = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, || everything(&template, properties.as_ref()))
                .expect("a thread starts")
                .join()
                .is_ok()
        });
        prop_assert!(worked, "panic");
    }
}
