//! Text to tokens by the rules of YAML 1.1, as Helm's reader has them: where a key may stand, what ends a plain text, which
//! characters may begin anything. The errors are worded as there, since `fromYaml` shows them to templates.

mod properties;
mod scalars;

use std::borrow::Cow;
use std::collections::VecDeque;

use super::read::DEEPEST;

/// A position: characters from the start, line and column from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    index: usize,
    pub(super) line: usize,
    column: usize,
}

/// What is wrong with a text, and on which line, from 1; none if it is the first or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) line: Option<usize>,
    pub(super) what: Cow<'static, str>,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// Between quotes.
    Quoted,
    /// `|` and `>`.
    Block,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    StreamEnd,
    /// `%YAML` with its version.
    Version(u32, u32),
    /// `%TAG` with handle and prefix.
    TagDirective(Box<(String, String)>),
    DocumentStart,
    DocumentEnd,
    BlockSequence,
    BlockMapping,
    BlockEnd,
    FlowSequence,
    FlowSequenceEnd,
    FlowMapping,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    /// Handle and suffix.
    Tag(Box<(String, String)>),
    Scalar(Cow<'a, str>, Style),
}

/// A text that may turn out to be a key, once a `:` follows on its line.
#[derive(Debug, Clone, Copy)]
struct SimpleKey {
    /// Nothing else can stand here, so that it has to be a key.
    required: bool,
    token: usize,
    mark: Mark,
    /// Whether its token is held back until it is known what it is. In Helm's reader that of an empty flow collection is
    /// not, since its end takes the note away.
    held: bool,
}

/// What may be a key at a level of flow collections, and the token that was noted last for it.
#[derive(Debug, Clone, Copy)]
struct Level {
    key: Option<SimpleKey>,
    token: usize,
}

/// How far a `:` may be from the start of its key.
const LONGEST_KEY: usize = 1024;

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    mark: Mark,
    tokens: VecDeque<(Token<'a>, Mark)>,
    /// Tokens that were taken.
    taken: usize,
    /// Whether it is known what the next token is.
    ready: bool,
    ended: bool,
    flow: usize,
    /// The column of the innermost block collection, -1 outside of all.
    indent: isize,
    indents: Vec<isize>,
    key_allowed: bool,
    /// One for each level of flow collections.
    keys: Vec<Level>,
    /// Where the lines of a block are put together: its room is used again.
    block: String,
}

type Result<T = ()> = std::result::Result<T, Problem>;

fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

/// Classes of bytes that may end a piece of a text.
mod class {
    /// Line breaks, and bytes of characters that are not ASCII: they may be breaks.
    pub(super) const OTHER: u8 = 1;
    pub(super) const BLANK: u8 = 2;
    pub(super) const COLON: u8 = 4;
    /// What means something within flow collections.
    pub(super) const FLOW: u8 = 8;
    /// Quotes, and the backslash.
    pub(super) const QUOTE: u8 = 16;

    pub(super) static OF: [u8; 256] = {
        let mut of = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            #[expect(clippy::indexing_slicing, reason = "there are as many bytes as classes")]
            {
                of[byte] = match byte as u8 {
                    b'\n' | b'\r' | 128.. => OTHER,
                    b' ' | b'\t' => BLANK,
                    b':' => COLON,
                    b',' | b'?' | b'[' | b']' | b'{' | b'}' => FLOW,
                    b'\'' | b'"' | b'\\' => QUOTE,
                    _ => 0,
                };
            }
            byte += 1;
        }
        of
    };
}

