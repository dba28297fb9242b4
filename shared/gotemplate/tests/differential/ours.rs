//! The data and functions of `tests/go/main.go`, for our engine.

use std::sync::Arc;

use gotemplate::{
    Args, Budget, Executor, Failure, Function, Functions, Int, Limits, List, Map, Meter,
    MissingKey, Object, Param, Signature, Stop, Str, Templates, Type, Uint, Underlying, Value,
};

/// A budget, and how many includes are within each other.
#[derive(Debug)]
struct Host {
    budget: Budget,
    includes: u32,
}

impl Meter for Host {
    fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        self.budget.steps(steps)
    }

    fn room(&mut self, bytes: u64) -> Result<(), Stop> {
        self.budget.room(bytes)
    }
}

#[derive(Debug)]
struct Version;

impl Object for Version {
    fn type_of(&self) -> Type {
        Type::Named("main.Version")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["Pre"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        (name == "Pre").then(|| "rc".into())
    }

    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "Major" | "String" => Some(Signature::new(&[])),
            "Has" => Some(Signature::new(&[Param::STRING])),
            "Join" => Some(Signature::variadic(&[Param::STRING], Param::ANY)),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        Ok(match name {
            "Major" => Value::Uint(Uint::Uint64, 7),
            "Has" => (args.str(0) == "v1").into(),
            "Join" => Value::String(gotemplate::print(args.all(), meter)?.into()),
            _ => "v7".into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some("v7".to_owned())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.type_of() == self.type_of())
    }
}

#[derive(Debug)]
struct Pair;

impl Object for Pair {
    fn type_of(&self) -> Type {
        Type::Named("main.Pair")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["A", "B"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "A" => Some(Value::int64(9)),
            "B" => Some(Value::Nil),
            _ => None,
        }
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.type_of() == self.type_of())
    }
}

#[derive(Debug)]
struct Values(Map);

impl Object for Values {
    fn type_of(&self) -> Type {
        Type::Named("main.Values")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::Map(self.0.clone()))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        (name == "Keys").then_some(Signature::new(&[]))
    }

    fn call(&self, _: &str, _: Args<'_>, _: &mut dyn Meter) -> Result<Value, Failure> {
        Ok(Value::int(self.0.len() as i64))
    }
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Map {
    entries.into_iter().map(|(key, value)| (Str::from(key), value)).collect()
}

fn data() -> Value {
    let inner = map([
        ("b", map([("c", "deep".into())]).into()),
        ("n", Value::Float(80.0)),
        ("z", Value::Nil),
    ]);
    let nested = List::new(vec![true.into()]);
    let list = vec![Value::int(1), "x".into(), Value::Nil, Value::Float(2.0), nested.into()];
    let smap = Map::of(&Type::String, [("k".into(), "v".into())].into_iter().collect());
    map([
        ("a", inner.into()),
        ("nul", Value::Nil),
        ("s", "text é <&>\n".into()),
        ("e", "".into()),
        ("t", true.into()),
        ("i", Value::int(3)),
        ("j", Value::int64(-4)),
        ("u", Value::Uint(Uint::Uint8, 9)),
        ("w", Value::Uint(Uint::Uint64, 1 << 63)),
        ("f", 2.5.into()),
        ("big", 1e6.into()),
        ("small", 1e-5.into()),
        ("cut", Value::String(b"a\xffb".as_slice().into())),
        ("l", List::new(list).into()),
        ("strings", List::strings(["p", "q"]).into()),
        ("ints", List::of(&Type::Int(Int::Int), (5..8).map(Value::int).collect()).into()),
        ("empty", List::new(Vec::new()).into()),
        ("none", List::nil(&Type::Any).into()),
        ("nomap", Map::nil(&Type::Any).into()),
        ("smap", smap.into()),
        ("v", Value::object(Version)),
        ("pair", Value::object(Pair)),
        ("Values", Value::object(Values(map([("k", 1e6.into()), ("Keys", "no".into())])))),
        ("bytes", Value::Bytes("hi".into())),
    ])
    .into()
}

