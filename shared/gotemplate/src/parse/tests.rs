//! Texts that are no templates, with their errors; trees that are what they were.

use super::node::{Node, Show};
use super::*;
use crate::builtin::Builtin;

fn find(name: &str) -> Option<Callee> {
    Builtin::named(name).map(Callee::Builtin)
}

fn error(text: &str) -> String {
    match parse("n", &text.into(), &find) {
        Ok(trees) => panic!("{text} parses: {trees:?}"),
        Err(error) => error.to_string().strip_prefix("template: n:").unwrap().to_owned(),
    }
}

#[test]
fn errors_name_the_line() {
    let mut wrong = Vec::new();
    for (text, want) in [
        ("\n{{", "2: unclosed action"),
        ("{{\n\n", "3: unclosed action started at n:1"),
        ("{{ .a\n @ }}", "2: unexpected \"@\" in operand"),
        ("{{if 1}}\n\n", "3: unexpected EOF"),
        ("{{end}}", "1: unexpected {{end}}"),
        ("{{if 1}}{{else}}{{else}}", "1: expected end; found {{else}}"),
        ("{{range 1}}{{else if 1}}", "1: unexpected <if> in input"),
        ("{{nope}}", "1: function \"nope\" not defined"),
        ("{{$x}}", "1: undefined variable \"$x\""),
        ("{{$x, $y := 1}}", "1: too many declarations in command"),
        ("{{range $x, 1}}", "1: range can only initialize variables"),
        ("{{if}}", "1: missing value for if"),
        ("{{1 | 2}}", "1: non executable command in pipeline stage 2"),
        ("{{()}}", "1: missing value for parenthesized pipeline"),
        ("{{1.a}}", "1: bad number syntax: \"1.a\""),
        ("{{nil.a}}", "1: unexpected . after term \"nil\""),
        ("{{(1}}", "1: unclosed left paren"),
        ("{{1)}}", "1: unexpected right paren"),
        ("{{break}}", "1: {{break}} outside {{range}}"),
        ("{{block \"b\"}}", "1: missing value for block clause"),
        ("{{template .a}}", "1: unexpected \".a\" in template clause"),
        ("{{if 1}}{{define \"x\"}}", "1: unexpected <define> in command"),
        (
            "{{define \"x\"}}1{{end}}{{define \"x\"}}2{{end}}",
            "1: template: multiple definition of template \"x\"",
        ),
        ("{{/* a", "1: unclosed comment"),
        ("{{/* a */ 1}}", "1: comment ends before closing delimiter"),
        ("{{\"a", "1: unterminated quoted string"),
        ("{{`a", "1: unterminated raw quoted string"),
        ("{{'a", "1: unterminated character constant"),
        ("{{'ab'}}", "1: malformed character constant: 'ab'"),
        ("{{\"\\z\"}}", "1: invalid syntax"),
        ("{{1x}}", "1: bad number syntax: \"1x\""),
        ("{{08}}", "1: integer overflow: \"08\""),
        ("{{99999999999999999999}}", "1: integer overflow: \"99999999999999999999\""),
        ("{{2i}}", "1: complex constants are not supported: \"2i\""),
        ("{{1+2i}}", "1: complex constants are not supported: \"1+2i\""),
        ("{{\u{1}}}", "1: unrecognized character in action: U+0001"),
        ("{{.a$}}", "1: bad character U+0024 '$'"),
        ("{{if\n1 @}}", "2: unexpected \"@\" in operand"),
        ("{{if 1\n \"}}", "2: unterminated quoted string in action started at n:1"),
        ("{{if 1\n", "2: unclosed action started at n:1"),
    ] {
        let got = error(text);
        if got != want {
            wrong.push(format!("{text}\n  got  {got}\n  want {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nesting_is_bounded() {
    assert!(error(&"{{if 1}}".repeat(100_000)).ends_with("blocks nest too deep"));
    let parens = format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(error(&parens), "1: max expression depth exceeded");
    let chain = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 1}}".repeat(100_000));
    assert!(error(&chain).ends_with("blocks nest too deep"));
}

#[test]
fn nodes_are_shown_in_source_form() {
    for (text, want) in [
        ("{{ $x  :=  .a.b |  printf \"%d\"   1 }}", "{{$x := .a.b | printf \"%d\" 1}}"),
        ("{{(index  . 1).a.b  'c' `d`}}", "{{(index . 1).a.b 'c' `d`}}"),
        ("{{$ }}", "{{$}}"),
        ("{{template \"a\\tb\" ( not true ) }}", "{{template \"a\\tb\" (not true)}}"),
    ] {
        let trees = parse("n", &text.into(), &find).unwrap();
        let tree = trees.last().unwrap();
        let at = match &tree.root[0] {
            Node::Action(pipeline) => node::At::Action(pipeline),
            Node::Template(invocation) => node::At::Template(invocation),
            other => panic!("{other:?}"),
        };
        assert_eq!(Show(tree, at).to_string(), want);
    }
}

#[test]
fn definitions_are_trees_of_their_own() {
    let text = "{{define \"a\"}} {{end}}{{define \"a\"}}1{{end}}x";
    let trees = parse("n", &text.into(), &find).unwrap();
    let names: Vec<_> = trees.iter().map(|tree| (tree.name.as_str(), tree.is_empty())).collect();
    assert_eq!(names, [("a", false), ("n", false)]);
}
