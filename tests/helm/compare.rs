//! An answer against what the real Helm recorded.

use std::collections::BTreeMap;

use serde_json::Value;

const LISTS: [&str; 3] = ["manifests", "hooks", "crds"];
const MASK: &str = "<random>";

/// What is different, if anything is.
pub(crate) fn difference(
    record: &Value,
    answer: &Value,
    big: &BTreeMap<String, Value>,
) -> Option<String> {
    let mut expected = record["expect"].clone();
    if let Some(error) = expected["error"].as_str() {
        let (ours, theirs) = (&answer["errorClass"], &expected["errorClass"]);
        return (ours != theirs).then(|| format!("class {ours}, not {theirs}: {error}"));
    }
    if let Some(error) = answer["error"].as_str() {
        return Some(format!("error: {error}"));
    }
    if record["kind"] == "gotemplate" {
        let same = expected["random"] == true || answer["output"] == expected["output"];
        return (!same).then(|| format!("{} not {}", answer["output"], expected["output"]));
    }
    let mut answer = answer.clone();
    for list in LISTS {
        for entry in expected[list].as_array_mut().into_iter().flatten() {
            if let Some(object) = entry["big"].as_str().and_then(|key| big.get(key)) {
                *entry = serde_json::json!({ "source": entry["source"], "object": object });
            }
        }
    }
    for path in record["expect"]["randomPaths"].as_array().into_iter().flatten() {
        let path = path.as_str().unwrap_or_default();
        let parts: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|part| part.replace("~1", "/").replace("~0", "~"))
            .collect();
        mask(&mut expected, &parts);
        mask(&mut answer, &parts);
    }
    for list in LISTS {
        let (theirs, ours) = (objects(&expected[list]), objects(&answer[list]));
        if theirs.len() != ours.len() {
            return Some(format!("{} {list}, not {}", ours.len(), theirs.len()));
        }
        if let Some((theirs, ours)) =
            theirs.iter().zip(&ours).find(|(theirs, ours)| !same(theirs, ours))
        {
            return Some(format!("{list}: {}", first(theirs, ours, "")));
        }
    }
    let notes = |value: &Value| value["notes"].as_str().unwrap_or_default().trim().to_owned();
    if expected["notes"] != MASK && notes(&expected) != notes(&answer) {
        return Some("the notes differ".to_owned());
    }
    let texts = expected["texts"].as_object().into_iter().flatten();
    let other = |(path, sum): &(&String, &Value)| **sum != MASK && answer["texts"][path] != **sum;
    texts.filter(|(_, sum)| !sum.is_null()).find(other).map(|(path, _)| format!("text of {path}"))
}

/// The entries that are more than comments.
fn objects(list: &Value) -> Vec<&Value> {
    let entries = list.as_array().into_iter().flatten();
    entries.filter(|entry| *entry == MASK || !entry["object"].is_null()).collect()
}

/// Puts the mask at a path, also where nothing is but its parent.
fn mask(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        *value = Value::from(MASK);
        return;
    };
    match value {
        Value::Object(map) => {
            if rest.is_empty() {
                map.insert(first.clone(), Value::from(MASK));
            } else if let Some(inner) = map.get_mut(first) {
                mask(inner, rest);
            }
        }
        Value::Array(list) => {
            let inner = first.parse().ok().and_then(|at: usize| list.get_mut(at));
            if let Some(inner) = inner {
                mask(inner, rest);
            }
        }
        _ => {}
    }
}

/// Equal as JSON, where 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The first place where two values differ.
fn first(theirs: &Value, ours: &Value, at: &str) -> String {
    if let (Value::Object(a), Value::Object(b)) = (theirs, ours) {
        let keys = a.keys().chain(b.keys());
        for key in keys {
            let (a, b) = (a.get(key), b.get(key));
            if let (Some(a), Some(b)) = (a, b)
                && !same(a, b)
            {
                return first(a, b, &format!("{at}/{key}"));
            }
            if a.is_none() != b.is_none() {
                return format!("{at}/{key} {}", if a.is_none() { "is new" } else { "is missing" });
            }
        }
    }
    if let (Value::Array(a), Value::Array(b)) = (theirs, ours)
        && a.len() == b.len()
        && let Some(place) = a.iter().zip(b).position(|(a, b)| !same(a, b))
    {
        return first(&a[place], &b[place], &format!("{at}/{place}"));
    }
    format!("{at}: {ours}, not {theirs}")
}
