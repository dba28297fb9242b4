//! The sentences of answers, a function each. Words of Kubernetes are Kubernetes' own: clients recognise some of them.

use crate::names::GROUP;

/// A cluster that has no Secret. vela-core and its client know the end of it.
pub(crate) fn no_cluster(resource: &str, name: &str) -> String {
    format!("{resource}.{GROUP} {name:?} not found: no such cluster {name}")
}

/// A view of a cluster that has no Secret.
pub(crate) fn not_found(resource: &str, name: &str) -> String {
    format!("{resource}.{GROUP} {name:?} not found")
}

/// The Secrets were not read yet.
pub(crate) const NOT_SYNCED: &str = "clusters are not known yet: their Secrets are being read";

/// The end of this process is near.
pub(crate) const STOPPING: &str = "this replica is shutting down";

/// A Secret that cannot be used.
pub(crate) fn unusable(name: &str, why: &str) -> String {
    format!("cluster {name} cannot be reached: Secret {name}: {why}")
}

/// Nobody answers.
pub(crate) fn not_reachable(name: &str, why: &str) -> String {
    format!("cluster {name} is not reachable: {why}")
}

/// It agreed to another protocol that nobody asked for.
pub(crate) fn odd_upgrade(name: &str) -> String {
    format!("cluster {name} is not reachable: it switched protocols without being asked to")
}

/// It sent the caller elsewhere.
pub(crate) fn redirects(name: &str) -> String {
    format!("cluster {name} answered with a redirect, which is not passed on")
}

/// The request did not come from the front proxy.
pub(crate) const NOT_THE_FRONT_PROXY: &str = "requests come through the API server's aggregation: its client certificate is missing or is not allowed";

/// The front proxy said nothing about who asks.
pub(crate) const NO_USER: &str = "the front proxy named no user";

/// A name of a user, a group or something else that is no text.
pub(crate) const USER_IS_NO_TEXT: &str = "the front proxy named a user in bytes that are no text";

/// A right that is missing.
pub(crate) fn forbidden(user: &str, verb: &str, resource: &str, name: &str, why: &str) -> String {
    let subject = match name {
        "" => format!("{}.{GROUP}", main_of(resource)),
        name => format!("{}.{GROUP} {name:?}", main_of(resource)),
    };
    let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!(
        "{subject} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {GROUP:?} at the cluster scope{reason}"
    )
}

fn main_of(resource: &str) -> &str {
    resource.split('/').next().unwrap_or(resource)
}

/// Rights could not be asked for.
pub(crate) fn no_review(why: &str) -> String {
    format!("nobody knows whether this is allowed: {why}")
}

/// A user of Kubernetes itself.
pub(crate) fn not_impersonated(user: &str, cluster: &str) -> String {
    format!(
        "user {user:?} is not impersonated in cluster {cluster}: names that begin with \"system:\" mean somebody else there"
    )
}

/// A name or a group that is no header.
pub(crate) const NOT_A_HEADER: &str =
    "the user cannot be impersonated: a name holds characters that are not allowed in headers";

/// A path that leads out of the cluster's own.
pub(crate) const BAD_PATH: &str =
    "the path cannot be passed on: a part of it hides `..` behind an escape, or is no text";

/// Too many requests in flight.
pub(crate) fn too_many(user: &str, cluster: &str) -> String {
    format!("too many requests of user {user:?} to cluster {cluster} are in flight")
}

/// Too many requests of everybody.
pub(crate) fn too_many_of_all(cluster: &str) -> String {
    format!("too many requests to cluster {cluster} are in flight")
}

/// A verb that a resource does not have.
pub(crate) fn not_allowed(method: &str, resource: &str) -> String {
    format!("{method} is not supported on resources of kind {resource:?}")
}

/// Watching views.
pub(crate) const NO_WATCH: &str = "watch not supported";

/// Nothing is there.
pub(crate) const NO_RESOURCE: &str = "the server could not find the requested resource";

/// No media type of the request is one of ours.
pub(crate) const NOT_ACCEPTABLE: &str = "only the following media types are accepted: application/json, application/json;as=Table;g=meta.k8s.io;v=v1";

/// A selector that cannot be read.
pub(crate) fn bad_selector(text: &str) -> String {
    format!("unable to parse requirement: {text:?}")
}

/// A field that nobody selects by.
pub(crate) fn bad_field(text: &str) -> String {
    format!("field selector {text:?}: only metadata.name is supported")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_clients_know() {
        assert_eq!(
            no_cluster("clustergateways", "east"),
            "clustergateways.cluster.core.oam.dev \"east\" not found: no such cluster east"
        );
        assert_eq!(
            forbidden("alice", "get", "clustergateways/proxy", "east", ""),
            "clustergateways.cluster.core.oam.dev \"east\" is forbidden: User \"alice\" cannot get resource \
             \"clustergateways/proxy\" in API group \"cluster.core.oam.dev\" at the cluster scope"
        );
        for other in [
            unusable("a", "b"),
            not_reachable("a", "b"),
            not_found("virtualclusters", "a"),
            NOT_SYNCED.to_owned(),
        ] {
            assert!(!other.contains("no such cluster"), "{other}");
        }
    }
}
