//! The workflow's in-memory cache between reconciles. Data only.

use std::collections::BTreeMap;

use tokio::time::Instant;
use vela_workflow::Saved;

/// The workflow's context ConfigMap, as this process knows it.
#[derive(Debug, Clone, Default)]
pub struct CachedContext {
    pub(super) name: String,
    pub(super) uid: String,
    /// Its data as last read or written; `None`: it was neither.
    pub(super) stored: Option<BTreeMap<String, String>>,
    pub(super) saved: Saved,
    /// Of steps that are shown (policy `debug`): a hash of what was written last.
    pub(super) shown: BTreeMap<String, u64>,
}

/// Why the Pods of a workload do not run, as they said.
#[derive(Debug)]
pub struct PodReasons {
    pub(super) at: Instant,
    /// Of the workload.
    pub(super) generation: i64,
    pub(super) reasons: Vec<String>,
}
