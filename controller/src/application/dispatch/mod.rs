//! Dispatch: manifests are applied by facts, a plan, and the requests of the plan.
//!
//! Answers for `pkg/resourcekeeper/{dispatch,admission,options}.go`. `admission.rs` denies what the Application may not have and
//! drops what is up to date; [`plan_dispatch`] decides what is validated, recorded and written, and in which order; here
//! that plan is carried out. `apply.rs` writes one object, `record.rs` records them.

mod admission;
pub mod apply;
pub mod changes;
pub(in crate::application) mod completed;
pub mod error;
mod record;
pub mod together;
mod untracked;

use futures::future::{OptionFuture, join, join3};
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tracing::debug;
use vela_apply::ResourceKey;
use vela_apply::dispatch::{DispatchFacts, DispatchPlan, DryRun, ObjectFacts, plan_dispatch};
use vela_apply::object::{api_version, kind, name, set_namespace};
use vela_apply::policy::Stage;
use vela_apply::tracker;
use vela_cluster::{ApiError, Target};

use crate::application::dispatch::error::{DeleteError, Denial, DispatchError, WriteError};
use crate::application::revision::store;
use crate::application::session::Session;
use crate::application::trackers::Trackers;
use crate::application::workflow_owner::OwnerKind;

/// Objects at these positions.
fn at<'o>(objects: &'o [Value], positions: &[usize]) -> Vec<&'o Value> {
    positions.iter().filter_map(|position| objects.get(*position)).collect()
}

