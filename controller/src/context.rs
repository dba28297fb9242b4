//! What every reconcile works with: the connection, the caches, the renderer and the settings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use parking_lot::Mutex;
use vela_api::{Application, ResourceTracker, WorkflowRun};
use vela_render::ClusterVersion;
use vela_serve::gates::Gates;

use crate::cached::{Cached, Outline, Outlines};
use crate::clusters::Clusters;
use crate::connections::Connections;
use crate::definitions::Definitions;
use crate::evaluation::Evaluator;
use crate::events::Recorder;
use crate::fleet::wrong_labels::WrongLabels;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::queue::{Key, Queue};
use crate::revisions::{self, Revision};
use vela_cluster::{
    Acting, Administrators, ApiError, LiveObjects, ObjectClient, Packed, Share, Store, Stored as _,
};
use vela_seal::KeyHolder;

/// What flags and gates say, as the reconciles need it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Feature gates.
    pub gates: Gates,
    /// Namespace of built-in definitions.
    pub system_namespace: String,
    /// Period of a settled Application.
    pub resync: Duration,
    /// The least time between two reconciles of a waiting workflow while only objects change.
    pub pause: Duration,
    /// Deadline of one reconcile.
    pub reconcile_timeout: Duration,
    /// ApplicationRevisions kept in addition to the current one.
    pub application_revision_limit: usize,
    /// DefinitionRevisions kept in addition to the current one.
    pub definition_revision_limit: usize,
    /// ComponentDefinitions get the WorkloadDefinition of their kind.
    pub makes_workload_definitions: bool,
    /// Objects of one dispatch written at once.
    pub dispatch_concurrency: usize,
    /// Objects may be outside the Application's namespace.
    pub allow_cross_namespace: bool,
    /// Which kinds may be dispatched.
    pub allowed_types: AllowedTypes,
    /// `ref-objects` components refer to objects of their own namespace only.
    pub refers_to_namespace: bool,
    /// ref-objects may point to other clusters.
    pub refers_to_clusters: bool,
    /// No label `app.oam.dev/revision` on objects.
    pub disable_component_revision: bool,
    /// Version written to `oam.dev/kubevela-version` and compared with `controller-version-require`.
    pub version: String,
    /// The shard whose Applications are handled; `None`: all Applications are.
    pub shard: Option<String>,
    /// Revisions and trackers are labelled with the bucket of their Application, and selected by that.
    pub label_records: bool,
    /// Dispatched objects are labelled with the bucket of their Application, and selected by that.
    pub label_objects: bool,
    /// Applications without a version requirement are left alone.
    pub ignore_without_version: bool,
    /// Definitions without a version requirement are left alone.
    pub ignore_definitions_without_version: bool,
    /// Kinds whose deletion asks first, where an Application says nothing about it.
    pub prune_confirm_kinds: Vec<String>,
    /// `Ready` waits for the health of what is deployed.
    pub ready_means_healthy: bool,
    /// Components in clusters that have been away for a while are not healthy.
    pub unreachable_is_unhealthy: bool,
    /// Labels and annotations of an Application that its objects do not get.
    pub not_inherited: Arc<vela_api::KeyPatterns>,
    /// As whom Applications are applied.
    pub acting: Acting,
    /// Bounds of the workflow engine.
    pub workflow: vela_workflow::Options,
    /// The version of the local cluster.
    pub cluster_version: ClusterVersion,
}

impl Settings {
    /// Whether this shard, and this version of the controller, handles an Application. One that is in no shard nobody handles.
    #[must_use]
    pub(crate) fn handles(&self, app: &Outline) -> bool {
        if self.shard.as_deref().is_some_and(|ours| ours != &*app.shard) {
            return false;
        }
        // Several versions may run at once during an upgrade: the annotation chooses.
        if app.requires.is_empty() {
            !self.ignore_without_version
        } else {
            *app.requires == *self.version
        }
    }
}

