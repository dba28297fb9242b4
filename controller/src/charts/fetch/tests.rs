//! Fetching from servers on loopback.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::super::server::{Answer, Server, rules};
use super::*;

const ARCHIVE: &[u8] = b"an archive";

fn sha(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn yes(body: impl Into<Vec<u8>>) -> Answer {
    (200, Vec::new(), body.into())
}

fn no(status: u16) -> Answer {
    (status, Vec::new(), b"an answer that nobody may see".to_vec())
}

fn to(url: String) -> Answer {
    (302, vec![("location", url)], Vec::new())
}

fn wanted(source: &str, repo: Option<&str>, version: &str, secret: Option<&Value>) -> Wanted {
    let source = Source::read(source, repo).unwrap();
    let credentials = secret.map(|secret| Credentials::read(secret, &source).unwrap());
    Wanted { source, version: version.into(), credentials }
}

fn secret(data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), BASE64.encode(text).into())).collect();
    json!({"type": "Opaque", "data": data})
}

fn user() -> Value {
    secret(&[("username", "u"), ("password", "p")])
}

async fn fetch_one(wanted: &Wanted) -> Outcome {
    Fetcher::new(rules()).fetch(wanted, Freshness::default()).await
}

#[tokio::test]
async fn a_chart_of_a_repository() {
    let server = Server::start(false, |_, asked| match asked.path.as_str() {
        "/stable/index.yaml" => yes(format!(
            "entries:\n  web:\n  - version: 1.0.0\n    urls: [charts/web-1.0.0.tgz]\n    digest: {}\n  - {{version: 1.1.0, urls: [/elsewhere.tgz], digest: '00'}}\n",
            sha(ARCHIVE)
        )),
        "/stable/charts/web-1.0.0.tgz" | "/elsewhere.tgz" => yes(ARCHIVE),
        _ => no(404),
    })
    .await;
    let repo = format!("http://{}/stable/", server.address);
    let found = fetch_one(&wanted("web", Some(&repo), "~1.0", Some(&user()))).await.unwrap();
    assert_eq!((found.version.as_str(), found.digest), ("1.0.0", sha(ARCHIVE)));
    let sent = server.authorizations("/stable/charts/web-1.0.0.tgz");
    assert_eq!(sent, [format!("Basic {}", BASE64.encode("u:p"))]);
    let lied = fetch_one(&wanted("web", Some(&repo), "", None)).await.unwrap_err();
    assert!(matches!(lied, FetchError::Digest { .. }), "{lied}");
    for (chart, version) in [("none", ""), ("web", "2.x")] {
        let missing = fetch_one(&wanted(chart, Some(&repo), version, None)).await.unwrap_err();
        assert!(missing.to_string().contains("not found"), "{missing}");
    }
    let other = wanted("web", Some(&format!("http://{}/other", server.address)), "", None);
    let text = fetch_one(&other).await.unwrap_err().to_string();
    assert!(text.contains("404") && !text.contains("nobody"), "{text}");
}

#[tokio::test]
async fn credentials_stay_with_the_origin_they_are_for() {
    let other = Server::start(false, |_, _| yes(ARCHIVE)).await;
    let elsewhere = format!("http://{}/web.tgz", other.address);
    let server = Server::start(false, {
        let elsewhere = elsewhere.clone();
        move |_, asked| match asked.path.as_str() {
            "/index.yaml" => {
                yes(format!("entries: {{web: [{{version: 1.0.0, urls: ['{elsewhere}']}}]}}"))
            }
            "/moved.tgz" => to(elsewhere.clone()),
            _ => no(404),
        }
    })
    .await;
    let home = format!("http://{}", server.address);
    let user = user();
    fetch_one(&wanted("web", Some(&home), "", Some(&user))).await.unwrap();
    fetch_one(&wanted(&format!("{home}/moved.tgz"), None, "", Some(&user))).await.unwrap();
    assert_eq!(other.authorizations("/web.tgz"), ["", ""]);
    assert!(server.authorizations("/moved.tgz")[0].starts_with("Basic "));
}

