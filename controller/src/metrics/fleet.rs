//! Metrics of a fleet member about itself.

use prometheus::{IntCounter, IntGauge};
use vela_serve::metrics::{Error, Registry};

/// `vela_shard_*`
#[derive(Debug)]
pub(crate) struct FleetMetrics {
    pub(crate) working: IntGauge,
    pub(crate) draining: IntGauge,
    pub(crate) wanted: IntGauge,
    pub(crate) applications: IntGauge,
    pub(crate) epoch: IntGauge,
    pub(crate) unowned: IntGauge,
    pub(crate) session: IntGauge,
    pub(crate) seizures: IntCounter,
    pub(crate) refused: IntCounter,
    pub(crate) tables: IntCounter,
    pub(crate) moves: IntCounter,
}

impl FleetMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &Registry) -> Result<Self, Error> {
        let gauge = |name, help| registry.int_gauge(name, help);
        let counter = |name, help| registry.int_counter(name, help);
        Ok(Self {
            working: gauge("vela_shard_buckets", "Buckets that this replica holds.")?,
            draining: gauge(
                "vela_shard_buckets_draining",
                "Buckets that this replica is handing over.",
            )?,
            wanted: gauge("vela_shard_buckets_wanted", "Buckets that this replica should hold.")?,
            applications: gauge(
                "vela_shard_applications",
                "Applications in this replica's buckets.",
            )?,
            epoch: gauge("vela_shard_epoch", "Number of changes of the fleet's members.")?,
            unowned: gauge(
                "vela_shard_unowned",
                "Applications whose bucket no living replica holds; exported by the replica with the leader's duties.",
            )?,
            session: gauge(
                "vela_session_remaining_milliseconds",
                "Time for which this replica may still write without a renewal of its Lease.",
            )?,
            seizures: counter(
                "vela_shard_seizures_total",
                "Silent replicas whose Lease this one took.",
            )?,
            refused: counter(
                "vela_shard_refused_writes_total",
                "Writes that were not sent because this replica does not hold the bucket.",
            )?,
            moves: counter(
                "vela_shard_moves_total",
                "Applications that this replica handed over to another pool because of their label.",
            )?,
            tables: counter("vela_shard_table_writes_total", "Writes of the table of buckets.")?,
        })
    }
}
