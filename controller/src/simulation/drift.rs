//! A second writer of an object that is settled: drift is healed at once, a fight ever more slowly, and what the Application
//! wants left is left.

use std::time::Duration;

use serde_json::{Value, json};

use crate::metrics::DriftAction;
use crate::queue::{Key, Next};

use super::server::State;
use super::{NAMESPACE, Process, World, application, uid};

/// A running Application whose component makes the ConfigMap `x`.
async fn running(change: impl FnOnce(&mut Value)) -> (World, Process) {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", &["x", "y"], "1")]);
        change(&mut app);
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    (world, process)
}

/// Somebody changes `x`; a complete reconcile follows.
async fn drift(world: &World, process: &Process, data: Value) -> Next {
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["data"] = data;
        map["metadata"]["managedFields"] =
            json!([{"manager": "other", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]);
        state.put("configmaps", map);
    });
    reconcile(world, process).await
}

async fn reconcile(world: &World, process: &Process) -> Next {
    process.context.memory(&Key::new(NAMESPACE, "a")).lock().settled = None;
    world.reconcile(process, "a").await.unwrap()
}

fn value(world: &World) -> Value {
    let state = world.server.state.lock();
    let map = state.get("configmaps", NAMESPACE, "x");
    map.map(|map| map["data"]["v"].clone()).unwrap_or_default()
}

fn reported(world: &World) -> Value {
    let conditions = world.app("a")["status"]["conditions"].as_array().cloned().unwrap();
    conditions.into_iter().find(|condition| condition["type"] == "Drift").unwrap_or_default()
}

#[tokio::test]
async fn a_fight_slows_down_is_told_and_ends() {
    let (world, process) = running(|_| {}).await;
    let mut repairs = Vec::new();
    let mut writes_of_status = Vec::new();
    for second in 0..60 {
        let next = drift(&world, &process, json!({"v": "theirs"})).await;
        if value(&world) == "1" {
            repairs.push(second);
        } else {
            let Some(delay) = next.delay() else { panic!("{next:?}") };
            assert!(delay <= Duration::from_secs(32), "{delay:?}");
        }
        writes_of_status.push(reported(&world));
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(repairs, [0, 1, 3, 7, 15, 31]);
    let contention = reported(&world);
    assert_eq!(
        (&contention["reason"], &contention["status"]),
        (&json!("DriftFight"), &json!("True"))
    );
    let message = contention["message"].as_str().unwrap();
    assert!(message.contains("ConfigMap x is changed by other (data.v)"), "{message}");
    // It is reported once, in the same words.
    writes_of_status.retain(|seen| !seen.is_null());
    writes_of_status.dedup();
    assert_eq!(writes_of_status.len(), 1, "{writes_of_status:?}");
    // Another field, another object: at once.
    drift(&world, &process, json!({"v": "1", "w": "1"})).await;
    world.server.by_another_writer(|state| {
        state.delete("configmaps", NAMESPACE, "y");
    });
    reconcile(&world, &process).await;
    assert!(uid(&world, "y").is_string());
    // The other writer gives up: that is seen when it was quiet for as long as the longest pause.
    world.pass(Duration::from_secs(301));
    reconcile(&world, &process).await;
    assert_eq!((value(&world), reported(&world)), (json!("1"), Value::Null));
    drift(&world, &process, json!({"v": "theirs"})).await;
    assert_eq!(value(&world), "1");
}

#[tokio::test]
async fn what_is_to_be_left_is_left() {
    let annotated = |word: &'static str| {
        move |app: &mut Value| app["metadata"]["annotations"] = json!({"app.oam.dev/drift": word})
    };
    let rule = |word: &'static str| {
        move |app: &mut Value| {
            app["spec"]["policies"] = json!([{"name": "p", "type": "apply-once",
                "properties": {"enable": true, "rules": [{"drift": word}]}}]);
        }
    };
    type Change = Box<dyn FnOnce(&mut Value)>;
    let cases: [(Change, &str, bool); 6] = [
        (Box::new(annotated("heal")), "1", false),
        (Box::new(annotated("warn")), "theirs", true),
        (Box::new(annotated("off")), "theirs", false),
        (Box::new(rule("heal")), "1", false),
        (Box::new(rule("warn")), "theirs", true),
        (Box::new(rule("off")), "theirs", false),
    ];
    for (index, (change, expected, is_reported)) in cases.into_iter().enumerate() {
        let (world, process) = running(change).await;
        let next = drift(&world, &process, json!({"v": "theirs"})).await;
        assert_eq!(value(&world), expected, "{index}");
        let seen = reported(&world);
        assert_eq!(seen["reason"] == "DriftLeft", is_reported, "{index}: {seen}");
        if is_reported {
            let message = "ConfigMap x was changed by other and is left as it is: data.v";
            assert_eq!(seen["message"], message);
        }
        // Nothing runs in a loop for that.
        assert!(matches!(next, Next::Resync(_)), "{next:?}");
        // A writer that restores it is not reported.
        drift(&world, &process, json!({"v": "1"})).await;
        assert_eq!(reported(&world), Value::Null, "{index}");
    }
}

