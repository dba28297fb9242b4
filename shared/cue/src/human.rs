//! Errors for people: one paragraph for each cause, saying what was given, what was expected and
//! what may have been meant.
//!
//! The reference's texts are the input ([`Error::message`]): users search for those, so they stay
//! what every other path prints, and this one explains them.

use crate::error::{Class, Error};

/// What went wrong, and the errors it was concluded from (alternatives that were tried).
struct Cause<'a> {
    error: &'a Error,
    tried: Vec<Self>,
}

/// All errors, one line each; alternatives that do not say the same are listed below theirs.
pub(crate) fn render(errors: &[Error]) -> String {
    let mut rest = errors;
    let mut lines: Vec<String> = Vec::new();
    while let Some(cause) = take(&mut rest, 0) {
        let mut text = Vec::new();
        write(&cause, "", &mut text);
        for line in text {
            if line.starts_with(' ') || !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.join("\n")
}

/// The first error with what it was concluded from, which follows it in the list.
fn take<'a>(rest: &mut &'a [Error], depth: u32) -> Option<Cause<'a>> {
    let (error, tail) = rest.split_first()?;
    *rest = tail;
    let count = error.message.strip_suffix(" errors in empty disjunction:");
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut tried = Vec::new();
    while tried.len() < count
        && depth < 20
        && rest.first().is_some_and(|next| next.path.starts_with(&error.path))
    {
        tried.extend(take(rest, depth + 1));
    }
    Some(Cause { error, tried })
}

fn write(cause: &Cause<'_>, indent: &str, lines: &mut Vec<String>) {
    let error = cause.error;
    if cause.tried.is_empty() {
        let alternative = !indent.is_empty();
        lines.push(line(error, &sentence(error, alternative), indent));
        return;
    }
    if let Some(text) = one_sentence(cause) {
        lines.push(line(error, &text, indent));
        return;
    }
    lines.push(line(error, "none of the allowed forms fits", indent));
    for tried in &cause.tried {
        write(tried, &format!("{indent}  "), lines);
    }
}

fn line(error: &Error, text: &str, indent: &str) -> String {
    let mut line = indent.to_owned();
    if !error.path.is_empty() {
        line.push_str(&error.path.join("."));
        line.push_str(": ");
    }
    line.push_str(text);
    if let Some(hint) = &error.hint {
        line.push_str(&format!(" ({hint})"));
    }
    if let Some(position) = error.positions.first() {
        line.push_str(&format!(" [{position}]"));
    }
    line
}

/// Alternatives that all refuse the same value of the same field: what they accept, in one line.
fn one_sentence(cause: &Cause<'_>) -> Option<String> {
    let first = cause.tried.first()?;
    let mut expected: Vec<&str> = Vec::new();
    let mut given = None;
    for tried in &cause.tried {
        if !tried.tried.is_empty() || tried.error.path != first.error.path {
            return None;
        }
        let conflict = Conflict::read(&tried.error.message)?;
        // Of two atoms the alternative comes first.
        let (want, have) = conflict.sides().unwrap_or((conflict.a, conflict.b));
        if *given.get_or_insert(have) != have {
            return None;
        }
        if !expected.contains(&want) {
            expected.push(want);
        }
    }
    let given = given?;
    let place = match first.error.path.strip_prefix(cause.error.path.as_slice()) {
        Some([]) | None => String::new(),
        Some(below) => format!("{}: ", below.join(".")),
    };
    let wanted = match expected.as_slice() {
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
        [] => return None,
    };
    let mut text = format!("{place}expected {wanted}, got {given}");
    if let Some(given) = unquoted(given) {
        let known = expected.iter().filter_map(|want| unquoted(want));
        if let Some(nearest) = vela_gocompat::nearest(given, known) {
            text.push_str(&format!(" (did you mean {nearest:?}?)"));
        }
    }
    Some(text)
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// One error in plain words. Of the two values that exclude each other in an alternative, the
/// first is the alternative's.
fn sentence(error: &Error, alternative: bool) -> String {
    let message = error.message.as_str();
    if let Some(conflict) = Conflict::read(message) {
        return match conflict.sides() {
            Some((want, have)) => format!("expected {want}, got {have}"),
            None if alternative => format!("expected {}, got {}", conflict.a, conflict.b),
            None => format!("{} and {} exclude each other", conflict.b, conflict.a),
        };
    }
    if let Some(kind) = message.strip_prefix("incomplete value ") {
        return format!("no value given, expected {kind}");
    }
    if let Some((value, bound)) = between(message, "invalid value ", " (out of bound ") {
        return format!("expected {bound}, got {value}");
    }
    if let Some((value, check)) = between(message, "invalid value ", " (does not satisfy ") {
        return format!("{value} does not satisfy {check}");
    }
    if let Some(name) = message.strip_prefix("undefined field: ") {
        return format!("there is no field {name}");
    }
    if let Some(name) =
        message.strip_prefix("reference ").and_then(|rest| rest.strip_suffix(" not found"))
    {
        return format!("the name {name} is not defined here");
    }
    match message {
        "field not allowed" => "this field is not allowed here".to_owned(),
        "field is required but not present" => "this field has to be given".to_owned(),
        "structural cycle" => "this value contains itself without end".to_owned(),
        _ if error.class == Class::Cycle => {
            let with = message.strip_prefix("cycle with field: ").unwrap_or(message);
            format!("this value depends on itself, through {with}")
        }
        _ => message.to_owned(),
    }
}

/// `{start}{first}{middle}{second})`, with the closing parenthesis and what follows it removed
/// from the second part if it ends there.
fn between<'a>(message: &'a str, start: &str, middle: &str) -> Option<(&'a str, String)> {
    let (first, second) = message.strip_prefix(start)?.rsplit_once(middle)?;
    let second = match second.strip_suffix(')') {
        Some(second) => second.to_owned(),
        None => second.replacen("): ", ": ", 1),
    };
    Some((first, second))
}

