//! Compares one of our engines with Go's on inputs without end.
//!
//! A [`Comparison`] makes cases of families, compares both answers to one, and makes a case smaller; here is what every comparing
//! program does with that: [`run`] has the threads and the time, [`oracle`] asks Go, [`report`] groups what was found.
//! `tests/cuediff` and `tests/helmdiff` are those programs.

#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

pub mod oracle;
pub mod report;
mod run;

use std::fmt::{Debug, Display};

use anyhow::Result;
use clap::ValueEnum;

pub use oracle::Oracle;
pub use run::{Run, run};

/// One engine of ours and its counterpart.
pub trait Comparison: Sync {
    /// What cases are about.
    type Family: Copy + Ord + Debug + Send + Sync + ValueEnum;
    /// What both engines are given; its text is what a person is shown.
    type Case: Clone + Display + Send;
    /// What came of one.
    type Verdict: Verdict + Send;

    /// Stack of a thread that evaluates, in bytes.
    const STACK: usize;

    /// A case; the same seed gives the same one.
    fn make(&self, family: Self::Family, seed: u64) -> Self::Case;

    /// Asks both engines.
    ///
    /// # Errors
    /// The oracle cannot be run, or its answer cannot be read.
    fn compare(&self, case: &Self::Case, oracle: &mut Oracle) -> Result<Self::Verdict>;

    /// A smaller case that is still `interesting`, the smallest that is found.
    fn reduce(
        &self,
        case: &Self::Case,
        interesting: &mut dyn FnMut(&Self::Case) -> bool,
    ) -> Self::Case;

    /// How large a case is: of a group the smallest are shown.
    fn size(case: &Self::Case) -> usize;

    /// The productions or functions that a case uses: those with the same ones are a group.
    fn features(case: &Self::Case) -> String;

    /// A case as a report shows it.
    fn show(case: &Self::Case) -> String {
        case.to_string()
    }
}

/// What came of a case.
pub trait Verdict: Debug {
    /// The difference to judge, if there is one.
    fn difference(&self) -> Option<&Difference>;

    /// Whether it counts as a failure of ours.
    fn is_failure(&self) -> bool {
        self.difference().is_some()
    }

    /// The columns of the report's table in which it counts.
    fn columns(&self) -> &'static [&'static str];

    /// The note that explains a difference, if one does.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Whether a case found while another is reduced counts as the same sort.
    fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| one.difference().map(|one| (one.level, one.what.clone()));
        self.difference().is_some() && of(self) == of(other)
    }
}

/// A difference, with what differs in a form that does not depend on names and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where two answers differ; the first that applies.
    pub level: &'static str,
    /// What.
    pub what: String,
    /// The same with paths and values.
    pub detail: String,
}

/// The level of a panic of ours, which is always worth the time of a reduction.
pub const PANIC: &str = "panic";
