//! Applications driven through the real reconcile against an API server in memory: random edits at random moments, and the
//! death of the process at every write. The oracle is the server: nothing the newest spec wants is ever deleted, nothing is
//! leaked, and the end is what a fresh apply would have made.

mod charts;
mod cluster_faults;
mod clusters;
mod crash;
mod definition_updates;
mod deleted_tracker;
mod deletion_order;
pub(crate) mod depth;
mod deputy;
mod drift;
mod duplicate_records;
mod edits;
mod egress;
mod external_refs;
mod finalizer_removed;
mod follows_definition;
mod ledger;
mod left_out;
mod legacy;
mod linear;
mod many_components;
mod members;
mod named_clusters;
mod not_executed;
mod notify;
mod on_failure;
mod other_clusters;
mod overload;
mod paused;
mod pinned;
mod placements;
mod planned;
mod policies;
mod pools;
mod prune;
mod query;
mod read_only;
mod readiness;
mod refused_write;
mod replaced;
mod requests;
mod requeue_backoff;
mod restart;
mod rollout;
mod scoped;
mod secrets;
mod server;
mod set_aside;
mod shards;
mod shared;
mod shares;
mod silent_cluster;
mod stale_caches;
mod stale_fields;
mod status_debounce;
mod step_access;
mod too_large;
mod unfinished;
mod workflow_runs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_api::Application;
use vela_cluster::lease::Fence;
use vela_cluster::{LiveObjects, ObjectClient, Packed, Store, Stored};
use vela_render::{ClusterVersion, Options, Renderer};
use vela_seal::KeyHolder;
use vela_serve::metrics::Registry;
use vela_serve::pool::Pool;

use crate::application;
use crate::application::context::AppContext;
use crate::charts::download::Rules;
use crate::connections::Connections;
use crate::context::{AllowedTypes, Clock, Context, Parts, Settings};
use crate::definitions::Definitions;
use crate::evaluation::Evaluator;
use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::queue::{Class, Key, Next, Queue};
use crate::revisions::Revision;

use server::{Server, State};

/// The namespace of all Applications.
const NAMESPACE: &str = "n";
/// A component of this type makes one ConfigMap per name.
const TEMPLATE: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: parameter.names[0], data: v: parameter.value}
outputs: {
    for index, name in parameter.names if index > 0 {
        "\(name)": {apiVersion: "v1", kind: "ConfigMap", metadata: "name": name, data: v: parameter.value}
    }
}
parameter: {names: [...string], value: string}
"#;

