//! Clusters that were replaced: their name means the one that answers now, once nothing is recorded of the one before. Of those that
//! were taken away it is then forgotten which they were.
//!
//! A replica that shares the Applications with others has not all trackers in memory: before it takes a cluster for the one that
//! is meant it reads those of the others. Each Application sees to its own records; until the last of them stands in the ledger, nothing goes out under the name.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use vela_api::ResourceTracker;
use vela_cluster::members::{ABSENT, Member, State};
use vela_cluster::{Packed, Store, Stored as _};

use super::Clusters;
use crate::context::Context;
use crate::queue::Key;

type Trackers = Store<Packed<ResourceTracker>>;

/// How often it is checked whether records are left.
const RECHECK: Duration = Duration::from_secs(2);

/// Whether another cluster has answered for long enough to be taken for the one that is meant from now on: an address may be wrong
/// for a moment.
pub(crate) fn is_over(member: &Member) -> bool {
    if member.state() != State::Replaced {
        return false;
    }
    let lasted = Timestamp::now().duration_since(member.health().since());
    lasted >= SignedDuration::try_from(ABSENT).unwrap_or(SignedDuration::MAX)
}

/// Objects in an answer to a list of trackers.
const PAGE: u32 = 200;

/// For how long it is believed what the trackers of other replicas' Applications had records of: reading them is a list of all.
const BELIEVED: Duration = Duration::from_secs(30);

/// Of which clusters trackers have records, while some are replaced: each version of a tracker is opened once.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    seen: HashMap<Key, Seen>,
    elsewhere: Elsewhere,
}

/// What trackers say that are not in memory.
#[derive(Debug, Default)]
enum Elsewhere {
    /// There are none.
    #[default]
    Nothing,
    /// It is not known.
    Unread,
    /// It would have counted.
    Asked,
    /// They have records of these clusters, or of any: one of them cannot be read.
    Read(Option<BTreeSet<String>>),
}

/// A tracker as it was opened.
#[derive(Debug)]
struct Seen {
    version: String,
    /// `None`: it cannot be read, and may have records of any.
    clusters: Option<BTreeSet<String>>,
}

impl Seen {
    fn of(stored: &Packed<ResourceTracker>) -> Self {
        let clusters = stored.open().ok().and_then(clusters);
        Self { version: stored.version().to_owned(), clusters }
    }
}

/// The clusters of which a tracker has records; `None`: it cannot be read.
fn clusters(mut tracker: ResourceTracker) -> Option<BTreeSet<String>> {
    tracker.expand().ok()?;
    Some(tracker.spec.managed_resources.into_iter().map(|record| record.cluster).collect())
}

/// The clusters of which any tracker has records, read page by page; `None`: one cannot be read.
async fn of_all(client: Client) -> Result<Option<BTreeSet<String>>, vela_cluster::Error> {
    let api: Api<ResourceTracker> = Api::all(client);
    let mut all = Some(BTreeSet::new());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        for tracker in list.items {
            all = all.zip(clusters(tracker)).map(|(all, more)| &all | &more);
        }
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => return Ok(all),
        }
    }
}

impl Recorded {
    /// Whether trackers have records of a cluster: those of some Applications first, which most probably do, then all of them.
    fn has(&mut self, trackers: &Trackers, cluster: &str, first: &BTreeSet<Key>) -> bool {
        first
            .iter()
            .flat_map(|app| trackers.indexed(app))
            .any(|stored| self.is_in(&stored, cluster))
            || trackers.all().into_iter().any(|stored| self.is_in(&stored, cluster))
            || self.is_elsewhere(cluster)
    }

    fn is_elsewhere(&mut self, cluster: &str) -> bool {
        match &self.elsewhere {
            Elsewhere::Nothing => false,
            Elsewhere::Unread | Elsewhere::Asked => {
                self.elsewhere = Elsewhere::Asked;
                true
            }
            Elsewhere::Read(clusters) => {
                clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster))
            }
        }
    }

    fn is_in(&mut self, stored: &Packed<ResourceTracker>, cluster: &str) -> bool {
        let key = stored.key();
        let known = self.seen.get(&key).is_some_and(|seen| seen.version == stored.version());
        if !known {
            self.seen.insert(key.clone(), Seen::of(stored));
        }
        let clusters = self.seen.get(&key).and_then(|seen| seen.clusters.as_ref());
        clusters.is_none_or(|clusters| clusters.contains(cluster))
    }

    /// No more is remembered than there is, and nothing if nothing waits.
    fn keep(&mut self, trackers: &Trackers, waits: bool) {
        if waits {
            self.seen.retain(|key, _| trackers.get(key).is_some());
        } else {
            self.seen = HashMap::new();
        }
    }
}

