//! WorkflowRuns on a real control plane: what they do, as whom, and how clients operate them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{Space, binaries, until};
use vela_tests::fleet;
use vela_tests::material::workspace;
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

use crate::metrics;

const LIMIT: Duration = Duration::from_secs(90);

/// The objects of a kind in a namespace.
fn objects(client: &Client, namespace: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("core.oam.dev", version, kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk))
}

/// WorkflowRuns of a namespace, as one user handles them.
struct Runs(Api<DynamicObject>);

impl Runs {
    fn of(client: &Client, namespace: &str) -> Self {
        Self(objects(client, namespace, "v1alpha1", "WorkflowRun"))
    }

    async fn try_create(&self, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "core.oam.dev/v1alpha1", "kind": "WorkflowRun",
            "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        // The authorizer learns of a new role through a watch.
        until("the right", LIMIT, async || self.0.get_opt("none").await.is_ok()).await;
        self.0.create(&PostParams::default(), &object).await
    }

    async fn create(&self, name: &str, steps: &Value) {
        let spec = json!({"workflowSpec": {"steps": steps}});
        self.try_create(name, &spec).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    async fn status(&self, name: &str) -> Value {
        self.0.get(name).await.unwrap().data["status"].clone()
    }

    /// Waits for a phase; returns the status.
    async fn reaches(&self, name: &str, phase: &str) -> Value {
        let mut last = Value::Null;
        until(&format!("{name} is {phase}"), LIMIT, async || {
            last = self.status(name).await;
            last["status"] == phase
        })
        .await;
        last
    }

    /// Writes a status as clients do: a merge patch of all of it.
    async fn patch(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut status = self.status(name).await;
        change(&mut status);
        let patch = Patch::Merge(json!({"status": status}));
        self.0.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// As `vela workflow resume` does it.
    async fn resume(&self, name: &str) {
        self.patch(name, |status| {
            status["suspend"] = json!(false);
            for step in status["steps"].as_array_mut().unwrap() {
                if step["phase"] == "suspending" {
                    step["phase"] = json!("running");
                }
            }
        })
        .await;
    }
}

fn map(namespace: &str, name: &str) -> Value {
    json!({"value": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": {"a": "1"}}})
}

fn phases(status: &Value) -> Vec<String> {
    let steps = status["steps"].as_array().unwrap().iter();
    steps.map(|step| format!("{}: {}", step["name"], step["phase"]).replace('"', "")).collect()
}

async fn started(name: &'static str, values: &[&str]) -> (Cluster, Deployed) {
    let cluster = Cluster::start(name).await.unwrap();
    let gate = ["featureGates.enableWorkflowRun=true"];
    let values = gate.iter().chain(values).map(|value| (*value).to_owned()).collect();
    let options = Options { values, ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let admin = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    (cluster, deployed)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_act_as_their_authors_and_clients_operate_them() {
    let (cluster, deployed) = started("workflow-run", &[]).await;
    let team = Tenant::new(&cluster, "team").await.unwrap();
    let runs = Runs::of(team.client(), "team");
    let maps: Api<ConfigMap> = Api::namespaced(team.client().clone(), "team");

    succeeds(&runs, &maps).await;
    suspends_and_resumes(&runs).await;
    ends_otherwise(&runs, team.client()).await;
    refers_to_a_workflow(&runs, team.client()).await;
    is_no_more_than_its_author(&runs).await;
    is_refused(&runs).await;
    let admin = cluster.client().await.unwrap();
    the_example_of_the_documentation_runs(&admin).await;

    let printed = metrics::printed(&deployed.controller.metrics().await.unwrap());
    let documented = metrics::documented("The controller");
    for name in [
        "workflowrun_reconcile_time_seconds",
        "workflowrun_finished_time_seconds",
        "workflowrun_phase_number",
        "workflowrun_step_phase_number",
    ] {
        assert!(printed.contains_key(name), "{name} is not printed");
        assert_eq!(printed.get(name), documented.get(name), "{name}");
    }

    // Nobody stamps it now: it does nothing, and says so.
    deployed.admission.close(&cluster).await.unwrap();
    runs.create(
        "unstamped",
        &json!([{"name": "a", "type": "apply-object",
        "properties": map("team", "unstamped")}]),
    )
    .await;
    let status = runs.reaches("unstamped", "initializing").await;
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("WorkflowRun"), &json!("False"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("author of WorkflowRun team/unstamped is not known"), "{message}");
    assert!(maps.get_opt("unstamped").await.unwrap().is_none());
    assert_eq!(status["steps"], Value::Null);
    deployed.check().unwrap();
}

/// With several replicas, another one goes on with the runs of one that died: nothing is executed twice, and no value is lost.
#[tokio::test(flavor = "multi_thread")]
async fn another_replica_continues_runs() {
    let (cluster, deployed) = started("workflow-run-fleet", &["sharding.mode=auto"]).await;
    let client = cluster.client().await.unwrap();
    let other = deployed.controller.replica(&cluster, "controller-2").unwrap();
    other.start(&cluster).unwrap();
    other.ready().await.unwrap();
    until("two members share", LIMIT, async || fleet::is_balanced(&client, 2).await.unwrap()).await;
    let runs = Runs::of(&client, "default");
    let steps = json!([
        {"name": "made", "type": "apply-object", "properties": map("default", "made")},
        {"name": "read", "type": "read-object",
            "properties": {"apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": "default"},
            "outputs": [{"name": "value", "valueFrom": "output.value.data.a"}]},
        {"name": "wait", "type": "suspend"},
        {"name": "say", "type": "print-message-in-status",
            "inputs": [{"from": "value", "parameterKey": "message"}]},
        {"name": "last", "type": "apply-object", "properties": map("default", "last")},
    ]);
    runs.create("moved", &steps).await;
    let before = runs.reaches("moved", "suspending").await;
    // The first replica leads, and the leader handles the runs.
    deployed.controller.kill().unwrap();
    runs.resume("moved").await;
    let after = runs.reaches("moved", "succeeded").await;
    let expected = [
        "made: succeeded",
        "read: succeeded",
        "wait: succeeded",
        "say: succeeded",
        "last: succeeded",
    ];
    assert_eq!(phases(&after), expected, "{after:#}");
    assert_eq!(after["steps"][3]["message"], "1");
    assert_eq!(after["steps"][0], before["steps"][0], "what was executed is not executed again");
    let log = audit::read(&cluster.audit_log(), 0).unwrap();
    let creations = |name: &str| -> Vec<String> {
        let of = |entry: &&Entry| {
            (&*entry.verb, &*entry.resource, &*entry.name) == ("create", "configmaps", name)
                && entry.code < 300
                && !entry.dry_run
        };
        log.iter().filter(of).map(|entry| entry.agent.clone()).collect()
    };
    let (made, last) = (creations("made"), creations("last"));
    assert_eq!((made.len(), last.len()), (1, 1), "{made:?} {last:?}");
    assert_ne!(made, last, "the other replica executed the last step");
    other.check().unwrap();
    cluster.stop();
}

/// Steps run in order; what they apply says which run it was, and stays when that is deleted.
async fn succeeds(runs: &Runs, maps: &Api<ConfigMap>) {
    let made = map("team", "made");
    let steps = json!([
        {"name": "made", "type": "apply-object", "properties": made},
        {"name": "read", "type": "read-object",
            "properties": {"apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": "team"},
            "outputs": [{"name": "value", "valueFrom": "output.value.data.a"}]},
        {"name": "say", "type": "print-message-in-status",
            "inputs": [{"from": "value", "parameterKey": "message"}]},
        {"name": "not", "type": "suspend", "if": "status.say.failed"},
    ]);
    runs.create("good", &steps).await;
    let status = runs.reaches("good", "succeeded").await;
    let expected = ["made: succeeded", "read: succeeded", "say: succeeded", "not: skipped"];
    assert_eq!(phases(&status), expected, "{status:#}");
    assert_eq!(status["steps"][2]["message"], "1");
    assert_eq!((&status["finished"], &status["terminated"]), (&json!(true), &json!(false)));
    assert!(status["endTime"].is_string() && status["startTime"].is_string(), "{status:#}");
    assert_eq!(status["mode"], json!({"steps": "StepByStep", "subSteps": "DAG"}));
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("WorkflowRun"), &json!("Available"))
    );
    let labels = maps.get("made").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["workflowrun.oam.dev/name"], "good");
    assert!(!labels.contains_key("app.oam.dev/name"), "{labels:?}");
    let context = maps.get("workflow-good-context").await.unwrap();
    let owner = &context.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("WorkflowRun", "good"));
    assert_eq!(status["contextBackend"]["name"], "workflow-good-context");

    // As `vela workflow restart` does it: the values go, and the status is what it was before.
    let first = status["steps"][0]["id"].clone();
    maps.delete("workflow-good-context", &DeleteParams::default()).await.unwrap();
    let mut object = runs.0.get("good").await.unwrap();
    object.data["status"] =
        json!({"mode": {}, "suspend": false, "terminated": false, "finished": false});
    runs.0.replace_status("good", &PostParams::default(), &object).await.unwrap();
    let mut again = Value::Null;
    until("the second run", LIMIT, async || {
        again = runs.status("good").await;
        again["status"] == "succeeded" && again["steps"][0]["id"] != first
    })
    .await;
    assert_eq!(phases(&again), expected);

    runs.0.delete("good", &DeleteParams::default()).await.unwrap();
    until("it is gone", LIMIT, async || runs.0.get_opt("good").await.unwrap().is_none()).await;
    assert!(maps.get_opt("made").await.unwrap().is_some());
}

async fn suspends_and_resumes(runs: &Runs) {
    let steps = json!([{"name": "wait", "type": "suspend"},
        {"name": "say", "type": "print-message-in-status", "properties": {"message": "on"}}]);
    runs.create("approved", &steps).await;
    let status = runs.reaches("approved", "suspending").await;
    assert_eq!(
        (phases(&status), &status["suspend"]),
        (vec!["wait: suspending".to_owned()], &json!(true))
    );
    runs.resume("approved").await;
    let status = runs.reaches("approved", "succeeded").await;
    assert_eq!(phases(&status), ["wait: succeeded", "say: succeeded"]);
}

/// It fails, is terminated, and is started again from the step that failed.
async fn ends_otherwise(runs: &Runs, client: &Client) {
    let definitions = objects(client, "team", "v1beta1", "WorkflowStepDefinition");
    let template = "import \"vela/builtin\"\n\
        if parameter.fails {\n end: builtin.#Fail & {$params: message: \"as asked\"}\n}\n\
        parameter: fails: *true | bool";
    let definition = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
        "metadata": {"name": "fails"}, "spec": {"schematic": {"cue": {"template": template}}},
    });
    let definition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let steps = json!([{"name": "bad", "type": "fails"}, {"name": "after", "type": "suspend"},
        {"name": "always", "type": "print-message-in-status", "if": "always", "properties": {"message": "end"}}]);
    // The webhook learns of the definition through a watch.
    let spec = json!({"workflowSpec": {"steps": steps}});
    until("the definition is known", LIMIT, async || runs.try_create("bad", &spec).await.is_ok())
        .await;
    let status = runs.reaches("bad", "failed").await;
    assert_eq!(
        phases(&status),
        ["bad: failed", "after: skipped", "always: succeeded"],
        "{status:#}"
    );
    assert_eq!(status["steps"][0]["reason"], "Action");
    assert_eq!((&status["finished"], &status["conditions"]), (&json!(true), &Value::Null));

