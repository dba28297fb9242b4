//! A cluster as its Secret describes it: name, labels and alias as views show them, and how it is reached. A Secret that cannot
//! be used is still a cluster, with the reason; it is never as if it did not exist.
//!
//! Upstream: `cluster-gateway` `pkg/apis/cluster/v1alpha1/transport.go`, `kubevela/pkg/multicluster`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::config::AuthInfo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use vela_api::cluster::LOCAL;
use vela_api::names::{annotation, label};

use super::address::{self, AddressRules};

/// A cluster that joined.
#[derive(Debug)]
pub struct Cluster {
    /// The name of its Secret.
    pub name: String,
    /// The uid of its Secret.
    pub secret_uid: String,
    /// Labels as selectors see them: the user's, and whether it is the control plane.
    pub labels: BTreeMap<String, String>,
    /// A name for people; several may have it, and nothing is found by it.
    pub alias: String,
    /// When it joined.
    pub created: Option<Timestamp>,
    /// A hash of all that a connection is made of.
    pub fingerprint: u64,
    /// How it is reached.
    pub access: Result<Access, Unusable>,
}

/// How the API server of a cluster is reached. Credentials are in here: it shows nothing of itself.
pub struct Access {
    pub(crate) uri: Uri,
    /// The authorities that its certificate is checked with; `None`: it is not checked.
    pub(crate) authorities: Option<Vec<Vec<u8>>>,
    pub(crate) auth: AuthInfo,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl Access {
    /// Whether the certificate of the API server is not checked.
    #[must_use]
    pub fn is_insecure(&self) -> bool {
        self.authorities.is_none()
    }
}

/// Why the Secret of a cluster cannot be used. Every text names the field, none its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The name means the control plane's own cluster.
    #[error("the name `local` is reserved for the cluster of the control plane")]
    Reserved,
    /// No label, or an empty one.
    #[error("label {CREDENTIAL_TYPE} is empty")]
    NoCredentialType,
    /// A type that nobody knows.
    #[error("label {CREDENTIAL_TYPE}: unrecognized secret credential type {0}")]
    CredentialType(String),
    /// Commands are not run.
    #[error("label {CREDENTIAL_TYPE}: credential type Dynamic is not enabled")]
    Dynamic,
    /// A tunnel.
    #[error(
        "label {ENDPOINT_TYPE}: endpoint type {0} needs a gateway with the OCM tunnel, which is not supported"
    )]
    EndpointType(String),
    /// The way through a gateway.
    #[error("annotation {ROUTE}: clusters are reached directly, the route {0:?} is not supported")]
    Route(String),
    /// A key of the data is absent or empty.
    #[error("key {0} is missing")]
    Missing(&'static str),
    /// A key of the data that cannot be read.
    #[error("key {0} {1}")]
    Unreadable(&'static str, &'static str),
    /// No certificate to check that of the API server with, and that is refused.
    #[error("key ca.crt is missing, and clusters whose certificate is not checked are refused")]
    Insecure,
}

const CREDENTIAL_TYPE: &str = label::CLUSTER_CREDENTIAL_TYPE;
const ENDPOINT_TYPE: &str = label::CLUSTER_ENDPOINT_TYPE;
const ROUTE: &str = annotation::CLUSTER_ROUTE;

/// What of Secrets is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecretRules {
    /// Which addresses may be connected to.
    pub addresses: AddressRules,
    /// A cluster without a certificate authority is refused.
    pub refuse_insecure: bool,
}

impl Cluster {
    /// Reads a Secret.
    #[must_use]
    pub fn of(secret: &Secret, rules: SecretRules) -> Self {
        let metadata = &secret.metadata;
        let labels = metadata.labels.clone().unwrap_or_default();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let text =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
        let access = if name == LOCAL {
            Err(Unusable::Reserved)
        } else {
            let read = Read { secret, labels: &labels, annotations: &annotations, rules };
            read.access()
        };
        let fingerprint = {
            let mut hasher = DefaultHasher::new();
            for (key, value) in secret.data.iter().flatten() {
                (key, &value.0).hash(&mut hasher);
            }
            for key in [CREDENTIAL_TYPE, ENDPOINT_TYPE] {
                text(&labels, key).hash(&mut hasher);
            }
            text(&annotations, ROUTE).hash(&mut hasher);
            hasher.finish()
        };
        Self {
            labels: view_labels(labels),
            alias: text(&annotations, annotation::CLUSTER_ALIAS),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            secret_uid: metadata.uid.clone().unwrap_or_default(),
            name,
            fingerprint,
            access,
        }
    }
}

