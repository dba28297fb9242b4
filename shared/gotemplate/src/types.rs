//! Types and kinds, with the names that Go prints.

use std::fmt;

/// Go's signed integer types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// `int`, 64 bits here.
    Int,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
}

impl Int {
    /// The number that a conversion to this type leaves.
    #[must_use]
    pub fn wrap(self, value: i64) -> i64 {
        match self {
            Self::Int | Self::Int64 => value,
            Self::Int8 => i64::from(value as i8),
            Self::Int16 => i64::from(value as i16),
            Self::Int32 => i64::from(value as i32),
        }
    }
}

impl Uint {
    /// The number that a conversion to this type leaves.
    #[must_use]
    pub fn wrap(self, value: u64) -> u64 {
        match self {
            Self::Uint | Self::Uint64 => value,
            Self::Uint8 => u64::from(value as u8),
            Self::Uint16 => u64::from(value as u16),
            Self::Uint32 => u64::from(value as u32),
        }
    }
}

/// Go's unsigned integer types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uint {
    /// `uint`, 64 bits here.
    Uint,
    /// `uint8`, which is also `byte`
    Uint8,
    /// `uint16`
    Uint16,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
}

/// A type of Go, as far as values of templates have it. `Display` is what `%T` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`
    Any,
    /// `bool`
    Bool,
    /// `int` to `int64`
    Int(Int),
    /// `uint` to `uint64`
    Uint(Uint),
    /// `float64`
    Float64,
    /// `string`
    String,
    /// `[]T`
    List(&'static Self),
    /// `map[string]T`
    Map(&'static Self),
    /// A type with a name, or a pointer to one: the type of an [`Object`](crate::Object).
    Named(&'static str),
}

impl Type {
    /// `int`
    pub const INT: Self = Self::Int(Int::Int);
    /// `int64`
    pub const INT64: Self = Self::Int(Int::Int64);
    /// `[]uint8`
    pub const BYTES: Self = Self::List(&Self::Uint(Uint::Uint8));
    /// `[]interface {}`
    pub const LIST: Self = Self::List(&Self::Any);
    /// `map[string]interface {}`
    pub const MAP: Self = Self::Map(&Self::Any);

    /// Whether the untyped `nil` is a value of this type.
    #[must_use]
    pub fn has_nil(self) -> bool {
        match self {
            Self::Any | Self::List(_) | Self::Map(_) => true,
            Self::Named(name) => name.starts_with('*'),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("interface {}"),
            Self::Bool => f.write_str("bool"),
            Self::Int(int) => f.write_str(match int {
                Int::Int => "int",
                Int::Int8 => "int8",
                Int::Int16 => "int16",
                Int::Int32 => "int32",
                Int::Int64 => "int64",
            }),
            Self::Uint(uint) => f.write_str(match uint {
                Uint::Uint => "uint",
                Uint::Uint8 => "uint8",
                Uint::Uint16 => "uint16",
                Uint::Uint32 => "uint32",
                Uint::Uint64 => "uint64",
            }),
            Self::Float64 => f.write_str("float64"),
            Self::String => f.write_str("string"),
            Self::List(element) => write!(f, "[]{element}"),
            Self::Map(element) => write!(f, "map[string]{element}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Go's `reflect.Kind`. `Display` is its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kind of no value: `reflect.Value{}`.
    Invalid,
    /// `bool`
    Bool,
    /// A signed integer; its type has the same name.
    Int(Int),
    /// An unsigned integer; its type has the same name.
    Uint(Uint),
    /// `float64`
    Float64,
    /// `string`
    String,
    /// A list, of bytes too.
    Slice,
    /// A map from texts.
    Map,
    /// An [`Object`](crate::Object) that is passed by value.
    Struct,
    /// An [`Object`](crate::Object) behind a pointer.
    Pointer,
    /// A function.
    Func,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Invalid => f.write_str("invalid"),
            Self::Bool => f.write_str("bool"),
            Self::Int(int) => Type::Int(int).fmt(f),
            Self::Uint(uint) => Type::Uint(uint).fmt(f),
            Self::Float64 => f.write_str("float64"),
            Self::String => f.write_str("string"),
            Self::Slice => f.write_str("slice"),
            Self::Map => f.write_str("map"),
            Self::Struct => f.write_str("struct"),
            Self::Pointer => f.write_str("ptr"),
            Self::Func => f.write_str("func"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_go() {
        for (of, name) in [
            (Type::LIST, "[]interface {}"),
            (Type::MAP, "map[string]interface {}"),
            (Type::List(&Type::LIST), "[][]interface {}"),
            (Type::Map(&Type::String), "map[string]string"),
            (Type::BYTES, "[]uint8"),
            (Type::Named("*semver.Version"), "*semver.Version"),
            (Type::INT64, "int64"),
        ] {
            assert_eq!(of.to_string(), name);
        }
        assert!(Type::MAP.has_nil() && Type::Named("*T").has_nil());
        assert!(!Type::String.has_nil() && !Type::Named("time.Time").has_nil());
    }
}
