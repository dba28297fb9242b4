//! What an execution may cost, and how it is ended.

use std::error::Error;

/// What an execution costs is paid here, before it happens. The first refusal ends the execution.
pub trait Meter {
    /// Work: a step is about what one node of a template takes.
    ///
    /// # Errors
    /// The execution has done what it may do, or its time is up.
    fn steps(&mut self, steps: u64) -> Result<(), Stop>;

    /// Memory: bytes of texts, lists and maps that are about to be made.
    ///
    /// # Errors
    /// The execution has made what it may make.
    fn room(&mut self, bytes: u64) -> Result<(), Stop>;
}

/// An execution was ended from outside: by a budget, or because nobody waits for it. It is no error
/// of the template; it passes through all calls as it is.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Stop(Box<dyn Error + Send + Sync>);

impl Stop {
    /// Ends the execution for this reason.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(reason))
    }

    /// The reason, if it is of this type.
    #[must_use]
    pub fn reason<T: Error + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}