impl Session<'_> {
    /// Stores the revision of this reconcile, if it is not yet.
    ///
    /// # Errors
    /// The API server's answer; it is kept in `refused` too.
    pub async fn store_revision(&mut self) -> Result<(), DispatchError> {
        // Taken: whatever comes of it, it is stored at most once in a reconcile.
        let unstored = self.unstored.take();
        let stored = store::save(self.ctx, unstored).boxed().await;
        self.revision_stored(stored)
    }

    fn revision_stored(&mut self, stored: Result<(), ApiError>) -> Result<(), DispatchError> {
        if let Err(error) = stored {
            self.refused = Some(error);
        }
        match &self.refused {
            Some(error) => Err(DispatchError::Request(error.clone())),
            None => Ok(()),
        }
    }

    /// Brings the manifests of one stage of one component to a cluster.
    ///
    /// # Errors
    /// Objects are denied, or could not be written.
    pub async fn dispatch(
        &mut self,
        manifests: &mut [Value],
        cluster: &str,
    ) -> Result<(), DispatchError> {
        self.refuse_replaced(cluster)?;
        let objects = self.outdated(manifests, cluster).await?;
        if objects.is_empty() {
            return Ok(());
        }
        let plan = plan_dispatch(&self.dispatch_facts(&objects, cluster).await);
        self.execute(&plan, &objects, cluster).await
    }

    /// A cluster that was replaced is used once nothing is recorded of the one before: a record would keep it from that.
    fn refuse_replaced(&self, cluster: &str) -> Result<(), DispatchError> {
        self.refused_as_replaced(cluster).map_or(Ok(()), |error| Err(DispatchError::Request(error)))
    }

    /// Records the manifests of a component for a cluster that cannot be reached now, and writes nothing there: state-keep makes
    /// them when it answers, and until then nothing of what was there before is taken for superseded.
    ///
    /// # Errors
    /// Objects are denied, or could not be recorded.
    pub async fn record_for_later(
        &mut self,
        manifests: &mut [Value],
        cluster: &str,
    ) -> Result<(), DispatchError> {
        for manifest in manifests.iter_mut() {
            if name(manifest).is_empty() {
                return Err(Denial::NoName { kind: kind(manifest).to_owned() }.into());
            }
            // What is served there is not known; kinds that have no namespace have none anywhere.
            if self.ctx.io.is_cluster_scoped(api_version(manifest), kind(manifest)).await {
                set_namespace(manifest, "");
            }
        }
        self.admit(manifests, cluster)?;
        // Stored before the record: a tracker belongs to a revision that exists.
        self.store_revision().await?;
        let current = self.trackers.current(self.run());
        let is_recorded = |manifest: &Value| {
            let record = tracker::record_of(manifest, cluster, self.is_metadata_only(), false);
            let known = self.trackers.desired_of(&current, &ResourceKey::of(manifest, cluster));
            known.is_some_and(|it| !it.deleted && it.raw == record.raw)
        };
        if !current.is_empty() && manifests.iter().all(is_recorded) {
            return Ok(());
        }
        let (after, recorded) = self.record(manifests, cluster).await;
        self.trackers = after;
        recorded.map_err(DispatchError::Request)
    }

    /// What is known of a dispatch before anything is sent.
    async fn dispatch_facts(&self, objects: &[Value], cluster: &str) -> DispatchFacts {
        let gate = self.ctx.settings.gates.pre_dispatch_dry_run;
        let mut facts = DispatchFacts {
            objects: Vec::with_capacity(objects.len()),
            dry_run: if gate { DryRun::On } else { DryRun::Off },
            was_refused: self.memory().lock().refused,
        };
        for object in objects {
            let mut known = ObjectFacts {
                needs_visibility_check: self.needs_visibility_check(object),
                is_recorded: self.trackers.hold(&ResourceKey::of(object, cluster)),
                ..ObjectFacts::default()
            };
            if gate {
                known.expected = self.expected_write(object, cluster).await;
            }
            facts.objects.push(known);
        }
        facts
    }

    /// Carries a plan out.
    async fn execute(
        &mut self,
        plan: &DispatchPlan,
        objects: &[Value],
        cluster: &str,
    ) -> Result<(), DispatchError> {
        let first = plan.first.and_then(|first| objects.get(first));
        let unstored = self.unstored.take();
        let store = store::save(self.ctx, unstored).boxed();
        let mut ahead = None;
        let before;
        if let Some(first) = first.filter(|_| plan.validated.is_empty()) {
            // Revision, record and the write of a recorded object do not depend on each other.
            let write = plan
                .first_is_recorded
                .then(|| self.apply(first, cluster, Stage::Update, false).boxed());
            let record = self.record(objects, cluster).boxed();
            let (written, stored, (after, recorded)) =
                join3(OptionFuture::from(write), store, record).await;
            // The trackers are what the API server has, also if a request of the record failed: a later reconcile must see it.
            before = std::mem::replace(&mut self.trackers, after);
            ahead = written;
            // The number of the revision was taken: the next reconcile takes another one, whose tracker has another name. A record
            // under this name would keep the objects under a run that never was.
            if let Err(error) = self.revision_stored(stored) {
                self.roll_back(&before).await;
                return Err(error);
            }
            recorded.map_err(DispatchError::Request)?;
        } else {
            let validated = at(objects, &plan.validated);
            let (validated, stored) = join(self.apply_all(&validated, cluster, true), store).await;
            self.revision_stored(stored)?;
            if let Err(mut errors) = validated {
                // The user gets all refusals at once, so the object that would have been its own validation is validated too.
                if let Some(first) = first
                    && let Err(mut all) = self.apply_all(&[first], cluster, true).await
                {
                    all.append(&mut errors);
                    errors = all;
                }
                return Err(DispatchError::DryRun(errors));
            }
            let (after, recorded) = self.record(objects, cluster).await;
            before = std::mem::replace(&mut self.trackers, after);
            recorded.map_err(DispatchError::Request)?;
        }
        if let Some(first) = first {
            let written = match ahead {
                Some(written) => written,
                None => self.apply(first, cluster, Stage::Update, false).await,
            };
            match written {
                Ok(_) => {}
                Err(refusal) if refusal.is_refusal() => {
                    // A user corrects a refused manifest step by step. Until one is accepted, no attempt records anything.
                    self.memory().lock().refused = true;
                    self.roll_back(&before).await;
                    return Err(DispatchError::DryRun(vec![refusal]));
                }
                // Whether it was written is unknown, so the record stays.
                Err(error) => return Err(DispatchError::Write(vec![error])),
            }
        }
        // Only after the first was accepted: a manifest that is refused leaves nothing behind.
        let others = at(objects, &plan.others);
        self.apply_all(&others, cluster, false).await.map_err(DispatchError::Write)?;
        self.memory().lock().refused = false;
        Ok(())
    }

    /// Rolls back the records of a dispatch that wrote nothing. A record that cannot be rolled back is collected with its run.
    async fn roll_back(&mut self, before: &Trackers) {
        let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
        if let Err(error) = self.trackers.roll_back(io, store, before).await {
            debug!(%error, "the record of a refused dispatch could not be rolled back");
        }
    }

    async fn apply_all(
        &self,
        objects: &[&Value],
        cluster: &str,
        dry_run: bool,
    ) -> Result<(), Vec<WriteError>> {
        let width = self.ctx.settings.dispatch_concurrency.max(1);
        let mut writes = Vec::with_capacity(objects.len());
        for object in objects {
            writes.push(self.apply(object, cluster, Stage::Update, dry_run).boxed());
        }
        let results: Vec<_> = stream::iter(writes).buffered(width).collect().await;
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Deletes an object for a step. The trackers say so first, or it would be put back.
    ///
    /// # Errors
    /// The Application may not have it, or the API server's answer.
    pub async fn delete(&mut self, manifest: &Value, cluster: &str) -> Result<(), DeleteError> {
        let mut manifest = manifest.clone();
        self.permit(&mut manifest, cluster).await?;
        let manifest = &manifest;
        // Before the record: a cluster that is out of reach must not leave an object recorded as deleted.
        self.reach_to(cluster, "delete").await?;
        if self.owner_kind == OwnerKind::Application {
            let current = self.trackers.current(self.run());
            let key = ResourceKey::of(manifest, cluster);
            let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
            self.trackers.record_deleted(io, store, &current, &key).await?;
        }
        let at = self.reach(cluster)?;
        at.requests().delete(&Target::of(manifest), "", None).await?;
        Ok(())
    }
}
