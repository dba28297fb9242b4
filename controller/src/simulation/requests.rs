//! The requests of one Application with two objects: each is needed, and a further one has to be argued for here. The rate limit
//! divides by them how many Applications can be served in a second.

use super::clusters::{apply, delete};
use super::{World, application};

/// What was sent, sorted: what does not depend on each other goes out together.
async fn sent(world: &World, process: &mut super::Process, value: Option<&str>) -> Vec<String> {
    match value {
        Some(value) => apply(world, application("a", &[("one", &["x", "y"], value)])),
        None => delete(world),
    }
    world.server.state.lock().requests.clear();
    world.settle(process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    let mut sent = std::mem::take(&mut world.server.state.lock().requests);
    sent.sort();
    sent
}

#[tokio::test]
async fn every_request_is_needed() {
    let world = World::new();
    let mut process = world.start();
    let creation = [
        // The first list of a kind, once in a process.
        "GET configmaps",
        // The record of the run, before the status names its end.
        "PATCH applicationrevisions/status",
        "PATCH applications",
        "PATCH applications/status",
        "POST applicationrevisions",
        // Two objects, and the context of the workflow.
        "POST configmaps",
        "POST configmaps",
        "POST configmaps",
        // The first object is its own trial.
        "POST configmaps, dry",
        "POST resourcetrackers",
    ];
    assert_eq!(sent(&world, &mut process, Some("1")).await, creation);
    let edit = [
        // The tracker of the run before: marked, then let go.
        "DELETE resourcetrackers",
        // Rules of deletions; there is a watch for them outside of simulations.
        "GET namespaces",
        "PATCH applicationrevisions/status",
        "PATCH applications/status",
        "PATCH configmaps",
        "PATCH configmaps",
        "PATCH configmaps, dry",
        "PATCH resourcetrackers",
        "POST applicationrevisions",
        "POST resourcetrackers",
    ];
    assert_eq!(sent(&world, &mut process, Some("2")).await, edit);
    let deletion = [
        "DELETE applicationrevisions",
        "DELETE configmaps",
        "DELETE configmaps",
        "DELETE resourcetrackers",
        // As it is decided, and once more when the objects are gone.
        "GET namespaces",
        "GET namespaces",
        "PATCH applications",
        "PATCH resourcetrackers",
    ];
    assert_eq!(sent(&world, &mut process, None).await, deletion);
    // Nothing is asked about what is settled.
    sent(&world, &mut process, Some("1")).await;
    for _ in 0..3 {
        world.pass(std::time::Duration::from_secs(300));
        assert_eq!(sent(&world, &mut process, Some("1")).await, [""; 0]);
    }
}
