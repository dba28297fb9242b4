//! What users of KubeVela's own chart components rely on, and what they suffered from, on the real control plane. Which test
//! shows what stands in docs/compatibility/helm.md.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{Space, binaries, quiet, reaching_loopback, until};
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

use super::helm::{
    LIMIT, MAP, VALUES, complaint, component, data, edit, helm, merge, records, revisions, server,
};

async fn deployed(space: &Space, release: &str, newest: i64) {
    until(&format!("revision {newest} of {release}"), LIMIT, async || {
        records(space, release).await.last() == Some(&(newest, "deployed".to_owned()))
    })
    .await;
}

/// Several components in one list.
fn all<const N: usize>(components: [Value; N]) -> Value {
    components.into_iter().map(|mut list| list[0].take()).collect()
}

/// A component whose release has its name.
fn named(name: &str, server: &ChartServer, more: Value) -> Value {
    let mut component = component(server, json!({"release": {"name": name}}));
    merge(&mut component[0]["properties"], more);
    component[0]["name"] = json!(name);
    component
}

#[tokio::test]
async fn every_edit_is_one_revision_and_the_same_spec_is_none() {
    let space = Space::with_programs("helm-edits").await;
    let server = server(Settings::default()).await;
    let with =
        |count: i64| component(&server, json!({"values": {"greeting": format!("n{count}")}}));
    space.create("a", with(1)).await.unwrap();
    deployed(&space, "web", 1).await;
    for count in 2..=6 {
        edit(&space, with(count)).await;
        deployed(&space, "web", count).await;
    }
    assert_eq!(records(&space, "web").await.len(), 6);
    assert_eq!(data(&space, "web-map", "revision").await.as_deref(), Some("6"));
    space.running("a").await;

    // The same again, and a label of the Application: neither is another revision, and nothing is fetched.
    let asked = server.requests().len();
    edit(&space, with(6)).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a.test/x": "y"}}}));
    space.applications().patch("a", &PatchParams::default(), &patch).await.unwrap();
    let namespace = space.name().to_owned();
    quiet(&space.cluster().audit_log(), Duration::from_secs(2), |entry| {
        entry.is_controllers() && entry.namespace == namespace && entry.resource == "secrets"
    })
    .await;
    assert_eq!(records(&space, "web").await.len(), 6);
    assert_eq!(server.requests().len(), asked);
}

#[tokio::test]
async fn components_are_releases_of_their_own_and_the_later_source_of_values_wins() {
    let space = Space::with_programs("helm-two").await;
    let server = server(Settings::default()).await;
    for (name, text) in
        [("first", "greeting: first\nextra: true\n"), ("second", "greeting: second\n")]
    {
        let map = json!({"metadata": {"name": name}, "data": {"values.yaml": text}});
        let map = serde_json::from_value(map).unwrap();
        space.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    }
    let from = json!({"valuesFrom": [
        {"kind": "ConfigMap", "name": "first"}, {"kind": "ConfigMap", "name": "second"},
    ]});
    let mut own = from.clone();
    merge(&mut own, json!({"values": {"greeting": "own"}}));
    let both = |own: Value| all([named("one", &server, from.clone()), named("two", &server, own)]);
    space.create("a", both(own)).await.unwrap();
    space.running("a").await;
    assert_eq!(data(&space, "one-map", "greeting").await.as_deref(), Some("second"));
    assert_eq!(data(&space, "two-map", "greeting").await.as_deref(), Some("own"));
    let maps = space.api::<ConfigMap>();
    assert!(maps.get_opt("one-extra").await.unwrap().is_some(), "the first one is there too");

    edit(&space, both(json!({"values": {"greeting": "other"}}))).await;
    deployed(&space, "two", 2).await;
    assert_eq!(records(&space, "one").await, revisions(&[(1, "deployed")]));

    // One goes, the other stays.
    edit(&space, named("one", &server, from.clone())).await;
    until("the end of the other", LIMIT, async || {
        records(&space, "two").await.is_empty() && maps.get_opt("two-map").await.unwrap().is_none()
    })
    .await;
    assert_eq!(records(&space, "one").await, revisions(&[(1, "deployed")]));
}

