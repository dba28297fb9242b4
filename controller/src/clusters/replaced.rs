//! Clusters that were replaced: their name means the one that answers now, once nothing is recorded of the one before. Of those that
//! were taken away it is then forgotten which they were.
//!
//! Each Application sees to its own records; until the last of them stands in the ledger, nothing goes out under the name.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use vela_api::ResourceTracker;
use vela_cluster::members::{ABSENT, Member, State};
use vela_cluster::{Packed, Store, Stored as _};

use super::Clusters;
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

/// Of which clusters trackers have records, while some are replaced: each version of a tracker is opened once.
#[derive(Debug, Default)]
pub(crate) struct Recorded(HashMap<Key, Seen>);

/// A tracker as it was opened.
#[derive(Debug)]
struct Seen {
    version: String,
    /// `None`: it cannot be read, and may have records of any.
    clusters: Option<BTreeSet<String>>,
}

impl Seen {
    fn of(stored: &Packed<ResourceTracker>) -> Self {
        let opened = stored.open().ok();
        let read = opened.and_then(|mut tracker| tracker.expand().is_ok().then_some(tracker));
        let clusters = |tracker: ResourceTracker| {
            tracker.spec.managed_resources.into_iter().map(|record| record.cluster).collect()
        };
        Self { version: stored.version().to_owned(), clusters: read.map(clusters) }
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
    }

    fn is_in(&mut self, stored: &Packed<ResourceTracker>, cluster: &str) -> bool {
        let key = stored.key();
        let known = self.0.get(&key).is_some_and(|seen| seen.version == stored.version());
        if !known {
            self.0.insert(key.clone(), Seen::of(stored));
        }
        let clusters = self.0.get(&key).and_then(|seen| seen.clusters.as_ref());
        clusters.is_none_or(|clusters| clusters.contains(cluster))
    }

    /// No more is remembered than there is, and nothing if nothing waits.
    fn keep(&mut self, trackers: &Trackers, waits: bool) {
        if waits {
            self.0.retain(|key, _| trackers.get(key).is_some());
        } else {
            self.0 = HashMap::new();
        }
    }
}

impl Clusters {
    /// Takes the clusters that answer for those that are meant, as long as this process works.
    pub(crate) async fn accept(&self, trackers: &Trackers, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        let mut recorded = Recorded::default();
        loop {
            let waits = self.accept_now(trackers, &mut recorded);
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
            let seen = recorded.0.get_mut(&Key::new("", name)).unwrap();
            seen.clusters = Some(BTreeSet::from(["north".to_owned()]));
        }
        assert!(recorded.has(&trackers, "north", &none) && !recorded.has(&trackers, "west", &none));
        trackers.put(tracker("b", "3", &[])).unwrap();
        assert!(!recorded.has(&trackers, "east", &none));
        trackers.remove(&Key::new("", "a"), "");
        recorded.keep(&trackers, true);
        assert_eq!(recorded.0.keys().collect::<Vec<_>>(), [&Key::new("", "b")]);
        recorded.keep(&trackers, false);
        assert!(recorded.0.is_empty());
    }
}
