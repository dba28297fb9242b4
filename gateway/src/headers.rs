//! Headers of requests that go on to a member and of answers that come back: what is about one connection stays there, and what
//! says who asks is ours alone.

use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::front::Front;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATE: HeaderName = HeaderName::from_static("proxy-authenticate");
const PROXY_AUTHORIZATION: HeaderName = HeaderName::from_static("proxy-authorization");

/// Of one connection, whoever sends them.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ]
    .contains(name)
}

/// The protocol that a request wants its connection to be used for.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    connection_options(headers)
        .any(|option| option == "upgrade")
        .then(|| headers.get(UPGRADE).cloned())?
}

/// What `Connection` names, in lower case.
fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = String> + '_ {
    let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|option| option.trim().to_ascii_lowercase())
}

/// The headers of a request at a member, without its identity. `Host` is the address's.
pub(crate) fn to_member(headers: &HeaderMap, front: &Front) -> HeaderMap {
    let mut kept = without_hop_by_hop(headers);
    let ours: Vec<HeaderName> = kept
        .keys()
        .filter(|name| {
            // Whoever may impersonate in a member may do everything there: that is the credential's right, not the caller's.
            name.as_str().starts_with("impersonate-")
                || name.as_str().starts_with("x-remote-")
                || front.is_ours(name)
        })
        .cloned()
        .collect();
    for name in ours.iter().chain([&AUTHORIZATION, &HOST, &EXPECT]) {
        kept.remove(name);
    }
    kept
}

/// Wants the connection to be used for another protocol.
pub(crate) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Of the host that a client believes it talks to, which is the hub's: no member decides about that.
const OF_THE_HOST: [&str; 5] =
    ["alt-svc", "clear-site-data", "set-cookie", "strict-transport-security", "www-authenticate"];

/// The headers of an answer for the caller.
pub(crate) fn to_caller(headers: &HeaderMap) -> HeaderMap {
    let mut kept = without_hop_by_hop(headers);
    for name in OF_THE_HOST {
        kept.remove(name);
    }
    kept
}

fn without_hop_by_hop(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for option in connection_options(headers) {
        if let Ok(name) = option.parse::<HeaderName>() {
            kept.remove(name);
        }
    }
    let hops: Vec<HeaderName> = kept.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    for name in hops {
        kept.remove(name);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::tests::front;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_member_says_nothing_about_the_host_of_the_hub() {
        let given = headers(&[
            ("Alt-Svc", "h3=\"evil:443\""),
            ("Clear-Site-Data", "\"*\""),
            ("Content-Type", "application/json"),
            ("Set-Cookie", "session=1"),
            ("Strict-Transport-Security", "max-age=1"),
            ("Www-Authenticate", "Negotiate"),
        ]);
        assert_eq!(names(&to_caller(&given)), ["content-type"]);
    }

    #[test]
    fn what_says_who_asks_and_what_is_of_one_connection_does_not_reach_a_member() {
        let given = headers(&[
            ("Accept", "application/json"),
            ("Authorization", "Bearer hub"),
            ("Connection", "keep-alive, X-Hop"),
            ("Content-Length", "5"),
            ("Content-Type", "application/json"),
            ("Expect", "100-continue"),
            ("Host", "hub:6443"),
            ("Impersonate-Extra-Scopes", "all"),
            ("Impersonate-Group", "system:masters"),
            ("Impersonate-Uid", "0"),
            ("Impersonate-User", "admin"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "Basic eA=="),
            ("Te", "trailers"),
            ("Transfer-Encoding", "chunked"),
            ("User-Agent", "kubectl/v1.34"),
            ("X-Forwarded-For", "10.0.0.9"),
            ("X-Hop", "1"),
            ("X-Remote-Extra-Scopes", "all"),
            ("X-Remote-Group", "dev"),
            ("X-Remote-Uid", "u"),
            ("X-Remote-User", "alice"),
            ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ]);
        assert_eq!(
            names(&to_member(&given, &front())),
            [
                "accept",
                "content-length",
                "content-type",
                "user-agent",
                "x-forwarded-for",
                "x-stream-protocol-version"
            ]
        );
    }

    #[test]
    fn upgrades_are_asked_for_by_both_headers() {
        for (given, protocol) in [
            (&[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")][..], Some("SPDY/3.1")),
            (&[("Connection", "keep-alive, upgrade"), ("Upgrade", "websocket")], Some("websocket")),
            (&[("Connection", "close"), ("Upgrade", "websocket")], None),
            (&[("Connection", "Upgrade")], None),
            (&[("Upgrade", "websocket")], None),
        ] {
            let found = upgrade(&headers(given));
            assert_eq!(found.as_ref().map(|value| value.to_str().unwrap()), protocol, "{given:?}");
        }
    }

    #[test]
    fn answers_keep_all_but_what_is_of_one_connection() {
        let given = headers(&[
            ("Audit-Id", "1"),
            ("Connection", "close"),
            ("Content-Type", "application/json"),
            ("Location", "/elsewhere"),
            ("Trailer", "x"),
            ("Transfer-Encoding", "chunked"),
            ("Warning", "299 - \"deprecated\""),
        ]);
        assert_eq!(names(&to_caller(&given)), ["audit-id", "content-type", "location", "warning"]);
    }
}
