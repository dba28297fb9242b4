//! The clusters that joined, as their Secrets say now: views of them, and ways to their API servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};
use vela_cluster::members::{
    Cluster, Described, ExchangeRules, Managed, ManagedSink, Passage, SecretEvent, SecretRules,
    Secrets, Sources, Unusable,
};

use crate::messages;
use crate::status::Failure;
use crate::streams::Counter;
use crate::view::View;

/// How long a request waits for the Secret of its cluster: who joins one uses it a moment later.
const WAIT: Duration = Duration::from_secs(3);

/// Why a member cannot be reached, whatever is sent to it.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NoPassage {
    /// Its Secret cannot be used.
    #[error(transparent)]
    Secret(#[from] Unusable),
    /// No connection can be prepared with what the Secret has.
    #[error("{0}")]
    Connection(Arc<vela_cluster::Error>),
}

/// A cluster that joined.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) view: View,
    /// As whom users arrive there, before the rules of all clusters.
    pub(crate) exchange: ExchangeRules,
    /// Its API server, or why it cannot be reached.
    passage: Result<Passage, NoPassage>,
    fingerprint: u64,
    /// Its requests in flight.
    pub(crate) streams: Arc<Counter>,
}

impl Member {
    /// The way to its API server.
    pub(crate) fn passage(&self) -> Result<&Passage, Failure> {
        self.passage.as_ref().map_err(|why| Failure::unusable(&self.view.name, &why.to_string()))
    }
}

/// All clusters at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Whether all Secrets were seen.
    pub(crate) synced: bool,
    pub(crate) members: BTreeMap<String, Arc<Member>>,
    /// Of the last Secret that changed anything.
    pub(crate) version: String,
}

/// The registry.
#[derive(Debug)]
pub(crate) struct Registry {
    rules: SecretRules,
    /// Where the commands are that hand out credentials.
    commands: Option<PathBuf>,
    sources: Mutex<Sources>,
    current: watch::Sender<Arc<Snapshot>>,
}

impl Registry {
    pub(crate) fn new(rules: SecretRules, commands: Option<PathBuf>) -> Self {
        Self { rules, commands, sources: Mutex::default(), current: watch::Sender::default() }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// The cluster of a name; if there is none, or nobody knows yet, it is waited for.
    pub(crate) async fn member(&self, name: &str) -> Result<Arc<Member>, Failure> {
        let mut changes = self.current.subscribe();
        let wanted = name.to_owned();
        let found = changes.wait_for(move |snapshot| snapshot.members.contains_key(&wanted));
        if let Ok(Ok(snapshot)) = tokio::time::timeout(WAIT, found).await
            && let Some(member) = snapshot.members.get(name)
        {
            return Ok(Arc::clone(member));
        }
        if self.current.borrow().synced {
            Err(Failure::no_cluster(name))
        } else {
            Err(Failure::unavailable(messages::NOT_SYNCED))
        }
    }

    /// Takes in a Secret.
    pub(crate) fn put(&self, secret: &Secret) {
        let cluster = self.sources.lock().put_secret(secret, self.rules);
        self.put_cluster(cluster, Some(secret));
    }

    /// Takes in a cluster, with its Secret if it has one.
    fn put_cluster(&self, cluster: Cluster, secret: Option<&Secret>) {
        let view = match secret {
            Some(secret) => View::of(secret, &cluster),
            None => View::of_managed(&cluster),
        };
        let known = self.snapshot().members.get(&cluster.name).cloned();
        let fingerprint = cluster.fingerprint;
        let passage = match (&known, &cluster.access) {
            (Some(known), _) if known.fingerprint == fingerprint => known.passage.clone(),
            (_, Err(unusable)) => Err(unusable.clone().into()),
            (_, Ok(access)) => {
                if access.is_insecure() {
                    warn!(
                        cluster = cluster.name,
                        "the certificate of this cluster is not checked: its Secret has no ca.crt"
                    );
                }
                Passage::new(access, self.rules.addresses, self.commands.as_deref())
                    .map_err(|error| NoPassage::Connection(Arc::new(error)))
            }
        };
        let streams = known.map(|known| Arc::clone(&known.streams)).unwrap_or_default();
        let member = Member { view, exchange: cluster.exchange, passage, fingerprint, streams };
        let version = secret.and_then(|secret| secret.metadata.resource_version.clone());
        self.change(|snapshot| {
            snapshot.members.insert(cluster.name, Arc::new(member));
            if let Some(version) = version {
                snapshot.version = version;
            }
        });
    }

    fn remove(&self, name: &str) {
        self.change(|snapshot| {
            snapshot.members.remove(name);
        });
    }

    fn remove_secret(&self, name: &str) {
        let managed = self.sources.lock().remove_secret(name);
        match managed {
            Some(cluster) => self.put_cluster(cluster, None),
            None => self.remove(name),
        }
    }

    /// All Secrets were seen; clusters that are not among them are gone.
    pub(crate) fn synced(&self, listed: &[String]) {
        let alone = self.sources.lock().listed(listed);
        self.change(|snapshot| {
            snapshot.synced = true;
            snapshot.members.retain(|name, _| listed.contains(name));
        });
        alone.into_iter().for_each(|cluster| self.put_cluster(cluster, None));
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        self.current.send_modify(|current| {
            let mut next = Snapshot::clone(current);
            change(&mut next);
            *current = Arc::new(next);
        });
    }

    /// Follows the Secrets of a namespace for ever. `synced` hears when all were seen for the first time.
    pub(crate) async fn follow(&self, client: kube::Client, namespace: &str, synced: impl Fn()) {
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let mut events = Secrets::follow(&api);
        while let Some(event) = events.next().await {
            match event {
                SecretEvent::All(listed) => {
                    info!(namespace, clusters = listed.len(), "clusters are known");
                    self.synced(&listed);
                    synced();
                }
                SecretEvent::Put(secret) => self.put(&secret),
                SecretEvent::Gone(name) => self.remove_secret(&name),
                SecretEvent::Failed => {}
            }
        }
    }
}

impl ManagedSink for Registry {
    fn put_managed(&self, name: &str, managed: Option<&Managed>) {
        let described = self.sources.lock().put_managed(name, managed, self.rules);
        match described {
            Described::As(cluster, secret) => self.put_cluster(*cluster, secret.as_deref()),
            Described::Gone => self.remove(name),
            Described::Unchanged => {}
        }
    }

