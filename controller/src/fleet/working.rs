//! What this member works on, as queues ask for every event of every Application: a snapshot without a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vela_shard::{Buckets, MASTER, PoolName, Slot, has_lease, pool_of};

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

    /// The buckets of each pool, as the Lease of a member says them.
    pub(super) fn to_text(&self) -> String {
        let of = |(pool, buckets): (&PoolName, &Buckets)| {
            let pool = if pool.is_empty() { MASTER } else { pool };
            format!("{pool}={}", buckets.to_text())
        };
        let pools: Vec<String> = self.buckets.iter().map(of).collect();
        pools.join(",")
    }

    /// How many buckets that are, in all pools.
    pub(super) fn len(&self) -> usize {
        self.buckets.values().map(|buckets| buckets.len()).sum()
    }
}

/// What a member says on its Lease that it works on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Worked(BTreeMap<PoolName, Buckets>);

impl Worked {
    /// Reads what a Lease says; `None`: a release that does not say so works on what it holds.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let pools = text.split(',').map(|pool| {
            let (pool, buckets) = pool.split_once('=')?;
            Some((pool_of(pool).into(), Buckets::from_text(buckets)?))
        });
        pools.collect::<Option<_>>().map(Self)
    }

    /// Whether a slot is among them. The leader's duties are no bucket: they are not said.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        match slot {
            Slot::Bucket(pool, bucket) => {
                self.0.get(pool).is_some_and(|buckets| buckets.contains(*bucket))
            }
            Slot::Lead => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_what_is_worked_on() {
        let some: Buckets = [0, 63, 200].into_iter().collect();
        let buckets = BTreeMap::from([("".into(), some), ("p".into(), Buckets::default())]);
        let text = Working { buckets, ..Working::default() }.to_text();
        let worked = Worked::from_text(&text).unwrap();
        let slot = |pool: &str, bucket| Slot::Bucket(pool.into(), bucket);
        assert!(worked.has(&slot("", 63)) && worked.has(&Slot::Lead), "{text}");
        for other in [slot("", 64), slot("p", 63), slot("gone", 63)] {
            assert!(!worked.has(&other), "{other:?} of {text}");
        }
        for bad in ["", "master", "master=", &format!("{text},p=7")] {
            assert_eq!(Worked::from_text(bad), None, "{bad:?}");
        }
        let none = Worked::from_text(&format!("p={}", some.to_text())).unwrap();
        assert!(!none.has(&slot("", 63)) && none.has(&slot("p", 63)));
    }

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
