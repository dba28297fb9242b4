//! ResourceTrackers: their names, the records inside, and which tracker plays which role for an Application.
//!
//! Answers for `pkg/resourcetracker/app.go` and `apis/core.oam.dev/v1beta1/resourcetracker_types.go`.
//!
//! One rule differs on purpose: the reference takes a tracker for current only if it carries the Application's present
//! generation, so every edit that starts no new workflow run turned all objects into garbage. Here the tracker of the run belongs
//! to the revision (or publishVersion) it was made for and is re-labelled when the generation moves on without a new run.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use vela_api::{ManagedResource, RawExtension, names};

use crate::object::{
    ResourceKey, api_version, cluster_of, group_of, is_local, kind, label, name, namespace,
};

/// One object a tracker remembers.
pub type Record = ManagedResource;

/// The record of a manifest dispatched to `cluster` (as literally given: empty or `local`).
#[must_use]
pub fn record_of(manifest: &Value, cluster: &str, metadata_only: bool, skip_gc: bool) -> Record {
    Record {
        cluster: cluster.to_owned(),
        api_version: api_version(manifest).to_owned(),
        kind: kind(manifest).to_owned(),
        namespace: namespace(manifest).to_owned(),
        name: name(manifest).to_owned(),
        component: label(manifest, names::label::APP_COMPONENT).unwrap_or_default().to_owned(),
        trait_: label(manifest, names::label::TRAIT_TYPE).unwrap_or_default().to_owned(),
        raw: (!metadata_only).then(|| RawExtension::new(manifest)),
        skip_gc,
        ..Record::default()
    }
}

/// The identity garbage collection uses.
#[must_use]
pub fn key_of(record: &Record) -> ResourceKey {
    let Record { api_version, kind, cluster, namespace, name, .. } = record;
    ResourceKey::new(api_version, kind, cluster, namespace, name)
}

/// The parts of that identity, for comparing many records without a copy of each.
#[must_use]
pub fn identity(record: &Record) -> [&str; 5] {
    let (group, cluster) = (group_of(&record.api_version), cluster_of(&record.cluster));
    [group, &record.kind, cluster, &record.namespace, &record.name]
}

/// Whether a record is of the object of a key.
#[must_use]
pub fn is_of(record: &Record, key: &ResourceKey) -> bool {
    identity(record) == key.parts()
}

/// Where the records of a list are, by their objects: for a list that is asked about many.
#[derive(Debug, Clone, Default)]
pub struct RecordIndex {
    /// Hashes of identities, sorted, with positions.
    positions: Vec<(u64, usize)>,
}

impl RecordIndex {
    /// The index of a list.
    #[must_use]
    pub fn new(records: &[Record]) -> Self {
        let hashes = records.iter().map(|record| hash(identity(record)));
        let mut positions: Vec<_> = hashes.enumerate().map(|(at, hash)| (hash, at)).collect();
        positions.sort_unstable();
        Self { positions }
    }

    /// The first record of an object in that list.
    #[must_use]
    pub fn find<'r>(&self, records: &'r [Record], key: &ResourceKey) -> Option<&'r Record> {
        let wanted = hash(key.parts());
        let from = self.positions.partition_point(|(hash, _)| *hash < wanted);
        let same = self.positions.get(from..)?.iter().take_while(|(hash, _)| *hash == wanted);
        same.filter_map(|(_, at)| records.get(*at)).find(|record| is_of(record, key))
    }
}

fn hash(identity: [&str; 5]) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

/// `<Kind> <name>` with cluster and namespace where set: the form of user-visible texts.
#[must_use]
pub fn display_name(record: &Record) -> String {
    let location = match (record.cluster.is_empty(), record.namespace.is_empty()) {
        (true, true) => return format!("{} {}", record.kind, record.name),
        (false, true) => format!("Cluster: {}", record.cluster),
        (true, false) => format!("Namespace: {}", record.namespace),
        (false, false) => format!("Cluster: {}, Namespace: {}", record.cluster, record.namespace),
    };
    format!("{} {} ({location})", record.kind, record.name)
}

/// Adds a record, replacing every one of the same object: written with another version, or with another name of the same
/// cluster, it is one object, and only what was dispatched last may be put back. Returns whether the list changed.
pub fn add_record(records: &mut Vec<Record>, record: Record) -> bool {
    add_records(records, vec![record], |_, _| ())
}

