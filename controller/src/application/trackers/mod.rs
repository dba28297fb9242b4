//! The ResourceTrackers of one Application: read here, written in `record.rs` (what is dispatched) and `life.rs` (marks, ends).
//!
//! Answers for `pkg/resourcetracker/app.go` and the recording half of `pkg/resourcekeeper/dispatch.go`. What is going to be
//! dispatched is recorded first, so that nothing the controller ever made can be forgotten.

mod expanded;
mod life;
mod record;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use vela_api::{ResourceTracker, names};
use vela_apply::ResourceKey;
use vela_apply::tracker::{self, Record, Role, Run, Tracker};

use crate::queue::Key;
use vela_cluster::packed::PackError;
use vela_cluster::{ApiError, Packed, Store, Stored, Target};

use vela_apply::object::is_local;

use super::facts::{annotation, label};
use expanded::ExpandedTracker;

/// An Application as its trackers are labelled.
#[derive(Debug, Clone, Default)]
pub struct TrackedApplication {
    /// Name of the Application.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its shard, if it has one.
    pub shard: String,
    /// Its bucket, if records are labelled with that.
    pub bucket: Option<String>,
}

/// The trackers of one Application during one reconcile.
#[derive(Debug, Clone, Default)]
pub struct Trackers {
    owner: TrackedApplication,
    compression: &'static str,
    objects: Vec<ExpandedTracker>,
    /// Records of all clusters are read.
    whole: bool,
    /// What records of this reconcile took the place of.
    written_over: Vec<Record>,
}

/// The decision form of a tracker.
fn view(held: &ExpandedTracker) -> Tracker {
    Tracker {
        records: held.spec.managed_resources.clone(),
        elsewhere: held.elsewhere.len(),
        ..head(held)
    }
}

