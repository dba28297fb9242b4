//! Plans of the recorded Applications: what a plan shows is what the run that follows writes, object by object, or the plan says
//! what it cannot know. A sample of the cases; all of them with `VELA_LONG_TESTS`. `VELA_CASE` names one.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::Value;
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, quiet, resource};
use vela_tests::material;

use crate::plan::try_plan;

/// Of so many cases one is tried.
const SAMPLE: usize = 16;

/// Cases at a time.
const CASES: usize = 6;

/// How long a run may take to end.
const ENDS: Duration = Duration::from_secs(20);

/// Without a write for so long a run has ended, or waits.
const CALM: Duration = Duration::from_millis(1500);

/// Objects, as `RESOURCE NAME`.
type Written = BTreeSet<String>;

/// How a plan and the run that followed compare.
#[derive(Debug)]
enum Compared {
    /// Both have the same objects.
    Equal,
    /// The plan has more, or not all of them, and says that it cannot know, or the run did not come to its end.
    Explained(&'static str),
    /// Neither.
    Differs(String),
}

/// The documents of the steps of a case, up to the first operation that is not an apply.
fn steps(case: &Path, space: &str) -> Vec<Vec<Value>> {
    let file = |step: usize| match step {
        1 => case.join("case.yaml"),
        _ => case.join(format!("step-{step}.yaml")),
    };
    let mut steps = Vec::new();
    for step in 1.. {
        let Ok(text) = fs::read_to_string(file(step)) else { break };
        // Another namespace of the case has a name that others have too.
        if text.contains("case-2") {
            break;
        }
        let text = text.replace("namespace: case\n", &format!("namespace: {space}\n"));
        let text = text.replace("$(case)", space);
        let Ok(documents) = serde_saphyr::from_multiple::<Value>(&text) else { break };
        let documents: Vec<Value> =
            documents.into_iter().filter(|document| !document.is_null()).collect();
        let waits = |action: &Value| {
            matches!(action["op"].as_str(), Some("options" | "sleep" | "wait" | "waitStable"))
        };
        if documents.iter().any(|document| document["kind"] == "Action" && !waits(document)) {
            break;
        }
        steps.push(documents.into_iter().filter(|document| document["kind"] != "Action").collect());
    }
    steps
}

async fn apply(space: &Space, object: &Value) -> kube::Result<DynamicObject> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api = space.objects(text("/apiVersion"), text("/kind"));
    let params = PatchParams::apply("user").force();
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object)).await
}

/// What a plan shows of the namespace.
fn planned(plan: &Value, space: &str) -> Written {
    let changes = plan.pointer("/applications/0/changes").and_then(Value::as_array);
    let in_space = |change: &&Value| change["namespace"] == space;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |change: &Value| {
        let kind = resource(&text(&change["apiVersion"]), &text(&change["kind"]));
        format!("{} {}", kind.plural, text(&change["name"]))
    };
    changes.into_iter().flatten().filter(in_space).map(named).collect()
}

/// Whether a request wrote an object that is no record of the control plane.
fn wrote(entry: &Entry, space: &str) -> bool {
    const RECORDS: [&str; 5] = [
        "applications",
        "applicationrevisions",
        "resourcetrackers",
        "events",
        "controllerrevisions",
    ];
    let resource = entry.resource.split('/').next().unwrap_or_default();
    let record = RECORDS.contains(&resource)
        || resource.contains("definition")
        || resource == "configmaps"
            && (entry.name.starts_with("workflow-")
                || entry.name.contains("-schema-")
                || entry.name.contains("-debug-"));
    entry.namespace == space
        && entry.is_controllers_write()
        && !entry.dry_run
        && entry.code < 300
        && !record
}

