//! How long a key waits: after failures, and until its own moment in a period.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;
use vela_cluster::Key;

/// First delay after a failure.
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Longest delay after failures.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(60);

/// The delay after this many failures. Up to a fifth shorter, so that those that failed together are not tried together again.
pub(super) fn backoff(key: &Key, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let delay = FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY);
    delay.saturating_sub(delay.mul_f64(fraction(&(key, failures)) / 5.0))
}

/// How long it is until the moment of a key in a period: keys that settled together are not reconciled together again.
pub(super) fn until_phase(key: &Key, period: Duration, epoch: Instant) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let length = nanos(period).max(1);
    let phase = nanos(period.mul_f64(fraction(key)));
    let now = nanos(epoch.elapsed()) % length;
    let left = phase.saturating_add(length).saturating_sub(now) % length;
    Duration::from_nanos(if left == 0 { length } else { left })
}

/// A number from 0 to 1, always the same of the same thing.
fn fraction(of: &impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let bits = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
