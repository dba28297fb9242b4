//! YAML text as Helm writes it. Both layouts share libyaml's rules for what a scalar may look like; they differ in the
//! indentation of lists, in line breaking and in the order of some keys.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use vela_gocompat::strconv;

use super::resolve::{Scalar, is_base60, resolve};

/// How a text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `toYaml`: lists stand at the column of their key, long texts are broken beyond column 80.
    Compact,
    /// `toYamlPretty`: lists are indented, lines are as long as they are.
    Pretty,
}

const INDENT: usize = 2;
/// Beyond this column [`Layout::Compact`] breaks a text at its next blank.
const WIDTH: usize = 80;
/// A longer key is written after a question mark.
const SIMPLE_KEY: usize = 128;

/// Writes a value, with the line break at the end.
#[must_use]
pub fn write(value: &Value, layout: Layout) -> String {
    let mut emitter =
        Emitter { out: String::new(), layout, column: 0, whitespace: true, indention: true };
    emitter.node(value, None, Place::Root);
    if emitter.column > 0 || !emitter.indention {
        emitter.line_break();
    }
    emitter.out
}

/// Where a node stands: it decides about the indentation of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Item,
    Value,
}

struct Emitter {
    out: String,
    layout: Layout,
    /// Characters on the present line.
    column: usize,
    /// Whether the last thing written was white space.
    whitespace: bool,
    /// Whether nothing but indentation and indicators stand on the line.
    indention: bool,
}

impl Emitter {
    fn put(&mut self, char: char) {
        self.out.push(char);
        self.column += 1;
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Goes to the column of `indent`, on a new line if the present one has been used.
    fn indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, space_before: bool, whitespace: bool, indention: bool) {
        if space_before && !self.whitespace {
            self.put(' ');
        }
        for char in text.chars() {
            self.put(char);
        }
        self.whitespace = whitespace;
        self.indention = self.indention && indention;
    }

    /// `outer` is the indentation of the collection around the node.
    fn node(&mut self, value: &Value, outer: Option<usize>, place: Place) {
        match value {
            Value::Array(list) if list.is_empty() => self.empty("[", "]"),
            Value::Object(map) if map.is_empty() => self.empty("{", "}"),
            Value::Array(list) => {
                let hanging =
                    self.layout == Layout::Compact && place == Place::Value && !self.indention;
                let indent = match outer {
                    None => 0,
                    Some(outer) if hanging => outer,
                    Some(outer) => outer + INDENT,
                };
                for item in list {
                    self.indent(indent);
                    self.indicator("-", true, false, true);
                    self.node(item, Some(indent), Place::Item);
                }
            }
            Value::Object(map) => {
                let indent = outer.map_or(0, |outer| outer + INDENT);
                for (key, value) in sorted(map, self.layout) {
                    self.indent(indent);
                    if key.len() <= SIMPLE_KEY && !key.chars().any(is_break) {
                        self.text(key, indent + INDENT, true);
                        self.indicator(":", false, false, false);
                    } else {
                        self.indicator("?", true, false, true);
                        self.text(key, indent + INDENT, false);
                        self.indent(indent);
                        self.indicator(":", true, false, true);
                    }
                    self.node(value, Some(indent), Place::Value);
                }
            }
            scalar => {
                let indent = outer.map_or(INDENT, |outer| outer + INDENT);
                match scalar {
                    Value::Null => self.plain("null", indent, false),
                    Value::Bool(bool) => self.plain(&bool.to_string(), indent, false),
                    Value::Number(number) => {
                        let text = match number.as_f64() {
                            Some(float) if number.is_f64() => {
                                strconv::format_float(float, 'g', -1, 64)
                            }
                            _ => number.to_string(),
                        };
                        self.plain(&text, indent, false);
                    }
                    Value::String(text) => self.text(text, indent, false),
                    Value::Array(_) | Value::Object(_) => {}
                }
            }
        }
    }

    fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, true, true, false);
        self.indicator(close, false, false, false);
    }

    fn text(&mut self, text: &str, indent: usize, key: bool) {
        let allowed = Allowed::of(text, self.layout);
        let ambiguous = is_base60(text)
            || !matches!(resolve(text), Scalar::Text)
            || (self.layout == Layout::Pretty && reads_as_bool_of_old(text));
        if text.contains('\n') && allowed.block && !key {
            return self.literal(text, indent);
        }
        if text.contains('\n') || ambiguous || !allowed.single {
            return self.double_quoted(text, indent, key);
        }
        if allowed.plain && !(text.is_empty() && key) {
            self.plain(text, indent, !key);
        } else {
            self.single_quoted(text, indent, !key);
        }
    }

    /// Whether a text is broken at the blank that comes next.
    fn breaks_here(&self, may_break: bool, after_blank: bool) -> bool {
        may_break && !after_blank && self.layout == Layout::Compact && self.column > WIDTH
    }

    fn plain(&mut self, text: &str, indent: usize, may_break: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut after_blank = false;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            if char == ' ' {
                if self.breaks_here(may_break, after_blank) && chars.peek() != Some(&' ') {
                    self.indent(indent);
                } else {
                    self.put(char);
                }
                after_blank = true;
            } else {
                self.put(char);
                self.indention = false;
                after_blank = false;
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, may_break: bool) {
        self.indicator("'", true, false, false);
        let mut after_blank = false;
        let mut after_break = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(char) = chars.next() {
            if char == ' ' {
                let inside = !first && chars.peek().is_some();
                if self.breaks_here(may_break, after_blank) && inside && chars.peek() != Some(&' ')
                {
                    self.indent(indent);
                } else {
                    self.put(char);
                }
                after_blank = true;
            } else if is_break(char) {
                self.out.push(char);
                self.column = 0;
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent(indent);
                }
                if char == '\'' {
                    self.put('\'');
                }
                self.put(char);
                self.indention = false;
                after_blank = false;
                after_break = false;
            }
            first = false;
        }
        self.indicator("'", false, false, false);
    }

    fn double_quoted(&mut self, text: &str, indent: usize, key: bool) {
        self.indicator("\"", true, false, false);
        let mut after_blank = false;
        let mut first = true;
        // Behind a byte order mark at the beginning nothing is taken for printable.
        let marked = self.layout == Layout::Compact && text.starts_with('\u{feff}');
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            if marked
                || !is_printable(char, self.layout)
                || is_break(char)
                || char == '"'
                || char == '\\'
            {
                for char in escape(char).chars() {
                    self.put(char);
                }
                after_blank = false;
            } else if char == ' ' {
                let inside = !first && chars.peek().is_some();
                if self.breaks_here(!key, after_blank) && inside {
                    self.indent(indent);
                    if chars.peek() == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(char);
                }
                after_blank = true;
            } else {
                self.put(char);
                after_blank = false;
            }
            first = false;
        }
        self.indicator("\"", false, false, false);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false, false);
        if text.starts_with(|char| char == ' ' || is_break(char)) {
            self.indicator("2", false, false, false);
        }
        let mut ends = text.chars().rev();
        match (ends.next().is_some_and(is_break), ends.next()) {
            (false, _) => self.indicator("-", false, false, false),
            (true, None) => self.indicator("+", false, false, false),
            (true, Some(before)) if is_break(before) => self.indicator("+", false, false, false),
            (true, Some(_)) => {}
        }
        self.line_break();
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for char in text.chars() {
            if is_break(char) {
                self.out.push(char);
                self.column = 0;
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent(indent);
                }
                self.put(char);
                self.indention = false;
                after_break = false;
            }
        }
    }
}

/// How a text may be written.
struct Allowed {
    plain: bool,
    single: bool,
    block: bool,
}

