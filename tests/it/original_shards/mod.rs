//! A fleet and a shard of KubeVela's controller in one cluster: each writes for its own Applications, what the shard leaves behind when
//! it dies is taken over, and it gets back what the fleet gives up. What KubeVela's shards lose when a label is edited. And an installation
//! with shards that is upgraded step by step, and goes back.
//!
//! `VELA_ORIGINAL_CONTROLLER` names KubeVela's program, as for `original_controller`.

mod chart;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Manifests, NAMESPACE, Options, apply_all, from_jsonl};
use vela_tests::fixtures::{binaries, quiet, resource, until};
use vela_tests::fleet;
use vela_tests::process::Process;
use vela_tests::release::{admits, applications};

use super::original_controller::Original;

const LIMIT: Duration = Duration::from_secs(90);
/// How long after the death of a shard the fleet must have its Applications: the Lease's 15 s and 5 s more.
const TAKEN_OVER: Duration = Duration::from_secs(20);
const LABEL: &str = "controller.core.oam.dev/scheduled-shard-id";
const SHARD: &str = "shard-0";

/// The Applications of the shard: two that run, one that is suspended, one whose deletion waits for an object.
const THEIRS: [&str; 4] = ["app-0", "app-1", "app-suspended", "app-deleted"];
const OURS: [&str; 2] = ["app-2", "app-3"];
const FINALIZER: &str = "example.com/kept";

struct World {
    cluster: Arc<Cluster>,
    client: Client,
}

impl World {
    fn api(&self) -> Api<DynamicObject> {
        applications(self.client.clone())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, name: &str, shard: Option<&str>) {
        let app: DynamicObject = serde_json::from_value(application(name, shard)).unwrap();
        self.api().create(&PostParams::default(), &app).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn value(&self, name: &str) -> Option<String> {
        self.maps().get_opt(name).await.unwrap()?.data?.remove("v")
    }

    /// Edits Applications, and waits until their objects are there.
    async fn edit(&self, names: &[&str], value: &str, limit: Duration) {
        for name in names {
            self.patch(name, json!({"spec": {"components": [component(name, value)]}})).await;
        }
        until(&format!("{names:?} hold {value}"), limit, async || {
            for name in names {
                if self.value(name).await.as_deref() != Some(value) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    async fn status(&self, name: &str, pointer: &str) -> Value {
        let app = self.api().get(name).await.unwrap();
        app.data.pointer(pointer).cloned().unwrap_or_default()
    }

    async fn gone(&self, name: &str) {
        until(&format!("{name} and its object are gone"), LIMIT, async || {
            self.api().get_opt(name).await.unwrap().is_none() && self.value(name).await.is_none()
        })
        .await;
    }

    fn position(&self) -> u64 {
        audit::position(&self.cluster.audit_log()).unwrap()
    }

    /// The writers of Applications and what belongs to them, each once for writes in a row, from a position of the audit log on.
    async fn writers(&self, from: u64, name: &str) -> Vec<Who> {
        let log = self.cluster.audit_log();
        quiet(&log, Duration::from_secs(2), is_write).await;
        let mut writes: Vec<(String, Who)> = audit::read(&log, from)
            .unwrap()
            .iter()
            .filter(|entry| is_write(entry) && is_of(entry, name))
            .map(|entry| (entry.received.clone(), Who::of(entry).unwrap()))
            .collect();
        writes.sort();
        let mut who: Vec<Who> = writes.into_iter().map(|(_, who)| who).collect();
        who.dedup();
        who
    }

    /// The shards that the labels of the records of an Application name.
    async fn shards_of(&self, name: &str) -> BTreeSet<String> {
        let kinds = ["ApplicationRevision", "ResourceTracker"];
        fleet::labels_of(&self.client, &kinds, name, LABEL).await.unwrap()
    }
}

/// Whose request it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Fleet,
    Original,
}

impl Who {
    fn of(entry: &Entry) -> Option<Self> {
        let is_original = entry.agent.starts_with("kubevela/");
        is_original.then_some(Self::Original).or(entry.is_controllers().then_some(Self::Fleet))
    }
}

fn is_write(entry: &Entry) -> bool {
    // Events are no writes for an Application.
    let kept = !["leases", "events", "subjectaccessreviews"].contains(&&*entry.resource);
    entry.is_write() && entry.code < 300 && kept && Who::of(entry).is_some()
}

fn is_of(entry: &Entry, name: &str) -> bool {
    fleet::application_of(entry) == name
}

fn component(name: &str, value: &str) -> Value {
    let finalizers = if name == "app-deleted" { vec![FINALIZER] } else { Vec::new() };
    json!({"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "finalizers": finalizers}, "data": {"v": value}}]}})
}

fn application(name: &str, shard: Option<&str>) -> Value {
    let mut app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"components": [component(name, "1")]}});
    if let Some(shard) = shard {
        app["metadata"]["labels"] = json!({LABEL: shard});
    }
    if name == "app-suspended" {
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "wait", "type": "suspend"},
            {"name": "apply", "type": "apply-component", "properties": {"component": "c"}}]});
    }
    app
}

