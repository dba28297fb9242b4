//! The controllers of the four definition kinds: revisions, parameter schemas, status.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/core/**` and `pkg/controller/utils/capability.go`. One algorithm for all
//! kinds; what differs is in [`Kind`]. Differences on purpose: one status write instead of two, revisions that Applications pin
//! are never collected, a revision deleted by hand is created again, and texts name the kind they are about.

mod kinds;
mod revision;
pub mod users;
pub mod wake;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::names::{self, annotation, condition as types, label};
use vela_api::{Condition, DefinitionRevision, annotation_of, condition};
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Key, ObjectClient, Target};

use crate::context::Context;
use crate::definitions::to_render;
use crate::events::{About, Severity};
use crate::messages;
use crate::queue::Next;

pub use kinds::Kind;

/// Why the reconcile of a definition failed: for the event and the condition.
struct Failed {
    event: &'static str,
    message: String,
    /// Worth another try without a change of the definition.
    again: bool,
}

/// Reconciles a definition.
///
/// # Errors
/// Its status could not be written.
pub async fn reconcile<T: Kind>(ctx: &Context, key: &Key) -> Result<Next, ApiError> {
    let Some(definition) = T::store(&ctx.definitions).get(key) else {
        // A definition of that name that comes later is a new one.
        ctx.seen_definitions.lock().remove(&(T::KIND_NAME, key.clone()));
        return Ok(Next::Done);
    };
    let definition = definition.as_ref();
    let meta = definition.metadata();
    // Nothing is to be done at its end: revisions and ConfigMaps have owner references.
    if meta.deletion_timestamp.is_some() || !is_ours(ctx, definition) {
        return Ok(Next::Done);
    }
    let mut status = definition.status().clone();
    let now = Timestamp::now();
    // An edit of any part, seen by this process: what the schema's ConfigMap is like is checked again.
    let now_seen = seen(definition);
    let before = ctx.seen_definitions.lock().insert((T::KIND_NAME, key.clone()), now_seen);
    let edited = before.is_some_and(|before| before != now_seen);
    let done = advance(ctx, definition, &mut status, edited).await;
    let next = match &done {
        Ok(()) => {
            status.conditions = vec![Condition::reconcile_success(types::SYNCED, now)];
            // Kept with its time: a condition that says the same must cause no write.
            if let [old] = definition.status().conditions.as_slice()
                && status.conditions.first().is_some_and(|new| new.same_as(old))
            {
                status.conditions = vec![old.clone()];
            }
            Next::Done
        }
        Err(failed) => {
            let event = failed.event;
            ctx.events.named(T::KIND_NAME).emit(
                &about(definition),
                Severity::Warning,
                event,
                &failed.message,
                "",
            );
            let bad = Condition::reconcile_error(types::SYNCED, failed.message.as_str(), now);
            condition::set(&mut status.conditions, [bad]);
            // A template that is wrong stays wrong: the next edit brings it back.
            if failed.again { Next::Failed } else { Next::Done }
        }
    };
    if status != *definition.status() {
        write_status(ctx, definition, &status).await?;
    }
    Ok(next)
}

/// What a user writes of a definition, as a hash.
fn seen<T: Kind>(definition: &T) -> u64 {
    // Not the resource version, which every write of the status changes.
    let object = serde_json::to_value(definition).unwrap_or_default();
    let part = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    crate::application::dispatch::apply::fingerprint(&json!([
        part("/metadata/labels"),
        part("/metadata/annotations"),
        part("/spec"),
    ]))
}

fn is_ours<T: Kind>(ctx: &Context, definition: &T) -> bool {
    let required = annotation_of(definition.metadata(), annotation::CONTROLLER_VERSION_REQUIRE);
    if required.is_empty() {
        !ctx.settings.ignore_definitions_without_version
    } else {
        required == ctx.settings.version
    }
}

fn about<T: Kind>(definition: &T) -> About {
    let meta = definition.metadata();
    About {
        api_version: vela_api::V1BETA1.to_owned(),
        kind: T::KIND_NAME.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
    }
}

