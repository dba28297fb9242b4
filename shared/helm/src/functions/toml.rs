//! TOML as the usual encoder of Go writes it: simple keys first, tables indented by their depth.

use std::fmt::Write as _;

use gotemplate::{List, Map, Str, Value};
use vela_gocompat::strconv;
use vela_gocompat::time;

use crate::objects::{self, SemanticVersion, Time};

/// A text that is not TOML.
#[derive(Debug, thiserror::Error)]
#[error("toml: line {line}{}: {what}", last(.key))]
pub(super) struct TomlError {
    line: usize,
    /// The key that was read last, with those of its tables.
    key: String,
    what: String,
}

fn last(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" (last key {})", strconv::quote(key)) }
}

/// A value that TOML has no text for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritable {
    #[error("toml: cannot encode a {0}")]
    Kind(String),
    #[error("toml: cannot encode array with nil element")]
    NilElement,
    #[error("toml: top-level values must be Go maps or structs")]
    Top,
}

const BLANK: [char; 2] = [' ', '\t'];

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Map, TomlError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        // An error at a line break belongs to the line that it ends.
        let line = before.matches('\n').count();
        let mut start = before.rfind('\n').map_or(0, |at| at + 1);
        // A line without a key is noticed only behind its end.
        let (above, _) = text.split_at(start.saturating_sub(1));
        let above = above.rfind('\n').map_or(0, |at| at + 1);
        let mut line = line;
        if start > 0
            && text.get(above..).is_some_and(|rest| rest.trim_start_matches(BLANK).starts_with('='))
        {
            (start, line) = (above, line - 1);
        }
        let (earlier, rest) = text.split_at_checked(start).unwrap_or(("", text));
        let known = last_key(earlier);
        let (key, what) =
            go_error(rest, known.clone()).unwrap_or_else(|| (known, error.message().to_owned()));
        TomlError { line: line + 1, key, what }
    })?;
    Ok(map(table))
}

/// The key of the last line that has one, behind that of its table.
fn last_key(text: &str) -> String {
    let (mut table, mut key) = (String::new(), "");
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(['[', ']', ' ']).to_owned();
            key = "";
        } else if let Some((name, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            key = name.trim();
        }
    }
    match (table.is_empty(), key.is_empty()) {
        (true, _) => key.to_owned(),
        (false, true) => table,
        (false, false) => format!("{table}.{key}"),
    }
}

/// The last key and the text of Go's reader, for mistakes in a key and for a word that is no value: what people get who
/// give it a text of another language.
fn go_error(rest: &str, known: String) -> Option<(String, String)> {
    let rest = rest.trim_start_matches(BLANK);
    if rest.starts_with('=') {
        return Some((known, "unexpected '=': key name appears blank".to_owned()));
    }
    if rest.starts_with('.') {
        return Some((known, "unexpected '.': keys cannot start with a '.'".to_owned()));
    }
    if let Some(name) = rest.strip_prefix("[[") {
        return table_error(name, true).map(|what| (known, what));
    }
    if let Some(name) = rest.strip_prefix('[') {
        return table_error(name, false).map(|what| (known, what));
    }
    let quote = rest.chars().next().filter(|char| matches!(char, '"' | '\''));
    if let Some(quote) =
        quote.filter(|quote| !rest.get(1..).is_some_and(|it| it.contains([*quote, '\n'])))
    {
        let quote = strconv::quote(&quote.to_string());
        let quote = if quote.contains('\\') { "'\"'".to_owned() } else { quote };
        return Some((known, format!("unexpected EOF; expected {quote}")));
    }
    let mut key = Vec::new();
    let mut at = rest;
    let value = loop {
        let end = match at.chars().next()? {
            quote @ ('"' | '\'') => at.get(1..)?.find(quote)? + 2,
            _ => at.find(|char| !is_bare(char)).unwrap_or(at.len()),
        };
        if end > 0 {
            key.push(at.get(..end)?.trim_matches(['"', '\'']));
        }
        at = at.get(end..)?.trim_start_matches(BLANK);
        match at.chars().next() {
            Some('.') if end > 0 => {
                at = at.get(1..)?.trim_start_matches(BLANK);
                if at.is_empty() || at.starts_with('=') {
                    return Some((known, "unexpected '='".to_owned()));
                }
            }
            Some('=') if end > 0 => break at.get(1..)?.trim_start_matches(BLANK),
            Some(other) => {
                let other = strconv::quote_char(other);
                return Some((known, format!("expected '.' or '=', but got {other} instead")));
            }
            None => {
                return Some((known, "unexpected EOF; expected key separator '='".to_owned()));
            }
        }
    };
    let key = key.join(".");
    let what = match value.chars().next() {
        None => "unexpected EOF; expected value".to_owned(),
        Some('\n') => "expected value but found '\\n' instead".to_owned(),
        Some(other @ (':' | '=')) => {
            format!("expected value but found {} instead", strconv::quote_char(other))
        }
        Some('-' | '+') if value.len() == 1 => "expected a digit but got '\\x00'".to_owned(),
        Some(letter) if letter.is_ascii_alphabetic() => {
            let end = value.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(value.len());
            format!("expected value but found {} instead", strconv::quote(value.get(..end)?))
        }
        _ => return None,
    };
    Some((key, what))
}

