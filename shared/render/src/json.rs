//! Between JSON and CUE data, and the reference's way with numbers.

use cue::{Decimal, Fields, Number, Value};
use serde_json::{Map, Value as Json};

/// JSON as CUE data; numbers keep their digits.
#[must_use]
pub fn to_cue(json: &Json) -> Value {
    Value::from(json.clone())
}

/// CUE data as JSON.
#[must_use]
pub fn from_cue(value: &Value) -> Json {
    value.to_json()
}

/// JSON as the reference hands it to a template: keys in alphabetical order, every number a
/// 64-bit float, so that `8080.0` is the int `8080`.
#[must_use]
pub fn canonical(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Number(canonical_number(n)),
        Json::String(s) => Value::String(s.as_str().into()),
        Json::Array(items) => Value::List(items.iter().map(canonical).collect()),
        Json::Object(fields) => Value::Struct(canonical_fields(fields)),
    }
}

fn canonical_fields(fields: &Map<String, Json>) -> Fields {
    let mut keys: Vec<_> = fields.iter().collect();
    keys.sort_by(|a, b| a.0.cmp(b.0));
    keys.into_iter().map(|(k, v)| (k.as_str().into(), canonical(v))).collect()
}

/// 2^53: integers up to here survive the way through a float.
const EXACT: u64 = 1 << 53;

fn canonical_number(n: &serde_json::Number) -> Number {
    if let Some(i) = n.as_i64()
        && i.unsigned_abs() <= EXACT
    {
        return Number::from(i);
    }
    let float = n.as_f64().unwrap_or_default();
    // Go writes integral floats below 1e21 without an exponent: CUE reads them as ints.
    if float.fract() == 0.0 && float.abs() < 1e21 {
        return Decimal::parse(&format!("{float:.0}"))
            .map_or_else(|_| Number::from(0), Number::int);
    }
    let text = if float.abs() < 1e21 && float.abs() >= 1e-6 {
        format!("{float}")
    } else {
        format!("{float:e}")
    };
    Decimal::parse(&text).map_or_else(|_| Number::from(0), Number::float)
}

/// CUE data with all keys in alphabetical order, as data that went through JSON has them.
#[must_use]
pub fn sorted(value: Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.into_iter().map(sorted).collect()),
        Value::Struct(fields) => {
            let mut fields: Fields = fields.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            fields.sort_unstable_keys();
            Value::Struct(fields)
        }
        scalar => scalar,
    }
}

/// The kind of a JSON value, as a word.
#[must_use]
pub fn kind_name(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
    }
}