/// `conflicting values A and B (mismatched types K and L)`, the kinds only if they differ.
struct Conflict<'a> {
    a: &'a str,
    b: &'a str,
}

impl<'a> Conflict<'a> {
    fn read(message: &'a str) -> Option<Self> {
        let values = message.strip_prefix("conflicting values ")?;
        let values = match values.rfind(" (mismatched types ") {
            Some(at) => values.get(..at)?,
            None => values,
        };
        // Either value may contain " and ": behind a string, or before the last one.
        let from = if values.starts_with('"') { end_of_string(values)? } else { 0 };
        let at = from + values.get(from..)?.find(" and ")?;
        Some(Self { a: values.get(..at)?, b: values.get(at + 5..)? })
    }

    /// What was expected and what was given, if only one side is a value.
    fn sides(&self) -> Option<(&'a str, &'a str)> {
        match (is_value(self.a), is_value(self.b)) {
            (false, true) => Some((self.a, self.b)),
            (true, false) => Some((self.b, self.a)),
            // Fields of a given struct are not shown; a type of structs shows its own.
            (false, false) if self.a == "{...}" => Some((self.b, self.a)),
            (false, false) if self.b == "{...}" => Some((self.a, self.b)),
            _ => None,
        }
    }
}

/// The offset behind a string literal at the start.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Whether a text is that of a concrete scalar.
fn is_value(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    matches!(text, "null" | "true" | "false")
        || text.starts_with('"') && end_of_string(text) == Some(text.len())
        || digits.starts_with(|c: char| c.is_ascii_digit())
            && digits
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'E' | 'e' | '+' | '-'))
}

#[cfg(test)]
mod tests {
    use crate::{Limits, Packages, Program, Value};
    use expect_test::{Expect, expect};

    /// Mistakes that users of templates make, and what they read.
    #[track_caller]
    fn check(template: &str, parameter: &str, expected: &Expect) {
        let errors = match Program::compile("in.cue", template, &Packages::std()) {
            Err(errors) => errors,
            Ok(program) => {
                let json: serde_json::Value = serde_json::from_str(parameter).unwrap();
                let parameter = Value::from(json);
                let mut evaluation =
                    program.evaluate(&[("parameter", &parameter)], &Limits::default());
                let root = evaluation.root();
                evaluation.export(root).unwrap_err()
            }
        };
        expected.assert_eq(&errors.human());
    }

