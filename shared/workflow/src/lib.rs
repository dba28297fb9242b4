//! The workflow engine: a pure state machine over steps.
//!
//! The engine is *sans IO*. A [`Pass`] is one advance of a workflow: it hands out [`Attempt`]s (steps
//! to run now) and [`Question`]s (conditions to evaluate), takes an [`Outcome`] for each and ends with a new [`Status`] and the time
//! until the next reconcile ([`Progress`]). Templates, API servers and clocks belong to the caller, so
//! every rule is tested with tables and random event sequences.
//!
//! ```
//! use vela_workflow::{Facts, Mode, Next, Options, Outcome, Pass, Status, Step, Workflow};
//!
//! let workflow = Workflow::new(Mode::StepByStep, vec![Step::new("build", "print"), Step::new("ship", "print")]);
//! let now = "2026-01-01T00:00:00Z".parse().unwrap();
//! let mut pass = Pass::begin(&workflow, Status::default(), Default::default(), Facts::at(now), Options::default());
//! let mut order = Vec::new();
//! while let Next::Run(attempt) = pass.next(&mut |_| "id".to_owned()) {
//!     order.push(attempt.name.clone());
//!     pass.complete(&attempt, Outcome::succeeded(), now);
//! }
//! assert_eq!(order, ["build", "ship"]);
//! assert_eq!(pass.end(now).phase, vela_workflow::WorkflowPhase::Succeeded);
//! ```

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backoff;
mod condition;
pub mod config;
pub mod convert;
pub mod data;
pub mod effects;
pub mod generate;
mod graph;
mod marked;
pub mod messages;
pub mod metrics;
mod model;
pub mod operation;
mod packages;
mod pass;
mod pattern;
mod print;
pub mod progress;
pub mod restart;
mod status;
mod step;
pub mod store;

pub use backoff::{Counters, Memory};
pub use condition::{ConditionError, Question, check as check_if};
/// Budget of an evaluation.
pub use cue::Limits;
/// The compiled template of a step.
pub use cue::Program as Template;
pub use graph::{GraphProblem, check as check_graph};
pub use model::{If, Input, Mode, Output, Step, Workflow};
pub use packages::{SUSPEND, missing, packages};
pub use pass::{Attempt, Facts, Next, Options, Outcome, Pass, Progress, Verdict};
pub use pattern::{Pattern, PatternError, read_all as read_patterns};
pub use status::{Phase, Reason, Status, StepStatus, WorkflowPhase};
pub use step::{Notes, ProviderCall, Providers, Reply, StepResult, StepRun, Traced, compile, run};
pub use store::Saved;
