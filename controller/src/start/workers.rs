//! The workers of all controllers, and what else goes on while this process leads or is a member.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use vela_api::names::phase;
use vela_api::{
    ComponentDefinition, PolicyDefinition, ResourceTracker, TraitDefinition, WorkflowStepDefinition,
};
use vela_apply::tracker::Record;
use vela_cluster::ApiError;
use vela_cluster::packed::PackError;
use vela_serve::health::Health;

use crate::application::context::AppContext;
use crate::application::refresh;
use crate::clusters::rejoin::{Find, Leads};
use crate::config::Config;
use crate::context::Context;
use crate::definition::{self, Kind};
use crate::evaluation::{self, Account};
use crate::fleet::Fleet;
use crate::metrics::AttemptMeter;
use crate::queue::{Key, Next, Ours, Queue, WorkerKind};
use crate::{editor, guard, liveness, registry};

use super::applications;
use super::caches;
use super::duty::Duty;
use super::pod::own_namespace;
use super::runs;

/// When controllers start: one after the other, at distances of one to two intervals.
struct Starts {
    interval: Duration,
    next: Duration,
}

impl Starts {
    const fn new(interval: Duration) -> Self {
        Self { interval, next: Duration::ZERO }
    }

    /// The turn of the next controller.
    fn next(&mut self, ending: &CancellationToken) -> Turn {
        let turn = Turn { after: self.next, ending: ending.clone() };
        // Spread by chance, so that replicas started together do not list everything at the same
        // moments.
        self.next += self.interval.mul_f64(1.0 + fastrand::f64());
        turn
    }
}

/// When one controller starts.
#[derive(Clone)]
struct Turn {
    after: Duration,
    ending: CancellationToken,
}

impl Turn {
    /// Works from then on.
    async fn then(self, work: impl Future<Output = ()>) {
        let Self { after, ending } = self;
        // A process that ends before its turn never begins.
        if after.is_zero() || timeout(after, ending.cancelled()).await.is_err() {
            work.await;
        }
    }
}

