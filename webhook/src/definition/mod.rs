//! Admission of the four definition kinds.
//!
//! Answers for `pkg/webhook/core.oam.dev/v1beta1/{component,trait,policy,workflowstep}definition`
//! and `pkg/webhook/utils`. All problems are reported, not only the first.

mod component;
mod cue;
mod policy;
mod shape;
mod subject;
mod trait_;
mod workflow_step;

use serde_json::Value;
use serde_json::value::RawValue;
use vela_api::names::annotation;

use crate::admit::Admit;
use crate::application::subject::{is_kind, parse};
use crate::decision::Decision;
use crate::messages;
use crate::review::Request;
use crate::size;
use crate::world::{ObjectKind, World};
use vela_api::DefinitionKind;

use shape::mistyped;
use subject::{Subject, annotations};

pub(crate) use component::Mutate;

/// The validating rules of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validate(pub(crate) DefinitionKind);

impl Admit for Validate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let kind = self.0;
        let uid = &request.uid;
        let errored = |text: &str| Decision::errored(400, messages::with_uid(text, uid));
        let resource = &request.resource;
        let is_ours = resource.group == vela_api::GROUP
            && resource.version == "v1beta1"
            && resource.resource == kind.resource();
        if !is_ours {
            return errored(&messages::wrong_resource(kind.resource()));
        }
        if !matches!(request.operation.as_str(), "CREATE" | "UPDATE") {
            return match kind {
                DefinitionKind::WorkflowStep => Decision::allowed_because(messages::NOT_VALIDATED),
                _ => Decision::allowed(),
            };
        }
        let (raw, old) = (request.object.as_deref(), request.old_object.as_deref());
        if let Some(error) = size::check_object(kind.kind(), raw, old, size::DEFINITION) {
            return Decision::oversized(&messages::with_uid(&error, uid));
        }
        let object =
            match parse(raw).and_then(|object| is_kind(&object, kind.kind()).map(|()| object)) {
                Ok(object) => object,
                Err(error) => return errored(&messages::failed_to_decode(&error.to_string())),
            };
        let mistyped = mistyped(kind, &object);
        if !mistyped.is_empty() {
            return errored(&messages::failed_to_decode(&mistyped.join("; ")));
        }
        let subject = Subject {
            kind,
            name: object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            object: &object,
            spec: object.get("spec").unwrap_or(&Value::Null),
            namespace: &request.namespace,
            world,
        };
        if let Some(error) = template_size(&object, old) {
            return Decision::oversized(&messages::with_uid(&error, uid));
        }
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        match kind {
            DefinitionKind::Component => component::check(&subject, &mut problems, &mut warnings),
            DefinitionKind::Trait => trait_::check(&subject, &mut problems, &mut warnings),
            DefinitionKind::Policy => policy::check(&subject, &mut problems, &mut warnings),
            DefinitionKind::WorkflowStep => {
                workflow_step::check(&subject, &mut problems, &mut warnings);
            }
            DefinitionKind::Workload => {}
        }
        versions(&subject, &mut problems);
        if problems.is_empty() {
            return match kind {
                DefinitionKind::WorkflowStep => Decision::allowed_because(messages::PASSED),
                _ => Decision::allowed(),
            }
            .warn(warnings);
        }
        Decision::denied(messages::with_uid(&problems.join("\n"), uid)).warn(warnings)
    }
}

/// What is wrong with the length of the template. Read before it is evaluated; the stored object
/// only if that is needed.
fn template_size(object: &Value, old: Option<&RawValue>) -> Option<String> {
    const FIELD: &str = "/spec/schematic/cue/template";
    let size = |object: &Value| object.pointer(FIELD).and_then(Value::as_str).map_or(0, str::len);
    let new = size(object);
    if new <= size::TEMPLATE {
        return None;
    }
    let old = parse(old).map_or(0, |old| size(&old));
    size::check("spec.schematic.cue.template", new, old, size::TEMPLATE)
}

/// `spec.version` and the annotation that names a revision.
fn versions(subject: &Subject<'_>, problems: &mut Vec<String>) {
    let version = subject.text("/version");
    let revision = annotations(subject.object)
        .and_then(|annotations| annotations.get(annotation::DEFINITION_REVISION_NAME))
        .and_then(Value::as_str)
        .filter(|revision| !revision.is_empty());
    if !version.is_empty() && !is_version(version) {
        problems.push(messages::INVALID_VERSION.to_owned());
    }
    let Some(revision) = revision else { return };
    if !version.is_empty() {
        problems.push(messages::both_revisions(subject.kind));
    }
    if subject.kind == DefinitionKind::WorkflowStep {
        return;
    }
    let name = format!("{}-v{revision}", subject.name);
    if !is_label_value(&name) {
        problems.push(messages::invalid_revision_name(&name));
        return;
    }
    let stored = subject.world.object(ObjectKind::DefinitionRevision, subject.namespace, &name);
    if let Some(stored) = stored {
        let before = stored
            .pointer("/spec")
            .and_then(|spec| spec.get(subject.kind.revision_field()))
            .and_then(|definition| definition.get("spec"))
            .unwrap_or(&Value::Null);
        if !is_same(before, subject.spec) {
            problems.push(messages::REVISION_DIFFERS.to_owned());
        }
    }
}

/// Three numbers with dots between. Go's `Atoi` takes a sign and leading zeros.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| vela_gocompat::strconv::atoi(part).is_ok())
}

/// What may be a label value: the text of the rule is in [`messages::invalid_revision_name`].
fn is_label_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_end(text.chars().next())
        && is_end(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Equal, where an absent field equals an empty one: a stored object has lost those.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let null = Value::Null;
            a.keys()
                .chain(b.keys())
                .all(|key| is_same(a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        for (text, fits) in [
            ("1.2.3", true),
            ("01.2.3", true),
            ("-1.2.3", true),
            ("1.2", false),
            ("v1.2.3", false),
            ("1.2.3-rc1", false),
            ("", false),
        ] {
            assert_eq!(is_version(text), fits, "{text}");
        }
    }

    #[test]
    fn absent_equals_empty() {
        assert!(is_same(&json!({ "a": { "b": "" }, "c": 1 }), &json!({ "c": 1 })));
        assert!(!is_same(&json!({ "c": 1 }), &json!({ "c": 2 })));
        assert!(is_same(&json!(null), &json!({})));
        assert!(!is_same(&json!([1]), &json!([1, 2])));
    }
}
