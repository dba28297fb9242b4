//! What every reconcile works with: the connection, the caches, the renderer and the settings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use vela_api::{Application, ResourceTracker};
use vela_apply::ResourceKey;
use vela_render::ClusterVersion;
use vela_serve::gates::Gates;

use crate::application::brake::Brake;
use crate::application::component::{Place, Rendering};
use crate::connections::Connections;
use crate::definitions::Definitions;
use crate::evaluation::{Account, Evaluator};
use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::outside::beside::Beside;
use crate::queue::{Key, Queue};
use crate::revisions::{self, Revision};
use crate::under_way::UnderWay;
use vela_cluster::{Acting, Administrators, Io, LiveObjects, Packed, Store};
use vela_seal::{KeyHolder, Stamp};

/// What flags and gates say, as the reconciles need it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Feature gates.
    pub gates: Gates,
    /// Namespace of built-in definitions.
    pub system_namespace: String,
    /// Period of a settled Application.
    pub resync: Duration,
    /// The least time between two looks at a workflow that waits, as long as only objects change.
    pub pause: Duration,
    /// Deadline of one reconcile.
    pub reconcile_timeout: Duration,
    /// ApplicationRevisions kept beside the current one.
    pub application_revision_limit: usize,
    /// DefinitionRevisions kept beside the current one.
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
    /// No label `app.oam.dev/revision` on objects.
    pub disable_component_revision: bool,
    /// Version written to `oam.dev/kubevela-version` and compared with `controller-version-require`.
    pub version: String,
    /// The shard whose Applications are handled; `None`: all Applications are.
    pub shard: Option<String>,
    /// Applications without a version requirement are left alone.
    pub ignore_without_version: bool,
    /// Definitions without a version requirement are left alone.
    pub ignore_definitions_without_version: bool,
    /// As whom Applications are applied.
    pub acting: Acting,
    /// Bounds of the workflow engine.
    pub workflow: vela_workflow::Options,
    /// The version of the local cluster.
    pub cluster_version: ClusterVersion,
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

/// Everything a look at an Application depends on, as hashes; equal means nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Its version.
    pub app: u64,
    /// The state of what belongs to it.
    pub objects: u64,
    /// The same without the statuses of its objects.
    pub content: u64,
}

impl Fingerprint {
    /// Whether all that differs is how objects are, and not what they should be.
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        self.app == other.app && self.content == other.content
    }
}

/// What a complete look at an Application left.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// What it depended on.
    pub seen: Fingerprint,
    /// Until when it rests.
    pub due: Option<tokio::time::Instant>,
    /// No object changed while it was under way: what was heard meanwhile was its own status.
    pub alone: bool,
    /// It was heard since that something may have changed unseen.
    pub told: bool,
    /// When it ended.
    pub since: tokio::time::Instant,
    /// Its workflow waits.
    pub waits: bool,
    /// How long the next one waits if all that changed is how objects are.
    pub pause: Duration,
}

/// A status that says the same as the stored one in other words, and waits for what comes next.
#[derive(Debug, Clone)]
pub struct Held {
    /// Since when.
    pub since: tokio::time::Instant,
    /// The status.
    pub status: Box<vela_api::AppStatus>,
}

/// What is remembered of an Application between reconciles; losing it costs work, never correctness.
#[derive(Debug, Default)]
pub struct AppMemory {
    /// What the last complete look left.
    pub settled: Option<Settled>,
    /// Since when the finalizer is missing that it had.
    pub finalizer_off: Option<tokio::time::Instant>,
    /// The context of the workflow, as it was written last.
    pub context: Option<crate::application::workflow::store::Kept>,
    /// Patches that changed nothing on the server, by hashes of manifest, patch and live content: not sent again.
    pub no_ops: HashMap<ResourceKey, (u64, u64, u64)>,
    /// Objects that a step waits for and that are as it dispatched them, by a hash of everything that was compared: not
    /// compared again.
    pub as_dispatched: HashMap<ResourceKey, u64>,
    /// Its stamp, if that is valid, beside a hash of what was looked at.
    pub stamp: Option<(u64, Option<Stamp>)>,
    /// Repairs of drift, by object.
    pub brakes: HashMap<ResourceKey, Brake>,
    /// Objects that differ and are left so, with who changed them: as the last look at all of them found.
    pub left: BTreeMap<String, String>,
    /// A hash of what was noted of application-scoped policies.
    pub policies_noted: Option<u64>,
    /// The highest number of a revision that turned out to be taken.
    pub taken_revision: i64,
    /// A status that is not written yet.
    pub held: Option<Held>,
    /// The last dispatch met a refusal: the next one tries out every object.
    pub refused: bool,
    /// What components rendered to, while they are on their way.
    pub renderings: HashMap<(String, Place), Rendering>,
    /// What its reconciles may evaluate.
    pub account: Option<Arc<Account>>,
    /// What Pods said of why they do not run.
    pub pods_said: HashMap<ResourceKey, crate::application::workflow::why::Said>,
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

/// Shared by all reconciles.
#[derive(Debug)]
pub struct Context {
    /// The connection of the Application controller.
    pub io: Arc<Io>,
    /// Those of all controllers.
    pub connections: Connections,
    /// Objects that Applications own.
    pub live: LiveObjects,
    /// Applications.
    pub apps: Arc<Store<Application>>,
    /// ApplicationRevisions.
    pub revisions: Arc<Store<Revision>>,
    /// What they share.
    pub revision_contents: Arc<revisions::Contents>,
    /// ResourceTrackers.
    pub trackers: Arc<Store<Packed<ResourceTracker>>>,
    /// Definitions and the like.
    pub definitions: Arc<Definitions>,
    /// The way to evaluate users' CUE.
    pub cue: Evaluator,
    /// What all workflows share.
    pub workflow: crate::application::workflow::shared::Shared,
    /// What our seals are made with; none as long as no key is configured.
    pub keys: KeyHolder,
    /// Who may do everything.
    pub administrators: Administrators,
    /// Calls of steps to the outside.
    pub beside: Beside,
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
    /// Work of the definition controllers.
    pub definition_queues: DefinitionQueues,
    /// Which Applications name a version of a definition.
    pub users: crate::definition::users::Users,
    /// What the last look at a definition saw, by kind and key: hashes of labels, annotations and spec.
    pub seen_definitions: Mutex<HashMap<(&'static str, Key), u64>>,
    /// Which Applications are set aside.
    pub(crate) under_way: Arc<UnderWay>,
    /// See [`AppMemory`]; an entry goes with its Application.
    pub memories: Mutex<HashMap<Key, Arc<Mutex<AppMemory>>>>,
}

impl Context {
    /// What is remembered of an Application.
    #[must_use]
    pub fn memory(&self, key: &Key) -> Arc<Mutex<AppMemory>> {
        Arc::clone(self.memories.lock().entry(key.clone()).or_default())
    }

    /// What the reconciles of an Application may evaluate.
    #[must_use]
    pub fn account(&self, key: &Key) -> Arc<Account> {
        let memory = self.memory(key);
        let mut memory = memory.lock();
        Arc::clone(memory.account.get_or_insert_with(|| Account::of(&key.namespace)))
    }

    /// The Application is gone.
    pub fn forget(&self, key: &Key) {
        self.memories.lock().remove(key);
        self.beside.keep(key, |_| false);
    }
}
