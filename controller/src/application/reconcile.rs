//! One reconcile of an Application that is ours and stays: whether there is anything to do, and what is written and remembered
//! when it is done. A reconcile of an Application about which nothing changed since the last complete one ends before all phases.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;
use vela_api::names::{annotation, condition as types};
use vela_api::{AppStatus, Application};
use vela_cluster::{ApiError, Stored};

use super::facts;
use super::session::Session;
use super::write;
use crate::application::context::AppContext;
use crate::application::converge::End;
use crate::application::converge::removed_clusters;
use crate::application::converge::{drift, prune, rollout};
use crate::application::facts::resolve;
use crate::application::lifecycle::conflict;
use crate::application::lifecycle::failure::{Failed, fail};
use crate::application::lifecycle::{finalizer, notify, on_failure};
use crate::application::memory::{AppCache, DeferredStatus, Fingerprint, Settled};
use crate::application::policies;
use crate::application::workflow::restart;
use crate::application::{identity, phases, release, status};
use crate::messages;
use crate::queue::{Key, Next};

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a status is held back that says the same in other words.
const STATUS_DEBOUNCE: Duration = Duration::from_secs(1);

/// The longest pause between complete reconciles of a settled Application while nothing but the status of its objects changes.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A reconcile in progress.
pub(super) struct Reconcile<'c> {
    ctx: &'c AppContext,
    session: Session<'c>,
    app: Application,
    /// It got its finalizer in this reconcile.
    fresh: bool,
    /// The state of what belongs to it, as the reconcile began; `None` if some of it cannot be seen.
    objects: Option<Objects>,
    memory: Arc<Mutex<AppCache>>,
    /// Why it does not act as the author with all his rights.
    doubt: Option<String>,
    /// When it began.
    now: Timestamp,
}

impl<'c> Reconcile<'c> {
    /// Sees what belongs to the Application.
    ///
    /// # Errors
    /// Its objects are still being listed.
    pub(super) async fn begin(
        session: Session<'c>,
        app: Application,
        fresh: bool,
    ) -> Result<Self, ApiError> {
        let ctx = session.ctx;
        let memory = session.memory();
        let objects = objects(ctx, &session, &app).await?;
        let now = ctx.clock.now();
        rollout::note_arrival(&mut memory.lock(), &app, now);
        Ok(Self { ctx, session, app, fresh, objects, memory, doubt: None, now })
    }

    /// When to reconcile again if there is nothing to do now.
    ///
    /// # Errors
    /// A status that was held back cannot be written.
    pub(super) async fn rest(&self) -> Result<Option<Next>, ApiError> {
        let Some(rest) = self.memory.lock().settled else { return Ok(None) };
        // A definition may change without a change of the Application or its objects.
        if facts::follows_definitions(&self.app) {
            return Ok(None);
        }
        let Some(objects) = self.objects else { return Ok(None) };
        let fingerprint = fingerprint(&self.app, objects);
        if rest.fingerprint != fingerprint || rest.triggered {
            // A rollout is many changes in a row, and so is a status that says how its object is. What drifted does not wait.
            let same = if rest.waits {
                rest.fingerprint.app == fingerprint.app
            } else {
                rest.fingerprint.is_like(fingerprint)
            };
            let left = rest.pause.saturating_sub(rest.since.elapsed());
            let left = Some(left).filter(|left| same && !left.is_zero());
            return Ok(left.map(Next::After));
        }
        // Nothing changed. `due` is the time of a step, of a repair or of the resync.
        match rest.due.map(|due| due.saturating_duration_since(Instant::now())) {
            None => Ok(Some(Next::Resync(self.resync()))),
            Some(left) if !left.is_zero() => self.write_deferred(left, objects).await.map(Some),
            Some(_) => Ok(None),
        }
    }

