//! Start and end of the process: probes first, then the connection, the caches, the lease, the workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::FutureExt;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;
use vela_api::{
    Application, ComponentDefinition, PolicyDefinition, TraitDefinition, WorkflowStepDefinition,
    names,
};
use vela_cluster::client::{ClientOptions, Timeouts, connect, wait_for_api_server, wait_for_kinds};
use vela_cluster::lease::{self, Elector, LeaseOptions, Outcome};
use vela_cluster::members::{Connecting, SharedRules};
use vela_cluster::objects::Notify;
use vela_cluster::observe::RequestObserver;
use vela_cluster::parking::Worker;
use vela_cluster::{Discovery, LiveObjects, ObjectClient, Store};
use vela_render::{ClusterVersion, Limits, Options, Renderer};
use vela_seal::KeyHolder;
use vela_serve::health::Health;
use vela_serve::metrics::Registry;
use vela_serve::pool::Pool;
use vela_serve::vital::Vital;
use vela_serve::{memory, process, tls};

use crate::application::{self, context::AppContext};
use crate::clusters::access::Access;
use crate::clusters::{Clusters, Wake};
use crate::config::{Config, Election};
use crate::connections::{Accounts, Connections};
use crate::context::{Clock, Context, Parts, Settings};
use crate::definition::{self, Kind};
use crate::definitions::Definitions;
use crate::editor;
use crate::evaluation::{self, Account, Evaluator};
use crate::events::{self, Recorder};
use crate::fleet::{self, Fleet, Pace, Permit};
use crate::guard;
use crate::in_flight::{self, Notes, Queues};
use crate::liveness;
use crate::metrics::{AttemptMeter, Metrics, labels};
use crate::queue::{Key, Next, Ours, Queue, Shares, WorkerKind};
use crate::registry;
use crate::stamp_key::{self, StampKey};
use crate::watches;

/// Rendering jobs handed to the pool beyond those that run; more wait outside at no cost.
const QUEUE: usize = 64;
/// A rollout is many changes in a row: one that waits for it is checked this often at the most.
const PAUSE: Duration = Duration::from_millis(250);
/// How long the end of the process waits for what is aborted, and for the last events: a follower waits for the lease.
const FINAL_FLUSH: Duration = Duration::from_secs(1);
/// How long the end of the process waits for reconciles in flight.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a replica that leaves its fleet waits for calls of steps: its Applications wait for it.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// How long it tries to hand everything over: less than the grace period of its Pod.
const LEAVING: Duration = Duration::from_secs(20);

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
    let options = client_options(&config, &metrics);
    let client = connect(&options).await?;
    let Some(version) = wait_for_api_server(&client, &stop).await else { return Ok(()) };
    let discovery = Discovery::new(client.clone());
    if !wait_for_kinds(&discovery, &KINDS, &stop).await {
        return Ok(());
    }
    connected.pass();

    let shares =
        Shares { workers: application_workers(&config), weights: config.namespace_weights.clone() };
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
    let clusters = clusters(
        &config,
        (Arc::clone(&notify) as Notify, tasks.clone(), end.clone()),
        (&options, io.client()),
        {
            let (queue, apps) = (Arc::clone(&queue), Arc::clone(&apps));
            Arc::new(move |app: &Key| {
                queue.add(app.clone(), watches::urgency_of_parts(&apps, app));
            })
        },
    );
    let live = LiveObjects::new(Arc::clone(&io), notify, tasks.clone(), end.clone());
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
        clusters,
    }));
    let context = Arc::new(AppContext::new(context, config.charts.clone()));
    let queues = Queues::of(&context);
    tasks.spawn_on(in_flight::name_slow(queues.clone(), end.clone()), vital.handle());
    let lease_handles = LeaseHandles::new(&vital);
    let leave = lease_handles.clone();
    let frozen = move || leave.give_up_frozen(&queues);
    vital.watch(end.clone(), frozen).context("cannot start threads")?;
    watches::start(&context.shared, &client, &tasks, &end);
    if let Some(members) = context.clusters.members() {
        let pending = context.clusters.concerned();
        context.metrics.register_clusters(Arc::clone(members), pending)?;
        let (context, client, end) = (Arc::clone(&context), client.clone(), end.clone());
        tasks.spawn(async move { context.clusters.follow(client, &end).await });
    }
    tokio::select! {
        () = watches::synced(&context) => {}
        () = stop.cancelled() => return Ok(()),
    }
    synced.pass();
    info!(
        applications = context.apps.len(),
        definitions = context.definitions.components.len(),
        "caches are filled"
    );
    match config.fleet {
        None => lead(&config, &options, context, lease_handles, &stop, &health).await?,
        Some(pace) => {
            share(&config, pace, &options, context, lease_handles, &stop, &health).await?;
        }
    }
    end.cancel();
    tasks.close();
    // Event writing ends with its last recorder; whatever else hangs is not waited for.
    let _ = timeout(Duration::from_secs(2), tasks.wait()).await;
    Ok(())
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
        info!(namespace, "each controller has a ServiceAccount of its own");
    }
    Ok(connections)
}

