//! Every sentence a user sees: conditions, events, step messages.
//!
//! Texts that tools match are the reference's; where the reference says nothing useful, ours name the thing and the place.

use vela_apply::tracker::{Record, display_name};

/// The revision that the status names does not exist any more.
pub(crate) const LATEST_REVISION_GONE: &str = "the latest revision is gone";

/// Event `Parsed`.
pub(crate) const PARSED: &str = "Parsed successfully";
/// Event `Revisioned`.
pub(crate) const REVISIONED: &str = "Revisioned successfully";
/// Event `PolicyGenerated`.
pub(crate) const POLICY_GENERATED: &str = "Policy generated successfully";
/// Event `Rendered`.
pub(crate) const RENDERED: &str = "Rendered successfully";
/// Event `Applied`.
pub(crate) const WORKFLOW_FINISHED: &str = "Workflow finished";
/// Event `Deployed`.
pub(crate) const DEPLOYED: &str = "Deployed successfully";
/// A step that waits for its component.
pub(crate) const WAIT_HEALTHY: &str = "wait healthy";
/// A component whose first stage is not healthy.
pub(crate) const WAITING_FOR_PREVIOUS_STAGE: &str = "waiting for previous stage healthy";
/// A trait that is applied after the workload.
pub(crate) const PENDING_TRAIT: &str = "\u{23f3} Waiting for component to be healthy";
/// A component without workload whose traits are not well.
pub(crate) const TRAITS_NOT_HEALTHY: &str = "traits are not healthy";

/// A definition nobody made.
#[must_use]
pub(crate) fn definition_not_found(
    kind: &str,
    name: &str,
    namespace: &str,
    system: &str,
) -> String {
    if namespace == system {
        format!("{kind} {name:?} not found in namespace {namespace}")
    } else {
        format!("{kind} {name:?} not found in namespaces {namespace} and {system}")
    }
}

/// A definition that a pinned revision does not hold.
#[must_use]
pub(crate) fn definition_not_in_revision(kind: &str, name: &str) -> String {
    format!("{kind} {name:?} not found in the application revision")
}

/// Something about one component.
#[must_use]
pub(crate) fn in_component(component: &str, text: &str) -> String {
    format!("component {component:?}: {text}")
}

/// Two components of one name.
#[must_use]
pub(crate) fn duplicated_component(name: &str) -> String {
    format!("duplicated component name {name}")
}

/// The message of a negative end: the wrapper of a resource policy that cannot be read.
#[must_use]
pub(crate) fn bad_policy(error: &str) -> String {
    format!("failed to create resourceKeeper: failed to parse resource policy: {error}")
}

/// What a deletion or collection waits for.
#[must_use]
pub(crate) fn waiting_for(waiting: &[Record]) -> String {
    let Some(first) = waiting.first() else { return String::new() };
    format!(
        "Waiting for {} to delete. (At least {} resources are deleting.)",
        display_name(first),
        waiting.len()
    )
}

/// Collection failed.
#[must_use]
pub(crate) fn gc_failed(error: &str) -> String {
    format!("error encountered during garbage collection: {error}")
}

/// Several things of one dispatch failed.
#[must_use]
pub(crate) fn errors(errors: &[String]) -> String {
    let list: Vec<_> = errors.iter().map(|error| format!("({error})")).collect();
    format!("Found {} errors. [{}]", errors.len(), list.join(", "))
}

/// A dispatch that failed before anything was recorded.
#[must_use]
pub(crate) fn dry_run_failed(text: &str) -> String {
    format!("Dispatch: pre-dispatch dryrun failed: {text}")
}

/// A dispatch that failed.
#[must_use]
pub(crate) fn dispatch_failed(text: &str) -> String {
    format!("Dispatch: {text}")
}

/// A component that cannot be rendered.
#[must_use]
pub(crate) fn render_failed(text: &str) -> String {
    format!("GenerateComponentManifest: {text}")
}

/// A request to the API server failed: what we wanted, and its answer.
#[must_use]
pub(crate) fn cannot(verb: &str, error: &str) -> String {
    format!("cannot {verb} object: {error}")
}

/// An object outside the Application's namespace.
#[must_use]
pub(crate) fn forbidden_namespace(kind: &str, object: &str) -> String {
    format!("forbidden resource: {kind} {object} is outside the namespace of application")
}

/// An object of a kind that is not allowed.
#[must_use]
pub(crate) fn forbidden_type(kind: &str, object: &str) -> String {
    format!("forbidden resource: type ({kind}) of resource {object} is not allowed")
}

/// An object that two components of one Application make.
#[must_use]
pub(crate) fn same_object(object: &str, other: &str) -> String {
    format!("{object} is made by component {other:?} too: only one of them can own it")
}

/// A step of a kind nothing runs.
#[must_use]
pub(crate) fn unknown_step_kind(kind: &str) -> String {
    format!("no such step type {kind:?}: there is no WorkflowStepDefinition of this name")
}

/// A call of a step that this version does not answer yet.
#[must_use]
pub(crate) fn unsupported_call(provider: &str, function: &str) -> String {
    format!("{provider}.{function} is not supported by this version")
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
pub(crate) fn policy_unreadable(name: &str, error: &str) -> String {
    format!("policy {name}: {error}")
}

/// A topology that chooses clusters by labels, where only the local one is known.
#[must_use]
pub(crate) fn no_cluster_matches() -> String {
    "failed to find any cluster matches given labels".to_owned()
}

/// A component that a deploy step waits for.
#[must_use]
pub(crate) fn deploy_not_healthy(key: &str) -> String {
    format!("{key} is not healthy")
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

/// A cluster nobody joined.
#[must_use]
pub(crate) fn no_such_cluster(cluster: &str) -> String {
    format!("no such cluster {cluster:?}")
}

/// Drift was repaired.
#[must_use]
pub(crate) fn drift_repaired(object: &str, manager: &str) -> String {
    if manager.is_empty() {
        format!("{object} differed from the application and was put back")
    } else {
        format!("{object} was changed by {manager} and put back")
    }
}

/// An object that was deleted by somebody was made again.
#[must_use]
pub(crate) fn recreated(object: &str) -> String {
    format!("{object} was deleted and made again")
}

/// The reconcile itself broke.
#[must_use]
pub(crate) fn reconcile_panicked(text: &str) -> String {
    format!("internal error while reconciling, the application is left as it is: {text}")
}

/// An output whose expression is not a path.
#[must_use]
pub(crate) fn output_not_ready(name: &str, expression: &str) -> String {
    format!("output {name:?}: {expression:?} has no value yet")
}

/// A Workflow nobody made.
#[must_use]
pub(crate) fn no_such_workflow(name: &str) -> String {
    format!("workflow {name:?} not found")
}

/// A definition whose revision could not be made.
#[must_use]
pub(crate) fn no_definition_revision(definition: &str, error: &str) -> String {
    format!("cannot create DefinitionRevision of {definition}: {error}")
}

/// A definition whose parameter schema could not be made or stored.
#[must_use]
pub(crate) fn no_schema(definition: &str, error: &str) -> String {
    format!("cannot store capability {definition} in ConfigMap: {error}")
}
