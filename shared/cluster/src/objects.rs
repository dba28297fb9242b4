//! The live objects that Applications own: one watch per kind and version, started when the first such object is dispatched.
//!
//! The watch sees objects that carry our owner label, which is what makes health follow readiness at once and drift visible
//! when it happens. Objects are kept as compressed text without managed fields: a tree would cost fifteen times the memory.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, ApiResource};
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use vela_api::names;
use vela_apply::object::{group_of, is_deleting, is_local, name, namespace, str_at};
use vela_apply::{Owner, ResourceKey, ownership};

use crate::completed::{self, Completed};
use crate::error::Class;
use crate::observed::Observed;
use crate::parking;
use crate::postponed;
use crate::request::{ApiError, ObjectClient};
use crate::store::{Key, Store, Stored};

/// How long reconciles wait for the first list of a kind, from its beginning or its last sign of life on: if it does not come,
/// the next ones do not wait for it in turn.
const LIST_TIME: Duration = Duration::from_secs(10);

/// Objects in an answer to a list: a page is in memory as trees, many times the size of what stays.
const PAGE: u32 = 100;

/// One live object.
pub struct Live {
    key: Key,
    version: String,
    /// Its uid.
    pub uid: String,
    /// The Application its labels name.
    pub owner: Option<Owner>,
    /// The Applications that share it.
    sharers: Box<[Owner]>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Who wrote it last, from its managed fields.
    pub manager: String,
    /// A hash of all but its status and what counts its changes.
    pub content: u64,
    text: Text,
}

/// An object as JSON. Most are checked rarely, and there are several for each Application.
enum Text {
    Plain(Box<str>),
    Packed(Box<[u8]>),
}

/// Texts below this size do not shrink enough to care.
const SMALL: usize = 512;

impl Text {
    fn of(object: &Value) -> Self {
        let text = object.to_string();
        if text.len() >= SMALL
            && let Ok(packed) = vela_api::compression::pack(text.as_bytes())
        {
            return Self::Packed(packed.into());
        }
        Self::Plain(text.into())
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    fn value(&self) -> Value {
        let parsed = match self {
            Self::Plain(text) => serde_json::from_str(text).ok(),
            Self::Packed(packed) => vela_api::compression::unpack(packed)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok()),
        };
        parsed.unwrap_or_default()
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("key", &self.key).field("version", &self.version).finish()
    }
}

