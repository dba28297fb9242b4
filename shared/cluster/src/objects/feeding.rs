//! What feeds the store of one kind from a watch, in whichever shape there is room for its objects.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use tokio::time::Instant;
use tracing::warn;
use vela_api::names;
use vela_apply::Owner;

use super::{Kinds, Live, Notify, PAGE, VersionKind, Watched, notify_owners, shrink};
use crate::budget::{Account, Shape};
use crate::coalesced::{Coalesced, Sent};
use crate::completed;
use crate::error::Class;
use crate::observed::{Any, owner_of};
use crate::request::{ApiError, ObjectClient};
use crate::share::{Keeping, Share};
use crate::store::{Key, Stored as _};
use crate::watch::{Config, Event, Lists, Relisted, WatchError, events_of};

/// Bytes of metadata, about.
const METADATA: usize = 1 << 10;

/// An object as a watch brings it.
trait Brought: Sent + Send {
    fn version(&self) -> String;
    fn uid(&self) -> String;
    fn owner(&self) -> Option<Owner>;
    /// It as far as it is kept; `None`: it cannot be read.
    fn live(self, resource: &ApiResource, keeping: &Keeping) -> Option<Live>;
    /// The whole of it as far as it is known.
    fn last(self, resource: &ApiResource) -> Option<Live>;
}

impl Sent for PartialObjectMeta<Any> {
    fn key(&self) -> Key {
        Key::new(self.namespace().unwrap_or_default(), self.name_any())
    }
    fn bytes(&self) -> usize {
        METADATA
    }
}

impl Brought for Any {
    fn version(&self) -> String {
        Self::version(self).to_owned()
    }
    fn uid(&self) -> String {
        Self::uid(self).to_owned()
    }
    fn owner(&self) -> Option<Owner> {
        Self::owner(self)
    }
    fn live(self, resource: &ApiResource, keeping: &Keeping) -> Option<Live> {
        self.open(resource).map(|object| Live::of_share(object, keeping))
    }
    fn last(self, resource: &ApiResource) -> Option<Live> {
        self.open(resource).map(Live::of)
    }
}

impl Brought for PartialObjectMeta<Any> {
    fn version(&self) -> String {
        self.resource_version().unwrap_or_default()
    }
    fn uid(&self) -> String {
        self.metadata.uid.clone().unwrap_or_default()
    }
    fn owner(&self) -> Option<Owner> {
        owner_of(self.labels())
    }
    fn live(self, resource: &ApiResource, _: &Keeping) -> Option<Live> {
        self.last(resource)
    }
    fn last(self, resource: &ApiResource) -> Option<Live> {
        Some(Live::of_metadata(serde_json::json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": self.metadata,
        })))
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
pub(super) struct Feeding {
    pub(super) io: Arc<ObjectClient>,
    pub(super) resource: ApiResource,
    pub(super) key: VersionKind,
    pub(super) kinds: Arc<Kinds>,
    pub(super) account: Arc<Account>,
    pub(super) share: Arc<Share>,
    pub(super) notify: Notify,
    pub(super) own: bool,
}

