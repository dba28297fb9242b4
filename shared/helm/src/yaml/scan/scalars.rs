//! Texts: in quotes, in blocks, and plain.

use std::borrow::Cow;

use super::{Mark, Result, Scanner, Style, Token, class, is_break};

impl<'a> Scanner<'a> {
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result {
        let start = self.mark;
        self.skip();
        let (mut keep, mut increment) = (None, 0);
        for _ in 0..2 {
            match self.byte(0) {
                Some(sign @ (b'+' | b'-')) if keep.is_none() => keep = Some(sign == b'+'),
                Some(b'0') if increment == 0 => {
                    return self.problem(start, "found an indentation indicator equal to 0");
                }
                Some(digit @ b'1'..=b'9') if increment == 0 => {
                    increment = isize::from(digit - b'0');
                }
                _ => break,
            }
            self.skip();
        }
        self.end_line(start)?;
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut text = std::mem::take(&mut self.block);
        text.clear();
        let (mut last_break, mut leading_blank) = ("", false);
        let mut breaks = String::new();
        self.block_breaks(&mut indent, &mut breaks, start)?;
        // A block of one line is a piece of the document.
        let (mut lines, mut piece) = (0, self.at..self.at);
        while self.mark.column == usize::try_from(indent).unwrap_or(0) && self.at < self.text.len()
        {
            let blank = self.is_blank();
            if !literal && last_break == "\n" && !leading_blank && !blank {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(last_break);
            }
            text.push_str(&breaks);
            breaks.clear();
            leading_blank = blank;
            let from = self.at;
            self.skip_line();
            text.push_str(self.text.get(from..self.at).unwrap_or_default());
            piece = from..self.at;
            last_break = self.line_break();
            lines += 1;
            self.block_breaks(&mut indent, &mut breaks, start)?;
        }
        if keep != Some(false) {
            text.push_str(last_break);
            piece.end += last_break.len();
        }
        if keep == Some(true) {
            text.push_str(&breaks);
        }
        let written = self.text.get(piece).filter(|piece| lines == 1 && *piece == text);
        let scalar = written.map_or_else(|| Cow::Owned(text.as_str().to_owned()), Cow::Borrowed);
        self.push(Token::Scalar(scalar, Style::Block), start);
        self.block = text;
        Ok(())
    }

    /// Passes the indentation of the next line, and empty lines before it. An indentation of 0 is not known yet: the
    /// deepest of these lines decides.
    fn block_breaks(&mut self, indent: &mut isize, breaks: &mut String, start: Mark) -> Result {
        let mut deepest = 0;
        loop {
            let within = |column: usize| {
                *indent == 0 || isize::try_from(column).is_ok_and(|column| column < *indent)
            };
            let most = match usize::try_from(*indent) {
                Ok(0) | Err(_) => usize::MAX,
                Ok(indent) => indent.saturating_sub(self.mark.column),
            };
            self.skip_spaces(most);
            deepest = deepest.max(self.mark.column);
            if within(self.mark.column) && self.byte(0) == Some(b'\t') {
                return self.problem(
                    start,
                    "found a tab character where an indentation space is expected",
                );
            }
            if !self.is_break() {
                break;
            }
            breaks.push_str(self.line_break());
        }
        if *indent == 0 {
            *indent = isize::try_from(deepest).unwrap_or(isize::MAX).max(self.indent + 1).max(1);
        }
        Ok(())
    }

    pub(super) fn quoted(&mut self, single: bool) -> Result {
        let start = self.mark;
        self.skip();
        let mut text: Cow<'a, str> = Cow::Borrowed("");
        loop {
            if self.is_document_mark() {
                return self.problem(start, "found unexpected document indicator");
            }
            if self.at >= self.text.len() {
                return self.problem(start, "found unexpected end of stream");
            }
            let mut broken = false;
            let from = self.at;
            // What needs no change is taken as it is.
            self.skip_to(class::QUOTE | class::BLANK);
            while let Some(byte) = self.byte(0)
                && byte != b'\''
                && byte != b'"'
                && byte != b'\\'
                && !self.is_blank_or_end(0)
            {
                self.skip();
            }
            append(&mut text, self.text.get(from..self.at).unwrap_or_default());
            while !self.is_blank_or_end(0) {
                match self.byte(0) {
                    Some(b'\'') if single && self.byte(1) == Some(b'\'') => {
                        text.to_mut().push('\'');
                        self.skip_bytes(2);
                    }
                    Some(byte) if byte == if single { b'\'' } else { b'"' } => break,
                    Some(b'\\') if !single => {
                        let next =
                            self.text.get(self.at + 1..).and_then(|rest| rest.chars().next());
                        if next.is_some_and(is_break) {
                            self.skip();
                            self.line_break();
                            broken = true;
                            break;
                        }
                        let char = self.escape(next, start)?;
                        text.to_mut().push(char);
                    }
                    _ => {
                        if let Some(char) = self.char() {
                            text.to_mut().push(char);
                        }
                        self.skip();
                    }
                }
            }
            if !broken && self.byte(0) == Some(if single { b'\'' } else { b'"' }) {
                break;
            }
            self.fold(&mut text, broken);
        }
        self.skip();
        self.push(Token::Scalar(text, Style::Quoted), start);
        Ok(())
    }

