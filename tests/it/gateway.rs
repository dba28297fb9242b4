//! Members behind the hub's aggregated API: the requests of the command line client and of kubectl go through the hub's API
//! server and the gateway to a real API server, as whoever may be there.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{
    CLUSTER_API, Gateway, Manifests, NAMESPACE, Options, Program, Role, apply, apply_all,
};
use vela_tests::echo::{Echo, LAST_WORD};
use vela_tests::faults::Door;
use vela_tests::fixtures::{binaries, until};
use vela_tests::proxies::{ForwardProxy, Speaks};
use vela_tests::release::Mount;
use vela_tests::wire::{field, header};
use vela_tests::{members, proc};

pub(crate) const BASE: &str = "/apis/cluster.core.oam.dev/v1alpha1";
const LIMIT: Duration = Duration::from_secs(60);

struct World {
    hub: Cluster,
    east: Cluster,
    door: Door,
    echo: Echo,
    gateway: Gateway,
}

/// All on one hub, one after the other: what is asked of a member that is away must not meet somebody else's request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_reached_through_the_hub() {
    let world = start().await;
    the_clients_requests_are_answered(&world).await;
    a_user_is_himself_in_the_member_and_nobody_there_without_a_right_here(&world).await;
    rules_proxies_and_commands_are_followed(&world).await;
    a_watch_streams_and_a_member_that_is_away_holds_up_nobody(&world).await;
    upgrades_go_through_byte_for_byte(&world).await;
    the_port_is_the_front_proxys_and_half_closed_streams_go_on(&world).await;
    many_streams_cost_little_and_give_it_back(&world).await;
    the_certificate_is_kept_right_and_a_restart_ends_streams_in_order(world).await;
}

async fn start() -> World {
    let hub = Cluster::start("gateway-hub").await.unwrap();
    let east = Cluster::start("gateway-east").await.unwrap();
    let commands = hub.dir().join("commands");
    std::fs::create_dir_all(&commands).unwrap();
    let values = vec![
        "multicluster.enabled=true".to_owned(),
        format!("multicluster.exchangeRules={NAMESPACE}/rules"),
        format!("multicluster.execCredentialDir={}", commands.display()),
    ];
    let options = Options { values, ..Options::default() };
    let client = hub.client().await.unwrap();
    let manifests = Manifests::render(&binaries(), &options.values).unwrap();
    apply_all(&client, manifests.foundation()).await.unwrap();
    let rules = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules", "namespace": NAMESPACE}});
    apply(&client, &rules).await.unwrap();
    let gateway = Gateway::start(&hub, &binaries(), &options).await.unwrap();
    let door = Door::shut(members::port(&east).unwrap()).await.unwrap();
    door.open();
    // One cluster under two names; the way to one of them can be closed.
    members::join(&hub, &east, "east", members::port(&east).unwrap()).await.unwrap();
    members::join(&hub, &east, "west", door.port()).await.unwrap();
    let echo = Echo::start(hub.authority()).await.unwrap();
    for (name, endpoint) in [
        ("echo", format!("https://127.0.0.1:{}", echo.port())),
        ("deep", format!("https://127.0.0.1:{}/k8s/clusters/c-1", echo.port())),
        ("nobody", "https://127.0.0.1:1".to_owned()),
        ("broken", "http://127.0.0.1:1".to_owned()),
    ] {
        let labels = json!({"cluster.core.oam.dev/cluster-credential-type": "ServiceAccountToken", "region": "eu"});
        let annotations = json!({"cluster.core.oam.dev/cluster-alias": format!("The {name}")});
        let data = json!({"endpoint": endpoint, "ca.crt": hub.authority().certificate(), "token": "s3cret-t0ken"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}});
        apply(&client, &secret).await.unwrap();
    }
    World { hub, east, door, echo, gateway }
}

impl World {
    /// A client of the member's API through the hub, as somebody.
    async fn east_as(&self, user: &str, groups: &[&str]) -> Client {
        let client = match user {
            "" => self.hub.client().await.unwrap(),
            user => self.hub.client_as(user, groups).await.unwrap(),
        };
        behind(client, "east")
    }

