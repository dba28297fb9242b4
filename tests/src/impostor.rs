//! Somebody who answers at a member's address and is no API server of it: a load balancer in front of a dead one, a proxy, a
//! log-in page. Its certificate is the member's, so that nothing but its answers gives it away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::cluster::{Cluster, install_crypto};

/// An answer to every request.
#[derive(Debug, Clone)]
pub struct Canned {
    /// HTTP code.
    pub code: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Other headers, each with its end of the line.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl Canned {
    /// An answer in JSON.
    #[must_use]
    pub fn json(code: u16, body: &serde_json::Value) -> Self {
        let (headers, body) = (String::new(), body.to_string());
        Self { code, content_type: "application/json", headers, body }
    }

    /// An answer in HTML.
    #[must_use]
    pub fn html(code: u16, body: &str) -> Self {
        Self { code, content_type: "text/html", headers: String::new(), body: body.to_owned() }
    }
}

/// A server that gives the same answer to everything. It ends when this value is dropped.
#[derive(Debug)]
pub struct Impostor {
    port: u16,
    answer: Arc<Mutex<Canned>>,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Impostor {
    /// One with a certificate of a member's authority.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn of(member: &Cluster, answer: Canned) -> Result<Self> {
        install_crypto();
        let leaf = member.authority().server("impostor", &["localhost"])?;
        let chain = vec![CertificateDer::from_pem_slice(leaf.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes())?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let answer = Arc::new(Mutex::new(answer));
        let requests = Arc::<AtomicUsize>::default();
        let (canned, count) = (Arc::clone(&answer), Arc::clone(&requests));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, canned, count) =
                    (acceptor.clone(), Arc::clone(&canned), Arc::clone(&count));
                // A connection that breaks is its client's affair.
                connections
                    .spawn(async move { drop(serve(stream, acceptor, &canned, &count).await) });
            }
        });
        Ok(Self { port, answer, requests, _tasks: tasks })
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers so from now on.
    pub fn answer(&self, answer: Canned) {
        *self.answer.lock() = answer;
    }

    /// How many requests it has answered.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    canned: &Mutex<Canned>,
    count: &AtomicUsize,
) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut read = Vec::new();
    while !read.windows(4).any(|part| part == b"\r\n\r\n") {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
    let Canned { code, content_type, headers, body } = canned.lock().clone();
    let head = format!(
        "HTTP/1.1 {code} x\r\nContent-Type: {content_type}\r\n{headers}Content-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    count.fetch_add(1, Ordering::Relaxed);
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
