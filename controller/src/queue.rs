//! The work queue of one controller: keys, not objects; a key is worked on by one worker at a time, and what happens to
//! it meanwhile makes it run once more. Failures are counted per key and delay the next attempt.
//!
//! Answers for client-go's rate-limited workqueue, with three differences: a key whose object is gone is forgotten, a
//! failing key never holds a worker, and what somebody edited has a lane of its own beside that of everything.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
pub use vela_cluster::Key;

use crate::metrics::{Load, QueueMeter};

/// What becomes of a key after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something happens; failures are forgotten.
    Done,
    /// Look again after this time; failures are forgotten.
    After(Duration),
    /// The attempt failed: look again after a delay that doubles.
    Failed,
    /// The API server was overloaded or away: look again, not before this time, after a delay that doubles for a while.
    PutOff(Duration),
}

/// Which keys a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// All, one after the other.
    All,
    /// What somebody edited: it does not wait for rollouts of others.
    Edits,
}

/// Why and since when a key waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    edited: bool,
}

/// First delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Longest delay after failures.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Longest delay of what was put off: an overload ends without a word.
const MAX_PUT_OFF: Duration = Duration::from_secs(15);

#[derive(Default)]
struct State {
    /// The keys that are ready to be worked on.
    ready: HashMap<Key, Waiting>,
    /// Their order; keys that another lane took are stale.
    all: VecDeque<Key>,
    /// The order of those that were edited; likewise.
    edits: VecDeque<Key>,
    /// With the time each was taken up.
    running: HashMap<Key, Instant>,
    /// Of those, what has to run once more.
    again: HashMap<Key, Waiting>,
    later: BinaryHeap<Reverse<(Instant, Key)>>,
    /// The one time each key is really wanted at; older entries of `later` are stale.
    due: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
    /// Something happened to these since they were last taken up.
    told: HashSet<Key>,
    meter: Option<QueueMeter>,
    closed: bool,
}

/// Stale entries of `later` that are not worth a clean-up.
const FEW: usize = 64;

/// A key that is told of again and again leaves an entry of `later` each time, which would stay until its time comes.
fn drop_stale(state: &mut State) {
    if state.later.len() > state.due.len().saturating_mul(2).saturating_add(FEW) {
        let State { later, due, .. } = state;
        later.retain(|Reverse((at, key))| due.get(key) == Some(at));
    }
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
    wake_edits: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("length", &self.len()).finish()
    }
}

