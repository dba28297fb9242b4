//! The listeners of a process, with TLS or without: accept, negotiate, serve, drain.
//!
//! `axum-server` does that; what it lacks is ours, because whoever reaches the port is trusted with
//! nothing. A client that says nothing, or says it slowly, holds a connection only as long as nobody
//! else needs it (`slots`) and never for longer than its limits (`connection`). What a body may take
//! is decided by whoever reads it.

mod connection;
mod limited;
mod limits;
mod slots;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::{Handle, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::tls::RustlsConfig;
pub use connection::{Busy, PeerName};
pub use limits::Limits;

use connection::Acceptor;
use limited::{LimitedListener, Peer};
use limits::{STREAMS, WINDOW};
use slots::Slots;

/// Bytes of a header of HTTP/1.1, at least; a client that is slow with it makes us keep that much.
const HEADER: usize = 32 << 10;
/// Bytes of answers kept for a stream whose client does not read.
const UNREAD: usize = 64 << 10;

/// Serves until `stop`, then lets requests in flight end.
///
/// # Errors
/// The listener's.
pub async fn serve(
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let slots = Arc::new(Slots::new(limits));
    let handle = Handle::new();
    let listener = LimitedListener::new(listener, Arc::clone(&slots), stop.clone());
    let acceptor = Acceptor::new(tls, limits);
    let mut server = Server::<Peer>::from_listener(listener)
        .handle(handle.clone())
        .accept_error_handler(|peer, error| match peer {
            Some(peer) => debug!(peer = %peer.ip(), %error, "handshake failed"),
            // Out of file descriptors or the like.
            None => warn!(%error, "accept failed"),
        });
    if !acceptor.is_encrypted() {
        server = server.http1_only();
    }
    let builder = server.http_builder();
    builder.http1().max_buf_size(HEADER.max(usize::try_from(limits.headers).unwrap_or(HEADER)));
    builder
        .http2()
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(limits.headers)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(limits.ahead)
        .max_send_buf_size(UNREAD)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(15));
    let closing = async {
        stop.cancelled().await;
        // Over HTTP/1.1 a connection that is closed while the client sends its next request loses
        // that request: so those in use go on for a while, and only silence ends them.
        let half = limits.drain / 2;
        let _ = tokio::time::timeout(half, slots.quiet(limits.quiet)).await;
        handle.graceful_shutdown(Some(half));
    };
    let served = server.acceptor(acceptor).serve(router.into_make_service());
    let ((), served) = tokio::join!(closing, served);
    let left = handle.connection_count();
    if left > 0 {
        warn!(left, "requests cut at the end of the drain");
    }
    served
}

#[cfg(test)]
mod tests;
