//! Back-off of steps: counters per step, and the resulting delay.
//!
//! The counters outlive a process (the caller stores them with the workflow's variables), so a
//! new leader continues where the old one stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::status::{Phase, Status, StepStatus};

/// Counters of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Failed attempts so far.
    pub failures: u32,
    /// When the next attempt is due, after one that failed or was postponed: nothing else brings it forward.
    pub next: Option<Timestamp>,
    /// Attempts in a row that were postponed.
    pub postponed: u32,
    /// Passes that left the step unfinished.
    pub waits: u32,
    /// The message at the last reconcile; a new one starts the count again.
    pub message: String,
    /// The last attempt needed what is out of reach.
    pub is_away: bool,
    /// When what the step waits for changed last; kept for steps with a progress deadline.
    pub progress: Option<Timestamp>,
}

/// Longest pause between postponed attempts, unless the API server asks for a longer one: the end of an overload is not announced.
const MAX_POSTPONEMENT: Duration = Duration::from_secs(15);
/// Longest time that an API server is left alone because it asked for it.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Pause between attempts that need what is out of reach: whoever hears that it is back starts one before.
const AWAY: Duration = Duration::from_secs(60);

/// Counters by step id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    steps: BTreeMap<String, Counters>,
}

impl Memory {
    /// The counters kept.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Counters)> {
        self.steps.iter().map(|(id, counters)| (id.as_str(), counters))
    }

    /// The counters of a step, to put back what was stored.
    pub fn of(&mut self, id: &str) -> &mut Counters {
        self.steps.entry(id.to_owned()).or_default()
    }

    /// Takes note of whether what a step waits for changed; returns when it changed last.
    pub(crate) fn progress(&mut self, id: &str, changed: bool, now: Timestamp) -> Timestamp {
        let counters = self.of(id);
        let since = counters.progress.filter(|_| !changed).unwrap_or(now);
        counters.progress = Some(since);
        since
    }

    /// When what a step waits for changed last.
    pub(crate) fn progress_of(&self, id: &str) -> Option<Timestamp> {
        self.steps.get(id)?.progress
    }

    /// Failed attempts of a step so far.
    pub(crate) fn failures(&self, id: &str) -> u32 {
        self.steps.get(id).map_or(0, |counters| counters.failures)
    }

    pub(crate) fn record_wait(&mut self, id: &str, message: &str) {
        let counters = self
            .steps
            .entry(id.to_owned())
            .or_insert_with(|| Counters { message: message.to_owned(), ..Counters::default() });
        if counters.message == message {
            counters.waits = counters.waits.saturating_add(1);
        } else {
            counters.waits = 0;
            message.clone_into(&mut counters.message);
        }
    }

    /// Counts a failed attempt and plans the next one; returns how many there are.
    pub(crate) fn fail(&mut self, id: &str, now: Timestamp, longest: Duration) -> u32 {
        let counters = self.steps.entry(id.to_owned()).or_default();
        let pause = pause(counters.failures).min(longest);
        counters.failures = counters.failures.saturating_add(1);
        counters.next = Some(later(now, pause));
        counters.failures
    }

    /// Plans the next attempt after a postponed one, not before the time that was asked for. That is no failure.
    pub(crate) fn postponed(&mut self, id: &str, now: Timestamp, after: Option<Duration>) {
        let counters = self.steps.entry(id.to_owned()).or_default();
        let asked = after.unwrap_or_default().min(MAX_RETRY_AFTER);
        let pause = pause(counters.postponed).min(MAX_POSTPONEMENT).max(asked);
        counters.postponed = counters.postponed.saturating_add(1);
        counters.next = Some(later(now, pause));
    }

    /// What an attempt needed is out of reach: the next one is made once it is back.
    pub(crate) fn away(&mut self, id: &str) {
        self.of(id).is_away = true;
    }

    /// An attempt got through: what it came to decides when the next one is.
    pub(crate) fn attempted(&mut self, id: &str) {
        if let Some(counters) = self.steps.get_mut(id) {
            (counters.next, counters.postponed, counters.is_away) = (None, 0, false);
        }
    }

    /// When the next attempt of a step is due, if it has a time of its own.
    pub(crate) fn next(&self, id: &str) -> Option<Timestamp> {
        self.steps.get(id)?.next
    }

    /// Whether the next attempt of some step has a time of its own.
    #[must_use]
    pub fn has_planned(&self) -> bool {
        self.steps.values().any(|counters| counters.next.is_some())
    }

    pub(crate) fn forget(&mut self, id: &str) {
        self.steps.remove(id);
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.steps.retain(|id, _| keep(id));
    }

    pub(crate) fn forget_all(&mut self) {
        self.steps.clear();
    }

    /// The smallest positive count of reconciles of the steps that have no time of their own.
    fn youngest(&self) -> u32 {
        let free =
            self.steps.values().filter(|counters| counters.next.is_none() && !counters.is_away);
        free.map(|counters| counters.waits).filter(|wait_count| *wait_count > 0).min().unwrap_or(0)
    }
}

