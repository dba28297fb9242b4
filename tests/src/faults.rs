//! A proxy between a client and the API server that can be closed and opened again.
//!
//! It passes bytes, so TLS goes through untouched and the certificate still names 127.0.0.1.

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A door to a port on loopback. It is shut when this value is dropped.
#[derive(Debug)]
pub struct Door {
    port: u16,
    open: watch::Sender<bool>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Door {
    /// A door to `target`, shut: connections are accepted and dropped at once.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn shut(target: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (open, state) = watch::channel(false);
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let door = Self { port, open, tasks: Arc::clone(&tasks) };
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                if *state.borrow() {
                    let state = state.clone();
                    tasks.lock().spawn(pass(client, target, state));
                }
            }
        };
        door.tasks.lock().spawn(accept);
        Ok(door)
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets connections through.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Cuts all connections and lets none through.
    pub fn close(&self) {
        self.open.send_replace(false);
    }
}

async fn pass(mut client: TcpStream, target: u16, mut state: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = state.wait_for(|open| !open) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        port
    }

    async fn answer(port: u16) -> Option<(TcpStream, [u8; 2])> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.write_all(b"hi").await.ok()?;
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes).await.ok()?;
        Some((stream, bytes))
    }

    #[tokio::test]
    async fn a_door_opens_and_closes() {
        let door = Door::shut(echo().await).await.unwrap();
        assert!(answer(door.port()).await.is_none(), "shut at first");
        door.open();
        let (mut stream, bytes) = answer(door.port()).await.unwrap();
        assert_eq!(&bytes, b"hi");
        door.close();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "an open connection is cut");
        assert!(answer(door.port()).await.is_none());
    }
}
