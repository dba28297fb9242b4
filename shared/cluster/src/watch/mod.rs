//! The one watch of the control plane, and what fills caches with it.

mod streamed;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use kube::api::Api;
use kube::core::ApiResource;
use kube::runtime::watcher;
pub use kube::runtime::watcher::{Config, Event};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::coalesced::{Coalesced, until};
use crate::observed::Guarded;
use crate::share::{Keeping, Share, Whose};
use crate::store::{Key, Store, Stored};
pub(crate) use streamed::Lists;

/// How long a watch goes on that brings more than what is kept: until the fleet is at rest.
pub(crate) const NARROWED_AFTER: Duration = Duration::from_secs(60);

/// How long a list waits for those of other kinds. A kind that nobody answers for must not hold up the others.
const TURN: Duration = Duration::from_secs(10);

/// What happened to an object: its key, what was cached before, and whether it is there now.
#[derive(Debug)]
pub struct Change<T> {
    /// Whose.
    pub key: Key,
    /// What was known before; `None` if nothing.
    pub old: Option<Arc<T>>,
    /// What is known now; `None` if it is gone.
    pub new: Option<Arc<T>>,
}

/// Why a watch failed. It goes on by itself.
pub type WatchError = watcher::Error;

/// What a watch brings, for ever. One that fails is tried again after pauses that grow (client-go's: 0.8 s to 30 s); the failure
/// is logged here and handed on.
pub fn events<K>(
    what: &str,
    api: Api<K>,
    config: Config,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    events_of(what, api, config, &Lists::default())
}

/// The same of a kind that may be watched again.
pub(crate) fn events_of<K>(
    what: &str,
    api: Api<K>,
    config: Config,
    lists: &Lists,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let what = what.to_owned();
    streamed::watched(api, config, lists.clone()).inspect(move |event| {
        if let Err(error) = event {
            let error = crate::error::chain(error);
            warn!(what, error, "watch failed, trying again");
        }
    })
}

/// Hands every event and every failure of a watch to `on` until the token is cancelled.
pub async fn each<K>(
    what: &str,
    api: Api<K>,
    config: Config,
    stop: &CancellationToken,
    mut on: impl FnMut(Result<Event<K>, WatchError>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(events(what, api, config));
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        on(event);
    }
}

/// What is watched, and what of it is kept.
#[derive(Debug)]
pub struct Kind<'s> {
    /// The objects that are listed and watched.
    pub config: Config,
    /// Whose objects are kept.
    pub share: &'s Share,
    /// Whose an object is.
    pub whose: Whose,
}

/// Watches a kind for ever. `trim` makes what is kept of an object, of the whole of it or for its head only; `on_change` is called for
/// every change that is not the echo of a write of ours. What is not kept is not read, and not sent as far as labels select. When more is
/// to be kept than before, the kind is listed again while the watch goes on until the list is complete; when less is, a while later.
pub async fn feed<K, T>(
    client: Client,
    kind: Kind<'_>,
    store: Arc<Store<T>>,
    trim: impl Fn(K, bool) -> T,
    on_change: impl Fn(Change<T>),
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    T: Stored,
{
    let Kind { config, share, whose } = kind;
    // An object nobody can read must not stop the watch; it is as if it were not there.
    let api: Api<Guarded<K>> = Api::all_with(client, &ApiResource::erase::<K>(&()));
    let resource = api.resource_url().to_owned();
    let mut changes = share.subscribe();
    let mut keeping = changes.borrow_and_update().clone();
    let lists = Lists::default();
    // Of the present share, which may be newer than what was seen of it: then it is seen next.
    let begin = || {
        let config = share.now().narrow(whose, &config);
        events_of(&resource, api.clone(), config, &lists).boxed()
    };
    let mut events = Relisted::new(share.turns(), begin);
    // The generation that the last list began with.
    let mut generation = keeping.generation;
    let feeding = Feeding { resource: &resource, whose, store, trim, on_change };
    let mut coalesced = Coalesced::default();
    let may_wait = |object: &Guarded<K>| feeding.may_wait(object, share);
    loop {
        let event = tokio::select! {
            event = coalesced.next(events.next(), may_wait) => event,
            Ok(()) = changes.changed(), if whose != Whose::Everybodys => {
                let before = std::mem::replace(&mut keeping, changes.borrow_and_update().clone());
                feeding.store.retain(|object| keeping.keeps(whose.of_stored(object)));
                if keeping.generation > generation {
                    generation = keeping.generation;
                    events.relist();
                } else if whose.is_record() && keeping.selectors.records != before.selectors.records {
                    events.relist_later();
                }
                continue;
            }
        };
        match event {
            None => return,
            Some(Ok(Some(Event::Init))) => {
                generation = keeping.generation;
                feeding.store.begin_list();
            }
            Some(Ok(Some(Event::InitDone))) => feeding.listed(generation),
            Some(Ok(Some(event))) => feeding.take_in(event, &keeping),
            // The watch goes on by itself.
            Some(Ok(None) | Err(_)) => {}
        }
    }
}

/// The events of a watch that can be listed again: it goes on until the new list is complete.
pub(crate) struct Relisted<'a, K, B> {
    /// Whose turn it is to list again.
    turns: Arc<Semaphore>,
    begin: B,
    present: Events<'a, K>,
    next: Option<Events<'a, K>>,
    /// The last list is complete.
    is_listed: bool,
    /// More is sent than what is kept, as of a moment ago: until when that is left so.
    narrows: Option<Instant>,
}

