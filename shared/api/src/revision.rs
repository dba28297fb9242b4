//! ApplicationRevision and DefinitionRevision: what was deployed, kept as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::compression::Compression;
use crate::crd::schema;
use crate::names::definition_type;
use crate::omit::zero;
use crate::workflow::WorkflowStatus;
use crate::{
    Application, ComponentDefinition, GROUP, ObjectMeta, Policy, PolicyDefinition, RawExtension,
    TraitDefinition, Workflow, WorkflowStepDefinition, WorkloadDefinition,
};

/// An Application with everything it was rendered from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationRevision {
    /// `core.oam.dev/v1beta1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `ApplicationRevision`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// The snapshot.
    pub spec: ApplicationRevisionSpec,
    /// How its workflow ended.
    pub status: ApplicationRevisionStatus,
}

kind!(ApplicationRevision, GROUP, "v1beta1", "applicationrevisions", NamespaceResourceScope);

/// The snapshot. Maps are keyed by the names of the definitions, which many revisions share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationRevisionSpec {
    /// The Application without status.
    #[api(required)]
    pub application: Application,
    /// Component definitions used.
    #[serde(skip_serializing_if = "zero")]
    pub component_definitions: BTreeMap<String, Arc<ComponentDefinition>>,
    /// Workload definitions used.
    #[serde(skip_serializing_if = "zero")]
    pub workload_definitions: BTreeMap<String, Arc<WorkloadDefinition>>,
    /// Trait definitions used.
    #[serde(skip_serializing_if = "zero")]
    pub trait_definitions: BTreeMap<String, Arc<TraitDefinition>>,
    /// Policy definitions used.
    #[serde(skip_serializing_if = "zero")]
    pub policy_definitions: BTreeMap<String, Arc<PolicyDefinition>>,
    /// Workflow step definitions used.
    #[serde(skip_serializing_if = "zero")]
    pub workflow_step_definitions: BTreeMap<String, Arc<WorkflowStepDefinition>>,
    /// External policies used.
    #[serde(skip_serializing_if = "zero")]
    pub policies: BTreeMap<String, Policy>,
    /// The external workflow used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
    /// Objects that `ref-objects` components refer to.
    #[serde(skip_serializing_if = "zero")]
    #[api(schema = schema::list(schema::anything().embedded_resource()).preserve())]
    pub referred_objects: Vec<RawExtension>,
    /// Revisions of application-scoped policies used.
    #[serde(skip_serializing_if = "zero")]
    pub policy_versions: BTreeMap<String, PolicyVersion>,
    /// How it is stored; always written.
    pub compression: Compression,
}

/// Revision of an application-scoped policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyVersion {
    /// The DefinitionRevision that the policy ran with.
    #[serde(skip_serializing_if = "zero")]
    pub definition_revision_name: String,
    /// Its number.
    #[serde(skip_serializing_if = "zero")]
    pub revision: i64,
    /// Hash of that revision, as its status has it.
    #[serde(skip_serializing_if = "zero")]
    pub revision_hash: String,
}

/// How the workflow of a revision ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationRevisionStatus {
    /// Its workflow ended, and no step failed.
    #[api(required)]
    pub succeeded: bool,
    /// State of the workflow when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowStatus>,
    /// Content of the context ConfigMap when it ended.
    #[serde(skip_serializing_if = "zero")]
    pub workflow_context: BTreeMap<String, String>,
}

/// A definition as it was. The three kinds it is not are stored as empty shells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionRevision {
    /// `core.oam.dev/v1beta1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `DefinitionRevision`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// The snapshot.
    pub spec: DefinitionRevisionSpec,
}

kind!(DefinitionRevision, GROUP, "v1beta1", "definitionrevisions", NamespaceResourceScope);

/// The snapshot of a definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionRevisionSpec {
    /// Its number.
    #[api(required)]
    pub revision: i64,
    /// Hash of the definition's spec.
    #[api(required)]
    pub revision_hash: String,
    /// `Component`, `Trait`, `Policy` or `WorkflowStep`.
    #[api(required, schema = schema::string().one_of(&definition_type::ALL))]
    pub definition_type: String,
    /// The definition, or a shell.
    pub component_definition: ComponentDefinition,
    /// The definition, or a shell.
    pub trait_definition: TraitDefinition,
    /// The definition, or a shell.
    pub policy_definition: PolicyDefinition,
    /// The definition, or a shell.
    pub workflow_step_definition: WorkflowStepDefinition,
}
