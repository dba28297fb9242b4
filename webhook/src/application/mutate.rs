//! The mutating rules: identity, shard, step names.
//!
//! Patches touch exactly the fields that change. Upstream serialises its whole Go type and thereby
//! adds empty fields and would drop unknown ones.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::{Map, Value};
use vela_api::names::{annotation, label};

use super::auth::{self, IDENTITY};
use super::model::{self, App};
use super::{is_kind, parse};
use crate::admit::{Admit, Decision};
use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::world::World;

/// The mutating rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutate;

impl Admit for Mutate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let object = match parse(request.object.as_deref()) {
            Ok(object) => object,
            Err(error) => return Decision::errored(400, error),
        };
        if let Err(error) = is_kind(&object, "Application") {
            return Decision::errored(400, error);
        }
        let (app, problems) = model::read(&object);
        if !problems.is_empty() {
            return Decision::of(problems, Vec::new(), &request.uid);
        }
        let old = request
            .old_object
            .as_deref()
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
            .filter(Value::is_object);
        let mut change = Change::new(&object);
        let mut warnings = Vec::new();
        if let Err(problem) =
            identity(&app, &object, old.as_ref(), request, world, &mut change, &mut warnings)
        {
            return Decision::of(vec![problem], warnings, &request.uid);
        }
        shard(old.as_ref(), request, world, &mut change, &mut warnings);
        step_names(&object, &mut change);
        Decision::patched(change.operations()).warn(warnings)
    }
}

/// Annotations and labels are collected and written at the end: the maps may have to be made.
struct Change<'a> {
    object: &'a Value,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    names: Vec<PatchOperation>,
}

