//! Recorded workflow steps: with the definitions they were recorded with, and with ours.

use serde_json::Value;
use vela_tests::answers::workflow_step;
use vela_tests::material;

use crate::score;

/// The answer with our definition of the step.
pub(crate) fn own(record: &Value) -> Value {
    let name = record["definition"].as_str().unwrap_or_default();
    let path = material::workspace()
        .join(format!("charts/vela-core/definitions/workflow-step/{name}.cue"));
    let text = std::fs::read_to_string(&path).expect("every recorded step is one of ours");
    let object = vela_render::file::load(name, &text).expect("a definition is good");
    let mut record = record.clone();
    record["template"] =
        object.pointer("/spec/schematic/cue/template").cloned().unwrap_or_default();
    workflow_step::answer(&record)
}

/// What differs, if anything does.
pub(crate) fn compare(record: &Value, ours: &Value) -> Option<String> {
    let bad = score::check(record, ours);
    (!bad.is_empty()).then(|| bad.join("; "))
}
