//! GET over HTTP, for archives and what leads to them. Every hop is held against the egress rule, credentials go to the origin
//! they are meant for and to no other, and what is read is bounded in bytes and time.
//!
//! On the connections of `egress`: reqwest's redirects cannot be held against the rule.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::egress::{self, Egress, Stream};

use super::FetchError;
use super::auth::Credentials;

/// Redirects of one request.
const REDIRECTS: usize = 5;
/// Longest time without a byte.
const IDLE: Duration = Duration::from_secs(30);

/// What may be reached, and how.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Which addresses.
    pub egress: Egress,
    /// Whether plain HTTP is allowed at all.
    pub plain_http: bool,
    /// Beginnings of addresses that charts may come from; none: from anywhere.
    pub allowed: Vec<String>,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Get<'a> {
    /// Where.
    pub(super) url: Uri,
    /// Media types that are understood.
    pub(super) accept: &'a str,
    /// Whose request it is, at the first origin.
    pub(super) credentials: Option<&'a Credentials>,
    /// What is sent in place of the credentials' own authorization.
    pub(super) authorization: Option<HeaderValue>,
    /// Whether the authorization of the credentials is sent.
    pub(super) with_authorization: bool,
    /// Most bytes of the answer.
    pub(super) most: usize,
}

/// An answer: the body is there only if the code is 200.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) url: Uri,
}

impl<'a> Get<'a> {
    /// A request without credentials.
    pub(super) fn new(url: Uri, most: usize) -> Self {
        Self {
            url,
            accept: "*/*",
            credentials: None,
            authorization: None,
            with_authorization: true,
            most,
        }
    }

    /// The same as somebody.
    pub(super) fn with(mut self, credentials: Option<&'a Credentials>) -> Self {
        self.credentials = credentials;
        self
    }
}

/// An address in messages: queries may be secret.
pub(super) fn shown(url: &Uri) -> String {
    let authority = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    format!("{}://{authority}{}", url.scheme_str().unwrap_or_default(), url.path())
}

/// Scheme, host and port.
pub(super) fn origin(url: &Uri) -> (String, String, u16) {
    let scheme = url.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    (scheme, url.host().unwrap_or_default().to_ascii_lowercase(), port)
}

/// Reads an address, absolute or relative to a folder.
pub(super) fn join(base: &Uri, to: &str) -> Result<Uri, FetchError> {
    let wrong = |reason: &dyn std::fmt::Display| FetchError::Url {
        url: to.split(['?', '#']).next().unwrap_or_default().to_owned(),
        reason: reason.to_string(),
    };
    let to = to.split('#').next().unwrap_or_default();
    let full = if to.contains("://") {
        to.to_owned()
    } else {
        let scheme = base.scheme_str().unwrap_or_default();
        let authority = base.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        if to.starts_with("//") {
            format!("{scheme}:{to}")
        } else if to.starts_with('/') {
            format!("{scheme}://{authority}{to}")
        } else {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{to}")
        }
    };
    let url: Uri = full.parse().map_err(|error: http::uri::InvalidUri| wrong(&error))?;
    if url.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(wrong(&"an address has a host, and neither user nor password"));
    }
    Ok(url)
}

/// Carries out a request and follows redirects.
///
/// # Errors
/// There is no answer, or none that is allowed. A code other than 200 is an answer.
pub(super) async fn get(rules: &Rules, get: &Get<'_>) -> Result<Got, FetchError> {
    let first = origin(&get.url);
    let mut url = get.url.clone();
    for _ in 0..=REDIRECTS {
        let got = one(rules, get, &url, origin(&url) == first).await?;
        let redirects = matches!(got.status, 301 | 302 | 303 | 307 | 308);
        let to = got.headers.get(LOCATION).filter(|_| redirects);
        let Some(to) = to else { return Ok(got) };
        let text = to.to_str().unwrap_or_default();
        let next = join(&url, text)?;
        let is_downgrade = next.scheme_str() != Some("https") && url.scheme_str() == Some("https");
        if is_downgrade {
            return Err(FetchError::PlainHttp(shown(&next)));
        }
        url = next;
    }
    Err(FetchError::Redirects { url: shown(&get.url), most: REDIRECTS })
}

