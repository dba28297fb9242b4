//! The lexer: one token at a time, on demand, with automatic commas.
//!
//! The parser drives it, because only the parser knows where an interpolated expression ends
//! (`Lexer::resume`). Comments are collected on the way, never returned.

use crate::ast::Comment;
use crate::literal::{Quotes, illegal_character, scan_number, to_u32};
use crate::position::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The end of the text.
    Eof,
    /// A character that begins no token; an error was reported.
    Illegal,
    /// A name, keyword, `_`, `true`, `false` or `null`.
    Ident,
    /// A number without point or exponent.
    Int,
    /// A number with point or exponent.
    Float,
    /// A string or bytes literal.
    String,
    /// A string or bytes literal up to and with its first `\(`.
    Interpolation,
    /// `@name(...)`
    Attribute,
    /// `_|_`
    Bottom,
    /// `,`
    Comma,
    /// The comma that a line end implies.
    Newline,
    /// `:`
    Colon,
    /// `;`
    Semicolon,
    /// `?`
    Option,
    /// `.`
    Period,
    /// `...`
    Ellipsis,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `&`
    And,
    /// `&&`
    LogicalAnd,
    /// `|`
    Or,
    /// `||`
    LogicalOr,
    /// `=`
    Bind,
    /// `==`
    Equal,
    /// `!`
    Not,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `<-`: no operator means it, so `<-1` needs a blank.
    Arrow,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
}

impl TokenKind {
    /// The name that error texts use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eof => "EOF",
            Self::Illegal => "ILLEGAL",
            Self::Ident => "IDENT",
            Self::Int => "INT",
            Self::Float => "FLOAT",
            Self::String => "STRING",
            Self::Interpolation => "INTERPOLATION",
            Self::Attribute => "ATTRIBUTE",
            Self::Bottom => "_|_",
            Self::Comma | Self::Newline => ",",
            Self::Colon => ":",
            Self::Semicolon => ";",
            Self::Option => "?",
            Self::Period => ".",
            Self::Ellipsis => "...",
            Self::LeftParen => "(",
            Self::RightParen => ")",
            Self::LeftBracket => "[",
            Self::RightBracket => "]",
            Self::LeftBrace => "{",
            Self::RightBrace => "}",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::And => "&",
            Self::LogicalAnd => "&&",
            Self::Or => "|",
            Self::LogicalOr => "||",
            Self::Bind => "=",
            Self::Equal => "==",
            Self::Not => "!",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Arrow => "<-",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Match => "=~",
            Self::NotMatch => "!~",
        }
    }

    /// Whether error texts show the token's text.
    pub(crate) fn is_literal(self) -> bool {
        matches!(
            self,
            Self::Ident
                | Self::Int
                | Self::Float
                | Self::String
                | Self::Interpolation
                | Self::Bottom
        )
    }

    /// Whether a line end behind the token implies a comma.
    fn ends_line(self) -> bool {
        matches!(
            self,
            Self::Ident
                | Self::Int
                | Self::Float
                | Self::String
                | Self::Attribute
                | Self::Bottom
                | Self::Option
                | Self::Ellipsis
                | Self::RightParen
                | Self::RightBracket
                | Self::RightBrace
                | Self::Semicolon
        )
    }
}

/// One token of the text, without the space before it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands. That of an implied comma is empty.
    pub span: Span,
    /// How many comment groups begin before it.
    pub(crate) comments: u32,
    /// Whether a string is its own value, but for one quote at either end, or a number consists of
    /// decimal digits only.
    pub(crate) plain: bool,
}

/// A lexical error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// What is wrong, as cue says it.
    pub message: String,
    /// Offset in the text.
    pub offset: u32,
}

