//! Hashes that name and compare revisions and rendered objects.
//!
//! The reference hashes Go structs by reflection (see [`vela_gocompat::hashstructure`]), so the
//! names and the order of fields below are those of the Go types in `apis/core.oam.dev`, not ours:
//! a hash that differs would give every Application and definition a new revision on upgrade.

use std::collections::BTreeMap;

use serde_json::Value;
use vela_gocompat::hashstructure::{
    Struct, boolean, bytes, hex, int32, json, list, map, nil, string,
};

use crate::application::{
    AppPolicy, AppWorkflow, ApplicationComponent, ApplicationSpec, ApplicationTrait,
};
use crate::definition::{
    ChildResourceKind, ComponentDefinitionSpec, DefinitionReference, PolicyDefinitionSpec,
    Schematic, StatusTemplates, Terraform, TraitDefinitionSpec, WorkflowStepDefinitionSpec,
    WorkloadDefinitionSpec,
};
use crate::raw::RawExtension;
use crate::revision::ApplicationRevisionSpec;
use crate::workflow::{InputItem, OutputItem, WorkflowExecuteMode, WorkflowStep};

/// A value with the hash of its Go counterpart.
pub trait GoHash {
    /// The hash.
    fn go_hash(&self) -> u64;

    /// The hash as it is stored: lower-case hexadecimal without leading zeros.
    fn hash_text(&self) -> String {
        hex(self.go_hash())
    }
}

/// The hash of a text, as it is stored: lower-case hexadecimal without leading zeros.
#[must_use]
pub fn text(text: &str) -> String {
    hex(string(text))
}

/// Hash of a revision: label `app.oam.dev/app-revision-hash`, `status.latestRevision.revisionHash`.
///
/// The spec must be as it is stored, before compression.
#[must_use]
pub fn application_revision(spec: &ApplicationRevisionSpec) -> String {
    fn definitions<T>(definitions: &BTreeMap<String, T>, hash: impl Fn(&T) -> String) -> u64 {
        map(definitions.iter().map(|(name, value)| (string(name), string(&hash(value)))))
    }
    let policies = spec.policies.iter().map(|(name, policy)| {
        let hash = hex(optional(policy.properties.as_ref()));
        (string(name), string(&format!("{hash}{}", policy.type_)))
    });
    let workflow =
        spec.workflow.as_ref().map_or_else(String::new, |workflow| hex(all(&workflow.steps)));
    // Elements are structs that embed a RawExtension.
    let referred = list(spec.referred_objects.iter().map(|object| {
        Struct::new("ReferredObject").field("RawExtension", object.go_hash()).finish()
    }));
    let hash = Struct::new("")
        .field("ApplicationSpecHash", string(&spec.application.spec.hash_text()))
        .field(
            "WorkloadDefinitionHash",
            definitions(&spec.workload_definitions, |d| d.spec.hash_text()),
        )
        .field(
            "ComponentDefinitionHash",
            definitions(&spec.component_definitions, |d| d.spec.hash_text()),
        )
        .field("TraitDefinitionHash", definitions(&spec.trait_definitions, |d| d.spec.hash_text()))
        .field("ScopeDefinitionHash", map([]))
        .field(
            "PolicyDefinitionHash",
            definitions(&spec.policy_definitions, |d| d.spec.hash_text()),
        )
        .field(
            "WorkflowStepDefinitionHash",
            definitions(&spec.workflow_step_definitions, |d| d.spec.hash_text()),
        )
        .field("PolicyHash", map(policies))
        .field("WorkflowHash", string(&workflow))
        .field("ReferredObjectsHash", string(&hex(referred)))
        .finish();
    hex(hash)
}

/// Label `oam.dev/render-hash` of an object that does not carry it yet.
#[must_use]
pub fn render(manifest: &Value) -> String {
    hex(Struct::new("Unstructured").field("Object", json(manifest)).finish())
}

/// Default name of a trait's object: `<component>-<trait type>-<hash of the object>`.
///
/// The object carries the labels for Application name, component, replica key, trait type and
/// trait resource at that moment, and neither a name nor the revision label.
#[must_use]
pub fn trait_name(component: &str, trait_type: &str, object: &Value) -> String {
    let middle = if trait_type.is_empty() {
        crate::names::TRAIT_NAME_MIDDLE.to_owned()
    } else {
        trait_type.to_lowercase()
    };
    format!("{component}-{middle}-{}", vela_gocompat::spew::name_hash(object))
}

fn optional<T: GoHash>(value: Option<&T>) -> u64 {
    value.map_or_else(nil, GoHash::go_hash)
}

fn all<T: GoHash>(values: &[T]) -> u64 {
    list(values.iter().map(GoHash::go_hash))
}

fn strings(values: &[String]) -> u64 {
    list(values.iter().map(|value| string(value)))
}

fn string_map(values: &BTreeMap<String, String>) -> u64 {
    map(values.iter().map(|(key, value)| (string(key), string(value))))
}

