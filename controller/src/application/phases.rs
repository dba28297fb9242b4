//! The phases of a reconcile in order: parsing, revision, policies, workflow, and what follows it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vela_api::names::{condition as types, creator, event, label, phase};
use vela_api::reference::Revision as LatestRevision;
use vela_api::{AppStatus, Application, ApplicationRevision, ClusterObjectReference};
use vela_apply::object;
use vela_apply::tracker::Run;
use vela_cluster::IoError;
use vela_workflow::{convert, generate};

use crate::context::Context;
use crate::definitions::to_render;
use crate::events::Severity;
use crate::messages;
use crate::queue::Key;

use super::component::{self, Frame};
use super::dispatch::Session;
use super::end::{self, End};
use super::failure::Failed;
use super::history::History;
use super::parse::{self, Used};
use super::resolve::{self, Found};
use super::revision::{self, Choice};
use super::scoped::Transformed;
use super::{about, begin, history, referred, status, workflow};
use workflow::store::Store;

type Outcome<T> = Result<T, (AppStatus, Failed)>;

/// The phases from parsing on.
pub(super) async fn run(
    ctx: &Context,
    session: &mut Session<'_>,
    app: &Application,
    made: Option<&Transformed>,
    mut status: AppStatus,
    now: Timestamp,
) -> Outcome<End> {
    let key = Key::new(&*session.owner.namespace, &*session.owner.name);
    let history = History::of(ctx, &key);
    let latest_name = status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let latest = match history.open(&latest_name) {
        Ok(latest) => latest,
        Err(text) => return Err((status, Failed::revision(text))),
    };
    let latest = latest.as_ref();
    // A pinned Application is what its revision says, whatever its spec says now.
    let pinned = latest.filter(|revision| {
        !session.publish_version.is_empty()
            && revision::publish_version(&revision.metadata) == session.publish_version
    });
    let mut subject = app.clone();
    if let Some(made) = made {
        made.apply(&mut subject);
    }
    if let Some(pinned) = pinned {
        subject.spec = pinned.spec.application.spec.clone();
        session.components = subject.spec.components.iter().map(|c| c.name.clone()).collect();
    }
    // Parsing.
    let time = ctx.metrics.stage("generate-appfile");
    let found = match pinned {
        Some(pinned) => Ok(resolve::from_revision(pinned)),
        None => resolve::collect(ctx, &subject, latest),
    };
    let Found { used, policies, workflow: referenced } = match found {
        Ok(found) => found,
        Err(text) => return Err((status, Failed::parsed(text))),
    };
    status::set_true(&mut status, types::PARSED, now);
    drop(time);
    // Revision.
    let time = ctx.metrics.stage("prepare-current-apprev");
    let auto_update = resolve::follows_definitions(app);
    let mut spec = revision::snapshot(
        &subject,
        &used,
        resolve::stored_policies(&session.owner.namespace, &policies),
        referenced.clone(),
    );
    spec.referred_objects = match pinned {
        Some(pinned) => pinned.spec.referred_objects.clone(),
        None => match referred::collect(session, &subject, latest).await {
            Ok(objects) => objects,
            Err(text) => return Err((status, Failed::parsed(text))),
        },
    };
    if let Some(made) = made {
        made.join(&mut spec);
    }
    let mut objects = spec.referred_objects.clone();
    let choose = |all: &[ApplicationRevision]| {
        revision::choose(&spec, &session.publish_version, &latest_name, all, auto_update)
    };
    let mut choice = match pinned {
        Some(_) => Choice::Latest,
        None => choose(latest.map(std::slice::from_ref).unwrap_or_default()),
    };
    // The older ones are looked at only if there is something new to the latest.
    let mut all = Vec::new();
    if choice != Choice::Latest {
        all = match history.open_all() {
            Ok(all) => all,
            Err(text) => return Err((status, Failed::revision(text))),
        };
        choice = choose(&all);
    }
    let (name, hash, mut used) = match choice {
        Choice::Latest => {
            let Some(latest) = latest else {
                return Err((status, Failed::revision(messages::LATEST_REVISION_GONE)));
            };
            let hash = revision::label(&latest.metadata, label::APP_REVISION_HASH).to_owned();
            if let Some(made) = made {
                made.note(ctx, latest).await;
            }
            (latest_name.clone(), hash, resolve::renewed(latest, used))
        }
        Choice::Older(name) => {
            let found = all.iter().find(|r| r.metadata.name.as_deref() == Some(&name));
            let hash = found
                .map(|r| revision::label(&r.metadata, label::APP_REVISION_HASH).to_owned())
                .unwrap_or_default();
            if let (Some(made), Some(found)) = (made, found) {
                made.note(ctx, found).await;
            }
            objects = found.map(|r| r.spec.referred_objects.clone()).unwrap_or_default();
            (name, hash, used)
        }
        Choice::New => {
            let mut new = history::prepare(ctx, session, &subject, spec, &history, &status);
            if let Some(made) = made {
                made.mark(&mut new.object);
            }
            let (name, hash) = (new.name.clone(), new.hash.clone());
            session.unstored = Some(new);
            if !is_plain(session, &subject, &name) && session.store_revision().await.is_err() {
                return fail(session, app, status, None).await;
            }
            (name, hash, used)
        }
    };
    let before = status.clone();
    used.referred = match referred::assign(ctx, &subject, &objects).await {
        Ok(referred) => referred,
        Err(text) => return Err((status, Failed::parsed(text))),
    };
    session.revision.clone_from(&name);
    status.latest_revision = Some(LatestRevision {
        name: name.clone(),
        revision: revision::number(&name),
        revision_hash: hash.clone(),
    });
    status::set_true(&mut status, types::REVISION, now);
    let custom = made.and_then(|made| made.custom.clone());
    let frame = frame(&subject, &name, &hash, custom);
    drop(time);
    // Policies that are objects.
    let time = ctx.metrics.stage("apply-policies");
    let by_policies = match apply_policies(session, &frame, &subject, &used).await {
        Ok(applied) => applied,
        Err(text) => {
            tell_progress(ctx, app, PREPARED.get(..2).unwrap_or_default());
            return Err((status, Failed::policy(text)));
        }
    };
    status::set_true(&mut status, types::POLICY, now);
    drop(time);
    // Workflow.
    let time = ctx.metrics.stage("generate-app-steps");
    let token = if session.publish_version.is_empty() {
        name.clone()
    } else {
        session.publish_version.clone()
    };
    match begin::run(ctx, session, &mut status, &token, &subject, now).await {
        Ok(false) => {}
        Ok(true) => {
            if session.store_revision().await.is_err() {
                return fail(session, app, before, None).await;
            }
            phase::RUNNING_WORKFLOW.clone_into(&mut status.phase);
            return Ok(End { status, again: Some(Duration::ZERO), settled: false });
        }
        Err(text) => {
            return fail(session, app, before, Some((status, Failed::workflow(text)))).await;
        }
    }
    // A run that went on before this look, perhaps in another process, has told of itself.
    let told = app.status.workflow.as_ref().is_some_and(|known| known.app_revision == token);
    if !told {
        tell_progress(ctx, app, &PREPARED);
    }
    let making = ctx.metrics.making();
    let workflow = generate::workflow(&subject, referenced.as_ref());
    drop(making);
    let workflow = match workflow {
        Ok(workflow) => workflow,
        Err(error) => {
            let failed = Failed::workflow(error.to_string());
            return fail(session, app, before, Some((status, failed))).await;
        }
    };
    for reference in by_policies {
        if !status.applied_resources.contains(&reference) {
            status.applied_resources.push(reference);
        }
    }
    status::set_true(&mut status, types::RENDER, now);
    if !told {
        tell_progress(ctx, app, &[(event::RENDERED, messages::RENDERED)]);
    }
    let run = workflow::Run {
        app: &subject,
        used: &used,
        frame: &frame,
        workflow: &workflow,
        policies: &policies,
        cluster_version: &ctx.settings.cluster_version,
    };
    let stored = status.workflow.clone().unwrap_or_default();
    let engine = convert::from_api(&stored);
    let done = stored.finished && engine.phase.is_final();
    drop(time);
    let mut again = None;
    let phase = if done {
        engine.phase
    } else {
        // What is known before the first step runs holds whatever becomes of the steps.
        let begun = status.clone();
        let known = ctx.memory(&key).lock().context.take();
        let mut store = match Store::open(ctx, app, known, &stored).await {
            Ok(store) => store,
            Err(text) => {
                let failed = Failed::executing(text);
                return fail(session, app, before, Some((status, failed))).await;
            }
        };
        let time = ctx.metrics.stage("execute-workflow");
        let ran = Box::pin(workflow::pass(session, &run, engine, &mut store, now)).await;
        drop(time);
        if session.refused.is_some() || session.store_revision().await.is_err() {
            return fail(session, app, before, None).await;
        }
        let workflow::Ran { progress, services, applied, ran, decisions, restart_at } = ran;
        // what the status will say must not outlive what it rests on
        if let Err(error) = store.commit(ran).await {
            let text = messages::context_not_stored(&error.to_string());
            return Err((begun, Failed::executing(text)));
        }
        if let Some(at) = restart_at {
            status.workflow_restart_scheduled_at = Some(vela_api::condition::seconds(at));
        }
        for decision in decisions {
            decision.put(&mut status.policy_status);
        }
        for service in services {
            status::put_service(&mut status.services, service);
        }
        for reference in applied {
            if !status.applied_resources.contains(&reference) {
                status.applied_resources.push(reference);
            }
        }
        let mut next = convert::to_api(&progress.status, &workflow.mode_text(), &stored);
        if progress.phase.is_final() {
            next.finished = true;
            next.end_time = Some(vela_api::condition::seconds(Timestamp::now()));
        }
        next.context_backend = Some(store.reference());
        status.workflow = Some(next);
        let data = store.data();
        ctx.memory(&key).lock().context = Some(store.into_kept());
        again = progress.again;
        if progress.phase.is_final() {
            end::finish(ctx, session, app, &mut status, (progress.phase, &data), &name).await;
        }
        progress.phase
    };
    if session.store_revision().await.is_err() {
        return fail(session, app, before, None).await;
    }
    let in_spec = |name: &str| session.components.iter().any(|component| component == name);
    status.services.retain(|service| in_spec(&service.name));
    let mut end = End { status, again, settled: false };
    end::after_workflow(session, app, &run, phase, done, &mut end, now).await;
    Ok(end)
}

