//! One complete reconcile of an Application that is ours and stays: its phases, and what is written and remembered at the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;
use vela_api::names::{condition as types, reason};
use vela_api::{AppStatus, Application, Condition};
use vela_cluster::ApiError;

use super::facts;
use super::session::Session;
use super::settled::{self, Objects, STATUS_DEBOUNCE};
use super::write;
use crate::application::context::AppContext;
use crate::application::converge::End;
use crate::application::converge::removed_clusters;
use crate::application::converge::{drift, more_clusters, prune, rollout};
use crate::application::lifecycle::conflict;
use crate::application::lifecycle::failure::{Failed, fail};
use crate::application::lifecycle::{finalizer, notify, on_failure};
use crate::application::memory::{AppCache, DeferredStatus, Settled};
use crate::application::policies;
use crate::application::workflow::restart;
use crate::application::{identity, phases, status};
use crate::messages;
use crate::queue::Next;

/// The longest pause between complete reconciles of a settled Application while nothing but the status of its objects changes.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// When an Application is checked again whose objects are still being listed.
const UNLISTED: Duration = Duration::from_secs(1);

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
        // Somebody may wait for this reconcile: it does not wait for the objects of all.
        let is_observed = app.metadata.generation == Some(app.status.observed_generation);
        let objects = match is_observed {
            true => settled::objects_of(&session, &app, false).await?.map(|(objects, _)| objects),
            false => None,
        };
        let now = ctx.clock.now();
        rollout::note_arrival(&mut memory.lock(), &app, now);
        Ok(Self { ctx, session, app, fresh, objects, memory, doubt: None, now })
    }

    /// All phases, and their end.
    ///
    /// # Errors
    /// Requests about the Application itself failed.
    pub(super) async fn run(&mut self) -> Result<Next, ApiError> {
        // As whom requests are made is known before the first one.
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
        // Whatever was held back is part of the status that is computed now.
        let held = self.memory.lock().deferred.take().map(|held| held.since);
        let (ctx, now, made) = (self.ctx, self.now, made.as_deref());
        let phases = phases::run(ctx, &mut self.session, &self.app, made, wanted, now);
        match Box::pin(phases).await {
            Ok(end) => self.conclude(end, schedule, held).await,
            Err((status, failed)) => match self.fail(status, failed).await {
                // Not found although the kind is served: the Application itself is gone.
                Err(error) if error.is_not_found() && !error.is_unserved() => self.vanished().await,
                other => other,
            },
        }
    }

    fn note_clusters(&self, status: &mut AppStatus) {
        let named: Vec<String> =
            status.services.iter().map(|service| service.cluster.clone()).collect();
        let is_replaced =
            |it: &Condition| it.type_ == types::CLUSTERS && it.reason == reason::REPLACED;
        let was_replaced = status.conditions.iter().any(is_replaced);
        let troubles = removed_clusters::troubles(&self.session, (&named, was_replaced));
        let more = more_clusters::report(&self.session, &self.app, status);
        // Also of an Application that is in the own cluster only, so far.
        let troubles = troubles.or_else(|| (!more.is_empty()).then(Vec::new));
        status::set_clusters(status, (troubles, more), self.now);
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
        // Statuses that differ in times alone say the same, and a write would wake every watcher.
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
        // A rehearsal (`plan`) writes nothing, and a notification cannot be taken back.
        let (notice, notify_again) = if self.ctx.rehearsal.is_some() {
            (None, None)
        } else {
            notify::decide(&self.app, &mut end.status, &mut self.memory.lock(), self.now)
        };
        if let Err(error) = self.session.note_completed().await {
            // The next reconcile sees it again.
            warn!(%error, "the results of completed Jobs and Pods cannot be stored");
        }
        if self.ctx.traces.is_on() {
            rollout::note_progress(&mut self.memory.lock(), &end.status, self.now);
        }
        match write::write_status(self.ctx, &self.app, &end.status).await {
            Ok(Some(stored)) => {
                let ended = rollout::count_end(
                    self.ctx,
                    &mut self.memory.lock(),
                    &self.app.status,
                    &end.status,
                    self.ctx.clock.now(),
                );
                if let Some(ended) = ended.filter(|_| self.ctx.traces.is_on()) {
                    rollout::trace(&self.session, &self.app, &end.status, &ended);
                }
                self.app = stored;
                // Only what is stored is notified: a status whose write failed is computed again,
                // and would be sent twice.
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
            Err(error) if error.is_too_large() => {
                let failed = Failed::status(messages::status_too_large(&error));
                return fail(self.ctx, &self.app, self.app.status.clone(), failed).await;
            }
            Err(error) => return Err(error),
        }
        // An approval of deletions counts once.
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
        // Taken, not read: unless this reconcile settles, the next one runs all phases.
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
        let after = match rests {
            true => settled::objects_of(&self.session, &self.app, true).await,
            false => Ok(None),
        };
        if let Err(ApiError::Listing { .. }) = &after {
            // What was done is done. What it depends on is known once the objects are listed.
            return Ok(Next::After(delay.map_or(UNLISTED, |delay| delay.min(UNLISTED))));
        }
        if let Some((after, recorded)) = after? {
            if end.settled && after.unwatched {
                // Nobody says what becomes of it.
                delay = Some(delay.map_or_else(
                    || settled::resync(self.ctx, &self.app),
                    |delay| delay.min(settled::resync(self.ctx, &self.app)),
                ));
            }
            let since = Instant::now();
            let due = delay.and_then(|delay| since.checked_add(delay));
            let fingerprint = settled::fingerprint(&self.app, after);
            let alone = Some(after) == self.objects && !self.session.wrote.load(Ordering::Relaxed);
            let pause = next_pause(before.as_ref().filter(|_| !waits), self.ctx.settings.pause);
            let mut memory = self.memory.lock();
            memory.settled =
                Some(Settled { fingerprint, due, alone, triggered: false, since, waits, pause });
            memory.recorded = Some(recorded);
            if end.settled {
                // A settled Application renders again after a change only, and renderings are
                // large.
                memory.renderings = HashMap::new();
            }
        }
        Ok(match [delay, held].into_iter().flatten().min() {
            Some(delay) => Next::After(delay),
            None => Next::Resync(settled::resync(self.ctx, &self.app)),
        })
    }

    /// A status that says the same in other words waits for what comes next: each of them would be a write, and a rollout
    /// has many. `since` is when the first of them began to wait. Returns how long this one may.
    fn hold(&self, end: &End, since: Option<Instant>) -> Option<Duration> {
        // Only what is checked again by itself can be written later.
        end.again.filter(|again| !again.is_zero())?;
        let (status, generation) = (&self.app.status, self.app.metadata.generation);
        // A status about an older generation never waits: clients wait for `observedGeneration`.
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
}

/// How long the reconcile after the next change of a status waits: longer each time that such reconciles follow each other.
fn next_pause(before: Option<&Settled>, shortest: Duration) -> Duration {
    let recent = before.filter(|it| !it.waits && it.since.elapsed() < it.pause.saturating_mul(3));
    recent
        .map_or(shortest, |it| it.pause.saturating_mul(2).clamp(shortest, MAX_PAUSE.max(shortest)))
}
