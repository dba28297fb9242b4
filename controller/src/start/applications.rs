//! The workers of the Application controller.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use vela_cluster::ApiError;
use vela_cluster::parking::Worker;
use vela_cluster::tokens;

use crate::application::{self, context::AppContext};
use crate::cached::Cached;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::in_flight::{self, State, Subject};
use crate::metrics::{AttemptMeter, labels};
use crate::queue::{Key, Next, WorkerKind};
use crate::{guard, registry, watches};

/// The workers of the Application controller: one more than was asked for, for edits alone. They are short work that somebody
/// waits for.
pub(super) const fn workers(config: &Config) -> usize {
    config.workers.saturating_add(1)
}

/// What each of them takes up.
pub(super) fn worker_kinds(config: &Config) -> impl Iterator<Item = WorkerKind> {
    std::iter::repeat_n(WorkerKind::All, config.workers).chain([WorkerKind::Edits])
}

/// Attempts that go on without a worker, of one worker: they wait for clusters that are slow or silent.
const PARKED: usize = 64;

/// Works on Applications until the queue is closed.
pub(super) async fn work(
    context: Arc<AppContext>,
    fleet: Option<Arc<Fleet>>,
    worker_kind: WorkerKind,
    meter: AttemptMeter,
) {
    let mut parked = JoinSet::new();
    while let Some(key) = next(&context, worker_kind).await {
        // What ended is taken out here, or the set would grow with every parked attempt.
        while parked.try_join_next().is_some() {}
        let set_aside = application::lifecycle::failure::set_aside(&context, &key);
        if let Some(left) = held(fleet.as_deref(), &key, set_aside.boxed()).await.flatten() {
            context.queue.done(key, Next::After(left));
            continue;
        }
        let (worker, work) =
            Worker::lend(attempt(Arc::clone(&context), fleet.clone(), key.clone(), meter.clone()));
        let mut work = work.boxed();
        tokio::select! {
            () = &mut work => continue,
            // Beyond the limit the worker waits with its attempt: memory stays bounded however many
            // clusters are silent.
            () = worker.given_back(), if parked.len() < PARKED => {}
        }
        // Still in flight, so that no second attempt at the same key begins; it only counts for no
        // worker any more.
        context.queue.park(&key);
        parked.spawn(work);
    }
    while parked.join_next().await.is_some() {}
}

/// The next key; until the caches are filled only what somebody waits for. `None`: the queue is closed.
async fn next(context: &AppContext, worker_kind: WorkerKind) -> Option<Key> {
    if !watches::has_records(context) {
        tokio::select! {
            biased;
            key = context.queue.next(WorkerKind::Urgent) => return key,
            () = watches::synced(context) => {}
        }
    }
    context.queue.next(worker_kind).await
}

/// Does something for an Application if this process holds it; without a fleet it does.
async fn held<T>(fleet: Option<&Fleet>, key: &Key, work: impl Future<Output = T>) -> Option<T> {
    match fleet {
        None => Some(work.await),
        Some(fleet) => fleet.work(key, true, work).await,
    }
}

/// One attempt at an Application, from its begin to what becomes of its key.
async fn attempt(
    context: Arc<AppContext>,
    fleet: Option<Arc<Fleet>>,
    key: Key,
    meter: AttemptMeter,
) {
    let started = Instant::now();
    let known = || context.apps.get(&key);
    // As it was at the beginning: the reconcile may change its phase, and the metric has both.
    let before = known();
    let attempt = meter.begin();
    let limit = context.settings.reconcile_timeout;
    let subject = Subject::application(&key);
    let entered = context.in_flight.enter(subject, before.as_deref().map(State::from)).await;
    let work = match &fleet {
        None => reconcile(&context, &key).boxed(),
        Some(fleet) => {
            fleet.reconcile(&context, &key, || application::reconcile(&context, &key)).boxed()
        }
    };
    // The wait for a token is as fair as that for a worker.
    let share = context.queue.share(&key);
    let work = tokens::within(share, guard::run(registry::APPLICATION, &key, limit, work));
    let (next, ended) = in_flight::entered(entered, work).await;
    attempt.end(next, &ended);
    let generation = before.as_ref().and_then(|app| app.generation);
    context.in_flight.survived(subject, generation.unwrap_or_default());
    // Within the permit of the bucket again, since it writes the status.
    let report = application::lifecycle::failure::report_panic(&context, &key, &ended);
    held(fleet.as_deref(), &key, report.boxed()).await;
    let (begin, end) = (phase(before.as_deref()), known());
    let labels = [begin, phase(end.as_deref())];
    let time = started.elapsed().as_secs_f64();
    context.metrics.reconcile_time.with_label_values(&labels).observe(time);
    // Last: from here on the same Application may be taken again.
    context.queue.done(key, next);
}

/// Reconciles an Application. Before the caches are filled, what is recorded of it is read.
async fn reconcile(context: &AppContext, key: &Key) -> Result<Next, ApiError> {
    if !watches::has_records(context) {
        application::refresh::read(context, key).await?;
    }
    application::reconcile(context, key).await
}

/// An Application's phase as metrics name it.
fn phase(app: Option<&Cached>) -> &'static str {
    labels::phase(app.map_or("", |app| &app.outline.phase))
}
