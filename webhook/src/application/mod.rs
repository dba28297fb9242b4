//! Admission of Applications.
//!
//! Answers for `pkg/webhook/core.oam.dev/v1beta1/application` and for what of `pkg/appfile` runs at
//! admission. The order of rule groups decides nothing: all problems are collected, then sorted by
//! path.

pub(crate) mod auth;
mod charts;
mod components;
pub(crate) mod immutable;
mod lookup;
pub(crate) mod model;
pub(crate) mod mutate;
mod parameters;
mod policies;
mod references;
pub(crate) mod subject;
mod summary;
mod supplied;
mod traits;
pub(crate) mod workflow;

use serde_json::Value;
use serde_json::value::RawValue;
use vela_api::names::{GITOPS_KEYS, annotation};
use vela_api::{Drift, KeyPatterns, OnFailure, PruneRules};
use vela_workflow::restart::Restart;

use crate::admit::Admit;
use crate::config::Settings;
use crate::decision::Decision;
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::size;
use crate::world::World;
use model::App;
use subject::{Findings, Subject, Undecoded, is_kind, namespace, parse};

pub(crate) use mutate::{Mutate, map_operations};

/// The validating rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validate;

fn application(raw: Option<&RawValue>) -> Result<Value, Undecoded> {
    let object = parse(raw)?;
    is_kind(&object, "Application")?;
    Ok(object)
}

impl Admit for Validate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let refused = |error: &str| {
            let text = messages::failed_to_decode(error);
            Decision::errored(400, messages::with_uid(&text, &request.uid))
        };
        let (raw, old) = (request.object.as_deref(), request.old_object.as_deref());
        if let Some(error) = size::check_object("Application", raw, old, size::APPLICATION) {
            return Decision::oversized(&messages::with_uid(&error, &request.uid));
        }
        let object = match application(raw) {
            Ok(object) => object,
            Err(error) => return refused(&error.to_string()),
        };
        let (app, problems) = model::read(&object);
        if !problems.is_empty() {
            return Decision::of(problems, Vec::new(), &request.uid);
        }
        let old = match request.operation.as_str() {
            "CREATE" => None,
            "UPDATE" => match application(request.old_object.as_deref()) {
                Ok(old) => Some(old),
                Err(error) => return refused(&error.to_string()),
            },
            _ => return Decision::allowed(),
        };
        let old_app = match &old {
            None => None,
            Some(old) => {
                let (old_app, problems) = model::read(old);
                if !problems.is_empty() {
                    return Decision::of(problems, Vec::new(), &request.uid);
                }
                Some(old_app)
            }
        };
        if old.is_some() && app.is_deleting {
            return Decision::allowed();
        }
        let namespace = namespace(request, &object);
        let subject = Subject {
            app: &app,
            old: old_app.as_ref(),
            object: &object,
            namespace,
            world,
            request,
        };
        let mut findings = Findings::default();
        annotations(subject.app, subject.old, &mut findings);
        // Nothing that is deployed changes: labels, annotations and finalizers can always be
        // edited, also when a definition is gone (compatibility note webhook-1).
        let is_unchanged = old.as_ref().is_some_and(|old| {
            old.get("spec") == object.get("spec")
                && !changed(&app, old_app.as_ref(), annotation::PUBLISH_VERSION)
                && !changed(&app, old_app.as_ref(), annotation::AUTO_UPDATE)
        });
        if !is_unchanged {
            publishable(&subject, &mut findings);
            inherited_keys(&app, world.settings, &mut findings);
            spec(&subject, &mut findings);
            if request.dry_run {
                findings.warnings.extend(summary::line(&app, old_app.as_ref()));
            }
            if let (Some(old), Some(old_app)) = (&old, &old_app) {
                removed(old, &object, &mut findings);
                immutable::check(&subject, old_app, &mut findings);
                published(&subject, old, &mut findings);
            }
        }
        Decision::of(findings.problems, findings.warnings, &request.uid)
    }
}

/// Nobody means to delete all there is by leaving the spec out (compatibility note webhook-22).
fn removed(old: &Value, object: &Value, findings: &mut Findings) {
    let has_spec = |object: &Value| object.get("spec").is_some_and(Value::is_object);
    if has_spec(old) && !has_spec(object) {
        findings.push(Rule::Shape, Reason::Required, Field::new("spec"), messages::SPEC_REMOVED);
    }
}

fn changed(app: &App<'_>, old: Option<&App<'_>>, key: &str) -> bool {
    old.and_then(|old| old.annotation(key)) != app.annotation(key)
}

