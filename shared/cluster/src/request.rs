//! Requests to the API server about objects of any kind: which path a kind has, and the five verbs.
//!
//! Objects are JSON values on both sides; identities other than our own go as impersonation headers.

use std::fmt::{Display, Write as _};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vela_apply::object::{api_version, kind, name, namespace};
use vela_apply::plan::PatchKind;

use crate::observed::Tree;
use crate::{Discovery, Error, Identity, Removal, Resource, postponed};

/// Why a request had no result.
pub type ApiError = Error;

/// One object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// Group and version, as in `apiVersion`.
    pub api_version: &'a str,
    /// Kind, as in manifests.
    pub kind: &'a str,
    /// Namespace, ignored for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name of the object; no generated ones.
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

/// What the API server said to a write: the object as it is now. It is read if somebody asks, as what they ask for.
#[derive(Debug)]
pub struct RawResponse(String);

impl RawResponse {
    /// The object.
    ///
    /// # Errors
    /// [`Error::Transport`]: it is something else.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_str(&self.0).map_err(|error| Error::Transport(error.to_string()))
    }

    /// The object as a tree; of its managed fields only who wrote when.
    ///
    /// # Errors
    /// [`Error::Transport`]: it is something else.
    pub fn object(&self) -> Result<Value, ApiError> {
        self.read().map(|Tree(object)| object)
    }
}

/// One request that ended.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// Get, List, Create, Update, Patch, Delete, DeleteAllOf; of the status: StatusUpdate, StatusPatch.
    pub verb: &'static str,
    /// Kind of the object, as in manifests.
    pub kind: &'a str,
    /// Group and version, as in `apiVersion`.
    pub api_version: &'a str,
    /// How long it took.
    pub time: Duration,
}

/// Receives every request about objects.
pub type Observer = Arc<dyn Fn(&Observation<'_>) + Send + Sync>;

/// The connection to one API server.
pub struct ObjectClient {
    client: Client,
    observer: OnceLock<Observer>,
    common: Arc<Common>,
}

/// What connections of one process to one API server have in common.
struct Common {
    discovery: Arc<Discovery>,
    /// Requests in flight, those about events aside.
    pending: AtomicUsize,
}

impl std::fmt::Debug for ObjectClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectClient")
    }
}

