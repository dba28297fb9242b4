//! The tasks of a member: it renews its Lease, lists the others', and carries out what follows from that. They run on the vital
//! threads: no work of users holds them up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{
    Api, DeleteParams, ListParams, PostParams, Preconditions, WatchEvent, WatchParams,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use vela_api::Application;
use vela_api::names::annotation;
use vela_cluster::{Error, Stored as _};
use vela_shard::{BUCKETS, Holder, Slot, Table, bucket_of};

use crate::application::context::AppContext;
use crate::queue::Class;

use super::lease::Names;
use super::{Fleet, GRACE, Pace, clock, lease, takeover};

/// How often Leases are listed.
const LIST_PERIOD: Duration = Duration::from_secs(2);
/// Every so many lists Applications are counted and dead members forgotten.
const COUNT_EVERY: u32 = 5;
/// How long the Lease of a dead member is kept for people to see, in seconds.
const FORGOTTEN: i64 = 60;
/// How long after the first slot that is drained the table is written: slots that follow soon go with it.
const BATCH: Duration = Duration::from_millis(30);
/// How often what has a time limit is checked although nothing happened.
const CHECK: Duration = Duration::from_millis(250);
/// The same while slots are being drained.
const CHECK_DRAIN: Duration = Duration::from_millis(20);
/// After a write that failed: not at once again.
const PAUSE: Duration = Duration::from_millis(200);

/// What a member is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the Leases are.
    pub namespace: String,
    /// The name of the Pod.
    pub pod: String,
    /// The names of the Leases.
    pub names: Names,
    /// How long its holder is believed.
    pub root_duration: Duration,
    /// How fast sessions are.
    pub pace: Pace,
}

/// What the tasks share.
struct Runner {
    fleet: Arc<Fleet>,
    context: Arc<AppContext>,
    options: Options,
    /// The names of the own Lease and of that of the table.
    name: String,
    table: String,
    api: Api<Lease>,
    id: Arc<str>,
    /// The own Lease as it was written or read last.
    own: tokio::sync::Mutex<Lease>,
    seen: Mutex<Seen>,
    /// The dead members whose records were taken over.
    heirs: Mutex<BTreeSet<String>>,
    stop: CancellationToken,
}

/// The other Leases as they were read last.
#[derive(Default)]
struct Seen {
    members: Vec<Lease>,
    root: Option<Lease>,
    /// The Lease of the table that was read with the table that the member knows.
    table: Option<Lease>,
    /// A version that a watch can begin at.
    version: String,
    /// What the last warning about the table said.
    complaint: String,
}

/// Makes the Lease of this member, and starts its tasks. They end with `stop`.
///
/// # Errors
/// The Lease cannot be written.
pub(crate) async fn start(
    (fleet, context): (Arc<Fleet>, Arc<AppContext>),
    (options, client): (Options, Client),
    vital: Handle,
    stop: CancellationToken,
) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(client, &options.namespace);
    let id = fleet.id();
    let started = clock::now();
    let (name, table) = (options.names.member(&options.pod), options.names.table());
    let known = api.get_opt(&name).await.map_err(Error::from)?;
    let is_new = known.is_none();
    let base = known.unwrap_or_else(|| lease::new(&options.namespace, &name));
    let first = lease::renewed(base, &id, seconds(options.pace.lease_duration), &[]);
    // One that a process of the same Pod left belongs to this one now: its identity is another one, and is judged as such.
    let own = if is_new {
        api.create(&PostParams::default(), &first).await
    } else {
        api.replace(&name, &PostParams::default(), &first).await
    };
    let own = own.map_err(Error::from)?;
    fleet.state.lock().member.renewed(started, clock::now());
    info!(member = &*id, lease = name, "member of a fleet");
    let runner = Arc::new(Runner {
        fleet,
        context,
        options,
        name,
        table,
        api,
        id,
        own: tokio::sync::Mutex::new(own),
        seen: Mutex::default(),
        heirs: Mutex::default(),
        stop: stop.clone(),
    });
    let mut tasks = JoinSet::new();
    for task in 0..4_u8 {
        let (runner, stop) = (Arc::clone(&runner), stop.clone());
        let work = async move {
            match task {
                0 => runner.renew().await,
                1 => runner.list().await,
                2 => runner.watch().await,
                _ => runner.act().await,
            }
        };
        tasks.spawn_on(
            async move {
                tokio::select! {
                    () = work => {}
                    () = stop.cancelled() => {}
                }
            },
            &vital,
        );
    }
    tasks.detach_all();
    Ok(())
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

