//! Readiness as kstatus reads it. `tests/kstatus` has what the Go library answers to each of `objects`; to record it again:
//! `KSTATUS_RECORD=1 cargo test -p vela-controller readiness`, then `go run . < objects.jsonl > answers.jsonl` there.

#![allow(clippy::print_stderr, reason = "a test reports to people")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vela_api::Application;
use vela_api::names::phase;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn run(steps: &Value) -> WorkflowStatus {
    serde_json::from_value(json!({"mode": "StepByStep-DAG", "suspend": false, "terminated": false,
        "finished": false, "steps": steps}))
    .unwrap()
}

fn of(phase: WorkflowPhase, steps: &Value) -> Readiness {
    Readiness::of_workflow(phase, Some(&run(steps))).unwrap()
}

/// Every kind of readiness: a name, itself, `Ready` with its reason, its companion, and what kstatus makes of it.
fn table() -> Vec<(&'static str, Readiness, [&'static str; 2], &'static str, &'static str)> {
    let running = json!([{"name": "web", "phase": "running", "message": "wait healthy"}]);
    let waits = json!([{"name": "approve", "phase": "suspending"}]);
    let failed = json!([{"name": "web", "phase": "failed", "message": "no\nsuch  image"}]);
    use WorkflowPhase::{Executing, Failed, Suspending, Terminated};
    vec![
        ("runs", of(Executing, &running), ["Unknown", "Progressing"], "Reconciling", "InProgress"),
        ("waits", of(Suspending, &waits), ["Unknown", "Suspended"], "Reconciling", "InProgress"),
        ("failed", of(Failed, &failed), ["False", "Failed"], "Stalled", "Failed"),
        ("terminated", of(Terminated, &failed), ["False", "Terminated"], "Stalled", "Failed"),
        (
            "error",
            Readiness::error("x", false),
            ["False", "ReconcileError"],
            "Reconciling",
            "InProgress",
        ),
        (
            "final error",
            Readiness::error("x", true),
            ["False", "ReconcileError"],
            "Stalled",
            "Failed",
        ),
        ("set aside", Readiness::set_aside("x"), ["False", "SetAside"], "Stalled", "Failed"),
        (
            "collecting",
            Readiness::collecting("x"),
            ["False", "Deleting"],
            "Reconciling",
            "InProgress",
        ),
        ("healthy", Readiness::deployed(""), ["True", "ReconcileSuccess"], "", "Current"),
        ("unhealthy", Readiness::unhealthy("x"), ["False", "Unhealthy"], "", "InProgress"),
        ("does not count", Readiness::deployed("x"), ["True", "ReconcileSuccess"], "", "Current"),
    ]
}

/// What a program that knows no Application sees of one with this status.
fn object(status: &AppStatus) -> Value {
    let conditions: Vec<Value> = [types::READY, types::RECONCILING, types::STALLED]
        .into_iter()
        .filter_map(|type_| condition::get(&status.conditions, type_))
        .map(|c| json!({"type": c.type_, "status": c.status, "reason": c.reason}))
        .collect();
    json!({
        "apiVersion": vela_api::V1BETA1, "kind": "Application",
        "metadata": {"name": "shop", "namespace": "shop", "generation": 2},
        "status": {"observedGeneration": status.observed_generation, "conditions": conditions},
    })
}

fn with(readiness: Readiness, observed: i64) -> AppStatus {
    let mut status = AppStatus { observed_generation: observed, ..AppStatus::default() };
    readiness.put(&mut status, at(1));
    status
}

/// The table, an Application that was edited, one that no controller has seen (the default of its kind), and one that goes away.
fn objects() -> Vec<(Value, &'static str)> {
    let mut all: Vec<_> = table()
        .into_iter()
        .map(|(_, readiness, _, _, wanted)| (object(&with(readiness, 2)), wanted))
        .collect();
    all.push((object(&with(Readiness::deployed(""), 1)), "InProgress"));
    let mut unseen = object(&AppStatus::default());
    unseen["status"] = json!({"observedGeneration": -1});
    all.push((unseen, "InProgress"));
    let mut deleted = object(&with(Readiness::collecting("x"), 2));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    all.push((deleted, "Terminating"));
    all
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kstatus").join(name)
}

