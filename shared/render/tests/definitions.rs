//! What every one of our definitions has: a description, and one of each parameter that takes a
//! value, however deep.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

mod builtin;

use serde_json::{Value, json};
use vela_render::{App, Component, Definition, DefinitionKind, NoHost, Renderer, Target, Trait};

/// Paths of parameters that nobody describes.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // What alternatives disagree about is described by each of them, below.
        let is_described_below = schema["oneOf"].is_array()
            && property
                .as_object()
                .is_some_and(|described| described.keys().all(|key| key == "title"));
        if is_described_below {
            continue;
        }
        let path = format!("{path}.{name}");
        let is_folder = property["properties"].is_object() && path.contains('.');
        if !is_folder && property["description"].as_str().is_none_or(|text| text.trim().is_empty())
        {
            found.push(path.clone());
        }
        undescribed(property, &path, found);
    }
    for (part, key) in [("[]", "items"), (".*", "additionalProperties")] {
        if schema[key].is_object() {
            undescribed(&schema[key], &format!("{path}{part}"), found);
        }
    }
    for alternative in schema["oneOf"].as_array().into_iter().flatten() {
        undescribed(alternative, path, found);
    }
}

#[test]
fn have_a_description_of_themselves_and_of_every_parameter() {
    let renderer = Renderer::default();
    let all = builtin::definitions(&["component", "policy", "trait", "workflow-step"]);
    assert!(all.len() >= 91, "{} definitions", all.len());
    let mut missing = Vec::new();
    for definition in &all {
        let description = definition.annotations.get("definition.oam.dev/description");
        if description.is_none_or(|text| text.len() < 10) {
            missing.push(definition.name.clone());
        }
        let schema = renderer.schema(definition).expect("a definition of ours has a schema");
        undescribed(&schema, &definition.name, &mut missing);
    }
    assert!(missing.is_empty(), "without a description:\n{}", missing.join("\n"));
}

/// The API server takes a text for a percentage: a number of pods must be a number.
#[test]
fn a_pace_of_updates_is_a_number_or_a_percentage() {
    let template = r#"output: {apiVersion: "apps/v1", kind: "Deployment", spec: template: {}}"#;
    let spec = json!({"schematic": {"cue": {"template": template}}});
    let workload = Definition::from_spec(DefinitionKind::Component, "base", &spec);
    let traits = builtin::definitions(&["trait"]);
    let strategy = traits.iter().find(|one| one.name == "k8s-update-strategy").expect("a trait");
    for (kind, given, expected) in [
        (
            "Deployment",
            json!({"maxSurge": "1", "maxUnavailable": "0"}),
            json!({"maxSurge": 1, "maxUnavailable": 0}),
        ),
        (
            "Deployment",
            json!({"maxSurge": "50%"}),
            json!({"maxSurge": "50%", "maxUnavailable": "25%"}),
        ),
        (
            "DaemonSet",
            json!({"maxUnavailable": "10"}),
            json!({"maxSurge": "25%", "maxUnavailable": 10}),
        ),
        ("StatefulSet", json!({"partition": 2}), json!({"partition": 2})),
    ] {
        let properties = json!({"targetKind": kind, "strategy": {"rollingStrategy": given}});
        let component = Component {
            name: "web",
            kind: "base",
            definition: &workload,
            properties: None,
            traits: vec![Trait {
                kind: "k8s-update-strategy",
                definition: strategy,
                properties: Some(&properties),
            }],
            patch: None,
        };
        let rendered = Renderer::default()
            .render(&App::default(), &Target::default(), &component, &mut NoHost)
            .expect("it renders");
        let spec = &rendered.workload["spec"];
        let field = if kind == "Deployment" { "strategy" } else { "updateStrategy" };
        assert_eq!(spec[field]["rollingUpdate"], expected, "{kind} {given}");
    }
}
