//! `controller_runtime_*`: controller-runtime's metrics of reconciles.

use std::time::Instant;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use vela_serve::metrics::{Error, FINE_BUCKETS, Registry};

use crate::guard::Ended;
use crate::queue::Next;

/// What all controllers count.
#[derive(Debug, Clone)]
pub struct AttemptMetrics {
    results: IntCounterVec,
    errors: IntCounterVec,
    terminal: IntCounterVec,
    panics: IntCounterVec,
    times: HistogramVec,
    active: IntGaugeVec,
    workers: IntGaugeVec,
}

/// The counters of one controller, resolved once: each exists from the start, at zero.
#[derive(Debug, Clone)]
pub struct AttemptMeter {
    done: IntCounter,
    again: IntCounter,
    failed: IntCounter,
    errors: IntCounter,
    panics: IntCounter,
    times: Histogram,
    active: IntGauge,
}

/// An attempt in flight.
#[derive(Debug)]
pub struct Attempt<'a> {
    meter: &'a AttemptMeter,
    since: Instant,
}

impl AttemptMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        let count =
            |name: &str, help: &str, labels: &[&str]| registry.int_counter_vec(name, help, labels);
        let own = ["controller"];
        Ok(Self {
            results: count(
                "controller_runtime_reconcile_total",
                "Reconciles by controller and result.",
                &["controller", "result"],
            )?,
            errors: count(
                "controller_runtime_reconcile_errors_total",
                "Failed reconciles by controller.",
                &own,
            )?,
            terminal: count(
                "controller_runtime_terminal_reconcile_errors_total",
                "Failed reconciles that are not retried: always 0.",
                &own,
            )?,
            panics: count(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked, by controller.",
                &own,
            )?,
            times: registry.histogram_vec(
                "controller_runtime_reconcile_time_seconds",
                "Time of a reconcile by controller.",
                FINE_BUCKETS,
                &own,
            )?,
            active: registry.int_gauge_vec(
                "controller_runtime_active_workers",
                "Busy workers by controller.",
                &own,
            )?,
            workers: registry.int_gauge_vec(
                "controller_runtime_max_concurrent_reconciles",
                "Workers by controller.",
                &own,
            )?,
        })
    }

    /// The counters of one controller with this many workers.
    #[must_use]
    pub fn of(&self, controller: &str, workers: usize) -> AttemptMeter {
        let own = [controller];
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.workers.with_label_values(&own).set(workers);
        let result = |result: &str| self.results.with_label_values(&[controller, result]);
        // What never happens here is there all the same: rules of alarms name it.
        let (_, _) = (result("requeue"), self.terminal.with_label_values(&own));
        AttemptMeter {
            done: result("success"),
            again: result("requeue_after"),
            failed: result("error"),
            errors: self.errors.with_label_values(&own),
            panics: self.panics.with_label_values(&own),
            times: self.times.with_label_values(&own),
            active: self.active.with_label_values(&own),
        }
    }
}

impl AttemptMeter {
    /// An attempt begins.
    #[must_use]
    pub fn begin(&self) -> Attempt<'_> {
        self.active.inc();
        Attempt { meter: self, since: Instant::now() }
    }
}

impl Attempt<'_> {
    /// It came to this.
    pub(crate) fn end(self, next: Next, ended: &Ended) {
        // Also of attempts that failed or ran out of time: those are the ones that alerts are
        // about.
        self.meter.times.observe(self.since.elapsed().as_secs_f64());
        match next {
            Next::Done => self.meter.done.inc(),
            Next::After(_) | Next::Resync(_) => self.meter.again.inc(),
            // The reference returns an error in both cases, and its dashboards count them.
            Next::Failed | Next::Postponed(_) => {
                self.meter.failed.inc();
                self.meter.errors.inc();
            }
        }
        if matches!(ended, Ended::Panicked(_)) {
            self.meter.panics.inc();
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // On drop, so that a cancelled attempt is counted out, too.
        self.meter.active.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn results_are_told_apart_and_zeros_are_printed() {
        let registry = Registry::new("test", "0").unwrap();
        let meter = AttemptMetrics::new(&registry).unwrap().of("application", 4);
        let failed = Ended::Failed("no".to_owned());
        let panicked = Ended::Panicked("no".to_owned());
        for (next, ended) in [
            (Next::Done, &Ended::Normally),
            (Next::After(Duration::from_secs(300)), &Ended::Normally),
            (Next::Failed, &Ended::Normally),
            (Next::Failed, &failed),
            (Next::Failed, &panicked),
        ] {
            meter.begin().end(next, ended);
        }
        drop(meter.begin());
        let text = registry.text().unwrap();
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("controller_runtime") && !line.contains("_seconds_"))
            .collect();
        lines.sort_unstable();
        let wanted = [
            r#"controller_runtime_active_workers{controller="application"} 0"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="application"} 4"#,
            r#"controller_runtime_reconcile_errors_total{controller="application"} 3"#,
            r#"controller_runtime_reconcile_panics_total{controller="application"} 1"#,
            r#"controller_runtime_reconcile_total{controller="application",result="error"} 3"#,
            r#"controller_runtime_reconcile_total{controller="application",result="requeue"} 0"#,
            r#"controller_runtime_reconcile_total{controller="application",result="requeue_after"} 1"#,
            r#"controller_runtime_reconcile_total{controller="application",result="success"} 1"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="application"} 0"#,
        ];
        assert_eq!(lines, wanted);
    }
}
