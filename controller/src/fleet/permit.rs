//! What the fence asks before each write: for how long this member may write for the bucket.

use std::sync::Arc;
use std::time::Duration;

use vela_cluster::lease::permit::{Permits, Scope, Sent};
use vela_shard::BUCKETS;

use super::{Fleet, clock};

/// What a fence keeps of this member: a write that is in flight outlives nobody else.
#[derive(Debug, Clone)]
pub(crate) struct Permit(pub(crate) Arc<Fleet>);

impl Permits for Permit {
    fn limit(&self) -> Option<Duration> {
        self.0.state.lock().process(clock::now()).map(Duration::from_millis)
    }

    fn begin(&self, scope: Scope, time: Duration) -> Option<Sent> {
        let fleet = &self.0;
        let now = clock::now();
        let mut state = fleet.state.lock();
        let (slot, left) = match scope {
            Scope::Process => (None, state.process(now)),
            Scope::Lead => (Some(BUCKETS), state.slot(BUCKETS, now)),
            Scope::Bucket(bucket) => {
                (Some(usize::from(bucket)), state.slot(usize::from(bucket), now))
            }
            Scope::Unread(bucket) => {
                if let Some(slot) = state.slots.get_mut(usize::from(bucket)) {
                    // Counted, not sent: the takeover learns from it that the reconcile wanted to
                    // write.
                    slot.unread = slot.unread.wrapping_add(1);
                }
                return None;
            }
        };
        // The permit must last as long as the call may, since a call in flight cannot be called
        // back.
        if left.is_none_or(|left| left < clock::millis(time)) {
            fleet.metrics.refused.inc();
            return None;
        }
        let Some(slot) = slot else { return Some(Sent::new(|_| {})) };
        state.slots.get_mut(slot)?.writes += 1;
        let (fleet, until) = (Arc::clone(fleet), now.saturating_add(clock::millis(time)));
        Some(Sent::new(move |answered| {
            let mut state = fleet.state.lock();
            let Some(slot) = state.slots.get_mut(slot) else { return };
            slot.writes = slot.writes.saturating_sub(1);
            // The server may still carry it out until its own deadline: the slot is not given away
            // before.
            if !answered {
                slot.until = slot.until.max(until);
            }
            if slot.stopped.is_some() {
                fleet.changed.notify_one();
            }
        }))
    }
}
