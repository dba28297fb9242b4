//! What follows a pass over the workflow: the record of a finished run, health, state-keep, collection, the phase.

pub(in crate::application) mod drift;
pub mod gc;
pub mod health;
pub(in crate::application) mod more_clusters;
mod not_executed;
pub(in crate::application) mod prune;
pub(in crate::application) mod removed_clusters;
pub mod repair_backoff;
pub mod revisions;
pub(in crate::application) mod rollout;
pub mod statekeep;
mod stripped;
mod warning;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tracing::warn;
use vela_api::names::{condition as types, event, phase, reason};
use vela_api::{AppStatus, Application, ApplicationRevision};
use vela_apply::gc::Scope;
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Class, Identity, Target};
use vela_workflow::WorkflowPhase;

use crate::application::context::AppContext;
use crate::events::Severity;
use crate::messages;

use crate::application::facts;
use crate::application::readiness::{self, Readiness};
use crate::application::revision::store;
use crate::application::session::Session;
use crate::application::{status, workflow};

/// How long after the last event a collection is checked again; watches are faster.
const REQUEUE_COLLECTION: Duration = Duration::from_secs(3);
/// How long the end of a run waits at the least when the API server puts its record off.
const POSTPONEMENT: Duration = Duration::from_secs(1);

/// How a reconcile of an Application ended.
pub(in crate::application) struct End {
    pub(in crate::application) status: AppStatus,
    /// When to reconcile again; `None`: at the resync.
    pub(in crate::application) again: Option<Duration>,
    /// Everything that was to be deleted is gone: an approval of it has had its effect.
    pub(in crate::application) pruned: bool,
    /// Nothing is left to do or to wait for.
    pub(in crate::application) settled: bool,
}

/// The run has ended: the revision's own record of it, conditions and events. A record that is postponed is written before the run
/// counts as ended: whether a revision was ever deployed decides what a later edit takes away. Returns in how long then.
pub(in crate::application) async fn finish(
    ctx: &AppContext,
    session: &Session<'_>,
    app: &Application,
    status: &mut AppStatus,
    (phase, context): (WorkflowPhase, &BTreeMap<String, String>),
    revision: &str,
) -> Option<Duration> {
    let _time = ctx.metrics.stage("do-workflow-finish");
    let body = json!({"status": {
        "succeeded": phase == WorkflowPhase::Succeeded,
        "workflow": status.workflow,
        "workflowContext": context,
    }});
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: ApplicationRevision::KIND,
        namespace: &session.owner.namespace,
        name: revision,
    };
    // The record is the controller's own: tenants need no rights on revisions' statuses.
    let own = Identity::default();
    match ctx.io.patch(&target, "status", (PatchKind::Merge, &body), false, &own).await {
        Ok(answer) => store::cache_written(ctx, &answer),
        Err(error) => {
            // Postponed: whether a revision was deployed is too important to be lost to an
            // overload.
            if let Class::Retry(after) = error.class() {
                return Some(after.unwrap_or_default().max(POSTPONEMENT));
            }
            // The Application's own status says the same.
            warn!(%error, revision, "the revision's status could not be written");
        }
    }
    let now = Timestamp::now();
    // The time counts from the start of the run, waiting included.
    let started = status.workflow.as_ref().and_then(|workflow| workflow.start_time.as_ref());
    if let Some(started) = started {
        let time = now.duration_since(started.0).as_secs_f64();
        ctx.metrics.finished.with_label_values(&[phase.as_str()]).observe(time);
    }
    if phase == WorkflowPhase::Succeeded {
        status::set_true(status, types::WORKFLOW, now);
        let about = facts::about(app);
        let message = messages::WORKFLOW_FINISHED;
        ctx.events.emit(&about, Severity::Normal, event::APPLIED, message, revision);
    }
    None
}

