//! This replica as a member of a fleet: several replicas share the Applications by themselves (`--sharding=auto`, docs/scaling.md).
//!
//! What is decided is decided in `vela-shard`; here it is asked and acted on. [`Fleet`] is what all tasks
//! share, `state` what is in flight of each slot, `permit` what the fence asks before each write. `tasks` has a file for each thing
//! that a member does: renew its Lease, observe the others', follow the table, write it, judge the silent. `takeover` reads an
//! Application again before the first write for it. `lease` reads and writes the Leases, `show` prints them.

mod clock;
mod lease;
mod permit;
mod show;
mod state;
mod takeover;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use vela_cluster::Key;
use vela_cluster::lease::permit::{Scope, within};
use vela_serve::metrics::{Error, Registry};
use vela_shard::{BUCKETS, Member, MemberId, Millis, Root, RootTiming, Slot, Timing, bucket_of};

use crate::metrics::FleetMetrics;
use crate::queue::Next;

use state::{SlotState, State};

pub use lease::Names;
pub(crate) use permit::Permit;
pub use show::{COMMAND, main};
pub use tasks::Options;
pub(crate) use tasks::start;

/// How often the root Lease is renewed: every list shows another renewal.
const ROOT_RENEWED: Millis = 1_500;
/// When another member than the one with the leader's duties renews it.
const ROOT_REPLACED: Millis = 3_000;

/// The state of this member.
#[derive(Debug)]
pub struct Fleet {
    state: Mutex<State>,
    /// The buckets that are worked on, a bit each: asked for every key.
    working: [AtomicU64; BUCKETS / 64],
    /// Something changed that may call for an action.
    changed: Notify,
    /// Whether this member has the leader's duties.
    leads: watch::Sender<bool>,
    /// Whether it is in the table.
    joined: watch::Sender<bool>,
    /// Its Lease was taken from it.
    lost: CancellationToken,
    /// Everything was given away.
    over: CancellationToken,
    /// The metrics of the fleet.
    metrics: FleetMetrics,
}

/// How fast a fleet is.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How long the Lease of a member must be unchanged until it is judged dead.
    pub lease_duration: Duration,
    /// How long a member may write after a renewal began.
    pub renew_deadline: Duration,
    /// Between renewals.
    pub retry_period: Duration,
    /// The same of the root Lease: what other controllers go by.
    pub root_permitted: Duration,
}

impl Fleet {
    /// A member that holds nothing yet.
    ///
    /// # Errors
    /// A metric cannot be registered.
    pub fn new(id: &str, pace: Pace, registry: &Registry) -> Result<Self, Error> {
        let id: MemberId = id.into();
        let timing = Timing {
            permitted: clock::millis(pace.renew_deadline),
            judged: clock::millis(pace.lease_duration),
            period: clock::millis(pace.retry_period),
        };
        let root = RootTiming {
            permitted: clock::millis(pace.root_permitted),
            renewed: ROOT_RENEWED,
            replaced: ROOT_REPLACED,
        };
        // One more than there are buckets: the last slot is that of the leader's duties.
        let slots = (0..=BUCKETS).map(|_| SlotState::default()).collect();
        Ok(Self {
            state: Mutex::new(State {
                member: Member::new(id, timing, BUCKETS),
                root: Root::new(root),
                slots,
            }),
            working: Default::default(),
            changed: Notify::new(),
            leads: watch::Sender::new(false),
            joined: watch::Sender::new(false),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
            metrics: FleetMetrics::new(registry)?,
        })
    }

    /// Whether an Application is worked on here.
    #[must_use]
    pub fn is_ours(&self, key: &Key) -> bool {
        let bucket = usize::from(bucket_of(&key.namespace, &key.name));
        let word = self.working.get(bucket / 64);
        // Asked for every event of every Application: a lock here would be the busiest of the
        // process.
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (bucket % 64)) != 0)
    }

    fn set_working(&self, bucket: Slot, works: bool) {
        let Some(word) = self.working.get(bucket / 64) else { return };
        if works {
            word.fetch_or(1 << (bucket % 64), Ordering::AcqRel);
        } else {
            word.fetch_and(!(1 << (bucket % 64)), Ordering::AcqRel);
        }
    }

    /// Does something for an Application: its writes are checked against the permit of its bucket, and it ends when the bucket
    /// is handed over. `None`: the bucket is not held, or not any more.
    pub(crate) async fn work<T>(
        &self,
        key: &Key,
        is_read: bool,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let bucket = bucket_of(&key.namespace, &key.name);
        let scope = if is_read { Scope::Bucket(bucket) } else { Scope::Unread(bucket) };
        self.attempt(usize::from(bucket), scope, work).await
    }

    /// The same for the leader's duties.
    pub(crate) async fn lead<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.attempt(BUCKETS, Scope::Lead, work).await
    }

    async fn attempt<T>(
        &self,
        slot: Slot,
        scope: Scope,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = self.enter(slot)?;
        // Counted down also when the attempt is cancelled or panics, or its slot could never be
        // drained.
        let _attempt = Attempt { fleet: self, slot };
        tokio::select! {
            done = within(scope, work) => Some(done),
            () = end.cancelled() => None,
        }
    }

    fn enter(&self, slot: Slot) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        // Under the lock that stops the slot: none begins after it was found to be drained.
        let slot = state.slots.get_mut(slot).filter(|slot| slot.works)?;
        slot.attempts = slot.attempts.saturating_add(1);
        Some(slot.end.clone())
    }

    /// Whether this member has the leader's duties.
    pub(crate) fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }

    /// Waits until this member has the leader's duties, or has them no more.
    pub(crate) async fn until_leading(&self, leads: bool) {
        // The sender lives as long as this value.
        let _ = self.leads.subscribe().wait_for(|now| *now == leads).await;
    }

    /// Waits until it is in the table for the first time.
    pub(crate) async fn until_joined(&self) {
        let _ = self.joined.subscribe().wait_for(|joined| *joined).await;
    }

    /// Waits until its Lease was taken from it.
    pub(crate) async fn until_lost(&self) {
        self.lost.cancelled().await;
    }

    /// Leaves the fleet: everything is handed over, which takes as long as what is in flight.
    pub(crate) fn leave(&self) {
        self.state.lock().member.leave();
        self.changed.notify_one();
    }

    /// Waits until everything was handed over after [`Self::leave`].
    pub(crate) async fn until_over(&self) {
        self.over.cancelled().await;
    }

    /// Who this member is.
    pub(crate) fn id(&self) -> MemberId {
        Arc::clone(self.state.lock().member.id())
    }
}

/// An attempt in flight.
struct Attempt<'f> {
    fleet: &'f Fleet,
    slot: Slot,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.fleet.state.lock();
        if let Some(slot) = state.slots.get_mut(self.slot) {
            slot.attempts = slot.attempts.saturating_sub(1);
            // Only a slot that is handed over waits for the last attempt.
            if slot.stopped.is_some() {
                self.fleet.changed.notify_one();
            }
        }
    }
}

/// What becomes of a key whose bucket is not held any more: its next owner has it in his queue.
pub(crate) const GONE: Next = Next::Done;

#[cfg(test)]
mod tests;
