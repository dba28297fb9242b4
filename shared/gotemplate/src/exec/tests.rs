//! Templates over data, with their output, or their error behind `!`.

use std::sync::Arc;

use super::*;
use crate::args::Args;
use crate::budget::{Budget, Exceeded, Limits};
use crate::function::{Function, Functions};
use crate::meter::Stop;
use crate::object::{Object, Underlying};
use crate::signature::{Param, Signature};
use crate::templates::MissingKey;
use crate::value::List;

const MAP_KEY: Signature = Signature::new(&[Param::MAP, Param::STRING, Param::ANY]);

/// Functions with parameters of some types, and the two that charts are made of.
static FUNCTIONS: [Function<Budget>; 9] = [
    Function {
        name: "set",
        signature: MAP_KEY,
        run: |call, args| {
            call.insert(&args.map(0), args.str(1), args.get(2).clone())?;
            Ok(args.get(0).clone())
        },
    },
    Function {
        name: "list",
        signature: Signature::variadic(&[], Param::ANY),
        run: |_, args| Ok(List::new(args.all().to_vec()).into()),
    },
    Function {
        name: "dict",
        signature: Signature::variadic(&[], Param::ANY),
        run: |_, args| {
            let pairs = args.all().chunks(2).filter_map(|pair| match pair {
                [Value::String(key), value] => Some((key.clone(), value.clone())),
                _ => None,
            });
            Ok(Map::from_iter(pairs).into())
        },
    },
    Function {
        name: "repeat",
        signature: Signature::new(&[Param::INT, Param::STRING]),
        run: |_, args| Ok(args.text(1).repeat(args.int(0) as usize).into()),
    },
    Function {
        name: "half",
        signature: Signature::new(&[Param::FLOAT]),
        run: |_, args| Ok((args.float(0) / 2.0).into()),
    },
    Function {
        name: "include",
        signature: Signature::new(&[Param::STRING, Param::ANY]),
        run: |call, args| {
            if call.nested() > 1000 {
                return Err(Failure::text("too many includes"));
            }
            Ok(Value::String(call.execute(&args.text(0), args.get(1).clone())?.into()))
        },
    },
    Function {
        name: "tpl",
        signature: Signature::new(&[Param::STRING, Param::ANY]),
        run: |call, args| {
            let mut fork = call.templates().fork();
            fork.parse("tpl", &args.text(0)).map_err(Failure::other)?;
            Ok(Value::String(call.execute_in(&Arc::new(fork), "tpl", args.get(1).clone())?.into()))
        },
    },
    Function {
        name: "fail",
        signature: Signature::new(&[Param::STRING]),
        run: |_, args| Err(Failure::text(args.text(0).into_owned())),
    },
    Function {
        name: "where",
        signature: Signature::new(&[]),
        run: |call, _| Ok(call.location().map(|(_, at)| at.to_string()).unwrap_or_default().into()),
    },
];

/// A struct with a field, methods, and a text.
#[derive(Debug)]
struct Version(u64);

