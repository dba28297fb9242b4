//! Events: Kubernetes events about an object, in the reference's form (core/v1, with a source
//! component), written in the background.
//!
//! The reference emits the same five or six events at every reconcile and lets a client-side
//! aggregator turn repetitions into counter updates: a write each. Here an event that says nothing
//! new is not written at all. An event is new when the object never had it, when something of the
//! other type (Normal, Warning) was said since, or, for a Warning that persists, when the API server
//! is about to forget it; then its counter goes up. Like the reference's client, it writes `BURST` events about an object
//! at once and one every `REFILL` after that: an Application that is edited all the time does not fill the API server.
//!
//! Our own: kube's recorder writes events.k8s.io only, and counts repetitions by another rule.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, warn};
use vela_apply::plan::PatchKind;

use crate::{Error, Identity, ObjectClient, Target};

/// Objects about which is remembered what was said. Beyond it the longest silent are forgotten.
const MAX_OBJECTS: usize = 8192;
/// Different events remembered per object: messages may contain anything.
const MAX_EVENTS: usize = 64;
/// Events waiting to be written in each lane. Beyond it they are dropped: events are best effort, and
/// a reconcile must never wait for one.
const MAX_WAITING: usize = 512;
/// Events that are written at once, those of one object one after the other: with a slow API server a single writer
/// falls behind.
const WRITERS: usize = 4;
/// The API server forgets events after an hour; a persisting Warning is renewed before.
const RENEW_AFTER: Duration = Duration::from_secs(50 * 60);
/// Events about one object that may follow each other at once.
const BURST: u32 = 25;
/// After them, one in this time.
const REFILL: Duration = Duration::from_secs(5 * 60);
/// So many more, if they are Warnings: a failure is reported also where edits have used the burst up.
const FOR_WARNINGS: u32 = 10;
/// How long an event lets other requests pass.
const YIELD_LIMIT: Duration = Duration::from_secs(3);
/// This many moments without a request in a row are a pause: what follows a write of ours in the cluster is over, too.
const CALM: u32 = 10;
const MOMENT: Duration = Duration::from_millis(10);
/// The longest message, in characters.
const MAX_MESSAGE: usize = 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should check.
    Warning,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct About {
    /// Group and version.
    pub api_version: String,
    /// Kind of the object, as in manifests.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// uid of the object.
    pub uid: String,
    /// resourceVersion it had.
    pub version: String,
}

/// What makes an event of an object the same event.
#[derive(Clone, Copy, Hash)]
struct Key<'a> {
    component: &'static str,
    severity: Severity,
    reason: &'a str,
    message: &'a str,
    once: &'a str,
}

/// What was said about one object. It is remembered for every Application: events by the hash of their key.
struct History {
    emitted: Vec<(u64, EmittedEvent)>,
    /// Counts the turns between Normal and Warning.
    turn: u64,
    last: Option<Severity>,
    touched: Instant,
    allowance: Allowance,
}

/// How many events may be written about one object: a bucket of tokens.
#[derive(Clone, Copy)]
struct Allowance {
    tokens: u32,
    /// When the last token was added.
    filled: Instant,
}

impl Allowance {
    const fn full(now: Instant) -> Self {
        Self { tokens: BURST + FOR_WARNINGS, filled: now }
    }

    /// Takes a token, if one is left for an event of this severity.
    fn take(&mut self, severity: Severity, now: Instant) -> bool {
        let periods = now.duration_since(self.filled).as_secs() / REFILL.as_secs();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if self.tokens.saturating_add(periods) >= BURST + FOR_WARNINGS {
            *self = Self::full(now);
        } else {
            self.tokens += periods;
            self.filled += REFILL * periods;
        }
        let kept = if severity == Severity::Normal { FOR_WARNINGS } else { 0 };
        let is_free = self.tokens > kept;
        self.tokens -= u32::from(is_free);
        is_free
    }
}

#[derive(Clone, Copy)]
struct EmittedEvent {
    /// The end of the name of the Event object.
    suffix: u64,
    count: u32,
    first: Timestamp,
    turn: u64,
    at: Instant,
}

/// An event that is to be written.
#[derive(Debug)]
pub struct Write {
    /// The whole Event, with its counter.
    event: Value,
    /// It was written before: only its counter goes up.
    again: bool,
    /// When it was reported.
    at: Instant,
    /// The hash of what it is about.
    object: u64,
}

/// Decides what is said, without writing.
#[derive(Default)]
struct Correlator {
    hasher: RandomState,
    /// By the hash of what says which object it is.
    objects: HashMap<u64, History>,
}

