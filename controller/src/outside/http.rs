//! One HTTP request of a step.
//!
//! Bounded in time and in what is read. Redirects are followed for GET only, and each hop is held against the egress rule.
//! Connecting and sending are two steps, so that the caller can note an intent in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;

use super::{Egress, Stream};
use crate::messages;

/// Longest request.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Time of a request that says nothing.
pub const USUAL: Duration = Duration::from_secs(3);
/// Most bytes of an answer: it must fit into the notes of the workflow.
pub const MOST: usize = 256 * 1024;
const REDIRECTS: usize = 10;

/// What to ask.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Method.
    pub method: Method,
    /// Where.
    pub url: Uri,
    /// Headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Body.
    pub body: Vec<u8>,
    /// Bound of the whole request.
    pub timeout: Duration,
    /// TLS, if not the usual one.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// What was answered.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Trailers.
    pub trailers: BTreeMap<String, Vec<String>>,
    /// Body; what is no UTF-8 is replaced.
    pub body: String,
}

/// A connection on which nothing was sent yet.
pub struct Ready {
    stream: Box<dyn Stream>,
    ask: Ask,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("method", &self.ask.method).finish_non_exhaustive()
    }
}

/// Reaches the server.
///
/// # Errors
/// In words; nothing was sent.
pub async fn reach(ask: Ask, egress: &Egress) -> Result<Ready, String> {
    let host = ask.url.host().ok_or(messages::URL_WITHOUT_HOST)?.to_owned();
    let secure = match ask.url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(messages::URL_SCHEME.to_owned()),
    };
    let port = ask.url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = super::connect(&host, port, egress).await?;
    let stream: Box<dyn Stream> = if secure {
        let config = ask.tls.clone().map_or_else(super::usual_tls, Ok)?;
        Box::new(super::encrypt(stream, &host, config).await?)
    } else {
        Box::new(stream)
    };
    Ok(Ready { stream, ask })
}

/// Sends the request and reads the answer.
///
/// # Errors
/// In words; it is not known what the server made of it.
pub async fn send(ready: Ready) -> Result<Told, String> {
    let timeout = ready.ask.timeout;
    match tokio::time::timeout(timeout, exchange(ready)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(messages::request_timeout(&format!("{timeout:?}"))),
    }
}

/// Asks and follows redirects; for methods that may be repeated.
///
/// # Errors
/// In words.
pub async fn get(mut ask: Ask, egress: &Egress) -> Result<Told, String> {
    for _ in 0..REDIRECTS {
        let told = send(reach(ask.clone(), egress).await?).await?;
        let redirects = matches!(told.status, 301 | 302 | 303 | 307 | 308);
        let to = told.headers.get("Location").and_then(|all| all.first());
        let Some(to) = to.filter(|_| redirects && ask.method == Method::GET) else {
            return Ok(told);
        };
        let next = joined(&ask.url, to)?;
        // what was meant for one host is not told to another
        if next.authority() != ask.url.authority() || next.scheme() != ask.url.scheme() {
            let secret = |name: &HeaderName| {
                *name == http::header::AUTHORIZATION || *name == http::header::COOKIE
            };
            ask.headers.retain(|(name, _)| !secret(name));
        }
        ask.url = next;
    }
    Err(messages::too_many_redirects(REDIRECTS))
}

/// Where a redirect leads.
fn joined(base: &Uri, to: &str) -> Result<Uri, String> {
    let wrong = |error: &dyn std::fmt::Display| messages::bad_url(&error.to_string());
    let target: Uri = to.parse().map_err(|e: http::uri::InvalidUri| wrong(&e))?;
    if target.scheme().is_some() {
        return Ok(target);
    }
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let mut parts = base.clone().into_parts();
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{path}")
    };
    parts.path_and_query = Some(path.parse().map_err(|e: http::uri::InvalidUri| wrong(&e))?);
    Uri::from_parts(parts).map_err(|e| wrong(&e))
}

async fn exchange(ready: Ready) -> Result<Told, String> {
    let Ready { stream, ask } = ready;
    let told = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let request = request(&ask)?;
    let talk = async move {
        let answer = sender.send_request(request).await.map_err(told)?;
        let status = answer.status().as_u16();
        let headers = listed(answer.headers());
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        let body = body.map_err(|error| messages::answer_unreadable(&error.to_string(), MOST))?;
        let trailers = body.trailers().map(listed).unwrap_or_default();
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Told { status, headers, trailers, body })
    };
    tokio::pin!(talk);
    tokio::pin!(connection);
    let mut open = true;
    loop {
        tokio::select! {
            outcome = &mut talk => return outcome,
            // the connection is driven until the answer is there; its own error shows up in the answer
            _ = &mut connection, if open => open = false,
        }
    }
}

