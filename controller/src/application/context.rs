//! The context of Application reconciles, in addition to the one that all controllers share.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use vela_api::Application;
use vela_cluster::ApiError;

use crate::charts::Fetcher;
use crate::charts::download::Rules;
use crate::context::Context;
use crate::egress::calls::Calls;
use crate::egress::notify::Notifier;
use crate::evaluation::Account;
use crate::plan::rehearsal::Rehearsal;
use crate::queue::Key;
use crate::traces::Traces;

use super::memory::AppCache;
use super::workflow::shared::Shared;

/// What a run of an Application would write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedRun {
    /// It can be said.
    pub is_possible: bool,
    /// In a line.
    pub summary: String,
    /// As people read it.
    pub text: String,
    /// As programs read it.
    pub json: String,
}

/// Plans the run of an Application that is paused.
pub type Planner =
    Arc<dyn Fn(Application) -> BoxFuture<'static, Result<PlannedRun, ApiError>> + Send + Sync>;

/// Shared by all reconciles of Applications.
pub struct AppContext {
    /// What all controllers share.
    pub shared: Arc<Context>,
    /// What all workflows share.
    pub workflow: Shared,
    /// Charts from elsewhere.
    pub charts: Fetcher,
    /// Calls of steps to servers outside the cluster.
    pub calls: Calls,
    /// Notifications.
    pub notifier: Notifier,
    /// Traces of rollouts.
    pub traces: Traces,
    /// Plans runs; without it nobody does.
    pub planner: Option<Planner>,
    /// The context of WorkflowRuns, where they are handled.
    pub workflow_runs: Option<Arc<Self>>,
    /// Runs happen in a plan only.
    pub(crate) rehearsal: Option<Rehearsal>,
    /// One entry for each Application; it goes with its Application.
    memories: Mutex<HashMap<Key, Arc<Mutex<AppCache>>>>,
}

impl std::fmt::Debug for AppContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppContext").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The reconcile of an Application reads the connection, caches and settings of the process all the time.
impl Deref for AppContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.shared
    }
}

impl AppContext {
    /// Nothing remembered yet. `rules`: where charts may come from, and which servers steps may reach.
    #[must_use]
    pub fn new(shared: Arc<Context>, rules: Rules) -> Self {
        Self {
            workflow: Shared::new(rules.egress.clone()),
            notifier: Notifier::new(rules.egress.clone()),
            charts: Fetcher::new(rules),
            calls: Calls::new(Arc::clone(&shared.queue)),
            traces: Traces::default(),
            planner: None,
            workflow_runs: None,
            rehearsal: None,
            memories: Mutex::default(),
            shared,
        }
    }

    /// The context of WorkflowRuns: memories and calls are of their own, since a WorkflowRun may have the name of an Application.
    #[must_use]
    pub fn of_runs(shared: Arc<Context>, rules: Rules) -> Self {
        let calls = Calls::new(Arc::clone(&shared.runs.queue));
        Self { calls, ..Self::new(shared, rules) }
    }

    /// What is remembered of an Application.
    #[must_use]
    pub fn memory(&self, key: &Key) -> Arc<Mutex<AppCache>> {
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
        self.forget_workflow(key);
        self.clusters.forget(key);
    }

    /// What has a workflow here is gone.
    pub fn forget_workflow(&self, key: &Key) {
        self.memories.lock().remove(key);
        self.calls.keep(key, |_| false);
    }
}
