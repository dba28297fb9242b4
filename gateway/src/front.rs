//! Who asks: the API server's front proxy says so in headers, and is believed because of its client certificate. Which authority
//! signs it, how it may be called and what the headers are called stands in a ConfigMap that the API server keeps.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};

use crate::messages;
use crate::status::Failure;

/// The ConfigMap `kube-system/extension-apiserver-authentication`.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// Its key with the authority, PEM.
const AUTHORITY: &str = "requestheader-client-ca-file";

/// Everybody who is somebody is in it.
const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// What the ConfigMap says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Front {
    /// Who signs the front proxy's certificate, PEM.
    pub(crate) authority: String,
    /// Common names that its certificate may have; none means any.
    names: Vec<String>,
    users: Vec<HeaderName>,
    uids: Vec<HeaderName>,
    groups: Vec<HeaderName>,
    /// Prefixes, in lower case.
    extras: Vec<String>,
}

/// Why the ConfigMap is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrontError {
    #[error(
        "ConfigMap {NAMESPACE}/{CONFIG_MAP}: key {0} is missing: the API server has no front proxy (flags --requestheader-*)"
    )]
    Missing(&'static str),
    #[error("ConfigMap {NAMESPACE}/{CONFIG_MAP}: key {0} is no list of names in JSON")]
    Unreadable(&'static str),
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    /// Empty where it is not known.
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    /// Keys in lower case.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

impl Front {
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Self, FrontError> {
        let list = |key: &'static str| -> Result<Vec<String>, FrontError> {
            match data.get(key).map(String::as_str) {
                None | Some("") => Ok(Vec::new()),
                Some(text) => serde_json::from_str(text).map_err(|_| FrontError::Unreadable(key)),
            }
        };
        let headers = |key: &'static str| -> Result<Vec<HeaderName>, FrontError> {
            let names = list(key)?.into_iter().map(|name| name.parse());
            names.collect::<Result<_, _>>().map_err(|_| FrontError::Unreadable(key))
        };
        let authority = data.get(AUTHORITY).filter(|text| !text.trim().is_empty());
        let authority = authority.ok_or(FrontError::Missing(AUTHORITY))?.clone();
        let users = headers("requestheader-username-headers")?;
        if users.is_empty() {
            return Err(FrontError::Missing("requestheader-username-headers"));
        }
        let extras = list("requestheader-extra-headers-prefix")?;
        Ok(Self {
            authority,
            names: list("requestheader-allowed-names")?,
            users,
            uids: headers("requestheader-uid-headers")?,
            groups: headers("requestheader-group-headers")?,
            extras: extras.into_iter().map(|prefix| prefix.to_ascii_lowercase()).collect(),
        })
    }

    /// Who asks. `peer` is the common name of the client certificate.
    pub(crate) fn caller(
        &self,
        peer: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Caller, Failure> {
        let Some(peer) = peer else {
            return Err(Failure::unauthorized(messages::NOT_THE_FRONT_PROXY));
        };
        if !self.names.is_empty() && !self.names.iter().any(|name| name == peer) {
            return Err(Failure::unauthorized(messages::NOT_THE_FRONT_PROXY));
        }
        let all = |names: &[HeaderName]| -> Result<Vec<String>, Failure> {
            let values = names.iter().flat_map(|name| headers.get_all(name));
            values.map(|value| text(value.as_bytes())).collect()
        };
        let first =
            |names: &[HeaderName]| Ok(all(names)?.into_iter().find(|text| !text.is_empty()));
        let user = first(&self.users)?.ok_or_else(|| Failure::unauthorized(messages::NO_USER))?;
        let mut groups = all(&self.groups)?;
        let is_anybody = user == ANONYMOUS || groups.iter().any(|group| group == UNAUTHENTICATED);
        if !is_anybody && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            if let Some(key) = self.extra(name) {
                extra.entry(key).or_default().push(text(value.as_bytes())?);
            }
        }
        Ok(Caller { user, uid: first(&self.uids)?.unwrap_or_default(), groups, extra })
    }

    /// The key of a header with something else about the user.
    fn extra(&self, name: &HeaderName) -> Option<String> {
        let key =
            self.extras.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()))?;
        Some(crate::path::decoded(key).unwrap_or_else(|| key.to_owned()))
    }

    /// Whether a header says who asks: it is for us alone.
    pub(crate) fn is_ours(&self, name: &HeaderName) -> bool {
        let named = [&self.users, &self.uids, &self.groups];
        named.into_iter().any(|names| names.contains(name)) || self.extra(name).is_some()
    }
}

fn text(bytes: &[u8]) -> Result<String, Failure> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Failure::unauthorized(messages::USER_IS_NO_TEXT))?;
    Ok(text.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn front() -> Front {
        let data = [
            (AUTHORITY, "PEM"),
            ("requestheader-allowed-names", r#"["front-proxy"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        Front::read(&data.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
            .unwrap()
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_front_proxy_and_nobody_else_says_who_asks() {
        let front = front();
        let alice = headers(&[
            ("x-remote-user", "alice"),
            ("x-remote-uid", "u1"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.com%2fscope", "a"),
            ("x-remote-extra-example.com%2fscope", "b"),
            ("x-other", "c"),
        ]);
        for peer in [None, Some(""), Some("alice"), Some("front-proxy2")] {
            assert_eq!(front.caller(peer, &alice).unwrap_err().code(), 401, "{peer:?}");
        }
        let caller = front.caller(Some("front-proxy"), &alice).unwrap();
        assert_eq!((caller.user.as_str(), caller.uid.as_str()), ("alice", "u1"));
        assert_eq!(caller.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(caller.extra["example.com/scope"], ["a", "b"]);
        let nobody = front.caller(Some("front-proxy"), &headers(&[("x-remote-group", "dev")]));
        assert_eq!(nobody.unwrap_err().code(), 401);
        let anybody = headers(&[("x-remote-user", ANONYMOUS), ("x-remote-group", UNAUTHENTICATED)]);
        assert!(!front.caller(Some("front-proxy"), &anybody).unwrap().is_in(AUTHENTICATED));
        let ours: Vec<&str> =
            alice.keys().filter(|name| front.is_ours(name)).map(HeaderName::as_str).collect();
        assert_eq!(ours.len(), alice.keys_len() - 1);
    }

    #[test]
    fn without_names_any_certificate_of_the_authority_is_the_front_proxys() {
        let front = Front { names: Vec::new(), ..front() };
        let alice = headers(&[("x-remote-user", "alice")]);
        assert!(front.caller(Some("somebody"), &alice).is_ok());
        assert!(front.caller(None, &alice).is_err());
    }

    #[test]
    fn a_config_map_that_says_too_little_is_refused() {
        let read = |pairs: &[(&str, &str)]| {
            let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Front::read(&data.collect()).unwrap_err().to_string()
        };
        assert!(read(&[]).contains(AUTHORITY));
        assert!(read(&[(AUTHORITY, "PEM")]).contains("requestheader-username-headers"));
        let names = [(AUTHORITY, "PEM"), ("requestheader-username-headers", "X-Remote-User")];
        assert!(read(&names).contains("no list"));
    }
}
