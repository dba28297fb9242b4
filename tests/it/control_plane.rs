//! The harness itself: what every other integration test relies on.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use vela_tests::fixtures::{Space, until};
use vela_tests::{audit, cluster};

#[tokio::test]
async fn a_deployment_becomes_available_on_the_simulated_node() {
    let space = Space::new("harness").await;
    let deployments: Api<Deployment> = space.api();
    let deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    until("two available replicas", Duration::from_secs(30), async || {
        let status = deployments.get("web").await.unwrap().status.unwrap_or_default();
        status.available_replicas == Some(2)
    })
    .await;
}

#[tokio::test]
async fn the_audit_log_tells_who_wrote_what() {
    let space = Space::new("harness").await;
    let maps: Api<ConfigMap> = space.api();
    let map = serde_json::from_value(json!({ "metadata": { "name": "noted" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("noted", &DeleteParams::default()).await.unwrap();
    let log = space.cluster().audit_log();
    until("both requests in the log", Duration::from_secs(10), async || {
        let verbs: Vec<String> = audit::read(&log, 0)
            .unwrap()
            .into_iter()
            .filter(|entry| entry.agent.starts_with("vela-harness/"))
            .filter(|entry| entry.namespace == space.name() && entry.resource == "configmaps")
            .map(|entry| entry.verb)
            .collect();
        verbs == ["create", "delete"]
    })
    .await;
}

#[tokio::test]
async fn a_service_account_has_only_its_rights() {
    let space = Space::new("harness").await;
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = space.api();
    let account = serde_json::from_value(json!({ "metadata": { "name": "nobody" } })).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let kubeconfig = space.cluster().kubeconfig_of(space.name(), "nobody").await.unwrap();
    let nobody = cluster::client(&kubeconfig).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(nobody, space.name());
    let error = maps.list(&kube::api::ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
}
