//! What an object was given in an earlier role leaves it, whenever the process dies: its labels, and the keys of its data.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::Next;

use super::depth::{moments, stride};
use super::server::Death;
use super::{NAMESPACE, Process, World};

/// The first ConfigMap is the workload, the others are auxiliary; each has one key, of its own for component and role.
const TEMPLATE: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: parameter.names[0], data: "\(context.name)-\(parameter.key)": "1"}
outputs: {
    for index, name in parameter.names if index > 0 {
        "\(name)": {apiVersion: "v1", kind: "ConfigMap", metadata: "name": name, data: "\(context.name)-calls-\(parameter.key)": "1"}
    }
}
parameter: {names: [...string], key: string}
"#;

/// Components `(name, names of its ConfigMaps, key)`.
type Shape = &'static [(&'static str, &'static [&'static str], &'static str)];

fn world() -> World {
    let world = World::new();
    world.server.by_another_writer(|state| {
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        definition["metadata"]["name"] = json!("keyed");
        definition["spec"]["schematic"]["cue"]["template"] = json!(TEMPLATE);
        state.put("componentdefinitions", definition);
    });
    world
}

fn put(world: &World, shape: Shape, policies: &Value) {
    let components: Vec<Value> = shape
        .iter()
        .map(|(name, names, key)| {
            json!({"name": name, "type": "keyed", "properties": {"names": names, "key": key}})
        })
        .collect();
    world.server.by_another_writer(|state| {
        let mut app = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "a", "namespace": NAMESPACE},
            "spec": {"components": components, "policies": policies},
        });
        if let Some(old) = state.get("applications", NAMESPACE, "a") {
            (app["metadata"], app["status"]) = (old["metadata"].clone(), old["status"].clone());
        }
        state.put("applications", app);
    });
}

/// The ConfigMaps as they should be, without traces of the past.
fn picture(world: &World) -> BTreeMap<String, Value> {
    let state = world.server.state.lock();
    let maps = state.all("configmaps").into_iter();
    maps.filter(|map| map["metadata"]["labels"]["app.oam.dev/component"].is_string())
        .map(|map| {
            let mut labels = map["metadata"]["labels"].clone();
            for past in ["app.oam.dev/appRevision", "app.oam.dev/revision", "oam.dev/render-hash"] {
                labels.as_object_mut().unwrap().remove(past);
            }
            let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, json!([labels, map["data"]]))
        })
        .collect()
}

/// Reconciles until the process dies or is done. Returns whether it died.
async fn reconcile_until_death(world: &World, process: &Process) -> bool {
    for _ in 0..200 {
        match world.reconcile(process, "a").await {
            None => return true,
            Some(Next::Resync(_)) => return false,
            Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    panic!("it does not settle");
}

/// Each edit but the last one is cut off by a death at one of its writes; the last one says what is to be there.
async fn die(shapes: &[Shape], policies: &Value) -> usize {
    let (Some((last, edits)), Some(first)) = (shapes.split_last(), shapes.first()) else {
        return 0;
    };
    let fresh = world();
    put(&fresh, last, policies);
    fresh.settle(&mut fresh.start(), "a").await;
    let wanted = picture(&fresh);
    let mut points = 0;
    for at in moments() {
        let mut died = false;
        for after in [false, true] {
            let world = world();
            let mut process = world.start();
            put(&world, first, policies);
            world.settle(&mut process, "a").await;
            for shape in edits.get(1..).unwrap_or_default() {
                put(&world, shape, policies);
                {
                    let mut state = world.server.state.lock();
                    let at = state.writes + at;
                    state.death = Some(if after { Death::After(at) } else { Death::Before(at) });
                }
                died |= reconcile_until_death(&world, &process).await;
                {
                    let mut state = world.server.state.lock();
                    state.revive();
                }
                process = world.start();
            }
            put(&world, last, policies);
            world.settle(&mut process, "a").await;
            assert_eq!(picture(&world), wanted, "at {at}, after it: {after}");
            let trackers = world.server.state.lock().all("resourcetrackers").len();
            assert!(trackers <= 2, "{trackers} trackers are left");
            points += stride();
        }
        if !died {
            return points;
        }
    }
    points
}

const FIRST: Shape = &[("c", &["x", "y"], "1")];
const SECOND: Shape = &[("c", &["y", "x"], "2"), ("d", &["z"], "1")];
const THIRD: Shape = &[("d", &["z", "x"], "3"), ("c", &["y"], "2")];
const FOURTH: Shape = &[("c", &["z"], "1"), ("d", &["x", "y"], "1")];

#[tokio::test]
async fn an_edit_that_died_leaves_nothing() {
    let none = json!([]);
    // The death of the edit itself, then that of one or two before it.
    assert!(die(&[FIRST, SECOND, SECOND], &none).await > 10);
    assert!(die(&[FIRST, SECOND, THIRD, FOURTH], &none).await > 10);
    assert!(die(&[FIRST, SECOND, FIRST], &none).await > 10);
}

/// With such a rule objects are recorded in the root, where a record takes the place of the one before. That of types holds
/// for workloads only: there objects go from the root to the tracker of the run, and back.
#[tokio::test]
async fn an_edit_of_objects_that_stay_for_good_leaves_nothing() {
    for selector in [json!({"resourceTypes": ["ConfigMap"]}), json!({"componentTypes": ["keyed"]})]
    {
        let keeps = json!([{"name": "keep", "type": "garbage-collect", "properties": {"rules": [
            {"selector": selector, "strategy": "onAppDelete"}]}}]);
        assert!(die(&[FIRST, SECOND, SECOND], &keeps).await > 10);
        assert!(die(&[FIRST, SECOND, THIRD], &keeps).await > 10);
    }
}
