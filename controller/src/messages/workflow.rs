//! Messages about steps: placements of deploy steps, the context, and refused calls of templates.

use super::{WAIT_HEALTHY, no_such_cluster};

/// A step of a kind nothing runs.
#[must_use]
pub(crate) fn unknown_step_kind(kind: &str) -> String {
    format!("no such step type {kind:?}: there is no WorkflowStepDefinition of this name")
}

/// A call of a WorkflowRun's step that only an Application can make.
#[must_use]
pub(crate) fn call_needs_application(call: &str) -> String {
    format!("{call} needs an Application, and the step belongs to a WorkflowRun")
}

/// A definition without a template.
#[must_use]
pub(crate) fn step_without_template(kind: &str) -> String {
    format!("WorkflowStepDefinition {kind:?} has no CUE template")
}

/// A step that makes more calls than any real one.
#[must_use]
pub(crate) fn too_many_calls(most: usize) -> String {
    format!("the step makes more than {most} calls")
}

/// A policy that a deploy step names and the Application does not have.
#[must_use]
pub(crate) fn policy_not_found(name: &str) -> String {
    format!("policy {name} not found")
}

/// A policy whose properties cannot be read.
#[must_use]
pub(crate) fn policy_unreadable(type_: &str, name: &str, error: &str) -> String {
    format!("failed to parse {type_} policy {name}: {error}")
}

/// A topology that names a cluster nobody joined.
#[must_use]
pub(crate) fn cluster_not_found(cluster: &str) -> String {
    format!("failed to get cluster {cluster}: {}", no_such_cluster(cluster))
}

/// A topology that leaves the Application's namespace where that is not allowed.
pub(crate) const CANNOT_CROSS_NAMESPACE: &str = "cannot cross namespace";

/// A topology that chooses clusters by labels, where only the local one is known.
#[must_use]
pub(crate) fn no_cluster_matches() -> String {
    "failed to find any cluster matches given labels".to_owned()
}

/// A component that a deploy step waits for.
#[must_use]
pub(crate) fn deploy_not_healthy(key: &str, reason: &str) -> String {
    because(&format!("{key} is not healthy"), reason)
}

/// A component that waits for another one.
#[must_use]
pub(crate) fn deploy_waiting(key: &str) -> String {
    format!("{key} is waiting dependents")
}

/// A component that could not be deployed.
#[must_use]
pub(crate) fn deploy_failed(cluster: &str, error: &str) -> String {
    format!("error encountered in cluster {cluster}: {error}")
}

/// A restart that cannot be scheduled.
#[must_use]
pub(crate) fn restart_unreadable(text: &str) -> String {
    format!("{text:?} is neither a time nor a duration")
}

/// A topology that names no cluster and does not say that this is meant.
#[must_use]
pub(crate) fn topology_without_clusters(policy: &str) -> String {
    format!("topology policy {policy} names no cluster (`clusters` is empty)")
}

/// A topology that names a cluster that nobody joined.
#[must_use]
pub(crate) fn cluster_not_registered(cluster: &str) -> String {
    format!(
        "failed to get cluster {cluster}: virtualclusters.cluster.core.oam.dev \"{cluster}\" not found"
    )
}

/// Why the clusters of a topology are not known.
#[must_use]
pub(crate) fn clusters_not_found(policy: &str, why: &str) -> String {
    format!("failed to find clusters in topology {policy}: {why}")
}

/// An environment that chooses its place by labels, where only names are known.
#[must_use]
pub(crate) fn environment_by_labels(environment: &str, selector: &str) -> String {
    format!("environment {environment}: {selector} does not select by labels, name the placement")
}

/// A Workflow nobody made.
#[must_use]
pub(crate) fn no_such_workflow(name: &str) -> String {
    format!("workflow {name:?} not found")
}

/// The context of a workflow that cannot be read.
pub(crate) fn context_unreadable(reason: &str) -> String {
    format!("the workflow's context cannot be read: {reason}")
}

/// The context of a workflow that others keep changing.
pub(crate) const CONTEXT_UNSETTLED: &str =
    "the workflow's context could not be written: its ConfigMap is repeatedly created and deleted";

/// The end of what is shown of a step whose values are too long for a ConfigMap.
pub(crate) const DEBUG_TRUNCATED: &str = "// the rest is too long to be shown\n";

/// The context of a workflow that was not written.
pub(crate) fn context_not_stored(reason: &str) -> String {
    format!("the workflow's context could not be written: {reason}")
}

/// An effect that does not happen because its intent could not be noted.
pub(crate) fn intent_not_stored(reason: &str) -> String {
    format!("nothing was sent: the intent could not be stored: {reason}")
}

/// An effect whose end nobody saw.
pub(crate) fn effect_lost(what: &str, reason: &str) -> String {
    format!(
        "{what}: {reason}. Its result is unknown, so it is not repeated. Check the target system, then restart the workflow from this step"
    )
}

/// A patch that leaves something open.
pub(crate) const PATCH_NOT_CONCRETE: &str = "the patched object is not concrete";

/// A deletion that would mean everything.
pub(crate) const DELETE_WITHOUT_SELECTOR: &str = "delete with a filter needs matchingLabels: without them it would delete all objects of the kind";

