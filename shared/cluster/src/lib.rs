//! Everything that talks to API servers.
//!
//! - [`request`]: the verbs, for objects of any kind as JSON, with discovery and impersonation;
//! - [`store`]: caches that our own writes reach at once; [`watch`]: what fills them;
//! - [`objects`]: the live objects that Applications own, one watch per kind.

mod kinds;
pub mod objects;
pub mod request;
pub mod store;
pub mod watch;

pub use objects::{Live, LiveObjects};
pub use request::{Identity, Io, IoError, Target};
pub use store::{Key, Stale, Store, Stored};
