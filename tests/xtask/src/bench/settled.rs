//! Many settled Applications in minutes: the controller deploys one, and what it wrote is written again under other names.
//!
//! What depends on a name is made as the controller and the webhook make it: hashes of revisions and stamps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::TypeMeta;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use vela_api::names::{annotation, label};
use vela_api::{
    Application, ApplicationRevision, ObjectMeta, ResourceTracker, annotation_of, hash,
};
use vela_seal::{Content as _, Stamp, Subject};
use vela_shard::bucket_of;
use vela_tests::deploy::stamp_keys;
use vela_tests::fixtures::resource;
use vela_tests::progress::Step;

use super::bench_env::{BenchEnv, phase};

/// How many Applications are written at a time.
const AT_ONCE: usize = 24;
/// Applications in a namespace.
const PER_NAMESPACE: usize = 100;
/// How long the first Application may take.
const LIMIT: Duration = Duration::from_secs(120);
/// As whose work the controller stamps a revision that it makes.
const CONTROLLER_MADE: &str = "ApplicationRevision of the controller";
/// What nobody needs who writes an object anew.
const OF_THE_SERVER: [&str; 5] =
    ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"];

/// The namespace and the name of an Application; the name is its component's, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Names {
    /// The one with a number.
    pub(super) fn of(index: usize) -> Self {
        Self {
            namespace: format!("team-{:05}", index / PER_NAMESPACE),
            name: format!("light-{index:05}"),
        }
    }

    /// The one that is really deployed.
    pub(super) fn first() -> Self {
        Self { namespace: "team-99999".to_owned(), name: "light-99999".to_owned() }
    }
}

/// The Application with so many revisions: each has another image.
pub(super) fn application(names: &Names, revision: usize) -> Value {
    let Names { namespace, name } = names;
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"components": [{
            "name": name,
            "type": "webservice",
            "properties": {
                "image": format!("nginx:1.{revision}"), "cpu": "100m", "memory": "64Mi",
                "ports": [{"port": 80, "expose": true}],
            },
            "traits": [{"type": "scaler", "properties": {"replicas": 1}}],
        }]},
    })
}

/// What there is of one settled Application.
pub(super) struct Settled {
    app: Value,
    uid: String,
    revisions: Vec<ApplicationRevision>,
    trackers: Vec<ResourceTracker>,
    /// What it deployed.
    objects: Vec<Value>,
}

