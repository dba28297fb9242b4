//! Sentences about parameters: in plain words, followed by CUE's.

use serde_json::Value;

use super::{hint, kind_of};

pub(crate) fn unknown_parameter(field: &str, of: &str, nearest: Option<&str>) -> String {
    format!("{field}: {of} has no such parameter; it is ignored{}", hint(nearest))
}

pub(crate) fn undeclared_parameter(of: &str, nearest: Option<&str>) -> String {
    format!("{of} has no such parameter{}", hint(nearest))
}

/// A parameter that does not fit, in plain words, and behind them CUE's, which people search for.
pub(crate) fn parameter(
    given: Option<&str>,
    expected: Option<&str>,
    nearest: Option<&str>,
    cue: &str,
) -> String {
    // a problem that a sentence of ours reports already stays as it is
    if cue.contains('\n') || cue.contains("missing parameters") {
        return cue.to_owned();
    }
    match (given.map(written), expected.map(plain)) {
        (_, None) if cue.contains("not allowed") => {
            format!("there is no such parameter{} ({cue})", hint(nearest))
        }
        (Some(given), Some(expected)) => format!("must be {expected}, not {given} ({cue})"),
        (None, Some(expected)) if cue.contains("incomplete") => {
            format!("required value, {expected} ({cue})")
        }
        _ => cue.to_owned(),
    }
}

/// A JSON value as people say it.
fn written(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), |value| kind_of(&value))
}

/// A CUE type as people say it; a longer expression as it is.
fn plain(expected: &str) -> String {
    let word = |part: &str| {
        Some(match part {
            "string" => "a text",
            "int" => "a whole number",
            "number" | "float" => "a number",
            "bool" => "a boolean",
            "null" => "null",
            _ => return None,
        })
    };
    let parts: Vec<&str> =
        expected.split(" | ").map(|part| part.trim().trim_start_matches('*')).collect();
    let is_text = |part: &&str| part.starts_with('"') && part.ends_with('"');
    if parts.iter().all(is_text) {
        return match parts.as_slice() {
            [one] => (*one).to_owned(),
            many => format!("one of {}", many.join(", ")),
        };
    }
    let words: Option<Vec<&str>> = parts.iter().map(|part| word(part)).collect();
    match (words, expected.chars().next()) {
        (Some(words), _) => words.join(" or "),
        (None, Some('{')) => "an object".to_owned(),
        (None, Some('[')) => "a list".to_owned(),
        (None, _) => expected.to_owned(),
    }
}

pub(crate) fn none_of(all: &[Value], got: &Value, nearest: Option<&str>) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("must be one of {}, not {}{}", all.join(", "), kind_of(got), hint(nearest))
}

pub(crate) fn missing_parameter(component: &str, path: &str) -> String {
    format!("component \"{component}\": missing parameters: {path} (required value)")
}

pub(crate) fn missing_warning(field: &str) -> String {
    format!("{field}: required value, given neither here nor by a workflow step or override")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_told_in_plain_words_and_cues() {
        let conflict = "conflicting values \"x\" and int (mismatched types string and int)";
        for (given, expected, nearest, cue, reported) in [
            (
                Some("\"x\""),
                Some("int"),
                None,
                conflict,
                format!("must be a whole number, not the text \"x\" ({conflict})"),
            ),
            (
                Some("\"x\""),
                Some("*\"a\" | \"b\""),
                None,
                "2 errors in empty disjunction:",
                "must be one of \"a\", \"b\", not the text \"x\" (2 errors in empty disjunction:)"
                    .to_owned(),
            ),
            (
                None,
                Some("string"),
                None,
                "incomplete value string",
                "required value, a text (incomplete value string)".to_owned(),
            ),
            (
                Some("1"),
                None,
                Some("image"),
                "field not allowed",
                "there is no such parameter; did you mean \"image\"? (field not allowed)"
                    .to_owned(),
            ),
            (None, None, None, "anything else", "anything else".to_owned()),
        ] {
            assert_eq!(parameter(given, expected, nearest, cue), reported);
        }
    }
}