    // As `vela workflow terminate` does it.
    runs.create(
        "ended",
        &json!([{"name": "wait", "type": "suspend"}, {"name": "b", "type": "suspend"}]),
    )
    .await;
    runs.reaches("ended", "suspending").await;
    runs.patch("ended", |status| {
        status["terminated"] = json!(true);
        status["suspend"] = json!(false);
        status["steps"][0]["phase"] = json!("failed");
        status["steps"][0]["reason"] = json!("Terminate");
    })
    .await;
    let status = runs.reaches("ended", "terminated").await;
    assert_eq!(phases(&status), ["wait: failed", "b: skipped"], "{status:#}");
    assert_eq!(status["finished"], true);
}

async fn refers_to_a_workflow(runs: &Runs, client: &Client) {
    let spec = json!({"workflowRef": "shared", "context": {"word": "mine"}});
    let refused = runs.try_create("referring", &spec).await.unwrap_err().to_string();
    assert!(refused.contains("spec.workflowRef") && refused.contains("not found"), "{refused}");
    let workflow = json!({
        "apiVersion": "core.oam.dev/v1alpha1", "kind": "Workflow", "metadata": {"name": "shared"},
        "mode": {"steps": "DAG"},
        "steps": [{"name": "say", "type": "print-message-in-status",
            "inputs": [{"from": "context.word", "parameterKey": "message"}]}],
    });
    let workflows = objects(client, "team", "v1alpha1", "Workflow");
    let workflow = serde_json::from_value(workflow).unwrap();
    workflows.create(&PostParams::default(), &workflow).await.unwrap();
    runs.try_create("referring", &spec).await.unwrap();
    let status = runs.reaches("referring", "succeeded").await;
    assert_eq!(status["steps"][0]["message"], "mine");
    assert_eq!(status["mode"], json!({"steps": "DAG", "subSteps": "DAG"}));
}

