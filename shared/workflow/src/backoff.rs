//! When to look again: counters per step, and the delay they give.
//!
//! The counters outlive a process (the caller stores them beside the workflow's variables), so a
//! new leader goes on where the old one stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::status::{Phase, Status};

/// Counters of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Failed attempts so far.
    pub failures: u32,
    /// Looks that left the step unfinished.
    pub looks: u32,
    /// The message at the last look; a new one starts the count again.
    pub message: String,
    /// When what the step waits for changed last; kept for steps with a progress deadline.
    pub progress: Option<Timestamp>,
}

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

    pub(crate) fn look(&mut self, id: &str, message: &str) {
        let counters = self
            .steps
            .entry(id.to_owned())
            .or_insert_with(|| Counters { message: message.to_owned(), ..Counters::default() });
        if counters.message == message {
            counters.looks = counters.looks.saturating_add(1);
        } else {
            counters.looks = 0;
            message.clone_into(&mut counters.message);
        }
    }

    pub(crate) fn fail(&mut self, id: &str) -> u32 {
        let counters = self.steps.entry(id.to_owned()).or_default();
        counters.failures = counters.failures.saturating_add(1);
        counters.failures
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

    /// The smallest positive count of looks.
    fn youngest(&self) -> u32 {
        self.steps.values().map(|c| c.looks).filter(|looks| *looks > 0).min().unwrap_or(0)
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

/// The delay until the next look at a workflow that waits.
pub(crate) fn delay(memory: &Memory, status: &Status, caps: Caps) -> Duration {
    let exponent = memory.youngest().min(15);
    // 0.05 s doubled each time, in whole seconds, never less than one
    let seconds = (u64::from(2_u32.saturating_pow(exponent)) * 5 / 100).max(1);
    Duration::from_secs(seconds).min(cap(status, caps))
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
    use crate::status::{Reason, StepStatus};

    fn seconds(looks: u32, phase: Phase) -> u64 {
        let mut memory = Memory::default();
        memory.of("a").looks = looks;
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
        delay(&memory, &status, caps).as_secs()
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
    fn a_new_message_starts_again() {
        let mut memory = Memory::default();
        for _ in 0..8 {
            memory.look("a", "same");
        }
        assert_eq!(memory.youngest(), 8);
        memory.look("a", "other");
        assert_eq!(memory.youngest(), 0);
    }
}
