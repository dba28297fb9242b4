//! What this member works on, as queues ask for every event of every Application: a snapshot without a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vela_shard::{Buckets, PoolName, has_lease, pool_of};

/// What is worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Working {
    /// Of each pool of the table, the buckets that are worked on here.
    pub(super) buckets: BTreeMap<PoolName, Buckets>,
    /// The shards on whose Leases the fleet elects, and whether it may write for their Applications.
    pub(super) shards: BTreeMap<Arc<str>, bool>,
    /// There can be no more of them, except for those that exist.
    pub(super) is_full: bool,
    pub(super) listed: BTreeSet<Arc<str>>,
}

impl Working {
    /// Whether the slot of an Application is worked on: its bucket, in the pool that its annotation names.
    pub(super) fn has(&self, pool: &str, bucket: u8) -> bool {
        let rows = self.buckets.get(pool).or_else(|| self.buckets.get(""));
        rows.is_some_and(|buckets| buckets.contains(bucket))
    }

    /// A pool in which a bucket is worked on.
    pub(super) fn pool(&self, bucket: u8) -> Option<&PoolName> {
        self.buckets.iter().find(|(_, buckets)| buckets.contains(bucket)).map(|(pool, _)| pool)
    }

    /// Whether the label of an Application names a pool that is not there.
    pub(super) fn lacks(&self, label: &str) -> bool {
        !self.buckets.contains_key(pool_of(label))
    }

    /// Whether the shard of an Application is the fleet's. `None`: nobody has asked for it yet.
    pub(super) fn is_open(&self, shard: &str) -> Option<bool> {
        if !has_lease(shard) {
            return Some(true);
        }
        let is_surplus = || (self.is_full && !self.listed.contains(shard)).then_some(true);
        self.shards.get(shard).copied().or_else(is_surplus)
    }

    /// How many buckets that are, in all pools.
    pub(super) fn len(&self) -> usize {
        self.buckets.values().map(|buckets| buckets.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_not_there_is_the_default_one() {
        let mut ours = Buckets::default();
        [0, 63, 64, 255].into_iter().for_each(|bucket| ours.insert(bucket));
        assert!(ours.contains(255) && !ours.contains(254) && ours.len() == 4);
        let working = Working {
            buckets: BTreeMap::from([("".into(), ours), ("p".into(), Buckets::default())]),
            shards: BTreeMap::from([("p".into(), true), ("go".into(), false)]),
            ..Working::default()
        };
        assert!(working.has("", 63) && working.has("gone", 63) && !working.has("p", 63));
        assert_eq!((working.pool(64).map(|pool| &**pool), working.pool(1)), (Some(""), None));
        assert!(working.lacks("gone") && !working.lacks("p") && !working.lacks("master"));
        for (shard, open) in [
            ("", Some(true)),
            ("master", Some(true)),
            ("p", Some(true)),
            ("go", Some(false)),
            ("new", None),
        ] {
            assert_eq!(working.is_open(shard), open, "{shard:?}");
        }
        let full = Working { is_full: true, listed: BTreeSet::from(["go2".into()]), ..working };
        assert_eq!((full.is_open("new"), full.is_open("go2")), (Some(true), None));
    }
}
