//! Another cluster answers under the name of one: what was in the former one is noted, the new one is not filled unasked, and
//! whoever waits for it goes on.

use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vela_cluster::members::State;

use crate::clusters::replaced::Recorded;
use crate::queue::{Key, Next, WorkerKind};

use super::clusters::{app, apply, delete, deployed, everywhere, is_clean, server, work, world};
use super::ledger::ledger;
use super::{NAMESPACE, Process, World};

/// A cluster of a uid answers in `west`, for some seconds.
fn answers(process: &Process, uid: &str, seconds: i64) {
    let snapshot = process.context.clusters.snapshot();
    let since = Timestamp::now() - SignedDuration::from_secs(seconds);
    snapshot.members().get("west").unwrap().answers_as(uid, since);
}

fn state(process: &Process) -> State {
    process.context.clusters.snapshot().members().get("west").unwrap().state()
}

/// What the controller does between reconciles. Returns whether a cluster waits for records to go.
fn accepts(world: &World, process: &Process) -> bool {
    world.sync(process);
    process.context.clusters.accept_now(&process.context.trackers, &mut Recorded::default())
}

/// Another cluster, and an empty one, for so many seconds.
fn replace(world: &World, process: &Process, seconds: i64) {
    accepts(world, process);
    server(world, "west").by_another_writer(|state| {
        state.delete("configmaps", NAMESPACE, "w");
    });
    answers(process, "another", seconds);
}

fn clusters(world: &World) -> (Value, String) {
    let app = world.app("a");
    let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == "Clusters").unwrap_or_default();
    (found["reason"].clone(), found["message"].as_str().unwrap_or_default().to_owned())
}

async fn running(annotation: &str) -> (World, Process) {
    let world = world();
    let mut process = world.start();
    let mut app = app(&json!(["local", "west"]), "1");
    app["metadata"]["annotations"] = json!({"app.oam.dev/on-cluster-replaced": annotation});
    apply(&world, app);
    world.settle(&mut process, "a").await;
    (world, process)
}

#[tokio::test]
async fn a_new_cluster_is_not_filled_until_a_run_is_asked_for() {
    let (world, mut process) = running("").await;
    replace(&world, &process, 0);
    assert_eq!(state(&process), State::Replaced);
    work(&world, &process).await;
    // It may be a mistake of a moment.
    assert_eq!(ledger(&world, "west"), []);
    assert!(accepts(&world, &process));
    answers(&process, "west", 0);
    assert_eq!(state(&process), State::Connected);
    replace(&world, &process, 11);
    let before = server(&world, "west").state.lock().writes;
    work(&world, &process).await;
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "replaced".to_owned())]);
    assert_eq!(clusters(&world).0, "Replaced");
    assert!(!accepts(&world, &process));
    assert_eq!(state(&process), State::Connected);
    world.settle(&mut process, "a").await;
    assert_eq!(server(&world, "west").state.lock().writes, before);
    let (reason, message) = clusters(&world);
    assert_eq!(reason, "Replaced");
    assert!(message.contains("next run of the workflow"), "{message}");
    apply(&world, app(&json!(["local", "west"]), "2"));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["local", "west"]));
    assert_eq!(clusters(&world).0, "Reachable");
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world) && deployed(&world).is_empty());
}

#[tokio::test]
async fn an_application_that_asks_for_it_is_deployed_again_once() {
    let (world, mut process) = running("redeploy").await;
    replace(&world, &process, 11);
    work(&world, &process).await;
    // The run waits for the cluster, and records nothing that the cluster would wait for.
    assert_eq!(world.app("a")["status"]["status"], "runningWorkflow", "{}", world.app("a"));
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "replaced".to_owned())]);
    while let Some(Some(key)) = process.context.queue.next(WorkerKind::All).now_or_never() {
        process.context.queue.done(key, Next::Done);
    }
    assert!(!accepts(&world, &process));
    let woken = process.context.queue.next(WorkerKind::All);
    let woken = tokio::time::timeout(Duration::from_secs(10), woken).await.unwrap();
    assert_eq!(woken, Some(Key::new(NAMESPACE, "a")));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
    assert_eq!(world.app("a")["status"]["status"], "running");
    assert_eq!(clusters(&world).0, "Reachable");
    let writes = server(&world, "west").state.lock().writes;
    work(&world, &process).await;
    assert_eq!(server(&world, "west").state.lock().writes, writes);
}

/// The right cluster answers again: what it has is left as it is until a run takes it over.
#[tokio::test]
async fn the_former_cluster_is_as_it_was_when_it_is_back() {
    let (world, mut process) = running("").await;
    accepts(&world, &process);
    answers(&process, "another", 11);
    work(&world, &process).await;
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "replaced".to_owned())]);
    answers(&process, "west", 0);
    assert_eq!(state(&process), State::Connected);
    work(&world, &process).await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
    apply(&world, app(&json!(["local", "west"]), "2"));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["local", "west"]));
    assert_eq!(server(&world, "west").state.lock().deletes, Vec::<String>::new());
    delete(&world);
    work(&world, &process).await;
    assert!(is_clean(&world) && deployed(&world).is_empty());
}

/// A deletion does not wait for a cluster that nobody will ever see again.
#[tokio::test]
async fn a_deletion_does_not_wait_for_a_cluster_that_was_replaced() {
    let (world, mut process) = running("redeploy").await;
    replace(&world, &process, 11);
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world));
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "replaced".to_owned())]);
}

/// A run that was in flight when its cluster was replaced goes on in the new one.
#[tokio::test]
async fn a_run_that_waits_goes_on_in_the_new_cluster() {
    let (world, mut process) = running("").await;
    accepts(&world, &process);
    super::clusters::disconnect(&process, "west");
    apply(&world, app(&json!(["local", "west"]), "2"));
    work(&world, &process).await;
    assert_eq!(world.app("a")["status"]["status"], "runningWorkflow");
    super::clusters::reconnect(&process, "west");
    replace(&world, &process, 11);
    work(&world, &process).await;
    assert!(!accepts(&world, &process));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["local", "west"]));
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "replaced".to_owned())]);
}
