//! Notes on compatibility: each has a number of its own, and links to one find it.

use std::collections::{BTreeMap, BTreeSet};

use vela_tests::material::workspace;

use crate::{files, none, relative};

/// What stands after each `before`, up to the first character that no name of a note has.
fn names<'t>(text: &'t str, before: &'static str) -> impl Iterator<Item = &'t str> {
    text.split(before).skip(1).map(|rest| {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        rest.split(|c| !is_of_name(c)).next().unwrap_or_default()
    })
}

/// The area of a note; `None` if it is no name of a note.
fn area(name: &str) -> Option<&str> {
    let (area, number) = name.rsplit_once('-')?;
    number.parse::<u32>().is_ok().then_some(area)
}

#[test]
fn notes_on_compatibility_have_numbers_of_their_own_and_links_find_them() {
    let documents: Vec<(String, String)> = files()
        .into_iter()
        .map(|path| relative(&path))
        .filter(|path| path.ends_with(".md"))
        .map(|path| (std::fs::read_to_string(workspace().join(&path)).unwrap(), path))
        .map(|(text, path)| (path, text))
        .collect();
    let (mut notes, mut wrong) = (BTreeMap::<&str, &str>::new(), Vec::new());
    for (path, text) in documents.iter().filter(|(path, _)| path.starts_with("docs/compatibility/"))
    {
        for name in names(text, "<a id=\"") {
            if !text.contains(&format!("<a id=\"{name}\"></a>{name}: ")) {
                wrong.push(format!("{path}: {name} does not say its name"));
            }
            if let Some(other) = notes.insert(name, path) {
                wrong.push(format!("{name}: in {other} and in {path}"));
            }
        }
    }
    assert!(notes.len() > 100, "only {} notes are found", notes.len());
    let areas: BTreeSet<&str> = notes.keys().filter_map(|name| area(name)).collect();
    for (path, text) in &documents {
        for name in names(text, ".md#") {
            let is_note = area(name).is_some_and(|area| areas.contains(area));
            if is_note && !notes.contains_key(name) {
                wrong.push(format!("{path}: there is no {name}"));
            }
        }
    }
    none("notes on compatibility", &wrong);
}
