//! Text to tokens. Inside actions blanks are tokens too: they separate arguments.

use std::borrow::Cow;

use vela_gocompat::strconv;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Error,
    Text,
    Eof,
    LeftDelim,
    RightDelim,
    Space,
    Assign,
    Declare,
    Pipe,
    LeftParen,
    RightParen,
    /// A printable ASCII character that means nothing elsewhere: the comma, and errors.
    Char,
    Bool,
    CharConstant,
    Complex,
    Number,
    String,
    RawString,
    Field,
    Identifier,
    Variable,
    // keywords
    Dot,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A token, where it begins and on which line. The text of an error is its message.
#[derive(Debug, Clone)]
pub(super) struct Item<'s> {
    pub(super) token: Token,
    pub(super) at: usize,
    pub(super) line: usize,
    pub(super) text: Cow<'s, str>,
}

impl Item<'_> {
    /// The token as messages show it.
    pub(super) fn show(&self) -> String {
        match self.token {
            Token::Eof => "EOF".to_owned(),
            Token::Error => self.text.to_string(),
            Token::Dot
            | Token::Block
            | Token::Break
            | Token::Continue
            | Token::Define
            | Token::Else
            | Token::End
            | Token::If
            | Token::Nil
            | Token::Range
            | Token::Template
            | Token::With => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let cut: String = self.text.chars().take(10).collect();
                format!("{}...", strconv::quote(&cut))
            }
            _ => strconv::quote(&self.text),
        }
    }
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

