//! Small cases of the evaluator, by concern. The conformance material covers the rest.

use crate::{Answer, Call, Evaluation, Host, Kind, Limits, Packages, Program, Tree, Value};
use expect_test::{Expect, expect};

/// Exports a text, errors as the reference prints them.
pub(crate) fn eval(text: &str) -> String {
    let program = match Program::compile("in.cue", text, &Packages::std()) {
        Ok(program) => program,
        Err(errors) => return errors.to_string(),
    };
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    match evaluation.export(root) {
        Ok(value) => value.to_json_text(),
        Err(errors) => format!("{}: {errors}", errors.class().name()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the macro makes it on the spot")]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&eval(text));
}

#[test]
fn scalars_meet() {
    check("a: int & 1, b: >=1 & <5 & 3", expect![[r#"{"a":1,"b":3}"#]]);
    check("a: 1 & 2", expect!["eval: a: conflicting values 2 and 1"]);
    check(
        r#"a: 1 & "x""#,
        expect![[r#"eval: a: conflicting values 1 and "x" (mismatched types int and string)"#]],
    );
    check("a: >=1 & <=1, b: a + 1", expect![[r#"{"a":1,"b":2}"#]]);
    check("a: 5 & >7", expect!["eval: a: invalid value 5 (out of bound >7)"]);
}

#[test]
fn defaults() {
    check("a: *1 | int, b: a + 1", expect![[r#"{"a":1,"b":2}"#]]);
    check("a: *1 | int, a: 3", expect![[r#"{"a":3}"#]]);
    check(
        r#"a: *"x" | "y" | "z", a: !="x""#,
        expect![[r#"incomplete: a: incomplete value "y" | "z""#]],
    );
    check("a: *42 | _, a: *43 | bool", expect![[r#"{"a":43}"#]]);
    check("y: {}, a: *y.z | 1", expect![[r#"{"y":{},"a":1}"#]]);
}

#[test]
fn a_default_waits_for_the_guards_that_may_override_it() {
    check(
        "p: x: true\nout: {_f: bool | *false, if p.x {if p.x {_f: true}}, if !_f {a: 1}, if _f {b: 2}}",
        expect![[r#"{"p":{"x":true},"out":{"b":2}}"#]],
    );
}

#[test]
fn late_binding_and_lets() {
    check(
        "t: {n: int, m: n + 1}, a: t & {n: 1}, t: n: *0 | int",
        expect![[r#"{"t":{"n":0,"m":1},"a":{"n":1,"m":2}}"#]],
    );
    check(
        r#"for v in ["a", "b"] {let w = v, (w): x: w}"#,
        expect![[r#"{"a":{"x":"a"},"b":{"x":"b"}}"#]],
    );
    check("x: 3, l: [x], all: [for v in l {v}]", expect![[r#"{"x":3,"l":[3],"all":[3]}"#]]);
}

#[test]
fn presence() {
    check(
        "p: {a?: int, b: string, c: 1}\nr: [p.a != _|_, p.b != _|_, p.c != _|_, p.d.e == _|_]\np: b: \"x\"",
        expect![[r#"{"p":{"b":"x","c":1},"r":[false,true,true,true]}"#]],
    );
}

#[test]
fn closedness() {
    check("#A: {a?: int}, x: #A & {b: 1}", expect!["eval: x.b: field not allowed"]);
    check("#A: {a?: int}, x: {#A, b: 1}", expect![[r#"{"x":{"b":1}}"#]]);
    check("#A: {a?: int}, x: {#A, b: 1}, y: x & {c: 1}", expect!["eval: y.c: field not allowed"]);
    check("#A: {a: int, ...}, x: #A & {a: 1, b: 1}", expect![[r#"{"x":{"a":1,"b":1}}"#]]);
    check("x: close({a: 1}) & {b: 1}", expect!["eval: x.b: field not allowed"]);
    check("p: *{a: 1} | close({l: [...]}), p: {l: [1]}", expect![[r#"{"p":{"l":[1],"a":1}}"#]]);
}

#[test]
fn cycles() {
    check("a: b, b: c, c: a, c: 1", expect![[r#"{"a":1,"b":1,"c":1}"#]]);
    check("a: b + 1, b: a - 1, a: 5", expect![[r#"{"a":5,"b":4}"#]]);
    check("a: b: a", expect!["structural cycle: a.b: structural cycle"]);
    check(
        "#L: null | {next: #L}, x: #L & {next: next: null}",
        expect![[r#"{"x":{"next":{"next":null}}}"#]],
    );
    check(
        "f: {n: int, out: n + (f & {n: 1}).out}, x: (f & {n: 2}).out",
        expect!["structural cycle: f: structural cycle (and 1 more errors)"],
    );
}

#[test]
fn texts_are_escaped_in_json() {
    let text = r#"
        import "encoding/json"

        a: "q\" b\\ t\t e\u001b \u2028 \u2029 \u2027 é\b\f\n\r"
        b: json.Marshal("\u2028 \u2027\n\(a)")
        c: ""
    "#;
    let value: serde_json::Value = serde_json::from_str(&eval(text)).unwrap();
    let a = "q\" b\\ t\t e\u{1b} \u{2028} \u{2029} \u{2027} é\u{8}\u{c}\n\r";
    assert_eq!(value["a"], a);
    assert_eq!(value["c"], "");
    let b = r#""\u2028 \u2027\n"#.replace(r"\u2027", "\u{2027}");
    let marshalled = value["b"].as_str().unwrap();
    assert!(marshalled.starts_with(&b) && !marshalled.contains('\u{2029}'), "{marshalled}");
    let again: String = serde_json::from_str(marshalled).unwrap();
    assert_eq!(again, format!("\u{2028} \u{2027}\n{a}"));
}

#[test]
fn lists() {
    check("a: [1, ...int] & [_, 2]", expect![[r#"{"a":[1,2]}"#]]);
    check("a: [1] & [1, 2]", expect!["eval: a: incompatible list lengths (1 and 2)"]);
    check("a: [1, 2] + [3], b: [0] * 2", expect![[r#"{"a":[1,2,3],"b":[0,0]}"#]]);
}

#[test]
fn limits_are_errors_of_their_own() {
    let program = Program::compile("in.cue", r#"a: *("x" * 1000000000) | 1"#, &Packages::std());
    let mut evaluation = program.unwrap().evaluate(&[], &Limits::default());
    let root = evaluation.root();
    let errors = evaluation.export(root).unwrap_err();
    assert_eq!(errors.class(), crate::Class::Limit);
}

/// What an expression came to, without a limit of time: what ends it is what it is charged for.
fn ends(text: &str) -> Result<(Value, u64), crate::Errors> {
    let program = Program::compile("in.cue", text, &Packages::std())?;
    let limits = Limits { time: None, ..Limits::default() };
    let mut evaluation = program.evaluate(&[], &limits);
    let root = evaluation.root();
    let value = evaluation.export(root)?;
    Ok((value, evaluation.steps()))
}

#[test]
fn a_search_that_cannot_be_paid_for_is_an_error_and_no_answer() {
    let large = format!("a{}[^ab]", "[ab]{300}".repeat(100));
    let too_large = format!("a{}[^ab]", "[ab]{1000}".repeat(100));
    let unicode = r"(\\pL{100}){5}";
    for (text, error) in [
        (format!("x: 51000*\"ab\" =~ \"{large}\""), "more steps"),
        (format!("x: 51000*\"ab\" !~ \"{large}\""), "more steps"),
        (format!("x: 51000*\"ab\", x: !~\"{large}\""), "more steps"),
        (
            format!("x: *\"none\" | string, x: 51000*\"ab\" & =~\"{large}\" | *\"none\""),
            "more steps",
        ),
        (format!("if 51000*\"ab\" !~ \"{large}\" {{x: 1}}"), "more steps"),
        (format!("x: 51000*\"ab\" =~ \"{too_large}\""), "expression is larger"),
        (format!("x: \"a\" !~ \"{too_large}\""), "expression is larger"),
        (format!("x: [for i in [1, 2] {{\"x\" =~ \"\\(i){unicode}\"}}]"), "expression is larger"),
        (format!("import \"regexp\"\nx: regexp.Match(\"{large}\", 51000*\"ab\")"), "more steps"),
        (format!("import \"regexp\"\nx: regexp.Find(\"{large}\", 51000*\"ab\")"), "more steps"),
        (
            format!("import \"regexp\"\nx: regexp.FindAll(\"{large}\", 51000*\"ab\", -1)"),
            "more steps",
        ),
        (
            format!("import \"regexp\"\nx: regexp.FindSubmatch(\"{large}\", 51000*\"ab\")"),
            "more steps",
        ),
        (
            format!("import \"regexp\"\nx: regexp.ReplaceAll(\"{large}\", 51000*\"ab\", \"\")"),
            "more steps",
        ),
        (format!("import \"regexp\"\nx: regexp.Valid(\"{too_large}\")"), "expression is larger"),
        // For every match the rest is searched for a better one.
        (
            "import \"regexp\"\nx: regexp.FindAll(\"[a-z]*[0-9]|[a-z]\", 20000*\"a\", -1)"
                .to_owned(),
            "more steps",
        ),
        (
            "import \"regexp\"\nx: regexp.ReplaceAll(\".*\", 1000000*\"a\", 10000*\"$0\")"
                .to_owned(),
            "longer",
        ),
    ] {
        let errors = ends(&text).unwrap_err();
        assert_eq!(errors.class(), crate::Class::Limit, "{text}: {errors}");
        assert!(errors.to_string().contains(error), "{text}: {errors}");
    }
}

#[test]
fn what_templates_search_for_costs_little() {
    for (text, most) in [
        (r#"x: "8Gi" =~ "^[1-9][0-9]{0,63}(Ki|Mi|Gi)$""#, 500),
        (r#"x: "my-app-1" =~ "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$""#, 500),
        (r#"x: "my-app-1" =~ "(?i)^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$""#, 2_000),
        (
            r#"x: "-----BEGIN CERTIFICATE-----\n" + 20000*"QUJDREVGR0g=" =~ "^-----BEGIN [A-Z ]+-----""#,
            20_000,
        ),
        (r#"import "regexp", x: len(regexp.FindAll("[^,]+", 20000*"some-name,", -1))"#, 1_000_000),
    ] {
        let (_, steps) = ends(text).unwrap();
        assert!(steps < most, "{text}: {steps}");
    }
}

/// Found by fuzzing: products of alternatives that are structs. A limit ends
/// them, also where one disjunction stands twice.
#[test]
fn products_of_structs_end_at_a_limit() {
    let choice =
        |n: usize| format!("d{n}: {{k0: int}} | {{k1: int}} | {{k2: int}} | {{k3: int}}\n");
    let disjunctions: String = (0..8).map(choice).collect();
    for product in
        ["d0 & d1 & d2 & d3 & d4 & d5 & d6 & d7", "d0 & d1 & d3 & d3 & d4 & d5 & d6 & d7"]
    {
        let text = format!("{disjunctions}x: {product}\n");
        let program = Program::compile("in.cue", &text, &Packages::std()).unwrap();
        let limits = Limits { steps: 20_000, time: None, ..Limits::default() };
        let mut evaluation = program.evaluate(&[], &limits);
        let root = evaluation.root();
        let errors = evaluation.export(root).unwrap_err();
        assert_eq!(errors.class(), crate::Class::Limit);
    }
}

/// Found by fuzzing: what a bound compares with contains the bound.
#[test]
fn a_bound_within_its_operand_is_shown_in_part() {
    check("a: b: !=a", expect!["incomplete: a.b: incomplete value !={b:!={b:...}}"]);
    check("a: [!=a]", expect!["incomplete: a.0: incomplete value !=[!=[...]]"]);
    // Each of them would show all of them.
    let fields: String = (0..40).map(|n| format!("f{n}: !=a\n")).collect();
    let text = eval(&format!("a: {{\n{fields}}}"));
    assert!(
        text.starts_with("incomplete: a.f0: incomplete value !={f0:!={") && text.len() < 300_000
    );
}

#[test]
fn inputs_are_data_not_text() {
    let program =
        Program::compile("t", "parameter: {n: *1 | int}\nout: parameter.n + 1", &Packages::std())
            .unwrap();
    let parameter = Value::from(serde_json::json!({"n": 41}));
    let mut evaluation = program.evaluate(&[("parameter", &parameter)], &Limits::default());
    let root = evaluation.root();
    let out = evaluation.lookup(root, "out").unwrap();
    assert_eq!(evaluation.export(out).unwrap(), Value::from(42));
}

#[test]
fn trees_unify_nodes_and_data() {
    let program = Program::compile(
        "t",
        "// +usage=x\nbase: {l: [{a: *1 | int}], s: string}",
        &Packages::std(),
    )
    .unwrap();
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    let base = evaluation.lookup(root, "base").unwrap();
    assert_eq!(evaluation.docs(base), [" +usage=x"]);
    let patch = Tree::Unify(vec![
        Tree::Node(base),
        Tree::Struct(vec![
            ("s".into(), Tree::Data(Value::from("y"))),
            (
                "l".into(),
                Tree::List(
                    vec![Tree::Struct(vec![("b".into(), Tree::Data(Value::from(2)))])],
                    true,
                ),
            ),
        ]),
    ]);
    let node = evaluation.build(&patch);
    let value = evaluation.export(node).unwrap();
    assert_eq!(value.to_json_text(), r#"{"l":[{"a":1,"b":2}],"s":"y"}"#);
}

#[test]
fn kinds_are_named_in_the_order_of_the_reference() {
    for (kind, name) in [
        (Kind::INT, "int"),
        (Kind::INT | Kind::STRING, "(int|string)"),
        (Kind::NUMBER | Kind::STRING, "(string|number)"),
        (Kind::TOP.without(Kind::NULL), "(bool|string|bytes|func|list|struct|number)"),
    ] {
        assert_eq!(kind.to_string(), name);
    }
}

struct Echo(Vec<String>);

impl Host for Echo {
    fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer {
        self.0.push(format!("{} {}", call.path.join("."), call.name));
        let x = evaluation.lookup(call.node, "$params.x").unwrap();
        let x = evaluation.export(x).unwrap();
        Answer::Unify([("$returns", x)].into_iter().collect())
    }
}

#[test]
fn hosts_answer_calls_whose_results_feed_later_ones() {
    let mut packages = Packages::std();
    packages.register(
        "vela/t",
        "package t\n#Echo: {#do: \"echo\", #provider: \"t\", $params: x: _, $returns?: _}",
    );
    let text = "import \"vela/t\"\na: t.#Echo & {$params: x: 1}\nif a.$returns != _|_ {b: t.#Echo & {$params: x: a.$returns + 1}}";
    let program = Program::compile("t", text, &packages).unwrap();
    let mut host = Echo(Vec::new());
    let mut evaluation = program.evaluate_with_host(&[], &Limits::default(), &mut host);
    assert_eq!(host.0, ["a echo", "b echo"]);
    let root = evaluation.root();
    let value = evaluation.export(root).unwrap();
    expect![[r#"{"a":{"$params":{"x":1},"$returns":1},"b":{"$returns":2,"$params":{"x":2}}}"#]]
        .assert_eq(&value.to_json_text());
}

#[test]
fn people_get_a_hint() {
    let text = "#P: {image: string, cmd?: [...string]}, parameter: #P & {imgae: \"x\"}";
    let program = Program::compile("in.cue", text, &Packages::std()).unwrap();
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    let errors = evaluation.validate(root, true).unwrap_err();
    let hints: Vec<_> = errors.list().iter().map(|error| error.hint.as_deref()).collect();
    assert_eq!(hints, [None, Some(r#"did you mean "image"?"#)]);
}

mod laws {
    //! Unification commutes and associates, whatever is unified, and is idempotent without defaults.

    use super::eval;
    use proptest::prelude::*;

    /// Small values: scalars, constraints, structs, lists, disjunctions.
    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("1".to_owned()),
            Just("2".to_owned()),
            Just(r#""x""#.to_owned()),
            Just("null".to_owned()),
            Just("int".to_owned()),
            Just("string".to_owned()),
            Just(">=1".to_owned()),
            Just("<2".to_owned()),
            Just("_".to_owned()),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let field = ("[ab]", prop_oneof![Just(""), Just("?")], inner.clone());
            prop_oneof![
                prop::collection::vec(field, 0..3).prop_map(|fields| {
                    let fields: Vec<_> =
                        fields.iter().map(|(l, m, v)| format!("{l}{m}: {v}")).collect();
                    format!("{{{}}}", fields.join(", "))
                }),
                prop::collection::vec(inner.clone(), 0..3)
                    .prop_map(|list| format!("[{}]", list.join(", "))),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} | {b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(*{a} | {b})")),
                ("[ab]", inner).prop_map(|(l, v)| format!("close({{{l}: {v}}})")),
            ]
        })
    }

    /// The outcome without what depends on order: sorted JSON, or the fact of failure.
    fn outcome(text: &str) -> String {
        let text = eval(&format!("x: {text}"));
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(json) => json.to_string(),
            Err(_) => "failure".to_owned(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn commutes(a in value(), b in value()) {
            prop_assert_eq!(outcome(&format!("{a} & {b}")), outcome(&format!("{b} & {a}")));
        }

        #[test]
        fn associates(a in value(), b in value(), c in value()) {
            prop_assert_eq!(
                outcome(&format!("({a} & {b}) & {c}")),
                outcome(&format!("{a} & ({b} & {c})"))
            );
        }

        #[test]
        fn is_idempotent(a in value()) {
            // Default with default is one of several: `((*{} | 1) | {a: 1})` with itself has none.
            prop_assume!(!a.contains('*'));
            prop_assert_eq!(outcome(&format!("{a} & {a}")), outcome(&a));
        }
    }
}

#[test]
fn an_operand_that_may_still_change_leaves_the_operation_open() {
    check("_x: _, a: {_x}, b: a == 1", expect!["incomplete: a: incomplete value _"]);
    check(
        "_x: bool, a: {if _x {y: 1}}, b: a == 1",
        expect!["incomplete: a: non-concrete value bool in if clause"],
    );
    check("_x: _, a: {_x}, b: \"\\(a)\"", expect!["incomplete: a: incomplete value _"]);
    check(
        "_x: bool, a: {if _x {y: 1}}, b: [a, 1][0] + 1",
        expect!["incomplete: a: non-concrete value bool in if clause"],
    );
}

#[test]
fn structural_cycles_are_found_where_they_are() {
    check(
        "f: {n: int, out: (g & {n: n}).out}, g: {n: int, out: (f & {n: n}).out}",
        expect!["structural cycle: f: structural cycle (and 1 more errors)"],
    );
    check("x: {a: b: x}.a", expect!["structural cycle: a.b: structural cycle"]);
    check(
        "x: a.b.c, r: a.b, a: b: c: d: t: r",
        expect!["structural cycle: a.b.c.d.t: structural cycle"],
    );
    check(
        "_s: {#x: matchN(1, [_s]), #x: {}}",
        expect!["eval: _s.#x: invalid value {} (does not satisfy matchN): 0 matched, expected 1"],
    );
}

#[test]
fn operands_must_be_able_to_become_concrete() {
    check("a: string + \"x\"", expect!["a: invalid operand string ('+' requires concrete value)"]);
    check(
        "for x in y {a: x}, y: int",
        expect!["eval: cannot range over int (found int, want list or struct)"],
    );
    check("f: error, a: 1 & 2 | f(\"bad\")", expect!["user: a: bad"]);
    check("x: int, #a: x + 1 | error(\"bad\")", expect!["incomplete: x: incomplete value int"]);
}

/// What the reference rejects before it evaluates anything, with the path of the place.
#[test]
fn static_errors() {
    let check = |text: &str, expected: Expect| {
        let errors = Program::compile("in.cue", text, &Packages::std()).expect_err(text);
        expected.assert_eq(&errors.details());
    };
    check(
        "a: b: string + 1\nc: {[string]: 1 - uint8}\nd: (>=1 & <=2) * 2\ne: {for x in [] {f: nope}}",
        expect![[r#"
            a.b: invalid operand string ('+' requires concrete value):
                in.cue:1:7
            c.[]: invalid operand uint8 ('-' requires concrete value):
                in.cue:2:19
            e.for[].f: reference "nope" not found:
                in.cue:4:21
        "#]],
    );
    check(
        "a: {let A = {c: B}, let B = A.c, x: A}\nb: {let L = [L], y: L}",
        expect![[r#"
            a.let[]: cyclic references in let clause or alias:
                in.cue:1:29
            b.let[]: cyclic references in let clause or alias:
                in.cue:2:14
        "#]],
    );
    check(
        "a: {_=X: 1}\nb: {let _ = 1}\n\"c-d\": {_: 1}",
        expect![[r#"
            a: cannot use _ as alias or let clause:
                in.cue:1:5
            b: cannot use _ as alias or let clause:
                in.cue:2:9
            "c-d": cannot use _ as label:
                in.cue:3:9
        "#]],
    );
    check(
        "import \"vela/nope\"\nimport \"a.b/c\"\na: nope.x + c.y",
        expect![[r#"
            builtin package "vela/nope" undefined:
                in.cue:1:8
            package "vela/nope" not found:
                in.cue:1:8
            package "a.b/c" not found:
                in.cue:2:8
        "#]],
    );
}

#[test]
fn a_test_inside_what_it_tests_waits() {
    check(
        "import \"regexp\"\na: {if y.m == _|_ {m: \"\"}, if y.m != _|_ {m: \"m=\" + y.m}}, x: \"m=b\", y: regexp.FindNamedSubmatch(\"^m=(?P<m>.*)$\", x), x: a.m",
        expect![[r#"{"a":{"m":"m=b"},"x":"m=b","y":{"m":"b"}}"#]],
    );
    check("a: {if a.b == _|_ {b: 1}}", expect!["incomplete: a: cycle with field: a.b"]);
    check(
        "a: {r?: {}, if r == _|_ {s: 1}, s?: int, if s != _|_ {t: 1}}",
        expect![[r#"{"a":{"s":1,"t":1}}"#]],
    );
    check("a: self={if self.missing != _|_ {}}", expect![[r#"{"a":{}}"#]]);
}

#[test]
fn what_is_selected_from_an_inline_struct_is_open() {
    check("#D: a: 1, x: (#D & {b: 2}).b", expect![[r#"{"x":2}"#]]);
    check("#D: a: 1, x: (#D & {b: 2})", expect!["eval: x.b: field not allowed"]);
}

#[test]
fn validators_inside_themselves_end() {
    check(
        "c: matchN(1, [{d: c}]), c: d: {}",
        expect!["eval: c: invalid value {d:{}} (does not satisfy matchN): 0 matched, expected 1"],
    );
    check(
        "import \"encoding/yaml\"\nx: y: yaml.Validate(x), x: y: \"{}\"",
        expect!["structural cycle: x.y: structural cycle"],
    );
    check(
        "import \"encoding/yaml\"\nx: y: yaml.Validate(\"{}\", x)",
        expect!["structural cycle: x.y: structural cycle"],
    );
    check("#S: matchN(1, [{n?: #S}]), a: #S, a: n: n: {}", expect![[r#"{"a":{"n":{"n":{}}}}"#]]);
    check(
        "a: matchN(1, [{b!: int}]), a: c: 1",
        expect![
            "incomplete: a: invalid value {c:1} (does not satisfy matchN): 0 matched, expected 1"
        ],
    );
    check("a: matchN(0, [{b!: int}]), a: c: 1", expect![[r#"{"a":{"c":1}}"#]]);
}

#[test]
fn a_struct_that_was_gone_through_gets_no_more_fields() {
    check(
        "a: {x: 1, for k, v in a {(k + \"q\"): v}}",
        expect!["eval: a: adding field xq not allowed as field set was already referenced"],
    );
    check("x: y: 1, x: {for k, v in x {(k): v}}", expect![[r#"{"x":{"y":1}}"#]]);
    check(
        "o: {...}, for n in [\"v\"] {o: (n): true}, for n, v in o {p: n}",
        expect![[r#"{"o":{"v":true},"p":"v"}"#]],
    );
}

#[test]
fn texts_of_structs_have_the_order_of_the_source() {
    let cases = [
        ("a: {x: 1, if true {b: 2}, y: 3}", "bxy"),
        ("a: {x: 1, if true {b: 2}}", "xb"),
        (r#"a: {c: 1, for k in ["z", "y"] {(k): 1}, b: 2}"#, "zycb"),
        ("a: {b: 1, {z: 1, y: 1}, a: 2}", "zyba"),
        ("a: {y: 1, x: 1}\na: {z: 1, y: 1}", "yxz"),
        ("a: _d & {e: 1, b: 2}\n_d: {z: 1, b: int, a: 1, if z == 1 {f: 1}}", "efzba"),
        ("a: {x: 1, d, c: 1}\nd: {z: 1, b: 1}", "xczb"),
        ("a: {m: 1, b: 1} & {b: 1, m: 1, c: 1}", "bmc"),
        ("s: {x: 0, y: 0, if x == 0 {i: 0}, if y == 0 {j: 0}}\na: s\na: y: 0", "ijxy"),
    ];
    for (text, order) in cases {
        let text = format!("import \"encoding/json\"\nt: json.Marshal(a)\n{text}");
        let program = Program::compile("in.cue", &text, &Packages::std()).unwrap();
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let node = evaluation.lookup(root, "t").unwrap();
        let json = evaluation.export(node).unwrap();
        let json = json.as_str().unwrap_or_default();
        let fields: Vec<&str> = json.split('"').skip(1).step_by(2).collect();
        assert_eq!(fields.concat(), order, "{text}: {json}");
    }
}

#[test]
fn an_optional_field_beside_an_embedding_makes_no_struct() {
    check("a: {b?: int, string}, c: a & \"x\"", expect!["incomplete: a: incomplete value string"]);
}

#[test]
fn what_can_never_become_right_is_a_final_error() {
    check("t: _, a: [1][t]", expect!["eval: a: invalid index t (invalid type _)"]);
    check("t: string, a: {b: 1}[t]", expect!["incomplete: t: incomplete value string"]);
    check("a: !int", expect!["eval: a: invalid operand int ('!' requires concrete value)"]);
    check(
        "#T: {x: {}, s: string, out: \"\\(s) \\(x.y)\"}",
        expect!["eval: #T.out: undefined field: y"],
    );
    check(
        "import \"strings\"\na: strings.Join([int], \"\")",
        expect![
            "eval: a: invalid list element 0 in argument 0 to call: cannot use value int (int) as string"
        ],
    );
    check(
        "import \"strings\"\na: strings.Join([], int)",
        expect!["eval: a: cannot use int (type int) as string in argument 2 to strings.Join"],
    );
}

#[test]
fn lists_of_different_lengths() {
    check("a: [1, 2] & [1]", expect!["eval: a: incompatible list lengths (1 and 2)"]);
    check(
        "a: [1, 2] & [_], a: [_, _, _]",
        expect!["eval: a: incompatible list lengths (1 and 2) (and 1 more errors)"],
    );
}

#[test]
fn an_embedded_field_of_several_alternatives() {
    check("a: {y: 1 | {y: 1}, y}", expect![[r#"{"a":{"y":1}}"#]]);
    check(
        "a: {d: e: f: 1, d, d: d: e: g: 1}",
        expect![[r#"{"a":{"d":{"e":{"f":1,"g":1},"d":{"e":{"g":1}}},"e":{"f":1,"g":1}}}"#]],
    );
}

#[test]
fn alternatives_that_need_to_know_which_one_is_chosen() {
    // The alternatives themselves lead back: nothing is decided.
    check(
        "a: (b & 8) | (d & 9), b: c + 2, c: (6 & (a - 2)) | (d & 9), d: b + 2",
        expect!["cycle: a: 2 errors in empty disjunction: (and 4 more errors)"],
    );
    // The number breaks the circle, the check is for later.
    check(
        "a: (b & 8) | (d & 9), b: c + 2, c: 6 & a - 2, d: b + 2",
        expect![[r#"{"a":8,"b":8,"c":6,"d":10}"#]],
    );
    // What stands beside the alternatives is checked against the one that is chosen.
    check("d: e - 1, e: 1 + d, e: *2 | 0", expect![[r#"{"d":1,"e":2}"#]]);
}

#[test]
fn closedness_of_undecided_alternatives_is_that_of_each() {
    let text = "#d: {{} | {c: string}, {} | {c: string}, {} | {a: string}}, x: #d, x: c: \"foo\"";
    let program = Program::compile("in.cue", text, &Packages::std()).unwrap();
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    evaluation.validate(root, false).unwrap();
    assert!(evaluation.describe(root).error.is_none());
}

#[test]
fn an_open_alternative_leaves_the_whole_open() {
    check(
        "#d: #a | #b, #a: {k: \"a\", x: 1}, #b: {k: \"b\", y: p?: int}, _s: string
v: #d & {if _s == \"t\" {y: p: 1}, y: {}}",
        expect!["incomplete: v: non-concrete value string in operand to =="],
    );
}

#[test]
fn a_field_by_itself_is_an_error_where_it_is_not_allowed() {
    let text = "#s: a!: bool, _h & #s, _h: {a: true, b: true}";
    let program = Program::compile("in.cue", text, &Packages::std()).unwrap();
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let root = evaluation.root();
    let which = crate::Which { constraints: false, definitions: false, hidden: false };
    let fields = evaluation.fields(root, which);
    let mut failed = Vec::new();
    for field in fields {
        if let Err(errors) = evaluation.export(field.node) {
            failed.push(errors.to_string());
        }
    }
    assert_eq!(failed, ["b: field not allowed"]);
}
