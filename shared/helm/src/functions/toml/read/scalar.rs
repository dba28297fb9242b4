//! Strings, words, numbers and times of TOML.

use gotemplate::Value;
use vela_gocompat::strconv::{self, NumReason};
use vela_gocompat::time;

use super::{LOCAL, Reader, Result, is_break};
use crate::objects::Time;

/// A string that has been read: its content, and whether escapes in it are still to be replaced.
pub(super) struct Quoted<'t> {
    content: &'t str,
    is_escaped: bool,
    /// Of three quotes.
    is_long: bool,
}

impl<'t> Reader<'t> {
    /// The string at the quote that comes next; `long`: it may have three.
    pub(super) fn string(&mut self, long: bool) -> Result<Quoted<'t>> {
        let quote = self.take()?.unwrap_or_default();
        let has_escapes = quote == '"';
        let two: String = [quote; 2].iter().collect();
        let is_long = long && self.rest().starts_with(&two);
        if is_long {
            self.at += 2;
        }
        let start = self.at;
        let mut is_escaped = false;
        loop {
            match self.take()? {
                None => {
                    let ends = if is_long { format!("{quote}{two}") } else { quote.to_string() };
                    let around = if quote == '"' { '\'' } else { '"' };
                    return self.wrong(
                        None,
                        format_args!("unexpected EOF; expected {around}{ends}{around}"),
                    );
                }
                Some(char) if is_break(char) && !is_long => {
                    return self.wrong_above("strings cannot contain newlines");
                }
                Some('\\') if has_escapes => {
                    is_escaped = true;
                    if !is_long || !self.peek()?.is_some_and(is_break) {
                        self.escape(start)?;
                    }
                }
                Some(char) if char == quote => {
                    if !is_long {
                        let end = self.at - 1;
                        let content = self.text.get(start..end).unwrap_or_default();
                        return Ok(Quoted { content, is_escaped, is_long });
                    }
                    if !self.rest().starts_with(&two) {
                        continue;
                    }
                    self.at += 2;
                    if self.rest().starts_with(quote) {
                        // Two quotes may stand before the three that end the string.
                        let five: String = [quote; 5].iter().collect();
                        let sofar = self.since(start);
                        let is_escaped_one = has_escapes && sofar.ends_with(&format!("\\{five}"));
                        if sofar.ends_with(&five) && !is_escaped_one {
                            let around = if quote == '"' { '\'' } else { '"' };
                            return self.wrong(
                                Some(quote),
                                format_args!("unexpected {around}{five}{quote}{around}"),
                            );
                        }
                        self.at -= 2;
                        continue;
                    }
                    let content = self.text.get(start..self.at - 3).unwrap_or_default();
                    return Ok(Quoted { content, is_escaped, is_long });
                }
                Some(_) => {}
            }
        }
    }

    /// Checks what stands behind a backslash.
    fn escape(&mut self, start: usize) -> Result<()> {
        let (digits, word, name) = match self.take()? {
            Some('b' | 't' | 'n' | 'f' | 'r' | '"' | '\\' | ' ' | '\t') => return Ok(()),
            Some('u') => (4, "four", 'u'),
            Some('U') => (8, "eight", 'U'),
            other => {
                let what = format!("invalid escape in string '\\{}'", other.unwrap_or('\0'));
                return match other {
                    None => self.wrong_above(what),
                    other => self.wrong(other, what),
                };
            }
        };
        for _ in 0..digits {
            let next = self.take()?;
            if !next.is_some_and(|char| char.is_ascii_hexdigit()) {
                let found = strconv::quote(self.since(start));
                return self.wrong(
                    next,
                    format_args!(
                        "expected {word} hexadecimal digits after '\\{name}', but got {found} instead"
                    ),
                );
            }
        }
        Ok(())
    }

    /// The text of a string.
    pub(super) fn unescaped(&self, quoted: &Quoted<'_>) -> Result<String> {
        let Quoted { mut content, is_escaped, is_long } = *quoted;
        if is_long {
            content = content
                .strip_prefix("\r\n")
                .or_else(|| content.strip_prefix('\n'))
                .unwrap_or(content);
        }
        if !is_escaped {
            return Ok(content.to_owned());
        }
        let mut out = String::with_capacity(content.len());
        let mut rest = content;
        while let Some((plain, escaped)) = rest.split_once('\\') {
            out.push_str(plain);
            let white = |char| matches!(char, ' ' | '\t' | '\r' | '\n');
            let after = escaped.trim_start_matches(white);
            let skipped = escaped.get(..escaped.len() - after.len()).unwrap_or_default();
            if is_long && skipped.contains('\n') {
                rest = after;
                continue;
            }
            let mut chars = escaped.chars();
            let name = chars.next().unwrap_or_default();
            rest = chars.as_str();
            out.push(match name {
                'b' => '\u{8}',
                't' => '\t',
                'n' => '\n',
                'f' => '\u{c}',
                'r' => '\r',
                'u' | 'U' => {
                    let digits = if name == 'u' { 4 } else { 8 };
                    let (code, after) = rest.split_at_checked(digits).unwrap_or((rest, ""));
                    rest = after;
                    match u32::from_str_radix(code, 16).ok().and_then(char::from_u32) {
                        Some(char) => char,
                        None => {
                            return Err(self.error(
                                self.line(self.at),
                                format_args!("Escaped character '\\u{code}' is not valid UTF-8."),
                            ));
                        }
                    }
                }
                blank @ (' ' | '\t') => {
                    return Err(
                        self.error(self.line(self.at), format_args!("invalid escape: '\\{blank}'"))
                    );
                }
                same => same,
            });
        }
        out.push_str(rest);
        Ok(out)
    }

    /// `true`, `inf` and their kind.
    pub(super) fn word(&mut self, start: usize) -> Result<Value> {
        let letters = self.take_all(char::is_alphabetic)?;
        for (word, value) in [("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if letters.starts_with(word) {
                self.at = start + word.len();
                return Ok(value.into());
            }
        }
        match letters {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            letters => {
                // Go's reader has begun to look for inf or nan.
                let from =
                    if letters.starts_with("in") || letters.starts_with("na") { 1 } else { 0 };
                let found = strconv::quote(letters.get(from..).unwrap_or_default());
                Err(self.error(
                    self.line(self.at),
                    format_args!("expected value but found {found} instead"),
                ))
            }
        }
    }

    /// A number with a sign: none of another base, and no time.
    pub(super) fn signed(&mut self) -> Result<Value> {
        let start = self.at;
        self.take()?;
        let next = self.take()?;
        match next {
            Some(first @ ('i' | 'n')) => {
                for wanted in if first == 'i' { ['n', 'f'] } else { ['a', 'n'] } {
                    if !self.take_if(wanted)? {
                        let found = self.since(start);
                        return Err(self
                            .error(self.line(self.at), format_args!("invalid float: '{found}'")));
                    }
                }
                return self.float(start);
            }
            Some('0') => {
                if let Some(base @ ('b' | 'o' | 'x')) = self.peek()? {
                    let found = self.since(start);
                    return self.wrong(
                        next,
                        format_args!("cannot use sign with non-decimal numbers: '{found}{base}'"),
                    );
                }
            }
            Some('.') => return self.wrong(next, "floats must start with a digit, not '.'"),
            Some(digit) if digit.is_ascii_digit() => {}
            other => {
                let got = strconv::quote_char(other.unwrap_or('\0'));
                return self.wrong(other, format_args!("expected a digit but got {got}"));
            }
        }
        self.decimal(start)
    }

    /// The rest of a decimal number.
    fn decimal(&mut self, start: usize) -> Result<Value> {
        self.take_all(|char| char.is_ascii_digit() || char == '_')?;
        if matches!(self.peek()?, Some('.' | 'e' | 'E')) {
            self.take_all(|char| {
                char.is_ascii_digit() || matches!(char, '_' | '.' | '-' | '+' | 'e' | 'E')
            })?;
            return self.float(start);
        }
        self.integer(start)
    }

    pub(super) fn number(&mut self) -> Result<Value> {
        let start = self.at;
        let is_zero = self.take()? == Some('0');
        if is_zero && let Some(base @ ('b' | 'o' | 'x')) = self.peek()? {
            self.take()?;
            let (kind, digits): (_, fn(char) -> bool) = match base {
                'b' => ("a binary", |char| matches!(char, '0' | '1')),
                'o' => ("an octal", |char| matches!(char, '0'..='7')),
                _ => ("a hexadecimal", |char| char.is_ascii_hexdigit()),
            };
            let next = self.peek()?;
            if !next.is_some_and(digits) {
                let found = self.since(start);
                let next = next.unwrap_or('\0');
                return self.wrong(Some(next), format_args!("not {kind} number: '{found}{next}'"));
            }
            self.take_all(|char| digits(char) || char == '_')?;
            return self.integer(start);
        }
        let more = self.take_all(|char| char.is_ascii_digit())?;
        // A time has two digits at least.
        if matches!(self.peek()?, Some('-' | ':')) && !(is_zero && more.is_empty()) {
            self.take_all(|char| {
                char.is_ascii_digit()
                    || matches!(char, '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+')
            })?;
            return self.time(start);
        }
        self.decimal(start)
    }

    fn integer(&self, start: usize) -> Result<Value> {
        let text = self.since(start);
        self.check_digits("integer", text, &[text])?;
        let int = strconv::parse_int(text, 0, 64);
        int.map(Value::int64).map_err(|_| {
            self.error(self.line(self.at), format_args!("{text} is out of range for int64"))
        })
    }

    fn float(&self, start: usize) -> Result<Value> {
        let text = self.since(start);
        let parts: Vec<&str> =
            text.split(['.', 'e', 'E']).filter(|part| !part.is_empty()).collect();
        self.check_digits("float", text, &parts)?;
        let mut after = text.split('.').skip(1);
        let wrong = |what: String| Err(self.error(self.line(self.at), what));
        if !after.all(|part| part.starts_with(|char: char| char.is_ascii_digit())) {
            return wrong(format!(
                "Invalid float {}: '.' must be followed by one or more digits",
                strconv::quote(text)
            ));
        }
        let plain = text.replace('_', "");
        if plain.ends_with("nan") {
            return Ok(f64::NAN.copysign(if plain.starts_with('-') { -1.0 } else { 1.0 }).into());
        }
        match strconv::parse_float(&plain) {
            Ok(float) => Ok(float.into()),
            Err(error) if error.reason == NumReason::Range => {
                wrong(format!("{text} is out of range for float64"))
            }
            Err(_) => wrong(format!("Invalid float value: {}", strconv::quote(text))),
        }
    }

    /// Underscores stand between digits, and no number begins with a zero that says nothing.
    fn check_digits(&self, kind: &str, text: &str, parts: &[&str]) -> Result<()> {
        let wrong = |what: &str| {
            let text = strconv::quote(text);
            Err(self.error(self.line(self.at), format_args!("Invalid {kind} {text}: {what}")))
        };
        if parts.iter().any(|part| !has_good_underscores(part)) {
            return wrong("underscores must be surrounded by digits");
        }
        let first = parts.first().copied().unwrap_or_default();
        let digits = first.strip_prefix(['-', '+']);
        let is_based = |rest: &str| digits.is_none() && rest.starts_with(['b', 'o', 'x']);
        let rest = digits.unwrap_or(first).strip_prefix('0');
        if rest.is_some_and(|rest| !rest.is_empty() && !is_based(rest)) {
            return wrong("cannot have leading zeroes");
        }
        Ok(())
    }

    fn time(&self, start: usize) -> Result<Value> {
        let text = self.since(start).trim_end();
        let text: String = text
            .chars()
            .map(|char| match char {
                'z' => 'Z',
                't' | ' ' => 'T',
                other => other,
            })
            .collect();
        let layouts = std::iter::once((time::RFC3339_NANO, None))
            .chain(LOCAL.iter().map(|(layout, zone)| (*layout, Some(*zone))));
        for (layout, zone) in layouts {
            if let Ok(mut at) = time::parse(layout, &text) {
                if lacks_zero(&text, layout) {
                    break;
                }
                if let Some(zone) = zone {
                    at.zone = zone.to_owned();
                }
                return Ok(Time(at).into());
            }
        }
        Err(self
            .error(self.line(self.at), format_args!("invalid datetime: {}", strconv::quote(&text))))
    }
}

/// Whether a text has one digit where the layout has two: its separators stand elsewhere.
fn lacks_zero(text: &str, layout: &str) -> bool {
    let mut pairs =
        layout.bytes().zip(text.bytes()).take_while(|(it, _)| !matches!(it, b'.' | b'Z'));
    pairs.any(|(wanted, found)| !wanted.is_ascii_digit() && wanted != found)
}

fn has_good_underscores(part: &str) -> bool {
    if matches!(part.trim_start_matches(['-', '+']), "nan" | "inf") {
        return true;
    }
    let mut after_digit = false;
    for char in part.chars() {
        if char == '_' && !after_digit {
            return false;
        }
        after_digit = char.is_ascii_hexdigit();
    }
    after_digit
}