    /// Lets a user use the proxy of clusters in the hub.
    async fn allow(&self, user: &str, clusters: &[&str]) {
        let client = self.hub.client().await.unwrap();
        let name = format!("proxy-{user}");
        let rule = json!({"apiGroups": ["cluster.core.oam.dev"], "resources": ["clustergateways/proxy"],
            "resourceNames": clusters, "verbs": ["*"]});
        for object in [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": [rule]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}),
        ] {
            apply(&client, &object).await.unwrap();
        }
    }

    /// Lets a user read and write ConfigMaps in the member.
    async fn allow_there(&self, user: &str) {
        let client = self.east.client().await.unwrap();
        let name = format!("maps-{user}");
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
        for object in [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": [rule]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}),
        ] {
            apply(&client, &object).await.unwrap();
        }
    }
}

/// The API of a cluster behind the hub's.
fn behind(client: Client, cluster: &str) -> Client {
    let prefix = format!("{BASE}/clustergateways/{cluster}/proxy");
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, prefix) = (client.clone(), prefix.clone());
        async move {
            let (mut parts, body) = request.into_parts();
            let path = parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
            parts.uri = format!("{prefix}{}", path.unwrap_or("/")).parse()?;
            Ok::<_, tower::BoxError>(client.send(http::Request::from_parts(parts, body)).await?)
        }
    });
    Client::new(service, "default")
}

