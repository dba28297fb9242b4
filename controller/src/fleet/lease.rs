//! The Leases of a fleet: what they say, and how they are written. No decisions.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::ObjectMeta;
use vela_api::names::annotation;
use vela_shard::{Buckets, Holder, Millis, Observed, RecordError, Table, has_lease};

/// The names of a fleet's Leases. All begin with that of the root.
#[derive(Debug, Clone)]
pub struct Names {
    /// The Lease that other controllers elect on.
    pub root: String,
}

impl Names {
    /// The Lease with the table.
    #[must_use]
    pub fn table(&self) -> String {
        format!("{}-shards", self.root)
    }

    /// The Lease of a member: named like its Pod, as far as an object can be.
    #[must_use]
    pub fn member(&self, pod: &str) -> String {
        // Names of Leases are DNS names, and Pods of other systems may be called what no DNS name
        // can be.
        let plain = |letter: char| {
            let letter = letter.to_ascii_lowercase();
            if letter.is_ascii_lowercase() || letter.is_ascii_digit() { letter } else { '-' }
        };
        let pod: String = pod.chars().map(plain).take(150).collect();
        format!("{}-member-{}", self.root, pod.trim_matches('-'))
    }

    /// The Lease on which Go's controllers of a shard elect.
    #[must_use]
    pub fn shard(&self, shard: &str) -> String {
        format!("{}-{shard}", self.root)
    }

    /// The shard whose controllers elect on a Lease, if there can be any.
    pub(super) fn shard_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let shard = name.strip_prefix(&self.root)?.strip_prefix('-')?;
        has_lease(shard).then_some(shard)
    }

    /// Whether a Lease is a member's.
    fn is_member(&self, name: &str) -> bool {
        // Other controllers keep their Leases in the same namespace.
        name.strip_prefix(&self.root).is_some_and(|rest| rest.starts_with("-member-"))
    }
}

pub(super) fn name(lease: &Lease) -> &str {
    lease.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn annotation_of<'l>(lease: &'l Lease, key: &str) -> &'l str {
    vela_api::annotation_of(&lease.metadata, key)
}

/// Identifies one life of a Lease: another member, or the same one seized once more.
pub(super) fn identity(lease: &Lease) -> String {
    // A Lease that is seized again keeps its uid and names another dead member.
    let uid = lease.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}/{}", annotation_of(lease, annotation::FLEET_MEMBER))
}

fn spec(lease: &Lease) -> LeaseSpec {
    lease.spec.clone().unwrap_or_default()
}

pub(super) fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Identifies a renewal: every renewal writes another time. Annotations are no part of it.
pub(super) fn stamp(lease: &Lease) -> u64 {
    // Compared within one process only, so any hash does. An annotation that somebody edits must
    // not count as a sign of life.
    let mut hasher = DefaultHasher::new();
    lease.metadata.uid.hash(&mut hasher);
    serde_json::to_string(&lease.spec).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// A member's Lease as others see it; `None` if it is no member's.
pub(super) fn observed(names: &Names, lease: &Lease) -> Option<Observed> {
    if !names.is_member(name(lease)) {
        return None;
    }
    // Whoever seizes a Lease empties its holder; the annotation keeps whose it was.
    let seized = holder(lease).is_empty();
    let id = if seized { annotation_of(lease, annotation::FLEET_MEMBER) } else { holder(lease) };
    // A release that does not say so keeps everything.
    let filled = Buckets::from_text(annotation_of(lease, annotation::FLEET_CACHED));
    (!id.is_empty()).then(|| Observed { id: id.into(), stamp: stamp(lease), seized, filled })
}

/// The root Lease as the fleet sees it: its stamp, who holds it, and how long a holder is believed.
pub(super) fn root(lease: Option<&Lease>) -> (u64, Holder, Millis) {
    let Some(lease) = lease else { return (0, Holder::Nobody, 0) };
    let spec = spec(lease);
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    let holder = match holder(lease) {
        "" => Holder::Nobody,
        // client-go and unsharded replicas leave the annotation as it was, under another holder.
        holder if holder == annotation_of(lease, annotation::FLEET_MEMBER) => Holder::Member,
        _ => Holder::Foreign,
    };
    (stamp(lease), holder, seconds.saturating_mul(1_000))
}

/// The table of a Lease.
pub(super) fn table(lease: &Lease) -> Result<Table, RecordError> {
    let table = Table::from_text(annotation_of(lease, annotation::FLEET_TABLE))?;
    Ok(Table { incarnation: incarnation(lease), ..table })
}

/// What distinguishes a Lease from one of the same name that was deleted.
pub(super) fn incarnation(lease: &Lease) -> Arc<str> {
    lease.metadata.uid.as_deref().unwrap_or_default().into()
}

/// A Lease of this name that nobody wrote yet.
pub(super) fn new(namespace: &str, name: &str) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

/// A renewal, or the first one, of a Lease by a member.
pub(super) fn renewed(mut lease: Lease, id: &str, seconds: i32, notes: &[(&str, String)]) -> Lease {
    let before = spec(&lease);
    let now = MicroTime(Timestamp::now());
    let is_ours = before.holder_identity.as_deref() == Some(id);
    let transitions = before.lease_transitions.unwrap_or(0);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(id.to_owned()),
        lease_duration_seconds: Some(seconds),
        // As client-go does: the time of acquisition and the count of transitions change with the
        // holder.
        acquire_time: before.acquire_time.filter(|_| is_ours).or_else(|| Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(if is_ours { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    });
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::FLEET_MEMBER.to_owned(), id.to_owned());
    // A process that takes over the Lease of its Pod lives; what the seizure said is over.
    annotations.remove(annotation::FLEET_SEIZED_BY);
    for (key, value) in notes {
        annotations.insert((*key).to_owned(), value.clone());
    }
    // What is renewed every second needs no record of who wrote which field.
    lease.metadata.managed_fields = None;
    lease
}

/// A Lease that nobody holds any more: taken from a silent member, or released.
pub(super) fn emptied(mut lease: Lease, by: Option<&str>) -> Lease {
    let before = spec(&lease);
    let now = MicroTime(Timestamp::now());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(String::new()),
        // The API server accepts no zero; whoever elects with client-go need not wait for it.
        lease_duration_seconds: Some(1),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: before.lease_transitions,
        ..LeaseSpec::default()
    });
    if let Some(by) = by {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        if let Some(id) = before.holder_identity.filter(|id| !id.is_empty()) {
            annotations.insert(annotation::FLEET_MEMBER.to_owned(), id);
        }
        annotations.insert(annotation::FLEET_SEIZED_BY.to_owned(), by.to_owned());
    }
    lease.metadata.managed_fields = None;
    lease
}

