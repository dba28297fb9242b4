//! TOML as Helm reads and writes it.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// Layouts of the times that belong to no zone, and the names that zones of such have in Go.
const LOCAL: [(&str, &str); 3] = [
    ("2006-01-02T15:04:05.999999999", "datetime-local"),
    ("2006-01-02", "date-local"),
    ("15:04:05.999999999", "time-local"),
];

/// Whether a key may have it without quotes.
fn is_bare(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_')
}

/// A key or a text in double quotes.
fn quoted(text: &str) -> String {
    use std::fmt::Write as _;
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

/// A key as it is written: without quotes where it needs none.
fn key(text: &str) -> String {
    if !text.is_empty() && text.chars().all(is_bare) { text.to_owned() } else { quoted(text) }
}
