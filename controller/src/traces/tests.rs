//! Traces: the tree of a rollout, its ids, its parent, its bounds.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use opentelemetry::trace::{SpanId, Status};
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};
use vela_api::{AppStatus, Application};

use super::{EndedRollout, Progress, TracedObject, spans_of};
use crate::metrics::Rollout;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn app(annotations: &Value, workflow: &Value) -> Application {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 3,
            "annotations": annotations},
        "spec": {"components": [], "workflow": {"steps": workflow}},
    }))
    .unwrap()
}

fn step(name: &str, kind: &str, phase: &str, (from, to): (&str, &str)) -> Value {
    let at = |seconds: &str| format!("1970-01-01T00:00:{seconds}Z");
    json!({"name": name, "type": kind, "phase": phase, "id": name,
        "firstExecuteTime": at(from), "lastExecuteTime": at(to)})
}

fn service(name: &str, cluster: &str, healthy: bool) -> Value {
    json!({"name": name, "cluster": cluster, "namespace": "shop", "healthy": healthy,
        "message": if healthy { "" } else { "no image" },
        "workloadDefinition": {"apiVersion": "", "kind": ""}})
}

fn status(steps: &Value, services: &Value) -> AppStatus {
    serde_json::from_value(json!({
        "conditions": [{"type": "Ready", "status": "False", "reason": "Failed",
            "message": "step c failed", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        "latestRevision": {"name": "web-v3", "revision": 3},
        "workflow": {"appRevision": "web-v3", "mode": "", "suspend": false, "terminated": false,
            "finished": true, "startTime": "1970-01-01T00:00:10Z", "steps": steps},
        "services": services,
        "appliedResources": [{"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": "shop"}],
    }))
    .unwrap()
}

fn object(kind: &str, name: &str, cluster: &str, component: &str) -> TracedObject {
    TracedObject {
        key: [cluster, "v1", kind, "shop", name].map(str::to_owned),
        component: component.to_owned(),
        trait_type: String::new(),
    }
}

/// The spans as a tree, with their times in seconds.
fn tree(spans: &[SpanData]) -> String {
    fn write(spans: &[SpanData], parent: SpanId, depth: usize, out: &mut String) {
        for span in spans.iter().filter(|span| span.parent_span_id == parent) {
            let at = |time: std::time::SystemTime| {
                time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
            };
            let state = match &span.status {
                Status::Unset => String::new(),
                Status::Ok => " ok".to_owned(),
                Status::Error { description } => format!(" failed: {description}"),
            };
            let (from, to) = (at(span.start_time), at(span.end_time));
            writeln!(out, "{:depth$}{} {from}-{to}{state}", "", span.name).unwrap();
            for event in &span.events.events {
                let why = event.attributes.first().map(|why| why.value.as_str().into_owned());
                writeln!(out, "{:depth$}  * {}: {}", "", event.name, why.unwrap()).unwrap();
            }
            write(spans, span.span_context.span_id(), depth + 2, out);
        }
    }
    let mut out = String::new();
    write(spans, spans[0].parent_span_id, 0, &mut out);
    assert_eq!(out.lines().filter(|line| !line.contains("* ")).count(), spans.len(), "{out}");
    out
}

fn traced(
    app: &Application,
    status: &AppStatus,
    result: Rollout,
    objects: &[TracedObject],
) -> Vec<SpanData> {
    let (began, ended) = (Timestamp::new(10, 500_000_000).unwrap(), Timestamp::new(40, 0).unwrap());
    let mut progress = Progress::default();
    progress.note(status, Timestamp::new(12, 0).unwrap());
    let progress = &progress;
    spans_of(EndedRollout { app, status, result, began, ended, progress }, objects)
}

#[test]
fn a_rollout_of_three_steps_is_a_tree() {
    let mut group = step("all", "step-group", "failed", ("11", "11"));
    let mut failed = step("c", "apply-component", "failed", ("20", "30"));
    failed["message"] = json!("dispatch refused");
    failed["reason"] = json!("Execute");
    group["subSteps"] = json!([failed]);
    let steps = json!([
        step("web", "apply-component", "succeeded", ("10", "15")),
        step("say", "notification", "succeeded", ("15", "16")),
        group,
        {"name": "never", "type": "suspend", "phase": "pending", "id": "n"},
    ]);
    let properties = json!({"component": "db"});
    let app = app(
        &json!({}),
        &json!([{"name": "all", "type": "step-group",
        "subSteps": [{"name": "c", "type": "apply-component", "properties": properties}]}]),
    );
    let services =
        json!([service("web", "", true), service("db", "far", false), service("free", "", true)]);
    let objects = [
        object("Service", "web", "", "web"),
        object("Deployment", "db", "far", "db"),
        object("ConfigMap", "kept", "", ""),
    ];
    let spans = traced(&app, &status(&steps, &services), Rollout::Failed, &objects);
    let wanted = "\
rollout shop/web 10.5-40 failed: step c failed
  step web 10.5-15 ok
    component web 12-12 ok
      Service web 12-12
  step say 15-16 ok
  step all 11-30 failed: 
    step c 20-30 failed: dispatch refused
      * Execute: dispatch refused
      component db 12-40 failed: no image
        Deployment db 12-40
  component free 12-12 ok
  ConfigMap kept 10.5-40
";
    assert_eq!(tree(&spans), wanted);
}

#[test]
fn ids_follow_from_the_rollout() {
    let steps = json!([step("web", "apply-component", "succeeded", ("10", "15"))]);
    let (app, status) = (app(&json!({}), &json!([])), status(&steps, &json!([])));
    let again = || traced(&app, &status, Rollout::Succeeded, &[]);
    assert_eq!(again(), again());
    let ids: HashMap<_, _> = again().iter().map(|span| (span.span_context.span_id(), ())).collect();
    assert_eq!(ids.len(), again().len());
    let mut other = status.clone();
    other.workflow.as_mut().unwrap().app_revision = "web-v4".into();
    let other = traced(&app, &other, Rollout::Succeeded, &[]);
    assert_ne!(other[0].span_context.trace_id(), again()[0].span_context.trace_id());
}

#[test]
fn a_pipeline_that_is_traced_is_the_parent() {
    let status = status(&json!([]), &json!([]));
    let traced = |parent: &str| {
        let annotations = json!({"app.oam.dev/traceparent": parent});
        traced(&app(&annotations, &json!([])), &status, Rollout::Succeeded, &[])
    };
    let spans = traced(CALLER);
    assert_eq!(spans[0].span_context.trace_id().to_string(), &CALLER[3..35]);
    assert_eq!(spans[0].parent_span_id.to_string(), &CALLER[36..52]);
    assert!(spans[0].parent_span_is_remote);
    // It decided against being traced.
    assert_eq!(traced(&CALLER.replace("-01", "-00")), []);
    let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for not_valid in ["", "x", zero, &CALLER.repeat(5), "00-é-b7ad6b7169203331-01"] {
        let spans = traced(not_valid);
        assert_eq!(spans[0].parent_span_id, SpanId::INVALID, "{not_valid}");
        assert_ne!(spans[0].span_context.trace_id().to_string(), &CALLER[3..35], "{not_valid}");
    }
}

#[test]
fn what_somebody_writes_into_a_status_makes_no_large_trace() {
    let long = "é".repeat(5_000);
    let steps: Vec<Value> = (0..3_000)
        .map(|number| step(&format!("{number}"), &long, "succeeded", ("59", "10")))
        .collect();
    let app = app(&json!({}), &json!([]));
    let mut status = status(&json!(steps), &json!([service("a", "", false)]));
    status.conditions[0].message = long.clone();
    status.services[0].message = long;
    let spans = traced(&app, &status, Rollout::Failed, &[]);
    assert_eq!(spans.len(), 2_000);
    let root = &spans[0];
    assert!(root.attributes.iter().any(|one| one.key.as_str() == "vela.spans.dropped"));
    for span in &spans {
        assert!(span.start_time <= span.end_time && span.end_time <= root.end_time);
        let values = span.attributes.iter().map(|one| one.value.as_str().chars().count());
        assert!(values.max().unwrap_or(0) <= 1_000 && span.name.chars().count() <= 1_100);
    }
}
