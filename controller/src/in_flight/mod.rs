//! What is in flight, seen from the vital threads: slow reconciles are named, and what was in flight when the workers froze;
//! an Application or a WorkflowRun over which processes died is set aside.

mod caution;
mod notes;
mod queues;
mod record;
mod slow;
mod subject;

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use caution::Caution;
pub(crate) use notes::Notes;
pub(crate) use queues::Queues;
use record::Record;
pub(crate) use record::retry_after;
use slow::Reported;
pub(crate) use subject::{State, Subject};

/// How often running reconciles are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Names what takes long, until `end`.
pub(crate) async fn name_slow(queues: Queues, end: CancellationToken) {
    let mut said = Reported::default();
    // On the vital threads, so that it goes on while all workers are busy.
    while tokio::time::timeout(CHECK_INTERVAL, end.cancelled()).await.is_err() {
        for ((controller, key), time) in said.news(queues.running()) {
            warn!(controller, key = %key, seconds = time.as_secs(), "a reconcile takes long");
        }
    }
}

/// How long a reconcile waits until it is noted: an API server that does not take notes holds nobody up for long.
const WRITTEN: Duration = Duration::from_secs(2);

/// How long a reconcile that is noted beforehand is the only one: most deaths come sooner, and nobody else's edit waits longer for it.
const ALONE: Duration = Duration::from_secs(1);

/// Carries out what was noted beforehand. What takes long holds nobody up who is to be noted, too.
pub(crate) async fn entered<T>(entered: Option<Entered<'_>>, work: impl Future<Output = T>) -> T {
    let Some(mut entered) = entered else { return work.await };
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(ALONE, &mut work).await {
        return done;
    }
    entered.takes_long();
    work.await
}

/// What is known of deaths, asked by every worker.
#[derive(Debug)]
pub(crate) struct InFlight {
    state: Mutex<Noted>,
    /// Those that are noted beforehand go one after the other: a death has one name.
    one: Semaphore,
    /// Something is to be noted now.
    asked: Notify,
    /// How many of the requests to note something were followed.
    followed: watch::Sender<u64>,
}

impl Default for InFlight {
    fn default() -> Self {
        let (state, asked) = (Mutex::default(), Notify::new());
        Self { state, one: Semaphore::new(1), asked, followed: watch::Sender::new(0) }
    }
}

/// Who was noted before the reconcile began. The note is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'u> {
    in_flight: &'u InFlight,
    name: String,
    permit: Option<SemaphorePermit<'u>>,
}

impl Entered<'_> {
    /// It takes long, and is noted for that from now on: the next one may begin.
    pub(crate) fn takes_long(&mut self) {
        self.permit = None;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.in_flight.state.lock().entered.remove(&self.name);
        // Also after a cancelled reconcile: a note that stays would count as a death at the next
        // change of leader.
        self.in_flight.asked.notify_one();
    }
}

#[derive(Debug, Default)]
struct Noted {
    record: Record,
    /// It is not stored as it is.
    is_news: bool,
    caution: Caution,
    /// Who is noted before it begins, with the generation.
    entered: BTreeMap<String, i64>,
    /// How often something was to be noted at once.
    asked: u64,
}

impl InFlight {
    /// What the last leader left.
    fn put(&self, record: Record) {
        let mut state = self.state.lock();
        // What was inherited from other replicas in the meantime stays known.
        let mut record = record;
        record.unexplained = record.unexplained.max(state.record.unexplained);
        for (key, death) in std::mem::take(&mut state.record.deaths) {
            record.deaths.entry(key).or_insert(death);
        }
        // From the record, not from this process: whoever died knew nothing of it.
        let caution = Caution::after(record.unexplained, Instant::now());
        *state = Noted { record, caution, ..Noted::default() };
    }

    /// The record on the Lease of another replica of the fleet: it died, or was started again and is `living` now.
    pub(crate) fn inherit(&self, text: &str, living: Option<&str>) {
        // Everybody who may write the Lease can write this: what cannot be read is no reason to
        // stop.
        let Ok(theirs) = serde_json::from_str::<Record>(text) else {
            warn!("the reconciles in flight of another replica cannot be read");
            return;
        };
        let mut state = self.state.lock();
        // As long as it has noted nothing its Lease has the record of its predecessor.
        let has_started = living.is_some_and(|living| living == theirs.leader);
        if state.record.inherit(theirs, has_started, Timestamp::now()) {
            state.caution = Caution::after(state.record.unexplained, Instant::now());
        }
        state.is_news = true;
    }

    /// How long it is set aside, and after how many deaths.
    pub(crate) fn set_aside(&self, of: Subject<'_>, generation: i64) -> Option<(Duration, u32)> {
        let state = self.state.lock();
        // Asked before every reconcile, and nearly always so.
        if state.record.deaths.is_empty() {
            return None;
        }
        let name = of.name();
        let left = state.record.set_aside(&name, generation, Timestamp::now())?;
        Some((left, state.record.deaths_of(&name)))
    }

