//! Results of application-scoped policies for users: in the status, in a ConfigMap, and as events.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::warn;
use vela_api::names::{event, label};
use vela_api::status::AppliedApplicationPolicy;
use vela_api::{AppStatus, Application};
use vela_apply::object::str_at;
use vela_cluster::{ApiError, Identity, Target};
use vela_gocompat::fnv::fnv1a_64;
use vela_render::transform::Applied;

use crate::application::context::AppContext;
use crate::application::{facts, revision};
use crate::events::Severity;
use crate::messages;
use crate::queue::Key;

use crate::application::policies::{Transformation, Transformed, hash};

/// The entry about all of it.
const INFO: &str = "info";
/// In `info`: since when the policies make of the Application what the others say.
const RENDERED_AT: &str = "rendered_at";

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// The name of the ConfigMap of an Application.
pub(super) fn name_of(app: &Application) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (part(&app.metadata.namespace), part(&app.metadata.name));
    let whole = format!("application-policies-{namespace}-{name}");
    // A long name is cut and made unique by a hash.
    if whole.len() <= MAX_NAME {
        return whole;
    }
    let hash = format!("{:016x}", fnv1a_64(whole.as_bytes()));
    let room = MAX_NAME - hash.len() - 1;
    let mut start = whole;
    start.truncate(room);
    format!("{}-{hash}", start.trim_end_matches(['-', '.']))
}

/// Notes what the policies did: in the status of this reconcile, and in the ConfigMap if it says something else.
pub(super) async fn keep(
    ctx: &AppContext,
    app: &Application,
    status: &mut AppStatus,
    transformation: &Transformation,
    transformed: &Transformed,
) {
    let entries: Vec<_> =
        transformation.applied.iter().map(|outcome| entry(transformation, outcome)).collect();
    for (entry, outcome) in entries.iter().zip(&transformation.applied) {
        // An event when something is new, not at every reconcile.
        if !app.status.applied_application_policies.contains(entry) {
            emit(ctx, app, entry, outcome);
        }
    }
    status.applied_application_policies = entries;
    status.application_policies_config_map = name_of(app);
    let data = data(app, status, transformation, transformed);
    let hash = hash(&data);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let key = Key::new(namespace, app.metadata.name.as_deref().unwrap_or_default());
    // Known to this process: no request at all.
    if ctx.memory(&key).lock().policies_noted == Some(hash) {
        return;
    }
    match write(ctx, app, &data).await {
        Ok(()) => ctx.memory(&key).lock().policies_noted = Some(hash),
        Err(error) => warn!(%error, "the results of policies could not be stored"),
    }
}

/// No policy applies any more. Which ConfigMap goes is not for the status to say: others than we write it.
pub(super) async fn forget(ctx: &AppContext, app: &Application, status: &mut AppStatus) {
    status.applied_application_policies.clear();
    status.application_policies_config_map.clear();
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = Key::new(part(&app.metadata.namespace), part(&app.metadata.name));
    ctx.memory(&key).lock().policies_noted = None;
    let name = name_of(app);
    if let Err(error) = remove(ctx, app, &name).await {
        warn!(%error, name, "the stored results of policies could not be deleted");
    }
}

