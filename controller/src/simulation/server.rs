//! An API server in memory: enough of it for the reconciles of Applications whose objects are ConfigMaps, with a log of every
//! write and a point at which the process that writes dies.

use crate::cached::{Cached, Outlines};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{Method, Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tower::{Layer as _, service_fn};
use vela_api::Application;
use vela_cluster::Store;
use vela_cluster::lease::Fence;

/// Group version, plural, kind, namespaced.
const KINDS: [(&str, &str, &str, bool); 15] = [
    ("v1", "secrets", "Secret", true),
    ("v1", "configmaps", "ConfigMap", true),
    ("v1", "namespaces", "Namespace", false),
    ("batch/v1", "jobs", "Job", true),
    ("v1", "events", "Event", true),
    ("core.oam.dev/v1beta1", "applications", "Application", true),
    ("core.oam.dev/v1alpha1", "workflowruns", "WorkflowRun", true),
    ("core.oam.dev/v1beta1", "applicationrevisions", "ApplicationRevision", true),
    ("core.oam.dev/v1beta1", "resourcetrackers", "ResourceTracker", false),
    ("core.oam.dev/v1beta1", "componentdefinitions", "ComponentDefinition", true),
    ("core.oam.dev/v1beta1", "traitdefinitions", "TraitDefinition", true),
    ("core.oam.dev/v1beta1", "policydefinitions", "PolicyDefinition", true),
    ("core.oam.dev/v1beta1", "workflowstepdefinitions", "WorkflowStepDefinition", true),
    ("core.oam.dev/v1beta1", "workloaddefinitions", "WorkloadDefinition", true),
    ("core.oam.dev/v1beta1", "definitionrevisions", "DefinitionRevision", true),
];

/// Plural, namespace, name.
pub(super) type ObjectPath = (String, String, String);

/// When the process that writes dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// Before its n-th write (counted from 1) is sent.
    Before(usize),
    /// After it was committed, before the answer is read.
    After(usize),
}

/// What happens at a moment between two requests.
pub(super) type Interruption = Box<dyn FnOnce(&mut State) + Send>;

