//! The work queue of one controller: keys, not objects; a key is worked on by one worker at a time, and what happens to
//! it in the meantime makes it run once more. Failures are counted per key and delay the next attempt. Whose turn it is
//! decides `turns.rs`: by class, and fairly among namespaces.
//!
//! Answers for client-go's rate-limited workqueue, with these differences: a key whose object is gone is forgotten, a
//! failing key never holds a worker, what somebody edited has a worker of its own in addition to those of everything, and resyncs are
//! spread over their period.
//!
//! Our own: kube's `Controller` has no classes, no back-off of a key and none of client-go's metrics of queues.

mod delays;
mod pace;
mod state;
mod turns;
mod weights;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
pub use vela_cluster::Key;
use vela_cluster::tokens::Share;

use crate::metrics::{Load, QueueMeter};

use delays::{backoff, until_phase};
use pace::Pace;
pub use state::Ours;
use state::{Delayed, Running, State};
use turns::Turns;
pub use turns::{Class, PerClass};
pub use turns::{Shares, WorkerKind};
pub use weights::{WeightError, Weights};

/// What becomes of a key after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something happens; failures are forgotten.
    Done,
    /// Reconcile again after this time; failures are forgotten.
    After(Duration),
    /// Reconcile again once in this period, at the key's own moment; failures are forgotten.
    Resync(Duration),
    /// The attempt failed: reconcile again after a delay that doubles.
    Failed,
    /// The API server was overloaded or unavailable, or there was no time: reconcile again, not before this time, after a delay
    /// that doubles for a while.
    Postponed(Duration),
}

impl Next {
    /// In how long at the latest the key is checked again if nothing happens, where that is said.
    #[must_use]
    pub fn delay(self) -> Option<Duration> {
        match self {
            Self::After(delay) | Self::Resync(delay) => Some(delay),
            Self::Done | Self::Failed | Self::Postponed(_) => None,
        }
    }
}

/// What happens to a key now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a worker.
    Waits,
    /// An attempt at it is under way, with or without a worker.
    IsWorkedOn,
}

/// Longest delay of a postponed key: the end of an overload is not announced.
const MAX_POSTPONED: Duration = Duration::from_secs(15);

/// Keys that are checked at a time.
const OVERDUE_CHUNK: usize = 1_000;

/// How late a queue is with its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overdue {
    /// For how long the key has been due that is due longest.
    pub longest: Duration,
    /// Keys that the queue does not have.
    pub missing: Vec<Key>,
}