/// What its author may not do, a run may not either.
async fn is_no_more_than_its_author(runs: &Runs) {
    let steps = json!([{"name": "out", "type": "apply-object", "properties": map("vela-system", "pwned")},
        {"name": "next", "type": "suspend"}]);
    runs.create("outside", &steps).await;
    until("it is forbidden", LIMIT, async || {
        let message = runs.status("outside").await["steps"][0]["message"].to_string();
        message.contains("forbidden") && message.contains("team")
    })
    .await;
    let status = runs.status("outside").await;
    assert_eq!(phases(&status), ["out: failed"], "{status:#}");
    assert_eq!(status["steps"][0]["reason"], "Execute");
    runs.0.delete("outside", &DeleteParams::default()).await.unwrap();
}

async fn is_refused(runs: &Runs) {
    let spec = json!({"workflowSpec": {"steps": [
        {"name": "a", "type": "deploy"}, {"name": "a", "type": "aply-object"}]}});
    let refused = runs.try_create("refused", &spec).await.unwrap_err().to_string();
    for text in [
        "spec.workflowSpec.steps[0].type",
        "needs an Application",
        "spec.workflowSpec.steps[1].name",
        "spec.workflowSpec.steps[1].type",
        "apply-object",
    ] {
        assert!(refused.contains(text), "{text}: {refused}");
    }
}

