//! Nodes that run containers: containerd, kubelet and kube-proxy in namespaces of their own.
//!
//! A process that does this was started by `unshare` with a network, a mount and a process
//! namespace: no address outside is ever used, mounts are private, and everything ends with it.
//! Several nodes share the network namespace, each with a bridge and a range of Pod addresses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cluster::Cluster;
use crate::process::{Invocation, Process};

/// Where the API server is reached.
pub const ADDRESS: &str = "192.0.2.10";
/// How long a node may take until it is ready.
const READY: Duration = Duration::from_secs(180);

const PROGRAMS: [&str; 10] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "ip",
    "iptables",
    "ldd",
    "mount",
    "tar",
    "unshare",
];
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
/// How the namespaces are made.
pub const NAMESPACES: [&str; 6] =
    ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// What this machine lacks to be a node; empty if it can be one.
#[must_use]
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    for name in PROGRAMS {
        if find(name).is_none() {
            missing.push(format!("the program {name}"));
        }
    }
    if plugins().is_none() {
        missing.push("the network plugins bridge, host-local and loopback".to_owned());
    }
    let tried =
        Command::new("unshare").args(NAMESPACES).args(["--", "true"]).stdin(Stdio::null()).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        missing.push("the right to make namespaces (root)".to_owned());
    }
    missing
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The folder of the network plugins: `$CNI_BIN_DIR`, or where packages put them.
fn plugins() -> Option<PathBuf> {
    let named = std::env::var_os("CNI_BIN_DIR").map(PathBuf::from);
    let usual = ["/usr/lib/cni", "/opt/cni/bin"].map(PathBuf::from);
    named
        .into_iter()
        .chain(usual)
        .find(|dir| PLUGINS.iter().all(|plugin| dir.join(plugin).is_file()))
}

/// Prepares the namespaces: addresses, and private folders where programs write to fixed places.
///
/// # Errors
/// When the operating system refuses.
pub fn prepare() -> Result<()> {
    let address = format!("{ADDRESS}/24");
    for command in [
        "ip link set lo up",
        "ip link add node type bridge",
        &format!("ip addr add {address} dev node"),
        "ip link set node up",
        "ip route add default dev node",
        "mount -t tmpfs tmpfs /run",
        "mount -t tmpfs tmpfs /var/log",
    ] {
        let mut words = command.split(' ');
        run(Command::new(words.next().unwrap_or_default()).args(words))?;
    }
    for dir in ["/var/lib/cni", "/var/lib/kubelet"] {
        fs::create_dir_all(dir)?;
        run(Command::new("mount").args(["-t", "tmpfs", "tmpfs", dir]))?;
    }
    for setting in ["ipv4/ip_forward", "ipv4/conf/all/route_localnet"] {
        fs::write(Path::new("/proc/sys/net").join(setting), "1")?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", errors.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// An image as a file that containerd imports.
#[derive(Debug, Clone)]
pub struct Image(PathBuf);

impl Image {
    /// An image of one layer: the programs at their places, and the libraries they need. The first
    /// is what runs.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn make(dir: &Path, tag: &str, programs: &[(&Path, &str)], user: &str) -> Result<Self> {
        let name = tag.replace([':', '/'], "-");
        let dir = dir.join(&name);
        let root = dir.join("root");
        fs::create_dir_all(&root)?;
        let entry = programs.first().map(|(_, path)| format!("/{path}"));
        for (program, path) in programs {
            let target = root.join(path);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            copy(program, &target)?;
            for library in libraries(program) {
                let target = root.join(library.strip_prefix("/").unwrap_or(&library));
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::copy(&library, &target)?;
            }
        }
        let layer = dir.join("layer.tar");
        let owner = ["--numeric-owner", "--owner=0", "--group=0", "-cf"];
        run(Command::new("tar").args(owner).arg(&layer).arg("-C").arg(&root).arg("."))?;
        let digest = Sha256::digest(fs::read(&layer)?);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Entrypoint": [entry], "User": user, "Env": ["PATH=/"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
            "history": [{ "created_by": "tests" }],
        });
        fs::write(dir.join("config.json"), config.to_string())?;
        let manifest =
            json!([{ "Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"] }]);
        fs::write(dir.join("manifest.json"), manifest.to_string())?;
        let image = dir.join("image.tar");
        let parts = ["manifest.json", "config.json", "layer.tar"];
        run(Command::new("tar").arg("-cf").arg(&image).arg("-C").arg(&dir).args(parts))?;
        fs::remove_dir_all(&root)?;
        fs::remove_file(&layer)?;
        Ok(Self(image))
    }
}

/// Without debugging information, where there is a program that can leave it out.
fn copy(program: &Path, target: &Path) -> Result<()> {
    let stripped =
        Command::new("strip").arg("-o").arg(target).arg(program).stderr(Stdio::null()).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(program, target)?;
    }
    Ok(())
}

/// The libraries a program loads; none for a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(text) = run(Command::new("ldd").arg(program)) else { return Vec::new() };
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    name: String,
    /// The programs end with the cluster's watchdog.
    processes: Vec<Process>,
}

