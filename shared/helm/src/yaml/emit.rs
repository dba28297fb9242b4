//! YAML text as Helm writes it. Both layouts share libyaml's rules for what a scalar may look like; they differ in the
//! indentation of lists, in line breaking and in the order of some keys.

use std::cmp::Ordering;

use serde_json::Value;
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
    let mut emitter = Emitter::new(layout);
    emitter.json(value, None, Place::Root);
    emitter.finish()
}

/// Where a node stands: it decides about the indentation of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Item,
    Value,
}

/// Writes nodes one after the other. Who walks over a value says what each of its nodes is: `outer` is the indentation
/// of the collection around a node, which [`Self::list`] or [`Self::map`] gave.
pub(crate) struct Emitter {
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
    pub(crate) fn new(layout: Layout) -> Self {
        Self { out: String::new(), layout, column: 0, whitespace: true, indention: true }
    }

    /// The text, with the line break at its end.
    pub(crate) fn finish(mut self) -> String {
        if self.column > 0 || !self.indention {
            self.line_break();
        }
        self.out
    }

    fn put(&mut self, char: char) {
        self.out.push(char);
        self.column += 1;
    }

    /// A part of a line.
    fn put_str(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += if text.is_ascii() { text.len() } else { text.chars().count() };
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
        const BLANKS: &str = "                                ";
        while self.column < indent {
            let blanks = (indent - self.column).min(BLANKS.len());
            self.out.push_str(BLANKS.get(..blanks).unwrap_or_default());
            self.column += blanks;
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, space_before: bool, whitespace: bool, indention: bool) {
        if space_before && !self.whitespace {
            self.put(' ');
        }
        self.put_str(text);
        self.whitespace = whitespace;
        self.indention = self.indention && indention;
    }

    /// A value of JSON with everything in it.
    pub(crate) fn json(&mut self, value: &Value, outer: Option<usize>, place: Place) {
        match value {
            Value::Array(list) if list.is_empty() => self.empty_list(),
            Value::Object(map) if map.is_empty() => self.empty_map(),
            Value::Array(list) => {
                let indent = self.list(outer, place);
                for item in list {
                    self.item(indent);
                    self.json(item, Some(indent), Place::Item);
                }
            }
            Value::Object(map) => {
                let indent = Self::map(outer);
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                entries.sort_by(|(a, _), (b, _)| natural(a, b, self.layout));
                for (key, value) in entries {
                    self.key(key, indent);
                    self.json(value, Some(indent), Place::Value);
                }
            }
            Value::Null => self.word("null", outer),
            Value::Bool(bool) => self.word(if *bool { "true" } else { "false" }, outer),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => {
                    self.word(&strconv::format_float(float, 'g', -1, 64), outer);
                }
                _ => self.word(&number.to_string(), outer),
            },
            Value::String(text) => self.string(text, outer),
        }
    }

    /// Begins a list that is not empty: the indentation of its items.
    pub(crate) fn list(&self, outer: Option<usize>, place: Place) -> usize {
        let hanging = self.layout == Layout::Compact && place == Place::Value && !self.indention;
        match outer {
            None => 0,
            Some(outer) if hanging => outer,
            Some(outer) => outer + INDENT,
        }
    }

    /// What stands before an item of a list.
    pub(crate) fn item(&mut self, indent: usize) {
        self.indent(indent);
        self.indicator("-", true, false, true);
    }

    /// The indentation of the keys of a map that is not empty.
    pub(crate) fn map(outer: Option<usize>) -> usize {
        outer.map_or(0, |outer| outer + INDENT)
    }

    /// A key of a map, to its colon.
    pub(crate) fn key(&mut self, key: &str, indent: usize) {
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
    }

    pub(crate) fn empty_list(&mut self) {
        self.indicator("[", true, true, false);
        self.indicator("]", false, false, false);
    }

    pub(crate) fn empty_map(&mut self) {
        self.indicator("{", true, true, false);
        self.indicator("}", false, false, false);
    }

    /// A null, a boolean or a number.
    pub(crate) fn word(&mut self, word: &str, outer: Option<usize>) {
        self.plain(word, outer.map_or(INDENT, |outer| outer + INDENT), false);
    }

    /// A text, quoted if it has to be.
    pub(crate) fn string(&mut self, text: &str, outer: Option<usize>) {
        self.text(text, outer.map_or(INDENT, |outer| outer + INDENT), false);
    }

