//! The programs of the control plane: etcd, the Kubernetes components and kwok, and helm, built once
//! from the Go modules in `tests/controlplane`, whose `go.sum` names every byte of them.
//!
//! The build goes to a cache of the user (`$XDG_CACHE_HOME/vela-rs`), keyed by the contents of
//! the module files, so that a fresh clone on the same machine does not link again. Programs found
//! in `$KUBEBUILDER_ASSETS` are used instead.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::material;
use crate::progress::Step;

/// Program, folder of its Go module below `tests/controlplane`, package. One module for all of a control plane: what they share is
/// compiled once.
const CONTROL_PLANE: [(&str, &str, &str); 5] = [
    ("etcd", "", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kwok", "", "./kwok"),
];

/// What tests compare with; a control plane does not need it.
const HELM: (&str, &str, &str) = ("helm", "", "helm.sh/helm/v3/cmd/helm");

/// What a real node runs, from a module of its own.
const NODE: [(&str, &str, &str); 4] = [
    ("kubectl", "node", "k8s.io/kubernetes/cmd/kubectl"),
    ("kubelet", "node", "k8s.io/kubernetes/cmd/kubelet"),
    ("kube-proxy", "node", "k8s.io/kubernetes/cmd/kube-proxy"),
    ("pause", "node", "./pause"),
];

/// KubeVela's gateway, with which ours is compared, from a module of its own.
const ORIGINAL: (&str, &str, &str) =
    ("cluster-gateway", "gateway", "github.com/oam-dev/cluster-gateway/cmd/apiserver");

/// Without these the API server would report version v0.0.0.
const LDFLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4 \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34";

/// How packages are compiled. The linker would leave line tables and types out (`-s -w`), so the compiler need not make them. Without
/// inlining it takes a quarter less time, except for [`INLINED`].
const GCFLAGS: &str = "-dwarf=false";

/// Patterns of the packages in which a request spends its time; most of the others are generated code.
const INLINED: [&str; 9] = [
    "std",
    "go.etcd.io/...",
    "google.golang.org/...",
    "golang.org/...",
    "github.com/fxamacker/...",
    "github.com/gogo/...",
    "k8s.io/apimachinery/...",
    "k8s.io/apiserver/...",
    "sigs.k8s.io/...",
];

/// A compiler ends before its garbage is worth collecting: a tenth of its time. The limit is for the largest packages, several of which
/// are compiled at a time.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "1500MiB")];

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    assets: Option<PathBuf>,
    built: PathBuf,
    node: PathBuf,
    gateway: PathBuf,
}

impl Programs {
    /// Finds the programs of a control plane, and builds those that are missing.
    ///
    /// # Errors
    /// When Go is missing or a build fails; the text says what to do.
    pub fn ready() -> Result<Self> {
        Self::only(&CONTROL_PLANE.map(|(name, ..)| name))
    }

    /// Finds helm or builds it.
    ///
    /// # Errors
    /// As [`Programs::ready`].
    pub fn helm() -> Result<PathBuf> {
        Ok(Self::only(&[HELM.0])?.path(HELM.0))
    }

    /// Finds KubeVela's gateway or builds it.
    ///
    /// # Errors
    /// As [`Programs::ready`].
    pub fn original_gateway() -> Result<PathBuf> {
        Ok(Self::only(&[ORIGINAL.0])?.path(ORIGINAL.0))
    }

    /// The programs that are there, built before or not.
    ///
    /// # Errors
    /// When no folder for them can be made.
    pub fn found() -> Result<Self> {
        let built = cache()?.join(key(&["go.mod", "go.sum", "kwok/main.go"])?);
        let node = key(&["node/go.mod", "node/go.sum", "node/pause/main.go"])?;
        let node = cache()?.join(format!("node-{node}"));
        let gateway = key(&["gateway/go.mod", "gateway/go.sum"])?;
        let gateway = cache()?.join(format!("gateway-{gateway}"));
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        Ok(Self { assets, built, node, gateway })
    }

    fn only(names: &[&str]) -> Result<Self> {
        let programs = Self::found()?;
        if programs.missing(names).is_empty() {
            return Ok(programs);
        }
        for dir in [&programs.built, &programs.node, &programs.gateway] {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        // Two runs on one machine must not link the same program twice at the same time.
        let lock = File::create(programs.built.join(".lock"))?;
        if lock.try_lock().is_err() {
            let step = Step::start("waiting for another process that builds the control plane");
            lock.lock()?;
            step.done();
        }
        // One build of all programs of a module compiles while it links.
        let missing = programs.missing(names);
        thread::scope(|scope| {
            let builds = missing.chunk_by(|(name, module, _), (next, other, _)| {
                (module, cgo(name)) == (other, cgo(next))
            });
            let programs = &programs;
            let builds: Vec<_> =
                builds.map(|build| scope.spawn(move || programs.build(build))).collect();
            builds.into_iter().try_for_each(|build| {
                build.join().unwrap_or_else(|_| bail!("building the control plane panicked"))
            })
        })?;
        Ok(programs)
    }

    /// Builds also what a real node runs.
    ///
    /// # Errors
    /// As [`Programs::ready`].
    pub fn with_node() -> Result<Self> {
        Self::ready()?;
        Self::only(&NODE.map(|(name, ..)| name))
    }

    /// The path of a program.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.asset(name).unwrap_or_else(|| self.folder(name).join(name))
    }

