//! An API server as it would be after writes that never happen: each write is sent as a dry run, and what the API server answers
//! is what later reads find. So the reconcile runs as it is, and nothing changes.
//!
//! Records that the control plane keeps for itself (status, revisions, trackers, contexts of workflows) are not even sent: whoever
//! plans needs no right to write them.

mod answer;
pub(crate) mod records;
pub(crate) mod resource_path;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, Uri, header, request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tower::{BoxError, service_fn};
use vela_api::names;
use vela_apply::object::{api_version, kind};

use answer::Answer;
use records::Records;
use resource_path::ResourcePath;

/// The Application that is planned: lists of objects are narrowed to its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Narrowed {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Whether objects can have the name of an Application as a label, whose value has 63 bytes. Nothing is recorded of others.
pub(crate) const fn is_label(name: &str) -> bool {
    name.len() <= 63
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

    /// An object as it would be: its present state, and the one before all writes. `Err`: the answer to whoever wants to
    /// change it, since it does not exist or cannot be read.
    async fn present(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Result<(Value, Option<Value>), Answer>, BoxError> {
        if let Some(known) = self.records.lock().objects.get(place) {
            let after = known.after.clone().ok_or_else(|| Answer::not_found(place));
            return Ok(after.map(|after| (after, known.before.clone())));
        }
        let answer = self.get(parts, place).await?;
        Ok(match answer.code {
            404 => Err(Answer::not_found(place)),
            _ if answer.is_ok() => Ok((answer.body.clone(), Some(answer.body))),
            _ => Err(answer),
        })
    }

    async fn read(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Response<Body>, BoxError> {
        let query = parts.uri.query().unwrap_or_default();
        if query.contains("sendInitialEvents=true") {
            // Planned objects are put into pages.
            return Answer::failed(422, "Invalid", "a plan has no streamed lists").into_response();
        }
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
        let own = match is_label(name) {
            true => format!("{all}%3D{name}%2Capp.oam.dev%2Fnamespace%3D{namespace}"),
            // No object meets it.
            false => format!("{all}%2C%21app.oam.dev%2Fname"),
        };
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
