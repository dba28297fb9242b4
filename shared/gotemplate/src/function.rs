//! Functions: what a template may call, and what a call may do.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use rustc_hash::FxHashMap;

use crate::exec::Call;
use crate::text::Str;
use crate::types::Type;
use crate::value::{List, Map, Value};

/// What an execution costs is paid here, before it happens. The first refusal ends the execution.
pub trait Meter {
    /// Work: a step is about what one node of a template takes.
    ///
    /// # Errors
    /// The execution has done what it may do, or its time is up.
    fn steps(&mut self, steps: u64) -> Result<(), Stop>;

    /// Memory: bytes of texts, lists and maps that are about to be made.
    ///
    /// # Errors
    /// The execution has made what it may make.
    fn room(&mut self, bytes: u64) -> Result<(), Stop>;
}

/// An execution was ended from outside: by a budget, or because nobody waits for it. It is no error
/// of the template; it passes through all calls as it is.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Stop(Box<dyn Error + Send + Sync>);

impl Stop {
    /// Ends the execution for this reason.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(reason))
    }

    /// The reason, if it is of this type.
    #[must_use]
    pub fn reason<T: Error + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Why a function gave no value. `Display` is the text that follows `error calling NAME: `.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the function itself.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// An error with a type of its own, which the caller of the template finds as a source.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
    /// The execution is over.
    #[error(transparent)]
    Stop(#[from] Stop),
}

impl Failure {
    /// An error of this text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// An error with a type of its own.
    pub fn other(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// `reflect.Value`: the argument as it is, with both kinds of nothing.
    Reflect,
    /// A type. An argument of the two kinds of nothing arrives as the type's nil: of an interface
    /// [`Value::Nil`], of a list or map the nil one.
    Of(Type),
}

impl Param {
    pub const ANY: Self = Self::Of(Type::Any);
    pub const BOOL: Self = Self::Of(Type::Bool);
    pub const INT: Self = Self::Of(Type::INT);
    pub const INT64: Self = Self::Of(Type::INT64);
    pub const FLOAT: Self = Self::Of(Type::Float64);
    pub const STRING: Self = Self::Of(Type::String);
    pub const LIST: Self = Self::Of(Type::LIST);
    pub const MAP: Self = Self::Of(Type::MAP);
}

/// The parameters of a function or method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Those that must be given.
    pub fixed: &'static [Param],
    /// The type of all further ones, if there may be any.
    pub rest: Option<Param>,
}

impl Signature {
    /// Exactly these parameters.
    #[must_use]
    pub const fn new(fixed: &'static [Param]) -> Self {
        Self { fixed, rest: None }
    }

    /// These parameters and any number of another.
    #[must_use]
    pub const fn variadic(fixed: &'static [Param], rest: Param) -> Self {
        Self { fixed, rest: Some(rest) }
    }
}

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

    /// A bool.
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

/// The code of a function: it gets arguments that fit its signature.
pub type Run<H> = fn(&mut Call<'_, H>, Args<'_>) -> Result<Value, Failure>;

/// A function of templates. `H` is what the caller lends to all functions of an execution.
#[derive(Debug)]
pub struct Function<H: 'static> {
    pub name: &'static str,
    pub signature: Signature,
    pub run: Run<H>,
}

/// The functions that templates may call, besides Go's own; one of the same name goes first.
pub struct Functions<H: 'static> {
    all: Vec<&'static Function<H>>,
    by_name: FxHashMap<&'static str, usize>,
}

impl<H> Functions<H> {
    /// The functions of these tables; of two of one name the later.
    pub fn new(tables: impl IntoIterator<Item = &'static [Function<H>]>) -> Self {
        let all: Vec<_> = tables.into_iter().flatten().collect();
        let by_name = all.iter().enumerate().map(|(i, function)| (function.name, i)).collect();
        Self { all, by_name }
    }

    /// The function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static Function<H>> {
        self.position(name).and_then(|at| self.at(at))
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn at(&self, position: usize) -> Option<&'static Function<H>> {
        self.all.get(position).copied()
    }
}

impl<H> fmt::Debug for Functions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|function| function.name)).finish()
    }
}
