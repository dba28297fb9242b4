//! WorkflowStepDefinitions. Upstream does not look at their CUE: a step with a broken template is
//! accepted and fails when it runs. Ours tells, as a warning (compatibility note webhook-6).

use super::{Subject, cue};

pub(crate) fn check(subject: &Subject<'_>, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let mut found = Vec::new();
    cue::check(subject, &mut found, warnings);
    let _ = problems;
    // The packages of steps are the workflow engine's; without them nothing can be said.
    if found.iter().any(|text| text.contains("package \"vela/")) {
        return;
    }
    warnings.extend(found.into_iter().map(|text| format!("spec.schematic.cue.template: {text}")));
}
