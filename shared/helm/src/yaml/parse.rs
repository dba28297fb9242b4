//! Tokens to events: which nodes there are, by the grammar of YAML 1.1 and with the leniencies of Helm's reader.

use std::borrow::Cow;

use super::scan::{Mark, Problem, Scanner, Style, Token};

/// What a document is made of, in its order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event<'a> {
    /// The end of the first document, or of a text without any.
    End,
    Scalar {
        text: Cow<'a, str>,
        style: Style,
        anchor: Option<&'a str>,
        tag: Option<String>,
    },
    Alias(&'a str),
    Sequence(Option<&'a str>),
    SequenceEnd,
    Mapping(Option<&'a str>),
    MappingEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first document.
    Start,
    DocumentEnd,
    End,
    BlockEntry(Mark),
    IndentlessEntry,
    BlockKey(Mark),
    BlockValue(Mark),
    FlowEntry {
        start: Mark,
        first: bool,
    },
    /// A mapping of one pair within a flow sequence.
    PairKey(Mark),
    PairValue(Mark),
    PairEnd(Mark),
    FlowKey {
        start: Mark,
        first: bool,
    },
    FlowValue(Mark),
    /// A key without a value.
    FlowNoValue(Mark),
}

/// Gives the events of the first document.
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    states: Vec<State>,
    state: State,
    /// Handles of tags, with their prefixes.
    tags: Vec<(String, String)>,
}

type Result<T> = std::result::Result<T, Problem>;

const TAGS: &str = "tag:yaml.org,2002:";

fn problem<T>(context: Option<Mark>, what: &'static str, at: Mark) -> Result<T> {
    let line = match (at.line, context.map_or(0, |mark| mark.line)) {
        (0, 0) => None,
        (0, line) | (line, _) => Some(line),
    };
    Err(Problem { line, what: what.into() })
}

fn empty<'a>() -> Event<'a> {
    Event::Scalar { text: Cow::Borrowed(""), style: Style::Plain, anchor: None, tag: None }
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        let scanner = Scanner::new(text)?;
        Ok(Self { scanner, states: Vec::new(), state: State::Start, tags: Vec::new() })
    }

    pub(super) fn next(&mut self) -> Result<Event<'a>> {
        match self.state {
            State::Start => self.document(),
            State::DocumentEnd => {
                // What follows has to be a token, but need not be a document.
                self.scanner.peek()?;
                self.state = State::End;
                Ok(Event::End)
            }
            State::End => Ok(Event::End),
            State::BlockEntry(start) => self.block_entry(start),
            State::IndentlessEntry => self.indentless_entry(),
            State::BlockKey(start) => self.block_key(start),
            State::BlockValue(start) => self.block_value(start),
            State::FlowEntry { start, first } => self.flow_entry(start, first),
            State::PairKey(start) => {
                if matches!(
                    self.scanner.peek()?.0,
                    Token::Value | Token::FlowEntry | Token::FlowSequenceEnd
                ) {
                    self.scanner.take()?;
                    self.state = State::PairValue(start);
                    return Ok(empty());
                }
                self.below(State::PairValue(start), false, false)
            }
            State::PairValue(start) => {
                if matches!(self.scanner.peek()?.0, Token::Value) {
                    self.scanner.take()?;
                    if !matches!(self.scanner.peek()?.0, Token::FlowEntry | Token::FlowSequenceEnd)
                    {
                        return self.below(State::PairEnd(start), false, false);
                    }
                }
                self.state = State::PairEnd(start);
                Ok(empty())
            }
            State::PairEnd(start) => {
                self.state = State::FlowEntry { start, first: false };
                Ok(Event::MappingEnd)
            }
            State::FlowKey { start, first } => self.flow_key(start, first),
            State::FlowValue(start) => {
                if matches!(self.scanner.peek()?.0, Token::Value) {
                    self.scanner.take()?;
                    if !matches!(self.scanner.peek()?.0, Token::FlowEntry | Token::FlowMappingEnd) {
                        return self.below(State::FlowKey { start, first: false }, false, false);
                    }
                }
                self.state = State::FlowKey { start, first: false };
                Ok(empty())
            }
            State::FlowNoValue(start) => {
                self.state = State::FlowKey { start, first: false };
                Ok(empty())
            }
        }
    }

    /// A node whose successor is another state than the present one.
    fn below(&mut self, after: State, block: bool, indentless: bool) -> Result<Event<'a>> {
        self.states.push(after);
        self.node(block, indentless)
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    fn document(&mut self) -> Result<Event<'a>> {
        if matches!(self.scanner.peek()?.0, Token::StreamEnd) {
            self.state = State::End;
            return Ok(Event::End);
        }
        self.state = State::DocumentEnd;
        let directives = self.directives()?;
        if matches!(self.scanner.peek()?.0, Token::DocumentStart) {
            self.scanner.take()?;
            let (token, _) = self.scanner.peek()?;
            let none = matches!(
                token,
                Token::Version(..)
                    | Token::TagDirective(..)
                    | Token::DocumentStart
                    | Token::DocumentEnd
                    | Token::StreamEnd
            );
            if none {
                return Ok(empty());
            }
        } else if directives {
            let (_, mark) = self.scanner.peek()?;
            return problem(None, "did not find expected <document start>", mark);
        }
        self.node(true, false)
    }

    fn directives(&mut self) -> Result<bool> {
        let (mut any, mut version) = (false, false);
        loop {
            match self.scanner.peek()? {
                (Token::Version(major, minor), mark) => {
                    if version {
                        return problem(None, "found duplicate %YAML directive", mark);
                    }
                    if (*major, *minor) != (1, 1) {
                        return problem(None, "found incompatible YAML document", mark);
                    }
                    version = true;
                    self.scanner.take()?;
                }
                (Token::TagDirective(..), mark) => {
                    if let (Token::TagDirective(directive), _) = self.scanner.take()? {
                        let (handle, prefix) = *directive;
                        if self.tags.iter().any(|(known, _)| *known == handle) {
                            return problem(None, "found duplicate %TAG directive", mark);
                        }
                        self.tags.push((handle, prefix));
                    }
                }
                _ => return Ok(any),
            }
            any = true;
        }
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Event<'a>> {
        let (_, start) = self.scanner.peek()?;
        if matches!(self.scanner.peek()?.0, Token::Alias(_)) {
            self.pop();
            return match self.scanner.take()? {
                (Token::Alias(name), _) => Ok(Event::Alias(name)),
                (_, mark) => problem(None, "did not find expected node content", mark),
            };
        }
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.scanner.peek()?.0 {
                Token::Anchor(_) if anchor.is_none() => {
                    if let (Token::Anchor(name), _) = self.scanner.take()? {
                        anchor = Some(name);
                    }
                }
                Token::Tag(..) if tag.is_none() => {
                    if let (Token::Tag(written), mark) = self.scanner.take()? {
                        let (handle, suffix) = *written;
                        tag = Some(self.full_tag(&handle, suffix, start, mark)?);
                    }
                }
                _ => break,
            }
        }
        let (token, mark) = self.scanner.peek()?;
        match token {
            Token::BlockEntry if indentless => {
                self.state = State::IndentlessEntry;
                Ok(Event::Sequence(anchor))
            }
            Token::Scalar(..) => {
                self.pop();
                match self.scanner.take()? {
                    (Token::Scalar(text, style), _) => {
                        Ok(Event::Scalar { text, style, anchor, tag })
                    }
                    (_, mark) => problem(None, "did not find expected node content", mark),
                }
            }
            Token::FlowSequence => {
                self.scanner.take()?;
                self.state = State::FlowEntry { start: mark, first: true };
                Ok(Event::Sequence(anchor))
            }
            Token::FlowMapping => {
                self.scanner.take()?;
                self.state = State::FlowKey { start: mark, first: true };
                Ok(Event::Mapping(anchor))
            }
            Token::BlockSequence if block => {
                self.scanner.take()?;
                self.state = State::BlockEntry(mark);
                Ok(Event::Sequence(anchor))
            }
            Token::BlockMapping if block => {
                self.scanner.take()?;
                self.state = State::BlockKey(mark);
                Ok(Event::Mapping(anchor))
            }
            _ if anchor.is_some() || tag.is_some() => {
                self.pop();
                Ok(Event::Scalar { text: Cow::Borrowed(""), style: Style::Plain, anchor, tag })
            }
            _ => problem(Some(start), "did not find expected node content", mark),
        }
    }

    fn full_tag(&self, handle: &str, suffix: String, start: Mark, mark: Mark) -> Result<String> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let given =
            self.tags.iter().find(|(known, _)| known == handle).map(|(_, prefix)| prefix.as_str());
        match (given, handle) {
            (Some(prefix), _) => Ok(format!("{prefix}{suffix}")),
            (None, "!") => Ok(format!("!{suffix}")),
            (None, "!!") => Ok(format!("{TAGS}{suffix}")),
            (None, _) => problem(Some(start), "found undefined tag handle", mark),
        }
    }

    fn block_entry(&mut self, start: Mark) -> Result<Event<'a>> {
        match self.scanner.peek()? {
            (Token::BlockEntry, _) => {
                self.scanner.take()?;
                if matches!(self.scanner.peek()?.0, Token::BlockEntry | Token::BlockEnd) {
                    return Ok(empty());
                }
                self.below(State::BlockEntry(start), true, false)
            }
            (Token::BlockEnd, _) => {
                self.scanner.take()?;
                self.pop();
                Ok(Event::SequenceEnd)
            }
            (_, mark) => problem(Some(start), "did not find expected '-' indicator", mark),
        }
    }

    fn indentless_entry(&mut self) -> Result<Event<'a>> {
        if !matches!(self.scanner.peek()?.0, Token::BlockEntry) {
            self.pop();
            return Ok(Event::SequenceEnd);
        }
        self.scanner.take()?;
        if matches!(
            self.scanner.peek()?.0,
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd
        ) {
            return Ok(empty());
        }
        self.below(State::IndentlessEntry, true, false)
    }

    fn block_key(&mut self, start: Mark) -> Result<Event<'a>> {
        match self.scanner.peek()? {
            (Token::Key, _) => {
                self.scanner.take()?;
                if matches!(self.scanner.peek()?.0, Token::Key | Token::Value | Token::BlockEnd) {
                    self.state = State::BlockValue(start);
                    return Ok(empty());
                }
                self.below(State::BlockValue(start), true, true)
            }
            (Token::BlockEnd, _) => {
                self.scanner.take()?;
                self.pop();
                Ok(Event::MappingEnd)
            }
            (_, mark) => problem(Some(start), "did not find expected key", mark),
        }
    }

    fn block_value(&mut self, start: Mark) -> Result<Event<'a>> {
        if matches!(self.scanner.peek()?.0, Token::Value) {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.0, Token::Key | Token::Value | Token::BlockEnd) {
                return self.below(State::BlockKey(start), true, true);
            }
        }
        self.state = State::BlockKey(start);
        Ok(empty())
    }

    fn flow_entry(&mut self, start: Mark, first: bool) -> Result<Event<'a>> {
        if !first {
            match self.scanner.peek()? {
                (Token::FlowEntry, _) => {
                    self.scanner.take()?;
                }
                (Token::FlowSequenceEnd, _) => {}
                (_, mark) => return problem(Some(start), "did not find expected ',' or ']'", mark),
            }
        }
        match self.scanner.peek()?.0 {
            Token::Key => {
                self.scanner.take()?;
                self.state = State::PairKey(start);
                Ok(Event::Mapping(None))
            }
            Token::FlowSequenceEnd => {
                self.scanner.take()?;
                self.pop();
                Ok(Event::SequenceEnd)
            }
            _ => self.below(State::FlowEntry { start, first: false }, false, false),
        }
    }

    fn flow_key(&mut self, start: Mark, first: bool) -> Result<Event<'a>> {
        if !first {
            match self.scanner.peek()? {
                (Token::FlowEntry, _) => {
                    self.scanner.take()?;
                }
                (Token::FlowMappingEnd, _) => {}
                (_, mark) => return problem(Some(start), "did not find expected ',' or '}'", mark),
            }
        }
        match self.scanner.peek()?.0 {
            Token::Key => {
                self.scanner.take()?;
                if matches!(
                    self.scanner.peek()?.0,
                    Token::Value | Token::FlowEntry | Token::FlowMappingEnd
                ) {
                    self.state = State::FlowValue(start);
                    return Ok(empty());
                }
                self.below(State::FlowValue(start), false, false)
            }
            Token::FlowMappingEnd => {
                self.scanner.take()?;
                self.pop();
                Ok(Event::MappingEnd)
            }
            _ => self.below(State::FlowNoValue(start), false, false),
        }
    }
}
