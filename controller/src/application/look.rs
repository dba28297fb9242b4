//! One look at an Application that is ours and stays: whether there is anything to do, and what is written and remembered
//! when it is done. A look at an Application about which nothing changed since the last complete one ends before all phases.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;
use vela_api::names::annotation;
use vela_api::{AppStatus, Application};
use vela_cluster::{IoError, Stored};

use super::dispatch::Session;
use super::end::End;
use super::failure::{Failed, give_up};
use super::{
    drift, finalize, identity, newest, phases, resolve, resource_policies, restart, revision,
    scoped, status,
};
use crate::context::{AppMemory, Context, Fingerprint, Held, Settled};
use crate::messages;
use crate::queue::{Key, Next};

/// Shortest period an Application may ask for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a status is held back that says the same in other words.
const HELD: Duration = Duration::from_secs(1);

/// The longest pause between complete looks at a settled Application of whose objects nothing but the status changes.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A look under way.
pub(super) struct Look<'c> {
    ctx: &'c Context,
    session: Session<'c>,
    app: Application,
    /// It got its finalizer in this look.
    fresh: bool,
    /// The state of what belongs to it, as the look began; `None` if some of it cannot be seen.
    objects: Option<Objects>,
    memory: Arc<Mutex<AppMemory>>,
    /// Why it does not act as the author with all his rights.
    doubt: Option<String>,
    /// When it began.
    now: Timestamp,
}

impl<'c> Look<'c> {
    /// Sees what belongs to the Application.
    ///
    /// # Errors
    /// Its objects are still being listed.
    pub(super) async fn begin(
        ctx: &'c Context,
        session: Session<'c>,
        app: Application,
        fresh: bool,
    ) -> Result<Self, IoError> {
        let memory = ctx.memory(&Key::new(&*session.owner.namespace, &*session.owner.name));
        let objects = objects(ctx, &session, &app).await?;
        let now = ctx.clock.now();
        Ok(Self { ctx, session, app, fresh, objects, memory, doubt: None, now })
    }

    /// When to look again if there is nothing to do now.
    ///
    /// # Errors
    /// A status that was held back cannot be written.
    pub(super) async fn rest(&self) -> Result<Option<Next>, IoError> {
        let Some(rest) = self.memory.lock().settled else { return Ok(None) };
        if resolve::follows_definitions(&self.app) {
            return Ok(None);
        }
        let Some(objects) = self.objects else { return Ok(None) };
        let seen = fingerprint(&self.app, objects);
        if rest.seen != seen || rest.told {
            // A rollout is many changes in a row, and so is a status that tells how its object is. What drifted does not wait.
            let same = if rest.waits { rest.seen.app == seen.app } else { rest.seen.is_like(seen) };
            let left = rest.pause.saturating_sub(rest.since.elapsed());
            let left = Some(left).filter(|left| same && !left.is_zero());
            return Ok(left.map(Next::After));
        }
        match rest.due.map(|due| due.saturating_duration_since(Instant::now())) {
            None => Ok(Some(Next::After(self.resync()))),
            Some(left) if !left.is_zero() => self.write_held(left, objects).await.map(Some),
            Some(_) => Ok(None),
        }
    }

    /// A look before its time: nothing is done but what was held back. That is no attempt of a step.
    async fn write_held(&self, left: Duration, objects: Objects) -> Result<Next, IoError> {
        let Some(held) = self.memory.lock().held.clone() else { return Ok(Next::After(left)) };
        let wait = HELD.saturating_sub(held.since.elapsed());
        if !wait.is_zero() {
            return Ok(Next::After(left.min(wait)));
        }
        self.memory.lock().held = None;
        match finalize::write_status(self.ctx, &self.app, &held.status).await {
            Ok(None) => {}
            Ok(Some(stored)) => {
                if let Some(settled) = &mut self.memory.lock().settled {
                    settled.seen = fingerprint(&stored, objects);
                }
            }
            Err(error) if error.is_conflict() => {
                return newest::met(self.ctx, &self.app).await;
            }
            Err(error) if error.is_gone() => return Ok(Next::Done),
            Err(error) => return Err(error),
        }
        Ok(Next::After(left))
    }

