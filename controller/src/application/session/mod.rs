//! What the phases of one reconcile share: the Application's identity, policies and trackers, and access to the cluster as its
//! author. What a phase decides and does stands with that phase.

pub(in crate::application) mod decoded;
pub(in crate::application) mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use vela_apply::plan::Options;
use vela_apply::policy::Stage;
use vela_apply::tracker::Run;
use vela_apply::{Owner, ResourceKey, ResourcePolicies};
use vela_cluster::members::Snapshot;
use vela_cluster::{ApiError, Identity, Live, Target};
use vela_seal::Stamp;

use crate::events::About;
use crate::queue::Key;

use super::actors::{Actors, Requests};
use super::context::AppContext;
use super::facts;
use super::memory::AppCache;
use super::trackers::Trackers;
use crate::application::dispatch::completed::Completion;
use crate::application::revision::pending::PendingRevision;
use crate::application::session::decoded::DecodedObjects;
use crate::application::workflow_owner::{OwnerKind, WorkflowOwner};

/// What a reconcile dispatches with.
#[derive(Debug)]
pub struct Session<'a> {
    /// Connection, caches, settings.
    pub ctx: &'a AppContext,
    /// Of which kind the owner is.
    pub owner_kind: OwnerKind,
    /// The Application, or the WorkflowRun.
    pub owner: Owner,
    /// The same, for events.
    pub about: About,
    /// Who wrote the Application, if that is known.
    pub stamp: Option<Stamp>,
    /// As whom requests are made.
    pub actors: Actors,
    /// Its resource policies.
    pub policies: ResourcePolicies,
    /// Its trackers.
    pub trackers: Trackers,
    /// Generation of the Application.
    pub generation: i64,
    /// publishVersion, `""` if not pinned.
    pub publish_version: String,
    /// Name of the current revision.
    pub revision: String,
    /// Components of the spec: whose objects must not be taken by another component.
    pub components: BTreeSet<String>,
    /// The time, RFC 3339.
    pub now: String,
    /// The revision of this reconcile, while it is not stored: that may happen in parallel with the dry run, nothing is recorded before.
    pub unstored: Option<PendingRevision>,
    /// Why it could not be stored.
    pub refused: Option<ApiError>,
    /// When the present run of the workflow began, if it did before this reconcile.
    pub run_began: Option<Timestamp>,
    /// When the run in the stored status began.
    pub last_run_began: Option<Timestamp>,
    /// What ran to its end, as this reconcile sees it.
    pub(super) completed: Mutex<BTreeMap<ResourceKey, Completion>>,
    /// An object is to be created again and its predecessor is not gone yet.
    pub recreate_pending: AtomicBool,
    /// Components whose objects are made again where they refuse a change (`options.force` of a chart).
    pub forced: Mutex<BTreeSet<String>>,
    /// The Helm client works on one of its releases: nothing shows when that ends.
    pub release_busy: AtomicBool,
    /// It wrote an object. What it made may be gone again by its end: then the cluster is as it was at the beginning, and yet
    /// not as this reconcile left it.
    pub wrote: AtomicBool,
    /// Its live objects, as far as this reconcile decoded them.
    pub decoded: DecodedObjects,
    /// The clusters as they were when it began.
    pub clusters: Arc<Snapshot>,
    /// Steps go on without places that cannot be reached.
    pub skips_unreachable: bool,
}

