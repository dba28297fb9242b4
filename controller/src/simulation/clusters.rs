//! An Application over several clusters: what happens in one of them changes nothing in the others, and no object is ever lost.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use vela_cluster::members::Heard;

use crate::queue::Next;

use super::depth::stride;
use super::members::{cluster, cluster_of, cluster_of_no_use};
use super::server::{Death, Server};
use super::{NAMESPACE, Process, World, application, placements};

/// The control plane's cluster, and two others.
pub(super) fn world() -> World {
    let mut world = World::new();
    placements::define(&world);
    let killed = Arc::clone(&world.server.state.lock().killed);
    for name in ["east", "west"] {
        let server = Server::default();
        server.state.lock().killed = Arc::clone(&killed);
        world.members.push((name, server));
    }
    world
}

pub(super) fn app(clusters: &Value, value: &str) -> Value {
    let mut app = application("a", &[("c", &[], value)]);
    app["spec"]["policies"] = json!([
        {"name": "here", "type": "topology", "properties": {"clusters": clusters}}]);
    app["spec"]["workflow"] = json!({"steps": [
        {"name": "s", "type": "deploy", "properties": {"policies": ["here"]}}]});
    app
}

pub(super) fn apply(world: &World, app: Value) {
    world.server.by_another_writer(|state| {
        let old = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
        let mut new = app;
        if old["metadata"].is_object() {
            new["metadata"] = old["metadata"].clone();
            new["status"] = old["status"].clone();
        }
        state.put("applications", new);
    });
}

pub(super) fn server<'w>(world: &'w World, cluster: &str) -> &'w Server {
    let mut members = world.members.iter();
    members.find(|(name, _)| *name == cluster).map_or(&world.server, |(_, server)| server)
}

/// What the ConfigMap of the component holds in each cluster that has one.
pub(super) fn deployed(world: &World) -> Vec<(&'static str, String)> {
    ["local", "east", "west"]
        .into_iter()
        .filter_map(|cluster| {
            let state = server(world, cluster).state.lock();
            let map = state.get("configmaps", NAMESPACE, "w")?;
            Some((cluster, map["data"]["v"].as_str().unwrap_or_default().to_owned()))
        })
        .collect()
}

pub(super) fn everywhere(value: &str, clusters: &[&'static str]) -> Vec<(&'static str, String)> {
    clusters.iter().map(|cluster| (*cluster, format!("{NAMESPACE}{value}"))).collect()
}

fn hear(process: &Process, cluster: &str, heard: Heard) {
    let snapshot = process.context.clusters.snapshot();
    snapshot.members().get(cluster).unwrap().hear(heard);
}

pub(super) fn disconnect(process: &Process, cluster: &str) {
    hear(process, cluster, Heard::Refused("the token was revoked".to_owned()));
}

pub(super) fn reconnect(process: &Process, cluster: &str) {
    hear(process, cluster, Heard::Answer(200, Duration::ZERO));
}

/// Reconciles so often that what can be done is done.
pub(super) async fn work(world: &World, process: &Process) -> Option<Next> {
    let mut next = None;
    for _ in 0..12 {
        next = world.reconcile(process, "a").await;
        if next.is_none() {
            // It died: it sees nothing any more.
            break;
        }
        if let Some(Next::After(delay)) = next {
            world.pass(delay);
            let memory = process.context.memory(&crate::queue::Key::new(NAMESPACE, "a"));
            if let Some(settled) = &mut memory.lock().settled {
                settled.due = Some(Instant::now());
            }
        }
    }
    next
}

pub(super) fn delete(world: &World) {
    world.server.by_another_writer(|state| drop(state.delete("applications", NAMESPACE, "a")));
}

pub(super) fn is_clean(world: &World) -> bool {
    let state = world.server.state.lock();
    state.get("applications", NAMESPACE, "a").is_none() && state.all("resourcetrackers").is_empty()
}

pub(super) fn writes(world: &World) -> Vec<usize> {
    ["local", "east", "west"].map(|name| server(world, name).state.lock().writes).to_vec()
}

#[tokio::test]
async fn an_application_is_deployed_moved_and_deleted_over_clusters() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "east", "west"]), "1"));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "east", "west"]));
    let status = world.app("a")["status"].clone();
    assert_eq!(status["status"], "running", "{status:#}");
    let services = status["services"].as_array().unwrap();
    let mut clusters: Vec<_> = services.iter().map(|s| s["cluster"].as_str().unwrap()).collect();
    clusters.sort_unstable();
    assert_eq!(clusters, ["east", "local", "west"]);
    let conditions = status["conditions"].as_array().unwrap();
    let reachable = conditions.iter().find(|c| c["type"] == "Clusters").unwrap();
    assert_eq!((&reachable["status"], &reachable["reason"]), (&json!("True"), &json!("Reachable")));
    // What is settled writes nothing, in no cluster, also after a restart.
    let before = writes(&world);
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(writes(&world), before);
    apply(&world, app(&json!(["west"]), "2"));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["west"]));
    delete(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), []);
    assert!(is_clean(&world));
}

