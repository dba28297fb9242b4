//! A tracker as it is held during a reconcile: what it records of this cluster apart from what it records of others.
//!
//! Here an object has a name, not a cluster: the record of an object of another cluster would be taken for the object of the
//! same name here, made, written over and deleted. So a controller of one cluster cannot read such records together with the
//! others: they are carried along, and go back into whatever is stored of the tracker. One of several clusters reads them all.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde_json::Value;
use vela_api::ResourceTracker;
use vela_apply::ResourceKey;
use vela_apply::tracker::{self, Record, RecordIndex};
use vela_cluster::ApiError;

/// Up to so many records a scan is as quick as an index.
const SCANNED: usize = 16;

/// An expanded tracker; it reads as one with the records of this cluster, one for each object.
#[derive(Debug, Clone, Default)]
pub(super) struct ExpandedTracker {
    object: ResourceTracker,
    /// The records of other clusters.
    pub(super) elsewhere: Vec<Record>,
    /// Of the records of this cluster, once it is asked for.
    index: OnceLock<RecordIndex>,
    /// The same by component: where its records are.
    components: OnceLock<HashMap<String, Vec<usize>>>,
}

impl Deref for ExpandedTracker {
    type Target = ResourceTracker;

    fn deref(&self) -> &ResourceTracker {
        &self.object
    }
}

impl DerefMut for ExpandedTracker {
    fn deref_mut(&mut self) -> &mut ResourceTracker {
        self.forget_places();
        &mut self.object
    }
}

impl ExpandedTracker {
    /// Reads a tracker as it is stored; with `whole` the records of all clusters together.
    ///
    /// # Errors
    /// Its content cannot be read.
    pub(super) fn of(
        mut object: ResourceTracker,
        whole: bool,
    ) -> Result<Self, vela_api::compression::Error> {
        object.expand()?;
        let records = &mut object.spec.managed_resources;
        // One record for each object: a second one would be applied and collected on its own.
        tracker::drop_duplicates(records);
        let elsewhere = if whole { Vec::new() } else { tracker::split_off_elsewhere(records) };
        Ok(Self { object, elsewhere, ..Self::default() })
    }

    /// The record of an object of this cluster.
    pub(super) fn record_of(&self, key: &ResourceKey) -> Option<&Record> {
        let records = &self.object.spec.managed_resources;
        if records.len() < SCANNED {
            return records.iter().find(|record| tracker::is_of(record, key));
        }
        self.index.get_or_init(|| RecordIndex::new(records)).find(records, key)
    }

    /// The records of a component of this cluster, in their order.
    pub(super) fn records_of(&self, component: &str) -> Vec<&Record> {
        let records = &self.object.spec.managed_resources;
        if records.len() < SCANNED {
            return records.iter().filter(|record| record.component == component).collect();
        }
        let components = self.components.get_or_init(|| {
            let mut places: HashMap<String, Vec<usize>> = HashMap::new();
            for (at, record) in records.iter().enumerate() {
                // Most components have several objects.
                match places.get_mut(&record.component) {
                    Some(places) => places.push(at),
                    None => drop(places.insert(record.component.clone(), vec![at])),
                }
            }
            places
        });
        let places = components.get(component).into_iter().flatten();
        places.filter_map(|at| records.get(*at)).collect()
    }

    /// The records are about to change.
    fn forget_places(&mut self) {
        self.index.take();
        self.components.take();
    }

    /// Whether nothing is recorded, here or elsewhere.
    pub(super) fn is_empty(&self) -> bool {
        self.spec.managed_resources.is_empty() && self.elsewhere.is_empty()
    }

    /// Forgets everything it recorded: another tracker holds that.
    pub(super) fn clear(&mut self) {
        self.spec.managed_resources.clear();
        self.elsewhere.clear();
    }

    /// Takes in what another one records and this one does not. Returns whether there was anything.
    pub(super) fn complete(&mut self, other: &Self) -> bool {
        self.forget_places();
        let here = (&mut self.object.spec.managed_resources, &other.spec.managed_resources);
        let elsewhere = (&mut self.elsewhere, &other.elsewhere);
        let mut changed = false;
        for (records, others) in [here, elsewhere] {
            // By identity, so that a record with another content does not count as missing.
            let known: HashSet<_> = records.iter().map(tracker::identity).collect();
            let is_new = |record: &&Record| !known.contains(&tracker::identity(record));
            let missing: Vec<Record> = others.iter().filter(is_new).cloned().collect();
            changed |= !missing.is_empty();
            records.extend(missing);
        }
        changed
    }

    /// The tracker as it is stored, with all it records.
    ///
    /// # Errors
    /// It cannot be packed.
    pub(super) fn encode(&self) -> Result<Value, ApiError> {
        let unpacked = |error: &dyn std::fmt::Display| ApiError::Transport(error.to_string());
        let mut whole = self.object.clone();
        // With the records of other clusters, which this controller does not read and must not
        // lose.
        whole.spec.managed_resources.extend_from_slice(&self.elsewhere);
        let stored = whole.to_stored().map_err(|error| unpacked(&error))?;
        serde_json::to_value(stored).map_err(|error| unpacked(&error))
    }
}

impl From<ResourceTracker> for ExpandedTracker {
    /// One that is made here, and records nothing yet.
    fn from(object: ResourceTracker) -> Self {
        Self { object, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(records: &Value) -> ExpandedTracker {
        let tracker = json!({"metadata": {"name": "t"}, "spec": {"type": "versioned",
            "applicationGeneration": 1, "managedResources": records}});
        ExpandedTracker::of(serde_json::from_value(tracker).unwrap(), false).unwrap()
    }

    fn record(name: &str, cluster: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": name,
            "cluster": cluster})
    }

    #[test]
    fn records_of_other_clusters_are_not_read_and_not_lost() {
        let all = json!([record("a", ""), record("a", "far"), record("b", "local")]);
        let mut one = held(&all);
        let here = |held: &ExpandedTracker| -> Vec<String> {
            held.spec.managed_resources.iter().map(|record| record.name.clone()).collect()
        };
        assert_eq!(here(&one), ["a", "b"]);
        let stored =
            |held: &ExpandedTracker| held.encode().unwrap()["spec"]["managedResources"].clone();
        let names = |stored: &Value| -> Vec<String> {
            let all = stored.as_array().into_iter().flatten();
            all.map(|r| format!("{}@{}", r["name"], r["cluster"]).replace('"', "")).collect()
        };
        assert_eq!(names(&stored(&one)), ["a@null", "b@local", "a@far"]);
        one.spec.managed_resources.clear();
        assert!(!one.is_empty());
        assert_eq!(names(&stored(&one)), ["a@far"]);
        let other = held(&json!([record("a", ""), record("a", "far"), record("c", "far")]));
        assert!(one.complete(&other) && !one.complete(&other));
        assert_eq!(names(&stored(&one)), ["a@null", "a@far", "c@far"]);
        one.clear();
        assert!(one.is_empty());
    }
}
