//! What the table of a standard package consists of.

use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

/// A member of a standard package.
#[derive(Debug)]
pub struct Member {
    /// Name as written after the package name.
    pub name: &'static str,
    /// What it is.
    pub item: Item,
}

/// What a member is.
#[derive(Debug)]
pub enum Item {
    /// A function or validator.
    Func(Builtin),
    /// A constant, as CUE text of one expression without imports.
    Cue(&'static str),
}

/// A function of a standard package.
#[derive(Debug)]
pub struct Builtin {
    /// Kinds of the parameters, checked before the call.
    pub params: &'static [Param],
    /// Kind of the result.
    pub result: Kind,
    /// The implementation.
    pub run: Run,
}

/// One parameter of a [`Builtin`].
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Accepted kinds.
    pub kind: Kind,
    /// Accepted kinds of list elements, for lists.
    pub elem: Kind,
    /// The string that stands for an argument left out at the end (`path.Dir(p)`); such a call is
    /// no validator.
    pub default: Option<&'static str>,
}

impl Param {
    /// Any value.
    pub const ANY: Self = Self::of(Kind::TOP);
    /// `string`.
    pub const STRING: Self = Self::of(Kind::STRING);
    /// `bytes` or `string`.
    pub const BYTES: Self = Self::of(Kind::BYTES.or(Kind::STRING));
    /// `bool`.
    pub const BOOL: Self = Self::of(Kind::BOOL);
    /// `int`.
    pub const INT: Self = Self::of(Kind::INT);
    /// `number`.
    pub const NUMBER: Self = Self::of(Kind::NUMBER);
    /// Any list.
    pub const LIST: Self = Self::of(Kind::LIST);
    /// A list of strings.
    pub const STRINGS: Self = Self { elem: Kind::STRING, ..Self::LIST };
    /// A list of numbers.
    pub const NUMBERS: Self = Self { elem: Kind::NUMBER, ..Self::LIST };
    /// `{...}`
    pub const STRUCT: Self = Self::of(Kind::STRUCT);

    /// A parameter of these kinds.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self { kind, elem: Kind::TOP, default: None }
    }
}

/// How a function runs.
#[derive(Debug)]
pub enum Run {
    /// Over concrete values; as many as there are parameters.
    Pure(fn(&[Value], &mut Budget) -> Result<Value, BuiltinError>),
    /// Inside the evaluator, over unevaluated arguments.
    Lazy(Lazy),
}

/// Functions implemented by the evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lazy {
    /// `list.Concat`: elements may be incomplete.
    ListConcat,
    /// `list.Repeat`.
    ListRepeat,
    /// `list.Slice`.
    ListSlice,
    /// `list.Take`.
    ListTake,
    /// `list.Drop`.
    ListDrop,
    /// `list.Reverse`.
    ListReverse,
    /// `list.FlattenN`.
    ListFlattenN,
    /// `list.Sort` with a comparator struct.
    ListSort,
    /// `list.SortStable`.
    ListSortStable,
    /// `list.IsSorted`.
    ListIsSorted,
    /// `list.MinItems`: counts without looking into the elements.
    ListMinItems,
    /// `list.MaxItems`.
    ListMaxItems,
    /// `list.UniqueItems`: elements may be incomplete.
    ListUniqueItems,
    /// `list.Contains`: elements may be incomplete.
    ListContains,
    /// `list.MatchN`: the value is a schema.
    ListMatchN,
    /// `struct.MinFields`: counts fields of a struct that may be incomplete.
    StructMinFields,
    /// `struct.MaxFields`.
    StructMaxFields,
    /// `encoding/json.Validate`: the schema is not concrete.
    JsonValidate,
    /// `encoding/yaml.Validate`.
    YamlValidate,
    /// `encoding/yaml.ValidatePartial`.
    YamlValidatePartial,
}

/// Why a builtin failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltinError {
    /// A final error; the evaluator puts `error in call to pkg.Name: ` before it.
    Message(String),
    /// A validator says no, with its own text (else: `invalid value X (does not satisfy ...)`).
    Invalid(String),
    /// A crossed limit.
    Limit(LimitError),
}

impl BuiltinError {
    /// A final error with this text.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }
}

impl From<LimitError> for BuiltinError {
    fn from(limit: LimitError) -> Self {
        Self::Limit(limit)
    }
}
