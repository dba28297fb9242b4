//! Applications of hundreds of objects, and one whose records are too large to be stored.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, quiet, until};

const LIMIT: Duration = Duration::from_secs(180);

/// ConfigMaps with so many bytes each; the last one has a version.
fn maps(count: usize, bytes: usize, version: usize) -> Value {
    let map = |index: usize| {
        let version = if index + 1 == count { version } else { 1 };
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{index}")},
            "data": {"version": version.to_string(), "text": "x".repeat(bytes)},
        })
    };
    let objects: Vec<Value> = (0..count).map(map).collect();
    json!([{"name": "maps", "type": "k8s-objects", "properties": {"objects": objects}}])
}

fn count() -> usize {
    if std::env::var_os("VELA_LONG_TESTS").is_some() { 2000 } else { 500 }
}

/// The ConfigMaps of the Application.
async fn stored(space: &Space) -> usize {
    let maps: Api<ConfigMap> = space.api();
    let all = maps.list_metadata(&ListParams::default()).await.unwrap().items;
    let names = all.into_iter().filter_map(|map| map.metadata.name);
    names.filter(|name| name.starts_with("map-")).count()
}

#[tokio::test]
async fn an_application_of_hundreds_of_objects_lives_like_any_other() {
    let space = Space::with_programs("large").await;
    let applications = space.applications();
    space.create("app", maps(count(), 0, 1)).await.unwrap();
    let state = async || {
        let app = applications.get("app").await.unwrap();
        app.data["status"]["status"].as_str().unwrap_or_default().to_owned()
    };
    until("all objects", LIMIT, async || state().await == "running").await;
    assert_eq!(stored(&space).await, count());
    let log = space.cluster().audit_log();
    let ours = |entry: &Entry| entry.is_controllers_write() && entry.namespace == space.name();
    quiet(&log, Duration::from_secs(2), ours).await;
    for object in space.trackers().await {
        let bytes = serde_json::to_vec(&object).unwrap().len();
        assert!(bytes < 400 * count(), "a tracker of {bytes} bytes");
    }

    let from = audit::position(&log).unwrap();
    let edit = json!({"spec": {"components": maps(count(), 0, 2)}});
    applications.patch("app", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let api: Api<ConfigMap> = space.api();
    let last = format!("map-{}", count() - 1);
    until("the edit", LIMIT, async || {
        api.get(&last).await.unwrap().data.unwrap()["version"] == "2"
    })
    .await;
    quiet(&log, Duration::from_secs(2), ours).await;
    let mut writes = audit::read(&log, from).unwrap();
    // All of them are labelled with the new revision, each in one write.
    writes.retain(|entry| ours(entry) && entry.resource == "configmaps");
    let objects: BTreeSet<&str> = writes.iter().map(|entry| &*entry.name).collect();
    assert_eq!((writes.len(), objects.len()), (count(), count()));

    applications.delete("app", &DeleteParams::default()).await.unwrap();
    until("the deletion", LIMIT, async || applications.get_opt("app").await.unwrap().is_none())
        .await;
    assert_eq!((stored(&space).await, space.trackers().await.len()), (0, 0));
}
