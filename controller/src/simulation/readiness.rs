//! What the status says of readiness through a whole life, and that saying it costs no write.

use serde_json::{Value, json};

use crate::metrics::Rollout;

use super::status_debounce::note;
use super::{IS_READY, NAMESPACE, Process, World, application, judge_maps};

/// `Ready` (status, reason, message) and what accompanies it.
fn said(world: &World) -> (String, String, String, Option<String>) {
    let conditions = world.app("a")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text =
        |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap().clone();
    let others = conditions
        .iter()
        .filter(|condition| condition["type"] == "Reconciling" || condition["type"] == "Stalled");
    let others: Vec<String> = others
        .inspect(|other| {
            assert_eq!(
                [&other["status"], &other["reason"], &other["message"]],
                [&json!("True"), &ready["reason"], &ready["message"]]
            );
        })
        .map(|other| text(other, "type"))
        .collect();
    assert!(others.len() < 2, "{others:?}");
    (
        text(&ready, "status"),
        text(&ready, "reason"),
        text(&ready, "message"),
        others.first().cloned(),
    )
}

fn is(world: &World, ready: &str, reason: &str, companion: Option<&str>) -> String {
    let (status, found, message, accompanied) = said(world);
    assert_eq!(
        (status.as_str(), found.as_str(), accompanied.as_deref()),
        (ready, reason, companion),
        "{message}"
    );
    message
}

/// A component that is healthy when its ConfigMap says so.
fn judged(change: impl FnOnce(&mut Value)) -> (World, Process) {
    let world = World::new();
    world.server.by_another_writer(|state| {
        judge_maps(
            state,
            json!({"healthPolicy": IS_READY, "customStatus": "message: context.output.data.note"}),
        );
        let mut app = application("a", &[("c", &["x"], "1")]);
        change(&mut app);
        state.put("applications", app);
    });
    let process = world.start();
    (world, process)
}

#[tokio::test]
async fn a_rollout_says_where_it_is_and_why() {
    let (world, mut process) = judged(|_| {});
    world.reconcile(&process, "a").await;
    let message = is(&world, "Unknown", "Progressing", Some("Reconciling"));
    assert_eq!(message, "step c: wait healthy");
    note(&world, &process, "fine", "yes").await;
    world.settle(&mut process, "a").await;
    assert_eq!(is(&world, "True", "ReconcileSuccess", None), "");
    // Later it is not healthy any more, and then it is.
    note(&world, &process, "no leader", "no").await;
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "unhealthy");
    assert_eq!(is(&world, "False", "Unhealthy", None), "component c: no leader");
    let writes = world.server.state.lock().status_writes.len();
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().status_writes.len(), writes, "nothing changed");
    note(&world, &process, "fine", "yes").await;
    world.settle(&mut process, "a").await;
    assert_eq!(is(&world, "True", "ReconcileSuccess", None), "");
    // An edit begins again.
    let mut app = world.app("a");
    app["spec"]["components"][0]["properties"]["value"] = json!("2");
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
    note(&world, &process, "starts", "no").await;
    world.reconcile(&process, "a").await;
    is(&world, "Unknown", "Progressing", Some("Reconciling"));
    assert!(world.server.state.lock().crimes.is_empty());
}

#[tokio::test]
async fn health_does_not_count_where_it_is_not_asked_for() {
    let (world, mut process) = judged(|_| {});
    process.settings().ready_means_healthy = false;
    world.reconcile(&process, "a").await;
    note(&world, &process, "fine", "yes").await;
    world.settle(&mut process, "a").await;
    note(&world, &process, "no leader", "no").await;
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "unhealthy");
    assert_eq!(is(&world, "True", "ReconcileSuccess", None), "component c: no leader");
}

/// A person ends a workflow that waits for him.
fn terminate(world: &World) {
    let mut app = world.app("a");
    let run = &mut app["status"]["workflow"];
    (run["terminated"], run["suspend"]) = (json!(true), json!(false));
    (run["steps"][0]["phase"], run["steps"][0]["reason"]) = (json!("failed"), json!("Terminate"));
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

#[tokio::test]
async fn what_waits_for_a_person_and_what_cannot_go_on_say_so() {
    let steps =
        |steps: Value| move |app: &mut Value| app["spec"]["workflow"] = json!({"steps": steps});
    let (world, mut process) = judged(steps(json!([{"name": "approve", "type": "suspend"}])));
    world.settle(&mut process, "a").await;
    let message = is(&world, "Unknown", "Suspended", Some("Reconciling"));
    assert_eq!(message, "step approve: Suspended by field suspend");
    terminate(&world);
    world.settle(&mut process, "a").await;
    is(&world, "False", "Terminated", Some("Stalled"));
    // No such type: tried again, until somebody defines it. No such word in a policy: only an edit helps.
    let (world, process) =
        judged(|app| app["spec"]["components"][0]["type"] = json!("nobody-defined-it"));
    world.reconcile(&process, "a").await;
    is(&world, "False", "ReconcileError", Some("Reconciling"));
    let (world, process) = judged(|app| {
        app["spec"]["policies"] =
            json!([{"name": "p", "type": "apply-once", "properties": {"enable": "no"}}]);
    });
    world.reconcile(&process, "a").await;
    is(&world, "False", "ReconcileError", Some("Stalled"));
    assert!(world.server.state.lock().get("applications", NAMESPACE, "a").is_some());
}

#[tokio::test]
async fn each_rollout_is_counted_once_when_it_ends() {
    let (world, mut process) = judged(|_| {});
    let counted = |process: &Process| {
        [Rollout::Succeeded, Rollout::Failed, Rollout::Terminated]
            .map(|result| process.context.metrics.rollouts.counted(result))
    };
    world.reconcile(&process, "a").await;
    assert_eq!(counted(&process), [(0, 0); 3]);
    note(&world, &process, "fine", "yes").await;
    world.settle(&mut process, "a").await;
    assert_eq!(counted(&process), [(1, 1), (0, 0), (0, 0)]);
    // Health that comes and goes is no rollout.
    for ready in ["no", "yes"] {
        note(&world, &process, ready, ready).await;
        world.settle(&mut process, "a").await;
    }
    assert_eq!(counted(&process), [(1, 1), (0, 0), (0, 0)]);
    // An edit is one, and a run that is ended by somebody ends one.
    let mut app = world.app("a");
    app["spec"]["workflow"] = json!({"steps": [{"name": "approve", "type": "suspend"}]});
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(counted(&process), [(1, 1), (0, 0), (0, 0)]);
    terminate(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(counted(&process), [(1, 1), (0, 0), (1, 1)]);
}
