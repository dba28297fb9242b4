//! Random faults of clusters: whatever happens between and in reconciles, no object is ever without a record, no cluster learns of
//! the faults of another, and after all of it everything is as it was last asked for.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vela_api::ResourceTracker;

use super::clusters::{
    app, apply, delete, deployed, disconnect, everywhere, is_clean, reconnect, server, work, world,
};
use super::depth;
use super::server::Death;
use super::{NAMESPACE, Process, World};

const CLUSTERS: [&str; 3] = ["local", "east", "west"];

/// The clusters that have the object and neither a record of it nor an entry in the ledger.
fn unknown(world: &World) -> Vec<&'static str> {
    let mut recorded = BTreeSet::new();
    let state = world.server.state.lock();
    for stored in state.all("resourcetrackers") {
        let mut tracker: ResourceTracker = serde_json::from_value(stored.clone()).unwrap();
        tracker.expand().unwrap();
        for record in tracker.spec.managed_resources {
            let cluster = record.cluster;
            recorded.insert(if cluster.is_empty() { "local".to_owned() } else { cluster });
        }
    }
    for map in state.all("configmaps") {
        let name = map["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(cluster) = name.strip_prefix("vela-left-behind-") {
            recorded.insert(cluster.to_owned());
        }
    }
    drop(state);
    let is_there = |(cluster, _): &(&'static str, String)| !recorded.contains(*cluster);
    deployed(world).into_iter().filter(is_there).map(|(cluster, _)| cluster).collect()
}

/// Random numbers that are the same at each run of a seed.
struct Dice(fastrand::Rng);

impl Dice {
    fn some_clusters(&mut self) -> Vec<&'static str> {
        loop {
            let some: Vec<_> = CLUSTERS.into_iter().filter(|_| self.0.bool()).collect();
            if !some.is_empty() {
                return some;
            }
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.usize(..all.len())]
    }
}

/// The process died if it was to: another takes over, from which the same clusters are away.
async fn again(world: &World, process: Process, away: &BTreeSet<&str>) -> Process {
    let is_dead = CLUSTERS.iter().any(|cluster| server(world, cluster).state.lock().dead);
    if !is_dead {
        return process;
    }
    for cluster in CLUSTERS {
        server(world, cluster).state.lock().revive();
    }
    let process = world.start();
    for cluster in away {
        disconnect(&process, cluster);
    }
    process
}

/// I1, I2, I4.
#[tokio::test]
async fn after_any_faults_everything_is_as_it_was_last_asked_for() {
    let seeds = if std::env::var("VELA_LONG_TESTS").is_ok() { 300 } else { 6 };
    for seed in depth::seeds(0..seeds) {
        let mut dice = Dice(fastrand::Rng::with_seed(seed));
        let world = world();
        let mut process = world.start();
        let mut away = BTreeSet::new();
        let mut wanted = (vec!["local"], "0".to_owned());
        apply(&world, app(&json!(wanted.0), &wanted.1));
        for turn in 0..12 {
            match dice.0.u8(..6) {
                0 | 1 => {
                    wanted = (dice.some_clusters(), turn.to_string());
                    apply(&world, app(&json!(wanted.0), &wanted.1));
                }
                2 => {
                    let cluster = dice.one_of(&["east", "west"]);
                    if away.insert(cluster) {
                        disconnect(&process, cluster);
                    } else {
                        away.remove(cluster);
                        reconnect(&process, cluster);
                    }
                }
                3 => {
                    let kind = dice.one_of(&[Death::Before as fn(usize) -> Death, Death::After]);
                    let at = dice.0.usize(1..6);
                    let cluster = dice.one_of(&CLUSTERS);
                    let mut state = server(&world, cluster).state.lock();
                    state.death = Some(kind(state.writes + at));
                }
                4 => {
                    let cluster = dice.one_of(&CLUSTERS);
                    server(&world, cluster).by_another_writer(|state| {
                        if let Some(mut map) = state.get("configmaps", NAMESPACE, "w").cloned() {
                            map["data"]["v"] = json!("drift");
                            state.put("configmaps", map);
                        }
                    });
                }
                _ => {}
            }
            work(&world, &process).await;
            assert_eq!(unknown(&world), Vec::<&str>::new(), "seed {seed} turn {turn}");
            process = again(&world, process, &away).await;
        }
        for cluster in CLUSTERS {
            server(&world, cluster).state.lock().death = None;
        }
        for cluster in std::mem::take(&mut away) {
            reconnect(&process, cluster);
        }
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), everywhere(&wanted.1, &wanted.0), "seed {seed}");
        assert_eq!(world.app("a")["status"]["status"], "running", "seed {seed}");
        delete(&world);
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), [], "seed {seed}");
        assert!(is_clean(&world), "seed {seed}");
    }
}

/// What was written to the object of a cluster, in order.
fn written(world: &World, cluster: &str) -> Vec<Value> {
    let state = server(world, cluster).state.lock();
    let history = state.history("configmaps", "w");
    history.map(|object| object["data"]["v"].clone()).collect()
}

/// I3: what one cluster does changes nothing of what is written to the others.
#[tokio::test]
async fn a_fault_of_one_cluster_changes_no_write_to_another() {
    let mut runs = Vec::new();
    for is_faulty in [false, true] {
        let world = world();
        let mut process = world.start();
        for (turn, value) in ["1", "2", "3"].into_iter().enumerate() {
            if is_faulty && turn == 1 {
                disconnect(&process, "west");
            }
            apply(&world, app(&json!(CLUSTERS), value));
            work(&world, &process).await;
        }
        if is_faulty {
            reconnect(&process, "west");
        }
        world.settle(&mut process, "a").await;
        assert_eq!(deployed(&world), everywhere("3", &CLUSTERS));
        runs.push([written(&world, "local"), written(&world, "east")]);
    }
    assert_eq!(runs.first(), runs.last());
}

/// I6: a world at rest sends nothing, also with a cluster that is away.
#[tokio::test]
async fn what_is_settled_asks_nothing_also_with_a_cluster_away() {
    for is_away in [false, true] {
        let world = world();
        let mut process = world.start();
        apply(&world, app(&json!(CLUSTERS), "1"));
        world.settle(&mut process, "a").await;
        if is_away {
            disconnect(&process, "west");
            // What that changes in the status is written.
            work(&world, &process).await;
        }
        const MANY: usize = 1_000_000;
        for cluster in CLUSTERS {
            server(&world, cluster).state.lock().interruption = Some((MANY, Box::new(|_| {})));
        }
        for _ in 0..3 {
            world.reconcile(&process, "a").await;
        }
        for cluster in CLUSTERS {
            let state = server(&world, cluster).state.lock();
            let left = state.interruption.as_ref().map(|(left, _)| *left);
            assert_eq!(left, Some(MANY), "{cluster}, away: {is_away}");
        }
    }
}
