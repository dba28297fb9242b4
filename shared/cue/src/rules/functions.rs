//! Rules about functions: they are values that may have another name.

use super::table;

#[test]
fn functions_of_conjuncts_can_be_called_by_another_name() {
    table(&[
        ("#f: close\na: #f({b: 1})", r#"{"a":{"b":1}}"#),
        ("#f: close\na: #f({b: 1}) & {c: 1}", "eval"),
        ("#f: close\na: #f({b: 1}, 2)", "eval"),
        ("#f: close\na: #f(1)", "eval"),
        ("#f: close\na: #f({b: 1}).b", r#"{"a":1}"#),
        ("#f: {g: close}\na: {#f.g({b: 1})} & {b: int}", r#"{"a":{"b":1}}"#),
        ("#f: *close | len\na: #f({b: 1}) & {c: 1}", "eval"),
        ("#f: close & _\na: #f({b: 1})", r#"{"a":{"b":1}}"#),
        ("#f: close | int\na: #f({b: 1})", "eval"),
        ("#f: and\na: #f([1, int])", r#"{"a":1}"#),
        ("#f: and\na: #f([a, 1])", r#"{"a":1}"#),
        ("#f: or\na: #f([1, 2]) & 1", r#"{"a":1}"#),
        ("#f: or\na: #f([1, 2])", "incomplete"),
        ("#f: close\na: b: #f(a)", "structural cycle"),
    ]);
}