static FUNCTIONS: [Function<Host>; 13] = [
    Function {
        name: "list",
        signature: Signature::variadic(&[], Param::ANY),
        run: |_, args| match args.all() {
            // Go passes nil for no further arguments.
            [] => Ok(List::nil(&Type::Any).into()),
            all => Ok(List::new(all.to_vec()).into()),
        },
    },
    Function {
        name: "repeat",
        signature: Signature::new(&[Param::INT, Param::STRING]),
        run: |call, args| {
            let count = usize::try_from(args.int(0))
                .map_err(|_| Failure::text("strings: negative Repeat count"))?;
            call.room(count.saturating_mul(args.str(1).len()) as u64)?;
            Ok(Value::String(args.str(1).as_bytes().repeat(count).into()))
        },
    },
    Function {
        name: "half",
        signature: Signature::new(&[Param::FLOAT]),
        run: |_, args| Ok((args.float(0) / 2.0).into()),
    },
    Function {
        name: "small",
        signature: Signature::new(&[Param::Of(Type::Uint(Uint::Uint8))]),
        run: |_, args| Ok(Value::Uint(Uint::Uint8, args.int(0) as u64)),
    },
    Function {
        name: "flip",
        signature: Signature::new(&[Param::BOOL]),
        run: |_, args| Ok((!args.bool(0)).into()),
    },
    Function {
        name: "keys",
        signature: Signature::new(&[Param::MAP]),
        run: |_, args| Ok(Value::int(args.map(0).len() as i64)),
    },
    Function {
        name: "count",
        signature: Signature::new(&[Param::LIST]),
        run: |_, args| Ok(Value::int(args.list(0).len() as i64)),
    },
    Function {
        name: "joined",
        signature: Signature::new(&[Param::Of(Type::List(&Type::String))]),
        run: |_, args| {
            let list = args.list(0);
            let texts: Vec<_> = list
                .as_slice()
                .iter()
                .map(|text| match text {
                    Value::String(text) => text.to_string(),
                    _ => String::new(),
                })
                .collect();
            Ok(texts.join("+").into())
        },
    },
    Function {
        name: "fail",
        signature: Signature::new(&[Param::STRING]),
        run: |_, args| Err(Failure::text(args.text(0).into_owned())),
    },
    Function {
        name: "one",
        signature: Signature::new(&[]),
        run: |_, _| Ok(map([("x", Value::int(1)), ("n", Value::Nil)]).into()),
    },
    Function { name: "none", signature: Signature::new(&[]), run: |_, _| Ok(Value::Nil) },
    Function { name: "long", signature: Signature::new(&[]), run: |_, _| Ok(Value::int64(12)) },
    Function {
        name: "include",
        signature: Signature::new(&[Param::STRING, Param::ANY]),
        run: |call, args| {
            if call.host().includes == 30 {
                return Err(Failure::text("too many includes"));
            }
            call.host().includes += 1;
            let out = call.execute(&args.text(0), args.get(1).clone());
            call.host().includes -= 1;
            Ok(Value::String(out?.into()))
        },
    },
];

/// The output, or the text of the error behind `! `.
pub(crate) fn execute(text: &str, missing: &str) -> Vec<u8> {
    let missing = match missing {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Default,
    };
    let functions = Arc::new(Functions::new([FUNCTIONS.as_slice()]));
    let mut templates = Templates::new("set", functions).missing_key(missing);
    if let Err(error) = templates.parse("t", text) {
        return format!("! {error}").into_bytes();
    }
    let mut host = Host { budget: Budget::new(&Limits::default()), includes: 0 };
    let mut executor = Executor::new(Arc::new(templates), &mut host);
    match executor.execute("t", data()) {
        Ok(out) => out,
        Err(error) => format!("! {error}").into_bytes(),
    }
}

/// How Go's JSON has bytes.
pub(crate) fn from_base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}
