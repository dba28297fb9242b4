//! What programs read of an Application on a real API server: its conditions and columns, the spec that is back after a failure, the
//! schema for editors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::fixtures::{self, Space};

use crate::steps::{Heard, receiver};

fn map(name: &str) -> Value {
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": "1"}}]}})
}

/// An object that no API server takes.
fn web() -> Value {
    json!({"name": "web", "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}, "data": {"v": "1"}}]}})
}

async fn create(space: &Space, name: &str, annotations: Value, spec: Value) -> DynamicObject {
    let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec});
    let object = serde_json::from_value(object).unwrap();
    space.applications().create(&PostParams::default(), &object).await.unwrap()
}

/// The status of a condition with its reason; empty without it.
fn condition(app: &DynamicObject, type_: &str) -> (String, String) {
    let conditions = app.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|one| one["type"] == type_);
    let text = |key: &str| found.and_then(|one| one[key].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Waits for an Application of which something holds.
async fn until(space: &Space, name: &str, holds: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let app = space.applications().get(name).await.unwrap();
        if holds(&app) {
            return app;
        }
        assert!(Instant::now() < deadline, "{name}: {:#}", app.data);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn a_status_says_what_programs_need() {
    let space = Space::with_programs("contract").await;
    let made = create(&space, "good", json!({}), json!({"components": [map("good")]})).await;
    assert_eq!(made.data["status"]["observedGeneration"], -1, "nobody takes it for ready");
    let good = until(&space, "good", |app| condition(app, "Ready").0 == "True").await;
    assert_eq!(condition(&good, "Ready"), is("True", "ReconcileSuccess"));
    for absent in ["Reconciling", "Stalled"] {
        assert_eq!(condition(&good, absent), is("", ""), "{absent}");
    }
    assert_eq!(good.data["status"]["observedGeneration"].as_i64(), good.metadata.generation);

    let waits = json!({"components": [map("waits")], "workflow": {"steps": [{"name": "approve", "type": "suspend"}]}});
    create(&space, "waits", json!({}), waits).await;
    let waits = until(&space, "waits", |app| condition(app, "Ready").1 == "Suspended").await;
    assert_eq!(condition(&waits, "Ready").0, "Unknown");
    assert_eq!(condition(&waits, "Reconciling"), is("True", "Suspended"));

    let fails = json!({"components": [web()], "workflow": {"steps": [
        {"name": "deploy", "type": "apply-component", "timeout": "2s", "properties": {"component": "web"}}]}});
    create(&space, "fails", json!({}), fails).await;
    let fails = until(&space, "fails", |app| condition(app, "Ready").0 == "False").await;
    assert_eq!(condition(&fails, "Ready"), is("False", "Failed"));
    assert_eq!(condition(&fails, "Stalled"), is("True", "Failed"));
    assert_eq!(condition(&fails, "Reconciling"), is("", ""));

    // As `kubectl get` shows it.
    let request = http::Request::get(format!(
        "/apis/core.oam.dev/v1beta1/namespaces/{}/applications",
        space.name()
    ))
    .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    .body(Vec::new())
    .unwrap();
    let table: Value = space.client().request(request).await.unwrap();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    let cell = |row: &Value, column: &str| {
        let at = columns.iter().position(|known| *known == column).unwrap();
        row["cells"][at].as_str().unwrap_or_default().to_owned()
    };
    let rows: Vec<[String; 3]> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            ["NAME", "READY", "REASON"].map(|column| {
                let column = if column == "NAME" { "Name" } else { column };
                cell(row, column)
            })
        })
        .collect();
    assert_eq!(
        rows,
        [
            ["fails", "False", "Failed"],
            ["good", "True", "ReconcileSuccess"],
            ["waits", "Unknown", "Suspended"]
        ]
        .map(|row| row.map(str::to_owned))
    );
}

