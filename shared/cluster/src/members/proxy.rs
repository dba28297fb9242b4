//! The proxy on the way to a member: CONNECT over HTTP or HTTPS, or SOCKS5. What passes it is TLS from end to end, so that it
//! learns where the member is and nothing else.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};

use super::address::AddressRules;

/// A proxy. It may have a password: it shows nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    /// `scheme://host:port`, without a user.
    pub(crate) uri: Uri,
    user: Option<(String, String)>,
}

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// CONNECT.
    Http,
    /// CONNECT over TLS, with the authorities of the machine.
    Https,
    /// SOCKS version 5; the proxy resolves names.
    Socks,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Proxy").field(&self.kind).finish()
    }
}

impl Proxy {
    /// Reads `scheme://[user:password@]host[:port]`.
    ///
    /// # Errors
    /// What is wrong with it, in words that do not repeat it.
    pub(super) fn read(text: &str, rules: AddressRules) -> Result<Self, &'static str> {
        let given: Uri = text.trim().parse().map_err(|_| "is no URL")?;
        let (kind, scheme, port) = match given.scheme_str() {
            Some("http") => (Kind::Http, "http", 80),
            Some("https") => (Kind::Https, "https", 443),
            Some("socks5" | "socks5h") => (Kind::Socks, "socks5", 1080),
            _ => return Err("is neither an http, an https nor a socks5 proxy"),
        };
        if !matches!(given.path(), "" | "/") || given.query().is_some() || text.contains('#') {
            return Err("has a path, a query or a fragment");
        }
        let host = given.host().filter(|host| !host.is_empty()).ok_or("has no host")?;
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if literal.is_ok_and(|address| rules.refusal(address).is_some()) {
            return Err(super::address::REFUSED);
        }
        let authority = given.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let user = match authority.rsplit_once('@') {
            None => None,
            Some((user, _)) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                let read = |text| decoded(text).ok_or("has a user that cannot be read");
                Some((read(name)?, read(password)?))
            }
        };
        if user.as_ref().is_some_and(|(name, password)| name.len() > 255 || password.len() > 255) {
            return Err("has a user that is too long");
        }
        let port = given.port_u16().unwrap_or(port);
        let uri = format!("{scheme}://{host}:{port}").parse().map_err(|_| "is no URL")?;
        Ok(Self { kind, uri, user })
    }

    /// User and password.
    pub(crate) fn user(&self) -> Option<(String, String)> {
        self.user.clone()
    }

    /// The same as a header.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        let (name, password) = self.user.as_ref()?;
        let text = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

/// Resolves `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_of_three_kinds_are_read_and_the_others_refused_without_a_word_of_the_password() {
        let strict = AddressRules::default();
        for (text, expected) in [
            ("http://proxy:3128", Ok((Kind::Http, "http://proxy:3128/"))),
            ("http://proxy/\n", Ok((Kind::Http, "http://proxy:80/"))),
            ("https://10.0.0.1", Ok((Kind::Https, "https://10.0.0.1:443/"))),
            ("socks5://[2001:db8::1]:9", Ok((Kind::Socks, "socks5://[2001:db8::1]:9/"))),
            ("socks5h://u:pa55@proxy", Ok((Kind::Socks, "socks5://proxy:1080/"))),
            ("ftp://proxy", Err("neither")),
            ("proxy:3128", Err("neither")),
            ("http://", Err("")),
            ("http://proxy/path", Err("path")),
            ("http://proxy?pa55", Err("query")),
            ("http://proxy#pa55", Err("fragment")),
            ("http://u:pa55%zz@proxy", Err("user")),
            ("http://127.0.0.1:1", Err("not connected to")),
            ("http://169.254.169.254", Err("not connected to")),
            ("socks5://[::1]", Err("not connected to")),
        ] {
            let read = Proxy::read(text, strict);
            assert!(!format!("{read:?}").contains("pa55"), "{text}");
            match (read, expected) {
                (Ok(proxy), Ok((kind, uri))) => {
                    assert_eq!((proxy.kind, proxy.uri.to_string().as_str()), (kind, uri));
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
        let open = AddressRules { allow_loopback: true };
        assert!(Proxy::read("http://127.0.0.1:1", open).is_ok());
    }

    #[test]
    fn users_are_decoded() {
        let proxy = Proxy::read("http://a%40b:c%3ad@proxy", AddressRules::default()).unwrap();
        assert_eq!(proxy.user(), Some(("a@b".to_owned(), "c:d".to_owned())));
        let header = proxy.authorization().unwrap();
        assert_eq!(header.to_str().unwrap(), format!("Basic {}", STANDARD.encode("a@b:c:d")));
        assert!(header.is_sensitive());
    }
}
