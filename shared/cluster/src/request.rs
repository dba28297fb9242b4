//! Requests to the API server about objects of any kind: which path a kind has, and the five verbs.
//!
//! Objects are JSON values on both sides; identities other than our own go as impersonation headers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use vela_apply::object::{api_version, kind, name, namespace};
use vela_apply::plan::PatchKind;

use crate::Identity;

/// How long a kind that is not served stays unknown before discovery asks again.
const ABSENT_FOR: Duration = Duration::from_secs(5);
/// How long a served group version is believed.
const PRESENT_FOR: Duration = Duration::from_secs(600);

/// Path parts of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `apis/apps/v1` or `api/v1`.
    pub root: String,
    /// Plural name.
    pub plural: String,
    /// Whether it lives in namespaces.
    pub namespaced: bool,
}

/// One object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// API version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace, ignored for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// The object a manifest is about.
    #[must_use]
    pub fn of(object: &'a Value) -> Self {
        Self {
            api_version: api_version(object),
            kind: kind(object),
            namespace: namespace(object),
            name: name(object),
        }
    }
}

/// Why a request had no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IoError {
    /// The API server does not serve the kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    NoSuchKind {
        /// Kind.
        kind: String,
        /// API version.
        api_version: String,
    },
    /// The objects of a kind could not be listed within the time a caller waits.
    #[error("objects of kind {kind} ({api_version}) could not be listed yet")]
    NotListed {
        /// Kind.
        kind: String,
        /// API version.
        api_version: String,
    },
    /// The API server said no.
    #[error("{message}")]
    Api {
        /// HTTP code.
        code: u16,
        /// Machine-readable reason.
        reason: String,
        /// In words.
        message: String,
    },
    /// No answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
}

impl IoError {
    /// 404 of the object (or of its whole kind).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Api { code: 404, .. } | Self::NoSuchKind { .. })
    }

    /// The object exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Api { reason, .. } if reason == "AlreadyExists")
    }

    /// The object changed meanwhile.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { code: 409, reason, .. } if reason != "AlreadyExists")
    }
}

impl From<kube::Error> for IoError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            other => {
                let mut text = other.to_string();
                let mut source = std::error::Error::source(&other);
                while let Some(cause) = source {
                    text = format!("{text}: {cause}");
                    source = cause.source();
                }
                Self::Transport(text)
            }
        }
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
struct ListedResource {
    name: String,
    kind: String,
    namespaced: bool,
}

type Kinds = Arc<HashMap<String, Resource>>;

/// The connection to one API server.
pub struct Io {
    client: Client,
    groups: Mutex<HashMap<String, (Instant, Kinds)>>,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Io")
    }
}