/// Revision, schemas, the definition of the workload, clean-up. What is found goes into the status.
async fn advance<T: Kind>(
    ctx: &Context,
    definition: &T,
    status: &mut vela_api::definition::DefinitionStatus,
    edited: bool,
) -> Result<(), Failed> {
    let name = definition.name();
    let found = revision::ensure(ctx, definition).await.map_err(|error| Failed {
        event: "cannot create DefinitionRevision",
        message: messages::no_definition_revision(name, &error.to_string()),
        again: true,
    })?;
    let is_new = found.is_new;
    if found.moves_latest {
        status.latest_revision = Some(found.latest.clone());
    }
    let schema_name = format!("{}-schema-{name}", T::KIND.schema_prefix());
    if is_new || found.content_changed || status.config_map_ref != schema_name {
        store_schemas(ctx, definition, &found).await?;
        status.config_map_ref = schema_name;
    } else if edited {
        // Without the revision's: its schema is that of the text it holds, which does not change.
        let own = revision::Found { uid: None, ..found.clone() };
        store_schemas(ctx, definition, &own).await?;
    }
    if ctx.settings.makes_workload_definitions
        && let Some(kind) = definition.workload()
    {
        let namespace = definition.metadata().namespace.as_deref().unwrap_or_default();
        workload::ensure(ctx, namespace, kind).await.map_err(|error| Failed {
            event: "cannot create WorkloadDefinition",
            message: messages::no_workload_definition(name, &error.to_string()),
            again: true,
        })?;
    }
    // No failure of the definition, which is usable; the next edit tries again.
    if let Err(error) = revision::collect(ctx, definition, &found.latest.name).await {
        let text = error.to_string();
        let reason = "failed to garbage collect DefinitionRevision";
        ctx.events.named(T::KIND_NAME).emit(
            &about(definition),
            Severity::Warning,
            reason,
            &text,
            "",
        );
    }
    Ok(())
}

/// The parameter schema as ConfigMaps: one for the definition, one for its revision.
async fn store_schemas<T: Kind>(
    ctx: &Context,
    definition: &T,
    found: &revision::Found,
) -> Result<(), Failed> {
    let name = definition.name();
    let failed = |text: &str, again: bool| Failed {
        event: "Could not store capability in ConfigMap",
        message: messages::no_schema(name, text),
        again,
    };
    let render = to_render(definition);
    let schema = ctx
        .cue
        .run(move |scope| scope.renderer.schema(&render))
        .await
        .map_err(|error| failed(&error.to_string(), error.is_temporary()))?
        .map_err(|error| failed(&error.to_string(), false))?;
    // Encoded as the reference encodes it, so that a change of controllers writes no ConfigMap.
    let text = vela_gocompat::json::to_string(&schema).unwrap_or_else(|_| schema.to_string());
    let mut owners = vec![(
        name.to_owned(),
        T::KIND_NAME,
        definition.metadata().uid.clone().unwrap_or_default(),
    )];
    if let Some(uid) = &found.uid {
        owners.push((found.name.clone(), DefinitionRevision::KIND, uid.clone()));
    }
    let io = ctx.connections.of(T::CONTROLLER);
    for (owner, kind, uid) in owners {
        let object = config_map(definition, &owner, kind, &uid, &text);
        write_config_map(io, &object).await.map_err(|error| failed(&error.to_string(), true))?;
    }
    Ok(())
}

fn config_map<T: Kind>(definition: &T, owner: &str, kind: &str, uid: &str, text: &str) -> Value {
    let meta = definition.metadata();
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(label::DEFINITION.to_owned(), names::SCHEMA.to_owned());
    labels.insert(label::DEFINITION_NAME.to_owned(), owner.to_owned());
    let mut annotations = serde_json::Map::new();
    let workloads = definition.applied_workloads();
    if !workloads.is_empty() {
        let key = annotation::DEFINITION_APPLIED_WORKLOADS.to_owned();
        annotations.insert(key, Value::String(workloads.join(",")));
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("{}-schema-{owner}", T::KIND.schema_prefix()),
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": vela_api::V1BETA1, "kind": kind, "name": owner, "uid": uid,
                // The API server's garbage collector deletes it with its owner; no finalizer is
                // needed.
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "data": {names::OPENAPI_V3_JSON_SCHEMA: text},
    })
}

async fn write_config_map(io: &ObjectClient, object: &Value) -> Result<(), ApiError> {
    let own = Identity::default();
    // No read before: where it is missing is the common case after an install, and a replace needs
    // no version.
    match io.create(object, false, &own).await {
        Err(error) if error.is_already_exists() => {
            io.replace(object, "", false, &own).await.map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

async fn write_status<T: Kind>(
    ctx: &Context,
    definition: &T,
    status: &vela_api::definition::DefinitionStatus,
) -> Result<(), ApiError> {
    let meta = definition.metadata();
    let value = |status| serde_json::to_value(status).unwrap_or(Value::Null);
    let body = json!({
        // Only what differs, so that fields of others in the status stay.
        "status": vela_apply::json_merge::diff(&value(definition.status()), &value(status)),
    });
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: T::KIND_NAME,
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        name: definition.name(),
    };
    let own = Identity::default();
    let io = ctx.connections.of(T::CONTROLLER);
    let answer = io.patch(&target, "status", (PatchKind::Merge, &body), false, &own).await?;
    if let Ok(stored) = answer.read::<T>() {
        // The next reconcile must not decide from the status before this write.
        let _ = T::store(&ctx.definitions).put(stored);
    }
    Ok(())
}
