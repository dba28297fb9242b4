//! Restarts the workflow by annotation: now, at a time, or periodically.
//!
//! Answers for `workflow.go` (handleWorkflowRestartAnnotation). A schedule never hides a new revision: whether the revision
//! asks for a run is decided without reading it.

use jiff::Timestamp;
use serde_json::json;
use tracing::warn;
use vela_api::condition::seconds;
use vela_api::names::{annotation, event};
use vela_api::workflow::WorkflowStatus;
use vela_api::{AppStatus, Application};
use vela_cluster::ApiError;
use vela_workflow::restart::{Restart, SHORTEST_PAUSE};

use crate::application::context::AppContext;
use crate::events::Severity;
use crate::messages;

use crate::application::facts;
use crate::application::write;

/// Reads the annotation into the status. Returns when the next reconcile is due for it.
///
/// An annotation that asks once is removed, but not before the status says so: whatever comes between, an edit by somebody
/// else or the end of the process, the run is neither lost nor made twice.
///
/// # Errors
/// The API server's answer; a conflict means that the Application changed in the meantime, and nothing is lost.
pub async fn schedule(
    ctx: &AppContext,
    app: &mut Application,
    status: &mut AppStatus,
    now: Timestamp,
) -> Result<Option<Timestamp>, ApiError> {
    let text = facts::annotation(&app.metadata, annotation::RESTART_WORKFLOW).to_owned();
    if text.is_empty() {
        return Ok(due_in_future(status, now));
    }
    // A typing error must not disturb the schedule that is there.
    let Some((at, once)) = read(&text, status, now) else {
        warn!(value = text, "restart annotation ignored: not true, a time or a duration");
        return Ok(due_in_future(status, now));
    };
    if Restart::read(&text).is_ok_and(Restart::is_too_often) {
        let message = messages::restarts_too_often();
        ctx.events.emit(
            &facts::about(app),
            Severity::Warning,
            event::RESTART_INTERVAL,
            &message,
            "",
        );
    }
    if once {
        // Two writes in this order: a death in between leaves a status that asks for the run, and
        // an annotation that the next reconcile removes.
        if !is_noted(&app.status, at, now) {
            let noted = json!({
                "metadata": {"resourceVersion": app.metadata.resource_version},
                "status": {"workflowRestartScheduledAt": seconds(at)},
            });
            *app = write::patch_part(ctx, app, "status", &noted).await?;
        }
        let body = json!({"metadata": {
            "annotations": {annotation::RESTART_WORKFLOW: null},
            "resourceVersion": app.metadata.resource_version,
        }});
        *app = write::patch(ctx, app, &body).await?;
        let noted = &app.status.workflow_restart_scheduled_at;
        status.workflow_restart_scheduled_at.clone_from(noted);
    } else if status.workflow_restart_scheduled_at.is_none() || has_ended(status) {
        // The pause begins at the end of the last run: another one means another time.
        status.workflow_restart_scheduled_at = Some(seconds(at));
    }
    Ok(due_in_future(status, now))
}

/// Whether the status asks for the run already: a reconcile before this one noted it, and came no further.
fn is_noted(status: &AppStatus, at: Timestamp, now: Timestamp) -> bool {
    let Some(noted) = status.workflow_restart_scheduled_at.as_ref().map(|at| at.0) else {
        return false;
    };
    // The annotation `true` has no time of its own, so it is the same as a note that is due.
    let asks_now = at == now && noted <= now;
    noted == at || (asks_now && is_due(&mut status.clone(), now))
}

fn has_ended(status: &AppStatus) -> bool {
    let ended = |run: &&WorkflowStatus| run.finished && run.end_time.is_some();
    status.workflow.as_ref().filter(ended).is_some()
}

/// A run that ended plans the next one, where the annotation asks for runs again and again.
pub fn plan_next(app: &Application, status: &mut AppStatus, now: Timestamp) {
    let text = facts::annotation(&app.metadata, annotation::RESTART_WORKFLOW);
    if has_ended(status)
        && let Some((at, false)) = read(text, status, now)
    {
        status.workflow_restart_scheduled_at = Some(seconds(at));
    }
}

pub(in crate::application) fn due_in_future(
    status: &AppStatus,
    now: Timestamp,
) -> Option<Timestamp> {
    status.workflow_restart_scheduled_at.as_ref().map(|at| at.0).filter(|at| *at > now)
}

