#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![allow(clippy::indexing_slicing, reason = "ids of the arenas are made by this crate itself")]

mod api;
mod compile;
pub mod decimal;
mod describe;
mod error;
mod eval;
mod export;
mod host;
mod ir;
mod kind;
mod label;
mod limits;
mod shape;
pub mod std;
mod text;
mod tree;
mod value;

pub use api::{Evaluation, Field, Marker, Packages, Program, Which};
pub use decimal::Decimal;
pub use describe::{Arc, Description, Form};
pub use error::{Class, Error, ErrorKind, Errors, Position};
pub use host::{Answer, Call, Host};
pub use kind::Kind;
pub use limits::{Budget, LimitError, Limits};
pub use shape::{Rest, Shape};
pub use tree::{LabelClass, Node, Tree};
pub use value::{Fields, Number, Value};

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
