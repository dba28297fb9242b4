//! Names of clusters: one that goes, one that changes, two for one cluster, one that means another cluster.

use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::fixtures::until;
use vela_tests::members::{Fleet, Joining, LIMIT, NAMESPACE, fleet};
use vela_tests::{audit, members};

/// What the ledger of a cluster says: its entries.
async fn ledger(fleet: &Fleet, cluster: &str) -> Vec<Value> {
    use k8s_openapi::api::core::v1::ConfigMap;
    let maps: Api<ConfigMap> = Api::namespaced(fleet.client(), NAMESPACE);
    let map = maps.get_opt(&format!("vela-left-behind-{cluster}")).await.unwrap();
    let data = map.and_then(|map| map.data).unwrap_or_default();
    data.values().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// F8, as far as the Secret goes: what was deployed there stands in the ledger, and nothing waits for it.
#[tokio::test]
async fn a_cluster_that_is_detached_leaves_a_ledger() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("detached").await.unwrap();
    space.apply(&space.application("a", &["local", "east"], "1")).await.unwrap();
    space.runs("a").await;
    fleet.detach("east").await.unwrap();
    until("the ledger", LIMIT, async || {
        let all = ledger(fleet, "east").await;
        all.iter().any(|entry| entry["app"] == "detached/a" && entry["name"] == "a")
    })
    .await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));
    space.delete("a").await;
    // Nobody deleted it there.
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));
}

/// F8, the other half: `vela cluster detach local` takes all records of the hub out of the trackers before it refuses the name. What
/// is there stays, and is recorded again.
#[tokio::test]
async fn what_is_detached_of_the_hub_is_recorded_again() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("own").await.unwrap();
    space.apply(&space.application("a", &["local", "east"], "1")).await.unwrap();
    space.runs("a").await;
    let (uid, _) = space.map("local", "a").await.unwrap();
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "ResourceTracker");
    let trackers: Api<DynamicObject> = Api::all_with(fleet.client(), &ApiResource::from_gvk(&kind));
    let ours = ListParams::default().labels("app.oam.dev/name=a,app.oam.dev/namespace=own");
    let records = async || {
        let mut all = Vec::new();
        for stored in trackers.list(&ours).await.unwrap().items {
            let stored = serde_json::to_value(stored).unwrap();
            let mut tracker: vela_api::ResourceTracker = serde_json::from_value(stored).unwrap();
            tracker.expand().unwrap();
            all.extend(tracker.spec.managed_resources.into_iter().map(|record| record.cluster));
        }
        all.sort();
        all
    };
    let before = records().await;
    assert_eq!(before.len(), 2, "{before:?}");
    for stored in trackers.list(&ours).await.unwrap().items {
        let stored = serde_json::to_value(stored).unwrap();
        let mut tracker: vela_api::ResourceTracker = serde_json::from_value(stored).unwrap();
        tracker.expand().unwrap();
        tracker.spec.managed_resources.retain(|record| record.cluster == "east");
        let stored = serde_json::to_value(tracker.to_stored().unwrap()).unwrap();
        let name = stored["metadata"]["name"].as_str().unwrap().to_owned();
        let stored = serde_json::from_value(stored).unwrap();
        trackers.replace(&name, &PostParams::default(), &stored).await.unwrap();
    }
    until("the record", LIMIT, async || records().await.len() == 2).await;
    assert_eq!(space.map("local", "a").await.unwrap().0, uid);
    space.delete("a").await;
    for cluster in ["local", "east"] {
        assert_eq!(space.value(cluster, "a").await, None, "{cluster}");
    }
}

/// The Secret was gone for a while, and the same cluster is back: what it left is managed again.
#[tokio::test]
async fn a_cluster_that_comes_back_is_managed_again() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("back").await.unwrap();
    space.apply(&space.application("a", &["local", "east"], "1")).await.unwrap();
    space.runs("a").await;
    let is_noted =
        async || ledger(fleet, "east").await.iter().any(|entry| entry["app"] == "back/a");
    fleet.detach("east").await.unwrap();
    until("the ledger", LIMIT, is_noted).await;
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    until("the ledger to be empty", LIMIT, async || !is_noted().await).await;
    space.delete("a").await;
    assert_eq!(space.value("east", "a").await, None);
}

