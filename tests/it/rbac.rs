//! The rights that the chart gives: each identity can do what it needs and is refused the rest.
//! The API server itself is asked, about the rendered roles.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::Value;
use vela_tests::cluster;
use vela_tests::deploy::{Manifests, NAMESPACE, apply, apply_all};
use vela_tests::fixtures::{binaries, shared};

const RIGHTS: [&str; 5] =
    ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// `VERB GROUP/RESOURCE[/SUBRESOURCE] [NAMESPACE[/NAME]]`; `-` is the core group, `*` any
/// namespace.
fn attributes(text: &str) -> ResourceAttributes {
    let mut words = text.split(' ').map(str::to_owned);
    let verb = words.next();
    let kind = words.next().unwrap();
    let mut kind = kind.split('/').map(str::to_owned);
    let placement = words.next().unwrap_or_default();
    let (namespace, name) = placement.split_once('/').unwrap_or((placement.as_str(), ""));
    ResourceAttributes {
        verb,
        group: kind.next().filter(|group| group != "-"),
        resource: kind.next(),
        subresource: kind.next(),
        namespace: Some(namespace.to_owned()).filter(|n| !n.is_empty() && n != "*"),
        name: Some(name.to_owned()).filter(|n| !n.is_empty()),
        ..ResourceAttributes::default()
    }
}

async fn may(client: &Client, account: &str, text: &str) -> bool {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{NAMESPACE}:{account}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{NAMESPACE}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(attributes(text)),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    answer.status.is_some_and(|status| status.allowed)
}

/// Applies the rights of a rendering whose objects are named `name`.
async fn rights(client: &Client, name: &str, values: &[&str]) -> Manifests {
    let mut all = vec![format!("fullnameOverride={name}")];
    all.extend(values.iter().map(|&value| value.to_owned()));
    let rendered =
        tokio::task::spawn_blocking(move || Manifests::render(&binaries(), &all).unwrap());
    let manifests = rendered.await.unwrap();
    let namespace = serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    apply(client, &namespace).await.unwrap();
    let objects = RIGHTS.iter().flat_map(|kind| manifests.of(kind).cloned()).collect();
    apply_all(client, objects).await.unwrap();
    manifests
}

/// Asks about every line; the lines where the answer is not `expected`.
async fn wrong(client: &Client, account: &str, expected: bool, lines: &[&str]) -> Vec<String> {
    stream::iter(lines)
        .map(|&line| async move { (line, may(client, account, line).await) })
        .buffered(8)
        .filter_map(|(line, allowed)| async move { (allowed != expected).then(|| line.to_owned()) })
        .collect()
        .await
}

const CONTROLLER_NEEDS: [&str; 26] = [
    "create authorization.k8s.io/subjectaccessreviews",
    "watch -/secrets vela-system/{name}-stamp-key",
    "update core.oam.dev/applications/status default/a",
    "update core.oam.dev/applications/finalizers default/a",
    "patch core.oam.dev/applications default/a",
    "create core.oam.dev/applicationrevisions default",
    "delete core.oam.dev/applicationrevisions default",
    "create core.oam.dev/resourcetrackers",
    "update core.oam.dev/resourcetrackers/status",
    "create core.oam.dev/definitionrevisions default",
    "update core.oam.dev/componentdefinitions/status vela-system/webservice",
    "watch core.oam.dev/workflowstepdefinitions",
    "list cue.oam.dev/packages",
    "create -/configmaps default",
    "delete -/configmaps default/workflow-a-context",
    "create -/events default",
    "create apps/controllerrevisions default",
    "watch apps/deployments",
    "impersonate -/users */jane",
    "impersonate -/groups */kubevela:team",
    "impersonate -/serviceaccounts default/deployer",
    "create coordination.k8s.io/leases vela-system",
    "update coordination.k8s.io/leases vela-system/kubevela",
    "create -/secrets vela-system",
    "update -/secrets vela-system/{name}-admission",
    "update admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
];

