//! What the life of an Application costs the API server, counted in its audit log: a goal that is a number of requests is a
//! test, one that is a time is not.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, quiet, until};

/// A webservice with a Service, a scaler and an Ingress: three objects.
fn shop(image: &str) -> Value {
    json!([{
        "name": "shop", "type": "webservice",
        "properties": {
            "image": image, "cpu": "100m", "memory": "64Mi", "labels": {"team": "shop"},
            "ports": [{"port": 80, "expose": true}], "env": [{"name": "A", "value": "b"}],
        },
        "traits": [
            {"type": "scaler", "properties": {"replicas": 1}},
            {"type": "gateway", "properties": {
                "domain": "shop.example.com", "http": {"/": 80}, "class": "nginx"}},
        ],
    }])
}

/// The controller's requests for the Applications of a namespace from a position of the log on, dry runs and events
/// included, once there were none for longer than events let others pass.
async fn settled(space: &Space, from: u64) -> Vec<Entry> {
    let log = space.cluster().audit_log();
    let is_about = |entry: &Entry| {
        entry.is_controllers()
            && entry.verb != "watch"
            && (entry.namespace == space.name() || entry.name.ends_with(space.name()))
    };
    quiet(&log, Duration::from_secs(4), is_about).await;
    let mut calls = audit::read(&log, from).unwrap();
    calls.retain(is_about);
    calls
}

fn table(calls: &[Entry]) -> String {
    let lines = audit::count(calls);
    lines.into_iter().map(|((verb, what), count)| format!("\n  {count} {verb} {what}")).collect()
}

#[tokio::test]
async fn the_life_of_an_application_takes_few_requests() {
    let space = Space::with_programs("calls").await;
    let log = space.cluster().audit_log();
    // The kinds are watched from their first object on; that is the first Application's.
    space.create("first", shop("nginx")).await.unwrap();
    space.running("first").await;
    space.applications().delete("first", &DeleteParams::default()).await.unwrap();
    until("the end of the first", Duration::from_secs(60), async || {
        space.applications().get_opt("first").await.unwrap().is_none()
    })
    .await;
    settled(&space, 0).await;

    let from = audit::position(&log).unwrap();
    space.create("shop", shop("nginx")).await.unwrap();
    space.running("shop").await;
    let created = settled(&space, from).await;

    let from = audit::position(&log).unwrap();
    let edit = json!({"spec": {"components": shop("nginx:2")}});
    let patch = Patch::Merge(&edit);
    space.applications().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    until("the new image", Duration::from_secs(30), async || {
        let deployment = space.api::<Deployment>().get("shop").await.unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        pod.containers[0].image.as_deref() == Some("nginx:2")
    })
    .await;
    space.running("shop").await;
    let edited = settled(&space, from).await;

    let from = audit::position(&log).unwrap();
    space.applications().delete("shop", &DeleteParams::default()).await.unwrap();
    until("the end", Duration::from_secs(60), async || {
        space.applications().get_opt("shop").await.unwrap().is_none()
            && space.trackers().await.is_empty()
    })
    .await;
    let deleted = settled(&space, from).await;

    for (what, calls, most) in
        [("creation", &created, 18), ("edit", &edited, 15), ("deletion", &deleted, 7)]
    {
        eprintln!("{what}: {} requests{}", calls.len(), table(calls));
        assert!(calls.len() <= most, "{what}: {} requests{}", calls.len(), table(calls));
        // None of them in vain.
        assert!(calls.iter().all(|entry| entry.code < 400), "{what}: {calls:?}");
    }
    assert!(!deleted.is_empty() && !created.is_empty(), "the audit log is read");
}
