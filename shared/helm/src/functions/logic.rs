//! Defaults, choices, and questions about types.

use gotemplate::{Args, Failure, Function, Value};

use super::convert::{deep_copy, deep_equal};
use super::table::{ANY, BOOL, Body, Context, Result, STRING, function, nil_pointer, variadic};
use crate::engine::state::State;

pub(super) static TABLE: &[Function<State>] = &[
    function("empty", &[ANY], |_, args| Ok(is_empty(args.get(0)).into())),
    variadic("default", &[ANY], ANY, |_, args| {
        let given = args.get(1);
        Ok(if is_empty(given) { args.get(0) } else { given }.clone())
    }),
    variadic("coalesce", &[], ANY, |_, args| {
        let first = args.all().iter().find(|value| !is_empty(value));
        Ok(first.cloned().unwrap_or(Value::Nil))
    }),
    variadic("all", &[], ANY, |_, args| Ok((!args.all().iter().any(is_empty)).into())),
    variadic("any", &[], ANY, |_, args| Ok((!args.all().iter().all(is_empty)).into())),
    function("ternary", &[ANY, ANY, BOOL], |_, args| {
        Ok(args.get(usize::from(!args.bool(2))).clone())
    }),
    function("typeOf", &[ANY], |_, args| Ok(Value::from(type_of(args.get(0))))),
    function("typeIs", &[STRING, ANY], |_, args| Ok((type_of(args.get(1)) == args.text(0)).into())),
    function("typeIsLike", &[STRING, ANY], |_, args| {
        let found = type_of(args.get(1));
        let wanted = args.text(0);
        Ok((found == wanted || found.strip_prefix('*') == Some(&*wanted)).into())
    }),
    function("kindOf", &[ANY], |_, args| Ok(Value::from(args.get(0).kind().to_string()))),
    function("kindIs", &[STRING, ANY], |_, args| {
        Ok((args.get(1).kind().to_string() == args.text(0)).into())
    }),
    function("deepEqual", &[ANY, ANY], |call, args| {
        call.steps(weight(args.get(0)))?;
        Ok(deep_equal(args.get(0), args.get(1)).into())
    }),
    function("deepCopy", &[ANY], COPY),
    function("mustDeepCopy", &[ANY], COPY),
];

const COPY: Body = |call: &mut Context<'_>, args: Args<'_>| -> Result {
    let value = args.get(0);
    if value.is_nothing() {
        return Err(nil_pointer());
    }
    call.host().room_of(value)?;
    Ok(deep_copy(value))
};

/// Whether a value counts as not given. A struct never does.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

fn type_of(value: &Value) -> String {
    value.type_of().map_or_else(|| "<nil>".to_owned(), |type_| type_.to_string())
}

/// How many values are in a value, bounded: what walking it costs. Eight bytes of a file count as one, since some texts have a
/// number for each byte.
pub(super) fn weight(value: &Value) -> u64 {
    const MOST: u64 = 1 << 20;
    let bytes = |value: &Value| match value {
        Value::Bytes(bytes) => bytes.len() as u64 / 8,
        _ => 0,
    };
    let (mut count, mut open) = (1 + bytes(value), Vec::new());
    open.extend(collection(value));
    while let Some(value) = open.pop() {
        let mut below = |value: &Value| {
            count += 1 + bytes(value);
            open.extend(collection(value));
        };
        match value {
            Value::List(list) => list.as_slice().iter().for_each(below),
            Value::Map(map) => map.read(|entries| entries.values().for_each(&mut below)),
            _ => {}
        }
        if count > MOST {
            return MOST;
        }
    }
    count
}

/// The list or map that a value is or stands for.
fn collection(value: &Value) -> Option<Value> {
    match value {
        Value::List(_) | Value::Map(_) => Some(value.clone()),
        Value::Object(_) => {
            Some(value.underlying()).filter(|value| matches!(value, Value::List(_) | Value::Map(_)))
        }
        _ => None,
    }
}

impl State {
    /// Pays for a copy of a value, or for walking it.
    pub(crate) fn room_of(&mut self, value: &Value) -> std::result::Result<(), Failure> {
        use gotemplate::Meter as _;
        Ok(self.room(weight(value) * 64)?)
    }
}
