//! Requests that change an Application itself. The cache takes in each answer, so that the next reconcile does not wait for the
//! watch.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vela_api::{Application, names};
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Stored as _, Target};

use crate::application::context::AppContext;
use crate::queue::Class;

use super::status;

/// A merge patch of an Application; the cache takes in the answer.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn patch(
    ctx: &AppContext,
    app: &Application,
    body: &Value,
) -> Result<Application, ApiError> {
    patch_part(ctx, app, "", body).await
}

/// A merge patch of an Application or of a subresource of it; the cache takes in the answer.
///
/// # Errors
/// The API server's answer.
pub(super) async fn patch_part(
    ctx: &AppContext,
    app: &Application,
    part: &str,
    body: &Value,
) -> Result<Application, ApiError> {
    let target = target(app);
    let own = Identity::default();
    let answer = ctx.io.patch(&target, part, (PatchKind::Merge, body), false, &own).await?;
    // The answer is newer than what the watch has delivered.
    let stored: Application = answer.read()?;
    ctx.keep(&stored);
    if has_edit(app, &stored, body) {
        ctx.queue.add(stored.key(), Class::Edit);
    }
    Ok(stored)
}

/// Whether the answer to a patch has more than the patch: somebody edited the Application after it was read. The cache has the edit with
/// the answer, so the watch brings nothing new. A patch that names the version it was made for would have failed.
fn has_edit(read: &Application, stored: &Application, body: &Value) -> bool {
    if body.pointer("/metadata/resourceVersion").is_some_and(Value::is_string) {
        return false;
    }
    let (before, after) = (&read.metadata, &stored.metadata);
    let differ = |part: &str, one: Option<&Texts>, other: Option<&Texts>| {
        let written = body.get("metadata").and_then(|it| it.get(part)).and_then(Value::as_object);
        // What the watch leaves out of the cache says nothing.
        let is_others = |(key, _): &(&String, &String)| {
            written.is_none_or(|written| !written.contains_key(*key))
                && *key != names::annotation::KUBECTL_LAST_APPLIED
        };
        !one.into_iter()
            .flatten()
            .filter(is_others)
            .eq(other.into_iter().flatten().filter(is_others))
    };
    before.generation != after.generation
        || before.deletion_timestamp != after.deletion_timestamp
        || differ("labels", before.labels.as_ref(), after.labels.as_ref())
        || differ("annotations", before.annotations.as_ref(), after.annotations.as_ref())
}

type Texts = BTreeMap<String, String>;

/// An Application as a target of requests.
#[must_use]
pub(super) fn target(app: &Application) -> Target<'_> {
    Target {
        api_version: vela_api::V1BETA1,
        kind: Application::KIND,
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        name: app.metadata.name.as_deref().unwrap_or_default(),
    }
}

/// Writes a status if it differs from the stored one. Returns the Application as stored.
///
/// # Errors
/// The API server's answer; a conflict means that the Application changed in the meantime.
pub(super) async fn write_status(
    ctx: &AppContext,
    app: &Application,
    wanted: &vela_api::AppStatus,
) -> Result<Option<Application>, ApiError> {
    let mut wanted = wanted.clone();
    // Only now is the generation observed: the status is about the spec that was read.
    wanted.observed_generation = app.metadata.generation.unwrap_or_default();
    let Some(diff) = status::patch(&app.status, &wanted) else { return Ok(None) };
    // The reference writes the name of a new revision by itself and times that; here it goes with the rest.
    let is_renamed = app.status.latest_revision != wanted.latest_revision;
    let _time = is_renamed.then(|| ctx.metrics.stage("update-apprev-status"));
    // The version makes the write fail if somebody edited the Application since.
    let body = json!({
        "metadata": {"resourceVersion": app.metadata.resource_version},
        "status": diff,
    });
    let stored = patch_part(ctx, app, "status", &body).await?;
    if ctx.settings.gates.enable_application_status_metrics {
        log_status(&stored);
    }
    Ok(Some(stored))
}

/// The line that log pipelines of the gate EnableApplicationStatusMetrics wait for.
fn log_status(app: &Application) {
    let json = |value: serde_json::Result<String>| value.unwrap_or_default();
    tracing::info!(
        app = app.metadata.name,
        namespace = app.metadata.namespace,
        phase = app.status.phase,
        services = json(serde_json::to_string(&app.status.services)),
        labels = json(serde_json::to_string(&app.metadata.labels)),
        "application update"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_is_told_from_what_was_patched() {
        let app = |metadata: Value| -> Application {
            serde_json::from_value(json!({"metadata": metadata, "spec": {"components": []}}))
                .unwrap()
        };
        let read = app(json!({"generation": 1, "resourceVersion": "1", "labels": {"a": "1"}}));
        let body = json!({"metadata": {"labels": {"b": "1"}, "annotations": {"c": "1"}}});
        let ours = json!({"labels": {"a": "1", "b": "1"}, "annotations": {"c": "1"}});
        let and = |more: &Value| {
            let mut metadata = ours.clone();
            metadata["generation"] = json!(1);
            metadata["resourceVersion"] = json!("3");
            vela_apply::json_merge::apply(&mut metadata, more);
            app(metadata)
        };
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let applied =
            json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}});
        for (more, edited) in [
            (json!({}), false),
            (applied, false),
            (json!({"generation": 2}), true),
            (deleted, true),
            (json!({"labels": {"controller.core.oam.dev/pause": "true"}}), true),
            (json!({"labels": {"a": null}}), true),
            (json!({"annotations": {"app.oam.dev/publishVersion": "2"}}), true),
        ] {
            assert_eq!(has_edit(&read, &and(&more), &body), edited, "{more}");
        }
        let guarded = json!({"metadata": {"resourceVersion": "1"}});
        assert!(!has_edit(&read, &and(&json!({"generation": 2})), &guarded));
    }
}
