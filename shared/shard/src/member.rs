//! One replica: what it knows of itself and the others, and what follows. It learns facts (its renewals, lists of Leases,
//! tables) and asked for decisions; whoever acts on them reports the results.
//!
//! The rules that keep two members from writing to one Application:
//!
//! - a member writes only for slots that it holds by the table as it last read it, and only while its session is valid: a
//!   *permitted* time after the last successful renewal of its Lease **began**. A stale view is harmless, since nobody else changes
//!   the rows of a member whose session is valid;
//! - others judge it dead after they saw no change of its Lease for longer than that (*judged*), and take its rows only after
//!   its Lease was *seized* by a versioned write: from then on no renewal can succeed;
//! - a holder gives a slot only when nothing of it is in flight, and what it stopped stays stopped until it *knows* that it still
//!   holds it: a write whose answer was lost may have been carried out, or be carried out later;
//! - when pools come or go, Applications belong to other slots than before. Those that are in flight count for the slots that they
//!   belong to now, so what was drained must be found to be drained again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Millis;
use crate::bucket::Buckets;
use crate::table::{MemberId, PoolName, Slot, Table};

/// How fast sessions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long after the begin of a successful renewal a member may write.
    pub permitted: Millis,
    /// How long the Lease of a member must be unchanged before it may be judged dead. Longer than `permitted`, by what clocks may
    /// differ in speed.
    pub judged: Millis,
    /// The pause between renewals. One that is late by more than two of them is a gap: the others are observed again.
    pub period: Millis,
}

/// The Lease of a member in a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Whose it is.
    pub id: MemberId,
    /// Identifies the renewal: another stamp, another renewal.
    pub stamp: u64,
    /// It was seized: it is never renewed again.
    pub seized: bool,
    /// The buckets that its caches are filled for; `None`: for all, since it does not say.
    pub filled: Option<Buckets>,
}

/// What is known of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Seen {
    /// `None`: its Lease is not there.
    stamp: Option<u64>,
    seized: bool,
    /// When this was first seen. A seizure is no sign of life: it keeps when the last one was seen.
    since: Millis,
    /// The buckets that its caches are filled for.
    filled: Option<Buckets>,
}

/// Where a member is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// It is not in the table yet.
    New,
    /// It works.
    Joined,
    /// It gives away what it has.
    Leaving,
    /// It is out of the table, and does nothing any more.
    Over,
}

/// What a member knows. All moments are of its own clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    id: MemberId,
    pool: PoolName,
    /// How long a pool is without members until the default pool works for it; `None`: for ever.
    fallback: Option<Millis>,
    timing: Timing,
    buckets: usize,
    phase: Phase,
    /// The begin of the last successful renewal.
    renewed: Option<Millis>,
    /// The begin of the last list that showed the table.
    listed: Option<Millis>,
    /// The others are judged by what was seen since then.
    fit: Millis,
    others: BTreeMap<MemberId, Seen>,
    table: Option<Arc<Table>>,
    /// When that table, or another revision of it, was read last.
    received: Millis,
    /// Since when lists show no table.
    absent: Option<Millis>,
    /// What it does not work on although it holds it, and whether nothing of that is in flight any more.
    stopped: BTreeMap<Slot, bool>,
    /// Since when pools are without members.
    deserted: BTreeMap<PoolName, Millis>,
    /// A write of the table over this revision has no answer.
    doubt: Option<u64>,
    /// It waits for nobody's caches any more.
    is_in_haste: bool,
}

impl Member {
    /// A member of a pool that knows nothing, of a table with so many buckets. `fallback`: how long a pool is without members until
    /// the default pool works for it; `None`: for ever.
    #[must_use]
    pub fn new(
        (id, pool): (MemberId, PoolName),
        timing: Timing,
        buckets: usize,
        fallback: Option<Millis>,
    ) -> Self {
        Self {
            id,
            pool,
            fallback,
            timing,
            buckets,
            phase: Phase::New,
            renewed: None,
            listed: None,
            fit: 0,
            others: BTreeMap::new(),
            table: None,
            received: 0,
            absent: None,
            stopped: BTreeMap::new(),
            deserted: BTreeMap::new(),
            doubt: None,
            is_in_haste: false,
        }
    }

    /// Who it is.
    #[must_use]
    pub const fn id(&self) -> &MemberId {
        &self.id
    }