impl Allowed {
    fn of(text: &str, layout: Layout) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks) = (false, false);
        let (mut space_break, mut break_space) = (false, false);
        let mut before = None;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let ends = chars.peek().is_none_or(|next| is_blank_or_break(*next));
            indicators |= match (before, char) {
                (None, '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>') => true,
                (None, '\'' | '"' | '%' | '@' | '`') => true,
                (None, '?' | ':' | '-') | (Some(_), ':') => ends,
                (Some(before), '#') => is_blank_or_break(before),
                _ => false,
            };
            special |= !is_printable(char, layout);
            if is_break(char) {
                breaks = true;
                space_break |= before == Some(' ');
            }
            if char == ' ' && before.is_some_and(is_break) {
                break_space = true;
            }
            before = Some(char);
        }
        let edge = |char: Option<char>| char.is_some_and(|char| char == ' ' || is_break(char));
        let edges = edge(text.chars().next()) || edge(text.chars().next_back());
        let blank_end = text.ends_with(' ');
        let quotable = !space_break && !special;
        Self {
            plain: quotable && !edges && !breaks && !indicators,
            single: quotable && !break_space,
            block: quotable && !blank_end && !text.is_empty(),
        }
    }
}

fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank_or_break(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\0') || is_break(char)
}

fn is_printable(char: char, layout: Layout) -> bool {
    match char {
        '\n' | ' '..='~' => true,
        '\u{a0}'..='\u{d7ff}' => true,
        '\u{e000}'..='\u{fffd}' => char != '\u{feff}',
        '\u{10000}'..='\u{10ffff}' => layout == Layout::Pretty,
        _ => false,
    }
}

fn escape(char: char) -> String {
    let short = match char {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(char);
            return match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// go-yaml v3 no longer reads these as booleans, but still quotes them.
fn reads_as_bool_of_old(text: &str) -> bool {
    matches!(resolve(text), Scalar::Bool(_))
}

fn sorted(map: &Map<String, Value>, layout: Layout) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> =
        map.iter().map(|(key, value)| (key.as_str(), value)).collect();
    entries.sort_by(|(a, _), (b, _)| natural(a, b, layout));
    entries
}

/// The order of keys: numbers inside names count as numbers, what is no letter comes before letters.
fn natural(a: &str, b: &str, layout: Layout) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (Some(&left), Some(&right)) = (a.get(at), b.get(at)) else {
        return a.len().cmp(&b.len());
    };
    let after_digit =
        at.checked_sub(1).and_then(|at| a.get(at)).is_some_and(|char| is_digit(*char));
    match (left.is_alphabetic(), right.is_alphabetic()) {
        (true, true) => left.cmp(&right),
        (false, false) => {
            // A zero in the middle of a number is a digit like others, not a leading zero.
            let inside = (left == '0' || right == '0')
                && a.iter()
                    .take(at)
                    .rev()
                    .take_while(|char| is_digit(**char))
                    .any(|char| *char != '0');
            let run = |text: &[char]| {
                let digits: Vec<char> =
                    text.iter().skip(at).copied().take_while(|char| is_digit(*char)).collect();
                let start = i64::from(inside);
                let number = digits.iter().fold(start, |number, char| {
                    let digit = i64::from(u32::from(*char)) - i64::from(u32::from('0'));
                    number.wrapping_mul(10).wrapping_add(digit)
                });
                (number, digits.len())
            };
            run(&a).cmp(&run(&b)).then(left.cmp(&right))
        }
        (left_letter, _) => {
            let letter_first = layout == Layout::Pretty && after_digit;
            if left_letter == letter_first { Ordering::Less } else { Ordering::Greater }
        }
    }
}

fn is_digit(char: char) -> bool {
    char.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn behind_a_byte_order_mark_everything_is_escaped() {
        for (text, want) in [
            ("\u{feff}\"b", "\"\\uFEFF\\\"\\x62\"\n"),
            ("\u{feff} b", "\"\\uFEFF\\x20\\x62\"\n"),
            ("a\u{feff}b", "\"a\\uFEFFb\"\n"),
        ] {
            assert_eq!(write(&json!(text), Layout::Compact), want);
        }
    }
}
