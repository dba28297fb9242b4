//! What a member keeps in memory: the buckets that it holds or shall have, and those that it would get if one other member died.
//!
//! It follows from the table alone, by the same function that assigns buckets when a member is gone, so that who takes over is who
//! kept them. With three members each keeps two thirds of all. When two members die at once somebody gets what he did not keep,
//! and lists it first: a bucket is worked on only when the caches are filled for it.

use std::sync::Arc;

use crate::Millis;
use crate::bucket::{BUCKETS, Buckets};
use crate::table::{MemberId, PoolName, Rows, Slot, Table};

/// How long the table must name the same members and targets before what is kept follows it, as far as nothing is held or wanted
/// that is missing: what it takes to fill a cache is a list of everything.
const CALM: Millis = 10_000;

/// The share of a member: of every pool what it holds, what it shall have, and what it stands by for.
#[must_use]
pub fn share(table: &Table, id: &str) -> Buckets {
    own(table, id).union(stand_by(table, id))
}

/// What a member would get if one of the others died, and what it has then.
fn stand_by(table: &Table, id: &str) -> Buckets {
    let mut share = Buckets::default();
    // When all have what they shall have: what is on its way is held by two members anyway.
    let mut settled = table.clone();
    for rows in settled.pools.values_mut() {
        for (holder, target) in rows.holds.iter_mut().zip(&rows.wanted) {
            *holder = target.or(*holder);
        }
    }
    for other in table.members.iter().filter(|other| *other.id != *id) {
        let mut after = settled.clone();
        after.remove(&other.id);
        for slot in after.held_by(id) {
            if let Slot::Bucket(_, bucket) = slot {
                share.insert(bucket);
            }
        }
    }
    share
}

/// What a member holds or shall have, of every pool.
fn own(table: &Table, id: &str) -> Buckets {
    let Some(index) = table.index(id) else { return Buckets::default() };
    let of_pool = |rows: &Rows| -> Buckets {
        let both = (0..=u8::MAX).zip(rows.holds.iter().zip(&rows.wanted));
        let is_own = |holds: Option<u8>, wanted: Option<u8>| [holds, wanted].contains(&Some(index));
        both.filter(|(_, (holds, wanted))| is_own(**holds, **wanted))
            .map(|(bucket, _)| bucket)
            .collect()
    };
    table.pools.values().map(of_pool).fold(Buckets::default(), Buckets::union)
}

/// The share that a member will have once it joined. `predecessor`: the member that it takes the place of, which is in the table
/// still; what that one had will be this one's, most of it.
#[must_use]
pub fn share_of_new(
    table: &Table,
    (id, pool): (&MemberId, &PoolName),
    predecessor: Option<&str>,
) -> Buckets {
    let mut after = table.clone();
    after.join(id, pool, 1);
    let with = share(&after, id);
    let Some(predecessor) = predecessor.filter(|id| table.index(id).is_some()) else { return with };
    after.remove(predecessor);
    with.union(share(&after, id))
}

/// What a member keeps, as it follows the table. Whoever fills caches notes the generation that a list began with.
#[derive(Debug, Clone)]
pub struct Kept {
    buckets: Buckets,
    /// Grows whenever something is added.
    generation: u64,
    /// The generation in which each bucket was added, since when it is kept.
    since: [u64; BUCKETS],
    /// The table that the stand-by part was computed from: its incarnation and epoch.
    seen: (Arc<str>, u64),
    stand_by: Buckets,
    /// Since when that is this.
    changed: Millis,
    /// The share by the table that was followed last.
    share: Buckets,
}

impl Kept {
    /// Keeps some from the beginning on.
    #[must_use]
    pub fn new(buckets: Buckets) -> Self {
        Self {
            buckets,
            generation: 1,
            since: [1; BUCKETS],
            seen: ("".into(), 0),
            stand_by: buckets,
            changed: 0,
            share: buckets,
        }
    }

    /// Follows the table in which a member is. Whether something else is kept than before.
    pub fn follow(&mut self, table: &Table, id: &str, now: Millis) -> bool {
        if table.index(id).is_none() {
            return false;
        }
        if (&*self.seen.0, self.seen.1) != (&*table.incarnation, table.epoch) {
            self.seen = (Arc::clone(&table.incarnation), table.epoch);
            self.stand_by = stand_by(table, id);
            self.changed = now;
        }
        let own = own(table, id);
        let share = own.union(self.stand_by);
        self.share = share;
        let next = if !own.without(self.buckets).is_empty() {
            self.buckets.union(share)
        } else if now.saturating_sub(self.changed) >= CALM {
            share
        } else {
            return false;
        };
        if next == self.buckets {
            return false;
        }
        let added = next.without(self.buckets);
        if !added.is_empty() {
            self.generation = self.generation.saturating_add(1);
        }
        for bucket in added.iter() {
            if let Some(since) = self.since.get_mut(usize::from(bucket)) {
                *since = self.generation;
            }
        }
        self.buckets = next;
        true
    }