    /// A reconcile before its time: nothing is done but what was held back. That is no attempt of a step.
    async fn write_deferred(&self, left: Duration, objects: Objects) -> Result<Next, ApiError> {
        let Some(held) = self.memory.lock().deferred.clone() else { return Ok(Next::After(left)) };
        let wait = STATUS_DEBOUNCE.saturating_sub(held.since.elapsed());
        if !wait.is_zero() {
            return Ok(Next::After(left.min(wait)));
        }
        self.memory.lock().deferred = None;
        match write::write_status(self.ctx, &self.app, &held.status).await {
            Ok(None) => {}
            Ok(Some(stored)) => {
                if let Some(settled) = &mut self.memory.lock().settled {
                    settled.fingerprint = fingerprint(&stored, objects);
                }
            }
            Err(error) if error.is_conflict() => {
                return conflict::requeue(self.ctx, &self.app).await;
            }
            // Deleted in the meantime, which the watch reports too.
            Err(error) if error.is_not_found() => return Ok(Next::Done),
            Err(error) => return Err(error),
        }
        Ok(Next::After(left))
    }

    /// All phases, and their end.
    ///
    /// # Errors
    /// Requests about the Application itself failed.
    pub(super) async fn run(&mut self) -> Result<Next, ApiError> {
        let actor = identity::of(self.ctx, &self.app).await?;
        (self.session.actors, self.doubt) = (actor.identity.into(), actor.doubt);
        let mut wanted = self.app.status.clone();
        let made = match Box::pin(policies::run(self.ctx, &self.app, &mut wanted)).await {
            Ok(policies::ScopedOutcome::None) => None,
            Ok(policies::ScopedOutcome::Requeue) => return Ok(Next::After(Duration::ZERO)),
            Ok(policies::ScopedOutcome::To(made)) => Some(made),
            Err(failed) => return self.fail(wanted, failed).await,
        };
        if let Some(made) = &made {
            let (policies, bad) = facts::resource_policies(&self.app.metadata, &made.spec);
            if let Some(text) = bad {
                let failed = Failed::synced(messages::bad_policy(&text)).for_good();
                return self.fail(wanted, failed).await;
            }
            self.session.policies = policies;
            self.session.components =
                made.spec.components.iter().map(|component| component.name.clone()).collect();
        }
        let schedule = restart::schedule(self.ctx, &mut self.app, &mut wanted, self.now).await;
        let schedule = match schedule {
            Err(error) if error.is_conflict() => {
                return conflict::requeue(self.ctx, &self.app).await;
            }
            other => other?,
        };
        let held = self.memory.lock().deferred.take().map(|held| held.since);
        let (ctx, now, made) = (self.ctx, self.now, made.as_deref());
        let phases = phases::run(ctx, &mut self.session, &self.app, made, wanted, now);
        match Box::pin(phases).await {
            Ok(end) => self.conclude(end, schedule, held).await,
            Err((status, failed)) => match self.fail(status, failed).await {
                Err(error) if error.is_not_found() && !error.is_unserved() => self.vanished().await,
                other => other,
            },
        }
    }

    fn note_clusters(&self, status: &mut AppStatus) {
        let named: Vec<String> =
            status.services.iter().map(|service| service.cluster.clone()).collect();
        let troubles = removed_clusters::troubles(&self.session, &named);
        status::set_clusters(status, troubles, self.now);
    }

    async fn fail(&self, mut status: AppStatus, failed: Failed) -> Result<Next, ApiError> {
        status::set_elsewhere(&mut status, &self.session.trackers.elsewhere(), self.now);
        self.note_clusters(&mut status);
        status::set_author(&mut status, self.doubt.as_deref(), self.now);
        Box::pin(fail(self.ctx, &self.app, status, failed)).await
    }

    /// Somebody deleted the Application in the meantime.
    async fn vanished(&mut self) -> Result<Next, ApiError> {
        finalizer::vanished(&mut self.session, &self.app, self.fresh).await
    }

