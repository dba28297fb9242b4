//! Objects with the label of another bucket: their owner is not sent them. Nothing is created again, left behind or deleted for that, and
//! the label is corrected.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vela_api::names::label;
use vela_shard::{Kept, Table, bucket_of, share};

use super::shares::{APPS, MEMBERS, Replica, edit, holder, key, settle, shared_by, uids};
use super::{NAMESPACE, World, application};

/// The object of an Application.
fn object(world: &World, name: &str) -> Option<Value> {
    world.server.state.lock().get("configmaps", NAMESPACE, name).cloned()
}

fn bucket(object: &Value) -> &str {
    object["metadata"]["labels"][label::OWNER_BUCKET].as_str().unwrap_or_default()
}

fn right(app: usize) -> String {
    format!("{:02x}", bucket_of(NAMESPACE, &key(app).name))
}

/// Somebody labels an object as one of another bucket, which its owner keeps, too, or does not keep.
fn mislabel(world: &World, replicas: &[Replica], table: &Table, (app, is_kept): (usize, bool)) {
    let owner = holder(table, app);
    let replica = replicas.iter().find(|replica| replica.id == owner).unwrap();
    let kept = Kept::new(share(table, &replica.id)).buckets();
    let (right, labels) = (right(app), |bucket: u8| format!("{bucket:02x}"));
    let mut others = (0..=255_u8).filter(|bucket| kept.contains(*bucket) == is_kept).map(labels);
    let mut object = object(world, &format!("x{app}")).unwrap();
    object["metadata"]["labels"][label::OWNER_BUCKET] = json!(others.find(|it| *it != right));
    world.server.by_another_writer(|state| {
        state.put("configmaps", object);
    });
}

#[tokio::test]
async fn an_object_with_the_label_of_another_bucket_is_read_and_labelled() {
    for restarts in [false, true] {
        let mut world = World::new();
        world.server.by_another_writer(|state| {
            for app in 0..APPS {
                let object = format!("x{app}");
                let app = application(&key(app).name, &[("c", &[&*object], "1")]);
                state.put("applications", app);
            }
        });
        let table = Arc::new(shared_by(&MEMBERS));
        let start = |world: &World| -> Vec<Replica> {
            MEMBERS.iter().map(|id| Replica::start(world, id, &table)).collect()
        };
        // From before there were labels: they come with a write that is made anyway.
        let old = start(&world);
        settle(&world, &old, &table).await;
        world.label_objects = true;
        let mut replicas = start(&world);
        settle(&world, &replicas, &table).await;
        let before = uids(&world);
        assert_eq!(before.len(), APPS);
        assert!(
            (0..APPS).all(|app| bucket(&object(&world, &format!("x{app}")).unwrap()).is_empty())
        );
        (0..APPS).for_each(|app| edit(&world, app, "value", &json!("2")));
        settle(&world, &replicas, &table).await;
        for app in 0..APPS {
            assert_eq!(bucket(&object(&world, &format!("x{app}")).unwrap()), right(app), "{app}");
        }
        // One is edited so that the object has to go, one is edited, one is deleted, and one stays as it is.
        (0..4).for_each(|app| mislabel(&world, &replicas, &table, (app, false)));
        if restarts {
            replicas = start(&world);
        }
        edit(&world, 0, "names", &json!(["y0"]));
        edit(&world, 1, "value", &json!("3"));
        world.server.by_another_writer(|state| {
            state.delete("applications", NAMESPACE, &key(2).name);
        });
        settle(&world, &replicas, &table).await;
        let there = |name: &str| object(&world, name).is_some();
        assert_eq!(["x0", "y0", "x1", "x2", "x3"].map(there), [false, true, true, false, true]);
        for (name, app) in [("y0", 0), ("x1", 1), ("x3", 3)] {
            assert_eq!(bucket(&object(&world, name).unwrap()), right(app), "{name}");
        }
        assert_eq!(object(&world, "x1").unwrap()["data"]["v"], "3");
        for (name, uid) in uids(&world).iter().filter(|(name, _)| **name != "\"y0\"") {
            assert_eq!(before.get(name), Some(uid), "{name} was made again");
        }
        // Nothing is left to do.
        let requests = world.server.state.lock().requests.len();
        settle(&world, &replicas, &table).await;
        let more = world.server.state.lock().requests[requests..].to_vec();
        assert!(more.is_empty(), "{more:?}");
        // Who wants another label for ever is answered with growing pauses.
        mislabel(&world, &replicas, &table, (3, false));
        let label = || bucket(&object(&world, "x3").unwrap()).to_owned();
        let keep = async || {
            for replica in &replicas {
                replica.watch(&world);
                let _ = replica.step(&world, &table, 3).await;
            }
        };
        keep().await;
        assert_ne!(label(), right(3));
        world.pass(Duration::from_secs(2));
        mislabel(&world, &replicas, &table, (3, true));
        keep().await;
        assert_eq!(label(), right(3));
    }
}
