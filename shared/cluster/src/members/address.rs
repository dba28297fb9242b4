//! Where a member's API server may be: `https` only, and never an address of the machine itself, of its link or of a metadata
//! service. A literal address is checked when the Secret is read, a name each time it is resolved.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Loopback is allowed: members of tests are there.
    pub allow_loopback: bool,
}

impl AddressRules {
    /// Why an address may not be connected to; `None` if it may.
    #[must_use]
    pub fn refusal(self, address: IpAddr) -> Option<&'static str> {
        // An IPv4 address in the clothes of an IPv6 address is judged as what it is.
        let address = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
            v4 @ IpAddr::V4(_) => v4,
        };
        if address.is_loopback() {
            return (!self.allow_loopback).then_some("a loopback address");
        }
        if address.is_unspecified() {
            return Some("an unspecified address");
        }
        if address.is_multicast() {
            return Some("a multicast address");
        }
        match address {
            IpAddr::V4(v4) if v4.is_link_local() => Some("a link-local address"),
            IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0 => {
                Some("a broadcast address")
            }
            IpAddr::V4(v4) if METADATA_V4.contains(&v4.octets()) => {
                Some("the address of a metadata service")
            }
            IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80 => Some("a link-local address"),
            IpAddr::V6(v6) if METADATA_V6.contains(&v6.segments()) => {
                Some("the address of a metadata service")
            }
            // These lead to an IPv4 address that nothing here has judged.
            IpAddr::V6(v6)
                if matches!(
                    v6.segments(),
                    [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0, ..]
                ) =>
            {
                Some("an address that stands for another one")
            }
            _ => None,
        }
    }
}

/// Where clouds hand out credentials of the machine, beside the link-local address of most of them.
const METADATA_V4: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];
const METADATA_V6: [[u16; 8]; 3] = [
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42],
    [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
];

/// What is said of a literal address that the rules refuse.
pub(super) const REFUSED: &str =
    "is an address that is not connected to (loopback, link-local, metadata service, multicast)";

/// Reads the address of a member's API server: `https://host[:port][/path]`.
///
/// # Errors
/// What is wrong with it, in words that do not repeat it: it may hold a password.
pub(super) fn endpoint(text: &str, rules: AddressRules) -> Result<Uri, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty");
    }
    if text.contains('#') {
        return Err("has a fragment");
    }
    let uri: Uri = text.parse().map_err(|_| "is no URL")?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") => return Err("is http: credentials are sent over https only"),
        Some(_) => return Err("is neither https nor http"),
        None => return Err("has no scheme, write https://host:port"),
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err("has a user in it");
    }
    if uri.query().is_some() {
        return Err("has a query");
    }
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err("has no host");
    }
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse()
        && rules.refusal(address).is_some()
    {
        return Err(REFUSED);
    }
    Ok(uri)
}

/// Resolves names; with rules, addresses that may not be connected to are left out.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    inner: GaiResolver,
    rules: Option<AddressRules>,
}

impl Resolver {
    pub(crate) fn new(rules: Option<AddressRules>) -> Self {
        Self { inner: GaiResolver::new(), rules }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (rules, host) = (self.rules, name.to_string());
        let found = self.inner.call(name);
        Box::pin(async move {
            let all: Vec<SocketAddr> = found.await?.collect();
            let allowed = permitted(all, rules).map_err(|why| {
                io::Error::new(io::ErrorKind::PermissionDenied, format!("{host} resolves to {why}"))
            })?;
            Ok(allowed.into_iter())
        })
    }
}

/// Those of some addresses that may be connected to; if none may be, why not.
fn permitted(
    mut all: Vec<SocketAddr>,
    rules: Option<AddressRules>,
) -> Result<Vec<SocketAddr>, &'static str> {
    let Some(rules) = rules else { return Ok(all) };
    let refused = all.iter().find_map(|address| rules.refusal(address.ip()));
    all.retain(|address| rules.refusal(address.ip()).is_none());
    match refused {
        Some(why) if all.is_empty() => Err(why),
        _ => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: AddressRules = AddressRules { allow_loopback: false };

    #[test]
    fn only_https_addresses_of_other_machines_are_taken() {
        for (text, taken) in [
            ("https://10.0.0.1:6443", true),
            ("https://192.168.1.1", true),
            ("https://api.example.com:6443/k8s/clusters/c-1\n", true),
            ("https://[2001:db8::1]:6443", true),
            ("", false),
            ("api.example.com:6443", false),
            ("http://10.0.0.1:6443", false),
            ("ftp://10.0.0.1", false),
            ("https://user:secret@10.0.0.1", false),
            ("https://10.0.0.1?x=y", false),
            ("https://10.0.0.1#x", false),
            ("https://", false),
            ("https://127.0.0.1:6443", false),
            ("https://[::1]:6443", false),
            ("https://169.254.169.254", false),
            ("https://0.0.0.0", false),
            ("https://224.0.0.1", false),
            ("https://255.255.255.255", false),
            ("https://100.100.100.200", false),
            ("https://[fe80::1]", false),
            ("https://[fd00:ec2::254]", false),
            ("https://[::ffff:169.254.169.254]", false),
            ("https://[64:ff9b::a9fe:a9fe]", false),
            ("https://[2002:a9fe:a9fe::1]", false),
        ] {
            let read = endpoint(text, STRICT);
            assert_eq!(read.is_ok(), taken, "{text}: {read:?}");
            assert!(!format!("{read:?}").contains("secret"), "{text}");
        }
        let open = AddressRules { allow_loopback: true };
        assert!(endpoint("https://127.0.0.1:1", open).is_ok());
        assert!(endpoint("https://169.254.169.254", open).is_err());
    }

    #[test]
    fn of_what_a_name_resolves_to_only_the_allowed_is_left() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let good: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let mixed = permitted(all(&["169.254.169.254:1", "10.0.0.1:1"]), Some(STRICT));
        assert_eq!(mixed, Ok(vec![good]));
        assert_eq!(permitted(all(&["127.0.0.1:1"]), Some(STRICT)), Err("a loopback address"));
        assert_eq!(permitted(all(&["127.0.0.1:1"]), None).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let mut resolver = Resolver::new(Some(STRICT));
        let error = resolver.call("localhost".parse().unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("localhost resolves to"), "{error}");
        let mut resolver = Resolver::new(None);
        assert!(resolver.call("localhost".parse().unwrap()).await.unwrap().count() > 0);
    }
}
