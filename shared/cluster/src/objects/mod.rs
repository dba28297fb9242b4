//! The live objects that Applications own: one watch per kind and version, started when the first such object is dispatched.
//!
//! The watch sees objects that carry our owner label, which is what makes health follow readiness at once and drift visible
//! when it happens. Objects are kept as compressed text without managed fields: a tree would cost fifteen times the memory.

mod denied;
mod feeding;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use vela_api::names;
use vela_apply::object::{group_of, is_deleting, label, name, namespace, str_at};
use vela_apply::{Owner, ResourceKey, ownership};

use crate::budget::{Account, Budget, Shape};
use crate::completed::{self, Completed};
use crate::error::Class;
use crate::packed::Text;
use crate::parking;
use crate::postponed;
use crate::request::{ApiError, ObjectClient, Target};
use crate::share::{Keeping, Share};
use crate::store::{Key, Store, Stored};
use feeding::Feeding;

/// How long reconciles wait for the first list of a kind, from its beginning or its last sign of life on: if it does not come,
/// the next ones do not wait for it in turn.
const LIST_TIME: Duration = Duration::from_secs(10);

/// How long a reconcile waits for the first list of a kind of the own cluster before it reads its objects one by one: a list of
/// thousands may come after a start, and somebody may wait for an edit.
const SOON: Duration = Duration::from_millis(300);

/// Objects in an answer to a list: a page is in memory as trees, many times the size of what stays.
const PAGE: u32 = 100;

/// How long a kind of a member of which there is no object is watched after it was last asked for.
const UNUSED: Duration = Duration::from_secs(600);
/// How long a kind that could not be watched is read object by object before that is tried again.
const UNWATCHED: Duration = Duration::from_secs(600);
/// What an object takes besides its text, about.
const OVERHEAD: usize = 400;

/// Bytes of the objects of one kind of a member that are not compressed. There may be a thousand members.
const FRESH: usize = 64 << 10;

/// One live object.
pub struct Live {
    key: Key,
    version: String,
    /// uid of the object; a recreated one has another.
    pub uid: String,
    /// The Application its labels name.
    pub owner: Option<Owner>,
    /// The Applications that share it.
    sharers: Box<[Owner]>,
    /// The bucket that its label names; empty without the label.
    pub bucket: Box<str>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Who wrote it last, from its managed fields.
    pub manager: String,
    /// A hash of all but its status and what counts its changes.
    pub content: u64,
    /// `None`: only its metadata is kept.
    text: Option<Text>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("key", &self.key).field("version", &self.version).finish()
    }
}

impl Live {
    /// Keeps what is needed of an object as the API server sent it.
    #[must_use]
    pub fn of(object: Value) -> Self {
        Self::of_any(object, |_| true)
    }

    /// The same; of one that is not kept the metadata is.
    fn of_share(object: Value, keeping: &Keeping) -> Self {
        Self::of_any(object, |live| live.owner.is_some() && live.is_kept(keeping))
    }