#[tokio::test]
async fn a_namespace_is_made_only_if_it_may_be_and_comes_back() {
    let space = Space::with_programs("helm-ns").await;
    let server = server(Settings::default()).await;
    let namespace = format!("{}-made", space.name());
    let release = json!({"namespace": namespace});
    let without = json!({"release": release, "options": {"createNamespace": false}});
    space.create("a", component(&server, without)).await.unwrap();
    complaint(&space, "not found").await;
    complaint(&space, &namespace).await;
    let namespaces: Api<Namespace> = Api::all(space.client());
    assert!(namespaces.get_opt(&namespace).await.unwrap().is_none());

    edit(&space, component(&server, json!({"release": release}))).await;
    let maps: Api<ConfigMap> = Api::namespaced(space.client(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(space.client(), &namespace);
    let is_whole = async || {
        let list = ListParams::default().labels("owner=helm,name=web,status=deployed");
        let records = secrets.list(&list).await.unwrap();
        maps.get_opt("web-map").await.unwrap().is_some() && records.items.len() == 1
    };
    until("the release", LIMIT, is_whole).await;
    space.running("a").await;

    // Somebody deletes the namespace with everything in it.
    let uid = namespaces.get(&namespace).await.unwrap().metadata.uid;
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
    until("the release in another namespace of the name", LIMIT, async || {
        let found = namespaces.get_opt(&namespace).await.unwrap();
        found.is_some_and(|found| found.metadata.uid != uid) && is_whole().await
    })
    .await;
}

#[tokio::test]
async fn a_chart_that_is_not_there_and_values_that_are_secret_are_not_shown() {
    let space = Space::with_programs("helm-none").await;
    let server = server(Settings::default()).await;
    let chart = json!({"chart": {"source": "nonesuch"}, "values": {"password": "hunter2hunter2"}});
    space.create("a", component(&server, chart)).await.unwrap();
    complaint(&space, "nonesuch").await;
    complaint(&space, "not found").await;
    let app = space.applications().get("a").await.unwrap();
    assert!(!app.data["status"].to_string().contains("hunter2"));
    assert!(records(&space, "web").await.is_empty());

    // What admission refuses names the fields, all of them, and no value.
    let wrong = json!({
        "chart": {"version": "not a version"}, "release": {"name": "Not_A_Name"},
        "options": {"timeout": "soon"}, "values": {"password": "hunter2hunter2"},
    });
    let refused = space.create("b", component(&server, wrong)).await.unwrap_err().to_string();
    for field in ["chart.version", "release.name", "options.timeout"] {
        assert!(refused.contains(field), "{field}: {refused}");
    }
    assert!(!refused.contains("hunter2"), "{refused}");
}

/// D1: nothing is fetched or installed for a dry run.
#[tokio::test]
async fn a_dry_run_reaches_nobody() {
    let space = Space::with_programs("helm-dry").await;
    let server = server(Settings::default()).await;
    let app = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "a"}, "spec": {"components": component(&server, json!({}))},
    });
    let app = serde_json::from_value(app).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    space.applications().create(&dry, &app).await.unwrap();
    // What is really created afterwards is through all that a dry run could have begun.
    let other = named("other", &server, json!({}));
    space.create("other", other).await.unwrap();
    space.running("other").await;
    assert!(records(&space, "web").await.is_empty());
    assert!(space.api::<ConfigMap>().get_opt("web-map").await.unwrap().is_none());
    let of_index = |path: &&String| path.contains("index.yaml");
    assert_eq!(server.requests().iter().filter(of_index).count(), 1, "only for the other one");
}