fn request(ask: &Ask) -> Result<Request<Full<Bytes>>, String> {
    let path = ask.url.path_and_query().map_or("/", |path| path.as_str());
    let authority = ask.url.authority().map(|a| a.as_str()).unwrap_or_default();
    // user and password are no part of the host
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut builder = Request::builder().method(ask.method.clone()).uri(path);
    let given = |name: &HeaderName| ask.headers.iter().any(|(known, _)| known == name);
    if !given(&http::header::HOST) {
        builder = builder.header(http::header::HOST, host);
    }
    if !given(&http::header::CONTENT_TYPE) {
        builder = builder.header(http::header::CONTENT_TYPE, "application/json");
    }
    if !given(&http::header::USER_AGENT) {
        builder = builder.header(http::header::USER_AGENT, "vela-controller");
    }
    for (name, value) in &ask.headers {
        builder = builder.header(name, value);
    }
    builder.body(Full::new(Bytes::from(ask.body.clone()))).map_err(|error| error.to_string())
}

/// Headers as Go spells them: `Content-Type`.
fn listed(headers: &http::HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let parts: Vec<String> = name
            .as_str()
            .split('-')
            .map(|part| {
                let mut chars = part.chars();
                chars.next().map_or_else(String::new, |first| {
                    first.to_ascii_uppercase().to_string() + chars.as_str()
                })
            })
            .collect();
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        out.entry(parts.join("-")).or_default().push(value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::egress::open;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn ask(method: Method, url: &str) -> Ask {
        Ask {
            method,
            url: url.parse().unwrap(),
            headers: Vec::new(),
            body: b"{}".to_vec(),
            timeout: Duration::from_secs(5),
            tls: None,
        }
    }

    /// Answers each connection with the next text, and gives what it was asked.
    async fn server(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 4096];
                let n = stream.read(&mut bytes).await.unwrap();
                asked.push(String::from_utf8_lossy(&bytes[..n]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        (address, task)
    }

    #[tokio::test]
    async fn a_request_and_its_answer() {
        let answer = "HTTP/1.1 201 Created\r\nx-one: a\r\nX-One: b\r\ncontent-length: 2\r\n\r\nok";
        let (address, asked) = server(vec![answer.to_owned()]).await;
        let mut ask = ask(Method::POST, &format!("http://user:pass@{address}/p?q=1"));
        ask.headers.push((HeaderName::from_static("x-a"), HeaderValue::from_static("v")));
        let told = send(reach(ask, &open()).await.unwrap()).await.unwrap();
        assert_eq!((told.status, told.body.as_str()), (201, "ok"));
        assert_eq!(told.headers["X-One"], ["a", "b"]);
        let asked = asked.await.unwrap().remove(0);
        assert!(asked.starts_with("POST /p?q=1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains(&format!("host: {address}\r\n")) && asked.contains("x-a: v\r\n"));
        assert!(asked.contains("content-type: application/json\r\n") && !asked.contains("pass"));
    }

    #[tokio::test]
    async fn redirects_are_followed_and_held_against_the_rule() {
        let redirect = |to: &str| {
            format!(
                "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        };
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere".to_owned();
        let (address, asked) = server(vec![redirect("/there"), ok]).await;
        let told = get(ask(Method::GET, &format!("http://{address}/")), &open()).await;
        assert_eq!(told.unwrap().body, "here");
        assert!(asked.await.unwrap()[1].starts_with("GET /there "));
        let (address, _asked) = server(vec![redirect("http://169.254.169.254/latest")]).await;
        let told = get(ask(Method::GET, &format!("http://{address}/")), &open()).await;
        assert!(told.unwrap_err().contains("not allowed"));
    }

    #[tokio::test]
    async fn what_is_refused() {
        let egress = open();
        let reach =
            async |url: &str| reach(ask(Method::GET, url), &egress).await.map(|_| ()).unwrap_err();
        assert!(
            reach("http://127.0.0.1:1/x")
                .await
                .contains("dial tcp 127.0.0.1:1: connect: connection refused")
        );
        assert!(reach("http://169.254.169.254/").await.contains("not allowed"));
        assert!(reach("ftp://127.0.0.1/").await.contains("http"));
        assert!(reach("/path").await.contains("host"));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_or_too_late() {
        let long = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}",
            MOST + 1,
            "x".repeat(MOST + 1)
        );
        let (address, _asked) = server(vec![long]).await;
        let egress = open();
        let told = get(ask(Method::GET, &format!("http://{address}/")), &egress).await;
        assert!(told.unwrap_err().contains("262144"));
        let (address, _asked) = server(vec![String::new()]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = listener.local_addr().unwrap().to_string();
        let mut late = ask(Method::GET, &format!("http://{silent}/"));
        late.timeout = Duration::from_millis(50);
        assert!(get(late, &egress).await.unwrap_err().contains("50ms"));
        assert!(get(ask(Method::GET, &format!("http://{address}/")), &egress).await.is_err());
    }
}
