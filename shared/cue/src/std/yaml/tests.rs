//! Rules of go-yaml v3 and CUE's use of it, as tables.

use super::{read_stream, write};
use crate::limits::{Budget, LimitError, Limits};
use crate::std::BuiltinError;
use crate::value::Value;

fn budget() -> Budget {
    Budget::new(&Limits::default())
}

fn json(text: &str) -> Value {
    crate::std::json::read(text, &mut budget()).unwrap()
}

fn read(yaml: &str) -> Result<String, BuiltinError> {
    Ok(Value::List(read_stream(yaml, &mut budget())?).to_json_text())
}

fn marshal(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, &mut budget()).unwrap();
    out
}

#[test]
fn plain_scalars() {
    for (yaml, json) in [
        ("~", "null"),
        ("null", "null"),
        ("Null", "null"),
        ("nUll", "\"nUll\""),
        ("true", "true"),
        ("FALSE", "false"),
        ("yes", "\"yes\""),
        ("on", "\"on\""),
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1_000", "1000"),
        ("017", "15"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("0b11", "3"),
        ("089", "89"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1.50", "1.50"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1e3", "1E+3"),
        ("1e", "\"1e\""),
        ("1.2.3", "\"1.2.3\""),
        ("-", "[null]"),
        ("2001-01-01", "\"2001-01-01\""),
        ("2001-01-01T10:00:00Z", "\"2001-01-01T10:00:00Z\""),
        ("10:20", "\"10:20\""),
        ("'1'", "\"1\""),
        ("\"\\x41\\u00e9\"", "\"Aé\""),
        ("!!str 1", "\"1\""),
        ("!!float 1", "1"),
        ("!!int \"7\"", "7"),
        ("!!bool yes", "true"),
        ("!!binary Zm9v", "\"Zm9v\""),
        ("! 1", "\"1\""),
        ("a b", "\"a b\""),
        ("|\n a\n b\n", "\"a\\nb\\n\""),
        (">-\n a\n b\n", "\"a b\""),
        ("# only a comment\n--- 3", "3"),
    ] {
        assert_eq!(read(yaml).unwrap(), format!("[{json}]"), "{yaml}");
    }
}

#[test]
fn documents_and_collections() {
    for (yaml, json) in [
        ("", "[]"),
        ("# nothing\n", "[]"),
        ("---\n", "[null]"),
        ("a: 1\n---\nb: 2", r#"[{"a":1},{"b":2}]"#),
        ("1\n---\n---\n2", "[1,null,2]"),
        ("a:\n- 1\n- b: 2\n  c: [x, {y: z}]\n", r#"[{"a":[1,{"b":2,"c":["x",{"y":"z"}]}]}]"#),
        ("1: a\ntrue: b\nnull: c\n", r#"[{"1":"a","true":"b","null":"c"}]"#),
        ("a: &x {b: 1}\nc: *x\n", r#"[{"a":{"b":1},"c":{"b":1}}]"#),
        (
            "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n",
            r#"[{"a":{"b":1,"c":2},"d":{"b":3,"c":2}}]"#,
        ),
        ("d:\n  <<: [{a: 1}, {a: 2, b: 3}]\n", r#"[{"d":{"a":1,"b":3}}]"#),
        ("'<<': 1", r#"[{"<<":1}]"#),
        ("a: 1\na: 1\n", r#"[{"a":1}]"#),
        ("a:\n", r#"[{"a":null}]"#),
        ("a: ''\n", r#"[{"a":""}]"#),
    ] {
        assert_eq!(read(yaml).unwrap(), json, "{yaml}");
    }
}

#[test]
fn refusals() {
    for yaml in [
        "a: 1\na: 2\n",
        "a: b: c",
        "[1",
        "*x",
        "a: &x\n  b: *x\n",
        "? [1]\n: 2\n",
        "!!int x",
        "!!binary \"?\"",
        ".inf",
        "!foo 1",
        "<<: 1",
        "\"\\q\"",
        "...",
        "# c\n... # d\n---\n1",
    ] {
        assert!(matches!(read(yaml), Err(BuiltinError::Message(_))), "{yaml}: {:?}", read(yaml));
    }
}

#[test]
fn hostile_documents_end() {
    let nested = "[".repeat(100_000);
    assert!(read(&nested).is_err());
    let block = (0..20_000).map(|i| format!("{}a:\n", " ".repeat(i % 5000))).collect::<String>();
    assert!(read(&block).is_err());
    // Nine levels of nine aliases each: 9^9 nodes.
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for i in 1..10 {
        let aliases = vec![format!("*a{}", i - 1); 9].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    assert_eq!(read(&bomb), Err(BuiltinError::Limit(LimitError::List)));
    assert_eq!(read("1e999999999"), Err(BuiltinError::Limit(LimitError::Number)));
}

#[test]
fn style_of_scalars() {
    for (value, yaml) in [
        ("null", "null"),
        ("true", "true"),
        ("1.50", "1.50"),
        ("\"a\"", "a"),
        ("\"\"", "\"\""),
        ("\"null\"", "\"null\""),
        ("\"~\"", "\"~\""),
        ("\"true\"", "\"true\""),
        ("\"yes\"", "\"yes\""),
        ("\"y\"", "\"y\""),
        ("\"1\"", "\"1\""),
        ("\"1_0\"", "\"1_0\""),
        ("\".5\"", "\".5\""),
        ("\"1.2.3\"", "1.2.3"),
        ("\"2001-01-01\"", "\"2001-01-01\""),
        ("\"10:20\"", "\"10:20\""),
        ("\"0x1g\"", "0x1g"),
        ("\"0xab\"", "\"0xab\""),
        ("\"<<\"", "\"<<\""),
        ("\"a: b\"", "'a: b'"),
        ("\"a:b\"", "a:b"),
        ("\"a:\"", "'a:'"),
        ("\"a #b\"", "'a #b'"),
        ("\"a#b\"", "a#b"),
        ("\"- a\"", "'- a'"),
        ("\"-a\"", "-a"),
        ("\"-\"", "'-'"),
        ("\"? a\"", "'? a'"),
        ("\"?a\"", "?a"),
        ("\"*a\"", "'*a'"),
        ("\"&a\"", "'&a'"),
        ("\"%a\"", "'%a'"),
        ("\"@a\"", "'@a'"),
        ("\"it's\"", "it's"),
        ("\"'a'\"", "'''a'''"),
        ("\"[a]\"", "'[a]'"),
        ("\"a, b\"", "a, b"),
        ("\" a\"", "' a'"),
        ("\"a \"", "'a '"),
        ("\"---\"", "\"---\""),
        ("\"a\\tb\"", "\"a\\tb\""),
        ("\"é ✓\"", "é ✓"),
        ("\"😀\"", "\"\\U0001F600\""),
        ("\"\\u0001\"", "\"\\x01\""),
        ("[]", "[]"),
        ("{}", "{}"),
    ] {
        assert_eq!(marshal(&json(value)), format!("{yaml}\n"), "{value}");
    }
    assert_eq!(marshal(&Value::Bytes(b"foo"[..].into())), "!!binary Zm9v\n");
}

#[test]
fn style_of_collections() {
    for (value, yaml) in [
        (
            r#"{"a":{"b":[1,{"c":2,"d":[3]}]}}"#,
            "a:\n  b:\n    - 1\n    - c: 2\n      d:\n        - 3\n",
        ),
        ("[[1,2],[[3]],[],{}]", "- - 1\n  - 2\n- - - 3\n- []\n- {}\n"),
        (
            r#"{"y":1,"1":2,"a b":3,"a: b":4,"":5}"#,
            "\"y\": 1\n\"1\": 2\na b: 3\n'a: b': 4\n\"\": 5\n",
        ),
        (
            r#"{"a":"x\ny\n","b":"x\ny","c":"x\n\n","d":["  x\ny"]}"#,
            "a: |\n  x\n  y\nb: |-\n  x\n  y\nc: |+\n  x\n\nd:\n  - |2-\n      x\n    y\n",
        ),
        (r#""x\ny\n""#, "|\n  x\n  y\n"),
        (r#"{"a":"x \ny"}"#, "a: \"x \\ny\"\n"),
        (r#"{"a":[],"b":{}}"#, "a: []\nb: {}\n"),
    ] {
        assert_eq!(marshal(&json(value)), yaml, "{value}");
    }
    let long = "k".repeat(129);
    let value: Value = [(long.as_str(), json(r#"{"a":1}"#))].into_iter().collect();
    assert_eq!(marshal(&value), format!("? {long}\n: a: 1\n"));
}

/// What is written reads back as the same value.
#[test]
fn round_trips() {
    let mut probes: Vec<String> = [
        "",
        " ",
        "a",
        "yes",
        "1",
        "1e3",
        "-",
        "- a",
        "a: b",
        "a #b",
        "#",
        "'",
        "\"",
        "\\",
        "\n",
        "\n\n",
        "a\n",
        "a\n\n",
        "a\nb",
        " a\nb",
        "a \nb",
        "a\n b\n",
        "\ta",
        "a\tb\nc",
        "\r",
        "a\r\nb",
        "\u{85}",
        "\u{2028}",
        "\u{a0}",
        "\u{feff}",
        "😀",
        "a\n😀",
        "---",
        "--- a",
        "...",
        "<<",
        "=",
        "{",
        "}",
        "[]",
        "*x",
        "!x",
        "%x",
        "@x",
        "`x",
        "|",
        ">",
        "?",
        "? x",
        ":",
        ": x",
        "x:",
        ",",
        "~",
        "null",
        "0x10",
        "017",
        "1_0",
        "2001-01-01",
        "12:30",
        ".inf",
        "a\n---\nb",
        "a\n...\n",
        "a\n\n\nb",
        "\n a",
        "  \n",
        "a\n ",
        "a\n\t",
    ]
    .iter()
    .map(|s| (*s).to_owned())
    .collect();
    probes.push("x".repeat(1000));
    for text in &probes {
        let s = Value::from(text.as_str());
        for value in [
            s.clone(),
            Value::List(vec![s.clone(), s.clone()]),
            [("k", s.clone())].into_iter().collect(),
            [(
                text.as_str(),
                Value::List(vec![[(text.as_str(), s.clone())].into_iter().collect()]),
            )]
            .into_iter()
            .collect(),
        ] {
            let yaml = marshal(&value);
            let back = read_stream(&yaml, &mut budget());
            assert_eq!(back, Ok(vec![value]), "{yaml}");
        }
    }
}
