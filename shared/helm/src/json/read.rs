//! Values of JSON as templates see them.

use gotemplate::{Str, Value};

/// A value of JSON as Go reads it: all numbers are floats.
pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Nil,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(list) => Value::List(list.iter().map(from_json).collect()),
        Json::Object(map) => {
            let entries =
                map.iter().map(|(key, value)| (Str::from(key.as_str()), from_json(value)));
            Value::Map(entries.collect())
        }
    }
}
