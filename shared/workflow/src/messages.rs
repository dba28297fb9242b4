//! Messages in the status of a workflow.

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

/// A step whose condition could not be evaluated in this pass.
#[must_use]
pub fn condition_waits(step: &str, why: &str) -> String {
    format!("the condition of step {step} is not evaluated yet: {why}")
}

/// A step whose condition or timeout could not be evaluated.
#[must_use]
pub fn pre_check(error: &str) -> String {
    format!("pre check error: {error}")
}

/// The workflow stopped itself because a step failed too often. Clients compare this sentence, also
/// in a status that another control plane wrote.
pub const SUSPENDED_AFTER_RETRIES: &str = "The workflow suspends automatically because the failed \
     times of steps have reached the limit";

/// A pattern of names that is longer than names are.
#[must_use]
pub fn pattern_too_long(most: usize) -> String {
    format!("the pattern is longer than {most} bytes")
}

/// More patterns in an override policy than are tried.
#[must_use]
pub fn too_many_patterns(most: usize) -> String {
    format!(
        "more than {most} names of this policy are patterns; with its components that is too many"
    )
}

/// A timeout that is no duration.
#[must_use]
pub fn invalid_timeout(text: &str) -> String {
    format!("time: invalid duration \"{text}\"")
}

/// A step that cannot be restarted from.
pub const RESTART_FROM_NON_FAILED: &str = "only a failed step can be restarted from";

/// A step to restart from that the workflow does not have.
#[must_use]
pub fn restart_step_unknown(name: &str) -> String {
    format!("the workflow has no step {name} that failed")
}

/// A step to suspend or resume that has no status.
#[must_use]
pub fn step_unknown(name: &str) -> String {
    format!("the workflow has no step {name}")
}

/// Suspending what has ended.
pub const SUSPEND_TERMINATED: &str = "a workflow that has ended cannot be suspended";

/// Resuming what has ended.
pub const RESUME_TERMINATED: &str = "a workflow that has ended cannot be resumed";

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
pub const REF_AND_STEPS: &str = "a workflow has either steps or a ref";

/// A step that applies a component the Application does not have.
#[must_use]
pub fn component_not_found(name: &str) -> String {
    format!("component {name} not found")
}

/// A step that only an Application can have.
#[must_use]
pub fn step_needs_application(step: &str, kind: &str) -> String {
    format!("step {step} of type {kind} needs an Application, and this is a WorkflowRun")
}