/// Labels as views show them: what the domain of clusters says of itself is not a label of the cluster.
fn view_labels(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|key, _| !key.starts_with(DOMAIN));
    labels.insert(label::CLUSTER_CONTROL_PLANE.to_owned(), "false".to_owned());
    labels
}

/// Labels that begin with it are about the Secret.
const DOMAIN: &str = "cluster.core.oam.dev";

struct Read<'s> {
    secret: &'s Secret,
    labels: &'s BTreeMap<String, String>,
    annotations: &'s BTreeMap<String, String>,
    rules: SecretRules,
}

impl Read<'_> {
    fn access(&self) -> Result<Access, Unusable> {
        let of =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
        let kind = of(self.labels, CREDENTIAL_TYPE);
        match of(self.labels, ENDPOINT_TYPE).as_str() {
            "" | "Const" => {}
            other => return Err(Unusable::EndpointType(other.to_owned())),
        }
        let route = of(self.annotations, ROUTE);
        if !route.is_empty() {
            return Err(Unusable::Route(route));
        }
        let uri = self.text("endpoint")?;
        let uri = address::endpoint(uri, self.rules.addresses)
            .map_err(|why| Unusable::Unreadable("endpoint", why))?;
        if self.bytes("proxy-url").is_some() {
            return Err(Unusable::Unreadable("proxy-url", "is set: proxies are not supported"));
        }
        let auth = match kind.as_str() {
            "X509Certificate" => self.certificate()?,
            "ServiceAccountToken" => self.token()?,
            "Dynamic" => return Err(Unusable::Dynamic),
            "" => return Err(Unusable::NoCredentialType),
            other => return Err(Unusable::CredentialType(other.to_owned())),
        };
        let authorities = self.authorities()?;
        if authorities.is_none() && self.rules.refuse_insecure {
            return Err(Unusable::Insecure);
        }
        Ok(Access { uri, authorities, auth })
    }

    fn bytes(&self, key: &str) -> Option<&[u8]> {
        let found = self.secret.data.as_ref()?.get(key)?;
        Some(found.0.as_slice()).filter(|bytes| !bytes.trim_ascii().is_empty())
    }

    fn text(&self, key: &'static str) -> Result<&str, Unusable> {
        let bytes = self.bytes(key).ok_or(Unusable::Missing(key))?;
        std::str::from_utf8(bytes)
            .map(str::trim)
            .map_err(|_| Unusable::Unreadable(key, "is no text"))
    }

    fn token(&self) -> Result<AuthInfo, Unusable> {
        let token = self.text("token")?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Unusable::Unreadable("token", "is no bearer token"));
        }
        Ok(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() })
    }

    fn certificate(&self) -> Result<AuthInfo, Unusable> {
        let (certificate, key) = (self.text("tls.crt")?, self.text("tls.key")?);
        CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| Unusable::Unreadable("tls.crt", "is no certificate in PEM"))?;
        PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| Unusable::Unreadable("tls.key", "is no private key in PEM"))?;
        Ok(AuthInfo {
            client_certificate_data: Some(STANDARD.encode(certificate)),
            client_key_data: Some(STANDARD.encode(key).into()),
            ..AuthInfo::default()
        })
    }

    fn authorities(&self) -> Result<Option<Vec<Vec<u8>>>, Unusable> {
        let named = |key| self.bytes(key).map(|bytes| (key, bytes));
        let Some((key, bytes)) = named("ca.crt").or_else(|| named("ca")) else { return Ok(None) };
        let unreadable = Unusable::Unreadable(key, "is no bundle of certificates in PEM");
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes)
            .map(|certificate| certificate.map(|der| der.to_vec()))
            .collect();
        match all {
            Ok(all) if !all.is_empty() => Ok(Some(all)),
            _ => Err(unreadable),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Secret with data that is not base64 yet.
    pub(in super::super) fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> Value {
        let data: serde_json::Map<String, Value> = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value))))
            .collect();
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "vela-system", "uid": format!("s-{name}"),
                "labels": {CREDENTIAL_TYPE: kind}},
            "data": data})
    }

    fn read(secret: &Value) -> Cluster {
        let rules = SecretRules { refuse_insecure: false, ..SecretRules::default() };
        Cluster::of(&serde_json::from_value(secret.clone()).unwrap(), rules)
    }

    const TOKEN: [(&str, &str); 2] = [("endpoint", "https://10.0.0.1:6443\n"), ("token", "t0ken")];
    // Shaped like what openssl writes; nothing looks inside.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";

    #[test]
    fn every_kind_of_secret_is_read_or_says_which_field_is_wrong() {
        let good = "https://10.0.0.1:6443";
        let x509 = [("endpoint", good), ("tls.crt", CERTIFICATE), ("tls.key", KEY)];
        for (kind, data, wrong) in [
            ("ServiceAccountToken", TOKEN.to_vec(), None),
            ("ServiceAccountToken", [&TOKEN[..], &[("ca.crt", CERTIFICATE)]].concat(), None),
            ("ServiceAccountToken", [&TOKEN[..], &[("ca", CERTIFICATE)]].concat(), None),
            ("X509Certificate", x509.to_vec(), None),
            ("", TOKEN.to_vec(), Some("credential-type")),
            ("Fancy", TOKEN.to_vec(), Some("unrecognized secret credential type Fancy")),
            ("Dynamic", TOKEN.to_vec(), Some("credential type Dynamic is not enabled")),
            ("ServiceAccountToken", vec![("token", "t")], Some("key endpoint is missing")),
            ("ServiceAccountToken", vec![("endpoint", good)], Some("key token is missing")),
            ("ServiceAccountToken", vec![("endpoint", good), ("token", "a b")], Some("key token")),
            ("ServiceAccountToken", vec![("endpoint", "http://a"), ("token", "t")], Some("http")),
            (
                "ServiceAccountToken",
                [&TOKEN[..], &[("ca.crt", "x")]].concat(),
                Some("key ca.crt is no bundle"),
            ),
            (
                "ServiceAccountToken",
                [&TOKEN[..], &[("proxy-url", "http://p")]].concat(),
                Some("key proxy-url"),
            ),
            ("X509Certificate", x509[..2].to_vec(), Some("key tls.key is missing")),
            ("X509Certificate", vec![x509[0], ("tls.crt", "x"), x509[2]], Some("key tls.crt")),
            ("X509Certificate", vec![x509[0], x509[1], ("tls.key", "x")], Some("key tls.key")),
        ] {
            let cluster = read(&secret("edge", kind, &data));
            assert_eq!(cluster.name, "edge");
            match (cluster.access, wrong) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => {
                    assert!(error.to_string().contains(part), "{error}");
                }
                (access, wrong) => panic!("{kind} {access:?} {wrong:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_supported_says_so() {
        let mut one = secret("edge", "ServiceAccountToken", &TOKEN);
        one["metadata"]["labels"][ENDPOINT_TYPE] = json!("ClusterProxy");
        assert!(matches!(read(&one).access, Err(Unusable::EndpointType(_))));
        one["metadata"]["labels"][ENDPOINT_TYPE] = json!("Const");
        assert!(read(&one).access.is_ok());
        one["metadata"]["annotations"] = json!({ROUTE: "gateway"});
        assert!(matches!(read(&one).access, Err(Unusable::Route(_))));
        let local = secret("local", "ServiceAccountToken", &TOKEN);
        assert_eq!(read(&local).access.err(), Some(Unusable::Reserved));
        let refused = SecretRules { refuse_insecure: true, ..SecretRules::default() };
        let one = secret("edge", "ServiceAccountToken", &TOKEN);
        let one = Cluster::of(&serde_json::from_value(one).unwrap(), refused);
        assert_eq!(one.access.err(), Some(Unusable::Insecure));
    }

    #[test]
    fn credentials_are_in_no_text() {
        let data = [&TOKEN[..], &[("tls.key", KEY)]].concat();
        let shown = format!("{:?}", read(&secret("edge", "ServiceAccountToken", &data)));
        assert!(!shown.contains("t0ken") && !shown.contains("PRIVATE"), "{shown}");
        let data = [("endpoint", "https://u:pa55@10.0.0.1"), ("token", "t0ken")];
        let shown = format!("{:?}", read(&secret("edge", "ServiceAccountToken", &data)));
        assert!(!shown.contains("pa55") && !shown.contains("t0ken"), "{shown}");
    }

    #[test]
    fn labels_are_those_of_the_view_and_only_the_connection_counts_for_a_new_client() {
        let mut one = secret("edge", "ServiceAccountToken", &TOKEN);
        one["metadata"]["labels"]["region"] = json!("eu");
        one["metadata"]["annotations"] = json!({annotation::CLUSTER_ALIAS: "Edge of town"});
        let first = read(&one);
        let labels: Vec<_> = first.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["cluster.core.oam.dev/control-plane=false", "region=eu"]);
        assert_eq!(first.alias, "Edge of town");
        one["metadata"]["labels"]["region"] = json!("us");
        assert_eq!(read(&one).fingerprint, first.fingerprint);
        one["data"]["token"] = json!(STANDARD.encode("other"));
        assert_ne!(read(&one).fingerprint, first.fingerprint);
    }
}
