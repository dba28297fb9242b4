//! An Application that a release before 1.2 deployed: its tracker has no type and owns the objects.

use serde_json::json;

use super::server::Death;
use super::{NAMESPACE, Process, World, application, named_maps};

/// What the old release left: `x` is wanted still, `old` is not.
fn left(world: &World) {
    world.server.by_another_writer(|state| {
        let tracker = state.put(
            "resourcetrackers",
            json!({
                "apiVersion": "core.oam.dev/v1beta1", "kind": "ResourceTracker",
                "metadata": {"name": "a-v1-n", "labels": {
                    "app.oam.dev/name": "a", "app.oam.dev/namespace": NAMESPACE}},
                "spec": {},
            }),
        );
        for name in ["x", "old"] {
            state.put(
                "configmaps",
                json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": NAMESPACE,
                        "labels": {"app.oam.dev/name": "a", "app.oam.dev/namespace": NAMESPACE},
                        "ownerReferences": [{
                            "apiVersion": "core.oam.dev/v1beta1", "kind": "ResourceTracker",
                            "name": "a-v1-n", "uid": tracker["metadata"]["uid"]}]},
                    "data": {"v": "0"},
                }),
            );
        }
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["metadata"]["annotations"] = json!({"oam.dev/kubevela-version": "v1.1.3"});
        app["metadata"]["finalizers"] = json!(["app.oam.dev/resource-tracker-finalizer"]);
        state.put("applications", app);
    });
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn trackers(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let types = state.all("resourcetrackers").into_iter();
    types.map(|tracker| tracker["spec"]["type"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn settled(world: &World) -> (Process, usize) {
    let mut process = world.start();
    let mut deaths = world.settle(&mut process, "a").await;
    deaths += world.settle(&mut process, "a").await;
    (process, deaths)
}

#[tokio::test]
async fn its_tracker_goes_and_what_is_wanted_stays() {
    for at in 0..100 {
        let mut died = 0;
        for death in [Death::Before(at), Death::After(at)] {
            let mut world = World::new();
            world.gates.legacy_resource_tracker_gc = true;
            left(&world);
            world.server.state.lock().death = (at > 0).then_some(death);
            let (mut process, deaths) = settled(&world).await;
            died += deaths;
            assert_eq!(named_maps(&world), pairs(&[("x", "1")]), "{death:?}");
            assert_eq!(trackers(&world), ["versioned"], "{death:?}");
            let noted = &world.app("a")["metadata"]["annotations"]["oam.dev/kubevela-version"];
            assert_eq!(noted, "simulation", "{death:?}");
            let before = world.server.state.lock().writes;
            world.settle(&mut process, "a").await;
            assert_eq!(world.server.state.lock().writes, before, "{death:?}");
        }
        if at > 0 && died == 0 {
            assert!(at > 5, "only {at} writes");
            return;
        }
    }
    panic!("it never ends");
}

#[tokio::test]
async fn without_the_gate_it_goes_with_its_application_and_orphans_stay() {
    for orphan in [false, true] {
        let world = World::new();
        left(&world);
        let (mut process, _) = settled(&world).await;
        assert_eq!(named_maps(&world), pairs(&[("old", "0"), ("x", "1")]));
        assert_eq!(trackers(&world).len(), 2);
        world.server.by_another_writer(|state| {
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
            if orphan {
                let finalizers = app["metadata"]["finalizers"].as_array_mut();
                finalizers.unwrap().push(json!("app.oam.dev/orphan-resource"));
            }
            state.put("applications", app);
            state.delete("applications", NAMESPACE, "a");
        });
        world.settle(&mut process, "a").await;
        let expected = if orphan { vec![("old", "0"), ("x", "1")] } else { vec![] };
        assert_eq!(named_maps(&world), pairs(&expected), "orphan: {orphan}");
        assert_eq!(trackers(&world), Vec::<String>::new());
    }
}
