//! How many Applications and workflow steps are in which phase, counted when somebody reads the metrics: no work in
//! between, and never a moment without the numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use vela_api::names;
use vela_cluster::{Store, Stored as _};
use vela_serve::metrics::Error;

use crate::cached::Cached;
use crate::definitions::Definitions;
use crate::queue::Ours;

use super::labels;

/// The Applications that are counted.
pub(super) struct Phases {
    apps: Arc<Store<Cached>>,
    /// Which types of steps there are.
    definitions: Arc<Definitions>,
    /// Which Applications are of this process; `None`: all are.
    ours: Option<Ours>,
    /// With the gate EnableApplicationStatusMetrics: gauges of each Application.
    each: bool,
    /// The metrics without values; those are made for each reader.
    empty: Gauges,
}

struct Gauges {
    /// `application_phase_number{phase}`
    phases: IntGaugeVec,
    /// `workflow_step_phase_number{step_type,phase}`
    steps: IntGaugeVec,
    /// `application_not_stamped_number`
    unstamped: IntGaugeVec,
    /// `kubevela_application_health_status{app_name,namespace}`
    health: IntGaugeVec,
    /// `kubevela_application_phase{app_name,namespace}`
    phase: IntGaugeVec,
    /// `kubevela_application_workflow_phase{app_name,namespace}`
    workflow: IntGaugeVec,
}

impl Gauges {
    fn new() -> Result<Self, Error> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            IntGaugeVec::new(Opts::new(name, help), labels)
        };
        let app = ["app_name", "namespace"];
        Ok(Self {
            phases: gauge("application_phase_number", "Applications by phase.", &["phase"])?,
            steps: gauge(
                "workflow_step_phase_number",
                "Workflow steps by type and phase.",
                &["step_type", "phase"],
            )?,
            unstamped: gauge(
                "application_not_stamped_number",
                "Applications that are not applied with all rights of their author.",
                &[],
            )?,
            health: gauge(
                "kubevela_application_health_status",
                "1 if all services of the Application are healthy.",
                &app,
            )?,
            phase: gauge(
                "kubevela_application_phase",
                "The Application's phase as a number.",
                &app,
            )?,
            workflow: gauge(
                "kubevela_application_workflow_phase",
                "The phase of the Application's workflow as a number.",
                &app,
            )?,
        })
    }

    fn all(&self) -> [&IntGaugeVec; 6] {
        [&self.phases, &self.steps, &self.unstamped, &self.health, &self.phase, &self.workflow]
    }

    fn count(&self, apps: &[Arc<Cached>], definitions: &Definitions) {
        let mut phases: BTreeMap<&str, i64> =
            names::phase::ALL.iter().map(|phase| (*phase, 0)).collect();
        for app in apps {
            *phases.entry(labels::phase(&app.outline.phase)).or_default() += 1;
        }
        let unstamped = apps.iter().filter(|app| app.outline.is_unstamped).count();
        self.unstamped
            .with_label_values::<&str>(&[])
            .set(i64::try_from(unstamped).unwrap_or(i64::MAX));
        for (phase, count) in phases {
            self.phases.with_label_values(&[phase]).set(count);
        }
        let workflows = apps.iter().filter_map(|app| app.outline.workflow.as_ref());
        count_steps(
            &self.steps,
            workflows.flat_map(|run| &run.steps).map(|step| step.each_ref().map(|it| &**it)),
            definitions,
        );
    }

    fn record(&self, app: &Cached) {
        let (key, outline) = (app.key(), &app.outline);
        let labels = [&*key.name, &*key.namespace];
        self.health.with_label_values(&labels).set(i64::from(outline.is_healthy));
        self.phase.with_label_values(&labels).set(phase_number(&outline.phase));
        let number = workflow_number(outline.workflow.as_ref().map_or("", |run| &run.phase));
        self.workflow.with_label_values(&labels).set(number);
    }
}

impl Phases {
    pub(super) fn new(
        apps: Arc<Store<Cached>>,
        definitions: Arc<Definitions>,
        (ours, each): (Option<Ours>, bool),
    ) -> Result<Self, Error> {
        Ok(Self { apps, definitions, ours, each, empty: Gauges::new()? })
    }
}