impl<'a> Session<'a> {
    /// What the steps of a WorkflowRun work with. It has no policies, no revision, and no trackers.
    pub(crate) fn of_run(ctx: &'a AppContext, run: &WorkflowOwner<'_>, author: Identity) -> Self {
        let (metadata, about) = (run.metadata, run.about());
        let owner = Owner { namespace: about.namespace.clone(), name: about.name.clone() };
        let began = run.run.and_then(|run| Some(run.start_time.as_ref()?.0));
        Self {
            ctx,
            owner_kind: OwnerKind::WorkflowRun,
            owner,
            about,
            stamp: None,
            actors: author.into(),
            policies: ResourcePolicies::default(),
            trackers: Trackers::default(),
            generation: metadata.generation.unwrap_or_default(),
            publish_version: String::new(),
            revision: String::new(),
            components: BTreeSet::new(),
            now: facts::seconds(ctx.clock.now()),
            unstored: None,
            refused: None,
            run_began: began,
            last_run_began: began,
            completed: Mutex::default(),
            recreate_pending: AtomicBool::new(false),
            forced: Mutex::default(),
            release_busy: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            decoded: DecodedObjects::default(),
            clusters: ctx.clusters.snapshot(),
            skips_unreachable: false,
        }
    }
}

impl Session<'_> {
    /// The connection on which the Application's own requests go out.
    #[must_use]
    pub fn io(&self) -> Requests<'_> {
        Requests { io: &self.ctx.io, actors: &self.actors }
    }

    /// The run, for tracker decisions.
    #[must_use]
    pub fn run(&self) -> Run<'_> {
        Run {
            generation: self.generation,
            publish_version: &self.publish_version,
            revision: &self.revision,
        }
    }

    /// The name of the tracker that wants an object.
    pub(super) fn holder(&self, key: &ResourceKey) -> String {
        self.trackers.holder(&self.trackers.current(self.run()), key)
    }

    pub(super) fn options(&self, stage: Stage) -> Options<'_> {
        let gates = &self.ctx.settings.gates;
        Options {
            owner: &self.owner,
            policies: &self.policies,
            stage,
            // With that gate an object without labels of an owner may be taken over; else it
            // belongs to somebody who did not write them.
            adopt_unowned: gates.legacy_resource_owner_validation,
            replace_by_default: gates.apply_resource_by_replace,
            now: &self.now,
            previous: &[],
        }
    }

    pub(super) fn is_metadata_only(&self) -> bool {
        self.ctx.settings.gates.apply_once || self.policies.is_metadata_only()
    }

    /// Whether what the run waits for counts as come, since this is a plan.
    pub(super) fn waits_for_nothing(&self) -> bool {
        self.ctx.rehearsal.as_ref().is_some_and(|rehearsal| rehearsal.goes_on)
    }

    /// The key of the Application.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(&*self.owner.namespace, &*self.owner.name)
    }

    /// What is remembered of the Application.
    pub(super) fn memory(&self) -> Arc<Mutex<AppCache>> {
        self.ctx.memory(&self.key())
    }

    /// The live object of a key, `None` if there is none or its kind is not served. The cache holds what Applications of all
    /// namespaces own, as the controller sees it: one that acts as somebody else gets from it what it owns or shares, and of
    /// the rest what the API server shows to that somebody.
    ///
    /// # Errors
    /// The API server does not answer, or does not show it.
    pub(super) async fn live(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Value>>, ApiError> {
        let at = self.reach(&key.cluster)?;
        let Some(live) = at.live.get(api_version, key).await? else { return Ok(None) };
        self.shown(api_version, key, live).await
    }

    /// The same of a live object that was found.
    ///
    /// # Errors
    /// As [`Self::live`].
    pub(super) async fn shown(
        &self,
        api_version: &str,
        key: &ResourceKey,
        live: Arc<Live>,
    ) -> Result<Option<Arc<Value>>, ApiError> {
        // What the Application owns its author wrote himself; of the rest the cache may know more
        // than he may see.
        let is_own = self.owner_kind == OwnerKind::Application && live.is_of(&self.owner);
        if !self.actors.are_others() || is_own {
            return Ok(Some(self.decoded.decode(key, &live)));
        }
        let ResourceKey { kind, namespace, name, .. } = key;
        let target = Target { api_version, kind, namespace, name };
        // Only now: the check of the hub's rights is a request that most reads can do without.
        let at = self.reach_to(&key.cluster, "get").await?;
        match at.requests().get(&target).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
