//! ComponentDefinitions: the workload they stand for, and its completion.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};
use vela_cluster::Resource;

use super::cue;
use super::subject::Subject;
use crate::admit::Admit;
use crate::application::subject::{is_kind, parse};
use crate::decision::Decision;
use crate::messages;
use crate::review::Request;
use crate::world::{ObjectKind, World};
use vela_api::DefinitionKind;

/// The workload type of definitions whose template decides.
const AUTODETECTS: &str = "autodetects.core.oam.dev";

pub(crate) fn check(subject: &Subject<'_>, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let type_ = subject.text("/workload/type");
    let api_version = subject.text("/workload/definition/apiVersion");
    let kind = subject.text("/workload/definition/kind");
    let has_definition = !api_version.is_empty() || !kind.is_empty();
    if type_.is_empty() && !has_definition {
        problems.push(messages::workload_missing(subject.name));
    }
    if !type_.is_empty() && has_definition {
        match subject.world.resource(api_version, kind).map(|found| found.map(Resource::full_name))
        {
            Err(error) => problems.push(messages::lookup_failed(error)),
            Ok(None) => problems.push(messages::no_matches(api_version, kind)),
            Ok(Some(resource)) if resource != type_ && !refers_to(subject, type_, &resource) => {
                problems.push(messages::workload_mismatch(subject.name, type_, &resource));
            }
            Ok(Some(_)) => {}
        }
    }
    cue::check(subject, problems, warnings);
}

/// A WorkloadDefinition of another name may stand for the same resource.
fn refers_to(subject: &Subject<'_>, type_: &str, resource: &str) -> bool {
    subject
        .world
        .object(ObjectKind::WorkloadDefinition, subject.namespace, type_)
        .and_then(|object| {
            let name = object.pointer("/spec/definitionRef/name")?.as_str()?;
            Some(name == resource)
        })
        .unwrap_or(false)
}

/// Completes `spec.workload.type`. Upstream also creates a WorkloadDefinition here, even for dry
/// runs; ours leaves that to the controller (compatibility note webhook-5).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutate;

impl Admit for Mutate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let object = match parse(request.object.as_deref())
            .and_then(|object| is_kind(&object, DefinitionKind::Component.kind()).map(|()| object))
        {
            Ok(object) => object,
            Err(error) => return Decision::errored(400, error.to_string()),
        };
        let mistyped = super::shape::mistyped(DefinitionKind::Component, &object);
        if !mistyped.is_empty() {
            return Decision::errored(400, mistyped.join("; "));
        }
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let type_ = text("/spec/workload/type");
        let api_version = text("/spec/workload/definition/apiVersion");
        let kind = text("/spec/workload/definition/kind");
        let namespace = if request.namespace.is_empty() {
            text("/metadata/namespace")
        } else {
            &request.namespace
        };
        let has_definition = !api_version.is_empty() || !kind.is_empty();
        let completed = match (type_, has_definition) {
            ("", false) => AUTODETECTS.to_owned(),
            (AUTODETECTS, false) => return Decision::allowed(),
            (type_, false) => {
                // A resource written by its name is as good as a WorkloadDefinition of that name,
                // which is all the definition would say.
                let known = world.object(ObjectKind::WorkloadDefinition, namespace, type_);
                if known.is_none() {
                    return Decision::errored(400, messages::no_workload_definition(type_));
                }
                return Decision::allowed();
            }
            (type_, true) => match world.resource(api_version, kind) {
                Err(error) => return Decision::errored(400, messages::lookup_failed(error)),
                Ok(None) => {
                    return Decision::errored(400, messages::no_matches(api_version, kind));
                }
                Ok(Some(_)) if !type_.is_empty() => return Decision::allowed(),
                Ok(Some(resource)) => resource.full_name(),
            },
        };
        Decision::patched(complete(&object, &completed))
    }
}

/// Sets the type, making the objects above it if they are not there.
fn complete(object: &Value, type_: &str) -> Vec<PatchOperation> {
    let add = |path: &[&str], value: Value| {
        let path = PointerBuf::from_tokens(path.iter().copied());
        vec![PatchOperation::Add(AddOperation { path, value })]
    };
    let is_object = |pointer: &str| object.pointer(pointer).is_some_and(Value::is_object);
    if is_object("/spec/workload") {
        add(&["spec", "workload", "type"], json!(type_))
    } else if is_object("/spec") {
        add(&["spec", "workload"], json!({ "type": type_ }))
    } else {
        add(&["spec"], json!({ "workload": { "type": type_ } }))
    }
}
