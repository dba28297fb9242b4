//! An Application over two real clusters: a member goes away in the middle of an edit and of a deletion, nothing else waits for
//! it, and when it is back everything is as it was asked for.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use vela_api::Application;
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::faults::Door;
use vela_tests::fixtures::{binaries, until};
use vela_tests::members;

const LIMIT: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "several";

fn spec(value: &str) -> Value {
    json!({
        "components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"v": value}}]}}],
        "policies": [{"name": "both", "type": "topology", "properties": {"clusters": ["local", "east"]}}],
    })
}

async fn value(cluster: &Cluster) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await.unwrap(), NAMESPACE);
    maps.get_opt("m").await.unwrap()?.data?.remove("v")
}

async fn app(apps: &Api<DynamicObject>) -> Value {
    apps.get_opt("a").await.unwrap().map(|app| app.data).unwrap_or_default()
}

#[tokio::test]
async fn a_member_that_goes_away_delays_nothing_else_and_loses_nothing() {
    let hub = Cluster::start("members-hub").await.unwrap();
    let east = Cluster::start("members-east").await.unwrap();
    let options = Options {
        controller_flags: vec!["--allow-loopback-clusters".to_owned()],
        values: vec!["multicluster.enabled=true".to_owned()],
        ..Options::default()
    };
    let deployed = Deployed::start(&hub, &binaries(), &options).await.unwrap();
    for cluster in [&hub, &east] {
        let namespaces: Api<Namespace> = Api::all(cluster.client().await.unwrap());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let door = Door::shut(members::port(&east).unwrap()).await.unwrap();
    door.open();
    members::join(&hub, &east, "east", door.port()).await.unwrap();

    let kind = ApiResource::erase::<Application>(&());
    let apps: Api<DynamicObject> =
        Api::namespaced_with(hub.client().await.unwrap(), NAMESPACE, &kind);
    let wanted = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "a"}, "spec": spec("1")});
    let wanted: DynamicObject = serde_json::from_value(wanted).unwrap();
    apps.create(&PostParams::default(), &wanted).await.unwrap();
    let rests = async || {
        until("the Application to run", LIMIT, async || {
            let app = apps.get("a").await.unwrap();
            app.data["status"]["status"] == "running"
                && app.data["status"]["observedGeneration"].as_i64() == app.metadata.generation
        })
        .await;
    };
    rests().await;
    assert_eq!(
        (value(&hub).await.as_deref(), value(&east).await.as_deref()),
        (Some("1"), Some("1"))
    );

    // Away in the middle of an edit: the hub has it, the step says what it waits for.
    door.close();
    let edit = json!({ "spec": spec("2") });
    apps.patch("a", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until("the edit in the hub", LIMIT, async || value(&hub).await.as_deref() == Some("2")).await;
    until("the step to say what it waits for", LIMIT, async || {
        let status = app(&apps).await["status"].clone();
        let message =
            status["workflow"]["steps"][0]["message"].as_str().unwrap_or_default().to_owned();
        status["status"] == "runningWorkflow" && message.contains("east")
    })
    .await;
    assert_eq!(value(&east).await.as_deref(), Some("1"));
    door.open();
    rests().await;
    assert_eq!(value(&east).await.as_deref(), Some("2"));

    // Away in the middle of a deletion: what is here goes, what is there is remembered.
    door.close();
    apps.delete("a", &DeleteParams::default()).await.unwrap();
    until("the object in the hub to go", LIMIT, async || value(&hub).await.is_none()).await;
    until("the Application to say what it waits for", LIMIT, async || {
        app(&apps).await["status"].to_string().contains("east")
    })
    .await;
    assert_eq!(value(&east).await.as_deref(), Some("2"));
    door.open();
    until("the Application to be gone", LIMIT, async || apps.get_opt("a").await.unwrap().is_none())
        .await;
    assert_eq!(value(&east).await, None);

    // One create for one object, whatever happened on the way.
    let log = audit::read(&east.audit_log(), 0).unwrap();
    let ours = log.iter().filter(|entry| entry.is_controllers() && entry.resource == "configmaps");
    let creates: Vec<_> = ours
        .filter(|entry| entry.verb == "create" && entry.namespace == NAMESPACE && !entry.dry_run)
        .collect();
    assert_eq!(creates.len(), 1, "{creates:?}");
    deployed.check().unwrap();
    deployed.stop(Duration::from_secs(10)).unwrap();
    east.stop();
    hub.stop();
}