    /// All phases, and their end.
    ///
    /// # Errors
    /// Requests about the Application itself failed.
    pub(super) async fn run(&mut self) -> Result<Next, IoError> {
        let actor = identity::of(self.ctx, &self.app).await?;
        (self.session.actors, self.doubt) = (actor.identity.into(), actor.doubt);
        let mut wanted = self.app.status.clone();
        let made = match Box::pin(scoped::run(self.ctx, &self.app, &mut wanted)).await {
            Ok(scoped::Came::None) => None,
            Ok(scoped::Came::Again) => return Ok(Next::After(Duration::ZERO)),
            Ok(scoped::Came::To(made)) => Some(made),
            Err(failed) => return self.fail(wanted, failed).await,
        };
        if let Some(made) = &made {
            let (policies, bad) = resource_policies(&self.app.metadata, &made.spec);
            if let Some(text) = bad {
                let failed = Failed::synced(messages::bad_policy(&text));
                return self.fail(wanted, failed).await;
            }
            self.session.policies = policies;
            self.session.components =
                made.spec.components.iter().map(|component| component.name.clone()).collect();
        }
        let schedule = restart::schedule(self.ctx, &mut self.app, &mut wanted, self.now).await;
        let schedule = match schedule {
            Err(error) if error.is_conflict() => {
                return newest::met(self.ctx, &self.app).await;
            }
            other => other?,
        };
        let held = self.memory.lock().held.take().map(|held| held.since);
        let (ctx, now, made) = (self.ctx, self.now, made.as_deref());
        let phases = phases::run(ctx, &mut self.session, &self.app, made, wanted, now);
        match Box::pin(phases).await {
            Ok(end) => self.conclude(end, schedule, held).await,
            Err((status, failed)) => match self.fail(status, failed).await {
                Err(error) if error.is_gone() && !error.is_unserved() => self.gone().await,
                other => other,
            },
        }
    }

    async fn fail(&self, mut status: AppStatus, failed: Failed) -> Result<Next, IoError> {
        status::set_elsewhere(&mut status, &self.session.trackers.elsewhere(), self.now);
        status::set_author(&mut status, self.doubt.as_deref(), self.now);
        Box::pin(give_up(self.ctx, &self.app, status, failed)).await
    }

    /// Somebody deleted the Application meanwhile.
    async fn gone(&mut self) -> Result<Next, IoError> {
        finalize::gone(&mut self.session, &self.app, self.fresh).await
    }

