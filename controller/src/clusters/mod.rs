//! The clusters beside the control plane's own, as the controller uses them: the registry, who waits for a member, and what was
//! left behind in clusters that are gone; what is said of them on their Secrets, and as whom Applications act in them.
//!
//! Without the flag there is one cluster, and nothing here does anything.

pub mod access;
pub mod ledger;
pub mod nodes;
pub mod rejoin;
pub(crate) mod replaced;
mod report;
mod returns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;
use vela_apply::Owner;
use vela_apply::object::{LOCAL_CLUSTER, is_local};
use vela_cluster::members::{
    self, Changed, Connecting, Known, Member, Members, Named, Reachable, Snapshot, State,
};
use vela_cluster::{About, ApiError, Key, Recorder};

use crate::metrics::{NodeMetrics, Pending};

use access::Access;
use ledger::Entry;
use rejoin::{Find, Hub, Leads};

/// Makes an Application be reconciled.
pub type Wake = Arc<dyn Fn(&Key) + Send + Sync>;

/// Applications that are observed when a member's state changes, by the member's name.
#[derive(Debug, Default)]
struct Concerned(Mutex<BTreeMap<String, BTreeSet<Key>>>);

impl Concerned {
    /// Whether an Application has to do with a cluster. What objects of a cluster say of their owners is not believed: it could
    /// keep every Application busy.
    fn has(&self, cluster: &str, owner: &Owner) -> bool {
        let app = Key::new(owner.namespace.as_str(), owner.name.as_str());
        self.0.lock().get(cluster).is_some_and(|apps| apps.contains(&app))
    }
}

/// The clusters of the process.
#[derive(Debug, Default)]
pub struct Clusters {
    enabled: Option<Enabled>,
}

/// What there is with the flag only.
struct Enabled {
    members: Arc<Members>,
    concerned: Arc<Concerned>,
    access: Arc<Access>,
    /// Where the Secrets are, and what is remembered of clusters.
    namespace: String,
    /// Something is known that is not stored yet.
    news: Arc<Notify>,
    /// Something is known that was not said yet.
    changes: Arc<Notify>,
    /// Something is there whose ledger was not read yet.
    joins: Arc<Notify>,
    /// A cluster may be another one than before.
    identities: Arc<Notify>,
    /// Who waits to be woken.
    returns: Arc<returns::Returns>,
    /// Clusters whose ledger has news.
    written: Mutex<BTreeSet<String>>,
    /// Names that nobody has any more, as far as one Application is concerned.
    left: Mutex<BTreeSet<String>>,
    /// What goes back to the trackers of Applications, by cluster.
    back: Mutex<BTreeMap<String, BTreeMap<Key, Vec<Entry>>>>,
    wake: Wake,
}

impl std::fmt::Debug for Enabled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enabled").field("members", &self.members).finish_non_exhaustive()
    }
}

/// Stands for all clusters; none has the name.
const ANY: &str = "*";
/// How long it takes until a ledger that could not be read is read again.
const REREAD: Duration = Duration::from_secs(10);
/// How long the nodes of one cluster may take to be read.
const MEASURE: Duration = Duration::from_secs(5);
/// Clusters whose nodes are read at once.
const AT_ONCE: usize = 16;
/// How often the ends of credentials are compared with the time.
const RECHECK: Duration = Duration::from_secs(600);

impl Clusters {
    /// The control plane's own cluster only.
    #[must_use]
    pub fn own() -> Self {
        Self::default()
    }

    /// Members as Secrets of a namespace describe them.
    #[must_use]
    pub fn of(namespace: &str, connecting: Connecting, access: Access, wake: Wake) -> Self {
        let access = Arc::new(access);
        Self::with(namespace, connecting, (access, wake), Members::new)
    }

    /// The same members as they are now, until `stop`, each one that can be reached over the client that `client_of` makes of its name
    /// and client.
    pub(crate) fn through(
        &self,
        stop: &CancellationToken,
        client_of: impl FnMut(&str, kube::Client) -> kube::Client,
    ) -> Self {
        let Some(on) = &self.enabled else { return Self::own() };
        let connecting = Connecting {
            share: Arc::default(),
            notify: Arc::new(|_, _| {}),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
            ..on.members.connecting().clone()
        };
        let (access, wake): (_, Wake) = (Arc::clone(&on.access), Arc::new(|_| {}));
        Self::with(&on.namespace, connecting, (access, wake), |connecting, changed| {
            on.members.through(connecting, changed, client_of)
        })
    }

