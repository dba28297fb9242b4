//! An API server as it would be after writes that never happen: each write is sent as a dry run, and what the API server answers
//! is what later reads find. So the reconcile runs as it is, and nothing changes.
//!
//! Records that the control plane keeps for itself (status, revisions, trackers, contexts of workflows) are not even sent: whoever
//! plans needs no right to write them.

pub(crate) mod records;
pub(crate) mod resource_path;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, Uri, header, request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};
use vela_api::names;
use vela_apply::object::{api_version, group_of, kind};
use vela_apply::{json_merge, strategic};

use records::{Records, asked_version, has_finalizers, is_same};
use resource_path::ResourcePath;

/// A dry run that the API server rejects for the kind of write it is.
const REFUSED: [u16; 5] = [400, 403, 405, 413, 422];

/// The Application that is planned: lists of objects are narrowed to its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Narrowed {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The cluster, and what would be different.
pub(crate) struct Overlay {
    client: Client,
    narrowed: Option<Narrowed>,
    records: Mutex<Records>,
    /// Collections that only the namespace of the Application may be listed of.
    closed: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").field("narrowed", &self.narrowed).finish_non_exhaustive()
    }
}

/// What a request is answered with.
struct Answer {
    code: u16,
    body: Value,
}

impl Answer {
    fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    fn failed(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
            "code": code, "reason": reason, "message": message});
        Self { code, body }
    }

    fn not_found(place: &ResourcePath) -> Self {
        let mut answer =
            Self::failed(404, "NotFound", &format!("{} {:?} not found", place.plural, place.name));
        if let Some(body) = answer.body.as_object_mut() {
            let details = json!({"name": place.name, "kind": place.plural, "group": place.group()});
            body.insert("details".to_owned(), details);
        }
        answer
    }

    fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    fn message(&self) -> &str {
        self.body.get("message").and_then(Value::as_str).unwrap_or_default()
    }

    fn into_response(self) -> Result<Response<Body>, BoxError> {
        let bytes = serde_json::to_vec(&self.body)?;
        Ok(Response::builder().status(self.code).body(Body::from(bytes))?)
    }
}

impl Overlay {
    /// The cluster of a client as it is. `narrowed`: only objects of this Application are listed.
    pub(crate) fn new(client: Client, narrowed: Option<Narrowed>) -> Arc<Self> {
        Arc::new(Self { client, narrowed, records: Mutex::default(), closed: Mutex::default() })
    }

