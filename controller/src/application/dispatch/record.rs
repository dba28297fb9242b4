//! Recording the objects of a dispatch in the trackers, before they are written.

use serde_json::Value;
use vela_apply::ResourceKey;
use vela_apply::object::LOCAL_CLUSTER;
use vela_apply::policy::GcStrategy;
use vela_apply::tracker::{self, Record};
use vela_cluster::ApiError;

use crate::application::session::Session;
use crate::application::trackers::Trackers;

impl Session<'_> {
    /// Records manifests in a copy of the trackers: what they become even if a request failed.
    pub(super) async fn record(
        &self,
        manifests: &[Value],
        cluster: &str,
    ) -> (Trackers, Result<(), ApiError>) {
        let mut trackers = self.trackers.clone();
        let placed: Vec<_> = manifests.iter().map(|manifest| (manifest, cluster)).collect();
        let recorded = self.record_in(&mut trackers, &placed).await;
        (trackers, recorded)
    }

    /// The same in these trackers, of manifests with their clusters.
    pub(super) async fn record_in(
        &self,
        trackers: &mut Trackers,
        manifests: &[(&Value, &str)],
    ) -> Result<(), ApiError> {
        self.record_as(trackers, manifests, self.is_metadata_only()).await
    }

    /// Records live objects of the own cluster where a dispatch would record them. What they contain is not what was dispatched.
    pub(in crate::application) async fn record_live(
        &mut self,
        objects: &[Value],
    ) -> Result<(), ApiError> {
        let mut trackers = std::mem::take(&mut self.trackers);
        let placed: Vec<_> = objects.iter().map(|object| (object, LOCAL_CLUSTER)).collect();
        let recorded = self.record_as(&mut trackers, &placed, true).await;
        self.trackers = trackers;
        recorded
    }

    async fn record_as(
        &self,
        trackers: &mut Trackers,
        manifests: &[(&Value, &str)],
        metadata_only: bool,
    ) -> Result<(), ApiError> {
        let (mut root, mut current): (Vec<Record>, Vec<Record>) = Default::default();
        for (manifest, cluster) in manifests.iter().copied() {
            let strategy = self.policies.gc_strategy(manifest);
            let skip = strategy == GcStrategy::Never;
            let record = tracker::record_of(manifest, cluster, metadata_only, skip);
            // What goes with the next version belongs to the tracker of the run. All else outlives
            // runs, in the root.
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
}
