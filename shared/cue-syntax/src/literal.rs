//! The values of literals: strings and bytes in all their forms, and numbers to the exact digit.

use std::ops::Range;

use crate::position::Span;

/// Why a literal has no value. Offsets are relative to the literal's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LiteralError {
    /// What is wrong, as cue says it.
    pub message: String,
    /// Where in the literal.
    pub offset: usize,
}

/// The longest hexadecimal, octal or binary literal: converting its base takes quadratic time.
const MAX_BASED_DIGITS: usize = 10_000;

fn fail<T>(message: impl Into<String>, offset: usize) -> Result<T, LiteralError> {
    Err(LiteralError { message: message.into(), offset })
}

/// The value of a string or bytes literal without interpolation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// `"..."`
    String(String),
    /// `'...'`
    Bytes(Vec<u8>),
}

/// Decodes a whole string or bytes literal, with its quotes.
///
/// ```
/// use cue_syntax::literal::{Text, unquote};
///
/// assert_eq!(unquote(r#""a\tb""#), Ok(Text::String("a\tb".to_owned())));
/// assert_eq!(unquote(r##"#"a\tb"#"##), Ok(Text::String("a\\tb".to_owned())));
/// assert_eq!(unquote(r"'\xff'"), Ok(Text::Bytes(vec![0xff])));
/// ```
///
/// # Errors
/// If the text is not one complete literal, has an invalid escape sequence, is indented wrongly,
/// or is interpolated.
pub fn unquote(text: &str) -> Result<Text, LiteralError> {
    let Some((quotes, open)) = Quotes::open(text) else {
        return fail("invalid string: no quotes", 0);
    };
    let scanned = quotes.scan(text, open)?;
    if scanned.interpolated {
        return fail("string literal is interpolated", scanned.end);
    }
    if scanned.end != text.len() {
        return fail("text behind the string literal", scanned.end);
    }
    let mut segments = quotes.decode(text, &[Span::new(to_u32(open), to_u32(scanned.content))])?;
    let value = segments.pop().unwrap_or_default();
    match quotes.quote {
        b'\'' => Ok(Text::Bytes(value)),
        _ => match String::from_utf8(value) {
            Ok(value) => Ok(Text::String(value)),
            Err(_) => fail("string is not valid UTF-8", 0),
        },
    }
}

pub(crate) fn to_u32(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// How a literal is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quotes {
    /// `"` or `'`
    pub(crate) quote: u8,
    /// How many `#` stand before it.
    hashes: usize,
    /// Whether there are three quotes.
    multiline: bool,
}

/// Where a piece of a literal ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// Behind the last byte of the content.
    pub(crate) content: usize,
    /// Behind the closing quotes, or behind the `\(` of an interpolation.
    pub(crate) end: usize,
    /// Whether an interpolation was met.
    pub(crate) interpolated: bool,
}

enum Escape {
    /// A character.
    Char(char),
    /// A byte; in bytes literals only.
    Byte(u8),
    /// The first or second half of a surrogate pair.
    Surrogate(u16),
    /// An escaped line end.
    Newline,
    /// `(`
    Interpolation,
}

impl Quotes {
    /// Reads the opening quotes; returns them and the offset of the content. `None` if there are
    /// no quotes. A multi-line literal's content begins with its line end.
    pub(crate) fn open(text: &str) -> Option<(Self, usize)> {
        let bytes = text.as_bytes();
        let hashes = bytes.iter().take_while(|&&byte| byte == b'#').count();
        let quote = *bytes.get(hashes)?;
        if !matches!(quote, b'"' | b'\'') {
            return None;
        }
        let triple = bytes.get(hashes..hashes + 3).is_some_and(|run| run == [quote; 3]);
        // `#"""#` is a one-line literal that holds a quote only if nothing follows on the line;
        // the reference always reads three quotes as a multi-line opening.
        let (multiline, width) = if triple { (true, 3) } else { (false, 1) };
        Some((Self { quote, hashes, multiline }, hashes + width))
    }