#[tokio::test]
async fn what_drifts_in_another_cluster_is_put_back() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["east"]), "1"));
    world.settle(&mut process, "a").await;
    server(&world, "east").by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "w").cloned().unwrap();
        map["data"]["v"] = json!("drifted");
        state.put("configmaps", map);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["east"]));
}

#[tokio::test]
async fn clusters_are_chosen_by_their_labels() {
    let world = world();
    let mut process = world.start();
    let select = |labels: Value| {
        let mut app = app(&json!([]), "1");
        app["spec"]["policies"][0]["properties"] = json!({ "clusterLabelSelector": labels });
        app
    };
    apply(&world, select(json!({"region": "east"})));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["east"]));
    apply(&world, select(json!({"cluster.core.oam.dev/control-plane": "false"})));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["east", "west"]));
    apply(&world, select(json!({})));
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "east", "west"]));
    // None that fits, and none at all, take nothing away.
    for wrong in
        [select(json!({"region": "moon"})), app(&json!([]), "1"), app(&json!(["typo"]), "1")]
    {
        apply(&world, wrong);
        work(&world, &process).await;
        assert_eq!(deployed(&world), everywhere("1", &["local", "east", "west"]));
        assert_ne!(world.app("a")["status"]["status"], "running");
    }
    // Nor does a registry that is not complete.
    process.context.clusters.members().unwrap().synced(false, None);
    apply(&world, select(json!({"region": "east"})));
    work(&world, &process).await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "east", "west"]));
    process.context.clusters.members().unwrap().synced(true, None);
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["east"]));
}

