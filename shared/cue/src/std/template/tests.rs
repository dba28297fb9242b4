//! Templates with their output, or the error behind `!`.

use crate::limits::{Budget, Limits};
use crate::std::{BuiltinError, Item, Run, lookup};
use crate::value::Value;

fn run(template: &str, data: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(data).unwrap();
    let Some(Item::Func(f)) = lookup("text/template", "Execute").map(|m| &m.item) else { panic!() };
    let Run::Pure(execute) = f.run else { panic!() };
    let args = [Value::from(template), Value::from(&json)];
    match execute(&args, &mut Budget::new(&Limits::default())) {
        Ok(v) => v.as_str().unwrap().to_owned(),
        Err(BuiltinError::Message(m) | BuiltinError::Invalid(m)) => format!("! {m}"),
        Err(BuiltinError::Limit(l)) => format!("!! {l}"),
    }
}

#[test]
fn templates() {
    for (template, data, want) in [
        ("{{.}}-{{.}}", "\"foo\"", "foo-foo"),
        ("{{.a.b}} {{.x}}", r#"{"a":{"b":1}}"#, "1 <no value>"),
        ("{{.}}", r#"{"b":[1,2.5,null],"a":true}"#, "map[a:true b:[1 2.5 <nil>]]"),
        ("{{.}}", "1000000.0", "1e+06"),
        ("{{.}}", "1e21", "1e+21"),
        ("{{.}}", "null", "<no value>"),
        ("a {{- 3 -}} b", "0", "a3b"),
        ("x{{/* no */}}y {{- /* trimmed */ -}} z", "0", "xyz"),
        ("{{if .}}T{{else}}F{{end}}", "[]", "F"),
        ("{{if eq . 1}}one{{else if eq . 2}}two{{else}}many{{end}}", "2", "two"),
        ("{{with .a}}{{.}}{{else}}none{{end}}", "{}", "none"),
        ("{{range .}}<{{.}}>{{else}}empty{{end}}", "[1,2]", "<1><2>"),
        ("{{range .}}x{{else}}empty{{end}}", "[]", "empty"),
        ("{{range $i, $e := .}}{{$i}}={{$e}};{{end}}", r#"{"b":1,"a":2}"#, "a=2;b=1;"),
        (
            "{{range .}}{{if eq . 2}}{{continue}}{{end}}{{if eq . 4}}{{break}}{{end}}{{.}}{{end}}",
            "[1,2,3,4,5]",
            "13",
        ),
        ("{{range 3}}{{.}}{{end}}", "0", "012"),
        ("{{$x := .a}}{{with .b}}{{$x}}{{.}}{{$.a}}{{end}}", r#"{"a":1,"b":2}"#, "121"),
        ("{{$x := 1}}{{range .}}{{$x = .}}{{end}}{{$x}}", "[1,7]", "7"),
        (
            "{{define \"t\"}}<{{.}}>{{end}}{{template \"t\" .a}}{{template \"t\"}}",
            r#"{"a":1}"#,
            "<1><<no value>>",
        ),
        ("{{block \"b\" .}}[{{.}}]{{end}}", "1", "[1]"),
        (
            "{{printf \"%05d|%-4s|%q|%.2f|%x|%v|%t\" 42 \"a\" \"b\" 1.5 255 . true}}",
            "[1]",
            "00042|a   |\"b\"|1.50|ff|[1]|true",
        ),
        ("{{printf \"%d %s\" \"a\"}}", "0", "%!d(string=a) %!s(MISSING)"),
        ("{{\"a<b\" | html | printf \"%s!\"}}", "0", "a&lt;b!"),
        ("{{len .}} {{index . 1}} {{slice . 1 2}}", "[5,6,7]", "3 6 [6]"),
        ("{{index .m \"k\" 0}}", r#"{"m":{"k":["v"]}}"#, "v"),
        ("{{and 1 0 (index 1 2)}} {{or 0 2}} {{not 0}}", "0", "0 2 true"),
        ("{{lt 1 2}} {{ge \"b\" \"a\"}} {{ne 1.0 1.5}} {{eq 1 2 1}}", "0", "true true true true"),
        ("{{(printf \"%s\" .a)}} {{(.b).c}}", r#"{"a":"x","b":{"c":3}}"#, "x 3"),
        ("{{print 1 2 \"a\" 3}}|{{println 1 \"a\"}}", "0", "1 2a3|1 a\n"),
        ("{{urlquery \"a b\"}} {{js \"'<\"}}", "0", "a+b \\'\\u003C"),
        ("{{0x10}} {{'a'}} {{1.5}} {{`raw\\n`}} {{-3}}", "0", "16 97 1.5 raw\\n -3"),
        ("{{", "0", "! template: :1: unclosed action"),
        ("\n{{nope}}", "0", "! template: :2: function \"nope\" not defined"),
        ("{{if 1}}", "0", "! template: :1: unexpected EOF"),
        ("{{end}}", "0", "! template: :1: unexpected {{end}}"),
        (
            "{{.a.b}}",
            r#"{"a":1}"#,
            "! template: :1:4: executing \"\" at <.a.b>: can't evaluate field b in type interface {}",
        ),
        ("{{$y}}", "0", "! template: :1: undefined variable \"$y\""),
        (
            "{{index . 9}}",
            "[1]",
            "! template: :1:2: executing \"\" at <index . 9>: error calling index: index out of range: 9",
        ),
        (
            "{{define \"t\"}}{{template \"t\"}}{{end}}{{template \"t\"}}",
            "0",
            "! template: :1:25: executing \"t\" at <{{template \"t\"}}>: exceeded maximum template depth (101)",
        ),
        ("{{range 999999999}}{{end}}", "0", "!! evaluation takes more steps than allowed"),
        ("}} {", "0", "}} {"),
    ] {
        assert_eq!(run(template, data), want, "{template}");
    }
    let nested = "{{if 1}}".repeat(100_000);
    assert!(run(&nested, "0").starts_with('!'));
    let parens = format!("{{{{{}1{}}}}}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(run(&parens, "0").starts_with('!'));
}

#[test]
fn numbers_beyond_those_of_go() {
    for (number, template, want) in [
        (
            "12345678901234567890123",
            "{{.}} {{printf \"%T %d\" . .}}",
            "12345678901234567890123 *big.Int 12345678901234567890123",
        ),
        ("1e400", "{{.}} {{printf \"%T %8d\" . .}}", "1e+400 *big.Float %!d(*big.Float=  1e+400)"),
        ("9223372036854775807", "{{.}} {{printf \"%T\" .}}", "9223372036854775807 int64"),
    ] {
        let text = format!("import \"text/template\"\nx: template.Execute({template:?}, {number})");
        let program = crate::Program::compile("in.cue", &text, &crate::Packages::std()).unwrap();
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let value = evaluation.export(evaluation.root()).unwrap();
        assert_eq!(value.get("x").and_then(Value::as_str), Some(want), "{number}");
    }
}