/// What outlives a process: the server, and expensive things without state.
pub(super) struct World {
    server: Server,
    /// Other clusters, by name.
    members: Vec<(&'static str, Server)>,
    gates: vela_serve::gates::Gates,
    /// What proves who wrote what.
    keys: Option<vela_seal::Keys>,
    /// What Applications may have.
    allowed: (bool, AllowedTypes),
    /// Whose Applications are handled.
    shard: Option<String>,
    label_records: bool,
    label_objects: bool,
    renderer: Arc<Renderer>,
    pool: Arc<Pool>,
    started: AtomicUsize,
    /// Where charts may come from.
    rules: Rules,
    /// When the world began. Its time stands still but for what passes by [`World::pass`]: a busy machine changes nothing.
    began: jiff::Timestamp,
    /// Seconds that have passed since.
    passed: Arc<AtomicI64>,
}

/// The process under test.
struct Process {
    number: usize,
    context: AppContext,
    /// What it asks before it writes: open, unless it is a member of a fleet.
    fence: Fence,
    stop: CancellationToken,
}

impl Process {
    /// The settings, to be changed before the first reconcile.
    fn settings(&mut self) -> &mut Settings {
        &mut Arc::get_mut(&mut self.context.shared).unwrap().settings
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub(super) fn new() -> Self {
        let server = Server::default();
        server.by_another_writer(|state| {
            state.put(
                "componentdefinitions",
                json!({
                    "apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
                    "metadata": {"name": "maps", "namespace": "vela-system"},
                    "spec": {"workload": {"definition": {"apiVersion": "v1", "kind": "ConfigMap"}},
                        "schematic": {"cue": {"template": TEMPLATE}}},
                }),
            );
        });
        Self {
            server,
            members: Vec::new(),
            gates: vela_serve::gates::Gates::default(),
            keys: None,
            allowed: (true, AllowedTypes::All),
            shard: None,
            label_records: false,
            label_objects: false,
            renderer: Arc::new(Renderer::new(Options::default())),
            pool: Arc::new(Pool::new("cue", 1, 8).unwrap()),
            started: AtomicUsize::new(0),
            rules: Rules::default(),
            began: jiff::Timestamp::now(),
            passed: Arc::default(),
        }
    }

    fn start(&self) -> Process {
        let stop = CancellationToken::new();
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let fence = Fence::default();
        let client = self.server.client_behind(number, &fence);
        let io = Arc::new(ObjectClient::new(client));
        let queue = Arc::new(Queue::default());
        let live =
            LiveObjects::new(Arc::clone(&io), Arc::new(|_| {}), TaskTracker::new(), stop.clone());
        let registry = Registry::new("simulation", "0").unwrap();
        let definitions =
            Definitions { system_namespace: "vela-system".to_owned(), ..Definitions::default() };
        for object in self.server.state.lock().all("componentdefinitions") {
            let _ = definitions.components.put(serde_json::from_value(object.clone()).unwrap());
        }
        for object in self.server.state.lock().all("policydefinitions") {
            let _ = definitions.policies.put(serde_json::from_value(object.clone()).unwrap());
        }
        for object in self.server.state.lock().all("traitdefinitions") {
            let _ = definitions.traits.put(serde_json::from_value(object.clone()).unwrap());
        }
        for object in self.server.state.lock().all("workflowstepdefinitions") {
            let _ = definitions.steps.put(serde_json::from_value(object.clone()).unwrap());
        }
        let clusters = members::start(self, number, (&io, &queue), &stop);
        let context = Context::new(Parts {
            clusters: Arc::new(clusters),
            connections: Connections::shared(Arc::clone(&io)),
            io,
            live,
            apps: Arc::default(),
            definitions,
            cue: Evaluator::new(Arc::clone(&self.pool), Arc::clone(&self.renderer)),
            events: Recorder::new("Application").0,
            metrics: Metrics::new(&registry).unwrap(),
            keys: KeyHolder::default(),
            settings: Settings {
                gates: self.gates.clone(),
                system_namespace: "vela-system".to_owned(),
                resync: Duration::from_secs(300),
                pause: Duration::ZERO,
                reconcile_timeout: Duration::from_secs(180),
                application_revision_limit: 2,
                definition_revision_limit: 2,
                makes_workload_definitions: true,
                dispatch_concurrency: 1,
                allow_cross_namespace: self.allowed.0,
                allowed_types: self.allowed.1.clone(),
                prune_confirm_kinds: Vec::new(),
                ready_means_healthy: true,
                unreachable_is_unhealthy: true,
                not_inherited: Arc::default(),
                refers_to_namespace: false,
                refers_to_clusters: true,
                disable_component_revision: true,
                version: "simulation".to_owned(),
                shard: self.shard.clone(),
                label_records: self.label_records,
                label_objects: self.label_objects,
                ignore_without_version: false,
                ignore_definitions_without_version: false,
                acting: vela_cluster::Acting {
                    authenticate: self.gates.authenticate_application,
                    default_user: "default".to_owned(),
                    ..vela_cluster::Acting::default()
                },
                workflow: vela_workflow::Options::default(),
                cluster_version: ClusterVersion::default(),
            },
            clock: {
                let (began, passed) = (self.began, Arc::clone(&self.passed));
                Clock::new(move || {
                    began + jiff::SignedDuration::from_secs(passed.load(Ordering::Relaxed))
                })
            },
            queue,
        });
        let context = AppContext::new(Arc::new(context), self.rules.clone());
        if let Some(keys) = &self.keys {
            context.keys.set(keys.clone());
        }
        self.server.state.lock().apps = Some(Arc::clone(&context.apps));
        Process { number, context, fence, stop }
    }

    /// The caches catch up with the server, except for what watches bring by themselves.
    fn sync(&self, process: &Process) {
        let state = self.server.state.lock();
        let context = &process.context;
        refill(&context.apps, &state, "applications", |app: Application| context.cached(&app));
        for app in context.apps.all() {
            context.users.note(&app.key(), &context.apps);
        }
        refill(&context.revisions, &state, "applicationrevisions", |revision| {
            Revision::of(revision, &context.revision_contents)
        });
        refill(&context.trackers, &state, "resourcetrackers", |tracker| Packed::of(&tracker));
    }

    /// One reconcile of an Application; `None` if the process died.
    async fn reconcile(&self, process: &Process, name: &str) -> Option<Next> {
        self.reconcile_in(process, NAMESPACE, name).await
    }

    async fn reconcile_in(&self, process: &Process, namespace: &str, name: &str) -> Option<Next> {
        while !self.server.state.lock().has_seen(process.number) {
            tokio::task::yield_now().await;
        }
        members::catch_up(self, process).await;
        self.sync(process);
        let key = Key::new(namespace, name);
        process.context.queue.add(key.clone(), Class::Drift);
        let check = Box::pin(application::reconcile(&process.context, &key));
        let mut killed = self.server.state.lock().killed.subscribe();
        // A process that died waits for nothing any more.
        tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => None,
            next = check => Some(next.unwrap_or(Next::Failed)),
        }
    }

