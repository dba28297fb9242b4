//! A workflow that waits for objects: when it is checked again, and that the many changes of a rollout are one reconcile.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::Next;

use super::status_debounce::note;
use super::{IS_READY, NAMESPACE, Process, World, application, judge_maps};

/// A world with an Application that waits until its ConfigMap says that it is ready.
fn waiting(spec: &Value) -> World {
    let world = World::new();
    world.server.by_another_writer(|state| {
        judge_maps(state, json!({"healthPolicy": IS_READY}));
        let mut app = application("a", &[("c", &["x"], "1")]);
        for (key, value) in spec.as_object().unwrap() {
            app["spec"][key] = value.clone();
        }
        state.put("applications", app);
    });
    world
}

fn is_healthy(world: &World) -> bool {
    world.app("a")["status"]["services"][0]["healthy"] == true
}

async fn delay(world: &World, process: &Process) -> Duration {
    let next = world.reconcile(process, "a").await;
    next.and_then(Next::delay).unwrap_or_else(|| panic!("{next:?}"))
}

#[tokio::test]
async fn changes_in_a_row_are_one_look_and_an_edit_does_not_wait() {
    let world = waiting(&json!({}));
    let mut process = world.start();
    let pause = Duration::from_secs(3600);
    process.settings().pause = pause;
    world.reconcile(&process, "a").await;
    note(&world, &process, "one", "yes").await;
    let left = delay(&world, &process).await;
    assert!(left <= pause && left > pause / 2, "{left:?}");
    assert!(!is_healthy(&world));
    // An edit is checked at once, with what changed.
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["annotations"]["noted"] = json!("yes");
        state.put("applications", app);
    });
    world.reconcile(&process, "a").await;
    assert!(is_healthy(&world));
}

#[tokio::test]
async fn what_changed_is_seen_once_the_pause_is_over() {
    let world = waiting(&json!({}));
    let process = world.start();
    world.reconcile(&process, "a").await;
    note(&world, &process, "one", "yes").await;
    world.reconcile(&process, "a").await;
    assert!(is_healthy(&world));
}

#[tokio::test]
async fn who_waits_for_watched_objects_alone_is_looked_at_seldom() {
    let seldom = Duration::from_secs(10);
    let timed = json!({"workflow": {"steps": [{"name": "s", "type": "apply-component", "timeout": "1h",
        "properties": {"component": "c"}}]}});
    let shared = json!({"policies": [{"name": "p", "type": "shared-resource", "properties": {
        "rules": [{"selector": {"resourceTypes": ["Secret"]}}]}}]});
    for (spec, is_seldom) in [(json!({}), true), (timed, false), (shared, false)] {
        let world = waiting(&spec);
        let process = world.start();
        world.reconcile(&process, "a").await;
        let delay = delay(&world, &process).await;
        assert_eq!(delay > seldom / 2, is_seldom, "{spec} {delay:?}");
        assert!(delay <= seldom && !is_healthy(&world), "{spec} {delay:?}");
    }
}
