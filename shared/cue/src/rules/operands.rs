//! What an expression is made of on the way to its value: operands, arguments and what is selected from.

use super::table;

#[test]
fn a_unification_in_a_list_that_an_expression_is_made_of_counts_as_a_whole() {
    table(&[
        ("#C: {}\nx: [(#C & {b: 0}).b][0] + 1", "eval"),
        ("for v in [(close({}) & {b: 0}).b] {x: v}", "eval"),
        ("for v in [({a: 1 & 2, b: 1} & {}).b] {x: v}", "eval"),
        ("for v in [{a: 1 & 2, b: 1}.b] {x: v}", r#"{"x":1}"#),
        ("#C: {}\nx: [(#C & {b: 0}).b]", r#"{"x":[0]}"#),
        ("#C: {}\nx: (#C & {b: 0}).b + 1", r#"{"x":1}"#),
    ]);
}

#[test]
fn what_is_inside_of_operands_counts_when_there_are_two_values() {
    table(&[
        ("x: int, a: x + {f: 1 & 2}", "incomplete"),
        ("x: int, a: {f: 1 & 2} + x", "incomplete"),
        ("x: int, a: x == [1 & 2]", "incomplete"),
        ("x: int, a: [x] + [1 & 2]", "incomplete"),
        ("x: int, a: [1 & 2] + [x]", "eval"),
        ("a: (2 | 3) div {f: 1 & 2}", "incomplete"),
        ("a: 3 == {f: 1 & 2}", "eval"),
    ]);
}

#[test]
fn what_is_selected_from_waits_for_the_guards_and_names_of_its_struct() {
    table(&[
        ("y: {a: 1, if _b {c: 1}}.a, _b: bool", "incomplete"),
        ("y: {a: 1, if _b {}}.a, _b: _", "incomplete"),
        ("y: {a: 1, (_b): 1}.a, _b: string", "incomplete"),
        ("y: {a: 1, for x in _b {c: 1}}.a, _b: _", "incomplete"),
        ("y: ({a: 1, if _b {c: 1}} & {d: 1}).a, _b: bool", "incomplete"),
        ("y: (_A & {a: 1}).a, _A: {b: bool, a: int, if b {c: 1}}", "incomplete"),
        ("y: (_A & {b: true}).a, _A: {b: bool, a: 1, if b {c: 1}}", r#"{"y":1}"#),
        ("y: {b: bool, a: {d: 1, if b {c: 1}}}.a.d", r#"{"y":1}"#),
        ("y: {a: 1, c: 1, if _b {c: 1}}.a, _b: bool", r#"{"y":1}"#),
        ("y: ({a: 1, if _b {c: 1}} & {c?: 1}).a, _b: bool", r#"{"y":1}"#),
        ("y: ({a: 1, if _b {c: 1}} & _A).a, _A: {a: 1, c: 1}, _b: bool", r#"{"y":1}"#),
        ("y: ({a: 1, if _b {c: 1}} & close({a: 1})).a, _b: bool", "incomplete"),
        ("y: (_A & {o: _}).o, _A: matchN(1, [{r!: int}])", "incomplete"),
    ]);
}

#[test]
fn what_is_selected_from_a_contradiction_waits_for_nothing() {
    table(&[
        ("y: (1 & {a: 1, if _b {}}).a, _b: _", "eval"),
        ("y: (1 & {a: 1, (_b): 1}).c, _b: string", "eval"),
        ("y: (1 & {a: 1} & _r.z).a, _r: {}", "eval"),
        ("y: (1 & _r.z).a, _r: {}", "incomplete"),
    ]);
}

#[test]
fn a_guard_may_wait_for_what_stands_in_a_literal() {
    table(&[
        ("if {a: b + 1}.a > 0 {c: 1}\nb: _", "incomplete"),
        ("x: {if {a: {d: b + 1}.d}.a > 0 {b: 1}}\nb: _", "incomplete"),
        ("if {a: true, if b {}}.a {c: 1}\nb: _", "incomplete"),
    ]);
}
