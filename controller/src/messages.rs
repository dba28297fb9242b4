//! Every sentence a user sees: conditions, events, step messages.
//!
//! Texts that tools match are the reference's; where the reference says nothing useful, ours name the thing and the place.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use vela_api::names;
use vela_apply::tracker::{Record, display_name};

use crate::application::dispatch::error::Verb;

/// A reconcile that has evaluated for as long as it may.
#[must_use]
pub(crate) fn budget_spent(budget: Duration) -> String {
    format!(
        "the {} s for which one reconcile may evaluate CUE are spent, it goes on after a pause",
        budget.as_secs()
    )
}

/// An Application over which processes died.
#[must_use]
pub(crate) fn set_aside(deaths: u32) -> String {
    format!(
        "set aside: {deaths} processes of the controller ended while they reconciled this application; it is tried again \
         when its spec is edited, or after an hour"
    )
}

/// Event `RestartInterval`.
#[must_use]
pub(crate) fn restarts_too_often() -> String {
    let shortest = vela_workflow::restart::SHORTEST_PAUSE.as_secs();
    format!(
        "the annotation app.oam.dev/restart-workflow asks for runs without a pause between them; each begins {shortest} s \
         after the end of the last one, which is the shortest pause"
    )
}

/// An evaluation that got no thread.
#[must_use]
pub(crate) fn no_thread(waited: Duration) -> String {
    format!("no thread was free to evaluate CUE for {} s", waited.as_secs())
}

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

/// `ref-objects`: two ways to select at once.
pub(crate) const AMBIGUOUS_REFERENCE: &str =
    "select the object by name or by labelSelector, not by both";
/// `ref-objects`: the flag keeps references within the namespace.
pub(crate) const REFERENCE_OUTSIDE_NAMESPACE: &str =
    "ref-objects may only name objects of the Application's own namespace";
/// `ref-objects`: the flag keeps references within the cluster of the control plane.
pub(crate) const REFERENCE_OUTSIDE_CONTROL_PLANE: &str =
    "cannot refer to objects outside control plane";
/// `ref-objects`: by address.
pub(crate) const NO_REFERENCE_BY_URL: &str =
    "urls are not supported: the control plane reads no addresses that users name";

/// Nobody knows who wrote an Application.
#[must_use]
pub(crate) fn not_stamped(default_user: &str, namespace: &str, name: &str) -> String {
    format!(
        "the author of this Application is not known (it has no valid stamp), so it is applied as the default user {default_user:?}; to become its author apply it again: kubectl annotate application -n {namespace} {name} --overwrite app.oam.dev/stamp=renew; a cluster administrator can confirm the author that is named in its annotations with the value confirm"
    )
}

/// The author was an administrator.
#[must_use]
pub(crate) fn no_administrator(evidence: &str, group: &str) -> String {
    format!(
        "the author of this Application was a cluster administrator as {evidence} when it was applied and is none any more, so it is applied without the group {group:?}"
    )
}

/// `ref-objects`: properties that cannot be read.
#[must_use]
pub(crate) fn bad_reference(component: &str, error: &str) -> String {
    format!("invalid properties for ref-objects in component {component}: {error}")
}

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

/// The result of the policies is no Application.
#[must_use]
pub(crate) fn unreadable_output(part: &str, error: &dyn Display) -> String {
    format!("spec.{part} as changed by application-scoped policies cannot be read: {error}")
}

/// Why a policy changed nothing.
pub(crate) const POLICY_DISABLED: &str = "disabled by its template";

/// A policy took part.
#[must_use]
pub(crate) fn policy_applied(name: &str, global_of: Option<&str>) -> String {
    match global_of {
        Some(namespace) => format!("Applied global policy {name} from namespace {namespace}"),
        None => format!("Applied policy {name}"),
    }
}

/// A policy took no part.
#[must_use]
pub(crate) fn policy_skipped(name: &str, global: bool, why: &str) -> String {
    format!("Skipped {}policy {name}: {why}", if global { "global " } else { "" })
}

