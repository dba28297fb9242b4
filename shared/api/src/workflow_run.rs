//! A workflow on its own, without an Application (v1alpha1), as the separate project `kubevela/workflow` defines it.

use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::crd::schema;
use crate::omit::zero;
use crate::workflow::{WorkflowExecuteMode, WorkflowStep, WorkflowStepStatus};
use crate::{Condition, GROUP, ObjectMeta, ObjectReference, RawExtension, Time};

/// A run of a workflow that belongs to no Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowRun {
    /// `core.oam.dev/v1alpha1`.
    #[serde(skip_serializing_if = "zero")]
    pub api_version: String,
    /// `WorkflowRun`.
    #[serde(skip_serializing_if = "zero")]
    pub kind: String,
    /// Name, labels and so on.
    #[serde(deserialize_with = "crate::metadata::read")]
    pub metadata: ObjectMeta,
    /// What runs.
    pub spec: WorkflowRunSpec,
    /// How far it is.
    pub status: WorkflowRunStatus,
}

kind!(WorkflowRun, GROUP, "v1alpha1", "workflowruns", NamespaceResourceScope);

/// What a WorkflowRun runs: steps of its own, or those of a Workflow of its namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowRunSpec {
    /// How steps and sub-steps run; counts before the mode of the Workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<WorkflowExecuteMode>,
    /// Values that templates see in `context`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<RawExtension>,
    /// Steps of its own; they count before `workflowRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_spec: Option<WorkflowSpec>,
    /// Name of a Workflow in the same namespace.
    #[serde(skip_serializing_if = "zero")]
    pub workflow_ref: String,
}

/// Steps of a WorkflowRun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowSpec {
    /// In the order of the mode; a step-group has further steps in `subSteps`.
    #[serde(skip_serializing_if = "zero")]
    pub steps: Vec<WorkflowStep>,
}

/// State of a WorkflowRun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowRunStatus {
    /// Of type `WorkflowRun`: whether it succeeded, and why not.
    #[serde(skip_serializing_if = "zero")]
    pub conditions: Vec<Condition>,
    /// How steps and sub-steps run, as the run began.
    #[api(required)]
    pub mode: WorkflowExecuteMode,
    /// Phase of the run.
    #[serde(rename = "status", skip_serializing_if = "zero")]
    pub phase: String,
    /// Why it is in that phase.
    #[serde(skip_serializing_if = "zero")]
    pub message: String,
    /// Suspended.
    #[api(required)]
    pub suspend: bool,
    /// Path of the suspended step.
    #[serde(skip_serializing_if = "zero")]
    pub suspend_state: String,
    /// The run is over and did not succeed: a user or a step ended it, or a step failed.
    #[api(required)]
    pub terminated: bool,
    /// Finished, for whatever reason.
    #[api(required)]
    pub finished: bool,
    /// The ConfigMap with the values of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_backend: Option<ObjectReference>,
    /// State of the steps that were reached.
    #[serde(skip_serializing_if = "zero")]
    pub steps: Vec<WorkflowStepStatus>,
    /// When the run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(schema = schema::date_time().nullable())]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[api(schema = schema::date_time().nullable())]
    pub end_time: Option<Time>,
}
