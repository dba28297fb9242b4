//! Sharded controllers: each handles the Applications of its own shard, and leaves those of others as they are.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{admits, applications};

const LIMIT: Duration = Duration::from_secs(60);
const SHARD: &str = "controller.core.oam.dev/scheduled-shard-id";

fn spec(value: &str) -> Value {
    json!({"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}, "data": {"v": value}}]}}]})
}

async fn create(client: &Client, name: &str, shard: &str) {
    let mut spec = spec("1");
    spec["components"][0]["properties"]["objects"][0]["metadata"]["name"] = json!(name);
    let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "labels": {SHARD: shard}}, "spec": spec});
    let app: DynamicObject = serde_json::from_value(app).unwrap();
    applications(client.clone()).create(&PostParams::default(), &app).await.unwrap();
}

async fn runs(api: &Api<DynamicObject>, name: &str) {
    until(&format!("{name} runs"), LIMIT, async || {
        let app = api.get(name).await.unwrap();
        app.data["status"]["status"] == "running"
            && app.data["status"]["observedGeneration"].as_i64() == app.metadata.generation
    })
    .await;
}

/// Whether a controller ever wrote to it.
async fn is_touched(api: &Api<DynamicObject>, name: &str) -> bool {
    let app = api.get(name).await.unwrap();
    app.metadata.finalizers.is_some_and(|all| !all.is_empty())
        || !app.data["status"]["status"].is_null()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_handles_its_own_applications_only() {
    let cluster = Cluster::start_lean("shards").await.unwrap();
    let flags = ["--enable-sharding", "--shard-id=master", "--schedulable-shards=master,shard-1"];
    let options =
        Options { controller_flags: flags.map(str::to_owned).to_vec(), ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let client = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&client).await.is_ok()).await;
    let api = applications(client.clone());
    create(&client, "of-shard-1", "shard-1").await;
    // One that came later runs: it would have been its turn.
    create(&client, "of-master", "master").await;
    runs(&api, "of-master").await;
    assert!(!is_touched(&api, "of-shard-1").await, "of another shard");

    let shard = deployed.controller.replica(&cluster, "controller-shard-1").unwrap();
    let shard = shard.with_flags(["--shard-id=shard-1".to_owned()]);
    shard.start(&cluster).unwrap();
    shard.ready().await.unwrap();
    runs(&api, "of-shard-1").await;

    // Without its own controller an Application of the master waits.
    assert!(deployed.controller.stop(Duration::from_secs(15)).unwrap());
    create(&client, "later-of-master", "master").await;
    create(&client, "later-of-shard-1", "shard-1").await;
    let edit = Patch::Merge(json!({"spec": spec("2")}));
    api.patch("of-shard-1", &PatchParams::default(), &edit).await.unwrap();
    runs(&api, "later-of-shard-1").await;
    runs(&api, "of-shard-1").await;
    assert!(!is_touched(&api, "later-of-master").await, "of the master");
    deployed.controller.start(&cluster).unwrap();
    deployed.controller.ready().await.unwrap();
    runs(&api, "later-of-master").await;
    shard.check().unwrap();
    cluster.stop();
}
