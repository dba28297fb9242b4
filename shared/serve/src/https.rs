//! The TLS listener: accepts, negotiates, serves HTTP/2 or HTTP/1.1, drains.
//!
//! Written on hyper directly, because a client that opens a connection and says nothing must not
//! hold it: the handshake, the first header and an idle connection all have a limit, and so has
//! the number of connections.

use std::io;
use std::sync::Arc;
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(10),
            // An API server keeps idle HTTP/1.1 connections for 90 s.
            header: Duration::from_secs(120),
            drain: Duration::from_secs(30),
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
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}
