//! Policy v1alpha1: a policy outside of an Application. It has no spec.

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::omit::zero;
use crate::{GROUP, ObjectMeta, RawExtension};

/// A policy that workflow steps of several Applications can refer to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// `core.oam.dev/v1alpha1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `Policy`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// A built-in policy type or the name of a PolicyDefinition.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// Parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<RawExtension>,
}

kind!(Policy, GROUP, "v1alpha1", "policies", NamespaceResourceScope);