#[tokio::test]
async fn redirects_end_and_lead_nowhere_closed() {
    let server = Server::start(false, |own, asked| match asked.path.as_str() {
        "/round.tgz" => to(format!("http://{own}/round.tgz")),
        "/metadata.tgz" => to("http://169.254.169.254/latest".to_owned()),
        "/file.tgz" => to("file:///etc/passwd".to_owned()),
        _ => no(404),
    })
    .await;
    let text = async |path: &str| {
        let url = format!("http://{}{path}", server.address);
        fetch_one(&wanted(&url, None, "", None)).await.unwrap_err().to_string()
    };
    assert!(text("/round.tgz").await.contains("more than 5 redirects"));
    assert!(text("/metadata.tgz").await.contains("not allowed to reach 169.254.169.254"));
    assert!(text("/file.tgz").await.contains("file:///etc/passwd"));
    assert_eq!(server.authorizations("/round.tgz").len(), 6);
}

#[tokio::test]
async fn certificates_are_verified_with_the_authority_of_the_secret() {
    let server = Server::start(true, |_, asked| match asked.path.as_str() {
        "/a.tgz" => yes(ARCHIVE),
        "/down.tgz" => to(format!("http://{}/a.tgz", "127.0.0.1:1")),
        _ => no(404),
    })
    .await;
    let url = format!("https://{}/a.tgz", server.address);
    let known = secret(&[("ca.crt", &server.certificate)]);
    assert_eq!(
        fetch_one(&wanted(&url, None, "", Some(&known))).await.unwrap().digest,
        sha(ARCHIVE)
    );
    let skips = secret(&[("insecureSkipTLS", "true")]);
    assert!(fetch_one(&wanted(&url, None, "", Some(&skips))).await.is_ok());
    assert!(fetch_one(&wanted(&url, None, "", Some(&user()))).await.is_err());
    let down = format!("https://{}/down.tgz", server.address);
    let error = fetch_one(&wanted(&down, None, "", Some(&known))).await.unwrap_err();
    assert!(matches!(error, FetchError::PlainHttp(_)), "{error}");
}

#[tokio::test]
async fn plain_http_and_foreign_repositories_can_be_closed() {
    let server = Server::start(false, |_, _| yes(ARCHIVE)).await;
    let url = format!("http://{}/a.tgz", server.address);
    let one = wanted(&url, None, "", None);
    let closed = Fetcher::new(Rules { plain_http: false, ..rules() });
    let error = closed.fetch(&one, Freshness::default()).await.unwrap_err();
    assert!(matches!(error, FetchError::PlainHttp(_)));
    let elsewhere =
        Fetcher::new(Rules { allowed: vec!["https://charts.example/".to_owned()], ..rules() });
    let error = elsewhere.fetch(&one, Freshness::default()).await.unwrap_err();
    assert!(error.to_string().contains("--helm-repositories"));
    assert!(server.asked.lock().is_empty());
}

#[tokio::test]
async fn what_is_too_large() {
    let server = Server::start(false, |_, _| yes(vec![0; MAX_ARCHIVE + 1])).await;
    let url = format!("http://{}/a.tgz", server.address);
    let error = fetch_one(&wanted(&url, None, "", None)).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { most: MAX_ARCHIVE, .. }), "{error}");
}

#[tokio::test]
async fn who_wants_the_same_waits_for_the_same_and_failures_are_remembered() {
    let server = Server::start(false, |_, asked| match asked.path.as_str() {
        "/a.tgz" => yes(ARCHIVE),
        _ => no(500),
    })
    .await;
    let fetcher = Fetcher::new(rules());
    let one = wanted(&format!("http://{}/a.tgz", server.address), None, "1.0.0", None);
    let all: Vec<_> = (0..20).map(|_| fetcher.fetch(&one, Freshness::default())).collect();
    let all = futures::future::join_all(all).await;
    assert!(all.iter().all(|it| it.as_ref().unwrap().digest == sha(ARCHIVE)));
    fetcher.fetch(&one, Freshness::default()).await.unwrap();
    let bad = wanted(&format!("http://{}/b.tgz", server.address), None, "", None);
    for _ in 0..3 {
        fetcher.fetch(&bad, Freshness::default()).await.unwrap_err();
    }
    let asked: Vec<String> = server.asked.lock().iter().map(|it| it.path.clone()).collect();
    assert_eq!(asked, ["/a.tgz", "/b.tgz"]);
    assert!(fetcher.cached(&sha(ARCHIVE)).is_some() && fetcher.flights.lock().is_empty());
}

