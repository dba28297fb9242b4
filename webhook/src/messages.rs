//! Every sentence that a user of the API sees: denials, problems, warnings. One function each.
//!
//! Details keep the words of upstream (`pkg/webhook`, `pkg/appfile`) that scripts look for, and add
//! what they lack: the value, the namespaces that were searched, the nearest known name.

use std::fmt::Write as _;

use serde_json::Value;

use crate::field::Problem;
use crate::world::Kind;

pub(crate) const EMPTY_BODY: &str = "request body is empty";
pub(crate) const NO_CONTENT: &str = "there is no content to decode";
pub(crate) const DEADLINE: &str = "the review could not be finished within the time the API server allows; split the Application or raise admissionWebhookTimeout";
pub(crate) const SHUTTING_DOWN: &str = "the webhook is shutting down, try again";
pub(crate) const TOO_MANY_QUESTIONS: &str =
    "the references of this object lead from one to the next too often";
pub(crate) const NO_ANSWER_IN_TIME: &str = "the API server did not answer in time";
pub(crate) const BODY_TIMEOUT: &str = "the request body did not arrive in time";
pub(crate) const BOTH_VERSIONS: &str =
    "Application has both autoUpdate and publishVersion annotations. Only one can be present";
pub(crate) const DUPLICATED_STEP: &str = "duplicated step name";
pub(crate) const EMPTY_STEP_NAME: &str = "a step needs a name";
pub(crate) const REF_AND_STEPS: &str = "cannot set steps and ref in workflow at the same time";
pub(crate) const SERVICE_ACCOUNT: &str =
    "service-account annotation is not permitted when authentication enabled";
pub(crate) const NO_SHARD: &str = "no shard takes Applications now; nothing happens until the label controller.core.oam.dev/scheduled-shard-id names one";
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

/// The list of problems, numbered.
pub(crate) fn numbered(problems: &[Problem], uid: &str) -> String {
    let mut text = String::new();
    for (n, problem) in problems.iter().enumerate() {
        let end = if problem.detail.ends_with(['?', '.']) { "" } else { "." };
        let _ = write!(text, "\n  {}) \"{}\": {}{end}", n + 1, problem.field, problem.detail);
    }
    with_uid(&text, uid)
}

/// The request's uid, which an operator can look for in the log.
pub(crate) fn with_uid(text: &str, uid: &str) -> String {
    format!("{text} (requestUID={uid})")
}

pub(crate) fn content_type(got: &str) -> String {
    format!("contentType={got}, expected application/json")
}

pub(crate) fn too_large(limit: usize) -> String {
    format!("request entity is too large; limit is {limit} bytes")
}

pub(crate) fn undecodable(error: &str) -> String {
    format!("the review cannot be decoded: {error}")
}

pub(crate) fn failed_to_decode(error: &str) -> String {
    format!("failed to decode: {error}")
}

pub(crate) fn panicked(text: &str) -> String {
    format!("panic: {text} [recovered]")
}

pub(crate) fn wrong_kind(api_version: &str, kind: &str, want: &str) -> String {
    format!("no kind \"{kind}\" in version \"{api_version}\" here, this path is for {want}")
}

pub(crate) fn wrong_resource(resource: &str) -> String {
    format!("expect resource to be core.oam.dev/v1beta1, Resource={resource}")
}

pub(crate) fn wrong_type(want: &str, got: &Value) -> String {
    format!("must be {want}, not {}", kind_of(got))
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {}", shortened(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A quoted text of bearable length.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(LONGEST).collect();
    format!("{:?}", format!("{head}..."))
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

fn in_namespaces(namespaces: &[String]) -> String {
    let quoted: Vec<String> = namespaces.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [one] => format!("in namespace {one}"),
        many => format!("in namespaces {}", many.join(", ")),
    }
}

pub(crate) fn unknown_type(
    kind: Kind,
    name: &str,
    namespaces: &[String],
    nearest: Option<&str>,
) -> String {
    if name.is_empty() {
        return format!("a {} needs a type", kind.word());
    }
    format!("{} \"{name}\" not found {}{}", kind.kind(), in_namespaces(namespaces), hint(nearest))
}