impl ObjectClient {
    /// A connection over an existing client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let discovery = Arc::new(Discovery::new(client.clone()));
        let common = Common { discovery, pending: AtomicUsize::new(0) };
        Self { client, observer: OnceLock::new(), common: Arc::new(common) }
    }

    /// A connection with a way of its own to find out what is served.
    #[must_use]
    pub fn with_discovery(client: Client, discovery: Discovery) -> Self {
        let common = Common { discovery: Arc::new(discovery), pending: AtomicUsize::new(0) };
        Self { client, observer: OnceLock::new(), common: Arc::new(common) }
    }

    /// Another connection, of another observer: the same kinds are served.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        Self { client, observer: OnceLock::new(), common: Arc::clone(&self.common) }
    }

    /// From now on requests are reported. Only the first call counts.
    pub fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// Whether a request is in flight that somebody waits for; nobody waits for events.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.common.pending.load(Ordering::Relaxed) > 0
    }

    /// The client behind it.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The kinds that are served.
    #[must_use]
    pub fn discovery(&self) -> &Arc<Discovery> {
        &self.common.discovery
    }

    /// How a kind is served.
    ///
    /// # Errors
    /// The kind is not served, or the API server does not answer.
    pub async fn resolve(&self, api_version: &str, kind: &str) -> Result<Resource, ApiError> {
        let found = self.common.discovery.resolve(api_version, kind).await;
        found.inspect_err(postponed::note)
    }

    /// Whether objects of a kind have no namespace, whatever manifests and records of old releases say.
    pub async fn is_cluster_scoped(&self, api_version: &str, kind: &str) -> bool {
        self.resolve(api_version, kind).await.is_ok_and(|resource| !resource.namespaced)
    }

    async fn path(&self, target: &Target<'_>, named: bool) -> Result<String, ApiError> {
        let resource = self.resolve(target.api_version, target.kind).await?;
        let namespace = match target.namespace {
            "" => "default",
            namespace => namespace,
        };
        let mut path = resource.collection(&escaped(namespace));
        if named {
            if target.name.is_empty() {
                return Err(bad_request(format!("{} has no name", target.kind)));
            }
            path.push('/');
            path.push_str(&escaped(target.name));
        }
        Ok(path)
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<(&str, &Value)>,
        identity: &Identity,
    ) -> Result<RawResponse, ApiError> {
        let request = request(method, path, body, identity)?;
        self.ask(request).await.map(RawResponse)
    }

    /// A write of an object that may be too large.
    async fn write(
        &self,
        (method, path): (Method, String),
        body: (&str, &Value),
        (kind, name): (&str, &str),
        identity: &Identity,
    ) -> Result<RawResponse, ApiError> {
        let request = request(method, path, Some(body), identity)?;
        let bytes = request.body().len();
        // Boxed: it is part of every future that writes.
        let answer = Box::pin(self.ask(request)).await;
        answer.map(RawResponse).map_err(|error| error.sized(kind, name, bytes))
    }

    async fn ask(&self, request: Request<Vec<u8>>) -> Result<String, ApiError> {
        self.client.request_text(request).await.map_err(Error::from).inspect_err(postponed::note)
    }

    /// Reports to the observer how long a request took.
    async fn timed<T>(
        &self,
        verb: &'static str,
        (api_version, kind): (&str, &str),
        request: impl Future<Output = T>,
    ) -> T {
        let since = Instant::now();
        let _pending = (kind != EVENT).then(|| Pending::of(&self.common.pending));
        let answer = request.await;
        if let Some(observer) = self.observer.get() {
            observer(&Observation { verb, kind, api_version, time: since.elapsed() });
        }
        answer
    }

    /// GET.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn get(&self, target: &Target<'_>, identity: &Identity) -> Result<Value, ApiError> {
        let path = self.path(target, true).await?;
        let request = self.send(Method::GET, path, None, identity);
        self.timed("Get", (target.api_version, target.kind), request).await?.read()
    }

    /// GET of a collection, as a List object; an empty namespace means all, an empty selector everything.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn list(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
        identity: &Identity,
    ) -> Result<Value, ApiError> {
        let path = self.selected(api_version, kind, namespace, selector).await?;
        let request = self.send(Method::GET, path, None, identity);
        self.timed("List", (api_version, kind), request).await?.read()
    }

    /// The path of a collection, narrowed by a selector.
    async fn selected(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
    ) -> Result<String, ApiError> {
        let resource = self.resolve(api_version, kind).await?;
        Ok(with_selector(resource.collection(&escaped(namespace)), selector))
    }

    /// DELETE of what a selector matches in a namespace, dependants in the background.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn delete_all(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
        dry_run: bool,
        identity: &Identity,
    ) -> Result<(), ApiError> {
        let path = self.selected(api_version, kind, namespace, selector).await?;
        let options = deletion(("", ""), Some("Background"), dry_run);
        let body = Some(("application/json", &options));
        let request = self.send(Method::DELETE, path, body, identity);
        self.timed("DeleteAllOf", (api_version, kind), request).await.map(|_| ())
    }

    /// GET of a subresource that is text, such as a Pod's log.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn text(
        &self,
        target: &Target<'_>,
        subresource: &str,
        query: &[(String, String)],
        identity: &Identity,
    ) -> Result<String, ApiError> {
        let path = with_subresource(self.path(target, true).await?, subresource);
        let query: Vec<String> = query
            .iter()
            .map(|(key, value)| format!("{}={}", escaped(key), escaped(value)))
            .collect();
        let request = request(Method::GET, format!("{path}?{}", query.join("&")), None, identity)?;
        self.ask(request).await
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
    ) -> Result<RawResponse, ApiError> {
        let path = self.path(&Target::of(object), false).await?;
        let path = with_dry_run(path, dry_run);
        let body = ("application/json", object);
        let what = (kind(object), name(object));
        let request = self.write((Method::POST, path), body, what, identity);
        self.timed("Create", (api_version(object), kind(object)), request).await
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
    ) -> Result<RawResponse, ApiError> {
        let path = self.path(&Target::of(object), true).await?;
        let path = with_dry_run(with_subresource(path, subresource), dry_run);
        let body = ("application/json", object);
        let verb = if subresource == "status" { "StatusUpdate" } else { "Update" };
        let what = (kind(object), name(object));
        let request = self.write((Method::PUT, path), body, what, identity);
        self.timed(verb, (api_version(object), kind(object)), request).await
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
    ) -> Result<RawResponse, ApiError> {
        let path = self.path(target, true).await?;
        let path = with_dry_run(with_subresource(path, subresource), dry_run);
        let media = match patch_kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
        };
        let verb = if subresource == "status" { "StatusPatch" } else { "Patch" };
        let what = (target.kind, target.name);
        let request = self.write((Method::PATCH, path), (media, body), what, identity);
        self.timed(verb, (target.api_version, target.kind), request).await
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
    ) -> Result<Removal, ApiError> {
        self.delete_as_seen(target, (uid, ""), propagation, identity).await
    }

    /// DELETE of an object of this uid, and if a version is given, only of that version.
    ///
    /// # Errors
    /// The API server's answer; an object that is gone is no error.
    pub async fn delete_as_seen(
        &self,
        target: &Target<'_>,
        seen: (&str, &str),
        propagation: Option<&str>,
        identity: &Identity,
    ) -> Result<Removal, ApiError> {
        self.remove(target, seen, propagation, false, identity).await
    }

    /// DELETE in a dry run: whether an identity may.
    ///
    /// # Errors
    /// The API server's answer; an object that is gone is no error.
    pub async fn try_delete(
        &self,
        target: &Target<'_>,
        identity: &Identity,
    ) -> Result<(), ApiError> {
        self.remove(target, ("", ""), None, true, identity).await.map(|_| ())
    }

    async fn remove(
        &self,
        target: &Target<'_>,
        (uid, version): (&str, &str),
        propagation: Option<&str>,
        dry_run: bool,
        identity: &Identity,
    ) -> Result<Removal, ApiError> {
        let path = match self.path(target, true).await {
            Ok(path) => path,
            Err(error) if error.is_not_found() => return Ok(Removal::Done),
            Err(error) => return Err(error),
        };
        let options = deletion((uid, version), propagation, dry_run);
        let body = Some(("application/json", &options));
        let request = self.send(Method::DELETE, path, body, identity);
        match self.timed("Delete", (target.api_version, target.kind), request).await {
            // What discovery said is not so any more: the object may be there in another version.
            Err(error) if error.is_unserved() => {
                self.discovery().forget(target.api_version);
                Err(error)
            }
            Err(error) if error.is_not_found() => Ok(Removal::Done),
            Err(error) if error.is_conflict() && !uid.is_empty() => Ok(Removal::Replaced),
            other => Ok(Removal::of(other?.read()?)),
        }
    }
}

