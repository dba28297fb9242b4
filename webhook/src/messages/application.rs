//! Sentences about an Application: its components, traits, policies, steps and identity.

use vela_workflow::restart::SHORTEST_PAUSE;

use super::{hint, in_namespaces, shortened};
use vela_api::DefinitionKind;

/// The reference's own suites match this sentence.
pub(crate) const BOTH_VERSIONS: &str =
    "Application has both autoUpdate and publishVersion annotations. Only one can be present";
pub(crate) const DUPLICATED_STEP: &str = "duplicated step name";
pub(crate) const EMPTY_STEP_NAME: &str = "a step needs a name";
pub(crate) const REF_AND_STEPS: &str = "a workflow has either steps or a ref";
pub(crate) const RUN_WITHOUT_WORKFLOW: &str =
    "a WorkflowRun needs steps (workflowSpec) or the name of a Workflow (workflowRef)";
pub(crate) const RUN_WITH_BOTH: &str =
    "it has no effect, because the steps of spec.workflowSpec are run";
pub(crate) const RUN_WITH_CONTROLLER: &str = "authentication is off: this WorkflowRun is run with the rights of the controller, not of its author";
pub(crate) const SPEC_REMOVED: &str = "without a spec the Application would lose all objects that it deployed; to delete them, delete the Application or write components: []";
pub(crate) const SERVICE_ACCOUNT: &str = "authentication is on, so an Application acts as its author: it cannot choose a ServiceAccount by annotation";
pub(crate) const AUTHENTICATION_OFF: &str = "authentication is off: this Application is deployed with the rights of the controller, not of its author; the chart's value authentication.enabled=true deploys every Application with the rights of its author";
pub(crate) const NO_STAMP_KEY: &str =
    "the key that seals stamps does not exist yet; the controller creates it when it starts";
pub(crate) const NO_EVIDENCE: &str = "you are a cluster administrator, but neither your user alone nor one of your first 32 groups alone has these rights: this Application is deployed without the rights of administrators";
pub(crate) const NOT_CONFIRMED: &str = "metadata.annotations[app.oam.dev/stamp]: only a cluster administrator can confirm the author of an Application; the value renew makes you its author";
pub(crate) fn shard_kept(user: &str, shard: &str) -> String {
    format!(
        "metadata.labels[controller.core.oam.dev/scheduled-shard-id]: the label stays as it was, since {user:?} may not \"use\" the resource \"shards\" {shard:?} in API group \"core.oam.dev\""
    )
}
pub(crate) fn shard_kept_unasked(error: &str) -> String {
    format!(
        "metadata.labels[controller.core.oam.dev/scheduled-shard-id]: the label stays as it was, since the right to change it could not be checked: {error}"
    )
}
pub(crate) const NO_SHARD: &str = "no shard accepts Applications now; this one is not reconciled until the label controller.core.oam.dev/scheduled-shard-id names one";

pub(crate) fn unknown_type(
    kind: DefinitionKind,
    name: &str,
    namespaces: &[String],
    nearest: Option<&str>,
) -> String {
    if name.is_empty() {
        return format!("a {} needs a type", kind.spoken());
    }
    format!("{} \"{name}\" not found {}{}", kind.kind(), in_namespaces(namespaces), hint(nearest))
}

pub(crate) fn unknown_revision(kind: DefinitionKind, name: &str, namespaces: &[String]) -> String {
    format!("no revision of {} fits \"{name}\" {}", kind.kind(), in_namespaces(namespaces))
}

pub(crate) fn duplicated_component(name: &str) -> String {
    format!("duplicated component name {name}")
}

pub(crate) fn invalid_timeout(value: &str) -> String {
    format!(
        "{} is not a timeout: write hours, minutes and seconds, such as 24h or 1m30s (there is no unit for days)",
        shortened(value)
    )
}

pub(crate) fn step_needs_application(type_: &str) -> String {
    format!("a step of type \"{type_}\" needs an Application, and this is a WorkflowRun")
}

