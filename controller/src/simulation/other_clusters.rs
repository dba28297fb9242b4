//! Trackers that record objects of other clusters: those are no objects of this one, whatever their names.

use serde_json::{Value, json};
use vela_api::ResourceTracker;

use super::server::State;
use super::{NAMESPACE, Process, World, application, named_maps, uid};

/// A ConfigMap as a tracker records it.
fn record(name: &str, value: &str, cluster: &str) -> Value {
    let labels = json!({"app.oam.dev/name": "a", "app.oam.dev/namespace": NAMESPACE,
        "app.oam.dev/component": "c"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": name,
        "cluster": cluster, "component": "c",
        "raw": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value},
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}}})
}

/// What a stored tracker records.
pub(super) fn recorded(stored: &Value) -> Vec<Value> {
    let mut tracker: ResourceTracker = serde_json::from_value(stored.clone()).unwrap();
    tracker.expand().unwrap();
    tracker.spec.managed_resources.iter().map(|one| serde_json::to_value(one).unwrap()).collect()
}

/// Somebody, a release that served several clusters, writes the records of a tracker.
pub(super) fn write(state: &mut State, name: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let stored = state.get("resourcetrackers", "", name).cloned().unwrap();
    let mut records = recorded(&stored);
    change(&mut records);
    let mut tracker: ResourceTracker = serde_json::from_value(stored).unwrap();
    tracker.spec.managed_resources = serde_json::from_value(json!(records)).unwrap();
    tracker.spec.compression.data.clear();
    state.put("resourcetrackers", serde_json::to_value(tracker.to_stored().unwrap()).unwrap());
}

