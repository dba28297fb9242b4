//! What counts as the same answer: the rules of the conformance material's scorer.

use serde_json::{Map, Value, json};

/// The differences between an answer and what was recorded; nothing if it passes.
pub(crate) fn check(record: &Value, answer: &Value) -> Vec<String> {
    let kind = record["kind"].as_str().unwrap_or_default();
    let expect = &record["expect"];
    let mut bad = compare(expect, answer);
    if bad.is_empty() {
        return bad;
    }
    let tolerated = !record["defect"].is_null() || expect.get("fatal").is_some();
    if tolerated && answer.get("unsupported").is_none() {
        return Vec::new();
    }
    if let Some(alt) = record["alt"].as_object() {
        let alternative = if kind == "schema" {
            let mut all = expect.as_object().cloned().unwrap_or_default();
            all.extend(alt.clone());
            Value::Object(all)
        } else {
            Value::Object(alt.clone())
        };
        if compare(&alternative, answer).is_empty() {
            bad.clear();
        }
    }
    bad
}

const PRESENT: [&str; 3] = ["cue", "jsonError", "schemaError"];
const IGNORED: [&str; 3] = ["warnings", "patchIndex", "error"];

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
        Value::Number(n) => n.as_f64() != Some(0.0),
    }
}

fn decision(value: &Value) -> Value {
    match value.as_object() {
        Some(map) => {
            map.iter().map(|(k, v)| (k.clone(), truthy(v).into())).collect::<Map<_, _>>().into()
        }
        None => truthy(value).into(),
    }
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}

fn calls(value: &Value) -> Value {
    let calls = value.as_array().into_iter().flatten();
    calls.map(|call| without(call, &["notConcrete", "returned"])).collect()
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(160).collect()
}

fn compare(expect: &Value, answer: &Value) -> Vec<String> {
    if let Some(why) = answer.get("unsupported") {
        return vec![format!("unsupported: {why}")];
    }
    let mut bad = Vec::new();
    if truthy(&expect["error"]) != truthy(&answer["error"]) {
        bad.push(format!(
            "error: {}, expected: {}",
            short(&answer["error"]),
            short(&expect["error"])
        ));
    }
    for (key, wanted) in expect.as_object().into_iter().flatten() {
        if IGNORED.contains(&key.as_str()) {
            continue;
        }
        let given = &answer[key];
        if PRESENT.contains(&key.as_str()) {
            if key != "cue" && truthy(wanted) != truthy(given) {
                bad.push(format!("{key}: {}", short(given)));
            }
            continue;
        }
        let (wanted, given) = match key.as_str() {
            "admission" => (decision(wanted), decision(given)),
            "status" => (without(wanted, &["message"]), without(given, &["message"])),
            "calls" => (calls(wanted), calls(given)),
            _ => (wanted.clone(), given.clone()),
        };
        differences(&norm(&wanted), &norm(&given), key, &mut bad);
    }
    bad
}

/// Without what is null or empty, numbers as decimals.
fn norm(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: Map<String, Value> = map
                .iter()
                .map(|(k, v)| (k.clone(), norm(v)))
                .filter(|(_, v)| !v.is_null())
                .collect();
            if map.is_empty() { Value::Null } else { map.into() }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => list.iter().map(norm).collect(),
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.as_i64().is_none() => json!(f),
            _ => json!(n.as_i64().unwrap_or_default() as f64),
        },
        other => other.clone(),
    }
}

fn differences(wanted: &Value, given: &Value, path: &str, bad: &mut Vec<String>) {
    match (wanted, given) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => differences(value, other, &format!("{path}.{key}"), bad),
                    None => bad.push(format!("{path}.{key} missing, wanted {}", short(value))),
                }
            }
            for (key, value) in b {
                if !a.contains_key(key) {
                    bad.push(format!("{path}.{key} extra: {}", short(value)));
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                bad.push(format!("{path}: {} items, not {}", b.len(), a.len()));
            }
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                differences(x, y, &format!("{path}[{i}]"), bad);
            }
        }
        (a, b) if a == b => {}
        (a, b) => bad.push(format!("{path}: {}, not {}", short(b), short(a))),
    }
}
