//! Events: what people are told about an object, in the reference's form (core/v1, with a source
//! component).
//!
//! The reference emits the same five or six events at every reconcile and lets a client-side
//! aggregator turn repetitions into counter updates: a write each. Here an event that says nothing
//! new is not written at all. An event is new when the object never had it, when something of the
//! other type (Normal, Warning) was said since, or, for a Warning that persists, when the API server
//! is about to forget it; then its counter goes up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{Error, Leadership};

/// Objects about which is remembered what was said. Beyond it the longest silent are forgotten.
const MOST_OBJECTS: usize = 8192;
/// Different events remembered per object: messages may contain anything.
const MOST_EVENTS: usize = 64;
/// Events waiting to be written. Beyond it they are dropped: events are best effort, and a
/// reconcile must never wait for one.
const MOST_WAITING: usize = 1024;
/// The API server forgets events after an hour; a persisting Warning is renewed before.
const RENEW_AFTER: Duration = Duration::from_secs(50 * 60);
/// The longest message. The reference's client has no limit, etcd does.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventType {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Version it had.
    pub resource_version: String,
}

type Key = (EventType, String, String);

/// What was said about one object.
struct History {
    said: HashMap<Key, Said>,
    /// Counts the turns between Normal and Warning.
    turn: u64,
    last: Option<EventType>,
    touched: Instant,
}

struct Said {
    /// Name of the Event object.
    name: String,
    count: i32,
    first: Timestamp,
    turn: u64,
    at: Instant,
}

/// What is to be written.
#[derive(Debug)]
enum Write {
    Create(Box<Event>),
    Count { namespace: String, name: String, count: i32, last: Timestamp, again: Box<Event> },
}

/// Decides what is said, without writing.
struct Memory {
    component: String,
    objects: HashMap<String, History>,
}

impl Memory {
    fn say(
        &mut self,
        about: &Regarding,
        type_: EventType,
        reason: &str,
        message: &str,
        now: Instant,
        time: Timestamp,
    ) -> Option<Write> {
        if self.objects.len() >= MOST_OBJECTS && !self.objects.contains_key(&id(about)) {
            self.forget_silent();
        }
        let history = self.objects.entry(id(about)).or_insert_with(|| History {
            said: HashMap::new(),
            turn: 0,
            last: None,
            touched: now,
        });
        history.touched = now;
        let key = (type_, reason.to_owned(), message.to_owned());
        if let Some(said) = history.said.get(&key) {
            let fading = type_ == EventType::Warning && now - said.at >= RENEW_AFTER;
            if said.turn == history.turn && !fading {
                return None;
            }
        } else if history.said.len() >= MOST_EVENTS {
            let oldest = history.said.iter().min_by_key(|(_, said)| said.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                history.said.remove(&oldest);
            }
        }
        if history.last.is_some_and(|last| last != type_) {
            history.turn += 1;
        }
        history.last = Some(type_);
        let turn = history.turn;
        let new = || Said {
            name: format!("{}.{:016x}", about.name, fastrand::u64(..)),
            count: 0,
            first: time,
            turn,
            at: now,
        };
        let said = history.said.entry(key).or_insert_with(new);
        said.turn = turn;
        said.at = now;
        said.count = said.count.saturating_add(1);
        let event = event(&self.component, about, type_, reason, message, said, time);
        Some(if said.count == 1 {
            Write::Create(Box::new(event))
        } else {
            Write::Count {
                namespace: namespace(about).to_owned(),
                name: said.name.clone(),
                count: said.count,
                last: time,
                again: Box::new(event),
            }
        })
    }

    /// Forgets the half of the objects about which nothing was said for longest.
    fn forget_silent(&mut self) {
        let mut touched: Vec<Instant> =
            self.objects.values().map(|history| history.touched).collect();
        touched.sort();
        if let Some(middle) = touched.get(touched.len() / 2).copied() {
            self.objects.retain(|_, history| history.touched > middle);
        }
    }
}

fn id(about: &Regarding) -> String {
    if about.uid.is_empty() {
        format!("{}/{}/{}", about.kind, about.namespace, about.name)
    } else {
        about.uid.clone()
    }
}

fn namespace(about: &Regarding) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

