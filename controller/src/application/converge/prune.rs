//! Deletions that need an approval: the rules of an Application, the condition `Pruned`, and the end of an approval. Which
//! objects wait is decided by [`vela_apply::gc`].

use jiff::Timestamp;
use serde_json::json;
use tracing::warn;
use vela_api::names::{annotation, condition as types, label, reason};
use vela_api::{AppStatus, Application, Condition, PruneRules};
use vela_apply::tracker::Record;
use vela_cluster::{ApiError, Identity, Key, Stored as _, Target};

use crate::application::context::AppContext;
use crate::application::converge::warning;
use crate::application::facts;
use crate::application::write;
use crate::messages;

/// Which deletions ask, as the Application, else its Namespace, else the installation says; `None` where somebody approved of those
/// of this generation. A rule that cannot be read asks always: who wrote it meant to be asked.
///
/// # Errors
/// Nobody can say now what the Namespace says.
pub(in crate::application) async fn rules(
    ctx: &AppContext,
    app: &Application,
) -> Result<Option<PruneRules>, ApiError> {
    if is_approved(app) {
        // Who approved of this generation has seen what it deletes.
        return Ok(None);
    }
    let safe = |_| PruneRules::confirm_everything();
    let written = app.metadata.annotations.as_ref().and_then(|all| all.get(annotation::PRUNE));
    if let Some(text) = written {
        return Ok(Some(PruneRules::parse(text).unwrap_or_else(safe)));
    }
    Ok(Some(match of_namespace(ctx, app).await? {
        Some(text) => PruneRules::parse_label(&text).unwrap_or_else(safe),
        None => PruneRules::confirm_kinds(ctx.settings.prune_confirm_kinds.iter().cloned()),
    }))
}

/// The label of the Namespace: of the Namespaces that are watched for it, or read where none are, as in plans. Who may not read
/// it sees none.
async fn of_namespace(ctx: &AppContext, app: &Application) -> Result<Option<String>, ApiError> {
    let name = app.metadata.namespace.as_deref().unwrap_or_default();
    // Plans have no such watch and read the Namespace.
    if ctx.prune_namespaces.is_synced() {
        let namespace = ctx.prune_namespaces.get(&Key::new("", name));
        let labels = namespace.as_ref().and_then(|namespace| namespace.metadata.labels.as_ref());
        return Ok(labels.and_then(|labels| labels.get(label::PRUNE)).cloned());
    }
    let target = Target { api_version: "v1", kind: "Namespace", namespace: "", name };
    match ctx.io.get(&target, &Identity::default()).await {
        Ok(namespace) => Ok(vela_apply::object::label(&namespace, label::PRUNE).map(str::to_owned)),
        Err(error) if error.is_not_found() => Ok(None),
        // Without the right to read Namespaces the rule of the installation counts.
        Err(ApiError::Api { code: 403, .. }) => {
            warn!(namespace = name, "namespace cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_approved(app: &Application) -> bool {
    let approved = facts::annotation(&app.metadata, annotation::PRUNE_APPROVED);
    // An approval names the generation: one for another edit does not count.
    app.metadata.generation.is_some_and(|generation| approved == generation.to_string())
}

/// Says in the status what waits for an approval, and in an event what is new.
pub(in crate::application) fn report(
    ctx: &AppContext,
    app: &Application,
    held: &[Record],
    status: &mut AppStatus,
    now: Timestamp,
) {
    if held.is_empty() {
        status.conditions.retain(|condition| condition.type_ != types::PRUNED);
        return;
    }
    let message = messages::needs_approval(held, app.metadata.generation.unwrap_or_default());
    let waits = Condition::new(types::PRUNED, "False", reason::NEEDS_APPROVAL, message, now);
    warning::set(ctx, &facts::about(app), status, waits);
}

/// Whether an approval is of a generation that has passed: it never counts again.
fn is_stale(app: &Application) -> bool {
    let approved = facts::annotation(&app.metadata, annotation::PRUNE_APPROVED).parse::<i64>();
    approved.is_ok_and(|approved| app.metadata.generation.is_some_and(|now| approved < now))
}

/// Takes back an approval: of a generation whose deletions are done (`pruned`), so that what the same generation would delete later,
/// because a definition changed, asks again; and of one that has passed. The latter once for each generation: if Git has it, it
/// comes back, and nobody shall fight over it. Returns the Application as stored.
///
/// # Errors
/// The API server's answer.
pub(in crate::application) async fn end_approval(
    ctx: &AppContext,
    app: &Application,
    pruned: bool,
) -> Result<Option<Application>, ApiError> {
    if is_stale(app) {
        let memory = ctx.memory(&app.key());
        let before = memory.lock().approval_removed_at.replace(app.metadata.generation);
        if before == Some(app.metadata.generation) {
            return Ok(None);
        }
    } else if !pruned || !is_approved(app) {
        return Ok(None);
    }
    // The version guards the write: an approval that was renewed in between stays.
    let metadata = json!({
        "resourceVersion": app.metadata.resource_version,
        "annotations": {annotation::PRUNE_APPROVED: null},
    });
    write::patch(ctx, app, &json!({ "metadata": metadata })).await.map(Some)
}