pub(crate) fn unknown_workflow(name: &str, namespace: &str) -> String {
    format!("Workflow \"{name}\" not found in namespace \"{namespace}\"")
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

pub(crate) fn bad_pattern(name: &str, error: &str) -> String {
    format!("{name:?} is not a pattern of component names: {error}")
}

pub(crate) fn cyclic(names: &[&str]) -> String {
    format!("these depend on each other and would never start: {}", names.join(" -> "))
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

pub(crate) fn unknown_component(field: &str, name: &str, nearest: Option<&str>) -> String {
    format!("{field}: no component is named \"{name}\", the step will fail{}", hint(nearest))
}

pub(crate) fn bad_condition(field: &str, error: &str) -> String {
    format!("{field}: {error}; the step will fail when it starts")
}

pub(crate) fn step_cannot_run(field: &str, missing: &str) -> String {
    format!("{field}: {missing}; the step will fail when it starts")
}

pub(crate) fn deprecated(field: &str, kind: DefinitionKind, name: &str) -> String {
    format!("{field}: {} \"{name}\" is deprecated", kind.kind())
}

pub(crate) fn no_provider(type_: &str, provider: &str) -> String {
    let asks = format!("component type \"{type_}\" or one of its traits");
    match provider {
        "helm" => format!(
            "a trait of a component of type \"{type_}\" requests a chart (\"vela/helm\"), which only components may: it could never be deployed"
        ),
        provider => format!(
            "{asks} calls the provider \"{provider}\" while it is rendered, which this control plane does not have: it could never be deployed"
        ),
    }
}

pub(crate) fn same_release(field: &str, namespace: &str, release: &str, other: &str) -> String {
    format!(
        "{field}: component \"{other}\" is also release \"{release}\" of namespace \"{namespace}\": in a cluster with both, one of them fails"
    )
}

pub(crate) fn foreign_release(
    field: &str,
    namespace: &str,
    release: &str,
    (owner_namespace, owner): (&str, &str),
) -> String {
    format!(
        "{field}: release \"{release}\" of namespace \"{namespace}\" belongs to Application {owner_namespace}/{owner}: the deployment will fail"
    )
}

pub(crate) fn refused_by_schema(field: &str, problem: &str) -> String {
    format!("{field}: {problem}; the deployed chart refuses such values")
}

pub(crate) fn unknown_cluster(field: &str, name: &str, nearest: Option<&str>) -> String {
    let what = "this control plane deploys to \"local\" only; the deployment will fail";
    format!("{field}: there is no cluster \"{name}\", {what}{}", hint(nearest))
}

pub(crate) fn not_joined(field: &str, name: &str, nearest: Option<&str>) -> String {
    let what = "the deployment fails until one does";
    format!("{field}: no cluster \"{name}\" has joined; {what}{}", hint(nearest))
}

pub(crate) fn no_joined_cluster_matches(field: &str) -> String {
    let what = "the deployment fails until one does";
    format!("{field}: no cluster with these labels has joined; {what}")
}

pub(crate) fn no_cluster_matches(field: &str) -> String {
    let what = "this control plane deploys to \"local\" only; the deployment will fail";
    format!("{field}: no cluster has these labels, {what}")
}

pub(crate) fn does_not_apply(field: &str, name: &str, workload: &str) -> String {
    format!("{field}: trait \"{name}\" does not apply to workload \"{workload}\"")
}

pub(crate) fn published_edit(version: &str) -> String {
    format!(
        "metadata.annotations[app.oam.dev/publishVersion]: the spec differs from the content published as \"{version}\"; it is not rolled out until publishVersion changes"
    )
}

pub(crate) fn unpublishable(version: &str) -> String {
    format!(
        "metadata.annotations[app.oam.dev/publishVersion]: {} cannot be part of an object's name (lower-case letters, digits, \"-\" and \".\" between them; with namespace and name at most 253 in all); it will not be rolled out",
        shortened(version)
    )
}

pub(crate) fn dry_run_summary(components: &str) -> String {
    format!("dry run: components: {components}; `vela-controller plan -f FILE` shows their objects")
}

pub(crate) fn bad_deadline(error: &str) -> String {
    format!("{error}; the workflow will not start")
}

pub(crate) fn unknown_word(word: &str, words: &[&str]) -> String {
    let nearest = vela_serve::nearest(word, words.iter().copied());
    format!("{} is none of {}{}", shortened(word), words.join(", "), hint(nearest))
}

pub(crate) fn bad_restart(value: &str) -> String {
    format!(
        "metadata.annotations[app.oam.dev/restart-workflow]: {} is neither true, a time nor a duration; it is ignored",
        shortened(value)
    )
}

pub(crate) fn inherited_key(field: &str, filter: &str) -> String {
    format!(
        "{field}: the objects of the Application inherit it, and a GitOps tool may take them for its own and prune them; exclude it with the chart's value inherit.exclude or with the annotation {filter}"
    )
}

pub(crate) fn restarts_too_often(value: &str) -> String {
    format!(
        "{} lets the workflow run repeatedly without a pause; the shortest pause is {} s",
        shortened(value),
        SHORTEST_PAUSE.as_secs()
    )
}

pub(crate) fn immutable_changed(current: &str, new: &str) -> String {
    format!("the parameter is immutable: {current} cannot become {new}")
}

pub(crate) fn immutable_removed(current: &str) -> String {
    format!("the parameter is immutable: {current} cannot be removed")
}

pub(crate) fn cannot_get(
    user: &str,
    kind: DefinitionKind,
    name: &str,
    namespace: &str,
    system: &str,
) -> String {
    format!(
        "user \"{user}\" cannot get {} \"{name}\" in namespace \"{namespace}\" or \"{system}\"",
        kind.kind()
    )
}

pub(crate) fn cannot_verify(kind: DefinitionKind, name: &str, error: &str) -> String {
    format!("unable to verify permissions for {} \"{name}\": {error}", kind.kind())
}

pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    format!("the control plane cannot read it: {error}")
}

pub(crate) fn identity_stripped(key: &str) -> String {
    format!(
        "metadata.annotations[{key}]: removed; only the control plane sets identity annotations"
    )
}

pub(crate) fn same_output(name: &str) -> String {
    format!("two templates of this component have an output \"{name}\": their names must differ")
}
