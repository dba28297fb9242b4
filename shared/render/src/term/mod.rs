//! Terms: evaluated values that may still be open: defaults not yet taken, types instead of
//! values, lists that may grow. The values of patches.
//!
//! A term needs no evaluator: unifying two of them is a walk over both.

mod export;
mod problem;
mod unify;

pub use export::Path;
pub(crate) use export::default_of;
pub use problem::{Conflict, Incomplete};
pub use unify::unify;

use crate::patch::Markers;
use cue::{Kind, Number, Value};
use ecow::EcoString;
use indexmap::IndexMap;
use vela_gocompat::regexp::{Allowance, Matcher};

/// What a pattern in a patch or a schema may cost on one text: states times bytes, a fraction of a
/// second at most.
const MAX_WORK: u64 = 1 << 24;

/// An evaluated value without references.
#[derive(Clone, Debug)]
pub enum Term {
    /// `null`, a bool, a number, text or bytes. Never a list or a struct.
    Scalar(Value),
    /// Any value of these kinds: `string`, `int`, `_`.
    Kinds(Kind),
    /// A bound or another test of a scalar.
    Test(Test),
    /// Alternatives, some of them marked as the default.
    Any(Vec<Alternative>),
    /// All of several that cannot be merged into one yet.
    All(Vec<Self>),
    /// A list; `rest` is what further elements must be, `None` if there can be none.
    List {
        /// The elements.
        items: Vec<Self>,
        /// What further elements must be.
        rest: Option<Box<Self>>,
    },
    /// `{...}`
    Struct(Fields),
    /// An expression whose value is not known, with the reason.
    Unknown(EcoString),
}

/// The fields of a struct term, in order.
pub type Fields = IndexMap<EcoString, Field, rustc_hash::FxBuildHasher>;

/// A field of a struct term.
#[derive(Clone, Debug)]
pub struct Field {
    /// `a?: v`: only a constraint on a field that may come.
    pub optional: bool,
    /// `#a: v`: a definition, not part of the data.
    pub definition: bool,
    /// The patch markers in the field's comments.
    pub markers: Markers,
    /// The value.
    pub term: Term,
}

impl Field {
    /// A regular field without markers.
    #[must_use]
    pub fn new(term: Term) -> Self {
        Self { optional: false, definition: false, markers: Markers::default(), term }
    }

    /// Whether it is part of the data, and not only a constraint or a definition.
    #[must_use]
    pub const fn is_data(&self) -> bool {
        !self.optional && !self.definition
    }
}

/// One alternative of a disjunction.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// Marked with `*`.
    pub default: bool,
    /// The alternative.
    pub term: Term,
}

/// A test of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `>=1`, `!="x"` and so on.
    Bound(Op, Value),
    /// `=~"re"` (`true`) or `!~"re"` (`false`).
    Match(bool, EcoString),
}

/// Operators of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `!=`
    NotEqual,
}

impl Op {
    /// As written in CUE.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::NotEqual => "!=",
        }
    }
}

impl Term {
    /// `_`.
    pub const TOP: Self = Self::Kinds(Kind::TOP);

    /// An empty struct.
    #[must_use]
    pub fn empty() -> Self {
        Self::Struct(Fields::default())
    }

    /// Data as a term; lists are closed.
    #[must_use]
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => {
                Self::List { items: items.iter().map(Self::from_value).collect(), rest: None }
            }
            Value::Struct(fields) => Self::Struct(
                fields.iter().map(|(k, v)| (k.clone(), Field::new(Self::from_value(v)))).collect(),
            ),
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// The struct's fields, if it is one.
    #[must_use]
    pub fn fields(&self) -> Option<&Fields> {
        match self {
            Self::Struct(fields) => Some(fields),
            _ => None,
        }
    }

    /// Opens every list that is the value of a field, so that it may grow. Lists directly inside
    /// lists stay closed.
    pub fn open_lists(&mut self) {
        self.open(false);
    }

    fn open(&mut self, is_field: bool) {
        match self {
            Self::List { items, rest } => {
                if is_field && rest.is_none() {
                    *rest = Some(Box::new(Self::TOP));
                }
                for item in items {
                    item.open(false);
                }
            }
            Self::Struct(fields) => {
                for field in fields.values_mut() {
                    field.term.open(true);
                }
            }
            _ => {}
        }
    }

