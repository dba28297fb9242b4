//! The definition kinds: ComponentDefinition, TraitDefinition, PolicyDefinition,
//! WorkflowStepDefinition and the legacy WorkloadDefinition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vela_api_derive::{Crd, GoHash};

use crate::crd::{Described as _, schema};
use crate::omit::zero;
use crate::reference::{Revision, WorkloadGvk};
use crate::{Condition, GROUP, ObjectMeta, RawExtension};

/// Declares a definition kind around its spec.
macro_rules! definition {
    ($(#[$doc:meta])* $name:ident, $spec:ident, $plural:literal, $status:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// `core.oam.dev/v1beta1`; empty in the unused shells of a DefinitionRevision.
            #[serde(skip_serializing_if = "zero")]
            pub api_version: String,
            /// The kind; empty in shells.
            #[serde(skip_serializing_if = "zero")]
            pub kind: String,
            /// Name, labels and so on.
            #[serde(deserialize_with = "crate::metadata::read")]
            pub metadata: ObjectMeta,
            /// The definition.
            pub spec: $spec,
            /// What the controller found.
            #[api(schema = $status)]
            pub status: DefinitionStatus,
        }

        kind!($name, GROUP, "v1beta1", $plural, NamespaceResourceScope);
    };
}

definition!(
    /// How a component type becomes a workload.
    ComponentDefinition, ComponentDefinitionSpec, "componentdefinitions", DefinitionStatus::schema()
);
definition!(
    /// How a trait type changes or accompanies a workload.
    TraitDefinition, TraitDefinitionSpec, "traitdefinitions", DefinitionStatus::schema()
);
definition!(
    /// How a policy type becomes objects, or changes Applications.
    PolicyDefinition, PolicyDefinitionSpec, "policydefinitions", DefinitionStatus::schema()
);
definition!(
    /// What a workflow step type does.
    WorkflowStepDefinition, WorkflowStepDefinitionSpec, "workflowstepdefinitions", DefinitionStatus::schema()
);
definition!(
    /// Legacy: a component type named after a CustomResourceDefinition.
    WorkloadDefinition, WorkloadDefinitionSpec, "workloaddefinitions",
    DefinitionStatus::schema_without(&["configMapRef", "latestRevision"])
);

/// What a component of this type is: its template, and how its objects are recognised and judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentDefinitionSpec {
    /// Semantic version.
    #[serde(skip_serializing_if = "zero")]
    pub version: String,
    /// The kind of the workload.
    #[api(required)]
    pub workload: WorkloadTypeDescriptor,
    /// Kinds the workload makes.
    #[serde(skip_serializing_if = "zero")]
    pub child_resource_kinds: Vec<ChildResourceKind>,
    /// Label with the revision of the component. Stored for older clients; nothing here reads it.
    #[serde(skip_serializing_if = "zero")]
    pub revision_label: String,
    /// Path of the Pod spec in the workload.
    #[serde(skip_serializing_if = "zero")]
    pub pod_spec_path: String,
    /// Health and status templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusTemplates>,
    /// The template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<Schematic>,
    /// Anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<RawExtension>,
}

/// The kind of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadTypeDescriptor {
    /// Name of a WorkloadDefinition, or `autodetects.core.oam.dev`.
    #[serde(rename = "type", skip_serializing_if = "zero")]
    pub type_: String,
    /// The kind itself; always written.
    pub definition: WorkloadGvk,
}

/// A kind the workload makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildResourceKind {
    /// Group and version.
    #[api(required, go = "APIVersion")]
    pub api_version: String,
    /// Kind, as in manifests (`Pod`).
    #[api(required)]
    pub kind: String,
    /// Labels to find them by.
    #[serde(skip_serializing_if = "zero")]
    pub selector: BTreeMap<String, String>,
}

/// CUE templates for health and status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "Status")]
pub struct StatusTemplates {
    /// CUE that yields `message`.
    #[serde(skip_serializing_if = "zero")]
    pub custom_status: String,
    /// CUE that yields `isHealth`.
    #[serde(skip_serializing_if = "zero")]
    pub health_policy: String,
    /// CUE that yields the map of details.
    #[serde(skip_serializing_if = "zero")]
    pub details: String,
}

/// The template of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct Schematic {
    /// Removed from the reference; WorkloadDefinitions may still carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(hidden)]
    pub kube: Option<RawExtension>,
    /// A CUE template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(go = "CUE")]
    pub cue: Option<Cue>,
    /// Removed from the reference; WorkloadDefinitions may still carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(hidden)]
    pub helm: Option<RawExtension>,
    /// A Terraform configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terraform: Option<Terraform>,
}

/// A CUE template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "CUE")]
pub struct Cue {
    /// CUE text.
    #[api(required)]
    pub template: String,
}

/// A Terraform configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct Terraform {
    /// HCL or JSON text, or a Git address.
    #[api(required)]
    pub configuration: String,
    /// `hcl`, `json` or `remote`.
    #[serde(rename = "type", skip_serializing_if = "zero")]
    #[api(schema = schema::string().one_of(&["hcl", "json", "remote"]).default("hcl"))]
    pub type_: String,
    /// Folder in the repository.
    #[serde(skip_serializing_if = "zero")]
    pub path: String,
    /// Secret for the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(go = "WriteConnectionSecretToReference")]
    pub write_connection_secret_to_ref: Option<TerraformSecretReference>,
    /// The Provider object that the Configuration names if its properties name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(go = "ProviderReference")]
    pub provider_ref: Option<TerraformProviderReference>,
    /// Destroy on deletion; by default it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(schema = schema::boolean().default(true), hash = crate::hash::GoHash::go_hash(&self.delete_resource.unwrap_or_default()))]
    pub delete_resource: Option<bool>,
    /// Region of the cloud that the Configuration names if its properties name none.
    #[serde(rename = "customRegion", skip_serializing_if = "zero")]
    #[api(go = "Region")]
    pub custom_region: String,
    /// Secret with the credentials of a private Git repository, if the properties name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_credentials_secret_reference: Option<SecretReference>,
}

