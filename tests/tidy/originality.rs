//! Our definitions are designs of our own: they share names with KubeVela's, not runs of text.
//!
//! Names of parameters and fields of objects are an interface and have to be equal, so short runs
//! of equal tokens say nothing. Long ones do: parameters can stand in any order, and an object can
//! be made in more than one way. What does not count: comments, braces and commas, and the names
//! of loop variables, `let` clauses, hidden fields and local definitions.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use vela_tests::material;

use crate::none;

/// The templates of KubeVela, below the conformance material.
const REFERENCE: &str = "corpus/cue/vela/vela-definitions.jsonl";

/// Runs of fewer tokens are names and the grammar between them.
const RUN: usize = 12;

/// No run of equal tokens is longer.
const MAX_RUN: usize = 30;

/// Templates of this many tokens leave room for a design: less than `SHARE` of their tokens lies in
/// equal runs. Smaller ones hand a few parameters on, which cannot be done in two ways.
const MIN_TOKENS: usize = 100;
const SHARE: f64 = 0.6;

/// The tokens of a template, with local names replaced.
fn tokens(template: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("_|_") {
            3
        } else if first == '"' {
            string(rest)
        } else {
            let same: fn(char) -> bool = match first {
                char if is_name(char) => is_name,
                char if "=!<>&|~.".contains(char) => |char| "=!<>&|~.".contains(char),
                _ => |_| false,
            };
            let end = rest.char_indices().skip(1).find(|(_, char)| !same(*char));
            end.map_or(rest.len(), |(end, _)| end)
        };
        let (token, after) = rest.split_at(length);
        if !token.starts_with("//") && !token.trim().is_empty() && !"{},".contains(token) {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    let locals = locals(&tokens);
    for index in 0..tokens.len() {
        let is_field = tokens.get(index + 1).is_some_and(|next| next == ":")
            || index > 0 && tokens[index - 1] == ".";
        let token = &tokens[index];
        let hidden = token.starts_with('#') || token.len() > 1 && token.starts_with('_');
        if token != "_|_" && (hidden || locals.contains(token.as_str()) && !is_field) {
            tokens[index] = "@".to_owned();
        }
    }
    tokens
}

fn is_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '$' | '#')
}

/// The length of the string literal that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Names that `let` clauses and comprehensions bind.
fn locals(tokens: &[String]) -> HashSet<String> {
    let mut found = HashSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let bound = match token.as_str() {
            "let" => 1,
            // `for key, value in`; the comma is gone.
            "for" => 2,
            _ => 0,
        };
        let names = tokens.iter().skip(index + 1).take(bound).take_while(|name| *name != "in");
        found.extend(names.cloned());
    }
    found
}

/// How much of `ours` lies in runs of at least [`RUN`] tokens of `theirs`, and the longest of them.
fn likeness(ours: &[String], theirs: &[Vec<String>]) -> (f64, usize) {
    let mut begins: HashMap<&[String], Vec<&[String]>> = HashMap::new();
    for template in theirs {
        for at in 0..(template.len() + 1).saturating_sub(RUN) {
            begins.entry(&template[at..at + RUN]).or_default().push(&template[at..]);
        }
    }
    let mut covered = vec![false; ours.len()];
    let mut longest = 0;
    for at in 0..(ours.len() + 1).saturating_sub(RUN) {
        for theirs in begins.get(&ours[at..at + RUN]).into_iter().flatten() {
            let equal = ours[at..].iter().zip(*theirs).take_while(|(a, b)| a == b).count();
            longest = longest.max(equal);
            covered[at..at + equal].fill(true);
        }
    }
    let covered = covered.iter().filter(|covered| **covered).count();
    (covered as f64 / ours.len().max(1) as f64, longest)
}

/// Kind, name and template of every definition of the chart.
fn ours() -> Vec<(String, String, String)> {
    let root = material::workspace().join("charts/vela-core/definitions");
    let mut found = Vec::new();
    for kind in ["component", "policy", "trait", "workflow-step"] {
        for entry in fs::read_dir(root.join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let template = text.split_once("\ntemplate: {").unwrap().1.to_owned();
            found.push((kind.to_owned(), name, template));
        }
    }
    found.sort();
    found
}

/// KubeVela's templates by kind and name.
fn reference(file: &Path) -> HashMap<(String, String), Vec<Vec<String>>> {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| record[key].as_str().unwrap().to_owned();
        found.entry((text("type"), text("name"))).or_default().push(tokens(&text("template")));
    }
    found
}

#[test]
fn local_names_comments_and_braces_do_not_count() {
    let one = "let a = {x: parameter.y}\n// why\nfor k, v in a if v.b != _|_ { (k): v.b }";
    let two = "let first = {x: parameter.y},\nfor i, o in first if o.b != _|_ { (i): o.b }";
    assert_eq!(tokens(one), tokens(two));
    assert_ne!(tokens("x: parameter.y"), tokens("x: parameter.z"));
    assert_eq!(tokens(r#""a \"b\" {}": 1"#), [r#""a \"b\" {}""#, ":", "1"]);
}

#[test]
fn runs_are_found_wherever_they_stand() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let theirs = [words("0 1 2 3 4 5 6 7 8 9 a b c d e f")];
    let ours = words("x 2 3 4 5 6 7 8 9 a b c d e y");
    assert_eq!(likeness(&ours, &theirs), (13.0 / 15.0, 13));
    assert_eq!(likeness(&words("0 1 2 3 4 5 6 7 8 9 a"), &theirs), (0.0, 0));
}

#[test]
fn definitions_are_not_those_of_kubevela() {
    let Some(file) = material::conformance().map(|dir| dir.join(REFERENCE)) else {
        eprintln!("SKIPPED: definitions are not compared: the conformance material is absent");
        return;
    };
    let reference = reference(&file);
    let mut shares = Vec::new();
    let mut runs = Vec::new();
    let mut wrong = Vec::new();
    for (kind, name, template) in ours() {
        let template = tokens(&template);
        let Some(theirs) = reference.get(&(kind.clone(), name.clone())) else { continue };
        let (share, longest) = likeness(&template, theirs);
        if longest > MAX_RUN {
            wrong.push(format!("{kind}/{name}: a run of {longest} equal tokens"));
        }
        if template.len() > MIN_TOKENS && share > SHARE {
            wrong.push(format!("{kind}/{name}: {share:.2} of it in equal runs"));
        }
        shares.push(share);
        runs.push(longest);
    }
    assert!(shares.len() > 80, "{} definitions were compared", shares.len());
    shares.sort_by(f64::total_cmp);
    runs.sort_unstable();
    let median = shares.len() / 2;
    println!(
        "{} definitions: in equal runs {:.2} (median); longest run {} (median), {} (most)",
        shares.len(),
        shares[median],
        runs[median],
        runs.last().unwrap_or(&0)
    );
    none("too like KubeVela's definitions: design them again from their parameters", &wrong);
}
