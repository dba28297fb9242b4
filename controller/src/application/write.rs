//! Requests that change an Application itself. The cache takes in each answer, so that the next reconcile does not wait for the
//! watch.

use serde_json::json;
use vela_api::Application;
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Target};

use crate::application::context::AppContext;

use super::status;

/// A merge patch of an Application; the cache takes in the answer.
///
/// # Errors
/// The API server's answer.
pub(super) async fn patch(
    ctx: &AppContext,
    app: &Application,
    body: &serde_json::Value,
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
    body: &serde_json::Value,
) -> Result<Application, ApiError> {
    let target = target(app);
    let own = Identity::default();
    let answer = ctx.io.patch(&target, part, (PatchKind::Merge, body), false, &own).await?;
    // The answer is newer than what the watch has delivered.
    let stored: Application = answer.read()?;
    ctx.keep(stored.clone());
    Ok(stored)
}

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
