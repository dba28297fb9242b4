//! Charts from repositories, registries and plain addresses: fetched on behalf of an Application, under the egress rule.
//!
//! What is fetched is an archive, known by the SHA-256 of its bytes. What an Application names is read by
//! `vela_helm::request`, the Secret beside it by `auth.rs`; `download.rs` is HTTP with the rules for redirects and
//! credentials, `oci.rs` the protocol of registries; `cache.rs` keeps archives and answers within bounds; `fetch` puts
//! them together. Nothing here knows of releases.

pub mod auth;
mod cache;
pub mod download;
mod error;
mod fetch;
mod oci;

#[cfg(test)]
pub(crate) mod server;

pub use error::FetchError;
pub use fetch::{Archive, Fetcher, Wanted};