fn annotations(app: &App<'_>, old: Option<&App<'_>>, findings: &mut Findings) {
    let published = app.annotation(annotation::PUBLISH_VERSION).is_some_and(|v| !v.is_empty());
    if app.annotation(annotation::AUTO_UPDATE) == Some("true") && published {
        findings.push(
            Rule::Annotations,
            Reason::Forbidden,
            Field::new("metadata.annotations"),
            messages::BOTH_VERSIONS,
        );
    }
    if let Some(value) = app.annotation(annotation::RESTART_WORKFLOW) {
        match Restart::read(value) {
            Ok(restart) if restart.is_too_often() => {
                let field = Field::new("metadata.annotations").key(annotation::RESTART_WORKFLOW);
                let is_new = changed(app, old, annotation::RESTART_WORKFLOW);
                let detail = messages::restarts_too_often(value);
                findings.refuse_if(is_new, Rule::Annotations, Reason::Invalid, field, detail);
            }
            Ok(_) => {}
            Err(_) => findings.warnings.push(messages::bad_restart(value)),
        }
    }
    if let Some(word) = app.annotation(annotation::DRIFT).filter(|word| !word.is_empty())
        && Drift::parse(word).is_none()
    {
        let field = Field::new("metadata.annotations").key(annotation::DRIFT);
        let is_new = changed(app, old, annotation::DRIFT);
        let detail = messages::unknown_word(word, &Drift::WORDS);
        findings.refuse_if(is_new, Rule::Annotations, Reason::Invalid, field, detail);
    }
    if let Some(word) = app.annotation(annotation::ON_FAILURE).filter(|word| !word.is_empty())
        && OnFailure::parse(word).is_none()
    {
        let field = Field::new("metadata.annotations").key(annotation::ON_FAILURE);
        let is_new = changed(app, old, annotation::ON_FAILURE);
        let detail = messages::unknown_word(word, &OnFailure::WORDS);
        findings.refuse_if(is_new, Rule::Annotations, Reason::Invalid, field, detail);
    }
    if let Some(Err(error)) = app.annotation(annotation::PRUNE).map(PruneRules::parse) {
        let field = Field::new("metadata.annotations").key(annotation::PRUNE);
        let is_new = changed(app, old, annotation::PRUNE);
        findings.refuse_if(is_new, Rule::Annotations, Reason::Invalid, field, error.to_string());
    }
    if let Some(Err(error)) =
        app.annotation(annotation::PROGRESS_DEADLINE).map(vela_workflow::progress::read)
    {
        findings.warnings.push(messages::bad_deadline(&error.to_string()));
    }
}

/// Keys of GitOps tools that objects inherit: those tools take the objects for their own, and prune them.
fn inherited_keys(app: &App<'_>, settings: &Settings, findings: &mut Findings) {
    let known = KeyPatterns::new(GITOPS_KEYS);
    let filters = [annotation::FILTER_LABELS, annotation::FILTER_ANNOTATIONS];
    for ((map, keys), filter) in
        [("labels", &app.labels), ("annotations", &app.annotations)].into_iter().zip(filters)
    {
        let held_back = KeyPatterns::new(app.annotation(filter).unwrap_or_default().split(','));
        let inherited = |key: &&str| {
            known.matches(key) && !settings.not_inherited.matches(key) && !held_back.matches(key)
        };
        for key in keys.iter().map(|(key, _)| *key).filter(inherited) {
            let field = Field::new("metadata").at(map).key(key).to_string();
            findings.warnings.push(messages::inherited_key(&field, filter));
        }
    }
}

/// Rules about the spec.
fn spec(subject: &Subject<'_>, findings: &mut Findings) {
    let settings = subject.world.settings;
    if settings.gates.validate_definition_permissions {
        auth::permissions(subject, findings);
    }
    workflow::shape(subject, findings);
    if settings.sharding && !settings.gates.validate_component_when_sharding {
        return;
    }
    let types = lookup::Types::of(subject, findings);
    components::names(subject, findings);
    components::dependencies(subject, findings);
    policies::check(subject, findings);
    workflow::references(subject, findings);
    references::check(subject, findings);
    components::parameters(subject, &types, findings);
}

/// What is rolled out is recorded in a ResourceTracker, whose name has the publishVersion in it.
fn publishable(subject: &Subject<'_>, findings: &mut Findings) {
    let version = subject.app.annotation(annotation::PUBLISH_VERSION).unwrap_or_default();
    let name = subject.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("a");
    let tracker = format!("{name}-{version}-{}", subject.namespace);
    if !version.is_empty() && !vela_api::is_subdomain(&tracker) {
        findings.warnings.push(messages::unpublishable(version));
    }
}

/// Edits under an unchanged publishVersion are not deployed: say so.
fn published(subject: &Subject<'_>, old: &Value, findings: &mut Findings) {
    let Some(version) = subject.app.annotation(annotation::PUBLISH_VERSION) else { return };
    if subject.is_published() && old.get("spec") != subject.object.get("spec") {
        findings.warnings.push(messages::published_edit(version));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn restarts_without_a_pause_are_refused() {
        let object = |restart: Value| {
            json!({"metadata": {"name": "a", "annotations": {annotation::RESTART_WORKFLOW: restart}},
                "spec": {"components": []}})
        };
        let check = |old: Option<&str>, new: &str| {
            let (old, new) = (old.map(|old| object(json!(old))), object(json!(new)));
            let old = old.as_ref().map(|old| model::read(old).0);
            let mut findings = Findings::default();
            annotations(&model::read(&new).0, old.as_ref(), &mut findings);
            let problems = findings.problems.into_iter();
            let problems: Vec<_> = problems.map(|p| format!("{}: {}", p.field, p.detail)).collect();
            (problems, findings.warnings)
        };
        let none = (Vec::new(), Vec::new());
        for fine in ["true", "2099-01-01T00:00:00Z", "10s", "720h"] {
            assert_eq!(check(None, fine), none, "{fine}");
        }
        for often in ["0s", "-1h", "3s"] {
            let text = format!(
                "metadata.annotations[app.oam.dev/restart-workflow]: \"{often}\" lets the workflow run repeatedly without a pause; the shortest pause is 10 s"
            );
            assert_eq!(check(None, often), (vec![text.clone()], Vec::new()));
            // What is stored already does not stand in the way of another edit.
            let (problems, warnings) = check(Some(often), often);
            assert!(problems.is_empty() && warnings.len() == 1, "{often}: {warnings:?}");
        }
        let (problems, warnings) = check(None, "soon");
        assert!(problems.is_empty() && warnings[0].contains("neither true"), "{warnings:?}");
    }
}
