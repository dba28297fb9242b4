//! The parameters of functions and methods.

use crate::types::Type;

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// `reflect.Value`: the argument as it is, with both kinds of nothing.
    Reflect,
    /// A type. An argument of the two kinds of nothing arrives as the type's nil: of an interface
    /// [`Value::Nil`](crate::Value::Nil), of a list or map the nil one.
    Of(Type),
}

impl Param {
    /// `interface {}`
    pub const ANY: Self = Self::Of(Type::Any);
    /// `bool`
    pub const BOOL: Self = Self::Of(Type::Bool);
    /// `int`
    pub const INT: Self = Self::Of(Type::INT);
    /// `int64`
    pub const INT64: Self = Self::Of(Type::INT64);
    /// `float64`
    pub const FLOAT: Self = Self::Of(Type::Float64);
    /// `string`
    pub const STRING: Self = Self::Of(Type::String);
    /// `[]interface {}`
    pub const LIST: Self = Self::Of(Type::LIST);
    /// `map[string]interface {}`
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
