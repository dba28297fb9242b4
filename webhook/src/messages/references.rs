//! Sentences about ref-objects components.

use super::hint;

pub(crate) fn same_name_and_label() -> &'static str {
    "select the object by name or by labelSelector, not by both"
}

pub(crate) fn no_resource() -> &'static str {
    "the kind of object is missing: set resource, or apiVersion and kind"
}

pub(crate) fn legacy_identifier() -> &'static str {
    "set resource: apiVersion and kind name no object while the feature gate LegacyObjectTypeIdentifier is off"
}

pub(crate) fn no_urls() -> &'static str {
    "urls are not supported: the control plane does not read from addresses of users; write the objects into a component of type k8s-objects"
}

pub(crate) fn outside_namespace() -> &'static str {
    "ref-objects may only name objects of the Application's own namespace"
}

pub(crate) fn outside_cluster() -> &'static str {
    "ref-objects may only name objects of the control plane's own cluster"
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
    let group_text = match group {
        "" => "any group".to_owned(),
        group => format!("group \"{group}\""),
    };
    format!("no matches for resource \"{resource}\" in {group_text}{}", hint(nearest))
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
    let namespace_text = match namespace {
        "" => String::new(),
        namespace => format!(" in namespace \"{namespace}\""),
    };
    format!(
        "failed to load ref object {referred}: user \"{user}\", as whom this Application is deployed, cannot {verb} {resource}{namespace_text}"
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

pub(crate) fn too_many_referred(field: &str, most: usize) -> String {
    format!(
        "{field}: the existence of objects is checked only for the first {most}, not from here on"
    )
}
