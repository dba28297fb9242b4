//! JSON values as fields of Go structs, as Helm's reader decodes them: a plain number or boolean becomes the text that a
//! field wants, names match whatever their case, and a mismatch has Go's error text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use vela_gocompat::strconv;

use crate::yaml::{YamlError, json_kind};

/// Why a document does not fit.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The document is of another kind.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type {wanted}"
    )]
    Document {
        /// JSON's word for what is there.
        found: &'static str,
        /// Go's type of what should be there.
        wanted: &'static str,
    },
    /// A field is of another kind.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go struct field {at} of type {wanted}"
    )]
    Field {
        /// JSON's word for what is there.
        found: &'static str,
        /// Go's name of the field.
        at: String,
        /// Go's type of the field.
        wanted: &'static str,
    },
}

/// The fields of a document or of a map in it.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Go's name of what they belong to, before the field's own.
    owner: String,
}

impl<'a> Fields<'a> {
    /// The fields of a document; null has none.
    pub(crate) fn document(
        value: &'a Value,
        owner: &str,
        wanted: &'static str,
    ) -> Result<Option<Self>, DecodeError> {
        match value {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(Self { map, owner: owner.to_owned() })),
            other => Err(DecodeError::Document { found: json_kind(other), wanted }),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map
            .get(name)
            .or_else(|| {
                let fits = |key: &&String| key.eq_ignore_ascii_case(name);
                self.map.iter().find(|(key, _)| fits(key)).map(|(_, value)| value)
            })
            .filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, found: &Value, wanted: &'static str) -> DecodeError {
        let at = format!("{}.{name}", self.owner);
        DecodeError::Field { found: json_kind(found), at, wanted }
    }

    pub(crate) fn string(&self, name: &str) -> Result<String, DecodeError> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(value) => text(value).ok_or_else(|| self.wrong(name, value, "string")),
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Result<bool, DecodeError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(bool)) => Ok(*bool),
            Some(other) => Err(self.wrong(name, other, "bool")),
        }
    }

    pub(crate) fn strings(&self, name: &str) -> Result<Vec<String>, DecodeError> {
        let wrong = |value: &Value| self.wrong(name, value, "string");
        self.list(name, "[]string")?
            .iter()
            .map(|value| match value {
                Value::Null => Ok(String::new()),
                value => text(value).ok_or_else(|| wrong(value)),
            })
            .collect()
    }

    pub(crate) fn list(
        &self,
        name: &str,
        wanted: &'static str,
    ) -> Result<&'a [Value], DecodeError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(self.wrong(name, other, wanted)),
        }
    }

    pub(crate) fn string_map(&self, name: &str) -> Result<BTreeMap<String, String>, DecodeError> {
        let map = match self.get(name) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(self.wrong(name, other, "map[string]string")),
        };
        map.iter()
            .map(|(key, value)| match value {
                Value::Null => Ok((key.clone(), String::new())),
                value => match text(value) {
                    Some(text) => Ok((key.clone(), text)),
                    None => Err(self.wrong(name, value, "string")),
                },
            })
            .collect()
    }

    /// A map inside; `wanted` is its Go type, `owner` what its own fields are called after.
    pub(crate) fn inner(
        &self,
        name: &str,
        owner: &str,
        wanted: &'static str,
    ) -> Result<Option<Self>, DecodeError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self { map, owner: owner.to_owned() })),
            Some(other) => Err(self.wrong(name, other, wanted)),
        }
    }

    /// An element of a list of structs; null is none.
    pub(crate) fn element(
        value: &'a Value,
        owner: &str,
        wanted: &'static str,
    ) -> Result<Option<Self>, DecodeError> {
        match value {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(Self { map, owner: owner.to_owned() })),
            other => {
                Err(DecodeError::Field { found: json_kind(other), at: owner.to_owned(), wanted })
            }
        }
    }
}

/// The text of a scalar for a field that wants text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(bool) => Some(bool.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() => strconv::format_float(float, 'g', -1, 32),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