/// A cluster that joined since and has the labels gets nothing before somebody asks for it, and is named.
#[tokio::test]
async fn clusters_that_match_since_are_reported() {
    let world = world();
    let mut process = world.start();
    let members = process.context.clusters.members().unwrap();
    members.remove("west");
    let mut app = app(&json!([]), "1");
    app["spec"]["policies"][0]["properties"] =
        json!({"clusterLabelSelector": {"cluster.core.oam.dev/control-plane": "false"}});
    apply(&world, app.clone());
    world.settle(&mut process, "a").await;
    let said = || {
        let app = world.app("a");
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap();
        let found = conditions.into_iter().find(|one| one["type"] == "Clusters").unwrap();
        (found["status"].clone(), found["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(said(), (json!("True"), String::new()));
    let members = process.context.clusters.members().unwrap();
    members.join(cluster("west"), server(&world, "west").client(process.number), "west");
    world.settle(&mut process, "a").await;
    let more = "1 more cluster matches policy here: west (deployed at the next run)";
    assert_eq!(said(), (json!("True"), more.to_owned()));
    assert_eq!(deployed(&world), everywhere("1", &["east"]));
    app["spec"]["components"][0]["properties"]["value"] = json!("2");
    apply(&world, app);
    world.settle(&mut process, "a").await;
    assert_eq!(said(), (json!("True"), String::new()));
    assert_eq!(deployed(&world), everywhere("2", &["east", "west"]));
}

/// The condition of an Application says why its cluster cannot be used.
#[tokio::test]
async fn why_a_cluster_cannot_be_used_is_the_reason() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    let reason = || {
        let app = world.app("a");
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap();
        let found = conditions.into_iter().find(|one| one["type"] == "Clusters").unwrap();
        found["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(reason(), "Reachable");
    disconnect(&process, "west");
    work(&world, &process).await;
    assert_eq!(reason(), "CredentialRefused");
    hear(&process, "west", Heard::Nothing("connection refused".to_owned(), false));
    work(&world, &process).await;
    assert_eq!(reason(), "Unreachable");
    let members = process.context.clusters.members().unwrap();
    members.put(cluster_of_no_use("west"));
    work(&world, &process).await;
    assert_eq!(reason(), "Invalid");
    members.remove("west");
    work(&world, &process).await;
    assert_eq!(reason(), "Unregistered");
}

/// What is measured of a cluster is as it is now, and goes with it. Names that are too many share a label.
#[tokio::test]
async fn what_a_cluster_is_like_is_measured() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "west"]), "1"));
    world.settle(&mut process, "a").await;
    let (clusters, metrics) = (&process.context.clusters, &process.context.metrics);
    let members = clusters.members().unwrap();
    metrics.register_clusters(Arc::clone(members), clusters.concerned()).unwrap();
    let values = |beginning: &str| -> Vec<u64> {
        let text = metrics.registry().text().unwrap();
        let of = text.lines().filter_map(|line| line.strip_prefix(beginning));
        of.map(|rest| rest.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    let state =
        |state: &str| values(&format!("vela_cluster_state{{cluster=\"west\",state=\"{state}\"}}"));
    let of = |name: &str| values(&format!("vela_cluster_{name}{{cluster=\"west\"}}"));
    assert_eq!((state("Connected"), state("CredentialRefused")), (vec![1], vec![0]));
    assert!(of("cache_bytes").into_iter().all(|bytes| bytes > 0) && !of("cache_bytes").is_empty());
    assert_eq!((of("pending_apps"), of("waiting")), (vec![0], vec![0]));
    // A watch.
    assert_eq!(of("in_flight"), [1]);
    disconnect(&process, "west");
    assert_eq!((state("Connected"), state("CredentialRefused")), (vec![0], vec![1]));
    assert_eq!(of("pending_apps"), [1]);
    for number in 0..300 {
        let name = format!("x{number:03}");
        members.join(cluster(&name), server(&world, "west").client(process.number), &name);
    }
    let connected = r#"vela_cluster_state{cluster="other",state="Connected"}"#;
    // Two hundred have their own; east and west are the first of them.
    assert_eq!(values(connected), [300 + 2 - 200]);
    assert_eq!(values("vela_cluster_in_flight{").len(), 201);
    members.remove("west");
    assert_eq!(of("pending_apps"), Vec::<u64>::new());
}

#[tokio::test]
async fn a_cluster_that_is_away_holds_up_nothing_else_and_is_caught_up_with() {
    let world = world();
    let mut process = world.start();
    disconnect(&process, "west");
    apply(&world, app(&json!(["local", "east", "west"]), "1"));
    work(&world, &process).await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "east"]));
    let status = world.app("a")["status"].clone();
    assert_eq!(status["status"], "runningWorkflow", "{status:#}");
    let message = status["workflow"]["steps"][0]["message"].as_str().unwrap();
    assert!(message.contains("west") && message.contains("the token was revoked"), "{message}");
    // It uses up no attempts, however long that lasts.
    for _ in 0..3 {
        work(&world, &process).await;
    }
    assert_eq!(world.app("a")["status"]["status"], "runningWorkflow");
    assert_eq!(server(&world, "west").state.lock().writes, 0);
    reconnect(&process, "west");
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("1", &["local", "east", "west"]));
    assert_eq!(world.app("a")["status"]["status"], "running");
}

