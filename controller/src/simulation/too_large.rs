//! What is recorded of an Application is too large for the API server: it says so with the size, and loses nothing.

use std::time::Duration;

use serde_json::Value;

use super::clusters::apply;
use super::{Process, World, application, named_maps};

/// What the API server answers, and what it says if the limit is that of etcd.
const ANSWERS: [(u16, &str); 2] = [
    (413, "Request entity too large: limit is 3145728"),
    (500, "etcdserver: request is too large"),
];

/// Of one component with so many objects.
fn apply_maps(world: &World, count: usize, value: &str) {
    let names: Vec<String> = (0..count).map(|n| format!("c{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    apply(world, application("a", &[("one", &names, value)]));
}

/// As long as a workflow takes until it gives up, and longer.
async fn wait(world: &World, process: &Process) {
    for _ in 0..20 {
        let _ = world.reconcile(process, "a").await;
        world.pass(Duration::from_secs(60));
    }
}

/// The bytes of the largest object of a kind, as it is sent: the status comes later.
fn largest(world: &World, plural: &str) -> usize {
    let state = world.server.state.lock();
    let sent = |object: &Value| {
        let mut object = object.clone();
        object["status"].take();
        object.to_string().len()
    };
    state.all(plural).into_iter().map(sent).max().unwrap_or_default()
}

/// The message of the status about something too large.
fn reported(app: &Value, answer: &str) -> String {
    let status = app["status"].clone();
    let steps = status["workflow"]["steps"].as_array().cloned().unwrap_or_default();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let texts = steps.iter().chain(&conditions).filter_map(|one| one["message"].as_str());
    texts.filter(|text| text.contains(answer)).map(str::to_owned).next().unwrap_or_default()
}

async fn refused(plural: &'static str, kind: &str, answer: (u16, &'static str)) {
    let world = World::new();
    let mut process = world.start();
    apply_maps(&world, 4, "1");
    world.settle(&mut process, "a").await;
    let (before, fits) = (named_maps(&world), largest(&world, plural));
    let recorded = |world: &World| {
        let state = world.server.state.lock();
        state.all("resourcetrackers").into_iter().cloned().collect::<Vec<_>>()
    };
    let trackers = recorded(&world);
    // An edit that needs far more.
    world.server.state.lock().limit = Some((plural, fits + 200, answer));
    apply_maps(&world, 90, "2");
    wait(&world, &process).await;
    let text = reported(&world.app("a"), answer.1);
    let size = text.split(kind).nth(1).and_then(|rest| rest.split(": ").nth(1));
    let size: usize =
        size.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or_default();
    assert!(size > fits + 200, "{answer:?}: {text:?} in {:#}", world.app("a")["status"]);
    // What was there is there, and so is what remembers it.
    assert_eq!(world.server.state.lock().deletes, [""; 0]);
    let now = named_maps(&world);
    let names = |maps: &[(String, String)]| -> Vec<String> {
        maps.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&now), names(&before));
    // One write of an object that is recorded already goes out together with the record.
    let changed = now.iter().filter(|(_, value)| value == "2").count();
    assert!(changed <= 1, "{now:?}");
    for tracker in trackers {
        let records = &tracker["spec"]["managedResources"];
        let kept = recorded(&world);
        assert!(kept.iter().any(|it| it["spec"]["managedResources"] == *records), "{kept:#?}");
    }
    // With less, or with more room, it goes on.
    apply_maps(&world, 5, "3");
    world.server.state.lock().limit = None;
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

#[tokio::test]
async fn a_tracker_that_is_too_large_costs_nothing() {
    for answer in ANSWERS {
        refused("resourcetrackers", "ResourceTracker", answer).await;
    }
}

#[tokio::test]
async fn a_revision_that_is_too_large_costs_nothing() {
    for answer in ANSWERS {
        refused("applicationrevisions", "ApplicationRevision", answer).await;
    }
}

/// Of a new Application nothing is made.
#[tokio::test]
async fn what_cannot_be_recorded_is_not_made() {
    for plural in ["resourcetrackers", "applicationrevisions"] {
        for answer in ANSWERS {
            let world = World::new();
            let mut process = world.start();
            world.server.state.lock().limit = Some((plural, 400, answer));
            apply_maps(&world, 20, "1");
            wait(&world, &process).await;
            assert_eq!(named_maps(&world), [], "{plural}");
            let text = reported(&world.app("a"), answer.1);
            assert!(text.contains("bytes were sent)"), "{text}");
            world.server.state.lock().limit = None;
            apply_maps(&world, 20, "2");
            world.settle(&mut process, "a").await;
            assert_eq!(world.faults("a"), Vec::<String>::new());
        }
    }
}

/// What an Application shows stays, it says why, and what it deploys does not wait for that.
#[tokio::test]
async fn a_status_that_is_too_large_says_so_and_stops_nothing() {
    for answer in ANSWERS {
        let world = World::new();
        let mut process = world.start();
        apply_maps(&world, 1, "1");
        world.settle(&mut process, "a").await;
        let before = world.app("a")["status"]["appliedResources"].clone();
        world.server.state.lock().limit = Some(("applications", 2500, answer));
        apply_maps(&world, 60, "2");
        wait(&world, &process).await;
        let text = reported(&world.app("a"), answer.1);
        assert!(text.starts_with("the status cannot be stored"), "{text}");
        assert!(text.contains("(Application a: ") && text.ends_with(" bytes were sent)"), "{text}");
        assert_eq!(world.app("a")["status"]["appliedResources"], before);
        assert_eq!(named_maps(&world).len(), 60);
        let version = world.app("a")["metadata"]["resourceVersion"].clone();
        wait(&world, &process).await;
        assert_eq!(world.app("a")["metadata"]["resourceVersion"], version);
        world.server.state.lock().limit = None;
        apply_maps(&world, 60, "3");
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new());
        let applied = world.app("a")["status"]["appliedResources"].clone();
        assert_eq!(applied.as_array().map(Vec::len), Some(60));
    }
}
