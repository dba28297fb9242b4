//! The controller as far as one Application needs it, over an overlay: caches, renderer, settings, and the real reconcile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use vela_api::{Application, ApplicationRevision, ResourceTracker};
use vela_cluster::{LiveObjects, ObjectClient, Packed, Stored as _};
use vela_seal::KeyHolder;
use vela_serve::metrics::Registry;

use crate::application;
use crate::application::context::AppContext;
use crate::charts::download::Rules;
use crate::clusters::Clusters;
use crate::connections::Connections;
use crate::context::{Clock, Context, Parts, Settings};
use crate::definitions::Definitions;
use crate::evaluation::Evaluator;
use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::queue::{Class, Key, Next, Queue};
use crate::revisions::Revision;

use super::overlay::resource_path::ResourcePath;
use super::overlay::{Narrowed, Overlay};
use super::rehearsal::Rehearsal;

/// Reconciles of one plan: a run has a reconcile for each step at the most.
const MAX_PASSES: usize = 300;
/// Reconciles without a write and without an end: what it waits for does not come.
const MAX_IDLE: usize = 12;
/// A delay from which on nothing is in progress.
const REST: Duration = Duration::from_secs(60);

/// What all plans of a process share.
#[derive(Clone)]
pub(crate) struct Means {
    /// The cluster, as whoever plans.
    pub(crate) client: Client,
    /// What the controller's flags say.
    pub(crate) settings: Settings,
    /// Where charts may come from.
    pub(crate) rules: Rules,
    pub(crate) cue: Evaluator,
    /// Those of the cluster.
    pub(crate) definitions: Arc<Definitions>,
    /// What proves who wrote what; only the controller has it.
    pub(crate) keys: KeyHolder,
    /// The other clusters, as whoever plans.
    pub(crate) clusters: Arc<Clusters>,
    /// Ends the connections to them, if they are those of plans only.
    pub(crate) _ends_on_drop: Option<Arc<DropGuard>>,
}

impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An Application as the cluster has it, with its records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Present {
    /// `None`: it is new.
    pub(crate) app: Option<Value>,
    pub(crate) revisions: Vec<ApplicationRevision>,
    pub(crate) trackers: Vec<ResourceTracker>,
}

/// How the reconciles of a plan ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing is left to do.
    Settled,
    /// Something does not come.
    Waits,
    /// The Application cannot be deployed: why.
    Failed(String),
}

/// The controller of a plan.
pub(crate) struct Stage {
    pub(crate) overlay: Arc<Overlay>,
    /// Of the other clusters that can be reached, by name.
    members: BTreeMap<String, Arc<Overlay>>,
    context: AppContext,
    ahead: Arc<AtomicI64>,
    _ends_on_drop: DropGuard,
}

impl Stage {
    /// A controller for one Application, or for all of the cluster. With `goes_on` its runs do not wait.
    pub(crate) fn open(
        means: &Means,
        narrowed: Option<&Narrowed>,
        goes_on: bool,
    ) -> Result<Self, prometheus::Error> {
        let stop = CancellationToken::new();
        let overlay = Overlay::new(means.client.clone(), narrowed.cloned());
        let mut members = BTreeMap::new();
        let clusters = means.clusters.through(&stop, |name, client| {
            let overlay = Overlay::new(client, narrowed.cloned());
            let client = overlay.client();
            members.insert(name.to_owned(), overlay);
            client
        });
        let io = Arc::new(ObjectClient::new(overlay.client()));
        let live =
            LiveObjects::new(Arc::clone(&io), Arc::new(|_| {}), TaskTracker::new(), stop.clone());
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = {
            let ahead = Arc::clone(&ahead);
            Clock::new(move || {
                Timestamp::now() + SignedDuration::from_secs(ahead.load(Ordering::Relaxed))
            })
        };
        let mut context = Context::new(Parts {
            connections: Connections::shared(Arc::clone(&io)),
            io,
            live,
            apps: Arc::default(),
            definitions: Definitions::default(),
            cue: means.cue.clone(),
            keys: means.keys.clone(),
            events: Recorder::new(vela_api::names::event::APPLICATION).0,
            metrics: Metrics::new(&Registry::new(
                "vela-controller-plan",
                env!("CARGO_PKG_VERSION"),
            )?)?,
            clock,
            settings: means.settings.clone(),
            queue: Arc::new(Queue::default()),
            clusters: Arc::new(clusters),
        });
        context.definitions = Arc::clone(&means.definitions);
        let mut context = AppContext::new(Arc::new(context), means.rules.clone());
        context.rehearsal =
            Some(if goes_on { Rehearsal::that_goes_on() } else { Rehearsal::default() });
        Ok(Self { overlay, members, context, ahead, _ends_on_drop: stop.drop_guard() })
    }

    /// The clusters as they would be, by name; that of the Application has none.
    pub(crate) fn overlays(&self) -> impl Iterator<Item = (&str, &Overlay)> {
        let members = self.members.iter().map(|(name, overlay)| (name.as_str(), &**overlay));
        std::iter::once(("", &*self.overlay)).chain(members)
    }

