//! This member's knowledge of the fleet, and the reconciles in flight of each slot.
//!
//! What is in flight is counted by what an Application says of itself: its bucket and the pool of its annotation. To which slot
//! that belongs changes when pools come and go.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vela_cluster::Key;
use vela_shard::{
    Buckets, Entry, Holder, Kept, Member, MemberId, Millis, PoolName, Root, RootTiming, Slot,
    Table, has_lease,
};

use super::handover::{Arrival, arrivals};
use super::working::Working;

/// What is in flight of a slot that is to be handed over may end by itself for so long.
pub(super) const GRACE: Millis = 1_000;
/// Lists that end within this time fill caches while a member that leaves waits for that.
const QUICK: Millis = 5_000;
/// After this time a member waits for the caches of the others no more: one of them may never be filled.
const AWAITED: Millis = 300_000;
/// Shards on whose Leases the fleet elects because labels name them: any tenant can name one.
pub(super) const MAX_SHARDS: usize = 20;

/// What a member knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) member: Member,
    pub(super) root: Root,
    /// The Leases of shards, on which Go's shards elect.
    pub(super) shards: BTreeMap<Arc<str>, Root>,
    pub(super) timing: RootTiming,
    /// Shards whose Leases exist.
    pub(super) listed: BTreeSet<Arc<str>>,
    /// What is worked on or handed over.
    pub(super) slots: BTreeMap<Slot, SlotState>,
    pub(super) flights: HashMap<Slot, Flight>,
    /// Buckets that came from other members since the last [`Self::align`].
    pub(super) arrivals: BTreeMap<Slot, Arrival>,
    /// The pools that were in the table at the last [`Self::align`].
    pub(super) pools: Vec<PoolName>,
    /// What the caches keep, and what of it they are filled for.
    pub(super) kept: Kept,
    pub(super) filled: Buckets,
    /// The epoch of the table by whose share they are filled; 0: of none.
    pub(super) ready: u64,
    /// When this member was made, and when it was in the table for the first time.
    made: Millis,
    joined: Option<Millis>,
    /// Applications whose annotation may still be written by a request without an answer, and until when.
    pub(super) moving: HashMap<Key, Millis>,
}

/// A slot that is worked on, or that is to be handed over.
#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// It is worked on.
    pub(super) works: bool,
    /// Since when it is to be handed over.
    pub(super) stopped: Option<Millis>,
    /// Applications that were read again since it was taken over.
    pub(super) read: HashSet<Key>,
    /// Writes that were refused since their Application was not read again.
    pub(super) unread: u64,
    /// It came from another member, and no reconcile of it began yet.
    pub(super) arrival: Option<Arrival>,
}

/// What is in flight of the Applications of one bucket whose annotations name the same pool.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Attempts, and whatever else holds it.
    pub(super) attempts: usize,
    /// Writes that were sent and not answered.
    pub(super) writes: usize,
    /// Until when writes whose answers were lost may still be carried out.
    pub(super) until: Millis,
    /// Ends the attempts.
    pub(super) end: CancellationToken,
}

impl Flight {
    fn is_over(&self, now: Millis) -> bool {
        self.attempts == 0 && self.writes == 0 && now >= self.until
    }
}

impl State {
    /// Nothing is known yet.
    pub(super) fn new(member: Member, timing: RootTiming, now: Millis) -> Self {
        Self {
            member,
            root: Root::new(timing),
            shards: BTreeMap::new(),
            timing,
            listed: BTreeSet::new(),
            slots: BTreeMap::new(),
            flights: HashMap::new(),
            arrivals: BTreeMap::new(),
            pools: Vec::new(),
            kept: Kept::new(Buckets::ALL),
            filled: Buckets::ALL,
            ready: 0,
            made: now,
            joined: None,
            moving: HashMap::new(),
        }
    }

    /// How long writes of the process may go on.
    pub(super) fn process(&self, now: Millis) -> Option<Millis> {
        Some(self.member.valid(now)?.min(self.root.left(now)?))
    }

    /// The slot that counts where one is named.
    pub(super) fn resolve(&self, named: &Slot) -> Slot {
        resolve(&self.member, named)
    }

