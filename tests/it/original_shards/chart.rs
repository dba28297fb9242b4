//! KubeVela's chart with shards, which this chart replaces and which comes back, by Helm and by the addon that makes the shards: what runs is what
//! the Deployments in the cluster say.
//!
//! `VELA_ORIGINAL_CHART` names the folder `charts/vela-core` of KubeVela's module.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use kube::core::ApiResource;
use vela_tests::deploy::{Manifests, Program, RELEASE, Role};
use vela_tests::release::{Release, chart};

use super::*;

const DEPLOYMENT: &str = "kubevela-vela-core";
const COPY: &str = "kubevela-vela-core-shard-0";
const ADDON: &str = "addon-vela-core-shard-manager";
const ALL: [&str; 3] = ["app-0", "app-1", "app-2"];

#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn their_chart() -> Option<PathBuf> {
    let chart = std::env::var_os("VELA_ORIGINAL_CHART").map(PathBuf::from);
    if chart.is_none() {
        eprintln!("SKIPPED: VELA_ORIGINAL_CHART does not name KubeVela's chart");
    }
    chart
}

/// What enabling the addon applies: an Application whose component is a copy of the controller's Deployment for a shard.
fn addon(version: &str) -> Value {
    let labels = json!({"app.kubernetes.io/instance": "kubevela-slave", "controller.core.oam.dev/shard-id": SHARD});
    let copy = json!({
        "metadata": {"name": COPY},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
    });
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {
            "name": ADDON, "namespace": NAMESPACE, "labels": {LABEL: "master"},
            "annotations": {"app.oam.dev/publishVersion": version},
        },
        "spec": {"components": [{
            "name": COPY, "type": "ref-objects",
            "properties": {"objects": [{"group": "apps", "resource": "deployments", "name": DEPLOYMENT}]},
            "traits": [
                {"type": "command", "properties": {"containerName": RELEASE, "addArgs": [format!("--shard-id={SHARD}")]}},
                {"type": "json-merge-patch", "properties": copy},
            ],
        }]},
    })
}

