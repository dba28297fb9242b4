//! The annotations that upstream does not have are all in `docs/annotations.md`, and what objects do not inherit is named there.

use std::fs;

use vela_api::names::annotation;
use vela_tests::material::workspace;

use crate::none;

/// Written by the control plane into its own objects; nobody else reads or writes them.
const INTERNAL: [&str; 3] =
    [annotation::IN_FLIGHT, annotation::COMPLETED, annotation::CLUSTER_ROUTE];

/// The values of the constants of `names::annotation` whose comment says that upstream has none.
fn new() -> Vec<String> {
    let names = fs::read_to_string(workspace().join("shared/api/src/names.rs")).unwrap();
    let (_, module) = names.split_once("pub mod annotation {").unwrap();
    let (module, _) = module.split_once("\n}").unwrap();
    let declarations = module.split_inclusive(';');
    let values = declarations.filter(|text| {
        let comment: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("///"))
            .map(str::trim)
            .collect();
        comment.join(" ").contains("Not in the reference")
    });
    let values = values.filter_map(|text| text.split('"').nth(1)).map(str::to_owned);
    values.filter(|value| !INTERNAL.contains(&value.as_str())).collect()
}

#[test]
fn every_new_annotation_is_documented() {
    let docs = fs::read_to_string(workspace().join("docs/annotations.md")).unwrap();
    let new = new();
    assert!(new.len() > 5, "{new:?}");
    let named = |value: &&String| docs.contains(&format!("`{value}`"));
    let wrong: Vec<String> = new.iter().filter(|value| !named(value)).cloned().collect();
    none("annotations that are not in docs/annotations.md", &wrong);
    let kept = annotation::NOT_INHERITED.map(str::to_owned);
    let wrong: Vec<String> = kept.iter().filter(|value| !named(value)).cloned().collect();
    none("annotations that objects do not inherit and docs/annotations.md does not name", &wrong);
}