    #[test]
    fn a_value_of_the_wrong_type() {
        check(
            "parameter: {port: int}",
            r#"{"port": "80"}"#,
            &expect![[r#"parameter.port: expected int, got "80" [in.cue:1:19]"#]],
        );
        check(
            "parameter: {env: [...{name: string}]}",
            r#"{"env": {"a": "b"}}"#,
            &expect!["parameter.env: expected [...{name: string}], got {...} [in.cue:1:18]"],
        );
        check(
            "parameter: {cmd: string | [...string]}",
            r#"{"cmd": 5}"#,
            &expect!["parameter.cmd: expected string or [...string], got 5"],
        );
    }

    #[test]
    fn a_word_that_is_not_one_of_those_allowed() {
        let template = r#"parameter: {pull: "Always" | "IfNotPresent" | "Never"}"#;
        check(
            template,
            r#"{"pull": "IfNotPresnt"}"#,
            &expect![[
                r#"parameter.pull: expected "Always", "IfNotPresent" or "Never", got "IfNotPresnt" (did you mean "IfNotPresent"?)"#
            ]],
        );
    }

    #[test]
    fn a_field_with_a_typing_error() {
        check(
            "parameter: close({image: string, cmd?: [...string]})",
            r#"{"imgae": "x"}"#,
            &expect![[
                r#"parameter.imgae: this field is not allowed here (did you mean "image"?)"#
            ]],
        );
        check(
            "#P: {image: string}, parameter: #P",
            r#"{"image": "x", "prot": 1}"#,
            &expect!["parameter.prot: this field is not allowed here"],
        );
    }

    #[test]
    fn a_value_that_is_missing() {
        check(
            "parameter: {image: string, port!: int}",
            "{}",
            &expect!["parameter.image: no value given, expected string"],
        );
    }

    #[test]
    fn a_value_out_of_bounds() {
        check(
            "parameter: {replicas: >=1 & <=10}",
            r#"{"replicas": 11}"#,
            &expect!["parameter.replicas: expected <=10, got 11"],
        );
        check(
            r#"parameter: {name: =~"^[a-z]+$"}"#,
            r#"{"name": "Upper (case)"}"#,
            &expect![[r#"parameter.name: expected =~"^[a-z]+$", got "Upper (case)""#]],
        );
        let template = "import \"strings\"\nparameter: {name: strings.MaxRunes(3)}";
        check(
            template,
            r#"{"name": "long"}"#,
            &expect![[r#"parameter.name: "long" does not satisfy strings.MaxRunes(3)"#]],
        );
    }

    #[test]
    fn a_form_that_fits_none() {
        let template =
            r#"parameter: {p: {kind: "http", port: int} | {kind: "exec", command: string}}"#;
        check(
            template,
            r#"{"p": {"kind": "https", "port": 1}}"#,
            &expect![[
                r#"parameter.p: kind: expected "http" or "exec", got "https" (did you mean "http"?)"#
            ]],
        );
        check(
            template,
            r#"{"p": {"kind": "http", "port": "x"}}"#,
            &expect![[r#"
            parameter.p: none of the allowed forms fits
              parameter.p.kind: expected "exec", got "http"
              parameter.p.port: expected int, got "x" [in.cue:1:37]"#]],
        );
        let template = "parameter: {p: close({a: int}) | close({b: string})}";
        check(
            template,
            r#"{"p": {"a": "x", "c": 1}}"#,
            &expect![[r#"
            parameter.p: none of the allowed forms fits
              parameter.p.a: expected int, got "x" [in.cue:1:26]
              parameter.p.a: this field is not allowed here (did you mean "b"?)"#]],
        );
    }

    #[test]
    fn a_template_that_names_what_is_not_there() {
        check(
            "parameter: {image: string}\nout: paramter.image",
            r#"{"image": "x"}"#,
            &expect![[
                r#"out: the name "paramter" is not defined here (did you mean parameter?) [in.cue:2:6]"#
            ]],
        );
        check(
            "parameter: {image: string}\nout: parameter.imge",
            r#"{"image": "x"}"#,
            &expect![[r#"out: there is no field imge (did you mean "image"?) [in.cue:2:6]"#]],
        );
        check(
            "import \"strings\"\nout: strngs.ToUpper(\"x\")",
            "{}",
            &expect![[r#"
            out: the name "strngs" is not defined here (did you mean strings?) [in.cue:2:6]
            imported and not used: "strings" [in.cue:1:8]"#]],
        );
    }

    #[test]
    fn two_values_for_one_field() {
        check(
            "parameter: {}\nout: a: 1\nout: a: 2",
            "{}",
            &expect!["out.a: 1 and 2 exclude each other [in.cue:2:9]"],
        );
        check(
            "parameter: {}\nout: a: \"x and y\"\nout: a: \"z\"",
            "{}",
            &expect![[r#"out.a: "x and y" and "z" exclude each other [in.cue:2:9]"#]],
        );
    }

    #[test]
    fn a_value_that_needs_itself() {
        check(
            "parameter: {}\na: b + 1\nb: a - 1",
            "{}",
            &expect!["b: this value depends on itself, through a [in.cue:3:4]"],
        );
        check(
            "parameter: {}\na: b: a",
            "{}",
            &expect!["a.b: this value contains itself without end"],
        );
    }

    #[test]
    fn the_authors_own_words() {
        let template = "parameter: {n: int}\nif parameter.n > 3 {out: error(\"at most 3\")}";
        check(template, r#"{"n": 4}"#, &expect!["out: at most 3 [in.cue:2:26]"]);
    }
}
