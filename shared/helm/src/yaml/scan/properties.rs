//! Directives, anchors and tags.

use super::{Mark, Result, Scanner, Token, is_word};

impl<'a> Scanner<'a> {
    pub(super) fn directive(&mut self) -> Result {
        let start = self.mark;
        self.skip();
        let name = self.word();
        if name.is_empty() {
            return self.problem(start, "could not find expected directive name");
        }
        if !self.is_blank_or_end(0) {
            return self.problem(start, "found unexpected non-alphabetical character");
        }
        match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.version_number(start)?;
                if self.byte(0) != Some(b'.') {
                    return self.problem(start, "did not find expected digit or '.' character");
                }
                self.skip();
                let minor = self.version_number(start)?;
                self.push(Token::Version(major, minor), start);
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true, start)?;
                if !self.is_blank() {
                    return self.problem(start, "did not find expected whitespace");
                }
                self.skip_blanks();
                let prefix = self.tag_uri("", start)?;
                if !self.is_blank_or_end(0) {
                    return self.problem(start, "did not find expected whitespace or line break");
                }
                self.push(Token::TagDirective(Box::new((handle, prefix))), start);
            }
            _ => return self.problem(start, "found unknown directive name"),
        }
        self.end_line(start)
    }

    pub(super) fn end_line(&mut self, start: Mark) -> Result {
        self.skip_blanks();
        self.skip_comment();
        if !self.is_break_or_end() {
            return self.problem(start, "did not find expected comment or line break");
        }
        if self.is_break() {
            self.line_break();
        }
        Ok(())
    }

    fn version_number(&mut self, start: Mark) -> Result<u32> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits > 9 {
            return self.problem(start, "found extremely long version number");
        }
        let number = self.rest().get(..digits).and_then(|text| text.parse().ok());
        self.skip_bytes(digits);
        match number {
            Some(number) => Ok(number),
            None => self.problem(start, "did not find expected version number"),
        }
    }

    /// Letters, digits, `_` and `-`.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let word = rest.split(|char| !is_word(char)).next().unwrap_or_default();
        self.skip_bytes(word.len());
        word
    }

    pub(super) fn anchor(&mut self, alias: bool) -> Result {
        let start = self.mark;
        self.skip();
        let word = self.word();
        let ends =
            self.is_blank_or_end(0) || self.byte(0).is_some_and(|byte| b"?:,]}%@`".contains(&byte));
        if word.is_empty() || !ends {
            return self.problem(start, "did not find expected alphabetic or numeric character");
        }
        self.push(if alias { Token::Alias(word) } else { Token::Anchor(word) }, start);
        Ok(())
    }

    pub(super) fn tag(&mut self) -> Result {
        let start = self.mark;
        let (handle, suffix) = if self.byte(1) == Some(b'<') {
            self.skip_bytes(2);
            let suffix = self.tag_uri("", start)?;
            if self.byte(0) != Some(b'>') {
                return self.problem(start, "did not find the expected '>'");
            }
            self.skip();
            (String::new(), suffix)
        } else {
            let handle = self.tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.tag_uri("", start)?;
                (handle, suffix)
            } else {
                let suffix = self.tag_uri(&handle, start)?;
                // `!` alone is a tag of its own.
                if suffix.is_empty() {
                    (String::new(), "!".to_owned())
                } else {
                    ("!".to_owned(), suffix)
                }
            }
        };
        if !self.is_blank_or_end(0) {
            return self.problem(start, "did not find expected whitespace or line break");
        }
        self.push(Token::Tag(Box::new((handle, suffix))), start);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool, start: Mark) -> Result<String> {
        if self.byte(0) != Some(b'!') {
            return self.problem(start, "did not find expected '!'");
        }
        let mut handle = "!".to_owned();
        self.skip();
        handle.push_str(self.word());
        if self.byte(0) == Some(b'!') {
            handle.push('!');
            self.skip();
        } else if directive && handle != "!" {
            return self.problem(start, "did not find expected '!'");
        }
        Ok(handle)
    }

    /// What follows a handle; `head` is a handle that turned out to be the beginning of it.
    fn tag_uri(&mut self, head: &str, start: Mark) -> Result<String> {
        let mut uri = head.get(1..).unwrap_or_default().to_owned();
        let mut any = !head.is_empty();
        while let Some(char) = self.char() {
            if char == '%' {
                let mut bytes = Vec::new();
                while self.byte(0) == Some(b'%') {
                    let hex =
                        self.rest().get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                    let Some(byte) = hex else {
                        return self.problem(start, "did not find URI escaped octet");
                    };
                    bytes.push(byte);
                    self.skip_bytes(3);
                }
                match String::from_utf8(bytes) {
                    Ok(text) => uri.push_str(&text),
                    Err(_) => return self.problem(start, "found an incorrect leading UTF-8 octet"),
                }
            } else if is_word(char) || ";/?:@&=+$,.!~*'()[]".contains(char) {
                uri.push(char);
                self.skip();
            } else {
                break;
            }
            any = true;
        }
        if !any {
            return self.problem(start, "did not find expected tag URI");
        }
        Ok(uri)
    }
}
