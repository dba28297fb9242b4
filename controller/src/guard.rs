//! Isolates one reconcile from the others: a time limit, caught panics, and the requeue of its key.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tracing::{Instrument, error, info_span, warn};

use vela_cluster::postponed;

use crate::queue::{Key, Next};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Normally,
    /// With an error.
    Failed(String),
    /// It took too long and was dropped.
    TimedOut,
    /// It panicked; the text is the panic's.
    Panicked(String),
}

/// Runs one attempt.
pub(crate) async fn run<E: std::fmt::Display>(
    controller: &'static str,
    key: &Key,
    limit: Duration,
    attempt: impl Future<Output = Result<Next, E>>,
) -> (Next, Ended) {
    let span = info_span!("reconcile", controller, key = %key);
    let guarded = postponed::noting(AssertUnwindSafe(attempt).catch_unwind());
    let ended = tokio::time::timeout(limit, guarded).instrument(span).await;
    let (ended, postponed) =
        ended.map_or((Err(()), None), |(ended, postponed)| (Ok(ended), postponed));
    // An attempt that failed while the API server was overloaded or away, or for want of time, says nothing about its object.
    let failed = postponed.map_or(Next::Failed, |it| Next::Postponed(it.after.unwrap_or_default()));
    match ended {
        Ok(Ok(Ok(Next::Failed))) => (failed, Ended::Normally),
        Ok(Ok(Ok(next))) => (next, Ended::Normally),
        Ok(Ok(Err(failure))) => {
            warn!(controller, key = %key, error = %failure, "reconcile failed");
            (failed, Ended::Failed(failure.to_string()))
        }
        Ok(Err(panic)) => {
            let text = vela_serve::pool::panic_text(&*panic);
            error!(controller, key = %key, panic = text, "reconcile panicked");
            (Next::Failed, Ended::Panicked(text))
        }
        Err(()) => {
            error!(controller, key = %key, ?limit, "reconcile timed out");
            (Next::Failed, Ended::TimedOut)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended<E: std::fmt::Display>(
        attempt: impl Future<Output = Result<Next, E>>,
    ) -> (Next, Ended) {
        run("test", &Key::new("n", "a"), Duration::from_secs(1), attempt).await
    }

    #[tokio::test(start_paused = true)]
    async fn panics_errors_and_time_outs_end_alike() {
        assert_eq!(
            ended(async { Ok::<_, String>(Next::Done) }).await,
            (Next::Done, Ended::Normally)
        );
        assert_eq!(
            ended(async { Err::<Next, _>("no") }).await,
            (Next::Failed, Ended::Failed("no".into()))
        );
        let busy = async {
            postponed::postponed(Some(Duration::from_secs(3)));
            Err::<Next, _>("busy")
        };
        let waits = Next::Postponed(Duration::from_secs(3));
        assert_eq!(ended(busy).await, (waits, Ended::Failed("busy".into())));
        let panics = async {
            if true {
                std::panic::panic_any("boom".to_owned());
            }
            Ok::<_, String>(Next::Done)
        };
        assert_eq!(ended(panics).await, (Next::Failed, Ended::Panicked("boom".into())));
        assert_eq!(
            ended(std::future::pending::<Result<Next, String>>()).await,
            (Next::Failed, Ended::TimedOut)
        );
    }
}
