//! One HTTP request of a step.
//!
//! Bounded in time and in what is read. Redirects are followed for GET only, and each hop is held against the egress rule.
//! Connecting and sending are two steps, so that the caller can note an intent in between.
//!
//! On hyper: reqwest connects and sends in one step, and resolves no address that is written as a number.

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
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Time of a request that says nothing.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of an answer: it must fit into the notes of the workflow.
pub const MAX_BODY: usize = 256 * 1024;
const REDIRECTS: usize = 10;

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] super::ConnectError),
    /// A URL that names no host.
    #[error("{}", messages::URL_WITHOUT_HOST)]
    NoHost,
    /// A URL that is neither http nor https.
    #[error("{}", messages::URL_SCHEME)]
    Scheme,
    /// A redirect to what is no URL.
    #[error("{}", messages::bad_url(.reason))]
    BadUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The server takes too long.
    #[error("{}", timed_out(.timeout))]
    Timeout {
        /// The bound of the request.
        timeout: Duration,
    },
    /// Redirects without an end.
    #[error("{}", messages::too_many_redirects(REDIRECTS))]
    Redirects,
    /// The exchange with the server failed.
    #[error(transparent)]
    Exchange(#[from] hyper::Error),
    /// An answer that is too long, or breaks off.
    #[error("{}", messages::answer_unreadable(.reason, MAX_BODY))]
    Unreadable {
        /// What went wrong.
        reason: String,
    },
    /// Parts that make no request.
    #[error(transparent)]
    Request(#[from] http::Error),
}

fn timed_out(timeout: &Duration) -> String {
    messages::request_timeout(&format!("{timeout:?}"))
}

/// What to ask.
#[derive(Debug, Clone)]
pub struct HttpRequest {
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
pub struct HttpResponse {
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
    http_request: HttpRequest,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("method", &self.http_request.method).finish_non_exhaustive()
    }
}

/// Reaches the server.
///
/// # Errors
/// Nothing was sent.
pub async fn reach(http_request: HttpRequest, egress: &Egress) -> Result<Ready, HttpError> {
    let host = http_request.url.host().ok_or(HttpError::NoHost)?.to_owned();
    let secure = match http_request.url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(HttpError::Scheme),
    };
    let port = http_request.url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = super::connect(&host, port, egress).await?;
    let stream: Box<dyn Stream> = if secure {
        let config = http_request.tls.clone().map_or_else(super::usual_tls, Ok)?;
        Box::new(super::encrypt(stream, &host, config).await?)
    } else {
        Box::new(stream)
    };
    Ok(Ready { stream, http_request })
}

/// Sends the request and reads the answer.
///
/// # Errors
/// It is not known what the server made of it.
pub async fn send(ready: Ready) -> Result<HttpResponse, HttpError> {
    // Headers and body together: a server that sends a byte a second gets no more time than a
    // silent one.
    let timeout = ready.http_request.timeout;
    match tokio::time::timeout(timeout, exchange(ready)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(HttpError::Timeout { timeout }),
    }
}

/// Asks and follows redirects; for methods that may be repeated.
///
/// # Errors
/// As [`reach`] and [`send`]; too many redirects, or one that leads nowhere.
pub async fn get(
    mut http_request: HttpRequest,
    egress: &Egress,
) -> Result<HttpResponse, HttpError> {
    for _ in 0..REDIRECTS {
        // Each hop goes through the egress rule: a redirect is how a server outside reaches one
        // inside.
        let response = send(reach(http_request.clone(), egress).await?).await?;
        let redirects = matches!(response.status, 301 | 302 | 303 | 307 | 308);
        let to = response.headers.get("Location").and_then(|all| all.first());
        // Another method would have to be sent again with its body, and it is not known what the
        // first one did.
        let Some(to) = to.filter(|_| redirects && http_request.method == Method::GET) else {
            return Ok(response);
        };
        let next = joined(&http_request.url, to)?;
        // what was meant for one host is not told to another
        if next.authority() != http_request.url.authority()
            || next.scheme() != http_request.url.scheme()
        {
            let secret = |name: &HeaderName| {
                *name == http::header::AUTHORIZATION || *name == http::header::COOKIE
            };
            http_request.headers.retain(|(name, _)| !secret(name));
        }
        http_request.url = next;
    }
    Err(HttpError::Redirects)
}