/// Whether all that comes of a new revision is what its components are dispatched to: then it is stored beside the dry run
/// of that. Whatever else has an effect finds it stored.
fn is_plain(session: &Session<'_>, subject: &Application, revision: &str) -> bool {
    let run = Run { revision, ..session.run() };
    subject.spec.workflow.is_none()
        && !subject.spec.components.is_empty()
        && parse::rendered_policies(&subject.spec.policies).next().is_none()
        && session.trackers.current(run).is_empty()
}

/// A look that ends badly after its revision was named: what the status names must be there. Without a failure of its own
/// it ends because the revision could not be stored; a number that was taken is no failure, the next look takes another.
async fn fail(
    session: &mut Session<'_>,
    app: &Application,
    before: AppStatus,
    failed: Option<(AppStatus, Failed)>,
) -> Outcome<End> {
    let stored = session.store_revision().await;
    if let (Ok(()), Some(failed)) = (stored, failed) {
        return Err(failed);
    }
    let error = session.refused.take();
    if error.as_ref().is_some_and(IoError::is_already_exists) {
        let again = Some(Duration::ZERO);
        return Ok(End { status: app.status.clone(), again, settled: false });
    }
    tell_progress(session.ctx, app, PREPARED.get(..1).unwrap_or_default());
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    Err((before, Failed::revision(text)))
}

