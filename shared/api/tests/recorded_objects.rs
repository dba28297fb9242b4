//! Every recorded object of our kinds: valid under our CRDs, kept whole by pruning, and written back
//! by our types as it was.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use vela_api::crd;

fn material() -> Option<PathBuf> {
    let folder = std::env::var_os("VELA_CONFORMANCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    if folder.join("recordings").is_dir() {
        return Some(folder.join("recordings"));
    }
    println!("SKIPPED: 3,100 recorded objects: no conformance material at {}", folder.display());
    None
}

/// All objects of our kinds in a recording, wherever they are.
fn collect(value: &Value, out: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Object(fields) => {
            let ours = fields.get("apiVersion").and_then(Value::as_str).is_some_and(|version| {
                version.starts_with("core.oam.dev/") || version.starts_with("cue.oam.dev/")
            });
            // Root objects have a uid; embedded ones do not.
            if ours && value.pointer("/metadata/uid").is_some() {
                out.push(value.clone());
            } else {
                fields.values().for_each(|value| collect(value, out));
            }
        }
        _ => {}
    }
}

/// Undoes what the recorder did: times and numbers as placeholders, definitions cut out.
fn restored(value: &Value, cut: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) if text == "<time>" => json!("2026-01-02T03:04:05Z"),
        Value::Array(items) => items.iter().map(|item| restored(item, cut)).collect(),
        Value::Object(fields) => {
            if let Some(hash) = fields.get("sha256").filter(|_| fields.contains_key("$definition"))
            {
                return restored(&cut[hash.as_str().expect("a hash")], cut);
            }
            fields.iter().map(|(key, value)| (key.clone(), restored(value, cut))).collect()
        }
        other => other.clone(),
    }
}

fn recorded() -> Option<Vec<Value>> {
    let recordings = material()?;
    let mut cut = BTreeMap::new();
    let lines = |path: &str| {
        let text = std::fs::read_to_string(recordings.join(path)).expect("readable");
        let parse = |line: &str| serde_json::from_str::<Value>(line).expect("json");
        text.lines().map(parse).collect::<Vec<_>>()
    };
    for line in lines("controller/embedded-definitions.jsonl") {
        cut.insert(line["sha256"].as_str().expect("a hash").to_owned(), line["object"].clone());
    }
    let mut objects = Vec::new();
    for line in lines("definitions/builtin/definitions.jsonl") {
        collect(&line, &mut objects);
    }
    for folder in ["controller/dev", "definitions/dev"] {
        for case in std::fs::read_dir(recordings.join(folder)).expect("readable").flatten() {
            let Ok(files) = std::fs::read_dir(case.path()) else { continue };
            for file in files.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if name.starts_with("snap-") {
                    let text = std::fs::read_to_string(file.path()).expect("readable");
                    collect(&serde_json::from_str(&text).expect("json"), &mut objects);
                }
            }
        }
    }
    Some(objects.iter().map(|object| restored(object, &cut)).collect())
}

/// What the API server would store: unknown fields dropped where the schema does not keep them.
fn pruned(value: &Value, schema: &Value) -> Value {
    let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Array(items) => items.iter().map(|item| pruned(item, &schema["items"])).collect(),
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let rest = schema.get("additionalProperties");
            let field = |(key, value): (&String, &Value)| {
                if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                    Some((key.clone(), pruned(value, schema)))
                } else if let Some(schema) = rest {
                    Some((key.clone(), pruned(value, schema)))
                } else {
                    keeps.then(|| (key.clone(), value.clone()))
                }
            };
            Value::Object(fields.iter().filter_map(field).collect::<Map<String, Value>>())
        }
        other => other.clone(),
    }
}

/// OpenAPI's `nullable` in the words of JSON Schema; `metadata` is the API server's own business.
fn as_json_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut out: Map<String, Value> = fields
                .iter()
                .filter(|(key, _)| !key.starts_with("x-kubernetes") && *key != "nullable")
                .map(|(key, value)| (key.clone(), as_json_schema(value)))
                .collect();
            if fields.get("nullable") == Some(&json!(true)) {
                out.insert("type".to_owned(), json!([fields["type"], "null"]));
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(as_json_schema).collect(),
        other => other.clone(),
    }
}

fn schema_of(object: &Value) -> Value {
    let version = object["apiVersion"].as_str().and_then(|v| v.rsplit('/').next());
    crd::all()
        .into_iter()
        .find(|crd| crd.object["spec"]["names"]["kind"] == object["kind"])
        .and_then(|crd| {
            let versions = crd.object["spec"]["versions"].as_array()?.clone();
            versions.into_iter().find(|v| v["name"].as_str() == version)
        })
        .map_or_else(
            || panic!("no CRD for {} {}", object["apiVersion"], object["kind"]),
            |version| version["schema"]["openAPIV3Schema"].clone(),
        )
}

