//! Bringing manifests to the cluster: admission, dry run, recording, applying.
//!
//! Answers for `pkg/resourcekeeper/{dispatch,admission,options}.go`. Order: nothing is applied before it is recorded, and
//! nothing stays recorded or is applied if the API server refuses an object of the dispatch. It is asked by a dry run, with
//! two exceptions: a patch of our own marks is not asked about, and the write of one object, the first, is its own answer
//! (on refusal its record is rolled back). Read-only objects are read as the author first. An object that an earlier run recorded is recorded: its write, an edit, goes out
//! in parallel with the new record.

pub mod apply;
pub(in crate::application) mod completed;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::future::{OptionFuture, join, join3};
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tracing::debug;
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, is_local, kind, label, name, namespace, set_namespace};
use vela_apply::plan;
use vela_apply::policy::{GcStrategy, Stage};
use vela_apply::tracker::{self, Record};

use crate::messages;
use vela_cluster::{ApiError, Stored, Target};

use super::session::Session;
use super::trackers::Trackers;
use crate::application::converge::statekeep;
use crate::application::dispatch::apply::Prospect;
use crate::application::revision::store;

/// How the API server is asked about the objects of a dispatch.
struct Trials {
    /// All of them.
    all: Vec<Value>,
    /// The one whose write is its own trial.
    first: Option<Value>,
    /// The others.
    rest: Vec<Value>,
    /// Those of the others that are tried out in a dry run.
    tried: Vec<Value>,
}

