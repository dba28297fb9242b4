//! Sentences for users stand in `messages.rs`, where they can be read, compared and tested.
//!
//! A line-based check of string literals of five words or more. Errors for operators (in `error`
//! attributes and contexts), logs and texts of metrics are not for users and do not count.

use std::fs;

use crate::{files, none, relative};

/// Where users' objects are judged and rendered.
const FOLDERS: [&str; 6] = [
    "webhook/src/application/",
    "webhook/src/definition/",
    "controller/src/application/",
    "controller/src/definition/",
    "shared/render/src/",
    "shared/workflow/src/",
];

/// Descriptions inside generated parameter schemas: data, equal to the reference's.
const SCHEMAS: [&str; 1] = ["shared/render/src/hcl.rs"];

const NOT_FOR_USERS: [&str; 16] = [
    "trace!(",
    "debug!(",
    "info!(",
    "warn!(",
    "error!(",
    "expect(",
    "assert!(",
    "assert_eq!(",
    "unreachable!(",
    "context(",
    "context(||",
    "reason =",
    "#[error",
    "#[arg",
    "concat!(",
    "bail!(",
];

/// The string literals of a line.
fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    let mut escaped = false;
    for (at, char) in line.char_indices() {
        match (start, char) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(from), '"') => {
                found.push(&line[from..at]);
                start = None;
            }
            (None, '"') => start = Some(at + 1),
            _ => {}
        }
    }
    found
}

fn is_sentence(text: &str) -> bool {
    let word = |word: &&str| word.len() > 1 && word.chars().all(|char| char.is_ascii_lowercase());
    text.split(' ').filter(word).count() >= 5
}

#[test]
fn sentences_are_found() {
    assert_eq!(literals(r#"f("a \"b\" c", "d"); // it's"#), [r#"a \"b\" c"#, "d"]);
    assert!(is_sentence("the component type {name} is not known here"));
    assert!(!is_sentence("app.oam.dev/name a list of"));
}

#[test]
fn sentences_for_users_stand_in_messages() {
    let mut wrong = Vec::new();
    for path in files() {
        let name = relative(&path);
        let text_of_users = FOLDERS.iter().any(|placement| name.starts_with(placement))
            && name.ends_with(".rs")
            && !SCHEMAS.contains(&name.as_str())
            && !name.ends_with("/messages.rs")
            && !name.ends_with("tests.rs")
            && !name.contains("/messages/")
            && !name.contains("/tests/");
        if !text_of_users {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate() {
            let line = line.trim();
            if line.starts_with("//") || NOT_FOR_USERS.iter().any(|mark| line.contains(mark)) {
                continue;
            }
            if literals(line).into_iter().any(is_sentence) {
                wrong.push(format!("{name}:{}: {line}", index + 1));
            }
        }
    }
    none("sentences outside of messages.rs", &wrong);
}