    fn with(
        namespace: &str,
        mut connecting: Connecting,
        (access, wake): (Arc<Access>, Wake),
        members: impl FnOnce(Connecting, Changed) -> Members,
    ) -> Self {
        let (concerned, news) = (Arc::<Concerned>::default(), Arc::<Notify>::default());
        let (observed, noted) = (Arc::clone(&concerned), Arc::clone(&news));
        let changes = Arc::<Notify>::default();
        let said = Arc::clone(&changes);
        let joins = Arc::<Notify>::default();
        let joined = Arc::clone(&joins);
        let identities = Arc::<Notify>::default();
        let identified = Arc::clone(&identities);
        let woken = Arc::clone(&wake);
        let returns = Arc::<returns::Returns>::default();
        let returned = Arc::clone(&returns);
        let changed: Changed = Arc::new(move |name: &str, reachable: Reachable| {
            // Permits one waiter, or the next one: nothing is missed.
            noted.notify_one();
            said.notify_one();
            joined.notify_one();
            identified.notify_one();
            let mut all: BTreeSet<Key> = match name {
                "" => observed.0.lock().values().flatten().cloned().collect(),
                name => observed.0.lock().get(name).cloned().unwrap_or_default(),
            };
            let is_later = match reachable {
                // All names: who asked for one that was not known.
                Reachable::No if name.is_empty() => false,
                // Until it is known whether it answers, and which cluster it is, there is nothing to do.
                Reachable::NotYet => true,
                // What they write of it is not urgent, and all at once would delay others.
                Reachable::No | Reachable::Yes => returned.put(name, &all),
            };
            if is_later {
                all.clear();
            }
            all.extend(observed.0.lock().get(ANY).into_iter().flatten().cloned());
            all.iter().for_each(|app| wake(app));
        });
        let (known, notify) = (Arc::clone(&concerned), Arc::clone(&connecting.notify));
        connecting.notify = Arc::new(move |cluster: &str, owner: &Owner| {
            if known.has(cluster, owner) {
                notify(cluster, owner);
            }
        });
        let members = Arc::new(members(connecting, changed));
        let namespace = namespace.to_owned();
        let (back, written, left) = Default::default();
        let wake = woken;
        let on = Enabled {
            members,
            concerned,
            access,
            namespace,
            news,
            changes,
            joins,
            identities,
            returns,
            written,
            left,
            back,
            wake,
        };
        Self { enabled: Some(on) }
    }

