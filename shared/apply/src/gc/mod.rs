//! Garbage collection as a pure decision: trackers, policies and live objects in, a plan out.
//!
//! Answers for `pkg/resourcekeeper/gc.go`. The reference marks trackers by generation and deletes what only marked trackers
//! hold; here the rule is: **an object in the desired set of the newest spec is never deleted.** The desired set is what
//! the current and the root tracker hold, and old trackers are checked only when the run of the newest spec allows it
//! (`Scope::History`). A deletion is confirmed by the next read of the live objects, never assumed.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use vela_api::PruneRules;

use crate::object::{ResourceKey, is_deleting, str_at};
use crate::ownership::{Owner, sharers, without_sharer};
use crate::policy::{GcStrategy, Propagation, ResourcePolicies};
use crate::tracker::{Record, Role, Tracker, key_of};

/// How much may be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The newest spec is not dispatched yet: nothing is deleted, only empty trackers go.
    Marked,
    /// The newest spec is dispatched completely: old trackers too.
    History,
    /// The Application is being deleted: everything.
    All,
}

/// What the decision is made from.
pub struct Input<'a> {
    /// The Application.
    pub owner: &'a Owner,
    /// All trackers of the Application, with their records of this cluster.
    pub trackers: &'a [Tracker],
    /// Name of the tracker of the present run, `""` if there is none.
    pub current: &'a str,
    /// How far to go.
    pub scope: Scope,
    /// Trackers of releases before 1.2 are collected too, once the newest spec is dispatched completely.
    pub legacy: bool,
    /// The policies of the live spec.
    pub policies: &'a ResourcePolicies,
    /// The Application carries the finalizer `app.oam.dev/orphan-resource`.
    pub orphan: bool,
    /// The live object of a key; `None` if there is none.
    pub live: &'a dyn Fn(&ResourceKey) -> Option<Value>,
    /// Whether nobody can say now what became of the object of a record: its cluster does not answer.
    pub unknown: &'a dyn Fn(&Record) -> bool,
    /// Records the newest spec may still want although the current tracker does not hold them (used when collecting
    /// after a failed run: the components in the spec that were not reached).
    pub protected: &'a dyn Fn(&Record) -> bool,
    /// The components that `component` waits for (used with `order: dependency`).
    pub depends_on: &'a dyn Fn(&str) -> Vec<String>,
    /// Which deletions have to be approved; `None` if everything is, for this generation.
    pub prune: Option<&'a PruneRules>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("owner", self.owner).field("scope", &self.scope).finish()
    }
}

/// One thing to do with one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Delete it, but only the object with this uid.
    Delete {
        /// What.
        record: Record,
        /// The live object's uid.
        uid: String,
        /// Its version, where it matters: another Application may join those that share it in the meantime. Else `""`.
        version: String,
        /// `None` leaves the choice to the server.
        propagation: Option<Propagation>,
    },
    /// Keep it and take our owner labels off, and our name from those who share it.
    Release {
        /// What.
        record: Record,
        /// The version it was decided for, `""` for objects without one.
        version: String,
        /// Whether it says who shares it: nobody any more.
        shared: bool,
    },
    /// It is shared: leave it to the remaining sharers.
    HandOver {
        /// What.
        record: Record,
        /// The new value of the shared-by annotation, `""` if nobody is left in it.
        shared_by: String,
        /// The version it was decided for: others may join or leave at the same moment.
        version: String,
        /// The next owner, if we own it now.
        next: Option<Owner>,
    },
}

impl Action {
    /// The object's record.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self {
            Self::Delete { record, .. }
            | Self::Release { record, .. }
            | Self::HandOver { record, .. } => record,
        }
    }
}

/// What is to be done now, and what has to be waited for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Things to do with objects.
    pub actions: Vec<Action>,
    /// Trackers with nothing left to collect: remove their finalizer and delete them.
    pub finished: Vec<String>,
    /// Old trackers to mark as deleting, so that the collection continues whatever happens to the spec.
    pub marked: Vec<String>,
    /// Records a policy of the new spec saves: they move to the root tracker (`skipGC` set for `never`).
    pub to_root: Vec<Record>,
    /// Objects that still exist and hold a tracker up.
    pub waiting: Vec<Record>,
    /// Objects that hold a tracker up, and of which nobody can say whether they exist.
    pub unknown: Vec<Record>,
    /// Objects that stay until somebody approves of their deletion.
    pub held: Vec<Record>,
}

impl Plan {
    /// Whether nothing is left to do or to wait for.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.actions.is_empty()
            && self.finished.is_empty()
            && self.marked.is_empty()
            && self.to_root.is_empty()
            && self.waiting.is_empty()
            && self.unknown.is_empty()
            && self.held.is_empty()
    }
}

