//! This member's knowledge of the fleet, and the reconciles in flight of each slot.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vela_cluster::Key;
use vela_shard::{BUCKETS, Holder, Member, Millis, Root, Slot};

/// What is in flight of a slot that is to be handed over may end by itself for so long.
pub(super) const GRACE: Millis = 1_000;

/// What a member knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) member: Member,
    pub(super) root: Root,
    pub(super) slots: Vec<SlotState>,
}

/// What is in flight of a slot.
#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// It is worked on.
    pub(super) works: bool,
    /// Since when it is to be handed over.
    pub(super) stopped: Option<Millis>,
    /// Attempts, and whatever else holds it.
    pub(super) attempts: usize,
    /// Writes that were sent and not answered.
    pub(super) writes: usize,
    /// Until when writes whose answers were lost may still be carried out.
    pub(super) until: Millis,
    /// Ends the attempts.
    pub(super) end: CancellationToken,
    /// Applications that were read again since it was taken over.
    pub(super) read: HashSet<Key>,
    /// Writes that were refused since their Application was not read again.
    pub(super) unread: u64,
}

impl State {
    /// How long writes of the process may go on.
    pub(super) fn process(&self, now: Millis) -> Option<Millis> {
        Some(self.member.valid(now)?.min(self.root.left(now)?))
    }

    /// How long writes for a slot may go on.
    pub(super) fn slot(&self, slot: Slot, now: Millis) -> Option<Millis> {
        let left = self.process(now)?;
        let stopped = self.slots.get(slot)?.stopped;
        let held = match stopped {
            None => self.member.permitted(slot, now)?,
            // It is still held until the table says otherwise, so what is in flight may end in order.
            Some(since) if now < since.saturating_add(GRACE) => self.member.holds(slot, now)?,
            Some(_) => return None,
        };
        Some(left.min(held))
    }

    /// Slots follow what the table says, unless the own Lease was taken away: then nothing is held.
    pub(super) fn align(&mut self, now: Millis, is_lost: bool) -> Changes {
        let id = Arc::clone(self.member.id());
        // While somebody else may work on everything nothing is held that counts; what comes back is taken over again.
        let is_here = !is_lost && self.root.holder() == Some(Holder::Member);
        let working: HashSet<Slot> =
            if is_here { self.member.working().collect() } else { HashSet::new() };
        let table = self.member.table().filter(|_| !is_lost);
        // Held and worked on differ while a slot is handed over, and while another controller holds
        // the root Lease.
        let held: HashSet<Slot> =
            table.map_or_else(HashSet::new, |table| table.held_by(&id).collect());
        let mut changes = Changes::default();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            match (slot.works, working.contains(&index)) {
                (false, true) => {
                    slot.take();
                    changes.taken.push(index);
                }
                (true, false) => {
                    slot.works = false;
                    // Its keys are taken no more from now on; the table still names this member
                    // until it is drained.
                    slot.stopped = Some(now);
                    changes.stopped.push(index);
                }
                (true, true) | (false, false) => {}
            }
            let Some(since) = slot.stopped.filter(|_| !slot.works) else { continue };
            let is_held = held.contains(&index);
            let is_late = now >= since.saturating_add(GRACE);
            // Nothing is sent any more: what runs still only thinks.
            if !is_held || (is_late && slot.writes == 0) {
                // A loss ends attempts at once, a hand-over after the grace.
                slot.end.cancel();
            }
            // Only then can no write of this member reach the API server after the next owner's
            // first.
            let is_drained = slot.attempts == 0 && slot.writes == 0 && now >= slot.until;
            match (is_held, is_drained) {
                (true, true) => self.member.drained(index),
                (true, false) => changes.draining += 1,
                (false, true) => {
                    slot.stopped = None;
                    changes.gone.push(index);
                }
                // It belongs to somebody else already, after a loss.
                (false, false) => {}
            }
        }
        changes
    }

    /// How this member stands in the fleet.
    pub(super) fn standing(&self, now: Millis) -> Standing {
        let id = self.member.id();
        let table = self.member.table();
        let wanted = table.map_or(0, |table| {
            (0..BUCKETS).filter(|slot| table.target(*slot).is_some_and(|of| of == id)).count()
        });
        Standing {
            is_in: table.is_some_and(|table| table.index(id).is_some()),
            leads: self.slots.get(BUCKETS).is_some_and(|slot| slot.works),
            wanted,
            epoch: table.map_or(0, |table| table.epoch),
            left: self.process(now).unwrap_or_default(),
        }
    }
}

impl SlotState {
    /// It is worked on from now on, from a clean sheet.
    fn take(&mut self) {
        self.works = true;
        self.stopped = None;
        // The old token is cancelled: an attempt of the new term would end at once.
        self.end = CancellationToken::new();
        self.read.clear();
    }
}

/// What became different for slots when they followed the table.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// They are worked on from now on.
    pub(super) taken: Vec<Slot>,
    /// They are to be handed over: none of their keys is taken any more.
    pub(super) stopped: Vec<Slot>,
    /// They are somebody else's, and nothing of them is in flight.
    pub(super) gone: Vec<Slot>,
    /// How many own ones wait for what is in flight before they are handed over.
    pub(super) draining: usize,
}

/// How a member stands in its fleet.
#[derive(Debug)]
pub(super) struct Standing {
    /// It is in the table.
    pub(super) is_in: bool,
    /// It has the leader's duties.
    pub(super) leads: bool,
    /// How many buckets it shall have.
    pub(super) wanted: usize,
    /// The epoch of the table.
    pub(super) epoch: u64,
    /// How long it may still write.
    pub(super) left: Millis,
}