    /// Reconciles until nothing is left to do; a process that dies is started again. Returns how often it died.
    async fn settle(&self, process: &mut Process, name: &str) -> usize {
        let mut deaths = 0;
        for _ in 0..200 {
            let before = self.server.state.lock().last_map();
            match self.reconcile(process, name).await {
                None => {
                    deaths += 1;
                    self.revive();
                    *process = self.start();
                }
                Some(Next::Failed) => {}
                Some(Next::After(delay)) if delay < Duration::from_secs(60) => {
                    self.pass(delay);
                    let memory = process.context.memory(&Key::new(NAMESPACE, name));
                    if let Some(settled) = &mut memory.lock().settled {
                        settled.due = Some(tokio::time::Instant::now());
                    }
                }
                // What changed in the meantime asks for another reconcile.
                Some(_) if self.server.state.lock().last_map() != before => {}
                Some(_) => return deaths,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{name} does not settle: {:#}", self.app(name));
    }

    /// Another process may write.
    fn revive(&self) {
        let members = self.members.iter().map(|(_, server)| server);
        for server in members.chain([&self.server]) {
            server.state.lock().revive();
        }
    }

    /// So much time goes by, in whole seconds upwards.
    fn pass(&self, time: Duration) {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.passed.fetch_add(i64::try_from(seconds).unwrap(), Ordering::Relaxed);
    }

    fn app(&self, name: &str) -> Value {
        let state = self.server.state.lock();
        state.get("applications", NAMESPACE, name).cloned().unwrap_or_default()
    }

    /// What is wrong with a settled Application: compared with what a fresh apply would leave.
    fn faults(&self, name: &str) -> Vec<String> {
        let state = self.server.state.lock();
        let mut faults = state.crimes.clone();
        let app = state.get("applications", NAMESPACE, name);
        let wanted = app.map(State::wanted).unwrap_or_default();
        let is_of_app = |object: &&Value| {
            object.pointer("/metadata/labels/app.oam.dev~1name") == Some(&json!(name))
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let live: BTreeMap<String, String> = state
            .all("configmaps")
            .into_iter()
            .filter(is_of_app)
            .map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["v"])))
            .collect();
        if live != wanted {
            faults.push(format!("there is {live:?}, wanted is {wanted:?}"));
        }
        let trackers: Vec<_> =
            state.all("resourcetrackers").into_iter().filter(is_of_app).collect();
        let versioned = trackers.iter().filter(|t| t["spec"]["type"] == "versioned").count();
        let most = usize::from(!wanted.is_empty());
        if versioned != most
            || trackers.iter().any(|t| t["metadata"]["deletionTimestamp"].is_string())
        {
            let names: Vec<_> = trackers.iter().map(|t| text(&t["metadata"]["name"])).collect();
            faults.push(format!("trackers {names:?}"));
        }
        let revisions = state.all("applicationrevisions").into_iter().filter(is_of_app).count();
        match app {
            None if revisions > 0 => faults.push(format!("{revisions} revisions are left")),
            Some(app) if app["status"]["status"] != "running" => {
                faults.push(format!("the phase is {}", app["status"]["status"]));
            }
            Some(_) if revisions > 3 => faults.push(format!("{revisions} revisions")),
            _ => {}
        }
        faults
    }
}

/// The ConfigMaps of the Application, `namespace/name`, with what they hold.
fn maps(world: &World) -> BTreeMap<String, String> {
    let state = world.server.state.lock();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = state.all("configmaps").into_iter().filter(|map| map["data"]["v"].is_string());
    all.map(|map| {
        let metadata = &map["metadata"];
        let placement = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        (placement, text(&map["data"]["v"]))
    })
    .collect()
}

/// The uid of a ConfigMap in the namespace of the Applications; null if there is none.
fn uid(world: &World, name: &str) -> Value {
    let state = world.server.state.lock();
    let map = state.get("configmaps", NAMESPACE, name);
    map.map(|map| map["metadata"]["uid"].clone()).unwrap_or_default()
}

/// The ConfigMaps by name with what they hold, without what the controller notes on them.
fn named_maps(world: &World) -> Vec<(String, String)> {
    let state = world.server.state.lock();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let maps = state.all("configmaps").into_iter();
    maps.map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["v"])))
        .filter(|(name, _)| !name.starts_with("workflow-"))
        .collect()
}