/// D8: two repositories may have a chart of the same name and version.
#[tokio::test]
async fn charts_of_two_repositories_are_two_charts() {
    let space = Space::with_programs("helm-d8").await;
    let (first, second) = (server(Settings::default()).await, server(Settings::default()).await);
    let other = MAP.replace("-map", "-other");
    let files = [("values.yaml", VALUES), ("templates/other.yaml", other.as_str())];
    second.publish("web", "1.0.0", &files).unwrap();
    let cache = json!({"options": {"cache": {"key": "shared"}}});
    let both = all([named("one", &first, cache.clone()), named("two", &second, cache)]);
    space.create("a", both).await.unwrap();
    space.running("a").await;
    assert!(data(&space, "one-map", "greeting").await.is_some());
    assert!(data(&space, "two-other", "greeting").await.is_some());
    assert!(data(&space, "two-map", "greeting").await.is_none());
}

/// D12: who waits for a hook holds nobody up.
#[tokio::test]
async fn a_hook_that_never_ends_holds_nobody_up() {
    let space = Space::with_programs("helm-d12").await;
    let server = server(Settings::default()).await;
    let job = "apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-never
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    spec:
      nodeSelector: {there: is-none}
      restartPolicy: Never
      containers: [{name: a, image: a}]
";
    let files = [("values.yaml", VALUES), ("templates/job.yaml", job), ("templates/map.yaml", MAP)];
    server.publish("hanging", "1.0.0", &files).unwrap();
    // More of them than the controller has workers.
    for count in 0..6 {
        let name = format!("hanging-{count}");
        let chart = json!({"chart": {"source": "hanging"}});
        space.create(&name, named(&name, &server, chart)).await.unwrap();
    }
    let jobs = space.api::<Job>();
    until("all hooks", LIMIT, async || {
        jobs.list(&ListParams::default()).await.unwrap().items.len() == 6
    })
    .await;
    space.create("free", named("free", &server, json!({}))).await.unwrap();
    space.running("free").await;
    for count in 0..6 {
        let name = format!("hanging-{count}");
        assert_eq!(records(&space, &name).await, revisions(&[(1, "pending-install")]));
    }
}

/// D19: labels say what an object is, not where it stands in the chart.
#[tokio::test]
async fn one_object_more_changes_no_other() {
    let space = Space::with_programs("helm-d19").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let list = "{{- range .Values.names }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ . }}}
{{- end }}
";
    let files = [("values.yaml", "names: []\n"), ("templates/maps.yaml", list)];
    server.publish("web", "1.0.0", &files).unwrap();
    let with = |names: &[&str]| component(&server, json!({"values": {"names": names}}));
    space.create("a", with(&["m", "z"])).await.unwrap();
    space.running("a").await;
    let maps = space.api::<ConfigMap>();
    let label = async |name: &str| {
        let labels = maps.get(name).await.unwrap().metadata.labels.unwrap();
        labels["trait.oam.dev/resource"].clone()
    };
    assert_eq!((label("m").await, label("z").await), ("configmap-m".into(), "configmap-z".into()));
    edit(&space, with(&["a", "m", "q", "z"])).await;
    deployed(&space, "web", 2).await;
    space.running("a").await;
    for name in ["a", "m", "q", "z"] {
        assert_eq!(label(name).await, format!("configmap-{name}"));
    }
}

/// D21: without criteria the workloads decide; a criterion without a name is met by any object of the kind.
#[tokio::test]
async fn health_is_that_of_the_objects() {
    let space = Space::with_programs("helm-d21").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let deployment = "apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      nodeSelector: {there: is-none}
      containers: [{name: a, image: a}]
";
    let service = "apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {ports: [{port: 80}]}
";
    let files = [("values.yaml", "replicas: 1\n"), ("templates/web.yaml", deployment)];
    server.publish("web", "1.0.0", &files).unwrap();
    server.publish("service", "1.0.0", &[("templates/service.yaml", service)]).unwrap();
    let is_healthy = async |app: &str, wanted: bool| {
        until(&format!("health {wanted} of {app}"), LIMIT, async || {
            let app = space.applications().get(app).await.unwrap();
            app.data["status"]["services"][0]["healthy"] == wanted
        })
        .await;
    };
    space.create("a", component(&server, json!({}))).await.unwrap();
    until("the objects", LIMIT, async || {
        space.api::<Deployment>().get_opt("web").await.unwrap().is_some()
    })
    .await;
    is_healthy("a", false).await;
    edit(&space, component(&server, json!({"values": {"replicas": 0}}))).await;
    is_healthy("a", true).await;

    let criterion = json!({
        "chart": {"source": "service"},
        "healthStatus": [{"resource": {"kind": "Service"}, "condition": {"type": "Ready"}}],
    });
    space.create("b", named("other", &server, criterion)).await.unwrap();
    let services = space.api::<Service>();
    until("the Service", LIMIT, async || services.get_opt("other").await.unwrap().is_some()).await;
    is_healthy("b", false).await;
    let condition = json!({"type": "Ready", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    services.patch_status("other", &PatchParams::default(), &patch).await.unwrap();
    is_healthy("b", true).await;
}

#[tokio::test]
async fn a_take_over_restarts_no_pod_and_others_may_write_too() {
    let space = Space::with_programs("helm-pods").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let deployment = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: a}]}
