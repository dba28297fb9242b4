//! Defects of the reference's chart components, each shown to be absent on the real control plane.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_helm::release::{NewRecord, Record, Status, secret_name};
use vela_helm::{Chart, Limits};
use vela_tests::chart_server::{ChartServer, Reply, Settings, pack};
use vela_tests::fixtures::{Space, quiet, until};

use super::helm::{
    LIMIT, MAP, VALUES, complaint, component, data, edit, helm, merge, records, revisions, server,
};

/// An archive at a path of a server, and the component that fetches it.
fn archive(server: &ChartServer, path: &str, files: &[(&str, &str)], more: Value) -> Value {
    let files =
        files.iter().map(|(path, text)| (format!("web/{path}"), b'0', text.as_bytes().to_vec()));
    server.put(path, Reply::Body(pack(files).unwrap()));
    let mut all = component(server, more);
    all[0]["properties"]["chart"] = json!({"source": format!("http://{}{path}", server.address())});
    all
}

async fn revision(space: &Space, newest: i64) {
    until(&format!("revision {newest}"), LIMIT, async || {
        records(space, "web").await.last() == Some(&(newest, "deployed".to_owned()))
    })
    .await;
}

/// D9: the values of one revision decide about the subcharts of that revision only.
#[tokio::test]
async fn a_chart_is_not_changed_by_being_rendered() {
    let space = Space::with_programs("helm-d9").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: sub, version: 0.1.0, condition: sub.enabled}\n";
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sub}\ndata: {of: {{ .Values.of }}}\n";
    let files = [
        ("Chart.yaml", metadata),
        ("values.yaml", VALUES),
        ("templates/map.yaml", MAP),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 0.1.0\n"),
        ("charts/sub/values.yaml", "of: defaults\n"),
        ("charts/sub/templates/map.yaml", map),
    ];
    let with = |values: Value| archive(&server, "/d9.tgz", &files, json!({"values": values}));
    space.create("a", with(json!({"sub": {"enabled": false}}))).await.unwrap();
    space.running("a").await;
    let maps = space.api::<ConfigMap>();
    assert!(maps.get_opt("sub").await.unwrap().is_none());
    edit(&space, with(json!({"sub": {"enabled": true, "of": "mine"}}))).await;
    revision(&space, 2).await;
    assert_eq!(data(&space, "sub", "of").await.as_deref(), Some("mine"));
    edit(&space, with(json!({}))).await;
    revision(&space, 3).await;
    assert_eq!(data(&space, "sub", "of").await.as_deref(), Some("defaults"));
}

/// D10, D11, D25: what decides about a revision is all that a render depends on, and only that.
#[tokio::test]
async fn another_chart_is_another_revision_and_empty_values_are_one() {
    let space = Space::with_programs("helm-d10").await;
    let server = server(Settings::default()).await;
    let other = MAP.replace("-map", "-other");
    let files = [("values.yaml", VALUES), ("templates/other.yaml", other.as_str())];
    server.publish("other", "1.0.0", &files).unwrap();
    let two = json!({"values": {"greeting": "two"}, "chart": {"version": "latest"}});
    space.create("a", component(&server, two.clone())).await.unwrap();
    space.running("a").await;
    assert_eq!(data(&space, "web-map", "version").await.as_deref(), Some("1.0.0"));

    let mut switched = two;
    merge(&mut switched, json!({"chart": {"source": "other"}}));
    edit(&space, component(&server, switched)).await;
    revision(&space, 2).await;
    until("the objects of the other chart", LIMIT, async || {
        let greeting = data(&space, "web-other", "greeting").await;
        greeting.as_deref() == Some("two") && data(&space, "web-map", "greeting").await.is_none()
    })
    .await;

    edit(&space, component(&server, json!({"chart": {"source": "other"}}))).await;
    revision(&space, 3).await;
    assert_eq!(data(&space, "web-other", "greeting").await.as_deref(), Some("hello"));
    space.running("a").await;
    let namespace = space.name().to_owned();
    quiet(&space.cluster().audit_log(), Duration::from_secs(3), |entry| {
        entry.is_controllers()
            && entry.namespace == namespace
            && entry.resource == "secrets"
            && ["create", "update", "patch"].contains(&entry.verb.as_str())
    })
    .await;
    assert_eq!(records(&space, "web").await.len(), 3);
}

