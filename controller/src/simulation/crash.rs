//! The process dies before its k-th write is sent, and after it was committed, for every k of every scenario: after the
//! restart the end is the same.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::Next;

use super::depth::{moments, stride};
use super::many_components::components;
use super::server::Death;
use super::{NAMESPACE, World, application};

/// One step of a scenario.
#[derive(Clone)]
enum Step {
    /// The Application is this.
    Apply(Value),
    /// Only this changes.
    Annotate(&'static str, &'static str),
    /// It is deleted.
    Delete,
    /// Somebody deletes a ConfigMap.
    Lose(&'static str),
}

fn with_policy(mut app: Value, policy: &Value) -> Value {
    app["spec"]["policies"] = json!([policy]);
    app
}

fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    use Step::{Annotate, Apply, Delete, Lose};
    let one = |value| application("a", &[("c", &["x", "y"], value)]);
    let two = application("a", &[("c", &["x", "y"], "1"), ("d", &["z"], "1")]);
    let many = |value| components(&["c", "d", "e", "f", "g", "h", "i", "j"], value);
    let never = json!({"name": "keep", "type": "garbage-collect", "properties": {"rules": [
        {"selector": {"componentNames": ["d"]}, "strategy": "onAppDelete"}]}});
    let mut ordered = two.clone();
    ordered["spec"]["components"][1]["dependsOn"] = json!(["c"]);
    vec![
        ("create", vec![Apply(one("1"))]),
        ("create and delete", vec![Apply(one("1")), Delete]),
        ("edit", vec![Apply(one("1")), Apply(one("2"))]),
        ("add a component", vec![Apply(one("1")), Apply(two.clone())]),
        ("remove a component", vec![Apply(two.clone()), Apply(one("1"))]),
        (
            "rename an object",
            vec![Apply(one("1")), Apply(application("a", &[("c", &["x", "w"], "1")]))],
        ),
        ("there and back", vec![Apply(one("1")), Apply(one("2")), Apply(one("1"))]),
        (
            "publish twice",
            vec![
                Apply(one("1")),
                Annotate("app.oam.dev/publishVersion", "p1"),
                Annotate("app.oam.dev/publishVersion", "p2"),
            ],
        ),
        ("an object is lost", vec![Apply(two.clone()), Lose("z"), Apply(one("3"))]),
        ("a rule, and deletion", vec![Apply(with_policy(two, &never)), Delete]),
        ("components in order", vec![Apply(ordered), Delete]),
        ("many components", vec![Apply(many("1")), Apply(many("2")), Apply(one("3"))]),
    ]
}

/// Runs a scenario; the process dies at `death`. Returns whether it did, and the revision after each step.
async fn run(name: &str, steps: &[Step], death: Option<Death>) -> (bool, Vec<Value>) {
    let world = World::new();
    world.server.state.lock().death = death;
    let mut process = world.start();
    let (mut deaths, mut revisions) = (0, Vec::new());
    for step in steps {
        world.server.by_another_writer(|state| match step {
            Step::Apply(app) => {
                let mut app = app.clone();
                if let Some(old) = state.get("applications", NAMESPACE, "a") {
                    let mut metadata = old["metadata"].clone();
                    metadata["annotations"] = old["metadata"]["annotations"].clone();
                    app["metadata"] = metadata;
                    app["status"] = old["status"].clone();
                }
                state.put("applications", app);
            }
            Step::Annotate(key, value) => {
                let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
                app["metadata"]["annotations"][*key] = json!(value);
                state.put("applications", app);
            }
            Step::Delete => {
                state.delete("applications", NAMESPACE, "a");
            }
            Step::Lose(map) => {
                state.delete("configmaps", NAMESPACE, map);
            }
        });
        deaths += world.settle(&mut process, "a").await;
        let faults = world.faults("a");
        assert!(faults.is_empty(), "{name}, death {death:?}: {faults:#?}");
        revisions.push(world.app("a")["status"]["latestRevision"]["name"].clone());
    }
    (deaths > 0, revisions)
}

