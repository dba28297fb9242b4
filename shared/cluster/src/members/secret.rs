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
use super::exchange::{ExchangeError, ExchangeRules};
use super::exec::Exec;
use super::expiry::{self, Validity};
use super::managed::Managed;
use super::proof;
use super::proxy::Proxy;

/// A cluster that joined.
#[derive(Debug)]
pub struct Cluster {
    /// The name of its Secret.
    pub name: String,
    /// uid of the Secret with the credential; another one is another cluster.
    pub secret_uid: String,
    /// Labels as selectors see them: the user's, and whether it is the control plane.
    pub labels: BTreeMap<String, String>,
    /// A name for people; several may have it, and nothing is found by it.
    pub alias: String,
    /// When it joined.
    pub created: Option<Timestamp>,
    /// Whether the control plane accepts it: Open Cluster Management may not yet.
    pub accepted: bool,
    /// A hash of all that a connection is made of.
    pub fingerprint: u64,
    /// What is to become of what was left behind in it.
    pub left_behind: LeftBehind,
    /// As whom identities arrive there, before the rules of all clusters.
    pub exchange: ExchangeRules,
    /// A hash of the authorities that its certificate is checked with; empty: it is not checked.
    pub(super) authority: String,
    /// A hash of the text of these rules.
    pub(super) exchange_text: u64,
    /// How it is reached.
    pub access: Result<Access, Unusable>,
}

/// How the API server of a cluster is reached. Credentials are in here: it shows nothing of itself.
pub struct Access {
    pub(crate) uri: Uri,
    /// The authorities that its certificate is checked with; `None`: it is not checked.
    pub(crate) authorities: Option<Vec<Vec<u8>>>,
    pub(crate) credential: Credential,
    pub(crate) proxy: Option<Proxy>,
}

/// What a connection is made with.
pub(crate) enum Credential {
    /// A token, or a certificate with its key.
    Fixed(Box<AuthInfo>),
    /// What a command answers.
    Exec(Exec),
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

    /// A hash of the authorities that its certificate is checked with; empty: it is not checked.
    fn authority(&self) -> String {
        proof::authority(self.authorities.as_deref())
    }

    /// From when to when the credential is valid, if it says so.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        match &self.credential {
            Credential::Fixed(auth) => expiry::of(auth),
            Credential::Exec(_) => None,
        }
    }
}

/// What is to become of objects that were left behind in a cluster that is there again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftBehind {
    /// Nothing.
    #[default]
    Keep,
    /// They are deleted.
    Collect,
    /// They are not remembered any more.
    Forget,
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
    /// Commands are not run: there is no directory of commands that may be.
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
    /// Rules about identities that cannot be followed.
    #[error("annotation {EXCHANGE}: {0}")]
    Exchange(ExchangeError),
    /// A cluster of Open Cluster Management that nothing says how to reach.
    #[error("ManagedCluster: {0}")]
    Managed(&'static str),
}

