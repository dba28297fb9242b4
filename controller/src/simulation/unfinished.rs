//! A reconcile that panicked or timed out is reported in the Application's status until one ends.

use serde_json::{Value, json};

use super::{NAMESPACE, World, application};
use crate::application::lifecycle::failure::report_panic;
use crate::guard::Ended;
use crate::queue::Key;

/// Message of the condition Synced; there is one while something is wrong.
fn synced(world: &World) -> Value {
    let app = world.app("a");
    let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "Synced");
    found.unwrap_or_default()["message"].clone()
}

#[tokio::test]
async fn what_broke_is_told_until_it_works() {
    for (ended, message) in [
        (
            Ended::Panicked("boom".to_owned()),
            "internal error while reconciling; no further changes were made: boom",
        ),
        (Ended::TimedOut, "the reconcile was stopped after 180s; no further changes were made"),
    ] {
        let world = World::new();
        let mut process = world.start();
        world.server.by_another_writer(|state| {
            state.put("applications", application("a", &[("c", &["x"], "1")]));
        });
        world.settle(&mut process, "a").await;
        let key = Key::new(NAMESPACE, "a");
        report_panic(&process.context, &key, &ended).await;
        assert_eq!(synced(&world), json!(message));
        assert_eq!(world.app("a")["status"]["status"], "running");
        world.settle(&mut process, "a").await;
        assert_eq!(synced(&world), Value::Null);
        assert_eq!(world.faults("a"), Vec::<String>::new());
        report_panic(&process.context, &key, &Ended::Failed("no".to_owned())).await;
        assert_eq!(synced(&world), Value::Null);
    }
}
