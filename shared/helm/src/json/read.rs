//! Values of JSON as templates see them: as Go reads them, all numbers are floats.

use std::fmt;

use gotemplate::{Str, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Reads a text.
pub(crate) fn read_json(text: &str) -> Result<Value, serde_json::Error> {
    Ok(serde_json::from_str::<Read>(text)?.0)
}

/// A value as it is read.
struct Read(Value);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading).map(Self)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Value, E> {
        Ok(Value::Float(int as f64))
    }

    fn visit_u64<E>(self, uint: u64) -> Result<Value, E> {
        Ok(Value::Float(uint as f64))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Value, E> {
        Ok(Value::Float(float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Read(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(gotemplate::List::new(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((Read(key), Read(value))) = fields.next_entry()? {
            if let Value::String(key) = key {
                map.push((key, value));
            }
        }
        Ok(Value::Map(map.into_iter().collect()))
    }
}

/// A value of JSON.
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
