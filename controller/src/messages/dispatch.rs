//! Messages about objects: rendering, dry runs, writes, records and garbage collection.

use std::collections::BTreeMap;
use std::fmt::Display;

use vela_api::names;
use vela_apply::tracker::{Record, display_name};

use crate::application::dispatch::error::Verb;

use super::{and_more, clusters::in_clusters};

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
        "Objects in other clusters are left unchanged, since this controller manages only its own cluster: {}.",
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

/// What is said instead of a message that cannot be searched for what Secrets hold.
pub(crate) const TOO_MANY_SECRETS: &str =
    "not shown: the step read too many values from Secrets to remove all of them from its message";

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
    format!("{object} is being deleted; it will be recreated once it is gone")
}

/// What an API server that is overloaded or away did not take.
#[must_use]
pub(crate) fn postponed(error: &str) -> String {
    format!("the API server is overloaded or unreachable, the step will be retried: {error}")
}

/// A cluster did not answer, and there is a newer spec.
pub(crate) const GIVEN_UP: &str = "the cluster has not answered, and the spec is a newer one now";

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
    format!("component {other:?} also renders {object}: only one component can own it")
}
