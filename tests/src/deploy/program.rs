//! One of the programs as a process: its flags, its start, its end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde_json::Value;

use super::{Binaries, Manifests, NAMESPACE, Options, identity, port, spawn, stamp_key_dir, text};
use crate::cluster::Cluster;
use crate::http::request;
use crate::process::{Invocation, Process, tail};

/// How long a program may take to become ready.
const READY: Duration = Duration::from_secs(60);

/// Flags of the chart that name addresses, folders and identities of a Pod.
const OURS: [&str; 14] = [
    "--health-addr",
    "--metrics-addr",
    "--webhook-port",
    "--webhook-cert-dir",
    "--stamp-key-dir",
    "--kubeconfig",
    "--leader-election-namespace",
    "--webhook-certificates",
    "--gateway-certificates",
    "--secure-port",
    "--cert-dir",
    "--tls-cert-file",
    "--tls-private-key-file",
    "--shutdown-delay-duration",
];

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `vela-controller`.
    Controller,
    /// `vela-webhook`.
    Webhook,
    /// `vela-gateway`.
    Gateway,
}

impl Role {
    /// The short name: of logs and folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Webhook => "webhook",
            Self::Gateway => "gateway",
        }
    }

    /// The command line client finds the controller's Deployment by its label.
    pub(super) fn owns(self, deployment: &Value) -> bool {
        let label = deployment
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get("controller.oam.dev/name"));
        let webhook = text(deployment, "/metadata/name").is_some_and(|n| n.ends_with("-webhook"));
        let gateway =
            text(deployment, "/metadata/name").is_some_and(|n| n.ends_with("-cluster-gateway"));
        match self {
            Self::Controller => label.is_some() && !webhook && !gateway,
            Self::Webhook => label.is_none() && webhook,
            Self::Gateway => gateway,
        }
    }
}

/// A program under test; it can be killed and started again.
#[derive(Debug)]
pub struct Program {
    role: Role,
    name: &'static str,
    invocation: Invocation,
    log: PathBuf,
    health: u16,
    metrics: u16,
    webhook: u16,
    process: Mutex<Option<Process>>,
}

impl Program {
    /// Collects its flags and its identity.
    ///
    /// # Errors
    /// When the chart has no Deployment for it or its ServiceAccount gets no token.
    pub async fn prepare(
        role: Role,
        cluster: &Cluster,
        binaries: &Binaries,
        manifests: &Manifests,
        options: &Options,
    ) -> Result<Self> {
        let deployment = manifests
            .deployment(|object| role.owns(object))
            .with_context(|| format!("the chart has no Deployment of the {}", role.name()))?;
        let account = text(deployment, "/spec/template/spec/serviceAccountName")
            .with_context(|| format!("the {} has no ServiceAccount", role.name()))?;
        let (kubeconfig, certificates) = identity(cluster, role, account).await?;
        let (health, metrics, webhook) = (port()?, port()?, port()?);
        let mut flags = chart_flags(deployment);
        flags.push(format!("--health-addr=127.0.0.1:{health}"));
        flags.push(format!("--metrics-addr=127.0.0.1:{metrics}"));
        let (program, extra) = match role {
            Role::Controller => {
                flags.push(format!("--leader-election-namespace={NAMESPACE}"));
                // The certificates are of the control plane's authority, for 127.0.0.1.
                flags.push("--webhook-certificates=external".into());
                flags.push("--gateway-certificates=external".into());
                (&binaries.controller, &options.controller_flags)
            }
            Role::Webhook => {
                flags.push(format!("--webhook-port={webhook}"));
                flags.push(format!("--webhook-cert-dir={}", certificates.display()));
                flags.push(format!("--stamp-key-dir={}", stamp_key_dir(cluster)?.display()));
                // There are no endpoints that would have to forget it.
                flags.push("--shutdown-delay-duration=0s".into());
                (&binaries.webhook, &options.webhook_flags)
            }
            Role::Gateway => {
                flags.push(format!("--secure-port={webhook}"));
                flags.push(format!("--cert-dir={}", certificates.display()));
                flags.push("--shutdown-delay-duration=0s".into());
                flags.push("--allow-loopback-clusters".into());
                (&binaries.gateway, &options.gateway_flags)
            }
        };
        flags.extend(extra.iter().cloned());
        let mut invocation = Invocation::new(program)
            .args(flags)
            .env("KUBECONFIG", kubeconfig.to_string_lossy())
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", format!("{}-0", role.name()))
            .env("RUST_BACKTRACE", "1")
            // As in the chart.
            .env("MIMALLOC_ALLOW_THP", "0")
            .env("MIMALLOC_PURGE_DELAY", "0");
        if matches!(role, Role::Controller) {
            for (name, value) in &options.controller_env {
                invocation = invocation.env(name, value);
            }
        }
        let log = cluster.dir().join(format!("{}.log", role.name()));
        let (name, process) = (role.name(), Mutex::new(None));
        Ok(Self { role, name, invocation, log, health, metrics, webhook, process })
    }

