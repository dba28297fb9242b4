//! The table of requests that the command line client and kubectl make, and of those that nobody should.

use axum::body::Body;
use http_body_util::BodyExt as _;
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use vela_cluster::members::SecretRules;
use vela_serve::metrics::Registry as MetricsRegistry;

use super::*;
use crate::front::tests::front;
use crate::view::tests::secret;

const BASE: &str = "/apis/cluster.core.oam.dev/v1alpha1";

/// Everybody may do everything, but for mallory.
fn server(synced: bool) -> Arc<Server> {
    vela_serve::tls::install_crypto();
    let hub = tower::service_fn(async |request: http::Request<KubeBody>| {
        let body = request.into_body().collect_bytes().await?;
        let spec = serde_json::from_slice::<Value>(&body)?["spec"].clone();
        let allowed = spec["user"] != "mallory";
        let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": spec, "status": {"allowed": allowed, "reason": "says the hub"}});
        let answer = http::Response::builder()
            .status(201)
            .body(KubeBody::from(answer.to_string().into_bytes()))?;
        Ok::<_, tower::BoxError>(answer)
    });
    let registry = Arc::new(Registry::new(SecretRules::default(), None));
    let data = [("endpoint", "https://10.0.0.1:6443"), ("token", "t0ken")];
    registry.put(&secret("east", "ServiceAccountToken", &data));
    registry.put(&secret("broken", "ServiceAccountToken", &data[..1]));
    if synced {
        registry.synced(&["east".to_owned(), "broken".to_owned()]);
    }
    Arc::new(Server {
        front: ArcSwapOption::from_pointee(front()),
        registry,
        access: Access::new(kube::Client::new(hub, "default")),
        metrics: Metrics::new(&MetricsRegistry::new("vela-gateway", "0").unwrap()).unwrap(),
        health: Health::new(),
        limits: StreamLimits { per_user: 2, per_cluster: 4 },
        penetrates: true,
        privileged_groups: Vec::new(),
        exchange: Arc::new(SharedRules::of(None)),
        closing: CancellationToken::new(),
        cut: CancellationToken::new(),
        tunnels: TaskTracker::new(),
    })
}

fn request(method: &str, path: &str, user: &str, accept: &str) -> Request {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("x-remote-user", user)
        .header(ACCEPT, accept)
        .body(Body::empty())
        .unwrap();
    request.extensions_mut().insert(PeerName("front-proxy".into()));
    request
}