/// What Go's reader says about the name of a table, up to the end of the text.
fn table_error(name: &str, is_array: bool) -> Option<String> {
    let mut at = name.trim_start_matches(BLANK);
    loop {
        let end = match at.chars().next() {
            None | Some(']') => {
                return Some(
                    "unexpected end of table name (table names cannot be empty)".to_owned(),
                );
            }
            Some('.') => {
                return Some("unexpected table separator (table names cannot be empty)".to_owned());
            }
            Some(quote @ ('"' | '\'')) => at.get(1..)?.find(quote)? + 2,
            Some(_) => at.find(|char| !is_bare(char)).unwrap_or(at.len()),
        };
        at = at.get(end..)?.trim_start_matches(BLANK);
        let next = at.chars().next().unwrap_or('\0');
        match next {
            _ if end == 0 => return None,
            '.' => at = at.get(1..)?.trim_start_matches(BLANK),
            // It names the line behind.
            '\n' => return None,
            ']' => {
                let after = at.chars().nth(1).unwrap_or('\0');
                let after = strconv::quote_char(after);
                let open = is_array && !at.starts_with("]]");
                return open.then(|| {
                    format!(
                        "expected end of table array name delimiter ']', but got {after} instead"
                    )
                });
            }
            other => {
                let other = strconv::quote_char(other);
                return Some(format!(
                    "expected '.' or ']' to end table name, but got {other} instead"
                ));
            }
        }
    }
}

/// Whether a key may have it without quotes.
fn is_bare(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_')
}

fn map(table: toml::Table) -> Map {
    table.into_iter().map(|(key, found)| (Str::from(key), value(found))).collect()
}

fn value(found: toml::Value) -> Value {
    match found {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(int) => Value::int64(int),
        toml::Value::Float(float) => float.into(),
        toml::Value::Boolean(bool) => bool.into(),
        toml::Value::Datetime(at) => {
            let text = at.to_string();
            let layouts = [time::RFC3339_NANO, "2006-01-02T15:04:05.999999999", "2006-01-02"];
            let parsed = layouts.iter().find_map(|layout| time::parse(layout, &text).ok());
            parsed.map_or_else(|| Value::from(text), |at| Time(at).into())
        }
        toml::Value::Array(items) => List::new(items.into_iter().map(value).collect()).into(),
        toml::Value::Table(table) => map(table).into(),
    }
}

/// Writes a value, which has been seen not to nest too deep.
pub(super) fn write(value: &Value) -> Result<String, Unwritable> {
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
            Value::Map(map) => self.inline(map.entries())?,
            Value::Object(_) => {
                if let Some(at) = value.downcast_ref::<Time>() {
                    self.out.push_str(&time::format(&at.0, time::RFC3339_NANO));
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
    let key = key.to_str_lossy();
    if !key.is_empty() && key.chars().all(is_bare) { key.into_owned() } else { quoted(&key) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_other_languages_fail_as_in_go() {
        for (text, want) in [
            ("x", "toml: line 1: unexpected EOF; expected key separator '='"),
            ("x\ny=1", "toml: line 1: expected '.' or '=', but got '\\n' instead"),
            ("a: 1", "toml: line 1: expected '.' or '=', but got ':' instead"),
            (
                "# c\n[x]\na b",
                "toml: line 3 (last key \"x\"): expected '.' or '=', but got 'b' instead",
            ),
            ("a =", "toml: line 1 (last key \"a\"): unexpected EOF; expected value"),
            ("a = yes", "toml: line 1 (last key \"a\"): expected value but found \"yes\" instead"),
            ("= 1", "toml: line 1: unexpected '=': key name appears blank"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), want, "{text}");
        }
    }
}