    fn text(&mut self, text: &str, indent: usize, key: bool) {
        let allowed = Allowed::of(text, self.layout);
        let ambiguous = is_base60(text)
            || !matches!(resolve(text), Scalar::Text)
            || (self.layout == Layout::Pretty && reads_as_bool_of_old(text));
        let breaks = text.contains('\n');
        if breaks && allowed.block && !key {
            return self.literal(text, indent);
        }
        if breaks || ambiguous || !allowed.single {
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

    /// Whether a text without line breaks fits the line, or is not broken wherever it ends.
    fn fits(&self, text: &str, may_break: bool) -> bool {
        !may_break || self.layout == Layout::Pretty || self.column + text.len() <= WIDTH
    }

    fn plain(&mut self, text: &str, indent: usize, may_break: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        if self.fits(text, may_break) {
            self.put_str(text);
        } else {
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
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, may_break: bool) {
        self.indicator("'", true, false, false);
        if self.fits(text, may_break) && !text.contains(|char| char == '\'' || is_break(char)) {
            self.put_str(text);
            self.indention &= text.bytes().all(|byte| byte == b' ');
            return self.indicator("'", false, false, false);
        }
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
        let marked = text.starts_with('\u{feff}');
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            if marked || !is_printable(char) || is_break(char) || char == '"' || char == '\\' {
                self.escape(char);
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
        for line in text.split_inclusive(is_break) {
            let end = line.chars().next_back().filter(|char| is_break(*char));
            let body = line.get(..line.len() - end.map_or(0, char::len_utf8)).unwrap_or_default();
            if !body.is_empty() {
                self.indent(indent);
                self.put_str(body);
                self.indention = false;
            }
            if let Some(end) = end {
                self.out.push(end);
                self.column = 0;
                self.indention = true;
            }
        }
    }

    fn escape(&mut self, char: char) {
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
                return self.put_str(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
            }
        };
        self.put('\\');
        self.put(short);
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
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'.');
        // Nearly all keys and most texts: nothing in them means anything.
        if text.bytes().all(word) && !text.starts_with("...") {
            return Self { plain: true, single: true, block: !text.is_empty() };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut tabs, mut breaks) = (false, false, false);
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
            // The newer writer has nothing against a tab in a block.
            tabs |= char == '\t';
            special |= !is_printable(char) && (char != '\t' || layout == Layout::Compact);
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
            plain: quotable && !tabs && !edges && !breaks && !indicators,
            single: quotable && !tabs && !break_space,
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

fn is_printable(char: char) -> bool {
    match char {
        '\n' | ' '..='~' => true,
        '\u{a0}'..='\u{d7ff}' => true,
        '\u{e000}'..='\u{fffd}' => char != '\u{feff}',
        _ => false,
    }
}

/// go-yaml v3 no longer reads these as booleans, but still quotes them.
fn reads_as_bool_of_old(text: &str) -> bool {
    matches!(resolve(text), Scalar::Bool(_))
}

/// The order of keys: numbers inside names count as numbers, what is no letter comes before letters.
pub(crate) fn natural(a: &str, b: &str, layout: Layout) -> Ordering {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    // The first character that differs may share bytes with its counterpart.
    let same = (0..=same).rev().find(|at| a.is_char_boundary(*at) && b.is_char_boundary(*at));
    let (before, a) = a.split_at_checked(same.unwrap_or(0)).unwrap_or(("", a));
    let b = b.get(before.len()..).unwrap_or_default();
    let (Some(left), Some(right)) = (a.chars().next(), b.chars().next()) else {
        return a.len().cmp(&b.len());
    };
    match (left.is_alphabetic(), right.is_alphabetic()) {
        (true, true) => left.cmp(&right),
        (false, false) => {
            // A zero in the middle of a number is a digit like others, not a leading zero.
            let inside = (left == '0' || right == '0')
                && before.bytes().rev().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
            let run = |text: &str| {
                let digits = text.bytes().take_while(u8::is_ascii_digit);
                let start = (i64::from(inside), 0_usize);
                digits.fold(start, |(number, length), digit| {
                    let digit = i64::from(digit - b'0');
                    (number.wrapping_mul(10).wrapping_add(digit), length + 1)
                })
            };
            run(a).cmp(&run(b)).then(left.cmp(&right))
        }
        (left_letter, _) => {
            let after_digit = before.ends_with(|char: char| char.is_ascii_digit());
            let letter_first = layout == Layout::Pretty && after_digit;
            if left_letter == letter_first { Ordering::Less } else { Ordering::Greater }
        }
    }
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
            for layout in [Layout::Compact, Layout::Pretty] {
                assert_eq!(write(&json!(text), layout), want);
            }
        }
    }

    #[test]
    fn a_tab_is_escaped_but_in_a_block_of_the_newer_writer() {
        for (text, layout, want) in [
            ("a\tb", Layout::Compact, "\"a\\tb\"\n"),
            ("a\tb", Layout::Pretty, "\"a\\tb\"\n"),
            ("a\tb\nc", Layout::Compact, "\"a\\tb\\nc\"\n"),
            ("a\tb\nc", Layout::Pretty, "|-\n  a\tb\n  c\n"),
        ] {
            assert_eq!(write(&json!(text), layout), want, "{text:?} {layout:?}");
        }
    }
}
