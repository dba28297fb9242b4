//! The back-off of drift repairs: fields that another writer changes repeatedly are repaired with a growing delay.
//!
//! Pure: a [`RepairBackoff`] is what is remembered of one object; the caller says what differs, by which hand, and what time it is.
//! What differs for the first time, or after it was left alone for as long as the longest pause, is put back at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vela_apply::plan::Write;

use crate::application::dispatch::changes::is_mark;

/// Repairs in a row from which on it is a fight of two writers.
const CONTENTION_REPAIRS: u32 = 3;
/// Fields that are distinguished in one object: whoever changes others each time is slowed down by the last one, which stands for
/// all further ones.
const MAX_FIELDS: usize = 16;
/// Names that are kept of those who change an object, and fields that are reported.
const MAX_REPORTED: usize = 5;
/// Characters of a name that are reported: who writes an object chooses it.
const MAX_NAME: usize = 128;
/// The object as a whole, and all fields beyond those that are distinguished.
const ALL: &str = "";

/// What is remembered of the repairs of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairBackoff {
    fields: BTreeMap<String, Field>,
    managers: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// How often it was put back in a row.
    repairs: u32,
    /// When last.
    last: Timestamp,
    /// Since when it differs again.
    differs: Option<Timestamp>,
}

impl Field {
    /// When it may be put back again.
    fn free(&self, longest: Duration) -> Timestamp {
        // One second, two, four: up to the resync.
        let doublings = self.repairs.saturating_sub(1).min(31);
        let pause = Duration::from_secs(1_u64 << doublings).min(longest);
        self.last.saturating_add(pause).unwrap_or(Timestamp::MAX)
    }

    /// Until when it has to stay as it is to be forgotten; one that differs is not forgotten.
    fn quiet(&self, longest: Duration) -> Option<Timestamp> {
        let at = || self.last.saturating_add(longest).unwrap_or(Timestamp::MAX);
        self.differs.is_none().then(at)
    }
}

/// Two writers of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contention {
    /// Field managers of the others.
    pub managers: Vec<String>,
    /// What they change; empty: the object as a whole.
    pub fields: Vec<String>,
}

impl RepairBackoff {
    /// Whether fields that differ may be put back now; else when.
    ///
    /// # Errors
    /// The time from which on they may.
    pub fn try_repair(
        &mut self,
        fields: &BTreeSet<String>,
        manager: &str,
        now: Timestamp,
        longest: Duration,
    ) -> Result<(), Timestamp> {
        let mut free = Timestamp::MIN;
        for name in fields {
            let name = self.entry_name(name);
            let Some(field) = self.fields.get_mut(&name) else { continue };
            let since = *field.differs.get_or_insert(now);
            // It was left alone for long enough, or the clock went back.
            if since.duration_since(field.last).unsigned_abs() >= longest || field.last > now {
                self.fields.remove(&name);
                continue;
            }
            free = free.max(field.free(longest));
        }
        if !manager.is_empty() && self.managers.len() < MAX_REPORTED {
            self.managers.insert(manager.chars().take(MAX_NAME).collect());
        }
        if free > now { Err(free) } else { Ok(()) }
    }

    /// Fields were put back.
    pub fn put_back(&mut self, fields: &BTreeSet<String>, now: Timestamp) {
        let entries: BTreeSet<String> = fields.iter().map(|name| self.entry_name(name)).collect();
        for name in entries {
            let field = self.fields.entry(name);
            let field = field.or_insert(Field { repairs: 0, last: now, differs: None });
            // By entry, since several fields may share the last one.
            (field.repairs, field.last) = (field.repairs.saturating_add(1), now);
            field.differs = None;
        }
    }

    /// The object is as it was dispatched.
    pub fn is_as_dispatched(&mut self) {
        self.fields.values_mut().for_each(|field| field.differs = None);
    }

