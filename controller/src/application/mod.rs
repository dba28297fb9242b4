//! One look at one Application: facts are read from the caches, each phase decides, effects follow, and the status is
//! written once at the end.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/application/application_controller.go`. Here: the facts, the
//! life cycle, and whether there is anything to do; the phases themselves are in `phases.rs`, what follows the workflow in `end.rs`. A look at an Application about which
//! nothing changed since the last complete one ends before all of them.

pub mod apply;
mod begin;
pub mod component;
pub mod dispatch;
mod end;
mod failure;
pub mod finalize;
pub mod gc;
pub mod health;
mod history;
pub mod identity;
mod legacy;
pub mod parse;
mod phases;
pub mod referred;
mod resolve;
pub mod restart;
mod revise;
pub mod revision;
pub(crate) mod scoped;
pub mod statekeep;
pub mod status;
pub mod trackers;
pub mod workflow;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;
use vela_api::application::ApplicationSpec;
use vela_api::names::{annotation, label};
use vela_api::{Application, ObjectMeta};
use vela_apply::policy::{APPLY_ONCE, ApplyOnce};
use vela_apply::{Owner, ResourcePolicies};
use vela_cluster::{IoError, Stored};

use crate::context::{AppMemory, Context, Held, Settled};
use crate::events::About;
use crate::messages;
use crate::queue::{Key, Next};

use dispatch::Session;
use end::End;
pub(crate) use failure::tell_broken;
use failure::{Failed, give_up};

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a status is held back that says the same in other words.
const HELD: Duration = Duration::from_secs(1);

/// Looks at an Application.
///
/// # Errors
/// Requests about the Application itself failed; it is looked at again.
pub async fn reconcile(ctx: &Context, key: &Key) -> Result<Next, IoError> {
    let told = ctx.queue.take_told(key);
    let Some(app) = ctx.apps.get(key) else {
        ctx.forget(key);
        return Ok(Next::Done);
    };
    if revision::label(&app.metadata, label::PAUSE) == "true" || !is_ours(ctx, &app) {
        return Ok(Next::Done);
    }
    let mut app = Application::clone(&app);
    let deleting = app.metadata.deletion_timestamp.is_some();
    let fresh = !deleting && !finalize::is_on(&app);
    if fresh {
        app = match finalize::put_on(ctx, &app).await {
            // The Application changed meanwhile: its change is what counts.
            Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
            other => other?,
        };
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
        if let Some(spec) = scoped::deployed(ctx, &app) {
            (session.policies, _) = resource_policies(&app.metadata, &spec);
            app.spec = spec;
        }
        return finalize::delete(ctx, &mut session, &app).await;
    }
    if let Some(text) = bad_policies {
        let failed = Failed::synced(messages::bad_policy(&text));
        return give_up(ctx, &app, app.status.clone(), failed).await;
    }
    if legacy::is_over(&session, &app) {
        app = match legacy::stamp(ctx, &app).await {
            Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
            other => other?,
        };
    }
    let memory = ctx.memory(key);
    let objects = objects(ctx, &session, &app).await?;
    // What happened while the last look was under way is not part of what that look saw, and definitions never are.
    let rest = memory.lock().settled;
    let rest = rest.filter(|rest| (!told || rest.alone) && !resolve::follows_definitions(&app));
    if let Some(rest) = rest
        && rest.seen == fingerprint(&app, objects)
    {
        let left = rest.due.map(|due| Timestamp::now().duration_until(due));
        match left.map(Duration::try_from) {
            None => return Ok(Next::After(resync(ctx, &app))),
            Some(Ok(left)) if !left.is_zero() => {
                return rest_on(ctx, &memory, &app, objects, left).await;
            }
            Some(_) => {}
        }
    }
    let mut wanted = app.status.clone();
    let made = match Box::pin(scoped::run(ctx, &app, &mut wanted)).await {
        Ok(scoped::Came::None) => None,
        Ok(scoped::Came::Again) => return Ok(Next::After(Duration::ZERO)),
        Ok(scoped::Came::To(made)) => Some(made),
        Err(failed) => return give_up(ctx, &app, wanted, failed).await,
    };
    if let Some(made) = &made {
        let (policies, bad) = resource_policies(&app.metadata, &made.spec);
        if let Some(text) = bad {
            let failed = Failed::synced(messages::bad_policy(&text));
            return give_up(ctx, &app, wanted, failed).await;
        }
        session.policies = policies;
        session.components = made.spec.components.iter().map(|c| c.name.clone()).collect();
    }
    let now = Timestamp::now();
    let schedule = match restart::schedule(ctx, &mut app, &mut wanted, now).await {
        Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
        other => other?,
    };
    let held = memory.lock().held.take().map(|held| held.since);
    match Box::pin(phases::run(ctx, &mut session, &app, made.as_deref(), wanted, now)).await {
        Err((status, failed)) => match Box::pin(give_up(ctx, &app, status, failed)).await {
            Err(error) if error.is_gone() => finalize::gone(&mut session, &app, fresh).await,
            other => other,
        },
        Ok(mut end) => {
            restart::plan_next(&app, &mut end.status, now);
            let held = hold(&memory, &app, &end, held);
            if held.is_some() {
                app.status.clone_into(&mut end.status);
            }
            let stored = match finalize::write_status(ctx, &app, &end.status).await {
                Ok(stored) => stored,
                // The Application changed meanwhile: its change is what counts.
                Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
                Err(error) if error.is_gone() => {
                    return finalize::gone(&mut session, &app, fresh).await;
                }
                Err(error) => return Err(error),
            };
            let app = stored.unwrap_or(app);
            memory.lock().settled = None;
            let mut delay = end.again;
            // a step may have asked for another run
            let schedule = schedule.or_else(|| restart::due_in_future(&app.status, now));
            if let Some(at) = schedule {
                let until = at.duration_since(now).unsigned_abs().max(Duration::from_millis(100));
                delay = Some(delay.map_or(until, |delay| delay.min(until)));
            }
            // A workflow that waits is looked at when its time has come or an object changed, not because its status was
            // written; attempts keep their distance that way.
            let waits = app.status.workflow.as_ref().is_some_and(|workflow| !workflow.finished);
            let rests = end.settled || (waits && delay.is_some_and(|delay| !delay.is_zero()));
            if rests {
                let after = self::objects(ctx, &session, &app).await?;
                let due = delay.and_then(|delay| Timestamp::now().checked_add(delay).ok());
                let (seen, alone) = (fingerprint(&app, after), after == objects);
                memory.lock().settled = Some(Settled { seen, due, alone });
            }
            let delay = delay.unwrap_or_else(|| resync(ctx, &app));
            Ok(Next::After(held.map_or(delay, |left| delay.min(left))))
        }
    }
}

