//! Several writers of one object: who fights, who is finished, and who only reads.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, until};

fn objects(name: &str, objects: &Value) -> Value {
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": objects}})
}

fn condition(app: &kube::api::DynamicObject, kind: &str) -> Value {
    let conditions = app.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// Writes of the controller about an object of the namespace.
fn writes(space: &Space, from: u64, resource: &str, name: &str, verb: &str) -> usize {
    let entries: Vec<Entry> = audit::read(&space.cluster().audit_log(), from).unwrap();
    let is_it = |entry: &&Entry| {
        entry.is_controllers_write()
            && entry.resource == resource
            && entry.namespace == space.name()
            && (name.is_empty() || entry.name == name)
            && entry.verb == verb
    };
    entries.iter().filter(is_it).count()
}

/// The other writer answers each repair at once.
#[tokio::test]
async fn a_fight_of_two_writers_slows_down_and_is_told() {
    let space = Space::with_programs("writers").await;
    let map = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fought"},
        "data": {"a": "1"}}]);
    space.create("fight", json!([objects("c", &map)])).await.unwrap();
    space.running("fight").await;
    let from = audit::position(&space.cluster().audit_log()).unwrap();
    let maps = space.api::<ConfigMap>();
    let mut answers = 0;
    until("the condition", Duration::from_secs(60), async || {
        let data = maps.get("fought").await.unwrap().data.unwrap_or_default();
        if data.get("a").is_some_and(|value| value == "1") {
            let theirs = Patch::Merge(json!({"data": {"a": "2"}}));
            let other =
                PatchParams { field_manager: Some("other".into()), ..PatchParams::default() };
            maps.patch("fought", &other, &theirs).await.unwrap();
            answers += 1;
        }
        let app = space.applications().get("fight").await.unwrap();
        condition(&app, "Drift")["reason"] == "DriftFight"
    })
    .await;
    let app = space.applications().get("fight").await.unwrap();
    let told = condition(&app, "Drift");
    let message = told["message"].as_str().unwrap();
    assert!(
        message.contains("ConfigMap fought is changed by other") && message.contains("(data.a)"),
        "{told}"
    );
    assert_eq!(app.data["status"]["status"], "running");
    let repairs = writes(&space, from, "configmaps", "fought", "patch");
    assert!((3..=4).contains(&repairs), "{repairs} repairs, {answers} answers");
}

/// A Job that is removed as soon as it has completed.
#[tokio::test]
async fn a_job_that_completed_is_made_once() {
    let space = Space::with_programs("writers").await;
    let from = audit::position(&space.cluster().audit_log()).unwrap();
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"},
        "spec": {"ttlSecondsAfterFinished": 0, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "busybox"}]}}}}]);
    let map = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside"},
        "data": {"a": "1"}}]);
    space.create("jobs", json!([objects("j", &job), objects("c", &map)])).await.unwrap();
    space.running("jobs").await;
    let made = || writes(&space, from, "jobs", "", "create");
    until("the end of the Job", Duration::from_secs(60), async || {
        made() > 0 && space.api::<Job>().get_opt("migrate").await.unwrap().is_none()
    })
    .await;
    // Several complete looks follow, and each of them heals something else.
    let maps = space.api::<ConfigMap>();
    for turn in 0..2 {
        maps.delete("beside", &DeleteParams::default()).await.unwrap();
        until("the ConfigMap", Duration::from_secs(30), async || {
            maps.get_opt("beside").await.unwrap().is_some()
        })
        .await;
        assert!(space.api::<Job>().get_opt("migrate").await.unwrap().is_none(), "turn {turn}");
    }
    let app = space.applications().get("jobs").await.unwrap();
    assert_eq!(app.data["status"]["status"], "running", "{:#}", app.data["status"]);
    // A dry run beside it is no creation of a second one.
    assert!(made() <= 2, "{} creations", made());
}
