//! Where a request goes: the path behind `/proxy` on the member's own, and the query. Nothing leads out of the path of an
//! endpoint: behind one address there may be many clusters.

use std::fmt::Write as _;

use http::Uri;
use http::uri::PathAndQuery;

use crate::messages;
use crate::status::Failure;

/// The address of a request at a member.
pub(crate) fn target(endpoint: &Uri, rest: &str, query: Option<&str>) -> Result<Uri, Failure> {
    let bad = || Failure::bad_request(messages::BAD_PATH);
    let mut path = endpoint.path().trim_end_matches('/').to_owned();
    for segment in cleaned(rest).ok_or_else(bad)? {
        let _ = write!(path, "/{segment}");
    }
    if path.is_empty() || (rest.ends_with('/') && !path.ends_with('/')) {
        path.push('/');
    }
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        path.push('?');
        path.push_str(&renamed(query));
    }
    let mut parts = endpoint.clone().into_parts();
    parts.path_and_query = Some(path.parse::<PathAndQuery>().map_err(|_| bad())?);
    Uri::from_parts(parts).map_err(|_| bad())
}

/// The segments of a path without empty ones, `.` and `..`; `None` if a segment hides any of them.
fn cleaned(path: &str) -> Option<Vec<&str>> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        // These end a path; one that has them as it is written is none.
        if segment.contains(['?', '#']) || !is_escaped(segment) {
            return None;
        }
        let plain = decoded(segment)?;
        match plain.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            plain => {
                // Who decodes it a second time must not find a way out either.
                let hides = |text: &str| text.split(['/', '\\']).any(|part| part == "..");
                if hides(plain)
                    || decoded(plain).is_some_and(|twice| twice != plain && hides(&twice))
                {
                    return None;
                }
                segments.push(segment);
            }
        }
    }
    Some(segments)
}

/// Whether every `%` begins an escape: what else it means is up to whoever reads it.
fn is_escaped(segment: &str) -> bool {
    segment.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// A text without percent escapes; `None` if it is none then.
pub(crate) fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        rest = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).ok()?);
                after.get(2..)?
            }
            _ => {
                bytes.push(first);
                after
            }
        };
    }
    String::from_utf8(bytes).ok()
}

/// The original's client of many clusters writes `dryRun` in a way that only a gateway reads.
fn renamed(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.strip_prefix("__dryRun") {
        Some(rest) if rest.is_empty() || rest.starts_with('=') => format!("dryRun{rest}"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Whether a key of a query has a value, as it is written.
pub(crate) fn has(query: Option<&str>, key: &str, values: &[&str]) -> bool {
    values_of(query, key).any(|value| values.contains(&value.as_str()))
}

/// The values of a key of a query.
pub(crate) fn values_of<'q>(
    query: Option<&'q str>,
    key: &'q str,
) -> impl Iterator<Item = String> + 'q {
    query.unwrap_or_default().split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == key).then(|| decoded(&value.replace('+', " ")).unwrap_or_default())
    })
}

/// Whether an answer goes on for as long as the member likes, and can be asked for again: a watch.
pub(crate) fn is_watch(query: Option<&str>) -> bool {
    has(query, "watch", &["1", "true"])
}

