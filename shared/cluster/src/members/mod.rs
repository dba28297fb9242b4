//! The clusters beside the control plane's own: members, as Secrets describe them.
//!
//! - [`secret`]: what a Secret says; [`address`]: where an API server may be;
//! - [`state`]: what is known of a member from what became of requests; [`layer`]: what stands in front of its API server; [`body`]: how
//!   much of an answer is read;
//! - [`gate`]: whether requests reach it; [`connect`]: its client; [`proxy`]: the proxy on the way; [`exec`], [`dynamic`]:
//!   credentials that a command hands out; [`expiry`]: when one ends;
//! - [`exchange`]: rules about identities; [`rules`]: those of all clusters, as they are now; [`arrival`]: as whom somebody arrives
//!   there; [`managed`]: what Open Cluster Management says of a cluster;
//! - [`member`]: one member with its connection, its watches and its probe;
//! - [`pass`]: requests of somebody else that are passed on;
//! - [`known`]: which cluster had which name, remembered over restarts;
//! - [`follow`]: the watch of the Secrets; here: the registry, as it is at a moment.
//!
//! A name that is not in the registry means nothing until the registry is complete: what is not known is not gone.

mod address;
mod arrival;
mod body;
mod connect;
mod dynamic;
mod exchange;
mod exec;
mod expiry;
mod follow;
mod gate;
mod known;
mod layer;
mod managed;
mod member;
mod pass;
mod proxy;
mod rules;
mod secret;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use tokio::time::Instant;
use vela_api::cluster::LOCAL;

pub use address::AddressRules;
pub(crate) use address::Resolver;
pub use arrival::{Arrival, NotImpersonated, arrival};
pub use exchange::{ExchangeError, ExchangeRules, Exchanged};
pub use expiry::Validity;
pub use gate::Changed;
pub use known::{Known, load, store};
pub use managed::Managed;
pub use member::{Connecting, Identified, Member};
pub use pass::{PassError, Passage, PassedBody};
pub(crate) use proxy::{Kind as ProxyKind, Proxy};
pub use rules::{NoMap, NoRules, RulesMap, SharedRules};
pub use secret::{Access, Cluster, SecretRules, Unusable};
pub use state::{Health, Heard, State};

/// The registry.
pub struct Members {
    connecting: Connecting,
    changed: Changed,
    current: Mutex<Arc<Snapshot>>,
    written: Mutex<Written>,
}

/// What is needed to read a cluster again when one of its two sources changes.
#[derive(Default)]
struct Written {
    /// Secrets that do not say where their cluster is.
    incomplete: BTreeMap<String, Secret>,
    /// Names of the others.
    complete: BTreeSet<String>,
    managed: BTreeMap<String, Managed>,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("current", &self.snapshot()).finish_non_exhaustive()
    }
}

/// The registry at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Whether all Secrets were seen, and the watch of them works.
    synced: bool,
    members: BTreeMap<String, Arc<Member>>,
    /// Since when names are not registered any more.
    gone: BTreeMap<String, Instant>,
    /// Since when it is complete.
    complete: Option<Instant>,
    /// Which cluster had which name.
    known: BTreeMap<String, Known>,
    /// The uid of the control plane's own cluster, empty if it is not known.
    own: String,
    /// How long after its completion a name that was never seen counts as unregistered.
    grace: Duration,
}

/// What a name of a cluster means.
#[derive(Clone, Debug)]
pub enum Named {
    /// The control plane's own cluster.
    Own,
    /// A member.
    Member(Arc<Member>),
    /// None has the name. Since when, if that is for long enough to be believed.
    Unregistered(bool),
    /// The registry is not complete.
    Unclear,
}

/// How long a name must be absent before its cluster counts as taken away.
pub const ABSENT: Duration = Duration::from_secs(10);
/// How long at the very first start, when nothing is remembered.
pub const FIRST_ABSENT: Duration = Duration::from_secs(600);

