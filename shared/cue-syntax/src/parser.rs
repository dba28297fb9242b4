//! The parser.

use std::sync::Arc;

use crate::ast::File;
use crate::position::{LineIndex, Span};

/// What the parser accepts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLimits {
    /// Bytes of one source text.
    pub size: usize,
    /// Nesting of expressions and structs.
    pub depth: u32,
    /// Tokens of one source text.
    pub tokens: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { size: 1 << 20, depth: 1_000, tokens: 500_000 }
    }
}

/// Why a text is not CUE.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The text, as cue prints it, without position.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Whether a [`ParseLimits`] bound was exceeded.
    pub limit: bool,
}

/// Parses a file. Always returns a tree, with the errors found on the way.
#[must_use]
pub fn parse(name: &str, text: &str, limits: &ParseLimits) -> (File, Vec<ParseError>) {
    let _ = limits;
    let lines = LineIndex::new(text);
    let file = File { name: name.into(), source: Arc::from(text), lines, ..File::default() };
    let message = "the parser is not there yet".to_owned();
    (file, vec![ParseError { message, span: Span::default(), limit: false }])
}
