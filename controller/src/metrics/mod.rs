//! The metrics of the controller, under the names dashboards know.

mod attempts;
mod clusters;
mod drift;
mod fleet;
pub(crate) mod labels;
mod nodes;
mod phases;
mod queues;
mod rollouts;
mod run_phases;

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use vela_api::WorkflowRun;
use vela_cluster::Store;
use vela_cluster::members::Members;
use vela_cluster::observe::CompletedRequest;
use vela_cluster::request::Observation;
use vela_serve::metrics::{Error, FINE_BUCKETS, REQUEST_BUCKETS, Registry};

use crate::cached::Cached;
use crate::definitions::Definitions;
use crate::queue::{Ours, Queue};

pub(crate) use attempts::{AttemptMeter, AttemptMetrics};
pub(crate) use clusters::{ClusterMetrics, Pending};
pub(crate) use drift::{DriftAction, DriftMetrics};
pub(crate) use fleet::{BucketCounts, FleetMetrics, TakeReason, number};
pub(crate) use nodes::NodeMetrics;
pub(crate) use queues::{Load, QueueMeter, QueueMetrics};
pub(crate) use rollouts::{Rollout, RolloutMetrics};
use run_phases::Leads;

/// All of them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// `application_reconcile_time_seconds{begin_phase,end_phase}`
    pub reconcile_time: HistogramVec,
    /// `kubevela_app_reconcile_time_seconds{stage}`
    pub stages: HistogramVec,
    /// `apply_component_time_seconds{stage}`
    pub components: HistogramVec,
    /// `workflow_finished_time_seconds{phase}`
    pub finished: HistogramVec,
    /// `kubevela_cue_render_duration_seconds{definition_kind,status}`
    pub renders: HistogramVec,
    /// `vela_chart_fetch_duration_seconds{status}`
    pub fetches: HistogramVec,
    /// `kubevela_controller_client_request_time_seconds{controller,cluster,verb,kind,apiVersion,unstructured}`
    pub requests: HistogramVec,
    /// `list_resourcetracker_num{controller}`
    pub tracker_lists: IntCounterVec,
    /// `rest_client_requests_total{code,host,method}`
    pub answers: IntCounterVec,
    /// `rest_client_request_duration_seconds{verb,host}`
    pub answer_times: HistogramVec,
    /// `generate_task_runners_time_seconds{controller}`
    pub step_makings: HistogramVec,
    /// `workflowrun_step_duration_ms{controller,step_type}`: seconds, as the reference observes them under this name
    pub step_times: HistogramVec,
    /// `workflowrun_initialized_num`
    pub runs: IntCounter,
    /// `workflowrun_reconcile_time_seconds{begin_phase,end_phase}`
    pub run_reconcile_time: HistogramVec,
    /// `workflowrun_finished_time_seconds{phase}`
    pub finished_runs: HistogramVec,
    /// `controller_runtime_*`
    pub attempts: AttemptMetrics,
    /// `workqueue_*`
    pub queues: QueueMetrics,
    /// `leader_election_master_status{name}`
    pub leading: IntGaugeVec,
    /// `vela_applications_set_aside`
    pub set_aside: IntGauge,
    /// `vela_drift_total{kind,action}`
    pub drift: DriftMetrics,
    /// `vela_rollouts_total{result}`, `vela_rollout_duration_seconds{result}`
    pub rollouts: RolloutMetrics,
    /// `vela_cluster_*`
    pub clusters: ClusterMetrics,
    registry: Registry,
}

/// The one value the reference has for the label `controller` of what its workflow engine counts.
const ENGINE: &str = "workflowrun";

