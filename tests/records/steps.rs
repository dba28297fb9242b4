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

/// The same for our definition. What it calls its provider calls and what it says are its own
/// matter (compatibility notes definitions-1 and definitions-11); which calls it makes, with what
/// and in which order, is not.
pub(crate) fn compare_own(record: &Value, ours: &Value) -> Option<String> {
    let (mut record, mut ours) = (record.clone(), ours.clone());
    for answer in ["expect", "alt"] {
        record.get_mut(answer).map(without_own_words);
    }
    without_own_words(&mut ours);
    compare(&record, &ours)
}

/// Removes names of calls, and messages of the calls that only report, from an answer.
fn without_own_words(answer: &mut Value) {
    for call in answer.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.remove("path");
            if matches!(call.get("provider").and_then(Value::as_str), Some("builtin" | "op"))
                && let Some(params) = call.get_mut("params").and_then(Value::as_object_mut)
            {
                params.remove("message");
            }
        }
    }
}