#[tokio::test]
async fn the_process_may_die_at_any_write() {
    let mut points = 0;
    for (name, steps) in scenarios() {
        let (died, revisions) = run(name, &steps, None).await;
        assert!(!died);
        for at in moments() {
            let before = run(name, &steps, Some(Death::Before(at))).await;
            let after = run(name, &steps, Some(Death::After(at))).await;
            // A death costs no number either.
            assert_eq!(before.1, revisions, "{name}, before {at}");
            assert_eq!(after.1, revisions, "{name}, after {at}");
            if !before.0 && !after.0 {
                assert!(at > 5, "{name}: only {at} writes");
                break;
            }
            points += 2;
        }
    }
    assert!(points * stride() > 200, "only {points} moments of death");
}

/// A spec, another one whose run dies at any write, and the first one again, whose run dies at any write: the status names
/// of the first run only, and what that had made is collected.
#[tokio::test]
async fn the_process_may_die_twice_on_the_way_there_and_back() {
    let first = application("a", &[("c", &["x"], "1"), ("d", &["y"], "1")]);
    let second = application("a", &[("c", &["x"], "2"), ("e", &["z"], "1")]);
    let put = |world: &World, app: &Value| {
        world.server.by_another_writer(|state| {
            let mut app = app.clone();
            if let Some(old) = state.get("applications", NAMESPACE, "a") {
                (app["metadata"], app["status"]) = (old["metadata"].clone(), old["status"].clone());
            }
            state.put("applications", app);
        });
    };
    let mut points = 0;
    'first: for one in moments() {
        for two in 1.. {
            let world = World::new();
            let mut process = world.start();
            put(&world, &first);
            world.settle(&mut process, "a").await;
            put(&world, &second);
            let started = world.server.state.lock().writes;
            world.server.state.lock().death = Some(Death::Before(started + one));
            loop {
                match world.reconcile(&process, "a").await {
                    None => break,
                    // The run is over: there are fewer writes.
                    Some(Next::Resync(_)) => break 'first,
                    Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
            put(&world, &first);
            {
                let mut state = world.server.state.lock();
                state.revive();
                state.death = Some(Death::Before(started + one + two));
            }
            process = world.start();
            let deaths = world.settle(&mut process, "a").await;
            let faults = world.faults("a");
            assert!(faults.is_empty(), "deaths at {one} and {two}: {faults:#?}");
            if deaths == 0 {
                break;
            }
            points += 1;
        }
    }
    assert!(points * stride() > 40, "only {points} pairs of deaths");
}

/// Tracker and revision are stored side by side: the tracker may be there alone when the process dies.
#[tokio::test]
async fn a_tracker_without_its_revision_costs_no_number() {
    let world = World::new();
    let mut process = world.start();
    let put = |value: &str| {
        let app = application("a", &[("c", &["x"], value)]);
        world.server.by_another_writer(|state| {
            let mut edited =
                state.get("applications", NAMESPACE, "a").cloned().unwrap_or(app.clone());
            edited["spec"] = app["spec"].clone();
            state.put("applications", edited);
        });
    };
    put("1");
    world.settle(&mut process, "a").await;
    put("2");
    world.server.by_another_writer(|state| {
        let mut tracker = state.all("resourcetrackers")[0].clone();
        tracker["metadata"]["name"] = json!(format!("a-v2-{NAMESPACE}"));
        tracker["metadata"]["labels"]["app.oam.dev/appRevision"] = json!("a-v2");
        tracker["metadata"]["uid"] = Value::Null;
        tracker["spec"]["applicationGeneration"] =
            state.get("applications", NAMESPACE, "a").unwrap()["metadata"]["generation"].clone();
        state.put("resourcetrackers", tracker);
    });
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v2");
    assert_eq!(world.faults("a"), Vec::<String>::new());
}