    /// What is kept.
    #[must_use]
    pub const fn buckets(&self) -> Buckets {
        self.buckets
    }

    /// What a list that begins now has to be noted with.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation in which a bucket was added, since when it is kept; `None`: it is not.
    #[must_use]
    pub fn since(&self, bucket: u8) -> Option<u64> {
        let since = self.since.get(usize::from(bucket)).copied();
        since.filter(|_| self.buckets.contains(bucket))
    }

    /// The epoch of the table by whose share the caches are filled, with a list that began with a generation; `None`: they are not.
    #[must_use]
    pub fn ready(&self, listed: u64) -> Option<u64> {
        let is_filled = self.share.without(self.filled(listed)).is_empty();
        (is_filled && !self.seen.0.is_empty()).then_some(self.seen.1)
    }

    /// The buckets that a cache is filled for whose last complete list began with a generation.
    #[must_use]
    pub fn filled(&self, listed: u64) -> Buckets {
        let is_listed = |bucket: &u8| self.since(*bucket).is_some_and(|since| since <= listed);
        self.buckets.iter().filter(is_listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: usize) -> MemberId {
        format!("pod-{number}_{number}").as_str().into()
    }

    fn settle(table: &mut Table) {
        let slots: Vec<Slot> = table.slots().collect();
        slots.iter().for_each(|slot| table.give(slot));
    }

    /// So many members of the default pool, which have what they shall have.
    fn fleet(members: usize) -> Table {
        let mut table = Table::new(BUCKETS);
        for number in 0..members {
            table.join(&id(number), &"".into(), 1);
            settle(&mut table);
        }
        table
    }

    fn held(table: &Table, id: &str) -> Buckets {
        let bucket = |slot| match slot {
            Slot::Bucket(_, bucket) => Some(bucket),
            Slot::Lead => None,
        };
        table.held_by(id).filter_map(bucket).collect()
    }

    #[test]
    fn a_member_keeps_two_of_as_many_parts_as_there_are_members() {
        for (members, most) in [(1, 256), (2, 256), (3, 172), (4, 130), (5, 105), (8, 68)] {
            let table = fleet(members);
            for number in 0..members {
                let kept = share(&table, &id(number)).len();
                assert!(kept <= most, "{kept} of {BUCKETS} with {members} members");
            }
        }
        assert_eq!(share(&fleet(3), "unknown"), Buckets::default());
        assert_eq!(share(&Table::new(BUCKETS), &id(0)), Buckets::default());
    }

    #[test]
    fn every_bucket_is_kept_by_two() {
        for members in [2, 3, 5, 9] {
            let table = fleet(members);
            let shares: Vec<Buckets> =
                (0..members).map(|number| share(&table, &id(number))).collect();
            for bucket in 0..=u8::MAX {
                let keep = shares.iter().filter(|share| share.contains(bucket)).count();
                assert_eq!(keep, 2, "bucket {bucket} with {members} members");
            }
        }
    }

    #[test]
    fn who_leaves_or_joins_is_followed_before_anything_moves() {
        let mut table = fleet(3);
        let before = share(&table, &id(0));
        table.retire(&id(2));
        let now = share(&table, &id(0));
        // What the one that leaves has goes to those who stood by for it.
        assert!(held(&table, &id(0)).without(before).is_empty());
        let targets = |table: &Table, number: usize| -> Buckets {
            let id = id(number);
            let is_its = |bucket: &u8| table.target(&Slot::Bucket("".into(), *bucket)) == Some(&id);
            (0..=u8::MAX).filter(is_its).collect()
        };
        assert!(targets(&table, 0).without(before).is_empty());
        assert_eq!(now, Buckets::ALL, "two are left");
        table.join(&id(3), &"".into(), 1);
        assert!(targets(&table, 3).without(share(&table, &id(3))).is_empty());
    }

    #[test]
    fn a_new_member_knows_its_share_before_it_joins() {
        let table = fleet(3);
        let new = share_of_new(&table, (&id(3), &"".into()), None);
        let mut joined = table.clone();
        joined.join(&id(3), &"".into(), 1);
        assert_eq!(new, share(&joined, &id(3)));
        settle(&mut joined);
        assert_eq!(new, share(&joined, &id(3)));
        assert!((100..=140).contains(&new.len()), "{}", new.len());
        assert_eq!(share_of_new(&Table::new(BUCKETS), (&id(0), &"".into()), None), Buckets::ALL);
    }

    #[test]
    fn who_takes_a_dead_ones_place_is_ready_for_what_that_one_had() {
        let mut table = fleet(3);
        let (dead, new) = (id(2), id(3));
        let kept = share_of_new(&table, (&new, &"".into()), Some(&dead));
        assert!(kept.len() < BUCKETS, "{}", kept.len());
        table.join(&new, &"".into(), 1);
        table.remove(&dead);
        assert!(held(&table, &new).without(kept).is_empty());
        assert_eq!(
            share_of_new(&table, (&id(4), &"".into()), Some("unknown")),
            share_of_new(&table, (&id(4), &"".into()), None)
        );
    }

    #[test]
    fn what_is_held_is_kept_at_once_and_the_rest_when_it_is_calm() {
        let mut table = fleet(3);
        let third = id(0);
        let mut kept = Kept::new(share(&table, &third));
        assert!(!kept.follow(&table, &third, 1_000));
        assert_eq!((kept.filled(0).len(), kept.filled(1)), (0, kept.buckets()));
        let before = kept.buckets();
        // One dies. What it had is kept already by who gets it, who stands by for more later.
        table.remove(&id(1));
        assert!(!kept.follow(&table, &third, 2_000));
        assert!(held(&table, &third).without(kept.filled(1)).is_empty());
        assert!(!kept.follow(&table, &third, 11_999));
        assert!(kept.clone().follow(&table, &third, 12_000), "when it is calm");
        // The next one dies at once: the last one lists what it did not keep.
        table.remove(&id(2));
        assert!(kept.follow(&table, &third, 3_000));
        assert_eq!((kept.buckets(), kept.generation()), (Buckets::ALL, 2));
        assert_eq!((kept.filled(1), kept.filled(2)), (before, Buckets::ALL));
        // Others join: what is kept less is not filled any more when it comes again.
        table.join(&id(4), &"".into(), 1);
        table.join(&id(5), &"".into(), 1);
        settle(&mut table);
        assert!(!kept.follow(&table, &third, 4_000));
        assert!(kept.follow(&table, &third, 14_000));
        assert_eq!((kept.buckets(), kept.generation()), (share(&table, &third), 2));
        let less = kept.buckets();
        table.remove(&id(4));
        table.remove(&id(5));
        assert!(kept.follow(&table, &third, 15_000));
        assert_eq!((kept.filled(2), kept.filled(3)), (less, Buckets::ALL));
        assert!(!kept.follow(&Table::new(BUCKETS), &third, 60_000), "it is not in it");
    }

    #[test]
    fn the_buckets_of_a_pool_count_too() {
        let mut table = fleet(2);
        table.join(&id(7), &"p".into(), 1);
        settle(&mut table);
        assert_eq!(share(&table, &id(7)), Buckets::ALL, "it has all of its pool");
        // When it is gone, its Applications wait, and then the default pool's holders have them.
        assert_eq!(share(&table, &id(0)), Buckets::ALL);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Members come, go and die; whoever gets the buckets of one that dies has kept them.
        #[test]
        fn who_takes_over_has_kept_it(steps in proptest::collection::vec((0_u8..3, 0_usize..8), 1..10)) {
            let mut table = fleet(2);
            for (what, number) in steps {
                let known = table.index(&id(number)).is_some();
                let last = table.members.len() == 1;
                match what {
                    0 if !known => table.join(&id(number), &"".into(), 1),
                    1 if known && !last => {
                        table.retire(&id(number));
                        settle(&mut table);
                        table.remove(&id(number));
                    }
                    2 if known && !last => {
                        let before = table.clone();
                        table.remove(&id(number));
                        for member in &table.members {
                            let taken = held(&table, &member.id);
                            let missing = taken.without(share(&before, &member.id));
                            prop_assert!(missing.is_empty(), "{:?}", missing);
                        }
                    }
                    _ => continue,
                }
                settle(&mut table);
            }
        }
    }
}
