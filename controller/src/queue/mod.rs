//! The work queue of one controller: keys, not objects; a key is worked on by one worker at a time, and what happens to
//! it in the meantime makes it run once more. Failures are counted per key and delay the next attempt. Whose turn it is
//! decides `turns.rs`: by class, and fairly among namespaces.
//!
//! Answers for client-go's rate-limited workqueue, with these differences: a key whose object is gone is forgotten, a
//! failing key never holds a worker, what somebody edited has a worker of its own in addition to those of everything, and resyncs are
//! spread over their period.

mod pace;
mod turns;
mod weights;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
pub use vela_cluster::Key;

use crate::metrics::{Load, QueueMeter};

use pace::Pace;
pub use turns::{Class, PerClass};
pub use turns::{Shares, WorkerKind};
use turns::{Taken, Turns};
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

/// A key that is worked on.
#[derive(Debug)]
struct Running {
    since: Instant,
    turn: Taken,
    /// It goes on without a worker: its turn is over.
    parked: bool,
}

/// When a key is wanted next, and how urgently.
#[derive(Debug, Clone, Copy)]
struct Delayed {
    at: Instant,
    class: Class,
}

/// First delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Longest delay after failures.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Longest delay of a postponed key: the end of an overload is not announced.
const MAX_POSTPONED: Duration = Duration::from_secs(15);

struct State {
    turns: Turns,
    running: HashMap<Key, Running>,
    /// Of those, what has to run once more: how urgently, and since when.
    again: HashMap<Key, (Class, Instant)>,
    later: BinaryHeap<Reverse<(Instant, Key)>>,
    /// The one time each key is really wanted at; older entries of `later` are stale.
    due: HashMap<Key, Delayed>,
    failures: HashMap<Key, u32>,
    /// Something happened to these since they were last taken up.
    triggered: HashSet<Key>,
    pace: Pace,
    /// When the queue began: resyncs are spread from then on.
    epoch: Instant,
    meter: Option<QueueMeter>,
    /// Which keys are of this process; `None`: all are.
    ours: Option<Ours>,
    closed: bool,
}

/// Whether a key is of this process.
pub type Ours = Arc<dyn Fn(&Key) -> bool + Send + Sync>;

/// Stale entries of `later` that are not worth a clean-up.
const STALE_SLACK: usize = 64;

impl State {
    fn is_ours(&self, key: &Key) -> bool {
        self.ours.as_ref().is_none_or(|ours| ours(key))
    }

    /// A key is wanted at a time, unless it is wanted earlier. Returns whether that is news.
    fn plan(&mut self, key: Key, due: Delayed) -> bool {
        if self.due.get(&key).is_some_and(|known| known.at <= due.at) {
            return false;
        }
        self.due.insert(key.clone(), due);
        self.later.push(Reverse((due.at, key)));
        self.drop_stale();
        true
    }

    /// A key that is added again and again leaves an entry in `later` each time, which would stay until its time comes.
    fn drop_stale(&mut self) {
        if self.later.len() > self.due.len().saturating_mul(2).saturating_add(STALE_SLACK) {
            let Self { later, due, .. } = self;
            later.retain(|Reverse((at, key))| due.get(key).is_some_and(|due| due.at == *at));
        }
    }

    /// A key waits for a worker, or for the end of the work on it.
    fn push(&mut self, key: Key, class: Class, now: Instant) {
        if !self.is_ours(&key) {
            return;
        }
        let is_new = if self.running.contains_key(&key) {
            match self.again.entry(key) {
                Entry::Occupied(mut known) => {
                    let (known, _) = known.get_mut();
                    *known = class.min(*known);
                    false
                }
                Entry::Vacant(free) => {
                    free.insert((class, now));
                    true
                }
            }
        } else {
            self.turns.push(key, class, now)
        };
        if let Some(meter) = self.meter.as_ref().filter(|_| is_new) {
            meter.adds.inc();
        }
    }

    /// The time of some keys came.
    fn promote(&mut self, now: Instant) {
        while let Some(Reverse((at, _))) = self.later.peek() {
            if *at > now {
                return;
            }
            let Some(Reverse((at, key))) = self.later.pop() else { return };
            if let Some(due) = self.due.get(&key).copied().filter(|due| due.at == at) {
                self.due.remove(&key);
                self.push(key, due.class, now);
            }
        }
    }