/// What whoever holds the controller's token must not do directly in the safe mode.
const CONTROLLER_REFUSED: [&str; 27] = [
    "update -/secrets vela-system/{name}-stamp-key",
    "create apps/deployments default",
    "patch apps/deployments kube-system/coredns",
    "delete apps/daemonsets kube-system/kube-proxy",
    "create -/pods default",
    "create -/pods/exec default/a",
    "create -/serviceaccounts/token kube-system/clusterrole-aggregation-controller",
    "create -/secrets default",
    "update -/secrets kube-system/a",
    "update -/secrets vela-system/other",
    "delete -/secrets vela-system/{name}-admission",
    "create -/namespaces",
    "delete -/namespaces */default",
    "update -/nodes */node-0",
    "create rbac.authorization.k8s.io/clusterroles",
    "create rbac.authorization.k8s.io/clusterrolebindings",
    "bind rbac.authorization.k8s.io/clusterroles */cluster-admin",
    "escalate rbac.authorization.k8s.io/clusterroles",
    "create rbac.authorization.k8s.io/rolebindings vela-system",
    "create admissionregistration.k8s.io/validatingwebhookconfigurations",
    "update admissionregistration.k8s.io/validatingwebhookconfigurations */other",
    "delete admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
    "update apiextensions.k8s.io/customresourcedefinitions */applications.core.oam.dev",
    "create certificates.k8s.io/certificatesigningrequests",
    "update certificates.k8s.io/certificatesigningrequests/approval */a",
    "impersonate authentication.k8s.io/uids */0",
    "update coordination.k8s.io/leases kube-node-lease/node-0",
];

const WEBHOOK_NEEDS: [&str; 14] = [
    "watch core.oam.dev/componentdefinitions",
    "list core.oam.dev/traitdefinitions",
    "get core.oam.dev/policydefinitions default/a",
    "watch core.oam.dev/workflowstepdefinitions",
    "list core.oam.dev/workloaddefinitions",
    "watch core.oam.dev/definitionrevisions",
    "get core.oam.dev/definitionrevisions default/a-v1",
    "list core.oam.dev/workflows",
    "list core.oam.dev/policies",
    "get core.oam.dev/applicationrevisions default/a-v1",
    "watch cue.oam.dev/packages",
    "create authorization.k8s.io/subjectaccessreviews",
    // only whether they are there
    "get -/configmaps default/a",
    "get apps/deployments default/a",
];

const WEBHOOK_REFUSED: [&str; 28] = [
    "get -/secrets vela-system/{name}-stamp-key",
    "get -/secrets vela-system/{name}-admission",
    "list -/secrets vela-system",
    "get -/secrets vela-system/{name}-admission-ca",
    "get -/secrets default/a",
    "list -/configmaps default",
    "update -/configmaps default/a",
    "list -/pods vela-system",
    "create -/pods vela-system",
    "create -/events default",
    "create -/serviceaccounts/token vela-system/{name}",
    "impersonate -/users */jane",
    "impersonate -/groups */system:masters",
    "impersonate -/serviceaccounts default/deployer",
    "create core.oam.dev/applications default",
    "update core.oam.dev/applications default/a",
    "update core.oam.dev/applications/status default/a",
    "create core.oam.dev/workloaddefinitions vela-system",
    "update core.oam.dev/componentdefinitions vela-system/webservice",
    "delete core.oam.dev/traitdefinitions vela-system/scaler",
    "create core.oam.dev/definitionrevisions default",
    "list core.oam.dev/applicationrevisions",
    "get core.oam.dev/resourcetrackers */a",
    "get coordination.k8s.io/leases vela-system/kubevela",
    "get admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
    "update admissionregistration.k8s.io/validatingwebhookconfigurations */{name}-admission",
    "create rbac.authorization.k8s.io/clusterrolebindings",
    "create authentication.k8s.io/tokenreviews",
];

