//! The intermediate state of a step.

use crate::pass::Verdict;
use crate::status::{Phase, Reason};

/// How a step stands while its template runs: later actions count less than failures.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Option<Phase>,
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) waiting: bool,
    pub(super) broken: bool,
    pub(super) stopped: bool,
}

impl State {
    pub(super) fn say(&mut self, message: &str) {
        if !message.is_empty() {
            message.clone_into(&mut self.message);
        }
    }

    pub(super) fn wait(&mut self, message: &str) {
        self.waiting = true;
        if !matches!(self.phase, Some(Phase::Failed | Phase::Suspending)) {
            self.phase = Some(Phase::Running);
            self.reason = Reason::Wait;
            self.say(message);
        }
    }

    pub(super) fn suspend(&mut self, message: &str) {
        if self.phase != Some(Phase::Failed) {
            self.phase = Some(Phase::Suspending);
            self.reason = Reason::Suspend;
            self.say(message);
        }
    }

    pub(super) fn fail(&mut self, message: &str) {
        self.phase = Some(Phase::Failed);
        self.reason = Reason::Action;
        self.say(message);
    }

    pub(super) fn error(&mut self, reason: Reason, message: &str) {
        self.waiting = true;
        self.phase = Some(Phase::Failed);
        if self.reason == Reason::None || self.reason == Reason::Wait {
            self.reason = reason;
        }
        message.clone_into(&mut self.message);
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.phase {
            _ if self.broken => Verdict::Break,
            None | Some(Phase::Succeeded | Phase::Skipped | Phase::Pending) => Verdict::Succeeded,
            Some(Phase::Running) => Verdict::Wait,
            Some(Phase::Suspending) => Verdict::Suspend,
            Some(Phase::Failed) if self.reason == Reason::Execute => Verdict::Error,
            Some(Phase::Failed) => Verdict::Fail(self.reason),
        }
    }
}
