//! Plans: the writes of a run, without carrying them out.
//!
//! A plan is the real reconcile over an API server that only tries out writes ([`overlay`]): it renders, compares, dispatches and
//! collects with the controller's own code ([`stage`]). What a run waits for is noted and taken to have come ([`rehearsal`]).
//! `setup.rs` reads what it begins with, `one.rs` plans one Application, `changes.rs` says what comes of it, `report.rs` prints it, `command.rs` is
//! `vela-controller plan`; `paused.rs` plans in
//! the controller itself; `impact.rs` is about a change of a definition, without a cluster.

pub(crate) mod changes;
mod command;
mod impact;
pub(crate) mod one;
pub(crate) mod overlay;
pub(crate) mod paused;
pub(crate) mod rehearsal;
pub(crate) mod report;
pub(crate) mod setup;
pub(crate) mod stage;

pub use command::{COMMAND, main};
