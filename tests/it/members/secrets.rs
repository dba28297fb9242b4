//! Secrets of clusters: credentials that change, are revoked or handed out by a command, proxies, addresses that are refused, and
//! that nothing of them is shown.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use vela_tests::audit;
use vela_tests::fixtures::until;
use vela_tests::impostor::{Canned, Impostor};
use vela_tests::link::Link;
use vela_tests::members::{Joined, Joining, LIMIT, Space, fleet, token};
use vela_tests::proxies::{ForwardProxy, Speaks, USER};

/// Edits an Application in a member until that is done with the token of an account: before, the former credential is still used
/// while the new one is tried.
async fn in_use(space: &Space, member: &Joined, name: &str, account: &str) {
    let log = member.cluster.audit_log();
    let (from, since) = (audit::position(&log).unwrap(), Instant::now());
    let user = format!("system:serviceaccount:kube-system:{account}");
    for turn in 0.. {
        space.apply(&space.application("a", &[name], &format!("turn-{turn}"))).await.unwrap();
        space.runs("a").await;
        let all = audit::read(&log, from).unwrap();
        if all.iter().any(|it| it.user == user && it.resource == "configmaps") {
            return;
        }
        assert!(since.elapsed() < LIMIT, "{account} is not used");
    }
}

/// F4: a credential that is revoked closes the way, and a new one opens it without a restart.
#[tokio::test]
async fn a_revoked_credential_is_noticed_and_a_new_one_used_at_once() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("revoked").await.unwrap();
    let pid = fleet.deployed.controller.pid();
    let short = token(&fleet.east.cluster, "short-lived").await.unwrap();
    fleet.write(&fleet.east.joining().token(&short).secret("east")).await.unwrap();
    in_use(&space, &fleet.east, "east", "short-lived").await;
    let accounts: Api<ServiceAccount> =
        Api::namespaced(fleet.east.cluster.client().await.unwrap(), "kube-system");
    accounts.delete("short-lived", &DeleteParams::default()).await.unwrap();
    let noticed = fleet.reaches("east", "CredentialRefused").await;
    // The API server itself believes a token for 10 s more.
    assert!(noticed < Duration::from_secs(45), "{noticed:?}");
    space.apply(&space.application("a", &["east"], "2")).await.unwrap();
    until("the condition to say so", LIMIT, async || {
        let conditions = space.app("a").await["status"]["conditions"].clone();
        let mut all = conditions.as_array().into_iter().flatten();
        all.any(|it| it["type"] == "Clusters" && it["reason"] == "CredentialRefused")
    })
    .await;
    fleet.write(&fleet.east.joining().secret("east")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("2"));
    space.delete("a").await;
    let events = fleet.events("east").await.unwrap();
    assert_eq!(events.iter().filter(|(reason, _)| reason == "CredentialRefused").count(), 1);
    assert_eq!(fleet.deployed.controller.pid(), pid);
}

/// F5: while a Secret changes no request fails.
#[tokio::test]
async fn a_rotated_credential_interrupts_nothing() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("rotated").await.unwrap();
    for round in 0..3 {
        let other = token(&fleet.east.cluster, &format!("turn-{round}")).await.unwrap();
        let value = round.to_string();
        space.apply(&space.application("a", &["east"], &value)).await.unwrap();
        fleet.write(&fleet.east.joining().token(&other).secret("east")).await.unwrap();
        space.runs("a").await;
        assert_eq!(space.value("east", "a").await.as_deref(), Some(value.as_str()));
    }
    space.delete("a").await;
}