/// The resource that a path at a member is about, empty if it is about none.
pub(crate) fn resource_of(path: &str) -> &str {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let rest = match parts.next() {
        Some("api") => parts.next().and_then(|_| parts.next()),
        Some("apis") => parts.nth(1).and_then(|_| parts.next()),
        _ => None,
    };
    let resource = match rest {
        Some("namespaces") => {
            let name = parts.next();
            let inner = parts.next().filter(|part| !matches!(*part, "status" | "finalize"));
            inner.filter(|_| name.is_some()).or(rest)
        }
        other => other,
    };
    let is_name = |text: &&str| {
        text.len() <= 63
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    resource.filter(is_name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_cleaned() {
        let root = "https://10.0.0.1:6443";
        let deep = "https://rancher.example:443/k8s/clusters/c-1";
        for (endpoint, rest, query, expected) in [
            (root, "", None, "/"),
            (root, "/", None, "/"),
            (root, "/healthz", None, "/healthz"),
            (root, "/api/v1/pods", Some("watch=true&limit=5"), "/api/v1/pods?watch=true&limit=5"),
            (root, "//api//v1/", None, "/api/v1/"),
            (root, "/api/./v1/../v2", None, "/api/v2"),
            (root, "/../../x", None, "/x"),
            (root, "/%2e%2e/x", None, "/x"),
            (root, "/a%2Fb", None, "/a%2Fb"),
            (root, "/a%20b/c%3Fd", Some(""), "/a%20b/c%3Fd"),
            (root, "/x", Some("__dryRun=All&a=__dryRun"), "/x?dryRun=All&a=__dryRun"),
            (root, "/x", Some("dryRun=All&__dryRunner=1"), "/x?dryRun=All&__dryRunner=1"),
            (root, "/x", Some("a=b%26c&impersonate=true"), "/x?a=b%26c&impersonate=true"),
            (deep, "", None, "/k8s/clusters/c-1"),
            (deep, "/api", None, "/k8s/clusters/c-1/api"),
            (deep, "/../c-2/api", None, "/k8s/clusters/c-1/c-2/api"),
            (deep, "/a/../../../../api", None, "/k8s/clusters/c-1/api"),
        ] {
            let endpoint: Uri = endpoint.parse().unwrap();
            let target = target(&endpoint, rest, query).unwrap();
            assert_eq!(target.path_and_query().unwrap().as_str(), expected, "{rest}");
            assert_eq!(target.authority(), endpoint.authority());
            assert_eq!(target.scheme_str(), Some("https"));
        }
    }

    #[test]
    fn what_hides_a_way_out_is_refused() {
        let endpoint: Uri = "https://rancher.example/k8s/clusters/c-1".parse().unwrap();
        for rest in [
            "/..%2fc-2",
            "/a%2F..%2F..%2Fc-2",
            "/%2e%2e%2fc-2",
            "/..%5cc-2",
            "/%252e%252e%252fc-2",
            "/%252e%252e",
            "/..?",
            "/a#b",
            "/%ff",
            "/%zz",
            "/a%4",
            "/%",
        ] {
            let refused = target(&endpoint, rest, None);
            assert_eq!(refused.map_err(|failure| failure.code()), Err(400), "{rest}");
        }
    }

    #[test]
    fn resources_are_those_of_paths() {
        for (path, resource) in [
            ("/api/v1/pods", "pods"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/namespaces/a", "namespaces"),
            ("/api/v1/namespaces/a/finalize", "namespaces"),
            ("/api/v1/namespaces/a/pods/b/exec", "pods"),
            ("/apis/apps/v1/namespaces/a/deployments/b", "deployments"),
            ("/apis/apps/v1/deployments", "deployments"),
            ("/apis/apps/v1", ""),
            ("/apis", ""),
            ("/healthz", ""),
            ("/api/v1/%20", ""),
            ("", ""),
        ] {
            assert_eq!(resource_of(path), resource, "{path}");
        }
    }

    #[test]
    fn queries_are_read_as_they_are_written() {
        assert!(is_watch(Some("a=b&watch=true")) && is_watch(Some("watch=1")));
        assert!(
            !is_watch(Some("watch=false")) && !is_watch(None) && !is_watch(Some("swatch=true"))
        );
        let values: Vec<_> =
            values_of(Some("labelSelector=a%3Db%2Cc&x&labelSelector=d+e"), "labelSelector")
                .collect();
        assert_eq!(values, ["a=b,c", "d e"]);
        assert_eq!(decoded("%4"), Some("%4".to_owned()));
        assert_eq!(decoded("%C3%A9"), Some("é".to_owned()));
    }

    proptest::proptest! {
        /// Whatever is written, and however often it is decoded: what comes out is below the path of the endpoint.
        #[test]
        fn nothing_leads_out_of_an_endpoint(
            rest in "(/|\\.|\\.\\.|%2e|%2E|%2f|%5c|%25|a|\\\\|%252e|%c0|é|\\?|;){0,12}",
            query in "[a-z=&_%D+]{0,12}",
        ) {
            let endpoint: Uri = "https://h/k8s/clusters/c-1".parse().unwrap();
            if let Ok(uri) = target(&endpoint, &rest, Some(&query)) {
                let path = uri.path();
                proptest::prop_assert!(path.starts_with("/k8s/clusters/c-1"), "{path}");
                let mut text = path.to_owned();
                for _ in 0..3 {
                    let climbs = text.split(['/', '\\']).any(|part| part == "..");
                    proptest::prop_assert!(!climbs, "{path}");
                    text = decoded(&text).unwrap_or_default();
                }
            }
        }
    }
}