/// Upper bounds of the delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) wait: Duration,
    pub(crate) failed: Duration,
}

/// The longest delay there is for a workflow.
pub(crate) fn cap(status: &Status, caps: Caps) -> Duration {
    if status.steps.iter().any(|s| s.phase == Phase::Failed) { caps.failed } else { caps.wait }
}

/// The delay until the next pass of a waiting workflow: the next planned attempt, the next one to reach what is out of reach, and the
/// next check of the other steps, if there are any that wait for more than for these.
pub(crate) fn delay(memory: &Memory, status: &Status, caps: Caps, now: Timestamp) -> Duration {
    let own_time = |counters: &Counters| match counters.next {
        Some(next) => Some(until(now, next)),
        None => counters.is_away.then_some(AWAY),
    };
    let own = memory.steps.values().filter_map(own_time).min();
    let waits = |step: &StepStatus| {
        step.phase == Phase::Running
            && step.sub_steps.is_empty()
            && memory.steps.get(&step.id).and_then(own_time).is_none()
    };
    let free = pause(memory.youngest()).min(cap(status, caps));
    match own {
        None => free,
        Some(own) if status.all().any(waits) => free.min(own),
        Some(own) => own,
    }
}

/// 0.05 s doubled each time, in whole seconds, never less than one.
fn pause(times: u32) -> Duration {
    Duration::from_secs((u64::from(2_u32.saturating_pow(times.min(15))) * 5 / 100).max(1))
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// The time from `now` until `then`, in whole seconds upwards, at least one.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    let nanos = then.duration_since(now).as_nanos().max(0);
    let seconds = u64::try_from((nanos + 999_999_999) / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::from_secs(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Reason;

    fn seconds(wait_count: u32, phase: Phase) -> u64 {
        let mut memory = Memory::default();
        memory.of("a").waits = wait_count;
        let step = StepStatus {
            id: "a".into(),
            name: "a".into(),
            kind: "k".into(),
            phase,
            reason: Reason::None,
            message: String::new(),
            first_execute_time: None,
            last_execute_time: None,
            sub_steps: vec![],
        };
        let status = Status { steps: vec![step], ..Status::default() };
        let caps = Caps { wait: Duration::from_secs(60), failed: Duration::from_secs(300) };
        delay(&memory, &status, caps, Timestamp::UNIX_EPOCH).as_secs()
    }

    #[test]
    fn doubles_up_to_the_cap() {
        let failed: Vec<u64> = (0..=14).map(|n| seconds(n, Phase::Failed)).collect();
        assert_eq!(failed, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51, 102, 204, 300, 300]);
        let waiting: Vec<u64> = (10..=14).map(|n| seconds(n, Phase::Running)).collect();
        assert_eq!(waiting, [51, 60, 60, 60, 60]);
        assert_eq!(seconds(u32::MAX, Phase::Failed), 300);
    }

    #[test]
    fn failing_attempts_are_planned_one_by_one() {
        let mut memory = Memory::default();
        let longest = Duration::from_secs(300);
        let mut now = Timestamp::UNIX_EPOCH;
        let mut pauses = Vec::new();
        for times in 1..=15 {
            assert_eq!(memory.fail("a", now, longest), times);
            let next = memory.next("a").unwrap();
            pauses.push(next.duration_since(now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51, 102, 204, 300, 300]);
    }

    #[test]
    fn what_is_put_off_is_soon_tried_again_but_not_before_it_may() {
        let mut memory = Memory::default();
        let now = Timestamp::UNIX_EPOCH;
        let mut postponed = |after: Option<u64>| {
            memory.postponed("a", now, after.map(Duration::from_secs));
            assert_eq!(memory.failures("a"), 0);
            memory.next("a").unwrap().as_second()
        };
        assert_eq!((postponed(Some(30)), postponed(Some(u64::MAX))), (30, 300));
        let pauses: Vec<i64> = (0..10).map(|_| postponed(None)).collect();
        assert_eq!(pauses, [1, 1, 1, 1, 3, 6, 12, 15, 15, 15]);
        memory.attempted("a");
        assert_eq!(memory.next("a"), None);
        memory.postponed("a", now, None);
        assert_eq!(memory.next("a").unwrap().as_second(), 1);
    }

    #[test]
    fn a_new_message_starts_again() {
        let mut memory = Memory::default();
        for _ in 0..8 {
            memory.record_wait("a", "same");
        }
        assert_eq!(memory.youngest(), 8);
        memory.record_wait("a", "other");
        assert_eq!(memory.youngest(), 0);
    }
}
