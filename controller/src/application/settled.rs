//! Whether a reconcile has anything to do: what an Application depends on, as hashes, compared with what the last complete
//! reconcile left. Nothing is decoded for that: of the ResourceTrackers only the names and versions are read.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::warn;
use vela_api::Application;
use vela_api::names::annotation;
use vela_apply::object::is_local;
use vela_cluster::members::Snapshot;
use vela_cluster::{ApiError, Stored};

use super::converge::more_clusters;
use super::dispatch::together::GRACE;
use super::facts::{self, resolve};
use super::lifecycle::conflict;
use super::memory::{AppCache, Fingerprint, Recorded, Settled};
use super::session::Session;
use super::session::reach::live_objects;
use super::{policies, release, write};
use crate::application::context::AppContext;
use crate::queue::{Key, Next};

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a status is held back that says the same in other words.
pub(super) const STATUS_DEBOUNCE: Duration = Duration::from_secs(1);

/// The state of what belongs to an Application, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Objects {
    versions: u64,
    /// Without the statuses of its objects.
    content: u64,
    /// Something of it is not among the objects that are watched: it is only read, or it is gone.
    pub(super) unwatched: bool,
}

/// An Application, and the clusters as they are now.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    ctx: &'a AppContext,
    key: Key,
    app: &'a Application,
    clusters: Arc<Snapshot>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(ctx: &'a AppContext, key: Key, app: &'a Application) -> Self {
        Self { ctx, key, app, clusters: ctx.clusters.snapshot() }
    }

    /// When to reconcile again if there is nothing to do now.
    ///
    /// # Errors
    /// A status that was held back cannot be written, or objects are still being listed.
    pub(super) async fn rest(&self) -> Result<Option<Next>, ApiError> {
        let memory = self.ctx.memory(&self.key);
        let (rest, recorded) = {
            let memory = memory.lock();
            (memory.settled, memory.recorded.clone())
        };
        let (Some(rest), Some(recorded)) = (rest, recorded) else { return Ok(None) };
        // A definition may change without a change of the Application or its objects.
        if !is_of(&rest, self.app) || facts::follows_definitions(self.app) {
            return Ok(None);
        }
        let stored = self.ctx.trackers.indexed(&self.key);
        let stored = stored.iter().map(|tracker| (tracker.key(), tracker.version()));
        if recorded.trackers != versions(stored.collect()) {
            return Ok(None);
        }
        let Some(objects) = self.objects(&recorded, false).await? else { return Ok(None) };
        let fingerprint = fingerprint(self.app, objects);
        if rest.fingerprint != fingerprint || rest.triggered {
            // A rollout is many changes in a row, and so is a status that says how its object is. What drifted does not wait.
            let same = rest.waits || rest.fingerprint.is_like(fingerprint);
            let left = rest.pause.saturating_sub(rest.since.elapsed());
            let left = Some(left).filter(|left| same && !left.is_zero());
            return Ok(left.map(Next::After));
        }
        // Nothing changed. `due` is the time of a step, of a repair or of the resync.
        match rest.due.map(|due| due.saturating_duration_since(Instant::now())) {
            None => Ok(Some(Next::Resync(resync(self.ctx, self.app)))),
            Some(left) if !left.is_zero() => {
                self.write_deferred(&memory, left, objects).await.map(Some)
            }
            Some(_) => Ok(None),
        }
    }

    /// A reconcile before its time: nothing is done but what was held back. That is no attempt of a step.
    async fn write_deferred(
        &self,
        memory: &Mutex<AppCache>,
        left: Duration,
        objects: Objects,
    ) -> Result<Next, ApiError> {
        let Some(held) = memory.lock().deferred.clone() else { return Ok(Next::After(left)) };
        let wait = STATUS_DEBOUNCE.saturating_sub(held.since.elapsed());
        if !wait.is_zero() {
            return Ok(Next::After(left.min(wait)));
        }
        memory.lock().deferred = None;
        match write::write_status(self.ctx, self.app, &held.status).await {
            Ok(None) => {}
            Ok(Some(stored)) => {
                if let Some(settled) = &mut memory.lock().settled {
                    settled.fingerprint = fingerprint(&stored, objects);
                }
            }
            Err(error) if error.is_conflict() => {
                return conflict::requeue(self.ctx, self.app).await;
            }
            // Deleted in the meantime, which the watch reports too.
            Err(error) if error.is_not_found() => return Ok(Next::Done),
            Err(error) => return Err(error),
        }
        Ok(Next::After(left))
    }

    /// The state of what the trackers record; `None` if some of it cannot be seen. That is no failure of the reconcile: the
    /// newest spec may not need it.
    ///
    /// # Errors
    /// Some of it is still being listed, as for all Applications after a start; that is not reported.
    async fn objects(
        &self,
        recorded: &Recorded,
        is_urgent: bool,
    ) -> Result<Option<Objects>, ApiError> {
        let Self { ctx, key: app_key, app, clusters } = self;
        let mut hasher = DefaultHasher::new();
        policies::fingerprint(ctx, app).hash(&mut hasher);
        resolve::fingerprint(ctx, app).hash(&mut hasher);
        ctx.calls.seen(app_key).hash(&mut hasher);
        recorded.trackers.hash(&mut hasher);
        let latest =
            app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
        let revision = Key::new(&*app_key.namespace, latest);
        ctx.revisions.get(&revision).is_some().hash(&mut hasher);
        let mut content = hasher.clone();
        // Nobody says when values change that are elsewhere.
        let mut unwatched = release::has_values(app);
        if ctx.clusters.is_on() {
            more_clusters::hash(app, clusters, &mut content);
        }
        if !recorded.clusters.is_empty() {
            clusters.hash_identities(&mut content);
        }
        for cluster in &recorded.clusters {
            // What an older tracker records of a cluster is collected once the cluster can be reached.
            let away = live_objects(ctx, clusters, app_key, cluster).err().map(|it| it.to_string());
            away.hash(&mut hasher);
            away.hash(&mut content);
        }
        // What was left behind in a cluster is recorded no more, and yet the status says how it is with that cluster.
        let named: BTreeSet<&str> = app.status.services.iter().map(|it| &*it.cluster).collect();
        for cluster in named.into_iter().filter(|it| !recorded.clusters.contains(*it)) {
            let away = live_objects(ctx, clusters, app_key, cluster).err().map(|it| it.to_string());
            away.hash(&mut content);
        }
        for (cluster, entries) in ctx.clusters.back(app_key) {
            // What was left behind in a cluster that is there again is to be recorded.
            (cluster, entries.len()).hash(&mut content);
        }
        for (api_version, key) in &recorded.objects {
            // As long as a cluster cannot be reached, there is nothing to check there.
            let Ok(live) = live_objects(ctx, clusters, app_key, &key.cluster) else { continue };
            let seen = live.seen(api_version, key, is_urgent);
            let seen = match is_local(&key.cluster) {
                true => Some(seen.await),
                // What takes long there holds up nothing that the Application has elsewhere.
                false => timeout(GRACE, seen).await.ok().filter(Result::is_ok),
            };
            let live = match seen {
                Some(Err(error @ ApiError::Listing { .. })) => return Err(error),
                None | Some(Err(_)) => return Ok(None),
                Some(Ok(live)) => live,
            };
            unwatched |= live.is_none();
            live.as_deref().map(Stored::version).hash(&mut hasher);
            live.as_deref().map(|live| live.content).hash(&mut content);
        }
        Ok(Some(Objects { versions: hasher.finish(), content: content.finish(), unwatched }))
    }
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