    /// How long writes for a slot may go on.
    pub(super) fn slot(&self, named: &Slot, now: Millis) -> Option<Millis> {
        let left = self.process(now)?;
        let stopped = self.slots.get(&self.resolve(named)).and_then(|slot| slot.stopped);
        let held = match stopped {
            None => self.member.permitted(named, now)?,
            // It is still held until the table says otherwise, so what is in flight may end in order.
            Some(since) if now < since.saturating_add(GRACE) => self.member.holds(named, now)?,
            Some(_) => return None,
        };
        Some(left.min(held))
    }

    /// How long the fleet may write for the Applications of a shard.
    pub(super) fn shard(&self, shard: &str, now: Millis) -> Option<Millis> {
        if !has_lease(shard) || self.is_surplus(shard) {
            return Some(Millis::MAX);
        }
        self.shards.get(shard)?.left(now)
    }

    /// Whether a shard is one too many: labels name more than there can be, and no controller has elected on its Lease.
    fn is_surplus(&self, shard: &str) -> bool {
        !self.shards.contains_key(shard)
            && self.shards.len() >= MAX_SHARDS
            && !self.listed.contains(shard)
    }

    /// From now on the fleet elects on the Lease of a shard. Whether that is new.
    pub(super) fn elect(&mut self, shard: &str) -> bool {
        if !has_lease(shard) || self.shards.contains_key(shard) || self.is_surplus(shard) {
            return false;
        }
        self.shards.insert(shard.into(), Root::new(self.timing));
        true
    }

    /// A table was read, by a list or by a watch.
    pub(super) fn read(&mut self, table: Arc<Table>, listed: Option<Millis>, now: Millis) {
        self.take_in(table, now, |member, table| member.read(table, listed, now));
    }

    /// A table was written.
    pub(super) fn wrote(&mut self, table: Arc<Table>, started: Millis, now: Millis) {
        self.take_in(table, now, |member, table| member.wrote(table, started, now));
    }

    fn take_in(
        &mut self,
        table: Arc<Table>,
        now: Millis,
        take_in: impl FnOnce(&mut Member, Arc<Table>),
    ) {
        let arrivals = arrivals(&self.member, &table, now);
        let before = self.member.table().map(Arc::clone);
        take_in(&mut self.member, table);
        // One that is behind what is known, or not known to be the one that exists, is not taken in.
        let is_before = |now| before.as_ref().is_some_and(|before| Arc::ptr_eq(before, now));
        if self.member.table().is_some_and(|now| !is_before(now)) {
            self.arrivals.extend(arrivals);
        }
    }

    /// No reconcile follows for buckets without Applications: there is nothing to time.
    pub(super) fn forget_arrivals(&mut self, taken: &BTreeSet<Slot>, with_apps: &BTreeSet<Slot>) {
        for slot in taken.difference(with_apps) {
            if let Some(slot) = self.slots.get_mut(slot) {
                slot.arrival = None;
            }
        }
    }

