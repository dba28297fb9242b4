//! Credentials for a source of charts, from a Secret. Pure; a Secret that asks for something dangerous is refused.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderValue;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use vela_helm::request::Source;

/// How a request is authenticated.
#[derive(Clone, PartialEq, Eq)]
pub enum Authorization {
    /// User and password.
    Basic(String, String),
    /// A token.
    Bearer(String),
}

/// What a Secret gives for one source. Meant for the host of that source and nobody else.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Who asks.
    pub authorization: Option<Authorization>,
    /// TLS, if not the usual one.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A registry that speaks plain HTTP.
    pub plain_http: bool,
    /// A hash of all of it: what one may fetch with them, others may not.
    pub tag: String,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authorization")
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

impl Authorization {
    /// The header that says so; `None` if a header cannot hold it.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Self::Basic(user, password) => {
                format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
            }
            Self::Bearer(token) => format!("Bearer {token}"),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// A Secret that gives no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Secret {secret} with credentials for {chart_source}: {reason}")]
pub struct AuthError {
    /// Namespace and name.
    pub secret: String,
    /// What it is for.
    pub chart_source: String,
    /// What is wrong with it.
    pub reason: AuthReason,
}

/// What is wrong with a Secret. Texts name keys, never what is in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum AuthReason {
    #[error("not found in the namespaces of the release and the application")]
    NotFound,
    #[error("only Secrets in the namespaces of the release and the application can be used")]
    Namespace,
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error(
        "type {0:?} is none of kubernetes.io/basic-auth, kubernetes.io/dockerconfigjson, kubernetes.io/tls, Opaque"
    )]
    Type(String),
    #[error("key {0:?} is missing")]
    Missing(&'static str),
    #[error("the user name has a colon, which RFC 7617 does not allow")]
    Colon,
    #[error("user name or password has control characters, which RFC 7617 does not allow")]
    Control,
    #[error("the token is empty or has characters that RFC 6750 does not allow")]
    Token,
    #[error("a token is sent over https only (RFC 6750)")]
    TokenInClear,
    #[error(
        "a token is not sent to a server whose certificate is not verified (insecureSkipTLS, RFC 6750)"
    )]
    TokenUnverified,
    #[error("has both a token and a user name or password: one of them must go")]
    Both,
    #[error("a token is of no use for a registry, which hands out its own for user and password")]
    TokenForRegistry,
    #[error(".dockerconfigjson is not the configuration of Docker")]
    Docker,
    #[error("has no entry for registry {0:?}")]
    NoRegistry(String),
    #[error("key {0:?} is not a certificate or key in PEM")]
    Pem(&'static str),
    #[error("has nothing that a registry takes: no user name and password")]
    NothingForRegistry,
    #[error("insecurePlainHTTP is for registries; write http:// instead")]
    PlainHttp,
}

impl Credentials {
    /// Reads a Secret, as the API server gives it.
    ///
    /// # Errors
    /// What is missing in it, or must not be.
    pub fn read(secret: &Value, source: &Source) -> Result<Self, AuthReason> {
        let keys = Keys { secret, source };
        let type_ = secret.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut out = match type_ {
            "kubernetes.io/basic-auth" => {
                let (user, password) = (keys.required("username")?, keys.required("password")?);
                Self::of(Some(basic(user, password)?))
            }
            "kubernetes.io/dockerconfigjson" => {
                Self::of(Some(docker(&keys.required(".dockerconfigjson")?, source.host())?))
            }
            "kubernetes.io/tls" => {
                keys.required("tls.crt")?;
                keys.required("tls.key")?;
                Self { tls: keys.tls(false)?, ..Self::default() }
            }
            "" | "Opaque" => keys.opaque()?,
            other => return Err(AuthReason::Type(other.to_owned())),
        };
        if source.is_registry() && out.authorization.is_none() && type_ == "kubernetes.io/tls" {
            return Err(AuthReason::NothingForRegistry);
        }
        out.tag = keys.tag(type_);
        Ok(out)
    }

