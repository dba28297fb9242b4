//! The arguments of a call, by the types that its signature names.

use std::borrow::Cow;

use crate::text::Str;
use crate::types::Type;
use crate::value::{List, Map, Value};

/// The arguments of a call. They fit the signature of what is called, so an accessor that names
/// the parameter's type finds a value; else it gives the type's zero.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>(&'a [Value]);

impl<'a> Args<'a> {
    /// These arguments.
    #[must_use]
    pub fn new(args: &'a [Value]) -> Self {
        Self(args)
    }

    /// All arguments.
    #[must_use]
    pub fn all(self) -> &'a [Value] {
        self.0
    }

    /// The arguments from this one on.
    #[must_use]
    pub fn from(self, at: usize) -> &'a [Value] {
        self.0.get(at..).unwrap_or_default()
    }

    /// An argument of any type.
    #[must_use]
    pub fn get(self, at: usize) -> &'a Value {
        self.0.get(at).unwrap_or(&Value::NoValue)
    }

    /// A string.
    #[must_use]
    pub fn str(self, at: usize) -> Str {
        match self.get(at) {
            Value::String(text) => text.clone(),
            _ => Str::new(),
        }
    }

    /// A string as text, with U+FFFD where it is not UTF-8.
    #[must_use]
    pub fn text(self, at: usize) -> Cow<'a, str> {
        match self.get(at) {
            Value::String(text) => text.to_str_lossy(),
            _ => Cow::Borrowed(""),
        }
    }

    /// An integer that fits an `int64`.
    #[must_use]
    pub fn int(self, at: usize) -> i64 {
        match self.get(at) {
            Value::Int(_, value) => *value,
            Value::Uint(_, value) => i64::try_from(*value).unwrap_or(i64::MAX),
            _ => 0,
        }
    }

    /// A float64.
    #[must_use]
    pub fn float(self, at: usize) -> f64 {
        match self.get(at) {
            Value::Float(value) => *value,
            _ => 0.0,
        }
    }

    /// A `bool`; false of anything else.
    #[must_use]
    pub fn bool(self, at: usize) -> bool {
        matches!(self.get(at), Value::Bool(true))
    }

    /// A list; of an object the list it stands for.
    #[must_use]
    pub fn list(self, at: usize) -> List {
        match self.get(at).underlying() {
            Value::List(list) => list,
            _ => List::nil(&Type::Any),
        }
    }

    /// A map; of an object the map it stands for.
    #[must_use]
    pub fn map(self, at: usize) -> Map {
        match self.get(at).underlying() {
            Value::Map(map) => map,
            _ => Map::nil(&Type::Any),
        }
    }
}