fn event(
    component: &str,
    about: &Regarding,
    type_: EventType,
    reason: &str,
    message: &str,
    said: &Said,
    time: Timestamp,
) -> Event {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let seconds = |time: Timestamp| vela_api::condition::seconds(time);
    let mut message = message.to_owned();
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push('…');
    }
    Event {
        metadata: ObjectMeta {
            name: Some(said.name.clone()),
            namespace: Some(namespace(about).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: some(&about.api_version),
            kind: some(&about.kind),
            namespace: some(&about.namespace),
            name: some(&about.name),
            uid: some(&about.uid),
            resource_version: some(&about.resource_version),
            ..ObjectReference::default()
        },
        type_: Some(type_.name().to_owned()),
        reason: some(reason),
        message: Some(message),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(String::new()),
        count: Some(said.count),
        first_timestamp: Some(seconds(said.first)),
        last_timestamp: Some(seconds(time)),
        ..Event::default()
    }
}

/// Takes events and writes them in the background.
#[derive(Clone)]
pub struct Recorder {
    memory: Arc<Mutex<Memory>>,
    queue: mpsc::Sender<Write>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("component", &self.memory.lock().component).finish()
    }
}

impl Recorder {
    /// A recorder for a source component, and the task that writes. The task ends with `stop`, after
    /// the events that wait; it writes only while we lead.
    pub fn new(
        client: Client,
        component: &str,
        leadership: Leadership,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        let memory = Memory { component: component.to_owned(), objects: HashMap::new() };
        let recorder = Self { memory: Arc::new(Mutex::new(memory)), queue, clock: Arc::new(clock) };
        (recorder, write_all(client, leadership, waiting, stop))
    }

    /// Says something about an object, unless it was said already. Never waits.
    pub fn say(&self, about: &Regarding, type_: EventType, reason: &str, message: &str) {
        let time = (self.clock)();
        let write = self.memory.lock().say(about, type_, reason, message, Instant::now(), time);
        if let Some(write) = write
            && self.queue.try_send(write).is_err()
        {
            warn!(kind = about.kind, name = about.name, reason, "too many events, one is dropped");
        }
    }

    /// Says that something is as it should be.
    pub fn normal(&self, about: &Regarding, reason: &str, message: &str) {
        self.say(about, EventType::Normal, reason, message);
    }

    /// Says that somebody should look.
    pub fn warning(&self, about: &Regarding, reason: &str, message: &str) {
        self.say(about, EventType::Warning, reason, message);
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, about: &Regarding) {
        self.memory.lock().objects.remove(&id(about));
    }
}

async fn write_all(
    client: Client,
    leadership: Leadership,
    mut waiting: mpsc::Receiver<Write>,
    stop: CancellationToken,
) {
    loop {
        let write = tokio::select! {
            biased;
            write = waiting.recv() => write,
            () = stop.cancelled() => None,
        };
        let Some(write) = write else { return };
        if !leadership.is_leader() {
            continue;
        }
        if let Err(error) = write_one(&client, write).await {
            // A namespace that is being deleted takes no events; that is no news.
            debug!(%error, "an event was not written");
        }
    }
}

