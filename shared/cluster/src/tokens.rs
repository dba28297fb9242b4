//! Who gets the next token of a rate limit: classes and namespaces share them, as they share the workers (start-time fair queueing).
//! What one namespace has waiting delays nobody else, and whoever was idle saved up nothing.
//!
//! Our own: governor and tower count in windows or slots, not in client-go's bucket, whose pace operators know from its flags, and
//! know one queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    static SHARE: Share;
}

/// On whose behalf requests are sent, and how many of the tokens they get while others wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// Whose they are.
    pub namespace: Arc<str>,
    /// How many tokens they get where others get one. At least one.
    pub weight: u64,
}

impl Share {
    /// Of work that is nobody's: what all depend on.
    fn common() -> Self {
        Self { namespace: Arc::from(""), weight: COMMON }
    }
}

/// As much as the most urgent class.
const COMMON: u64 = 16;
/// What a token costs a share of weight one.
const COST: u64 = 1 << 20;

/// Whatever this work sends is on behalf of a share. Tasks that it spawns are not part of it.
pub fn within<F: Future>(share: Share, work: F) -> impl Future<Output = F::Output> {
    SHARE.scope(share, work)
}

/// A bucket of `burst` tokens that fills with `qps` tokens per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

/// Sums of fractions of a token are not exact.
const WHOLE: f64 = 1.0 - 1e-6;

impl Bucket {
    pub(crate) fn new(qps: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { qps: qps.max(f64::MIN_POSITIVE), burst, tokens: burst, filled: now }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none; when there will be one.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * self.qps;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.filled = now;
        if self.tokens >= WHOLE {
            self.tokens -= 1.0;
            return Ok(());
        }
        // A day bounds what an absurd rate would make of it.
        let wait = ((1.0 - self.tokens) / self.qps).min(86_400.0);
        Err(now + Duration::from_secs_f64(wait))
    }
}

/// The tokens of one client.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<Mutex<State>>);

struct State {
    bucket: Bucket,
    /// Who waits, in the order in which they get tokens.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    /// Where each share is in virtual time that has something waiting.
    shares: HashMap<Share, u64>,
    /// Where the share was that got a token last.
    now: u64,
    /// The last number that was given to a request.
    number: u64,
    /// Somebody grants tokens as they come.
    is_granting: bool,
}

impl Tokens {
    pub(crate) fn new(bucket: Bucket) -> Self {
        let (waiting, shares) = (BTreeMap::new(), HashMap::new());
        let state = State { bucket, waiting, shares, now: 0, number: 0, is_granting: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a token for whoever this is done for.
    pub(crate) async fn take(&self) {
        let granted = {
            let mut state = self.0.lock();
            if state.waiting.is_empty() && state.bucket.take(Instant::now()).is_ok() {
                return;
            }
            let share = SHARE.try_with(Share::clone).unwrap_or_else(|_| Share::common());
            let granted = state.wait(share);
            if !std::mem::replace(&mut state.is_granting, true) {
                // No request does this for the others: it may be given up at any time.
                tokio::spawn(self.clone().grant());
            }
            granted
        };
        // The other end is kept until it is granted.
        let _ = granted.await;
    }

    /// Grants tokens as they come, as long as somebody waits.
    async fn grant(self) {
        loop {
            let next = self.0.lock().grant(Instant::now());
            let Some(next) = next else { return };
            sleep_until(next).await;
        }
    }
}

impl State {
    fn wait(&mut self, share: Share) -> oneshot::Receiver<()> {
        let (grant, granted) = oneshot::channel();
        let cost = COST / share.weight.max(1);
        let at = self.shares.entry(share).or_insert(self.now);
        let start = (*at).max(self.now);
        *at = start.saturating_add(cost);
        self.number = self.number.saturating_add(1);
        self.waiting.insert((start, self.number), grant);
        granted
    }

    /// Grants the tokens that there are. Returns when there will be another one that somebody waits for.
    fn grant(&mut self, now: Instant) -> Option<Instant> {
        while let Some(first) = self.waiting.first_entry() {
            // Who was given up needs no token.
            if first.get().is_closed() {
                first.remove();
                continue;
            }
            if let Err(next) = self.bucket.take(now) {
                return Some(next);
            }
            self.now = first.key().0;
            // Given up in this moment: then the token is lost, as that of a request that is given up while it is sent.
            let _ = first.remove().send(());
        }
        self.shares.clear();
        self.is_granting = false;
        None
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bucket_bursts_then_keeps_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        let next = bucket.take(start).unwrap_err();
        assert_eq!(next.duration_since(start).as_millis(), 100);
        assert_eq!(bucket.take(next), Ok(()));
        // After a long rest the burst is there again, and no more than it.
        let later = start + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(bucket.take(later), Ok(()));
        }
        assert!(bucket.take(later).is_err());
    }

    fn share(namespace: &str, weight: u64) -> Share {
        Share { namespace: namespace.into(), weight }
    }

    /// In which order those get tokens who wait.
    async fn order(all: &[(&str, u64, usize)]) -> Vec<String> {
        let tokens = Tokens::new(Bucket::new(1_000.0, 1, Instant::now()));
        tokens.take().await;
        let order = Mutex::new(Vec::new());
        let (of, seen) = (&tokens, &order);
        let waits = all.iter().flat_map(|(namespace, weight, count)| {
            std::iter::repeat_n((*namespace, *weight), *count)
        });
        let waits = waits.map(|(namespace, weight)| {
            let got = async move {
                of.take().await;
                seen.lock().push(namespace.to_owned());
            };
            within(share(namespace, weight), got)
        });
        join_all(waits).await;
        order.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_take_turns_whoever_came_first() {
        let order = order(&[("many", 1, 100), ("one", 1, 1), ("few", 1, 3)]).await;
        let first: Vec<_> = order.iter().take(7).map(String::as_str).collect();
        assert_eq!(first, ["many", "one", "few", "many", "few", "many", "few"]);
    }

    #[tokio::test(start_paused = true)]
    async fn weights_count_and_nobody_waits_for_ever() {
        let order = order(&[("scans", 1, 20), ("edits", 16, 64)]).await;
        let scans = |count: usize| order.iter().take(count).filter(|it| *it == "scans").count();
        assert_eq!((scans(17), scans(34), scans(68)), (1, 2, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_idle_saved_up_nothing_and_who_gives_up_takes_nothing() {
        let start = Instant::now();
        let tokens = Tokens::new(Bucket::new(10.0, 1, start));
        tokens.take().await;
        let mut busy = Vec::new();
        for _ in 0..3 {
            busy.push(Box::pin(within(share("busy", 1), tokens.take())));
        }
        let mut given_up = Box::pin(within(share("gone", 1), tokens.take()));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        join_all(busy).await;
        within(share("idle", 1), tokens.take()).await;
        assert_eq!(start.elapsed().as_millis(), 400);
        // Nothing is kept of those who wait no longer.
        tokio::task::yield_now().await;
        let state = tokens.0.lock();
        assert!(state.waiting.is_empty() && state.shares.is_empty() && !state.is_granting);
    }
}
