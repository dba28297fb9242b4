//! What documentation keeps to: libraries document what is public, a doc comment says more than the name below it,
//! documents name files that exist, and examples use every definition.
//!
//! Whether a sentence is clear is not checked here; reviews do that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use vela_tests::material::workspace;

use crate::{files, none, relative};

/// Words that tell nothing about an item.
const FILLERS: [&str; 14] =
    ["a", "an", "and", "by", "for", "in", "is", "it", "its", "of", "on", "the", "this", "to"];

#[test]
fn libraries_document_what_is_public() {
    let shared = workspace().join("shared");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(shared).unwrap() {
        let lib = entry.unwrap().path().join("src/lib.rs");
        let Ok(text) = fs::read_to_string(&lib) else { continue };
        if !text.lines().any(|line| line == "#![warn(missing_docs)]") {
            wrong.push(relative(&lib));
        }
    }
    none("libraries without `#![warn(missing_docs)]`", &wrong);
}

#[test]
fn doc_comments_say_more_than_the_name() {
    let mut wrong = Vec::new();
    for path in files() {
        let name = relative(&path);
        let is_library = name.starts_with("shared/") && name.contains("/src/");
        if !is_library || !name.ends_with(".rs") || name.contains("/tests") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, doc) in single_line_docs(&lines) {
            let item = lines[index + 1..].iter().find(|line| !line.starts_with("#["));
            if item.is_some_and(|item| is_public(item) && repeats(doc, item)) {
                wrong.push(format!("{name}:{}: {doc}", index + 1));
            }
        }
    }
    none("doc comments that only repeat the name", &wrong);
}

/// Doc comments of one line, with their index.
fn single_line_docs<'a>(lines: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
    let is_doc = |index: usize| lines.get(index).is_some_and(|line| line.starts_with("///"));
    (0..lines.len()).filter_map(move |index| {
        let doc = lines[index].strip_prefix("///")?.trim();
        let alone = !is_doc(index + 1) && (index == 0 || !is_doc(index - 1));
        alone.then_some((index, doc))
    })
}

/// Whether an item may be public: it says so, or it is a variant or a field of something.
fn is_public(item: &str) -> bool {
    const PRIVATE: [&str; 8] =
        ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "mod "];
    !PRIVATE.iter().any(|keyword| item.starts_with(keyword))
}

/// Whether a doc comment has no word that the item's name does not have. Names in backquotes are those of other languages
/// and formats: that the item is one of them is worth saying.
fn repeats(doc: &str, item: &str) -> bool {
    const BEFORE_THE_NAME: [&str; 10] =
        ["pub", "const", "async", "static", "fn", "struct", "enum", "trait", "type", "mod"];
    let name = item
        .split(|char: char| !char.is_alphanumeric() && char != '_')
        .find(|word| !word.is_empty() && !BEFORE_THE_NAME.contains(word))
        .unwrap_or_default();
    let doc = words(doc);
    !doc.is_empty() && doc.is_subset(&words(name))
}

/// The words of a text or of a name in camel or snake case, in lower case and without fillers.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut before = ' ';
    for char in text.chars() {
        if char.is_uppercase() && (before.is_lowercase() || before.is_numeric()) {
            spaced.push(' ');
        }
        spaced.push(if char.is_alphanumeric() || char == '`' { char } else { ' ' });
        before = char;
    }
    let words = spaced.split_whitespace().map(str::to_lowercase);
    words.filter(|word| !FILLERS.contains(&&**word)).collect()
}

#[test]
fn documents_name_files_that_exist() {
    let mut known: BTreeSet<String> = files().iter().map(|path| relative(path)).collect();
    let folders: Vec<String> = known
        .iter()
        .flat_map(|file| Path::new(file).ancestors().skip(1).map(Path::to_path_buf))
        .map(|folder| folder.to_string_lossy().into_owned())
        .collect();
    known.extend(folders);
    let tops: BTreeSet<&str> = known
        .iter()
        .filter_map(|path| path.split('/').next())
        .filter(|top| !top.is_empty())
        .collect();
    let mut wrong = Vec::new();
    for path in files() {
        let document = relative(&path);
        // A change log names what was there at the time.
        if !document.ends_with(".md") || document == "CHANGELOG.md" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for named in quoted(&text).filter(|word| is_path(word, &tops)) {
            if !known.iter().any(|path| ends_with(path, named)) {
                wrong.push(format!("{document}: `{named}`"));
            }
        }
        let folder = Path::new(&document).parent().unwrap();
        for target in links(&text) {
            if !known.contains(&normal(&folder.join(target))) {
                wrong.push(format!("{document}: link to {target}"));
            }
        }
    }
    none("files that documents name and that do not exist", &wrong);
}

