//! Reading and writing Kubernetes objects that are plain JSON values, and the two identities an object has in trackers.
//!
//! Everything here is total: a missing or oddly shaped field reads as empty and writing creates what is missing.

use serde_json::{Map, Value};

/// The cluster the control plane itself runs in; an empty cluster name means the same.
pub use vela_api::cluster::LOCAL as LOCAL_CLUSTER;

/// A string at a path of object fields, `""` if absent.
#[must_use]
pub fn str_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    value_at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path of object fields.
#[must_use]
pub fn value_at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// `apiVersion`, `""` if absent.
#[must_use]
pub fn api_version(object: &Value) -> &str {
    str_at(object, &["apiVersion"])
}

/// `kind`, `""` if absent.
#[must_use]
pub fn kind(object: &Value) -> &str {
    str_at(object, &["kind"])
}

/// `metadata.name`, `""` if absent.
#[must_use]
pub fn name(object: &Value) -> &str {
    str_at(object, &["metadata", "name"])
}

/// `metadata.namespace`, `""` if absent.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    str_at(object, &["metadata", "namespace"])
}

/// One label, `None` if absent (an empty label is `Some("")`).
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    value_at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// One annotation, `None` if absent.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    value_at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Whether the object carries a deletion timestamp.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    !str_at(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// The group part of an `apiVersion`: `""` for the core group.
#[must_use]
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// `object[key]` as a map, created or replaced by an empty one where needed.
fn map_entry<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    let map = object.as_object_mut()?;
    let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// `metadata.<section>` as a map, created where needed. `None` only if `object` is no JSON object.
pub fn metadata_section<'a>(
    object: &'a mut Value,
    section: &str,
) -> Option<&'a mut Map<String, Value>> {
    let metadata = map_entry(object, "metadata")?;
    let entry = metadata.entry(section).or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    if let Some(labels) = metadata_section(object, "labels") {
        labels.insert(key.to_owned(), Value::String(value.to_owned()));
    }
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    if let Some(annotations) = metadata_section(object, "annotations") {
        annotations.insert(key.to_owned(), Value::String(value.to_owned()));
    }
}

/// Removes one key of `metadata.<section>` and the section itself once it is empty.
pub fn remove_metadata(object: &mut Value, section: &str, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(map) = metadata.get_mut(section).and_then(Value::as_object_mut) {
        map.remove(key);
        if map.is_empty() {
            metadata.remove(section);
        }
    }
}

/// Says what an item of a list is, which lists leave out.
pub fn set_type(item: &mut Value, api_version: &str, kind: &str) {
    if let Some(map) = item.as_object_mut() {
        for (key, text) in [("apiVersion", api_version), ("kind", kind)] {
            map.entry(key).or_insert_with(|| Value::String(text.to_owned()));
        }
    }
}

/// Sets `metadata.namespace`, or removes it when `namespace` is empty.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    if let Some(metadata) = map_entry(object, "metadata") {
        if namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }
}

/// The cluster that a record or a place means.
#[must_use]
pub fn cluster_of(written: &str) -> &str {
    if written.is_empty() { LOCAL_CLUSTER } else { written }
}

/// Whether a record or a place means the cluster of the control plane.
#[must_use]
pub fn is_local(written: &str) -> bool {
    cluster_of(written) == LOCAL_CLUSTER
}

/// The *resource key*: what garbage collection and state-keep compare. No version (an object served under two
/// versions is one object), and an empty cluster reads as `local`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// API group, `""` for core.
    pub group: String,
    /// Kind, as in manifests.
    pub kind: String,
    /// Cluster name, never empty.
    pub cluster: String,
    /// Namespace, `""` for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl ResourceKey {
    /// Builds a key from an `apiVersion` and the rest.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, cluster: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group_of(api_version).to_owned(),
            kind: kind.to_owned(),
            cluster: cluster_of(cluster).to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Its parts, as [`crate::tracker::identity`] gives them of a record.
    #[must_use]
    pub fn parts(&self) -> [&str; 5] {
        [&self.group, &self.kind, &self.cluster, &self.namespace, &self.name]
    }

    /// The key of a manifest dispatched to `cluster`.
    #[must_use]
    pub fn of(manifest: &Value, cluster: &str) -> Self {
        Self::new(
            api_version(manifest),
            kind(manifest),
            cluster,
            namespace(manifest),
            name(manifest),
        )
    }
}

impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}/{}/{}", self.group, self.kind, self.cluster, self.namespace, self.name)
    }
}

/// Numeric equality for numbers (80 and 80.0 are one value), structural for the rest.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y
                || match (x.as_i64(), y.as_i64(), x.as_f64(), y.as_f64()) {
                    (Some(x), Some(y), ..) => x == y,
                    (.., Some(x), Some(y)) => x.total_cmp(&y).is_eq() || x - y == 0.0,
                    _ => false,
                }
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, x)| y.get(k).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_ignore_the_version_and_normalise_the_cluster() {
        let a = ResourceKey::new("apps/v1", "Deployment", "", "ns", "x");
        let b = ResourceKey::new("apps/v1beta1", "Deployment", "local", "ns", "x");
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "apps/Deployment/local/ns/x");
        assert_ne!(a, ResourceKey::new("apps/v1", "Deployment", "east", "ns", "x"));
    }

    #[test]
    fn numbers_compare_by_value() {
        assert!(same(&json!({"a": [80]}), &json!({"a": [80.0]})));
        assert!(!same(&json!({"a": 80}), &json!({"a": 81})));
        assert!(!same(&json!({"a": 80}), &json!({"a": "80"})));
        assert!(!same(&json!({"a": 1, "b": 1}), &json!({"a": 1})));
    }

    #[test]
    fn metadata_writing_creates_and_cleans_up() {
        let mut object = json!({"metadata": {"labels": null}});
        set_label(&mut object, "k", "v");
        set_annotation(&mut object, "a", "b");
        assert_eq!(label(&object, "k"), Some("v"));
        remove_metadata(&mut object, "labels", "k");
        set_namespace(&mut object, "n");
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "b"}, "namespace": "n"}}));
        set_namespace(&mut object, "");
        assert_eq!(namespace(&object), "");
    }
}