impl Node {
    /// Starts the node with this number; `dir` holds its containers.
    ///
    /// # Errors
    /// When a program does not start or the node does not become ready.
    pub async fn start(
        cluster: &Cluster,
        number: u16,
        dir: &Path,
        images: &[Image],
    ) -> Result<Self> {
        let name = format!("node-{number}");
        let run_dir = PathBuf::from(format!("/run/{name}"));
        fs::create_dir_all(run_dir.join("cni"))?;
        let plugins = plugins().context("the network plugins are missing")?;
        let network = json!({
            "cniVersion": "0.4.0", "name": name, "plugins": [{
                "type": "bridge", "bridge": format!("pods{number}"), "isGateway": true,
                "ipam": {
                    "type": "host-local", "dataDir": run_dir.join("ipam"),
                    "ranges": [[{ "subnet": format!("192.0.2.{}/26", 128 + 64 * number) }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            }],
        });
        fs::write(run_dir.join("cni/10-pods.conflist"), network.to_string())?;
        let socket = run_dir.join("containerd.sock");
        fs::write(
            run_dir.join("containerd.toml"),
            format!(
                "version = 2\nroot = {root:?}\nstate = {state:?}\n\
                 disabled_plugins = [\"io.containerd.snapshotter.v1.btrfs\", \
                 \"io.containerd.snapshotter.v1.zfs\", \"io.containerd.snapshotter.v1.devmapper\", \
                 \"io.containerd.snapshotter.v1.aufs\"]\n\
                 [grpc]\naddress = {socket:?}\n\
                 [plugins.\"io.containerd.internal.v1.opt\"]\npath = {opt:?}\n\
                 [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"local/pause:1\"\n\
                 restrict_oom_score_adj = true\n\
                 [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = {plugins:?}\n\
                 conf_dir = {conf:?}\n",
                root = dir.join(&name).join("containerd"),
                state = run_dir.join("containerd"),
                opt = run_dir.join("opt"),
                conf = run_dir.join("cni"),
            ),
        )?;
        let containerd = Invocation::new("containerd").args([
            "--config".to_owned(),
            run_dir.join("containerd.toml").to_string_lossy().into_owned(),
        ]);
        let log = |program: &str| cluster.dir().join(format!("{program}-{number}.log"));
        let containerd = cluster.watchdog().spawn("containerd", &containerd, &log("containerd"))?;
        let ctr = |args: &[&str]| {
            let mut command = Command::new("ctr");
            run(command.arg("--address").arg(&socket).args(["-n", "k8s.io"]).args(args))
        };
        let deadline = Instant::now() + READY;
        while let Err(error) = ctr(&["version"]) {
            containerd.check()?;
            if Instant::now() > deadline {
                return Err(error).context("containerd does not answer");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for Image(image) in images {
            ctr(&["images", "import", &image.to_string_lossy()])?;
        }
        let kubelet = kubelet(cluster, &name, number, dir, &socket)?;
        let kubelet = cluster.watchdog().spawn("kubelet", &kubelet, &log("kubelet"))?;
        let mut processes = vec![containerd, kubelet];
        if number == 0 {
            let program = cluster.programs().path("kube-proxy");
            let proxy = Invocation::new(program).args([
                format!("--kubeconfig={}", cluster.kubeconfig().display()),
                "--proxy-mode=iptables".into(),
                "--conntrack-max-per-core=0".into(),
                "--conntrack-min=0".into(),
                format!("--hostname-override={name}"),
            ]);
            processes.push(cluster.watchdog().spawn("kube-proxy", &proxy, &log("kube-proxy"))?);
        }
        let node = Self { name, processes };
        node.ready(cluster).await?;
        Ok(node)
    }

    /// Its name in the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn ready(&self, cluster: &Cluster) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(cluster.client().await?);
        let deadline = Instant::now() + READY;
        loop {
            self.processes.iter().try_for_each(Process::check)?;
            let node = nodes.get_opt(&self.name).await?;
            let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
            if conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True") {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{} is not ready: {conditions:#?}", self.name);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn kubelet(
    cluster: &Cluster,
    name: &str,
    number: u16,
    dir: &Path,
    socket: &Path,
) -> Result<Invocation> {
    let home = dir.join(name).join("kubelet");
    fs::create_dir_all(&home)?;
    let serving = cluster.authority().server(name, &[ADDRESS])?;
    serving.write(&home, "serving")?;
    let settings: Value = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": false },
            "x509": { "clientCAFile": cluster.dir().join("ca.crt") },
        },
        "authorization": { "mode": "AlwaysAllow" },
        "tlsCertFile": home.join("serving.crt"),
        "tlsPrivateKeyFile": home.join("serving.key"),
        "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
        "cgroupDriver": "cgroupfs",
        // Two kubelets on one machine must not tidy up each other's groups.
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "resolvConf": "",
        "port": 10250 + number,
        "healthzPort": 10348 + number,
        "podLogsDir": format!("/var/log/pods-{name}"),
        "evictionHard": {
            "memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%",
            "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
    });
    let config = home.join("config.json");
    fs::write(&config, settings.to_string())?;
    Ok(Invocation::new(cluster.programs().path("kubelet")).args([
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        format!("--config={}", config.display()),
        format!("--root-dir={}", home.display()),
        format!("--cert-dir={}", home.display()),
        format!("--hostname-override={name}"),
        format!("--node-ip={ADDRESS}"),
    ]))
}
