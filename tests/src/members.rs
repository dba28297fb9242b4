//! Clusters that join another one, as `vela cluster join` lets them: Secrets; and a hub with two members, each at the end of a
//! [`Link`], that all tests of a process share, one at a time.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, Secret, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::cluster::Cluster;
use crate::deploy::{Deployed, Options, apply};
use crate::fixtures::{binaries, until};
use crate::link::{Link, Mode};

/// Where the Secrets of clusters are.
pub const NAMESPACE: &str = "vela-system";
/// The ConfigMap of the shared hub with rules about identities.
pub const EXCHANGE: &str = "exchange";
/// The longest time that something of a test may take.
pub const LIMIT: Duration = Duration::from_secs(120);

const CREDENTIAL_TYPE: &str = "cluster.core.oam.dev/cluster-credential-type";

/// Lets `member` join `hub` under a name, reached at a port of this machine: its own or that of a link before it. The credential
/// may do everything there.
///
/// # Errors
/// When an API server refuses something.
pub async fn join(hub: &Cluster, member: &Cluster, name: &str, port: u16) -> Result<()> {
    let token = token(member, "vela-hub").await?;
    let secret = Joining::at(member, port).token(&token).secret(name);
    apply(&hub.client().await?, &secret).await
}

/// A token of a ServiceAccount of a member that may do everything there.
///
/// # Errors
/// When the API server refuses something.
pub async fn token(member: &Cluster, account: &str) -> Result<String> {
    let there = member.client().await?;
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": "kube-system"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]}),
    ] {
        apply(&there, &object).await?;
    }
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(24 * 3600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(there, "kube-system");
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(answer.status.context("a token request without a token")?.token)
}

/// A Secret of a cluster under construction.
#[derive(Debug, Clone)]
pub struct Joining {
    kind: String,
    annotations: BTreeMap<String, String>,
    data: BTreeMap<String, String>,
}

impl Joining {
    /// Of a member at a port of this machine, without a credential yet.
    #[must_use]
    pub fn at(member: &Cluster, port: u16) -> Self {
        let data = [
            ("endpoint", format!("https://127.0.0.1:{port}")),
            ("ca.crt", member.authority().certificate().to_owned()),
        ];
        Self {
            kind: "ServiceAccountToken".to_owned(),
            annotations: BTreeMap::new(),
            data: data.map(|(key, value)| (key.to_owned(), value)).into(),
        }
    }

    /// With a token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        self.with("token", token)
    }

    /// With another value in its data.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.data.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With an annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Of another type of credential.
    #[must_use]
    pub fn of_type(mut self, kind: &str) -> Self {
        self.kind = kind.to_owned();
        self
    }

    /// The Secret.
    #[must_use]
    pub fn secret(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE,
                "labels": {CREDENTIAL_TYPE: self.kind}, "annotations": self.annotations},
            "stringData": self.data,
        })
    }
}

/// The port of a cluster's API server.
///
/// # Errors
/// When its address names none.
pub fn port(cluster: &Cluster) -> Result<u16> {
    let port = cluster.server().rsplit(':').next().unwrap_or_default();
    port.trim_end_matches('/').parse().with_context(|| format!("no port in {}", cluster.server()))
}

/// A member of the shared hub.
#[derive(Debug)]
pub struct Joined {
    /// The name under which it joins.
    pub name: &'static str,
    /// The member.
    pub cluster: Cluster,
    /// The way to it.
    pub link: Link,
    token: String,
}

impl Joined {
    async fn start(name: &'static str) -> Result<Self> {
        let cluster = Cluster::start_lean(&format!("members-{name}")).await?;
        let token = token(&cluster, "vela-hub").await?;
        let link = Link::to(port(&cluster)?).await?;
        Ok(Self { name, cluster, link, token })
    }

    /// Its Secret as it should be.
    #[must_use]
    pub fn joining(&self) -> Joining {
        Joining::at(&self.cluster, self.link.port()).token(&self.token)
    }

    /// The token in it.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// A hub with both programs and two members.
pub struct Fleet {
    /// The hub.
    pub hub: Cluster,
    /// The programs.
    pub deployed: Deployed,
    /// One member.
    pub east: Joined,
    /// The other.
    pub west: Joined,
    client: Client,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("hub", &self.hub).finish_non_exhaustive()
    }
}

/// What outlives the test that starts it: the runtime of a test ends with it.
fn lasting<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    static RUNTIME: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
    #[allow(clippy::expect_used, reason = "a test without a runtime fails, with the reason")]
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime")
    });
    runtime.spawn(work)
}

