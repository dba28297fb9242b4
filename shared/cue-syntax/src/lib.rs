//! The CUE language: lexer, parser, syntax tree, printer.
//!
//! The dialect is that of cue v0.14.1. The parser is total: it always returns a tree, plus the
//! errors it met; it never panics and its use of the native stack does not depend on the input.
//!
//! ```
//! use cue_syntax::ast::{DeclKind, Expr};
//! use cue_syntax::{ParseLimits, format, parse};
//!
//! let (file, errors) = parse("in.cue", "replicas:*1|int\n", &ParseLimits::default());
//! assert!(errors.is_empty());
//! let decl = file.ast.decls(file.decls).next().unwrap();
//! let DeclKind::Field(field) = file.ast.decl(decl).kind else { panic!("not a field") };
//! assert!(matches!(file.ast.expr(file.ast.field(field).value), Expr::Binary(..)));
//! assert_eq!(format(&file), "replicas: *1 | int\n");
//! ```

#![warn(missing_docs)]
#![allow(clippy::indexing_slicing, reason = "arena ids are made by this crate only")]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod ast;
mod format;
pub mod lexer;
pub mod literal;
mod parser;
mod position;

pub use ast::File;
pub use format::{
    Indent, format, format_expr, format_short, format_with, is_plain_label, quote, quote_bytes,
    quote_label, quote_lines,
};
pub use parser::{ParseError, ParseLimits, ParseMemory, parse, parse_expr};
pub use position::{LineIndex, Position, Span};