/// Starts the workers of the selected controllers, and their metrics.
pub(super) fn start(
    config: &Config,
    context: &Arc<AppContext>,
    ending: &CancellationToken,
    health: &Health,
    fleet: Option<&Arc<Fleet>>,
) -> anyhow::Result<JoinSet<()>> {
    let mut workers = JoinSet::new();
    let duty = Duty { context: Arc::clone(context), fleet: fleet.cloned(), ending: ending.clone() };
    let mut starts = Starts::new(config.start_interval);
    let mut measured = Vec::new();
    if !config.certificates.is_empty() {
        let client = context.connections.of(registry::CERTIFICATES).client();
        let mut all = Vec::new();
        for certificates in &config.certificates {
            let namespace = own_namespace(&certificates.namespace)?;
            all.push(vela_certs::Config { namespace, ..certificates.clone() });
        }
        let (duty, client) = (duty.clone(), client.clone());
        let work = async move {
            duty.run(|ending| {
                let run = |certificates: &vela_certs::Config| {
                    vela_certs::run(client.clone(), certificates.clone(), ending.clone())
                };
                let all: Vec<_> = all.iter().map(run).collect();
                async { drop(futures::future::join_all(all).await) }
            })
            .await;
        };
        let handle = workers.spawn(starts.next(ending).then(work));
        liveness::task(health, registry::CERTIFICATES, handle);
    }
    let mut measure = |name: &'static str, queue: &Arc<Queue>, workers: usize| {
        queue.measure(context.metrics.queues.of(name));
        liveness::workers(health, name, queue, context.settings.reconcile_timeout);
        measured.push((name, Arc::clone(queue)));
        context.metrics.attempts.of(name, workers)
    };
    if config.controllers.has(registry::APPLICATION) {
        let meter = measure(registry::APPLICATION, &context.queue, applications::workers(config));
        let turn = starts.next(ending);
        for worker_kind in applications::worker_kinds(config) {
            let (context, fleet) = (Arc::clone(context), fleet.cloned());
            let work = applications::work(context, fleet, worker_kind, meter.clone());
            workers.spawn(turn.clone().then(work));
        }
    }
    if let Some(runs) = &context.workflow_runs {
        let of_runs = applications::workers(config);
        let meter = measure(registry::WORKFLOW_RUN, &context.runs.queue, of_runs);
        let turn = starts.next(ending);
        for worker_kind in applications::worker_kinds(config) {
            let work = runs::work(Arc::clone(runs), worker_kind, meter.clone(), duty.clone());
            workers.spawn(turn.clone().then(work));
        }
    }
    let queues = &context.definition_queues;
    macro_rules! definitions {
        ($kind:ty, $queue:ident) => {
            // One worker each: definitions are few, and two of one name must not make revisions at
            // the same time.
            let name = <$kind>::CONTROLLER;
            if config.controllers.has(name) {
                let meter = measure(name, &queues.$queue, 1);
                let (context, queue) = (Arc::clone(&context.shared), Arc::clone(&queues.$queue));
                let work = definitions::<$kind>(context, queue, meter, duty.clone());
                workers.spawn(starts.next(ending).then(work));
            }
        };
    }
    definitions!(ComponentDefinition, components);
    definitions!(TraitDefinition, traits);
    definitions!(PolicyDefinition, policies);
    definitions!(WorkflowStepDefinition, steps);
    context.metrics.register_loads(measured)?;
    if config.controllers.has(registry::MONITOR) {
        let each = context.settings.gates.enable_application_status_metrics;
        let (apps, definitions) = (Arc::clone(&context.apps), Arc::clone(&context.definitions));
        let ours = fleet.cloned().map(|fleet| -> Ours { Arc::new(move |key| fleet.is_ours(key)) });
        context.metrics.register_phases(apps, Arc::clone(&definitions), (ours, each))?;
        if context.workflow_runs.is_some() {
            let (runs, fleet) = (Arc::clone(&context.runs.store), fleet.cloned());
            let leads = move || fleet.as_ref().is_none_or(|fleet| fleet.is_leading());
            context.metrics.register_run_phases(runs, definitions, Arc::new(leads))?;
        }
    }
    if let Some(interval) = config.clusters.as_ref().and_then(|flags| flags.metrics) {
        let (context, duty) = (Arc::clone(context), duty.clone());
        let nodes = context.metrics.register_nodes()?;
        workers.spawn(async move {
            duty.run(|ending| {
                let (context, nodes) = (&context, &nodes);
                async move {
                    let own = context.io.client();
                    context.clusters.measure(own, nodes, (interval, &ending)).await;
                }
            })
            .await;
        });
    }
    if config.controllers.has(registry::COMPONENT) {
        let (context, duty) = (Arc::clone(&context.shared), duty.clone());
        workers.spawn(async move {
            duty.run(|ending| editor::keep(Arc::clone(&context), ending)).await;
        });
    }
    if context.clusters.is_on() {
        let (working, until, fleet) = (Arc::clone(context), ending.clone(), fleet.cloned());
        workers.spawn(async move {
            if !caches::filled(&working, &until).await {
                return;
            }
            let urgency = |app: &Key| urgency(&working, app);
            let standing = |app: &Key| working.queue.standing(app);
            let exists = |app: &Key| working.apps.get(app).is_some();
            let records = |app: Key| recorded(Arc::clone(&working), app).boxed();
            let find = Find { exists: &exists, records: &records };
            let leads = || fleet.as_ref().is_none_or(|fleet| fleet.is_leading());
            let (clusters, settles) = (&working.clusters, (find, &leads as Leads<'_>));
            tokio::join!(
                clusters.accept(&working, &until),
                clusters.wake_returned((&urgency, &standing), &until),
                Box::pin(clusters.settle(&working.io, &working.events, settles, &until)),
            );
        });
        let (context, duty) = (Arc::clone(context), duty.clone());
        workers.spawn(async move {
            duty.run(|ending| {
                let context = &context;
                async move {
                    let clusters = &context.clusters;
                    clusters.settle_as_leader();
                    tokio::join!(
                        clusters.remember(&context.io, &ending),
                        clusters.report(&context.events, &ending),
                    );
                }
            })
            .await;
        });
    }
    Ok(workers)
}

/// How urgent an Application is that waited for a cluster: deletions first, then workflows that run.
fn urgency(context: &AppContext, app: &Key) -> u8 {
    let Some(app) = context.apps.get(app) else { return 0 };
    match &*app.outline.phase {
        _ if app.outline.is_deleting => 0,
        phase::RUNNING_WORKFLOW => 1,
        _ => 2,
    }
}

/// What is recorded of an Application to which something that was left behind may belong.
async fn recorded(context: Arc<AppContext>, app: Key) -> Result<Vec<Record>, ApiError> {
    let open = |tracker: Result<ResourceTracker, PackError>| {
        // A tracker that cannot be read counts as empty; the object is then judged by its own
        // labels.
        let mut tracker = tracker.ok()?;
        tracker.expand().ok()?;
        Some(tracker.spec.managed_resources)
    };
    let all = refresh::trackers(&context, &app).await?;
    Ok(all.into_iter().filter_map(open).flatten().collect())
}

async fn definitions<T: Kind>(
    context: Arc<Context>,
    queue: Arc<Queue>,
    meter: AttemptMeter,
    duty: Duty,
) {
    while let Some(key) = duty.next(&queue, WorkerKind::All).await {
        let attempt = meter.begin();
        let limit = context.settings.reconcile_timeout;
        let account = Account::of(&key.namespace);
        let work = definition::reconcile::<T>(&context, &key);
        let work = evaluation::within(account, 0, work).boxed();
        // Whoever has the duty next begins with all definitions.
        let work = async { duty.within(work).await.unwrap_or(Ok(Next::Done)) };
        let (next, ended) = guard::run(T::CONTROLLER, &key, limit, work.boxed()).await;
        attempt.end(next, &ended);
        queue.done(key, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn controllers_start_one_after_the_other_unless_it_ends() {
        let ending = CancellationToken::new();
        let mut starts = Starts::new(Duration::from_secs(10));
        let start_time = tokio::time::Instant::now();
        let mut begins = JoinSet::new();
        for _ in 0..4 {
            let turn = starts.next(&ending);
            begins.spawn(async move {
                let mut at = Duration::MAX;
                turn.then(async { at = start_time.elapsed() }).await;
                at
            });
        }
        let mut times = begins.join_all().await;
        times.sort();
        assert!(times[0].is_zero(), "{times:?}");
        for pair in times.windows(2) {
            let distance = (pair[1] - pair[0]).as_secs();
            assert!((9..=20).contains(&distance), "{times:?}");
        }
        ending.cancel();
        starts.next(&ending).then(async { panic!("it is over") }).await;
    }
}
