//! Which edits the API server asks the webhook about.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options, Program};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{admits, application, applications};

/// How often the webhook was asked for a patch, and for its opinion.
async fn asked(webhook: &Program) -> [f64; 2] {
    let of = async |rule: &str| {
        let label = format!("webhook=\"/{rule}-core-oam-dev-v1beta1-applications\"");
        webhook.metric_of("controller_runtime_webhook_requests_total", &label).await.unwrap()
    };
    [of("mutating").await, of("validating").await]
}

#[tokio::test(flavor = "multi_thread")]
async fn without_authentication_only_what_may_need_a_patch_is_asked_for_one() {
    let cluster = Cluster::start("reviews").await.unwrap();
    let values = vec!["authentication.enabled=false".to_owned()];
    let options = Options { values, ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    // A write of its own in the middle of an edit would have the edit reviewed again.
    assert!(deployed.controller.stop(Duration::from_secs(15)).unwrap());
    let client = cluster.client().await.unwrap();
    let api = applications(client.clone());
    until("admission", Duration::from_secs(30), async || admits(&client).await.is_ok()).await;
    let mut created = application("edited", &json!("nginx"));
    created["metadata"]["annotations"] = json!({"a": "b"});
    api.create(&PostParams::default(), &serde_json::from_value(created).unwrap()).await.unwrap();

    let components = application("edited", &json!("nginx:2"))["spec"]["components"].clone();
    let step = json!({"type": "suspend"});
    let named = json!("step-0");
    // The edit, how often a patch and an opinion are asked for, what is there afterwards.
    let edits: [(Value, [f64; 2], &str, Value); 5] = [
        (
            json!({"spec": {"components": components}}),
            [0.0, 1.0],
            "/spec/components",
            components.clone(),
        ),
        (json!({"metadata": {"labels": {"a": "b"}}}), [0.0, 1.0], "/metadata/labels/a", json!("b")),
        (json!({"status": {}}), [0.0, 0.0], "/spec/components", components.clone()),
        (
            json!({"metadata": {"annotations": {"app.oam.dev/username": "admin"}}}),
            // Nothing is left to have an opinion on.
            [1.0, 0.0],
            "/metadata/annotations/app.oam.dev~1username",
            Value::Null,
        ),
        (
            json!({"spec": {"workflow": {"steps": [step]}}}),
            [1.0, 1.0],
            "/spec/workflow/steps/0/name",
            named,
        ),
    ];
    for (edit, times, pointer, value) in edits {
        let before = asked(&deployed.webhook).await;
        let answer =
            api.patch("edited", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
        let after = asked(&deployed.webhook).await;
        assert_eq!([after[0] - before[0], after[1] - before[1]], times, "{edit}");
        let object = serde_json::to_value(answer).unwrap();
        assert_eq!(object.pointer(pointer).unwrap_or(&Value::Null), &value, "{edit}");
    }
    // What is no spec is told as such, not as a condition that cannot be evaluated.
    for (spec, why) in [
        (Value::Null, "\"spec\": an Application that loses its spec"),
        (json!("none"), "\"spec\": must be an object"),
        (json!([]), "\"spec\": must be an object"),
        (json!({"workflow": "none"}), "\"spec.workflow\": must be an object"),
    ] {
        let edit = json!({ "spec": spec });
        let answer = api.patch("edited", &PatchParams::default(), &Patch::Merge(&edit)).await;
        let told = answer.unwrap_err().to_string();
        assert!(told.contains(why), "{spec}: {told}");
    }
    deployed.webhook.check().unwrap();
}
