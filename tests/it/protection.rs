//! Deletion protection: what carries the annotation is not deleted, whoever asks; without it nothing is different.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vela_api::names::annotation::DELETION_PROTECTION;
use vela_tests::fixtures::{Space, until};

const LIMIT: Duration = Duration::from_secs(60);

/// What the API server says when it refuses a deletion.
async fn refused<K>(objects: &Api<K>, name: &str, options: &DeleteParams)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match objects.delete(name, options).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{status:?}");
            assert!(status.message.contains(DELETION_PROTECTION), "{status:?}");
        }
        other => panic!("{name} was not protected: {other:?}"),
    }
}

fn protection(value: &serde_json::Value) -> Patch<serde_json::Value> {
    Patch::Merge(json!({"metadata": {"annotations": {DELETION_PROTECTION: value}}}))
}

#[tokio::test]
async fn what_is_protected_is_not_deleted() {
    let space = Space::with_programs("protection").await;
    let apps = space.applications();
    let component =
        json!([{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}]);
    space.create("shop", component.clone()).await.unwrap();
    space.create("free", component).await.unwrap();
    space.running("shop").await;
    let edit = PatchParams::default();
    apps.patch("shop", &edit, &protection(&json!("true"))).await.unwrap();
    apps.patch("free", &edit, &protection(&json!("false"))).await.unwrap();

    // The API server knows a policy some time after it was created.
    let dry = DeleteParams::default().dry_run();
    until("the policy is in force", LIMIT, async || apps.delete("shop", &dry).await.is_err()).await;
    refused(&apps, "shop", &DeleteParams::default()).await;
    refused(&apps, "shop", &DeleteParams::foreground()).await;
    let all = apps.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    assert!(matches!(all, Err(kube::Error::Api(status)) if status.code == 403));
    assert!(apps.get("shop").await.unwrap().metadata.deletion_timestamp.is_none());

    // Only the Application is protected: what it deploys can be deleted, and comes back.
    let deployments: Api<Deployment> = space.api();
    let deployed = deployments.get("web").await.unwrap();
    assert!(!deployed.metadata.annotations.unwrap_or_default().contains_key(DELETION_PROTECTION));

    let namespaces: Api<Namespace> = Api::all(space.client());
    namespaces.patch(space.name(), &edit, &protection(&json!("true"))).await.unwrap();
    refused(&namespaces, space.name(), &DeleteParams::default()).await;
    namespaces.patch(space.name(), &edit, &protection(&json!(null))).await.unwrap();
    namespaces.delete(space.name(), &dry).await.unwrap();

    let definitions = space.objects("core.oam.dev/v1beta1", "WorkflowStepDefinition");
    let definition: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "WorkflowStepDefinition",
        "metadata": {"name": "kept", "annotations": {DELETION_PROTECTION: "true"}},
        "spec": {"schematic": {"cue": {"template": "parameter: {}"}}},
    }))
    .unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    refused(&definitions, "kept", &DeleteParams::default()).await;

    apps.patch("shop", &edit, &protection(&json!(null))).await.unwrap();
    apps.delete("shop", &DeleteParams::default()).await.unwrap();
    until("the Application is gone", LIMIT, async || apps.get_opt("shop").await.unwrap().is_none())
        .await;
}
