//! How the work of this process goes on and ends, alike for a leader and for a member of a fleet: calls of steps end first, then
//! what others shall go on with is handed over, then the workers end, and last what is recorded of them is written.

use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;
use vela_serve::health::Health;

use crate::application::context::AppContext;
use crate::config::Config;
use crate::fleet::Fleet;

use super::lease_handles::{FINAL_FLUSH, LeaseHandles};
use super::workers;

/// How long an end may take.
pub(super) struct Limits {
    /// Calls of steps: how they ended must be noted, since they are not repeated.
    calls: Duration,
    /// Calls, hand-over and reconciles in flight together.
    all: Duration,
}

/// A follower waits for the Lease.
pub(super) const OF_LEADER: Limits =
    Limits { calls: Duration::from_secs(10), all: Duration::from_secs(10) };
/// Its Applications wait for the calls, and everything is handed over within the grace period of the Pod.
pub(super) const OF_MEMBER: Limits =
    Limits { calls: Duration::from_secs(3), all: Duration::from_secs(23) };

/// Everything that works. What is dropped is aborted.
pub(super) struct Running {
    context: Arc<AppContext>,
    lease_handles: LeaseHandles,
    workers: JoinSet<()>,
    ending: CancellationToken,
    _ends_on_drop: DropGuard,
}

impl Running {
    /// Starts the workers.
    pub(super) fn start(
        config: &Config,
        context: &Arc<AppContext>,
        lease_handles: &LeaseHandles,
        health: &Health,
        fleet: Option<&Arc<Fleet>>,
    ) -> anyhow::Result<Self> {
        let ending = CancellationToken::new();
        let guard = ending.clone().drop_guard();
        let workers = workers::start(config, context, &ending, health, fleet)?;
        Ok(Self {
            context: Arc::clone(context),
            lease_handles: lease_handles.clone(),
            workers,
            ending,
            _ends_on_drop: guard,
        })
    }

    /// Ends in order. `hand_over` is done when nothing is left that others wait for.
    pub(super) async fn end(mut self, limits: Limits, hand_over: impl Future<Output = ()>) {
        let begin = Instant::now();
        let context = &self.context;
        // The workers still note how calls ended that must not be repeated.
        let of_runs = OptionFuture::from(context.workflow_runs.as_ref().map(|it| it.calls.close()));
        let calls = async { tokio::join!(context.calls.close(), of_runs) };
        if timeout(limits.calls, calls).await.is_err() {
            warn!("some calls of steps did not end in time");
        }
        if timeout_at(begin + limits.all, hand_over).await.is_err() {
            warn!("not everything could be handed over in time");
        }
        self.ending.cancel();
        context.queue.close();
        context.runs.queue.close();
        context.definition_queues.close();
        let workers = &mut self.workers;
        let drained = async { while workers.join_next().await.is_some() {} };
        // Also after a slow hand-over what is in flight gets a moment.
        let until = (begin + limits.all).max(Instant::now() + FINAL_FLUSH);
        if timeout_at(until, drained).await.is_err() {
            warn!("some reconciles did not end in time");
            // The note stays in the Lease: if this process is killed over it, the next one finds
            // the name.
            self.lease_handles.forget_notes();
            // Who holds its thread does not end: nobody waits for that.
            let _ = timeout(FINAL_FLUSH, self.workers.shutdown()).await;
        }
        self.lease_handles.close_notes().await;
        // Without the Lease nothing is written, events included.
        let _ = timeout(FINAL_FLUSH, context.events.written()).await;
    }
}