/// The same without what it holds.
fn head(object: &ResourceTracker) -> Tracker {
    Tracker {
        name: object.metadata.name.clone().unwrap_or_default(),
        role: Role::parse(&object.spec.type_),
        generation: object.spec.application_generation,
        publish_version: annotation(&object.metadata, names::annotation::PUBLISH_VERSION)
            .to_owned(),
        revision: label(&object.metadata, names::label::APP_REVISION).to_owned(),
        app_uid: label(&object.metadata, names::label::APP_UID).to_owned(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        records: Vec::new(),
        elsewhere: 0,
    }
}

impl Trackers {
    /// Reads the trackers of an Application from the cache.
    ///
    /// # Errors
    /// A tracker's content cannot be read.
    pub fn read(
        store: &Store<Packed<ResourceTracker>>,
        owner: TrackedApplication,
        compression: &'static str,
        whole: bool,
    ) -> Result<Self, PackError> {
        let mut objects = Vec::new();
        for stored in store.indexed(&Key::new(&*owner.namespace, &*owner.name)) {
            // A tracker that cannot be read stops the reconcile: its objects would count as unrecorded.
            objects.push(ExpandedTracker::of(stored.open()?, whole)?);
        }
        Ok(Self { owner, compression, objects, whole, written_over: Vec::new() })
    }

    /// All of them, for decisions.
    #[must_use]
    pub fn views(&self) -> Vec<Tracker> {
        self.objects.iter().map(view).collect()
    }

    /// What they say without what they hold.
    #[must_use]
    pub fn heads(&self) -> Vec<Tracker> {
        self.objects.iter().map(|held| head(held)).collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How many objects of other clusters are recorded, by cluster.
    #[must_use]
    pub fn elsewhere(&self) -> BTreeMap<String, usize> {
        let records: BTreeSet<_> = self
            .objects
            // By identity: several trackers may record one object.
            .iter()
            .flat_map(|held| held.elsewhere.iter().map(tracker::identity))
            .collect();
        let mut counts = BTreeMap::new();
        for [_, _, cluster, ..] in records {
            let count: &mut usize = counts.entry(cluster.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }

    /// The clusters of which objects are recorded, as they are written, without the own one.
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<String> {
        let records = self.objects.iter().flat_map(|held| &held.spec.managed_resources);
        let members = records.filter(|record| !is_local(&record.cluster));
        members.map(|record| record.cluster.clone()).collect()
    }

    /// All records of one cluster, each object once, with the names of their trackers.
    #[must_use]
    pub fn records_of(&self, cluster: &str) -> Vec<(String, Record)> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for held in &self.objects {
            let name = held.metadata.name.clone().unwrap_or_default();
            let of_it = held.spec.managed_resources.iter().filter(|it| it.cluster == cluster);
            let new = of_it.filter(|record| seen.insert(tracker::identity(record)));
            all.extend(new.map(|record| (name.clone(), record.clone())));
        }
        all
    }

    /// What is recorded of other clusters, without the contents, with the names of their trackers.
    #[must_use]
    pub fn members(&self) -> Vec<(String, Record)> {
        // The contents are large, and are not what is compared.
        let bare = |(name, record): (String, Record)| (name, Record { raw: None, ..record });
        self.clusters().iter().flat_map(|cluster| self.records_of(cluster)).map(bare).collect()
    }

    /// Names and versions, for fingerprints.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.objects
            .iter()
            .map(|object| (object.metadata.name.as_deref().unwrap_or_default(), object.version()))
    }

    /// The name of the tracker of the present run, `""` if there is none yet.
    #[must_use]
    pub fn current(&self, run: Run<'_>) -> String {
        tracker::current(&self.heads(), run).map(|tracker| tracker.name.clone()).unwrap_or_default()
    }

    /// The generation one tracker was made for.
    #[must_use]
    pub fn generation(&self, name: &str) -> Option<i64> {
        self.find(name).map(|object| object.spec.application_generation)
    }

    /// The records of one tracker.
    #[must_use]
    pub fn records(&self, name: &str) -> &[Record] {
        self.find(name).map_or(&[], |object| &object.spec.managed_resources)
    }

    /// Whether an object is recorded in a tracker that stays: whatever is written to it, it is not forgotten.
    #[must_use]
    pub fn hold(&self, key: &ResourceKey) -> bool {
        // One that is being deleted protects nothing.
        let stay = self.objects.iter().filter(|o| o.metadata.deletion_timestamp.is_none());
        stay.filter_map(|object| object.record_of(key)).any(|record| !record.deleted)
    }

    /// Whether any tracker records an object.
    #[must_use]
    pub fn record_any(&self, key: &ResourceKey) -> bool {
        self.objects.iter().any(|object| object.record_of(key).is_some())
    }

    /// The records that must live: those of the root and of the current tracker, the root's first.
    #[must_use]
    pub fn desired(&self, current: &str) -> Vec<&Record> {
        let mut seen = HashSet::new();
        self.present(current)
            .flat_map(|object| &object.spec.managed_resources)
            // The root comes first, so that its record counts where both have one.
            .filter(|record| seen.insert(tracker::identity(record)))
            .collect()
    }

    /// The record of an object that must live, as [`Self::desired`] has it.
    #[must_use]
    pub fn desired_of(&self, current: &str, key: &ResourceKey) -> Option<&Record> {
        self.present(current).find_map(|object| object.record_of(key))
    }

    /// The records of a component that must live, as [`Self::desired`] has them.
    #[must_use]
    pub fn desired_in(&self, current: &str, component: &str) -> Vec<&Record> {
        let present: Vec<_> = self.present(current).collect();
        let mut all = Vec::new();
        for (at, object) in present.iter().enumerate() {
            let (earlier, _) = present.split_at(at);
            let is_first = |record: &&Record| {
                let key = tracker::key_of(record);
                !earlier.iter().any(|earlier| earlier.record_of(&key).is_some())
            };
            all.extend(object.records_of(component).into_iter().filter(is_first));
        }
        all
    }

    /// The record of an object in one tracker.
    #[must_use]
    pub fn record_of(&self, name: &str, key: &ResourceKey) -> Option<&Record> {
        self.find(name)?.record_of(key)
    }

    /// The name of the tracker whose record [`Self::desired`] takes for an object, `""` if nothing wants it.
    #[must_use]
    pub fn holder(&self, current: &str, key: &ResourceKey) -> String {
        let held = self.present(current).find(|object| object.record_of(key).is_some());
        held.and_then(|object| object.metadata.name.clone()).unwrap_or_default()
    }

    /// The trackers of what must live, the root first.
    fn present(&self, current: &str) -> impl Iterator<Item = &ExpandedTracker> {
        let root = self.objects.iter().filter(|o| Role::parse(&o.spec.type_) == Role::Root);
        root.chain(self.find(current))
    }

    /// What trackers of earlier runs hold of some components and the current one does not, the newest first.
    #[must_use]
    pub fn left_of(&self, current: &str, components: &[String]) -> Vec<Record> {
        let mut old: Vec<_> = self
            .objects
            .iter()
            .filter(|object| Role::parse(&object.spec.type_) == Role::Versioned)
            .filter(|object| object.metadata.name.as_deref() != Some(current))
            .collect();
        // An object may stand in several: the newest content is what was dispatched last.
        old.sort_by_key(|object| std::cmp::Reverse(object.spec.application_generation));
        let components: HashSet<&str> = components.iter().map(String::as_str).collect();
        let held = self.desired(current);
        let mut known: HashSet<_> = held.into_iter().map(tracker::identity).collect();
        old.into_iter()
            .flat_map(|object| &object.spec.managed_resources)
            .filter(|record| !record.deleted && components.contains(&*record.component))
            .filter(|record| known.insert(tracker::identity(record)))
            .cloned()
            .collect()
    }

    /// What trackers say was dispatched for an object before `manifest`, the newest first. It may not have been written.
    #[must_use]
    pub fn previous(&self, key: &ResourceKey, manifest: &Value) -> Vec<Value> {
        // Newest first: the first that matches is what was dispatched last.
        let mut sorted: Vec<_> = self.objects.iter().collect();
        sorted.sort_by_key(|object| std::cmp::Reverse(object.spec.application_generation));
        let recorded = sorted.into_iter().filter_map(|object| object.record_of(key));
        let over = self.written_over.iter().rev().filter(|record| tracker::is_of(record, key));
        let mut raws: Vec<_> =
            over.chain(recorded).filter_map(|record| record.raw.as_ref()).collect();
        if raws.is_empty() {
            return Vec::new();
        }
        let now = vela_api::RawExtension::new(manifest);
        let mut seen = HashSet::new();
        // Equal contents add nothing to a three-way merge.
        raws.retain(|raw| **raw != now && seen.insert(raw.as_str()));
        raws.into_iter().map(vela_api::RawExtension::to_value).collect()
    }

    /// One of them, as it is stored but for records of other clusters.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ResourceTracker> {
        self.find(name).map(|held| &**held)
    }

    fn find(&self, name: &str) -> Option<&ExpandedTracker> {
        self.objects.iter().find(|object| object.metadata.name.as_deref() == Some(name))
    }

    /// Trackers made for an Application of this name that is gone (restored from a backup, or deleted without its
    /// finalizer): there can be only one Application of a name, so they are ours now.
    #[must_use]
    pub fn of_other_uid(&self) -> Vec<String> {
        self.objects
            .iter()
            .filter(|object| {
                let uid = label(&object.metadata, names::label::APP_UID);
                !uid.is_empty() && uid != self.owner.uid
            })
            .filter_map(|object| object.metadata.name.clone())
            .collect()
    }

    /// Names and uids of the trackers of releases before 1.2.
    #[must_use]
    pub fn legacy(&self) -> Vec<(String, String)> {
        self.objects
            .iter()
            .filter(|object| Role::parse(&object.spec.type_) == Role::Legacy)
            .map(|object| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                (text(&object.metadata.name), text(&object.metadata.uid))
            })
            .collect()
    }
}

