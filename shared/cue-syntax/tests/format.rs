//! The printer: canonical texts stay as they are, and no text changes its meaning.

mod dump;

use cue_syntax::{Indent, ParseLimits, format, format_short, format_with, parse};
use dump::dump;
use proptest::prelude::*;

fn formatted(text: &str) -> String {
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    assert_eq!(errors, [], "{text}");
    format(&file)
}

/// Printing keeps the tree and the comments, and printing twice changes nothing more.
fn check_round_trip(text: &str) {
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    if !errors.is_empty() {
        return;
    }
    let printed = format(&file);
    let (again, errors) = parse("in.cue", &printed, &ParseLimits::default());
    assert_eq!(errors, [], "source:\n{text}\nprinted:\n{printed}");
    assert_eq!(dump(&file), dump(&again), "source:\n{text}\nprinted:\n{printed}");
    let comments = |file: &cue_syntax::File| -> Vec<String> {
        file.comments
            .iter()
            .flat_map(|comment| comment.lines(&file.source))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    assert_eq!(comments(&file), comments(&again), "source:\n{text}\nprinted:\n{printed}");
    assert_eq!(format(&again), printed, "source:\n{text}");
}

#[test]
fn canonical_texts_stay() {
    for text in [
        "a:   1\nbcd: 2\n",
        "package p\n\nimport \"list\"\n\na: list.Max([1, 2])\n",
        "package p\n\nimport (\n\t\"list\"\n\ts \"strings\"\n)\n\na: 1\n",
        "// doc\na: b: c: 1 // tail\n",
        "a: {\n\tb:    1\n\tccc?: 2 @go(C) // c\n}\n",
        "a: {}\nb: [{\n\tc: 1\n}, {\n\tc: 2\n}]\n",
        "a: [\n\t1, // one\n\t2,\n\t// end\n]\n",
        "a: {b: 1, c: [1, 2, ...int]}\n",
        "a: 1 + 2*3\nb: x[1+2*3]\nc: >=1 & <=2*3\nd: f(1+2, 3)\ne: a | *b\nf: -x\n",
        "for k, v in x if v > 1 {\n\t\"\\(k)\": v\n}\n",
        "a: [for x in y {x}, if b {c}]\n",
        "a: \"\"\"\n\tb\n\t  c\n\n\td\n\t\"\"\"\n",
        "a: #\"x\\(y)\"#\nb: 'z'\n",
        "let x = 1\nX=a: Y={b: X}\n[N=string]: c: N\n(d + e)?: f!:  _\n",
        "a: b |\n\tc |\n\td\n",
        "#D: {\n\ta: int\n\t...\n}\n",
        "a: f(\n\t1,\n\t2,\n\t)\n",
    ] {
        let printed = formatted(text);
        if text.contains("f(\n") {
            check_round_trip(text);
        } else {
            assert_eq!(printed, text);
        }
    }
}

/// What fuzzing found, smallest form.
#[test]
fn found_by_fuzzing() {
    assert_eq!(formatted("1 .P0"), "1 .P0\n");
    for text in [
        "1 .P0",
        "a: 1.5 .b.c, b: 0x1 .c[0].d",
        "a: {f: in + // 3\n\tt, g: 1, h: 2}",
        "x: (({\n// doc\nx: y: a // tail\n\na\n})).b[0]",
        "f: in + // 3\n\tt, g: 1, h: 2",
        "a: *( // c\nb) | (b. // d\nc)",
        "a: {f: {x: 1 + // c\n2}, g: [1 + // d\n2, 3], h: 2}",
        "a: \"\\(b[\n// c\n0])\" + x // d\n// e\n",
        "\n\t+  // 3 +\n // 3 +\n\t\t   4    // 4\n\t\r  ",
        "[if,]",
        "{for,}",
        "a: {b: 1\n\tif,}\nc: {if // d\n}",
        "a: {\n\tfor,}",
        "a: [1, for,]",
        "a: [if, for // c\n,]",
        "[for,]: [{}]\n//",
        "x: ({a: 1}|<// c\nn)",
        "x: {a: 1} & ({a: 1}|<// c\nn<a) & (b)",
        "x({a1}|*{b:1}) & ({a:1}|*{b:1}<<<<<// c\nn<<<a) &({a:1}|*{b:1})",
        "a: [if,]: 1",
    ] {
        check_round_trip(text);
    }
}

#[test]
fn structs_of_one_field_have_a_short_form() {
    for (text, short) in [
        ("a: {b: 1}\n", "a: b: 1\n"),
        ("a: {\n\tb?: {c!: {\n\t\t[string]: int\n\t}}\n}\n", "a: b?: c!: [string]: int\n"),
        ("a: b: {c: 1}\nd: {e: {f: 1, g: 2}}\n", "a: b: c: 1\nd: e: {f: 1, g: 2}\n"),
        ("a: [{b: {c: 1}}]\n", "a: [{b: c: 1}]\n"),
        ("a: {b: 1} & {c: 2}\n", "a: {b: 1} & {c: 2}\n"),
        ("a: {...}\nb: {1}\nc: {}\n", "a: {...}\nb: {1}\nc: {}\n"),
        ("a: {b: 1} @x()\n", "a: {b: 1} @x()\n"),
        ("a: {\n\t// doc\n\tb: 1\n}\n", "a: {\n\t// doc\n\tb: 1\n}\n"),
        ("a: {\n\tb: 1 // tail\n}\n", "a: {\n\tb: 1 // tail\n}\n"),
        ("a: {\n\tb: 1\n} // tail\nc: {d: 2} // e\n", "a: b: 1 // tail\nc: d: 2 // e\n"),
    ] {
        let (file, errors) = parse("in.cue", text, &ParseLimits::default());
        assert_eq!(errors, [], "{text}");
        assert_eq!(format_short(&file, Indent::Tab), short, "{text}");
        let (file, _) = parse("in.cue", short, &ParseLimits::default());
        assert_eq!(format_short(&file, Indent::Tab), short, "{text}");
    }
}

#[test]
fn spacing_is_made_canonical() {
    let text = "a   :1\nbc:    2   // x\n\n\n\nd:{e:[ 1,2 ]}\n";
    assert_eq!(formatted(text), "a:  1\nbc: 2 // x\n\nd: {e: [1, 2]}\n");
    let (file, _) = parse("in.cue", "a: {\nb: 1\n}\n", &ParseLimits::default());
    assert_eq!(format_with(&file, Indent::Spaces(4)), "a: {\n    b: 1\n}\n");
}

#[test]
fn deep_trees_print_in_little_stack() {
    let levels = 990;
    let text = format!("x: {}1{}", "(".repeat(levels), ")".repeat(levels));
    let chain = format!("y: {}1", "1+".repeat(50_000));
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            check_round_trip_deep(&text);
            check_round_trip_deep(&chain);
        })
        .unwrap()
        .join()
        .unwrap();
}