/// The keys that must live: everything the current and the root tracker hold and no step removed.
#[must_use]
pub fn desired(trackers: &[Tracker], current: &str) -> BTreeSet<ResourceKey> {
    trackers
        .iter()
        .filter(|tracker| tracker.name == current || tracker.role == Role::Root)
        .flat_map(|tracker| &tracker.records)
        .filter(|record| !record.deleted)
        .map(key_of)
        .collect()
}

/// Decides what to collect.
#[must_use]
pub fn plan(input: &Input<'_>) -> Plan {
    let plan = plan_without(input, &BTreeSet::new());
    let Some(rules) = input.prune.filter(|_| !plan.waiting.is_empty()) else {
        return plan;
    };
    // What an ordered collection has not come to yet is about to be deleted, too.
    let held = held_by(rules, input, &plan.waiting);
    if held.is_empty() { plan } else { plan_without(input, &held) }
}

/// Which of the deletions have to be approved.
fn held_by(rules: &PruneRules, input: &Input<'_>, deletions: &[Record]) -> BTreeSet<ResourceKey> {
    if input.scope == Scope::All && !rules.asks_for_whole() {
        return BTreeSet::new();
    }
    let all = rules.limits(deletions.len(), || objects(input));
    deletions.iter().filter(|record| all || rules.asks(&record.kind)).map(key_of).collect()
}

/// How many objects the Application has, those that it is about to lose among them.
fn objects(input: &Input<'_>) -> usize {
    let keys: BTreeSet<ResourceKey> = input
        .trackers
        .iter()
        .flat_map(|tracker| &tracker.records)
        .map(key_of)
        .filter(|key| (input.live)(key).is_some_and(|live| input.owner.holds(&live)))
        .collect();
    keys.len()
}

/// As [`plan`]; what is `held` stays, with the tracker that remembers it.
fn plan_without(input: &Input<'_>, held: &BTreeSet<ResourceKey>) -> Plan {
    let desired = match input.scope {
        Scope::All => BTreeSet::new(),
        _ => desired(input.trackers, input.current),
    };
    let mut plan = Plan::default();
    let (mut seen, mut saved) = (BTreeSet::new(), BTreeSet::new());
    // A rule said once that it must stay, whatever other trackers remember of it.
    let kept: BTreeSet<ResourceKey> = input
        .trackers
        .iter()
        .flat_map(|tracker| &tracker.records)
        .filter(|record| record.skip_gc && !record.deleted)
        .map(key_of)
        .collect();
    for tracker in input.trackers {
        // A current or root tracker that somebody deletes by hand is rebuilt by its owner, not collected.
        let keeps = input.policies.garbage_collect.keep_legacy_resource;
        let is_legacy = tracker.role == Role::Legacy;
        let old = (tracker.role == Role::Versioned && tracker.name != input.current)
            || (is_legacy && input.legacy && !keeps);
        let collected = match input.scope {
            Scope::All => true,
            Scope::Marked => old && tracker.deleting,
            Scope::History => {
                old && (tracker.deleting || !keeps || is_superseded(tracker, &desired, input))
            }
        };
        if !collected {
            continue;
        }
        let owned = LiveRecords::of(tracker, input);
        let needed = if input.policies.garbage_collect.order_dependency {
            owned.needed(input)
        } else {
            HashSet::new()
        };
        let ordered = owned.has_an_end(&desired, &needed);
        // Of objects of other clusters nobody knows what became of them: what remembers them stays, unless they are to be left.
        let elsewhere = tracker.elsewhere > 0 && !(input.orphan && input.scope == Scope::All);
        let mut pending = elsewhere;
        for record in &tracker.records {
            if !desired.contains(&key_of(record)) && (input.unknown)(record) {
                pending = true;
                if seen.insert(key_of(record)) {
                    plan.unknown.push(record.clone());
                }
            }
        }
        for (record, live) in &owned.live {
            if desired.contains(&key_of(record)) {
                continue;
            }
            if input.scope == Scope::Marked
                || (input.scope != Scope::All && (input.protected)(record))
            {
                pending = true;
                continue;
            }
            if input.scope != Scope::All
                && keep_by_policy(input, record, live, (&mut plan, &mut saved))
            {
                continue;
            }
            let waits = ordered && needed.contains(&record.component);
            let first = seen.insert(key_of(record));
            if held.contains(&key_of(record)) && !is_deleting(live) {
                pending = true;
                if first {
                    plan.held.push((*record).clone());
                }
                continue;
            }
            let keeps = kept.contains(&key_of(record));
            match (first && !waits).then(|| act(input, record, live, keeps)) {
                Some(Some(action)) => {
                    if matches!(action, Action::Delete { .. }) {
                        pending = true;
                        plan.waiting.push((*record).clone());
                    }
                    plan.actions.push(action);
                }
                Some(None) | None => {
                    pending = true;
                    if first {
                        plan.waiting.push((*record).clone());
                    }
                }
            }
        }
        if pending {
            // One without finalizer would be gone with its mark, and what it remembers with it.
            if !tracker.deleting && input.scope != Scope::Marked && !is_legacy && !elsewhere {
                plan.marked.push(tracker.name.clone());
            }
        } else {
            plan.finished.push(tracker.name.clone());
        }
    }
    plan
}