/// `--allow-resource-types`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowedTypes {
    /// No restriction.
    #[default]
    All,
    /// Only these, as `Kind.version[.group]`.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl AllowedTypes {
    /// Reads `whitelist:A,B` or `blacklist:A,B`.
    ///
    /// # Errors
    /// Another form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let list = |items: &str| items.split(',').map(|item| item.trim().to_owned()).collect();
        match text.split_once(':') {
            None if text.is_empty() => Ok(Self::All),
            Some(("whitelist", items)) => Ok(Self::Only(list(items))),
            Some(("blacklist", items)) => Ok(Self::Except(list(items))),
            _ => Err("write whitelist:Kind.version.group,... or blacklist:..."),
        }
    }

    /// Whether a kind may be dispatched.
    #[must_use]
    pub fn allows(&self, api_version: &str, kind: &str) -> bool {
        let name = match api_version.split_once('/') {
            Some((group, version)) => format!("{kind}.{version}.{group}"),
            None => format!("{kind}.{api_version}"),
        };
        match self {
            Self::All => true,
            Self::Only(list) => list.contains(&name),
            Self::Except(list) => !list.contains(&name),
        }
    }
}

/// What time it is.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock of one's own.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Work of the definition controllers, one queue for each kind.
#[derive(Debug, Clone, Default)]
pub struct DefinitionQueues {
    /// ComponentDefinitions.
    pub components: Arc<Queue>,
    /// TraitDefinitions.
    pub traits: Arc<Queue>,
    /// PolicyDefinitions.
    pub policies: Arc<Queue>,
    /// WorkflowStepDefinitions.
    pub steps: Arc<Queue>,
}

impl DefinitionQueues {
    /// Ends all workers.
    pub fn close(&self) {
        for queue in [&self.components, &self.traits, &self.policies, &self.steps] {
            queue.close();
        }
    }
}

/// WorkflowRuns, where they are handled.
#[derive(Debug, Default)]
pub struct Runs {
    /// All of them.
    pub store: Arc<Store<WorkflowRun>>,
    /// Work of their controller.
    pub queue: Arc<Queue>,
}

/// Shared by the reconciles of all controllers.
#[derive(Debug)]
pub struct Context {
    /// The connection of the Application controller.
    pub io: Arc<ObjectClient>,
    /// Those of all controllers.
    pub connections: Connections,
    /// Objects that Applications own.
    pub live: LiveObjects,
    /// Applications.
    pub apps: Arc<Store<Cached>>,
    /// What they have in common.
    pub outlines: Arc<Outlines>,
    /// Whose revisions and trackers are kept.
    pub share: Arc<Share>,
    /// ApplicationRevisions.
    pub revisions: Arc<Store<Revision>>,
    /// What they share.
    pub revision_contents: Arc<revisions::Contents>,
    /// ResourceTrackers.
    pub trackers: Arc<Store<Packed<ResourceTracker>>>,
    /// Namespaces that say which deletions ask; the others are not kept.
    pub prune_namespaces: Arc<Store<Namespace>>,
    /// Definitions and the like.
    pub definitions: Arc<Definitions>,
    /// The way to evaluate users' CUE.
    pub cue: Evaluator,
    /// What our seals are made with; none as long as no key is configured.
    pub keys: KeyHolder,
    /// Who may do everything.
    pub administrators: Administrators,
    /// Events.
    pub events: Recorder,
    /// Metrics.
    pub metrics: Metrics,
    /// The time of steps.
    pub clock: Clock,
    /// Flags and gates.
    pub settings: Settings,
    /// Work of the Application controller.
    pub queue: Arc<Queue>,
    /// The member clusters.
    pub clusters: Arc<Clusters>,
    /// WorkflowRuns.
    pub runs: Runs,
    /// Work of the definition controllers.
    pub definition_queues: DefinitionQueues,
    /// Which Applications name a version of a definition.
    pub users: crate::definition::users::Users,
    /// A definition came, changed or went.
    pub definition_changes: tokio::sync::Notify,
    /// Hashes of labels, annotations and spec of each definition at its last reconcile, by kind and key.
    pub seen_definitions: Mutex<HashMap<(&'static str, Key), u64>>,
    /// Which Applications and WorkflowRuns are set aside.
    pub(crate) in_flight: Arc<InFlight>,
    /// The Applications with records that went out of sight, and how often; no more than there are Applications.
    out_of_sight: Mutex<BTreeMap<Key, u64>>,
    /// Records with the label of another bucket.
    pub(crate) wrong_labels: Arc<WrongLabels>,
}

/// What a process connects and reads before its [`Context`] can be.
#[derive(Debug)]
pub struct Parts {
    /// The connection of the Application controller.
    pub io: Arc<ObjectClient>,
    /// Those of all controllers.
    pub connections: Connections,
    /// Objects that Applications own.
    pub live: LiveObjects,
    /// The Applications: whoever wakes one by a change of its objects asks how urgent that is.
    pub apps: Arc<Store<Cached>>,
    /// Definitions and the like.
    pub definitions: Definitions,
    /// The way to evaluate users' CUE.
    pub cue: Evaluator,
    /// What our seals are made with.
    pub keys: KeyHolder,
    /// Events.
    pub events: Recorder,
    /// Metrics.
    pub metrics: Metrics,
    /// The time of steps.
    pub clock: Clock,
    /// Flags and gates.
    pub settings: Settings,
    /// Work of the Application controller.
    pub queue: Arc<Queue>,
    /// The member clusters.
    pub clusters: Arc<Clusters>,
}

impl Context {
    /// A record of an Application is out of sight: deleted, or labelled as one of another bucket. Which of them, only the API server
    /// knows, and it is asked before the next write for the Application.
    pub(crate) fn read_again(&self, app: Key) {
        let mut out_of_sight = self.out_of_sight.lock();
        let times: &mut u64 = out_of_sight.entry(app).or_default();
        *times = times.saturating_add(1);
        if out_of_sight.len() > self.apps.len() {
            // Those of deleted ones: nobody reads them any more.
            out_of_sight.retain(|app, _| self.apps.get(app).is_some());
        }
    }