    /// Blanks and line breaks within quotes: a break is a blank, more of them are one less.
    fn fold(&mut self, text: &mut Cow<'a, str>, mut broken: bool) {
        let from = self.at;
        let (mut blanks_end, mut first, mut more) = (self.at, "", String::new());
        while self.is_blank() || self.is_break() {
            if self.is_blank() {
                self.skip();
                if !broken {
                    blanks_end = self.at;
                }
            } else if broken {
                more.push_str(self.line_break());
            } else {
                first = self.line_break();
                broken = true;
            }
        }
        if !broken {
            append(text, self.text.get(from..blanks_end).unwrap_or_default());
        } else if first == "\n" {
            text.to_mut().push_str(if more.is_empty() { " " } else { &more });
        } else {
            text.to_mut().push_str(first);
            text.to_mut().push_str(&more);
        }
    }

    fn escape(&mut self, kind: Option<char>, start: Mark) -> Result<char> {
        let (char, digits) = match kind {
            Some('0') => ('\0', 0),
            Some('a') => ('\u{7}', 0),
            Some('b') => ('\u{8}', 0),
            Some('t' | '\t') => ('\t', 0),
            Some('n') => ('\n', 0),
            Some('v') => ('\u{b}', 0),
            Some('f') => ('\u{c}', 0),
            Some('r') => ('\r', 0),
            Some('e') => ('\u{1b}', 0),
            Some(char @ (' ' | '"' | '\'' | '\\')) => (char, 0),
            Some('N') => ('\u{85}', 0),
            Some('_') => ('\u{a0}', 0),
            Some('L') => ('\u{2028}', 0),
            Some('P') => ('\u{2029}', 0),
            Some('x') => ('\0', 2),
            Some('u') => ('\0', 4),
            Some('U') => ('\0', 8),
            _ => return self.problem(start, "found unknown escape character"),
        };
        self.skip_bytes(2);
        if digits == 0 {
            return Ok(char);
        }
        let hex = self
            .rest()
            .get(..digits)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()) else {
            return self.problem(start, "did not find expected hexdecimal number");
        };
        let Some(char) = char::from_u32(code) else {
            return self.problem(start, "found invalid Unicode character escape code");
        };
        self.skip_bytes(digits);
        Ok(char)
    }

    /// Whether a plain text cannot go on with the character that is so many bytes ahead.
    fn ends_plain(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            Some(b':') => self.is_blank_or_end(ahead + 1),
            Some(b',' | b'?' | b'[' | b']' | b'{' | b'}') => self.flow > 0,
            _ => self.is_blank_or_end(ahead),
        }
    }

    /// Passes blanks within a line of a plain text; false if the text does not surely go on behind them.
    fn pass_blanks(&mut self) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_word = rest.get(blanks).is_some_and(|byte| byte.is_ascii() && *byte != b'#');
        let goes_on = is_word && !self.ends_plain(blanks);
        if goes_on {
            self.pass(blanks);
        }
        goes_on
    }

    pub(super) fn plain(&mut self) -> Result {
        let start = self.mark;
        let indent = self.indent + 1;
        // The text is a piece of the document as long as it is on one line.
        let (begin, mut end) = (self.at, self.at);
        let mut folded: Option<String> = None;
        let (mut first, mut more) = ("", String::new());
        let mut broken = false;
        while !self.is_document_mark() && self.byte(0) != Some(b'#') {
            let from = self.at;
            let may_end = class::BLANK | class::COLON | if self.flow > 0 { class::FLOW } else { 0 };
            self.skip_to(may_end);
            while let Some(byte) = self.byte(0) {
                let ends = match byte {
                    b' ' | b'\t' => !self.pass_blanks(),
                    _ => self.ends_plain(0),
                };
                if ends {
                    break;
                }
                self.skip();
                self.skip_to(may_end);
            }
            if from < self.at {
                let piece = |range| self.text.get(range).unwrap_or_default();
                if broken {
                    let text = folded.get_or_insert_with(|| piece(begin..end).to_owned());
                    match (first, more.is_empty()) {
                        ("\n", true) => text.push(' '),
                        ("\n", false) => text.push_str(&more),
                        (other, _) => {
                            text.push_str(other);
                            text.push_str(&more);
                        }
                    }
                    text.push_str(piece(from..self.at));
                } else if let Some(text) = &mut folded {
                    text.push_str(piece(end..self.at));
                }
                end = self.at;
                (broken, first) = (false, "");
                more.clear();
            }
            if !self.is_blank() && !self.is_break() {
                break;
            }
            while self.is_blank() || self.is_break() {
                if self.is_blank() {
                    let column = isize::try_from(self.mark.column).unwrap_or(isize::MAX);
                    if broken && column < indent && self.byte(0) == Some(b'\t') {
                        return self
                            .problem(start, "found a tab character that violates indentation");
                    }
                    self.skip();
                } else if broken {
                    more.push_str(self.line_break());
                } else {
                    first = self.line_break();
                    broken = true;
                }
            }
            if self.flow == 0
                && isize::try_from(self.mark.column).is_ok_and(|column| column < indent)
            {
                break;
            }
        }
        let text = match folded {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(self.text.get(begin..end).unwrap_or_default()),
        };
        self.push(Token::Scalar(text, Style::Plain), start);
        if broken {
            self.key_allowed = true;
        }
        Ok(())
    }
}

/// Adds a part of the document to a text that is one itself, as long as that needs no copy.
fn append<'a>(text: &mut Cow<'a, str>, part: &'a str) {
    if part.is_empty() {
        return;
    }
    if text.is_empty() {
        *text = Cow::Borrowed(part);
    } else {
        text.to_mut().push_str(part);
    }
}
