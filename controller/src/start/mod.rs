//! Start and end of the process: probes first, then the connection, the caches, the lease, the workers.
//!
//! [`run`] makes everything that lives as long as the process. Then it works as `leader` or as `member` of a fleet; `workers` has
//! what works, and `ending` the one way in which it ends.

mod applications;
mod caches;
mod duty;
mod ending;
mod leader;
mod lease_handles;
mod member;
mod pod;
mod runs;
mod settings;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;
use vela_api::names;
use vela_cluster::budget::Budget;
use vela_cluster::client::{ClientOptions, connect, wait_for_api_server, wait_for_kinds};
use vela_cluster::members::{Connecting, SharedRules, own_authority};
use vela_cluster::objects::Notify;
use vela_cluster::{Discovery, LiveObjects, ObjectClient, Store};
use vela_render::{Limits, Options, Renderer};
use vela_seal::KeyHolder;
use vela_serve::health::Health;
use vela_serve::metrics::Registry;
use vela_serve::pool::Pool;
use vela_serve::vital::Vital;
use vela_serve::{memory, process, tls};

use crate::application::context::AppContext;
use crate::clusters::access::Access;
use crate::clusters::{Clusters, Wake};
use crate::config::Config;
use crate::connections::{Accounts, Connections};
use crate::context::{Clock, Context, Parts};
use crate::definitions::Definitions;
use crate::evaluation::Evaluator;
use crate::events::{self, Recorder};
use crate::in_flight::{self, Queues};
use crate::metrics::Metrics;
use crate::plan::paused;
use crate::queue::{Key, Queue, Shares};
use crate::registry;
use crate::stamp_key::{self, StampKey};
use crate::traces::{Collector, Traces};
use crate::watches;

use lease_handles::LeaseHandles;
use pod::own_namespace;

pub(crate) use settings::settings;

/// Rendering jobs handed to the pool beyond those that run; more wait outside at no cost.
const QUEUE: usize = 64;

/// Our kinds that must be served before work begins.
const KINDS: [(&str, &str); 11] = [
    (vela_api::V1BETA1, "Application"),
    (vela_api::V1BETA1, "ApplicationRevision"),
    (vela_api::V1BETA1, "ResourceTracker"),
    (vela_api::V1BETA1, "ComponentDefinition"),
    (vela_api::V1BETA1, "TraitDefinition"),
    (vela_api::V1BETA1, "PolicyDefinition"),
    (vela_api::V1BETA1, "WorkflowStepDefinition"),
    (vela_api::V1BETA1, "WorkloadDefinition"),
    (vela_api::V1BETA1, "DefinitionRevision"),
    (vela_api::V1ALPHA1, "Policy"),
    (vela_api::V1ALPHA1, "Workflow"),
];