impl Original {
    /// Starts it as one of several shards; `master` is the one that handles definitions.
    fn start_shard(&self, cluster: &Cluster, shard: &str) -> Process {
        let flags = [
            "--enable-sharding".to_owned(),
            format!("--shard-id={shard}"),
            "--enable-leader-election".to_owned(),
            format!("--leader-election-namespace={NAMESPACE}"),
        ];
        self.run(cluster, &format!("original-{shard}"), flags)
    }

    /// What a fleet is started with that has its definitions.
    fn fleet(&self) -> Options {
        let values =
            vec!["sharding.mode=auto".to_owned(), "authentication.enabled=false".to_owned()];
        Options { definitions: Some(self.definitions.clone()), values, ..Options::default() }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_and_a_shard_of_the_original_keep_out_of_each_others_way() {
    let Some(theirs) = Original::find() else { return };
    let cluster = Cluster::start("fleet-original").await.unwrap();
    let deployed = Deployed::start(&cluster, &binaries(), &theirs.fleet()).await.unwrap();
    let client = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&client).await.is_ok()).await;
    until("the replica to hold all", LIMIT, async || fleet::is_balanced(&client, 1).await.unwrap())
        .await;
    let world = World { cluster: Arc::new(cluster), client };
    let shard = theirs.start_shard(&world.cluster, SHARD);
    until("the shard to hold its Lease", LIMIT, async || {
        fleet::holder(&world.client, "kubevela-shard-0").await.unwrap().is_some()
    })
    .await;

    let from = world.position();
    for name in THEIRS {
        world.create(name, Some(SHARD)).await;
    }
    for name in OURS {
        world.create(name, None).await;
    }
    world.edit(&["app-0", "app-1", "app-2", "app-3"], "2", LIMIT).await;
    until("the suspended one to wait", LIMIT, async || {
        world.status("app-suspended", "/status/workflow/suspend").await == json!(true)
    })
    .await;
    until("the other to be there", LIMIT, async || world.value("app-deleted").await.is_some())
        .await;
    world.api().delete("app-deleted", &DeleteParams::default()).await.unwrap();
    until("its object to be deleted", LIMIT, async || {
        let map = world.maps().get("app-deleted").await.unwrap();
        map.metadata.deletion_timestamp.is_some()
    })
    .await;
    for name in THEIRS {
        assert_eq!(world.writers(from, name).await, [Who::Original], "{name}");
    }
    for name in OURS {
        assert_eq!(world.writers(from, name).await, [Who::Fleet], "{name}");
    }

