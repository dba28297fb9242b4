//! One reconcile of one WorkflowRun: a workflow that belongs to no Application, behind the gate `EnableWorkflowRun`.
//!
//! Answers for `controllers/workflowrun_controller.go` of kubevela/workflow. `identity.rs` says as whom the run acts, `facts.rs` what it
//! runs, `status.rs` what the status says; the steps themselves are those of Applications ([`workflow::pass`]), whose objects are
//! written and not recorded.

mod error;
mod facts;
mod identity;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, warn};
use vela_api::names::{annotation, event};
use vela_api::{Application, V1ALPHA1, WorkflowRun, WorkflowRunStatus, annotation_of};
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Stored as _, Target};
use vela_render::App;
use vela_workflow::{WorkflowPhase, convert};

use crate::application::authors;
use crate::application::component::RenderInput;
use crate::application::context::AppContext;
use crate::application::session::Session;
use crate::application::workflow::store::Store;
use crate::application::workflow::{self, run::Run};
use crate::application::workflow_owner::{OwnerKind, WorkflowOwner};
use crate::evaluation;
use crate::events::Severity;
use crate::in_flight::{Subject, retry_after};
use crate::messages;
use crate::queue::{Key, Next};

use facts::Found;
use status::{Failure, Stage};

/// Reconciles a WorkflowRun.
///
/// # Errors
/// Requests about the WorkflowRun itself failed; it is reconciled again.
pub async fn reconcile(ctx: &AppContext, key: &Key) -> Result<Next, ApiError> {
    let Some(run) = ctx.runs.store.get(key) else {
        ctx.forget_workflow(key);
        return Ok(Next::Done);
    };
    if !is_due(&run, &ctx.settings.version, ctx.settings.ignore_without_version) {
        // What is remembered of one that has ended nobody asks for again.
        ctx.forget_workflow(key);
        return Ok(Next::Done);
    }
    let (account, generation) = (ctx.account(key), run.metadata.generation.unwrap_or_default());
    if let Some(left) = account.pauses(generation) {
        return Ok(Next::After(left));
    }
    // The future of a whole reconcile is large: on the heap it does not count on every worker's stack.
    let work = Box::pin(advance(ctx, key, &run));
    match evaluation::within(account, generation, work).await {
        // Somebody else changed it, and that is what counts.
        Err(error) if error.is_conflict() => reread(ctx, key).await,
        other => other,
    }
}

/// Processes died over the run: it is left as it is, and its condition reports that. How long.
pub async fn set_aside(ctx: &AppContext, key: &Key) -> Option<Duration> {
    let (version, strict) = (&ctx.settings.version, ctx.settings.ignore_without_version);
    let run = ctx.runs.store.get(key).filter(|run| is_due(run, version, strict))?;
    let generation = run.metadata.generation.unwrap_or_default();
    let (left, deaths) = ctx.in_flight.set_aside(Subject::run(key), generation)?;
    let message = messages::set_aside(WorkflowRun::KIND, deaths, retry_after(deaths));
    let wanted = status::set_aside(&run.status, &message, ctx.clock.now());
    // Written once, not at every attempt to reconcile it.
    if wanted.conditions != run.status.conditions {
        error!(key = %key, deaths, "the WorkflowRun is set aside");
        let owner =
            WorkflowOwner { kind: OwnerKind::WorkflowRun, metadata: &run.metadata, run: None };
        emit(ctx, &owner, (Severity::Warning, event::SET_ASIDE), &message, "");
        if let Err(error) = write(ctx, &run, &wanted).await {
            warn!(%error, "the condition could not be written");
        }
    }
    Some(left)
}

/// Whether there is anything to do for a run, and by this version of the controller.
fn is_due(run: &WorkflowRun, version: &str, ignores_unversioned: bool) -> bool {
    if run.status.finished || run.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match annotation_of(&run.metadata, annotation::RUN_CONTROLLER_VERSION_REQUIRE) {
        "" => !ignores_unversioned,
        required => required == version,
    }
}

