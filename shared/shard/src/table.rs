//! The table: who is a member, who holds each slot and who shall have it. Every method is one change that a member may make;
//! none of them asks whether it may, which is [`crate::Member`]'s business.
//!
//! Each pool has rows of its own. Those of a pool begin as a copy of the default pool's, so that whoever works on its Applications
//! so far goes on until it hands them over; and they go when they are a copy again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::assign::wanted;
use crate::shard_id::pool_of;

/// Who a member is: `<pod>_<uuid>`, one for each process.
pub type MemberId = Arc<str>;

/// The name of a pool: a shard id. That of the default pool is empty.
pub type PoolName = Arc<str>;

/// How many pools there may be in addition to the default one.
pub const MAX_POOLS: usize = 20;

/// What one member holds at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// The Applications of a bucket that are in a pool.
    Bucket(PoolName, u8),
    /// The duties of the leader, which are handed over like a bucket.
    Lead,
}

/// A member as the table names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who it is.
    pub id: MemberId,
    /// The pool that it is in.
    pub pool: PoolName,
    /// Its share compared with those of the others. With 0 it gets nothing more and gives what it has: it leaves.
    pub weight: u16,
}

/// The rows of a pool: indexes in the members, one for each bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rows {
    /// Who holds each bucket; `None`: nobody.
    pub holds: Vec<Option<u8>>,
    /// Who shall have it.
    pub wanted: Vec<Option<u8>>,
    /// Its members are gone, and those of the default pool work for them.
    pub falls_back: bool,
}

/// Who takes part, and who holds what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    /// The object that it was read from, which is no part of the record: a table that is deleted and created again is another one,
    /// and its revisions begin again.
    pub incarnation: Arc<str>,
    /// Grows with every write: of two tables that were read, the later one.
    pub revision: u64,
    /// Grows with every change of members, pools or targets.
    pub epoch: u64,
    /// Who takes part.
    pub members: Vec<Entry>,
    /// Who holds the leader's duties, and who shall have them.
    pub lead: (Option<u8>, Option<u8>),
    /// The rows of each pool; those of the default pool are always there.
    pub pools: BTreeMap<PoolName, Rows>,
}

impl Rows {
    fn new(buckets: usize) -> Self {
        let row = vec![None; buckets];
        Self { holds: row.clone(), wanted: row, falls_back: false }
    }
}

