//! vela-rs on a control plane: the chart's objects and the programs as processes.
//!
//! As close to an installation as processes on loopback can be: the chart is rendered by helm, the
//! programs get the flags of the chart's Deployments, each has a token of its own ServiceAccount
//! and no right that the chart does not give. Different are the addresses: webhook configurations
//! name a URL instead of a Service, and ports and folders are ours.

mod binaries;
mod gateway;
mod manifests;
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_seal::Keys;

pub use self::binaries::{Binaries, Profile};
pub use self::gateway::{CLUSTER_API, Gateway, OriginalGateway};
pub use self::manifests::{AUTHENTICATION, Manifests, apply, apply_all, from_jsonl};
pub use self::program::{Program, Role};

use crate::cluster::{self, Cluster};
use crate::process::Process;
use crate::progress::Step;

/// The namespace of the control plane and of the built-in definitions.
pub const NAMESPACE: &str = "vela-system";
/// What the chart is rendered for: the version of the control plane (tests/controlplane/go.mod).
pub const KUBERNETES: &str = "v1.34.4";
/// The name of the helm release.
pub const RELEASE: &str = "kubevela";

/// What to deploy.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Definitions instead of the chart's, one object a line.
    pub definitions: Option<PathBuf>,
    /// Flags for the controller after those of the chart.
    pub controller_flags: Vec<String>,
    /// Variables for the controller, as the value `extraEnv` gives them.
    pub controller_env: Vec<(String, String)>,
    /// Flags for the webhook after those of the chart.
    pub webhook_flags: Vec<String>,
    /// Flags for the gateway after those of the chart.
    pub gateway_flags: Vec<String>,
    /// Values for the chart, as `--set` takes them.
    pub values: Vec<String>,
}

/// Both programs, running.
#[derive(Debug)]
pub struct Deployed {
    /// The controller.
    pub controller: Program,
    /// The webhook.
    pub webhook: Program,
    /// Calls of the webhook by the API server.
    pub admission: Admission,
}

impl Deployed {
    /// Installs the chart's objects, starts both programs, waits until they are ready and turns
    /// admission on.
    ///
    /// # Errors
    /// When an object is refused or a program does not become ready; with the end of its log.
    pub async fn start(cluster: &Cluster, binaries: &Binaries, options: &Options) -> Result<Self> {
        let step = Step::start("installing the chart's objects");
        let client = cluster.client().await?;
        let manifests = Manifests::render(binaries, &options.values)?;
        apply_all(&client, manifests.foundation()).await?;
        apply(&client, &stamp_key()).await?;
        step.done();

        let definitions = match &options.definitions {
            Some(file) => from_jsonl(file)?,
            None => manifests.definitions(),
        };
        let step = Step::start(format!("installing {} definitions", definitions.len()));
        apply_all(&client, definitions).await?;
        step.done();

        let step = Step::start("starting webhook and controller");
        let webhook =
            Program::prepare(Role::Webhook, cluster, binaries, &manifests, options).await?;
        let controller =
            Program::prepare(Role::Controller, cluster, binaries, &manifests, options).await?;
        webhook.start(cluster)?;
        controller.start(cluster)?;
        webhook.ready().await?;
        controller.ready().await?;
        step.done();

        let url = webhook.url();
        let hooks = manifests.webhooks(&url, cluster.authority().certificate())?;
        if hooks.is_empty() {
            bail!("the chart renders no webhook configuration");
        }
        let name = |hook: &Value| Some(hook.pointer("/metadata/name")?.as_str()?.to_owned());
        let admission = Admission(hooks.iter().filter_map(name).collect());
        apply_all(&client, hooks).await?;
        Ok(Self { controller, webhook, admission })
    }

    /// An error if one of the programs has ended.
    ///
    /// # Errors
    /// When one has ended; with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.webhook.check()?;
        self.controller.check()
    }

    /// Asks both programs to end. False if one had to be ended by force.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn stop(&self, grace: Duration) -> Result<bool> {
        let controller = self.controller.stop(grace)?;
        Ok(self.webhook.stop(grace)? && controller)
    }
}

/// The webhook configurations that name our address.
#[derive(Debug)]
pub struct Admission(Vec<String>);

