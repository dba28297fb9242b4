//! A failed rollout: the last spec is restored once, even if the process dies at any write, and never against Git.

use serde_json::{Value, json};

use super::depth::moments;
use super::server::Death;
use super::{NAMESPACE, Process, World, application, maps};

/// An Application whose first spec is deployed, and whose second one the cluster refuses.
async fn failing(on_failure: &str, change: impl Fn(&mut Value)) -> (World, Process) {
    let world = World::new();
    let mut process = world.start();
    edit(&world, on_failure, "good", &change);
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    world.server.state.lock().refused = Some("bad");
    edit(&world, on_failure, "bad", &change);
    (world, process)
}

fn edit(world: &World, on_failure: &str, map: &str, change: &impl Fn(&mut Value)) {
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", &[map], "1")]);
        app["metadata"] = match state.get("applications", NAMESPACE, "a") {
            Some(stored) => stored["metadata"].clone(),
            None => json!({"name": "a", "namespace": NAMESPACE, "annotations": {}}),
        };
        app["metadata"]["annotations"]["app.oam.dev/on-failure"] = json!(on_failure);
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["status"] = stored["status"].clone();
        }
        change(&mut app);
        state.put("applications", app);
    });
}

fn is_deployed(world: &World) {
    let app = world.app("a");
    assert_eq!(app["spec"]["components"][0]["properties"]["names"], json!(["good"]));
    assert_eq!(app["status"]["status"], "running", "{:#}", app["status"]);
    assert_eq!(maps(world).get("n/good").map(String::as_str), Some("1"));
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// Writes of the spec by the controller: generations beyond those of the edits.
fn rollbacks(world: &World, edits: i64) -> i64 {
    world.app("a")["metadata"]["generation"].as_i64().unwrap() - edits
}

#[tokio::test]
async fn the_last_spec_is_back_once() {
    let (world, mut process) = failing("rollback", |_| {}).await;
    world.settle(&mut process, "a").await;
    is_deployed(&world);
    assert_eq!(rollbacks(&world, 2), 1);
    let mark = world.app("a")["metadata"]["annotations"]["app.oam.dev/rolled-back-from"].clone();
    assert!(mark.as_str().unwrap().contains('/'), "{mark}");
    // Objects do not carry it.
    let map = world.server.state.lock().get("configmaps", NAMESPACE, "good").cloned().unwrap();
    assert_eq!(map["metadata"]["annotations"]["app.oam.dev/rolled-back-from"], Value::Null);
    // The same spec again stays.
    edit(&world, "rollback", "bad", &|_| {});
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "workflowFailed");
    assert_eq!(rollbacks(&world, 3), 1);
}

#[tokio::test]
async fn the_process_may_die_at_any_write() {
    for death in moments() {
        let mut deaths = 0;
        for kind in [Death::Before(death), Death::After(death)] {
            let (world, mut process) = failing("rollback", |_| {}).await;
            {
                let mut state = world.server.state.lock();
                state.writes = 0;
                state.death = Some(kind);
            }
            deaths += world.settle(&mut process, "a").await;
            is_deployed(&world);
            assert_eq!(rollbacks(&world, 2), 1, "{kind:?}");
        }
        if deaths == 0 {
            assert!(death > 5, "only {death} writes");
            return;
        }
    }
}

#[tokio::test]
async fn a_spec_that_is_kept_in_git_waits_instead() {
    let git = |app: &mut Value| {
        app["metadata"]["managedFields"] = json!([{"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
    };
    for (asked, owner) in [("rollback", true), ("suspend", false)] {
        let change = |app: &mut Value| {
            if owner {
                git(app);
            }
        };
        let (world, mut process) = failing(asked, change).await;
        world.settle(&mut process, "a").await;
        let app = world.app("a");
        assert_eq!(app["status"]["status"], "workflowSuspending", "{asked}: {:#}", app["status"]);
        assert_eq!(rollbacks(&world, 2), 0, "{asked}");
        assert_eq!(app["metadata"]["annotations"]["app.oam.dev/rolled-back-from"], Value::Null);
    }
}

#[tokio::test]
async fn what_never_succeeded_stays() {
    let world = World::new();
    let mut process = world.start();
    world.server.state.lock().refused = Some("bad");
    edit(&world, "rollback", "bad", &|_| {});
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "workflowFailed");
    assert_eq!(rollbacks(&world, 1), 0);
}
