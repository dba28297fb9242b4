//! Components that are charts, on the real control plane: fetched from a repository and a registry on loopback, released, upgraded,
//! repaired, taken over, removed.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings, USER};
use vela_tests::controlplane::Programs;
use vela_tests::fixtures::{Space, until};

pub(super) const LIMIT: Duration = Duration::from_secs(90);

pub(super) const VALUES: &str = "greeting: hello\nextra: false\n";
pub(super) const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-map
data:
  greeting: {{ .Values.greeting | quote }}
  revision: {{ .Release.Revision | quote }}
  version: {{ .Chart.Version }}
  password: {{ randAlphaNum 12 | quote }}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-extra
{{- end }}
";

/// A chart of one ConfigMap, or two.
const CHART: [(&str, &str); 2] = [("values.yaml", VALUES), ("templates/map.yaml", MAP)];

pub(super) async fn server(settings: Settings) -> ChartServer {
    let server = ChartServer::start(settings).await.unwrap();
    server.publish("web", "1.0.0", &CHART).unwrap();
    server
}

pub(super) fn component(server: &ChartServer, more: Value) -> Value {
    let mut properties = json!({
        "chart": {
            "source": "web", "version": "1.0.0",
            "repoURL": format!("http://{}/charts", server.address()),
        },
        "release": {"name": "web"},
    });
    merge(&mut properties, more);
    json!([{"name": "web", "type": "helmchart", "properties": properties}])
}

pub(super) fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

pub(super) async fn edit(space: &Space, components: Value) {
    let patch = json!({"spec": {"components": components}});
    let patch = Patch::Merge(&patch);
    space.applications().patch("a", &PatchParams::default(), &patch).await.unwrap();
}

pub(super) async fn data(space: &Space, name: &str, key: &str) -> Option<String> {
    let map = space.api::<ConfigMap>().get_opt(name).await.unwrap()?;
    map.data?.get(key).cloned()
}

/// The release's records: revision and status, the oldest first.
pub(super) async fn records(space: &Space, release: &str) -> Vec<(i64, String)> {
    let selector = format!("owner=helm,name={release}");
    let list = ListParams::default().labels(&selector);
    let mut all: Vec<(i64, String)> = space
        .api::<Secret>()
        .list(&list)
        .await
        .unwrap()
        .into_iter()
        .map(|secret| {
            let labels = secret.metadata.labels.unwrap_or_default();
            let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
            (label("version").parse().unwrap(), label("status"))
        })
        .collect();
    all.sort();
    all
}

pub(super) fn revisions(all: &[(i64, &str)]) -> Vec<(i64, String)> {
    all.iter().map(|(revision, status)| (*revision, (*status).to_owned())).collect()
}

