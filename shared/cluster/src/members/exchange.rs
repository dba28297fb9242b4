//! As whom an identity arrives at a member: rules of the type `ClusterGatewayProxyConfiguration`, of all clusters in a ConfigMap
//! and of one in an annotation of its Secret. The first rule whose source fits decides.
//!
//! Upstream: `cluster-gateway` `pkg/apis/proxy`. A rule that cannot be followed there matches everything or ends the process;
//! here the whole text is refused, so that a mistake never gives anybody a right.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::Identity;

/// The longest text of rules, in bytes.
const MAX_BYTES: usize = 256 << 10;
/// The most one compiled pattern takes, in bytes.
const PATTERN: usize = 1 << 20;

/// Rules in their order.
#[derive(Clone, Debug, Default)]
pub struct ExchangeRules(Arc<[Rule]>);

/// What becomes of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// The request is made as the credential itself.
    Credential,
    /// The request is made as somebody else.
    As(Identity),
}

#[derive(Debug)]
struct Rule {
    source: Source,
    target: Exchanged,
}

/// Whom a rule is for: everybody for whom all that is named fits.
#[derive(Debug, Default)]
struct Source {
    user: Option<String>,
    group: Option<String>,
    uid: Option<String>,
    cluster: Option<String>,
    user_pattern: Option<Regex>,
    group_pattern: Option<Regex>,
    cluster_pattern: Option<Regex>,
}

