//! The schemas of both kinds, as the API server merges them into its own: `kubectl explain` reads them.

use serde_json::{Value, json};

use crate::names::{GATEWAYS, GROUP, VERSION, VIRTUAL};

/// Where the document of the version is, behind `/openapi/v3/`.
pub(crate) const V3_PATH: &str = "apis/cluster.core.oam.dev/v1alpha1";

const GATEWAY: &str = "dev.oam.core.cluster.v1alpha1.ClusterGateway";
const CLUSTER: &str = "dev.oam.core.cluster.v1alpha1.VirtualCluster";

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn schemas() -> [(&'static str, &'static str, Value); 2] {
    let endpoint = json!({"type": "object", "description": "How the cluster is reached", "properties": {
        "type": text("Const or ClusterProxy"),
        "const": {"type": "object", "description": "A fixed address", "properties": {
            "address": text("Address of the API server"),
            "caBundle": {"type": "string", "format": "byte", "description": "Authorities of its certificate, PEM"},
            "insecure": {"type": "boolean", "description": "Whether its certificate is not checked"},
            "proxy-url": text("A proxy on the way"),
        }},
    }});
    let credential = json!({"type": "object", "description": "The credential; secrets are shown as their hashes",
    "properties": {
        "type": text("X509Certificate, ServiceAccountToken or Dynamic"),
        "serviceAccountToken": text("First bytes of the hash of the token"),
        "x509": {"type": "object", "description": "A certificate", "properties": {
            "certificate": {"type": "string", "format": "byte", "description": "PEM"},
            "privateKey": {"type": "string", "format": "byte", "description": "First bytes of the hash of the key"},
        }},
    }});
    let gateway = json!({"type": "object", "description": "A cluster that joined, as it is reached", "properties": {
        "apiVersion": text("API version"), "kind": text("Kind"),
        "metadata": {"type": "object", "description": "Name and labels"},
        "spec": {"type": "object", "description": "How it is reached", "properties": {
            "provider": text("Provider of the cluster"),
            "access": {"type": "object", "description": "Address and credential",
                "properties": {"endpoint": endpoint, "credential": credential}},
        }},
        "status": {"type": "object", "description": "What is known of it", "properties": {
            "healthy": {"type": "boolean", "description": "What a health check found last"},
            "healthyReason": text("Why it is not healthy"),
        }},
    }});
    let cluster = json!({"type": "object", "description": "A cluster, as people see it", "properties": {
        "apiVersion": text("API version"), "kind": text("Kind"),
        "metadata": {"type": "object", "description": "Name and labels"},
        "spec": {"type": "object", "description": "What is known of it", "properties": {
            "alias": text("A name for people"),
            "accepted": {"type": "boolean", "description": "Whether the control plane accepts it"},
            "endpoint": text("Address of its API server"),
            "credential-type": text("Type of the credential"),
        }},
    }});
    [(GATEWAY, "ClusterGateway", gateway), (CLUSTER, "VirtualCluster", cluster)]
}

/// Schemas with the kinds that they are of.
fn marked() -> Value {
    let mut all = serde_json::Map::new();
    for (name, kind, mut schema) in schemas() {
        if let Some(schema) = schema.as_object_mut() {
            let of = json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
            schema.insert("x-kubernetes-group-version-kind".to_owned(), of);
        }
        all.insert(name.to_owned(), schema);
    }
    Value::Object(all)
}

/// Paths of the reads of a resource; `reference` leads to the schema.
fn paths(content: impl Fn(&str) -> Value, parameter: &Value) -> Value {
    let mut all = serde_json::Map::new();
    for (resource, kind, name) in
        [(GATEWAYS, "ClusterGateway", GATEWAY), (VIRTUAL, "VirtualCluster", CLUSTER)]
    {
        let mut operation = json!({
            "operationId": format!("readClusterCoreOamDevV1alpha1{kind}"), "description": format!("read a {kind}"),
            "tags": ["clusterCoreOamDev_v1alpha1"], "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": kind},
        });
        if let Some(operation) = operation.as_object_mut() {
            operation.insert("responses".to_owned(), json!({"200": content(name)}));
        }
        let path = format!("/apis/{GROUP}/{VERSION}/{resource}/{{name}}");
        all.insert(path, json!({"get": operation, "parameters": [parameter]}));
    }
    Value::Object(all)
}

/// `/openapi/v2`.
pub(crate) fn v2() -> Value {
    let content = |name: &str| json!({"description": "OK", "schema": {"$ref": format!("#/definitions/{name}")}});
    let parameter = json!({"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true,
        "description": "name of the cluster"});
    json!({
        "swagger": "2.0", "info": {"title": "vela-gateway", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths(content, &parameter), "definitions": marked(),
    })
}

/// `/openapi/v3`.
pub(crate) fn v3() -> Value {
    // Clients keep a document as long as its address is the same.
    let address = format!("/openapi/v3/{V3_PATH}?hash={}", env!("CARGO_PKG_VERSION"));
    json!({"paths": {V3_PATH: {"serverRelativeURL": address}}})
}

/// `/openapi/v3/apis/cluster.core.oam.dev/v1alpha1`.
pub(crate) fn v3_version() -> Value {
    let content = |name: &str| {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
        json!({"description": "OK", "content": {"application/json": schema}})
    };
    let parameter = json!({"name": "name", "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true},
        "description": "name of the cluster"});
    json!({
        "openapi": "3.0.0", "info": {"title": "vela-gateway", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths(content, &parameter), "components": {"schemas": marked()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        for document in [v2(), v3_version()] {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert_eq!(found.len(), 2);
            for reference in found {
                assert!(
                    document.pointer(reference.trim_start_matches('#')).is_some(),
                    "{reference}"
                );
            }
        }
        assert!(
            v3()["paths"][V3_PATH]["serverRelativeURL"]
                .as_str()
                .unwrap()
                .ends_with(env!("CARGO_PKG_VERSION"))
        );
    }
}
