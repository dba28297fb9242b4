//! Rules about what a reference leads to: to all of a struct, whenever it is said, and to an error where a part of it has
//! failed.

use super::table;
use crate::{Limits, Packages, Program};

/// The class of the error that a field by itself exports with, or its value.
fn field(text: &str, name: &str) -> String {
    let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    // As for the reference, the fields are computed in their order.
    let _ = evaluation.validate(root, false);
    let node = evaluation.lookup(root, name).expect(text);
    match evaluation.export(node) {
        Ok(value) => value.to_json_text(),
        Err(errors) => errors.class().name().to_owned(),
    }
}

#[test]
fn a_struct_of_which_a_field_has_failed_is_an_error_where_it_is_computed_with() {
    for (text, expected) in [
        ("a: {b: 1 & 2}\nc: len(a)", "eval"),
        ("a: {b: 1 & 2}\nc: [for x in a {1}]", "eval"),
        ("a: {b: 1 & 2}\nc: a == {}", "eval"),
        ("a: [1 & 2]\nc: [for k, v in a {k}]", "eval"),
        ("a: {b: 1 & 2}\nc: *len(a) | 5", "5"),
        ("a: {b: int}\nc: len(a)", "1"),
        ("c: len(a)\na: {b: 1 & 2}", "1"),
    ] {
        assert_eq!(field(text, "c"), expected, "{text}");
    }
}

#[test]
fn what_a_field_gets_later_reaches_those_who_have_referred_to_it() {
    table(&[
        (
            "x: a: a: f: 1\nx: y.a\ny: a: a: e: 1\ny: x.a",
            r#"{"x":{"a":{"a":{"f":1},"e":1},"f":1},"y":{"a":{"a":{"e":1},"f":1},"e":1}}"#,
        ),
        (
            "x: {a: {a: {f: 1}}} & y.a\ny: {a: {a: {e: 1}}} & x.a",
            r#"{"x":{"a":{"a":{"f":1},"e":1},"f":1},"y":{"a":{"a":{"e":1},"f":1},"e":1}}"#,
        ),
        (
            "a: {c: b.d, c: {e: 1}} & b.f\nb: {d: {x: 1}, f: {c: {y: 1}}} & {d: a.c}",
            r#"{"a":{"c":{"x":1,"e":1,"y":1}},"b":{"d":{"x":1,"e":1,"y":1},"f":{"c":{"y":1}}}}"#,
        ),
    ]);
}