/// Code and body of an answer.
async fn ask(client: &Client, method: &str, path: &str, accept: &str, body: Value) -> (u16, Value) {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("content-type", kind)
        .body(kube::client::Body::from(bytes))
        .unwrap();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

const JSON: &str = "application/json";

/// What `vela cluster join`, `probe`, `kube apply --cluster` and kubectl ask, one after the other.
async fn the_clients_requests_are_answered(world: &World) {
    let hub = world.hub.client().await.unwrap();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "joined"}});
    let east = format!("{BASE}/clustergateways/east/proxy");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    for (method, path, accept, body, code, pointer, expected) in [
        ("GET", BASE.to_owned(), JSON, Value::Null, 200, "/kind", json!("APIResourceList")),
        (
            "GET",
            "/apis/cluster.core.oam.dev".to_owned(),
            JSON,
            Value::Null,
            200,
            "/name",
            json!("cluster.core.oam.dev"),
        ),
        // vela cluster join
        (
            "GET",
            format!("{east}/api/v1/namespaces/joined"),
            JSON,
            Value::Null,
            404,
            "/details/name",
            json!("joined"),
        ),
        (
            "POST",
            format!("{east}/api/v1/namespaces"),
            JSON,
            namespace,
            201,
            "/metadata/name",
            json!("joined"),
        ),
        (
            "GET",
            format!("{east}/api/v1/namespaces/joined"),
            JSON,
            Value::Null,
            200,
            "/status/phase",
            json!("Active"),
        ),
        ("GET", format!("{east}/version"), JSON, Value::Null, 200, "/major", json!("1")),
        // vela cluster probe
        ("GET", format!("{east}/healthz"), JSON, Value::Null, 200, "", json!("ok")),
        // vela kube apply --cluster
        ("GET", format!("{east}/apis"), JSON, Value::Null, 200, "/kind", json!("APIGroupList")),
        (
            "POST",
            format!("{east}/api/v1/namespaces/joined/configmaps?dryRun=All"),
            JSON,
            map.clone(),
            201,
            "/data/a",
            json!("1"),
        ),
        (
            "GET",
            format!("{east}/api/v1/namespaces/joined/configmaps/m"),
            JSON,
            Value::Null,
            404,
            "/reason",
            json!("NotFound"),
        ),
        (
            "POST",
            format!("{east}/api/v1/namespaces/joined/configmaps?__dryRun=All"),
            JSON,
            map.clone(),
            201,
            "/data/a",
            json!("1"),
        ),
        (
            "GET",
            format!("{east}/api/v1/namespaces/joined/configmaps/m"),
            JSON,
            Value::Null,
            404,
            "/reason",
            json!("NotFound"),
        ),
        (
            "POST",
            format!("{east}/api/v1/namespaces/joined/configmaps"),
            JSON,
            map,
            201,
            "/data/a",
            json!("1"),
        ),
        (
            "PATCH",
            format!("{east}/api/v1/namespaces/joined/configmaps/m"),
            JSON,
            json!({"data": {"a": "2"}}),
            200,
            "/data/a",
            json!("2"),
        ),
        (
            "GET",
            format!("{east}/api/v1//namespaces/./joined/configmaps/x/../m"),
            JSON,
            Value::Null,
            200,
            "/data/a",
            json!("2"),
        ),
        (
            "DELETE",
            format!("{east}/api/v1/namespaces/joined/configmaps/m"),
            JSON,
            Value::Null,
            200,
            "/status",
            json!("Success"),
        ),
        // vela status --tree, kubectl get vc
        (
            "GET",
            format!("{BASE}/virtualclusters"),
            JSON,
            Value::Null,
            200,
            "/items/0/metadata/name",
            json!("local"),
        ),
        (
            "GET",
            format!("{BASE}/virtualclusters?labelSelector=region%3Deu"),
            JSON,
            Value::Null,
            200,
            "/items/3/kind",
            json!("VirtualCluster"),
        ),
        (
            "GET",
            format!("{BASE}/virtualclusters/echo"),
            JSON,
            Value::Null,
            200,
            "/spec/alias",
            json!("The echo"),
        ),
        (
            "GET",
            format!("{BASE}/virtualclusters"),
            table,
            Value::Null,
            200,
            "/kind",
            json!("Table"),
        ),
        // kubectl get clustergateways
        (
            "GET",
            format!("{BASE}/clustergateways"),
            table,
            Value::Null,
            200,
            "/columnDefinitions/2/name",
            json!("Credential-Type"),
        ),
        (
            "GET",
            format!("{BASE}/clustergateways/east"),
            JSON,
            Value::Null,
            200,
            "/spec/access/credential/type",
            json!("ServiceAccountToken"),
        ),
        (
            "GET",
            format!("{BASE}/clustergateways?watch=true"),
            JSON,
            Value::Null,
            405,
            "/message",
            json!("watch not supported"),
        ),
        (
            "DELETE",
            format!("{BASE}/clustergateways/east"),
            JSON,
            Value::Null,
            405,
            "/reason",
            json!("MethodNotAllowed"),
        ),
        // what is wrong
        (
            "GET",
            format!("{BASE}/clustergateways/nope/proxy/version"),
            JSON,
            Value::Null,
            404,
            "/message",
            json!("clustergateways.cluster.core.oam.dev \"nope\" not found: no such cluster nope"),
        ),
        (
            "GET",
            format!("{BASE}/clustergateways/broken/proxy/version"),
            JSON,
            Value::Null,
            422,
            "/details/name",
            json!("broken"),
        ),
        (
            "GET",
            format!("{BASE}/clustergateways/nobody/proxy/version"),
            JSON,
            Value::Null,
            502,
            "/details/name",
            json!("nobody"),
        ),
        // answers go as they are, but the hub itself takes no redirect from an aggregated API
        (
            "GET",
            format!("{BASE}/clustergateways/echo/proxy/redirect"),
            JSON,
            Value::Null,
            502,
            "/message",
            json!("cluster echo answered with a redirect, which is not passed on"),
        ),
        (
            "GET",
            format!("{BASE}/clustergateways/echo/proxy/page"),
            JSON,
            Value::Null,
            404,
            "",
            json!("<html>"),
        ),
    ] {
        let (answered, body) = ask(&hub, method, &path, accept, body).await;
        assert_eq!(answered, code, "{method} {path} {body}");
        assert_eq!(body.pointer(pointer), Some(&expected), "{method} {path} {body}");
        assert!(!body.to_string().contains("s3cret-t0ken"), "{body}");
    }
    // The hub merged what the gateway says of its kinds.
    until("the schemas in the hub's own", LIMIT, async || {
        let (_, document) = ask(&hub, "GET", "/openapi/v2", JSON, Value::Null).await;
        let (_, v3) =
            ask(&hub, "GET", "/openapi/v3/apis/cluster.core.oam.dev/v1alpha1", JSON, Value::Null)
                .await;
        document["definitions"].get("dev.oam.core.cluster.v1alpha1.VirtualCluster").is_some()
            && v3["components"]["schemas"]
                .get("dev.oam.core.cluster.v1alpha1.ClusterGateway")
                .is_some()
    })
    .await;
    // Where an endpoint has a path, everything stays below it.
    for rest in ["/version", "/../../../x", "//a/./b"] {
        ask(&hub, "GET", &format!("{BASE}/clustergateways/deep/proxy{rest}"), JSON, Value::Null)
            .await;
    }
    let asked: Vec<String> = world.echo.asked();
    let below = asked.iter().filter(|header| header.starts_with("GET /k8s/clusters/c-1/")).count();
    assert_eq!(below, 3, "{asked:?}");
}

