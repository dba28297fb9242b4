//! Incomplete caches: an Application that was recreated, objects that cannot be listed.

use futures::FutureExt as _;
use http::Method;
use serde_json::{Value, json};
use vela_cluster::{Key, Stored as _};

use crate::application::lifecycle::conflict;
use crate::application::write;
use crate::queue::{Next, WorkerKind};

use super::{NAMESPACE, World, application};

/// Somebody waits for the end of an Application to create it again, and is faster than the answer to our last write.
#[tokio::test]
async fn who_takes_the_name_of_a_deleted_application_is_not_overlooked() {
    let key = Key::new(NAMESPACE, "a");
    for request in 1.. {
        let world = World::new();
        let mut process = world.start();
        let app = application("a", &[("c", &["x"], "1")]);
        world.server.by_another_writer(|state| drop(state.put("applications", app.clone())));
        world.settle(&mut process, "a").await;
        world.server.by_another_writer(|state| drop(state.delete("applications", NAMESPACE, "a")));
        let again = app.clone();
        world.server.state.lock().interruption = Some((
            request,
            Box::new(move |state| {
                if state.get("applications", NAMESPACE, "a").is_none() {
                    state.put("applications", again);
                }
            }),
        ));
        while world.server.state.lock().interruption.is_some() && world.app("a") != Value::Null {
            world.reconcile(&process, "a").await;
        }
        let is_there = world.app("a") != Value::Null;
        assert_eq!(process.context.apps.get(&key).is_some(), is_there, "request {request}");
        if is_there {
            world.settle(&mut process, "a").await;
            assert_eq!(world.faults("a"), Vec::<String>::new());
            break;
        }
        let late = world.server.state.lock().interruption.is_some();
        assert!(!late, "there is no moment after the last write");
    }
}

/// The objects of a kind cannot be listed: that is said, and an edit that needs none of them is rolled out.
#[tokio::test]
async fn objects_that_cannot_be_listed_are_told() {
    let world = World::new();
    let mut process = world.start();
    let app = application("a", &[("c", &["x"], "1")]);
    world.server.by_another_writer(|state| drop(state.put("applications", app)));
    world.settle(&mut process, "a").await;
    world.server.state.lock().forbidden = Some((Method::GET, "configmaps"));
    process = world.start();
    // The first reconcile waits for the list, the second one does not any more.
    for _ in 0..2 {
        world.reconcile(&process, "a").await;
    }
    let said = world.app("a")["status"]["conditions"].to_string();
    assert!(said.contains("objects of kind ConfigMap (v1) could not be listed"), "{said}");
    world.server.state.lock().forbidden = None;
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// The cache is behind, and what it would catch up with cannot be read: conflicts are no reason to try all the time.
#[tokio::test]
async fn a_conflict_is_met_with_the_newest_application() {
    let world = World::new();
    let process = world.start();
    let app = application("a", &[("c", &["x"], "1")]);
    world.server.by_another_writer(|state| drop(state.put("applications", app.clone())));
    world.sync(&process);
    for (label, next) in [
        (json!("told"), "After(0ns)"),
        // An Application's labels are text.
        (json!(1), "Failed"),
    ] {
        let known = process.context.application(&Key::new(NAMESPACE, "a")).await.unwrap().unwrap();
        world.server.by_another_writer(|state| {
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
            app["metadata"]["labels"] = json!({ "edited": label });
            state.put("applications", app);
        });
        let met = conflict::requeue(&process.context, &known).await.unwrap();
        assert_eq!(format!("{met:?}"), next);
    }
}

/// A patch that names no version takes in whatever was edited since the Application was read: the watch says nothing of it then.
#[tokio::test]
async fn an_edit_in_the_answer_to_a_patch_wakes_the_application() {
    let world = World::new();
    let process = world.start();
    let app = application("a", &[("c", &["x"], "1")]);
    world.server.by_another_writer(|state| drop(state.put("applications", app)));
    world.sync(&process);
    let key = Key::new(NAMESPACE, "a");
    let queue = &process.context.queue;
    for (label, edited) in [("one", false), ("two", true), ("three", false)] {
        let read = process.context.application(&key).await.unwrap().unwrap();
        if edited {
            world.server.by_another_writer(|state| {
                let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
                app["spec"]["components"][0]["properties"]["value"] = json!(label);
                state.put("applications", app);
            });
        }
        let labels = json!({"metadata": {"labels": {label: "1"}}});
        let stored = write::patch(&process.context, &read, &labels).await.unwrap();
        let known = process.context.apps.get(&key).unwrap();
        assert_eq!(known.version(), stored.version());
        let woken = queue.next(WorkerKind::Edits).now_or_never().flatten();
        assert_eq!(woken, edited.then(|| key.clone()), "{label}");
        woken.into_iter().for_each(|key| queue.done(key, Next::Done));
    }
}
