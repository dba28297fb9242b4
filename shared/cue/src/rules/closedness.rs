//! Rules about what is closed, and what is only said to be.

use super::table;
use crate::{Form, Kind, Limits, Packages, Program};

/// Whether the field at a path is closed as a description has it.
fn closed(text: &str, path: &str) -> bool {
    let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
    let mut evaluation = program.evaluate(&[], &Limits::default());
    let mut node = evaluation.root();
    let _ = evaluation.validate(node, false);
    for step in path.split('.') {
        node = match step.parse::<usize>() {
            Ok(i) => evaluation.elements(node)[i],
            Err(_) => evaluation.lookup(node, step).expect(text),
        };
    }
    evaluation.describe(node).closed
}

#[test]
fn what_is_selected_from_a_definition_shows_that_it_was_closed_and_takes_other_fields() {
    let of = |text: &str| format!("#A: b: {{d: {{}}}}\nz: {{d: {{}}}}\n{text}");
    for (text, path, expected) in [
        ("x: (#A & {}).b & {e: {}}", "x", true),
        ("x: (#A & {}).b & {e: {}}", "x.d", true),
        ("x: (#A & {}).b & {e: {}}", "x.e", false),
        ("x: {(#A & {}).b}", "x", true),
        ("x: {({#A}).b, e: {}}", "x", true),
        ("a: #A & {}\nx: a.b & {e: {}}", "x", true),
        ("a: {#A}\nx: a.b & {e: {}}", "x", true),
        ("x: (#A & {}).b & {e: {}}\ny: x & {f: {}}", "y", true),
        ("a: close({b: {d: {}}})\nx: (a & {}).b & {e: {}}", "x", false),
        ("x: z & {e: {}}", "x", false),
    ] {
        assert_eq!(closed(&of(text), path), expected, "{text}: {path}");
    }
    table(&[("#A: b: {d: 1}\nx: (#A & {}).b & {e: 2}", r#"{"x":{"d":1,"e":2}}"#)]);
}

#[test]
fn what_closes_an_alternative_does_not_close_the_choice() {
    for (text, expected) in [
        ("x: #A | #B", false),
        ("x: (#A | #B) & (#B | #A)", false),
        ("x: *#A | #B", false),
        ("x: #C", true),
        ("#C: #A | #B\nx: #C & #C", true),
        ("#C: #A | #B\nx: #C & (#A | #B)", true),
        ("x: #A | {}", false),
    ] {
        let text = format!("#A: f: string\n#B: g?: string\n#C: #A | #B\n{text}");
        assert_eq!(closed(&text, "x"), expected, "{text}");
    }
}

#[test]
fn the_open_end_of_a_list_in_a_definition_is_one_of_anything_closed() {
    for (text, path, expected) in [
        ("#R: [...]\nc: #R & [{b: {}}]", "c.0", true),
        ("#R: [...]\nc: #R & [{b: {}}]", "c.0.b", false),
        ("#R: [..._]\nc: #R & [{b: {}}]", "c.0", true),
        ("#R: a: [...]\nc: #R & {a: [{b: {}}]}", "c.a.0", true),
        ("c: [...] & [{b: {}}]", "c.0", false),
    ] {
        assert_eq!(closed(text, path), expected, "{text}: {path}");
    }
    table(&[("#R: [...]\nc: #R & [{b: 1}]", r#"{"c":[{"b":1}]}"#)]);
}

#[test]
fn what_embeds_what_may_be_anything_by_way_of_others_may_be_anything() {
    for (text, any) in [
        ("#F: x: _\nn: {#c: \"0\": #F.x, #c[\"0\"]}", true),
        ("#F: x: _\nn: {#c: \"0\": (#F & {}).x, #c[\"0\"]}", true),
        ("n: {#g: x: _, #c: (#g & {}).x, #c}", true),
        ("n: {#c: _, #c}", true),
        ("#F: x: {}\nn: {#c: \"0\": #F.x, #c[\"0\"]}", false),
        ("n: {#g: x: _, #c: (#g & {}).x, #c, d: 1}", false),
    ] {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let node = evaluation.lookup(root, "n").expect(text);
        let form = evaluation.describe(node).form;
        assert_eq!(matches!(form, Some(Form::Type(Kind::TOP))), any, "{text}: {form:?}");
    }
}

#[test]
fn what_a_definition_lets_in_it_does_not_close() {
    table(&[
        ("#A: {...}\n{y: #A & {b: {c: 1}}}\ny: {b: d: 1}", r#"{"y":{"b":{"d":1,"c":1}}}"#),
        (
            "#A: {b: {...}}\n{y: #A & {b: c: {e: 1}}}\ny: b: c: d: 1",
            r#"{"y":{"b":{"c":{"d":1,"e":1}}}}"#,
        ),
        (
            "#A: {}\nz: {y: #A & {_b: {c: 1}}}\nx: {z, y: {_b: d: 1}}",
            r#"{"z":{"y":{}},"x":{"y":{}}}"#,
        ),
        ("#A: {}\n{#B: #A & {#C: {e: \"a\"}}}\n#B: {#C: {}}\nx: #B.#C", r#"{"x":{"e":"a"}}"#),
        ("#A: {}\nz: {y: #A & {b: {c: 1}}}\nx: {z, y: {b: d: 1}}", "eval"),
        ("#A: {_b?: {}}\nz: {y: #A & {_b: {c: 1}}}", "eval"),
        ("#A: {}\ny: {#A, b: {c: 1}}\nx: y & {b: {d: 1}}", "eval"),
    ]);
}

#[test]
fn what_a_struct_does_not_allow_is_an_error_with_all_that_is_in_it() {
    for (text, path, denied) in [
        ("#C: {}\nf: #C & {p: q: r: 1}", "f.p.q.r", true),
        ("#C: {}\nf: #C & {p: [{a: 1}]}", "f.p.0.a", true),
        ("#C: {}\nf: #C & {p: _h: 1}", "f.p._h", false),
        ("#C: p: {}\nf: #C & {p: {}}", "f.p", false),
        ("#C: {}\nf: #C & {p?: 1}", "f.p?", true),
        ("#C: a?: 1\n#D: b?: 1\nf: #C & #D", "f.a?", true),
        ("#C: p?: 1\nf: #C & {p?: 1}", "f.p?", false),
        ("#C: {...}\nf: #C & {p?: 1}", "f.p?", false),
        // Where something else has failed, an optional field is not asked whether it is allowed.
        ("#C: a: 1\nf: #C & {p?: 1, a: 2}", "f.p?", false),
        ("#C: a: 1\nf: #C & {p?: 1, r: 1, a: 2}", "f.p?", false),
        ("#C: a: 1\nf: #C & {p?: 1, _h: 1 & 2}", "f.p?", false),
        ("#C: a: b: 1\nf: #C & {p?: 1, a: b: 2}", "f.p?", false),
        ("#C: a: {}\nf: #C & {p?: 1, a: b: 2}", "f.p?", true),
        ("#C: {a: 1, b: {}}\nf: #C & {a: 2, b: p?: 1}", "f.b.p?", true),
        ("#C: a: 1\nf: #C & {p?: {q: 1}, a: 2}", "f.p?.q", true),
        ("#C: a: 1\nf: #C & {p?: {q: 1}, a: 2}", "f.p?", true),
        ("#C: a: 1\nf: #C & {p?: {q?: 1}, a: 2}", "f.p?", false),
        ("#C: a: 1\nf: #C & {p?: {q?: 1}, a: 2}", "f.p?.q?", true),
    ] {
        let program = Program::compile("in.cue", text, &Packages::std()).expect(text);
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let mut node = evaluation.root();
        for step in path.split('.') {
            let arcs = evaluation.describe(node).arcs;
            let label = step.trim_end_matches('?');
            node = arcs.iter().find(|arc| arc.label == label).expect(text).node;
        }
        let class = evaluation.describe(node).error.map(|e| e.class);
        assert_eq!(class.is_some(), denied, "{text}: {path}");
    }
    // An optional field that is not allowed harms nobody.
    table(&[("#C: {}\nf: #C & {p?: 1}", r#"{"f":{}}"#)]);
}

#[test]
fn what_several_declarations_say_is_embedded_as_one() {
    table(&[
        ("#x: b: 2\ni: foo: a: 1\ni: foo: #x\no: {i}", "eval"),
        ("#x: b: 2\ni: foo: #x & {a: 1}\no: {i}", "eval"),
        ("#x: {a: int} | *{b: 2}\n_i: foo: a: 1\n_i: foo: #x\no: {_i}", r#"{"o":{"foo":{"a":1}}}"#),
        (
            "#x: {a: int} | *{b: 2}\n_i: k: foo: a: 1\n_i: k: foo: #x\no: {for x in _i {x}}",
            r#"{"o":{"foo":{"a":1}}}"#,
        ),
        ("_i: close({a: 1})\n_i: b: 1\no: {_i}", "eval"),
        // What stands beside it, or is embedded beside it, may say more.
        ("#x: b: 2\n_i: foo: #x\no: {_i, foo: a: 1}", r#"{"o":{"foo":{"a":1,"b":2}}}"#),
        ("#x: b: 2\n_i: foo: #x\n_j: foo: a: 1\no: {_i, _j}", r#"{"o":{"foo":{"b":2,"a":1}}}"#),
        ("#x: b: 2\n_i: foo: #x\no: {_i} & {foo: a: 1}", "eval"),
        ("#x: b: 2\no: {{p: #x}, {p: a: 1}}", r#"{"o":{"p":{"b":2,"a":1}}}"#),
    ]);
}

#[test]
fn what_is_not_allowed_and_goes_on_without_end_goes_on_without_end() {
    table(&[
        ("#T: {}\nts: #T & {a: b: ts}", "structural cycle"),
        ("#T: {b: _}\nts: #T & {a: ts}", "structural cycle"),
        ("ts: close({}) & {a: b: ts}", "structural cycle"),
        ("#T: {}\nts: #T & {a: 1 & 2}", "eval"),
        ("#T: {}\nts: #T & {a: b: tt}\ntt: 1", "eval"),
    ]);
}

#[test]
fn what_is_embedded_twice_does_not_stand_beside_itself() {
    let check = |out: &str, expected: &str| {
        let text = format!("#x: {{b: 2}}\n_in: {{foo: {{a: 1}} & #x | 3}}\nout: {out}");
        table(&[(text.as_str(), expected)]);
    };
    for out in [
        "{{_in}, {_in}}",
        "{{_in}, {{_in}}}",
        "{if true {_in}, if true {_in}}",
        "{for v in [_in, _in] {v}}",
        "{close({_in}), {_in}}",
    ] {
        check(out, r#"{"out":{"foo":3}}"#);
    }
    check("{{_in}, {_in, foo: a: 1}}", r#"{"out":{"foo":{"a":1,"b":2}}}"#);
    check("{{_in}, {_in, c: 1}}", r#"{"out":{"foo":3,"c":1}}"#);
    table(&[
        ("#x: b: 2\n_i: {a: 1} & #x | 3\no: {{f: _i}, {f: _i}}", r#"{"o":{"f":3}}"#),
        ("#x: {a: int} | *{b: 2}\n_i: {f: a: 1, f: #x}\no: {{_i}, {_i}}", r#"{"o":{"f":{"a":1}}}"#),
        (
            "#x: b: 2\n_i: f: a: 1\n_j: f: {a: 1} & #x | 3\no: {{_i}, {_j}}",
            r#"{"o":{"f":{"a":1,"b":2}}}"#,
        ),
    ]);
}

#[test]
fn a_field_that_is_not_allowed_and_has_no_value_says_why_it_has_none() {
    let with = |text: &str| format!("#D: {{a: 1}}\n_y: int\nx: {text}");
    for (text, expected) in [
        ("#D & {q: _y + 1}", "incomplete"),
        ("#D & {q: \"\\(_y)\"}", "incomplete"),
        ("#D & {q: {if _ {c: 1}}}", "incomplete"),
        ("#D\nx: q: _y + 1", "incomplete"),
        ("[#D & {q: _y + 1}]", "incomplete"),
        ("close({a: 1}) & {q: _y + 1}", "incomplete"),
        ("#D & {q: error(\"u\")}", "user"),
        ("#D & {q: _|_}", "user"),
        ("#D & {q: 1}", "eval"),
        ("#D & {q: _y}", "eval"),
        ("#D & {q: {c: _y + 1}}", "eval"),
        ("#D & {q: [_y + 1]}", "eval"),
        ("#D & {q: 1, r: _y + 1}", "eval"),
        ("*(#D & {q: 1}) | 5", r#"{"x":5}"#),
    ] {
        table(&[(&with(text), expected)]);
    }
    table(&[
        ("#D: a: {b: 1}\nx: #D & {a: q: y + 1}\ny: int", "incomplete"),
        ("#D: {a: 1}\nx: #D & {q: y + 1}\ny: 3", "eval"),
    ]);
}

#[test]
fn what_a_loop_adds_by_one_binding_is_closed_to_what_it_adds_by_another() {
    let with = |text: &str| format!("#C: {{a?: 1}}\n#D: {{d: 1}}\n{text}");
    for (text, expected) in [
        ("for x in [0, 1] {b: #C & {c: 1}}", "eval"),
        ("for x in [0, 1] {b: d: #C & {c: 1}}", "eval"),
        ("for x in [0, 1] {b: (#C & {}) & {c: 1}}", "eval"),
        ("for x in [0, 1] {b: close({}) & {c: 1}}", "eval"),
        ("for x in [0, 1] for z in [0, 1] {b: #C & {c: 1}}", "eval"),
        ("for x in [0, 1] {{b: #C & {c: 1}}}", "eval"),
        ("for x in [#C, #D] {b: x}", "eval"),
        ("for x in [#C, {d: 1}] {b: x}", "eval"),
        ("y: {for x in [0, 1] {b: #C & {c: 1}}}", "eval"),
        ("for x in [0, 1] {b: #C & {c!: 1}}", "eval"),
        ("for x in [0, 1] {b: #C & {a: 1}}", r#"{"b":{"a":1}}"#),
        ("for x in [0, 1] {\"\\(x)\": #D}", r#"{"0":{"d":1},"1":{"d":1}}"#),
        // What is embedded, or stands beside the loop, says more.
        ("for x in [0, 1] {b: {#C}, b: c: 1}", r#"{"b":{"c":1}}"#),
        ("y: {for x in [0, 1] {#C, if x == 0 {e: 1}}}", r#"{"y":{"e":1}}"#),
        ("for x in [0, 1] {b: #C & {c: 1}}, b: c: 1", r#"{"b":{"c":1}}"#),
    ] {
        table(&[(&with(text), expected)]);
    }
}

#[test]
fn of_a_choice_the_default_is_closed() {
    table(&[
        ("#x: close(*{d: 0} | {c: 1})\ny: #x & {c: 1}", "eval"),
        ("#x: close(*{d: 0} | {c: 1})\ny: #x & {d: 0}", r#"{"y":{"d":0}}"#),
        ("#x: close(null | *{d: 0})\ny: #x & null", "eval"),
        ("#x: close(_ | *{d: 0})\ny: #x", r#"{"y":{"d":0}}"#),
        ("x: close(*{d: 0} | {c: 1})\ny: x.d", r#"{"x":{"d":0},"y":0}"#),
        ("x: close(*_ | {d: 0})", "eval"),
        ("x: close(*1 | {d: 0})", "eval"),
        ("x: close({d: 0} | {c: 1})", "incomplete"),
        ("x: close(*{d: 0} | *{c: 1})", "incomplete"),
        ("x: close({d: 0} | {d: 0})", r#"{"x":{"d":0}}"#),
    ]);
}

#[test]
fn a_schema_beside_a_definition_declares_none_of_its_fields() {
    let with = |text: &str| format!("#f: {{a: 1}} & matchN(1, [{{}}])\n{text}");
    for (text, expected) in [
        ("g: #f.x", "eval"),
        ("g: #f.x.y", "eval"),
        ("h: #f, g: h.x", "eval"),
        ("g: #f.a", r#"{"g":1}"#),
        ("g: #f.x != _|_", r#"{"g":false}"#),
        ("g: *#f.x | 2", r#"{"g":2}"#),
    ] {
        table(&[(&with(text), expected)]);
    }
    table(&[
        ("#f: {a: 1} & matchIf(_, {}, {})\ng: #f.x", "eval"),
        ("#f: {matchN(1, [{}]), a: 1}\ng: #f.x", "eval"),
        ("#f: {a?: int} & matchN(1, [{a: 1}])\ng: #f.x", "eval"),
        ("#f: {a: 1} & (matchN(1, [{}]) | 1)\ng: #f.x", "eval"),
        ("#f: {a: 1, ...} & matchN(1, [{}])\ng: #f.x", "incomplete"),
        ("#f: matchN(1, [{}])\ng: #f.x", "incomplete"),
        ("f: {a: 1} & matchN(1, [{}])\ng: f.x", "incomplete"),
    ]);
}