/// The options of a deletion: of this uid and version, if they are given.
fn deletion((uid, version): (&str, &str), propagation: Option<&str>, dry_run: bool) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(options) = options.as_object_mut() {
        let mut preconditions = serde_json::Map::new();
        for (key, value) in [("uid", uid), ("resourceVersion", version)] {
            if !uid.is_empty() && !value.is_empty() {
                preconditions.insert(key.to_owned(), json!(value));
            }
        }
        if !preconditions.is_empty() {
            options.insert("preconditions".to_owned(), Value::Object(preconditions));
        }
        if let Some(propagation) = propagation {
            options.insert("propagationPolicy".to_owned(), json!(propagation));
        }
        if dry_run {
            // Options in the body count, those of the address do not then.
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
    }
    options
}

/// The label selector that all of these labels match.
pub fn matching<K: Display, V: Display>(labels: impl IntoIterator<Item = (K, V)>) -> String {
    let pairs = labels.into_iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

const EVENT: &str = "Event";

/// A request in flight, answered or given up.
struct Pending<'a>(&'a AtomicUsize);

impl<'a> Pending<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn with_dry_run(path: String, dry_run: bool) -> String {
    if dry_run { format!("{path}?dryRun=All") } else { path }
}

fn with_selector(path: String, selector: &str) -> String {
    if selector.is_empty() { path } else { format!("{path}?labelSelector={}", escaped(selector)) }
}

fn with_subresource(path: String, subresource: &str) -> String {
    if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
}

fn request(
    method: Method,
    path: String,
    body: Option<(&str, &Value)>,
    identity: &Identity,
) -> Result<Request<Vec<u8>>, ApiError> {
    let mut builder = identity.apply(Request::builder().method(method).uri(path));
    let bytes = match body {
        Some((media, value)) => {
            builder = builder.header(http::header::CONTENT_TYPE, media);
            serde_json::to_vec(value).map_err(|error| ApiError::Transport(error.to_string()))?
        }
        None => Vec::new(),
    };
    builder.body(bytes).map_err(|error| bad_request(error.to_string()))
}

/// A request that cannot even be written down: as final as the API server's 400.
fn bad_request(message: String) -> Error {
    Error::Api { code: 400, reason: "BadRequest".to_owned(), message, retry_after: None }
}