impl Object for Version {
    fn type_of(&self) -> Type {
        Type::Named("*semver.Version")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn fields(&self) -> &[&str] {
        &["Pre"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        (name == "Pre").then(|| "rc".into())
    }

    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "Major" => Some(Signature::new(&[])),
            "Has" => Some(Signature::new(&[Param::STRING])),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: Args<'_>, _: &mut dyn Meter) -> Result<Value, Failure> {
        Ok(match name {
            "Major" => Value::Uint(crate::types::Uint::Uint64, self.0),
            _ => (args.str(0) == "v1").into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(format!("v{}", self.0))
    }
}

/// A map type with a method.
#[derive(Debug)]
struct Values(Map);

impl Object for Values {
    fn type_of(&self) -> Type {
        Type::Named("chartutil.Values")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::Map(self.0.clone()))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        (name == "Keys").then_some(Signature::new(&[]))
    }

    fn call(&self, _: &str, _: Args<'_>, _: &mut dyn Meter) -> Result<Value, Failure> {
        Ok(List::strings(self.0.keys()).into())
    }
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Map {
    entries.into_iter().map(|(key, value)| (Str::from(key), value)).collect()
}

use crate::text::Str;

fn data() -> Value {
    let inner = map([("b", map([("c", "deep".into())]).into()), ("n", Value::Float(80.0))]);
    map([
        ("a", inner.into()),
        ("nul", Value::Nil),
        ("s", "text".into()),
        ("i", Value::int(3)),
        ("f", Value::Float(2.5)),
        ("l", List::new(vec![Value::int(1), "x".into(), Value::Nil]).into()),
        ("strings", List::strings(["p", "q"]).into()),
        ("empty", List::new(Vec::new()).into()),
        ("v", Value::object(Version(7))),
        ("Values", Value::object(Values(map([("k", Value::Float(1e6)), ("Keys", "no".into())])))),
        ("bytes", Value::Bytes("hi".into())),
    ])
    .into()
}

fn run_with(text: &str, missing: MissingKey, limits: &Limits) -> Result<String, Error> {
    let functions = Arc::new(Functions::new([FUNCTIONS.as_slice()]));
    let mut templates = Templates::new("set", functions).missing_key(missing);
    if let Err(error) = templates.parse("t", text) {
        return Ok(format!("! {error}"));
    }
    let mut budget = Budget::new(limits);
    let mut executor = Executor::new(Arc::new(templates), &mut budget);
    executor.execute("t", data()).map(|out| String::from_utf8(out).unwrap())
}

fn show(text: &str, missing: MissingKey) -> String {
    match run_with(text, missing, &Limits::default()) {
        Ok(out) => out,
        Err(error) => format!("! {error}"),
    }
}

fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, want) in cases {
        let want = match want.strip_prefix("@") {
            Some(error) => format!("! template: t:1:{error}"),
            None => (*want).to_owned(),
        };
        let got = show(text, MissingKey::Zero);
        if got != want {
            wrong.push(format!("{text}\n  got  {got}\n  want {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn output() {
    check(&[
        ("a {{- 3 -}} b", "a3b"),
        ("{{.s}} {{.i}} {{.f}} {{.l}} {{.a}}", "text 3 2.5 [1 x <nil>] map[b:map[c:deep] n:80]"),
        ("{{.nul}}|{{.missing}}|{{print .nul}}", "<no value>|<no value>|<nil>"),
        ("{{.Values.k}} {{.Values.Keys}} {{.Values}}", "1e+06 [Keys k] map[Keys:no k:1e+06]"),
        (
            "{{.v}} {{.v.Major}} {{.v.Has \"v1\"}} {{.v.Pre}} {{\"v2\" | .v.Has}}",
            "v7 7 true rc false",
        ),
        ("{{.bytes}} {{printf \"%s %x\" .bytes .bytes}}", "[104 105] hi 6869"),
        ("{{(.nul).x}}|{{$x := .missing}}{{$x.y.z}}", "<no value>|<no value>"),
        ("{{range $i, $e := .l}}{{$i}}={{$e}};{{end}}", "0=1;1=x;2=<no value>;"),
        ("{{range $k, $v := .a}}{{$k}} {{end}}{{range 3}}{{.}}{{end}}", "b n 012"),
        (
            "{{range .l}}{{if eq . \"x\"}}{{break}}{{end}}{{.}}{{else}}e{{end}}",
            "! template: t:1:17: executing \"t\" at <eq . \"x\">: error calling eq: incompatible types for comparison: int and string",
        ),
        ("{{range .strings}}{{if eq . \"q\"}}{{continue}}{{end}}{{.}}{{else}}e{{end}}", "p"),
        ("{{range .empty}}x{{else}}none{{end}}{{range .nul}}x{{else}}none{{end}}", "nonenone"),
        ("{{with .a.b}}{{.c}}{{$.s}}{{else}}x{{end}}", "deeptext"),
        ("{{with .empty}}x{{else with .s}}{{.}}{{else}}none{{end}}", "text"),
        ("{{if .empty}}x{{else if .s}}y{{end}}", "y"),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{$x := 3}}{{$x}}{{end}}{{$x}}", "32"),
        ("{{$x := 0}}{{range $x = .strings}}{{end}}{{$x}}", "q"),
        (
            "{{define \"d\"}}<{{.}}>{{end}}{{template \"d\" .s}}{{template \"d\"}}",
            "<text><<no value>>",
        ),
        ("{{block \"d\" .i}}[{{.}}]{{end}}{{include \"d\" .s}}", "[3][text]"),
        ("{{tpl \"{{define \\\"e\\\"}}{{.i}}{{end}}{{include \\\"e\\\" .}}\" .}}", "3"),
        (
            "{{and 1 0 (fail \"no\")}} {{or 0 .s (fail \"no\")}} {{not .empty}} {{.s | or 0}}",
            "0 text true text",
        ),
        ("{{len .s}}{{len .l}}{{index .l 1}}{{index .a \"b\" \"c\"}}{{slice .s 1 3}}", "43xdeepex"),
        ("{{index .a \"zz\"}} {{(index .a \"zz\").x}}", "<no value> <no value>"),
        ("{{repeat 2 \"ab\"}}{{half 3}}{{repeat 2.0 \"c\"}}{{half 'a'}}", "abab1.5cc48.5"),
        ("{{$d := dict}}{{$e := set $d \"a\" 1}}{{$e.a}}{{$d}}", "1map[a:1]"),
        ("{{set .Values \"new\" 2 | len}}{{.Values.new}}", "32"),
        (
            "{{0x10}} {{'a'}} {{1.5}} {{`raw\\n`}} {{-3}} {{1_000}} {{1e3}} {{0b11}}",
            "16 97 1.5 raw\\n -3 1000 1000 3",
        ),
        (
            "{{\"a<b\" | html}} {{js \"'<\"}} {{urlquery \"a b&\"}} {{html .nul}}",
            "a&lt;b \\'\\u003C a+b%26 &lt;no value&gt;",
        ),
        ("{{print 1 2 \"a\" \"b\" 3 4}}|{{println 1 \"a\"}}", "1 2ab3 4|1 a\n"),
        (
            "{{eq 1 2 1}} {{ne 1 2}} {{lt 1 2}} {{ge \"b\" \"a\"}} {{eq .nul nil}} {{gt 2.5 1.5}}",
            "true true true true true true",
        ),
        ("{{where}} {{(where)}}", "t:1:2 t:1:13"),
    ]);
}

#[test]
fn errors() {
    check(&[
        ("{{.a.x.y}}", "@4: executing \"t\" at <.a.x.y>: nil pointer evaluating interface {}.y"),
        (
            "{{.a.n.y}}",
            "@4: executing \"t\" at <.a.n.y>: can't evaluate field y in type interface {}",
        ),
        (
            "{{$x := .a.n}}{{$x.y}}",
            "@18: executing \"t\" at <$x.y>: can't evaluate field y in type float64",
        ),
        (
            "{{.v.Nope}}",
            "@4: executing \"t\" at <.v.Nope>: can't evaluate field Nope in type interface {}",
        ),
        ("{{.s \"x\"}}", "@2: executing \"t\" at <.s>: s is not a method but has arguments"),
        (
            "{{.v.Pre 1}}",
            "@4: executing \"t\" at <.v.Pre>: Pre has arguments but cannot be invoked as function",
        ),
        (
            "{{.v.Has}}",
            "@4: executing \"t\" at <.v.Has>: wrong number of args for Has: want 1 got 0",
        ),
        (
            "{{(.s) \"x\"}}",
            "@2: executing \"t\" at <(.s) \"x\">: can't give argument to non-function .s",
        ),
        ("{{nil}}", "@2: executing \"t\" at <nil>: nil is not a command"),
        (
            "{{template \"nope\" .}}",
            "@11: executing \"t\" at <{{template \"nope\" .}}>: template \"nope\" not defined",
        ),
        (
            "{{include \"nope\" .}}",
            "@2: executing \"t\" at <include \"nope\" .>: error calling include: template: no template \"nope\" associated with template \"set\"",
        ),
        (
            "{{define \"x\"}}{{fail \"boom\"}}{{end}}{{include \"x\" .}}",
            "@38: executing \"t\" at <include \"x\" .>: error calling include: template: t:1:16: executing \"x\" at <fail \"boom\">: error calling fail: boom",
        ),
        (
            "{{repeat .f \"a\"}}",
            "@9: executing \"t\" at <.f>: wrong type for value; expected int; got float64",
        ),
        ("{{repeat \"a\" \"b\"}}", "@9: executing \"t\" at <\"a\">: expected integer; found \"a\""),
        (
            "{{repeat 1 .nul}}",
            "@11: executing \"t\" at <.nul>: wrong type for value; expected string; got interface {}",
        ),
        ("{{repeat 1 (.nul)}}", "@12: executing \"t\" at <.nul>: invalid value; expected string"),
        ("{{repeat 1 nil}}", "@11: executing \"t\" at <nil>: cannot assign nil to string"),
        (
            "{{repeat 1}}",
            "@2: executing \"t\" at <repeat>: wrong number of args for repeat: want 2 got 1",
        ),
        (
            "{{index .l 9}}",
            "@2: executing \"t\" at <index .l 9>: error calling index: index out of range: 9",
        ),
        (
            "{{index .nul 1}}",
            "@2: executing \"t\" at <index .nul 1>: error calling index: index of untyped nil",
        ),
        (
            "{{len .nul}}",
            "@2: executing \"t\" at <len .nul>: error calling len: len of nil pointer",
        ),
        (
            "{{len (.nul)}}",
            "@2: executing \"t\" at <len (.nul)>: error calling len: reflect: call of reflect.Value.Type on zero Value",
        ),
        ("{{len 3}}", "@2: executing \"t\" at <len 3>: error calling len: len of type int"),
        (
            "{{eq .s 1}}",
            "@2: executing \"t\" at <eq .s 1>: error calling eq: incompatible types for comparison: string and int",
        ),
        (
            "{{eq .l .a}}",
            "@2: executing \"t\" at <eq .l .a>: error calling eq: non-comparable types [%!s(int=1) x <nil>]: []interface {}, map[string]interface {}: map[b:map[c:deep] n:80]",
        ),
        (
            "{{lt .l 1}}",
            "@2: executing \"t\" at <lt .l 1>: error calling lt: invalid type for comparison",
        ),
        ("{{range .s}}{{end}}", "@8: executing \"t\" at <.s>: range can't iterate over text"),
        (
            "{{range $i, $j := 3}}{{end}}",
            "@18: executing \"t\" at <3>: can't use 3 to iterate over more than one variable",
        ),
        (
            "{{if false}}{{$y := 1}}{{else}}{{$y}}{{end}}",
            "@33: executing \"t\" at <$y>: undefined variable: $y",
        ),
        (
            "{{call .s}}",
            "@2: executing \"t\" at <call .s>: error calling call: non-function .s of type string",
        ),
        (
            "{{set (.nul) \"a\" 1}}",
            "@2: executing \"t\" at <set (.nul) \"a\" 1>: error calling set: assignment to entry in nil map",
        ),
    ]);
}

#[test]
fn missing_keys() {
    for (missing, want) in [
        (MissingKey::Default, "<no value>"),
        (
            MissingKey::Zero,
            "! template: t:1:4: executing \"t\" at <.a.x.y>: nil pointer evaluating interface {}.y",
        ),
        (
            MissingKey::Error,
            "! template: t:1:4: executing \"t\" at <.a.x.y>: map has no entry for key \"x\"",
        ),
    ] {
        assert_eq!(show("{{.a.x.y}}", missing), want);
    }
}

#[test]
fn endless_templates_end() {
    let small = Limits { steps: 10_000, bytes: 100_000, cancel: None };
    for (text, want) in [
        ("{{range 9000000000}}{{end}}", Exceeded::Steps),
        ("{{range 9000}}{{printf \"%1000d\" 1}}{{end}}", Exceeded::Bytes),
    ] {
        match run_with(text, MissingKey::Zero, &small) {
            Err(Error::Stop(stop)) => assert_eq!(stop.reason(), Some(&want), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "{{define \"f\"}}{{template \"f\" .}}{{end}}{{template \"f\" .}}",
        "{{define \"f\"}}{{include \"f\" .}}{{end}}{{include \"f\" .}}",
        "{{define \"f\"}}{{tpl \"{{include `f` .}}\" .}}{{end}}{{include \"f\" .}}",
    ] {
        let shown = show(text, MissingKey::Zero);
        assert!(shown.ends_with("includes") || shown.contains("exceeded maximum template depth"));
    }
}

#[test]
fn maps_that_hold_themselves_are_freed_and_cannot_be_printed() {
    let map = Map::from_iter([]);
    let functions = Arc::new(Functions::new([FUNCTIONS.as_slice()]));
    let mut templates = Templates::new("set", functions);
    templates.parse("circle", "{{$_ := set . \"self\" .}}{{len .self.self}}").unwrap();
    templates.parse("print", "{{.}}").unwrap();
    let mut budget = Budget::new(&Limits::default());
    let mut executor = Executor::new(Arc::new(templates), &mut budget);
    assert_eq!(executor.execute("circle", map.clone().into()).unwrap(), b"1");
    let error: Stop = match executor.execute("print", map.clone().into()) {
        Err(Error::Stop(stop)) => stop,
        other => panic!("{other:?}"),
    };
    assert!(error.reason::<fmt::TooDeep>().is_some());
    drop(executor);
    assert!(map.is_empty(), "nothing holds itself any more");
}