    fn of(authorization: Option<Authorization>) -> Self {
        Self { authorization, ..Self::default() }
    }
}

/// The keys of one Secret.
struct Keys<'a> {
    secret: &'a Value,
    source: &'a Source,
}

impl Keys<'_> {
    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let text = self.secret.get("data")?.get(key)?.as_str()?;
        BASE64.decode(text).ok().filter(|bytes| !bytes.is_empty())
    }

    fn text(&self, key: &str) -> Option<String> {
        String::from_utf8(self.bytes(key)?).ok()
    }

    fn required(&self, key: &'static str) -> Result<String, AuthReason> {
        self.text(key).ok_or(AuthReason::Missing(key))
    }

    fn is_true(&self, key: &str) -> bool {
        self.text(key).is_some_and(|text| text.trim() == "true")
    }

    fn opaque(&self) -> Result<Credentials, AuthReason> {
        let (user, password) = (self.text("username"), self.text("password"));
        let has_token = self.secret.pointer("/data/token").is_some();
        let skip_tls = self.is_true("insecureSkipTLS");
        let authorization = match (user, password, has_token) {
            (None, None, false) => None,
            (None, None, true) => Some(self.token(skip_tls)?),
            (_, _, true) => return Err(AuthReason::Both),
            (Some(user), Some(password), false) => Some(basic(user, password)?),
            (None, Some(_), false) => return Err(AuthReason::Missing("username")),
            (Some(_), None, false) => return Err(AuthReason::Missing("password")),
        };
        let plain_http = self.is_true("insecurePlainHTTP");
        if plain_http && !self.source.is_registry() {
            return Err(AuthReason::PlainHttp);
        }
        Ok(Credentials { authorization, tls: self.tls(skip_tls)?, plain_http, tag: String::new() })
    }

    fn token(&self, skip_tls: bool) -> Result<Authorization, AuthReason> {
        let token = self.text("token").ok_or(AuthReason::Token)?;
        let body = token.trim_end_matches('=');
        let is_b64 = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        if body.is_empty() || !body.bytes().all(is_b64) {
            return Err(AuthReason::Token);
        }
        let in_clear = match self.source {
            Source::Registry { .. } => return Err(AuthReason::TokenForRegistry),
            Source::Repository { url, .. } | Source::Archive { url } => !url.starts_with("https:"),
        };
        match (in_clear, skip_tls) {
            (true, _) => Err(AuthReason::TokenInClear),
            (_, true) => Err(AuthReason::TokenUnverified),
            _ => Ok(Authorization::Bearer(token)),
        }
    }

    /// TLS with what the Secret has of authorities and of a certificate of one's own; `None`: as usual.
    fn tls(&self, skip: bool) -> Result<Option<Arc<rustls::ClientConfig>>, AuthReason> {
        let either = |a: &'static str, b: &'static str| {
            self.bytes(a).map(|bytes| (a, bytes)).or_else(|| self.bytes(b).map(|bytes| (b, bytes)))
        };
        let authorities = either("ca.crt", "caFile");
        let own = match (either("tls.crt", "certFile"), either("tls.key", "keyFile")) {
            (None, None) => None,
            (Some(_), None) => return Err(AuthReason::Missing("tls.key")),
            (None, Some(_)) => return Err(AuthReason::Missing("tls.crt")),
            (Some((name, chain)), Some((key_name, key))) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
                let chain = chain.ok().filter(|chain| !chain.is_empty());
                let key =
                    PrivateKeyDer::from_pem_slice(&key).map_err(|_| AuthReason::Pem(key_name))?;
                Some((chain.ok_or(AuthReason::Pem(name))?, key))
            }
        };
        if authorities.is_none() && own.is_none() && !skip {
            return Ok(None);
        }
        let mut roots = rustls::RootCertStore::empty();
        match &authorities {
            Some((name, pem)) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|_| AuthReason::Pem(name))?;
                    roots.add(certificate).map_err(|_| AuthReason::Pem(name))?;
                }
                if roots.is_empty() {
                    return Err(AuthReason::Pem(name));
                }
            }
            None => {
                let system = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(system);
            }
        }
        let mut config = crate::egress::tls(roots, own).map_err(|_| AuthReason::Pem("tls.crt"))?;
        if skip {
            let config = Arc::make_mut(&mut config);
            config.dangerous().set_certificate_verifier(Arc::new(super::download::Unverified));
        }
        Ok(Some(config))
    }

    /// Everything that the Secret says, hashed.
    fn tag(&self, type_: &str) -> String {
        let mut hasher = Sha256::new();
        let data = self.secret.get("data").map(ToString::to_string).unwrap_or_default();
        for part in [type_, &self.source.shown(), &data] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
        hex(&hasher.finalize())
    }
}

/// Hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or_default());
        }
        out
    })
}

fn basic(user: String, password: String) -> Result<Authorization, AuthReason> {
    if user.contains(':') {
        return Err(AuthReason::Colon);
    }
    if user.chars().chain(password.chars()).any(char::is_control) {
        return Err(AuthReason::Control);
    }
    Ok(Authorization::Basic(user, password))
}

/// The entry of a registry in a configuration of Docker.
fn docker(text: &str, host: &str) -> Result<Authorization, AuthReason> {
    let config: Value = serde_json::from_str(text).map_err(|_| AuthReason::Docker)?;
    let entries = config.get("auths").and_then(Value::as_object).ok_or(AuthReason::Docker)?;
    let wanted = canonical(host);
    let entry = entries.iter().find(|(key, _)| canonical(bare(key)) == wanted);
    let (_, entry) = entry.ok_or_else(|| AuthReason::NoRegistry(host.to_owned()))?;
    let field = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(auth) = field("auth") {
        let bytes = BASE64.decode(auth.trim()).map_err(|_| AuthReason::Docker)?;
        let text = String::from_utf8(bytes).map_err(|_| AuthReason::Docker)?;
        let (user, password) = text.split_once(':').ok_or(AuthReason::Docker)?;
        return basic(user.to_owned(), password.to_owned());
    }
    match (field("username"), field("password")) {
        (Some(user), Some(password)) => basic(user.to_owned(), password.to_owned()),
        _ => Err(AuthReason::Docker),
    }
}

/// Host and port of a key, which may be an address.
fn bare(key: &str) -> &str {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    key.split('/').next().unwrap_or_default()
}

