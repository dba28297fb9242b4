//! A component at several places and in several copies: each has its own objects, and traits that wait for the workload see
//! that of their own place and copy.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{World, application};

/// A component makes one ConfigMap for each place and copy; a trait of the last stage notes what it sees of it.
const TEMPLATE: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "w\(context.replicaKey)",
    data: v: "\(context.namespace)\(context.replicaKey)\(parameter.value)"}
parameter: {value: string, names?: [...string]}
"#;
const LATE: &str = r#"
outputs: late: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "late\(context.replicaKey)",
    data: v: context.output.data.v}
parameter: {}
"#;
const DEPLOY: &str = r#"
import "vela/op"

deploy: op.#Deploy & {
    policies: parameter.policies, parallelism: 5, ignoreTerraformComponent: true, inlinePolicies: []
}
parameter: policies: [...string]
"#;

fn define(world: &World) {
    world.server.outside(|state| {
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        definition["spec"]["schematic"]["cue"]["template"] = json!(TEMPLATE);
        state.put("componentdefinitions", definition);
        for (plural, kind, name, spec) in [
            (
                "traitdefinitions",
                "TraitDefinition",
                "late",
                json!({"stage": "PostDispatch",
                "schematic": {"cue": {"template": LATE}}}),
            ),
            (
                "workflowstepdefinitions",
                "WorkflowStepDefinition",
                "deploy",
                json!({"schematic": {"cue": {"template": DEPLOY}}}),
            ),
        ] {
            state.put(
                plural,
                json!({"apiVersion": "core.oam.dev/v1beta1", "kind": kind,
                "metadata": {"name": name, "namespace": "vela-system"}, "spec": spec}),
            );
        }
    });
}

/// What is in every ConfigMap of the Application.
fn maps(world: &World) -> BTreeMap<String, String> {
    let state = world.server.state.lock();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = state.all("configmaps").into_iter().filter(|map| map["data"]["v"].is_string());
    all.map(|map| {
        let metadata = &map["metadata"];
        (
            format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])),
            text(&map["data"]["v"]),
        )
    })
    .collect()
}

#[tokio::test]
async fn late_traits_see_the_workload_of_their_place_and_copy() {
    let world = World::new();
    define(&world);
    let mut process = world.start();
    let policies = |keys: &[&str], places: &[&str]| {
        let mut all: Vec<Value> = places
            .iter()
            .map(|place| {
                json!({"name": format!("to-{place}"), "type": "topology",
                    "properties": {"clusters": ["local"], "namespace": place}})
            })
            .collect();
        all.push(json!({"name": "copies", "type": "replication",
            "properties": {"selector": ["c"], "keys": keys}}));
        all
    };
    let app = |keys: &[&str], places: &[&str], value: &str| {
        let mut app = application("a", &[("c", &[], value)]);
        let policies = policies(keys, places);
        let names: Vec<Value> = policies.iter().map(|policy| policy["name"].clone()).collect();
        app["spec"]["components"][0]["traits"] = json!([{"type": "late"}]);
        app["spec"]["policies"] = json!(policies);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "deploy", "type": "deploy", "properties": {"policies": names}}]});
        app
    };
    let expected = |keys: &[&str], places: &[&str], value: &str| {
        let mut all = BTreeMap::new();
        for place in places {
            for key in keys {
                for name in ["w", "late"] {
                    all.insert(format!("{place}/{name}{key}"), format!("{place}{key}{value}"));
                }
            }
        }
        all
    };
    for (keys, places, value) in [
        (&["x", "y"][..], &["n", "m"][..], "1"),
        (&["x", "y"], &["n", "m"], "2"),
        // One copy and one place less: its objects go, the others stay.
        (&["y"], &["m"], "2"),
        (&["y", "z"], &["o", "m"], "3"),
    ] {
        world.server.outside(|state| {
            let mut app = app(keys, places, value);
            if let Some(stored) = state.get("applications", "n", "a") {
                app["metadata"] = stored["metadata"].clone();
                app["status"] = stored["status"].clone();
            }
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
        assert_eq!(maps(&world), expected(keys, places, value));
    }
    world.server.outside(|state| {
        state.delete("applications", "n", "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), BTreeMap::new());
}