impl Live {
    /// Keeps what is needed of an object as the API server sent it.
    #[must_use]
    pub fn of(mut object: Value) -> Self {
        let manager = last_manager(&object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Self {
            key: Key::new(namespace(&object), name(&object)),
            version: str_at(&object, &["metadata", "resourceVersion"]).to_owned(),
            uid: str_at(&object, &["metadata", "uid"]).to_owned(),
            owner: Owner::of(&object),
            sharers: ownership::sharers(&object).filter_map(sharer).collect(),
            deleting: is_deleting(&object),
            manager,
            content: content(&object),
            text: Text::of(&object),
        }
    }

    /// The object.
    #[must_use]
    pub fn value(&self) -> Value {
        self.text.value()
    }

    /// Whether an Application owns it, or shares it.
    #[must_use]
    pub fn is_of(&self, app: &Owner) -> bool {
        self.owner.as_ref() == Some(app) || self.sharers.contains(app)
    }

    /// The Applications that a change of it concerns: whoever shares it has to see when it is gone, or created again by the
    /// owner, who knows of nobody then.
    fn concerned(&self) -> impl Iterator<Item = &Owner> {
        let others = self.sharers.iter().filter(|sharer| self.owner.as_ref() != Some(sharer));
        self.owner.iter().chain(others)
    }
}

impl Stored for Live {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn version(&self) -> &str {
        &self.version
    }
}

/// An entry of those who share an object.
fn sharer(entry: &str) -> Option<Owner> {
    let (namespace, name) = entry.split_once('/')?;
    Some(Owner { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn content(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut hash = |map: Option<&Value>, without: &[&str]| {
        let fields = map.and_then(Value::as_object).into_iter().flatten();
        for (key, value) in fields.filter(|(key, _)| !without.contains(&key.as_str())) {
            (key, value).hash(&mut hasher);
        }
    };
    hash(Some(object), &["metadata", "status"]);
    hash(object.get("metadata"), &["resourceVersion", "generation"]);
    hasher.finish()
}

/// What the API server calls the controller in `managedFields`: its user agent up to the version.
const OURSELVES: &str = "vela-controller";

/// The manager of the newest entry of `managedFields` that is about the object itself. Times are in seconds, so two writers who
/// answer each other wrote at the same time: ourselves only if there is nobody else.
fn last_manager(object: &Value) -> String {
    let fields = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    fields
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("subresource").is_none())
        .max_by_key(|entry| {
            (str_at(entry, &["manager"]) != OURSELVES, str_at(entry, &["time"]).to_owned())
        })
        .map(|entry| str_at(entry, &["manager"]).to_owned())
        .unwrap_or_default()
}

/// API version and kind. Versions of one kind show the same objects, each in a shape of its own.
type VersionKind = (String, String);

/// What is reported when an object changed that an Application owns.
pub type Notify = Arc<dyn Fn(&Owner) + Send + Sync>;

/// The uids of objects whose deletion the API server confirmed to us before the watch event.
#[derive(Default)]
struct Ended(Mutex<HashSet<String>>);

impl Ended {
    fn add(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned());
    }

    /// Whether a message of the watch is older than the object's end.
    fn has(&self, uid: &str) -> bool {
        let ended = self.0.lock();
        !ended.is_empty() && ended.contains(uid)
    }

    /// The watch event has come.
    fn forget(&self, uid: &str) {
        let mut ended = self.0.lock();
        if !ended.is_empty() {
            ended.remove(uid);
        }
    }

    /// A list that began after them is complete: who is not in it is forgotten.
    fn keep(&self, before: &HashSet<String>, listed: &HashSet<String>) {
        self.0.lock().retain(|uid| !before.contains(uid) || listed.contains(uid));
    }

    fn all(&self) -> HashSet<String> {
        self.0.lock().clone()
    }
}

/// The objects of one kind, in one version.
struct Watched {
    store: Arc<Store<Live>>,
    ended: Ended,
    completed: Mutex<Completed>,
    listing: Mutex<Listing>,
}

/// How the first list of a kind gets on.
struct Listing {
    /// When it began, or last brought something.
    since: Instant,
    /// What the error says that is the last that was heard of it.
    failed: Option<Class>,
    /// The kind is not served any more.
    over: bool,
}

impl Watched {
    fn begin() -> Self {
        let listing = Listing { since: Instant::now(), failed: None, over: false };
        Self {
            store: Arc::default(),
            ended: Ended::default(),
            completed: Mutex::default(),
            listing: Mutex::new(listing),
        }
    }
}

/// All watches.
pub struct LiveObjects {
    io: Arc<ObjectClient>,
    kinds: Arc<Mutex<HashMap<VersionKind, Arc<Watched>>>>,
    notify: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Of the cluster of the control plane: keys of other clusters name nothing here.
    own: bool,
}

impl std::fmt::Debug for LiveObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveObjects").field("kinds", &self.kinds.lock().len()).finish()
    }
}

impl LiveObjects {
    /// No watch yet.
    #[must_use]
    pub fn new(
        io: Arc<ObjectClient>,
        notify: Notify,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self { io, kinds: Arc::default(), notify, tasks, stop, own: true }
    }

    /// Those of a member. Whoever asks has found the member by the cluster of the key.
    #[must_use]
    pub fn of_member(
        io: Arc<ObjectClient>,
        notify: Notify,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self { own: false, ..Self::new(io, notify, tasks, stop) }
    }