impl Admission {
    /// Takes the configurations away: once the webhook has ended nobody answers at its address, and a cluster that
    /// lives on would refuse every Application.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn close(&self, cluster: &Cluster) -> Result<()> {
        let client = cluster.client().await?;
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone());
        let validating = Api::<ValidatingWebhookConfiguration>::all(client);
        let how = DeleteParams::default();
        for name in &self.0 {
            for gone in [
                mutating.delete(name, &how).await.map(drop),
                validating.delete(name, &how).await.map(drop),
            ] {
                match gone {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => other.with_context(|| format!("webhook configuration {name}"))?,
                }
            }
        }
        Ok(())
    }

    /// Takes the configurations away for a while, as somebody could, so that writes are not reviewed.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn withdraw(&self, cluster: &Cluster) -> Result<Withdrawn> {
        let client = cluster.client().await?;
        let (mut mutating, mut validating) = (Vec::new(), Vec::new());
        let of_patches = Api::<MutatingWebhookConfiguration>::all(client.clone());
        let of_opinions = Api::<ValidatingWebhookConfiguration>::all(client);
        // A configuration of each kind may have the same name.
        for name in self.0.iter().collect::<BTreeSet<_>>() {
            mutating.extend(of_patches.get_opt(name).await?);
            validating.extend(of_opinions.get_opt(name).await?);
        }
        self.close(cluster).await?;
        Ok(Withdrawn { mutating, validating })
    }
}

/// Webhook configurations that were taken away.
#[derive(Debug)]
pub struct Withdrawn {
    mutating: Vec<MutatingWebhookConfiguration>,
    validating: Vec<ValidatingWebhookConfiguration>,
}

impl Withdrawn {
    /// Puts them back.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn restore(self, cluster: &Cluster) -> Result<()> {
        let client = cluster.client().await?;
        for mut configuration in self.mutating {
            configuration.metadata.resource_version = None;
            let all = Api::<MutatingWebhookConfiguration>::all(client.clone());
            all.create(&PostParams::default(), &configuration).await?;
        }
        for mut configuration in self.validating {
            configuration.metadata.resource_version = None;
            let all = Api::<ValidatingWebhookConfiguration>::all(client.clone());
            all.create(&PostParams::default(), &configuration).await?;
        }
        Ok(())
    }
}

/// The Secret with the key that stamps are sealed with. The controller would make one.
pub const STAMP_KEY: &str = "kubevela-vela-core-stamp-key";

/// What is in it here: anybody may read it.
pub const KEY: &str = "the stamp key of control planes that nobody but tests uses";

/// The key that stamps are sealed with, for who writes one.
///
/// # Errors
/// When it is no key.
pub fn stamp_keys() -> Result<Keys> {
    Ok(Keys::new(KEY.as_bytes(), None)?)
}

fn stamp_key() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": STAMP_KEY, "namespace": NAMESPACE},
        "stringData": {"current": KEY},
    })
}

/// Exchanges the key as an administrator does, in the Secret and in the webhook's folder. `previous`: the key before it, whose
/// stamps still count.
///
/// # Errors
/// When the API server or the file system refuses.
pub async fn exchange_stamp_key(
    cluster: &Cluster,
    current: &str,
    previous: Option<&str>,
) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client().await?, NAMESPACE);
    let body = json!({"data": {"previous": null}, "stringData": {"current": current, "previous": previous}});
    secrets.patch(STAMP_KEY, &PatchParams::default(), &Patch::Merge(&body)).await?;
    let dir = cluster.dir().join("stamp-key");
    // The older one first: whoever reads in between finds one that he knows.
    match previous {
        Some(previous) => fs::write(dir.join("previous"), previous)?,
        None => fs::remove_file(dir.join("previous"))?,
    }
    fs::write(dir.join("current"), current)?;
    Ok(())
}

/// The key in a folder, as the kubelet would bring it.
fn stamp_key_dir(cluster: &Cluster) -> Result<PathBuf> {
    let dir = cluster.dir().join("stamp-key");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("current"), KEY)?;
    Ok(dir)
}

/// The kubeconfig and the certificate folder of a program.
async fn identity(cluster: &Cluster, role: Role, account: &str) -> Result<(PathBuf, PathBuf)> {
    let kubeconfig = cluster.kubeconfig_of(NAMESPACE, account).await?;
    let certificates = cluster.dir().join(format!("{}-certs", role.name()));
    fs::create_dir_all(&certificates)?;
    // The API server verifies the name of the Service, wherever that leads.
    let leaf = cluster.authority().server(role.name(), &["localhost", gateway::SERVER_NAME])?;
    leaf.write(&certificates, "tls")?;
    fs::write(certificates.join("ca.crt"), cluster.authority().certificate())?;
    fs::write(cluster.dir().join("webhook-ca.crt"), cluster.authority().certificate())?;
    Ok((kubeconfig, certificates))
}

/// The text at a JSON pointer.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Starts a program's process.
fn spawn(
    cluster: &Cluster,
    name: &str,
    invocation: &crate::process::Invocation,
) -> Result<Process> {
    let log = cluster.dir().join(format!("{name}.log"));
    cluster.watchdog().spawn(name, invocation, &log)
}

/// A free port that was not handed out before in this deployment.
fn port() -> Result<u16> {
    cluster::free_port().context("no port for a program under test")
}
