//! Paused Applications: a requested plan is written once, and nothing else happens until the Application resumes.

use serde_json::{Value, json};

use crate::plan::paused;

use super::{NAMESPACE, Process, World, application};

fn start(world: &World) -> Process {
    let mut process = world.start();
    process.context.planner = Some(paused::planner(&process.context.shared, &world.rules));
    process
}

/// Writes the Application `a` as a user does.
fn apply(world: &World, objects: &[&str], paused: bool, asks: bool) {
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", objects, "1")]);
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        app["metadata"]["labels"] = json!({});
        if paused {
            app["metadata"]["labels"]["controller.core.oam.dev/pause"] = json!("true");
        }
        if asks {
            app["metadata"]["annotations"]["app.oam.dev/plan"] = json!("true");
        }
        state.put("applications", app);
    });
}

fn map(world: &World, name: &str) -> Value {
    let state = world.server.state.lock();
    state.get("configmaps", NAMESPACE, name).cloned().unwrap_or_default()
}

fn condition(world: &World) -> Value {
    let conditions = world.app("a")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Planned").unwrap_or_default()
}

#[tokio::test]
async fn a_paused_edit_is_planned_once_and_done_when_it_goes_on() {
    let world = World::new();
    let mut process = start(&world);
    apply(&world, &["x", "y"], false, true);
    world.settle(&mut process, "a").await;
    apply(&world, &["x", "z"], true, true);
    world.settle(&mut process, "a").await;
    assert!(map(&world, "y").is_object() && map(&world, "z").is_null(), "nothing is done");
    let app = world.app("a");
    assert_eq!(app["status"]["observedGeneration"], 1, "it is planned, not reconciled");
    let planned = condition(&world);
    assert_eq!(planned["status"], "True", "{planned}");
    assert_eq!(planned["message"], "generation 2: 1 to add, 1 to delete");
    let plan = map(&world, "a-plan");
    let text = plan["data"]["plan.txt"].as_str().unwrap();
    assert!(text.contains("+ ConfigMap n/z") && text.contains("- ConfigMap n/y"), "{text}");
    assert!(text.starts_with("Application n/a, generation 1 -> 2\n"), "{text}");
    let json: Value = serde_json::from_str(plan["data"]["plan.json"].as_str().unwrap()).unwrap();
    let changes = json["changes"].as_array().unwrap().iter();
    let verbs: Vec<&str> = changes.map(|change| change["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["add", "delete", "note"]);
    // Once for the generation, whichever process it is.
    let writes = world.server.state.lock().writes;
    process = start(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().writes, writes);
    // It goes on: what was planned comes to pass.
    apply(&world, &["x", "z"], false, true);
    world.settle(&mut process, "a").await;
    assert!(map(&world, "y").is_null() && map(&world, "z").is_object());
    assert_eq!(condition(&world), Value::Null);
    assert_eq!(map(&world, "z")["metadata"]["annotations"]["app.oam.dev/plan"], Value::Null);
}

#[tokio::test]
async fn who_does_not_ask_is_only_paused() {
    let world = World::new();
    let mut process = start(&world);
    apply(&world, &["x"], true, false);
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().writes, 0);
}

#[tokio::test]
async fn a_config_map_of_somebody_else_stays_his() {
    let world = World::new();
    world.server.by_another_writer(|state| {
        state.put(
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-plan", "namespace": NAMESPACE},
                "data": {"mine": "1"}}),
        );
    });
    let mut process = start(&world);
    apply(&world, &["x"], true, true);
    world.settle(&mut process, "a").await;
    assert_eq!(map(&world, "a-plan")["data"], json!({"mine": "1"}));
    assert_eq!(condition(&world)["reason"], "NameTaken");
}