type Events<'a, K> = BoxStream<'a, Result<Event<K>, WatchError>>;

impl<'a, K: Send + 'a, B: Fn() -> Events<'a, K>> Relisted<'a, K, B> {
    pub(crate) fn new(turns: Arc<Semaphore>, begin: B) -> Self {
        Self { turns, present: begin(), begin, next: None, is_listed: false, narrows: None }
    }

    /// Lists again, when no other kind does. A list in progress is abandoned.
    pub(crate) fn relist(&mut self) {
        self.narrows = None;
        if self.is_listed || self.next.is_some() {
            let next = in_turn(Arc::clone(&self.turns), (self.begin)());
            (self.next, self.is_listed) = (Some(next), true);
        } else {
            self.present = (self.begin)();
        }
    }

    /// Lists again a while later, since less is to be sent.
    pub(crate) fn relist_later(&mut self) {
        self.narrows = Some(Instant::now() + NARROWED_AFTER);
    }

    /// The next event, of one list at a time. Nothing is lost if this is given up.
    pub(crate) async fn next(&mut self) -> Option<Result<Event<K>, WatchError>> {
        loop {
            let (event, is_next) = tokio::select! {
                event = of_next(&mut self.next) => (event, true),
                event = self.present.next() => (event, false),
                () = until(self.narrows) => {
                    self.relist();
                    continue;
                }
            };
            match &event {
                Some(Ok(Event::Init)) => {
                    if !is_next && let Some(other) = self.next.take() {
                        // The watch is over: the other list is in progress, or is the right one to begin. Two at a time would mix.
                        self.present = other;
                        continue;
                    }
                    self.is_listed = false;
                }
                Some(Ok(Event::InitDone)) => {
                    if let Some(next) = self.next.take_if(|_| is_next) {
                        self.present = next;
                    }
                    self.is_listed = true;
                }
                _ => {}
            }
            return event;
        }
    }
}

/// Begins when it is its turn, or has waited for that for long enough. The turn ends with the list, or with its first failure.
fn in_turn<'a, K: Send + 'a>(turns: Arc<Semaphore>, events: Events<'a, K>) -> Events<'a, K> {
    let acquired = async move { (timeout(TURN, turns.acquire_owned()).await, events) };
    let listing = |(turn, events): (_, Events<'a, K>)| {
        let mut turn = Some(turn);
        events.inspect(move |event| {
            if matches!(event, Ok(Event::InitDone) | Err(_)) {
                drop(turn.take());
            }
        })
    };
    futures::stream::once(acquired).flat_map(listing).boxed()
}

/// What a stream brings that may not be there.
async fn of_next<S: Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// What takes in the events of a watch.
struct Feeding<'r, T, R, C> {
    resource: &'r str,
    whose: Whose,
    store: Arc<Store<T>>,
    trim: R,
    on_change: C,
}

