//! Texts of YAML, JSON and TOML, as people write them and as nobody should.

use super::Dice;
use crate::case::Case;

/// A short document of one of the languages.
pub(crate) fn document(dice: &mut Dice) -> String {
    match dice.0.u32(..8) {
        0 => super::values::any(dice, 2).to_string(),
        1 => toml(dice),
        2 => dice.pieces(8),
        _ => yaml(dice),
    }
}

fn toml(dice: &mut Dice) -> String {
    let mut out = String::new();
    for _ in 0..=dice.up_to(4) {
        let key = dice.one_of(&["a", "b", "c.d", "\"q\"", "a-b", "1"]).to_owned();
        let value = dice
            .one_of(&[
                "1",
                "1.5",
                "\"s\"",
                "'lit'",
                "true",
                "[1, 2]",
                "{x = 1}",
                "1979-05-27",
                "1979-05-27T07:32:00Z",
                "07:32:00",
                "\"\"\"m\nl\"\"\"",
                "0x1f",
                "1_000",
                "inf",
                "1e3",
                "[\"a\", 1]",
                "x",
            ])
            .to_owned();
        match dice.0.u32(..6) {
            0 => out += &format!("[{key}]\n"),
            1 => out += &format!("[[{key}]]\n"),
            _ => out += &format!("{key} = {value}\n"),
        }
    }
    out
}

/// A document of YAML.
pub(crate) fn yaml(dice: &mut Dice) -> String {
    let mut out = String::new();
    let _ = block(dice, &mut out, 0, 3);
    if dice.percent(15) {
        return damaged(dice, &out);
    }
    out
}

fn block(dice: &mut Dice, out: &mut String, indent: usize, depth: usize) -> Option<()> {
    let pad = " ".repeat(indent);
    let count = 1 + dice.up_to(3);
    let list = dice.percent(35);
    for _ in 0..count {
        if dice.percent(6) {
            *out += dice.one_of(&[
                "# comment\n",
                "\n",
                "   \n",
                "  # c\n",
                "---\n",
                "...\n",
                "%YAML 1.1\n",
            ]);
        }
        *out += &pad;
        if list {
            *out += dice.one_of(&["- ", "- ", "-   ", "-\t"]);
        } else {
            *out += &key(dice);
            *out += dice.one_of(&[": ", ": ", ": ", ":  ", " : ", ":\t"]);
        }
        if depth > 0 && dice.percent(35) {
            if !list || dice.percent(30) {
                *out += dice.one_of(&["", "", "", "&a ", "!!map ", "# c"]);
                *out += "\n";
                let deeper = dice.one_of(&["1", "2", "4", "0"]).parse().unwrap_or(2);
                block(dice, out, indent + if list { 2 } else { deeper }, depth - 1);
            } else {
                // A map that begins on the line of its dash.
                let mut inner = String::new();
                block(dice, &mut inner, indent + 2, depth - 1);
                *out += inner.trim_start_matches(' ');
            }
            continue;
        }
        *out += &scalar(dice, indent);
        *out += dice.one_of(&["\n", "\n", "\n", " \n", " # c\n", "\r\n"]);
    }
    Some(())
}

fn key(dice: &mut Dice) -> String {
    dice.one_of(&[
        "a",
        "b",
        "c",
        "a b",
        "\"q\"",
        "'s'",
        "1",
        "1.0",
        "true",
        "yes",
        "null",
        "~",
        "<<",
        "0x10",
        "é",
        "? x\n",
        "!!str 1",
        "&k k",
        "2020-01-01",
        "-x",
        "a#b",
        ".inf",
        "1e3",
        "[1]",
        "{a: 1}",
        "key with spaces",
        "x:y",
        "n",
        "on",
        "08",
    ])
    .to_owned()
}

