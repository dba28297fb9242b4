//! The clusters beside the control plane's own: members, as Secrets describe them.
//!
//! - `secret`: what a Secret says; `sources`: what a Secret and a ManagedCluster of one name say together; `address`: where an API server may be;
//! - `state`: what is known of a member from what became of requests; `layer`: what stands in front of its API server; `body`: how
//!   much of an answer is read;
//! - `gate`: whether requests reach it; `connect`: its client; `proxy`: the proxy on the way; `exec`, `dynamic`:
//!   credentials that a command hands out; `expiry`: when one ends;
//! - `exchange`: rules about identities; `rules`: those of all clusters, as they are now; `arrival`: as whom somebody arrives
//!   there; `managed`: what Open Cluster Management says of a cluster;
//! - `member`: one member with its connection, its watches and its probe;
//! - `pass`: requests of somebody else that are passed on;
//! - `trial`: a credential that changed, before it is used;
//! - `known`: which cluster had which name, remembered over restarts; `proof`: whether two names mean one cluster;
//! - `follow`: the watch of the Secrets; here: the registry, as it is at a moment.
//!
//! A name that is not in the registry means nothing until the registry is complete: what is not known is not gone.

pub(crate) mod address;
mod arrival;
pub(crate) mod body;
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
mod proof;
pub(crate) mod proxy;
mod rules;
mod secret;
mod secrets;
mod sources;
mod state;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use tokio::time::Instant;
use vela_api::cluster::LOCAL;

pub use address::AddressRules;
pub use arrival::{Arrival, NotImpersonated, arrival};
pub use exchange::{ExchangeError, ExchangeRules, Exchanged};
pub use expiry::Validity;
pub use follow::{ManagedSink, follow_managed};
pub use gate::{Changed, Reachable};
pub use known::{Known, load, store};
pub use managed::Managed;
pub use member::{Connecting, Identified, Member, MemberNotify};
pub use pass::{PassError, Passage, PassedBody};
pub use proof::{Proof, own_authority};
pub use rules::{NoMap, NoRules, RulesMap, SharedRules};
pub use secret::{Access, Cluster, LeftBehind, SecretRules, Unusable};
pub use secrets::{SecretEvent, Secrets};
pub use sources::{Described, Sources};
pub use state::{Health, Heard, State};
use trial::Trials;

/// The registry.
pub struct Members {
    connecting: Connecting,
    registry: Arc<Registry>,
    trials: Arc<Trials>,
    sources: Mutex<Sources>,
}

/// The registry as it is now, and who hears of changes.
struct Registry {
    changed: Changed,
    current: Mutex<Arc<Snapshot>>,
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
    /// The control plane's own cluster.
    own: Proof,
    /// How long after its completion a name that was never seen counts as unregistered.
    grace: Duration,
}

/// What a name of a cluster means.
#[derive(Clone, Debug)]
pub enum Named {
    /// The control plane's own cluster.
    Own,
    /// A cluster that joined, reachable or not.
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
    /// Hashes which cluster each name stands for, as far as that is proven: which records may be deleted depends on all of it.
    pub fn hash_identities(&self, hasher: &mut impl Hasher) {
        self.synced.hash(hasher);
        self.own.hash(hasher);
        for (name, member) in &self.members {
            (name, member.proof()).hash(hasher);
        }
    }

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