/// Where each controller has an account: what each needs, and what of the others' rights it must not have.
const ACCOUNTS: [(&str, &[&str], &[&str]); 5] = [
    (
        "{name}",
        &[
            "list core.oam.dev/applications",
            "watch core.oam.dev/applicationrevisions",
            "watch core.oam.dev/resourcetrackers",
            "list core.oam.dev/componentdefinitions",
            "watch core.oam.dev/policies",
            "watch core.oam.dev/workflows",
            "create -/events default",
            "patch -/events default/a",
            "update coordination.k8s.io/leases vela-system/kubevela",
            "create -/serviceaccounts/token vela-system/vela-application-controller",
            "create -/serviceaccounts/token vela-system/vela-certificates-controller",
        ],
        &[
            "create -/serviceaccounts/token vela-system/default",
            "create -/serviceaccounts/token vela-system/{name}-webhook",
            "create -/serviceaccounts/token default/vela-application-controller",
            "patch core.oam.dev/applications/status default/a",
            "patch core.oam.dev/applications default/a",
            "create core.oam.dev/definitionrevisions default",
            "impersonate -/users */jane",
            "create -/configmaps default",
            "list -/secrets default",
            "list -/pods default",
            "get -/secrets vela-system/{name}-admission",
            "create -/secrets vela-system",
            "update admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
        ],
    ),
    (
        "vela-certificates-controller",
        &[
            "create -/secrets vela-system",
            "watch -/secrets vela-system/{name}-admission",
            "update -/secrets vela-system/{name}-admission-ca",
            "watch admissionregistration.k8s.io/validatingwebhookconfigurations",
            "update admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
        ],
        &[
            "list -/secrets vela-system",
            "create -/secrets default",
            "update coordination.k8s.io/leases vela-system/kubevela",
            "list core.oam.dev/applications",
            "create -/serviceaccounts/token vela-system/vela-application-controller",
            "update admissionregistration.k8s.io/mutatingwebhookconfigurations */other",
            "impersonate -/users */jane",
        ],
    ),
    (
        "vela-componentdefinition-controller",
        &[
            "patch core.oam.dev/componentdefinitions/status default/a",
            "create core.oam.dev/definitionrevisions default",
            "get core.oam.dev/definitionrevisions default/a-v1",
            "delete core.oam.dev/definitionrevisions default/a-v1",
            "create core.oam.dev/workloaddefinitions vela-system",
            "create -/configmaps default",
            "update -/configmaps default/a",
            // OwnerReferencesPermissionEnforcement
            "update core.oam.dev/componentdefinitions/finalizers default/a",
            "update core.oam.dev/definitionrevisions/finalizers default/a-v1",
        ],
        &[
            "patch core.oam.dev/componentdefinitions default/a",
            "delete core.oam.dev/componentdefinitions default/a",
            "patch core.oam.dev/traitdefinitions/status default/a",
            "patch core.oam.dev/applications/status default/a",
            "get -/configmaps default/a",
            "delete -/configmaps default/a",
            "get -/secrets default/a",
            "impersonate -/users */jane",
            "create -/serviceaccounts/token vela-system/vela-application-controller",
            "update coordination.k8s.io/leases vela-system/kubevela",
        ],
    ),
    (
        "vela-traitdefinition-controller",
        &[
            "patch core.oam.dev/traitdefinitions/status default/a",
            "create core.oam.dev/definitionrevisions default",
        ],
        &[
            "patch core.oam.dev/componentdefinitions/status default/a",
            "create core.oam.dev/workloaddefinitions vela-system",
            "create core.oam.dev/applications default",
        ],
    ),
    (
        "vela-application-controller",
        &[
            "patch core.oam.dev/applications/status default/a",
            "patch core.oam.dev/applications default/a",
            "create core.oam.dev/resourcetrackers",
            "watch apps/deployments",
            "impersonate -/users */jane",
            "impersonate -/groups */kubevela:team",
            "create -/configmaps default",
            "create authorization.k8s.io/subjectaccessreviews",
            "create -/secrets vela-system",
            "watch -/secrets vela-system/{name}-stamp-key",
        ],
        &[
            "create apps/deployments default",
            "create -/secrets default",
            "update -/secrets vela-system/{name}-stamp-key",
            "update coordination.k8s.io/leases vela-system/kubevela",
            "create -/serviceaccounts/token vela-system/vela-certificates-controller",
            "update admissionregistration.k8s.io/mutatingwebhookconfigurations */{name}-admission",
        ],
    ),
];

#[tokio::test]
async fn controllers_with_accounts_have_their_own_rights_and_no_others() {
    let client = shared().await.client().await.unwrap();
    let values = ["controller.serviceAccountCredentials=true", "authentication.enabled=true"];
    rights(&client, "accounts", &values).await;
    for (account, needs, refused) in ACCOUNTS {
        let account = account.replace("{name}", "accounts");
        let lines = |all: &[&str]| all.iter().map(|l| l.replace("{name}", "accounts")).collect();
        assert_all(&client, &account, true, lines(needs)).await;
        assert_all(&client, &account, false, lines(refused)).await;
    }
}

fn named<const N: usize>(lines: [&str; N], name: &str) -> Vec<String> {
    lines.iter().map(|line| line.replace("{name}", name)).collect()
}

async fn assert_all(client: &Client, account: &str, expected: bool, lines: Vec<String>) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    // The authorizer learns of roles through a watch.
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut odd = wrong(client, account, expected, &lines).await;
    while !odd.is_empty() && Instant::now() < deadline {
        odd = wrong(client, account, expected, &lines).await;
    }
    let word = if expected { "may not" } else { "may" };
    assert!(odd.is_empty(), "{account} {word}: {odd:#?}");
}

#[tokio::test]
async fn in_the_safe_mode_the_controller_keeps_its_records_and_impersonates() {
    let client = shared().await.client().await.unwrap();
    rights(&client, "safe", &["authentication.enabled=true"]).await;
    assert_all(&client, "safe", true, named(CONTROLLER_NEEDS, "safe")).await;
    assert_all(&client, "safe", false, named(CONTROLLER_REFUSED, "safe")).await;
}