pub(crate) fn unknown_revision(kind: Kind, name: &str, namespaces: &[String]) -> String {
    format!("no revision of {} fits \"{name}\" {}", kind.kind(), in_namespaces(namespaces))
}

pub(crate) fn duplicated_component(name: &str) -> String {
    format!("duplicated component name {name}")
}

pub(crate) fn invalid_timeout(value: &str) -> String {
    format!(
        "invalid timeout {}, please use the format of timeout like 1s, 1m, 1h or 24h (there is no unit for days)",
        shortened(value)
    )
}

pub(crate) fn unknown_workflow(name: &str, namespace: &str) -> String {
    format!("Workflow \"{name}\" not found in namespace \"{namespace}\"")
}

pub(crate) fn unknown_property(name: &str, nearest: Option<&str>) -> String {
    format!("unknown field \"{name}\"{}", hint(nearest))
}

pub(crate) fn external_policy(name: &str, namespace: &str, nearest: Option<&str>) -> String {
    format!(
        "external policy {name} not found: neither a policy of this Application nor a Policy in namespace \"{namespace}\"{}",
        hint(nearest)
    )
}

pub(crate) fn empty_policy(type_: &str, name: &str) -> String {
    format!("policy {type_} named {name} must not have empty properties")
}

pub(crate) fn same_name_and_label() -> &'static str {
    "invalid object selector for ref-objects, name and labelSelector cannot be both set"
}

pub(crate) fn no_resource() -> &'static str {
    "neither resource or apiVersion/kind is set for referring objects"
}

pub(crate) fn legacy_identifier() -> &'static str {
    "resource is not set and legacy object type identifier is disabled for referring objects"
}

pub(crate) fn no_urls() -> &'static str {
    "referring objects from url is not supported, the control plane reads no addresses that users name; write the objects into a component of type k8s-objects"
}

pub(crate) fn outside_namespace() -> &'static str {
    "cannot refer to objects outside the application's namespace"
}

pub(crate) fn outside_cluster() -> &'static str {
    "cannot refer to objects outside control plane"
}

/// What a selector of ref-objects means, for people: `ConfigMap default/settings`.
pub(crate) fn referred(what: &str, namespace: &str, name: &str) -> String {
    match (namespace, name) {
        ("", "") => what.to_owned(),
        (namespace, "") => format!("{what} in namespace {namespace}"),
        ("", name) => format!("{what} {name}"),
        (namespace, name) => format!("{what} {namespace}/{name}"),
    }
}

pub(crate) fn referred_resource_unknown(
    group: &str,
    resource: &str,
    nearest: Option<&str>,
) -> String {
    let place = match group {
        "" => "any group".to_owned(),
        group => format!("group \"{group}\""),
    };
    format!("no matches for resource \"{resource}\" in {place}{}", hint(nearest))
}

pub(crate) fn referred_cluster_unknown(referred: &str, cluster: &str) -> String {
    format!(
        "failed to load ref object {referred}: there is no cluster \"{cluster}\", this control plane knows \"local\" only"
    )
}

pub(crate) fn referred_forbidden(
    referred: &str,
    user: &str,
    verb: &str,
    resource: &str,
    namespace: &str,
) -> String {
    let place = match namespace {
        "" => String::new(),
        namespace => format!(" in namespace \"{namespace}\""),
    };
    format!(
        "failed to load ref object {referred}: user \"{user}\", under whom this Application is deployed, cannot {verb} {resource}{place}"
    )
}

pub(crate) fn referred_missing(referred: &str, resource: &str, name: &str) -> String {
    format!("failed to load ref object {referred}: {resource} \"{name}\" not found")
}

pub(crate) fn referred_unchecked(field: &str, referred: &str, why: &str) -> String {
    format!("{field}: it could not be checked whether {referred} exists: {why}")
}

pub(crate) fn webhook_may_not_read(resource: &str) -> String {
    format!("the webhook has no right to read {resource} (value webhook.refObjects.rules)")
}

pub(crate) fn required() -> &'static str {
    "required value"
}

pub(crate) fn cyclic(names: &[&str]) -> String {
    format!("these wait for each other and would never start: {}", names.join(" -> "))
}