async fn a_user_is_himself_in_the_member_and_nobody_there_without_a_right_here(world: &World) {
    world.allow("alice", &["east", "echo"]).await;
    world.allow_there("alice").await;
    let from = audit::position(&world.east.audit_log()).unwrap();
    let alice = world.east_as("alice", &["dev", "system:nodes"]).await;
    let maps: Api<ConfigMap> = Api::namespaced(alice.clone(), "default");
    until("alice's right to count", LIMIT, async || {
        maps.list(&ListParams::default()).await.is_ok()
    })
    .await;
    // She may read ConfigMaps there, and no Secrets, whatever the credential may.
    let secrets: Api<Secret> = Api::namespaced(alice, "default");
    let denied = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&denied, kube::Error::Api(status) if status.code == 403), "{denied}");
    let mallory: Api<ConfigMap> =
        Api::namespaced(world.east_as("mallory", &["dev"]).await, "default");
    let denied = mallory.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&denied, kube::Error::Api(status) if status.code == 403), "{denied}");
    assert!(denied.to_string().contains("clustergateways"), "{denied}");
    // The administrator of the hub is the credential.
    let admin: Api<ConfigMap> = Api::namespaced(world.east_as("", &[]).await, "default");
    admin.list(&ListParams::default()).await.unwrap();
    let mut seen = BTreeMap::new();
    until("the member's audit log", LIMIT, async || {
        let log = audit::read(&world.east.audit_log(), from).unwrap();
        let ours = log.into_iter().filter(|entry| entry.agent.starts_with("vela-harness/"));
        seen =
            ours.map(|entry| ((entry.acting_as.clone(), entry.resource.clone()), entry)).collect();
        seen.contains_key(&(String::new(), "configmaps".to_owned()))
    })
    .await;
    let of =
        |user: &str, resource: &str| seen.get(&(user.to_owned(), resource.to_owned())).cloned();
    let list = of("alice", "configmaps").unwrap();
    assert_eq!(
        (list.user.as_str(), list.acting_in.as_str()),
        ("system:serviceaccount:kube-system:vela-hub", "dev,system:authenticated")
    );
    assert_eq!(of("alice", "secrets").unwrap().code, 403);
    assert!(seen.values().all(|entry| entry.acting_as != "mallory"), "{seen:?}");
    // Headers of a caller give him nothing.
    let client = world.hub.client_as("alice", &["dev"]).await.unwrap();
    let request = http::Request::get(format!("{BASE}/clustergateways/echo/proxy/headers"))
        .header("x-remote-group", "system:masters")
        .header("impersonate-extra-scopes", "x")
        .body(kube::client::Body::empty());
    let _ = client.send(request.unwrap()).await;
    ask(&client, "GET", &format!("{BASE}/clustergateways/echo/proxy/plain"), JSON, Value::Null)
        .await;
    let asked = world.echo.asked();
    for header in
        asked.iter().filter(|header| header.contains("/headers ") || header.contains("/plain "))
    {
        assert_eq!(field(header, "authorization"), Some("Bearer s3cret-t0ken"), "{header}");
        assert_eq!(field(header, "impersonate-user"), Some("alice"), "{header}");
        assert!(
            !header.to_lowercase().contains("x-remote") && !header.contains("masters"),
            "{header}"
        );
        assert!(
            header.to_lowercase().contains(&format!("host: 127.0.0.1:{}", world.echo.port())),
            "{header}"
        );
    }
    assert!(asked.iter().any(|header| header.contains("/plain ")), "{asked:?}");
}

