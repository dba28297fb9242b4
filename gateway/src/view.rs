//! What people see of clusters: a ClusterGateway and a VirtualCluster of each Secret, without its credential.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use vela_api::cluster::LOCAL;
use vela_api::names::{annotation, label};
use vela_cluster::members::Cluster;

use crate::names::GROUP_VERSION;

/// An endpoint that nobody knows.
const BLANK: &str = "-";
/// Annotations in which a health check notes what it found.
const HEALTHY: &str = "status.cluster.core.oam.dev/healthy";
const HEALTHY_REASON: &str = "status.cluster.core.oam.dev/healthy-reason";

/// One cluster.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    created: Option<Timestamp>,
    /// `None`: it is not reached through here.
    pub(crate) gateway: Option<Value>,
    pub(crate) virtual_cluster: Value,
}

impl View {
    /// The control plane's own cluster.
    pub(crate) fn local() -> Self {
        let labels: BTreeMap<String, String> =
            [(label::CLUSTER_CONTROL_PLANE.to_owned(), "true".to_owned())].into();
        let metadata = json!({"name": LOCAL, "creationTimestamp": null, "labels": labels});
        let spec = json!({"accepted": true, "endpoint": BLANK, "credential-type": "Internal"});
        Self {
            name: LOCAL.to_owned(),
            labels,
            created: None,
            gateway: None,
            virtual_cluster: object("VirtualCluster", &metadata, &spec),
        }
    }

    /// What a Secret says. `cluster` was read from it.
    pub(crate) fn of(secret: &Secret, cluster: &Cluster) -> Self {
        let read = Read { secret };
        let metadata = read.metadata(&cluster.labels);
        let endpoint = read.text("endpoint");
        let kind = read.label(label::CLUSTER_CREDENTIAL_TYPE);
        let way = read.label(label::CLUSTER_ENDPOINT_TYPE);
        let shown = [way, &endpoint, BLANK].into_iter().find(|text| !text.is_empty());
        let mut spec = json!({"accepted": true, "endpoint": shown, "credential-type": kind});
        if !cluster.alias.is_empty() {
            put(&mut spec, "alias", json!(cluster.alias));
        }
        let mut gateway = object(
            "ClusterGateway",
            &metadata,
            &json!({"provider": "", "access": {
                "endpoint": read.endpoint(way, &endpoint),
                "credential": read.credential(kind),
            }}),
        );
        put(&mut gateway, "status", read.health(cluster));
        Self {
            name: cluster.name.clone(),
            labels: cluster.labels.clone(),
            created: cluster.created,
            gateway: Some(gateway),
            virtual_cluster: object("VirtualCluster", &metadata, &spec),
        }
    }

    /// What Open Cluster Management says, without a Secret: it is not reached through here.
    pub(crate) fn of_managed(cluster: &Cluster) -> Self {
        let created = cluster.created.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let metadata = json!({"name": cluster.name, "uid": cluster.secret_uid,
            "creationTimestamp": created, "labels": cluster.labels});
        let mut spec = json!({"accepted": cluster.accepted, "endpoint": BLANK,
            "credential-type": "ManagedCluster"});
        if !cluster.alias.is_empty() {
            put(&mut spec, "alias", json!(cluster.alias));
        }
        Self {
            name: cluster.name.clone(),
            labels: cluster.labels.clone(),
            created: cluster.created,
            gateway: None,
            virtual_cluster: object("VirtualCluster", &metadata, &spec),
        }
    }

    /// Where it comes in a list: the newest first, then by name.
    pub(crate) fn rank(&self) -> (Reverse<Option<Timestamp>>, &str) {
        (Reverse(self.created), &self.name)
    }
}

fn object(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": GROUP_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

struct Read<'s> {
    secret: &'s Secret,
}