/// Whether an Application is still as a complete reconcile left it.
pub(super) fn is_of(settled: &Settled, app: &Application) -> bool {
    settled.fingerprint.app == of_version(app)
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

/// The state of everything that the trackers of a reconcile record, and what that is; `None` if some of it cannot be seen.
/// `is_urgent`: lists that take long are not waited for.
///
/// # Errors
/// Some of it is still being listed.
pub(super) async fn objects_of(
    session: &Session<'_>,
    app: &Application,
    is_urgent: bool,
) -> Result<Option<(Objects, Arc<Recorded>)>, ApiError> {
    let current = session.trackers.current(session.run());
    let desired = session.trackers.desired(&current).into_iter();
    let trackers = session.trackers.versions();
    let trackers = trackers.map(|(name, version)| (Key::new("", name), version));
    let recorded = Recorded {
        trackers: versions(trackers.collect()),
        objects: desired
            .map(|record| (record.api_version.as_str().into(), vela_apply::tracker::key_of(record)))
            .collect(),
        clusters: session.trackers.clusters(),
    };
    let clusters = Arc::clone(&session.clusters);
    let subject = Subject { ctx: session.ctx, key: session.key(), app, clusters };
    let found = subject.objects(&recorded, is_urgent).await?;
    Ok(found.map(|objects| (objects, Arc::new(recorded))))
}
