//! The metrics of the controller, under the names dashboards know.

use std::time::{Duration, Instant};

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};
use vela_cluster::request::Observation;
use vela_serve::metrics::{Error, Registry};

/// Fine buckets from 5 ms to 60 s, as the reference has them.
pub(crate) const BUCKETS: [f64; 22] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0,
    8.0, 12.0, 20.0, 30.0, 60.0,
];

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
    /// `kubevela_controller_client_request_time_seconds{controller,cluster,verb,kind,apiVersion,unstructured}`
    pub requests: HistogramVec,
    /// `list_resourcetracker_num{controller}`
    pub tracker_lists: IntCounterVec,
    /// `controller_runtime_reconcile_total{controller,result}`
    pub reconciles: IntCounterVec,
    /// `controller_runtime_reconcile_errors_total{controller}`
    pub errors: IntCounterVec,
    /// `controller_runtime_reconcile_panics_total{controller}`
    pub panics: IntCounterVec,
    /// `controller_runtime_reconcile_time_seconds{controller}`
    pub times: HistogramVec,
    /// `controller_runtime_active_workers{controller}`
    pub active: IntGaugeVec,
    /// `controller_runtime_max_concurrent_reconciles{controller}`
    pub workers: IntGaugeVec,
    /// `application_phase_number{phase}`
    pub phases: IntGaugeVec,
    /// `workflow_step_phase_number{step_type,phase}`
    pub step_phases: IntGaugeVec,
    /// `kubevela_application_health_status{app_name,namespace}`, with the gate EnableApplicationStatusMetrics
    pub app_health: IntGaugeVec,
    /// `kubevela_application_phase{app_name,namespace}`, with the gate
    pub app_phase: IntGaugeVec,
    /// `kubevela_application_workflow_phase{app_name,namespace}`, with the gate
    pub app_workflow: IntGaugeVec,
    /// `workqueue_depth{name}`
    pub depth: IntGaugeVec,
    /// `leader_election_master_status{name}`
    pub leading: IntGaugeVec,
}

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
            registry.histogram_vec(name, help, &BUCKETS, labels)
        };
        let count =
            |name: &str, help: &str, labels: &[&str]| registry.int_counter_vec(name, help, labels);
        let gauge =
            |name: &str, help: &str, labels: &[&str]| registry.int_gauge_vec(name, help, labels);
        let app = ["app_name", "namespace"];
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
                "Time of an attempt to bring a component to the cluster.",
                &["stage"],
            )?,
            finished: times(
                "workflow_finished_time_seconds",
                "Time of a workflow from its beginning to its end.",
                &["phase"],
            )?,
            renders: times(
                "kubevela_cue_render_duration_seconds",
                "Time of a rendering, waiting for a thread included.",
                &["definition_kind", "status"],
            )?,
            requests: times(
                "kubevela_controller_client_request_time_seconds",
                "Time of a request to the API server.",
                &["controller", "cluster", "verb", "kind", "apiVersion", "unstructured"],
            )?,
            tracker_lists: count(
                "list_resourcetracker_num",
                "Looks at the trackers of an Application.",
                &["controller"],
            )?,
            reconciles: count(
                "controller_runtime_reconcile_total",
                "Reconciles by controller and result.",
                &["controller", "result"],
            )?,
            errors: count(
                "controller_runtime_reconcile_errors_total",
                "Failed reconciles by controller.",
                &["controller"],
            )?,
            panics: count(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked, by controller.",
                &["controller"],
            )?,
            times: times(
                "controller_runtime_reconcile_time_seconds",
                "Time of a reconcile by controller.",
                &["controller"],
            )?,
            active: gauge(
                "controller_runtime_active_workers",
                "Workers that reconcile now, by controller.",
                &["controller"],
            )?,
            workers: gauge(
                "controller_runtime_max_concurrent_reconciles",
                "Workers by controller.",
                &["controller"],
            )?,
            phases: gauge("application_phase_number", "Applications by phase.", &["phase"])?,
            step_phases: gauge(
                "workflow_step_phase_number",
                "Workflow steps by type and phase.",
                &["step_type", "phase"],
            )?,
            app_health: gauge(
                "kubevela_application_health_status",
                "1 if all services of the Application are healthy.",
                &app,
            )?,
            app_phase: gauge(
                "kubevela_application_phase",
                "The Application's phase as a number.",
                &app,
            )?,
            app_workflow: gauge(
                "kubevela_application_workflow_phase",
                "The phase of the Application's workflow as a number.",
                &app,
            )?,
            depth: gauge(
                "workqueue_depth",
                "Keys ready to be worked on, by controller.",
                &["name"],
            )?,
            leading: gauge(
                "leader_election_master_status",
                "1 while this process holds the lease.",
                &["name"],
            )?,
        })
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

    /// A rendering ended.
    pub fn rendered(&self, kind: &str, is_fine: bool, time: Duration) {
        let status = if is_fine { "success" } else { "error" };
        self.renders.with_label_values(&[kind, status]).observe(time.as_secs_f64());
    }

    /// A request ended.
    pub fn requested(&self, request: &Observation<'_>) {
        let labels =
            ["application", "local", request.verb, request.kind, request.api_version, "true"];
        self.requests.with_label_values(&labels).observe(request.time.as_secs_f64());
    }
}

/// The number by which dashboards know a phase.
#[must_use]
pub(crate) fn phase_number(phase: &str) -> i64 {
    const PHASES: [&str; 10] = [
        "starting",
        "running",
        "rendering",
        "generatingPolicy",
        "runningWorkflow",
        "workflowSuspending",
        "workflowTerminated",
        "workflowFailed",
        "unhealthy",
        "deleting",
    ];
    number(&PHASES, phase)
}

/// The number by which dashboards know a phase of a workflow.
#[must_use]
pub(crate) fn workflow_number(phase: &str) -> i64 {
    const PHASES: [&str; 7] =
        ["initializing", "succeeded", "executing", "suspending", "terminated", "failed", "skipped"];
    number(&PHASES, phase)
}

fn number(all: &[&str], wanted: &str) -> i64 {
    let found = all.iter().position(|one| *one == wanted);
    found.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_the_numbers_of_the_reference() {
        assert_eq!((phase_number("starting"), phase_number("deleting")), (0, 9));
        assert_eq!((phase_number("running"), phase_number("")), (1, -1));
        assert_eq!((workflow_number("succeeded"), workflow_number("skipped")), (1, 6));
    }
}
