//! The status of a WorkflowRun: from and to that of the workflow, how it ends, and the patch that writes it.

use jiff::Timestamp;
use serde_json::Value;
use vela_api::names::condition::WORKFLOW_RUN;
use vela_api::names::reason;
use vela_api::workflow::{WorkflowExecuteMode, WorkflowStatus, WorkflowStepStatus};
use vela_api::{Condition, WorkflowRunStatus, condition};
use vela_apply::json_merge;
use vela_workflow::WorkflowPhase;

use crate::messages;

/// What of a reconcile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The steps were not made.
    Generate,
    /// They were not carried out.
    Execute,
}

impl Stage {
    /// The reason of events.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Generate => "Generate",
            Self::Execute => "Execute",
        }
    }

    /// The phase in which the run stays.
    const fn phase(self) -> WorkflowPhase {
        match self {
            Self::Generate => WorkflowPhase::Initializing,
            Self::Execute => WorkflowPhase::Executing,
        }
    }
}

/// Why a run cannot go on.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) stage: Stage,
    why: String,
}

impl Failure {
    pub(super) const fn of(stage: Stage, why: String) -> Self {
        Self { stage, why }
    }

    pub(super) fn not_stored(reason: &str) -> Self {
        Self::of(Stage::Execute, messages::context_not_stored(reason))
    }

    /// The text of the event.
    pub(super) fn event(&self) -> String {
        match self.stage {
            Stage::Generate => messages::run_not_generated(&self.why),
            Stage::Execute => messages::run_not_executed(&self.why),
        }
    }
}

/// The state of the workflow that a status holds.
pub(super) fn to_workflow(status: &WorkflowRunStatus) -> WorkflowStatus {
    WorkflowStatus {
        app_revision: String::new(),
        mode: format!("{}-{}", status.mode.steps, status.mode.sub_steps),
        phase: status.phase.clone(),
        message: status.message.clone(),
        suspend: status.suspend,
        suspend_state: status.suspend_state.clone(),
        terminated: status.terminated,
        finished: status.finished,
        context_backend: status.context_backend.clone(),
        steps: status.steps.clone(),
        start_time: status.start_time.clone(),
        end_time: status.end_time.clone(),
    }
}

/// The status after a pass over the workflow.
pub(super) fn after(
    stored: &WorkflowRunStatus,
    workflow: WorkflowStatus,
    mode: WorkflowExecuteMode,
    phase: WorkflowPhase,
    now: Timestamp,
) -> WorkflowRunStatus {
    let mut conditions = stored.conditions.clone();
    if phase == WorkflowPhase::Succeeded {
        condition::set(&mut conditions, [Condition::available(WORKFLOW_RUN, now)]);
    } else {
        // What an earlier reconcile failed for is over.
        conditions.retain(|condition| condition.type_ != WORKFLOW_RUN);
    }
    let is_over = phase.is_final();
    WorkflowRunStatus {
        conditions,
        mode,
        phase: workflow.phase,
        message: workflow.message,
        suspend: workflow.suspend,
        suspend_state: workflow.suspend_state,
        terminated: workflow.terminated,
        finished: is_over,
        context_backend: workflow.context_backend,
        steps: workflow.steps,
        start_time: workflow.start_time,
        end_time: is_over.then(|| condition::seconds(now)),
    }
}

/// The status of a run that cannot go on.
pub(super) fn failed(
    stored: &WorkflowRunStatus,
    failure: &Failure,
    now: Timestamp,
) -> WorkflowRunStatus {
    let mut wanted = stored.clone();
    let failed = Condition::reconcile_error(WORKFLOW_RUN, failure.why.as_str(), now);
    condition::set(&mut wanted.conditions, [failed]);
    failure.stage.phase().as_str().clone_into(&mut wanted.phase);
    wanted
}

/// The status of a run that is set aside: a condition more, and else as it was.
pub(super) fn set_aside(
    stored: &WorkflowRunStatus,
    message: &str,
    now: Timestamp,
) -> WorkflowRunStatus {
    let mut wanted = stored.clone();
    let condition = Condition::new(WORKFLOW_RUN, "False", reason::SET_ASIDE, message, now);
    condition::set(&mut wanted.conditions, [condition]);
    wanted
}

/// What is said of a run that has ended; `None` if it has not.
pub(super) const fn ending(phase: WorkflowPhase) -> Option<&'static str> {
    match phase {
        WorkflowPhase::Succeeded => Some(messages::RUN_SUCCEEDED),
        WorkflowPhase::Failed => Some(messages::RUN_FAILED),
        WorkflowPhase::Terminated => Some(messages::RUN_TERMINATED),
        WorkflowPhase::Initializing | WorkflowPhase::Executing | WorkflowPhase::Suspending => None,
    }
}