    /// Slots follow what the table says, unless the own Lease was taken away: then nothing is held.
    pub(super) fn align(&mut self, now: Millis, is_lost: bool) -> Changes {
        let id = Arc::clone(self.member.id());
        // While somebody else may work on everything nothing is held that counts; what comes back is taken over again.
        let is_here = !is_lost && self.root.holder() == Some(Holder::Member);
        let (working, waiting): (BTreeSet<Slot>, BTreeSet<Slot>) = if is_here {
            // A bucket is worked on only when the caches are filled for it: what they lack would count as absent.
            self.member.working().partition(|slot| self.is_filled(slot))
        } else {
            Default::default()
        };
        let table = self.member.table().filter(|_| !is_lost).map(Arc::clone);
        // Held and worked on differ while a slot is handed over, and while another controller holds
        // the root Lease.
        let held: BTreeSet<Slot> =
            table.as_ref().map_or_else(BTreeSet::new, |table| table.held_by(&id).collect());
        let has_other_pools = self.take_in_pools(table.as_deref());
        let mut changes = Changes { has_other_pools, ..Changes::default() };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.moving.retain(|_, until| now < *until);
        for slot in working.union(&held).filter(|slot| !waiting.contains(slot)) {
            let state = self.slots.entry(slot.clone()).or_default();
            if !state.works && !working.contains(slot) {
                // To be handed over before it was worked on, as the slots of a pool that comes.
                let _ = state.stopped.get_or_insert(now);
            }
        }
        let mut unfinished: HashSet<Slot> = HashSet::new();
        for (named, _) in self.flights.iter().filter(|(_, flight)| !flight.is_over(now)) {
            unfinished.insert(self.resolve(named));
        }
        for (name, slot) in &mut self.slots {
            // What is lost has not been stopped before.
            let stopped = slot.stopped.filter(|_| !slot.works);
            match (slot.works, working.contains(name)) {
                (false, true) => {
                    slot.take(arrivals.remove(name));
                    changes.taken.insert(name.clone());
                }
                (true, false) => {
                    slot.works = false;
                    // Its keys are taken no more from now on; the table still names this member
                    // until it is drained.
                    slot.stopped = Some(now);
                    changes.stopped.insert(name.clone());
                }
                (true, true) | (false, false) => {}
            }
            if slot.works || slot.stopped.is_none() {
                continue;
            }
            // Only then can no write of this member reach the API server after the next owner's
            // first.
            let is_drained = !unfinished.contains(name);
            match (held.contains(name), is_drained) {
                (true, true) => self.member.drained(name),
                (true, false) => changes.draining.push(name.clone()),
                (false, true) => {
                    slot.stopped = None;
                    let has_owner =
                        table.as_ref().is_some_and(|table| table.holder(name).is_some());
                    let given = stopped.filter(|_| has_owner && *name != Slot::Lead);
                    changes.drained.extend(given.map(|since| now.saturating_sub(since)));
                    changes.gone.insert(name.clone());
                }
                // It belongs to somebody else already, after a loss.
                (false, false) => {}
            }
        }
        arrivals.retain(|slot, _| waiting.contains(slot));
        self.arrivals = arrivals;
        self.end_flights(&held, now);
        self.slots.retain(|_, slot| slot.works || slot.stopped.is_some());
        changes
    }

    /// Whether the caches have what belongs to the Applications of a slot.
    fn is_filled(&self, slot: &Slot) -> bool {
        match slot {
            Slot::Bucket(_, bucket) => self.filled.contains(*bucket),
            Slot::Lead => true,
        }
    }

    /// What is kept follows the table; `listed` is the generation that the caches are filled for. Whether something else is kept
    /// than before, and whether the caches are filled for something else.
    pub(super) fn keep(&mut self, listed: u64, now: Millis) -> (bool, bool) {
        let id = Arc::clone(self.member.id());
        let table = self.member.table().map(Arc::clone);
        let is_other = table.is_some_and(|table| self.kept.follow(&table, &id, now));
        let filled = (self.kept.filled(listed), self.kept.ready(listed).unwrap_or(0));
        let is_filled = filled != (self.filled, self.ready);
        (self.filled, self.ready) = filled;
        (is_other, is_filled)
    }

    /// Whether this member may be counted on, so that a roll-out stops the next one: it is in the table, and nothing is on its way.
    /// `ready`: whether a member says that its caches are filled by an epoch. Where lists are quick, whoever leaves waits for them.
    pub(super) fn is_ready(&mut self, ready: impl Fn(&MemberId, u64) -> bool, now: Millis) -> bool {
        let Some(table) = self.member.table() else { return false };
        let id = self.member.id();
        if table.index(id).is_none() {
            return false;
        }
        let joined = *self.joined.get_or_insert(now);
        let is_quick = joined.saturating_sub(self.made) < QUICK;
        let epoch = table.epoch;
        let is_filled = |member: &Entry| member.id == *id || ready(&member.id, epoch);
        let is_settled =
            || table.is_settled() && self.ready >= epoch && table.members.iter().all(is_filled);
        is_quick || now.saturating_sub(joined) >= AWAITED || is_settled()
    }

    /// Whether the table has other pools than before. Then what was read of an Application counts no more: another member may have
    /// worked on it while it belonged to another slot.
    fn take_in_pools(&mut self, table: Option<&Table>) -> bool {
        let pools: Vec<PoolName> =
            table.map_or_else(Vec::new, |table| table.pools.keys().map(Arc::clone).collect());
        if pools == self.pools {
            return false;
        }
        self.pools = pools;
        self.slots.values_mut().for_each(|slot| slot.read.clear());
        true
    }

