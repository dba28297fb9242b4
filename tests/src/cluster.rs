//! A real control plane on loopback: etcd, API server, controller manager, scheduler and one large
//! simulated node.
//!
//! Everything of a run lies in one folder (`target/run/NAME-PID`): data, certificates,
//! kubeconfigs, logs and the API server's audit log, which is the oracle of many tests. Readiness
//! is waited for by condition, and a program that ends early is reported with the end of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use parking_lot::Mutex;
use vela_cluster::transport::transport;

use crate::controlplane::{self, Programs};
use crate::material;
use crate::pki::{self, Authority};
use crate::process::{Invocation, Process, Watchdog};
use crate::progress::Step;

/// How long a control plane may take to start on a busy machine.
const START: Duration = Duration::from_secs(180);
/// How often conditions are checked while something starts.
const POLL: Duration = Duration::from_millis(50);

const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
    omitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// How often controller manager and scheduler may ask the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As often as they can: else it is their limits that is measured or waited for.
    Unlimited,
    /// As they come: 20 and 50 requests a second.
    AsShipped,
}

/// Which programs are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// With controller manager, scheduler and a simulated node.
    All,
    /// etcd and the API server, which may lack a feature.
    Server(Option<&'static str>),
}

/// A running control plane. It ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    server: String,
    /// Who signed the API server's certificate, PEM.
    trust: String,
    admin: PathBuf,
    /// Whether it was started here, and not only found.
    own: bool,
    authority: Authority,
    programs: Programs,
    processes: Mutex<BTreeMap<&'static str, Process>>,
    watchdog: Watchdog,
}

impl Cluster {
    /// Starts a control plane; `name` is the name of its folder.
    ///
    /// # Errors
    /// When a program is missing, ends early or does not become ready.
    pub async fn start(name: &str) -> Result<Self> {
        Self::start_at(name, Pace::Unlimited).await
    }