impl Queue {
    /// Keys that are ready to be worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().ready.len()
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
        let now = Instant::now();
        state.ready.values_mut().for_each(|waiting| waiting.since = now);
        meter.adds.inc_by(u64::try_from(state.ready.len()).unwrap_or_default());
        state.meter = Some(meter);
    }

    /// What there is to do now.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        let now = Instant::now();
        let times = || state.running.values().map(|since| now.saturating_duration_since(*since));
        Load {
            depth: state.ready.len().saturating_add(state.again.len()),
            unfinished: times().sum(),
            longest: times().max().unwrap_or_default(),
        }
    }

    /// What is being worked on, and for how long.
    #[must_use]
    pub fn running(&self) -> Vec<(Key, Duration)> {
        let state = self.state.lock();
        let now = Instant::now();
        let since = |since: &Instant| now.saturating_duration_since(*since);
        state.running.iter().map(|(key, begun)| (key.clone(), since(begun))).collect()
    }

    /// Something happened to a key.
    pub fn add(&self, key: Key) {
        self.tell(key, false);
    }

    /// Somebody edited what a key stands for.
    pub fn add_edited(&self, key: Key) {
        self.tell(key, true);
    }

    fn tell(&self, key: Key, edited: bool) {
        let mut state = self.state.lock();
        state.due.remove(&key);
        state.told.insert(key.clone());
        push(&mut state, key, Waiting { since: Instant::now(), edited });
        drop(state);
        self.wake(edited);
    }

    fn wake(&self, edited: bool) {
        self.wake.notify_one();
        if edited {
            self.wake_edits.notify_one();
        }
    }

    /// Look at a key after some time, unless an earlier look is planned.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let mut state = self.state.lock();
        if let Some(meter) = &state.meter {
            meter.retries.inc();
        }
        if delay.is_zero() {
            drop(state);
            return self.add(key);
        }
        let at = Instant::now() + delay;
        if state.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        state.due.insert(key.clone(), at);
        state.later.push(Reverse((at, key)));
        drop_stale(&mut state);
        drop(state);
        self.wake.notify_one();
    }

    /// Whether something happened to a key, and not only its time came; forgets it.
    pub fn take_told(&self, key: &Key) -> bool {
        self.state.lock().told.remove(key)
    }

    /// How often a key failed in a row.
    #[must_use]
    pub fn failures(&self, key: &Key) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or_default()
    }

    /// Waits for a key to work on; `None` once the queue is closed. [`Queue::done`] must follow.
    pub async fn next(&self, lane: Lane) -> Option<Key> {
        let wake = match lane {
            Lane::All => &self.wake,
            Lane::Edits => &self.wake_edits,
        };
        loop {
            let waited = wake.notified();
            let until = {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let now = Instant::now();
                promote(&mut state, now);
                if let Some((key, since)) = take(&mut state, lane) {
                    state.running.insert(key.clone(), now);
                    if let Some(meter) = &state.meter {
                        meter.waits.observe(now.saturating_duration_since(since).as_secs_f64());
                    }
                    if !state.ready.is_empty() {
                        self.wake(!state.edits.is_empty());
                    }
                    return Some(key);
                }
                state.later.peek().map(|Reverse((at, _))| *at).filter(|_| lane == Lane::All)
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

    /// The attempt at a key is over.
    pub fn done(&self, key: Key, next: Next) {
        let mut edited = false;
        let delay = {
            let mut state = self.state.lock();
            let begun = state.running.remove(&key);
            if let (Some(meter), Some(begun)) = (&state.meter, begun) {
                meter.attempts.observe(begun.elapsed().as_secs_f64());
            }
            let delay = match next {
                Next::Done => {
                    state.failures.remove(&key);
                    None
                }
                Next::After(delay) => {
                    state.failures.remove(&key);
                    Some(delay)
                }
                Next::Failed => Some(backoff(failed(&mut state, &key))),
                Next::PutOff(after) => {
                    Some(backoff(failed(&mut state, &key)).min(MAX_PUT_OFF).max(after))
                }
            };
            if let Some(waiting) = state.again.remove(&key) {
                // Counted when it was added.
                edited = waiting.edited;
                line_up(&mut state, key.clone(), waiting);
                None
            } else {
                delay
            }
        };
        self.wake(edited);
        if let Some(delay) = delay {
            self.add_after(key, delay);
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
        state.ready.is_empty()
            && state.running.is_empty()
            && !state.due.values().any(|due| *due < soon)
    }
}

/// Counts a failure of a key.
fn failed(state: &mut State, key: &Key) -> u32 {
    let count = state.failures.entry(key.clone()).or_insert(0);
    *count = count.saturating_add(1);
    *count
}

fn push(state: &mut State, key: Key, waiting: Waiting) {
    let is_new = if state.running.contains_key(&key) {
        match state.again.entry(key) {
            Entry::Occupied(mut known) => {
                known.get_mut().edited |= waiting.edited;
                false
            }
            Entry::Vacant(free) => {
                free.insert(waiting);
                true
            }
        }
    } else {
        line_up(state, key, waiting)
    };
    if let Some(meter) = state.meter.as_ref().filter(|_| is_new) {
        meter.adds.inc();
    }
}

/// Makes a key ready. Returns whether it was not yet.
fn line_up(state: &mut State, key: Key, waiting: Waiting) -> bool {
    let (is_new, was_edited) = match state.ready.entry(key.clone()) {
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            let was_edited = known.edited;
            known.edited |= waiting.edited;
            (false, was_edited)
        }
        Entry::Vacant(free) => {
            free.insert(waiting);
            (true, false)
        }
    };
    if waiting.edited && !was_edited {
        state.edits.push_back(key.clone());
    }
    if is_new {
        state.all.push_back(key);
    }
    is_new
}

/// The next key of a lane, and since when it waits.
fn take(state: &mut State, lane: Lane) -> Option<(Key, Instant)> {
    loop {
        let key = match lane {
            Lane::All => state.all.pop_front(),
            Lane::Edits => state.edits.pop_front(),
        }?;
        if let Some(waiting) = state.ready.remove(&key) {
            return Some((key, waiting.since));
        }
    }
}

fn promote(state: &mut State, now: Instant) {
    while let Some(Reverse((at, _))) = state.later.peek() {
        if *at > now {
            return;
        }
        let Some(Reverse((at, key))) = state.later.pop() else { return };
        if state.due.get(&key) == Some(&at) {
            state.due.remove(&key);
            push(state, key, Waiting { since: now, edited: false });
        }
    }
}

fn backoff(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY)
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
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next(Lane::All).await, Some(key("a")));
        queue.add(key("a"));
        queue.add(key("a"));
        assert!(queue.is_empty());
        queue.done(key("a"), Next::Done);
        assert_eq!(queue.next(Lane::All).await, Some(key("a")));
        queue.done(key("a"), Next::Done);
        assert!(queue.is_idle(Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets() {
        let queue = Queue::default();
        queue.add(key("a"));
        let mut waits = Vec::new();
        for _ in 0..4 {
            let before = Instant::now();
            let got = queue.next(Lane::All).await.unwrap();
            waits.push((Instant::now() - before).as_millis());
            queue.done(got, Next::Failed);
        }
        assert_eq!(waits, [0, 50, 100, 200]);
        assert_eq!(queue.failures(&key("a")), 4);
        let got = queue.next(Lane::All).await.unwrap();
        queue.done(got, Next::After(Duration::from_secs(5)));
        assert_eq!(queue.failures(&key("a")), 0);
        let before = Instant::now();
        queue.next(Lane::All).await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_waits_as_long_as_it_must() {
        let queue = Queue::default();
        queue.add(key("a"));
        for (after, waits) in [(5, 5), (0, 0), (60, 60)] {
            let got = queue.next(Lane::All).await.unwrap();
            queue.done(got, Next::PutOff(Duration::from_secs(after)));
            let before = Instant::now();
            let got = queue.next(Lane::All).await.unwrap();
            assert_eq!((Instant::now() - before).as_secs(), waits);
            queue.done(got, Next::After(Duration::ZERO));
        }
        for _ in 0..20 {
            let got = queue.next(Lane::All).await.unwrap();
            queue.done(got, Next::PutOff(Duration::ZERO));
        }
        let before = Instant::now();
        queue.next(Lane::All).await.unwrap();
        assert_eq!(Instant::now() - before, MAX_PUT_OFF);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_overtakes_a_planned_look_and_an_earlier_plan_wins() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(300));
        queue.add_after(key("a"), Duration::from_secs(3));
        queue.add_after(key("a"), Duration::from_secs(100));
        let before = Instant::now();
        let got = queue.next(Lane::All).await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 3);
        queue.done(got, Next::Done);
        queue.add_after(key("a"), Duration::from_secs(300));
        queue.add(key("a"));
        assert_eq!(queue.next(Lane::All).await, Some(key("a")));
        queue.done(key("a"), Next::Done);
        // The planned look was overtaken: nothing is left of it.
        assert!(queue.is_idle(Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_told_of_often_leave_nothing_behind() {
        let queue = Queue::default();
        for _ in 0..10_000 {
            queue.add(key("a"));
            let a = queue.next(Lane::All).await.unwrap();
            queue.done(a, Next::After(Duration::from_secs(300)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let state = queue.state.lock();
        assert!(state.later.len() <= FEW + 2 && state.due.len() == 1, "{}", state.later.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_is_told_once_and_a_planned_look_is_nothing_that_happened() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(1));
        let got = queue.next(Lane::All).await.unwrap();
        assert!(!queue.take_told(&got));
        queue.add(key("a"));
        queue.done(got, Next::After(Duration::from_secs(1)));
        let got = queue.next(Lane::All).await.unwrap();
        assert!(queue.take_told(&got));
        assert!(!queue.take_told(&got));
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_is_measured() {
        let registry = vela_serve::metrics::Registry::new("test", "0").unwrap();
        let metrics = crate::metrics::Metrics::new(&registry).unwrap();
        let (queue, meter) = (Queue::default(), metrics.queues.of("test"));
        queue.add(key("a"));
        tokio::time::advance(Duration::from_secs(3600)).await;
        queue.measure(meter.clone());
        assert_eq!((meter.adds.get(), queue.load().depth), (1, 1));
        tokio::time::advance(Duration::from_secs(2)).await;
        let got = queue.next(Lane::All).await.unwrap();
        assert_eq!((meter.waits.get_sample_count(), meter.waits.get_sample_sum()), (1, 2.0));
        queue.add(key("b"));
        tokio::time::advance(Duration::from_secs(1)).await;
        queue.next(Lane::All).await.unwrap();
        // Twice while it runs is once more.
        queue.add(key("a"));
        queue.add(key("a"));
        tokio::time::advance(Duration::from_secs(3)).await;
        let (unfinished, longest) = (Duration::from_secs(7), Duration::from_secs(4));
        assert_eq!(queue.load(), Load { depth: 1, unfinished, longest });
        queue.done(got, Next::Failed);
        queue.done(key("b"), Next::After(Duration::from_secs(9)));
        assert_eq!((meter.attempts.get_sample_count(), meter.attempts.get_sample_sum()), (2, 7.0));
        // That it failed is for later, what happened meanwhile for now.
        assert_eq!((meter.adds.get(), meter.retries.get()), (3, 1));
        assert_eq!(queue.next(Lane::All).await, Some(key("a")));
        assert_eq!(meter.waits.get_sample_sum(), 2.0 + 1.0 + 3.0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_edit_does_not_wait_for_others() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(key(name));
        }
        queue.add_edited(key("c"));
        queue.add_edited(key("c"));
        assert_eq!(queue.next(Lane::Edits).await, Some(key("c")));
        assert_eq!(queue.len(), 2);
        // Edited while it runs, and while it waits.
        queue.add_edited(key("c"));
        queue.add_edited(key("b"));
        queue.done(key("c"), Next::Done);
        assert_eq!(queue.next(Lane::All).await, Some(key("a")));
        assert_eq!(queue.next(Lane::All).await, Some(key("b")));
        assert_eq!(queue.next(Lane::Edits).await, Some(key("c")));
        for name in ["a", "b", "c"] {
            queue.done(key(name), Next::Done);
        }
        // Nothing is left of what the other lane took.
        assert!(queue.is_idle(Duration::from_secs(3600)));
        queue.add(key("d"));
        assert_eq!(queue.next(Lane::All).await, Some(key("d")));
        assert!(queue.state.lock().all.is_empty());
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next(Lane::Edits)).await;
        assert!(none.is_err() && queue.state.lock().edits.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_workers() {
        let queue = std::sync::Arc::new(Queue::default());
        let workers = [Lane::All, Lane::All, Lane::Edits].map(|lane| {
            let queue = std::sync::Arc::clone(&queue);
            tokio::spawn(async move { queue.next(lane).await })
        });
        tokio::task::yield_now().await;
        queue.close();
        for worker in workers {
            assert_eq!(worker.await.unwrap(), None);
        }
    }

    #[test]
    fn delays_are_bounded() {
        assert_eq!(backoff(1), FIRST_DELAY);
        assert_eq!(backoff(64), MAX_DELAY);
    }
}
