//! Traces of rollouts (OpenTelemetry): one for each rollout that ended, with its steps, components and objects.
//!
//! A trace is made when the rollout has ended, from its status and from what was noted on the way. So nothing is measured inside
//! of a reconcile, and a rollout that several processes worked on has one trace: its ids follow from the rollout.
//! Without a collector nothing is noted.

mod collector;
mod progress;
mod spans;
#[cfg(test)]
mod tests;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;
use tracing::warn;

pub use collector::{Collector, SetupError};
pub use progress::Progress;
pub(crate) use spans::{EndedRollout, TracedObject, spans_of};

/// Rollouts that wait for the collector; more are lost, since nobody waits for it.
const QUEUE: usize = 256;

/// Takes the traces of rollouts.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    queue: Option<mpsc::Sender<Vec<SpanData>>>,
}

impl Traces {
    /// With a collector, and what reaches it.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Vec<SpanData>>) {
        let (queue, spans) = mpsc::channel(QUEUE);
        (Self { queue: Some(queue) }, spans)
    }

    /// Somebody collects them.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Hands a trace over. Never waits.
    pub fn send(&self, spans: Vec<SpanData>) {
        let Some(queue) = &self.queue else { return };
        if !spans.is_empty() && queue.try_send(spans).is_err() {
            warn!("a trace is lost: the collector does not keep up");
        }
    }
}