const CREDENTIAL_TYPE: &str = label::CLUSTER_CREDENTIAL_TYPE;
const ENDPOINT_TYPE: &str = label::CLUSTER_ENDPOINT_TYPE;
const ROUTE: &str = annotation::CLUSTER_ROUTE;
const EXCHANGE: &str = annotation::CLUSTER_EXCHANGE;

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
        Self::with(secret, None, rules)
    }

    /// Reads a Secret; what it does not say of the way to its cluster a ManagedCluster of the same name does.
    pub(super) fn with(secret: &Secret, managed: Option<&Managed>, rules: SecretRules) -> Self {
        let metadata = &secret.metadata;
        let labels = metadata.labels.clone().unwrap_or_default();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let text =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
        // A tunnel is no way for us, and what the ManagedCluster says is a direct one.
        let managed = managed.filter(|_| !has(secret, "endpoint"));
        let exchange = ExchangeRules::read(&text(&annotations, EXCHANGE));
        let access = match &exchange {
            _ if name == LOCAL => Err(Unusable::Reserved),
            Err(error) => Err(Unusable::Exchange(error.clone())),
            Ok(_) => {
                let read =
                    Read { secret, labels: &labels, annotations: &annotations, managed, rules };
                read.access()
            }
        };
        let exchange_text = {
            let mut hasher = DefaultHasher::new();
            text(&annotations, EXCHANGE).hash(&mut hasher);
            hasher.finish()
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
            // Rules are followed over the same connection; there is none while they cannot be.
            exchange.is_ok().hash(&mut hasher);
            managed.map(Managed::way).hash(&mut hasher);
            hasher.finish()
        };
        Self {
            authority: access.as_ref().map(Access::authority).unwrap_or_default(),
            labels: view_labels(labels),
            alias: text(&annotations, annotation::CLUSTER_ALIAS),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            accepted: true,
            secret_uid: metadata.uid.clone().unwrap_or_default(),
            left_behind: match text(&annotations, annotation::CLUSTER_LEFT_BEHIND).as_str() {
                "collect" => LeftBehind::Collect,
                "forget" => LeftBehind::Forget,
                _ => LeftBehind::Keep,
            },
            name,
            fingerprint,
            exchange: exchange.unwrap_or_default(),
            exchange_text,
            access,
        }
    }

    /// A ManagedCluster without a Secret: it is there, and cannot be reached directly.
    pub(super) fn of_managed(name: &str, managed: &Managed) -> Self {
        Self {
            labels: view_labels(managed.labels.clone()),
            alias: managed.alias.clone(),
            created: managed.created,
            accepted: managed.accepted,
            secret_uid: managed.uid.clone(),
            name: name.to_owned(),
            left_behind: LeftBehind::Keep,
            fingerprint: 0,
            authority: String::new(),
            exchange: ExchangeRules::default(),
            exchange_text: 0,
            access: Err(Unusable::Managed(NO_CREDENTIAL)),
        }
    }

    /// Whether nothing that is shown or decided of it differs.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.is_same_connection(other)
            && self.labels == other.labels
            && self.alias == other.alias
            && self.accepted == other.accepted
            && self.left_behind == other.left_behind
            && self.exchange_text == other.exchange_text
    }

    /// Whether both are reached in the same way.
    pub(super) fn is_same_connection(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint && self.secret_uid == other.secret_uid
    }

    /// Whether another credential is all that is new: the same API server, checked and reached in the same way, under the same rules.
    pub(super) fn has_another_credential(&self, newer: &Self) -> bool {
        let (Ok(access), Ok(new)) = (&self.access, &newer.access) else { return false };
        !self.is_same_connection(newer)
            && self.secret_uid == newer.secret_uid
            && self.accepted == newer.accepted
            && self.exchange_text == newer.exchange_text
            && self.authority == newer.authority
            && access.uri == new.uri
            && access.proxy == new.proxy
    }
}

/// What a ManagedCluster alone does not have.
const NO_CREDENTIAL: &str = "there is no Secret of its name with label \
    cluster.core.oam.dev/cluster-credential-type and a token; reaching it without one needs a gateway of Open Cluster Management, \
    which is not supported";

