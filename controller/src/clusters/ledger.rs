//! What was left behind in clusters that are gone: ConfigMaps `vela-left-behind-<cluster>[-n]`. A record leaves the trackers only
//! after it stands here, so that what the control plane once made is never forgotten.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vela_apply::plan::PatchKind;
use vela_apply::tracker::Record;
use vela_cluster::{ApiError, Identity, ObjectClient, Target};

use crate::queue::Key;

/// The most one ConfigMap holds, in bytes; the API server's limit is 1 MiB.
const MAX_BYTES: usize = 900 << 10;
/// How many ConfigMaps one cluster may have.
const PARTS: usize = 64;
/// Names longer than this are cut, with a hash.
const MAX_NAME: usize = 200;

/// Why objects are not managed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The cluster was taken away.
    Detached,
    /// Somebody asked to forget them.
    Forgotten,
    /// Another cluster has the name now.
    Replaced,
    /// Somebody took them out of the trackers, as the client does before it takes a cluster away.
    Stripped,
}

/// One object that was left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `namespace/name` of the Application.
    pub app: String,
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The component that it was made for.
    pub component: String,
    /// When it was left, RFC 3339.
    pub time: String,
    /// Why.
    pub cause: Cause,
    /// The uid of the cluster, empty if it is not known.
    #[serde(default)]
    pub cluster_uid: String,
    /// The tracker that recorded it.
    #[serde(default)]
    pub tracker: String,
}

impl Entry {
    /// Of a record.
    #[must_use]
    pub fn of(app: &str, record: &Record, cause: Cause, time: &str) -> Self {
        Self {
            app: app.to_owned(),
            api_version: record.api_version.clone(),
            kind: record.kind.clone(),
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            component: record.component.clone(),
            time: time.to_owned(),
            cause,
            cluster_uid: String::new(),
            tracker: String::new(),
        }
    }

    /// The Application.
    #[must_use]
    pub fn key_of_app(&self) -> Option<Key> {
        let (namespace, name) = self.app.split_once('/')?;
        Some(Key::new(namespace, name))
    }

    /// As a record of a tracker again: what it said of the object's content is not known any more.
    #[must_use]
    pub fn record(&self, cluster: &str) -> Record {
        Record {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            component: self.component.clone(),
            cluster: cluster.to_owned(),
            ..Record::default()
        }
    }

    /// The key in a ConfigMap: the same object of the same Application has the same key, so that writing twice is writing once.
    fn key(&self) -> String {
        let Self { app, api_version, kind, namespace, name, .. } = self;
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let mut identity = [app, group, kind, namespace, name].join("\n");
        if self.cause == Cause::Replaced {
            // Each cluster that had the name may have one of it.
            identity.push('\n');
            identity.push_str(&self.cluster_uid);
        }
        format!("{:016x}", vela_gocompat::fnv::fnv1a_64(identity.as_bytes()))
    }
}

/// The name of a ConfigMap of a cluster.
fn name(cluster: &str, part: usize) -> String {
    let cluster = if cluster.len() > MAX_NAME {
        let cut: String = cluster.chars().take(MAX_NAME - 17).collect();
        format!("{cut}-{:016x}", vela_gocompat::fnv::fnv1a_64(cluster.as_bytes()))
    } else {
        cluster.to_owned()
    };
    match part {
        0 => format!("vela-left-behind-{cluster}"),
        part => format!("vela-left-behind-{cluster}-{part}"),
    }
}

/// Writes down what was left behind in a cluster. What stands there already stays. Returns how many are new.
///
/// # Errors
/// The API server's answer, or there is no more room: nothing may be forgotten then.
pub async fn write(
    io: &ObjectClient,
    namespace: &str,
    cluster: &str,
    entries: &[Entry],
) -> Result<usize, ApiError> {
    let own = Identity::default();
    let mut written: usize = 0;
    let mut left: Vec<(String, String)> =
        entries.iter().map(|entry| (entry.key(), json!(entry).to_string())).collect();
    for part in 0..PARTS {
        if left.is_empty() {
            return Ok(written);
        }
        let name = name(cluster, part);
        let target = Target { api_version: "v1", kind: "ConfigMap", namespace, name: &name };
        let stored = match io.get(&target, &own).await {
            Ok(stored) => Some(stored),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let (fit, rest) = fitting(stored.as_ref(), left);
        left = rest;
        if fit.is_empty() {
            continue;
        }
        written = written.saturating_add(fit.len());
        let data: serde_json::Map<String, Value> =
            fit.into_iter().map(|(key, text)| (key, Value::String(text))).collect();
        if stored.is_some() {
            let body = json!({ "data": data });
            io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await?;
        } else {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace,
                    "annotations": {"cluster.core.oam.dev/cluster-name": cluster}},
                "data": data,
            });
            io.create(&object, false, &own).await?;
        }
    }
    if left.is_empty() {
        return Ok(written);
    }
    Err(ApiError::Config(format!("no room to note what is left behind in cluster {cluster:?}")))
}

