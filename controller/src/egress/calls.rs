//! Calls of steps to the outside, carried out beside the workers: a server that takes its time holds nobody up but the step
//! that asked it. The step begins a call, waits, and is checked again when the call has ended.
//!
//! A call is known by the step and its place in the template, and what it came to is kept until the attempt of the step that
//! began it is over. How many are in flight is bounded for each namespace and in all.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::http::HttpResponse;
use crate::messages;
use crate::queue::{Class, Key, Queue};

/// Calls of one namespace that are in flight at a time: a workflow makes a handful.
const MAX_OF_NAMESPACE: usize = 8;
/// Calls in flight in all: sockets, and at most this many times the largest answer in memory.
const MAX_IN_FLIGHT: usize = 64;
/// Bytes of answers that wait for their steps; beyond that no call begins.
const MAX_BYTES: usize = 32 << 20;
/// Longest call, redirects included.
const MAX_TIME: Duration = Duration::from_secs(180);

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was sent.
    NotSent(String),
    /// Nobody knows what the server made of it.
    Unknown(String),
}

impl Lost {
    /// In words.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::NotSent(text) | Self::Unknown(text) => text,
        }
    }
}

/// What a call came to.
pub type Ended = Result<HttpResponse, Lost>;

/// How a call gets on.
#[derive(Debug, Clone)]
pub enum Call {
    /// It is in flight.
    InFlight,
    /// It ended.
    Ended(Ended),
}

/// Which call: the Application, the identity of the step, the place in its template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The Application.
    pub app: Key,
    /// The step.
    pub step: String,
    /// The place.
    pub path: String,
}

struct Job {
    ended: Option<Ended>,
    abort: Option<AbortHandle>,
    /// Must not be repeated: how it ended has to be noted.
    once: bool,
    /// A reconcile was told how it ended.
    seen: bool,
    /// The workflow's context says so.
    noted: bool,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<Slot, Job>,
    in_flight: HashMap<String, usize>,
    bytes: usize,
    closed: bool,
}

impl State {
    fn has_room(&self, namespace: &str) -> bool {
        let of_namespace = self.in_flight.get(namespace).copied().unwrap_or_default();
        !self.closed
            // Both bounds: one tenant's slow servers must leave room for the calls of others.
            && of_namespace < MAX_OF_NAMESPACE
            && self.in_flight.values().sum::<usize>() < MAX_IN_FLIGHT
            && self.bytes < MAX_BYTES
    }

    fn started(&mut self, namespace: &str) {
        *self.in_flight.entry(namespace.to_owned()).or_default() += 1;
    }

    fn over(&mut self, namespace: &str) {
        if let Some(count) = self.in_flight.get_mut(namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_flight.remove(namespace);
            }
        }
    }

    fn retain(&mut self, keep: impl Fn(&Slot) -> bool) {
        let gone: Vec<Slot> = self.jobs.keys().filter(|slot| !keep(slot)).cloned().collect();
        for slot in gone {
            let Some(job) = self.jobs.remove(&slot) else { continue };
            match (&job.ended, &job.abort) {
                (Some(ended), _) => self.bytes = self.bytes.saturating_sub(size(ended)),
                (None, abort) => {
                    // Counted out here, since an aborted task never comes to the line that would do
                    // it.
                    abort.iter().for_each(AbortHandle::abort);
                    self.over(&slot.app.namespace);
                }
            }
        }
    }
}

fn size(ended: &Ended) -> usize {
    let of = |all: &BTreeMap<String, Vec<String>>| -> usize {
        all.iter()
            .map(|(key, values)| key.len() + values.iter().map(String::len).sum::<usize>())
            .sum()
    };
    match ended {
        Ok(response) => response.body.len() + of(&response.headers) + of(&response.trailers),
        Err(lost) => lost.text().len(),
    }
}

/// All calls of a process.
pub struct Calls {
    state: Arc<Mutex<State>>,
    queue: Arc<Queue>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("jobs", &self.state.lock().jobs.len()).finish()
    }
}

