//! A proxy between a program and the API server that reads the requests, counts the writes about a namespace, and ends
//! the program at one of them: before it is sent, or after it was committed and before its answer is read. It can also be an
//! API server that is overloaded, away or slow, or whose answers are lost.
//!
//! Answers pass as bytes. A client of HTTP/1.1 sends a request when it has read the last answer, so the next byte from
//! the server after a request belongs to the answer of that request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::cluster::Cluster;

/// When the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Before its n-th write (counted from 1) is sent.
    Before(usize),
    /// After it was committed; the answer never arrives.
    After(usize),
    /// It does not end, but its n-th write is held.
    Hold(usize),
}

/// What happens to requests, leases aside, whoever they are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Every n-th is refused with a code, and with `Retry-After` in seconds.
    Refused { code: u16, retry_after: Option<u32>, every: usize },
    /// Each is held for so long before it is sent.
    Slow(Duration),
    /// Every n-th write is carried out, and its connection ends before the answer.
    AnswerLost { every: usize },
    /// Lists of whole resources, those of one owner aside, are held until something else is asked for.
    ListsHeld(&'static [&'static str]),
}

#[derive(Debug, Default)]
struct Disturbed {
    kind: Option<Disturbance>,
    /// Requests that it may happen to.
    seen: usize,
    /// Those it happened to.
    count: usize,
}

/// What is counted about a namespace.
#[derive(Debug, Default)]
struct Counted {
    writes: Vec<String>,
    fault: Option<Fault>,
    died: bool,
}

struct State {
    port: u16,
    server: u16,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    /// By namespace.
    counted: Mutex<BTreeMap<String, Counted>>,
    disturbed: Mutex<Disturbed>,
    /// What is disturbed became different.
    changes: watch::Sender<()>,
    kill: Box<dyn Fn() + Send + Sync>,
}

/// The proxy. It ends when this value is dropped.
pub struct Gate {
    state: Arc<State>,
    _accept: JoinSet<()>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Gate").field(&self.state.port).finish()
    }
}

impl Gate {
    /// A gate before a cluster's API server. `kill` ends the program and returns when it has ended.
    ///
    /// # Errors
    /// When no port is free or the cluster's authority signs nothing.
    pub async fn start(cluster: &Cluster, kill: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let server = cluster.server().rsplit(':').next().and_then(|port| port.parse().ok());
        let server = server.context("the API server's address has no port")?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let leaf = cluster.authority().server("gate", &["localhost"])?;
        let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes())?;
        let towards_client = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(cluster.authority().certificate().as_bytes())?)?;
        let towards_server = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let state = Arc::new(State {
            port: listener.local_addr()?.port(),
            server,
            acceptor: TlsAcceptor::from(Arc::new(towards_client)),
            connector: TlsConnector::from(Arc::new(towards_server)),
            counted: Mutex::default(),
            disturbed: Mutex::default(),
            changes: watch::Sender::new(()),
            kill: Box::new(kill),
        });
        let mut accept = JoinSet::new();
        let shared = Arc::clone(&state);
        accept.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    // A connection that breaks is what this is about.
                    let _ = serve(&state, client).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { state, _accept: accept })
    }

    /// A kubeconfig that leads through the gate, derived from one that leads to the API server.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn kubeconfig(&self, cluster: &Cluster, direct: &Path) -> Result<PathBuf> {
        cluster.kubeconfig_through(direct, self.state.port)
    }

    /// Counts the writes about a namespace from now on; the program ends at `fault`, once.
    pub fn count(&self, namespace: &str, fault: Option<Fault>) {
        let counted = Counted { fault, ..Counted::default() };
        self.state.counted.lock().insert(namespace.to_owned(), counted);
    }

    /// From now on requests are disturbed, or pass again.
    pub fn disturb(&self, kind: Option<Disturbance>) {
        *self.state.disturbed.lock() = Disturbed { kind, ..Disturbed::default() };
        self.state.changes.send_replace(());
    }

    /// How many requests were disturbed since that was asked for.
    #[must_use]
    pub fn disturbed(&self) -> usize {
        self.state.disturbed.lock().count
    }

    /// The writes about a namespace, in order.
    #[must_use]
    pub fn writes(&self, namespace: &str) -> Vec<String> {
        let counted = self.state.counted.lock();
        counted.get(namespace).map(|counted| counted.writes.clone()).unwrap_or_default()
    }

    /// Whether the program ended at a write about a namespace.
    #[must_use]
    pub fn died(&self, namespace: &str) -> bool {
        self.state.counted.lock().get(namespace).is_some_and(|counted| counted.died)
    }
}

