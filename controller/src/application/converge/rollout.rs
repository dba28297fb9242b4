//! The end of a rollout, for the metrics: once for each run of the workflow, with the time since its spec arrived.

use std::time::Duration;

use jiff::Timestamp;
use vela_api::{AppStatus, Application};

use crate::application::context::AppContext;
use crate::application::memory::AppCache;
use crate::metrics::Rollout;

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

/// Counts the rollout that ended between two statuses, if one did.
pub(in crate::application) fn count_end(
    ctx: &AppContext,
    memory: &mut AppCache,
    before: &AppStatus,
    after: &AppStatus,
    now: Timestamp,
) {
    let Some(result) = Rollout::ended(before, after) else { return };
    let run = after.workflow.as_ref();
    let run = run.map(|run| (run.app_revision.clone(), run.start_time.clone()));
    if run.is_some() && memory.counted_run == run {
        // What was deleted or put back since then is no rollout.
        return;
    }
    let began = run.as_ref().and_then(|(_, start)| Some(start.as_ref()?.0));
    // A run that began again has no spec that arrived, and neither has one that another process began.
    let since = memory.arrived.take().map(|(_, at)| at).or(began).unwrap_or(now);
    memory.counted_run = run;
    let took = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    ctx.metrics.rollouts.ended(result, took);
}
