//! The way to a member: a proxy of bytes that passes, refuses, swallows, delays or leads to somebody else. TLS goes through
//! untouched, so that the certificate still names 127.0.0.1.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pieces of a connection that may be on their way in one direction.
const IN_FLIGHT: usize = 256;

/// What becomes of what comes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It passes.
    Pass,
    /// Connections are cut, and new ones dropped at once.
    Refuse,
    /// Nothing arrives any more, in no direction; connections stay open.
    Swallow,
    /// It passes so much later in each direction.
    Delay(Duration),
    /// New connections lead to another port of this machine; the old ones are cut.
    LeadTo(u16),
}

/// The way to a port on loopback. It ends when this value is dropped.
#[derive(Debug)]
pub struct Link {
    port: u16,
    mode: watch::Sender<Mode>,
    connections: Arc<AtomicUsize>,
    _tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Link {
    /// A way on which everything passes.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn to(target: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let (tasks, connections) =
            (Arc::new(Mutex::new(JoinSet::new())), Arc::<AtomicUsize>::default());
        let (all, count) = (Arc::clone(&tasks), Arc::clone(&connections));
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                all.lock().spawn(serve(client, target, modes.clone()));
            }
        };
        tasks.lock().spawn(accept);
        Ok(Self { port, mode, connections, _tasks: tasks })
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many connections were made to it.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(client: TcpStream, target: u16, mut modes: watch::Receiver<Mode>) {
    let first = loop {
        let mode = *modes.borrow_and_update();
        match mode {
            Mode::Refuse => return,
            Mode::Swallow => {
                if modes.changed().await.is_err() {
                    return;
                }
            }
            mode => break mode,
        }
    };
    let target = if let Mode::LeadTo(other) = first { other } else { target };
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = |mode: &Mode| match mode {
        Mode::Refuse => true,
        Mode::LeadTo(_) => *mode != first,
        Mode::Pass | Mode::Delay(_) => matches!(first, Mode::LeadTo(_)),
        Mode::Swallow => false,
    };
    tokio::select! {
        () = pump(from_client, to_server, modes.clone()) => {}
        () = pump(from_server, to_client, modes.clone()) => {}
        _ = modes.wait_for(cut) => {}
    }
}

/// Passes bytes on in their order, each when the mode lets it. What is late holds up nothing that comes behind it: a far server is
/// sent the next request before it has the one before.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, modes: watch::Receiver<Mode>) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    let arrivals = modes.clone();
    let read = async move {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut buffer).await.unwrap_or(0);
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { return };
            let delay = match *arrivals.borrow() {
                Mode::Delay(delay) => delay,
                Mode::Pass | Mode::Refuse | Mode::Swallow | Mode::LeadTo(_) => Duration::ZERO,
            };
            if sender.send((Instant::now() + delay, bytes.to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        let mut modes = modes;
        while let Some((due, bytes)) = receiver.recv().await {
            if modes.wait_for(|mode| *mode != Mode::Swallow).await.is_err() {
                return;
            }
            // Nothing is late any more once the way is short again.
            let short = modes.wait_for(|mode| !matches!(mode, Mode::Delay(_) | Mode::Swallow));
            let _ = tokio::time::timeout_at(due, short).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    // At the end of what is read the rest is still on its way.
    let reading = async {
        read.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = write => {}
        () = reading => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every byte with another one.
    async fn server(answer: u8) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while stream.read_u8().await.is_ok() && stream.write_u8(answer).await.is_ok() {}
                });
            }
        });
        port
    }

    async fn ask(stream: &mut TcpStream) -> Option<u8> {
        stream.write_u8(1).await.ok()?;
        stream.read_u8().await.ok()
    }

    #[tokio::test]
    async fn a_way_passes_swallows_refuses_and_leads_elsewhere() {
        let link = Link::to(server(b'a').await).await.unwrap();
        let connect = async || TcpStream::connect(("127.0.0.1", link.port())).await.unwrap();
        let mut first = connect().await;
        assert_eq!(ask(&mut first).await, Some(b'a'));
        link.set(Mode::Swallow);
        let mut second = connect().await;
        second.write_u8(1).await.unwrap();
        first.write_u8(1).await.unwrap();
        let mut early = Box::pin(second.read_u8());
        assert!(futures::poll!(&mut early).is_pending());
        link.set(Mode::Delay(Duration::from_millis(1)));
        assert_eq!((early.await.unwrap(), first.read_u8().await.unwrap()), (b'a', b'a'));
        link.set(Mode::LeadTo(server(b'b').await));
        assert_eq!(ask(&mut first).await, None);
        let mut third = connect().await;
        assert_eq!(ask(&mut third).await, Some(b'b'));
        link.set(Mode::Refuse);
        assert_eq!(ask(&mut third).await, None);
        assert_eq!(ask(&mut connect().await).await, None);
        link.set(Mode::Pass);
        assert_eq!(ask(&mut connect().await).await, Some(b'a'));
        assert_eq!(link.connections(), 5);
    }
}