    /// How often something of an Application went out of sight since it was read.
    pub(crate) fn out_of_sight(&self, app: &Key) -> Option<u64> {
        self.out_of_sight.lock().get(app).copied()
    }

    /// It was read after that had happened so many times.
    pub(crate) fn in_sight(&self, app: &Key, times: Option<u64>) {
        let mut out_of_sight = self.out_of_sight.lock();
        if out_of_sight.get(app).copied() == times {
            out_of_sight.remove(app);
        }
    }

    /// The generation of the share that the caches of revisions and trackers are filled for.
    #[must_use]
    pub fn records_listed(&self) -> u64 {
        self.apps.listed().min(self.revisions.listed()).min(self.trackers.listed())
    }

    /// Whether the caches have what is recorded of an Application: of one that another replica has they may lack it.
    #[must_use]
    pub fn has_records_of(&self, app: &Key) -> bool {
        (self.share.now().since)(app).is_some_and(|since| since <= self.records_listed())
    }

    /// With empty caches.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { io, connections, live, definitions, cue, keys, events, metrics, .. } = parts;
        Self {
            administrators: Administrators::new(io.client().clone()),
            io,
            connections,
            share: Arc::clone(live.share()),
            live,
            apps: parts.apps,
            outlines: Arc::default(),
            revisions: Arc::default(),
            revision_contents: Arc::default(),
            trackers: Arc::default(),
            prune_namespaces: Arc::default(),
            definitions: Arc::new(definitions),
            cue,
            keys,
            events,
            metrics,
            clock: parts.clock,
            settings: parts.settings,
            queue: parts.queue,
            clusters: parts.clusters,
            runs: Runs::default(),
            definition_queues: DefinitionQueues::default(),
            users: crate::definition::users::Users::default(),
            definition_changes: tokio::sync::Notify::new(),
            seen_definitions: Mutex::default(),
            in_flight: Arc::default(),
            out_of_sight: Mutex::default(),
            wrong_labels: Arc::default(),
        }
    }

    /// An Application as the API server has it now goes into the cache.
    pub fn keep(&self, app: &Application) {
        let key = app.key();
        // One that is known already has nothing new to say.
        if self.apps.put(self.cached(app)).is_ok() {
            self.users.note(&key, &self.apps);
        }
    }

    /// An Application as the cache has it.
    pub(crate) fn cached(&self, app: &Application) -> Cached {
        self.outlines.cached(app, self.share.now().keeps(Some(app.key())))
    }

    /// An Application that is gone as of a version goes out of the cache.
    pub fn drop(&self, key: &Key, version: &str) {
        self.apps.remove(key, version);
        self.users.note(key, &self.apps);
    }

    /// An Application that is known: from the cache, or from the API server if the cache has no more than its head.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn application(&self, key: &Key) -> Result<Option<Application>, ApiError> {
        let Some(known) = self.apps.get(key) else { return Ok(None) };
        if let Some(app) = known.open() {
            return Ok(Some(app));
        }
        let api: Api<Application> = Api::namespaced(self.io.client().clone(), &key.namespace);
        api.get_opt(&key.name).await.map_err(ApiError::from)
    }
}
