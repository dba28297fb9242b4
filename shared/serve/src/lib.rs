//! What both deployables share as processes: flags in Go's spelling, logs, metrics, health,
//! TLS that follows rotated files, orderly shutdown and the threads that evaluate CUE.
//!
//! Answers for `cmd/core/app/{server.go,options,config}` of kubevela and for the parts of
//! controller-runtime that serve probes, metrics and certificates. Knows nothing of Applications.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod debug;
mod fair;
pub mod flags;
pub mod gates;
pub mod health;
pub mod listen;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod pool;
pub mod process;
pub mod server;
pub mod shutdown;
pub mod tls;
pub mod vital;

pub use vela_gocompat::nearest;