    /// Bytes that the texts of all objects take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let kinds: Vec<_> = self.kinds.lock().values().cloned().collect();
        let of = |live: Arc<Live>| live.text.len();
        kinds.iter().map(|watched| watched.store.all().into_iter().map(of).sum::<usize>()).sum()
    }

    /// The objects of a kind, watched from now on; returns when the first list is complete.
    ///
    /// # Errors
    /// The kind is not served, or its first list takes long, or fails.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Arc<Store<Live>>, ApiError> {
        self.listed(api_version, kind).await.inspect_err(postponed::note)
    }

    async fn listed(&self, api_version: &str, kind: &str) -> Result<Arc<Store<Live>>, ApiError> {
        let watched = match self.watched(api_version, kind) {
            Some(watched) => watched,
            None => self.start(api_version, kind).await?,
        };
        let left = LIST_TIME.saturating_sub(watched.listing.lock().since.elapsed());
        let synced = tokio::time::timeout(left, watched.store.synced());
        let listed = if self.own { synced.await } else { parking::waiting(synced).await }.is_ok();
        let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
        let listing = watched.listing.lock();
        if listing.over {
            Err(ApiError::NoSuchKind { kind, api_version })
        } else if listed {
            Ok(Arc::clone(&watched.store))
        } else if let Some(class) = listing.failed {
            Err(ApiError::NotListed { kind, api_version, class })
        } else {
            Err(ApiError::Listing { kind, api_version })
        }
    }

    fn watched(&self, api_version: &str, kind: &str) -> Option<Arc<Watched>> {
        self.kinds.lock().get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    async fn start(&self, api_version: &str, kind: &str) -> Result<Arc<Watched>, ApiError> {
        let resource = self.io.resolve(api_version, kind).await?.to_api_resource();
        let key = (api_version.to_owned(), kind.to_owned());
        let mut kinds = self.kinds.lock();
        if let Some(watched) = kinds.get(&key) {
            return Ok(Arc::clone(watched));
        }
        let watched = Arc::new(Watched::begin());
        kinds.insert(key.clone(), Arc::clone(&watched));
        let answer = Arc::clone(&watched);
        let (io, notify) = (Arc::clone(&self.io), Arc::clone(&self.notify));
        let (all, stop) = (Arc::clone(&self.kinds), self.stop.clone());
        debug!(kind, api_version, "watching dispatched objects");
        self.tasks.spawn(async move {
            tokio::select! {
                () = feed(&io, resource, &watched, &notify) => {}
                () = stop.cancelled() => return,
            }
            // Who asks next finds out by which path the kind is served again, if it is.
            all.lock().remove(&key);
            watched.listing.lock().over = true;
            watched.store.begin_list();
            watched
                .store
                .end_list()
                .iter()
                .flat_map(|(_, old)| old)
                .for_each(|live| notify_owners(live, &notify));
        });
        Ok(answer)
    }

    /// The live object of a key, `None` if there is none or its kind is not served.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn get(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        match self.get_served(api_version, key).await {
            Err(ApiError::NoSuchKind { .. }) => Ok(None),
            other => other,
        }
    }

    /// The live object of a key whose kind is served, `None` if there is none.
    ///
    /// # Errors
    /// The kind is not served, or the API server does not answer.
    pub async fn get_served(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        if self.own && !is_local(&key.cluster) {
            // An object of the same name here is another one.
            return Ok(None);
        }
        let store = self.kind(api_version, &key.kind).await?;
        let found = store.get(&Key::new(&*key.namespace, &*key.name));
        if found.is_some() || key.namespace.is_empty() {
            return Ok(found);
        }
        // Old releases recorded a namespace for kinds that have none.
        let elsewhere = self.io.is_cluster_scoped(api_version, &key.kind).await;
        Ok(elsewhere.then(|| store.get(&Key::new("", &*key.name))).flatten())
    }

    /// Takes in what the API server answered to a write of ours.
    pub fn wrote(&self, api_version: &str, kind: &str, answer: Value) {
        if let Some(watched) = self.watched(api_version, kind) {
            let live = Live::of(answer);
            if live.owner.is_some() {
                let _ = watched.store.put(live);
            } else {
                // The only watch event left is its deletion.
                watched.store.remove(&live.key(), live.version());
            }
        }
    }

    /// How an object was last seen that ran to its end and was removed for that, if there is none of its name since.
    #[must_use]
    pub fn completed(&self, api_version: &str, key: &ResourceKey) -> Option<Arc<Live>> {
        if !completed::may_be_over(&key.kind) {
            return None;
        }
        let watched = self.watched(api_version, &key.kind)?;
        watched.completed.lock().get(&Key::new(&*key.namespace, &*key.name))
    }

    /// Takes in that the API server confirmed the end of an object, in whichever version it is watched.
    pub fn ended(&self, api_version: &str, key: &ResourceKey, uid: &str) {
        let group = group_of(api_version);
        let is_it = |(version, kind): &VersionKind| group_of(version) == group && *kind == key.kind;
        let kinds = self.kinds.lock();
        let cache_key = Key::new(&*key.namespace, &*key.name);
        for (_, watched) in kinds.iter().filter(|(kind, _)| is_it(kind)) {
            let Watched { store, ended, .. } = &**watched;
            if store.get(&cache_key).is_some_and(|live| live.uid == uid) {
                ended.add(uid);
                store.remove(&cache_key, "");
            }
        }
    }
}

