//! A chart repository and an OCI registry on loopback, plain or with TLS, with or without a password: what tests fetch charts
//! from.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The address under which the examples of the documentation name their chart repository.
pub const EXAMPLE: &str = "127.0.0.1:8879";

/// User and password of servers that want them.
pub const USER: (&str, &str) = ("reader", "s3cret");

/// How a server answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// HTTPS instead of HTTP.
    pub tls: bool,
    /// Only to [`USER`].
    pub password: bool,
}

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct ChartServer {
    address: String,
    certificate: String,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Archives by name and version.
    charts: BTreeMap<(String, String), Vec<u8>>,
    /// What is answered at other paths.
    others: BTreeMap<String, Reply>,
    requests: Vec<String>,
    fails: bool,
}

/// An answer that no repository should give, or only sometimes does.
#[derive(Debug, Clone)]
pub enum Reply {
    /// These bytes.
    Body(Vec<u8>),
    /// A redirect.
    Redirect(String),
    /// Bytes without an end.
    Endless,
}

impl Drop for ChartServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ChartServer {
    /// Starts a server without charts.
    ///
    /// # Errors
    /// When no port is free or no certificate can be made.
    pub async fn start(settings: Settings) -> Result<Self> {
        Self::on(TcpListener::bind("127.0.0.1:0").await?, settings)
    }

    fn on(listener: TcpListener, settings: Settings) -> Result<Self> {
        let address = listener.local_addr()?.to_string();
        let (mut certificate, mut tls) = (String::new(), None);
        if settings.tls {
            let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
            certificate = pair.cert.pem();
            let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(vec![pair.cert.der().clone()], key.into())?;
            tls = Some(TlsAcceptor::from(Arc::new(config)));
        }
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    let answered = match tls {
                        None => serve(stream, &state, settings.password).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &state, settings.password).await,
                            Err(error) => Err(error),
                        },
                    };
                    // Who asked is gone.
                    drop(answered);
                });
            }
        });
        Ok(Self { address, certificate, state, task })
    }

    /// Starts a server with the charts of docs/examples, which name it as [`EXAMPLE`].
    ///
    /// # Errors
    /// As [`ChartServer::start`], and when a chart cannot be read.
    pub async fn of_examples() -> Result<Self> {
        Self::start(Settings::default()).await?.with_examples()
    }

    /// The same at [`EXAMPLE`] itself, so that the examples can be applied as they are; at another address if that is taken.
    ///
    /// # Errors
    /// As [`ChartServer::of_examples`].
    pub async fn of_examples_as_written() -> Result<Self> {
        match TcpListener::bind(EXAMPLE).await {
            Ok(listener) => Self::on(listener, Settings::default())?.with_examples(),
            Err(_) => Self::of_examples().await,
        }
    }

    fn with_examples(self) -> Result<Self> {
        let root = crate::material::workspace().join("docs/examples/charts/hello");
        let mut files = Vec::new();
        for path in ["values.yaml", "templates"] {
            let path = root.join(path);
            if path.is_dir() {
                for entry in std::fs::read_dir(&path)? {
                    files.push(entry?.path());
                }
            } else {
                files.push(path);
            }
        }
        files.sort();
        let mut texts = Vec::new();
        for file in files {
            let name = file.strip_prefix(&root)?.to_string_lossy().into_owned();
            texts.push((name, std::fs::read_to_string(&file)?));
        }
        let metadata = std::fs::read_to_string(root.join("Chart.yaml"))?;
        let texts = std::iter::once(("Chart.yaml".to_owned(), metadata)).chain(texts);
        let texts: Vec<(String, String)> = texts.collect();
        let all = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let packed = archive("hello", all)?;
        self.state.lock().charts.insert(("hello".to_owned(), "1.2.0".to_owned()), packed);
        Ok(self)
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The server's certificate in PEM; empty without TLS.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Publishes a chart of these files, or another content of a version.
    ///
    /// # Errors
    /// When it cannot be packed.
    pub fn publish(&self, name: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
        let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        let all = std::iter::once(("Chart.yaml", metadata.as_str())).chain(files.iter().copied());
        let packed = archive(name, all)?;
        self.state.lock().charts.insert((name.to_owned(), version.to_owned()), packed);
        Ok(())
    }

    /// Answers a path like this from now on.
    pub fn put(&self, path: &str, reply: Reply) {
        self.state.lock().others.insert(path.to_owned(), reply);
    }

    /// Whether every request fails from now on.
    pub fn fail(&self, fails: bool) {
        self.state.lock().fails = fails;
    }

    /// The paths that were asked for so far, each with whether somebody's credentials came with it.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }
}

/// A packed chart.
fn archive<'a>(name: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Vec<u8>> {
    pack(files.map(|(path, text)| (format!("{name}/{path}"), b'0', text.as_bytes().to_vec())))
}

