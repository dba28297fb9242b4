//! Lists. They never change: every function makes a new one.

use gotemplate::{Args, Failure, Function, List, Type, Value};

use super::convert::{deep_equal, items, list_like};
use super::logic::is_empty;
use super::table::{ANY, Body, Context, INT, Result, function, variadic};
use crate::engine::state::State;

pub(super) static TABLE: &[Function<State>] = &[
    variadic("list", &[], ANY, LIST),
    variadic("tuple", &[], ANY, LIST),
    function("first", &[ANY], FIRST),
    function("mustFirst", &[ANY], FIRST),
    function("last", &[ANY], LAST),
    function("mustLast", &[ANY], LAST),
    function("rest", &[ANY], REST),
    function("mustRest", &[ANY], REST),
    function("initial", &[ANY], INITIAL),
    function("mustInitial", &[ANY], INITIAL),
    function("append", &[ANY, ANY], APPEND),
    function("push", &[ANY, ANY], APPEND),
    function("mustAppend", &[ANY, ANY], APPEND),
    function("mustPush", &[ANY, ANY], APPEND),
    function("prepend", &[ANY, ANY], PREPEND),
    function("mustPrepend", &[ANY, ANY], PREPEND),
    variadic("concat", &[], ANY, concat),
    function("reverse", &[ANY], REVERSE),
    function("mustReverse", &[ANY], REVERSE),
    function("uniq", &[ANY], UNIQ),
    function("mustUniq", &[ANY], UNIQ),
    variadic("without", &[ANY], ANY, WITHOUT),
    variadic("mustWithout", &[ANY], ANY, WITHOUT),
    function("has", &[ANY, ANY], HAS),
    function("mustHas", &[ANY, ANY], HAS),
    function("compact", &[ANY], COMPACT),
    function("mustCompact", &[ANY], COMPACT),
    variadic("slice", &[ANY], ANY, SLICE),
    variadic("mustSlice", &[ANY], ANY, SLICE),
    function("chunk", &[INT, ANY], CHUNK),
    function("mustChunk", &[INT, ANY], CHUNK),
];

const LIST: Body = |call, args| list(call, args.all().to_vec());

fn list(call: &mut Context<'_>, items: Vec<Value>) -> Result {
    call.host().elements(items.len())?;
    Ok(List::new(items).into())
}

const FIRST: Body = |_, args| {
    let items = items(args.get(0), "Cannot find first on type")?;
    Ok(items.first().cloned().unwrap_or(Value::Nil))
};

const LAST: Body = |_, args| {
    let items = items(args.get(0), "Cannot find last on type")?;
    Ok(items.last().cloned().unwrap_or(Value::Nil))
};

const REST: Body = |call, args| {
    let items = items(args.get(0), "Cannot find rest on type")?;
    match items.split_first() {
        Some((_, rest)) => list(call, rest.to_vec()),
        None => Ok(List::nil(&Type::Any).into()),
    }
};

const INITIAL: Body = |call, args| {
    let items = items(args.get(0), "Cannot find initial on type")?;
    match items.split_last() {
        Some((_, initial)) => list(call, initial.to_vec()),
        None => Ok(List::nil(&Type::Any).into()),
    }
};

const APPEND: Body = |call, args| {
    let mut items = items(args.get(0), "Cannot push on type")?;
    items.push(args.get(1).clone());
    list(call, items)
};

const PREPEND: Body = |call, args| {
    let mut items = items(args.get(0), "Cannot prepend on type")?;
    items.insert(0, args.get(1).clone());
    list(call, items)
};

fn concat(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let mut all = Vec::new();
    for value in args.all() {
        match value.underlying() {
            Value::List(_) | Value::Bytes(_) => all.extend(items(value, "")?),
            Value::NoValue | Value::Nil => return Err(super::table::nil_pointer()),
            other => {
                let kind = other.kind();
                return Err(Failure::text(format!("Cannot concat type {kind} as list")));
            }
        }
        call.host().elements(all.len())?;
    }
    if all.is_empty() { Ok(List::nil(&Type::Any).into()) } else { Ok(List::new(all).into()) }
}

const REVERSE: Body = |call, args| {
    let mut items = items(args.get(0), "Cannot find reverse on type")?;
    items.reverse();
    list(call, items)
};

/// Pays for comparing each element with each of some others.
fn comparisons(call: &mut Context<'_>, items: usize, others: usize) -> Result<()> {
    Ok(call.steps((items as u64).saturating_mul(others as u64) / 4)?)
}

const UNIQ: Body = |call, args| {
    let items = items(args.get(0), "Cannot find uniq on type")?;
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        comparisons(call, 1, kept.len())?;
        if !kept.iter().any(|other| deep_equal(other, &item)) {
            kept.push(item);
        }
    }
    list(call, kept)
};

const WITHOUT: Body = |call, args| {
    let mut items = items(args.get(0), "Cannot find without on type")?;
    comparisons(call, items.len(), args.from(1).len())?;
    items.retain(|item| !args.from(1).iter().any(|other| deep_equal(other, item)));
    list(call, items)
};

const HAS: Body = |call, args| {
    if args.get(1).is_nothing() {
        return Ok(false.into());
    }
    let items = items(args.get(1), "Cannot find has on type")?;
    comparisons(call, items.len(), 1)?;
    Ok(items.iter().any(|item| deep_equal(args.get(0), item)).into())
};

const COMPACT: Body = |call, args| {
    let mut items = items(args.get(0), "Cannot compact on type")?;
    items.retain(|item| !is_empty(item));
    list(call, items)
};

const SLICE: Body = |call, args| {
    let value = args.get(0);
    let cannot = "list should be type of slice or array but";
    let items = items(value, cannot)?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let place = |at: usize, otherwise: usize| match args.all().get(at) {
        None => Some(otherwise),
        Some(value) => usize::try_from(super::convert::to_int(value)).ok(),
    };
    let range = place(1, 0).zip(place(2, items.len()));
    match range.and_then(|(start, end)| items.get(start..end)) {
        Some(part) => {
            call.host().elements(part.len())?;
            Ok(list_like(value, part.to_vec()))
        }
        None => Err(Failure::text("reflect.Value.Slice: slice index out of bounds")),
    }
};

const CHUNK: Body = |call, args| {
    let items = items(args.get(1), "Cannot chunk type")?;
    let size = args.int(0);
    let chunks: Vec<Value> = match usize::try_from(size) {
        Ok(size) if size > 0 => {
            items.chunks(size).map(|chunk| List::new(chunk.to_vec()).into()).collect()
        }
        // With a negative size there are -((len - 1) / size) + 1 chunks, rounded down: one of a single element, unless that
        // is a multiple of the size, and none of a few more.
        Err(_) if items.len() == 1 && size < -1 => vec![List::new(items.clone()).into()],
        Err(_) if items.len() > 1 && (items.len() as u64 - 1) <= size.unsigned_abs() => Vec::new(),
        _ => return Err(Failure::text("runtime error: makeslice: len out of range")),
    };
    call.host().elements(chunks.len() + items.len())?;
    Ok(List::of(&Type::LIST, chunks).into())
};