    fn managed_names(&self) -> Vec<String> {
        self.sources.lock().managed_names()
    }
}

#[cfg(test)]
mod tests {
    use vela_api::names::annotation;

    use super::*;
    use crate::view::tests::secret;

    const DATA: [(&str, &str); 2] = [("endpoint", "https://10.0.0.1:6443"), ("token", "t0ken")];

    fn registry() -> Registry {
        vela_serve::tls::install_crypto();
        Registry::new(SecretRules::default(), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_nobody_has_is_waited_for() {
        let registry = Arc::new(registry());
        assert_eq!(registry.member("east").await.unwrap_err().code(), 503);
        registry.synced(&[]);
        assert_eq!(registry.member("east").await.unwrap_err().code(), 404);
        let waiting = tokio::spawn({
            let registry = Arc::clone(&registry);
            async move { registry.member("east").await.map(|member| member.view.name.clone()) }
        });
        tokio::time::sleep(WAIT / 2).await;
        registry.put(&secret("west", "ServiceAccountToken", &DATA));
        registry.put(&secret("east", "ServiceAccountToken", &DATA));
        assert_eq!(waiting.await.unwrap().unwrap(), "east");
        registry.remove("east");
        assert_eq!(registry.member("east").await.unwrap_err().code(), 404);
    }

    /// A ManagedCluster is seen without a Secret, and reached with one that has a credential only.
    #[tokio::test]
    async fn a_managed_cluster_says_where_it_is() {
        let registry = registry();
        let managed = |url: &str| {
            Managed::of(
                &serde_json::json!({"metadata": {"uid": "m", "labels": {"region": "eu"}}, "spec": {
                "hubAcceptsClient": true, "managedClusterClientConfigs": [{"url": url}]}}),
            )
        };
        registry.put_managed("east", managed("https://10.0.0.9:6443").as_ref());
        let alone = registry.member("east").await.unwrap();
        assert_eq!(alone.passage().unwrap_err().code(), 422);
        let spec = &alone.view.virtual_cluster["spec"];
        let expected = serde_json::json!({"accepted": true, "endpoint": "-", "credential-type": "ManagedCluster"});
        assert_eq!(*spec, expected);
        assert!(alone.view.gateway.is_none());
        registry.put(&secret("east", "ServiceAccountToken", &DATA[1..]));
        let member = registry.member("east").await.unwrap();
        assert_eq!(member.passage().unwrap().uri(), "https://10.0.0.9:6443/");
        registry.put_managed("east", managed("https://10.0.0.8:6443").as_ref());
        let moved = registry.member("east").await.unwrap();
        assert_eq!(moved.passage().unwrap().uri(), "https://10.0.0.8:6443/");
        registry.synced(&[]);
        assert!(registry.snapshot().members["east"].passage().is_err());
        registry.put_managed("east", None);
        assert!(registry.snapshot().members.is_empty());
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_used_is_no_unknown_cluster() {
        let registry = registry();
        registry.put(&secret("east", "ServiceAccountToken", &DATA[..1]));
        let member = registry.member("east").await.unwrap();
        assert_eq!(member.passage().unwrap_err().code(), 422);
        registry.put(&secret("east", "ServiceAccountToken", &DATA));
        let repaired = registry.member("east").await.unwrap();
        assert!(repaired.passage().is_ok());
        // What is in flight to a cluster counts on, whatever becomes of its Secret.
        assert!(Arc::ptr_eq(&member.streams, &repaired.streams));
        // A rule that cannot be followed could be one that takes rights away.
        let mut ruled = secret("east", "ServiceAccountToken", &DATA);
        let annotations = ruled.metadata.annotations.as_mut().unwrap();
        annotations.insert(annotation::CLUSTER_EXCHANGE.to_owned(), "[".to_owned());
        registry.put(&ruled);
        assert_eq!(registry.member("east").await.unwrap().passage().unwrap_err().code(), 422);
        registry.synced(&["west".to_owned()]);
        assert!(registry.snapshot().members.is_empty());
    }
}