    /// A second process of the same program, with ports and a log of its own.
    ///
    /// # Errors
    /// When no port is free.
    pub fn replica(&self, cluster: &Cluster, name: &'static str) -> Result<Self> {
        let (health, metrics, webhook) = (port()?, port()?, port()?);
        let mut invocation = self
            .invocation
            .clone()
            .args([
                format!("--health-addr=127.0.0.1:{health}"),
                format!("--metrics-addr=127.0.0.1:{metrics}"),
            ])
            .env("POD_NAME", name);
        match self.role {
            Role::Controller => {}
            Role::Webhook => {
                invocation = invocation.args([format!("--webhook-port={webhook}")]);
            }
            Role::Gateway => {
                invocation = invocation.args([format!("--secure-port={webhook}")]);
            }
        }
        let log = cluster.dir().join(format!("{name}.log"));
        let process = Mutex::new(None);
        Ok(Self { name, invocation, log, health, metrics, webhook, process, ..*self })
    }

    /// The same program with further flags, before it is started.
    #[must_use]
    pub fn with_flags(mut self, flags: impl IntoIterator<Item = String>) -> Self {
        self.invocation = self.invocation.args(flags);
        self
    }

    /// The same program with another kubeconfig, before it is started.
    #[must_use]
    pub fn with_kubeconfig(mut self, kubeconfig: &Path) -> Self {
        self.invocation = self.invocation.env("KUBECONFIG", kubeconfig.to_string_lossy());
        self
    }

