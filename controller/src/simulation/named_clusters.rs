//! Objects that belong to another cluster than their component: their template names it, or the definition of their trait keeps them
//! in the cluster of the control plane.

use serde_json::{Value, json};

use super::clusters::{app, apply, delete, is_clean, server, world, writes};
use super::{NAMESPACE, World};

/// One ConfigMap where the component goes, and one in a cluster that the template names.
const NAMED: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "w", data: v: parameter.value}
outputs: named: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "x",
    labels: "app.oam.dev/cluster": parameter.names[0]}, data: v: parameter.value}
parameter: {value: string, names: [...string]}
"#;
const HUB: &str = r#"
outputs: hub: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "h", data: v: context.namespace}
parameter: {}
"#;

fn define(world: &World) {
    world.server.by_another_writer(|state| {
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        definition["spec"]["schematic"]["cue"]["template"] = json!(NAMED);
        state.put("componentdefinitions", definition);
        state.put(
            "traitdefinitions",
            json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
                "metadata": {"name": "hub", "namespace": "vela-system"},
                "spec": {"controlPlaneOnly": true, "schematic": {"cue": {"template": HUB}}}}),
        );
    });
}

/// The Application in some clusters, whose second object names another.
fn naming(clusters: &Value, named: &str, value: &str) -> Value {
    let mut app = app(clusters, value);
    app["spec"]["components"][0]["properties"]["names"] = json!([named]);
    app
}

/// The ConfigMaps of each cluster, in all namespaces, with the cluster that their label names.
fn maps(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for cluster in ["local", "east", "west"] {
        for map in server(world, cluster).state.lock().all("configmaps") {
            let text = |pointer: &str| map.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            // That of the workflow is no object of the Application.
            if text("/data/v") != "-" {
                let label = text("/metadata/labels/app.oam.dev~1cluster");
                let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
                all.push(format!("{cluster}/{namespace}/{name}={} {label}", text("/data/v")));
            }
        }
    }
    all
}

#[tokio::test]
async fn an_object_that_names_its_cluster_goes_there() {
    let world = world();
    define(&world);
    let mut process = world.start();
    for (clusters, named, value, expected) in [
        (json!(["east"]), "local", "1", ["local/n/x=1 local", "east/n/w=1 east"]),
        (json!(["east"]), "west", "2", ["east/n/w=2 east", "west/n/x=2 west"]),
        (json!(["west"]), "west", "3", ["west/n/w=3 west", "west/n/x=3 west"]),
        // An empty name is none.
        (json!(["east"]), "", "4", ["east/n/w=4 east", "east/n/x=4 east"]),
        (json!(["local"]), "east", "5", ["local/n/w=5 local", "east/n/x=5 east"]),
    ] {
        apply(&world, naming(&clusters, named, value));
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
        assert_eq!(maps(&world), expected);
        // What is settled writes nothing, also after a restart.
        let before = writes(&world);
        process = world.start();
        world.settle(&mut process, "a").await;
        assert_eq!(writes(&world), before);
    }
    server(&world, "east").by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["data"]["v"] = json!("drifted");
        state.put("configmaps", map);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), ["local/n/w=5 local", "east/n/x=5 east"]);
    let status = world.app("a")["status"].clone();
    let mut applied: Vec<_> = status["appliedResources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["cluster"].as_str().unwrap_or("local")))
        .collect();
    applied.sort_unstable();
    assert_eq!(applied, [("w", "local"), ("x", "east")]);
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(maps(&world).is_empty() && is_clean(&world));
}

#[tokio::test]
async fn an_object_that_names_an_unknown_cluster_is_nowhere() {
    let world = world();
    define(&world);
    let process = world.start();
    apply(&world, naming(&json!(["east"]), "typo", "1"));
    for _ in 0..3 {
        world.reconcile(&process, "a").await;
    }
    let status = world.app("a")["status"].clone();
    let message = status["workflow"]["steps"][0]["message"].as_str().unwrap();
    assert!(message.contains("typo"), "{message}");
    assert!(!maps(&world).iter().any(|map| map.contains("/x=")), "{:?}", maps(&world));
}

#[tokio::test]
async fn a_trait_of_the_control_plane_stays_there_once_in_the_applications_namespace() {
    let world = world();
    define(&world);
    let mut process = world.start();
    let mut app = naming(&json!(["east", "west"]), "", "1");
    app["spec"]["components"][0]["traits"] = json!([{"type": "hub"}]);
    app["spec"]["policies"][0]["properties"]["namespace"] = json!("m");
    apply(&world, app.clone());
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
    let hub = "local/n/h=m local";
    let east = ["east/m/w=1 east", "east/m/x=1 east"];
    let west = ["west/m/w=1 west", "west/m/x=1 west"];
    assert_eq!(maps(&world), [&[hub][..], &east, &west].concat());
    // It belongs to both placements: it stays with the one that is left.
    app["spec"]["policies"][0]["properties"]["clusters"] = json!(["west"]);
    apply(&world, app.clone());
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), [&[hub][..], &west].concat());
    app["spec"]["components"][0]["traits"] = json!([]);
    apply(&world, app);
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), west);
    delete(&world);
    world.settle(&mut process, "a").await;
    assert!(maps(&world).is_empty() && is_clean(&world));
}
