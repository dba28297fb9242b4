//! Everything that talks to API servers.
//!
//! - [`client`]: from a kubeconfig or the Pod's credentials to a client with rate limit, timeouts
//!   and user agent; waiting until the API server and our kinds are there; [`transport`]: the connections below;
//!   [`account`]: credentials of a ServiceAccount; [`impersonate`]: as whom a request is made;
//!   [`administrators`]: who may do everything; [`observe`]: the metrics of requests;
//! - [`discovery`]: which path a kind has; [`request`]: the verbs, for objects of any kind as JSON, with discovery and impersonation; [`removal`]: what came of a DELETE;
//! - [`postponed`]: whether the requests of an attempt were postponed; [`parking`]: attempts that wait for a member without a worker;
//! - [`store`]: caches that our own writes reach at once, [`packed`]: objects kept small in them; [`share`]: whose they keep; [`watch`]: what fills them; [`rounds`]: when work on a few objects is repeated;
//! - [`objects`]: the live objects that Applications own, one watch per kind; [`budget`]: how much of members' is kept;
//! - [`members`]: the member clusters;
//! - [`lease`]: who leads, and the fence that stops the writes of everybody else; [`events`]: Kubernetes events.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod account;
pub mod administrators;
pub mod budget;
pub mod client;
mod coalesced;
mod completed;
pub mod discovery;
pub mod error;
pub mod events;
#[cfg(test)]
mod fake;
pub mod flags;
mod fresh;
pub mod impersonate;
mod kinds;
pub mod lease;
mod limit;
pub mod members;
pub mod objects;
pub mod observe;
mod observed;
pub mod packed;
pub mod parking;
pub mod postponed;
pub mod removal;
pub mod request;
pub mod rounds;
pub mod share;
pub mod store;
pub mod tokens;
pub mod transport;
pub mod watch;

pub use account::ServiceAccount;
pub use administrators::Administrators;
pub use client::{ClientOptions, Timeouts, connect};
pub use completed::{is_over, may_be_over};
pub use discovery::{Discovery, Resource};
pub use error::{Class, Error};
pub use events::{About, Recorder, Severity};
pub use impersonate::{Acting, Identity};
pub use kinds::in_namespace;
pub use lease::{Leadership, LeaseOptions};
pub use members::Members;
pub use objects::{Live, LiveObjects};
pub use packed::Packed;
pub use removal::Removal;
pub use request::{ApiError, ObjectClient, RawResponse, Target};
pub use rounds::Rounds;
pub use share::{AllBut, Keeping, Selectors, Share, Whose};
pub use store::{Key, Stale, Store, Stored};