impl Calls {
    /// No call yet. When one has ended its Application goes into the queue.
    #[must_use]
    pub fn new(queue: Arc<Queue>) -> Self {
        Self { state: Arc::default(), queue, changed: Arc::default() }
    }

    /// How a call gets on; `None`: it was not begun.
    #[must_use]
    pub fn find(&self, slot: &Slot) -> Option<Call> {
        let mut state = self.state.lock();
        let job = state.jobs.get_mut(slot)?;
        // What the reconcile is shown it writes into the workflow's context; `noted` says that this
        // was stored.
        job.seen = job.ended.is_some();
        Some(job.ended.clone().map_or(Call::InFlight, Call::Ended))
    }

    /// Whether another call of a namespace may begin.
    #[must_use]
    pub fn has_room(&self, namespace: &str) -> bool {
        self.state.lock().has_room(namespace)
    }

    /// Begins a call. `once`: how it ended must be noted before the process ends.
    pub fn begin(&self, slot: &Slot, once: bool, call: BoxFuture<'static, Ended>) {
        let mut state = self.state.lock();
        // A step that is rendered once more asks for the same call; it must be sent once.
        if state.jobs.contains_key(slot) {
            return;
        }
        state.started(&slot.app.namespace);
        let job = Job { ended: None, abort: None, once, seen: false, noted: false };
        state.jobs.insert(slot.clone(), job);
        let (all, queue) = (Arc::clone(&self.state), Arc::clone(&self.queue));
        let (changed, own) = (Arc::clone(&self.changed), slot.clone());
        let work = async move {
            // A panic is an end like another: the step would wait for ever for a call that nobody
            // reports.
            let call = tokio::time::timeout(MAX_TIME, AssertUnwindSafe(call).catch_unwind());
            let ended = match call.await {
                Ok(Ok(ended)) => ended,
                // Unknown and not unsent: the request may have left before the panic or the end of
                // the time.
                Ok(Err(panic)) => Err(Lost::Unknown(vela_serve::pool::panic_text(&*panic))),
                Err(_) => Err(Lost::Unknown(messages::request_timeout(&format!("{MAX_TIME:?}")))),
            };
            let mut state = all.lock();
            // Nobody waits for it any more if it is not there; then it was counted out.
            if let Some(job) = state.jobs.get_mut(&own) {
                let bytes = size(&ended);
                job.ended = Some(ended);
                state.bytes = state.bytes.saturating_add(bytes);
                state.over(&own.app.namespace);
            }
            drop(state);
            changed.notify_waiters();
            queue.add(own.app, Class::Progress);
        };
        let task = tokio::spawn(work);
        if let Some(job) = state.jobs.get_mut(slot) {
            job.abort = Some(task.abort_handle());
        }
    }

    /// Forgets the calls of an Application but those of some steps; what is in flight is given up.
    pub fn keep(&self, app: &Key, step: impl Fn(&str) -> bool) {
        self.state.lock().retain(|slot| slot.app != *app || step(&slot.step));
        self.changed.notify_waiters();
    }

    /// How the calls of an Application ended that a reconcile was told of is stored now.
    pub fn noted(&self, app: &Key) {
        let mut state = self.state.lock();
        let seen = state.jobs.iter_mut().filter(|(slot, job)| slot.app == *app && job.seen);
        seen.for_each(|(_, job)| job.noted = true);
        drop(state);
        self.changed.notify_waiters();
    }