/// An archive of entries: path, type and content. For those of type `2` the content is where they link to.
///
/// # Errors
/// When a path is too long.
pub fn pack(entries: impl Iterator<Item = (String, u8, Vec<u8>)>) -> Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    for (path, kind, content) in entries {
        let is_link = kind == b'2';
        let (content, link) = if is_link { (Vec::new(), content) } else { (content, Vec::new()) };
        let mut head = [0_u8; 512];
        let mut put = |at: usize, bytes: &[u8]| -> Result<()> {
            let end = at.saturating_add(bytes.len());
            head.get_mut(at..end).context("a path that is too long")?.copy_from_slice(bytes);
            Ok(())
        };
        put(0, path.as_bytes())?;
        put(100, b"0000644\0")?;
        put(124, format!("{:011o}\0", content.len()).as_bytes())?;
        put(148, b"        ")?;
        put(156, &[kind])?;
        put(157, &link)?;
        put(257, b"ustar\x0000")?;
        let sum: u32 = head.iter().copied().map(u32::from).sum();
        let sum = format!("{sum:06o}\0 ");
        head.get_mut(148..156).context("checksum")?.copy_from_slice(sum.as_bytes());
        packed.write_all(&head)?;
        packed.write_all(&content)?;
        let rest = content.len().next_multiple_of(512).saturating_sub(content.len());
        packed.write_all(&vec![0; rest])?;
    }
    packed.write_all(&[0; 1024])?;
    Ok(packed.finish()?)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    state: &Mutex<State>,
    wants_password: bool,
) -> std::io::Result<()> {
    let (mut head, mut bytes) = (String::new(), [0_u8; 4096]);
    while !head.contains("\r\n\r\n") {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        head.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let expected = format!("basic {}", BASE64.encode(format!("{}:{}", USER.0, USER.1)));
    let given = head.lines().find_map(|line| {
        line.to_ascii_lowercase().starts_with("authorization:").then(|| line.split_once(' '))
    });
    let given = given.flatten().map(|(_, value)| value.trim().to_owned()).unwrap_or_default();
    let is_known = given.eq_ignore_ascii_case(&expected);
    let other = state.lock().others.get(&path).cloned();
    let (status, body) = {
        let mut state = state.lock();
        state
            .requests
            .push(format!("{path}{}", if given.is_empty() { "" } else { " as somebody" }));
        if let Some(Reply::Body(body)) = &other {
            (200, body.clone())
        } else if other.is_some() {
            (302, Vec::new())
        } else if state.fails {
            (503, b"not now".to_vec())
        } else if wants_password && !is_known {
            (401, b"who are you".to_vec())
        } else {
            answer(&state, &path).map_or((404, b"nothing here".to_vec()), |body| (200, body))
        }
    };
    let challenge = if status == 401 { "www-authenticate: Basic realm=\"charts\"\r\n" } else { "" };
    if let Some(Reply::Endless) = other {
        stream.write_all(b"HTTP/1.1 200 x\r\nconnection: close\r\n\r\n").await?;
        loop {
            // Who reads it goes away.
            stream.write_all(&[0; 65536]).await?;
        }
    }
    let location = match other {
        Some(Reply::Redirect(to)) => format!("location: {to}\r\n"),
        _ => String::new(),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\nconnection: close\r\n{challenge}{location}content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}

fn answer(state: &State, path: &str) -> Option<Vec<u8>> {
    let path = path.split('?').next().unwrap_or_default();
    if path == "/charts/index.yaml" {
        let mut entries: BTreeMap<&str, Vec<serde_json::Value>> = BTreeMap::new();
        for ((name, version), packed) in &state.charts {
            entries.entry(name).or_default().push(serde_json::json!({
                "name": name, "version": version, "digest": sha256(packed),
                "urls": [format!("{name}-{version}.tgz")],
            }));
        }
        let index = serde_json::json!({"apiVersion": "v1", "entries": entries});
        return Some(index.to_string().into_bytes());
    }
    if let Some(file) = path.strip_prefix("/charts/") {
        let found = state
            .charts
            .iter()
            .find(|((name, version), _)| format!("{name}-{version}.tgz") == file);
        return found.map(|(_, packed)| packed.clone());
    }
    let (name, rest) = path.strip_prefix("/v2/oci/")?.split_once('/')?;
    let mut own = state.charts.iter().filter(|((chart, _), _)| chart == name);
    if rest == "tags/list" {
        let tags: Vec<&str> = own.map(|((_, version), _)| version.as_str()).collect();
        return Some(serde_json::json!({"name": name, "tags": tags}).to_string().into_bytes());
    }
    if let Some(tag) = rest.strip_prefix("manifests/") {
        let (_, packed) = own.find(|((_, version), _)| version == tag)?;
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json"},
            "layers": [{
                "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "digest": format!("sha256:{}", sha256(packed)),
            }],
        });
        return Some(manifest.to_string().into_bytes());
    }
    let digest = rest.strip_prefix("blobs/sha256:")?;
    own.find(|(_, packed)| sha256(packed) == digest).map(|(_, packed)| packed.clone())
}
