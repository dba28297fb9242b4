//! The metrics. Names of the original are kept; how many series there are does not depend on what callers write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vela_serve::metrics::{
    Error, Gauge, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry,
};

/// Buckets of the original.
const BUCKETS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];
/// Clusters with series of their own.
const CLUSTERS: usize = 200;
/// Combinations of resource, verb, cluster and code with series of their own.
const SERIES: usize = 2000;
/// Whatever comes later.
const OTHER: &str = "other";

/// The metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    by_resource: IntCounterVec,
    by_cluster: IntCounterVec,
    duration: HistogramVec,
    streams: IntGaugeVec,
    pub(crate) certificate_not_after: Gauge,
    clusters: Arc<Known>,
    series: Arc<Known>,
}

/// A request that was passed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) verb: &'static str,
    pub(crate) code: u16,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            by_resource: registry.int_counter_vec(
                "ocm_proxy_proxied_resource_requests_by_resource_total",
                "Requests passed on to clusters, by what they are about.",
                &["resource", "verb", "code"],
            )?,
            by_cluster: registry.int_counter_vec(
                "ocm_proxy_proxied_requests_by_cluster_total",
                "Requests passed on, by cluster.",
                &["cluster", "code"],
            )?,
            duration: registry.histogram_vec(
                "ocm_proxy_proxied_request_duration_seconds",
                "Time until the answer of a cluster began.",
                BUCKETS,
                &["resource", "verb", "cluster", "code"],
            )?,
            streams: registry.int_gauge_vec(
                "vela_gateway_streams",
                "Requests to a cluster in flight, until their answers end.",
                &["cluster"],
            )?,
            certificate_not_after: registry.gauge(
                "vela_gateway_certificate_not_after_seconds",
                "End of the serving certificate's validity, as a Unix time.",
            )?,
            clusters: Arc::new(Known::new(CLUSTERS)),
            series: Arc::new(Known::new(SERIES)),
        })
    }

    /// A request was answered, by a cluster or for it.
    pub(crate) fn passed(&self, passed: Passed<'_>, took: Duration) {
        let Passed { mut cluster, mut resource, verb, code } = passed;
        let code = code.to_string();
        if !self.clusters.has(cluster) {
            cluster = OTHER;
        }
        self.by_cluster.with_label_values(&[cluster, &code]).inc();
        if !self.series.has(&format!("{resource} {verb} {cluster} {code}")) {
            (resource, cluster) = (OTHER, OTHER);
        }
        self.by_resource.with_label_values(&[resource, verb, &code]).inc();
        let duration = self.duration.with_label_values(&[resource, verb, cluster, &code]);
        duration.observe(took.as_secs_f64());
    }

    /// The requests to a cluster that are in flight.
    pub(crate) fn streams(&self, cluster: &str) -> IntGauge {
        let cluster = if self.clusters.has(cluster) { cluster } else { OTHER };
        self.streams.with_label_values(&[cluster])
    }
}

/// So many texts, those that came first.
#[derive(Debug)]
struct Known {
    most: usize,
    all: Mutex<BTreeSet<String>>,
}

impl Known {
    fn new(most: usize) -> Self {
        Self { most, all: Mutex::default() }
    }

    fn has(&self, text: &str) -> bool {
        let mut all = self.all.lock();
        if all.contains(text) {
            return true;
        }
        let is_room = all.len() < self.most;
        if is_room {
            all.insert(text.to_owned());
        }
        is_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_do_not_decide_how_many_series_there_are() {
        let registry = Registry::new("vela-gateway", "0").unwrap();
        let metrics = Metrics::new(&registry).unwrap();
        for n in 0..SERIES + 100 {
            let resource = format!("r{n}");
            let passed = Passed { cluster: "east", resource: &resource, verb: "get", code: 200 };
            metrics.passed(passed, Duration::from_millis(3));
        }
        for n in 0..CLUSTERS + 5 {
            metrics.streams(&format!("c{n}")).inc();
        }
        let text = registry.text().unwrap();
        let series =
            text.lines().filter(|line| line.starts_with("ocm_proxy_proxied_resource_requests"));
        assert_eq!(series.count(), SERIES + 1);
        assert!(text.contains("vela_gateway_streams{cluster=\"other\"} 6"), "{text}");
        assert!(text.contains(
            "ocm_proxy_proxied_requests_by_cluster_total{cluster=\"east\",code=\"200\"} 2100"
        ));
    }
}