/// D16, D18: objects are what the chart says, also empty maps and lists, and those within lists.
#[tokio::test]
async fn empty_maps_stay_and_lists_are_taken_apart() {
    let space = Space::with_programs("helm-d16").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let policy = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: all}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
  - from:
    - namespaceSelector: {}
";
    let list = "apiVersion: v1
kind: List
items:
{{- range until (int .Values.count) }}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: item-{{ . }}}
{{- end }}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: last}
";
    let files = [
        ("values.yaml", "count: 1\n"),
        ("templates/list.yaml", list),
        ("templates/policy.yaml", policy),
    ];
    server.publish("web", "1.0.0", &files).unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    let found = space.api::<NetworkPolicy>().get("all").await.unwrap();
    let found = serde_json::to_value(found.spec).unwrap();
    assert_eq!(found["podSelector"], json!({}));
    assert_eq!(found["ingress"], json!([{"from": [{"namespaceSelector": {}}]}]));
    let maps = space.api::<ConfigMap>();
    let last = maps.get("last").await.unwrap();
    assert!(maps.get_opt("item-0").await.unwrap().is_some());

    // One object more: the others stay the same objects.
    edit(&space, component(&server, json!({"values": {"count": 3}}))).await;
    revision(&space, 2).await;
    assert!(maps.get_opt("item-2").await.unwrap().is_some());
    let after = maps.get("last").await.unwrap();
    assert_eq!(after.metadata.uid, last.metadata.uid);
}

/// D3, D20, D23: what belongs to others is left alone, and a refusal costs no history.
#[tokio::test]
async fn what_belongs_to_others_is_refused_and_costs_no_history() {
    let space = Space::with_programs("helm-d23").await;
    let server = server(Settings::default()).await;
    let maps = space.api::<ConfigMap>();
    let foreign: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "web-extra"}})).unwrap();
    let foreign = maps.create(&PostParams::default(), &foreign).await.unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    edit(&space, component(&server, json!({"values": {"extra": true}}))).await;
    complaint(&space, "web-extra").await;
    let after = maps.get("web-extra").await.unwrap();
    assert_eq!(after.metadata.resource_version, foreign.metadata.resource_version);
    let history = records(&space, "web").await;
    assert_eq!(history.first().map(|(revision, _)| *revision), Some(1), "{history:?}");
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("hello"));

    // Charts that the Helm client refuses too.
    let library = [("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\ntype: library\n")];
    edit(&space, archive(&server, "/library.tgz", &library, json!({}))).await;
    complaint(&space, "library charts are not installable").await;
    let missing =
        "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n";
    let missing = [("Chart.yaml", missing), ("templates/map.yaml", MAP)];
    edit(&space, archive(&server, "/missing.tgz", &missing, json!({}))).await;
    complaint(&space, "missing in charts/ directory: sub").await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("hello"));

    // Values of a namespace that the author merely names.
    let from = json!({"valuesFrom": [{"kind": "Secret", "name": "x", "namespace": "kube-system"}]});
    let refused = space.create("b", component(&server, from)).await.unwrap_err().to_string();
    assert!(refused.contains("kube-system"), "{refused}");
}

