//! Events: told once per object, reason and text, written in the background.
//!
//! The reference repeats every event in every reconcile. Here an event that was told within the last minutes is not told
//! again, so a settled Application costs nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::debug;

use vela_cluster::{Identity, Io};

/// Events waiting to be written; more are dropped, for they are news, not state.
const QUEUE: usize = 4096;
/// Told events remembered.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(8192) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long the same event is not told again.
const REPEAT_AFTER: Duration = Duration::from_secs(600);
/// Longest message the API accepts.
const LONGEST: usize = 1024;

/// Normal or Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct About {
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// resourceVersion, informational.
    pub version: String,
}

/// Tells events.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Value>,
    told: Arc<Mutex<LruCache<(String, String), Instant>>>,
    component: &'static str,
}

impl Recorder {
    /// A recorder with the source component tools look for, and what writes its events.
    #[must_use]
    pub fn new(component: &'static str) -> (Self, mpsc::Receiver<Value>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let told = Arc::new(Mutex::new(LruCache::new(REMEMBERED)));
        (Self { queue, told, component }, receiver)
    }

    /// The same events under another source component.
    #[must_use]
    pub fn named(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Tells an event, unless it was told just before. `once` is what makes an event new beside its reason and text
    /// (for example the revision it is about).
    pub fn tell(&self, about: &About, severity: Severity, reason: &str, message: &str, once: &str) {
        let key = (format!("{}/{reason}/{once}", about.uid), message.to_owned());
        {
            let mut told = self.told.lock();
            if told.get(&key).is_some_and(|at| at.elapsed() < REPEAT_AFTER) {
                return;
            }
            told.put(key, Instant::now());
        }
        let event = event(about, severity, reason, message, self.component, Timestamp::now());
        if self.queue.try_send(event).is_err() {
            debug!(reason, name = about.name, "too many events, one is dropped");
        }
    }
}

fn event(
    about: &About,
    severity: Severity,
    reason: &str,
    message: &str,
    component: &str,
    now: Timestamp,
) -> Value {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
    let message: String = message.chars().take(LONGEST).collect();
    let nanos = now.as_nanosecond();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:x}{:04x}", about.name, nanos, fastrand::u16(..)),
            "namespace": namespace,
        },
        "involvedObject": {
            "apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace,
            "name": about.name, "uid": about.uid, "resourceVersion": about.version,
        },
        "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

/// Writes events until the recorders are gone.
pub async fn write(io: Arc<Io>, mut queue: mpsc::Receiver<Value>) {
    let own = Identity::default();
    while let Some(event) = queue.recv().await {
        // An event that cannot be written is lost; its cause is in the conditions too.
        if let Err(error) = io.create(&event, false, &own).await {
            debug!(%error, "event not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_event_is_told_once() {
        let (recorder, mut queue) = Recorder::new("Application");
        let about = About { name: "a".into(), uid: "u".into(), ..About::default() };
        recorder.tell(&about, Severity::Normal, "Parsed", "x", "v1");
        recorder.tell(&about, Severity::Normal, "Parsed", "x", "v1");
        recorder.tell(&about, Severity::Normal, "Parsed", "x", "v2");
        recorder.tell(&about, Severity::Warning, "Parsed", "y", "v1");
        let mut reasons = Vec::new();
        while let Ok(event) = queue.try_recv() {
            reasons.push(event["message"].as_str().unwrap_or_default().to_owned());
        }
        assert_eq!(reasons, ["x", "x", "y"]);
    }
}
