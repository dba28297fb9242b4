//! The chart with the real helm on a control plane of its own: install, upgrade, roll back, remove.
//!
//! Pods are simulated here, so nobody answers the webhooks; what is tested is that the API server
//! takes every object in helm's order, that a second and a third time change nothing they should
//! not, and that nothing but CRDs stays behind.

use std::process::{Command, Stdio};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use vela_tests::cluster::Cluster;
use vela_tests::controlplane::Programs;
use vela_tests::material;

fn helm(cluster: &Cluster, args: &[&str]) -> String {
    let home = cluster.dir().join("helm");
    let output = Command::new(Programs::helm().unwrap())
        .args(args)
        .args(["--namespace", "vela-system"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {}: {text}{errors}", args.join(" "));
    text
}

/// The names of all objects of a kind that belong to the release.
async fn ours<K>(client: &Client) -> Vec<String>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(client.clone());
    let all = api.list(&ListParams::default()).await.unwrap().items;
    all.iter()
        .filter(|object| {
            object.annotations().get("meta.helm.sh/release-name").is_some_and(|n| n == "kubevela")
        })
        .map(ResourceExt::name_any)
        .collect()
}

#[tokio::test]
async fn the_chart_installs_upgrades_rolls_back_and_goes() {
    let cluster = Cluster::start("charts").await.unwrap();
    let client = cluster.client().await.unwrap();
    let chart = material::workspace().join("charts/vela-core");
    let chart = chart.to_str().unwrap();
    let plain = ["--set", "multicluster.enabled=false", "--wait", "--timeout", "120s"];

    let mut install = vec!["install", "kubevela", chart, "--create-namespace"];
    install.extend(plain);
    helm(&cluster, &install);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "vela-system");
    let installed = deployments.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(installed.len(), 2, "webhook and controller");
    assert_eq!(ours::<MutatingWebhookConfiguration>(&client).await.len(), 1);
    assert_eq!(ours::<ValidatingWebhookConfiguration>(&client).await.len(), 1);
    let roles = ours::<ClusterRole>(&client).await;
    assert!(!roles.is_empty());

    let mut upgrade = vec!["upgrade", "kubevela", chart, "--set", "concurrentReconciles=7"];
    upgrade.extend(plain);
    helm(&cluster, &upgrade);
    let arguments = |deployment: &Deployment| {
        let spec = deployment.spec.clone().unwrap().template.spec.unwrap();
        spec.containers[0].args.clone().unwrap_or_default()
    };
    let has_flag = async |flag: &str| {
        let all = deployments.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|one| arguments(one).iter().any(|argument| argument == flag))
    };
    assert!(has_flag("--concurrent-reconciles=7").await);
    assert_eq!(ours::<ClusterRole>(&client).await, roles);

    helm(&cluster, &["rollback", "kubevela", "1", "--wait", "--timeout", "120s"]);
    assert!(has_flag("--concurrent-reconciles=4").await);

    helm(&cluster, &["uninstall", "kubevela", "--wait", "--timeout", "120s"]);
    assert!(deployments.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(ours::<MutatingWebhookConfiguration>(&client).await.is_empty());
    assert!(ours::<ValidatingWebhookConfiguration>(&client).await.is_empty());
    assert!(ours::<ClusterRole>(&client).await.is_empty());
    assert!(ours::<ClusterRoleBinding>(&client).await.is_empty());
    // Helm never removes CRDs: with them all Applications would go.
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    assert!(crds.get_opt("applications.core.oam.dev").await.unwrap().is_some());
}
