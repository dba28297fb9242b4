//! The CUE language: lexer, parser, syntax tree, printer.
//!
//! The dialect is that of cue v0.14.1. The parser is total: it always returns a tree, plus the
//! errors it met; it never panics and its use of the native stack does not depend on the input.

#![allow(clippy::indexing_slicing, reason = "arena ids are made by this crate only")]

pub mod ast;
pub mod lexer;
pub mod literal;
mod parser;
mod position;

pub use ast::File;
pub use parser::{ParseError, ParseLimits, parse, parse_expr};
pub use position::{LineIndex, Position, Span};
