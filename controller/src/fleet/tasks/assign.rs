//! Starts and stops work on slots as they are taken over, handed over, or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use vela_api::names::annotation;
use vela_cluster::{Key, Stored as _};
use vela_shard::{MemberId, PoolName, Slot, Table, bucket_of, has_lease};

use super::Runner;
use super::unowned::since;
use crate::application;
use crate::cached::Cached;
use crate::fleet::state::{Changes, Standing};
use crate::fleet::working::Working;
use crate::fleet::{clock, lease, takeover};
use crate::metrics::{BucketCounts, number};
use crate::queue::Class;

impl Runner {
    /// What is worked on follows what is held. Whether something is being drained.
    pub(super) fn align(&self) -> bool {
        self.fleet.keep(&self.context);
        let now = clock::now();
        let (changes, standing, working) = {
            let mut state = self.fleet.state.lock();
            let changes = state.align(now, self.fleet.lost.is_cancelled());
            // Whoever works on a pool excludes Go's controllers of that shard.
            for pool in state.pools.clone() {
                let _ = state.elect(&pool);
            }
            let working = state.working(now);
            // Under the lock, so that what queues ask never says more than the slots do.
            if **self.fleet.working.load() != working {
                self.fleet.working.store(Arc::new(working.clone()));
            }
            (changes, state.standing(now), working)
        };
        self.measure(&changes, &standing, &working);
        let opened = self.opened(&working);
        if !changes.stopped.is_empty() {
            // Its next owner queues them; kept here they would come up with nothing to do.
            self.context.queue.drop_foreign();
        }
        if !changes.taken.is_empty() || !changes.gone.is_empty() {
            self.take(&changes);
        }
        if !opened.is_empty() || changes.has_other_pools {
            // They belong to a shard that is the fleet's now, or to a pool that came or went.
            self.queue(|app| {
                let shard = &*app.outline.shard;
                opened.contains(shard) || (changes.has_other_pools && !shard.is_empty())
            });
        }
        if standing.is_in && self.is_ready() {
            self.fleet.joined.send_if_modified(|joined| !std::mem::replace(joined, true));
        }
        let leads = standing.leads;
        if self.fleet.leads.send_if_modified(|now| std::mem::replace(now, leads) != leads) {
            self.definitions(leads);
        }
        !changes.draining.is_empty()
    }

    /// Whether this member may be counted on from now on; once is enough.
    fn is_ready(&self) -> bool {
        if *self.fleet.joined.borrow() {
            return false;
        }
        // A release that does not say so has no time to give.
        let said = self.said(annotation::FLEET_READY, |text| text.parse().unwrap_or(u64::MAX));
        // Whoever has no Lease is dead, and is judged.
        let ready = |id: &MemberId, epoch| said.get(id).is_none_or(|said| *said >= epoch);
        self.fleet.state.lock().is_ready(ready, clock::now())
    }

    /// What the Lease of each member says in an annotation.
    pub(super) fn said<T>(
        &self,
        annotation: &str,
        read: impl Fn(&str) -> T,
    ) -> BTreeMap<MemberId, T> {
        let seen = self.seen.lock();
        let said = |found| {
            let member = lease::observed(&self.options.names, found)?;
            Some((member.id, read(lease::annotation_of(found, annotation))))
        };
        seen.members.iter().filter_map(said).collect()
    }

    /// The shards for whose Applications the fleet may write now, and could not before.
    fn opened(&self, working: &Working) -> BTreeSet<Arc<str>> {
        let open = working.shards.iter().filter(|(_, is_open)| **is_open);
        let open: BTreeSet<Arc<str>> = open.map(|(shard, _)| Arc::clone(shard)).collect();
        let mut seen = self.seen.lock();
        let opened = open.difference(&seen.open).map(Arc::clone).collect();
        seen.open = open;
        opened
    }

    fn measure(&self, changes: &Changes, standing: &Standing, working: &Working) {
        let metrics = &self.fleet.metrics;
        let mut buckets: BTreeMap<PoolName, BucketCounts> = BTreeMap::new();
        for (pool, held) in &working.buckets {
            buckets.entry(Arc::clone(pool)).or_default().held = held.len();
        }
        let mut count = |slot: &Slot, add: fn(&mut BucketCounts) -> &mut usize| {
            // The slot of the leader's duties is no bucket.
            if let Slot::Bucket(pool, _) = slot {
                *add(buckets.entry(Arc::clone(pool)).or_default()) += 1;
            }
        };
        standing.wanted.iter().for_each(|slot| count(slot, |counts| &mut counts.wanted));
        changes.draining.iter().for_each(|slot| count(slot, |counts| &mut counts.draining));
        metrics.set_buckets(&buckets);
        changes.drained.iter().for_each(|time| metrics.drained(Duration::from_millis(*time)));
        metrics.epoch.set(i64::try_from(standing.epoch).unwrap_or(i64::MAX));
        metrics.session.set(i64::try_from(standing.left).unwrap_or(i64::MAX));
        let leading = &self.context.metrics.leading;
        let leading = leading.with_label_values(&[&self.options.names.root]);
        leading.set(i64::from(standing.leads));
    }