/// A name in a namespace; the name is always written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "SecretReference")]
pub struct TerraformSecretReference {
    /// Name of the Secret.
    #[api(required)]
    pub name: String,
    /// Namespace of the Secret.
    #[serde(skip_serializing_if = "zero")]
    pub namespace: String,
}

/// A Terraform provider in a namespace; the name is always written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "Reference")]
pub struct TerraformProviderReference {
    /// Name of the Provider.
    #[api(required)]
    pub name: String,
    /// Namespace of the Provider.
    #[serde(skip_serializing_if = "zero")]
    #[api(schema = schema::string().default("default"))]
    pub namespace: String,
}

/// A Secret in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(atomic)]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "zero")]
    pub name: String,
    /// Namespace of the Secret.
    #[serde(skip_serializing_if = "zero")]
    pub namespace: String,
}

/// A reference to a CustomResourceDefinition; written even when empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionReference {
    /// Name of the CustomResourceDefinition.
    #[api(required)]
    pub name: String,
    /// Version in which the kind is read; empty if the definition does not care.
    #[serde(skip_serializing_if = "zero")]
    pub version: String,
}

/// What a trait of this type adds or changes, and on which workloads it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct TraitDefinitionSpec {
    /// The kind the trait makes, if one.
    #[api(go = "Reference")]
    pub definition_ref: DefinitionReference,
    /// The trait knows revisions.
    #[serde(skip_serializing_if = "zero")]
    pub revision_enabled: bool,
    /// Path for a reference to the workload.
    #[serde(skip_serializing_if = "zero")]
    pub workload_ref_path: String,
    /// Changing it restarts Pods.
    #[serde(skip_serializing_if = "zero")]
    pub pod_disruptive: bool,
    /// Workloads it fits.
    #[serde(skip_serializing_if = "zero")]
    pub applies_to_workloads: Vec<String>,
    /// Traits it excludes.
    #[serde(skip_serializing_if = "zero")]
    pub conflicts_with: Vec<String>,
    /// The template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<Schematic>,
    /// Health and status templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusTemplates>,
    /// Anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<RawExtension>,
    /// The trait makes the workload itself.
    #[serde(skip_serializing_if = "zero")]
    pub manage_workload: bool,
    /// Its objects go to the control plane's cluster.
    #[serde(skip_serializing_if = "zero")]
    pub control_plane_only: bool,
    /// `PreDispatch`, `DefaultDispatch` or `PostDispatch`.
    #[serde(skip_serializing_if = "zero")]
    pub stage: String,
    /// Semantic version.
    #[serde(skip_serializing_if = "zero")]
    pub version: String,
}

/// What a policy of this type renders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyDefinitionSpec {
    /// The kind the policy makes, if one.
    #[api(go = "Reference")]
    pub definition_ref: DefinitionReference,
    /// The template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<Schematic>,
    /// The policy decides about health.
    #[serde(skip_serializing_if = "zero")]
    pub manage_health_check: bool,
    /// Semantic version.
    #[serde(skip_serializing_if = "zero")]
    pub version: String,
    /// Empty, or `Application`: changes Applications before they are parsed.
    #[serde(skip_serializing_if = "zero")]
    pub scope: String,
    /// Runs for every Application.
    #[serde(skip_serializing_if = "zero")]
    pub global: bool,
    /// Order among global ones.
    #[serde(skip_serializing_if = "zero")]
    pub priority: i32,
}

/// What a step of this type does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowStepDefinitionSpec {
    /// Unused; written even when empty.
    #[api(go = "Reference")]
    pub definition_ref: DefinitionReference,
    /// The template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<Schematic>,
    /// Semantic version.
    #[serde(skip_serializing_if = "zero")]
    pub version: String,
}

/// Which kind a type of workload is: for definitions that name the type and not the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadDefinitionSpec {
    /// The CustomResourceDefinition of the workload.
    #[api(required, go = "Reference")]
    pub definition_ref: DefinitionReference,
    /// Kinds the workload makes.
    #[serde(skip_serializing_if = "zero")]
    pub child_resource_kinds: Vec<ChildResourceKind>,
    /// Label with the revision of the component. Stored for older clients; nothing here reads it.
    #[serde(skip_serializing_if = "zero")]
    pub revision_label: String,
    /// Path of the Pod spec in the workload.
    #[serde(skip_serializing_if = "zero")]
    pub pod_spec_path: String,
    /// Health and status templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusTemplates>,
    /// The template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<Schematic>,
    /// Anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<RawExtension>,
}

/// The controller's results for a definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionStatus {
    /// One condition per type.
    #[serde(skip_serializing_if = "zero")]
    pub conditions: Vec<Condition>,
    /// ConfigMap with the schema of the parameters.
    #[serde(skip_serializing_if = "zero")]
    pub config_map_ref: String,
    /// The current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<Revision>,
}