#[tokio::test]
async fn in_the_old_mode_the_controller_is_a_cluster_administrator_and_the_webhook_is_not() {
    let client = shared().await.client().await.unwrap();
    rights(&client, "old", &["authentication.enabled=false"]).await;
    assert_all(&client, "old", true, named(CONTROLLER_NEEDS, "old")).await;
    let all = ["create apps/deployments default", "create rbac.authorization.k8s.io/clusterroles"];
    assert_all(&client, "old", true, named(all, "old")).await;
    assert_all(&client, "old-webhook", true, named(WEBHOOK_NEEDS, "old")).await;
    assert_all(&client, "old-webhook", false, named(WEBHOOK_REFUSED, "old")).await;
}

#[tokio::test]
async fn the_webhook_reads_and_never_writes() {
    let client = shared().await.client().await.unwrap();
    let manifests = rights(&client, "reads", &["authentication.enabled=true"]).await;
    assert_all(&client, "reads-webhook", true, named(WEBHOOK_NEEDS, "reads")).await;
    assert_all(&client, "reads-webhook", false, named(WEBHOOK_REFUSED, "reads")).await;

    // Not only the list: no rule of any role bound to it names a verb that writes.
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let mut rules = 0;
    for role in manifests.of("ClusterRole").chain(manifests.of("Role")) {
        if !role["metadata"]["name"].as_str().unwrap().contains("-webhook") {
            continue;
        }
        for rule in role["rules"].as_array().unwrap() {
            rules += 1;
            let is_question = list(&rule["resources"]) == ["subjectaccessreviews"];
            for verb in list(&rule["verbs"]) {
                let reads = ["get", "list", "watch"].contains(&verb.as_str());
                assert!(reads || (is_question && verb == "create"), "{rule}");
            }
            assert!(!list(&rule["apiGroups"]).contains(&"*".to_owned()), "{rule}");
            assert!(!list(&rule["resources"]).contains(&"*".to_owned()), "{rule}");
        }
    }
    assert!(rules >= 4, "the webhook's role was looked at");
}

#[tokio::test]
async fn what_the_webhook_may_look_at_is_a_value() {
    let client = shared().await.client().await.unwrap();
    rights(&client, "blind", &["webhook.refObjects.rules=null"]).await;
    let checks = ["get -/configmaps default/a", "get apps/deployments default/a"];
    assert_all(&client, "blind-webhook", false, named(checks, "blind")).await;
    let wide = [
        "webhook.refObjects.rules[0].apiGroups[0]=",
        "webhook.refObjects.rules[0].resources[0]=secrets",
        "webhook.refObjects.rules[0].resourceNames[0]=shared",
    ];
    rights(&client, "wide", &wide).await;
    let more = ["get -/secrets default/shared"];
    assert_all(&client, "wide-webhook", true, named(more, "wide")).await;
    let refused = ["get -/secrets default/a", "list -/secrets", "get -/configmaps default/a"];
    assert_all(&client, "wide-webhook", false, named(refused, "wide")).await;
}

#[tokio::test]
async fn with_sharding_the_webhook_sees_the_pods_of_its_own_namespace() {
    let client = shared().await.client().await.unwrap();
    rights(&client, "shards", &["sharding.enabled=true", "authentication.enabled=true"]).await;
    let needs = ["list -/pods vela-system", "watch -/pods vela-system"];
    let refused = ["list -/pods", "list -/pods kube-system", "delete -/pods vela-system/a"];
    assert_all(&client, "shards-webhook", true, named(needs, "shards")).await;
    assert_all(&client, "shards-webhook", false, named(refused, "shards")).await;
}

/// Requests, not questions: what the certificate's keeper does, with the tokens.
#[tokio::test]
async fn tokens_of_both_identities_reach_what_the_roles_say() {
    let cluster = shared().await;
    let client = cluster.client().await.unwrap();
    rights(&client, "tokens", &["authentication.enabled=true"]).await;
    let kubeconfig = cluster.kubeconfig_of(NAMESPACE, "tokens").await.unwrap();
    let controller = cluster::client(&kubeconfig).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(controller, NAMESPACE);
    let named = ListParams::default().fields("metadata.name=tokens-admission");
    secrets.list(&named).await.unwrap();
    let secret = |name: &str| -> Secret {
        serde_json::from_value(serde_json::json!({ "metadata": { "name": name } })).unwrap()
    };
    secrets.create(&PostParams::default(), &secret("tokens-admission")).await.unwrap();
    let stored = secrets.get("tokens-admission").await.unwrap();
    secrets.replace("tokens-admission", &PostParams::default(), &stored).await.unwrap();
    let made = secrets.create(&PostParams::default(), &secret("tokens-else")).await.unwrap();
    let error = secrets.replace("tokens-else", &PostParams::default(), &made).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");

    let kubeconfig = cluster.kubeconfig_of(NAMESPACE, "tokens-webhook").await.unwrap();
    let webhook = cluster::client(&kubeconfig).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(webhook, NAMESPACE);
    let error = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
}
