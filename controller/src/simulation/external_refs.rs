//! What policies with a definition of their own make: it is there before the run begins, and belongs to it all the same.

use serde_json::{Value, json};

use super::server::Death;
use super::{NAMESPACE, Process, TEMPLATE, World, application, uid};

/// A policy that makes one ConfigMap.
const POLICY: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: parameter.name, data: v: "policy"}
parameter: name: string
"#;

/// An Application with the component's ConfigMap `x` and the policy's ConfigMap `extra`.
async fn settled(annotations: Value) -> (World, Process) {
    let world = World::new();
    world.server.by_another_writer(|state| {
        state.put(
            "policydefinitions",
            json!({
                "apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinition",
                "metadata": {"name": "beside", "namespace": "vela-system"},
                "spec": {"schematic": {"cue": {"template": POLICY}}},
            }),
        );
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["metadata"]["annotations"] = annotations;
        app["spec"]["policies"] =
            json!([{"name": "p", "type": "beside", "properties": {"name": "beside"}}]);
        state.put("applications", app);
    });
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a"));
    assert!(uid(&world, "beside").is_string() && uid(&world, "x").is_string());
    (world, process)
}

fn annotate(world: &World, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        change(app["metadata"]["annotations"].as_object_mut().unwrap());
        state.put("applications", app);
    });
}

fn other_template() -> String {
    TEMPLATE.replace("data: v: parameter.value", "data: v: parameter.value + \"!\"")
}

/// Other templates for the policy and the component, from the next start of a process on.
fn define(world: &World, policy: &str, component: &str) {
    world.server.by_another_writer(|state| {
        for (plural, name, text) in
            [("policydefinitions", "beside", policy), ("componentdefinitions", "maps", component)]
        {
            let mut definition = state.get(plural, "vela-system", name).cloned().unwrap();
            definition["spec"]["schematic"]["cue"]["template"] = json!(text);
            state.put(plural, definition);
        }
    });
}

/// A run of another revision under the same generation, which begins with an empty tracker.
#[tokio::test]
async fn what_a_policy_made_outlives_a_new_run_under_the_same_generation() {
    for followed in [true, false] {
        let annotations = if followed {
            json!({"app.oam.dev/autoUpdate": "true"})
        } else {
            json!({"app.oam.dev/publishVersion": "p1"})
        };
        let (world, process) = settled(annotations).await;
        let before = uid(&world, "beside");
        define(&world, POLICY, &other_template());
        if !followed {
            annotate(&world, |annotations| {
                annotations.clear();
                // Taken away alone it would change nothing: the definitions of the revision count.
                annotations.insert("app.oam.dev/autoUpdate".to_owned(), json!("true"));
            });
        }
        drop(process);
        let mut process = world.start();
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v2", "{followed}");
        assert_eq!(uid(&world, "beside"), before, "{followed}");
        assert!(world.server.state.lock().deletes.is_empty(), "{followed}");
    }
}

/// The tracker is gone for good: the run is known to be lost whatever policies make again, and all of it is recorded again.
#[tokio::test]
async fn what_is_beside_a_policys_object_is_recorded_again_when_the_tracker_is_lost() {
    let (world, mut process) = settled(json!({})).await;
    world.server.by_another_writer(|state| {
        let name = format!("a-v1-{NAMESPACE}");
        let mut tracker = state.get("resourcetrackers", "", &name).cloned().unwrap();
        tracker["metadata"]["finalizers"] = json!([]);
        state.put("resourcetrackers", tracker);
        state.delete("resourcetrackers", "", &name);
    });
    assert!(world.server.state.lock().all("resourcetrackers").is_empty());
    world.settle(&mut process, "a").await;
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!((uid(&world, "x"), uid(&world, "beside")), (Value::Null, Value::Null));
}

/// The policy fails in the reconcile in which a run begins in the tracker of the one before. That run is the present one from then
/// on: whoever goes back to the earlier revision begins another one, and nothing is taken for what was left behind.
#[tokio::test]
async fn a_policy_that_fails_where_a_run_begins_costs_nothing() {
    let (world, process) = settled(json!({"app.oam.dev/autoUpdate": "true"})).await;
    let before = (uid(&world, "x"), uid(&world, "beside"));
    define(&world, "output: kind: 1 & \"ConfigMap\"\nparameter: {...}", &other_template());
    drop(process);
    let process = world.start();
    for _ in 0..3 {
        world.reconcile(&process, "a").await;
    }
    assert_eq!(world.app("a")["status"]["status"], "generatingPolicy", "{:#}", world.app("a"));
    define(&world, POLICY, TEMPLATE);
    drop(process);
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    assert_eq!((uid(&world, "x"), uid(&world, "beside")), before);
    assert!(world.server.state.lock().deletes.is_empty());
}

/// The process dies while a run begins in the tracker of the one before, and the definition is what it was when the next one
/// reconciles: the status still names the run before, whose tracker holds nothing any more.
#[tokio::test]
async fn a_run_that_lost_its_tracker_to_another_one_is_made_again() {
    for at in 1.. {
        let (world, process) = settled(json!({"app.oam.dev/autoUpdate": "true"})).await;
        let before = (uid(&world, "x"), uid(&world, "beside"));
        define(&world, POLICY, &other_template());
        drop(process);
        let mut process = world.start();
        {
            let mut state = world.server.state.lock();
            (state.writes, state.death) = (0, Some(Death::After(at)));
        }
        let mut died = false;
        for _ in 0..4 {
            died = died || world.reconcile(&process, "a").await.is_none();
            if died {
                break;
            }
        }
        {
            let mut state = world.server.state.lock();
            state.revive();
        }
        if !died {
            assert!(at > 5, "only {at} writes");
            break;
        }
        define(&world, POLICY, TEMPLATE);
        drop(process);
        process = world.start();
        world.settle(&mut process, "a").await;
        assert_eq!((uid(&world, "x"), uid(&world, "beside")), before, "death after write {at}");
        let deletes = world.server.state.lock().deletes.clone();
        assert!(deletes.is_empty(), "death after write {at}: {deletes:?}");
    }
}
