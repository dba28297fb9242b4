//! Credentials for charts on the real control plane: every type of Secret that gives some, and what is refused of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings, USER};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{Space, binaries, reaching_loopback, until};
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

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

/// Such a Secret can neither name an authority nor allow plain HTTP: the registry's certificate is one that the machine trusts.
#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_of_docker_gives_credentials_for_a_registry() {
    let registry = server(Settings { tls: true, password: true }).await;
    let trusted = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(trusted.path(), registry.certificate()).unwrap();
    let cluster = Cluster::start_lean("helm-docker").await.unwrap();
    let tenant = Tenant::new(&cluster, "team").await.unwrap();
    let trusted = ("SSL_CERT_FILE".to_owned(), trusted.path().to_string_lossy().into_owned());
    let options = Options { controller_env: vec![trusted], ..reaching_loopback() };
    let programs = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let admin = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;

    let encode = |user: &str, password: &str| BASE64.encode(format!("{user}:{password}"));
    let (known, guess) = (encode(USER.0, USER.1), encode(USER.0, "guess"));
    let host = registry.address();
    let auths = [
        ("encoded", json!({host: {"auth": known}, "r.example.test": {"auth": guess}})),
        ("plain", json!({host: {"username": USER.0, "password": USER.1}})),
        ("address", json!({format!("https://{host}/v2/"): {"auth": known}})),
        ("wrong", json!({host: {"auth": guess}})),
    ];
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "team");
    let apps = tenant.objects("Application");
    for (name, auths) in &auths {
        let config = json!({"auths": auths}).to_string();
        let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": config}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name}, "spec": {"components": component(name, self::registry(&registry))}});
        apps.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
    }
    let status = async |name: &str| apps.get(name).await.unwrap().data["status"].clone();
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "team");
    for name in ["encoded", "plain", "address"] {
        until(&format!("{name} to run"), LIMIT, async || status(name).await["status"] == "running")
            .await;
        let map = maps.get(&format!("{name}-map")).await.unwrap();
        assert_eq!(map.data.unwrap()["greeting"], "hello", "{name}");
    }
    until("the refusal", LIMIT, async || status("wrong").await.to_string().contains("HTTP 401"))
        .await;
    assert!(maps.get_opt("wrong-map").await.unwrap().is_none());
    let shown = status("wrong").await.to_string();
    assert!(!shown.contains("guess") && !shown.contains(&guess), "{shown}");
    programs.admission.close(&cluster).await.unwrap();
    cluster.stop();
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
