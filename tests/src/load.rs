//! Reviews sent to an admission server as an API server sends them: HTTP/1.1 over TLS, the
//! certificate checked, connections kept. One at a time for tests, many at once for measuring.
//!
//! Written on the socket so that the generator costs little compared with what it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where Applications are validated.
pub const VALIDATE: &str = "/validating-core-oam-dev-v1beta1-applications";
/// Where Applications are changed.
pub const MUTATE: &str = "/mutating-core-oam-dev-v1beta1-applications";
/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server on loopback and the authority that signs its certificate.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    connector: TlsConnector,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Target").field(&self.address).finish()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// As it came.
    pub body: Vec<u8>,
    /// The server closes the connection after it.
    pub is_last: bool,
}

impl Answer {
    /// The review's response; null if there is none.
    #[must_use]
    pub fn response(&self) -> Value {
        let review: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        review.get("response").cloned().unwrap_or_default()
    }

    /// Whether the review admits.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.status == 200 && self.response().get("allowed") == Some(&Value::Bool(true))
    }
}

impl Target {
    /// A server at `https://127.0.0.1:PORT`.
    ///
    /// # Errors
    /// When the URL or the authority's certificate cannot be read.
    pub fn new(url: &str, authority: &str) -> Result<Self> {
        let address = url.strip_prefix("https://").context("not an https URL")?.parse()?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Nor does an API server resume sessions; one that is resumed continues with the certificate of its first handshake.
        config.resumption = Resumption::disabled();
        Ok(Self { address, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The TCP address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    ///
    /// # Errors
    /// When nobody listens or the certificate is not right.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.connector.connect(name, stream).await?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096) })
    }

    /// One request on a connection of its own.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(&self, path: &str, body: &[u8]) -> Result<Answer> {
        self.connect().await?.post(path, body).await
    }

    /// Sends the same request from this many clients for some time, each on its own connection.
    pub async fn load(&self, path: &str, body: &[u8], clients: usize, time: Duration) -> Report {
        let request: Arc<[u8]> = request(path, body).into();
        let start = Instant::now();
        let end = start + time;
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (target, request) = (self.clone(), Arc::clone(&request));
            tasks.spawn(async move { target.client(&request, end).await });
        }
        let mut report = Report::default();
        while let Some(one) = tasks.join_next().await {
            match one {
                Ok(one) => {
                    report.latencies.extend(one.latencies);
                    report.errors += one.errors;
                    report.first_error = report.first_error.or(one.first_error);
                }
                Err(error) => report.first_error = Some(error.to_string()),
            }
        }
        report.elapsed = start.elapsed();
        report.latencies.sort_unstable();
        report
    }

    async fn client(&self, request: &[u8], end: Instant) -> Report {
        let mut report = Report::default();
        let mut connection = None;
        while Instant::now() < end {
            let start = Instant::now();
            let outcome = tokio::time::timeout(TIMEOUT, async {
                let open = match connection.take() {
                    Some(open) => connection.insert(open),
                    None => connection.insert(self.connect().await?),
                };
                open.send(request).await?;
                open.receive().await
            });
            let error = match outcome.await {
                Ok(Ok(answer)) if answer.is_plainly_admitted() => {
                    report.latencies.push(start.elapsed());
                    if answer.is_last {
                        connection = None;
                    }
                    continue;
                }
                Ok(Ok(answer)) => String::from_utf8_lossy(&answer.body).into_owned(),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer in time".to_owned(),
            };
            connection = None;
            report.errors += 1;
            report.first_error.get_or_insert(error);
        }
        report
    }
}

impl Answer {
    /// Without parsing: for load.
    fn is_plainly_admitted(&self) -> bool {
        const ADMITTED: &[u8] = br#""allowed":true"#;
        self.status == 200 && self.body.windows(ADMITTED.len()).any(|part| part == ADMITTED)
    }
}