";
    let set =
        deployment.replace("Deployment", "StatefulSet").replace("replicas: 0", "serviceName: web");
    let files = [
        ("values.yaml", VALUES),
        ("templates/web.yaml", deployment),
        ("templates/set.yaml", set.as_str()),
        ("templates/map.yaml", MAP),
    ];
    server.publish("web", "1.0.0", &files).unwrap();
    let archive = format!("http://{}/charts/web-1.0.0.tgz", server.address());
    helm(&space, &["install", "web", &archive]).await;
    let (deployments, sets) = (space.api::<Deployment>(), space.api::<StatefulSet>());
    let before = deployments.get("web").await.unwrap();
    let set_before = sets.get("web").await.unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    deployed(&space, "web", 2).await;
    space.running("a").await;
    let after = deployments.get("web").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    // The generation of a Deployment counts its annotations too, since its ReplicaSets repeat them.
    assert_eq!(after.spec, before.spec, "only metadata is written");
    let set = sets.get("web").await.unwrap();
    assert_eq!(set.spec, set_before.spec);
    assert_eq!(set.metadata.generation, set_before.metadata.generation);
    let annotations = after.metadata.annotations.unwrap();
    assert_eq!(annotations["meta.helm.sh/release-name"], "web");
    assert_eq!(annotations["meta.helm.sh/release-namespace"], space.name());
    assert_eq!(after.metadata.labels.unwrap()["app.oam.dev/name"], "a");

    // Others write to the objects while revisions are made.
    for count in 3..=5_i64 {
        for part in 0..5_i64 {
            let patch =
                json!({"metadata": {"annotations": {"other.test/n": format!("{count}.{part}")}}});
            let patch = Patch::Merge(patch);
            deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
            if part == 2 {
                let values = json!({"values": {"greeting": format!("n{count}")}});
                edit(&space, component(&server, values)).await;
            }
        }
        deployed(&space, "web", count).await;
    }
    let after = deployments.get("web").await.unwrap();
    assert_eq!(after.metadata.annotations.unwrap()["other.test/n"], "5.4");
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("n5"));

    // All records go: the objects stay the same.
    let selector = ListParams::default().labels("owner=helm,name=web");
    space.api::<Secret>().delete_collection(&DeleteParams::default(), &selector).await.unwrap();
    deployed(&space, "web", 5).await;
    assert_eq!(deployments.get("web").await.unwrap().metadata.uid, before.metadata.uid);
}