    /// Forgets what was left alone for long enough, and what nobody asked about any more; returns whether anything is left.
    pub fn keep(&mut self, now: Timestamp, longest: Duration) -> bool {
        let end = |field: &Field| match field.quiet(longest) {
            Some(quiet) => quiet,
            None => field.free(longest).saturating_add(longest).unwrap_or(Timestamp::MAX),
        };
        self.fields.retain(|_, field| end(field) > now);
        !self.fields.is_empty()
    }

    /// When to reconcile again: a repair may be due then, or the contention has ended.
    pub fn requeue_at(&self, now: Timestamp, longest: Duration) -> Option<Timestamp> {
        // A field in order wakes nobody unless a condition has to go.
        let due = |field: &Field| match field.quiet(longest) {
            Some(quiet) => (field.repairs >= CONTENTION_REPAIRS).then_some(quiet),
            None => Some(field.free(longest)).filter(|free| *free > now),
        };
        self.fields.values().filter_map(due).min()
    }

    /// Whether somebody else changes the object again and again.
    pub fn contention(&self) -> Option<Contention> {
        let fought = self.fields.iter().filter(|(_, field)| field.repairs >= CONTENTION_REPAIRS);
        let fields: Vec<&String> = fought.map(|(name, _)| name).collect();
        if fields.is_empty() {
            return None;
        }
        // Where the whole object is fought over, single fields say nothing.
        let whole = fields.iter().any(|name| name.as_str() == ALL);
        let named = fields.into_iter().take(MAX_REPORTED).filter(|_| !whole).cloned();
        Some(Contention {
            managers: self.managers.iter().cloned().collect(),
            fields: named.collect(),
        })
    }

    fn entry_name(&self, name: &str) -> String {
        let name: String = name.chars().take(MAX_NAME).collect();
        // A writer that changes other fields each time must not fill the memory.
        if self.fields.len() < MAX_FIELDS || self.fields.contains_key(&name) {
            name
        } else {
            ALL.to_owned()
        }
    }
}

/// The fields that a write changes, as paths; the object as a whole is the empty one. Our own marks are none.
#[must_use]
pub fn fields(write: &Write) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    match write {
        Write::Skip => {}
        Write::Patch { body, .. } => collect(body, "", &mut fields),
        Write::Create(_) | Write::Replace(_) | Write::Recreate { .. } => {
            fields.insert(ALL.to_owned());
        }
    }
    fields
}

