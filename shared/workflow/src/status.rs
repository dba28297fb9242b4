//! The state of a started workflow: phases, reasons and times.

use std::collections::HashMap;

use jiff::Timestamp;

/// Phase of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Done.
    Succeeded,
    /// Ended without success, or failed an attempt that will be repeated.
    Failed,
    /// Not run, on purpose.
    Skipped,
    /// Ran and waits for something.
    Running,
    /// Waits for other steps or values.
    Pending,
    /// Waits for a person or a point in time.
    Suspending,
}

impl Phase {
    /// The word in status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Suspending => "suspending",
        }
    }

    /// Reads the word; what is unknown counts as pending, so that the step is checked again.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            "skipped" => Self::Skipped,
            "running" => Self::Running,
            "suspending" => Self::Suspending,
            _ => Self::Pending,
        }
    }
}

/// Why a step is in its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// Nothing to say.
    #[default]
    None,
    /// An action asked to wait.
    Wait,
    /// A condition said no.
    Skip,
    /// The template could not be evaluated.
    Rendering,
    /// An attempt failed; the only reason that is retried.
    Execute,
    /// Waits for a person or a time.
    Suspend,
    /// Ended by a person, or by a break.
    Terminate,
    /// A parameter cannot be processed.
    ProcessParameter,
    /// An input could not be filled.
    Input,
    /// An output could not be made.
    Output,
    /// Every attempt failed.
    FailedAfterRetries,
    /// Took too long.
    Timeout,
    /// An action asked to fail.
    Action,
}

impl Reason {
    const ALL: [Self; 13] = [
        Self::None,
        Self::Wait,
        Self::Skip,
        Self::Rendering,
        Self::Execute,
        Self::Suspend,
        Self::Terminate,
        Self::ProcessParameter,
        Self::Input,
        Self::Output,
        Self::FailedAfterRetries,
        Self::Timeout,
        Self::Action,
    ];

    /// The word in status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Rendering => "Rendering",
            Self::Execute => "Execute",
            Self::Suspend => "Suspend",
            Self::Terminate => "Terminate",
            Self::ProcessParameter => "ProcessParameter",
            Self::Input => "Input",
            Self::Output => "Output",
            Self::FailedAfterRetries => "FailedAfterRetries",
            Self::Timeout => "Timeout",
            Self::Action => "Action",
        }
    }

    /// Reads the word; an unknown one is none.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).unwrap_or_default()
    }
}

/// Where a run of a workflow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkflowPhase {
    /// Nothing ran yet.
    #[default]
    Initializing,
    /// Steps are to be run or waited for.
    Executing,
    /// Waits for a person or a time.
    Suspending,
    /// Ended by a person, or by a break.
    Terminated,
    /// Ended without success.
    Failed,
    /// Every step succeeded or was skipped.
    Succeeded,
}

impl WorkflowPhase {
    /// The word in status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Executing => "executing",
            Self::Suspending => "suspending",
            Self::Terminated => "terminated",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
        }
    }

    /// Reads the word; nothing or an unknown one is the beginning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "executing" => Self::Executing,
            "suspending" => Self::Suspending,
            "terminated" => Self::Terminated,
            "failed" => Self::Failed,
            "succeeded" => Self::Succeeded,
            _ => Self::Initializing,
        }
    }

    /// Whether nothing more will run.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Terminated | Self::Failed | Self::Succeeded)
    }
}

/// What is known of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepStatus {
    /// Identity of this run of the step.
    pub id: String,
    /// Name of the step.
    pub name: String,
    /// Type of the step, such as `deploy`.
    pub kind: String,
    /// Where it stands.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// A sentence for users; empty if there is nothing to say.
    pub message: String,
    /// When it was first recorded.
    pub first_execute_time: Option<Timestamp>,
    /// When it was last recorded.
    pub last_execute_time: Option<Timestamp>,
    /// The same for the sub-steps of a group, in the order they were recorded.
    pub sub_steps: Vec<Self>,
}

impl StepStatus {
    /// Whether the step will not run again in this run of the workflow.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self.phase {
            Phase::Succeeded | Phase::Skipped => true,
            Phase::Failed => !matches!(self.reason, Reason::None | Reason::Execute),
            Phase::Running | Phase::Pending | Phase::Suspending => false,
        }
    }
}

/// What is known of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Where it stands.
    pub phase: WorkflowPhase,
    /// A message; rarely used.
    pub message: String,
    /// Halted until somebody resumes, or until a time.
    pub suspend: bool,
    /// Ended before the last step.
    pub terminated: bool,
    /// Nothing more will run.
    pub finished: bool,
    /// When the first step was checked.
    pub start_time: Option<Timestamp>,
    /// When it finished.
    pub end_time: Option<Timestamp>,
    /// Steps in the order they were recorded.
    pub steps: Vec<StepStatus>,
}

impl Status {
    /// The status of a step or sub-step.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&StepStatus> {
        self.steps.iter().find_map(|step| {
            if step.name == name {
                return Some(step);
            }
            step.sub_steps.iter().find(|sub| sub.name == name)
        })
    }

    /// Every step and sub-step.
    pub fn all(&self) -> impl Iterator<Item = &StepStatus> {
        self.steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps))
    }

    /// Every step and sub-step by its name; the first, should two have one name.
    #[must_use]
    pub fn by_name(&self) -> HashMap<&str, &StepStatus> {
        let mut by_name = HashMap::new();
        for step in self.all() {
            by_name.entry(step.name.as_str()).or_insert(step);
        }
        by_name
    }

    /// Every step and sub-step, to change.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut StepStatus)) {
        for step in &mut self.steps {
            change(step);
            step.sub_steps.iter_mut().for_each(&mut change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_round_trip() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), reason);
        }
        for phase in
            [Phase::Succeeded, Phase::Failed, Phase::Skipped, Phase::Running, Phase::Suspending]
        {
            assert_eq!(Phase::parse(phase.as_str()), phase);
        }
        assert_eq!(Phase::parse("of a later version"), Phase::Pending);
    }
}