/// Splits a text into tokens.
///
/// ```
/// use cue_syntax::lexer::{Lexer, TokenKind};
///
/// let mut lexer = Lexer::new("a: 1\n");
/// let kinds: Vec<_> = std::iter::from_fn(|| Some(lexer.next_token().kind))
///     .take_while(|&kind| kind != TokenKind::Eof)
///     .collect();
/// assert_eq!(kinds, [TokenKind::Ident, TokenKind::Colon, TokenKind::Int, TokenKind::Newline]);
/// ```
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Whether the next line end implies a comma.
    ends_line: bool,
    /// Whether a line end was passed since the last token with a text.
    new_line: bool,
    /// Whether the string or number just read is as simple as they come.
    plain: bool,
    comments: Vec<Comment>,
    errors: Vec<LexError>,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of a text. A byte order mark there is skipped.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self::with_comments(text, Vec::new())
    }

    /// As [`Lexer::new`], with an empty vector to collect comments in.
    pub(crate) fn with_comments(text: &'a str, comments: Vec<Comment>) -> Self {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Self {
            text,
            at,
            ends_line: false,
            new_line: true,
            plain: false,
            comments,
            errors: Vec::new(),
        }
    }

    /// The comments and errors, when all is read.
    pub(crate) fn into_parts(self) -> (Vec<Comment>, Vec<LexError>) {
        (self.comments, self.errors)
    }

    /// The errors so far.
    #[must_use]
    pub fn errors(&self) -> &[LexError] {
        &self.errors
    }

    pub(crate) fn comments(&self) -> &[Comment] {
        &self.comments
    }

    /// The next token; at the end, [`TokenKind::Eof`] for ever.
    #[inline]
    pub fn next_token(&mut self) -> Token {
        if let Some(comma) = self.skip_space() {
            return comma;
        }
        let start = self.at;
        self.plain = false;
        let kind = self.scan();
        self.ends_line = kind.ends_line() || kind == TokenKind::Illegal && self.ends_line;
        self.new_line = false;
        self.token(kind, start)
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        let comments = to_u32(self.comments.len());
        let span = Span::new(to_u32(start), to_u32(self.at));
        Token { kind, span, comments, plain: self.plain }
    }

    /// Goes on with the literal that began at `literal`, behind the `)` at which the lexer stands.
    /// Returns the token of the piece: [`TokenKind::Interpolation`] if another `\(` follows.
    pub(crate) fn resume(&mut self, literal: u32) -> Token {
        let start = self.at;
        self.plain = false;
        let kind = self.string(literal as usize, self.at);
        self.ends_line = kind.ends_line();
        self.new_line = false;
        self.token(kind, start)
    }

    fn error(&mut self, message: impl Into<String>, offset: usize) {
        self.errors.push(LexError { message: message.into(), offset: to_u32(offset) });
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space and comments; returns the comma that a line end implies.
    fn skip_space(&mut self) -> Option<Token> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            match bytes.get(at) {
                // Most of a template is indentation.
                Some(b' ' | b'\t' | b'\r') => at += 1,
                Some(b'\n') => {
                    self.at = at;
                    if self.ends_line {
                        let (next, continued) = self.line_below();
                        if !continued {
                            let comma = self.implied_comma();
                            self.new_line = true;
                            self.at = next;
                            return Some(comma);
                        }
                    }
                    self.ends_line = false;
                    self.new_line = true;
                    at += 1;
                }
                Some(b'/') if bytes.get(at + 1) == Some(&b'/') => {
                    self.at = at;
                    if self.ends_line {
                        return Some(self.implied_comma());
                    }
                    self.comment_group();
                    at = self.at;
                }
                found => {
                    self.at = at;
                    let ended = found.is_none() && self.ends_line;
                    return ended.then(|| self.implied_comma());
                }
            }
        }
    }

    /// At a line end: where the next line with anything on it begins, behind its blanks, and
    /// whether it begins with a comma or colon. Then none is implied.
    fn line_below(&self) -> (usize, bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let next = self.at + rest.iter().position(|byte| !blank(byte)).unwrap_or(rest.len());
        let continued = match self.text.as_bytes().get(next) {
            None => false,
            Some(b',' | b':') => true,
            // Other white space ends up as an error, but not here.
            Some(0x0b | 0x0c | 0x80..) => {
                let rest = self.text.get(next..).unwrap_or_default();
                rest.trim_start().starts_with([',', ':'])
            }
            Some(_) => false,
        };
        (next, continued)
    }

    fn implied_comma(&mut self) -> Token {
        self.plain = false;
        self.ends_line = false;
        self.token(TokenKind::Newline, self.at)
    }

    /// Reads the comment at the current place and, unless it stands behind a token, those on the
    /// lines directly below it.
    fn comment_group(&mut self) {
        let start = self.at;
        let line = !self.new_line;
        let mut end = self.comment();
        while let Some(next) = if line { None } else { self.comment_below() } {
            self.at = next;
            end = self.comment();
        }
        // A group is documentation if the next line has something on it.
        let next = self.rest().strip_prefix('\n').unwrap_or_default();
        let next = next.trim_start_matches([' ', '\t', '\r']);
        let doc = !line && !next.is_empty() && !next.starts_with('\n');
        let span = Span::new(to_u32(start), to_u32(end));
        self.comments.push(Comment { span, doc, line });
    }

    /// At a line end: where the comment on the next line begins, if that line is one.
    fn comment_below(&self) -> Option<usize> {
        let next = self.rest().strip_prefix('\n')?.trim_start_matches([' ', '\t', '\r']);
        next.starts_with("//").then(|| self.text.len() - next.len())
    }

    /// Reads a comment up to the line end; returns where its text ends.
    fn comment(&mut self) -> usize {
        let rest = self.rest();
        let length = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        let comment = rest.get(..length).unwrap_or_default();
        // Neither is in any comment that is well, nor is what the mark begins with in most.
        if memchr::memchr2(0, 0xef, comment.as_bytes()).is_some() {
            if let Some(offset) = comment.find('\u{feff}') {
                self.error("illegal byte order mark", self.at + offset);
            }
            if let Some(offset) = comment.find('\0') {
                self.error("illegal character NUL", self.at + offset);
            }
        }
        let end = self.at + comment.trim_end_matches('\r').len();
        self.at += length;
        end
    }

    fn scan(&mut self) -> TokenKind {
        let Some(&byte) = self.text.as_bytes().get(self.at) else { return TokenKind::Eof };
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'$' => return self.ident(),
            b'0'..=b'9' => return self.number(),
            b'.' if self.peek(1).is_ascii_digit() => return self.number(),
            b'"' | b'\'' => return self.string_start(),
            b'#' => {
                let hashes = self.rest().bytes().take_while(|&b| b == b'#').count();
                if matches!(self.peek(hashes), b'"' | b'\'') {
                    return self.string_start();
                }
                return self.ident();
            }
            b'_' if self.peek(1) == b'|' => {
                if self.peek(2) == b'_' {
                    self.at += 3;
                    return TokenKind::Bottom;
                }
                self.error("illegal token '_|'; expected '_'", self.at);
                self.at += 2;
                return TokenKind::Illegal;
            }
            b'_' => return self.ident(),
            b'@' => return self.attribute(),
            _ => {}
        }
        let (kind, width) = match (byte, self.peek(1)) {
            (b'.', b'.') => {
                if self.peek(2) == b'.' {
                    (TokenKind::Ellipsis, 3)
                } else {
                    self.error("illegal token '..'; expected '.'", self.at);
                    (TokenKind::Illegal, 2)
                }
            }
            (b'.', _) => (TokenKind::Period, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b'?', _) => (TokenKind::Option, 1),
            (b'(', _) => (TokenKind::LeftParen, 1),
            (b')', _) => (TokenKind::RightParen, 1),
            (b'[', _) => (TokenKind::LeftBracket, 1),
            (b']', _) => (TokenKind::RightBracket, 1),
            (b'{', _) => (TokenKind::LeftBrace, 1),
            (b'}', _) => (TokenKind::RightBrace, 1),
            (b'+', _) => (TokenKind::Add, 1),
            (b'-', _) => (TokenKind::Subtract, 1),
            (b'*', _) => (TokenKind::Multiply, 1),
            (b'/', _) => (TokenKind::Divide, 1),
            (b'&', b'&') => (TokenKind::LogicalAnd, 2),
            (b'&', _) => (TokenKind::And, 1),
            (b'|', b'|') => (TokenKind::LogicalOr, 2),
            (b'|', _) => (TokenKind::Or, 1),
            (b'=', b'=') => (TokenKind::Equal, 2),
            (b'=', b'~') => (TokenKind::Match, 2),
            (b'=', _) => (TokenKind::Bind, 1),
            (b'!', b'=') => (TokenKind::NotEqual, 2),
            (b'!', b'~') => (TokenKind::NotMatch, 2),
            (b'!', _) => (TokenKind::Not, 1),
            (b'<', b'=') => (TokenKind::LessEqual, 2),
            (b'<', b'-') => (TokenKind::Arrow, 2),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', b'=') => (TokenKind::GreaterEqual, 2),
            (b'>', _) => (TokenKind::Greater, 1),
            _ => {
                let c = self.rest().chars().next().unwrap_or_default();
                if is_letter(c) {
                    return self.ident();
                }
                let message = match c {
                    '\0' => "illegal character NUL".to_owned(),
                    '\u{feff}' => "illegal byte order mark".to_owned(),
                    c => illegal_character(c, ""),
                };
                self.error(message, self.at);
                (TokenKind::Illegal, c.len_utf8())
            }
        };
        self.at += width;
        kind
    }

    fn number(&mut self) -> TokenKind {
        let bytes = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let more = |byte: &u8| matches!(byte, b'_' | b'.' | b'a'..=b'z' | b'A'..=b'Z');
        if (digits == 1 || bytes.first() != Some(&b'0')) && !bytes.get(digits).is_some_and(more) {
            self.plain = true;
            self.at += digits;
            return TokenKind::Int;
        }
        let number = scan_number(self.rest());
        if let Some(error) = number.error {
            self.error(error.message, self.at + error.offset);
        }
        self.at += number.end;
        if number.float { TokenKind::Float } else { TokenKind::Int }
    }

    #[inline]
    fn ident(&mut self) -> TokenKind {
        let bytes = self.text.as_bytes();
        let mut at = self.at + usize::from(self.peek(0) == b'_');
        if bytes.get(at) == Some(&b'#') {
            at += 1;
            let next = self.text.get(at..).and_then(|body| body.chars().next());
            if next.is_some_and(is_digit) {
                self.at = at;
                return TokenKind::Ident;
            }
        }
        while let Some(&byte) = bytes.get(at) {
            if IN_NAMES[usize::from(byte)] {
                at += 1;
                continue;
            }
            if byte.is_ascii() {
                break;
            }
            let c = self.text.get(at..).and_then(|rest| rest.chars().next());
            let Some(c) = c.filter(|&c| is_letter(c) || is_digit(c)) else { break };
            at += c.len_utf8();
        }
        self.at = at;
        TokenKind::Ident
    }

    /// A string between one quote at either end in which every byte stands for itself.
    fn plain_string(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        while STANDS_FOR_ITSELF[usize::from(*bytes.get(at)?)] {
            at += 1;
        }
        let opens_lines = at == self.at + 1 && bytes.get(at + 1) == Some(&b'"');
        (bytes[at] == b'"' && !opens_lines).then_some(at + 1)
    }

    fn string_start(&mut self) -> TokenKind {
        let start = self.at;
        if self.peek(0) == b'"'
            && let Some(end) = self.plain_string()
        {
            self.plain = true;
            self.at = end;
            return TokenKind::String;
        }
        let content = Quotes::open(self.rest()).map_or(1, |(_, content)| content);
        self.string(start, start + content)
    }

    /// Reads on from `at` in the literal that began at `start`.
    fn string(&mut self, start: usize, at: usize) -> TokenKind {
        let literal = self.text.get(start..).unwrap_or_default();
        let Some((quotes, _)) = Quotes::open(literal) else { return TokenKind::Illegal };
        match quotes.scan(literal, at - start) {
            Ok(scanned) => {
                self.at = start + scanned.end;
                if scanned.interpolated { TokenKind::Interpolation } else { TokenKind::String }
            }
            Err(error) => {
                self.error(error.message, start + error.offset);
                // Nothing behind a broken literal can be trusted.
                self.at = self.text.len();
                TokenKind::String
            }
        }
    }

    fn attribute(&mut self) -> TokenKind {
        self.at += 1;
        let rest = self.rest();
        let end = rest.trim_start_matches(|c| c == '_' || is_letter(c) || is_digit(c));
        self.at += rest.len() - end.len();
        if self.peek(0) != b'(' {
            self.error("invalid attribute: expected '('", self.at);
            return TokenKind::Attribute;
        }
        let mut open = Vec::new();
        loop {
            let c = self.rest().chars().next();
            match c {
                None => {
                    self.error("attribute missing ')'", self.at);
                    break;
                }
                Some('"' | '\'') => self.attribute_string(),
                Some('#') => {
                    let hashes = self.rest().bytes().take_while(|&b| b == b'#').count();
                    if matches!(self.peek(hashes), b'"' | b'\'') {
                        self.attribute_string();
                    } else {
                        self.at += hashes;
                    }
                }
                Some(c @ ('(' | '[' | '{')) => {
                    open.push(c);
                    self.at += 1;
                }
                Some(c @ (')' | ']' | '}')) => {
                    let matching = match c {
                        ')' => '(',
                        ']' => '[',
                        _ => '{',
                    };
                    if open.pop() != Some(matching) {
                        self.error(format!("unexpected '{c}'"), self.at);
                        self.at += 1;
                        break;
                    }
                    self.at += 1;
                    if open.is_empty() {
                        break;
                    }
                }
                Some('/') if self.peek(1) == b'/' => {
                    self.comment();
                }
                Some(c) => self.at += c.len_utf8(),
            }
        }
        TokenKind::Attribute
    }

    fn attribute_string(&mut self) {
        let start = self.at;
        if self.string_start() == TokenKind::Interpolation {
            self.error("interpolation not allowed in attribute", start);
            self.at = self.text.len();
        }
    }
}