impl Snapshot {
    /// Whether what is not in it does not exist.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The members by name.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, Arc<Member>> {
        &self.members
    }

    /// The names in the order of views: the newest first, then by name. The control plane's own cluster comes before all.
    #[must_use]
    pub fn in_order(&self) -> Vec<&Arc<Member>> {
        let mut all: Vec<_> = self.members.values().collect();
        all.sort_by_key(|member| {
            (std::cmp::Reverse(member.cluster.created), member.cluster.name.clone())
        });
        all
    }

    /// What a name means now.
    #[must_use]
    pub fn named(&self, name: &str) -> Named {
        let name = self.canonical(name);
        if name.is_empty() || name == LOCAL {
            return Named::Own;
        }
        if let Some(member) = self.members.get(&name) {
            return Named::Member(Arc::clone(member));
        }
        if !self.synced {
            return Named::Unclear;
        }
        let long = match (self.gone.get(&name), self.complete) {
            (Some(since), _) => since.elapsed() >= ABSENT,
            (None, Some(complete)) => complete.elapsed() >= self.grace,
            (None, None) => false,
        };
        Named::Unregistered(long)
    }

    /// The one name that stands for all names of a cluster: of several with one uid the first that is registered, and `local`
    /// for the control plane's own cluster.
    #[must_use]
    pub fn canonical(&self, name: &str) -> String {
        if name.is_empty() || name == LOCAL {
            return LOCAL.to_owned();
        }
        let member = self.members.get(name);
        // Who answers there now is not who was meant, also if he is known under another name.
        if member.is_some_and(|member| member.state() == State::Replaced) {
            return name.to_owned();
        }
        let live = member.and_then(|member| member.identified().uid);
        let uid = live.or_else(|| {
            let known = self.known.get(name)?;
            // The name has a Secret, and who answers is not known yet: it is nobody else until that is known.
            (!self.members.contains_key(name)).then(|| known.uid.clone())
        });
        let Some(uid) = uid.filter(|uid| !uid.is_empty()) else { return name.to_owned() };
        if uid == self.own {
            return LOCAL.to_owned();
        }
        let same = self.members.iter().find(|(_, member)| {
            member.state() != State::Replaced && member.identified().uid.as_deref() == Some(&uid)
        });
        same.map_or_else(|| name.to_owned(), |(first, _)| first.clone())
    }

    /// Names that mean one cluster, where there are several, with the own cluster's as `local`.
    #[must_use]
    pub fn aliases(&self) -> Vec<Vec<String>> {
        let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in self.members.keys() {
            by_name.entry(self.canonical(name)).or_default().push(name.clone());
        }
        if let Some(own) = by_name.get_mut(LOCAL) {
            own.insert(0, LOCAL.to_owned());
        }
        by_name.into_values().filter(|names| names.len() > 1).collect()
    }

    /// Which cluster has or had which name.
    #[must_use]
    pub fn known(&self) -> &BTreeMap<String, Known> {
        &self.known
    }
}

impl Members {
    /// Nothing known yet. `changed` hears the name of every member that came, changed its state, or went; and an empty one when
    /// the registry is complete.
    #[must_use]
    pub fn new(connecting: Connecting, changed: Changed) -> Self {
        let snapshot = Snapshot { grace: FIRST_ABSENT, ..Snapshot::default() };
        let current = Mutex::new(Arc::new(snapshot));
        Self { connecting, changed, current, written: Mutex::default() }
    }