    /// A client of the cluster as it would be.
    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let overlay = Arc::clone(self);
        let namespace = overlay.client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let overlay = Arc::clone(&overlay);
            async move { overlay.answer(request).await }
        });
        Client::new(service, namespace)
    }

    /// What would be different now.
    pub(crate) fn records(&self) -> parking_lot::MutexGuard<'_, Records> {
        self.records.lock()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let is_read = parts.method == Method::GET;
        let Some(place) = ResourcePath::of(parts.uri.path()) else {
            if is_read {
                return self.pass(&parts, &parts.uri, Vec::new()).await;
            }
            // A write that is not understood must not pass: the promise is that nothing is changed.
            return Answer::failed(405, "MethodNotAllowed", "no plan").into_response();
        };
        if is_read {
            return self.read(&parts, &place).await;
        }
        let bytes = body.collect().await?.to_bytes();
        let given = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        // What asks whether somebody may do something changes nothing.
        if place.group() == "authorization.k8s.io" || place.group() == "authentication.k8s.io" {
            return self.send(&parts, parts.uri.path(), &given).await?.into_response();
        }
        let answer = match parts.method {
            Method::POST if place.name.is_empty() => self.create(&parts, &place, given).await?,
            Method::PUT | Method::PATCH => self.change(&parts, &place, &given).await?,
            Method::DELETE if place.name.is_empty() => self.delete_all(&parts, &place).await?,
            Method::DELETE => self.delete(&parts, &place, &given).await?,
            _ => Answer::failed(405, "MethodNotAllowed", "a plan does not call subresources"),
        };
        answer.into_response()
    }

    /// Sends a read as it is.
    async fn pass(
        &self,
        parts: &request::Parts,
        uri: &Uri,
        body: Vec<u8>,
    ) -> Result<Response<Body>, BoxError> {
        let mut request = Request::builder().method(parts.method.clone()).uri(uri.clone());
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&parts.headers);
        }
        Ok(self.client.send(request.body(Body::from(body))?).await?)
    }

    /// Sends a write as a dry run.
    async fn send(
        &self,
        parts: &request::Parts,
        path: &str,
        body: &Value,
    ) -> Result<Answer, BoxError> {
        let uri: Uri = format!("{path}?dryRun=All").parse()?;
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        Self::read_answer(self.pass(parts, &uri, bytes).await?).await
    }

    async fn read_answer(response: Response<Body>) -> Result<Answer, BoxError> {
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok(Answer { code, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }

    /// An object as the API server has it.
    async fn get(&self, parts: &request::Parts, place: &ResourcePath) -> Result<Answer, BoxError> {
        let mut get = parts.clone();
        get.method = Method::GET;
        get.headers.remove(header::CONTENT_TYPE);
        // Whole objects: the reconcile may have asked for metadata alone, which would lose the
        // fields to compare.
        get.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Self::read_answer(self.pass(&get, &place.path().parse()?, Vec::new()).await?).await
    }

    /// An object as it would be: its present state, and the one before all writes. `Err`: it cannot be read.
    async fn present(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Result<(Option<Value>, Option<Value>), Answer>, BoxError> {
        if let Some(known) = self.records.lock().objects.get(place) {
            return Ok(Ok((known.after.clone(), known.before.clone())));
        }
        let answer = self.get(parts, place).await?;
        Ok(match answer.code {
            404 => Ok((None, None)),
            _ if answer.is_ok() => Ok((Some(answer.body.clone()), Some(answer.body))),
            _ => Err(answer),
        })
    }

    async fn read(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Response<Body>, BoxError> {
        let query = parts.uri.query().unwrap_or_default();
        let uri = self.narrow(&parts.uri, place);
        if place.name.is_empty() {
            let mut response = self.pass(parts, &uri, Vec::new()).await?;
            if response.status() == 403
                && let Some(own) = self.own_namespace(place, &uri)
            {
                // Whoever may not list all of a kind plans with what is in the Application's namespace.
                self.closed.lock().insert(format!("{}/{}", place.version, place.plural));
                response = self.pass(parts, &own, Vec::new()).await?;
            }
            if query.contains("watch=true") || !response.status().is_success() {
                return Ok(response);
            }
            return self.listed(response, place, query).await;
        }
        let known = self.records.lock().objects.get(&place.object(&place.name)).cloned();
        match known {
            Some(known) if place.part.is_empty() || place.part == "status" => {
                known.after.map_or_else(|| Answer::not_found(place), Answer::ok).into_response()
            }
            _ => self.pass(parts, &parts.uri, Vec::new()).await,
        }
    }

    /// Lists of what Applications own are narrowed to the one that is planned.
    fn narrow(&self, uri: &Uri, place: &ResourcePath) -> Uri {
        let Some(Narrowed { namespace, name }) = &self.narrowed else { return uri.clone() };
        let query = uri.query().unwrap_or_default();
        let all = "labelSelector=app.oam.dev%2Fname";
        let is_all = |part: &str| part == all;
        if !query.split('&').any(is_all) {
            return uri.clone();
        }
        let own = format!("{all}%3D{name}%2Capp.oam.dev%2Fnamespace%3D{namespace}");
        let parts: Vec<&str> =
            query.split('&').map(|part| if is_all(part) { own.as_str() } else { part }).collect();
        let narrowed = format!("{}?{}", uri.path(), parts.join("&")).parse();
        let narrowed = narrowed.unwrap_or_else(|_| uri.clone());
        let is_closed = self.closed.lock().contains(&format!("{}/{}", place.version, place.plural));
        match self.own_namespace(place, &narrowed) {
            Some(own) if is_closed => own,
            _ => narrowed,
        }
    }

    /// The same collection in the namespace of the Application.
    fn own_namespace(&self, place: &ResourcePath, uri: &Uri) -> Option<Uri> {
        let own = self.narrowed.as_ref().filter(|_| place.namespace.is_empty())?;
        let place = ResourcePath { namespace: own.namespace.clone(), ..place.clone() };
        format!("{}?{}", place.path(), uri.query().unwrap_or_default()).parse().ok()
    }

    /// A list as it would be.
    async fn listed(
        &self,
        response: Response<Body>,
        place: &ResourcePath,
        query: &str,
    ) -> Result<Response<Body>, BoxError> {
        let is_touched = self.records.lock().objects.keys().any(|object| place.holds(object));
        if !is_touched {
            return Ok(response);
        }
        let mut answer = Self::read_answer(response).await?;
        let is_last = answer.body.pointer("/metadata/continue").and_then(Value::as_str);
        let is_last = is_last.is_none_or(str::is_empty);
        let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
        let selector = selector.map(decoded).unwrap_or_default();
        let mut left: BTreeMap<ResourcePath, Value> = BTreeMap::new();
        let mut touched = BTreeSet::new();
        for (object, known) in &self.records.lock().objects {
            if place.holds(object) {
                touched.insert(object.clone());
                if let Some(after) = known.after.as_ref().filter(|after| matches(after, &selector))
                {
                    left.insert(object.clone(), after.clone());
                }
            }
        }
        if let Some(items) = answer.body.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| {
                let text = |key: &str| {
                    item.pointer(&format!("/metadata/{key}"))
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                };
                let object = ResourcePath {
                    namespace: text("namespace").to_owned(),
                    ..place.object(text("name"))
                };
                !touched.contains(&object)
            });
            if is_last {
                items.extend(left.into_values());
            }
        }
        answer.into_response()
    }

    async fn create(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        mut given: Value,
    ) -> Result<Answer, BoxError> {
        let is_dry = is_dry(&parts.uri);
        name_generated(&mut given, &mut self.records.lock());
        let name = given.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let object = place.object(name);
        let known = self.records.lock().objects.get(&object).cloned();
        if known.as_ref().is_some_and(|known| known.after.is_some()) {
            let text = format!("{} {name:?} already exists", place.plural);
            return Ok(Answer::failed(409, "AlreadyExists", &text));
        }
        let is_record = self.is_record(&object, &given);
        // The predecessor is still there for the API server, which would refuse the name.
        let was_removed = known.as_ref().is_some_and(|known| known.before.is_some());
        let (after, unchecked) = if is_record || was_removed {
            (fresh(given), !is_record)
        } else {
            let answer = self.send(parts, &place.path(), &given).await?;
            if answer.is_ok() {
                (answer.body, false)
            } else if answer.code == 404 && self.is_namespace_planned(&place.namespace) {
                (fresh(given), true)
            } else {
                if REFUSED.contains(&answer.code) {
                    self.records.lock().refuse(&object, &given, answer.message());
                }
                return Ok(answer);
            }
        };
        if is_dry {
            return Ok(Answer { code: 201, body: after });
        }
        let before = known.and_then(|known| known.before);
        let mut records = self.records.lock();
        let body = records.put(&object, before.as_ref(), after, (is_record, unchecked));
        Ok(Answer { code: 201, body })
    }

    fn is_namespace_planned(&self, namespace: &str) -> bool {
        let place = ResourcePath::of(&format!("/api/v1/namespaces/{namespace}"));
        let records = self.records.lock();
        let known = place.and_then(|place| records.objects.get(&place));
        !namespace.is_empty() && known.is_some_and(|known| known.after.is_some())
    }

    async fn change(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        given: &Value,
    ) -> Result<Answer, BoxError> {
        let object = place.object(&place.name);
        let (present, before) = match self.present(parts, &object).await? {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        let Some(present) = present else { return Ok(Answer::not_found(&object)) };
        let is_ours = self.records.lock().objects.contains_key(&object);
        let asked = asked_version(given);
        if !asked.is_empty() && asked != asked_version(&present) {
            let text = format!("{} {:?} has been modified", place.plural, place.name);
            return Ok(Answer::failed(409, "Conflict", &text));
        }
        let is_record = self.is_record(&object, &present);
        let answer = if is_record {
            match patched(parts, &place.part, &present, given) {
                Some(body) => Answer::ok(body),
                None => return Ok(Answer::failed(415, "UnsupportedMediaType", "unknown patch")),
            }
        } else if is_ours {
            // The API server does not know what was written before: it gets the whole of it.
            let Some(whole) = patched(parts, &place.part, &present, given) else {
                return Ok(Answer::failed(415, "UnsupportedMediaType", "unknown patch"));
            };
            self.check_whole(parts, &object, before.as_ref(), whole).await?
        } else {
            self.send(parts, &place.path(), given).await?
        };
        if !answer.is_ok() {
            if REFUSED.contains(&answer.code) {
                self.records.lock().refuse(&object, &present, answer.message());
            }
            return Ok(answer);
        }
        if is_same(&answer.body, &present) {
            return Ok(Answer::ok(present));
        }
        if is_dry(&parts.uri) {
            return Ok(answer);
        }
        let mut records = self.records.lock();
        if is_record && is_deleted(&answer.body) && !has_finalizers(&answer.body) {
            records.remove(&object, before.as_ref(), is_record);
            return Ok(answer);
        }
        let body = records.put(&object, before.as_ref(), answer.body, (is_record, false));
        Ok(Answer::ok(body))
    }

    /// Has an object checked that was written before: as a whole, instead of the one that the API server has, or as a new one.
    async fn check_whole(
        &self,
        parts: &request::Parts,
        object: &ResourcePath,
        before: Option<&Value>,
        mut whole: Value,
    ) -> Result<Answer, BoxError> {
        let mut whole_parts = parts.clone();
        whole_parts
            .headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let real = before.map(asked_version).unwrap_or_default().to_owned();
        if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if real.is_empty() {
                for key in ["resourceVersion", "uid", "creationTimestamp"] {
                    metadata.remove(key);
                }
            } else {
                metadata.insert("resourceVersion".to_owned(), real.clone().into());
            }
        }
        let unchecked =
            self.records.lock().objects.get(object).is_some_and(|known| known.unchecked);
        if unchecked {
            return Ok(Answer::ok(whole));
        }
        let path = if real.is_empty() {
            whole_parts.method = Method::POST;
            ResourcePath { name: String::new(), ..object.clone() }.path()
        } else {
            whole_parts.method = Method::PUT;
            object.path()
        };
        self.send(&whole_parts, &path, &whole).await
    }

    async fn delete(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        options: &Value,
    ) -> Result<Answer, BoxError> {
        let object = place.object(&place.name);
        let (present, before) = match self.present(parts, &object).await? {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        let Some(present) = present else { return Ok(Answer::not_found(&object)) };
        for (precondition, pointer) in
            [("uid", "/metadata/uid"), ("resourceVersion", "/metadata/resourceVersion")]
        {
            let asked = options.pointer(&format!("/preconditions/{precondition}"));
            if asked.is_some() && asked != present.pointer(pointer) {
                return Ok(Answer::failed(409, "Conflict", "another object has this name"));
            }
        }
        let is_dry = is_dry(&parts.uri) || options.get("dryRun").is_some();
        let is_record = self.is_record(&object, &present);
        if !is_record && before.is_some() {
            let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"],
                "propagationPolicy": options.get("propagationPolicy")});
            let answer = self.send(parts, &object.path(), &body).await?;
            if !answer.is_ok() {
                if REFUSED.contains(&answer.code) {
                    self.records.lock().refuse(&object, &present, answer.message());
                }
                return Ok(answer);
            }
        }
        let uid = present.pointer("/metadata/uid").cloned().unwrap_or_default();
        if !is_dry {
            let mut records = self.records.lock();
            if is_record && has_finalizers(&present) {
                let mut held = present;
                if let Some(metadata) = held.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert(
                        "deletionTimestamp".to_owned(),
                        Timestamp::now().to_string().into(),
                    );
                }
                let held = records.put(&object, before.as_ref(), held, (true, false));
                return Ok(Answer::ok(held));
            }
            records.remove(&object, before.as_ref(), is_record);
        }
        // It is taken for gone at once: what holds it up in the cluster changes nothing about what is planned.
        Ok(Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success",
            "details": {"name": object.name, "kind": object.plural, "uid": uid}})))
    }

    async fn delete_all(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Answer, BoxError> {
        let mut list = parts.clone();
        list.method = Method::GET;
        list.headers.remove(header::CONTENT_TYPE);
        let response = Box::pin(self.read(&list, place)).await?;
        let listed = Self::read_answer(response).await?;
        if !listed.is_ok() {
            return Ok(listed);
        }
        let items = listed.body.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        for item in items {
            let text =
                |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let object = ResourcePath {
                namespace: text("/metadata/namespace").to_owned(),
                ..place.object(text("/metadata/name"))
            };
            let answer = self.delete(parts, &object, &Value::Null).await?;
            if !answer.is_ok() && answer.code != 404 {
                return Ok(answer);
            }
        }
        Ok(Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})))
    }

    /// Whether an object is a record that the control plane keeps for itself.
    fn is_record(&self, place: &ResourcePath, object: &Value) -> bool {
        if place.group() == vela_api::GROUP {
            let is_planned = self.narrowed.as_ref().is_none_or(|planned| {
                planned.namespace == place.namespace && planned.name == place.name
            });
            return match place.plural.as_str() {
                "applications" => is_planned,
                "applicationrevisions" | "resourcetrackers" => true,
                _ => false,
            };
        }
        match place.plural.as_str() {
            "configmaps" => {
                let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
                owners.into_iter().flatten().any(|owner| {
                    kind(owner) == vela_api::Application::KIND
                        && api_version(owner) == vela_api::V1BETA1
                })
            }
            "controllerrevisions" => object
                .pointer("/metadata/labels")
                .is_some_and(|labels| labels.get(names::label::APP_COMPONENT).is_some()),
            "secrets" => object.get("type").is_some_and(|type_| type_ == "helm.sh/release.v1"),
            "events" => true,
            _ => false,
        }
    }
}

