//! Trackers with records of other clusters, as a hub leaves them that served several: on the real control plane nothing here is
//! made, changed or deleted for them, and nothing they record is forgotten.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_api::{ManagedResource, ResourceTracker};
use vela_tests::audit;
use vela_tests::fixtures::{Space, until};

const LIMIT: Duration = Duration::from_secs(60);

fn map(value: &str) -> Value {
    json!([{"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"v": value}}]}}])
}

/// Writes the records of the Application's trackers, whoever else writes them at the moment.
async fn write(space: &Space, change: impl Fn(&mut Vec<ManagedResource>)) {
    let kind = kube::api::ApiResource::erase::<ResourceTracker>(&());
    let api: Api<DynamicObject> = Api::all_with(space.client(), &kind);
    until("the trackers to be written", LIMIT, async || {
        let mut written = true;
        for stored in space.trackers().await {
            let name = stored.metadata.name.clone().unwrap_or_default();
            let stored = serde_json::to_value(stored).unwrap();
            let mut tracker: ResourceTracker = serde_json::from_value(stored).unwrap();
            tracker.expand().unwrap();
            change(&mut tracker.spec.managed_resources);
            let stored = serde_json::to_value(tracker.to_stored().unwrap()).unwrap();
            let stored: DynamicObject = serde_json::from_value(stored).unwrap();
            written &= api.replace(&name, &PostParams::default(), &stored).await.is_ok();
        }
        written
    })
    .await;
}

/// The message of a condition.
async fn condition(space: &Space, type_: &str) -> String {
    let app = space.applications().get("a").await.unwrap();
    let all = app.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
    found["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn records_of_other_clusters_are_left_as_they_are() {
    let space = Space::with_programs("elsewhere").await;
    space.create("a", map("1")).await.unwrap();
    space.running("a").await;
    let maps = space.api::<ConfigMap>();
    let made = maps.get("m").await.unwrap();
    let log = space.cluster().audit_log();
    let from = audit::position(&log).unwrap();
    write(&space, |records| {
        let far = records.iter().map(|record| {
            let raw = record.raw.as_ref().map(vela_api::RawExtension::to_value).map(|mut raw| {
                raw["data"]["v"] = json!("far");
                vela_api::RawExtension::new(&raw)
            });
            ManagedResource { cluster: "far".to_owned(), raw, ..record.clone() }
        });
        let far: Vec<_> = far.collect();
        records.extend(far);
    })
    .await;
    until("the condition", LIMIT, async || {
        condition(&space, "OtherClusters").await.contains("1 in \"far\"")
    })
    .await;
    let patch = json!({"spec": {"components": map("2")}});
    let patch = Patch::Merge(&patch);
    space.applications().patch("a", &PatchParams::default(), &patch).await.unwrap();
    until("the new value", LIMIT, async || {
        let data = maps.get("m").await.unwrap().data.unwrap_or_default();
        data.get("v").map(String::as_str) == Some("2")
    })
    .await;
    space.running("a").await;
    assert_eq!(maps.get("m").await.unwrap().metadata.uid, made.metadata.uid);
    space.applications().delete("a", &DeleteParams::default()).await.unwrap();
    until("the wait of the deletion", LIMIT, async || {
        condition(&space, "Ready").await.starts_with("Waiting for objects in other clusters")
    })
    .await;
    assert!(maps.get_opt("m").await.unwrap().is_none(), "what is here goes");
    // The ConfigMap was changed by the edit and deleted with its Application, once each.
    let mut calls = audit::read(&log, from).unwrap();
    calls.retain(|call| {
        call.is_controllers()
            && (call.resource.as_str(), call.name.as_str()) == ("configmaps", "m")
            && call.namespace == space.name()
            && ["create", "delete"].contains(&call.verb.as_str())
    });
    let verbs: Vec<_> = calls.iter().map(|call| call.verb.as_str()).collect();
    assert_eq!(verbs, ["delete"]);
    write(&space, Vec::clear).await;
    until("the end", LIMIT, async || {
        space.applications().get_opt("a").await.unwrap().is_none()
            && space.trackers().await.is_empty()
    })
    .await;
}