    // It dies. Before its Lease ends nobody writes for its Applications.
    let from = world.position();
    shard.kill().unwrap();
    let died = Instant::now();
    world.edit(&["app-0", "app-1"], "3", LIMIT).await;
    let taken_over = died.elapsed();
    assert!(taken_over <= TAKEN_OVER, "{taken_over:?}");
    let workflow = world.status("app-suspended", "/status/workflow").await;
    let resumed = resumed(workflow);
    let patch = Patch::Merge(json!({"status": {"workflow": resumed}}));
    world.api().patch_status("app-suspended", &PatchParams::default(), &patch).await.unwrap();
    until("the suspended one goes on", LIMIT, async || {
        world.value("app-suspended").await.is_some()
    })
    .await;
    let unheld = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.maps().patch("app-deleted", &PatchParams::default(), &unheld).await.unwrap();
    world.gone("app-deleted").await;
    for name in THEIRS {
        assert_eq!(world.writers(from, name).await, [Who::Fleet], "{name}");
    }
    for name in ["app-0", "app-1"] {
        assert_eq!(world.shards_of(name).await, BTreeSet::from([SHARD.to_owned()]), "{name}");
    }

    // It is back, and waits for its Lease until the fleet gives that up.
    let from = world.position();
    let shard = theirs.start_shard(&world.cluster, SHARD);
    world.edit(&["app-0", "app-1"], "4", LIMIT).await;
    assert_eq!(world.writers(from, "app-0").await, [Who::Fleet]);
    assert!(deployed.controller.stop(LIMIT).unwrap(), "it ends by itself");
    let from = world.position();
    world.edit(&["app-0", "app-1"], "5", LIMIT).await;
    deployed.controller.start(&world.cluster).unwrap();
    deployed.controller.ready().await.unwrap();
    world.edit(&["app-0", "app-2", "app-3"], "6", LIMIT).await;
    for name in ["app-0", "app-1"] {
        assert_eq!(world.writers(from, name).await, [Who::Original], "{name}");
    }
    shard.check().unwrap();
    world.cluster.stop();
}

/// The workflow of an Application as `vela workflow resume` leaves it.
fn resumed(mut workflow: Value) -> Value {
    workflow["suspend"] = json!(false);
    for step in workflow["steps"].as_array_mut().unwrap() {
        if step["phase"] == "suspending" {
            step["phase"] = json!("running");
        }
    }
    workflow
}

/// The label of an Application is edited by hand, and then it is deleted: among KubeVela's shards its objects and records stay for ever.
/// One that never had a label is deployed by nobody.
#[tokio::test(flavor = "multi_thread")]
async fn what_shards_of_the_original_lose_the_fleet_keeps() {
    let Some(theirs) = Original::find() else { return };
    let cluster = Cluster::start("shards-original").await.unwrap();
    let client = cluster.client().await.unwrap();
    let manifests = Manifests::render(&binaries(), &[]).unwrap();
    apply_all(&client, manifests.foundation()).await.unwrap();
    apply_all(&client, from_jsonl(&theirs.definitions).unwrap()).await.unwrap();
    let world = World { cluster: Arc::new(cluster), client };
    let shards =
        [theirs.start_shard(&world.cluster, "master"), theirs.start_shard(&world.cluster, SHARD)];
    world.create("app-0", Some("master")).await;
    until("it runs", LIMIT, async || {
        world.status("app-0", "/status/status").await == json!("running")
    })
    .await;
    world.create("app-1", None).await;
    world.patch("app-0", json!({"metadata": {"labels": {LABEL: SHARD}}})).await;
    world.api().delete("app-0", &DeleteParams::default()).await.unwrap();
    until("it is gone", LIMIT, async || world.api().get_opt("app-0").await.unwrap().is_none())
        .await;
    assert_eq!(world.value("app-0").await.as_deref(), Some("1"), "KubeVela's defect is not there");
    assert_eq!(world.status("app-1", "/status/status").await, Value::Null, "it has a shard");
    for shard in shards {
        shard.check().unwrap();
        shard.kill().unwrap();
    }

    // The same with ours: two pools.
    let deployed = Deployed::start(&world.cluster, &binaries(), &theirs.fleet()).await.unwrap();
    let pool = deployed.controller.replica(&world.cluster, "controller-shard-0").unwrap();
    let pool = pool.with_flags([format!("--shard-id={SHARD}")]);
    pool.start(&world.cluster).unwrap();
    pool.ready().await.unwrap();
    // What had no label is deployed at once, what was left is nobody's: a new Application of that name takes it.
    until("it is deployed", LIMIT, async || world.value("app-1").await.is_some()).await;
    world.create("app-2", Some("master")).await;
    until("it runs", LIMIT, async || {
        world.status("app-2", "/status/status").await == json!("running")
    })
    .await;
    world.patch("app-2", json!({"metadata": {"labels": {LABEL: SHARD}}})).await;
    world.api().delete("app-2", &DeleteParams::default()).await.unwrap();
    world.gone("app-2").await;
    let records = fleet::labels_of(&world.client, &["ResourceTracker"], "app-2", LABEL).await;
    assert_eq!(records.unwrap(), BTreeSet::new());
    world.cluster.stop();
}

