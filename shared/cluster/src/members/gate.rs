//! Whether requests reach a member, how many at once, and what became of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify as Poke, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::{info, warn};

use super::state::{Health, Heard, State};
use crate::{Error, parking};

/// Whether requests of Applications go out to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachable {
    /// They do not, or there is no such member.
    No,
    /// It was not asked yet, or which cluster answers is not known yet: that is heard of, too.
    NotYet,
    /// They do.
    Yes,
}

/// Hears that the state of a member changed: its name, and how it is now.
pub type Changed = Arc<dyn Fn(&str, Reachable) + Send + Sync>;

/// Requests of Applications and watches that may wait for an answer of one member at once,
const AT_ONCE: usize = 32;
/// and of one that is degraded.
const AT_ONCE_DEGRADED: usize = 16;
/// The least time between two beginnings of one watch: one may end as soon as it has begun, over and over.
const WATCH_PACE: Duration = Duration::from_secs(1);
/// The least time between the ends of two requests that waited for a member that is closed now: hundreds of attempts would write to the
/// own API server together what they wait for.
const END_PACE: Duration = Duration::from_millis(50);
/// Watches whose last beginning is known; whoever has more kinds than that is not paced.
const PACED: usize = 1024;

/// Whether requests reach a member, and what became of them.
pub(crate) struct Gate {
    cluster: String,
    pub(super) health: Mutex<Health>,
    /// It is known which cluster answers.
    pub(super) identified: AtomicBool,
    pub(super) poke: Poke,
    /// A request waits for its answer for long, and nothing else was heard since.
    pub(super) doubted: AtomicBool,
    /// Requests that have no answer yet.
    pub(super) in_flight: AtomicUsize,
    /// Requests that wait until fewer are in flight.
    pub(super) waiting: AtomicUsize,
    all: Arc<Semaphore>,
    degraded: Arc<Semaphore>,
    /// When watches began, by path.
    watches: Mutex<HashMap<String, Instant>>,
    /// From when on the next request may end that waited in vain.
    ends: Mutex<Instant>,
    /// The state changed.
    pub(super) turned: Poke,
    changed: Changed,
}

/// Lets one request wait for its answer.
#[derive(Debug)]
pub(super) struct Permit {
    _turn: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
    _degraded: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(cluster: &str, changed: Changed) -> Self {
        Self {
            cluster: cluster.to_owned(),
            health: Mutex::new(Health::new(Timestamp::now())),
            identified: AtomicBool::new(false),
            poke: Poke::new(),
            doubted: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            all: Arc::new(Semaphore::new(AT_ONCE)),
            degraded: Arc::new(Semaphore::new(AT_ONCE_DEGRADED)),
            watches: Mutex::default(),
            ends: Mutex::new(Instant::now()),
            turned: Poke::new(),
            changed,
        }
    }

    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Whether requests of Applications may go out.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with the reason.
    pub(super) fn open(&self) -> Result<(), Error> {
        let health = self.health.lock();
        if health.state().is_open() && self.identified.load(Ordering::Acquire) {
            return Ok(());
        }
        let since = health.since().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let why = if health.state().is_open() { "not identified yet" } else { health.why() };
        Err(Error::Unreachable { cluster: self.cluster.clone(), since, why: why.to_owned() })
    }

    /// Waits until a request may go out. `watch`: the path, if it begins a watch. One that begins again waits for a member that is
    /// closed: after a pause of its own it would miss what changes once the member is back.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: the member is closed, or was in the meantime.
    pub(super) async fn enter(&self, watch: Option<&str>) -> Result<Permit, Error> {
        if let Some(path) = watch {
            self.opened().await;
            if let Some(from) = self.pace(path) {
                tokio::time::sleep_until(from).await;
            }
        }
        let _waiting = Counted::of(&self.waiting);
        // First: an attempt that has its share takes nobody's place while it waits.
        let turn = match parking::turns(&self.cluster) {
            Some(turns) => Some(self.acquire(&turns).await?),
            None => None,
        };
        let all = self.acquire(&self.all).await?;
        let is_degraded = self.health.lock().state() == State::Degraded;
        let degraded = match is_degraded {
            true => Some(self.acquire(&self.degraded).await?),
            false => None,
        };
        self.open()?;
        Ok(Permit { _turn: turn, _all: all, _degraded: degraded })
    }

