//! The live objects that Applications own: one watch per kind and version, started when the first such object is dispatched.
//!
//! The watch sees objects that carry our owner label, which is what makes health follow readiness at once and drift visible
//! when it happens. Objects are kept as compressed text without managed fields: a tree would cost fifteen times the memory.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use vela_api::names;
use vela_apply::object::{group_of, is_deleting, name, namespace, str_at};
use vela_apply::{Owner, ResourceKey, ownership};

use crate::budget::{Account, Budget, Shape};
use crate::completed::{self, Completed};
use crate::error::Class;
use crate::observed::Observed;
use crate::parking;
use crate::postponed;
use crate::request::{ApiError, ObjectClient, Target};
use crate::store::{Key, Store, Stored};

/// How long reconciles wait for the first list of a kind, from its beginning or its last sign of life on: if it does not come,
/// the next ones do not wait for it in turn.
const LIST_TIME: Duration = Duration::from_secs(10);

/// Objects in an answer to a list: a page is in memory as trees, many times the size of what stays.
const PAGE: u32 = 100;

/// How long a kind of a member of which there is no object is watched after it was last asked for.
const UNUSED: Duration = Duration::from_secs(600);
/// How long a kind that could not be watched is read object by object before that is tried again.
const UNWATCHED: Duration = Duration::from_secs(600);
/// What an object takes besides its text, about.
const OVERHEAD: usize = 400;

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
    /// Only its metadata is kept.
    Absent,
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
            Self::Absent => 0,
        }
    }

    fn value(&self) -> Value {
        let parsed = match self {
            Self::Plain(text) => serde_json::from_str(text).ok(),
            Self::Packed(packed) => vela_api::compression::unpack(packed)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok()),
            Self::Absent => None,
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

    /// Keeps of its metadata what is needed.
    fn of_metadata(object: Value) -> Self {
        let generation = object.pointer("/metadata/generation").cloned();
        let mut live = Self::of(object);
        let mut hasher = DefaultHasher::new();
        // What it says is not known: a kind that counts generations says when that changes.
        (live.content, generation.map(|number| number.to_string())).hash(&mut hasher);
        (live.content, live.text) = (hasher.finish(), Text::Absent);
        live
    }

    /// Bytes that it takes, about.
    fn cost(&self) -> usize {
        self.text.len().saturating_add(OVERHEAD)
    }

    /// The object; null if only its metadata is kept.
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
    shape: Shape,
    /// Bytes that its objects take, about.
    bytes: AtomicUsize,
    /// Its objects are to be kept in a shape that takes less.
    shrinks: CancellationToken,
    /// When it was last asked for.
    used: Mutex<Instant>,
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
    fn begin(shape: Shape) -> Self {
        let listing = Listing { since: Instant::now(), failed: None, over: false };
        Self {
            store: Arc::default(),
            ended: Ended::default(),
            completed: Mutex::default(),
            listing: Mutex::new(listing),
            shape,
            bytes: AtomicUsize::new(0),
            shrinks: CancellationToken::new(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// An object came in the place of another one.
    fn put(&self, live: Live, account: &Account) -> Result<Option<Arc<Live>>, crate::Stale> {
        let more = live.cost();
        let old = self.store.put(live)?;
        self.change(more, old.as_ref().map_or(0, |old| old.cost()), account);
        Ok(old)
    }

    fn remove(&self, key: &Key, version: &str, account: &Account) -> Option<Arc<Live>> {
        let old = self.store.remove(key, version)?;
        self.change(0, old.cost(), account);
        Some(old)
    }

    fn change(&self, more: usize, less: usize, account: &Account) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            Some(now.saturating_sub(less))
        });
        account.change(more, less);
    }

    /// Nothing of it is kept any more.
    fn release(&self, account: &Account) {
        account.change(0, self.bytes.swap(0, Ordering::Relaxed));
    }

    /// Ends when there is no object, and nobody has asked for one for a while.
    async fn unused(&self) {
        loop {
            let idle = self.used.lock().elapsed();
            if idle >= UNUSED && self.store.is_empty() {
                return;
            }
            tokio::time::sleep(UNUSED.saturating_sub(idle).max(UNUSED / 10)).await;
        }
    }
}

/// The watches of a cluster.
type Kinds = Mutex<HashMap<VersionKind, Arc<Watched>>>;