/// The same for many records, in time that grows with their number and that of the list. `replaced` learns of each record that
/// another content takes the place of, and of that.
pub fn add_records(
    records: &mut Vec<Record>,
    new: Vec<Record>,
    mut replaced: impl FnMut(Record, &Record),
) -> bool {
    let mut places: HashMap<u64, Vec<usize>> = HashMap::with_capacity(records.len());
    for (at, record) in records.iter().enumerate() {
        places.entry(hash(identity(record))).or_default().push(at);
    }
    let (mut changed, mut superfluous) = (false, HashSet::new());
    for record in new {
        let places = places.entry(hash(identity(&record))).or_default();
        let is_same =
            |at: &usize| records.get(*at).is_some_and(|it| identity(it) == identity(&record));
        let mut same = places.iter().copied().filter(is_same);
        let first = same.next();
        superfluous.extend(same);
        match first.and_then(|at| records.get_mut(at)) {
            Some(other) if *other != record => {
                changed = true;
                let before = std::mem::replace(other, record);
                replaced(before, other);
            }
            Some(_) => {}
            None => {
                changed = true;
                places.push(records.len());
                records.push(record);
            }
        }
    }
    if superfluous.is_empty() {
        return changed;
    }
    let mut at = 0..;
    records.retain(|_| at.next().is_none_or(|at| !superfluous.contains(&at)));
    true
}

/// Leaves one record of every object: releases that compared versions and cluster names as written left several, of which
/// the last says what was dispatched.
pub fn drop_duplicates(records: &mut Vec<Record>) {
    let mut seen = HashSet::new();
    let keeps: Vec<bool> = records.iter().rev().map(|one| seen.insert(identity(one))).collect();
    let mut keeps = keeps.into_iter().rev();
    records.retain(|_| keeps.next().unwrap_or(true));
}

/// Takes the records of other clusters out of a list.
#[must_use]
pub fn split_off_elsewhere(records: &mut Vec<Record>) -> Vec<Record> {
    records.extract_if(.., |record| !is_local(&record.cluster)).collect()
}

/// Marks an object as removed by a step: the record loses component, trait and manifest.
pub fn mark_deleted(records: &mut Vec<Record>, mut record: Record) -> bool {
    record.deleted = true;
    record.component = String::new();
    record.trait_ = String::new();
    record.raw = None;
    add_record(records, record)
}

/// `spec.type` of a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Objects that live as long as the Application.
    Root,
    /// Objects of one generation.
    Versioned,
    /// ControllerRevisions of old releases.
    ComponentRevision,
    /// Releases before 1.2 wrote trackers without a type.
    Legacy,
}

impl Role {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Versioned => "versioned",
            Self::ComponentRevision => "component-revision",
            Self::Legacy => "",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        match word {
            "root" => Self::Root,
            "component-revision" => Self::ComponentRevision,
            "" => Self::Legacy,
            _ => Self::Versioned,
        }
    }
}

/// The name of the root tracker.
#[must_use]
pub fn root_name(app: &str, namespace: &str) -> String {
    format!("{app}-{namespace}")
}

/// The name of a versioned tracker.
#[must_use]
pub fn versioned_name(app: &str, ns: &str, generation: i64, publish_version: &str) -> String {
    if publish_version.is_empty() {
        format!("{app}-v{generation}-{ns}")
    } else {
        format!("{app}-{publish_version}-{ns}")
    }
}

/// A tracker as the decisions need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracker {
    /// Object name.
    pub name: String,
    /// Root, current run, an earlier run or a component's revision.
    pub role: Role,
    /// Generation of the Application it was made for (0 for root and component revisions).
    pub generation: i64,
    /// Annotation `app.oam.dev/publishVersion`, `""` if absent.
    pub publish_version: String,
    /// Label `app.oam.dev/appRevision`, `""` if absent.
    pub revision: String,
    /// Label `app.oam.dev/uid`, `""` if absent.
    pub app_uid: String,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// What it remembers of this cluster.
    pub records: Vec<Record>,
    /// How many objects of other clusters it remembers in addition: nothing is decided about those, and it stays for them.
    pub elsewhere: usize,
}

/// What decides which tracker the present run writes to.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The Application's generation.
    pub generation: i64,
    /// `app.oam.dev/publishVersion` of the Application, `""` if it is not pinned.
    pub publish_version: &'a str,
    /// Name of the current ApplicationRevision.
    pub revision: &'a str,
}

/// The tracker of the present run among `trackers`: same publishVersion for a pinned Application, else the one of this
/// generation, else the newest one made for the same revision.
#[must_use]
pub fn current<'t>(trackers: &'t [Tracker], run: Run<'_>) -> Option<&'t Tracker> {
    let versioned = trackers.iter().filter(|tracker| tracker.role == Role::Versioned);
    if !run.publish_version.is_empty() {
        return versioned
            .filter(|tracker| tracker.publish_version == run.publish_version)
            .max_by_key(|tracker| tracker.generation);
    }
    // An annotation moves no generation: the tracker of a publishVersion that was taken away continues.
    let (unpinned, published): (Vec<_>, Vec<_>) =
        versioned.partition(|tracker| tracker.publish_version.is_empty());
    let of_generation = |tracker: &&&Tracker| tracker.generation == run.generation;
    let of_revision =
        |tracker: &&&Tracker| !run.revision.is_empty() && tracker.revision == run.revision;
    unpinned
        .iter()
        .find(of_generation)
        .or_else(|| unpinned.iter().filter(of_revision).max_by_key(|tracker| tracker.generation))
        .or_else(|| published.iter().find(of_generation))
        .copied()
}

