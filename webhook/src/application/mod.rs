//! Admission of Applications.
//!
//! Answers for `pkg/webhook/core.oam.dev/v1beta1/application` and for what of `pkg/appfile` runs at
//! admission. The order of rule groups decides nothing: all problems are collected, then sorted by
//! path.

pub(crate) mod auth;
mod components;
pub(crate) mod immutable;
mod lookup;
mod model;
mod mutate;
mod parameters;
mod policies;
mod references;
mod supplied;
mod traits;
mod workflow;

use serde_json::Value;
use serde_json::value::RawValue;
use vela_api::Drift;
use vela_api::names::annotation;

use crate::admit::{Admit, Decision};
use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::size;
use crate::world::World;
use model::App;

pub(crate) use mutate::{Mutate, map_operations};

/// The validating rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validate;

/// What a rule group reports to.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
}

impl Findings {
    pub(crate) fn push(
        &mut self,
        rule: Rule,
        reason: Reason,
        field: Field,
        detail: impl Into<String>,
    ) {
        self.problems.push(Problem::new(rule, reason, field, detail));
    }
}

/// What all rule groups look at.
pub(crate) struct Subject<'a> {
    pub(crate) app: &'a App<'a>,
    /// What it was before, in an update.
    pub(crate) old: Option<&'a App<'a>>,
    pub(crate) object: &'a Value,
    pub(crate) namespace: &'a str,
    pub(crate) world: &'a World<'a>,
    pub(crate) request: &'a Request,
}

impl Subject<'_> {
    /// Whether a component is not in the stored Application as it is here.
    pub(crate) fn is_new(&self, component: &model::Component<'_>) -> bool {
        !self.old.is_some_and(|old| old.components.contains(component))
    }
}

impl Findings {
    /// What can never work is refused where somebody writes it, and told where it is there already:
    /// the rest of such an Application can be edited.
    pub(crate) fn refuse_if(
        &mut self,
        is_new: bool,
        rule: Rule,
        reason: Reason,
        field: Field,
        detail: String,
    ) {
        if is_new {
            self.push(rule, reason, field, detail);
        } else {
            self.warnings.push(messages::warning(&field.to_string(), &detail));
        }
    }
}

/// Parses an object of a review. The error is the detail of a denial.
pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Value, String> {
    let raw =
        raw.filter(|raw| raw.get() != "null").ok_or_else(|| messages::NO_CONTENT.to_owned())?;
    let value: Value = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if value.is_object() { Ok(value) } else { Err(messages::wrong_type("an object", &value)) }
}

/// A hash of what of an Application decides what is deployed, as the controller reads it.
pub(crate) fn content(object: &Value) -> Result<[u8; 32], serde_json::Error> {
    let spec = object.get("spec").cloned().map(serde_json::from_value).transpose()?;
    let annotations = object.pointer("/metadata/annotations");
    let annotation = |key: &str| {
        annotations.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default()
    };
    vela_seal::application(
        &spec.unwrap_or_default(),
        annotation(annotation::PUBLISH_VERSION),
        annotation(annotation::AUTO_UPDATE),
    )
}

/// The path is for one kind only.
pub(crate) fn is_kind(object: &Value, kind: &str) -> Result<(), String> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    // an object without either is taken for what the path is for
    let is = |key: &str, want: &str| text(key).is_empty() || text(key) == want;
    if is("kind", kind) && is("apiVersion", vela_api::V1BETA1) {
        Ok(())
    } else {
        Err(messages::wrong_kind(text("apiVersion"), text("kind"), kind))
    }
}

fn application(raw: Option<&RawValue>) -> Result<Value, String> {
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
            Err(error) => return refused(&error),
        };
        let (app, problems) = model::read(&object);
        if !problems.is_empty() {
            return Decision::of(problems, Vec::new(), &request.uid);
        }
        let old = match request.operation.as_str() {
            "CREATE" => None,
            "UPDATE" => match application(request.old_object.as_deref()) {
                Ok(old) => Some(old),
                Err(error) => return refused(&error),
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
        annotations(&subject, &mut findings);
        // Nothing that is deployed changes: labels, annotations and finalizers can always be
        // edited, also when a definition is gone (compatibility note webhook-1).
        let is_unchanged = old.as_ref().is_some_and(|old| {
            old.get("spec") == object.get("spec")
                && !changed(&app, old_app.as_ref(), annotation::PUBLISH_VERSION)
                && !changed(&app, old_app.as_ref(), annotation::AUTO_UPDATE)
        });
        if !is_unchanged {
            publishable(&subject, &mut findings);
            spec(&subject, &mut findings);
            if let (Some(old), Some(old_app)) = (&old, &old_app) {
                removed(old, &object, &mut findings);
                immutable::check(&subject, old_app, &mut findings);
                published(&subject, old, old_app, &mut findings);
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

pub(crate) fn namespace<'a>(request: &'a Request, object: &'a Value) -> &'a str {
    if !request.namespace.is_empty() {
        return &request.namespace;
    }
    object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or("default")
}

fn annotations(subject: &Subject<'_>, findings: &mut Findings) {
    let app = subject.app;
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
        let is_time = value.parse::<jiff::Timestamp>().is_ok();
        if value != "true"
            && !is_time
            && value.parse::<vela_gocompat::duration::Duration>().is_err()
        {
            findings.warnings.push(messages::bad_restart(value));
        }
    }
    if let Some(word) = app.annotation(annotation::DRIFT).filter(|word| !word.is_empty())
        && Drift::parse(word).is_none()
    {
        let field = Field::new("metadata.annotations").key(annotation::DRIFT);
        let is_new = changed(app, subject.old, annotation::DRIFT);
        let detail = messages::unknown_word(word, &Drift::WORDS);
        findings.refuse_if(is_new, Rule::Annotations, Reason::Invalid, field, detail);
    }
    if let Some(Err(error)) =
        app.annotation(annotation::PROGRESS_DEADLINE).map(vela_workflow::progress::read)
    {
        findings.warnings.push(messages::bad_deadline(&error));
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
    if !version.is_empty() && !is_subdomain(&tracker) {
        findings.warnings.push(messages::unpublishable(version));
    }
}

/// Whether an object may have the name (RFC 1123).
fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Edits under an unchanged publishVersion are not deployed: say so.
fn published(subject: &Subject<'_>, old: &Value, old_app: &App<'_>, findings: &mut Findings) {
    let Some(version) = subject.app.annotation(annotation::PUBLISH_VERSION) else { return };
    let is_same = old_app.annotation(annotation::PUBLISH_VERSION) == Some(version);
    if !version.is_empty() && is_same && old.get("spec") != subject.object.get("spec") {
        findings.warnings.push(messages::published_edit(version));
    }
}
