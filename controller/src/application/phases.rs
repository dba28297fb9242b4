//! The phases of a reconcile in order: parsing, revision, policies, workflow, and what follows it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vela_api::names::{condition as types, creator, event, phase};
use vela_api::{AppStatus, Application, ClusterObjectReference};
use vela_apply::object;
use vela_cluster::{ApiError, Class};
use vela_workflow::{WorkflowPhase, convert, generate};

use crate::application::context::AppContext;
use crate::application::workflow::error::StepError;
use crate::events::Severity;
use crate::messages;

use super::authors::{self, Work};
use super::component::{self, RenderInput};
use super::facts;
use super::placement::Placement;
use super::release;
use super::session::Session;
use crate::application::converge::{self, End};
use crate::application::facts::parse::{self, Used};
use crate::application::facts::resolve::{self, Found};
use crate::application::lifecycle::failure::{Failed, Stop};
use crate::application::policies::Transformed;
use crate::application::readiness::Readiness;
use crate::application::revision::decide::{self, Revised};
use crate::application::revision::store::{Former, History};
use crate::application::workflow::start::{self, RunStart};
use crate::application::{identity, status, workflow};
use workflow::store::Store;

/// The phases from parsing on.
pub(super) async fn run(
    ctx: &AppContext,
    session: &mut Session<'_>,
    app: &Application,
    transformed: Option<&Transformed>,
    mut status: AppStatus,
    now: Timestamp,
) -> Result<End, (AppStatus, Failed)> {
    let key = session.key();
    session.stamp = identity::stamp(ctx, app);
    let history = History::of(ctx, &key);
    let latest_name = status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let latest = match history.open(&latest_name) {
        Ok(latest) => latest,
        Err(error) => return Err((status, Failed::revision(error.to_string()))),
    };
    let mut subject = app.clone();
    if let Some(transformed) = transformed {
        transformed.apply(&mut subject);
    }
    // A pinned Application is what its revision says, whatever its spec says now.
    let published = |former: &&Former| {
        !session.publish_version.is_empty()
            && facts::publish_version(&former.revision.metadata) == session.publish_version
    };
    let pinned = latest.as_ref().filter(published);
    if pinned.is_some_and(|former| !former.believed && !former.says(&subject)) {
        // Nobody knows what it is to be. What it was stays as it was.
        let mut end = End { status, again: None, pruned: false, settled: false };
        // What it says is part of the status; the failure that follows is what `Ready` is about.
        let _ = converge::keep_state(session, app, &mut end, now).await;
        let text = messages::revision_not_believed(&latest_name, &session.publish_version);
        return Err((end.status, Failed::revision(text)));
    }
    let is_pinned = pinned.is_some_and(|former| former.believed);
    let author = pinned.and_then(|former| former.author.clone()).filter(|_| is_pinned);
    let believed = latest.as_ref().is_some_and(|former| former.believed);
    // What the controller did not make is somebody's work, also where the Application says the same.
    let foreign =
        latest.as_ref().filter(|former| former.believed && !former.by_controller && !is_pinned);
    let foreign = foreign.map(|former| (latest_name.clone(), former.author.clone()));
    let latest = latest.map(|former| former.revision);
    // From here on `subject` is what is deployed; `app` is what the user wrote and what the status is written to.
    if let Some(pinned) = latest.as_ref().filter(|_| is_pinned) {
        subject.spec = pinned.spec.application.spec.clone();
        session.components = subject.spec.components.iter().map(|c| c.name.clone()).collect();
    }
    let time = ctx.metrics.stage("generate-appfile");
    let found = match latest.as_ref().filter(|_| is_pinned) {
        Some(pinned) => Ok(resolve::from_revision(pinned)),
        None => {
            let latest = latest.as_ref().filter(|_| believed);
            match authors::kept(session, &subject, latest).await {
                Ok(kept) => resolve::collect(ctx, &subject, latest, kept),
                Err(error) => Err(error.to_string().into()),
            }
        }
    };
    let found = match found {
        Ok(found) => found,
        Err(text) => return Err((status, Failed::parsed(text))),
    };
    status::set_true(&mut status, types::PARSED, now);
    drop(time);
    // If the revision cannot be stored, the status must not name it.
    let before = status.clone();
    let auto_update = facts::follows_definitions(app);
    let known =
        decide::PriorRevisions { history, latest, believed, latest_name, is_pinned, auto_update };
    let own = session.actors.author.clone();
    let done = Box::pin(async {
        let Found { used, policies, workflow } = &found;
        let revision = foreign.as_ref().map(|(name, author)| (name.as_str(), author));
        let work = Work { used, policies, workflow: workflow.as_ref(), transformed, revision };
        // The authors of what is deployed decide as whom requests are made. They are known twice: before the revision is chosen, since
        // that reads objects, and after it, since an older revision may use other definitions.
        let unknown = |error: ApiError| Stop::Failed(Failed::parsed(error.to_string()));
        session.actors =
            authors::of(session, &own, author.as_ref(), &work).await.map_err(unknown)?;
        let revised = decide::run(session, known, &subject, transformed, found, &status).await?;
        // Some of what was found may not be what the revision says.
        let Revised { used, policies, workflow, name, .. } = &revised;
        let revision = revision.filter(|(latest, _)| latest == name);
        let work = Work { used, policies, workflow: workflow.as_ref(), transformed, revision };
        session.actors =
            authors::of(session, &own, author.as_ref(), &work).await.map_err(unknown)?;
        advance(session, app, &subject, &revised, &mut status, now).await
    })
    .await;
    match done {
        Ok(end) => Ok(end),
        Err(Stop::Failed(failed)) => Err((status, failed)),
        Err(Stop::Named(failed)) => {
            stop_named(session, app, before, failed.map(|failed| (status, failed))).await
        }
    }
}