/// A kept connection.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// One request and its answer.
    ///
    /// # Errors
    /// When the connection ends or what comes is not HTTP.
    pub async fn post(&mut self, path: &str, body: &[u8]) -> Result<Answer> {
        self.send(&request(path, body)).await?;
        self.receive().await
    }

    /// The certificate the server showed.
    #[must_use]
    pub fn certificate(&self) -> Vec<u8> {
        let chain = self.stream.get_ref().1.peer_certificates();
        chain.and_then(<[_]>::first).map(|leaf| leaf.to_vec()).unwrap_or_default()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// When the connection ends or what comes is not HTTP.
    pub async fn receive(&mut self) -> Result<Answer> {
        loop {
            if let Some(end) = position(&self.buffer, b"\r\n\r\n") {
                let (status, length, is_last) = head(self.buffer.get(..end).unwrap_or_default())?;
                let whole = end + 4 + length;
                while self.buffer.len() < whole {
                    self.more().await?;
                }
                let rest = self.buffer.split_off(whole);
                let body = self.buffer.split_off(end + 4);
                self.buffer = rest;
                return Ok(Answer { status, body, is_last });
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection was closed after {} bytes of an answer", self.buffer.len());
        }
        Ok(())
    }
}

/// What came of a load.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Of admitted reviews, sorted.
    pub latencies: Vec<Duration>,
    /// Reviews without an answer, or denied.
    pub errors: usize,
    /// What the first of them said.
    pub first_error: Option<String>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

impl Report {
    /// Answers a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// The latency that this percentage of answers did not exceed, in milliseconds.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * percent / 100).map_or(f64::NAN, |d| d.as_secs_f64() * 1000.0)
    }
}

/// A POST of JSON.
#[must_use]
pub fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// Status, length of the body, and whether the connection ends.
fn head(head: &[u8]) -> Result<(u16, usize, bool)> {
    let head = std::str::from_utf8(head).context("not HTTP")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let header = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let length = header("content-length").and_then(|value| value.parse().ok());
    let is_last = header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let status = status.context("not an HTTP answer")?;
    Ok((status, length.context("an answer without a length")?, is_last))
}

fn position(bytes: &[u8], of: &[u8]) -> Option<usize> {
    bytes.windows(of.len()).position(|part| part == of)
}

/// The review of a new Application.
#[must_use]
pub fn review(namespace: &str, components: &Value) -> Value {
    let name = |key: &str, value: &str| json!({ "group": "core.oam.dev", "version": "v1beta1", key: value });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0b1c2d3e-0000-4000-8000-000000000002",
            "kind": name("kind", "Application"),
            "resource": name("resource", "applications"),
            "requestKind": name("kind", "Application"),
            "requestResource": name("resource", "applications"),
            "name": "load",
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": { "username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"] },
            "object": {
                "apiVersion": "core.oam.dev/v1beta1",
                "kind": "Application",
                "metadata": { "name": "load", "namespace": namespace },
                "spec": { "components": components },
            },
            "oldObject": null,
            "dryRun": false,
            "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" },
        },
    })
}

/// Components of the built-in types, two traits each.
#[must_use]
pub fn components(count: usize) -> Value {
    let one = |k: usize| {
        json!({
            "name": format!("web-{k}"),
            "type": "webservice",
            "properties": {
                "image": "nginx:1.27",
                "ports": [{ "port": 80, "expose": true }],
                "cpu": "100m",
                "memory": "64Mi",
                "env": [{ "name": "A", "value": "b" }],
                "labels": { "team": "bench" },
            },
            "traits": [
                { "type": "scaler", "properties": { "replicas": 1 } },
                { "type": "gateway", "properties": {
                    "domain": format!("web-{k}.example.com"), "http": { "/": 80 }, "class": "nginx",
                } },
            ],
        })
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\nContent-Length: 12";
        assert_eq!(head(text).unwrap(), (200, 12, false));
        let text = b"HTTP/1.1 200 OK\r\nconnection: close\r\nContent-Length: 12";
        assert_eq!(head(text).unwrap(), (200, 12, true));
        assert!(head(b"HTTP/1.1 200 OK").is_err());
        assert!(head(b"hello").is_err());
    }

    #[test]
    fn percentiles() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let report = Report { latencies, ..Report::default() };
        assert!((report.percentile(50) - 50.0).abs() < 1e-9);
        assert!((report.percentile(99) - 99.0).abs() < 1e-9);
        assert!(Report::default().percentile(50).is_nan());
    }
}
