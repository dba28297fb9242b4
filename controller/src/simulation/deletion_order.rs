//! Deletion, in order and at once: every object is asked to go once, also one that something holds for a while.

use serde_json::json;

use super::{NAMESPACE, World, application};

/// Deletes an Application whose object `held` something else holds, until that lets go. Returns what was asked to go.
async fn deleted(order: Option<&str>, held: &str) -> Vec<String> {
    let world = World::new();
    let mut process = world.start();
    let mut app = application("a", &[("c", &["x"], "1"), ("d", &["y", "z"], "1")]);
    app["spec"]["components"][1]["dependsOn"] = json!(["c"]);
    if let Some(order) = order {
        app["spec"]["policies"] =
            json!([{"name": "p", "type": "garbage-collect", "properties": {"order": order}}]);
    }
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    let hold = |finalizers: serde_json::Value| {
        world.server.by_another_writer(|state| {
            let mut map = state.get("configmaps", NAMESPACE, held).cloned().unwrap_or_default();
            map["metadata"]["finalizers"] = finalizers;
            state.put("configmaps", map);
        });
    };
    hold(json!(["somebody/else"]));
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
    for _ in 0..5 {
        world.reconcile(&process, "a").await;
    }
    assert!(world.app("a").is_object(), "the Application waits for {held}");
    hold(json!([]));
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    let state = world.server.state.lock();
    state.deletes.iter().filter(|name| !name.starts_with("workflow-")).cloned().collect()
}

#[tokio::test]
async fn every_object_is_asked_to_go_once() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    for held in ["x", "y", "z"] {
        assert_eq!(sorted(deleted(None, held).await), ["x", "y", "z"], "held: {held}");
        let asked = deleted(Some("dependency"), held).await;
        assert_eq!(asked.last().map(String::as_str), Some("x"), "held: {held}");
        assert_eq!(sorted(asked), ["x", "y", "z"], "held: {held}");
    }
}
