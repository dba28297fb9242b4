//! What the fence asks before each write: for how long this member may write for the Application.

use std::sync::Arc;
use std::time::Duration;

use vela_cluster::lease::permit::{Assignment, Permits, RefusedBy, Scope, Sent};
use vela_shard::{Millis, Slot, unanswered_until};

use super::state::State;
use super::{Fleet, clock};

/// What a fence keeps of this member: a write that is in flight outlives nobody else.
#[derive(Debug, Clone)]
pub(crate) struct Permit(pub(crate) Arc<Fleet>);

/// The slot that an Application names.
pub(super) fn slot_of(assignment: &Assignment) -> Slot {
    Slot::Bucket(Arc::clone(&assignment.pool), assignment.bucket)
}

/// How long writes for an Application may go on.
pub(super) fn left(state: &State, assignment: &Assignment, now: Millis) -> Option<Millis> {
    let shard = state.shard(&assignment.shard, now)?;
    Some(state.slot(&slot_of(assignment), now)?.min(shard))
}

/// Whether a permit lasts as long as a call may: a call in flight cannot be called back.
fn lasts(state: &State, scope: &Scope, now: Millis, time: Duration) -> bool {
    let left = match scope {
        Scope::Process => state.process(now),
        Scope::Lead => state.slot(&Slot::Lead, now),
        Scope::Application(assignment) => left(state, assignment, now),
        Scope::Unread(_) => None,
    };
    left.is_some_and(|left| left >= clock::millis(time))
}

impl Permits for Permit {
    fn limit(&self) -> Option<Duration> {
        self.0.state.lock().process(clock::now()).map(Duration::from_millis)
    }

    fn begin(&self, scope: Scope, time: Duration) -> Option<Sent> {
        let fleet = &self.0;
        let now = clock::now();
        let mut state = fleet.state.lock();
        if let Scope::Unread(assignment) = &scope {
            let slot = state.resolve(&slot_of(assignment));
            if let Some(slot) = state.slots.get_mut(&slot) {
                // Counted, not sent: the takeover learns from it that the reconcile wanted to
                // write.
                slot.unread = slot.unread.wrapping_add(1);
            }
            return None;
        }
        if !lasts(&state, &scope, now, time) {
            fleet.metrics.refused(None);
            return None;
        }
        let slot = match &scope {
            Scope::Lead => Some(Slot::Lead),
            Scope::Application(assignment) => Some(slot_of(assignment)),
            Scope::Process | Scope::Unread(_) => None,
        };
        let Some(slot) = slot else { return Some(Sent::new(|_| {})) };
        let flight = state.flights.entry(slot.clone()).or_default();
        flight.writes = flight.writes.saturating_add(1);
        let (fleet, until) = (Arc::clone(fleet), unanswered_until(now, clock::millis(time)));
        Some(Sent::new(move |answered| {
            let mut state = fleet.state.lock();
            let Some(flight) = state.flights.get_mut(&slot) else { return };
            flight.writes = flight.writes.saturating_sub(1);
            // The server may still carry it out until its own deadline: the slot is not given away
            // before.
            if !answered {
                flight.until = flight.until.max(until);
            }
            fleet.notify_stopped(&state, &slot);
        }))
    }

    fn holds(&self, scope: &Scope, time: Duration) -> bool {
        let holds = lasts(&self.0.state.lock(), scope, clock::now(), time);
        if !holds {
            self.0.metrics.refused(None);
        }
        holds
    }

    fn refused(&self, by: RefusedBy) {
        self.0.metrics.refused(Some(by));
    }
}
