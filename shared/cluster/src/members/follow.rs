//! The watch of the cluster Secrets, and of what Open Cluster Management says of its clusters: whatever it brings goes into the
//! registry; while that of the Secrets does not work, the registry does not claim to be complete.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::{Discovery, Error, watch};

use super::{Managed, Members, SecretEvent, Secrets};

/// How long the watch may be down before names that are not known are not taken for absent any more.
const BLIND: Duration = Duration::from_secs(30);
/// Objects in one answer to a list.
const PAGE: u32 = 100;
/// The kind of Open Cluster Management's clusters.
const MANAGED: (&str, &str) = ("cluster.open-cluster-management.io/v1", "ManagedCluster");
/// The pause before it is asked again whether that kind is served.
const AGAIN: Duration = Duration::from_secs(300);

impl Members {
    /// Follows the Secrets of one namespace for ever.
    pub async fn follow(&self, client: kube::Client, namespace: &str) {
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let mut events = Secrets::follow(&api);
        // Since when the watch does not work, while the registry still counts as complete.
        let mut blind: Option<Instant> = None;
        loop {
            let event = match blind {
                None => events.next().await,
                Some(since) => match timeout_at(since + BLIND, events.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        // A watch that works again without news says nothing.
                        blind = self.list_secrets(&api).await;
                        continue;
                    }
                },
            };
            match event {
                None => return,
                Some(SecretEvent::All(listed)) => {
                    blind = None;
                    info!(namespace, clusters = listed.len(), "clusters are known");
                    self.synced(true, Some(&listed));
                }
                Some(SecretEvent::Put(secret)) => self.put_secret(&secret),
                Some(SecretEvent::Gone(name)) => self.remove_secret(&name),
                Some(SecretEvent::Failed) => {
                    if self.snapshot().is_synced() {
                        blind.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
    }

    /// Lists the Secrets. Returns since when the watch does not work, if even that does not.
    async fn list_secrets(&self, api: &Api<Secret>) -> Option<Instant> {
        match Secrets::list(api).await {
            Ok(all) => {
                let mut names = Vec::new();
                for secret in all {
                    names.push(secret.metadata.name.clone().unwrap_or_default());
                    self.put_secret(&secret);
                }
                self.synced(true, Some(&names));
                None
            }
            Err(error) => {
                let error = crate::error::chain(&error);
                warn!(error, "cluster Secrets are not seen, clusters are not known for certain");
                self.synced(false, None);
                Some(Instant::now())
            }
        }
    }
}

/// Takes in what Open Cluster Management says of its clusters.
pub trait ManagedSink: Sync {
    /// Takes in what it says of a name; `None`: nothing any more.
    fn put_managed(&self, name: &str, managed: Option<&Managed>);

    /// The names that it knows.
    fn managed_names(&self) -> Vec<String>;
}

/// Follows the ManagedClusters of Open Cluster Management for ever, if and when their kind is served. They are no reason to wait: a
/// registry without them is complete.
pub async fn follow_managed(sink: &impl ManagedSink, client: kube::Client) {
    let discovery = Discovery::new(client.clone());
    loop {
        let served = discovery.resolve(MANAGED.0, MANAGED.1).await;
        if served.is_ok() {
            watch_managed(sink, client.clone()).await;
        }
        // Not served, or not any more.
        for name in sink.managed_names() {
            if matches!(served, Err(Error::NoSuchKind { .. })) {
                sink.put_managed(&name, None);
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn watch_managed(sink: &impl ManagedSink, client: kube::Client) {
    let (group, version) = MANAGED.0.split_once('/').unwrap_or_default();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, MANAGED.1));
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let config = watch::Config::default().page_size(PAGE);
    let mut events = std::pin::pin!(watch::events(MANAGED.1, api, config));
    let mut listed: Vec<String> = Vec::new();
    let read =
        |object: &DynamicObject| serde_json::to_value(object).ok().as_ref().and_then(Managed::of);
    let name = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
    while let Some(event) = events.next().await {
        match event {
            Ok(watch::Event::Init) => listed.clear(),
            Ok(watch::Event::InitApply(object)) => {
                listed.push(name(&object));
                sink.put_managed(&name(&object), read(&object).as_ref());
            }
            Ok(watch::Event::InitDone) => {
                let gone = sink.managed_names().into_iter().filter(|it| !listed.contains(it));
                gone.for_each(|name| sink.put_managed(&name, None));
            }
            Ok(watch::Event::Apply(object)) => {
                sink.put_managed(&name(&object), read(&object).as_ref());
            }
            Ok(watch::Event::Delete(object)) => sink.put_managed(&name(&object), None),
            Err(watch::WatchError::InitialListFailed(kube::Error::Api(status)))
                if status.code == 404 =>
            {
                return;
            }
            Err(_) => {}
        }
    }
}