/// Works until the token is cancelled, then ends what is in flight. The error is one line for the operator.
///
/// # Errors
/// Flags that cannot be followed, or the lease was lost.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    tls::install_crypto();
    let registry = Registry::new("vela-controller", env!("CARGO_PKG_VERSION"))?;
    let metrics = Metrics::new(&registry)?;
    let health = Health::new();
    registry.readiness("vela-controller", health.clone())?;
    let (connected, synced) = (health.readiness("api-server"), health.readiness("caches"));
    let accounts = config.own_accounts.then(|| health.readiness("accounts"));
    let tasks = TaskTracker::new();
    let end = CancellationToken::new();
    let _end_on_return = end.clone().drop_guard();
    let vital = Vital::start().context("cannot start threads")?;
    process::observe(&config.process, &health, &registry, (&tasks, &vital), &end).await?;
    let options = settings::client_options(&config, &metrics);
    let client = connect(&options).await?;
    let Some(version) = wait_for_api_server(&client, &stop).await else { return Ok(()) };
    let discovery = Discovery::new(client.clone());
    let run_kind = [(vela_api::V1ALPHA1, vela_api::WorkflowRun::KIND)];
    let runs = run_kind.iter().filter(|_| config.controllers.has(registry::WORKFLOW_RUN));
    let kinds: Vec<_> = KINDS.iter().chain(runs).copied().collect();
    if !wait_for_kinds(&discovery, &kinds, &stop).await {
        return Ok(());
    }
    connected.pass();

    let shares = Shares {
        workers: applications::workers(&config),
        weights: config.namespace_weights.clone(),
    };
    let queue = Arc::new(Queue::new(shares));
    let apps = Arc::new(Store::default());
    let process = Arc::new(ObjectClient::new(client.clone()));
    let (recorder, recorded) = Recorder::new(names::event::APPLICATION);
    tasks.spawn(events::write(Arc::clone(&process), recorded));
    let Some(connections) = connections(&config, &process, &metrics, &options, &stop).await? else {
        return Ok(());
    };
    if let Some(accounts) = accounts {
        accounts.pass();
    }
    let io = Arc::clone(connections.of(registry::APPLICATION));
    let keys = KeyHolder::default();
    if !config.stamp_key_secret.is_empty() {
        let namespace = own_namespace(&config.namespace)?;
        let name = config.stamp_key_secret.clone();
        let key = StampKey::new(io.client().clone(), &namespace, name, keys.clone());
        let ready = health.readiness("stamp-key");
        tasks.spawn(key.follow(ready.clone(), end.clone()));
        // Whoever works without it would take every stamp for forged.
        if config.acting.authenticate && !stamp_key::met(&ready, &stop).await {
            return Ok(());
        }
    }
    let notify = {
        let (queue, apps) = (Arc::clone(&queue), Arc::clone(&apps));
        Arc::new(move |owner: &vela_apply::Owner| {
            let app = Key::new(&*owner.namespace, &*owner.name);
            let class = watches::urgency_of_parts(&apps, &app);
            queue.add(app, class);
        })
    };
    let authority = match &config.clusters {
        Some(_) => own_authority(&vela_cluster::client::configuration(&options).await?),
        None => String::new(),
    };
    let live = LiveObjects::new(
        Arc::clone(&io),
        Arc::clone(&notify) as Notify,
        tasks.clone(),
        end.clone(),
    );
    let wake: Wake = {
        let (queue, apps) = (Arc::clone(&queue), Arc::clone(&apps));
        Arc::new(move |app: &Key| queue.add(app.clone(), watches::urgency_of_parts(&apps, app)))
    };
    let clusters = clusters(
        &config,
        (notify, tasks.clone(), end.clone()),
        (&options, io.client(), &authority),
        (wake, live.share()),
    );
    // Two more than were asked for: a namespace never has the last one, nor one Application of it all that its namespace has.
    let evaluations = memory::evaluations(config.render_threads.saturating_add(2));
    let pool = Pool::new("cue", evaluations.threads, QUEUE).context("cannot start threads")?;
    let renderer = Renderer::new(Options {
        limits: Limits { bytes: evaluations.bytes, ..Limits::default() },
        rewrite_legacy_syntax: config.legacy_cue,
        ..Options::default()
    });
    let context = Arc::new(Context::new(Parts {
        io,
        connections,
        live,
        apps,
        definitions: Definitions {
            system_namespace: config.system_namespace.clone(),
            ..Definitions::default()
        },
        cue: Evaluator::new(Arc::new(pool), Arc::new(renderer)),
        keys,
        events: recorder,
        metrics,
        clock: Clock::default(),
        settings: settings(&config, &version),
        queue: Arc::clone(&queue),
        clusters: Arc::new(clusters),
    }));
    let planner = paused::planner(&context, &config.charts);
    let runs = config.controllers.has(registry::WORKFLOW_RUN);
    let runs =
        runs.then(|| Arc::new(AppContext::of_runs(Arc::clone(&context), config.charts.clone())));
    let mut context = AppContext::new(context, config.charts.clone());
    context.workflow_runs = runs;
    context.planner = Some(planner);
    context.traces = traces(&tasks, &end)?;
    let context = Arc::new(context);
    let queues = Queues::of(&context);
    tasks.spawn_on(in_flight::name_slow(queues.clone(), end.clone()), vital.handle());
    let lease_handles = LeaseHandles::new(&vital);
    let leave = lease_handles.clone();
    let frozen = move || leave.give_up_frozen(&queues);
    vital.watch(end.clone(), frozen).context("cannot start threads")?;
    if let Some(members) = context.clusters.members() {
        let pending = context.clusters.concerned();
        context.metrics.register_clusters(Arc::clone(members), pending)?;
        let (context, client, end) = (Arc::clone(&context), client.clone(), end.clone());
        tasks.spawn(async move { context.clusters.follow(client, &end).await });
    }
    let prepared = match &config.fleet {
        None => None,
        Some(fleet) => Some(member::prepare(&config, fleet.clone(), &context).await?),
    };
    if !caches::fill(&context, &client, (&tasks, &end), synced, &stop).await {
        return Ok(());
    }
    match prepared {
        None => leader::lead(&config, &options, context, lease_handles, &stop, &health).await?,
        Some(prepared) => {
            // Who joins is given Applications of others, who serve their edits until then.
            if !caches::filled(&context, &stop).await {
                return Ok(());
            }
            prepared.share(&config, &options, context, lease_handles, &stop, &health).await?;
        }
    }
    end.cancel();
    tasks.close();
    // Event writing ends with its last recorder; whatever else hangs is not waited for.
    let _ = timeout(Duration::from_secs(2), tasks.wait()).await;
    Ok(())
}

