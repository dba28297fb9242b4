//! A refused object: nothing of the dispatch is applied and nothing stays recorded, whether the object was tried
//! out or its write was the trial.

use serde_json::{Value, json};

use super::{NAMESPACE, Process, World, application};

/// What a refusal must leave: the ConfigMaps and trackers that there are, and what the step says.
async fn left(world: &World, process: &Process) -> (Vec<String>, Vec<String>, String) {
    for _ in 0..3 {
        let _ = world.reconcile(process, "a").await;
    }
    let state = world.server.state.lock();
    let name = |object: &&Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // The context of the workflow is not the component's.
    let is_made = |object: &&Value| object["data"]["v"].is_string();
    let maps = state.all("configmaps").iter().filter(|map| is_made(map)).map(name).collect();
    let trackers = state.all("resourcetrackers").iter().map(name).collect();
    let app = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
    let message = app["status"]["workflow"]["steps"][0]["message"].as_str().unwrap_or_default();
    (maps, trackers, message.to_owned())
}

fn apply(world: &World, value: &str) {
    let app = application("a", &[("c", &["x", "y"], value)]);
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

#[tokio::test]
async fn a_refused_object_leaves_nothing_of_its_dispatch() {
    for refused in ["x", "y"] {
        let world = World::new();
        let mut process = world.start();
        world.server.state.lock().refused = Some(refused);
        apply(&world, "1");
        let (maps, trackers, message) = left(&world, &process).await;
        assert_eq!((maps.len(), trackers.len()), (0, 0), "{refused}: {maps:?} {trackers:?}");
        assert!(
            message.contains("pre-dispatch dryrun failed: Found 1 errors."),
            "{refused}: {message}"
        );
        // What was refused is tried out before anything is recorded again.
        let recorded = world.server.state.lock().changes_of("resourcetrackers");
        apply(&world, "2");
        let (maps, trackers, _) = left(&world, &process).await;
        assert_eq!((maps.len(), trackers.len()), (0, 0), "{refused}: {maps:?} {trackers:?}");
        if refused == "x" {
            assert_eq!(world.server.state.lock().changes_of("resourcetrackers"), recorded);
        }
        world.server.state.lock().refused = None;
        apply(&world, "3");
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{refused}");
    }
}

#[tokio::test]
async fn a_refused_edit_leaves_what_was_there() {
    for refused in ["x", "y"] {
        let world = World::new();
        let mut process = world.start();
        apply(&world, "1");
        world.settle(&mut process, "a").await;
        world.server.state.lock().refused = Some(refused);
        apply(&world, "2");
        let (maps, trackers, message) = left(&world, &process).await;
        assert_eq!((maps.len(), trackers.len()), (2, 1), "{refused}: {maps:?} {trackers:?}");
        assert!(message.contains("pre-dispatch dryrun failed"), "{refused}: {message}");
        assert_eq!(values(&world), [json!("1"), json!("1")], "{refused}");
        world.server.state.lock().refused = None;
        apply(&world, "3");
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{refused}");
        assert_eq!(values(&world), [json!("3"), json!("3")], "{refused}");
    }
}

fn values(world: &World) -> Vec<Value> {
    let state = world.server.state.lock();
    let value = |name| state.get("configmaps", NAMESPACE, name).map(|map| map["data"]["v"].clone());
    ["x", "y"].into_iter().filter_map(value).collect()
}
