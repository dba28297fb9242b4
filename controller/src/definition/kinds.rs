//! The differences between the definition kinds.

use serde::de::DeserializeOwned;
use vela_api::definition::DefinitionStatus;
use vela_api::hash::GoHash;
use vela_api::reference::WorkloadGvk;
use vela_api::revision::DefinitionRevisionSpec;
use vela_api::{
    ComponentDefinition, ObjectMeta, PolicyDefinition, TraitDefinition, WorkflowStepDefinition,
};

use crate::definitions::Lookup;
use crate::registry;

/// A definition kind that has revisions.
pub trait Kind: Lookup + DeserializeOwned {
    /// Its controller.
    const CONTROLLER: &'static str;
    /// Its Kubernetes kind; also the source component of its events.
    const KIND_NAME: &'static str = Self::KIND.kind();

    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its status.
    fn status(&self) -> &DefinitionStatus;
    /// Hash of its spec.
    fn spec_hash(&self) -> String;
    /// Whether two of them have the same spec.
    fn has_same_spec(&self, other: &Self) -> bool;
    /// `spec.version`.
    fn explicit_version(&self) -> &str;
    /// `appliesToWorkloads` of traits.
    fn applied_workloads(&self) -> &[String] {
        &[]
    }
    /// The kind a component's workload has, if the definition names it.
    fn workload(&self) -> Option<&WorkloadGvk> {
        None
    }
    /// Puts a copy into a revision.
    fn embed(&self, spec: &mut DefinitionRevisionSpec);
}

macro_rules! kind {
    (
        $ty:ident, $controller:ident, $field:ident $(, $($more:item)+)?
    ) => {
        impl Kind for $ty {
            const CONTROLLER: &'static str = registry::$controller;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn status(&self) -> &DefinitionStatus {
                &self.status
            }
            fn spec_hash(&self) -> String {
                self.spec.hash_text()
            }
            fn has_same_spec(&self, other: &Self) -> bool {
                self.spec == other.spec
            }
            fn explicit_version(&self) -> &str {
                &self.spec.version
            }
            $($($more)+)?
            fn embed(&self, spec: &mut DefinitionRevisionSpec) {
                spec.$field = Self {
                    api_version: vela_api::V1BETA1.to_owned(),
                    kind: <Self as Kind>::KIND_NAME.to_owned(),
                    // Without uid and versions of the server: two revisions of the same text must
                    // be the same object.
                    metadata: ObjectMeta {
                        name: self.metadata.name.clone(),
                        namespace: self.metadata.namespace.clone(),
                        labels: self.metadata.labels.clone(),
                        annotations: self.metadata.annotations.clone(),
                        ..ObjectMeta::default()
                    },
                    spec: self.spec.clone(),
                    status: self.status.clone(),
                };
            }
        }
    };
}

kind!(
    ComponentDefinition,
    COMPONENT,
    component_definition,
    fn workload(&self) -> Option<&WorkloadGvk> {
        let kind = &self.spec.workload.definition;
        (!kind.api_version.is_empty() && !kind.kind.is_empty()).then_some(kind)
    }
);
kind!(
    TraitDefinition,
    TRAIT,
    trait_definition,
    fn applied_workloads(&self) -> &[String] {
        &self.spec.applies_to_workloads
    }
);
kind!(PolicyDefinition, POLICY, policy_definition);
kind!(WorkflowStepDefinition, WORKFLOW_STEP, workflow_step_definition);
