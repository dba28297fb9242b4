//! Member clusters.

use std::collections::BTreeMap;

use vela_apply::tracker::Record;

/// A cluster nobody joined.
#[must_use]
pub(crate) fn no_such_cluster(cluster: &str) -> String {
    format!("no such cluster {cluster:?}")
}

/// Objects in a cluster that is gone.
#[must_use]
pub(crate) fn left_behind(cluster: &str, objects: usize) -> String {
    format!(
        "{objects} objects in cluster {cluster} are not managed any more, they are listed in the ConfigMap vela-left-behind-{cluster}."
    )
}

/// Objects whose records are restored.
#[must_use]
pub(crate) fn recorded_again(objects: usize) -> String {
    format!(
        "{objects} objects were taken out of the ResourceTrackers by somebody else. They are recorded again; from the next run of the \
         workflow on their content is kept, too."
    )
}

/// Objects in a cluster whose name another one has now.
#[must_use]
pub(crate) fn cluster_replaced(cluster: &str, objects: usize) -> String {
    format!(
        "Cluster {cluster} is another one than before. {objects} objects in the former one are not managed any more, they are listed \
         in the ConfigMap vela-left-behind-{cluster}. The next run of the workflow deploys to the new one."
    )
}

/// A cluster that was replaced, and to which no run has deployed since.
#[must_use]
pub(crate) fn replaced_and_empty(cluster: &str) -> String {
    format!("cluster {cluster:?} was replaced; the next run of the workflow deploys to it")
}

/// Clusters that a policy chooses now.
#[must_use]
pub(crate) fn more_clusters(policy: &str, more: &[String]) -> String {
    let named = more.iter().take(NAMED_CLUSTERS).map(String::as_str).collect::<Vec<_>>().join(", ");
    let left = more.len().saturating_sub(NAMED_CLUSTERS);
    let others = if left > 0 { format!(" and {left} others") } else { String::new() };
    let (noun, verb) = if more.len() == 1 { ("cluster", "matches") } else { ("clusters", "match") };
    format!(
        "{} more {noun} {verb} policy {policy}: {named}{others} (deployed at the next run)",
        more.len()
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

/// Clusters that a sentence names.
const NAMED_CLUSTERS: usize = 10;

pub(super) fn in_clusters(clusters: &BTreeMap<String, usize>) -> String {
    let named = clusters.iter().take(NAMED_CLUSTERS);
    let named: Vec<_> = named.map(|(cluster, count)| format!("{count} in {cluster:?}")).collect();
    let left = clusters.len().saturating_sub(NAMED_CLUSTERS);
    let more = if left > 0 { format!(" and in {left} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
