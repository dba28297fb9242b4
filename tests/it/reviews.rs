//! Which edits the API server asks the webhook about.

use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options, Program, apply_all};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{admits, application, applications};
use vela_tests::tenant::{bound, user};

/// How often the webhook was asked for a patch, and for its opinion.
async fn asked(webhook: &Program) -> [f64; 2] {
    let of = async |rule: &str| {
        let label = format!("webhook=\"/{rule}-core-oam-dev-v1beta1-applications\"");
        webhook.metric_of("controller_runtime_webhook_requests_total", &label).await.unwrap()
    };
    [of("mutating").await, of("validating").await]
}

/// The programs, and an Application that the administrator made.
async fn deployed(cluster: &Cluster, value: &str) -> Deployed {
    let options = Options { values: vec![value.to_owned()], ..Options::default() };
    let deployed = Deployed::start(cluster, &binaries(), &options).await.unwrap();
    // A write of its own in the middle of an edit would have the edit reviewed again.
    assert!(deployed.controller.stop(Duration::from_secs(15)).unwrap());
    let client = cluster.client().await.unwrap();
    until("admission", Duration::from_secs(30), async || admits(&client).await.is_ok()).await;
    let mut created = application("edited", &json!("nginx"));
    created["metadata"]["annotations"] = json!({"a": "b"});
    let created = serde_json::from_value(created).unwrap();
    applications(client).create(&PostParams::default(), &created).await.unwrap();
    deployed
}

