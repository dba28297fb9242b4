//! What every source file keeps to.

use std::fs;

use crate::{files, none, relative};

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

fn rust_files() -> impl Iterator<Item = (String, String)> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (relative(&path), fs::read_to_string(&path).unwrap()))
}

#[test]
fn every_module_says_what_it_is_for() {
    let wrong: Vec<String> = rust_files()
        .filter(|(_, text)| !text.starts_with("//!") && !text.starts_with("#![doc ="))
        .map(|(path, _)| path)
        .collect();
    none("files that do not begin with `//!`", &wrong);
}

#[test]
fn module_names_say_something() {
    let wrong: Vec<String> = rust_files()
        .map(|(path, _)| path)
        .filter(|path| {
            let mut parts = path.trim_end_matches(".rs").split('/');
            parts.any(|part| EMPTY_NAMES.contains(&part))
        })
        .collect();
    none("modules with an empty name", &wrong);
}

#[test]
fn the_top_level_is_fixed() {
    const FOLDERS: [&str; 11] = [
        ".cargo",
        ".ci",
        ".github",
        "certs",
        "charts",
        "controller",
        "docs",
        "gateway",
        "shared",
        "tests",
        "webhook",
    ];
    let mut wrong: Vec<String> = files()
        .iter()
        .filter_map(|path| relative(path).split_once('/').map(|(top, _)| top.to_owned()))
        .filter(|top| !FOLDERS.contains(&top.as_str()))
        .collect();
    wrong.dedup();
    none("folders at the top level that do not belong there", &wrong);
}

#[test]
fn nothing_names_a_machine() {
    // Spelled so that this file does not contain them.
    let machine = [["/ro", "ot/"].concat(), ["/ho", "me/"].concat(), ["/wo", "rk/"].concat()];
    let mut wrong = Vec::new();
    // Paths in the chart are paths in containers.
    for path in files().into_iter().filter(|path| !relative(path).starts_with("charts/")) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (index, line) in text.lines().enumerate() {
            let word = |at: usize| {
                let before = line.get(..at).and_then(|text| text.chars().next_back());
                before.is_none_or(|char| !char.is_alphanumeric() && !"._-/}~*".contains(char))
            };
            for name in &machine {
                if line.match_indices(name.as_str()).any(|(at, _)| word(at)) {
                    wrong.push(format!("{}:{}: {}", relative(&path), index + 1, line.trim()));
                }
            }
        }
    }
    none("paths of somebody's machine", &wrong);
}

#[test]
fn shell_scripts_stop_at_errors() {
    let wrong: Vec<String> = files()
        .into_iter()
        .filter_map(|path| Some((relative(&path), fs::read_to_string(&path).ok()?)))
        .filter(|(_, text)| text.starts_with("#!/usr/bin/env bash") || text.starts_with("#!/bin/"))
        .filter(|(_, text)| !text.contains("set -eu"))
        .map(|(path, _)| path)
        .collect();
    none("shell scripts without `set -eu`", &wrong);
}