/// The shared hub with its members, all as at the beginning: joined, reachable, without Applications. Nobody else has it until the
/// guard is dropped.
///
/// # Panics
/// When it does not start: no test could say anything then.
#[allow(clippy::expect_used, reason = "a test without a control plane fails, with the reason")]
pub async fn fleet() -> (MutexGuard<'static, ()>, &'static Fleet) {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let start = async || {
        let fleet = lasting(Fleet::start()).await.expect("a runtime");
        fleet.expect("a hub with members")
    };
    let fleet = FLEET.get_or_init(start).await;
    fleet.reset().await.expect("members as at the beginning");
    (turn, fleet)
}

impl Fleet {
    async fn start() -> Result<Self> {
        let hub = Cluster::start_lean("members-hub").await?;
        let client = hub.client().await?;
        let commands = hub.dir().join("commands");
        std::fs::create_dir_all(&commands)?;
        let options = Options {
            controller_flags: vec![
                "--allow-loopback-clusters".to_owned(),
                "--helm-plain-http".to_owned(),
            ],
            values: vec![
                // Charts come from servers of the tests.
                "workflow.egress.allow=127.0.0.0/8".to_owned(),
                "multicluster.enabled=true".to_owned(),
                "multicluster.clusterGateway.enabled=false".to_owned(),
                "multicluster.metrics.enabled=true".to_owned(),
                format!("multicluster.exchangeRules={NAMESPACE}/{EXCHANGE}"),
                format!("multicluster.execCredentialDir={}", commands.display()),
            ],
            ..Options::default()
        };
        let deployed = Deployed::start(&hub, &binaries(), &options).await?;
        let (east, west) = (Joined::start("east").await?, Joined::start("west").await?);
        Ok(Self { hub, deployed, east, west, client })
    }

    /// Both members joined, reachable and themselves; nobody else; no rules; no Applications.
    async fn reset(&self) -> Result<()> {
        self.deployed.check()?;
        for member in [&self.east, &self.west] {
            member.link.set(Mode::Pass);
        }
        let rules = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": EXCHANGE, "namespace": NAMESPACE}, "data": {"rules": ""}});
        apply(&self.client, &rules).await?;
        let secrets = self.secrets();
        let all = secrets.list(&ListParams::default().labels(CREDENTIAL_TYPE)).await?;
        for secret in all.items {
            let name = secret.metadata.name.unwrap_or_default();
            if ![self.east.name, self.west.name].contains(&name.as_str()) {
                secrets.delete(&name, &DeleteParams::default()).await?;
            }
        }
        for member in [&self.east, &self.west] {
            self.write(&member.joining().secret(member.name)).await?;
            self.reaches(member.name, "Connected").await;
        }
        Ok(())
    }

    /// A client of the hub.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The Secrets of clusters.
    #[must_use]
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client(), NAMESPACE)
    }

    /// Writes the Secret of a cluster: all of it anew, but as the same object if it is there.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn write(&self, secret: &Value) -> Result<()> {
        let mut object: Secret = serde_json::from_value(secret.clone())?;
        let name = object.metadata.name.clone().unwrap_or_default();
        if let Some(there) = self.secrets().get_opt(&name).await? {
            // What is no more in it goes.
            object.metadata.resource_version = there.metadata.resource_version;
            self.secrets().replace(&name, &PostParams::default(), &object).await?;
        } else {
            self.secrets().create(&PostParams::default(), &object).await?;
        }
        Ok(())
    }

    /// Takes the Secret of a cluster away.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn detach(&self, name: &str) -> Result<()> {
        self.secrets().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The state in which the controller has a cluster; empty if it has none of the name.
    ///
    /// # Panics
    /// When it does not show its metrics.
    pub async fn state(&self, cluster: &str) -> String {
        let beginning = format!("vela_cluster_state{{cluster=\"{cluster}\",state=\"");
        let state = self.metrics().await.lines().find_map(|line| {
            let (state, value) = line.strip_prefix(&beginning)?.split_once('"')?;
            value.trim_start_matches('}').trim().eq("1").then(|| state.to_owned())
        });
        state.unwrap_or_default()
    }

    /// What the controller shows of itself.
    ///
    /// # Panics
    /// When it does not.
    #[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
    pub async fn metrics(&self) -> String {
        self.deployed.controller.metrics().await.expect("metrics")
    }

    /// Waits until a cluster is in a state; how long that took.
    pub async fn reaches(&self, cluster: &str, state: &str) -> Duration {
        let since = Instant::now();
        let what = format!("cluster {cluster} to be {state}");
        until(&what, LIMIT, async || self.state(cluster).await == state).await;
        since.elapsed()
    }

    /// The events about the Secret of a cluster: reasons and messages.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn events(&self, cluster: &str) -> Result<Vec<(String, String)>> {
        let events: Api<Event> = Api::namespaced(self.client(), NAMESPACE);
        let about = format!("involvedObject.kind=Secret,involvedObject.name={cluster}");
        let all = events.list(&ListParams::default().fields(&about)).await?.items;
        let text =
            |event: Event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        Ok(all.into_iter().map(text).collect())
    }

    /// A namespace of this name in all three clusters.
    ///
    /// # Errors
    /// When an API server refuses it.
    pub async fn space(&'static self, name: &'static str) -> Result<Space> {
        let mut clients = BTreeMap::new();
        let clusters =
            [("local", &self.hub), ("east", &self.east.cluster), ("west", &self.west.cluster)];
        for (cluster, at) in clusters {
            let client = at.client().await?;
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply(&client, &object).await?;
            clients.insert(cluster, client);
        }
        Ok(Space { name, clients })
    }
}