/// The clusters that joined, if they are to be deployed to.
fn clusters(
    config: &Config,
    (notify, tasks, stop): (Notify, TaskTracker, CancellationToken),
    (options, client): (&ClientOptions, &kube::Client),
    wake: Wake,
) -> Clusters {
    let Some(flags) = &config.clusters else { return Clusters::own() };
    let options = ClientOptions {
        qps: flags.qps,
        burst: flags.burst,
        exec_credentials: flags.exec_dir.clone(),
        ..options.clone()
    };
    let connecting = Connecting { options, rules: flags.rules, notify, tasks, stop };
    let as_credential = if flags.admins_as_credential { &*config.acting.admin_group } else { "" };
    let access =
        Access::new(client.clone(), as_credential, SharedRules::of(flags.exchange.clone()));
    Clusters::of(&flags.namespace, connecting, access, wake)
}

fn client_options(config: &Config, metrics: &Metrics) -> ClientOptions {
    let kube = &config.kube;
    let metrics = metrics.clone();
    ClientOptions {
        kubeconfig: kube.kubeconfig.clone(),
        kubeconfig_env: std::env::var_os("KUBECONFIG").map(Into::into),
        qps: kube.kube_api_qps,
        burst: kube.kube_api_burst,
        timeouts: Timeouts {
            request: kube.controller_client_request_timeout,
            list: kube.controller_client_long_running_request_timeout,
            mutating: kube.controller_client_mutating_request_timeout,
        },
        observer: Some(RequestObserver::new(move |answer| metrics.answered(answer))),
        ..ClientOptions::new(user_agent(config))
    }
}

/// The name under which requests are sent. Of several replicas at work it says which one: audit logs show who wrote what.
fn user_agent(config: &Config) -> String {
    const PROGRAM: &str = concat!("vela-controller/", env!("CARGO_PKG_VERSION"));
    match config.fleet {
        None => PROGRAM.to_owned(),
        Some(_) => format!("{PROGRAM}/{}", pod()),
    }
}

pub(crate) fn settings(
    config: &Config,
    version: &k8s_openapi::apimachinery::pkg::version::Info,
) -> Settings {
    Settings {
        gates: config.gates.clone(),
        system_namespace: config.system_namespace.clone(),
        resync: config.resync,
        pause: PAUSE,
        reconcile_timeout: config.reconcile_timeout,
        application_revision_limit: config.application_revision_limit,
        definition_revision_limit: config.definition_revision_limit,
        makes_workload_definitions: config.makes_workload_definitions,
        dispatch_concurrency: config.dispatch_concurrency,
        allow_cross_namespace: config.allow_cross_namespace,
        allowed_types: config.allowed_types.clone(),
        prune_confirm_kinds: config.prune_confirm_kinds.clone(),
        ready_means_healthy: config.ready_means_healthy,
        not_inherited: Arc::new(vela_api::KeyPatterns::new(&config.inherit_exclude)),
        refers_to_namespace: config.refers_to_namespace,
        refers_to_clusters: config.refers_to_clusters,
        shard: config.shard.clone(),
        disable_component_revision: config.disable_component_revision,
        version: config.version.clone(),
        ignore_without_version: config.ignore_without_version,
        ignore_definitions_without_version: config.ignore_definitions_without_version,
        acting: config.acting.clone(),
        workflow: config.workflow.clone(),
        cluster_version: ClusterVersion {
            major: version.major.clone(),
            minor: version.minor.clone(),
            git_version: version.git_version.clone(),
            platform: version.platform.clone(),
        },
    }
}

