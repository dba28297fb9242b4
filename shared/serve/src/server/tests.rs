//! Tests of the listener with ordinary and hostile clients.

use std::net::SocketAddr;

use axum::routing::{get, post};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Nothing takes that long, on the busiest machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(3600);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Nothing ends by itself.
const PATIENT: Limits = Limits { handshake: NEVER, header: NEVER, idle: NEVER, ..Limits::REVIEWS };

/// A server that answers `/`, and takes its time for `/slow`.
struct Running {
    address: SocketAddr,
    connector: TlsConnector,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

type Client = TlsStream<TcpStream>;

impl Running {
    async fn start(limits: Limits) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = CertificateDer::from(made.cert.der().to_vec());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        crate::tls::install_crypto();
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tls = RustlsConfig::from_config(Arc::new(tls));
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "yes"
        };
        let router = Router::new()
            .route("/", get(async || "yes"))
            .route("/slow", get(slow))
            .route("/body", post(async |body: String| body));
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, Some(tls), router, limits, stop.clone()));
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self { address, connector: TlsConnector::from(Arc::new(client)), stop, task }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    async fn try_connect(&self) -> io::Result<Client> {
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, self.tcp().await).await
    }

    /// A connection that has sent preface and settings of HTTP/2.
    async fn connect_h2(&self) -> Client {
        let mut config = ClientConfig::clone(self.connector.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut client = connector.connect(name, self.tcp().await).await.unwrap();
        // it may be closed already, where that is the test
        let _ = send(&mut client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let _ = send(&mut client, &common(4, 0, 0, b"")).await;
        client
    }

    async fn is_well(&self) {
        ask(&mut self.connect().await).await;
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(TIMEOUT, self.task).await.unwrap().unwrap().unwrap();
    }
}

async fn send(client: &mut Client, bytes: &[u8]) -> io::Result<()> {
    client.write_all(bytes).await?;
    client.flush().await
}

async fn ask(client: &mut Client) -> String {
    send(client, REQUEST).await.unwrap();
    answer(client).await.unwrap()
}

/// An answer that ends in `yes`; `None` when the connection ends before.
async fn answer(client: &mut Client) -> Option<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"yes") {
        let read = tokio::time::timeout(TIMEOUT, client.read_buf(&mut answer)).await.unwrap();
        if read.unwrap_or_default() == 0 {
            return None;
        }
    }
    Some(String::from_utf8(answer).unwrap())
}

