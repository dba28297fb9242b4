//! Between the engine's status and the one stored in an Application.

use jiff::Timestamp;
use vela_api::Time;
use vela_api::workflow::{WorkflowStatus, WorkflowStepStatus};

use crate::status::{Phase, Reason, Status, StepStatus, WorkflowPhase};

/// The engine's view of a stored status.
#[must_use]
pub fn from_api(stored: &WorkflowStatus) -> Status {
    Status {
        phase: WorkflowPhase::parse(&stored.phase),
        message: stored.message.clone(),
        suspend: stored.suspend,
        terminated: stored.terminated,
        finished: stored.finished,
        start_time: stored.start_time.as_ref().map(|t| t.0),
        end_time: stored.end_time.as_ref().map(|t| t.0),
        steps: stored.steps.iter().map(step_from_api).collect(),
    }
}

fn step_from_api(stored: &WorkflowStepStatus) -> StepStatus {
    StepStatus {
        id: stored.id.clone(),
        name: stored.name.clone(),
        kind: stored.type_.clone(),
        phase: Phase::parse(&stored.phase),
        reason: Reason::parse(&stored.reason),
        message: stored.message.clone(),
        first_execute_time: stored.first_execute_time.as_ref().map(|t| t.0),
        last_execute_time: stored.last_execute_time.as_ref().map(|t| t.0),
        sub_steps: stored.sub_steps.iter().map(step_from_api).collect(),
    }
}

/// Writes the engine's status over a stored one; what the engine does not know (revision, context
/// backend) stays.
#[must_use]
pub fn to_api(status: &Status, mode: &str, stored: &WorkflowStatus) -> WorkflowStatus {
    WorkflowStatus {
        app_revision: stored.app_revision.clone(),
        mode: mode.to_owned(),
        phase: status.phase.as_str().to_owned(),
        message: status.message.clone(),
        suspend: status.suspend,
        suspend_state: stored.suspend_state.clone(),
        terminated: status.terminated,
        finished: status.finished,
        context_backend: stored.context_backend.clone(),
        steps: status.steps.iter().map(step_to_api).collect(),
        start_time: seconds(status.start_time),
        end_time: seconds(status.end_time),
    }
}

fn step_to_api(step: &StepStatus) -> WorkflowStepStatus {
    WorkflowStepStatus {
        id: step.id.clone(),
        name: step.name.clone(),
        type_: step.kind.clone(),
        phase: step.phase.as_str().to_owned(),
        message: step.message.clone(),
        reason: step.reason.as_str().to_owned(),
        first_execute_time: seconds(step.first_execute_time),
        last_execute_time: seconds(step.last_execute_time),
        sub_steps: step.sub_steps.iter().map(step_to_api).collect(),
    }
}

/// Stored times have whole seconds.
fn seconds(time: Option<Timestamp>) -> Option<Time> {
    time.and_then(|t| Timestamp::from_second(t.as_second()).ok()).map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stored_status_survives() {
        let stored: WorkflowStatus = serde_json::from_value(json!({
            "appRevision": "app-v1", "mode": "DAG-DAG", "status": "executing",
            "suspend": false, "terminated": false, "finished": false,
            "contextBackend": {"kind": "ConfigMap", "name": "workflow-app-context"},
            "startTime": "2026-01-01T00:00:00Z",
            "steps": [{"id": "x", "name": "a", "type": "apply-component", "phase": "running",
                "reason": "Wait", "message": "wait healthy",
                "firstExecuteTime": "2026-01-01T00:00:00Z", "lastExecuteTime": "2026-01-01T00:00:01Z",
                "subSteps": [{"id": "y", "name": "b", "type": "k", "phase": "failed", "reason": "Timeout"}]}]
        }))
        .unwrap();
        assert_eq!(to_api(&from_api(&stored), "DAG-DAG", &stored), stored);
    }
}
