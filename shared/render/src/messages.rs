//! All messages of this crate for users.
//!
//! Texts that the ecosystem searches for (`conflicting values`, `is not allowed`, the wrappers of
//! stages) are contained as they are known.

use crate::patch::PatchError;
use cue::Kind;
use std::fmt::{Display, Write as _};

/// A label as CUE writes it in a path: quoted unless it is an identifier.
pub(crate) fn label(label: &str) -> String {
    let mut chars = label.chars();
    let plain =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '#' | '$'))
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | '$'));
    if plain { label.to_owned() } else { serde_json::Value::from(label).to_string() }
}

pub(crate) fn conflicting(a: &str, b: &str) -> String {
    format!("conflicting values {a} and {b}")
}

pub(crate) fn conflicting_kinds(a: &str, b: &str, ka: Kind, kb: Kind) -> String {
    format!("conflicting values {a} and {b} (mismatched types {ka} and {kb})")
}

pub(crate) fn out_of_bound(value: &str, bound: &str) -> String {
    format!("invalid value {value} (out of bound {bound})")
}

pub(crate) fn list_lengths(a: usize, b: usize) -> String {
    format!("incompatible list lengths ({a} and {b})")
}

pub(crate) fn incomplete(what: &str) -> String {
    format!("incomplete value {what}")
}

pub(crate) fn too_deep() -> String {
    "value is nested too deeply".to_owned()
}

pub(crate) fn too_many_alternatives() -> String {
    "too many alternatives".to_owned()
}

pub(crate) fn no_operations() -> String {
    "a patch with +patchStrategy=jsonPatch needs a list `operations`".to_owned()
}

pub(crate) fn operations_not_a_list() -> String {
    "`operations` of a JSON patch must be a list".to_owned()
}

pub(crate) fn operation_not_a_struct(operation: &serde_json::Value) -> String {
    format!("not a JSON patch operation: {operation}")
}

pub(crate) fn bad_operation(operation: &serde_json::Value, cause: &dyn Display) -> String {
    format!("bad JSON patch operation {operation}: {cause}")
}

fn first_of<T: Display>(all: &[T]) -> String {
    match all {
        [] => String::new(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more errors)", rest.len()),
    }
}

pub(crate) fn patch_error(error: &PatchError) -> String {
    match error {
        PatchError::Conflicts(conflicts) => {
            format!("result check err: {}", first_of(conflicts))
        }
        PatchError::Base(missing) => {
            format!("failed to marshal base value: {}", first_of(missing))
        }
        PatchError::Patch(missing) => {
            format!("failed to marshal patch value: {}", first_of(missing))
        }
        PatchError::Merge(why) => {
            format!("the patch and the object do not merge as JSON: {why}")
        }
        PatchError::Operations(why) => format!("failed to decode patch: {why}"),
        PatchError::Apply(why) => format!("failed to apply json patch: {why}"),
        PatchError::Undecided(missing) => format!("result check err: {}", first_of(missing)),
    }
}

pub(crate) fn unknown_key(key: &str, reason: &str) -> String {
    format!("the key {key} of this element is unknown: {reason}")
}

pub(crate) fn settings(name: &str, cause: &dyn Display) -> String {
    format!("fail to parse settings for {name}: {cause}")
}

pub(crate) fn not_an_object(found: &str) -> String {
    format!("properties must be an object, found {found}")
}

pub(crate) fn base_template(app: &str, namespace: &str, cause: &dyn Display) -> String {
    format!("evaluate base template app={app} in namespace={namespace}: {cause}")
}

pub(crate) fn trait_template(kind: &str, component: &str, cause: &dyn Display) -> String {
    format!("evaluate template trait={kind} app={component}: {cause}")
}

pub(crate) fn compile(what: Subject<'_>, cause: &dyn Display) -> String {
    format!("failed to compile {what} after merge parameter and context: {cause}")
}

/// Where in a text an error is, to be put behind its message: nothing if nobody knows. `text` names
/// the text and `lines` is how many it has; what was added behind it is no place in it.
pub(crate) fn position_suffix(error: &cue::Error, text: &str, lines: usize) -> String {
    let known = |position: &&cue::Position| (1..=lines).contains(&(position.line as usize));
    match error.positions.iter().find(known) {
        Some(position) => format!(" ({text}, line {}, column {})", position.line, position.column),
        None if error.class == cue::Class::Parse && lines > 0 => format!(" ({text}, at its end)"),
        None => String::new(),
    }
}

