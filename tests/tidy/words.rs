//! Words that a Kubernetes engineer would have to learn are no identifiers: docs/glossary.md says what they are called.

use std::collections::HashMap;
use std::fs;
use std::str::FromStr as _;

use proc_macro2::{Ident, TokenStream, TokenTree};

use crate::{files, none, relative};

/// Each stands for a word of the field: reconcile, report, notify, placement, in addition, started, priority, slot, back-off.
const BANNED: [&str; 26] = [
    "anew",
    "begun",
    "beside",
    "brake",
    "brakes",
    "fight",
    "glimpse",
    "lane",
    "lanes",
    "lent",
    "look",
    "looked",
    "looks",
    "meanwhile",
    "mended",
    "seat",
    "seats",
    "spared",
    "spot",
    "spots",
    "tell",
    "tells",
    "told",
    "twins",
    "unreached",
    "untold",
];

/// Words that say of a constant neither what it bounds nor in what unit: `MAX_BODY`, `DEFAULT_TIMEOUT` do.
const BANNED_OF_CONSTANTS: [&str; 6] = ["few", "longest", "most", "patience", "silence", "usual"];

/// Where constants still have such names. The list only shrinks.
const UNNAMED: [&str; 4] = ["shared/cue/", "shared/gotemplate/", "shared/helm/", "tests/helmdiff/"];

/// From this many words on an identifier is a sentence: the name of a test.
const SENTENCE: usize = 5;

/// The words of an identifier, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in identifier.trim_start_matches("r#").split('_').filter(|part| !part.is_empty()) {
        let is_constant = part.chars().all(|char| !char.is_lowercase());
        let mut starts = true;
        for char in part.chars() {
            if starts || (char.is_uppercase() && !is_constant) {
                words.push(String::new());
            }
            starts = false;
            if let Some(word) = words.last_mut() {
                word.extend(char.to_lowercase());
            }
        }
    }
    words
}

/// The banned words of an identifier.
fn dialect(identifier: &str) -> Vec<String> {
    let words = words(identifier);
    if words.len() >= SENTENCE {
        return Vec::new();
    }
    words.into_iter().filter(|word| BANNED.contains(&word.as_str())).collect()
}

/// The banned words of a constant.
fn vague(identifier: &str) -> Vec<String> {
    if identifier.chars().any(char::is_lowercase) {
        return Vec::new();
    }
    let words = words(identifier).into_iter();
    words.filter(|word| BANNED_OF_CONSTANTS.contains(&word.as_str())).collect()
}

fn identifiers(stream: TokenStream, found: &mut Vec<Ident>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => found.push(ident),
            TokenTree::Group(group) => identifiers(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[test]
fn identifiers_are_taken_apart_and_judged() {
    assert_eq!(words("take_toldOnce"), ["take", "told", "once"]);
    assert_eq!(words("LOOK_AGAIN"), ["look", "again"]);
    assert_eq!(dialect("NextLook"), ["look"]);
    assert_eq!(dialect("lookup"), Vec::<String>::new());
    assert_eq!(dialect("an_event_is_told_at_once"), Vec::<String>::new());
    assert_eq!(vague("MOST_BYTES"), ["most"]);
    assert_eq!(vague("most_bytes"), Vec::<String>::new());
}

/// Words that comments do not use either: a reader knows reconcile, report, in addition, in flight.
const UNREADABLE: [&str; 14] = [
    "anew",
    "begun",
    "beside",
    "look",
    "looked",
    "looking",
    "looks",
    "meanwhile",
    "mended",
    "spared",
    "tell",
    "telling",
    "tells",
    "told",
];

/// Where comments are not rewritten yet. The list only shrinks.
const UNWRITTEN: [&str; 9] = [
    "controller/src/application/release",
    "controller/src/charts",
    "controller/src/clusters",
    "controller/src/egress",
    "shared/cluster/src/members",
    "shared/cue/",
    "shared/gotemplate/",
    "shared/helm/",
    "tests/",
];

/// The comment of a line, unless what begins it stands in a string.
fn comment(line: &str) -> Option<&str> {
    let (before, comment) = line.split_once("//")?;
    (before.matches('"').count() % 2 == 0 && !before.ends_with(':')).then_some(comment)
}

#[test]
fn comments_say_the_words_of_the_field() {
    assert_eq!(comment("let a = b; // why"), Some(" why"));
    assert_eq!(comment("let a = \"http://b\";"), None);
    let mut found = Vec::new();
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|ext| ext == "rs")) {
        let path = relative(&file);
        if UNWRITTEN.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (at, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let words = comment(line).unwrap_or_default().split(|char: char| !char.is_alphabetic());
            for word in words.filter(|word| UNREADABLE.contains(&word.to_lowercase().as_str())) {
                found.push(format!("{path}:{}: {word}", at + 1));
            }
        }
    }
    none("comments with a word that docs/glossary.md replaces", &found);
}

