//! A request of the table on the wire, and its answer.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use vela_tests::wire::{self, Without, field, header};

use super::cases::{Body, Case, Via};
use crate::gateway::BASE;

const LIMIT: Duration = Duration::from_secs(15);
/// What is sent, and comes back, over a connection of another protocol.
static PAYLOAD: [u8; 40_000] = [7; 40_000];

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The code; empty if there was no answer.
    pub(super) status: String,
    /// Codes of answers before it.
    pub(super) interim: Vec<String>,
    pub(super) header: String,
    pub(super) body: wire::Body,
}

/// Sends a request and reads what comes back.
pub(super) async fn send(
    stream: &mut TlsStream<TcpStream>,
    case: &Case,
    via: Via,
    agent: &str,
    namespace: &str,
) -> Answer {
    let head = head(case, via, agent, namespace);
    tokio::time::timeout(LIMIT, exchange(stream, &head, case)).await.unwrap_or_default()
}

fn head(case: &Case, via: Via, agent: &str, namespace: &str) -> String {
    let path = match case.path {
        "" => BASE.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{BASE}/{path}"),
    };
    let path = path.replace("{NS}", namespace);
    let mut head = format!("{} {path} HTTP/1.1\r\nHost: hub.example:6443\r\n", case.method);
    let mut add = |line: &str| head.extend([line, "\r\n"]);
    add(&format!("User-Agent: {agent}"));
    case.fields.iter().for_each(|line| add(line));
    if !case.fields.iter().any(|line| line.starts_with("Accept:")) {
        add("Accept: application/json");
    }
    if via == Via::Direct {
        add(&format!("X-Remote-User: {}", case.who.user));
        // What the API server adds to everybody that it knows.
        for group in case.who.groups.iter().chain(&["system:authenticated"]) {
            add(&format!("X-Remote-Group: {group}"));
        }
        case.who.fields.iter().for_each(|line| add(line));
    }
    let own = match &case.body {
        Body::None => "Connection: close".to_owned(),
        Body::Text(text) => format!("Connection: close\r\nContent-Length: {}", text.len()),
        Body::Long(length) => format!("Connection: close\r\nContent-Length: {length}"),
        Body::Chunked(_) => {
            "Connection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum".to_owned()
        }
        Body::Expected(text) => {
            format!("Connection: close\r\nExpect: 100-continue\r\nContent-Length: {}", text.len())
        }
        Body::Upgrade(protocol) => format!("Connection: Upgrade\r\nUpgrade: {protocol}"),
    };
    add(&own);
    head.push_str("\r\n");
    head
}

async fn exchange(stream: &mut TlsStream<TcpStream>, head: &str, case: &Case) -> Answer {
    let mut answer = Answer::default();
    let mut bytes = head.as_bytes().to_vec();
    match &case.body {
        Body::None | Body::Upgrade(_) | Body::Expected(_) => {}
        Body::Text(text) => bytes.extend(text.as_bytes()),
        Body::Long(length) => bytes.resize(bytes.len() + length, b'x'),
        Body::Chunked(chunks) => {
            for chunk in *chunks {
                bytes.extend(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes());
            }
            bytes.extend(b"0\r\nX-Sum: 1\r\n\r\n");
        }
    }
    // Who is refused before he has said everything reads the answer all the same.
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        let _ = writer.write_all(&bytes).await;
        let _ = writer.flush().await;
    };
    let (Ok(mut found), ()) = futures::join!(header(&mut reader), write) else { return answer };
    while code(&found).starts_with('1') && code(&found) != "101" {
        answer.interim.push(code(&found).to_owned());
        if let (Body::Expected(text), "100") = (&case.body, code(&found)) {
            let _ = writer.write_all(text.as_bytes()).await;
            let _ = writer.flush().await;
        }
        match header(&mut reader).await {
            Ok(next) => found = next,
            Err(_) => return answer,
        }
    }
    answer.status = code(&found).to_owned();
    answer.body = match answer.status.as_str() {
        "101" => {
            let mut back = vec![0; PAYLOAD.len()];
            let write = async {
                let _ = writer.write_all(&PAYLOAD).await;
                let _ = writer.flush().await;
            };
            let (read, ()) = futures::join!(reader.read_exact(&mut back), write);
            let is_same = read.is_ok() && back == PAYLOAD;
            let bytes = format!("all of it back: {is_same}").into_bytes();
            wire::Body { bytes, ..wire::Body::default() }
        }
        "204" | "304" => wire::Body::default(),
        _ if case.method == "HEAD" => wire::Body::default(),
        _ => wire::body(&mut reader, &found, Without::Connection).await,
    };
    let packed = field(&found, "content-encoding") == Some("gzip");
    if let Some(bytes) = packed.then(|| unpacked(&answer.body.bytes)).flatten() {
        answer.body.bytes = bytes;
    }
    answer.header = found;
    answer
}

/// The code in the first line of a header.
fn code(header: &str) -> &str {
    header.split(' ').nth(1).unwrap_or_default()
}

fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}
