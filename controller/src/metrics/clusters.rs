//! Every member: its state, its requests, what waits for it, asked when somebody reads the metrics.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use vela_cluster::members::{Members, State};
use vela_cluster::observe::CompletedRequest;
use vela_serve::metrics::{Error, REQUEST_BUCKETS, Registry};

/// Clusters that have a label value of their own; the others share one.
const NAMED: usize = 200;
/// That one.
const OTHER: &str = "other";

/// What is counted of requests to members.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    /// `vela_cluster_requests_total{cluster,verb,code}`
    requests: IntCounterVec,
    /// `vela_cluster_request_seconds{cluster,verb}`
    times: HistogramVec,
    /// `vela_cluster_left_behind{cluster}`
    pub left_behind: IntCounterVec,
    /// Names that have a label value of their own.
    named: Arc<parking_lot::Mutex<std::collections::BTreeSet<String>>>,
}

impl ClusterMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// A name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            requests: registry.int_counter_vec(
                "vela_cluster_requests_total",
                "Requests to a member cluster by status code.",
                &["cluster", "verb", "code"],
            )?,
            times: registry.histogram_vec(
                "vela_cluster_request_seconds",
                "Time until the answer of a member cluster begins.",
                REQUEST_BUCKETS,
                &["cluster", "verb"],
            )?,
            left_behind: registry.int_counter_vec(
                "vela_cluster_left_behind",
                "Objects that were moved to the ledger of a removed cluster.",
                &["cluster"],
            )?,
            named: Arc::default(),
        })
    }

    /// The label value of a cluster.
    pub fn label<'n>(&self, cluster: &'n str) -> &'n str {
        let mut named = self.named.lock();
        // Names of clusters are few but may come and go without end; a series once made stays.
        if named.contains(cluster) {
            return cluster;
        }
        if named.len() >= NAMED {
            return OTHER;
        }
        named.insert(cluster.to_owned());
        cluster
    }

    /// A request to a member has ended.
    pub(super) fn answered(&self, answer: &CompletedRequest<'_>) {
        let (cluster, verb) = (self.label(answer.cluster), answer.method.as_str());
        let code = answer.code.as_ref().map_or("<error>", |code| code.as_str());
        self.requests.with_label_values(&[cluster, verb, code]).inc();
        self.times.with_label_values(&[cluster, verb]).observe(answer.time.as_secs_f64());
    }
}

/// How many Applications wait for a cluster.
pub(crate) type Pending = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// Asks the registry.
pub(super) struct States {
    members: Arc<Members>,
    pending: Pending,
    states: IntGaugeVec,
    in_flight: IntGaugeVec,
    queued: IntGaugeVec,
    waiting: IntGaugeVec,
    cached: IntGaugeVec,
    expires: IntGaugeVec,
}

impl States {
    pub(super) fn new(members: Arc<Members>, pending: Pending) -> Result<Self, Error> {
        let gauge = |opts: Opts, labels: &[&str]| IntGaugeVec::new(opts, labels);
        Ok(Self {
            members,
            pending,
            states: gauge(
                Opts::new(
                    "vela_cluster_state",
                    "1 for the current state of a cluster, 0 for the others.",
                ),
                &["cluster", "state"],
            )?,
            in_flight: gauge(
                Opts::new("vela_cluster_in_flight", "Requests to a cluster without an answer yet."),
                &["cluster"],
            )?,
            queued: gauge(
                Opts::new(
                    "vela_cluster_waiting",
                    "Requests to a cluster that wait because too many are in flight.",
                ),
                &["cluster"],
            )?,
            waiting: gauge(
                Opts::new(
                    "vela_cluster_pending_apps",
                    "Applications that wait for a cluster that cannot be reached.",
                ),
                &["cluster"],
            )?,
            cached: gauge(
                Opts::new("vela_cluster_cache_bytes", "Bytes of the cached objects of a cluster."),
                &["cluster"],
            )?,
            expires: gauge(
                Opts::new(
                    "vela_cluster_credential_expires_seconds",
                    "Expiry of a cluster's credential, as a Unix time.",
                ),
                &["cluster"],
            )?,
        })
    }

    fn all(&self) -> [&IntGaugeVec; 6] {
        let Self { states, in_flight, queued, waiting, cached, expires, .. } = self;
        [states, in_flight, queued, waiting, cached, expires]
    }
}

impl Collector for States {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Those of clusters that are gone go.
        self.all().into_iter().for_each(IntGaugeVec::reset);
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (index, (name, member)) in self.members.snapshot().members().iter().enumerate() {
            // By their order now and not as seen first: these gauges are filled again at each
            // scrape.
            let label = if index < NAMED { name.as_str() } else { OTHER };
            let current = member.state();
            for state in State::ALL {
                let labels = [label, state.as_str()];
                // Added and not set, since several clusters share `other`.
                self.states.with_label_values(&labels).add(i64::from(state == current));
            }
            let add =
                |gauge: &IntGaugeVec, value: i64| gauge.with_label_values(&[label]).add(value);
            add(&self.in_flight, number(member.in_flight()));
            add(&self.queued, number(member.waiting()));
            add(&self.cached, number(member.cached()));
            let waiting = if current.is_open() { 0 } else { (self.pending)(name) };
            add(&self.waiting, number(waiting));
            let validity = member.cluster.access.as_ref().ok().and_then(|access| access.validity());
            // Ends of several credentials have no sum.
            if let Some(validity) = validity.filter(|_| label != OTHER) {
                self.expires.with_label_values(&[label]).set(validity.until.as_second());
            }
        }
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}
