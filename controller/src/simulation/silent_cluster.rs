//! A cluster that takes requests in and answers none: what an Application has elsewhere waits for nothing, and neither does the next
//! edit of it.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::clusters::{app, apply, deployed, everywhere, server, world};
use super::{Process, World};

/// No request has a time limit here, so whoever waits for one waits longer than that.
const LIMIT: Duration = Duration::from_secs(20);

/// Where the Application is.
const ALL: [&str; 3] = ["local", "east", "west"];

/// The Application is everywhere, and nothing is left to do.
async fn settled() -> (World, Process) {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(ALL), "1"));
    world.settle(&mut process, "a").await;
    (world, process)
}

/// Waits until the object of the Application has a value in some clusters.
async fn arrives(world: &World, value: &str, clusters: &[&'static str]) {
    let wanted = everywhere(value, clusters);
    while !wanted.iter().all(|one| deployed(world).contains(one)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reconciles the Application until it has its value in some clusters; the reconcile goes on for as long as `then` takes.
async fn reconciled_until(
    (world, process): (&World, &Process),
    (value, clusters): (&str, &[&'static str]),
    then: impl AsyncFnOnce(),
) {
    let elsewhere = async {
        arrives(world, value, clusters).await;
        then().await;
    };
    tokio::select! {
        () = elsewhere => {}
        () = async { while world.reconcile(process, "a").await.is_some() {} } => {}
    }
}

#[tokio::test]
async fn a_cluster_that_swallows_requests_delays_no_other_and_no_later_edit() {
    let (world, mut process) = settled().await;
    for (silent, others, value) in [("east", ["local", "west"], 2), ("west", ["local", "east"], 4)]
    {
        server(&world, silent).swallow(true);
        let (edit, next) = (value.to_string(), (value + 1).to_string());
        apply(&world, app(&json!(ALL), &edit));
        let work = (&world, &process);
        let edited = reconciled_until(work, (&edit, &others), async || {
            // While it waits for the answer that does not come.
            apply(&world, app(&json!(ALL), &next));
            world.sync(&process);
            arrives(&world, &next, &others).await;
        });
        timeout(LIMIT, edited).await.expect("both edits elsewhere");
        server(&world, silent).swallow(false);
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), everywhere(&next, &ALL));
        assert_eq!(world.app("a")["status"]["status"], "running");
    }
}

#[tokio::test]
async fn a_cluster_whose_objects_are_not_listed_yet_holds_up_no_other() {
    let (world, former) = settled().await;
    server(&world, "east").swallow(true);
    // It has seen no object of any cluster.
    let mut process = world.start();
    drop(former);
    apply(&world, app(&json!(ALL), "2"));
    let edited = reconciled_until((&world, &process), ("2", &["local", "west"]), async || ());
    timeout(LIMIT, edited).await.expect("the edit elsewhere");
    server(&world, "east").swallow(false);
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &ALL));
}
