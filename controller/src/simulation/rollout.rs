//! What others do to objects while a step waits for them: it is put back at once, as state-keep does it when the workflow is
//! through, and what policies leave to others is left to them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::Key;

use super::server::State;
use super::{IS_READY, NAMESPACE, Process, World, application, judge_maps};

/// An Application whose one step waits for its ConfigMaps `x` and `y`.
async fn waiting(policies: &Value) -> (World, Process) {
    let world = World::new();
    world.server.by_another_writer(|state| {
        judge_maps(state, json!({"healthPolicy": IS_READY}));
        let mut app = application("a", &[("c", &["x", "y"], "1")]);
        app["spec"]["policies"] = policies.clone();
        state.put("applications", app);
    });
    let process = world.start();
    reconcile(&world, &process).await;
    assert_eq!(map(&world, "x")["data"], json!({"v": "1"}));
    (world, process)
}

/// Reconciles the Application until there is nothing to do.
async fn reconcile(world: &World, process: &Process) {
    for _ in 0..3 {
        world.reconcile(process, "a").await;
        tokio::task::yield_now().await;
    }
    assert_eq!(world.app("a")["status"]["status"], "runningWorkflow");
    let step = &world.app("a")["status"]["workflow"]["steps"][0];
    assert_eq!(step["reason"], "Wait", "{step:#}");
}

fn map(world: &World, name: &str) -> Value {
    world.server.state.lock().get("configmaps", NAMESPACE, name).cloned().unwrap_or_default()
}

/// Somebody changes the ConfigMap.
fn change(world: &World, name: &str, change: impl FnOnce(&mut Value)) {
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, name).cloned().unwrap();
        change(&mut map);
        state.put("configmaps", map);
    });
}

fn writes(world: &World) -> usize {
    world.server.state.lock().writes
}

fn recordings(world: &World) -> usize {
    world.server.state.lock().changes_of("resourcetrackers")
}

#[tokio::test]
async fn what_a_step_waits_for_is_put_back_at_once() {
    type Harm = fn(&mut State, Value);
    let harms: [(&str, Harm); 4] = [
        ("a value", |state, mut map| {
            map["data"]["v"] = json!("drift");
            state.put("configmaps", map);
        }),
        ("a key", |state, mut map| {
            map["data"] = json!({});
            state.put("configmaps", map);
        }),
        ("a label", |state, mut map| {
            map["metadata"]["labels"]["app.oam.dev/component"] = json!("drift");
            state.put("configmaps", map);
        }),
        ("the object", |state, _| {
            state.delete("configmaps", NAMESPACE, "y");
        }),
    ];
    for (what, harm) in harms {
        let (world, process) = waiting(&json!([])).await;
        let (before, recorded) = (map(&world, "y"), recordings(&world));
        let written = writes(&world);
        world.server.by_another_writer(|state| harm(state, before.clone()));
        world.reconcile(&process, "a").await;
        let after = map(&world, "y");
        assert_eq!(after["data"], before["data"], "{what}");
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"], "{what}");
        // That is one write, and nothing was recorded for it; after it there is nothing to do.
        assert_eq!((writes(&world), recordings(&world)), (written + 1, recorded), "{what}");
        reconcile(&world, &process).await;
        assert_eq!(writes(&world), written + 1, "{what}");
    }
}

/// What was found to be as dispatched is known by its version: a change after that is seen, and another one.
#[tokio::test]
async fn every_change_is_put_back_and_what_is_not_ours_stays() {
    let (world, process) = waiting(&json!([])).await;
    for turn in 1..3 {
        change(&world, "x", |map| {
            map["data"]["more"] = json!(turn.to_string());
            map["metadata"]["annotations"]["somebody"] = json!(turn.to_string());
        });
        let written = writes(&world);
        reconcile(&world, &process).await;
        assert_eq!(writes(&world), written, "turn {turn}");
        change(&world, "x", |map| map["data"]["v"] = json!("drift"));
        reconcile(&world, &process).await;
        assert_eq!(writes(&world), written + 1, "turn {turn}");
        world.pass(Duration::from_secs(5));
        assert_eq!(map(&world, "x")["data"], json!({"v": "1", "more": turn.to_string()}));
    }
}

#[tokio::test]
async fn what_apply_once_leaves_to_others_is_left_to_them() {
    let rules = |strategy: Value| {
        json!([{"name": "p", "type": "apply-once", "properties": {"enable": true, "rules": [
            {"selector": {"resourceNames": ["x"]}, "strategy": strategy}]}}])
    };
    let path = |affect: &str| rules(json!({"path": ["data.v"], "affect": affect}));
    let all = |affect: &str| rules(json!({"path": ["*"], "affect": affect}));
    let never = json!([{"name": "p", "type": "apply-once", "properties": {"enable": true}}]);
    for (policies, x, y) in [
        (path(""), "drift", "1"),
        (path("always"), "drift", "1"),
        (path("onUpdate"), "drift", "1"),
        (path("onStateKeep"), "drift", "1"),
        (all("onUpdate"), "drift", "1"),
        (all("onStateKeep"), "drift", "1"),
        (path("neither"), "1", "1"),
        (never, "drift", "drift"),
    ] {
        let (world, process) = waiting(&policies).await;
        for name in ["x", "y"] {
            change(&world, name, |map| map["data"]["v"] = json!("drift"));
        }
        reconcile(&world, &process).await;
        let value = |name| map(&world, name)["data"]["v"].clone();
        assert_eq!((value("x"), value("y")), (json!(x), json!(y)), "{policies}");
        let written = writes(&world);
        reconcile(&world, &process).await;
        assert_eq!(writes(&world), written, "{policies}");
    }
}

