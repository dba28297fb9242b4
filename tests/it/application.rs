//! From an Application to objects that run, through edits, to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, quiet, until};

fn web(name: &str) -> Value {
    json!({ "name": name, "type": "webservice", "properties": { "image": "nginx" } })
}

#[tokio::test]
async fn an_application_runs_and_leaves_nothing_behind() {
    let space = Space::with_programs("app").await;
    let mut component = web("front");
    component["properties"]["ports"] = json!([{ "port": 80, "expose": true }]);
    component["traits"] = json!([
        { "type": "scaler", "properties": { "replicas": 2 } },
        { "type": "labels", "properties": { "team": "shop" } },
    ]);
    space.create("whole", json!([component])).await.unwrap();
    let application = space.running("whole").await;

    let deployment = space.api::<Deployment>().get("front").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
    assert_eq!(deployment.status.unwrap().available_replicas, Some(2));
    let labels = deployment.metadata.labels.unwrap();
    assert_eq!(labels["team"], "shop");
    assert_eq!(labels["app.oam.dev/name"], "whole");
    space.api::<Service>().get("front").await.unwrap();
    let status = &application.data["status"];
    assert_eq!(status["services"][0]["healthy"], true, "{status:#}");
    assert_eq!(status["latestRevision"]["name"], "whole-v1", "{status:#}");
    assert!(!space.trackers().await.is_empty());

    space.applications().delete("whole", &DeleteParams::default()).await.unwrap();
    until("nothing left", Duration::from_secs(60), async || {
        let all = ListParams::default();
        space.applications().get_opt("whole").await.unwrap().is_none()
            && space.api::<Deployment>().list(&all).await.unwrap().items.is_empty()
            && space.api::<Service>().list(&all).await.unwrap().items.is_empty()
            && space.trackers().await.is_empty()
            && space
                .objects("core.oam.dev/v1beta1", "ApplicationRevision")
                .list(&all)
                .await
                .unwrap()
                .items
                .is_empty()
            && space
                .api::<ConfigMap>()
                .list(&all)
                .await
                .unwrap()
                .items
                .iter()
                .all(|map| map.metadata.name.as_deref() == Some("kube-root-ca.crt"))
    })
    .await;
}