impl World {
    async fn deployment(&self, name: &str) -> Option<Value> {
        let resource = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        let found = api.get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// The arguments that a Deployment gives KubeVela's program, but addresses of a Pod.
    async fn arguments(&self, name: &str) -> Vec<String> {
        let deployment = self.deployment(name).await.unwrap();
        let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let args: Vec<String> = serde_json::from_value(args.clone()).unwrap();
        let addresses = ["--health-addr=", "--metrics-addr="];
        let is_address = |arg: &String| addresses.iter().any(|address| arg.starts_with(address));
        let mut args: Vec<_> = args.into_iter().filter(|arg| !is_address(arg)).collect();
        args.push(format!("--leader-election-namespace={NAMESPACE}"));
        args
    }

    /// Starts KubeVela's program as a Deployment in the cluster does.
    async fn start_theirs(&self, theirs: &Original, name: &str, log: &str) -> Process {
        theirs.run(&self.cluster, log, self.arguments(name).await)
    }

    /// Starts the controller as a Deployment in the cluster does.
    async fn start_ours(&self, name: &str, log: &'static str) -> Program {
        let deployment = self.deployment(name).await.unwrap();
        let manifests = Manifests::parse(&deployment.to_string()).unwrap();
        let (binaries, options) = (binaries(), Options::default());
        let role = Role::Controller;
        let program =
            Program::prepare(role, &self.cluster, &binaries, &manifests, &options).await.unwrap();
        let program = program.replica(&self.cluster, log).unwrap();
        program.start(&self.cluster).unwrap();
        program.ready().await.unwrap();
        program
    }

    /// Enables the addon: it copies the Deployment that is in the cluster now.
    async fn enable(&self, version: &str, is_copied: impl Fn(&Value) -> bool) {
        let addon: DynamicObject = serde_json::from_value(addon(version)).unwrap();
        let resource = resource(vela_api::V1BETA1, "Application");
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        let params = PatchParams::apply("addon").force();
        api.patch(ADDON, &params, &Patch::Apply(&addon)).await.unwrap();
        until(&format!("the addon's version {version} is copied"), LIMIT, async || {
            self.deployment(COPY).await.is_some_and(|copy| is_copied(&copy))
        })
        .await;
    }
}

fn image(deployment: &Value) -> &str {
    deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// Each edit is served by who the Deployments in the cluster are for, no object is created again, and each revision follows the one before.
#[tokio::test(flavor = "multi_thread")]
async fn their_chart_with_shards_is_upgraded_and_comes_back() {
    let (Some(theirs), Some(original)) = (Original::find(), their_chart()) else { return };
    let cluster = Arc::new(Cluster::start("shards-chart").await.unwrap());
    let client = cluster.client().await.unwrap();
    let release = Release::prepare(Arc::clone(&cluster), binaries()).await.unwrap();
    let set = "sharding.enabled=true,sharding.schedulableShards=shard-0,admissionWebhooks.enabled=false,multicluster.enabled=false";
    release.helm().put("install", &original, &["--set", set]).unwrap();
    let world = World { cluster, client };
    let master = world.start_theirs(&theirs, DEPLOYMENT, "original-master").await;
    world.enable("1", |_| true).await;
    let shard = world.start_theirs(&theirs, COPY, "original-shard").await;
    world.create("app-0", Some("master")).await;
    world.create("app-1", Some(SHARD)).await;
    world.create("app-2", None).await;
    let both = ["app-0", "app-1"];
    world.edit(&both, "2", LIMIT).await;
    for name in both {
        world.runs(name).await;
    }
    let before = [world.kept("app-0").await, world.kept("app-1").await];
    let copied = world.deployment(COPY).await.unwrap();

    // As the README says, with the values of before: one shard each, as before.
    for file in fs::read_dir(chart().join("crds")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let crds = Manifests::parse(&text).unwrap();
        apply_all(&world.client, crds.of("CustomResourceDefinition").cloned().collect())
            .await
            .unwrap();
    }
    master.check().unwrap();
    master.kill().unwrap();
    let from = world.position();
    let set = "admissionWebhooks.enabled=true";
    release.put("upgrade", &["--reuse-values", "--set", set]).await.unwrap();
    world.edit(&both, "3", LIMIT).await;
    for (name, who) in [("app-0", Who::Fleet), ("app-1", Who::Original)] {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [who], "{name}");
    }
    assert_eq!(world.value("app-2").await, None, "it has a shard");

    // The master is a fleet of one, the shard is still theirs.
    let from = world.position();
    let set = "sharding.enabled=false,sharding.mode=auto";
    release.put("upgrade", &["--reuse-values", "--set", set]).await.unwrap();
    until("what had no label is deployed", LIMIT, async || world.value("app-2").await.is_some())
        .await;
    world.runs("app-2").await;
    let unlabelled = world.kept("app-2").await;
    world.edit(&both, "4", LIMIT).await;
    for (name, who) in [("app-0", Who::Fleet), ("app-1", Who::Original), ("app-2", Who::Fleet)] {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [who], "{name}");
    }
    assert_eq!(image(&world.deployment(COPY).await.unwrap()), image(&copied));

    // The addon is enabled again: the shard is a copy of the fleet's Deployment.
    world.enable("2", |copy| image(copy) != image(&copied)).await;
    shard.check().unwrap();
    shard.kill().unwrap();
    let from = world.position();
    let pool = world.start_ours(COPY, "pool").await;
    until("the pool has its Application", LIMIT, async || {
        let app = world.api().get("app-1").await.unwrap();
        app.annotations().get("controller.core.oam.dev/shard").is_some_and(|of| of == SHARD)
    })
    .await;
    world.edit(&ALL, "5", LIMIT).await;
    for name in ALL {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [Who::Fleet], "{name}");
    }

    // Back to KubeVela's chart, and its addon once more.
    world.label_shards().await;
    assert!(pool.stop(LIMIT).unwrap());
    release.stop().unwrap();
    release.helm().run(&["rollback", RELEASE, "1"]).unwrap();
    let from = world.position();
    let master = world.start_theirs(&theirs, DEPLOYMENT, "original-master-again").await;
    world.enable("3", |copy| image(copy) == image(&copied)).await;
    let shard = world.start_theirs(&theirs, COPY, "original-shard-again").await;
    world.edit(&ALL, "6", LIMIT).await;
    for (name, before, edits) in
        [("app-0", &before[0], 4), ("app-1", &before[1], 4), ("app-2", &unlabelled, 2)]
    {
        world.runs(name).await;
        assert_eq!(world.writers(from, name).await, [Who::Original], "{name}");
        assert_eq!(world.kept(name).await, next(before, edits), "{name}");
        world.api().delete(name, &DeleteParams::default()).await.unwrap();
        world.gone(name).await;
        assert_eq!(world.shards_of(name).await, BTreeSet::new(), "{name}");
    }
    master.check().unwrap();
    shard.check().unwrap();
    world.cluster.stop();
}