fn class(byte: u8) -> u8 {
    class::OF.get(usize::from(byte)).copied().unwrap_or(class::OTHER)
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        let allowed = |char: char| {
            matches!(char, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}')
                || char > '\u{ffff}'
        };
        // Piece by piece, without a branch within one: so the compiler makes vectors of it.
        let common = |piece: &[u8]| {
            let is_common = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
            piece.iter().fold(true, |all, byte| all & is_common(byte))
        };
        if !text.as_bytes().chunks(64).all(common) && !text.chars().all(allowed) {
            return Err(Problem { line: None, what: "control characters are not allowed".into() });
        }
        // A mark at the very start says how the text is encoded.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(Self {
            text,
            at: 0,
            mark: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            ready: false,
            ended: false,
            flow: 0,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            keys: vec![Level { key: None, token: 0 }],
            block: String::new(),
        })
    }

    /// The next token and where it starts; at the end the end again and again.
    pub(super) fn peek(&mut self) -> Result<(&Token<'a>, Mark)> {
        self.fill()?;
        match self.tokens.front() {
            Some((token, mark)) => Ok((token, *mark)),
            None => Ok((&Token::StreamEnd, self.mark)),
        }
    }

    pub(super) fn take(&mut self) -> Result<(Token<'a>, Mark)> {
        self.fill()?;
        self.ready = false;
        match self.tokens.pop_front() {
            Some(next) => {
                self.taken += 1;
                Ok(next)
            }
            None => Ok((Token::StreamEnd, self.mark)),
        }
    }

    /// Scans until it is known that no key begins before the next token.
    fn fill(&mut self) -> Result {
        if self.ready {
            return Ok(());
        }
        loop {
            if !self.tokens.is_empty() {
                let is_next = |key: SimpleKey| key.held && key.token == self.taken;
                let level = self.keys.iter().position(|level| level.key.is_some_and(is_next));
                match level {
                    Some(level) if self.valid_key(level)?.is_some() => {}
                    _ => break,
                }
            }
            if self.ended {
                break;
            }
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    fn problem<T>(&self, context: Mark, what: impl Into<Cow<'static, str>>) -> Result<T> {
        let line = match (self.mark.line, context.line) {
            (0, 0) => None,
            (0, line) => Some(line),
            (line, _) => Some(line + 1),
        };
        Err(Problem { line, what: what.into() })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Whether a character so many bytes ahead is a blank, a break or the end.
    fn is_blank_or_end(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            None | Some(b' ' | b'\t' | b'\n' | b'\r') => true,
            Some(byte) if byte.is_ascii() => false,
            Some(_) => {
                let rest = self.text.get(self.at + ahead..).unwrap_or_default();
                rest.chars().next().is_some_and(is_break)
            }
        }
    }

    fn is_break(&self) -> bool {
        match self.byte(0) {
            Some(b'\n' | b'\r') => true,
            Some(byte) if byte.is_ascii() => false,
            None => false,
            Some(_) => self.char().is_some_and(is_break),
        }
    }

    fn is_break_or_end(&self) -> bool {
        self.at >= self.text.len() || self.is_break()
    }

    fn is_blank(&self) -> bool {
        matches!(self.byte(0), Some(b' ' | b'\t'))
    }

    /// Passes a character that is no line break.
    fn skip(&mut self) {
        self.at += match self.byte(0) {
            Some(byte) if byte.is_ascii() => 1,
            _ => self.char().map_or(0, char::len_utf8),
        };
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Passes ASCII characters up to one of a class that ends them; line breaks do.
    fn skip_to(&mut self, ends: u8) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let ends = |byte: &u8| class(*byte) & (ends | class::OTHER) != 0;
        let count = rest.iter().position(ends).unwrap_or(rest.len());
        self.pass(count);
    }

    /// Passes so many ASCII characters that are no line breaks.
    fn pass(&mut self, count: usize) {
        self.at += count;
        self.mark.index += count;
        self.mark.column += count;
    }

    /// Passes blanks, but no tabs, so many at the most.
    fn skip_spaces(&mut self, most: usize) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let count = rest.iter().take(most).take_while(|byte| **byte == b' ').count();
        self.pass(count);
    }

    fn skip_bytes(&mut self, count: usize) {
        for _ in 0..count {
            self.skip();
        }
    }

    /// Passes a line break and gives what it reads as.
    fn line_break(&mut self) -> &'static str {
        let (bytes, characters, read) = match self.char() {
            Some('\r') if self.byte(1) == Some(b'\n') => (2, 2, "\n"),
            Some('\r' | '\n') => (1, 1, "\n"),
            Some('\u{85}') => (2, 1, "\n"),
            Some('\u{2028}') => (3, 1, "\u{2028}"),
            Some('\u{2029}') => (3, 1, "\u{2029}"),
            _ => return "",
        };
        self.at += bytes;
        self.mark =
            Mark { index: self.mark.index + characters, line: self.mark.line + 1, column: 0 };
        read
    }

    fn skip_blanks(&mut self) {
        while self.is_blank() {
            self.skip();
        }
    }

    fn skip_comment(&mut self) {
        if self.byte(0) == Some(b'#') {
            self.skip_line();
        }
    }

    /// Passes everything up to the end of the line.
    fn skip_line(&mut self) {
        self.skip_to(0);
        while !self.is_break_or_end() {
            self.skip();
            self.skip_to(0);
        }
    }

    fn push(&mut self, token: Token<'a>, mark: Mark) {
        self.tokens.push_back((token, mark));
    }

    /// Takes so many bytes as a token.
    fn indicator(&mut self, token: Token<'a>, bytes: usize) {
        let mark = self.mark;
        self.skip_bytes(bytes);
        self.push(token, mark);
    }

    fn is_document_mark(&self) -> bool {
        let rest = self.rest();
        self.mark.column == 0
            && (rest.starts_with("---") || rest.starts_with("..."))
            && self.is_blank_or_end(3)
    }

    fn fetch(&mut self) -> Result {
        self.skip_to_token();
        self.unroll(isize::try_from(self.mark.column).unwrap_or(isize::MAX));
        let Some(first) = self.byte(0) else { return self.end() };
        if self.mark.column == 0 && first == b'%' {
            self.unroll(-1);
            self.forget_key()?;
            self.key_allowed = false;
            return self.directive();
        }
        if self.is_document_mark() {
            self.unroll(-1);
            self.forget_key()?;
            self.key_allowed = false;
            let token = if first == b'-' { Token::DocumentStart } else { Token::DocumentEnd };
            self.indicator(token, 3);
            return Ok(());
        }
        match first {
            b'[' => self.open(Token::FlowSequence),
            b'{' => self.open(Token::FlowMapping),
            b']' => self.close(Token::FlowSequenceEnd),
            b'}' => self.close(Token::FlowMappingEnd),
            b',' => {
                self.forget_key()?;
                self.key_allowed = true;
                self.indicator(Token::FlowEntry, 1);
                Ok(())
            }
            b'-' if self.is_blank_or_end(1) => {
                self.block_indicator(
                    "block sequence entries are not allowed in this context",
                    Token::BlockSequence,
                )?;
                self.forget_key()?;
                self.key_allowed = true;
                self.indicator(Token::BlockEntry, 1);
                Ok(())
            }
            b'?' if self.flow > 0 || self.is_blank_or_end(1) => {
                self.block_indicator(
                    "mapping keys are not allowed in this context",
                    Token::BlockMapping,
                )?;
                self.forget_key()?;
                self.key_allowed = self.flow == 0;
                self.indicator(Token::Key, 1);
                Ok(())
            }
            b':' if self.flow > 0 || self.is_blank_or_end(1) => self.value(),
            b'*' | b'&' => {
                self.save_key()?;
                self.key_allowed = false;
                self.anchor(first == b'*')
            }
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if self.flow == 0 => {
                self.forget_key()?;
                self.key_allowed = true;
                self.block_scalar(first == b'|')
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                self.quoted(first == b'\'')
            }
            b'-' => self.fetch_plain(),
            b'?' | b':' if self.flow == 0 => self.fetch_plain(),
            b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                self.problem(self.mark, "found character that cannot start any token")
            }
            _ => self.fetch_plain(),
        }
    }

    fn fetch_plain(&mut self) -> Result {
        self.save_key()?;
        self.key_allowed = false;
        self.plain()
    }

    fn end(&mut self) -> Result {
        // The end is on a line of its own.
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll(-1);
        self.forget_key()?;
        self.key_allowed = false;
        self.ended = true;
        let mark = self.mark;
        self.push(Token::StreamEnd, mark);
        Ok(())
    }

    fn skip_to_token(&mut self) {
        loop {
            if self.mark.column == 0 && self.rest().starts_with('\u{feff}') {
                self.skip();
            }
            self.skip_spaces(usize::MAX);
            while self.byte(0) == Some(b'\t') && (self.flow > 0 || !self.key_allowed) {
                self.skip();
                self.skip_spaces(usize::MAX);
            }
            self.skip_comment();
            if !self.is_break() {
                return;
            }
            self.line_break();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// A key that may still be one.
    fn valid_key(&mut self, level: usize) -> Result<Option<SimpleKey>> {
        let Some(slot) = self.keys.get_mut(level) else { return Ok(None) };
        let Some(key) = slot.key else { return Ok(None) };
        if key.mark.line < self.mark.line || key.mark.index + LONGEST_KEY < self.mark.index {
            if key.required {
                return self.problem(key.mark, "could not find expected ':'");
            }
            slot.key = None;
            return Ok(None);
        }
        Ok(Some(key))
    }

    fn save_key(&mut self) -> Result {
        let column = isize::try_from(self.mark.column).unwrap_or(isize::MAX);
        let required = self.flow == 0 && self.indent == column;
        if self.key_allowed {
            self.forget_key()?;
            let token = self.taken + self.tokens.len();
            let mark = self.mark;
            if let Some(slot) = self.keys.last_mut() {
                *slot = Level { key: Some(SimpleKey { required, token, mark, held: true }), token };
            }
        }
        Ok(())
    }

    fn forget_key(&mut self) -> Result {
        if let Some(Level { key: Some(key), .. }) = self.keys.last().copied()
            && key.required
        {
            return self.problem(key.mark, "could not find expected ':'");
        }
        if let Some(slot) = self.keys.last_mut() {
            slot.key = None;
        }
        Ok(())
    }

    fn open(&mut self, token: Token<'a>) -> Result {
        self.save_key()?;
        self.keys.push(Level { key: None, token: self.taken + self.tokens.len() });
        self.flow += 1;
        self.depth(self.flow)?;
        self.key_allowed = true;
        self.indicator(token, 1);
        Ok(())
    }

    fn depth(&self, depth: usize) -> Result {
        if depth > DEEPEST {
            return self.problem(self.mark, format!("exceeded max depth of {DEEPEST}"));
        }
        Ok(())
    }

    fn close(&mut self, token: Token<'a>) -> Result {
        self.forget_key()?;
        if self.flow > 0 {
            self.flow -= 1;
            let ended = self.keys.pop();
            for key in self.keys.iter_mut().filter_map(|level| level.key.as_mut()) {
                key.held &= ended.is_none_or(|ended| ended.token != key.token);
            }
        }
        self.key_allowed = false;
        self.indicator(token, 1);
        Ok(())
    }

    fn block_indicator(&mut self, refusal: &'static str, collection: Token<'a>) -> Result {
        if self.flow > 0 {
            return Ok(());
        }
        if !self.key_allowed {
            return self.problem(self.mark, refusal);
        }
        self.roll(self.mark.column, None, collection, self.mark)
    }

    fn value(&mut self) -> Result {
        let level = self.keys.len().saturating_sub(1);
        if let Some(key) = self.valid_key(level)? {
            // The end, if the token has been taken.
            let at = key.token.checked_sub(self.taken).unwrap_or(usize::MAX);
            self.tokens.insert(at.min(self.tokens.len()), (Token::Key, key.mark));
            if self.flow == 0 {
                self.roll(key.mark.column, Some(at), Token::BlockMapping, key.mark)?;
            }
            if let Some(slot) = self.keys.last_mut() {
                slot.key = None;
            }
            self.key_allowed = false;
        } else {
            self.block_indicator(
                "mapping values are not allowed in this context",
                Token::BlockMapping,
            )?;
            self.key_allowed = self.flow == 0;
        }
        self.indicator(Token::Value, 1);
        Ok(())
    }

    /// Begins a block collection, if this column is further in than the innermost one.
    fn roll(&mut self, column: usize, at: Option<usize>, token: Token<'a>, mark: Mark) -> Result {
        let column = isize::try_from(column).unwrap_or(isize::MAX);
        if self.indent < column {
            self.indents.push(self.indent);
            self.indent = column;
            self.depth(self.indents.len())?;
            let at = at.unwrap_or(self.tokens.len()).min(self.tokens.len());
            self.tokens.insert(at, (token, mark));
        }
        Ok(())
    }

    /// Ends the block collections that are further in than this column.
    fn unroll(&mut self, column: isize) {
        while self.flow == 0 && self.indent > column {
            let mark = self.mark;
            self.push(Token::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }
}