/// Whom a user is in a member, what is on the way there, and a credential that a command hands out.
async fn rules_proxies_and_commands_are_followed(world: &World) {
    let hub = world.hub.client().await.unwrap();
    let configuration = |user: &str, target: &str| {
        format!(
            "{{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration, spec: \
             {{clientIdentityExchanger: {{rules: [{{name: r, source: {{user: {user}}}, \
             type: StaticMappingIdentityExchanger, target: {{user: {target}}}}}]}}}}}}"
        )
    };
    let rules = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules", "namespace": NAMESPACE},
            "data": {"rules": text}})
    };
    world.allow("carol", &["echo", "deep", "behind", "issued"]).await;
    let carol = world.hub.client_as("carol", &[]).await.unwrap();
    let path = |cluster: &str, page: &str| format!("{BASE}/clustergateways/{cluster}/proxy/{page}");
    let answer = async |cluster: &str, page: &str| {
        ask(&carol, "GET", &path(cluster, page), JSON, Value::Null).await
    };
    let header_of = |page: &str| {
        let asked = world.echo.asked();
        asked.into_iter().find(|header| header.contains(&format!("/{page} ")))
    };
    until("carol's right to the proxy", LIMIT, async || answer("echo", "carol-0").await.0 != 403)
        .await;
    let header = header_of("carol-0").unwrap();
    assert_eq!(field(&header, "impersonate-user"), Some("carol"), "{header}");

    apply(&hub, &rules(&configuration("carol", "dave"))).await.unwrap();
    let mut turn = 0;
    until("the rules of all clusters", LIMIT, async || {
        turn += 1;
        answer("echo", &format!("carol-a-{turn}")).await;
        let header = header_of(&format!("carol-a-{turn}")).unwrap();
        field(&header, "impersonate-user") == Some("dave")
    })
    .await;
    // What cannot be followed lets nobody through.
    apply(&hub, &rules("{")).await.unwrap();
    until("rules that cannot be followed", LIMIT, async || {
        let (code, body) = answer("echo", "carol-b").await;
        code == 503 && body["message"].as_str().unwrap().contains("ConfigMap vela-system/rules")
    })
    .await;
    let admin = ask(&hub, "GET", &path("echo", "admin"), JSON, Value::Null).await;
    assert_eq!(admin.0, 503, "{}", admin.1);
    apply(&hub, &rules("")).await.unwrap();
    until("no rules", LIMIT, async || answer("echo", "carol-c").await.0 != 503).await;

    let proxy = ForwardProxy::start(Speaks::Http).await.unwrap();
    let script = world.hub.dir().join("commands/issue");
    let issued =
        r#"{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "issued-t0ken"}}"#;
    std::fs::write(&script, format!("#!/bin/sh\necho '{issued}'\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = r#"{"apiVersion": "client.authentication.k8s.io/v1", "command": "issue"}"#;
    for (name, kind, key, value, credential) in [
        ("behind", "ServiceAccountToken", "proxy-url", proxy.url(), "Bearer s3cret-t0ken"),
        ("issued", "Dynamic", "exec", exec.to_owned(), "Bearer issued-t0ken"),
    ] {
        let mut data = json!({"endpoint": format!("https://127.0.0.1:{}", world.echo.port()),
            "ca.crt": world.hub.authority().certificate()});
        if kind == "ServiceAccountToken" {
            data["token"] = json!("s3cret-t0ken");
        }
        data[key] = json!(value);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data, "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"cluster.core.oam.dev/cluster-credential-type": kind},
            "annotations": {"cluster.core.oam.dev/cluster-gateway-proxy-configuration": configuration("carol", "erin")},
        }});
        apply(&hub, &secret).await.unwrap();
        let page = format!("carol-{name}");
        until(name, LIMIT, async || {
            answer(name, &page).await;
            header_of(&page).is_some()
        })
        .await;
        let header = header_of(&page).unwrap();
        assert_eq!(field(&header, "authorization"), Some(credential), "{header}");
        assert_eq!(field(&header, "impersonate-user"), Some("erin"), "{header}");
    }
    assert!(proxy.passed() > 0);
}

