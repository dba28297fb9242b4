//! One object under two names in the root tracker: of what was recorded of it only the last counts.

use serde_json::{Value, json};

use super::{NAMESPACE, World, application};

const DEPLOY: &str = r#"
import "vela/op"

deploy: op.#Deploy & {
    policies: parameter.policies, parallelism: 5, ignoreTerraformComponent: true, inlinePolicies: []
}
parameter: policies: [...string]
"#;
const DELETE: &str = r#"
import "vela/op"

delete: op.#Delete & {value: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "x", namespace: "n"}}}
parameter: {}
"#;

fn define(world: &World) {
    world.server.by_another_writer(|state| {
        for (name, template) in [("deploy", DEPLOY), ("remove", DELETE)] {
            state.put(
                "workflowstepdefinitions",
                json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
                    "metadata": {"name": name, "namespace": "vela-system"},
                    "spec": {"schematic": {"cue": {"template": template}}}}),
            );
        }
    });
}

/// An Application that keeps its object while it lives, at the default place or at the named one.
fn app(value: &str, steps: &[&str]) -> Value {
    let mut app = application("a", &[("c", &["x"], value)]);
    app["spec"]["policies"] = json!([{"name": "keep", "type": "garbage-collect",
        "properties": {"rules": [{"selector": {"resourceNames": ["x"]}, "strategy": "onAppDelete"}]}}]);
    if steps.is_empty() {
        return app;
    }
    app["spec"]["policies"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "here", "type": "topology", "properties": {"clusters": ["local"]}}));
    let steps: Vec<Value> = steps
        .iter()
        .map(|name| {
            let properties =
                if *name == "deploy" { json!({"policies": ["here"]}) } else { json!({}) };
            json!({"name": name, "type": name, "properties": properties})
        })
        .collect();
    app["spec"]["workflow"] = json!({ "steps": steps });
    app
}

fn edit(world: &World, mut app: Value) {
    world.server.by_another_writer(|state| {
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        state.put("applications", app);
    });
}

fn value(world: &World) -> Value {
    let state = world.server.state.lock();
    state.get("configmaps", NAMESPACE, "x").map(|map| map["data"]["v"].clone()).unwrap_or_default()
}

/// What the root tracker holds: cluster, value, whether a step deleted it.
fn root(world: &World) -> Vec<Value> {
    let state = world.server.state.lock();
    let root = state.get("resourcetrackers", "", "a-n").cloned().unwrap_or_default();
    let records = root["spec"]["managedResources"].as_array().cloned().unwrap_or_default();
    let shown = |r: Value| json!([r["cluster"], r["raw"]["data"]["v"], r["deleted"]]);
    records.into_iter().map(shown).collect()
}

#[tokio::test]
async fn an_update_at_a_named_place_is_not_undone_by_the_record_of_the_default_one() {
    let world = World::new();
    define(&world);
    let mut process = world.start();
    edit(&world, app("1", &[]));
    world.settle(&mut process, "a").await;
    assert_eq!(root(&world), [json!([null, "1", null])]);
    edit(&world, app("2", &["deploy"]));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world), "2");
    assert_eq!(root(&world), [json!(["local", "2", null])]);
    // And back.
    edit(&world, app("3", &[]));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world), "3");
    assert_eq!(root(&world), [json!([null, "3", null])]);
}

/// Trackers that earlier releases wrote hold both records.
#[tokio::test]
async fn of_two_stored_records_of_one_object_the_last_counts() {
    let world = World::new();
    define(&world);
    let mut process = world.start();
    edit(&world, app("2", &["deploy"]));
    world.settle(&mut process, "a").await;
    world.server.by_another_writer(|state| {
        let mut root = state.get("resourcetrackers", "", "a-n").cloned().unwrap();
        let records = root["spec"]["managedResources"].as_array_mut().unwrap();
        let mut old = records[0].clone();
        old.as_object_mut().unwrap().remove("cluster");
        old["raw"]["data"]["v"] = json!("1");
        records.insert(0, old);
        state.put("resourcetrackers", root);
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["data"]["v"] = json!("drift");
        state.put("configmaps", map);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world), "2");
    // A step that deletes the object deletes all that is remembered of it.
    edit(&world, app("2", &["deploy", "remove"]));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world), Value::Null);
    assert_eq!(root(&world), [json!(["local", null, true])]);
}
