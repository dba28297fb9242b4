//! Sentences about a definition.

use super::no_matches;
use vela_api::DefinitionKind;

pub(crate) const PASSED: &str = "Validation passed";
pub(crate) const NOT_VALIDATED: &str = "nothing to validate in this operation";
pub(crate) const INVALID_VERSION: &str = "Not a valid version";
pub(crate) const REVISION_DIFFERS: &str =
    "a DefinitionRevision of this version has another spec: an edit needs a new version";
pub(crate) const TRAIT_WITHOUT_EFFECT: &str = "the trait has no effect: without spec.definitionRef its template needs a patch, or outputs that have apiVersion and kind";
pub(crate) const POLICY_WITHOUT_CUE: &str = "a policy needs a template: spec.schematic.cue";
pub(crate) const ENABLED_NOT_BOOL: &str = "the field enabled is neither true nor false";
pub(crate) const GLOBAL_WITHOUT_PRIORITY: &str =
    "spec.priority is not set: this global policy has priority 0";
pub(crate) const SCOPED_GATE_OFF: &str =
    "this policy has no effect: the feature gate EnableApplicationScopedPolicies is off";
pub(crate) const GLOBAL_GATE_OFF: &str =
    "no Application gets this policy: the feature gate EnableGlobalPolicies is off";
pub(crate) const LEGACY_CUE: &str = "the template is written in an older CUE syntax and is converted whenever it is rendered; `vela def compat definitions` lists all such definitions";

pub(crate) fn workload_missing(name: &str) -> String {
    format!("ComponentDefinition {name}: spec.workload needs a type or a definition")
}

pub(crate) fn workload_mismatch(name: &str, type_: &str, resource: &str) -> String {
    format!(
        "ComponentDefinition {name}: spec.workload has the type {type_} and the definition {resource}, which are different workloads"
    )
}

pub(crate) fn no_workload_definition(name: &str) -> String {
    format!("WorkloadDefinition.core.oam.dev \"{name}\" not found")
}

/// The reference's own suites match this sentence.
pub(crate) fn both_revisions(kind: DefinitionKind) -> String {
    format!(
        "{} has both spec.version and revision name annotation. Only one can be present",
        kind.kind()
    )
}

pub(crate) fn invalid_revision_name(name: &str) -> String {
    format!(
        "invalid definitionRevision name {name}: only letters, digits, '-', '_' and '.' are allowed, the last three not at either end"
    )
}

/// The reference's own suites match the beginning of this sentence.
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
    step_output(&format!("the template is not valid CUE: {error}"))
}

pub(crate) fn invalid_policy(problems: &[String]) -> String {
    format!("invalid PolicyDefinition: [{}]", problems.join(" "))
}

pub(crate) fn global_without_defaults(name: &str, parameters: &[String]) -> String {
    format!(
        "a global policy gets no parameters: those of '{name}' need defaults, as in `env: *\"production\" | string`; without one are {}",
        parameters.join(", ")
    )
}

pub(crate) fn global_scope(scope: &str) -> String {
    format!("a global policy has spec.scope Application, not '{scope}'")
}

pub(crate) fn high_priority(priority: i64) -> String {
    format!("priority {priority} is unusually high")
}

pub(crate) fn status_cue(field: &str, error: &str) -> String {
    format!("{field}: {error}")
}
