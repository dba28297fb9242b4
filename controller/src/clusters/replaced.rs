//! Clusters that were replaced: their name means the one that answers now, once nothing is recorded of the one before.
//!
//! Each Application sees to its own records; until the last of them stands in the ledger, nothing goes out under the name.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use vela_api::ResourceTracker;
use vela_cluster::members::{ABSENT, Member, State};
use vela_cluster::{Packed, Store};

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

/// Whether trackers have records of a cluster: those of some Applications first, which most probably do, then all of them. One that
/// cannot be read may have some.
fn is_recorded(trackers: &Trackers, cluster: &str, first: &BTreeSet<Key>) -> bool {
    let has = |stored: &Packed<ResourceTracker>| {
        let Ok(mut tracker) = stored.open() else { return true };
        let is_read = tracker.expand().is_ok();
        !is_read || tracker.spec.managed_resources.iter().any(|it| it.cluster == cluster)
    };
    first.iter().flat_map(|app| trackers.indexed(app)).any(|stored| has(&stored))
        || trackers.all().into_iter().any(|stored| has(&stored))
}

impl Clusters {
    /// Takes the clusters that answer for those that are meant, as long as this process works.
    pub(crate) async fn accept(&self, trackers: &Trackers, stop: &CancellationToken) {
        let Some(on) = &self.enabled else { return };
        loop {
            let waits = self.accept_now(trackers);
            tokio::select! {
                () = on.identities.notified() => {}
                () = tokio::time::sleep(RECHECK), if waits => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// The same once. Returns whether some are left.
    pub(crate) fn accept_now(&self, trackers: &Trackers) -> bool {
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
            if (is_joined || is_over(member)) && !is_recorded(trackers, name, &concerned) {
                member.accept();
                on.members.learn(name);
            } else {
                waits = true;
            }
        }
        waits
    }
}