impl Read<'_> {
    fn bytes(&self, key: &str) -> &[u8] {
        let found = self.secret.data.as_ref().and_then(|data| data.get(key));
        found.map(|bytes| bytes.0.as_slice()).unwrap_or_default()
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8_lossy(self.bytes(key)).trim().to_owned()
    }

    fn label(&self, key: &str) -> &str {
        let labels = self.secret.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> &str {
        let annotations = self.secret.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).map(String::as_str).unwrap_or_default()
    }

    /// Of annotations only those that are known: another one may be a copy of the Secret.
    fn metadata(&self, labels: &BTreeMap<String, String>) -> Value {
        let from = &self.secret.metadata;
        let mut annotations = Map::new();
        for key in [annotation::CLUSTER_ALIAS, annotation::CLUSTER_VERSION] {
            let text = self.annotation(key);
            if !text.is_empty() {
                annotations.insert(key.to_owned(), json!(text));
            }
        }
        let mut metadata = json!({
            "name": from.name, "uid": from.uid, "resourceVersion": from.resource_version,
            "creationTimestamp": from.creation_timestamp, "labels": labels,
        });
        if !annotations.is_empty() {
            put(&mut metadata, "annotations", Value::Object(annotations));
        }
        metadata
    }

    fn endpoint(&self, way: &str, address: &str) -> Value {
        if !matches!(way, "" | "Const") {
            return json!({ "type": way });
        }
        let bundle =
            [self.bytes("ca.crt"), self.bytes("ca")].into_iter().find(|bytes| !bytes.is_empty());
        let mut constant = json!({"address": without_user(address)});
        match bundle {
            Some(bundle) => put(&mut constant, "caBundle", json!(STANDARD.encode(bundle))),
            None => put(&mut constant, "insecure", json!(true)),
        }
        let proxy = self.text("proxy-url");
        if !proxy.is_empty() {
            put(&mut constant, "proxy-url", json!(without_user(&proxy)));
        }
        json!({"type": "Const", "const": constant})
    }

    /// Only who knows a credential already recognises it. The certificate is public, its key is not.
    fn credential(&self, kind: &str) -> Value {
        let mut credential = json!({ "type": kind });
        match kind {
            "ServiceAccountToken" => {
                put(&mut credential, "serviceAccountToken", json!(masked(self.bytes("token"))));
            }
            "X509Certificate" => {
                let key = STANDARD.encode(masked(self.bytes("tls.key")));
                let certificate = STANDARD.encode(self.bytes("tls.crt"));
                put(
                    &mut credential,
                    "x509",
                    json!({"certificate": certificate, "privateKey": key}),
                );
            }
            _ => {}
        }
        credential
    }

    fn health(&self, cluster: &Cluster) -> Value {
        if let Err(unusable) = &cluster.access {
            return json!({"healthy": false, "healthyReason": unusable.to_string()});
        }
        let mut status = json!({"healthy": self.annotation(HEALTHY) == "true"});
        let reason = self.annotation(HEALTHY_REASON);
        if !reason.is_empty() {
            put(&mut status, "healthyReason", json!(reason));
        }
        status
    }
}

/// The first bytes of the hash of a credential.
fn masked(bytes: &[u8]) -> String {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return String::new();
    }
    let digest = Sha256::digest(bytes);
    format!("sha256:{}", hex::encode(digest.get(..4).unwrap_or_default()))
}