/// What the Helm client says.
pub(super) async fn helm(space: &Space, arguments: &[&str]) -> String {
    let mut command = Command::new(Programs::helm().unwrap());
    command.args(arguments).args(["--namespace", space.name()]);
    command.env("KUBECONFIG", space.cluster().kubeconfig());
    // The server that it may ask runs here.
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What the status says of the component, or of the step that failed.
pub(super) async fn complaint(space: &Space, part: &str) {
    until(&format!("a status that says {part:?}"), LIMIT, async || {
        let app = space.applications().get("a").await.unwrap();
        app.data["status"].to_string().contains(part)
    })
    .await;
}

#[tokio::test]
async fn a_release_lives_and_ends() {
    let space = Space::with_programs("helm").await;
    let server = server(Settings::default()).await;
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("hello"));
    assert_eq!(records(&space, "web").await, revisions(&[(1, "deployed")]));
    let password = data(&space, "web-map", "password").await.unwrap();
    let listed: Value = serde_json::from_str(&helm(&space, &["list", "-o", "json"]).await).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["status"]), (&json!("web"), &json!("deployed")));
    assert_eq!(listed[0]["chart"], "web-1.0.0");
    assert!(helm(&space, &["get", "manifest", "web"]).await.contains("name: web-map"));

    // Other values are another revision; what was generated stays.
    edit(&space, component(&server, json!({"values": {"greeting": "bye", "extra": true}}))).await;
    until("the second revision", LIMIT, async || {
        records(&space, "web").await == revisions(&[(1, "superseded"), (2, "deployed")])
    })
    .await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("bye"));
    assert_eq!(data(&space, "web-map", "password").await, Some(password));
    let maps = space.api::<ConfigMap>();
    assert!(maps.get_opt("web-extra").await.unwrap().is_some());

    // What somebody changes or removes is put back without a revision.
    let patch = json!({"data": {"greeting": "mine"}});
    maps.patch("web-map", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    maps.delete("web-extra", &DeleteParams::default()).await.unwrap();
    until("the repair", LIMIT, async || {
        data(&space, "web-map", "greeting").await.as_deref() == Some("bye")
            && maps.get_opt("web-extra").await.unwrap().is_some()
    })
    .await;
    assert_eq!(records(&space, "web").await.len(), 2);

    // So are records.
    let selector = ListParams::default().labels("owner=helm,name=web");
    let secrets = space.api::<Secret>();
    secrets.delete_collection(&DeleteParams::default(), &selector).await.unwrap();
    until("the record", LIMIT, async || {
        records(&space, "web").await == revisions(&[(2, "deployed")])
    })
    .await;

    // What is no longer rendered goes.
    edit(&space, component(&server, json!({"values": {"greeting": "bye"}}))).await;
    until("the third revision", LIMIT, async || {
        records(&space, "web").await.last() == Some(&(3, "deployed".to_owned()))
            && maps.get_opt("web-extra").await.unwrap().is_none()
    })
    .await;

    space.applications().delete("a", &DeleteParams::default()).await.unwrap();
    until("the end", LIMIT, async || {
        space.applications().get_opt("a").await.unwrap().is_none()
            && maps.get_opt("web-map").await.unwrap().is_none()
            && records(&space, "web").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_registry_with_tls_and_a_password() {
    let space = Space::with_programs("helm-oci").await;
    let server = server(Settings { tls: true, password: true }).await;
    let source = format!("oci://{}/oci/web", server.address());
    let chart = |more: Value| {
        let mut chart = json!({"source": source, "version": "~1.0"});
        merge(&mut chart, more);
        let release = json!({"name": "web"});
        json!([{"name": "web", "type": "helmchart", "properties": {"chart": chart, "release": release}}])
    };
    let auth = json!({"auth": {"secretRef": {"name": "registry"}}});
    space.create("a", chart(auth.clone())).await.unwrap();
    complaint(&space, "Secret").await;
    complaint(&space, "not found").await;
    let secret = json!({
        "metadata": {"name": "registry"}, "type": "Opaque",
        "stringData": {"username": USER.0, "password": USER.1, "ca.crt": server.certificate()},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    space.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    edit(&space, chart(json!({"version": "1.0.0", "auth": auth["auth"]}))).await;
    space.running("a").await;
    assert_eq!(data(&space, "web-map", "version").await.as_deref(), Some("1.0.0"));
    assert!(server.requests().iter().any(|path| path.starts_with("/v2/oci/web/blobs/")));
}

#[tokio::test]
async fn values_from_elsewhere_roll_out_and_a_bad_chart_touches_nothing() {
    let space = Space::with_programs("helm-values").await;
    let server = server(Settings::default()).await;
    let maps = space.api::<ConfigMap>();
    let values = |greeting: &str| -> ConfigMap {
        let text = format!("greeting: {greeting}\n");
        let map = json!({"metadata": {"name": "values"}, "data": {"values.yaml": text}});
        serde_json::from_value(map).unwrap()
    };
    maps.create(&PostParams::default(), &values("one")).await.unwrap();
    let from = json!({"valuesFrom": [
        {"kind": "ConfigMap", "name": "values"},
        {"kind": "Secret", "name": "missing", "optional": true},
    ]});
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "a", "annotations": {"app.oam.dev/reconcile-interval": "10s"}},
        "spec": {"components": component(&server, from.clone())},
    });
    let object = serde_json::from_value(object).unwrap();
    space.applications().create(&PostParams::default(), &object).await.unwrap();
    space.running("a").await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("one"));
    let patch = Patch::Merge(json!({"data": {"values.yaml": "greeting: two\n"}}));
    maps.patch("values", &PatchParams::default(), &patch).await.unwrap();
    until("the new value", LIMIT, async || {
        data(&space, "web-map", "greeting").await.as_deref() == Some("two")
    })
    .await;
    until("the second revision", LIMIT, async || {
        records(&space, "web").await.last() == Some(&(2, "deployed".to_owned()))
    })
    .await;

    let mut bad = from;
    merge(&mut bad, json!({"chart": {"version": "9.9.9"}}));
    edit(&space, component(&server, bad)).await;
    complaint(&space, "not found").await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("two"));
    assert_eq!(records(&space, "web").await.last(), Some(&(2, "deployed".to_owned())));
}