/// F9: the records of a cluster that was renamed are found under its new name.
#[tokio::test]
async fn a_renamed_cluster_is_the_same() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("renamed").await.unwrap();
    space.apply(&space.application("a", &["east"], "1")).await.unwrap();
    space.runs("a").await;
    let (uid, _) = space.map("east", "a").await.unwrap();
    let from = audit::position(&fleet.east.cluster.audit_log()).unwrap();
    // As `vela cluster rename` does it: two requests.
    fleet.detach("east").await.unwrap();
    fleet.write(&fleet.east.joining().secret("orient")).await.unwrap();
    fleet.reaches("orient", "Connected").await;
    space.apply(&space.application("a", &["orient"], "2")).await.unwrap();
    space.runs("a").await;
    until("the edit", LIMIT, async || space.value("east", "a").await.as_deref() == Some("2")).await;
    assert_eq!(space.map("east", "a").await.unwrap().0, uid);
    space.delete("a").await;
    assert_eq!(space.value("east", "a").await, None);
    let log = audit::read(&fleet.east.cluster.audit_log(), from).unwrap();
    let deletes = log
        .iter()
        .filter(|it| it.is_controllers() && it.verb == "delete" && it.namespace == "renamed");
    assert_eq!(deletes.count(), 1);
}

/// F10: two names of one cluster, and one of the hub itself.
#[tokio::test]
async fn an_object_is_never_deleted_under_another_name_of_its_cluster() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("aliases").await.unwrap();
    fleet.write(&fleet.east.joining().secret("zone")).await.unwrap();
    fleet.reaches("zone", "Connected").await;
    space.apply(&space.application("a", &["zone"], "1")).await.unwrap();
    space.runs("a").await;
    let (uid, _) = space.map("east", "a").await.unwrap();
    space.apply(&space.application("a", &["east"], "2")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.map("east", "a").await, Some((uid, "2".to_owned())));
    space.delete("a").await;
    assert_eq!(space.map("east", "a").await, None);
    until("events of the names", LIMIT, async || {
        fleet.events("zone").await.unwrap().iter().any(|(reason, _)| reason == "ClusterAlias")
    })
    .await;
}

/// F10, the second half: the hub joined under a name of its own, moved from and to.
#[tokio::test]
async fn the_hub_under_a_name_of_its_own_is_the_hub() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("twice").await.unwrap();
    let token = members::token(&fleet.hub, "vela-hub").await.unwrap();
    let port = members::port(&fleet.hub).unwrap();
    fleet.write(&Joining::at(&fleet.hub, port).token(&token).secret("hub2")).await.unwrap();
    fleet.reaches("hub2", "Connected").await;
    space.apply(&space.application("a", &["local"], "1")).await.unwrap();
    space.runs("a").await;
    let (uid, _) = space.map("local", "a").await.unwrap();
    let from = audit::position(&fleet.hub.audit_log()).unwrap();
    for (place, value) in [("hub2", "2"), ("local", "3"), ("hub2", "4")] {
        space.apply(&space.application("a", &[place], value)).await.unwrap();
        space.runs("a").await;
        assert_eq!(space.map("local", "a").await, Some((uid.clone(), value.to_owned())));
        let services = space.app("a").await["status"]["services"].clone();
        assert_eq!(services.as_array().map(Vec::len), Some(1), "{services}");
        assert_eq!(
            (&services[0]["cluster"], &services[0]["healthy"]),
            (&json!(place), &json!(true))
        );
    }
    // What drifts there is put back.
    let edit = json!({"data": {"v": "drift"}});
    let maps = space.objects("local", "v1", "ConfigMap");
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until("the drift to be put back", LIMIT, async || {
        space.value("local", "a").await.as_deref() == Some("4")
    })
    .await;
    let trackers = Api::<DynamicObject>::all_with(
        fleet.client(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(
            "core.oam.dev",
            "v1beta1",
            "ResourceTracker",
        )),
    );
    let of_it = ListParams::default().labels("app.oam.dev/name=a,app.oam.dev/namespace=twice");
    until("one tracker to be left", LIMIT, async || {
        trackers.list(&of_it).await.unwrap().items.len() == 1
    })
    .await;
    let log = audit::read(&fleet.hub.audit_log(), from).unwrap();
    let is_it = |it: &&audit::Entry| {
        it.verb == "delete"
            && it.resource == "configmaps"
            && it.namespace == "twice"
            && it.name == "a"
    };
    assert_eq!(log.iter().filter(is_it).count(), 0);
    space.delete("a").await;
    assert_eq!(space.map("local", "a").await, None);
}

