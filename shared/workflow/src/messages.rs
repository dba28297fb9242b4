//! What a person reads in the status of a workflow.

/// A step whose dependency is not finished.
#[must_use]
pub fn pending_on_dependency(name: &str) -> String {
    format!("Pending on DependsOn: {name}")
}

/// A step whose input is not there.
#[must_use]
pub fn pending_on_input(from: &str) -> String {
    format!("Pending on Input: {from}")
}

/// A step whose condition or timeout could not be evaluated.
#[must_use]
pub fn pre_check(error: &str) -> String {
    format!("pre check error: {error}")
}

/// The workflow stopped itself because a step failed too often.
pub const SUSPENDED_AFTER_RETRIES: &str = "The workflow suspends automatically because the failed \
     times of steps have reached the limit";

/// A timeout that is no duration.
#[must_use]
pub fn invalid_timeout(text: &str) -> String {
    format!("time: invalid duration \"{text}\"")
}

/// A step that cannot be restarted from.
pub const RESTART_FROM_NON_FAILED: &str = "can not restart from a non-failed step";

/// A step to restart from that the workflow does not have.
#[must_use]
pub fn restart_step_unknown(name: &str) -> String {
    format!("failed step {name} not found")
}

/// A step to suspend or resume that has no status.
#[must_use]
pub fn step_unknown(name: &str) -> String {
    format!("can not find step {name}")
}

/// Suspending what has ended.
pub const SUSPEND_TERMINATED: &str = "can not suspend a terminated workflow";

/// Resuming what has ended.
pub const RESUME_TERMINATED: &str = "can not resume a terminated workflow";

/// A condition that is no CUE.
#[must_use]
pub fn invalid_condition(error: &str) -> String {
    format!("invalid if value: {error}")
}

/// A condition that is no truth value.
#[must_use]
pub fn condition_not_bool(value: &str, kind: &str) -> String {
    format!("if: cannot use value {value} (type {kind}) as bool")
}

/// A workflow that says twice which steps it has.
pub const REF_AND_STEPS: &str = "cannot set steps and ref in workflow at the same time";

/// A step that applies a component the Application does not have.
#[must_use]
pub fn component_not_found(name: &str) -> String {
    format!("component {name} not found")
}

/// A component that depends on one the Application does not have.
#[must_use]
pub fn dependency_not_found(missing: &str, component: &str) -> String {
    format!("component {missing} not found, which is depended by {component}")
}

/// An input whose place cannot be read.
#[must_use]
pub fn input_path_invalid(key: &str) -> String {
    format!("invalid parameterKey \"{key}\"")
}

/// An input whose place lies inside a scalar.
#[must_use]
pub fn input_path_blocked(key: &str) -> String {
    format!("parameterKey \"{key}\" leads through a value that has no fields")
}

/// An input whose place lies beyond the end of a list.
#[must_use]
pub fn input_index(key: &str, index: usize, length: usize) -> String {
    format!("parameterKey \"{key}\": index {index} is beyond the end of a list of {length}")
}

/// An output that could not be made.
#[must_use]
pub fn output_failed(value_from: &str, reason: &str) -> String {
    format!("failed to get output from {value_from}: {}\n", reason.trim_end())
}

/// A value that is not there.
#[must_use]
pub fn lookup_failed(path: &str) -> String {
    format!("failed to lookup value: var(path={path}) not exist")
}

/// A provider call that did not succeed.
#[must_use]
pub fn call_failed(path: &str, reason: &str) -> String {
    format!("function call error for {path}: {reason}")
}

/// A call nobody answers.
#[must_use]
pub fn function_unknown(provider: &str, function: &str) -> String {
    format!("function {function} not found in provider {provider}")
}

/// A call whose parameters are not concrete.
#[must_use]
pub fn not_concrete(errors: &str) -> String {
    format!("cue: marshal error: {errors}")
}

/// A step that halts the workflow.
#[must_use]
pub fn suspended_by(label: &str) -> String {
    format!("Suspended by field {label}")
}

/// A suspension whose length is no duration.
#[must_use]
pub fn suspend_duration(text: &str) -> String {
    format!("failed to parse duration {text}")
}

/// A variable nobody set.
#[must_use]
pub fn variable_not_found(path: &str) -> String {
    format!("var {path} not found")
}

/// Bytes that are not base64.
pub const NOT_BASE64: &str = "bt is not base64";

/// A date to convert that is not there.
pub const EMPTY_DATE: &str = "empty date to convert";

/// Seconds to convert that no calendar has.
pub const NOT_A_TIMESTAMP: &str = "timestamp is out of range";