    /// Writes the status, remembers the fingerprint, and returns when to reconcile again.
    async fn conclude(
        &mut self,
        mut end: End,
        schedule: Option<Timestamp>,
        held: Option<Instant>,
    ) -> Result<Next, ApiError> {
        restart::plan_next(&self.app, &mut end.status, self.now);
        status::set_elsewhere(&mut end.status, &self.session.trackers.elsewhere(), self.now);
        self.note_clusters(&mut end.status);
        status::set_author(&mut end.status, self.doubt.as_deref(), self.now);
        end.status.conditions.retain(|condition| condition.type_ != types::PLANNED);
        if status::differ_in_times(&self.app.status, &end.status) {
            self.app.status.clone_into(&mut end.status);
        }
        let held = self.hold(&end, held);
        if held.is_some() {
            self.app.status.clone_into(&mut end.status);
        }
        let drift = {
            let mut memory = self.memory.lock();
            let about = &self.session.about;
            drift::report(self.ctx, about, &mut memory, &mut end.status, self.now)
        };
        let (notice, notify_again) = if self.ctx.rehearsal.is_some() {
            (None, None)
        } else {
            notify::decide(&self.app, &mut end.status, &mut self.memory.lock(), self.now)
        };
        if let Err(error) = self.session.note_completed().await {
            // The next reconcile sees it again.
            warn!(%error, "what ran to its end cannot be noted");
        }
        match write::write_status(self.ctx, &self.app, &end.status).await {
            Ok(Some(stored)) => {
                let (before, now) = (&self.app.status, self.ctx.clock.now());
                rollout::count_end(self.ctx, &mut self.memory.lock(), before, &end.status, now);
                self.app = stored;
                if let Some(notice) = notice {
                    notify::send(&self.session, &self.app, notice).await;
                }
            }
            Ok(None) => {}
            Err(error) if error.is_conflict() => {
                return conflict::requeue(self.ctx, &self.app).await;
            }
            Err(error) if error.is_not_found() && !error.is_unserved() => {
                return self.vanished().await;
            }
            Err(error) => return Err(error),
        }
        if let Some(stored) = prune::end_approval(self.ctx, &self.app, end.pruned).await? {
            self.app = stored;
        }
        let stamp = self.session.stamp.as_ref();
        match on_failure::act(self.ctx, &self.app, stamp).await {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Next::After(Duration::ZERO)),
            Err(error) if error.is_conflict() => {
                return conflict::requeue(self.ctx, &self.app).await;
            }
            Err(error) => return Err(error),
        }
        let before = self.memory.lock().settled.take();
        let status = &self.app.status;
        let mut delay = [end.again, drift, notify_again].into_iter().flatten().min();
        // a step may have asked for another run
        if let Some(at) = schedule.or_else(|| restart::due_in_future(status, self.now)) {
            let until = at.duration_since(self.now).unsigned_abs().max(Duration::from_millis(100));
            delay = Some(delay.map_or(until, |delay| delay.min(until)));
        }
        // A workflow that waits is checked when its time has come or an object changed, not because its status was
        // written; attempts keep their distance that way.
        let waits = status.workflow.as_ref().is_some_and(|workflow| !workflow.finished);
        let rests = end.settled || (waits && delay.is_some_and(|delay| !delay.is_zero()));
        if rests && let Some(after) = objects(self.ctx, &self.session, &self.app).await? {
            if end.settled && after.unwatched {
                // Nobody says what becomes of it.
                delay = Some(delay.map_or_else(|| self.resync(), |delay| delay.min(self.resync())));
            }
            let since = Instant::now();
            let due = delay.and_then(|delay| since.checked_add(delay));
            let fingerprint = fingerprint(&self.app, after);
            let alone = Some(after) == self.objects && !self.session.wrote.load(Ordering::Relaxed);
            let pause = next_pause(before.as_ref().filter(|_| !waits), self.ctx.settings.pause);
            let mut memory = self.memory.lock();
            memory.settled =
                Some(Settled { fingerprint, due, alone, triggered: false, since, waits, pause });
            if end.settled {
                memory.renderings = HashMap::new();
            }
        }
        Ok(match [delay, held].into_iter().flatten().min() {
            Some(delay) => Next::After(delay),
            None => Next::Resync(self.resync()),
        })
    }

    /// A status that says the same in other words waits for what comes next: each of them would be a write, and a rollout
    /// has many. `since` is when the first of them began to wait. Returns how long this one may.
    fn hold(&self, end: &End, since: Option<Instant>) -> Option<Duration> {
        // Only what is checked again by itself can be written later.
        end.again.filter(|again| !again.is_zero())?;
        let (status, generation) = (&self.app.status, self.app.metadata.generation);
        let is_reported = status.observed_generation == generation.unwrap_or_default();
        if !is_reported
            || *status == end.status
            || !status::differ_only_in_messages(status, &end.status)
        {
            return None;
        }
        let since = since.unwrap_or_else(Instant::now);
        let left = STATUS_DEBOUNCE.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
        self.memory.lock().deferred =
            Some(DeferredStatus { since, status: Box::new(end.status.clone()) });
        Some(left)
    }

    /// When a settled Application is checked again.
    fn resync(&self) -> Duration {
        let text = facts::annotation(&self.app.metadata, annotation::RECONCILE_INTERVAL);
        if text.is_empty() {
            return self.ctx.settings.resync;
        }
        let parsed: Option<vela_gocompat::duration::Duration> = text.parse().ok();
        match parsed.and_then(vela_gocompat::duration::Duration::to_std) {
            Some(interval) if interval >= SHORTEST_INTERVAL => interval,
            _ => {
                warn!(interval = text, "reconcile interval ignored: not a duration of 10s or more");
                self.ctx.settings.resync
            }
        }
    }
}

