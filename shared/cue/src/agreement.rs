//! Small programs at the edges of the language, each with what the reference makes of it: the
//! exported value, or the class of the error. Grouped by the rule they show.

use crate::{Limits, Packages, Program};

/// Exports a text; errors are their class.
fn outcome(text: &str) -> String {
    let mut packages = Packages::std();
    packages.without_list_arithmetic();
    let program = match Program::compile("in.cue", text, &packages) {
        Ok(program) => program,
        Err(errors) => return errors.class().name().to_owned(),
    };
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    match evaluation.export(root) {
        Ok(value) => value.to_json_text(),
        Err(errors) => errors.class().name().to_owned(),
    }
}

fn agree(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        assert_eq!(outcome(text), *want, "{text}");
    }
}

#[test]
fn arguments_of_a_wrong_kind_are_final_errors_however_little_is_known() {
    agree(&[
        ("x: len(int)", "eval"),
        ("x: div(string, 2)", "eval"),
        ("x: div(int, 2)", "incomplete"),
        ("x: close(int)", "eval"),
        ("x: close(*{} | 0)", r#"{"x":{}}"#),
        ("import \"strings\"\nx: strings.Trim(bytes, \"X\", 1)", "eval"),
        ("import \"strings\"\nx: strings.Index(1 | 2, \"a\")", "incomplete"),
        ("import \"math/bits\"\nx: bits.Set(>5, true, 1)", "eval"),
        ("import \"net\"\nx: net.SplitHostPort(>5)", "eval"),
        ("import \"path\"\nx: path.Match(\"*c\", \"abc\")", r#"{"x":true}"#),
        ("import \"list\"\nx: list.Concat([{a: 1}])", "eval"),
        ("import \"struct\"\nx: struct.MinFields({a: 1}, int)", "incomplete"),
        ("import \"struct\"\nx: struct.MinFields({a: 1}, string)", "eval"),
        ("import \"list\"\na: {p: int, t: {+p}, m: list.Max([t])}", "incomplete"),
    ]);
}

#[test]
fn what_is_called_has_to_be_a_function_by_then() {
    agree(&[
        ("y: {}, x: y.z(1)", "eval"),
        ("import \"list\"\nx: list.list([1])", "eval"),
        ("import \"encoding/json\"\nx: json.Valid, y: x(), z: y()", "eval"),
    ]);
}

#[test]
fn operands_of_a_wrong_kind_are_final_errors() {
    agree(&[
        ("y: string, x: -y", "eval"),
        ("y: string, x: !y", "eval"),
        ("y: bool, x: !y", "incomplete"),
        ("x: -(\"a\" | \"b\")", "incomplete"),
        ("a: int, x: {if a {y: 1}}", "eval"),
        ("a: bool, x: {if a {y: 1}}", "incomplete"),
        ("x: (*43 | bool).a", "eval"),
        ("x: (43 | true).a", "incomplete"),
        ("x: [1] + [2]", "eval"),
        ("x: [1] * 2", "eval"),
    ]);
}

#[test]
fn lists_are_compared_as_data_and_structs_not_at_all() {
    agree(&[
        ("x: {a: 1} == {a: 1}", "eval"),
        ("x: {a: 1} != {b: 1}", "eval"),
        ("x: {a: 1} == null", r#"{"x":false}"#),
        ("x: [{a: 1}] == [{a: 1}]", r#"{"x":true}"#),
        ("x: [{a: 1, b?: 2}] == [close({a: 1})]", r#"{"x":true}"#),
        ("x: [1] == [1.0]", r#"{"x":false}"#),
        ("x: 1 == 1.0", r#"{"x":true}"#),
        ("x: [[1, \"a\"]] != [[1, \"b\"]]", r#"{"x":true}"#),
        ("x: [int] == [1]", "incomplete"),
        ("x: [1 & 2] == [1]", "eval"),
        ("x: \"a\" == 'a'", "eval"),
        ("x: 'a' < 'b'", r#"{"x":true}"#),
        ("x: 'a' < \"b\"", "eval"),
    ]);
}

#[test]
fn what_a_required_field_would_be_has_to_be_possible() {
    agree(&[
        ("#S: {n!: 1 & 2}", "eval"),
        ("#S: {n!: {b: 1 & 2}}", "eval"),
        ("#S: {n!: (string).a}", "eval"),
        ("S: {n?: 1 & 2}", r#"{"S":{}}"#),
        ("#S: {n!: int}, x: #S & {n: 1}", r#"{"x":{"n":1}}"#),
        ("A: {n!: <1 & >2} | {c: 1}", r#"{"A":{"c":1}}"#),
    ]);
}

#[test]
fn a_scalar_may_come_from_a_comprehension_beside_patterns() {
    agree(&[
        ("x: {[string]: int, if true {5}}", r#"{"x":5}"#),
        ("x: {..., if true {5}}", r#"{"x":5}"#),
        ("x: {a?: int, if true {5}}", r#"{"x":5}"#),
        ("x: {[string]: int, if false {5}}", r#"{"x":{}}"#),
        ("x: {a!: int, if true {5}}", "eval"),
    ]);
}

#[test]
fn the_name_of_a_label_is_no_field() {
    agree(&[
        ("X: [X=string]: 1", "compile"),
        ("a: X={b: X.c, c: 1}, X: 2", "compile"),
        ("X: 1, a: {let X = 2, b: X}", "compile"),
        ("let X = 1, a: {let X = 2, b: X}, c: X", r#"{"a":{"b":2},"c":1}"#),
        ("X: 1, a: [for x in [1] let X = 2 {X}]", r#"{"X":1,"a":[2]}"#),
        ("Y: [X=string]: X, Y: a: _", r#"{"Y":{"a":"a"}}"#),
    ]);
}

/// Programs of one field `x` that use one package.
fn agree_on(package: &str, cases: &[(&str, &str)]) {
    for (text, want) in cases {
        let text = format!("import \"{package}\"\n{text}");
        let want = match want.starts_with(|c: char| c.is_ascii_lowercase()) {
            true if !matches!(*want, "true" | "false") => (*want).to_owned(),
            _ => format!("{{\"x\":{want}}}"),
        };
        assert_eq!(outcome(&text), want, "{text}");
    }
}

#[test]
fn lists_of_elements_that_are_not_known() {
    agree_on(
        "list",
        &[
            ("x: list.Contains([string], 5)", "false"),
            ("x: list.Contains([1], 1.0)", "false"),
            ("x: list.Contains([{a: 1, b?: 2}], {a: 1})", "true"),
            ("x: list.Contains([1, 2], int)", "incomplete"),
            ("x: list.UniqueItems([{a: 1}, {a: 1}])", "false"),
            ("x: list.UniqueItems() & [1, 2, 1.0]", "[1,2,1.0]"),
            // Open structs may come to differ, closed ones not.
            ("x: list.UniqueItems() & [{a: 1}, {a: 1}]", "incomplete"),
            ("#A: {a: 1, b?: int}\nx: list.UniqueItems() & [{a: 1}, #A]", "incomplete"),
            ("#A: {a: 1, b?: int & string}\nx: list.UniqueItems() & [{a: 1}, #A]", "eval"),
            ("#A: {a: 1, #b: int}\nx: list.UniqueItems() & [{a: 1}, #A]", "eval"),
            ("#A: {a: int}\nx: list.UniqueItems() & [#A & {a: 1}, #A & {a: 1}]", "eval"),
            ("x: list.UniqueItems() & [[1], [1]]", "eval"),
            ("x: list.UniqueItems() & [int, int]", "incomplete"),
            ("x: list.UniqueItems() & [{a: 1}, {a: 1}, 1, 1]", "eval"),
            ("x: list.MatchN([{a: 1}], 2, {a: int})", "false"),
        ],
    );
    agree(&[(
        "import \"list\"\nt: a: [\"b\"], x: [for m in t if list.UniqueItems(m) {1}]",
        r#"{"t":{"a":["b"]},"x":[1]}"#,
    )]);
}

#[test]
fn comparators_that_say_nothing() {
    agree_on(
        "list",
        &[
            ("x: list.Sort([2, 1], list.Comparer)", "[2,1]"),
            ("x: list.Sort([2, 1], {x: _, y: _})", "incomplete"),
            ("x: list.Sort([2, _], {x: _, y: _, less: x < y})", "eval"),
            ("x: list.IsSorted([{a: 1}, {a: 2}], list.Ascending)", "false"),
            ("x: list.IsSorted([2, 1], list.Comparer)", "true"),
        ],
    );
}

#[test]
fn characters_as_numbers() {
    agree_on(
        "strconv",
        &[
            ("x: strconv.QuoteRune(0x110000)", "\"'\u{fffd}'\""),
            ("x: strconv.QuoteRune(10)", r#""'\\n'""#),
            ("x: strconv.QuoteRuneToASCII(233)", r#""'\\u00e9'""#),
            ("x: strconv.QuoteRuneToGraphic(0x3000)", "\"'\u{3000}'\""),
            ("x: strconv.QuoteToGraphic(\"a\\u3000\\t\")", "\"\\\"a\u{3000}\\\\t\\\"\""),
            ("x: strconv.IsPrint(0xD800)", "false"),
            ("x: strconv.IsGraphic(0x3000)", "true"),
            ("x: 65 & strconv.IsGraphic", "65"),
        ],
    );
}

#[test]
fn a_field_beside_an_embedded_definition_is_as_open_as_it_was_written() {
    let text = "#D: {y?: {z?: int}}\na: {x: q: 2, y: {}, #D}";
    let program = Program::compile("in.cue", text, &Packages::std()).expect("compiles");
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    for (path, closed) in [("a", true), ("a.x", false), ("a.y", true)] {
        let node = evaluation.lookup(root, path).expect("is there");
        assert_eq!(evaluation.describe(node).closed, closed, "{path}");
    }
    agree(&[("#D: {y?: int}\na: {x: q: 2, #D}\nb: a & {z: 4}", "eval")]);
}
