//! Applications that nobody works on: no living replica holds their bucket, the one that holds it does not say on its Lease that it
//! works on it, or this replica has lost them from its queue. What lasts longer than a take-over is counted, and named by an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vela_api::names::{annotation, event};
use vela_cluster::Stored as _;
use vela_shard::{Slot, Table, bucket_of};

use super::Runner;
use super::assign::slot;
use crate::cached::Cached;
use crate::fleet::clock;
use crate::fleet::working::Worked;
use crate::messages;

/// A crash is followed within this time, and a planned change is quicker: until then nothing is wrong.
const TOLERATED: Duration = Duration::from_secs(15);

/// Why nobody works on an Application.
#[derive(Debug, PartialEq, Eq)]
enum Why {
    /// Nobody works on its slot.
    Idle(Slot),
    /// It is this member's, and not in its queue.
    Lost,
}

impl Runner {
    /// How many Applications there are that nobody works on, as this member sees it.
    pub(super) fn find_unowned(&self, apps: &[Arc<Cached>]) -> usize {
        let now = Instant::now();
        let (found, table) = self.idle();
        {
            let mut idle = self.idle.lock();
            *idle = since(found, &idle, now);
        }
        self.unowned(apps, table.as_deref(), now).len()
    }

    /// Emits an event for each.
    pub(super) fn name_unowned(&self) {
        let table = self.fleet.state.lock().member.table().map(Arc::clone);
        for (app, why) in self.unowned(&self.context.apps.all(), table.as_deref(), Instant::now()) {
            let message = match why {
                Why::Idle(slot) => {
                    let key = app.key();
                    let holder = table.as_ref().and_then(|table| table.holder(&slot));
                    let bucket = bucket_of(&key.namespace, &key.name);
                    messages::unowned(bucket, holder.map(|holder| &**holder))
                }
                Why::Lost => messages::lost_from_queue(&self.id),
            };
            self.warn(app, event::UNOWNED, &message);
        }
    }

    fn unowned<'a>(
        &self,
        apps: &'a [Arc<Cached>],
        table: Option<&Table>,
        now: Instant,
    ) -> Vec<(&'a Cached, Why)> {
        let idle = lasting(&self.idle.lock(), now);
        let lost = lasting(&self.missed.lock(), now);
        // Ten thousand Applications, and as good as never a reason to ask for each of them.
        if idle.is_empty() && lost.is_empty() {
            return Vec::new();
        }
        let why = |app: &'a Arc<Cached>| {
            let slot = slot(app, table);
            if idle.contains(&slot) {
                Some((&**app, Why::Idle(slot)))
            } else {
                lost.contains(&app.key()).then_some((&**app, Why::Lost))
            }
        };
        apps.iter().filter_map(why).collect()
    }

    /// The slots that nobody works on now, if it is this member's duty to know that, and the table.
    fn idle(&self) -> (BTreeSet<Slot>, Option<Arc<Table>>) {
        if !self.fleet.is_leading() {
            return (BTreeSet::new(), None);
        }
        let said = self.said(annotation::FLEET_WORKED, Worked::from_text);
        let now = clock::now();
        let state = self.fleet.state.lock();
        let table = state.member.table().map(Arc::clone);
        let is_idle = |slot: &Slot| {
            let holder = table.as_ref().and_then(|table| table.holder(slot));
            let works = match holder {
                Some(id) if *id == self.id => state.slots.get(slot).is_some_and(|slot| slot.works),
                Some(id) => said.get(id).and_then(Option::as_ref).is_none_or(|said| said.has(slot)),
                None => false,
            };
            !works || !state.member.is_owned(slot, now)
        };
        let slots = table.iter().flat_map(|table| table.slots());
        let idle = slots.filter(is_idle).collect();
        drop(state);
        (idle, table)
    }
}

/// Since when each is as it was found: those that were so before, since then.
pub(super) fn since<K: Ord>(
    found: impl IntoIterator<Item = K>,
    before: &BTreeMap<K, Instant>,
    now: Instant,
) -> BTreeMap<K, Instant> {
    let of = |one: K| {
        let since = before.get(&one).copied().unwrap_or(now);
        (one, since)
    };
    found.into_iter().map(of).collect()
}

/// Those that last longer than a take-over.
fn lasting<K: Ord + Clone>(since: &BTreeMap<K, Instant>, now: Instant) -> BTreeSet<K> {
    let lasts = |(_, since): &(&K, &Instant)| now.saturating_duration_since(**since) >= TOLERATED;
    since.iter().filter(lasts).map(|(one, _)| one.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use vela_cluster::Key;

    use super::*;
    use crate::queue::{Class, Queue};

    #[test]
    fn what_is_over_in_time_is_no_reason_and_begins_again() {
        let (start, slot) = (Instant::now(), Slot::Bucket("".into(), 7));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut idle = since([slot.clone()], &BTreeMap::new(), at(0));
        idle = since([slot.clone()], &idle, at(10));
        assert!(lasting(&idle, at(14)).is_empty());
        assert_eq!(lasting(&idle, at(15)), BTreeSet::from([slot.clone()]));
        idle = since([], &idle, at(20));
        idle = since([slot.clone()], &idle, at(30));
        assert!(lasting(&idle, at(40)).is_empty());
        assert_eq!(lasting(&idle, at(45)), BTreeSet::from([slot]));
    }

    /// The bug that this is for: a queue loses the keys of a bucket, and the member works on that as before.
    #[test]
    fn the_keys_of_a_bucket_that_a_queue_loses_are_found() {
        let queue = Queue::default();
        let loses = Arc::new(AtomicBool::new(false));
        let keys: Vec<Key> = (0..500).map(|app| Key::new("shop", format!("app-{app}"))).collect();
        let is_in = |key: &Key| bucket_of(&key.namespace, &key.name) == 7;
        let bug = Arc::clone(&loses);
        queue.serve(Arc::new(move |key| !(bug.load(Ordering::Relaxed) && is_in(key))));
        keys.iter().for_each(|key| queue.add(key.clone(), Class::Scan));
        let start = Instant::now();
        let missing = |now| queue.overdue(&keys, now).missing;
        let mut missed = since(missing(start), &BTreeMap::new(), start);
        assert_eq!(missed.len(), 0);
        loses.store(true, Ordering::Relaxed);
        queue.drop_foreign();
        loses.store(false, Ordering::Relaxed);
        for seconds in [10, 20, 30] {
            let now = start + Duration::from_secs(seconds);
            missed = since(missing(now), &missed, now);
        }
        let lost: BTreeSet<Key> = keys.iter().filter(|key| is_in(key)).cloned().collect();
        assert!(!lost.is_empty());
        assert_eq!(lasting(&missed, start + Duration::from_secs(30)), lost);
    }
}