/// The versioned trackers that are not current, oldest first.
#[must_use]
pub fn history<'t>(trackers: &'t [Tracker], current: Option<&Tracker>) -> Vec<&'t Tracker> {
    let mut out: Vec<_> = trackers
        .iter()
        .filter(|tracker| tracker.role == Role::Versioned)
        .filter(|tracker| current.is_none_or(|current| current.name != tracker.name))
        .collect();
    out.sort_by_key(|tracker| tracker.generation);
    out
}

/// A name for a new tracker that does not collide with trackers of other Applications: joining with `-` is ambiguous
/// (`web` + `canary-1` and `web-canary` + `1`). `taken` says whether somebody else has the name.
#[must_use]
pub fn free_name(wanted: String, uid: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&wanted) {
        return wanted;
    }
    let suffix: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let mut name = format!("{wanted}-{suffix}");
    while taken(&name) {
        name.push_str("-0");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn versioned(name: &str, generation: i64, revision: &str) -> Tracker {
        Tracker {
            name: name.into(),
            role: Role::Versioned,
            generation,
            publish_version: String::new(),
            revision: revision.into(),
            app_uid: String::new(),
            deleting: false,
            records: Vec::new(),
            elsewhere: 0,
        }
    }

    fn run(generation: i64, revision: &str) -> Run<'_> {
        Run { generation, publish_version: "", revision }
    }

    proptest::proptest! {
        #[test]
        fn an_index_finds_the_first_record_of_an_object(
            all in proptest::collection::vec(("[ab]/v1|v1", "[AB]", "|local|far", "[xy]", "[ab]{1,2}"), 0..40),
        ) {
            let record = |(version, kind, cluster, namespace, name): &(String, String, String, String, String)| {
                Record {
                    api_version: version.clone(),
                    kind: kind.clone(),
                    cluster: cluster.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    ..Record::default()
                }
            };
            let all: Vec<Record> = all.iter().map(record).collect();
            let (known, unknown) = all.split_at(all.len() / 2);
            let index = RecordIndex::new(known);
            for record in known.iter().chain(unknown) {
                let key = key_of(record);
                let first = known.iter().find(|record| is_of(record, &key));
                let found = index.find(known, &key);
                assert_eq!(found.map(std::ptr::from_ref), first.map(std::ptr::from_ref));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn many_records_are_added_as_one_after_the_other(
            all in proptest::collection::vec(("[AB]", "|local|far", "[xyz]", 0..3_u8), 0..24),
            known in 0..24_usize,
        ) {
            let record = |(kind, cluster, name, component): &(String, String, String, u8)| Record {
                kind: kind.clone(),
                cluster: cluster.clone(),
                name: name.clone(),
                component: component.to_string(),
                ..Record::default()
            };
            let all: Vec<Record> = all.iter().map(record).collect();
            let (known, new) = all.split_at(known.min(all.len()));
            // The simplest way.
            let (mut expected, mut over) = (known.to_vec(), Vec::new());
            for one in new {
                let same = |other: &Record| identity(other) == identity(one);
                let place = expected.iter().position(same);
                let before = place.and_then(|place| expected.get(place)).cloned();
                over.extend(before.filter(|before| before != one).map(|before| (before, one.clone())));
                let mut seen = false;
                expected.retain_mut(|other| {
                    if !same(other) {
                        return true;
                    }
                    other.clone_from(one);
                    !std::mem::replace(&mut seen, true)
                });
                if !seen {
                    expected.push(one.clone());
                }
            }
            let (mut records, mut replaced) = (known.to_vec(), Vec::new());
            let note = |before, after: &Record| replaced.push((before, after.clone()));
            let changed = add_records(&mut records, new.to_vec(), note);
            assert_eq!(records, expected);
            assert_eq!(replaced, over);
            // What was replaced and put back is a change, too.
            assert!(changed || records == known);
        }
    }

    #[test]
    fn an_edit_without_meaning_keeps_its_tracker() {
        let trackers = [versioned("a-v1-n", 1, "a-v1")];
        assert_eq!(current(&trackers, run(2, "a-v1")).map(|t| &*t.name), Some("a-v1-n"));
        assert_eq!(current(&trackers, run(2, "a-v2")), None);
    }

    #[test]
    fn the_present_generation_wins_over_an_older_one_of_the_same_revision() {
        let trackers = [
            versioned("a-v1-n", 1, "a-v1"),
            versioned("a-v2-n", 2, "a-v2"),
            versioned("a-v3-n", 3, "a-v1"),
        ];
        let found = current(&trackers, run(3, "a-v1"));
        assert_eq!(found.map(|t| &*t.name), Some("a-v3-n"));
        let names: Vec<_> = history(&trackers, found).iter().map(|t| t.name.clone()).collect();
        assert_eq!(names, ["a-v1-n", "a-v2-n"]);
    }

    #[test]
    fn pinned_runs_go_by_publish_version() {
        let mut pinned = versioned("a-x-n", 4, "a-v1");
        pinned.publish_version = "x".into();
        let trackers = [pinned, versioned("a-v5-n", 5, "a-v1")];
        let x = Run { generation: 9, publish_version: "x", revision: "a-v1" };
        assert_eq!(current(&trackers, x).map(|t| &*t.name), Some("a-x-n"));
        let y = Run { publish_version: "y", ..x };
        assert_eq!(current(&trackers, y), None);
        assert_eq!(current(&trackers, run(9, "a-v1")).map(|t| &*t.name), Some("a-v5-n"));
    }

    #[test]
    fn names() {
        assert_eq!(root_name("a", "n"), "a-n");
        assert_eq!(versioned_name("a", "n", 3, ""), "a-v3-n");
        assert_eq!(versioned_name("a", "n", 3, "p1"), "a-p1-n");
        assert_eq!(free_name("a-n".into(), "1234-5678-9", |_| false), "a-n");
        assert_eq!(free_name("a-n".into(), "1234-5678-9", |name| name == "a-n"), "a-n-12345678");
        let taken = ["a-n", "a-n-12345678"];
        let free = free_name("a-n".into(), "1234-5678-9", |name| taken.contains(&name));
        assert_eq!(free, "a-n-12345678-0");
    }

    #[test]
    fn records_are_stored_as_the_reference_stores_them() {
        let manifest = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n",
            "labels": {"app.oam.dev/component": "c", "trait.oam.dev/type": "expose"}}});
        let record = record_of(&manifest, "local", false, true);
        assert_eq!(
            serde_json::to_value(&record).unwrap(),
            json!({"apiVersion": "v1", "kind": "Service", "name": "s", "namespace": "n", "cluster": "local",
                "component": "c", "trait": "expose", "raw": manifest, "skipGC": true})
        );
        assert_eq!(display_name(&record), "Service s (Cluster: local, Namespace: n)");
        let mut records = Vec::new();
        assert!(add_record(&mut records, record.clone()));
        assert!(!add_record(&mut records, record.clone()));
        assert!(mark_deleted(&mut records, record));
        assert_eq!(
            serde_json::to_value(&records).unwrap(),
            json!([{"apiVersion": "v1", "kind": "Service", "name": "s", "namespace": "n", "cluster": "local",
                "skipGC": true, "deleted": true}])
        );
    }

    #[test]
    fn an_object_has_one_record_whatever_its_version_and_cluster_are_called() {
        let hpa = |version: &str, cluster: &str, least: u32| {
            let manifest = json!({"apiVersion": format!("autoscaling/{version}"),
                "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "n"},
                "spec": {"minReplicas": least}});
            record_of(&manifest, cluster, false, false)
        };
        let other =
            record_of(&json!({"kind": "Service", "metadata": {"name": "h"}}), "", true, false);
        // As an earlier release left them.
        let mut records = vec![hpa("v2beta2", "", 1), other.clone(), hpa("v2beta2", "local", 2)];
        let newest = hpa("v2", "local", 3);
        assert!(add_record(&mut records, newest.clone()));
        assert_eq!(records, [newest.clone(), other.clone()]);
        assert!(!add_record(&mut records, newest.clone()));
        // What a step deletes has no twin that brings it back.
        records.push(hpa("v2", "", 1));
        assert!(mark_deleted(&mut records, newest.clone()));
        assert_eq!(records.iter().map(|r| r.deleted).collect::<Vec<_>>(), [true, false]);
        assert_eq!(records.get(1), Some(&other));
        // One that is the same already, next to its duplicate.
        let mut records = vec![newest.clone(), hpa("v2", "", 1)];
        assert!(add_record(&mut records, newest.clone()));
        assert_eq!(records, [newest]);
        let last = hpa("v2", "local", 2);
        let mut records = vec![hpa("v2", "", 1), other.clone(), last.clone()];
        drop_duplicates(&mut records);
        assert_eq!(records, [other, last]);
    }
}
