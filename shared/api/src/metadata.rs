//! Metadata of our kinds as it is read: managed fields are half of an object and are never used.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::{ObjectMeta, OwnerReference, Time};

/// One annotation, `""` if absent.
#[must_use]
pub fn annotation_of<'m>(metadata: &'m ObjectMeta, key: &str) -> &'m str {
    metadata.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Metadata without managed fields: they are passed over, not read.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Metadata::deserialize(deserializer)
}

#[derive(Deserialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(skip)]
    managed_fields: (),
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    self_link: Option<String>,
    uid: Option<String>,
}