pub(crate) fn unknown_dependency(field: &str, name: &str, nearest: Option<&str>) -> String {
    format!(
        "{field}: nothing here is named \"{name}\", it would be waited for forever{}",
        hint(nearest)
    )
}

pub(crate) fn unknown_input(field: &str, name: &str, nearest: Option<&str>) -> String {
    format!(
        "{field}: no output is named \"{name}\", it would be waited for forever{}",
        hint(nearest)
    )
}

pub(crate) fn unknown_parameter(field: &str, of: &str, nearest: Option<&str>) -> String {
    format!("{field}: {of} has no such parameter, it is ignored{}", hint(nearest))
}

pub(crate) fn undeclared_parameter(of: &str, nearest: Option<&str>) -> String {
    format!("{of} has no such parameter{}", hint(nearest))
}

/// A parameter that does not fit, in plain words, and behind them CUE's, which people search for.
pub(crate) fn parameter(
    given: Option<&str>,
    expected: Option<&str>,
    nearest: Option<&str>,
    cue: &str,
) -> String {
    // what is told already in a sentence of ours stays as it is
    if cue.contains('\n') || cue.contains("missing parameters") {
        return cue.to_owned();
    }
    match (given.map(written), expected.map(plain)) {
        (_, None) if cue.contains("not allowed") => {
            format!("there is no such parameter{} ({cue})", hint(nearest))
        }
        (Some(given), Some(expected)) => format!("must be {expected}, not {given} ({cue})"),
        (None, Some(expected)) if cue.contains("incomplete") => {
            format!("required value, {expected} ({cue})")
        }
        _ => cue.to_owned(),
    }
}

/// A JSON value as people say it.
fn written(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), |value| kind_of(&value))
}

/// A CUE type as people say it; a longer expression as it is.
fn plain(expected: &str) -> String {
    let word = |part: &str| {
        Some(match part {
            "string" => "a text",
            "int" => "a whole number",
            "number" | "float" => "a number",
            "bool" => "a boolean",
            "null" => "null",
            _ => return None,
        })
    };
    let parts: Vec<&str> =
        expected.split(" | ").map(|part| part.trim().trim_start_matches('*')).collect();
    let is_text = |part: &&str| part.starts_with('"') && part.ends_with('"');
    if parts.iter().all(is_text) {
        return match parts.as_slice() {
            [one] => (*one).to_owned(),
            many => format!("one of {}", many.join(", ")),
        };
    }
    let words: Option<Vec<&str>> = parts.iter().map(|part| word(part)).collect();
    match (words, expected.chars().next()) {
        (Some(words), _) => words.join(" or "),
        (None, Some('{')) => "an object".to_owned(),
        (None, Some('[')) => "a list".to_owned(),
        (None, _) => expected.to_owned(),
    }
}

/// A problem that is only told.
pub(crate) fn warning(field: &str, detail: &str) -> String {
    format!("{field}: {detail}")
}

pub(crate) fn unknown_component(field: &str, name: &str, nearest: Option<&str>) -> String {
    format!("{field}: no component is named \"{name}\", the step will fail{}", hint(nearest))
}

pub(crate) fn bad_condition(field: &str, error: &str) -> String {
    format!("{field}: {error}; the step will fail when its turn comes")
}

pub(crate) fn step_cannot_run(field: &str, missing: &str) -> String {
    format!("{field}: {missing}; the step will fail when its turn comes")
}

pub(crate) fn none_of(all: &[Value], got: &Value, nearest: Option<&str>) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("must be one of {}, not {}{}", all.join(", "), kind_of(got), hint(nearest))
}

pub(crate) fn deprecated(field: &str, kind: Kind, name: &str) -> String {
    format!("{field}: {} \"{name}\" is deprecated", kind.kind())
}

pub(crate) fn no_provider(type_: &str, provider: &str) -> String {
    let asks = format!("component type \"{type_}\" or one of its traits");
    match provider {
        "helm" => format!(
            "{asks} needs a Helm engine (\"vela/helm\"), which this control plane does not have: it could never be deployed; install the chart with helm or a GitOps tool"
        ),
        provider => format!(
            "{asks} asks the provider \"{provider}\" while it is rendered, which this control plane does not have: it could never be deployed"
        ),
    }
}