/// Works while it leads.
async fn lead(
    config: &Config,
    options: &ClientOptions,
    context: Arc<AppContext>,
    lease_handles: LeaseHandles,
    stop: &CancellationToken,
    health: &Health,
) -> anyhow::Result<()> {
    let release = lease_handles.release.clone();
    let mut master = None;
    let mut election = match &config.election {
        None => None,
        Some(election) => {
            let lease = lease_options(config, election)?;
            let gauge = master.insert(context.metrics.leading.with_label_values(&[&lease.name]));
            gauge.set(0);
            // A connection belongs to the threads that made it.
            let of_lease = options.for_lease(election.renew_deadline);
            let client =
                lease_handles.vital.spawn(async move { connect(&of_lease).await }).await??;
            let of = (lease.namespace.clone(), lease.name.clone(), lease.identity.clone());
            let notes_of = (client.clone(), of);
            let (elector, leadership) = Elector::new(client, lease, Timestamp::now)?;
            // From here on nothing is written without the lease, over whatever client of the process.
            options.fence.guard(leadership.clone());
            liveness::election(health, leadership.clone());
            let running =
                lease_handles.electing.spawn_on(elector.run(release.clone()), &lease_handles.vital);
            tokio::select! {
                acquired = leadership.acquired() => anyhow::ensure!(acquired, "the election ended"),
                () = stop.cancelled() => {
                    release.cancel();
                    let _ = running.await;
                    return Ok(());
                }
            }
            lease_handles.take_notes(&context, notes_of).await?;
            Some(running)
        }
    };
    if let Some(gauge) = &master {
        gauge.set(1);
    }
    let ending = CancellationToken::new();
    let _ending_on_return = ending.clone().drop_guard();
    let mut workers = work(config, &context, &ending, health, None)?;
    info!("leading");
    let lost = match &mut election {
        None => {
            stop.cancelled().await;
            false
        }
        Some(running) => tokio::select! {
            () = stop.cancelled() => false,
            ended = running => {
                tracing::error!(?ended, "the lease is lost, ending at once");
                true
            }
        },
    };
    health.stopping();
    if let Some(gauge) = &master {
        gauge.set(0);
    }
    ending.cancel();
    // The workers still note how calls ended that must not be repeated.
    let until = tokio::time::Instant::now() + DRAIN;
    if !lost && tokio::time::timeout_at(until, context.calls.close()).await.is_err() {
        tracing::warn!("some calls of steps did not end in time");
    }
    context.queue.close();
    context.definition_queues.close();
    if lost {
        workers.abort_all();
        anyhow::bail!("the lease was lost");
    }
    let drained = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout_at(until, drained).await.is_err() {
        tracing::warn!("some reconciles did not end in time");
        lease_handles.forget_notes();
        // Who holds its thread does not end: the lease is not kept for that.
        let _ = timeout(FINAL_FLUSH, workers.shutdown()).await;
    }
    lease_handles.close_notes().await;
    // Without the lease nothing is written, events included.
    let _ = timeout(FINAL_FLUSH, context.events.written()).await;
    release.cancel();
    if let Some(running) = election
        && let Ok(Outcome::Lost) = running.await
    {
        anyhow::bail!("the lease was lost");
    }
    Ok(())
}