fn refill<K: serde::de::DeserializeOwned, T: Stored>(
    store: &Store<T>,
    state: &State,
    plural: &str,
    keep: impl Fn(K) -> T,
) {
    if !store.is_synced() {
        store.begin_list();
        let _ = store.end_list();
    }
    let mut gone: BTreeMap<Key, _> = store.all().into_iter().map(|old| (old.key(), old)).collect();
    for object in state.all(plural) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let old = gone.remove(&Key::new(text("namespace"), text("name")));
        if old.is_none_or(|old| old.version() != text("resourceVersion")) {
            let _ = store.put(keep(serde_json::from_value(object.clone()).unwrap()));
        }
    }
    for (key, old) in gone {
        store.remove(&key, old.version());
    }
}

/// Healthy when the ConfigMap says so, which no Application here does.
const IS_READY: &str = "isHealth: context.output.data.ready == \"yes\"";

/// How ConfigMaps are judged that components of the type `maps` make, from the next start of a process on.
fn judge_maps(state: &mut State, status: Value) {
    let stored = state.get("componentdefinitions", "vela-system", "maps").cloned();
    let mut definition = stored.unwrap();
    definition["spec"]["status"] = status;
    state.put("componentdefinitions", definition);
}

/// Puts a definition of a step there.
fn define_step(state: &mut State, name: &str, template: &str) {
    state.put(
        "workflowstepdefinitions",
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
            "metadata": {"name": name, "namespace": "vela-system"},
            "spec": {"schematic": {"cue": {"template": template}}}}),
    );
}

/// An Application of components `(name, names of its ConfigMaps, value)`.
fn application(name: &str, components: &[(&str, &[&str], &str)]) -> Value {
    let components: Vec<Value> = components
        .iter()
        .map(|(name, names, value)| {
            json!({"name": name, "type": "maps", "properties": {"names": names, "value": value}})
        })
        .collect();
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"components": components},
    })
}
