//! Who a reconcile is about, and what of its state decides whether it is noted before it begins.

use vela_api::WorkflowRun;

use crate::cached::Cached;
use crate::queue::Key;
use crate::registry;

/// An Application or a WorkflowRun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject<'k> {
    controller: &'static str,
    pub(super) key: &'k Key,
}

impl<'k> Subject<'k> {
    pub(crate) const fn application(key: &'k Key) -> Self {
        Self { controller: registry::APPLICATION, key }
    }

    pub(crate) const fn run(key: &'k Key) -> Self {
        Self { controller: registry::WORKFLOW_RUN, key }
    }

    /// Its name in the record: an Application's is `NAMESPACE/NAME`, as processes of earlier versions write it; others begin with
    /// their controller.
    pub(super) fn name(self) -> String {
        match self.controller {
            registry::APPLICATION => self.key.to_string(),
            controller => format!("{controller}/{}", self.key),
        }
    }
}

/// What a subject is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(super) generation: i64,
    /// Nothing is to be done for it, by its status alone: reading more would make the check cost what it is to save.
    pub(super) is_settled: bool,
}

impl From<&Cached> for State {
    fn from(app: &Cached) -> Self {
        Self { generation: app.generation.unwrap_or_default(), is_settled: app.is_settled() }
    }
}

impl From<&WorkflowRun> for State {
    fn from(run: &WorkflowRun) -> Self {
        let generation = run.metadata.generation.unwrap_or_default();
        Self { generation, is_settled: run.status.finished }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cached::Outlines;

    #[test]
    fn an_application_and_a_run_of_one_name_are_two() {
        let key = Key::new("n", "a");
        let names = [Subject::application(&key), Subject::run(&key)].map(Subject::name);
        assert_eq!(names, ["n/a", "workflowrun/n/a"]);
    }

    #[test]
    fn what_is_settled() {
        for (observed, finished, deleted, settled) in [
            (2, true, None, true),
            (1, true, None, false),
            (2, false, None, false),
            (2, true, Some("2026-01-01T00:00:00Z"), false),
        ] {
            let app: vela_api::Application = serde_json::from_value(json!({
                "metadata": {"generation": 2, "deletionTimestamp": deleted}, "spec": {"components": []},
                "status": {"observedGeneration": observed, "workflow": {"finished": finished}}}))
            .unwrap();
            let app = Outlines::default().cached(&app, false);
            assert_eq!(State::from(&app), State { generation: 2, is_settled: settled });
        }
        for finished in [true, false] {
            let run = json!({"metadata": {"generation": 1}, "spec": {}, "status": {"finished": finished}});
            let run: WorkflowRun = serde_json::from_value(run).unwrap();
            assert_eq!(State::from(&run), State { generation: 1, is_settled: finished });
        }
    }
}