impl Session<'_> {
    /// Stores the revision of this reconcile, if it is not yet.
    ///
    /// # Errors
    /// The API server's answer as a message; the error itself is kept in `refused`.
    pub async fn store_revision(&mut self) -> Result<(), String> {
        let unstored = self.unstored.take();
        let stored = store::save(self.ctx, unstored).boxed().await;
        self.revision_stored(stored)
    }

    fn revision_stored(&mut self, stored: Result<(), ApiError>) -> Result<(), String> {
        if let Err(error) = stored {
            self.refused = Some(error);
        }
        match &self.refused {
            Some(error) => Err(messages::dispatch_failed(&error.to_string())),
            None => Ok(()),
        }
    }

    /// Brings the manifests of one stage of one component to a cluster.
    ///
    /// # Errors
    /// A message for the step.
    pub async fn dispatch(&mut self, manifests: &mut [Value], cluster: &str) -> Result<(), String> {
        let todo = self.todo(manifests, cluster).await?;
        if todo.is_empty() {
            return Ok(());
        }
        let trials = self.trials(todo, cluster).await;
        let unstored = self.unstored.take();
        let store = store::save(self.ctx, unstored).boxed();
        let mut ahead = None;
        let before;
        if let Some(first) = trials.first.as_ref().filter(|_| trials.tried.is_empty()) {
            // Nothing is asked before: what is recorded already, the revision and the record do not wait for one another.
            // The edit is what somebody waits for, so it is the first on the wire.
            let held = self.trackers.hold(&ResourceKey::of(first, cluster));
            let write = held.then(|| self.attempt(first, cluster, Stage::Update, false).boxed());
            let record = self.record(&trials.all, cluster).boxed();
            let (written, stored, (after, recorded)) =
                join3(OptionFuture::from(write), store, record).await;
            before = std::mem::replace(&mut self.trackers, after);
            ahead = written;
            if let Err(text) = self.revision_stored(stored) {
                self.take_back(&before).await;
                return Err(text);
            }
            recorded.map_err(|error| messages::dispatch_failed(&error.to_string()))?;
        } else {
            let (tried, stored) = join(self.dry_run(&trials.tried, cluster), store).await;
            self.revision_stored(stored)?;
            if let Err(mut errors) = tried {
                if let Some(first) = &trials.first
                    && let Err(mut more) = self.dry_run(std::slice::from_ref(first), cluster).await
                {
                    more.append(&mut errors);
                    errors = more;
                }
                return Err(messages::dry_run_failed(&messages::errors(&errors)));
            }
            let (after, recorded) = self.record(&trials.all, cluster).await;
            before = std::mem::replace(&mut self.trackers, after);
            recorded.map_err(|error| messages::dispatch_failed(&error.to_string()))?;
        }
        if let Some(first) = &trials.first {
            let written = match ahead {
                Some(written) => written,
                None => self.attempt(first, cluster, Stage::Update, false).await,
            };
            match written {
                Ok(_) => {}
                Err(refusal) if refusal.is_refusal() => {
                    self.memory().lock().refused = true;
                    self.take_back(&before).await;
                    let text = messages::errors(&[refusal.to_string()]);
                    return Err(messages::dry_run_failed(&text));
                }
                Err(failure) => {
                    let text = messages::errors(&[failure.to_string()]);
                    return Err(messages::dispatch_failed(&text));
                }
            }
        }
        self.carry_out(&trials.rest, cluster).await?;
        self.memory().lock().refused = false;
        Ok(())
    }

    /// How the API server is asked about the objects of a dispatch.
    async fn trials(&self, all: Vec<Value>, cluster: &str) -> Trials {
        let mut trials = Trials { first: None, rest: Vec::new(), tried: Vec::new(), all };
        if !self.ctx.settings.gates.pre_dispatch_dry_run {
            trials.rest.clone_from(&trials.all);
            trials.tried = self.asked(&trials.all);
            return trials;
        }
        // What was refused once is asked about before anything is written for it again.
        let refused = self.memory().lock().refused;
        for manifest in &trials.all {
            let prospect = self.prospect(manifest, cluster).await;
            if prospect == Prospect::Whole && trials.first.is_none() && !refused {
                trials.first = Some(manifest.clone());
                continue;
            }
            if prospect != Prospect::Harmless {
                trials.tried.push(manifest.clone());
            }
            trials.rest.push(manifest.clone());
        }
        trials
    }

    /// Rolls back the records of a dispatch that wrote nothing. A record that cannot be rolled back is collected with its run.
    async fn take_back(&mut self, before: &Trackers) {
        let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
        if let Err(error) = self.trackers.take_back(io, store, before).await {
            debug!(%error, "what was recorded could not be taken back");
        }
    }

    /// Brings the manifests of several components to a cluster, up to `width` components in parallel. The result of one does not
    /// concern the others; one record holds all of them.
    pub async fn dispatch_together(
        &mut self,
        groups: &mut [Vec<Value>],
        cluster: &str,
        width: usize,
    ) -> Vec<Result<(), String>> {
        let mut plans: Vec<Result<Vec<Value>, String>> = Vec::with_capacity(groups.len());
        let mut taken: HashMap<ResourceKey, String> = HashMap::new();
        for group in groups.iter_mut() {
            let plan = self.todo(group, cluster).await;
            let other = group.iter().find_map(|manifest| {
                let component = label(manifest, names::label::APP_COMPONENT).unwrap_or_default();
                let key = ResourceKey::of(manifest, cluster);
                let other = taken.insert(key, component.to_owned())?;
                let object =
                    format!("{} {}/{}", kind(manifest), namespace(manifest), name(manifest));
                (other != component).then(|| messages::same_object(&object, &other))
            });
            plans.push(match other {
                Some(text) => Err(messages::dispatch_failed(&text)),
                None => plan,
            });
        }
        let unstored = self.unstored.take();
        let store = store::save(self.ctx, unstored).boxed();
        let (_, stored) = join(self.each(&mut plans, cluster, width, true), store).await;
        if let Err(text) = self.revision_stored(stored) {
            plans.fill(Err(text));
        }
        let all: Vec<Value> = plans.iter().flatten().flatten().cloned().collect();
        if !all.is_empty() {
            let mut trackers = std::mem::take(&mut self.trackers);
            let recorded = self.record_in(&mut trackers, &all, cluster).await;
            self.trackers = trackers;
            if let Err(error) = recorded {
                let text = messages::dispatch_failed(&error.to_string());
                for plan in plans.iter_mut().filter(|plan| plan.is_ok()) {
                    *plan = Err(text.clone());
                }
            }
        }
        self.each(&mut plans, cluster, width, false).await;
        plans.into_iter().map(|plan| plan.map(|_| ())).collect()
    }

    /// Tries the plans out or carries them out, several at once; a failure takes the place of the plan.
    async fn each(
        &self,
        plans: &mut [Result<Vec<Value>, String>],
        cluster: &str,
        width: usize,
        dry_run: bool,
    ) {
        let mut work = Vec::new();
        for (index, todo) in plans.iter().enumerate() {
            let Ok(todo) = todo else { continue };
            let done = async move {
                if dry_run {
                    self.try_out(todo, cluster).await
                } else {
                    self.carry_out(todo, cluster).await
                }
            };
            work.push(done.map(move |done| (index, done)).boxed());
        }
        let done: Vec<(usize, Result<(), String>)> =
            stream::iter(work).buffered(width.max(1)).collect().await;
        for (index, done) in done {
            if let (Some(plan), Err(text)) = (plans.get_mut(index), done) {
                *plan = Err(text);
            }
        }
    }

    /// What of these manifests has to be written.
    async fn todo(&self, manifests: &mut [Value], cluster: &str) -> Result<Vec<Value>, String> {
        if !is_local(cluster) {
            let unavailable = |error: ApiError| messages::dispatch_failed(&error.to_string());
            for verb in ["create", "patch"] {
                self.reach_to(cluster, verb).await.map_err(unavailable)?;
            }
        }
        for manifest in manifests.iter_mut() {
            if name(manifest).is_empty() {
                // It would be created again in every reconcile, and could not be found again.
                return Err(messages::dispatch_failed(&messages::no_name(kind(manifest))));
            }
            self.normalize_namespace(manifest, cluster).await;
        }
        self.admit(manifests, cluster).map_err(|text| messages::dispatch_failed(&text))?;
        let current = self.trackers.current(self.run());
        let desired = self.trackers.desired(&current);
        let mut todo = Vec::new();
        for manifest in manifests.iter() {
            if !self.is_up_to_date(manifest, cluster, &desired).await {
                todo.push(manifest.clone());
            }
        }
        Ok(todo)
    }

    /// Asks the API server whether it would take them, where that is wanted.
    async fn try_out(&self, todo: &[Value], cluster: &str) -> Result<(), String> {
        let done = if self.ctx.settings.gates.pre_dispatch_dry_run {
            self.dry_run(todo, cluster).await
        } else {
            self.dry_run(&self.asked(todo), cluster).await
        };
        done.map_err(|errors| messages::dry_run_failed(&messages::errors(&errors)))
    }

    /// Those of which the API server is asked before they are recorded, whatever is said of dry runs.
    fn asked(&self, todo: &[Value]) -> Vec<Value> {
        todo.iter().filter(|manifest| self.needs_visibility_check(manifest)).cloned().collect()
    }

    async fn dry_run(&self, tried: &[Value], cluster: &str) -> Result<(), Vec<String>> {
        self.apply_all(tried, cluster, true).await
    }

    async fn carry_out(&self, todo: &[Value], cluster: &str) -> Result<(), String> {
        let done = self.apply_all(todo, cluster, false).await;
        done.map_err(|errors| messages::dispatch_failed(&messages::errors(&errors)))
    }

    /// Deletes an object for a step. The trackers say so first, or it would be put back.
    ///
    /// # Errors
    /// The Application may not have it, or the API server's answer.
    pub async fn delete(&mut self, manifest: &Value, cluster: &str) -> Result<(), String> {
        let mut manifest = manifest.clone();
        self.permit(&mut manifest, cluster).await?;
        let manifest = &manifest;
        let current = self.trackers.current(self.run());
        let key = ResourceKey::of(manifest, cluster);
        self.reach_to(cluster, "delete").await.map_err(|error| error.to_string())?;
        let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
        let recorded = self.trackers.record_deleted(io, store, &current, &key).await;
        recorded.map_err(|error| error.to_string())?;
        let at = self.reach(cluster).map_err(|error| error.to_string())?;
        let done = at.requests().delete(&Target::of(manifest), "", None).await;
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Whether the Application may touch such an object at all; kinds that have no namespace get none.
    ///
    /// # Errors
    /// A message.
    pub async fn permit(&self, manifest: &mut Value, cluster: &str) -> Result<(), String> {
        self.normalize_namespace(manifest, cluster).await;
        self.allow(manifest)
    }

    /// Kinds that have no namespace get none.
    async fn normalize_namespace(&self, manifest: &mut Value, cluster: &str) {
        let Ok(at) = self.reach(cluster) else { return };
        if at.io.is_cluster_scoped(api_version(manifest), kind(manifest)).await {
            set_namespace(manifest, "");
        }
    }

    /// Whether flags of the controller let the Application have such an object.
    fn allow(&self, manifest: &Value) -> Result<(), String> {
        let at = format!("{}/{}", namespace(manifest), name(manifest));
        let settings = &self.ctx.settings;
        if !settings.allow_cross_namespace && namespace(manifest) != self.owner.namespace {
            return Err(messages::forbidden_namespace(kind(manifest), &at));
        }
        if !settings.allowed_types.allows(api_version(manifest), kind(manifest)) {
            return Err(messages::forbidden_type(kind(manifest), &at));
        }
        Ok(())
    }

    fn admit(&self, manifests: &[Value], cluster: &str) -> Result<(), String> {
        let current = self.trackers.current(self.run());
        for manifest in manifests {
            let at = format!("{}/{}", namespace(manifest), name(manifest));
            self.allow(manifest)?;
            let component = label(manifest, names::label::APP_COMPONENT).unwrap_or_default();
            let key = ResourceKey::of(manifest, cluster);
            let other = self.trackers.records(&current).iter().find(|record| {
                tracker::is_of(record, &key)
                    && !record.component.is_empty()
                    && record.component != component
                    && self.components.contains(&record.component)
                    && !record.deleted
            });
            if let Some(other) = other.filter(|_| !component.is_empty()) {
                let object = format!("{} {at}", kind(manifest));
                return Err(messages::same_object(&object, &other.component));
            }
        }
        Ok(())
    }

    /// Recorded as it is, and the live object carries the hash of it. One that somebody else changed since is put back at
    /// once: nothing is dispatched for that.
    async fn is_up_to_date(&self, manifest: &Value, cluster: &str, desired: &[&Record]) -> bool {
        let metadata_only = self.is_metadata_only();
        let record = tracker::record_of(manifest, cluster, metadata_only, false);
        let recorded = desired.iter().any(|other| {
            tracker::identity(other) == tracker::identity(&record)
                && other.raw == record.raw
                && other.component == record.component
                && !other.deleted
        });
        if !recorded || self.policies.is_read_only(manifest) {
            return recorded
                && (!self.needs_visibility_check(manifest)
                    || self.is_shown(manifest, cluster).await);
        }
        let key = ResourceKey::of(manifest, cluster);
        let Ok(at) = self.reach(cluster) else { return false };
        let live = match at.live.get(api_version(manifest), &key).await {
            Ok(Some(live)) => live,
            // What ran to its end in this run is not created again.
            Ok(None) => return self.has_completed_in_run(manifest, &key),
            Err(_) => return false,
        };
        if live.deleting || live.owner.as_ref() != Some(&self.owner) {
            return false;
        }
        let seen = record.raw.as_ref().map(|raw| self.dispatch_hash(raw.as_str(), live.version()));
        if seen.is_some_and(|seen| self.memory().lock().as_dispatched.get(&key) == Some(&seen)) {
            return true;
        }
        let value = self.decoded.decode(&key, &live);
        let options = self.options(Stage::Update);
        // A rule that cannot be followed is reported when the state is kept.
        let is_ours = plan::prepare(manifest, Some(&value), &options)
            .map_or(true, |prepared| plan::has_same_hash(&prepared, &value));
        if is_ours
            && let Some(seen) = seen
            && statekeep::hold(self, manifest, cluster, &live.manager).await
        {
            self.memory().lock().as_dispatched.insert(key, seen);
        }
        is_ours
    }

    /// Everything that decides whether an object is as it was dispatched, as a hash.
    fn dispatch_hash(&self, manifest: &str, version: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (manifest, version, &self.policies).hash(&mut hasher);
        hasher.finish()
    }

    /// Records manifests in a copy of the trackers: what they become even if a request failed.
    async fn record(&self, manifests: &[Value], cluster: &str) -> (Trackers, Result<(), ApiError>) {
        let mut trackers = self.trackers.clone();
        let recorded = self.record_in(&mut trackers, manifests, cluster).await;
        (trackers, recorded)
    }

    async fn record_in(
        &self,
        trackers: &mut Trackers,
        manifests: &[Value],
        cluster: &str,
    ) -> Result<(), ApiError> {
        let metadata_only = self.is_metadata_only();
        let (mut root, mut current): (Vec<Record>, Vec<Record>) = Default::default();
        for manifest in manifests {
            let strategy = self.policies.gc_strategy(manifest);
            let skip = strategy == GcStrategy::Never;
            let record = tracker::record_of(manifest, cluster, metadata_only, skip);
            if strategy == GcStrategy::OnAppUpdate { &mut current } else { &mut root }.push(record);
        }
        let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
        let run = self.run();
        // The tracker of the run exists even if everything went to the root: it says that the run dispatched.
        trackers.record_in_root(io, store, run.revision, root).await?;
        let keys: Vec<ResourceKey> = current.iter().map(tracker::key_of).collect();
        let name = trackers.record_in_current(io, store, run, current).await?;
        // A rule kept it for good before, the rules of now do not: what the root says of it is out of date.
        trackers.drop_from_root(io, store, &name, &keys).await?;
        let generation = trackers.generation(&name);
        let stale = generation.is_some_and(|generation| generation != run.generation);
        if stale && run.publish_version.is_empty() {
            trackers.relabel(io, store, &name, Some(run.generation)).await?;
        }
        Ok(())
    }

    async fn apply_all(
        &self,
        manifests: &[Value],
        cluster: &str,
        dry_run: bool,
    ) -> Result<(), Vec<String>> {
        let width = self.ctx.settings.dispatch_concurrency.max(1);
        let mut writes = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            writes.push(self.apply(manifest, cluster, Stage::Update, dry_run).boxed());
        }
        let results: Vec<_> = stream::iter(writes).buffered(width).collect().await;
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}