pub(crate) fn unknown_cluster(field: &str, name: &str, nearest: Option<&str>) -> String {
    let what = "this control plane deploys to \"local\" only; the deployment will fail";
    format!("{field}: there is no cluster \"{name}\", {what}{}", hint(nearest))
}

pub(crate) fn no_cluster_matches(field: &str) -> String {
    let what = "this control plane deploys to \"local\" only; the deployment will fail";
    format!("{field}: no cluster has labels, {what}")
}

pub(crate) fn does_not_apply(field: &str, name: &str, workload: &str) -> String {
    format!("{field}: trait \"{name}\" is not made for workload \"{workload}\"")
}

pub(crate) fn published_edit(version: &str) -> String {
    format!(
        "metadata.annotations[app.oam.dev/publishVersion]: the spec differs from what was published as \"{version}\"; it is not rolled out until publishVersion changes"
    )
}

pub(crate) fn bad_deadline(error: &str) -> String {
    format!("{error}; the workflow will not start")
}

pub(crate) fn bad_restart(value: &str) -> String {
    format!(
        "metadata.annotations[app.oam.dev/restart-workflow]: {} is neither true, a time nor a duration, it is ignored",
        shortened(value)
    )
}

pub(crate) fn immutable_changed(current: &str, new: &str) -> String {
    format!("immutable field cannot be changed (current: {current}, new: {new})")
}

pub(crate) fn immutable_removed(current: &str) -> String {
    format!("immutable field cannot be removed (current: {current})")
}

pub(crate) fn cannot_get(
    user: &str,
    kind: Kind,
    name: &str,
    namespace: &str,
    system: &str,
) -> String {
    format!(
        "user \"{user}\" cannot get {} \"{name}\" in namespace \"{namespace}\" or \"{system}\"",
        kind.kind()
    )
}

pub(crate) fn cannot_verify(kind: Kind, name: &str, error: &str) -> String {
    format!("unable to verify permissions for {} \"{name}\": {error}", kind.kind())
}

pub(crate) fn identity_stripped(key: &str) -> String {
    format!(
        "metadata.annotations[{key}]: removed, identity annotations are set by the control plane"
    )
}

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

pub(crate) fn no_matches(api_version: &str, kind: &str) -> String {
    format!("no matches for kind \"{kind}\" in version \"{api_version}\"")
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

pub(crate) fn cannot_ask(error: &str) -> String {
    format!("the API server could not be asked: {error}")
}

pub(crate) fn no_conversion(desired: &str) -> String {
    format!("there is no conversion to \"{desired}\", only core.oam.dev/v1beta1 exists")
}

pub(crate) fn same_output(name: &str) -> String {
    format!(
        "outputs item name must be unique: two traits or templates of this component make an output \"{name}\""
    )
}

pub(crate) fn missing_parameter(component: &str, path: &str) -> String {
    format!("component \"{component}\": missing parameters: {path} (required value)")
}

pub(crate) fn missing_warning(field: &str) -> String {
    format!("{field}: required value, nothing is given here or by a workflow step or override")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_told_in_plain_words_and_cues() {
        let conflict = "conflicting values \"x\" and int (mismatched types string and int)";
        for (given, expected, nearest, cue, told) in [
            (
                Some("\"x\""),
                Some("int"),
                None,
                conflict,
                format!("must be a whole number, not the text \"x\" ({conflict})"),
            ),
            (
                Some("\"x\""),
                Some("*\"a\" | \"b\""),
                None,
                "2 errors in empty disjunction:",
                "must be one of \"a\", \"b\", not the text \"x\" (2 errors in empty disjunction:)"
                    .to_owned(),
            ),
            (
                None,
                Some("string"),
                None,
                "incomplete value string",
                "required value, a text (incomplete value string)".to_owned(),
            ),
            (
                Some("1"),
                None,
                Some("image"),
                "field not allowed",
                "there is no such parameter; did you mean \"image\"? (field not allowed)"
                    .to_owned(),
            ),
            (None, None, None, "anything else", "anything else".to_owned()),
        ] {
            assert_eq!(parameter(given, expected, nearest, cue), told);
        }
    }
}
