//! Licences, versions and sources of everything we link, by the rules of `deny.toml`. The public CI runs cargo-deny with the
//! same file; this test needs nothing installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use vela_tests::material::workspace;

use crate::{none, packages};

/// The rules for cargo-deny.
fn deny() -> &'static toml::Table {
    static DENY: OnceLock<toml::Table> = OnceLock::new();
    DENY.get_or_init(|| fs::read_to_string(workspace().join("deny.toml")).unwrap().parse().unwrap())
}

/// A list of the rules; of tables, their key `crate`.
pub(crate) fn list(section: &str, key: &str) -> BTreeSet<&'static str> {
    let items = deny()[section][key].as_array().unwrap().iter();
    items.map(|item| item.get("crate").unwrap_or(item).as_str().unwrap()).collect()
}

fn allowed() -> &'static BTreeSet<&'static str> {
    static ALLOWED: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    ALLOWED.get_or_init(|| list("licenses", "allow"))
}

/// Whether an SPDX expression can be satisfied with allowed licences only.
fn acceptable(expression: &str) -> bool {
    // The old form of "OR"; WITH binds tighter than AND, AND tighter than OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    let outcome = any(&mut tokens);
    outcome && tokens.next().is_none()
}

type Tokens<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(tokens: &mut Tokens<'_>) -> bool {
    let mut outcome = all(tokens);
    while tokens.next_if_eq(&"OR").is_some() {
        outcome |= all(tokens);
    }
    outcome
}

fn all(tokens: &mut Tokens<'_>) -> bool {
    let mut outcome = one(tokens);
    while tokens.next_if_eq(&"AND").is_some() {
        outcome &= one(tokens);
    }
    outcome
}

fn one(tokens: &mut Tokens<'_>) -> bool {
    if tokens.next_if_eq(&"(").is_some() {
        let outcome = any(tokens);
        return tokens.next_if_eq(&")").is_some() && outcome;
    }
    let mut licence = tokens.next().unwrap_or_default().to_owned();
    if tokens.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", tokens.next().unwrap_or_default());
    }
    allowed().contains(licence.as_str())
}

#[test]
fn expressions_are_understood() {
    for good in ["MIT", "MIT/GPL-3.0", "(MIT OR GPL-3.0) AND ISC", "GPL-2.0 OR ISC AND MIT"] {
        assert!(acceptable(good), "{good}");
    }
    assert!(acceptable("GPL-3.0 OR Apache-2.0 WITH LLVM-exception"));
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "GPL-2.0 OR ISC AND MPL-2.0", "(MIT", "MIT ISC"] {
        assert!(!acceptable(bad), "{bad}");
    }
}

#[test]
fn licences_are_allowed() {
    let wrong: Vec<String> = packages()
        .iter()
        .filter(|package| !acceptable(package["license"].as_str().unwrap_or_default()))
        .map(|package| {
            format!("{} {}: {}", package["name"], package["version"], package["license"])
        })
        .collect();
    none("packages under a licence that is not allowed", &wrong);
}

#[test]
fn packages_come_from_the_default_registry() {
    let registries = list("sources", "allow-registry");
    let is_allowed = |source: &str| {
        source.strip_prefix("registry+").is_some_and(|registry| registries.contains(registry))
    };
    let wrong: Vec<String> = packages()
        .iter()
        .filter(|package| package["source"].as_str().is_some_and(|source| !is_allowed(source)))
        .map(|package| format!("{}: {}", package["name"], package["source"]))
        .collect();
    none("packages from elsewhere", &wrong);
}

#[test]
fn duplicates_are_listed() {
    let tree = crate::dependencies::tree();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in tree.lines() {
        let mut words = line.split(' ');
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            versions.entry(name).or_default().insert(version.trim_start_matches('v'));
        }
    }
    let skipped = list("bans", "skip");
    let is_skipped = |name: &str, version: &str| skipped.contains(&*format!("{name}@{version}"));
    let mut wrong: Vec<String> = Vec::new();
    for (name, versions) in &versions {
        let left: Vec<_> = versions.iter().filter(|version| !is_skipped(name, version)).collect();
        if left.len() > 1 {
            wrong.push(format!("{name}: {left:?}, of which deny.toml lists none"));
        }
    }
    for skip in &skipped {
        let (name, version) = skip.split_once('@').unwrap();
        if !versions.get(name).is_some_and(|all| all.len() > 1 && all.contains(version)) {
            wrong.push(format!("{skip} is listed in deny.toml and is no duplicate"));
        }
    }
    none("crates in two versions", &wrong);
}