#[tokio::test]
async fn a_deletion_goes_on_where_it_can_and_waits_where_it_cannot() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["local", "east", "west"]), "1"));
    world.settle(&mut process, "a").await;
    disconnect(&process, "west");
    delete(&world);
    work(&world, &process).await;
    assert_eq!(deployed(&world), everywhere("1", &["west"]));
    assert!(!is_clean(&world));
    reconnect(&process, "west");
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), []);
    assert!(is_clean(&world));
}

/// The upstream suite: the Application runs, its old tracker waits for the cluster that is away.
#[tokio::test]
async fn what_is_left_in_a_cluster_that_is_away_is_remembered_and_taken_away_later() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["east", "west"]), "1"));
    world.settle(&mut process, "a").await;
    disconnect(&process, "west");
    apply(&world, app(&json!(["east"]), "2"));
    work(&world, &process).await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    assert_eq!(deployed(&world).len(), 2);
    let versioned = |world: &World| {
        let state = world.server.state.lock();
        let all = state.all("resourcetrackers").into_iter();
        all.filter(|tracker| tracker["spec"]["type"] == "versioned").count()
    };
    assert_eq!(versioned(&world), 2);
    reconnect(&process, "west");
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["east"]));
    assert_eq!(versioned(&world), 1);
}

/// One cluster under two names: moving from one to the other leaves the object what it is.
#[tokio::test]
async fn an_object_is_not_deleted_under_another_name_of_its_cluster() {
    let mut world = world();
    let east = server(&world, "east").clone();
    world.members.retain(|(name, _)| *name != "west");
    let mut process = world.start();
    let alias = |process: &Process| {
        let members = process.context.clusters.members().unwrap();
        members.join(cluster("zone"), east.client(process.number), "east");
    };
    alias(&process);
    apply(&world, app(&json!(["zone"]), "1"));
    world.settle(&mut process, "a").await;
    let uid =
        || east.state.lock().get("configmaps", NAMESPACE, "w").unwrap()["metadata"]["uid"].clone();
    let before = uid();
    apply(&world, app(&json!(["east"]), "2"));
    world.settle(&mut process, "a").await;
    assert_eq!(uid(), before);
    assert_eq!(east.state.lock().deletes, Vec::<String>::new());
}

/// A cluster that says it is another one gets nothing that is meant for that one, and no object of that one is deleted or
/// forgotten for it.
#[tokio::test]
async fn a_cluster_that_says_it_is_another_one_is_not_believed() {
    for claimed in ["east", "hub"] {
        let world = world();
        let west = server(&world, "west").clone();
        let mut process = world.start();
        let members = process.context.clusters.members().unwrap();
        // Before all others by name, and with other authorities.
        members.join(cluster_of("a-liar", ""), west.client(process.number), claimed);
        let real = if claimed == "hub" { "local" } else { "east" };
        apply(&world, app(&json!([real]), "1"));
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), everywhere("1", &[real]));
        apply(&world, app(&json!(["a-liar"]), "2"));
        work(&world, &process).await;
        let kept = [everywhere("1", &[real]), everywhere("2", &["west"])].concat();
        assert_eq!(deployed(&world), kept, "{claimed}");
        assert_eq!(server(&world, real).state.lock().deletes, Vec::<String>::new(), "{claimed}");
        // It was not forgotten either.
        let members = process.context.clusters.members().unwrap();
        members.remove("a-liar");
        members.join(cluster("a-liar"), west.client(process.number), "another");
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), everywhere("2", &["west"]), "{claimed}");
    }
}

