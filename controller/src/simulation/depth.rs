//! How much of what may happen is simulated: a small sample in the loop of an edit and its tests, a third in CI, everything in long runs.

/// Of so many deaths or histories one is simulated, as `cargo xtask test` wants it. An odd number: those that take turns at
/// dying before and after a write stay so.
const SAMPLE: &str = "VELA_SAMPLE";

pub(crate) fn stride() -> usize {
    let sample = std::env::var(SAMPLE).ok().and_then(|number| number.parse().ok());
    sample.unwrap_or(1).max(1)
}

/// The writes at which a process dies, counted from 1.
pub(super) fn moments() -> impl Iterator<Item = usize> {
    (1..).step_by(stride())
}

/// The seeds of histories.
pub(super) fn seeds(of: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    of.step_by(stride())
}
