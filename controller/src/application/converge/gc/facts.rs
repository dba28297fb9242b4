//! Facts about recorded objects, gathered before garbage collection decides.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use vela_apply::ResourceKey;
use vela_apply::tracker::{self, Record};
use vela_cluster::{ApiError, Identity, ObjectClient};

use crate::application::session::Session;

use super::actions::target;

/// Records of objects that are recorded under another name, too, of which is said, but not proven, that it means the same cluster:
/// to delete one may be to delete the other.
pub(super) fn doubtful(
    session: &Session<'_>,
    views: &[vela_apply::Tracker],
    current: &str,
) -> HashSet<ResourceKey> {
    let mut out = HashSet::new();
    if session.clusters.aliases().iter().all(|(_, is_proven)| *is_proven) {
        return out;
    }
    let key = |record: &Record| {
        let cluster = session.canonical(&record.cluster);
        let Record { api_version, kind, namespace, name, .. } = record;
        ResourceKey::new(api_version, kind, &cluster, namespace, name)
    };
    let is_wanted =
        |it: &&vela_apply::Tracker| it.name == current || it.role == vela_apply::Role::Root;
    let wanted: HashSet<ResourceKey> =
        views.iter().filter(is_wanted).flat_map(|it| &it.records).map(key).collect();
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    for record in views.iter().flat_map(|tracker| &tracker.records) {
        let key = key(record);
        let others = known
            .entry(key.cluster.clone())
            .or_insert_with(|| session.clusters.doubtful(&key.cluster));
        let twin = |cluster: &String| ResourceKey { cluster: cluster.clone(), ..key.clone() };
        if !wanted.contains(&key) && others.iter().any(|other| wanted.contains(&twin(other))) {
            out.insert(key);
        }
    }
    out
}

/// The object of a record in another cluster; that there is none is believed of the API server's own word only.
///
/// # Errors
/// Nobody can say now whether there is one.
pub(super) async fn member_object(
    session: &Session<'_>,
    record: &mut Record,
) -> Result<Option<Value>, ApiError> {
    // An object that is not read now says nothing about the attempt.
    let at = session.reach(&record.cluster)?;
    if !is_served(at.io, record).await {
        return Ok(None);
    }
    let key = tracker::key_of(record);
    match at.live.get_served(&record.api_version, &key).await {
        Ok(Some(found)) => return Ok(Some(found.value())),
        Ok(None) => {}
        Err(ApiError::NoSuchKind { .. }) => return Ok(None),
        // It may not be watched: it is read.
        Err(_) => {}
    }
    match at.io.get(&target(record), &Identity::default()).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the kind of a record is served. What the record says is brought to what is: old releases recorded a namespace for
/// kinds that have none (one object under two names), and an object is still there when the version it was made in is not.
pub(super) async fn is_served(io: &ObjectClient, record: &mut Record) -> bool {
    match io.discovery().resolve_any(&record.api_version, &record.kind).await {
        Ok(served) => {
            if !served.namespaced {
                record.namespace.clear();
            }
            record.api_version = served.api_version;
            true
        }
        Err(ApiError::NoSuchKind { .. }) => false,
        // Who cannot say how it is served now says nothing about the object.
        Err(_) => true,
    }
}
