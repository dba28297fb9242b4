//! The chart as helm installs it, on a control plane whose Pods are simulated.
//!
//! Everything is as in a cluster but for the Pods: helm puts the chart's objects there, the API
//! server calls the webhooks through their Service with the certificate that the controller
//! issues, and both programs run as processes with the flags, the identities and the rights of the
//! chart. The Service is of type `ExternalName` with a port of ours (a post-renderer sees to it),
//! and the Secret is brought to the webhook's folder as a kubelet would.

mod helm;
mod mount;
mod readme;
mod service;

pub use readme::readme;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub use self::helm::{Helm, chart};
pub use self::mount::Mount;
pub use self::service::Service;
use crate::cluster::Cluster;
use crate::deploy::{Binaries, Manifests, NAMESPACE, Options, Program, RELEASE, Role, STAMP_KEY};

/// Name of the webhook configurations and of the serving Secret.
pub const ADMISSION: &str = "kubevela-vela-core-admission";
/// How long a program may take to end.
const GRACE: Duration = Duration::from_secs(20);

/// What the kubelet would bring to the webhook's Pods.
#[derive(Debug)]
struct Kubelet {
    mount: Mount,
    wanted: BTreeMap<String, Vec<u8>>,
    held: bool,
}

impl Kubelet {
    fn settle(&mut self) {
        if !self.held {
            // A folder that cannot be written shows as a certificate that does not change.
            let _ = self.mount.bring(&self.wanted);
        }
    }
}

/// A release and its two programs.
#[derive(Debug)]
pub struct Release {
    cluster: Arc<Cluster>,
    binaries: Binaries,
    helm: Helm,
    service: Service,
    kubelet: Arc<Mutex<Kubelet>>,
    webhooks: Mutex<Vec<Program>>,
    controller: Mutex<Option<Program>>,
    /// Carries Service and kubelet, whichever test's runtime comes and goes.
    runtime: Option<Runtime>,
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Release {
    /// Everything but the release itself: helm, the Service's address, the kubelet.
    ///
    /// # Errors
    /// When the control plane does not answer.
    pub async fn prepare(cluster: Arc<Cluster>, binaries: Binaries) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cluster")
            .enable_all()
            .build()?;
        let service = Service::start(runtime.handle())?;
        let renderer = post_renderer(cluster.dir(), service.port())?;
        let helm =
            Helm::new(&cluster.dir().join("helm"))?.on(cluster.kubeconfig()).through(renderer);
        let kubelet = Arc::new(Mutex::new(Kubelet {
            mount: Mount::new(&cluster.dir().join("mounted"))?,
            wanted: BTreeMap::new(),
            held: false,
        }));
        let key = Arc::new(Mutex::new(Kubelet {
            mount: Mount::new(&cluster.dir().join("mounted-key"))?,
            wanted: BTreeMap::new(),
            held: false,
        }));
        for (name, pod) in [(ADMISSION, Arc::clone(&kubelet)), (STAMP_KEY, key)] {
            // The client lives in the runtime that uses it.
            let kubeconfig = cluster.kubeconfig();
            runtime.spawn(async move {
                if let Ok(client) = crate::cluster::client(&kubeconfig).await {
                    follow(client, name, &pod).await;
                }
            });
        }
        Ok(Self {
            cluster,
            binaries,
            helm,
            service,
            kubelet,
            webhooks: Mutex::default(),
            controller: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    /// Helm, on this cluster.
    #[must_use]
    pub fn helm(&self) -> &Helm {
        &self.helm
    }

    /// The control plane.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Installs or upgrades the release and rolls the programs.
    ///
    /// # Errors
    /// When helm fails or a program does not become ready.
    pub async fn put(&self, verb: &str, args: &[&str]) -> Result<()> {
        let (helm, verb) = (self.helm.clone(), verb.to_owned());
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        tokio::task::spawn_blocking(move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            helm.put(&verb, &chart(), &args)
        })
        .await??;
        self.roll().await
    }

    /// Runs what the release says now, as a rolling update would: new before old.
    ///
    /// # Errors
    /// When a program does not become ready.
    pub async fn roll(&self) -> Result<()> {
        let manifests = Manifests::parse(&self.helm.run(&["get", "manifest", RELEASE])?)?;
        let options = Options {
            webhook_flags: vec![
                format!("--webhook-cert-dir={}", self.cluster.dir().join("mounted").display()),
                format!("--stamp-key-dir={}", self.cluster.dir().join("mounted-key").display()),
                // Until the Service sends nobody here any more; 8 s in a cluster.
                "--shutdown-delay-duration=1s".to_owned(),
            ],
            controller_flags: vec!["--webhook-certificates=managed".to_owned()],
            ..Options::default()
        };
        let prepare = async |role| {
            Program::prepare(role, &self.cluster, &self.binaries, &manifests, &options).await
        };
        let controller = prepare(Role::Controller).await?;
        controller.start(&self.cluster)?;
        let mut webhooks = Vec::new();
        for _ in 0..2 {
            let webhook = prepare(Role::Webhook).await?;
            webhook.start(&self.cluster)?;
            webhooks.push(webhook);
        }
        for webhook in &webhooks {
            webhook.ready().await?;
        }
        self.service.serve(webhooks.iter().map(Program::port).collect());
        let old = std::mem::replace(&mut *self.webhooks.lock(), webhooks);
        let leader = self.controller.lock().replace(controller);
        tokio::task::spawn_blocking(move || {
            for program in old.iter().chain(leader.iter()) {
                if !program.stop(GRACE)? {
                    bail!("a program did not end when asked to");
                }
            }
            Ok(())
        })
        .await??;
        // The successor takes the lead when the lock is given back.
        let ready = self.controller.lock().take();
        if let Some(controller) = ready {
            let outcome = controller.ready().await;
            *self.controller.lock() = Some(controller);
            outcome?;
        }
        Ok(())
    }

    /// An error if a program has ended.
    ///
    /// # Errors
    /// When one has; with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.webhooks.lock().iter().try_for_each(Program::check)?;
        self.controller.lock().as_ref().map_or(Ok(()), Program::check)
    }

    /// Ends both programs, as `helm uninstall` ends Pods.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn stop(&self) -> Result<()> {
        self.service.serve(Vec::new());
        for program in self.webhooks.lock().drain(..).chain(self.controller.lock().take()) {
            program.stop(GRACE)?;
        }
        Ok(())
    }

