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

#[test]
fn what_is_no_list_of_schemas_matches_nothing() {
    table(&[
        ("x: matchN(0, 1) & 5", "eval"),
        ("x: matchN(0, {a: 1}) & {b: 1}", "eval"),
        ("x: matchN(0, null) & 5", "eval"),
        ("#L: string\nx: matchN(0, #L) & 5", "eval"),
        ("#L: _\nx: matchN(0, #L) & 5", "eval"),
        ("#L: [1] | 2\nx: matchN(0, #L) & 5", "eval"),
        ("#L: *[1] | 2\nx: matchN(0, #L) & 5", r#"{"x":5}"#),
        ("#L: *[5] | 2\nx: matchN(1, #L) & 5", r#"{"x":5}"#),
        ("#L: [...int]\nx: matchN(0, #L) & 5", r#"{"x":5}"#),
        ("x: matchN(0, [for i in [1, 2] {i}]) & 5", r#"{"x":5}"#),
        ("x: matchN(1.0, [5]) & 5", "eval"),
        ("x: matchN(number, [1]) & 5", r#"{"x":5}"#),
        ("x: matchN(0, 1)", "incomplete"),
    ]);
}

#[test]
fn a_unification_by_a_function_is_computed_for_a_field_only() {
    table(&[
        ("a: and([1, int])\nb: a + 1", r#"{"a":1,"b":2}"#),
        ("a: and([1, int]) + 1", "incomplete"),
        ("a: and([1, 2]) + 1", "incomplete"),
        ("a: \"\\(and([\"x\"]))\"", "incomplete"),
        ("a: and([{a: 1}, {b: 2}]).b", "incomplete"),
        ("a: [for x in and([[1, 2]]) {x}]", "incomplete"),
        ("if and([true]) {b: 1}", "incomplete"),
        ("a: close(and([{a: 1}]))", "eval"),
        ("a: [1, 2][and([1])]", "eval"),
        ("a: and(5) + 1", "eval"),
        ("a: (and([1]) & int) + 1", r#"{"a":2}"#),
        ("a: [and([1, int])][0] + 1", r#"{"a":2}"#),
        ("a: *and([1]) | 2", r#"{"a":1}"#),
        ("import \"strings\"\na: strings.ToUpper(and([\"a\"]))", r#"{"a":"A"}"#),
        ("a: or([1]) + 1", r#"{"a":2}"#),
    ]);
}

#[test]
fn a_struct_in_an_argument_has_its_length_whatever_is_said_of_the_fields_it_has() {
    table(&[
        ("a: len({c: 1, if _ {c: 1}})", r#"{"a":1}"#),
        ("a: len({c: 1, if _ {c: 1, d: 2}, d: 1})", r#"{"a":2}"#),
        ("a: len({c: 1, for x in _ {c: 1}})", r#"{"a":1}"#),
        ("a: len({c?: 1, if _ {c: 1}})", r#"{"a":0}"#),
        ("a: len({#C: 1, if _ {#C: 1}})", r#"{"a":0}"#),
        ("a: len({c: 1, if _ {}})", "incomplete"),
        ("a: len({c: 1, if _ {b: 1}})", "incomplete"),
        ("a: len({c: 1, \"\\(_)\": 1})", "incomplete"),
    ]);
}

#[test]
fn the_default_of_a_choice_of_library_functions_can_be_called() {
    table(&[
        ("import \"strings\"\nx: (*strings.ToUpper | 1)(\"abc\")", r#"{"x":"ABC"}"#),
        ("import \"strings\"\n_y: *strings.ToUpper | 1\nx: _y(\"abc\")", r#"{"x":"ABC"}"#),
        ("import \"strings\"\nx: (*strings.MinRunes | 1)(\"abc\", 2)", r#"{"x":true}"#),
    ]);
}

#[test]
fn nested_lists_are_flattened_with_the_defaults_of_their_elements() {
    table(&[
        ("import \"list\"\nx: list.FlattenN([1 | *[]], 1)", r#"{"x":[]}"#),
        ("import \"list\"\nx: list.FlattenN([1 | *[3]], 1)", r#"{"x":[3]}"#),
        ("import \"list\"\nx: list.FlattenN([[*1 | 2]], 1) & [2]", "eval"),
        ("import \"list\"\nx: list.FlattenN([*[*[1] | 3] | 2], -1)", r#"{"x":[1]}"#),
        ("import \"list\"\nx: list.FlattenN([1 | [3]], 1) & [1]", r#"{"x":[1]}"#),
    ]);
}

#[test]
fn a_text_without_any_yaml_document_is_null_by_default_only() {
    let of = |text: &str| format!("import \"encoding/yaml\"\n{text}");
    for (text, expected) in [
        ("x: yaml.Unmarshal(\"\")", r#"{"x":null}"#),
        ("x: yaml.Unmarshal(\"# c\") & 3", r#"{"x":3}"#),
        ("x: yaml.Unmarshal(\"\") & {a: 1}", r#"{"x":{"a":1}}"#),
        ("x: yaml.UnmarshalStream(\"\") & [{a: 1}]", r#"{"x":[{"a":1}]}"#),
        ("x: yaml.Unmarshal(\"\") == null", r#"{"x":true}"#),
        ("x: yaml.Unmarshal(\"---\\n\") & 3", "eval"),
        ("x: yaml.Unmarshal(\"null\") & 3", "eval"),
    ] {
        table(&[(of(text).as_str(), expected)]);
    }
}

#[test]
fn a_yaml_text_without_documents_is_judged_by_what_is_read_from_it() {
    let judged = |text: &str, schema: &str| {
        format!("import \"encoding/yaml\"\nx: {text} & yaml.Validate({schema})")
    };
    for schema in ["_", "null", "1", "*1 | int", "{a: 1}", "[...]"] {
        table(&[(&judged("\"\"", schema), r#"{"x":""}"#)]);
    }
    for schema in ["int", "string", "1 | 2", "{a: int}"] {
        table(&[(&judged("\"\"", schema), "eval")]);
    }
    table(&[
        (&judged("\"...\"", "_"), "eval"),
        ("import \"encoding/yaml\"\nx: \"\" & yaml.ValidatePartial(int)", r#"{"x":""}"#),
    ]);
}

#[test]
fn a_list_is_searched_for_definitions_and_hidden_fields_too() {
    let cases = [
        ("[{a: 1, _h: 2}], {a: 1}", false),
        ("[{a: 1, #h: 2}], {a: 1}", false),
        ("[{a: 1}], {a: 1, #h: 2}", false),
        ("[{a: {b: 1, _h: 2}}], {a: b: 1}", false),
        ("[[1, {_h: 1}]], [1, {}]", false),
        ("[{1, #h: 2}], 1", false),
        ("[{a: 1, _h: 2}], {a: 1, _h: 2}", true),
        ("[{a: 1, #h?: 2}], {a: 1}", true),
        ("[{a: 1}], close({a: 1})", true),
    ];
    for (arguments, found) in cases {
        let text = format!("import \"list\"\nx: list.Contains({arguments})");
        table(&[(text.as_str(), if found { r#"{"x":true}"# } else { r#"{"x":false}"# })]);
    }
}

#[test]
fn an_element_of_which_another_alternative_than_the_default_will_do_is_not_chosen_yet() {
    table(&[
        ("import \"list\"\nx: list.Min([*\"a\" | 1])", "incomplete"),
        ("import \"list\"\nx: list.Min([1 | *{}])", "incomplete"),
        ("import \"list\"\nx: list.Min([*1 | {}])", r#"{"x":1}"#),
        ("import \"list\"\nx: list.Min([*\"a\" | {}])", "eval"),
        ("import \"strings\"\nx: strings.Join([*1 | \"a\"], \"\")", "incomplete"),
    ]);
}

#[test]
fn optional_fields_make_no_difference_to_what_lists_contain() {
    table(&[
        ("import \"list\"\nx: list.Contains([{a: int}], {a: int, b?: string})", r#"{"x":true}"#),
        ("import \"list\"\nx: list.Contains([{a: int, b?: 1}], {a: int})", r#"{"x":true}"#),
        ("import \"list\"\nx: list.Contains([{a: {c: int, b?: 1}}], {a: c: int})", r#"{"x":true}"#),
        ("import \"list\"\nx: list.Contains([{a: int}], {a: int, b!: string})", r#"{"x":false}"#),
        ("import \"list\"\nx: list.Contains([{a: int}], {a: int, #b: string})", r#"{"x":false}"#),
        ("import \"list\"\nx: list.Contains([{a: int}], {a: string})", r#"{"x":false}"#),
        (
            "import \"list\"\nx: len([if list.UniqueItems([{a: int}, {a: int, b?: 1}]) {1}])",
            r#"{"x":0}"#,
        ),
        (
            "import \"list\"\nx: len([if list.UniqueItems([{a: int}, {a: int, #b: 1}]) {1}])",
            r#"{"x":0}"#,
        ),
        (
            "import \"list\"\nx: len([if list.UniqueItems([{a: int}, {a: int, b!: 1}]) {1}])",
            r#"{"x":1}"#,
        ),
    ]);
}

#[test]
fn of_a_list_the_first_element_counts_that_is_not_known_or_of_the_wrong_kind() {
    let with = |text: &str| {
        format!(
            "import \"list\"\nimport \"strings\"\n_x: int\n_y: {{}}\n_u: strings.Join([], \"\")\n_v: list.Sum([])\n{text}"
        )
    };
    for (text, expected) in [
        ("a: list.Sum([_x, \"a\"])", "incomplete"),
        ("a: list.Sum([1, _x, \"a\"])", "incomplete"),
        ("a: list.Sum([_y.z, \"a\"])", "incomplete"),
        ("a: list.Sum([1 | 2, \"a\"])", "incomplete"),
        ("a: list.Sum([[if _ {}], \"a\"])", "incomplete"),
        ("a: list.Sum([for x in [_x, \"a\"] {x}])", "incomplete"),
        ("a: strings.Join([string, 1], \"\")", "incomplete"),
        ("a: strings.Join([_, 1], \"\")", "incomplete"),
        ("a: list.Sum([\"a\", _x])", "eval"),
        ("a: strings.Join([_x, string], \"\")", "eval"),
        ("a: list.Sum([*1 | 2, string])", "eval"),
        ("a: list.Sum([[_x], string])", "eval"),
        // A contradiction is one wherever it stands.
        ("a: list.Sum([_x, 1 & 2])", "eval"),
    ] {
        table(&[(&with(text), expected)]);
    }
}

#[test]
fn what_a_function_computes_has_no_field_yet_that_its_arguments_test() {
    let with = |text: &str| {
        format!(
            "import \"list\"\nimport \"regexp\"\nimport \"strings\"\n_u: strings.Join([], \"\")\n_v: list.Sum([])\n_w: regexp.Match(\"\", \"\")\n{text}"
        )
    };
    for (text, expected) in [
        ("h: list.Take([if h.x == _|_ {1}], 1)", r#"{"h":[1]}"#),
        ("h: list.Sum([if h.x == _|_ {1}])", r#"{"h":1}"#),
        ("h: list.Sum([if h.x != _|_ {1}])", r#"{"h":0}"#),
        ("h: list.Sum([for x in [1] if h.x == _|_ {x}])", r#"{"h":1}"#),
        ("h: len([if h.x == _|_ {1}])", r#"{"h":1}"#),
        ("h: list.Contains([h.x == _|_], true)", r#"{"h":true}"#),
        ("h: strings.Join([if h.x == _|_ {\"a\"}], \"\")", r#"{"h":"a"}"#),
        ("h: list.Max([if h.y != _|_ {}, [3]][0])", r#"{"h":3}"#),
        ("h: a: list.Max([if h.a.y != _|_ {}, [3]][0])", r#"{"h":{"a":3}}"#),
        ("h: list.Max([if g.y != _|_ {}, [3]][0]), g: h", r#"{"h":3,"g":3}"#),
        ("h: list.Concat([[if h.y == _|_ {1}], [3]])", r#"{"h":[1,3]}"#),
        ("h: strings.Join([if h == _|_ {\"a\"}], \"\")", "cycle"),
        ("h: regexp.Match(\"\", [if h.b != _|_ {}, \"\"][0])", r#"{"h":true}"#),
    ] {
        table(&[(&with(text), expected)]);
    }
}