async fn the_example_of_the_documentation_runs(admin: &Client) {
    let file = workspace().join("docs/examples/workflow-run/report.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let object: DynamicObject = serde_saphyr::from_str(&text).unwrap();
    let runs = Runs::of(admin, "default");
    runs.0.create(&PostParams::default(), &object).await.unwrap();
    runs.reaches("report", "suspending").await;
    runs.resume("report").await;
    runs.reaches("report", "succeeded").await;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    let data = maps.get("report").await.unwrap().data.unwrap();
    assert_eq!(
        (data["source"].as_str(), data["title"].as_str()),
        ("kube-root-ca.crt", "cluster authority")
    );
}

/// With the gate off nobody does anything for a run; the kind is served, as clients need it.
#[tokio::test]
async fn without_the_gate_a_run_is_stored_and_nothing_else() {
    let space = Space::with_programs("gate-off").await;
    let runs = Runs(space.objects("core.oam.dev/v1alpha1", "WorkflowRun"));
    runs.create("idle", &json!([{"name": "a", "type": "suspend"}])).await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}});
    let properties = json!({"objects": [object]});
    let component = json!([{"name": "c", "type": "k8s-objects", "properties": properties}]);
    space.create("later", component).await.unwrap();
    space.running("later").await;
    assert_eq!(runs.status("idle").await, Value::Null);
}
