//! Clusters that a topology chooses by their labels now and did not when the workflow ran: reported, and left to the next run.

use std::hash::{Hash, Hasher};

use vela_api::{AppStatus, Application};
use vela_cluster::members::Snapshot;
use vela_workflow::generate::policy_name;

use crate::application::session::Session;
use crate::application::workflow::placement;
use crate::messages;

/// The topologies of an Application that choose clusters by labels: names and properties.
fn selecting(app: &Application) -> impl Iterator<Item = (String, serde_json::Value)> {
    let policies = app.spec.policies.iter().enumerate().filter(|(_, it)| it.type_ == "topology");
    policies.filter_map(|(index, policy)| {
        let properties = policy.properties.as_ref()?.to_value();
        let names = properties.get("clusters").is_some_and(|clusters| !clusters.is_null());
        let selects = ["clusterLabelSelector", "clusterSelector"];
        let is_selecting = !names && selects.iter().any(|key| properties.get(key).is_some());
        is_selecting.then(|| (policy_name(policy, index), properties))
    })
}

/// Whether an Application chooses clusters by their labels.
pub(in crate::application) fn selects(app: &Application) -> bool {
    selecting(app).next().is_some()
}

/// Hashes what an Application that chooses clusters by their labels depends on.
pub(in crate::application) fn hash(
    app: &Application,
    clusters: &Snapshot,
    hasher: &mut impl Hasher,
) {
    if selects(app) {
        for (name, member) in clusters.members() {
            (name, &member.cluster.labels).hash(hasher);
        }
    }
}

/// What is to be said of an Application whose workflow has ended; empty: nothing.
pub(in crate::application) fn report(
    session: &Session<'_>,
    app: &Application,
    status: &AppStatus,
) -> String {
    let is_over = status.workflow.as_ref().is_some_and(|run| run.finished);
    if !session.ctx.clusters.is_on() || !is_over {
        return String::new();
    }
    let is_used = |cluster: &String| {
        let cluster = session.canonical(cluster);
        status.services.iter().any(|it| session.canonical(&it.cluster) == cluster)
    };
    let clauses = selecting(app).filter_map(|(policy, properties)| {
        let chosen = placement::selected(properties, &policy, &session.clusters);
        let (used, more): (Vec<String>, Vec<String>) = chosen.into_iter().partition(is_used);
        // One that no step uses chooses nothing.
        let is_said = !used.is_empty() && !more.is_empty();
        is_said.then(|| messages::more_clusters(&policy, &more))
    });
    clauses.collect::<Vec<_>>().join("; ")
}