#[test]
fn what_a_struct_embeds_of_its_own_fields_is_selected_when_all_operands_are_there() {
    table(&[
        (
            "r: {m: *1 | 2, f: \"\\(m)\": {x: 1}, f[\"2\"]} & {m: 2}",
            r#"{"r":{"m":2,"f":{"2":{"x":1}},"x":1}}"#,
        ),
        (
            "_r: {m: *1 | 2, f: {if m == 2 {a: x: 1}}, f.a}\nr: _r & {m: 2}\n_r: m: 2",
            r#"{"r":{"m":2,"f":{"a":{"x":1}},"x":1}}"#,
        ),
        (
            "#R: {m: *1 | 2, f: {if m == 2 {a: x: 1}}, {f.a}}\nr: #R & {m: 2}",
            r#"{"r":{"m":2,"f":{"a":{"x":1}},"x":1}}"#,
        ),
        (
            "#D: {for k in [\"a\"] {f: \"\\(k)\": {out: 1}}, f: b: 1, f[\"a\"]}\nx: #D",
            r#"{"x":{"f":{"b":1,"a":{"out":1}},"out":1}}"#,
        ),
        ("#D: {#f: {a: 1}, #f.a}\nx: #D", r#"{"x":1}"#),
        ("#D: {#f: {a: 1}, #f.b}\nx: #D", "incomplete"),
    ]);
}

#[test]
fn what_is_made_of_the_struct_around_it_ends_where_nothing_more_is_selected() {
    table(&[
        (
            "_f: {in: {...}, out: [for k, v in in if v.show != _|_ {v}]}\nr: {self: show: true, o: (_f & {in: r}).out}",
            r#"{"r":{"self":{"show":true},"o":[{"show":true}]}}"#,
        ),
        (
            "_f: {in: {...}, out: [for k, v in in {k}]}\nr: {self: 1, o: (_f & {in: r}).out}",
            r#"{"r":{"self":1,"o":["self","o"]}}"#,
        ),
        ("a: {b: (a & {}).b}", "structural cycle"),
        ("x: {a: b: x}.a", "structural cycle"),
    ]);
}

#[test]
fn of_the_struct_that_a_let_is_written_in_and_names_nothing_is_known_yet() {
    table(&[
        ("a: {x: 1, let X = a, for k, v in X {\"\\(k)\": v}}", "incomplete"),
        ("a: {x: 1, let X = a, c: len(X)}", "incomplete"),
        ("a: {x: 1, let X = a, c: \"\\(X)\"}", "incomplete"),
        ("a: {x: 1, let X = a, if X {}}", "incomplete"),
        ("a: {x: 1, let X = a, c: X}", "structural cycle"),
        ("a: {x: 1, let X = a, c: *X | 1}", r#"{"a":{"x":1,"c":1}}"#),
        (
            "a: {x: 1, b: {let X = a, for k, v in X {\"\\(k)\": 1}}}",
            r#"{"a":{"x":1,"b":{"x":1,"b":1}}}"#,
        ),
    ]);
}

#[test]
fn a_definition_that_is_anything_closes_all_the_same() {
    table(&[
        ("#A: _\nl: #A\nl: f: \"hi\"", r#"{"l":{"f":"hi"}}"#),
        ("#A: _\nl: #A & {f: 1}\nm: l & {g: 1}", r#"{"l":{"f":1},"m":{"f":1,"g":1}}"#),
    ]);
}

#[test]
fn what_is_selected_from_a_field_by_its_own_alternatives_is_tried_with_each() {
    table(&[
        ("d: 3 | 1\nd: d[0]", "eval"),
        ("d: d.a\nd: 3 | 1", "eval"),
        ("d: *3 | 1\nd: d.a + 1", "eval"),
        ("d: 3 | 1\nd: e\ne: d.a", "eval"),
        ("d: 3 | {a: 3}\nd: d.a", "eval"),
        ("d: 3 | {}\nd: d.a", "incomplete"),
        ("d: 3 | {a: {b: 1}}\nd: d.a", r#"{"d":{"a":{"b":1},"b":1}}"#),
        ("d: 3 | 1\nc: d[0]", "incomplete"),
    ]);
}

#[test]
fn what_an_expression_makes_may_contain_itself_where_that_is_not_selected() {
    table(&[
        ("a: {p: {x: p, y: 1}}.p.x.y", r#"{"a":1}"#),
        ("a: {p: {x: p, y: 1}}.p.x.x.y + 1", r#"{"a":2}"#),
        ("a: {p: {x: p & {}, y: 1}}.p.x.y", r#"{"a":1}"#),
        ("a: {p: {x: {p}, y: 1}}.p.x.y", r#"{"a":1}"#),
        ("a: {p: {x: p, x: {z: 1}, y: 1}}.p.x.x.z", r#"{"a":1}"#),
        ("a: ({p: {x: p, y: int}} & {p: y: 2}).p.x.y", r#"{"a":2}"#),
        ("a: {p: {x: p, y: 1}}.p", "structural cycle"),
        ("a: {p: {x: p, y: 1}}.p.x", "structural cycle"),
        ("a: {p: {x: {p}, y: 1}}.p", "structural cycle"),
        ("a: {p: {x: p, x: {z: 1}, y: 1}}.p", "structural cycle"),
        ("a: {p: {x: p, y: 1}}", "structural cycle"),
        ("#F: {n: int, out: (#F & {n: n - 1}).out}\na: (#F & {n: 3}).out", "structural cycle"),
    ]);
}

#[test]
fn a_field_that_takes_over_what_a_comprehension_declares_is_declared_by_it() {
    let of_x = |text: &str| format!("{text}\n_x: {{if true {{f: a: 1}}}}");
    for (text, expected) in [
        ("e?: _x.f & {b: 1}", r#"{"e":{"a":1,"b":1}}"#),
        ("e?: {_x.f, b: 1}", r#"{"e":{"b":1,"a":1}}"#),
        ("e?: {b: 1}\ne?: _x.f", r#"{"e":{"b":1,"a":1}}"#),
        ("e?: _x.f.a & int", r#"{"e":1}"#),
        ("e!: _x.f.a & int", r#"{"e":1}"#),
        ("e?: g & int\ng: _x.f.a", r#"{"e":1,"g":1}"#),
        ("e?: g & int\ng: _x.f.a & int", r#"{"e":1,"g":1}"#),
        ("e?: _x.f & {b: 1}\nc: e.b", r#"{"e":{"a":1,"b":1},"c":1}"#),
        ("e?: _x.f & {b: 1}\nc: e != _|_", r#"{"e":{"a":1,"b":1},"c":true}"#),
        // Nothing but the reference, one of several alternatives, or more than it.
        ("e?: _x.f", "{}"),
        ("e?: *_x.f | 2", "{}"),
        ("e?: _x & {b: 1}", "{}"),
    ] {
        table(&[(&of_x(text), expected)]);
    }
    table(&[
        ("if true {f: 1, {e?: f & 1}}", r#"{"f":1,"e":1}"#),
        ("a?: {if true {_g, _g: 1}}", r#"{"a":1}"#),
        ("e?: _x.f & int\n_x: {if true {if true {f: 1}}}", r#"{"e":1}"#),
        ("e?: _x.f & int\n_x: {if true {f!: 1}, f: int}", "incomplete"),
        ("e?: _x.f & int\n_x: {if true {f?: 1}, f: int}", "{}"),
        ("e?: _x.f & int\n_x: {if true {{f: 1}}, f: int}", "{}"),
        ("e?: _x.f & int\n_x: {if false {f: 1}, f: int}", "{}"),
        ("e?: _x.f.a & int\n_x: {if true {f: {a: 1} & {c: 1}}}", "{}"),
    ]);
}

#[test]
fn a_circle_goes_round_once_more_for_whatever_else_is_said_of_the_field() {
    table(&[
        ("F: {ref: 1 | F, ref: _}", "incomplete"),
        ("F: {ref: 1 | F}", r#"{"F":{"ref":1}}"#),
        ("F: {ref: 1 | F} & {ref: _}, x: F & {ref: ref: 1}", "incomplete"),
        ("#F: {ref: 1 | #F, [_]: _}, x: #F.ref", "incomplete"),
        ("a: {n: a, n: _}", "structural cycle"),
    ]);
}

#[test]
fn what_a_struct_is_said_to_be_cannot_be_selected_from_itself() {
    table(&[
        ("x: {a: 1}, x: (x & {}).b", "incomplete"),
        ("x: {a: {}}, x: (x & {}).a", "incomplete"),
        ("x: {z: 1}, X=x: (X & {}).z & {y: 1}", "incomplete"),
        ("x: {z: 1}, X=x: (X & {}).z & {z: 0}", "eval"),
        ("x: {a: 1 & 2}, x: (x & {}).b", "eval"),
        ("x: {a: {}}, x: {(x & {}).a}", "structural cycle"),
        ("x: {a: {}}, x: x.a", r#"{"x":{"a":{}}}"#),
    ]);
}