/// Percent-encoding of everything but unreserved characters: names come from manifests.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::Class;
    use crate::fake::{RecordedRequest, fake};

    fn status(code: u16, reason: &str) -> (u16, Value) {
        let text = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": reason,
        });
        (code, text)
    }

    fn served(method: &Method, path: &str) -> (u16, Value) {
        match (method.as_str(), path) {
            (_, "/api/v1") => (
                200,
                json!({"resources": [
                    {"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
                    {"name": "namespaces", "kind": "Namespace", "namespaced": false},
                ]}),
            ),
            ("DELETE", "/api/v1/namespaces/a/configmaps/newer") => status(409, "Conflict"),
            ("GET" | "DELETE", "/api/v1/namespaces/a/configmaps/gone") => status(404, "NotFound"),
            _ => (200, json!({"kind": "ConfigMap", "metadata": {"name": "x"}})),
        }
    }

    fn io() -> (ObjectClient, Arc<Mutex<Vec<RecordedRequest>>>) {
        let (client, seen) = fake(|method, path, _| served(method, path));
        (ObjectClient::new(client), seen)
    }

    fn config_map(name: &str) -> Target<'_> {
        Target { api_version: "v1", kind: "ConfigMap", namespace: "a", name }
    }

    #[tokio::test]
    async fn requests() {
        let (io, seen) = io();
        let own = Identity::own();
        let user = Identity { user: "u".to_owned(), groups: Vec::new() };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"},
        });
        io.create(&object, true, &user).await.expect("created");
        let patch = json!({"a": 1});
        let merge = (PatchKind::Merge, &patch);
        io.patch(&config_map("x"), "status", merge, false, &own).await.expect("patched");
        io.replace(&object, "", false, &own).await.expect("replaced");
        let namespace = Target { api_version: "v1", kind: "Namespace", namespace: "a", name: "n" };
        io.get(&namespace, &own).await.expect("read");
        let lines: Vec<String> = seen
            .lock()
            .iter()
            .skip(1)
            .map(|seen| format!("{} {} {} {}", seen.method, seen.uri, seen.media, seen.user))
            .collect();
        assert_eq!(
            lines,
            [
                "POST /api/v1/namespaces/a/configmaps?dryRun=All application/json u",
                "PATCH /api/v1/namespaces/a/configmaps/x/status application/merge-patch+json ",
                "PUT /api/v1/namespaces/a/configmaps/x application/json ",
                "GET /api/v1/namespaces/n  ",
            ]
        );
    }

    #[tokio::test]
    async fn deletes_are_idempotent_and_exact() {
        let (io, seen) = io();
        let own = Identity::own();
        let background = Some("Background");
        for (name, removal) in
            [("x", Removal::Done), ("gone", Removal::Done), ("newer", Removal::Replaced)]
        {
            let done = io.delete(&config_map(name), "u1", background, &own).await;
            assert_eq!(done.expect("deleted"), removal, "{name}");
        }
        let error = io.delete(&config_map("newer"), "", None, &own).await.expect_err("a conflict");
        assert!(error.is_conflict());
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": "u1"},
        });
        assert_eq!(seen.lock()[1].body, body);
        io.delete_as_seen(&config_map("x"), ("u1", "7"), None, &own).await.expect("deleted");
        let seen_last = seen.lock().last().map(|seen| seen.body["preconditions"].clone());
        assert_eq!(seen_last, Some(json!({"uid": "u1", "resourceVersion": "7"})));
        io.try_delete(&config_map("x"), &own).await.expect("tried");
        let seen_last = seen.lock().last().map(|seen| seen.body.clone());
        let tried = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
        assert_eq!(seen_last, Some(tried));
        let unknown = Target { api_version: "v1", kind: "Nothing", namespace: "a", name: "x" };
        io.delete(&unknown, "", None, &own).await.expect("not served, so no objects");
    }

    /// An API server that does not serve the version any more says nothing about the object.
    #[tokio::test]
    async fn what_is_not_served_is_not_deleted() {
        let (client, seen) = fake(|method, path, _| match method.as_str() {
            "DELETE" => status(404, "Failed to parse error data"),
            _ => served(method, path),
        });
        let io = ObjectClient::new(client);
        let own = Identity::own();
        for _ in 0..2 {
            let error = io.delete(&config_map("x"), "u1", None, &own).await.expect_err("told");
            assert!(error.is_unserved() && error.class() == Class::Refused, "{error}");
        }
        let asked = seen.lock().iter().filter(|seen| seen.uri == "/api/v1").count();
        assert_eq!(asked, 2, "discovery is asked again");
    }

    #[tokio::test]
    async fn hostile_names_stay_in_their_place() {
        let (io, seen) = io();
        let own = Identity::own();
        let _ = io.get(&config_map("../../secrets/s?x=y"), &own).await;
        assert_eq!(
            seen.lock()[1].uri,
            "/api/v1/namespaces/a/configmaps/..%2F..%2Fsecrets%2Fs%3Fx%3Dy"
        );
        let error = io.get(&config_map(""), &own).await.expect_err("refused");
        assert_eq!(error.class(), Class::Refused);
        let other = Identity { user: "a\nb".to_owned(), groups: Vec::new() };
        assert!(io.get(&config_map("x"), &other).await.is_err());
    }
}