#[tokio::test]
async fn a_rollout_that_fails_puts_the_last_spec_back() {
    let space = Space::with_programs("on-failure").await;
    let spec = |components: Value, step: Value| json!({"components": components, "workflow": {"steps": [step]}});
    let step = |component: &str| json!({"name": "deploy", "type": "apply-component", "timeout": "2s", "properties": {"component": component}});
    let good = spec(json!([map("good")]), step("good"));
    create(&space, "shop", json!({"app.oam.dev/on-failure": "rollback"}), good.clone()).await;
    space.running("shop").await;
    let bad = json!({"spec": spec(json!([web()]), step("web"))});
    let api = space.applications();
    api.patch("shop", &PatchParams::default(), &Patch::Merge(&bad)).await.unwrap();
    let back = until(&space, "shop", |app| {
        let annotations = app.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key("app.oam.dev/rolled-back-from"))
            && app.data["status"]["status"] == "running"
    })
    .await;
    assert_eq!(back.data["spec"]["components"], good["components"]);
    assert_eq!(condition(&back, "Ready"), is("True", "ReconcileSuccess"));
    assert_eq!(back.metadata.generation, Some(3));
    let map = space.api::<ConfigMap>().get("good").await.unwrap();
    let inherited = map.metadata.annotations.unwrap_or_default();
    assert!(!inherited.keys().any(|key| key.contains("on-failure") || key.contains("rolled-back")));
}

#[tokio::test]
async fn a_transition_is_one_message_whose_address_nobody_else_reads() {
    const TOKEN: &str = "token-of-the-chat";
    let space = Space::with_programs("notify").await;
    let heard = Heard::default();
    let address = receiver(Arc::clone(&heard)).await;
    let url = json!({"url": format!("http://{address}/services/{TOKEN}")});
    let config = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chat"},
        "stringData": {"input-properties": url.to_string()}});
    let config = serde_json::from_value(config).unwrap();
    space.api::<Secret>().create(&PostParams::default(), &config).await.unwrap();
    let spec = |component: Value, name: &str| {
        json!({"components": [component], "workflow": {"steps": [
            {"name": "deploy", "type": "apply-component", "timeout": "2s", "properties": {"component": name}}]}})
    };
    create(&space, "shop", json!({"app.oam.dev/notify": "chat"}), spec(web(), "web")).await;
    until(&space, "shop", |app| condition(app, "Notified").1 == "RolloutFailed").await;
    let patch = json!({"spec": spec(map("good"), "good")});
    let api = space.applications();
    api.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until(&space, "shop", |app| condition(app, "Notified").1 == "Recovered").await;
    fixtures::until("both messages come", Duration::from_secs(30), async || {
        heard.lock().len() >= 2
    })
    .await;
    // Another reconcile of the same state sends nothing.
    let touched = json!({"metadata": {"annotations": {"example.com/touched": "1"}}});
    api.patch("shop", &PatchParams::default(), &Patch::Merge(&touched)).await.unwrap();
    until(&space, "shop", |app| app.data["status"]["status"] == "running").await;
    let log = space.cluster().audit_log();
    fixtures::quiet(&log, Duration::from_secs(2), |entry| {
        entry.namespace == space.name() && entry.is_controllers()
    })
    .await;
    let heard = heard.lock().clone();
    let messages: Vec<Value> = heard
        .iter()
        .map(|text| serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect();
    let states: Vec<&Value> = messages.iter().map(|message| &message["state"]).collect();
    assert_eq!(states, ["RolloutFailed", "Recovered"], "{messages:#?}");
    assert_eq!(messages[0]["application"]["name"], "shop");
    let app = api.get("shop").await.unwrap();
    let events = space.api::<Event>().list(&ListParams::default()).await.unwrap();
    let mut said = format!("{:?}{:?}", app.data, events.items);
    let programs = fixtures::deployed().await;
    for program in [&programs.controller, &programs.webhook] {
        said.push_str(&std::fs::read_to_string(program.log()).unwrap());
    }
    assert!(said.contains("shop") && !said.contains(TOKEN));
}

#[tokio::test]
async fn editors_find_the_schema_of_applications() {
    let space = Space::with_programs("schema").await;
    let maps: Api<ConfigMap> = Api::namespaced(space.client(), "vela-system");
    let deadline = Instant::now() + Duration::from_secs(60);
    let text = loop {
        let found = maps.get_opt("vela-application-schema").await.unwrap();
        if let Some(text) = found.and_then(|map| map.data?.remove("application.json")) {
            break text;
        }
        assert!(Instant::now() < deadline, "the schema does not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let schema: Value = serde_json::from_str(&text).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let app = |properties: Value| {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"components": [{"name": "web", "type": "webservice", "properties": properties}]}})
    };
    assert!(schema.is_valid(&app(json!({"image": "acme/web:2"}))));
    assert!(!schema.is_valid(&app(json!({"imagee": "acme/web:2"}))));
}
