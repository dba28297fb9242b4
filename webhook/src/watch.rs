//! One watch, for as long as the program lives: what fails is tried again, after growing pauses.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Pause after a failed watch, doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Hands every event and every failure to `each` until the token is cancelled.
pub(crate) async fn follow<K>(
    what: &str,
    api: Api<K>,
    config: watcher::Config,
    stop: CancellationToken,
    mut each: impl FnMut(Result<Event<K>, &watcher::Error>),
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(watcher::watcher(api, config));
    let mut pause = PAUSE;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Ok(event)) => {
                pause = PAUSE;
                each(Ok(event));
            }
            Some(Err(error)) => {
                warn!(what, %error, "watch failed, trying again");
                each(Err(&error));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}
