//! Object algebra: what is written to a live object, who owns it, what trackers remember and what is garbage.
//!
//! Everything is a decision over values; nothing here talks to an API server or reads a clock.
//!
//! - [`object`]: reading and writing Kubernetes objects as JSON, object keys;
//! - [`json_merge`], [`strategic`]: patches, three-way and plain; [`last_applied`]: what they start from;
//! - [`ownership`]: owner labels and sharers; [`policy`]: the resource policies and their rules;
//! - [`release`]: marks of objects that come from charts;
//! - [`plan`]: one manifest against one live object; [`dispatch`]: what is validated, recorded and written, in order; [`tracker`]: ResourceTrackers; [`gc`]: garbage collection.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod dispatch;
pub mod gc;
pub mod json_merge;
pub mod last_applied;
pub mod object;
pub mod ownership;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod release;
mod secret;
pub mod strategic;
pub mod tracker;

pub use object::ResourceKey;
pub use ownership::Owner;
pub use policy::ResourcePolicies;
pub use tracker::{Role, Tracker};
