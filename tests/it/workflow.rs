//! Workflows with steps: what they do, in which order, and that it goes with the Application.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::fixtures::{Space, until};

async fn create(space: &Space, name: &str, spec: Value) {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap();
    space.applications().create(&PostParams::default(), &object).await.unwrap();
}

fn web(name: &str, replicas: u32) -> Value {
    json!({
        "name": name, "type": "webservice", "properties": { "image": "nginx" },
        "traits": [{ "type": "scaler", "properties": { "replicas": replicas } }],
    })
}

async fn phase(space: &Space, name: &str) -> String {
    let application = space.applications().get(name).await.unwrap();
    application.data["status"]["status"].as_str().unwrap_or_default().to_owned()
}

fn steps(application: &DynamicObject) -> Vec<(String, String)> {
    let steps = application.data["status"]["workflow"]["steps"].as_array().unwrap();
    let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    steps.iter().map(|step| (text(step, "name"), text(step, "phase"))).collect()
}

#[tokio::test]
async fn steps_run_in_order_and_what_they_made_goes_with_the_application() {
    let space = Space::with_programs("steps").await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "made-by-step", "namespace": space.name() },
        "data": { "a": "1" },
    });
    let spec = json!({
        "components": [web("front", 1)],
        "workflow": { "steps": [
            { "name": "first", "type": "apply-component", "properties": { "component": "front" } },
            { "name": "say", "type": "print-message-in-status", "properties": { "message": "half way" } },
            { "name": "made", "type": "apply-object", "properties": { "value": map } },
            { "name": "not", "type": "apply-object", "if": "status.say.failed", "properties": { "value": {} } },
            { "name": "wait", "type": "suspend" },
            { "name": "seen", "type": "read-object", "properties": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "made-by-step", "namespace": space.name() } },
        ] },
    });
    create(&space, "stepped", spec).await;
    until("the suspended step", Duration::from_secs(60), async || {
        phase(&space, "stepped").await == "workflowSuspending"
    })
    .await;
    let map = space.api::<ConfigMap>().get("made-by-step").await.unwrap();
    assert_eq!(map.metadata.labels.unwrap()["app.oam.dev/name"], "stepped");

    // as `vela workflow resume` does it
    let application = space.applications().get("stepped").await.unwrap();
    let mut workflow = application.data["status"]["workflow"].clone();
    workflow["suspend"] = json!(false);
    for step in workflow["steps"].as_array_mut().unwrap() {
        if step["phase"] == "suspending" {
            step["phase"] = json!("running");
        }
    }
    let resume = json!({ "status": { "workflow": workflow } });
    space
        .applications()
        .patch_status("stepped", &PatchParams::default(), &Patch::Merge(&resume))
        .await
        .unwrap();
    let application = space.running("stepped").await;
    let expected = [
        ("first", "succeeded"),
        ("say", "succeeded"),
        ("made", "succeeded"),
        ("not", "skipped"),
        ("wait", "succeeded"),
        ("seen", "succeeded"),
    ];
    assert_eq!(steps(&application), expected.map(|(n, p)| (n.to_owned(), p.to_owned())));
    assert_eq!(application.data["status"]["workflow"]["steps"][1]["message"], "half way");

    space.applications().delete("stepped", &DeleteParams::default()).await.unwrap();
    until("nothing left", Duration::from_secs(60), async || {
        space.applications().get_opt("stepped").await.unwrap().is_none()
            && space.api::<ConfigMap>().get_opt("made-by-step").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn policies_decide_what_is_deployed() {
    let space = Space::with_programs("deploy").await;
    let spec = json!({
        "components": [web("front", 1), web("back", 1)],
        "policies": [
            { "name": "here", "type": "topology", "properties": { "clusters": ["local"] } },
            { "name": "more", "type": "override", "properties": {
                "components": [{ "name": "front", "traits": [
                    { "type": "scaler", "properties": { "replicas": 3 } }] }],
                "selector": ["front"] } },
        ],
    });
    create(&space, "spread", spec).await;
    let application = space.running("spread").await;
    assert_eq!(steps(&application), [("deploy-here".to_owned(), "succeeded".to_owned())]);
    let deployment = space.api::<Deployment>().get("front").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(3));
    assert!(space.api::<Deployment>().get_opt("back").await.unwrap().is_none());
}

/// As `vela workflow resume` does it.
async fn resume(space: &Space, name: &str) {
    let application = space.applications().get(name).await.unwrap();
    let mut workflow = application.data["status"]["workflow"].clone();
    workflow["suspend"] = json!(false);
    for step in workflow["steps"].as_array_mut().unwrap() {
        if step["phase"] == "suspending" {
            step["phase"] = json!("running");
        }
    }
    let resume = Patch::Merge(json!({ "status": { "workflow": workflow } }));
    space.applications().patch_status(name, &PatchParams::default(), &resume).await.unwrap();
}

#[tokio::test]
async fn values_are_in_the_context_and_its_loss_stops_nothing() {
    let space = Space::with_programs("context").await;
    let spec = json!({
        "components": [],
        "workflow": { "steps": [
            { "name": "read", "type": "read-object",
              "properties": { "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "namespace": space.name() },
              "outputs": [{ "name": "who", "valueFrom": "output.value.metadata.name" }] },
            { "name": "wait", "type": "suspend" },
            { "name": "say", "type": "print-message-in-status",
              "inputs": [{ "from": "who", "parameterKey": "message" }] },
        ] },
    });
    create(&space, "kept", spec).await;
    until("the suspended step", Duration::from_secs(60), async || {
        phase(&space, "kept").await == "workflowSuspending"
    })
    .await;
    let maps = space.api::<ConfigMap>();
    let context = maps.get("workflow-kept-context").await.unwrap();
    assert_eq!(context.metadata.owner_references.unwrap()[0].name, "kept");
    let data = context.data.unwrap();
    assert_eq!(data["vars"], "who: \"kube-root-ca.crt\"\n");
    assert!(
        data.keys().any(|key| key.ends_with(".wait.suspendTimeStamp")
            || key.ends_with(".suspend.suspendTimeStamp"))
    );
    maps.delete("workflow-kept-context", &DeleteParams::default()).await.unwrap();
    resume(&space, "kept").await;
    let application = space.running("kept").await;
    assert_eq!(application.data["status"]["workflow"]["steps"][2]["message"], "kube-root-ca.crt");
}

#[tokio::test]
async fn workflows_and_policies_may_be_objects_of_their_own() {
    let space = Space::with_programs("apart").await;
    let object = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": "core.oam.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
        });
        object.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
        serde_json::from_value::<DynamicObject>(object).unwrap()
    };
    let policy = json!({ "type": "override", "properties": {
        "components": [{ "name": "front", "traits": [{ "type": "scaler", "properties": { "replicas": 2 } }] }] } });
    let workflow = json!({ "steps": [{ "name": "roll", "type": "deploy", "properties": { "policies": ["twice"] } }] });
    for (kind, name, rest) in [("Policy", "twice", policy), ("Workflow", "rollout", workflow)] {
        let all = space.objects("core.oam.dev/v1alpha1", kind);
        all.create(&PostParams::default(), &object(kind, name, rest)).await.unwrap();
    }
    let spec = json!({ "components": [web("front", 1)], "workflow": { "ref": "rollout" } });
    create(&space, "referring", spec).await;
    let application = space.running("referring").await;
    assert_eq!(steps(&application), [("roll".to_owned(), "succeeded".to_owned())]);
    let deployments = space.api::<Deployment>();
    let replicas =
        async || deployments.get("front").await.unwrap().spec.unwrap().replicas.unwrap_or_default();
    assert_eq!(replicas().await, 2);
    // An edit of what it refers to is an edit of the Application.
    let thrice = json!({ "properties": {
        "components": [{ "name": "front", "traits": [{ "type": "scaler", "properties": { "replicas": 3 } }] }] } });
    let (policies, workflows) = (
        space.objects("core.oam.dev/v1alpha1", "Policy"),
        space.objects("core.oam.dev/v1alpha1", "Workflow"),
    );
    let merge = PatchParams::default();
    policies.patch("twice", &merge, &Patch::Merge(&thrice)).await.unwrap();
    until("three replicas", Duration::from_secs(30), async || replicas().await == 3).await;
    space.running("referring").await;
    let renamed = json!({ "steps": [{ "name": "anew", "type": "deploy", "properties": { "policies": ["twice"] } }] });
    workflows.patch("rollout", &merge, &Patch::Merge(&renamed)).await.unwrap();
    until("the other step", Duration::from_secs(30), async || {
        let application = space.applications().get("referring").await.unwrap();
        steps(&application) == [("anew".to_owned(), "succeeded".to_owned())]
    })
    .await;
}
