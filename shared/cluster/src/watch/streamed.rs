//! First lists that are streamed: the watch itself begins with an event for each object, so that neither side holds a list or a page of
//! it. API servers before 1.34 may not have this, and an aggregated one may never have it: then the list comes in pages.
//!
//! The client library streams lists, too, but of any age, and it drops what is deleted before the list is complete.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, WatchEvent, WatchParams};
use kube::runtime::watcher::{Config, Event, InitialListStrategy};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Error, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::debug;

use super::WatchError;

/// How long the next object of a streamed list is waited for. An API server before 1.27 sends the objects and never says that these are
/// all.
const NEXT: Duration = Duration::from_secs(30);

/// How long a watch lasts, in seconds, before the API server ends it; it begins again where it was.
const LASTS: u32 = 290;

/// How long a watch is waited for that should have ended.
const SPARE: Duration = Duration::from_secs(5);

/// What the event carries that ends a streamed list.
const IS_COMPLETE: &str = "k8s.io/initial-events-end";

type Events<K> = BoxStream<'static, Result<Event<K>, WatchError>>;

/// How the API server lists the objects of a kind, as far as that is known: what it does not stream is not asked for again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    in_pages: Arc<AtomicBool>,
}

/// What a watch brings, for ever. A streamed list that does not come to its end is listed again in pages.
pub(super) fn watched<K>(
    api: Api<K>,
    config: Config,
    lists: Lists,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = match config.initial_list_strategy {
        InitialListStrategy::ListWatch => watcher(api, config).boxed(),
        InitialListStrategy::StreamingList => {
            let source = Source { api, config };
            let state = match lists.in_pages.load(Ordering::Relaxed) {
                true => source.pages(),
                false => State::Unknown,
            };
            let watch = Watch { source, lists, state };
            stream::unfold(watch, async |mut watch| Some((watch.next().await?, watch))).boxed()
        }
    };
    events.default_backoff()
}

/// Why a list is not streamed.
#[derive(Debug, thiserror::Error)]
enum NotStreamed {
    #[error("the API server streams no lists: {0}")]
    Refused(String),
    #[error("the API server does not say that the list is complete")]
    Ignored,
    #[error("the connection ended before the streamed list was complete")]
    Incomplete,
}

type Incoming<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

enum State<K> {
    Unknown,
    Listing(Incoming<K>),
    /// All is known as of this version.
    Known(String),
    Watching(String, Incoming<K>),
    /// The API server does not stream lists.
    Pages(Events<K>),
}

struct Watch<K> {
    source: Source<K>,
    lists: Lists,
    state: State<K>,
}

struct Source<K> {
    api: Api<K>,
    config: Config,
}

/// What a step brings, if anything, and the state after it.
type Step<K> = (Option<Result<Event<K>, WatchError>>, State<K>);

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(&mut self) -> Option<Result<Event<K>, WatchError>> {
        loop {
            if let State::Pages(events) = &mut self.state {
                return events.next().await;
            }
            let state = std::mem::replace(&mut self.state, State::Unknown);
            let (event, state) = match self.source.step(state).await {
                Ok(step) => step,
                Err(reason) => {
                    debug!(%reason, "a list is read in pages");
                    if !matches!(reason, NotStreamed::Incomplete) {
                        self.lists.in_pages.store(true, Ordering::Relaxed);
                    }
                    (None, self.source.pages())
                }
            };
            self.state = state;
            if event.is_some() {
                return event;
            }
        }
    }
}

