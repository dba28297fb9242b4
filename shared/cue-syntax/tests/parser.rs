//! The lexer and parser: trees, comments, error texts, limits, and hostile texts.

mod dump;

use cue_syntax::ast::{DeclKind, Expr};
use cue_syntax::lexer::{Lexer, TokenKind};
use cue_syntax::literal::{Number, Text, unquote};
use cue_syntax::{ParseLimits, parse, parse_expr};
use dump::dump;
use expect_test::{Expect, expect};

fn errors(text: &str) -> String {
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    let lines = errors.iter().map(|e| format!("{}: {e}", file.position(e.span.start)));
    lines.collect::<Vec<_>>().join("\n")
}

fn check(text: &str, want: &Expect) {
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    assert_eq!(errors, [], "{text}");
    want.assert_eq(&dump(&file));
}

/// A label and its colon may stand apart; most do not, and are read in another way.
#[test]
fn labels_are_read_alike_wherever_the_colon_stands() {
    let of = |text: &str| {
        let (file, errors) = parse("in.cue", text, &ParseLimits::default());
        let errors: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        (dump(&file), errors)
    };
    let labels = [
        "a",
        "#A",
        "_a",
        "_#A",
        "$a",
        "é",
        "_",
        "__a",
        "null",
        "true",
        "false",
        "for",
        "if",
        "let",
        "in",
        "div",
        "\"a-b\"",
        "\"\"",
        r#""\n""#,
        r#""\(a)""#,
        "'a'",
        "1",
        "#\"a\"#",
        "a.b",
        "(a)",
        "[a]",
    ];
    for label in labels {
        for (near, apart) in
            [(":", " :"), ("?:", "? :"), ("?:", " ? :"), ("!:", " ! :"), ("?", " ?")]
        {
            for (before, behind) in [("", " 1"), ("z: ", " 1"), ("z: ", " y: 1"), ("{", " 1}")] {
                let near = format!("{before}{label}{near}{behind}");
                let apart = format!("{before}{label}{apart}{behind}");
                assert_eq!(of(&near), of(&apart), "{near} and {apart}");
            }
        }
    }
}

