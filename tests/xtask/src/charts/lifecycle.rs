//! The life of a release with the real helm: over a Go installation, upgrades, rollbacks, removal.
//!
//! Pods are simulated; both programs run as processes with the chart's flags, identities and
//! rights, and the API server calls the webhook through its Service. After each step admission
//! works and nothing is left over.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, ObjectList, Patch, PatchParams};
use kube::discovery::{Discovery, verbs};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Manifests, NAMESPACE, RELEASE, apply};
use vela_tests::material;
use vela_tests::progress::Step;
use vela_tests::release::{Helm, Release, admits, application, applications};

use super::predecessor;

/// What `helm uninstall` leaves in the release's namespace, on purpose: the certificate and the key of
/// stamps, so that a new installation continues with them, and the lock. The README says how to remove them.
const KEPT: [&str; 4] = [
    "Secret vela-system/kubevela-vela-core-admission",
    "Secret vela-system/kubevela-vela-core-admission-ca",
    "Secret vela-system/kubevela-vela-core-stamp-key",
    "Lease vela-system/kubevela",
];

pub(super) async fn run(cluster: Arc<Cluster>, binaries: Binaries) -> Result<()> {
    let client = cluster.client().await?;
    let release = Release::prepare(Arc::clone(&cluster), binaries).await?;

    let step = Step::start("installing the parts of a Go installation");
    let empty = everything(&client).await?;
    let old = predecessor::chart(cluster.dir())?;
    helm(&release, "install", &old, &[]).await?;
    apply(&client, &predecessor::secret()?).await?;
    // From before the upgrade, when nobody asked who its author is.
    applications(client.clone())
        .create(&kube::api::PostParams::default(), &typed(application("before", &json!("nginx")))?)
        .await?;
    step.done();

    let step = Step::start("upgrade over it, with its values reused");
    release.put("upgrade", &["--reuse-values"]).await?;
    sound(&release, &client).await?;
    ensure!(!is_safe(&client).await?, "an upgrade keeps the old mode");
    runs(&client, "before").await?;
    ensure!(view(&client).await? == own_view()?, "an upgrade brings the views of this chart");
    step.done();

    let changes: [&[&str]; 3] = [
        &["--set", "concurrentReconciles=7", "--set", "webhook.podDisruptionBudget.enabled=false"],
        // Accounts of controllers: on here, off with the next one, on with the rollback.
        &[
            "--set",
            "webhook.autoscaling.enabled=true",
            "--set",
            "networkPolicy.enabled=true",
            "--set",
            "controller.serviceAccountCredentials=true",
        ],
        &["--set", "authentication.enabled=true"],
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let step = Step::start(format!("upgrade {} of 3, {}", index + 1, change.join(" ")));
        // Admission is asked all the time; there is no moment without it.
        let probe = Probe::start(&client, 2);
        release.put("upgrade", change).await?;
        sound(&release, &client).await?;
        let (asked, failures) = probe.stop().await?;
        ensure!(
            failures.is_empty(),
            "of {asked} questions failed {}: {failures:?}",
            failures.len()
        );
        ensure!(asked > 5, "admission was asked {asked} times only");
        edit(&client, "before", "nginx", index).await?;
        runs(&client, "before").await?;
        step.done();
    }
    ensure!(is_safe(&client).await?, "the last upgrade switched to the safe mode");

    let step = Step::start("rollback by one: the old mode again");
    roll_back(&release, "4").await?;
    release.roll().await?;
    sound(&release, &client).await?;
    ensure!(!is_safe(&client).await?, "the revision before ran in the old mode");
    step.done();

    let step = Step::start("rollback to the Go chart, and forward again");
    roll_back(&release, "1").await?;
    no_orphans(&release, &client).await?;
    ensure!(view(&client).await? == predecessor::VIEW_TEXT, "the Go chart has its own view again");
    release.put("upgrade", &[]).await?;
    sound(&release, &client).await?;
    runs(&client, "before").await?;
    step.done();

    let step = Step::start("uninstall");
    uninstall(&release).await?;
    let left: BTreeSet<String> = everything(&client).await?.difference(&empty).cloned().collect();
    let odd: Vec<&String> = left.iter().filter(|one| !is_expected(one)).collect();
    ensure!(odd.is_empty(), "left over: {odd:?}");
    // Who removes the control plane can still remove Applications, and nothing waits for it.
    edit(&client, "before", "nginx", 99).await.context("an edit without a control plane")?;
    step.done();

    let step = Step::start("install again: what was kept is taken up");
    release.put("install", &["--set", "authentication.enabled=false"]).await?;
    sound(&release, &client).await?;
    runs(&client, "before").await?;
    uninstall(&release).await?;
    step.done();
    Ok(())
}

pub(super) fn typed(object: Value) -> Result<DynamicObject> {
    Ok(serde_json::from_value(object)?)
}

async fn helm(release: &Release, verb: &str, chart: &Path, args: &[&str]) -> Result<()> {
    let (helm, verb, chart): (Helm, _, _) =
        (release.helm().clone(), verb.to_owned(), chart.to_path_buf());
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        helm.put(&verb, &chart, &args).map(|_| ())
    })
    .await?
}

async fn roll_back(release: &Release, revision: &str) -> Result<()> {
    let (helm, revision) = (release.helm().clone(), revision.to_owned());
    let wait = ["--wait", "--timeout", "180s"];
    tokio::task::spawn_blocking(move || {
        let mut args = vec!["rollback", RELEASE, &revision];
        args.extend(wait);
        helm.run(&args).map(|_| ())
    })
    .await?
}

async fn uninstall(release: &Release) -> Result<()> {
    let helm = release.helm().clone();
    let gone = tokio::task::spawn_blocking(move || {
        helm.run(&["uninstall", RELEASE, "--wait", "--timeout", "120s"]).map(|_| ())
    });
    gone.await??;
    release.stop()
}