/// Works on its share, as a member of a fleet.
async fn share(
    config: &Config,
    pace: Pace,
    options: &ClientOptions,
    context: Arc<AppContext>,
    lease_handles: LeaseHandles,
    stop: &CancellationToken,
    health: &Health,
) -> anyhow::Result<()> {
    let election = config.election.as_ref().context("--enable-leader-election is needed")?;
    let lease = lease_options(config, election)?;
    let fleet = Arc::new(Fleet::new(&lease.identity, pace, context.metrics.registry())?);
    let joined = health.readiness("fleet");
    // From here on nothing is written that this replica does not hold, over whatever client of the process.
    options.fence.guard_fleet(Arc::new(Permit(Arc::clone(&fleet))));
    let ours = Arc::clone(&fleet);
    context.queue.serve(Arc::new(move |key| ours.is_ours(key)));
    // What others work on waits in no queue here.
    let queues = &context.definition_queues;
    for queue in [&queues.components, &queues.traits, &queues.policies, &queues.steps] {
        let fleet = Arc::clone(&fleet);
        queue.serve(Arc::new(move |_| fleet.is_leading()));
    }
    let of_lease = options.for_lease(pace.renew_deadline);
    let client = lease_handles.vital.spawn(async move { connect(&of_lease).await }).await??;
    let names = fleet::Names { root: lease.name.clone() };
    let own_lease = names.member(&pod());
    let member = fleet::Options {
        namespace: lease.namespace.clone(),
        pod: pod(),
        names,
        root_duration: election.lease_duration,
        pace,
    };
    let tasks = CancellationToken::new();
    let _tasks_end_on_return = tasks.clone().drop_guard();
    let begin = fleet::start(
        (Arc::clone(&fleet), Arc::clone(&context)),
        (member, client.clone()),
        lease_handles.vital.clone(),
        tasks,
    );
    lease_handles.vital.spawn(begin).await??;
    let of = (lease.namespace.clone(), own_lease, lease.identity.clone());
    lease_handles.take_notes(&context, (client, of)).await?;
    let ending = CancellationToken::new();
    let _ending_on_return = ending.clone().drop_guard();
    let mut workers = work(config, &context, &ending, health, Some(&fleet))?;
    let lost = tokio::select! {
        () = stop.cancelled() => false,
        () = fleet.until_lost() => true,
        () = async {
            fleet.until_joined().await;
            joined.pass();
            std::future::pending::<()>().await;
        } => false,
    };
    health.stopping();
    if lost {
        workers.abort_all();
        anyhow::bail!("the Lease of this replica was taken from it");
    }
    // The workers still note how calls ended that must not be repeated.
    if timeout(LAST_CALLS, context.calls.close()).await.is_err() {
        tracing::warn!("some calls of steps did not end in time");
    }
    fleet.leave();
    tokio::select! {
        () = fleet.until_over() => {}
        () = fleet.until_lost() => {}
        () = tokio::time::sleep(LEAVING) => tracing::warn!("not everything could be handed over in time"),
    }
    ending.cancel();
    context.queue.close();
    context.definition_queues.close();
    let drained = async { while workers.join_next().await.is_some() {} };
    if timeout(FINAL_FLUSH, drained).await.is_err() {
        lease_handles.forget_notes();
        let _ = timeout(FINAL_FLUSH, workers.shutdown()).await;
    }
    Ok(())
}