    /// The pool that it is in.
    #[must_use]
    pub const fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// Whether it cannot join, since there are as many pools as there can be.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.phase == Phase::New
            && self.table.as_ref().is_some_and(|table| !table.admits(&self.pool))
    }

    /// The table as it was read last.
    #[must_use]
    pub const fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }

    /// Whether it is out of the table after it left: its Lease may go.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    // --- the own session ---------------------------------------------------------------------------------------------

    /// A renewal of the own Lease that began at `started` succeeded.
    pub fn renewed(&mut self, started: Millis, now: Millis) {
        let late = self.timing.period.saturating_mul(3);
        if self.renewed.is_none_or(|last| started.saturating_sub(last) > late) {
            self.fit = now;
        }
        self.renewed = Some(self.renewed.map_or(started, |last| last.max(started)));
    }

    /// The own Lease was seized, or is gone: whatever was held belongs to others.
    pub fn lost(&mut self) {
        self.phase = Phase::Over;
        self.renewed = None;
    }

    /// How long the session is still valid.
    #[must_use]
    pub fn session(&self, now: Millis) -> Option<Millis> {
        let until = self.renewed?.saturating_add(self.timing.permitted);
        until.checked_sub(now).filter(|left| *left > 0)
    }

    // --- what may be done --------------------------------------------------------------------------------------------

    /// How long it may still write for a slot; `None`: not now. A slot of a pool that is not in the table is the default pool's.
    #[must_use]
    pub fn permitted(&self, named: &Slot, now: Millis) -> Option<Millis> {
        if self.stopped.contains_key(&self.table.as_ref()?.resolve(named)) {
            return None;
        }
        self.holds(named, now)
    }

    /// How long it may still end what it began, which is longer than [`Self::permitted`] for what it stopped and did not give yet.
    #[must_use]
    pub fn holds(&self, named: &Slot, now: Millis) -> Option<Millis> {
        let table = self.table.as_ref()?;
        let slot = table.resolve(named);
        if self.stopped.get(&slot).is_some_and(|drained| *drained) {
            return None;
        }
        let left = self.valid(now)?;
        (table.holder(&slot) == Some(&self.id)).then_some(left)
    }

    /// How long it may go on with anything at all.
    #[must_use]
    pub fn valid(&self, now: Millis) -> Option<Millis> {
        Some(self.session(now)?.min(self.informed(now)?))
    }

    /// Whoever does not read the table any more must not go on by it: it may be deleted, and made again without him.
    fn informed(&self, now: Millis) -> Option<Millis> {
        let until = self.listed?.saturating_add(self.timing.permitted);
        until.checked_sub(now).filter(|left| *left > 0)
    }

    /// The slots that it holds and has not stopped.
    pub fn working(&self) -> impl Iterator<Item = Slot> + '_ {
        let held = self.table.iter().flat_map(|table| table.held_by(&self.id));
        held.filter(|slot| !self.stopped.contains_key(slot))
    }

    /// The slots that it stopped, and of which something may be in flight still.
    pub fn draining(&self) -> impl Iterator<Item = &Slot> {
        self.stopped.iter().filter(|(_, drained)| !**drained).map(|(slot, _)| slot)
    }

    // --- what is read ------------------------------------------------------------------------------------------------

    /// A list that began at `started` was answered at `now`: all Leases of members. The table of the same list follows by
    /// [`Self::read`] or [`Self::read_nothing`].
    pub fn observe(&mut self, leases: &[Observed], now: Millis) {
        for lease in leases.iter().filter(|lease| lease.id != self.id) {
            let seen = self.others.get(&lease.id);
            let is_known = seen
                .is_some_and(|seen| seen.stamp == Some(lease.stamp) && seen.seized == lease.seized);
            if !is_known {
                let since = seen.filter(|_| lease.seized).map_or(now, |seen| seen.since);
                let (stamp, seized) = (Some(lease.stamp), lease.seized);
                let seen = Seen { stamp, seized, since, filled: lease.filled };
                self.others.insert(Arc::clone(&lease.id), seen);
            } else if let Some(seen) = self.others.get_mut(&lease.id) {
                // A note is no renewal, and is read all the same.
                seen.filled = lease.filled;
            }
        }
        let listed = |id: &MemberId| leases.iter().any(|lease| lease.id == *id);
        let in_table =
            |id: &MemberId| self.table.as_ref().is_some_and(|table| table.index(id).is_some());
        self.others.retain(|id, _| listed(id) || in_table(id));
        let missing = Seen { stamp: None, seized: false, since: now, filled: None };
        for (id, seen) in self.others.iter_mut().filter(|(id, _)| !listed(id)) {
            // What was seized and then deleted stays seized.
            if seen.stamp.is_some() && !seen.seized {
                debug_assert!(*id != self.id, "nobody observes himself");
                *seen = missing;
            }
        }
        // A member whose Lease was never there joined with its last breath.
        for member in self.table.iter().flat_map(|table| &table.members) {
            if member.id != self.id && !self.others.contains_key(&member.id) {
                self.others.insert(Arc::clone(&member.id), missing);
            }
        }
    }

    /// A table was read at `now`. `listed` is when the list began that showed it; `None` for a watch, which may be behind.
    pub fn read(&mut self, table: Arc<Table>, listed: Option<Millis>, now: Millis) {
        if self.table.as_ref().is_some_and(|known| known.incarnation != table.incarnation) {
            // Which of the two was deleted only a list says that began after the other was read. What was held by that one is
            // over before anything is held by this one, which the next list shows again.
            if listed.is_some_and(|started| started > self.received) {
                self.read_nothing(now);
            }
            return;
        }
        self.received = now;
        match (&self.table, listed) {
            // After a table was deleted only a list says that there is one again.
            (None, None) if self.absent.is_some() => return,
            (Some(known), _) if table.revision < known.revision => {}
            _ => {
                if self.doubt.is_some_and(|base| table.revision > base) {
                    self.doubt = None;
                }
                let is_known = |known: &Arc<Table>| known.pools.keys().eq(table.pools.keys());
                if !self.table.as_ref().is_some_and(is_known) {
                    // Other Applications belong to it now, and some of those may be in flight.
                    self.stopped.values_mut().for_each(|drained| *drained = false);
                }
                self.table = Some(table);
            }
        }
        self.listed = self.listed.max(listed);
        self.absent = None;
        self.settle();
    }

    /// A list shows that there is no table: nobody holds anything.
    pub fn read_nothing(&mut self, now: Millis) {
        self.absent.get_or_insert(now);
        (self.table, self.listed, self.doubt) = (None, None, None);
        self.stopped.clear();
        self.phase = match self.phase {
            Phase::New | Phase::Joined => Phase::New,
            Phase::Leaving | Phase::Over => Phase::Over,
        };
    }

    fn settle(&mut self) {
        let Some(table) = &self.table else { return };
        if table.index(&self.id).is_some() {
            if self.phase == Phase::New {
                self.phase = Phase::Joined;
            }
            self.stopped.retain(|slot, _| table.holder(slot) == Some(&self.id));
        } else {
            self.stopped.clear();
            match self.phase {
                // Somebody took it out: its Lease was seized, which the next renewal finds out, too.
                Phase::Joined | Phase::Leaving => self.phase = Phase::Over,
                Phase::New | Phase::Over => {}
            }
        }
    }

    // --- the others --------------------------------------------------------------------------------------------------

    /// Members whose Lease is to be read again and to be seized, if its stamp is still this one: that of the renewal after which
    /// they were silent for too long. What lists show in the meantime does not count, or a member would be seized that has just
    /// renewed.
    pub fn suspects(&self, now: Millis) -> impl Iterator<Item = (&MemberId, u64)> {
        let fit = self.session(now).is_some();
        self.others
            .iter()
            .filter(move |(_, seen)| fit && !seen.seized && self.is_silent(seen, now))
            .filter_map(|(id, seen)| Some((id, seen.stamp?)))
    }

    /// When another member's last renewal was seen.
    #[must_use]
    pub fn last_renewal(&self, id: &str) -> Option<Millis> {
        self.others.get(id).map(|seen| seen.since)
    }

    /// A member was seized, by this one.
    pub fn seized(&mut self, id: &str) {
        if let Some(seen) = self.others.get_mut(id) {
            seen.seized = true;
        }
    }

    fn is_silent(&self, seen: &Seen, now: Millis) -> bool {
        now.saturating_sub(seen.since.max(self.fit)) >= self.timing.judged
    }

    /// Whether a member's rows may be taken.
    fn is_dead(&self, id: &MemberId, now: Millis) -> bool {
        let gone = |seen: &Seen| seen.stamp.is_none() && self.is_silent(seen, now);
        self.others.get(id).is_some_and(|seen| seen.seized || gone(seen))
    }

    /// Whether a member is worth giving something to: whoever was silent for long is dead, perhaps.
    fn is_lively(&self, id: &MemberId, now: Millis) -> bool {
        let recent = |seen: &Seen| now.saturating_sub(seen.since) < self.timing.permitted;
        self.others.get(id).is_some_and(|seen| !seen.seized && seen.stamp.is_some() && recent(seen))
    }

    /// Whether a slot may go to a member: it is not worked on until the caches are filled for it, so who has it works on until then.
    fn may_go(&self, slot: &Slot, to: &MemberId, now: Millis) -> bool {
        let is_filled = |bucket: u8| {
            let filled = self.others.get(to).and_then(|seen| seen.filled);
            filled.is_none_or(|filled| filled.contains(bucket))
        };
        let is_ready = match slot {
            Slot::Bucket(_, bucket) => self.is_in_haste || is_filled(*bucket),
            Slot::Lead => true,
        };
        *to != self.id && is_ready && self.is_lively(to, now)
    }

    /// Whether a living member holds a slot, as far as is known here.
    #[must_use]
    pub fn is_owned(&self, slot: &Slot, now: Millis) -> bool {
        let holder = self.table.as_ref().and_then(|table| table.holder(slot));
        holder.is_some_and(|holder| {
            if *holder == self.id {
                return self.session(now).is_some();
            }
            let lives = |seen: &Seen| {
                !seen.seized
                    && seen.stamp.is_some()
                    && now.saturating_sub(seen.since) < self.timing.judged
            };
            self.others.get(holder).is_some_and(lives)
        })
    }

    // --- what to do --------------------------------------------------------------------------------------------------

    /// It shall leave: from now on it gives everything away.
    pub fn leave(&mut self) {
        self.phase = match self.phase {
            Phase::Joined | Phase::Leaving => Phase::Leaving,
            // A join whose answer was lost may have been carried out: that is known once the table is read.
            Phase::New if self.doubt.is_some() => Phase::Leaving,
            Phase::New | Phase::Over => Phase::Over,
        };
    }

    /// From now on it gives what others shall have to whoever is alive, whether their caches are filled or not: it ends soon.
    pub const fn hurry(&mut self) {
        self.is_in_haste = true;
    }

    /// Nothing of a slot that was stopped is in flight any more.
    pub fn drained(&mut self, slot: &Slot) {
        if let Some(drained) = self.stopped.get_mut(slot) {
            *drained = true;
        }
    }

    /// Stops what is to be handed over, and takes up again what is not any more.
    pub fn adjust(&mut self, now: Millis) {
        let Some(table) = self.table.clone() else { return };
        self.deserted.retain(|pool, _| table.pools.contains_key(pool) && !table.is_staffed(pool));
        for (pool, rows) in &table.pools {
            if !pool.is_empty() && !rows.falls_back && !table.is_staffed(pool) {
                self.deserted.entry(Arc::clone(pool)).or_insert(now);
            }
        }
        let leaving = self.phase == Phase::Leaving;
        for slot in table.held_by(&self.id) {
            let goes = match table.target(&slot) {
                Some(target) => self.may_go(&slot, target, now),
                None => leaving,
            };
            if goes {
                self.stopped.entry(slot).or_insert(false);
            } else if self.doubt.is_none() {
                self.stopped.remove(&slot);
            }
        }
    }

    /// The table to write over the one that was read last, if there is anything to change. Whoever writes it calls
    /// [`Self::writing`] before and then [`Self::wrote`], [`Self::refused`], or nothing if the answer was lost.
    #[must_use]
    pub fn next_table(&self, now: Millis) -> Option<Table> {
        self.session(now)?;
        let mut next = match &self.table {
            Some(table) => Table::clone(table),
            None if self.may_create(now) => Table::new(self.buckets),
            None => return None,
        };
        let before = next.clone();
        if next.buckets() != self.buckets {
            return None;
        }
        let dead: Vec<MemberId> = next
            .members
            .iter()
            .map(|member| &member.id)
            .filter(|id| **id != self.id && self.is_dead(id, now))
            .map(Arc::clone)
            .collect();
        dead.iter().for_each(|id| next.remove(id));
        match self.phase {
            Phase::New => next.join(&self.id, &self.pool, 1),
            Phase::Leaving => {
                next.retire(&self.id);
                // Whoever leaves as the last of its pool waits for nobody: it hands over.
                if self.fallback.is_some() {
                    next.fall_back(&self.pool);
                }
            }
            Phase::Joined => {}
            Phase::Over => return None,
        }
        let is_over = |since: &Millis| {
            self.fallback.is_some_and(|after| now.saturating_sub((*since).max(self.fit)) >= after)
        };
        for (pool, _) in self.deserted.iter().filter(|(_, since)| is_over(since)) {
            next.fall_back(pool);
        }
        for (slot, _) in self.stopped.iter().filter(|(_, drained)| **drained) {
            let target = next.target(slot);
            let is_mine = next.holder(slot) == Some(&self.id);
            if is_mine && target.is_none_or(|target| self.may_go(slot, target, now)) {
                next.give(slot);
            }
        }
        if self.phase == Phase::Leaving && next.held_by(&self.id).next().is_none() {
            next.remove(&self.id);
        }
        next.drop_pools();
        if next == before {
            return None;
        }
        next.revision = next.revision.saturating_add(1);
        Some(next)
    }

    /// Without a table nobody who still goes by an old one may be left.
    fn may_create(&self, now: Millis) -> bool {
        let is_alone = self.others.values().all(|seen| seen.seized || seen.stamp.is_none());
        let enough = |since: Millis| now.saturating_sub(since.max(self.fit)) >= self.timing.judged;
        self.phase == Phase::New && self.absent.is_some_and(|since| is_alone || enough(since))
    }

    /// A write of the table is about to be sent. Returns what [`Self::refused`] needs.
    #[must_use]
    pub fn writing(&mut self) -> Option<u64> {
        let base = self.table.as_ref().map_or(0, |table| table.revision);
        let before = self.doubt;
        self.doubt = Some(before.map_or(base, |doubt| doubt.max(base)));
        before
    }

    /// It succeeded.
    pub fn wrote(&mut self, table: Arc<Table>, started: Millis, now: Millis) {
        self.absent = None;
        self.read(table, Some(started), now);
    }

    /// The last write was refused and has no effect, now or later.
    pub const fn refused(&mut self, before: Option<u64>) {
        self.doubt = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing { permitted: 5_000, judged: 8_000, period: 1_500 };

    /// A table of one bucket that a member holds, as it is read from an object.
    fn table(holder: &str, revision: u64, incarnation: &str) -> Arc<Table> {
        let mut table = Table::new(1);
        table.join(&holder.into(), &"".into(), 1);
        table.join(&"other".into(), &"".into(), 1);
        Arc::new(Table { revision, incarnation: incarnation.into(), ..table })
    }

    #[test]
    fn a_table_that_is_created_again_is_another_one() {
        let mut member = Member::new(("a".into(), "".into()), TIMING, 1, None);
        let slot = Slot::Bucket("".into(), 0);
        member.renewed(1_000, 1_010);
        member.read(table("a", 50, "first"), Some(1_000), 1_010);
        assert_eq!(member.permitted(&slot, 1_100), Some(4_900));
        // Which of them exists neither a watch says nor a list that began before the known one was read.
        for listed in [None, Some(1_010)] {
            member.read(table("b", 2, "second"), listed, 1_200);
            assert_eq!(member.permitted(&slot, 1_300), Some(4_700));
        }
        member.read(table("b", 2, "second"), Some(2_000), 2_010);
        assert_eq!((member.permitted(&slot, 2_100), member.table()), (None, None));
        member.read(table("a", 3, "second"), Some(4_000), 4_010);
        assert_eq!(member.permitted(&slot, 4_100), Some(1_900));
    }
    #[test]
    fn a_suspect_is_bound_to_the_renewal_after_which_it_was_silent() {
        let mut member = Member::new(("a".into(), "".into()), TIMING, 1, None);
        let observe = |member: &mut Member, stamp, now| {
            member.renewed(now, now);
            member.observe(&[Observed { id: "b".into(), stamp, seized: false, filled: None }], now);
        };
        let suspects = |member: &Member, now| -> Vec<(String, u64)> {
            member.suspects(now).map(|(id, stamp)| (id.to_string(), stamp)).collect()
        };
        (0..=8).for_each(|second| observe(&mut member, 1, second * 1_000));
        assert_eq!(suspects(&member, 7_999), []);
        assert_eq!(suspects(&member, 8_000), [("b".to_owned(), 1)]);
        observe(&mut member, 2, 8_100);
        assert_eq!(suspects(&member, 8_200), []);
    }
}