    /// Starts a control plane at a pace.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_at(name: &str, pace: Pace) -> Result<Self> {
        let cluster = Self::launch(name, None, pace, Parts::All).await?;
        cluster.nodes_and_accounts().await?;
        Ok(cluster)
    }

    /// Starts etcd and an API server: a cluster in which objects are what they are written as, and nothing becomes of them.
    /// Namespaces that are deleted do not go.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_lean(name: &str) -> Result<Self> {
        Self::launch(name, None, Pace::Unlimited, Parts::Server(None)).await
    }

    /// The same with an API server that has everything but a feature, named as its gate is.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_without(name: &str, feature: &'static str) -> Result<Self> {
        Self::launch(name, None, Pace::Unlimited, Parts::Server(Some(feature))).await
    }

    /// Ends a program without a word, as a machine that loses its power.
    ///
    /// # Errors
    /// The operating system does not do it.
    pub fn kill(&self, program: &'static str) -> Result<()> {
        let processes = self.processes.lock();
        processes.get(program).with_context(|| format!("no {program} runs"))?.kill().map(drop)
    }

    /// Starts a control plane for nodes that run containers: it is reached at `address`, and
    /// nobody simulates anything. For a network namespace of its own.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_for_nodes(name: &str, address: &str) -> Result<Self> {
        Self::launch(name, Some(address), Pace::Unlimited, Parts::All).await
    }

    async fn launch(name: &str, address: Option<&str>, pace: Pace, parts: Parts) -> Result<Self> {
        install_crypto();
        let programs = tokio::task::spawn_blocking(Programs::ready).await??;
        let dir = run_dir(name)?;
        let watchdog = Watchdog::start(&[&dir.join("etcd")])?;
        let step = Step::start("starting the control plane");
        let mut attempt = 1;
        let cluster = loop {
            let plan = Plan { parts, ..Plan::new(&dir, &programs, address, pace)? };
            match plan.run(&watchdog).await {
                Ok((processes, server, authority)) => {
                    let admin = dir.join("admin.kubeconfig");
                    let trust = authority.certificate().to_owned();
                    break Self {
                        dir,
                        server,
                        trust,
                        admin,
                        own: true,
                        authority,
                        programs,
                        processes,
                        watchdog,
                    };
                }
                // A port was taken between our check and the program's bind.
                Err(error)
                    if attempt < 3 && format!("{error:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        };
        step.done();
        Ok(cluster)
    }

    /// Uses a cluster that exists; it must be able to reach 127.0.0.1 of this machine.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used or its API server does not answer.
    pub async fn attach(name: &str, kubeconfig: &Path) -> Result<Self> {
        install_crypto();
        let programs = Programs::found()?;
        let dir = run_dir(name)?;
        let admin = std::path::absolute(kubeconfig)?;
        let config = config(&admin).await?;
        let roots = config.root_cert.clone().unwrap_or_default();
        let cluster = Self {
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            trust: roots.iter().map(|der| pem(der)).collect(),
            admin,
            own: false,
            authority: Authority::new("vela-tests")?,
            programs,
            processes: Mutex::default(),
            watchdog: Watchdog::start(&[])?,
            dir,
        };
        let version = cluster.client().await?.apiserver_version().await;
        version.with_context(|| format!("{} does not answer", cluster.server))?;
        Ok(cluster)
    }

    /// The folder of this run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubeconfig of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.admin.clone()
    }

    /// A kubeconfig that leads through a port on 127.0.0.1, derived from one that leads to the API server.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn kubeconfig_through(&self, direct: &Path, port: u16) -> Result<PathBuf> {
        let text = fs::read_to_string(direct)?;
        let address = format!("https://127.0.0.1:{port}");
        let path = self.dir().join(format!("through-{port}.kubeconfig"));
        fs::write(&path, text.replace(self.server(), &address))?;
        Ok(path)
    }

    /// The API server's address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The API server's audit log, one JSON object a line. Empty for a cluster that was not
    /// started here.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        if self.own { self.dir.join("audit.log") } else { PathBuf::new() }
    }

    /// The authority that signed every certificate of this control plane.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The programs it runs.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// What ends processes together with this one.
    #[must_use]
    pub fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// A client with the administrator's rights.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig()).await
    }

    /// A client that the administrator uses as somebody else.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = config(&self.kubeconfig()).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(|group| (*group).to_owned());
        config.auth_info.impersonate_groups = Some(groups.collect());
        connected(config)
    }

    /// A kubeconfig for a ServiceAccount, with a token of its own.
    ///
    /// # Errors
    /// When the API server does not issue a token.
    pub async fn kubeconfig_of(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for ServiceAccount {namespace}/{account}"))?
            .status
            .context("the API server answered a token request without a token")?
            .token;
        let path = self.dir.join(format!("{namespace}.{account}.kubeconfig"));
        let user = format!("    token: {token}\n");
        // A program that reads it now gets this one or the one before, never half of it.
        let whole = path.with_extension(format!("{:08x}", fastrand::u32(..)));
        fs::write(&whole, kubeconfig(&self.server, &self.trust, &user))?;
        fs::rename(&whole, &path)?;
        Ok(path)
    }

    /// An error if a program of the control plane has ended.
    ///
    /// # Errors
    /// When one has ended; with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.processes.lock().values().try_for_each(Process::check)
    }

    /// Ends everything that was started on this control plane, and the control plane.
    pub fn stop(&self) {
        // Killing is safe: nothing of it is used again.
        for process in self.processes.lock().values() {
            let _ = process.kill();
        }
        self.watchdog.stop();
    }

    async fn nodes_and_accounts(&self) -> Result<()> {
        let client = self.client().await?;
        let nodes: Api<Node> = Api::all(client.clone());
        let node: Node = serde_json::from_value(serde_json::json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "kwok-0",
                "labels": {
                    "kubernetes.io/hostname": "kwok-0",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                },
            },
        }))?;
        nodes.create(&PostParams::default(), &node).await.context("cannot create the node")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
        let deadline = Instant::now() + START;
        loop {
            self.check()?;
            let node = nodes.get("kwok-0").await.context("cannot read the node")?;
            let ready = node.status.and_then(|status| status.conditions).is_some_and(|all| {
                all.iter().any(|one| one.type_ == "Ready" && one.status == "True")
            });
            let account = accounts.get_opt("default").await?.is_some();
            if ready && account {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the control plane is not ready after {} s: node ready: {ready}, default \
                     ServiceAccount there: {account}; logs are in {}",
                    START.as_secs(),
                    self.dir.display()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client for a kubeconfig.
///
/// # Errors
/// When the file cannot be read or is not a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    connected(config(kubeconfig).await?)
}

fn connected(mut config: Config) -> Result<Client> {
    install_crypto();
    // The harness distinguishes its own requests from those of the programs under test.
    let agent = http::HeaderValue::from_static("vela-harness/1");
    config.headers.push((http::header::USER_AGENT, agent));
    Ok(transport(config)?.build())
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

fn pem(der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// TLS needs its cryptography provider once per process.
pub fn install_crypto() {
    // An error only says that it is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// A loopback port that nobody listens on, and that this process was not given before: between check and bind nothing holds it.
///
/// # Errors
/// When no port is free.
pub fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    // Below the range for outgoing connections, which could take a port between check and bind.
    for _ in 0..200 {
        let port = fastrand::u16(20_000..32_000);
        let is_free = || TcpListener::bind(("127.0.0.1", port)).is_ok();
        if GIVEN.lock().insert(port) && is_free() {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 32000 on 127.0.0.1")
}

/// A new folder for a run. Folders of runs that have ended are removed, but for the newest few:
/// their logs may still be wanted.
fn run_dir(name: &str) -> Result<PathBuf> {
    const KEEP: usize = 4;
    let root = material::target().join("run");
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    let mut ended: Vec<_> = fs::read_dir(&root)?
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.rsplit('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
            pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ended.sort();
    for (_, path) in ended.iter().rev().skip(KEEP) {
        let _ = fs::remove_dir_all(path);
    }
    let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(6).collect();
    let dir = root.join(format!("{name}-{}-{random}", std::process::id()));
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn kubeconfig(server: &str, authority: &str, user: &str) -> String {
    let authority = base64(authority);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: vela\n\
         clusters:\n- name: vela\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\n\
         users:\n- name: vela\n  user:\n{user}\
         contexts:\n- name: vela\n  context:\n    cluster: vela\n    user: vela\n"
    )
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// One attempt to start the programs.
struct Plan<'a> {
    dir: &'a Path,
    programs: &'a Programs,
    authority: Authority,
    server: String,
    etcd: String,
    peer: String,
    api_port: u16,
    /// Where Pods reach it, if there are Pods that run.
    address: Option<&'a str>,
    pace: Pace,
    parts: Parts,
}

impl<'a> Plan<'a> {
    fn new(
        dir: &'a Path,
        programs: &'a Programs,
        address: Option<&'a str>,
        pace: Pace,
    ) -> Result<Self> {
        let api_port = free_port()?;
        let plan = Self {
            dir,
            programs,
            authority: Authority::new("vela-tests")?,
            server: format!("https://127.0.0.1:{api_port}"),
            etcd: format!("http://127.0.0.1:{}", free_port()?),
            peer: format!("http://127.0.0.1:{}", free_port()?),
            api_port,
            address,
            pace,
            parts: Parts::All,
        };
        plan.write()?;
        Ok(plan)
    }

    fn write(&self) -> Result<()> {
        let _ = fs::remove_dir_all(self.dir.join("etcd"));
        self.authority.leaf().write(self.dir, "ca")?;
        let mut names =
            vec!["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        // The first address of the Services' range is the API server's own.
        names.extend(self.address.into_iter().chain(["198.18.0.1"]));
        self.authority.server("kube-apiserver", &names)?.write(self.dir, "apiserver")?;
        self.authority.client("front-proxy-client", &[])?.write(self.dir, "front-proxy")?;
        let masters = ["system:masters"];
        self.authority.client("kube-apiserver", &masters)?.write(self.dir, "kubelet-client")?;
        let (private, public) = pki::token_keys()?;
        fs::write(self.dir.join("tokens.key"), private)?;
        fs::write(self.dir.join("tokens.pub"), public)?;
        fs::write(self.dir.join("audit-policy.yaml"), AUDIT_POLICY)?;
        let accounts = [
            ("admin", "admin", "system:masters"),
            ("kcm", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
            ("kwok", "kwok", "system:masters"),
        ];
        for (file, user, group) in accounts {
            let groups: &[&str] = if group.is_empty() { &[] } else { &[group] };
            let leaf = self.authority.client(user, groups)?;
            let user = format!(
                "    client-certificate-data: {}\n    client-key-data: {}\n",
                base64(&leaf.certificate),
                base64(&leaf.key)
            );
            let text = kubeconfig(&self.server, self.authority.certificate(), &user);
            fs::write(self.dir.join(format!("{file}.kubeconfig")), text)?;
        }
        Ok(())
    }

    async fn run(
        self,
        watchdog: &Watchdog,
    ) -> Result<(Mutex<BTreeMap<&'static str, Process>>, String, Authority)> {
        let mut running = BTreeMap::new();
        let outcome = self.start(watchdog, &mut running).await;
        if outcome.is_err() {
            for process in running.values() {
                let _ = process.kill();
            }
        }
        outcome.map(|()| (Mutex::new(running), self.server, self.authority))
    }

    async fn start(
        &self,
        watchdog: &Watchdog,
        running: &mut BTreeMap<&'static str, Process>,
    ) -> Result<()> {
        // The API server retries until etcd listens, so both start at once.
        running.insert("etcd", self.spawn(watchdog, "etcd", self.etcd_args())?);
        let server = self.spawn(watchdog, "kube-apiserver", self.apiserver_args())?;
        running.insert("kube-apiserver", server);
        let client = client(&self.dir.join("admin.kubeconfig")).await?;
        let deadline = Instant::now() + START;
        loop {
            running.values().try_for_each(Process::check)?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = client.request_text(request).await;
            if answer.as_ref().is_ok_and(|text| text == "ok") {
                break;
            }
            if Instant::now() > deadline {
                let why = answer.unwrap_or_else(|error| error.to_string());
                bail!(
                    "the API server is not ready after {} s: {why}{}",
                    START.as_secs(),
                    crate::process::tail(&self.dir.join("kube-apiserver.log"), 15)
                );
            }
            tokio::time::sleep(POLL).await;
        }
        if self.parts != Parts::All {
            return Ok(());
        }
        let mut others = vec![
            ("kube-controller-manager", self.kcm_args()?),
            ("kube-scheduler", self.scheduler_args()?),
        ];
        if self.address.is_none() {
            others.push(("kwok", self.kwok_args()));
        }
        for (name, args) in others {
            running.insert(name, self.spawn(watchdog, name, args)?);
        }
        Ok(())
    }

    fn spawn(&self, watchdog: &Watchdog, name: &str, args: Vec<String>) -> Result<Process> {
        let program = Invocation::new(self.programs.path(name)).args(args);
        // A tenth less CPU for some hundred MB.
        let program = program.env("GOGC", "400");
        watchdog.spawn(name, &program, &self.dir.join(format!("{name}.log")))
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    fn etcd_args(&self) -> Vec<String> {
        vec![
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={}", self.etcd),
            format!("--advertise-client-urls={}", self.etcd),
            format!("--listen-peer-urls={}", self.peer),
            format!("--initial-advertise-peer-urls={}", self.peer),
            format!("--initial-cluster=default={}", self.peer),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ]
    }

    fn apiserver_args(&self) -> Vec<String> {
        let (bind, advertise, reconciler) = match self.address {
            Some(address) => ("0.0.0.0", address, "lease"),
            None => ("127.0.0.1", "127.0.0.1", "none"),
        };
        let mut args = vec![
            format!("--etcd-servers={}", self.etcd),
            format!("--secure-port={}", self.api_port),
            format!("--bind-address={bind}"),
            format!("--advertise-address={advertise}"),
            format!("--endpoint-reconciler-type={reconciler}"),
            format!("--kubelet-client-certificate={}", self.file("kubelet-client.crt")),
            format!("--kubelet-client-key={}", self.file("kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--tls-cert-file={}", self.file("apiserver.crt")),
            format!("--tls-private-key-file={}", self.file("apiserver.key")),
            format!("--client-ca-file={}", self.file("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", self.file("tokens.pub")),
            format!("--service-account-signing-key-file={}", self.file("tokens.key")),
            "--authorization-mode=RBAC".into(),
            // A /24 ends at 254 Services.
            "--service-cluster-ip-range=198.18.0.0/16".into(),
            "--allow-privileged=true".into(),
            format!("--proxy-client-cert-file={}", self.file("front-proxy.crt")),
            format!("--proxy-client-key-file={}", self.file("front-proxy.key")),
            format!("--requestheader-client-ca-file={}", self.file("ca.crt")),
            "--requestheader-allowed-names=front-proxy-client".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            format!("--audit-policy-file={}", self.file("audit-policy.yaml")),
            format!("--audit-log-path={}", self.file("audit.log")),
            "--audit-log-maxsize=10000".into(),
        ];
        if let Parts::Server(Some(feature)) = self.parts {
            args.push(format!("--feature-gates={feature}=false"));
        }
        args
    }

    fn pace_args(&self) -> Vec<String> {
        match self.pace {
            Pace::Unlimited => vec!["--kube-api-qps=2000".into(), "--kube-api-burst=4000".into()],
            Pace::AsShipped => Vec::new(),
        }
    }

    fn kcm_args(&self) -> Result<Vec<String>> {
        let mut args = vec![
            format!("--kubeconfig={}", self.file("kcm.kubeconfig")),
            format!("--service-account-private-key-file={}", self.file("tokens.key")),
            format!("--root-ca-file={}", self.file("ca.crt")),
            format!("--cluster-signing-cert-file={}", self.file("ca.crt")),
            format!("--cluster-signing-key-file={}", self.file("ca.key")),
            "--use-service-account-credentials=true".into(),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", free_port()?),
        ];
        args.extend(self.pace_args());
        Ok(args)
    }

    fn scheduler_args(&self) -> Result<Vec<String>> {
        let mut args = vec![
            format!("--kubeconfig={}", self.file("scheduler.kubeconfig")),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", free_port()?),
        ];
        args.extend(self.pace_args());
        Ok(args)
    }

    fn kwok_args(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.file("kwok.kubeconfig")),
            "--manage-all-nodes=true".into(),
            // Heartbeats keep the node alive; leases would be a write every few seconds.
            "--node-lease-duration-seconds=0".into(),
            format!("--config={}", controlplane::source().join("stages.yaml").display()),
            "--node-ip=127.0.0.1".into(),
        ]
    }
}
