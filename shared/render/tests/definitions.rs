//! What every one of our definitions has: a description, and one of each parameter that takes a
//! value, however deep.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

mod builtin;

use serde_json::Value;
use vela_render::Renderer;

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
