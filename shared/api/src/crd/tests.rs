//! Our CRDs against the recorded ones, and against the Rust types.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Crd, all};

/// The conformance material, or a loud skip.
fn recorded() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings/crds");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: 12 recorded CRDs: no conformance material at {}", folder.display());
    None
}

/// Every difference, as `path: expected, actual`.
fn differences(path: &str, expected: &Value, actual: &Value, out: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let mut keys: Vec<&String> = expected.keys().chain(actual.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let null = Value::Null;
                let (e, a) = (expected.get(key), actual.get(key));
                differences(&format!("{path}.{key}"), e.unwrap_or(&null), a.unwrap_or(&null), out);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (e, a)) in expected.iter().zip(actual).enumerate() {
                differences(&format!("{path}[{index}]"), e, a, out);
            }
        }
        _ if expected == actual => {}
        _ => out.push(format!("{path}: recorded {expected}, ours {actual}")),
    }
}

/// What is ours to choose: descriptions and the notes of generators. And what the API server fills
/// in: the conversion strategy; empty `subresources` mean none.
fn comparable(mut crd: Value) -> Value {
    if let Some(metadata) = crd.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
    }
    if let Some(spec) = crd.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.remove("conversion");
    }
    for version in crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut).expect("list") {
        let version = version.as_object_mut().expect("object");
        if version.get("subresources") == Some(&json!({})) {
            version.remove("subresources");
        }
        strip_descriptions(
            version.get_mut("schema").and_then(|s| s.get_mut("openAPIV3Schema")).expect("schema"),
        );
    }
    crd
}

fn strip_descriptions(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("description");
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(strip_descriptions);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            strip_descriptions(inner);
        }
    }
}

/// Takes what is ours alone from our CRDs: columns about readiness, and a status that nobody takes for one that is ready.
fn without_additions(mut crd: Value) -> Value {
    if crd["metadata"]["name"] != "applications.core.oam.dev" {
        return crd;
    }
    let version = &mut crd["spec"]["versions"][0];
    let columns = version["additionalPrinterColumns"].as_array_mut().expect("list");
    let ours = ["READY", "REASON", "REVISION", "WHY"];
    let before = columns.len();
    columns.retain(|column| !ours.contains(&column["name"].as_str().expect("named")));
    assert_eq!(before, columns.len() + ours.len());
    let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
    let default = status.as_object_mut().expect("object").remove("default");
    assert_eq!(default, Some(json!({ "observedGeneration": -1 })));
    crd
}

#[test]
fn equal_to_recorded() {
    let Some(folder) = recorded() else { return };
    let mut ours = all();
    // Of the separate project, whose chart was not recorded.
    ours.retain(|crd| crd.name != "workflowruns.core.oam.dev");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .expect("readable")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".json"))
        .collect();
    files.sort();
    let names: Vec<String> = ours.iter().map(|crd| format!("{}.json", crd.name)).collect();
    assert_eq!(files, names);
    let mut out = Vec::new();
    for Crd { name, object } in ours {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("readable");
        let expected: Value = serde_json::from_str(&text).expect("json");
        let ours = without_additions(comparable(object));
        differences(&name, &comparable(expected), &ours, &mut out);
    }
    assert!(out.is_empty(), "{} differences:\n{}", out.len(), out.join("\n"));
}

/// An object with every field of a schema, each with a value that is not its zero value.
fn sample(schema: &Value) -> Value {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values[0].clone();
    }
    match schema["type"].as_str().expect("typed") {
        "string" if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        "string" => json!("text"),
        "boolean" => json!(true),
        "integer" => json!(7),
        "array" => json!([sample(&schema["items"])]),
        "object" => {
            if let Some(Value::Object(properties)) = schema.get("properties") {
                let fields: Map<String, Value> = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), sample(schema)))
                    .collect();
                Value::Object(fields)
            } else if let Some(values) = schema.get("additionalProperties") {
                json!({ "key": sample(values) })
            } else {
                json!({ "any": [1, { "thing": null }] })
            }
        }
        other => panic!("unexpected type {other}"),
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(name: &str) {
    let crd = all().into_iter().find(|crd| crd.name.starts_with(name)).expect("known");
    let versions = crd.object["spec"]["versions"].as_array().expect("list").clone();
    let version = versions.iter().find(|version| version["storage"] == true).expect("stored");
    let mut object = sample(&version["schema"]["openAPIV3Schema"]);
    object["metadata"] = json!({ "name": "text", "labels": { "key": "text" } });
    let typed: T = serde_json::from_value(object.clone()).expect("fits the type");
    let mut out = Vec::new();
    differences(name, &object, &serde_json::to_value(&typed).expect("json"), &mut out);
    assert!(out.is_empty(), "{} fields lost:\n{}", out.len(), out.join("\n"));
}

/// The types know every field of the schemas and write each one back as it was.
#[test]
fn types_cover_schemas() {
    round_trip::<crate::Application>("applications.");
    round_trip::<crate::ApplicationRevision>("applicationrevisions.");
    round_trip::<crate::ComponentDefinition>("componentdefinitions.");
    round_trip::<crate::TraitDefinition>("traitdefinitions.");
    round_trip::<crate::PolicyDefinition>("policydefinitions.");
    round_trip::<crate::WorkflowStepDefinition>("workflowstepdefinitions.");
    round_trip::<crate::DefinitionRevision>("definitionrevisions.");
    round_trip::<crate::ResourceTracker>("resourcetrackers.");
    round_trip::<crate::Policy>("policies.");
    round_trip::<crate::Workflow>("workflows.");
    round_trip::<crate::WorkflowRun>("workflowruns.");
    round_trip::<crate::Package>("packages.");
}

/// Schemas are structural: what the API server would refuse is refused here.
#[test]
fn schemas_are_structural() {
    fn walk(path: &str, schema: &Value) {
        let type_ = schema["type"].as_str().unwrap_or_default();
        assert!(!type_.is_empty(), "{path} has no type");
        if let Some(required) = schema.get("required").and_then(Value::as_array) {
            for name in required {
                let name = name.as_str().expect("text");
                assert!(schema["properties"].get(name).is_some(), "{path} requires unknown {name}");
            }
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            assert!(schema.get("additionalProperties").is_none(), "{path} has both");
            for (name, inner) in properties {
                walk(&format!("{path}.{name}"), inner);
            }
        }
        if type_ == "array" {
            walk(&format!("{path}[]"), &schema["items"]);
        }
        if let Some(values) = schema.get("additionalProperties") {
            walk(&format!("{path}{{}}"), values);
        }
    }
    for crd in all() {
        for version in crd.object["spec"]["versions"].as_array().expect("list") {
            walk(&crd.name, &version["schema"]["openAPIV3Schema"]);
        }
    }
}

/// The chart holds what `cargo xtask crds` writes, and nothing else.
#[test]
fn chart_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/vela-core/crds");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .expect("the chart has a crds folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    files.sort();
    let ours = all();
    assert_eq!(files, ours.iter().map(Crd::file_name).collect::<Vec<_>>());
    for crd in ours {
        let text = std::fs::read_to_string(folder.join(crd.file_name())).expect("readable");
        assert!(text == crd.to_yaml(), "{}: run `cargo xtask crds`", crd.file_name());
    }
}
