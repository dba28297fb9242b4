//! Licences and sources of everything we link. `deny.toml` says the same to cargo-deny, which the
//! public CI runs; this test needs nothing installed.

use crate::{none, packages};

const ALLOWED: [&str; 13] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

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
    ALLOWED.contains(&licence.as_str())
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
    let wrong: Vec<String> = packages()
        .iter()
        .filter(|package| package["source"].as_str().is_some_and(|source| source != REGISTRY))
        .map(|package| format!("{}: {}", package["name"], package["source"]))
        .collect();
    none("packages from elsewhere", &wrong);
}