/// What admission can say about an edit without the chart: warnings, and the edit is taken.
#[tokio::test]
async fn what_a_deployed_chart_refuses_is_a_warning() {
    let space = Space::with_programs("helm-preview").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let schema = r#"{"properties": {"greeting": {"type": "string"}}, "required": ["greeting"]}"#;
    let files =
        [("values.yaml", VALUES), ("values.schema.json", schema), ("templates/map.yaml", MAP)];
    server.publish("web", "1.0.0", &files).unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    let asked = server.requests().len();
    let path = format!("/apis/core.oam.dev/v1beta1/namespaces/{}/applications", space.name());
    let warnings = async |name: &str, components: Value| {
        let patch = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name}, "spec": {"components": components}});
        let request =
            http::Request::patch(format!("{path}/{name}?dryRun=All&fieldManager=tests&force=true"))
                .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
                .body(kube::client::Body::from(patch.to_string().into_bytes()))
                .unwrap();
        let answer = space.client().send(request).await.unwrap();
        let warnings = answer.headers().get_all(http::header::WARNING).iter();
        let all = warnings.map(|one| one.to_str().unwrap().to_owned());
        // What a dry run says about components is not meant here.
        let all: Vec<_> = all.filter(|one| !one.contains("dry run: components")).collect();
        assert!(answer.status().is_success(), "{}", answer.status());
        all.join("\n")
    };
    let with = |values: Value| component(&server, json!({"values": values}));
    assert_eq!(warnings("a", with(json!({"extra": true}))).await, "");
    let said = warnings("a", with(json!({"greeting": 12}))).await;
    assert!(said.contains("properties.values: at '/greeting': got number, want string"), "{said}");
    let mut other = with(json!({"greeting": 12}));
    other[0]["properties"]["chart"]["version"] = json!("2.0.0");
    assert_eq!(warnings("a", other).await, "", "nothing is known of another version");
    let said = warnings("b", with(json!({}))).await;
    assert!(said.contains(&format!("belongs to Application {}/a", space.name())), "{said}");
    assert_eq!(server.requests().len(), asked, "admission fetches nothing");
}

/// D2, D3: where Applications act as their authors, so do their releases.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_has_the_rights_of_its_author() {
    let cluster = Cluster::start("helm-author").await.unwrap();
    let tenant = Tenant::new(&cluster, "team").await.unwrap();
    let mut options: Options = reaching_loopback();
    options.values.push("authentication.enabled=true".to_owned());
    let programs = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let admin = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    let foreign: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let secret =
        json!({"metadata": {"name": "crown"}, "stringData": {"values.yaml": "greeting: jewels"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    foreign.create(&PostParams::default(), &secret).await.unwrap();

    let server = server(Settings::default()).await;
    let steal = "apiVersion: v1
kind: ConfigMap
metadata: {name: loot}
data: {crown: {{ lookup \"v1\" \"Secret\" \"kube-system\" \"crown\" | toJson | quote }}}
";
    let role = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: helm-author-everything}
rules: []
";
    server.publish("steal", "1.0.0", &[("templates/loot.yaml", steal)]).unwrap();
    server.publish("role", "1.0.0", &[("templates/role.yaml", role)]).unwrap();
    let from =
        json!({"valuesFrom": [{"kind": "Secret", "name": "crown", "namespace": "kube-system"}]});
    let mut elsewhere = from.clone();
    merge(&mut elsewhere, json!({"release": {"namespace": "kube-system"}}));
    let apps = tenant.objects("Application");
    let create = async |name: &str, components: Value| {
        let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name}, "spec": {"components": components}});
        apps.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.map(drop)
    };
    create("fine", named("fine", &server, json!({}))).await.unwrap();
    create("steal", named("steal", &server, json!({"chart": {"source": "steal"}}))).await.unwrap();
    create("role", named("role", &server, json!({"chart": {"source": "role"}}))).await.unwrap();
    create("elsewhere", named("elsewhere", &server, elsewhere)).await.unwrap();
    assert!(create("values", named("values", &server, from)).await.is_err());
    for name in ["steal", "role", "elsewhere"] {
        until(&format!("{name} to be refused"), LIMIT, async || {
            apps.get(name).await.unwrap().data["status"].to_string().contains("forbidden")
        })
        .await;
        let status = apps.get(name).await.unwrap().data["status"].to_string();
        assert!(!status.contains("jewels"), "{status}");
    }
    until("the release of the tenant", LIMIT, async || {
        apps.get("fine").await.unwrap().data["status"]["status"] == "running"
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "team");
    assert!(maps.get_opt("fine-map").await.unwrap().is_some());
    assert!(maps.get_opt("loot").await.unwrap().is_none());
    programs.admission.close(&cluster).await.unwrap();
    cluster.stop();
}