fn without_metadata(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().expect("object").remove("metadata");
    object
}

fn name(object: &Value) -> String {
    format!("{} {}", object["kind"], object["metadata"]["name"])
}

#[test]
fn stored_unchanged() {
    let Some(objects) = recorded() else { return };
    let mut validators = BTreeMap::new();
    for object in &objects {
        let kind = format!("{} {}", object["apiVersion"], object["kind"]);
        let (schema, validator) = validators.entry(kind).or_insert_with(|| {
            let schema = schema_of(object);
            let validator = jsonschema::validator_for(&as_json_schema(&schema)).expect("a schema");
            (schema, validator)
        });
        let object = without_metadata(object);
        let errors: Vec<String> = validator
            .iter_errors(&object)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {}", name(&object), errors.join("\n"));
        let stored = pruned(&object, schema);
        let mut out = Vec::new();
        differences("", &object, &stored, &mut out);
        // Revisions were compressed: the API server never saw the metadata of what is inside.
        out.retain(|line| !line.starts_with(".spec.") || !line.contains(".metadata."));
        assert!(out.is_empty(), "{}: {}", name(&object), out.join("\n"));
    }
    println!("stored unchanged: {} objects of {} kinds", objects.len(), validators.len());
    assert!(objects.len() >= 3000, "only {} objects", objects.len());
}

fn differences(path: &str, expected: &Value, actual: &Value, out: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let mut keys: Vec<&String> = expected.keys().chain(actual.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}.{key}");
                match (expected.get(key), actual.get(key)) {
                    (Some(expected), Some(actual)) => differences(&path, expected, actual, out),
                    (Some(expected), None) => out.push(format!("{path}: lost {expected}")),
                    (None, Some(actual)) => out.push(format!("{path}: added {actual}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                differences(&format!("{path}[{index}]"), expected, actual, out);
            }
        }
        _ if expected == actual => {}
        _ => out.push(format!("{path}: {expected} became {actual}")),
    }
}

fn through<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{}: {error}", name(object)));
    serde_json::to_value(typed).expect("json")
}

/// Our types write what they read. What Go's types add or drop on their next write is the same: zero
/// values that users wrote go, embedded structs that nobody wrote come.
#[test]
fn types_keep_everything() {
    let Some(objects) = recorded() else { return };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for object in &objects {
        let written = match object["kind"].as_str().expect("a kind") {
            "Application" => through::<vela_api::Application>(object),
            "ApplicationRevision" => through::<vela_api::ApplicationRevision>(object),
            "ResourceTracker" => through::<vela_api::ResourceTracker>(object),
            "ComponentDefinition" => through::<vela_api::ComponentDefinition>(object),
            "TraitDefinition" => through::<vela_api::TraitDefinition>(object),
            "PolicyDefinition" => through::<vela_api::PolicyDefinition>(object),
            "WorkflowStepDefinition" => through::<vela_api::WorkflowStepDefinition>(object),
            "WorkloadDefinition" => through::<vela_api::WorkloadDefinition>(object),
            "DefinitionRevision" => through::<vela_api::DefinitionRevision>(object),
            "Policy" => through::<vela_api::Policy>(object),
            "Workflow" => through::<vela_api::Workflow>(object),
            "Package" => through::<vela_api::Package>(object),
            other => panic!("unknown kind {other}"),
        };
        let mut out = Vec::new();
        differences("", object, &written, &mut out);
        out.retain(|line| !is_go_like(line));
        assert!(out.is_empty(), "{}:\n{}", name(object), out.join("\n"));
        *seen.entry(object["kind"].as_str().expect("a kind").to_owned()).or_default() += 1;
    }
    println!("written back as read: {seen:?}");
    assert!(seen["Application"] >= 700 && seen["ResourceTracker"] >= 600, "{seen:?}");
}

/// Differences that a Go client makes as well.
fn is_go_like(line: &str) -> bool {
    let zero = ["lost \"\"", "lost []", "lost {}", "lost false", "lost 0", "lost null"];
    let structs = [
        (".status", "added {}"),
        (".status", "added {\"succeeded\":false}"),
        (".definitionRef", "added {\"name\":\"\"}"),
        (".compression", "added {}"),
        (".workload.definition", "added {\"apiVersion\":\"\",\"kind\":\"\"}"),
        (".workloadDefinition", "added {\"apiVersion\":\"\",\"kind\":\"\"}"),
    ];
    let Some((path, what)) = line.split_once(": ") else { return false };
    zero.contains(&what) || structs.iter().any(|(end, added)| path.ends_with(end) && what == *added)
}
