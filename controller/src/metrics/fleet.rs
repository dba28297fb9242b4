//! Metrics of a fleet member about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{
    Gauge, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
};
use vela_cluster::lease::permit::RefusedBy;
use vela_serve::metrics::{Error, Registry};
use vela_shard::{MASTER, PoolName};

/// Buckets of hand-overs. A planned one shall take 2 s at most, a take-over after a crash 15 s: alarms compare with these.
const HANDOVER_BUCKETS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0,
    20.0, 30.0, 60.0,
];

/// Why a bucket came to this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeReason {
    /// Its previous owner handed it over.
    Planned,
    /// Its previous owner was silent for too long.
    Crash,
}

impl TakeReason {
    const ALL: [Self; 2] = [Self::Planned, Self::Crash];

    const fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Crash => "crash",
        }
    }
}

/// How many buckets of one pool a replica has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BucketCounts {
    /// It works on them.
    pub(crate) held: usize,
    /// It should hold them.
    pub(crate) wanted: usize,
    /// It is handing them over.
    pub(crate) draining: usize,
}

/// The default pool has no name; its shard id has one.
fn label(pool: &PoolName) -> &str {
    if pool.is_empty() { MASTER } else { pool }
}

/// What refused a write.
const fn layer(by: Option<RefusedBy>) -> &'static str {
    match by {
        None => "permit",
        Some(RefusedBy::Deadline) => "deadline",
        Some(RefusedBy::Version) => "version",
    }
}

/// A count as a gauge takes it.
pub(crate) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// `vela_shard_*`
#[derive(Debug)]
pub(crate) struct FleetMetrics {
    buckets: IntGaugeVec,
    applications: IntGaugeVec,
    /// The sum of `applications`.
    count: Mutex<usize>,
    drains: Histogram,
    takes: HistogramVec,
    pub(crate) gap: Gauge,
    pub(crate) epoch: IntGauge,
    pub(crate) unowned: IntGauge,
    pub(crate) session: IntGauge,
    pub(crate) seizures: IntCounter,
    refused: IntCounterVec,
    pub(crate) tables: IntCounter,
    pub(crate) moves: IntCounter,
}

