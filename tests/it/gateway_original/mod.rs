//! Our gateway and KubeVela's, the same requests through both: status, headers, bodies and what members saw are the same, but for the
//! differences of a list, each with its note in docs/compatibility/gateway.md.
//!
//! With `VELA_LONG_TESTS`: KubeVela's gateway takes minutes to build. Each gateway has a hub of its own; the real member is shared and
//! has a namespace for each.

mod cases;
mod compare;
mod request;

use std::time::Duration;

use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{
    Gateway, Manifests, NAMESPACE, Options, OriginalGateway, apply, apply_all,
};
use vela_tests::echo::{Echo, Heard};
use vela_tests::fixtures::{binaries, until};
use vela_tests::wire::field;
use vela_tests::{material, members};

use self::cases::{CASES, Case, TRUSTED, UX, Via};
use self::compare::{Known, Parts, differences, judge, of_answer, of_audit, of_heard};
use self::request::{Answer, send};
use crate::gateway::{BASE, connect};

const LIMIT: Duration = Duration::from_secs(60);

/// Differences that are known.
const KNOWN: &str = include_str!("differences.txt");

/// A gateway behind a hub.
struct Side {
    /// Also of its namespace in the real member; names are of one length, so that bodies are.
    name: &'static str,
    hub: Cluster,
    echo: Echo,
    port: u16,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_from_ours_what_they_get_from_the_original() {
    if std::env::var_os("VELA_LONG_TESTS").is_none() {
        return;
    }
    let east = Cluster::start_lean("original-east").await.unwrap();
    let options =
        Options { values: vec!["multicluster.enabled=true".to_owned()], ..Options::default() };
    let (ours, original) =
        (prepare("ours", &east, &options).await, prepare("them", &east, &options).await);
    let gateway = Gateway::start(&ours.0, &binaries(), &options).await.unwrap();
    let rules = original.0.dir().join("exchange.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let flag = format!("--cluster-gateway-proxy-config={}", rules.display());
    let with_rules = Options { gateway_flags: vec![flag], ..options };
    let theirs = OriginalGateway::start(&original.0, &binaries(), &with_rules).await.unwrap();
    let side = |name, (hub, echo), port| Side { name, hub, echo, port };
    let ours = side("ours", ours, gateway.program.port());
    let original = side("them", original, theirs.port());
    ours.knows_its_members().await;
    original.knows_its_members().await;

    let mut found = Vec::new();
    let of_ours = ours.outcomes(&east).await;
    let of_original = original.outcomes(&east).await;
    gateway.program.check().unwrap();
    theirs.check().unwrap();
    for (ours, original) in of_ours.iter().zip(&of_original) {
        let via = if ours.1 == Via::Hub { "hub" } else { "direct" };
        found.extend(differences((ours.0.name, via), &ours.2, &original.2));
    }
    println!("{} requests, {} differences", of_ours.len(), found.len());
    let notes = material::workspace().join("docs/compatibility/gateway.md");
    let notes = std::fs::read_to_string(notes).unwrap();
    let wrong = judge(&found, &Known::all(KNOWN, &notes));
    assert!(wrong.is_empty(), "{}: \n{}", wrong.len(), wrong.join("\n"));
}

/// What the chart of KubeVela gives its gateway.
const RULES: &str = "\
apiVersion: cluster.core.oam.dev/v1alpha1
kind: ClusterGatewayProxyConfiguration
spec:
  clientIdentityExchanger:
    rules:
      - name: super-user
        source:
          group: kubevela:ux
        type: PrivilegedIdentityExchanger
";

/// A hub with members, and those who may use them.
async fn prepare(name: &'static str, east: &Cluster, options: &Options) -> (Cluster, Echo) {
    let hub = Cluster::start_lean(&format!("original-{name}")).await.unwrap();
    let client = hub.client().await.unwrap();
    let manifests = Manifests::render(&binaries(), &options.values).unwrap();
    apply_all(&client, manifests.foundation()).await.unwrap();
    apply_all(&client, managed_clusters()).await.unwrap();
    let groups = [UX.groups[0]];
    apply_all(&client, grant("clusters", "cluster.core.oam.dev", &groups)).await.unwrap();
    let there = east.client().await.unwrap();
    apply_all(&there, grant("everything", "*", &[])).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(&there, &namespace).await.unwrap();
    members::join(&hub, east, "east", members::port(east).unwrap()).await.unwrap();
    let echo = Echo::start(hub.authority()).await.unwrap();
    let authority = hub.authority().certificate();
    let at = |path: &str| format!("https://127.0.0.1:{}{path}", echo.port());
    let token = "ServiceAccountToken";
    for (name, kind, endpoint, ca) in [
        ("echo", token, at(""), authority),
        ("deep", token, at("/k8s/clusters/c-1"), authority),
        ("nobody", token, "https://127.0.0.1:1".to_owned(), authority),
        ("lost", token, "https://no-such-host.invalid".to_owned(), authority),
        ("plain", token, format!("http://127.0.0.1:{}", echo.port()), authority),
        ("homeless", token, String::new(), authority),
        ("odd", "Password", at(""), authority),
        ("bare", "", at(""), authority),
        ("stranger", token, at(""), east.authority().certificate()),
        ("unchecked", token, at(""), ""),
    ] {
        let mut data = json!({"token": "s3cret-t0ken"});
        for (key, value) in [("endpoint", endpoint.as_str()), ("ca.crt", ca)] {
            if !value.is_empty() {
                data[key] = json!(value);
            }
        }
        let mut labels = json!({"region": "eu"});
        if !kind.is_empty() {
            labels["cluster.core.oam.dev/cluster-credential-type"] = json!(kind);
        }
        let alias = json!({"cluster.core.oam.dev/cluster-alias": format!("The {name}")});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data, "metadata":
            {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": alias}});
        apply(&client, &secret).await.unwrap();
    }
    (hub, echo)
}

/// The kind of Open Cluster Management and one cluster of it: KubeVela's gateway lists nothing without the kind.
fn managed_clusters() -> Vec<Value> {
    let group = "cluster.open-cluster-management.io";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    vec![
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("managedclusters.{group}")},
            "spec": {"group": group, "scope": "Cluster",
                "names": {"kind": "ManagedCluster", "plural": "managedclusters"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]}}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": "managed", "labels": {"region": "us"}},
            "spec": {"hubAcceptsClient": true,
                "managedClusterClientConfigs": [{"url": "https://192.0.2.1:6443"}]}}),
    ]
}