impl Collector for Phases {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Computed for each scrape: series that no Application has any more disappear.
        let Ok(gauges) = Gauges::new() else { return Vec::new() };
        let mut apps = self.apps.all();
        if let Some(ours) = &self.ours {
            apps.retain(|app| ours(&app.key()));
        }
        gauges.count(&apps, &self.definitions);
        if self.each {
            apps.iter().for_each(|app| gauges.record(app));
        }
        gauges.all().into_iter().flat_map(Collector::collect).collect()
    }
}

/// Counts steps, of which type, phase and reason come, by type and phase.
pub(super) fn count_steps<'s>(
    gauge: &IntGaugeVec,
    steps: impl Iterator<Item = [&'s str; 3]>,
    definitions: &Definitions,
) {
    for [type_, phase, reason] in steps {
        let kind = labels::step_type(type_, definitions);
        let phase = labels::step_phase(phase, reason);
        gauge.with_label_values(&[kind, &phase]).inc();
    }
}

/// The number by which dashboards know a phase.
fn phase_number(phase: &str) -> i64 {
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
fn workflow_number(phase: &str) -> i64 {
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
    use crate::cached::Outlines;
    use vela_serve::metrics::Registry;

    fn app(name: &str, phase: &str) -> Cached {
        let steps = serde_json::json!([
            {"id": "1", "type": "deploy", "phase": "succeeded"},
            {"id": "2", "type": "suspend", "phase": "failed", "reason": "Timeout"},
        ]);
        let app = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "n"}, "spec": {"components": []},
            "status": {"status": phase, "workflow": {"status": "failed", "steps": steps}},
        }));
        Outlines::default().cached(&app.unwrap(), false)
    }

    #[test]
    fn a_reader_learns_what_is_there_now() {
        let apps: Arc<Store<Cached>> = Arc::default();
        let registry = Registry::new("test", "0").unwrap();
        let definitions =
            Definitions { system_namespace: "vela-system".to_owned(), ..Definitions::default() };
        let deploy = serde_json::json!({"metadata": {"name": "deploy", "namespace": "vela-system"},
            "spec": {}});
        definitions.steps.put(serde_json::from_value(deploy).unwrap()).unwrap();
        let phases = Phases::new(Arc::clone(&apps), Arc::new(definitions), (None, true)).unwrap();
        registry.register(phases).unwrap();
        let lines = || -> Vec<String> {
            let text = registry.text().unwrap();
            let of_ours = |line: &&str| {
                !line.ends_with(" 0") && !line.starts_with(['#', 'p']) && !line.starts_with("vela")
            };
            text.lines().filter(of_ours).map(str::to_owned).collect()
        };
        assert_eq!(lines(), Vec::<String>::new());
        apps.put(app("a", "running")).unwrap();
        apps.put(app("b", "")).unwrap();
        assert_eq!(
            lines(),
            [
                r#"application_phase_number{phase="-"} 1"#,
                r#"application_phase_number{phase="running"} 1"#,
                r#"kubevela_application_health_status{app_name="a",namespace="n"} 1"#,
                r#"kubevela_application_health_status{app_name="b",namespace="n"} 1"#,
                r#"kubevela_application_phase{app_name="a",namespace="n"} 1"#,
                r#"kubevela_application_phase{app_name="b",namespace="n"} -1"#,
                r#"kubevela_application_workflow_phase{app_name="a",namespace="n"} 5"#,
                r#"kubevela_application_workflow_phase{app_name="b",namespace="n"} 5"#,
                r##"workflow_step_phase_number{phase="failed#Timeout",step_type="suspend"} 2"##,
                r##"workflow_step_phase_number{phase="succeeded#",step_type="deploy"} 2"##,
            ]
        );
        apps.remove(&vela_cluster::Key::new("n", "a"), "");
        apps.remove(&vela_cluster::Key::new("n", "b"), "");
        assert_eq!(lines(), Vec::<String>::new());
    }

    #[test]
    fn phases_have_the_numbers_of_the_reference() {
        assert_eq!((phase_number("starting"), phase_number("deleting")), (0, 9));
        assert_eq!((phase_number("running"), phase_number("")), (1, -1));
        assert_eq!((workflow_number("succeeded"), workflow_number("skipped")), (1, 6));
    }
}
