//! Drift, and how it is handled: repaired, with a [`repair_backoff`](crate::application::converge::repair_backoff), or left
//! as it is, where the Application asks for that. Fights and what is left are reported in the condition `Drift`, and once
//! as an event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vela_api::names::{condition as types, reason};
use vela_api::{AppStatus, Condition, Drift};
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, kind, name, str_at};
use vela_apply::plan::{self, Write};
use vela_apply::policy::Stage;

use crate::application::context::AppContext;
use crate::application::converge::warning;
use crate::application::dispatch::changes::Changes;
use crate::application::memory::{AppCache, LeftDrift};
use crate::events::About;
use crate::messages;
use crate::metrics::DriftAction;

use crate::application::converge::repair_backoff;
use crate::application::session::Session;

/// Objects that one message names.
const MAX_REPORTED: usize = 5;

impl Session<'_> {
    /// The fields that a repair is about to put back; `None` if they are left as they are for now.
    pub(in crate::application) async fn may_repair(
        &self,
        manifest: &Value,
        key: &ResourceKey,
        write: &Write,
        changes: &Changes,
    ) -> Option<BTreeSet<String>> {
        let fields = repair_backoff::fields(write);
        // Nothing is changed but our own labels and annotations, which nobody fights over.
        if fields.is_empty() {
            return Some(fields);
        }
        let at = self.reach(&key.cluster).ok()?;
        let live = at.live.get(api_version(manifest), key).await.ok().flatten();
        let is_deleted = live.is_none();
        let manager = live.map(|live| live.manager.clone()).unwrap_or_default();
        match self.policies.drift(manifest) {
            Drift::Off => return None,
            Drift::Warn => {
                let object = format!("{} {}", kind(manifest), name(manifest));
                let memory = self.memory();
                let mut memory = memory.lock();
                let is_known =
                    memory.left.contains_key(&object) || memory.left_before.contains(&object);
                // Counted once for as long as it is left: each reconcile finds it again.
                if !is_known {
                    self.ctx.metrics.drift.count(kind(manifest), DriftAction::Left);
                }
                let changes = changes.clone();
                memory.left.insert(object, LeftDrift { manager, changes, is_deleted });
                return None;
            }
            Drift::Heal => {}
        }
        self.may_put_back(key, &fields, &manager).then_some(fields)
    }

    /// Whether fields of an object that another writer changed may be put back now.
    pub(super) fn may_put_back(
        &self,
        key: &ResourceKey,
        fields: &BTreeSet<String>,
        manager: &str,
    ) -> bool {
        let (now, longest) = (self.ctx.clock.now(), self.ctx.settings.resync);
        let memory = self.memory();
        let mut memory = memory.lock();
        let repair_backoff = memory.repair_backoffs.entry(key.clone()).or_default();
        // The pause never exceeds the resync, so that a repair is late and never given up.
        repair_backoff.try_repair(fields, manager, now, longest).is_ok()
    }

    /// Fields of an object were put back.
    pub(in crate::application) fn repaired(&self, key: &ResourceKey, fields: &BTreeSet<String>) {
        if fields.is_empty() {
            return;
        }
        let now = self.ctx.clock.now();
        // The lock is not held while the metric is counted.
        let is_contended = {
            let memory = self.memory();
            let mut memory = memory.lock();
            let backoff = memory.repair_backoffs.entry(key.clone()).or_default();
            backoff.put_back(fields, now);
            backoff.contention().is_some()
        };
        let action = if is_contended { DriftAction::Fought } else { DriftAction::Healed };
        self.ctx.metrics.drift.count(&key.kind, action);
    }

    /// An object is as it was dispatched.
    pub(in crate::application) fn mark_in_sync(&self, key: &ResourceKey) {
        if let Some(repair_backoff) = self.memory().lock().repair_backoffs.get_mut(key) {
            repair_backoff.is_as_dispatched();
        }
    }

    /// An object of this manifest that ran to its end and was removed for that, as it was last seen.
    pub(in crate::application) fn completed(
        &self,
        manifest: &Value,
        key: &ResourceKey,
    ) -> Option<Arc<Value>> {
        let seen = self.reach(&key.cluster).ok();
        let seen = seen.and_then(|at| at.live.completed(api_version(manifest), key));
        let value = match seen {
            Some(live) if live.owner.as_ref() == Some(&self.owner) => {
                let value = live.value();
                self.completes(key, &value);
                value
            }
            Some(_) => return None,
            None => self.noted_completion(manifest, key)?,
        };
        let options = self.options(Stage::Update);
        let prepared = plan::prepare(manifest, Some(&value), &options).ok()?;
        // Another manifest means another object: that one has not run yet.
        plan::has_same_hash(&prepared, &value).then(|| Arc::new(value))
    }

    /// The same of one that was made in the present run of the workflow: another run makes it again.
    pub(in crate::application) fn has_completed_in_run(
        &self,
        manifest: &Value,
        key: &ResourceKey,
    ) -> bool {
        let Some(began) = self.run_began else { return false };
        self.completed(manifest, key).is_some_and(|object| {
            // Compared in seconds, which is what a creation timestamp has.
            let made = str_at(&object, &["metadata", "creationTimestamp"]).parse::<Timestamp>();
            made.is_ok_and(|made| made.as_second() >= began.as_second())
        })
    }
}

