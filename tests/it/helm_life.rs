//! What happens to releases on the real control plane: rollbacks, what the Helm client does to them, hooks of a deletion, changes
//! that an object refuses, releases of workflow steps and of other Helm tools.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings};
use vela_tests::fixtures::{Space, until};

use super::helm::{
    LIMIT, MAP, VALUES, complaint, component, data, edit, helm, records, revisions, server,
};
use super::helm_docs;

/// A Job that no node ever runs.
fn job(name: &str, annotations: &str, deadline: &str) -> String {
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  {deadline}
  template:
    spec:
      nodeSelector: {{there: is-none}}
      restartPolicy: Never
      containers: [{{name: a, image: a}}]
"
    )
}

#[tokio::test]
async fn what_the_helm_client_does_to_a_release_is_undone() {
    let space = Space::with_programs("helm-client").await;
    let server = server(Settings::default()).await;
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    edit(&space, component(&server, json!({"values": {"greeting": "two"}}))).await;
    until("the second revision", LIMIT, async || {
        records(&space, "web").await == revisions(&[(1, "superseded"), (2, "deployed")])
    })
    .await;
    space.running("a").await;
    let password = data(&space, "web-map", "password").await;
    let asked = server.requests().len();

    // A rollback is put back, and the client's own history says so.
    helm(&space, &["rollback", "web", "1"]).await;
    let states = [(1, "superseded"), (2, "superseded"), (3, "superseded"), (4, "deployed")];
    until("the fourth revision, and no other that is deployed", LIMIT, async || {
        records(&space, "web").await == revisions(&states)
            && data(&space, "web-map", "greeting").await.as_deref() == Some("two")
    })
    .await;
    let history = helm(&space, &["history", "web", "-o", "json"]).await;
    assert!(history.contains("Rollback to 2"), "{history}");
    assert_eq!(data(&space, "web-map", "password").await, password);
    assert_eq!(server.requests().len(), asked, "nothing is fetched for that");

    // So is an uninstall.
    helm(&space, &["uninstall", "web"]).await;
    until("the release", LIMIT, async || {
        records(&space, "web").await == revisions(&[(4, "deployed")])
            && data(&space, "web-map", "greeting").await.as_deref() == Some("two")
    })
    .await;
    assert_eq!(data(&space, "web-map", "password").await, password);

    // A record that somebody broke is replaced, and the objects stay the same objects.
    let secrets = space.api::<Secret>();
    let uid = space.api::<ConfigMap>().get("web-map").await.unwrap().metadata.uid;
    let broken = Patch::Merge(json!({"stringData": {"release": "broken"}}));
    let name = "sh.helm.release.v1.web.v4";
    secrets.patch(name, &PatchParams::default(), &broken).await.unwrap();
    edit(&space, component(&server, json!({"values": {"greeting": "three"}}))).await;
    until("the fifth revision", LIMIT, async || {
        records(&space, "web").await.last() == Some(&(5, "deployed".to_owned()))
    })
    .await;
    assert_eq!(space.api::<ConfigMap>().get("web-map").await.unwrap().metadata.uid, uid);
}

#[tokio::test]
async fn an_atomic_upgrade_goes_back_and_takes_what_was_new_along() {
    let space = Space::with_programs("helm-atomic").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let never = format!("{{{{ if .Values.extra }}}}\n{}{{{{ end }}}}", job("never", "", ""));
    let files =
        [("values.yaml", VALUES), ("templates/map.yaml", MAP), ("templates/job.yaml", &never)];
    server.publish("web", "1.0.0", &files).unwrap();
    let with = |values: Value| {
        let options = json!({"atomic": true, "timeout": "4s"});
        component(&server, json!({"values": values, "options": options}))
    };
    space.create("a", with(json!({"greeting": "one"}))).await.unwrap();
    space.running("a").await;
    edit(&space, with(json!({"greeting": "two", "extra": true}))).await;
    complaint(&space, "rolled back to revision 1").await;
    let states = [(1, "superseded"), (2, "failed"), (3, "deployed")];
    until("the records", LIMIT, async || records(&space, "web").await == revisions(&states)).await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("one"));
    until("the Job to go", LIMIT, async || {
        space.api::<Job>().get_opt("never").await.unwrap().is_none()
    })
    .await;
    let history = helm(&space, &["history", "web", "-o", "json"]).await;
    assert!(history.contains("Rollback to 1") && history.contains("not ready within"), "{history}");
    // Another spec is another revision.
    edit(&space, with(json!({"greeting": "three"}))).await;
    until("the fourth revision", LIMIT, async || {
        records(&space, "web").await.last() == Some(&(4, "deployed".to_owned()))
    })
    .await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("three"));
}