/// D13, D24: the history is bounded, and a release that nobody works on any more is not stuck.
#[tokio::test]
async fn history_is_bounded_and_a_pending_release_goes_on() {
    let space = Space::with_programs("helm-d24").await;
    let server = server(Settings::default()).await;
    let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    let chart = Chart::from_directory(
        [file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.9.0\n")],
        &Limits::default(),
    );
    let chart = chart.unwrap();
    // An installation that was given up an hour ago.
    let long_ago = Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let record = Record::new(&NewRecord {
        name: "web",
        namespace: space.name(),
        revision: 1,
        status: Status::PendingInstall,
        description: "Initial install underway",
        first_deployed: &long_ago.to_string(),
        last_deployed: &long_ago.to_string(),
        notes: "",
        chart: &chart,
        config: &serde_json::Map::new(),
        manifest: "",
        hooks: &[],
    });
    let secret = json!({
        "metadata": {"name": secret_name("web", 1), "labels": {
            "owner": "helm", "name": "web", "version": "1", "status": "pending-install"}},
        "type": "helm.sh/release.v1",
        "stringData": {"release": record.encode().unwrap()},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    space.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let with = |greeting: &str| {
        let options = json!({"maxHistory": 2});
        component(&server, json!({"values": {"greeting": greeting}, "options": options}))
    };
    space.create("a", with("one")).await.unwrap();
    revision(&space, 2).await;
    for (greeting, newest) in [("two", 3), ("three", 4)] {
        edit(&space, with(greeting)).await;
        revision(&space, newest).await;
    }
    until("two records", LIMIT, async || {
        records(&space, "web").await == revisions(&[(3, "superseded"), (4, "deployed")])
    })
    .await;
}

const HELM_RELEASES: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: helmreleases.helm.toolkit.fluxcd.io
spec:
  group: helm.toolkit.fluxcd.io
  scope: Namespaced
  names: {plural: helmreleases, kind: HelmRelease}
  versions:
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn a_release_of_flux_is_taken_over_when_it_has_let_go() {
    let space = Space::with_programs("helm-flux").await;
    let server = server(Settings::default()).await;
    let definitions: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(space.client());
    let patch: Value = vela_helm::yaml::read(HELM_RELEASES).unwrap();
    let name = "helmreleases.helm.toolkit.fluxcd.io";
    let params = PatchParams::apply("tests");
    definitions.patch(name, &params, &Patch::Apply(&patch)).await.unwrap();
    let version = "helm.toolkit.fluxcd.io/v2";
    until("HelmRelease to be served", LIMIT, async || space.serves(version, "HelmRelease").await)
        .await;
    let url = format!("http://{}/charts/web-1.0.0.tgz", server.address());
    let objects = space.objects(version, "HelmRelease");
    for release in ["web", "other"] {
        helm(&space, &["install", release, &url]).await;
        let object = json!({
            "apiVersion": version, "kind": "HelmRelease", "metadata": {"name": release}, "spec": {},
        });
        let object = serde_json::from_value(object).unwrap();
        objects.create(&PostParams::default(), &object).await.unwrap();
    }
    let maps = space.api::<ConfigMap>();
    let uid = maps.get("web-map").await.unwrap().metadata.uid;
    space.create("a", component(&server, json!({}))).await.unwrap();
    complaint(&space, "is managed by HelmRelease").await;
    assert_eq!(records(&space, "web").await, revisions(&[(1, "deployed")]));
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    objects.patch("web", &PatchParams::default(), &suspend).await.unwrap();
    revision(&space, 2).await;
    assert_eq!(maps.get("web-map").await.unwrap().metadata.uid, uid, "the same object");

    // The Application may also say so.
    let app = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "b", "annotations": {"helm.oam.dev/adopt-from-flux": "true"}},
        "spec": {"components": component(&server, json!({"release": {"name": "other"}}))},
    });
    let app = serde_json::from_value(app).unwrap();
    space.applications().create(&PostParams::default(), &app).await.unwrap();
    until("the second revision of the other release", LIMIT, async || {
        records(&space, "other").await == revisions(&[(1, "superseded"), (2, "deployed")])
    })
    .await;
}
