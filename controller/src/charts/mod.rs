//! Charts from repositories, registries and plain addresses: fetched on behalf of an Application, under the egress rule.
//!
//! What is fetched is an archive, known by the SHA-256 of its bytes. `source.rs` reads what an Application names, `auth.rs`
//! the Secret beside it; `download.rs` is HTTP with the rules for redirects and credentials, `oci.rs` the protocol of
//! registries; `cache.rs` keeps archives and answers within bounds; `fetch.rs` puts them together. Nothing here knows of
//! releases.

pub mod auth;
mod cache;
pub mod download;
mod error;
mod fetch;
mod oci;
pub mod source;

#[cfg(test)]
pub(crate) mod server;

pub use error::FetchError;
pub use fetch::{Archive, Fetcher, Freshness, Wanted};