impl Table {
    /// A table without members, of so many buckets.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        let pools = BTreeMap::from([(PoolName::from(""), Rows::new(buckets))]);
        let incarnation = "".into();
        Self { incarnation, revision: 0, epoch: 0, members: Vec::new(), lead: (None, None), pools }
    }

    fn default_rows(&self) -> Option<&Rows> {
        self.pools.get("")
    }

    /// How many buckets there are.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.default_rows().map_or(0, |rows| rows.holds.len())
    }

    /// All slots.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let of_pool = |(pool, rows): (&PoolName, &Rows)| {
            let pool = Arc::clone(pool);
            (0..=u8::MAX)
                .take(rows.holds.len())
                .map(move |bucket| Slot::Bucket(Arc::clone(&pool), bucket))
        };
        self.pools.iter().flat_map(of_pool).chain([Slot::Lead])
    }

    /// The slot that counts for an Application whose annotation names a pool: one that is not in the table is the default one.
    #[must_use]
    pub fn slot(&self, pool: &str, bucket: u8) -> Slot {
        let known = self.pools.get_key_value(pool).or_else(|| self.pools.get_key_value(""));
        Slot::Bucket(known.map_or_else(|| "".into(), |(name, _)| Arc::clone(name)), bucket)
    }

    /// The slot that counts where a slot is named.
    #[must_use]
    pub fn resolve(&self, named: &Slot) -> Slot {
        match named {
            Slot::Bucket(pool, bucket) => self.slot(pool, *bucket),
            Slot::Lead => Slot::Lead,
        }
    }

    /// The annotation that an Application shall have, if it is not the one that it has: the pool that its label names, where there
    /// is such a pool. An annotation that names what the label names stays although the pool is gone: it may return.
    #[must_use]
    pub fn moves(&self, label: &str, annotation: &str) -> Option<PoolName> {
        let label = pool_of(label);
        if label == annotation {
            return None;
        }
        let known = self.pools.get_key_value(label);
        let to = known.map_or_else(|| "".into(), |(name, _)| Arc::clone(name));
        (*to != *annotation).then_some(to)
    }

    /// The index of a member.
    #[must_use]
    pub fn index(&self, id: &str) -> Option<u8> {
        let at = self.members.iter().position(|member| *member.id == *id)?;
        u8::try_from(at).ok()
    }

    fn id(&self, index: Option<u8>) -> Option<&MemberId> {
        self.members.get(usize::from(index?)).map(|member| &member.id)
    }

    /// Who holds a slot.
    #[must_use]
    pub fn holder(&self, slot: &Slot) -> Option<&MemberId> {
        self.id(match slot {
            Slot::Bucket(pool, bucket) => {
                self.pools.get(pool)?.holds.get(usize::from(*bucket)).copied().flatten()
            }
            Slot::Lead => self.lead.0,
        })
    }

    /// Who shall have a slot.
    #[must_use]
    pub fn target(&self, slot: &Slot) -> Option<&MemberId> {
        self.id(match slot {
            Slot::Bucket(pool, bucket) => {
                self.pools.get(pool)?.wanted.get(usize::from(*bucket)).copied().flatten()
            }
            Slot::Lead => self.lead.1,
        })
    }

    /// The slots that a member holds.
    pub fn held_by<'t>(&'t self, id: &'t str) -> impl Iterator<Item = Slot> + 't {
        let index = self.index(id);
        let of_pool = move |(pool, rows): (&'t PoolName, &'t Rows)| {
            let held = (0..=u8::MAX).zip(&rows.holds);
            held.filter(move |(_, holder)| index.is_some() && **holder == index)
                .map(move |(bucket, _)| Slot::Bucket(Arc::clone(pool), bucket))
        };
        let leads = (index.is_some() && self.lead.0 == index).then_some(Slot::Lead);
        self.pools.iter().flat_map(of_pool).chain(leads)
    }

    /// Whether everybody has what he shall have.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.lead.0 == self.lead.1 && self.pools.values().all(|rows| rows.holds == rows.wanted)
    }

    /// Whether a pool has a member that does not leave.
    #[must_use]
    pub fn is_staffed(&self, pool: &str) -> bool {
        self.members.iter().any(|member| *member.pool == *pool && member.weight > 0)
    }

    /// Whether a member of this pool can join: there is a limit to pools.
    #[must_use]
    pub fn admits(&self, pool: &str) -> bool {
        self.pools.contains_key(pool) || self.pools.len() <= MAX_POOLS
    }

    /// Somebody joins, with a weight. What nobody holds goes to who shall have it.
    pub fn join(&mut self, id: &MemberId, pool: &PoolName, weight: u16) {
        if self.index(id).is_some() || !self.admits(pool) {
            return;
        }
        if !self.pools.contains_key(pool)
            && let Some(rows) = self.default_rows()
        {
            // Whoever works on these Applications holds their rows.
            let rows = Rows { wanted: Vec::new(), falls_back: false, holds: rows.holds.clone() };
            self.pools.insert(Arc::clone(pool), rows);
        }
        self.members.push(Entry { id: Arc::clone(id), pool: Arc::clone(pool), weight });
        self.plan();
    }

    /// A member announces that it leaves: nobody shall have it any more.
    pub fn retire(&mut self, id: &str) {
        let found = self.members.iter_mut().find(|member| *member.id == *id && member.weight > 0);
        if let Some(member) = found {
            member.weight = 0;
            self.plan();
        }
    }

    /// A member is gone: what it held goes to who shall have it. Only for one that holds nothing, or whose Lease was seized.
    pub fn remove(&mut self, id: &str) {
        let Some(index) = self.index(id) else { return };
        self.members.remove(usize::from(index));
        let rows =
            self.pools.values_mut().flat_map(|rows| rows.holds.iter_mut().chain(&mut rows.wanted));
        for of in rows.chain([&mut self.lead.0, &mut self.lead.1]) {
            *of = match *of {
                Some(other) if other == index => None,
                Some(other) if other > index => Some(other.saturating_sub(1)),
                same => same,
            };
        }
        self.plan();
    }

    /// A slot goes from its holder to who shall have it.
    pub fn give(&mut self, slot: &Slot) {
        match slot {
            Slot::Bucket(pool, bucket) => {
                let Some(rows) = self.pools.get_mut(pool) else { return };
                let target = rows.wanted.get(usize::from(*bucket)).copied().flatten();
                if let Some(holder) = rows.holds.get_mut(usize::from(*bucket)) {
                    *holder = target;
                }
            }
            Slot::Lead => self.lead.0 = self.lead.1,
        }
    }

    /// A pool without members is worked on by those of the default pool.
    pub fn fall_back(&mut self, pool: &str) {
        if pool.is_empty() || self.is_staffed(pool) {
            return;
        }
        let found = self.pools.get_mut(pool).filter(|rows| !rows.falls_back);
        if let Some(rows) = found {
            rows.falls_back = true;
            self.plan();
        }
    }

    /// Pools without members go whose rows are those of the default pool: nobody works on anything else for that.
    pub fn drop_pools(&mut self) {
        let Some(own) = self.default_rows().map(|rows| rows.holds.clone()) else { return };
        let before = self.pools.len();
        let members = &self.members;
        self.pools.retain(|name, rows| {
            let is_used = members.iter().any(|member| member.pool == *name);
            name.is_empty() || is_used || rows.holds != own
        });
        if self.pools.len() != before {
            self.epoch = self.epoch.saturating_add(1);
        }
    }

    /// The members, of which only those count that a test names.
    fn only(&self, counts: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let of = |member: &Entry| Entry {
            weight: if counts(member) { member.weight } else { 0 },
            ..member.clone()
        };
        self.members.iter().map(of).collect()
    }

    /// New targets for the present members; what nobody holds goes there at once.
    fn plan(&mut self) {
        // The default pool is everybody's if it has no member: there is no other pool to fall back to.
        let is_staffed = self.is_staffed("");
        let members = self.only(|member| member.pool.is_empty() || !is_staffed);
        let Some(rows) = self.pools.get_mut("") else { return };
        rows.wanted = wanted(&members, &rows.holds);
        let fallback = rows.wanted.clone();
        let names: Vec<PoolName> =
            self.pools.keys().filter(|name| !name.is_empty()).map(Arc::clone).collect();
        for name in names {
            let is_staffed = self.is_staffed(&name);
            let members = self.only(|member| member.pool == name);
            let Some(rows) = self.pools.get_mut(&name) else { continue };
            rows.falls_back &= !is_staffed;
            rows.wanted = if is_staffed {
                wanted(&members, &rows.holds)
            } else if rows.falls_back {
                fallback.clone()
            } else {
                vec![None; rows.holds.len()]
            };
        }
        self.lead.1 = self.next_lead();
        self.epoch = self.epoch.saturating_add(1);
        for rows in self.pools.values_mut() {
            for (holder, target) in rows.holds.iter_mut().zip(&rows.wanted) {
                *holder = holder.or(*target);
            }
        }
        self.lead.0 = self.lead.0.or(self.lead.1);
    }

    /// Who shall have the leader's duties: who has them, unless it leaves, else the member of the default pool that is there
    /// longest, else any.
    fn next_lead(&self) -> Option<u8> {
        let stays = |member: &Entry| member.weight > 0;
        let holder =
            self.lead.0.filter(|index| self.members.get(usize::from(*index)).is_some_and(stays));
        holder.or_else(|| {
            let of_default = |member: &Entry| stays(member) && member.pool.is_empty();
            let first = self.members.iter().position(of_default);
            let first = first.or_else(|| self.members.iter().position(stays))?;
            u8::try_from(first).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MemberId {
        name.into()
    }

    fn held(table: &Table, name: &str) -> usize {
        table.held_by(name).count()
    }

    fn of(pool: &str, bucket: u8) -> Slot {
        Slot::Bucket(pool.into(), bucket)
    }

    /// Everything goes where it shall be.
    fn settle(table: &mut Table) {
        let slots: Vec<Slot> = table.slots().collect();
        slots.iter().for_each(|slot| table.give(slot));
    }

    #[test]
    fn the_first_member_holds_everything_and_gives_to_the_second() {
        let mut table = Table::new(8);
        table.join(&id("a"), &id(""), 1);
        assert_eq!((held(&table, "a"), table.epoch), (9, 1));
        table.join(&id("b"), &id(""), 1);
        table.join(&id("b"), &id(""), 1);
        assert_eq!(
            (held(&table, "a"), held(&table, "b"), table.epoch),
            (9, 0, 2),
            "nothing moves by itself"
        );
        let moves: Vec<Slot> =
            table.slots().filter(|slot| table.target(slot) == Some(&id("b"))).collect();
        assert_eq!(moves.len(), 4);
        moves.iter().for_each(|slot| table.give(slot));
        assert_eq!((held(&table, "a"), held(&table, "b")), (5, 4));
        assert_eq!(table.holder(&Slot::Lead), Some(&id("a")));
    }

    #[test]
    fn what_a_dead_member_held_goes_on_and_indexes_follow() {
        let mut table = Table::new(6);
        ["a", "b", "c"].iter().for_each(|name| table.join(&id(name), &id(""), 1));
        settle(&mut table);
        let of_c: Vec<Slot> = table.held_by("c").collect();
        table.remove("a");
        assert_eq!((held(&table, "b") + held(&table, "c"), table.index("a")), (7, None));
        assert!(of_c.iter().all(|slot| table.holder(slot) == Some(&id("c"))));
        assert_eq!(table.holder(&Slot::Lead), Some(&id("b")));
        table.remove("b");
        table.remove("c");
        assert!(table.slots().all(|slot| table.holder(&slot).or(table.target(&slot)).is_none()));
    }

    #[test]
    fn who_leaves_keeps_its_slots_until_it_gives_them() {
        let mut table = Table::new(4);
        table.join(&id("a"), &id(""), 1);
        table.retire("a");
        assert_eq!(
            (held(&table, "a"), table.target(&of("", 0))),
            (5, None),
            "nobody else is there"
        );
        table.join(&id("b"), &id(""), 1);
        assert!(table.slots().all(|slot| table.target(&slot) == Some(&id("b"))));
        assert_eq!(held(&table, "a"), 5);
    }

    #[test]
    fn the_rows_of_a_pool_begin_and_end_as_a_copy_of_the_default_pools() {
        let mut table = Table::new(4);
        table.join(&id("a"), &id(""), 1);
        table.join(&id("b"), &id(""), 1);
        settle(&mut table);
        let own = table.pools[""].holds.clone();
        table.join(&id("x"), &id("p"), 1);
        assert_eq!(table.pools["p"].holds, own, "who worked on them still does");
        assert_eq!(table.pools[""].holds, own);
        assert!((0..4).all(|bucket| table.target(&of("p", bucket)) == Some(&id("x"))));
        assert!((0..4).all(|bucket| table.target(&of("", bucket)) != Some(&id("x"))));
        settle(&mut table);
        assert_eq!(held(&table, "x"), 4, "no duties of the leader");
        table.drop_pools();
        assert_eq!(table.pools.len(), 2);
        // It dies: nobody works on its Applications, until they fall back.
        table.remove("x");
        assert!((0..4).all(|bucket| table.holder(&of("p", bucket)).is_none()));
        table.drop_pools();
        assert_eq!(table.pools.len(), 2, "the rows differ");
        let epoch = table.epoch;
        table.fall_back("p");
        assert_eq!(table.pools["p"].holds, own);
        assert!(table.epoch > epoch);
        // It returns before the rows are gone.
        let mut again = table.clone();
        again.join(&id("y"), &id("p"), 1);
        assert!((0..4).all(|bucket| again.target(&of("p", bucket)) == Some(&id("y"))));
        assert_eq!(again.pools["p"].holds, own);
        table.drop_pools();
        assert_eq!(table.pools.len(), 1);
        assert_eq!(table.slot("p", 3), of("", 3), "a pool that is not there is the default one");
    }

    #[test]
    fn the_default_pool_is_everybodys_while_it_has_no_member() {
        let mut table = Table::new(4);
        table.join(&id("x"), &id("p"), 1);
        assert_eq!(held(&table, "x"), 9);
        table.join(&id("a"), &id(""), 1);
        assert!((0..4).all(|bucket| table.target(&of("", bucket)) == Some(&id("a"))));
        assert!((0..4).all(|bucket| table.target(&of("p", bucket)) == Some(&id("x"))));
        settle(&mut table);
        table.retire("a");
        assert!((0..4).all(|bucket| table.target(&of("", bucket)) == Some(&id("x"))));
    }

    #[test]
    fn there_is_a_limit_to_pools() {
        let mut table = Table::new(2);
        for number in 0..=MAX_POOLS {
            table.join(&id(&format!("m-{number}")), &id(&format!("p-{number}")), 1);
        }
        assert_eq!((table.pools.len(), table.members.len()), (MAX_POOLS + 1, MAX_POOLS));
        table.join(&id("last"), &id("p-0"), 1);
        assert!(table.index("last").is_some(), "of a pool that is there");
    }

    #[test]
    fn the_label_asks_and_the_table_answers() {
        let mut table = Table::new(2);
        table.join(&id("x"), &id("p"), 1);
        table.join(&id("y"), &id("q"), 1);
        for (label, annotation, moves) in [
            ("", "", None),
            ("p", "", Some("p")),
            ("p", "p", None),
            ("p", "q", Some("p")),
            ("", "p", Some("")),
            ("unknown", "", None),
            ("unknown", "p", Some("")),
            ("gone", "gone", None),
            ("", "gone", Some("")),
            ("master", "", None),
            ("master", "p", Some("")),
        ] {
            assert_eq!(
                table.moves(label, annotation).as_deref(),
                moves,
                "{label:?} {annotation:?}"
            );
        }
    }
}