/// The objects of the cluster `far` that any tracker records.
fn far(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let trackers = state.all("resourcetrackers");
    let records = trackers.into_iter().flat_map(recorded);
    let far = records.filter(|record| record["cluster"] == "far");
    far.map(|record| record["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The condition of a type: reason and message.
fn condition(world: &World, type_: &str) -> (String, String) {
    let app = world.app("a");
    let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

const LEFT: &str = "Objects in other clusters are left unchanged, since this controller manages only its own \
     cluster: 1 in \"far\".";

/// A settled Application with the ConfigMap `x`, whose tracker records another `x` in the cluster `far`; `alone`: that is
/// all it records, and there is no `x` here.
async fn upgraded(alone: bool) -> (World, Process) {
    let world = World::new();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    drop(process);
    world.server.by_another_writer(|state| {
        write(state, "a-v1-n", |records| {
            if alone {
                records.clear();
            }
            records.push(record("x", "far", "far"));
        });
        if alone {
            state.delete("configmaps", NAMESPACE, "x");
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
            app["status"]["services"][0]["cluster"] = json!("far");
            state.put("applications", app);
        }
    });
    let process = world.start();
    (world, process)
}

fn maps(value: &str) -> Vec<(String, String)> {
    vec![("x".to_owned(), value.to_owned())]
}

fn edit(world: &World, value: &str) {
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["spec"]["components"][0]["properties"]["value"] = json!(value);
        state.put("applications", app);
    });
}

#[tokio::test]
async fn a_record_of_another_cluster_makes_nothing_here() {
    let (world, mut process) = upgraded(true).await;
    world.settle(&mut process, "a").await;
    assert_eq!(named_maps(&world), []);
    assert_eq!(condition(&world, "OtherClusters"), ("NotManaged".to_owned(), LEFT.to_owned()));
    assert_eq!(world.app("a")["status"]["status"], "running");
    // That was said once.
    let writes = world.server.state.lock().writes;
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().writes, writes);
}

#[tokio::test]
async fn a_record_of_another_cluster_changes_nothing_here_and_the_rest_is_healed() {
    let (world, mut process) = upgraded(false).await;
    let before = world.server.state.lock().changes_of("configmaps");
    world.settle(&mut process, "a").await;
    assert_eq!(named_maps(&world), maps("1"));
    assert_eq!(world.server.state.lock().changes_of("configmaps"), before);
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["data"]["v"] = json!("drift");
        state.put("configmaps", map);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(named_maps(&world), maps("1"));
    assert_eq!(far(&world), ["x"]);
}

#[tokio::test]
async fn an_edit_deletes_nothing_here_and_forgets_nothing_there() {
    for alone in [false, true] {
        let (world, mut process) = upgraded(alone).await;
        world.settle(&mut process, "a").await;
        let before = uid(&world, "x");
        for value in ["2", "3"] {
            edit(&world, value);
            world.settle(&mut process, "a").await;
            assert_eq!(named_maps(&world), maps(value), "{alone}");
        }
        assert!(alone || uid(&world, "x") == before);
        assert_eq!(world.server.state.lock().deletes, Vec::<String>::new(), "{alone}");
        assert_eq!(world.server.state.lock().crimes, Vec::<String>::new(), "{alone}");
        assert_eq!(far(&world), ["x"], "{alone}");
        assert_eq!(condition(&world, "OtherClusters").1, LEFT);
        assert_eq!(world.app("a")["status"]["status"], "running");
    }
}

#[tokio::test]
async fn a_deletion_waits_for_what_is_elsewhere() {
    for alone in [false, true] {
        let (world, mut process) = upgraded(alone).await;
        world.settle(&mut process, "a").await;
        world.server.by_another_writer(|state| {
            if alone {
                // Of this name, and with the labels of the Application, but of no record of this cluster.
                let mut map = record("x", "mine", "")["raw"].clone();
                map["metadata"]["labels"].as_object_mut().unwrap().remove("app.oam.dev/component");
                state.put("configmaps", map);
            }
            state.delete("applications", NAMESPACE, "a");
        });
        world.settle(&mut process, "a").await;
        assert_eq!(named_maps(&world), if alone { maps("mine") } else { Vec::new() });
        assert_eq!(far(&world), ["x"], "{alone}");
        assert_eq!(world.app("a")["status"]["status"], "deleting");
        let waits = "Waiting for objects in other clusters, which this controller does not delete: 1 in \"far\".";
        assert_eq!(condition(&world, "Ready"), ("Deleting".to_owned(), waits.to_owned()));
        // Whoever saw to the objects there says so by taking the records out.
        world.server.by_another_writer(|state| write(state, "a-v1-n", Vec::clear));
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a"), Value::Null, "{alone}");
        assert!(world.server.state.lock().all("resourcetrackers").is_empty(), "{alone}");
    }
}

#[tokio::test]
async fn a_deletion_that_leaves_objects_where_they_are_waits_for_none() {
    let (world, mut process) = upgraded(false).await;
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        let finalizers = app["metadata"]["finalizers"].as_array_mut().unwrap();
        finalizers.push(json!("app.oam.dev/orphan-resource"));
        state.put("applications", app);
        state.delete("applications", NAMESPACE, "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a"), Value::Null);
    assert_eq!(named_maps(&world), maps("1"));
}

/// Somebody deletes the tracker, or a run of another revision begins in it.
#[tokio::test]
async fn a_tracker_that_is_made_again_remembers_what_is_elsewhere() {
    let (world, mut process) = upgraded(false).await;
    world.settle(&mut process, "a").await;
    world.server.by_another_writer(|state| {
        state.delete("resourcetrackers", "", "a-v1-n");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(far(&world), ["x"]);
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["annotations"]["app.oam.dev/autoUpdate"] = json!("true");
        state.put("applications", app);
        let mut definition = state.get("componentdefinitions", "vela-system", "maps").cloned();
        let template = &mut definition.as_mut().unwrap()["spec"]["schematic"]["cue"]["template"];
        *template =
            json!(super::TEMPLATE.replace("v: parameter.value", "v: parameter.value + \"!\""));
        state.put("componentdefinitions", definition.unwrap());
    });
    drop(process);
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v2");
    assert_eq!(named_maps(&world), maps("1!"));
    assert_eq!(far(&world), ["x"]);
    assert_eq!(world.server.state.lock().deletes, Vec::<String>::new());
}
