//! F18, F19: as whom an Application acts in a member.

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::deploy::apply;
use vela_tests::fixtures::until;
use vela_tests::members::{EXCHANGE, Fleet, LIMIT, NAMESPACE, Space, fleet};

const PROXY: &str = "cluster.core.oam.dev/cluster-gateway-proxy-configuration";

fn rules(rules: &str) -> String {
    format!(
        "{{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration,
          spec: {{clientIdentityExchanger: {{rules: [{rules}]}}}}}}"
    )
}

/// In the hub `alice` may write Applications; with `uses` also use the proxy of `east`. In the member she may write ConfigMaps.
async fn allow(fleet: &Fleet, namespace: &str, uses: bool) {
    let hub = fleet.client();
    let east = fleet.east.cluster.client().await.unwrap();
    let bind = |name: &str, kind: &str, role: &str, namespace: Option<&str>| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]})
    };
    let role = |name: &str, group: &str, resources: &[&str], names: &[&str]| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [group], "resources": resources, "verbs": ["*"], "resourceNames": names}]})
    };
    for object in [
        role("test-apps", "core.oam.dev", &["applications"], &[]),
        bind("test-apps", "RoleBinding", "test-apps", Some(namespace)),
        role(
            "test-proxy",
            "cluster.core.oam.dev",
            &["clustergateways/proxy"],
            &[if uses { "east" } else { "none" }],
        ),
        bind("test-proxy", "ClusterRoleBinding", "test-proxy", None),
    ] {
        apply(&hub, &object).await.unwrap();
    }
    for object in [
        role("test-maps", "", &["configmaps"], &[]),
        bind("test-maps", "RoleBinding", "test-maps", Some(namespace)),
    ] {
        apply(&east, &object).await.unwrap();
    }
}

/// Creates an Application as alice.
async fn create(fleet: &Fleet, app: &Value) {
    let client = fleet.hub.client_as("alice", &["system:authenticated"]).await.unwrap();
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application"));
    let namespace = app["metadata"]["namespace"].as_str().unwrap();
    let apps: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind);
    let app: DynamicObject = serde_json::from_value(app.clone()).unwrap();
    until("the Application to be taken", LIMIT, async || {
        apps.create(&PostParams::default(), &app).await.is_ok()
    })
    .await;
}

/// As whom the controller wrote in the member.
fn actors(fleet: &Fleet, space: &Space, from: u64) -> Vec<String> {
    let _ = space;
    let log = audit::read(&fleet.east.cluster.audit_log(), from).unwrap();
    let ours = log.iter().filter(|it| it.is_controllers_write() && it.resource == "configmaps");
    let mut all: Vec<String> = ours.map(|entry| entry.acting_as.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn position(fleet: &Fleet) -> u64 {
    audit::position(&fleet.east.cluster.audit_log()).unwrap()
}

#[tokio::test]
async fn an_application_acts_as_its_author_and_only_where_the_author_may() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("identity").await.unwrap();
    // Who may not use the cluster in the hub makes no request to it.
    allow(fleet, "identity", false).await;
    let from = position(fleet);
    create(fleet, &space.application("a", &["east"], "1")).await;
    until("the refusal", LIMIT, async || {
        space.app("a").await["status"].to_string().contains("clustergateways/proxy")
    })
    .await;
    assert_eq!(actors(fleet, &space, from), Vec::<String>::new());
    assert_eq!(space.value("east", "a").await, None);

    // Who may is somebody there, too.
    allow(fleet, "identity", true).await;
    space.runs("a").await;
    assert_eq!(actors(fleet, &space, from), ["alice"]);
    space.delete("a").await;

    // An administrator acts as the credential.
    let from = position(fleet);
    space.apply(&space.application("b", &["east"], "1")).await.unwrap();
    space.runs("b").await;
    assert_eq!(actors(fleet, &space, from), [""]);
    space.delete("b").await;
}

#[tokio::test]
async fn rules_exchange_identities_and_wrong_ones_let_nobody_through() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("exchange").await.unwrap();
    allow(fleet, "exchange", true).await;
    // Of the cluster: alice is the credential.
    let own = rules("{name: r, type: PrivilegedIdentityExchanger, source: {user: alice}}");
    fleet.write(&fleet.east.joining().annotated(PROXY, &own).secret("east")).await.unwrap();
    let from = position(fleet);
    create(fleet, &space.application("a", &["east"], "1")).await;
    space.runs("a").await;
    assert_eq!(actors(fleet, &space, from), [""]);
    space.delete("a").await;

    // Of all clusters.
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    let all = rules(
        "{name: r, type: StaticMappingIdentityExchanger, source: {user: alice}, target: {user: robot, groups: ['system:masters']}}",
    );
    let everywhere = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": EXCHANGE, "namespace": NAMESPACE}, "data": {"rules": text}})
    };
    apply(&fleet.client(), &everywhere(&all)).await.unwrap();
    let from = position(fleet);
    create(fleet, &space.application("b", &["east"], "1")).await;
    space.runs("b").await;
    // The rule may be heard of a moment after the Application.
    let last = actors(fleet, &space, from);
    assert!(last.contains(&"robot".to_owned()), "{last:?}");
    space.delete("b").await;

    // One that cannot be followed: nobody gets there, and it is said.
    let wrong =
        rules("{name: broken, type: PrivilegedIdentityExchanger, source: {userPattern: '('}}");
    fleet.write(&fleet.east.joining().annotated(PROXY, &wrong).secret("east")).await.unwrap();
    fleet.reaches("east", "Invalid").await;
    until("the event", LIMIT, async || {
        let events = fleet.events("east").await.unwrap();
        events.iter().any(|(reason, text)| reason == "ClusterInvalid" && text.contains("broken"))
    })
    .await;
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    fleet.reaches("east", "Connected").await;
    apply(&fleet.client(), &everywhere(&wrong)).await.unwrap();
    let from = position(fleet);
    create(fleet, &space.application("c", &["east"], "1")).await;
    until("the Application to say why it waits", LIMIT, async || {
        space.app("c").await["status"].to_string().contains("broken")
    })
    .await;
    assert_eq!(actors(fleet, &space, from), Vec::<String>::new());
    apply(&fleet.client(), &everywhere("")).await.unwrap();
    space.runs("c").await;
    assert_eq!(space.value("east", "c").await.as_deref(), Some("1"));
    space.delete("c").await;
}
