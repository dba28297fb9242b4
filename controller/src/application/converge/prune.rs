//! Deletions that ask: the rules of an Application, the condition `Pruned`, and the end of an approval. Which objects wait is
//! decided by [`vela_apply::gc`].

use jiff::Timestamp;
use serde_json::json;
use vela_api::names::{annotation, condition as types, reason};
use vela_api::{AppStatus, Application, Condition, PruneRules};
use vela_apply::tracker::Record;
use vela_cluster::ApiError;

use crate::application::context::AppContext;
use crate::application::converge::warning;
use crate::application::facts;
use crate::application::write;
use crate::messages;

/// Which deletions ask; `None` where somebody approved of those of this generation. A rule that cannot be read asks always: who
/// wrote it meant to be asked.
pub(in crate::application) fn rules(ctx: &AppContext, app: &Application) -> Option<PruneRules> {
    if is_approved(app) {
        return None;
    }
    let written = app.metadata.annotations.as_ref().and_then(|all| all.get(annotation::PRUNE));
    Some(match written {
        Some(text) => PruneRules::parse(text).unwrap_or_else(|_| PruneRules::confirm_everything()),
        None => PruneRules::confirm_kinds(ctx.settings.prune_confirm_kinds.iter().cloned()),
    })
}

fn is_approved(app: &Application) -> bool {
    let approved = facts::annotation(&app.metadata, annotation::PRUNE_APPROVED);
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

/// Takes back the approval of a generation whose deletions are done: what the same generation would delete later, because a
/// definition changed, asks again. Returns the Application as stored.
///
/// # Errors
/// The API server's answer.
pub(in crate::application) async fn end_approval(
    ctx: &AppContext,
    app: &Application,
) -> Result<Option<Application>, ApiError> {
    if !is_approved(app) {
        return Ok(None);
    }
    let metadata = json!({
        "resourceVersion": app.metadata.resource_version,
        "annotations": {annotation::PRUNE_APPROVED: null},
    });
    write::patch(ctx, app, &json!({ "metadata": metadata })).await.map(Some)
}