/// Runs the steps that can run now, and writes how far the run is.
async fn advance(ctx: &AppContext, key: &Key, run: &WorkflowRun) -> Result<Next, ApiError> {
    let stored = status::to_workflow(&run.status);
    let owner =
        WorkflowOwner { kind: OwnerKind::WorkflowRun, metadata: &run.metadata, run: Some(&stored) };
    let author = identity::author(ctx, run).await?;
    let start = author.and_then(|author| Ok((author, facts::collect(&ctx.definitions, run)?)));
    let (author, found) = match start {
        Ok(start) => start,
        Err(error) => {
            let next = if error.is_final() { Next::Done } else { Next::Failed };
            let failure = Failure::of(Stage::Generate, error.to_string());
            return stop(ctx, run, &owner, failure, next).await;
        }
    };
    let Found { used, workflow, referenced, mode } = found;
    let mut session = Session::of_run(ctx, &owner, author);
    session.actors = authors::of_run(&session, &used, referenced.as_ref()).await?;
    let input = RenderInput {
        app: Arc::new(App {
            name: session.owner.name.clone(),
            namespace: session.owner.namespace.clone(),
            ..App::default()
        }),
        revision_hash: String::new(),
        custom: None,
    };
    let (subject, policies) = (subject(run), BTreeMap::new());
    let steps = Run {
        app: &subject,
        used: &used,
        input: &input,
        workflow: &workflow,
        policies: &policies,
        cluster_version: &ctx.settings.cluster_version,
        clusters: ctx.clusters.is_on().then(|| Arc::clone(&session.clusters)),
        context: facts::context(run),
        debugged: annotation_of(&run.metadata, annotation::RUN_DEBUG) == "true",
    };
    let kept = ctx.memory(key).lock().context.take();
    let mut store = match Store::open(ctx, owner, kept, &stored).await {
        Ok(store) => store,
        Err(error) => {
            let failure = Failure::of(Stage::Execute, error.to_string());
            return stop(ctx, run, &owner, failure, Next::Failed).await;
        }
    };
    let (now, engine) = (ctx.clock.now(), convert::from_api(&stored));
    if engine.start_time.is_none() {
        ctx.metrics.runs.inc();
    }
    let ran = Box::pin(workflow::pass(&mut session, &steps, engine, &mut store, now)).await;
    // What the status will say must not outlive what it rests on.
    if let Err(error) = store.commit(ran.ran).await {
        let failure = Failure::not_stored(&error.to_string());
        return stop(ctx, run, &owner, failure, Next::Failed).await;
    }
    ctx.calls.noted(key);
    let progress = ran.progress;
    let mut next = convert::to_api(&progress.status, &workflow.mode_text(), &stored);
    next.context_backend = Some(store.reference());
    ctx.memory(key).lock().context = Some(store.into_kept());
    let wanted = status::after(&run.status, next, mode, progress.phase, ctx.clock.now());
    write(ctx, run, &wanted).await?;
    if let Some(ended) = status::ending(progress.phase) {
        // One that is started again ends again.
        let began = wanted.start_time.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
        let reason = Stage::Execute.reason();
        emit(ctx, &owner, (Severity::Normal, reason), ended, &began);
        observe_end(ctx, progress.phase, &wanted);
        return Ok(Next::Done);
    }
    Ok(progress.again.map_or(Next::Done, Next::After))
}

fn observe_end(ctx: &AppContext, phase: WorkflowPhase, status: &WorkflowRunStatus) {
    if let (Some(start), Some(end)) = (&status.start_time, &status.end_time) {
        let took = Duration::try_from(start.0.duration_until(end.0)).unwrap_or_default();
        let finished = &ctx.metrics.finished_runs;
        finished.with_label_values(&[phase.as_str()]).observe(took.as_secs_f64());
    }
}

/// What steps see of a run where they expect an Application: its metadata, with nothing in the spec.
fn subject(run: &WorkflowRun) -> Application {
    Application { metadata: run.metadata.clone(), ..Application::default() }
}

/// A run that cannot go on: the condition, the phase and the event that say so.
async fn stop(
    ctx: &AppContext,
    run: &WorkflowRun,
    owner: &WorkflowOwner<'_>,
    failure: Failure,
    next: Next,
) -> Result<Next, ApiError> {
    // Once for each generation: it is reconciled again and again.
    let once = run.metadata.generation.unwrap_or_default().to_string();
    let reason = failure.stage.reason();
    emit(ctx, owner, (Severity::Warning, reason), &failure.event(), &once);
    write(ctx, run, &status::failed(&run.status, &failure, ctx.clock.now())).await?;
    Ok(next)
}

fn emit(
    ctx: &AppContext,
    owner: &WorkflowOwner<'_>,
    (severity, reason): (Severity, &str),
    text: &str,
    once: &str,
) {
    ctx.events.named(event::WORKFLOW_RUN).emit(&owner.about(), severity, reason, text, once);
}

fn target(key: &Key) -> Target<'_> {
    Target {
        api_version: V1ALPHA1,
        kind: WorkflowRun::KIND,
        namespace: &key.namespace,
        name: &key.name,
    }
}

/// Writes a status if it differs from the stored one; the cache takes in the answer.
async fn write(
    ctx: &AppContext,
    run: &WorkflowRun,
    wanted: &WorkflowRunStatus,
) -> Result<(), ApiError> {
    let Some(diff) = status::patch(&run.status, wanted) else { return Ok(()) };
    // The version makes the write fail if somebody changed the run since: a client suspends it by its status.
    let version = &run.metadata.resource_version;
    let body = serde_json::json!({"metadata": {"resourceVersion": version}, "status": diff});
    let key = run.key();
    let (target, own) = (target(&key), Identity::default());
    let answer = ctx.io.patch(&target, "status", (PatchKind::Merge, &body), false, &own).await?;
    let _ = ctx.runs.store.put(answer.read()?);
    Ok(())
}

/// The cached run is outdated, so the newest one is read.
async fn reread(ctx: &AppContext, key: &Key) -> Result<Next, ApiError> {
    match ctx.io.get(&target(key), &Identity::default()).await {
        Ok(found) => {
            let read = serde_json::from_value::<WorkflowRun>(found).ok();
            let is_news = read.is_some_and(|run| ctx.runs.store.put(run).is_ok());
            // What cannot be read is not in the cache: trying at once would be trying all the time.
            Ok(if is_news { Next::After(Duration::ZERO) } else { Next::Failed })
        }
        Err(error) if error.is_not_found() => Ok(Next::Done),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(metadata: &Value, status: &Value) -> WorkflowRun {
        serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
    }

    #[test]
    fn who_is_due() {
        let required = json!({"annotations": {annotation::RUN_CONTROLLER_VERSION_REQUIRE: "v2"}});
        for (metadata, status, version, strict, due) in [
            (json!({}), json!({}), "v1", false, true),
            (json!({}), json!({}), "v1", true, false),
            (json!({}), json!({"finished": true}), "v1", false, false),
            (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({}), "v1", false, false),
            (required.clone(), json!({}), "v1", false, false),
            (required, json!({}), "v2", true, true),
        ] {
            let run = run(&metadata, &status);
            assert_eq!(is_due(&run, version, strict), due, "{run:?}");
        }
    }
}
