//! Whether requests reach a member, and what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify as Poke;
use tracing::{info, warn};

use super::state::{Health, Heard, State};
use crate::Error;

/// Hears that the state of a member changed: its name.
pub type Changed = Arc<dyn Fn(&str) + Send + Sync>;

/// Whether requests reach a member, and what became of them.
pub(crate) struct Gate {
    cluster: String,
    pub(super) health: Mutex<Health>,
    /// It is known which cluster answers.
    pub(super) identified: AtomicBool,
    pub(super) poke: Poke,
    /// Requests that have no answer yet.
    pub(super) in_flight: AtomicUsize,
    changed: Changed,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(cluster: &str, changed: Changed) -> Self {
        Self {
            cluster: cluster.to_owned(),
            health: Mutex::new(Health::new(Timestamp::now())),
            identified: AtomicBool::new(false),
            poke: Poke::new(),
            in_flight: AtomicUsize::new(0),
            changed,
        }
    }

    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Whether requests of Applications may go out.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with the reason.
    pub(super) fn open(&self) -> Result<(), Error> {
        let health = self.health.lock();
        if health.state().is_open() && self.identified.load(Ordering::Acquire) {
            return Ok(());
        }
        let since = health.since().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let why = if health.state().is_open() { "not identified yet" } else { health.why() };
        Err(Error::Unreachable { cluster: self.cluster.clone(), since, why: why.to_owned() })
    }

    pub(super) fn hear(&self, heard: Heard) {
        let changed = {
            let mut health = self.health.lock();
            let before = health.state();
            let failing = matches!(heard, Heard::Nothing(..));
            let changed = health.hear(heard, Timestamp::now());
            if failing && before.is_open() {
                self.poke.notify_one();
            }
            changed.then(|| health.state())
        };
        if let Some(state) = changed {
            self.report(state);
        }
    }

    pub(super) fn stop(&self, state: State, why: String) {
        if self.health.lock().stop(state, why, Timestamp::now()) {
            self.report(state);
        }
    }

    fn report(&self, state: State) {
        if !state.is_open() {
            // It may be another one that comes back.
            self.identified.store(false, Ordering::Release);
        }
        let why = self.health.lock().why().to_owned();
        if state.is_open() {
            info!(cluster = self.cluster, state = state.as_str(), "state of a cluster changed");
        } else {
            warn!(
                cluster = self.cluster,
                state = state.as_str(),
                why,
                "state of a cluster changed"
            );
        }
        self.poke.notify_one();
        (self.changed)(&self.cluster);
    }

    pub(super) fn identify(&self) {
        if !self.identified.swap(true, Ordering::AcqRel) {
            (self.changed)(&self.cluster);
        }
    }
}
