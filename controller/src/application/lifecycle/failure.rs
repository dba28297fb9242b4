//! Failed reconciles: the condition, the phase and the event that report them.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, error, warn};
use vela_api::names::{condition as types, event, phase, reason};
use vela_api::{AppStatus, Application, Condition, condition};
use vela_cluster::ApiError;

use crate::application::context::AppContext;
use crate::events::Severity;
use crate::guard::Ended;
use crate::in_flight::{Subject, retry_after};
use crate::messages;
use crate::queue::{Key, Next};

use crate::application::facts;
use crate::application::lifecycle::conflict;
use crate::application::readiness::Readiness;
use crate::application::status;
use crate::application::write;

/// A failed phase: its condition, the phase in which the Application stays, and its event.
#[derive(Debug)]
pub(in crate::application) struct Failed {
    pub(in crate::application) condition: &'static str,
    pub(in crate::application) phase: &'static str,
    pub(in crate::application) event: Option<&'static str>,
    pub(in crate::application) message: String,
    /// Another attempt cannot go better, without an edit.
    pub(in crate::application) is_final: bool,
}

impl Failed {
    pub(in crate::application) fn synced(message: impl Into<String>) -> Self {
        Self {
            condition: types::SYNCED,
            phase: phase::STARTING,
            event: None,
            message: message.into(),
            is_final: false,
        }
    }

    /// What became of it cannot be stored: what is stored stays.
    pub(in crate::application) fn status(message: impl Into<String>) -> Self {
        Self { event: Some(event::FAILED_STATUS), ..Self::synced(message) }
    }

    pub(in crate::application) fn parsed(message: impl Into<String>) -> Self {
        Self {
            condition: types::PARSED,
            phase: phase::RENDERING,
            event: Some(event::FAILED_PARSE),
            message: message.into(),
            is_final: false,
        }
    }

    pub(in crate::application) fn revision(message: impl Into<String>) -> Self {
        Self {
            condition: types::REVISION,
            phase: phase::RENDERING,
            event: Some(event::FAILED_REVISION),
            message: message.into(),
            is_final: false,
        }
    }

    pub(in crate::application) fn policy(message: impl Into<String>) -> Self {
        Self {
            condition: types::POLICY,
            phase: phase::GENERATING_POLICY,
            event: Some(event::FAILED_APPLY),
            message: message.into(),
            is_final: false,
        }
    }

    /// The same, of what only an edit can change.
    pub(in crate::application) fn for_good(self) -> Self {
        Self { is_final: true, ..self }
    }

    pub(in crate::application) fn executing(message: impl Into<String>) -> Self {
        Self { phase: phase::RUNNING_WORKFLOW, ..Self::workflow(message) }
    }

    pub(in crate::application) fn workflow(message: impl Into<String>) -> Self {
        Self {
            condition: types::WORKFLOW,
            phase: phase::WORKFLOW_FAILED,
            event: Some(event::FAILED_WORKFLOW),
            message: message.into(),
            is_final: false,
        }
    }
}

/// Why a reconcile ends before its last phase.
pub(in crate::application) enum Stop {
    /// It failed before its revision was named.
    Failed(Failed),
    /// It failed after that: what the status names must be there. Without a failure of its own: the revision could not be
    /// stored.
    Named(Option<Failed>),
}

/// A negative end: condition, event, status, and another reconcile after a delay.
pub(in crate::application) async fn fail(
    ctx: &AppContext,
    app: &Application,
    mut wanted: AppStatus,
    failed: Failed,
) -> Result<Next, ApiError> {
    debug!(condition = failed.condition, message = failed.message, "reconcile failed");
    let now = Timestamp::now();
    status::set_failed(&mut wanted, failed.condition, &failed.message, now);
    // `Ready` says it, too: tools that know nothing of phases wait for it.
    Readiness::error(&failed.message, failed.is_final).put(&mut wanted, now);
    failed.phase.clone_into(&mut wanted.phase);
    if let Some(reason) = failed.event {
        // Once for each generation: a failing Application is reconciled again and again.
        let once = app.metadata.generation.unwrap_or_default().to_string();
        ctx.events.emit(&facts::about(app), Severity::Warning, reason, &failed.message, &once);
    }
    match write::write_status(ctx, app, &wanted).await {
        Ok(_) => Ok(Next::Failed),
        Err(error) if error.is_conflict() => conflict::requeue(ctx, app).await,
        Err(error) => Err(error),
    }
}

/// Processes died over the Application: it is left as it is, and says so. How long.
pub(crate) async fn set_aside(ctx: &AppContext, key: &Key) -> Option<Duration> {
    // A replica of another shard must not write about it.
    let known = ctx.apps.get(key).filter(|app| ctx.settings.handles(&app.outline))?;
    let generation = known.generation.unwrap_or_default();
    let (left, deaths) = ctx.in_flight.set_aside(Subject::application(key), generation)?;
    let Ok(Some(app)) = ctx.application(key).await else { return Some(left) };
    let message = messages::set_aside("application", deaths, retry_after(deaths));
    let mut wanted = app.status.clone();
    let now = Timestamp::now();
    let synced = Condition::new(types::SYNCED, "False", reason::SET_ASIDE, &*message, now);
    condition::set(&mut wanted.conditions, [synced]);
    Readiness::set_aside(&message).put(&mut wanted, now);
    // Written once, not at every attempt to reconcile it.
    if wanted.conditions != app.status.conditions {
        error!(key = %key, deaths, "the application is set aside");
        ctx.events.emit(&facts::about(&app), Severity::Warning, event::SET_ASIDE, &message, "");
        if let Err(error) = write::write_status(ctx, &app, &wanted).await {
            warn!(%error, "the condition could not be written");
        }
    }
    Some(left)
}

/// No replica of the Application's shard is there: it is left as it is, and says so.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn report_no_shard(
    ctx: &AppContext,
    key: &Key,
    message: &str,
) -> Result<(), ApiError> {
    let Some(app) = ctx.application(key).await? else { return Ok(()) };
    let mut wanted = app.status.clone();
    let synced =
        Condition::new(types::SYNCED, "False", reason::NO_SHARD, message, Timestamp::now());
    condition::set(&mut wanted.conditions, [synced]);
    if wanted.conditions != app.status.conditions {
        // It says nothing about the spec, which nobody has read.
        let diff = serde_json::json!({
            "metadata": {"resourceVersion": app.metadata.resource_version},
            "status": {"conditions": wanted.conditions},
        });
        write::patch_part(ctx, &app, "status", &diff).await?;
    }
    Ok(())
}

/// A reconcile of the Application panicked or took too long: its owner is informed, the others are not affected.
pub(crate) async fn report_panic(ctx: &AppContext, key: &Key, ended: &Ended) {
    let message = match ended {
        Ended::Panicked(text) => messages::reconcile_panicked(text),
        Ended::TimedOut => messages::reconcile_timed_out(ctx.settings.reconcile_timeout),
        Ended::Normally | Ended::Failed(_) => return,
    };
    // It may be gone by now, which may have been the reason.
    let Ok(Some(app)) = ctx.application(key).await else { return };
    ctx.events.emit(&facts::about(&app), Severity::Warning, "ReconcileError", &message, "");
    let mut wanted = app.status.clone();
    let now = Timestamp::now();
    status::set_failed(&mut wanted, types::SYNCED, &message, now);
    Readiness::error(&message, false).put(&mut wanted, now);
    // The condition is a courtesy: if it cannot be written, the next reconcile fails in its own
    // way.
    if let Err(error) = write::write_status(ctx, &app, &wanted).await {
        warn!(%error, "the condition could not be written");
    }
}
