//! The workers of the WorkflowRun controller: those of one replica, which does it for all.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use vela_api::WorkflowRun;

use crate::application::context::AppContext;
use crate::in_flight::{self, State, Subject};
use crate::metrics::{AttemptMeter, labels};
use crate::queue::{Key, Next, WorkerKind};
use crate::{guard, registry, workflow_run};

use super::duty::Duty;

/// Works on WorkflowRuns until the queue is closed.
pub(super) async fn work(
    context: Arc<AppContext>,
    worker_kind: WorkerKind,
    meter: AttemptMeter,
    duty: Duty,
) {
    let queue = Arc::clone(&context.runs.queue);
    while let Some(key) = duty.next(&queue, worker_kind).await {
        let set_aside = duty.within(workflow_run::set_aside(&context, &key).boxed());
        let next = match set_aside.await.flatten() {
            Some(left) => Next::After(left),
            None => attempt(&context, &key, &meter, &duty).await,
        };
        queue.done(key, next);
    }
}

/// One attempt at a WorkflowRun.
async fn attempt(context: &AppContext, key: &Key, meter: &AttemptMeter, duty: &Duty) -> Next {
    let started = Instant::now();
    let known = || context.runs.store.get(key);
    let before = known();
    let attempt = meter.begin();
    let (subject, at) = (Subject::run(key), before.as_deref().map(State::from));
    let entered = context.in_flight.enter(subject, at).await;
    let work = workflow_run::reconcile(context, key).boxed();
    // Whoever has the duty next begins with all of them.
    let work = async { duty.within(work).await.unwrap_or(Ok(Next::Done)) };
    let limit = context.settings.reconcile_timeout;
    let work = guard::run(registry::WORKFLOW_RUN, key, limit, work.boxed());
    let (next, ended) = in_flight::entered(entered, work).await;
    attempt.end(next, &ended);
    let generation = before.as_ref().and_then(|run| run.metadata.generation);
    context.in_flight.survived(subject, generation.unwrap_or_default());
    let time = started.elapsed().as_secs_f64();
    let phases = [phase(before.as_deref()), phase(known().as_deref())];
    context.metrics.run_reconcile_time.with_label_values(&phases).observe(time);
    next
}

/// The phase as metrics name it.
fn phase(run: Option<&WorkflowRun>) -> &'static str {
    labels::run_phase(run.map_or("", |run| run.status.phase.as_str()))
}
