//! Rules of the language that generated programs were found to break: a test for each, with the
//! smallest programs. Both evaluators of the reference give these answers.

mod closedness;
mod composition;
mod following;
mod functions;
mod operands;
mod schemas;
mod waiting;

use crate::tests::eval;
use crate::{Packages, Program};

/// Each program exports so, or fails with this class.
fn table(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let answer = eval(text);
        let shown = if answer.starts_with('{') {
            answer.as_str()
        } else {
            answer.split(':').next().unwrap_or_default()
        };
        assert_eq!(shown, *expected, "{text}\n{answer}");
    }
}

#[test]
fn what_is_selected_from_a_literal_does_not_depend_on_its_other_fields() {
    table(&[
        ("a: {in: {} & 1, out: 7}.out", r#"{"a":7}"#),
        ("a: ({in: {}, out: 7} & {in: 1}).out", r#"{"a":7}"#),
        ("a: {in: {} & 1}.out", "incomplete"),
        ("e: {out: 1 & e}.out", r#"{"e":1}"#),
        ("a: {out: {z: 1, z: 2}}.out", "eval"),
    ]);
}

#[test]
fn what_is_selected_from_an_error_is_the_error() {
    table(&[
        ("e: {d: 1} & 3, x: *e.d | 5", "eval"),
        ("e: *({d: 1} & 3) | 4, x: [if e.d != _|_ {1}, 2][0]", r#"{"e":4,"x":2}"#),
        ("_e: {d: 1}, x: _e.d", r#"{"x":1}"#),
    ]);
}

#[test]
fn definitions_and_hidden_fields_may_stand_beside_any_value() {
    table(&[
        ("a: 3, #b: a.#C", r#"{"a":3}"#),
        ("a: 3, #b: a._c", r#"{"a":3}"#),
        ("a: 3, #b: a.c", "eval"),
        ("a: {3, #C: 4}, b: a.#C", r#"{"a":3,"b":4}"#),
    ]);
}

#[test]
fn only_what_is_known_to_be_a_struct_is_closed() {
    table(&[("#A: #A.b", "{}"), ("#A: {b: 1}, c: #A.d", "eval"), ("#B: _, #c: #B.x", "{}")]);
}

#[test]
fn a_required_field_can_be_referred_to() {
    table(&[
        ("d: #g.b, #g: {b!: 3}", r#"{"d":3}"#),
        ("#g: {b!: int, c: b + 1}, d: (#g & {b: 1}).c", r#"{"d":2}"#),
        ("d: #g.b, #g: {b?: 3}", "incomplete"),
        ("#c: #g.a, #g: {a!: 1 & 2}", "eval"),
    ]);
}

#[test]
fn a_required_field_of_any_kind_has_to_be_given() {
    table(&[
        ("#C!: 3", "incomplete"),
        ("{1, #C!: 3}", "incomplete"),
        ("x: {[1], _h!: 3}", "incomplete"),
        ("x: {1, #C?: 3}", r#"{"x":1}"#),
        ("import \"list\"\nx: list.Sum({[1], #C!: 3})", r#"{"x":1}"#),
        ("_h!: 3", "incomplete"),
        ("c: {#b!: 1}", "incomplete"),
        ("#C: {b!: 1}", "{}"),
        ("_h: {b!: 1}", "{}"),
    ]);
}

#[test]
fn a_test_finds_what_may_be_anything_and_alternatives_but_no_type() {
    let tested = |value: &str| format!("_x: {value}, a: _x != _|_");
    for there in ["_", "1 | 2", "string | int", "null | string", "<1 | >4", "{a: 1} | {b: 1}"] {
        table(&[(&tested(there), r#"{"a":true}"#)]);
    }
    for absent in ["string", "int", "number", ">3", ">=1 & <3", "=~\"a\""] {
        table(&[(&tested(absent), r#"{"a":false}"#)]);
    }
}

#[test]
fn a_test_finds_nothing_in_what_has_no_fields_yet() {
    table(&[
        ("a: a.x != _|_", r#"{"a":false}"#),
        ("e: [if e.d != _|_ {1}]", r#"{"e":[]}"#),
        ("x: {if x.a != _|_ {a: 1}}", r#"{"x":{}}"#),
        ("x: {if x.a == _|_ {a: 1}}", "incomplete"),
        ("x: {if x.a == _|_ {b: 1}}", r#"{"x":{"b":1}}"#),
    ]);
}

#[test]
fn a_guard_that_is_undecided_leaves_its_fields_undecided() {
    table(&[
        ("#x: bool, a: 1, if #x {a: 1}", "incomplete"),
        ("c: #x.b, #x: {if y {a: 1}, y: bool, a: 1, b: 2}", r#"{"c":2}"#),
    ]);
}

#[test]
fn a_struct_can_be_gone_through_while_it_is_put_together() {
    table(&[
        ("x: {for k, v in x {}}", r#"{"x":{}}"#),
        ("x: {#A: 1, for k, v in x if true {}}", r#"{"x":{}}"#),
        ("x: {a: 1, for k, v in x {\"\\(k)\": 1}}", r#"{"x":{"a":1}}"#),
        ("x: {a: 1, for k, v in x {\"\\(k)2\": 1}}", "eval"),
        ("x: {a: 1, for k, v in x {c: 1}}", "incomplete"),
    ]);
}

#[test]
fn equal_alternatives_are_one_inside_of_definitions() {
    table(&[
        ("#a: {c: 4 | _}, x: #a & {c: 4}", r#"{"x":{"c":4}}"#),
        ("#A: {} | {...}, #A: {z: 3}, x: #A.z", r#"{"x":3}"#),
        ("#A: {b: 1} | {b: 1, ...}, x: #A & {b: 1, c: 2}", r#"{"x":{"b":1,"c":2}}"#),
    ]);
}

#[test]
fn a_comprehension_of_a_scalar_adds_no_field() {
    table(&[("a: {f?: 0, if f != _|_ {3}}", r#"{"a":{}}"#)]);
}

#[test]
fn an_argument_with_a_failed_element_is_an_error() {
    table(&[
        ("import \"list\"\na: *list.Drop([1 & 2, 3], 1) | 5", r#"{"a":5}"#),
        ("import \"list\"\na: *list.Concat([[1 & 2], [3]])[1] | 5", r#"{"a":5}"#),
        ("import \"list\"\na: list.Drop([int, 3], 1)", r#"{"a":[3]}"#),
    ]);
}

#[test]
fn what_a_value_requires_of_itself_is_no_question_of_a_schema() {
    table(&[
        ("#x: matchN(1, [_]) & {e!: 1}, a: #x & {e: 1}", r#"{"a":{"e":1}}"#),
        ("x: matchN(1, [{#B: {f!: 1}}]) & {}", r#"{"x":{}}"#),
        ("x: matchN(1, [{a!: int}]) & {}", "incomplete"),
        ("x: matchIf(1, 1, {c!: 1}) & {}", "incomplete"),
        ("x: matchIf({}, {c!: 1}, _) & {c: 1}", r#"{"x":{"c":1}}"#),
        ("x: matchN(1, [{_g!: _}, {}]) & {}", r#"{"x":{}}"#),
    ]);
}

#[test]
fn alternatives_wait_for_what_they_are_unified_with() {
    table(&[
        ("b: 7 | 0, b: 0 - x, x: int, c: [if b != _|_ {1}, 2][0]", "incomplete"),
        ("_b: 7 | 0, _b: 0 - _x, _x: int, c: [if _b != _|_ {1}, 2][0]", r#"{"c":2}"#),
    ]);
}

#[test]
fn an_arrow_is_no_bound() {
    table(&[
        ("a: <-1", "expected operand, found '<-'"),
        ("a: [3 <-1]", "missing ',' in list literal"),
        ("a: 3 < -1", r#"{"a":false}"#),
    ]);
}

#[test]
fn only_a_struct_can_be_closed() {
    table(&[
        ("#a: close(_)", "eval"),
        ("a: close({b: 1})", r#"{"a":{"b":1}}"#),
        ("a: close(3)", "eval"),
    ]);
}

#[test]
fn alternatives_that_differ_in_constraints_only_are_several() {
    table(&[
        ("a: {b!: 1} | {b!: 2}", "incomplete"),
        ("a: *{b?: 1} | {b?: 2}, x: a & {b: 2}", r#"{"a":{},"x":{"b":2}}"#),
        ("a: {b?: 1} | {b?: 2}", "incomplete"),
        ("a: {b?: int & >1} | {b?: int & >1}", r#"{"a":{}}"#),
        ("a: {b?: {d: 1}} | {b?: {d: 2}}", "incomplete"),
        ("#T: {v: 1, next?: #T}, a: #T | #T", r#"{"a":{"v":1}}"#),
    ]);
}

#[test]
fn a_unification_in_a_struct_that_is_selected_from_counts_as_a_whole() {
    table(&[
        ("a: ({in: 1, out: 7} & {in: {}}).out", r#"{"a":7}"#),
        ("a: {out: ({in: 1, out: 7} & {in: {}}).out}.out", "eval"),
        ("a: {out: 1 + ({in: 1, out: 7} & {in: {}}).out}.out", "eval"),
        ("a: {out: {b: ({in: 1, out: 7} & {in: {}}).out}}.out", r#"{"a":{"b":7}}"#),
        ("#F: {in: int, out: in + 1}, a: (#F & {in: (#F & {in: 3}).out}).out", r#"{"a":5}"#),
        ("#F: {in: int, out: in + 1}, a: (#F & {in: 3, x: 2}).out", r#"{"a":4}"#),
        ("#F: {in: int, out: in + 1}, a: (#F & {in: (#F & {in: 3, x: 2}).out}).out", "eval"),
        ("a: {out: ({} & {in: a}).out}.out", "structural cycle"),
        ("a: {b: 1, c: {out: ({in: a.b} & {out: 4}).out}.out}", r#"{"a":{"b":1,"c":4}}"#),
    ]);
}

#[test]
fn a_condition_of_a_schema_holds_only_if_what_it_requires_is_there() {
    table(&[
        ("a: matchIf({c!: 1}, {d!: 1}, {e!: 1}) & {e: 1}", r#"{"a":{"e":1}}"#),
        ("a: matchIf({c!: 1}, {d!: 1}, {e!: 1}) & {d: 1}", "incomplete"),
        ("a: matchIf({c!: 1}, {d!: 1}, {e!: 1}) & {c: 1, d: 1}", r#"{"a":{"c":1,"d":1}}"#),
        ("a: matchIf({c: f!: 1}, {d!: 1}, {e!: 1}) & {c: {}, e: 1}", r#"{"a":{"c":{},"e":1}}"#),
        (
            "a: matchIf({c!: 1} | {d!: 2}, {e!: 1}, {f!: 1}) & {c: 1, e: 1}",
            r#"{"a":{"c":1,"e":1}}"#,
        ),
        ("a: matchIf({c: 1}, {d!: 1}, {e!: 1}) & {d: 1}", r#"{"a":{"d":1}}"#),
    ]);
}

#[test]
fn what_a_schema_requires_of_definitions_and_hidden_fields_is_never_given() {
    table(&[
        ("a: matchN(1, [{#c!: 1}]) & {#c: 1}", "incomplete"),
        ("a: matchN(1, [{_c!: 1}]) & {_c: 1}", "incomplete"),
        ("a: matchN(1, [{b: {#c!: 1}}]) & {b: #c: 1}", "incomplete"),
        ("a: matchN(1, [{b: #c: d!: 1}]) & {b: #c: d: 1}", r#"{"a":{"b":{}}}"#),
        ("a: matchIf({#c!: 1}, {d!: 1}, {e!: 1}) & {#c: 1, e: 1}", r#"{"a":{"e":1}}"#),
    ]);
}

#[test]
fn an_argument_that_cannot_be_computed_fails_whatever_the_answer_is() {
    table(&[
        ("_c: _, a: matchIf(1, _, <=_c) & 1", "incomplete"),
        ("_c: _, a: matchIf(<=_c, 1, 1) & 1", "incomplete"),
        ("a: matchIf(1, _, 1 & 2) & 1", "eval"),
    ]);
}

#[test]
fn an_inequality_says_nothing_beside_a_pattern_that_excludes_the_same_text() {
    let shown = |text: &str| eval(text).split("value ").last().unwrap_or_default().to_owned();
    assert_eq!(shown(r#"a: !="a" & =~"b""#), r#"=~"b""#);
    assert_eq!(shown(r#"a: !~"b" & !="b""#), r#"!~"b""#);
    assert_eq!(shown(r#"a: =~"b" & !="b""#), r#"=~"b" & !="b""#);
    table(&[(r#"a: !="b" & =~"b" & "b""#, "eval"), (r#"a: !="a" & =~"b" & "b""#, r#"{"a":"b"}"#)]);
}

#[test]
fn bounds_that_leave_one_integer_are_that_integer() {
    table(&[
        ("a: int & >=2 & <3, b: a + 1", r#"{"a":2,"b":3}"#),
        ("a: int & >1.5 & <2.5", r#"{"a":2}"#),
        ("a: int & >1 & <4", "incomplete"),
        ("a: >=2 & <3", "incomplete"),
        ("a: >='b' & <='b'", r#"{"a":"Yg=="}"#),
    ]);
}

/// Conjuncts that come later make a vertex be computed anew, also while a task of it runs.
#[test]
fn a_vertex_may_begin_anew_while_its_tasks_run() {
    let program = "b: #C.b, [_]: [if d.z && d {}][0], d: b, #C: _";
    assert!(!eval(program).is_empty());
}

/// A description ends although an argument of the validator leads back to the validator.
#[test]
fn a_validator_may_be_its_own_argument() {
    let program = Program::compile("in.cue", "d: matchIf(d, 1, 1)", &Packages::std());
    let program = program.expect("it compiles");
    let mut evaluation = program.evaluate(&[], &crate::Limits::default());
    let root = evaluation.root();
    let node = evaluation.lookup(root, "d").expect("there is a field");
    assert!(evaluation.describe(node).form.is_some());
}

#[test]
fn what_is_unknown_counts_more_than_what_waits_for_itself() {
    table(&[
        ("y: f + x, f: y, x: int", "incomplete"),
        ("y: f + (3 | 1), f: y", "incomplete"),
        ("a: c - b, b: c, c: a", "cycle"),
    ]);
}

#[test]
fn what_is_no_struct_has_no_fields_whoever_asks() {
    table(&[
        ("y: y.z, y: []", "eval"),
        ("y: {e: 1 != 1, e: e.a}", "eval"),
        ("y: y.z, y: {z: 1}", "eval"),
        ("y: y.z", "incomplete"),
    ]);
}

#[test]
fn a_definition_that_is_being_put_together_is_not_closed_yet() {
    table(&[
        ("#B: {#B.y, f: 3}", "{}"),
        ("#B: {f: 3}, #B: #B.y", "{}"),
        ("#B: {f: 3, g: #B.y}", "eval"),
        ("#B: {f: 3}, c: #B.y", "eval"),
    ]);
}

#[test]
fn an_argument_must_not_contain_what_the_call_is_part_of() {
    table(&[
        ("import \"list\"\na: list.Max([1, a])", "structural cycle"),
        ("import \"list\"\na: list.Concat([[1], a])", "structural cycle"),
        ("import \"encoding/json\"\na: json.Marshal({b: a})", "structural cycle"),
        (
            "import \"encoding/json\"\na: {b: 1, c: json.Marshal({d: b})}",
            r#"{"a":{"b":1,"c":"{\"d\":1}"}}"#,
        ),
    ]);
}

#[test]
fn a_list_is_a_list_before_its_comprehensions_are_done() {
    table(&[
        ("_c: _, a: [if _c {}] & {b: 1}", "eval"),
        ("_c: _, a: 1, a: [if _c {}]", "eval"),
        ("_c: _, a: [if _c {}]", "incomplete"),
    ]);
}

#[test]
fn what_is_to_be_closed_has_to_be_known() {
    table(&[
        ("_b: {}, a: close(_b.c) & {d: 1}", "incomplete"),
        ("_b: _, a: close(_b)", "eval"),
        ("_b: {} | 1, a: close(_b)", "incomplete"),
        ("a: close(1 | 3)", "incomplete"),
        ("_b: {d: 1}, a: close(_b) & {c: 1}", "eval"),
        ("_b: {d: 1}, a: close(_b & {c: int}) & {c: 1}", r#"{"a":{"c":1,"d":1}}"#),
    ]);
}

#[test]
fn a_package_is_a_struct_of_its_members() {
    table(&[
        ("import \"list\"\na: (list).Max([1])", r#"{"a":1}"#),
        ("import \"list\"\na: (list & list).Max([1])", r#"{"a":1}"#),
        ("import \"list\"\na: list[\"Max\"]([1])", r#"{"a":1}"#),
        ("import \"list\"\nlet X = list\na: X.Max([1])", r#"{"a":1}"#),
        ("import \"struct\"\na: len(struct)", r#"{"a":2}"#),
        ("import \"list\"\na: list", "incomplete"),
        ("import \"list\"\na: (list)(1)", "eval"),
    ]);
}

#[test]
fn a_function_that_is_no_validator_is_nothing_else() {
    table(&[
        ("import \"list\"\na: list.Drop & []", "eval"),
        ("import \"strings\"\na: strings.MinRunes & \"abc\"", "eval"),
        ("import \"strings\"\na: strings.MinRunes(3) & \"abc\"", r#"{"a":"abc"}"#),
        ("import \"net\"\na: net.IPv4 & \"1.1.1.1\"", r#"{"a":"1.1.1.1"}"#),
    ]);
}

#[test]
fn a_scalar_beside_what_is_not_known_is_not_known() {
    table(&[
        ("_y: _, a: 1 & >=_y", "incomplete"),
        ("_x: {}, _a: 1 & _x.y, b: [if _a != _|_ {3}]", r#"{"b":[]}"#),
        ("_x: {}, _a: 1 & _x.y, b: _a + 1", "incomplete"),
        ("_c: _, e: {e: <_c | _, e: 3}", r#"{"e":{"e":3}}"#),
    ]);
    // Alternatives that all wait for the same are no failed alternatives.
    let answer = eval("x: {...}, a: *false | bool, a: x.y == 1");
    assert!(answer.starts_with("incomplete: a: undefined field: y"), "{answer}");
}

#[test]
fn defaults_that_contradict_each_other_stay_no_defaults() {
    table(&[
        ("a: *1 | int, a: *1 | int, b: *3 | 1, c: b & a", "incomplete"),
        ("a: *1 | int, b: *3 | 2, c: a & b", r#"{"a":1,"b":3,"c":3}"#),
    ]);
}

#[test]
fn anything_in_a_definition_is_open_only_where_nothing_else_is_said() {
    table(&[
        ("#A: {a: 1} & _, x: #A & {y: 1}", "eval"),
        ("#A: {a: _}, x: #A & {a: y: 1}", r#"{"x":{"a":{"y":1}}}"#),
        ("#A: {a: {b: 1}}, #A: {a: _}, x: #A & {a: y: 1}", "eval"),
        ("#A: {_, a: 1}, x: #A & {y: 1}", "eval"),
        ("#A: {#B}, #B: _, x: #A & 3", r#"{"x":3}"#),
        ("#A: #B, #B: _, x: #A & {y: 1}", r#"{"x":{"y":1}}"#),
        ("#A: #A, x: (#A & {}).e", "incomplete"),
        ("x: close({_})", "eval"),
        ("x: close({_, a: 1})", r#"{"x":{"a":1}}"#),
    ]);
}

#[test]
fn an_operand_has_all_that_it_requires() {
    table(&[
        ("_x: {a!: 1}, y: _x == null", "incomplete"),
        ("_x: [{b: {a!: 1}}], y: _x == [1]", "incomplete"),
        ("_x: {a!: 1}, y: !_x", "eval"),
        ("_x: {a!: 1}, y: len(_x)", r#"{"y":0}"#),
        ("y: {#a!: 1, 5} + 1", r#"{"y":6}"#),
    ]);
}

#[test]
fn a_required_field_is_seen_by_what_may_yet_give_it() {
    table(&[
        ("_#p: {a!: \"x\", \"\\(a)\": 1}, y: _#p.x", r#"{"y":1}"#),
        ("a!: 2, if a {a: 1}", "eval"),
        ("_p: {a!: _}, y: [if _p.a != _|_ {1}]", "cycle"),
        ("_p: {a!: {b: 1}}, y: [if _p.a.b != _|_ {1}]", r#"{"y":[1]}"#),
        ("_p: {a!: string}, y: [if _p.a == _|_ {1}]", r#"{"y":[1]}"#),
    ]);
}

#[test]
fn a_field_that_waits_for_itself_is_not_there_for_others() {
    table(&[
        ("_b: _b.c, y: _b.c != _|_", r#"{"y":false}"#),
        ("_b: _b.c, y: _b.d != _|_", r#"{"y":false}"#),
        ("_b: {c: _b.c.d}, y: _b.c.d != _|_", r#"{"y":false}"#),
        ("_a: b, b: _a.c, y: b != _|_", "incomplete"),
    ]);
}

#[test]
fn definitions_and_hidden_fields_that_fail_do_not_keep_a_value_from_matching() {
    table(&[
        ("x: matchN(1, [{#C: {}}]) & {#C: 1}", r#"{"x":{}}"#),
        ("x: matchN(1, [{a: _h: {}}]) & {a: _h: 1}", r#"{"x":{"a":{}}}"#),
        ("x: matchN(1, [{#C: {}, a: 1}]) & {#C: 1, a: 2}", "eval"),
        ("x: matchIf({#C: {}}, {b!: 1}, {c!: 1}) & {#C: 1, b: 1}", r#"{"x":{"b":1}}"#),
    ]);
}

#[test]
fn a_schema_is_asked_about_one_alternative_at_a_time() {
    table(&[
        ("x: matchN(2, [_, bool]) & ([] | true)", r#"{"x":true}"#),
        ("x: matchN(1, [int]) & (1 | {})", r#"{"x":1}"#),
        ("x: matchN(0, [int, string]) & (1 | {})", r#"{"x":{}}"#),
        ("x: matchN(1, [[], 2]) & ([] | 1 | {})", r#"{"x":[]}"#),
    ]);
}

#[test]
fn how_often_has_to_be_known() {
    table(&[("_y: int, x: matchN(_y + 1, [1, 2]) & 1", "incomplete")]);
}

#[test]
fn equal_validators_are_one() {
    let text = "x: matchIf(bool, int, _) & matchIf(bool, int, _)";
    assert!(eval(text).ends_with("value matchIf(bool, int, _)"), "{}", eval(text));
}

#[test]
fn alternatives_cannot_be_gone_through() {
    table(&[
        ("_y: int | 1, x: [for v in _y {v}]", "incomplete"),
        ("_y: *1 | int, x: [for v in _y {v}]", "eval"),
        ("_y: [1] | 1, x: [for v in _y {v}]", "incomplete"),
    ]);
}

#[test]
fn only_what_is_selected_of_a_literal_has_to_end() {
    table(&[
        ("x: d: (x & {}).y", "incomplete"),
        ("x: d: (x & {}).d", "structural cycle"),
        ("x: {c: 3, d: (x & {b: 1}).c}", r#"{"x":{"c":3,"d":3}}"#),
        ("x: (x.#B & 1).z", "incomplete"),
    ]);
}

#[test]
fn a_definition_that_a_comprehension_adds_to_is_not_closed_yet() {
    table(&[("#B: {}, if #B.e {#B: {}}", "incomplete"), ("#B: {}, if #B.e {c: 1}", "eval")]);
}

#[test]
fn a_text_of_regular_fields_needs_no_others() {
    table(&[
        ("import \"encoding/json\"\ny: json.Marshal({#a!: 1, b: _h!: 2})", r#"{"y":"{\"b\":{}}"}"#),
        ("import \"encoding/json\"\ny: json.Marshal({a!: 1})", "incomplete"),
        ("import \"encoding/yaml\"\ny: yaml.Marshal({#a!: 1})", "incomplete"),
    ]);
}

#[test]
fn a_pattern_may_not_ask_for_what_it_might_constrain() {
    let compile = |text: &str| Program::compile("in.cue", text, &Packages::std()).is_ok();
    for text in [
        "[x]: int, x: \"x\"",
        "a: {[=~x]: int, x: \"x\"}",
        "a: {[\"\\(x)\"]: int, x: \"x\"}",
        "x: \"x\", {[x]: int}",
        "x: \"x\", if true {[x]: int}",
        "for k in [\"a\"] {[k]: 1}",
        "let x = \"a\", [x]: 1",
        "let L = {[x]: 1}, x: \"a\", b: L",
        "a: {[z.x]: 1, x: 3}, z: x: \"q\"",
        "a: X={[X.b]: 1, b: \"q\"}",
        "#A: {names: [\"a\"], [or(names)]: int}",
        "import \"strings\"\n[strings.MinRunes(2)]: int",
        "string: 1, [string]: int",
    ] {
        assert!(!compile(text), "{text}");
    }
    for text in [
        "a: {[x]: int}, x: \"x\"",
        "for k in [\"a\"] {b: {[k]: 1}}",
        "let x = \"a\", b: {[x]: 1}",
        "a: [{[x]: 1}], x: \"b\"",
        "a: {[X=string]: {n: X}}",
        "a: X={[string]: X.b, b: 1}",
        "#A: {names: [\"a\"], m: [or(names)]: int}",
        "import \"strings\"\na: [strings.MinRunes(2)]: int",
        "a: b: {[b]: 1}",
    ] {
        assert!(compile(text), "{text}");
    }
}

#[test]
fn a_default_that_is_marked_twice_is_marked() {
    table(&[
        ("a: **0 | 1", r#"{"a":0}"#),
        ("a: 1 | ***0", r#"{"a":0}"#),
        ("a: **0 | *1", "incomplete"),
        ("a: *(*0 | 2) | 1", r#"{"a":0}"#),
    ]);
    for text in ["a: **0", "a: *(*0) | 1"] {
        assert!(Program::compile("in.cue", text, &Packages::std()).is_err(), "{text}");
    }
}

#[test]
fn what_is_closed_has_to_be_known_first() {
    table(&[
        ("_y: {}, x: close({_y.z, a: 1, a: 2})", "incomplete"),
        ("_y: string, x: close({(_y): 1, b: 1}) & {b: 2}", "incomplete"),
        ("a: b, b: close({c}), c: a", r#"{"a":{},"b":{},"c":{}}"#),
        ("_y: {c: 1}, x: close({_y, b: 2}) & {d: 1}", "eval"),
    ]);
}

#[test]
fn an_operand_is_known_all_the_way_down() {
    table(&[
        ("a: {b: int} == null", "incomplete"),
        ("a: [int] == null", "incomplete"),
        ("_b: {c: {d: int}}, a: _b + 1", "incomplete"),
        ("a: [1] + {}", "eval"),
        ("a: {b: *1 | int, #c: int} == null", r#"{"a":false}"#),
    ]);
}

#[test]
fn an_index_waits_for_the_struct_it_is_of() {
    table(&[
        ("_x: {}, _z: {c: 2, _x.y}, f: _z[0]", "incomplete"),
        ("_z: {c: 2, if _ {}}, f: _z[0]", "incomplete"),
        ("_z: {c: 2}, f: _z[0]", "eval"),
    ]);
}

#[test]
fn embedded_literals_add_to_what_is_embedded_with_them() {
    table(&[("#B, #B: _, {#B: {x: 1}}", r#"{"x":1}"#)]);
}

#[test]
fn what_cannot_be_computed_yet_does_not_match_yet() {
    table(&[
        ("_c: _, x: matchN(1, [{}]) & {e: _c.d}", "incomplete"),
        ("_c: _, x: matchN(1, [{e: _c.d}, {}]) & {}", r#"{"x":{}}"#),
        ("_c: _, x: matchN(1, [{}, {}]) & {#e: _c.d}", "eval"),
        ("_c: _, x: matchIf({}, {a: 1}, {a: 2}) & {e: _c.d, a: 1}", "eval"),
        ("x: matchN(1, [[...{#C!: 1}], [...{}]]) & [{}]", r#"{"x":[{}]}"#),
    ]);
}

#[test]
fn a_bound_is_no_label() {
    table(&[("(=~1): 0", "incomplete"), ("(>5): 0", "incomplete")]);
}

#[test]
fn an_alternative_is_chosen_as_a_whole() {
    table(&[
        ("#A: {f: 1} | {f: 2}, y: (#A & {e: 1}).f", "eval"),
        ("#A: *{f: 1} | {f: 2}, y: (#A & {f: 2}).f", r#"{"y":2}"#),
        ("#A: {f: 1}, y: (#A & {e: 1}).f", r#"{"y":1}"#),
    ]);
}

#[test]
fn what_stands_in_a_definition_is_not_the_definition() {
    table(&[
        ("#B: {x: (#B & {}).d, ...}", "{}"),
        ("y: (y & 1).a", "eval"),
        ("d: {out: {a: d, a: 0}}.out", "eval"),
        ("x: {_ & _}", "incomplete"),
    ]);
}

#[test]
fn a_field_with_an_alias_binds_no_name_in_other_files() {
    let compile = |other: &str| {
        let files = [("a.cue", "package p\nX=a: 1\ny: [X, a]"), ("b.cue", other)];
        Program::compile_files(&files, &Packages::std())
    };
    assert!(compile("package p\nb: 1").is_ok());
    let error = compile("package p\nb: a").err().map(|errors| errors.to_string());
    assert!(error.is_some_and(|error| error.contains(r#"reference "a" not found"#)));
    assert!(compile("package p\nb: a\na: int").is_ok());
}

#[test]
fn alternatives_of_which_one_has_no_end_have_no_end() {
    table(&[
        ("c: [c | c]", "structural cycle"),
        ("c: [c | (1 & 2)]", "structural cycle"),
        ("d: 1 & 2 | {a: d}", "structural cycle"),
        ("d: 1 & 2 | {a: 1, a: 2}", "eval"),
        ("x: (1 & 2) | _|_", "user"),
        ("_y: int, x: (1 & 2) | {a: _y + 1} | {b: x}", "incomplete"),
    ]);
}

#[test]
fn what_contradicts_itself_has_no_fields_that_go_on_without_end() {
    table(&[
        ("c: 7, c: #B.x, #B: {x: (c & {}).out}", "eval"),
        ("z: ({in: int, out: in} & {in: (z & {}).e}).out", "eval"),
        ("a: {[_]: 1, b: (a.b & {}).z}", "eval"),
        ("a: b: a", "structural cycle"),
    ]);
}

#[test]
fn an_embedded_literal_closes_nothing_of_the_one_around_it() {
    table(&[
        ("a: {{b: close({c: 1})}, b: {e: 1}}", r#"{"a":{"b":{"e":1,"c":1}}}"#),
        ("a: {{b: close({c: 1})}, {b: {e: 1}}}", r#"{"a":{"b":{"c":1,"e":1}}}"#),
        ("_A: {b: #B}, #B: {c: 1}, a: {_A, b: {e: 1}}", r#"{"a":{"b":{"e":1,"c":1}}}"#),
        ("#B: {c: 1}, a: {{b: #B}, b: {e: 1}} & {b: f: 1}", "eval"),
        ("#B: {c: 1}, a: {{b: #B}} & {b: f: 1}", "eval"),
        ("a: {b: close({c: 1}), b: {e: 1}}", "eval"),
    ]);
}

#[test]
fn what_is_selected_from_waits_for_the_guards_that_may_add_to_it() {
    table(&[
        ("_t: bool, if _t {c: 1}, d: c.e, c: 1", "incomplete"),
        ("_t: false, if _t {c: 1}, d: c.e, c: 1", "eval"),
        ("_t: bool, if _t {e: 1}, d: c.e, c: 1", "eval"),
    ]);
}

#[test]
fn a_guard_that_would_declare_the_circle_it_asks_for_is_part_of_it() {
    table(&[
        ("c: c, if c {c: 1}", "cycle"),
        ("a: b, b: a, if a > 1 {a: 1}", "cycle"),
        ("a: {x: a.x}, if a.x {a: x: 1}", "cycle"),
        ("c: c, if c for x in 0 {c: c}", "cycle"),
        ("c: c, if c {d: 1}", "incomplete"),
        ("c: _, if c {c: 1}", "incomplete"),
        ("c: c, if c.d {c: 1}", "incomplete"),
        ("c: c, if c {if true {c: 1}}", "incomplete"),
        ("c: c, if c {c: 1, if true {d: 1}}", "cycle"),
    ]);
}

#[test]
fn a_pattern_that_leads_back_goes_on_while_something_else_feeds_it() {
    table(&[
        (
            "y: [string]: b: y, x: y, x: c: b: e: b: c: _",
            r#"{"y":{},"x":{"c":{"b":{"e":{"b":{"c":{"b":{}}}}}}}}"#,
        ),
        (
            "a: [string]: b: a, x: a, x: c: b: c: b: c: {}",
            r#"{"a":{},"x":{"c":{"b":{"c":{"b":{"c":{"b":{}}}}}}}}"#,
        ),
        (
            "y: [string]: b: c: y, x: y, x: c: y",
            r#"{"y":{},"x":{"c":{"b":{"c":{},"b":{"c":{}}}}}}"#,
        ),
        ("y: [string]: b: y, x: y, x: c: y", "structural cycle"),
        ("y: [string]: b: y, x: y, x: c: x", "structural cycle"),
        ("a: [string]: b: a, a: c: b: c: b: c: {}", "structural cycle"),
    ]);
}

#[test]
fn an_embedded_field_is_what_all_operands_make_of_it() {
    table(&[
        ("a: {#A: {d: int}, #A} & {#A: {d: 3}}", r#"{"a":{"d":3}}"#),
        ("a: {A, A: {d: int}} & {A: {d: 3}}", r#"{"a":{"A":{"d":3},"d":3}}"#),
        ("a: {A, A: {d: 1}}, a: {A: {e: 3}}", r#"{"a":{"A":{"d":1,"e":3},"d":1,"e":3}}"#),
        ("a: {#A: {d: true}, #A} & {#A: {d: false}}", "eval"),
        ("a: {A: B: {d: int}, A.B} & {A: B: {d: 3}}", r#"{"a":{"A":{"B":{"d":3}},"d":3}}"#),
    ]);
}

#[test]
fn what_the_first_operand_of_a_choice_decides_leaves_the_second_any_kind() {
    table(&[
        ("x: true || 1, y: false && 1", r#"{"x":true,"y":false}"#),
        ("x: false || 1", "eval"),
        ("x: true && 1", "eval"),
        ("x: 1 || true", "eval"),
        ("_y: _, x: true || _y", "incomplete"),
    ]);
}

#[test]
fn what_is_selected_from_a_unification_waits_for_all_operands() {
    table(&[
        ("_d: {...}, x: ({a: 1} & _d.e).a", "incomplete"),
        ("_l: 1, x: (_l.#B & {a: 1}).a", "incomplete"),
        ("_l: _, x: ({a: 1, _l.b}).a", "incomplete"),
        ("_l: {b: {}}, x: ({a: 1, _l.b}).a", r#"{"x":1}"#),
    ]);
}

#[test]
fn a_struct_that_waits_is_no_argument_yet() {
    table(&[
        (
            "import \"strings\"\n_t: bool, _x: {if _t {b: 1}}, d: strings.TrimPrefix(_x, 1)",
            "incomplete",
        ),
        ("import \"strings\"\n_x: {b: 1}, d: strings.TrimPrefix(_x, 1)", "eval"),
        ("import \"strings\"\n_x: _, d: strings.TrimPrefix(_x, 1)", "eval"),
    ]);
}

#[test]
fn a_comparator_is_unified_with_the_elements_it_compares() {
    let sorted = |list: &str, cmp: &str| format!("import \"list\"\na: list.Sort({list}, {cmp})");
    let structs = "[{n: 2, k: \"a\"}, {n: 1}]";
    let by_n = r#"{"a":[{"n":1},{"n":2,"k":"a"}]}"#;
    for cmp in [
        "{x: {}, y: {}, less: x.n < y.n}",
        "{x: _, y: _, less: x.n < y.n}",
        "{T: {n: int, ...}, x: T, y: T, less: x.n < y.n}",
        "{list.Comparer, x: {}, y: {}, less: x.n < y.n}",
        "{x: {n: int}, y: {n: int}, let N = y.n, less: x.n < N}",
    ] {
        table(&[(&sorted(structs, cmp), by_n)]);
    }
    table(&[
        (&sorted("[3, 1, 2.5]", "list.Ascending"), r#"{"a":[1,2.5,3]}"#),
        (&sorted("[3, \"a\"]", "list.Descending"), "eval"),
        (&sorted("[3, {}]", "list.Descending"), "eval"),
        (&sorted("[{n: 1}, {n: 2}]", "{x: n: string, y: {}, less: x.n > y.n}"), "eval"),
        (&sorted("[2, 1, 3]", "{x: int, x: <9, y: int, less: x < y}"), r#"{"a":[1,2,3]}"#),
    ]);
}

#[test]
fn a_guard_that_adds_no_field_is_part_of_every_selection() {
    table(&[
        ("a: [*c.x | 5, 1], c: {if 1 {}}", "eval"),
        ("_t: int, c: {if _t > 1 {}}, a: c.x", "incomplete"),
    ]);
    let class = |text: &str, path: &str| {
        let program = Program::compile("in.cue", text, &Packages::std());
        let mut evaluation = program.expect("it compiles").evaluate(&[], &crate::Limits::default());
        let root = evaluation.root();
        let node = evaluation.lookup(root, path).expect("there is a field");
        evaluation.error(node).map(|errors| errors.class().name())
    };
    assert_eq!(class("a: c.x\nc: {if 1 {}}", "a"), Some("eval"));
    assert_eq!(class("a: c.x\nc: {for k in 1 {}}", "a"), Some("eval"));
    assert_eq!(class("a: c.x\nc: {if 1 {b: 1}}", "a"), Some("incomplete"));
}

#[test]
fn an_alternative_may_be_unknown_below_its_fields() {
    table(&[
        ("b: {d: 1} | {c: _t + 1}, _t: int", r#"{"b":{"d":1}}"#),
        ("b: {d: 1} | {c: {if _t > 1 {d: 1}}}, _t: int", r#"{"b":{"d":1}}"#),
        ("b: {d: 1} | {c: 1 & (_t + 1)}, _t: int", r#"{"b":{"d":1}}"#),
        ("b: {d: 1} | {c: d: _t + 1}, _t: int", "incomplete"),
        ("b: {d: 1} | {c: 1 | _t + 1}, _t: int", "incomplete"),
        ("b: {d: 1} | {c: [_t + 1]}, _t: int, x: [if b.d != _|_ {1}]", "incomplete"),
        ("b: 1 | {c?: _t + 1}, b: {...}, _t: int", r#"{"b":{}}"#),
        ("#b: 1 | {c: d: _t + 1}, #b: {...}, _t: int, x: len(#b)", r#"{"x":1}"#),
        ("#b: 1 | [[_t + 1]], #b: [...], _t: int, x: len(#b)", r#"{"x":1}"#),
        ("#b: 1 | [_t + 1], #b: [...], _t: int, x: len(#b)", "incomplete"),
    ]);
}

#[test]
fn a_test_finds_what_may_be_a_struct_whatever_else_is_said_of_it() {
    table(&[
        ("#y: matchN(1, [_]), x: #y != _|_", r#"{"x":true}"#),
        ("#y: !=null, x: #y != _|_", r#"{"x":true}"#),
        ("#y: matchN(1, [_]) & int, x: #y != _|_", r#"{"x":false}"#),
        ("#y: !=1, x: #y != _|_", r#"{"x":false}"#),
    ]);
}

#[test]
fn a_validator_looks_at_what_is_known_as_a_whole_only() {
    table(&[
        ("_y: {}, z: matchN(2, []) & _y.x & {}", "incomplete"),
        ("_y: {}, z: matchN(2, []) & {}", "eval"),
        ("_y: {}, z: >5 & 1 & _y.x", "eval"),
    ]);
}

#[test]
fn what_is_no_list_has_no_elements_whoever_asks() {
    table(&[("y: y[0] & 2", "eval"), ("x: x[0], y: 2, [_]: y", "eval")]);
}

#[test]
fn a_comprehension_adds_what_it_has_seen_to_be_absent_only_if_it_adds_anything() {
    table(&[
        ("b: {z?: 1, if z == _|_ {for k in [] {z: 3}}}", r#"{"b":{}}"#),
        ("b: {z?: 1, if z == _|_ {if false {z: 1}}}", r#"{"b":{}}"#),
        ("b: {z?: 1, if z == _|_ {z: 1}}", "cycle"),
    ]);
}

#[test]
fn anything_said_twice_is_anything() {
    table(&[
        ("#D: _ | _, #x: {#D}, y: #x & 3", r#"{"y":3}"#),
        ("#x: {_ | _}, y: #x & 3", r#"{"y":3}"#),
    ]);
}

#[test]
fn a_let_of_a_comprehension_need_not_be_used() {
    table(&[
        ("x: [for v in [1] let w = v {v}]", r#"{"x":[1]}"#),
        ("if true let z = 1 {a: 1}", r#"{"a":1}"#),
        ("x: {for v in [1] let w = y if w > 0 {a: v}}, y: 2", r#"{"x":{"a":1},"y":2}"#),
    ]);
    for text in ["x: {for v in [1] {let w = v, a: v}}", "x: [for v in [1] let w = z {v}]"] {
        assert!(Program::compile("in.cue", text, &Packages::std()).is_err(), "{text}");
    }
}
