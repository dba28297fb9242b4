//! Random edits at random moments: between two reconciles, or between any two requests of a reconcile.

use serde_json::{Value, json};

use super::depth::seeds;
use super::server::{Death, State};
use super::{NAMESPACE, Process, World, application};

/// Steps of the random walk; more with `VELA_SIMULATION_STEPS`.
const STEPS: usize = 600;

fn steps() -> usize {
    std::env::var("VELA_SIMULATION_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS)
}

/// A small world, so that things come back: two components, four names, three values.
fn random_app(random: &mut fastrand::Rng) -> Value {
    let mut free = vec!["w", "x", "y", "z"];
    random.shuffle(&mut free);
    let mut components = Vec::new();
    for name in ["c", "d"] {
        let count = random.usize(1..=2);
        let names = free.split_off(free.len() - count);
        components.push((name, names, ["1", "2", "3"][random.usize(..3)]));
    }
    if random.u8(..4) == 0 {
        components.pop();
    }
    let borrowed: Vec<(&str, &[&str], &str)> =
        components.iter().map(|(name, names, value)| (*name, names.as_slice(), *value)).collect();
    application("a", &borrowed)
}

/// One edit; says what it was.
fn edit(
    random: &mut fastrand::Rng,
    history: &mut Vec<Value>,
    rests: bool,
) -> (String, impl FnOnce(&mut State) + Send + use<>) {
    let kind = random.u8(..20);
    let fresh = random_app(random);
    let old = history.get(random.usize(..history.len().max(1))).cloned();
    // A version that comes back before the controller saw it gone still means the spec it was first given to: versions
    // come back to an Application at rest only.
    let versions = if rests { 3 } else { 1 << 20 };
    let version = format!("p{}", random.u32(..versions));
    let lost = ["w", "x", "y", "z"][random.usize(..4)];
    let app = match kind {
        0..=7 => fresh,
        8..=11 => old.unwrap_or(fresh),
        _ => Value::Null,
    };
    if app.is_object() {
        history.push(app.clone());
        if history.len() > 4 {
            history.remove(0);
        }
    }
    let say = match kind {
        0..=7 => "a new spec",
        8..=11 => "an old spec",
        12 => "an edit without meaning",
        13 => "deletion",
        14 => "publish",
        15 => "unpublish",
        16 => "an object is lost",
        17 => "an object drifts",
        18 => "restart",
        _ => "a scheduled restart",
    };
    let happen = move |state: &mut State| {
        let stored = state.get("applications", NAMESPACE, "a").cloned();
        if app.is_object() {
            let mut app = app;
            if let Some(stored) = stored {
                if stored["metadata"]["deletionTimestamp"].is_string() {
                    return;
                }
                app["metadata"] = stored["metadata"].clone();
                // A published Application ignores edits until the next version: keep the walk simple.
                if let Some(annotations) = app["metadata"]["annotations"].as_object_mut() {
                    annotations.remove("app.oam.dev/publishVersion");
                }
                app["status"] = stored["status"].clone();
            }
            state.put("applications", app);
            return;
        }
        let Some(mut stored) = stored else { return };
        let annotation = |stored: &mut Value, key: &str, value: Value| {
            stored["metadata"]["annotations"][key] = value;
        };
        match kind {
            12 => stored["spec"]["components"][0]["traits"] = json!([]),
            13 => {
                state.delete("applications", NAMESPACE, "a");
                return;
            }
            14 => annotation(&mut stored, "app.oam.dev/publishVersion", json!(version)),
            15 => {
                if let Some(map) = stored["metadata"]["annotations"].as_object_mut() {
                    map.remove("app.oam.dev/publishVersion");
                }
            }
            16 => {
                state.delete("configmaps", NAMESPACE, lost);
                return;
            }
            17 => {
                if let Some(mut map) = state.get("configmaps", NAMESPACE, lost).cloned() {
                    map["data"]["v"] = json!("drift");
                    state.put("configmaps", map);
                }
                return;
            }
            18 => annotation(&mut stored, "app.oam.dev/restart-workflow", json!("true")),
            _ => annotation(&mut stored, "app.oam.dev/restart-workflow", json!("24h")),
        }
        state.put("applications", stored);
    };
    (say.to_owned(), happen)
}

/// One reconcile; a process that dies is followed by another one. Returns whether it died.
async fn reconcile_and_survive(world: &World, process: &mut Process) -> bool {
    if world.reconcile(process, "a").await.is_some() {
        return false;
    }
    let mut state = world.server.state.lock();
    state.revive();
    drop(state);
    *process = world.start();
    true
}

async fn walk(seed: u64, steps: usize, is_late: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let world = World::new();
    world.server.state.lock().is_late = is_late;
    let mut process = world.start();
    let mut history = Vec::new();
    let mut log = Vec::new();
    let mut done = 0;
    while done < steps {
        // A burst of edits: some between reconciles, some in the middle of one.
        for turn in 0..random.usize(1..=4) {
            let rests = turn == 0 && !is_late;
            let (say, happen) = edit(&mut random, &mut history, rests);
            done += 1;
            if random.bool() {
                let after = random.usize(1..12);
                log.push(format!("{say}, {after} requests later"));
                world.server.state.lock().interruption = Some((after, Box::new(happen)));
                if random.u8(..4) == 0 {
                    let mut state = world.server.state.lock();
                    let at = state.writes + random.usize(1..10);
                    let death = if random.bool() { Death::Before(at) } else { Death::After(at) };
                    log.push(format!("{death:?}, after {} writes", state.writes));
                    state.death = Some(death);
                }
                if reconcile_and_survive(&world, &mut process).await {
                    log.push("the process has died".to_owned());
                }
                let late = world.server.state.lock().interruption.take();
                if let Some((_, happen)) = late {
                    world.server.by_another_writer(happen);
                }
            } else {
                log.push(say);
                world.server.by_another_writer(happen);
                if random.bool() && reconcile_and_survive(&world, &mut process).await {
                    log.push("the process has died".to_owned());
                }
            }
        }
        if random.u8(..8) == 0 {
            log.push("the process starts again".to_owned());
            process = world.start();
        }
        world.settle(&mut process, "a").await;
        if is_late {
            // A deletion may have been decided before an edit and carried out after it. The end counts.
            world.server.state.lock().crimes.clear();
        }
        let faults = world.faults("a");
        let last = log.len().saturating_sub(12);
        assert!(
            faults.is_empty(),
            "seed {seed}: {faults:#?}\nafter {:#?}\n{:#}",
            &log[last..],
            world.app("a")
        );
    }
}

#[tokio::test]
async fn random_edits_end_as_a_fresh_apply_would() {
    let steps = steps();
    for seed in seeds(0..6) {
        walk(seed, steps / 6, false).await;
    }
}

/// The watch of Applications lags behind by a reconcile.
#[tokio::test]
async fn edits_that_are_seen_late_end_the_same() {
    for seed in seeds(10..13) {
        walk(seed, steps() / 6, true).await;
    }
}
