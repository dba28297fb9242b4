//! A server behind which nothing is: it notes what it is asked, answers as the path says, and whoever asks for another protocol gets
//! his bytes back.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::pki::Authority;
use crate::wire::{Body, Without, body, field, header};

/// Said at the end of an upgraded connection, after the other side has ended its half.
pub const LAST_WORD: &[u8] = b"[end]";

/// The size of the body of `/large`.
const LARGE: usize = 1 << 20;

/// What it was asked.
#[derive(Debug, Clone)]
pub struct Heard {
    /// As it came.
    pub header: String,
    /// As far as it came.
    pub body: Body,
}

/// The server. It ends when this value is dropped.
#[derive(Debug)]
pub struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
    _tasks: JoinSet<()>,
}

impl Echo {
    /// A server on loopback with a certificate of an authority.
    ///
    /// # Errors
    /// When no port is free or the authority signs nothing.
    pub async fn start(authority: &Authority) -> Result<Self> {
        let leaf = authority.server("echo", &["localhost"])?;
        let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let noted = Arc::clone(&heard);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heard) = (acceptor.clone(), Arc::clone(&noted));
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A connection that breaks is noticed at the other end.
                        let _ = serve(stream, &heard).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, heard, _tasks: tasks })
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All requests so far.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().clone()
    }

    /// The headers of all requests so far, as they came.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.heard.lock().iter().map(|heard| heard.header.clone()).collect()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    heard: &Mutex<Vec<Heard>>,
) -> Result<()> {
    loop {
        let header = header(&mut stream).await?;
        let refuses = header.contains("/refused");
        if let Some(protocol) = field(&header, "upgrade").filter(|_| !refuses) {
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
            );
            heard.lock().push(Heard { header, body: Body::default() });
            stream.write_all(answer.as_bytes()).await?;
            return repeat(stream).await;
        }
        if field(&header, "expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = body(&mut stream, &header, Without::Body).await;
        let answer = answer(&header)?;
        heard.lock().push(Heard { header, body });
        stream.write_all(&answer.bytes).await?;
        stream.flush().await?;
        if answer.is_last {
            return Ok(());
        }
    }
}

/// Everything back, and a last word.
async fn repeat(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let mut bytes = [0; 8192];
    loop {
        let read = stream.read(&mut bytes).await?;
        if read == 0 {
            break;
        }
        stream.write_all(bytes.get(..read).unwrap_or_default()).await?;
        stream.flush().await?;
    }
    stream.write_all(LAST_WORD).await?;
    stream.shutdown().await?;
    Ok(())
}

struct Answer {
    bytes: Vec<u8>,
    /// The connection breaks after it.
    is_last: bool,
}

/// Answers for which the path asks: status, further fields, body.
const ANSWERS: [(&str, &str, &str, &str); 10] = [
    ("/redirect", "302 Found", "Location: https://169.254.169.254/\r\n", ""),
    ("/page", "404 Not Found", "Content-Type: text/html\r\n", "<html>"),
    ("/empty", "204 No Content", "", ""),
    ("/unchanged", "304 Not Modified", "ETag: \"1\"\r\n", ""),
    ("/refused", "403 Forbidden", "Content-Type: text/plain\r\n", "not this protocol"),
    ("/busy", "429 Too Many Requests", "Retry-After: 1\r\n", "later"),
    ("/credential", "401 Unauthorized", "WWW-Authenticate: Bearer realm=\"member\"\r\n", "who?"),
    ("/failure", "500 Internal Server Error", "Content-Type: text/plain\r\n", "a panic"),
    (
        "/host",
        "200 OK",
        "Set-Cookie: a=b\r\nStrict-Transport-Security: max-age=1\r\nAlt-Svc: h3=\":1\"\r\n\
         Clear-Site-Data: \"*\"\r\n",
        "ok",
    ),
    (
        "/fields",
        "200 OK",
        "Cache-Control: no-cache, private\r\nWarning: 299 - \"old\"\r\nX-Own: 1\r\nX-Own: 2\r\n\
         X-Kubernetes-Pf-Flowschema-Uid: u\r\nAudit-Id: theirs\r\nContent-Type: application/json\r\n\
         Keep-Alive: timeout=5\r\nETag: \"2\"\r\n",
        "{}",
    ),
];

fn answer(header: &str) -> Result<Answer> {
    let request = header.lines().next().unwrap_or_default();
    let is_head = request.starts_with("HEAD ");
    let (mut bytes, mut is_last) = (Vec::new(), false);
    if request.contains("/early") {
        bytes.extend(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n");
    }
    if request.contains("/chunks") {
        bytes.extend(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
              2\r\nok\r\n1\r\n!\r\n0\r\nX-Sum: 3\r\n\r\n",
        );
    } else if request.contains("/large") {
        write!(
            bytes,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {LARGE}\r\n\r\n"
        )?;
        bytes.resize(bytes.len() + LARGE, b'x');
    } else if request.contains("/packed") {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[b'x'; 1000])?;
        let packed = packed.finish()?;
        let length = packed.len();
        write!(
            bytes,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\
             Content-Length: {length}\r\n\r\n"
        )?;
        bytes.extend(packed);
    } else if request.contains("/cut") {
        bytes.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        is_last = true;
    } else if request.contains("/nothing") {
        is_last = true;
    } else if request.contains("/garbage") {
        bytes.extend(b"this is not HTTP\r\n\r\n");
        is_last = true;
    } else {
        let found = ANSWERS.iter().find(|(path, ..)| request.contains(path));
        let (_, status, fields, body) =
            found.unwrap_or(&("", "200 OK", "Content-Type: text/plain\r\n", "ok"));
        write!(bytes, "HTTP/1.1 {status}\r\n{fields}")?;
        if !(status.starts_with("204") || status.starts_with("304")) {
            write!(bytes, "Content-Length: {}\r\n", body.len())?;
        }
        bytes.extend(b"\r\n");
        if !is_head {
            bytes.extend(body.as_bytes());
        }
    }
    Ok(Answer { bytes, is_last })
}