impl GoHash for RawExtension {
    fn go_hash(&self) -> u64 {
        Struct::new("RawExtension")
            .field("Raw", bytes(self.as_str().as_bytes()))
            .field("Object", nil())
            .finish()
    }
}

impl GoHash for ApplicationSpec {
    fn go_hash(&self) -> u64 {
        Struct::new("ApplicationSpec")
            .field("Components", all(&self.components))
            .field("Policies", all(&self.policies))
            .field("Workflow", optional(self.workflow.as_ref()))
            .finish()
    }
}

impl GoHash for ApplicationComponent {
    fn go_hash(&self) -> u64 {
        Struct::new("ApplicationComponent")
            .field("Name", string(&self.name))
            .field("Type", string(&self.type_))
            .field("ExternalRevision", string(&self.external_revision))
            .field("Properties", optional(self.properties.as_ref()))
            .field("DependsOn", strings(&self.depends_on))
            .field("Inputs", all(&self.inputs))
            .field("Outputs", all(&self.outputs))
            .field("Traits", all(&self.traits))
            .field("Scopes", string_map(&self.scopes))
            .field("ReplicaKey", string(&self.replica_key))
            .finish()
    }
}

impl GoHash for ApplicationTrait {
    fn go_hash(&self) -> u64 {
        Struct::new("ApplicationTrait")
            .field("Type", string(&self.type_))
            .field("Properties", optional(self.properties.as_ref()))
            .finish()
    }
}

impl GoHash for AppPolicy {
    fn go_hash(&self) -> u64 {
        Struct::new("AppPolicy")
            .field("Name", string(&self.name))
            .field("Type", string(&self.type_))
            .field("Properties", optional(self.properties.as_ref()))
            .finish()
    }
}

impl GoHash for AppWorkflow {
    fn go_hash(&self) -> u64 {
        Struct::new("Workflow")
            .field("Ref", string(&self.reference))
            .field("Mode", optional(self.mode.as_ref()))
            .field("Steps", all(&self.steps))
            .finish()
    }
}

impl GoHash for WorkflowExecuteMode {
    fn go_hash(&self) -> u64 {
        Struct::new("WorkflowExecuteMode")
            .field("Steps", string(&self.steps))
            .field("SubSteps", string(&self.sub_steps))
            .finish()
    }
}

impl GoHash for WorkflowStep {
    fn go_hash(&self) -> u64 {
        Struct::new("WorkflowStep")
            .field("WorkflowStepBase", step_base(self))
            .field("Mode", string(&self.mode))
            .field("SubSteps", list(self.sub_steps.iter().map(step_base)))
            .finish()
    }
}

fn step_base(step: &WorkflowStep) -> u64 {
    let meta = step.meta.as_ref().map_or_else(nil, |meta| {
        Struct::new("WorkflowStepMeta").field("Alias", string(&meta.alias)).finish()
    });
    Struct::new("WorkflowStepBase")
        .field("Name", string(&step.name))
        .field("Type", string(&step.type_))
        .field("Meta", meta)
        .field("If", string(&step.if_))
        .field("Timeout", string(&step.timeout))
        .field("DependsOn", strings(&step.depends_on))
        .field("Inputs", all(&step.inputs))
        .field("Outputs", all(&step.outputs))
        .field("Properties", optional(step.properties.as_ref()))
        .finish()
}

impl GoHash for InputItem {
    fn go_hash(&self) -> u64 {
        Struct::new("InputItem")
            .field("ParameterKey", string(&self.parameter_key))
            .field("From", string(&self.from))
            .finish()
    }
}

impl GoHash for OutputItem {
    fn go_hash(&self) -> u64 {
        Struct::new("OutputItem")
            .field("ValueFrom", string(&self.value_from))
            .field("Name", string(&self.name))
            .finish()
    }
}

impl GoHash for ComponentDefinitionSpec {
    fn go_hash(&self) -> u64 {
        let definition = Struct::new("WorkloadGVK")
            .field("APIVersion", string(&self.workload.definition.api_version))
            .field("Kind", string(&self.workload.definition.kind))
            .finish();
        let workload = Struct::new("WorkloadTypeDescriptor")
            .field("Type", string(&self.workload.type_))
            .field("Definition", definition)
            .finish();
        Struct::new("ComponentDefinitionSpec")
            .field("Version", string(&self.version))
            .field("Workload", workload)
            .field("ChildResourceKinds", all(&self.child_resource_kinds))
            .field("RevisionLabel", string(&self.revision_label))
            .field("PodSpecPath", string(&self.pod_spec_path))
            .field("Status", optional(self.status.as_ref()))
            .field("Schematic", optional(self.schematic.as_ref()))
            .field("Extension", optional(self.extension.as_ref()))
            .finish()
    }
}

