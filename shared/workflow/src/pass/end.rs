//! The end of a pass: the workflow's phase, what it waits for, and when the next pass is due.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vela_gocompat::duration::Duration as GoDuration;

use crate::backoff::{self, Caps};
use crate::messages;
use crate::status::{Phase, Reason, StepStatus, WorkflowPhase};

use super::{Pass, Progress, saturating_add};

impl Pass<'_> {
    /// Ends the pass.
    #[must_use]
    pub fn end(mut self, now: Timestamp) -> Progress {
        self.facts.now = now;
        if self.failed_after_retries && self.options.suspend_on_failure && !self.waiting {
            self.status_mut().suspend = true;
            messages::SUSPENDED_AFTER_RETRIES.clone_into(&mut self.status_mut().message);
        } else {
            self.status_mut().message.clear();
        }
        if !self.status.suspend && self.all_done() && !self.all_succeeded() {
            // a restart from one step leaves the failure of another: nothing is left to run
            self.status_mut().terminated = true;
        }
        let phase = self.phase();
        self.status_mut().phase = phase;
        let again = self.again(phase);
        if self.status.message.is_empty() {
            let message = self.explained(phase, again).unwrap_or_default();
            self.status_mut().message = message;
        }
        if phase == WorkflowPhase::Suspending && self.failed_after_retries {
            self.memory.forget_all();
        }
        Progress {
            phase,
            status: Arc::unwrap_or_clone(self.status),
            memory: self.memory,
            variables: self.facts.variables,
            again,
        }
    }

    /// What a workflow waits for, since when, and how soon it is checked again.
    pub(super) fn explained(
        &self,
        phase: WorkflowPhase,
        again: Option<Duration>,
    ) -> Option<String> {
        if self.cut.is_some() {
            return self.cut.clone();
        }
        let leaves = || self.status.all().filter(|s| s.sub_steps.is_empty());
        if phase == WorkflowPhase::Suspending {
            let timed = leaves()
                .filter(|s| s.phase == Phase::Suspending)
                .filter_map(|s| Some((*self.facts.resume_at.get(&s.id)?, s.name.as_str())));
            let (until, step) = timed.min()?;
            return Some(messages::suspended_until(step, &whole_seconds(until)));
        }
        let delay = again.filter(|_| phase == WorkflowPhase::Executing)?;
        let again = whole_seconds(self.facts.now.saturating_add(delay).unwrap_or(self.facts.now));
        let waiting = || leaves().filter(|s| s.phase == Phase::Running);
        let longest = waiting().min_by_key(|s| s.first_execute_time);
        if let Some((step, since)) = longest.and_then(|s| Some((s, s.first_execute_time?))) {
            let others = waiting().count() - 1;
            // Each reconcile has another time; that would be all it had to say.
            let longest = backoff::cap(&self.status, self.caps()).as_secs();
            return Some(messages::waits(&step.name, others, &whole_seconds(since), longest));
        }
        let failed = leaves().find(|s| s.phase == Phase::Failed && s.reason == Reason::Execute)?;
        let again = self.memory.next(&failed.id).map_or(again, whole_seconds);
        let (failures, most) = (self.memory.failures(&failed.id), self.options.max_error_retries);
        Some(messages::tries_again(&failed.name, failures, most.saturating_add(1), &again))
    }

    fn caps(&self) -> Caps {
        Caps { wait: self.options.max_wait, failed: self.options.max_failed_wait }
    }

    pub(super) fn phase(&self) -> WorkflowPhase {
        if self.status.terminated && self.all_done() {
            let failed: Vec<&StepStatus> =
                self.status.steps.iter().filter(|s| s.phase == Phase::Failed).collect();
            let by_person = failed.iter().all(|s| s.reason == Reason::Terminate);
            return if by_person { WorkflowPhase::Terminated } else { WorkflowPhase::Failed };
        }
        if self.status.suspend {
            WorkflowPhase::Suspending
        } else if self.all_succeeded() {
            WorkflowPhase::Succeeded
        } else {
            WorkflowPhase::Executing
        }
    }

    pub(super) fn again(&self, phase: WorkflowPhase) -> Option<Duration> {
        let now = self.facts.now;
        let timeouts = self.status.all().filter_map(|status| {
            let step = self.find_step(&status.name)?;
            let waits = matches!(status.phase, Phase::Running | Phase::Suspending | Phase::Pending);
            let text = step.timeout.as_deref().filter(|_| waits)?;
            let timeout: GoDuration = text.parse().ok()?;
            Some(backoff::until(now, saturating_add(status.first_execute_time?, timeout)))
        });
        let resumes = self
            .status
            .all()
            .filter(|s| s.phase == Phase::Suspending)
            .filter_map(|s| Some(backoff::until(now, *self.facts.resume_at.get(&s.id)?)));
        match phase {
            WorkflowPhase::Executing => {
                let deadlines = self.status.all().filter_map(|status| {
                    let step = self.find_step(&status.name)?;
                    let deadline =
                        step.progress_deadline.filter(|_| status.phase == Phase::Running)?;
                    let since = self.memory.progress_of(&status.id)?;
                    Some(backoff::until(now, saturating_add(since, deadline)))
                });
                let delay = backoff::delay(&self.memory, &self.status, self.caps(), now);
                Some(timeouts.chain(deadlines).fold(delay, Duration::min))
            }
            WorkflowPhase::Suspending if self.cut.is_some() => {
                let delay = backoff::delay(&self.memory, &self.status, self.caps(), now);
                Some(timeouts.chain(resumes).fold(delay, Duration::min))
            }
            WorkflowPhase::Suspending if self.cut_short => Some(Duration::ZERO),
            WorkflowPhase::Suspending => timeouts.chain(resumes).min(),
            _ => None,
        }
    }

    pub(super) fn all_done(&self) -> bool {
        self.workflow.steps.iter().all(|step| self.is_finished(&step.name))
    }

    pub(super) fn all_succeeded(&self) -> bool {
        self.workflow.steps.iter().all(|step| {
            let phase = self.known(&step.name).map(|s| s.phase);
            matches!(phase, Some(Phase::Succeeded | Phase::Skipped))
        })
    }
}

/// A time as the status shows it.
pub(super) fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