    /// Attempts end whose slot is lost, or which wait although it is to be handed over.
    fn end_flights(&mut self, held: &BTreeSet<Slot>, now: Millis) {
        let Self { member, slots, flights, .. } = self;
        flights.retain(|named, flight| {
            let slot = resolve(member, named);
            let state = slots.get(&slot);
            let since = state.and_then(|slot| slot.stopped);
            let is_late = since.is_some_and(|since| now >= since.saturating_add(GRACE));
            let works = state.is_some_and(|slot| slot.works);
            // A loss ends attempts at once, a hand-over after the grace: nothing is sent any more, and what runs still only thinks.
            if !works && (!held.contains(&slot) || (is_late && flight.writes == 0)) {
                flight.end.cancel();
            }
            !flight.is_over(now)
        });
    }

    /// What this member works on, as queues ask for it.
    pub(super) fn working(&self, now: Millis) -> Working {
        let mut buckets: BTreeMap<PoolName, Buckets> =
            self.pools.iter().map(|pool| (Arc::clone(pool), Buckets::default())).collect();
        for (slot, _) in self.slots.iter().filter(|(_, state)| state.works) {
            if let Slot::Bucket(pool, bucket) = slot
                && let Some(buckets) = buckets.get_mut(pool)
            {
                buckets.insert(*bucket);
            }
        }
        let open = |(shard, root): (&Arc<str>, &Root)| {
            let is_open = root.holder() == Some(Holder::Member) && root.left(now).is_some();
            (Arc::clone(shard), is_open)
        };
        let shards = self.shards.iter().map(open).collect();
        Working {
            buckets,
            shards,
            is_full: self.shards.len() >= MAX_SHARDS,
            listed: self.listed.clone(),
        }
    }

    /// How this member stands in the fleet.
    pub(super) fn standing(&self, now: Millis) -> Standing {
        let id = self.member.id();
        let table = self.member.table();
        let is_wanted = |table: &Table, slot: &Slot| table.target(slot).is_some_and(|of| of == id);
        Standing {
            is_in: table.is_some_and(|table| table.index(id).is_some()),
            leads: self.slots.get(&Slot::Lead).is_some_and(|slot| slot.works),
            wanted: table.map_or_else(Vec::new, |table| {
                table.slots().filter(|slot| is_wanted(table, slot)).collect()
            }),
            epoch: table.map_or(0, |table| table.epoch),
            left: self.process(now).unwrap_or_default(),
        }
    }
}

impl SlotState {
    /// It is worked on from now on, from a clean sheet.
    fn take(&mut self, arrival: Option<Arrival>) {
        self.works = true;
        self.arrival = arrival;
        self.stopped = None;
        self.read.clear();
    }
}

/// What became different for slots when they followed the table.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// They are worked on from now on.
    pub(super) taken: BTreeSet<Slot>,
    /// They are to be handed over: none of their keys is taken any more.
    pub(super) stopped: BTreeSet<Slot>,
    /// They are somebody else's, and nothing of them is in flight.
    pub(super) gone: BTreeSet<Slot>,
    /// How long buckets that were handed over waited for that.
    pub(super) drained: Vec<Millis>,
    /// Own ones that wait for what is in flight before they are handed over.
    pub(super) draining: Vec<Slot>,
    /// The table has other pools than before.
    pub(super) has_other_pools: bool,
}

/// How a member stands in its fleet.
#[derive(Debug)]
pub(super) struct Standing {
    /// It is in the table.
    pub(super) is_in: bool,
    /// It has the leader's duties.
    pub(super) leads: bool,
    /// The slots that it should have.
    pub(super) wanted: Vec<Slot>,
    /// The epoch of the table.
    pub(super) epoch: u64,
    /// How long it may still write.
    pub(super) left: Millis,
}

/// The slot that counts for a member where one is named.
fn resolve(member: &Member, named: &Slot) -> Slot {
    member.table().map_or_else(|| named.clone(), |table| table.resolve(named))
}
