//! What is told of a definition.

use super::no_matches;
use crate::world::Kind;

pub(crate) const PASSED: &str = "Validation passed";
pub(crate) const NOT_VALIDATED: &str = "Operation does not require validation";
pub(crate) const INVALID_VERSION: &str = "Not a valid version";
pub(crate) const REVISION_DIFFERS: &str =
    "the definition's spec is different with existing definitionRevision's spec";
pub(crate) const TRAIT_WITHOUT_EFFECT: &str =
    "if definition reference is omitted, patch or output with GVK is required";
pub(crate) const POLICY_WITHOUT_CUE: &str = "policy must have a CUE schematic";
pub(crate) const ENABLED_NOT_BOOL: &str =
    "'enabled' field must be of type bool, got a non-bool value";
pub(crate) const GLOBAL_WITHOUT_PRIORITY: &str =
    "global policy should have explicit priority field (defaults to 0)";
pub(crate) const SCOPED_GATE_OFF: &str = "EnableApplicationScopedPolicies feature gate is disabled; this policy will not execute until it is enabled";
pub(crate) const GLOBAL_GATE_OFF: &str = "EnableGlobalPolicies feature gate is disabled; this policy will not be auto-applied until it is enabled";
pub(crate) const LEGACY_CUE: &str = "CUE template uses legacy syntax that will be auto-upgraded at render time. Run `vela def compat definitions` to scan all definitions for legacy syntax.";

pub(crate) fn workload_missing(name: &str) -> String {
    format!(
        "neither the type nor the definition of the workload field in the ComponentDefinition {name} can be empty"
    )
}

pub(crate) fn workload_mismatch(name: &str, type_: &str, resource: &str) -> String {
    format!(
        "the type and the definition of the workload field in ComponentDefinition {name} should represent the same workload (type: {type_}, definition: {resource})"
    )
}

pub(crate) fn no_workload_definition(name: &str) -> String {
    format!("WorkloadDefinition.core.oam.dev \"{name}\" not found")
}

pub(crate) fn both_revisions(kind: Kind) -> String {
    format!(
        "{} has both spec.version and revision name annotation. Only one can be present",
        kind.kind()
    )
}

pub(crate) fn invalid_revision_name(name: &str) -> String {
    format!(
        "invalid definitionRevision name {name}: it must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    )
}

pub(crate) fn no_resource_type(api_version: &str, kind: &str) -> String {
    format!(
        "resource type not found on cluster: {api_version}/{kind} ({})",
        no_matches(api_version, kind)
    )
}

/// What is wrong with the outputs of a step's template.
pub(crate) fn step_output(problem: &str) -> String {
    format!("output resource validation failed: {problem}")
}

pub(crate) fn step_output_syntax(error: &str) -> String {
    step_output(&format!("failed to extract resource info: failed to parse CUE template: {error}"))
}

pub(crate) fn invalid_policy(problems: &[String]) -> String {
    format!("invalid PolicyDefinition: [{}]", problems.join(" "))
}

pub(crate) fn global_without_defaults(name: &str, parameters: &[String]) -> String {
    format!(
        "global policy '{name}' cannot have parameters without default values. Found parameters without defaults: [{}]. Global policies are auto-applied without user input, so all parameters must have default values using '*'. Example: envName: *\"production\" | string",
        parameters.join(" ")
    )
}

pub(crate) fn global_scope(scope: &str) -> String {
    format!("global policies must have scope='Application', found scope='{scope}'")
}

pub(crate) fn high_priority(priority: i64) -> String {
    format!("priority {priority} is unusually high")
}

pub(crate) fn status_cue(field: &str, error: &str) -> String {
    format!("{field}: {error}")
}
