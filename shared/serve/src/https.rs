//! The TLS listener: accepts, negotiates, serves HTTP/2 or HTTP/1.1, drains.
//!
//! Written on hyper directly, because a client that opens a connection and says nothing must not
//! hold it: the handshake, the first header and an idle connection all have a limit, and so has
//! the number of connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

/// What the listener allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue. API servers keep a few each.
    pub connections: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the handshake, or the previous answer, to the end of a request's header.
    pub header: Duration,
    /// After the stop: how long requests under way may take.
    pub drain: Duration,
    /// After the stop: how long an HTTP/1.1 connection must be idle before it is closed.
    pub quiet: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(10),
            // An API server keeps idle HTTP/1.1 connections for 90 s.
            header: Duration::from_secs(120),
            drain: Duration::from_secs(30),
            quiet: Duration::from_millis(500),
        }
    }
}

/// Serves until `stop`, then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    tls: ServerConfig,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let places = Arc::new(Semaphore::new(limits.connections));
    let tasks = TaskTracker::new();
    // Ends the connections whose requests outlast the drain.
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors or the like: breathe, do not spin.
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        let (stop, cut) = (stop.clone(), cut.clone());
        tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                () = cut.cancelled() => {}
                () = connection(stream, acceptor, router, limits, stop) => {}
            }
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        warn!(left = tasks.len(), "requests cut at the end of the drain");
        cut.cancel();
        tasks.wait().await;
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    let _ = stream.set_nodelay(true);
    Ok((stream, place))
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let stream = match tokio::time::timeout(limits.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "handshake failed"),
        Err(_) => return debug!("handshake timed out"),
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if is_h2 {
        builder = builder.http2_only();
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(250)
            .max_header_list_size(32 << 10)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15));
    } else {
        builder = builder.http1_only();
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header)
            .max_buf_size(64 << 10);
    }
    let requests = Arc::new(AtomicUsize::new(0));
    let service = TowerToHyperService::new(router.map_request({
        let requests = Arc::clone(&requests);
        move |request| {
            requests.fetch_add(1, Ordering::Relaxed);
            request
        }
    }));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            // HTTP/2 announces its end. Over HTTP/1.1 a connection that is closed while the client
            // sends its next request loses that request: so the answer to it ends the connection,
            // and only one that has fallen silent is closed.
            let mut seen = if is_h2 { None } else { Some(requests.load(Ordering::Relaxed)) };
            loop {
                let Some(before) = seen else {
                    connection.as_mut().graceful_shutdown();
                    break connection.await;
                };
                match tokio::time::timeout(limits.quiet, connection.as_mut()).await {
                    Ok(ended) => break ended,
                    Err(_) => {
                        let now = requests.load(Ordering::Relaxed);
                        seen = (now != before).then_some(now);
                    }
                }
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;

    /// A server that answers `/`, and a client that is connected to it.
    async fn connected(
        quiet: Duration,
        stop: CancellationToken,
    ) -> (JoinHandle<()>, TlsStream<TcpStream>) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = CertificateDer::from(made.cert.der().to_vec());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        crate::tls::install_crypto();
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "yes" }));
        let limits = Limits { quiet, ..Limits::default() };
        let server = tokio::spawn(serve(listener, tls, router, limits, stop));
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(client));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        (server, connector.connect(name, stream).await.unwrap())
    }

    async fn ask(client: &mut TlsStream<TcpStream>) -> String {
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"yes") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "closed");
        }
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_connection_in_use_outlives_the_stop() {
        let stop = CancellationToken::new();
        let (server, mut client) = connected(Duration::from_secs(600), stop.clone()).await;
        ask(&mut client).await;
        stop.cancel();
        ask(&mut client).await;
        drop(client);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_silent_connection_is_closed() {
        let stop = CancellationToken::new();
        let (server, mut client) = connected(Duration::from_millis(1), stop.clone()).await;
        ask(&mut client).await;
        stop.cancel();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        server.await.unwrap();
    }
}
