//! One address before several replicas, as a Service is: a connection goes to the next backend.

use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

#[derive(Debug, Default)]
struct Backends {
    ports: Vec<u16>,
    turn: usize,
}

impl Backends {
    fn next(&mut self) -> Option<u16> {
        self.turn = self.turn.wrapping_add(1);
        self.ports.get(self.turn.checked_rem(self.ports.len())?).copied()
    }
}

/// The address.
#[derive(Debug)]
pub struct Service {
    port: u16,
    backends: Arc<Mutex<Backends>>,
}

impl Service {
    /// Without backends: connections are accepted and dropped.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(runtime: &Handle) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let backends = Arc::new(Mutex::new(Backends::default()));
        let known = Arc::clone(&backends);
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((mut client, _)) = listener.accept().await {
                let Some(target) = known.lock().next() else { continue };
                tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Ok(Self { port, backends })
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on these get the connections; those that are there stay.
    pub fn serve(&self, ports: Vec<u16>) {
        self.backends.lock().ports = ports;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_take_turns() {
        let mut backends = Backends::default();
        assert_eq!(backends.next(), None);
        backends.ports = vec![1, 2];
        let turns: Vec<_> = (0..4).filter_map(|_| backends.next()).collect();
        assert_eq!(turns, [1, 2, 1, 2]);
    }
}
