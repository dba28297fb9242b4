//! The metrics of the webhook. Names of controller-runtime are kept, so that dashboards go on
//! working; what they lack (decisions, rules) is ours.

use vela_serve::metrics::{
    ADMISSION_BUCKETS, Error, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Registry,
};

/// The metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) latency: HistogramVec,
    pub(crate) requests: IntCounterVec,
    pub(crate) in_flight: IntGaugeVec,
    pub(crate) panics: IntCounter,
    pub(crate) decisions: IntCounterVec,
    pub(crate) certificate_not_after: Gauge,
    pub(crate) certificate_reads: IntCounter,
    pub(crate) certificate_errors: IntCounter,
    pub(crate) definitions: IntGaugeVec,
    pub(crate) cache_synced: GaugeVec,
    pub(crate) live_reads: IntCounterVec,
}

/// The metrics of one endpoint, resolved once.
#[derive(Debug, Clone)]
pub(crate) struct Meters {
    pub(crate) in_flight: IntGauge,
    pub(crate) latency: Histogram,
    /// Requests answered with HTTP 200: all of them.
    pub(crate) answered: IntCounter,
}

impl Metrics {
    pub(crate) fn of(&self, endpoint: &str) -> Meters {
        Meters {
            in_flight: self.in_flight.with_label_values(&[endpoint]),
            latency: self.latency.with_label_values(&[endpoint]),
            answered: self.requests.with_label_values(&[endpoint, "200"]),
        }
    }

    pub(crate) fn new(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            latency: registry.histogram_vec(
                "controller_runtime_webhook_latency_seconds",
                "Time to answer an admission request.",
                ADMISSION_BUCKETS,
                &["webhook"],
            )?,
            requests: registry.int_counter_vec(
                "controller_runtime_webhook_requests_total",
                "Admission requests by HTTP status.",
                &["webhook", "code"],
            )?,
            in_flight: registry.int_gauge_vec(
                "controller_runtime_webhook_requests_in_flight",
                "Admission requests that are being answered.",
                &["webhook"],
            )?,
            panics: registry.int_counter(
                "controller_runtime_webhook_panics_total",
                "Panics while answering; each was answered with code 500.",
            )?,
            decisions: registry.int_counter_vec(
                "vela_admission_decisions_total",
                "Decisions by endpoint, deciding rule, and whether it was a dry run.",
                &["webhook", "decision", "rule", "dry_run"],
            )?,
            certificate_not_after: registry.gauge(
                "vela_webhook_certificate_not_after_seconds",
                "End of the serving certificate's validity, as a Unix time.",
            )?,
            certificate_reads: registry.int_counter(
                "certwatcher_read_certificate_total",
                "Reads of the certificate files.",
            )?,
            certificate_errors: registry.int_counter(
                "certwatcher_read_certificate_errors_total",
                "Reads without a valid certificate.",
            )?,
            definitions: registry.int_gauge_vec(
                "vela_webhook_definitions",
                "Definitions in the cache.",
                &["kind"],
            )?,
            cache_synced: registry.gauge_vec(
                "vela_webhook_cache_last_event_seconds",
                "Time of the watch's last event, as a Unix time.",
                &["kind"],
            )?,
            live_reads: registry.int_counter_vec(
                "vela_webhook_live_reads_total",
                "Requests to the API server for objects that are not cached.",
                &["question", "result"],
            )?,
        })
    }
}
