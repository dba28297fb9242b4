//! Beginning a run of the workflow, or going on with the present one.

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::names::annotation;
use vela_api::{AppStatus, Application, ObjectReference};
use vela_cluster::{Identity, IoError, Target};

use crate::context::Context;
use crate::queue::Key;

use super::dispatch::Session;
use super::{restart, revision, status};

/// Begins a new run of the workflow if the revision (or the publishVersion) is another than that of the present run, or if
/// the tracker of the present run is lost.
pub(super) async fn run(
    ctx: &Context,
    session: &mut Session<'_>,
    app: &Application,
    status: &mut AppStatus,
    token: &str,
    subject: &Application,
    now: Timestamp,
) -> Result<(), String> {
    let current_token = status.workflow.as_ref().map(|w| w.app_revision.clone());
    // Older releases stored `<revision>:<hash>`.
    let current_token = current_token.unwrap_or_default();
    let current_token = current_token.split(':').next().unwrap_or_default();
    let scheduled = restart::is_due(status, now);
    let lost = is_tracker_lost(session, status, subject);
    if current_token != token || scheduled || lost {
        status::restart(status, token);
        status.workflow_restart_scheduled_at = None;
        ctx.memory(&Key::new(&*session.owner.namespace, &*session.owner.name)).lock().workflow =
            vela_workflow::Memory::default();
    } else {
        keep_tracker(ctx, session).await.map_err(|error| error.to_string())?;
    }
    if status.workflow.as_ref().is_some_and(|w| w.context_backend.is_none()) {
        let backend = context_backend(ctx, app).await.map_err(|error| error.to_string())?;
        if let Some(workflow) = &mut status.workflow {
            workflow.context_backend = Some(backend);
        }
    }
    Ok(())
}

/// The finished run dispatched something, but no tracker remembers it: somebody removed it for good.
fn is_tracker_lost(session: &Session<'_>, status: &AppStatus, subject: &Application) -> bool {
    let finished = status.workflow.as_ref().is_some_and(|w| w.finished);
    finished
        && !subject.spec.components.is_empty()
        && !status.applied_resources.is_empty()
        && session.trackers.current(session.run()).is_empty()
}

/// The tracker of an unchanged run: follows the generation, and is made again when somebody deletes it.
async fn keep_tracker(ctx: &Context, session: &mut Session<'_>) -> Result<(), IoError> {
    let (io, store) = (&*ctx.io, &*ctx.trackers);
    let current = session.trackers.current(session.run());
    let views = session.trackers.views();
    let rebuilt = views.iter().filter(|tracker| {
        tracker.deleting && (tracker.name == current || tracker.role == vela_apply::Role::Root)
    });
    for tracker in rebuilt {
        session.trackers.rebuild(io, store, &tracker.name).await?;
    }
    let stale = views.iter().any(|tracker| {
        tracker.name == current
            && session.publish_version.is_empty()
            && tracker.generation != session.generation
    });
    if stale {
        let generation = session.generation;
        session.trackers.relabel(io, store, &current, Some(generation)).await?;
    }
    Ok(())
}

/// The ConfigMap that holds the variables of the workflow, made with the first run.
async fn context_backend(ctx: &Context, app: &Application) -> Result<ObjectReference, IoError> {
    let own = Identity::default();
    let name = format!("workflow-{}-context", app.metadata.name.as_deref().unwrap_or_default());
    let namespace = app.metadata.namespace.clone().unwrap_or_default();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": namespace,
            "annotations": {annotation::WORKFLOW_START_TIME: Timestamp::now().to_string()},
            "ownerReferences": [revision::owner_reference(app)],
        },
        "data": {"vars": "\n"},
    });
    let stored = match ctx.io.create(&object, false, &own).await {
        Err(error) if error.is_already_exists() => ctx.io.get(&Target::of(&object), &own).await?,
        other => other?,
    };
    Ok(ObjectReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name,
        namespace,
        uid: vela_apply::object::str_at(&stored, &["metadata", "uid"]).to_owned(),
        ..ObjectReference::default()
    })
}

/// Counters and variables of the run so far.
pub(super) fn remembered(
    ctx: &Context,
    key: &Key,
    stored: &vela_api::workflow::WorkflowStatus,
    token: &str,
) -> (vela_workflow::Memory, serde_json::Map<String, Value>) {
    let memory = ctx.memory(key);
    let memory = memory.lock();
    let variables = if memory.variables.0 == token && !stored.steps.is_empty() {
        memory.variables.1.clone()
    } else {
        serde_json::Map::new()
    };
    (memory.workflow.clone(), variables)
}