impl Settled {
    /// Deploys an Application and edits it until it has so many revisions.
    pub(super) async fn deploy(bench_env: &BenchEnv, revisions: usize) -> Result<Self> {
        let step = Step::start(format!("an Application with {revisions} revisions"));
        let first = Names::first();
        let Names { namespace, name } = &first;
        bench_env.namespace(namespace).await?;
        let apps = bench_env.within(namespace, "Application");
        bench_env.create(std::iter::once(application(&first, 1))).await?;
        settled(bench_env, &apps, name, 1).await?;
        for revision in 2..=revisions {
            let patch = json!({"spec": application(&first, revision)["spec"]});
            apps.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            settled(bench_env, &apps, name, i64::try_from(revision)?).await?;
        }
        // The last writes: a tracker that is not needed any more goes, a status is written.
        bench_env.settled(&bench_env.mark()?).await?;
        let app = serde_json::to_value(apps.get(name).await?)?;
        let uid = app["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let mut all: Vec<ApplicationRevision> = Vec::new();
        let listed = bench_env.within(namespace, "ApplicationRevision");
        for one in listed.list(&ListParams::default()).await?.items {
            let mut one: ApplicationRevision = serde_json::from_value(serde_json::to_value(one)?)?;
            one.expand()?;
            all.push(one);
        }
        let (mut trackers, mut objects) = (Vec::new(), Vec::new());
        let listed = bench_env.all("ResourceTracker").list(&ListParams::default()).await?.items;
        for one in listed {
            let mut one: ResourceTracker = serde_json::from_value(serde_json::to_value(one)?)?;
            one.expand()?;
            for record in &one.spec.managed_resources {
                let kind = types(&record.api_version, &record.kind);
                let all = objects_of(&bench_env.client, &kind, &record.namespace);
                objects.push(serde_json::to_value(all.get(&record.name).await?)?);
            }
            trackers.push(one);
        }
        if all.len() != revisions || trackers.is_empty() || objects.is_empty() {
            bail!(
                "{} revisions, {} trackers, {} objects",
                all.len(),
                trackers.len(),
                objects.len()
            );
        }
        step.done();
        Ok(Self { app, uid, revisions: all, trackers, objects })
    }

    /// The kinds of what belongs to one Application.
    pub(super) fn kinds(&self) -> String {
        let kinds = self.objects.iter().filter_map(|object| object["kind"].as_str());
        format!(
            "{} revisions, {} trackers, {}",
            self.revisions.len(),
            self.trackers.len(),
            kinds.collect::<Vec<_>>().join(", ")
        )
    }

    /// Stops the controller, and writes others of its kind. They stay as they are written: nobody reviews them, and the
    /// cluster's own controllers, which would make Pods of them, are ended.
    pub(super) async fn repeat(self, bench_env: &BenchEnv, all: &[Names]) -> Result<()> {
        bench_env.deployed.controller.stop(Duration::from_secs(20))?;
        for program in ["kube-controller-manager", "kube-scheduler", "kwok"] {
            bench_env.cluster.kill(program)?;
        }
        let admission = bench_env.deployed.admission.withdraw(&bench_env.cluster).await?;
        let step = Step::start(format!("writing {} settled Applications", all.len()));
        let namespaces: BTreeSet<&str> = all.iter().map(|names| &*names.namespace).collect();
        for namespace in namespaces {
            bench_env.namespace(namespace).await?;
        }
        let this = Arc::new(self);
        stream::iter(all.iter().cloned())
            .map(|names| {
                let (this, client) = (Arc::clone(&this), bench_env.client.clone());
                // On threads of their own: there is something to compress.
                tokio::spawn(async move { this.write(&client, &names).await })
            })
            .buffer_unordered(AT_ONCE)
            .map(|written| written.context("it ended early")?)
            .try_collect::<Vec<()>>()
            .await?;
        step.done();
        admission.restore(&bench_env.cluster).await
    }

    /// Writes it under another name.
    async fn write(&self, client: &Client, names: &Names) -> Result<()> {
        let mut revisions = Vec::new();
        let mut hashes = Vec::new();
        for one in &self.revisions {
            let old = hash::application_revision(&one.spec);
            let mut moved: ApplicationRevision = renamed(one, names, &[])?;
            let new = hash::application_revision(&moved.spec);
            moved = renamed(&moved, names, &[(old.clone(), new.clone())])?;
            revisions.push(moved);
            hashes.push((old, new));
        }
        let app: Value = renamed(&self.app, names, &hashes)?;
        let app = self.write_application(client, names, app).await?;
        let uid = app.metadata.uid.clone().context("no uid")?;
        hashes.push((self.uid.clone(), uid));
        for one in &revisions {
            let mut one = renamed::<ApplicationRevision>(one, names, &hashes)?.to_stored()?;
            relabel(&mut one.metadata, names);
            write(client, serde_json::to_value(stamped_revision(one)?)?).await?;
        }
        for one in &self.trackers {
            let mut one = renamed::<ResourceTracker>(one, names, &hashes)?.to_stored()?;
            relabel(&mut one.metadata, names);
            write(client, serde_json::to_value(one)?).await?;
        }
        for one in &self.objects {
            let one: Value = renamed(one, names, &hashes)?;
            let hash = rendered(&one)?;
            write(client, renamed(&one, names, &[hash])?).await?;
        }
        Ok(())
    }

    /// Creates the Application as it was first, and edits it as often as the one was edited: trackers name its generation.
    async fn write_application(
        &self,
        client: &Client,
        names: &Names,
        app: Value,
    ) -> Result<DynamicObject> {
        let app = stamped_application(app)?;
        let mut first = bare(app.clone())?;
        first["spec"] = application(names, 1)["spec"].take();
        let mut written = create(client, &first).await?;
        let all =
            objects_of(client, &types(vela_api::V1BETA1, Application::KIND), &names.namespace);
        for revision in 2..=self.revisions.len() {
            let mut spec = application(names, revision)["spec"].take();
            if revision == self.revisions.len() {
                spec = app["spec"].clone();
            }
            written.data["spec"] = spec;
            written = all.replace(&names.name, &PostParams::default(), &written).await?;
        }
        with_status(client, written, app["status"].clone()).await
    }
}

/// Reconciles of Applications since the controller started.
pub(super) async fn reconciles(bench_env: &BenchEnv) -> Result<f64> {
    let name = "controller_runtime_reconcile_total";
    bench_env.deployed.controller.metric_of(name, "controller=\"application\"").await
}

/// Waits until each Application was reconciled and none waits.
pub(super) async fn adopted(count: usize, bench_env: &BenchEnv, limit: Duration) -> Result<()> {
    let controller = &bench_env.deployed.controller;
    let deadline = Instant::now() + limit;
    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let count = count as f64;
    loop {
        bench_env.deployed.check()?;
        let done = reconciles(bench_env).await?;
        let waiting = controller.metric_of("workqueue_depth", "name=\"application\"").await?;
        if done >= count && waiting == 0.0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{done} of {count} Applications are adopted after {} s", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until an Application runs, at a generation.
async fn settled(
    bench_env: &BenchEnv,
    apps: &Api<DynamicObject>,
    name: &str,
    generation: i64,
) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        bench_env.deployed.check()?;
        let app = apps.get(name).await?;
        let observed = app.data["status"]["observedGeneration"].as_i64();
        if phase(&app) == "running" && observed >= Some(generation) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the Application does not settle: {}", app.data["status"]);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// An object under other names, with other texts for some of its own.
fn renamed<T: serde::Serialize + serde::de::DeserializeOwned>(
    object: &T,
    names: &Names,
    texts: &[(String, String)],
) -> Result<T> {
    let first = Names::first();
    let mut text = serde_json::to_string(object)?;
    text = text.replace(&first.namespace, &names.namespace).replace(&first.name, &names.name);
    for (old, new) in texts {
        text = text.replace(old, new);
    }
    Ok(serde_json::from_str(&text)?)
}

/// The bucket of a record is that of its Application.
fn relabel(record: &mut ObjectMeta, names: &Names) {
    if let Some(bucket) = record.labels.as_mut().and_then(|all| all.get_mut(label::BUCKET)) {
        *bucket = format!("{:02x}", bucket_of(&names.namespace, &names.name));
    }
}

/// The hash that an object has of its manifest, and that which it must have.
fn rendered(object: &Value) -> Result<(String, String)> {
    let metadata = &object["metadata"];
    let text = metadata["annotations"][annotation::LAST_APPLIED_CONFIG].as_str();
    let mut manifest: Value = serde_json::from_str(text.context("nothing was applied")?)?;
    let labels = manifest["metadata"]["labels"].as_object_mut().context("no labels")?;
    let old = labels.remove(label::RENDER_HASH).context("no hash")?;
    let old = old.as_str().unwrap_or_default().to_owned();
    Ok((old, hash::render(&manifest)))
}

/// An Application with the stamp of its author, as the webhook writes it.
fn stamped_application(mut object: Value) -> Result<Value> {
    let app: Application = serde_json::from_value(object.clone())?;
    let get = |key: &str| annotation_of(&app.metadata, key);
    let (publish, update) = (get(annotation::PUBLISH_VERSION), get(annotation::AUTO_UPDATE));
    let subject = Subject {
        kind: Application::KIND,
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        name: app.metadata.name.as_deref().unwrap_or_default(),
        content: vela_seal::application(&app.spec, publish, update)?,
    };
    for (key, text) in Stamp::read(get).annotations(&stamp_keys()?, &subject) {
        if let Some(text) = text {
            object["metadata"]["annotations"][key] = json!(text);
        }
    }
    Ok(object)
}

/// A revision with the stamp that the controller gives it.
fn stamped_revision(mut revision: ApplicationRevision) -> Result<ApplicationRevision> {
    let content = revision.content()?;
    let metadata = &mut revision.metadata;
    let author = Stamp::read(|key| annotation_of(metadata, key));
    let subject = Subject {
        kind: CONTROLLER_MADE,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        content,
    };
    let written = author.annotations(&stamp_keys()?, &subject);
    let written = written.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?)));
    metadata.annotations.get_or_insert_default().extend(written);
    Ok(revision)
}

