//! The status of an Application.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::crd::schema;
use crate::omit::zero;
use crate::reference::{ClusterObjectReference, ObjectReference, Revision, WorkloadGvk};
use crate::workflow::WorkflowStatus;
use crate::{Condition, RawExtension, Time};

/// What the controller found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct AppStatus {
    /// One condition per type, in the order of their first appearance.
    #[serde(skip_serializing_if = "zero")]
    pub conditions: Vec<Condition>,
    /// The generation this status is about.
    #[serde(skip_serializing_if = "zero")]
    pub observed_generation: i64,
    /// Phase of the Application.
    ///
    /// One of [`crate::names::phase`].
    #[serde(rename = "status", skip_serializing_if = "zero")]
    pub phase: String,
    /// Never filled.
    #[serde(skip_serializing_if = "zero")]
    pub components: Vec<ObjectReference>,
    /// Health of each component that was reached.
    #[serde(skip_serializing_if = "zero")]
    pub services: Vec<ComponentStatus>,
    /// State of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowStatus>,
    /// When the workflow starts again, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_restart_scheduled_at: Option<Time>,
    /// The current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<Revision>,
    /// What was applied.
    #[serde(skip_serializing_if = "zero")]
    pub applied_resources: Vec<ClusterObjectReference>,
    /// Application-scoped policies that ran.
    #[serde(skip_serializing_if = "zero")]
    pub applied_application_policies: Vec<AppliedApplicationPolicy>,
    /// ConfigMap with their results.
    #[serde(skip_serializing_if = "zero")]
    pub application_policies_config_map: String,
    /// Legacy: decisions of the env-binding policy.
    #[serde(rename = "policy", skip_serializing_if = "zero")]
    pub policy_status: Vec<PolicyStatus>,
}

/// Health of a component in a cluster and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentStatus {
    /// Name of the component.
    #[api(required)]
    pub name: String,
    /// Namespace it was dispatched to.
    #[serde(skip_serializing_if = "zero")]
    pub namespace: String,
    /// Cluster; empty for the local one.
    #[serde(skip_serializing_if = "zero")]
    pub cluster: String,
    /// Never filled.
    #[serde(skip_serializing_if = "zero")]
    pub env: String,
    /// Kind of the workload; always written.
    pub workload_definition: WorkloadGvk,
    /// Workload and traits are healthy.
    #[api(required)]
    pub healthy: bool,
    /// The workload alone is healthy, whatever its traits are.
    #[serde(skip_serializing_if = "zero")]
    pub workload_healthy: bool,
    /// Details of the definition's status template.
    #[serde(skip_serializing_if = "zero")]
    pub details: BTreeMap<String, String>,
    /// Message of the workload, else of a trait.
    #[serde(skip_serializing_if = "zero")]
    pub message: String,
    /// Health of the traits.
    #[serde(skip_serializing_if = "zero")]
    pub traits: Vec<TraitStatus>,
    /// Never filled.
    #[serde(skip_serializing_if = "zero")]
    pub scopes: Vec<ObjectReference>,
}

/// Health of a trait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct TraitStatus {
    /// Type of the trait.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// By the health policy of the definition; true without one.
    #[api(required)]
    pub healthy: bool,
    /// It waits for the component and does not count.
    #[serde(skip_serializing_if = "zero")]
    pub pending: bool,
    /// Details of the definition's status template.
    #[serde(skip_serializing_if = "zero")]
    pub details: BTreeMap<String, String>,
    /// Message for people.
    #[serde(skip_serializing_if = "zero")]
    pub message: String,
}

/// What an application-scoped policy did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedApplicationPolicy {
    /// Name of the policy in the spec; of a global one, name of its definition.
    #[api(required)]
    pub name: String,
    /// Namespace of its definition.
    #[api(required)]
    pub namespace: String,
    /// It was applied.
    #[api(required)]
    pub applied: bool,
    /// Type of the policy, as in the spec.
    #[serde(rename = "type", skip_serializing_if = "zero")]
    pub type_: String,
    /// It failed.
    #[serde(skip_serializing_if = "zero")]
    pub error: bool,
    /// Why.
    #[serde(skip_serializing_if = "zero")]
    pub message: String,
    /// `global` or `explicit`.
    #[serde(skip_serializing_if = "zero")]
    pub source: String,
    /// It changed the spec.
    #[serde(skip_serializing_if = "zero")]
    pub spec_modified: bool,
    /// Labels it added.
    #[serde(skip_serializing_if = "zero")]
    #[api(schema = schema::integer())]
    pub labels_count: i64,
    /// Annotations it added.
    #[serde(skip_serializing_if = "zero")]
    #[api(schema = schema::integer())]
    pub annotations_count: i64,
    /// It added context.
    #[serde(skip_serializing_if = "zero")]
    pub has_context: bool,
    /// Name of the DefinitionRevision that it ran with.
    #[serde(skip_serializing_if = "zero")]
    pub definition_revision_name: String,
    /// Number of that revision.
    #[serde(skip_serializing_if = "zero")]
    pub revision: i64,
    /// Hash of that revision, as its status has it.
    #[serde(skip_serializing_if = "zero")]
    pub revision_hash: String,
}

/// Legacy: what a policy decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// Name of the policy in the spec.
    #[api(required)]
    pub name: String,
    /// Type of the policy, as in the spec.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// Decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawExtension>,
}

/// Whether everything reported is healthy; pending traits do not count.
#[must_use]
pub fn is_healthy(services: &[ComponentStatus]) -> bool {
    services
        .iter()
        .all(|service| service.healthy && service.traits.iter().all(|t| t.pending || t.healthy))
}
