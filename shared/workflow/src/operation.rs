//! Operations on a workflow (suspend, resume, restart, ...), as changes of its status.
//!
//! The `vela` client writes the same changes to the API server; the engine uses these for
//! restarts of its own and to test that it understands the client's.

use std::collections::BTreeSet;

use crate::messages;
use crate::model::{Mode, Step, Workflow};
use crate::status::{Phase, Reason, Status, StepStatus};

/// An operation that the workflow does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Suspending what has ended.
    #[error("{}", messages::SUSPEND_TERMINATED)]
    SuspendTerminated,
    /// Resuming what has ended.
    #[error("{}", messages::RESUME_TERMINATED)]
    ResumeTerminated,
    /// Resuming a step that has no status.
    #[error("{}", messages::step_unknown(.step))]
    ResumeUnknown {
        /// Its name.
        step: String,
    },
    /// Restarting from a step that has no status.
    #[error("{}", messages::restart_step_unknown(.step))]
    RestartUnknown {
        /// Its name.
        step: String,
    },
    /// Restarting from a step that did not fail.
    #[error("{}", messages::RESTART_FROM_NON_FAILED)]
    RestartNotFailed,
}

/// Halts a workflow; every running step waits until it is resumed.
///
/// # Errors
/// The workflow has ended.
pub fn suspend(status: &mut Status) -> Result<(), OperationError> {
    if status.terminated {
        return Err(OperationError::SuspendTerminated);
    }
    status.suspend = true;
    status.for_each_mut(|step| {
        if step.phase == Phase::Running {
            step.phase = Phase::Suspending;
        }
    });
    Ok(())
}

/// Lets a workflow go on: every suspended step, or one.
///
/// # Errors
/// The workflow has ended, or has no such step.
pub fn resume(status: &mut Status, step: Option<&str>) -> Result<(), OperationError> {
    if status.terminated {
        return Err(OperationError::ResumeTerminated);
    }
    if let Some(name) = step
        && status.find(name).is_none()
    {
        return Err(OperationError::ResumeUnknown { step: name.to_owned() });
    }
    status.suspend = false;
    let group = step.and_then(|name| {
        let holds = |s: &&StepStatus| s.sub_steps.iter().any(|sub| sub.name == name);
        status.steps.iter().find(holds).map(|s| s.name.clone())
    });
    status.for_each_mut(|s| {
        let meant = step.is_none_or(|name| s.name == name) || group.as_ref() == Some(&s.name);
        if meant && s.phase == Phase::Suspending {
            s.phase = Phase::Running;
        }
    });
    Ok(())
}

/// Ends a workflow.
pub fn terminate(status: &mut Status) {
    status.terminated = true;
    status.suspend = false;
    status.for_each_mut(|step| match (step.phase, step.reason) {
        (Phase::Running | Phase::Suspending, _) => {
            step.phase = Phase::Failed;
            step.reason = Reason::Terminate;
        }
        (Phase::Failed, Reason::FailedAfterRetries | Reason::Timeout) => {}
        (Phase::Failed, _) => step.reason = Reason::Terminate,
        _ => {}
    });
}

/// Makes a workflow go on from a step that failed; returns the names of the variables that the
/// forgotten steps had left.
///
/// # Errors
/// No such step, or it did not fail.
pub fn restart_from(
    workflow: &Workflow,
    status: &mut Status,
    name: &str,
) -> Result<Vec<String>, OperationError> {
    let unknown = || OperationError::RestartUnknown { step: name.to_owned() };
    let failed = status.find(name).ok_or_else(unknown)?;
    if failed.phase != Phase::Failed {
        return Err(OperationError::RestartNotFailed);
    }
    status.terminated = false;
    status.suspend = false;
    status.finished = false;
    status.end_time = None;

    let mut forgotten = BTreeSet::new();
    let group = workflow.steps.iter().find(|s| s.sub_steps.iter().any(|sub| sub.name == name));
    if let Some(group) = group {
        let mode = group.sub_mode.unwrap_or(workflow.sub_mode);
        forgotten.extend(with_dependants(&group.sub_steps, mode, name));
        forgotten.extend(with_dependants(&workflow.steps, workflow.mode, &group.name));
        forgotten.remove(group.name.as_str());
        if let Some(parent) = status.steps.iter_mut().find(|s| s.name == group.name) {
            parent.phase = Phase::Running;
            parent.reason = Reason::None;
        }
    } else {
        forgotten.extend(with_dependants(&workflow.steps, workflow.mode, name));
    }
    status.steps.retain(|s| !forgotten.contains(s.name.as_str()));
    for step in &mut status.steps {
        step.sub_steps.retain(|s| !forgotten.contains(s.name.as_str()));
    }
    Ok(workflow
        .all()
        .filter(|s| forgotten.contains(s.name.as_str()))
        .flat_map(|s| s.outputs.iter().map(|o| o.name.clone()))
        .collect())
}

/// A step and those that come after it: all later ones, or in a DAG those that depend on it.
fn with_dependants<'w>(steps: &'w [Step], mode: Mode, name: &str) -> BTreeSet<&'w str> {
    let Some(position) = steps.iter().position(|s| s.name == name) else { return BTreeSet::new() };
    if mode == Mode::StepByStep {
        return steps.iter().skip(position).map(|s| s.name.as_str()).collect();
    }
    let mut found: BTreeSet<&str> =
        steps.iter().skip(position).take(1).map(|s| s.name.as_str()).collect();
    loop {
        let before = found.len();
        let outputs: BTreeSet<&str> = steps
            .iter()
            .filter(|s| found.contains(s.name.as_str()))
            .flat_map(|s| s.outputs.iter().map(|o| o.name.as_str()))
            .collect();
        for step in steps {
            let depends = step.depends_on.iter().any(|d| found.contains(d.as_str()))
                || step
                    .inputs
                    .iter()
                    .any(|i| outputs.contains(i.from.split('.').next().unwrap_or_default()));
            if depends {
                found.insert(&step.name);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