/// For longer than any test takes.
const PAUSED: Duration = Duration::from_secs(3600);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    Refuse { code: u16, retry_after: Option<u32> },
    Hold(Duration),
    HoldWhileDisturbed,
    LoseAnswer,
    DieBefore,
    DieAfter,
}

impl State {
    /// Counts a request.
    fn judge(&self, request: &Request) -> Fate {
        let disturbed = self.disturb(request);
        if disturbed != Fate::Pass || !request.is_write() {
            return disturbed;
        }
        let mut counted = self.counted.lock();
        let mut fate = Fate::Pass;
        for (namespace, counted) in counted.iter_mut() {
            if !request.is_about(namespace) {
                continue;
            }
            counted.writes.push(request.line());
            let count = counted.writes.len();
            if counted.died {
                continue;
            }
            fate = match counted.fault {
                Some(Fault::Before(at)) if at == count => Fate::DieBefore,
                Some(Fault::After(at)) if at == count => Fate::DieAfter,
                Some(Fault::Hold(at)) if at == count => return Fate::Hold(PAUSED),
                _ => continue,
            };
            counted.died = true;
        }
        fate
    }
}

impl State {
    fn disturb(&self, request: &Request) -> Fate {
        let mut state = self.disturbed.lock();
        let Some(kind) = state.kind.filter(|_| !request.target.contains("/leases")) else {
            return Fate::Pass;
        };
        let (every, fate) = match kind {
            Disturbance::Refused { code, retry_after, every } => {
                (every, Fate::Refuse { code, retry_after })
            }
            Disturbance::Slow(time) => (1, Fate::Hold(time)),
            Disturbance::AnswerLost { .. } if !request.is_write() => return Fate::Pass,
            Disturbance::AnswerLost { every } => (every, Fate::LoseAnswer),
            Disturbance::ListsHeld(resources) if request.lists_all_of(resources) => {
                (1, Fate::HoldWhileDisturbed)
            }
            Disturbance::ListsHeld(_) => return Fate::Pass,
        };
        state.seen += 1;
        if !state.seen.is_multiple_of(every) {
            return Fate::Pass;
        }
        state.count += 1;
        fate
    }
}