/// Plans an Application, applies it, and compares.
async fn plan_and_apply(space: &Space, app: &Value) -> Compared {
    let plan = match try_plan(space, Some(app)).await {
        Ok((_, plan)) => plan,
        Err(error) => return Compared::Differs(format!("no plan: {error}")),
    };
    let log = space.cluster().audit_log();
    let from = audit::position(&log).unwrap();
    if let Err(error) = apply(space, app).await {
        let denied = plan.pointer("/applications/0/denied") == Some(&Value::Bool(true));
        return if denied {
            Compared::Equal
        } else {
            Compared::Differs(format!("it was refused, and the plan did not say so: {error}"))
        };
    }
    let name = app.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let deadline = Instant::now() + ENDS;
    let phase = loop {
        quiet(&log, CALM, |entry| wrote(entry, space.name())).await;
        let object = space.applications().get(name).await.unwrap();
        let status = object.data.get("status");
        let field = |key: &str| status.and_then(|status| status.get(key));
        let phase = field("status").and_then(Value::as_str).unwrap_or_default().to_owned();
        let current =
            field("observedGeneration").and_then(Value::as_i64) == object.metadata.generation;
        let ended = matches!(
            &*phase,
            "running"
                | "unhealthy"
                | "workflowFailed"
                | "workflowTerminated"
                | "workflowSuspending"
        );
        if current && ended || Instant::now() > deadline {
            break phase;
        }
    };
    let mut entries = audit::read(&log, from).unwrap();
    entries.retain(|entry| wrote(entry, space.name()));
    let mut planned = planned(&plan, space.name());
    // The log does not say what a request about all objects of a kind deleted.
    entries.retain(|entry| {
        let of_kind = |name: &String| name.split(' ').next() == Some(&*entry.resource);
        if entry.verb == "deletecollection" {
            planned.retain(|name| !of_kind(name));
        }
        entry.verb != "deletecollection"
    });
    let written =
        entries.iter().map(|entry| format!("{} {}", entry.resource, entry.name)).collect();
    compared(app, &planned, &written, &phase, &plan)
}

fn compared(
    app: &Value,
    planned: &Written,
    written: &Written,
    phase: &str,
    plan: &Value,
) -> Compared {
    if planned == written {
        return Compared::Equal;
    }
    // Steps that are executed because another one failed.
    let steps = app.pointer("/spec/workflow/steps").and_then(Value::as_array);
    let has_conditions = steps.into_iter().flatten().any(|step| step.get("if").is_some());
    if has_conditions && phase == "workflowFailed" {
        return Compared::Explained("the run failed, and steps have conditions");
    }
    let plan = plan.pointer("/applications/0").unwrap_or(plan);
    if plan.get("problem").is_some() {
        return Compared::Explained("the plan names a problem");
    }
    let remarks = plan["remarks"].as_array().cloned().unwrap_or_default();
    if remarks.iter().any(|remark| remark["what"] != "suspends") {
        return Compared::Explained("the plan names what depends on the run");
    }
    if phase != "running" && written.is_subset(planned) {
        return Compared::Explained("the run did not come to its end");
    }
    let mut text = format!("ended as {phase:?}");
    for name in planned.difference(written) {
        let _ = write!(text, "\n    planned, not written: {name}");
    }
    for name in written.difference(planned) {
        let _ = write!(text, "\n    written, not planned: {name}");
    }
    let _ = write!(text, "\n    {plan}");
    Compared::Differs(text)
}

/// Every Application of a case.
async fn compare(case: &Path) -> Vec<Compared> {
    let space = Space::with_programs("planned").await;
    let log = space.cluster().audit_log();
    let mut all = Vec::new();
    for step in steps(case, space.name()) {
        for object in step {
            if object["kind"] == "Application" {
                all.push(plan_and_apply(&space, &object).await);
            } else if apply(&space, &object).await.is_err() {
                return all;
            } else if object["kind"].as_str().is_some_and(|kind| kind.ends_with("Definition")) {
                quiet(&log, CALM, |entry| entry.namespace == space.name() && entry.is_write())
                    .await;
            }
        }
    }
    all
}

#[tokio::test]
async fn plans_of_recorded_applications_come_to_pass() {
    let Some(material) = material::conformance() else {
        eprintln!("SKIPPED: the recorded cases are not here");
        return;
    };
    let one = std::env::var("VELA_CASE").ok();
    let long = std::env::var_os("VELA_LONG_TESTS").is_some();
    let mut cases: Vec<_> = fs::read_dir(material.join("recordings/controller/dev"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    let chosen = cases.iter().enumerate().filter(|(n, case)| match &one {
        Some(one) => case.ends_with(one),
        None => long || n % SAMPLE == 0,
    });
    let runs = chosen.map(|(_, case)| async move { (case, compare(case).await) });
    let runs: Vec<_> = futures::stream::iter(runs).buffer_unordered(CASES).collect().await;
    let (mut equal, mut explained, mut differences) = (0, 0, String::new());
    for (case, compared) in &runs {
        let case = case.file_name().unwrap().display();
        for (n, compared) in compared.iter().enumerate() {
            match compared {
                Compared::Equal => equal += 1,
                Compared::Explained(why) => {
                    explained += 1;
                    eprintln!("{case}, Application {}: {why}", n + 1);
                }
                Compared::Differs(text) => {
                    let _ = writeln!(differences, "{case}, Application {}: {text}", n + 1);
                }
            }
        }
    }
    eprintln!("{} cases: {equal} plans equal, {explained} explained", runs.len());
    assert!(differences.is_empty(), "{differences}");
    assert!(equal > 0 || one.is_some(), "no plan was compared");
}