/// Everything a settled Application depends on.
fn fingerprint(app: &Application, objects: Objects) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    app.version().hash(&mut hasher);
    let Objects { versions, content, .. } = objects;
    Fingerprint { app: hasher.finish(), objects: versions, content }
}

/// How long the reconcile after the next change of a status waits: longer each time that such reconciles follow each other.
fn next_pause(before: Option<&Settled>, shortest: Duration) -> Duration {
    let recent = before.filter(|it| !it.waits && it.since.elapsed() < it.pause.saturating_mul(3));
    recent
        .map_or(shortest, |it| it.pause.saturating_mul(2).clamp(shortest, MAX_PAUSE.max(shortest)))
}

/// The state of what belongs to an Application, as hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Objects {
    versions: u64,
    /// Without the statuses of its objects.
    content: u64,
    /// Something of it is not among the objects that are watched: it is only read, or it is gone.
    unwatched: bool,
}

/// The state of everything that belongs to an Application; `None` if some of it cannot be seen. That is no failure of the
/// reconcile: the newest spec may not need it.
///
/// # Errors
/// Some of it is still being listed, as for all Applications after a start; that is not reported.
async fn objects(
    ctx: &AppContext,
    session: &Session<'_>,
    app: &Application,
) -> Result<Option<Objects>, ApiError> {
    let mut hasher = DefaultHasher::new();
    policies::fingerprint(ctx, app).hash(&mut hasher);
    resolve::fingerprint(ctx, app).hash(&mut hasher);
    let key = session.key();
    ctx.calls.seen(&key).hash(&mut hasher);
    for (name, version) in session.trackers.versions() {
        (name, version).hash(&mut hasher);
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    let revision = Key::new(&*session.owner.namespace, latest);
    ctx.revisions.get(&revision).is_some().hash(&mut hasher);
    let mut content = hasher.clone();
    // Nobody says when values change that are elsewhere.
    let mut unwatched = release::has_values(app);
    let current = session.trackers.current(session.run());
    for (cluster, entries) in session.ctx.clusters.back(&session.key()) {
        // What was left behind in a cluster that is there again is to be recorded.
        (cluster, entries.len()).hash(&mut content);
    }
    for record in session.trackers.desired(&current) {
        let key = vela_apply::tracker::key_of(record);
        let at = match session.reach(&record.cluster) {
            Ok(at) => at,
            Err(error) => {
                // As long as that holds, there is nothing to check there.
                error.to_string().hash(&mut hasher);
                error.to_string().hash(&mut content);
                continue;
            }
        };
        let live = match at.live.seen(&record.api_version, &key).await {
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