fn lines(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(recorded(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn conditions_say_what_the_table_says() {
    for (name, readiness, ready, companion, _) in table() {
        let mut status = AppStatus::default();
        // Whatever was said before.
        Readiness::set_aside("y").put(&mut status, at(0));
        Readiness::error("y", false).put(&mut status, at(0));
        readiness.put(&mut status, at(1));
        let found: Vec<[&str; 3]> =
            status.conditions.iter().map(|c| [&*c.type_, &*c.status, &*c.reason]).collect();
        let mut wanted = vec![["Ready", ready[0], ready[1]]];
        if !companion.is_empty() {
            wanted.push([companion, "True", ready[1]]);
        }
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn kstatus_agrees() {
    let objects = objects();
    if std::env::var_os("KSTATUS_RECORD").is_some() {
        let text: String = objects.iter().map(|(object, _)| format!("{object}\n")).collect();
        fs::write(recorded("objects.jsonl"), text).unwrap();
    }
    let asked = lines("objects.jsonl");
    assert_eq!(asked, objects.iter().map(|(object, _)| object.clone()).collect::<Vec<_>>());
    let answers = lines("answers.jsonl");
    assert_eq!(answers.len(), objects.len());
    for ((object, wanted), answer) in objects.iter().zip(answers) {
        assert_eq!(answer["status"], *wanted, "{object}");
        // The Lua of docs/gitops.md has words for what kstatus only calls in progress, and so have the expressions for Flux.
        let conditions = object["status"]["conditions"].as_array();
        let reason = conditions.and_then(|all| all.first()).map(|ready| ready["reason"].as_str());
        let (argo, flux) = match (*wanted, reason.flatten()) {
            ("Current", _) => ("Healthy", "Current"),
            ("Failed", _) => ("Degraded", "Failed"),
            ("InProgress", Some("Unhealthy")) => ("Degraded", "Failed"),
            ("InProgress", Some("Suspended")) => ("Suspended", "InProgress"),
            (other, _) => ("Progressing", other),
        };
        assert_eq!((&answer["argo"], &answer["flux"]), (&json!(argo), &json!(flux)), "{object}");
    }
}

/// What our controller says of an Application in a state that the reference left it in.
fn of_recorded(status: &AppStatus, ready_means_healthy: bool) -> Option<Readiness> {
    let known = condition::get(&status.conditions, types::READY);
    let message = known.map(|known| known.message.as_str()).unwrap_or_default();
    let run = status.workflow.as_ref();
    let of_run = |phase| Readiness::of_workflow(phase, run);
    match status.phase.as_str() {
        phase::RUNNING_WORKFLOW | phase::RENDERING if known.is_none() => {
            of_run(WorkflowPhase::Executing)
        }
        phase::WORKFLOW_SUSPENDING => of_run(WorkflowPhase::Suspending),
        phase::WORKFLOW_TERMINATED => of_run(WorkflowPhase::Terminated),
        phase::WORKFLOW_FAILED if known.is_none_or(|k| k.reason == reason::DELETING) => {
            of_run(WorkflowPhase::Failed)
        }
        _ if known.is_some_and(|known| known.reason == reason::DELETING) => {
            Some(Readiness::collecting(message))
        }
        phase::RUNNING | phase::UNHEALTHY if known.is_some_and(Condition::is_true) => {
            let why = of_components(&status.services);
            Some(if ready_means_healthy && status.phase == phase::UNHEALTHY {
                Readiness::unhealthy(&why)
            } else {
                Readiness::deployed(&why)
            })
        }
        "" => None,
        // Each of these phases is a reconcile that failed.
        _ => Some(Readiness::error(message, false)),
    }
}

/// For every recorded status: what kstatus makes of ours is what its phase means.
#[test]
fn every_recorded_status_is_read_as_its_phase() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::env::var_os("VELA_CONFORMANCE")
        .map_or_else(|| workspace.parent().unwrap().join("shared"), PathBuf::from);
    let Ok(cases) = fs::read_dir(folder.join("recordings/controller/dev")) else {
        eprintln!("SKIPPED: no recorded statuses at {}", folder.display());
        return;
    };
    let answers: Vec<(Value, Value)> =
        lines("objects.jsonl").into_iter().zip(lines("answers.jsonl")).collect();
    let mut checked = 0;
    for case in cases.map(|case| case.unwrap().path()).filter(|case| case.is_dir()) {
        for file in fs::read_dir(&case).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let text = text.replace("<time>", "2026-01-01T00:00:00Z");
            let snapshot: Value = serde_json::from_str(&text).unwrap();
            for app in snapshot["applications"].as_array().into_iter().flatten() {
                let app: Application = serde_json::from_value(app.clone()).unwrap();
                for ready_means_healthy in [true, false] {
                    checked += 1;
                    check(&file, &app.status, ready_means_healthy, &answers);
                }
            }
        }
    }
    assert!(checked > 600, "{checked} statuses");
}

fn check(file: &Path, status: &AppStatus, means_healthy: bool, answers: &[(Value, Value)]) {
    let mut ours = status.clone();
    ours.observed_generation = 2;
    let seen = match of_recorded(status, means_healthy) {
        Some(readiness) => {
            readiness.put(&mut ours, at(1));
            object(&ours)
        }
        None => {
            let mut unseen = object(&AppStatus::default());
            unseen["status"] = json!({"observedGeneration": -1});
            unseen
        }
    };
    let answer = answers.iter().find(|(asked, _)| *asked == seen).map(|(_, answer)| answer);
    let Some(answer) = answer else { panic!("{}: kstatus was not asked: {seen}", file.display()) };
    let is_collecting = ours.conditions.iter().any(|c| c.reason == reason::DELETING);
    let wanted = match status.phase.as_str() {
        phase::RUNNING | phase::UNHEALTHY if is_collecting => "InProgress",
        phase::WORKFLOW_FAILED if seen["status"]["conditions"][0]["reason"] == "ReconcileError" => {
            "InProgress"
        }
        phase::RUNNING if seen["status"]["conditions"][0]["status"] == "True" => "Current",
        phase::UNHEALTHY if !means_healthy => "Current",
        phase::WORKFLOW_FAILED | phase::WORKFLOW_TERMINATED => "Failed",
        _ => "InProgress",
    };
    assert_eq!(answer["status"], wanted, "{}: {seen}", file.display());
    // And it says why, wherever there is something to say.
    let ready = condition::get(&ours.conditions, types::READY);
    let needs_words = match status.phase.as_str() {
        "" | phase::RUNNING | phase::RENDERING => false,
        // The reference left some unhealthy whose components are all healthy.
        phase::UNHEALTHY => !status::is_healthy(&status.services),
        _ => true,
    };
    assert!(
        !needs_words || ready.is_some_and(|ready| !ready.message.is_empty()),
        "{}: {seen} without a word",
        file.display()
    );
}

#[test]
fn it_says_why_in_one_line() {
    let cases = [
        (
            WorkflowPhase::Executing,
            json!([{"name": "a", "phase": "succeeded", "message": "done"},
                {"name": "b", "phase": "pending", "message": "waits for c"},
                {"name": "g", "phase": "running", "subSteps": [
                    {"name": "c", "phase": "running"},
                    {"name": "d", "phase": "running", "message": "wait healthy:\n  no  node"}]}]),
            "step d: wait healthy: no node",
        ),
        (WorkflowPhase::Executing, json!([{"name": "a", "phase": "running"}]), "step a: running"),
        (WorkflowPhase::Executing, json!([]), ""),
        (
            WorkflowPhase::Suspending,
            json!([{"name": "a", "phase": "failed", "message": "no"}, {"name": "s", "phase": "suspending", "message": "approve"}]),
            "step s: approve",
        ),
        (
            WorkflowPhase::Failed,
            json!([{"name": "a", "phase": "failed", "message": "no"}]),
            "step a: no",
        ),
        (
            WorkflowPhase::Failed,
            json!([{"name": "a", "phase": "succeeded", "message": "fine"},
                {"name": "b", "phase": "succeeded", "reason": "Terminate", "message": "enough"}]),
            "step b: enough",
        ),
    ];
    for (phase, steps, wanted) in cases {
        assert_eq!(of(phase, &steps).message, wanted, "{steps}");
    }
    let long = line(&"ä ".repeat(1000));
    assert_eq!(long.chars().count(), LONG + 1);
    let service = |name: &str, healthy, message: &str| ComponentStatus {
        name: name.to_owned(),
        healthy,
        message: message.to_owned(),
        ..ComponentStatus::default()
    };
    let all = [service("a", true, "fine"), service("b", false, ""), service("c", false, "1/2")];
    assert_eq!(of_components(&all), "component c: 1/2");
    assert_eq!(of_components(&all[..2]), "component b: not healthy");
    assert_eq!(of_components(&all[..1]), "");
}

#[test]
fn what_stays_the_same_keeps_its_time() {
    let mut status = with(Readiness::error("x", false), 1);
    Readiness::error("x", false).put(&mut status, at(9));
    assert!(status.conditions.iter().all(|c| c.last_transition_time.0 == at(1)), "{status:?}");
    Readiness::error("y", false).put(&mut status, at(9));
    assert!(status.conditions.iter().all(|c| c.last_transition_time.0 == at(9)), "{status:?}");
}
