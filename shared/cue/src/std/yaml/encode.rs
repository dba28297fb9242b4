//! Values to YAML text, in the style of go-yaml v3 with an indent of two, as CUE's
//! `yaml.Marshal` sets it: block collections, literal blocks for text of several lines, double
//! quotes for what an older YAML would misread.

use std::sync::OnceLock;

use regex::Regex;

use super::super::BuiltinError;
use super::scalar::{Resolved, resolve};
use crate::limits::{Budget, LimitError};
use crate::value::{Number, Value};

/// Longest key that is written as `key: value`.
const SIMPLE_KEY: usize = 128;

/// Writes one document, with its final line feed.
pub(crate) fn write(
    value: &Value,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), BuiltinError> {
    let mut writer = Writer { out, budget };
    writer.value(value, 0, Place::Start)
}

/// What stands before a value on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing: the start of a document.
    Start,
    /// `- ` or `? ` or `: `; a collection begins on the same line.
    Inline,
    /// `key:`; a collection begins on the next line.
    Key,
}

struct Writer<'a, 'b> {
    out: &'a mut String,
    budget: &'b mut Budget,
}

impl Writer<'_, '_> {
    fn indent(&mut self, by: usize) {
        self.out.extend(std::iter::repeat_n(' ', by));
    }

    /// A value whose lines are indented by `indent`, up to its line feed.
    fn value(&mut self, value: &Value, indent: usize, place: Place) -> Result<(), BuiltinError> {
        self.budget.steps(1)?;
        if self.out.len() as u64 > self.budget.limits().string {
            return Err(self.budget.cross(LimitError::String).into());
        }
        match value {
            Value::List(elements) if !elements.is_empty() => {
                let mut first = self.open(place);
                for element in elements {
                    if !first {
                        self.indent(indent);
                    }
                    first = false;
                    self.out.push_str("- ");
                    self.value(element, indent + 2, Place::Inline)?;
                }
                Ok(())
            }
            Value::Struct(fields) if !fields.is_empty() => {
                let mut first = self.open(place);
                for (key, value) in fields {
                    if !first {
                        self.indent(indent);
                    }
                    first = false;
                    self.field(key, value, indent)?;
                }
                Ok(())
            }
            scalar => {
                if place == Place::Key {
                    self.out.push(' ');
                }
                self.scalar(scalar, indent, place);
                self.out.push('\n');
                Ok(())
            }
        }
    }

    /// Begins a collection; whether its first line is indented already.
    fn open(&mut self, place: Place) -> bool {
        if place == Place::Key {
            self.out.push('\n');
            return false;
        }
        true
    }

    fn field(&mut self, key: &str, value: &Value, indent: usize) -> Result<(), BuiltinError> {
        if key.len() > SIMPLE_KEY {
            self.out.push_str("? ");
            self.key(key);
            self.out.push('\n');
            self.indent(indent);
            self.out.push_str(": ");
            return self.value(value, indent + 2, Place::Inline);
        }
        self.key(key);
        self.out.push(':');
        self.value(value, indent + 2, Place::Key)
    }

