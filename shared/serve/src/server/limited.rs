//! The listener with a limit: each connection takes a slot, or is closed at once.
//!
//! After the stop nobody listens, so that clients are refused and try another replica, while those
//! who are inside go on.

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum_server::{AddrListener, Address};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::slots::{Slot, Slots};

/// The address of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(SocketAddr);

impl Peer {
    /// On a socket for both families an IPv4 client comes with a mapped address.
    pub(super) fn ip(&self) -> IpAddr {
        self.0.ip().to_canonical()
    }
}

impl Address for Peer {
    type Stream = Arrival;
    type Listener = LimitedListener;
}

/// A connection and its slot.
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) slot: Slot,
}

/// The listener.
pub(super) struct LimitedListener {
    listener: Mutex<Option<Arc<TcpListener>>>,
    slots: Arc<Slots>,
    stop: CancellationToken,
}

impl LimitedListener {
    pub(super) fn new(listener: TcpListener, slots: Arc<Slots>, stop: CancellationToken) -> Self {
        Self { listener: Mutex::new(Some(Arc::new(listener))), slots, stop }
    }

    fn listener(&self) -> Option<Arc<TcpListener>> {
        self.listener.lock().clone()
    }
}

impl AddrListener<Arrival, Peer> for LimitedListener {
    async fn bind_to(_: Peer) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    async fn accept_stream(&self) -> io::Result<(Arrival, Peer)> {
        while let Some(listener) = self.listener() {
            let (stream, address) = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    self.listener.lock().take();
                    continue;
                }
                accepted = listener.accept() => accepted?,
            };
            let _ = stream.set_nodelay(true);
            let peer = Peer(address);
            match self.slots.take(peer.ip()) {
                Some(slot) => return Ok((Arrival { stream, slot }, peer)),
                None => debug!(peer = %peer.ip(), "too many connections"),
            }
        }
        pending().await
    }

    fn get_local_addr(&self) -> io::Result<Peer> {
        let listener = self.listener().ok_or(io::ErrorKind::NotConnected)?;
        listener.local_addr().map(Peer)
    }
}
