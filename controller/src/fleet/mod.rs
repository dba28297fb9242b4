//! This replica as a member of a fleet: several replicas share the Applications by themselves (`--sharding=auto`, docs/scaling.md).
//!
//! What is decided is decided in `vela-shard`; here it is asked and acted on. [`Fleet`] is the state that all tasks share, and what
//! the fence asks before each write. `run` has the tasks: renewals, lists, hand-over, judgement. `takeover` reads an Application
//! again before the first write for it. `lease` reads and writes the Leases.

mod clock;
mod lease;
mod run;
mod show;
mod takeover;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use vela_cluster::Key;
use vela_cluster::lease::permit::{Permits, Scope, Sent, within};
use vela_serve::metrics::{Error, Registry};
use vela_shard::{BUCKETS, Member, MemberId, Millis, Root, RootTiming, Slot, Timing, bucket_of};

use crate::metrics::FleetMetrics;
use crate::queue::Next;

pub use lease::Names;
pub use run::Options;
pub(crate) use run::start;
pub use show::{COMMAND, main};

/// What is in flight of a slot that is to be handed over may end by itself for so long.
const GRACE: Millis = 1_000;

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

#[derive(Debug)]
struct State {
    member: Member,
    root: Root,
    slots: Vec<SlotState>,
}

/// What is in flight of a slot.
#[derive(Debug, Default)]
struct SlotState {
    /// It is worked on.
    works: bool,
    /// Since when it is to be handed over.
    stopped: Option<Millis>,
    /// Attempts, and whatever else holds it.
    attempts: usize,
    /// Writes that were sent and not answered.
    writes: usize,
    /// Until when writes whose answers were lost may still be carried out.
    until: Millis,
    /// Ends the attempts.
    end: CancellationToken,
    /// Applications that were read again since it was taken over.
    read: HashSet<Key>,
    /// Writes that were refused since their Application was not read again.
    unread: u64,
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
        let _attempt = Attempt { fleet: self, slot };
        tokio::select! {
            done = within(scope, work) => Some(done),
            () = end.cancelled() => None,
        }
    }

    fn enter(&self, slot: Slot) -> Option<CancellationToken> {
        let mut state = self.state.lock();
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
            if slot.stopped.is_some() {
                self.fleet.changed.notify_one();
            }
        }
    }
}

impl State {
    /// How long writes of the process may go on.
    fn process(&self, now: Millis) -> Option<Millis> {
        Some(self.member.valid(now)?.min(self.root.left(now)?))
    }

    /// How long writes for a slot may go on.
    fn slot(&self, slot: Slot, now: Millis) -> Option<Millis> {
        let left = self.process(now)?;
        let stopped = self.slots.get(slot)?.stopped;
        let held = match stopped {
            None => self.member.permitted(slot, now)?,
            Some(since) if now < since.saturating_add(GRACE) => self.member.holds(slot, now)?,
            Some(_) => return None,
        };
        Some(left.min(held))
    }
}

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
                    slot.unread = slot.unread.wrapping_add(1);
                }
                return None;
            }
        };
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
            if !answered {
                slot.until = slot.until.max(until);
            }
            if slot.stopped.is_some() {
                fleet.changed.notify_one();
            }
        }))
    }
}

/// What becomes of a key whose bucket is not held any more: its next owner has it in his queue.
pub(crate) const GONE: Next = Next::Done;

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that holds everything, since now.
    fn alone() -> Arc<Fleet> {
        let pace = Pace {
            lease_duration: Duration::from_secs(8),
            renew_deadline: Duration::from_secs(5),
            retry_period: Duration::from_millis(1_500),
            root_permitted: Duration::from_secs(10),
        };
        let registry = Registry::new("test", "0").unwrap();
        let fleet = Arc::new(Fleet::new("a_1", pace, &registry).unwrap());
        let now = clock::now();
        let mut state = fleet.state.lock();
        state.member.renewed(now, now);
        state.member.observe(&[], now);
        state.member.read_nothing(now);
        let table = state.member.next_table(now).unwrap();
        let _ = state.member.writing();
        state.member.wrote(Arc::new(table), now);
        state.slots.iter_mut().for_each(|slot| slot.works = true);
        drop(state);
        fleet
    }

    #[test]
    fn a_write_needs_the_root_the_session_and_the_bucket() {
        let fleet = alone();
        let permit = Permit(Arc::clone(&fleet));
        let second = Duration::from_secs(1);
        assert!(permit.limit().is_none(), "nobody knows whether the fleet is here");
        assert!(permit.begin(Scope::Bucket(7), second).is_none());
        let now = clock::now();
        fleet.state.lock().root.wrote(now, now, (1, 12_000));
        assert!(permit.limit().is_some_and(|left| left <= Duration::from_secs(5)));
        for scope in [Scope::Bucket(7), Scope::Lead, Scope::Process] {
            assert!(permit.begin(scope, second).is_some(), "{scope:?}");
            assert!(
                permit.begin(scope, Duration::from_secs(6)).is_none(),
                "longer than the session"
            );
        }
        assert!(permit.begin(Scope::Unread(7), second).is_none());
        assert_eq!(fleet.state.lock().slots[7].unread, 1, "it wanted to");
        // It is to be handed over: what is in flight may end, and then nothing is sent any more.
        fleet.state.lock().slots[7].stopped = Some(now);
        assert!(permit.begin(Scope::Bucket(7), second).is_some());
        fleet.state.lock().slots[7].stopped = Some(now.saturating_sub(GRACE));
        assert!(permit.begin(Scope::Bucket(7), second).is_none());
        assert!(permit.begin(Scope::Bucket(8), second).is_some());
        fleet.state.lock().member.lost();
        assert!(permit.limit().is_none());
    }

    #[test]
    fn a_write_without_an_answer_counts_until_its_deadline() {
        let fleet = alone();
        let now = clock::now();
        fleet.state.lock().root.wrote(now, now, (1, 12_000));
        let permit = Permit(Arc::clone(&fleet));
        let sent = permit.begin(Scope::Bucket(7), Duration::from_secs(3)).unwrap();
        assert_eq!(fleet.state.lock().slots[7].writes, 1);
        drop(sent);
        let state = fleet.state.lock();
        assert_eq!(state.slots[7].writes, 0);
        assert!(state.slots[7].until >= now + 3_000);
    }

    #[tokio::test]
    async fn an_attempt_ends_with_its_bucket() {
        let fleet = alone();
        let key = Key::new("n", "a");
        let bucket = usize::from(bucket_of("n", "a"));
        assert!(!fleet.is_ours(&key));
        fleet.set_working(bucket, true);
        assert!(fleet.is_ours(&key));
        assert_eq!(fleet.work(&key, true, async { 1 }).await, Some(1));
        fleet.state.lock().slots[bucket].end.cancel();
        let never = std::future::pending::<()>();
        assert_eq!(fleet.work(&key, true, never).await, None);
        assert_eq!(fleet.state.lock().slots[bucket].attempts, 0);
        fleet.state.lock().slots[bucket].works = false;
        assert_eq!(fleet.work(&key, true, async { 1 }).await, None, "it holds it no more");
    }
}
