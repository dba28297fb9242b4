//! What is served, as clients ask for it before anything else: groups, versions, resources.

use serde_json::{Value, json};

use crate::names::{GATEWAYS, GROUP, GROUP_VERSION, SHORT, VERSION, VIRTUAL};

/// The media types of the document that describes all resources of all groups at once.
const AGGREGATED: [(&str, &str); 2] =
    [("v2", "apidiscovery.k8s.io/v2"), ("v2beta1", "apidiscovery.k8s.io/v2beta1")];

fn group_object() -> Value {
    let version = json!({"groupVersion": GROUP_VERSION, "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// `/apis`.
pub(crate) fn groups() -> Value {
    json!({"apiVersion": "v1", "kind": "APIGroupList", "groups": [group_object()]})
}

/// `/apis/cluster.core.oam.dev`.
pub(crate) fn group() -> Value {
    let mut group = group_object();
    if let Some(group) = group.as_object_mut() {
        group.insert("apiVersion".to_owned(), json!("v1"));
        group.insert("kind".to_owned(), json!("APIGroup"));
    }
    group
}

const PROXY_VERBS: [&str; 5] = ["create", "delete", "get", "patch", "update"];

/// `/apis/cluster.core.oam.dev/v1alpha1`.
pub(crate) fn resources() -> Value {
    let resource = |name: &str, singular: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": singular, "namespaced": false, "kind": kind, "verbs": verbs});
    let mut clusters = resource(VIRTUAL, "virtualcluster", "VirtualCluster", &["get", "list"]);
    if let Some(clusters) = clusters.as_object_mut() {
        clusters.insert("shortNames".to_owned(), json!(SHORT));
    }
    json!({
        "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": GROUP_VERSION,
        "resources": [
            resource(GATEWAYS, "clustergateway", "ClusterGateway", &["get", "list"]),
            resource("clustergateways/health", "", "ClusterGateway", &["get"]),
            resource("clustergateways/proxy", "", "ClusterGatewayProxyOptions", &PROXY_VERBS),
            clusters,
        ],
    })
}

/// The version of the aggregated document that a client wants, by its `Accept`: its media type and its API version.
pub(crate) fn aggregated_version(accept: &str) -> Option<(String, &'static str)> {
    let wanted = accept.split(',').filter(|range| range.contains("as=APIGroupDiscoveryList"));
    let mut versions = wanted.filter_map(|range| {
        let version = range.split(';').find_map(|part| part.trim().strip_prefix("v="))?;
        AGGREGATED.into_iter().find(|(known, _)| *known == version)
    });
    let (version, api_version) = versions.next()?;
    let media =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    Some((media, api_version))
}

/// `/apis` as one document with all resources.
pub(crate) fn aggregated(api_version: &str) -> Value {
    let kind = |kind: &str| json!({"group": GROUP, "version": VERSION, "kind": kind});
    let sub = |name: &str, response: &str, verbs: &[&str]| json!({"subresource": name, "responseKind": kind(response), "verbs": verbs});
    let gateways = json!({
        "resource": GATEWAYS, "responseKind": kind("ClusterGateway"), "scope": "Cluster",
        "singularResource": "clustergateway", "verbs": ["get", "list"],
        "subresources": [
            sub("health", "ClusterGateway", &["get"]),
            sub("proxy", "ClusterGatewayProxyOptions", &PROXY_VERBS),
        ],
    });
    let clusters = json!({
        "resource": VIRTUAL, "responseKind": kind("VirtualCluster"), "scope": "Cluster",
        "singularResource": "virtualcluster", "shortNames": SHORT, "verbs": ["get", "list"],
    });
    json!({
        "apiVersion": api_version, "kind": "APIGroupDiscoveryList", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{"version": VERSION, "freshness": "Current", "resources": [gateways, clusters]}],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to ask names the same resources with the same verbs.
    #[test]
    fn all_documents_say_the_same() {
        let mut plain = Vec::new();
        for resource in resources()["resources"].as_array().unwrap() {
            plain.push(
                format!("{} {} {}", resource["name"], resource["kind"], resource["verbs"])
                    .replace('"', ""),
            );
        }
        plain.sort();
        let mut one = Vec::new();
        let document = aggregated("apidiscovery.k8s.io/v2");
        for resource in document["items"][0]["versions"][0]["resources"].as_array().unwrap() {
            let (name, kind) = (&resource["resource"], &resource["responseKind"]["kind"]);
            one.push(format!("{name} {kind} {}", resource["verbs"]).replace('"', ""));
            for sub in resource["subresources"].as_array().into_iter().flatten() {
                let kind = &sub["responseKind"]["kind"];
                one.push(
                    format!("{name}/{} {kind} {}", sub["subresource"], sub["verbs"])
                        .replace('"', ""),
                );
            }
        }
        one.sort();
        assert_eq!(plain, one);
        assert_eq!(groups()["groups"][0]["preferredVersion"], group()["preferredVersion"]);
    }

    #[test]
    fn the_document_for_aggregation_is_chosen_by_its_media_type() {
        let both = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (accept, expected) in [
            (both, Some("apidiscovery.k8s.io/v2")),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
                Some("apidiscovery.k8s.io/v2beta1"),
            ),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", None),
            ("application/json", None),
        ] {
            assert_eq!(aggregated_version(accept).map(|(_, version)| version), expected);
        }
    }
}
