//! The kinds of `core.oam.dev` and the names that belong to them.
//!
//! The types write and omit exactly what the reference's Go structs write and omit, because specs
//! are stored, compared and hashed: an optional scalar is its zero value when absent and absent
//! when zero, embedded structs are always written, free-form properties stay JSON.
//!
//! - kinds: [`Application`], [`ApplicationRevision`], [`ComponentDefinition`], ...
//! - [`names`]: every label, annotation, finalizer and the like;
//! - [`crd`]: the CustomResourceDefinitions;
//! - [`hash`]: revision hashes; [`compression`]: how big specs are stored.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
mod kind;

pub mod application;
pub mod builtin;
pub mod cluster;
pub mod compression;
pub mod condition;
pub mod crd;
pub mod definition;
mod definition_kind;
mod drift;

pub mod hash;
mod keys;
mod metadata;
pub mod mistyped;
pub mod names;
mod on_failure;
pub mod package;
pub mod policy;
mod prune;
pub mod raw;
pub mod reference;
pub mod resource_tracker;
pub mod revision;
pub mod status;
mod subdomain;
pub mod workflow;
pub mod workflow_run;

pub use application::{
    AppPolicy, Application, ApplicationComponent, ApplicationSpec, ApplicationTrait,
};
pub use condition::Condition;
pub use definition::{
    ComponentDefinition, PolicyDefinition, TraitDefinition, WorkflowStepDefinition,
    WorkloadDefinition,
};
pub use definition_kind::DefinitionKind;
pub use drift::Drift;
pub use keys::KeyPatterns;
pub use metadata::annotation_of;
pub use on_failure::OnFailure;
pub use package::Package;
pub use policy::Policy;
pub use prune::{PruneError, PruneRules};
pub use raw::RawExtension;
pub use reference::{ClusterObjectReference, ObjectReference};
pub use resource_tracker::{ManagedResource, ResourceTracker};
pub use revision::{ApplicationRevision, DefinitionRevision};
pub use status::AppStatus;
pub use subdomain::is_subdomain;
pub use workflow::{Workflow, WorkflowStep};
pub use workflow_run::{WorkflowRun, WorkflowRunSpec, WorkflowRunStatus};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

/// The API group of everything here except [`Package`].
pub const GROUP: &str = "core.oam.dev";
/// `core.oam.dev/v1beta1`.
pub const V1BETA1: &str = "core.oam.dev/v1beta1";
/// `core.oam.dev/v1alpha1`.
pub const V1ALPHA1: &str = "core.oam.dev/v1alpha1";

/// The version of KubeVela whose behaviour and clients this control plane is compatible with: what Applications are stamped
/// with, and what their `controller-version-require` is compared with.
pub const KUBEVELA_VERSION: &str = "v1.11.0";

/// Serde helpers that follow Go's `omitempty`.
pub(crate) mod omit {
    use serde::{Deserialize, Deserializer};

    /// Whether a value is Go's zero value and therefore omitted.
    pub(crate) fn zero<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }

    /// Reads `null` as the zero value: Go writes nil slices of required fields that way.
    pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: Default + Deserialize<'de>,
    {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}
