//! Hashes that name and compare revisions and rendered objects.
//!
//! The reference hashes Go structs by reflection (see [`vela_gocompat::hashstructure`]), so a hash is made of the names and the
//! order of the fields of the Go types in `apis/core.oam.dev`. The types of this crate are declared in that order and derive it
//! (`vela_api_derive::GoHash`): a hash that differs would give every Application and definition a new revision on upgrade.

use std::collections::BTreeMap;

use serde_json::Value;
use vela_gocompat::hashstructure::{
    Struct, boolean, bytes, hex, int32, json, list, map, nil, string,
};

use crate::raw::RawExtension;
use crate::revision::ApplicationRevisionSpec;
use crate::workflow::WorkflowStep;

/// A value with the hash of its Go counterpart.
pub trait GoHash {
    /// What `hashstructure.Hash(v, FormatV2, nil)` gives for that counterpart.
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
        let hash = policy.properties.hash_text();
        (string(name), string(&format!("{hash}{}", policy.type_)))
    });
    let workflow =
        spec.workflow.as_ref().map_or_else(String::new, |workflow| workflow.steps.hash_text());
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

impl GoHash for String {
    fn go_hash(&self) -> u64 {
        string(self)
    }
}

impl GoHash for bool {
    fn go_hash(&self) -> u64 {
        boolean(*self)
    }
}

impl GoHash for i32 {
    fn go_hash(&self) -> u64 {
        int32(*self)
    }
}

/// A pointer.
impl<T: GoHash> GoHash for Option<T> {
    fn go_hash(&self) -> u64 {
        self.as_ref().map_or_else(nil, GoHash::go_hash)
    }
}

impl<T: GoHash> GoHash for Vec<T> {
    fn go_hash(&self) -> u64 {
        list(self.iter().map(GoHash::go_hash))
    }
}

impl<T: GoHash> GoHash for BTreeMap<String, T> {
    fn go_hash(&self) -> u64 {
        map(self.iter().map(|(key, value)| (string(key), value.go_hash())))
    }
}

impl GoHash for RawExtension {
    fn go_hash(&self) -> u64 {
        Struct::new("RawExtension")
            .field("Raw", bytes(self.as_str().as_bytes()))
            .field("Object", nil())
            .finish()
    }
}

impl GoHash for WorkflowStep {
    /// Go's type embeds what steps and sub-steps have in common, so the hash has one level more than the declaration.
    fn go_hash(&self) -> u64 {
        Struct::new("WorkflowStep")
            .field("WorkflowStepBase", step_base(self))
            .field("Mode", string(&self.mode))
            .field("SubSteps", list(self.sub_steps.iter().map(step_base)))
            .finish()
    }
}

fn step_base(step: &WorkflowStep) -> u64 {
    // Named one by one: a field that is added to the type is added here, or this does not compile.
    let WorkflowStep {
        name,
        type_,
        meta,
        if_,
        timeout,
        depends_on,
        inputs,
        outputs,
        properties,
        mode: _,
        sub_steps: _,
    } = step;
    Struct::new("WorkflowStepBase")
        .field("Name", name.go_hash())
        .field("Type", type_.go_hash())
        .field("Meta", meta.go_hash())
        .field("If", if_.go_hash())
        .field("Timeout", timeout.go_hash())
        .field("DependsOn", depends_on.go_hash())
        .field("Inputs", inputs.go_hash())
        .field("Outputs", outputs.go_hash())
        .field("Properties", properties.go_hash())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApplicationComponent;

    /// `context.revision` of a component of a recorded case.
    #[test]
    fn components_have_the_reference_s_hash() {
        let component = r#"{"name": "a", "type": "ctx", "properties": {}}"#;
        let component: ApplicationComponent = serde_json::from_str(component).unwrap();
        assert_eq!(component.hash_text(), "c22a223f705bf894");
    }
}
