//! Objects that several Applications share: whoever joins or leaves in whatever moment, one of those that are left has it.

use serde_json::{Value, json};
use vela_api::names::label;
use vela_shard::bucket_of;

use super::server::State;
use super::{NAMESPACE, Process, World, application};

const LIST: &str = "app.oam.dev/shared-by";

/// One reconcile in which watches are late, then everything.
async fn settle(world: &World, process: &mut Process, name: &str) {
    world.reconcile(process, name).await;
    world.server.by_another_writer(|state| state.is_silent = false);
    world.settle(process, name).await;
}

/// An Application that shares the ConfigMap `x` and has one of its own.
fn sharing(name: &str, value: &str) -> Value {
    let mut app = application(name, &[("c", &["x"], value), ("d", &[name], value)]);
    app["spec"]["policies"] = json!([{"name": "s", "type": "shared-resource",
        "properties": {"rules": [{"selector": {"resourceNames": ["x"]}}]}}]);
    app
}

fn map(world: &World) -> Value {
    world.server.state.lock().get("configmaps", NAMESPACE, "x").cloned().unwrap_or_default()
}

fn owner(world: &World) -> Value {
    map(world)["metadata"]["labels"]["app.oam.dev/name"].clone()
}

fn list(world: &World) -> Value {
    map(world)["metadata"]["annotations"][LIST].clone()
}

fn bucket(world: &World) -> Value {
    map(world)["metadata"]["labels"][label::OWNER_BUCKET].clone()
}

fn put(world: &World, app: Value) {
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

fn delete(world: &World, name: &str) {
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, name);
    });
}

/// `a` owns it, `b` shares it. Objects have the bucket of their Application as a label.
async fn two() -> (World, Process) {
    let mut world = World::new();
    world.label_objects = true;
    let mut process = world.start();
    for (name, value) in [("a", "1"), ("b", "2")] {
        put(&world, sharing(name, value));
        world.settle(&mut process, name).await;
    }
    assert_eq!((owner(&world), list(&world)), (json!("a"), json!("n/a,n/b")));
    assert_eq!(map(&world)["data"]["v"], "1");
    assert_eq!(bucket(&world), "shared");
    (world, process)
}

#[tokio::test]
async fn the_next_one_has_it_and_the_last_one_deletes_it() {
    let (world, mut process) = two().await;
    delete(&world, "a");
    world.settle(&mut process, "a").await;
    assert_eq!((owner(&world), list(&world)), (json!("b"), json!("n/b")));
    assert_eq!(bucket(&world), format!("{:02x}", bucket_of(NAMESPACE, "b")));
    world.settle(&mut process, "b").await;
    assert_eq!(map(&world)["data"]["v"], "2", "it is what its new owner says");
    delete(&world, "b");
    world.settle(&mut process, "b").await;
    assert_eq!(map(&world), Value::Null);
    assert!(world.server.state.lock().all("resourcetrackers").is_empty());
}

/// Somebody else joins, and the process under test sees it late.
fn change_list(state: &mut State, change: impl FnOnce(&str) -> String) {
    state.is_silent = true;
    let Some(mut map) = state.get("configmaps", NAMESPACE, "x").cloned() else { return };
    let list = map["metadata"]["annotations"][LIST].as_str().unwrap_or_default().to_owned();
    map["metadata"]["annotations"][LIST] = json!(change(&list));
    state.put("configmaps", map);
}

/// Between any two requests of one that leaves, another one joins.
#[tokio::test]
async fn who_joins_while_another_one_leaves_is_not_forgotten() {
    for last in [false, true] {
        let mut after = 1;
        loop {
            let (world, mut process) = two().await;
            if last {
                delete(&world, "b");
                world.settle(&mut process, "b").await;
            }
            world.server.state.lock().interruption = Some((
                after,
                Box::new(|state: &mut State| {
                    change_list(state, |list| format!("{list},n/z"));
                }),
            ));
            delete(&world, "a");
            settle(&world, &mut process, "a").await;
            let was_late = world.server.state.lock().interruption.is_some();
            let left = map(&world);
            if !was_late && left.is_object() {
                let expected = if last { "n/z" } else { "n/b,n/z" };
                assert_eq!(list(&world), expected, "after {after} requests");
                let next = if last { "z" } else { "b" };
                assert_eq!(owner(&world), next, "after {after} requests");
            } else if !was_late {
                // It was gone before anybody could join.
                assert!(last, "after {after} requests");
                assert!(world.server.state.lock().deletes.iter().any(|name| name == "x"));
            }
            if was_late {
                assert!(after > 3, "only {after} requests");
                break;
            }
            after += 1;
        }
    }
}

/// One joins, and between any two of its requests another one does.
#[tokio::test]
async fn who_joins_at_once_with_others_is_in_the_list_with_them() {
    for after in 1..40 {
        let (world, mut process) = two().await;
        put(&world, sharing("d", "4"));
        let others = "n/u,n/v";
        world.server.state.lock().interruption = Some((
            after,
            Box::new(move |state: &mut State| {
                change_list(state, |list| format!("{list},{others}"));
            }),
        ));
        settle(&world, &mut process, "d").await;
        if world.server.state.lock().interruption.is_some() {
            assert!(after > 5, "only {after} requests");
            return;
        }
        let list = list(&world);
        for name in ["n/a", "n/b", "n/u", "n/v", "n/d"] {
            assert!(list.as_str().unwrap_or_default().split(',').any(|n| n == name), "{list}");
        }
    }
    panic!("it never ends");
}

/// The owner stops sharing, or its spec drops the object: the other one continues with it.
#[tokio::test]
async fn the_owner_may_stop_sharing_and_leave() {
    let (world, mut process) = two().await;
    let mut app = world.app("a");
    app["spec"]["policies"] = json!([]);
    app["spec"]["components"][0]["properties"]["value"] = json!("5");
    put(&world, app);
    world.settle(&mut process, "a").await;
    assert_eq!((owner(&world), list(&world)), (json!("a"), json!("n/a,n/b")));
    assert_eq!(map(&world)["data"]["v"], "5");
    let mut app = world.app("a");
    app["spec"]["components"][0]["properties"]["names"] = json!(["y"]);
    put(&world, app);
    world.settle(&mut process, "a").await;
    assert_eq!((owner(&world), list(&world)), (json!("b"), json!("n/b")));
    assert!(!world.server.state.lock().deletes.iter().any(|name| name == "x"));
}

#[tokio::test]
async fn what_is_orphaned_belongs_to_nobody() {
    let (world, mut process) = two().await;
    delete(&world, "b");
    world.settle(&mut process, "b").await;
    let mut app = world.app("a");
    app["metadata"]["finalizers"]
        .as_array_mut()
        .unwrap()
        .push(json!("app.oam.dev/orphan-resource"));
    put(&world, app);
    delete(&world, "a");
    world.settle(&mut process, "a").await;
    assert_eq!((owner(&world), list(&world)), (Value::Null, Value::Null));
    assert_eq!(map(&world)["data"]["v"], "1");
}