/// An edit, which must go through. Returns how often a patch and an opinion were asked for, and what the Application is then.
async fn edited(webhook: &Program, client: &Client, edit: &Value) -> ([f64; 2], Value) {
    let before = asked(webhook).await;
    let api = applications(client.clone());
    let answer = api.patch("edited", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let after = asked(webhook).await;
    ([after[0] - before[0], after[1] - before[1]], serde_json::to_value(answer).unwrap())
}

fn components(image: &str) -> Value {
    application("edited", &json!(image))["spec"]["components"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_authentication_only_what_may_need_a_patch_is_asked_for_one() {
    let cluster = Cluster::start_lean("reviews").await.unwrap();
    let deployed = deployed(&cluster, "authentication.enabled=false").await;
    let client = cluster.client().await.unwrap();
    let components = components("nginx:2");
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
            // An administrator may name somebody: that takes rights away.
            [1.0, 1.0],
            "/metadata/annotations/app.oam.dev~1username",
            json!("admin"),
        ),
        (
            json!({"spec": {"workflow": {"steps": [step]}}}),
            [1.0, 1.0],
            "/spec/workflow/steps/0/name",
            named,
        ),
    ];
    for (edit, times, pointer, value) in edits {
        let (asked, object) = edited(&deployed.webhook, &client, &edit).await;
        assert_eq!(asked, times, "{edit}");
        assert_eq!(object.pointer(pointer).unwrap_or(&Value::Null), &value, "{edit}");
    }
    // What is no spec is reported as such, not as a condition that cannot be evaluated.
    let api = applications(client);
    for (spec, why) in [
        (Value::Null, "\"spec\": without a spec the Application would lose"),
        (json!("none"), "\"spec\": must be an object"),
        (json!([]), "\"spec\": must be an object"),
        (json!({"workflow": "none"}), "\"spec.workflow\": must be an object"),
    ] {
        let edit = json!({ "spec": spec });
        let answer = api.patch("edited", &PatchParams::default(), &Patch::Merge(&edit)).await;
        let answer_text = answer.unwrap_err().to_string();
        assert!(answer_text.contains(why), "{spec}: {answer_text}");
    }
    deployed.webhook.check().unwrap();
}

/// Users who may edit Applications, one of whom may do everything: by his roles, not as one of the group that is never asked.
fn users() -> Vec<Value> {
    let rules = json!([{"apiGroups": ["core.oam.dev"], "resources": ["applications"], "verbs": ["get", "patch"]}]);
    vec![
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "editors"}, "rules": rules}),
        bound("editors", "editors", &user("jane")),
        bound("roots", "cluster-admin", &user("root")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn with_authentication_an_edit_that_decides_nothing_needs_no_patch() {
    let cluster = Cluster::start_lean("authors").await.unwrap();
    let deployed = deployed(&cluster, "authentication.enabled=true").await;
    let own = cluster.client().await.unwrap();
    apply_all(&own, users()).await.unwrap();
    let jane = cluster.client_as("jane", &["kubevela:a", "other", "kubevela:b"]).await.unwrap();
    let left = cluster.client_as("jane", &["kubevela:a"]).await.unwrap();
    let alone = cluster.client_as("jane", &[]).await.unwrap();
    let root = cluster.client_as("root", &["kubevela:a"]).await.unwrap();
    for client in [&jane, &root] {
        // The authorizer learns of roles through a watch.
        let api = applications(client.clone());
        until("the right", Duration::from_secs(10), async || api.get("edited").await.is_ok()).await;
    }
    let image = |image: &str| json!({"spec": {"components": components(image)}});
    let label = |value: &str| json!({"metadata": {"labels": {"a": value}}});
    let annotation = |key: &str, value: &str| json!({"metadata": {"annotations": {format!("app.oam.dev/{key}"): value}}});
    let forged = |user: &str, group: &str, image: &str| {
        let stamps = json!({"app.oam.dev/username": user, "app.oam.dev/group": group});
        json!({"metadata": {"annotations": stamps}, "spec": {"components": components(image)}})
    };
    let admins = "kubevela:cluster-admins";
    let (by_admin, by_root) = (("admin", admins), ("root", "kubevela:a,kubevela:cluster-admins"));
    let (by_jane, by_left) = (("jane", "kubevela:a,kubevela:b"), ("jane", "kubevela:a"));
    let step = json!({"spec": {"workflow": {"steps": [{"type": "suspend"}]}}});
    // Who, what, whether a patch is asked for, whose it is then.
    let edits = [
        (&own, image("nginx:1"), true, by_admin),
        (&own, label("1"), false, by_admin),
        (&jane, label("2"), false, by_admin),
        (&jane, forged("jane", by_jane.1, "nginx:1"), true, by_admin),
        (&jane, image("nginx:2"), true, by_jane),
        (&jane, image("nginx:3"), true, by_jane),
        (&jane, label("3"), false, by_jane),
        (&jane, forged("jane", admins, "nginx:4"), true, by_jane),
        (&jane, forged("admin", admins, "nginx:5"), true, by_jane),
        (&left, label("4"), false, by_jane),
        (&left, image("nginx:6"), true, by_left),
        (&left, image("nginx:7"), true, by_left),
        (&alone, image("nginx:8"), true, ("jane", "")),
        (&alone, image("nginx:9"), true, ("jane", "")),
        (&root, image("nginx:10"), true, by_root),
        (&root, image("nginx:11"), true, by_root),
        (&root, json!({"metadata": {"annotations": {"app.oam.dev/group": null}}}), true, by_root),
        (&root, step, true, by_root),
        (&left, annotation("publishVersion", "v1"), true, by_left),
        (&alone, annotation("autoUpdate", "false"), true, ("jane", "")),
        (&left, annotation("appAlias", "x"), false, ("jane", "")),
        (&left, annotation("stamp", "renew"), true, by_left),
        (&jane, annotation("stamp", "confirm"), true, by_left),
        (&root, annotation("stamp", "confirm"), true, by_left),
    ];
    for (client, edit, is_asked, (user, group)) in edits {
        let (asked, object) = edited(&deployed.webhook, client, &edit).await;
        let times = f64::from(u8::from(is_asked));
        assert_eq!(asked[0], times, "{edit}");
        let annotations = &object["metadata"]["annotations"];
        let stamps = [&annotations["app.oam.dev/username"], &annotations["app.oam.dev/group"]];
        assert_eq!(stamps, [user, group], "{edit}");
    }
    // An account of one's choice is refused, whoever asks.
    let account = json!({"metadata": {"annotations": {"app.oam.dev/service-account-name": "a"}}});
    let answer =
        applications(root).patch("edited", &PatchParams::default(), &Patch::Merge(&account)).await;
    assert!(answer.unwrap_err().to_string().contains("service-account-name"));
    deployed.webhook.check().unwrap();
}