pub(super) struct Lexer<'s> {
    source: &'s str,
    /// How far the text is read.
    at: usize,
    /// Where the present token begins, and on which line that is.
    start: usize,
    line: usize,
    inside: bool,
    parens: usize,
    /// Whether these are keywords, not functions of the caller.
    breaks: bool,
    continues: bool,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str, breaks: bool, continues: bool) -> Self {
        Self { source, at: 0, start: 0, line: 1, inside: false, parens: 0, breaks, continues }
    }

    pub(super) fn next(&mut self) -> Item<'s> {
        if self.inside { self.action() } else { self.text() }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn pending(&self) -> &'s str {
        self.source.get(self.start..self.at).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, set: &str) -> bool {
        let accepted = self.peek().is_some_and(|c| set.contains(c));
        if accepted {
            self.bump();
        }
        accepted
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }

    /// Goes on behind what was read.
    fn skip(&mut self) {
        self.line += self.pending().bytes().filter(|b| *b == b'\n').count();
        self.start = self.at;
    }

    fn item(&mut self, token: Token) -> Item<'s> {
        let text = Cow::Borrowed(self.pending());
        let item = Item { token, at: self.start, line: self.line, text };
        self.skip();
        item
    }

    fn error(&self, message: impl Into<Cow<'s, str>>) -> Item<'s> {
        Item { token: Token::Error, at: self.start, line: self.line, text: message.into() }
    }

    /// Text up to the next action; comments are part of no token.
    fn text(&mut self) -> Item<'s> {
        loop {
            let Some(found) = self.rest().find(LEFT) else {
                self.at = self.source.len();
                let token = if self.at > self.start { Token::Text } else { Token::Eof };
                return self.item(token);
            };
            let delim = self.at + found;
            let trim = left_trims(self.source.get(delim + LEFT.len()..).unwrap_or_default());
            self.at = delim;
            if trim {
                self.at = self.start + self.pending().trim_end_matches(is_space).len();
            }
            let text = (self.at > self.start).then(|| self.item(Token::Text));
            self.at = delim;
            self.skip();
            if let Some(text) = text {
                return text;
            }
            let marker = if trim { 2 } else { 0 };
            let behind = self.at + LEFT.len() + marker;
            if self.source.get(behind..).is_some_and(|rest| rest.starts_with("/*")) {
                self.at = behind;
                self.skip();
                if let Err(error) = self.comment() {
                    return error;
                }
                continue;
            }
            self.at += LEFT.len();
            let item = self.item(Token::LeftDelim);
            self.at = behind;
            self.skip();
            self.inside = true;
            self.parens = 0;
            return item;
        }
    }

    fn comment(&mut self) -> Result<(), Item<'s>> {
        let Some(end) = self.rest().get(2..).and_then(|body| body.find("*/")) else {
            return Err(self.error("unclosed comment"));
        };
        self.at += 2 + end + 2;
        let Some(trim) = right_delim(self.rest()) else {
            return Err(self.error("comment ends before closing delimiter"));
        };
        self.close(trim);
        Ok(())
    }

    /// Behind a right delimiter, and behind the blanks that it trims.
    fn close(&mut self, trim: bool) {
        self.at += if trim { 2 + RIGHT.len() } else { RIGHT.len() };
        if trim {
            self.at = self.source.len() - self.rest().trim_start_matches(is_space).len();
        }
        self.skip();
    }

    fn right(&mut self, trim: bool) -> Item<'s> {
        if trim {
            self.at += 2;
            self.skip();
        }
        self.at += RIGHT.len();
        let item = self.item(Token::RightDelim);
        if trim {
            self.at = self.source.len() - self.rest().trim_start_matches(is_space).len();
            self.skip();
        }
        self.inside = false;
        item
    }

    fn action(&mut self) -> Item<'s> {
        if let Some(trim) = right_delim(self.rest()) {
            if self.parens == 0 {
                return self.right(trim);
            }
            return self.error("unclosed left paren");
        }
        let Some(c) = self.bump() else {
            return self.error("unclosed action");
        };
        match c {
            c if is_space(c) => self.space(),
            '=' => self.item(Token::Assign),
            ':' if self.accept("=") => self.item(Token::Declare),
            ':' => self.error("expected :="),
            '|' => self.item(Token::Pipe),
            '"' => self.quoted('"', Token::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Token::CharConstant, "unterminated character constant"),
            '`' => match self.rest().find('`') {
                Some(end) => {
                    self.at += end + 1;
                    self.item(Token::RawString)
                }
                None => self.error("unterminated raw quoted string"),
            },
            '$' => self.name(Token::Variable),
            '.' if self.peek().is_some_and(|c| !c.is_ascii_digit()) => {
                if self.at_terminator() {
                    self.item(Token::Dot)
                } else {
                    self.name(Token::Field)
                }
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = self.start;
                self.number()
            }
            c if is_alphanumeric(c) => self.word(),
            '(' => {
                self.parens += 1;
                self.item(Token::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.item(Token::RightParen)
                }
                None => self.error("unexpected right paren"),
            },
            c if c.is_ascii() && strconv::is_print(c) => self.item(Token::Char),
            c => self.error(format!("unrecognized character in action: {}", code_point(c))),
        }
    }

    /// Blanks, but for the one that belongs to a trim marker.
    fn space(&mut self) -> Item<'s> {
        self.at = self.source.len() - self.rest().trim_start_matches(is_space).len();
        let last = self.at - 1;
        if self.source.get(last..).is_some_and(|rest| right_delim(rest) == Some(true)) {
            self.at = last;
            if self.at == self.start {
                return self.right(true);
            }
        }
        self.item(Token::Space)
    }

    fn quoted(&mut self, quote: char, token: Token, unterminated: &'static str) -> Item<'s> {
        loop {
            match self.bump() {
                Some('\\') if !matches!(self.bump(), None | Some('\n')) => {}
                None | Some('\n' | '\\') => return self.error(unterminated),
                Some(c) if c == quote => return self.item(token),
                Some(_) => {}
            }
        }
    }

    /// A field or variable behind its `.` or `$`.
    fn name(&mut self, token: Token) -> Item<'s> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if self.at_terminator() { self.item(token) } else { self.bad_character() }
    }

    fn word(&mut self) -> Item<'s> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        let token = match self.pending() {
            "block" => Token::Block,
            "break" if self.breaks => Token::Break,
            "continue" if self.continues => Token::Continue,
            "define" => Token::Define,
            "else" => Token::Else,
            "end" => Token::End,
            "if" => Token::If,
            "nil" => Token::Nil,
            "range" => Token::Range,
            "template" => Token::Template,
            "with" => Token::With,
            "true" | "false" => Token::Bool,
            _ => Token::Identifier,
        };
        self.item(token)
    }

    fn bad_character(&self) -> Item<'s> {
        let c = self.peek().map_or_else(|| "U+FFFFFFFFFFFFFFFF".to_owned(), code_point);
        self.error(format!("bad character {c}"))
    }

    /// Whether a name may end here.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) => is_space(c) || self.rest().starts_with(RIGHT),
        }
    }

    /// More than Go's numbers; what is none is found when it is read.
    fn number(&mut self) -> Item<'s> {
        let mut token = Token::Number;
        let mut good = self.scan_number();
        if good && matches!(self.peek(), Some('+' | '-')) {
            token = Token::Complex;
            good = self.scan_number() && self.pending().ends_with('i');
        }
        if good {
            return self.item(token);
        }
        self.error(format!("bad number syntax: {}", strconv::quote(self.pending())))
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if (digits == DECIMAL && self.accept("eE")) || (digits == HEX && self.accept("pP")) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}

/// Whether the text behind a left delimiter begins with a trim marker.
fn left_trims(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(is_space))
}

/// Whether a right delimiter is here, and if so, whether it trims.
fn right_delim(rest: &str) -> Option<bool> {
    if rest.starts_with(RIGHT) {
        return Some(false);
    }
    let marker = rest.strip_prefix(is_space)?.strip_prefix('-')?;
    marker.starts_with(RIGHT).then_some(true)
}

/// `%#U`
fn code_point(c: char) -> String {
    if strconv::is_print(c) {
        format!("U+{:04X} '{c}'", c as u32)
    } else {
        format!("U+{:04X}", c as u32)
    }
}