/// A status that says the same in other words waits for what comes next: each of them would be a write, and a rollout has
/// many. `since` is when the first of them began to wait. Returns how long this one may.
fn hold(
    memory: &Mutex<AppMemory>,
    app: &Application,
    end: &End,
    since: Option<Instant>,
) -> Option<Duration> {
    // Only what is looked at again by itself can be written later.
    end.again.filter(|again| !again.is_zero())?;
    let is_told = app.status.observed_generation == app.metadata.generation.unwrap_or_default();
    if !is_told || app.status == end.status || !status::differ_in_words(&app.status, &end.status) {
        return None;
    }
    let since = since.unwrap_or_else(Instant::now);
    let left = HELD.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
    memory.lock().held = Some(Held { since, status: Box::new(end.status.clone()) });
    Some(left)
}

/// A look before its time: nothing is done but what was held back. That is no attempt of a step.
async fn rest_on(
    ctx: &Context,
    memory: &Mutex<AppMemory>,
    app: &Application,
    objects: u64,
    left: Duration,
) -> Result<Next, IoError> {
    let Some(held) = memory.lock().held.clone() else { return Ok(Next::After(left)) };
    let wait = HELD.saturating_sub(held.since.elapsed());
    if !wait.is_zero() {
        return Ok(Next::After(left.min(wait)));
    }
    memory.lock().held = None;
    match finalize::write_status(ctx, app, &held.status).await {
        Ok(None) => {}
        Ok(Some(stored)) => {
            if let Some(settled) = &mut memory.lock().settled {
                settled.seen = fingerprint(&stored, objects);
            }
        }
        Err(error) if error.is_conflict() => return Ok(Next::After(Duration::ZERO)),
        Err(error) if error.is_gone() => return Ok(Next::Done),
        Err(error) => return Err(error),
    }
    Ok(Next::After(left))
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
    let _time = ctx.metrics.stage("create-app-handler");
    ctx.metrics.tracker_lists.with_label_values(&["application"]).inc();
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
    let (policies, bad_policies) = resource_policies(metadata, &app.spec);
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
        unstored: None,
        refused: None,
    };
    Ok((session, bad_policies))
}

/// The resource policies of a spec; beside it the first that cannot be read.
fn resource_policies(
    metadata: &ObjectMeta,
    spec: &ApplicationSpec,
) -> (ResourcePolicies, Option<String>) {
    let written = spec.policies.iter();
    let values: Vec<_> = written
        .map(|policy| (policy.type_.as_str(), parse::properties(policy.properties.as_ref())))
        .collect();
    let (mut policies, errors) =
        ResourcePolicies::parse(values.iter().map(|(ty, value)| (*ty, value.as_ref())));
    let is_addon = !revision::label(metadata, label::ADDON_NAME).is_empty();
    if is_addon && !spec.policies.iter().any(|policy| policy.type_ == APPLY_ONCE) {
        policies.apply_once = Some(ApplyOnce { enable: true, rules: Vec::new() });
    }
    (policies, errors.first().map(ToString::to_string))
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Everything a settled Application depends on.
fn fingerprint(app: &Application, objects: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (app.version(), objects).hash(&mut hasher);
    hasher.finish()
}

/// The state of everything that belongs to an Application.
async fn objects(ctx: &Context, session: &Session<'_>, app: &Application) -> Result<u64, IoError> {
    let mut hasher = DefaultHasher::new();
    scoped::seen(ctx, app).hash(&mut hasher);
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
