//! Every built-in step with a real effect: the examples of `docs/workflow.md`, one Application each.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use vela_tests::fixtures::{Space, until};
use vela_tests::material;
use vela_tests::wire::message;

/// Patience for one example on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The examples by heading.
fn examples() -> BTreeMap<String, String> {
    let path = material::workspace().join("docs/workflow.md");
    let text = std::fs::read_to_string(path).unwrap();
    let sections = text.split("\n### ").skip(1);
    sections
        .map(|section| {
            let (name, rest) = section.split_once('\n').unwrap();
            let (_, code) = rest.split_once("```yaml\n").unwrap();
            (name.trim().to_owned(), code.split("```").next().unwrap().to_owned())
        })
        .collect()
}

/// What was sent to the outside.
pub(crate) type Heard = Arc<Mutex<Vec<String>>>;

/// Answers HTTP requests: as Prometheus, and with JSON.
pub(crate) async fn receiver(heard: Heard) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let Ok((head, body)) = message(&mut stream).await else { return };
                let text = head + &String::from_utf8_lossy(&body);
                let body = if text.contains("/api/v1/query") {
                    json!({"status": "success", "data": {"resultType": "scalar", "result": [1, "0.99"]}})
                } else {
                    json!({"answer": "forty-two"})
                };
                let body = body.to_string();
                heard.lock().push(text);
                let answer =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

/// Takes mails.
async fn mail_server(heard: Heard) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                stream.get_mut().write_all(b"220 hi\r\n").await.unwrap();
                let (mut mail, mut in_text) = (String::new(), false);
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                        return;
                    }
                    mail.push_str(&line);
                    let answer = match line.split_whitespace().next().unwrap_or_default() {
                        "." if in_text => {
                            in_text = false;
                            heard.lock().push(format!("MAIL {mail}"));
                            "250 taken\r\n"
                        }
                        _ if in_text => continue,
                        "EHLO" => "250-hi\r\n250 AUTH PLAIN\r\n",
                        "AUTH" => "235 ok\r\n",
                        "DATA" => {
                            in_text = true;
                            "354 go\r\n"
                        }
                        _ => "250 ok\r\n",
                    };
                    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    port
}

/// Makes what the examples find already there.
async fn prepare(space: &Space, address: &str) {
    let secret = |name: &str, data: Value| {
        serde_json::from_value::<Secret>(json!({"metadata": {"name": name}, "stringData": data}))
            .unwrap()
    };
    let database = json!({"DB_HOST": "db", "DB_PORT": "5432", "DB_NAME": "shop", "DB_USER": "u", "DB_PASSWORD": "p"});
    let address = json!({"slack": format!("http://{address}/hook")});
    // what the Terraform controller would write
    let bucket = |step: &str| {
        let name = format!("bucket-{}-staging", name_of(step));
        secret(&name, json!({"BUCKET": step}))
    };
    for secret in [
        secret("database", database),
        secret("addresses", address),
        bucket("deploy-cloud-resource"),
        bucket("share-cloud-resource"),
    ] {
        space.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    }
    let needed = format!(
        "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {{name: needed-app, namespace: {}}}\nspec: {{components: [{{name: needed, type: k8s-objects, properties: {{objects: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: needed}}}}]}}}}]}}\n",
        space.name()
    );
    let map: ConfigMap = serde_json::from_value(
        json!({"metadata": {"name": "needed-app"}, "data": {"application": needed}}),
    )
    .unwrap();
    space.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "old", "labels": {"purpose": "x-clean-jobs"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap();
    space.api::<Job>().create(&PostParams::default(), &job).await.unwrap();
    // kinds of the Terraform controller, and what its add-on brings
    let definitions: Api<CustomResourceDefinition> = Api::all(space.client());
    for (kind, plural, version) in
        [("Configuration", "configurations", "v1beta2"), ("Provider", "providers", "v1beta1")]
    {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.terraform.core.oam.dev")},
            "spec": {
                "group": "terraform.core.oam.dev", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": version, "served": true, "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        let name = format!("{plural}.terraform.core.oam.dev");
        let params = PatchParams::apply("test").force();
        definitions.patch(&name, &params, &Patch::Apply(&definition)).await.unwrap();
        let version = format!("terraform.core.oam.dev/{version}");
        until("the kind", LIMIT, async || space.serves(&version, kind).await).await;
    }
    let params = PatchParams::apply("test").force();
    let bucket = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
        "metadata": {"name": "example-bucket"},
        "spec": {
            "workload": {"definition": {
                "apiVersion": "terraform.core.oam.dev/v1beta2", "kind": "Configuration"}},
            "schematic": {"terraform": {"configuration": "resource \"example_bucket\" \"b\" {}"}},
        },
    });
    let made = space.objects("core.oam.dev/v1beta1", "ComponentDefinition");
    made.patch("example-bucket", &params, &Patch::Apply(&bucket)).await.unwrap();
    let template = r#"
        metadata: {name: "terraform-alibaba", scope: "system", sensitive: false}
        template: {
            outputs: provider: {
                apiVersion: "terraform.core.oam.dev/v1beta1"
                kind:       "Provider"
                metadata: {name: parameter.name, namespace: context.namespace}
                spec: provider: "alibaba"
            }
            parameter: {
                name:                string
                ALICLOUD_ACCESS_KEY: string
                ALICLOUD_SECRET_KEY: string
                ALICLOUD_REGION:     string
            }
        }"#;
    let template = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config-template-terraform-alibaba", "namespace": "vela-system"},
        "data": {"template": template},
    });
    let maps: Api<ConfigMap> = Api::namespaced(space.client(), "vela-system");
    maps.patch("config-template-terraform-alibaba", &params, &Patch::Apply(&template))
        .await
        .unwrap();
}

