//! Values to TOML, in the style of go-toml v2: keys sorted, plain values before tables, literal
//! strings where they can be.

use super::super::args::fail;
use super::super::{BuiltinError, json};
use crate::limits::{Budget, LimitError};
use crate::value::{Fields, Value};

type Result<T> = std::result::Result<T, BuiltinError>;

pub(super) fn write(fields: &Fields, out: &mut String, budget: &mut Budget) -> Result<()> {
    table(fields, &mut Vec::new(), out, budget)
}

/// A list that is written as `[[tables]]`.
fn is_table_list(value: &Value) -> bool {
    value.as_list().is_some_and(|l| !l.is_empty() && l.iter().all(|v| v.as_struct().is_some()))
}

/// The fields of a table whose header, if any, is written.
fn table(
    fields: &Fields,
    path: &mut Vec<String>,
    out: &mut String,
    budget: &mut Budget,
) -> Result<()> {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    let (tables, plain): (Vec<_>, Vec<_>) =
        sorted.into_iter().partition(|(_, v)| v.as_struct().is_some() || is_table_list(v));
    for (name, field) in plain {
        check(out, budget)?;
        key(name, out);
        out.push_str(" = ");
        value(field, out, budget)?;
        out.push('\n');
    }
    for (name, field) in tables {
        check(out, budget)?;
        let mut text = String::new();
        key(name, &mut text);
        path.push(text);
        match field {
            Value::Struct(inner) => {
                header(path, "[", "]", out);
                table(inner, path, out, budget)?;
            }
            other => {
                for element in other.as_list().unwrap_or_default() {
                    header(path, "[[", "]]", out);
                    if let Value::Struct(inner) = element {
                        table(inner, path, out, budget)?;
                    }
                }
            }
        }
        path.pop();
    }
    Ok(())
}

/// An empty line before a table, except directly below the header of the one around it.
fn header(path: &[String], open: &str, close: &str, out: &mut String) {
    let below_header = out.strip_suffix('\n').is_some_and(|text| {
        text.rsplit('\n').next().is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
    });
    if !out.is_empty() && !below_header {
        out.push('\n');
    }
    out.push_str(open);
    out.push_str(&path.join("."));
    out.push_str(close);
    out.push('\n');
}

fn check(out: &str, budget: &mut Budget) -> Result<()> {
    budget.steps(1)?;
    if out.len() as u64 > budget.limits().string {
        return Err(budget.cross(LimitError::String).into());
    }
    Ok(())
}

fn key(name: &str, out: &mut String) {
    let bare = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { out.push_str(name) } else { text(name, out) }
}

/// `'literal'`, or `"basic"` for what a literal cannot hold.
fn text(text: &str, out: &mut String) {
    if !text.contains('\'') && !text.contains(char::is_control) {
        out.push('\'');
        out.push_str(text);
        out.push('\'');
        return;
    }
    // JSON's escapes are TOML's, but for the line separators, which TOML writes as they are.
    let mut quoted = String::new();
    json::write_string(text, &mut quoted);
    out.push_str(&quoted.replace('\u{7f}', "\\u007f"));
}

fn value(value_: &Value, out: &mut String, budget: &mut Budget) -> Result<()> {
    check(out, budget)?;
    match value_ {
        Value::Null => return fail("toml: null has no equivalent in TOML"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) if n.is_int() => out.push_str(&n.to_decimal().to_plain()),
        Value::Number(n) => {
            let plain = vela_gocompat::strconv::format_float(n.to_f64(), 'f', -1, 64);
            out.push_str(&plain);
            if !plain.contains('.') {
                out.push_str(".0");
            }
        }
        Value::String(s) => text(s, out),
        Value::Bytes(b) => text(&String::from_utf8_lossy(b), out),
        Value::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                value(element, out, budget)?;
            }
            out.push(']');
        }
        Value::Struct(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (name, field)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                key(name, out);
                out.push_str(" = ");
                value(field, out, budget)?;
            }
            out.push('}');
        }
    }
    Ok(())
}
