//! One watch per kind of ours into its cache.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tracing::warn;

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

/// Watches a kind for ever. `trim` drops what nobody needs before an object is kept; `tell` hears of every change that
/// is not the echo of a write of ours.
pub async fn feed<K, T>(
    client: Client,
    config: watcher::Config,
    store: Arc<Store<T>>,
    trim: impl Fn(K) -> T,
    tell: impl Fn(Change<T>),
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    T: Stored,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let read = |object: DeserializeGuard<K>| match object.0 {
        Ok(object) => Some(trim(object)),
        Err(error) => {
            // An object nobody can read must not stop the watch; it is as if it were not there.
            warn!(
                kind = %K::kind(&()),
                namespace = error.metadata.namespace.as_deref().unwrap_or_default(),
                name = error.metadata.name.as_deref().unwrap_or_default(),
                error = error.error,
                "an object cannot be read and is ignored"
            );
            None
        }
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => store.begin_list(),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some(object) = read(object) {
                    store.list_item(object);
                }
            }
            Ok(watcher::Event::InitDone) => {
                for (key, old) in store.end_list() {
                    let new = store.get(&key);
                    tell(Change { key, old, new });
                }
            }
            Ok(watcher::Event::Apply(object)) => {
                let Some(object) = read(object) else { continue };
                let key = object.key();
                if let Ok(old) = store.put(object) {
                    let new = store.get(&key);
                    tell(Change { key, old, new });
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                let Some(object) = read(object) else { continue };
                let key = object.key();
                let old = store.remove(&key, object.version());
                tell(Change { key, old, new: None });
            }
            Err(error) => {
                warn!(kind = %K::kind(&()), %error, "watch failed, trying again");
            }
        }
    }
}