/// Deletes the ConfigMap of an Application, if it is one of ours.
async fn remove(ctx: &AppContext, app: &Application, name: &str) -> Result<(), ApiError> {
    let (target, own) = (target(app, name), Identity::default());
    let stored = match ctx.io.get(&target, &own).await {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    // Anybody may have put another ConfigMap under this name.
    if !is_ours(&stored, app) {
        return Err(ApiError::Transport(messages::not_ours(name)));
    }
    let seen = |key: &str| str_at(&stored, &["metadata", key]);
    // Only this version of it: what somebody changed in between stays.
    let seen = (seen("uid"), seen("resourceVersion"));
    ctx.io.delete_as_seen(&target, seen, None, &own).await.map(|_| ())
}

/// Whether a ConfigMap says that it is what policies did to the Application.
fn is_ours(stored: &Value, app: &Application) -> bool {
    let says = |key: &str, value: Option<&str>| {
        value.is_some() && vela_apply::object::label(stored, key) == value
    };
    says(label::APPLICATION_POLICIES, Some("true"))
        && says(label::APP_NAME, app.metadata.name.as_deref())
        && says(label::APP_NAMESPACE, app.metadata.namespace.as_deref())
}

fn entry(transformation: &Transformation, outcome: &Applied) -> AppliedApplicationPolicy {
    let is_it = |one: &&crate::application::policies::Candidate| {
        one.name == outcome.name && one.global == outcome.global
    };
    let candidate = transformation.candidates.iter().find(is_it);
    let definition = candidate.map(|one| &one.definition.metadata);
    let version = candidate.map(|one| one.version.clone()).unwrap_or_default();
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    AppliedApplicationPolicy {
        name: outcome.name.clone(),
        namespace: definition.and_then(|m| m.namespace.clone()).unwrap_or_default(),
        applied: outcome.applied,
        type_: definition.and_then(|m| m.name.clone()).unwrap_or_default(),
        error: outcome.error.is_some(),
        message: match &outcome.error {
            Some(error) => error.clone(),
            None if !outcome.applied => messages::POLICY_DISABLED.to_owned(),
            None => String::new(),
        },
        source: if outcome.global { "global" } else { "explicit" }.to_owned(),
        spec_modified: outcome.modified.is_some(),
        labels_count: count(outcome.labels.len()),
        annotations_count: count(outcome.annotations.len()),
        has_context: !outcome.custom.is_empty(),
        definition_revision_name: version.definition_revision_name,
        revision: version.revision,
        revision_hash: version.revision_hash,
    }
}

fn emit(ctx: &AppContext, app: &Application, entry: &AppliedApplicationPolicy, outcome: &Applied) {
    let (name, global) = (outcome.name.as_str(), outcome.global);
    let (severity, reason, text) = if let Some(error) = &outcome.error {
        let text = messages::policy_failed(name, global, error);
        let reason = if global { event::GLOBAL_POLICY_FAILED } else { event::POLICY_FAILED };
        (Severity::Warning, reason, text)
    } else if outcome.applied {
        let text = messages::policy_applied(name, global.then_some(entry.namespace.as_str()));
        let reason = if global { event::GLOBAL_POLICY_APPLIED } else { event::POLICY_APPLIED };
        (Severity::Normal, reason, text)
    } else {
        let text = messages::policy_skipped(name, global, &entry.message);
        let reason = if global { event::GLOBAL_POLICY_SKIPPED } else { event::POLICY_SKIPPED };
        (Severity::Normal, reason, text)
    };
    // The revision of the definition is part of it: a policy that changed is news.
    let once = format!("{}-{}", app.metadata.generation.unwrap_or_default(), entry.revision_hash);
    ctx.events.emit(&facts::about(app), severity, reason, &text, &once);
}

/// What the ConfigMap holds, but for the time. Nothing in it changes by itself.
fn data(
    app: &Application,
    status: &AppStatus,
    transformation: &Transformation,
    transformed: &Transformed,
) -> Map<String, Value> {
    let text =
        |value: &Value| Value::String(vela_gocompat::json::to_string(value).unwrap_or_default());
    let mut out = Map::new();
    out.insert(
        INFO.to_owned(),
        text(&json!({
            "application": app.metadata.name,
            "namespace": app.metadata.namespace,
            "policies": status.applied_application_policies,
        })),
    );
    out.insert("rendered_spec".to_owned(), text(&json!(transformation.spec)));
    out.insert("applied_spec".to_owned(), text(&json!(transformed.spec)));
    let all = |of: fn(&Applied) -> &BTreeMap<String, String>| -> BTreeMap<String, String> {
        transformation.applied.iter().flat_map(|outcome| of(outcome).clone()).collect()
    };
    let (labels, annotations) =
        (all(|outcome| &outcome.labels), all(|outcome| &outcome.annotations));
    let metadata =
        json!({"labels": labels, "annotations": annotations, "context": transformation.custom});
    out.insert("metadata".to_owned(), text(&metadata));
    for (index, (outcome, entry)) in
        transformation.applied.iter().zip(&status.applied_application_policies).enumerate()
    {
        // Numbered, since the order in which policies ran matters.
        let name = format!("{:03}-{}", index + 1, outcome.name);
        out.insert(name, text(&policy(transformation, outcome, entry)));
    }
    out
}

/// What one policy did, as the client's `policy view` reads it.
fn policy(
    transformation: &Transformation,
    outcome: &Applied,
    entry: &AppliedApplicationPolicy,
) -> Value {
    let is_it = |one: &&crate::application::policies::Candidate| {
        one.name == outcome.name && one.global == outcome.global
    };
    let definition = transformation.candidates.iter().find(is_it).map(|one| &one.definition);
    let spec = outcome.modified.as_ref();
    let output = json!({
        "labels": outcome.labels, "annotations": outcome.annotations, "ctx": outcome.custom,
        "spec": spec.map(|spec| json!({"before": spec.before, "after": spec.after})),
    });
    json!({
        "name": entry.name,
        "namespace": entry.namespace,
        "type": entry.type_,
        "source": entry.source,
        "enabled": entry.applied,
        "message": entry.message,
        "priority": definition.map(|one| one.spec.priority).unwrap_or_default(),
        "definitionRevisionName": entry.definition_revision_name,
        "revision": entry.revision,
        "revisionHash": entry.revision_hash,
        "output": output,
    })
}

/// The data with the time at which it came to be as it is, in the entry `info`.
fn dated(data: &Map<String, Value>, time: &str) -> Map<String, Value> {
    let mut data = data.clone();
    let info = data.get(INFO).and_then(Value::as_str).unwrap_or_default();
    let mut info: Map<String, Value> = serde_json::from_str(info).unwrap_or_default();
    info.insert(RENDERED_AT.to_owned(), Value::from(time));
    let text = vela_gocompat::json::to_string(&Value::Object(info)).unwrap_or_default();
    data.insert(INFO.to_owned(), Value::String(text));
    data
}

/// When a stored ConfigMap came to be as it is.
fn rendered_at(stored: &Value) -> String {
    let info = stored.pointer("/data/info").and_then(Value::as_str).unwrap_or_default();
    let info: Value = serde_json::from_str(info).unwrap_or_default();
    info.get(RENDERED_AT).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn target<'a>(app: &'a Application, name: &'a str) -> Target<'a> {
    Target {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        name,
    }
}

async fn write(
    ctx: &AppContext,
    app: &Application,
    data: &Map<String, Value>,
) -> Result<(), ApiError> {
    let own = Identity::default();
    let name = name_of(app);
    let object = |time: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": app.metadata.namespace,
                "labels": {
                    label::APP_NAME: app.metadata.name,
                    label::APP_NAMESPACE: app.metadata.namespace,
                    label::APP_UID: app.metadata.uid,
                    label::APPLICATION_POLICIES: "true",
                },
                "ownerReferences": [revision::owner_reference(app)],
            },
            "data": dated(data, time),
        })
    };
    let now = facts::seconds(Timestamp::now());
    match ctx.io.get(&target(app, &name), &own).await {
        Ok(stored) => {
            if !is_ours(&stored, app) {
                return Err(ApiError::Transport(messages::not_ours(&name)));
            }
            // Compared with its own time in it: otherwise the time alone would make a difference.
            let unchanged = object(&rendered_at(&stored));
            let same = |pointer: &str| stored.pointer(pointer) == unchanged.pointer(pointer);
            // Zero writes when nothing has changed.
            if same("/data") && same("/metadata/labels") {
                return Ok(());
            }
            ctx.io.replace(&object(&now), "", false, &own).await.map(|_| ())
        }
        Err(error) if error.is_not_found() => {
            ctx.io.create(&object(&now), false, &own).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let named = |name: &str| {
            let mut app = Application::default();
            app.metadata.namespace = Some("n".to_owned());
            app.metadata.name = Some(name.to_owned());
            name_of(&app)
        };
        assert_eq!(named("a"), "application-policies-n-a");
        let (one, other) = (named(&"a".repeat(240)), named(&format!("{}b", "a".repeat(239))));
        assert!(one.len() <= MAX_NAME && one != other, "{one} {other}");
        assert!(one.starts_with("application-policies-n-aaa"));
    }
}