async fn write_one(client: &Client, write: Write) -> Result<(), Error> {
    let api = |namespace: &str| Api::<Event>::namespaced(client.clone(), namespace);
    let create = async |event: &Event| {
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        api(namespace).create(&PostParams::default(), event).await.map_err(Error::from)
    };
    match write {
        Write::Create(event) => create(&event).await.map(|_| ()),
        Write::Count { namespace, name, count, last, again } => {
            let patch = json!({
                "count": count,
                "lastTimestamp": Time(vela_api::condition::seconds(last).0),
                "message": again.message,
            });
            let result = api(&namespace)
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .map_err(Error::from);
            match result {
                // The API server has forgotten the first one.
                Err(error) if error.is_gone() => create(&again).await.map(|_| ()),
                other => other.map(|_| ()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::fake;

    fn app() -> Regarding {
        Regarding {
            api_version: "core.oam.dev/v1beta1".to_owned(),
            kind: "Application".to_owned(),
            namespace: "n".to_owned(),
            name: "app".to_owned(),
            uid: "u1".to_owned(),
            resource_version: "7".to_owned(),
        }
    }

    fn time() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("in range")
    }

    struct Talk(Memory, Instant);

    impl Talk {
        fn new() -> Self {
            let memory = Memory { component: "Application".to_owned(), objects: HashMap::new() };
            Self(memory, Instant::now())
        }

        /// What is written for `(type, reason)`: nothing, a new event, or a counter.
        fn say(&mut self, type_: EventType, reason: &str) -> Option<i32> {
            match self.0.say(&app(), type_, reason, "message", self.1, time())? {
                Write::Create(event) => event.count,
                Write::Count { count, .. } => Some(count),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_write_nothing() {
        use EventType::{Normal, Warning};
        let mut talk = Talk::new();
        for pass in 0..5 {
            let want = (pass == 0).then_some(1);
            assert_eq!(talk.say(Normal, "Parsed"), want);
            assert_eq!(talk.say(Normal, "Deployed"), want);
        }
        // It fails, keeps failing, and recovers: each turn is told once.
        assert_eq!(talk.say(Warning, "FailedParse"), Some(1));
        assert_eq!(talk.say(Warning, "FailedParse"), None);
        assert_eq!(talk.say(Normal, "Parsed"), Some(2));
        assert_eq!(talk.say(Normal, "Deployed"), Some(2));
        assert_eq!(talk.say(Normal, "Parsed"), None);
        assert_eq!(talk.say(Warning, "FailedParse"), Some(2));
        assert_eq!(talk.say(Normal, "Parsed"), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_warning_is_renewed_before_it_fades() {
        let mut talk = Talk::new();
        assert_eq!(talk.say(EventType::Warning, "FailedParse"), Some(1));
        talk.1 += Duration::from_secs(49 * 60);
        assert_eq!(talk.say(EventType::Warning, "FailedParse"), None);
        talk.1 += Duration::from_secs(60);
        assert_eq!(talk.say(EventType::Warning, "FailedParse"), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let mut talk = Talk::new();
        for index in 0..3 * MOST_EVENTS {
            talk.1 += Duration::from_secs(1);
            assert_eq!(talk.say(EventType::Warning, &format!("R{index}")), Some(1));
        }
        assert_eq!(talk.0.objects["u1"].said.len(), MOST_EVENTS);
        for index in 0..2 * MOST_OBJECTS {
            let about = Regarding { uid: format!("v{index}"), ..app() };
            let now = talk.1 + Duration::from_millis(index as u64);
            talk.0.say(&about, EventType::Normal, "Parsed", "", now, time());
        }
        assert!(talk.0.objects.len() <= MOST_OBJECTS);
    }

    #[tokio::test]
    async fn form_of_events() {
        let (client, seen) = fake(|method, _, body| match method.as_str() {
            "PATCH" => (404, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            _ => (201, body.clone()),
        });
        let stop = CancellationToken::new();
        let (recorder, task) =
            Recorder::new(client, "Application", Leadership::always(), time, stop.clone());
        recorder.normal(&app(), "Parsed", "Parsed successfully");
        recorder.warning(&app(), "FailedParse", "no such type");
        recorder.normal(&app(), "Parsed", "Parsed successfully");
        stop.cancel();
        task.await;
        let seen = seen.lock();
        let lines: Vec<String> =
            seen.iter().map(|seen| format!("{} {}", seen.method, seen.body["count"])).collect();
        // A counter whose event was forgotten becomes an event again.
        assert_eq!(lines, ["POST 1", "POST 1", "PATCH 2", "POST 2"]);
        let mut body = seen[0].body.clone();
        let name = body["metadata"]["name"].take();
        let name = name.as_str().expect("a name");
        assert!(name.starts_with("app.") && name.len() == 20, "{name}");
        assert_eq!(
            body,
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": null, "namespace": "n"},
                "involvedObject": {
                    "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "namespace": "n",
                    "name": "app", "uid": "u1", "resourceVersion": "7",
                },
                "type": "Normal", "reason": "Parsed", "message": "Parsed successfully",
                "source": {"component": "Application"},
                "reportingComponent": "Application", "reportingInstance": "",
                "count": 1,
                "firstTimestamp": "2027-01-15T08:00:00Z", "lastTimestamp": "2027-01-15T08:00:00Z",
            })
        );
    }

    #[tokio::test]
    async fn followers_are_silent() {
        let (client, seen) = fake(|_, _, body| (201, body.clone()));
        let stop = CancellationToken::new();
        let (recorder, task) =
            Recorder::new(client, "Application", Leadership::never(), time, stop.clone());
        recorder.normal(&app(), "Parsed", "");
        stop.cancel();
        task.await;
        assert!(seen.lock().is_empty());
    }
}