/// All that stands in the ledger of a cluster. An entry that cannot be read is left where it is.
///
/// # Errors
/// The API server's answer.
pub async fn read(
    io: &ObjectClient,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<Entry>, ApiError> {
    let mut all = Vec::new();
    for (_, data) in parts(io, namespace, cluster).await? {
        all.extend(data.values().filter_map(|text| serde_json::from_str(text.as_str()?).ok()));
    }
    Ok(all)
}

/// Takes entries out of the ledger of a cluster.
///
/// # Errors
/// The API server's answer.
pub async fn take(
    io: &ObjectClient,
    namespace: &str,
    cluster: &str,
    entries: &[Entry],
) -> Result<(), ApiError> {
    if entries.is_empty() {
        return Ok(());
    }
    let keys: BTreeSet<String> = entries.iter().map(Entry::key).collect();
    for (name, data) in parts(io, namespace, cluster).await? {
        let gone: serde_json::Map<String, Value> = data
            .keys()
            .filter(|key| keys.contains(*key))
            .map(|key| (key.clone(), Value::Null))
            .collect();
        if gone.is_empty() {
            continue;
        }
        let target = Target { api_version: "v1", kind: "ConfigMap", namespace, name: &name };
        let body = json!({ "data": gone });
        io.patch(&target, "", (PatchKind::Merge, &body), false, &Identity::default()).await?;
    }
    Ok(())
}

/// The ConfigMaps of a cluster that there are: name and data.
async fn parts(
    io: &ObjectClient,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<(String, serde_json::Map<String, Value>)>, ApiError> {
    let mut all = Vec::new();
    for part in 0..PARTS {
        let name = name(cluster, part);
        let target = Target { api_version: "v1", kind: "ConfigMap", namespace, name: &name };
        match io.get(&target, &Identity::default()).await {
            Ok(mut object) => {
                let data = object.get_mut("data").and_then(Value::as_object_mut);
                let data = data.map(std::mem::take).unwrap_or_default();
                all.push((name, data));
            }
            // They are filled one after the other.
            Err(error) if error.is_not_found() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

type Texts = Vec<(String, String)>;

/// What of some entries goes into a ConfigMap, and what does not fit. What it holds already needs no place.
fn fitting(stored: Option<&Value>, entries: Texts) -> (Texts, Texts) {
    let data = stored.and_then(|object| object.get("data")).and_then(Value::as_object);
    let size = |key: &str, text: &str| key.len() + text.len() + 8;
    let mut used: usize = data
        .into_iter()
        .flatten()
        .map(|(key, text)| size(key, text.as_str().unwrap_or_default()))
        .sum();
    let (mut fit, mut rest) = (Texts::new(), Texts::new());
    for (key, text) in entries {
        if data.is_some_and(|data| data.contains_key(&key)) {
            continue;
        }
        let more = size(&key, &text);
        if used.saturating_add(more) <= MAX_BYTES {
            used = used.saturating_add(more);
            fit.push((key, text));
        } else {
            rest.push((key, text));
        }
    }
    (fit, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        let record = Record {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "n".into(),
            name: name.into(),
            ..Record::default()
        };
        Entry::of("n/app", &record, Cause::Detached, "2026-01-01T00:00:00Z")
    }

    #[test]
    fn an_object_stands_there_once_whatever_version_it_was_made_in() {
        let one = entry("a");
        let other = Entry { api_version: "apps/v2".into(), time: "later".into(), ..one.clone() };
        assert_eq!(one.key(), other.key());
        assert_ne!(one.key(), entry("b").key());
        let of = |uid: &str, cause| Entry { cluster_uid: uid.into(), cause, ..one.clone() }.key();
        assert_eq!(of("1", Cause::Stripped), of("2", Cause::Stripped));
        assert_ne!(of("1", Cause::Replaced), of("2", Cause::Replaced));
        let text = |e: &Entry| json!(e).to_string();
        let stored = json!({"data": {one.key(): text(&one)}});
        let all = vec![(one.key(), text(&one)), (entry("b").key(), text(&entry("b")))];
        let (fit, rest) = fitting(Some(&stored), all);
        assert_eq!((fit.len(), rest.len()), (1, 0));
        let read: Entry = serde_json::from_str(&fit[0].1).unwrap();
        assert_eq!(read, entry("b"));
    }

    #[test]
    fn what_does_not_fit_goes_to_the_next_one() {
        let all: Texts = (0..1000).map(|n| (format!("{n:016x}"), "x".repeat(1000))).collect();
        let (fit, rest) = fitting(None, all);
        assert!(fit.len() < 1000 && fit.len() + rest.len() == 1000);
        assert!(fit.iter().map(|(k, t)| k.len() + t.len()).sum::<usize>() < MAX_BYTES);
        let full = json!({"data": {"k": "x".repeat(MAX_BYTES)}});
        assert!(fitting(Some(&full), rest).0.is_empty());
    }

    #[test]
    fn names_are_short_enough() {
        assert_eq!(name("edge", 0), "vela-left-behind-edge");
        assert_eq!(name("edge", 3), "vela-left-behind-edge-3");
        let (a, b) = (name(&"a".repeat(253), 63), name(&format!("{}b", "a".repeat(252)), 63));
        assert!(a.len() <= 253 && a != b);
    }
}