/// The Lease of the table with another table.
pub(super) fn with_table(mut lease: Lease, table: &Table, by: &str) -> Lease {
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(by.to_owned()),
        renew_time: Some(MicroTime(Timestamp::now())),
        // Not elected on: for people who print the Lease, the epoch is what changed hands.
        lease_transitions: Some(i32::try_from(table.epoch).unwrap_or(i32::MAX)),
        ..LeaseSpec::default()
    });
    let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(annotation::FLEET_TABLE.to_owned(), table.to_text());
    lease.metadata.managed_fields = None;
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_members_lease_tells_its_life() {
        let names = Names { root: "kubevela".to_owned() };
        let observed = |lease: &Lease| observed(&names, lease);
        let lease = renewed(new("vela-system", &names.member("Pod.1")), "pod-1_u", 8, &[]);
        assert_eq!(name(&lease), "kubevela-member-pod-1");
        let first = observed(&lease).unwrap();
        assert_eq!((&*first.id, first.seized), ("pod-1_u", false));
        let mut noted = lease.clone();
        noted.metadata.annotations.get_or_insert_default().insert("x".to_owned(), "y".to_owned());
        assert_eq!(observed(&noted), Some(first.clone()), "a note is no renewal");
        assert_eq!(first.filled, None);
        let some: Buckets = [3, 200].into_iter().collect();
        let cached = [(annotation::FLEET_CACHED, some.to_text())];
        let says = renewed(lease.clone(), "pod-1_u", 8, &cached);
        assert_eq!(observed(&says).unwrap().filled, Some(some));
        let seized = observed(&emptied(lease.clone(), Some("pod-2_u"))).unwrap();
        assert_eq!((&*seized.id, seized.seized), ("pod-1_u", true));
        assert!(first.stamp != seized.stamp);
        assert_eq!(observed(&renewed(new("vela-system", "kubevela"), "pod-1_u", 8, &[])), None);
    }

    #[test]
    fn the_lease_of_a_shard_is_none_of_the_fleet() {
        let names = Names { root: "kubevela".to_owned() };
        assert_eq!(names.shard_of(&names.shard("shard-0")), Some("shard-0"));
        for other in [&*names.table(), &names.member("pod-1"), "kubevela", "other-shard-0"] {
            assert_eq!(names.shard_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_root_is_the_fleets_only_under_the_name_of_who_renewed_it_for_the_fleet() {
        assert_eq!(root(None), (0, Holder::Nobody, 0));
        let ours = renewed(new("vela-system", "kubevela"), "pod-1_u", 12, &[]);
        assert_eq!((root(Some(&ours)).1, root(Some(&ours)).2), (Holder::Member, 12_000));
        let mut theirs = ours.clone();
        theirs.spec.get_or_insert_default().holder_identity = Some("go_u".to_owned());
        assert_eq!(root(Some(&theirs)).1, Holder::Foreign);
        assert_eq!(root(Some(&emptied(ours, None))).1, Holder::Nobody);
    }
}
