//! Whether a definition can be used at all.

use crate::cache::{Flavour, Programs};
use crate::definition::{Definition, Template};
use crate::examine::lines;
use std::num::NonZeroUsize;

/// The problems of a definition's texts: what does not compile.
#[must_use]
pub fn vet(object: &serde_json::Value) -> Vec<String> {
    let Some(definition) = Definition::from_object(object) else {
        return vec![crate::messages::no_definition()];
    };
    let programs = Programs::new(NonZeroUsize::MIN, usize::MAX, true);
    let mut problems = Vec::new();
    if matches!(definition.template, Template::Cue(_))
        && definition.kind != crate::DefinitionKind::WorkflowStep
        && let Err(errors) = programs.template(&definition.template, Flavour::Component)
    {
        problems.extend(lines(&errors, "template", definition.template.text().lines().count()));
    }
    let status = definition.status;
    for text in [status.details, status.health_policy, status.custom_status].into_iter().flatten() {
        if let Err(errors) = programs.text(&text, Flavour::Status) {
            problems.extend(lines(&errors, "status text", text.lines().count()));
        }
    }
    problems
}