impl Clusters {
    /// Takes the clusters that answer for those that are meant, as long as this process works.
    pub(crate) async fn accept(&self, context: &Context, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        let (trackers, mut recorded) = (&*context.trackers, Recorded::default());
        let mut read: Option<Instant> = None;
        loop {
            let keeping = context.share.now();
            if keeping.is_everything && keeping.generation <= trackers.listed() {
                recorded.elsewhere = Elsewhere::Nothing;
            } else if read.is_none_or(|read| read.elapsed() >= BELIEVED) {
                recorded.elsewhere = Elsewhere::Unread;
            }
            let mut waits = self.accept_now(trackers, &mut recorded);
            if matches!(recorded.elsewhere, Elsewhere::Asked) {
                match of_all(context.io.client().clone()).await {
                    Ok(clusters) => {
                        (recorded.elsewhere, read) =
                            (Elsewhere::Read(clusters), Some(Instant::now()));
                        waits = self.accept_now(trackers, &mut recorded);
                    }
                    Err(error) => warn!(%error, "trackers cannot be listed"),
                }
            }
            recorded.keep(trackers, waits);
            tokio::select! {
                () = on.identities.notified() => {}
                () = tokio::time::sleep(RECHECK), if waits => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// The same once. Returns whether some are left.
    pub(crate) fn accept_now(&self, trackers: &Trackers, recorded: &mut Recorded) -> bool {
        let Some(on) = &self.enabled else { return false };
        let snapshot = on.members.snapshot();
        let mut waits = false;
        for (name, member) in snapshot.members() {
            if member.state() != State::Replaced {
                on.members.learn(name);
                continue;
            }
            let known = snapshot.known().get(name);
            // Whoever made a new Secret means the cluster that it names.
            let is_joined = known.is_none_or(|known| known.secret_uid != member.cluster.secret_uid);
            let concerned = on.concerned.0.lock().get(name).cloned().unwrap_or_default();
            if (is_joined || is_over(member)) && !recorded.has(trackers, name, &concerned) {
                member.accept();
                on.members.learn(name);
            } else {
                waits = true;
            }
        }
        self.unlearn_left(trackers, recorded) || waits
    }

    /// Forgets which cluster had a name, once nothing is recorded of it. Returns whether some names are left.
    fn unlearn_left(&self, trackers: &Trackers, recorded: &mut Recorded) -> bool {
        let Some(on) = &self.enabled else { return false };
        let snapshot = on.members.snapshot();
        let mut left = std::mem::take(&mut *on.left.lock());
        left.retain(|name| {
            if snapshot.members().contains_key(name) {
                return false;
            }
            let concerned = on.concerned.0.lock().get(name).cloned().unwrap_or_default();
            let is_recorded = recorded.has(trackers, name, &concerned);
            if !is_recorded {
                on.members.unlearn(name);
                on.news.notify_one();
            }
            is_recorded
        });
        let waits = !left.is_empty();
        on.left.lock().append(&mut left);
        waits
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tracker(name: &str, version: &str, clusters: &[&str]) -> Packed<ResourceTracker> {
        let records: Vec<_> = clusters
            .iter()
            .map(|cluster| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "cluster": cluster}))
            .collect();
        let object = json!({"metadata": {"name": name, "resourceVersion": version,
            "labels": {"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"}},
            "spec": {"type": "root", "managedResources": records}});
        Packed::of(&serde_json::from_value::<ResourceTracker>(object).unwrap())
    }

    #[test]
    fn each_version_of_a_tracker_is_opened_once() {
        let trackers = Trackers::default();
        let mut recorded = Recorded::default();
        let (none, of_app) = (BTreeSet::new(), BTreeSet::from([Key::new("n", "a")]));
        trackers.put(tracker("a", "1", &["", "west"])).unwrap();
        trackers.put(tracker("b", "2", &["east"])).unwrap();
        assert!(recorded.has(&trackers, "east", &none) && recorded.has(&trackers, "west", &of_app));
        assert!(!recorded.has(&trackers, "north", &none));
        // What is known of a version is believed: it is not opened again.
        for name in ["a", "b"] {
            let seen = recorded.seen.get_mut(&Key::new("", name)).unwrap();
            seen.clusters = Some(BTreeSet::from(["north".to_owned()]));
        }
        assert!(recorded.has(&trackers, "north", &none) && !recorded.has(&trackers, "west", &none));
        trackers.put(tracker("b", "3", &[])).unwrap();
        assert!(!recorded.has(&trackers, "east", &none));
        trackers.remove(&Key::new("", "a"), "");
        recorded.keep(&trackers, true);
        assert_eq!(recorded.seen.keys().collect::<Vec<_>>(), [&Key::new("", "b")]);
        recorded.keep(&trackers, false);
        assert!(recorded.seen.is_empty());
        // Of other replicas' trackers nothing is taken for granted.
        recorded.elsewhere = Elsewhere::Unread;
        assert!(recorded.has(&trackers, "north", &none));
        assert!(matches!(recorded.elsewhere, Elsewhere::Asked));
        recorded.elsewhere = Elsewhere::Read(Some(BTreeSet::from(["north".to_owned()])));
        assert!(recorded.has(&trackers, "north", &none) && !recorded.has(&trackers, "east", &none));
        recorded.elsewhere = Elsewhere::Read(None);
        assert!(recorded.has(&trackers, "east", &none));
    }
}