/// An Application that asks for it goes on without a cluster that is away: what is wanted there is made when it answers, and
/// nothing older, nothing of before is deleted in the meantime.
#[tokio::test]
async fn a_step_may_go_on_without_a_cluster_that_is_away() {
    let world = world();
    let mut process = world.start();
    let skipping = |clusters: &Value, value: &str| {
        let mut app = app(clusters, value);
        app["metadata"]["annotations"] = json!({"app.oam.dev/unreachable": "skip"});
        app
    };
    disconnect(&process, "east");
    let all = json!(["local", "east", "west"]);
    apply(&world, skipping(&all, "1"));
    work(&world, &process).await;
    let status = || world.app("a")["status"].clone();
    assert_eq!(status()["workflow"]["status"], "succeeded", "{}", status());
    assert_eq!(status()["status"], "unhealthy");
    let services = status()["services"].as_array().cloned().unwrap();
    let away = services.iter().find(|service| service["cluster"] == "east").unwrap();
    assert!(away["message"].as_str().unwrap().ends_with("deployed when it answers"), "{away}");
    assert_eq!(deployed(&world), everywhere("1", &["local", "west"]));
    // A newer spec, and the process dies in between: only the newest is made.
    apply(&world, skipping(&all, "2"));
    work(&world, &process).await;
    assert_eq!(deployed(&world), everywhere("2", &["local", "west"]));
    reconnect(&process, "east");
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("2", &["local", "east", "west"]));
    assert_eq!(status()["status"], "running", "{}", status());
    // Away in the middle of an edit: the old object stays until the new one is made.
    disconnect(&process, "east");
    apply(&world, skipping(&all, "3"));
    work(&world, &process).await;
    let old = everywhere("2", &["east"]);
    assert_eq!(deployed(&world)[1], old[0]);
    reconnect(&process, "east");
    world.settle(&mut process, "a").await;
    assert_eq!(deployed(&world), everywhere("3", &["local", "east", "west"]));
    assert_eq!(server(&world, "east").state.lock().deletes, Vec::<String>::new());
}

/// Answers that are no proof: whatever else a member says, nothing of it is forgotten.
#[tokio::test]
async fn nothing_is_forgotten_for_an_answer_that_proves_nothing() {
    let world = world();
    let mut process = world.start();
    apply(&world, app(&json!(["east"]), "1"));
    world.settle(&mut process, "a").await;
    server(&world, "east").state.lock().forbidden = Some((Method::DELETE, "configmaps"));
    delete(&world);
    work(&world, &process).await;
    assert!(!is_clean(&world));
    assert_eq!(deployed(&world), everywhere("1", &["east"]));
    server(&world, "east").state.lock().forbidden = None;
    world.settle(&mut process, "a").await;
    assert!(is_clean(&world));
    assert_eq!(deployed(&world), []);
}

/// The process dies before and after each write to each cluster: the end is the same, and no object is without a record.
#[tokio::test]
async fn the_process_may_die_at_every_write_to_every_cluster() {
    for cluster in ["local", "east", "west"] {
        for kind in [Death::Before as fn(usize) -> Death, Death::After] {
            // The other clusters see few writes, and all of them count; of the many of the control plane's every few unless
            // there is time.
            let every =
                if cluster == "local" && std::env::var("VELA_LONG_TESTS").is_err() { 6 } else { 1 };
            // Watches of members begin again after a second, so each death takes long.
            for at in (1..60).step_by(every * stride().pow(2)) {
                let world = world();
                let mut process = world.start();
                server(&world, cluster).state.lock().death = Some(kind(at));
                apply(&world, app(&json!(["local", "east", "west"]), "1"));
                let mut deaths = world.settle(&mut process, "a").await;
                assert_eq!(deployed(&world).len(), 3, "{cluster} {at}");
                apply(&world, app(&json!(["local", "west"]), "2"));
                deaths += world.settle(&mut process, "a").await;
                assert_eq!(deployed(&world), everywhere("2", &["local", "west"]), "{cluster} {at}");
                delete(&world);
                deaths += world.settle(&mut process, "a").await;
                assert_eq!(deployed(&world), [], "{cluster} {at}");
                assert!(is_clean(&world), "{cluster} {at}");
                if deaths == 0 {
                    break;
                }
            }
        }
    }
}
