//! A value as Go writes it as JSON, without a value of JSON in between: fields of structs keep their order.

use std::borrow::Cow;
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
    if !matches!(style, Style::Pretty) {
        let mut writer = Writer { out: String::new(), is_html };
        writer.node(value, 0)?;
        return Ok(writer.out);
    }
    let deep = Cell::new(false);
    let written = Written { value, depth: 0, is_html, deep: &deep };
    go::to_string_indent(&written, "", "  ").map_err(|error| {
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

/// Writes a value in one line. Charts convert megabytes so, which a serializer takes twice the time for.
struct Writer {
    out: String,
    is_html: bool,
}

impl Writer {
    fn node(&mut self, value: &Value, depth: usize) -> Result<(), JsonError> {
        if depth > DEEPEST {
            return Err(JsonError::Deep(OverBudget::Depth(DEEPEST)));
        }
        match value {
            Value::NoValue | Value::Nil => self.out.push_str("null"),
            Value::Bool(bool) => self.out.push_str(if *bool { "true" } else { "false" }),
            Value::Int(_, int) => self.out.push_str(&int.to_string()),
            Value::Uint(_, uint) => self.out.push_str(&uint.to_string()),
            Value::Float(float) if float.is_finite() => go::push_f64(&mut self.out, *float),
            Value::Float(float) => {
                return Err(JsonError::Number(strconv::format_float(*float, 'g', -1, 64)));
            }
            Value::String(text) => match text.as_str() {
                Some(text) => go::push_quoted(&mut self.out, text, self.is_html),
                None => self.out.push_str(&quoted(text, self.is_html)),
            },
            Value::Bytes(bytes) => {
                go::push_quoted(&mut self.out, &base64_of(bytes.as_bytes()), self.is_html);
            }
            Value::List(list) if list.is_nil() => self.out.push_str("null"),
            Value::List(list) => {
                self.out.push('[');
                for (at, item) in list.as_slice().iter().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.node(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Map(map) if map.is_nil() => self.out.push_str("null"),
            Value::Map(map) => {
                return map.read(|entries| {
                    self.fields(
                        entries.iter().map(|(key, value)| (key.to_str_lossy(), value)),
                        depth,
                    )
                });
            }
            Value::Object(object) => {
                let written = match (objects::chart(value), objects::json(value)) {
                    (Some(chart), _) => Some(self.serialized(&chart)),
                    (None, Some(json)) => Some(self.serialized(&json)),
                    (None, None) => None,
                };
                if let Some(written) = written {
                    return written.map_err(|error| JsonError::Unsupported(error.to_string()));
                }
                match object.underlying() {
                    Underlying::Value(value) => return self.node(&value, depth + 1),
                    Underlying::Struct | Underlying::Pointer => {
                        let field = |name: &&str| object.field(name).unwrap_or_default();
                        let names = object.fields();
                        let values: Vec<Value> = names.iter().map(field).collect();
                        let names = names.iter().map(|name| Cow::Borrowed(*name));
                        return self.fields(names.zip(&values), depth);
                    }
                    Underlying::Func => return Err(JsonError::Kind(object.type_of().to_string())),
                }
            }
        }
        Ok(())
    }

    fn fields<'v>(
        &mut self,
        fields: impl Iterator<Item = (Cow<'v, str>, &'v Value)>,
        depth: usize,
    ) -> Result<(), JsonError> {
        self.out.push('{');
        for (at, (key, value)) in fields.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            go::push_quoted(&mut self.out, &key, self.is_html);
            self.out.push(':');
            self.node(value, depth + 1)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn serialized(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        let text =
            if self.is_html { go::to_string(value)? } else { go::to_string_unescaped(value)? };
        self.out.push_str(&text);
        Ok(())
    }
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