/// Why rules cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The text has more than `MAX_BYTES` bytes.
    #[error("it is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It is no YAML, or of another type.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is of another kind.
    #[error(
        "it is of kind {0:?}, not ClusterGatewayProxyConfiguration of cluster.core.oam.dev/v1alpha1"
    )]
    Kind(String),
    /// The rule of this name is wrong, and how.
    #[error("rule {0:?} {1}")]
    Rule(String, Wrong),
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It would fit everybody.
    #[error("has no source")]
    NoSource,
    /// A pattern of the source.
    #[error("has a pattern that cannot be read: {0}")]
    Pattern(String),
    /// Nobody is named.
    #[error("has a target that names no user")]
    NoTarget,
    /// Uids are not impersonated.
    #[error("has a target with a uid, which is not supported")]
    TargetUid,
    /// A type that nobody knows, or that nobody can follow.
    #[error("has type {0:?}, which is not supported")]
    Type(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Configuration {
    api_version: String,
    kind: String,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    client_identity_exchanger: Exchanger,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Exchanger {
    rules: Vec<Written>,
}

// What is not known here could be a condition: it is refused.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    name: String,
    #[serde(rename = "type")]
    type_: String,
    source: Option<WrittenSource>,
    target: Option<Target>,
    /// Of the type that is not supported.
    #[serde(rename = "url")]
    _url: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WrittenSource {
    user: Option<String>,
    group: Option<String>,
    uid: Option<String>,
    cluster: Option<String>,
    user_pattern: Option<String>,
    group_pattern: Option<String>,
    cluster_pattern: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Target {
    user: String,
    groups: Vec<String>,
    uid: String,
}

impl ExchangeRules {
    /// Reads a configuration. An empty text has no rules.
    ///
    /// # Errors
    /// It cannot be followed as a whole.
    pub fn read(text: &str) -> Result<Self, ExchangeError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_BYTES {
            return Err(ExchangeError::TooLong);
        }
        let read: Configuration = serde_saphyr::from_str(text).map_err(|error| {
            ExchangeError::Unreadable(
                error.to_string().lines().next().unwrap_or_default().to_owned(),
            )
        })?;
        if read.kind != "ClusterGatewayProxyConfiguration"
            || read.api_version != "cluster.core.oam.dev/v1alpha1"
        {
            return Err(ExchangeError::Kind(format!("{} {}", read.api_version, read.kind)));
        }
        let rules = read.spec.client_identity_exchanger.rules.into_iter().map(|written| {
            let name = written.name.clone();
            Rule::of(written).map_err(|wrong| ExchangeError::Rule(name, wrong))
        });
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    /// What becomes of an identity at a cluster; `None`: no rule is about it.
    #[must_use]
    pub fn exchange(&self, identity: &Identity, cluster: &str) -> Option<Exchanged> {
        let rule = self.0.iter().find(|rule| rule.source.fits(identity, cluster))?;
        Some(rule.target.clone())
    }
}

impl Rule {
    fn of(written: Written) -> Result<Self, Wrong> {
        let source = Source::of(written.source.unwrap_or_default())?;
        let target = match written.type_.as_str() {
            "PrivilegedIdentityExchanger" => Exchanged::Credential,
            "StaticMappingIdentityExchanger" => {
                let target = written.target.unwrap_or_default();
                // Without a user a request would be made as the credential.
                if target.user.is_empty() {
                    return Err(Wrong::NoTarget);
                }
                if !target.uid.is_empty() {
                    return Err(Wrong::TargetUid);
                }
                Exchanged::As(Identity { user: target.user, groups: target.groups })
            }
            other => return Err(Wrong::Type(other.to_owned())),
        };
        Ok(Self { source, target })
    }
}

impl Source {
    fn of(written: WrittenSource) -> Result<Self, Wrong> {
        let pattern = |text: Option<String>| {
            let compiled = text.map(|text| {
                RegexBuilder::new(&text)
                    .size_limit(PATTERN)
                    .build()
                    .map_err(|_| Wrong::Pattern(text.chars().take(80).collect()))
            });
            compiled.transpose()
        };
        let WrittenSource { user, group, uid, cluster, .. } = &written;
        let names = [user, group, uid, cluster];
        let patterns = [&written.user_pattern, &written.group_pattern, &written.cluster_pattern];
        if names.into_iter().chain(patterns).all(Option::is_none) {
            return Err(Wrong::NoSource);
        }
        Ok(Self {
            user_pattern: pattern(written.user_pattern)?,
            group_pattern: pattern(written.group_pattern)?,
            cluster_pattern: pattern(written.cluster_pattern)?,
            user: written.user,
            group: written.group,
            uid: written.uid,
            cluster: written.cluster,
        })
    }

    fn fits(&self, identity: &Identity, at: &str) -> bool {
        let Self { user, group, uid, cluster, user_pattern, group_pattern, cluster_pattern } = self;
        let is = |wanted: &Option<String>, given: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == given)
        };
        let matches = |pattern: &Option<Regex>, given: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(given))
        };
        is(user, &identity.user)
            && matches(user_pattern, &identity.user)
            && group.as_ref().is_none_or(|group| identity.groups.contains(group))
            && group_pattern.as_ref().is_none_or(|pattern| {
                identity.groups.iter().any(|group| pattern.is_match(group))
            })
            // Nobody's uid is known.
            && is(uid, "")
            && is(cluster, at)
            && matches(cluster_pattern, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &str) -> Result<ExchangeRules, ExchangeError> {
        ExchangeRules::read(&format!(
            "apiVersion: cluster.core.oam.dev/v1alpha1\nkind: ClusterGatewayProxyConfiguration\n\
             spec: {{clientIdentityExchanger: {{rules: [{rules}]}}}}"
        ))
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let read = rules(
            "{name: super, type: PrivilegedIdentityExchanger, source: {group: 'kubevela:ux'}},
             {name: edge, type: StaticMappingIdentityExchanger, target: {user: deployer, groups: [edge]},
              source: {userPattern: '^team-', clusterPattern: edge}},
             {name: ci, type: StaticMappingIdentityExchanger, target: {user: robot},
              source: {user: ci, cluster: far}},
             {name: ops, type: PrivilegedIdentityExchanger, source: {groupPattern: ops}}",
        )
        .unwrap();
        let robot = || Some(Exchanged::As(Identity { user: "robot".into(), groups: vec![] }));
        let deployer = || {
            Some(Exchanged::As(Identity { user: "deployer".into(), groups: vec!["edge".into()] }))
        };
        for (user, groups, cluster, expected) in [
            ("alice", "kubevela:ux", "far", Some(Exchanged::Credential)),
            ("team-a", "kubevela:ux", "my-edge-7", Some(Exchanged::Credential)),
            ("team-a", "", "my-edge-7", deployer()),
            ("team-a", "", "far", None),
            ("my-team-a", "", "edge", None),
            ("ci", "", "far", robot()),
            ("ci", "", "edge", None),
            ("ci2", "", "far", None),
            ("alice", "devops", "far", Some(Exchanged::Credential)),
            ("alice", "", "far", None),
        ] {
            let groups = groups.split(',').filter(|g| !g.is_empty()).map(str::to_owned).collect();
            let identity = Identity { user: user.to_owned(), groups };
            assert_eq!(read.exchange(&identity, cluster), expected, "{identity:?} {cluster}");
        }
        assert_eq!(ExchangeRules::read(" \n").unwrap().exchange(&Identity::own(), "a"), None);
    }

    #[test]
    fn a_mistake_refuses_everything_and_names_the_rule() {
        let privileged = |source: &str| {
            rules(&format!("{{name: r, type: PrivilegedIdentityExchanger, {source}}}"))
        };
        for (read, part) in [
            (privileged("source: {userPattern: '('}"), "rule \"r\" has a pattern"),
            (privileged("source: {}"), "rule \"r\" has no source"),
            (privileged("url: x"), "rule \"r\" has no source"),
            (privileged("source: {userpattern: a}"), "cannot be read"),
            (privileged("sources: {user: a}"), "cannot be read"),
            (
                rules(
                    "{name: r, type: ExternalIdentityExchanger, url: 'https://x', source: {user: a}}",
                ),
                "External",
            ),
            (rules("{name: r, source: {user: a}}"), "type \"\""),
            (
                rules("{name: r, type: StaticMappingIdentityExchanger, source: {user: a}}"),
                "no user",
            ),
            (
                rules(
                    "{name: r, type: StaticMappingIdentityExchanger, source: {user: a}, target: {user: b, uid: c}}",
                ),
                "uid",
            ),
            (ExchangeRules::read("kind: Other"), "Other"),
            (ExchangeRules::read("["), "cannot be read"),
            (ExchangeRules::read(&"#".repeat(MAX_BYTES + 1)), "longer"),
        ] {
            let error = read.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    /// A pattern that grows when it is compiled is refused, and none takes more than linear time.
    #[test]
    fn hostile_patterns_cost_little() {
        let huge = "source: {userPattern: '((a{1000}){1000}){1000}'}";
        let read = rules(&format!("{{name: r, type: PrivilegedIdentityExchanger, {huge}}}"));
        assert!(matches!(read, Err(ExchangeError::Rule(_, Wrong::Pattern(_)))));
    }
}