/// Whether a write that failed certainly has no effect.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 408)
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

impl Runner {
    // --- the own session ---------------------------------------------------------------------------------------------

    async fn renew(&self) {
        loop {
            sleep(self.options.pace.retry_period).await;
            if self.fleet.lost.is_cancelled() {
                return;
            }
            let limit = self.options.pace.renew_deadline / 2;
            match timeout(limit, self.renew_once()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    error!(member = &*self.id, "the Lease of this member was taken from it");
                    self.fleet.state.lock().member.lost();
                    self.fleet.lost.cancel();
                    return;
                }
                Ok(Err(error)) => warn!(%error, "the Lease of this member cannot be renewed"),
                Err(_) => warn!("the Lease of this member cannot be renewed in time"),
            }
            self.fleet.changed.notify_one();
        }
    }

    /// One renewal; `false`: it is not this member's Lease any more.
    async fn renew_once(&self) -> kube::Result<bool> {
        let mut own = self.own.lock().await;
        for _ in 0..2 {
            let started = clock::now();
            let notes = self.notes();
            let duration = seconds(self.options.pace.lease_duration);
            let next = lease::renewed(own.clone(), &self.id, duration, &notes);
            match self.api.replace(&self.name, &PostParams::default(), &next).await {
                Ok(written) => {
                    *own = written;
                    self.fleet.state.lock().member.renewed(started, clock::now());
                    return Ok(true);
                }
                // A note was added, the answer to a renewal was lost, or somebody took it.
                Err(error) if is_conflict(&error) || is_absent(&error) => {
                    let Some(found) = self.api.get_opt(&self.name).await? else {
                        return Ok(false);
                    };
                    if lease::holder(&found) != &*self.id {
                        return Ok(false);
                    }
                    *own = found;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What people read on the Lease.
    fn notes(&self) -> Vec<(&'static str, String)> {
        let metrics = &self.fleet.metrics;
        vec![
            (annotation::FLEET_BUCKETS, metrics.working.get().to_string()),
            (annotation::FLEET_APPLICATIONS, metrics.applications.get().to_string()),
            (annotation::FLEET_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        ]
    }

    // --- what is read ------------------------------------------------------------------------------------------------

    async fn list(&self) {
        let mut round = 0_u32;
        loop {
            let started = clock::now();
            // No version: the answer is at least as new as the begin of the request.
            match timeout(LIST_PERIOD * 2, self.api.list(&ListParams::default())).await {
                Ok(Ok(list)) => {
                    let version = list.metadata.resource_version.unwrap_or_default();
                    self.take_in(started, list.items, version);
                }
                Ok(Err(error)) => warn!(error = %Error::from(error), "Leases cannot be listed"),
                Err(_) => warn!("Leases cannot be listed in time"),
            }
            self.fleet.changed.notify_one();
            round = round.wrapping_add(1);
            if round.is_multiple_of(COUNT_EVERY) {
                self.count();
                self.sweep().await;
            }
            sleep(LIST_PERIOD).await;
        }
    }

    fn take_in(&self, started: u64, leases: Vec<Lease>, version: String) {
        let now = clock::now();
        let (mut members, mut root, mut table) = (Vec::new(), None, None);
        for found in leases {
            match lease::name(&found) {
                name if name == self.table => table = Some(found),
                name if name == self.options.names.root => root = Some(found),
                _ if lease::observed(&self.options.names, &found).is_some() => members.push(found),
                _ => {}
            }
        }
        let observed: Vec<_> = members
            .iter()
            .filter_map(|found| lease::observed(&self.options.names, found))
            .collect();
        {
            let mut state = self.fleet.state.lock();
            let before = state.root.holder();
            state.root.listed(started, now, lease::root(root.as_ref()));
            if state.root.holder() == Some(Holder::Foreign) && before != Some(Holder::Foreign) {
                warn!(
                    lease = self.options.names.root,
                    "a controller that is no member of the fleet holds the Lease"
                );
            }
            state.member.observe(&observed, now);
            if table.is_none() {
                state.member.read_nothing(now);
            }
        }
        self.inherit(&members);
        let mut seen = self.seen.lock();
        (seen.members, seen.root, seen.version) = (members, root, version);
        if table.is_none() {
            seen.table = None;
        }
        drop(seen);
        if let Some(table) = table {
            self.take_in_table(table, Some(started));
        }
    }

    /// What dead members were at when they died is known to all: an Application kills two replicas, not one after the other.
    fn inherit(&self, members: &[Lease]) {
        let dead = |found: &&Lease| {
            lease::observed(&self.options.names, found).is_some_and(|one| one.seized)
                && !lease::annotation_of(found, annotation::FLEET_SEIZED_BY).is_empty()
        };
        let mut heirs = self.heirs.lock();
        heirs.retain(|uid| members.iter().any(|found| lease::identity(found) == *uid));
        for found in members.iter().filter(dead) {
            let text = lease::annotation_of(found, annotation::IN_FLIGHT);
            if !text.is_empty() && heirs.insert(lease::identity(found)) {
                self.context.in_flight.inherit(text);
            }
        }
    }

    fn take_in_table(&self, found: Lease, listed: Option<u64>) {
        match lease::table(&found) {
            Ok(table) => {
                let (mut seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
                let revision = table.revision;
                state.member.read(Arc::new(table), listed);
                // The version that goes with what the member knows.
                if state.member.table().is_some_and(|known| known.revision == revision) {
                    seen.table = Some(found);
                }
                seen.complaint.clear();
            }
            Err(why) => {
                let mut seen = self.seen.lock();
                let why = why.to_string();
                if seen.complaint != why {
                    error!(error = why, lease = self.table, "nothing is worked on");
                    seen.complaint = why;
                }
            }
        }
    }

    /// Watches the table: a hand-over is noticed when it happens. Lists make sure.
    async fn watch(&self) {
        loop {
            let version = self.seen.lock().version.clone();
            if version.is_empty() {
                sleep(PAUSE).await;
                continue;
            }
            let params = WatchParams::default().fields(&format!("metadata.name={}", self.table));
            match self.api.watch(&params, &version).await {
                Ok(stream) => {
                    let mut stream = std::pin::pin!(stream);
                    while let Some(event) = stream.next().await {
                        match event {
                            Ok(WatchEvent::Added(found) | WatchEvent::Modified(found)) => {
                                self.take_in_table(found, None);
                                self.fleet.changed.notify_one();
                            }
                            Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)) => {}
                            Ok(WatchEvent::Error(_)) | Err(_) => break,
                        }
                    }
                }
                Err(error) => debug!(%error, "the table of shards cannot be watched"),
            }
            // The next list brings a version that is new enough.
            sleep(LIST_PERIOD).await;
        }
    }

    // --- what follows ------------------------------------------------------------------------------------------------

    async fn act(&self) {
        let mut pause = CHECK;
        loop {
            let _ = timeout(pause, self.fleet.changed.notified()).await;
            if self.fleet.lost.is_cancelled() {
                self.apply();
                return;
            }
            self.fleet.state.lock().member.adjust(clock::now());
            let draining = self.apply();
            self.root().await;
            self.judge().await;
            if self.table().await {
                self.apply();
            }
            if self.fleet.state.lock().member.is_over() {
                self.apply();
                self.end().await;
                return;
            }
            pause = if draining { CHECK_DRAIN } else { CHECK };
        }
    }

    /// Brings what is worked on into line with what is held. Whether something is being drained.
    fn apply(&self) -> bool {
        let now = clock::now();
        let (mut taken, mut gone, mut given, mut draining) = (Vec::new(), Vec::new(), false, 0);
        let mut state = self.fleet.state.lock();
        // While somebody else may work on everything nothing is held that counts; what comes back is taken over again.
        let is_here = state.root.holder() == Some(Holder::Member);
        let working: Vec<Slot> =
            if is_here { state.member.working().collect() } else { Vec::new() };
        let held: Vec<Slot> =
            state.member.table().map_or_else(Vec::new, |table| table.held_by(&self.id).collect());
        let ended = self.fleet.lost.is_cancelled();
        for index in 0..=BUCKETS {
            let works = !ended && working.contains(&index);
            let still_held = !ended && held.contains(&index);
            let Some(slot) = state.slots.get_mut(index) else { continue };
            if works && !slot.works {
                slot.works = true;
                slot.stopped = None;
                slot.end = CancellationToken::new();
                slot.read.clear();
                taken.push(index);
            } else if !works && slot.works {
                slot.works = false;
                slot.stopped = Some(now);
                given = true;
                self.fleet.set_working(index, false);
            }
            if slot.works || slot.stopped.is_none() {
                continue;
            }
            let is_late = slot.stopped.is_some_and(|since| now >= since.saturating_add(GRACE));
            // Nothing is sent any more: what runs still only thinks.
            if !still_held || (is_late && slot.writes == 0) {
                slot.end.cancel();
            }
            let is_drained = slot.attempts == 0 && slot.writes == 0 && now >= slot.until;
            if !still_held && is_drained {
                slot.stopped = None;
                gone.push(index);
            } else if !still_held {
                // It belongs to somebody else already, after a loss.
            } else if is_drained {
                state.member.drained(index);
            } else {
                draining += 1;
            }
        }
        let is_in = state.member.table().is_some_and(|table| table.index(&self.id).is_some());
        let (epoch, wanted) = state.member.table().map_or((0, 0), |table| {
            let mine =
                (0..BUCKETS).filter(|slot| table.target(*slot).is_some_and(|id| **id == *self.id));
            (table.epoch, mine.count())
        });
        let left = state.process(now).unwrap_or_default();
        for index in &taken {
            self.fleet.set_working(*index, true);
        }
        drop(state);
        let metrics = &self.fleet.metrics;
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.draining.set(count(draining));
        metrics.wanted.set(count(wanted));
        metrics.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        metrics.session.set(i64::try_from(left).unwrap_or(i64::MAX));
        let bits = self.fleet.working.iter().map(|word| word.load(Ordering::Acquire).count_ones());
        metrics.working.set(i64::from(bits.sum::<u32>()));
        if given {
            self.context.queue.drop_foreign();
        }
        if !taken.is_empty() || !gone.is_empty() {
            self.take(&taken, &gone);
        }
        if is_in {
            self.fleet.joined.send_if_modified(|joined| !std::mem::replace(joined, true));
        }
        let leads = working.contains(&BUCKETS) && !ended;
        if self.fleet.leads.send_if_modified(|now| std::mem::replace(now, leads) != leads) {
            self.definitions(leads);
        }
        let leading = &self.context.metrics.leading;
        leading.with_label_values(&[&self.options.names.root]).set(i64::from(leads));
        draining > 0
    }

    /// The Applications of buckets that were taken over are queued; what is remembered of those that went is forgotten.
    fn take(&self, taken: &[Slot], gone: &[Slot]) {
        for app in takeover::of_bucket(&self.context, taken) {
            let is_observed = app.metadata.generation == Some(app.status.observed_generation);
            let is_settled = is_observed && app.metadata.deletion_timestamp.is_none();
            let key = app.key();
            self.context.forget(&key);
            self.context.queue.add(key, if is_settled { Class::Scan } else { Class::Edit });
        }
        for app in takeover::of_bucket(&self.context, gone) {
            self.context.forget(&app.key());
        }
        let ours = self.count();
        if !taken.is_empty() {
            info!(buckets = taken.len(), applications = ours, "took buckets over");
        }
    }

    /// With the leader's duties come all definitions, and go with them.
    fn definitions(&self, leads: bool) {
        let (queues, stores) = (&self.context.definition_queues, &self.context.definitions);
        macro_rules! queue {
            ($queue:ident) => {
                queues.$queue.drop_foreign();
                for definition in stores.$queue.all().iter().filter(|_| leads) {
                    queues.$queue.add(definition.key(), Class::Scan);
                }
            };
        }
        queue!(components);
        queue!(traits);
        queue!(policies);
        queue!(steps);
    }

    /// Counts the own Applications, and with the leader's duties those that nobody works on.
    fn count(&self) -> usize {
        let apps = self.context.apps.all();
        let ours = apps.iter().filter(|app| self.fleet.is_ours(&app.key())).count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.fleet.metrics.applications.set(number(ours));
        let unowned = if self.fleet.is_leading() {
            let now = clock::now();
            let state = self.fleet.state.lock();
            let owned: Vec<bool> =
                (0..BUCKETS).map(|slot| state.member.is_owned(slot, now)).collect();
            drop(state);
            let is_owned = |app: &Arc<Application>| {
                let key = app.key();
                let bucket = usize::from(bucket_of(&key.namespace, &key.name));
                owned.get(bucket).copied().unwrap_or_default()
            };
            apps.iter().filter(|app| !is_owned(app)).count()
        } else {
            0
        };
        self.fleet.metrics.unowned.set(number(unowned));
        ours
    }

    /// With the leader's duties: the Leases of dead members go once nothing refers to them.
    async fn sweep(&self) {
        if !self.fleet.is_leading() {
            return;
        }
        let dead: Vec<Lease> = {
            let (seen, state) = (self.seen.lock(), self.fleet.state.lock());
            let is_out =
                |id: &str| state.member.table().is_some_and(|table| table.index(id).is_none());
            let is_old = |found: &Lease| {
                let renewed = found.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
                renewed.is_none_or(|at| Timestamp::now().duration_since(at.0).as_secs() > FORGOTTEN)
            };
            let is_dead = |found: &&Lease| {
                lease::observed(&self.options.names, found)
                    .is_some_and(|one| one.seized && is_out(&one.id))
                    && is_old(found)
            };
            seen.members.iter().filter(is_dead).cloned().collect()
        };
        for found in dead {
            let version = found.metadata.resource_version.clone();
            let only = Preconditions { uid: found.metadata.uid.clone(), resource_version: version };
            let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            let _ = self.api.delete(lease::name(&found), &options).await;
        }
    }

    /// Renews the root Lease, or takes it.
    async fn root(&self) {
        let now = clock::now();
        let due = {
            let state = self.fleet.state.lock();
            let leads = state.member.permitted(BUCKETS, now).is_some();
            let is_member =
                state.member.table().is_some_and(|table| table.index(&self.id).is_some());
            is_member && state.member.session(now).is_some() && state.root.is_due(leads, now)
        };
        if !due {
            return;
        }
        let known = self.seen.lock().root.clone();
        let is_new = known.is_none();
        let base =
            known.unwrap_or_else(|| lease::new(&self.options.namespace, &self.options.names.root));
        let next = lease::renewed(base, &self.id, seconds(self.options.root_duration), &[]);
        let options = PostParams::default();
        let written = if is_new {
            self.api.create(&options, &next).await
        } else {
            self.api.replace(&self.options.names.root, &options, &next).await
        };
        match written {
            Ok(written) => {
                let (stamp, _, duration) = lease::root(Some(&written));
                self.fleet.state.lock().root.wrote(now, clock::now(), (stamp, duration));
                self.seen.lock().root = Some(written);
            }
            // Somebody else was quicker: the next list has the answer.
            Err(error) => {
                if !is_conflict(&error) {
                    warn!(error = %Error::from(error), "the root Lease cannot be renewed");
                }
                self.refresh_root().await;
            }
        }
    }

    async fn refresh_root(&self) {
        let started = clock::now();
        if let Ok(found) = self.api.get_opt(&self.options.names.root).await {
            self.fleet.state.lock().root.listed(started, clock::now(), lease::root(found.as_ref()));
            self.seen.lock().root = found;
        }
    }

    /// Takes the Leases of members that are silent for too long.
    async fn judge(&self) {
        let suspects: Vec<Arc<str>> =
            self.fleet.state.lock().member.suspects(clock::now()).map(Arc::clone).collect();
        for suspect in suspects {
            let name = {
                let seen = self.seen.lock();
                let of = seen.members.iter().find(|found| lease::holder(found) == &*suspect);
                of.map(|found| lease::name(found).to_owned())
            };
            let Some(name) = name else { continue };
            // Read again: it lives if it renewed in the meantime.
            let Ok(Some(found)) = self.api.get_opt(&name).await else { continue };
            let known = self.fleet.state.lock().member.stamp(&suspect);
            if lease::holder(&found) != &*suspect || known != Some(lease::stamp(&found)) {
                continue;
            }
            let seized = lease::emptied(found, Some(&self.id));
            match self.api.replace(&name, &PostParams::default(), &seized).await {
                Ok(_) => {
                    warn!(member = &*suspect, "a silent member was taken its Lease from");
                    self.fleet.metrics.seizures.inc();
                    self.fleet.state.lock().member.seized(&suspect);
                }
                Err(error) => debug!(%error, "the Lease of a silent member cannot be taken"),
            }
        }
    }

    /// Writes the table if there is something to change. Whether it did.
    async fn table(&self) -> bool {
        let first = {
            let (state, now) = (self.fleet.state.lock(), clock::now());
            // Whoever joins shall be able to write at once: that the fleet is here is known from two lists.
            let is_in = state.member.table().is_some_and(|table| table.index(&self.id).is_some());
            let is_here = state.root.holder() == Some(Holder::Member);
            if !is_in && is_here && state.root.left(now).is_none() {
                return false;
            }
            state.member.next_table(now)
        };
        let Some(first) = first else { return false };
        // One is enough to do what all would do, and more slots are drained soon.
        sleep(self.distance(&first).max(BATCH)).await;
        self.apply();
        let started = clock::now();
        // The version and what is written over it belong together.
        let (next, before, known) = {
            let (seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
            let Some(next) = state.member.next_table(started) else { return false };
            (next, state.member.writing(), seen.table.clone())
        };
        let is_new = known.is_none();
        let base = known.unwrap_or_else(|| lease::new(&self.options.namespace, &self.table));
        let record = lease::with_table(base, &next, &self.id);
        let options = PostParams::default();
        let written = if is_new {
            self.api.create(&options, &record).await
        } else {
            self.api.replace(&self.table, &options, &record).await
        };
        match written {
            Ok(written) => {
                self.fleet.metrics.tables.inc();
                let (mut seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
                let revision = next.revision;
                state.member.wrote(Arc::new(next), started);
                if state.member.table().is_some_and(|known| known.revision == revision) {
                    seen.table = Some(written);
                }
                true
            }
            Err(error) => {
                if is_refusal(&error) {
                    self.fleet.state.lock().member.refused(before);
                }
                if !is_conflict(&error) {
                    warn!(error = %Error::from(error), "the table of shards cannot be written");
                }
                self.refresh_table().await;
                sleep(PAUSE).await;
                false
            }
        }
    }

    /// How long others come first who can do the same: by the index in the table.
    fn distance(&self, next: &Table) -> Duration {
        let state = self.fleet.state.lock();
        let Some(table) = state.member.table() else { return Duration::ZERO };
        let removes = table.members.iter().any(|member| next.index(&member.id).is_none());
        match table.index(&self.id) {
            Some(index) if removes => Duration::from_millis(100) * u32::from(index),
            _ => Duration::ZERO,
        }
    }

    async fn refresh_table(&self) {
        let started = clock::now();
        if let Ok(Some(found)) = self.api.get_opt(&self.table).await {
            self.take_in_table(found, Some(started));
        }
    }

    /// Everything was given away: the own Lease goes, and the root Lease with the last member.
    async fn end(&self) {
        let is_last = {
            let state = self.fleet.state.lock();
            state.member.table().is_none_or(|table| table.members.is_empty())
        };
        if is_last
            && let Ok(Some(root)) = self.api.get_opt(&self.options.names.root).await
            && lease::holder(&root) == lease::annotation_of(&root, annotation::FLEET_MEMBER)
            && !lease::holder(&root).is_empty()
        {
            let empty = lease::emptied(root, None);
            let _ =
                self.api.replace(&self.options.names.root, &PostParams::default(), &empty).await;
        }
        let own = self.own.lock().await;
        let only = Preconditions { uid: own.metadata.uid.clone(), resource_version: None };
        let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let _ = self.api.delete(&self.name, &options).await;
        info!(member = &*self.id, "left the fleet");
        self.fleet.over.cancel();
        self.stop.cancel();
    }
}