    /// Counts a failure of a key.
    fn failed(&mut self, key: &Key) -> u32 {
        let count = self.failures.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        *count
    }
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
            unfinished: times().sum(),
            longest: times().max().unwrap_or_default(),
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
        self.state.lock().failures.get(key).copied().unwrap_or_default()
    }

    /// Waits for a key to work on; `None` once the queue is closed. [`Queue::done`] must follow.
    pub async fn next(&self, kind: WorkerKind) -> Option<Key> {
        let wake = match kind {
            WorkerKind::All => &self.wake,
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
                state.later.peek().map(|Reverse((at, _))| *at).filter(|_| kind == WorkerKind::All)
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
                    let delay = backoff(&key, state.failed(&key)).min(MAX_POSTPONED).max(after);
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

/// The delay after this many failures. Up to a fifth shorter, so that those that failed together are not tried together again.
fn backoff(key: &Key, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let delay = FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY);
    delay.saturating_sub(delay.mul_f64(fraction(&(key, failures)) / 5.0))
}

/// How long it is until the moment of a key in a period: keys that settled together are not reconciled together again.
fn until_phase(key: &Key, period: Duration, epoch: Instant) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let length = nanos(period).max(1);
    let phase = nanos(period.mul_f64(fraction(key)));
    let now = nanos(epoch.elapsed()) % length;
    let left = phase.saturating_add(length).saturating_sub(now) % length;
    Duration::from_nanos(if left == 0 { length } else { left })
}