/// Admission works, the programs run and nothing is left of an earlier revision.
async fn sound(release: &Release, client: &Client) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = admits(client).await {
        release.check()?;
        if Instant::now() > deadline {
            return Err(error).context("admission does not work");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    release.check()?;
    no_orphans(release, client).await
}

/// Every object that carries the release's name is one of its present manifest.
async fn no_orphans(release: &Release, client: &Client) -> Result<()> {
    let manifest = Manifests::parse(&release.helm().run(&["get", "manifest", RELEASE])?)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut odd = Vec::new();
        for object in objects(client).await? {
            let metadata = &object["metadata"];
            // What Kubernetes derives from an object inherits its annotations.
            let is_derived =
                metadata["ownerReferences"].is_array() || object["kind"] == "Endpoints";
            if is_derived || metadata["annotations"]["meta.helm.sh/release-name"] != RELEASE {
                continue;
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            let is_known =
                manifest.of(kind).any(|known| known["metadata"]["name"] == metadata["name"]);
            if !is_known {
                odd.push(named(&object));
            }
        }
        if odd.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "left over from an earlier revision: {odd:?}");
    }
}

/// All objects that can be listed and that somebody made.
async fn objects(client: &Client) -> Result<Vec<Value>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut kinds = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.supports_operation(verbs::LIST) {
                kinds.push(resource);
            }
        }
    }
    let lists = stream::iter(kinds).map(|resource| {
        let client = client.clone();
        async move {
            let api: Api<DynamicObject> = Api::all_with(client, &resource);
            let list = list(&api).await?;
            let kind = resource.kind.clone();
            anyhow::Ok(list.items.into_iter().map(move |mut object| {
                object.types = Some(kube::core::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: kind.clone(),
                });
                serde_json::to_value(object)
            }))
        }
    });
    let lists: Vec<_> = lists.buffer_unordered(8).collect().await;
    let mut all = Vec::new();
    for list in lists {
        for object in list? {
            all.push(object?);
        }
    }
    Ok(all)
}

/// A kind that was defined a moment ago may not be listed yet.
async fn list(api: &Api<DynamicObject>) -> kube::Result<ObjectList<DynamicObject>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 429 && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => return other,
        }
    }
}

fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{}", text(&metadata["name"])),
        None => format!("{kind} {}", text(&metadata["name"])),
    }
}

async fn everything(client: &Client) -> Result<BTreeSet<String>> {
    Ok(objects(client).await?.iter().map(named).collect())
}

/// What may be there after the release is gone: what was kept on purpose, what Applications made,
/// and what Kubernetes itself makes.
fn is_expected(object: &str) -> bool {
    let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
    KEPT.contains(&object)
        || matches!(kind, "CustomResourceDefinition" | "APIService" | "Event" | "Lease")
            && !name.starts_with("vela-system/")
        || kind == "Event"
        || object == "Namespace vela-system"
        // Each namespace has these.
        || object == "ConfigMap vela-system/kube-root-ca.crt"
        || object == "ServiceAccount vela-system/default"
        // Applications outlive the control plane, with all their objects.
        || name.starts_with("default/")
        || kind == "ResourceTracker"
        // The controller made them of ComponentDefinitions; Applications may use them.
        || kind == "WorkloadDefinition"
}

/// A view as clients of the cluster read it.
async fn view(client: &Client) -> Result<String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let view = api.get(predecessor::VIEW).await.context("a view of the installation")?;
    Ok(view.data.unwrap_or_default().remove("template").unwrap_or_default())
}

/// The same view as the chart has it.
fn own_view() -> Result<String> {
    let file = format!("charts/vela-core/files/views/{}.cue", predecessor::VIEW);
    Ok(std::fs::read_to_string(material::workspace().join(file))?)
}

async fn is_safe(client: &Client) -> Result<bool> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    Ok(bindings.get_opt("kubevela-vela-core:manager-rolebinding").await?.is_none())
}

pub(super) async fn edit(client: &Client, name: &str, image: &str, turn: usize) -> Result<()> {
    let patch = json!({ "spec": { "components": [{
        "name": "web", "type": "webservice",
        "properties": { "image": image, "env": [{ "name": "TURN", "value": turn.to_string() }] },
    }] } });
    let api = applications(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

pub(super) async fn runs(client: &Client, name: &str) -> Result<()> {
    let api = applications(client.clone());
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let object = api.get(name).await?;
        let status = &object.data["status"];
        let is_current = status["observedGeneration"].as_i64() == object.metadata.generation;
        if is_current && status["status"] == "running" {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "Application {name} does not run: {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks admission all the time.
pub(super) struct Probe {
    over: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<(usize, Vec<String>)>>,
}

impl Probe {
    /// With this many clients, each with one question at a time.
    pub(super) fn start(client: &Client, clients: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let clients = (0..clients)
            .map(|_| {
                let (client, over) = (client.clone(), Arc::clone(&over));
                tokio::spawn(async move {
                    let (mut asked, mut failures) = (0, Vec::new());
                    while !over.load(Ordering::Relaxed) {
                        if let Err(error) = admits(&client).await {
                            failures.push(format!("{error:#}"));
                        }
                        asked += 1;
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    (asked, failures)
                })
            })
            .collect();
        Self { over, clients }
    }

    /// How often it asked, and what went wrong.
    pub(super) async fn stop(self) -> Result<(usize, Vec<String>)> {
        self.over.store(true, Ordering::Relaxed);
        let (mut asked, mut failures) = (0, Vec::new());
        for client in self.clients {
            let (count, errors) = client.await?;
            asked += count;
            failures.extend(errors);
        }
        Ok((asked, failures))
    }
}
