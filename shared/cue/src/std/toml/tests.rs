//! Rules of TOML 1.0 and the style of go-toml, as tables.

use super::{decode, encode};
use crate::limits::{Budget, Limits};
use crate::std::BuiltinError;
use crate::value::Value;

fn budget() -> Budget {
    Budget::new(&Limits::default())
}

fn marshal(json: &str) -> String {
    let value = crate::std::json::read(json, &mut budget()).unwrap();
    let mut out = String::new();
    encode::write(value.as_struct().unwrap(), &mut out, &mut budget()).unwrap();
    out
}

fn read(toml: &str) -> String {
    match decode::read(toml, &mut budget()) {
        Ok(v) => v.to_json_text(),
        Err(BuiltinError::Message(m) | BuiltinError::Invalid(m)) => format!("! {m}"),
        Err(BuiltinError::Limit(l)) => format!("!! {l}"),
    }
}

#[test]
fn writes() {
    for (json, toml) in [
        (r#"{"r2":"bar","r1":"foo"}"#, "r1 = 'foo'\nr2 = 'bar'\n"),
        (
            r#"{"a1":"foo","b1":{"b2":"bar"},"c1":{"c2":{"c3":"baz"}}}"#,
            "a1 = 'foo'\n\n[b1]\nb2 = 'bar'\n\n[c1]\n[c1.c2]\nc3 = 'baz'\n",
        ),
        (
            r#"{"tables":[{"table1":"foo"},{"table2":"bar"},{"subtable":{"sub1":"baz"}}]}"#,
            "[[tables]]\ntable1 = 'foo'\n\n[[tables]]\ntable2 = 'bar'\n\n[[tables]]\n[tables.subtable]\nsub1 = 'baz'\n",
        ),
        (r#"{"123-456":{" foo bar ":"value"}}"#, "[123-456]\n' foo bar ' = 'value'\n"),
        (
            r#"{"a":[1,2.5,1.0,true,"it's",{"k":[]}]}"#,
            "a = [1, 2.5, 1.0, true, \"it's\", {k = []}]\n",
        ),
        ("{\"s\":\"a\\nb\"}", "s = \"a\\nb\"\n"),
        ("{}", ""),
    ] {
        assert_eq!(marshal(json), toml, "{json}");
        let back: Value = crate::std::json::read(json, &mut budget()).unwrap();
        assert_eq!(decode::read(toml, &mut budget()), Ok(back), "{toml}");
    }
}

#[test]
fn reads() {
    for (toml, json) in [
        ("", "{}"),
        (
            "# c\na = 1 # d\r\nb.c = 'x'\nb.d = \"\\u00e9\\n\"\n",
            r#"{"a":1,"b":{"c":"x","d":"é\n"}}"#,
        ),
        ("[[t]]\na = 1\n[[t]]\n[t.s]\nb = 2", r#"{"t":[{"a":1},{"s":{"b":2}}]}"#),
        ("[a.b]\n[a]\nc = 1", r#"{"a":{"b":{},"c":1}}"#),
        ("a = [ 1,\n # c\n [2], ]\n", r#"{"a":[1,[2]]}"#),
        ("a = { b.c = 1, \"d e\" = {} }", r#"{"a":{"b":{"c":1},"d e":{}}}"#),
        ("a = 1_000\nb = 0xff\nc = -0b11\n", "! toml: line 3: invalid value, found '-'"),
        ("a = +1.5e3\nb = 6.0\nc = 0o17", r#"{"a":1.5E+3,"b":6.0,"c":15}"#),
        ("a = \"\"\"\nx \\\n   y\n\"\"\"\nb = '''\nz'''", r#"{"a":"x y\n","b":"z"}"#),
        (
            "a = 1979-05-27T07:32:00Z\nb = 1979-05-27 07:32:00\nc = 07:32:00",
            r#"{"a":"1979-05-27T07:32:00Z","b":"1979-05-27 07:32:00","c":"07:32:00"}"#,
        ),
        ("foo = \"same\"\nfoo = \"same\"", "! duplicate key: foo"),
        ("[a]\n[a]", "! duplicate key: a"),
        ("a.b = 1\n[a]", "! duplicate key: a"),
        ("a = {b = 1}\na.c = 2", "! duplicate key: a"),
        ("= 1", "! toml: line 1: invalid character at start of key, found '='"),
        ("a = 01", "! toml: line 1: invalid value, found '0'"),
        ("a = 1.", "! toml: line 1: invalid value, found '1'"),
        ("a = inf", "! toml: line 1: invalid value, found 'i'"),
        ("a = 1 b = 2", "! toml: line 1: expected newline, found 'b'"),
        ("a = \"x", "! toml: line 1: unterminated string, found end of text"),
        ("a = 1e999999", "!! number is larger than allowed"),
    ] {
        assert_eq!(read(toml), json, "{toml}");
    }
    for hostile in [
        format!("a = {}", "[".repeat(100_000)),
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("a = {}", "{a=".repeat(100_000)),
    ] {
        assert_eq!(read(&hostile), "!! evaluation nests deeper than allowed");
    }
}
