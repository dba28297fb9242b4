//! Dicts. `set` and `unset` change the dict that they are given, for everybody who holds it. `merge` and `mergeOverwrite`
//! put dicts together in place: the values of the sources are shared, not copied.

use gotemplate::{Args, Failure, Function, List, Map, Str, Value};

use super::convert::strval;
use super::logic::is_empty;
use super::table::{ANY, Body, Context, MAP, Result, STRING, function, variadic};
use crate::engine::state::{OverBudget, State, over};

pub(super) static TABLE: &[Function<State>] = &[
    variadic("dict", &[], ANY, |call, args| {
        let pairs = args.all().chunks(2);
        call.host().elements(pairs.len())?;
        let mut entries = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let key = strval(call.host(), pair.first().unwrap_or(&Value::Nil))?;
            entries.push((key, pair.get(1).cloned().unwrap_or_else(|| Value::from(""))));
        }
        Ok(Map::from_iter(entries).into())
    }),
    function("get", &[MAP, STRING], |_, args| {
        Ok(args.map(0).get(args.str(1).as_bytes()).unwrap_or_else(|| Value::from("")))
    }),
    function("set", &[MAP, STRING, ANY], |call, args| {
        let map = args.map(0);
        call.insert(&map, args.str(1), args.get(2).clone())?;
        Ok(map.into())
    }),
    function("unset", &[MAP, STRING], |call, args| {
        let map = args.map(0);
        call.remove(&map, &args.str(1));
        Ok(map.into())
    }),
    function("hasKey", &[MAP, STRING], |_, args| {
        Ok(args.map(0).contains_key(args.str(1).as_bytes()).into())
    }),
    variadic("pluck", &[STRING], MAP, |call, args| {
        let key = args.str(0);
        let maps = (1..args.all().len()).map(|at| args.map(at));
        let found: Vec<Value> = maps.filter_map(|map| map.get(key.as_bytes())).collect();
        call.host().elements(found.len())?;
        Ok(List::new(found).into())
    }),
    variadic("pick", &[MAP], STRING, |call, args| filtered(call, args, true)),
    variadic("omit", &[MAP], STRING, |call, args| filtered(call, args, false)),
    variadic("keys", &[], MAP, |call, args| {
        let mut keys = Vec::new();
        for at in 0..args.all().len() {
            keys.extend(args.map(at).keys());
            call.host().elements(keys.len())?;
        }
        Ok(List::strings(keys).into())
    }),
    function("values", &[MAP], |call, args| {
        let entries = args.map(0).entries();
        call.host().elements(entries.len())?;
        Ok(List::new(entries.into_iter().map(|(_, value)| value).collect()).into())
    }),
    variadic("dig", &[], ANY, dig),
    variadic("merge", &[MAP], MAP, MERGE),
    variadic("mustMerge", &[MAP], MAP, MERGE),
    variadic("mergeOverwrite", &[MAP], MAP, OVERWRITE),
    variadic("mustMergeOverwrite", &[MAP], MAP, OVERWRITE),
];

fn filtered(call: &mut Context<'_>, args: Args<'_>, listed: bool) -> Result {
    let keys: Vec<Str> = (1..args.all().len()).map(|at| args.str(at)).collect();
    let entries = args.map(0).entries();
    call.host().elements(entries.len())?;
    call.steps((entries.len() as u64).saturating_mul(keys.len() as u64) / 8)?;
    let kept = entries.into_iter().filter(|(key, _)| keys.contains(key) == listed).collect();
    Ok(Map::new(kept).into())
}

fn wrong_type(found: &Value, wanted: &str) -> Failure {
    let found = found.type_of().map_or_else(|| "nil".to_owned(), |found| found.to_string());
    Failure::text(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

/// `dig KEY… DEFAULT DICT`. Only plain dicts are looked into: `.Values` is none.
fn dig(_: &mut Context<'_>, args: Args<'_>) -> Result {
    let [keys @ .., default, dict] = args.all() else {
        return Err(Failure::text("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(Failure::text("dig needs at least three arguments"));
    }
    let mut at = dict.clone();
    plain_map(&at)?;
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys {
        match key {
            Value::String(text) => texts.push(text),
            other => return Err(wrong_type(other, "string")),
        }
    }
    for key in texts {
        match plain_map(&at)?.get(key.as_bytes()) {
            Some(value) => at = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(at)
}

fn plain_map(value: &Value) -> Result<&Map> {
    const WANTED: &str = "map[string]interface {}";
    match value {
        Value::Map(map) if value.type_of() == Some(gotemplate::Type::MAP) => Ok(map),
        other => Err(wrong_type(other, WANTED)),
    }
}

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
