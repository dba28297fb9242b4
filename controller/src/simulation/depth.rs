//! How much of what may happen is simulated: a third in the loop of an edit and its tests, everything in CI.

/// Set by `cargo xtask test --quick`.
const QUICK: &str = "VELA_QUICK";

/// Of so many deaths or histories one is simulated.
pub(super) fn stride() -> usize {
    if std::env::var_os(QUICK).is_some() { 3 } else { 1 }
}

/// The writes at which a process dies, counted from 1. An odd stride: those that take turns at dying before and after stay so.
pub(super) fn moments() -> impl Iterator<Item = usize> {
    (1..).step_by(stride())
}

/// The seeds of histories.
pub(super) fn seeds(of: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    of.step_by(stride())
}