/// All rights in an API group, for those who are trusted and for groups.
fn grant(name: &str, group: &str, groups: &[&str]) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}]);
    let subject = |kind: &str, name: &str| json!({"apiGroup": rbac, "kind": kind, "name": name});
    let users = TRUSTED.iter().map(|user| subject("User", user));
    let subjects: Vec<Value> =
        users.chain(groups.iter().map(|group| subject("Group", group))).collect();
    vec![
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": subjects,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}}),
    ]
}

impl Side {
    async fn knows_its_members(&self) {
        let client = self.hub.client().await.unwrap();
        for member in ["east", "unchecked"] {
            let path = format!("{BASE}/clustergateways/{member}");
            until("the members to be known", LIMIT, async || {
                let request = http::Request::get(&path).body(Vec::new()).unwrap();
                client.request_text(request).await.is_ok()
            })
            .await;
        }
    }

    /// What becomes of all requests of the table, one after the other.
    async fn outcomes(&self, east: &Cluster) -> Vec<(&'static Case, Via, Parts)> {
        let names = self.names();
        let from = audit::position(&east.audit_log()).unwrap();
        let mut answers = Vec::new();
        for case in CASES {
            for via in case.via {
                answers.push((case, *via, self.ask(case, *via).await));
            }
        }
        let audited = audit::read(&east.audit_log(), from).unwrap();
        let heard = self.echo.heard();
        let outcome = |(case, via, answer): (&'static Case, Via, Answer)| {
            let agent = agent(case, via);
            let mut parts = of_answer(&answer, &names);
            let heard: Vec<Heard> = heard
                .iter()
                .filter(|heard| field(&heard.header, "user-agent") == Some(&agent))
                .cloned()
                .collect();
            parts.extend(of_heard(&heard, &names));
            let audited: Vec<_> = audited.iter().filter(|entry| entry.agent == agent).collect();
            parts.extend(of_audit(&audited, &names));
            (case, via, parts)
        };
        answers.into_iter().map(outcome).collect()
    }

    async fn ask(&self, case: &Case, via: Via) -> Answer {
        let agent = agent(case, via);
        let read = |file: &str| std::fs::read_to_string(self.hub.dir().join(file)).unwrap();
        let (port, identity) = match via {
            Via::Direct => (self.port, (read("front-proxy.crt"), read("front-proxy.key"))),
            Via::Hub => {
                let leaf = self.hub.authority().client(case.who.user, case.who.groups).unwrap();
                (members::port(&self.hub).unwrap(), (leaf.certificate, leaf.key))
            }
        };
        let mut stream = connect(&self.hub, port, "localhost", (&identity.0, &identity.1)).await;
        send(&mut stream, case, via, &agent, self.name).await
    }

    /// What is called otherwise on the other side.
    fn names(&self) -> Vec<(String, &'static str)> {
        vec![
            (format!("127.0.0.1:{}", self.echo.port()), "ECHO"),
            (format!("localhost:{}", self.port), "GATEWAY"),
            (format!("namespaces/{}", self.name), "namespaces/NS"),
            (format!("\"{}\"", self.name), "\"NS\""),
            (format!(" {}/", self.name), " NS/"),
        ]
    }
}

/// Says of a request in logs which one it is.
fn agent(case: &Case, via: Via) -> String {
    let via = if via == Via::Hub { "hub" } else { "direct" };
    format!("diff/{}/{via}", case.name)
}
