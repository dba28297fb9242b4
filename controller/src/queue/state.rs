//! The keys of a queue: those that wait for a worker, are worked on, have to run once more, or are wanted later.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;
use vela_cluster::Key;

use crate::metrics::QueueMeter;

use super::pace::Pace;
use super::turns::{Class, Taken, Turns};

/// A key that is worked on.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) since: Instant,
    pub(super) turn: Taken,
    /// It goes on without a worker: its turn is over.
    pub(super) parked: bool,
}

/// How often a key failed, and was postponed, in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failures {
    pub(super) failed: u32,
    /// That says nothing of the key: a failure that follows is its first.
    pub(super) postponed: u32,
}

/// When a key is wanted next, and how urgently.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delayed {
    pub(super) at: Instant,
    pub(super) class: Class,
}

/// The keys of a queue, behind its lock.
pub(super) struct State {
    pub(super) turns: Turns,
    pub(super) running: HashMap<Key, Running>,
    /// Of those, what has to run once more: how urgently, and since when.
    pub(super) again: HashMap<Key, (Class, Instant)>,
    pub(super) later: BinaryHeap<Reverse<(Instant, Key)>>,
    /// The one time each key is really wanted at; older entries of `later` are stale.
    pub(super) due: HashMap<Key, Delayed>,
    pub(super) failures: HashMap<Key, Failures>,
    /// Something happened to these since they were last taken up.
    pub(super) triggered: HashSet<Key>,
    pub(super) pace: Pace,
    /// When the queue began: resyncs are spread from then on.
    pub(super) epoch: Instant,
    pub(super) meter: Option<QueueMeter>,
    /// Which keys are of this process; `None`: all are.
    pub(super) ours: Option<Ours>,
    pub(super) closed: bool,
}

/// Whether a key is of this process.
pub type Ours = Arc<dyn Fn(&Key) -> bool + Send + Sync>;

/// Stale entries of `later` that are not worth a clean-up.
pub(super) const STALE_SLACK: usize = 64;

impl State {
    pub(super) fn is_ours(&self, key: &Key) -> bool {
        self.ours.as_ref().is_none_or(|ours| ours(key))
    }

    /// A key is wanted at a time, unless it is wanted earlier. Returns whether that is news.
    pub(super) fn plan(&mut self, key: Key, due: Delayed) -> bool {
        if self.due.get(&key).is_some_and(|known| known.at <= due.at) {
            return false;
        }
        self.due.insert(key.clone(), due);
        self.later.push(Reverse((due.at, key)));
        self.drop_stale();
        true
    }

    /// A key that is added again and again leaves an entry in `later` each time, which would stay until its time comes.
    pub(super) fn drop_stale(&mut self) {
        if self.later.len() > self.due.len().saturating_mul(2).saturating_add(STALE_SLACK) {
            let Self { later, due, .. } = self;
            later.retain(|Reverse((at, key))| due.get(key).is_some_and(|due| due.at == *at));
        }
    }

    /// A key waits for a worker, or for the end of the work on it.
    pub(super) fn push(&mut self, key: Key, class: Class, now: Instant) {
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
    pub(super) fn promote(&mut self, now: Instant) {
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
    pub(super) fn failed(&mut self, key: &Key) -> u32 {
        let count = self.failures.entry(key.clone()).or_default();
        count.postponed = 0;
        count.failed = count.failed.saturating_add(1);
        count.failed
    }

    /// Counts that a key was postponed.
    pub(super) fn postponed(&mut self, key: &Key) -> u32 {
        let count = self.failures.entry(key.clone()).or_default();
        count.postponed = count.postponed.saturating_add(1);
        count.postponed
    }
}
