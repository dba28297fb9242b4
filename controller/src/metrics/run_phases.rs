//! How many WorkflowRuns and steps of them are in which phase, counted when somebody reads the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use vela_api::WorkflowRun;
use vela_cluster::Store;
use vela_serve::metrics::Error;

use crate::definitions::Definitions;

use super::labels;
use super::phases::count_steps;

/// Whether this process handles the WorkflowRuns: one replica does, and sums over all of them count each run once.
pub(crate) type Leads = Arc<dyn Fn() -> bool + Send + Sync>;

/// The WorkflowRuns that are counted.
pub(super) struct RunPhases {
    runs: Arc<Store<WorkflowRun>>,
    /// Which types of steps there are.
    definitions: Arc<Definitions>,
    leads: Leads,
    /// The metrics without values; those are made for each reader.
    empty: Gauges,
}

struct Gauges {
    /// `workflowrun_phase_number{phase}`
    phases: IntGaugeVec,
    /// `workflowrun_step_phase_number{step_type,phase}`
    steps: IntGaugeVec,
}

impl Gauges {
    fn new() -> Result<Self, Error> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            IntGaugeVec::new(Opts::new(name, help), labels)
        };
        Ok(Self {
            phases: gauge("workflowrun_phase_number", "WorkflowRuns by phase.", &["phase"])?,
            steps: gauge(
                "workflowrun_step_phase_number",
                "Steps of WorkflowRuns by type and phase.",
                &["step_type", "phase"],
            )?,
        })
    }

    fn all(&self) -> [&IntGaugeVec; 2] {
        [&self.phases, &self.steps]
    }

    fn count(&self, runs: &[Arc<WorkflowRun>], definitions: &Definitions) {
        let mut phases: BTreeMap<&str, i64> = labels::RUN_PHASES.map(|phase| (phase, 0)).into();
        for run in runs {
            *phases.entry(labels::run_phase(&run.status.phase)).or_default() += 1;
        }
        for (phase, count) in phases {
            self.phases.with_label_values(&[phase]).set(count);
        }
        let steps = runs.iter().flat_map(|run| &run.status.steps);
        let steps = steps.map(|step| [&step.type_, &step.phase, &step.reason].map(String::as_str));
        count_steps(&self.steps, steps, definitions);
    }
}

impl RunPhases {
    pub(super) fn new(
        runs: Arc<Store<WorkflowRun>>,
        definitions: Arc<Definitions>,
        leads: Leads,
    ) -> Result<Self, Error> {
        Ok(Self { runs, definitions, leads, empty: Gauges::new()? })
    }
}

impl Collector for RunPhases {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Computed for each scrape: series that no run has any more disappear.
        let Ok(gauges) = Gauges::new() else { return Vec::new() };
        let runs = if (self.leads)() { self.runs.all() } else { Vec::new() };
        gauges.count(&runs, &self.definitions);
        gauges.all().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;
    use vela_serve::metrics::Registry;

    use super::*;

    #[test]
    fn the_one_replica_that_handles_runs_counts_them() {
        let runs: Arc<Store<WorkflowRun>> = Arc::default();
        for (name, phase) in [("a", "executing"), ("b", "executing"), ("c", "")] {
            let run = json!({"metadata": {"name": name, "namespace": "n"}, "spec": {},
                "status": {"status": phase, "steps": [
                    {"id": "1", "type": "suspend", "phase": "running"},
                    {"id": "2", "type": "of-a-tenant", "phase": "failed", "reason": "Timeout"}]}});
            runs.put(serde_json::from_value(run).unwrap()).unwrap();
        }
        let leads = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&leads);
        let asked = Arc::new(move || asked.load(Ordering::Relaxed));
        let registry = Registry::new("test", "0").unwrap();
        registry.register(RunPhases::new(runs, Arc::default(), asked).unwrap()).unwrap();
        let lines = || -> Vec<String> {
            let text = registry.text().unwrap();
            let of_runs = |line: &&str| line.starts_with("workflowrun") && !line.ends_with(" 0");
            text.lines().filter(of_runs).map(str::to_owned).collect()
        };
        assert_eq!(
            lines(),
            [
                r#"workflowrun_phase_number{phase="-"} 1"#,
                r#"workflowrun_phase_number{phase="executing"} 2"#,
                r##"workflowrun_step_phase_number{phase="failed#Timeout",step_type="other"} 3"##,
                r##"workflowrun_step_phase_number{phase="running#",step_type="suspend"} 3"##,
            ]
        );
        leads.store(false, Ordering::Relaxed);
        assert_eq!(lines(), Vec::<String>::new());
    }
}
