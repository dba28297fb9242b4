//! Many components of one Application: recorded at once, written one after the other.

use serde_json::Value;

use super::{NAMESPACE, World, application};

const COUNT: usize = 20;

/// An Application with a component for each name, which makes one object of that name.
pub(super) fn components(names: &[impl AsRef<str>], value: &str) -> Value {
    let objects: Vec<[&str; 1]> = names.iter().map(|name| [name.as_ref()]).collect();
    let parts: Vec<_> = objects.iter().map(|of| (of[0], of.as_slice(), value)).collect();
    application("a", &parts)
}

fn apply(world: &World, value: &str) {
    let names: Vec<String> = (0..COUNT).map(|n| format!("c{n}")).collect();
    let app = components(&names, value);
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

/// The values of the objects that there are.
fn values(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let value = |n| state.get("configmaps", NAMESPACE, &format!("c{n}"))?["data"]["v"].as_str();
    (0..COUNT).filter_map(value).map(str::to_owned).collect()
}

fn tracker_writes(world: &World) -> usize {
    world.server.state.lock().changes_of("resourcetrackers")
}

#[tokio::test]
async fn many_components_write_their_tracker_once() {
    let world = World::new();
    let mut process = world.start();
    apply(&world, "1");
    world.settle(&mut process, "a").await;
    assert_eq!(values(&world), vec!["1"; COUNT]);
    assert_eq!(tracker_writes(&world), 1);
    // One for what is recorded, and what collecting the tracker of the run before takes.
    apply(&world, "2");
    world.settle(&mut process, "a").await;
    assert_eq!(values(&world), vec!["2"; COUNT]);
    let edit = tracker_writes(&world) - 1;
    assert!(edit <= 4, "{edit}");
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// The others are written, and nothing stays recorded of the one that was refused.
#[tokio::test]
async fn one_that_is_refused_holds_up_no_other() {
    let world = World::new();
    let mut process = world.start();
    world.server.state.lock().refused = Some("c7");
    apply(&world, "1");
    for _ in 0..3 {
        let _ = world.reconcile(&process, "a").await;
    }
    assert_eq!(values(&world).len(), COUNT - 1);
    let status = world.app("a")["status"]["workflow"]["steps"][7].clone();
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("pre-dispatch dryrun failed: Found 1 errors."), "{message}");
    let is_recorded = {
        let state = world.server.state.lock();
        state.all("resourcetrackers").iter().any(|tracker| tracker.to_string().contains("\"c7\""))
    };
    assert!(!is_recorded);
    world.server.state.lock().refused = None;
    apply(&world, "2");
    world.settle(&mut process, "a").await;
    assert_eq!(values(&world), vec!["2"; COUNT]);
    assert_eq!(world.faults("a"), Vec::<String>::new());
}