/// The best known registry has three names.
fn canonical(host: &str) -> &str {
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => "index.docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(type_: &str, data: &[(&str, &str)]) -> Value {
        let data: serde_json::Map<String, Value> = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), BASE64.encode(text).into()))
            .collect();
        json!({"type": type_, "data": data})
    }

    fn read(type_: &str, data: &[(&str, &str)], source: &str) -> Result<String, AuthReason> {
        let source = Source::read(source, None).unwrap();
        let credentials = Credentials::read(&secret(type_, data), &source)?;
        Ok(match credentials.authorization {
            None => String::new(),
            Some(authorization) => authorization.header().unwrap().to_str().unwrap().to_owned(),
        })
    }

    const ARCHIVE: &str = "https://c.example/a.tgz";
    const IMAGE: &str = "oci://r.example:5000/web";

    #[test]
    fn what_gives_credentials() {
        let basic = [("username", "u"), ("password", "p:q")];
        let header = format!("Basic {}", BASE64.encode("u:p:q"));
        for source in [ARCHIVE, IMAGE] {
            for type_ in ["kubernetes.io/basic-auth", "Opaque", ""] {
                assert_eq!(read(type_, &basic, source), Ok(header.clone()));
            }
        }
        assert_eq!(
            read("Opaque", &[("token", "ab-._~+/==")], ARCHIVE).unwrap(),
            "Bearer ab-._~+/=="
        );
        assert_eq!(read("Opaque", &[("insecureSkipTLS", "true")], ARCHIVE).unwrap(), "");
        for (key, entry, source) in [
            ("r.example:5000", r#"{"username":"u","password":"p:q"}"#, IMAGE),
            ("https://r.example:5000/v1/", r#"{"auth":"dTpwOnE="}"#, IMAGE),
            ("https://index.docker.io/v1/", r#"{"auth":"dTpwOnE="}"#, "oci://docker.io/a/web"),
        ] {
            let config = format!(r#"{{"auths":{{"{key}":{entry}}}}}"#);
            let data = [(".dockerconfigjson", config.as_str())];
            assert_eq!(read("kubernetes.io/dockerconfigjson", &data, source), Ok(header.clone()));
        }
    }

    #[test]
    fn what_is_refused() {
        let user = ("username", "u");
        let password = ("password", "p");
        let token = ("token", "t");
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, AuthReason);
        let cases: &[Case<'_>] = &[
            ("bootstrap", &[], ARCHIVE, AuthReason::Type("bootstrap".into())),
            ("kubernetes.io/basic-auth", &[user], ARCHIVE, AuthReason::Missing("password")),
            ("Opaque", &[password], ARCHIVE, AuthReason::Missing("username")),
            ("Opaque", &[("username", "a:b"), password], ARCHIVE, AuthReason::Colon),
            ("Opaque", &[user, ("password", "a\nb")], ARCHIVE, AuthReason::Control),
            ("Opaque", &[("token", "")], ARCHIVE, AuthReason::Token),
            ("Opaque", &[("token", "a b")], ARCHIVE, AuthReason::Token),
            ("Opaque", &[token], "http://c.example/a.tgz", AuthReason::TokenInClear),
            ("Opaque", &[token, ("insecureSkipTLS", "true")], ARCHIVE, AuthReason::TokenUnverified),
            ("Opaque", &[token, user], ARCHIVE, AuthReason::Both),
            ("Opaque", &[token], IMAGE, AuthReason::TokenForRegistry),
            ("Opaque", &[("insecurePlainHTTP", "true")], ARCHIVE, AuthReason::PlainHttp),
            ("Opaque", &[("ca.crt", "x")], ARCHIVE, AuthReason::Pem("ca.crt")),
            ("Opaque", &[("tls.crt", "x")], ARCHIVE, AuthReason::Missing("tls.key")),
            ("kubernetes.io/tls", &[("tls.crt", "x")], ARCHIVE, AuthReason::Missing("tls.key")),
            (
                "kubernetes.io/dockerconfigjson",
                &[],
                IMAGE,
                AuthReason::Missing(".dockerconfigjson"),
            ),
            (
                "kubernetes.io/dockerconfigjson",
                &[(".dockerconfigjson", "{}")],
                IMAGE,
                AuthReason::Docker,
            ),
            (
                "kubernetes.io/dockerconfigjson",
                &[(".dockerconfigjson", r#"{"auths":{"other":{"auth":"dTpw"}}}"#)],
                IMAGE,
                AuthReason::NoRegistry("r.example:5000".into()),
            ),
            (
                "kubernetes.io/dockerconfigjson",
                &[(".dockerconfigjson", r#"{"auths":{"r.example:5000":{"auth":"dQ=="}}}"#)],
                IMAGE,
                AuthReason::Docker,
            ),
        ];
        for (type_, data, source, want) in cases {
            assert_eq!(read(type_, data, source).unwrap_err(), *want, "{type_} {data:?}");
        }
    }

    #[test]
    fn other_credentials_have_another_tag() {
        let source = Source::read(ARCHIVE, None).unwrap();
        let tag = |password: &str| {
            let secret = secret("Opaque", &[("username", "u"), ("password", password)]);
            Credentials::read(&secret, &source).unwrap().tag
        };
        assert_eq!(tag("a"), tag("a"));
        assert_ne!(tag("a"), tag("b"));
    }
}
