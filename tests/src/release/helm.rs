//! The pinned helm, with a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::controlplane::Programs;
use crate::deploy::{KUBERNETES, NAMESPACE, RELEASE};
use crate::material;

/// Helm, on a cluster or on none.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    home: PathBuf,
    kubeconfig: Option<PathBuf>,
    post_renderer: Option<PathBuf>,
}

impl Helm {
    /// Helm without a cluster, for `lint` and `template`; `home` holds its caches.
    ///
    /// # Errors
    /// When it has to be built and cannot.
    pub fn new(home: &Path) -> Result<Self> {
        Ok(Self {
            program: Programs::helm()?,
            home: home.to_path_buf(),
            kubeconfig: None,
            post_renderer: None,
        })
    }

    /// With a cluster.
    #[must_use]
    pub fn on(mut self, kubeconfig: PathBuf) -> Self {
        self.kubeconfig = Some(kubeconfig);
        self
    }

    /// With a program that what is rendered goes through.
    #[must_use]
    pub fn through(mut self, post_renderer: PathBuf) -> Self {
        self.post_renderer = Some(post_renderer);
        self
    }

    /// Runs helm and gives its output.
    ///
    /// # Errors
    /// When it fails; with what it said.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .args(["--namespace", NAMESPACE])
            .env("HELM_CACHE_HOME", self.home.join("cache"))
            .env("HELM_CONFIG_HOME", self.home.join("config"))
            .env("HELM_DATA_HOME", self.home.join("data"))
            .env_remove("KUBECONFIG");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        if let Some(renderer) = &self.post_renderer
            && matches!(args.first(), Some(&"install" | &"upgrade" | &"template"))
        {
            command.arg("--post-renderer").arg(renderer);
        }
        // this helm is built without a version of Kubernetes, and takes itself for a very old one
        if args.first() == Some(&"template") {
            command.args(["--kube-version", KUBERNETES]);
        }
        let output = command.stdin(Stdio::null()).output().context("cannot run helm")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("helm {}: {text}{}", args.join(" "), errors.trim_end());
        }
        Ok(text)
    }

    /// `install` or `upgrade` of a chart under the harness's release name, waiting until every
    /// Deployment is available.
    ///
    /// # Errors
    /// When helm fails.
    pub fn put(&self, verb: &str, chart: &Path, args: &[&str]) -> Result<String> {
        let chart = chart.to_string_lossy();
        let mut all = vec![verb, RELEASE, &chart, "--wait", "--timeout", "180s"];
        if verb == "install" {
            all.push("--create-namespace");
        }
        all.extend(args);
        self.run(&all)
    }
}

/// Our chart.
#[must_use]
pub fn chart() -> PathBuf {
    material::workspace().join("charts/vela-core")
}