impl Correlator {
    fn record(
        &mut self,
        about: &About,
        key: Key<'_>,
        now: Instant,
        time: Timestamp,
    ) -> Option<Write> {
        let object = self.id(about);
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&object) {
            self.forget_silent();
        }
        let hash = self.hasher.hash_one(key);
        let history = self.objects.entry(object).or_insert_with(|| History {
            emitted: Vec::new(),
            turn: 0,
            last: None,
            touched: now,
            allowance: Allowance::full(now),
        });
        history.touched = now;
        let severity = key.severity;
        let known = history.emitted.iter().position(|(known, _)| *known == hash);
        let known = known.map(|index| history.emitted.swap_remove(index).1);
        let is_news = known.is_none_or(|emitted| {
            let fading = severity == Severity::Warning && now - emitted.at >= RENEW_AFTER;
            emitted.turn != history.turn || fading
        });
        if !is_news || !history.allowance.take(severity, now) {
            history.emitted.extend(known.map(|emitted| (hash, emitted)));
            return None;
        }
        if history.emitted.len() >= MAX_EVENTS {
            let ages = history.emitted.iter().enumerate();
            if let Some((oldest, _)) = ages.min_by_key(|(_, (_, emitted))| emitted.at) {
                history.emitted.swap_remove(oldest);
            }
        }
        if history.last.is_some_and(|last| last != severity) {
            history.turn += 1;
        }
        history.last = Some(severity);
        let turn = history.turn;
        let new = EmittedEvent { suffix: fastrand::u64(..), count: 0, first: time, turn, at: now };
        let mut emitted = known.unwrap_or(new);
        (emitted.turn, emitted.at) = (turn, now);
        emitted.count = emitted.count.saturating_add(1);
        history.emitted.push((hash, emitted));
        let event = event(about, key, emitted, time);
        Some(Write { event, again: emitted.count > 1, at: now, object })
    }

    fn id(&self, about: &About) -> u64 {
        if about.uid.is_empty() {
            self.hasher.hash_one((&about.kind, &about.namespace, &about.name))
        } else {
            self.hasher.hash_one(&about.uid)
        }
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

fn namespace(about: &About) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

fn event(about: &About, key: Key<'_>, emitted: EmittedEvent, time: Timestamp) -> Value {
    let seconds = |time: Timestamp| vela_api::condition::seconds(time).0.to_string();
    let message: String = key.message.chars().take(MAX_MESSAGE).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:016x}", about.name, emitted.suffix), "namespace": namespace(about)},
        "involvedObject": {
            "apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace,
            "name": about.name, "uid": about.uid, "resourceVersion": about.version,
        },
        "type": key.severity.name(),
        "reason": key.reason,
        "message": message,
        "source": {"component": key.component},
        "reportingComponent": key.component,
        "reportingInstance": "",
        "count": emitted.count,
        "firstTimestamp": seconds(emitted.first),
        "lastTimestamp": seconds(time),
    })
}

/// Emits events.
#[derive(Clone)]
pub struct Recorder {
    memory: Arc<Mutex<Correlator>>,
    senders: Arc<[mpsc::Sender<Write>]>,
    /// Events emitted and not yet written.
    unwritten: Arc<watch::Sender<usize>>,
    component: &'static str,
}

/// Events that wait to be written.
#[derive(Debug)]
pub struct Waiting {
    senders: Vec<mpsc::Receiver<Write>>,
    unwritten: Arc<watch::Sender<usize>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("component", &self.component).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder with the source component that tools match, and what [`write()`] writes.
    #[must_use]
    pub fn new(component: &'static str) -> (Self, Waiting) {
        let (senders, waiting): (Vec<_>, Vec<_>) =
            std::iter::repeat_with(|| mpsc::channel(MAX_WAITING)).take(WRITERS).unzip();
        let unwritten = Arc::new(watch::Sender::new(0));
        let waiting = Waiting { senders: waiting, unwritten: Arc::clone(&unwritten) };
        (Self { memory: Arc::default(), senders: senders.into(), unwritten, component }, waiting)
    }