async fn a_watch_streams_and_a_member_that_is_away_holds_up_nobody(world: &World) {
    use futures::StreamExt as _;
    let maps: Api<ConfigMap> = Api::namespaced(world.east_as("", &[]).await, "default");
    let version =
        maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "seen"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": "1"}}));
    maps.patch("seen", &PatchParams::default(), &patch).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match tokio::time::timeout(LIMIT, events.next()).await.unwrap().unwrap().unwrap() {
            WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("seen") => {
                seen.push("added");
            }
            WatchEvent::Modified(map) if map.metadata.name.as_deref() == Some("seen") => {
                seen.push("modified");
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["added", "modified"]);
    maps.delete("seen", &DeleteParams::default()).await.unwrap();

    until("the way to be open", LIMIT, async || {
        let path = format!("{BASE}/clustergateways/west/proxy/version");
        ask(&world.hub.client().await.unwrap(), "GET", &path, JSON, Value::Null).await.0 == 200
    })
    .await;
    // Away: who asks it hears that soon, and others are answered as before.
    world.door.close();
    let hub = world.hub.client().await.unwrap();
    let dead = format!("{BASE}/clustergateways/west/proxy/version");
    let alive = format!("{BASE}/clustergateways/echo/proxy/version");
    let (to_dead, to_alive) = futures::join!(
        futures::future::join_all((0..100).map(|_| ask(&hub, "GET", &dead, JSON, Value::Null))),
        futures::future::join_all((0..100).map(|_| ask(&hub, "GET", &alive, JSON, Value::Null))),
    );
    for (code, body) in to_dead {
        let is_limit = code == 429;
        assert!(is_limit || (code == 502 && body["details"]["name"] == "west"), "{code} {body}");
        assert!(!body.to_string().contains("no such cluster"), "{body}");
    }
    assert!(to_alive.iter().all(|(code, _)| *code == 200 || *code == 429), "{to_alive:?}");
    world.door.open();
    until("the member to be back", LIMIT, async || {
        ask(&hub, "GET", &dead, JSON, Value::Null).await.0 == 200
    })
    .await;
}

/// A connection to a server of the hub's authority, with a client certificate of it.
pub(crate) async fn connect(
    hub: &Cluster,
    port: u16,
    name: &'static str,
    identity: (&str, &str),
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(hub.authority().certificate().as_bytes()).unwrap())
        .unwrap();
    let certificate = CertificateDer::from_pem_slice(identity.0.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.1.as_bytes()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots)
    .with_client_auth_cert(vec![certificate], key)
    .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends a request for another protocol and returns the header of the answer.
async fn upgrade(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    protocol: &str,
    more: &str,
) -> String {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nContent-Length: 0\r\n{more}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::timeout(LIMIT, header(stream)).await.unwrap().unwrap()
}

async fn echoes(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        writer.write_all(bytes).await.unwrap();
        writer.flush().await.unwrap();
    };
    let mut back = vec![0; bytes.len()];
    let read = async { reader.read_exact(&mut back).await.unwrap() };
    tokio::time::timeout(LIMIT, async { futures::join!(write, read) }).await.unwrap();
    assert!(back == bytes, "bytes came back changed");
}

const EXEC: &str =
    "/clustergateways/CLUSTER/proxy/api/v1/namespaces/default/pods/p/exec?command=sh&stdin=true";

/// The path of exec in a Pod of a cluster.
fn exec(cluster: &str) -> String {
    format!("{BASE}{}", EXEC.replace("CLUSTER", cluster))
}

