//! The one watch of the control plane, and what fills caches with it.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use kube::api::Api;
use kube::core::ApiResource;
pub use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::observed::Guarded;
use crate::store::{Key, Store, Stored};

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
    let what = what.to_owned();
    watcher(api, config).default_backoff().inspect(move |event| {
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

/// Watches a kind for ever. `trim` drops what nobody needs before an object is kept; `notify` is called for every change that
/// is not the echo of a write of ours.
pub async fn feed<K, T>(
    client: Client,
    config: Config,
    store: Arc<Store<T>>,
    trim: impl Fn(K) -> T,
    on_change: impl Fn(Change<T>),
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    T: Stored,
{
    // An object nobody can read must not stop the watch; it is as if it were not there.
    let api: Api<Guarded<K>> = Api::all_with(client, &ApiResource::erase::<K>(&()));
    let resource = api.resource_url().to_owned();
    let mut events = std::pin::pin!(events(&resource, api, config));
    let read = |object: Guarded<K>| object.open(&resource).map(&trim);
    // The echo of a write of ours costs nothing more.
    let is_known = |object: &Guarded<K>| {
        store.get(&object.key()).is_some_and(|known| known.version() == object.version())
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => store.begin_list(),
            Ok(Event::InitApply(object)) => {
                if let Some(object) = read(object) {
                    store.list_item(object);
                }
            }
            Ok(Event::InitDone) => {
                for (key, old) in store.end_list() {
                    let new = store.get(&key);
                    on_change(Change { key, old, new });
                }
            }
            Ok(Event::Apply(object)) if is_known(&object) => {}
            Ok(Event::Apply(object)) => {
                let Some(object) = read(object) else { continue };
                let key = object.key();
                if let Ok(old) = store.put(object) {
                    let new = store.get(&key);
                    on_change(Change { key, old, new });
                }
            }
            Ok(Event::Delete(object)) => {
                let key = object.key();
                let old = store.remove(&key, object.version());
                on_change(Change { key, old, new: None });
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;
    use tower::service_fn;
    use vela_api::Application;

    use super::*;

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
            Config::default(),
            Arc::clone(&store),
            |app: Application| app,
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

    #[tokio::test(start_paused = true)]
    async fn unreadable_objects_do_not_stop_the_watch() {
        let store = Arc::new(Store::<Application>::default());
        let (heard, mut changes) = mpsc::unbounded_channel();
        let trimmed = Arc::new(Mutex::new(0));
        let feed = feed(
            client(),
            Config::default(),
            Arc::clone(&store),
            {
                let trimmed = Arc::clone(&trimmed);
                move |app: Application| {
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