/// Phrases that documents do not use: in flight, unreachable, repeatedly, with a growing delay, restored, continues.
const RIDDLES: [&str; 13] = [
    "again and again",
    "are away",
    "be away",
    "ever more slowly",
    "go on",
    "goes on",
    "has its say",
    "have their say",
    "is away",
    "made again",
    "none any more",
    "put back",
    "under way",
];

/// Documents that quote such words: a history, a table of changes, the words themselves. The list only shrinks.
const UNREVISED: [&str; 3] =
    ["CHANGELOG.md", "docs/design/0013-what-a-stranger-meets.md", "docs/glossary.md"];

/// The prose of a document: without blocks of code and without what stands in backquotes, one line for each paragraph.
fn prose(document: &str) -> String {
    let without_blocks: Vec<&str> = document.split("```").step_by(2).collect();
    let without_code: Vec<String> = without_blocks
        .join("\n\n")
        .split("\n\n")
        .map(|paragraph| paragraph.split('`').step_by(2).collect::<Vec<_>>().join("`"))
        .collect();
    let line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    without_code.iter().map(line).collect::<Vec<_>>().join("\n").to_lowercase()
}

/// The words and phrases of a document that a reader would have to learn.
fn riddles(document: &str) -> Vec<&'static str> {
    let prose = prose(document);
    let words: Vec<&str> = prose.split(|char: char| !char.is_alphabetic()).collect();
    let banned = UNREADABLE.into_iter().filter(|banned| words.contains(banned));
    // A phrase stands between characters that are no letters.
    let padded: String =
        format!(" {prose} ").chars().map(|c| if c.is_alphabetic() { c } else { ' ' }).collect();
    banned
        .chain(RIDDLES.into_iter().filter(|phrase| padded.contains(&format!(" {phrase} "))))
        .collect()
}

#[test]
fn documents_say_the_words_of_the_field() {
    assert_eq!(riddles("It goes\non, and `told` is code."), ["goes on"]);
    assert_eq!(riddles("```\nmeanwhile\n```\nIt outlooks."), Vec::<&str>::new());
    let mut found = Vec::new();
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|ext| ext == "md")) {
        let path = relative(&file);
        if UNREVISED.contains(&path.as_str()) {
            continue;
        }
        let words = riddles(&fs::read_to_string(&file).unwrap());
        found.extend(words.into_iter().map(|word| format!("{path}: {word}")));
    }
    none("documents with a word that docs/glossary.md replaces", &found);
}

#[test]
fn no_identifier_is_dialect() {
    let mut found = Vec::new();
    // Most identifiers are used many times.
    let mut judged: HashMap<String, [Vec<String>; 2]> = HashMap::new();
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|ext| ext == "rs")) {
        let Ok(stream) = TokenStream::from_str(&fs::read_to_string(&file).unwrap()) else {
            continue;
        };
        let mut all = Vec::new();
        identifiers(stream, &mut all);
        let path = relative(&file);
        let is_named = !UNNAMED.iter().any(|folder| path.starts_with(folder));
        for ident in all {
            let identifier = ident.to_string();
            let [dialect, vague] = judged
                .entry(identifier.clone())
                .or_insert_with(|| [dialect(&identifier), vague(&identifier)]);
            for word in dialect.iter().chain(vague.iter().filter(|_| is_named)) {
                let line = ident.span().start().line;
                found.push(format!("{path}:{line}: {identifier}: {word}"));
            }
        }
    }
    none("identifiers with a word that docs/glossary.md replaces", &found);
}