/// An answer as the API server gives it.
fn refusal(code: u16, retry_after: Option<u32>) -> String {
    let reason = if code == 429 { "TooManyRequests" } else { "ServiceUnavailable" };
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the gate refuses this", "reason": reason, "code": code});
    let body = body.to_string();
    let after = retry_after.map(|after| format!("Retry-After: {after}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\n{after}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A request as it came.
struct Request {
    method: String,
    target: String,
    bytes: Vec<u8>,
}

impl Request {
    fn is_write(&self) -> bool {
        const NOT_COUNTED: [&str; 3] = ["/events", "/leases", "/apis/authorization.k8s.io/"];
        self.method != "GET"
            && !self.target.contains("dryRun=")
            && !NOT_COUNTED.iter().any(|part| self.target.contains(part))
    }

    fn is_about(&self, namespace: &str) -> bool {
        self.bytes.windows(namespace.len()).any(|part| part == namespace.as_bytes())
    }

    /// Whether it lists one of some resources in all namespaces, and not what belongs to one owner.
    fn lists_all_of(&self, resources: &[&str]) -> bool {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let resource = path.rsplit('/').next().unwrap_or_default();
        self.method == "GET"
            && !path.contains("/namespaces/")
            && (!query.contains("watch=") || query.contains("sendInitialEvents=true"))
            && !query.contains("%3D")
            && resources.contains(&resource)
    }

    fn line(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{} {path}", self.method)
    }

    /// The next request of a connection; `None` at its end.
    async fn read(
        stream: &mut (impl AsyncRead + Unpin),
        rest: &mut Vec<u8>,
    ) -> Result<Option<Self>> {
        let head = loop {
            if let Some(end) = rest.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(rest).await? == 0 {
                return Ok(None);
            }
        };
        let text = std::str::from_utf8(rest.get(..head).unwrap_or_default())?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let method = first.next().unwrap_or_default().to_owned();
        let target = first.next().context("not a request")?.to_owned();
        let mut length = 0;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<usize>()?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                bail!("a request of unknown length");
            }
        }
        while rest.len() < head + length {
            if stream.read_buf(rest).await? == 0 {
                return Ok(None);
            }
        }
        let after = rest.split_off(head + length);
        Ok(Some(Self { method, target, bytes: std::mem::replace(rest, after) }))
    }
}

async fn serve(state: &State, client: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    let client = state.acceptor.accept(client).await?;
    let server = TcpStream::connect(("127.0.0.1", state.server)).await?;
    server.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    let server = state.connector.connect(name, server).await?;
    let (mut from_client, to_client) = tokio::io::split(client);
    // An answer of ours never meets one of the server: a client asks again when it was answered.
    let to_client = tokio::sync::Mutex::new(to_client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (dies, loses) = (AtomicBool::new(false), AtomicBool::new(false));
    let requests = async {
        let mut rest = Vec::new();
        while let Some(request) = Request::read(&mut from_client, &mut rest).await? {
            match state.judge(&request) {
                Fate::Pass => {}
                Fate::Refuse { code, retry_after } => {
                    let mut client = to_client.lock().await;
                    client.write_all(refusal(code, retry_after).as_bytes()).await?;
                    client.flush().await?;
                    continue;
                }
                Fate::Hold(time) => tokio::time::sleep(time).await,
                // The next change of what is disturbed lets it pass.
                Fate::HoldWhileDisturbed => {
                    let _ = state.changes.subscribe().changed().await;
                }
                Fate::LoseAnswer => loses.store(true, Ordering::SeqCst),
                Fate::DieAfter => dies.store(true, Ordering::SeqCst),
                Fate::DieBefore => {
                    (state.kill)();
                    break;
                }
            }
            to_server.write_all(&request.bytes).await?;
            to_server.flush().await?;
        }
        anyhow::Ok(())
    };
    let answers = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = from_server.read(&mut buffer).await?;
            if dies.load(Ordering::SeqCst) {
                (state.kill)();
                break;
            }
            if loses.load(Ordering::SeqCst) {
                break;
            }
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            let mut client = to_client.lock().await;
            client.write_all(bytes).await?;
            client.flush().await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_are_distinguished() {
        let bytes = b"GET /api/v1/namespaces/n-1/events?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n\
            POST /api/v1/namespaces/n-1/configmaps?&dryRun=All HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}\
            POST /apis/core.oam.dev/v1beta1/resourcetrackers HTTP/1.1\r\ncontent-length: 11\r\n\r\n{\"a\":\"n-1\"}\
            PATCH /api/v1/namespaces/n-1/events/e HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
        let (mut stream, mut rest) = (&bytes[..], Vec::new());
        let mut seen = Vec::new();
        while let Some(request) = Request::read(&mut stream, &mut rest).await.unwrap() {
            seen.push((request.line(), request.is_write(), request.is_about("n-1")));
        }
        let line = |text: &str| text.to_owned();
        assert_eq!(
            seen,
            [
                (line("GET /api/v1/namespaces/n-1/events"), false, true),
                (line("POST /api/v1/namespaces/n-1/configmaps"), false, true),
                (line("POST /apis/core.oam.dev/v1beta1/resourcetrackers"), true, true),
                (line("PATCH /api/v1/namespaces/n-1/events/e"), false, true),
            ]
        );
    }
}