    /// The same recorder under another source component.
    #[must_use]
    pub fn named(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Emits an event, unless it says nothing new. `once` distinguishes an event in addition to its
    /// reason and text (for example the revision it is about). Never waits.
    pub fn emit(&self, about: &About, severity: Severity, reason: &str, message: &str, once: &str) {
        let key = Key { component: self.component, severity, reason, message, once };
        let write = self.memory.lock().record(about, key, Instant::now(), Timestamp::now());
        let Some(write) = write else { return };
        let senders = u64::try_from(self.senders.len()).unwrap_or(1).max(1);
        let sender = usize::try_from(write.object % senders)
            .ok()
            .and_then(|sender| self.senders.get(sender));
        let Some(sender) = sender else { return };
        self.unwritten.send_modify(|count| *count = count.saturating_add(1));
        if sender.try_send(write).is_err() {
            self.unwritten.send_modify(|count| *count = count.saturating_sub(1));
            warn!(kind = about.kind, name = about.name, reason, "too many events, one is dropped");
        }
    }

    /// Waits until every emitted event is written, or lost.
    pub async fn written(&self) {
        // The sender lives as long as the recorder.
        let _ = self.unwritten.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, about: &About) {
        let mut memory = self.memory.lock();
        let object = memory.id(about);
        memory.objects.remove(&object);
    }
}

/// Writes events until the recorders are gone.
pub async fn write(io: Arc<ObjectClient>, waiting: Waiting) {
    let Waiting { senders, unwritten } = waiting;
    join_all(senders.into_iter().map(|mut sender| {
        let (io, unwritten) = (Arc::clone(&io), Arc::clone(&unwritten));
        async move {
            let mut goes_on = false;
            while let Some(one) = sender.recv().await {
                if !goes_on || io.is_busy() {
                    let_others_pass(&io, one.at).await;
                }
                // An event that cannot be written is lost; its cause is in the conditions too. A namespace
                // that is being deleted takes none.
                if let Err(error) = write_one(&io, &one).await {
                    debug!(%error, "event not written");
                }
                unwritten.send_modify(|count| *count = count.saturating_sub(1));
                goes_on = !sender.is_empty();
            }
        }
    }))
    .await;
}

/// A reconcile has requests one after the other that somebody waits for: events come when it is over, or soon.
async fn let_others_pass(io: &ObjectClient, since: Instant) {
    let mut calm = 0;
    while calm < CALM && since.elapsed() < YIELD_LIMIT {
        tokio::time::sleep(MOMENT).await;
        calm = if io.is_busy() { 0 } else { calm + 1 };
    }
}

async fn write_one(io: &ObjectClient, write: &Write) -> Result<(), Error> {
    let own = Identity::own();
    if write.again {
        let patch = json!({
            "count": write.event.get("count"),
            "lastTimestamp": write.event.get("lastTimestamp"),
        });
        let target = Target::of(&write.event);
        match io.patch(&target, "", (PatchKind::Merge, &patch), false, &own).await {
            // The API server has forgotten the first one.
            Err(error) if error.is_not_found() => {}
            other => return other.map(|_| ()),
        }
    }
    io.create(&write.event, false, &own).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::fake;

    fn app() -> About {
        About {
            api_version: "core.oam.dev/v1beta1".to_owned(),
            kind: "Application".to_owned(),
            namespace: "n".to_owned(),
            name: "app".to_owned(),
            uid: "u1".to_owned(),
            version: "7".to_owned(),
        }
    }

    fn time() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("in range")
    }

    fn key<'a>(severity: Severity, reason: &'a str, once: &'a str) -> Key<'a> {
        Key { component: "Application", severity, reason, message: "message", once }
    }

    struct Talk(Correlator, Instant);

    impl Talk {
        fn new() -> Self {
            Self(Correlator::default(), Instant::now())
        }