async fn one(rules: &Rules, get: &Get<'_>, url: &Uri, at_home: bool) -> Result<Got, FetchError> {
    let unreachable = |reason: String| FetchError::Unreachable { url: shown(url), reason };
    let (scheme, host, port) = origin(url);
    match scheme.as_str() {
        "https" => {}
        "http" if rules.plain_http => {}
        "http" => return Err(FetchError::PlainHttp(shown(url))),
        _ => return Err(unreachable(crate::messages::URL_SCHEME.to_owned())),
    }
    if !rules.egress.allows_host(&host) {
        return Err(unreachable(crate::messages::egress_denied(&host)));
    }
    let lost = |error: egress::ConnectError| unreachable(error.to_string());
    let stream = egress::connect(&host, port, &rules.egress).await.map_err(lost)?;
    let credentials = get.credentials.filter(|_| at_home);
    let stream: Box<dyn Stream> = if scheme == "https" {
        let own = credentials.and_then(|credentials| credentials.tls.clone());
        let config = own.map_or_else(egress::usual_tls, Ok).map_err(lost)?;
        Box::new(egress::encrypt(stream, &host, config).await.map_err(lost)?)
    } else {
        Box::new(stream)
    };
    let request = request(get, url, credentials, at_home);
    let request = request.map_err(|error| unreachable(error.to_string()))?;
    exchange(stream, request, url, get.most).await
}

fn request(
    get: &Get<'_>,
    url: &Uri,
    credentials: Option<&Credentials>,
    at_home: bool,
) -> Result<Request<Empty<Bytes>>, http::Error> {
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let host = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let mut builder = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, "vela-controller")
        .header(ACCEPT, get.accept);
    let given = get.authorization.clone().filter(|_| at_home);
    let own = credentials.filter(|_| get.with_authorization);
    let own = own.and_then(|credentials| credentials.authorization.as_ref()?.header());
    if let Some(value) = given.or(own) {
        builder = builder.header(AUTHORIZATION, value);
    }
    builder.body(Empty::new())
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Empty<Bytes>>,
    url: &Uri,
    most: usize,
) -> Result<Got, FetchError> {
    let unreachable = |error: hyper::Error| FetchError::Unreachable {
        url: shown(url),
        reason: error.to_string(),
    };
    let talk = async {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(unreachable)?;
        let answer = async move {
            let idle = tokio::time::timeout(IDLE, sender.send_request(request)).await;
            let answer = idle.map_err(|_| late(url))?.map_err(unreachable)?;
            let (head, body) = answer.into_parts();
            let status = head.status.as_u16();
            let body = if status == 200 { read(body, url, most).await? } else { Vec::new() };
            Ok(Got { status, headers: head.headers, body, url: url.clone() })
        };
        tokio::pin!(answer, connection);
        let mut open = true;
        loop {
            tokio::select! {
                outcome = &mut answer => return outcome,
                // The connection is driven until the answer is there; its own error shows up in the answer.
                _ = &mut connection, if open => open = false,
            }
        }
    };
    talk.await
}

fn late(url: &Uri) -> FetchError {
    FetchError::Timeout { url: shown(url), seconds: IDLE.as_secs() }
}

async fn read(mut body: Incoming, url: &Uri, most: usize) -> Result<Vec<u8>, FetchError> {
    let too_large = || FetchError::TooLarge { url: shown(url), most };
    let mut out = Vec::new();
    loop {
        let frame = tokio::time::timeout(IDLE, body.frame()).await.map_err(|_| late(url))?;
        let Some(frame) = frame else { return Ok(out) };
        let frame = frame.map_err(|error| FetchError::Unreachable {
            url: shown(url),
            reason: error.to_string(),
        })?;
        if let Some(data) = frame.data_ref() {
            if out.len().saturating_add(data.len()) > most {
                return Err(too_large());
            }
            out.extend_from_slice(data);
        }
    }
}

/// A server whose certificate nobody verifies: what `insecureSkipTLS` in a Secret asks for.
#[derive(Debug)]
pub(super) struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let all = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, all)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let all = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, all)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