/// A namespace in all clusters of a fleet.
pub struct Space {
    name: &'static str,
    clients: BTreeMap<&'static str, Client>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Space").field(&self.name).finish()
    }
}

impl Space {
    /// Objects of a kind in one of the clusters.
    ///
    /// # Panics
    /// There is no such cluster.
    #[must_use]
    #[allow(clippy::expect_used, reason = "a mistake in a test")]
    pub fn objects(&self, cluster: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.clients.get(cluster).expect("a cluster of the fleet").clone();
        Api::namespaced_with(client, self.name, &kind)
    }

    /// The Applications.
    #[must_use]
    pub fn applications(&self) -> Api<DynamicObject> {
        self.objects("local", "core.oam.dev/v1beta1", "Application")
    }

    /// An Application whose one component makes a ConfigMap of its name that says `value`, in some clusters.
    #[must_use]
    pub fn application(&self, name: &str, clusters: &[&str], value: &str) -> Value {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name, "namespace": self.name}, "spec": {
            "components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}}],
            "policies": [{"name": "places", "type": "topology", "properties": {"clusters": clusters}}]}})
    }

    /// Writes an Application.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn apply(&self, app: &Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(app.clone())?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let all = self.applications();
        if all.get_opt(&name).await?.is_some() {
            let edit = json!({ "spec": app.get("spec") });
            all.patch(&name, &PatchParams::default(), &Patch::Merge(&edit)).await?;
        } else {
            all.create(&PostParams::default(), &object).await?;
        }
        Ok(())
    }

    /// An Application as it is stored; null if there is none.
    ///
    /// # Panics
    /// When the API server does not answer.
    #[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
    pub async fn app(&self, name: &str) -> Value {
        let app = self.applications().get_opt(name).await.expect("the Application");
        app.map(|app| serde_json::to_value(app).unwrap_or_default()).unwrap_or_default()
    }

    /// Waits until an Application runs as it is.
    ///
    /// # Panics
    /// When it does not; with its status.
    #[allow(clippy::panic, reason = "the test fails here, showing the status")]
    pub async fn runs(&self, name: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let app = self.app(name).await;
            let at = |pointer: &str| app.pointer(pointer).cloned().unwrap_or_default();
            if at("/status/status") == "running"
                && at("/status/observedGeneration") == at("/metadata/generation")
            {
                return;
            }
            if Instant::now() > deadline {
                panic!("{name} does not run: {:#}", at("/status"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Deletes an Application and waits until it is gone.
    ///
    /// # Panics
    /// When it is not.
    #[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
    pub async fn delete(&self, name: &str) {
        self.applications().delete(name, &DeleteParams::default()).await.expect("deleted");
        self.gone(name).await;
    }

    /// Waits until an Application is gone.
    pub async fn gone(&self, name: &str) {
        until("the Application to be gone", LIMIT, async || self.app(name).await.is_null()).await;
    }

    /// A ConfigMap of a cluster: its uid and what it says.
    ///
    /// # Panics
    /// When the API server does not answer.
    #[allow(clippy::expect_used, reason = "the test fails here, with the reason")]
    pub async fn map(&self, cluster: &str, name: &str) -> Option<(String, String)> {
        let found =
            self.objects(cluster, "v1", "ConfigMap").get_opt(name).await.expect("an answer")?;
        let value = found.data.pointer("/data/v").and_then(Value::as_str).unwrap_or_default();
        let value = value.to_owned();
        Some((found.metadata.uid.unwrap_or_default(), value))
    }

    /// What a ConfigMap of a cluster says.
    pub async fn value(&self, cluster: &str, name: &str) -> Option<String> {
        Some(self.map(cluster, name).await?.1)
    }
}
