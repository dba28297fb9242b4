//! One look at one Application: facts are read from the caches, each phase decides, effects follow, and the status is
//! written once at the end.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/application/application_controller.go`. The phases in order: finalizer or
//! deletion, parsing, revision, workflow, health, state-keep, garbage collection, status. A look at an Application about which
//! nothing changed since the last complete one ends before all of them.

pub mod component;
pub mod dispatch;
pub mod finalize;
pub mod gc;
pub mod health;
pub mod identity;
pub mod parse;
pub mod placement;
pub mod restart;
pub mod revision;
pub mod statekeep;
pub mod status;
pub mod steps;
pub mod trackers;
pub mod workflow;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{debug, warn};
use vela_api::names::{annotation, condition as types, event, label, phase};
use vela_api::reference::Revision as LatestRevision;
use vela_api::{AppStatus, Application, ApplicationRevision, ObjectReference, Policy, Workflow};
use vela_apply::gc::Scope;
use vela_apply::plan::PatchKind;
use vela_apply::policy::{APPLY_ONCE, ApplyOnce};
use vela_apply::{Owner, ResourcePolicies};
use vela_cluster::{Identity, IoError, Stored, Target};
use vela_workflow::{WorkflowPhase, convert, generate};

use crate::context::Context;
use crate::events::{About, Severity};
use crate::messages;
use crate::queue::{Key, Next};

use component::Frame;
use dispatch::Session;
use parse::Used;
use revision::Choice;

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);
/// How long after the last event a collection is looked at again; watches are faster.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// A phase that ended badly: which condition says so, in which phase the Application stays, and which event tells.
#[derive(Debug)]
struct Failed {
    condition: &'static str,
    phase: &'static str,
    event: Option<&'static str>,
    message: String,
}

impl Failed {
    fn synced(message: impl Into<String>) -> Self {
        Self {
            condition: types::SYNCED,
            phase: phase::STARTING,
            event: None,
            message: message.into(),
        }
    }

    fn parsed(message: impl Into<String>) -> Self {
        Self {
            condition: types::PARSED,
            phase: phase::RENDERING,
            event: Some(event::FAILED_PARSE),
            message: message.into(),
        }
    }

    fn revision(message: impl Into<String>) -> Self {
        Self {
            condition: types::REVISION,
            phase: phase::RENDERING,
            event: Some(event::FAILED_REVISION),
            message: message.into(),
        }
    }

    fn policy(message: impl Into<String>) -> Self {
        Self {
            condition: types::POLICY,
            phase: phase::GENERATING_POLICY,
            event: Some(event::FAILED_APPLY),
            message: message.into(),
        }
    }

    fn workflow(message: impl Into<String>) -> Self {
        Self {
            condition: types::WORKFLOW,
            phase: phase::WORKFLOW_FAILED,
            event: Some(event::FAILED_WORKFLOW),
            message: message.into(),
        }
    }
}

