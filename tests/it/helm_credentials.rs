//! Credentials for charts on the real control plane: every type of Secret that gives some, and what is refused of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings, USER};
use vela_tests::fixtures::{Space, until};

use super::helm::{LIMIT, data, server};

type Data<'d> = &'d [(&'d str, &'d str)];

async fn secret(space: &Space, name: &str, of: &str, data: Data<'_>) {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    let secret = json!({"metadata": {"name": name}, "type": of, "stringData": data});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    space.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
}

/// A component that fetches its chart with the Secret of its own name.
fn component(name: &str, mut chart: Value) -> Value {
    chart["version"] = json!("1.0.0");
    chart["auth"] = json!({"secretRef": {"name": name}});
    let properties = json!({"chart": chart, "release": {"name": name}});
    json!([{"name": name, "type": "helmchart", "properties": properties}])
}

fn repository(scheme: &str, server: &ChartServer) -> Value {
    json!({"source": "web", "repoURL": format!("{scheme}://{}/charts", server.address())})
}

fn registry(server: &ChartServer) -> Value {
    json!({"source": format!("oci://{}/oci/web", server.address())})
}

/// A key and a certificate of somebody, in PEM.
fn client_certificate() -> (String, String) {
    let pair = rcgen::generate_simple_self_signed(["reader".to_owned()]).unwrap();
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

#[tokio::test]
async fn every_type_of_secret_gives_credentials() {
    let space = Space::with_programs("helm-secrets").await;
    let plain = server(Settings { password: true, ..Settings::default() }).await;
    let tls = server(Settings { tls: true, password: true }).await;
    let open = server(Settings { tls: true, password: false }).await;
    let login = [("username", USER.0), ("password", USER.1)];
    let with = |more: Data<'static>| [&login[..], more].concat();
    let (own, key) = client_certificate();
    let (authority, other) = (tls.certificate().to_owned(), open.certificate().to_owned());
    let trusted = [&login[..], &[("ca.crt", authority.as_str())]].concat();
    let certificate =
        [("tls.crt", own.as_str()), ("tls.key", key.as_str()), ("ca.crt", other.as_str())];
    let cases: [(&str, &str, Data<'_>, Value); 6] = [
        ("basic", "kubernetes.io/basic-auth", &login, repository("http", &plain)),
        ("opaque", "Opaque", &login, repository("http", &plain)),
        ("authority", "Opaque", &trusted, repository("https", &tls)),
        ("skip", "Opaque", &with(&[("insecureSkipTLS", "true")]), repository("https", &tls)),
        ("registry", "Opaque", &with(&[("insecurePlainHTTP", "true")]), registry(&plain)),
        ("certificate", "kubernetes.io/tls", &certificate, repository("https", &open)),
    ];
    for (name, of, data, chart) in &cases {
        secret(&space, name, of, data).await;
        space.create(name, component(name, chart.clone())).await.unwrap();
    }
    for (name, ..) in &cases {
        space.running(name).await;
        let map = format!("{name}-map");
        assert_eq!(data(&space, &map, "greeting").await.as_deref(), Some("hello"), "{name}");
    }
}

#[tokio::test]
async fn a_secret_that_asks_for_something_dangerous_is_refused() {
    let space = Space::with_programs("helm-refused").await;
    let plain = server(Settings::default()).await;
    let tls = server(Settings { tls: true, password: false }).await;
    let wants = server(Settings { password: true, ..Settings::default() }).await;
    let login = [("username", USER.0), ("password", USER.1)];
    let token = [("token", "a-token-of-the-test")];
    let lax = [("token", "a-token-of-the-test"), ("insecureSkipTLS", "true")];
    let both = [&login[..], &token].concat();
    let elsewhere =
        json!({"auths": {"r.example.test": {"auth": BASE64.encode("a:b")}}}).to_string();
    let docker = [(".dockerconfigjson", elsewhere.as_str())];
    let docker_type = "kubernetes.io/dockerconfigjson";
    let cases: [(&str, &str, Data<'_>, Value, &str); 9] = [
        ("other", "example.test/x", &login, repository("http", &plain), "is none of"),
        (
            "half",
            "kubernetes.io/basic-auth",
            &[("username", "a")],
            repository("http", &plain),
            "is missing",
        ),
        (
            "colon",
            "Opaque",
            &[("username", "a:b"), ("password", "c")],
            repository("http", &plain),
            "has a colon",
        ),
        ("clear", "Opaque", &token, repository("http", &plain), "https only"),
        ("lax", "Opaque", &lax, repository("https", &tls), "not verified"),
        ("both", "Opaque", &both, repository("https", &tls), "both a token"),
        ("registry", "Opaque", &token, registry(&plain), "of no use for a registry"),
        ("docker", docker_type, &docker, registry(&plain), "has no entry for registry"),
        (
            "wrong",
            "Opaque",
            &[("username", USER.0), ("password", "guess")],
            repository("http", &wants),
            "HTTP 401",
        ),
    ];
    for (name, of, data, chart, _) in &cases {
        secret(&space, name, of, data).await;
        space.create(name, component(name, chart.clone())).await.unwrap();
    }
    for (name, .., text) in &cases {
        until(&format!("{name} to say {text:?}"), LIMIT, async || {
            let app = space.applications().get(name).await.unwrap();
            app.data["status"].to_string().contains(text)
        })
        .await;
        let app = space.applications().get(name).await.unwrap();
        let status = app.data["status"].to_string();
        let secrets = [USER.1, "guess", "a-token-of-the-test"];
        assert!(secrets.iter().all(|secret| !status.contains(secret)), "{status}");
    }
    assert_eq!(plain.requests(), [""; 0], "nothing is sent with credentials that are refused");
    assert_eq!(tls.requests(), [""; 0]);

    // A Secret of somebody else's namespace: refused before anything is stored.
    let mut foreign = component("foreign", repository("http", &plain));
    foreign[0]["properties"]["chart"]["auth"]["secretRef"]["namespace"] = json!("kube-system");
    let refused = space.create("foreign", foreign).await.unwrap_err().to_string();
    assert!(refused.contains("kube-system"), "{refused}");
}