/// F11: another cluster under a name gets what a run brings there, and nothing unasked; of the former one nothing is forgotten, and
/// when it is back the next run takes its objects over.
#[tokio::test]
async fn a_cluster_that_took_the_place_of_another_gets_nothing_unasked() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("replaced").await.unwrap();
    space.apply(&space.application("a", &["east"], "1")).await.unwrap();
    space.runs("a").await;
    let (uid, _) = space.map("east", "a").await.unwrap();
    let from = audit::position(&fleet.west.cluster.audit_log()).unwrap();
    let is_noted = async || {
        let all = ledger(fleet, "east").await;
        all.iter().any(|it| it["app"] == "replaced/a" && it["cause"] == "replaced")
    };
    fleet.write(&fleet.west.joining().secret("east")).await.unwrap();
    fleet.reaches("east", "Replaced").await;
    until("the event", LIMIT, async || {
        fleet.events("east").await.unwrap().iter().any(|(reason, _)| reason == "ClusterReplaced")
    })
    .await;
    until("the ledger", LIMIT, is_noted).await;
    fleet.reaches("east", "Connected").await;
    let reason = async || {
        let conditions = space.app("a").await["status"]["conditions"].clone();
        let all = conditions.as_array().cloned().unwrap_or_default();
        all.into_iter().find(|it| it["type"] == "Clusters").map(|it| it["reason"].clone())
    };
    until("the Application to say so", LIMIT, async || reason().await == Some(json!("Replaced")))
        .await;
    assert_eq!(space.value("west", "a").await, None);
    let log = audit::read(&fleet.west.cluster.audit_log(), from).unwrap();
    let ours = log.iter().filter(|it| it.is_controllers_write() && it.namespace == "replaced");
    assert_eq!(ours.count(), 0);
    // A run that somebody asked for.
    space.apply(&space.application("a", &["east"], "2")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("west", "a").await.as_deref(), Some("2"));
    assert_eq!(space.map("east", "a").await, Some((uid.clone(), "1".to_owned())));
    assert_eq!(reason().await, Some(json!("Reachable")));
    // The right one again.
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    fleet.reaches("east", "Replaced").await;
    fleet.reaches("east", "Connected").await;
    space.apply(&space.application("a", &["east"], "3")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.map("east", "a").await, Some((uid, "3".to_owned())));
    space.delete("a").await;
    assert_eq!(space.map("east", "a").await, None);
    assert_eq!(space.value("west", "a").await.as_deref(), Some("2"));
}

/// The same with a request for it, and a Secret that was made anew.
#[tokio::test]
async fn a_cluster_that_was_wiped_and_joined_again_is_filled_on_request() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("wiped").await.unwrap();
    let mut app = space.application("a", &["local", "east"], "1");
    app["metadata"]["annotations"] = json!({"app.oam.dev/on-cluster-replaced": "redeploy"});
    space.apply(&app).await.unwrap();
    space.runs("a").await;
    fleet.detach("east").await.unwrap();
    fleet.write(&fleet.west.joining().secret("east")).await.unwrap();
    until("the new cluster to be filled", LIMIT, async || {
        space.value("west", "a").await.as_deref() == Some("1")
    })
    .await;
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));
    let all = ledger(fleet, "east").await;
    assert!(all.iter().any(|it| it["app"] == "wiped/a" && it["cause"] == "replaced"), "{all:?}");
    space.delete("a").await;
    assert_eq!(space.value("west", "a").await, None);
    fleet.detach("east").await.unwrap();
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    fleet.reaches("east", "Connected").await;
}
