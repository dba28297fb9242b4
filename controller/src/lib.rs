//! The controller of KubeVela's control plane.
//!
//! [`run`] is the process: it connects, fills the caches and works while it leads. One reconcile of one Application is
//! [`application::reconcile`]; start reading there.

pub mod application;
mod arc_memo;
pub mod cached;
pub mod charts;
pub mod clusters;
pub mod command;
mod config;
pub mod connections;
pub mod context;
pub mod definition;
pub mod definitions;
pub mod editor;
pub mod egress;
pub mod evaluation;
pub mod fleet;
mod guard;
pub mod helm;
mod in_flight;
mod liveness;
mod messages;
mod metrics;
pub mod plan;
pub mod queue;
mod registry;
pub mod revisions;
#[cfg(test)]
mod simulation;
mod stamp_key;
mod start;
pub mod traces;
pub mod ui;
mod watches;
pub mod workflow_run;

use std::ffi::OsString;
use std::process::ExitCode;

use vela_cluster::events;

pub use config::{Config, ConfigError, Flags};
pub use start::run;

/// Runs the command that the first argument names; `None` if it names none, and the controller is meant.
#[must_use]
pub fn run_command(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let first = arguments.next()?;
    let all = std::iter::once(first.clone()).chain(arguments);
    match first.to_str()? {
        helm::COMMAND => Some(helm::main(all)),
        editor::COMMAND => Some(editor::main(all)),
        plan::COMMAND => Some(plan::main(all)),
        fleet::COMMAND => Some(fleet::main(all)),
        fleet::labels::COMMAND => Some(fleet::labels::main(all)),
        ui::COMMAND => Some(ui::main(all)),
        _ => None,
    }
}
