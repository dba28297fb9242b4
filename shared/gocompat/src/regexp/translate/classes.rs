//! What a backslash begins, and classes in brackets.

use regex_automata::util::syntax;

use super::super::{ErrorCode, MAX_UNICODE_CLASSES, Result};
use super::Parser;

/// The Perl classes, ASCII only.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r ]",
        'S' => r"[^\t\n\x0C\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl Parser<'_> {
    /// A backslash outside a class; false if it was an empty `\Q\E`.
    pub(super) fn escape(&mut self) -> Result<bool> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek() else {
            return self.error(ErrorCode::TrailingBackslash, self.at, self.at);
        };
        if let Some(class) = perl_class(c) {
            self.at += 1;
            self.out.push_str(class);
            return Ok(true);
        }
        match c {
            'A' | 'z' => {
                self.at += 1;
                self.out.push('\\');
                self.out.push(c);
            }
            'b' | 'B' => {
                self.at += 1;
                self.out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
            }
            'Q' => {
                self.at += 1;
                let rest = self.rest();
                let end = rest.find(r"\E");
                let text = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                for c in text.chars() {
                    self.literal(c);
                }
                self.at += text.len() + if end.is_some() { 2 } else { 0 };
                return Ok(!text.is_empty());
            }
            'p' | 'P' => {
                let class = self.unicode_class(start)?;
                self.out.push_str(&class);
            }
            _ => {
                let c = self.char_escape(start)?;
                self.literal(c);
            }
        }
        Ok(true)
    }

    /// `\pN`, `\p{Greek}`, `\P{^L}`; the current position is at the `p`.
    fn unicode_class(&mut self, start: usize) -> Result<String> {
        let mut negative = self.next() == Some('P');
        let rest = self.rest();
        let (name, len) = match rest.chars().next() {
            Some('{') => {
                let Some(end) = rest.find('}') else {
                    return self.error(ErrorCode::InvalidCharRange, start, self.pattern.len());
                };
                (rest.get(1..end).unwrap_or_default(), end + 1)
            }
            Some(c) => (rest.get(..c.len_utf8()).unwrap_or_default(), c.len_utf8()),
            None => return self.error(ErrorCode::InvalidCharRange, start, self.pattern.len()),
        };
        self.at += len;
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negative = !negative;
                name
            }
            None => name,
        };
        // Go's tables have general categories and scripts under their exact names only.
        let plausible = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        self.unicode_classes += 1;
        if self.unicode_classes > MAX_UNICODE_CLASSES {
            return self.whole(ErrorCode::Large);
        }
        let class = format!("\\{}{{{name}}}", if negative { 'P' } else { 'p' });
        if !plausible || regex_syntax_refuses(&class) {
            return self.error(ErrorCode::InvalidCharRange, start, self.at);
        }
        Ok(class)
    }

    /// One character after a backslash at `start`; the current position is behind the backslash.
    fn char_escape(&mut self, start: usize) -> Result<char> {
        let Some(c) = self.next() else {
            return self.error(ErrorCode::TrailingBackslash, self.at, self.at);
        };
        let value = match c {
            // One octal digit alone would be a back reference.
            '1'..='7' if !self.peek().is_some_and(|c| c.is_digit(8)) => None,
            '0'..='7' => {
                let mut value = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    self.at += 1;
                }
                char::from_u32(value)
            }
            'x' => self.hex_escape(),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        match value {
            Some(value) => Ok(value),
            None => self.error(ErrorCode::InvalidEscape, start, self.at),
        }
    }

    fn hex_escape(&mut self) -> Option<char> {
        let rest = self.rest();
        let (digits, len) = if rest.starts_with('{') {
            let end = rest.find('}')?;
            (rest.get(1..end)?, end + 1)
        } else {
            (rest.get(..2)?, 2)
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            self.at += rest.chars().next().map_or(0, char::len_utf8);
            return None;
        }
        self.at += len;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }

    /// `[...]`.
    pub(super) fn class(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 1;
        self.out.push('[');
        if self.peek() == Some('^') {
            self.copy();
        }
        let mut first = true;
        loop {
            let Some(c) = self.peek() else {
                return self.error(ErrorCode::MissingBracket, start, self.pattern.len());
            };
            if c == ']' && !first {
                break;
            }
            first = false;
            if self.rest().starts_with("[:")
                && self.last_posix_end.is_some_and(|end| end > self.at)
                && let Some(end) = self.rest().find(":]")
            {
                self.posix_class(end + 2)?;
                continue;
            }
            if c == '\\' && self.class_escape()? {
                continue;
            }
            self.range(start)?;
        }
        self.copy();
        Ok(())
    }

    fn posix_class(&mut self, len: usize) -> Result<()> {
        let text = self.rest().get(..len).unwrap_or_default();
        let name = text.trim_start_matches("[:").trim_end_matches(":]");
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return self.error(ErrorCode::InvalidCharRange, self.at, self.at + len);
        }
        self.out.push_str(text);
        self.at += len;
        Ok(())
    }

    /// A class within a class (`\d`, `\pL`); false if the backslash begins a character.
    fn class_escape(&mut self) -> Result<bool> {
        let start = self.at;
        let Some(c) = self.rest().chars().nth(1) else {
            return Ok(false);
        };
        if let Some(class) = perl_class(c) {
            self.at += 2;
            self.out.push_str(class);
            return Ok(true);
        }
        if c == 'p' || c == 'P' {
            self.at += 1;
            let class = self.unicode_class(start)?;
            self.out.push_str(&class);
            return Ok(true);
        }
        Ok(false)
    }

    /// A character or a range of characters.
    fn range(&mut self, class_start: usize) -> Result<()> {
        let start = self.at;
        let low = self.class_char(class_start)?;
        let is_range =
            self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1;
        if !is_range {
            self.literal(low);
            return Ok(());
        }
        self.at += 1;
        let high = self.class_char(class_start)?;
        if high < low {
            return self.error(ErrorCode::InvalidCharRange, start, self.at);
        }
        self.literal(low);
        self.out.push('-');
        self.literal(high);
        Ok(())
    }

    fn class_char(&mut self, class_start: usize) -> Result<char> {
        let start = self.at;
        match self.next() {
            Some('\\') => self.char_escape(start),
            Some(c) => Ok(c),
            None => self.error(ErrorCode::MissingBracket, class_start, self.pattern.len()),
        }
    }
}

/// A character without special meaning anywhere, inside classes too.
pub(super) fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_punctuation() && c != '<' && c != '>' {
        out.push('\\');
        out.push(c);
    } else if c.is_ascii_control() {
        out.push_str(&format!("\\x{:02X}", c as u32));
    } else {
        out.push(c);
    }
}

/// Whether the crate does not know a class: it is asked, once per mention.
fn regex_syntax_refuses(class: &str) -> bool {
    syntax::parse(class).is_err()
}
