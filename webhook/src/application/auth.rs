//! Permissions on definitions, and the identity of an Application.

use std::collections::BTreeSet;

use serde_json::Value;
use vela_api::builtin;
use vela_cluster::Identity;
use vela_seal::Stamp;

use super::model::Step;

use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use vela_api::DefinitionKind;

/// A name that needs no definition, and therefore no permission.
fn is_without_definition(name: &str) -> bool {
    name == builtin::DEBUG || builtin::STEPS.contains(&name)
}

/// Every definition the Application names must be readable to who asks.
pub(crate) fn permissions(subject: &Subject<'_>, findings: &mut Findings) {
    let app = subject.app;
    let mut used: Vec<Named<'_>> = Vec::new();
    for (i, component) in app.components.iter().enumerate() {
        let field = Field::new("spec.components").index(i);
        used.push((DefinitionKind::Component, component.type_, field.at("type")));
        for (j, one) in component.traits.iter().enumerate() {
            used.push((DefinitionKind::Trait, one.type_, field.at("traits").index(j).at("type")));
        }
    }
    for (i, policy) in app.policies.iter().enumerate() {
        let field = Field::new("spec.policies").index(i).at("type");
        used.push((DefinitionKind::Policy, policy.type_, field));
    }
    let steps: &[Step<'_>] = app.workflow.as_ref().map_or(&[], |workflow| &workflow.steps);
    used.extend(of_steps(steps, &Field::new("spec.workflow.steps")));
    readable(subject, used, findings);
}

/// The same of steps alone, which are at a path.
pub(crate) fn step_permissions(
    subject: &Subject<'_>,
    steps: &[Step<'_>],
    field: &Field,
    findings: &mut Findings,
) {
    readable(subject, of_steps(steps, field), findings);
}

/// A definition that is named, and where.
type Named<'a> = (DefinitionKind, &'a str, Field);

fn of_steps<'a>(steps: &[Step<'a>], field: &Field) -> Vec<Named<'a>> {
    let mut used = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let field = field.index(i);
        used.push((DefinitionKind::WorkflowStep, step.type_, field.at("type")));
        for (j, sub) in step.sub_steps.iter().enumerate() {
            let field = field.at("subSteps").index(j).at("type");
            used.push((DefinitionKind::WorkflowStep, sub.type_, field));
        }
    }
    used
}

fn readable(subject: &Subject<'_>, used: Vec<Named<'_>>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (kind, type_, field) in used {
        // a versioned type is a definition too; upstream searches one of that literal name
        let name = type_.split('@').next().unwrap_or(type_);
        if name.is_empty() || is_without_definition(name) || !seen.insert((kind, name)) {
            continue;
        }
        if let Some(detail) = refused(subject, kind, name) {
            findings.push(Rule::Permissions, Reason::Forbidden, field, detail);
        }
    }
}

/// The system namespace first, then the Application's: permission counts where the definition is.
fn refused(subject: &Subject<'_>, kind: DefinitionKind, name: &str) -> Option<String> {
    let world = subject.world;
    let user = &subject.request.user_info;
    let system = &world.settings.system_namespace;
    let mut namespaces = vec![system.as_str()];
    if subject.namespace != system {
        namespaces.push(subject.namespace);
    }
    for namespace in namespaces {
        match world.may_get(&user.username, &user.groups, kind, namespace, name) {
            Err(error) => return Some(messages::cannot_verify(kind, name, error)),
            Ok(true) if world.definition_in(kind, namespace, name).is_some() => return None,
            Ok(_) => {}
        }
    }
    Some(messages::cannot_get(&user.username, kind, name, subject.namespace, system))
}

/// Under which identity the controller acts for an Application.
pub(crate) fn acting(subject: &Subject<'_>) -> Identity {
    let settings = subject.world.settings;
    let annotation = |key: &str| subject.app.annotation(key).unwrap_or_default();
    let name = subject.object.pointer("/metadata/name").and_then(Value::as_str);
    let stamp = super::subject::content(subject.object).ok().and_then(|content| {
        let (namespace, name) = (subject.namespace, name.unwrap_or_default());
        let object = vela_seal::Subject { kind: "Application", namespace, name, content };
        Stamp::verified(annotation, &*settings.keys.get()?, &object)
    });
    let is_administrator = stamp.as_ref().is_some_and(|stamp| stamp.administrator.is_some());
    let acting = settings.acting();
    acting.identity(annotation, subject.namespace, stamp.as_ref(), is_administrator)
}

/// `*` stands for any text; the whole group must fit. Upstream's pattern is an unanchored regular
/// expression with live dots, so that `kubevela:*` also fits `evil-kubevela:x`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_patterns_are_anchored() {
        for (pattern, text, fits) in [
            ("kubevela:*", "kubevela:dev", true),
            ("kubevela:*", "kubevela:", true),
            ("kubevela:*", "evil-kubevela:x", false),
            ("kube.ela:*", "kubevela:x", false),
            ("*", "anything", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
