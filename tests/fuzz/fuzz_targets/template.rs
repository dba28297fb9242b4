//! Any text is a template or is refused; any template ends within its budget, in output or in an
//! error that names a place in the text.

#![no_main]

use std::sync::Arc;

use gotemplate::{
    Args, Budget, Call, Error, Executor, Failure, Function, Functions, Limits, List, Map, MissingKey,
    Param, Signature, Str, Templates, Value,
};
use libfuzzer_sys::fuzz_target;

const DATA: Signature = Signature::new(&[Param::STRING, Param::ANY]);

static FUNCTIONS: [Function<Budget>; 3] = [
    Function { name: "include", signature: DATA, run: include },
    Function { name: "tpl", signature: DATA, run: tpl },
    Function {
        name: "set",
        signature: Signature::new(&[Param::MAP, Param::STRING, Param::ANY]),
        run: |call, args| {
            call.insert(&args.map(0), args.str(1), args.get(2).clone())?;
            Ok(args.get(0).clone())
        },
    },
];

fn include(call: &mut Call<'_, Budget>, args: Args<'_>) -> Result<Value, Failure> {
    Ok(Value::String(call.execute(&args.text(0), args.get(1).clone())?.into()))
}

fn tpl(call: &mut Call<'_, Budget>, args: Args<'_>) -> Result<Value, Failure> {
    call.steps(args.str(0).len() as u64)?;
    let mut fork = call.templates().fork();
    fork.parse("tpl", &args.text(0)).map_err(Failure::other)?;
    Ok(Value::String(call.execute_in(&Arc::new(fork), "tpl", args.get(1).clone())?.into()))
}

fn data() -> Value {
    let inner: Map = [(Str::from("b"), Value::Float(2.5)), ("n".into(), Value::Nil)].into_iter().collect();
    let list = List::new(vec![Value::int(1), "x".into(), Value::Nil]);
    let all = [
        (Str::from("a"), inner.into()),
        ("l".into(), list.into()),
        ("s".into(), "text".into()),
        ("i".into(), Value::int64(-3)),
        ("x".into(), Value::Bytes(b"\xff\0".as_slice().into())),
    ];
    Value::Map(all.into_iter().collect())
}

fuzz_target!(|input: (&str, u8)| {
    let (text, missing) = input;
    let missing = match missing % 3 {
        0 => MissingKey::Default,
        1 => MissingKey::Zero,
        _ => MissingKey::Error,
    };
    let functions = Arc::new(Functions::new([FUNCTIONS.as_slice()]));
    let mut templates = Templates::new("fuzz", functions).missing_key(missing);
    if let Err(error) = templates.parse("t", text) {
        assert!(error.line() <= 1 + text.matches('\n').count(), "{error}");
        return;
    }
    let limits = Limits { steps: 100_000, bytes: 4 << 20, cancel: None };
    let mut budget = Budget::new(&limits);
    let mut executor = Executor::new(Arc::new(templates), &mut budget);
    match executor.execute("t", data()) {
        Ok(out) => assert!(out.len() <= 4 << 20),
        Err(Error::Exec(error)) => {
            assert!(error.location().line <= 1 + text.matches('\n').count(), "{error}");
        }
        Err(_) => {}
    }
});
