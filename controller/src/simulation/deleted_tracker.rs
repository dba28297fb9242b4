//! Somebody deletes a tracker whose objects are wanted: it is created again, and what it alone remembers is remembered at every
//! moment, whatever holds the old one and whenever the process dies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::depth::moments;
use super::server::{Death, State};
use super::{NAMESPACE, Process, World, application};

/// What holds an object that is deleted with `--cascade=foreground` until the cluster's garbage collector has gone round.
const FOREGROUND: &str = "foregroundDeletion";

fn apply(world: &World, components: &[(&str, &[&str], &str)]) {
    let mut app = application("a", components);
    app["spec"]["policies"] = json!([{"name": "g", "type": "garbage-collect", "properties": {
        "rules": [{"selector": {"componentNames": ["d"]}, "strategy": "onAppDelete"}]}}]);
    world.server.by_another_writer(|state| {
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        state.put("applications", app);
    });
}

/// The tracker of the run holds `x`; the root holds `z` of a component that left the spec.
async fn settled() -> (World, Process) {
    let world = World::new();
    let mut process = world.start();
    apply(&world, &[("c", &["x"], "1"), ("d", &["z"], "1")]);
    world.settle(&mut process, "a").await;
    apply(&world, &[("c", &["x"], "2")]);
    world.settle(&mut process, "a").await;
    assert_eq!(trackers(&world), BTreeSet::from([RUN, ROOT].map(str::to_owned)));
    (world, process)
}

const RUN: &str = "a-v2-n";
const ROOT: &str = "a-n";

fn trackers(world: &World) -> BTreeSet<String> {
    let state = world.server.state.lock();
    let all = state.all("resourcetrackers");
    all.iter()
        .filter_map(|tracker| tracker["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect()
}

fn mark(state: &mut State, name: &str, held: bool) {
    let mut tracker = state.get("resourcetrackers", "", name).cloned().unwrap();
    if held {
        tracker["metadata"]["finalizers"].as_array_mut().unwrap().push(json!(FOREGROUND));
        state.put("resourcetrackers", tracker);
    }
    state.delete("resourcetrackers", "", name);
}

/// The cluster's garbage collector goes round.
fn let_go(state: &mut State) {
    let all: Vec<Value> = state.all("resourcetrackers").into_iter().cloned().collect();
    for mut tracker in all {
        if let Some(finalizers) = tracker["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != FOREGROUND);
        }
        state.put("resourcetrackers", tracker);
    }
}

/// Nothing was deleted, everything is recorded somewhere that stays, and all goes with the Application.
async fn check(world: &World, process: &mut Process, case: &str) {
    {
        let state = world.server.state.lock();
        assert!(state.deletes.is_empty(), "{case}: {:?}", state.deletes);
        let live = state.all("resourcetrackers").into_iter();
        let live = live.filter(|tracker| !tracker["metadata"]["deletionTimestamp"].is_string());
        let kinds: Vec<&str> =
            live.filter_map(|tracker| tracker["spec"]["type"].as_str()).collect();
        let count = |kind: &str| kinds.iter().filter(|one| **one == kind).count();
        assert_eq!((count("root"), count("versioned")), (1, 1), "{case}");
    }
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
    world.settle(process, "a").await;
    let state = world.server.state.lock();
    for name in ["x", "z"] {
        assert!(state.get("configmaps", NAMESPACE, name).is_none(), "{case}: {name} is left");
    }
    assert!(state.all("resourcetrackers").is_empty(), "{case}");
}

#[tokio::test]
async fn a_tracker_that_was_deleted_comes_back_under_its_name() {
    for name in [RUN, ROOT] {
        let (world, mut process) = settled().await;
        world.server.by_another_writer(|state| mark(state, name, false));
        world.settle(&mut process, "a").await;
        assert_eq!(trackers(&world), BTreeSet::from([RUN, ROOT].map(str::to_owned)), "{name}");
        check(&world, &mut process, name).await;
    }
}

/// While something else holds the old one its name is not free: what it held is in another tracker in the meantime.
#[tokio::test]
async fn a_tracker_that_is_held_forgets_nothing() {
    for name in [RUN, ROOT] {
        for after in 1.. {
            let (world, mut process) = settled().await;
            world.server.by_another_writer(|state| mark(state, name, true));
            world.server.state.lock().interruption = Some((after, Box::new(let_go)));
            for _ in 0..4 {
                world.reconcile(&process, "a").await;
            }
            let came = world.server.state.lock().interruption.take().is_none();
            world.server.by_another_writer(let_go);
            world.settle(&mut process, "a").await;
            check(&world, &mut process, &format!("{name}, let go after {after} requests")).await;
            if !came {
                assert!(after > 2, "only {after} requests");
                break;
            }
        }
    }
}

#[tokio::test]
async fn the_process_may_die_while_a_tracker_is_made_again() {
    for name in [RUN, ROOT] {
        for held in [false, true] {
            for at in moments() {
                let mut deaths = 0;
                for death in [Death::Before(at), Death::After(at)] {
                    let (world, mut process) = settled().await;
                    world.server.by_another_writer(|state| mark(state, name, held));
                    {
                        let mut state = world.server.state.lock();
                        (state.writes, state.death) = (0, Some(death));
                    }
                    deaths += world.settle(&mut process, "a").await;
                    world.server.state.lock().death = None;
                    world.server.by_another_writer(let_go);
                    world.settle(&mut process, "a").await;
                    check(&world, &mut process, &format!("{name}, held: {held}, {death:?}")).await;
                }
                if deaths == 0 {
                    assert!(at > 2, "only {at} writes");
                    break;
                }
            }
        }
    }
}

/// Another tracker stands for the one that goes, and lacks something.
#[tokio::test]
async fn what_the_other_one_lacks_is_recorded_in_it() {
    let (world, mut process) = settled().await;
    world.server.by_another_writer(|state| {
        let mut other = state.get("resourcetrackers", "", ROOT).cloned().unwrap();
        other["metadata"]["name"] = json!("a-n-other");
        other["spec"]["managedResources"] = json!([]);
        state.put("resourcetrackers", other);
        mark(state, ROOT, false);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(trackers(&world), BTreeSet::from([RUN, "a-n-other"].map(str::to_owned)));
    check(&world, &mut process, "another one").await;
}