    /// From now on the webhook's folder stays as it is, as on a node that is cut off.
    pub fn hold_mount(&self) {
        self.kubelet.lock().held = true;
    }

    /// The folder follows the Secret again.
    pub fn release_mount(&self) {
        let mut kubelet = self.kubelet.lock();
        kubelet.held = false;
        kubelet.settle();
    }
}

async fn follow(client: Client, name: &str, kubelet: &Mutex<Kubelet>) {
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(secrets, named).boxed();
    while let Some(event) = events.next().await {
        let wanted = match event {
            Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => secret
                .data
                .unwrap_or_default()
                .into_iter()
                .map(|(name, bytes)| (name, bytes.0))
                .collect(),
            Ok(watcher::Event::Delete(_)) => BTreeMap::new(),
            // The watcher tries again by itself.
            _ => continue,
        };
        let mut kubelet = kubelet.lock();
        kubelet.wanted = wanted;
        kubelet.settle();
    }
}

/// Makes the Service one that leads to a port on this machine.
fn post_renderer(dir: &Path, port: u16) -> Result<std::path::PathBuf> {
    let path = dir.join("post-render.sh");
    let script = format!(
        "#!/bin/sh\nexec sed -e 's/^\\( *\\)port: 443$/\\1port: {port}/' \
         -e 's/^\\( *\\)type: ClusterIP$/\\1type: ExternalName\\n\\1externalName: localhost/'\n"
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// An Application of the built-in type `webservice`.
#[must_use]
pub fn application(name: &str, image: &Value) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "components": [
            { "name": "web", "type": "webservice", "properties": { "image": image } },
        ] },
    })
}

/// Applications of namespace `default`.
#[must_use]
pub fn applications(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind))
}

/// Whether admission works: it takes what is right and refuses what is wrong, with its own words.
///
/// # Errors
/// When it does not; with the answer.
pub async fn admits(client: &Client) -> Result<()> {
    let api = applications(client.clone());
    let dry = PostParams { dry_run: true, field_manager: None };
    let good = serde_json::from_value(application("probe", &json!("nginx")))?;
    let taken = api.create(&dry, &good).await.context("a good Application is refused")?;
    if taken.name_any() != "probe" {
        bail!("the answer is about another object");
    }
    let bad = serde_json::from_value(application("probe", &json!(17)))?;
    match api.create(&dry, &bad).await {
        Ok(_) => bail!("a bad Application is taken: nobody asked the webhook"),
        Err(kube::Error::Api(status)) if status.message.contains("denied the request") => Ok(()),
        Err(error) => Err(error).context("a bad Application is not refused by the webhook"),
    }
}
