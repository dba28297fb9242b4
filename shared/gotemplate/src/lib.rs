//! Go's `text/template`: parsed once, executed many times, under a budget.
//!
//! Answers for `text/template`, `text/template/parse` and `fmt` of Go. Pure: no IO, no clock. Output
//! and error texts are those of Go, to the byte, since charts and templates depend on both.
//!
//! | type | is |
//! |---|---|
//! | [`Templates`] | parsed templates that know each other, and the functions they may call |
//! | [`Executor`] | executes them; what they did to maps lasts as long as it does |
//! | [`Value`] | what templates compute with: Go's kinds, and both of its kinds of nothing |
//! | [`Object`] | a value with fields and methods that the caller defines |
//! | [`Functions`] | functions with the types of their parameters |
//! | [`Call`] | what a function may do: execute templates, change maps, pay its [`Meter`] |
//!
//! Not there: channels, complex numbers, maps whose keys are no strings, addresses in output.
//! Blocks and parentheses nest 250 deep at the most.
//!
//! Our own: gtmpl has neither Go's texts nor a budget, and is not maintained.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod args;
mod budget;
mod builtin;
mod call;
mod entries;
mod error;
mod exec;
mod fmt;
mod function;
mod meter;
mod object;
mod output;
mod parse;
mod shared;
mod signature;
mod stack;
mod templates;
mod text;
mod types;
mod value;

pub use args::Args;
pub use budget::{Budget, Exceeded, Limits};
pub use builtin::{html_escape, js_escape, query_escape};
pub use call::Call;
pub use entries::{Entries, last_of_each};
pub use error::{Error, ExecError, Failure, Location, ParseError};
pub use exec::Executor;
pub use fmt::{TooDeep, print, printf, println, quote};
pub use function::{Function, Functions, Run};
pub use meter::{Meter, Stop};
pub use object::{Object, Underlying};
pub use output::{Output, Part, SharedText};
pub use shared::Depth;
pub use signature::{Param, Signature};
pub use templates::{MissingKey, Parsed, Templates};
pub use text::Str;
pub use types::{Int, Kind, Type, Uint};
pub use value::{List, Map, Value};