/// The merge patch from one status to another; `None` if there is no difference.
pub(super) fn patch(stored: &WorkflowRunStatus, wanted: &WorkflowRunStatus) -> Option<Value> {
    let value = |status: &WorkflowRunStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    // Where nothing is stored the fields that must be there are not there either.
    if *stored == WorkflowRunStatus::default() {
        return (stored != wanted).then(|| value(wanted));
    }
    // A step that suspends itself is attempted again at every reconcile, which is no news.
    if wanted.suspend && with_times_of(stored, wanted.clone()) == *stored {
        return None;
    }
    let diff = json_merge::diff(&value(stored), &value(wanted));
    (!json_merge::is_empty(&diff)).then_some(diff)
}

/// A status whose steps were attempted when those of another one were.
fn with_times_of(stored: &WorkflowRunStatus, mut wanted: WorkflowRunStatus) -> WorkflowRunStatus {
    fn copy(from: &[WorkflowStepStatus], to: &mut [WorkflowStepStatus]) {
        for (from, to) in from.iter().zip(to) {
            to.last_execute_time.clone_from(&from.last_execute_time);
            copy(&from.sub_steps, &mut to.sub_steps);
        }
    }
    copy(&stored.steps, &mut wanted.steps);
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn executing() -> WorkflowRunStatus {
        serde_json::from_value(json!({
            "mode": {"steps": "DAG", "subSteps": "DAG"}, "status": "executing", "suspend": false,
            "terminated": false, "finished": false, "startTime": "1970-01-01T00:00:01Z",
            "steps": [{"id": "x", "name": "a", "type": "suspend", "phase": "running"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_status_survives_a_pass_that_changes_nothing() {
        let stored = executing();
        let workflow = to_workflow(&stored);
        let phase = WorkflowPhase::Executing;
        let same = after(&stored, workflow, stored.mode.clone(), phase, at(9));
        assert_eq!(same, stored);
        assert_eq!(patch(&stored, &same), None);
    }

    #[test]
    fn the_first_status_is_written_as_a_whole() {
        let first = patch(&WorkflowRunStatus::default(), &executing()).unwrap();
        for field in ["mode", "suspend", "terminated", "finished", "steps"] {
            assert!(first.get(field).is_some(), "{field}");
        }
        let mut suspended = executing();
        suspended.suspend = true;
        assert_eq!(patch(&executing(), &suspended).unwrap(), json!({"suspend": true}));
        let nothing = WorkflowRunStatus::default();
        assert_eq!(patch(&nothing, &nothing), None);
    }

    #[test]
    fn another_attempt_at_a_suspended_step_is_no_news() {
        let mut stored = executing();
        stored.suspend = true;
        let mut again = stored.clone();
        again.steps[0].last_execute_time = Some(condition::seconds(at(9)));
        assert_eq!(patch(&stored, &again), None);
        again.steps[0].message = "news".to_owned();
        assert!(patch(&stored, &again).is_some());
        (stored.suspend, again.suspend) = (false, false);
        again.steps[0].message.clear();
        assert!(patch(&stored, &again).is_some());
    }

    #[test]
    fn ends_have_a_time_a_text_and_a_condition() {
        let stored = executing();
        for (phase, condition, text) in [
            (WorkflowPhase::Succeeded, Some("True"), Some("WorkflowRun finished successfully")),
            (WorkflowPhase::Failed, None, Some("WorkflowRun finished with failure")),
            (WorkflowPhase::Terminated, None, Some("WorkflowRun finished with termination")),
            (WorkflowPhase::Suspending, None, None),
        ] {
            let ended = after(&stored, to_workflow(&stored), stored.mode.clone(), phase, at(9));
            assert_eq!(ending(phase), text);
            assert_eq!(ended.finished, text.is_some());
            assert_eq!(ended.end_time.as_ref().map(|time| time.0), text.map(|_| at(9)));
            let found = ended.conditions.first().map(|condition| condition.status.as_str());
            assert_eq!(found, condition);
        }
    }

    #[test]
    fn a_failure_is_a_condition_until_the_run_goes_on() {
        let failure = Failure::of(Stage::Generate, "no such thing".to_owned());
        assert_eq!(failure.event(), "fail to generate workflow runners: no such thing");
        let status = failed(&WorkflowRunStatus::default(), &failure, at(5));
        assert_eq!(status.phase, "initializing");
        let [condition] = status.conditions.as_slice() else { panic!("{status:?}") };
        let text = |text: &String| text.clone();
        let [type_, state, reason, message] =
            [&condition.type_, &condition.status, &condition.reason, &condition.message].map(text);
        assert_eq!([type_, state], ["WorkflowRun", "False"]);
        assert_eq!([reason, message], ["ReconcileError", "no such thing"]);
        // The same failure again is no news.
        assert_eq!(patch(&status, &failed(&status, &failure, at(9))), None);
        let phase = WorkflowPhase::Executing;
        let on = after(&status, to_workflow(&status), status.mode.clone(), phase, at(9));
        assert_eq!(on.conditions, []);
        let failure = Failure::not_stored("no");
        assert!(failure.event().starts_with("fail to execute: "), "{}", failure.event());
        assert_eq!(failed(&status, &failure, at(9)).phase, "executing");
    }
}