async fn ask(server: &Server, request: Request) -> (u16, Value) {
    let answer = server.answer(request).await.unwrap_or_else(Failure::into_response);
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[test]
fn paths_are_routed() {
    let proxy = |rest: &'static str| Route::Proxy("east".to_owned(), rest);
    for (path, route) in [
        ("/apis".to_owned(), Route::Groups),
        ("/apis/cluster.core.oam.dev".to_owned(), Route::Group),
        ("/apis/cluster.core.oam.dev/".to_owned(), Route::Group),
        (BASE.to_owned(), Route::Version),
        ("/openapi/v2".to_owned(), Route::OpenApi2),
        ("/openapi/v3".to_owned(), Route::OpenApi3),
        ("/openapi/v3/apis/cluster.core.oam.dev/v1alpha1".to_owned(), Route::OpenApi3Version),
        ("/openapi/v3/apis/apps/v1".to_owned(), Route::Nothing),
        ("/readyz".to_owned(), Route::Ready),
        ("/livez".to_owned(), Route::Live),
        (format!("{BASE}/clustergateways"), Route::List(Resource::Gateways)),
        (format!("{BASE}/virtualclusters/"), Route::List(Resource::Virtual)),
        (format!("{BASE}/clustergateways/east"), Route::One(Resource::Gateways, "east".to_owned())),
        (format!("{BASE}/virtualclusters/a%2Fb"), Route::One(Resource::Virtual, "a/b".to_owned())),
        (format!("{BASE}/clustergateways/east/health"), Route::Health("east".to_owned())),
        (format!("{BASE}/clustergateways/east/proxy"), proxy("")),
        (format!("{BASE}/clustergateways/east/proxy/"), proxy("/")),
        (format!("{BASE}/clustergateways/east/proxy/api/v1/pods"), proxy("/api/v1/pods")),
        (format!("{BASE}/clustergateways/east/proxy/api/"), proxy("/api/")),
        (format!("{BASE}/clustergateways/east/proxy//api"), proxy("//api")),
        (format!("{BASE}/clustergateways/east/proxyx"), Route::Nothing),
        (format!("{BASE}/clustergateways/east/status"), Route::Nothing),
        (format!("{BASE}/virtualclusters/east/proxy/x"), Route::Nothing),
        (format!("{BASE}/others"), Route::Nothing),
        (format!("{BASE}x/clustergateways"), Route::Nothing),
        ("/apis/cluster.core.oam.dev/v1beta1".to_owned(), Route::Nothing),
        ("/apis/cluster.core.oam.devx/v1alpha1".to_owned(), Route::Nothing),
        ("/api/v1/secrets".to_owned(), Route::Nothing),
        ("/".to_owned(), Route::Nothing),
    ] {
        assert_eq!(Route::of(&path), route, "{path}");
    }
}

#[tokio::test]
async fn requests_are_answered_as_clients_expect() {
    let server = server(true);
    let json = "application/json";
    for (method, path, user, accept, code, pointer, expected) in [
        ("GET", "/apis", "alice", json, 200, "/groups/0/name", json!("cluster.core.oam.dev")),
        ("GET", "/apis/cluster.core.oam.dev", "alice", json, 200, "/kind", json!("APIGroup")),
        (
            "GET",
            BASE,
            "system:kube-aggregator",
            json,
            200,
            "/groupVersion",
            json!("cluster.core.oam.dev/v1alpha1"),
        ),
        ("GET", "/openapi/v2", "system:aggregator", json, 200, "/swagger", json!("2.0")),
        // `vela status --tree`
        (
            "GET",
            "BASE/virtualclusters",
            "alice",
            json,
            200,
            "/items/0/metadata/name",
            json!("local"),
        ),
        (
            "GET",
            "BASE/virtualclusters?labelSelector=region%3Deu",
            "alice",
            json,
            200,
            "/items/0/spec/alias",
            json!("Edge of town"),
        ),
        (
            "GET",
            "BASE/virtualclusters/local",
            "alice",
            json,
            200,
            "/spec/credential-type",
            json!("Internal"),
        ),
        (
            "GET",
            "BASE/virtualclusters/east",
            "alice",
            json,
            200,
            "/spec/endpoint",
            json!("https://10.0.0.1:6443"),
        ),
        (
            "GET",
            "BASE/virtualclusters/nope",
            "alice",
            json,
            404,
            "/details/kind",
            json!("virtualclusters"),
        ),
        ("HEAD", "BASE/virtualclusters/east", "alice", json, 200, "/kind", json!("VirtualCluster")),
        // kubectl get
        (
            "GET",
            "BASE/clustergateways",
            "alice",
            json,
            200,
            "/items/0/metadata/name",
            json!("broken"),
        ),
        (
            "GET",
            "BASE/clustergateways?fieldSelector=metadata.name%3Deast",
            "alice",
            json,
            200,
            "/items/0/metadata/name",
            json!("east"),
        ),
        (
            "GET",
            "BASE/clustergateways",
            "alice",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            200,
            "/kind",
            json!("Table"),
        ),
        ("GET", "BASE/clustergateways/local", "alice", json, 404, "/reason", json!("NotFound")),
        (
            "GET",
            "BASE/clustergateways/east/health",
            "alice",
            json,
            200,
            "/status/healthy",
            json!(false),
        ),
        (
            "GET",
            "BASE/clustergateways?watch=true",
            "alice",
            json,
            405,
            "/message",
            json!("watch not supported"),
        ),
        (
            "GET",
            "BASE/clustergateways",
            "alice",
            "application/vnd.kubernetes.protobuf",
            406,
            "/reason",
            json!("NotAcceptable"),
        ),
        (
            "GET",
            "BASE/virtualclusters?labelSelector=(",
            "alice",
            json,
            400,
            "/reason",
            json!("BadRequest"),
        ),
        ("POST", "BASE/clustergateways", "alice", json, 405, "/reason", json!("MethodNotAllowed")),
        (
            "DELETE",
            "BASE/virtualclusters/east",
            "alice",
            json,
            405,
            "/reason",
            json!("MethodNotAllowed"),
        ),
        (
            "PUT",
            "BASE/clustergateways/east/health",
            "alice",
            json,
            405,
            "/reason",
            json!("MethodNotAllowed"),
        ),
        (
            "GET",
            "BASE/others",
            "alice",
            json,
            404,
            "/message",
            json!("the server could not find the requested resource"),
        ),
        // rights
        ("GET", "BASE/virtualclusters", "mallory", json, 403, "/reason", json!("Forbidden")),
        (
            "GET",
            "BASE/clustergateways/east/proxy/version",
            "mallory",
            json,
            403,
            "/details/name",
            json!("east"),
        ),
        // members
        (
            "GET",
            "BASE/clustergateways/broken/proxy/version",
            "alice",
            json,
            422,
            "/details/name",
            json!("broken"),
        ),
        (
            "TRACE",
            "BASE/clustergateways/east/proxy/version",
            "alice",
            json,
            405,
            "/reason",
            json!("MethodNotAllowed"),
        ),
        (
            "GET",
            "BASE/clustergateways/east/proxy/version",
            "system:kube-scheduler",
            json,
            403,
            "/reason",
            json!("Forbidden"),
        ),
        (
            "GET",
            "BASE/clustergateways/east/proxy/a/..%2fb",
            "alice",
            json,
            400,
            "/reason",
            json!("BadRequest"),
        ),
    ] {
        let path = path.replace("BASE", BASE);
        let (answered, body) = ask(&server, request(method, &path, user, accept)).await;
        assert_eq!(answered, code, "{method} {path} {body}");
        assert_eq!(body.pointer(pointer), Some(&expected), "{method} {path} {body}");
        assert!(!body.to_string().contains("t0ken"), "{body}");
    }
}

#[tokio::test]
async fn nobody_but_the_front_proxy_is_answered() {
    let server = server(true);
    for name in [None, Some("alice")] {
        let mut request = request("GET", "/apis", "admin", "application/json");
        request.extensions_mut().remove::<PeerName>();
        if let Some(name) = name {
            request.extensions_mut().insert(PeerName(name.into()));
        }
        assert_eq!(ask(&server, request).await.0, 401);
    }
    let mut nobody = request("GET", "/apis", "admin", "application/json");
    nobody.headers_mut().remove("x-remote-user");
    assert_eq!(ask(&server, nobody).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_has_is_not_found_only_when_all_are_known() {
    let path = format!("{BASE}/clustergateways/nope/proxy/version");
    let (code, body) = ask(&server(true), request("GET", &path, "alice", "application/json")).await;
    assert_eq!((code, body["reason"].as_str()), (404, Some("NotFound")));
    assert!(body["message"].as_str().unwrap().ends_with("no such cluster nope"));
    for path in [path, format!("{BASE}/virtualclusters"), format!("{BASE}/virtualclusters/nope")] {
        let (code, body) =
            ask(&server(false), request("GET", &path, "alice", "application/json")).await;
        assert_eq!(code, 503, "{path} {body}");
        assert!(!body.to_string().contains("no such cluster"), "{body}");
    }
}

#[tokio::test]
async fn the_aggregated_document_is_answered_in_its_own_type() {
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let answer = server(true).answer(request("GET", "/apis", "alice", accept)).await.unwrap();
    assert_eq!(
        answer.headers()[CONTENT_TYPE],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
}