/// Texts in backquotes, outside of blocks of code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Whether a word can only be meant as a file or folder of this repository.
fn is_path(word: &str, tops: &BTreeSet<&str>) -> bool {
    let fits = |char: char| char.is_ascii_alphanumeric() || "._-/*<>".contains(char);
    let top = word.trim_start_matches("../").split_once('/').map(|(top, _)| top);
    word.chars().all(fits) && (word.ends_with(".rs") || top.is_some_and(|top| tops.contains(top)))
}

/// Whether the last parts of a path are these; `*`, `<word>` and a word in capitals stand for anything within a part.
fn ends_with(path: &str, named: &str) -> bool {
    let mut parts = path.rsplit('/');
    let mut named = named.trim_start_matches("../").trim_end_matches('/').rsplit('/');
    named.all(|named| parts.next().is_some_and(|part| fits(part, named)))
}

fn fits(part: &str, named: &str) -> bool {
    let (stem, end) = named.split_once('.').unwrap_or((named, ""));
    let is_blank = stem == "*"
        || stem.starts_with('<') && stem.ends_with('>')
        || stem.len() > 1 && stem.chars().all(|char| char.is_ascii_uppercase());
    part == named || is_blank && part.split_once('.').map_or("", |(_, end)| end) == end
}

/// Targets of links to files of this repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|prose| prose.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(part) => parts.push(part),
            _ => {}
        }
    }
    parts.to_string_lossy().into_owned()
}

#[test]
fn the_map_of_the_code_is_short() {
    const MAX_LINES: usize = 250;
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let lines = text.lines().count();
    assert!(
        lines <= MAX_LINES,
        "ARCHITECTURE.md has {lines} lines; details belong into module docs"
    );
}

/// Definitions that no example uses, and why.
const WITHOUT_EXAMPLE: [(&str, &str); 2] = [
    ("deploy-cloud-resource", "for environments of the deprecated envbinding"),
    ("share-cloud-resource", "for environments of the deprecated envbinding"),
];

#[test]
fn every_definition_has_an_example() {
    let mut used = BTreeSet::new();
    for path in files() {
        let name = relative(&path);
        if name.starts_with("docs/examples/") && name.ends_with(".yaml") {
            let text = fs::read_to_string(&path).unwrap();
            // Templates of the example chart are no YAML, and no Applications.
            let Ok(objects) = serde_saphyr::from_multiple::<Value>(&text) else { continue };
            objects.iter().for_each(|object| types(object, &mut used));
        }
    }
    let mut wrong = Vec::new();
    for path in files() {
        let name = relative(&path);
        let Some(file) = name.strip_prefix("charts/vela-core/definitions/") else { continue };
        let definition = Path::new(file).file_stem().unwrap().to_string_lossy().into_owned();
        let is_deprecated = fs::read_to_string(&path).unwrap().contains("\"deprecated\": \"true\"");
        let is_exempt = WITHOUT_EXAMPLE.iter().any(|(name, _)| *name == definition);
        if is_exempt && used.contains(&definition) {
            wrong.push(format!("{definition} has an example now; take it from the list"));
        } else if !is_exempt && !is_deprecated && !used.contains(&definition) {
            wrong.push(definition);
        }
    }
    none("definitions of the chart that no example uses", &wrong);
}

/// All texts under a key `type`.
fn types(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "type" => {
                        found.insert(text.clone());
                    }
                    _ => types(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| types(item, found)),
        _ => {}
    }
}

#[test]
fn a_doc_comment_with_a_word_of_its_own_passes() {
    assert!(repeats("The kind.", "pub kind: String,"));
    assert!(repeats("Its revision hash.", "pub revision_hash: String,"));
    assert!(repeats("A text.", "Text,"));
    assert!(!repeats("Kind, as in manifests.", "pub kind: String,"));
    assert!(!repeats("`int8`", "Int8,"));
    assert!(!repeats("", "Int8,"));
}

#[test]
fn paths_match_from_their_end() {
    assert!(ends_with("controller/src/application/phases.rs", "phases.rs"));
    assert!(ends_with("controller/src/queue", "../queue"));
    assert!(ends_with("shared/cue/src/std/list.rs", "shared/cue/src/std/<package>.rs"));
    assert!(ends_with("docs/compatibility/api.md", "docs/compatibility/AREA.md"));
    assert!(ends_with("tests/corpus/cue.passing", "tests/corpus/*.passing"));
    assert!(!ends_with("controller/src/application/phases.rs", "hases.rs"));
    assert!(!ends_with("src/list.rs", "std/list.rs"));
}