    /// Finds the end of the content that begins at `start`, checking escapes on the way.
    pub(crate) fn scan(self, text: &str, start: usize) -> Result<Scanned, LiteralError> {
        let bytes = text.as_bytes();
        let mut at = start;
        if self.multiline && start == self.width() {
            let line_end = match bytes.get(at..) {
                Some([b'\n', ..]) => 1,
                Some([b'\r', b'\n', ..]) => 2,
                _ => {
                    let quotes = text.get(..start).unwrap_or_default();
                    return fail(format!("expected newline after multiline quote {quotes}"), 0);
                }
            };
            at += line_end;
        }
        while let Some(&byte) = bytes.get(at) {
            if byte == self.quote && self.closes(bytes, at) {
                return Ok(Scanned { content: at, end: at + self.width(), interpolated: false });
            }
            match byte {
                b'\\' if self.escapes(bytes, at) => {
                    let (escape, next) = self.escape(text, at)?;
                    if matches!(escape, Escape::Interpolation) {
                        return Ok(Scanned { content: at, end: next, interpolated: true });
                    }
                    at = next;
                }
                b'\n' if !self.multiline => break,
                0 => return fail("illegal character NUL", at),
                0xef if bytes.get(at..at + 3) == Some(b"\xef\xbb\xbf") => {
                    return fail("illegal byte order mark", at);
                }
                _ => at += 1,
            }
        }
        fail("string literal not terminated", 0)
    }

    /// Decodes the pieces of one literal. All spans are offsets into `text`; the first begins
    /// behind the opening quotes, the last ends before the closing ones.
    pub(crate) fn decode(self, text: &str, pieces: &[Span]) -> Result<Vec<Vec<u8>>, LiteralError> {
        let (indent, own_line) =
            if self.multiline { Self::indent(text, pieces) } else { ("", false) };
        let mut decoded = Vec::with_capacity(pieces.len());
        let last = pieces.len().saturating_sub(1);
        for (index, piece) in pieces.iter().enumerate() {
            let end = piece.end as usize;
            let mut at = piece.start as usize;
            let mut value = Vec::with_capacity(end.saturating_sub(at));
            if index == 0 && self.multiline {
                at = self.skip_indent(text, skip_line_end(text, at), indent)?;
            }
            // The line end before the closing quotes does not count, and may not be escaped.
            let closing = index == last && self.multiline;
            if at < end {
                self.decode_piece(text, at..end, indent, closing, &mut value)?;
            }
            if closing && own_line && value.last() == Some(&b'\n') {
                value.pop();
            }
            decoded.push(value);
        }
        Ok(decoded)
    }