/// Notifies the Applications that a change of an object concerns.
fn notify_owners(live: &Live, notify: &Notify) {
    live.concerned().for_each(|owner| notify(owner));
}

/// Keeps a store as the cluster is, as long as the kind is served in this version.
async fn feed(io: &ObjectClient, resource: ApiResource, watched: &Watched, notify: &Notify) {
    let Watched { store, ended, completed, listing } = watched;
    let failed = |class| listing.lock().failed = Some(class);
    let (mut before, mut listed) = (HashSet::new(), HashSet::new());
    let config = watcher::Config::default().labels(names::label::APP_NAME).page_size(PAGE);
    let api: Api<Observed<Value>> = Api::all_with(io.client().clone(), &resource);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let notify_of = |live: &Live| notify_owners(live, notify);
    let is_known = |object: &Observed<Value>| {
        store.get(&object.key()).is_some_and(|known| known.version() == object.version())
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => {
                (before, listed) = (ended.all(), HashSet::new());
                store.begin_list();
            }
            Ok(watcher::Event::InitApply(object)) => {
                {
                    let mut listing = listing.lock();
                    (listing.since, listing.failed) = (Instant::now(), None);
                }
                let live = Live::of(object.into_value(&resource));
                if ended.has(&live.uid) {
                    listed.insert(live.uid);
                } else if live.owner.is_some() {
                    store.list_item(live);
                }
            }
            Ok(watcher::Event::InitDone) => {
                ended.keep(&before, &listed);
                for (key, old) in store.end_list() {
                    let present = store.get(&key);
                    // It went while nobody watched.
                    if let Some(old) = old.as_ref().filter(|_| present.is_none())
                        && completed::may_be_over(&resource.kind)
                        && !before.contains(&old.uid)
                        && completed::is_over(&old.value())
                    {
                        completed.lock().removed(Arc::clone(old));
                    }
                    if let Some(live) = present.or(old) {
                        notify_of(&live);
                    }
                }
            }
            // The echo of a write of ours costs nothing more.
            Ok(watcher::Event::Apply(object)) if is_known(&object) => {}
            Ok(watcher::Event::Apply(object)) => {
                let live = Live::of(object.into_value(&resource));
                let (key, owner) = (live.key(), live.owner.clone());
                if ended.has(&live.uid) {
                    continue;
                }
                if owner.is_none() {
                    if let Some(old) = store.remove(&key, "") {
                        notify_of(&old);
                    }
                    continue;
                }
                completed.lock().made(&key);
                if let Ok(old) = store.put(live) {
                    if let Some(old) = old.filter(|old| old.owner != owner) {
                        notify_of(&old);
                    }
                    if let Some(new) = store.get(&key) {
                        notify_of(&new);
                    }
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                let was_ours = ended.has(object.uid());
                ended.forget(object.uid());
                store.remove(&object.key(), object.version());
                let object = object.into_value(&resource);
                let is_over = !was_ours && completed::is_over(&object);
                let live = Arc::new(Live::of(object));
                if is_over {
                    completed.lock().removed(Arc::clone(&live));
                }
                notify_of(&live);
            }
            // One of several API servers may be behind: what discovery says is asked, too.
            Err(error) if is_not_served(&error) => {
                io.discovery().forget(&resource.api_version);
                let served = io.resolve(&resource.api_version, &resource.kind).await;
                if matches!(served, Err(ApiError::NoSuchKind { .. })) {
                    return;
                }
                failed(Class::Failed);
                warn!(%error, "what discovery says is served is not there, trying again");
            }
            Err(error) => {
                failed(class_of(&error));
                warn!(%error, "watch of dispatched objects failed, trying again");
            }
        }
    }
}

