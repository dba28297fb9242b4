//! The harness: a real control plane, fixtures, integration tests, the answers contract.
//!
//! Never shipped. What the integration tests, the benches and `cargo xtask` share lives here, so
//! that all of them start the same control plane in the same way.

pub mod answers;
pub mod audit;
pub mod browser;
pub mod chart_server;
pub mod cluster;
pub mod controlplane;
pub mod deploy;
pub mod echo;
pub mod faults;
pub mod fixtures;
pub mod fleet;
pub mod gate;
pub mod graph;
pub mod http;
pub mod impostor;
pub mod link;
pub mod load;
pub mod material;
pub mod members;
pub mod node;
pub mod pki;
pub mod proc;
pub mod process;
pub mod progress;
pub mod proxies;
pub mod release;
pub mod tenant;
pub mod wire;
