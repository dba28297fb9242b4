//! The in-memory cache of an Application between reconciles, with one slot for each phase. Data only;
//! losing it costs work, never correctness.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use vela_api::Time;
use vela_apply::ResourceKey;
use vela_apply::tracker::Record;
use vela_seal::Stamp;

use crate::evaluation::Account;
use crate::traces::Progress;

use super::component::CachedRendering;
use super::placement::Placement;
use super::workflow::cached::{CachedContext, PodReasons};
use crate::application::converge::repair_backoff::RepairBackoff;
use crate::application::dispatch::changes::Changes;

/// Everything a reconcile of an Application depends on, as hashes; equal means nothing to do.
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

/// What a complete reconcile of an Application left.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// What it depended on.
    pub fingerprint: Fingerprint,
    /// Until when it rests.
    pub due: Option<Instant>,
    /// No object changed while it was in flight; the only events in the meantime were of its own status.
    pub alone: bool,
    /// It was heard since that something may have changed unseen.
    pub triggered: bool,
    /// When it ended.
    pub since: Instant,
    /// Its workflow waits.
    pub waits: bool,
    /// How long the next one waits if all that changed is how objects are.
    pub pause: Duration,
}

/// The objects that must live, as the ResourceTrackers of some versions record them.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Names and versions of the trackers, as a hash.
    pub trackers: u64,
    /// Objects with their `apiVersion`.
    pub objects: Box<[(Box<str>, ResourceKey)]>,
    /// The other clusters that any tracker names.
    pub clusters: BTreeSet<String>,
}

/// A status that says the same as the stored one in other words, and waits for what comes next.
#[derive(Debug, Clone)]
pub struct DeferredStatus {
    /// Since when.
    pub since: Instant,
    /// The status.
    pub status: Box<vela_api::AppStatus>,
}

/// An object that differs and is left so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftDrift {
    /// Who changed it, as far as that is known.
    pub manager: String,
    /// What differs.
    pub changes: Changes,
    /// It is not there.
    pub is_deleted: bool,
}

/// What is remembered of an Application between reconciles; losing it costs work, never correctness.
#[derive(Debug, Default)]
pub struct AppCache {
    /// What the last complete reconcile left.
    pub settled: Option<Settled>,
    /// The objects that must live, as of that reconcile.
    pub recorded: Option<Arc<Recorded>>,
    /// Since when the finalizer is missing that it had.
    pub finalizer_missing_since: Option<Instant>,
    /// The context of the workflow, as it was written last.
    pub context: Option<CachedContext>,
    /// Patches that changed nothing on the server, by hashes of manifest, patch and live content: not sent again.
    pub no_ops: HashMap<ResourceKey, (u64, u64, u64)>,
    /// Objects that a step waits for and that are as it dispatched them, by a hash of everything that was compared: not
    /// compared again.
    pub as_dispatched: HashMap<ResourceKey, u64>,
    /// Its stamp, if that is valid, with a hash of what was checked.
    pub stamp: Option<(u64, Option<Stamp>)>,
    /// Repairs of drift, by object.
    pub repair_backoffs: HashMap<ResourceKey, RepairBackoff>,
    /// Objects that differ and are left so, as of the last check of all of them.
    pub left: BTreeMap<String, LeftDrift>,
    /// Those of the check before.
    pub left_before: BTreeSet<String>,
    /// When a generation arrived whose rollout has not ended yet.
    pub arrived: Option<(i64, Timestamp)>,
    /// The run of the workflow that is counted among those that ended.
    pub counted_run: Option<(String, Option<Time>)>,
    /// What a trace of its rollout says beyond its status, if traces are collected.
    pub progress: Option<Box<Progress>>,
    /// Which field manager keeps the spec of a generation for Git, if one does.
    pub git_manager: Option<(i64, Option<String>)>,
    /// Since when it is not healthy, if somebody wants to hear of that.
    pub unhealthy_since: Option<Instant>,
    /// At which generation an approval of an earlier one was taken back.
    pub approval_removed_at: Option<Option<i64>>,
    /// A hash of what was noted of application-scoped policies.
    pub policies_noted: Option<u64>,
    /// The highest number of a revision that turned out to be taken.
    pub taken_revision: i64,
    /// A status that is not written yet.
    pub deferred: Option<DeferredStatus>,
    /// The last dispatch met a refusal: the next one tries out every object.
    pub refused: bool,
    /// What components rendered to, while they are on their way.
    pub renderings: HashMap<(String, Placement), CachedRendering>,
    /// What its reconciles may evaluate.
    pub account: Option<Arc<Account>>,
    /// What is recorded of other clusters, with the names of the trackers, when it was last written.
    pub members: Option<Vec<(String, Record)>>,
    /// What its status says of clusters that are gone was compared with what is recorded.
    pub status_compared: bool,
    /// What Pods said of why they do not run.
    pub pod_reasons: HashMap<ResourceKey, PodReasons>,
}
