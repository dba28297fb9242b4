//! The kinds of definitions, and what is named after them.

use crate::names::{definition_type, label};
use crate::{
    ComponentDefinition, PolicyDefinition, TraitDefinition, WorkflowStepDefinition,
    WorkloadDefinition,
};

/// The kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefinitionKind {
    /// ComponentDefinition.
    Component,
    /// TraitDefinition.
    Trait,
    /// PolicyDefinition.
    Policy,
    /// WorkflowStepDefinition.
    WorkflowStep,
    /// WorkloadDefinition, legacy: it has neither a template that is used nor revisions.
    Workload,
}

impl DefinitionKind {
    /// Those that Applications name, and that have revisions.
    pub const WITH_REVISIONS: [Self; 4] =
        [Self::Component, Self::Trait, Self::Policy, Self::WorkflowStep];

    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Component, Self::Trait, Self::Policy, Self::WorkflowStep, Self::Workload];

    /// The Kubernetes kind.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Component => ComponentDefinition::KIND,
            Self::Trait => TraitDefinition::KIND,
            Self::Policy => PolicyDefinition::KIND,
            Self::WorkflowStep => WorkflowStepDefinition::KIND,
            Self::Workload => WorkloadDefinition::KIND,
        }
    }

    /// The plural resource name.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Component => ComponentDefinition::PLURAL,
            Self::Trait => TraitDefinition::PLURAL,
            Self::Policy => PolicyDefinition::PLURAL,
            Self::WorkflowStep => WorkflowStepDefinition::PLURAL,
            Self::Workload => WorkloadDefinition::PLURAL,
        }
    }

    /// The word used in `.cue` definition files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Component => "component",
            Self::Trait => "trait",
            Self::Policy => "policy",
            Self::WorkflowStep => "workflow-step",
            Self::Workload => "workload",
        }
    }

    /// The word in sentences.
    #[must_use]
    pub const fn spoken(self) -> &'static str {
        match self {
            Self::WorkflowStep => "workflow step",
            other => other.word(),
        }
    }

    /// The prefix of the ConfigMap that stores the parameter schema.
    #[must_use]
    pub const fn schema_prefix(self) -> &'static str {
        match self {
            Self::WorkflowStep => "workflowstep",
            other => other.word(),
        }
    }

    /// `definitionType` of its DefinitionRevisions; empty if it has none.
    #[must_use]
    pub const fn revision_type(self) -> &'static str {
        match self {
            Self::Component => definition_type::COMPONENT,
            Self::Trait => definition_type::TRAIT,
            Self::Policy => definition_type::POLICY,
            Self::WorkflowStep => definition_type::WORKFLOW_STEP,
            Self::Workload => "",
        }
    }

    /// The label with the definition's name on its DefinitionRevisions; empty if it has none.
    #[must_use]
    pub const fn revision_label(self) -> &'static str {
        match self {
            Self::Component => label::COMPONENT_DEFINITION_NAME,
            Self::Trait => label::TRAIT_DEFINITION_NAME,
            Self::Policy => label::POLICY_DEFINITION_NAME,
            Self::WorkflowStep => label::WORKFLOW_STEP_DEFINITION_NAME,
            Self::Workload => "",
        }
    }

    /// The field of the definition in the spec of a DefinitionRevision; empty if it has none.
    #[must_use]
    pub const fn revision_field(self) -> &'static str {
        match self {
            Self::Component => "componentDefinition",
            Self::Trait => "traitDefinition",
            Self::Policy => "policyDefinition",
            Self::WorkflowStep => "workflowStepDefinition",
            Self::Workload => "",
        }
    }

    /// The kind with this Kubernetes kind or this word.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.kind() == name || kind.word() == name)
    }
}
