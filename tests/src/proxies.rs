//! Proxies on the way to a member: CONNECT, and SOCKS5, with or without a password. They count what they let through.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How a proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// `CONNECT host:port`.
    Http,
    /// SOCKS version 5.
    Socks,
}

/// User and password of a proxy.
pub const USER: (&str, &str) = ("proxy", "s3cret-of-the-proxy");

/// A proxy that asks for [`USER`]. It ends when this value is dropped.
#[derive(Debug)]
pub struct ForwardProxy {
    port: u16,
    speaks: Speaks,
    passed: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl ForwardProxy {
    /// A proxy on loopback.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(speaks: Speaks) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let passed = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&passed);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                // Who does not know how to ask is not served.
                connections.spawn(async move { drop(serve(client, speaks, &count).await) });
            }
        });
        Ok(Self { port, speaks, passed, _tasks: tasks })
    }

    /// What stands in `proxy-url`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.speaks {
            Speaks::Http => "http",
            Speaks::Socks => "socks5",
        };
        format!("{scheme}://{}:{}@127.0.0.1:{}", USER.0, USER.1, self.port)
    }

    /// How many connections it made for others.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

async fn serve(mut client: TcpStream, speaks: Speaks, passed: &AtomicUsize) -> Result<()> {
    let port = match speaks {
        Speaks::Http => connect(&mut client).await?,
        Speaks::Socks => socks(&mut client).await?,
    };
    // All names are loopback here.
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    passed.fetch_add(1, Ordering::Relaxed);
    match speaks {
        Speaks::Http => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?,
        Speaks::Socks => client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?,
    }
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn connect(client: &mut TcpStream) -> Result<u16> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let wanted = format!("Basic {}", STANDARD.encode(format!("{}:{}", USER.0, USER.1)));
    let is_known = head.lines().any(|line| {
        let header = line.split_once(':');
        header.is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("proxy-authorization") && value.trim() == wanted
        })
    });
    if !is_known {
        client.write_all(b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n").await?;
        bail!("no password");
    }
    let target = head.split(' ').nth(1).context("no target")?;
    Ok(target.rsplit(':').next().context("no port")?.parse()?)
}

async fn socks(client: &mut TcpStream) -> Result<u16> {
    ensure!(client.read_u8().await? == 5, "another version");
    let count = client.read_u8().await?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods).await?;
    ensure!(methods.contains(&2), "no password");
    client.write_all(&[5, 2]).await?;
    ensure!(client.read_u8().await? == 1, "another version");
    let mut text = async || {
        let mut bytes = vec![0; client.read_u8().await?.into()];
        client.read_exact(&mut bytes).await?;
        anyhow::Ok(String::from_utf8(bytes)?)
    };
    let (name, password) = (text().await?, text().await?);
    ensure!((name.as_str(), password.as_str()) == USER, "another password");
    client.write_all(&[1, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let length = match request {
        [5, 1, _, 1] => 4,
        [5, 1, _, 3] => client.read_u8().await?.into(),
        [5, 1, _, 4] => 16,
        _ => bail!("another request"),
    };
    client.read_exact(&mut vec![0; length]).await?;
    Ok(client.read_u16().await?)
}
