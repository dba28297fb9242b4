//! A meter for callers that have none of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::meter::{Meter, Stop};

/// What executions may cost in all.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Nodes, iterations, and work of functions.
    pub steps: u64,
    /// Bytes of output, texts, lists and maps that are made.
    pub bytes: u64,
    /// Set from another thread to end the execution.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 10_000_000, bytes: 256 << 20, cancel: None }
    }
}

/// Which limit ended an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// [`Limits::steps`].
    #[error("template takes more steps than allowed")]
    Steps,
    /// [`Limits::bytes`].
    #[error("template makes more bytes than allowed")]
    Bytes,
    /// [`Limits::cancel`] was set.
    #[error("template was cancelled")]
    Cancelled,
}

/// Counts what executions cost against limits.
#[derive(Debug)]
pub struct Budget {
    left: Limits,
}

impl Budget {
    /// All that the limits allow.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { left: limits.clone() }
    }
}

impl Meter for Budget {
    fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        if self.left.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Stop::new(Exceeded::Cancelled));
        }
        match self.left.steps.checked_sub(steps) {
            Some(left) => self.left.steps = left,
            None => return Err(Stop::new(Exceeded::Steps)),
        }
        Ok(())
    }

    fn room(&mut self, bytes: u64) -> Result<(), Stop> {
        match self.left.bytes.checked_sub(bytes) {
            Some(left) => self.left.bytes = left,
            None => return Err(Stop::new(Exceeded::Bytes)),
        }
        Ok(())
    }
}
