//! From Go's grammar of patterns to that of the `regex` crate.

mod classes;

use std::collections::HashSet;

use super::{ErrorCode, LENGTH_LIMIT, MAX_REPEAT, NEST_LIMIT, RegexpError, Result, shorten};
use classes::push_literal;

/// Rewrites a pattern of Go into the syntax of the `regex` crate.
///
/// # Errors
/// If the pattern is none in Go.
pub fn translate(pattern: &str) -> Result<String> {
    if pattern.len() > LENGTH_LIMIT {
        return Err(RegexpError { code: ErrorCode::Large, part: shorten(pattern) });
    }
    let mut parser = Parser {
        pattern,
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        names: HashSet::new(),
        unicode_classes: 0,
        last_posix_end: pattern.rfind(":]"),
    };
    parser.pattern()?;
    Ok(parser.out)
}

struct Parser<'a> {
    pattern: &'a str,
    at: usize,
    out: String,
    names: HashSet<&'a str>,
    unicode_classes: usize,
    /// The last position where a POSIX class could end: to search it once.
    last_posix_end: Option<usize>,
}

/// What stands before the current position, for repetition operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Start of an alternative: nothing to repeat.
    Nothing,
    /// An expression.
    Atom,
    /// A repetition operator that began at this byte.
    Repeat(usize),
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn error<T>(&self, code: ErrorCode, from: usize, to: usize) -> Result<T> {
        let part = shorten(self.pattern.get(from..to).unwrap_or_default());
        Err(RegexpError { code, part })
    }

    fn whole<T>(&self, code: ErrorCode) -> Result<T> {
        self.error(code, 0, self.pattern.len())
    }

    fn pattern(&mut self) -> Result<()> {
        let mut depth = 0_u32;
        let mut before = Before::Nothing;
        while let Some(c) = self.peek() {
            let start = self.at;
            match c {
                '(' => {
                    depth += 1;
                    if depth >= NEST_LIMIT {
                        return self.whole(ErrorCode::NestingDepth);
                    }
                    if self.group()? {
                        depth -= 1;
                        // A flag setting is no argument of a repetition, nor does it hide one.
                    } else {
                        before = Before::Nothing;
                    }
                    continue;
                }
                ')' => {
                    if depth == 0 {
                        return self.whole(ErrorCode::UnexpectedParen);
                    }
                    depth -= 1;
                    self.copy();
                }
                '|' => {
                    self.copy();
                    before = Before::Nothing;
                    continue;
                }
                '*' | '+' | '?' => {
                    self.at += 1;
                    before = self.repetition(start, before)?;
                    continue;
                }
                '{' => {
                    if let Some(len) = self.repeat_counts()? {
                        self.at += len;
                        before = self.repetition(start, before)?;
                        continue;
                    }
                    self.at += 1;
                    self.literal('{');
                }
                '[' => self.class()?,
                '\\' => {
                    if !self.escape()? {
                        continue;
                    }
                }
                '^' | '$' | '.' => self.copy(),
                _ => {
                    self.at += c.len_utf8();
                    self.literal(c);
                }
            }
            before = Before::Atom;
        }
        if depth > 0 {
            return self.whole(ErrorCode::MissingParen);
        }
        Ok(())
    }

    fn copy(&mut self) {
        if let Some(c) = self.next() {
            self.out.push(c);
        }
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
    }

    /// After an operator that began at `start`: its lazy mark, its argument.
    fn repetition(&mut self, start: usize, before: Before) -> Result<Before> {
        if self.peek() == Some('?') {
            self.at += 1;
        }
        match before {
            Before::Nothing => return self.error(ErrorCode::MissingRepeatArgument, start, self.at),
            Before::Repeat(first) => return self.error(ErrorCode::InvalidRepeatOp, first, self.at),
            Before::Atom => {}
        }
        self.out.push_str(self.pattern.get(start..self.at).unwrap_or_default());
        Ok(Before::Repeat(start))
    }

    /// `{n}`, `{n,}` or `{n,m}` at the current position: its length. Anything else is literal.
    fn repeat_counts(&self) -> Result<Option<usize>> {
        let counts = |b: u8| b.is_ascii_digit() || b == b',';
        let digits = self.rest().bytes().skip(1).take_while(|&b| counts(b)).count();
        let end = digits + 1;
        if self.rest().as_bytes().get(end) != Some(&b'}') {
            return Ok(None);
        }
        let Some(body) = self.rest().get(1..end) else { return Ok(None) };
        let (low, high) = match body.split_once(',') {
            Some((low, high)) => (low, Some(high)),
            None => (body, None),
        };
        let count = |text: &str| -> Option<u32> {
            let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let padded = text.len() > 1 && text.starts_with('0');
            (number && !padded).then(|| text.parse().unwrap_or(u32::MAX))
        };
        let Some(low) = count(low) else { return Ok(None) };
        let high = match high {
            None => Some(low),
            Some("") => None,
            Some(text) => match count(text) {
                Some(n) => Some(n),
                None => return Ok(None),
            },
        };
        if low > MAX_REPEAT || high.is_some_and(|h| h > MAX_REPEAT || h < low) {
            return self.error(ErrorCode::InvalidRepeatSize, self.at, self.at + end + 1);
        }
        Ok(Some(end + 1))
    }

    /// An opening parenthesis; true if it was a complete flag setting `(?i)`.
    fn group(&mut self) -> Result<bool> {
        let start = self.at;
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.copy();
            return Ok(false);
        }
        if let Some(name_at) =
            ["(?P<", "(?<"].iter().find(|p| rest.starts_with(**p)).map(|p| p.len())
        {
            let Some(end) = rest.find('>') else {
                return self.error(ErrorCode::InvalidNamedCapture, start, self.pattern.len());
            };
            let name = rest.get(name_at..end).unwrap_or_default();
            let valid = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                // The crate wants a letter first; Go does not.
                && !name.starts_with(|c: char| c.is_ascii_digit());
            if !valid || !self.names.insert(name) {
                return self.error(ErrorCode::InvalidNamedCapture, start, start + end + 1);
            }
            self.out.push_str(&format!("(?P<{name}>"));
            self.at += end + 1;
            return Ok(false);
        }
        self.flags(start)
    }

    /// `(?flags)` or `(?flags:`.
    fn flags(&mut self, start: usize) -> Result<bool> {
        self.at += 2;
        let mut negative = false;
        let mut any = false;
        loop {
            match self.next() {
                Some('i' | 'm' | 's' | 'U') => any = true,
                Some('-') if !negative => {
                    negative = true;
                    any = false;
                }
                Some(end @ (':' | ')')) => {
                    if negative && !any {
                        return self.error(ErrorCode::InvalidPerlOp, start, self.at);
                    }
                    let text = self.pattern.get(start..self.at).unwrap_or_default();
                    // `(?)` sets nothing; the crate refuses it.
                    if text != "(?)" {
                        self.out.push_str(text);
                    }
                    return Ok(end == ')');
                }
                Some(_) => return self.error(ErrorCode::InvalidPerlOp, start, self.at),
                None => return self.error(ErrorCode::MissingParen, 0, self.pattern.len()),
            }
        }
    }
}