fn name_of(step: &str) -> String {
    format!("x-{step}")
}

async fn begin(space: &Space, step: &str, example: &str, address: &str, port: u16) {
    let name = name_of(step);
    let example = example
        .replace("NAMESPACE", space.name())
        .replace("NAME", &name)
        .replace("http://receiver.example", &format!("http://{address}"))
        .replace("port: 2525", &format!("port: {port}"));
    let steps: Value = serde_saphyr::from_str(&example).unwrap();
    // components of their own: a Deployment belongs to one Application
    let front = format!("front-{step}");
    let steps: Value = serde_json::from_str(
        &steps.to_string().replace("\"component\":\"front\"", &format!("\"component\":{front:?}")),
    )
    .unwrap();
    let mut components = vec![json!({"name": front, "type": "webservice", "properties": {
        "image": "nginx", "ports": [{"port": 80, "expose": true}]}})];
    if step.ends_with("-cloud-resource") {
        let connection = json!({"name": format!("bucket-{name}")});
        components.push(json!({"name": format!("bucket-{step}"), "type": "example-bucket",
            "properties": {"writeConnectionSecretToRef": connection}}));
    }
    let environments = json!({"envs": [{"name": "staging", "placement": {
        "clusterSelector": {"name": "local"}, "namespaceSelector": {"name": "default"}}}]});
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": name},
        "spec": {
            "components": components,
            "policies": [
                {"name": "here", "type": "topology", "properties": {"clusters": ["local"]}},
                {"name": "environments", "type": "env-binding", "properties": environments},
            ],
            "workflow": {"steps": steps},
        },
    }))
    .unwrap();
    space.applications().create(&PostParams::default(), &object).await.unwrap();
}