fn target(name: &str) -> Target<'_> {
    Target { api_version: vela_api::V1BETA1, kind: ResourceTracker::KIND, namespace: "", name }
}

fn decode(answer: Value) -> Result<ResourceTracker, ApiError> {
    serde_json::from_value(answer).map_err(|error| ApiError::Transport(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(role: &str, name: &str, records: &[(String, String)]) -> ExpandedTracker {
        let record = |(name, component): &(String, String)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": name,
                "component": component})
        };
        let records: Vec<Value> = records.iter().map(record).collect();
        let tracker = json!({"metadata": {"name": name}, "spec": {"type": role,
            "applicationGeneration": 1, "managedResources": records}});
        ExpandedTracker::of(serde_json::from_value(tracker).unwrap(), true).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn the_records_of_a_component_are_those_of_the_desired_ones(
            root in proptest::collection::vec(("[a-f]{1,2}", "[xyz]"), 0..40),
            run in proptest::collection::vec(("[a-f]{1,2}", "[xyz]"), 0..40),
        ) {
            let objects = vec![held("versioned", "t", &run), held("root", "r", &root)];
            let trackers = Trackers { objects, ..Trackers::default() };
            for component in ["x", "y", "z", "none"] {
                let mut all = trackers.desired("t");
                all.retain(|record| record.component == component);
                assert_eq!(trackers.desired_in("t", component), all);
            }
        }
    }
}