/// Of the kinds that there is no room for in their shape the one that takes most is to take less.
fn shrink(kinds: &Kinds, account: &Account) {
    let fits = account.shape();
    let kinds = kinds.lock();
    let too_large = kinds.iter().filter(|(_, watched)| watched.shape < fits);
    let largest = too_large.max_by_key(|(_, watched)| watched.bytes.load(Ordering::Relaxed));
    if let Some(((api_version, kind), watched)) = largest
        && !watched.shrinks.is_cancelled()
    {
        warn!(
            kind,
            api_version,
            bytes = account.bytes(),
            "too many objects to keep them as they are"
        );
        watched.shrinks.cancel();
    }
}

/// All watches.
pub struct LiveObjects {
    io: Arc<ObjectClient>,
    kinds: Arc<Kinds>,
    account: Arc<Account>,
    notify: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Of the cluster of the control plane: nobody gives a worker back for it.
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
        let account = Arc::new(Account::of(Arc::new(Budget::unlimited())));
        Self { io, kinds: Arc::default(), account, notify, tasks, stop, own: true }
    }

    /// Those of a member, of which no more is kept than the budget has room for. Whoever asks has found the member by the
    /// cluster of the key.
    #[must_use]
    pub fn of_member(
        io: Arc<ObjectClient>,
        notify: Notify,
        (tasks, stop): (TaskTracker, CancellationToken),
        budget: Arc<Budget>,
    ) -> Self {
        let account = Arc::new(Account::of(budget));
        Self { own: false, account, ..Self::new(io, notify, tasks, stop) }
    }

    /// Bytes that all objects take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.account.bytes()
    }

    /// The objects of a kind, watched from now on; returns when the first list is complete.
    ///
    /// # Errors
    /// The kind is not served, or its first list takes long, or fails.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Arc<Store<Live>>, ApiError> {
        let watched = self.listed(api_version, kind).await?;
        Ok(Arc::clone(&watched.store))
    }

    /// The same with all that is known of them. Of a kind that is not watched nothing is.
    async fn listed(&self, api_version: &str, kind: &str) -> Result<Arc<Watched>, ApiError> {
        let listed = self.list(api_version, kind).await;
        listed.inspect_err(postponed::note)
    }

    async fn list(&self, api_version: &str, kind: &str) -> Result<Arc<Watched>, ApiError> {
        let watched = match self.watched(api_version, kind) {
            Some(watched) => watched,
            None => self.start(api_version, kind).await?,
        };
        *watched.used.lock() = Instant::now();
        if watched.shape == Shape::Unwatched {
            return Ok(watched);
        }
        let left = LIST_TIME.saturating_sub(watched.listing.lock().since.elapsed());
        let synced = tokio::time::timeout(left, watched.store.synced());
        let is_listed =
            if self.own { synced.await } else { parking::waiting(synced).await }.is_ok();
        let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
        {
            let listing = watched.listing.lock();
            if listing.over {
                return Err(ApiError::NoSuchKind { kind, api_version });
            }
            if !is_listed {
                return Err(match listing.failed {
                    Some(class) => ApiError::NotListed { kind, api_version, class },
                    None => ApiError::Listing { kind, api_version },
                });
            }
        }
        Ok(watched)
    }

    fn watched(&self, api_version: &str, kind: &str) -> Option<Arc<Watched>> {
        let key = (api_version.to_owned(), kind.to_owned());
        let mut kinds = self.kinds.lock();
        let watched = kinds.get(&key)?;
        let since = watched.listing.lock().since;
        if watched.shape == Shape::Unwatched && since.elapsed() >= UNWATCHED {
            kinds.remove(&key);
            return None;
        }
        Some(Arc::clone(watched))
    }

    async fn start(&self, api_version: &str, kind: &str) -> Result<Arc<Watched>, ApiError> {
        let resource = self.io.resolve(api_version, kind).await?.to_api_resource();
        let key = (api_version.to_owned(), kind.to_owned());
        let mut kinds = self.kinds.lock();
        if let Some(watched) = kinds.get(&key) {
            return Ok(Arc::clone(watched));
        }
        let watched = Arc::new(Watched::begin(self.account.shape().min(Shape::Metadata)));
        kinds.insert(key.clone(), Arc::clone(&watched));
        drop(kinds);
        let feeding = Feeding {
            io: Arc::clone(&self.io),
            resource,
            key,
            kinds: Arc::clone(&self.kinds),
            account: Arc::clone(&self.account),
            notify: Arc::clone(&self.notify),
            own: self.own,
        };
        let (answer, stop) = (Arc::clone(&watched), self.stop.clone());
        debug!(kind, api_version, "watching dispatched objects");
        self.tasks.spawn(async move {
            tokio::select! {
                () = feeding.feed(watched) => {}
                () = stop.cancelled() => {}
            }
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

    /// The live object of a key whose kind is served, `None` if there is none. What is not kept is read. Whoever asks has found
    /// the cluster by that of the key, under whichever of its names.
    ///
    /// # Errors
    /// The kind is not served, or the API server does not answer.
    pub async fn get_served(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        let watched = self.listed(api_version, &key.kind).await?;
        match watched.shape {
            Shape::Whole => Ok(self.find(&watched, api_version, key).await),
            Shape::Metadata => match self.find(&watched, api_version, key).await {
                Some(_) => self.read(api_version, key).await,
                None => Ok(None),
            },
            Shape::Unwatched => self.read(api_version, key).await,
        }
    }

    /// What is known of the object of a key without a request: it may have no content. `None`: there is none, its kind is not
    /// served, or nothing is heard of it.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn seen(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        match self.listed(api_version, &key.kind).await {
            Ok(watched) => Ok(self.find(&watched, api_version, key).await),
            Err(ApiError::NoSuchKind { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn find(
        &self,
        watched: &Watched,
        api_version: &str,
        key: &ResourceKey,
    ) -> Option<Arc<Live>> {
        let found = watched.store.get(&Key::new(&*key.namespace, &*key.name));
        if found.is_some() || key.namespace.is_empty() {
            return found;
        }
        // Old releases recorded a namespace for kinds that have none.
        let elsewhere = self.io.is_cluster_scoped(api_version, &key.kind).await;
        elsewhere.then(|| watched.store.get(&Key::new("", &*key.name))).flatten()
    }

    /// The object of a key as the API server has it. One without our labels counts as little as it does in a watch.
    async fn read(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        let ResourceKey { kind, namespace, name, .. } = key;
        let target = Target { api_version, kind, namespace, name };
        match self.io.get(&target, &crate::Identity::default()).await {
            Ok(object) => Ok(Some(Live::of(object)).filter(|it| it.owner.is_some()).map(Arc::new)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes in what the API server answered to a write of ours.
    pub fn wrote(&self, api_version: &str, kind: &str, answer: Value) {
        if let Some(watched) = self.watched(api_version, kind) {
            let live = match watched.shape {
                Shape::Whole => Live::of(answer),
                Shape::Metadata => Live::of_metadata(answer),
                Shape::Unwatched => return,
            };
            if live.owner.is_some() {
                let _ = watched.put(live, &self.account);
            } else {
                // The only watch event left is its deletion.
                watched.remove(&live.key(), live.version(), &self.account);
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
            if watched.store.get(&cache_key).is_some_and(|live| live.uid == uid) {
                watched.ended.add(uid);
                watched.remove(&cache_key, "", &self.account);
            }
        }
    }
}

/// Notifies the Applications that a change of an object concerns.
fn notify_owners(live: &Live, notify: &Notify) {
    live.concerned().for_each(|owner| notify(owner));
}

/// An object as a watch brings it.
trait Brought: Send {
    fn key(&self) -> Key;
    fn version(&self) -> String;
    fn uid(&self) -> String;
    fn live(self, resource: &ApiResource) -> Live;
}

impl Brought for Observed<Value> {
    fn key(&self) -> Key {
        Self::key(self)
    }
    fn version(&self) -> String {
        Self::version(self).to_owned()
    }
    fn uid(&self) -> String {
        Self::uid(self).to_owned()
    }
    fn live(self, resource: &ApiResource) -> Live {
        Live::of(self.into_value(resource))
    }
}

impl Brought for PartialObjectMeta<Observed<Value>> {
    fn key(&self) -> Key {
        Key::new(self.namespace().unwrap_or_default(), self.name_any())
    }
    fn version(&self) -> String {
        self.resource_version().unwrap_or_default()
    }
    fn uid(&self) -> String {
        self.metadata.uid.clone().unwrap_or_default()
    }
    fn live(self, resource: &ApiResource) -> Live {
        Live::of_metadata(serde_json::json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": self.metadata,
        }))
    }
}

/// Why a kind is not fed any more.
enum Over {
    /// It is not served in this version.
    NotServed,
    /// There is no object of it, and nobody asks for one.
    Unused,
    /// There is no room for its objects in their shape.
    TooLarge,
    /// It may not be listed.
    Denied,
}

/// What feeds a store from a watch.
struct Feeding {
    io: Arc<ObjectClient>,
    resource: ApiResource,
    key: VersionKind,
    kinds: Arc<Kinds>,
    account: Arc<Account>,
    notify: Notify,
    own: bool,
}

impl Feeding {
    /// Feeds it in whichever shape there is room for, until it is not served or nobody needs it.
    async fn feed(&self, mut watched: Arc<Watched>) {
        loop {
            let over = tokio::select! {
                over = self.watch(&watched) => over,
                () = watched.shrinks.cancelled() => Over::TooLarge,
                () = watched.unused(), if !self.own => Over::Unused,
            };
            watched.release(&self.account);
            let shape = match over {
                Over::NotServed => return self.end(&watched),
                Over::Unused => {
                    self.kinds.lock().remove(&self.key);
                    return;
                }
                Over::TooLarge => watched.shape.less(),
                Over::Denied => Shape::Unwatched,
            };
            // Who has the old store waits for a list that does not come, and asks again.
            watched = Arc::new(Watched::begin(shape));
            self.kinds.lock().insert(self.key.clone(), Arc::clone(&watched));
            if shape == Shape::Unwatched {
                return;
            }
        }
    }

    /// Who asks next finds out by which path the kind is served again, if it is.
    fn end(&self, watched: &Watched) {
        self.kinds.lock().remove(&self.key);
        watched.listing.lock().over = true;
        watched.store.begin_list();
        watched
            .store
            .end_list()
            .iter()
            .flat_map(|(_, old)| old)
            .for_each(|live| notify_owners(live, &self.notify));
    }

    async fn watch(&self, watched: &Watched) -> Over {
        let config = watcher::Config::default().labels(names::label::APP_NAME).page_size(PAGE);
        let client = self.io.client().clone();
        if watched.shape == Shape::Metadata {
            let api = Api::<PartialObjectMeta<Observed<Value>>>::all_with(client, &self.resource);
            self.follow(watcher(api, config), watched).await
        } else {
            let api = Api::<Observed<Value>>::all_with(client, &self.resource);
            self.follow(watcher(api, config), watched).await
        }
    }

    /// Keeps a store as the cluster is.
    async fn follow<O: Brought>(
        &self,
        events: impl Stream<Item = Result<watcher::Event<O>, watcher::Error>> + Send,
        watched: &Watched,
    ) -> Over {
        let Watched { store, ended, completed, listing, .. } = watched;
        let (io, resource, account) = (&self.io, &self.resource, &*self.account);
        let failed = |class| listing.lock().failed = Some(class);
        let (mut before, mut listed) = (HashSet::new(), HashSet::new());
        // Bytes of a list that is not complete yet: it may never be.
        let mut begun = Begun { bytes: 0, takes_over: 0, charged: 0, account };
        let mut events = std::pin::pin!(events.default_backoff());
        let notify_of = |live: &Live| notify_owners(live, &self.notify);
        let is_known = |object: &O| {
            store.get(&object.key()).is_some_and(|known| known.version() == object.version())
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => {
                    (before, listed) = (ended.all(), HashSet::new());
                    begun.end();
                    begun.takes_over = watched.bytes.load(Ordering::Relaxed);
                    store.begin_list();
                }
                Ok(watcher::Event::InitApply(object)) => {
                    {
                        let mut listing = listing.lock();
                        (listing.since, listing.failed) = (Instant::now(), None);
                    }
                    let live = object.live(resource);
                    if ended.has(&live.uid) {
                        listed.insert(live.uid);
                    } else if live.owner.is_some() {
                        begun.add(live.cost());
                        store.list_item(live);
                    }
                    if account.shape() > watched.shape {
                        return Over::TooLarge;
                    }
                }
                Ok(watcher::Event::InitDone) => {
                    ended.keep(&before, &listed);
                    let changed = store.end_list();
                    let bytes = store.all().iter().map(|live| live.cost()).sum();
                    watched.release(account);
                    begun.end();
                    watched.change(bytes, 0, account);
                    for (key, old) in changed {
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
                    let live = object.live(resource);
                    let (key, owner) = (live.key(), live.owner.clone());
                    if ended.has(&live.uid) {
                        continue;
                    }
                    if owner.is_none() {
                        if let Some(old) = watched.remove(&key, "", account) {
                            notify_of(&old);
                        }
                        continue;
                    }
                    completed.lock().made(&key);
                    if let Ok(old) = watched.put(live, account) {
                        if let Some(old) = old.filter(|old| old.owner != owner) {
                            notify_of(&old);
                        }
                        if let Some(new) = store.get(&key) {
                            notify_of(&new);
                        }
                    }
                    if account.shape() > watched.shape {
                        shrink(&self.kinds, account);
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    let was_ours = ended.has(&object.uid());
                    ended.forget(&object.uid());
                    watched.remove(&object.key(), &object.version(), account);
                    let live = Arc::new(object.live(resource));
                    let is_over = || {
                        completed::may_be_over(&resource.kind) && completed::is_over(&live.value())
                    };
                    if !was_ours && is_over() {
                        completed.lock().removed(Arc::clone(&live));
                    }
                    notify_of(&live);
                }
                // One of several API servers may be behind: what discovery says is asked, too.
                Err(error) if is_not_served(&error) => {
                    io.discovery().forget(&resource.api_version);
                    let served = io.resolve(&resource.api_version, &resource.kind).await;
                    if matches!(served, Err(ApiError::NoSuchKind { .. })) {
                        return Over::NotServed;
                    }
                    failed(Class::Failed);
                    warn!(%error, "what discovery says is served is not there, trying again");
                }
                Err(error) if !self.own && is_denied(&error) => {
                    warn!(%error, "objects may not be listed: they are read one by one");
                    return Over::Denied;
                }
                Err(error) => {
                    failed(class_of(&error));
                    warn!(%error, "watch of dispatched objects failed, trying again");
                }
            }
        }
        Over::Unused
    }
}

/// What a list that is not complete has taken of an account. What it brings takes the place of what is there.
struct Begun<'a> {
    bytes: usize,
    takes_over: usize,
    charged: usize,
    account: &'a Account,
}

impl Begun<'_> {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        let more = self.bytes.saturating_sub(self.takes_over).saturating_sub(self.charged);
        self.charged = self.charged.saturating_add(more);
        self.account.change(more, 0);
    }

    fn end(&mut self) {
        self.account.change(0, self.charged);
        (self.bytes, self.charged) = (0, 0);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.end();
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
    code_of(error) == Some(404)
}

fn is_denied(error: &watcher::Error) -> bool {
    code_of(error) == Some(403)
}

fn code_of(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
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

    /// What a member answers to a list of ConfigMaps: whether of their metadata only, and which page.
    type Page = dyn Fn(bool, &str) -> (u16, Value) + Send + Sync;

    fn config_map(name: &str, bytes: usize) -> Value {
        // Nothing that compresses.
        let text: String = (0..bytes).map(|_| fastrand::alphanumeric()).collect();
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": text}, "metadata": {
            "name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
            "labels": {"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"}}})
    }

    /// The watches of a member, and the paths that it is asked for. Its watches bring nothing, for ever.
    fn member(page: Box<Page>, budget: Budget) -> (Arc<LiveObjects>, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (paths, page) = (Arc::clone(&seen), Arc::new(page));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (paths, page) = (Arc::clone(&paths), Arc::clone(&page));
            async move {
                let (path, query) =
                    (request.uri().path(), request.uri().query().unwrap_or_default());
                let accepts = request.headers().get("accept").and_then(|it| it.to_str().ok());
                let is_partial = accepts.is_some_and(|it| it.contains("PartialObjectMetadata"));
                let part = |key: &str| {
                    let mut parts = query.split('&').filter_map(|part| part.split_once('='));
                    parts.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
                };
                paths.lock().push(path.to_owned());
                let (code, answer) = match path {
                    "/api/v1" => (
                        200,
                        serde_json::json!({"resources": [
                        {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}),
                    ),
                    "/api/v1/configmaps" if part("watch").is_some() => std::future::pending().await,
                    "/api/v1/configmaps" => page(is_partial, &part("continue").unwrap_or_default()),
                    other => (200, config_map(other.rsplit('/').next().unwrap_or_default(), 10)),
                };
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, tower::BoxError>(http::Response::builder().status(code).body(body)?)
            }
        });
        let io = Arc::new(ObjectClient::new(kube::Client::new(service, "default")));
        let tasks = (TaskTracker::new(), CancellationToken::new());
        (Arc::new(LiveObjects::of_member(io, Arc::new(|_| {}), tasks, Arc::new(budget))), seen)
    }

    fn list(items: Vec<Value>, next: &str) -> (u16, Value) {
        let metadata = serde_json::json!({"resourceVersion": "1", "continue": next});
        (
            200,
            serde_json::json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
        )
    }

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("v1", "ConfigMap", "edge", "n", name)
    }

    async fn becomes(live: &LiveObjects, shape: Shape) {
        let is_so = || live.watched("v1", "ConfigMap").is_some_and(|it| it.shape == shape);
        while !is_so() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn of_objects_that_are_too_many_the_metadata_are_kept_and_the_rest_is_read() {
        let page = |is_partial: bool, _: &str| {
            let bytes = if is_partial { 0 } else { 10_000 };
            list((0..100).map(|number| config_map(&format!("m{number}"), bytes)).collect(), "")
        };
        let (live, seen) = member(Box::new(page), Budget::new(500_000, 1 << 30));
        let _ = live.kind("v1", "ConfigMap").await;
        becomes(&live, Shape::Metadata).await;
        let found = live.get("v1", &key("m7")).await.unwrap().unwrap();
        assert_eq!(found.value()["data"]["v"].as_str().map(str::len), Some(10));
        assert!(live.bytes() < 100_000, "{}", live.bytes());
        // That there is none is known, and what has not changed is not read again.
        assert!(live.get("v1", &key("none")).await.unwrap().is_none());
        assert!(live.seen("v1", &key("m8")).await.unwrap().is_some());
        let read = seen.lock().iter().filter(|path| path.contains("/namespaces/")).count();
        assert_eq!(read, 1);
    }

    #[tokio::test]
    async fn a_list_that_never_ends_takes_no_more_than_its_budget() {
        let page = |is_partial: bool, after: &str| {
            let (first, bytes) =
                (after.parse().unwrap_or(0_usize), if is_partial { 0 } else { 1000 });
            let names = (first..first + 100).map(|number| config_map(&format!("m{number}"), bytes));
            list(names.collect(), &(first + 100).to_string())
        };
        let (live, _) = member(Box::new(page), Budget::new(200_000, 1 << 30));
        let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
        becomes(&live, Shape::Unwatched).await;
        assert_eq!(live.bytes(), 0);
        assert!(live.get("v1", &key("m7")).await.unwrap().is_some());
        assert!(live.seen("v1", &key("m7")).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_may_not_be_listed_is_read_one_by_one() {
        let denied = |_: bool, _: &str| {
            (
                403,
                serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "Forbidden", "message": "may not", "code": 403}),
            )
        };
        let (live, _) = member(Box::new(denied), Budget::default());
        let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
        becomes(&live, Shape::Unwatched).await;
        assert!(live.get("v1", &key("m7")).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_nobody_needs_is_not_watched_for_ever() {
        let (live, _) = member(Box::new(|_, _| list(Vec::new(), "")), Budget::default());
        live.kind("v1", "ConfigMap").await.unwrap();
        tokio::time::sleep(UNUSED / 2).await;
        assert!(live.get("v1", &key("m7")).await.unwrap().is_none());
        tokio::time::sleep(UNUSED * 3 / 4).await;
        assert!(live.watched("v1", "ConfigMap").is_some());
        tokio::time::sleep(UNUSED).await;
        assert!(live.watched("v1", "ConfigMap").is_none());
        // It is watched again when somebody asks.
        assert!(live.get("v1", &key("m7")).await.unwrap().is_none());
        let one = |_: bool, _: &str| list(vec![config_map("m1", 10)], "");
        let (live, _) = member(Box::new(one), Budget::default());
        live.kind("v1", "ConfigMap").await.unwrap();
        tokio::time::sleep(UNUSED * 5).await;
        assert!(live.watched("v1", "ConfigMap").is_some());
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