/// What a message is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A component, by name.
    Workload(&'a str),
    /// A trait, by type.
    Trait(&'a str),
    /// An application-scoped policy, by name.
    Policy(&'a str),
}

impl Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workload(name) => write!(f, "workload {name}"),
            Self::Trait(name) => write!(f, "trait {name}"),
            Self::Policy(name) => write!(f, "policy {name}"),
        }
    }
}

/// The groups of problems under a heading: what the template's author says, what is wrong with
/// parameters, all else.
pub(crate) fn groups(heading: &str, user: &[String], problems: &[String]) -> String {
    let mut out = heading.to_owned();
    let mut parameters: Vec<&str> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for problem in problems {
        if problem.starts_with("parameter.") {
            parameters.push(problem);
        } else {
            others.push(problem);
        }
    }
    parameters.sort_unstable();
    parameters.dedup();
    others.sort_unstable();
    others.dedup();
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    for (title, lines) in
        [("User Errors", user), ("Parameter errors", parameters), ("Template errors", others)]
    {
        if lines.is_empty() {
            continue;
        }
        let _ = write!(out, "\n\n{title}:\n");
        for line in lines {
            let _ = writeln!(out, "  {line}");
        }
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

pub(crate) fn validation(what: Subject<'_>) -> String {
    format!("validation failed for {what}:")
}

pub(crate) fn manifests(component: &str) -> String {
    format!("cannot generate manifests from component {component}:")
}

pub(crate) fn auxiliary_export(
    name: &str,
    component: &str,
    app: &str,
    cause: &dyn Display,
) -> String {
    format!("evaluate trait={name} template for component={component} app={app}: {cause}")
}

pub(crate) fn invalid_patch(kind: &str, cause: &dyn Display) -> String {
    format!("invalid patch trait {kind} into workload: {cause}")
}

pub(crate) fn no_base(kind: &str) -> String {
    format!("patch trait {kind} into an invalid workload")
}

pub(crate) fn invalid_patch_outputs(kind: &str, to: &str, cause: &dyn Display) -> String {
    format!("trait={kind}, to={to}: the patch does not fit this output: {cause}")
}

pub(crate) fn workflow_patch(cause: &dyn Display) -> String {
    format!("patch workload: {cause}")
}

pub(crate) fn workflow_patch_outputs(name: &str, cause: &dyn Display) -> String {
    format!("patch outputs.{name}: {cause}")
}

pub(crate) fn missing_kind(object: &str) -> String {
    format!("Object 'Kind' is missing in '{object}'")
}

pub(crate) fn not_an_object_value(found: &str) -> String {
    format!("json: cannot unmarshal {found} into a Kubernetes object")
}

pub(crate) fn no_output() -> String {
    "field not found: output".to_owned()
}

pub(crate) fn without_template(definition: &str) -> String {
    format!(
        "definition {definition} has no template: it has neither spec.schematic.cue nor spec.schematic.terraform"
    )
}

pub(crate) fn retired_schematic(schematic: &str, definition: &str) -> String {
    format!(
        "spec.schematic.{schematic} of definition {definition} is no longer supported: write spec.schematic.cue (for a chart, use the component helmchart)"
    )
}

pub(crate) fn into_context(at: &str, gap: Option<&crate::term::Incomplete>) -> String {
    let Some(gap) = gap else { return String::new() };
    let path = if gap.path.is_empty() { at.to_owned() } else { format!("{at}.{}", gap.path) };
    format!("cue: marshal error: {path}: {}", gap.message)
}

pub(crate) fn invalid_process(kind: &str, cause: &dyn Display) -> String {
    format!("invalid process of trait {kind}: {cause}")
}

pub(crate) fn no_http() -> String {
    "processing has no http request".to_owned()
}

pub(crate) fn http_task(cause: &dyn Display) -> String {
    format!("fail to exec http task, {cause}")
}

pub(crate) fn provider_missing(provider: &str) -> String {
    format!("provider {provider} not found")
}

pub(crate) fn function_missing(function: &str, provider: &str) -> String {
    format!("function {function} not found in provider {provider}")
}

pub(crate) fn function_call(path: &str, cause: &dyn Display) -> String {
    format!("function call error for {path}: {cause}")
}

pub(crate) fn errs_ignored(what: &str) -> String {
    format!("the field `errs` of {what} is not a list and was ignored")
}

pub(crate) fn no_http_here() -> String {
    "templates may not send HTTP requests here".to_owned()
}

pub(crate) fn no_field(name: &str) -> String {
    format!("{name}: field not found")
}

pub(crate) fn details_failed(why: &dyn Display) -> String {
    format!("failed to get status details: {why}")
}

pub(crate) fn health_failed(why: &dyn Display) -> String {
    format!("failed to check health: {why}")
}

pub(crate) fn health_not_bool() -> String {
    "failed to check health: isHealth is not a bool".to_owned()
}

pub(crate) fn message_failed(why: &dyn Display) -> String {
    format!("failed to get status message: {why}")
}

pub(crate) fn message_not_string() -> String {
    "failed to get status message: message is not a string".to_owned()
}

pub(crate) fn unexpected_declaration() -> String {
    "only fields are allowed at the top level of a definition file".to_owned()
}

pub(crate) fn duplicate_definition(first: &str, second: &str) -> String {
    format!("a file must have one definition; this one has {first} and {second}")
}

pub(crate) fn no_metadata() -> String {
    "the file has no metadata of a definition".to_owned()
}

pub(crate) fn no_template() -> String {
    "the file has no template".to_owned()
}

pub(crate) fn template_not_a_struct() -> String {
    "the template must be a struct".to_owned()
}

pub(crate) fn metadata_not_data() -> String {
    "the description of a definition must be plain data".to_owned()
}

pub(crate) fn invalid_type(word: &str) -> String {
    format!("invalid type {word}")
}

pub(crate) fn invalid_spec(key: &str) -> String {
    format!("invalid definition spec: unknown field {key:?}")
}

pub(crate) fn no_definition() -> String {
    "not a definition".to_owned()
}

pub(crate) fn not_a_merge_patch() -> String {
    "Invalid JSON Patch".to_owned()
}

pub(crate) fn no_configuration() -> String {
    "terraform configuration is not set".to_owned()
}

pub(crate) fn bad_property(key: &str, found: &str) -> String {
    format!("Terraform component: property {key} must be an object, found {found}")
}

pub(crate) fn terraform(component: &str, why: &dyn Display) -> String {
    format!("no Terraform Configuration can be rendered from component {component}: {why}")
}

pub(crate) fn incomplete_template(errors: &dyn Display) -> String {
    format!("json: error calling MarshalJSON for type cue.Value: cue: marshal error: {errors}")
}

pub(crate) fn no_schema(name: &str, why: &dyn Display) -> String {
    format!("failed to generate OpenAPI v3 JSON schema for capability {name}: {why}")
}

pub(crate) fn recursive_parameter() -> String {
    "the parameter contains itself or is too large for a schema".to_owned()
}

pub(crate) fn tuple_parameter() -> String {
    "lists with a fixed element have no schema".to_owned()
}

pub(crate) fn unsupported_operator(op: &str, word: &str) -> String {
    format!("unsupported op {op} for {word} type")
}

pub(crate) fn missing_parameters(component: &str, missing: &[String]) -> String {
    format!("component {component:?}: missing parameters: {}", missing.join(","))
}

pub(crate) fn parameter_violation(component: &str, errors: &dyn Display) -> String {
    format!("component {component:?}: parameter constraint violation: {errors}")
}

pub(crate) fn undeclared_parameter(component: &str, key: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => {
            format!("component {component:?}: undeclared parameters: {key} (did you mean {name}?)")
        }
        None => format!("component {component:?}: undeclared parameters: {key}"),
    }
}

pub(crate) fn invalid_outputs(kind: &str, why: &dyn Display) -> String {
    format!("invalid outputs of trait {kind}: {why}")
}

pub(crate) fn explicit_policy(name: &str, why: &dyn Display) -> String {
    format!("failed to render explicit policy {name:?}: {why}")
}

pub(crate) fn explicit_global(name: &str, kind: &str) -> String {
    format!(
        "policy {name:?} is of the global type {kind:?}, which every Application has: remove it from spec.policies"
    )
}

pub(crate) fn enabled_no_bool() -> String {
    "the field enabled is neither true nor false".to_owned()
}

pub(crate) fn output_not_allowed(key: &str, permitted: &[&str]) -> String {
    format!("output.{key} is not allowed; permitted fields: {}", permitted.join(", "))
}

pub(crate) fn key_not_allowed(path: &str, key: &str, settable: &[&str]) -> String {
    format!(
        "{path} must not have the key {key}: keys of oam.dev and below it are the control plane's; permitted are {}",
        settable.join(", ")
    )
}

pub(crate) fn output_of_policy(path: &str, expected: &str) -> String {
    let article = if expected == "object" { "an" } else { "a" };
    format!("{path} must be {article} {expected}")
}
