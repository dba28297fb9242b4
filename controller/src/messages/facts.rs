//! Messages about the inputs of an Application: its author, definitions, references, policies and revisions.

use std::fmt::Display;

/// `ref-objects`: two ways to select at once.
pub(crate) const AMBIGUOUS_REFERENCE: &str =
    "select the object by name or by labelSelector, not by both";
/// `ref-objects`: the flag keeps references within the namespace.
pub(crate) const REFERENCE_OUTSIDE_NAMESPACE: &str =
    "ref-objects may only name objects of the Application's own namespace";
/// `ref-objects`: the flag keeps references within the cluster of the control plane.
pub(crate) const REFERENCE_OUTSIDE_CONTROL_PLANE: &str =
    "cannot refer to objects outside control plane";
/// `ref-objects`: by address.
pub(crate) const NO_REFERENCE_BY_URL: &str =
    "urls are not supported: the control plane does not read from addresses of users";

/// Nobody knows who wrote an Application.
#[must_use]
pub(crate) fn not_stamped(default_user: &str, namespace: &str, name: &str) -> String {
    format!(
        "the author of this Application is unknown (it has no valid stamp), so it is applied as the default user {default_user:?}; to become its author apply it again: kubectl annotate application -n {namespace} {name} --overwrite app.oam.dev/stamp=renew; a cluster administrator can confirm the author that is named in its annotations with the value confirm"
    )
}

/// The author was an administrator.
#[must_use]
pub(crate) fn no_administrator(evidence: &str, group: &str) -> String {
    format!(
        "the author of this Application was a cluster administrator as {evidence} when it was applied and no longer is, so it is applied without the group {group:?}"
    )
}

/// `ref-objects`: properties that cannot be read.
#[must_use]
pub(crate) fn bad_reference(component: &str, error: &str) -> String {
    format!("invalid properties for ref-objects in component {component}: {error}")
}

/// A definition nobody made.
#[must_use]
pub(crate) fn definition_not_found(
    kind: &str,
    name: &str,
    namespace: &str,
    system: &str,
) -> String {
    if namespace == system {
        format!("{kind} {name:?} not found in namespace {namespace}")
    } else {
        format!("{kind} {name:?} not found in namespaces {namespace} and {system}")
    }
}

/// Something about one component.
#[must_use]
pub(crate) fn in_component(component: &str, text: &str) -> String {
    format!("component {component:?}: {text}")
}

/// Two components of one name.
#[must_use]
pub(crate) fn duplicated_component(name: &str) -> String {
    format!("duplicated component name {name}")
}

/// The message of a negative end: the wrapper of a resource policy that cannot be read.
#[must_use]
pub(crate) fn bad_policy(error: &str) -> String {
    format!("failed to create resourceKeeper: failed to parse resource policy: {error}")
}

/// The result of the policies is no Application.
#[must_use]
pub(crate) fn unreadable_output(part: &str, error: &dyn Display) -> String {
    format!("spec.{part} as changed by application-scoped policies cannot be read: {error}")
}

/// Why a policy changed nothing.
pub(crate) const POLICY_DISABLED: &str = "disabled by its template";

/// A policy took part.
#[must_use]
pub(crate) fn policy_applied(name: &str, global_of: Option<&str>) -> String {
    match global_of {
        Some(namespace) => format!("Applied global policy {name} from namespace {namespace}"),
        None => format!("Applied policy {name}"),
    }
}

/// A policy took no part.
#[must_use]
pub(crate) fn policy_skipped(name: &str, global: bool, why: &str) -> String {
    format!("Skipped {}policy {name}: {why}", if global { "global " } else { "" })
}

/// A policy failed.
#[must_use]
pub(crate) fn policy_failed(name: &str, global: bool, why: &str) -> String {
    format!("failed to render {}policy {name}: {why}", if global { "global " } else { "" })
}

/// A TraitDefinition with a stage that does not exist.
#[must_use]
pub(crate) fn unknown_stage(kind: &str, stage: &str) -> String {
    format!(
        "unknown stage type {stage:?} of TraitDefinition {kind:?}: write PreDispatch, DefaultDispatch or PostDispatch"
    )
}

/// A definition whose revision could not be made.
#[must_use]
pub(crate) fn no_definition_revision(definition: &str, error: &str) -> String {
    format!("cannot create DefinitionRevision of {definition}: {error}")
}

/// A definition whose parameter schema could not be made or stored.
#[must_use]
pub(crate) fn no_schema(definition: &str, error: &str) -> String {
    format!("cannot store capability {definition} in ConfigMap: {error}")
}

/// A ComponentDefinition whose kind has no WorkloadDefinition, and it could not be made.
#[must_use]
pub(crate) fn no_workload_definition(definition: &str, error: &str) -> String {
    format!("cannot create the WorkloadDefinition of {definition}: {error}")
}

/// A co-author may not do what the Application asks for. `known`: it is who wrote the object, not the default user.
pub(crate) fn co_author_refused(
    (user, known): (&str, bool),
    object: &str,
    request: &str,
    error: &str,
) -> String {
    let remedy = if known {
        ""
    } else {
        " (its author is unknown, so the default user counts as the author: apply it again)"
    };
    format!(
        "cannot {request}: it depends on {object}, whose author {user:?} is not allowed to do it{remedy}: {error}"
    )
}

/// A pinned Application whose revision nobody is known to have written.
pub(crate) fn revision_not_believed(name: &str, version: &str) -> String {
    format!(
        "publishVersion {version} refers to ApplicationRevision {name}, whose author is unknown (it was changed \
         by hand, or created before revisions had stamps), so it is not deployed; deployed objects stay. Publish the \
         Application again under another publishVersion"
    )
}

/// Somebody else changed what an Application refers to.
pub(crate) fn changed_by_others(object: &str, user: &str) -> String {
    format!(
        "{object} was changed by {user:?}, who is not the author of this Application, after it was deployed; the earlier version is \
         used until the Application is edited or published under another publishVersion (annotation app.oam.dev/autoUpdate: \
         \"true\" follows such changes)"
    )
}
