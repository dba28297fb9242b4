//! The table of requests: what is asked, by whom, and how it is written.

/// Who asks: as the hub's API server knows him.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) user: &'static str,
    pub(super) groups: &'static [&'static str],
    /// Further fields about him, which only the front proxy can write.
    pub(super) fields: &'static [&'static str],
}

const fn who(user: &'static str, groups: &'static [&'static str]) -> Who {
    Who { user, groups, fields: &[] }
}

/// May use all clusters in the hub, and do everything in the member.
pub(super) const ALICE: Who = who("alice", &["dev"]);
/// A ServiceAccount with the same rights.
pub(super) const ROBOT: Who = who(
    "system:serviceaccount:default:robot",
    &["system:serviceaccounts", "system:serviceaccounts:default"],
);
/// A component of the hub with the same rights.
pub(super) const COMPONENT: Who = who("system:kube-scheduler", &[]);
/// Somebody in groups of the hub's components.
pub(super) const NODE: Who = who("alice", &["dev", "system:nodes"]);
/// Has the rights of the hub's administrators.
pub(super) const ADMIN: Who = who("root-of-the-hub", &["system:masters"]);
/// VelaUX.
pub(super) const UX: Who = who("velaux", &["kubevela:ux"]);
/// Has no right anywhere.
pub(super) const MALLORY: Who = who("mallory", &["dev"]);
const DETAILED: Who = Who {
    fields: &[
        "X-Remote-Uid: 1234",
        "X-Remote-Extra-Scopes: a",
        "X-Remote-Extra-Example.com%2fteam: b",
        "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-id: JTI=1",
    ],
    ..ALICE
};
/// Nobody: a request without a user.
const NAMELESS: Who = who("", &[]);

/// Those who have all rights there are: names of users, then of a group.
pub(super) const TRUSTED: [&str; 3] = [ALICE.user, ROBOT.user, COMPONENT.user];

/// How a request gets to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Via {
    /// Through the hub's API server.
    Hub,
    /// At its port, as the front proxy.
    Direct,
}

#[derive(Debug)]
pub(super) enum Body {
    None,
    Text(&'static str),
    /// So many bytes.
    Long(usize),
    /// Of unknown length; then a trailer.
    Chunked(&'static [&'static str]),
    /// Sent when the server wants it.
    Expected(&'static str),
    /// What follows after another protocol was agreed on.
    Upgrade(&'static str),
}

/// A request. In the path `{NS}` stands for a namespace of the member, and what does not begin with a slash is below the group.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) via: &'static [Via],
    pub(super) who: Who,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) fields: &'static [&'static str],
    pub(super) body: Body,
}

const BOTH: &[Via] = &[Via::Hub, Via::Direct];
const DIRECT: &[Via] = &[Via::Direct];

const fn case(name: &'static str, method: &'static str, path: &'static str) -> Case {
    Case { name, via: BOTH, who: ALICE, method, path, fields: &[], body: Body::None }
}

const fn get(name: &'static str, path: &'static str) -> Case {
    case(name, "GET", path)
}

impl Case {
    const fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    const fn with(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    const fn sending(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    const fn directly(mut self) -> Self {
        self.via = DIRECT;
        self
    }
}

const JSON: &[&str] = &["Content-Type: application/json"];
const MERGE: &[&str] = &["Content-Type: application/merge-patch+json"];
const APPLY: &[&str] = &["Content-Type: application/apply-patch+yaml"];
const PLAIN: &[&str] = &["Content-Type: text/plain"];
const TABLE: &[&str] = &["Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"];
const PARTIAL: &[&str] =
    &["Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"];
const PROTOBUF: &[&str] = &["Accept: application/vnd.kubernetes.protobuf"];
const PROTOBUF_OR_JSON: &[&str] =
    &["Accept: application/vnd.kubernetes.protobuf, application/json"];
const AGGREGATED: &[&str] = &[
    "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
];
const SPDY: &[&str] = &["X-Stream-Protocol-Version: v4.channel.k8s.io"];
const WEBSOCKET: &[&str] = &[
    "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
];

const MAP: &str =
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}"#;
const OTHER: &str =
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"a": "1"}}"#;
const REPLACED: &str =
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "2"}}"#;
const PATCH: &str = r#"{"data": {"a": "3"}}"#;