#[test]
fn trees() {
    check(
        "a?: b!: c: 1",
        &expect!["(field None Optional a {(field None Required b {(field None Regular c 1)})})"],
    );
    check(
        "X=\"a-b\": Y=[N=string]: N",
        &expect![[
            r#"(field Some("X") Regular "a-b" {(field Some("Y") Regular pattern Some("N") string N)})"#
        ]],
    );
    check("1 + 2 * -3 | *4", &expect!["(embed (Or (Add 1 (Multiply 2 (Minus 3))) (Default 4)))"]);
    check(
        "a.b[1].\"c\"(d)[:e]",
        &expect!["(embed (slice (call (. (index (. a false b) 1) true c) d) - e))"],
    );
    check("x: int=>2", &expect!["(field None Regular x (alias int (Greater 2)))"]);
    check(
        "for k, v in x\nlet y = v\nif y {(k): y}",
        &expect![[
            r#"(comprehension for Some("k") v x let y v if y{(field None Regular dynamic k y)})"#
        ]],
    );
    check(
        "if: 1, if, for, if!: 2, in: 3",
        &expect![
            "(field None Regular if 1)(embed if)(embed for)(field None Required if 2)(field None Regular in 3)"
        ],
    );
    check("[1, 2, ...int]", &expect!["(embed [1 2 ...int ])"]);
    check("a: 1 @x(y, \"(\")", &expect![[r#"(field None Regular a 1 @x(y, "("))"#]]);
    check(
        "package p\nimport (\n\tx \"a/b\"\n\t\"c:d\"\n)\n...",
        &expect![[r#"package p import Some("x") "a/b" import None "c:d" (...)"#]],
    );
    check(
        "\"a\\(b)c\\(\"d\\(e)\")\", '\\(f)'",
        &expect![[
            r#"(embed (interpolation false "a"b "c"(interpolation false "d"e "") ""))(embed (interpolation true []f []))"#
        ]],
    );
    check(
        "x: \"\"\"\n\ta \\(b)\n\t  c\n\t\"\"\"",
        &expect![[r#"(field None Regular x (interpolation false "a "b "\n  c"))"#]],
    );
}

#[test]
fn error_texts() {
    for (text, want) in [
        ("a: }", expect!["1:4: expected operand, found '}'"]),
        ("a b c: 2", expect!["1:3: missing ',' in struct literal"]),
        ("a: [1\n2]", expect!["2:1: missing ',' before newline in list literal"]),
        ("a: 1 /* b */", expect!["1:12: expected operand, found '/'"]),
        ("a.'b'", expect!["1:3: expected selector, found 'STRING' 'b'"]),
        ("import . \"foo\"", expect!["1:8: expected 'STRING', found '.'"]),
        ("package #x", expect!["1:9: invalid package name #x"]),
        ("import _#x \"foo\"", expect!["1:8: cannot import package as definition identifier"]),
        ("__foo: 3", expect!["1:1: identifiers starting with '__' are reserved"]),
        ("{...int}", expect!["1:5: missing ',' in struct literal"]),
        ("X=3", expect!["1:1: old-style alias X is no longer supported; use a let clause instead"]),
        ("[a, b]: 1", expect!["1:1: square bracket must have exactly one element"]),
        ("(1\n)", expect!["1:3: expected ')', found newline"]),
        ("f(1", expect!["1:4: expected ')', found 'EOF'"]),
        ("\"\\(a", expect!["1:5: expected ')' for string interpolation"]),
        ("\"a", expect!["1:1: string literal not terminated"]),
        ("x: \"\\q\"", expect!["1:6: unknown escape sequence"]),
        ("x: 1_", expect!["1:5: illegal '_' in number"]),
        ("a: `", expect!["1:4: illegal character U+0060 '`'"]),
        ("for x y {}", expect!["1:7: expected 'in', found 'IDENT' y"]),
        ("let x", expect!["1:6: expected '=', found newline"]),
        ("if a", expect!["1:5: expected '{', found 'EOF'"]),
        ("}", expect!["1:1: expected 'EOF', found '}'"]),
    ] {
        want.assert_eq(&errors(text));
    }
}

#[test]
fn complete_declarations_survive_an_error() {
    let (file, errors) = parse("in.cue", "a: 1\nb: {c: 2, d: }\ne: 3", &ParseLimits::default());
    assert_eq!(errors.len(), 1);
    assert_eq!(dump(&file), "(field None Regular a 1)");
}

#[test]
fn comments_belong_to_declarations() {
    let text = "// file\n\n// +usage=name\n// more\na: string // tail\n\n// +patchKey=name\nb: [{ // inner\n\t// +x\n\tc: 1, // c\n}]\n// end\n";
    let (file, errors) = parse("in.cue", text, &ParseLimits::default());
    assert_eq!(errors, []);
    let mut found = Vec::new();
    for id in file.ast.decls(file.decls) {
        found.push(file.comment_lines(id).map(str::trim).collect::<Vec<_>>().join("|"));
        let DeclKind::Field(field) = file.ast.decl(id).kind else { continue };
        let Expr::List(elements) = file.ast.expr(file.ast.field(field).value) else { continue };
        for element in file.ast.exprs(elements) {
            let Expr::Struct { decls, .. } = file.ast.expr(element) else { continue };
            for id in file.ast.decls(decls) {
                found.push(file.comment_lines(id).map(str::trim).collect::<Vec<_>>().join("|"));
            }
        }
    }
    assert_eq!(found, ["file|+usage=name|more|tail", "+patchKey=name|inner", "+x|c"]);
    assert_eq!(file.comments.len(), 8);
    assert!(file.comments[1].doc && !file.comments[0].doc && file.comments[2].line);
}

#[test]
fn comments_at_the_end_of_a_struct_belong_to_nothing_behind_it() {
    for text in [
        "a: {\n\tb: 1\n\t// end\n}\n// d\nc: 1\n",
        "a: {\n\tb: 1\n\n\t// end\n\n}\n\n// d\nc: 1\n",
        "a: {\n\t// end\n} // tail\n// d\nc: 1\n",
        "a: [\n\t1,\n\t// end\n]\n// d\nc: 1\n",
        "a: b: {\n\tc: 1 // one\n\t// end\n}\n// d\nc: 1\n",
    ] {
        let (file, errors) = parse("in.cue", text, &ParseLimits::default());
        assert_eq!(errors, []);
        let last = file.ast.decls(file.decls).last().unwrap();
        assert_eq!(file.comment_lines(last).map(str::trim).collect::<Vec<_>>(), ["d"], "{text}");
    }
}

#[test]
fn nesting_is_limited_on_a_small_stack() {
    let depth = 100_000;
    let texts: Vec<String> = [
        ("(", ")"),
        ("[", "]"),
        ("{a: ", "}"),
        ("a: ", ""),
        ("-", ""),
        ("f(", ")"),
        ("a[", "]"),
        ("\"\\(", ")\""),
        ("[for x in ", " {x}]"),
        ("[if ", " {x}]"),
        ("{if x ", "}"),
        ("X=", ""),
    ]
    .iter()
    .flat_map(|(open, close)| {
        let whole = format!("x: {}1{}", open.repeat(depth), close.repeat(depth));
        [whole, format!("x: {}", open.repeat(depth))]
    })
    .chain([format!("x: a{}", ".a".repeat(depth)), format!("x: a{}", "[0]".repeat(depth))])
    .collect();
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || {
            for text in texts {
                let (_, errors) = parse("in.cue", &text, &ParseLimits::default());
                assert!(!errors.is_empty(), "{}", &text[..40]);
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn limits_have_errors_of_their_own() {
    let limits = ParseLimits { size: 20, ..ParseLimits::default() };
    let (_, errors) = parse("in.cue", &"a: 1\n".repeat(5), &limits);
    assert!(errors[0].limit);
    let limits = ParseLimits { tokens: 20, ..ParseLimits::default() };
    let (_, errors) = parse("in.cue", &"a: 1\n".repeat(6), &limits);
    assert!(errors[0].limit && errors.len() == 1);
    // A chain of operators is long, not deep.
    let (_, errors) = parse("in.cue", &format!("x: {}1", "1|".repeat(20_000)), &limits_of(1_000));
    assert_eq!(errors, []);
    let nested = format!("x: {}1{}", "{a: ".repeat(998), "}".repeat(998));
    assert_eq!(parse("in.cue", &nested, &limits_of(1_000)).1, []);
    assert!(parse("in.cue", &nested, &limits_of(900)).1[0].limit);
}

fn limits_of(depth: u32) -> ParseLimits {
    ParseLimits { depth, ..ParseLimits::default() }
}

#[test]
fn single_expressions() {
    let (file, expr, errors) = parse_expr("-e", "a.b & {c: 1}", &ParseLimits::default());
    assert_eq!(errors, []);
    assert!(matches!(file.ast.expr(expr.unwrap()), Expr::Binary(..)));
    for text in ["", "a: 1", "a b", "a,, b"] {
        let (_, expr, errors) = parse_expr("-e", text, &ParseLimits::default());
        assert!(expr.is_none() && !errors.is_empty(), "{text}");
    }
}

#[test]
fn names_follow_gos_letters_and_digits() {
    for (text, is_name) in [
        ("a\u{e9}\u{661}", true),
        ("\u{5b57}", true),
        ("$x", true),
        ("_#a", true),
        ("\u{2160}", false), // a letter number
        ("\u{2118}", false), // a symbol that Unicode allows in names
        ("a\u{300}", false), // a combining mark
    ] {
        let mut lexer = Lexer::new(text);
        let token = lexer.next_token();
        let whole = token.kind == TokenKind::Ident && token.span.end as usize == text.len();
        assert_eq!(whole, is_name, "{text}");
    }
}

#[test]
fn numbers_keep_their_digits() {
    for (text, coefficient, exponent, is_int) in [
        ("0", "0", 0, true),
        ("1_000", "1000", 0, true),
        ("1.50", "150", -2, false),
        ("1.", "1", 0, false),
        (".5K", "500", 0, true),
        ("2Gi", "2147483648", 0, true),
        ("1e3", "1", 3, false),
        ("0x_ff", "255", 0, true),
        ("0o17", "15", 0, true),
        ("0xffffffffffffffffffff", "1208925819614629174706175", 0, true),
    ] {
        let number = Number::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(number.coefficient, coefficient, "{text}");
        assert_eq!((number.exponent, number.is_int), (exponent, is_int), "{text}");
    }
    for text in ["", "01", "1x", "0b2", "1__0", "1e", "1.3Ki", "0x", "1_", "--1", "1e99999999999"] {
        assert!(Number::parse(text).is_err(), "{text}");
    }
    assert_eq!(Number::parse("0.00000001").unwrap().text(), "1E-8");
    assert_eq!(Number::parse("1e2").unwrap().text(), "1E+2");
    assert_eq!(Number::parse("12.50").unwrap().text(), "12.50");
}

#[test]
fn strings_decode() {
    for (text, value) in [
        (r#""a\nb\/""#, "a\nb/"),
        (r##"#"\n\#n"#"##, "\\n\n"),
        (r#""\uD834\uDD1E""#, "\u{1d11e}"),
        ("\"\"\"\n\t a\n\n\t b\\\n\t c\n\t \"\"\"", "a\n\nbc"),
        ("\"\"\"\r\n a\r\n \"\"\"", "a"),
        // Closing quotes that follow text: the white space before them is the indentation, too.
        ("\"\"\"\n  a\n\n  b  \"\"\"", "a\n\nb  "),
        ("\"\"\"\n  a\n b \"\"\"", " a\nb "),
        ("\"\"\"\n  a\"\"\"", "  a"),
        ("\"\"\"\na\\n\"\"\"", "a\n"),
    ] {
        assert_eq!(unquote(text), Ok(Text::String(value.to_owned())), "{text}");
    }
    for text in [
        r#""\x41""#,
        r#""\uD834""#,
        "\"\"\"\n a\n  \"\"\"",
        "\"\"\"\n a\n  b  \"\"\"",
        "\"\"\"a\"\"\"",
        "\"a\"b",
    ] {
        assert!(unquote(text).is_err(), "{text}");
    }
}

/// Mutations of real texts: the parser must return, whatever it reads. Deterministic, and small
/// enough to run always; `tests/fuzz` goes further.
#[test]
fn mutated_texts_never_panic() {
    let seeds = [
        "package p\nimport \"list\"\na: b?: [X=string]: {c!: 1 | *2, ...} // d\n",
        "x: \"a\\(b + \"\\(c)\")d\" @go(X)\ny: '''\n\ta\\xff\n\t'''\n",
        "for k, v in x if k != _|_ let z = v {\"\\(k)\": [...z], (k)?: >=1 & <=0x1F}\n",
        "#\"\\#(a)\"#: 1.5Ki div -.5e-3\nif true {a}, X=Y: Z={a.\"b\"[1:2](3)}\n",
    ];
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "\"\"\"\n",
        "\\(",
        "#",
        ":",
        "?",
        "!",
        ",",
        "\n",
        "...",
        "for ",
        "in ",
        "if ",
        "let ",
        "=",
        "_|_",
        "@a(",
        "//",
        "\u{feff}",
        "\0",
        "\u{10ffff}",
        "0x",
        "1e",
        "&",
        "|",
        "*",
        "-",
        ".",
        "\r",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut text: Vec<char> = seeds[random(seeds.len())].chars().collect();
        for _ in 0..=random(4) {
            let at = random(text.len() + 1);
            match random(3) {
                0 => {
                    let end = (at + random(8)).min(text.len());
                    text.drain(at..end);
                }
                1 => {
                    let piece: Vec<char> = pieces[random(pieces.len())].chars().collect();
                    text.splice(at..at, piece);
                }
                _ => {
                    let from = random(text.len() + 1);
                    let end = (from + random(20)).min(text.len());
                    let copy = text[from..end].to_vec();
                    text.splice(at..at, copy);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let (file, errors) = parse("in.cue", &text, &ParseLimits::default());
        if errors.is_empty() {
            let printed = cue_syntax::format(&file);
            let (again, errors) = parse("in.cue", &printed, &ParseLimits::default());
            assert_eq!(errors, [], "source:\n{text}\nprinted:\n{printed}");
            assert_eq!(dump(&file), dump(&again), "source:\n{text}\nprinted:\n{printed}");
        }
    }
}
