//! What is said of clusters, on their Secrets: a state that changed, a certificate that is not checked, a credential that ends
//! soon, two names of one cluster. Pure: time is a value.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use vela_api::names::event;
use vela_cluster::Severity;
use vela_cluster::members::{Member, Snapshot, State};

use crate::messages;

/// One event of a kind and cluster in this time: a cluster that comes and goes is said to do so once.
const QUIET: Duration = Duration::from_secs(600);

/// An event about the Secret of a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) cluster: String,
    pub(super) severity: Severity,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Reported {
    states: BTreeMap<String, State>,
    said: BTreeMap<(String, &'static str), Instant>,
    /// Names that mean one cluster, and whether that is proven.
    aliases: BTreeSet<(Vec<String>, bool)>,
    /// Ends of credentials, in seconds.
    ends: BTreeSet<(String, i64)>,
    insecure: BTreeSet<(String, u64)>,
}

impl Reported {
    /// What is to be said now.
    pub(super) fn news(
        &mut self,
        snapshot: &Snapshot,
        now: Instant,
        time: Timestamp,
    ) -> Vec<Report> {
        let mut all = Vec::new();
        let members = snapshot.members();
        self.states.retain(|name, _| members.contains_key(name));
        self.said.retain(|_, at| now.duration_since(*at) < QUIET);
        self.ends.retain(|(name, _)| members.contains_key(name));
        self.insecure.retain(|(name, _)| members.contains_key(name));
        for (name, member) in members {
            let known = snapshot.known().contains_key(name);
            all.extend(self.state(name, member, known));
            all.extend(self.access(name, member, time));
        }
        let aliases: BTreeSet<_> = snapshot.aliases().into_iter().collect();
        for (names, is_proven) in aliases.difference(&self.aliases) {
            let message = match is_proven {
                true => messages::cluster_alias(names),
                false => messages::cluster_alias_doubtful(names),
            };
            let members = names.iter().filter(|name| members.contains_key(*name));
            all.extend(members.map(|name| Report {
                cluster: name.clone(),
                severity: Severity::Warning,
                reason: event::CLUSTER_ALIAS,
                message: message.clone(),
            }));
        }
        self.aliases = aliases;
        all.retain(|report| {
            let key = (report.cluster.clone(), report.reason);
            let is_news = !self.said.contains_key(&key);
            self.said.entry(key).or_insert(now);
            is_news
        });
        all
    }

    fn state(&mut self, name: &str, member: &Member, known: bool) -> Option<Report> {
        let state = member.state();
        let before = self.states.insert(name.to_owned(), state);
        // That a cluster of an earlier process works is no news.
        if before == Some(state) || (before.is_none() && known && state == State::Connected) {
            return None;
        }
        let (severity, reason) = match state {
            State::Unknown => return None,
            State::Connected => (Severity::Normal, event::CLUSTER_CONNECTED),
            State::Degraded if member.health().is_newer_refused() => {
                (Severity::Warning, event::CREDENTIAL_REFUSED)
            }
            State::Degraded => (Severity::Warning, event::CLUSTER_DEGRADED),
            State::Disconnected => (Severity::Warning, event::CLUSTER_DISCONNECTED),
            State::CredentialRefused => (Severity::Warning, event::CREDENTIAL_REFUSED),
            State::Invalid => (Severity::Warning, event::CLUSTER_INVALID),
            State::Replaced => (Severity::Warning, event::CLUSTER_REPLACED),
        };
        let message = messages::cluster_state(name, state.as_str(), member.health().why());
        Some(Report { cluster: name.to_owned(), severity, reason, message })
    }

    /// What is to be said of the Secret itself.
    fn access(&mut self, name: &str, member: &Member, time: Timestamp) -> Vec<Report> {
        let mut all = Vec::new();
        let Ok(access) = &member.cluster.access else { return all };
        let warning = |reason, message| Report {
            cluster: name.to_owned(),
            severity: Severity::Warning,
            reason,
            message,
        };
        if access.is_insecure()
            && self.insecure.insert((name.to_owned(), member.cluster.fingerprint))
        {
            all.push(warning(event::INSECURE_CLUSTER, messages::cluster_insecure(name)));
        }
        if let Some(validity) = access.validity().filter(|validity| validity.ends_soon(time))
            && self.ends.insert((name.to_owned(), validity.until.as_second()))
        {
            let message = messages::credential_expires(name, &validity.until.to_string());
            all.push(warning(event::CREDENTIAL_EXPIRES, message));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;
    use vela_cluster::ClientOptions;
    use vela_cluster::members::{Cluster, Connecting, Heard, Members, SecretRules};

    use super::*;

    fn members() -> Members {
        let connecting = Connecting {
            share: Arc::default(),
            options: ClientOptions::new("vela-controller/test"),
            rules: SecretRules::default(),
            notify: Arc::new(|_, _| {}),
            budget: Arc::default(),
            authority: String::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Members::new(connecting, Arc::new(|_, _| {}))
    }

    fn cluster(name: &str, token: &str) -> Cluster {
        let secret = json!({"metadata": {"name": name, "uid": format!("s-{name}"), "labels": {
            "cluster.core.oam.dev/cluster-credential-type": "ServiceAccountToken"}},
            "data": {"endpoint": "aHR0cHM6Ly8xMC4wLjAuMQ==", "token": token}});
        Cluster::of(&serde_json::from_value(secret).unwrap(), SecretRules::default())
    }

    fn join(members: &Members, name: &str, uid: &str) -> Arc<Member> {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::empty()))
        });
        members.join(cluster(name, "dA=="), kube::Client::new(service, "default"), uid)
    }

    fn reasons(reports: &[Report]) -> Vec<String> {
        reports.iter().map(|report| format!("{} {}", report.cluster, report.reason)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_the_state_is_said_once_and_not_too_often() {
        let (members, mut reported) = (members(), Reported::default());
        let edge = join(&members, "edge", "1");
        let mut news = || {
            let time = "2026-01-01T00:00:00Z".parse().unwrap();
            reasons(&reported.news(&members.snapshot(), Instant::now(), time))
        };
        assert_eq!(news(), ["edge ClusterConnected", "edge InsecureCluster"]);
        assert!(news().is_empty());
        edge.hear(Heard::Refused("Unauthorized".to_owned()));
        assert_eq!(news(), ["edge CredentialRefused"]);
        edge.hear(Heard::Answer(200, Duration::ZERO));
        edge.hear(Heard::Refused("Unauthorized".to_owned()));
        assert!(news().is_empty());
        tokio::time::advance(QUIET).await;
        edge.hear(Heard::Answer(200, Duration::ZERO));
        assert_eq!(news(), ["edge ClusterConnected"]);
        join(&members, "zone", "1");
        assert_eq!(
            news(),
            [
                "zone ClusterConnected",
                "zone InsecureCluster",
                "edge ClusterAlias",
                "zone ClusterAlias"
            ]
        );
        assert!(news().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_a_credential_is_said_before_and_the_credential_never() {
        let (members, mut reported) = (members(), Reported::default());
        // A token whose claims are {"exp": 1767229200, "iat": 1767222000}: it ends 2026-01-01T01:00:00Z.
        let token =
            "ZTMwLmV5SmxlSEFpT2lBeE56WTNNakk1TWpBd0xDQWlhV0YwSWpvZ01UYzJOekl5TWpBd01IMC5jMmxu";
        members.put(cluster("edge", token));
        let mut news = |time: &str| {
            let reports = reported.news(&members.snapshot(), Instant::now(), time.parse().unwrap());
            assert!(!format!("{reports:?}").contains("e30."), "{reports:?}");
            reasons(&reports)
        };
        assert_eq!(news("2025-12-31T23:00:00Z"), ["edge InsecureCluster"]);
        assert_eq!(news("2026-01-01T00:30:00Z"), ["edge CredentialExpires"]);
        assert!(news("2026-01-01T00:40:00Z").is_empty());
    }
}