/// With `warn` nothing is written but the status, and that once, whatever the other writer does in an hour.
#[tokio::test]
async fn a_warning_writes_nothing_and_is_told_once() {
    let (world, process) =
        running(|app| app["metadata"]["annotations"] = json!({"app.oam.dev/drift": "warn"})).await;
    let before = world.server.state.lock().writes;
    let statuses = world.server.state.lock().status_writes.len();
    for turn in 0..60 {
        drift(&world, &process, json!({"v": format!("theirs {turn}")})).await;
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(value(&world), "theirs 59");
    {
        let state = world.server.state.lock();
        assert_eq!((state.status_writes.len() - statuses, state.writes - before), (1, 1));
    }
    // A deletion is drift too.
    world.server.by_another_writer(|state| {
        state.delete("configmaps", NAMESPACE, "x");
    });
    for _ in 0..5 {
        reconcile(&world, &process).await;
    }
    let message = reported(&world)["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "ConfigMap x was deleted and is not recreated");
    assert_eq!((uid(&world, "x"), world.server.state.lock().writes - before), (Value::Null, 2));
    // It was counted: once changed, once deleted is the same object that differs still.
    assert_eq!(counted(&process, DriftAction::Left), 1);
}

/// Of kind ConfigMap.
fn counted(process: &Process, action: DriftAction) -> u64 {
    process.context.metrics.drift.counted("ConfigMap", action)
}

#[tokio::test]
async fn what_is_done_about_drift_is_counted() {
    let (world, process) = running(|_| {}).await;
    for second in 0..60 {
        drift(&world, &process, json!({"v": second.to_string()})).await;
        world.pass(Duration::from_secs(1));
    }
    // Put back at 0, 1, 3, 7, 15 and 31 seconds; the third time it is a fight.
    assert_eq!(
        [DriftAction::Healed, DriftAction::Fought].map(|action| counted(&process, action)),
        [2, 4]
    );
}

/// What is left so is part of no edit: a new spec is rolled out over it.
#[tokio::test]
async fn an_edit_is_rolled_out_over_what_was_left() {
    let (world, mut process) =
        running(|app| app["metadata"]["annotations"] = json!({"app.oam.dev/drift": "off"})).await;
    drift(&world, &process, json!({"v": "theirs"})).await;
    let mut app = world.app("a");
    app["spec"]["components"][0]["properties"]["value"] = json!("2");
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world), "2");
}

/// At the end of the reconcile that made it again the cluster is as it was at its beginning.
#[tokio::test]
async fn what_vanishes_again_while_it_is_put_back_is_made_again() {
    for after in 1..30 {
        let (world, mut process) = running(|_| {}).await;
        world.server.by_another_writer(|state| {
            state.delete("configmaps", NAMESPACE, "x");
        });
        world.server.state.lock().interruption = Some((
            after,
            Box::new(|state: &mut State| {
                state.delete("configmaps", NAMESPACE, "x");
            }),
        ));
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world), json!("1"), "after {after} requests");
        if world.server.state.lock().interruption.is_some() {
            assert!(after > 1, "only {after} requests");
            return;
        }
    }
    panic!("it never ends");
}
