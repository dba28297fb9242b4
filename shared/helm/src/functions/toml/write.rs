//! TOML as the usual encoder of Go writes it: simple keys first, tables indented by their depth.

use std::fmt::Write as _;

use gotemplate::{Str, Value};
use vela_gocompat::strconv;
use vela_gocompat::time;

use super::{LOCAL, quoted};
use crate::objects::{self, SemanticVersion, Time};

/// A value that TOML has no text for.
#[derive(Debug, thiserror::Error)]
pub(in crate::functions) enum Unwritable {
    #[error("toml: cannot encode a {0}")]
    Kind(String),
    #[error("toml: cannot encode array with nil element")]
    NilElement,
    #[error("toml: top-level values must be Go maps or structs")]
    Top,
}

/// Writes a value, which has been seen not to nest too deep.
pub(in crate::functions) fn write(value: &Value) -> Result<String, Unwritable> {
    let mut writer = Writer { out: String::new() };
    match value.underlying() {
        list if is_tables(&list) => return Err(Unwritable::Top),
        other => match entries(&other) {
            Some(entries) => writer.table(&mut Vec::new(), entries)?,
            None => writer.element(&other)?,
        },
    }
    Ok(writer.out)
}

struct Writer {
    out: String,
}

impl Writer {
    fn line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, path: &[Str]) {
        for _ in 1..path.len() {
            self.out.push_str("  ");
        }
    }

    fn table(
        &mut self,
        path: &mut Vec<Str>,
        entries_of: Vec<(Str, Value)>,
    ) -> Result<(), Unwritable> {
        let present = entries_of.into_iter().filter(|(_, value)| !is_nil(value));
        let (tables, simple): (Vec<_>, Vec<_>) = present
            .map(|(key, value)| (key, value.underlying()))
            .partition(|(_, value)| is_table(value) || is_tables(value));
        for (key, value) in simple {
            path.push(key);
            self.indent(path);
            let key = path.last().map(quoted_key).unwrap_or_default();
            let _ = write!(self.out, "{key} = ");
            self.element(&value)?;
            self.line();
            path.pop();
        }
        for (key, value) in tables {
            path.push(key);
            let name = path.iter().map(quoted_key).collect::<Vec<_>>().join(".");
            match (entries(&value), value) {
                (Some(below), _) => {
                    if path.len() == 1 {
                        self.line();
                    }
                    self.indent(path);
                    let _ = write!(self.out, "[{name}]");
                    self.line();
                    self.table(path, below)?;
                }
                (None, Value::List(list)) => {
                    for item in list.as_slice() {
                        self.line();
                        self.indent(path);
                        let _ = write!(self.out, "[[{name}]]");
                        self.line();
                        if let Some(below) = entries(&item.underlying()) {
                            self.table(path, below)?;
                        }
                    }
                }
                _ => {}
            }
            path.pop();
        }
        Ok(())
    }

    /// A map within a list: tables come last, and a value that is left out leaves its comma.
    fn inline_map(&mut self, entries: Vec<(Str, Value)>) -> Result<(), Unwritable> {
        let below = |value: &Value| !is_nil(value) && (is_table(value) || is_tables(value));
        let entries = entries.into_iter().map(|(key, value)| (key, value.underlying()));
        let (tables, simple): (Vec<_>, Vec<_>) = entries.partition(|(_, value)| below(value));
        self.out.push('{');
        for (entries, more) in [(&simple, !tables.is_empty()), (&tables, false)] {
            for (at, (key, value)) in entries.iter().enumerate() {
                if is_nil(value) {
                    continue;
                }
                let _ = write!(self.out, "{} = ", quoted_key(key));
                self.element(value)?;
                if more || at + 1 != entries.len() {
                    self.out.push_str(", ");
                }
            }
        }
        self.out.push('}');
        Ok(())
    }

    /// A struct within a list.
    fn inline(
        &mut self,
        entries: impl IntoIterator<Item = (Str, Value)>,
    ) -> Result<(), Unwritable> {
        self.out.push('{');
        let present = entries.into_iter().filter(|(_, value)| !is_nil(value));
        for (at, (key, value)) in present.enumerate() {
            if at > 0 {
                self.out.push_str(", ");
            }
            let _ = write!(self.out, "{} = ", quoted_key(&key));
            self.element(&value)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn element(&mut self, value: &Value) -> Result<(), Unwritable> {
        match value.underlying() {
            Value::Bool(bool) => self.out.push_str(if bool { "true" } else { "false" }),
            Value::Int(_, int) => {
                let _ = write!(self.out, "{int}");
            }
            Value::Uint(_, uint) => {
                let _ = write!(self.out, "{uint}");
            }
            Value::Float(float) => {
                let text = match float {
                    float if float.is_nan() => "nan".to_owned(),
                    float if float.is_infinite() => {
                        if float > 0.0 { "+inf" } else { "-inf" }.to_owned()
                    }
                    float => strconv::format_float(float, 'f', -1, 64),
                };
                self.out.push_str(&text);
                if float.is_finite() && !text.contains('.') {
                    self.out.push_str(".0");
                }
            }
            Value::String(text) => self.out.push_str(&quoted(&text.to_str_lossy())),
            Value::Bytes(bytes) => {
                self.out.push('[');
                for (at, byte) in bytes.as_bytes().iter().enumerate() {
                    let _ = write!(self.out, "{}{byte}", if at > 0 { ", " } else { "" });
                }
                self.out.push(']');
            }
            Value::List(list) => {
                self.out.push('[');
                for (at, item) in list.as_slice().iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(", ");
                    }
                    if item.is_nothing() {
                        return Err(Unwritable::NilElement);
                    }
                    self.element(item)?;
                }
                self.out.push(']');
            }
            Value::Map(map) => self.inline_map(map.entries())?,
            Value::Object(_) => {
                if let Some(at) = value.downcast_ref::<Time>() {
                    self.out.push_str(&time::format(&at.0, layout(&at.0.zone)));
                } else if let Some(version) = value.downcast_ref::<SemanticVersion>() {
                    self.out.push_str(&quoted(&version.version.to_string()));
                } else if let Some(fields) = objects::fields(value) {
                    self.inline(fields)?;
                } else {
                    let kind = value.type_of().map(|kind| kind.to_string());
                    return Err(Unwritable::Kind(kind.unwrap_or_default()));
                }
            }
            Value::NoValue | Value::Nil => return Err(Unwritable::Kind("nil".to_owned())),
        }
        Ok(())
    }
}