    fn decode_piece(
        self,
        text: &str,
        piece: Range<usize>,
        indent: &str,
        closing: bool,
        value: &mut Vec<u8>,
    ) -> Result<(), LiteralError> {
        let bytes = text.as_bytes();
        let Range { start: mut at, end } = piece;
        while at < end {
            match bytes[at] {
                b'\r' if !self.multiline => return fail("carriage return in string literal", at),
                b'\r' => at += 1,
                b'\n' => {
                    value.push(b'\n');
                    at = self.skip_indent(text, at + 1, indent)?;
                }
                b'\\' if self.escapes(bytes, at) => {
                    let (escape, mut next) = self.escape(text, at)?;
                    match escape {
                        Escape::Char(c) => {
                            let mut buffer = [0; 4];
                            value.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                        }
                        Escape::Byte(byte) if self.quote == b'\'' => value.push(byte),
                        Escape::Byte(_) => return fail("illegal use of escape sequence", at),
                        Escape::Surrogate(high) => {
                            let (c, behind) = self.surrogates(text, at, high, next)?;
                            let mut buffer = [0; 4];
                            value.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                            next = behind;
                        }
                        Escape::Newline => {
                            next = self.skip_indent(text, next, indent)?;
                            if closing && next >= end {
                                let message = "last newline of multiline string cannot be escaped";
                                return fail(message, at);
                            }
                        }
                        Escape::Interpolation => return fail("unexpected interpolation", at),
                    }
                    at = next;
                }
                byte => {
                    value.push(byte);
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// The white space before the closing quotes, with which every line has to begin, and whether the quotes
    /// stand on a line of their own. Where they follow text, that white space belongs to the text, too.
    fn indent<'a>(text: &'a str, pieces: &[Span]) -> (&'a str, bool) {
        let Some(last) = pieces.last() else { return ("", false) };
        let content = text.get(last.start as usize..last.end as usize).unwrap_or_default();
        let rest = content.trim_end_matches(|c: char| c != '\n' && c.is_whitespace());
        (content.get(rest.len()..).unwrap_or_default(), rest.ends_with('\n'))
    }

    /// Skips the indentation of the line that begins at `at`; an empty line needs none.
    fn skip_indent(self, text: &str, at: usize, indent: &str) -> Result<usize, LiteralError> {
        let rest = text.get(at..).unwrap_or_default();
        if !self.multiline {
            fail("newline in string literal", at)
        } else if rest.starts_with(indent) {
            Ok(at + indent.len())
        } else if rest.starts_with('\n') || rest.starts_with("\r\n") {
            Ok(at)
        } else {
            fail("invalid string: invalid whitespace", at)
        }
    }

    fn surrogates(
        self,
        text: &str,
        at: usize,
        high: u16,
        next: usize,
    ) -> Result<(char, usize), LiteralError> {
        let bytes = text.as_bytes();
        if bytes.get(next) == Some(&b'\\') && self.escapes(bytes, next) {
            let (low, behind) = self.escape(text, next)?;
            if let Escape::Surrogate(low) = low {
                let pair = char::decode_utf16([high, low]).next();
                if let Some(Ok(c)) = pair {
                    return Ok((c, behind));
                }
            }
        }
        fail("unmatched surrogate pair", at)
    }

    /// The length of the closing quotes.
    pub(crate) fn closing_width(self) -> usize {
        self.width()
    }

    fn width(self) -> usize {
        self.hashes + if self.multiline { 3 } else { 1 }
    }

    fn closes(self, bytes: &[u8], at: usize) -> bool {
        let quotes = self.width() - self.hashes;
        bytes.get(at..at + quotes).is_some_and(|run| run.iter().all(|&b| b == self.quote))
            && bytes
                .get(at + quotes..at + self.width())
                .is_some_and(|run| run.iter().all(|&b| b == b'#'))
    }

    /// Whether the backslash at `at` begins an escape: it is followed by the right number of `#`.
    fn escapes(self, bytes: &[u8], at: usize) -> bool {
        bytes.get(at + 1..at + 1 + self.hashes).is_some_and(|run| run.iter().all(|&b| b == b'#'))
    }

    /// Reads the escape sequence whose backslash stands at `at`.
    fn escape(self, text: &str, at: usize) -> Result<(Escape, usize), LiteralError> {
        let bytes = text.as_bytes();
        let at = at + 1 + self.hashes;
        let Some(&byte) = bytes.get(at) else {
            return fail("escape sequence not terminated", at);
        };
        let simple = match byte {
            b'a' => '\x07',
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\x0b',
            b'\\' => '\\',
            b'/' => '/',
            _ if byte == self.quote => char::from(byte),
            b'(' => return Ok((Escape::Interpolation, at + 1)),
            b'\n' if self.multiline => return Ok((Escape::Newline, at + 1)),
            b'\r' if self.multiline && bytes.get(at + 1) == Some(&b'\n') => {
                return Ok((Escape::Newline, at + 2));
            }
            b'0'..=b'7' => {
                let (code, next) = digits(text, at, 3, 8)?;
                return match u8::try_from(code) {
                    Ok(byte) => Ok((Escape::Byte(byte), next)),
                    Err(_) => fail("escape sequence is invalid Unicode code point", at),
                };
            }
            b'x' => {
                let (code, next) = digits(text, at + 1, 2, 16)?;
                return Ok((Escape::Byte(u8::try_from(code).unwrap_or(u8::MAX)), next));
            }
            b'u' | b'U' => {
                let width = if byte == b'u' { 4 } else { 8 };
                let (code, next) = digits(text, at + 1, width, 16)?;
                if let Some(c) = char::from_u32(code) {
                    return Ok((Escape::Char(c), next));
                }
                return match u16::try_from(code) {
                    Ok(half) => Ok((Escape::Surrogate(half), next)),
                    Err(_) => fail("escape sequence is invalid Unicode code point", at),
                };
            }
            _ => return fail("unknown escape sequence", at),
        };
        Ok((Escape::Char(simple), at + 1))
    }
}

fn skip_line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    if rest.starts_with("\r\n") {
        at + 2
    } else if rest.starts_with('\n') {
        at + 1
    } else {
        at
    }
}

fn digits(text: &str, at: usize, width: usize, base: u32) -> Result<(u32, usize), LiteralError> {
    let mut code: u32 = 0;
    let mut chars = text.get(at..).unwrap_or_default().chars();
    for offset in at..at + width {
        match chars.next() {
            None => return fail("escape sequence not terminated", offset),
            Some(c) => match c.to_digit(base) {
                Some(digit) => code = code.wrapping_mul(base).wrapping_add(digit),
                None => return fail(illegal_character(c, " in escape sequence"), offset),
            },
        }
    }
    Ok((code, at + width))
}

pub(crate) fn illegal_character(c: char, place: &str) -> String {
    let shown = if c.is_control() { String::new() } else { format!(" '{c}'") };
    format!("illegal character U+{:04X}{shown}{place}", u32::from(c))
}

/// The exact value of a number literal: `coefficient * 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Decimal digits without leading zeros; `0` for zero.
    pub coefficient: String,
    /// The power of ten.
    pub exponent: i64,
    /// Whether the literal is an integer: no point, no exponent, or a multiplier (`1.5Ki`).
    pub is_int: bool,
}

impl Number {
    /// Reads a number literal (without sign).
    ///
    /// ```
    /// use cue_syntax::literal::Number;
    ///
    /// let n = Number::parse("1_000.50").unwrap();
    /// assert_eq!((n.coefficient.as_str(), n.exponent, n.is_int), ("100050", -2, false));
    /// let n = Number::parse("1.5Ki").unwrap();
    /// assert_eq!((n.coefficient.as_str(), n.exponent, n.is_int), ("1536", 0, true));
    /// ```
    ///
    /// # Errors
    /// If the text is not one number literal.
    pub fn parse(text: &str) -> Result<Self, LiteralError> {
        let scanned = scan_number(text);
        if let Some(error) = scanned.error {
            return Err(error);
        }
        if scanned.end != text.len() || text.is_empty() {
            return fail("illegal number", scanned.end);
        }
        let lower = text.as_bytes().get(1).copied().unwrap_or(0);
        if text.starts_with('0') && matches!(lower, b'x' | b'X' | b'b' | b'o') {
            let base = match lower {
                b'b' => 2,
                b'o' => 8,
                _ => 16,
            };
            if text.len() > MAX_BASED_DIGITS {
                return fail("number has too many digits", 0);
            }
            let digits = text.bytes().skip(2).filter_map(|b| char::from(b).to_digit(base));
            let coefficient = to_decimal(digits.filter_map(|d| u8::try_from(d).ok()), base);
            return Ok(Self { coefficient, exponent: 0, is_int: true });
        }
        Self::parse_decimal(text)
    }

