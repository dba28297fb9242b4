//! Access control of requests: only reads, to an allowed host name, not caused by another site's page.
//!
//! A browser sends what any page asks for to a server on loopback. A page of another origin gets no answer to read, and one whose
//! name was pointed at this address (DNS rebinding) comes with that name as host.

use std::collections::BTreeSet;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

/// Names under which everybody reaches a server on the own machine, through a tunnel too.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names that this server answers to.
#[derive(Debug, Clone)]
pub(super) struct Hosts(BTreeSet<String>);

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("only reads are answered here")]
    Method,
    #[error("this server does not answer to that host name (--host names those it answers to)")]
    Host,
    #[error("requests of other pages are not answered")]
    Origin,
    #[error("a key or token is needed")]
    Credential,
}

impl Refusal {
    pub(super) const fn code(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Credential => StatusCode::UNAUTHORIZED,
        }
    }
}

impl Hosts {
    /// Loopback, and these.
    pub(super) fn new(others: impl IntoIterator<Item = String>) -> Self {
        let all = LOOPBACK.iter().map(|&name| name.to_owned());
        Self(all.chain(others.into_iter().map(|name| name.to_ascii_lowercase())).collect())
    }

    /// Whether a request may be answered.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, request: &Parts) -> Result<(), Refusal> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(Refusal::Method);
        }
        let host = authority(request).ok_or(Refusal::Host)?;
        // A name that somebody pointed at this address is not among those that were given.
        if !self.0.contains(&bare(&host).to_ascii_lowercase()) {
            return Err(Refusal::Host);
        }
        let is_own = |origin: &str| {
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(&host))
        };
        // All of them: a second header must not make up for the first.
        let origins = request.headers.get_all(ORIGIN);
        if !origins.iter().all(|origin| origin.to_str().is_ok_and(is_own)) {
            return Err(Refusal::Origin);
        }
        // A link to the page is followed from anywhere; data are read by the page only.
        let site = request.headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
        let is_foreign = site.is_some_and(|site| site != b"same-origin" && site != b"none");
        if request.uri.path().starts_with("/api/") && is_foreign {
            return Err(Refusal::Origin);
        }
        Ok(())
    }
}

/// The host that a request names: once.
fn authority(request: &Parts) -> Option<String> {
    let mut named = request.headers.get_all(HOST).iter();
    let header = match (named.next(), named.next()) {
        (Some(host), None) => Some(host.to_str().ok()?),
        (None, _) => None,
        // Two hosts are read differently by a proxy and by this server.
        (Some(_), Some(_)) => return None,
    };
    let target = request.uri.authority().map(http::uri::Authority::as_str);
    match (header, target) {
        (Some(header), Some(target)) if !header.eq_ignore_ascii_case(target) => None,
        (header, target) => header.or(target).map(str::to_owned),
    }
}

/// A host without its port.
fn bare(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The credential of a request.
///
/// # Errors
/// There is none.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
    token.filter(|token| !token.is_empty()).ok_or(Refusal::Credential)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Hosts::new(["Vela.Example".to_owned()]).check(&parts)
    }

    #[test]
    fn only_reads_under_our_names_and_of_our_page_are_answered() {
        let api = "/api/applications";
        for (method, path, headers, expected) in [
            ("GET", "/", vec![("host", "localhost:9180")], Ok(())),
            ("HEAD", "/", vec![("host", "127.0.0.1")], Ok(())),
            ("GET", api, vec![("host", "[::1]:9180")], Ok(())),
            ("GET", api, vec![("host", "vela.example")], Ok(())),
            ("POST", api, vec![("host", "localhost")], Err(Refusal::Method)),
            ("DELETE", "/", vec![("host", "localhost")], Err(Refusal::Method)),
            ("GET", "/", vec![], Err(Refusal::Host)),
            ("GET", "/", vec![("host", "evil.example")], Err(Refusal::Host)),
            ("GET", "/", vec![("host", "localhost.evil.example")], Err(Refusal::Host)),
            ("GET", "/", vec![("host", "127.0.0.1.nip.example:80")], Err(Refusal::Host)),
            ("GET", "/", vec![("host", "localhost:80@evil")], Err(Refusal::Host)),
            ("GET", "/", vec![("host", "localhost"), ("host", "evil.example")], Err(Refusal::Host)),
            ("GET", "http://evil.example/", vec![("host", "localhost")], Err(Refusal::Host)),
            ("GET", api, vec![("host", "localhost:1"), ("origin", "http://localhost:1")], Ok(())),
            (
                "GET",
                api,
                vec![("host", "localhost:1"), ("origin", "http://localhost:2")],
                Err(Refusal::Origin),
            ),
            ("GET", api, vec![("host", "localhost"), ("origin", "null")], Err(Refusal::Origin)),
            (
                "GET",
                api,
                vec![("host", "localhost"), ("sec-fetch-site", "cross-site")],
                Err(Refusal::Origin),
            ),
            (
                "GET",
                api,
                vec![("host", "localhost"), ("sec-fetch-site", "same-site")],
                Err(Refusal::Origin),
            ),
            ("GET", "/", vec![("host", "localhost"), ("sec-fetch-site", "cross-site")], Ok(())),
        ] {
            assert_eq!(checked(method, path, &headers), expected, "{method} {path} {headers:?}");
        }
    }

    #[test]
    fn a_credential_is_a_bearer_token() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), Err(Refusal::Credential));
        for (value, expected) in
            [("Bearer abc", Some("abc")), ("Basic abc", None), ("Bearer ", None)]
        {
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers).ok(), expected, "{value}");
        }
    }
}