/// Where a redirect leads.
fn joined(base: &Uri, to: &str) -> Result<Uri, HttpError> {
    let wrong = |error: &dyn std::fmt::Display| HttpError::BadUrl { reason: error.to_string() };
    let target: Uri = to.parse().map_err(|e: http::uri::InvalidUri| wrong(&e))?;
    // RFC 9110 allows a reference relative to the URL of the request.
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

async fn exchange(ready: Ready) -> Result<HttpResponse, HttpError> {
    let Ready { stream, http_request } = ready;
    let (mut sender, connection) =
        // No pool: the connection goes to the address that was checked for this request, and ends
        // with it.
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = request(&http_request)?;
    let talk = async move {
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let headers = listed(answer.headers());
        // A length that the server states is not trusted; what is read is counted.
        let body = Limited::new(answer.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|error| HttpError::Unreadable { reason: error.to_string() })?;
        let trailers = body.trailers().map(listed).unwrap_or_default();
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(HttpResponse { status, headers, trailers, body })
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

fn request(http_request: &HttpRequest) -> Result<Request<Full<Bytes>>, HttpError> {
    let path = http_request.url.path_and_query().map_or("/", |path| path.as_str());
    let authority = http_request.url.authority().map(|a| a.as_str()).unwrap_or_default();
    // user and password are no part of the host
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut builder = Request::builder().method(http_request.method.clone()).uri(path);
    // A template's own headers replace the defaults.
    let given = |name: &HeaderName| http_request.headers.iter().any(|(known, _)| known == name);
    if !given(&http::header::HOST) {
        builder = builder.header(http::header::HOST, host);
    }
    if !given(&http::header::CONTENT_TYPE) {
        builder = builder.header(http::header::CONTENT_TYPE, "application/json");
    }
    if !given(&http::header::USER_AGENT) {
        builder = builder.header(http::header::USER_AGENT, "vela-controller");
    }
    for (name, value) in &http_request.headers {
        builder = builder.header(name, value);
    }
    Ok(builder.body(Full::new(Bytes::from(http_request.body.clone())))?)
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
    use crate::egress::policy::open;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn http_request(method: Method, url: &str) -> HttpRequest {
        HttpRequest {
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
        let mut http_request =
            http_request(Method::POST, &format!("http://user:pass@{address}/p?q=1"));
        http_request.headers.push((HeaderName::from_static("x-a"), HeaderValue::from_static("v")));
        let response = send(reach(http_request, &open()).await.unwrap()).await.unwrap();
        assert_eq!((response.status, response.body.as_str()), (201, "ok"));
        assert_eq!(response.headers["X-One"], ["a", "b"]);
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
        let response = get(http_request(Method::GET, &format!("http://{address}/")), &open()).await;
        assert_eq!(response.unwrap().body, "here");
        assert!(asked.await.unwrap()[1].starts_with("GET /there "));
        let (address, _asked) = server(vec![redirect("http://169.254.169.254/latest")]).await;
        let response = get(http_request(Method::GET, &format!("http://{address}/")), &open()).await;
        assert!(response.unwrap_err().to_string().contains("not allowed"));
    }

    #[tokio::test]
    async fn what_is_refused() {
        let egress = open();
        let reach = async |url: &str| {
            reach(http_request(Method::GET, url), &egress)
                .await
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
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
            MAX_BODY + 1,
            "x".repeat(MAX_BODY + 1)
        );
        let (address, _asked) = server(vec![long]).await;
        let egress = open();
        let response = get(http_request(Method::GET, &format!("http://{address}/")), &egress).await;
        assert!(response.unwrap_err().to_string().contains("262144"));
        let (address, _asked) = server(vec![String::new()]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = listener.local_addr().unwrap().to_string();
        let mut late = http_request(Method::GET, &format!("http://{silent}/"));
        late.timeout = Duration::from_millis(50);
        assert!(get(late, &egress).await.unwrap_err().to_string().contains("50ms"));
        assert!(
            get(http_request(Method::GET, &format!("http://{address}/")), &egress).await.is_err()
        );
    }
}
