//! The clock of sessions: like the clocks of other replicas, it continues while this machine is suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use vela_shard::Millis;

/// Milliseconds since the machine was started.
pub(super) fn now() -> Millis {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000)
}

/// How long it is until then; `None`: it is over.
pub(super) fn left(until: Millis) -> Option<Duration> {
    until.checked_sub(now()).filter(|left| *left > 0).map(Duration::from_millis)
}

/// How long ago a moment was, in seconds.
pub(super) fn since(moment: Millis) -> f64 {
    Duration::from_millis(now().saturating_sub(moment)).as_secs_f64()
}

/// A length of time in the unit of sessions.
pub(super) fn millis(time: Duration) -> Millis {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