fn scalar(dice: &mut Dice, indent: usize) -> String {
    match dice.0.u32(..16) {
        0..=2 => dice.number(),
        3 | 4 => dice.numeral().to_owned(),
        5 | 6 => dice
            .one_of(&[
                "yes",
                "No",
                "TRUE",
                "on",
                "off",
                "y",
                "N",
                "~",
                "null",
                "Null",
                "",
                ".inf",
                "-.INF",
                ".nan",
                "0o14",
                "0b11",
                "017",
                "1_2",
                "+5",
                "1:30",
                "12:30:45",
                "2001-12-14t21:59:43.10-05:00",
                "2001-12-14",
                "=",
                "<<",
                "1.",
                ".5e1",
                "-",
                "0x1G",
                "-0",
                "1e400",
                "0.1e-400",
            ])
            .to_owned(),
        7 => format!(
            "\"{}\"",
            dice.one_of(&[
                "a",
                "\\n",
                "\\x41",
                "\\u00e9",
                "\\U0001F600",
                "a\\\n   b",
                "\\q",
                "a\n\n  b",
                "\\t\\\"",
                "x: y",
                "\\ ",
                "\\_",
                "\\N"
            ])
        ),
        8 => format!("'{}'", dice.one_of(&["a", "it''s", "a\n  b", "x: y", "#", "", "\\n"])),
        9 | 10 => {
            let pad = " ".repeat(indent + 2);
            let head = dice
                .one_of(&["|", ">", "|-", ">-", "|+", ">+", "|2", "| # c", ">1", "|0", "|-2"])
                .to_owned();
            let mut out = head;
            for _ in 0..=dice.up_to(4) {
                out += "\n";
                if dice.percent(80) {
                    out += &pad;
                    out += dice.one_of(&[
                        "text",
                        "more text",
                        " indented",
                        "# no comment",
                        "a: b",
                        "",
                        "\ttab",
                        "- x",
                        "trail  ",
                    ]);
                }
            }
            out
        }
        11 => flow(dice, 2),
        12 => dice
            .one_of(&[
                "&a x",
                "*a",
                "*nope",
                "&b {c: 1}",
                "!!str 5",
                "!!int \"5\"",
                "!!binary aGVsbG8=",
                "!!float 1",
                "!x y",
                "!!bool yes",
                "!!null x",
                "!<tag:yaml.org,2002:str> 1",
                "!!timestamp 2020-01-01",
                "!!set {a}",
            ])
            .to_owned(),
        13 => dice
            .one_of(&[
                "plain text",
                "plain\n      continued",
                "a # c",
                "a#b",
                "a: b",
                "x:y",
                "@at",
                "`t",
                "%p",
                "- d",
                "? q",
                "a, b",
                "[x",
                "{y",
                "x]",
                "'",
                "\"",
                "\u{feff}b",
                "a\u{85}b",
                "!",
            ])
            .to_owned(),
        14 => dice.text(),
        _ => dice.pieces(5),
    }
}

fn flow(dice: &mut Dice, depth: usize) -> String {
    let list = dice.0.bool();
    let mut parts = Vec::new();
    for _ in 0..dice.up_to(3) {
        let inner = if depth > 0 && dice.percent(30) {
            flow(dice, depth - 1)
        } else {
            dice.one_of(&[
                "1", "a", "\"q\"", "yes", "", "'s'", "a b", "~", "1.5", "*a", "x:y", "a: b", "? k",
                "-1", "!!str 2", "http://x",
            ])
            .to_owned()
        };
        parts.push(if list {
            inner
        } else {
            format!("{}{}{inner}", key(dice), dice.one_of(&[": ", ": ", ":", " : "]))
        });
    }
    let between = dice.one_of(&[", ", ",", ",\n      ", " , "]);
    let body = parts.join(between) + dice.one_of(&["", "", "", ",", " ,"]);
    if list { format!("[{body}]") } else { format!("{{{body}}}") }
}

fn damaged(dice: &mut Dice, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.up_to(2) {
        if chars.is_empty() {
            break;
        }
        let at = dice.up_to(chars.len() - 1);
        match dice.0.u32(..3) {
            0 => {
                chars.remove(at);
            }
            1 => {
                for char in dice.pieces(2).chars().rev() {
                    chars.insert(at, char);
                }
            }
            _ => {
                let end = (at + 1 + dice.up_to(6)).min(chars.len());
                chars.drain(at..end);
            }
        }
    }
    chars.into_iter().collect()
}

/// A text that is read as values, or by a function.
pub(crate) fn grow(dice: &mut Dice) -> Case {
    let show = dice.one_of(&["toJson", "toYaml", "toPrettyJson", "printf \"%#v\""]).to_owned();
    if dice.percent(50) {
        let text = format!("{{{{ {show} .Values }}}}");
        let values = yaml(dice);
        if dice.percent(70) {
            return Case::template(text, values);
        }
        let mut case = Case::template(text, String::new());
        case.files.insert("values.yaml".to_owned(), values);
        return case;
    }
    let reader = dice
        .one_of(&["fromYaml", "fromYaml", "fromYamlArray", "fromJson", "fromJsonArray", "fromToml"])
        .to_owned();
    let document = match reader.as_str() {
        "fromYaml" | "fromYamlArray" => yaml(dice),
        "fromToml" => toml(dice),
        _ => {
            let text = super::values::any(dice, 3).to_string();
            if dice.percent(30) { damaged(dice, &text) } else { text }
        }
    };
    let text = format!("{{{{ .Files.Get \"doc\" | {reader} | {show} }}}}");
    let mut case = Case::template(text, String::new());
    case.files.insert("doc".to_owned(), document);
    case
}
