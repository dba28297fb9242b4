//! Everything that talks to API servers.
//!
//! - [`client`]: from a kubeconfig or the Pod's credentials to a client with rate limit, timeouts
//!   and user agent; waiting until the API server and our kinds are there; [`transport`]: the connections below;
//!   [`account`]: credentials of a ServiceAccount; [`impersonate`]: as whom a request is made;
//!   [`administrators`]: who may do everything; [`answers`]: what metrics hear of requests;
//! - [`discovery`]: which path a kind has; [`request`]: the verbs, for objects of any kind as JSON, with discovery and impersonation; [`removal`]: what came of a DELETE;
//! - [`put_off`]: whether the requests of an attempt were put off;
//! - [`store`]: caches that our own writes reach at once, [`packed`]: objects kept small in them; [`watch`]: what fills them;
//! - [`objects`]: the live objects that Applications own, one watch per kind;
//! - [`lease`]: who leads, and the fence that stops the writes of everybody else; [`events`]: what people are told.

pub mod account;
pub mod administrators;
pub mod answers;
pub mod client;
mod completed;
pub mod discovery;
pub mod error;
pub mod events;
#[cfg(test)]
mod fake;
pub mod impersonate;
mod kinds;
pub mod lease;
mod limit;
pub mod objects;
mod observed;
pub mod packed;
pub mod put_off;
pub mod removal;
pub mod request;
pub mod store;
pub mod transport;
pub mod watch;

pub use account::ServiceAccount;
pub use administrators::Administrators;
pub use client::{ClientOptions, Timeouts, connect};
pub use discovery::{Discovery, Resource};
pub use error::{Class, Error};
pub use events::{About, Recorder, Severity};
pub use impersonate::{Acting, Identity};
pub use lease::{Leadership, LeaseOptions};
pub use objects::{Live, LiveObjects};
pub use packed::Packed;
pub use removal::Removal;
pub use request::{Answer, Io, IoError, Target};
pub use store::{Key, Stale, Store, Stored};
