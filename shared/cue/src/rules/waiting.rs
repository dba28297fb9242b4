//! Rules about what has to be known first: alternatives before they are chosen, guards before what they declare,
//! a struct before it is calculated with.

use super::table;
use crate::{Class, Limits, Packages, Program, Value};

#[test]
fn what_asks_for_a_field_is_known_before_its_alternatives_are_chosen() {
    table(&[
        ("d: *7 | 8\nd: >=d", "cycle"),
        ("d: 7\nd: <=d", r#"{"d":7}"#),
        ("f: 0 + f\nf: 1", r#"{"f":1}"#),
        ("a: b & (1 | 2)\nb: a + 0", "cycle"),
        ("a: b & (*1 | 2)\nb: >=a", "cycle"),
        ("a: b & (*1 | 2)\nb: a", r#"{"a":1,"b":1}"#),
        ("a: *1 | b\nb: a + 1", r#"{"a":1,"b":2}"#),
        ("x: *1 | 2\ny: {z: x + 0}\nx: y.z", "cycle"),
        ("b: [] | {}\nb: b + 1", "cycle"),
        ("b: [1] | {a: 1}\nc: b + 1", "incomplete"),
        ("b: *[1] | {a: 1}\nc: len(b) + 1", r#"{"b":[1],"c":2}"#),
        ("x: *1 | 2\ny: {z: x}\nx: y.z", r#"{"x":1,"y":{"z":1}}"#),
        ("x: *3 | 4\nx: [if x > 1 {3}, 3][0]", "cycle"),
    ]);
}

#[test]
fn choices_that_test_each_other_wait_for_each_other() {
    table(&[
        ("f: 0 | 1\nf: !=b\nb: 0 | 1\nb: !=f", "cycle"),
        ("f: *0 | 1\nf: !=b\nb: *0 | 1\nb: !=f", "cycle"),
        ("f: 0 | 1\nf: >b\nb: 0 | 1\nb: <f", "cycle"),
        ("f: 0 | 1\nf: !=b\nb: 0 | 1\nb: !=f\nb: 0", r#"{"f":1,"b":0}"#),
        ("f: 0 | 1\nf: !=b\nb: 0 | 1\nb: !=f\nf: 0", r#"{"f":0,"b":1}"#),
        ("f: 0 | 1\nf: !=b\nb: *0 | 1", r#"{"f":1,"b":0}"#),
        ("f: 0 | 1\nf: !=b\nb: 0 | 1", "incomplete"),
    ]);
}

#[test]
fn what_fails_with_every_alternative_does_not_wait_for_the_choice() {
    table(&[
        ("x: 7 | *2\nx: >x & (1 + \"a\")", "eval"),
        ("x: 7 | *2\nx: >x\nx: 1 + \"a\"", "eval"),
        ("x: 7 | *2\nx: >x\nx: \"a\"", "eval"),
        ("x: 7 | *2\nx: >x", "cycle"),
        ("x: 7 | *2\nx: >x\nx: y + 1\ny: int", "cycle"),
    ]);
}

#[test]
fn a_guard_waits_for_the_alternatives_of_a_field_that_it_declares() {
    table(&[
        ("f: *true | false\nif f {f: true}", "cycle"),
        ("f: *true | 7\nif f {g: true}", r#"{"f":true,"g":true}"#),
        ("f: true\nif f {f: true}", r#"{"f":true}"#),
        ("f: 1 | 1\nif f > 0 {f: 1}", "cycle"),
        ("f: (1 | 2) & 1\nif f > 0 {f: 1}", r#"{"f":1}"#),
        ("x: {f: *1 | int}\nif x.f == 1 {x: f: 1}", "cycle"),
        ("x: {f: *1 | int}\nif x.f == 1 {x: g: 1}", r#"{"x":{"f":1,"g":1}}"#),
        ("x: {a: *1 | 2, if a == 1 {a?: int}}", "cycle"),
        ("x: {a: *1 | 2, if a == 1 {b: a: 1}}", r#"{"x":{"a":1,"b":{"a":1}}}"#),
        ("x: {a: *1 | 2, if b == 1 {a: 1}, b: a + 0}", "cycle"),
    ]);
}

#[test]
fn who_asks_for_a_field_that_an_undecided_guard_declares_waits_for_the_guard() {
    table(&[
        ("y: \"a\"\n(y): 1\nif #C > 1 {y: \"a\"}\n#C: int", "incomplete"),
        ("y: 1\n#z: !y\n#C: int\nif #C > 1 {y: 1}", "incomplete"),
        ("#y: {a: 1}\n#z: #y.a & 2\n#C: int\nif #C > 1 {#y: b: 1}", "eval"),
        ("#y: {a: 1}\n#z: #y.a & 2\n#C: int\nif #C > 1 {#y: {}}", "incomplete"),
        ("a: #A\nx: a.y\nif _ {a: 1}\n#A: {}", "incomplete"),
        ("a: #A\nx: a.y\nif _ {_}\n#A: {}", "eval"),
    ]);
}

#[test]
fn a_struct_that_is_put_together_is_a_struct_for_its_own_guards() {
    table(&[
        ("x: X={if X {f: 1}}", "eval"),
        ("x: {if !x {b: 1}}", "eval"),
        ("x: {if x > 1 {b: 1}}", "eval"),
        ("x: {if x[0] {b: 1}}", "eval"),
        ("#A: y: {if y[0] {b: 1}}", "eval"),
        ("x: {if x[0] {}}", "incomplete"),
        ("x: {if x.a {b: 1}}", "incomplete"),
    ]);
}

#[test]
fn a_field_waits_for_the_guard_that_declares_it_but_not_for_what_is_in_its_body() {
    let class_of_y = |text: &str| {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let _ = evaluation.validate(root, false);
        let y = evaluation.lookup(root, "y").expect(text);
        evaluation.describe(y).error.map(|e| e.class)
    };
    for (text, expected) in [
        ("y: 1\nif _ {y: 1}", Some(Class::Incomplete)),
        ("y: 1\nif _ if true {y: 1}", Some(Class::Incomplete)),
        ("y: 1\nfor v in _ {y: 1}", Some(Class::Incomplete)),
        ("y: 1\nif _ {if true {y: 1}}", None),
        ("y: 1\nif _ {z: 1, if true {y: 1}}", None),
        ("y: {}\nfor v in _ {if true {y: {}}}", None),
        ("y: {a: 1, b: 1}\nif _ {y: {b: 1}}", None),
        ("y: {a: 1, b: 1}\nif _ {y: {b: 1, if true {a: 1}}}", Some(Class::Incomplete)),
    ] {
        assert_eq!(class_of_y(text), expected, "{text}");
    }
}

/// The older evaluator finds a cycle in most of these.
#[test]
fn what_a_guard_adds_to_a_field_goes_to_those_who_have_taken_it_over() {
    let both = r#"{"a":1,"c":2}"#;
    for (b, guard) in
        [("z & {}", "b.a > 0"), ("z & {}", "#y"), ("{z}", "b.a > 0"), ("{{z}, a: int}", "b.a > 0")]
    {
        let text = format!("b: {b}\nif {guard} {{z: c: 2}}\nz: a: 1\n#y: b.a > 0");
        table(&[(text.as_str(), format!(r#"{{"b":{both},"z":{both}}}"#).as_str())]);
    }
    table(&[
        (
            "b: z & {}\nif b.a > 0 {#q}\nz: a: 1\n#q: z: c: 2",
            r#"{"b":{"a":1,"c":2},"z":{"a":1,"c":2}}"#,
        ),
        (
            "b: [z & {}]\nif b[0].a > 0 {z: c: 2}\nz: a: 1",
            r#"{"b":[{"a":1,"c":2}],"z":{"a":1,"c":2}}"#,
        ),
        ("b: z & {}\nif b.a > 0 {z: a: 2}\nz: a: 1", "eval"),
        ("b: z & {}\nif b.a > 0 {z: a: 1}\nz: a: >0", "incomplete"),
    ]);
}

#[test]
fn what_is_said_without_a_guard_counts_before_the_guard_is_decided() {
    let with = |text: &str| format!("{text}\ny: bool");
    for (text, expected) in [
        ("x: {b: z & 2, if y {z: 1}, z: 1}", "eval"),
        ("x: {b: z, b: \"a\", if y {z: 1}, z: 1}", "eval"),
        ("x: {b: {z, c: 1}, if y {z: 1}, z: 1}", "eval"),
        ("x: {{z}, if y {z: 1}, z: 1}", "eval"),
        ("x: {z.a, if y {z: {a: 1}}, z: a: 1}", "eval"),
        ("if y {z: 1}\n{z}\nz: 1", "eval"),
        ("x: {b: {z}, if y {z: 1}, z: 1}", "incomplete"),
        ("x: {b: z & {}, if y {z: {}}, z: {a: 1}}", "incomplete"),
    ] {
        table(&[(&with(text), expected)]);
    }
}

#[test]
fn the_names_in_a_struct_are_computed_before_its_fields_are_judged() {
    let fields = |text: &str| {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let b = evaluation.lookup(root, "b").expect(text);
        let arcs = evaluation.describe(b).arcs;
        arcs.into_iter().map(|arc| arc.label.to_string()).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("b: {\"x\\(a)\": 1, a: 3, a: z + 1}", vec!["x3", "a"]),
        ("b: {\"x\\(a)\": 1, a: c, c: 3, c: z + 1}", vec!["x3", "a", "c"]),
        ("b: {\"x\\(b.a)\": 1, a: 3, a: z + 1}", vec!["x3", "a"]),
        ("b: {\"x\\(a)\": 1, a: int, a: z + 1}", vec!["a"]),
        // What is not part of the struct has to be known.
        ("b: {\"x\\(a)\": 1}\na: 3\na: z + 1", vec![]),
        // And what is taken for the name itself.
        ("b: {(a): 1, a: \"c\", a: \"\\(z)\"}", vec!["a"]),
        ("b: {(b.a): 1, a: \"c\", a: \"\\(z)\"}", vec!["a"]),
        ("b: {(a): 1, a: 3, a: z + 1}", vec!["a"]),
        ("b: {(a + \"e\"): 1, a: \"c\", a: \"\\(z)\"}", vec!["ce", "a"]),
        ("b: {(\"\\(a)\"): 1, a: \"c\", a: \"\\(z)\"}", vec!["c", "a"]),
        ("b: {(a): 1, a: \"c\", a: !=\"\"}", vec!["c", "a"]),
    ] {
        let text = format!("{text}\nz: int");
        let mut fields = fields(&text);
        fields.sort();
        let mut expected = expected;
        expected.sort();
        assert_eq!(fields, expected, "{text}");
    }
}

#[test]
fn a_guard_that_declares_what_it_has_tested_is_asked_again() {
    table(&[
        ("c: {a?: 2, if a == _|_ {a: 1}}", "eval"),
        ("c: {a?: 1, if a == _|_ {a: 1}}", "cycle"),
        ("c: {a?: int, if !(a != _|_) {a: int}}", "cycle"),
        ("a?: 1\nif a == _|_ {a: 1}", "cycle"),
        ("c: {a?: 1, if a.z == _|_ {a: _}}", r#"{"c":{"a":1}}"#),
        ("c: {a?: {y: 1}, if a.z == _|_ {a: x: 1}}", r#"{"c":{"a":{"y":1,"x":1}}}"#),
        ("c: {a?: {y: 1}, if a.z == _|_ {a: z: 1}}", "cycle"),
        ("c: {a?: int, if a == _|_ {a: z + 1}}\nz: int", "incomplete"),
        ("c: {a?: {}, if a == _|_ {a: b: z + 1}}\nz: int", "cycle"),
        ("c: {a?: {}, if a == _|_ {a: b: 1 & 2}}", "eval"),
        ("c: {a?: 1, if a == _|_ {a: 1}, d: 3}\nx: c.d", "cycle"),
        ("d: {a?: 1, if a == _|_ {a: 1}}\nd: a: int", r#"{"d":{"a":1}}"#),
        ("#P: {a?: int, if a == _|_ {a: 3}}\nd: #P & {a: 4}", r#"{"d":{"a":4}}"#),
        ("d: {a?: 2, if a == _|_ {a: 1}} | 3", r#"{"d":3}"#),
        ("a?: 1\nb?: 1\nif a == _|_ {b: 1}\nif b == _|_ {a: 1}", r#"{"b":1}"#),
        ("c: {a?: int, if a == _|_ for x in [1] {a: x}}", "cycle"),
        ("c: {a?: 2, if a == _|_ let x = 1 {a: x}}", "eval"),
        // In a loop it is asked once for each round, before anything is added.
        ("c: {a?: 2, for x in [1] if a == _|_ {a: 2}}", r#"{"c":{"a":2}}"#),
        ("c: {a?: int, for x in [1, 2] if a == _|_ {a: 1}}", r#"{"c":{"a":1}}"#),
        ("c: {a?: int, for x in [1, 2] if a == _|_ {a: x}}", "eval"),
    ]);
}

/// The older evaluator finds a cycle in these.
#[test]
fn a_field_that_waits_for_the_struct_it_is_of_leaves_the_struct_unknown() {
    table(&[
        ("x: {b: x > 1}", "incomplete"),
        ("x: {a: {b: x.a > 1}}", "incomplete"),
        ("x: [x > 1]", "incomplete"),
        ("x: {b: !x}", "eval"),
    ]);
}

#[test]
fn a_loop_goes_through_what_is_there_before_it_waits_for_what_is_required() {
    table(&[
        ("#A: {e!: 1, a: 1}\nfor k in #A {}", "incomplete"),
        ("#A: {e!: 1, a: 1}\nfor k in #A if 1 {}", "eval"),
    ]);
}

#[test]
fn what_is_selected_from_a_struct_that_has_failed_fails() {
    table(&[
        ("#y: {f: 1, e: 1 & 2}\nx: #y.f | 3", "eval"),
        ("c: {b: 1 & 2}\nf: c & {}\nx: f.g", "eval"),
    ]);
}

#[test]
fn what_is_selected_from_arithmetic_waits_for_its_value() {
    table(&[
        ("x: *b.f | 3\nb: 1 mod 0", "eval"),
        ("a: b.f\nb: 1 / 0", "eval"),
        ("x: [if b.f != _|_ {1}, 2][0]\nb: 1 + 1", r#"{"x":2,"b":2}"#),
        ("x: b.f\nb: 1 + 1", "eval"),
        ("x: b.f\nb: y + 1\ny: int", "incomplete"),
        ("x: b.#f\nb: {1 + 1, #f: 3}", r#"{"x":3,"b":2}"#),
    ]);
}

#[test]
fn a_name_that_depends_on_what_names_there_are_is_computed_last() {
    table(&[
        ("(\"\\(d != _|_)\"): 0\nd?: 1", r#"{"false":0}"#),
        ("d?: 1\n([if d.e != _|_ {\"a\"}, \"b\"][0]): 0", r#"{"b":0}"#),
        ("x: {(\"\\(x.d == _|_)\"): 0}", r#"{"x":{"true":0}}"#),
        ("x: {(\"\\(x.d == _|_)\"): 0, (y): 1, y: \"d\"}", r#"{"x":{"y":"d","d":1,"false":0}}"#),
        ("x: {(\"\\(x.d == _|_)\"): 0, if true {d: 1}}", r#"{"x":{"d":1,"false":0}}"#),
        ("x: {([if x.d != _|_ {\"x\"}, \"d\"][0]): 0}", "incomplete"),
        ("x: {(\"\\(x.d)\"): 0}", "incomplete"),
    ]);
}

#[test]
fn of_what_a_struct_waits_for_the_unknown_counts_more_than_a_circle() {
    table(&[
        ("if _ {}\n(g): 0\ng: g + 1", "incomplete"),
        ("(g): 0\nif _ {}\ng: g + 1", "incomplete"),
        ("(g): 0\n(h): 1\ng: g + 1\nh: string", "incomplete"),
        ("if g > 1 {}\nif h > 1 {}\ng: g + 1\nh: int", "incomplete"),
        ("if g > 1 {}\nif g > 2 {}\ng: g + 1", "cycle"),
    ]);
}

#[test]
fn what_is_required_counts_before_what_the_fields_wait_for() {
    table(&[
        ("e: e + e\ny!: 1", "incomplete"),
        ("a: {e: e + e}\ny!: 1", "incomplete"),
        ("e: e + e\na: {y!: 1}", "cycle"),
        ("e: e + e\nz: int", "cycle"),
        ("e: e + e\n_y!: 1", "incomplete"),
        ("e: 1 & 2\ny!: 1", "eval"),
    ]);
}

#[test]
fn a_closed_struct_has_no_field_whose_name_no_pattern_matches() {
    table(&[
        ("#B: {[=~\"^a\"]: 1}\nx: #B.f", "eval"),
        ("#B: {[=~\"^a\"]: 1}\nx: #B.ab", "incomplete"),
        ("#B: {[y]: 1}\nx: #B.f\ny: \"g\"", "eval"),
        ("#B: {[y]: 1}\nx: #B.f\ny: string", "incomplete"),
    ]);
}

#[test]
fn what_is_a_scalar_by_default_has_no_elements() {
    table(&[
        ("e: 7 | *1\nf: e[0]", "eval"),
        ("e: 7 | 1\nf: e[0]", "incomplete"),
        ("import \"list\"\nl: list.MinItems(1)\nf: l[0]", "eval"),
    ]);
}

#[test]
fn the_default_of_a_choice_of_functions_can_be_called() {
    table(&[
        ("q: (*div | _)(7, 3)", r#"{"q":2}"#),
        ("q: (div | mod)(7, 3)", "eval"),
        ("import \"strings\"\nq: (*strings.Join | _)([\"a\"], \"\")", r#"{"q":"a"}"#),
        ("import \"strings\"\nq: (*strings.Join | _)(1, 1)", "eval"),
        ("import \"math\"\nq: {let f = math.Pow, v: *f | _}.v(2, 3)", r#"{"q":8}"#),
    ]);
}

#[test]
fn a_conflict_counts_more_than_a_bottom_that_is_written() {
    table(&[
        ("x: 1 & 2 & _|_", "eval"),
        ("x: _|_ & 1 & 2", "eval"),
        ("x: {if _|_ {}, if 1 {}}", "eval"),
        ("x: _|_(1)", "eval"),
        ("x: _|_ & 1", "user"),
    ]);
}

#[test]
fn a_test_of_a_struct_that_encloses_it_waits_for_itself() {
    table(&[
        ("x: {a: 1, b: x == _|_}", "cycle"),
        ("x: {a: 1, b: \"\\(x != _|_)\"}", "cycle"),
        ("x: {a: {b: {c: x != _|_}}}", "cycle"),
        ("x: {a: {c: 1, if x.a == _|_ {b: 1}}}", "cycle"),
        ("x: {a: [x != _|_]}", "cycle"),
        ("x: {a: 1, b: x.a != _|_}", r#"{"x":{"a":1,"b":true}}"#),
        ("x: X={if X.a != _|_ {b: 1}}", r#"{"x":{}}"#),
        ("x: {a: 1}, b: x != _|_", r#"{"x":{"a":1},"b":true}"#),
    ]);
}

#[test]
fn a_guard_that_tests_a_struct_adds_no_fields_to_it() {
    table(&[
        ("x: {if b != _|_ {b: c: 1}, b: {d: 1}}", "cycle"),
        ("x: {if b == _|_ {b: c: 1}, b: {}}", "cycle"),
        ("if x != _|_ {x: y: 1}, x: {z: 1}", "cycle"),
        ("x: {if b != _|_ {b: 1}, b: 1}", r#"{"x":{"b":1}}"#),
        ("x: {if b.d != _|_ {b: e: 1}, b: {d: 1}}", r#"{"x":{"b":{"d":1,"e":1}}}"#),
        ("x: {if b != _|_ {c: 1}, b: {d: 1}}", r#"{"x":{"b":{"d":1},"c":1}}"#),
    ]);
}

#[test]
fn a_let_that_names_a_struct_around_it_can_be_selected_from() {
    table(&[
        ("a: {b: 1, let X = a, c: X.b}", r#"{"a":{"b":1,"c":1}}"#),
        ("a: {b: 1, let X = a, c: X[\"b\"]}", r#"{"a":{"b":1,"c":1}}"#),
        ("a: {b: 1, d: {let X = a, c: X.b}}", r#"{"a":{"b":1,"d":{"c":1}}}"#),
        ("a: {b: {d: 1}, let X = a, c: X.b.d + 1}", r#"{"a":{"b":{"d":1},"c":2}}"#),
        ("a: {b: {d: 1}, let X = a, let Y = X.b, c: Y.d}", r#"{"a":{"b":{"d":1},"c":1}}"#),
        ("a: {b: 1, let X = a, if X.b == 1 {c: 2}}", r#"{"a":{"b":1,"c":2}}"#),
        ("a: {b: 1, let X = a, if X.c == _|_ {d: 2}}", r#"{"a":{"b":1,"d":2}}"#),
        ("#A: A={b: int, let X = A, c: X.b}\nx: #A & {b: 1}", r#"{"x":{"b":1,"c":1}}"#),
        ("#A: {b: 1 | 2, let X = #A, c: X.b}\nx: #A & {b: 1}", "incomplete"),
        ("a: {b: 1, let X = a, c: X.z}", "incomplete"),
        ("a: {b: 1, let X = a, c: X}", "structural cycle"),
    ]);
}

#[test]
fn a_struct_is_not_there_for_a_list_or_struct_that_an_expression_in_it_selects_from() {
    table(&[
        ("x: {a: 1, b: [if x != _|_ {1}, 2][0]}", r#"{"x":{"a":1,"b":2}}"#),
        ("x: {a: 1, b: [if x == _|_ {1}, 2][0]}", r#"{"x":{"a":1,"b":1}}"#),
        ("x: {a: 1, b: \"\\([if x != _|_ {1}, 2][0])\"}", r#"{"x":{"a":1,"b":"2"}}"#),
        ("x: X={a: 1, b: c: [if X != _|_ {1}, 2][0]}", r#"{"x":{"a":1,"b":{"c":2}}}"#),
        ("x: {a: 1, b: [if x.a != _|_ {1}, 2][0]}", r#"{"x":{"a":1,"b":1}}"#),
        ("x: {a: 1, b: {if x != _|_ {c: 1}, d: 1}.c}", "incomplete"),
        ("#B: X={y: [if X != _|_ {X}][0]}", "eval"),
        ("x: {a: 1}, b: [if x != _|_ {1}, 2][0]", r#"{"x":{"a":1},"b":1}"#),
    ]);
}

#[test]
fn a_test_of_a_required_field_that_is_not_given_is_a_cycle_of_the_struct_around_the_test() {
    table(&[
        ("f!: [7]\nc: f != _|_", "cycle"),
        ("f!: {}\nc: f == _|_", "cycle"),
        ("a: f!: [7]\nc: a.f != _|_", "cycle"),
        ("f!: [7]\nc: !(f != _|_)", "cycle"),
        ("o: {if p.b == _|_ {d: 1}}\np: {b!: {}}", "cycle"),
        ("o: {if p.b == _|_ {d: b: {7, b: 0}}}\np: {b!: {}}", "eval"),
        ("o: {if p.b != _|_ {d: b: {7, b: 0}}}\np: {b!: {}}", "cycle"),
        ("o: {if p.b == _|_ {d: [].y}}\np: {b!: {}}", "eval"),
        ("_p: {b!: {}}\n_o: {if _p.b == _|_ {d: 1}}\nx: *_o | 3", r#"{"x":3}"#),
        ("_p: {b!: {}}\n_o: {if _p.b == _|_ {d: 1}}\nx: *_o.d | 3", r#"{"x":3}"#),
        ("x: {a: f == _|_}.a\nf: _\nf!: [7]", r#"{"x":false,"f":[7]}"#),
        ("f!: 7\nc: f != _|_", "incomplete"),
        ("f!: {a: 1}\nc: f.a != _|_", "incomplete"),
        ("f!: [7]\nx: [if f != _|_ {1}, 2][0]", "incomplete"),
        ("a: {f!: [7], x: [if f != _|_ {1}, 2][0]}\na: f: _\n", r#"{"a":{"f":[7],"x":1}}"#),
        ("#A: {f!: [...], c: f != _|_}\ny: #A & {f: []}", r#"{"y":{"f":[],"c":true}}"#),
    ]);
}

/// The older evaluator finds a structural cycle in these.
#[test]
fn a_field_that_is_selected_from_a_unification_with_itself_adds_nothing_to_it() {
    table(&[
        ("y: (y & {}).x", "incomplete"),
        ("y: (y & {}).x\nif y.c {y: 1}", "incomplete"),
        ("a: (a & {y: 1}).y", "eval"),
        ("#C: (#C & {}).e\nz: 7 & 1", "eval"),
        ("y: (y & {x: {z: 1}}).x", r#"{"y":{"z":1}}"#),
        ("y: X=(X & {}).x\nz: 7 & 1", "eval"),
        ("e: {out: 1 & e}.out", r#"{"e":1}"#),
        ("a: {b: (a & {}).b}", "structural cycle"),
    ]);
}

#[test]
fn what_refers_to_a_field_that_needs_it_is_a_circle_whatever_kind_the_field_is_of() {
    table(&[
        ("c: string & \"v\\(f)\"\nf: c", "cycle"),
        ("c: !=\"a\" & \"v\\(f)\"\nf: c", "cycle"),
        ("c: int\nc: f + 1\nf: c", "cycle"),
        ("c: >1 & (f + 1)\nf: c", "cycle"),
        ("c: int & (f + 1)\nf: c\nc: 3\nf: 2", "eval"),
        ("c: int & (f + 1)\nf: 2", r#"{"c":3,"f":2}"#),
    ]);
}

#[test]
fn what_was_left_undecided_has_no_fields_for_what_comes_later() {
    table(&[
        ("_x: {y: bool, if y {a: 1}, b: 2}\nc: _x.b", "incomplete"),
        ("c: _x.b\n_x: {y: bool, if y {a: 1}, b: 2}", r#"{"c":2}"#),
        ("_x: {y: bool, if y {a: 1}, b: 2}\nc: *_x.b | 4", r#"{"c":4}"#),
        ("_x: {y: bool, if y {a: 1}, b: 2}\nc: _x.b != _|_", r#"{"c":false}"#),
        ("_x: {y: string, (y): 1, b: d: 2}\nc: _x.b.d", "incomplete"),
        ("_x: z: {y: bool, if y {a: 1}, b: 2}\nc: _x.z.b", "incomplete"),
        ("_x: {y: bool, if y {a: 1}, b: 2}\n_z: _x & {}\nc: _z.b", "incomplete"),
        ("_x: {y: bool, if y {a: 1}, b: 2}\nc: (_x & {y: true}).b", r#"{"c":2}"#),
        ("_x: {y: int, z: y + 1, b: 2}\nc: _x.b", r#"{"c":2}"#),
        ("_x: {z: {y: bool, if y {a: 1}}, b: 2}\nc: _x.b", r#"{"c":2}"#),
        (
            "#x: {y: bool, if y {a: 1}, b: d: 2, e: b.d}\nc: #x & {y: true}",
            r#"{"c":{"y":true,"b":{"d":2},"e":2,"a":1}}"#,
        ),
        ("#x: {y: bool, if y {a: 1}, b: 2, e: #x.b}\nc: #x & {y: true}", "incomplete"),
    ]);
}

#[test]
fn what_a_loop_has_seen_of_a_struct_gets_no_more_fields_from_it() {
    table(&[
        ("a: {x: {y: 1}, for k, v in a if len(v) > 0 {(k): {z: 1}}}", "eval"),
        ("a: {x: {y: 1}, for k, v in a if len(v) > 0 {(k): {y: 1}}}", r#"{"a":{"x":{"y":1}}}"#),
        ("a: {x: {y: 1}, for k, v in a if v.y > 0 {(k): {z: 1}}}", r#"{"a":{"x":{"y":1,"z":1}}}"#),
        ("a: {x: {y: 1}, for k, v in a for l, w in v {(k): (l + \"q\"): 1}}", "eval"),
        ("a: {x: {y: 1}, if len(x) > 0 {(\"x\"): z: 1}}", "eval"),
        ("x: {y: 1}, for k, v in x {x: \"\\(k)q\": 1}", "eval"),
        // What others add is there before.
        (
            "x: a: 1, for k, v in x {\"\\(k)\": 1}, for k in [\"p\"] {x: (k): 1}",
            r#"{"x":{"a":1,"p":1},"a":1,"p":1}"#,
        ),
    ]);
}

#[test]
fn a_struct_that_is_calculated_with_by_another_name_waits_for_itself() {
    table(&[
        ("e: {x: 1}\nb: e\ne: b + 1", "cycle"),
        ("e: {x: 1}\nb: c\nc: e\ne: \"a\" + b", "cycle"),
        ("e: {x: 1}\nb: e\ne: !b", "cycle"),
        ("e: {x: 1}\nb: e\ne: >b", "cycle"),
        ("e: {x: 1, if b {}}\nb: e", "cycle"),
        ("e: {x: 1}\ne: -e", "eval"),
        ("e: [1]\nb: e\ne: -b", "eval"),
        ("e: {x: true, if b.x {y: 1}}\nb: e", r#"{"e":{"x":true,"y":1},"b":{"x":true,"y":1}}"#),
    ]);
}

#[test]
fn what_may_be_a_scalar_cannot_be_gone_through_by_what_declares_it() {
    table(&[
        ("x: 1 | 2\nfor k, v in x {x: 1}", "eval"),
        ("x: 1 | 1\nfor k, v in x {x: 1}", "eval"),
        ("x: 1 | *{e: 7}\nfor k, v in x {x: 1}", "eval"),
        ("x: string | 1\nfor k, v in x if v > 1 {x: 1}", "eval"),
        ("x: *{a: 1} | {b: 2}\nfor k, v in x {y: v}", r#"{"x":{"a":1},"y":1}"#),
    ]);
}

#[test]
fn of_several_errors_of_one_value_the_gravest_counts() {
    table(&[
        ("x: error(\"u\") & 1 & 2", "eval"),
        ("x: 1 & 2 & error(\"u\")", "eval"),
        ("x: _|_ & 1 & 2", "eval"),
        ("x: error(\"u\") + (1 & 2)", "eval"),
        ("x: {error(\"u\"), b: 1 & 2}", "eval"),
        ("x: {\"\\(error(\"u\"))\": 1, b: 1 & 2}", "eval"),
        ("x: {_|_, b: int}", "user"),
        ("x: \"\\(error(\"u\"))\\(1 & 2)\"", "eval"),
        ("x: matchIf(1, >=_y, >=2 & <=1)\n_y: number", "eval"),
        ("x: matchIf(>=_y, 1, 1 & 2)\n_y: number", "eval"),
    ]);
}

#[test]
fn of_the_errors_of_all_alternatives_the_least_final_counts() {
    for (alternatives, expected) in [
        ("(1 & 2) | (3 & 4)", "eval"),
        ("(1 & 2) | _|_", "user"),
        ("error(\"u\") | {e: x}", "structural cycle"),
        ("(1 & 2) | (_y + 1)", "incomplete"),
        ("(_y + 1) | _c", "cycle"),
        ("_c | (_y + 1)", "cycle"),
        ("_c | error(\"u\")", "cycle"),
        ("{a: _c} | {b: _y + 1}", "cycle"),
    ] {
        table(&[(&format!("x: {alternatives}\n_y: int\n_c: _c + 1"), expected)]);
    }
}

#[test]
fn what_a_part_of_a_text_is_does_not_matter_once_a_part_has_failed() {
    for (parts, expected) in [
        (r"\(_y + 1)\({c: 1})", "incomplete"),
        (r"\({c: 1})\(_y + 1)", "eval"),
        (r"\(_c)\({c: 1})", "cycle"),
        (r"\(_c)\(_y)", "cycle"),
        (r"\(_y)\(_c)", "incomplete"),
        (r"\(_c)\(_y + 1)", "incomplete"),
        (r"\(_y)\({c: 1})", "incomplete"),
        (r"\({c: 1})\(_y)", "eval"),
        (r"\(_y)\(1 & 2)", "eval"),
    ] {
        table(&[(&format!("x: \"{parts}\"\n_y: int\n_c: _c + 1"), expected)]);
    }
}

#[test]
fn a_scalar_next_to_what_waits_for_itself_waits_too() {
    table(&[
        ("y: 1\ny: _b\n_b: 2 + _b", "cycle"),
        ("x: _y & 1\n_y: _y + 1", "cycle"),
        ("x: *(_y & 1) | 2\n_y: _y + 1\nz: x", r#"{"x":2,"z":2}"#),
        ("a: b + 1\nb: a - 1\na: 3", r#"{"a":3,"b":2}"#),
        ("a: b + 1\nb: a - 1\nb: 2", r#"{"a":3,"b":2}"#),
        ("a: 1\na: a + 0", r#"{"a":1}"#),
        ("a: a + 0\na: b\nb: c + 1\nc: 0", r#"{"a":1,"b":1,"c":0}"#),
        ("x: \"\\(y)\"\ny: x\nx: \"a\"", r#"{"x":"a","y":"a"}"#),
    ]);
}

#[test]
fn nothing_is_known_of_what_is_closed_before_its_guards_are_decided() {
    table(&[
        ("a: close({e: \"a\" & \"b\", if _ {}})", "incomplete"),
        ("a: {e: \"a\" & \"b\", if _ {}}", "eval"),
        ("a: close({e: \"a\" & \"b\", if true {}})", "eval"),
        ("a: close({e: 1 & 2, c: _y})\n_y: int", "eval"),
        ("a: b: close({if _ {}, #C: 1, #C: []})\nc: int", "incomplete"),
    ]);
}

#[test]
fn a_loop_over_required_fields_waits_where_it_asks_for_them() {
    let over = |fields: &str, body: &str| format!("_p: {fields}\nz: {{for k, v in _p {body}}}");
    for (fields, body, expected) in [
        ("{a!: 1, y: 2}", "{d: v}", r#"{"z":{"d":2}}"#),
        ("{y: 1, a!: 1, f: 1}", "{d: v}", r#"{"z":{"d":1}}"#),
        ("{a!: 1, y: 2}", "{\"\\(k)\": v}", "incomplete"),
        ("{a!: 1, y: 2, z: 3}", "if v > 2 {\"\\(k)\": v}", r#"{"z":{"z":3}}"#),
        ("{a!: 1, y: 2}", "if k != \"a\" {d: v}", "incomplete"),
        ("{a!: 1, y: 2}", "{d: [k]}", "incomplete"),
        ("{y: 2, a!: 1}", "{d: v}", "incomplete"),
        ("{a!: 1}", "{d: 1}", "incomplete"),
        ("{y: 1, a!: 1, f: 1}", "{1, d: 1}", "eval"),
    ] {
        table(&[(&over(fields, body), expected)]);
    }
    table(&[
        ("_p: {a!: 1, y: 2}\nz: {for v in _p {d: v}}", "incomplete"),
        ("_p: {a!: 1, y: 2}\nz: {for _, v in _p {d: v}}", "incomplete"),
        ("_p: {a!: 1, y: 2}\nz: [for k, v in _p {v}]", r#"{"z":[2]}"#),
    ]);
}

#[test]
fn a_struct_whose_undecided_guards_name_what_is_there_can_be_gone_through() {
    table(&[
        ("#C: {_g: 1, if _ {_g: 1}}\nfor k, v in #C {}", "{}"),
        ("#C: {g: 1, if _ {g: 1}}\nfor k, v in #C {}", "{}"),
        ("_c: {g: 1, b: bool, if b {g: 1}}\nfor k, v in _c {\"\\(k)\": 1}", r#"{"g":1,"b":1}"#),
        ("_c: {g: 1, b: bool, if b {h: 1}}\nfor k, v in _c {\"\\(k)\": 1}", "incomplete"),
        ("_c: {g: 1, b: bool, if b {g: 1}}\nx: {for k, v in _c {\"\\(k)\": 1}}", "incomplete"),
    ]);
}

#[test]
fn a_literal_that_is_calculated_with_or_tested_cannot_contain_what_it_is_written_in() {
    table(&[
        ("x: {a: {e: x} == {e: x}}", "structural cycle"),
        ("x: {a: {e: {f: x}} == {}}", "structural cycle"),
        ("x: {a: [x] + []}", "structural cycle"),
        ("x: {if {e: x} != _|_ {b: 1}}", r#"{"x":{}}"#),
        ("x: {if {e: x} == _|_ {b: 1}}", r#"{"x":{"b":1}}"#),
        ("x: {a: len({e: x})}", r#"{"x":{"a":1}}"#),
        ("x: {a: {e: x.b} == {e: 1}, b: 1}", "eval"),
    ]);
}

#[test]
fn a_guard_may_name_what_it_adds_by_a_text_when_it_has_tested_another_field() {
    const ADDED: &str = r#"{"x":{"d":2,"b":1}}"#;
    table(&[
        ("x: {a?: 1, if a == _|_ {\"\\(\"b\")\": 1, d: 2}}", ADDED),
        ("x: {a?: 1, if a == _|_ for v in [\"b\"] {(v): 1, d: 2}}", ADDED),
        ("x: {a?: 1, for v in [\"b\"] if a == _|_ {\"\\(v)\": 1, d: 2}}", ADDED),
        ("x: {a?: 1, if a == _|_ {\"\\(d)\": 1, d: \"c\"}}", r#"{"x":{"d":"c","c":1}}"#),
        ("a?: 1\nif a == _|_ {(1): 1, d: 2}", "eval"),
        // The name is that of the field after all.
        ("x: {a?: 1, if a == _|_ {\"\\(\"a\")\": 1, d: 2}}", "cycle"),
        ("a?: 1\nif a == _|_ {(\"a\"): 1}", "cycle"),
        ("x: {a?: 1, b?: 1, if a == _|_ {b: 1}, if b == _|_ {a: 1}}", r#"{"x":{"b":1}}"#),
        // What is embedded has it.
        ("x: {a?: 1, if a == _|_ {_y, d: 2}}\n_y: {a: 1}", "cycle"),
        ("x: {a?: 1, if a == _|_ {_y}}\n_y: {a: 1}", "cycle"),
        ("x: {a?: 1, if a == _|_ {_y, d: 2}}\n_y: {b: 1}", ADDED),
    ]);
}

#[test]
fn a_definition_has_no_field_that_none_of_its_guards_declares_for_what_is_within_it() {
    table(&[
        ("#z: {a: 1, y: #z.e, if _b {z: 1}}, _b: bool", "eval"),
        ("#z: {a: 1, x: y: #z.e, for x in _b {z: 1}}, _b: _", "eval"),
        ("#z: {a: 1, y: #z.z, if _b {z: 1}}, _b: bool", "{}"),
        ("_z: {a: 1, y: _z.e, if _b {z: 1}}, _b: bool", "{}"),
        ("#z: {a: 1, if _b {z: 1}}, _x: #z & {y: #z.e}, _b: bool", "{}"),
    ]);
}

#[test]
fn a_bound_waits_for_the_choice_of_its_own_field() {
    table(&[
        ("x: <x, x: {} | {a: 1}", "cycle"),
        ("x: <x, x: 1 | 2", "cycle"),
        ("x: <x, x: {}", "eval"),
        ("x: <y, y: {} | {a: 1}", "incomplete"),
    ]);
}

#[test]
fn guards_that_wait_for_a_circle_which_one_of_them_is_part_of_are_all_part_of_it() {
    table(&[
        ("a: {x: x, if x {x: true}, if x {}}", "cycle"),
        ("a: {if x {y: 1}, x: x, if x {x: true}}", "cycle"),
        ("a: {x: x, if x {y: 0}, if x {z: 1}}", "incomplete"),
        ("a: {x: x, if x {y: 0}, if true {x: true}}", r#"{"a":{"x":true,"y":0}}"#),
        ("a: {x: x, if x {y: 0}, if _q {x: true}}, _q: bool", "incomplete"),
    ]);
}

#[test]
fn a_loop_may_say_what_a_field_is_that_is_declared_with_a_marker() {
    table(&[
        ("g: {x: 1, h?: int, for k, v in g {h: v}}", r#"{"g":{"x":1,"h":1}}"#),
        ("g: {x: 1, for k, v in g {h: v}, h?: int}", r#"{"g":{"x":1,"h":1}}"#),
        ("g: {x: 1, h?: int, for k, v in g if v == 1 {h: v}}", r#"{"g":{"x":1,"h":1}}"#),
        ("g: {x: 1, h?: int, for k, v in g {if true {h: 1}}}", r#"{"g":{"x":1,"h":1}}"#),
        ("g: {x: 1, h?: int, for k, v in g {h: len(g)}}", r#"{"g":{"x":1,"h":2}}"#),
        ("g: {x: 1, h?: {a: 1}, for k, v in g {h: b: v}}", r#"{"g":{"x":1,"h":{"a":1,"b":1}}}"#),
        ("g: {x: 1, for k, v in g {h: v}} & {h?: int}", r#"{"g":{"x":1,"h":1}}"#),
        ("#g: {h?: int, x: int}\ng: #g & {x: 1, for k, v in g {h: v}}", r#"{"g":{"h":1,"x":1}}"#),
        ("g: {x: 1, _h!: int, for k, v in g {_h: v}}", r#"{"g":{"x":1}}"#),
        ("g: {x: 1, h?: 2, for k, v in g {h: v}}", "eval"),
        ("g: {x: 1, h?: int, for k, v in g {i: v}}", "incomplete"),
        ("g: {x: 1, h?: int, for k, v in g {\"\\(k)h\": v}}", "eval"),
    ]);
}

#[test]
fn what_encloses_a_test_has_failed_when_what_stands_beside_the_test_has() {
    // What encloses the test cannot be exported: its field is asked for by itself.
    let tested = |text: &str| {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let arc = evaluation.lookup(root, "A.f").expect(text);
        evaluation.describe(root);
        evaluation.export(arc)
    };
    for (text, expected) in [
        ("A: {f: A != _|_, y: 0, y: 1}", Value::from(false)),
        ("A: {f: A == _|_, y: 0, y: 1}", Value::from(true)),
        ("A: {y: {z: 0 & 1}, f: A != _|_}", Value::from(false)),
        ("A: {f: A != _|_, y: error(\"x\")}", Value::from(false)),
        ("A: {f: A != _|_, y: A}", Value::from(false)),
        ("A: {f: !(A != _|_), y: 1 & 2}", Value::from(true)),
        ("A: {f: \"\\(A != _|_)\", y: 1 & 2}", Value::from("false")),
        ("A: {g: A != _|_, f: g, y: 1 & 2}", Value::from(false)),
    ] {
        assert_eq!(tested(text).ok(), Some(expected), "{text}");
    }
    for text in [
        "A: {f: A != _|_, y: 0}",
        "A: {f: A != _|_, y?: 0 & 1}",
        "A: {f: {g: A != _|_}, y: 0 & 1}",
        "A: {f: [if A != _|_ {1}], y: 0 & 1}",
    ] {
        assert!(tested(text).is_err(), "{text}");
    }
}