    fn folder(&self, name: &str) -> &Path {
        match name {
            name if name == ORIGINAL.0 => &self.gateway,
            name if NODE.iter().any(|(one, ..)| *one == name) => &self.node,
            _ => &self.built,
        }
    }

    fn asset(&self, name: &str) -> Option<PathBuf> {
        self.assets.as_ref().map(|dir| dir.join(name)).filter(|path| path.is_file())
    }

    fn missing(&self, names: &[&str]) -> Vec<(&'static str, &'static str, &'static str)> {
        let wanted = CONTROL_PLANE
            .into_iter()
            .chain([HELM, ORIGINAL])
            .chain(NODE)
            .filter(|(name, ..)| names.contains(name));
        wanted.filter(|(name, ..)| !self.path(name).is_file()).collect()
    }

    /// Builds programs of one module, all with cgo or all without.
    fn build(&self, programs: &[(&str, &str, &str)]) -> Result<()> {
        let Some((first, module, _)) = programs.first() else { return Ok(()) };
        let names = programs.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        let Ok(go) = Command::new("go").arg("version").stdin(Stdio::null()).output() else {
            bail!(
                "the control plane needs {names}, which are built with Go, and there is no `go` on \
                 PATH: install Go 1.26 or later (https://go.dev/dl), or set KUBEBUILDER_ASSETS to \
                 a folder that holds etcd, kube-apiserver, kube-controller-manager, \
                 kube-scheduler, kwok and helm"
            );
        };
        let version = String::from_utf8_lossy(&go.stdout).trim().to_owned();
        let step = Step::start(format!("building {names}, once per machine"));
        let unfinished = self.folder(first).join(format!(".{first}"));
        fs::create_dir_all(&unfinished)?;
        let output = Command::new("go")
            .current_dir(source().join(module))
            .env("CGO_ENABLED", cgo(first))
            .envs(GARBAGE_COLLECTION)
            .args(["build", "-trimpath", "-ldflags", LDFLAGS])
            .args(gcflags().flat_map(|flags| ["-gcflags".to_owned(), flags]))
            .arg("-o")
            .arg(&unfinished)
            .args(programs.iter().map(|(.., package)| package))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run go to build {names}"))?;
        if !output.status.success() {
            bail!(
                "building {names} with {version} failed:\n{}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        for (name, _, package) in programs {
            let built = unfinished.join(executable(package));
            fs::rename(built, self.folder(name).join(name))
                .with_context(|| format!("go built {package} under another name"))?;
        }
        fs::remove_dir(&unfinished)?;
        step.done();
        Ok(())
    }
}

/// The flags of packages by pattern; the last one that a package matches counts.
fn gcflags() -> impl Iterator<Item = String> {
    let inlined = INLINED.iter().map(|packages| format!("{packages}={GCFLAGS}"));
    std::iter::once(format!("all={GCFLAGS} -l")).chain(inlined)
}

/// `pause` is static, so that its container needs nothing else.
fn cgo(name: &str) -> &'static str {
    if name == "pause" { "0" } else { "1" }
}

/// What `go build` names the program of a package: the last element of its path that is not the major version of its module.
fn executable(package: &str) -> &str {
    let major = |element: &str| {
        element.strip_prefix('v').is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    package.rsplit('/').find(|element| !major(element)).unwrap_or(package)
}

/// The folder of the Go modules.
#[must_use]
pub fn source() -> PathBuf {
    material::workspace().join("tests/controlplane")
}

fn cache() -> Result<PathBuf> {
    let user = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let dir = user.map_or_else(material::target, |dir| dir.join("vela-rs")).join("controlplane");
    // A home that cannot be written to (CI users often have none) is no reason to fail.
    if fs::create_dir_all(&dir).is_ok() {
        return Ok(dir);
    }
    let dir = material::target().join("controlplane");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Changes whenever another version of any program would be built.
fn key(files: &[&str]) -> Result<String> {
    let mut hash = Sha256::new();
    for file in files {
        let path = source().join(file);
        hash.update(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    gcflags().for_each(|flags| hash.update(flags));
    hash.update(LDFLAGS);
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
