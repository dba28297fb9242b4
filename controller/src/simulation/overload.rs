//! An API server that is overloaded or away says nothing about what it was asked: that uses up no attempt of a step, and
//! events of other objects bring none forward.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::queue::{Key, Next};

use super::{NAMESPACE, Process, World, application};

/// An Application of two components, `c` makes the ConfigMap `x`, `d` makes `y`.
fn apply(world: &World) {
    world.server.by_another_writer(|state| {
        let app = application("a", &[("c", &["x"], "1"), ("d", &["y"], "1")]);
        state.put("applications", app);
    });
}

fn step(world: &World, name: &str) -> Value {
    let status = world.app("a")["status"].clone();
    let steps = status["workflow"]["steps"].as_array().cloned().unwrap_or_default();
    steps.into_iter().find(|step| step["name"] == name).unwrap_or_default()
}

/// Something else happens to `x`, which nobody puts back.
fn touch(world: &World, turn: usize) {
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["metadata"]["annotations"]["touch"] = json!(turn.to_string());
        state.put("configmaps", map);
    });
}

#[tokio::test]
async fn what_is_put_off_is_no_attempt() {
    for code in [429, 502, 503, 504] {
        let world = World::new();
        let mut process = world.start();
        apply(&world);
        world.server.state.lock().overload = Some((Method::POST, "configmaps", code));
        reconcile_times(&world, &process, 40, true).await;
        let status = world.app("a")["status"].clone();
        assert_eq!(status["status"], "runningWorkflow", "{code}: {status:#}");
        world.server.state.lock().overload = None;
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{code}");
    }
}

/// An overload in the middle: the step says what it waits for, counts nothing and asks at a distance.
#[tokio::test]
async fn a_step_says_that_it_is_put_off() {
    let world = World::new();
    let mut process = world.start();
    apply(&world);
    world.server.state.lock().refused = Some("y");
    reconcile_times(&world, &process, 2, true).await;
    assert_eq!(step(&world, "d")["reason"], "Execute");
    let before = counted(&world);
    {
        let mut state = world.server.state.lock();
        (state.refused, state.overload) = (None, Some((Method::POST, "configmaps", 429)));
    }
    reconcile_times(&world, &process, 20, true).await;
    let waits = step(&world, "d");
    assert_eq!((&waits["phase"], &waits["reason"]), (&json!("running"), &json!("Wait")));
    assert!(waits["message"].as_str().unwrap().contains("overloaded or unreachable"), "{waits}");
    assert_eq!(counted(&world), before);
    let asked = world.server.state.lock().asked_in_vain;
    for turn in 0..20 {
        touch(&world, turn);
        reconcile_times(&world, &process, 1, false).await;
    }
    let more = world.server.state.lock().asked_in_vain - asked;
    assert!(more <= 1, "{more} requests without time between them");
    world.server.state.lock().overload = None;
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// Complete reconciles, with or without the time between them that they ask for.
async fn reconcile_times(world: &World, process: &Process, count: usize, passes: bool) {
    for _ in 0..count {
        process.context.memory(&Key::new(NAMESPACE, "a")).lock().settled = None;
        let next = world.reconcile(process, "a").await.unwrap();
        if let Next::After(delay) = next
            && passes
        {
            world.pass(delay);
        }
    }
}

/// The failed attempts that the context of the workflow counts.
fn counted(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let context = state.get("configmaps", NAMESPACE, "workflow-a-context").cloned();
    let data = context.and_then(|context| context["data"].as_object().cloned());
    let all = data.into_iter().flatten();
    let counts = all.filter(|(key, _)| key.ends_with(".failedTimes"));
    counts.map(|(_, count)| count.as_str().unwrap_or_default().to_owned()).collect()
}

/// Attempts keep their distance whatever happens to other objects in the meantime, also in the next process.
#[tokio::test]
async fn events_of_other_objects_use_up_no_attempts() {
    let world = World::new();
    let mut process = world.start();
    apply(&world);
    world.server.state.lock().refused = Some("y");
    reconcile_times(&world, &process, 8, true).await;
    let before = counted(&world);
    assert_eq!(before.len(), 1, "{before:?}");
    for turn in 0..30 {
        touch(&world, turn);
        reconcile_times(&world, &process, 1, false).await;
        if turn == 15 {
            process = world.start();
        }
    }
    let after = counted(&world);
    let attempts = |counts: &[String]| counts[0].parse::<u32>().unwrap();
    assert!(attempts(&after) <= attempts(&before) + 1, "{before:?} {after:?}");
    assert_eq!(step(&world, "d")["reason"], "Execute");
    // Its time comes.
    world.server.state.lock().refused = None;
    world.pass(Duration::from_secs(60));
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// What the revision says of the run is not lost: the run ends when it is written.
#[tokio::test]
async fn a_run_ends_with_its_record() {
    let world = World::new();
    let mut process = world.start();
    apply(&world);
    world.server.state.lock().overload = Some((Method::PATCH, "applicationrevisions", 429));
    reconcile_times(&world, &process, 20, true).await;
    let run = world.app("a")["status"]["workflow"].clone();
    assert_eq!((&run["finished"], &run["steps"][1]["phase"]), (&json!(false), &json!("succeeded")));
    let asked = world.server.state.lock().asked_in_vain;
    assert!((1..=20).contains(&asked), "{asked}");
    world.server.state.lock().overload = None;
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    let state = world.server.state.lock();
    let revision = state.get("applicationrevisions", NAMESPACE, "a-v1").cloned().unwrap();
    assert_eq!(revision["status"]["succeeded"], true, "{revision:#}");
}