/// The queue.
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
    wake_edits: Notify,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(Shares::default())
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("length", &self.len()).finish()
    }
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        let state = State {
            turns: Turns::new(shares),
            running: HashMap::new(),
            again: HashMap::new(),
            later: BinaryHeap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            triggered: HashSet::new(),
            pace: Pace::default(),
            epoch: Instant::now(),
            meter: None,
            ours: None,
            closed: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new(), wake_edits: Notify::new() }
    }

    /// Keys that are ready to be worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().turns.len()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on what happens is counted. What waits already counts as added now: a follower's queue fills long before
    /// anybody works on it.
    pub fn measure(&self, meter: QueueMeter) {
        let mut state = self.state.lock();
        state.turns.restart_waiting(Instant::now());
        meter.adds.inc_by(u64::try_from(state.turns.len()).unwrap_or_default());
        state.meter = Some(meter);
    }

    /// From now on only keys that a function calls ours are taken in. What it says may change: [`Self::drop_foreign`] follows.
    pub fn serve(&self, ours: Ours) {
        self.state.lock().ours = Some(ours);
        self.drop_foreign();
    }

    /// Drops every key that is not ours any more; what is worked on ends by itself.
    pub fn drop_foreign(&self) {
        let mut state = self.state.lock();
        let Some(ours) = state.ours.clone() else { return };
        let State { turns, again, due, failures, triggered, later, .. } = &mut *state;
        turns.retain(|key| ours(key));
        again.retain(|key, _| ours(key));
        due.retain(|key, _| ours(key));
        failures.retain(|key, _| ours(key));
        triggered.retain(|key| ours(key));
        later.retain(|Reverse((_, key))| ours(key));
    }

    /// What there is to do now.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        let now = Instant::now();
        let times = || state.running.values().map(|it| now.saturating_duration_since(it.since));
        Load {
            depth: state.turns.len().saturating_add(state.again.len()),
            waiting: PerClass::of(|class| state.turns.depth(class)),
            backlog: state.turns.backlog(),
            unfinished: times().sum(),
            longest: times().max().unwrap_or_default(),
        }
    }

    /// Of keys that are to be worked on again and again, how long the one waits whose time came first, and which are neither worked
    /// on, nor wait, nor are planned.
    #[must_use]
    pub fn overdue(&self, keys: &[Key], now: Instant) -> Overdue {
        let mut found = Overdue::default();
        // Tens of thousands, in turns: workers wait for the same lock.
        for some in keys.chunks(OVERDUE_CHUNK) {
            let state = self.state.lock();
            for key in some.iter().filter(|key| !state.running.contains_key(*key)) {
                let due = state.due.get(key).map(|due| due.at);
                match state.turns.since(key).or(due) {
                    Some(at) => {
                        found.longest = found.longest.max(now.saturating_duration_since(at));
                    }
                    None => found.missing.push(key.clone()),
                }
            }
        }
        found
    }

    /// Whether a key waits for a worker or is worked on; `None`: neither.
    #[must_use]
    pub fn standing(&self, key: &Key) -> Option<Standing> {
        let state = self.state.lock();
        let waits = state.turns.since(key).map(|_| Standing::Waits);
        waits.or_else(|| state.running.contains_key(key).then_some(Standing::IsWorkedOn))
    }

    /// The share of the tokens of rate limits that a key has which is worked on, by its class and its namespace.
    #[must_use]
    pub fn share(&self, key: &Key) -> Share {
        let state = self.state.lock();
        let class = state.running.get(key).map_or(Class::Scan, |running| running.turn.class);
        Share {
            namespace: Arc::from(key.namespace.as_str()),
            weight: state.turns.weight(class, &key.namespace),
        }
    }

    /// What is being worked on, and for how long.
    #[must_use]
    pub fn running(&self) -> Vec<(Key, Duration)> {
        let state = self.state.lock();
        let now = Instant::now();
        let time = |it: &Running| now.saturating_duration_since(it.since);
        state.running.iter().map(|(key, it)| (key.clone(), time(it))).collect()
    }

    /// Something happened to a key.
    pub fn add(&self, key: Key, class: Class) {
        let mut state = self.state.lock();
        if !state.is_ours(&key) {
            return;
        }
        state.due.remove(&key);
        state.triggered.insert(key.clone());
        state.push(key, class, Instant::now());
        drop(state);
        self.wake(class);
    }

    /// Something that a key uses changed: it is checked again, ever more slowly as long as that continues, and not before the
    /// pause after a failure is over.
    pub fn wake_user(&self, key: Key) {
        let mut state = self.state.lock();
        if !state.is_ours(&key) {
            return;
        }
        state.triggered.insert(key.clone());
        if state.failures.contains_key(&key) && state.due.contains_key(&key) {
            return;
        }
        let now = Instant::now();
        let due = Delayed { at: state.pace.next(&key, now), class: Class::Scan };
        if due.at > now {
            state.plan(key, due);
        } else {
            state.due.remove(&key);
            state.push(key, due.class, now);
        }
        drop(state);
        self.wake(Class::Scan);
    }

    fn wake(&self, class: Class) {
        self.wake.notify_one();
        if class == Class::Edit {
            self.wake_edits.notify_one();
        }
    }

    /// Reconcile a key after some time, unless an earlier reconcile is planned.
    pub fn add_after(&self, key: Key, delay: Duration, class: Class) {
        let mut state = self.state.lock();
        if !state.is_ours(&key) {
            return;
        }
        if let Some(meter) = &state.meter {
            meter.retries.inc();
        }
        if delay.is_zero() {
            drop(state);
            return self.add(key, class);
        }
        let Some(at) = Instant::now().checked_add(delay) else { return };
        let is_news = state.plan(key, Delayed { at, class });
        drop(state);
        if is_news {
            self.wake.notify_one();
        }
    }

    /// Whether something happened to a key, and not only its time came; forgets it.
    pub fn take_triggered(&self, key: &Key) -> bool {
        self.state.lock().triggered.remove(key)
    }

    /// How often a key failed in a row.
    #[must_use]
    pub fn failures(&self, key: &Key) -> u32 {
        self.state.lock().failures.get(key).map_or(0, |it| it.failed)
    }

    /// Waits for a key to work on; `None` once the queue is closed. [`Queue::done`] must follow.
    pub async fn next(&self, kind: WorkerKind) -> Option<Key> {
        let wake = match kind {
            WorkerKind::All | WorkerKind::Urgent => &self.wake,
            WorkerKind::Edits => &self.wake_edits,
        };
        loop {
            let waited = wake.notified();
            let until = {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let now = Instant::now();
                state.promote(now);
                if let Some((key, turn)) = state.turns.take(kind) {
                    if let Some(meter) = &state.meter {
                        meter.waited(turn.class, now.saturating_duration_since(turn.since));
                    }
                    state.running.insert(key.clone(), Running { since: now, turn, parked: false });
                    if !state.turns.is_empty() {
                        let has_edits = state.turns.depth(Class::Edit) > 0;
                        self.wake(if has_edits { Class::Edit } else { Class::Scan });
                    }
                    return Some(key);
                }
                state.later.peek().map(|Reverse((at, _))| *at).filter(|_| kind != WorkerKind::Edits)
            };
            match until {
                Some(at) => {
                    tokio::select! {
                        () = waited => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => waited.await,
            }
        }
    }

    /// The attempt at a key goes on without a worker; [`Queue::done`] must still follow.
    pub fn park(&self, key: &Key) {
        let mut state = self.state.lock();
        let State { running, turns, .. } = &mut *state;
        if let Some(running) = running.get_mut(key).filter(|running| !running.parked) {
            running.parked = true;
            turns.done(key, &running.turn, running.since.elapsed());
        }
    }

    /// The attempt at a key is over.
    pub fn done(&self, key: Key, next: Next) {
        let mut class = Class::Scan;
        let delay = {
            let mut state = self.state.lock();
            if let Some(running) = state.running.remove(&key) {
                let time = running.since.elapsed();
                if !running.parked {
                    state.turns.done(&key, &running.turn, time);
                }
                if let Some(meter) = &state.meter {
                    meter.attempts.observe(time.as_secs_f64());
                }
            }
            let has_failed = matches!(next, Next::Failed | Next::Postponed(_));
            if !has_failed {
                state.failures.remove(&key);
            } else if state.due.get(&key).is_some_and(|due| due.class == Class::Scan) {
                // What it uses changed in the meantime: that waits for the end of the pause.
                state.due.remove(&key);
            }
            let next = if state.is_ours(&key) {
                next
            } else {
                state.again.remove(&key);
                state.failures.remove(&key);
                Next::Done
            };
            let delay = match next {
                Next::Done => None,
                Next::After(delay) => Some((delay, Class::Progress)),
                Next::Resync(period) => Some((until_phase(&key, period, state.epoch), Class::Scan)),
                Next::Failed => Some((backoff(&key, state.failed(&key)), Class::Retry)),
                Next::Postponed(after) => {
                    let delay = backoff(&key, state.postponed(&key)).min(MAX_POSTPONED).max(after);
                    Some((delay, Class::Retry))
                }
            };
            match state.again.remove(&key) {
                Some((Class::Scan, _)) if has_failed => delay,
                Some((again, since)) => {
                    class = again;
                    // Counted when it was added.
                    state.turns.push(key.clone(), again, since);
                    None
                }
                None => delay,
            }
        };
        self.wake(class);
        if let Some((delay, class)) = delay {
            self.add_after(key, delay, class);
        }
    }

    /// Ends all waiting workers.
    pub fn close(&self) {
        self.state.lock().closed = true;
        for wake in [&self.wake, &self.wake_edits] {
            wake.notify_waiters();
            wake.notify_one();
        }
    }

    /// Whether the queue was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Whether nothing is ready, running or planned within `horizon`.
    #[must_use]
    pub fn is_idle(&self, horizon: Duration) -> bool {
        let state = self.state.lock();
        let soon = Instant::now() + horizon;
        state.turns.is_empty()
            && state.running.is_empty()
            && !state.due.values().any(|due| due.at < soon)
    }
}

#[cfg(test)]
mod tests;
