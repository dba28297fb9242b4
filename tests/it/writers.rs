//! Several writers of one object: who fights, who is finished, and who only reads.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, until};

use crate::gated::World;
use crate::home::{APP, Home};

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
    let reported = condition(&app, "Drift");
    let message = reported["message"].as_str().unwrap();
    assert!(
        message.contains("ConfigMap fought is changed by other") && message.contains("(data.a)"),
        "{reported}"
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
    // Several complete reconciles follow, and each of them heals something else.
    let maps = space.api::<ConfigMap>();
    for turn in 0..2 {
        maps.delete("beside", &DeleteParams::default()).await.unwrap();
        until("the ConfigMap", Duration::from_secs(30), async || {
            maps.get_opt("beside").await.unwrap().is_some()
        })
        .await;
        assert!(space.api::<Job>().get_opt("migrate").await.unwrap().is_none(), "turn {turn}");
    }
    // The status follows the ConfigMap that came back, it does not come with it.
    space.running("jobs").await;
    // A dry run in parallel is no creation of a second one.
    assert!(made() <= 2, "{} creations", made());
}

/// The same, while the controller is ended and started again: before the Job is removed, and after.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_completed_is_not_made_again_by_the_next_process() {
    let world = World::new("jobs").await;
    let home = Home::new(&world.client, "jobs").await;
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    let job = |name: &str, ttl: u32| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"ttlSecondsAfterFinished": ttl, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "busybox"}]}}}})
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside"},
        "data": {"a": "1"}});
    let spec = json!({"components": [
        objects("j", &json!([job("at-once", 0), job("later", 8)])), objects("c", &json!([map]))]});
    home.put(&spec).await;
    let status = async || home.applications().get(APP).await.unwrap().data["status"].clone();
    until("it runs", Duration::from_secs(90), async || status().await["status"] == "running").await;
    let jobs: Api<Job> = Api::namespaced(world.client.clone(), home.name());
    let is_there = async |name: &str| jobs.get_opt(name).await.unwrap().is_some();
    let ended = async |name: &str| {
        let job = jobs.get_opt(name).await.unwrap();
        job.is_none_or(|job| job.status.is_some_and(|status| status.completion_time.is_some()))
    };
    let notes = async || {
        let trackers = home.trackers().await;
        let noted = trackers.iter().filter_map(|tracker| {
            let all = tracker.metadata.annotations.as_ref()?;
            all.get("app.oam.dev/completed").cloned()
        });
        noted.collect::<String>()
    };
    until("the end of both", Duration::from_secs(90), async || {
        !is_there("at-once").await && ended("later").await
    })
    .await;
    until("a note of both", Duration::from_secs(30), async || {
        let notes = notes().await;
        notes.contains("at-once") && notes.contains("later")
    })
    .await;
    // The second one is removed unnoticed.
    world.controller.kill().unwrap();
    until("the end of the second", Duration::from_secs(90), async || !is_there("later").await)
        .await;
    world.controller.start(&world.cluster).unwrap();
    world.controller.ready().await.unwrap();
    // Complete reconciles, each of which heals something else.
    for turn in 0..2 {
        home.maps().delete("beside", &DeleteParams::default()).await.unwrap();
        until("the ConfigMap", Duration::from_secs(60), async || {
            home.maps().get_opt("beside").await.unwrap().is_some()
        })
        .await;
        // It was unhealthy without the ConfigMap.
        until("it runs", Duration::from_secs(60), async || status().await["status"] == "running")
            .await;
        assert!(!is_there("at-once").await && !is_there("later").await, "turn {turn}");
    }
    let entries = audit::read(&world.cluster.audit_log(), from).unwrap();
    let of_jobs = |entry: &&Entry| {
        entry.is_controllers_write() && entry.resource == "jobs" && entry.verb == "create"
    };
    // A dry run in parallel with each is no creation of a second one.
    let made = entries.iter().filter(of_jobs).count();
    assert!(made <= 4, "{made} creations");
    // An edit is another run: they are created again.
    let mut again = spec.clone();
    again["components"][1]["properties"]["objects"][0]["data"]["a"] = json!("2");
    home.put(&again).await;
    until("both again", Duration::from_secs(90), async || {
        let entries = audit::read(&world.cluster.audit_log(), from).unwrap();
        entries.iter().filter(of_jobs).count() > made
    })
    .await;
    world.cluster.stop();
}