impl Feeding {
    /// Feeds it in whichever shape there is room for, until it is not served or nobody needs it.
    pub(super) async fn feed(&self, mut watched: Arc<Watched>) {
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
            let next = Watched::begin(shape, self.own);
            let is_denied = matches!(over, Over::Denied);
            watched = Arc::new(if is_denied { next.denied() } else { next });
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

    /// What is listed and watched from now on.
    fn config(&self, watched: &Watched) -> Config {
        let others = self.share.now().selectors.objects;
        watched.left_out.begin(others.is_some());
        let mut labels = names::label::APP_NAME.to_owned();
        if let Some(others) = others {
            labels = format!("{labels},{}", others.text());
        }
        Config::default().labels(&labels).page_size(PAGE).streaming_lists()
    }

    async fn watch(&self, watched: &Watched) -> Over {
        let client = self.io.client().clone();
        let (resource, namespace) = (&self.resource, self.key.2.as_str());
        let lists = Lists::default();
        if watched.shape == Shape::Metadata {
            type Part = PartialObjectMeta<Any>;
            let api = match namespace {
                "" => Api::<Part>::all_with(client, resource),
                _ => Api::<Part>::namespaced_with(client, namespace, resource),
            };
            let begin =
                || events_of(&resource.kind, api.clone(), self.config(watched), &lists).boxed();
            self.follow(begin, watched).await
        } else {
            let api = match namespace {
                "" => Api::<Any>::all_with(client, resource),
                _ => Api::<Any>::namespaced_with(client, namespace, resource),
            };
            let begin =
                || events_of(&resource.kind, api.clone(), self.config(watched), &lists).boxed();
            self.follow(begin, watched).await
        }
    }

    /// Keeps a store as the cluster is.
    async fn follow<'a, O: Brought + 'a>(
        &self,
        begin: impl Fn() -> BoxStream<'a, Result<Event<O>, WatchError>>,
        watched: &Watched,
    ) -> Over {
        let Watched { store, ended, completed, listing, .. } = watched;
        let (io, resource, account) = (&self.io, &self.resource, &*self.account);
        let failed = |class| listing.lock().failed = Some(class);
        let (mut before, mut listed) = (HashSet::new(), HashSet::new());
        // Bytes of a list that is not complete yet: it may never be.
        let mut incoming = Incoming { bytes: 0, takes_over: 0, charged: 0, account };
        // First: what the share becomes while the watch begins is seen next.
        let mut changes = self.share.subscribe();
        let mut keeping = changes.borrow_and_update().clone();
        let mut generation = keeping.generation;
        let mut events = Relisted::new(self.share.turns(), begin);
        let mut coalesced = Coalesced::default();
        let may_wait = |object: &O| {
            let is_others =
                |app: &Owner| !self.share.is_worked_on(&Key::new(&*app.namespace, &*app.name));
            // Several Applications may share it.
            let is_all_others =
                || store.get(&object.key()).is_none_or(|live| live.concerned().all(is_others));
            self.share.is_shared()
                && object.owner().as_ref().is_some_and(is_others)
                && is_all_others()
        };
        let notify_of = |live: &Live| notify_owners(live, &self.notify);
        let is_known = |object: &O| {
            store.get(&object.key()).is_some_and(|known| known.version() == object.version())
        };
        loop {
            let event = tokio::select! {
                event = coalesced.next(events.next(), may_wait) => event,
                Ok(()) = changes.changed() => {
                    let before = std::mem::replace(&mut keeping, changes.borrow_and_update().clone());
                    watched.retain(&keeping, account);
                    // Metadata only are kept of all of them, unless the API server leaves some out.
                    let lacks = watched.shape == Shape::Whole || watched.left_out.may_be();
                    if keeping.generation > generation && lacks {
                        generation = keeping.generation;
                        events.relist();
                    } else if keeping.selectors.objects != before.selectors.objects {
                        events.relist_later();
                    }
                    continue;
                }
            };
            let Some(event) = event else { return Over::Unused };
            let Some(event) = event.transpose() else { continue };
            match event {
                Ok(Event::Init) => {
                    generation = keeping.generation;
                    (before, listed) = (ended.all(), HashSet::new());
                    incoming.end();
                    incoming.takes_over = watched.bytes.load(Ordering::Relaxed);
                    store.begin_list();
                }
                Ok(Event::InitApply(object)) => {
                    {
                        let mut listing = listing.lock();
                        (listing.since, listing.failed) = (Instant::now(), None);
                    }
                    if let Some(known) = watched.listed_again(&object, &keeping) {
                        incoming.add(known.size());
                    } else {
                        let uid = object.uid();
                        if ended.has(&uid) {
                            listed.insert(uid);
                        } else if let Some(live) = object.live(resource, &keeping)
                            && live.owner.is_some()
                        {
                            incoming.add(live.size());
                            store.list_item(live);
                        }
                    }
                    if account.shape() > watched.shape {
                        return Over::TooLarge;
                    }
                }
                Ok(Event::InitDone) => {
                    ended.keep(&before, &listed);
                    watched.left_out.listed();
                    let changed = store.end_list();
                    incoming.end();
                    watched.charge(account);
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
                Ok(Event::Apply(object)) if is_known(&object) => {}
                Ok(Event::Apply(object)) => {
                    if ended.has(&object.uid()) {
                        continue;
                    }
                    let key = object.key();
                    let live = object.live(resource, &keeping).filter(|live| live.owner.is_some());
                    let Some(live) = live else {
                        if let Some(old) = watched.remove(&key, "", account) {
                            notify_of(&old);
                        }
                        continue;
                    };
                    let owner = live.owner.clone();
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
                Ok(Event::Delete(object)) => {
                    let was_ours = ended.has(&object.uid());
                    ended.forget(&object.uid());
                    let known = watched.remove(&object.key(), &object.version(), account);
                    let Some(live) = object.last(resource).map(Arc::new).or(known) else {
                        continue;
                    };
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
                }
                Err(error) if !self.own && is_denied(&error) => {
                    warn!(%error, namespace = self.key.2, "objects may not be listed here");
                    return Over::Denied;
                }
                Err(error) => {
                    failed(class_of(&error));
                }
            }
        }
    }
}

impl Watched {
    /// What is cached of an object of a list, if that is what a read of it would make: then it need not be read and packed again.
    fn listed_again(&self, object: &impl Brought, keeping: &Keeping) -> Option<Arc<Live>> {
        let key = object.key();
        let known = self.store.get(&key)?;
        let whole = self.shape == Shape::Whole && known.is_kept(keeping);
        self.store.list_known(&key, &object.version(), whole).then_some(known)
    }
}

/// What a list that is not complete has taken of an account. What it brings takes the place of what is there.
struct Incoming<'a> {
    bytes: usize,
    takes_over: usize,
    charged: usize,
    account: &'a Account,
}

impl Incoming<'_> {
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

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn class_of(error: &WatchError) -> Class {
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

fn is_not_served(error: &WatchError) -> bool {
    code_of(error) == Some(404)
}

fn is_denied(error: &WatchError) -> bool {
    code_of(error) == Some(403)
}

fn code_of(error: &WatchError) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
