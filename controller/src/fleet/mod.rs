//! This replica as a member of a fleet: several replicas share the Applications by themselves (`--sharding=auto`, docs/scaling.md).
//!
//! What is decided is decided in `vela-shard`; here it is asked and acted on. [`Fleet`] is what all tasks
//! share, `state` what is in flight of each slot, `working` what queues ask, `permit` what the fence asks before each write. `tasks`
//! has a file for each thing that a member does: renew its Lease, observe the others', follow the table, write it, judge the silent,
//! report what the fleet leaves alone. `takeover` reads an Application again before the first write for it, `moves` hands one over
//! to another pool, `handover` is what is timed of hand-overs. `kept` is what the caches keep; `lease` reads and writes the Leases, `show` prints them;
//! `labels` labels what has no shard, `bucket_label` says on records which bucket they are in, `wrong_labels` are those to
//! correct; `owner_label` says on dispatched objects in which bucket their Application is.

pub(crate) mod bucket_label;
mod clock;
mod handover;
mod kept;
pub mod labels;
mod lease;
mod moves;
pub(crate) mod owner_label;
mod permit;
mod show;
mod state;
mod takeover;
mod tasks;
mod working;
pub(crate) mod wrong_labels;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use vela_cluster::lease::permit::{Assignment, Scope, within};
use vela_cluster::{Key, Store, Stored as _};
use vela_serve::metrics::{Error, Registry};
use vela_shard::{BUCKETS, Member, MemberId, Millis, RootTiming, Slot, Timing, bucket_of};

use crate::cached::Cached;
use crate::metrics::FleetMetrics;
use crate::queue::Next;

use permit::slot_of;
use state::State;
use working::Working;

pub(crate) use kept::foresee;
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
    /// What is worked on: asked for every key.
    working: ArcSwap<Working>,
    /// The Applications: what is not cached yet names no pool.
    apps: Arc<Store<Cached>>,
    pools: Pools,
    /// Something changed that may call for an action.
    changed: Notify,
    /// The caches are filled for other buckets than before: others wait for that.
    filled: Notify,
    /// Whether this member has the leader's duties.
    leads: watch::Sender<bool>,
    /// Whether it is in the table, and may be counted on.
    joined: watch::Sender<bool>,
    /// It shall hand everything over.
    leaves: CancellationToken,
    /// Its Lease was taken from it, or the others took it out of the table.
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

/// Pools of members, each with Applications of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// That of this member; empty: the default one.
    pub own: String,
    /// How long a pool is without members until those of the default pool work for it; `None`: for ever, and Applications whose
    /// label names no pool are left alone.
    pub fallback: Option<Duration>,
    /// Applications are moved to the pool that their label names. That needs the webhook: the annotation decides.
    pub are_on: bool,
}

impl Fleet {
    /// A member that holds nothing yet.
    ///
    /// # Errors
    /// A metric cannot be registered.
    pub fn new(
        id: &str,
        (pace, pools): (Pace, Pools),
        apps: Arc<Store<Cached>>,
        registry: &Registry,
    ) -> Result<Self, Error> {
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
        let own = (id, pools.own.as_str().into());
        let member = Member::new(own, timing, BUCKETS, pools.fallback.map(clock::millis));
        Ok(Self {
            state: Mutex::new(State::new(member, root, clock::now())),
            working: ArcSwap::default(),
            apps,
            pools,
            changed: Notify::new(),
            filled: Notify::new(),
            leads: watch::Sender::new(false),
            joined: watch::Sender::new(false),
            leaves: CancellationToken::new(),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
            metrics: FleetMetrics::new(registry)?,
        })
    }

    /// Whether an Application is worked on here.
    #[must_use]
    pub fn is_ours(&self, key: &Key) -> bool {
        match self.apps.get(key) {
            Some(app) => self.owns(&app),
            // What is remembered of it is forgotten, whoever it was.
            None => self.working.load().pool(bucket_of(&key.namespace, &key.name)).is_some(),
        }
    }

