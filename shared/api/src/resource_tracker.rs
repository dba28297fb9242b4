//! ResourceTracker: what an Application dispatched, and so what may be deleted. Cluster scoped.

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::compression::Compression;
use crate::omit::zero;
use crate::{GROUP, ObjectMeta, RawExtension};

/// The record of one generation of an Application, or of what lives as long as the Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceTracker {
    /// `core.oam.dev/v1beta1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `ResourceTracker`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// The record.
    pub spec: ResourceTrackerSpec,
}

kind!(ResourceTracker, GROUP, "v1beta1", "resourcetrackers", ClusterResourceScope);

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceTrackerSpec {
    /// `root`, `versioned` or `component-revision`.
    ///
    /// See [`crate::names::tracker`].
    #[serde(rename = "type", skip_serializing_if = "zero")]
    pub type_: String,
    /// The Application's generation; 0 when it belongs to none.
    #[api(required)]
    pub application_generation: i64,
    /// The objects.
    #[serde(skip_serializing_if = "zero")]
    pub managed_resources: Vec<ManagedResource>,
    /// How it is stored; always written.
    pub compression: Compression,
}

/// One recorded object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
#[api(atomic)]
pub struct ManagedResource {
    /// Group and version.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// Cluster; empty for the local one.
    #[serde(skip_serializing_if = "zero")]
    pub cluster: String,
    /// Component it belongs to.
    #[serde(skip_serializing_if = "zero")]
    pub component: String,
    /// Who made it.
    #[serde(skip_serializing_if = "zero")]
    pub creator: String,
    /// Removed by the workflow; keep removing it.
    #[serde(skip_serializing_if = "zero")]
    pub deleted: bool,
    /// Never filled.
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
    /// The whole manifest; absent when only metadata is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawExtension>,
    /// Never filled.
    #[serde(skip_serializing_if = "zero")]
    pub resource_version: String,
    /// Never delete it.
    #[serde(rename = "skipGC", skip_serializing_if = "zero")]
    pub skip_gc: bool,
    /// Trait it belongs to.
    #[serde(rename = "trait", skip_serializing_if = "zero")]
    pub trait_: String,
    /// Never filled.
    #[serde(skip_serializing_if = "zero")]
    pub uid: String,
}
