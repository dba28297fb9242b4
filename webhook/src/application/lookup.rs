//! Finds the definitions of component, trait and step types.

use std::sync::Arc;

use serde_json::Value;
use vela_api::names::annotation;

use super::model::Step;
use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::snapshot::Definition;
use crate::world::{ObjectKind, World};
use vela_api::DefinitionKind;

/// A definition, if the type names one.
pub(crate) type Found = Option<Arc<Definition>>;

/// The definitions an Application's components and traits resolve to, by position.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// One for each component: its own and those of its traits.
    pub(crate) components: Vec<(Found, Vec<Found>)>,
}

impl Types {
    /// Resolves all types, reporting those that name nothing.
    pub(crate) fn of(subject: &Subject<'_>, findings: &mut Findings) -> Self {
        let mut types = Self::default();
        for (i, component) in subject.app.components.iter().enumerate() {
            let field = Field::new("spec.components").index(i);
            let own = require(
                subject,
                DefinitionKind::Component,
                component.type_,
                Rule::Components,
                &field.at("type"),
                findings,
            );
            let traits = component
                .traits
                .iter()
                .enumerate()
                .map(|(j, one)| {
                    let field = field.at("traits").index(j).at("type");
                    require(
                        subject,
                        DefinitionKind::Trait,
                        one.type_,
                        Rule::Traits,
                        &field,
                        findings,
                    )
                })
                .collect();
            types.components.push((own, traits));
        }
        types
    }
}

/// The definition of a type; reported if there is none.
pub(crate) fn require(
    subject: &Subject<'_>,
    kind: DefinitionKind,
    type_: &str,
    rule: Rule,
    field: &Field,
    findings: &mut Findings,
) -> Option<Arc<Definition>> {
    let follows = subject.app.annotation(annotation::AUTO_UPDATE) == Some("true");
    if let Some(definition) = resolve(subject.world, kind, subject.namespace, type_, follows) {
        if definition.deprecated.is_some() {
            findings.warnings.push(messages::deprecated(&field.to_string(), kind, type_));
        }
        return Some(definition);
    }
    let world = subject.world;
    let namespaces = world.namespaces(subject.namespace);
    let detail = match type_.split_once('@') {
        Some((base, _)) if world.definition(kind, subject.namespace, base).is_some() => {
            messages::unknown_revision(kind, type_, &namespaces)
        }
        _ => {
            // An old component type may be a WorkloadDefinition.
            if kind == DefinitionKind::Component
                && !type_.is_empty()
                && namespaces.iter().any(|namespace| {
                    world.object(ObjectKind::WorkloadDefinition, namespace, type_).is_some()
                })
            {
                return None;
            }
            let names = world.definition_names(kind, subject.namespace);
            let nearest = vela_serve::nearest(type_, names);
            messages::unknown_type(kind, type_, &namespaces, nearest)
        }
    };
    let reason = if type_.is_empty() { Reason::Required } else { Reason::NotFound };
    findings.push(rule, reason, field.clone(), detail);
    None
}

/// `name`, `name@v3`, `name@v1.2.3`, and, when the Application follows definitions, `name@v1`.
fn resolve(
    world: &World<'_>,
    kind: DefinitionKind,
    namespace: &str,
    type_: &str,
    follows: bool,
) -> Option<Arc<Definition>> {
    let Some((base, version)) = type_.split_once('@') else {
        return world.definition(kind, namespace, type_);
    };
    let version = version.strip_prefix('v').unwrap_or(version);
    if follows {
        let found = world
            .namespaces(namespace)
            .iter()
            .find_map(|namespace| highest(world, kind, namespace, base, version));
        if found.is_some() {
            return found;
        }
    }
    let name = format!("{base}-v{version}");
    world.namespaces(namespace).iter().find_map(|namespace| {
        let revision = world.object(ObjectKind::DefinitionRevision, namespace, &name)?;
        stored(kind, &revision)
    })
}

/// The definition inside a DefinitionRevision, if it is of this kind.
fn stored(kind: DefinitionKind, revision: &Value) -> Option<Arc<Definition>> {
    let spec = revision.get("spec")?;
    let of_kind = spec.get("definitionType").and_then(Value::as_str);
    if of_kind != Some(kind.revision_type()) {
        return None;
    }
    Definition::new(kind, spec.get(kind.revision_field())?).map(Arc::new)
}

/// The highest revision of which `version` is a prefix (`1` fits `1.4.2`).
fn highest(
    world: &World<'_>,
    kind: DefinitionKind,
    namespace: &str,
    base: &str,
    version: &str,
) -> Option<Arc<Definition>> {
    let wanted: Vec<&str> = version.split('.').collect();
    let prefix = format!("{base}-v");
    world
        .revisions(kind, namespace, base)
        .into_iter()
        .filter_map(|revision| {
            let name = revision.pointer("/metadata/name")?.as_str()?;
            let numbers: Vec<&str> = name.strip_prefix(&prefix)?.split('.').collect();
            if !numbers.starts_with(&wanted) {
                return None;
            }
            let order: Option<Vec<u64>> = numbers.iter().map(|n| n.parse().ok()).collect();
            Some((order?, revision))
        })
        .max_by(|(a, _), (b, _)| a.cmp(b))
        .and_then(|(_, revision)| stored(kind, &revision))
}

/// The definition of a step's type; reported if there is none and there should be.
pub(crate) fn step(
    subject: &Subject<'_>,
    step: &Step<'_>,
    field: &Field,
    findings: &mut Findings,
) -> Found {
    if vela_api::builtin::STEPS.contains(&step.type_) {
        return None;
    }
    require(
        subject,
        DefinitionKind::WorkflowStep,
        step.type_,
        Rule::Workflow,
        &field.at("type"),
        findings,
    )
}