impl<'a> Change<'a> {
    fn new(object: &'a Value) -> Self {
        let map = |name: &str| {
            object
                .pointer("/metadata")
                .and_then(|meta| meta.get(name))
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        Self { object, annotations: map("annotations"), labels: map("labels"), names: Vec::new() }
    }

    fn operations(self) -> Vec<PatchOperation> {
        let mut operations = Vec::new();
        map_operations(self.object, "annotations", &self.annotations, &mut operations);
        map_operations(self.object, "labels", &self.labels, &mut operations);
        operations.extend(self.names);
        operations
    }
}

fn map_operations(
    object: &Value,
    name: &str,
    wanted: &Map<String, Value>,
    operations: &mut Vec<PatchOperation>,
) {
    let empty = Map::new();
    let current =
        object.pointer("/metadata").and_then(|meta| meta.get(name)).and_then(Value::as_object);
    if current.unwrap_or(&empty) == wanted {
        return;
    }
    let Some(current) = current else {
        let path = PointerBuf::from_tokens(["metadata", name]);
        let value = Value::Object(wanted.clone());
        operations.push(PatchOperation::Add(AddOperation { path, value }));
        return;
    };
    for key in current.keys().filter(|key| !wanted.contains_key(*key)) {
        let path = PointerBuf::from_tokens(["metadata", name, key.as_str()]);
        operations.push(PatchOperation::Remove(RemoveOperation { path }));
    }
    for (key, value) in wanted {
        let path = PointerBuf::from_tokens(["metadata", name, key.as_str()]);
        let value = value.clone();
        operations.push(match current.get(key) {
            Some(same) if *same == value => continue,
            Some(_) => PatchOperation::Replace(ReplaceOperation { path, value }),
            None => PatchOperation::Add(AddOperation { path, value }),
        });
    }
}

/// Identity annotations are the webhook's alone.
///
/// With authentication on, whoever creates an Application or changes its spec is stamped; an edit
/// of metadata keeps the stamp of the one whose spec it is. With authentication off, what a user
/// writes is taken out, and what the object has had all along stays.
fn identity(
    app: &App<'_>,
    object: &Value,
    old: Option<&Value>,
    request: &Request,
    world: &World<'_>,
    change: &mut Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Problem> {
    let settings = world.settings;
    if settings.exempt_users.contains(&request.user_info.username) {
        return Ok(());
    }
    if !settings.gates.authenticate_application && old.is_none() {
        warnings.push(messages::AUTHENTICATION_OFF.to_owned());
    }
    let old_annotation = |key: &str| {
        old.and_then(|old| old.pointer("/metadata/annotations"))
            .and_then(|annotations| annotations.get(key))
            .cloned()
    };
    let account = app.annotation(annotation::SERVICE_ACCOUNT);
    let is_kept_account = account.is_some()
        && old_annotation(annotation::SERVICE_ACCOUNT).as_ref().and_then(Value::as_str) == account;
    let is_same_spec = old.is_some_and(|old| old.get("spec") == object.get("spec"));
    // Without authentication an account of the Application's own namespace is less than the
    // controller's rights. With it, one that is still there from before hinders no metadata edit.
    if settings.gates.authenticate_application
        && account.is_some()
        && !(is_kept_account && is_same_spec)
    {
        return Err(Problem::new(
            Rule::Identity,
            Reason::Forbidden,
            Field::new("metadata.annotations").key(annotation::SERVICE_ACCOUNT),
            messages::SERVICE_ACCOUNT,
        ));
    }
    let wanted: Vec<(&str, Option<Value>)> =
        if settings.gates.authenticate_application && !is_same_spec {
            let stamps = auth::identity(&request.user_info, settings, world);
            IDENTITY
                .iter()
                .map(|key| {
                    let stamp = stamps.iter().find(|(name, _)| name == key);
                    (*key, stamp.map(|(_, value)| Value::String(value.clone())))
                })
                .collect()
        } else {
            IDENTITY.iter().map(|key| (*key, old_annotation(key))).collect()
        };
    for (key, value) in wanted {
        let is_users =
            change.annotations.get(key).is_some_and(|v| old_annotation(key).as_ref() != Some(v));
        match value {
            Some(value) => {
                change.annotations.insert(key.to_owned(), value);
            }
            None => {
                change.annotations.remove(key);
                if is_users {
                    warnings.push(messages::identity_stripped(key));
                }
            }
        }
    }
    Ok(())
}

/// A new Application is given to a shard; one that has a shard keeps it.
fn shard(
    old: Option<&Value>,
    request: &Request,
    world: &World<'_>,
    change: &mut Change<'_>,
    warnings: &mut Vec<String>,
) {
    let settings = world.settings;
    if !settings.sharding || settings.gates.disable_webhook_auto_schedule {
        return;
    }
    let key = label::SCHEDULED_SHARD_ID;
    if change.labels.contains_key(key) {
        return;
    }
    let had = old
        .and_then(|old| old.pointer("/metadata/labels"))
        .and_then(|labels| labels.get(key))
        .cloned();
    let shard = had.or_else(|| {
        let shards = world.shards();
        // spread by name, so that a dry run and the real one agree
        let name = format!("{}/{}", request.namespace, request.name);
        let sum = name.bytes().fold(0_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
        let index = sum.checked_rem(shards.len())?;
        shards.get(index).map(|shard| Value::String(shard.clone()))
    });
    match shard {
        Some(shard) => drop(change.labels.insert(key.to_owned(), shard)),
        None => warnings.push(messages::NO_SHARD.to_owned()),
    }
}

/// Steps without a name are numbered.
fn step_names(object: &Value, change: &mut Change<'_>) {
    let steps = object.pointer("/spec/workflow/steps").and_then(Value::as_array);
    for (i, step) in steps.into_iter().flatten().enumerate() {
        let at = i.to_string();
        name(step, &["spec", "workflow", "steps", &at, "name"], format!("step-{i}"), change);
        let sub_steps = step.get("subSteps").and_then(Value::as_array);
        for (j, sub) in sub_steps.into_iter().flatten().enumerate() {
            let sub_at = j.to_string();
            let path = ["spec", "workflow", "steps", &at, "subSteps", &sub_at, "name"];
            name(sub, &path, format!("step-{i}-{j}"), change);
        }
    }
}

fn name(step: &Value, path: &[&str], name: String, change: &mut Change<'_>) {
    if step.is_null() {
        // an element that is null is an empty step, which has no place for a name yet
        let Some((_, above)) = path.split_last() else { return };
        let path = PointerBuf::from_tokens(above.iter().copied());
        let value = serde_json::json!({ "name": name });
        change.names.push(PatchOperation::Replace(ReplaceOperation { path, value }));
        return;
    }
    let Some(step) = step.as_object() else { return };
    let current = step.get("name");
    if current.and_then(Value::as_str).is_some_and(|name| !name.is_empty()) {
        return;
    }
    let path = PointerBuf::from_tokens(path.iter().copied());
    let value = Value::String(name);
    change.names.push(match current {
        None => PatchOperation::Add(AddOperation { path, value }),
        Some(_) => PatchOperation::Replace(ReplaceOperation { path, value }),
    });
}
