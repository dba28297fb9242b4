//! Rules about the repository that a test can check: who depends on whom, licences, layout.
//!
//! They are tests and not scripts, so that a broken rule breaks `cargo test` on every machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets something unexpected fails there"
)]

mod annotations;
mod circles;
mod dependencies;
mod docs;
mod errors;
mod generated;
mod licences;
mod metrics;
mod notes;
mod originality;
mod sentences;
mod sources;
mod walks;
mod words;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use serde_json::Value;
use vela_tests::material::{cargo, workspace};

/// What cargo knows about all packages of the build.
pub(crate) fn metadata() -> &'static Value {
    static METADATA: OnceLock<Value> = OnceLock::new();
    METADATA.get_or_init(|| {
        let output = cargo()
            .args(["metadata", "--locked", "--format-version", "1"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    })
}

pub(crate) fn packages() -> &'static [Value] {
    metadata()["packages"].as_array().unwrap()
}

/// The packages of this workspace.
pub(crate) fn members() -> Vec<&'static Value> {
    packages().iter().filter(|package| package["source"].is_null()).collect()
}

/// All files of the repository, without build output and version control.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&workspace(), &mut found);
    found.sort();
    assert!(found.len() > 50, "the repository has only {} files?", found.len());
    found
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "__pycache__"].contains(&name.as_str()) {
                walk(&path, found);
            }
        } else if name != ".git" {
            found.push(path);
        }
    }
}

pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).to_string_lossy().into_owned()
}

/// One failure that lists everything that is wrong, not only the first.
pub(crate) fn none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn json_maps_sort_their_keys() {
    // Go sorts map keys; one crate that turns on `preserve_order` would change it for all.
    let value: Value = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
    assert_eq!(value.to_string(), r#"{"a":2,"b":1}"#);
}