fn class_of(error: &watcher::Error) -> Class {
    let of = |code| {
        let (reason, message, retry_after) = Default::default();
        ApiError::Api { code, reason, message, retry_after }.class()
    };
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => of(status.code),
        watcher::Error::NoResourceVersion => Class::Failed,
        _ => Class::Retry(None),
    }
}

fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_not_alive_again_until_the_watch_has_told_of_its_end() {
        let ended = Ended::default();
        ended.add("a");
        assert!(ended.has("a") && !ended.has("b"));
        let before = ended.all();
        ended.add("later");
        // A list that still has it: the end is yet to come.
        ended.keep(&before, &HashSet::from(["a".to_owned()]));
        assert!(ended.has("a") && ended.has("later"));
        ended.keep(&before, &HashSet::new());
        assert!(!ended.has("a") && ended.has("later"));
        ended.forget("later");
        assert!(!ended.has("later"));
    }

    #[test]
    fn changes_concern_the_owner_and_whoever_shares() {
        let concerned = |labels: Value, list: &str| {
            let object = serde_json::json!({"metadata": {"name": "x", "namespace": "n",
                "labels": labels, "annotations": {"app.oam.dev/shared-by": list}}});
            let live = Live::of(object);
            let all: Vec<Owner> = live.concerned().cloned().collect();
            assert!(all.iter().all(|one| live.is_of(one)));
            let other = Owner { namespace: "n".to_owned(), name: "other".to_owned() };
            assert!(!live.is_of(&other));
            all.iter().map(Owner::sharer).collect::<Vec<_>>()
        };
        let owned = || serde_json::json!({"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"});
        assert_eq!(concerned(owned(), ""), ["n/a"]);
        assert_eq!(concerned(owned(), "n/a,n/b, m/c,d"), ["n/a", "n/b", "m/c"]);
        assert_eq!(concerned(serde_json::json!({}), "n/b"), ["n/b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_come_is_waited_for_once() {
        let (client, _) = crate::fake::fake(|_, path, _| match path {
            "/api/v1" => {
                let kinds = serde_json::json!([
                    {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]);
                (200, serde_json::json!({ "resources": kinds }))
            }
            _ => (403, serde_json::json!({"kind": "Status", "code": 403, "reason": "Forbidden"})),
        });
        let io = Arc::new(ObjectClient::new(client));
        let stop = CancellationToken::new();
        let live = LiveObjects::new(io, Arc::new(|_| {}), TaskTracker::new(), stop.clone());
        let since = Instant::now();
        for _ in 0..5 {
            let error = live.kind("v1", "ConfigMap").await.expect_err("cannot be listed");
            assert!(matches!(error, ApiError::NotListed { .. }), "{error}");
        }
        assert!(since.elapsed() < LIST_TIME * 2, "{:?}", since.elapsed());
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_slow_is_told_from_one_that_fails() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            if request.uri().path() != "/api/v1" {
                std::future::pending::<()>().await;
            }
            let kinds = serde_json::json!({"resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]});
            let body = kube::client::Body::from(kinds.to_string().into_bytes());
            Ok::<_, tower::BoxError>(http::Response::new(body))
        });
        let io = Arc::new(ObjectClient::new(kube::Client::new(service, "default")));
        let stop = CancellationToken::new();
        let live = LiveObjects::new(io, Arc::new(|_| {}), TaskTracker::new(), stop.clone());
        let error = live.kind("v1", "ConfigMap").await.expect_err("not listed yet");
        assert!(matches!(error, ApiError::Listing { .. }), "{error}");
        stop.cancel();
    }

    #[test]
    fn large_objects_come_back_whole() {
        let long = "text ".repeat(1000);
        let object = serde_json::json!({"metadata": {"name": "a"}, "data": {"b": long}});
        let live = Live::of(object.clone());
        assert!(matches!(&live.text, Text::Packed(packed) if packed.len() < 200));
        assert_eq!(live.value(), object);
        let small = serde_json::json!({"metadata": {"name": "a"}});
        assert!(matches!(Live::of(small.clone()).text, Text::Plain(_)));
        assert_eq!(Live::of(small.clone()).value(), small);
    }
}
