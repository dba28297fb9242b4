//! Objects left behind in removed clusters are in the ledger: no record is lost, and nothing waits for them.

use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use vela_apply::object::cluster_of;
use vela_cluster::members::ABSENT;

use crate::clusters::rejoin::Find;
use crate::clusters::replaced::Recorded;

use super::clusters::{
    app, apply, delete, deployed, disconnect, everywhere, is_clean, server, work, world,
};
use super::members::cluster;
use super::{NAMESPACE, Process, World, other_clusters};

#[tokio::test]
async fn what_was_deployed_to_a_cluster_that_is_taken_away_stands_in_the_ledger() {
    for deletes in [false, true] {
        let world = world();
        let mut process = world.start();
        apply(&world, app(&json!(["east", "west"]), "1"));
        world.settle(&mut process, "a").await;
        let members = process.context.clusters.members().unwrap();
        members.removed("west", Instant::now());
        if deletes {
            delete(&world);
        } else {
            apply(&world, app(&json!(["east"]), "2"));
        }
        let ledger = |world: &World| {
            let state = world.server.state.lock();
            state.get("configmaps", "vela-system", "vela-left-behind-west").cloned()
        };
        work(&world, &process).await;
        assert!(ledger(&world).is_none() && !is_clean(&world));
        // Longer than a Secret that is created again is away.
        let past = Instant::now().checked_sub(ABSENT).unwrap();
        let members = process.context.clusters.members().unwrap();
        members.join(cluster("west"), server(&world, "west").client(process.number), "west");
        members.removed("west", past);
        world.settle(&mut process, "a").await;
        let data = ledger(&world).unwrap()["data"].clone();
        let text = data.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        let entry: Value = serde_json::from_str(text).unwrap();
        assert_eq!((&entry["app"], &entry["name"]), (&json!("n/a"), &json!("w")));
        assert_eq!(entry["cause"], "detached");
        // Nothing was sent there, and nothing else waits for it.
        assert_eq!(deployed(&world).len(), if deletes { 1 } else { 2 });
        assert_eq!(is_clean(&world), deletes);
        if !deletes {
            assert_eq!(world.app("a")["status"]["status"], "running");
        }
    }
}

#[tokio::test]
async fn a_cluster_that_is_asked_to_be_forgotten_holds_nothing_up() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["east", "west"]), "1"));
    world.settle(&mut process, "a").await;
    disconnect(&process, "west");
    delete(&world);
    work(&world, &process).await;
    assert!(!is_clean(&world));
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["annotations"]["app.oam.dev/forget-clusters"] = json!("west");
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world));
    assert_eq!(deployed(&world), everywhere("1", &["west"]));
    let state = world.server.state.lock();
    assert!(state.get("configmaps", "vela-system", "vela-left-behind-west").is_some());
}

/// What the ledger of a cluster says: names of objects and why.
pub(super) fn ledger(world: &World, cluster: &str) -> Vec<(String, String)> {
    let state = world.server.state.lock();
    let map = state.get("configmaps", "vela-system", &format!("vela-left-behind-{cluster}"));
    let data = map.and_then(|map| map["data"].as_object().cloned()).unwrap_or_default();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let read = |value: &Value| -> Value { serde_json::from_str(value.as_str().unwrap()).unwrap() };
    data.values().map(read).map(|entry| (text(&entry, "name"), text(&entry, "cause"))).collect()
}

/// Somebody takes what is in a cluster out of all trackers.
fn strip(world: &World, cluster: &str) {
    world.server.by_another_writer(|state| {
        let names: Vec<String> = state
            .all("resourcetrackers")
            .iter()
            .map(|tracker| tracker["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        for name in names {
            other_clusters::write(state, &name, |records| {
                records.retain(|it| !is_in(it, cluster));
            });
        }
    });
}

/// The same while no controller is at work.
#[tokio::test]
async fn what_was_stripped_while_nobody_was_at_work_stands_in_the_ledger() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    strip(&world, "west");
    let again = |world: &World| {
        let process = world.start();
        remove(&process);
        process
    };
    process = again(&world);
    world.settle(&mut process, "a").await;
    let expected = [("w".to_owned(), "stripped".to_owned())];
    assert_eq!(ledger(&world, "west"), expected);
    // It is noted once.
    let writes = world.server.state.lock().writes;
    process = again(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().writes, writes);
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
}

