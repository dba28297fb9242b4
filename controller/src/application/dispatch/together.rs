//! Several components at once, over several clusters: tried out, recorded together, written. The result of one does not concern the
//! others, and a cluster that does not answer holds up what goes to it and nothing else.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::dispatch::{DispatchFacts, plan_dispatch};
use vela_apply::object::{is_local, kind, label, name, namespace};
use vela_cluster::{ApiError, postponed};

use super::at;
use crate::application::dispatch::error::{Denial, DispatchError, Verb, WriteError};
use crate::application::revision::store;
use crate::application::session::Session;
use crate::messages;

/// How long clusters are waited for that take longer than others.
pub const GRACE: Duration = Duration::from_secs(1);
/// How often it is checked then whether there is a newer spec.
const RECHECK: Duration = Duration::from_millis(200);

/// What is to be written of each of several components, or why nothing is.
pub type Outdated = Vec<Result<Vec<Value>, DispatchError>>;

impl<'c> Session<'c> {
    /// Finds out what is to be written of the manifests of several components, and has the API server try it out, up to `width`
    /// components at once. Nothing is recorded or written.
    pub async fn prepare_dispatch(
        &self,
        groups: &mut [Vec<Value>],
        cluster: &str,
        width: usize,
    ) -> Outdated {
        let mut outdated = Vec::with_capacity(groups.len());
        // Which component has an object in this dispatch.
        let mut taken: HashMap<ResourceKey, String> = HashMap::new();
        for group in groups.iter_mut() {
            let objects = match self.refuse_replaced(cluster) {
                Ok(()) => self.outdated(group, cluster).await,
                Err(error) => Err(error),
            };
            // Each component is admitted against what is recorded. Of two new ones with the same object neither is, yet.
            let duplicate = group.iter().find_map(|manifest| {
                let component = label(manifest, names::label::APP_COMPONENT).unwrap_or_default();
                let key = ResourceKey::of(manifest, cluster);
                let other = taken.insert(key, component.to_owned())?;
                let object =
                    format!("{} {}/{}", kind(manifest), namespace(manifest), name(manifest));
                (other != component).then_some(Denial::SameObject { object, component: other })
            });
            outdated.push(match duplicate {
                Some(denial) => Err(denial.into()),
                None => objects,
            });
        }
        self.each(&mut outdated, cluster, width, true).await;
        outdated
    }

    /// The revision of this reconcile on its way to the API server, if it is not stored yet. [`Self::record_prepared`] takes
    /// what comes of it.
    pub fn storing_revision(&mut self) -> BoxFuture<'c, Result<(), ApiError>> {
        store::save(self.ctx, self.unstored.take()).boxed()
    }

    /// Records what is outdated in all these clusters; an error replaces the objects. Nothing is recorded if the revision could not be
    /// stored, so that leaves no trace.
    pub async fn record_prepared(
        &mut self,
        all: &mut [(&str, Outdated)],
        stored: Result<(), ApiError>,
    ) {
        if let Err(error) = self.revision_stored(stored) {
            for (_, outdated) in all {
                outdated.fill(Err(error.clone()));
            }
            return;
        }
        let mut objects: Vec<(&Value, &str)> = Vec::new();
        for (cluster, outdated) in all.iter() {
            objects.extend(outdated.iter().flatten().flatten().map(|object| (object, *cluster)));
        }
        if objects.is_empty() {
            return;
        }
        // `record_in` reads the session and changes the trackers: they are taken out of it for that long.
        let mut trackers = std::mem::take(&mut self.trackers);
        let recorded = self.record_in(&mut trackers, &objects).await;
        self.trackers = trackers;
        if let Err(error) = recorded {
            let outdated = all.iter_mut().flat_map(|(_, outdated)| outdated);
            for objects in outdated.filter(|objects| objects.is_ok()) {
                *objects = Err(DispatchError::Request(error.clone()));
            }
        }
    }

    /// Writes what is recorded. Members that do not answer are given up once there is a newer spec: it would wait for them, and what
    /// became of these writes shows then.
    pub async fn write_prepared(&self, all: &mut [(&str, Outdated)], width: usize) {
        let mut left: BTreeSet<&str> = all.iter().map(|(cluster, _)| *cluster).collect();
        // Started once: each cluster that is ready is no reason to wait longer for the others.
        let mut superseded = std::pin::pin!(self.superseded());
        let mut writes = FuturesUnordered::new();
        for (cluster, outdated) in all.iter_mut() {
            let cluster: &str = cluster;
            let written = async move {
                self.each(outdated, cluster, width, false).await;
                cluster
            };
            writes.push(written.boxed());
        }
        loop {
            let members_only = !left.iter().any(|cluster| is_local(cluster));
            tokio::select! {
                written = writes.next() => match written {
                    Some(cluster) => left.remove(cluster),
                    None => break,
                },
                () = &mut superseded, if members_only => break,
            };
        }
        drop(writes);
        for (_, outdated) in all.iter_mut().filter(|(cluster, _)| left.contains(cluster)) {
            let error = WriteError::Request(Verb::Patch, given_up());
            outdated.fill(Err(DispatchError::Write(vec![error])));
        }
    }

    /// Ends when there is a newer spec than the one of this reconcile, or none any more; not before something has taken long, from
    /// now on.
    pub fn superseded(&self) -> impl Future<Output = ()> + Send {
        let (begin, key) = (Instant::now() + GRACE, self.key());
        async move {
            sleep_until(begin).await;
            // What is only planned need not be stored anywhere.
            if self.ctx.rehearsal.is_some() {
                return std::future::pending().await;
            }
            loop {
                let newest = self.ctx.apps.get(&key).and_then(|app| app.generation);
                if newest.is_none_or(|newest| newest > self.generation) {
                    return;
                }
                tokio::time::sleep(RECHECK).await;
            }
        }
    }

    /// Validates or writes the objects of several components in parallel; an error replaces the objects.
    async fn each(
        &self,
        all: &mut [Result<Vec<Value>, DispatchError>],
        cluster: &str,
        width: usize,
        dry_run: bool,
    ) {
        let mut work = Vec::new();
        for (index, objects) in all.iter().enumerate() {
            let Ok(objects) = objects else { continue };
            let done = async move {
                if dry_run {
                    let validated = self.validated(objects, cluster).await;
                    let done = self.apply_all(&validated, cluster, true).await;
                    done.map_err(DispatchError::DryRun)
                } else {
                    let objects: Vec<&Value> = objects.iter().collect();
                    let done = self.apply_all(&objects, cluster, false).await;
                    done.map_err(DispatchError::Write)
                }
            };
            work.push(done.map(move |done| (index, done)).boxed());
        }
        let done: Vec<(usize, Result<(), DispatchError>)> =
            stream::iter(work).buffered(width.max(1)).collect().await;
        for (index, done) in done {
            if let (Some(objects), Err(error)) = (all.get_mut(index), done) {
                *objects = Err(error);
            }
        }
    }

    /// The objects of a component that a dry run validates: no write is its own validation here, since all components are recorded at
    /// once.
    async fn validated<'o>(&self, objects: &'o [Value], cluster: &str) -> Vec<&'o Value> {
        let facts = self.dispatch_facts(objects, cluster).await;
        at(objects, &plan_dispatch(&DispatchFacts { was_refused: true, ..facts }).validated)
    }
}

/// A cluster was not waited for any longer: what was to be done there is put off.
#[must_use]
pub fn given_up() -> ApiError {
    let error = ApiError::Transport(messages::GIVEN_UP.to_owned());
    postponed::note(&error);
    error
}