/// The phases that follow once it is known which revision is meant.
async fn advance(
    session: &mut Session<'_>,
    app: &Application,
    subject: &Application,
    revised: &Revised,
    status: &mut AppStatus,
    now: Timestamp,
) -> Result<End, Stop> {
    let ctx = session.ctx;
    let Revised { used, input: common, policies, workflow: referenced, .. } = revised;
    status.latest_revision = Some(revised.reference());
    status::set_true(status, types::REVISION, now);
    let token = match session.publish_version.as_str() {
        "" => {
            let stored = status.workflow.as_ref().map(|run| run.app_revision.clone());
            let stored = stored.unwrap_or_default();
            Box::pin(release::run_of(session, subject, &revised.name, &stored)).await
        }
        published => published.to_owned(),
    };
    let start = start::run(ctx, session, status, &token, subject, now).await.map_err(|error| {
        let text = error.to_string();
        // A postponed request has not failed.
        let is_postponed = matches!(error.class(), Class::Retry(_));
        let failed = if is_postponed { Failed::executing(text) } else { Failed::workflow(text) };
        Stop::Named(Some(failed))
    })?;
    // Both runs may have the same token. After a crash a partly applied new run would be taken for the finished old one, so
    // the new run is in the stored status before anything is applied.
    if matches!(start, RunStart::StoreFirst) {
        stored(session).await?;
        phase::RUNNING_WORKFLOW.clone_into(&mut status.phase);
        if let Some(starting) = Readiness::of_workflow(WorkflowPhase::Initializing, None) {
            starting.put(status, now);
        }
        let status = std::mem::take(status);
        return Ok(End { status, again: Some(Duration::ZERO), pruned: false, settled: false });
    }
    // Policies that are objects.
    let time = ctx.metrics.stage("apply-policies");
    let by_policies = match apply_policies(session, common, subject, used).await {
        Ok(applied) => applied,
        Err(text) => {
            emit_progress(ctx, app, PREPARED.get(..2).unwrap_or_default());
            return Err(Stop::Failed(Failed::policy(text.to_string())));
        }
    };
    // Only now: a policy that fails must not throw away the status of the last run.
    if matches!(start, RunStart::New) {
        start::restart(ctx, status, &token);
    }
    status::set_true(status, types::POLICY, now);
    drop(time);
    // Workflow.
    let time = ctx.metrics.stage("generate-app-steps");
    // A run that started before this reconcile, perhaps in another process, has emitted its events.
    let is_current = app.status.workflow.as_ref().is_some_and(|known| known.app_revision == token);
    if !is_current {
        emit_progress(ctx, app, &PREPARED);
    }
    let making = ctx.metrics.making();
    let workflow = generate::workflow(subject, referenced.as_ref());
    drop(making);
    let workflow = workflow
        .map_err(|error| Stop::Named(Some(Failed::workflow(error.to_string()).for_good())))?;
    note_applied(status, by_policies);
    status::set_true(status, types::RENDER, now);
    if !is_current {
        emit_progress(ctx, app, &[(event::RENDERED, messages::RENDERED)]);
    }
    drop(time);
    let run = workflow::run::Run {
        app: subject,
        used,
        input: common,
        workflow: &workflow,
        policies,
        cluster_version: &ctx.settings.cluster_version,
        clusters: ctx.clusters.is_on().then(|| Arc::clone(&session.clusters)),
        context: workflow::run::context(common, &ctx.settings.cluster_version),
        debugged: workflow::is_debugged(subject),
    };
    let known = status.workflow.as_ref();
    let phase = known.map(|known| convert::from_api(known).phase).unwrap_or_default();
    // Both have to hold: a run whose record was postponed has a final phase and is not finished.
    let done = phase.is_final() && known.is_some_and(|known| known.finished);
    let (phase, again) = if done {
        (phase, None)
    } else {
        execute(session, app, &run, status, &revised.name, now).await?
    };
    stored(session).await?;
    // A component that left the spec is not reported, also while its objects wait for their collection.
    status.services.retain(|service| session.components.contains(&service.name));
    let mut end = End { status: std::mem::take(status), again, pruned: false, settled: false };
    converge::after_workflow(session, app, &run, phase, done, &mut end, now).await;
    Ok(end)
}