/// A policy failed.
#[must_use]
pub(crate) fn policy_failed(name: &str, global: bool, why: &str) -> String {
    format!("failed to render {}policy {name}: {why}", if global { "global " } else { "" })
}

/// An object of somebody else has the name of one of ours.
#[must_use]
pub(crate) fn not_ours(name: &str) -> String {
    format!("{name} is not ours")
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

/// Objects that one message names.
const MAX_NAMED: usize = 5;

/// Objects whose deletion somebody has to approve of.
#[must_use]
pub(crate) fn needs_approval(held: &[Record], generation: i64) -> String {
    let named: Vec<String> = held.iter().take(MAX_NAMED).map(display_name).collect();
    let list = and_more(&named.join(", "), held.len().saturating_sub(named.len()));
    format!(
        "Not deleted without approval: {list}. To approve, set the annotation {}: \"{generation}\".",
        names::annotation::PRUNE_APPROVED,
    )
}

/// A step deletes what somebody has to approve of first; without a name, what it selects by labels.
#[must_use]
pub(crate) fn step_needs_approval(kind: &str, name: Option<&str>, generation: i64) -> String {
    let object =
        name.map_or_else(|| format!("objects of kind {kind}"), |name| format!("{kind} {name}"));
    format!(
        "the deletion of {object} waits for approval: set the annotation {}: \"{generation}\"",
        names::annotation::PRUNE_APPROVED,
    )
}

/// Objects that are recorded for other clusters. Of very many clusters the first are named.
#[must_use]
pub(crate) fn left_elsewhere(clusters: &BTreeMap<String, usize>) -> String {
    format!(
        "Objects in other clusters are left as they are, this controller manages its own cluster only: {}.",
        in_clusters(clusters)
    )
}

/// A deletion that cannot go on.
#[must_use]
pub(crate) fn deletion_waits_elsewhere(clusters: &BTreeMap<String, usize>) -> String {
    format!(
        "Waiting for objects in other clusters, which this controller does not delete: {}.",
        in_clusters(clusters)
    )
}

/// Clusters that a sentence names.
const NAMED_CLUSTERS: usize = 10;

fn in_clusters(clusters: &BTreeMap<String, usize>) -> String {
    let named = clusters.iter().take(NAMED_CLUSTERS);
    let named: Vec<_> = named.map(|(cluster, count)| format!("{count} in {cluster:?}")).collect();
    let left = clusters.len().saturating_sub(NAMED_CLUSTERS);
    let more = if left > 0 { format!(" and in {left} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// What is said instead of a message that cannot be searched for what Secrets hold.
pub(crate) const TOO_MANY_SECRETS: &str =
    "not shown: the step was given more values from Secrets than a message is searched for";

/// Collection failed.
#[must_use]
pub(crate) fn gc_failed(error: &str) -> String {
    format!("error encountered during garbage collection: {error}")
}

/// Several things of one dispatch failed.
#[must_use]
pub(crate) fn errors(errors: &[impl Display]) -> String {
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
pub(crate) fn cannot(verb: Verb, error: &str) -> String {
    let what = match verb {
        Verb::Share => "patch shared resource annotation",
        Verb::Get => "get object",
        Verb::Create => "create object",
        Verb::Patch => "patch object",
        Verb::Update => "update object",
        Verb::Delete => "delete object",
        Verb::Recreate => "recreate object",
    };
    format!("cannot {what}: {error}")
}

/// An object that is to be created again and is still there.
#[must_use]
pub(crate) fn still_going(object: &str) -> String {
    format!("{object} is being deleted, it is made again when it is gone")
}

/// What an API server that is overloaded or away did not take.
#[must_use]
pub(crate) fn postponed(error: &str) -> String {
    format!("the API server is overloaded or away, the step is tried again: {error}")
}

/// An object outside the Application's namespace.
#[must_use]
pub(crate) fn forbidden_namespace(kind: &str, object: &str) -> String {
    format!(
        "{kind} {object} is in another namespace than the Application, which is not allowed here"
    )
}

/// An object of a kind that is not allowed.
#[must_use]
pub(crate) fn forbidden_type(kind: &str, object: &str) -> String {
    format!("{kind} {object}: objects of this kind are not allowed here")
}

/// An object that cannot be distinguished from others.
#[must_use]
pub(crate) fn no_name(kind: &str) -> String {
    format!("{kind} has no metadata.name")
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

/// A cluster nobody joined.
#[must_use]
pub(crate) fn no_such_cluster(cluster: &str) -> String {
    format!("no such cluster {cluster:?}")
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

/// Objects in a cluster that is gone.
#[must_use]
pub(crate) fn left_behind(cluster: &str, objects: usize) -> String {
    format!(
        "{objects} objects in cluster {cluster} are not managed any more, they are listed in the ConfigMap vela-left-behind-{cluster}."
    )
}

/// What of the clusters of an Application cannot be reached. Of many the first are named.
#[must_use]
pub(crate) fn clusters_in_trouble(troubles: &[String]) -> String {
    let named = troubles.iter().take(NAMED_CLUSTERS).map(String::as_str).collect::<Vec<_>>();
    let left = troubles.len().saturating_sub(NAMED_CLUSTERS);
    let more = if left > 0 { format!("; and {left} more") } else { String::new() };
    format!("{}{more}", named.join("; "))
}

/// A collection that waits for clusters.
#[must_use]
pub(crate) fn waiting_for_clusters(unavailable: &[Record]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for record in unavailable {
        let count = counts.entry(record.cluster.clone()).or_default();
        *count = count.saturating_add(1);
    }
    format!("Waiting for objects in clusters that cannot be reached: {}.", in_clusters(&counts))
}

/// The state of a cluster.
#[must_use]
pub(crate) fn cluster_state(cluster: &str, state: &str, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("Cluster {cluster} is {state}{why}.")
}

/// A cluster whose certificate is not checked.
#[must_use]
pub(crate) fn cluster_insecure(cluster: &str) -> String {
    format!(
        "The certificate of cluster {cluster} is not checked: its Secret has no ca.crt. Whoever answers at its address gets the credential."
    )
}

/// A credential that ends soon.
#[must_use]
pub(crate) fn credential_expires(cluster: &str, end: &str) -> String {
    format!("The credential of cluster {cluster} expires at {end}.")
}

/// Names of one cluster.
#[must_use]
pub(crate) fn cluster_alias(names: &[String]) -> String {
    format!("These names mean one cluster: {}.", names.join(", "))
}

/// A cluster that is there again, with objects that nobody manages any more.
#[must_use]
pub(crate) fn left_behind_found(cluster: &str, count: usize) -> String {
    format!(
        "{count} objects were left behind in cluster {cluster} and are not managed; the annotation \
         cluster.core.oam.dev/left-behind of its Secret says whether they are deleted (collect) or not remembered (forget)."
    )
}

/// A component whose cluster cannot be reached, in an Application that goes on without it.
#[must_use]
pub(crate) fn deployed_later(why: &str) -> String {
    format!("{why}; deployed when it answers")
}

/// Names that say that they are one cluster, and nothing vouches for it.
#[must_use]
pub(crate) fn cluster_alias_doubtful(names: &[String]) -> String {
    format!(
        "These names claim to be one cluster: {}. Their Secrets do not have the same ca.crt, so that it is not believed: an \
         object that is recorded under two of them is neither deleted nor forgotten. Join it under one name, or with one \
         ca.crt, and take the others away.",
        names.join(", ")
    )
}

/// The Secrets of clusters were not all seen yet, or cannot be seen now.
pub(crate) const CLUSTERS_UNKNOWN: &str = "clusters are not known yet";

/// An environment that chooses its place by labels, where only names are known.
#[must_use]
pub(crate) fn environment_by_labels(environment: &str, selector: &str) -> String {
    format!("environment {environment}: {selector} does not select by labels, name the placement")
}

/// State-keep failed for an object.
#[must_use]
pub(crate) fn reapply_failed(object: &str, tracker: &str, error: &str) -> String {
    format!("failed to re-apply resource {object} from resourcetracker {tracker}: {error}")
}

/// An apply-once rule cannot be followed for an object: the live one has no such field.
#[must_use]
pub(crate) fn apply_once_failed(object: &str, tracker: &str, path: &str) -> String {
    format!(
        "failed to apply once resource {object} from resourcetracker {tracker}: {path}: no such field"
    )
}

/// An object that a step deleted is there again and cannot be deleted.
#[must_use]
pub(crate) fn delete_outdated_failed(object: &str, tracker: &str, error: &str) -> String {
    format!("failed to delete outdated resource {object} in resourcetracker {tracker}: {error}")
}

/// Drift was repaired.
#[must_use]
pub(crate) fn drift_repaired(object: &str, manager: &str, fields: &str) -> String {
    let repaired = if manager.is_empty() {
        format!("{object} differed from the application and was put back")
    } else {
        format!("{object} was changed by {manager} and put back")
    };
    with_fields(&repaired, fields)
}

fn with_fields(text: &str, fields: &str) -> String {
    if fields.is_empty() { text.to_owned() } else { format!("{text}: {fields}") }
}

/// An object that somebody else changes again and again.
#[must_use]
pub(crate) fn drift_contention(object: &str, managers: &[String], fields: &[String]) -> String {
    let by = match managers {
        [] => "somebody".to_owned(),
        managers => managers.join(", "),
    };
    match fields {
        [] => format!("{object} is changed or deleted by {by}"),
        fields => format!("{object} is changed by {by} ({})", fields.join(", ")),
    }
}

/// Two writers of the same fields.
#[must_use]
pub(crate) fn drift_contentions(fights: &str, longest: Duration) -> String {
    format!(
        "changed again and again and put back ever more slowly, up to every {}s: {fights}. Leave these fields to the other \
         writer (policy apply-once), or end what it does",
        longest.as_secs()
    )
}

/// An object that somebody else changed and that is left so.
#[must_use]
pub(crate) fn drift_left(object: &str, manager: &str, is_deleted: bool, fields: &str) -> String {
    let left = match manager {
        _ if is_deleted => format!("{object} was deleted and is not made again"),
        "" => format!("{object} differs from the application and is left as it is"),
        manager => format!("{object} was changed by {manager} and is left as it is"),
    };
    with_fields(&left, fields)
}

/// A list that was cut.
#[must_use]
pub(crate) fn and_more(list: &str, more: usize) -> String {
    if more == 0 { list.to_owned() } else { format!("{list}; and {more} more") }
}

/// An object that was deleted by somebody was created again.
#[must_use]
pub(crate) fn recreated(object: &str) -> String {
    format!("{object} was deleted and made again")
}

/// The reconcile itself broke.
#[must_use]
pub(crate) fn reconcile_panicked(text: &str) -> String {
    format!("internal error while reconciling, the application is left as it is: {text}")
}

/// The reconcile did not come to an end.
#[must_use]
pub(crate) fn reconcile_timed_out(limit: Duration) -> String {
    format!(
        "the reconcile was stopped after {}s, the application is left as it is",
        limit.as_secs()
    )
}

/// A Workflow nobody made.
#[must_use]
pub(crate) fn no_such_workflow(name: &str) -> String {
    format!("workflow {name:?} not found")
}

/// Reasons why the last spec is not put back.
pub(crate) const ROLLBACK_PINNED: &str =
    "the last spec is not put back: app.oam.dev/publishVersion decides what is deployed";
pub(crate) const ROLLBACK_FAILED_TOO: &str =
    "the spec that was put back fails too; no older one is tried";
pub(crate) const ROLLED_BACK_BEFORE: &str =
    "the last spec is not put back: it was once already for this one";
pub(crate) const NOTHING_SUCCEEDED: &str =
    "the last spec is not put back: no other one is known to have succeeded";

/// A spec that another author wrote.
#[must_use]
pub(crate) fn rollback_of_another(revision: &str) -> String {
    format!(
        "the last spec is not put back: {revision} is the work of another author, and would run under the rights of the present one"
    )
}

/// A spec that is kept in Git.
#[must_use]
pub(crate) fn rollback_against_git(manager: &str) -> String {
    format!(
        "the last spec is not put back: {manager} writes it from Git and would undo that; the workflow waits instead. Revert the commit"
    )
}

/// Nobody knows who writes the spec.
#[must_use]
pub(crate) fn rollback_unknown(error: &str) -> String {
    format!("the last spec is not put back: who writes it could not be read: {error}")
}

/// A spec that the API server does not take back.
#[must_use]
pub(crate) fn rollback_refused(revision: &str, error: &str) -> String {
    format!("the spec of {revision} was refused: {error}")
}

/// A failed rollout whose former spec is back.
#[must_use]
pub(crate) fn spec_rolled_back(failed: &str, to: &str, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    format!("{failed} failed{why}; the spec of {to} is back")
}

/// What the run of an Application that is paused would write.
pub(crate) fn planned(generation: i64, summary: &str) -> String {
    format!("generation {generation}: {summary}")
}

/// A ConfigMap that a plan cannot have.
pub(crate) fn plan_name_taken(name: &str) -> String {
    format!("ConfigMap {name} belongs to somebody else; rename it to see the plan")
}

/// A notification, in one line. `state` is a reason of the condition `Notified`.
pub(crate) fn notification(state: &str, app: &str, why: &str) -> String {
    let state = match state {
        names::reason::ROLLOUT_FAILED => "rollout failed",
        names::reason::WAITS_FOR_PERSON => "waits for a person",
        names::reason::TURNED_UNHEALTHY => "is not healthy",
        names::reason::RECOVERED => "is healthy again",
        other => other,
    };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("Application {app} {state}{why}")
}

/// A notification that did not arrive.
pub(crate) fn notification_lost(state: &str, config: &str, why: &str) -> String {
    format!("the notification {state} to {config} is lost: {why}")
}

/// A server that does not take a notification.
pub(crate) fn notification_refused(status: u16) -> String {
    format!("the server answers {status}")
}

/// A Config for notifications that says nothing about where to.
pub(crate) const NOTIFY_WITHOUT_URL: &str = "the Config has no property url";

/// The same, with something else as address.
pub(crate) const NOTIFY_BAD_URL: &str = "the property url of the Config is no URL";

/// A bound of the process.
pub(crate) const TOO_MANY_NOTIFICATIONS: &str = "too many notifications are on their way";

/// A step of a workflow as one line: what it says, or how it is.
#[must_use]
pub(crate) fn step_state(step: &str, phase: &str, message: &str) -> String {
    format!("step {step}: {}", if message.is_empty() { phase } else { message })
}

/// A workflow none of whose steps says why it is as it is.
#[must_use]
pub(crate) fn workflow_state(phase: &str) -> String {
    if phase.is_empty() { String::new() } else { format!("the workflow is {phase}") }
}

/// A component that is not healthy, with what it says.
#[must_use]
pub(crate) fn component_unhealthy(component: &str, message: &str) -> String {
    let message = if message.is_empty() { "not healthy" } else { message };
    format!("component {component}: {message}")
}

/// What a component's status says, and why.
#[must_use]
pub(crate) fn with_cause(message: &str, cause: &str) -> String {
    if message.is_empty() || message.contains(cause) {
        cause.to_owned()
    } else {
        format!("{message} ({cause})")
    }
}

/// A TraitDefinition with a stage that does not exist.
#[must_use]
pub(crate) fn unknown_stage(kind: &str, stage: &str) -> String {
    format!(
        "unknown stage type {stage:?} of TraitDefinition {kind:?}: write PreDispatch, DefaultDispatch or PostDispatch"
    )
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

/// A ComponentDefinition whose kind has no WorkloadDefinition, and it could not be made.
#[must_use]
pub(crate) fn no_workload_definition(definition: &str, error: &str) -> String {
    format!("cannot create the WorkloadDefinition of {definition}: {error}")
}

/// The context of a workflow that cannot be read.
pub(crate) fn context_unreadable(reason: &str) -> String {
    format!("the workflow's context cannot be read: {reason}")
}

/// The context of a workflow that others keep changing.
pub(crate) const CONTEXT_UNSETTLED: &str =
    "the workflow's context could not be written: its ConfigMap keeps appearing and vanishing";

/// The end of what is shown of a step whose values are too long for a ConfigMap.
pub(crate) const DEBUG_TRUNCATED: &str = "// what follows is too long to be shown\n";

/// The context of a workflow that was not written.
pub(crate) fn context_not_stored(reason: &str) -> String {
    format!("the workflow's context could not be written: {reason}")
}

/// An effect that does not happen because its intent could not be noted.
pub(crate) fn intent_not_stored(reason: &str) -> String {
    format!("nothing was sent: that it begins could not be noted: {reason}")
}

/// An effect whose end nobody saw.
pub(crate) fn effect_lost(what: &str, reason: &str) -> String {
    format!(
        "{what}: {reason}. Its result is unknown, so it is not repeated. Check the target system, then restart the workflow from this step"
    )
}

/// A name without an address.
pub(crate) fn lookup_failed(host: &str, reason: &str) -> String {
    format!("dial tcp: lookup {host}: {reason}")
}

/// An address that the egress rule closes.
pub(crate) fn egress_denied(host: &str) -> String {
    format!(
        "steps are not allowed to reach {host} (--workflow-egress-deny, --workflow-egress-allow)"
    )
}

/// A server that does not take connections.
pub(crate) fn dial_failed(address: &str, reason: &str) -> String {
    format!("dial tcp {address}: {reason}")
}

/// A server whose certificate is not accepted.
pub(crate) fn tls_failed(host: &str, reason: &str) -> String {
    format!("tls: {host}: {reason}")
}

/// A machine without certificates of authorities.
pub(crate) const NO_AUTHORITIES: &str = "tls: the system has no certificate authorities";

/// A certificate for requests that cannot be used.
pub(crate) fn tls_secret(name: &str, key: &str) -> String {
    format!("tls_config: Secret {name:?} has no usable {key:?}")
}

/// An address that is none.
pub(crate) fn bad_url(reason: &str) -> String {
    format!("the url cannot be read: {reason}")
}

/// An address without a host.
pub(crate) const URL_WITHOUT_HOST: &str = "the url has no host";

/// An address of another protocol.
pub(crate) const URL_SCHEME: &str = "the url must begin with http:// or https://";

/// A header that cannot be sent.
pub(crate) fn bad_header(name: &str) -> String {
    format!("header {name:?} has a name or a value that cannot be sent")
}

/// A header whose Secret is not there.
pub(crate) fn header_secret(secret: &str, header: &str, reason: &str) -> String {
    format!("secret {secret:?} not found for header {header:?}: {reason}")
}

/// A header whose key is not in the Secret.
pub(crate) fn header_secret_key(key: &str, secret: &str, header: &str) -> String {
    format!("key {key:?} not found in secret {secret:?} for header {header:?}")
}

/// A duration that is none.
pub(crate) fn bad_duration(text: &str) -> String {
    format!("{text:?} is no duration")
}

/// A request that its limiter holds back.
pub(crate) const RATE_EXCEEDED: &str = "request exceeds the rate limiter";

/// A request without an answer in time.
pub(crate) fn request_timeout(after: &str) -> String {
    format!("no answer within {after}")
}

/// A request that is sent on and on.
pub(crate) fn too_many_redirects(count: usize) -> String {
    format!("stopped after {count} redirects")
}

/// An answer that was not read.
pub(crate) fn answer_unreadable(reason: &str, most: usize) -> String {
    format!("the answer could not be read (at most {most} bytes): {reason}")
}

/// Prometheus answered something else than JSON.
pub(crate) fn prometheus_unreadable(status: u16) -> String {
    format!("Prometheus answered {status} and no JSON")
}

/// A mail, for messages.
pub(crate) fn mail_named(to: &str, host: &str) -> String {
    format!("the mail to {to} over {host}")
}

/// A step whose request is in flight.
pub(crate) fn waits_for_answer(what: &str) -> String {
    format!("waiting for the answer: {what}")
}

/// A step whose request cannot be sent yet.
pub(crate) const TOO_MANY_CALLS: &str = "the limit of requests of steps in flight is reached, in the namespace or in all; the step waits for its turn";

/// A mail server that said no: its code and the beginning of its first line. More of what it says is nobody's business who
/// may not reach it himself.
pub(crate) fn mail_refused(answer: &str) -> String {
    format!("the mail server refused: {}", peer_line(answer))
}

/// Characters of an answer of a peer that a message shows.
const PEER_LINE: usize = 120;

/// The first line of what a peer said, cut and printable.
pub(crate) fn peer_line(answer: &str) -> String {
    let line = answer.lines().next().unwrap_or_default();
    let plain = line.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' });
    plain.take(PEER_LINE).collect()
}

/// A mail server that says nothing.
pub(crate) const MAIL_SERVER_SILENT: &str = "the mail server does not answer";

/// A mail server that hung up.
pub(crate) const MAIL_SERVER_GONE: &str = "the mail server ended the connection";

/// A mail server that would receive a password in clear text.
pub(crate) const MAIL_WITHOUT_TLS: &str =
    "the mail server offers no encryption: the password is not sent";

/// A mail address that cannot be one.
pub(crate) fn bad_mail_address(address: &str) -> String {
    format!("{address:?} is no mail address")
}

/// A mail without receivers.
pub(crate) const MAIL_TO_NOBODY: &str = "the mail has no receiver";

/// A patch that leaves something open.
pub(crate) const PATCH_NOT_CONCRETE: &str = "the patched object is not concrete";

/// A deletion that would mean everything.
pub(crate) const DELETE_WITHOUT_SELECTOR: &str = "delete with a filter needs matchingLabels: without them it would delete everything of the kind";

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
    format!("{kind} {name} is not there")
}

/// A co-author may not do what the Application asks for. `known`: it is who wrote the object, not the default user.
pub(crate) fn co_author_refused(
    (user, known): (&str, bool),
    object: &str,
    request: &str,
    error: &str,
) -> String {
    let remedy = if known {
        ""
    } else {
        " (nobody is known to have written it, so the default user answers for it: apply it again)"
    };
    format!(
        "cannot {request}: {object} decides about it, and {user:?}, who wrote that, may not do it{remedy}: {error}"
    )
}

/// Entries of the context that somebody else wrote.
pub(crate) fn context_not_ours(name: &str, keys: &[String]) -> String {
    /// More names would fill the event.
    const MAX_NAMES: usize = 10;
    let listed: Vec<&str> = keys.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = if keys.len() > MAX_NAMES { ", ..." } else { "" };
    format!(
        "entries of ConfigMap {name} were not written by the controller and count as absent: {}{more}",
        listed.join(", ")
    )
}

/// A pinned Application whose revision nobody is known to have written.
pub(crate) fn revision_not_believed(name: &str, version: &str) -> String {
    format!(
        "publishVersion {version} means ApplicationRevision {name}, but nobody is known to have written that (it was changed \
         by hand, or made before revisions had stamps), so it is not deployed; what is deployed stays: publish the \
         Application again under another publishVersion"
    )
}

/// Somebody else changed what an Application refers to.
pub(crate) fn changed_by_others(object: &str, user: &str) -> String {
    format!(
        "{object} was changed by {user:?}, who is not the author of this Application, after it was deployed; it is used as it was \
         then until the Application is edited or published under another publishVersion (annotation app.oam.dev/autoUpdate: \
         \"true\" follows such changes)"
    )
}

/// A release that cannot be brought to the cluster.
pub(crate) fn release_failed(why: &str) -> String {
    format!("release: {why}")
}

/// A template that asks for several charts.
pub(crate) const ONE_CHART: &str = "a component is one release: its template may ask for one chart";

/// A template that is evaluated where charts are not rendered.
pub(crate) const NO_CHART_YET: &str = "the chart is not rendered here";

/// A template that sends a request where none is sent.
pub(crate) const NO_HTTP_HERE: &str = "requests are not sent while a component is rendered";

/// A hook that is not tried again before the next run of the workflow.
pub(crate) const HOOK_FAILED_BEFORE: &str = "it failed before in this run of the workflow";

/// A hook whose object somebody removed.
pub(crate) const HOOK_REMOVED: &str = "it was removed before it ended";

/// A hook that takes too long.
pub(crate) fn hook_timeout(timeout: Duration) -> String {
    format!("it did not end within {timeout:?}")
}

/// A hook that is under way.
pub(crate) fn hook_has_not_ended(object: &str) -> String {
    format!("hook {object} has not ended")
}

/// A hook of a deletion that failed.
pub(crate) fn hook_passed_over(moment: &str, why: &str) -> String {
    format!("{moment}: {why}; the deletion goes on without it")
}

/// What a deletion waits for.
pub(crate) fn waiting_for_releases(releases: &[String]) -> String {
    format!("waiting for hooks of releases: {}", releases.join("; "))
}

/// Hooks of a deletion whose time is over.
pub(crate) fn hooks_late(moment: &str) -> String {
    format!("{moment} hooks took too long; the deletion goes on without them")
}

/// A release whose objects have to go before its last hooks run.
pub(crate) const OBJECTS_ARE_GOING: &str = "its objects are going";

/// What was waited for in vain.
pub(crate) fn not_within(what: &str, timeout: Duration) -> String {
    format!("{what}, which took longer than {timeout:?}")
}

/// A release whose deletion waits for its hooks.
pub(crate) fn release_waits(release: &str, why: &str) -> String {
    format!("release {release}: {why}")
}

/// A release whose revision failed and was rolled back.
pub(crate) fn rolled_back(failed: i64, to: i64, why: &str) -> String {
    format!("revision {failed} failed and was rolled back to revision {to}: {why}")
}

/// A release whose newest record somebody else wrote.
pub(crate) fn put_over(release: &str, to: i64) -> String {
    format!(
        "somebody changed release {release}; it is revision {to} again, which the Application describes"
    )
}

/// A CustomResourceDefinition that has to be waited for.
pub(crate) fn not_served_yet(name: &str) -> String {
    format!("CustomResourceDefinition {name} is not served yet")
}

/// A revision that failed and is not tried again now.
pub(crate) fn given_up(why: &str) -> String {
    format!("{why}; it is tried again with the next run of the workflow")
}

/// A release that Flux manages.
pub(crate) fn release_of_flux(release: &str, object: &str, annotation: &str) -> String {
    format!(
        "release {release} is managed by HelmRelease {object}: suspend that (spec.suspend: true), then delete it while it is \
         suspended, or annotate the Application with {annotation}: \"true\""
    )
}

/// Objects of a release that did not become ready in time.
pub(crate) fn not_ready_within(what: &str, timeout: Duration) -> String {
    format!("not ready within {timeout:?}: {what}")
}

/// The object of a hook of an earlier revision.
pub(crate) fn hook_being_removed(object: &str) -> String {
    format!("hook {object} of an earlier revision is being removed")
}

/// A record of a release that is there already.
pub(crate) fn made_by_others(name: &str) -> String {
    format!("{name} was created by another client in the meantime")
}

/// Values of another namespace.
pub(crate) fn foreign_values(source: &str, more: &str) -> String {
    format!(
        "valuesFrom: {source}: cross-namespace sources are not permitted, only those of the Application's namespace{more}"
    )
}

/// A chart that makes too many lookups.
pub(crate) fn too_many_lookups(most: usize) -> String {
    format!("a chart may look up {most} objects")
}
