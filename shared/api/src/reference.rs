//! References to objects, as they appear in statuses and trackers.

use serde::{Deserialize, Serialize};
use vela_api_derive::{Crd, GoHash};

use crate::omit::zero;

/// `core/v1 ObjectReference` with Go's omissions.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Crd,
)]
#[serde(rename_all = "camelCase", default)]
#[api(atomic)]
pub struct ObjectReference {
    /// Group and version.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// Part of the object; never filled by the controller.
    #[serde(skip_serializing_if = "zero")]
    pub field_path: String,
    /// Kind, as in manifests.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name of the object.
    #[serde(skip_serializing_if = "zero")]
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "zero")]
    pub namespace: String,
    /// Resource version; never filled by the controller in trackers.
    #[serde(skip_serializing_if = "zero")]
    pub resource_version: String,
    /// Uid; never filled by the controller in trackers.
    #[serde(skip_serializing_if = "zero")]
    pub uid: String,
}

/// An object in a cluster.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Crd,
)]
#[serde(rename_all = "camelCase", default)]
#[api(atomic)]
pub struct ClusterObjectReference {
    /// Group and version.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// Cluster; empty means the local one.
    #[serde(skip_serializing_if = "zero")]
    pub cluster: String,
    /// Who made it: `workflow`, `policy` or empty.
    #[serde(skip_serializing_if = "zero")]
    pub creator: String,
    /// Part of the object; never filled by the controller.
    #[serde(skip_serializing_if = "zero")]
    pub field_path: String,
    /// Kind, as in manifests.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name of the object.
    #[serde(skip_serializing_if = "zero")]
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "zero")]
    pub namespace: String,
    /// resourceVersion of the object; never filled by the controller.
    #[serde(skip_serializing_if = "zero")]
    pub resource_version: String,
    /// uid of the object; never filled by the controller.
    #[serde(skip_serializing_if = "zero")]
    pub uid: String,
}

/// A group, version and kind.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Crd, GoHash,
)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "WorkloadGVK")]
pub struct WorkloadGvk {
    /// Group and version; written even when empty.
    #[api(required, go = "APIVersion")]
    pub api_version: String,
    /// Kind; written even when empty.
    #[api(required)]
    pub kind: String,
}

/// A revision as a status names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct Revision {
    /// Name of the revision object.
    #[api(required)]
    pub name: String,
    /// Its number.
    #[api(required)]
    pub revision: i64,
    /// Hash of the spec and the definitions of the revision, in hexadecimal.
    #[serde(skip_serializing_if = "zero")]
    pub revision_hash: String,
}
