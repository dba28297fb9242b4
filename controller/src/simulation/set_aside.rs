//! An Application over which processes died is not reconciled, reports that once, and is retried after an edit.

use serde_json::{Value, json};

use super::{NAMESPACE, World, application};
use crate::application::lifecycle::failure::set_aside;
use crate::in_flight::Subject;
use crate::queue::Key;

fn reasons(world: &World) -> Vec<Value> {
    let app = world.app("a");
    let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let reported = conditions.into_iter().filter(|condition| condition["status"] == "False");
    reported.map(|condition| condition["reason"].clone()).collect()
}

#[tokio::test]
async fn who_killed_twice_is_set_aside_until_an_edit() {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    let (key, generation) =
        (Key::new(NAMESPACE, "a"), world.app("a")["metadata"]["generation"].as_i64());
    let generation = generation.unwrap_or_default();
    process.context.in_flight.died_over(Subject::application(&key), generation, 1);
    assert!(set_aside(&process.context, &key).await.is_none(), "one death is an accident");
    process.context.in_flight.died_over(Subject::application(&key), generation, 1);
    assert!(set_aside(&process.context, &key).await.is_some());
    assert_eq!(reasons(&world), [json!("SetAside"), json!("SetAside")]);
    // Said once.
    world.sync(&process);
    let version = world.app("a")["metadata"]["resourceVersion"].clone();
    assert!(set_aside(&process.context, &key).await.is_some());
    assert_eq!(world.app("a")["metadata"]["resourceVersion"], version);
    assert_eq!(world.faults("a"), Vec::<String>::new(), "it is left as it is");
    // An edit gives it another chance.
    world.server.by_another_writer(|state| {
        let mut edited = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
        edited["spec"]["components"][0]["properties"]["value"] = json!("2");
        edited["metadata"]["generation"] = json!(generation + 1);
        state.put("applications", edited);
    });
    world.sync(&process);
    assert!(set_aside(&process.context, &key).await.is_none());
    world.settle(&mut process, "a").await;
    assert_eq!(reasons(&world), [json!(null); 0]);
    assert_eq!(world.faults("a"), Vec::<String>::new());
}
