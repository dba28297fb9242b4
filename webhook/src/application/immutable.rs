//! Parameters marked `+immutable` in a template must not change once set.

use serde_json::Value;
use vela_api::names::annotation;

use super::model::App;
use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use vela_api::DefinitionKind;

/// Compares new and old by name and type; traits by position and type.
pub(crate) fn check(subject: &Subject<'_>, old: &App<'_>, findings: &mut Findings) {
    let app = subject.app;
    if app.annotation(annotation::FORCE_PARAM_MUTATIONS) == Some("true") {
        return;
    }
    for (i, component) in app.components.iter().enumerate() {
        let before = old
            .components
            .iter()
            .find(|other| other.name == component.name && other.type_ == component.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.components").index(i);
        let pair = Pair { old: before.properties, new: component.properties };
        compare(subject, DefinitionKind::Component, component.type_, &pair, &field, findings);
        for (j, (one, before)) in component.traits.iter().zip(&before.traits).enumerate() {
            if one.type_ == before.type_ {
                let field = field.at("traits").index(j);
                let pair = Pair { old: before.properties, new: one.properties };
                compare(subject, DefinitionKind::Trait, one.type_, &pair, &field, findings);
            }
        }
    }
    for (i, policy) in app.policies.iter().enumerate() {
        let before = old
            .policies
            .iter()
            .find(|other| other.name == policy.name && other.type_ == policy.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.policies").index(i);
        let pair = Pair { old: before.properties, new: policy.properties };
        compare(subject, DefinitionKind::Policy, policy.type_, &pair, &field, findings);
    }
    let (Some(workflow), Some(old_workflow)) = (&app.workflow, &old.workflow) else { return };
    for (i, step) in workflow.steps.iter().enumerate() {
        let before = old_workflow
            .steps
            .iter()
            .find(|other| other.name == step.name && other.type_ == step.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.workflow.steps").index(i);
        let pair = Pair { old: before.properties, new: step.properties };
        compare(subject, DefinitionKind::WorkflowStep, step.type_, &pair, &field, findings);
    }
}

struct Pair<'a> {
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

fn compare(
    subject: &Subject<'_>,
    kind: DefinitionKind,
    type_: &str,
    pair: &Pair<'_>,
    field: &Field,
    findings: &mut Findings,
) {
    // The base name is enough: a marker that a later revision took away still protects.
    let name = type_.split('@').next().unwrap_or(type_);
    let Some(definition) = subject.world.definition(kind, subject.namespace, name) else { return };
    for path in &definition.immutable {
        let at = |value: Option<&Value>| {
            path.split('.').try_fold(value?, |value, key| value.get(key)).cloned()
        };
        // setting it for the first time is allowed
        let Some(old) = at(pair.old).filter(|old| !old.is_null()) else { continue };
        let json = |value: &Value| {
            vela_gocompat::json::to_string(value).unwrap_or_else(|_| value.to_string())
        };
        let detail = match at(pair.new).filter(|new| !new.is_null()) {
            None => messages::immutable_removed(&json(&old)),
            Some(new) if new == old => continue,
            Some(new) => messages::immutable_changed(&json(&old), &json(&new)),
        };
        let field = field.at("properties").key(path);
        findings.push(Rule::Immutable, Reason::Forbidden, field, detail);
    }
}