/// An address without a user and a password, which some write into it.
fn without_user(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, address),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match scheme {
        Some(scheme) => format!("{scheme}://{host}{path}"),
        None => format!("{host}{path}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use vela_cluster::members::SecretRules;

    use super::*;

    pub(crate) fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> Secret {
        let data: Map<String, Value> = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value))))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "labels": {label::CLUSTER_CREDENTIAL_TYPE: kind, "region": "eu"},
                "annotations": {
                    annotation::CLUSTER_ALIAS: "Edge of town",
                    "kubectl.kubernetes.io/last-applied-configuration": "{\"stringData\":{\"token\":\"t0ken\"}}",
                }},
            "data": data,
        }))
        .unwrap()
    }

    pub(crate) fn view(secret: &Secret) -> View {
        View::of(secret, &Cluster::of(secret, SecretRules::default()))
    }

    const ENDPOINT: (&str, &str) = ("endpoint", "https://10.0.0.1:6443\n");

    #[test]
    fn a_token_is_in_no_view() {
        let secret = secret(
            "east",
            "ServiceAccountToken",
            &[ENDPOINT, ("token", "t0ken"), ("ca.crt", "PEM")],
        );
        let view = view(&secret);
        let labels = json!({"cluster.core.oam.dev/control-plane": "false", "region": "eu"});
        let metadata = json!({
            "name": "east", "uid": "uid-east", "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": labels, "annotations": {"cluster.core.oam.dev/cluster-alias": "Edge of town"},
        });
        let virtual_cluster = json!({
            "apiVersion": "cluster.core.oam.dev/v1alpha1", "kind": "VirtualCluster", "metadata": metadata,
            "spec": {"alias": "Edge of town", "accepted": true, "endpoint": "https://10.0.0.1:6443",
                "credential-type": "ServiceAccountToken"},
        });
        assert_eq!(view.virtual_cluster, virtual_cluster);
        let gateway = view.gateway.clone().unwrap();
        assert_eq!(
            gateway["spec"],
            json!({"provider": "", "access": {
                "endpoint": {"type": "Const", "const": {"address": "https://10.0.0.1:6443", "caBundle": "UEVN"}},
                "credential": {"type": "ServiceAccountToken", "serviceAccountToken": masked(b"t0ken")}}})
        );
        let shown = format!("{gateway}{}", view.virtual_cluster);
        assert!(!shown.contains("t0ken") && !shown.contains(&STANDARD.encode("t0ken")), "{shown}");
        assert_eq!(masked(b"t0ken\n"), masked(b"t0ken"));
        assert_eq!(masked(b"t0ken").len(), "sha256:".len() + 8);
    }

    #[test]
    fn neither_is_a_key_nor_a_password() {
        let data = [
            ("endpoint", "https://u:pa55@10.0.0.1"),
            ("proxy-url", "http://u:pa55@proxy:3128/"),
            ("tls.crt", "CERT"),
            ("tls.key", "s3cret key"),
        ];
        let view = view(&secret("east", "X509Certificate", &data));
        let gateway = view.gateway.clone().unwrap();
        let access = &gateway["spec"]["access"];
        assert_eq!(access["credential"]["x509"]["certificate"], STANDARD.encode("CERT"));
        assert_eq!(access["endpoint"]["const"]["insecure"], true);
        assert_eq!(access["endpoint"]["const"]["proxy-url"], "http://proxy:3128/");
        assert_eq!(gateway["status"]["healthy"], false);
        assert!(gateway["status"]["healthyReason"].as_str().unwrap().contains("endpoint"));
        let shown = gateway.to_string();
        assert!(
            !shown.contains("pa55") && !shown.contains(&STANDARD.encode("s3cret key")),
            "{shown}"
        );
    }

    #[test]
    fn every_kind_of_cluster_has_an_endpoint_to_show() {
        let mut tunnel = secret("east", "ServiceAccountToken", &[("token", "t")]);
        let endpoint = |secret: &Secret| view(secret).virtual_cluster["spec"]["endpoint"].clone();
        assert_eq!(endpoint(&tunnel), "-");
        let labels = tunnel.metadata.labels.as_mut().unwrap();
        labels.insert(label::CLUSTER_ENDPOINT_TYPE.to_owned(), "ClusterProxy".to_owned());
        assert_eq!(endpoint(&tunnel), "ClusterProxy");
        assert_eq!(
            view(&tunnel).gateway.unwrap()["spec"]["access"]["endpoint"],
            json!({"type": "ClusterProxy"})
        );
        let local = View::local();
        assert!(local.gateway.is_none());
        assert_eq!(
            local.virtual_cluster["spec"],
            json!({"accepted": true, "endpoint": "-", "credential-type": "Internal"})
        );
        for (address, shown) in [
            ("https://a:1/b?c@d", "https://a:1/b?c@d"),
            ("socks5://x:y@z@h:1", "socks5://h:1"),
            ("u:p@h", "h"),
            ("", ""),
        ] {
            assert_eq!(without_user(address), shown);
        }
    }
}
