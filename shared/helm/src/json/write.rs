//! Values of templates as values of JSON.

use base64::Engine as _;
use gotemplate::{Failure, Str, Underlying, Value};
use serde_json::Number;
use vela_gocompat::strconv;

use crate::engine::state::{OverBudget, over};
use crate::objects;

/// Levels of values that are written as JSON, YAML or TOML; a map that holds itself ends here.
pub(crate) const DEEPEST: usize = 1000;

/// A value that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    /// A number that JSON has no text for.
    #[error("json: unsupported value: {0}")]
    Number(String),
    /// A value of a type that has no JSON.
    #[error("json: unsupported type: {0}")]
    Kind(String),
    /// Any of these, while it is written.
    #[error("{0}")]
    Unsupported(String),
    /// Nested too deep.
    #[error(transparent)]
    Deep(OverBudget),
}

impl From<JsonError> for Failure {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Deep(bound) => over(bound),
            other => Self::text(other.to_string()),
        }
    }
}

/// A value as Go writes it as JSON.
pub(crate) fn to_json(value: &Value) -> Result<serde_json::Value, JsonError> {
    json_at(value, 0)
}

fn json_at(value: &Value, depth: usize) -> Result<serde_json::Value, JsonError> {
    use serde_json::Value as Json;
    if depth > DEEPEST {
        return Err(JsonError::Deep(OverBudget::Depth(DEEPEST)));
    }
    Ok(match value {
        Value::NoValue | Value::Nil => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        Value::Int(_, int) => Json::from(*int),
        Value::Uint(_, uint) => Json::from(*uint),
        Value::Float(float) => match Number::from_f64(*float) {
            Some(number) => Json::Number(number),
            None => {
                return Err(JsonError::Number(strconv::format_float(*float, 'g', -1, 64)));
            }
        },
        Value::String(text) => Json::String(text.to_str_lossy().into_owned()),
        Value::Bytes(bytes) => Json::String(base64_of(bytes.as_bytes())),
        Value::List(list) if list.is_nil() => Json::Null,
        Value::List(list) => {
            let items = list.as_slice().iter().map(|item| json_at(item, depth + 1));
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Map(map) if map.is_nil() => Json::Null,
        Value::Map(map) => {
            let field = |(key, value): (&Str, &Value)| {
                Ok((key.to_str_lossy().into_owned(), json_at(value, depth + 1)?))
            };
            Json::Object(map.read(|entries| entries.iter().map(field).collect::<Result<_, _>>())?)
        }
        Value::Object(object) => {
            if let Some(json) = objects::json(value) {
                return Ok(json);
            }
            match object.underlying() {
                Underlying::Value(value) => return json_at(&value, depth + 1),
                Underlying::Struct | Underlying::Pointer => {
                    let mut fields = serde_json::Map::new();
                    for name in object.fields() {
                        let field = object.field(name).unwrap_or_default();
                        fields.insert((*name).to_owned(), json_at(&field, depth + 1)?);
                    }
                    Json::Object(fields)
                }
                Underlying::Func => return Err(JsonError::Kind(object.type_of().to_string())),
            }
        }
    })
}

/// Bytes as JSON has them.
pub(crate) fn base64_of(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
