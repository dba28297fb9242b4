//! What the caches must know of our own kinds.

use k8s_openapi::api::core::v1::Namespace;
use vela_api::{
    Application, ApplicationRevision, ComponentDefinition, DefinitionRevision, ObjectMeta, Package,
    Policy, PolicyDefinition, ResourceTracker, TraitDefinition, Workflow, WorkflowRun,
    WorkflowStepDefinition, WorkloadDefinition, names,
};

use crate::store::{Key, Stored};

fn label<'m>(metadata: &'m ObjectMeta, key: &str) -> &'m str {
    metadata.labels.as_ref().and_then(|map| map.get(key)).map_or("", String::as_str)
}

fn key(metadata: &ObjectMeta) -> Key {
    Key::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

macro_rules! stored {
    ($($kind:ty: $index:expr;)*) => {
        $(impl Stored for $kind {
            fn key(&self) -> Key {
                key(&self.metadata)
            }
            fn version(&self) -> &str {
                self.metadata.resource_version.as_deref().unwrap_or_default()
            }
            fn index(&self) -> Option<Key> {
                let index: fn(&ObjectMeta) -> Option<Key> = $index;
                index(&self.metadata)
            }
        })*
    };
}

/// By the Application that owns it, a namespaced object.
fn by_app(metadata: &ObjectMeta) -> Option<Key> {
    let name = label(metadata, names::label::APP_NAME);
    (!name.is_empty()).then(|| Key::new(metadata.namespace.as_deref().unwrap_or_default(), name))
}

/// By the Application that owns it, a cluster-scoped object.
fn by_app_labels(metadata: &ObjectMeta) -> Option<Key> {
    let name = label(metadata, names::label::APP_NAME);
    let namespace = label(metadata, names::label::APP_NAMESPACE);
    (!name.is_empty()).then(|| Key::new(namespace, name))
}

/// By its namespace.
fn by_namespace(metadata: &ObjectMeta) -> Option<Key> {
    Some(in_namespace(metadata.namespace.as_deref().unwrap_or_default()))
}

/// The index value of kinds that are listed by namespace.
#[must_use]
pub fn in_namespace(namespace: &str) -> Key {
    Key::new(namespace, "")
}

/// By the definition a revision is of.
fn by_definition(metadata: &ObjectMeta) -> Option<Key> {
    let name = [
        names::label::COMPONENT_DEFINITION_NAME,
        names::label::TRAIT_DEFINITION_NAME,
        names::label::POLICY_DEFINITION_NAME,
        names::label::WORKFLOW_STEP_DEFINITION_NAME,
    ]
    .into_iter()
    .map(|key| label(metadata, key))
    .find(|name| !name.is_empty())?;
    Some(Key::new(metadata.namespace.as_deref().unwrap_or_default(), name))
}

stored! {
    Namespace: |_| None;
    Application: by_namespace;
    ApplicationRevision: by_app;
    ResourceTracker: by_app_labels;
    ComponentDefinition: |_| None;
    TraitDefinition: |_| None;
    PolicyDefinition: |_| None;
    WorkflowStepDefinition: |_| None;
    WorkloadDefinition: |_| None;
    DefinitionRevision: by_definition;
    Policy: by_namespace;
    Workflow: by_namespace;
    WorkflowRun: |_| None;
    Package: |_| None;
}
