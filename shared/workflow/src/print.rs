//! Data as CUE text.

use cue_syntax::{ParseLimits, quote, quote_label};
use serde_json::Value;

/// CUE text as `cue fmt` writes it; text that cannot be read stays as it is.
pub(crate) fn formatted(text: String) -> String {
    let (file, problems) = cue_syntax::parse("vars", &text, &ParseLimits::default());
    let formatted = if problems.is_empty() { cue_syntax::format(&file) } else { text };
    if formatted.ends_with('\n') { formatted } else { formatted + "\n" }
}

/// Appends a value, unformatted.
pub(crate) fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) => out.push_str(&quote(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(fields) => {
            out.push_str("{\n");
            for (name, field) in fields {
                out.push_str(&quote_label(name));
                out.push_str(": ");
                print(field, out);
                out.push('\n');
            }
            out.push('}');
        }
    }
}