impl<K> Source<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn step(&self, state: State<K>) -> Result<Step<K>, NotStreamed> {
        Ok(match state {
            State::Unknown => match self.watch("").await {
                Ok(events) => (Some(Ok(Event::Init)), State::Listing(events)),
                // Whoever may not watch, whose kind is not served or who asks too often is refused pages, too.
                Err(Error::Api(status)) if matches!(status.code, 400 | 422) => {
                    return Err(NotStreamed::Refused(status.message));
                }
                Err(error) => (Some(Err(WatchError::WatchStartFailed(error))), State::Unknown),
            },
            State::Listing(mut events) => {
                let event = timeout(NEXT, events.next()).await.map_err(|_| NotStreamed::Ignored)?;
                of_list(event.ok_or(NotStreamed::Incomplete)?, events)?
            }
            State::Known(version) => match self.watch(&version).await {
                Ok(events) => (None, State::Watching(version, events)),
                Err(error) => {
                    (Some(Err(WatchError::WatchStartFailed(error))), State::Known(version))
                }
            },
            State::Watching(version, mut events) => {
                let lasts = Duration::from_secs(LASTS.into()) + SPARE;
                match timeout(lasts, events.next()).await {
                    Ok(Some(event)) => of_watch(event, version, events),
                    Ok(None) | Err(_) => (None, State::Known(version)),
                }
            }
            State::Pages(_) => (None, state),
        })
    }

    /// The changes since a version; without one all objects, as they are now or later, and their changes.
    async fn watch(&self, version: &str) -> kube::Result<Incoming<K>> {
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(LASTS),
            bookmarks: true,
            send_initial_events: version.is_empty(),
        };
        Ok(self.api.watch(&params, version).await?.boxed())
    }

    fn pages(&self) -> State<K> {
        let strategy = InitialListStrategy::ListWatch;
        let config = Config { initial_list_strategy: strategy, ..self.config.clone() };
        State::Pages(watcher(self.api.clone(), config).boxed())
    }
}

/// What an event before the end of a list means. The API server may begin with an older state and bring it up to date.
fn of_list<K>(
    event: kube::Result<WatchEvent<K>>,
    events: Incoming<K>,
) -> Result<Step<K>, NotStreamed> {
    let event = match event {
        Ok(WatchEvent::Added(object)) => Ok(Event::InitApply(object)),
        Ok(WatchEvent::Modified(object)) => Ok(Event::Apply(object)),
        Ok(WatchEvent::Deleted(object)) => Ok(Event::Delete(object)),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            // The first one is of the complete list, or the watch is an ordinary one.
            if !bookmark.metadata.annotations.contains_key(IS_COMPLETE) {
                return Err(NotStreamed::Ignored);
            }
            return Ok(match bookmark.metadata.resource_version {
                version if version.is_empty() => no_version(),
                version => (Some(Ok(Event::InitDone)), State::Watching(version, events)),
            });
        }
        Ok(WatchEvent::Error(status)) => {
            return Ok((Some(Err(WatchError::WatchError(status))), State::Unknown));
        }
        Err(error) => Err(WatchError::WatchFailed(error)),
    };
    Ok((Some(event), State::Listing(events)))
}

/// Where a watch would go on is not known.
fn no_version<K>() -> Step<K> {
    (Some(Err(WatchError::NoResourceVersion)), State::Unknown)
}