    /// The kubeconfig it uses.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<&str> {
        self.invocation.variable("KUBECONFIG")
    }

    /// The name of its Pod, which its user agent ends with.
    #[must_use]
    pub fn pod(&self) -> &str {
        self.invocation.variable("POD_NAME").unwrap_or_default()
    }

    /// Starts it, without waiting until it is ready.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start(&self, cluster: &Cluster) -> Result<u32> {
        let mut process = self.process.lock();
        if let Some(running) = process.as_ref()
            && running.ended()?.is_none()
        {
            bail!("the {} runs already (process {})", self.name, running.pid());
        }
        let started = spawn(cluster, self.name, &self.invocation)?;
        let pid = started.pid();
        *process = Some(started);
        Ok(pid)
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// When the program ends or does not become ready.
    pub async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY;
        loop {
            self.check()?;
            let port = self.health;
            let answer =
                tokio::task::spawn_blocking(move || request(port, "GET", "/readyz", "")).await?;
            match answer {
                Ok((200, _)) => return Ok(()),
                _ if Instant::now() < deadline => {}
                Ok((code, body)) => bail!(
                    "the {} is not ready after {} s: {code} {}{}",
                    self.name,
                    READY.as_secs(),
                    body.trim(),
                    tail(&self.log, 15)
                ),
                Err(error) => bail!(
                    "the {} does not answer on its health port after {} s: {error}{}",
                    self.name,
                    READY.as_secs(),
                    tail(&self.log, 15)
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What `/healthz` says of each part of it.
    ///
    /// # Errors
    /// When the health port does not answer.
    pub async fn parts(&self) -> Result<String> {
        let port = self.health;
        let answer = move || request(port, "GET", "/healthz?verbose", "");
        Ok(tokio::task::spawn_blocking(answer).await??.1)
    }

    /// Whether `/readyz` says so now.
    pub async fn is_ready(&self) -> bool {
        let port = self.health;
        let answer = tokio::task::spawn_blocking(move || request(port, "GET", "/readyz", "")).await;
        matches!(answer, Ok(Ok((200, _))))
    }

    /// All metrics, as text.
    ///
    /// # Errors
    /// When the metrics port does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let port = self.metrics;
        let (_, text) =
            tokio::task::spawn_blocking(move || request(port, "GET", "/metrics", "")).await??;
        Ok(text)
    }

    /// The sum of a metric over all its labels; 0 if it is not there.
    ///
    /// # Errors
    /// When the metrics port does not answer.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        self.metric_of(name, "").await
    }

    /// The sum of a metric over the series that have a label, as it is printed; 0 if there are none.
    ///
    /// # Errors
    /// When the metrics port does not answer.
    pub async fn metric_of(&self, name: &str, label: &str) -> Result<f64> {
        let text = self.metrics().await?;
        Ok(text
            .lines()
            .filter_map(|line| line.strip_prefix(name))
            .filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
            .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    /// An error if it has ended.
    ///
    /// # Errors
    /// When it has ended; with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.process.lock().as_ref().map_or(Ok(()), Process::check)
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let process = self.process.lock();
        let running = process.as_ref()?;
        matches!(running.ended(), Ok(None)).then(|| running.pid())
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn kill(&self) -> Result<()> {
        if let Some(process) = self.process.lock().as_ref() {
            process.kill()?;
        }
        Ok(())
    }

    /// Holds it; see [`Process::pause`].
    pub fn pause(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.pause();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.resume();
        }
    }

    /// Asks it to end. False if it had to be ended by force.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn stop(&self, grace: Duration) -> Result<bool> {
        self.process.lock().as_ref().map_or(Ok(true), |process| process.stop(grace))
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The port on which a webhook or the gateway answers.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.webhook
    }

    /// The base of its webhook URLs.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.webhook)
    }
}

/// The flags of the Deployment's first container without [`OURS`].
pub(super) fn chart_flags(deployment: &Value) -> Vec<String> {
    let args = deployment
        .pointer("/spec/template/spec/containers/0/args")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut flags = Vec::new();
    let mut skip = false;
    for arg in args.iter().filter_map(Value::as_str) {
        if skip && !arg.starts_with("--") {
            skip = false;
            continue;
        }
        let name = arg.split('=').next().unwrap_or(arg);
        let ours = OURS.contains(&name);
        skip = ours && !arg.contains('=');
        if !ours {
            flags.push(arg.to_owned());
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_the_chart_are_replaced_and_the_rest_kept() {
        let deployment = json!({ "spec": { "template": { "spec": { "containers": [{ "args": [
            "--metrics-addr=:8080", "--enable-leader-election", "--webhook-port", "9443",
            "--feature-gates=A=true",
        ] }] } } } });
        assert_eq!(
            chart_flags(&deployment),
            ["--enable-leader-election", "--feature-gates=A=true"]
        );
    }

    #[test]
    fn deployments_are_told_apart_as_the_client_tells_them() {
        let controller = json!({ "metadata": { "name": "kubevela-vela-core",
            "labels": { "controller.oam.dev/name": "vela-core" } } });
        let webhook = json!({ "metadata": { "name": "kubevela-vela-core-webhook", "labels": {} } });
        assert!(Role::Controller.owns(&controller) && !Role::Controller.owns(&webhook));
        assert!(Role::Webhook.owns(&webhook) && !Role::Webhook.owns(&controller));
        let gateway = json!({ "metadata": { "name": "kubevela-cluster-gateway", "labels": {} } });
        let all = [Role::Controller, Role::Webhook, Role::Gateway];
        let owners = all.into_iter().filter(|role| role.owns(&gateway));
        assert_eq!(owners.collect::<Vec<_>>(), [Role::Gateway]);
    }
}
