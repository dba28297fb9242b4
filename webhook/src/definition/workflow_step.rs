//! WorkflowStepDefinitions. Upstream does not check their CUE: a step with a broken template is
//! accepted and fails when it runs. Ours warns (compatibility note webhook-6), and
//! refuses what upstream refuses: with `ValidateResourcesExist`, a template that cannot be parsed
//! and outputs of unknown kinds.

use super::cue;
use super::subject::Subject;
use crate::messages;

pub(crate) fn check(subject: &Subject<'_>, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    if subject.world.is_incomplete() {
        return;
    }
    cue::status(subject, warnings);
    let Some(template) = subject.template().filter(|template| !template.is_empty()) else {
        return;
    };
    let is_strict = subject.world.settings.gates.validate_resources_exist;
    // Compiled with the packages of the workflow engine, which is what will run it.
    if let Err(errors) = vela_workflow::compile(template) {
        for error in errors.list() {
            let text = error.to_string();
            if is_strict && error.class.name() == "parse" {
                problems.push(messages::step_output_syntax(&text));
            } else {
                warnings.push(messages::warning("spec.schematic.cue.template", &text));
            }
        }
        return;
    }
    if is_strict {
        let outputs = subject.world.renderer.examine(template).outputs;
        let mut missing = Vec::new();
        cue::resources(subject, &outputs, &mut missing);
        problems.extend(missing.iter().map(|text| messages::step_output(text)));
    }
}
