//! A worker is not held by a member that is slow or silent: an attempt that waits for one for a moment goes on without its worker. And
//! one attempt does not take all that may be in flight to a member.
//!
//! Who works on an attempt lends it a [`Worker`]. Whoever waits for a member in it does so through `waiting`, which gives the
//! worker back after that moment; the attempt itself goes on where it is.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

/// How long an attempt waits for a member before it goes on without its worker.
pub(crate) const PARK_AFTER: Duration = Duration::from_millis(100);
/// Requests of one attempt that may wait for an answer of one member at once. An Application has one attempt at a time.
pub(crate) const PER_ATTEMPT: usize = 10;

tokio::task_local! {
    static HANDOVER: Arc<Handover>;
}

#[derive(Debug, Default)]
struct Handover {
    given_back: AtomicBool,
    news: Notify,
    /// What may be in flight, by member.
    turns: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Somebody who works on one attempt at a time.
#[derive(Debug)]
pub struct Worker(Arc<Handover>);

impl Worker {
    /// Lends a worker to an attempt.
    pub fn lend<F: Future>(attempt: F) -> (Self, impl Future<Output = F::Output>) {
        let handover = Arc::<Handover>::default();
        (Self(Arc::clone(&handover)), HANDOVER.scope(handover, attempt))
    }

    /// Waits until the attempt needs it no more.
    pub async fn given_back(&self) {
        self.0.news.notified().await;
    }
}

/// What limits the requests of this attempt to a member; `None`: they are of no attempt.
pub(crate) fn turns(cluster: &str) -> Option<Arc<Semaphore>> {
    let of = |handover: &Arc<Handover>| {
        let mut turns = handover.turns.lock();
        if let Some(turns) = turns.get(cluster) {
            return Arc::clone(turns);
        }
        let new = Arc::new(Semaphore::new(PER_ATTEMPT));
        turns.insert(cluster.to_owned(), Arc::clone(&new));
        new
    };
    HANDOVER.try_with(of).ok()
}

/// Waits for a member.
pub(crate) async fn waiting<F: Future>(answer: F) -> F::Output {
    let mut answer = pin!(answer);
    // Nobody lent one, or it was given back.
    let is_held =
        HANDOVER.try_with(|handover| !handover.given_back.load(Ordering::Acquire)).unwrap_or(false);
    if !is_held {
        return answer.await;
    }
    match tokio::time::timeout(PARK_AFTER, &mut answer).await {
        Ok(output) => output,
        Err(_) => {
            let _ = HANDOVER.try_with(|handover| {
                if !handover.given_back.swap(true, Ordering::AcqRel) {
                    handover.news.notify_one();
                }
            });
            answer.await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_is_given_back_by_who_waits_for_long_and_the_attempt_goes_on() {
        let attempt = async {
            waiting(sleep(PARK_AFTER / 2)).await;
            waiting(sleep(Duration::from_secs(10))).await;
            waiting(sleep(Duration::from_secs(10))).await;
            1
        };
        let (worker, attempt) = Worker::lend(attempt);
        let since = Instant::now();
        let attempt = tokio::spawn(attempt);
        worker.given_back().await;
        assert_eq!(since.elapsed(), PARK_AFTER / 2 + PARK_AFTER);
        assert_eq!(attempt.await.unwrap(), 1);
        assert_eq!(since.elapsed(), PARK_AFTER / 2 + Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_wait_for_long_keeps_it_and_nobody_needs_one() {
        let (worker, attempt) = Worker::lend(waiting(sleep(PARK_AFTER / 2)));
        attempt.await;
        let given_back = tokio::time::timeout(Duration::from_secs(60), worker.given_back()).await;
        assert!(given_back.is_err());
        waiting(sleep(Duration::from_secs(1))).await;
    }
}
