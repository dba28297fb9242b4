//! Limits of one evaluation and the budget that counts against them.
//!
//! Untrusted templates are evaluated inside an admission webhook, so every kind of work is
//! counted. A crossed limit is an error of class [`Class::Limit`](crate::Class::Limit); neither a
//! disjunction nor a presence test may swallow it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What one evaluation may cost. The default suits an admission webhook.
///
/// ```
/// use cue::{Class, Limits, Packages, Program};
///
/// // Ten billion elements.
/// let text = r#"
///     import "list"
///
///     n: list.Range(0, 100000, 1)
///     pairs: [for a in n for b in n {[a, b]}]
/// "#;
/// let program = Program::compile("in.cue", text, &Packages::std())?;
/// let limits = Limits { steps: 200_000, ..Limits::default() };
/// let mut evaluation = program.evaluate(&[], &limits);
/// let errors = evaluation.export(evaluation.root()).unwrap_err();
/// assert_eq!(errors.class(), Class::Limit);
/// assert_eq!(errors.to_string(), "evaluation takes more steps than allowed");
/// # Ok::<(), cue::Errors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    /// Evaluation steps: conjuncts, iterations, calls, comparisons.
    pub steps: u64,
    /// Depth of nested evaluation.
    pub depth: u32,
    /// Bytes by which the process may grow for the evaluation: arenas, texts, values that come
    /// out of it, and what is needed for a moment only.
    pub bytes: u64,
    /// Bytes of exported output (shared structure can expand exponentially).
    pub output: u64,
    /// Bytes of one string.
    pub string: u64,
    /// Elements of one list, fields of one struct.
    pub list: u64,
    /// Live alternatives of one disjunction.
    pub alternatives: u32,
    /// Wall time of the evaluation; `None` for no limit.
    pub time: Option<Duration>,
    /// Set by the caller from another thread to stop the evaluation.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 4_000_000,
            depth: 500,
            bytes: 64 << 20,
            output: 32 << 20,
            string: 16 << 20,
            list: 500_000,
            alternatives: 4096,
            time: Some(Duration::from_secs(10)),
            cancel: None,
        }
    }
}

/// Which limit was crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// [`Limits::steps`].
    #[error("evaluation takes more steps than allowed")]
    Steps,
    /// [`Limits::depth`].
    #[error("evaluation nests deeper than allowed")]
    Depth,
    /// [`Limits::bytes`].
    #[error("evaluation needs more memory than allowed")]
    Bytes,
    /// [`Limits::output`].
    #[error("output is larger than allowed")]
    Output,
    /// [`Limits::string`].
    #[error("string is longer than allowed")]
    String,
    /// [`Limits::list`].
    #[error("list or struct has more elements than allowed")]
    List,
    /// [`Limits::alternatives`].
    #[error("disjunction has more alternatives than allowed")]
    Alternatives,
    /// [`Limits::time`].
    #[error("evaluation takes longer than allowed")]
    Time,
    /// [`Limits::cancel`].
    #[error("evaluation was cancelled")]
    Cancelled,
    /// Digits or exponent of a number.
    #[error("number is larger than allowed")]
    Number,
    /// A regular expression that compiles to too much.
    #[error("regular expression is larger than allowed")]
    Regexp,
}

/// How often (in steps) the clock and the cancel flag are looked at.
const CLOCK_EVERY: u64 = 1024;

/// Products of words that cost a step: each takes about a nanosecond.
const WORDS_A_STEP: u64 = 128;

/// Bytes of a struct with a field: places for four entries, and their table.
const COLLECTION: u64 = 320;

/// Counts one evaluation's work against its [`Limits`].
///
/// Shared by the evaluator and the standard packages: a function that does work in proportion to
/// a value it was given calls [`steps`](Self::steps) or [`bytes`](Self::bytes) first.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    steps: u64,
    /// Bytes held beside the arenas.
    bytes: u64,
    /// What those may be: the limit less the arenas, as they were measured last.
    ceiling: u64,
    next_clock: u64,
    started: Instant,
    crossed: Option<LimitError>,
}

