//! What a template writes: bytes of its own, and long texts that it shares with whoever has them.

use ecow::EcoString;

use crate::parse::node::Span;
use crate::text::Str;

/// A text that is shorter is copied: parts take room too.
pub(crate) const LONG: usize = 4096;

/// What a template wrote, in parts.
#[derive(Debug, Default)]
pub struct Output {
    /// What lies before `last`.
    parts: Vec<Part>,
    last: Vec<u8>,
    is_shared: bool,
}

/// A part of an output.
#[derive(Debug)]
pub enum Part {
    /// What was written in small pieces.
    Own(Vec<u8>),
    /// A long text of a template, as it stands there.
    Literal(SharedText),
    /// A long text that is a value.
    Value(SharedText),
}

/// A piece of a text, which it keeps in memory.
#[derive(Debug, Clone)]
pub struct SharedText {
    whole: EcoString,
    span: Option<Span>,
}

impl SharedText {
    /// The piece.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self.span {
            Some(span) => self.whole.get(span.range()).unwrap_or_default(),
            None => &self.whole,
        }
    }
}

impl Output {
    /// An output that shares long texts or copies them, with room for some bytes.
    pub(crate) fn new(is_shared: bool, room: usize) -> Self {
        Self { parts: Vec::new(), last: Vec::with_capacity(room), is_shared }
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
    }

    /// Adds a piece of a template's text.
    pub(crate) fn push_literal(&mut self, whole: &EcoString, span: Span) {
        let text = whole.get(span.range()).unwrap_or_default();
        if self.is_shared && text.len() >= LONG {
            self.part(Part::Literal(SharedText { whole: whole.clone(), span: Some(span) }));
        } else {
            self.push(text.as_bytes());
        }
    }

    /// Adds a value.
    pub(crate) fn push_value(&mut self, value: &Str) {
        match value.shared() {
            Some(whole) if self.is_shared && whole.len() >= LONG => {
                self.part(Part::Value(SharedText { whole: whole.clone(), span: None }));
            }
            _ => self.push(value.as_bytes()),
        }
    }

    fn part(&mut self, part: Part) {
        if !self.last.is_empty() {
            self.parts.push(Part::Own(std::mem::take(&mut self.last)));
        }
        self.parts.push(part);
    }

    /// The parts in their order; none is empty.
    #[must_use]
    pub fn into_parts(mut self) -> Vec<Part> {
        if !self.last.is_empty() {
            self.parts.push(Part::Own(self.last));
        }
        self.parts
    }

    /// All bytes, if none are shared; otherwise those behind the last part.
    pub(crate) fn into_own(self) -> Vec<u8> {
        self.last
    }
}