    /// The one name that stands for all names of a cluster: of several that are proven to be one the first that is registered,
    /// and `local` for the control plane's own cluster.
    #[must_use]
    pub fn canonical(&self, name: &str) -> String {
        if name.is_empty() || name == LOCAL {
            return LOCAL.to_owned();
        }
        let Some(proof) = self.proof(name) else { return name.to_owned() };
        if proof.is(&self.own) {
            return LOCAL.to_owned();
        }
        let same = self.members.keys().find(|other| self.is_live(other, |it| proof.is(it)));
        same.map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Other names of which is said, but not proven, that they mean the same cluster.
    #[must_use]
    pub fn doubtful(&self, name: &str) -> Vec<String> {
        let name = self.canonical(name);
        let proof = if name == LOCAL { Some(self.own.clone()) } else { self.proof(&name) };
        let Some(proof) = proof else { return Vec::new() };
        let is_doubtful = |it: &Proof| proof.claims(it) && !proof.is(it);
        let members = self.members.keys().filter(|other| self.is_live(other, is_doubtful));
        let own = is_doubtful(&self.own).then(|| LOCAL.to_owned());
        own.into_iter().chain(members.cloned()).collect()
    }

    /// Which cluster a name means now, or meant when it was registered; `None`: that is not known, or another one has the name.
    fn proof(&self, name: &str) -> Option<Proof> {
        let proof = match self.members.get(name) {
            // Who answers there now is not who was meant, also if he is known under another name.
            Some(member) if member.state() == State::Replaced => return None,
            // Who answers is not known yet: it is nobody else until that is known.
            Some(member) => member.proof(),
            None => self.known.get(name)?.proof(),
        };
        (!proof.uid.is_empty()).then_some(proof)
    }

    fn is_live(&self, name: &str, which: impl Fn(&Proof) -> bool) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|it| it.state() != State::Replaced && which(&it.proof()))
    }

    /// Names that mean one cluster, or say so, where there are several, with the own cluster's as `local`; and whether that is
    /// proven.
    #[must_use]
    pub fn aliases(&self) -> Vec<(Vec<String>, bool)> {
        let mut by_uid: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if !self.own.uid.is_empty() {
            by_uid.insert(self.own.uid.clone(), vec![LOCAL.to_owned()]);
        }
        for name in self.members.keys() {
            if let Some(proof) = self.proof(name) {
                by_uid.entry(proof.uid).or_default().push(name.clone());
            }
        }
        by_uid.retain(|_, names| names.len() > 1);
        let proven = |names: &[String]| {
            let all: BTreeSet<String> = names.iter().map(|name| self.canonical(name)).collect();
            all.len() == 1
        };
        by_uid.into_values().map(|names| (names.clone(), proven(&names))).collect()
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
        let registry = Arc::new(Registry { changed, current });
        Self { connecting, registry, trials: Arc::default(), sources: Mutex::default() }
    }

    /// The registry as it is now, for whoever puts something in front of the clusters: each one that can be reached has the client that
    /// `client_of` makes of its name and client.
    #[must_use]
    pub fn through(
        &self,
        connecting: Connecting,
        changed: Changed,
        mut client_of: impl FnMut(&str, kube::Client) -> kube::Client,
    ) -> Self {
        let through = Self::new(connecting, changed);
        let mut snapshot = Snapshot::clone(&self.snapshot());
        for (name, member) in &mut snapshot.members {
            let (connecting, changed) = (&through.connecting, &through.registry.changed);
            *member = member.through(|client| client_of(name, client), connecting, changed);
        }
        through.change(|current| *current = snapshot);
        through
    }

    /// As it is now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.registry.current.lock())
    }

    /// What is needed to connect.
    #[must_use]
    pub fn connecting(&self) -> &Connecting {
        &self.connecting
    }

    /// Takes in what an earlier process knew, and the uid of the control plane's own cluster. `first`: there was none.
    pub fn remember(&self, known: BTreeMap<String, Known>, own: String, first: bool) {
        let own = Proof { uid: own, authority: self.connecting.authority.clone() };
        // Who is registered is known from Secrets only.
        let identified = known.into_iter().filter(|(_, known)| !known.uid.is_empty());
        let known =
            identified.map(|(name, known)| (name, Known { labels: None, ..known })).collect();
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
        let authority = member.proof().authority;
        let version = version.unwrap_or_default();
        let known = Known { uid, authority, secret_uid, version, labels: None };
        if snapshot.known.get(name) == Some(&known) {
            return false;
        }
        self.change(|snapshot| {
            snapshot.known.insert(name.to_owned(), known);
        });
        true
    }

    /// Which cluster has or had which name, and the labels of those that are registered; nothing while that is not known.
    pub fn noted(&self) -> Option<BTreeMap<String, Known>> {
        let snapshot = self.snapshot();
        if !snapshot.synced {
            return None;
        }
        let mut noted = snapshot.known.clone();
        for (name, member) in &snapshot.members {
            let known = noted.entry(name.clone()).or_default();
            known.labels = Some(member.cluster.labels.clone());
        }
        Some(noted)
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
    pub fn put_secret(&self, secret: &Secret) {
        let cluster = self.sources.lock().put_secret(secret, self.connecting.rules);
        self.put(cluster);
    }

    /// A Secret is gone. What a ManagedCluster says of the name stays.
    pub fn remove_secret(&self, name: &str) {
        let managed = self.sources.lock().remove_secret(name);
        match managed {
            Some(cluster) => self.put(cluster),
            None => self.remove(name),
        }
    }

    /// Takes in a cluster.
    pub fn put(&self, cluster: Cluster) {
        let name = cluster.name.clone();
        let snapshot = self.snapshot();
        let old = snapshot.members.get(&name);
        if let Some(old) = old.filter(|old| old.cluster.is_same_connection(&cluster)) {
            self.trials.end(&name);
            old.newer_refused(None);
            if !old.cluster.is_same(&cluster) {
                self.take(old.relabelled(cluster));
            }
            return;
        }
        if let Some(old) = old.filter(|old| trial::is_kept(old, &cluster)) {
            let registry = Arc::downgrade(&self.registry);
            let take = move |member| {
                if let Some(registry) = registry.upgrade() {
                    registry.take(member);
                }
            };
            let changed = &self.registry.changed;
            self.trials.begin(old, cluster, (&self.connecting, changed), take);
            return;
        }
        self.trials.end(&name);
        // What is recorded under the name is in the cluster that had it: whoever uses the registry says when there is nothing
        // (`Member::accept`), also if the Secret was made anew.
        let known = || snapshot.known.get(&name).map(|known| known.uid.clone());
        let meant = old.and_then(|old| old.meant()).or_else(known);
        let member = Member::connect(cluster, meant, &self.connecting, &self.registry.changed);
        self.take(member);
    }

    /// Takes in a member.
    pub fn take(&self, member: Arc<Member>) {
        self.registry.take(member);
    }

    /// Takes in a member over an existing client, known to answer and to be the cluster of a uid: of tests.
    pub fn join(&self, cluster: Cluster, client: kube::Client, uid: &str) -> Arc<Member> {
        let member = Member::over(cluster, client, uid, &self.connecting, &self.registry.changed);
        self.take(Arc::clone(&member));
        member
    }

    /// A Secret is gone.
    pub fn remove(&self, name: &str) {
        self.removed(name, Instant::now());
    }

    /// A Secret is gone since a moment.
    pub fn removed(&self, name: &str, since: Instant) {
        self.trials.end(name);
        self.change(|snapshot| {
            if snapshot.members.remove(name).is_some() {
                snapshot.gone.insert(name.to_owned(), since);
            }
        });
        (self.registry.changed)(name, Reachable::No);
    }

    /// Whether all Secrets were seen and the watch works. Those that are not among `listed` are gone.
    pub fn synced(&self, synced: bool, listed: Option<&[String]>) {
        let mut gone = Vec::new();
        let mut news = false;
        let alone = listed.map(|listed| self.sources.lock().listed(listed)).unwrap_or_default();
        self.change(|snapshot| {
            news = synced && !snapshot.synced;
            snapshot.synced = synced;
            if synced && snapshot.complete.is_none() {
                snapshot.complete = Some(Instant::now());
            }
            if let Some(listed) = listed {
                let is_gone = |name: &&String| !listed.contains(name);
                gone = snapshot.members.keys().filter(is_gone).cloned().collect();
                gone.retain(|name| !alone.iter().any(|cluster| cluster.name == *name));
                for name in &gone {
                    snapshot.members.remove(name);
                    snapshot.gone.insert(name.clone(), Instant::now());
                }
            }
        });
        for name in &gone {
            self.trials.end(name);
            (self.registry.changed)(name, Reachable::No);
        }
        alone.into_iter().for_each(|cluster| self.put(cluster));
        if news {
            // Who asked for a name that was not known is answered now.
            (self.registry.changed)("", Reachable::No);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        self.registry.change(change);
    }
}

impl Registry {
    fn take(&self, member: Arc<Member>) {
        let (name, reachable) = (member.cluster.name.clone(), member.reachable());
        self.change(|snapshot| {
            snapshot.gone.remove(&name);
            snapshot.members.insert(name.clone(), member);
        });
        (self.changed)(&name, reachable);
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut current = self.current.lock();
        let mut next = Snapshot::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }
}

impl ManagedSink for Members {
    fn put_managed(&self, name: &str, managed: Option<&Managed>) {
        let described = self.sources.lock().put_managed(name, managed, self.connecting.rules);
        match described {
            Described::As(cluster, _) => self.put(*cluster),
            Described::Gone => self.remove(name),
            Described::Unchanged => {}
        }
    }

    fn managed_names(&self) -> Vec<String> {
        self.sources.lock().managed_names()
    }
}

#[cfg(test)]
mod tests;
