//! Work that is repeated: after a period, soon after a watched object changed, and after a pause that grows while it fails.
//! For a handful of objects that are read again in each round; a cache of many is a [`store`](crate::store).

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::watch;

/// Longest time between two rounds, even if no watch reports anything: watches miss nothing, and at rest nothing is read.
pub const PERIOD: Duration = Duration::from_secs(6 * 3600);
/// Pause after a round that failed; it doubles up to the largest. Also what a watch that failed is left alone for.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Changes that follow each other so closely are one reason.
const BURST: Duration = Duration::from_millis(50);

/// When the next round is due.
pub struct Rounds {
    /// Whether a watch reported a change, or failed and tries again.
    changes: SelectAll<BoxStream<'static, bool>>,
    pause: Duration,
    stop: CancellationToken,
}

impl Debug for Rounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rounds").field("pause", &self.pause).finish_non_exhaustive()
    }
}

impl Rounds {
    /// Rounds until the token is cancelled; nothing is watched yet.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { changes: SelectAll::new(), pause: PAUSE, stop }
    }

    /// A change of the object with this name is a reason for a round, and so are its creation and deletion.
    #[must_use]
    pub fn watching<K>(mut self, api: &Api<K>, name: &str) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let only = watch::Config::default().fields(&format!("metadata.name={name}"));
        let events = watch::events(name, api.clone(), only);
        self.changes.push(events.map(|event| event.is_ok()).boxed());
        self
    }

    /// Waits for the next round. `after`: when the last one wants it, at the latest after [`PERIOD`]; `None` if it failed.
    /// False: there is none any more.
    pub async fn next(&mut self, after: Option<Duration>) -> bool {
        let wait = match after {
            Some(after) => {
                self.pause = PAUSE;
                after.clamp(PAUSE, PERIOD)
            }
            None => {
                self.pause = (self.pause * 2).min(MAX_PAUSE);
                self.pause
            }
        };
        let due = Instant::now() + wait;
        loop {
            let is_change = tokio::select! {
                () = self.stop.cancelled() => return false,
                () = sleep_until(due) => return true,
                Some(is_change) = self.changes.next() => is_change,
            };
            sleep(if is_change { BURST } else { PAUSE }).await;
            if is_change {
                return !self.stop.is_cancelled();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::{UnboundedSender, unbounded};

    use super::*;

    fn rounds() -> (Rounds, UnboundedSender<bool>, CancellationToken) {
        let (events, changes) = unbounded();
        let stop = CancellationToken::new();
        let mut rounds = Rounds::new(stop.clone());
        rounds.changes.push(changes.boxed());
        (rounds, events, stop)
    }

    /// Milliseconds until the next round.
    async fn waits(rounds: &mut Rounds, after: Option<Duration>) -> u128 {
        let before = Instant::now();
        assert!(rounds.next(after).await);
        before.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_follows_when_it_is_due_and_pauses_grow_while_it_fails() {
        let (mut rounds, _events, stop) = rounds();
        let second = Duration::from_secs(1);
        assert_eq!(waits(&mut rounds, Some(3 * second)).await, 3_000);
        assert_eq!(waits(&mut rounds, Some(Duration::ZERO)).await, 500);
        let period = PERIOD.as_millis();
        assert_eq!(waits(&mut rounds, Some(PERIOD + second)).await, period);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(waits(&mut rounds, None).await);
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(waits(&mut rounds, Some(second)).await, 1_000);
        assert_eq!(waits(&mut rounds, None).await, 1_000, "a round that ended well forgives");
        stop.cancel();
        assert!(!rounds.next(Some(second)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_a_reason_and_a_watch_that_failed_is_none() {
        let (mut rounds, events, stop) = rounds();
        events.unbounded_send(true).unwrap();
        assert_eq!(waits(&mut rounds, Some(PERIOD)).await, 50);
        events.unbounded_send(false).unwrap();
        let period = PERIOD.as_millis();
        assert_eq!(waits(&mut rounds, Some(PERIOD)).await, period);
        drop(events);
        assert_eq!(waits(&mut rounds, Some(PERIOD)).await, period, "without watches too");
        let (mut ended, events, _) = self::rounds();
        ended.stop = stop.clone();
        events.unbounded_send(true).unwrap();
        stop.cancel();
        assert!(!ended.next(Some(PERIOD)).await);
    }
}