    /// The kinds this term may have.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Scalar(value) => kind_of(value),
            Self::Kinds(kind) => *kind,
            Self::Test(Test::Bound(Op::NotEqual, _)) => Kind::TOP,
            Self::Test(Test::Bound(_, Value::Number(_))) => Kind::NUMBER,
            Self::Test(Test::Bound(_, value)) => kind_of(value),
            Self::Test(Test::Match(..)) => Kind::STRING,
            Self::Any(alternatives) => {
                alternatives.iter().fold(Kind::BOTTOM, |k, a| k | a.term.kind())
            }
            Self::All(terms) => terms.iter().fold(Kind::TOP, |k, t| k & t.kind()),
            Self::List { .. } => Kind::LIST,
            Self::Struct(_) => Kind::STRUCT,
            Self::Unknown(_) => Kind::TOP,
        }
    }

    /// The text of the term in messages: short, like CUE's.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Self::Scalar(value) => show_scalar(value),
            Self::Kinds(kind) => kind.to_string(),
            Self::Test(Test::Bound(op, value)) => format!("{}{}", op.text(), show_scalar(value)),
            Self::Test(Test::Match(yes, re)) => {
                format!("{}{:?}", if *yes { "=~" } else { "!~" }, re.as_str())
            }
            Self::Any(alternatives) => alternatives
                .iter()
                .map(|a| format!("{}{}", if a.default { "*" } else { "" }, a.term.show()))
                .collect::<Vec<_>>()
                .join(" | "),
            Self::All(terms) => terms.iter().map(Self::show).collect::<Vec<_>>().join(" & "),
            Self::List { items, rest } => {
                let mut parts: Vec<_> = items.iter().map(Self::show).collect();
                if rest.is_some() {
                    parts.push("...".to_owned());
                }
                format!("[{}]", parts.join(","))
            }
            Self::Struct(fields) => {
                let parts: Vec<_> =
                    fields.iter().map(|(k, f)| format!("{k}:{}", f.term.show())).collect();
                format!("{{{}}}", parts.join(","))
            }
            Self::Unknown(reason) => reason.to_string(),
        }
    }
}

/// The kind of a concrete value.
#[must_use]
pub(crate) fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::NULL,
        Value::Bool(_) => Kind::BOOL,
        Value::Number(n) => n.kind(),
        Value::String(_) => Kind::STRING,
        Value::Bytes(_) => Kind::BYTES,
        Value::List(_) => Kind::LIST,
        Value::Struct(_) => Kind::STRUCT,
    }
}

/// A scalar as written in CUE.
#[must_use]
pub(crate) fn show_scalar(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => serde_json::to_string(s.as_str()).unwrap_or_default(),
        Value::Bytes(b) => format!("'{}'", String::from_utf8_lossy(b)),
        Value::List(_) | Value::Struct(_) => Term::from_value(value).show(),
    }
}

/// Whether two scalars are the same CUE value.
#[must_use]
pub(crate) fn same_scalar(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        _ => false,
    }
}

impl Test {
    /// Whether a scalar passes.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Bound(op, limit) => match (op, value, limit) {
                (Op::NotEqual, a, b) => !loosely_equal(a, b),
                (op, Value::Number(a), Value::Number(b)) => ordered(*op, a.compare(b)),
                (op, Value::String(a), Value::String(b)) => ordered(*op, a.cmp(b)),
                _ => false,
            },
            Self::Match(wanted, pattern) => match value {
                Value::String(text) => {
                    let mut allowance = Allowance(MAX_WORK);
                    let matched = Matcher::new(pattern).map(|re| re.is_match(text, &mut allowance));
                    // What cannot be decided is not accepted, whichever was wanted.
                    matched.is_ok_and(|matched| matched == Ok(*wanted))
                }
                _ => false,
            },
        }
    }
}

fn loosely_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Number::compare(a, b).is_eq(),
        (a, b) => same_scalar(a, b),
    }
}

fn ordered(op: Op, ordering: std::cmp::Ordering) -> bool {
    match op {
        Op::Less => ordering.is_lt(),
        Op::LessEqual => ordering.is_le(),
        Op::Greater => ordering.is_gt(),
        Op::GreaterEqual => ordering.is_ge(),
        Op::NotEqual => ordering.is_ne(),
    }
}
