//! What a tenant does not get by way of the controller: contents of another's Secrets, deletions of objects that he may not
//! touch, series of metrics that he makes up.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

const LIMIT: Duration = Duration::from_secs(90);
/// The content of the Secret, as written and as the API server stores it.
const WORDS: [&str; 2] = ["pw-of-the-bank", "cHctb2YtdGhlLWJhbms="];

async fn started(name: &str) -> (Cluster, Deployed) {
    let cluster = Cluster::start(name).await.unwrap();
    let deployed = Deployed::start(&cluster, &binaries(), &Options::default()).await.unwrap();
    let admin = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    (cluster, deployed)
}

async fn create(tenant: &Tenant, kind: &str, name: &str, spec: &Value) {
    try_create(tenant, kind, name, spec).await.unwrap_or_else(|error| panic!("{name}: {error}"));
}

async fn try_create(
    tenant: &Tenant,
    kind: &str,
    name: &str,
    spec: &Value,
) -> kube::Result<DynamicObject> {
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    let api = tenant.objects(kind);
    // The authorizer learns of a new role through a watch.
    until("the right", LIMIT, async || api.get_opt("none").await.is_ok()).await;
    api.create(&PostParams::default(), &object).await
}

async fn status(tenant: &Tenant, name: &str) -> Value {
    tenant.objects("Application").get(name).await.unwrap().data["status"].clone()
}

fn objects_of(object: &Value) -> Value {
    json!({"objects": [object]})
}

fn secret(name: &str, namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}})
}