        /// The counter that is written for an event, if one is.
        fn record(&mut self, severity: Severity, reason: &str) -> Option<u64> {
            let write = self.0.record(&app(), key(severity, reason, ""), self.1, time())?;
            let count = write.event["count"].as_u64().expect("a counter");
            assert_eq!(write.again, count > 1);
            Some(count)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_write_nothing() {
        use Severity::{Normal, Warning};
        let mut talk = Talk::new();
        for pass in 0..5 {
            // However long it settles.
            talk.1 += Duration::from_secs(3600);
            let want = (pass == 0).then_some(1);
            assert_eq!(talk.record(Normal, "Parsed"), want);
            assert_eq!(talk.record(Normal, "Deployed"), want);
        }
        // It fails, keeps failing, and recovers: each turn is reported once.
        assert_eq!(talk.record(Warning, "FailedParse"), Some(1));
        assert_eq!(talk.record(Warning, "FailedParse"), None);
        assert_eq!(talk.record(Normal, "Parsed"), Some(2));
        assert_eq!(talk.record(Normal, "Deployed"), Some(2));
        assert_eq!(talk.record(Normal, "Parsed"), None);
        assert_eq!(talk.record(Warning, "FailedParse"), Some(2));
        assert_eq!(talk.record(Normal, "Parsed"), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_warning_is_renewed_before_it_fades() {
        let mut talk = Talk::new();
        assert_eq!(talk.record(Severity::Warning, "FailedParse"), Some(1));
        talk.1 += Duration::from_secs(49 * 60);
        assert_eq!(talk.record(Severity::Warning, "FailedParse"), None);
        talk.1 += Duration::from_secs(60);
        assert_eq!(talk.record(Severity::Warning, "FailedParse"), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn another_revision_is_news() {
        let mut talk = Talk::new();
        let mut record =
            |once| talk.0.record(&app(), key(Severity::Normal, "Parsed", once), talk.1, time());
        assert!(record("app-v1").is_some());
        assert!(record("app-v1").is_none());
        assert!(record("app-v2").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn events_about_one_object_are_limited() {
        let mut talk = Talk::new();
        let mut edit = 0;
        let mut written = |talk: &mut Talk, severity, count: usize| {
            (0..count)
                .filter(|_| {
                    edit += 1;
                    let once = format!("app-v{edit}");
                    let key = key(severity, "Reason", &once);
                    talk.0.record(&app(), key, talk.1, time()).is_some()
                })
                .count()
        };
        assert_eq!(written(&mut talk, Severity::Normal, 100), 25);
        assert_eq!(written(&mut talk, Severity::Warning, 100), 10, "a failure is still reported");
        talk.1 += Duration::from_secs(299);
        assert_eq!(written(&mut talk, Severity::Warning, 10), 0);
        talk.1 += Duration::from_secs(602);
        assert_eq!(written(&mut talk, Severity::Warning, 10), 3);
        assert_eq!(written(&mut talk, Severity::Normal, 10), 0);
        talk.1 += Duration::from_secs(24 * 3600);
        assert_eq!(written(&mut talk, Severity::Normal, 100), 25);
        let other = About { uid: "u2".to_owned(), ..app() };
        let key = key(Severity::Normal, "Reason", "");
        assert!(talk.0.record(&other, key, talk.1, time()).is_some(), "another object has its own");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let mut talk = Talk::new();
        for index in 0..3 * MAX_EVENTS {
            talk.1 += REFILL;
            assert_eq!(talk.record(Severity::Warning, &format!("R{index}")), Some(1));
        }
        let object = talk.0.id(&app());
        assert_eq!(talk.0.objects[&object].emitted.len(), MAX_EVENTS);
        for index in 0..2 * MAX_OBJECTS {
            let about = About { uid: format!("v{index}"), ..app() };
            let now = talk.1 + Duration::from_millis(index as u64);
            talk.0.record(&about, key(Severity::Normal, "Parsed", ""), now, time());
        }
        assert!(talk.0.objects.len() <= MAX_OBJECTS);
    }

    #[tokio::test]
    async fn form_of_events() {
        let (client, seen) = fake(|method, path, body| match (method.as_str(), path) {
            (_, "/api/v1") => {
                let events = json!({"name": "events", "kind": "Event", "namespaced": true});
                (200, json!({ "resources": [events] }))
            }
            ("PATCH", _) => (404, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            _ => (201, body.clone()),
        });
        let (recorder, waiting) = Recorder::new("Application");
        let other = recorder.named("TraitDefinition");
        recorder.emit(&app(), Severity::Normal, "Parsed", "Parsed successfully", "");
        recorder.emit(&app(), Severity::Warning, "FailedParse", "no such type", "");
        recorder.emit(&app(), Severity::Normal, "Parsed", "Parsed successfully", "");
        other.emit(&app(), Severity::Normal, "Parsed", "Parsed successfully", "");
        let mut writing = Box::pin(write(Arc::new(ObjectClient::new(client)), waiting));
        tokio::select! {
            () = recorder.written() => {}
            () = &mut writing => panic!("there are recorders"),
        }
        let sent = seen.lock().len();
        drop((recorder, other));
        writing.await;
        let seen = seen.lock();
        assert_eq!(seen.len(), sent, "there was nothing left to write");
        let lines: Vec<String> = seen
            .iter()
            .skip(1)
            .map(|seen| format!("{} {}", seen.method, seen.body["count"]))
            .collect();
        // A counter whose event was forgotten becomes an event again.
        assert_eq!(lines, ["POST 1", "POST 1", "PATCH 2", "POST 2", "POST 1"]);
        assert_eq!(seen[5].body["source"]["component"], "TraitDefinition");
        let mut body = seen[1].body.clone();
        let name = body["metadata"]["name"].take();
        let name = name.as_str().expect("a name");
        assert!(name.starts_with("app.") && name.len() == 20, "{name}");
        let time = body["firstTimestamp"].take();
        assert_eq!(time.as_str().expect("a time").len(), "2027-01-15T08:00:00Z".len());
        assert_eq!(body["lastTimestamp"].take(), time);
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
                "count": 1, "firstTimestamp": null, "lastTimestamp": null,
            })
        );
    }
}
