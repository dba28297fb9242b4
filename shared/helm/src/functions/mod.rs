//! The functions of templates: those of sprig, without the ones that read the environment, and Helm's own.
//!
//! One table a file, in the order of Helm's documentation. A function of Go that panics fails here with the same text.

mod certificates;
mod convert;
mod crypto;
mod data;
mod dates;
mod dicts;
pub(crate) mod encoding;
mod lists;
mod logic;
mod math;
mod paths;
mod regex;
mod semver;
mod strings;
mod syntax;
mod toml;
mod words;
mod written;

use std::sync::{Arc, LazyLock};

use gotemplate::{Args, Call, Failure, Function, Functions, Param, Signature, Str, Value};

use crate::engine::state::State;

pub(crate) use convert::{from_json, to_json};

type Result<T = Value> = std::result::Result<T, Failure>;
type Context<'a> = Call<'a, State>;

const STRING: Param = Param::STRING;
const INT: Param = Param::INT;
const FLOAT: Param = Param::FLOAT;
const BOOL: Param = Param::BOOL;
const MAP: Param = Param::MAP;
const ANY: Param = Param::ANY;

/// A function with exactly these parameters.
const fn function(
    name: &'static str,
    fixed: &'static [Param],
    run: gotemplate::Run<State>,
) -> Function<State> {
    Function { name, signature: Signature::new(fixed), run }
}

/// A function with these parameters and any number of another.
const fn variadic(
    name: &'static str,
    fixed: &'static [Param],
    rest: Param,
    run: gotemplate::Run<State>,
) -> Function<State> {
    Function { name, signature: Signature::variadic(fixed, rest), run }
}

/// All functions.
pub(crate) static ALL: LazyLock<Arc<Functions<State>>> = LazyLock::new(|| {
    Arc::new(Functions::new([
        strings::TABLE,
        words::TABLE,
        logic::TABLE,
        math::TABLE,
        lists::TABLE,
        dicts::TABLE,
        dates::TABLE,
        encoding::TABLE,
        data::TABLE,
        regex::TABLE,
        semver::TABLE,
        paths::TABLE,
        crypto::TABLE,
        crate::engine::TABLE,
    ]))
});

/// A text as a value, paid for.
fn text(call: &mut Context<'_>, text: impl Into<Str>) -> Result {
    let text = text.into();
    call.host().text(text.len())?;
    Ok(Value::String(text))
}

/// What Go's runtime says about a nil where a value has to be.
fn nil_pointer() -> Failure {
    Failure::text("runtime error: invalid memory address or nil pointer dereference")
}

/// Functions that are known under two names share a body.
type Body = fn(&mut Context<'_>, Args<'_>) -> Result;