    /// As it is now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.lock())
    }

    /// What is needed to connect.
    #[must_use]
    pub fn connecting(&self) -> &Connecting {
        &self.connecting
    }

    /// Takes in what an earlier process knew, and the uid of the control plane's own cluster. `first`: there was none.
    pub fn remember(&self, known: BTreeMap<String, Known>, own: String, first: bool) {
        self.change(|snapshot| {
            (snapshot.known, snapshot.own) = (known, own);
            snapshot.grace = if first { FIRST_ABSENT } else { ABSENT };
        });
    }

    /// Takes in which cluster has a name. Returns whether that is news.
    pub fn learn(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        let Some(member) = snapshot.members.get(name) else { return false };
        let Some(uid) = member.identified().uid.filter(|_| member.state().is_open()) else {
            return false;
        };
        let secret_uid = member.cluster.secret_uid.clone();
        let version = member.identified().version.map(|version| version.git_version);
        let known = Known { uid, secret_uid, version: version.unwrap_or_default() };
        if snapshot.known.get(name) == Some(&known) {
            return false;
        }
        self.change(|snapshot| {
            snapshot.known.insert(name.to_owned(), known);
        });
        true
    }

    /// Forgets which cluster had a name that is not registered.
    pub fn unlearn(&self, name: &str) {
        self.change(|snapshot| {
            if !snapshot.members.contains_key(name) {
                snapshot.known.remove(name);
            }
        });
    }

    /// Takes in a Secret.
    pub fn put_secret(&self, secret: Secret) {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let mut written = self.written.lock();
        let managed = written.managed.get(&name);
        let cluster = Cluster::with(&secret, managed, self.connecting.rules);
        let has_endpoint = secret.data.iter().flatten().any(|(key, _)| key == "endpoint");
        // Only one that a ManagedCluster completes is read again.
        if has_endpoint {
            written.incomplete.remove(&name);
            written.complete.insert(name);
        } else {
            written.complete.remove(&name);
            written.incomplete.insert(name, secret);
        }
        drop(written);
        self.put(cluster);
    }

    /// A Secret is gone. What a ManagedCluster says of the name stays.
    pub fn remove_secret(&self, name: &str) {
        let managed = {
            let mut written = self.written.lock();
            written.incomplete.remove(name);
            written.complete.remove(name);
            written.managed.get(name).map(|managed| Cluster::of_managed(name, managed))
        };
        match managed {
            Some(cluster) => self.put(cluster),
            None => self.remove(name),
        }
    }

    /// Takes in what Open Cluster Management says of a name; `None`: nothing any more.
    pub fn put_managed(&self, name: &str, managed: Option<&Managed>) {
        let rules = self.connecting.rules;
        let mut written = self.written.lock();
        match managed {
            Some(managed) => drop(written.managed.insert(name.to_owned(), managed.clone())),
            None => drop(written.managed.remove(name)),
        }
        let secret = written.incomplete.get(name);
        let cluster = match (secret, managed) {
            (Some(secret), managed) => Some(Cluster::with(secret, managed, rules)),
            // A Secret of the name says it all.
            (None, _) if written.complete.contains(name) => return,
            (None, Some(managed)) => Some(Cluster::of_managed(name, managed)),
            (None, None) => None,
        };
        drop(written);
        match cluster {
            Some(cluster) => self.put(cluster),
            None => self.remove(name),
        }
    }

    /// The names that Open Cluster Management knows.
    #[must_use]
    pub fn managed_names(&self) -> Vec<String> {
        self.written.lock().managed.keys().cloned().collect()
    }

    /// Takes in a cluster.
    pub fn put(&self, cluster: Cluster) {
        let name = cluster.name.clone();
        let snapshot = self.snapshot();
        let old = snapshot.members.get(&name);
        if let Some(old) = old.filter(|old| old.cluster.is_same_connection(&cluster)) {
            if !old.cluster.is_same(&cluster) {
                self.take(old.relabelled(cluster));
            }
            return;
        }
        // A Secret that was made anew joins whatever cluster it names; one that was changed goes on naming the same.
        let known = snapshot.known.get(&name);
        let expected = known
            .filter(|known| known.secret_uid == cluster.secret_uid || known.secret_uid.is_empty())
            .map(|known| known.uid.clone());
        let member = Member::connect(cluster, expected, &self.connecting, &self.changed);
        self.take(member);
    }

    /// Takes in a member.
    pub fn take(&self, member: Arc<Member>) {
        let name = member.cluster.name.clone();
        self.change(|snapshot| {
            snapshot.gone.remove(&name);
            snapshot.members.insert(name.clone(), member);
        });
        (self.changed)(&name);
    }

    /// Takes in a member over an existing client, known to answer and to be the cluster of a uid: of tests.
    pub fn join(&self, cluster: Cluster, client: kube::Client, uid: &str) -> Arc<Member> {
        let member = Member::over(cluster, client, uid, &self.connecting, &self.changed);
        self.take(Arc::clone(&member));
        member
    }

    /// A Secret is gone.
    pub fn remove(&self, name: &str) {
        self.removed(name, Instant::now());
    }

    /// A Secret is gone since a moment.
    pub fn removed(&self, name: &str, since: Instant) {
        self.change(|snapshot| {
            if snapshot.members.remove(name).is_some() {
                snapshot.gone.insert(name.to_owned(), since);
            }
        });
        (self.changed)(name);
    }

    /// Whether all Secrets were seen and the watch works. Those that are not among `listed` are gone.
    pub fn synced(&self, synced: bool, listed: Option<&[String]>) {
        let mut gone = Vec::new();
        let mut news = false;
        let mut written = self.written.lock();
        if let Some(listed) = listed {
            written.incomplete.retain(|name, _| listed.contains(name));
            written.complete.retain(|name| listed.contains(name));
        }
        let managed = written.managed.clone();
        drop(written);
        self.change(|snapshot| {
            news = synced && !snapshot.synced;
            snapshot.synced = synced;
            if synced && snapshot.complete.is_none() {
                snapshot.complete = Some(Instant::now());
            }
            if let Some(listed) = listed {
                let is_gone = |name: &&String| !listed.contains(name);
                gone = snapshot.members.keys().filter(is_gone).cloned().collect();
                gone.retain(|name| !managed.contains_key(name));
                for name in &gone {
                    snapshot.members.remove(name);
                    snapshot.gone.insert(name.clone(), Instant::now());
                }
            }
        });
        gone.iter().for_each(|name| (self.changed)(name));
        for (name, managed) in &managed {
            if listed.is_some_and(|listed| !listed.contains(name)) {
                self.put(Cluster::of_managed(name, managed));
            }
        }
        if news {
            // Who asked for a name that was not known is answered now.
            (self.changed)("");
        }
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut current = self.current.lock();
        let mut next = Snapshot::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }
}

#[cfg(test)]
mod tests;