    fn parse_decimal(text: &str) -> Result<Self, LiteralError> {
        let mut coefficient = String::with_capacity(text.len());
        let mut exponent: i64 = 0;
        let mut is_int = true;
        let mut rest = text.char_indices();
        while let Some((at, c)) = rest.next() {
            match c {
                '0'..='9' => {
                    coefficient.push(c);
                    exponent -= i64::from(!is_int);
                }
                '.' => is_int = false,
                'e' | 'E' => {
                    is_int = false;
                    let digits: String = rest.as_str().chars().filter(|&c| c != '_').collect();
                    match digits.parse::<i64>() {
                        Ok(power) if power.abs() <= i64::from(i32::MAX) => exponent += power,
                        Ok(_) | Err(_) => return fail("exponent out of range", at),
                    }
                    break;
                }
                'K' | 'M' | 'G' | 'T' | 'P' => {
                    let power = match c {
                        'K' => 1,
                        'M' => 2,
                        'G' => 3,
                        'T' => 4,
                        _ => 5,
                    };
                    is_int = true;
                    if rest.as_str() == "i" {
                        coefficient = times_power_of_two(&coefficient, 10 * power);
                    } else {
                        exponent += 3 * i64::from(power);
                    }
                    if !to_integer(&mut coefficient, &mut exponent) {
                        return fail("number cannot be represented as int", at);
                    }
                    break;
                }
                _ => {}
            }
        }
        let zeros = coefficient.bytes().take_while(|&b| b == b'0').count();
        coefficient.drain(..zeros.min(coefficient.len().saturating_sub(1)));
        Ok(Self { coefficient, exponent, is_int })
    }

