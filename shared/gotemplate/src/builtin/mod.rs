//! The functions that every template has.

mod compare;
mod escape;
mod index;

pub use escape::{html_escape, js_escape, query_escape};

use crate::args::Args;
use crate::error::Failure;
use crate::fmt;
use crate::meter::Meter;
use crate::object::Underlying;
use crate::signature::{Param, Signature};
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    Urlquery,
}

const REFLECT: &[Param] = &[Param::Reflect];
const TWO: &[Param] = &[Param::Reflect, Param::Reflect];

impl Builtin {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "and" => Self::And,
            "call" => Self::Call,
            "eq" => Self::Eq,
            "ge" => Self::Ge,
            "gt" => Self::Gt,
            "html" => Self::Html,
            "index" => Self::Index,
            "js" => Self::Js,
            "le" => Self::Le,
            "len" => Self::Len,
            "lt" => Self::Lt,
            "ne" => Self::Ne,
            "not" => Self::Not,
            "or" => Self::Or,
            "print" => Self::Print,
            "printf" => Self::Printf,
            "println" => Self::Println,
            "slice" => Self::Slice,
            "urlquery" => Self::Urlquery,
            _ => return None,
        })
    }

    pub(crate) fn signature(self) -> Signature {
        match self {
            Self::Len | Self::Not => Signature::new(REFLECT),
            Self::Ge | Self::Gt | Self::Le | Self::Lt | Self::Ne => Signature::new(TWO),
            Self::And | Self::Or | Self::Call | Self::Eq | Self::Index | Self::Slice => {
                Signature::variadic(REFLECT, Param::Reflect)
            }
            Self::Html | Self::Js | Self::Print | Self::Println | Self::Urlquery => {
                Signature::variadic(&[], Param::ANY)
            }
            Self::Printf => Signature::variadic(&[Param::STRING], Param::ANY),
        }
    }

    /// Calls the function. `and`, `or` and `call` are the caller's: they are more than functions.
    pub(crate) fn run(self, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        let (first, rest) = (args.get(0), args.from(1));
        Ok(match self {
            Self::And | Self::Or | Self::Call => Value::NoValue,
            Self::Eq => compare::equal(first, rest, meter)?.into(),
            Self::Ne => (!compare::equal(first, rest, meter)?).into(),
            Self::Lt => compare::less(first, args.get(1))?.into(),
            Self::Le => compare::less_or_equal(first, args.get(1), meter)?.into(),
            Self::Gt => (!compare::less_or_equal(first, args.get(1), meter)?).into(),
            Self::Ge => (!compare::less(first, args.get(1))?).into(),
            Self::Not => (!first.is_true()).into(),
            Self::Len => index::length(first)?,
            Self::Index => index::index(first, rest, meter)?,
            Self::Slice => index::slice(first, rest, meter)?,
            Self::Print => Value::String(fmt::print(args.all(), meter)?.into()),
            Self::Println => Value::String(fmt::println(args.all(), meter)?.into()),
            Self::Printf => Value::String(fmt::printf(&args.str(0), rest, meter)?.into()),
            Self::Html => escaped(args, meter, html_escape)?,
            Self::Js => escaped(args, meter, js_escape)?,
            Self::Urlquery => escaped(args, meter, query_escape)?,
        })
    }
}

/// What an escaped byte takes at the most: `\u003C`.
const ESCAPED: u64 = 6;

fn escaped(
    args: Args<'_>,
    meter: &mut dyn Meter,
    escape: fn(&[u8]) -> Vec<u8>,
) -> Result<Value, Failure> {
    // What is not there is printed as an action prints it.
    let shown = |value: &Value| match value {
        Value::NoValue | Value::Nil => Value::from("<no value>"),
        value => value.clone(),
    };
    let text = match args.all() {
        [value] => fmt::argument(&shown(value), meter)?,
        values => fmt::print(&values.iter().map(shown).collect::<Vec<_>>(), meter)?,
    };
    meter.room(ESCAPED * text.len() as u64)?;
    Ok(Value::String(escape(&text).into()))
}

/// Whether `call` can call the value; else why not.
pub(crate) fn callable(name: &str, value: &Value) -> Result<Signature, Failure> {
    let Some(of) = value.type_of() else {
        return Err(Failure::text("call of nil"));
    };
    if let Value::Object(object) = value
        && let Underlying::Func = object.underlying()
        && let Some(signature) = object.method("")
    {
        return Ok(signature);
    }
    Err(Failure::text(format!("non-function {name} of type {of}")))
}