impl Io {
    /// A connection over an existing client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, groups: Mutex::default() }
    }

    /// The client behind it.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Path parts of a kind.
    ///
    /// # Errors
    /// The kind is not served, or the API server does not answer.
    pub async fn resolve(&self, api_version: &str, kind: &str) -> Result<Resource, IoError> {
        let absent =
            || IoError::NoSuchKind { kind: kind.to_owned(), api_version: api_version.to_owned() };
        let known = self.groups.lock().get(api_version).cloned();
        if let Some((since, kinds)) = known {
            let age = since.elapsed();
            match kinds.get(kind) {
                Some(resource) if age < PRESENT_FOR => return Ok(resource.clone()),
                None if age < ABSENT_FOR => return Err(absent()),
                _ => {}
            }
        }
        let kinds = Arc::new(self.discover(api_version).await?);
        let found = kinds.get(kind).cloned();
        self.groups.lock().insert(api_version.to_owned(), (Instant::now(), kinds));
        found.ok_or_else(absent)
    }

    async fn discover(&self, api_version: &str) -> Result<HashMap<String, Resource>, IoError> {
        let root = match api_version.split_once('/') {
            Some(_) => format!("apis/{api_version}"),
            None => format!("api/{api_version}"),
        };
        let request = request(Method::GET, format!("/{root}"), None, &Identity::default())?;
        let list = match self.client.request::<ResourceList>(request).await {
            Ok(list) => list,
            Err(error) => {
                let error = IoError::from(error);
                return if error.is_gone() { Ok(HashMap::new()) } else { Err(error) };
            }
        };
        let mut kinds = HashMap::new();
        for listed in list.resources.into_iter().filter(|listed| !listed.name.contains('/')) {
            kinds.insert(
                listed.kind,
                Resource { root: root.clone(), plural: listed.name, namespaced: listed.namespaced },
            );
        }
        Ok(kinds)
    }

    async fn path(&self, target: &Target<'_>, named: bool) -> Result<String, IoError> {
        let resource = self.resolve(target.api_version, target.kind).await?;
        let mut path = format!("/{}", resource.root);
        if resource.namespaced {
            let namespace = if target.namespace.is_empty() { "default" } else { target.namespace };
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", resource.plural);
        if named {
            path = format!("{path}/{}", target.name);
        }
        Ok(path)
    }

    /// GET.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn get(&self, target: &Target<'_>, identity: &Identity) -> Result<Value, IoError> {
        let path = self.path(target, true).await?;
        Ok(self.client.request(request(Method::GET, path, None, identity)?).await?)
    }

    /// POST.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn create(
        &self,
        object: &Value,
        dry_run: bool,
        identity: &Identity,
    ) -> Result<Value, IoError> {
        let path = self.path(&Target::of(object), false).await?;
        let path = with_dry_run(path, dry_run);
        let body = Some(("application/json", object));
        Ok(self.client.request(request(Method::POST, path, body, identity)?).await?)
    }

    /// PUT, of the object itself or of its status.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn replace(
        &self,
        object: &Value,
        subresource: &str,
        dry_run: bool,
        identity: &Identity,
    ) -> Result<Value, IoError> {
        let path = self.path(&Target::of(object), true).await?;
        let path = with_dry_run(with_subresource(path, subresource), dry_run);
        let body = Some(("application/json", object));
        Ok(self.client.request(request(Method::PUT, path, body, identity)?).await?)
    }

    /// PATCH, of the object itself or of its status.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn patch(
        &self,
        target: &Target<'_>,
        subresource: &str,
        (patch_kind, body): (PatchKind, &Value),
        dry_run: bool,
        identity: &Identity,
    ) -> Result<Value, IoError> {
        let path = self.path(target, true).await?;
        let path = with_dry_run(with_subresource(path, subresource), dry_run);
        let media = match patch_kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
        };
        let request = request(Method::PATCH, path, Some((media, body)), identity)?;
        Ok(self.client.request(request).await?)
    }

    /// DELETE; `uid` guards against deleting a newer object of the same name.
    ///
    /// # Errors
    /// The API server's answer; an object that is gone is no error.
    pub async fn delete(
        &self,
        target: &Target<'_>,
        uid: &str,
        propagation: Option<&str>,
        identity: &Identity,
    ) -> Result<(), IoError> {
        let path = match self.path(target, true).await {
            Ok(path) => path,
            Err(error) if error.is_gone() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !uid.is_empty() {
            options["preconditions"] = json!({ "uid": uid });
        }
        if let Some(policy) = propagation {
            options["propagationPolicy"] = json!(policy);
        }
        let body = Some(("application/json", &options));
        let request = request(Method::DELETE, path, body, identity)?;
        match self.client.request::<Value>(request).await.map_err(IoError::from) {
            // Another object has the name now: the one that was to go is gone.
            Err(error) if error.is_gone() || (error.is_conflict() && !uid.is_empty()) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

fn with_dry_run(path: String, dry_run: bool) -> String {
    if dry_run { format!("{path}?dryRun=All") } else { path }
}

fn with_subresource(path: String, subresource: &str) -> String {
    if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
}

fn request(
    method: Method,
    path: String,
    body: Option<(&str, &Value)>,
    identity: &Identity,
) -> Result<Request<Vec<u8>>, IoError> {
    let mut builder = Request::builder().method(method).uri(path);
    if !identity.user.is_empty() {
        builder = builder.header("Impersonate-User", &identity.user);
        for group in &identity.groups {
            builder = builder.header("Impersonate-Group", group);
        }
    }
    let bytes = match body {
        Some((media, value)) => {
            builder = builder.header(http::header::CONTENT_TYPE, media);
            serde_json::to_vec(value).map_err(|error| IoError::Transport(error.to_string()))?
        }
        None => Vec::new(),
    };
    builder.body(bytes).map_err(|error| IoError::Transport(error.to_string()))
}