    fn owns(&self, app: &Cached) -> bool {
        // Asked for every event of every Application: a lock here would be the busiest of the
        // process.
        let working = self.working.load();
        let (key, outline) = (app.key(), &app.outline);
        let (pool, shard) = (&*outline.pool, &*outline.shard);
        let is_open = working.is_open(shard);
        if is_open.is_none() && self.state.lock().elect(shard) {
            self.changed.notify_one();
        }
        working.has(pool, bucket_of(&key.namespace, &key.name))
            && is_open == Some(true)
            && !self.is_frozen(&working, shard)
    }

    /// Whether an Application is left alone since its shard has no replica.
    fn is_frozen(&self, working: &Working, shard: &str) -> bool {
        self.pools.are_on && self.pools.fallback.is_none() && working.lacks(shard)
    }

    /// What decides who works on an Application, as far as it is known here.
    fn assignment(&self, key: &Key) -> Assignment {
        let bucket = bucket_of(&key.namespace, &key.name);
        let app = self.apps.get(key);
        let pool = match &app {
            Some(app) => (*app.outline.pool).into(),
            None => self.working.load().pool(bucket).map_or_else(|| "".into(), Arc::clone),
        };
        Assignment { bucket, pool, shard: app.map_or("".into(), |app| (*app.outline.shard).into()) }
    }

    /// Does something for an Application: its writes are checked against the permit of its slot, and it ends when that is
    /// handed over. `None`: the slot is not held, or not any more.
    pub(crate) async fn work<T>(
        &self,
        key: &Key,
        is_read: bool,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.work_as(Arc::new(self.assignment(key)), is_read, work).await
    }

    async fn work_as<T>(
        &self,
        assignment: Arc<Assignment>,
        is_read: bool,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        if !self.working.load().is_open(&assignment.shard).unwrap_or_default() {
            return None;
        }
        let slot = slot_of(&assignment);
        let scope =
            if is_read { Scope::Application(assignment) } else { Scope::Unread(assignment) };
        self.attempt(slot, scope, work).await
    }

    /// The same for the leader's duties.
    pub(crate) async fn lead<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.attempt(Slot::Lead, Scope::Lead, work).await
    }

    async fn attempt<T>(
        &self,
        slot: Slot,
        scope: Scope,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = self.enter(&slot)?;
        // Counted down also when the attempt is cancelled or panics, or its slot could never be
        // drained.
        let _attempt = Attempt { fleet: self, slot };
        tokio::select! {
            done = within(scope, work) => Some(done),
            () = end.cancelled() => None,
        }
    }

    fn enter(&self, named: &Slot) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        // Under the lock that stops the slot: none begins after it was found to be drained.
        let resolved = state.resolve(named);
        let slot = state.slots.get_mut(&resolved).filter(|slot| slot.works)?;
        if let Some(arrival) = slot.arrival.take() {
            self.metrics.took(arrival.reason, clock::since(arrival.since));
        }
        let flight = state.flights.entry(named.clone()).or_default();
        if flight.end.is_cancelled() {
            // That was of an earlier term: an attempt of this one would end at once.
            flight.end = CancellationToken::new();
        }
        flight.attempts = flight.attempts.saturating_add(1);
        Some(flight.end.clone())
    }

    /// Only a slot that is handed over waits for the last attempt and write.
    fn notify_stopped(&self, state: &State, named: &Slot) {
        let slot = state.slots.get(&state.resolve(named));
        if slot.is_none_or(|slot| slot.stopped.is_some()) {
            self.changed.notify_one();
        }
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

    /// Waits until it is in the table for the first time, and may be counted on.
    pub(crate) async fn until_joined(&self) {
        let _ = self.joined.subscribe().wait_for(|joined| *joined).await;
    }

    /// Waits until its Lease was taken from it.
    pub(crate) async fn until_lost(&self) {
        self.lost.cancelled().await;
    }

    /// Leaves the fleet: everything is handed over, which takes as long as what is in flight.
    pub(crate) fn leave(&self) {
        self.leaves.cancel();
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
        if let Some(flight) = state.flights.get_mut(&self.slot) {
            flight.attempts = flight.attempts.saturating_sub(1);
        }
        self.fleet.notify_stopped(&state, &self.slot);
    }
}

/// What becomes of a key whose bucket is not held any more: its next owner has it in his queue.
pub(crate) const GONE: Next = Next::Done;

#[cfg(test)]
pub(crate) mod tests;
