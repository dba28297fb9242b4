//! The watch of the cluster Secrets: whatever it brings goes into the registry; while it does not work, the registry does not
//! claim to be complete.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};
use vela_api::names::label;

use super::{Cluster, Members};

/// How long the watch may be down before names that are not known are not taken for absent any more.
const BLIND: Duration = Duration::from_secs(30);
/// Secrets in one answer to a list.
const PAGE: u32 = 100;

impl Members {
    /// Follows the Secrets of one namespace for ever.
    pub async fn follow(&self, client: kube::Client, namespace: &str) {
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let which = ListParams::default().labels(label::CLUSTER_CREDENTIAL_TYPE);
        let config =
            watcher::Config::default().labels(label::CLUSTER_CREDENTIAL_TYPE).page_size(PAGE);
        let mut events = std::pin::pin!(watcher(api.clone(), config).default_backoff());
        let mut listed = Vec::new();
        // Since when the watch does not work, while the registry still counts as complete.
        let mut blind: Option<Instant> = None;
        loop {
            let event = match blind {
                None => events.next().await,
                Some(since) => match timeout_at(since + BLIND, events.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        // A watch that works again without news says nothing.
                        blind = self.list_secrets(&api, &which).await;
                        continue;
                    }
                },
            };
            match event {
                None => return,
                Some(Ok(watcher::Event::Init)) => listed.clear(),
                Some(Ok(watcher::Event::InitApply(secret))) => {
                    listed.push(secret.metadata.name.clone().unwrap_or_default());
                    self.put(Cluster::of(&secret, self.connecting().rules));
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    blind = None;
                    info!(namespace, clusters = listed.len(), "clusters are known");
                    self.synced(true, Some(&listed));
                }
                Some(Ok(watcher::Event::Apply(secret))) => {
                    self.put(Cluster::of(&secret, self.connecting().rules));
                }
                Some(Ok(watcher::Event::Delete(secret))) => {
                    self.remove(&secret.metadata.name.unwrap_or_default());
                }
                Some(Err(error)) => {
                    warn!(
                        namespace,
                        error = crate::error::chain(&error),
                        "watch of cluster Secrets failed, trying again"
                    );
                    if self.snapshot().is_synced() {
                        blind.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
    }

    /// Lists the Secrets. Returns since when the watch does not work, if even that does not.
    async fn list_secrets(&self, api: &Api<Secret>, which: &ListParams) -> Option<Instant> {
        match api.list(which).await {
            Ok(list) => {
                let mut names = Vec::new();
                for secret in list.items {
                    names.push(secret.metadata.name.clone().unwrap_or_default());
                    self.put(Cluster::of(&secret, self.connecting().rules));
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