/// 6.4: a mistake in a new credential interrupts nothing as long as the former one works.
#[tokio::test]
async fn a_new_credential_that_is_refused_is_not_used() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("mistaken").await.unwrap();
    let former = token(&fleet.west.cluster, "former").await.unwrap();
    fleet.write(&fleet.west.joining().token(&former).secret("west")).await.unwrap();
    in_use(&space, &fleet.west, "west", "former").await;
    fleet.write(&fleet.west.joining().token("mistyped").secret("west")).await.unwrap();
    fleet.reaches("west", "Degraded").await;
    until("the event", LIMIT, async || {
        let all = fleet.events("west").await.unwrap();
        all.iter().any(|(reason, text)| {
            reason == "CredentialRefused" && text.contains("the former one is still used")
        })
    })
    .await;
    space.apply(&space.application("a", &["west"], "2")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("west", "a").await.as_deref(), Some("2"));
    // The former one ends: there is nothing else, and the state says so until the Secret is mended.
    let accounts: Api<ServiceAccount> =
        Api::namespaced(fleet.west.cluster.client().await.unwrap(), "kube-system");
    accounts.delete("former", &DeleteParams::default()).await.unwrap();
    fleet.reaches("west", "CredentialRefused").await;
    fleet.write(&fleet.west.joining().secret("west")).await.unwrap();
    fleet.reaches("west", "Connected").await;
    space.apply(&space.application("a", &["west"], "3")).await.unwrap();
    space.runs("a").await;
    space.delete("a").await;
}

/// F13: proxies of both kinds, and an address by name.
#[tokio::test]
async fn a_member_is_reached_through_proxies_and_by_name() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("proxied").await.unwrap();
    for (index, speaks) in [Speaks::Http, Speaks::Socks].into_iter().enumerate() {
        let proxy = ForwardProxy::start(speaks).await.unwrap();
        let value = index.to_string();
        let secret = fleet.east.joining().with("proxy-url", &proxy.url()).secret("east");
        fleet.write(&secret).await.unwrap();
        space.apply(&space.application("a", &["east"], &value)).await.unwrap();
        space.runs("a").await;
        assert_eq!(space.value("east", "a").await.as_deref(), Some(value.as_str()));
        assert!(proxy.passed() > 0, "{speaks:?}");
    }
    let by_name = format!("https://localhost:{}", fleet.east.link.port());
    fleet.write(&fleet.east.joining().with("endpoint", &by_name).secret("east")).await.unwrap();
    space.apply(&space.application("a", &["east"], "name")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("name"));
    space.delete("a").await;
}

/// F14: addresses that are refused get no packet, and redirects are not followed.
#[tokio::test]
async fn refused_addresses_get_nothing() {
    let (_turn, fleet) = fleet().await;
    let target = Link::to(1).await.unwrap();
    let port = target.port();
    for (name, key, value) in [
        ("plain-http", "endpoint", format!("http://127.0.0.1:{port}")),
        ("with-user", "endpoint", format!("https://u:p@127.0.0.1:{port}")),
        ("with-query", "endpoint", format!("https://127.0.0.1:{port}?x=y")),
        ("metadata", "endpoint", "https://169.254.169.254".to_owned()),
        ("link-local", "endpoint", "https://[fe80::1]:6443".to_owned()),
        ("multicast", "endpoint", "https://224.0.0.1".to_owned()),
        ("mapped", "endpoint", "https://[::ffff:169.254.169.254]".to_owned()),
        ("ftp-proxy", "proxy-url", format!("ftp://127.0.0.1:{port}")),
        ("metadata-proxy", "proxy-url", "http://169.254.169.254".to_owned()),
    ] {
        fleet.write(&fleet.east.joining().with(key, &value).secret(name)).await.unwrap();
        fleet.reaches(name, "Invalid").await;
        until("the event", LIMIT, async || {
            let events = fleet.events(name).await.unwrap();
            events.iter().any(|(reason, text)| reason == "ClusterInvalid" && text.contains(key))
        })
        .await;
    }
    assert_eq!(target.connections(), 0);
    let redirect = Canned {
        headers: format!("Location: https://127.0.0.1:{port}/\r\n"),
        ..Canned::html(302, "")
    };
    let impostor = Impostor::of(&fleet.east.cluster, redirect).await.unwrap();
    let secret = Joining::at(&fleet.east.cluster, impostor.port()).token("x").secret("redirects");
    fleet.write(&secret).await.unwrap();
    fleet.reaches("redirects", "Disconnected").await;
    assert!(impostor.requests() > 0);
    assert_eq!(target.connections(), 0);
}

