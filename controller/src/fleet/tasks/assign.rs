//! Starts and stops work on slots as they are taken over, handed over, or lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::info;
use vela_api::Application;
use vela_cluster::Stored as _;
use vela_shard::{BUCKETS, Slot, bucket_of};

use super::Runner;
use crate::fleet::state::{Changes, Standing};
use crate::fleet::{clock, takeover};
use crate::queue::Class;

impl Runner {
    /// What is worked on follows what is held. Whether something is being drained.
    pub(super) fn align(&self) -> bool {
        let now = clock::now();
        let (changes, standing) = {
            let mut state = self.fleet.state.lock();
            let changes = state.align(now, self.fleet.lost.is_cancelled());
            // Under the lock, so that the bits that queues ask never say more than the slots do.
            changes.stopped.iter().for_each(|slot| self.fleet.set_working(*slot, false));
            changes.taken.iter().for_each(|slot| self.fleet.set_working(*slot, true));
            (changes, state.standing(now))
        };
        self.measure(&changes, &standing);
        if !changes.stopped.is_empty() {
            // Its next owner queues them; kept here they would come up with nothing to do.
            self.context.queue.drop_foreign();
        }
        if !changes.taken.is_empty() || !changes.gone.is_empty() {
            self.take(&changes.taken, &changes.gone);
        }
        if standing.is_in {
            self.fleet.joined.send_if_modified(|joined| !std::mem::replace(joined, true));
        }
        let leads = standing.leads;
        if self.fleet.leads.send_if_modified(|now| std::mem::replace(now, leads) != leads) {
            self.definitions(leads);
        }
        changes.draining > 0
    }

    fn measure(&self, changes: &Changes, standing: &Standing) {
        let metrics = &self.fleet.metrics;
        metrics.draining.set(number(changes.draining));
        metrics.wanted.set(number(standing.wanted));
        metrics.epoch.set(i64::try_from(standing.epoch).unwrap_or(i64::MAX));
        metrics.session.set(i64::try_from(standing.left).unwrap_or(i64::MAX));
        let bits = self.fleet.working.iter().map(|word| word.load(Ordering::Acquire).count_ones());
        metrics.working.set(i64::from(bits.sum::<u32>()));
        let leading = &self.context.metrics.leading;
        let leading = leading.with_label_values(&[&self.options.names.root]);
        leading.set(i64::from(standing.leads));
    }

    /// The Applications of buckets that were taken over are queued; what is remembered of those that went is forgotten.
    fn take(&self, taken: &[Slot], gone: &[Slot]) {
        for app in takeover::of_bucket(&self.context, taken) {
            let is_observed = app.metadata.generation == Some(app.status.observed_generation);
            let is_settled = is_observed && app.metadata.deletion_timestamp.is_none();
            let key = app.key();
            self.context.forget(&key);
            // Thousands may come at once. Those that somebody waits for go before those that are
            // only checked.
            self.context.queue.add(key, if is_settled { Class::Scan } else { Class::Edit });
        }
        for app in takeover::of_bucket(&self.context, gone) {
            self.context.forget(&app.key());
        }
        let ours = self.count();
        if !taken.is_empty() {
            info!(buckets = taken.len(), applications = ours, "buckets taken over");
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

    /// Counts the own Applications, and with the leader's duties those that nobody works on.
    pub(super) fn count(&self) -> usize {
        let apps = self.context.apps.all();
        let ours = apps.iter().filter(|app| self.fleet.is_ours(&app.key())).count();
        self.fleet.metrics.applications.set(number(ours));
        let unowned = if self.fleet.is_leading() {
            let now = clock::now();
            let state = self.fleet.state.lock();
            let owned: Vec<bool> =
                (0..BUCKETS).map(|slot| state.member.is_owned(slot, now)).collect();
            // Ten thousand Applications are counted below, and every write of the process asks this
            // lock.
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
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