/// What an event after the list means. What is known stays known unless the API server has forgotten that version.
fn of_watch<K: Resource>(
    event: kube::Result<WatchEvent<K>>,
    version: String,
    events: Incoming<K>,
) -> Step<K> {
    let (object, is_deleted) = match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
        Ok(WatchEvent::Deleted(object)) => (object, true),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            return match bookmark.metadata.resource_version {
                version if version.is_empty() => no_version(),
                version => (None, State::Watching(version, events)),
            };
        }
        Ok(WatchEvent::Error(status)) => {
            let state = if status.code == 410 { State::Unknown } else { State::Known(version) };
            return (Some(Err(WatchError::WatchError(status))), state);
        }
        Err(error) => {
            let state = State::Watching(version, events);
            return (Some(Err(WatchError::WatchFailed(error))), state);
        }
    };
    match object.meta().resource_version.clone() {
        Some(version) if !version.is_empty() => {
            let event = if is_deleted { Event::Delete(object) } else { Event::Apply(object) };
            (Some(Ok(event)), State::Watching(version, events))
        }
        _ => no_version(),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio_util::bytes::Bytes;
    use tower::{BoxError, service_fn};
    use vela_api::PolicyDefinition;

    use super::*;
    use crate::share::{Share, Whose};
    use crate::store::{Key, Store, Stored as _};
    use crate::watch::{Kind, feed};

    /// How an API server answers a watch that is to begin with a list.
    #[derive(Clone, Copy, Debug)]
    enum Server {
        Streams,
        /// It does, and then there are changes.
        Changes,
        /// It says that it does not.
        Refuses(u16),
        /// It sends the objects, and not that these are all.
        Ignores,
        /// The same, and after a minute a bookmark.
        Marks,
        /// The connection ends within the list.
        BreaksOff,
    }

    fn definition(name: &str, version: u32) -> Value {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinition", "spec": {},
            "metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()}})
    }

    fn event(kind: &str, object: &Value) -> String {
        format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
    }

    fn added() -> String {
        event("ADDED", &definition("a", 3))
    }

    /// An older state, and what has changed since.
    fn brought_up_to_date() -> String {
        let (old, new) = (definition("old", 2), definition("a", 4));
        event("ADDED", &old) + &event("DELETED", &old) + &added() + &event("MODIFIED", &new)
    }

    /// The event after the last object of a list.
    fn listed() -> String {
        bookmark("5", &json!({IS_COMPLETE: "true"}))
    }

    fn bookmark(version: &str, annotations: &Value) -> String {
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        event(
            "BOOKMARK",
            &json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinition", "metadata": metadata}),
        )
    }

    fn since_version(version: &str) -> String {
        match version {
            "5" => event("MODIFIED", &definition("a", 6)),
            "6" => event("DELETED", &definition("a", 8)),
            _ => {
                let mut gone: Value = serde_json::from_str(&refusal(410)).unwrap();
                gone["reason"] = "Expired".into();
                event("ERROR", &gone)
            }
        }
    }

    fn page() -> String {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinitionList",
            "metadata": {"resourceVersion": "5"}, "items": [definition("a", 4)]})
        .to_string()
    }

    fn refusal(code: u16) -> String {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code, "message": "no", "reason": "Invalid"})
        .to_string()
    }

    /// A client of it, and what it is asked for.
    fn client(server: Server) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::<String>::new()));
        let noted = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Body>| {
            let noted = Arc::clone(&noted);
            async move {
                let query = request.uri().query().unwrap_or_default();
                let is_streamed = query.contains("sendInitialEvents=true");
                let is_watch = query.contains("watch=true");
                let since = query.rsplit("resourceVersion=").next().unwrap_or_default();
                noted.lock().push(match (is_streamed, is_watch) {
                    (true, _) => "streamed".to_owned(),
                    (_, true) => format!("since {since}"),
                    _ => "page".to_owned(),
                });
                let (code, text, ends) = match server {
                    Server::Refuses(code) if is_streamed => (code, refusal(code), true),
                    Server::Streams | Server::Changes if is_streamed => {
                        (200, brought_up_to_date() + &listed(), true)
                    }
                    Server::BreaksOff if is_streamed => (200, added(), true),
                    Server::Ignores if is_streamed => (200, added(), false),
                    Server::Marks if is_streamed => {
                        (200, added() + &bookmark("5", &json!({})), false)
                    }
                    Server::Changes if is_watch => (200, since_version(since), true),
                    _ if is_watch => (200, String::new(), false),
                    _ => (200, page(), true),
                };
                let text = Ok::<_, BoxError>(Frame::data(Bytes::from(text)));
                let text = stream::once(std::future::ready(text));
                let body = match ends {
                    true => text.boxed(),
                    false => text.chain(stream::pending()).boxed(),
                };
                Ok::<_, BoxError>(Response::builder().status(code).body(StreamBody::new(body))?)
            }
        });
        (Client::new(service, "default"), asked)
    }

    /// Every server's list is complete in the end; one that cannot stream it is not asked for that again.
    #[tokio::test(start_paused = true)]
    async fn who_does_not_stream_is_asked_for_pages() {
        for (server, all) in [
            (Server::Streams, ["streamed"].as_slice()),
            (Server::Refuses(422), &["streamed", "page"]),
            (Server::Refuses(400), &["streamed", "page"]),
            (Server::Ignores, &["streamed", "page"]),
            (Server::Marks, &["streamed", "page"]),
            (Server::BreaksOff, &["streamed", "page"]),
        ] {
            let (client, asked) = client(server);
            let store = Arc::new(Store::<PolicyDefinition>::default());
            let (share, whose) = (Share::default(), Whose::Everybodys);
            let kind = Kind { config: Config::default().streaming_lists(), share: &share, whose };
            let feeding = feed(client, kind, Arc::clone(&store), |object, _| object, |_| ());
            let listed = async {
                store.synced().await;
                store.all().iter().map(|it| (it.key(), it.version().to_owned())).collect::<Vec<_>>()
            };
            let listed = tokio::select! {
                () = feeding => None,
                listed = listed => Some(listed),
            };
            assert_eq!(listed.unwrap(), [(Key::new("n", "a"), "4".to_owned())], "{server:?}");
            let asked = asked.lock();
            let lists = asked.iter().filter(|it| !it.starts_with("since"));
            assert!(lists.eq(all), "{server:?}: {asked:?}");
        }
    }

    /// What a server does not stream is not asked for again, unless the connection only broke.
    #[tokio::test(start_paused = true)]
    async fn how_a_kind_is_listed_is_found_out_once() {
        for (server, again) in [
            (Server::Streams, "streamed"),
            (Server::Refuses(422), "page"),
            (Server::Ignores, "page"),
            (Server::Marks, "page"),
            (Server::BreaksOff, "streamed"),
        ] {
            let (client, asked) = client(server);
            let (api, lists): (Api<PolicyDefinition>, _) = (Api::all(client), Lists::default());
            for _ in 0..2 {
                asked.lock().clear();
                let config = Config::default().streaming_lists();
                let mut events = std::pin::pin!(watched(api.clone(), config, lists.clone()));
                while !matches!(events.next().await.unwrap().unwrap(), Event::InitDone) {}
            }
            assert_eq!(asked.lock()[0], again, "{server:?}");
        }
    }

    /// A watch goes on after the last version, and begins with a list where the API server has forgotten that.
    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_where_it_was() {
        let (client, asked) = client(Server::Changes);
        let api: Api<PolicyDefinition> = Api::all(client);
        let mut events =
            std::pin::pin!(watched(api, Config::default().streaming_lists(), Lists::default()));
        let mut next = async || events.next().await.unwrap().unwrap();
        while !matches!(next().await, Event::InitDone) {}
        assert!(matches!(next().await, Event::Apply(object) if object.version() == "6"));
        assert!(matches!(next().await, Event::Delete(object) if object.version() == "8"));
        assert!(events.next().await.unwrap().is_err());
        assert!(matches!(events.next().await.unwrap().unwrap(), Event::Init));
        assert_eq!(*asked.lock(), ["streamed", "since 5", "since 6", "since 8", "streamed"]);
    }

    /// A list or a bookmark without a version is no place to go on from.
    #[test]
    fn a_watch_goes_on_from_versions_only() {
        let parse = |text: String| -> kube::Result<WatchEvent<PolicyDefinition>> {
            serde_json::from_str(&text).map_err(Error::SerdeError)
        };
        let none = || stream::pending().boxed();
        let complete = json!({IS_COMPLETE: "true"});
        let step = of_list(parse(bookmark("", &complete)), none()).unwrap();
        assert!(matches!(step, (Some(Err(_)), State::Unknown)));
        for text in
            [bookmark("", &json!({})), event("MODIFIED", &json!({"metadata": {}, "spec": {}}))]
        {
            let step = of_watch(parse(text), "5".to_owned(), none());
            assert!(matches!(step, (Some(Err(_)), State::Unknown)));
        }
    }

    /// What pages would not mend is handed on.
    #[tokio::test(start_paused = true)]
    async fn who_is_refused_altogether_is_told_so() {
        let (client, asked) = client(Server::Refuses(403));
        let api: Api<PolicyDefinition> = Api::all(client);
        let mut events =
            std::pin::pin!(watched(api, Config::default().streaming_lists(), Lists::default()));
        for _ in 0..2 {
            assert!(matches!(events.next().await, Some(Err(WatchError::WatchStartFailed(_)))));
        }
        assert_eq!(*asked.lock(), ["streamed"; 2]);
    }
}
