//! Texts as CUE literals and labels.

use crate::lexer::{Lexer, TokenKind};

/// The text of a string as a literal, in the form cue prints: one line, or `"""` if the value has
/// line ends.
#[must_use]
pub fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    escape(value, &mut out);
    out.push('"');
    out
}

/// The text of a string with line ends as a `"""` literal, without indentation.
#[must_use]
pub fn quote_lines(value: &str) -> String {
    let mut out = String::from("\"\"\"\n");
    for line in value.split('\n') {
        for (index, part) in line.split("\"\"\"").enumerate() {
            out.push_str(if index > 0 { "\\\"\\\"\\\"" } else { "" });
            for (index, quoted) in part.split('"').enumerate() {
                out.push_str(if index > 0 { "\"" } else { "" });
                escape(quoted, &mut out);
            }
        }
        out.push('\n');
    }
    out.push_str("\"\"\"");
    out
}

/// The text of a label: bare if it is a plain name, else quoted.
#[must_use]
pub fn quote_label(name: &str) -> String {
    if is_plain_label(name) { name.to_owned() } else { quote(name) }
}

/// Whether a regular field of that name needs no quotes.
#[must_use]
pub fn is_plain_label(name: &str) -> bool {
    if name.is_empty() || name.starts_with(['_', '#']) {
        return false;
    }
    let mut lexer = Lexer::new(name);
    let token = lexer.next_token();
    token.kind == TokenKind::Ident && token.span.end as usize == name.len()
}

fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{feff}' => out.push_str("\\ufeff"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// The text of a bytes literal with that value.
#[must_use]
pub fn quote_bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push_str("\\'"),
                '"' => out.push('"'),
                c => escape(c.encode_utf8(&mut [0; 4]), &mut out),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('\'');
    out
}