#[tokio::test]
async fn an_edit_reaches_the_deployment_and_makes_a_revision() {
    let space = Space::with_programs("app").await;
    space.create("edited", json!([web("front")])).await.unwrap();
    space.running("edited").await;
    let edit = json!({ "spec": { "components": [{
        "name": "front", "type": "webservice", "properties": { "image": "nginx:2" },
    }] } });
    space
        .applications()
        .patch("edited", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    until("the new image", Duration::from_secs(30), async || {
        let deployment = space.api::<Deployment>().get("front").await.unwrap();
        let image = deployment.spec.unwrap().template.spec.unwrap().containers[0].image.clone();
        image.as_deref() == Some("nginx:2")
    })
    .await;
    let application = space.running("edited").await;
    assert_eq!(application.data["status"]["latestRevision"]["name"], "edited-v2");
}

/// The reference deletes every object of an Application at such an edit.
#[tokio::test]
async fn an_edit_without_meaning_deletes_nothing() {
    let space = Space::with_programs("app").await;
    space.create("same", json!([web("front")])).await.unwrap();
    let before = space.running("same").await;
    let uid = space.api::<Deployment>().get("front").await.unwrap().metadata.uid;
    let log = space.cluster().audit_log();
    let from = audit::position(&log).unwrap();

    let mut component = web("front");
    component["traits"] = json!([]);
    let edit = json!({ "spec": { "components": [component], "policies": [] } });
    space
        .applications()
        .patch("same", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    let after = space.running("same").await;
    assert!(after.metadata.generation > before.metadata.generation, "the edit was stored");
    // `running` with the new generation means that the controller is done with it.
    assert_eq!(space.api::<Deployment>().get("front").await.unwrap().metadata.uid, uid);
    let deleted: Vec<_> = audit::read(&log, from)
        .unwrap()
        .into_iter()
        .filter(|entry| entry.is_controllers())
        .filter(|entry| entry.namespace == space.name() && entry.resource == "deployments")
        .filter(|entry| entry.verb.starts_with("delete"))
        .collect();
    assert!(deleted.is_empty(), "{deleted:?}");
}

/// How an Application is restored from a backup while its objects serve: the controller must not be quicker in putting its
/// finalizer back than the next request is in deleting.
#[tokio::test]
async fn an_application_without_its_finalizer_is_deleted_alone_and_finds_its_objects_again() {
    let space = Space::with_programs("app").await;
    space.create("restored", json!([web("front")])).await.unwrap();
    space.running("restored").await;
    let uid = space.api::<Deployment>().get("front").await.unwrap().metadata.uid;
    let applications = space.applications();
    let cut = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    applications.patch("restored", &PatchParams::default(), &cut).await.unwrap();
    applications.delete("restored", &DeleteParams::default()).await.unwrap();
    assert!(applications.get_opt("restored").await.unwrap().is_none());
    space.create("restored", json!([web("front")])).await.unwrap();
    let restored = space.running("restored").await;
    assert!(restored.metadata.finalizers.is_some_and(|all| !all.is_empty()));
    assert_eq!(space.api::<Deployment>().get("front").await.unwrap().metadata.uid, uid);
    assert_eq!(space.trackers().await.len(), 1);
}

#[tokio::test]
async fn drift_is_healed_at_once() {
    let space = Space::with_programs("app").await;
    let mut component = web("front");
    component["traits"] = json!([{ "type": "scaler", "properties": { "replicas": 1 } }]);
    space.create("drifting", json!([component])).await.unwrap();
    space.running("drifting").await;
    let scale = json!({ "spec": { "replicas": 3 } });
    let deployments = space.api::<Deployment>();
    deployments.patch("front", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    until("one replica again", Duration::from_secs(10), async || {
        deployments.get("front").await.unwrap().spec.unwrap().replicas == Some(1)
    })
    .await;
    deployments.delete("front", &DeleteParams::default()).await.unwrap();
    until("the Deployment again", Duration::from_secs(10), async || {
        let found = deployments.get_opt("front").await.unwrap();
        found.is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    })
    .await;
}

/// The server fills in what an item of a list leaves out, so that the list never is what the manifest says: no reason to
/// write again and again, and no reason to overlook what somebody else makes of it.
#[tokio::test]
async fn drift_is_healed_in_a_list_that_the_server_fills_in() {
    let space = Space::with_programs("app").await;
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "door" },
        "spec": {
            "podSelector": {},
            "ingress": [{ "ports": [{ "port": 80 }], "from": [{ "podSelector": {} }] }],
        },
    });
    let component = json!({
        "name": "door", "type": "k8s-objects", "properties": { "objects": [policy] },
    });
    space.create("filled", json!([component])).await.unwrap();
    space.running("filled").await;
    let network_policies = space.objects("networking.k8s.io/v1", "NetworkPolicy");
    let ours = |entry: &Entry| entry.is_controllers_write() && entry.namespace == space.name();
    let log = space.cluster().audit_log();
    let label = |value: &str| json!({ "metadata": { "labels": { "seen": value } } });
    let opened_policy = json!({ "spec": { "ingress": [{}] } });
    let merge = PatchParams::default();
    for round in ["a", "b"] {
        // A change that is nobody's business has it compared, and found to be as it should be.
        network_policies.patch("door", &merge, &Patch::Merge(&label(round))).await.unwrap();
        quiet(&log, Duration::from_secs(2), ours).await;
        network_policies.patch("door", &merge, &Patch::Merge(&opened_policy)).await.unwrap();
        until("the door as it should be", Duration::from_secs(10), async || {
            let policy_object = network_policies.get("door").await.unwrap();
            policy_object.data.pointer("/spec/ingress/0/ports/0/port") == Some(&json!(80))
        })
        .await;
    }
}