/// With `keepLegacyResource` an old tracker goes once everything in it is gone or held by a newer one.
fn is_superseded(tracker: &Tracker, desired: &BTreeSet<ResourceKey>, input: &Input<'_>) -> bool {
    tracker.records.iter().all(|record| {
        let key = key_of(record);
        desired.contains(&key)
            || !(input.unknown)(record)
                && !(input.live)(&key).is_some_and(|live| input.owner.holds(&live))
    })
}

/// A rule of the new spec may save an object of a component that left it.
fn keep_by_policy(
    input: &Input<'_>,
    record: &Record,
    live: &Value,
    (plan, known): (&mut Plan, &mut BTreeSet<ResourceKey>),
) -> bool {
    let strategy = input.policies.gc_strategy(live);
    if strategy == GcStrategy::OnAppUpdate || record.deleted {
        return false;
    }
    let saved = Record { skip_gc: strategy == GcStrategy::Never, ..record.clone() };
    if known.insert(key_of(&saved)) {
        plan.to_root.push(saved);
    }
    true
}

/// The records of one tracker whose objects exist and are ours.
struct LiveRecords<'t> {
    live: Vec<(&'t Record, Value)>,
}

impl<'t> LiveRecords<'t> {
    fn of(tracker: &'t Tracker, input: &Input<'_>) -> Self {
        let live = tracker.records.iter().filter_map(|record| {
            let live = (input.live)(&key_of(record))?;
            let unowned =
                str_at(&live, &["metadata", "resourceVersion"]).is_empty() && !input.orphan;
            (unowned || input.owner.holds(&live)).then_some((record, live))
        });
        Self { live: live.collect() }
    }

    /// Whether something can go first: where components wait for one another in a circle there is no order.
    fn has_an_end(&self, desired: &BTreeSet<ResourceKey>, needed: &HashSet<String>) -> bool {
        let mut going = self.live.iter().filter(|(record, _)| !desired.contains(&key_of(record)));
        going.any(|(record, _)| !needed.contains(&record.component))
    }

    /// The components that others depend on of which an object is still there.
    fn needed(&self, input: &Input<'_>) -> HashSet<String> {
        let dependents: BTreeSet<&str> =
            self.live.iter().map(|(record, _)| record.component.as_str()).collect();
        let mut needed = HashSet::new();
        for one in dependents {
            let names = (input.depends_on)(one).into_iter();
            needed.extend(names.filter(|name| !name.is_empty() && name != one));
        }
        needed
    }
}

/// What to do with an object now; `None` if it is going away already. `keeps`: a tracker says that it must stay.
fn act(input: &Input<'_>, record: &Record, live: &Value, keeps: bool) -> Option<Action> {
    let record = record.clone();
    let version = str_at(live, &["metadata", "resourceVersion"]).to_owned();
    let owner = Owner::of(live);
    let owns = owner.as_ref() == Some(input.owner);
    let shared_by = without_sharer(live, input.owner);
    // Whose labels it carries, or who is named next to us, has it from now on, also one that joined in the same moment as we
    // did and came alone into the list.
    if !shared_by.is_empty() || (owner.is_some() && !owns) {
        let next = owns.then(|| next_owner(&shared_by)).flatten();
        return Some(Action::HandOver { record, shared_by, version, next });
    }
    let shared = sharers(live).next().is_some();
    let propagation = input.policies.gc_propagation(live);
    if keeps
        || input.orphan
        || propagation == Some(Propagation::Orphan)
        || (input.scope == Scope::All && input.policies.gc_strategy(live) == GcStrategy::Never)
    {
        return Some(Action::Release { record, version, shared });
    }
    if is_deleting(live) {
        return None;
    }
    let uid = str_at(live, &["metadata", "uid"]).to_owned();
    let version = if shared { version } else { String::new() };
    Some(Action::Delete { record, uid, version, propagation })
}

/// The first of those that share it; one without a namespace is in `default`.
fn next_owner(shared_by: &str) -> Option<Owner> {
    let first = shared_by.split(',').next()?.trim();
    let (namespace, name) = first.split_once('/').unwrap_or_default();
    let (namespace, name) = match (namespace, name) {
        ("", "") => ("default", first),
        ("", name) => ("default", name),
        other => other,
    };
    Some(Owner { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests;