/// What somebody takes out of the trackers of an Application is noted, and stays where it is.
#[tokio::test]
async fn what_is_stripped_from_trackers_stands_in_the_ledger() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    assert_eq!(ledger(&world, "west"), []);
    strip(&world, "west");
    process.context.clusters.members().unwrap().remove("west");
    work(&world, &process).await;
    let expected = [("w".to_owned(), "stripped".to_owned())];
    assert_eq!(ledger(&world, "west"), expected);
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
}

fn is_in(record: &Value, cluster: &str) -> bool {
    cluster_of(record["cluster"].as_str().unwrap_or_default()) == cluster
}

/// Names of what the trackers record of the control plane's own cluster.
fn own_records(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let trackers = state.all("resourcetrackers");
    let records = trackers.into_iter().flat_map(other_clusters::recorded);
    let own = records.filter(|it| is_in(it, "local"));
    own.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// `vela cluster detach local` takes everything out before it refuses: what is there still is recorded again.
#[tokio::test]
async fn what_is_stripped_of_the_own_cluster_is_recorded_again() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    assert_eq!(own_records(&world), ["w"]);
    strip(&world, "local");
    assert_eq!(own_records(&world), [""; 0]);
    work(&world, &process).await;
    assert_eq!(own_records(&world), ["w"]);
    assert_eq!(world.app("a")["status"]["status"], "running");
    // Once; and what belongs to nobody any more stays where it is.
    let writes = world.server.state.lock().writes;
    work(&world, &process).await;
    assert_eq!(world.server.state.lock().writes, writes);
    strip(&world, "local");
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "w").cloned().unwrap();
        map["metadata"]["labels"] = json!({});
        state.put("configmaps", map);
    });
    work(&world, &process).await;
    assert_eq!(own_records(&world), [""; 0]);
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
    // A run takes it back.
    world.server.by_another_writer(|state| drop(state.delete("configmaps", NAMESPACE, "w")));
    apply(&world, app(&json!(["local", "west"]), "2"));
    world.settle(&mut process, "a").await;
    strip(&world, "local");
    work(&world, &process).await;
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world));
    assert_eq!(deployed(&world), []);
}

/// The Secret of a cluster has been gone for long enough.
fn remove(process: &Process) {
    let members = process.context.clusters.members().unwrap();
    members.removed("west", Instant::now().checked_sub(ABSENT).unwrap());
}

/// What the ledger says goes back to the Application, also in a replica that does not lead.
async fn settle_ledger(process: &Process, leads: bool) {
    let stop = tokio_util::sync::CancellationToken::new();
    let settling = async {
        let records = |_| std::future::ready(Ok(Vec::new())).boxed();
        let find = Find { exists: &|_| true, records: &records };
        let (clusters, io) = (&process.context.clusters, &process.context.io);
        clusters.settle(io, &process.context.events, (find, &|| leads), &stop).await;
    };
    let key = crate::queue::Key::new(NAMESPACE, "a");
    let ending = async {
        while process.context.clusters.back(&key).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.cancel();
    };
    tokio::join!(settling, ending);
}

/// The Secret of a cluster was gone for a while: what was left behind is managed again.
#[tokio::test]
async fn what_was_left_behind_comes_back_with_its_cluster() {
    for leads in [true, false] {
        comes_back(leads).await;
    }
}

async fn comes_back(leads: bool) {
    let world = world();
    let mut process = world.start();
    let west = server(&world, "west").clone();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    let members = process.context.clusters.members().unwrap();
    assert!(members.learn("west"));
    remove(&process);
    work(&world, &process).await;
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "detached".to_owned())]);
    let members = process.context.clusters.members().unwrap();
    members.join(cluster("west"), west.client(process.number), "west");
    settle_ledger(&process, leads).await;
    work(&world, &process).await;
    assert_eq!(ledger(&world, "west"), []);
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world));
    assert_eq!(deployed(&world), []);
}