/// What the Lease is renewed with, and given away.
#[derive(Clone)]
struct LeaseHandles {
    /// The vital threads.
    vital: Handle,
    /// Gives the Lease away.
    release: CancellationToken,
    /// The election.
    electing: TaskTracker,
    /// Ends the notes of what is in flight, in order.
    noted: CancellationToken,
    /// Who takes them.
    noting: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl LeaseHandles {
    fn new(vital: &Vital) -> Self {
        Self {
            vital: vital.handle().clone(),
            release: CancellationToken::new(),
            electing: TaskTracker::new(),
            noted: CancellationToken::new(),
            noting: Arc::default(),
        }
    }

    /// Finds out what the last leader died over, and notes what is in flight from now on.
    async fn take_notes(
        &self,
        context: &Arc<AppContext>,
        (client, (namespace, lease, leader)): (kube::Client, (String, String, String)),
    ) -> anyhow::Result<()> {
        let in_flight = Arc::clone(&context.in_flight);
        let begin =
            async move { Notes::begin(client, (&namespace, &lease), &leader, in_flight).await };
        match self.vital.spawn(begin).await? {
            Ok(notes) => {
                let keep = notes.keep(Arc::clone(&context.shared), self.noted.clone());
                *self.noting.lock() = Some(self.vital.spawn(keep));
            }
            // What is not known is not held against anybody.
            Err(error) => tracing::warn!(%error, "what the last leader was at is not known"),
        }
        Ok(())
    }

    /// What is in flight does not end: that stays on record.
    fn forget_notes(&self) {
        if let Some(noting) = self.noting.lock().take() {
            noting.abort();
        }
    }

    /// Nothing is in flight any more.
    async fn close_notes(&self) {
        let noting = self.noting.lock().take();
        self.noted.cancel();
        if let Some(noting) = noting {
            let _ = timeout(FINAL_FLUSH, noting).await;
        }
    }

    /// The workers do not get on: somebody else shall lead. Nothing more is written from here, whatever still moves.
    fn give_up_frozen(&self, queues: &Queues) {
        let in_flight = queues.describe();
        tracing::error!(in_flight, "the workers are frozen, giving up the lease and ending");
        self.release.cancel();
        self.electing.close();
        let _ = self.vital.block_on(async { timeout(FINAL_FLUSH, self.electing.wait()).await });
        #[allow(clippy::exit, reason = "the threads that could end in order are frozen")]
        std::process::exit(1);
    }
}

/// The namespace of the process: as given, else the Pod's.
fn own_namespace(given: &str) -> anyhow::Result<String> {
    if !given.is_empty() {
        return Ok(given.to_owned());
    }
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let text = std::fs::read_to_string(path);
    let text = text.context("--leader-election-namespace is needed outside of a Pod")?;
    Ok(text.trim().to_owned())
}

/// The name of the Pod, or of the host.
fn pod() -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "vela-controller".to_owned())
}

fn lease_options(config: &Config, election: &Election) -> anyhow::Result<LeaseOptions> {
    let namespace = own_namespace(&config.namespace)?;
    let version = config.ignore_without_version.then_some(config.version.as_str());
    let shard = config.shard.as_deref().unwrap_or_default();
    let host = pod();
    Ok(LeaseOptions {
        lease_duration: election.lease_duration,
        renew_deadline: election.renew_deadline,
        retry_period: election.retry_period,
        ..LeaseOptions::new(namespace, lease::lease_name(version, shard), lease::identity(&host))
    })
}

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
        if after.is_zero() || timeout(after, ending.cancelled()).await.is_err() {
            work.await;
        }
    }
}

/// Starts the workers of the selected controllers, and their metrics.
fn work(
    config: &Config,
    context: &Arc<AppContext>,
    ending: &CancellationToken,
    health: &Health,
    fleet: Option<&Arc<Fleet>>,
) -> anyhow::Result<JoinSet<()>> {
    let mut workers = JoinSet::new();
    let duty = Duty { fleet: fleet.cloned(), ending: ending.clone() };
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
        let worker_kinds =
            std::iter::repeat_n(WorkerKind::All, config.workers).chain([WorkerKind::Edits]);
        let meter = measure(registry::APPLICATION, &context.queue, application_workers(config));
        let turn = starts.next(ending);
        for worker_kind in worker_kinds {
            let (context, fleet) = (Arc::clone(context), fleet.cloned());
            let work = applications(context, fleet, worker_kind, meter.clone());
            workers.spawn(turn.clone().then(work));
        }
    }
    let queues = &context.definition_queues;
    macro_rules! definitions {
        ($kind:ty, $queue:ident) => {
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
        context.metrics.register_phases(apps, definitions, (ours, each))?;
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
        let (context, duty) = (Arc::clone(context), duty.clone());
        workers.spawn(async move {
            duty.run(|ending| {
                let context = &context;
                async move {
                    let (clusters, events) = (&context.clusters, &context.events);
                    tokio::join!(
                        clusters.remember(&context.io, &ending),
                        clusters.report(events, &ending),
                    );
                }
            })
            .await;
        });
    }
    Ok(workers)
}