    /// The Applications of slots that were taken over are queued; what is remembered of those that went is forgotten.
    fn take(&self, changes: &Changes) {
        let table = self.fleet.state.lock().member.table().map(Arc::clone);
        let is_in =
            |app: &Cached, slots: &BTreeSet<Slot>| slots.contains(&slot(app, table.as_deref()));
        let mut with_apps = BTreeSet::new();
        for app in takeover::chosen(&self.context, |app| is_in(app, &changes.taken)) {
            self.context.forget(&app.key());
            if self.fleet.owns(&app) {
                with_apps.insert(slot(&app, table.as_deref()));
            }
        }
        self.fleet.state.lock().forget_arrivals(&changes.taken, &with_apps);
        self.queue(|app| is_in(app, &changes.taken));
        for app in takeover::chosen(&self.context, |app| is_in(app, &changes.gone)) {
            self.context.forget(&app.key());
        }
        let ours = self.count();
        if !changes.taken.is_empty() {
            info!(buckets = changes.taken.len(), applications = ours, "buckets taken over");
        }
    }

    /// Queues Applications, those that somebody waits for before those that are only checked: thousands may come at once.
    fn queue(&self, choose: impl Fn(&Cached) -> bool) {
        for app in takeover::chosen(&self.context, choose) {
            let is_settled = app.is_observed() && !app.outline.is_deleting;
            self.context.queue.add(app.key(), if is_settled { Class::Scan } else { Class::Edit });
        }
    }

    /// With the leader's duties come all definitions and WorkflowRuns, and go with them.
    fn definitions(&self, leads: bool) {
        if let Some(context) = &self.context.workflow_runs {
            context.runs.queue.drop_foreign();
            for run in context.runs.store.all() {
                // Somebody else may have worked on it since.
                context.forget_workflow(&run.key());
                if leads && !run.status.finished {
                    context.runs.queue.add(run.key(), Class::Scan);
                }
            }
        }
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

    /// Counts the own Applications, and those that nobody works on.
    pub(super) fn count(&self) -> usize {
        let apps = self.context.apps.all();
        let table = self.fleet.state.lock().member.table().map(Arc::clone);
        let pools = table.iter().flat_map(|table| table.pools.keys());
        let mut counts: BTreeMap<PoolName, usize> =
            pools.map(|pool| (Arc::clone(pool), 0)).collect();
        let mut recurring = Vec::new();
        for app in apps.iter().filter(|app| self.fleet.owns(app)) {
            if let Slot::Bucket(pool, _) = slot(app, table.as_deref()) {
                *counts.entry(pool).or_default() += 1;
            }
            if application::recurs(&self.context, &app.outline) {
                recurring.push(app.key());
            }
        }
        let ours = counts.values().sum();
        self.fleet.metrics.set_applications(&counts);
        self.measure_gap(&recurring);
        self.fleet.metrics.unowned.set(number(self.find_unowned(&apps)));
        self.forget_shards(&apps);
        ours
    }

    /// How long the Application waits that waits longest for a reconcile which is due. Each is to be in the queue again after each
    /// reconcile; one that is not counts from when that was noticed.
    fn measure_gap(&self, recurring: &[Key]) {
        let now = Instant::now();
        let due = self.context.queue.overdue(recurring, now);
        let mut missed = self.missed.lock();
        *missed = since(due.missing, &missed, now);
        let longest = missed.values().map(|since| now.saturating_duration_since(*since)).max();
        self.fleet.metrics.gap.set(due.longest.max(longest.unwrap_or_default()).as_secs_f64());
    }

    /// The fleet elects on the Leases of shards that labels and pools name, and of no others: those expire.
    fn forget_shards(&self, apps: &[Arc<Cached>]) {
        let named: BTreeSet<&str> =
            apps.iter().map(|app| &*app.outline.shard).filter(|shard| has_lease(shard)).collect();
        let mut state = self.fleet.state.lock();
        let pools = state.pools.clone();
        state
            .shards
            .retain(|shard, _| named.contains(&**shard) || pools.iter().any(|pool| pool == shard));
    }
}

/// The slot of an Application.
pub(super) fn slot(app: &Cached, table: Option<&Table>) -> Slot {
    let (key, pool) = (app.key(), &*app.outline.pool);
    let bucket = bucket_of(&key.namespace, &key.name);
    table.map_or_else(|| Slot::Bucket(pool.into(), bucket), |table| table.slot(pool, bucket))
}