/// Everything the server knows.
#[derive(Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<ObjectPath, Value>,
    version: u64,
    /// Changes for watches: version, type, plural, object.
    changes: Vec<(u64, &'static str, String, Value)>,
    /// Up to which version the processes that were started saw the ConfigMaps, by their number.
    seen: BTreeMap<usize, u64>,
    /// Writes of the process under test, dry runs aside.
    pub(super) writes: usize,
    /// All its requests but watches and discovery, and the bytes of their bodies.
    pub(super) requests: Vec<String>,
    pub(super) sent: usize,
    /// The ConfigMaps the process under test asked to delete, dry runs aside.
    pub(super) deletes: Vec<String>,
    /// Deletions of ConfigMaps by the process under test, at the moment they happened, as judged by `judge`.
    pub(super) crimes: Vec<String>,
    /// Statuses of Applications, as they were written.
    pub(super) status_writes: Vec<Value>,
    pub(super) death: Option<Death>,
    pub(super) dead: bool,
    /// The process is dead for all servers that it talks to.
    pub(super) killed: Arc<watch::Sender<bool>>,
    /// Who wrote objects of which kind, as far as somebody is impersonated.
    pub(super) writers: BTreeSet<(String, String)>,
    /// The namespace in which nobody but the controller itself may do anything.
    pub(super) closed: Option<&'static str>,
    /// The ConfigMap that an admission rule of the cluster refuses.
    pub(super) refused: Option<&'static str>,
    /// The most bytes that an object of a kind may have, by its plural, and the answer to more.
    pub(super) limit: Option<(&'static str, usize, (u16, &'static str))>,
    /// Requests that are refused to the process under test: method and plural.
    pub(super) forbidden: Option<(Method, &'static str)>,
    /// The API server is overloaded: which requests are refused, and by which answer.
    pub(super) overload: Option<(Method, &'static str, u16)>,
    /// How often it was asked in vain.
    pub(super) asked_in_vain: usize,
    /// The process's cache of Applications: its watch is never late.
    pub(super) apps: Option<Arc<Store<Cached>>>,
    /// Its watch is late after all: what happens in the middle of a reconcile is seen by the next one only.
    pub(super) is_late: bool,
    /// Its watches of objects are late: what happens from now on is reported when that ends.
    pub(super) is_silent: bool,
    /// Requests are taken in and never answered, watches aside, until that ends.
    pub(super) swallows: bool,
    /// Happens when the process under test has sent this many further requests.
    pub(super) interruption: Option<(usize, Interruption)>,
}

/// The server.
#[derive(Clone, Default)]
pub(super) struct Server {
    pub(super) state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

/// Whether a list with this query contains an object: selectors are values of labels, labels that have to be there, or values that a label
/// must not have.
fn is_selected(object: &Value, query: &str) -> bool {
    let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
    let selector = selector.unwrap_or_default();
    let escapes =
        [("%2F", "/"), ("%3D", "="), ("%2C", ","), ("%28", "("), ("%29", ")"), ("+", " ")];
    let selector =
        escapes.iter().fold(selector.to_owned(), |text, (code, sign)| text.replace(code, sign));
    let labels = &object["metadata"]["labels"];
    let is_met = |term: &str| match term.split_once('=') {
        Some((key, value)) => labels[key] == value,
        None => labels[term].is_string(),
    };
    let (selector, is_left_out) = match selector.split_once(" notin (") {
        Some((before, values)) => {
            let (before, key) = before.rsplit_once(',').unwrap_or(("", before));
            let is_one = |value: &str| labels[key] == value;
            (before.to_owned(), values.trim_end_matches(')').split(',').any(is_one))
        }
        None => (selector, false),
    };
    !is_left_out && selector.split(',').filter(|term| !term.is_empty()).all(is_met)
}

impl State {
    pub(super) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(plural.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn all(&self, plural: &str) -> Vec<&Value> {
        self.objects
            .iter()
            .filter(|((kind, ..), _)| kind == plural)
            .map(|(_, value)| value)
            .collect()
    }

    fn stamp(&mut self, object: &mut Value) -> u64 {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.version
    }

    /// All states an object ever had.
    pub(super) fn history<'s>(
        &'s self,
        plural: &'s str,
        name: &'s str,
    ) -> impl Iterator<Item = &'s Value> + 's {
        let changes = self.changes.iter().filter(move |(_, _, kind, _)| kind == plural);
        changes.map(|(.., object)| object).filter(move |object| object["metadata"]["name"] == name)
    }

    /// How often objects of a kind changed.
    pub(super) fn changes_of(&self, plural: &str) -> usize {
        self.changes.iter().filter(|(_, _, kind, _)| kind == plural).count()
    }

    /// The version of the last change of a ConfigMap.
    pub(super) fn last_map(&self) -> u64 {
        let maps = self.changes.iter().rev().find(|(_, _, plural, _)| plural == "configmaps");
        maps.map(|(version, ..)| *version).unwrap_or_default()
    }

    /// Whether a process saw every change of a ConfigMap; one that watches none sees them all.
    pub(super) fn has_seen(&self, process: usize) -> bool {
        self.is_silent || self.seen.get(&process).is_none_or(|seen| *seen >= self.last_map())
    }

    /// Another process may write.
    pub(super) fn revive(&mut self) {
        (self.dead, self.death) = (false, None);
        self.killed.send_replace(false);
    }

    /// Creates or replaces an object as it is.
    pub(super) fn put(&mut self, plural: &str, mut object: Value) -> Value {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let object_path = (plural.to_owned(), text("namespace"), text("name"));
        let old = self.objects.get(&object_path).cloned();
        if let Some(map) = object.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        match &old {
            Some(old) => {
                let mut generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
                generation += i64::from(old["spec"] != object["spec"]);
                object["metadata"]["generation"] = json!(generation);
                object["metadata"]["uid"] = old["metadata"]["uid"].clone();
            }
            None => {
                object["metadata"]["generation"] = json!(1);
                object["metadata"]["uid"] = json!(format!("uid-{}", self.version + 1));
                object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
        }
        if old.as_ref().is_some_and(|old| without_version(old) == without_version(&object)) {
            return old.unwrap_or_default();
        }
        let version = self.stamp(&mut object);
        let is_gone = object["metadata"]["deletionTimestamp"].is_string()
            && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if is_gone {
            self.forget(&object_path, object.clone());
            return object;
        }
        let type_ = if old.is_some() { "MODIFIED" } else { "ADDED" };
        self.changes.push((version, type_, object_path.0.clone(), object.clone()));
        self.objects.insert(object_path, object.clone());
        object
    }

    /// Deletes as the API server does: at once, or by a mark where finalizers are.
    pub(super) fn delete(&mut self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let object_path = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.objects.get(&object_path)?.clone();
        if object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            self.stamp(&mut object);
            self.forget(&object_path, object.clone());
        } else if !object["metadata"]["deletionTimestamp"].is_string() {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
            object = self.put(plural, object);
        }
        Some(object)
    }

    /// What an object owns has no owner any more.
    fn disown(&mut self, uid: &Value) {
        let owned: Vec<(String, Value)> = self
            .objects
            .iter()
            .map(|((plural, ..), object)| (plural.clone(), object.clone()))
            .collect();
        for (plural, mut object) in owned {
            let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() else {
                continue;
            };
            owners.retain(|owner| owner["uid"] != *uid);
            self.put(&plural, object);
        }
    }

    fn forget(&mut self, object_path: &ObjectPath, object: Value) {
        self.objects.remove(object_path);
        let uid = object["metadata"]["uid"].clone();
        self.changes.push((self.version, "DELETED", object_path.0.clone(), object));
        // The cluster's own garbage collector.
        let owned: Vec<ObjectPath> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners.into_iter().flatten().any(|owner| owner["uid"] == uid)
            })
            .map(|(object_path, _)| object_path.clone())
            .collect();
        for (plural, namespace, name) in owned {
            self.delete(&plural, &namespace, &name);
        }
    }

    /// The ConfigMaps the newest spec of an Application wants.
    pub(super) fn wanted(app: &Value) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        if app["metadata"]["deletionTimestamp"].is_string() {
            return out;
        }
        for component in app["spec"]["components"].as_array().into_iter().flatten() {
            let value = component["properties"]["value"].as_str().unwrap_or_default();
            for name in component["properties"]["names"].as_array().into_iter().flatten() {
                out.insert(name.as_str().unwrap_or_default().to_owned(), value.to_owned());
            }
        }
        out
    }

    /// A ConfigMap is about to be deleted by the process under test.
    fn judge(&mut self, namespace: &str, name: &str) {
        let wants = |app: &&Value| {
            app["metadata"]["namespace"] == namespace && Self::wanted(app).contains_key(name)
        };
        if let Some(app) = self.all("applications").into_iter().find(wants) {
            let text = format!("{name} is deleted, but {} wants it", app["metadata"]["name"]);
            self.crimes.push(text);
        }
    }

    fn closes(&self, path: &str) -> bool {
        Parsed::of(path).is_some_and(|request| self.closed == Some(&request.namespace))
    }

    /// The answer to a write of more bytes than the limit allows.
    fn exceeds(&self, request: &http::request::Parts, bytes: usize) -> Option<(u16, Value)> {
        let (plural, most, (code, text)) = self.limit?;
        let is_of_it = Parsed::of(request.uri.path())?.plural == plural;
        // What a patch of a record sends is not what is stored; a status is sent as a whole when it is new.
        let of_status = request.method == Method::PATCH && request.uri.path().ends_with("/status");
        let writes = of_status || [Method::POST, Method::PUT].contains(&request.method);
        let (_, mut status) = failure(code, "");
        status["message"] = json!(text);
        (is_of_it && writes && bytes > most).then_some((code, status))
    }

    fn answer(&mut self, method: &Method, uri: &Uri, body: &Value) -> (u16, Value) {
        if self.dead || *self.killed.borrow() {
            return failure(503, "ServiceUnavailable");
        }
        let dry = uri.query().is_some_and(|query| query.contains("dryRun"));
        let writes = method != Method::GET && !dry && !uri.path().contains("/events");
        if writes {
            self.writes += 1;
            if self.death == Some(Death::Before(self.writes)) {
                self.dead = true;
                self.killed.send_replace(true);
                return failure(503, "ServiceUnavailable");
            }
        }
        let kept = dry.then(|| (self.objects.clone(), self.version, self.changes.len()));
        let answer = self.carry_out(method, uri, body);
        if let Some((objects, version, changes)) = kept {
            self.objects = objects;
            self.version = version;
            self.changes.truncate(changes);
        }
        if let Some((left, _)) = &mut self.interruption {
            *left = left.saturating_sub(1);
            if *left == 0
                && let Some((_, happen)) = self.interruption.take()
            {
                happen(self);
                if let Some(apps) = self.apps.clone().filter(|_| !self.is_late) {
                    let outlines = Outlines::default();
                    let cached = |app: Application| outlines.cached(&app, true);
                    super::refill(&apps, self, "applications", cached);
                }
            }
        }
        if writes && self.death == Some(Death::After(self.writes)) {
            self.dead = true;
            self.killed.send_replace(true);
            return failure(503, "ServiceUnavailable");
        }
        answer
    }

    fn carry_out(&mut self, method: &Method, uri: &Uri, body: &Value) -> (u16, Value) {
        let path = uri.path();
        let Some(request) = Parsed::of(path) else { return failure(404, "NotFound") };
        let Parsed { plural, namespace, name, status } = request;
        if self.forbidden.as_ref().is_some_and(|(verb, kind)| verb == method && *kind == plural) {
            return failure(403, "Forbidden");
        }
        if let Some((verb, kind, code)) = &self.overload
            && verb == method
            && *kind == plural
        {
            self.asked_in_vain += 1;
            return failure(*code, "ServiceUnavailable");
        }
        let about = body["metadata"]["name"].as_str().unwrap_or(&name);
        let writes = *method != Method::GET && *method != Method::DELETE;
        if plural == "configmaps" && writes && self.refused == Some(about) {
            return failure(422, "Invalid");
        }
        if name.is_empty() {
            if *method == Method::GET {
                let mut items = self.all(&plural);
                items.retain(|item| is_selected(item, uri.query().unwrap_or_default()));
                return (
                    200,
                    json!({"metadata": {"resourceVersion": self.version.to_string()},
                    "items": items}),
                );
            }
            let mut body = body.clone();
            if let (None, Some(prefix)) =
                (body["metadata"]["name"].as_str(), body["metadata"]["generateName"].as_str())
            {
                body["metadata"]["name"] = json!(format!("{prefix}{}", self.version));
            }
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            if self.get(&plural, &namespace, name).is_some() {
                return failure(409, "AlreadyExists");
            }
            return (201, self.put(&plural, body));
        }
        let Some(old) = self.get(&plural, &namespace, &name).cloned() else {
            let (code, mut status) = failure(404, "NotFound");
            let group = path.strip_prefix("/apis/").and_then(|path| path.split('/').next());
            status["details"] =
                json!({"name": name, "kind": plural, "group": group.unwrap_or_default()});
            return (code, status);
        };
        let given = match *method {
            Method::GET => return (200, old),
            Method::DELETE => body["preconditions"].clone(),
            _ => body["metadata"].clone(),
        };
        let guards: &[&str] = if *method == Method::DELETE {
            &["uid", "resourceVersion"]
        } else {
            &["resourceVersion"]
        };
        if guards.iter().any(|key| given[key].is_string() && given[key] != old["metadata"][key]) {
            return failure(409, "Conflict");
        }
        let mut new = match *method {
            Method::DELETE => {
                if plural == "configmaps" {
                    self.deletes.push(name.clone());
                    self.judge(&namespace, &name);
                }
                if body["propagationPolicy"] == "Orphan" {
                    self.disown(&old["metadata"]["uid"]);
                }
                return (200, self.delete(&plural, &namespace, &name).unwrap_or_default());
            }
            Method::PATCH => {
                let mut new = old.clone();
                vela_apply::json_merge::apply(&mut new, &without_directives(body));
                new
            }
            _ => body.clone(),
        };
        if adds_finalizer(&old, &mut new) {
            return failure(422, "Invalid");
        }
        if status {
            if plural == "applications" {
                self.status_writes.push(new["status"].clone());
                if says_readiness_alone(&old["status"], &new["status"]) {
                    self.crimes.push(format!("a write for readiness alone: {}", new["status"]));
                }
            }
            let mut kept = old;
            kept["status"] = new["status"].take();
            new = kept;
        } else if plural.starts_with("application") {
            new["status"] = old["status"].clone();
        }
        (200, self.put(&plural, new))
    }
}