impl<T: Stored, R, C: Fn(Change<T>)> Feeding<'_, T, R, C> {
    /// A list is complete that began with a generation.
    fn listed(&self, generation: u64) {
        for (key, old) in self.store.end_list_of(generation) {
            let new = self.store.get(&key);
            (self.on_change)(Change { key, old, new });
        }
    }

    /// Whether nobody here waits for a change of an object.
    fn may_wait<K: DeserializeOwned>(&self, object: &Guarded<K>, share: &Share) -> bool {
        let Some(app) = object.app(self.whose).filter(|_| share.is_shared()) else { return false };
        // An edit of an Application may be for somebody here: it may say who works on it from now on.
        let is_unedited = || self.store.get(&app).is_some_and(|known| object.is_unedited(&*known));
        !share.is_worked_on(&app) && (self.whose != Whose::Application || is_unedited())
    }

    fn take_in<K>(&self, event: Event<Guarded<K>>, keeping: &Keeping)
    where
        K: DeserializeOwned,
        R: Fn(K, bool) -> T,
    {
        let store = &self.store;
        let is_kept = |object: &Guarded<K>| keeping.keeps(object.app(self.whose));
        let has_heads = self.whose == Whose::Application;
        let read = |object: &Guarded<K>, whole| {
            object.open(self.resource).map(|object| (self.trim)(object, whole))
        };
        match event {
            Event::InitApply(object) => {
                let whole = is_kept(&object);
                if !whole && !has_heads || store.list_known(&object.key(), object.version(), whole)
                {
                    return;
                }
                if let Some(object) = read(&object, whole) {
                    store.list_item(object);
                }
            }
            Event::Apply(object) => {
                let (key, whole) = (object.key(), is_kept(&object));
                // It may have been somebody's whose objects are kept.
                if !whole && !has_heads {
                    store.remove(&key, object.version());
                    return;
                }
                // The echo of a write of ours costs nothing more.
                if store.get(&key).is_some_and(|known| known.version() == object.version()) {
                    return;
                }
                let Some(object) = read(&object, whole) else { return };
                if let Ok(old) = store.put(object) {
                    let new = store.get(&key);
                    (self.on_change)(Change { key, old, new });
                }
            }
            Event::Delete(object) => {
                let key = object.key();
                let old = store.remove(&key, object.version());
                if old.is_some() || is_kept(&object) {
                    (self.on_change)(Change { key, old, new: None });
                }
            }
            Event::Init | Event::InitDone => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use kube::api::ObjectMeta;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::sync::{mpsc, watch};
    use tokio_util::bytes::Bytes;
    use tower::service_fn;
    use vela_api::{Application, ApplicationRevision};

    use super::*;
    use crate::share::{AllBut, Selectors};

    /// All objects, whosever they are.
    fn everything() -> Kind<'static> {
        static ALL: std::sync::LazyLock<Share> = std::sync::LazyLock::new(Share::default);
        Kind { config: Config::default(), share: &ALL, whose: Whose::Everybodys }
    }

    fn app(name: &str, version: u32) -> Value {
        json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()},
            "spec": {"components": [{
                "name": "a", "type": "b", "properties": {"z": 1, "a": {"<": 1.5}},
            }]},
        })
    }

    /// Lists two Applications, one of them unreadable, then sends a change, an unreadable one and a
    /// deletion, and stays silent.
    fn client() -> Client {
        let watched = Arc::new(Mutex::new(false));
        let service = service_fn(move |request: Request<Body>| {
            let watched = Arc::clone(&watched);
            async move {
                let mut bad = app("bad", 2);
                bad["spec"] = json!({"components": "none"});
                let body = if request.uri().to_string().contains("watch=true") {
                    if std::mem::replace(&mut *watched.lock(), true) {
                        std::future::pending::<()>().await;
                    }
                    // The API server writes the type first.
                    let line = |type_: &str, object: &Value| {
                        format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")
                    };
                    let text = line("MODIFIED", &app("good", 3))
                        + &line("MODIFIED", &bad)
                        + &line("DELETED", &app("good", 4));
                    Body::from(text.into_bytes())
                } else {
                    let list = json!({
                        "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationList",
                        "metadata": {"resourceVersion": "2"}, "items": [app("good", 1), bad],
                    });
                    Body::from(serde_json::to_vec(&list)?)
                };
                Ok::<_, tower::BoxError>(Response::new(body))
            }
        });
        Client::new(service, "default")
    }

    /// A watch that ends with 410 is restarted from a list, and what changed in the meantime is reported.
    #[tokio::test(start_paused = true)]
    async fn an_expired_watch_begins_anew() {
        let lists = Arc::new(Mutex::new(0_u32));
        let counter = Arc::clone(&lists);
        let service = service_fn(move |request: Request<Body>| {
            let lists = Arc::clone(&counter);
            async move {
                let body = if request.uri().to_string().contains("watch=true") {
                    if *lists.lock() > 1 {
                        std::future::pending::<()>().await;
                    }
                    let expired = json!({"type": "ERROR", "object": {
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "too old resource version", "reason": "Expired", "code": 410}});
                    Body::from(format!("{expired}\n").into_bytes())
                } else {
                    let turn = {
                        let mut lists = lists.lock();
                        *lists += 1;
                        *lists
                    };
                    let items = if turn == 1 {
                        vec![app("gone", 1), app("kept", 2)]
                    } else {
                        vec![app("kept", 2), app("new", 3)]
                    };
                    let list = json!({
                        "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationList",
                        "metadata": {"resourceVersion": "5"}, "items": items,
                    });
                    Body::from(serde_json::to_vec(&list)?)
                };
                Ok::<_, tower::BoxError>(Response::new(body))
            }
        });
        let store = Arc::new(Store::<Application>::default());
        let (heard, mut changes) = mpsc::unbounded_channel();
        let feed = tokio::spawn(feed(
            Client::new(service, "default"),
            everything(),
            Arc::clone(&store),
            |app: Application, _| app,
            move |change: Change<Application>| {
                let _ = heard.send((change.key.name.to_string(), change.new.is_some()));
            },
        ));
        let mut changes_seen = Vec::new();
        while changes_seen.len() < 4 {
            changes_seen.push(changes.recv().await.expect("a change"));
        }
        let (first, second) = changes_seen.split_at_mut(2);
        first.sort();
        second.sort();
        let pair = |name: &str, there| (name.to_owned(), there);
        assert_eq!(first, [pair("gone", true), pair("kept", true)]);
        assert_eq!(second, [pair("gone", false), pair("new", true)]);
        assert_eq!((store.len(), *lists.lock()), (2, 2));
        feed.abort();
    }

    /// What an Application is, or that it is there.
    #[derive(Debug)]
    struct Part(Key, String, bool);

    impl Stored for Part {
        fn key(&self) -> Key {
            self.0.clone()
        }
        fn version(&self) -> &str {
            &self.1
        }
        fn is_whole(&self) -> bool {
            self.2
        }
    }

    /// Of an Application that is not kept the head is, whether it is listed or changes.
    #[tokio::test]
    async fn of_applications_that_are_not_kept_the_heads_are() {
        let share = Share::default();
        let since = Arc::new(|app: &Key| (app.name == "none").then_some(1));
        share.set(Keeping {
            generation: 1,
            since,
            selectors: Selectors::default(),
            is_everything: false,
        });
        let store = Arc::new(Store::<Part>::default());
        let (heard, mut changes) = mpsc::unbounded_channel();
        let kind = Kind { config: Config::default(), share: &share, whose: Whose::Application };
        let feeding = feed(
            client(),
            kind,
            Arc::clone(&store),
            |app: Application, whole| Part(app.key(), app.version().to_owned(), whole),
            move |change: Change<Part>| {
                let _ = heard.send(change.new.map(|part| (part.1.clone(), part.2)));
            },
        );
        let mut next = async || changes.recv().await.expect("a change");
        let hearing = async {
            assert_eq!(next().await, Some(("1".to_owned(), false)));
            assert_eq!(next().await, Some(("3".to_owned(), false)));
            assert_eq!(next().await, None);
        };
        tokio::select! {
            () = feeding => {}
            () = hearing => {}
        }
        assert!(store.is_empty());
    }

    /// An Application that knows whether it was edited.
    struct Edited(Application);

    impl Stored for Edited {
        fn key(&self) -> Key {
            self.0.key()
        }
        fn version(&self) -> &str {
            self.0.version()
        }
        fn is_unedited(&self, metadata: &ObjectMeta) -> bool {
            self.0.metadata.generation == metadata.generation
        }
    }

    fn revision(app: &str, version: u32) -> Value {
        json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationRevision",
            "metadata": {"name": format!("{app}-v1"), "namespace": "n", "resourceVersion": version.to_string(),
                "labels": {"app.oam.dev/name": app}},
            "spec": {},
        })
    }

    /// Lists objects of a kind, sends these states of them, and stays silent.
    fn sends(kind: &str, items: &[Value], changes: &[Value]) -> Client {
        let lines: String = changes
            .iter()
            .map(|object| format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"))
            .collect();
        let list = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": format!("{kind}List"),
            "metadata": {"resourceVersion": "5"}, "items": items,
        });
        let service = service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().to_string().contains("watch=true");
            let text = if is_watch { lines.clone() } else { list.to_string() };
            let sent = futures::stream::once(std::future::ready(Ok::<_, tower::BoxError>(
                Frame::data(Bytes::from(text)),
            )));
            let rest: BoxStream<'_, _> = if is_watch {
                futures::stream::pending().boxed()
            } else {
                futures::stream::empty().boxed()
            };
            let body = StreamBody::new(sent.chain(rest).boxed());
            async move { Ok::<_, tower::BoxError>(Response::new(body)) }
        });
        Client::new(service, "default")
    }

    /// Another replica works on some Applications: of what changes of them in a second the last state is read.
    #[tokio::test(start_paused = true)]
    async fn changes_that_nobody_here_waits_for_are_coalesced() {
        let edited = |name: &str, version: u32, generation: u32, status: &str| {
            let mut app = app(name, version);
            app["metadata"]["generation"] = generation.into();
            app["status"] = json!({"status": status});
            app
        };
        let share = Share::default();
        share.serve(Arc::new(|app| app.name == "own"));
        let store = Arc::new(Store::<Edited>::default());
        let (heard, mut changes) = mpsc::unbounded_channel();
        let kind = Kind { config: Config::default(), share: &share, whose: Whose::Application };
        let client = sends(
            "Application",
            &[edited("own", 1, 1, ""), edited("others", 2, 1, "")],
            &[
                edited("others", 6, 1, "rendering"),
                edited("own", 7, 1, "rendering"),
                edited("others", 8, 1, "running"),
                edited("own", 9, 1, "running"),
                edited("new", 10, 1, "rendering"),
                edited("new", 11, 1, "running"),
                edited("edited", 12, 1, ""),
                edited("edited", 13, 1, "running"),
                edited("edited", 14, 2, "running"),
            ],
        );
        let read = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&read);
        let feeding = feed(
            client,
            kind,
            Arc::clone(&store),
            move |app: Application, _| {
                *counter.lock() += 1;
                Edited(app)
            },
            move |change: Change<Edited>| {
                let _ = heard.send((change.key.name, change.new.map(|it| it.version().to_owned())));
            },
        );
        let began = Instant::now();
        let mut next = async || {
            let (name, version) = changes.recv().await.expect("a change");
            format!("{name} {} after {} s", version.unwrap_or_default(), began.elapsed().as_secs())
        };
        let hearing = async {
            let mut all = Vec::new();
            for _ in 0..9 {
                all.push(next().await);
            }
            all
        };
        let mut all = tokio::select! {
            () = feeding => Vec::new(),
            all = hearing => all,
        };
        all.sort();
        assert_eq!(
            all,
            [
                "edited 12 after 0 s",
                "edited 14 after 0 s",
                "new 10 after 0 s",
                "new 11 after 1 s",
                "others 2 after 0 s",
                "others 8 after 1 s",
                "own 1 after 0 s",
                "own 7 after 0 s",
                "own 9 after 0 s",
            ]
        );
        assert_eq!(*read.lock(), 9);
    }

    /// More is kept than before: a list brings it while the watch goes on.
    #[tokio::test]
    async fn what_is_kept_from_now_on_is_listed_while_the_watch_goes_on() {
        let lists = Arc::new(watch::Sender::new(0_u32));
        let (answer, answered) = watch::channel(1_u32);
        let (sent, sends) = mpsc::unbounded_channel::<String>();
        let (counter, sends) = (Arc::clone(&lists), Arc::new(Mutex::new(Some(sends))));
        let service = service_fn(move |request: Request<Body>| {
            let (lists, sends, mut answered) =
                (Arc::clone(&counter), Arc::clone(&sends), answered.clone());
            async move {
                if request.uri().to_string().contains("watch=true") {
                    let Some(sends) = sends.lock().take() else {
                        return std::future::pending().await;
                    };
                    let lines = futures::stream::unfold(sends, async |mut sends| {
                        let line = sends.recv().await?;
                        Some((Ok::<_, tower::BoxError>(Frame::data(Bytes::from(line))), sends))
                    });
                    let body = StreamBody::new(lines.boxed());
                    return Ok::<_, tower::BoxError>(Response::new(body));
                }
                lists.send_modify(|lists| *lists += 1);
                let number = *lists.borrow();
                let _ = answered.wait_for(|answered| *answered >= number).await;
                let items: Vec<Value> = ["a", "b", "c"].map(|app| revision(app, 1)).into();
                let list = json!({
                    "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationRevisionList",
                    "metadata": {"resourceVersion": "5"}, "items": items,
                });
                let text = Ok(Frame::data(Bytes::from(serde_json::to_vec(&list)?)));
                let list = futures::stream::once(std::future::ready(text));
                Ok(Response::new(StreamBody::new(list.boxed())))
            }
        });
        let store = Arc::new(Store::<ApplicationRevision>::default());
        let share = Arc::new(Share::default());
        let keep = |generation, names: &'static str| {
            let since = Arc::new(move |app: &Key| names.contains(&*app.name).then_some(1));
            share.set(Keeping {
                generation,
                since,
                selectors: Selectors::default(),
                is_everything: false,
            });
        };
        keep(1, "a");
        let (heard, mut changes) = mpsc::unbounded_channel();
        let (kept, of_share) = (Arc::clone(&store), Arc::clone(&share));
        let feed = tokio::spawn(async move {
            let kind =
                Kind { config: Config::default(), share: &of_share, whose: Whose::Namespaced };
            let on_change = move |change: Change<ApplicationRevision>| {
                let _ = heard.send((change.key.name, change.new.is_some()));
            };
            let client = Client::new(service, "default");
            feed(client, kind, kept, |revision, _| revision, on_change).await;
        });
        let mut next = async || changes.recv().await.expect("a change");
        let there = |name: &str| (name.to_owned(), true);
        let event = |type_: &str, object: &Value| {
            sent.send(format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")).unwrap();
        };
        assert_eq!(next().await, there("a-v1"));
        keep(2, "ab");
        lists.subscribe().wait_for(|lists| *lists == 2).await.unwrap();
        event("MODIFIED", &revision("c", 6));
        event("MODIFIED", &revision("a", 7));
        assert_eq!(next().await, there("a-v1"));
        assert_eq!((store.len(), store.listed()), (1, 1));
        answer.send_replace(9);
        assert_eq!(next().await, there("b-v1"));
        let versions: Vec<_> =
            store.all().iter().map(|one| one.metadata.resource_version.clone().unwrap()).collect();
        assert_eq!((versions, store.listed()), (vec!["7".to_owned(), "1".to_owned()], 2));
        keep(2, "b");
        while store.len() > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!((store.get(&Key::new("n", "a-v1")), *lists.borrow()), (None, 2));
        feed.abort();
    }

    /// Where labels select records, more are selected at once when more are kept, and fewer when less has been kept for a while.
    #[tokio::test(start_paused = true)]
    async fn what_is_selected_follows_what_is_kept() {
        let (heard, mut lists) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<Body>| {
            let heard = heard.clone();
            async move {
                let uri = request.uri().to_string();
                if uri.contains("watch=true") {
                    return std::future::pending().await;
                }
                let selector = uri.split("labelSelector=").nth(1).unwrap_or_default();
                let _ = heard.send(selector.split('&').next().unwrap_or_default().to_owned());
                let list = json!({
                    "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationRevisionList",
                    "metadata": {"resourceVersion": "5"}, "items": [revision("a", 1)],
                });
                Ok::<_, tower::BoxError>(Response::new(Body::from(serde_json::to_vec(&list)?)))
            }
        });
        let share = Arc::new(Share::default());
        let keep = |generation, selector: Option<&'static str>| {
            let (since, is_everything) = (Arc::new(|_: &Key| Some(1)), selector.is_none());
            share.set(Keeping {
                generation,
                since,
                selectors: Selectors {
                    records: selector.map(|value| AllBut::new("b", vec![value.to_owned()])),
                    objects: None,
                },
                is_everything,
            });
        };
        keep(1, Some("1"));
        let store = Arc::new(Store::<ApplicationRevision>::default());
        let (of_share, kept) = (Arc::clone(&share), Arc::clone(&store));
        let feed = tokio::spawn(async move {
            let kind =
                Kind { config: Config::default(), share: &of_share, whose: Whose::Namespaced };
            feed(Client::new(service, "default"), kind, kept, |it, _| it, |_| ()).await;
        });
        let mut next = async || lists.recv().await.expect("a list");
        assert_eq!(next().await, "b+notin+%281%29");
        store.synced().await;
        // More is kept, and then less: the first at once.
        keep(2, None);
        assert_eq!(next().await, "");
        while store.listed() < 2 {
            tokio::task::yield_now().await;
        }
        let since = Instant::now();
        keep(2, Some("3"));
        tokio::time::sleep(NARROWED_AFTER / 2).await;
        keep(2, Some("4"));
        assert_eq!(next().await, "b+notin+%284%29");
        assert_eq!(since.elapsed().as_secs(), (NARROWED_AFTER + NARROWED_AFTER / 2).as_secs());
        feed.abort();
    }

    /// One kind lists again after the other, but a list that hangs holds up nobody for long.
    #[tokio::test(start_paused = true)]
    async fn lists_are_made_in_turn() {
        let turns = Arc::new(Semaphore::new(1));
        let events = |all: Vec<Result<Event<u8>, WatchError>>, ends: bool| -> Events<'static, u8> {
            let all = futures::stream::iter(all);
            if ends { all.boxed() } else { all.chain(futures::stream::pending()).boxed() }
        };
        let list = || vec![Ok(Event::Init), Ok(Event::Apply(1)), Ok(Event::InitDone)];
        let begin = Instant::now();
        let mut first = in_turn(Arc::clone(&turns), events(list(), true));
        let mut second = in_turn(Arc::clone(&turns), events(list(), true));
        assert!(first.next().await.is_some());
        assert!(timeout(TURN / 2, second.next()).await.is_err(), "the first one lists");
        assert!(first.next().await.is_some() && first.next().await.is_some());
        assert!(second.next().await.is_some(), "the first list is complete");
        assert_eq!(begin.elapsed(), TURN / 2);
        drop(second);
        let mut hangs = in_turn(Arc::clone(&turns), events(vec![Ok(Event::Init)], false));
        assert!(hangs.next().await.is_some());
        let begin = Instant::now();
        let mut third = in_turn(Arc::clone(&turns), events(list(), true));
        assert!(third.next().await.is_some());
        assert_eq!(begin.elapsed(), TURN);
        drop(hangs);
        let failed = vec![Ok(Event::Init), Err(WatchError::NoResourceVersion)];
        let mut fails = in_turn(Arc::clone(&turns), events(failed, false));
        assert!(fails.next().await.is_some() && fails.next().await.is_some());
        assert_eq!(turns.available_permits(), 1, "what fails lets others list");
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_objects_do_not_stop_the_watch() {
        let store = Arc::new(Store::<Application>::default());
        let (heard, mut changes) = mpsc::unbounded_channel();
        let trimmed = Arc::new(Mutex::new(0));
        let feed = feed(
            client(),
            everything(),
            Arc::clone(&store),
            {
                let trimmed = Arc::clone(&trimmed);
                move |app: Application, _| {
                    *trimmed.lock() += 1;
                    app
                }
            },
            move |change: Change<Application>| {
                let version = |app: &Option<Arc<Application>>| {
                    app.as_ref().and_then(|app| app.metadata.resource_version.clone())
                };
                let _ = heard.send((
                    change.key.name.to_string(),
                    version(&change.old),
                    version(&change.new),
                ));
            },
        );
        let feed = tokio::spawn(feed);
        let mut changes_seen = Vec::new();
        for _ in 0..3 {
            changes_seen.push(changes.recv().await.expect("a change"));
        }
        let some = |text: &str| Some(text.to_owned());
        let good = || "good".to_owned();
        assert_eq!(
            changes_seen,
            [(good(), None, some("1")), (good(), some("1"), some("3")), (good(), some("3"), None)]
        );
        assert!(store.is_synced() && store.is_empty());
        // What is gone is not read.
        assert_eq!(*trimmed.lock(), 2);
        feed.abort();
    }
}