/// What is kept after so many edits.
fn next((uid, revision): &(Option<String>, Value), edits: i64) -> (Option<String>, Value) {
    (uid.clone(), json!(revision.as_i64().unwrap() + edits))
}

impl World {
    /// What must outlive every upgrade: the object of an Application, and the number of its newest revision.
    async fn kept(&self, name: &str) -> (Option<String>, Value) {
        let map = self.maps().get(name).await.unwrap();
        (map.metadata.uid, self.status(name, "/status/latestRevision/revision").await)
    }

    /// Waits until an Application runs in the state of its spec.
    async fn runs(&self, name: &str) {
        until(&format!("{name} runs"), LIMIT, async || {
            let app = self.api().get(name).await.unwrap();
            app.data["status"]["status"] == "running"
                && app.data["status"]["observedGeneration"].as_i64() == app.metadata.generation
        })
        .await;
    }

    /// Labels Applications and records, so that KubeVela's shards find them.
    async fn label_shards(&self) {
        let mut command = std::process::Command::new(binaries().controller);
        command.args(["shard-labels", "--pool", "master", "--kubeconfig"]);
        command.arg(self.cluster.kubeconfig());
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        for (name, shard) in [("app-0", "master"), ("app-1", SHARD), ("app-2", "master")] {
            assert_eq!(self.shards_of(name).await, BTreeSet::from([shard.to_owned()]), "{name}");
        }
    }

    /// Labels the records of an Application with a shard that does not exist.
    async fn mislabel(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: "shard-9"}}}));
        for kind in ["ApplicationRevision", "ResourceTracker"] {
            let resource = resource(vela_api::V1BETA1, kind);
            let all = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            for record in all.list(&ListParams::default()).await.unwrap() {
                if record.labels().get("app.oam.dev/name").is_some_and(|of| of == name) {
                    let of = record.metadata.namespace.as_deref();
                    let api = of.map_or_else(
                        || all.clone(),
                        |of| Api::namespaced_with(self.client.clone(), of, &resource),
                    );
                    api.patch(&record.name_any(), &PatchParams::default(), &patch).await.unwrap();
                }
            }
        }
        assert_eq!(self.shards_of(name).await, BTreeSet::from(["shard-9".to_owned()]));
    }
}

