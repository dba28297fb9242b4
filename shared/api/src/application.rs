//! Application v1beta1: the spec. (Status: [`crate::status`].)

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vela_api_derive::{Crd, GoHash};

use crate::crd::schema;
use crate::omit::{null_as_default, zero};
use crate::workflow::{InputItem, OutputItem, WorkflowExecuteMode, WorkflowStep};
use crate::{AppStatus, GROUP, ObjectMeta, RawExtension};

/// A deployable application: components with traits, policies, and a workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct Application {
    /// `core.oam.dev/v1beta1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `Application`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// What the Application shall consist of.
    pub spec: ApplicationSpec,
    /// What the controller found.
    pub status: AppStatus,
}

kind!(Application, GROUP, "v1beta1", "applications", NamespaceResourceScope);

/// What an Application shall consist of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSpec {
    /// What is deployed.
    #[serde(deserialize_with = "null_as_default")]
    #[api(required)]
    pub components: Vec<ApplicationComponent>,
    /// Policies for the whole Application.
    #[serde(skip_serializing_if = "zero")]
    pub policies: Vec<AppPolicy>,
    /// How to deploy; without it, one step per component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<AppWorkflow>,
}

/// One component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationComponent {
    /// Unique name within the Application.
    #[api(required)]
    pub name: String,
    /// Name of a ComponentDefinition, optionally `@version`.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// Names a revision made elsewhere.
    #[serde(skip_serializing_if = "zero")]
    pub external_revision: String,
    /// Parameters of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<RawExtension>,
    /// Components that must be healthy first.
    #[serde(skip_serializing_if = "zero")]
    pub depends_on: Vec<String>,
    /// Values from other components' outputs.
    #[serde(skip_serializing_if = "zero")]
    pub inputs: Vec<InputItem>,
    /// Values for other components.
    #[serde(skip_serializing_if = "zero")]
    pub outputs: Vec<OutputItem>,
    /// Traits, in order.
    #[serde(skip_serializing_if = "zero")]
    pub traits: Vec<ApplicationTrait>,
    /// Legacy; stored, never read.
    #[serde(skip_serializing_if = "zero")]
    #[api(schema = schema::map(schema::string()).preserve())]
    pub scopes: BTreeMap<String, String>,
    /// Which copy this is under a replication policy; never stored.
    #[serde(skip)]
    pub replica_key: String,
}

/// One trait of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationTrait {
    /// Name of a TraitDefinition, optionally `@version`.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// Parameters of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<RawExtension>,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
pub struct AppPolicy {
    /// Unique name within the Application; may be generated.
    #[serde(skip_serializing_if = "zero")]
    pub name: String,
    /// A built-in policy type or the name of a PolicyDefinition.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// Parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<RawExtension>,
}

/// The workflow of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd, GoHash)]
#[serde(rename_all = "camelCase", default)]
#[api(go = "Workflow")]
pub struct AppWorkflow {
    /// Name of a Workflow object in the Application's namespace.
    #[serde(rename = "ref", skip_serializing_if = "zero")]
    #[api(go = "Ref")]
    pub reference: String,
    /// How steps and sub-steps run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<WorkflowExecuteMode>,
    /// In the order of `mode`; a step-group has further steps in `subSteps`.
    #[serde(skip_serializing_if = "zero")]
    pub steps: Vec<WorkflowStep>,
}
