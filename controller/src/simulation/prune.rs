//! Deletions that need an approval: an object that leaves the spec stays until its generation is approved, wherever the
//! process dies, and everything else goes on.

use serde_json::{Value, json};

use super::server::Death;
use super::{NAMESPACE, Process, World, application, uid};

const APPROVED: &str = "app.oam.dev/prune-approved";

/// Writes the Application `a` as a user does: what the controller wrote stays.
fn apply(world: &World, rules: &str, objects: &[&str]) {
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", objects, "1")]);
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        app["metadata"]["annotations"]["app.oam.dev/prune"] = json!(rules);
        state.put("applications", app);
    });
}

fn approve(world: &World, generation: &str) {
    world.server.by_another_writer(|state| {
        if let Some(mut app) = state.get("applications", NAMESPACE, "a").cloned() {
            app["metadata"]["annotations"][APPROVED] = json!(generation);
            state.put("applications", app);
        }
    });
}

fn generation(world: &World) -> String {
    world.app("a")["metadata"]["generation"].to_string()
}

fn condition(world: &World, kind: &str) -> Value {
    let conditions = world.app("a")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// The Application deployed `x` and `y`, and its spec has lost `y`.
async fn lost(rules: &str) -> (World, Process) {
    let world = World::new();
    let mut process = world.start();
    apply(&world, rules, &["x", "y"]);
    world.settle(&mut process, "a").await;
    apply(&world, rules, &["x"]);
    world.settle(&mut process, "a").await;
    (world, process)
}

#[tokio::test]
async fn what_leaves_the_spec_waits_for_the_approval_of_its_generation() {
    for rules in ["confirm", "confirm=ConfigMap", "limit=0", "limit=49%", "not a rule"] {
        let (world, mut process) = lost(rules).await;
        let waits = condition(&world, "Pruned");
        assert_eq!(
            (&waits["status"], &waits["reason"]),
            (&json!("False"), &json!("NeedsApproval"))
        );
        let message = waits["message"].as_str().unwrap();
        let asks = format!("{APPROVED}: \"{}\"", generation(&world));
        assert!(message.contains("ConfigMap y") && message.contains(&asks), "{rules}: {message}");
        // The newest spec is deployed.
        assert_eq!(world.app("a")["status"]["status"], "running", "{rules}");
        assert_eq!(condition(&world, "Ready")["status"], "True", "{rules}");
        let writes = world.server.state.lock().writes;
        world.settle(&mut process, "a").await;
        assert_eq!(world.server.state.lock().writes, writes, "{rules}: it waits without a write");

        let before = world.app("a");
        approve(&world, "1");
        world.settle(&mut process, "a").await;
        assert!(uid(&world, "y").is_string(), "{rules}: the approval is about another generation");
        // It never counts again, and is taken back: once, since Git may put it there again.
        let approved = |world: &World| world.app("a")["metadata"]["annotations"][APPROVED].clone();
        assert_eq!(approved(&world), Value::Null, "{rules}");
        approve(&world, "1");
        world.settle(&mut process, "a").await;
        assert_eq!(approved(&world), json!("1"), "{rules}");
        approve(&world, &generation(&world));
        world.settle(&mut process, "a").await;
        assert_eq!(uid(&world, "y"), Value::Null, "{rules}");
        assert_eq!(condition(&world, "Pruned"), Value::Null, "{rules}");
        let after = world.app("a");
        assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"], "{rules}");
        assert_eq!(world.faults("a"), [""; 0], "{rules}");
    }
}

#[tokio::test]
async fn a_namespace_says_it_for_its_applications() {
    for (label, asks) in [("confirm", true), ("confirm.Secret", false), ("nonsense", true)] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            state.put(
                "namespaces",
                json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": NAMESPACE, "labels": {"app.oam.dev/prune": label}}}),
            );
        });
        let mut process = world.start();
        let edit = |objects: &[&str], annotation: Option<&str>| {
            world.server.by_another_writer(|state| {
                let mut app = application("a", &[("c", objects, "1")]);
                if let Some(stored) = state.get("applications", NAMESPACE, "a") {
                    app["metadata"] = stored["metadata"].clone();
                    app["status"] = stored["status"].clone();
                }
                if let Some(rules) = annotation {
                    app["metadata"]["annotations"]["app.oam.dev/prune"] = json!(rules);
                }
                state.put("applications", app);
            });
        };
        edit(&["x", "y"], None);
        world.settle(&mut process, "a").await;
        edit(&["x"], None);
        world.settle(&mut process, "a").await;
        assert_eq!(uid(&world, "y").is_string(), asks, "{label}");
        // What the Application says counts first.
        edit(&["x"], Some(""));
        world.settle(&mut process, "a").await;
        assert_eq!(uid(&world, "y"), Value::Null, "{label}");
    }
}

#[tokio::test]
async fn what_asks_for_nothing_goes() {
    for rules in ["", "confirm=Secret", "limit=50%", "limit=1"] {
        let (world, _) = lost(rules).await;
        assert_eq!((uid(&world, "y"), world.faults("a")), (Value::Null, vec![]), "{rules}");
    }
}

/// An object that comes back into the spec is the same object.
#[tokio::test]
async fn what_waits_can_come_back() {
    let (world, mut process) = lost("confirm").await;
    let kept = uid(&world, "y");
    apply(&world, "confirm", &["x", "y"]);
    world.settle(&mut process, "a").await;
    assert_eq!((uid(&world, "y"), condition(&world, "Pruned")), (kept, Value::Null));
    assert_eq!(world.faults("a"), [""; 0]);
}

#[tokio::test]
async fn the_deletion_of_the_application_asks_only_if_it_is_to() {
    for (rules, asks) in [("confirm", false), ("limit=0", false), ("confirm=all", true)] {
        let (world, mut process) = lost(rules).await;
        world.server.by_another_writer(|state| {
            state.delete("applications", NAMESPACE, "a");
        });
        for _ in 0..3 {
            world.pass(std::time::Duration::from_secs(3));
            world.reconcile(&process, "a").await;
        }
        if asks {
            assert!(uid(&world, "x").is_string() && uid(&world, "y").is_string(), "{rules}");
            approve(&world, &generation(&world));
        }
        world.settle(&mut process, "a").await;
        assert_eq!((uid(&world, "x"), world.app("a")), (Value::Null, Value::Null), "{rules}");
    }
}

/// Dies at a write between the edit and the end; returns whether it did.
async fn run(death: Option<Death>) -> bool {
    let world = World::new();
    let mut process = world.start();
    apply(&world, "confirm", &["x", "y"]);
    world.settle(&mut process, "a").await;
    {
        let mut state = world.server.state.lock();
        (state.writes, state.death) = (0, death);
    }
    apply(&world, "confirm", &["x"]);
    let mut deaths = world.settle(&mut process, "a").await;
    assert!(uid(&world, "y").is_string(), "{death:?}: y was deleted without approval");
    approve(&world, &generation(&world));
    deaths += world.settle(&mut process, "a").await;
    assert_eq!((uid(&world, "y"), world.faults("a")), (Value::Null, vec![]), "{death:?}");
    deaths > 0
}

#[tokio::test]
async fn the_process_may_die_at_every_write() {
    for at in 1.. {
        let before = run(Some(Death::Before(at))).await;
        let after = run(Some(Death::After(at))).await;
        if !before && !after {
            assert!(at > 4, "only {at} writes");
            break;
        }
    }
}