/// Looks at an Application.
///
/// # Errors
/// Requests about the Application itself failed; it is looked at again.
pub async fn reconcile(ctx: &Context, key: &Key) -> Result<Next, IoError> {
    let Some(app) = ctx.apps.get(key) else {
        ctx.forget(key);
        return Ok(Next::Done);
    };
    if revision::label(&app.metadata, label::PAUSE) == "true" || !is_ours(ctx, &app) {
        return Ok(Next::Done);
    }
    let mut app = Application::clone(&app);
    let deleting = app.metadata.deletion_timestamp.is_some();
    if !deleting && !finalize::is_on(&app) {
        app = finalize::put_on(ctx, &app).await?;
    }
    let (mut session, bad_policies) = match session(ctx, &app) {
        Ok(found) => found,
        Err(text) => return give_up(ctx, &app, app.status.clone(), Failed::synced(text)).await,
    };
    for name in session.trackers.of_other_uid() {
        let (io, store) = (&*ctx.io, &*ctx.trackers);
        session.trackers.relabel(io, store, &name, None).await?;
    }
    if deleting {
        return finalize::delete(ctx, &mut session, &app).await;
    }
    if let Some(text) = bad_policies {
        let failed = Failed::synced(messages::bad_policy(&text));
        return give_up(ctx, &app, app.status.clone(), failed).await;
    }
    let memory = ctx.memory(key);
    let before = fingerprint(ctx, &session, &app).await?;
    if memory.lock().settled == Some(before) {
        return Ok(Next::After(resync(ctx, &app)));
    }
    let mut wanted = app.status.clone();
    let now = Timestamp::now();
    let schedule = restart::schedule(ctx, &mut app, &mut wanted, now).await?;
    match run(ctx, &mut session, &app, wanted, now).await {
        Err((status, failed)) => give_up(ctx, &app, status, failed).await,
        Ok(end) => {
            let stored = match finalize::write_status(ctx, &app, &end.status).await {
                Ok(stored) => stored,
                // The Application changed meanwhile: its change is what counts.
                Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
                Err(error) if error.is_gone() => return Ok(Next::Done),
                Err(error) => return Err(error),
            };
            let app = stored.unwrap_or(app);
            memory.lock().settled = None;
            if end.settled {
                let after = fingerprint(ctx, &session, &app).await?;
                memory.lock().settled = Some(after);
            }
            let mut delay = end.again.unwrap_or_else(|| resync(ctx, &app));
            if let Some(at) = schedule {
                let until = at.duration_since(now).unsigned_abs();
                delay = delay.min(until.max(Duration::from_millis(100)));
            }
            Ok(Next::After(delay))
        }
    }
}

/// Whether this version of the controller handles the Application.
fn is_ours(ctx: &Context, app: &Application) -> bool {
    let required = revision::annotation(&app.metadata, annotation::CONTROLLER_VERSION_REQUIRE);
    if required.is_empty() {
        !ctx.settings.ignore_without_version
    } else {
        required == ctx.settings.version
    }
}