/// The ASCII bytes of names, but for the `#` in front.
const IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte == 0x24 || byte == 0x5f;
        byte += 1;
    }
    table
};

/// The bytes of a simple string's content that mean themselves: no quotes, escapes, control
/// characters, nor what a byte order mark begins with.
const STANDS_FOR_ITSELF: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 256 {
        table[byte] = !matches!(byte, 0x22 | 0x5c | 0x7f | 0xef);
        byte += 1;
    }
    table
};

/// Go's `unicode.IsLetter`, which decides what CUE names consist of.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || !c.is_ascii() && unicode_ident::is_xid_start(c) && !is_letter_number(c)
}

/// Go's `unicode.IsDigit`.
fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
        || !c.is_ascii()
            && c.is_numeric()
            && unicode_ident::is_xid_continue(c)
            && !is_letter_number(c)
            && !matches!(c, '\u{1369}'..='\u{1371}' | '\u{19da}')
}

/// Category Nl and the few symbols that Unicode adds to identifier starts but that are no letters.
fn is_letter_number(c: char) -> bool {
    matches!(
        c,
        '\u{16ee}'..='\u{16f0}'
            | '\u{2118}'
            | '\u{212e}'
            | '\u{2160}'..='\u{2182}'
            | '\u{2185}'..='\u{2188}'
            | '\u{3007}'
            | '\u{3021}'..='\u{3029}'
            | '\u{3038}'..='\u{303a}'
            | '\u{a6e6}'..='\u{a6ef}'
            | '\u{10140}'..='\u{10174}'
            | '\u{10341}'
            | '\u{1034a}'
            | '\u{103d1}'..='\u{103d5}'
            | '\u{12400}'..='\u{1246e}'
    )
}
