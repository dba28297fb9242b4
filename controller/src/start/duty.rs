//! Work that one replica does for all.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::application::context::AppContext;
use crate::fleet::Fleet;
use crate::queue::{Key, Queue, WorkerKind};

use super::caches;

/// What is done once for all replicas.
#[derive(Clone)]
pub(super) struct Duty {
    pub(super) context: Arc<AppContext>,
    /// The fleet this process is a member of; without one it does it.
    pub(super) fleet: Option<Arc<Fleet>>,
    pub(super) ending: CancellationToken,
}

impl Duty {
    /// Waits until the caches are filled and it is this process's. `false`: the process ends.
    pub(super) async fn begins(&self) -> bool {
        if !caches::filled(&self.context, &self.ending).await {
            return false;
        }
        let Some(fleet) = &self.fleet else { return true };
        tokio::select! {
            () = fleet.until_leading(true) => true,
            () = self.ending.cancelled() => false,
        }
    }

    /// Waits until it is not any more.
    pub(super) async fn ends(&self) {
        match &self.fleet {
            // Without a fleet it is this process's until the end.
            None => std::future::pending().await,
            Some(fleet) => fleet.until_leading(false).await,
        }
    }

    /// The next key of a queue whose work is done once for all, as soon as that is this process's. `None`: the queue or the process
    /// ends.
    pub(super) async fn next(&self, queue: &Queue, worker_kind: WorkerKind) -> Option<Key> {
        while self.begins().await {
            tokio::select! {
                key = queue.next(worker_kind) => return key,
                () = self.ends() => {}
            }
        }
        None
    }

    /// One piece of it; `None`: it is not this process's any more.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match &self.fleet {
            None => Some(work.await),
            Some(fleet) => fleet.lead(work).await,
        }
    }

    /// Something that goes on as long as it is this process's. The token is cancelled when it is to end.
    pub(super) async fn run<F: Future<Output = ()>>(&self, work: impl Fn(CancellationToken) -> F) {
        while self.begins().await {
            let turn = self.ending.child_token();
            // The work may have started tasks; they end with the turn also when it is cut off.
            let _ends = turn.clone().drop_guard();
            let ended = async {
                self.ends().await;
                turn.cancel();
                // The fleet cancels the attempt itself, after a grace in which the work may end by
                // the token.
                std::future::pending::<()>().await;
            };
            let done = tokio::select! {
                done = self.within(work(turn.clone())) => done,
                () = ended => None,
            };
            // It ended by itself, or with the process.
            if (done.is_some() && !turn.is_cancelled()) || self.ending.is_cancelled() {
                return;
            }
            // Work that returns at once must not keep its thread until the duty is known to be
            // lost.
            tokio::task::yield_now().await;
        }
    }
}