    /// A request waits for its answer for so long: if nothing else is heard, it is probed at once, so that what does not answer
    /// any more is noticed before the requests to it are given up.
    pub(super) fn doubt(&self, waits: Duration) {
        if self.health.lock().is_silent(Timestamp::now(), waits) {
            self.doubted.store(true, Ordering::Release);
            self.poke.notify_one();
        }
    }

    /// Ends when the member counts as disconnected: nobody waits for its answers then.
    pub(super) async fn disconnected(&self) -> Error {
        loop {
            let turned = self.turned.notified();
            let is_away = self.health.lock().state() == State::Disconnected;
            if let (true, Err(closed)) = (is_away, self.open()) {
                return closed;
            }
            turned.await;
        }
    }

    /// A request that has waited since a moment is about to end without an answer, since the member is closed: one after the other,
    /// and all that are left once it is open again.
    pub(super) async fn end_in_turn(&self, since: Instant) {
        if since.elapsed() < parking::PARK_AFTER {
            return;
        }
        let turn = {
            let mut ends = self.ends.lock();
            let turn = (*ends).max(Instant::now());
            *ends = turn + END_PACE;
            turn
        };
        parking::waiting(async {
            tokio::select! {
                () = tokio::time::sleep_until(turn) => {}
                () = self.opened() => *self.ends.lock() = Instant::now(),
            }
        })
        .await;
    }

    /// Ends when requests may go out.
    async fn opened(&self) {
        loop {
            let turned = self.turned.notified();
            if self.open().is_ok() {
                return;
            }
            turned.await;
        }
    }