    fn of_any(mut object: Value, is_whole: impl FnOnce(&Self) -> bool) -> Self {
        let manager = last_manager(&object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let mut live = Self {
            key: Key::new(namespace(&object), name(&object)),
            version: str_at(&object, &["metadata", "resourceVersion"]).to_owned(),
            uid: str_at(&object, &["metadata", "uid"]).to_owned(),
            owner: Owner::of(&object),
            sharers: ownership::sharers(&object).filter_map(sharer).collect(),
            bucket: label(&object, names::label::OWNER_BUCKET).unwrap_or_default().into(),
            deleting: is_deleting(&object),
            manager,
            content: content(&object),
            text: None,
        };
        if is_whole(&live) {
            live.text = Text::of(&object).ok();
        }
        live
    }

    /// Keeps of its metadata what is needed.
    fn of_metadata(object: Value) -> Self {
        let generation = object.pointer("/metadata/generation").cloned();
        let mut live = Self::of_any(object, |_| false);
        let mut hasher = DefaultHasher::new();
        // What it says is not known: a kind that counts generations says when that changes.
        (live.content, generation.map(|number| number.to_string())).hash(&mut hasher);
        live.content = hasher.finish();
        live
    }

    /// It with another text.
    fn with(&self, text: Option<Text>) -> Self {
        Self {
            key: self.key.clone(),
            version: self.version.clone(),
            uid: self.uid.clone(),
            owner: self.owner.clone(),
            sharers: self.sharers.clone(),
            bucket: self.bucket.clone(),
            deleting: self.deleting,
            manager: self.manager.clone(),
            content: self.content,
            text,
        }
    }

    /// The object; null if only its metadata is kept.
    #[must_use]
    pub fn value(&self) -> Value {
        self.text.as_ref().and_then(|text| text.open().ok()).unwrap_or_default()
    }

    /// Whether an Application owns it, or shares it.
    #[must_use]
    pub fn is_of(&self, app: &Owner) -> bool {
        self.owner.as_ref() == Some(app) || self.sharers.contains(app)
    }

    /// Whether an Application is concerned whose objects are kept.
    fn is_kept(&self, keeping: &Keeping) -> bool {
        keeping.is_everything
            || self
                .concerned()
                .any(|app| keeping.keeps(Some(Key::new(&*app.namespace, &*app.name))))
    }

    /// The Applications that a change of it concerns: whoever shares it has to see when it is gone, or created again by the
    /// owner, who knows of nobody then.
    pub fn concerned(&self) -> impl Iterator<Item = &Owner> {
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
    fn is_whole(&self) -> bool {
        self.text.is_some()
    }
    fn head(&self) -> Option<Self> {
        Some(self.with(None))
    }
    fn size(&self) -> usize {
        self.text.as_ref().map_or(0, Text::size).saturating_add(OVERHEAD)
    }
    fn unpacked(&self) -> usize {
        self.text.as_ref().map_or(0, Text::unpacked)
    }
    fn packed(&self) -> Option<Self> {
        Some(self.with(Some(self.text.as_ref()?.packed()?)))
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

/// API version and kind, and the namespace if only one may be listed. Versions of one kind show the same objects, each in a shape of
/// its own.
type VersionKind = (String, String, String);

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
    /// When its first list began.
    started: Instant,
    store: Arc<Store<Live>>,
    ended: Ended,
    completed: Mutex<Completed>,
    listing: Mutex<Listing>,
    shape: Shape,
    /// It may not be listed.
    denied: bool,
    /// Bytes that its objects take, about.
    bytes: AtomicUsize,
    /// Whether objects of other replicas' Applications are missing.
    left_out: LeftOut,
    /// Its objects are to be kept in a shape that takes less.
    shrinks: CancellationToken,
    /// When it was last asked for.
    used: Mutex<Instant>,
}

/// Whether the API server leaves out what labels name as objects of other replicas' Applications. Of such an object nothing is known.
#[derive(Default)]
struct LeftOut {
    /// In the last complete list, or in one since.
    present: AtomicBool,
    /// In the list that began last.
    next: AtomicBool,
}

impl LeftOut {
    /// A list begins.
    fn begin(&self, leaves_out: bool) {
        self.next.store(leaves_out, Ordering::Relaxed);
        self.present.fetch_or(leaves_out, Ordering::Relaxed);
    }

    /// The list that began last is complete.
    fn listed(&self) {
        self.present.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether an object that is not in the store may be one of them.
    fn may_be(&self) -> bool {
        self.present.load(Ordering::Relaxed)
    }
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
    fn begin(shape: Shape, own: bool) -> Self {
        let listing = Listing { since: Instant::now(), failed: None, over: false };
        Self {
            started: listing.since,
            store: Arc::new(if own { Store::default() } else { Store::with_fresh(FRESH) }),
            ended: Ended::default(),
            completed: Mutex::default(),
            listing: Mutex::new(listing),
            shape,
            denied: false,
            bytes: AtomicUsize::new(0),
            left_out: LeftOut::default(),
            shrinks: CancellationToken::new(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// An object came in the place of another one.
    fn put(&self, live: Live, account: &Account) -> Result<Option<Arc<Live>>, crate::Stale> {
        let old = self.store.put(live)?;
        self.charge(account);
        Ok(old)
    }

    fn remove(&self, key: &Key, version: &str, account: &Account) -> Option<Arc<Live>> {
        let old = self.store.remove(key, version)?;
        self.charge(account);
        Some(old)
    }

    /// Others are kept as they are than before.
    fn retain(&self, keeping: &Keeping, account: &Account) {
        self.store.retain(|live| live.is_kept(keeping));
        self.charge(account);
    }

    /// What its objects take now.
    fn charge(&self, account: &Account) {
        let now = self.store.size();
        account.change(now, self.bytes.swap(now, Ordering::Relaxed));
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
    if let Some(((api_version, kind, _), watched)) = largest
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
    /// Whose objects are kept as they are; of the others the metadata are.
    share: Arc<Share>,
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
        let share = Arc::default();
        Self { io, kinds: Arc::default(), account, share, notify, tasks, stop, own: true }
    }

    /// Whose objects are kept as they are.
    #[must_use]
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Those of a member, of which no more is kept than the budget has room for. Whoever asks has found the member by the
    /// cluster of the key.
    #[must_use]
    pub fn of_member(
        io: Arc<ObjectClient>,
        notify: Notify,
        (tasks, stop): (TaskTracker, CancellationToken),
        (budget, share): (Arc<Budget>, Arc<Share>),
    ) -> Self {
        let account = Arc::new(Account::of(budget));
        Self { own: false, account, share, ..Self::new(io, notify, tasks, stop) }
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
        let watched = self.listed(api_version, kind, "").await?;
        Ok(Arc::clone(&watched.store))
    }

    /// The same with all that is known of them. Of a kind that is not watched nothing is.
    async fn listed(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Arc<Watched>, ApiError> {
        let listed = self.list(api_version, kind, namespace, false).await;
        listed.inspect_err(postponed::note)
    }

    /// `is_urgent`: a list of the own cluster that takes long and does not fail is not waited for.
    async fn list(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        is_urgent: bool,
    ) -> Result<Arc<Watched>, ApiError> {
        let watched = match self.watched(api_version, kind, "") {
            Some(watched) => watched,
            None => self.start(api_version, kind, "").await?,
        };
        let watched = match watched.denied {
            true => self.of_namespace(api_version, kind, namespace).await?.unwrap_or(watched),
            false => watched,
        };
        *watched.used.lock() = Instant::now();
        if watched.shape == Shape::Unwatched {
            return Ok(watched);
        }
        let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
        // From its beginning on: a reconcile asks for many objects.
        let soon = SOON.saturating_sub(watched.started.elapsed());
        if is_urgent
            && self.own
            && tokio::time::timeout(soon, watched.store.synced()).await.is_err()
            && watched.listing.lock().failed.is_none()
        {
            return Err(ApiError::Listing { kind, api_version });
        }
        let left = LIST_TIME.saturating_sub(watched.listing.lock().since.elapsed());
        let synced = tokio::time::timeout(left, watched.store.synced());
        let is_listed =
            if self.own { synced.await } else { parking::waiting(synced).await }.is_ok();
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

    fn watched(&self, api_version: &str, kind: &str, namespace: &str) -> Option<Arc<Watched>> {
        let key = (api_version.to_owned(), kind.to_owned(), namespace.to_owned());
        let mut kinds = self.kinds.lock();
        let watched = kinds.get(&key)?;
        let since = watched.listing.lock().since;
        if watched.shape == Shape::Unwatched && since.elapsed() >= UNWATCHED {
            kinds.remove(&key);
            return None;
        }
        Some(Arc::clone(watched))
    }

    async fn start(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Arc<Watched>, ApiError> {
        let resource = self.io.resolve(api_version, kind).await?.to_api_resource();
        let key = (api_version.to_owned(), kind.to_owned(), namespace.to_owned());
        let mut kinds = self.kinds.lock();
        if let Some(watched) = kinds.get(&key) {
            return Ok(Arc::clone(watched));
        }
        let watched = Arc::new(Watched::begin(self.account.shape().min(Shape::Metadata), self.own));
        kinds.insert(key.clone(), Arc::clone(&watched));
        drop(kinds);
        let feeding = Feeding {
            io: Arc::clone(&self.io),
            resource,
            key,
            kinds: Arc::clone(&self.kinds),
            account: Arc::clone(&self.account),
            share: Arc::clone(&self.share),
            notify: Arc::clone(&self.notify),
            own: self.own,
        };
        let (answer, stop) = (Arc::clone(&watched), self.stop.clone());
        debug!(kind, api_version, namespace, "watching dispatched objects");
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
        unless_not_served(self.get_served(api_version, key).await)
    }

    /// The same for whoever creates the object next, which finds out by itself that there is one of another replica's Application:
    /// `None` also for that.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn get_sent(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        unless_not_served(self.find_served(api_version, key, false).await)
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
        self.find_served(api_version, key, true).await
    }

    /// `reads_left_out`: an object that may have been left out is read.
    async fn find_served(
        &self,
        api_version: &str,
        key: &ResourceKey,
        reads_left_out: bool,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        let watched = match self.list(api_version, &key.kind, &key.namespace, true).await {
            Err(ApiError::Listing { .. }) if self.own => return self.read(api_version, key).await,
            listed => listed.inspect_err(postponed::note)?,
        };
        if watched.shape == Shape::Unwatched {
            return self.read(api_version, key).await;
        }
        match self.find(&watched, api_version, key).await {
            Some(live) if !live.is_whole() => self.read(api_version, key).await,
            None if reads_left_out && watched.left_out.may_be() => {
                self.read(api_version, key).await
            }
            found => Ok(found),
        }
    }

    /// What is known of the object of a key without a request: it may have no content. `None`: there is none, its kind is not
    /// served, or nothing is heard of it. `is_urgent`: a list of the own cluster that takes long is not waited for.
    ///
    /// # Errors
    /// The kind is still being listed, or the API server does not answer.
    pub async fn seen(
        &self,
        api_version: &str,
        key: &ResourceKey,
        is_urgent: bool,
    ) -> Result<Option<Arc<Live>>, ApiError> {
        match self.list(api_version, &key.kind, &key.namespace, is_urgent).await {
            Ok(watched) => Ok(self.find(&watched, api_version, key).await),
            Err(ApiError::NoSuchKind { .. }) => Ok(None),
            Err(error) if is_urgent => Err(error),
            Err(error) => Err(error).inspect_err(postponed::note),
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
        if let Some(watched) = self.where_seen(api_version, kind, namespace(&answer)) {
            // Nobody would say when it changes.
            let keeping = self.share.now();
            if keeping.selectors.objects.as_ref().is_some_and(|it| it.leaves_out(&answer)) {
                watched.remove(&Key::new(namespace(&answer), name(&answer)), "", &self.account);
                return;
            }
            let live = match watched.shape {
                Shape::Whole => Live::of_share(answer, &keeping),
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
        let watched = self.where_seen(api_version, &key.kind, &key.namespace)?;
        watched.completed.lock().get(&Key::new(&*key.namespace, &*key.name))
    }

    /// Takes in that the API server confirmed the end of an object, in whichever version it is watched.
    pub fn ended(&self, api_version: &str, key: &ResourceKey, uid: &str) {
        let group = group_of(api_version);
        let is_it =
            |(version, kind, _): &VersionKind| group_of(version) == group && *kind == key.kind;
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

/// A kind that is not served has no objects.
fn unless_not_served(
    found: Result<Option<Arc<Live>>, ApiError>,
) -> Result<Option<Arc<Live>>, ApiError> {
    match found {
        Err(ApiError::NoSuchKind { .. }) => Ok(None),
        other => other,
    }
}

/// Notifies the Applications that a change of an object concerns.
fn notify_owners(live: &Live, notify: &Notify) {
    live.concerned().for_each(|owner| notify(owner));
}

#[cfg(test)]
mod tests;