/// Traces of rollouts, for the collector that the environment names.
fn traces(tasks: &TaskTracker, end: &CancellationToken) -> anyhow::Result<Traces> {
    let Some(collector) = Collector::from_environment(|name| std::env::var(name).ok())? else {
        return Ok(Traces::default());
    };
    let (traces, spans) = Traces::new();
    tasks.spawn(collector.follow(spans, end.clone()));
    info!("traces of rollouts are sent to a collector");
    Ok(traces)
}

/// A connection for each controller; `None` if stopped while their accounts are waited for.
async fn connections(
    config: &Config,
    io: &Arc<ObjectClient>,
    metrics: &Metrics,
    options: &ClientOptions,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Connections>> {
    let controllers = config.requesting();
    if !config.own_accounts {
        return Ok(Some(Connections::over(io, &controllers, metrics)));
    }
    let namespace = own_namespace(&config.namespace)?;
    let accounts = Accounts { namespace: &namespace, options };
    let connections = Connections::under(accounts, io, &controllers, metrics, stop).await?;
    if connections.is_some() {
        info!(namespace, "each controller has its own ServiceAccount");
    }
    Ok(connections)
}

/// The clusters that joined, if they are to be deployed to.
pub(crate) fn clusters(
    config: &Config,
    (notify, tasks, stop): (Notify, TaskTracker, CancellationToken),
    (options, client, authority): (&ClientOptions, &kube::Client, &str),
    (wake, share): (Wake, &Arc<vela_cluster::Share>),
) -> Clusters {
    let Some(flags) = &config.clusters else { return Clusters::own() };
    let options = ClientOptions {
        qps: flags.qps,
        burst: flags.burst,
        exec_credentials: flags.exec_dir.clone(),
        ..options.clone()
    };
    let connecting = Connecting {
        options,
        rules: flags.rules,
        notify: Arc::new(move |_, owner| notify(owner)),
        budget: Arc::new(Budget::new(flags.cache, flags.cache_overall)),
        share: Arc::clone(share),
        authority: authority.to_owned(),
        tasks,
        stop,
    };
    let as_credential = if flags.admins_as_credential { &*config.acting.admin_group } else { "" };
    let access =
        Access::new(client.clone(), as_credential, SharedRules::of(flags.exchange.clone()));
    Clusters::of(&flags.namespace, connecting, access, wake)
}
