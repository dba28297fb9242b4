//! What a follower does between two tries: it watches the Lease. A release is noticed when it happens and a renewal when it
//! is written, so the wait after a crash is counted from the last renewal and not from the last poll.
//!
//! client-go asks every few seconds. The rules are its own all the same: what was seen here only says when to try.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Elector, JITTER, Observed};

impl Elector {
    /// Waits until a try may succeed. `true` if stopped in the meantime.
    pub(super) async fn wait(&mut self, stop: &CancellationToken) -> bool {
        // Jitter keeps replicas that started together apart.
        let factor = 1.0 + fastrand::f64() * JITTER;
        let pause = self.options.retry_period.mul_f64(factor);
        tokio::select! {
            () = self.watch_or_pause(pause) => false,
            () = stop.cancelled() => true,
        }
    }

    async fn watch_or_pause(&mut self, pause: Duration) {
        if !self.watch().await {
            let next = Instant::now() + pause;
            // Nothing is gained by waiting once nobody is believed any more.
            sleep_until(self.believed_until().map_or(next, |ends| next.min(ends))).await;
        }
    }

    /// Watches while another one holds the Lease. `false` if nothing was learnt: somebody else won, or a watch is not to be
    /// had.
    async fn watch(&mut self) -> bool {
        let Some(mut ends) = self.believed_until() else { return false };
        let version =
            self.observed.as_ref().and_then(|seen| seen.lease.metadata.resource_version.clone());
        let Some(version) = version else { return false };
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.options.name));
        let api = self.api.clone();
        let stream = match timeout_at(ends, api.watch(&params, &version)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                debug!(%error, "the lease cannot be watched");
                return false;
            }
            Err(_) => return true,
        };
        let mut stream = pin!(stream);
        let mut learnt = false;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = sleep_until(ends) => return true,
            };
            match event {
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                    learnt = true;
                    self.observe(lease);
                    match self.believed_until() {
                        Some(until) => ends = until,
                        None => return true,
                    }
                }
                Some(Ok(WatchEvent::Deleted(_))) => return true,
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                // A watch that ends after news is restarted at once, one that brought none after a pause.
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return learnt,
            }
        }
    }

    /// Takes in the Lease as it is now: a holder is believed from the moment its record is seen to have changed.
    pub(super) fn observe(&mut self, lease: Lease) {
        let changed = match &self.observed {
            Some(seen) if seen.lease.spec == lease.spec => seen.changed,
            _ => Instant::now(),
        };
        self.observed = Some(Observed { lease, changed });
        self.in_doubt = false;
    }

    /// Until when the present holder is believed; `None` if nobody holds the Lease.
    fn believed_until(&self) -> Option<Instant> {
        let seen = self.observed.as_ref()?;
        let until = seen.believed_until();
        (!seen.holder().is_empty() && Instant::now() < until).then_some(until)
    }
}
