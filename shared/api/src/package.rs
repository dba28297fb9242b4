//! Package v1alpha1 of `cue.oam.dev`: CUE templates and the endpoint that answers their calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::ObjectMeta;
use crate::omit::zero;

/// A CUE package that definitions can import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct Package {
    /// `cue.oam.dev/v1alpha1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `Package`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// Path, provider and templates.
    #[api(required)]
    pub spec: PackageSpec,
}

kind!(Package, "cue.oam.dev", "v1alpha1", "packages", NamespaceResourceScope);

/// Path, provider and templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageSpec {
    /// Import path.
    #[api(required)]
    pub path: String,
    /// Who answers calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<PackageProvider>,
    /// File name to CUE text.
    #[serde(deserialize_with = "crate::omit::null_as_default")]
    #[api(required)]
    pub templates: BTreeMap<String, String>,
}

/// Who answers calls of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageProvider {
    /// `http`, `https` or `grpc`.
    #[api(required)]
    pub protocol: String,
    /// Address.
    #[api(required)]
    pub endpoint: String,
}