    /// What the run would do that the plan does not.
    pub(crate) fn rehearsal(&self) -> &Rehearsal {
        static NONE: std::sync::LazyLock<Rehearsal> = std::sync::LazyLock::new(Rehearsal::default);
        self.context.rehearsal.as_ref().unwrap_or(&NONE)
    }

    /// Puts an Application on stage: `planned` is what it would be, without it it is what it is.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn enter(
        &self,
        present: &Present,
        planned: Option<&Value>,
    ) -> Result<Key, serde_json::Error> {
        let mut object = planned.or(present.app.as_ref()).cloned().unwrap_or_default();
        let text = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let key = Key::new(text("/metadata/namespace"), text("/metadata/name"));
        let path = format!(
            "/apis/{}/namespaces/{}/applications/{}",
            vela_api::V1BETA1,
            key.namespace,
            key.name
        );
        if planned.is_some()
            && let Some(place) = ResourcePath::of(&path)
        {
            let mut records = self.overlay.records();
            object = records.put(&place, present.app.as_ref(), object, (true, false));
        }
        let app: Application = serde_json::from_value(object)?;
        self.context.keep(&app);
        for revision in &present.revisions {
            let revision = Revision::of(revision.clone(), &self.context.revision_contents);
            let _ = self.context.revisions.put(revision);
        }
        for tracker in &present.trackers {
            let mut tracker = tracker.clone();
            // What cannot be expanded says so when it is read.
            let _ = tracker.expand();
            let _ = self.context.trackers.put(Packed::of(&tracker));
        }
        Ok(key)
    }

    /// Reconciles until nothing is left to do.
    pub(crate) async fn settle(&self, key: &Key) -> Ended {
        let (mut idle, mut failures) = (0, 0);
        let mut seen = self.progress(key);
        for _ in 0..MAX_PASSES {
            self.context.queue.add(key.clone(), Class::Edit);
            let next = Box::pin(application::reconcile(&self.context, key)).await;
            let now = self.progress(key);
            let is_progress = now != seen;
            idle = if is_progress { 0 } else { idle + 1 };
            seen = now;
            let delay = match next {
                Err(error) => return Ended::Failed(error.to_string()),
                Ok(Next::Failed) => {
                    failures += 1;
                    if failures > 2 {
                        return Ended::Failed(self.why_failed(key));
                    }
                    Duration::from_secs(1)
                }
                Ok(Next::Done) => return self.end(key),
                Ok(Next::Resync(_)) if !is_progress => return self.end(key),
                Ok(Next::Resync(_)) => Duration::ZERO,
                Ok(Next::After(delay) | Next::Postponed(delay)) => {
                    if idle > 1 && delay >= REST || idle > MAX_IDLE {
                        return self.end(key);
                    }
                    delay
                }
            };
            self.pass(key, delay).await;
        }
        Ended::Waits
    }

    /// Time goes by.
    async fn pass(&self, key: &Key, delay: Duration) {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        self.ahead.fetch_add(i64::try_from(seconds).unwrap_or_default(), Ordering::Relaxed);
        let generation = self.context.apps.get(key).and_then(|app| app.generation);
        // The budget of evaluation is a matter of real time.
        if let Some(left) = self.context.account(key).pauses(generation.unwrap_or_default()) {
            tokio::time::sleep(left).await;
        } else {
            tokio::task::yield_now().await;
        }
        let memory = self.context.memory(key);
        let mut memory = memory.lock();
        if let Some(settled) = &mut memory.settled {
            (settled.due, settled.pause) = (Some(Instant::now()), Duration::ZERO);
        }
    }

    /// What changes when something happens.
    fn progress(&self, key: &Key) -> (usize, String) {
        let version = self.context.apps.get(key).map(|app| app.version().to_owned());
        let writes = self.overlays().map(|(_, overlay)| overlay.records().writes()).sum();
        (writes, version.unwrap_or_default())
    }

    fn end(&self, key: &Key) -> Ended {
        let Some(app) = self.app(key) else { return Ended::Settled };
        let failed = self.why_failed(key);
        if !failed.is_empty() {
            return Ended::Failed(failed);
        }
        let is_over = app.status.workflow.as_ref().is_none_or(|run| run.finished || run.suspend);
        if is_over { Ended::Settled } else { Ended::Waits }
    }

    /// What the status says of a reconcile that failed; empty if none did.
    fn why_failed(&self, key: &Key) -> String {
        use vela_api::names::reason;
        let Some(app) = self.app(key) else { return String::new() };
        let failed =
            app.status.conditions.iter().find(|condition| {
                !condition.is_true() && condition.reason == reason::RECONCILE_ERROR
            });
        failed.map(|condition| condition.message.clone()).unwrap_or_default()
    }

    /// The Application as it would be.
    pub(crate) fn app(&self, key: &Key) -> Option<Application> {
        self.context.apps.get(key)?.open()
    }
}