/// Reads what dispatching needs: identity, trackers, resource policies. A policy that cannot be read is told beside.
fn session<'c>(
    ctx: &'c Context,
    app: &Application,
) -> Result<(Session<'c>, Option<String>), String> {
    let metadata = &app.metadata;
    let owner = Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let gates = &ctx.settings.gates;
    let tracker_owner = trackers::Owner {
        name: owner.name.clone(),
        namespace: owner.namespace.clone(),
        uid: metadata.uid.clone().unwrap_or_default(),
        shard: revision::label(metadata, label::SCHEDULED_SHARD_ID).to_owned(),
    };
    let compression = if gates.zstd_resource_tracker {
        "zstd"
    } else if gates.gzip_resource_tracker {
        "gzip"
    } else {
        ""
    };
    let trackers = trackers::Trackers::read(&ctx.trackers, tracker_owner, compression)?;
    let values: Vec<_> = app
        .spec
        .policies
        .iter()
        .map(|policy| (policy.type_.as_str(), parse::properties(policy.properties.as_ref())))
        .collect();
    let (mut policies, errors) =
        ResourcePolicies::parse(values.iter().map(|(ty, value)| (*ty, value.as_ref())));
    let is_addon = !revision::label(metadata, label::ADDON_NAME).is_empty();
    if is_addon && !app.spec.policies.iter().any(|policy| policy.type_ == APPLY_ONCE) {
        policies.apply_once = Some(ApplyOnce { enable: true, rules: Vec::new() });
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let session = Session {
        ctx,
        owner,
        identity: identity::of(app, gates.authenticate_application, &ctx.settings.default_user),
        policies,
        trackers,
        generation: metadata.generation.unwrap_or_default(),
        publish_version: revision::publish_version(metadata).to_owned(),
        revision: latest,
        components: app.spec.components.iter().map(|c| c.name.clone()).collect(),
        now: seconds(Timestamp::now()),
    };
    Ok((session, errors.first().map(ToString::to_string)))
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Everything a settled Application depends on.
async fn fingerprint(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
) -> Result<u64, IoError> {
    let mut hasher = DefaultHasher::new();
    app.version().hash(&mut hasher);
    for (name, version) in session.trackers.versions() {
        (name, version).hash(&mut hasher);
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    let revision = Key::new(&*session.owner.namespace, latest);
    ctx.revisions.get(&revision).is_some().hash(&mut hasher);
    let current = session.trackers.current(session.run());
    for record in session.trackers.desired(&current) {
        let key = vela_apply::tracker::key_of(&record);
        let live = ctx.live.get(&record.api_version, &key).await?;
        live.map(|live| live.version().to_owned()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// When a settled Application is looked at again.
fn resync(ctx: &Context, app: &Application) -> Duration {
    let text = revision::annotation(&app.metadata, annotation::RECONCILE_INTERVAL);
    if text.is_empty() {
        return ctx.settings.resync;
    }
    let parsed: Option<vela_gocompat::duration::Duration> = text.parse().ok();
    match parsed.and_then(vela_gocompat::duration::Duration::to_std) {
        Some(interval) if interval >= SHORTEST_INTERVAL => interval,
        _ => {
            warn!(interval = text, "reconcile interval ignored: not a duration of 10s or more");
            ctx.settings.resync
        }
    }
}

/// What an event about an Application refers to.
fn about(app: &Application) -> About {
    About {
        api_version: vela_api::V1BETA1.to_owned(),
        kind: Application::KIND.to_owned(),
        namespace: app.metadata.namespace.clone().unwrap_or_default(),
        name: app.metadata.name.clone().unwrap_or_default(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        version: app.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// A negative end: condition, event, status, and another look after a delay.
async fn give_up(
    ctx: &Context,
    app: &Application,
    mut wanted: AppStatus,
    failed: Failed,
) -> Result<Next, IoError> {
    debug!(condition = failed.condition, message = failed.message, "reconcile failed");
    status::set_failed(&mut wanted, failed.condition, &failed.message, Timestamp::now());
    failed.phase.clone_into(&mut wanted.phase);
    if let Some(reason) = failed.event {
        let once = app.metadata.generation.unwrap_or_default().to_string();
        ctx.events.tell(&about(app), Severity::Warning, reason, &failed.message, &once);
    }
    match finalize::write_status(ctx, app, &wanted).await {
        Ok(_) => Ok(Next::Failed),
        Err(error) if error.is_conflict() => Ok(Next::After(Duration::ZERO)),
        Err(error) => Err(error),
    }
}

/// How a look at an Application ended.
struct End {
    status: AppStatus,
    /// When to look again; `None`: at the resync.
    again: Option<Duration>,
    /// Nothing is left to do or to wait for.
    settled: bool,
}

type Outcome<T> = Result<T, (AppStatus, Failed)>;

/// The phases from parsing on.
async fn run(
    ctx: &Context,
    session: &mut Session<'_>,
    app: &Application,
    mut status: AppStatus,
    now: Timestamp,
) -> Outcome<End> {
    let key = Key::new(&*session.owner.namespace, &*session.owner.name);
    let all = match revisions(ctx, &key) {
        Ok(all) => all,
        Err(text) => return Err((status, Failed::revision(text))),
    };
    let latest_name = status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let latest = all.iter().find(|r| r.metadata.name.as_deref() == Some(&latest_name));
    // A pinned Application is what its revision says, whatever its spec says now.
    let pinned = latest.filter(|revision| {
        !session.publish_version.is_empty()
            && revision::publish_version(&revision.metadata) == session.publish_version
    });
    let mut subject = app.clone();
    if let Some(pinned) = pinned {
        subject.spec = pinned.spec.application.spec.clone();
        session.components = subject.spec.components.iter().map(|c| c.name.clone()).collect();
    }
    // Parsing.
    let found = match pinned {
        Some(pinned) => Ok(from_revision(pinned)),
        None => collect(ctx, &subject, latest),
    };
    let Found { used, policies, workflow: referenced } = match found {
        Ok(found) => found,
        Err(text) => return Err((status, Failed::parsed(text))),
    };
    status::set_true(&mut status, types::PARSED, now);
    // Revision.
    let auto_update = !pinned_annotation(app).is_empty();
    let spec = revision::snapshot(&subject, &used, policies, referenced.clone());
    let choice = match pinned {
        Some(_) => Choice::Latest,
        None => revision::choose(&spec, &session.publish_version, &latest_name, &all, auto_update),
    };
    let (name, hash, used) = match choice {
        Choice::Latest => {
            let Some(latest) = latest else {
                return Err((status, Failed::revision(messages::LATEST_REVISION_GONE)));
            };
            let hash = revision::label(&latest.metadata, label::APP_REVISION_HASH).to_owned();
            (latest_name.clone(), hash, renewed(latest, used))
        }
        Choice::Older(name) => {
            let found = all.iter().find(|r| r.metadata.name.as_deref() == Some(&name));
            let hash = found
                .map(|r| revision::label(&r.metadata, label::APP_REVISION_HASH).to_owned())
                .unwrap_or_default();
            (name, hash, used)
        }
        Choice::New => match create_revision(ctx, session, &subject, spec, &all, &status).await {
            Ok((name, hash)) => (name, hash, used),
            Err(error) => return Err((status, Failed::revision(error.to_string()))),
        },
    };
    session.revision.clone_from(&name);
    status.latest_revision = Some(LatestRevision {
        name: name.clone(),
        revision: revision::number(&name),
        revision_hash: hash.clone(),
    });
    status::set_true(&mut status, types::REVISION, now);
    let frame = frame(&subject, &name, &hash);
    // Policies that are objects.
    match apply_policies(session, &frame, &subject, &used).await {
        Ok(()) => status::set_true(&mut status, types::POLICY, now),
        Err(text) => return Err((status, Failed::policy(text))),
    }
    // Workflow.
    let token = if session.publish_version.is_empty() {
        name.clone()
    } else {
        session.publish_version.clone()
    };
    if let Err(text) = begin_run(ctx, session, app, &mut status, &token, &subject, now).await {
        return Err((status, Failed::workflow(text)));
    }
    let workflow = match generate::workflow(&subject, referenced.as_ref()) {
        Ok(workflow) => workflow,
        Err(error) => return Err((status, Failed::workflow(error.to_string()))),
    };
    status::set_true(&mut status, types::RENDER, now);
    tell_progress(ctx, app, &token);
    let run = workflow::Run { app: &subject, used: &used, frame: &frame, workflow: &workflow };
    let stored = status.workflow.clone().unwrap_or_default();
    let engine = convert::from_api(&stored);
    let done = stored.finished && engine.phase.is_final();
    let mut again = None;
    let phase = if done {
        engine.phase
    } else {
        let (memory, variables) = remembered(ctx, &key, &stored, &token);
        let ran = workflow::pass(session, &run, engine, memory, variables, now).await;
        let workflow::Ran { progress, services, applied } = ran;
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
        status.workflow = Some(next);
        {
            let memory = ctx.memory(&key);
            let mut memory = memory.lock();
            memory.workflow = progress.memory;
            memory.variables = (token.clone(), progress.variables);
        }
        again = progress.again;
        if progress.phase.is_final() {
            finish(ctx, session, app, &mut status, progress.phase, &name).await;
        }
        progress.phase
    };
    let in_spec = |name: &str| session.components.iter().any(|component| component == name);
    status.services.retain(|service| in_spec(&service.name));
    let mut end = End { status, again, settled: false };
    after_workflow(session, app, &run, phase, done, &mut end, now).await;
    Ok(end)
}

fn pinned_annotation(app: &Application) -> &str {
    revision::annotation(&app.metadata, annotation::AUTO_UPDATE)
}

/// The revisions of an Application, expanded.
fn revisions(ctx: &Context, key: &Key) -> Result<Vec<ApplicationRevision>, String> {
    let mut all = Vec::new();
    for stored in ctx.revisions.indexed(key) {
        let mut revision = ApplicationRevision::clone(&stored);
        revision.expand().map_err(|error| error.to_string())?;
        all.push(revision);
    }
    Ok(all)
}

/// What parsing found.
struct Found {
    used: Used,
    policies: BTreeMap<String, Policy>,
    workflow: Option<Workflow>,
}

/// Looks everything up that the Application refers to.
fn collect(
    ctx: &Context,
    app: &Application,
    latest: Option<&ApplicationRevision>,
) -> Result<Found, String> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let reference = app.spec.workflow.as_ref().map(|w| w.reference.as_str()).unwrap_or_default();
    let workflow = if reference.is_empty() {
        None
    } else {
        let found = ctx.definitions.workflows.get(&Key::new(namespace, reference));
        Some(Workflow::clone(&*found.ok_or_else(|| messages::no_such_workflow(reference))?))
    };
    let (steps, ..) = generate::steps(app, workflow.as_ref()).map_err(|e| e.to_string())?;
    let source = parse::Source {
        definitions: &ctx.definitions,
        namespace,
        auto_update: pinned_annotation(app) == "true",
        fallback: latest,
    };
    let used = parse::collect(app, &steps, source).map_err(|error| error.to_string())?;
    Ok(Found { used, policies: BTreeMap::new(), workflow })
}

/// Everything as a revision holds it.
fn from_revision(revision: &ApplicationRevision) -> Found {
    fn all<T: Clone>(map: &BTreeMap<String, T>) -> BTreeMap<String, Arc<T>> {
        map.iter().map(|(name, value)| (name.clone(), Arc::new(value.clone()))).collect()
    }
    let spec = &revision.spec;
    Found {
        used: Used {
            components: all(&spec.component_definitions),
            workloads: all(&spec.workload_definitions),
            traits: all(&spec.trait_definitions),
            policies: all(&spec.policy_definitions),
            steps: all(&spec.workflow_step_definitions),
        },
        policies: spec.policies.clone(),
        workflow: spec.workflow.clone(),
    }
}

/// The definitions of an unchanged Application: components as the revision holds them, traits and steps as they are now.
fn renewed(latest: &ApplicationRevision, fresh: Used) -> Used {
    let stored = from_revision(latest).used;
    Used { traits: fresh.traits, steps: fresh.steps, ..stored }
}

fn frame(app: &Application, revision: &str, hash: &str) -> Frame {
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
    }
}

/// Stores a new revision under a number nobody had. Returns its name and hash.
async fn create_revision(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
    spec: vela_api::revision::ApplicationRevisionSpec,
    all: &[ApplicationRevision],
    status: &AppStatus,
) -> Result<(String, String), IoError> {
    let own = Identity::default();
    let hash = vela_api::hash::application_revision(&spec);
    let latest = status.latest_revision.as_ref().map_or(0, |r| r.revision);
    let views = session.trackers.views();
    let seen = all
        .iter()
        .filter_map(|r| r.metadata.name.as_deref())
        .chain(views.iter().map(|tracker| tracker.revision.as_str()));
    let mut number = revision::next_number(latest, seen);
    let gates = &ctx.settings.gates;
    loop {
        let name = format!("{}-v{number}", session.owner.name);
        let mut object = revision::object(app, &name, &hash, spec.clone());
        if gates.zstd_application_revision {
            "zstd".clone_into(&mut object.spec.compression.type_);
        } else if gates.gzip_application_revision {
            "gzip".clone_into(&mut object.spec.compression.type_);
        }
        let stored = object.to_stored().map_err(|e| IoError::Transport(e.to_string()))?;
        let value = serde_json::to_value(stored).map_err(|e| IoError::Transport(e.to_string()))?;
        match ctx.io.create(&value, false, &own).await {
            Ok(answer) => {
                took_revision(ctx, answer);
                return Ok((name, hash));
            }
            // Somebody else's object has the name, or the cache is behind: the next number is free.
            Err(error) if error.is_already_exists() => number = number.saturating_add(1),
            Err(error) => return Err(error),
        }
    }
}

fn took_revision(ctx: &Context, answer: Value) {
    if let Ok(stored) = serde_json::from_value::<ApplicationRevision>(answer) {
        let _ = ctx.revisions.put(stored);
    }
}

/// Renders and dispatches the policies that have a definition of their own.
async fn apply_policies(
    session: &mut Session<'_>,
    frame: &Frame,
    app: &Application,
    used: &Used,
) -> Result<(), String> {
    let policies: Vec<_> = parse::rendered_policies(&app.spec.policies).cloned().collect();
    for policy in policies {
        let Some(found) = parse::stored(&used.policies, &policy.type_) else { continue };
        let mut manifests =
            component::render_policy(session.ctx, frame, &policy, found.as_ref()).await?;
        session.dispatch(&mut manifests, "").await?;
    }
    Ok(())
}

/// Begins a new run of the workflow if the revision (or the publishVersion) is another than that of the present run, or if
/// the tracker of the present run is lost.
async fn begin_run(
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

/// The events of a run that came this far.
fn tell_progress(ctx: &Context, app: &Application, token: &str) {
    let about = about(app);
    for (reason, message) in [
        (event::PARSED, messages::PARSED),
        (event::REVISIONED, messages::REVISIONED),
        (event::POLICY_GENERATED, messages::POLICY_GENERATED),
        (event::RENDERED, messages::RENDERED),
    ] {
        ctx.events.tell(&about, Severity::Normal, reason, message, token);
    }
}

/// Counters and variables of the run so far.
fn remembered(
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

/// The run is over: conditions, events, and the revision's own record of it.
async fn finish(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
    status: &mut AppStatus,
    phase: WorkflowPhase,
    revision: &str,
) {
    let now = Timestamp::now();
    if phase == WorkflowPhase::Succeeded {
        status::set_true(status, types::WORKFLOW, now);
        let about = about(app);
        let message = messages::WORKFLOW_FINISHED;
        ctx.events.tell(&about, Severity::Normal, event::APPLIED, message, revision);
    }
    let body = json!({"status": {
        "succeeded": phase == WorkflowPhase::Succeeded,
        "workflow": status.workflow,
        "workflowContext": {"vars": "\n"},
    }});
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: ApplicationRevision::KIND,
        namespace: &session.owner.namespace,
        name: revision,
    };
    let own = Identity::default();
    match ctx.io.patch(&target, "status", (PatchKind::Merge, &body), false, &own).await {
        Ok(answer) => took_revision(ctx, answer),
        // The record is informational; the Application's own status says the same.
        Err(error) => warn!(%error, revision, "the revision's status could not be written"),
    }
}

/// Health, state-keep, collection and the phase, as far as the workflow's state allows.
async fn after_workflow(
    session: &mut Session<'_>,
    app: &Application,
    run: &workflow::Run<'_>,
    workflow: WorkflowPhase,
    was_done: bool,
    end: &mut End,
    now: Timestamp,
) {
    let ctx = session.ctx;
    status::phase_of(workflow).clone_into(&mut end.status.phase);
    let succeeded = workflow == WorkflowPhase::Succeeded;
    if succeeded {
        let current = session.trackers.current(session.run());
        end.status.applied_resources = session
            .trackers
            .records(&current)
            .iter()
            .map(|record| status::reference(record, vela_api::names::creator::WORKFLOW))
            .collect();
        if was_done {
            health::refresh(session, run, &mut end.status).await;
        }
        if !status::is_healthy(&end.status.services) && !health::is_managed(run) {
            phase::UNHEALTHY.clone_into(&mut end.status.phase);
        }
    }
    let mut settled = workflow.is_final() || workflow == WorkflowPhase::Suspending;
    if succeeded || workflow == WorkflowPhase::Suspending {
        settled &= keep_state(session, app, end, now).await;
    }
    let goes_on =
        workflow == WorkflowPhase::Failed && session.policies.garbage_collect.continue_on_failure;
    let scope = if succeeded || goes_on { Scope::History } else { Scope::Marked };
    // What the decision was made for must still be the newest spec.
    let newest = ctx.apps.get(&Key::new(&*session.owner.namespace, &*session.owner.name));
    if newest.is_none_or(|newest| newest.metadata.generation != app.metadata.generation) {
        end.again = Some(Duration::ZERO);
        return;
    }
    let spared = if succeeded { Vec::new() } else { session.components.clone() };
    let collected = gc::collect(session, app, scope, &spared).await;
    if let Some(error) = &collected.error {
        status::set_collecting(&mut end.status, &messages::gc_failed(error), now);
        let text = error.clone();
        ctx.events.tell(&about(app), Severity::Warning, event::FAILED_GC, &text, "");
        end.again = Some(LOOK_AGAIN);
        return;
    }
    if !collected.waiting.is_empty() {
        let text = messages::waiting_for(&collected.waiting);
        status::set_collecting(&mut end.status, &text, now);
        end.again = Some(end.again.map_or(LOOK_AGAIN, |again| again.min(LOOK_AGAIN)));
        return;
    }
    if succeeded {
        let latest =
            end.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
        let limit = session
            .policies
            .garbage_collect
            .application_revision_limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(ctx.settings.application_revision_limit);
        if let Err(error) = gc::collect_revisions(session, &[&latest], limit).await {
            warn!(%error, "old revisions could not be deleted");
        }
        if end.status.conditions.iter().all(|c| c.type_ != types::STATE_KEEP || c.is_true()) {
            status::set_ready(&mut end.status, now);
            ctx.events.tell(
                &about(app),
                Severity::Normal,
                event::DEPLOYED,
                messages::DEPLOYED,
                &latest,
            );
        }
    }
    end.settled = settled;
}

/// Puts drifted objects back. Returns whether all went well.
async fn keep_state(
    session: &Session<'_>,
    app: &Application,
    end: &mut End,
    now: Timestamp,
) -> bool {
    let (repaired, errors) = statekeep::keep(session).await;
    let ctx = session.ctx;
    let about = about(app);
    for one in &repaired {
        ctx.events.tell(&about, Severity::Normal, "DriftCorrected", &one.message, "");
    }
    if errors.is_empty() {
        end.status.conditions.retain(|c| c.type_ != types::STATE_KEEP);
        return true;
    }
    let text = messages::errors(&errors);
    status::set_failed(&mut end.status, types::STATE_KEEP, &text, now);
    ctx.events.tell(&about, Severity::Warning, event::FAILED_STATE_KEEP, &text, "");
    end.again = Some(end.again.map_or(LOOK_AGAIN * 5, |again| again.min(LOOK_AGAIN * 5)));
    false
}

/// A reconcile of the Application panicked: its owner hears of it, the others do not.
pub async fn tell_broken(ctx: &Context, key: &Key, text: &str) {
    let Some(app) = ctx.apps.get(key) else { return };
    let message = messages::reconcile_panicked(text);
    ctx.events.tell(&about(&app), Severity::Warning, "ReconcileError", &message, "");
    let mut wanted = app.status.clone();
    status::set_failed(&mut wanted, types::SYNCED, &message, Timestamp::now());
    if let Err(error) = finalize::write_status(ctx, &app, &wanted).await {
        warn!(%error, "the condition could not be written");
    }
}
