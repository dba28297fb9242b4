//! Handles of the Lease, which is renewed while a process ends or hangs, and of the record of reconciles in flight.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_serve::vital::Vital;

use crate::application::context::AppContext;
use crate::in_flight::{Notes, Queues};

/// How long the end of the process waits for what is aborted, and for the last events: a follower waits for the lease.
pub(super) const FINAL_FLUSH: Duration = Duration::from_secs(1);

/// What the Lease is renewed with, and given away.
#[derive(Clone)]
pub(super) struct LeaseHandles {
    /// The vital threads.
    pub(super) vital: Handle,
    /// Gives the Lease away.
    pub(super) release: CancellationToken,
    /// The election.
    pub(super) electing: TaskTracker,
    /// Ends the notes of what is in flight, in order.
    noted: CancellationToken,
    /// Who takes them.
    noting: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl LeaseHandles {
    pub(super) fn new(vital: &Vital) -> Self {
        Self {
            vital: vital.handle().clone(),
            release: CancellationToken::new(),
            electing: TaskTracker::new(),
            noted: CancellationToken::new(),
            noting: Arc::default(),
        }
    }

    /// Finds out what the last leader died over, and notes what is in flight from now on.
    pub(super) async fn take_notes(
        &self,
        context: &Arc<AppContext>,
        (client, (namespace, lease, leader)): (kube::Client, (String, String, String)),
    ) -> anyhow::Result<()> {
        let in_flight = Arc::clone(&context.in_flight);
        let begin =
            async move { Notes::begin(client, (&namespace, &lease), &leader, in_flight).await };
        match self.vital.spawn(begin).await? {
            Ok(notes) => {
                let keep = notes.keep(Arc::clone(&context.shared), self.noted.clone());
                *self.noting.lock() = Some(self.vital.spawn(keep));
            }
            // What is not known is not held against anybody.
            Err(error) => {
                tracing::warn!(%error, "the reconciles in flight of the last leader are unknown");
            }
        }
        Ok(())
    }

    /// What is in flight does not end: that stays on record.
    pub(super) fn forget_notes(&self) {
        if let Some(noting) = self.noting.lock().take() {
            noting.abort();
        }
    }

    /// Nothing is in flight any more.
    pub(super) async fn close_notes(&self) {
        let noting = self.noting.lock().take();
        self.noted.cancel();
        if let Some(noting) = noting {
            let _ = timeout(FINAL_FLUSH, noting).await;
        }
    }

    /// The workers do not get on: somebody else shall lead. Nothing more is written from here, whatever still moves.
    pub(super) fn give_up_frozen(&self, queues: &Queues) {
        let in_flight = queues.describe();
        tracing::error!(in_flight, "the workers are frozen, releasing the lease and exiting");
        self.release.cancel();
        self.electing.close();
        // The follower waits for the Lease; with it given away it need not wait for its end.
        let _ = self.vital.block_on(async { timeout(FINAL_FLUSH, self.electing.wait()).await });
        #[allow(clippy::exit, reason = "the threads that could end in order are frozen")]
        std::process::exit(1);
    }
}
