//! Rules about composition: definitions next to scalars, open definitions, the fields and marks of alternatives.

use super::table;
use crate::{Form, Kind, Limits, Packages, Program};

#[test]
fn a_guard_may_add_definitions_to_a_scalar() {
    table(&[
        ("b: {1, if true {#C: 1}}", r#"{"b":1}"#),
        ("b: {1, if true {#C: 1}} & int", r#"{"b":1}"#),
        ("b: {1, for x in [1] {_h: x}}", r#"{"b":1}"#),
        ("b: {\"x\", if true {let a = 1, #q: a}}", r#"{"b":"x"}"#),
        ("b: {1, if true {if true {#C: 1}}}", r#"{"b":1}"#),
        ("b: {[1], if true {#C: 1}}", r#"{"b":[1]}"#),
        ("b: {1, if true {#C: 2}}\nc: b.#C", r#"{"b":1,"c":2}"#),
        ("b: {if true {#C: 2}}\nc: b.#C", r#"{"b":{},"c":2}"#),
        ("b: {1, if true {{#C: 1}}}", "eval"),
        ("b: {1, if true {}}", "eval"),
        ("b: {1, if true {a: 1}}", "eval"),
        ("b: {1, {#C: 1}}", "eval"),
    ]);
}

#[test]
fn a_definition_is_as_open_as_what_it_is_put_together_of() {
    table(&[
        ("{}\n#A: {...}\nw: #A.q", "incomplete"),
        ("#B: {...}\n#A: {#B}\nw: #A.q", "incomplete"),
        ("#B: {a: 1}\n#A: {#B, ...}\nw: #A.q", "incomplete"),
        ("#B: {a: int, ...}\n#A: #B & {a: 1}\nw: #A.q", "incomplete"),
        ("#B: {a: int}\n#A: {#B}\nw: #A.q", "eval"),
        ("#A: {a: 1}\nw: #A.q", "eval"),
    ]);
}

#[test]
fn the_fields_of_alternatives_come_after_the_others() {
    let order = |d: &str| format!("_d: {d}\no: [for k, v in _d {{k}}]");
    table(&[
        (&order("{f: 1} | 1\n_d: {y: 7}"), r#"{"o":["y","f"]}"#),
        (&order("*{f: 1} | {z: 1}\n_d: {y: 7}"), r#"{"o":["y","f"]}"#),
        (&order("*{f: 1} | {z: 1}\n_d: {y: 7, f: 1}"), r#"{"o":["y","f"]}"#),
        (&order("{a: 1} & {b: 1}"), r#"{"o":["a","b"]}"#),
    ]);
}

#[test]
fn a_default_within_an_alternative_that_is_none_is_no_default() {
    table(&[
        ("f: >=1 & ((_ | *1) | *-1)", "incomplete"),
        ("f: (*1 | _) | *(1 & 3)", "incomplete"),
        ("a: (3 | *{}) | *1 | {a: 1}\na: {z: 0}", "incomplete"),
        ("a: *(*{x: 1} | {x: 2}) | {x: 3}", r#"{"a":{"x":1}}"#),
        ("a: (*{x: 1} | {x: 2}) | {x: 3}", r#"{"a":{"x":1}}"#),
        ("#X: *{x: 1} | {x: 2}\na: #X | *{y: 1}\na: x: int", "incomplete"),
    ]);
}

/// The constraints of a known value have been met: nothing is left of them.
#[test]
fn a_value_that_met_its_constraints_is_the_same_alternative_as_the_value_alone() {
    table(&[
        ("x: >5 & 7\nh: 7 | x", r#"{"x":7,"h":7}"#),
        ("x: !=\"b\" & \"a\"\nh: x | \"a\"", r#"{"x":"a","h":"a"}"#),
        (
            "import \"strings\"\nx: strings.MinRunes(1) & \"a\"\nh: \"a\" | x",
            r#"{"x":"a","h":"a"}"#,
        ),
        ("x: matchIf(7, _, 1) & 7\nh: 7 | x", r#"{"x":7,"h":7}"#),
        ("x: >5 & 7\nh: or([7, x])", r#"{"x":7,"h":7}"#),
        ("x: >5 & 7\nh: 7 | x\nh: <9", r#"{"x":7,"h":7}"#),
        ("x: >5 & 7\nh: (7 | x | 8) & 8", r#"{"x":7,"h":8}"#),
        ("x: *(>5 & 7) | 9\nh: x | *7", r#"{"x":7,"h":7}"#),
        ("x: >5 & 7\nh: x | {}\nh: 7", r#"{"x":7,"h":7}"#),
        ("x: >5 & 7\nh: x | 7 | {}", "incomplete"),
        ("x: >5 & 7\nh: *x | {}\nh: *7 | {}", r#"{"x":7,"h":7}"#),
    ]);
}

#[test]
fn of_the_alternatives_of_a_field_that_something_is_selected_from_those_stay_that_allow_what_is_there()
 {
    table(&[
        ("#A: {a: {b: 1} | {c: 1}}\ny: (#A & {a: {c: 1}}).a.c", r#"{"y":1}"#),
        ("#A: {a: {b: 1} | {c: 1}}\ny: (#A & {a: {b: 1, e: 1}}).a.e", "eval"),
        ("#A: {a: *{b: 1} | {c: 1}}\ny: (#A & {a: {e: 1}}).a.e", "eval"),
        ("#A: {a: {b: 1} | {c: 1, ...}}\ny: (#A & {a: {e: 1}}).a.e", r#"{"y":1}"#),
        ("#A: {b: 1} | {c: 1}\ny: ({a: #A} & {a: {b: 1, e: 1}}).a.e", "eval"),
        ("#A: {a: {b: 1}}\ny: (#A & {a: {b: 1, e: 1}}).a.e", r#"{"y":1}"#),
        ("#A: {a: {b: 1} | {c: 1}, o: a}\ny: (#A & {a: {c: 1}}).o", "incomplete"),
    ]);
}

#[test]
fn beside_anything_a_comprehension_that_adds_nothing_makes_no_struct() {
    table(&[
        ("a: _\na: {for k, v in {} {(k): v}}", "incomplete"),
        ("a: _ & {if false {3}}", "incomplete"),
        ("a: b & {for k, v in {} {(k): v}}\nb: _", "incomplete"),
        ("a: {for k, v in {} {(k): v}}\n[_]: _", "incomplete"),
        ("a: {#x: 1, if false {3}} & _", "incomplete"),
        ("#A: c: _\na: #A & {c: {for k, v in {} {(k): v}}}", "incomplete"),
        ("a: {for k, v in {} {(k): v}}", r#"{"a":{}}"#),
        ("a: _ & {for k, v in {} {b: v}}", r#"{"a":{}}"#),
        ("a: _ & {if true {}}", r#"{"a":{}}"#),
        ("a: _ & {if false {3}} & {#x: 1}", r#"{"a":{}}"#),
        ("a: _ & {(k): 1}\nk: \"b\"", r#"{"a":{"b":1},"k":"b"}"#),
    ]);
}

#[test]
fn fields_beside_a_choice_that_cannot_be_made_are_computed_by_nobody() {
    for (text, path) in [
        ("l: [\"\\(c)\", 1 + 1]\nl: [...] | *[]\nc: _", "l[0]"),
        ("l: [\"\\(c)\", 1 + 1]\nl: [...] | *[]\nc: _", "l[1]"),
        ("l: {a: \"\\(c)\", e: f: 1 + 1}\nl: {b: 1} | {d: 1}\nc: _", "l.a"),
        ("l: {a: \"\\(c)\", e: f: 1 + 1}\nl: {b: 1} | {d: 1}\nc: _", "l.e.f"),
    ] {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        assert!(evaluation.describe(root).error.is_none());
        let mut node = root;
        for step in path.split(['.', '[']) {
            let arcs = evaluation.describe(node).arcs;
            let label = step.trim_end_matches(']');
            node = arcs.iter().find(|arc| arc.label == label).expect(text).node;
        }
        let description = evaluation.describe(node);
        assert!(matches!(description.form, Some(Form::Type(Kind::TOP))), "{text}: {path}");
        assert!(description.error.is_none(), "{text}: {path}");
    }
}

#[test]
fn what_is_undecided_equals_what_has_the_same_alternatives() {
    // What is still a choice has no length.
    table(&[
        ("_x: {y: int & (1 | 2)} | {y: 1 | 2}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: _ | {y: int}\n_x: {y: 1 | 2}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: {y: int & (*1 | 2)} | {y: *1 | 2}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: [1 | 2] | [(1 | 2) & int]\nn: len(_x)", r#"{"n":1}"#),
        ("_x: {y: {a: 1} | {b: 2}} | {y: ({a: 1} | {b: 2}) & {}}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: {y: *1 | 2} | {y: 1 | *2}\nn: len(_x)", "incomplete"),
        ("_x: {y: 1 | 2} | {y: 1 | 2 | 3}\nn: len(_x)", "incomplete"),
        ("#D: a: 1\n_x: {y: #D | {b: 2}} | {y: {a: 1} | {b: 2}}\nn: len(_x)", "incomplete"),
    ]);
}

#[test]
fn a_constraint_of_any_value_is_none_of_structs_for_what_adds_nothing_to_it() {
    table(&[
        ("#x: matchN(1, [1]) & {#x}", "{}"),
        ("x: matchN(1, [1]) & {x}", "incomplete"),
        ("x: matchN(1, [1]) & {d}\nd: x", "incomplete"),
        ("x: {x, #a: 1} & matchN(1, [1])", "incomplete"),
        ("x: {if false {#a: 1}} & matchN(1, [1])", "incomplete"),
        ("x: {if false {a: 1}} & matchN(1, [1])", "eval"),
        ("x: {#a: 1} & matchN(1, [1])", "eval"),
        ("x: {x}", r#"{"x":{}}"#),
    ]);
}

#[test]
fn alternatives_are_equal_whose_optional_structs_are() {
    table(&[
        ("x: {a?: {b: int}} & ({a?: {b?: int}} | {a?: {b?: number}})", r#"{"x":{}}"#),
        ("x: {y: 1, a?: b: int} & ({a?: b: int} | {a?: b: number})", r#"{"x":{"y":1}}"#),
        ("x: {a?: {b: int}} | {a?: {b: number}}", "incomplete"),
        ("x: {a?: {b: int}} | {a?: {b?: int}}", "incomplete"),
        ("x: {a?: [int]} & ({a?: [number]} | {a?: [_]})", r#"{"x":{}}"#),
        ("#L: {n?: #L, v: int}\nx: #L & ({v: 1} | {n?: v: int, v: 1})", "incomplete"),
    ]);
}

#[test]
fn alternatives_are_not_equal_if_a_field_is_closed_in_one_of_them_only() {
    table(&[
        ("x: {a: close({b: 1})} | {a: {b: 1}}", "incomplete"),
        ("x: {a: {b: 1}} | {a: close({b: 1})}", "incomplete"),
        ("#D: b: 1\nx: {a: {b: 1}} & ({a: #D} | {a: _})", "incomplete"),
        ("#D: b: 1\nx: {a: #D} | {a: #D & {b: 1}}", r#"{"x":{"a":{"b":1}}}"#),
        ("#D: a: b: 1\n#E: a: b: 1\nx: #D | #E", r#"{"x":{"a":{"b":1}}}"#),
        ("x: {a: close({b: 1})} | {a: close({b: 1}) & {b: int}}", r#"{"x":{"a":{"b":1}}}"#),
        ("x: [close({b: 1})] | [{b: 1}]", "incomplete"),
    ]);
}

#[test]
fn lists_that_meet_a_list_are_equal_if_their_elements_are() {
    table(&[
        ("x: [...1] & ([] | [..._])", r#"{"x":[]}"#),
        ("x: [...int] & ([...] | [])", r#"{"x":[]}"#),
        ("x: ([1] | [1, ...]) & [int, ...]", r#"{"x":[1]}"#),
        ("x: [...1]\nx: [] | [..._]\nx: [1]", r#"{"x":[1]}"#),
        ("x: ([1, ...] | [1]) & [_, ...]\ny: x & [_, 2]", r#"{"x":[1],"y":[1,2]}"#),
        ("x: ([1] | [1, ...] | [1, 2]) & [...]", "incomplete"),
        ("x: [...{}] & ([close({})] | [{}, ...])", "incomplete"),
        ("x: {a: [...]} & ({a: []} | {a: [...]})", "incomplete"),
        ("x: [] | [...]", "incomplete"),
    ]);
}

#[test]
fn a_check_that_is_met_makes_no_other_alternative_of_a_list_or_a_struct() {
    const BOTH: &str = r#"{"x":{"a":1},"y":{"a":1,"b":2}}"#;
    table(&[
        ("import \"list\"\nx: [1] | (list.MaxItems(1) & [1])", r#"{"x":[1]}"#),
        ("import \"list\"\nx: [1] & (list.MaxItems(1) | list.MaxItems(2))", r#"{"x":[1]}"#),
        ("import \"list\"\nx: [1, ...] & ([_] | list.MaxItems(2))", r#"{"x":[1]}"#),
        ("import \"list\"\nx: [...int] & (list.MaxItems(1) | list.MinItems(0))", r#"{"x":[]}"#),
        ("import \"list\"\nx: {y: [1]} | {y: list.MaxItems(1) & [1]}", r#"{"x":{"y":[1]}}"#),
        ("import \"struct\"\nx: {a: 1} | (struct.MaxFields(1) & {a: 1})", r#"{"x":{"a":1}}"#),
        ("x: {a: 1} & (matchN(1, [{a: int}]) | {a: 1})", r#"{"x":{"a":1}}"#),
        // What adds to the value is checked by each alternative anew.
        (
            "import \"struct\"\nx: (struct.MaxFields(1) & {a: 1}) | {a: 1}\ny: x & {a: 1, b: 2}",
            BOTH,
        ),
        (
            "import \"struct\"\nx: {a: 1} & (struct.MaxFields(1) | struct.MaxFields(2))\ny: x & {a: 1, b: 2}",
            BOTH,
        ),
        // A check alone, and one of another scalar than an atom, is part of the value.
        ("import \"list\"\nx: list.MaxItems(1) | list.MaxItems(2)", "incomplete"),
        (
            "import \"strings\"\nx: string & (strings.MinRunes(1) | strings.MaxRunes(3))",
            "incomplete",
        ),
    ]);
}

#[test]
fn a_pattern_makes_no_other_alternative() {
    table(&[
        ("x: {[string]: int} | {[string]: string}", r#"{"x":{}}"#),
        ("x: {[string]: int} | {[string]: int}", r#"{"x":{}}"#),
        ("x: {a: 1, [string]: int} | {a: 1}", r#"{"x":{"a":1}}"#),
        ("x: {} | {[string]: int}\ny: x & {a: \"s\"}", r#"{"x":{},"y":{"a":"s"}}"#),
        ("x: {[string]: int} | {}\ny: x & {a: \"s\"}", r#"{"x":{},"y":{"a":"s"}}"#),
        ("x: ({[string]: int} | {a: int}) & {a: 1}", r#"{"x":{"a":1}}"#),
        ("#A: {a: 1, [string]: int}\n#B: a: 1\nx: #A | #B", r#"{"x":{"a":1}}"#),
        ("x: {c?: {[string]: int}} | {c?: {}}", r#"{"x":{}}"#),
        ("x: close({[string]: int}) | {[string]: string}", "incomplete"),
        ("x: {[string]: int} | {[string]: string} | {a: 1}", "incomplete"),
    ]);
}

#[test]
fn bounds_say_the_same_in_any_order() {
    // What is still a choice has no length.
    table(&[
        ("_x: {a: >1 & <5} | {a: <5 & >1}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: {a: >1 & !=3 & <5} | {a: <5 & >1 & !=3}\nn: len(_x)", r#"{"n":1}"#),
        ("_x: {a: !=1 & !=2} | {a: !=2 & !=1}\nn: len(_x)", "incomplete"),
        ("_x: {a: >1} | {a: >=2}\nn: len(_x)", "incomplete"),
    ]);
}

#[test]
fn a_guard_that_adds_only_optional_fields_leaves_open_what_they_stand_beside() {
    table(&[
        ("x: 3 & {if true {y?: 7}}", r#"{"x":3}"#),
        ("x: {3, if true {y?: 7, #z: 1}}", r#"{"x":3}"#),
        ("x: [1] & {for a in [1] {y?: 7}}", r#"{"x":[1]}"#),
        ("x: {if true {3}, if true {y?: 1}}", r#"{"x":3}"#),
        ("y: {if true {y?: 7}}\nx: y & 3", r#"{"y":{},"x":3}"#),
        ("x: {3, (\"y\")?: 7}", r#"{"x":3}"#),
        ("x: {if true {y?: 7}}", r#"{"x":{}}"#),
        ("x: {3, if true {y!: 7}}", "eval"),
        ("x: {3, if true {y?: 7, ...}}", "eval"),
        ("x: {3, if true {(\"y\")?: 7}}", "eval"),
        ("x: {3, {y?: 7}}", "eval"),
    ]);
}