/// The time a value asks for, and whether it asks once.
fn read(text: &str, status: &AppStatus, now: Timestamp) -> Option<(Timestamp, bool)> {
    let pause = match Restart::read(text).ok()? {
        Restart::Now => return Some((now, true)),
        Restart::At(at) => return Some((at, true)),
        // A shorter pause would keep the workflow running without end.
        Restart::Every(pause) => pause.max(SHORTEST_PAUSE),
    };
    // The pause counts from the end of the last run.
    let base = status
        .workflow
        .as_ref()
        .filter(|workflow| workflow.finished)
        .and_then(|workflow| workflow.end_time.as_ref())
        .map_or(now, |end| end.0);
    Some((base.checked_add(pause).ok()?, false))
}

/// Whether a finished workflow is to run again now. A time that passed before the run ended asked for that run.
#[must_use]
pub fn is_due(status: &mut AppStatus, now: Timestamp) -> bool {
    let Some(at) = status.workflow_restart_scheduled_at.as_ref().map(|at| at.0) else {
        return false;
    };
    let Some(workflow) = status.workflow.as_ref().filter(|workflow| workflow.finished) else {
        return false;
    };
    if at > now {
        return false;
    }
    let ended = workflow.end_time.as_ref().map(|end| end.0);
    // That time has passed in the run that is over.
    if ended.is_some_and(|end| at < end) {
        status.workflow_restart_scheduled_at = None;
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn finished(end: i64, scheduled: Option<i64>) -> AppStatus {
        AppStatus {
            workflow: Some(WorkflowStatus {
                finished: true,
                end_time: Some(seconds(at(end))),
                ..WorkflowStatus::default()
            }),
            workflow_restart_scheduled_at: scheduled.map(|s| seconds(at(s))),
            ..AppStatus::default()
        }
    }

    #[test]
    fn values() {
        let status = finished(100, None);
        assert_eq!(read("true", &status, at(500)), Some((at(500), true)));
        assert_eq!(read("1970-01-01T00:10:00Z", &status, at(1)), Some((at(600), true)));
        assert_eq!(read("1m", &status, at(500)), Some((at(160), false)));
        assert_eq!(read("1m", &AppStatus::default(), at(500)), Some((at(560), false)));
        assert_eq!(read("soon", &status, at(1)), None);
        // Whoever asks for runs without end has them at a distance.
        for often in ["0s", "-1h", "3s"] {
            assert_eq!(read(often, &status, at(500)), Some((at(110), false)), "{often}");
        }
    }

    #[test]
    fn a_run_that_ended_plans_the_next() {
        let mut app = Application::default();
        let planned = |app: &Application, mut status: AppStatus| {
            plan_next(app, &mut status, at(500));
            status.workflow_restart_scheduled_at.map(|at| at.0)
        };
        assert_eq!(planned(&app, finished(100, None)), None);
        let value = (annotation::RESTART_WORKFLOW.to_owned(), "1m".to_owned());
        app.metadata.annotations = Some(std::collections::BTreeMap::from([value]));
        assert_eq!(planned(&app, finished(100, None)), Some(at(160)));
        // What was planned with another pause, or while the run was in flight.
        assert_eq!(planned(&app, finished(100, Some(700))), Some(at(160)));
        assert_eq!(planned(&app, AppStatus::default()), None);
    }

    #[test]
    fn what_is_noted_is_not_noted_again() {
        // "true" means now: a time noted for the present run, which is still to come, is that of the same annotation.
        assert!(is_noted(&finished(100, Some(150)), at(200), at(200)));
        assert!(!is_noted(&finished(100, Some(50)), at(200), at(200)));
        assert!(!is_noted(&finished(100, Some(300)), at(200), at(200)));
        assert!(!is_noted(&finished(100, None), at(200), at(200)));
        // A time is noted once.
        assert!(is_noted(&finished(100, Some(300)), at(300), at(200)));
        assert!(!is_noted(&finished(100, Some(150)), at(300), at(200)));
    }

    #[test]
    fn due() {
        assert!(is_due(&mut finished(100, Some(100)), at(200)));
        assert!(is_due(&mut finished(100, Some(150)), at(200)));
        assert!(!is_due(&mut finished(100, Some(300)), at(200)));
        let mut before = finished(100, Some(50));
        assert!(!is_due(&mut before, at(200)));
        assert!(before.workflow_restart_scheduled_at.is_none());
        assert!(!is_due(&mut finished(100, None), at(200)));
    }
}
