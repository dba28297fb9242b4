//! What the tables of functions are written with: types of parameters, short forms, results.

use gotemplate::{Args, Call, Failure, Function, Param, Signature, Str, Value};

use crate::engine::state::State;

pub(super) type Result<T = Value> = std::result::Result<T, Failure>;
pub(super) type Context<'a> = Call<'a, State>;

pub(super) const STRING: Param = Param::STRING;
pub(super) const INT: Param = Param::INT;
pub(super) const FLOAT: Param = Param::FLOAT;
pub(super) const BOOL: Param = Param::BOOL;
pub(super) const MAP: Param = Param::MAP;
pub(super) const ANY: Param = Param::ANY;

/// A function with exactly these parameters.
pub(super) const fn function(
    name: &'static str,
    fixed: &'static [Param],
    run: gotemplate::Run<State>,
) -> Function<State> {
    Function { name, signature: Signature::new(fixed), run }
}

/// A function with these parameters and any number of another.
pub(super) const fn variadic(
    name: &'static str,
    fixed: &'static [Param],
    rest: Param,
    run: gotemplate::Run<State>,
) -> Function<State> {
    Function { name, signature: Signature::variadic(fixed, rest), run }
}

/// A text as a value, paid for.
pub(super) fn text(call: &mut Context<'_>, text: impl Into<Str>) -> Result {
    let text = text.into();
    call.host().text(text.len())?;
    Ok(Value::String(text))
}

/// What Go's runtime says about a nil where a value has to be.
pub(super) fn nil_pointer() -> Failure {
    Failure::text("runtime error: invalid memory address or nil pointer dereference")
}

/// Functions that are known under two names share a body.
pub(super) type Body = fn(&mut Context<'_>, Args<'_>) -> Result;