/// What apply-once leaves is one field: the others are put back, also where a rule counts for state-keep only.
#[tokio::test]
async fn what_a_rule_does_not_name_is_put_back() {
    for affect in ["always", "onUpdate", "onStateKeep"] {
        let rules = json!([{"name": "p", "type": "apply-once", "properties": {"enable": true,
            "rules": [{"selector": {"resourceNames": ["x"]},
                "strategy": {"path": ["data.v"], "affect": affect}}]}}]);
        let (world, process) = waiting(&rules).await;
        change(&world, "x", |map| {
            map["data"]["v"] = json!("drift");
            map["metadata"]["labels"]["app.oam.dev/component"] = json!("drift");
        });
        reconcile(&world, &process).await;
        let map = map(&world, "x");
        assert_eq!(map["data"]["v"], "drift", "{affect}");
        assert_eq!(map["metadata"]["labels"]["app.oam.dev/component"], "c", "{affect}");
    }
}

/// What cannot be put back does not fail the step, and is tried again.
#[tokio::test]
async fn a_step_does_not_fail_for_what_cannot_be_put_back() {
    let (world, process) = waiting(&json!([])).await;
    change(&world, "y", |map| map["data"]["v"] = json!("drift"));
    world.server.state.lock().refused = Some("y");
    reconcile(&world, &process).await;
    assert_eq!(map(&world, "y")["data"]["v"], "drift");
    world.server.state.lock().refused = None;
    // Any change of one of its objects is a reason to reconcile.
    change(&world, "x", |map| map["data"]["more"] = json!("x"));
    reconcile(&world, &process).await;
    assert_eq!(map(&world, "y")["data"]["v"], "1");
}

/// Who shares an object of another Application does not put it back, its owner does.
#[tokio::test]
async fn what_is_shared_is_put_back_by_its_owner() {
    let policies = json!([{"name": "s", "type": "shared-resource",
        "properties": {"rules": [{"selector": {"resourceNames": ["x"]}}]}}]);
    let (world, process) = waiting(&policies).await;
    world.server.by_another_writer(|state| {
        let mut app = application("b", &[("c", &["x", "z"], "2")]);
        app["spec"]["policies"] = policies.clone();
        state.put("applications", app);
    });
    world.reconcile(&process, "b").await;
    let list = map(&world, "x")["metadata"]["annotations"]["app.oam.dev/shared-by"].clone();
    assert_eq!(list, "n/a,n/b");
    reconcile(&world, &process).await;
    change(&world, "x", |map| map["data"]["v"] = json!("drift"));
    world.reconcile(&process, "b").await;
    assert_eq!(map(&world, "x")["data"]["v"], "drift");
    reconcile(&world, &process).await;
    assert_eq!(map(&world, "x")["data"]["v"], "1");
    assert_eq!(map(&world, "x")["metadata"]["annotations"]["app.oam.dev/shared-by"], list);
}

fn renders(process: &Process) -> u64 {
    let renders = &process.context.metrics.renders;
    renders.with_label_values(&["component", "success"]).get_sample_count()
}

/// Reconciles of a waiting Application reuse the rendered component; a change of any input renders it again.
#[tokio::test]
async fn what_renders_to_the_same_is_rendered_once() {
    let (world, process) = waiting(&json!([])).await;
    assert_eq!(renders(&process), 1);
    let edit = |edit: &dyn Fn(&mut Value)| {
        world.server.by_another_writer(|state| {
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
            edit(&mut app);
            state.put("applications", app);
        });
    };
    for turn in 0..3 {
        change(&world, "x", |map| map["data"]["more"] = json!(turn.to_string()));
        reconcile(&world, &process).await;
    }
    assert_eq!(renders(&process), 1);
    // Templates see annotations; nobody could know that this one is not read.
    edit(&|app| app["metadata"]["annotations"]["team"] = json!("a"));
    reconcile(&world, &process).await;
    assert_eq!(renders(&process), 2);
    edit(&|app| app["spec"]["components"][0]["properties"]["value"] = json!("2"));
    reconcile(&world, &process).await;
    assert_eq!((renders(&process), &map(&world, "x")["data"]["v"]), (3, &json!("2")));
    // Nothing is kept of what is through.
    for name in ["x", "y"] {
        change(&world, name, |map| map["data"]["ready"] = json!("yes"));
    }
    for _ in 0..3 {
        world.reconcile(&process, "a").await;
    }
    assert_eq!(world.app("a")["status"]["status"], "running");
    let memory = process.context.memory(&Key::new(NAMESPACE, "a"));
    assert!(memory.lock().renderings.is_empty());
}

/// A template may read its workload from the cluster: it is rendered at each reconcile.
#[tokio::test]
async fn what_follows_the_cluster_is_rendered_again() {
    const FOLLOWS: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: parameter.names[0], data: v: parameter.value}
outputs: copy: {apiVersion: "v1", kind: "ConfigMap", metadata: name: parameter.names[1], data: {
    if context.output != _|_ if context.output.data.more != _|_ {more: context.output.data.more}
}}
parameter: {names: [...string], value: string}
"#;
    let world = World::new();
    world.server.by_another_writer(|state| {
        judge_maps(state, json!({"healthPolicy": IS_READY}));
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        definition["spec"]["schematic"]["cue"]["template"] = json!(FOLLOWS);
        state.put("componentdefinitions", definition);
        state.put("applications", application("a", &[("c", &["x", "y"], "1")]));
    });
    let process = world.start();
    reconcile(&world, &process).await;
    for turn in ["1", "2"] {
        change(&world, "x", |map| map["data"]["more"] = json!(turn));
        reconcile(&world, &process).await;
        assert_eq!(map(&world, "y")["data"]["more"], turn);
    }
}