    fn key(&mut self, key: &str) {
        match style(key) {
            Style::Plain => self.out.push_str(key),
            Style::Single => self.single_quoted(key),
            Style::Double | Style::Literal => self.double_quoted(key),
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, place: Place) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Number(n) => self.out.push_str(&number(n)),
            Value::Bytes(bytes) => {
                use base64::Engine as _;
                self.out.push_str("!!binary ");
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                if text.is_empty() {
                    self.out.push_str("\"\"");
                } else {
                    self.out.push_str(&text);
                }
            }
            Value::List(_) => self.out.push_str("[]"),
            Value::Struct(_) => self.out.push_str("{}"),
            Value::String(text) => match style(text) {
                Style::Plain => self.out.push_str(text),
                Style::Single => self.single_quoted(text),
                Style::Double => self.double_quoted(text),
                Style::Literal => {
                    self.literal(text, if place == Place::Start { 2 } else { indent });
                }
            },
        }
    }

    fn single_quoted(&mut self, text: &str) {
        self.out.push('\'');
        self.out.push_str(&text.replace('\'', "''"));
        self.out.push('\'');
    }

    fn double_quoted(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            let short = match c {
                '"' => "\\\"",
                '\\' => "\\\\",
                '\0' => "\\0",
                '\u{7}' => "\\a",
                '\u{8}' => "\\b",
                '\t' => "\\t",
                '\n' => "\\n",
                '\u{b}' => "\\v",
                '\u{c}' => "\\f",
                '\r' => "\\r",
                '\u{1b}' => "\\e",
                '\u{85}' => "\\N",
                '\u{2028}' => "\\L",
                '\u{2029}' => "\\P",
                c if is_printable(c) => {
                    self.out.push(c);
                    continue;
                }
                c => {
                    let escape = match c as u32 {
                        n @ 0..=0xff => format!("\\x{n:02X}"),
                        n @ 0x100..=0xffff => format!("\\u{n:04X}"),
                        n => format!("\\U{n:08X}"),
                    };
                    self.out.push_str(&escape);
                    continue;
                }
            };
            self.out.push_str(short);
        }
        self.out.push('"');
    }

    /// `|` with its hints, the lines below; no final line feed.
    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            self.out.push('2');
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.out.push('\n');
            if !line.is_empty() {
                self.indent(indent);
                self.out.push_str(line);
            }
        }
    }
}

fn number(n: &Number) -> String {
    let text = n.to_string();
    if !n.is_int() && !text.contains(['.', 'e', 'E']) { text + "." } else { text }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Printable for libyaml; notably nothing beyond the basic plane.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// Strings that some YAML 1.1 reader takes for something else.
fn is_legacy(text: &str) -> bool {
    static DATES: OnceLock<Option<Regex>> = OnceLock::new();
    let word = matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "t"
            | "T"
            | "f"
            | "F"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
            | "on"
            | "On"
            | "ON"
            | "off"
            | "Off"
            | "OFF"
            | ".Nan"
    );
    if word {
        return true;
    }
    if !text.starts_with([
        '-', '+', '.', ':', ' ', '\t', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
    ]) {
        return false;
    }
    // Dates, times, sexagesimal floats, hexadecimal numbers.
    DATES
        .get_or_init(|| {
            Regex::new(r"^[-+0-9:. \t]+([-:]|[tT])[-+0-9:. \t]+[zZ]?$|^0x[a-fA-F0-9]+$").ok()
        })
        .as_ref()
        .is_some_and(|dates| dates.is_match(text))
}

fn style(text: &str) -> Style {
    let special = text.chars().any(|c| c != '\t' && !is_printable(c));
    if text.contains('\n') {
        // A space before a line feed is not safe in a block; nor is one at the very end.
        let space_break = text.contains(" \n");
        return if special || space_break || text.ends_with(' ') {
            Style::Double
        } else {
            Style::Literal
        };
    }
    if is_legacy(text) || !matches!(resolve(text), Ok(Resolved::String)) {
        return Style::Double;
    }
    // Neither plain nor single quotes can hold these.
    if special || text.contains(['\t', '\u{2028}', '\u{2029}']) {
        return Style::Double;
    }
    if is_plain(text) { Style::Plain } else { Style::Single }
}

/// Whether text of one line without special characters can stand in a block without quotes.
fn is_plain(text: &str) -> bool {
    if text.starts_with(' ') || text.ends_with(' ') {
        return false;
    }
    if text.starts_with("---") || text.starts_with("...") {
        return false;
    }
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let space_follows = chars.peek().is_none_or(|c| *c == ' ');
        let indicator = match c {
            ':' => space_follows,
            '#' => first || before == ' ',
            '-' | '?' if first => space_follows,
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => first,
            _ => false,
        };
        if indicator {
            return false;
        }
        first = false;
        before = c;
    }
    true
}