fn has(secret: &Secret, key: &str) -> bool {
    let found = secret.data.as_ref().and_then(|data| data.get(key));
    found.is_some_and(|bytes| !bytes.0.trim_ascii().is_empty())
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
    managed: Option<&'s Managed>,
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
        let uri = match self.managed {
            Some(managed) => managed.endpoint(self.rules.addresses).map_err(Unusable::Managed)?,
            None => address::endpoint(self.text("endpoint")?, self.rules.addresses)
                .map_err(|why| Unusable::Unreadable("endpoint", why))?,
        };
        let proxy = match self.bytes("proxy-url") {
            None => None,
            Some(_) => Some(
                Proxy::read(self.text("proxy-url")?, self.rules.addresses)
                    .map_err(|why| Unusable::Unreadable("proxy-url", why))?,
            ),
        };
        let credential = match kind.as_str() {
            "X509Certificate" => Credential::Fixed(Box::new(self.certificate()?)),
            "ServiceAccountToken" => Credential::Fixed(Box::new(self.token()?)),
            "Dynamic" => Credential::Exec(
                Exec::read(self.text("exec")?).map_err(|why| Unusable::Unreadable("exec", why))?,
            ),
            "" => return Err(Unusable::NoCredentialType),
            other => return Err(Unusable::CredentialType(other.to_owned())),
        };
        let authorities = self.authorities()?;
        if authorities.is_none() && self.rules.refuse_insecure {
            return Err(Unusable::Insecure);
        }
        Ok(Access { uri, authorities, credential, proxy })
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
        let managed = || Some(("caBundle", self.managed?.authorities.as_slice()));
        let managed = || managed().filter(|(_, bytes)| !bytes.is_empty());
        let found = named("ca.crt").or_else(|| named("ca")).or_else(managed);
        let Some((key, bytes)) = found else { return Ok(None) };
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
    const EXEC: &str = r#"{"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["s3cret"]}"#;
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
            ("Dynamic", TOKEN.to_vec(), Some("key exec is missing")),
            ("Dynamic", [&TOKEN[..], &[("exec", "{}")]].concat(), Some("key exec")),
            ("Dynamic", [&TOKEN[..], &[("exec", EXEC)]].concat(), None),
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
                [&TOKEN[..], &[("proxy-url", "ftp://p")]].concat(),
                Some("key proxy-url"),
            ),
            (
                "ServiceAccountToken",
                [&TOKEN[..], &[("proxy-url", "http://169.254.169.254")]].concat(),
                Some("key proxy-url"),
            ),
            ("ServiceAccountToken", [&TOKEN[..], &[("proxy-url", "http://p")]].concat(), None),
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
        for data in [
            [("endpoint", "https://u:pa55@10.0.0.1"), ("token", "t0ken"), ("x", "")],
            [TOKEN[0], TOKEN[1], ("proxy-url", "http://u:pa55@p")],
            [TOKEN[0], TOKEN[1], ("proxy-url", "http://u:pa55@p?x")],
        ] {
            let shown = format!("{:?}", read(&secret("edge", "ServiceAccountToken", &data)));
            assert!(!shown.contains("pa55") && !shown.contains("t0ken"), "{shown}");
        }
        let data = [&TOKEN[..], &[("exec", EXEC)]].concat();
        let shown = format!("{:?}", read(&secret("edge", "Dynamic", &data)));
        assert!(!shown.contains("s3cret"), "{shown}");
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

    #[test]
    fn rules_about_identities_change_no_connection_and_wrong_ones_close_it() {
        let one = |rules: &str| {
            let mut one = secret("edge", "ServiceAccountToken", &TOKEN);
            let text = format!(
                "{{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration,
                  spec: {{clientIdentityExchanger: {{rules: [{rules}]}}}}}}"
            );
            one["metadata"]["annotations"] = json!({ EXCHANGE: text });
            read(&one)
        };
        let (none, some) = (one(""), one("{type: PrivilegedIdentityExchanger, source: {user: a}}"));
        assert!(some.access.is_ok() && none.is_same_connection(&some) && !none.is_same(&some));
        let wrong = one("{name: r, type: PrivilegedIdentityExchanger, source: {userPattern: '('}}");
        let why = wrong.access.as_ref().unwrap_err().to_string();
        assert!(why.contains(EXCHANGE) && why.contains("\"r\""), "{why}");
        assert!(!wrong.is_same_connection(&some));
    }

    #[test]
    fn a_secret_without_an_endpoint_is_completed_by_its_managed_cluster() {
        let managed = |url: &str| {
            Managed::of(&json!({"metadata": {"name": "edge", "uid": "m"}, "spec": {
                "hubAcceptsClient": true, "managedClusterClientConfigs": [{"url": url}]}}))
            .unwrap()
        };
        let rules = SecretRules::default();
        let with = |data: &[(&str, &str)], url: &str| {
            let secret = secret("edge", "ServiceAccountToken", data);
            Cluster::with(&serde_json::from_value(secret).unwrap(), Some(&managed(url)), rules)
        };
        let token = [("token", "t")];
        assert_eq!(with(&token, "https://10.0.0.9").access.unwrap().uri, "https://10.0.0.9/");
        let why = with(&token, "http://10.0.0.9").access.unwrap_err().to_string();
        assert!(why.contains("ManagedCluster") && why.contains("http"), "{why}");
        // What the Secret says comes first.
        assert_eq!(with(&TOKEN, "https://10.0.0.9").access.unwrap().uri, "https://10.0.0.1:6443/");
        let (one, other) = (with(&token, "https://10.0.0.9"), with(&token, "https://10.0.0.8"));
        assert!(!one.is_same_connection(&other));
        let alone = Cluster::of_managed("edge", &managed("https://10.0.0.9"));
        assert!(alone.accepted && alone.access.unwrap_err().to_string().contains("no Secret"));
    }
}