/// Plays the other controllers: the Pod of a build ends, Terraform is ready.
async fn others(space: &Space) {
    let dynamic = |version: &str, kind: &str| {
        space.objects(&format!("terraform.core.oam.dev/{version}"), kind)
    };
    loop {
        for (api, status) in [
            (dynamic("v1beta2", "Configuration"), json!({"apply": {"state": "Available"}})),
            (dynamic("v1beta1", "Provider"), json!({"state": "ready"})),
        ] {
            for object in
                api.list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default()
            {
                let patch = Patch::Merge(json!({"status": status}));
                let name = object.metadata.name.unwrap();
                let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
            }
        }
        let pods = space.api::<Pod>();
        for pod in pods.list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default() {
            let name = pod.metadata.name.unwrap();
            let phase = pod.status.and_then(|s| s.phase).unwrap_or_default();
            if name.ends_with("-kaniko") && phase == "Running" {
                let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
                let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The message of the last step.
fn last_message(application: &DynamicObject) -> String {
    let steps = application.data["status"]["workflow"]["steps"].as_array().unwrap();
    steps.last().unwrap()["message"].as_str().unwrap_or_default().to_owned()
}

async fn check(space: &Space, step: &str, heard: &Heard) {
    let name = name_of(step);
    let mut last = Value::Null;
    until(&format!("example {step}"), LIMIT, async || {
        let application = space.applications().get(&name).await.unwrap();
        last = application.data["status"].clone();
        let phase = last["status"].as_str().unwrap_or_default();
        assert!(!["workflowFailed", "workflowTerminated"].contains(&phase), "{step}: {last:#}");
        phase == "running"
    })
    .await;
    let application = space.applications().get(&name).await.unwrap();
    let message = last_message(&application);
    let requests = |path: &str| -> Vec<String> {
        heard.lock().iter().filter(|text| text.contains(path)).cloned().collect()
    };
    let data = async |name: &str| space.api::<ConfigMap>().get(name).await.unwrap().data.unwrap();
    let secret = async |name: &str| space.api::<Secret>().get_opt(name).await.unwrap();
    match step {
        "apply-component"
        | "deploy"
        | "apply-application"
        | "apply-application-in-parallel"
        | "apply-remaining" => {
            let front = space.api::<Deployment>().get(&format!("front-{step}")).await.unwrap();
            assert_eq!(front.metadata.labels.unwrap()["app.oam.dev/name"], name);
        }
        "deploy2runtime" => {
            assert!(
                space.api::<Deployment>().get_opt("front-deploy2runtime").await.unwrap().is_some()
            );
        }
        "deploy2env" => {
            let there: Api<Deployment> = Api::namespaced(space.client(), "default");
            let front = there.get("front-deploy2env").await.unwrap();
            assert_eq!(front.metadata.labels.unwrap()["app.oam.dev/name"], name);
        }
        "deploy-cloud-resource" | "share-cloud-resource" => {
            let there: Api<Secret> = Api::namespaced(space.client(), "default");
            let copy = there.get(&format!("bucket-{name}")).await.unwrap();
            assert_eq!(copy.data.unwrap()["BUCKET"].0, step.as_bytes());
            assert_eq!(copy.metadata.labels.unwrap()["app.oam.dev/env-name"], "staging");
        }
        "apply-object" => assert_eq!(data("made-by-object").await["colour"], "red"),
        "apply-deployment" => {
            let made = space.api::<Deployment>().get("small-server").await.unwrap();
            assert_eq!(made.status.unwrap().ready_replicas, Some(2));
        }
        "apply-terraform-config" => {
            let all = space.objects("terraform.core.oam.dev/v1beta2", "Configuration");
            let made = all.get(&format!("{name}-bucket")).await.unwrap();
            assert_eq!(made.data["spec"]["variable"]["name"], "example");
        }
        "apply-terraform-provider" => {
            let all = space.objects("terraform.core.oam.dev/v1beta1", "Provider");
            assert_eq!(
                all.get("example-provider").await.unwrap().data["spec"]["provider"],
                "alibaba"
            );
            assert!(secret(&format!("{name}-provider")).await.is_some());
        }
        "build-push-image" => {
            let pods = space.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
            let built =
                pods.iter().filter(|p| p.metadata.name.as_deref().unwrap().ends_with("-kaniko"));
            assert_eq!(built.count(), 1);
        }
        "check-metrics" => {
            let asked = requests("/api/v1/query");
            assert!(asked.len() >= 2 && asked[0].contains("query=sum%28up%29"), "{asked:?}");
        }
        "clean-jobs" => {
            until("the Job is gone", LIMIT, async || {
                space.api::<Job>().get_opt("old").await.unwrap().is_none()
            })
            .await;
        }
        "collect-service-endpoints" => {
            assert_eq!(message, format!("http://front-{step}.{}:80", space.name()));
            assert!(
                space.api::<Service>().get_opt(&format!("front-{step}")).await.unwrap().is_some()
            );
        }
        "create-config" => assert!(secret(&format!("{name}-made")).await.is_some()),
        // What comes from a Secret is in no message.
        "read-config" => assert_eq!(message, "***"),
        "list-config" => assert_eq!(message, "0 configs"),
        "delete-config" => assert!(secret(&format!("{name}-gone")).await.is_none()),
        "depends-on-app" => {
            space.running("needed-app").await;
        }
        "export-data" => assert_eq!(data("exported-data").await["colour"], "blue"),
        "export-service" => {
            assert!(space.api::<Service>().get_opt("exported-service").await.unwrap().is_some());
        }
        "export2config" => assert_eq!(data("exported-config").await["colour"], "green"),
        "export2secret" => {
            let made = secret("exported-secret").await.unwrap().data.unwrap();
            assert_eq!(made["password"].0, b"very-secret");
        }
        "generate-jdbc-connection" => {
            // It is made with a password.
            assert_eq!(message, "***");
        }
        "notification" => {
            let posted = requests("POST /hook");
            assert_eq!(posted.len(), 1, "{posted:?}");
            assert!(posted[0].contains(&format!("{name} is deployed")));
            let mails = requests("MAIL ");
            assert_eq!(mails.len(), 1, "{mails:?}");
            assert!(mails[0].contains("RCPT TO:<team@example.com>"));
            let text = base64::engine::general_purpose::STANDARD.encode("<b>deployed</b>");
            assert!(mails[0].contains(&text));
        }
        "print-message-in-status" => assert_eq!(message, "half way"),
        "read-object" => assert_eq!(message, "Opaque"),
        "request" => {
            let posted = requests("POST /request");
            assert_eq!(posted.len(), 1, "{posted:?}");
            assert!(posted[0].contains(&format!("{{\"question\":\"{name}\"}}")));
            assert_eq!(message, "forty-two");
        }
        "restart-workflow" => {
            until("the restart is planned", LIMIT, async || {
                let application = space.applications().get(&name).await.unwrap();
                application.data["status"]["workflowRestartScheduledAt"] == "2099-01-01T00:00:00Z"
            })
            .await;
        }
        "step-group" => {
            let group = &application.data["status"]["workflow"]["steps"][0];
            assert_eq!(group["subSteps"][1]["message"], "two");
        }
        "suspend" => {
            let step = &application.data["status"]["workflow"]["steps"][0];
            assert_ne!(step["firstExecuteTime"], step["lastExecuteTime"]);
        }
        "vela-cli" => {
            let jobs = space.api::<Job>().list(&ListParams::default()).await.unwrap().items;
            let made = jobs.iter().find(|j| j.metadata.name.as_deref().unwrap().starts_with(&name));
            assert_eq!(made.unwrap().status.as_ref().unwrap().succeeded, Some(1));
        }
        "webhook" => {
            let posted = requests("POST /webhook");
            assert_eq!(posted.len(), 1, "{posted:?}");
            assert!(posted[0].ends_with(&format!("{{\"from\":\"{name}\"}}")));
        }
        other => panic!("docs/workflow.md shows {other}, and this test does not know its effect"),
    }
    // what a step read from a Secret is in no status
    assert!(!application.data.to_string().contains("/hook"), "{step} shows a secret address");
}

#[tokio::test]
async fn the_examples_of_all_steps_do_what_they_say() {
    let examples = examples();
    let definitions = material::workspace().join("charts/vela-core/definitions/workflow-step");
    for entry in std::fs::read_dir(definitions).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".cue");
        assert!(examples.contains_key(name), "docs/workflow.md has no example of {name}");
    }
    let space = Space::with_programs("allsteps").await;
    let heard = Heard::default();
    let address = receiver(Arc::clone(&heard)).await;
    let port = mail_server(Arc::clone(&heard)).await;
    prepare(&space, &address).await;
    for (step, example) in &examples {
        begin(&space, step, example, &address, port).await;
    }
    let checks = join_all(examples.keys().map(|step| {
        let check = AssertUnwindSafe(check(&space, step, &heard)).catch_unwind();
        check.map(move |outcome| (step, outcome.is_ok()))
    }));
    let failed: Vec<&String> = tokio::select! {
        ends = checks => ends.into_iter().filter(|(_, fine)| !fine).map(|(step, _)| step).collect(),
        () = others(&space) => Vec::new(),
    };
    assert!(failed.is_empty(), "these examples do not do what they say: {failed:?}");
}
