//! `stringData` of a Secret: written as text, stored as `data`. As `data` it can be compared with what is there, and what left
//! the manifest is taken off the object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::object::{api_version, kind};

/// Writes the `stringData` of a Secret as its `data`, as the API server does. What the API server would refuse stays as it
/// is: it says why.
pub(crate) fn encode(object: &mut Value) {
    if api_version(object) != "v1" || kind(object) != "Secret" {
        return;
    }
    let Some(text) = object.get("stringData").and_then(Value::as_object) else { return };
    if !text.values().all(Value::is_string) {
        return;
    }
    let encoded: Map<String, Value> = text
        .iter()
        .filter_map(|(key, text)| Some((key.clone(), STANDARD.encode(text.as_str()?).into())))
        .collect();
    let Some(map) = object.as_object_mut() else { return };
    if map.get("data").is_some_and(|data| !data.is_object() && !data.is_null()) {
        return;
    }
    map.remove("stringData");
    if encoded.is_empty() {
        return;
    }
    match map.get_mut("data").and_then(Value::as_object_mut) {
        Some(data) => data.extend(encoded),
        None => {
            map.insert("data".to_owned(), Value::Object(encoded));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_becomes_data() {
        let secret = |content: Value| {
            let mut object = json!({"apiVersion": "v1", "kind": "Secret"});
            object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            object
        };
        let same = json!({"stringData": {"a": 1}});
        for (before, after) in [
            (json!({"stringData": {"a": "1"}}), json!({"data": {"a": "MQ=="}})),
            // Text wins over data of the same key.
            (
                json!({"stringData": {"a": "1"}, "data": {"a": "eA==", "b": "eA=="}}),
                json!({"data": {"a": "MQ==", "b": "eA=="}}),
            ),
            (json!({"stringData": {}, "data": {}}), json!({"data": {}})),
            (json!({"stringData": {"a": "\u{fc}"}, "data": null}), json!({"data": {"a": "w7w="}})),
            (same.clone(), same),
            (json!({"stringData": "x"}), json!({"stringData": "x"})),
        ] {
            let mut object = secret(before);
            encode(&mut object);
            assert_eq!(object, secret(after));
        }
        let other =
            json!({"apiVersion": "example.com/v1", "kind": "Secret", "stringData": {"a": "1"}});
        let mut object = other.clone();
        encode(&mut object);
        assert_eq!(object, other);
    }
}