/// Reports contention and drift that is left in the status, and news in an event. Returns when to reconcile again.
pub(in crate::application) fn report(
    ctx: &AppContext,
    about: &About,
    memory: &mut AppCache,
    status: &mut AppStatus,
    now: Timestamp,
) -> Option<Duration> {
    let longest = ctx.settings.resync;
    // Memory of repairs ends here: what was left alone for long enough starts again at once.
    memory.repair_backoffs.retain(|_, repair_backoff| repair_backoff.keep(now, longest));
    let due = memory
        .repair_backoffs
        .values()
        .filter_map(|repair_backoff| repair_backoff.requeue_at(now, longest))
        .min();
    // Two writers come first: what is left was left on purpose.
    let (reason, message, event) = match (contentions(memory, longest), left(memory)) {
        (Some(contentions), _) => (reason::DRIFT_CONTENTION, contentions.clone(), contentions),
        (None, Some((left, event))) => (reason::DRIFT_LEFT, left, event),
        (None, None) => {
            status.conditions.retain(|condition| condition.type_ != types::DRIFT);
            return due.map(|due| until(now, due));
        }
    };
    let drifted = Condition::new(types::DRIFT, "True", reason, message, now);
    warning::set_with_event(ctx, about, status, drifted, &event);
    due.map(|due| until(now, due))
}

/// At least a moment, so that a time in the past does not cause a loop of reconciles.
fn until(now: Timestamp, due: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default().max(Duration::from_millis(100))
}

fn contentions(memory: &AppCache, longest: Duration) -> Option<String> {
    let all = memory.repair_backoffs.iter().filter_map(|(key, repair_backoff)| {
        let contention = repair_backoff.contention()?;
        let object = format!("{} {}", key.kind, key.name);
        Some(messages::drift_contention(&object, &contention.managers, &contention.fields))
    });
    joined(all.collect()).map(|contentions| messages::drift_contentions(&contentions, longest))
}

/// What is left, for the condition, and with the values for the event: a value that changes again is no news, and not worth a write.
fn left(memory: &AppCache) -> Option<(String, String)> {
    let all = |words: fn(&LeftDrift) -> String| {
        let one = |(object, left): (&String, &LeftDrift)| {
            messages::drift_left(object, &left.manager, left.is_deleted, &words(left))
        };
        joined(memory.left.iter().map(one).collect())
    };
    all(|left| left.changes.paths()).zip(all(|left| left.changes.left()))
}

/// The first of them in order, so that the same things are said in the same words.
fn joined(mut all: Vec<String>) -> Option<String> {
    all.sort_unstable();
    let more = all.len().saturating_sub(MAX_REPORTED);
    all.truncate(MAX_REPORTED);
    (!all.is_empty()).then(|| messages::and_more(&all.join("; "), more))
}
