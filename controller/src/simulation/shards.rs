//! Applications of other shards: whatever is in the cache or in the queue, they are left alone.

use serde_json::{Value, json};

use super::{NAMESPACE, World, application, named_maps};

const LABEL: &str = "controller.core.oam.dev/scheduled-shard-id";

fn schedule(world: &World, shard: Option<&str>) {
    world.server.by_another_writer(|state| {
        let stored = state.get("applications", NAMESPACE, "a").cloned();
        let mut app = stored.unwrap_or_else(|| application("a", &[("c", &["x"], "1")]));
        match shard {
            Some(shard) => app["metadata"]["labels"] = json!({LABEL: shard}),
            None => app["metadata"]["labels"] = Value::Null,
        }
        state.put("applications", app);
    });
}

#[tokio::test]
async fn an_application_is_handled_by_its_own_shard_only() {
    for (ours, theirs) in [("master", "shard-1"), ("shard-1", "master")] {
        let mut world = World::new();
        world.shard = Some(ours.to_owned());
        let mut process = world.start();
        for other in [Some(theirs), None] {
            schedule(&world, other);
            world.settle(&mut process, "a").await;
            assert_eq!(world.server.state.lock().writes, 0, "{ours} {other:?}");
        }
        schedule(&world, Some(ours));
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a")["status"]["status"], "running", "{ours}");
        // It moves on: nothing is healed any more, and its deletion is no business of this shard.
        schedule(&world, Some(theirs));
        world.server.by_another_writer(|state| {
            state.delete("configmaps", NAMESPACE, "x");
        });
        world.settle(&mut process, "a").await;
        assert_eq!(named_maps(&world), []);
        world.server.by_another_writer(|state| {
            state.delete("applications", NAMESPACE, "a");
        });
        let writes = world.server.state.lock().writes;
        world.settle(&mut process, "a").await;
        assert_eq!(world.server.state.lock().writes, writes, "{ours}");
        assert!(!world.server.state.lock().all("resourcetrackers").is_empty());
    }
}

#[tokio::test]
async fn without_shards_the_label_means_nothing() {
    let world = World::new();
    let mut process = world.start();
    schedule(&world, Some("shard-1"));
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}
