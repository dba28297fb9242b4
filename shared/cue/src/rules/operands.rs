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