fn check_round_trip_deep(text: &str) {
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    assert_eq!(errors, []);
    assert!(format(&file).len() >= text.len());
}

/// The conformance material's files, if it is there: formatted texts and KubeVela's definitions.
#[test]
fn corpus_files_round_trip() {
    let folder = std::env::var_os("VELA_CONFORMANCE").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        std::path::PathBuf::from,
    );
    let mut count = 0;
    for name in ["parse", "vela-parse", "tree", "export", "docs"] {
        let path = folder.join(format!("corpus/cue/dev/{name}.jsonl"));
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            for (file, text) in record["files"].as_object().unwrap() {
                if file.ends_with(".cue") {
                    check_round_trip(text.as_str().unwrap());
                    count += 1;
                }
            }
        }
    }
    if count == 0 {
        println!("SKIPPED: 0 corpus files: the conformance material is absent");
    }
}

/// Source texts built from the grammar's pieces.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("_|_".to_owned()),
        Just("_".to_owned()),
        Just("null".to_owned()),
        Just("#D".to_owned()),
        (0..1000_u32).prop_map(|n| n.to_string()),
        Just("1.5Ki".to_owned()),
        "[a-z \\\\\"\u{e9}]{0,6}".prop_map(|s| cue_syntax::quote(&s)),
        Just("'\\xff'".to_owned()),
        Just("\"x\\(a + 1)y\"".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let op = prop::sample::select(vec![
            " | ", "|", " & ", "&", "||", " && ", "==", "!=", "<", " >= ", "=~", "+", "-", "*",
            " / ", " div ",
        ]);
        let unary = prop::sample::select(vec!["-", "+", "!", "*", ">=", "<", "!=", "=~"]);
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("{a}{op}{b}")),
            (unary, inner.clone()).prop_map(|(op, a)| format!("{op}({a})")),
            inner.clone().prop_map(|a| format!("({a})")),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|l| format!("[{}]", l.join(","))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|l| format!(
                "[{},\n...]",
                l.join(",\n")
            )
            .replace("[,", "[")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{x: {a}, y?: {b}}}")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("{{\n// doc\nx: y: {a} // tail\n\n{b}\n}}")),
            inner.clone().prop_map(|a| format!("[for k, v in ({a}) if v > 1 {{v}}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("f({a}, {b})")),
            inner.clone().prop_map(|a| format!("({a}).b[0]")),
            inner.prop_map(|a| format!("X={{\"\\(b)\": {a}}}")).prop_map(|a| format!("{{a: {a}}}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn printed_text_parses_to_the_same_tree(a in expression(), b in expression()) {
        check_round_trip(&format!("x: {a}\n\nyy: {b} // end\n"));
    }

    #[test]
    fn quoted_strings_read_back(text in "\\PC*") {
        let quoted = cue_syntax::quote(&text);
        prop_assert_eq!(
            cue_syntax::literal::unquote(&quoted),
            Ok(cue_syntax::literal::Text::String(text))
        );
    }
}