fn is_dry(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|part| part == "dryRun=All")
}

fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

/// A record as the API server would create it, or an object that it could not check.
fn fresh(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let uid = format!("planned-{:016x}", fastrand::u64(..));
        metadata.entry("uid").or_insert_with(|| uid.into());
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        metadata.entry("creationTimestamp").or_insert_with(|| now.to_string().into());
        metadata.entry("generation").or_insert_with(|| 1.into());
    }
    object
}

/// A name for an object that asks for one.
fn name_generated(object: &mut Value, records: &mut Records) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if metadata.get("name").is_none()
        && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
    {
        let name = format!("{prefix}{}", records.next_version());
        metadata.insert("name".to_owned(), name.into());
    }
}

/// An object after a PUT or PATCH; `None` if the form of the patch is unknown.
fn patched(parts: &request::Parts, part: &str, present: &Value, given: &Value) -> Option<Value> {
    let media = parts.headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let mut new = present.clone();
    match (&parts.method, media.unwrap_or_default()) {
        (&Method::PUT, _) => new = given.clone(),
        (_, "application/merge-patch+json") => json_merge::apply(&mut new, given),
        (_, "application/strategic-merge-patch+json") => {
            let type_ = strategic::type_of(group_of(api_version(present)), kind(present))?;
            strategic::apply(&mut new, given, type_);
        }
        _ => return None,
    }
    // A subresource changes only what it is, and the object everything but that.
    let status = |object: &Value| object.get("status").cloned();
    let (mut whole, status) = match part {
        "status" => (present.clone(), status(&new)),
        _ if kind(present) == vela_api::Application::KIND => (new, status(present)),
        _ => return Some(new),
    };
    if let (Some(whole), Some(status)) = (whole.as_object_mut(), status) {
        whole.insert("status".to_owned(), status);
    }
    Some(whole)
}

/// Whether the labels of an object match a selector of equalities and names; of others nothing is excluded.
fn matches(object: &Value, selector: &str) -> bool {
    let label = |key: &str| {
        let labels = object.pointer("/metadata/labels")?;
        labels.get(key)?.as_str()
    };
    selector.split(',').filter(|one| !one.is_empty()).all(|one| {
        if one.contains([' ', '(', ')', '!']) {
            return true;
        }
        match one.split_once('=') {
            Some((key, value)) => label(key) == Some(value.trim_start_matches('=')),
            None => label(one).is_some(),
        }
    })
}

/// A value of a query, or a part of a path.
pub(crate) fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                if let (Some(high), Some(low)) = (hex(bytes.next()), hex(bytes.next())) {
                    out.extend(u8::try_from(high * 16 + low));
                }
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