/// How a time is written: as the kind of time that was read.
fn layout(zone: &str) -> &'static str {
    LOCAL.iter().find(|(_, of)| *of == zone).map_or(time::RFC3339_NANO, |(layout, _)| layout)
}

/// What a table has, in its order: keys of a map, fields of a struct.
fn entries(value: &Value) -> Option<Vec<(Str, Value)>> {
    match value {
        Value::Map(map) => Some(map.entries().into_iter().collect()),
        value => objects::fields(value),
    }
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Map(_)) || objects::is_struct(value)
}

fn is_tables(value: &Value) -> bool {
    match value {
        Value::List(list) => {
            !list.is_empty() && list.as_slice().iter().all(|item| is_table(&item.underlying()))
        }
        _ => false,
    }
}

/// Nothing, and the lists and maps that are nil: they are left out.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn quoted_key(key: &Str) -> String {
    super::key(&key.to_str_lossy())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::from_json;

    #[test]
    fn maps_in_lists_have_tables_last_and_commas_of_what_is_left_out() {
        for (value, want) in [
            (json!({"v": [[], {"a": true, "b": null}]}), "v = [[], {a = true, }]\n"),
            (json!({"v": [[], {"": {}, "a": true}]}), "v = [[], {a = true, \"\" = {}}]\n"),
            (json!({"v": [[], {"a": null, "b": "x"}]}), "v = [[], {b = \"x\"}]\n"),
        ] {
            assert_eq!(write(&from_json(&value)).unwrap(), want);
        }
    }
}
