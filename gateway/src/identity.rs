//! As whom a request reaches a member: as the credential of its Secret, or as the user who made it, as rules say.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use vela_cluster::Identity;
use vela_cluster::members::{Arrival, ExchangeRules, arrival};

use crate::front::Caller;
use crate::messages;
use crate::status::Failure;

/// Who may do everything in the hub, and so reads the Secrets of clusters anyway.
const MASTERS: &str = "system:masters";
/// What Kubernetes says about a credential of the hub: it means nothing elsewhere, and impersonating it takes further rights.
const ABOUT_CREDENTIALS: &str = "authentication.kubernetes.io/";

/// As whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acting {
    /// As the credential in the Secret.
    Credential,
    /// As somebody else.
    As { user: String, groups: Vec<String>, extra: BTreeMap<String, Vec<String>> },
}

/// Decides. `is_asked`: the request wants to be made as its user, or all are; else it is made as the credential. `rules`: about
/// identities, the cluster's own before those of all. `privileged`: groups whose members act as the credential all the same.
pub(crate) fn acting(
    caller: &Caller,
    cluster: &str,
    is_asked: bool,
    rules: [&ExchangeRules; 2],
    privileged: &[String],
) -> Result<Acting, Failure> {
    if !is_asked {
        return Ok(Acting::Credential);
    }
    let is_privileged =
        |group: &str| group == MASTERS || privileged.iter().any(|privileged| privileged == group);
    let identity = Identity { user: caller.user.clone(), groups: caller.groups.clone() };
    match arrival(&identity, cluster, rules, is_privileged) {
        Ok(Arrival::Credential) => Ok(Acting::Credential),
        Ok(Arrival::Exchanged(Identity { user, groups })) => {
            Ok(Acting::As { user, groups, extra: BTreeMap::new() })
        }
        Ok(Arrival::Himself(Identity { user, groups })) => {
            let extra = caller.extra.iter().filter(|(key, _)| !key.starts_with(ABOUT_CREDENTIALS));
            let extra = extra.map(|(key, values)| (key.clone(), values.clone())).collect();
            Ok(Acting::As { user, groups, extra })
        }
        Err(error) => {
            Err(Failure::forbidden(cluster, messages::not_impersonated(&error.0, cluster)))
        }
    }
}

impl Acting {
    /// Adds the headers to a request that has none of them.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) -> Result<(), Failure> {
        let Self::As { user, groups, extra } = self else { return Ok(()) };
        let value = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| Failure::bad_request(messages::NOT_A_HEADER))
        };
        headers.insert(HeaderName::from_static("impersonate-user"), value(user)?);
        for group in groups {
            headers.append(HeaderName::from_static("impersonate-group"), value(group)?);
        }
        for (key, values) in extra {
            let name = format!("impersonate-extra-{}", escaped(key));
            let name: HeaderName =
                name.parse().map_err(|_| Failure::bad_request(messages::NOT_A_HEADER))?;
            for text in values {
                headers.append(name.clone(), value(text)?);
            }
        }
        Ok(())
    }
}

/// A key as a part of the name of a header.
fn escaped(key: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            out.push(char::from(byte.to_ascii_lowercase()));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, groups: &[&str]) -> Caller {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Caller { user: user.to_owned(), groups, ..Caller::default() }
    }

    fn act(caller: &Caller, is_asked: bool, own: &str) -> Result<Acting, Failure> {
        let own = ExchangeRules::read(own).unwrap();
        let privileged = ["kubevela:ux".to_owned()];
        acting(caller, "east", is_asked, [&own, &ExchangeRules::default()], &privileged)
    }

    fn text(acting: &Acting) -> String {
        match acting {
            Acting::Credential => "credential".to_owned(),
            Acting::As { user, groups, extra } => {
                format!("{user} {} {}", groups.join(","), extra.len())
            }
        }
    }

    #[test]
    fn who_acts_as_whom() {
        const ALL: &str = "system:authenticated";
        const RULES: &str = "{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration, \
            spec: {clientIdentityExchanger: {rules: [{name: r, source: {user: robot}, \
            type: StaticMappingIdentityExchanger, target: {user: r2, groups: [g]}}]}}}";
        for (user, groups, is_asked, expected) in [
            ("alice", &["dev", ALL][..], false, Some("credential")),
            ("alice", &["dev", ALL], true, Some("alice dev,system:authenticated 1")),
            ("kubernetes-admin", &[MASTERS, ALL], true, Some("credential")),
            ("system:admin", &[MASTERS], true, Some("credential")),
            ("velaux", &["kubevela:ux", ALL], true, Some("credential")),
            ("velaux", &["kubevela:ux2"], true, Some("velaux kubevela:ux2 1")),
            ("robot", &["dev"], true, Some("r2 g 0")),
            ("robot", &["dev"], false, Some("credential")),
            ("system:anonymous", &["system:unauthenticated"], true, None),
            ("system:anonymous", &["system:unauthenticated"], false, Some("credential")),
        ] {
            let mut caller = caller(user, groups);
            caller.extra.insert("scope".to_owned(), vec!["a".to_owned()]);
            match (&act(&caller, is_asked, RULES), expected) {
                (Ok(acting), Some(expected)) => assert_eq!(text(acting), expected, "{user}"),
                (Err(failure), None) => assert_eq!(failure.code(), 403, "{user}"),
                other => panic!("{user}: {other:?}"),
            }
        }
    }

    #[test]
    fn headers_are_those_of_kubernetes() {
        let mut alice = caller("alice é", &["dev", "ops"]);
        alice.extra.insert("example.com/scope".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        alice
            .extra
            .insert("authentication.kubernetes.io/credential-id".to_owned(), vec!["x".to_owned()]);
        let mut headers = HeaderMap::new();
        act(&alice, true, "").unwrap().apply(&mut headers).unwrap();
        assert_eq!(headers["impersonate-user"].as_bytes(), "alice é".as_bytes());
        assert_eq!(headers.get_all("impersonate-group").iter().count(), 2);
        let scopes: Vec<_> =
            headers.get_all("impersonate-extra-example.com%2fscope").iter().collect();
        assert_eq!(scopes, ["a", "b"]);
        assert_eq!(headers.len(), 5);
        let hostile = caller("a\nImpersonate-Group: system:masters", &[]);
        let refused = act(&hostile, true, "").unwrap().apply(&mut HeaderMap::new());
        assert_eq!(refused.unwrap_err().code(), 400);
    }
}