    /// Whether there may be members at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled.is_some()
    }

    /// The registry as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.enabled.as_ref().map(|on| on.members.snapshot()).unwrap_or_default()
    }

    /// Whether a cluster cannot be reached now, or is not known yet.
    pub(crate) fn is_away(&self, cluster: &str) -> bool {
        if !self.is_on() || is_local(cluster) {
            return false;
        }
        match self.snapshot().named(cluster) {
            Named::Own => false,
            Named::Member(member) => member.reach().is_err(),
            Named::Unregistered(_) | Named::Unclear => true,
        }
    }

    /// The registry, to be filled.
    #[must_use]
    pub fn members(&self) -> Option<&Arc<Members>> {
        self.enabled.as_ref().map(|on| &on.members)
    }

    /// Where what was left behind is noted.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.enabled.as_ref().map_or("", |on| &on.namespace)
    }

    /// Who may use which member.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.enabled.as_ref().map(|on| &*on.access)
    }

    /// From now on an Application is observed when the state of a member changes, or one of that name comes.
    pub fn concerns(&self, cluster: &str, app: &Key) {
        if let Some(on) = &self.enabled
            && !cluster.is_empty()
            && cluster != LOCAL_CLUSTER
        {
            let mut all = on.concerned.0.lock();
            all.entry(cluster.to_owned()).or_default().insert(app.clone());
        }
    }

    /// From now on an Application is observed when the members change: it chooses them by their labels.
    pub fn concerns_any(&self, app: &Key) {
        self.concerns(ANY, app);
    }

    /// How many Applications are observed when the state of a member changes.
    #[must_use]
    pub fn concerned(&self) -> Pending {
        let concerned = self.enabled.as_ref().map(|on| Arc::clone(&on.concerned));
        Arc::new(move |name| {
            let Some(concerned) = &concerned else { return 0 };
            concerned.0.lock().get(name).map_or(0, BTreeSet::len)
        })
    }

    /// Reads what the nodes of all clusters have, as long as this process leads.
    pub async fn measure(
        &self,
        own: &kube::Client,
        metrics: &NodeMetrics,
        (interval, stop): (Duration, &CancellationToken),
    ) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known = BTreeSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => return,
            }
            let snapshot = self.snapshot();
            let own = std::iter::once((LOCAL_CLUSTER.to_owned(), Some(own.clone())));
            let members = snapshot.members().iter().map(|(name, member)| {
                (name.clone(), member.reach().ok().map(|(io, _)| io.client().clone()))
            });
            let all: Vec<_> = own.chain(members).collect();
            let names: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
            known.difference(&names).for_each(|name: &String| metrics.forget(name));
            let read = all.into_iter().map(|(name, client)| async move {
                let nodes = match client {
                    None => None,
                    Some(client) => {
                        let read = nodes::Nodes::read(&client);
                        tokio::time::timeout(MEASURE, read).await.ok().and_then(Result::ok)
                    }
                };
                metrics.set(&name, nodes.as_ref());
            });
            futures::stream::iter(read).buffer_unordered(AT_ONCE).collect::<()>().await;
            known = names;
        }
    }

    /// The Application is gone.
    pub fn forget(&self, app: &Key) {
        if let Some(on) = &self.enabled {
            let mut all = on.concerned.0.lock();
            for apps in all.values_mut() {
                apps.remove(app);
            }
            all.retain(|_, apps| !apps.is_empty());
        }
    }

    /// Follows the Secrets, for ever.
    pub async fn follow(&self, client: kube::Client, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        let mut pause = Duration::from_millis(250);
        loop {
            match on.begin(&client).await {
                Ok(()) => break,
                Err(error) => {
                    warn!(%error, "what is known of clusters cannot be read, trying again");
                    if tokio::time::timeout(pause, stop.cancelled()).await.is_ok() {
                        return;
                    }
                    pause = (pause * 2).min(Duration::from_secs(10));
                }
            }
        }
        tokio::select! {
            () = on.members.follow(client.clone(), &on.namespace) => {}
            () = members::follow_managed(&*on.members, client.clone()) => {}
            () = on.access.rules().follow(client.clone()) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Ends when it is known of each member whether it can be reached. For a process that does not [`Self::settle`].
    pub(crate) async fn known(&self) {
        let Some(on) = &self.enabled else { return };
        let is_known = |member: &Arc<Member>| {
            let state = member.state();
            // One that answers is not known before it is known which cluster it is.
            member.reach().is_ok() || !(state == State::Unknown || state.is_open())
        };
        loop {
            let snapshot = on.members.snapshot();
            if snapshot.is_synced() && snapshot.members().values().all(is_known) {
                return;
            }
            on.joins.notified().await;
        }
    }

    /// Says on the Secrets what changed of their clusters, as long as this process leads.
    pub async fn report(&self, events: &Recorder, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        let mut reported = report::Reported::default();
        loop {
            let snapshot = on.members.snapshot();
            for report in reported.news(&snapshot, Instant::now(), Timestamp::now()) {
                let uid = snapshot.members().get(&report.cluster);
                let about = About {
                    api_version: "v1".to_owned(),
                    kind: "Secret".to_owned(),
                    namespace: on.namespace.clone(),
                    name: report.cluster.clone(),
                    uid: uid.map(|member| member.cluster.secret_uid.clone()).unwrap_or_default(),
                    version: String::new(),
                };
                events.emit(&about, report.severity, report.reason, &report.message, "");
            }
            tokio::select! {
                () = on.changes.notified() => {}
                // Time passes for credentials, too.
                () = tokio::time::sleep(RECHECK) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// What was left behind in clusters that are there again goes back to the Applications, which each replica does for its own; as
    /// long as this process leads, what is to be done with the rest is done.
    pub(crate) async fn settle(
        &self,
        io: &vela_cluster::ObjectClient,
        events: &Recorder,
        (find, leads): (Find<'_>, Leads<'_>),
        stop: &CancellationToken,
    ) {
        let Some(on) = &self.enabled else { return };
        let mut settled = rejoin::Settled::default();
        loop {
            let hub = Hub { io, namespace: &on.namespace, events, find, leads: leads() };
            let snapshot = on.members.snapshot();
            let members = snapshot.members();
            let written = std::mem::take(&mut *on.written.lock());
            settled.keep(|name| members.contains_key(name) && !written.contains(name));
            let mut failed = false;
            for (name, member) in members {
                match settled.settle(name, member, &hub).await {
                    Ok(Some(back)) => on.give_back(name, back),
                    Ok(None) => {}
                    Err(error) => {
                        warn!(%error, cluster = name, "the ledger of a cluster cannot be read");
                        failed = true;
                    }
                }
            }
            tokio::select! {
                () = on.joins.notified() => {}
                () = tokio::time::sleep(REREAD), if failed => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// This process leads from now on.
    pub(crate) fn settle_as_leader(&self) {
        if let Some(on) = &self.enabled {
            on.joins.notify_one();
        }
    }

    /// What goes back to the trackers of an Application, by cluster.
    pub(crate) fn back(&self, app: &Key) -> Vec<(String, Vec<Entry>)> {
        let Some(on) = &self.enabled else { return Vec::new() };
        let back = on.back.lock();
        let of_app = |(cluster, apps): (&String, &BTreeMap<Key, Vec<Entry>>)| {
            Some((cluster.clone(), apps.get(app)?.clone()))
        };
        back.iter().filter_map(of_app).collect()
    }

    /// It is back.
    pub(crate) fn is_back(&self, cluster: &str, app: &Key) {
        if let Some(on) = &self.enabled {
            let mut back = on.back.lock();
            back.get_mut(cluster).map(|apps| apps.remove(app));
            back.retain(|_, apps| !apps.is_empty());
        }
    }

    /// Stores which cluster has which name, as long as this process leads.
    pub async fn remember(&self, io: &vela_cluster::ObjectClient, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        let mut stored: Option<BTreeMap<String, Known>> = None;
        loop {
            tokio::select! {
                () = on.news.notified() => {}
                () = stop.cancelled() => return,
            }
            let snapshot = on.members.snapshot();
            for name in snapshot.members().keys() {
                on.members.learn(name);
            }
            let Some(now) = on.members.noted() else { continue };
            let before = match &stored {
                Some(before) => before.clone(),
                None => match members::load(io, &on.namespace).await {
                    Ok(before) => before.unwrap_or_default(),
                    Err(error) => {
                        warn!(%error, "what is known of clusters cannot be read");
                        continue;
                    }
                },
            };
            if before != now {
                match members::store(io, &on.namespace, (&before, &now)).await {
                    Ok(()) => stored = Some(now),
                    Err(error) => warn!(%error, "what is known of clusters cannot be stored"),
                }
            } else {
                stored = Some(now);
            }
        }
    }

    /// Something was written into the ledger of a cluster. It may be back since that was decided, and its ledger read.
    pub(crate) fn noted(&self, name: &str) {
        if let Some(on) = &self.enabled {
            on.written.lock().insert(name.to_owned());
            on.joins.notify_one();
        }
    }

    /// One Application records nothing any more of a name that is not registered. When none does, it may mean any cluster; until
    /// then what the others leave is noted with the cluster that it is in.
    pub(crate) fn unlearn(&self, name: &str) {
        if let Some(on) = &self.enabled {
            on.left.lock().insert(name.to_owned());
            on.identities.notify_one();
        }
    }
}

impl Enabled {
    fn give_back(&self, cluster: &str, entries: BTreeMap<Key, Vec<Entry>>) {
        let apps: Vec<Key> = entries.keys().cloned().collect();
        let mut back = self.back.lock();
        back.insert(cluster.to_owned(), entries);
        back.retain(|_, apps| !apps.is_empty());
        drop(back);
        apps.iter().for_each(|app| (self.wake)(app));
    }

    /// Reads what earlier processes knew, and which cluster this is.
    async fn begin(&self, client: &kube::Client) -> Result<(), ApiError> {
        let io = vela_cluster::ObjectClient::new(client.clone());
        let known = members::load(&io, &self.namespace).await?;
        let system = Api::<Namespace>::all(client.clone()).get("kube-system").await;
        let own = match system {
            Ok(namespace) => namespace.metadata.uid.unwrap_or_default(),
            // Then a member that is this cluster is taken for another one, as its name says.
            Err(error) => {
                warn!(error = %ApiError::from(error), "the identity of the own cluster cannot be read");
                String::new()
            }
        };
        let first = known.is_none();
        self.members.remember(known.unwrap_or_default(), own, first);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_concerned_is_told_until_it_is_gone() {
        let concerned = Arc::<Concerned>::default();
        let clusters = Clusters::own();
        clusters.concerns("edge", &Key::new("n", "a"));
        assert!(!clusters.is_on() && concerned.0.lock().is_empty());
        concerned.0.lock().entry("edge".to_owned()).or_default().insert(Key::new("n", "a"));
        let owner = |name: &str| Owner { namespace: "n".to_owned(), name: name.to_owned() };
        assert!(concerned.has("edge", &owner("a")));
        assert!(!concerned.has("edge", &owner("b")) && !concerned.has("other", &owner("a")));
        assert!(!clusters.snapshot().is_synced());
    }
}
