//! A server behind which nothing is: it notes what it is asked, and whoever asks for another protocol gets his bytes back.

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

/// Said at the end of an upgraded connection, after the other side has ended its half.
pub const LAST_WORD: &[u8] = b"[end]";

/// The server. It ends when this value is dropped.
#[derive(Debug)]
pub struct Echo {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
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
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let heard = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heard) = (acceptor.clone(), Arc::clone(&heard));
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A connection that breaks is noticed at the other end.
                        let _ = serve(stream, &heard).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, asked, _tasks: tasks })
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The headers of all requests so far, as they came.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

/// Reads from a stream to the empty line that ends a header.
///
/// # Errors
/// When the stream ends before.
pub async fn header(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        header.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&header).into_owned())
}

/// Reads a message of HTTP/1.1 whose length its header says: header and body.
///
/// # Errors
/// When the stream ends before.
pub async fn message(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(String, Vec<u8>)> {
    let header = header(stream).await?;
    let length = field(&header, "content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok((header, body))
}

/// The value of a field of a header.
#[must_use]
pub fn field<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = header.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    asked: &Mutex<Vec<String>>,
) -> Result<()> {
    loop {
        let request = header(&mut stream).await?;
        asked.lock().push(request.clone());
        if let Some(protocol) = field(&request, "upgrade") {
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await?;
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
            return Ok(());
        }
        let length = field(&request, "content-length").and_then(|text| text.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let answer: &[u8] = if request.contains("/redirect") {
            b"HTTP/1.1 302 Found\r\nLocation: https://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
        } else if request.contains("/page") {
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        } else {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
        };
        stream.write_all(answer).await?;
        stream.flush().await?;
    }
}
