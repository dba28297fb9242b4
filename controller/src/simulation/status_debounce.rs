//! A status that differs only in messages is written after a second, or with the next change.

use std::time::Duration;

use serde_json::{Value, json};
use vela_apply::ResourceKey;

use crate::queue::Key;

use super::{IS_READY, NAMESPACE, Process, World, application, judge_maps};

/// The note of the ConfigMap is the message.
const MESSAGE: &str = "message: context.output.data.note";

/// Changes the ConfigMap, and waits until the process has seen it.
pub(super) async fn note(world: &World, process: &Process, note: &str, ready: &str) {
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        (map["data"]["note"], map["data"]["ready"]) = (json!(note), json!(ready));
        state.put("configmaps", map);
    });
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    map["metadata"] = json!({"name": "x", "namespace": NAMESPACE});
    let key = ResourceKey::of(&map, "");
    loop {
        let live = process.context.live.get("v1", &key).await.unwrap();
        if live.is_some_and(|live| live.value()["data"]["note"] == note) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn service(world: &World) -> Value {
    let app = world.app("a");
    let service = &app["status"]["services"][0];
    json!([service["message"], service["healthy"].as_bool().unwrap_or_default()])
}

#[tokio::test]
async fn other_words_wait_and_changes_do_not() {
    let world = World::new();
    world.server.by_another_writer(|state| {
        judge_maps(state, json!({"healthPolicy": IS_READY, "customStatus": MESSAGE}));
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    let mut process = world.start();
    world.reconcile(&process, "a").await;
    note(&world, &process, "one", "no").await;
    world.reconcile(&process, "a").await;
    // Words alone are held back.
    assert_eq!(service(&world), json!([null, false]));
    // They are written when their time has come, and nothing else is.
    let writes = world.server.state.lock().writes;
    let memory = process.context.memory(&Key::new(NAMESPACE, "a"));
    let wait = Duration::from_secs(1);
    memory.lock().deferred.as_mut().unwrap().since -= wait;
    world.reconcile(&process, "a").await;
    assert_eq!(service(&world), json!(["one", false]));
    assert_eq!(world.server.state.lock().writes, writes + 1);
    assert!(memory.lock().deferred.is_none());
    // What changes comes at once, with the words.
    note(&world, &process, "two", "no").await;
    world.reconcile(&process, "a").await;
    note(&world, &process, "three", "yes").await;
    world.settle(&mut process, "a").await;
    assert_eq!(service(&world), json!(["three", true]));
    assert!(memory.lock().deferred.is_none());
}