/// Health, state-keep, collection and the phase, as far as the workflow's state allows.
pub(in crate::application) async fn after_workflow(
    session: &mut Session<'_>,
    app: &Application,
    run: &workflow::run::Run<'_>,
    workflow: WorkflowPhase,
    was_done: bool,
    end: &mut End,
    now: Timestamp,
) {
    status::phase_of(workflow).clone_into(&mut end.status.phase);
    let found = Box::pin(converge(session, app, run, workflow, was_done, end, now)).await;
    // A run that has ended badly says so, whatever else goes on.
    let ended = workflow.is_final().then(|| of_workflow(workflow, end)).flatten();
    let readiness = ended.or(found).or_else(|| of_workflow(workflow, end));
    if let Some(readiness) = readiness {
        readiness.put(&mut end.status, now);
    }
}

fn of_workflow(workflow: WorkflowPhase, end: &End) -> Option<Readiness> {
    Readiness::of_workflow(workflow, end.status.workflow.as_ref())
}

/// Returns what was found out of its readiness, the workflow's own state aside.
async fn converge(
    session: &mut Session<'_>,
    app: &Application,
    run: &workflow::run::Run<'_>,
    workflow: WorkflowPhase,
    was_done: bool,
    end: &mut End,
    now: Timestamp,
) -> Option<Readiness> {
    let ctx = session.ctx;
    let succeeded = workflow == WorkflowPhase::Succeeded;
    // Before collection: what a skipped step would have made must not count as superseded.
    if succeeded && let Err(error) = carry_over(session, run, &end.status).await {
        end.again = Some(REQUEUE_COLLECTION);
        return Some(Readiness::collecting(&messages::gc_failed(&error.to_string())));
    }
    let mut settled = workflow.is_final() || workflow == WorkflowPhase::Suspending;
    let mut found = None;
    // While steps run, `hold` keeps what they wait for.
    if (succeeded || workflow == WorkflowPhase::Suspending)
        && let Err(error) = keep_state(session, app, end, now).await
    {
        settled = false;
        found = Some(Readiness::error(&error.to_string(), false));
    }
    // After what drifted was put back: nothing else may happen that asks for another reconcile.
    let mut why = String::new();
    if succeeded {
        // A run that ends in this very pass has just judged its components.
        if was_done && !health::is_managed(run) {
            why = health::refresh(session, run, &mut end.status).await;
        }
        if session.release_busy.swap(false, Ordering::Relaxed) {
            end.again = Some(REQUEUE_COLLECTION);
            settled = false;
        }
        if !vela_api::status::is_healthy(&end.status.services) && !health::is_managed(run) {
            phase::UNHEALTHY.clone_into(&mut end.status.phase);
        }
    }
    let goes_on =
        workflow == WorkflowPhase::Failed && session.policies.garbage_collect.continue_on_failure;
    // A run in progress may yet need what older trackers hold, so only what is marked already goes
    // on.
    let scope = if succeeded || goes_on { Scope::History } else { Scope::Marked };
    // What the decision was made for must still be the newest spec.
    let newest = ctx.apps.get(&session.key());
    if newest.is_none_or(|newest| newest.generation != app.metadata.generation) {
        end.again = Some(Duration::ZERO);
        return found;
    }
    let protected = if goes_on {
        not_executed::protected_components(session, run, &end.status)
    } else {
        Vec::new()
    };
    let collected = gc::collect(session, app, scope, &protected).await;
    if let Some(error) = &collected.error {
        ctx.events.emit(&facts::about(app), Severity::Warning, event::FAILED_GC, error, "");
        end.again = Some(REQUEUE_COLLECTION);
        return Some(Readiness::collecting(&messages::gc_failed(error)));
    }
    prune::report(ctx, app, &collected.held, &mut end.status, now);
    if collected.recheck {
        end.again =
            Some(end.again.map_or(REQUEUE_COLLECTION, |again| again.min(REQUEUE_COLLECTION)));
    }
    if !collected.waiting.is_empty() || !collected.releases.is_empty() {
        let text = if collected.releases.is_empty() {
            messages::waiting_for(&collected.waiting)
        } else {
            messages::waiting_for_releases(&collected.releases)
        };
        end.again =
            Some(end.again.map_or(REQUEUE_COLLECTION, |again| again.min(REQUEUE_COLLECTION)));
        return Some(Readiness::collecting(&text));
    }
    end.pruned = succeeded && collected.is_done();
    // a suspended workflow with a timer is checked when it is due
    end.settled = settled && !collected.recheck && (workflow.is_final() || end.again.is_none());
    if !succeeded {
        return found;
    }
    let latest = end.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let limit = session
        .policies
        .garbage_collect
        .application_revision_limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(ctx.settings.application_revision_limit);
    if let Err(error) = revisions::collect_revisions(session, &[&latest], limit).await {
        warn!(%error, "old revisions could not be deleted");
    }
    // Deployed is said only where nothing else is wrong.
    if found.is_some() {
        return found;
    }
    status::forget_failures(&mut end.status);
    // The event is emitted when the state changes, not at each reconcile.
    if !(was_done && is_deployed(&app.status)) {
        let about = facts::about(app);
        ctx.events.emit(&about, Severity::Normal, event::DEPLOYED, messages::DEPLOYED, &latest);
    }
    Some(deployed(ctx, &end.status, &why))
}