    /// A hash of which calls of an Application have ended.
    #[must_use]
    pub fn seen(&self, app: &Key) -> u64 {
        let state = self.state.lock();
        // Part of what a reconcile remembers of its last outcome: a call that has ended is a
        // change.
        let mut hasher = DefaultHasher::new();
        for (slot, _) in
            state.jobs.iter().filter(|(slot, job)| slot.app == *app && job.ended.is_some())
        {
            (&slot.step, &slot.path).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Begins no more calls, and waits until how those ended is noted that must not be repeated.
    pub async fn close(&self) {
        self.state.lock().closed = true;
        loop {
            // Before the check: a change between the two would be missed.
            let changed = self.changed.notified();
            if !self.state.lock().jobs.values().any(|job| job.once && !job.noted) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn slot(namespace: &str, app: &str, path: &str) -> Slot {
        Slot { app: Key::new(namespace, app), step: "s".to_owned(), path: path.to_owned() }
    }

    fn calls() -> Calls {
        Calls::new(Arc::default())
    }

    /// A call that ends when it is told to.
    fn call(calls: &Calls, slot: &Slot) -> oneshot::Sender<Ended> {
        let (end, ended) = oneshot::channel();
        let work = async move { ended.await.unwrap_or_else(|_| Err(Lost::NotSent(String::new()))) };
        calls.begin(slot, true, work.boxed());
        end
    }

    #[tokio::test]
    async fn a_call_ends_beside_and_wakes_its_application() {
        let calls = calls();
        let one = slot("n", "a", "x");
        assert!(calls.find(&one).is_none());
        let before = calls.seen(&one.app);
        let end = call(&calls, &one);
        assert!(matches!(calls.find(&one), Some(Call::InFlight)));
        assert_eq!(calls.seen(&one.app), before);
        end.send(Ok(HttpResponse { status: 204, ..HttpResponse::default() })).unwrap();
        let worker = crate::queue::WorkerKind::All;
        assert_eq!(calls.queue.next(worker).await, Some(one.app.clone()));
        let Some(Call::Ended(Ok(response))) = calls.find(&one) else { panic!("it has ended") };
        assert_eq!(response.status, 204);
        assert_ne!(calls.seen(&one.app), before);
        calls.keep(&one.app, |step| step != "s");
        assert!(calls.find(&one).is_none());
        assert_eq!(calls.seen(&one.app), before);
    }

    #[tokio::test]
    async fn a_namespace_has_so_many_and_all_have_so_many() {
        let calls = calls();
        let mut ends = Vec::new();
        for namespace in 0..MAX_IN_FLIGHT.div_ceil(MAX_OF_NAMESPACE) {
            let name = namespace.to_string();
            for path in 0..MAX_OF_NAMESPACE {
                assert!(calls.has_room(&name));
                ends.push(call(&calls, &slot(&name, "a", &path.to_string())));
            }
            assert!(!calls.has_room(&name));
        }
        assert!(!calls.has_room("other"));
        // One that is given up makes room, and is counted once.
        calls.keep(&Key::new("0", "a"), |_| false);
        assert!(calls.has_room("other") && calls.has_room("0") && !calls.has_room("1"));
        drop(ends);
        while !calls.state.lock().in_flight.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(calls.has_room("1"));
    }

    #[tokio::test]
    async fn a_panic_is_the_end_of_its_call_alone() {
        let calls = calls();
        let one = slot("n", "a", "x");
        let panics = async {
            if true {
                std::panic::panic_any("boom".to_owned())
            } else {
                Ok(HttpResponse::default())
            }
        };
        calls.begin(&one, false, panics.boxed());
        calls.queue.next(crate::queue::WorkerKind::All).await;
        let Some(Call::Ended(Err(lost))) = calls.find(&one) else { panic!("it has ended") };
        assert_eq!(lost, Lost::Unknown("boom".to_owned()));
        assert!(calls.has_room("n"));
    }

    #[tokio::test]
    async fn it_closes_when_what_must_not_be_repeated_is_noted() {
        let calls = Arc::new(calls());
        let one = slot("n", "a", "x");
        let end = call(&calls, &one);
        let closing = tokio::spawn({
            let calls = Arc::clone(&calls);
            async move { calls.close().await }
        });
        while !calls.state.lock().closed {
            tokio::task::yield_now().await;
        }
        assert!(!calls.has_room("other") && !closing.is_finished());
        calls.noted(&one.app);
        end.send(Ok(HttpResponse::default())).unwrap();
        calls.queue.next(crate::queue::WorkerKind::All).await;
        // What is noted is what a reconcile was told of.
        calls.noted(&one.app);
        tokio::task::yield_now().await;
        assert!(!closing.is_finished());
        assert!(calls.find(&one).is_some());
        calls.noted(&one.app);
        closing.await.unwrap();
    }
}