/// What a path is about.
struct Parsed {
    plural: String,
    namespace: String,
    name: String,
    status: bool,
}

impl Parsed {
    fn of(path: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let skip = if *parts.first()? == "api" { 2 } else { 3 };
        if parts.len() <= skip {
            return None;
        }
        let mut rest = parts.split_off(skip);
        let mut namespace = String::new();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            namespace = (*rest.get(1)?).to_owned();
            rest.drain(..2);
        }
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        Some(Self { plural: part(0), namespace, name: part(1), status: part(2) == "status" })
    }
}

/// Nobody takes a deletion back, and what is being deleted gets no new finalizer. Returns whether somebody tries that.
fn adds_finalizer(old: &Value, new: &mut Value) -> bool {
    if !old["metadata"]["deletionTimestamp"].is_string() {
        return false;
    }
    new["metadata"]["deletionTimestamp"] = old["metadata"]["deletionTimestamp"].clone();
    let held = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let wanted = new["metadata"]["finalizers"].as_array();
    wanted.is_some_and(|wanted| wanted.iter().any(|finalizer| !held.contains(finalizer)))
}

/// Whether all that differs is where a rollout is, which the rest of the status says too: that is never worth a write.
fn says_readiness_alone(old: &Value, new: &Value) -> bool {
    let split = |status: &Value| {
        let mut rest = status.clone();
        let mut reason = Value::Null;
        if let Some(conditions) = rest["conditions"].as_array_mut() {
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
            reason = ready.map(|ready| ready["reason"].clone()).unwrap_or_default();
            conditions.retain(|condition| {
                !["Ready", "Reconciling", "Stalled"]
                    .contains(&condition["type"].as_str().unwrap_or_default())
            });
        }
        (rest, reason)
    };
    let ((old, before), (new, after)) = (split(old), split(new));
    let is_ours = |reason: &Value| {
        ["Progressing", "Suspended", "Failed", "Terminated", "Unhealthy"]
            .contains(&reason.as_str().unwrap_or_default())
    };
    old == new && is_ours(&before) && is_ours(&after)
}

fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    object
}

/// A patch without the directives of strategic ones, which mean nothing for ConfigMaps.
fn without_directives(patch: &Value) -> Value {
    let Some(map) = patch.as_object() else { return patch.clone() };
    map.iter()
        .filter(|(key, _)| !key.starts_with('$'))
        .map(|(key, value)| (key.clone(), without_directives(value)))
        .collect()
}

/// A request in short.
fn said(request: &http::request::Parts) -> Option<String> {
    let Parsed { plural, status, .. } = Parsed::of(request.uri.path())?;
    let is_dry = request.uri.query().is_some_and(|query| query.contains("dryRun"));
    let (part, dry) = (if status { "/status" } else { "" }, if is_dry { ", dry" } else { "" });
    Some(format!("{} {plural}{part}{dry}", request.method))
}

/// A list as the beginning of a watch; the connection ends with it.
fn streamed(list: &Value) -> String {
    let event =
        |kind: &str, object: &Value| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
    let bookmark = json!({"apiVersion": "v1", "kind": "Bookmark", "metadata": {
        "resourceVersion": list["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    let items = list["items"].as_array().into_iter().flatten();
    let added: String = items.map(|item| event("ADDED", item)).collect();
    added + &event("BOOKMARK", &bookmark)
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": reason, "metadata": {}});
    (code, status)
}

impl Server {
    /// A client of it.
    pub(super) fn client(&self, process: usize) -> Client {
        self.client_behind(process, &Fence::default())
    }

    /// The same, of a process that asks a fence before it writes.
    pub(super) fn client_behind(&self, process: usize, fence: &Fence) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let query = parts.uri.query().unwrap_or_default();
                let is_streamed = query.contains("sendInitialEvents=true");
                if query.contains("watch=true") && !is_streamed {
                    let text = server.watch(process, &parts.uri).await;
                    return Ok(Response::new(Body::from(text.into_bytes())));
                }
                server.answers().await;
                let discovery = parts.uri.path().trim_start_matches("/apis/");
                let discovery = discovery.trim_start_matches("/api/");
                let listed = resources(discovery);
                let (code, value) = match listed {
                    Some(listed) => (200, listed),
                    None => {
                        let user = parts.headers.get("impersonate-user");
                        let user = user.and_then(|user| user.to_str().ok()).unwrap_or_default();
                        if parts.method != Method::GET
                            && let Some(parsed) = Parsed::of(parts.uri.path())
                        {
                            let writer = (parsed.plural, user.to_owned());
                            server.state.lock().writers.insert(writer);
                        }
                        let mut state = server.state.lock();
                        state.requests.extend(said(&parts));
                        state.sent += bytes.len();
                        let answer = if let Some(answer) = state.exceeds(&parts, bytes.len()) {
                            answer
                        } else if !user.is_empty() && state.closes(parts.uri.path()) {
                            failure(403, "Forbidden")
                        } else {
                            state.answer(&parts.method, &parts.uri, &body)
                        };
                        // What comes after the list was not sent yet.
                        let is_list = is_streamed && answer.0 == 200;
                        if is_list && parts.uri.path().ends_with("/configmaps") {
                            state.seen.insert(process, 0);
                        }
                        drop(state);
                        server.changed.notify_waiters();
                        answer
                    }
                };
                let text = match code {
                    200 if is_streamed => streamed(&value),
                    _ => value.to_string(),
                };
                let body = Body::from(text.into_bytes());
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Client::new(fence.layer(service), "default")
    }

    /// Waits for as long as requests are swallowed.
    async fn answers(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.state.lock().swallows {
                return;
            }
            changed.await;
        }
    }

    /// Swallows requests from now on, or no more.
    pub(super) fn swallow(&self, swallows: bool) {
        self.state.lock().swallows = swallows;
        self.changed.notify_waiters();
    }

    /// Waits for changes after the version asked for; the connection ends with the answer.
    async fn watch(&self, process: usize, uri: &Uri) -> String {
        let query = uri.query().unwrap_or_default();
        let since = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion="))
            .and_then(|version| version.parse::<u64>().ok())
            .unwrap_or_default();
        let plural = Parsed::of(uri.path()).map(|parsed| parsed.plural).unwrap_or_default();
        if plural == "configmaps" {
            self.state.lock().seen.insert(process, since);
        }
        loop {
            let changed = self.changed.notified();
            let changes_since = |state: &State| -> String {
                let changes_since = state.changes.iter().filter(|_| !state.is_silent);
                changes_since
                    .filter(|(version, _, kind, _)| *version > since && *kind == plural)
                    .map(|(_, type_, _, object)| {
                        // To who selects by labels, what loses them is deleted.
                        let type_ = if is_selected(object, query) { type_ } else { "DELETED" };
                        format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")
                    })
                    .collect()
            };
            let text = changes_since(&self.state.lock());
            if !text.is_empty() {
                return text;
            }
            changed.await;
        }
    }

    /// Something outside of the process under test happens.
    pub(super) fn by_another_writer(&self, happen: impl FnOnce(&mut State)) {
        happen(&mut self.state.lock());
        self.changed.notify_waiters();
    }
}

fn resources(group_version: &str) -> Option<Value> {
    if group_version == "/apis" {
        return Some(json!({ "groups": [] }));
    }
    let kinds: Vec<Value> = KINDS
        .iter()
        .filter(|(served, ..)| *served == group_version)
        .map(|(_, plural, kind, namespaced)| {
            json!({"name": plural, "kind": kind, "namespaced": namespaced, "verbs": ["list"]})
        })
        .collect();
    (!kinds.is_empty()).then(|| json!({ "resources": kinds }))
}