/// A second Application in the same cluster, with an object of its own.
fn apply_other(world: &World) {
    let mut other = app(&json!(["local", "west"]), "1");
    other["metadata"]["name"] = json!("b");
    // Its ConfigMap has the same name, in another namespace.
    other["spec"]["policies"][0]["properties"]["namespace"] = json!("m");
    world.server.by_another_writer(|state| drop(state.put("applications", other)));
}

/// Each Application leaves a cluster by itself: the last one notes, as the first, which cluster it was.
#[tokio::test]
async fn which_cluster_it_was_is_known_until_nothing_is_recorded_of_it() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    apply_other(&world);
    world.settle(&mut process, "b").await;
    let members = process.context.clusters.members().unwrap();
    assert!(members.learn("west"));
    remove(&process);
    let uids = || -> Vec<String> {
        let state = world.server.state.lock();
        let map = state.get("configmaps", "vela-system", "vela-left-behind-west");
        let data = map.and_then(|map| map["data"].as_object().cloned()).unwrap_or_default();
        let read =
            |text: &Value| -> Value { serde_json::from_str(text.as_str().unwrap()).unwrap() };
        data.values().map(|it| read(it)["clusterUid"].as_str().unwrap().to_owned()).collect()
    };
    let accept = || {
        world.sync(&process);
        let (clusters, trackers) = (&process.context.clusters, &process.context.trackers);
        clusters.accept_now(trackers, &mut Recorded::default())
    };
    let knows = || process.context.clusters.snapshot().known().contains_key("west");
    work(&world, &process).await;
    assert_eq!(uids(), ["west"]);
    assert!(accept() && knows());
    for _ in 0..6 {
        world.reconcile(&process, "b").await;
    }
    assert_eq!(uids(), ["west", "west"]);
    // Nobody needs it any more.
    assert!(!accept() && !knows());
}

/// What is noted when the cluster is back already is given back, too.
#[tokio::test]
async fn what_is_noted_late_comes_back_all_the_same() {
    let world = world();
    let mut process = world.start();
    let west = server(&world, "west").clone();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    let members = process.context.clusters.members().unwrap();
    assert!(members.learn("west"));
    let working = async {
        remove(&process);
        let (io, joined, number) = (&world.server, west.clone(), process.number);
        let shared = std::sync::Arc::clone(&process.context.shared);
        // Its first write goes to the ledger; the cluster joins before, and its ledger is read.
        io.state.lock().interruption = Some((
            1,
            Box::new(move |_| {
                let members = shared.clusters.members().unwrap();
                members.join(cluster("west"), joined.client(number), "west");
            }),
        ));
        world.reconcile(&process, "a").await;
        assert_eq!(ledger(&world, "west").len(), 1);
    };
    let settling = settle_ledger(&process, true);
    tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(settling, working) })
        .await
        .expect("it comes back");
}

/// As long as it cannot be noted, nothing is forgotten, and the Application says why.
#[tokio::test]
async fn what_cannot_be_noted_is_not_forgotten() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    world.server.state.lock().forbidden = Some((Method::POST, "configmaps"));
    remove(&process);
    work(&world, &process).await;
    assert_eq!(ledger(&world, "west"), []);
    let recorded = |world: &World| {
        let state = world.server.state.lock();
        let trackers = state.all("resourcetrackers");
        let records = trackers.into_iter().flat_map(other_clusters::recorded);
        records.filter(|record| record["cluster"] == "west").count()
    };
    assert_eq!(recorded(&world), 1);
    let conditions = world.app("a")["status"]["conditions"].to_string();
    assert!(conditions.contains("Forbidden"), "{conditions}");
    world.server.state.lock().forbidden = None;
    world.settle(&mut process, "a").await;
    assert_eq!(ledger(&world, "west"), [("w".to_owned(), "detached".to_owned())]);
    assert_eq!(recorded(&world), 0);
}
