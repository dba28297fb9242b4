//! The end of a rollout, for metrics and traces: once for each run of the workflow, with the time since its spec arrived.

use std::time::Duration;

use jiff::Timestamp;
use vela_api::{AppStatus, Application};

use crate::application::context::AppContext;
use crate::application::memory::AppCache;
use crate::application::session::Session;
use crate::metrics::Rollout;
use crate::traces::{EndedRollout, TracedObject, spans_of};

/// A spec that no status is about yet has arrived.
pub(in crate::application) fn note_arrival(
    memory: &mut AppCache,
    app: &Application,
    now: Timestamp,
) {
    let generation = app.metadata.generation.unwrap_or_default();
    let is_known = memory.arrived.is_some_and(|(at, _)| at == generation);
    // What no status has observed has arrived; a restart of the controller is no arrival.
    if app.status.observed_generation != generation && !is_known {
        memory.arrived = Some((generation, now));
    }
}

/// Notes what a trace of the rollout says beyond its status.
pub(in crate::application) fn note_progress(
    memory: &mut AppCache,
    status: &AppStatus,
    now: Timestamp,
) {
    memory.progress.get_or_insert_default().note(status, now);
}

/// A rollout that ended.
#[derive(Debug)]
pub(in crate::application) struct Ended {
    result: Rollout,
    began: Timestamp,
    at: Timestamp,
}

/// Counts the rollout that ended between two statuses, if one did.
pub(in crate::application) fn count_end(
    ctx: &AppContext,
    memory: &mut AppCache,
    before: &AppStatus,
    after: &AppStatus,
    now: Timestamp,
) -> Option<Ended> {
    let result = Rollout::ended(before, after)?;
    let run = after.workflow.as_ref();
    let run = run.map(|run| (run.app_revision.clone(), run.start_time.clone()));
    if run.is_some() && memory.counted_run == run {
        // What was deleted or put back since then is no rollout.
        return None;
    }
    let began = run.as_ref().and_then(|(_, start)| Some(start.as_ref()?.0));
    // A run that began again has no spec that arrived, and neither has one that another process began.
    let began = memory.arrived.take().map(|(_, at)| at).or(began).unwrap_or(now);
    memory.counted_run = run;
    let took = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    ctx.metrics.rollouts.ended(result, took);
    Some(Ended { result, began, at: now })
}

/// Sends the trace of a rollout that ended, with the objects that are recorded of it.
pub(in crate::application) fn trace(
    session: &Session<'_>,
    app: &Application,
    status: &AppStatus,
    ended: &Ended,
) {
    let current = session.trackers.current(session.run());
    let objects: Vec<TracedObject> = session
        .trackers
        .desired(&current)
        .into_iter()
        .map(|record| TracedObject {
            key: [
                &record.cluster,
                &record.api_version,
                &record.kind,
                &record.namespace,
                &record.name,
            ]
            .map(Clone::clone),
            component: record.component.clone(),
            trait_type: record.trait_.clone(),
        })
        .collect();
    let progress = session.memory().lock().progress.take().unwrap_or_default();
    let Ended { result, began, at } = *ended;
    let rollout = EndedRollout { app, status, result, began, ended: at, progress: &progress };
    session.ctx.traces.send(spans_of(rollout, &objects));
}
