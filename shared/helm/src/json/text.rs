//! A value as Go writes it as JSON, without a value of JSON in between: fields of structs keep their order.

use std::cell::Cell;

use gotemplate::{Object, Str, Underlying, Value};
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use vela_gocompat::json as go;
use vela_gocompat::strconv;

use super::write::{DEEPEST, JsonError, base64_of};
use crate::engine::state::OverBudget;
use crate::objects;

/// How the text is laid out.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Compact,
    /// `<`, `>` and `&` are themselves.
    Raw,
    /// Two blanks a level.
    Pretty,
}

/// Writes a value.
pub(crate) fn to_text(value: &Value, style: Style) -> Result<String, JsonError> {
    let is_html = !matches!(style, Style::Raw);
    // Files of half a megabyte are written so.
    if let Value::String(text) = value {
        return Ok(quoted(text, is_html));
    }
    let deep = Cell::new(false);
    let written = Written { value, depth: 0, is_html, deep: &deep };
    let text = match style {
        Style::Compact => go::to_string(&written),
        Style::Raw => go::to_string_unescaped(&written),
        Style::Pretty => go::to_string_indent(&written, "", "  "),
    };
    text.map_err(|error| {
        if deep.get() {
            JsonError::Deep(OverBudget::Depth(DEEPEST))
        } else {
            JsonError::Unsupported(error.to_string())
        }
    })
}

/// A text; a byte that is not of UTF-8 is escaped as U+FFFD, which as a character is not.
fn quoted(text: &Str, is_html: bool) -> String {
    if let Some(text) = text.as_str() {
        return go::quoted(text, is_html);
    }
    let mut out = String::from("\"");
    for chunk in text.as_bytes().utf8_chunks() {
        let valid = go::quoted(chunk.valid(), is_html);
        out.push_str(valid.get(1..valid.len() - 1).unwrap_or_default());
        out.push_str(&"\\ufffd".repeat(chunk.invalid().len()));
    }
    out.push('"');
    out
}

struct Written<'v> {
    value: &'v Value,
    depth: usize,
    /// Whether `<`, `>` and `&` are escaped.
    is_html: bool,
    /// Whether the value nests too deep.
    deep: &'v Cell<bool>,
}

impl Written<'_> {
    fn below<'v>(&'v self, value: &'v Value) -> Written<'v> {
        Written { value, depth: self.depth + 1, ..*self }
    }

    fn fields<S: Serializer>(&self, object: &dyn Object, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(object.fields().len()))?;
        for name in object.fields() {
            let value = object.field(name).unwrap_or_default();
            map.serialize_entry(name, &self.below(&value))?;
        }
        map.end()
    }
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth > DEEPEST {
            self.deep.set(true);
            return Err(S::Error::custom("nested too deep"));
        }
        match self.value {
            Value::NoValue | Value::Nil => serializer.serialize_unit(),
            Value::Bool(bool) => serializer.serialize_bool(*bool),
            Value::Int(_, int) => serializer.serialize_i64(*int),
            Value::Uint(_, uint) => serializer.serialize_u64(*uint),
            Value::Float(float) if float.is_finite() => serializer.serialize_f64(*float),
            Value::Float(float) => {
                let text = strconv::format_float(*float, 'g', -1, 64);
                Err(S::Error::custom(format!("json: unsupported value: {text}")))
            }
            Value::String(text) => match text.as_str() {
                Some(text) => serializer.serialize_str(text),
                None => RawValue::from_string(quoted(text, self.is_html))
                    .map_err(S::Error::custom)?
                    .serialize(serializer),
            },
            Value::Bytes(bytes) => serializer.serialize_str(&base64_of(bytes.as_bytes())),
            Value::List(list) if list.is_nil() => serializer.serialize_unit(),
            Value::List(list) => {
                let mut items = serializer.serialize_seq(Some(list.len()))?;
                for item in list.as_slice() {
                    items.serialize_element(&self.below(item))?;
                }
                items.end()
            }
            Value::Map(map) if map.is_nil() => serializer.serialize_unit(),
            Value::Map(map) => map.read(|entries| {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries.iter() {
                    map.serialize_entry(&*key.to_str_lossy(), &self.below(value))?;
                }
                map.end()
            }),
            Value::Object(object) => {
                if let Some(chart) = objects::chart(self.value) {
                    return chart.serialize(serializer);
                }
                if let Some(json) = objects::json(self.value) {
                    return json.serialize(serializer);
                }
                match object.underlying() {
                    Underlying::Value(value) => self.below(&value).serialize(serializer),
                    Underlying::Struct | Underlying::Pointer => self.fields(&**object, serializer),
                    Underlying::Func => {
                        let of = object.type_of();
                        Err(S::Error::custom(format!("json: unsupported type: {of}")))
                    }
                }
            }
        }
    }
}