fn frame(
    app: &Application,
    revision: &str,
    hash: &str,
    custom: Option<Arc<serde_json::Value>>,
) -> Frame {
    let components =
        app.spec.components.iter().filter_map(|c| serde_json::to_value(c).ok()).collect();
    Frame {
        app: Arc::new(vela_render::App {
            name: app.metadata.name.clone().unwrap_or_default(),
            namespace: app.metadata.namespace.clone().unwrap_or_default(),
            revision: revision.to_owned(),
            labels: app.metadata.labels.clone().unwrap_or_default(),
            annotations: app.metadata.annotations.clone().unwrap_or_default(),
            components,
        }),
        revision_hash: hash.to_owned(),
        custom,
    }
}

/// Renders and dispatches the policies that have a definition of their own.
async fn apply_policies(
    session: &mut Session<'_>,
    frame: &Frame,
    app: &Application,
    used: &Used,
) -> Result<Vec<ClusterObjectReference>, String> {
    let mut applied = Vec::new();
    let policies: Vec<_> = parse::rendered_policies(&app.spec.policies).cloned().collect();
    for policy in policies {
        let Some(found) = parse::stored(&used.policies, &policy.type_) else { continue };
        let artifacts = if asks_for_artifacts(found) {
            Some(artifacts(session.ctx, frame, app, used).await?)
        } else {
            None
        };
        let mut manifests =
            component::render_policy(session.ctx, frame, &policy, found.as_ref(), artifacts)
                .await?;
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

/// Whether a policy's template may look at what the components render to.
fn asks_for_artifacts(definition: &vela_api::PolicyDefinition) -> bool {
    to_render(definition).template.text().contains("artifacts")
}

/// What all components render to, for policies. Nothing is read from the cluster.
async fn artifacts(
    ctx: &Context,
    frame: &Frame,
    app: &Application,
    used: &Used,
) -> Result<serde_json::Value, String> {
    let mut all = Vec::new();
    for one in &app.spec.components {
        let part = parse::part(one, used).map_err(|error| error.to_string())?;
        let place = component::Place::default();
        let rendered = component::render(ctx, frame, &part, &place, None, true).await?;
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

/// The events of a run that came this far. They tell nothing of the run itself: an Application has them once, and again
/// after something failed. What every run tells is how it ended.
fn tell_progress(ctx: &Context, app: &Application, come: &[(&str, &str)]) {
    let about = about(app);
    for (reason, message) in come {
        ctx.events.tell(&about, Severity::Normal, reason, message, "");
    }
}

/// What a run came through before its steps were made.
const PREPARED: [(&str, &str); 3] = [
    (event::PARSED, messages::PARSED),
    (event::REVISIONED, messages::REVISIONED),
    (event::POLICY_GENERATED, messages::POLICY_GENERATED),
];
