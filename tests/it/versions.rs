//! Kinds that are served in several versions, and versions that are not served any more.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::fixtures::{Space, quiet, until};

fn component(name: &str, object: &Value) -> Value {
    json!({ "name": name, "type": "k8s-objects", "properties": { "objects": [object] } })
}

/// Two Applications use one kind in two versions: each compares what is there in the shape its manifest has.
#[tokio::test]
async fn each_object_is_compared_in_the_version_of_its_manifest() {
    let space = Space::with_programs("shapes").await;
    let scaler = |version: &str, name: &str, more: Value| {
        let mut spec = json!({
            "maxReplicas": 3,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({ "apiVersion": format!("autoscaling/{version}"),
            "kind": "HorizontalPodAutoscaler", "metadata": { "name": name }, "spec": spec })
    };
    let metric = |percent: u32| {
        json!([{ "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": percent } } }])
    };
    let old = scaler("v1", "old", json!({ "targetCPUUtilizationPercentage": 60 }));
    let new = scaler("v2", "new", json!({ "metrics": metric(60) }));
    for (name, object) in [("old", &old), ("new", &new)] {
        space.create(name, json!([component(name, object)])).await.unwrap();
        space.running(name).await;
    }
    let log = space.cluster().audit_log();
    let ours = |entry: &Entry| entry.is_controllers_write() && entry.namespace == space.name();
    quiet(&log, Duration::from_secs(2), ours).await;
    let from = audit::position(&log).unwrap();
    let scalers = space.objects("autoscaling/v2", "HorizontalPodAutoscaler");
    let merge = PatchParams::default();
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    for name in ["old", "new"] {
        scalers.patch(name, &merge, &Patch::Merge(&label)).await.unwrap();
    }
    quiet(&log, Duration::from_secs(2), ours).await;
    let written = audit::read(&log, from).unwrap().into_iter();
    let written: Vec<_> =
        written.filter(|e| ours(e) && e.resource == "horizontalpodautoscalers").collect();
    assert!(written.is_empty(), "{written:?}");
    let drifted = json!({ "spec": { "metrics": metric(90) } });
    for name in ["old", "new"] {
        scalers.patch(name, &merge, &Patch::Merge(&drifted)).await.unwrap();
        until("what the manifest says", Duration::from_secs(10), async || {
            let percent = "/spec/metrics/0/resource/target/averageUtilization";
            scalers.get(name).await.unwrap().data.pointer(percent) == Some(&json!(60))
        })
        .await;
    }
}

/// An operator is upgraded, and the version that an Application was written in goes: its objects are still there, and go
/// with the Application.
#[tokio::test]
async fn an_object_outlives_the_version_it_was_made_in() {
    let space = Space::with_programs("versions").await;
    let group = format!("{}.example.com", space.name());
    let version = |name: &str, served: bool, storage: bool| {
        json!({ "name": name, "served": served, "storage": storage, "schema": { "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [version("v1beta1", true, false), version("v1", true, true)],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(space.client());
    let made = serde_json::from_value(definition).unwrap();
    let made = definitions.create(&PostParams::default(), &made).await.unwrap();
    let name = made.metadata.name.unwrap();
    let gadgets = space.objects(&format!("{group}/v1"), "Gadget");
    let served = async |version: &str| space.serves(&format!("{group}/{version}"), "Gadget").await;
    until("the kind", Duration::from_secs(30), async || served("v1beta1").await).await;
    let gadget = json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": "Gadget", "metadata": { "name": "one" },
        "spec": { "size": 1 },
    });
    space.create("upgraded", json!([component("one", &gadget)])).await.unwrap();
    space.running("upgraded").await;
    let only_v1 = json!({ "spec": { "versions": [
        version("v1beta1", false, false), version("v1", true, true)] } });
    definitions.patch(&name, &PatchParams::default(), &Patch::Merge(&only_v1)).await.unwrap();
    until("the version to go", Duration::from_secs(30), async || !served("v1beta1").await).await;
    let ours = |entry: &Entry| entry.is_controllers() && entry.resource.contains("gadgets");
    quiet(&space.cluster().audit_log(), Duration::from_secs(2), ours).await;
    space.applications().delete("upgraded", &DeleteParams::default()).await.unwrap();
    until("no Application", Duration::from_secs(60), async || {
        space.applications().get_opt("upgraded").await.unwrap().is_none()
    })
    .await;
    let left = gadgets.get_opt("one").await.unwrap();
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(left.is_none(), "the object is left behind");
}
