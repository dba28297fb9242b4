//! What people do to a workflow through the `vela` client, as the changes the client sends; and a process that dies
//! between an effect and its outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::Deployed;
use vela_tests::fixtures::{Space, binaries, deployed, reaching_loopback, until};
use vela_tests::release::applications;
use vela_tests::wire::message;

const LIMIT: Duration = Duration::from_secs(90);

fn application(name: &str, annotations: &Value, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec,
    }))
    .unwrap()
}

async fn status(all: &Api<DynamicObject>, name: &str) -> Value {
    all.get(name).await.unwrap().data["status"].clone()
}

/// Waits for a phase; a workflow that ends otherwise is reported at once.
async fn phase(all: &Api<DynamicObject>, name: &str, wanted: &str) -> Value {
    let mut last = Value::Null;
    until(&format!("{name} {wanted}"), LIMIT, async || {
        last = status(all, name).await;
        last["status"] == wanted
    })
    .await;
    last
}

fn steps(status: &Value) -> Vec<(String, String)> {
    let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    let list = status["workflow"]["steps"].as_array().cloned().unwrap_or_default();
    let one = |step: &Value| {
        let (phase, reason) = (text(step, "phase"), text(step, "reason"));
        let ended = if reason.is_empty() { phase } else { format!("{phase}/{reason}") };
        (text(step, "name"), ended)
    };
    list.iter().map(one).collect()
}

fn owned(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, phase)| ((*name).to_owned(), (*phase).to_owned())).collect()
}