impl FleetMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &Registry) -> Result<Self, Error> {
        let gauge = |name, help| registry.int_gauge(name, help);
        let counter = |name, help| registry.int_counter(name, help);
        let takes = registry.histogram_vec(
            "vela_shard_take_seconds",
            "Time from when a bucket was handed over, or its dead owner renewed its Lease last, until the first reconcile.",
            HANDOVER_BUCKETS,
            &["reason"],
        )?;
        // There before the first hand-over: a rate needs two values.
        TakeReason::ALL.iter().for_each(|reason| drop(takes.with_label_values(&[reason.name()])));
        let refused = registry.int_counter_vec(
            "vela_shard_refused_writes_total",
            "Writes that were refused: before they were sent, by their deadline, by the version they are bound to.",
            &["layer"],
        )?;
        for by in [None, Some(RefusedBy::Deadline), Some(RefusedBy::Version)] {
            drop(refused.with_label_values(&[layer(by)]));
        }
        Ok(Self {
            buckets: registry.int_gauge_vec(
                "vela_shard_buckets",
                "Buckets that this replica holds, should hold, and is handing over, by pool.",
                &["pool", "state"],
            )?,
            applications: registry.int_gauge_vec(
                "vela_shard_applications",
                "Applications in this replica's buckets, by pool.",
                &["pool"],
            )?,
            count: Mutex::default(),
            drains: registry.histogram(
                "vela_shard_drain_seconds",
                "Time from when no reconcile of a bucket begins any more until it is handed over.",
                HANDOVER_BUCKETS,
            )?,
            takes,
            gap: registry.gauge(
                "vela_shard_gap_seconds",
                "Time for which the Application waits that waits longest for a reconcile which is due.",
            )?,
            epoch: gauge("vela_shard_epoch", "Number of changes of the fleet's members.")?,
            unowned: gauge(
                "vela_shard_unowned",
                "Applications that no replica works on; of all buckets by the replica with the leader's duties, of lost keys by their holder.",
            )?,
            session: gauge(
                "vela_session_remaining_milliseconds",
                "Time for which this replica may still write without a renewal of its Lease.",
            )?,
            seizures: counter(
                "vela_shard_seizures_total",
                "Silent replicas whose Lease this one took.",
            )?,
            refused,
            moves: counter(
                "vela_shard_moves_total",
                "Applications that this replica handed over to another pool because of their label.",
            )?,
            tables: counter("vela_shard_table_writes_total", "Writes of the table of buckets.")?,
        })
    }

    /// How many buckets of each pool this replica has.
    pub(crate) fn set_buckets(&self, counts: &BTreeMap<PoolName, BucketCounts>) {
        // Pools go.
        self.buckets.reset();
        for (pool, count) in counts {
            for (state, count) in
                [("held", count.held), ("wanted", count.wanted), ("draining", count.draining)]
            {
                self.buckets.with_label_values(&[label(pool), state]).set(number(count));
            }
        }
    }

    /// How many Applications of each pool are this replica's.
    pub(crate) fn set_applications(&self, counts: &BTreeMap<PoolName, usize>) {
        // Pools go.
        self.applications.reset();
        for (pool, count) in counts {
            self.applications.with_label_values(&[label(pool)]).set(number(*count));
        }
        *self.count.lock() = counts.values().sum();
    }

    /// How many Applications are this replica's.
    pub(crate) fn applications(&self) -> usize {
        *self.count.lock()
    }

    /// A bucket was handed over.
    pub(crate) fn drained(&self, time: Duration) {
        self.drains.observe(time.as_secs_f64());
    }

    /// The first reconcile of a bucket that came from another replica begins.
    pub(crate) fn took(&self, reason: TakeReason, seconds: f64) {
        self.takes.with_label_values(&[reason.name()]).observe(seconds);
    }

    /// A write was refused; `None`: before it was sent, since this replica has no permit for it.
    pub(crate) fn refused(&self, by: Option<RefusedBy>) {
        self.refused.with_label_values(&[layer(by)]).inc();
    }

    /// How many buckets came for a reason, and how many seconds that took in all.
    #[cfg(test)]
    pub(crate) fn takes(&self, reason: TakeReason) -> (u64, f64) {
        let takes = self.takes.with_label_values(&[reason.name()]);
        (takes.get_sample_count(), takes.get_sample_sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_counted_by_pool_as_long_as_there_is_one() {
        let metrics = FleetMetrics::new(&Registry::new("test", "0").unwrap()).unwrap();
        let of = |pool: &str| metrics.applications.with_label_values(&[pool]).get();
        metrics.set_applications(&BTreeMap::from([("".into(), 3), ("gold".into(), 2)]));
        assert_eq!((metrics.applications(), of(MASTER), of("gold")), (5, 3, 2));
        metrics.set_applications(&BTreeMap::from([("".into(), 4)]));
        assert_eq!((metrics.applications(), of(MASTER), of("gold")), (4, 4, 0));
    }

    #[test]
    fn refused_writes_are_counted_by_layer_from_the_start() {
        let registry = Registry::new("test", "0").unwrap();
        let metrics = FleetMetrics::new(&registry).unwrap();
        for by in [None, None, Some(RefusedBy::Version)] {
            metrics.refused(by);
        }
        let text = registry.text().unwrap();
        for (layer, count) in [("permit", 2), ("deadline", 0), ("version", 1)] {
            let line = format!("vela_shard_refused_writes_total{{layer=\"{layer}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn buckets_are_counted_by_pool_and_state() {
        let metrics = FleetMetrics::new(&Registry::new("test", "0").unwrap()).unwrap();
        let counts = BucketCounts { held: 100, wanted: 128, draining: 2 };
        metrics.set_buckets(&BTreeMap::from([("".into(), counts)]));
        let of = |pool: &str, state: &str| metrics.buckets.with_label_values(&[pool, state]).get();
        let all = ["held", "wanted", "draining"].map(|state| of(MASTER, state));
        assert_eq!((all, of("gold", "held")), ([100, 128, 2], 0));
    }
}
