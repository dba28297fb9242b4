//! What integration tests start from: the shared control plane and a namespace of their own.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::audit::{self, Entry};
use crate::cluster::Cluster;
use crate::deploy::{Binaries, Deployed, Options, Profile};

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

/// Steps and charts may reach loopback, where the servers of tests are.
#[must_use]
pub fn reaching_loopback() -> Options {
    let values = vec!["workflow.egress.allow=127.0.0.0/8".to_owned()];
    let controller_flags = vec!["--helm-plain-http".to_owned()];
    Options { values, controller_flags, ..Options::default() }
}

/// Both programs on the shared control plane, shared like it.
///
/// # Panics
/// When they do not start.
#[allow(clippy::expect_used, reason = "a test without the programs fails, with the reason")]
pub async fn deployed() -> Arc<Deployed> {
    static DEPLOYED: OnceCell<Arc<Deployed>> = OnceCell::const_new();
    let start = async || {
        let cluster = shared().await;
        let binaries = binaries();
        let deployed = Deployed::start(&cluster, &binaries, &reaching_loopback()).await;
        Arc::new(deployed.expect("the programs start"))
    };
    Arc::clone(DEPLOYED.get_or_init(start).await)
}

/// Both programs, built once.
///
/// # Panics
/// When they do not compile.
#[allow(clippy::expect_used, reason = "a test without the programs fails, with the reason")]
pub fn binaries() -> Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES
        .get_or_init(|| Binaries::with_gateway(Profile::Dev).expect("the programs compile"))
        .clone()
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

    /// As [`Space::new`], with both programs running.
    pub async fn with_programs(purpose: &str) -> Self {
        deployed().await;
        Self::new(purpose).await
    }

    /// The objects of a kind that has no type here, in this namespace.
    #[must_use]
    pub fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), &self.name, &resource(version, kind))
    }

    /// The Applications of this namespace.
    #[must_use]
    pub fn applications(&self) -> Api<DynamicObject> {
        self.objects("core.oam.dev/v1beta1", "Application")
    }

    /// Creates an Application with these components.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create(&self, name: &str, components: Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "core.oam.dev/v1beta1",
            "kind": "Application",
            "metadata": { "name": name },
            "spec": { "components": components },
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        self.applications().create(&PostParams::default(), &object).await
    }

    /// Waits until an Application runs with its current generation.
    ///
    /// # Panics
    /// When it does not; with its status.
    #[allow(clippy::panic, reason = "the test fails here, showing the status")]
    pub async fn running(&self, name: &str) -> DynamicObject {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let object = self.applications().get(name).await;
            match object {
                Ok(object) if runs(&object) => return object,
                other if Instant::now() > deadline => {
                    panic!("{name} does not run: {:#?}", other.map(|object| object.data))
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Whether the API server lists a kind and answers for it: a new one is listed later than it is accepted.
    pub async fn serves(&self, version: &str, kind: &str) -> bool {
        let listed = self.client().list_api_group_resources(version).await;
        let listed = listed.is_ok_and(|list| list.resources.iter().any(|known| known.kind == kind));
        listed && self.objects(version, kind).list(&ListParams::default()).await.is_ok()
    }

    /// The ResourceTrackers of this namespace's Applications.
    ///
    /// # Panics
    /// When they cannot be listed.
    #[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
    pub async fn trackers(&self) -> Vec<DynamicObject> {
        let api: Api<DynamicObject> =
            Api::all_with(self.client(), &resource("core.oam.dev/v1beta1", "ResourceTracker"));
        let selector = format!("app.oam.dev/namespace={}", self.name);
        api.list(&ListParams::default().labels(&selector)).await.expect("trackers").items
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

fn runs(object: &DynamicObject) -> bool {
    let status = object.data.get("status");
    let field = |key: &str| status.and_then(|status| status.get(key));
    field("status").and_then(Value::as_str) == Some("running")
        && field("observedGeneration").and_then(Value::as_i64) == object.metadata.generation
}

/// A kind that has no type here, with its plural.
#[must_use]
pub fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
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

/// Waits until no such request was written to the audit log for so long.
///
/// # Panics
/// When they do not end within two minutes.
#[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
pub async fn quiet(log: &Path, calm: Duration, such: impl Fn(&Entry) -> bool) {
    let mut from = audit::position(log).expect("the log");
    let mut since = Instant::now();
    until(&format!("{calm:?} without such a request"), Duration::from_secs(120), async || {
        let position = audit::position(log).expect("the log");
        if audit::read(log, from).expect("the log").iter().any(&such) {
            (from, since) = (position, Instant::now());
        }
        since.elapsed() >= calm
    })
    .await;
}
