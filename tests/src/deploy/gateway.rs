//! The gateway behind the API server's aggregation, on loopback: the APIService leads to a Service without Pods.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::program::chart_flags;
use super::{
    Binaries, Manifests, NAMESPACE, Options, Program, Role, apply, apply_all, identity, port,
    spawn, text,
};
use crate::cluster::Cluster;
use crate::controlplane::Programs;
use crate::process::{Invocation, Process, tail};
use crate::progress::Step;

/// The name of the APIService.
pub const CLUSTER_API: &str = "v1alpha1.cluster.core.oam.dev";
/// What the API server expects the gateway to be called.
pub(super) const SERVER_NAME: &str = "kubevela-cluster-gateway-service.vela-system.svc";

/// How long the API server may take to notice that the API is there.
const AVAILABLE: Duration = Duration::from_secs(60);

/// The gateway, running, and reached through the API server.
#[derive(Debug)]
pub struct Gateway {
    /// The program.
    pub program: Program,
}

impl Gateway {
    /// Starts it on a control plane with the chart's objects, and waits until its API is available.
    ///
    /// # Errors
    /// When the program does not become ready, or its API not available.
    pub async fn start(cluster: &Cluster, binaries: &Binaries, options: &Options) -> Result<Self> {
        let step = Step::start("starting the gateway");
        let manifests = Manifests::render(binaries, &options.values)?;
        let program =
            Program::prepare(Role::Gateway, cluster, binaries, &manifests, options).await?;
        program.start(cluster)?;
        program.ready().await?;
        register(cluster, &manifests, program.port()).await?;
        available(cluster).await?;
        step.done();
        Ok(Self { program })
    }
}

/// KubeVela's gateway (`tests/controlplane/gateway`) in the same role, with the flags that the chart has for it.
#[derive(Debug)]
pub struct OriginalGateway {
    port: u16,
    process: Process,
}

impl OriginalGateway {
    /// Starts it as [`Gateway::start`] does ours.
    ///
    /// # Errors
    /// When it cannot be built or does not start, or its API does not become available.
    pub async fn start(cluster: &Cluster, binaries: &Binaries, options: &Options) -> Result<Self> {
        let program = Programs::original_gateway()?;
        let step = Step::start("starting KubeVela's gateway");
        let mut values = options.values.clone();
        values.push("multicluster.clusterGateway.implementation=original".to_owned());
        let manifests = Manifests::render(binaries, &values)?;
        // Its rights are others than ours.
        apply_all(&cluster.client().await?, manifests.foundation()).await?;
        let deployment = manifests
            .deployment(|object| Role::Gateway.owns(object))
            .context("the chart has no Deployment of the gateway")?;
        let account = text(deployment, "/spec/template/spec/serviceAccountName")
            .context("the gateway has no ServiceAccount")?;
        let (kubeconfig, certificates) = identity(cluster, Role::Gateway, account).await?;
        let (port, kubeconfig) = (port()?, kubeconfig.to_string_lossy().into_owned());
        let mut flags = chart_flags(deployment);
        // The first argument is the name of the program in its image.
        flags.retain(|flag| flag.starts_with("--"));
        flags.extend([
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", certificates.join("tls.crt").display()),
            format!("--tls-private-key-file={}", certificates.join("tls.key").display()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
        ]);
        flags.extend(options.gateway_flags.iter().cloned());
        let invocation = Invocation::new(program).args(flags).env("KUBECONFIG", &*kubeconfig);
        let process = spawn(cluster, "original-gateway", &invocation)?;
        register(cluster, &manifests, port).await?;
        available(cluster)
            .await
            .with_context(|| tail(&cluster.dir().join("original-gateway.log"), 15))?;
        step.done();
        Ok(Self { port, process })
    }

    /// The port on which it answers.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An error if it has ended.
    ///
    /// # Errors
    /// When it has ended; with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.process.check()
    }
}

/// Makes Service and APIService of the chart lead to a program.
async fn register(cluster: &Cluster, manifests: &Manifests, port: u16) -> Result<()> {
    let client = cluster.client().await?;
    let bundle =
        base64::engine::general_purpose::STANDARD.encode(cluster.authority().certificate());
    let mut service =
        manifests.of("APIService").next().context("the chart has no APIService")?.clone();
    let name = text(&service, "/spec/service/name").context("it names no Service")?.to_owned();
    apply(
        &client,
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}),
    )
    .await?;
    if let Some(spec) = service.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("caBundle".to_owned(), json!(bundle));
    }
    if let Some(target) = service.pointer_mut("/spec/service").and_then(Value::as_object_mut) {
        target.insert("port".to_owned(), json!(port));
    }
    apply(&client, &service).await
}

/// Waits until the API server says that the API is available, and routes to it.
async fn available(cluster: &Cluster) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let client = cluster.client().await?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let deadline = Instant::now() + AVAILABLE;
    loop {
        let found = api.get(CLUSTER_API).await?.data;
        let conditions = found.pointer("/status/conditions").and_then(Value::as_array);
        let is_available = conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Available" && one["status"] == "True");
        let path = "/apis/cluster.core.oam.dev/v1alpha1/virtualclusters/local";
        let request = http::Request::get(path).body(Vec::new())?;
        let answer = client.request_text(request).await;
        if is_available && answer.is_ok() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{CLUSTER_API} is not available: {found}, {answer:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