    async fn acquire(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Error> {
        loop {
            let turned = self.turned.notified();
            self.open()?;
            tokio::select! {
                permit = Arc::clone(of).acquire_owned() => {
                    return permit.map_err(|error| Error::Transport(error.to_string()));
                }
                // Nobody waits for those in flight in a member that is closed.
                () = turned => {}
            }
        }
    }

    /// From when on a watch may begin, if that is not now.
    fn pace(&self, path: &str) -> Option<Instant> {
        let now = Instant::now();
        let mut watches = self.watches.lock();
        let last = watches.get(path).copied();
        let from = last.map_or(now, |last| last + WATCH_PACE).max(now);
        if watches.len() >= PACED && last.is_none() {
            watches.retain(|_, last| *last + WATCH_PACE > now);
        }
        if watches.len() < PACED || last.is_some() {
            watches.insert(path.to_owned(), from);
        }
        (from > now).then_some(from)
    }

    pub(super) fn hear(&self, heard: Heard) {
        self.change(|health| {
            let before = health.state();
            let failing = matches!(heard, Heard::Nothing(..));
            let changed = health.hear(heard, Timestamp::now());
            if failing && before.is_open() {
                self.poke.notify_one();
            }
            changed
        });
    }

    pub(super) fn stop(&self, state: State, why: String, now: Timestamp) {
        self.change(|health| health.stop(state, why, now));
    }

    /// A newer credential is refused, so this one is still used; `None`: there is no newer one.
    pub(super) fn newer_refused(&self, why: Option<String>) {
        self.change(|health| health.newer_refused(why, Timestamp::now()));
    }

    /// The name means the cluster that answers again.
    pub(super) fn resume(&self) {
        self.change(|health| {
            let resumed = health.resume(Timestamp::now());
            if resumed {
                // Before anybody hears of it: who is woken finds it open.
                self.identified.store(true, Ordering::Release);
            }
            resumed
        });
    }

    /// Changes what is known of the member, and reports the state if `change` says that it is another one.
    fn change(&self, change: impl FnOnce(&mut Health) -> bool) {
        let changed = {
            let mut health = self.health.lock();
            change(&mut health).then(|| health.state())
        };
        if let Some(state) = changed {
            self.report(state);
        }
    }

    fn report(&self, state: State) {
        if !state.is_open() {
            // It may be another one that comes back.
            self.identified.store(false, Ordering::Release);
        }
        let why = self.health.lock().why().to_owned();
        if state.is_open() {
            info!(cluster = self.cluster, state = state.as_str(), "state of a cluster changed");
        } else {
            warn!(
                cluster = self.cluster,
                state = state.as_str(),
                why,
                "state of a cluster changed"
            );
        }
        self.poke.notify_one();
        self.turned.notify_waiters();
        (self.changed)(&self.cluster, self.reachable());
    }

    pub(super) fn identify(&self) {
        if !self.identified.swap(true, Ordering::AcqRel) {
            self.turned.notify_waiters();
            (self.changed)(&self.cluster, self.reachable());
        }
    }

    pub(super) fn reachable(&self) -> Reachable {
        let state = self.health.lock().state();
        match (state, self.identified.load(Ordering::Acquire)) {
            (State::Unknown, _) => Reachable::NotYet,
            (state, _) if !state.is_open() => Reachable::No,
            (_, false) => Reachable::NotYet,
            (_, true) => Reachable::Yes,
        }
    }
}

/// Counted as long as it lives.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(super) fn of(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Arc<Gate> {
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        gate.hear(Heard::Answer(200, Duration::ZERO));
        gate.identify();
        gate
    }

    async fn enter(gate: &Arc<Gate>, count: usize) -> Vec<Permit> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(gate.enter(None).await.unwrap());
        }
        all
    }

    #[tokio::test]
    async fn so_many_are_under_way_and_fewer_where_it_is_degraded() {
        let gate = gate();
        let mut all = enter(&gate, AT_ONCE).await;
        let mut next = Box::pin(gate.enter(None));
        assert!(futures::poll!(&mut next).is_pending());
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 1);
        all.pop();
        let permit = next.await.unwrap();
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
        drop((permit, all));
        for _ in 0..20 {
            gate.hear(Heard::Answer(429, Duration::ZERO));
        }
        assert_eq!(gate.health.lock().state(), State::Degraded);
        let _all = enter(&gate, AT_ONCE_DEGRADED).await;
        let mut next = Box::pin(gate.enter(None));
        assert!(futures::poll!(&mut next).is_pending());
    }

    #[tokio::test]
    async fn one_attempt_has_so_many_under_way_and_others_are_not_held_up() {
        let gate = gate();
        let (_worker, attempt) = parking::Worker::lend(async {
            let all = enter(&gate, parking::PER_ATTEMPT).await;
            let mut next = Box::pin(gate.enter(None));
            assert!(futures::poll!(&mut next).is_pending());
            let (_other, attempt) = parking::Worker::lend(enter(&gate, parking::PER_ATTEMPT));
            drop(attempt.await);
            drop(all);
            assert!(next.await.is_ok());
        });
        attempt.await;
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn who_waits_for_a_member_that_goes_away_is_told_so_at_once() {
        let gate = gate();
        let _all = enter(&gate, AT_ONCE).await;
        let mut next = Box::pin(gate.enter(None));
        assert!(futures::poll!(&mut next).is_pending());
        gate.hear(Heard::Refused("revoked".to_owned()));
        let error = next.await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { why, .. } if why == "revoked"), "{error}");
    }

    #[tokio::test]
    async fn a_watch_waits_for_a_member_that_is_away_and_begins_once_it_is_known_which_one_is_back()
    {
        let gate = gate();
        gate.hear(Heard::Refused("revoked".to_owned()));
        let mut watch = Box::pin(gate.enter(Some("/api/v1/pods")));
        assert!(futures::poll!(&mut watch).is_pending());
        assert!(gate.enter(None).await.is_err());
        gate.hear(Heard::Answer(200, Duration::ZERO));
        assert!(futures::poll!(&mut watch).is_pending());
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
        gate.identify();
        assert!(watch.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_at_once_begins_once_in_a_second() {
        let gate = gate();
        let since = Instant::now();
        for _ in 0..5 {
            drop(gate.enter(Some("/api/v1/pods")).await.unwrap());
            drop(gate.enter(Some("/api/v1/services")).await.unwrap());
            drop(gate.enter(None).await.unwrap());
        }
        assert_eq!(since.elapsed(), WATCH_PACE * 4);
    }
}