/// Whether a status says that the newest spec is deployed.
fn is_deployed(status: &AppStatus) -> bool {
    let ready = vela_api::condition::get(&status.conditions, types::READY);
    ready.is_some_and(|ready| ready.is_true() || ready.reason == reason::UNHEALTHY)
}

/// The newest spec is deployed. `why` it is not healthy, as far as its objects say that.
fn deployed(ctx: &AppContext, status: &AppStatus, why: &str) -> Readiness {
    if status.phase != phase::UNHEALTHY {
        return Readiness::deployed("");
    }
    let why = if why.is_empty() { readiness::of_components(&status.services) } else { why.into() };
    if ctx.settings.ready_means_healthy {
        Readiness::unhealthy(&why)
    } else {
        Readiness::deployed(&why)
    }
}

/// Objects that earlier runs rendered from components whose step was skipped this time belongs to the present run: it is still in the spec.
async fn carry_over(
    session: &mut Session<'_>,
    run: &workflow::run::Run<'_>,
    status: &AppStatus,
) -> Result<(), ApiError> {
    let records = not_executed::skipped(session, run, status);
    if records.is_empty() {
        return Ok(());
    }
    let (io, store) = (&*session.ctx.io, &*session.ctx.trackers);
    let (publish, revision) = (session.publish_version.clone(), session.revision.clone());
    let run = vela_apply::tracker::Run {
        generation: session.generation,
        publish_version: &publish,
        revision: &revision,
    };
    session.trackers.record_in_current(io, store, run, records).await.map(|_| ())
}

/// What could not be put back.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::application) struct NotKept(String);

/// Puts drifted objects back.
///
/// # Errors
/// What could not be put back, as the condition `StateKeep` says it too.
pub(in crate::application) async fn keep_state(
    session: &Session<'_>,
    app: &Application,
    end: &mut End,
    now: Timestamp,
) -> Result<(), NotKept> {
    let ctx = session.ctx;
    let time = ctx.metrics.stage("state-keep");
    let (repaired, errors) = statekeep::keep(session).await;
    drop(time);
    let about = facts::about(app);
    for one in &repaired {
        ctx.events.emit(&about, Severity::Normal, statekeep::DRIFT_CORRECTED, &one.message, "");
    }
    if errors.is_empty() {
        end.status.conditions.retain(|c| c.type_ != types::STATE_KEEP);
        return Ok(());
    }
    let text = messages::errors(&errors);
    status::set_failed(&mut end.status, types::STATE_KEEP, &text, now);
    ctx.events.emit(&about, Severity::Warning, event::FAILED_STATE_KEEP, &text, "");
    end.again =
        Some(end.again.map_or(REQUEUE_COLLECTION * 5, |again| again.min(REQUEUE_COLLECTION * 5)));
    Err(NotKept(text))
}