impl Budget {
    /// A fresh budget.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            steps: 0,
            bytes: 0,
            ceiling: limits.bytes,
            next_clock: CLOCK_EVERY,
            started: Instant::now(),
            crossed: None,
        }
    }

    /// The limits it counts against.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The first limit crossed, if any. Once set it stays set.
    #[must_use]
    pub const fn crossed(&self) -> Option<LimitError> {
        self.crossed
    }

    /// Steps spent so far.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.steps
    }

    /// Remembers a crossed limit, so that the whole evaluation ends with it.
    pub fn cross(&mut self, limit: LimitError) -> LimitError {
        // The next step looks here, so that a step costs one comparison.
        self.next_clock = 0;
        *self.crossed.get_or_insert(limit)
    }

    /// Forgets a crossed depth: what nests too deep fails, but other nodes can still be asked.
    pub(crate) fn forgive_depth(&mut self) {
        if self.crossed == Some(LimitError::Depth) {
            self.crossed = None;
        }
    }

    /// Counts `n` steps.
    ///
    /// # Errors
    /// When the steps or the time are used up or the evaluation was cancelled.
    #[inline]
    pub fn steps(&mut self, n: u64) -> Result<(), LimitError> {
        self.steps = self.steps.saturating_add(n);
        if self.steps < self.next_clock {
            return Ok(());
        }
        self.slow_check()
    }

    #[cold]
    fn slow_check(&mut self) -> Result<(), LimitError> {
        self.next_clock = self.steps.saturating_add(CLOCK_EVERY);
        if let Some(limit) = self.crossed {
            self.next_clock = 0;
            return Err(limit);
        }
        let limit = if self.steps > self.limits.steps {
            LimitError::Steps
        } else if self.limits.time.is_some_and(|t| self.started.elapsed() > t) {
            LimitError::Time
        } else if self.limits.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
            LimitError::Cancelled
        } else {
            return Ok(());
        };
        self.next_clock = 0;
        Err(self.cross(limit))
    }

    /// Counts arithmetic on numbers that take so many words together: as for a product or a
    /// quotient, which cost what the lengths of both multiplied are. Small numbers cost nothing
    /// beside the step of their expression.
    ///
    /// # Errors
    /// When the steps are used up.
    #[inline]
    pub fn arithmetic(&mut self, words: u64) -> Result<(), LimitError> {
        self.steps(words.saturating_mul(words) / WORDS_A_STEP)
    }

    /// Bytes held now, to be given to [`release`](Self::release).
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.bytes
    }

    /// What was counted since then has been freed.
    pub fn release(&mut self, held: u64) {
        self.bytes = self.bytes.min(held);
    }

    /// Checks that there is room for `n` bytes more, which are freed soon.
    ///
    /// # Errors
    /// When there is not.
    pub fn room(&mut self, n: u64) -> Result<(), LimitError> {
        if self.bytes.saturating_add(n) > self.ceiling {
            return Err(self.cross(LimitError::Bytes));
        }
        Ok(())
    }

    /// Counts steps if neither the clock nor anything else has to be looked at for them.
    #[inline]
    pub(crate) fn passes(&mut self, n: u64) -> bool {
        let steps = self.steps.saturating_add(n);
        if steps < self.next_clock {
            self.steps = steps;
            return true;
        }
        false
    }

    /// Takes note of what the arenas take together, and of the largest of them: one that is full
    /// moves to a place twice as large.
    pub(crate) fn measured(&mut self, arenas: u64, largest: u64) -> Result<(), LimitError> {
        self.ceiling = self.limits.bytes.saturating_sub(arenas);
        self.room(largest.saturating_mul(2))
    }

    /// Counts `n` bytes of memory.
    ///
    /// # Errors
    /// When the evaluation holds more than [`Limits::bytes`].
    #[inline]
    pub fn bytes(&mut self, n: u64) -> Result<(), LimitError> {
        self.bytes = self.bytes.saturating_add(n);
        self.room(0)
    }

    /// Checks the length of a string before it is built, and counts its bytes.
    ///
    /// # Errors
    /// When it is longer than [`Limits::string`] or memory is used up.
    pub fn string(&mut self, len: u64) -> Result<(), LimitError> {
        if len > self.limits.string {
            return Err(self.cross(LimitError::String));
        }
        self.steps(len >> 6)?;
        self.bytes(len)
    }

    /// Checks the length of a list before it is built, and counts its elements.
    ///
    /// # Errors
    /// When it is longer than [`Limits::list`] or steps or memory are used up.
    pub fn list(&mut self, len: u64) -> Result<(), LimitError> {
        if len > self.limits.list {
            return Err(self.cross(LimitError::List));
        }
        self.steps(len)?;
        // Most grow element by element, into places twice as large.
        self.bytes(len.saturating_mul(2 * size_of::<crate::Value>() as u64))
    }

    /// Counts a list or struct beside its elements: the least that its first element makes room for.
    ///
    /// # Errors
    /// When memory is used up.
    pub fn collection(&mut self) -> Result<(), LimitError> {
        self.bytes(COLLECTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stop_and_stay_stopped() {
        let mut budget = Budget::new(&Limits { steps: 2000, time: None, ..Limits::default() });
        let mut done = 0;
        while budget.steps(1).is_ok() {
            done += 1;
            assert!(done < 10_000, "never stopped");
        }
        assert_eq!(budget.crossed(), Some(LimitError::Steps));
        assert_eq!(budget.steps(1), Err(LimitError::Steps));
    }

    #[test]
    fn strings_and_lists_are_checked_before_they_exist() {
        let mut budget = Budget::new(&Limits::default());
        assert_eq!(budget.string(1 << 40), Err(LimitError::String));
        let mut budget = Budget::new(&Limits::default());
        assert_eq!(budget.list(1 << 40), Err(LimitError::List));
    }
}