async fn upgrades_go_through_byte_for_byte(world: &World) {
    let port = members::port(&world.hub).unwrap();
    let admin = world.hub.authority().client("somebody", &["system:masters"]).unwrap();
    let identity = (admin.certificate.as_str(), admin.key.as_str());
    let long: Vec<u8> = (0..300_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    for (protocol, more) in [
        ("SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"),
        (
            "websocket",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
        ),
    ] {
        let mut stream = connect(&world.hub, port, "localhost", identity).await;
        let answer = upgrade(&mut stream, &exec("echo"), protocol, more).await;
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        assert_eq!(field(&answer, "upgrade"), Some(protocol));
        assert_eq!(field(&answer, "x-stream-protocol-version"), Some("v4.channel.k8s.io"));
        echoes(&mut stream, b"\x80\x03\x00\x01 first").await;
        echoes(&mut stream, &long).await;
        let streams =
            world.gateway.program.metric_of("vela_gateway_streams", "echo").await.unwrap();
        assert!(streams >= 1.0, "{streams}");
        stream.shutdown().await.unwrap();
    }
    let asked = world.echo.asked();
    let exec = asked
        .iter()
        .find(|header| header.contains("websocket") && header.contains("/exec?"))
        .unwrap();
    assert!(
        exec.starts_with(
            "POST /api/v1/namespaces/default/pods/p/exec?command=sh&stdin=true HTTP/1.1"
        ),
        "{exec}"
    );
    assert_eq!(field(exec, "sec-websocket-protocol"), Some("v5.channel.k8s.io"));
    until("the streams to be given back", LIMIT, async || {
        world.gateway.program.metric_of("vela_gateway_streams", "echo").await.unwrap() == 0.0
    })
    .await;
}

/// The front proxy's own certificate and nobody else's opens the gateway's port; and a side that has said all may still listen.
async fn the_port_is_the_front_proxys_and_half_closed_streams_go_on(world: &World) {
    let port = world.gateway.program.port();
    let path = exec("echo");
    let user = "X-Remote-User: alice\r\nX-Remote-Group: system:masters\r\n";
    let other = world.hub.authority().client("alice", &["system:masters"]).unwrap();
    let mut stream = connect(&world.hub, port, "localhost", (&other.certificate, &other.key)).await;
    let answer = upgrade(&mut stream, &path, "SPDY/3.1", user).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let front = |suffix: &str| {
        std::fs::read_to_string(world.hub.dir().join(format!("front-proxy.{suffix}"))).unwrap()
    };
    let (certificate, key) = (front("crt"), front("key"));
    let mut stream = connect(&world.hub, port, "localhost", (&certificate, &key)).await;
    let answer = upgrade(&mut stream, &path, "SPDY/3.1", user).await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    echoes(&mut stream, b"hello").await;
    stream.shutdown().await.unwrap();
    let mut last = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut last)).await.unwrap().unwrap();
    assert_eq!(last, LAST_WORD);
}

