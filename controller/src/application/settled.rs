//! Whether a reconcile has anything to do: what an Application depends on, as hashes, compared with what the last complete
//! reconcile left. Nothing is decoded for that: of the ResourceTrackers only the names and versions are read.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use vela_api::Application;
use vela_api::names::annotation;
use vela_apply::ResourceKey;
use vela_cluster::members::Snapshot;
use vela_cluster::{ApiError, Stored};

use super::facts::{self, resolve};
use super::lifecycle::conflict;
use super::memory::Fingerprint;
use super::session::Session;
use super::session::reach::live_objects;
use super::{policies, release, write};
use crate::application::context::AppContext;
use crate::queue::{Key, Next};

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a status is held back that says the same in other words.
pub(super) const STATUS_DEBOUNCE: Duration = Duration::from_secs(1);

/// The objects that must live, as the ResourceTrackers of some versions record them.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Names and versions of the trackers, as a hash.
    trackers: u64,
    /// Objects with their `apiVersion`.
    objects: Box<[(Box<str>, ResourceKey)]>,
    /// The other clusters that any tracker names.
    clusters: BTreeSet<String>,
}

/// The state of what belongs to an Application, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Objects {
    versions: u64,
    /// Without the statuses of its objects.
    content: u64,
    /// Something of it is not among the objects that are watched: it is only read, or it is gone.
    pub(super) unwatched: bool,
}

/// When to reconcile again if there is nothing to do now.
///
/// # Errors
/// A status that was held back cannot be written, or objects are still being listed.
pub(super) async fn rest(
    ctx: &AppContext,
    key: &Key,
    app: &Application,
) -> Result<Option<Next>, ApiError> {
    let memory = ctx.memory(key);
    let (rest, recorded) = {
        let memory = memory.lock();
        (memory.settled, memory.recorded.clone())
    };
    // Nothing is settled before the first complete reconcile of this process.
    let (Some(rest), Some(recorded)) = (rest, recorded) else { return Ok(None) };
    // A definition may change without a change of the Application or its objects.
    if rest.fingerprint.app != of_version(app) || facts::follows_definitions(app) {
        return Ok(None);
    }
    // Names and versions alone: decoding trackers is what a pass over settled Applications must not
    // pay for.
    let stored = ctx.trackers.indexed(key);
    if recorded.trackers != versions(stored.iter().map(|it| (it.key(), it.version())).collect()) {
        return Ok(None);
    }
    // Some object cannot be seen, as when its cluster is away: the phases say what that means.
    let Some(objects) = objects(ctx, key, &ctx.clusters.snapshot(), app, &recorded).await? else {
        return Ok(None);
    };
    let fingerprint = fingerprint(app, objects);
    if rest.fingerprint != fingerprint || rest.triggered {
        // A rollout is many changes in a row, and so is a status that says how its object is. What drifted does not wait.
        let same = rest.waits || rest.fingerprint.is_like(fingerprint);
        // Counted from the last complete reconcile, so that a stream of changes cannot put the next
        // one off for ever.
        let left = rest.pause.saturating_sub(rest.since.elapsed());
        let left = Some(left).filter(|left| same && !left.is_zero());
        return Ok(left.map(Next::After));
    }
    // Nothing changed. `due` is the time of a step, of a repair or of the resync.
    match rest.due.map(|due| due.saturating_duration_since(Instant::now())) {
        None => Ok(Some(Next::Resync(resync(ctx, app)))),
        Some(left) if !left.is_zero() => {
            write_deferred(ctx, key, app, left, objects).await.map(Some)
        }
        Some(_) => Ok(None),
    }
}

/// A reconcile before its time: nothing is done but what was held back. That is no attempt of a step.
async fn write_deferred(
    ctx: &AppContext,
    key: &Key,
    app: &Application,
    left: Duration,
    objects: Objects,
) -> Result<Next, ApiError> {
    let memory = ctx.memory(key);
    let Some(held) = memory.lock().deferred.clone() else { return Ok(Next::After(left)) };
    let wait = STATUS_DEBOUNCE.saturating_sub(held.since.elapsed());
    if !wait.is_zero() {
        return Ok(Next::After(left.min(wait)));
    }
    // Taken out before it is written: if the write fails, the next reconcile computes the status
    // again.
    memory.lock().deferred = None;
    match write::write_status(ctx, app, &held.status).await {
        Ok(None) => {}
        Ok(Some(stored)) => {
            if let Some(settled) = &mut memory.lock().settled {
                // The write itself changed the Application's version; it must not count as a change
                // by somebody else.
                settled.fingerprint = fingerprint(&stored, objects);
            }
        }
        Err(error) if error.is_conflict() => return conflict::requeue(ctx, app).await,
        // Deleted in the meantime, which the watch reports too.
        Err(error) if error.is_not_found() => return Ok(Next::Done),
        Err(error) => return Err(error),
    }
    Ok(Next::After(left))
}