const MAPS: &str = "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps";
const ONE: &str = "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps/m";
const EXEC: &str =
    "clustergateways/echo/proxy/api/v1/namespaces/default/pods/p/exec?command=sh&stdin=true";

/// In this order: later requests meet what earlier ones made.
pub(super) const CASES: &[Case] = &[
    // What the API consists of.
    get("version", ""),
    get("version-slash", "/apis/cluster.core.oam.dev/v1alpha1/"),
    get("group", "/apis/cluster.core.oam.dev"),
    get("groups", "/apis").directly(),
    get("groups-aggregated", "/apis").with(AGGREGATED).directly(),
    get("openapi-v2", "/openapi/v2").directly(),
    get("openapi-v3", "/openapi/v3").directly(),
    get("openapi-v3-version", "/openapi/v3/apis/cluster.core.oam.dev/v1alpha1").directly(),
    get("healthz", "/healthz").directly(),
    get("readyz", "/readyz").directly(),
    get("livez", "/livez").directly(),
    get("root", "/").directly(),
    get("other-group", "/apis/apps/v1/deployments").directly(),
    get("other-version", "/apis/cluster.core.oam.dev/v1beta1/clustergateways").directly(),
    get("other-resource", "things"),
    get("other-subresource", "clustergateways/east/status"),
    get("subresource-of-virtual", "virtualclusters/east/proxy"),
    // Views.
    get("virtual", "virtualclusters"),
    get("virtual-slash", "virtualclusters/"),
    get("virtual-table", "virtualclusters").with(TABLE),
    get("virtual-table-objects", "virtualclusters?includeObject=Object").with(TABLE),
    get("virtual-metadata", "virtualclusters").with(PARTIAL),
    get("virtual-label", "virtualclusters?labelSelector=region%3Deu"),
    get("virtual-label-set", "virtualclusters?labelSelector=region+in+(eu,us),!gone"),
    get("virtual-control-plane", "virtualclusters?labelSelector=cluster.core.oam.dev%2Fcontrol-plane%3Dtrue"),
    get("virtual-label-wrong", "virtualclusters?labelSelector=%3D%3D%3D"),
    get("virtual-field", "virtualclusters?fieldSelector=metadata.name%3Deast"),
    get("virtual-limit", "virtualclusters?limit=1"),
    get("virtual-watch", "virtualclusters?watch=true"),
    get("virtual-one", "virtualclusters/east"),
    get("virtual-one-table", "virtualclusters/east").with(TABLE),
    get("virtual-local", "virtualclusters/local"),
    get("virtual-managed", "virtualclusters/managed"),
    get("virtual-unknown", "virtualclusters/nope"),
    get("virtual-no-endpoint", "virtualclusters/homeless"),
    case("virtual-head", "HEAD", "virtualclusters"),
    case("virtual-create", "POST", "virtualclusters").with(JSON).sending(Body::Text("{}")),
    case("virtual-delete", "DELETE", "virtualclusters/east"),
    get("virtual-forbidden", "virtualclusters").by(MALLORY),
    get("gateways", "clustergateways"),
    get("gateways-table", "clustergateways").with(TABLE),
    get("gateways-metadata", "clustergateways").with(PARTIAL),
    get("gateways-label", "clustergateways?labelSelector=region%3Deu"),
    get("gateways-watch", "clustergateways?watch=true"),
    get("gateways-protobuf", "clustergateways").with(PROTOBUF),
    get("gateways-protobuf-or-json", "clustergateways").with(PROTOBUF_OR_JSON),
    get("gateways-one", "clustergateways/east"),
    get("gateways-one-table", "clustergateways/east").with(TABLE),
    get("gateways-pretty", "clustergateways/east?pretty=true"),
    get("gateways-unknown", "clustergateways/nope"),
    get("gateways-local", "clustergateways/local"),
    get("gateways-no-endpoint", "clustergateways/homeless"),
    get("gateways-forbidden", "clustergateways").by(MALLORY),
    get("health", "clustergateways/east/health"),
    get("health-unknown", "clustergateways/nope/health"),
    case("health-update", "PUT", "clustergateways/east/health")
        .with(JSON)
        .sending(Body::Text(r#"{"apiVersion": "cluster.core.oam.dev/v1alpha1", "kind": "ClusterGateway", "metadata": {"name": "east"}, "status": {"healthy": true}}"#)),
    case("gateways-delete", "DELETE", "clustergateways/east"),
    case("gateways-patch", "PATCH", "clustergateways/east").with(MERGE).sending(Body::Text("{}")),
    // Requests to a real member.
    get("member-version", "clustergateways/east/proxy/version"),
    get("member-healthz", "clustergateways/east/proxy/healthz"),
    get("member-apis", "clustergateways/east/proxy/apis"),
    get("member-apis-aggregated", "clustergateways/east/proxy/apis").with(AGGREGATED),
    get("member-openapi-v3", "clustergateways/east/proxy/openapi/v3"),
    get("member-not-found", "clustergateways/east/proxy/apis/no.such.group/v1/things"),
    case("create-dry", "POST", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?dryRun=All")
        .with(JSON).sending(Body::Text(MAP)),
    case("create-dry-escaped", "POST", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?__dryRun=All")
        .with(JSON).sending(Body::Text(MAP)),
    case("create-dry-wrong", "POST", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?dryRun=Some")
        .with(JSON).sending(Body::Text(MAP)),
    get("not-there-after-dry-run", ONE),
    case("create", "POST", MAPS).with(JSON).sending(Body::Text(MAP)),
    case("create-again", "POST", MAPS).with(JSON).sending(Body::Text(MAP)),
    case("create-chunked", "POST", MAPS).with(JSON).sending(Body::Chunked(&[OTHER])),
    case("create-no-json", "POST", MAPS).with(JSON).sending(Body::Text("{")),
    case("create-no-body", "POST", MAPS).with(JSON),
    case("create-other-kind", "POST", MAPS).with(PLAIN).sending(Body::Text(MAP)),
    get("read", ONE),
    get("read-table", MAPS).with(TABLE),
    get("read-metadata", MAPS).with(PARTIAL),
    get("read-protobuf", ONE).with(PROTOBUF),
    get("list", MAPS),
    get("list-field", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?fieldSelector=metadata.name%3Dm"),
    get("list-page", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?limit=1"),
    get("watch", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?watch=true&timeoutSeconds=1&resourceVersion=0"),
    get("watch-gone", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?watch=1&timeoutSeconds=1&resourceVersion=1"),
    case("head", "HEAD", ONE),
    case("options", "OPTIONS", ONE),
    case("replace", "PUT", ONE).with(JSON).sending(Body::Expected(REPLACED)),
    case("patch", "PATCH", ONE).with(MERGE).sending(Body::Text(PATCH)),
    case("apply", "PATCH", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps/m?fieldManager=test&force=true")
        .with(APPLY).sending(Body::Text(MAP)),
    case("delete", "DELETE", ONE).with(JSON).sending(Body::Text(r#"{"propagationPolicy": "Background"}"#)),
    case("delete-collection", "DELETE", "clustergateways/east/proxy/api/v1/namespaces/{NS}/configmaps?labelSelector=a%3Db"),
    case("too-large", "POST", MAPS).with(JSON).sending(Body::Long(4 << 20)),
    get("gzip-asked-for", "clustergateways/east/proxy/openapi/v3/api/v1").with(&["Accept-Encoding: gzip"]),
    // As whom.
    get("as-admin", MAPS).by(ADMIN),
    get("as-robot", MAPS).by(ROBOT),
    get("as-component", MAPS).by(COMPONENT),
    get("as-node", MAPS).by(NODE),
    get("as-ux", MAPS).by(UX),
    get("as-mallory", MAPS).by(MALLORY),
    get("as-nobody", MAPS).by(NAMELESS).directly(),
    get("as-somebody-in-detail", "clustergateways/echo/proxy/who").by(DETAILED).directly(),
    get("impersonate-asked-for", "clustergateways/echo/proxy/who?impersonate=true"),
    get("impersonate-not-asked-for", "clustergateways/echo/proxy/who?impersonate=false"),
    get("echo-admin", "clustergateways/echo/proxy/who").by(ADMIN),
    get("echo-robot", "clustergateways/echo/proxy/who").by(ROBOT),
    get("echo-component", "clustergateways/echo/proxy/who").by(COMPONENT),
    get("echo-node", "clustergateways/echo/proxy/who").by(NODE),
    get("echo-ux", "clustergateways/echo/proxy/who").by(UX),
    get("impersonation-headers", "clustergateways/echo/proxy/who").with(&["Impersonate-User: root"]),
    get("impersonation-of-masters", "clustergateways/echo/proxy/who").with(&["Impersonate-User: alice", "Impersonate-Group: system:masters"]),
    // What of a request reaches a member.
    get("plain", "clustergateways/echo/proxy/plain"),
    get("query", "clustergateways/echo/proxy/x?a=1&b=&c&d=%20+%2B&a=2&%C3%A9=%26"),
    get("query-order", "clustergateways/echo/proxy/x?z=1&y=2&x=3"),
    get("query-empty", "clustergateways/echo/proxy/x?"),
    get("query-semicolon", "clustergateways/echo/proxy/x?a=1;b=2"),
    get("query-broken", "clustergateways/echo/proxy/x?a=%zz&b=1"),
    get("query-dry-run-twice", "clustergateways/echo/proxy/x?dryRun=All&dryRun=Some"),
    get("query-dry-run-both", "clustergateways/echo/proxy/x?dryRun=All&__dryRun=Some"),
    get("query-path", "clustergateways/echo/proxy/x?path=/y"),
    get("no-path", "clustergateways/echo/proxy"),
    get("only-a-slash", "clustergateways/echo/proxy/"),
    get("slash-at-the-end", "clustergateways/echo/proxy/x/"),
    get("double-slashes", "clustergateways/echo/proxy//x///y"),
    get("dots", "clustergateways/echo/proxy/a/./b/../c"),
    get("dots-out", "clustergateways/echo/proxy/../../x"),
    get("dots-escaped", "clustergateways/echo/proxy/a/%2e%2e/b"),
    get("dots-out-escaped", "clustergateways/echo/proxy/%2e%2e/%2e%2e/x"),
    get("dots-hidden", "clustergateways/echo/proxy/a%2f..%2fb"),
    get("deep", "clustergateways/deep/proxy/x"),
    get("deep-dots-out", "clustergateways/deep/proxy/../../../x"),
    get("deep-dots-escaped", "clustergateways/deep/proxy/..%2f..%2fc-2/x"),
    get("slash-escaped", "clustergateways/echo/proxy/a%2Fb"),
    get("space-escaped", "clustergateways/echo/proxy/a%20b"),
    get("question-mark-escaped", "clustergateways/echo/proxy/a%3Fb"),
    get("percent-escaped", "clustergateways/echo/proxy/a%25b"),
    get("unicode-escaped", "clustergateways/echo/proxy/%C3%A9"),
    get("escape-broken", "clustergateways/echo/proxy/%zz"),
    get("colon", "clustergateways/echo/proxy/api/v1/namespaces/a/services/https:b:80/proxy/"),
    get("own-fields", "clustergateways/echo/proxy/x").with(&[
        "X-Own: 1",
        "X-Forwarded-For: 192.0.2.1",
        "Cookie: a=b",
        "Accept-Language: en",
        "If-None-Match: \"1\"",
        "Te: trailers",
        "Keep-Alive: timeout=5",
        "Proxy-Authorization: Basic eA==",
        "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "Audit-Id: mine",
    ]),
    get("remote-fields", "clustergateways/echo/proxy/x").with(&["X-Remote-Extra-Scopes: forged"]),
    case("text", "POST", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Text("hello")),
    case("empty-text", "POST", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Text("")),
    case("body-of-get", "GET", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Text("hello")),
    case("body-of-delete", "DELETE", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Text("hello")),
    case("chunks", "PUT", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Chunked(&["hel", "lo", "!"])),
    case("expected", "PUT", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Expected("hello")),
    case("long", "POST", "clustergateways/echo/proxy/x").with(PLAIN).sending(Body::Long(3 << 20)),
    case("method-unknown", "BREW", "clustergateways/echo/proxy/x"),
    case("method-trace", "TRACE", "clustergateways/echo/proxy/x"),
    case("method-options", "OPTIONS", "clustergateways/echo/proxy/x"),
    case("method-head", "HEAD", "clustergateways/echo/proxy/x"),
    // What of an answer reaches a client.
    get("answer-page", "clustergateways/echo/proxy/page"),
    get("answer-empty", "clustergateways/echo/proxy/empty"),
    get("answer-unchanged", "clustergateways/echo/proxy/unchanged").with(&["If-None-Match: \"1\""]),
    get("answer-redirect", "clustergateways/echo/proxy/redirect"),
    get("answer-busy", "clustergateways/echo/proxy/busy"),
    get("answer-credential", "clustergateways/echo/proxy/credential"),
    get("answer-failure", "clustergateways/echo/proxy/failure"),
    get("answer-host", "clustergateways/echo/proxy/host"),
    get("answer-fields", "clustergateways/echo/proxy/fields"),
    get("answer-early", "clustergateways/echo/proxy/early"),
    get("answer-chunks", "clustergateways/echo/proxy/chunks"),
    get("answer-large", "clustergateways/echo/proxy/large"),
    get("answer-packed", "clustergateways/echo/proxy/packed"),
    get("answer-packed-asked-for", "clustergateways/echo/proxy/packed").with(&["Accept-Encoding: gzip"]),
    get("answer-cut", "clustergateways/echo/proxy/cut").directly(),
    get("answer-nothing", "clustergateways/echo/proxy/nothing"),
    get("answer-garbage", "clustergateways/echo/proxy/garbage"),
    // Other protocols.
    case("spdy", "POST", EXEC).with(SPDY).sending(Body::Upgrade("SPDY/3.1")),
    get("websocket", EXEC).with(WEBSOCKET).sending(Body::Upgrade("websocket")),
    get("upgrade-as-robot", EXEC).by(ROBOT).with(WEBSOCKET).sending(Body::Upgrade("websocket")),
    get("upgrade-as-ux", EXEC).by(UX).with(WEBSOCKET).sending(Body::Upgrade("websocket")),
    get("upgrade-forbidden", EXEC).by(MALLORY).with(WEBSOCKET).sending(Body::Upgrade("websocket")),
    get("upgrade-deep", "clustergateways/deep/proxy/x").with(SPDY).sending(Body::Upgrade("SPDY/3.1")),
    get("upgrade-refused", "clustergateways/echo/proxy/refused").with(SPDY).sending(Body::Upgrade("SPDY/3.1")),
    get("upgrade-unknown-cluster", "clustergateways/nope/proxy/x").with(SPDY).sending(Body::Upgrade("SPDY/3.1")),
    get("upgrade-unreachable", "clustergateways/nobody/proxy/x").with(SPDY).sending(Body::Upgrade("SPDY/3.1")),
    // Members that cannot be asked.
    get("unknown-cluster", "clustergateways/nope/proxy/version"),
    get("unknown-cluster-forbidden", "clustergateways/nope/proxy/version").by(MALLORY),
    get("local-cluster", "clustergateways/local/proxy/version"),
    get("unreachable", "clustergateways/nobody/proxy/version"),
    get("unreachable-host", "clustergateways/lost/proxy/version"),
    get("http-endpoint", "clustergateways/plain/proxy/version"),
    get("no-endpoint", "clustergateways/homeless/proxy/version"),
    get("no-credential", "clustergateways/bare/proxy/version"),
    get("other-credential", "clustergateways/odd/proxy/version"),
    get("other-authority", "clustergateways/stranger/proxy/version"),
    get("uncertified", "clustergateways/unchecked/proxy/x"),
];
