//! The metrics of the controller, under the names dashboards know.

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};
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
    /// `controller_runtime_reconcile_total{controller,result}`
    pub reconciles: IntCounterVec,
    /// `controller_runtime_reconcile_errors_total{controller}`
    pub errors: IntCounterVec,
    /// `controller_runtime_reconcile_panics_total{controller}`
    pub panics: IntCounterVec,
    /// `application_phase_number{phase}`
    pub phases: IntGaugeVec,
    /// `workflow_step_phase_number{step_type,phase}`
    pub step_phases: IntGaugeVec,
    /// `workqueue_depth{name}`
    pub depth: IntGaugeVec,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// A name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            reconcile_time: registry.histogram_vec(
                "application_reconcile_time_seconds",
                "Time of a reconcile of an Application.",
                &BUCKETS,
                &["begin_phase", "end_phase"],
            )?,
            reconciles: registry.int_counter_vec(
                "controller_runtime_reconcile_total",
                "Reconciles by controller and result.",
                &["controller", "result"],
            )?,
            errors: registry.int_counter_vec(
                "controller_runtime_reconcile_errors_total",
                "Failed reconciles by controller.",
                &["controller"],
            )?,
            panics: registry.int_counter_vec(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked, by controller.",
                &["controller"],
            )?,
            phases: registry.int_gauge_vec(
                "application_phase_number",
                "Applications by phase.",
                &["phase"],
            )?,
            step_phases: registry.int_gauge_vec(
                "workflow_step_phase_number",
                "Workflow steps by type and phase.",
                &["step_type", "phase"],
            )?,
            depth: registry.int_gauge_vec(
                "workqueue_depth",
                "Keys ready to be worked on, by controller.",
                &["name"],
            )?,
        })
    }
}
