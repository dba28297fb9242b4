//! `merge` and `mergeOverwrite`: dicts put together in place. The values of the sources are shared, not copied.

use gotemplate::{Args, Function, Map, Value};

use super::logic::is_empty;
use super::{Body, Context, MAP, Result, variadic};
use crate::engine::state::{OverBudget, State, over};

pub(super) static TABLE: &[Function<State>] = &[
    variadic("merge", &[MAP], MAP, MERGE),
    variadic("mustMerge", &[MAP], MAP, MERGE),
    variadic("mergeOverwrite", &[MAP], MAP, OVERWRITE),
    variadic("mustMergeOverwrite", &[MAP], MAP, OVERWRITE),
];

const MERGE: Body = |call, args| merged(call, args, false);
const OVERWRITE: Body = |call, args| merged(call, args, true);

/// Levels of dicts; one that holds itself ends here.
const DEEPEST: usize = 1000;

fn merged(call: &mut Context<'_>, args: Args<'_>, overwrite: bool) -> Result {
    let into = match args.map(0) {
        nil if nil.is_nil() => Map::from_iter([]),
        map => map,
    };
    for at in 1..args.all().len() {
        merge(call, &into, &args.map(at), overwrite, 0)?;
    }
    Ok(into.into())
}

fn merge(
    call: &mut Context<'_>,
    into: &Map,
    from: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<()> {
    if depth > DEEPEST {
        return Err(over(OverBudget::Depth(DEEPEST)));
    }
    if into.same(from) {
        return Ok(());
    }
    for (key, value) in from.entries() {
        call.steps(1)?;
        let taken = match into.get(key.as_bytes()) {
            None => overwrite || !value.is_nothing(),
            Some(own) => match (own.underlying(), value.underlying()) {
                (Value::Map(own), Value::Map(value)) => {
                    merge(call, &own, &value, overwrite, depth + 1)?;
                    false
                }
                (_, Value::NoValue | Value::Nil) => overwrite,
                // An empty value is as good as none.
                (own, _) => overwrite || is_empty(&own),
            },
        };
        if taken {
            call.insert(into, key, value)?;
        }
    }
    Ok(())
}