fn manifest(layer: &str, config: &str) -> Vec<u8> {
    let text = json!({
        "schemaVersion": 2,
        "config": {"mediaType": config, "digest": "sha256:00"},
        "layers": [
            {"mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov", "digest": "sha256:11"},
            {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": layer},
        ],
    });
    text.to_string().into_bytes()
}

/// A registry that wants a token of its own service for user and password.
async fn registry() -> Server {
    Server::start(true, |own, asked| {
        let layer = format!("sha256:{}", sha(ARCHIVE));
        let path = asked.path.split('?').next().unwrap_or_default();
        if path == "/token" {
            let known = asked.authorization == format!("Basic {}", BASE64.encode("u:p"));
            let scoped = asked.path.contains("scope=repository%3Acharts%2Fweb%3Apull");
            return if known && scoped { yes(r#"{"token":"t1"}"#) } else { no(401) };
        }
        if path == "/cdn" {
            return yes(ARCHIVE);
        }
        if asked.authorization != "Bearer t1" {
            let challenge = format!("Bearer realm=\"https://{own}/token\",service=\"r\"");
            return (401, vec![("www-authenticate", challenge)], Vec::new());
        }
        match path.strip_prefix("/v2/charts/web/") {
            Some("tags/list") if asked.path.contains("last=") => {
                yes(r#"{"tags":["1.3.0_b","2.0.0-rc.1"]}"#)
            }
            Some("tags/list") => {
                let next = "</v2/charts/web/tags/list?n=1000&last=x>; rel=\"next\"".to_owned();
                (200, vec![("link", next)], br#"{"tags":["1.2.0","sha256-ab.sig"]}"#.to_vec())
            }
            Some("manifests/1.2.0" | "manifests/1.3.0_b") => {
                yes(manifest(&layer, "application/vnd.cncf.helm.config.v1+json"))
            }
            Some("manifests/0.0.1") => {
                yes(manifest(&layer, "application/vnd.oci.image.config.v1+json"))
            }
            Some("manifests/0.0.2") => {
                let other = format!("sha256:{}", sha(b"other"));
                yes(manifest(&other, "application/vnd.cncf.helm.config.v1+json"))
            }
            Some(other) if other == format!("blobs/{layer}") => to(format!("https://{own}/cdn")),
            Some(other) if other == format!("blobs/sha256:{}", sha(b"other")) => yes(ARCHIVE),
            Some(other) if other.starts_with("manifests/sha256:") => {
                yes(manifest(&layer, "application/vnd.cncf.helm.config.v1+json"))
            }
            _ => no(404),
        }
    })
    .await
}

#[tokio::test]
async fn a_chart_of_a_registry() {
    let server = registry().await;
    let reference = format!("oci://{}/charts/web", server.address);
    let own = secret(&[("username", "u"), ("password", "p"), ("ca.crt", &server.certificate)]);
    let pull = async |reference: &str, version: &str| {
        fetch_one(&wanted(reference, None, version, Some(&own))).await
    };
    for (version, found) in [
        ("1.2.0", "1.2.0"),
        ("", "1.3.0+b"),
        ("latest", "1.3.0+b"),
        ("~1.2", "1.2.0"),
        ("1.3.0+b", "1.3.0+b"),
    ] {
        let archive = pull(&reference, version).await.unwrap();
        assert_eq!((archive.version.as_str(), &*archive.bytes), (found, ARCHIVE), "{version}");
    }
    assert_eq!(pull(&format!("{reference}:1.2.0"), "").await.unwrap().version, "1.2.0");
    let text =
        manifest(&format!("sha256:{}", sha(ARCHIVE)), "application/vnd.cncf.helm.config.v1+json");
    let by_digest = format!("{reference}@sha256:{}", sha(&text));
    assert!(pull(&by_digest, "").await.is_ok());
    let lied = pull(&format!("{reference}@sha256:{}", "0".repeat(64)), "").await.unwrap_err();
    assert!(matches!(lied, FetchError::Digest { .. }), "{lied}");
    for (version, text) in [
        ("0.0.1", "is not a chart"),
        ("0.0.2", "digest"),
        ("9.9.9", "HTTP 404"),
        ("^3", "not found"),
        ("some thing", "improper constraint"),
    ] {
        let error = pull(&reference, version).await.unwrap_err().to_string();
        assert!(error.contains(text) && !error.contains("nobody"), "{error}");
    }
    let other = secret(&[("username", "u"), ("password", "x"), ("ca.crt", &server.certificate)]);
    let refused = fetch_one(&wanted(&reference, None, "1.2.0", Some(&other))).await.unwrap_err();
    assert!(refused.to_string().contains("HTTP 401"), "{refused}");
}