/// A component that depends on one the Application does not have.
#[must_use]
pub fn dependency_not_found(missing: &str, component: &str) -> String {
    format!("component {component} depends on {missing}, which the Application does not have")
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

/// The stored variables are CUE, but no struct.
pub const VARIABLES_NOT_STRUCT: &str = "the variables are not a struct";

/// Bytes that are not base64.
pub const NOT_BASE64: &str = "bt is not base64";

/// A date to convert that is not there.
pub const EMPTY_DATE: &str = "empty date to convert";

/// Seconds to convert that no calendar has.
pub const NOT_A_TIMESTAMP: &str = "timestamp is out of range";

/// Prometheus said no.
#[must_use]
pub fn prometheus_refused(text: &str) -> String {
    format!("Prometheus refused the query: {text}")
}

/// A query with none or several results.
#[must_use]
pub fn not_one_result(count: usize) -> String {
    format!(
        "the query has {count} results and needs one: select a single series, or aggregate them"
    )
}

/// A query that gives something else than numbers.
pub const NOT_A_QUERY_VALUE: &str = "the query does not give numbers";

/// A condition on a metric that cannot be evaluated.
#[must_use]
pub fn metric_condition(condition: &str, reason: &str) -> String {
    format!("the condition {condition:?} is not one on a number: {reason}")
}

/// A metric that is as it should be.
#[must_use]
pub fn metric_holds(condition: &str, value: &str) -> String {
    format!("the metric is {value}, as required by {condition}")
}

/// A metric that has been as it should be for some time.
#[must_use]
pub fn metric_persists(condition: &str, value: &str, elapsed: &str, wanted: &str) -> String {
    format!("{}: for {elapsed} of {wanted}", metric_holds(condition, value))
}

/// A metric that has been as it should be for long enough.
pub const METRIC_PASSED: &str = "the metric met the condition for long enough";

/// A metric that is not as it should be.
#[must_use]
pub fn metric_fails_first(condition: &str, value: &str, allowed: &str) -> String {
    format!(
        "the metric is {value}, but {condition} is required: the step fails if that lasts {allowed}"
    )
}

/// A metric that has not been as it should be for some time.
#[must_use]
pub fn metric_fails(
    condition: &str,
    value: &str,
    elapsed: &str,
    allowed: &str,
    over: bool,
) -> String {
    let end = if over { ", the step fails" } else { "" };
    format!("the metric is {value}, but {condition} is required: for {elapsed} of {allowed}{end}")
}

/// An effect that was started and whose result is unknown.
#[must_use]
pub fn effect_unknown(what: &str, started: &str) -> String {
    format!(
        "{what} was started at {started} but its result is unknown, so it is not repeated. Check the target system, then restart the workflow from this step"
    )
}

/// A config whose template does not make it.
#[must_use]
pub fn config_template(reason: &str) -> String {
    format!("the template of the config does not accept these properties: {reason}")
}

/// A template of a config that makes something else.
pub const CONFIG_NOT_A_SECRET: &str = "the output of the template of the config is not a Secret";

/// A config whose properties must not be shown.
pub const CONFIG_SENSITIVE: &str = "the config is sensitive";

/// A Secret of the config's name that is no config.
pub const CONFIG_NOT_ONE: &str = "a Secret of this name exists and is not a config";

/// A config that would have another template.
pub const CONFIG_TEMPLATE_CHANGED: &str =
    "a config keeps its template: delete it to create it from another one";

/// A config that would be another type of Secret.
pub const CONFIG_TYPE_CHANGED: &str =
    "a config keeps the type of its Secret: delete it to create it with another one";

/// A progress deadline that is no positive duration.
#[must_use]
pub fn bad_deadline(text: &str) -> String {
    format!(
        "annotation app.oam.dev/progress-deadline: {text:?} is neither a duration such as 10m, nor step=10m or step=off"
    )
}

/// A progress deadline for a step that is not there.
#[must_use]
pub fn deadline_without_step(name: &str) -> String {
    format!("annotation app.oam.dev/progress-deadline: there is no step {name:?}")
}

/// A step that waited longer than its progress deadline without any change.
#[must_use]
pub fn no_progress(deadline: &str, since: &str, waits_for: &str) -> String {
    let what = if waits_for.is_empty() { "" } else { ": " };
    format!("no progress for {deadline}, nothing changed since {since}{what}{waits_for}")
}

/// What a running workflow waits for: a step, since when, and the most seconds between two passes.
#[must_use]
pub fn waits(step: &str, others: usize, since: &str, seconds: u64) -> String {
    let more = match others {
        0 => String::new(),
        1 => " and 1 more step".to_owned(),
        others => format!(" and {others} more steps"),
    };
    format!("waiting for step {step}{more} since {since}, checked again within {seconds}s")
}

/// A step that failed and is tried again.
#[must_use]
pub fn tries_again(step: &str, failures: u32, most: u32, again: &str) -> String {
    format!("step {step} failed {failures} of {most} times, next attempt by {again}")
}

/// A workflow that continues by itself.
#[must_use]
pub fn suspended_until(step: &str, until: &str) -> String {
    format!("suspended at step {step}, continues at {until}")
}

/// A template with a package that is not there.
#[must_use]
pub fn no_package(path: &str) -> String {
    format!("the step needs the package {path:?}, which this control plane does not have")
}
