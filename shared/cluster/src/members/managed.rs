//! Clusters of Open Cluster Management: a ManagedCluster says where its API server is, and a Secret of its name has the
//! credential. Tunnels (konnectivity) are not supported.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use vela_api::names::annotation;

use super::address::{self, AddressRules};

/// What counts of a ManagedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) alias: String,
    pub(super) created: Option<Timestamp>,
    pub(super) accepted: bool,
    url: String,
    /// PEM; empty if there is none.
    pub(super) authorities: Vec<u8>,
}

impl Managed {
    /// Reads one; `None` if it has no client configuration: such a one is no cluster yet.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let first = object.pointer("/spec/managedClusterClientConfigs/0")?;
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let metadata = object.get("metadata")?;
        let map = |key: &str| -> BTreeMap<String, String> {
            let entries = metadata.get(key).and_then(Value::as_object).into_iter().flatten();
            entries
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect()
        };
        Some(Self {
            uid: text(metadata, "uid"),
            labels: map("labels"),
            alias: map("annotations").remove(annotation::CLUSTER_ALIAS).unwrap_or_default(),
            created: text(metadata, "creationTimestamp").parse().ok(),
            accepted: object.pointer("/spec/hubAcceptsClient") == Some(&Value::Bool(true)),
            url: text(first, "url"),
            authorities: STANDARD.decode(text(first, "caBundle")).unwrap_or_default(),
        })
    }

    pub(super) fn endpoint(&self, rules: AddressRules) -> Result<Uri, &'static str> {
        if !self.accepted {
            return Err("the control plane does not accept it (spec.hubAcceptsClient)");
        }
        address::endpoint(&self.url, rules).map_err(|why| match why {
            "is empty" => "its first client configuration has no url",
            "is http: credentials are sent over https only" => {
                "the url of its first client configuration is http: credentials are sent over https only"
            }
            _ => "the url of its first client configuration cannot be used",
        })
    }

    /// A hash of how it is reached.
    pub(super) fn way(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (&self.url, &self.authorities, self.accepted).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_client_configuration_counts_and_without_one_it_is_no_cluster() {
        let of = |configs: Value, accepts: bool| {
            Managed::of(&json!({"metadata": {"uid": "u", "labels": {"region": "eu"},
                "annotations": {annotation::CLUSTER_ALIAS: "Edge"},
                "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"hubAcceptsClient": accepts, "managedClusterClientConfigs": configs}}))
        };
        assert_eq!(of(json!([]), true), None);
        let configs = json!([{"url": "https://10.0.0.1", "caBundle": STANDARD.encode("pem")},
            {"url": "https://10.0.0.2"}]);
        let one = of(configs.clone(), true).unwrap();
        assert_eq!((one.alias.as_str(), one.authorities.as_slice()), ("Edge", &b"pem"[..]));
        assert_eq!(one.labels.get("region").map(String::as_str), Some("eu"));
        assert!(one.created.is_some() && one.accepted);
        let rules = AddressRules::default();
        assert_eq!(one.endpoint(rules).unwrap(), "https://10.0.0.1/");
        let refused = of(configs, false).unwrap();
        assert!(refused.endpoint(rules).unwrap_err().contains("hubAcceptsClient"));
        assert_ne!(one.way(), refused.way());
        for (url, part) in
            [("", "no url"), ("http://a", "http"), ("https://127.0.0.1", "cannot be used")]
        {
            let why = of(json!([{ "url": url }]), true).unwrap().endpoint(rules).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