#[tokio::test]
async fn a_release_of_the_helm_client_is_taken_over() {
    let space = Space::with_programs("helm-adopt").await;
    let server = server(Settings::default()).await;
    let archive = format!("http://{}/charts/web-1.0.0.tgz", server.address());
    helm(&space, &["install", "web", &archive, "--set", "greeting=client"]).await;
    let maps = space.api::<ConfigMap>();
    let before = maps.get("web-map").await.unwrap().metadata.uid;
    space.create("a", component(&server, json!({"values": {"greeting": "client"}}))).await.unwrap();
    space.running("a").await;
    assert_eq!(records(&space, "web").await, revisions(&[(1, "superseded"), (2, "deployed")]));
    let map = maps.get("web-map").await.unwrap();
    assert_eq!(map.metadata.uid, before, "it is the same object");
    let labels = map.metadata.labels.unwrap();
    assert_eq!(labels["app.oam.dev/name"], "a");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");
    // Another Application may not have it.
    let other = json!([{"name": "web", "type": "helmchart",
        "properties": component(&server, json!({}))[0]["properties"]}]);
    space.create("b", other).await.unwrap();
    until("the refusal", LIMIT, async || {
        let app = space.applications().get("b").await.unwrap();
        app.data["status"].to_string().contains("belongs to Application")
    })
    .await;
    assert_eq!(records(&space, "web").await.len(), 2);
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: GROUP
spec:
  group: helm.test
  scope: Namespaced
  names: {plural: PLURAL, kind: KIND}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const HOOK: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: WHEN
  annotations:
    helm.sh/hook: WHEN
";

#[tokio::test]
async fn namespace_definitions_objects_and_hooks_come_in_their_order() {
    let space = Space::with_programs("helm-order").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let suffix = space.name().replace('-', "");
    let (plural, kind) = (format!("things{suffix}"), format!("Thing{suffix}"));
    let crd = CRD
        .replace("GROUP", &format!("{plural}.helm.test"))
        .replace("PLURAL", &plural)
        .replace("KIND", &kind);
    let thing = format!("apiVersion: helm.test/v1\nkind: {kind}\nmetadata:\n  name: thing\n");
    let (pre, post) = (HOOK.replace("WHEN", "pre-install"), HOOK.replace("WHEN", "post-install"));
    let kept = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations:\n    helm.sh/resource-policy: keep\n";
    let files = [
        ("crds/thing.yaml", crd.as_str()),
        ("templates/thing.yaml", thing.as_str()),
        ("templates/pre.yaml", pre.as_str()),
        ("templates/post.yaml", post.as_str()),
        ("templates/kept.yaml", kept),
    ];
    server.publish("web", "1.0.0", &files).unwrap();
    let namespace = format!("{}-made", space.name());
    let release = json!({"release": {"namespace": namespace}});
    space.create("a", component(&server, release)).await.unwrap();
    space.running("a").await;
    let maps: Api<ConfigMap> = Api::namespaced(space.client(), &namespace);
    for name in ["pre-install", "post-install", "kept"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    space.applications().delete("a", &DeleteParams::default()).await.unwrap();
    until("the end", LIMIT, async || {
        let secrets: Api<Secret> = Api::namespaced(space.client(), &namespace);
        let records = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
        space.applications().get_opt("a").await.unwrap().is_none() && records.items.is_empty()
    })
    .await;
    assert!(maps.get_opt("kept").await.unwrap().is_some(), "the chart says so");
    assert!(maps.get_opt("pre-install").await.unwrap().is_none(), "hooks go with the Application");
}

#[tokio::test]
async fn a_hook_that_fails_fails_the_release() {
    let space = Space::with_programs("helm-hook").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let job = "apiVersion: batch/v1
kind: Job
metadata:
  name: check
  annotations:
    helm.sh/hook: pre-install
spec:
  activeDeadlineSeconds: 10
  template:
    spec:
      nodeSelector: {there: is-none}
      restartPolicy: Never
      containers: [{name: a, image: a}]
";
    server
        .publish(
            "web",
            "1.0.0",
            &[("templates/job.yaml", job), ("templates/map.yaml", MAP), ("values.yaml", VALUES)],
        )
        .unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    complaint(&space, "has not ended").await;
    assert!(data(&space, "web-map", "greeting").await.is_none(), "the hook comes first");
    assert_eq!(records(&space, "web").await, revisions(&[(1, "pending-install")]));
    // The cluster ends the Job.
    complaint(&space, "DeadlineExceeded").await;
    until("the record of the failure", LIMIT, async || {
        records(&space, "web").await == revisions(&[(1, "failed")])
    })
    .await;
    assert!(data(&space, "web-map", "greeting").await.is_none());
}