impl GoHash for TraitDefinitionSpec {
    fn go_hash(&self) -> u64 {
        Struct::new("TraitDefinitionSpec")
            .field("Reference", self.definition_ref.go_hash())
            .field("RevisionEnabled", boolean(self.revision_enabled))
            .field("WorkloadRefPath", string(&self.workload_ref_path))
            .field("PodDisruptive", boolean(self.pod_disruptive))
            .field("AppliesToWorkloads", strings(&self.applies_to_workloads))
            .field("ConflictsWith", strings(&self.conflicts_with))
            .field("Schematic", optional(self.schematic.as_ref()))
            .field("Status", optional(self.status.as_ref()))
            .field("Extension", optional(self.extension.as_ref()))
            .field("ManageWorkload", boolean(self.manage_workload))
            .field("ControlPlaneOnly", boolean(self.control_plane_only))
            .field("Stage", string(&self.stage))
            .field("Version", string(&self.version))
            .finish()
    }
}

impl GoHash for PolicyDefinitionSpec {
    fn go_hash(&self) -> u64 {
        Struct::new("PolicyDefinitionSpec")
            .field("Reference", self.definition_ref.go_hash())
            .field("Schematic", optional(self.schematic.as_ref()))
            .field("ManageHealthCheck", boolean(self.manage_health_check))
            .field("Version", string(&self.version))
            .field("Scope", string(&self.scope))
            .field("Global", boolean(self.global))
            .field("Priority", int32(self.priority))
            .finish()
    }
}

impl GoHash for WorkflowStepDefinitionSpec {
    fn go_hash(&self) -> u64 {
        Struct::new("WorkflowStepDefinitionSpec")
            .field("Reference", self.definition_ref.go_hash())
            .field("Schematic", optional(self.schematic.as_ref()))
            .field("Version", string(&self.version))
            .finish()
    }
}

impl GoHash for WorkloadDefinitionSpec {
    fn go_hash(&self) -> u64 {
        Struct::new("WorkloadDefinitionSpec")
            .field("Reference", self.definition_ref.go_hash())
            .field("ChildResourceKinds", all(&self.child_resource_kinds))
            .field("RevisionLabel", string(&self.revision_label))
            .field("PodSpecPath", string(&self.pod_spec_path))
            .field("Status", optional(self.status.as_ref()))
            .field("Schematic", optional(self.schematic.as_ref()))
            .field("Extension", optional(self.extension.as_ref()))
            .finish()
    }
}

impl GoHash for DefinitionReference {
    fn go_hash(&self) -> u64 {
        Struct::new("DefinitionReference")
            .field("Name", string(&self.name))
            .field("Version", string(&self.version))
            .finish()
    }
}

impl GoHash for ChildResourceKind {
    fn go_hash(&self) -> u64 {
        Struct::new("ChildResourceKind")
            .field("APIVersion", string(&self.api_version))
            .field("Kind", string(&self.kind))
            .field("Selector", string_map(&self.selector))
            .finish()
    }
}

impl GoHash for StatusTemplates {
    fn go_hash(&self) -> u64 {
        Struct::new("Status")
            .field("CustomStatus", string(&self.custom_status))
            .field("HealthPolicy", string(&self.health_policy))
            .field("Details", string(&self.details))
            .finish()
    }
}

impl GoHash for Schematic {
    fn go_hash(&self) -> u64 {
        // The removed variants `kube` and `helm` are no fields of the Go type any more.
        let cue = self.cue.as_ref().map_or_else(nil, |cue| {
            Struct::new("CUE").field("Template", string(&cue.template)).finish()
        });
        Struct::new("Schematic")
            .field("CUE", cue)
            .field("Terraform", optional(self.terraform.as_ref()))
            .finish()
    }
}

impl GoHash for Terraform {
    fn go_hash(&self) -> u64 {
        let reference = |type_: &str, name: &str, namespace: &str| {
            Struct::new(type_)
                .field("Name", string(name))
                .field("Namespace", string(namespace))
                .finish()
        };
        let secret = self
            .write_connection_secret_to_ref
            .as_ref()
            .map_or_else(nil, |r| reference("SecretReference", &r.name, &r.namespace));
        let provider = self
            .provider_ref
            .as_ref()
            .map_or_else(nil, |r| reference("Reference", &r.name, &r.namespace));
        let git = self
            .git_credentials_secret_reference
            .as_ref()
            .map_or_else(nil, |r| reference("SecretReference", &r.name, &r.namespace));
        Struct::new("Terraform")
            .field("Configuration", string(&self.configuration))
            .field("Type", string(&self.type_))
            .field("Path", string(&self.path))
            .field("WriteConnectionSecretToReference", secret)
            .field("ProviderReference", provider)
            .field("DeleteResource", boolean(self.delete_resource.unwrap_or_default()))
            .field("Region", string(&self.custom_region))
            .field("GitCredentialsSecretReference", git)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `context.revision` of a component of a recorded case.
    #[test]
    fn components_have_the_reference_s_hash() {
        let component = r#"{"name": "a", "type": "ctx", "properties": {}}"#;
        let component: ApplicationComponent = serde_json::from_str(component).unwrap();
        assert_eq!(component.hash_text(), "c22a223f705bf894");
    }
}
