//! What integration tests start from: the shared control plane and a namespace of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::cluster::Cluster;

/// The control plane that all tests of a process share. It ends with the process.
///
/// # Panics
/// When it does not start: no test could say anything then.
#[allow(clippy::expect_used, reason = "a test without a control plane fails, with the reason")]
pub async fn shared() -> Arc<Cluster> {
    static SHARED: OnceCell<Arc<Cluster>> = OnceCell::const_new();
    let start = async || Arc::new(Cluster::start("it").await.expect("the control plane starts"));
    Arc::clone(SHARED.get_or_init(start).await)
}

/// A namespace of the shared control plane with a random name.
pub struct Space {
    cluster: Arc<Cluster>,
    client: Client,
    name: String,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Space").field(&self.name).finish()
    }
}

impl Space {
    /// A new namespace; `purpose` is the beginning of its name.
    ///
    /// # Panics
    /// When the control plane does not create it.
    #[allow(clippy::expect_used, reason = "a test without a namespace fails, with the reason")]
    pub async fn new(purpose: &str) -> Self {
        let cluster = shared().await;
        let client = cluster.client().await.expect("a client");
        let random: String = std::iter::repeat_with(|| fastrand::char('a'..='z')).take(6).collect();
        let name = format!("{purpose}-{random}");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace =
            serde_json::from_value(json!({ "metadata": { "name": name } })).expect("a namespace");
        namespaces.create(&PostParams::default(), &namespace).await.expect("namespace created");
        Self { cluster, client, name }
    }

    /// The control plane.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client with the administrator's rights.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects of a kind in this namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.name)
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// When it does not hold within `limit`.
#[allow(clippy::panic, reason = "the test fails here, saying what it waited for")]
pub async fn until(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition().await {
        if Instant::now() > deadline {
            panic!("timed out after {} s waiting for: {what}", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
