//! The work queue of one controller: keys, not objects; a key is worked on by one worker at a time, and what happens to
//! it meanwhile makes it run once more. Failures are counted per key and delay the next attempt.
//!
//! Answers for client-go's rate-limited workqueue, with two differences: a key whose object is gone is forgotten, and a
//! failing key never holds a worker.

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
}

/// First delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Longest delay after failures.
const MAX_DELAY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    /// With the time since when each waits.
    ready: VecDeque<(Key, Instant)>,
    queued: HashSet<Key>,
    /// With the time each was taken up.
    running: HashMap<Key, Instant>,
    /// Of those, what has to run once more, since when.
    again: HashMap<Key, Instant>,
    later: BinaryHeap<Reverse<(Instant, Key)>>,
    /// The one time each key is really wanted at; older entries of `later` are stale.
    due: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
    /// Something happened to these since they were last taken up.
    told: HashSet<Key>,
    meter: Option<QueueMeter>,
    closed: bool,
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
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
        for (_, since) in &mut state.ready {
            *since = now;
        }
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

    /// Something happened to a key.
    pub fn add(&self, key: Key) {
        let mut state = self.state.lock();
        state.due.remove(&key);
        state.told.insert(key.clone());
        push(&mut state, key, Instant::now());
        drop(state);
        self.wake.notify_one();
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
    pub async fn next(&self) -> Option<Key> {
        loop {
            let waited = self.wake.notified();
            let until = {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let now = Instant::now();
                promote(&mut state, now);
                if let Some((key, since)) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone(), now);
                    if let Some(meter) = &state.meter {
                        meter.waits.observe(now.saturating_duration_since(since).as_secs_f64());
                    }
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return Some(key);
                }
                state.later.peek().map(|Reverse((at, _))| *at)
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
                Next::Failed => {
                    let count = state.failures.entry(key.clone()).or_insert(0);
                    *count = count.saturating_add(1);
                    Some(backoff(*count))
                }
            };
            if let Some(since) = state.again.remove(&key) {
                // Counted when it was added.
                if state.queued.insert(key.clone()) {
                    state.ready.push_back((key.clone(), since));
                }
                None
            } else {
                delay
            }
        };
        self.wake.notify_one();
        if let Some(delay) = delay {
            self.add_after(key, delay);
        }
    }

    /// Ends all waiting workers.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
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

fn push(state: &mut State, key: Key, now: Instant) {
    let is_new = if state.running.contains_key(&key) {
        match state.again.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(now);
                true
            }
        }
    } else {
        let is_new = state.queued.insert(key.clone());
        if is_new {
            state.ready.push_back((key, now));
        }
        is_new
    };
    if let Some(meter) = state.meter.as_ref().filter(|_| is_new) {
        meter.adds.inc();
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
            push(state, key, now);
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
        assert_eq!(queue.next().await, Some(key("a")));
        queue.add(key("a"));
        queue.add(key("a"));
        assert!(queue.is_empty());
        queue.done(key("a"), Next::Done);
        assert_eq!(queue.next().await, Some(key("a")));
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
            let got = queue.next().await.unwrap();
            waits.push((Instant::now() - before).as_millis());
            queue.done(got, Next::Failed);
        }
        assert_eq!(waits, [0, 50, 100, 200]);
        assert_eq!(queue.failures(&key("a")), 4);
        let got = queue.next().await.unwrap();
        queue.done(got, Next::After(Duration::from_secs(5)));
        assert_eq!(queue.failures(&key("a")), 0);
        let before = Instant::now();
        queue.next().await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_overtakes_a_planned_look_and_an_earlier_plan_wins() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(300));
        queue.add_after(key("a"), Duration::from_secs(3));
        queue.add_after(key("a"), Duration::from_secs(100));
        let before = Instant::now();
        let got = queue.next().await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), 3);
        queue.done(got, Next::Done);
        queue.add_after(key("a"), Duration::from_secs(300));
        queue.add(key("a"));
        assert_eq!(queue.next().await, Some(key("a")));
        queue.done(key("a"), Next::Done);
        // The planned look was overtaken: nothing is left of it.
        assert!(queue.is_idle(Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_is_told_once_and_a_planned_look_is_nothing_that_happened() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(1));
        let got = queue.next().await.unwrap();
        assert!(!queue.take_told(&got));
        queue.add(key("a"));
        queue.done(got, Next::After(Duration::from_secs(1)));
        let got = queue.next().await.unwrap();
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
        let got = queue.next().await.unwrap();
        assert_eq!((meter.waits.get_sample_count(), meter.waits.get_sample_sum()), (1, 2.0));
        queue.add(key("b"));
        tokio::time::advance(Duration::from_secs(1)).await;
        queue.next().await.unwrap();
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
        assert_eq!(queue.next().await, Some(key("a")));
        assert_eq!(meter.waits.get_sample_sum(), 2.0 + 1.0 + 3.0);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_workers() {
        let queue = std::sync::Arc::new(Queue::default());
        let worker = tokio::spawn({
            let queue = std::sync::Arc::clone(&queue);
            async move { queue.next().await }
        });
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(worker.await.unwrap(), None);
    }

    #[test]
    fn delays_are_bounded() {
        assert_eq!(backoff(1), FIRST_DELAY);
        assert_eq!(backoff(64), MAX_DELAY);
    }
}
