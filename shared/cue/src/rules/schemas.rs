//! Rules about schemas that functions are given, and about constraints that are said twice.

use super::table;
use crate::{Class, Limits, Packages, Program};

#[test]
fn a_schema_is_asked_about_the_data_of_a_value() {
    table(&[
        ("x: matchN(1, [{c: 7}]) & {c?: 2}", r#"{"x":{}}"#),
        ("x: matchN(0, [{c: 7}]) & {c?: 2}", "eval"),
        ("#x: matchN(1, [{d: \"x\"}]) & {d!: \"b\"}", r#"{}"#),
        ("x: matchN(1, [{c!: 7}]) & {c?: 2}", "incomplete"),
        ("x: matchN(1, [{b: 2}]) & {[string]: 1}", r#"{"x":{}}"#),
        ("x: matchN(1, [{a: c: 2}]) & {a: {c?: 1}}", r#"{"x":{"a":{}}}"#),
        ("x: matchN(1, [{a: 2}]) & {a: *1 | 2}", "eval"),
        ("x: matchN(1, [{a: 3}]) & {a: matchN(1, [2])}", "eval"),
        ("x: matchN(1, [{b: 3, c: 5}]) & {a: 1, b: int, c: b + 1}", "incomplete"),
        ("x: matchN(1, [close({a: 2})]) & {a: 2, b?: 4}", r#"{"x":{"a":2}}"#),
        ("x: matchN(1, [close({a: 2})]) & {a: 2, b: 4}", "eval"),
    ]);
}

#[test]
fn a_schema_is_asked_about_a_value_without_its_other_validators() {
    table(&[
        ("a: matchN(0, [[]]) & matchN(0, [[...int]]) & []", "eval"),
        ("x: matchN(1, [{a: 1}, {b: 1}]) & matchN(1, [{a: 2}]) & {b: 2}", r#"{"x":{"b":2}}"#),
    ]);
}

#[test]
fn an_argument_of_a_validator_has_its_default() {
    table(&[
        ("import \"struct\"\nx: struct.MaxFields(*2 | _) & {}", r#"{"x":{}}"#),
        ("import \"struct\"\nx: struct.MaxFields(*0 | 3) & {a: 1}", "eval"),
    ]);
}

#[test]
fn a_constraint_that_comes_in_several_frames_is_one() {
    table(&[
        ("_f: {for k in [7, 1] {a: *1 | matchIf({}, _, 1)}}\nx: _f.a", r#"{"x":1}"#),
        ("_f: {for k in [7, 1] {a: <=6 | >=1}}\nx: _f.a & 9", r#"{"x":9}"#),
    ]);
}

#[test]
fn a_schema_that_is_computed_is_known_before_anything_is_matched_with_it() {
    table(&[
        ("y: matchIf(1, 1, <q) | 3\nq: *7 | int", "incomplete"),
        ("_q: int\ny: matchIf(1, 1, <_q) | 3", r#"{"y":3}"#),
        ("q: {}\ny: matchIf(1, 1, q.z) | 3", r#"{"q":{},"y":3}"#),
        ("y: matchIf(1, 1, 1 & 2) | int", "incomplete"),
        ("y: matchIf(1, 1 & 2, 1)", "eval"),
        ("y: matchIf(1, 1, 1 + \"a\") | 3", r#"{"y":3}"#),
        ("y: matchN(1, 1 & 2)", "eval"),
        ("y: matchIf(1, 1, {a: 1 & 2}) & int", "incomplete"),
        ("x: matchIf(1, >=x, 1)", "cycle"),
    ]);
}

#[test]
fn a_schema_that_leads_back_to_itself_ends_where_the_value_does() {
    table(&[
        ("#A: {a?: matchIf(null, _, #A)}\nx: #A & {a: a: null}", r#"{"x":{"a":{"a":null}}}"#),
        (
            "#A: {a?: matchIf(null, _, #A)}\nx: #A & {a: a: a: null}",
            r#"{"x":{"a":{"a":{"a":null}}}}"#,
        ),
        ("#A: {a?: matchIf(null, _, #A)}\nx: #A & {a: a: b: 1}", "eval"),
        ("#A: {a?: matchIf(int, <5, #A)}\nx: #A & {a: a: 3}", r#"{"x":{"a":{"a":3}}}"#),
        ("#A: {a?: matchIf(int, <5, #A)}\nx: #A & {a: a: 7}", "eval"),
        (
            "#A: {a?: matchIf({b!: int}, _, #A)}\nx: #A & {a: a: b: 1}",
            r#"{"x":{"a":{"a":{"b":1}}}}"#,
        ),
        ("#A: matchIf(null, _, {a?: #A})\nx: #A & {a: a: null}", r#"{"x":{"a":{"a":null}}}"#),
        ("#A: matchIf(null, _, {a?: #A})\nx: #A & {a: a: a: 3}", "eval"),
    ]);
}

#[test]
fn a_literal_that_embeds_a_schema_is_whatever_matches() {
    table(&[
        ("_a: {matchN(1, [>10])}\nb: _a & 12", r#"{"b":12}"#),
        ("a: *{matchN(1, [>10])} | 5\na: 12", r#"{"a":12}"#),
        ("a: {matchN(1, [>10])}", "incomplete"),
        ("a: {matchN(1, [int]), #d: 1}", "incomplete"),
        ("a: {if true {matchN(1, [int])}}\na: 3", r#"{"a":3}"#),
        ("a: {matchN(1, [{}]), if false {b: 1}}", r#"{"a":{}}"#),
        ("a: {matchN(1, [int]), if false {b: 1}}", "eval"),
        ("a: {matchN(1, [int]), x: 1}", "eval"),
    ]);
}

#[test]
fn a_guard_that_names_fields_is_one_of_a_struct() {
    table(&[
        ("a: {_, if false {b: 1}}", r#"{"a":{}}"#),
        ("_x: _\na: {_x, if false {b: 1}}", r#"{"a":{}}"#),
        ("a: {_, if false {5}}", "incomplete"),
        ("a: {_, for k in [] {\"\\(k)\": 1}}", "incomplete"),
    ]);
}

#[test]
fn a_schema_that_has_failed_or_waits_is_none() {
    for (text, expected) in [
        ("y: matchIf(1, 1, {if 1 {}})", Some(Class::Eval)),
        ("y: matchIf(1, {\"\\({})\": 1}, 1)", Some(Class::Eval)),
        ("y: matchIf({1, 2}, 1, 1)", Some(Class::Eval)),
        ("y: matchN(1, {if 1 {}})", Some(Class::Eval)),
        ("y: matchIf(1, 1, {a: 1 & 2})", None),
        ("y: matchN(1, [{if 1 {}}])", None),
        ("y: matchIf(1, 1, {if z {}})\nz: bool", None),
        // What has a name is whatever it is.
        ("s: 1 & 2\ny: matchIf(1, 1, s)", Some(Class::Eval)),
        ("y: matchIf(1, 1, s)\ns: {if 1 {}}", Some(Class::Eval)),
        ("s: {a: 1 & 2}\ny: matchIf(1, 1, s)", Some(Class::Eval)),
        ("s: {if z {a: 1}}\nz: bool\ny: matchIf(1, 1, s)", Some(Class::Incomplete)),
        ("y: matchIf(1, 1, s)\ns: z + 1\nz: int", Some(Class::Incomplete)),
        ("y: matchN(n, [int])\nn: 1 & 2", Some(Class::Eval)),
        // The order of evaluation says what is known of its fields.
        ("y: matchIf(1, 1, s)\ns: {a: 1 & 2}", None),
        ("y: matchIf(1, 1, s)\ns: {if z {a: 1}}\nz: bool", None),
        ("s: {if true {y: matchIf(1, 1, s)}, z: 1}\ny: s.y", None),
        ("y: matchIf(1, 1, {y})", None),
    ] {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let _ = evaluation.validate(root, false);
        let node = evaluation.lookup(root, "y").expect(text);
        let class = evaluation.describe(node).error.map(|e| e.class);
        assert_eq!(class, expected, "{text}");
    }
    table(&[("y: matchIf(1, 1, {if 1 {}}) | 5", r#"{"y":5}"#)]);
}

#[test]
fn a_schema_that_has_failed_matches_nothing() {
    table(&[
        ("x: matchN(1, [{#a: 1 & 2}]) & {}", "eval"),
        ("x: matchN(0, [{#a: 1 & 2}]) & {}", r#"{"x":{}}"#),
        ("x: matchN(1, [{_a: 1 & 2}, {}]) & {}", r#"{"x":{}}"#),
        ("x: matchN(1, [{b: {#a: {1, c: 0}}}]) & {b: {}}", "eval"),
        ("x: matchN(1, [{b?: 1 & 2}]) & {}", r#"{"x":{}}"#),
        ("x: matchIf({#a: 1 & 2}, {b: 1}, {b: 2}) & {b: 2}", r#"{"x":{"b":2}}"#),
        ("x: matchN(1, [{#a: 1}]) & {#a: 2}", r#"{"x":{}}"#),
    ]);
}

/// The kind that a field has, or the class of its error.
#[test]
fn a_validator_may_wait_for_what_it_compares_with() {
    use crate::{Limits, Packages, Program};
    let kind = |text: &str| {
        let text = format!(
            "import \"strings\"\nimport \"math\"\nn: int\n{text}\n_m: [math.Pi, strings.ToUpper(\"\")]"
        );
        let program = Program::compile("in.cue", &text, &Packages::std()).expect("it compiles");
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let node = evaluation.lookup(root, "x").expect("there is an x");
        match evaluation.error(node) {
            Some(errors) => errors.class().name().to_owned(),
            None => evaluation.kind(node).to_string(),
        }
    };
    for (text, expected) in [
        ("x: strings.MinRunes(n)", "string"),
        ("x: strings.MinRunes(>1)", "string"),
        ("m: *int | 2\nx: strings.MinRunes(m)", "string"),
        ("x: strings.MinRunes(n) | 5", "(int|string)"),
        ("x: math.MultipleOf(n) | 3", "number"),
        ("x: strings.MinRunes(n) & 7", "eval"),
        ("x: strings.MinRunes(n) & \"a\"", "incomplete"),
        ("m: 1 | 2\nx: strings.MinRunes(m)", "incomplete"),
        ("x: strings.MinRunes(n + 1)", "incomplete"),
        ("y: strings.MinRunes(n)\nx: y.a", "eval"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn a_condition_of_which_not_all_fields_are_known_is_neither_met_nor_unmet() {
    table(&[
        ("_z: bool\nx: matchIf({if _z {}}, 1, {}) & {}", "incomplete"),
        ("_z: bool\nx: matchIf({if _z {}, c: 1}, 1, {}) & {c: 2}", "incomplete"),
        ("_z: string\nx: matchIf({(_z): 1}, 1, {}) & {}", "incomplete"),
        ("_z: string\nx: matchIf({(_z): 1}, 1, 2) & 3", "incomplete"),
        ("_z: int\nx: matchIf({b: _z + 1}, 1, {}) & {b: 1}", r#"{"x":{"b":1}}"#),
        ("_z: bool\nx: matchIf({b: {if _z {}}}, 1, {}) & {b: {}}", r#"{"x":{"b":{}}}"#),
        ("_z: bool\nx: matchIf(3, {if _z {}}, {}) & {}", "incomplete"),
    ]);
}

#[test]
fn what_follows_from_a_condition_has_to_be_known_whether_it_is_met_or_not() {
    table(&[
        ("_c: matchIf(0, 0, {if _ {}}) & 0, x: _c", "incomplete"),
        ("x: matchIf(1, {a: 1, if _ {}}, 0) & 0", "incomplete"),
        ("x: matchIf(1, {a: 1, (_b): 1}, {}) & {a: 2}, _b: string", "incomplete"),
        ("x: matchIf(1, {a: 1, c: {if _b {}}}, {}) & {a: 2}, _b: bool", r#"{"x":{"a":2}}"#),
    ]);
}