/// One pass over the workflow. Returns how it stands now, and when it wants to be checked again.
async fn execute(
    session: &mut Session<'_>,
    app: &Application,
    run: &workflow::run::Run<'_>,
    status: &mut AppStatus,
    revision: &str,
    now: Timestamp,
) -> Result<(WorkflowPhase, Option<Duration>), Stop> {
    let ctx = session.ctx;
    let known = status.workflow.clone().unwrap_or_default();
    let key = session.key();
    let kept = ctx.memory(&key).lock().context.take();
    // Jobs that ended in this run are not created again, those of an earlier run are.
    session.run_began = known.start_time.as_ref().map(|time| time.0);
    let mut store = Store::open(ctx, app.into(), kept, &known)
        .await
        .map_err(|error| Stop::Named(Some(Failed::executing(error.to_string()))))?;
    let time = ctx.metrics.stage("execute-workflow");
    // The engine has its own status type: it never sees what it did not write.
    let engine = convert::from_api(&known);
    let ran = Box::pin(workflow::pass(session, run, engine, &mut store, now)).await;
    drop(time);
    if session.refused.is_some() {
        return Err(Stop::Named(None));
    }
    stored(session).await?;
    let workflow::Ran { progress, services, applied, ran, decisions, restart_at } = ran;
    // What the status will say must not outlive what it rests on.
    store.commit(ran).await.map_err(|error| {
        let text = messages::context_not_stored(&error.to_string());
        Stop::Failed(Failed::executing(text))
    })?;
    ctx.calls.noted(&key);
    if let Some(at) = restart_at {
        status.workflow_restart_scheduled_at = Some(vela_api::condition::seconds(at));
    }
    for decision in decisions {
        decision.put(&mut status.policy_status);
    }
    status::put_services(&mut status.services, services);
    note_applied(status, applied);
    let mut next = convert::to_api(&progress.status, &run.workflow.mode_text(), &known);
    // The engine knows no clock, so the end of the run is timed here.
    if progress.phase.is_final() {
        next.finished = true;
        next.end_time = Some(vela_api::condition::seconds(ctx.clock.now()));
    }
    next.context_backend = Some(store.reference());
    status.workflow = Some(next);
    let data = store.data();
    ctx.memory(&key).lock().context = Some(store.into_kept());
    if progress.phase.is_final() {
        let ended = (progress.phase, &data);
        // The record of the run in its revision comes before the status says that the run ended: a crash in between repeats it.
        if let Some(left) = converge::finish(ctx, session, app, status, ended, revision).await {
            if let Some(run) = &mut status.workflow {
                (run.finished, run.end_time) = (false, None);
            }
            return Ok((WorkflowPhase::Executing, Some(left)));
        }
    }
    Ok((progress.phase, progress.again))
}

/// Each object once, in the order of the first time.
fn note_applied(status: &mut AppStatus, applied: Vec<ClusterObjectReference>) {
    // By policies there is nothing as a rule.
    if applied.is_empty() {
        return;
    }
    let mut known = HashSet::new();
    let all = std::mem::take(&mut status.applied_resources).into_iter().chain(applied);
    status.applied_resources = all.filter(|reference| known.insert(reference.clone())).collect();
}

/// Stores the revision of this reconcile, if it is not yet.
async fn stored(session: &mut Session<'_>) -> Result<(), Stop> {
    session.store_revision().await.map_err(|_| Stop::Named(None))
}

