//! The controller of KubeVela's control plane.
//!
//! [`run`] is the process: it connects, fills the caches and works while it leads. One reconcile of one Application is
//! [`application::reconcile`]; start reading there.

pub mod application;
mod arc_memo;
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
mod watches;

use vela_cluster::events;

pub use config::{Config, ConfigError, Flags};
pub use start::run;