/// A number from 0 to 1, always the same of the same thing.
fn fraction(of: &impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let bits = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_runs_once_at_a_time_and_once_more_if_touched_meanwhile() {
        let queue = Queue::default();
        queue.add(key("a"), Class::Drift);
        queue.add(key("a"), Class::Drift);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        queue.add(key("a"), Class::Drift);
        queue.add(key("a"), Class::Drift);
        assert!(queue.is_empty());
        queue.done(key("a"), Next::Done);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        queue.done(key("a"), Next::Done);
        assert!(queue.is_idle(Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_parked_key_leaves_its_turn_to_others_and_still_runs_once_at_a_time() {
        let queue = Queue::new(Shares { workers: 2, weights: Weights::default() });
        for name in ["a", "b"] {
            queue.add(key(name), Class::Scan);
        }
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        queue.park(&key("a"));
        queue.park(&key("a"));
        queue.add(key("a"), Class::Edit);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
        assert_eq!(queue.running().len(), 2);
        queue.done(key("b"), Next::Done);
        queue.done(key("a"), Next::Done);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets() {
        let queue = Queue::default();
        queue.add(key("a"), Class::Drift);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let before = Instant::now();
            let got = queue.next(WorkerKind::All).await.unwrap();
            waits.push((Instant::now() - before).as_millis());
            queue.done(got, Next::Failed);
        }
        for (wait, most) in waits.into_iter().zip([0, 50, 100, 200]) {
            assert!((most * 4 / 5..=most).contains(&wait), "{wait} of {most}");
        }
        assert_eq!(queue.failures(&key("a")), 4);
        let got = queue.next(WorkerKind::All).await.unwrap();
        queue.done(got, Next::After(Duration::from_secs(5)));
        assert_eq!(queue.failures(&key("a")), 0);
        let before = Instant::now();
        queue.next(WorkerKind::All).await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_waits_as_long_as_it_must() {
        let queue = Queue::default();
        queue.add(key("a"), Class::Drift);
        for (after, waits) in [(5, 5), (0, 0), (60, 60)] {
            let got = queue.next(WorkerKind::All).await.unwrap();
            queue.done(got, Next::Postponed(Duration::from_secs(after)));
            let before = Instant::now();
            let got = queue.next(WorkerKind::All).await.unwrap();
            assert_eq!((Instant::now() - before).as_secs(), waits);
            queue.done(got, Next::After(Duration::ZERO));
        }
        for _ in 0..20 {
            let got = queue.next(WorkerKind::All).await.unwrap();
            queue.done(got, Next::Postponed(Duration::ZERO));
        }
        let before = Instant::now();
        queue.next(WorkerKind::All).await.unwrap();
        assert_eq!(Instant::now() - before, MAX_POSTPONED);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_overtakes_a_planned_look_and_an_earlier_plan_wins() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(300), Class::Scan);
        queue.add_after(key("a"), Duration::from_secs(3), Class::Scan);
        queue.add_after(key("a"), Duration::from_secs(100), Class::Scan);
        let before = Instant::now();
        let got = queue.next(WorkerKind::All).await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 3);
        queue.done(got, Next::Done);
        queue.add_after(key("a"), Duration::from_secs(300), Class::Scan);
        queue.add(key("a"), Class::Drift);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        queue.done(key("a"), Next::Done);
        // The planned reconcile was overtaken: nothing is left of it.
        assert!(queue.is_idle(Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_told_of_often_leave_nothing_behind() {
        let queue = Queue::default();
        for _ in 0..10_000 {
            queue.add(key("a"), Class::Drift);
            let a = queue.next(WorkerKind::All).await.unwrap();
            queue.done(a, Next::After(Duration::from_secs(300)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let state = queue.state.lock();
        assert!(
            state.later.len() <= STALE_SLACK + 2 && state.due.len() == 1,
            "{}",
            state.later.len()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_is_told_once_and_a_planned_look_is_nothing_that_happened() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(1), Class::Scan);
        let got = queue.next(WorkerKind::All).await.unwrap();
        assert!(!queue.take_triggered(&got));
        queue.add(key("a"), Class::Drift);
        queue.done(got, Next::After(Duration::from_secs(1)));
        let got = queue.next(WorkerKind::All).await.unwrap();
        assert!(queue.take_triggered(&got));
        assert!(!queue.take_triggered(&got));
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_is_measured() {
        let registry = vela_serve::metrics::Registry::new("test", "0").unwrap();
        let metrics = crate::metrics::Metrics::new(&registry).unwrap();
        let (queue, meter) = (Queue::default(), metrics.queues.of("test"));
        queue.add(key("a"), Class::Drift);
        tokio::time::advance(Duration::from_secs(3600)).await;
        queue.measure(meter.clone());
        assert_eq!((meter.adds.get(), queue.load().depth), (1, 1));
        tokio::time::advance(Duration::from_secs(2)).await;
        let got = queue.next(WorkerKind::All).await.unwrap();
        assert_eq!((meter.waits.get_sample_count(), meter.waits.get_sample_sum()), (1, 2.0));
        queue.add(key("b"), Class::Drift);
        tokio::time::advance(Duration::from_secs(1)).await;
        queue.next(WorkerKind::All).await.unwrap();
        // Twice while it runs is once more.
        queue.add(key("a"), Class::Drift);
        queue.add(key("a"), Class::Drift);
        tokio::time::advance(Duration::from_secs(3)).await;
        let (unfinished, longest) = (Duration::from_secs(7), Duration::from_secs(4));
        let waiting = PerClass::default();
        assert_eq!(queue.load(), Load { depth: 1, waiting, unfinished, longest });
        queue.done(got, Next::Failed);
        queue.done(key("b"), Next::After(Duration::from_secs(9)));
        assert_eq!((meter.attempts.get_sample_count(), meter.attempts.get_sample_sum()), (2, 7.0));
        // That it failed is for later, what happened in the meantime for now.
        assert_eq!((meter.adds.get(), meter.retries.get()), (3, 1));
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        assert_eq!(meter.waits.get_sample_sum(), 2.0 + 1.0 + 3.0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_edit_does_not_wait_for_others() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(key(name), Class::Drift);
        }
        queue.add(key("c"), Class::Edit);
        queue.add(key("c"), Class::Edit);
        assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("c")));
        assert_eq!(queue.len(), 2);
        // Edited while it runs, and while it waits.
        queue.add(key("c"), Class::Edit);
        queue.add(key("b"), Class::Edit);
        queue.done(key("c"), Next::Done);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
        assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("c")));
        for name in ["a", "b", "c"] {
            queue.done(key(name), Next::Done);
        }
        // Nothing is left of what the other worker took.
        assert!(queue.is_idle(Duration::from_secs(3600)));
        queue.add(key("d"), Class::Drift);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("d")));
        let none =
            tokio::time::timeout(Duration::from_secs(1), queue.next(WorkerKind::Edits)).await;
        assert!(none.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_workers() {
        let queue = Arc::new(Queue::default());
        let workers = [WorkerKind::All, WorkerKind::All, WorkerKind::Edits].map(|kind| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.next(kind).await })
        });
        tokio::task::yield_now().await;
        queue.close();
        for worker in workers {
            assert_eq!(worker.await.unwrap(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_serves_what_is_ours_and_forgets_the_rest() {
        let (queue, served) = (Queue::default(), Arc::new(Mutex::new(vec!["a", "b", "c"])));
        let ours = Arc::clone(&served);
        queue.serve(Arc::new(move |key: &Key| ours.lock().contains(&key.name.as_str())));
        for name in ["a", "b", "c", "d"] {
            queue.add(key(name), Class::Edit);
            queue.wake_user(key(name));
        }
        assert_eq!(queue.len(), 3);
        let a = queue.next(WorkerKind::All).await.unwrap();
        queue.add(a.clone(), Class::Edit);
        queue.add_after(key("c"), Duration::from_secs(1), Class::Progress);
        served.lock().retain(|name| *name == "b");
        queue.drop_foreign();
        // The attempt at what is not ours any more ends, and leaves nothing behind.
        queue.done(a, Next::Failed);
        let is_clean = {
            let state = queue.state.lock();
            state.due.is_empty() && state.again.is_empty() && state.failures.is_empty()
        };
        assert!(is_clean);
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
        assert!(queue.is_empty());
    }

    #[test]
    fn delays_are_bounded() {
        for name in ["a", "b", "c"] {
            for (failures, most) in [(1, FIRST_DELAY), (64, MAX_DELAY)] {
                let delay = backoff(&key(name), failures);
                assert!(delay <= most && delay >= most * 4 / 5, "{delay:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn resyncs_are_spread_over_their_period() {
        let period = Duration::from_secs(300);
        let queue = Queue::default();
        let start = Instant::now();
        for name in 0..3_000 {
            queue.add(key(&name.to_string()), Class::Scan);
        }
        for _ in 0..3_000 {
            let key = queue.next(WorkerKind::All).await.unwrap();
            queue.done(key, Next::Resync(period));
        }
        let mut minutes = [0; 5];
        let mut first = HashMap::new();
        for _ in 0..3_000 {
            let key = queue.next(WorkerKind::All).await.unwrap();
            let at = Instant::now() - start;
            minutes[usize::try_from(at.as_secs() / 60).unwrap()] += 1;
            first.insert(key.clone(), at);
            queue.done(key, Next::Resync(period));
        }
        assert!(minutes.iter().all(|count| (500..700).contains(count)), "{minutes:?}");
        // From then on at the same moment of each period, whatever happens between.
        for _ in 0..3_000 {
            let key = queue.next(WorkerKind::All).await.unwrap();
            let between = Instant::now() - start - first[&key];
            assert!(between.abs_diff(period) < Duration::from_millis(10), "{between:?}");
            queue.done(key, Next::Done);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_wakes_at_a_bounded_rate_and_shortens_no_pause() {
        let queue = Queue::default();
        let reconciles = async |count: usize, next: Next| {
            let mut reconciles = 0;
            for _ in 0..count {
                queue.wake_user(key("a"));
                while !queue.is_empty() {
                    let a = queue.next(WorkerKind::All).await.unwrap();
                    assert!(queue.take_triggered(&a));
                    queue.done(a, next);
                    reconciles += 1;
                }
                tokio::time::advance(Duration::from_millis(100)).await;
                queue.state.lock().promote(Instant::now());
            }
            reconciles
        };
        let settled = reconciles(600, Next::Done).await;
        assert!((5..=9).contains(&settled), "{settled} reconciles in a minute");
        // Failing: the same attempts as without a word.
        tokio::time::advance(Duration::from_secs(300)).await;
        let failing = reconciles(600, Next::Failed).await;
        assert!((9..=13).contains(&failing), "{failing} attempts in a minute");
        let failures = queue.failures(&key("a"));
        assert_eq!(failures, failing, "none was forgotten");
        // An edit does not wait.
        queue.add(key("a"), Class::Edit);
        assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("a")));
        // What it uses changes while it fails once more.
        queue.wake_user(key("a"));
        queue.done(key("a"), Next::Failed);
        assert!(queue.is_empty() && queue.is_idle(Duration::from_secs(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scan_that_turns_into_an_edit_is_taken_as_one() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(key(name), Class::Scan);
        }
        queue.add(key("c"), Class::Edit);
        queue.add(key("c"), Class::Scan);
        assert_eq!(
            queue.load().waiting,
            PerClass::of(|class| match class {
                Class::Edit => 1,
                Class::Scan => 2,
                _ => 0,
            })
        );
        assert_eq!(queue.next(WorkerKind::All).await, Some(key("c")));
    }
}