/// Credentials of type Dynamic, from a command of the operator's directory, and nothing else.
#[tokio::test]
async fn a_command_of_the_operator_hands_out_credentials() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("dynamic").await.unwrap();
    let commands = fleet.hub.dir().join("commands");
    let write = |name: &str, script: String| {
        let path = commands.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let token = fleet.east.token();
    write(
        "issue",
        format!(
            "#!/bin/sh\necho '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"{token}\"}}}}'\n"
        ),
    );
    write("fails", "#!/bin/sh\nexit 3\n".to_owned());
    let secret = |command: &str| {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": command});
        fleet.east.joining().of_type("Dynamic").with("exec", &exec.to_string()).secret("east")
    };
    fleet.write(&secret("issue")).await.unwrap();
    space.apply(&space.application("a", &["east"], "1")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));
    space.delete("a").await;
    // The first is tried while the former credential works, the others have none to fall back on.
    for (command, state) in [
        ("fails", "Degraded"),
        ("/bin/sh", "Invalid"),
        ("fails", "CredentialRefused"),
        ("none", "CredentialRefused"),
    ] {
        fleet.write(&secret(command)).await.unwrap();
        fleet.reaches("east", state).await;
    }
}

/// I7: whatever happens to them, credentials and passwords are in nothing that anybody reads.
#[tokio::test]
async fn credentials_are_in_no_output() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("quiet").await.unwrap();
    let planted = "planted-secret-value";
    let joining = fleet.east.joining();
    for (name, secret) in [
        ("wrong-token", joining.clone().token(planted)),
        ("wrong-endpoint", joining.clone().with("endpoint", &format!("https://u:{planted}@x"))),
        ("wrong-scheme", joining.clone().with("endpoint", &format!("http://u:{planted}@x"))),
        ("wrong-proxy", joining.clone().with("proxy-url", &format!("x://u:{planted}@127.0.0.1:1"))),
        (
            "dead-proxy",
            joining.clone().with("proxy-url", &format!("http://u:{planted}@127.0.0.1:1")),
        ),
        ("wrong-exec", joining.clone().of_type("Dynamic").with("exec", &format!("{{\"{planted}"))),
        (
            "wrong-key",
            joining
                .clone()
                .of_type("X509Certificate")
                .with("tls.crt", planted)
                .with("tls.key", planted),
        ),
    ] {
        fleet.write(&secret.secret(name)).await.unwrap();
        until("its state", LIMIT, async || {
            !["", "Unknown", "Connected"].contains(&fleet.state(name).await.as_str())
        })
        .await;
        let app = space.application(name, &[name, "east"], "1");
        space.apply(&app).await.unwrap();
        until("the Application to say why", LIMIT, async || {
            space.app(name).await["status"].to_string().contains(name)
        })
        .await;
    }
    let events: Api<Event> = Api::all(fleet.client());
    let events = events.list(&ListParams::default()).await.unwrap();
    let apps = space.applications().list(&ListParams::default()).await.unwrap();
    let log = std::fs::read_to_string(fleet.deployed.controller.log()).unwrap();
    for (what, text) in [
        ("events", serde_json::to_string(&events.items).unwrap()),
        ("Applications", serde_json::to_string(&apps.items).unwrap()),
        ("metrics", fleet.metrics().await),
        ("log", log),
    ] {
        for secret in [planted, fleet.east.token(), fleet.west.token(), USER.1] {
            assert!(!text.contains(secret), "a credential is in the {what}");
        }
    }
    for app in apps.items {
        space.delete(app.metadata.name.as_deref().unwrap()).await;
    }
}