/// KubeVela's shards, a fleet in the stead of the master, the shard as a pool of it, KubeVela's shards again, and KubeVela without shards: each
/// goes on where the one before was. Nothing is deployed again, and nothing is written without an edit but where nobody worked before.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_with_shards_is_upgraded_and_goes_back() {
    let Some(theirs) = Original::find() else { return };
    let cluster = Cluster::start("shards-upgrade").await.unwrap();
    let client = cluster.client().await.unwrap();
    let manifests = Manifests::render(&binaries(), &[]).unwrap();
    apply_all(&client, manifests.foundation()).await.unwrap();
    apply_all(&client, from_jsonl(&theirs.definitions).unwrap()).await.unwrap();
    let world = World { cluster: Arc::new(cluster), client };
    let master = theirs.start_shard(&world.cluster, "master");
    let shard = theirs.start_shard(&world.cluster, SHARD);
    world.create("app-0", Some("master")).await;
    world.create("app-1", Some(SHARD)).await;
    world.create("app-2", None).await;
    let both = ["app-0", "app-1"];
    world.edit(&both, "2", LIMIT).await;
    for name in both {
        world.runs(name).await;
    }
    let before = [world.kept("app-0").await, world.kept("app-1").await];

    // The chart is upgraded: the master is a fleet, the shard is still theirs. The records of one are labelled wrongly.
    master.kill().unwrap();
    world.mislabel("app-0").await;
    let from = world.position();
    let deployed = Deployed::start(&world.cluster, &binaries(), &theirs.fleet()).await.unwrap();
    until("what had no label is deployed", LIMIT, async || world.value("app-2").await.is_some())
        .await;
    world.runs("app-2").await;
    let unlabelled = world.kept("app-2").await;
    world.edit(&both, "3", LIMIT).await;
    for (name, who) in [("app-0", Who::Fleet), ("app-1", Who::Original), ("app-2", Who::Fleet)] {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [who], "{name}");
    }
    for (name, before) in both.iter().zip(&before) {
        assert_eq!(world.kept(name).await, next(before, 1), "{name}");
    }
    // What is new has the label of its Application; what was labelled otherwise was found all the same.
    assert!(world.shards_of("app-0").await.contains("master"));

    // The addon is enabled again: the shard is a copy of the fleet's Deployment.
    let from = world.position();
    shard.kill().unwrap();
    let pool = deployed.controller.replica(&world.cluster, "controller-shard-0").unwrap();
    let pool = pool.with_flags([
        format!("--shard-id={SHARD}"),
        format!("--schedulable-shards={SHARD}"),
        "--sharding-slave-discovery-resync-period=5m".to_owned(),
    ]);
    pool.start(&world.cluster).unwrap();
    pool.ready().await.unwrap();
    until("the pool has its Application", LIMIT, async || {
        let app = world.api().get("app-1").await.unwrap();
        app.annotations().get("controller.core.oam.dev/shard").is_some_and(|of| of == SHARD)
    })
    .await;
    world.edit(&["app-0", "app-1", "app-2"], "4", LIMIT).await;
    for name in ["app-0", "app-1", "app-2"] {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [Who::Fleet], "{name}");
    }
    let log = audit::read(&world.cluster.audit_log(), from).unwrap();
    let is_pools = |entry: &Entry| is_write(entry) && entry.agent.ends_with(pool.pod());
    assert!(log.iter().any(|entry| is_pools(entry) && is_of(entry, "app-1")));
    assert!(!log.iter().any(|entry| is_pools(entry) && is_of(entry, "app-0")));

    // Back to shards of KubeVela.
    world.label_shards().await;
    assert!(pool.stop(LIMIT).unwrap() && deployed.controller.stop(LIMIT).unwrap());
    let from = world.position();
    let shards =
        [theirs.start_shard(&world.cluster, "master"), theirs.start_shard(&world.cluster, SHARD)];
    world.edit(&["app-0", "app-1", "app-2"], "5", LIMIT).await;
    for name in ["app-0", "app-1", "app-2"] {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [Who::Original], "{name}");
    }
    for shard in shards {
        shard.check().unwrap();
        shard.kill().unwrap();
    }

    // And to KubeVela without shards, to which the labels mean nothing.
    let alone = theirs.run(
        &world.cluster,
        "original-alone",
        ["--enable-leader-election".to_owned(), format!("--leader-election-namespace={NAMESPACE}")],
    );
    world.edit(&["app-0", "app-1", "app-2"], "6", LIMIT).await;
    for (name, before, edits) in
        [("app-0", &before[0], 4), ("app-1", &before[1], 4), ("app-2", &unlabelled, 3)]
    {
        world.runs(name).await;
        assert_eq!(world.kept(name).await, next(before, edits), "{name}");
        world.api().delete(name, &DeleteParams::default()).await.unwrap();
        world.gone(name).await;
        assert_eq!(world.shards_of(name).await, BTreeSet::new(), "{name}");
    }
    alone.check().unwrap();
    world.cluster.stop();
}