/// The gateway, with a certificate that the controller's leader issues and replaces, is restarted with streams
/// open: the API answers all the time, and who has a stream hears its end.
async fn the_certificate_is_kept_right_and_a_restart_ends_streams_in_order(world: World) {
    // Echo and door live on.
    let World { hub, east, gateway, echo: _echo, door: _door } = world;
    let hub = &hub;
    let client = hub.client().await.unwrap();
    let options = Options {
        values: vec!["multicluster.enabled=true".to_owned()],
        controller_flags: vec!["--gateway-certificates=managed".to_owned()],
        ..Options::default()
    };
    let manifests = Manifests::render(&binaries(), &options.values).unwrap();
    let binaries = binaries();
    let folder = hub.dir().join("gateway-mounted");
    let mut mount = Mount::new(&folder).unwrap();
    let controller =
        Program::prepare(Role::Controller, hub, &binaries, &manifests, &options).await.unwrap();
    controller.start(hub).unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    const SECRET: &str = "kubevela-vela-core-cluster-gateway-tls-v2";
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let files = async || -> BTreeMap<String, Vec<u8>> {
        let secret = secrets
            .get_opt(SECRET)
            .await
            .unwrap()
            .and_then(|secret| secret.data)
            .unwrap_or_default();
        secret.into_iter().map(|(key, ByteString(bytes))| (key, bytes)).collect()
    };
    let bundle = async || {
        use base64::Engine as _;
        let text = services.get(CLUSTER_API).await.unwrap().data["spec"]["caBundle"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()
    };
    until("the certificate and its authority", LIMIT, async || {
        let files = files().await;
        files.contains_key("tls.crt") && files.get("ca.crt") == Some(&bundle().await)
    })
    .await;
    let first = files().await;
    mount.bring(&first).unwrap();
    gateway.program.stop(Duration::from_secs(5)).unwrap();
    let program = gateway.program.with_flags([format!("--cert-dir={}", folder.display())]);
    program.start(hub).unwrap();
    program.ready().await.unwrap();
    let path = format!("{BASE}/clustergateways/echo/proxy/version");
    let answers = async || ask(&client, "GET", &path, JSON, Value::Null).await.0 == 200;
    until("the API under the issued certificate", LIMIT, answers).await;

    let admin = hub.authority().client("somebody", &["system:masters"]).unwrap();
    let port = members::port(hub).unwrap();
    let mut stream = connect(hub, port, "localhost", (&admin.certificate, &admin.key)).await;
    let answer = upgrade(&mut stream, &exec("echo"), "SPDY/3.1", "").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    echoes(&mut stream, b"before").await;

    // Both Secrets are taken away: a new authority, trusted beside the one in use, then a new leaf; nobody notices.
    let stop = Arc::new(AtomicBool::new(false));
    let (over, hammered, path) = (Arc::clone(&stop), client.clone(), path.clone());
    let hammer = tokio::spawn(async move {
        let (mut asked, mut failed) = (0, Vec::new());
        while !over.load(Ordering::Relaxed) {
            let (code, body) = ask(&hammered, "GET", &path, JSON, Value::Null).await;
            asked += 1;
            if code != 200 {
                failed.push(format!("{code} {body}"));
            }
        }
        (asked, failed)
    });
    for name in [SECRET.to_owned(), format!("{SECRET}-ca")] {
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    until("a new leaf and a new authority", LIMIT, async || {
        let files = files().await;
        let is_new = |key: &str| files.contains_key(key) && files.get(key) != first.get(key);
        is_new("tls.crt") && is_new("ca.crt") && files.get("ca.crt") == Some(&bundle().await)
    })
    .await;
    mount.bring(&files().await).unwrap();
    until("the new leaf to be served", LIMIT, async || {
        let log = std::fs::read_to_string(program.log()).unwrap_or_default();
        log.contains("serving certificate reloaded")
    })
    .await;
    let mut left = 20;
    until("a few more requests", LIMIT, async || {
        left -= 1;
        answers().await && left <= 0
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let (asked, failed) = hammer.await.unwrap();
    assert!(failed.is_empty() && asked > 0, "{} of {asked}: {:?}", failed.len(), failed.first());
    echoes(&mut stream, b"after").await;

    // A stop ends the stream with an end, not with a break.
    let began = Instant::now();
    let ending = tokio::task::spawn_blocking({
        let pid = program.pid().unwrap();
        move || std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status()
    });
    ending.await.unwrap().unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap();
    assert!(ended.is_ok() && rest.is_empty(), "{ended:?} {rest:?}");
    assert!(began.elapsed() > Duration::from_secs(20), "it had its time to end by itself");
    until("the gateway to have ended", LIMIT, async || program.pid().is_none()).await;
    let log = std::fs::read_to_string(program.log()).unwrap();
    assert!(log.contains("all requests answered"), "{log}");
    controller.stop(Duration::from_secs(10)).unwrap();
    east.stop();
    hub.stop();
}

/// Memory of the dev profile is no measure; that streams give back what they took is.
async fn many_streams_cost_little_and_give_it_back(world: &World) {
    let port = members::port(&world.hub).unwrap();
    let admin = world.hub.authority().client("streams", &["system:masters"]).unwrap();
    let pid = world.gateway.program.pid().unwrap();
    let idle = proc::usage(pid).unwrap().rss_mib;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut stream =
            connect(&world.hub, port, "localhost", (&admin.certificate, &admin.key)).await;
        let answer = upgrade(&mut stream, &exec("deep"), "SPDY/3.1", "").await;
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        echoes(&mut stream, &[7; 40_000]).await;
        streams.push(stream);
    }
    let busy = proc::usage(pid).unwrap().rss_mib;
    assert!(busy - idle < 24.0, "{idle} {busy}");
    // One user may have 64 to one cluster, and then hears why he may not have more.
    let mut refused = None;
    while refused.is_none() && streams.len() < 80 {
        let mut stream =
            connect(&world.hub, port, "localhost", (&admin.certificate, &admin.key)).await;
        let answer = upgrade(&mut stream, &exec("deep"), "SPDY/3.1", "").await;
        if answer.starts_with("HTTP/1.1 101") {
            streams.push(stream);
        } else {
            refused = Some(answer);
        }
    }
    assert!(refused.is_some_and(|answer| answer.starts_with("HTTP/1.1 429")));
    assert_eq!(streams.len(), 64);
    drop(streams);
    until("the streams to be given back", LIMIT, async || {
        world.gateway.program.metric_of("vela_gateway_streams", "deep").await.unwrap() < 1.0
    })
    .await;
}
