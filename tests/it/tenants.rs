//! What a tenant does not get by way of the controller: contents of another's Secrets, deletions of objects that he may not
//! touch, objects of another namespace, series of metrics that he makes up. And what nobody gets: secret values in logs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
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
    started_with(name, &Options::default()).await
}

async fn started_with(name: &str, options: &Options) -> (Cluster, Deployed) {
    let cluster = Cluster::start(name).await.unwrap();
    let deployed = Deployed::start(&cluster, &binaries(), options).await.unwrap();
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

/// Deletes what bears a label in the other namespace.
const DELETES: &str = r#"import "vela/op"
gone: op.#Delete & {value: {apiVersion: "v1", kind: "ConfigMap", metadata: namespace: "mine"},
    filter: {namespace: "theirs", matchingLabels: mark: "theirs"}}
reported: op.#Fail & {message: gone.err}
parameter: {}"#;
/// The same, by name.
const DELETES_NAMED: &str = r#"import "vela/op"
gone: op.#Delete & {value: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "theirs", namespace: "theirs"}}}
reported: op.#Fail & {message: gone.err}
parameter: {}"#;
/// The same, with the namespace in the object only.
const DELETES_BY_VALUE: &str = r#"import ("vela/builtin", "vela/kube")
gone: kube.#Delete & {$params: {value: {apiVersion: "v1", kind: "ConfigMap", metadata: namespace: "theirs"},
    filter: matchingLabels: mark: "theirs"}}
reported: builtin.#Fail & {$params: message: gone.$returns.err}
parameter: {}"#;
/// Makes a config from a template.
const CONFIGURES: &str = r#"import "vela/config"
made: config.#CreateConfig & {$params: {name: "made", namespace: "mine", template: parameter.template, config: {}}}
parameter: template: string"#;

fn step_definition(template: &str) -> Value {
    json!({"schematic": {"cue": {"template": template}}})
}

/// A config template whose Secret holds a word, and which makes an object of another namespace in addition to it.
fn config_template(word: &str) -> Value {
    let template = format!(
        r#"template: {{
    parameter: {{}}
    output: {{apiVersion: "v1", kind: "Secret", stringData: word: "{word}"}}
    outputs: a: {{apiVersion: "v1", kind: "ConfigMap", metadata: {{name: "foisted", namespace: "theirs"}}, data: k: "v"}}
}}"#
    );
    json!({"template": template})
}

async fn map(client: &kube::Client, namespace: &str, name: &str, data: &Value) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = json!({"metadata": {"name": name, "labels": {"mark": name}}, "data": data});
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
}

/// Neither the rights of an author nor the flag that keeps Applications to their namespace is got around by labels, by what a
/// config template makes, or by a template of somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_another_namespace_is_neither_deleted_nor_made_nor_read() {
    let flag = "--allow-cross-namespace-resource=false".to_owned();
    let closed = Options {
        values: vec!["authentication.enabled=false".to_owned()],
        controller_flags: vec![flag],
        ..Options::default()
    };
    for (name, options, refusal) in [
        ("authors", Options::default(), "forbidden"),
        ("closed", closed, "is in another namespace"),
    ] {
        let (cluster, deployed) = started_with(name, &options).await;
        let admin = cluster.client().await.unwrap();
        Tenant::new(&cluster, "theirs").await.unwrap();
        let mine = Tenant::new(&cluster, "mine").await.unwrap();
        map(&admin, "theirs", "theirs", &json!({"k": "v"})).await;
        map(&admin, "theirs", "config-template-t", &config_template(WORDS[0])).await;
        map(&admin, "mine", "config-template-t", &config_template("own")).await;
        for (type_, template) in [
            ("deletes", DELETES),
            ("deletes-named", DELETES_NAMED),
            ("deletes-by-value", DELETES_BY_VALUE),
            ("configures", CONFIGURES),
        ] {
            create(&mine, "WorkflowStepDefinition", type_, &step_definition(template)).await;
        }
        let config = |template: &str| json!({ "template": template });
        let rows = [
            ("labels", "deletes", json!({})),
            ("name", "deletes-named", json!({})),
            ("value", "deletes-by-value", json!({})),
            ("outputs", "configures", config("mine/t")),
            ("template", "configures", config("theirs/t")),
        ];
        for (app, type_, properties) in &rows {
            let step = json!({"name": "s", "type": type_, "properties": properties});
            let spec = json!({"components": [], "workflow": {"steps": [step]}});
            create(&mine, "Application", app, &spec).await;
        }
        for (app, ..) in &rows {
            until(&format!("{name}: {app} is refused"), LIMIT, async || {
                let text = status(&mine, app).await.to_string();
                text.to_lowercase().contains(refusal)
            })
            .await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "theirs");
        assert!(maps.get_opt("theirs").await.unwrap().is_some(), "{name}");
        assert!(maps.get_opt("foisted").await.unwrap().is_none(), "{name}");
        for (what, text) in readable(&mine).await {
            assert!(!WORDS.iter().any(|word| text.contains(word)), "{name}: {what}: {text}");
        }
        deployed.check().unwrap();
        cluster.stop();
    }
}