/// Observes the time from its making to its end.
#[derive(Debug)]
pub struct Timer<'a> {
    histogram: &'a HistogramVec,
    label: &'static str,
    since: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let time = self.since.elapsed().as_secs_f64();
        self.histogram.with_label_values(&[self.label]).observe(time);
    }
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// A name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let times = |name: &str, help: &str, labels: &[&str]| {
            registry.histogram_vec(name, help, FINE_BUCKETS, labels)
        };
        let count =
            |name: &str, help: &str, labels: &[&str]| registry.int_counter_vec(name, help, labels);
        let gauge =
            |name: &str, help: &str, labels: &[&str]| registry.int_gauge_vec(name, help, labels);
        Ok(Self {
            reconcile_time: times(
                "application_reconcile_time_seconds",
                "Time of a reconcile of an Application.",
                &["begin_phase", "end_phase"],
            )?,
            stages: times(
                "kubevela_app_reconcile_time_seconds",
                "Time of a stage of the reconcile of an Application.",
                &["stage"],
            )?,
            components: times(
                "apply_component_time_seconds",
                "Time of an attempt to apply a component.",
                &["stage"],
            )?,
            finished: times(
                "workflow_finished_time_seconds",
                "Time of a workflow from start to end.",
                &["phase"],
            )?,
            renders: times(
                "kubevela_cue_render_duration_seconds",
                "Time of a render, including the wait for a thread.",
                &["definition_kind", "status"],
            )?,
            fetches: times(
                "vela_chart_fetch_duration_seconds",
                "Time to get the archive of a chart, from its source or from the cache.",
                &["status"],
            )?,
            requests: times(
                "kubevela_controller_client_request_time_seconds",
                "Time of a request to the API server.",
                &["controller", "cluster", "verb", "kind", "apiVersion", "unstructured"],
            )?,
            tracker_lists: count(
                "list_resourcetracker_num",
                "Reads of the trackers of an Application.",
                &["controller"],
            )?,
            answers: count(
                "rest_client_requests_total",
                "Requests to the API server by status code.",
                &["code", "host", "method"],
            )?,
            answer_times: registry.histogram_vec(
                "rest_client_request_duration_seconds",
                "Time until the API server's answer begins.",
                REQUEST_BUCKETS,
                &["verb", "host"],
            )?,
            step_makings: times(
                "generate_task_runners_time_seconds",
                "Time to generate the steps of a workflow.",
                &["controller"],
            )?,
            step_times: times(
                "workflowrun_step_duration_ms",
                "Time of an attempt at a workflow step, in seconds.",
                &["controller", "step_type"],
            )?,
            runs: registry
                .int_counter("workflowrun_initialized_num", "Workflow runs that started.")?,
            run_reconcile_time: times(
                "workflowrun_reconcile_time_seconds",
                "Time of a reconcile of a WorkflowRun.",
                &["begin_phase", "end_phase"],
            )?,
            finished_runs: times(
                "workflowrun_finished_time_seconds",
                "Time of a WorkflowRun from start to end.",
                &["phase"],
            )?,
            attempts: AttemptMetrics::new(registry)?,
            queues: QueueMetrics::new(registry)?,
            set_aside: registry.int_gauge(
                "vela_applications_set_aside",
                "Applications and WorkflowRuns that are set aside because processes died while they reconciled them.",
            )?,
            leading: gauge(
                "leader_election_master_status",
                "1 while this process holds the lease.",
                &["name"],
            )?,
            drift: DriftMetrics::new(registry)?,
            rollouts: RolloutMetrics::new(registry)?,
            clusters: ClusterMetrics::new(registry)?,
            registry: registry.clone(),
        })
    }

    /// From now on whoever reads the metrics learns how many Applications and steps are in which phase; with `each` also
    /// the state of every Application. For the one process that leads, or of `ours`: sums over all processes count each once.
    ///
    /// # Errors
    /// They are reported already.
    pub fn register_phases(
        &self,
        apps: Arc<Store<Cached>>,
        definitions: Arc<Definitions>,
        (ours, each): (Option<Ours>, bool),
    ) -> Result<(), Error> {
        self.registry.register(phases::Phases::new(apps, definitions, (ours, each))?)
    }

    /// From now on whoever reads the metrics of the process that handles WorkflowRuns learns how many of them and of their steps
    /// are in which phase.
    ///
    /// # Errors
    /// They are reported already.
    pub(crate) fn register_run_phases(
        &self,
        runs: Arc<Store<WorkflowRun>>,
        definitions: Arc<Definitions>,
        leads: Leads,
    ) -> Result<(), Error> {
        self.registry.register(run_phases::RunPhases::new(runs, definitions, leads)?)
    }

    /// From now on whoever reads the metrics learns what the queues have to do.
    ///
    /// # Errors
    /// They are reported already.
    pub fn register_loads(&self, queues: Vec<(&'static str, Arc<Queue>)>) -> Result<(), Error> {
        self.registry.register(queues::Loads::new(queues)?)
    }

    /// From now on whoever reads the metrics learns the state of every cluster that joined.
    ///
    /// # Errors
    /// They are reported already.
    pub fn register_clusters(&self, members: Arc<Members>, pending: Pending) -> Result<(), Error> {
        self.registry.register(clusters::States::new(members, pending)?)
    }

    /// Where whatever a part of the process measures by itself is registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics of the nodes of clusters, from now on.
    ///
    /// # Errors
    /// They are reported already.
    pub fn register_nodes(&self) -> Result<NodeMetrics, Error> {
        NodeMetrics::new(&self.registry)
    }

    /// Times a stage of the reconcile, until the value is dropped.
    #[must_use]
    pub fn stage(&self, label: &'static str) -> Timer<'_> {
        Timer { histogram: &self.stages, label, since: Instant::now() }
    }

    /// Times an attempt to bring a component to the cluster.
    #[must_use]
    pub fn component(&self) -> Timer<'_> {
        Timer { histogram: &self.components, label: "-", since: Instant::now() }
    }

    /// Times the making of a workflow's steps.
    #[must_use]
    pub fn making(&self) -> Timer<'_> {
        Timer { histogram: &self.step_makings, label: ENGINE, since: Instant::now() }
    }

    /// An attempt at a workflow step of a type ended: a word that [`labels::step_type`] gives.
    pub fn step_ran(&self, kind: &str, time: Duration) {
        self.step_times.with_label_values(&[ENGINE, kind]).observe(time.as_secs_f64());
    }

    /// A rendering ended.
    pub fn rendered(&self, kind: &str, is_fine: bool, time: Duration) {
        let status = if is_fine { "success" } else { "error" };
        self.renders.with_label_values(&[kind, status]).observe(time.as_secs_f64());
    }

    /// A chart was fetched, or could not be.
    pub fn fetched(&self, is_fine: bool, time: Duration) {
        let status = if is_fine { "success" } else { "error" };
        self.fetches.with_label_values(&[status]).observe(time.as_secs_f64());
    }

    /// An answer of the API server, to whatever request.
    pub fn answered(&self, answer: &CompletedRequest<'_>) {
        if !answer.cluster.is_empty() {
            self.clusters.answered(answer);
        }
        let (method, host) = (answer.method.as_str(), answer.host);
        let code = answer.code.as_ref().map_or("<error>", |code| code.as_str());
        self.answers.with_label_values(&[code, host, method]).inc();
        self.answer_times.with_label_values(&[method, host]).observe(answer.time.as_secs_f64());
    }

    /// A request of a controller about an object ended.
    pub fn requested(&self, controller: &str, request: &Observation<'_>) {
        let labels = [controller, "local", request.verb, request.kind, request.api_version, "true"];
        self.requests.with_label_values(&labels).observe(request.time.as_secs_f64());
    }
}