    /// A reconcile is about to begin. After a death over something unknown it is noted first.
    pub(crate) async fn enter(
        &self,
        subject: Subject<'_>,
        at: Option<State>,
    ) -> Option<Entered<'_>> {
        let at = at.filter(|at| self.state.lock().caution.is_due(subject, *at, Instant::now()))?;
        // Before it is noted: two notes at a death would leave both under suspicion.
        let permit = self.one.acquire().await.ok();
        let name = subject.name();
        let asked = {
            let mut state = self.state.lock();
            state.entered.insert(name.clone(), at.generation);
            state.asked = state.asked.saturating_add(1);
            state.asked
        };
        let entered = Entered { in_flight: self, name, permit };
        self.asked.notify_one();
        // A count and not a notice, since one write follows many requests.
        let mut followed = self.followed.subscribe();
        let noted = followed.wait_for(|count| *count >= asked);
        if tokio::time::timeout(WRITTEN, noted).await.is_err() {
            warn!(subject = entered.name, "a reconcile cannot be noted before its start");
        }
        Some(entered)
    }

    /// Somebody made a generation now: it is not what a process died over before.
    pub(crate) fn edited(&self, subject: Subject<'_>, generation: i64) {
        self.state.lock().caution.edited(subject, generation);
    }

    /// A reconcile came to its end, whatever that was.
    pub(crate) fn survived(&self, subject: Subject<'_>, generation: i64) {
        let mut state = self.state.lock();
        state.caution.survived(subject, generation);
        if !state.record.deaths.is_empty() && state.record.survived(&subject.name()) {
            state.is_news = true;
        }
    }

    fn count_set_aside(&self, now: Timestamp) -> usize {
        self.state.lock().record.count_set_aside(now)
    }

    /// Takes note of what is in flight, and of what is about to be; the record if it is to be written, and how many requests
    /// are followed with that.
    fn note(&self, mut in_flight: BTreeMap<String, i64>) -> (Option<Record>, u64) {
        let mut state = self.state.lock();
        // What was noted beforehand stays noted even while it is quick.
        in_flight.extend(state.entered.clone());
        if state.caution.ends(Instant::now()) {
            // A quiet time without a death ends the suspicion; else one old death would make the
            // next two count as three.
            (state.record.unexplained, state.is_news) = (0, true);
        }
        let Noted { record, caution, .. } = &mut *state;
        let is_news =
            record.note(in_flight, |name, generation| caution.is_edited(name, generation));
        let record = (std::mem::take(&mut state.is_news) || is_news).then(|| state.record.clone());
        (record, state.asked)
    }

    /// Takes note of an end in order; the record if it is to be written.
    fn end(&self) -> Option<Record> {
        let mut state = self.state.lock();
        let is_news = state.record.end();
        (std::mem::take(&mut state.is_news) || is_news).then(|| state.record.clone())
    }

    /// It could not be written.
    fn mark_unwritten(&self) {
        self.state.lock().is_news = true;
    }

    /// As if processes had died over it.
    #[cfg(test)]
    pub(crate) fn died_over(&self, subject: Subject<'_>, generation: i64, times: u32) {
        let mut state = self.state.lock();
        if state.record.leader.is_empty() {
            state.record.begin("first", Timestamp::now());
        }
        for time in 0..times {
            state.record.note(BTreeMap::from([(subject.name(), generation)]), |_, _| false);
            let next = format!("{}-{time}", state.record.leader);
            state.record.begin(&next, Timestamp::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::queue::Key;
    use futures::poll;

    use super::*;

    /// To be reconciled for the first time.
    const NEW: Option<State> = Some(State { generation: 2, is_settled: false });

    fn noted(in_flight: &InFlight) -> Vec<String> {
        let (record, asked) = in_flight.note(BTreeMap::new());
        in_flight.followed.send_replace(asked);
        record.map(|record| record.in_flight.into_keys().collect()).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_takes_long_delays_the_next_one_for_a_second() {
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        let (a, b) = (Subject::application(&a), Subject::application(&b));
        let in_flight = InFlight::default();
        in_flight.put(Record { unexplained: 1, ..Record::default() });
        let first = in_flight.enter(a, NEW).await;
        let since = tokio::time::Instant::now();
        let next = async {
            assert!(in_flight.enter(b, NEW).await.is_some());
            since.elapsed()
        };
        let long = tokio::time::sleep(Duration::from_secs(60));
        let (waited, ()) = tokio::join!(next, entered(first, long));
        assert!(waited >= ALONE && waited <= ALONE + WRITTEN, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cautious_process_notes_first_and_one_at_a_time() {
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        let (a, b) = (Subject::application(&a), Subject::application(&b));
        let in_flight = InFlight::default();
        assert!(in_flight.enter(a, NEW).await.is_none(), "nobody died");
        in_flight.put(Record { unexplained: 1, ..Record::default() });
        let (mut first, mut second) =
            (pin!(in_flight.enter(a, NEW)), pin!(in_flight.enter(b, NEW)));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        assert_eq!(noted(&in_flight), ["n/a"]);
        let mut entered = first.await.unwrap();
        assert!(poll!(&mut second).is_pending());
        // It takes long: the next one may begin, and both are in flight.
        entered.takes_long();
        assert!(poll!(&mut second).is_pending());
        assert_eq!(noted(&in_flight), ["n/a", "n/b"]);
        let other = second.await.unwrap();
        drop((entered, other));
        in_flight.survived(a, 2);
        assert!(noted(&in_flight).is_empty());
        assert!(in_flight.enter(a, NEW).await.is_none(), "it survived");
        // What was edited since is in flight, too, but did not cause that death.
        in_flight.edited(a, 3);
        let edited = in_flight.enter(a, Some(State { generation: 3, is_settled: false }));
        let (record, _) = {
            let mut edited = pin!(edited);
            assert!(poll!(&mut edited).is_pending());
            in_flight.note(BTreeMap::new())
        };
        let record = record.unwrap();
        assert_eq!((record.in_flight.len(), record.edited.len()), (1, 1));
        // A Lease that takes no notes holds nobody up.
        assert!(in_flight.enter(b, NEW).await.is_some());
    }
}