/// Values that users write by mistake, and what a Secret holds that steps hand on, are in no log, no event and no status.
#[tokio::test(flavor = "multi_thread")]
async fn what_users_write_and_secrets_hold_is_in_no_log() {
    let (cluster, deployed) = started("logs").await;
    let tenant = Tenant::new(&cluster, "careless").await.unwrap();
    let login = r#"output: {apiVersion: "v1", kind: "Secret", metadata: name: context.name, stringData: p: parameter.password}
parameter: {password: string & =~"^[a-z]+$", port: int}"#;
    let late = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.name, data: p: string & parameter.password}
parameter: {password: _}"#;
    for (type_, template) in [("login", login), ("late", late)] {
        let spec = json!({"workload": {"type": "autodetects.core.oam.dev"}, "schematic": {"cue": {"template": template}}});
        create(&tenant, "ComponentDefinition", type_, &spec).await;
    }
    let fails = r#"import "vela/builtin"
f: builtin.#Fail & {$params: message: "the password is \(parameter.p)"}
parameter: {p: string}"#;
    let logs = r#"import "vela/op"
l: op.#Log & {data: {password: parameter.p}}
parameter: {p: string}"#;
    for (type_, template) in [("fails", fails), ("logs", logs)] {
        create(&tenant, "WorkflowStepDefinition", type_, &step_definition(template)).await;
    }
    let mut words = Vec::new();
    let mut word = || {
        let word = format!("{}", fastrand::u64(100_000_000_000..1_000_000_000_000));
        words.push(word.clone());
        word
    };
    let component = |type_: &str, properties: Value| json!({"components": [{"name": "c", "type": type_, "properties": properties}]});
    let number: u64 = word().parse().unwrap();
    let late: u64 = word().parse().unwrap();
    let refused = [
        component("login", json!({"password": number, "port": 1})),
        component("login", json!({"password": word(), "port": 1})),
        component("login", json!({"password": "a", "port": word()})),
        component("late", json!({"password": late})),
    ];
    for spec in &refused {
        let answer = try_create(&tenant, "Application", "refused", spec).await;
        assert!(answer.is_err(), "{spec}");
    }
    let template =
        format!("output: {{apiVersion: \"v1\", kind: \"Secret\"}}\nx: \"a\" & \"{}\"", word());
    let spec = json!({"workload": {"type": "autodetects.core.oam.dev"}, "schematic": {"cue": {"template": template}}});
    assert!(try_create(&tenant, "ComponentDefinition", "refused", &spec).await.is_err());

    let secrets: Api<Secret> = Api::namespaced(tenant.client().clone(), tenant.name());
    let mut store = async |name: &str| {
        let secret = json!({"metadata": {"name": name}, "stringData": {"p": word()}});
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    };
    store("failed").await;
    store("logged").await;
    let hands_on = |name: &str, type_: &str| {
        json!({"components": [], "workflow": {"steps": [
            {"name": "read", "type": "read-object",
             "properties": {"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": "careless"},
             "outputs": [{"name": "p", "valueFrom": "output.value.data.p"}]},
            {"name": "say", "type": type_, "inputs": [{"from": "p", "parameterKey": "p"}]},
        ]}})
    };
    create(&tenant, "Application", "fails", &hands_on("failed", "fails")).await;
    create(&tenant, "Application", "logs", &hands_on("logged", "logs")).await;
    let mut made = secret("made", "careless");
    made["stringData"] = json!({"p": word()});
    create(&tenant, "Application", "makes", &component("k8s-objects", objects_of(&made))).await;
    for (name, phase) in [("fails", "workflowFailed"), ("logs", "running"), ("makes", "running")] {
        until(name, LIMIT, async || status(&tenant, name).await["status"] == phase).await;
    }
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let mut shown = vec![
        ("the webhook's log".to_owned(), read(deployed.webhook.log())),
        ("the controller's log".to_owned(), read(deployed.controller.log())),
    ];
    let is_event = |(what, _): &(String, String)| what.starts_with("Event ");
    until("events", LIMIT, async || readable(&tenant).await.iter().any(is_event)).await;
    let mut seen = readable(&tenant).await;
    seen.retain(|(what, _)| what.starts_with("Event ") || what.starts_with("Application "));
    for (what, text) in &mut seen {
        if what.starts_with("Application ") {
            // The spec is the user's own.
            *text = serde_json::from_str::<Value>(text).unwrap()["status"].to_string();
        }
    }
    shown.append(&mut seen);
    for word in &words {
        let coded = BASE64.encode(word);
        for (what, text) in &shown {
            assert!(!text.contains(word) && !text.contains(&coded), "{word} in {what}: {text}");
        }
    }
    deployed.check().unwrap();
    cluster.stop();
}
