//! Starts a run of the workflow, or continues the current one.

use jiff::Timestamp;
use vela_api::{AppStatus, Application};
use vela_apply::tracker::{self, Role};
use vela_cluster::ApiError;

use crate::application::context::AppContext;

use crate::application::session::Session;
use crate::application::status;
use crate::application::workflow::restart as schedule;

/// How a reconcile stands to the run of the workflow.
pub(in crate::application) enum RunStart {
    /// The run of the status, which continues or has just started.
    Current,
    /// A new run; the status names it ([`restart`]) once the phases before the workflow have succeeded.
    New,
    /// That must be stored before anything is done: a new run under the name of the one that is stored cannot be distinguished from it,
    /// and whoever continues after a crash would take what little the new one had dispatched for all of it.
    StoreFirst,
}

/// Begins a new run of the workflow if the revision (or the publishVersion) is another than that of the present run, or if
/// the tracker of the present run is lost. Nothing of a reconcile may be dispatched before: what is recorded belongs to the run.
pub(in crate::application) async fn run(
    ctx: &AppContext,
    session: &mut Session<'_>,
    status: &mut AppStatus,
    token: &str,
    subject: &Application,
    now: Timestamp,
) -> Result<RunStart, ApiError> {
    let stored = status.workflow.as_ref().map(|w| w.app_revision.clone()).unwrap_or_default();
    let current_token = match stored.rsplit_once(':') {
        // Older releases stored `<revision>:<hash>`; a publishVersion is stored as it is.
        Some((revision, _)) if session.publish_version.is_empty() => revision,
        _ => stored.as_str(),
    };
    let scheduled = schedule::is_due(status, now);
    let lost = is_tracker_lost(session, status, subject);
    if current_token == token && !scheduled && !lost {
        keep_tracker(ctx, session).await?;
        return Ok(RunStart::Current);
    }
    let (io, store) = (&*ctx.io, &*ctx.trackers);
    let current = session.trackers.current(session.run());
    let revision = session.revision.clone();
    // What the tracker of that name holds belongs to the run before.
    let moved = session.trackers.set_aside(io, store, &current, &revision).await?;
    rebuild(ctx, session).await?;
    if lost && !scheduled && current_token == token {
        restart(ctx, status, token);
        return Ok(RunStart::StoreFirst);
    }
    if moved {
        // A status of the run before would name one whose tracker holds nothing any more.
        restart(ctx, status, token);
        return Ok(RunStart::Current);
    }
    Ok(RunStart::New)
}

/// Writes a new run into the status.
pub(in crate::application) fn restart(ctx: &AppContext, status: &mut AppStatus, token: &str) {
    status::restart(status, token);
    status.workflow_restart_scheduled_at = None;
    ctx.metrics.runs.inc();
}

/// The run dispatched something, but no tracker remembers it: somebody removed it for good, a later run collected it that
/// left nothing in the status, or a later run began in it and came no further.
fn is_tracker_lost(session: &Session<'_>, status: &AppStatus, subject: &Application) -> bool {
    let started = status.workflow.as_ref().is_some_and(|w| w.finished || !w.steps.is_empty());
    // Nothing was dispatched, so nothing can be lost.
    if !started || subject.spec.components.is_empty() || status.applied_resources.is_empty() {
        return false;
    }
    let trackers = session.trackers.heads();
    let Some(current) = tracker::current(&trackers, session.run()) else { return true };
    // A label alone says little: other releases left it as it was. What was set aside bears ours.
    current.revision != session.revision
        && trackers
            .iter()
            .any(|known| known.role == Role::Versioned && known.revision == session.revision)
}

/// The tracker of an unchanged run: follows the generation, and is created again when somebody deletes it.
async fn keep_tracker(ctx: &AppContext, session: &mut Session<'_>) -> Result<(), ApiError> {
    rebuild(ctx, session).await?;
    let (io, store) = (&*ctx.io, &*ctx.trackers);
    let current = session.trackers.current(session.run());
    let heads = session.trackers.heads();
    // With a publishVersion the run stays the same, whatever the generation.
    let stale = heads.iter().any(|tracker| {
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

/// Trackers that the run needs and that are being deleted: by somebody, or by a later run whose collection did not come to
/// its end.
async fn rebuild(ctx: &AppContext, session: &mut Session<'_>) -> Result<(), ApiError> {
    let (io, store) = (&*ctx.io, &*ctx.trackers);
    let current = session.trackers.current(session.run());
    // The root and the tracker of the run protect what they record, and may not be on their way
    // out.
    let needed = session.trackers.heads().into_iter().filter(|tracker| {
        tracker.deleting && (tracker.name == current || tracker.role == Role::Root)
    });
    for tracker in needed {
        session.trackers.rebuild(io, store, &tracker.name).await?;
    }
    Ok(())
}