fn collect(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            // Directives of strategic patches order what other keys change.
            for (key, value) in map.iter().filter(|(key, _)| !key.starts_with('$')) {
                if is_mark(path, key) {
                    continue;
                }
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, into);
            }
        }
        // Items of a list are not distinguished.
        _ => {
            into.insert(path.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use vela_apply::plan::PatchKind;

    use super::*;

    const MAX_PAUSE: Duration = Duration::from_secs(300);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// When a field is put back that the other writer changes again at once, within an hour.
    fn contention(
        repair_backoff: &mut RepairBackoff,
        fields: impl Fn(i64) -> BTreeSet<String>,
    ) -> Vec<i64> {
        let mut repairs = Vec::new();
        for second in 0..3600 {
            repair_backoff.keep(at(second), MAX_PAUSE);
            let fields = fields(second);
            match repair_backoff.try_repair(&fields, "other", at(second), MAX_PAUSE) {
                Ok(()) => {
                    repair_backoff.put_back(&fields, at(second));
                    repairs.push(second);
                }
                Err(free) => {
                    assert!(
                        free > at(second)
                            && repair_backoff.requeue_at(at(second), MAX_PAUSE).unwrap() <= free
                    );
                }
            }
        }
        repairs
    }

    #[test]
    fn the_same_field_is_put_back_ever_more_slowly() {
        let mut repair_backoff = RepairBackoff::default();
        let repairs = contention(&mut repair_backoff, |_| names(&["data.a"]));
        assert_eq!(
            repairs.get(..11),
            Some([0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811].as_slice())
        );
        let named =
            Contention { managers: vec!["other".to_owned()], fields: vec!["data.a".to_owned()] };
        assert_eq!(repair_backoff.contention(), Some(named));
        // It stays as it is: that is checked once more, and the next drift is healed at once.
        repair_backoff.is_as_dispatched();
        let last = *repairs.last().unwrap();
        assert_eq!(repair_backoff.requeue_at(at(last), MAX_PAUSE), Some(at(last + 300)));
        assert!(repair_backoff.keep(at(last + 299), MAX_PAUSE));
        assert!(!repair_backoff.keep(at(last + 300), MAX_PAUSE));
        assert_eq!(
            (repair_backoff.contention(), repair_backoff.requeue_at(at(last + 300), MAX_PAUSE)),
            (None, None)
        );
        assert_eq!(
            repair_backoff.try_repair(&names(&["data.a"]), "", at(last + 300), MAX_PAUSE),
            Ok(())
        );
    }

    /// Another field is another matter, but not without end.
    #[test]
    fn who_changes_other_fields_each_time_is_slowed_down_too() {
        let mut repair_backoff = RepairBackoff::default();
        repair_backoff.put_back(&names(&["a"]), at(0));
        assert_eq!(repair_backoff.try_repair(&names(&["b"]), "", at(0), MAX_PAUSE), Ok(()));
        assert_eq!(
            repair_backoff.try_repair(&names(&["a", "b"]), "", at(0), MAX_PAUSE),
            Err(at(1))
        );
        let repairs =
            contention(&mut RepairBackoff::default(), |second| names(&[&format!("f{second}")]));
        // This many fields in each of the longest pauses of an hour, and what stands for all others.
        assert!(repairs.len() < 13 * (MAX_FIELDS + 2), "{}", repairs.len());
    }

    #[test]
    fn what_drifts_seldom_is_healed_at_once() {
        let mut repair_backoff = RepairBackoff::default();
        for turn in 0..10 {
            let now = at(turn * 301);
            assert_eq!(
                repair_backoff.try_repair(&names(&[ALL]), "", now, MAX_PAUSE),
                Ok(()),
                "{turn}"
            );
            repair_backoff.put_back(&names(&[ALL]), now);
            assert_eq!(repair_backoff.contention(), None);
        }
        // A clock that went back holds nothing up.
        assert_eq!(repair_backoff.try_repair(&names(&[ALL]), "", at(0), MAX_PAUSE), Ok(()));
    }

    #[test]
    fn fields_are_the_paths_of_a_patch_without_our_marks() {
        let patch = |body: Value| fields(&Write::Patch { kind: PatchKind::Merge, body });
        let body = json!({"metadata": {"resourceVersion": "1", "labels": {"team": "a", "app.oam.dev/x": "y"},
            "annotations": {"oam.dev/render-hash": "1"}}, "spec": {"replicas": 1, "ports": [{"port": 1}]}});
        assert_eq!(patch(body), names(&["metadata.labels.team", "spec.ports", "spec.replicas"]));
        assert_eq!(patch(json!({"metadata": {"annotations": {"oam.dev/a": "1"}}})), names(&[]));
        assert_eq!(fields(&Write::Create(json!({}))), names(&[ALL]));
        assert_eq!(fields(&Write::Skip), names(&[]));
    }

    proptest! {
        /// However the other writer behaves: a field is never put back twice within the pause it has reached, and never held
        /// back for longer than the longest.
        #[test]
        fn pauses_are_kept_and_bounded(gaps in prop::collection::vec(0_i64..400, 1..60)) {
            let (mut repair_backoff, mut now, mut last) = (RepairBackoff::default(), 0, None);
            let field = names(&["data.a"]);
            for gap in gaps {
                now += gap;
                repair_backoff.keep(at(now), MAX_PAUSE);
                let free = match repair_backoff.try_repair(&field, "", at(now), MAX_PAUSE) {
                    Ok(()) => now,
                    Err(free) => free.as_second() - 1_700_000_000,
                };
                prop_assert!(free - now <= 300);
                if let Some(last) = last {
                    prop_assert!(free > last, "{free} {last}");
                }
                now = free;
                prop_assert_eq!(repair_backoff.try_repair(&field, "", at(now), MAX_PAUSE), Ok(()));
                repair_backoff.put_back(&field, at(now));
                last = Some(now);
            }
        }
    }
}