    /// The number in the form cue prints: digits with a point, or with an exponent.
    #[must_use]
    pub fn text(&self) -> String {
        if self.exponent == 0 {
            return self.coefficient.clone();
        }
        let length = i64::try_from(self.coefficient.len()).unwrap_or(i64::MAX);
        let adjusted = self.exponent.saturating_add(length - 1);
        if self.exponent < 0 && adjusted >= -6 {
            let digits = usize::try_from(-self.exponent).unwrap_or_default();
            let padded = format!("{:0>width$}", self.coefficient, width = digits + 1);
            let (whole, fraction) = padded.split_at(padded.len() - digits);
            return format!("{whole}.{fraction}");
        }
        let (head, tail) = self.coefficient.split_at(1);
        let point = if tail.is_empty() { "" } else { "." };
        format!("{head}{point}{tail}E{adjusted:+}")
    }
}

/// Turns `coefficient * 10^exponent` into an integer if it is one.
fn to_integer(coefficient: &mut String, exponent: &mut i64) -> bool {
    while *exponent < 0 {
        if coefficient.pop() != Some('0') {
            return false;
        }
        *exponent += 1;
    }
    for _ in 0..*exponent {
        coefficient.push('0');
    }
    *exponent = 0;
    if coefficient.is_empty() {
        coefficient.push('0');
    }
    true
}

fn times_power_of_two(digits: &str, power: u32) -> String {
    // Short multiplications by 2^10 keep every step inside a u32.
    let mut value: Vec<u8> = digits.bytes().rev().map(|b| b - b'0').collect();
    for _ in 0..power / 10 {
        let mut carry = 0_u32;
        for digit in &mut value {
            let product = u32::from(*digit) * 1024 + carry;
            *digit = u8::try_from(product % 10).unwrap_or_default();
            carry = product / 10;
        }
        while carry > 0 {
            value.push(u8::try_from(carry % 10).unwrap_or_default());
            carry /= 10;
        }
    }
    value.iter().rev().map(|&digit| char::from(b'0' + digit)).collect()
}

/// Base conversion in chunks of nine decimal digits; quadratic, which the token length bounds.
fn to_decimal(digits: impl Iterator<Item = u8>, base: u32) -> String {
    const CHUNK: u64 = 1_000_000_000;
    let mut chunks: Vec<u32> = vec![0];
    let (mut factor, mut sum) = (1_u64, 0_u64);
    let mut flush = |factor: &mut u64, sum: &mut u64| {
        let mut carry = *sum;
        for chunk in &mut chunks {
            let product = u64::from(*chunk) * *factor + carry;
            *chunk = u32::try_from(product % CHUNK).unwrap_or_default();
            carry = product / CHUNK;
        }
        if carry > 0 {
            chunks.push(u32::try_from(carry).unwrap_or_default());
        }
        (*factor, *sum) = (1, 0);
    };
    for digit in digits {
        factor *= u64::from(base);
        sum = sum * u64::from(base) + u64::from(digit);
        if factor >= 1 << 28 {
            flush(&mut factor, &mut sum);
        }
    }
    flush(&mut factor, &mut sum);
    let mut text = String::new();
    for chunk in chunks.iter().rev() {
        if text.is_empty() {
            text = chunk.to_string();
        } else {
            text.push_str(&format!("{chunk:09}"));
        }
        if text == "0" && chunks.len() > 1 {
            text.clear();
        }
    }
    if text.is_empty() { "0".to_owned() } else { text }
}

/// What the lexer needs to know of a number.
#[derive(Debug)]
pub(crate) struct ScannedNumber {
    pub(crate) end: usize,
    pub(crate) float: bool,
    pub(crate) error: Option<LiteralError>,
}

/// Finds the end of the number that begins with a digit, or a point and a digit.
pub(crate) fn scan_number(text: &str) -> ScannedNumber {
    let mut scan = NumberScan { bytes: text.as_bytes(), at: 0, error: None };
    let float = scan.number();
    ScannedNumber { end: scan.at, float, error: scan.error }
}

struct NumberScan<'a> {
    bytes: &'a [u8],
    at: usize,
    error: Option<LiteralError>,
}

