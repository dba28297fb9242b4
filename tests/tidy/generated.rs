//! What is generated is committed, and equal to what the generator makes today.

use std::fs;

use vela_tests::graph;
use vela_tests::material::workspace;
use vela_tests::release::readme;

use crate::none;

#[test]
fn the_charts_crds_are_those_of_the_api_types() {
    let folder = workspace().join("charts/vela-core/crds");
    let mut wrong = Vec::new();
    let mut expected = Vec::new();
    for crd in vela_api::crd::all() {
        let name = crd.file_name();
        if fs::read_to_string(folder.join(&name)).ok() != Some(crd.to_yaml()) {
            wrong.push(format!("{name} differs"));
        }
        expected.push(name);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !expected.iter().any(|known| **known == *name) {
            wrong.push(format!("{name} belongs to no kind"));
        }
    }
    none("run `cargo xtask crds`", &wrong);
}

#[test]
fn the_charts_readme_lists_the_values_there_are() {
    let (is, wanted) = readme().unwrap();
    assert!(wanted.lines().count() > 150, "hardly a value: {wanted}");
    let wrong = if is == wanted { vec![] } else { vec!["charts/vela-core/README.md".to_owned()] };
    none("run `cargo xtask charts --only readme`", &wrong);
}

#[test]
fn the_drawing_of_the_crates_is_true() {
    let (is, wanted) = graph::document().unwrap();
    assert!(wanted.matches(" --> ").count() > 10, "hardly an arrow: {wanted}");
    let wrong = if is == wanted { vec![] } else { vec!["ARCHITECTURE.md".to_owned()] };
    none("run `cargo xtask graph`", &wrong);
}
