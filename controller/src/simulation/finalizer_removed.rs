//! Another client removes the finalizer: to delete only the Application, or by an update without it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::{Key, Next};

use super::{NAMESPACE, Process, World, application, uid};

/// A settled Application whose finalizer somebody took off, together with `edit`.
async fn cut(edit: impl Fn(&mut Value)) -> (World, Process) {
    let world = World::new();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    assert!(has_finalizer(&world));
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["finalizers"] = json!(null);
        edit(&mut app);
        state.put("applications", app);
    });
    (world, process)
}

fn has_finalizer(world: &World) -> bool {
    world.app("a")["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

#[tokio::test]
async fn who_takes_it_off_can_delete_the_application_alone_and_make_it_again() {
    let (world, mut process) = cut(|_| {}).await;
    let (before, writes) = (uid(&world, "x"), world.server.state.lock().writes);
    assert!(before.is_string());
    // The reconcile between the two requests of whoever does it.
    let next = world.reconcile(&process, "a").await;
    assert!(matches!(next, Some(Next::After(left)) if left <= Duration::from_secs(2)), "{next:?}");
    assert_eq!(world.server.state.lock().writes, writes);
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(uid(&world, "x"), before);
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    assert_eq!(uid(&world, "x"), before);
    assert!(has_finalizer(&world));
}

#[tokio::test]
async fn it_is_put_on_again_where_no_deletion_follows() {
    let (world, mut process) = cut(|_| {}).await;
    world.reconcile(&process, "a").await;
    assert!(!has_finalizer(&world));
    let memory = process.context.memory(&Key::new(NAMESPACE, "a"));
    *memory.lock().finalizer_missing_since.as_mut().unwrap() -= Duration::from_secs(2);
    world.settle(&mut process, "a").await;
    assert!(has_finalizer(&world));
}

#[tokio::test]
async fn an_edit_without_it_is_rolled_out_with_it() {
    let (world, mut process) = cut(|app| {
        app["spec"]["components"][0]["properties"]["value"] = json!("2");
    })
    .await;
    world.reconcile(&process, "a").await;
    assert!(has_finalizer(&world));
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}