#[tokio::test]
async fn a_deletion_waits_for_its_hooks_and_not_for_ever() {
    let space = Space::with_programs("helm-end").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let before = job("before", "helm.sh/hook: pre-delete", "activeDeadlineSeconds: 6");
    let test = job("check", "helm.sh/hook: test", "");
    let files = [
        ("values.yaml", VALUES),
        ("templates/map.yaml", MAP),
        ("templates/before.yaml", before.as_str()),
        ("templates/test.yaml", test.as_str()),
    ];
    server.publish("web", "1.0.0", &files).unwrap();
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    assert!(helm(&space, &["get", "hooks", "web"]).await.contains("name: check"));
    space.applications().delete("a", &DeleteParams::default()).await.unwrap();
    let jobs = space.api::<Job>();
    until("the hook", LIMIT, async || jobs.get_opt("before").await.unwrap().is_some()).await;
    assert!(data(&space, "web-map", "greeting").await.is_some(), "objects stay for the hook");
    assert_eq!(records(&space, "web").await, revisions(&[(1, "uninstalling")]));
    // It fails: the deletion goes on and says so.
    until("the end", LIMIT, async || {
        space.applications().get_opt("a").await.unwrap().is_none()
            && records(&space, "web").await.is_empty()
            && data(&space, "web-map", "greeting").await.is_none()
            && jobs.get_opt("before").await.unwrap().is_none()
    })
    .await;
    let reasons = async || {
        let events = space.api::<Event>().list(&ListParams::default()).await.unwrap();
        events.items.into_iter().filter_map(|event| event.reason).collect::<Vec<_>>()
    };
    until("the event", LIMIT, async || {
        reasons().await.iter().any(|reason| reason == "ReleaseHookFailed")
    })
    .await;
    assert!(jobs.get_opt("check").await.unwrap().is_none(), "tests do not run");
}

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ .Values.greeting }}}}
  template:
    metadata: {labels: {app: {{ .Values.greeting }}}}
    spec: {containers: [{name: a, image: a}]}
";

#[tokio::test]
async fn what_refuses_a_change_is_made_again_if_that_is_forced_and_pods_restart() {
    let space = Space::with_programs("helm-force").await;
    let server = ChartServer::start(Settings::default()).await.unwrap();
    let files = [("values.yaml", VALUES), ("templates/web.yaml", DEPLOYMENT)];
    server.publish("web", "1.0.0", &files).unwrap();
    let with = |greeting: &str, options: Value| {
        component(&server, json!({"values": {"greeting": greeting}, "options": options}))
    };
    space.create("a", with("one", json!({}))).await.unwrap();
    space.running("a").await;
    let deployments = space.api::<Deployment>();
    let first = deployments.get("web").await.unwrap().metadata.uid;
    edit(&space, with("two", json!({}))).await;
    complaint(&space, "immutable").await;
    assert_eq!(deployments.get("web").await.unwrap().metadata.uid, first);
    edit(&space, with("two", json!({"force": true, "recreatePods": true}))).await;
    until("the revision", LIMIT, async || {
        records(&space, "web").await.last().is_some_and(|(_, status)| status == "deployed")
    })
    .await;
    let web = deployments.get("web").await.unwrap();
    assert_ne!(web.metadata.uid, first);
    let pods = web.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    assert_eq!(pods["helm.oam.dev/restarted-for"], "3");
}

#[tokio::test]
async fn a_step_makes_a_release_that_goes_with_the_application() {
    let space = Space::with_programs("helm-step").await;
    // As the documentation has it.
    let step = helm_docs::blocks("cue").into_iter().next().unwrap();
    let server = server(Settings::default()).await;
    let definition = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
        "metadata": {"name": "chart"},
        "spec": {"schematic": {"cue": {"template": step}}},
    });
    let definition = serde_json::from_value(definition).unwrap();
    let definitions = space.objects("core.oam.dev/v1beta1", "WorkflowStepDefinition");
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let object = |greeting: &str| {
        let properties =
            &component(&server, json!({"values": {"greeting": greeting}}))[0]["properties"];
        json!({"components": [], "workflow": {"steps": [{"name": "install", "type": "chart",
            "properties": {"chart": properties["chart"], "values": properties["values"]}}]}})
    };
    let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "a"}, "spec": object("one")});
    let app = serde_json::from_value(app).unwrap();
    let apps = space.applications();
    until("the definition to be known", LIMIT, async || {
        apps.create(&PostParams::default(), &app).await.is_ok()
    })
    .await;
    space.running("a").await;
    assert_eq!(records(&space, "web").await, revisions(&[(1, "deployed")]));
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("one"));
    let patch = Patch::Merge(json!({"spec": object("two")}));
    apps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    until("the second revision", LIMIT, async || {
        records(&space, "web").await == revisions(&[(1, "superseded"), (2, "deployed")])
    })
    .await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("two"));
    apps.delete("a", &DeleteParams::default()).await.unwrap();
    until("the end", LIMIT, async || {
        records(&space, "web").await.is_empty()
            && data(&space, "web-map", "greeting").await.is_none()
    })
    .await;
}