/// A rollout that does not come to its end: the step that waits for it holds what it dispatched.
#[tokio::test]
async fn drift_is_healed_while_a_rollout_goes_on() {
    let space = Space::with_programs("app").await;
    let mut component = web("front");
    // No node has that much.
    component["properties"]["memory"] = json!("900Ti");
    component["traits"] = json!([{ "type": "scaler", "properties": { "replicas": 1 } }]);
    space.create("rolling", json!([component])).await.unwrap();
    let deployments = space.api::<Deployment>();
    let is_rolling = async || {
        let app = space.applications().get("rolling").await.unwrap();
        let message = &app.data["status"]["workflow"]["steps"][0]["message"];
        app.data["status"]["status"] == "runningWorkflow"
            && message.as_str().is_some_and(|message| message.starts_with("wait healthy"))
    };
    until("a rollout", Duration::from_secs(60), is_rolling).await;
    let scale = json!({ "spec": { "replicas": 3 } });
    deployments.patch("front", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    until("one replica again", Duration::from_secs(5), async || {
        deployments.get("front").await.unwrap().spec.unwrap().replicas == Some(1)
    })
    .await;
    until("the event", Duration::from_secs(10), async || {
        let events = space.objects("v1", "Event").list(&ListParams::default()).await.unwrap();
        events.items.iter().any(|event| {
            let message = event.data["message"].as_str().unwrap_or_default();
            event.data["reason"] == "DriftCorrected"
                && message.starts_with("Deployment front was changed by ")
        })
    })
    .await;
    assert!(is_rolling().await);
}

/// Others write to the Application and to what it made all the time; an edit gets through, and the end is right.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_gets_through_a_storm_of_writes() {
    let space = Space::with_programs("app").await;
    space.create("stormy", json!([web("front")])).await.unwrap();
    space.running("stormy").await;
    let (stop, mut writers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let turns = Arc::new(AtomicU32::new(0));
    for writer in 0..4 {
        let (stop, turns) = (Arc::clone(&stop), Arc::clone(&turns));
        let applications = space.applications();
        let deployments = space.api::<Deployment>();
        writers.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let turn = turns.fetch_add(1, Ordering::SeqCst);
                let note = json!({ "metadata": { "annotations": { format!("w{writer}"): turn.to_string() } } });
                let (how, patch) = (PatchParams::default(), Patch::Merge(&note));
                let _ = applications.patch("stormy", &how, &patch).await;
                let _ = deployments.patch("front", &how, &patch).await;
            }
        });
    }
    for image in ["nginx:1", "nginx:2", "nginx:3"] {
        let before = turns.load(Ordering::SeqCst);
        until("a storm", Duration::from_secs(60), async || {
            turns.load(Ordering::SeqCst) >= before + 8
        })
        .await;
        let edit = json!({ "spec": { "components": [{
            "name": "front", "type": "webservice", "properties": { "image": image },
        }] } });
        space
            .applications()
            .patch("stormy", &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        until("the new image", Duration::from_secs(60), async || {
            let deployment = space.api::<Deployment>().get("front").await.unwrap();
            let container = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
            container.image.as_deref() == Some(image)
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    writers.join_all().await;
    let application = space.running("stormy").await;
    assert_eq!(application.data["status"]["latestRevision"]["name"], "stormy-v4");
    assert_eq!(space.trackers().await.len(), 1);
}

#[tokio::test]
async fn nothing_is_written_when_nothing_happens() {
    let space = Space::with_programs("app").await;
    space.create("quiet", json!([web("front")])).await.unwrap();
    space.running("quiet").await;
    let log = space.cluster().audit_log();
    // The last writes of the roll-out (an event, a revision's status) may still be in flight.
    let ours = |entry: &Entry| entry.is_controllers_write() && entry.namespace == space.name();
    quiet(&log, Duration::from_secs(2), ours).await;
    // A label on an unrelated object and a Pod that comes and goes are no reason to write.
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    let applications = space.applications();
    let application = applications.get("quiet").await.unwrap();
    assert_eq!(application.data["status"]["status"], "running");
    space
        .api::<Deployment>()
        .patch("front", &PatchParams::default(), &Patch::Merge(&label))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let status = applications.get("quiet").await.unwrap();
    assert_eq!(status.metadata.resource_version, application.metadata.resource_version);
}
