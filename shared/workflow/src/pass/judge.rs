//! The state of a step, or of a group, after an attempt.

use jiff::Timestamp;

use crate::messages;
use crate::model::Mode;
use crate::status::{Phase, Reason, StepStatus};

use super::end::whole_seconds;
use super::{Attempt, Group, Outcome, Pass, StepIndex, Verdict, saturating_add};

impl Pass<'_> {
    /// Takes in the outcome of an attempt.
    pub fn complete(&mut self, attempt: &Attempt, outcome: Outcome, now: Timestamp) {
        self.facts.now = now;
        let Outcome { verdict, message, variables } = outcome;
        let (phase, reason, message) = self.judge(attempt, &verdict, message);
        let step_index = attempt.step_index;
        let mut id = Some(attempt.id.clone());
        self.record(step_index, phase, reason, &message, &mut |_| id.take().unwrap_or_default());
        let finished = self.is_finished(&attempt.name);
        if finished {
            self.facts.variables.extend(variables);
            self.leave_outputs(step_index);
            self.finished_any = true;
            self.memory.forget(&attempt.id);
        }
        // a step that suspends halts the workflow; one that no longer does releases it. A group follows from its steps, and only later
        let suspends =
            self.status.all().any(|s| s.sub_steps.is_empty() && s.phase == Phase::Suspending);
        self.status_mut().suspend = suspends;
        let blocks = !finished && phase != Phase::Suspending;
        if blocks {
            self.memory.record_wait(&attempt.id, &message);
        }
        let level = match &mut self.group {
            Some(group) if step_index.sub.is_some() => &mut group.level,
            _ => &mut self.top,
        };
        if level.mode == Mode::StepByStep && (blocks || self.status.suspend) {
            level.todo.clear();
        }
    }

    pub(super) fn judge(
        &mut self,
        attempt: &Attempt,
        verdict: &Verdict,
        message: String,
    ) -> (Phase, Reason, String) {
        let kept = |message: String| {
            if message.is_empty() {
                attempt.previous.as_ref().map(|p| p.message.clone()).unwrap_or_default()
            } else {
                message
            }
        };
        if !matches!(verdict, Verdict::Later(_)) {
            self.memory.attempted(&attempt.id);
        }
        if attempt.timed_out && !matches!(verdict, Verdict::Fail(_)) {
            self.status_mut().terminated = true;
            return (Phase::Failed, Reason::Timeout, message);
        }
        match verdict {
            Verdict::Succeeded => (Phase::Succeeded, Reason::None, message),
            Verdict::Wait | Verdict::Later(_) | Verdict::Away => {
                let message = kept(message);
                if let Some(text) = self.without_progress(attempt, &message) {
                    self.status_mut().terminated = true;
                    return (Phase::Failed, Reason::Timeout, text);
                }
                match verdict {
                    Verdict::Later(after) => {
                        self.memory.postponed(&attempt.id, self.facts.now, *after);
                    }
                    Verdict::Away => self.memory.away(&attempt.id),
                    _ => {}
                }
                self.waiting = true;
                (Phase::Running, Reason::Wait, message)
            }
            Verdict::Suspend => (Phase::Suspending, Reason::Suspend, kept(message)),
            Verdict::Fail(reason) => {
                self.status_mut().terminated = true;
                (Phase::Failed, *reason, message)
            }
            Verdict::Break => {
                self.status_mut().terminated = true;
                (Phase::Succeeded, Reason::Terminate, message)
            }
            Verdict::Error => {
                let (now, longest) = (self.facts.now, self.options.max_failed_wait);
                if self.memory.fail(&attempt.id, now, longest) > self.options.max_error_retries {
                    self.failed_after_retries = true;
                    if !self.options.suspend_on_failure {
                        self.status_mut().terminated = true;
                    }
                    (Phase::Failed, Reason::FailedAfterRetries, message)
                } else {
                    (Phase::Failed, Reason::Execute, message)
                }
            }
        }
    }

    /// What a step says that waited longer than it may without any change.
    pub(super) fn without_progress(&mut self, attempt: &Attempt, message: &str) -> Option<String> {
        let deadline = self.step(attempt.step_index)?.progress_deadline?;
        let known = attempt.previous.as_ref();
        let same = known.is_some_and(|p| p.phase == Phase::Running && p.message == message);
        let now = self.facts.now;
        let since = self.memory.progress(&attempt.id, !same, now);
        let over = now > saturating_add(since, deadline);
        over.then(|| messages::no_progress(&deadline.to_string(), &whole_seconds(since), message))
    }

    /// The phase of a group follows from its sub-steps.
    pub(super) fn end_group(&mut self, group: &Group, new_id: &mut dyn FnMut(&str) -> String) {
        let step_index = StepIndex { step: group.index, sub: None };
        let Some(step) = self.step(step_index) else { return };
        let recorded = self.known(&step.name).map(|s| s.sub_steps.as_slice()).unwrap_or_default();
        let has = |phase: Phase| recorded.iter().any(|s| s.phase == phase);
        let (phase, reason) = if group.skipped {
            (Phase::Skipped, Reason::Skip)
        } else if group.timed_out {
            (Phase::Failed, Reason::Timeout)
        } else if has(Phase::Suspending) {
            (Phase::Suspending, Reason::None)
        } else if recorded.len() < step.sub_steps.len() || has(Phase::Running) {
            (Phase::Running, Reason::None)
        } else if has(Phase::Pending) {
            (Phase::Pending, Reason::None)
        } else if has(Phase::Failed) {
            (Phase::Failed, failure_of_group(recorded))
        } else if !recorded.is_empty() && recorded.iter().all(|s| s.phase == Phase::Skipped) {
            (Phase::Skipped, Reason::Skip)
        } else {
            (Phase::Succeeded, Reason::None)
        };
        let message = self.known(&step.name).map(|s| s.message.clone()).unwrap_or_default();
        if group.timed_out {
            self.status_mut().terminated = true;
        }
        let id = self.record(step_index, phase, reason, &message, new_id);
        if phase != Phase::Pending {
            self.memory.forget(&id);
        }
        if self.is_finished(&step.name) {
            // a group has no values of its own but those of the context
            for output in &step.outputs {
                let value = self.input(step, &output.value_from).unwrap_or_default();
                self.facts.variables.insert(output.name.clone(), value);
            }
        }
        let blocks = !self.is_finished(&step.name) && phase != Phase::Suspending;
        if self.top.mode == Mode::StepByStep && (blocks || self.status.suspend) {
            self.top.todo.clear();
        }
    }
}

/// Why a group failed: the weightiest reason of its sub-steps.
pub(super) fn failure_of_group(subs: &[StepStatus]) -> Reason {
    let has = |reason: Reason| subs.iter().any(|s| s.phase == Phase::Failed && s.reason == reason);
    if has(Reason::Execute) || has(Reason::None) {
        // an attempt will be repeated
        return Reason::None;
    }
    let weights = [
        Reason::FailedAfterRetries,
        Reason::Timeout,
        Reason::Action,
        Reason::Terminate,
        Reason::Input,
        Reason::Rendering,
        Reason::ProcessParameter,
        Reason::Output,
    ];
    weights.into_iter().find(|reason| has(*reason)).unwrap_or_default()
}