/// A template of configs that is not there.
pub(crate) fn config_template_missing(name: &str, reason: &str) -> String {
    format!("the config template {name} cannot be read: {reason}")
}

/// A config that is not there.
pub(crate) fn config_missing(name: &str) -> String {
    format!("the config {name} not found")
}

/// A list of configs without a template or a namespace.
pub(crate) const CONFIG_LIST_INVALID: &str = "the request is in valid";

/// A connection whose component is not named.
pub(crate) const COMPONENT_NAME_REQUIRED: &str = "componentName is required";

/// A deployment of less than one at a time.
pub(crate) const PARALLELISM: &str = "parallelism cannot be smaller than 1";

/// A replication that selects nothing.
pub(crate) fn nothing_to_replicate(policy: &str) -> String {
    format!("failed to apply replicate policy {policy}: no component selected to replicate")
}

/// A topology that says nothing.
pub(crate) fn topology_empty(name: &str) -> String {
    format!("topology policy {name} must not have empty properties")
}

/// A referenced Policy object that does not exist.
pub(crate) fn external_policy_missing(name: &str) -> String {
    format!("external policy {name} not found")
}

/// A deploy step that cannot be read.
pub(crate) fn invalid_deploy(step: &str, reason: &str) -> String {
    format!("invalid WorkflowStep {step}: {reason}")
}

/// An Application that is not there.
pub(crate) fn no_such_application(name: &str) -> String {
    format!("application {name} not found")
}

/// An Application that a query asks for and that is not there.
pub(crate) fn query_app_missing(name: &str) -> String {
    format!("query app failure: application {name} not found")
}

/// A cluster that did not answer a query.
#[must_use]
pub(crate) fn query_timed_out(cluster: &str) -> String {
    format!("cluster {cluster:?} did not answer in time")
}

/// Events of nothing.
pub(crate) const EVENTS_OF_NOTHING: &str = "give the object whose events to list";

/// Logs of no Pod.
pub(crate) const LOGS_OF_NO_POD: &str = "give the name of the Pod whose logs to read";

/// Logs of no container.
pub(crate) const LOGS_OF_NO_CONTAINER: &str = "give the name of the container whose logs to read";

/// A component that is not healthy yet, with what its objects say.
pub(crate) fn wait_healthy(reason: &str) -> String {
    if reason.is_empty() { WAIT_HEALTHY.to_owned() } else { format!("{WAIT_HEALTHY}: {reason}") }
}

/// What a step waits for, with what the objects say.
pub(crate) fn because(waits: &str, reason: &str) -> String {
    match (waits, reason) {
        (waits, "") => waits.to_owned(),
        ("", reason) => reason.to_owned(),
        (waits, reason) => format!("{waits}: {reason}"),
    }
}

/// A workload that lacks Pods.
pub(crate) fn ready_of(ready: i64, wanted: i64) -> String {
    format!("{ready} of {wanted} ready")
}

/// A Job that has not come to its end.
pub(crate) const JOB_NOT_COMPLETE: &str = "not complete";

/// An object that is not there yet.
pub(crate) fn object_missing(kind: &str, name: &str) -> String {
    format!("{kind} {name} does not exist")
}

/// Entries of the context that somebody else wrote.
pub(crate) fn context_not_ours(name: &str, keys: &[String]) -> String {
    /// More names would fill the event.
    const MAX_NAMES: usize = 10;
    let listed: Vec<&str> = keys.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = if keys.len() > MAX_NAMES { ", ..." } else { "" };
    format!(
        "entries of ConfigMap {name} were not written by the controller and are ignored: {}{more}",
        listed.join(", ")
    )
}

/// A WorkflowRun that has neither steps nor the name of a Workflow.
pub(crate) const RUN_WITHOUT_WORKFLOW: &str =
    "failed to generate workflow instance: spec has neither workflowSpec nor workflowRef";
/// A WorkflowRun that has ended; the reference's sentences.
pub(crate) const RUN_SUCCEEDED: &str = "WorkflowRun finished successfully";
/// The same.
pub(crate) const RUN_FAILED: &str = "WorkflowRun finished with failure";
/// The same.
pub(crate) const RUN_TERMINATED: &str = "WorkflowRun finished with termination";

/// A WorkflowRun of which no steps were made.
#[must_use]
pub(crate) fn run_not_generated(why: &str) -> String {
    format!("fail to generate workflow runners: {why}")
}

/// A WorkflowRun whose steps were not carried out.
#[must_use]
pub(crate) fn run_not_executed(why: &str) -> String {
    format!("fail to execute: {why}")
}

/// A WorkflowRun whose author nobody knows.
#[must_use]
pub(crate) fn run_not_stamped(namespace: &str, name: &str) -> String {
    format!(
        "the author of WorkflowRun {namespace}/{name} is not known, so nothing is run: create it again, or set its annotation app.oam.dev/stamp to renew"
    )
}

/// Something that is wrong with a step.
#[must_use]
pub(crate) fn of_step(step: &str, text: &str) -> String {
    format!("step {step}: {text}")
}
