//! `vela_rollouts_total`, `vela_rollout_duration_seconds`: how rollouts end, and how long they take from the arrival of the spec on.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};
use vela_api::names::{condition as types, reason};
use vela_api::{AppStatus, condition};
use vela_serve::metrics::{Error, Registry};

/// Seconds: what takes longer than two hours waits for something else than a rollout.
const BUCKETS: &[f64] =
    &[1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];

/// How a rollout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// The newest spec is deployed.
    Succeeded,
    /// Its workflow failed.
    Failed,
    /// Somebody ended its workflow.
    Terminated,
}

impl Rollout {
    const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Terminated];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Terminated => "terminated",
        }
    }

    /// How the rollout of a status has ended, if it has.
    fn of(status: &AppStatus) -> Option<Self> {
        match &*condition::get(&status.conditions, types::READY)?.reason {
            reason::RECONCILE_SUCCESS | reason::UNHEALTHY => Some(Self::Succeeded),
            reason::FAILED => Some(Self::Failed),
            reason::TERMINATED => Some(Self::Terminated),
            _ => None,
        }
    }

    /// How the rollout ended that was in progress before and is not any more.
    pub(crate) fn ended(before: &AppStatus, after: &AppStatus) -> Option<Self> {
        let run = |status: &AppStatus| {
            status.workflow.as_ref().map(|run| (run.app_revision.clone(), run.start_time.clone()))
        };
        let is_known = run(before) == run(after) && Self::of(before).is_some();
        Self::of(after).filter(|_| !is_known)
    }
}

/// The metrics.
#[derive(Debug, Clone)]
pub struct RolloutMetrics {
    total: IntCounterVec,
    times: HistogramVec,
}

impl RolloutMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        let total = registry.int_counter_vec(
            "vela_rollouts_total",
            "Rollouts of Applications by result.",
            &["result"],
        )?;
        // An alarm about their shares needs all of them.
        for result in Rollout::ALL {
            let _ = total.with_label_values(&[result.as_str()]);
        }
        let times = registry.histogram_vec(
            "vela_rollout_duration_seconds",
            "Time of a rollout, from the arrival of the spec to its end.",
            BUCKETS,
            &["result"],
        )?;
        Ok(Self { total, times })
    }

    pub(crate) fn ended(&self, result: Rollout, took: Duration) {
        let label = [result.as_str()];
        self.total.with_label_values(&label).inc();
        self.times.with_label_values(&label).observe(took.as_secs_f64());
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, result: Rollout) -> (u64, u64) {
        let label = [result.as_str()];
        let times = self.times.with_label_values(&label).get_sample_count();
        (self.total.with_label_values(&label).get(), times)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(revision: &str, reason: &str) -> AppStatus {
        serde_json::from_value(json!({
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": reason,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "workflow": {"appRevision": revision, "mode": "", "suspend": false, "terminated": false,
                "finished": false},
        }))
        .unwrap()
    }

    #[test]
    fn each_rollout_ends_once() {
        use Rollout::{Failed, Succeeded, Terminated};
        let cases = [
            (("v1", "Progressing"), ("v1", "ReconcileSuccess"), Some(Succeeded)),
            (("v1", "Progressing"), ("v1", "Progressing"), None),
            (("v1", "Suspended"), ("v1", "Terminated"), Some(Terminated)),
            (("v1", "Progressing"), ("v1", "Failed"), Some(Failed)),
            (("v1", "Failed"), ("v1", "Failed"), None),
            (("v1", "Failed"), ("v2", "Progressing"), None),
            // One pass may do all of it.
            (("v1", "ReconcileSuccess"), ("v2", "ReconcileSuccess"), Some(Succeeded)),
            (("v1", "ReconcileSuccess"), ("v1", "Unhealthy"), None),
            (("v1", "Unhealthy"), ("v1", "ReconcileSuccess"), None),
            (("v1", "Progressing"), ("v1", "Deleting"), None),
            (("v1", "Deleting"), ("v1", "ReconcileSuccess"), Some(Succeeded)),
        ];
        for (before, after, wanted) in cases {
            let found = Rollout::ended(&status(before.0, before.1), &status(after.0, after.1));
            assert_eq!(found, wanted, "{before:?} {after:?}");
        }
        assert_eq!(
            Rollout::ended(&AppStatus::default(), &status("v1", "ReconcileSuccess")),
            Some(Succeeded)
        );
    }
}
