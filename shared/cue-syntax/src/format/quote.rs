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
            c => escape_char(c, out),
        }
    }
}

/// A character as texts and bytes have it alike. What does not show is escaped.
fn escape_char(c: char, out: &mut String) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        c if shows(c) => out.push(c),
        c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// Whether a character shows by itself, as letters, signs and the plain blank do. The table is that of the
/// standard library's debug form, which escapes a combining character only where it comes first.
fn shows(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().count() == 2
}

/// The text of a bytes literal with that value. What does not show is escaped as in texts, but for
/// control characters, which are bytes.
#[must_use]
pub fn quote_bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push_str("\\'"),
                '\u{0}'..'\u{7}' | '\u{e}'..'\u{20}' => {
                    out.push_str(&format!("\\x{:02x}", u32::from(c)));
                }
                c => escape_char(c, &mut out),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cue v0.14.1 writes of the same values.
    #[test]
    fn what_does_not_show_is_escaped() {
        let text = "\0\u{1}\u{7}\u{8}\u{b}\u{c}\u{1b}\u{7f}\u{85}\u{a0}\u{ad}\u{200b}\u{2028}\u{feff}\u{fffd}\u{e0001}é";
        assert_eq!(
            quote(text),
            r#""\u0000\u0001\a\b\v\f\u001b\u007f\u0085\u00a0\u00ad\u200b\u2028\ufeff\u{fffd}\U000e0001é""#
                .replace("\\u{fffd}", "\u{fffd}")
        );
        assert_eq!(quote("e\u{301}"), "\"e\u{301}\"");
        assert_eq!(
            quote_bytes(
                b"\0\x01\x07\x08\x0b\x0c\x1b\x7f\xc2\x85\xc2\xa0\xef\xbb\xbf\xff\"\\'\xc3\xa9"
            ),
            r#"'\x00\x01\a\b\v\f\x1b\u007f\u0085\u00a0\ufeff\xff"\\\'é'"#
        );
    }
}