/// Reads the workflow's status, changes it and sends it as a merge patch, as the client does.
async fn operate(all: &Api<DynamicObject>, name: &str, change: impl Fn(&mut Value)) {
    let mut workflow = status(all, name).await["workflow"].clone();
    change(&mut workflow);
    let patch = Patch::Merge(json!({"status": {"workflow": workflow}}));
    all.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

fn each_step(workflow: &mut Value, change: impl Fn(&mut Value)) {
    workflow["steps"].as_array_mut().into_iter().flatten().for_each(change);
}

fn suspend(workflow: &mut Value) {
    workflow["suspend"] = json!(true);
    each_step(workflow, |step| {
        if step["phase"] == "running" {
            step["phase"] = json!("suspending");
        }
    });
}

/// All suspended steps, or one.
fn resume(workflow: &mut Value, only: Option<&str>) {
    workflow["suspend"] = json!(false);
    each_step(workflow, |step| {
        let meant = only.is_none_or(|name| step["name"] == name);
        if meant && step["phase"] == "suspending" {
            step["phase"] = json!("running");
        }
    });
}

fn terminate(workflow: &mut Value) {
    workflow["terminated"] = json!(true);
    workflow["suspend"] = json!(false);
    each_step(workflow, |step| {
        if step["phase"] == "running" || step["phase"] == "suspending" {
            step["phase"] = json!("failed");
            step["reason"] = json!("Terminate");
        }
    });
}

/// A component whose Pod wants a node of some kind.
fn on_node(labels: &Value) -> Value {
    json!([{"name": "web", "type": "webservice", "properties": {"image": "nginx"}, "traits": [
        {"type": "json-merge-patch",
         "properties": {"spec": {"template": {"spec": {"nodeSelector": labels}}}}}]}])
}

#[tokio::test]
async fn a_running_step_is_suspended_resumed_terminated_and_restarted() {
    let space = Space::with_programs("operate").await;
    let all = space.applications();
    let spec = json!({
        "components": on_node(&json!({"test/node": "none"})),
        "workflow": {"steps": [
            {"name": "web", "type": "apply-component", "properties": {"component": "web"}},
            {"name": "say", "type": "print-message-in-status", "properties": {"message": "done"}},
        ]},
    });
    all.create(&PostParams::default(), &application("big", &json!({}), &spec)).await.unwrap();
    let waits = [("web", "running/Wait")];
    until("a step that waits", LIMIT, async || steps(&status(&all, "big").await) == owned(&waits))
        .await;

    operate(&all, "big", suspend).await;
    let halted = phase(&all, "big", "workflowSuspending").await;
    assert_eq!(steps(&halted), owned(&[("web", "suspending/Wait")]));

    operate(&all, "big", |workflow| resume(workflow, None)).await;
    // a step that waits for long says why, and the workflow since when
    until("the reason", LIMIT, async || {
        let status = status(&all, "big").await;
        let message = status["workflow"]["steps"][0]["message"].as_str().unwrap_or_default();
        message.contains("Deployment web: Unschedulable")
    })
    .await;
    let said = status(&all, "big").await["workflow"]["message"].clone();
    let said = said.as_str().unwrap();
    assert!(said.starts_with("waiting for step web since 20"), "{said}");
    assert!(said.ends_with("Z, checked again within 60s"), "{said}");

    operate(&all, "big", terminate).await;
    let ended = phase(&all, "big", "workflowTerminated").await;
    assert_eq!(steps(&ended), owned(&[("web", "failed/Terminate"), ("say", "skipped/Skip")]));
    assert_eq!(ended["workflow"]["finished"], true);

    // restart: the status is written without the workflow
    let mut object = all.get("big").await.unwrap();
    object.data["status"].as_object_mut().unwrap().remove("workflow");
    all.replace_status("big", &PostParams::default(), &object).await.unwrap();
    phase(&all, "big", "runningWorkflow").await;
    let fits = Patch::Merge(json!({"spec": {"components": on_node(&json!({}))}}));
    all.patch("big", &PatchParams::default(), &fits).await.unwrap();
    let done = space.running("big").await;
    assert_eq!(steps(&done.data["status"]), owned(&[("web", "succeeded"), ("say", "succeeded")]));
    assert_eq!(done.data["status"]["workflow"]["message"], Value::Null, "nothing is waited for");
}

#[tokio::test]
async fn one_of_two_suspended_steps_is_resumed() {
    let space = Space::with_programs("resume").await;
    let all = space.applications();
    let spec = json!({"components": [], "workflow": {"mode": {"steps": "DAG"}, "steps": [
        {"name": "first", "type": "suspend"}, {"name": "second", "type": "suspend"},
    ]}});
    all.create(&PostParams::default(), &application("two", &json!({}), &spec)).await.unwrap();
    let both = [("first", "suspending/Suspend"), ("second", "suspending/Suspend")];
    until("both", LIMIT, async || steps(&status(&all, "two").await) == owned(&both)).await;
    operate(&all, "two", |workflow| resume(workflow, Some("second"))).await;
    let one = [("first", "suspending/Suspend"), ("second", "succeeded")];
    until("one", LIMIT, async || steps(&status(&all, "two").await) == owned(&one)).await;
    phase(&all, "two", "workflowSuspending").await;
    operate(&all, "two", |workflow| resume(workflow, Some("first"))).await;
    space.running("two").await;
}

/// Counts requests by path and answers with a code that the test sets. A path that ends with `hold` is never answered.
#[derive(Default)]
struct Server {
    heard: Mutex<BTreeMap<String, usize>>,
    code: AtomicUsize,
}

impl Server {
    async fn start() -> (Arc<Self>, String) {
        let server = Arc::new(Self::default());
        server.code.store(500, Ordering::SeqCst);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let own = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let server = Arc::clone(&own);
                tokio::spawn(async move {
                    let Ok((head, _)) = message(&mut stream).await else { return };
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    *server.heard.lock().entry(path.clone()).or_default() += 1;
                    if path.ends_with("hold") {
                        let mut rest = [0; 1];
                        let _ = stream.read(&mut rest).await;
                        return;
                    }
                    let code = if path.ends_with("fine") {
                        200
                    } else {
                        server.code.load(Ordering::SeqCst)
                    };
                    let answer = format!("HTTP/1.1 {code} said\r\ncontent-length: 2\r\n\r\n{{}}");
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        (server, address)
    }

    fn heard(&self, path: &str) -> usize {
        self.heard.lock().get(path).copied().unwrap_or(0)
    }
}

fn post(name: &str, url: &str) -> Value {
    json!({"name": name, "type": "request",
        "properties": {"url": url, "method": "POST", "body": {"from": name}}})
}

#[tokio::test]
async fn a_workflow_is_restarted_from_a_failed_step() {
    let space = Space::with_programs("fromstep").await;
    let (server, address) = Server::start().await;
    let mut first = post("first", &format!("{address}/fine"));
    first["outputs"] = json!([{"name": "kept", "valueFrom": "context.name"}]);
    let mut second = post("second", &format!("{address}/flaky"));
    second["outputs"] = json!([{"name": "lost", "valueFrom": "context.name"}]);
    let say = json!({"name": "say", "type": "print-message-in-status",
        "inputs": [{"from": "lost", "parameterKey": "message"}]});
    let spec = json!({"components": [], "workflow": {"steps": [first, second, say]}});
    let all = space.applications();
    all.create(&PostParams::default(), &application("step", &json!({}), &spec)).await.unwrap();
    let failed = phase(&all, "step", "workflowFailed").await;
    let expected = [("first", "succeeded"), ("second", "failed/Action"), ("say", "skipped/Skip")];
    assert_eq!(steps(&failed), owned(&expected));

    server.code.store(200, Ordering::SeqCst);
    // the status first, then the variables of the forgotten steps
    let mut object = all.get("step").await.unwrap();
    let workflow = &mut object.data["status"]["workflow"];
    for key in ["terminated", "suspend", "finished"] {
        workflow[key] = json!(false);
    }
    workflow["endTime"] = Value::Null;
    workflow["steps"].as_array_mut().unwrap().retain(|step| step["name"] == "first");
    all.replace_status("step", &PostParams::default(), &object).await.unwrap();
    let vars = Patch::Merge(json!({"data": {"vars": "kept: \"step\"\n"}}));
    let maps = space.api::<ConfigMap>();
    maps.patch("workflow-step-context", &PatchParams::default(), &vars).await.unwrap();

    let done = space.running("step").await;
    let expected = [("first", "succeeded"), ("second", "succeeded"), ("say", "succeeded")];
    assert_eq!(steps(&done.data["status"]), owned(&expected));
    assert_eq!((server.heard("/fine"), server.heard("/flaky")), (1, 2), "nothing else is repeated");
}

fn config_map(value: &str) -> Value {
    json!([{"name": "a", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": value}}]}}])
}

#[tokio::test]
async fn an_application_is_rolled_back_to_what_was_published_before() {
    let space = Space::with_programs("rollback").await;
    let all = space.applications();
    let step = json!({"name": "a", "type": "apply-component", "properties": {"component": "a"}});
    let publish = |version: &str| json!({"app.oam.dev/publishVersion": version});
    let spec = json!({"components": config_map("1"), "workflow": {"steps": [step]}});
    all.create(&PostParams::default(), &application("back", &publish("r1"), &spec)).await.unwrap();
    let first = space.running("back").await;
    let second = json!({"metadata": {"annotations": publish("r2")}, "spec": {
        "components": config_map("2"),
        "workflow": {"steps": [step, {"name": "s", "type": "suspend"}]}}});
    all.patch("back", &PatchParams::default(), &Patch::Merge(&second)).await.unwrap();
    phase(&all, "back", "workflowSuspending").await;

    // frozen, with the spec of before
    let required = "app.oam.dev/controller-version-require";
    let mut object = all.get("back").await.unwrap();
    object.data["spec"] = first.data["spec"].clone();
    let annotations = object.metadata.annotations.as_mut().unwrap();
    annotations.insert("app.oam.dev/publishVersion".into(), "r1".into());
    annotations.insert(required.into(), "none, while it is rolled back".into());
    let mut object = all.replace("back", &PostParams::default(), &object).await.unwrap();
    // the status of before, from the revision and its tracker
    let revisions = space.objects("core.oam.dev/v1beta1", "ApplicationRevision");
    let revision = revisions.get("back-v1").await.unwrap();
    let status = object.data["status"].as_object_mut().unwrap();
    status.insert("workflow".into(), revision.data["status"]["workflow"].clone());
    status.insert("services".into(), json!([]));
    status.insert("status".into(), json!("running"));
    for key in ["appliedResources", "latestRevision"] {
        status.insert(key.into(), first.data["status"][key].clone());
    }
    let mut object = all.replace_status("back", &PostParams::default(), &object).await.unwrap();
    // the tracker belongs to this generation, then the controller may reconcile again
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "ResourceTracker");
    let trackers: Api<DynamicObject> = Api::all_with(space.client(), &ApiResource::from_gvk(&kind));
    let tracker = format!("back-r1-{}", space.name());
    let generation = json!({"spec": {"applicationGeneration": object.metadata.generation}});
    trackers.patch(&tracker, &PatchParams::default(), &Patch::Merge(generation)).await.unwrap();
    object.metadata.annotations.as_mut().unwrap().remove(required);
    all.replace("back", &PostParams::default(), &object).await.unwrap();
    revisions.delete("back-v2", &DeleteParams::default()).await.unwrap();

    let done = space.running("back").await;
    assert_eq!(done.data["status"]["latestRevision"]["name"], "back-v1");
    let ended = |object: &DynamicObject| object.data["status"]["workflow"]["endTime"].clone();
    assert_eq!(ended(&done), ended(&first), "the workflow did not run again");
    until("what was published before", LIMIT, async || {
        let map = space.api::<ConfigMap>().get("a").await.unwrap();
        map.data.unwrap()["v"] == "1" && space.trackers().await.len() == 1
    })
    .await;
    assert!(revisions.get_opt("back-v2").await.unwrap().is_none());
}

/// Without a publishVersion the spec of an earlier revision is written back: the revision moves back with it, and the number
/// of the one that was left is not used again.
#[tokio::test]
async fn an_application_without_a_version_is_rolled_back() {
    let space = Space::with_programs("back").await;
    let all = space.applications();
    let put = async |spec: &Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        all.patch("plain", &PatchParams::default(), &patch).await.unwrap();
    };
    let runs_as = async |revision: &str, value: &str| {
        until(&format!("{revision} with {value}"), LIMIT, async || {
            let status = status(&all, "plain").await;
            let map = space.api::<ConfigMap>().get_opt("a").await.unwrap();
            status["status"] == "running"
                && status["latestRevision"]["name"] == revision
                && map.is_some_and(|map| map.data.unwrap()["v"] == value)
                && space.trackers().await.len() == 1
        })
        .await;
    };
    let first = json!({"components": config_map("1")});
    all.create(&PostParams::default(), &application("plain", &json!({}), &first)).await.unwrap();
    runs_as("plain-v1", "1").await;
    put(&json!({"components": config_map("2")})).await;
    runs_as("plain-v2", "2").await;
    let revisions = space.objects("core.oam.dev/v1beta1", "ApplicationRevision");
    put(&first).await;
    runs_as("plain-v1", "1").await;
    let after = revisions.get("plain-v2").await.unwrap();
    put(&json!({"components": config_map("3")})).await;
    runs_as("plain-v3", "3").await;
    let kept = revisions.get_opt("plain-v2").await.unwrap();
    assert!(kept.is_none_or(|kept| kept.data["spec"] == after.data["spec"]), "it is as it was");
}

/// What never becomes healthy fails its step when nothing changes any more; an edit gets it going again.
#[tokio::test]
async fn what_never_becomes_healthy_is_given_up_and_an_edit_mends_it() {
    let space = Space::with_programs("never").await;
    let all = space.applications();
    let spec = |memory: &str| {
        json!({"components": [{"name": "web", "type": "webservice",
            "properties": {"image": "nginx", "cpu": "10m", "memory": memory}}]})
    };
    let deadline = json!({"app.oam.dev/progress-deadline": "3s"});
    // No node has that much.
    let created = application("never", &deadline, &spec("900Ti"));
    all.create(&PostParams::default(), &created).await.unwrap();
    let failed = phase(&all, "never", "workflowFailed").await;
    assert_eq!(steps(&failed), owned(&[("web", "failed/Timeout")]));
    let said = failed["workflow"]["steps"][0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("no progress for 3s"), "{said}");
    assert_eq!(failed["services"][0]["healthy"], false);
    let patch = Patch::Merge(json!({"spec": spec("10Mi")}));
    all.patch("never", &PatchParams::default(), &patch).await.unwrap();
    let done = space.running("never").await;
    assert_eq!(steps(&done.data["status"]), owned(&[("web", "succeeded")]));
}

/// The process dies while an answer is awaited: nobody knows whether the request was acted upon.
#[tokio::test]
async fn a_request_whose_end_nobody_knows_is_reported_and_not_sent_again() {
    let cluster = Cluster::start_lean("kill").await.unwrap();
    // built once, by whoever needs the programs first
    drop(deployed().await);
    let deployed = Deployed::start(&cluster, &binaries(), &reaching_loopback()).await.unwrap();
    let (server, address) = Server::start().await;
    let all = applications(cluster.client().await.unwrap());
    let mut held = post("held", &format!("{address}/hold"));
    held["properties"]["url"] = json!(format!("{address}/hold"));
    let fine = post("fine", &format!("{address}/fine"));
    let spec = json!({"components": [], "workflow": {"steps": [fine, held]}});
    all.create(&PostParams::default(), &application("killed", &json!({}), &spec)).await.unwrap();
    until("the request", LIMIT, async || server.heard("/hold") == 1).await;
    deployed.controller.kill().unwrap();
    until("its end", LIMIT, async || deployed.controller.pid().is_none()).await;
    deployed.controller.start(&cluster).unwrap();
    let failed = phase(&all, "killed", "workflowFailed").await;
    assert_eq!(steps(&failed), owned(&[("fine", "succeeded"), ("held", "failed/Action")]));
    let message = failed["workflow"]["steps"][1]["message"].as_str().unwrap();
    assert!(message.contains("its result is unknown, so it is not repeated"), "{message}");
    assert_eq!((server.heard("/fine"), server.heard("/hold")), (1, 1), "sent once each");
    deployed.stop(Duration::from_secs(10)).unwrap();
    cluster.stop();
}