    /// Writes the status, remembers what was seen, and says when to look again.
    async fn conclude(
        &mut self,
        mut end: End,
        schedule: Option<Timestamp>,
        held: Option<Instant>,
    ) -> Result<Next, IoError> {
        restart::plan_next(&self.app, &mut end.status, self.now);
        status::set_elsewhere(&mut end.status, &self.session.trackers.elsewhere(), self.now);
        status::set_author(&mut end.status, self.doubt.as_deref(), self.now);
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
            drift::tell(self.ctx, about, &mut memory, &mut end.status, self.now)
        };
        match finalize::write_status(self.ctx, &self.app, &end.status).await {
            Ok(Some(stored)) => self.app = stored,
            Ok(None) => {}
            Err(error) if error.is_conflict() => {
                return newest::met(self.ctx, &self.app).await;
            }
            Err(error) if error.is_gone() && !error.is_unserved() => return self.gone().await,
            Err(error) => return Err(error),
        }
        let before = self.memory.lock().settled.take();
        let status = &self.app.status;
        let mut delay = [end.again, drift].into_iter().flatten().min();
        // a step may have asked for another run
        if let Some(at) = schedule.or_else(|| restart::due_in_future(status, self.now)) {
            let until = at.duration_since(self.now).unsigned_abs().max(Duration::from_millis(100));
            delay = Some(delay.map_or(until, |delay| delay.min(until)));
        }
        // A workflow that waits is looked at when its time has come or an object changed, not because its status was
        // written; attempts keep their distance that way.
        let waits = status.workflow.as_ref().is_some_and(|workflow| !workflow.finished);
        let rests = end.settled || (waits && delay.is_some_and(|delay| !delay.is_zero()));
        if rests && let Some(after) = objects(self.ctx, &self.session, &self.app).await? {
            if end.settled && after.unwatched {
                // Nobody tells what becomes of it.
                delay = Some(delay.map_or_else(|| self.resync(), |delay| delay.min(self.resync())));
            }
            let since = Instant::now();
            let due = delay.and_then(|delay| since.checked_add(delay));
            let (seen, alone) = (fingerprint(&self.app, after), Some(after) == self.objects);
            let pause = next_pause(before.as_ref().filter(|_| !waits), self.ctx.settings.pause);
            let mut memory = self.memory.lock();
            memory.settled = Some(Settled { seen, due, alone, told: false, since, waits, pause });
            if end.settled {
                memory.renderings = HashMap::new();
            }
        }
        let delay = delay.unwrap_or_else(|| self.resync());
        Ok(Next::After(held.map_or(delay, |left| delay.min(left))))
    }

    /// A status that says the same in other words waits for what comes next: each of them would be a write, and a rollout
    /// has many. `since` is when the first of them began to wait. Returns how long this one may.
    fn hold(&self, end: &End, since: Option<Instant>) -> Option<Duration> {
        // Only what is looked at again by itself can be written later.
        end.again.filter(|again| !again.is_zero())?;
        let (status, generation) = (&self.app.status, self.app.metadata.generation);
        let is_told = status.observed_generation == generation.unwrap_or_default();
        if !is_told || *status == end.status || !status::differ_in_words(status, &end.status) {
            return None;
        }
        let since = since.unwrap_or_else(Instant::now);
        let left = HELD.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
        self.memory.lock().held = Some(Held { since, status: Box::new(end.status.clone()) });
        Some(left)
    }

    /// When a settled Application is looked at again.
    fn resync(&self) -> Duration {
        let text = revision::annotation(&self.app.metadata, annotation::RECONCILE_INTERVAL);
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

/// How long the look after the next change of a status waits: longer each time that such looks follow each other.
fn next_pause(before: Option<&Settled>, shortest: Duration) -> Duration {
    let recent = before.filter(|it| !it.waits && it.since.elapsed() < it.pause.saturating_mul(3));
    recent.map_or(shortest, |it| {
        it.pause.saturating_mul(2).clamp(shortest, LONGEST_PAUSE.max(shortest))
    })
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
/// look: the newest spec may well do without.
///
/// # Errors
/// Some of it is still being listed: after a start that is so for all, and nothing to tell.
async fn objects(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
) -> Result<Option<Objects>, IoError> {
    let mut hasher = DefaultHasher::new();
    scoped::seen(ctx, app).hash(&mut hasher);
    resolve::seen(ctx, app).hash(&mut hasher);
    let key = Key::new(&*session.owner.namespace, &*session.owner.name);
    ctx.beside.seen(&key).hash(&mut hasher);
    for (name, version) in session.trackers.versions() {
        (name, version).hash(&mut hasher);
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    let revision = Key::new(&*session.owner.namespace, latest);
    ctx.revisions.get(&revision).is_some().hash(&mut hasher);
    let mut content = hasher.clone();
    let mut unwatched = false;
    let current = session.trackers.current(session.run());
    for record in session.trackers.desired(&current) {
        let key = vela_apply::tracker::key_of(record);
        let live = match ctx.live.get(&record.api_version, &key).await {
            Err(error @ IoError::Listing { .. }) => return Err(error),
            Err(_) => return Ok(None),
            Ok(live) => live,
        };
        unwatched |= live.is_none();
        live.as_deref().map(Stored::version).hash(&mut hasher);
        live.as_deref().map(|live| live.content).hash(&mut content);
    }
    Ok(Some(Objects { versions: hasher.finish(), content: content.finish(), unwatched }))
}