/// An object without what only an API server may say.
fn bare(mut object: Value) -> Result<Value> {
    let metadata = object["metadata"].as_object_mut().context("no metadata")?;
    for key in OF_THE_SERVER {
        metadata.remove(key);
    }
    // An address is of one Service only.
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    Ok(object)
}

/// Creates an object with its status.
async fn write(client: &Client, object: Value) -> Result<DynamicObject> {
    let object = bare(object)?;
    let created = create(client, &object).await?;
    with_status(client, created, object["status"].clone()).await
}

async fn create(client: &Client, object: &Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let (types, name) = (object.types.clone().context("no kind")?, object.name_any());
    let all = objects_of(client, &types, &object.namespace().unwrap_or_default());
    let created = all.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("{} {name}", types.kind))
}

/// Writes the status of an object that was written, as of the generation that it has.
async fn with_status(
    client: &Client,
    mut object: DynamicObject,
    mut status: Value,
) -> Result<DynamicObject> {
    let (types, name) = (object.types.clone().context("no kind")?, object.name_any());
    let has_status = status.as_object().is_some_and(|status| !status.is_empty());
    // Of a Service there is nothing worth a request.
    if !has_status || types.kind == "Service" {
        return Ok(object);
    }
    if let Some(observed) = status.get_mut("observedGeneration") {
        *observed = json!(object.metadata.generation);
    }
    object.data["status"] = status;
    let all = objects_of(client, &types, &object.namespace().unwrap_or_default());
    let written = all.replace_status(&name, &PostParams::default(), &object).await;
    written.with_context(|| format!("status of {} {name}", types.kind))
}

fn types(api_version: &str, kind: &str) -> TypeMeta {
    TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

fn objects_of(client: &Client, types: &TypeMeta, namespace: &str) -> Api<DynamicObject> {
    let resource = resource(&types.api_version, &types.kind);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}
