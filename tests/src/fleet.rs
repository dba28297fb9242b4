//! Replicas that share the Applications: who holds what, and whether two of them wrote for one Application at a time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use vela_api::names::{annotation, label};

use crate::audit::Entry;
use crate::cluster::Cluster;
use crate::deploy::{Deployed, NAMESPACE, Options, Program, RELEASE};
use crate::fixtures::resource;

/// Buckets of a pool.
const BUCKETS: usize = 256;

/// All replicas of the controller work.
#[must_use]
pub fn sharing(mut options: Options) -> Options {
    options.values.push("sharding.mode=auto".to_owned());
    options
}

/// Starts the replicas of the controller beyond the first, so that there are so many.
///
/// # Errors
/// When one does not start.
pub async fn replicas(cluster: &Cluster, deployed: &Deployed, count: u8) -> Result<Vec<Program>> {
    const NAMES: [&str; 9] = [
        "controller-2",
        "controller-3",
        "controller-4",
        "controller-5",
        "controller-6",
        "controller-7",
        "controller-8",
        "controller-9",
        "controller-10",
    ];
    let mut all = Vec::new();
    for name in NAMES.into_iter().take(usize::from(count.saturating_sub(1))) {
        let replica = deployed.controller.replica(cluster, name)?;
        replica.start(cluster)?;
        replica.ready().await?;
        all.push(replica);
    }
    Ok(all)
}

/// How many buckets each living member says it holds, by the Pod.
///
/// # Errors
/// When the Leases cannot be listed.
pub async fn buckets(client: &Client) -> Result<BTreeMap<String, usize>> {
    noted(client, |lease| lease.annotations().get(annotation::FLEET_BUCKETS)?.parse().ok()).await
}

/// What the Lease of each living member says, by the Pod.
async fn noted(
    client: &Client,
    note: impl Fn(&Lease) -> Option<usize>,
) -> Result<BTreeMap<String, usize>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let prefix = format!("{RELEASE}-member-");
    let of = |lease: &Lease| {
        let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
        let pod = lease.metadata.name.as_deref()?.strip_prefix(&prefix)?.to_owned();
        (!holder.is_empty()).then_some((pod, note(lease)?))
    };
    Ok(leases.list(&ListParams::default()).await?.items.iter().filter_map(of).collect())
}

/// For how many buckets the caches of each living member are filled, by the Pod.
///
/// # Errors
/// When the Leases cannot be listed.
pub async fn cached(client: &Client) -> Result<BTreeMap<String, usize>> {
    noted(client, |lease| {
        let digits = lease.annotations().get(annotation::FLEET_CACHED)?.chars();
        let ones = digits.filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum::<u32>();
        usize::try_from(ones).ok()
    })
    .await
}

/// Whether each bucket is kept by so many members as shall keep it: who holds it, and who stands by.
///
/// # Errors
/// When the Leases cannot be listed.
pub async fn is_kept_twice(client: &Client, members: usize) -> Result<bool> {
    let cached = cached(client).await?;
    Ok(cached.len() == members && cached.values().sum::<usize>() == members.min(2) * BUCKETS)
}

/// Whether so many members share one pool evenly.
///
/// # Errors
/// When the Leases cannot be listed.
pub async fn is_balanced(client: &Client, members: usize) -> Result<bool> {
    let buckets = buckets(client).await?;
    let (least, most) = (buckets.values().min(), buckets.values().max());
    Ok(buckets.len() == members
        && buckets.values().sum::<usize>() == BUCKETS
        && most.zip(least).is_some_and(|(most, least)| most - least <= 1))
}

/// Whether every revision and tracker has the label with its bucket.
///
/// # Errors
/// When they cannot be listed.
pub async fn is_labelled(client: &Client) -> Result<bool> {
    let lacking = ListParams::default().labels(&format!("!{}", label::BUCKET)).limit(1);
    for kind in ["ApplicationRevision", "ResourceTracker"] {
        let resource = resource(vela_api::V1BETA1, kind);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        if !api.list_metadata(&lacking).await?.items.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Who holds a Lease of the release.
///
/// # Errors
/// When it cannot be read.
pub async fn holder(client: &Client, lease: &str) -> Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let spec = leases.get_opt(lease).await?.and_then(|lease| lease.spec);
    Ok(spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty()))
}

/// The values of a label on an Application or its records: objects of these kinds. Empty where one has none.
///
/// # Errors
/// When they cannot be listed.
pub async fn labels_of(
    client: &Client,
    kinds: &[&str],
    app: &str,
    label: &str,
) -> Result<BTreeSet<String>> {
    let mut labels = BTreeSet::new();
    for kind in kinds {
        let resource = resource(vela_api::V1BETA1, kind);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        for object in api.list_metadata(&ListParams::default()).await? {
            let of = object.labels().get("app.oam.dev/name").or(object.metadata.name.as_ref());
            if of.is_some_and(|of| of == app) {
                labels.insert(object.labels().get(label).cloned().unwrap_or_default());
            }
        }
    }
    Ok(labels)
}

/// The Application that a write is for, of one whose name is `app-NUMBER`: its own name, or that of its ConfigMap, revision or
/// tracker.
#[must_use]
pub fn application_of(entry: &Entry) -> String {
    let parts: Vec<&str> = entry.name.split('-').take(2).collect();
    parts.join("-")
}

/// The Pods that wrote for each Application, in order, each once for writes in a row.
///
/// `application` says whose write it is.
pub fn writers(
    entries: impl IntoIterator<Item = Entry>,
    application: impl Fn(&Entry) -> String,
) -> BTreeMap<String, Vec<String>> {
    let mut writes: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for entry in entries {
        let pod = entry.agent.split('/').nth(2).unwrap_or_default().to_owned();
        writes.entry(application(&entry)).or_default().push((entry.received, pod));
    }
    let in_order = |mut writes: Vec<(String, String)>| {
        writes.sort();
        let mut pods: Vec<String> = writes.into_iter().map(|(_, pod)| pod).collect();
        pods.dedup();
        pods
    };
    writes.into_iter().map(|(app, writes)| (app, in_order(writes))).collect()
}

/// Whether a Pod wrote again after another one did.
#[must_use]
pub fn interleave(writers: &[String]) -> bool {
    writers.iter().collect::<BTreeSet<_>>().len() < writers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_again_after_another_one_interleaves() {
        let entry = |pod: &str, name: &str, received: &str| Entry {
            agent: format!("vela-controller/1/{pod}"),
            name: name.to_owned(),
            received: received.to_owned(),
            ..Entry::default()
        };
        let entries = [
            entry("p", "a", "1"),
            entry("q", "a", "4"),
            entry("p", "a", "2"),
            entry("q", "b", "3"),
            entry("p", "b", "5"),
            entry("q", "b", "6"),
        ];
        let writers = writers(entries, |entry| entry.name.clone());
        assert_eq!(writers["a"], ["p", "q"]);
        assert_eq!(writers["b"], ["q", "p", "q"]);
        assert!(!interleave(&writers["a"]) && interleave(&writers["b"]));
    }
}