/// An Application that reads an object and hands what it holds to another component.
fn reads(component: &Value, policies: &Value) -> Value {
    let mut reader = component.clone();
    reader["name"] = json!("reader");
    reader["outputs"] = json!([{"name": "leak", "valueFrom": "output.data"}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leak"}});
    json!({"policies": policies, "components": [reader, {
        "name": "writer", "type": "k8s-objects", "properties": objects_of(&map),
        "inputs": [{"from": "leak", "parameterKey": "objects[0].data"}],
    }]})
}

/// Everything in the tenant's namespace that he may read.
async fn readable(tenant: &Tenant) -> Vec<(String, String)> {
    let kinds = [
        ("", "v1", "ConfigMap"),
        ("", "v1", "Secret"),
        ("", "v1", "Event"),
        ("core.oam.dev", "v1beta1", "Application"),
        ("core.oam.dev", "v1beta1", "ApplicationRevision"),
    ];
    let mut all = Vec::new();
    for (group, version, kind) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = tenant.client().clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, tenant.name(), &resource);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let name = format!("{kind} {}", object.metadata.name.clone().unwrap_or_default());
            all.push((name, serde_json::to_string(&object).unwrap()));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_may_not_read_no_application_of_his_reads() {
    let (cluster, deployed) = started("reads").await;
    let bank = Tenant::new(&cluster, "bank").await.unwrap();
    let thief = Tenant::new(&cluster, "thief").await.unwrap();
    let mut written = secret("creds", "bank");
    written["stringData"] = json!({"password": WORDS[0]});
    let ledger = json!({"components": [
        {"name": "c", "type": "k8s-objects", "properties": objects_of(&written)}]});
    create(&bank, "Application", "ledger", &ledger).await;
    until("the owner's Application", LIMIT, async || {
        status(&bank, "ledger").await["status"] == "running"
    })
    .await;
    let theirs: Api<Secret> = Api::namespaced(thief.client().clone(), "bank");
    assert!(theirs.get("creds").await.is_err());

    let template = r#"output: {apiVersion: "v1", kind: "Secret", metadata: {name: "creds", namespace: "bank"}}
parameter: {}"#;
    let peek = json!({
        "workload": {"type": "autodetects.core.oam.dev"},
        "schematic": {"cue": {"template": template}},
        "status": {"customStatus": r#"message: "x\(context.output.data.password)""#},
    });
    create(&thief, "ComponentDefinition", "peek", &peek).await;
    let rules = json!({"rules": [{"selector": {"resourceTypes": ["Secret"]}}]});
    let policy = |type_: &str| json!([{"name": "p", "type": type_, "properties": rules}]);
    let plain = json!({"type": "k8s-objects", "properties": objects_of(&secret("creds", "bank"))});
    let reference = json!({"type": "ref-objects", "properties": objects_of(
        &json!({"resource": "secret", "name": "creds", "namespace": "bank"}))});
    let rows = [
        ("read-only", reads(&plain, &policy("read-only"))),
        ("shared", reads(&plain, &policy("shared-resource"))),
        ("taken-over", reads(&plain, &policy("take-over"))),
        ("plain", reads(&plain, &json!([]))),
        ("health", reads(&json!({"type": "peek", "properties": {}}), &policy("read-only"))),
    ];
    for (name, spec) in &rows {
        create(&thief, "Application", name, spec).await;
    }
    for (name, _) in &rows {
        until(&format!("{name} is refused"), LIMIT, async || {
            let text = status(&thief, name).await.to_string();
            text.contains("forbidden") || text.contains("bank/ledger")
        })
        .await;
    }
    // What an Application refers to is read at admission already, as its author.
    let refused =
        try_create(&thief, "Application", "reference", &reads(&reference, &json!([]))).await;
    let refused = refused.expect_err("a reference to another's Secret").to_string();
    assert!(refused.contains("cannot get secrets in namespace \"bank\""), "{refused}");
    for (what, text) in readable(&thief).await {
        assert!(!WORDS.iter().any(|word| text.contains(word)), "{what}: {text}");
    }
    let owned: Api<Secret> = Api::namespaced(bank.client().clone(), "bank");
    let labels = owned.get("creds").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["app.oam.dev/name"], "ledger");
    let log = std::fs::read_to_string(deployed.controller.log()).unwrap();
    assert!(!WORDS.iter().any(|word| log.contains(word)));
    deployed.check().unwrap();
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_written_by_hand_deletes_nothing_and_names_no_series() {
    let (cluster, deployed) = started("statuses").await;
    let tenant = Tenant::new(&cluster, "pointer").await.unwrap();
    let suspended =
        json!({"components": [], "workflow": {"steps": [{"name": "s", "type": "suspend"}]}});
    create(&tenant, "Application", "app", &suspended).await;
    let api = tenant.objects("Application");
    until("the step", LIMIT, async || {
        status(&tenant, "app").await["status"] == "workflowSuspending"
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(tenant.client().clone(), "pointer");
    let platform = json!({"metadata": {"name": "platform"}, "data": {"k": "v"}});
    let platform = serde_json::from_value(platform).unwrap();
    maps.create(&PostParams::default(), &platform).await.unwrap();

    // Each made-up phase is there until a reconcile of it writes its own.
    for n in 0..8 {
        let phase = format!("madeup{n}");
        let body = json!({"status": {
            "status": phase, "applicationPoliciesConfigMap": "platform",
            "workflow": {"contextBackend": {"apiVersion": "v1", "kind": "ConfigMap",
                "name": "platform", "namespace": "pointer"}},
        }});
        let patch = Patch::Merge(&body);
        api.patch_status("app", &PatchParams::default(), &patch).await.unwrap();
        let wake = json!({"metadata": {"annotations": {"note": phase}}});
        api.patch("app", &PatchParams::default(), &Patch::Merge(&wake)).await.unwrap();
        until("the controller's own phase", LIMIT, async || {
            status(&tenant, "app").await["status"] != phase.as_str()
        })
        .await;
    }
    let metrics = deployed.controller.metrics().await.unwrap();
    assert!(metrics.contains("workflowSuspending"), "the phase is a label: {metrics}");
    assert!(!metrics.contains("madeup"), "{metrics}");

    api.delete("app", &DeleteParams::default()).await.unwrap();
    until("it is gone", LIMIT, async || api.get_opt("app").await.unwrap().is_none()).await;
    assert!(maps.get("platform").await.is_ok(), "the ConfigMap of somebody else");
    deployed.check().unwrap();
    cluster.stop();
}