/// The workers of the Application controller: one more than was asked for, for edits alone. They are short work that somebody
/// waits for.
const fn application_workers(config: &Config) -> usize {
    config.workers.saturating_add(1)
}

/// Attempts that go on without a worker, of one worker: they wait for clusters that are slow or silent.
const PARKED: usize = 64;

async fn applications(
    context: Arc<AppContext>,
    fleet: Option<Arc<Fleet>>,
    worker_kind: WorkerKind,
    meter: AttemptMeter,
) {
    let mut parked = JoinSet::new();
    while let Some(key) = context.queue.next(worker_kind).await {
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
            () = worker.given_back(), if parked.len() < PARKED => {}
        }
        context.queue.park(&key);
        parked.spawn(work);
    }
    while parked.join_next().await.is_some() {}
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
    let before = known();
    let attempt = meter.begin();
    let limit = context.settings.reconcile_timeout;
    let entered = context.in_flight.enter(&key, before.as_deref()).await;
    let work = match &fleet {
        None => application::reconcile(&context, &key).boxed(),
        Some(fleet) => {
            fleet.reconcile(&context, &key, || application::reconcile(&context, &key)).boxed()
        }
    };
    let work = guard::run(registry::APPLICATION, &key, limit, work);
    let (next, ended) = in_flight::entered(entered, work).await;
    attempt.end(next, &ended);
    let generation = before.as_ref().and_then(|app| app.metadata.generation);
    context.in_flight.survived(&key, generation.unwrap_or_default());
    let report = application::lifecycle::failure::report_panic(&context, &key, &ended);
    held(fleet.as_deref(), &key, report.boxed()).await;
    let (begin, end) = (phase(before.as_deref()), known());
    let labels = [begin, phase(end.as_deref())];
    let time = started.elapsed().as_secs_f64();
    context.metrics.reconcile_time.with_label_values(&labels).observe(time);
    context.queue.done(key, next);
}

/// An Application's phase as metrics name it.
fn phase(app: Option<&Application>) -> &'static str {
    labels::phase(app.map_or("", |app| app.status.phase.as_str()))
}

/// What is done once for all replicas.
#[derive(Clone)]
struct Duty {
    /// The fleet this process is a member of; without one it does it.
    fleet: Option<Arc<Fleet>>,
    ending: CancellationToken,
}

impl Duty {
    /// Waits until it is this process's. `false`: the process ends.
    async fn begins(&self) -> bool {
        let Some(fleet) = &self.fleet else { return true };
        tokio::select! {
            () = fleet.until_leading(true) => true,
            () = self.ending.cancelled() => false,
        }
    }

    /// Waits until it is not any more.
    async fn ends(&self) {
        match &self.fleet {
            None => std::future::pending().await,
            Some(fleet) => fleet.until_leading(false).await,
        }
    }

    /// One piece of it; `None`: it is not this process's any more.
    async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match &self.fleet {
            None => Some(work.await),
            Some(fleet) => fleet.lead(work).await,
        }
    }

    /// Something that goes on as long as it is this process's. The token is cancelled when it is to end.
    async fn run<F: Future<Output = ()>>(&self, work: impl Fn(CancellationToken) -> F) {
        while self.begins().await {
            let turn = self.ending.child_token();
            let _ends = turn.clone().drop_guard();
            let ended = async {
                self.ends().await;
                turn.cancel();
                std::future::pending::<()>().await;
            };
            let done = tokio::select! {
                done = self.within(work(turn.clone())) => done,
                () = ended => None,
            };
            // It ended by itself, or with the process.
            if (done.is_some() && !turn.is_cancelled()) || self.ending.is_cancelled() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn definitions<T: Kind>(
    context: Arc<Context>,
    queue: Arc<Queue>,
    meter: AttemptMeter,
    duty: Duty,
) {
    while duty.begins().await {
        let key = tokio::select! {
            key = queue.next(WorkerKind::All) => key,
            () = duty.ends() => continue,
        };
        let Some(key) = key else { return };
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