/// Waits until the other side has closed the connection.
async fn closed(mut stream: impl tokio::io::AsyncRead + Unpin) {
    let mut sink = [0; 4096];
    let end = async { while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(TIMEOUT, end).await.expect("it is closed");
}

fn common(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut common = length[1..].to_vec();
    common.extend([kind, flags]);
    common.extend(stream.to_be_bytes());
    common.extend(payload);
    common
}

/// `POST /body` or, without a body, `GET /`.
fn headers(stream: u32, has_body: bool) -> Vec<u8> {
    // fields of the static table; the path of the former is a literal
    let get: &[u8] = &[0x82, 0x87, 0x84, 0x41, 1, b'x'];
    let post: &[u8] = &[0x83, 0x87, 0x44, 5, b'/', b'b', b'o', b'd', b'y', 0x41, 1, b'x'];
    let (flags, payload) = if has_body { (4, post) } else { (5, get) };
    common(1, flags, stream, payload)
}

#[tokio::test]
async fn a_connection_in_use_outlives_the_stop() {
    let server = Running::start(Limits { quiet: Duration::from_secs(600), ..PATIENT }).await;
    let mut client = server.connect().await;
    ask(&mut client).await;
    server.stop.cancel();
    ask(&mut client).await;
    drop(client);
    server.end().await;
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_the_stop() {
    let server = Running::start(Limits { quiet: Duration::from_millis(1), ..PATIENT }).await;
    let mut client = server.connect().await;
    ask(&mut client).await;
    server.stop.cancel();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    server.end().await;
}

#[tokio::test]
async fn nobody_is_let_in_after_the_stop_while_requests_end() {
    let server = Running::start(Limits { quiet: Duration::from_millis(1), ..PATIENT }).await;
    let mut client = server.connect().await;
    send(&mut client, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // it has started: its header is read when the next connection is served
    server.is_well().await;
    server.stop.cancel();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(answer(&mut client).await.is_some());
    server.end().await;
}

#[tokio::test]
async fn who_says_nothing_is_closed() {
    let short = Duration::from_millis(50);
    let server = Running::start(Limits { handshake: short, ..PATIENT }).await;
    closed(server.tcp().await).await;
    let mut half = server.tcp().await;
    half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    closed(half).await;
    server.end().await;

    let server = Running::start(Limits { idle: short, ..PATIENT }).await;
    closed(server.connect().await).await;
    closed(server.connect_h2().await).await;
    let mut client = server.connect().await;
    if send(&mut client, REQUEST).await.is_ok() {
        closed(client).await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_header_has_a_time_and_idleness_another() {
    let limits = Limits { header: Duration::from_millis(50), ..PATIENT };
    let server = Running::start(limits).await;
    let mut idle = server.connect().await;
    let mut used = server.connect().await;
    ask(&mut used).await;
    for opening in [&b"G"[..], b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n"] {
        let mut slow = server.connect().await;
        send(&mut slow, opening).await.unwrap();
        closed(slow).await;
    }
    let mut second = server.connect().await;
    ask(&mut second).await;
    send(&mut second, b"GET /").await.unwrap();
    closed(second).await;
    // longer in flight than a header may take
    send(&mut used, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(answer(&mut used).await.is_some());
    ask(&mut used).await;
    ask(&mut idle).await;
    server.end().await;
}

#[tokio::test]
async fn a_header_that_is_too_long_is_refused() {
    let server = Running::start(PATIENT).await;
    let mut client = server.connect().await;
    let mut request = b"GET / HTTP/1.1\r\nHost: x\r\nA: ".to_vec();
    request.resize(10 * HEADER, b'a');
    // it may be closed before all is written
    let _ = send(&mut client, &request).await;
    closed(client).await;
    server.end().await;
}

#[tokio::test]
async fn many_connections_of_one_client_keep_nobody_out() {
    let limits = Limits { connections: 20, per_peer: 10, ..PATIENT };
    let server = Running::start(limits).await;
    let mut used = server.connect().await;
    ask(&mut used).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(server.tcp().await);
    }
    // Those that never asked go first: the one that did is still there.
    ask(&mut used).await;
    server.is_well().await;
    for one in held.drain(..90) {
        closed(one).await;
    }
    let mut shaken = Vec::new();
    for _ in 0..30 {
        shaken.push(server.connect().await);
    }
    ask(&mut used).await;
    for one in shaken.drain(..20) {
        closed(one).await;
    }
    server.end().await;
}

#[tokio::test]
async fn http2_is_kept_small() {
    let server = Running::start(PATIENT).await;
    let mut client = server.connect_h2().await;
    let mut settings = Vec::new();
    while settings.len() < 9 || settings.len() < 9 + usize::from(settings[2]) {
        assert_ne!(client.read_buf(&mut settings).await.unwrap(), 0);
    }
    assert_eq!(settings[3], 4, "settings come first");
    let length = usize::from(settings[2]);
    let setting_value = |wanted: u8| {
        settings[9..9 + length].chunks(6).find_map(|setting| {
            let value = u32::from_be_bytes(setting[2..].try_into().unwrap());
            (setting[..2] == [0, wanted]).then_some(value)
        })
    };
    assert_eq!(
        (setting_value(3), setting_value(6)),
        (Some(STREAMS), Some(Limits::REVIEWS.headers))
    );
    assert!(setting_value(4).is_none_or(|window| window == WINDOW));
    server.end().await;
}

#[tokio::test]
async fn floods_over_http2_disturb_nobody() {
    let server = Running::start(PATIENT).await;
    let resets =
        |k: u32| [headers(2 * k + 1, true), common(3, 0, 2 * k + 1, &[0, 0, 0, 8])].concat();
    let open = |k: u32| headers(2 * k + 1, true);
    let pings = |_| common(6, 0, 0, b"12345678");
    let settings = |_| common(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let empty = |k: u32| if k == 0 { headers(1, true) } else { common(0, 0, 1, b"") };
    let unended = |k: u32| match k {
        0 => common(1, 0, 1, &[0x83, 0x87, 0x84]),
        _ => common(9, 0, 1, &[0x40, 1, b'a', 1, b'b'].repeat(100)),
    };
    type Flood<'a> = (&'static str, &'a dyn Fn(u32) -> Vec<u8>);
    let floods: [Flood<'_>; 6] = [
        ("streams that are reset", &resets),
        ("streams that do not end", &open),
        ("pings", &pings),
        ("settings", &settings),
        ("empty data", &empty),
        ("a header that does not end", &unended),
    ];
    let mut kept = server.connect().await;
    let mut left = Vec::new();
    for (what, flood) in floods {
        let mut client = server.connect_h2().await;
        for k in 0..5_000 {
            // It never reads: either the server gives up the connection, or it reads no more.
            let bytes = flood(k);
            let sent = send(&mut client, &bytes);
            match tokio::time::timeout(Duration::from_millis(500), sent).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        ask(&mut kept).await;
        server.is_well().await;
        println!("{what}: the others are served");
        left.push(client);
    }
    drop((kept, left));
    server.end().await;
}

#[tokio::test]
async fn without_tls_the_limits_are_the_same() {
    let limits = Limits { header: Duration::from_millis(50), per_peer: 4, ..PATIENT };
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/", get(async || "yes"));
    let task = tokio::spawn(serve(listener, None, router, limits, stop.clone()));
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET / HT").await.unwrap();
    closed(slow).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"yes") {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
    }
    for one in held.drain(..15) {
        closed(one).await;
    }
    stop.cancel();
    tokio::time::timeout(TIMEOUT, task).await.unwrap().unwrap().unwrap();
}