impl NumberScan<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn fail(&mut self, message: &str, offset: usize) {
        if self.error.is_none() {
            self.error = Some(LiteralError { message: message.to_owned(), offset });
        }
    }

    /// Returns whether it is a float.
    fn number(&mut self) -> bool {
        let mut float = false;
        if self.peek() == b'0' {
            self.at += 1;
            let (base, name) = match self.peek() {
                b'x' | b'X' => (16, "illegal hexadecimal number"),
                b'b' => (2, "illegal binary number"),
                b'o' => (8, "illegal octal number"),
                _ => (10, "illegal integer number"),
            };
            if base != 10 {
                self.at += 1;
                if self.mantissa(base) == 0 {
                    self.fail(name, 0);
                } else if self.peek().is_ascii_digit() {
                    self.fail(name, self.at);
                }
                return false;
            }
            let digits = if self.peek().is_ascii_digit() { self.mantissa(10) } else { 0 };
            if digits > 0 && !matches!(self.peek(), b'.' | b'e' | b'E') {
                self.fail(name, 0);
                return false;
            }
        } else if self.peek() != b'.' {
            self.mantissa(10);
        }
        // `1...` is a number and an ellipsis.
        if self.peek() == b'.' && self.bytes.get(self.at + 1) != Some(&b'.') {
            float = true;
            self.at += 1;
            if self.peek().is_ascii_digit() {
                self.mantissa(10);
            }
        }
        match self.peek() {
            b'K' | b'M' | b'G' | b'T' | b'P' => {
                float = false;
                self.at += 1;
                self.at += usize::from(self.peek() == b'i');
            }
            b'e' | b'E' => {
                float = true;
                self.at += 1;
                self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
                if !self.peek().is_ascii_digit() || self.mantissa(10) == 0 {
                    self.fail("illegal exponent in number", 0);
                }
            }
            _ => {}
        }
        float
    }

    /// Skips digits and separators; returns how many digits there were.
    fn mantissa(&mut self, base: u32) -> usize {
        let mut digits = 0;
        let mut separator = false;
        loop {
            let byte = self.peek();
            if char::from(byte).is_digit(base) {
                digits += 1;
                separator = false;
            } else if byte == b'_' {
                if separator {
                    self.fail("illegal '_' in number", self.at);
                }
                separator = true;
            } else {
                break;
            }
            self.at += 1;
        }
        if separator {
            self.fail("illegal '_' in number", self.at - 1);
        }
        digits
    }
}