/// When a settled Application is checked again.
pub(super) fn resync(ctx: &AppContext, app: &Application) -> Duration {
    let text = facts::annotation(&app.metadata, annotation::RECONCILE_INTERVAL);
    if text.is_empty() {
        return ctx.settings.resync;
    }
    // Written by tenants: a short interval would let one Application take the workers of all.
    let parsed: Option<vela_gocompat::duration::Duration> = text.parse().ok();
    match parsed.and_then(vela_gocompat::duration::Duration::to_std) {
        Some(interval) if interval >= SHORTEST_INTERVAL => interval,
        _ => {
            warn!(interval = text, "reconcile interval ignored: not a duration of 10s or more");
            ctx.settings.resync
        }
    }
}

/// Everything a settled Application depends on.
pub(super) fn fingerprint(app: &Application, objects: Objects) -> Fingerprint {
    let Objects { versions, content, .. } = objects;
    Fingerprint { app: of_version(app), objects: versions, content }
}

fn of_version(app: &Application) -> u64 {
    let mut hasher = DefaultHasher::new();
    app.version().hash(&mut hasher);
    hasher.finish()
}

/// Trackers with their versions, in any order.
fn versions(mut trackers: Vec<(Key, &str)>) -> u64 {
    trackers.sort_unstable();
    let mut hasher = DefaultHasher::new();
    trackers.hash(&mut hasher);
    hasher.finish()
}

/// The state of everything that the trackers of a reconcile record, and what that is; `None` if some of it cannot be seen. That
/// is no failure of the reconcile: the newest spec may not need it.
///
/// # Errors
/// Some of it is still being listed, as for all Applications after a start; that is not reported.
pub(super) async fn objects_of(
    session: &Session<'_>,
    app: &Application,
) -> Result<Option<(Objects, Arc<Recorded>)>, ApiError> {
    let current = session.trackers.current(session.run());
    let desired = session.trackers.desired(&current).into_iter();
    let recorded = Recorded {
        trackers: versions(
            session
                .trackers
                .versions()
                .map(|(name, version)| (Key::new("", name), version))
                .collect(),
        ),
        objects: desired
            .map(|record| (record.api_version.as_str().into(), vela_apply::tracker::key_of(record)))
            .collect(),
        clusters: session.trackers.clusters(),
    };
    let found = objects(session.ctx, &session.key(), &session.clusters, app, &recorded).await?;
    Ok(found.map(|objects| (objects, Arc::new(recorded))))
}

async fn objects(
    ctx: &AppContext,
    app_key: &Key,
    clusters: &Snapshot,
    app: &Application,
    recorded: &Recorded,
) -> Result<Option<Objects>, ApiError> {
    let mut hasher = DefaultHasher::new();
    policies::fingerprint(ctx, app).hash(&mut hasher);
    resolve::fingerprint(ctx, app).hash(&mut hasher);
    ctx.calls.seen(app_key).hash(&mut hasher);
    recorded.trackers.hash(&mut hasher);
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    let revision = Key::new(&*app_key.namespace, latest);
    ctx.revisions.get(&revision).is_some().hash(&mut hasher);
    let mut content = hasher.clone();
    // Nobody says when values change that are elsewhere.
    let mut unwatched = release::has_values(app);
    if !recorded.clusters.is_empty() {
        clusters.hash_identities(&mut content);
    }
    for cluster in &recorded.clusters {
        ctx.clusters.concerns(cluster, app_key);
        // What an older tracker records of a cluster is collected once the cluster can be reached.
        let away = live_objects(ctx, clusters, app_key, cluster).err().map(|it| it.to_string());
        away.hash(&mut hasher);
        away.hash(&mut content);
    }
    for (cluster, entries) in ctx.clusters.back(app_key) {
        // What was left behind in a cluster that is there again is to be recorded.
        (cluster, entries.len()).hash(&mut content);
    }
    for (api_version, key) in &recorded.objects {
        // As long as a cluster cannot be reached, there is nothing to check there.
        let Ok(live) = live_objects(ctx, clusters, app_key, &key.cluster) else { continue };
        let live = match live.seen(api_version, key).await {
            Err(error @ ApiError::Listing { .. }) => return Err(error),
            Err(_) => return Ok(None),
            Ok(live) => live,
        };
        unwatched |= live.is_none();
        live.as_deref().map(Stored::version).hash(&mut hasher);
        live.as_deref().map(|live| live.content).hash(&mut content);
    }
    Ok(Some(Objects { versions: hasher.finish(), content: content.finish(), unwatched }))
}
