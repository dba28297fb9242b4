//! Why a WorkflowRun does not start.

use vela_workflow::generate::GenerateError;

use crate::messages;

/// What keeps a run from its first step.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// It has neither steps nor the name of a Workflow.
    #[error("{}", messages::RUN_WITHOUT_WORKFLOW)]
    NoWorkflow,
    /// There is no Workflow of the name it has.
    #[error("{}", messages::no_such_workflow(.0))]
    UnknownWorkflow(String),
    /// A step that cannot be part of a run.
    #[error(transparent)]
    Step(#[from] GenerateError),
    /// The type of a step has no definition.
    #[error("{}", messages::of_step(.step, .missing))]
    NoDefinition {
        /// Its name.
        step: String,
        /// What is missing, and where.
        missing: String,
    },
    /// Authentication is on, and nobody is known to have written it.
    #[error("{}", messages::run_not_stamped(.namespace, .name))]
    NotStamped {
        /// Namespace of the run.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl StartError {
    /// Whether nothing but an edit of the run helps.
    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::NoWorkflow | Self::NotStamped { .. })
    }
}