/// A reconcile that ends badly after its revision was named: what the status names must be there. Without a failure of its own
/// it ends because the revision could not be stored; a number that was taken is no failure, the next reconcile takes another.
async fn stop_named(
    session: &mut Session<'_>,
    app: &Application,
    before: AppStatus,
    failed: Option<(AppStatus, Failed)>,
) -> Result<End, (AppStatus, Failed)> {
    let stored = session.store_revision().await;
    // The revision is stored, so the failure of the reconcile itself is what the user sees.
    if let (Ok(()), Some(failed)) = (stored, failed) {
        return Err(failed);
    }
    let error = session.refused.take();
    if error.as_ref().is_some_and(ApiError::is_already_exists) {
        let again = Some(Duration::ZERO);
        return Ok(End { status: app.status.clone(), again, pruned: false, settled: false });
    }
    emit_progress(session.ctx, app, PREPARED.get(..1).unwrap_or_default());
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    Err((before, Failed::revision(text)))
}

/// Renders and dispatches the policies that have a definition of their own.
async fn apply_policies(
    session: &mut Session<'_>,
    common: &RenderInput,
    app: &Application,
    used: &Used,
) -> Result<Vec<ClusterObjectReference>, StepError> {
    let mut applied = Vec::new();
    let policies: Vec<_> = parse::rendered_policies(&app.spec.policies).cloned().collect();
    for policy in policies {
        let Some(found) = parse::stored(&used.policies, &policy.type_) else { continue };
        let definition = session.ctx.definitions.to_render(found);
        // A template that does not name them does not read the rendered components.
        let artifacts = if definition.template.text().contains("artifacts") {
            Some(artifacts(session.ctx, common, app, used).await?)
        } else {
            None
        };
        let mut manifests =
            component::render_policy(session.ctx, common, &policy, definition, artifacts).await?;
        session.dispatch(&mut manifests, "").await?;
        applied.extend(manifests.iter().map(|manifest| ClusterObjectReference {
            api_version: object::api_version(manifest).to_owned(),
            kind: object::kind(manifest).to_owned(),
            name: object::name(manifest).to_owned(),
            namespace: object::namespace(manifest).to_owned(),
            creator: creator::POLICY.to_owned(),
            ..ClusterObjectReference::default()
        }));
    }
    Ok(applied)
}

/// What all components render to, for policies. Nothing is read from the cluster.
async fn artifacts(
    ctx: &AppContext,
    common: &RenderInput,
    app: &Application,
    used: &Used,
) -> Result<serde_json::Value, StepError> {
    let mut all = Vec::new();
    // No cluster and no namespace is decided yet: artifacts are what all placements have in common.
    for one in &app.spec.components {
        let source = parse::Source::of(&ctx.definitions, app);
        let part = parse::parse_component(one, used, source)?;
        let placement = Placement::default();
        let rendered = component::render(ctx, common, &part, &placement, None, true).await?;
        all.push((one.name.as_str(), rendered));
    }
    Ok(vela_render::context::artifacts(all.iter().map(|(name, rendered)| {
        let objects = rendered.objects.iter();
        let (workload, auxiliaries): (Vec<_>, Vec<_>) =
            objects.partition(|object| object.output.is_none());
        let workload = workload.first().map(|object| &object.manifest);
        (*name, workload, auxiliaries.into_iter().map(|object| &object.manifest).collect())
    })))
}

/// The events of the phases before the workflow. They say nothing of the run itself: an Application has them once, and again
/// after a failure. Every run emits an event when it ends.
fn emit_progress(ctx: &AppContext, app: &Application, come: &[(&str, &str)]) {
    let about = facts::about(app);
    for (reason, message) in come {
        ctx.events.emit(&about, Severity::Normal, reason, message, "");
    }
}

/// What a run came through before its steps were made.
const PREPARED: [(&str, &str); 3] = [
    (event::PARSED, messages::PARSED),
    (event::REVISIONED, messages::REVISIONED),
    (event::POLICY_GENERATED, messages::POLICY_GENERATED),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_noted_once_where_it_came_first() {
        let reference = |name: &str| ClusterObjectReference {
            name: name.to_owned(),
            ..ClusterObjectReference::default()
        };
        let mut status = AppStatus::default();
        note_applied(&mut status, vec![reference("b"), reference("a"), reference("b")]);
        note_applied(&mut status, vec![reference("c"), reference("a")]);
        let names: Vec<&str> = status.applied_resources.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }
}
