//! Which objects of a dispatch the Application may have, and which of them are not up to date.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, is_local, kind, label, name, namespace, set_namespace};
use vela_apply::plan;
use vela_apply::policy::Stage;
use vela_apply::tracker;
use vela_cluster::Stored;

use crate::application::converge::statekeep;
use crate::application::dispatch::error::{Denial, DispatchError};
use crate::application::session::Session;

impl Session<'_> {
    /// The manifests that have to be written. Kinds without a namespace lose theirs.
    pub(super) async fn outdated(
        &self,
        manifests: &mut [Value],
        cluster: &str,
    ) -> Result<Vec<Value>, DispatchError> {
        // The author needs the rights on a member before anything is recorded for it.
        if !is_local(cluster) {
            for verb in ["create", "patch"] {
                self.reach_to(cluster, verb).await.map_err(DispatchError::Request)?;
            }
        }
        for manifest in manifests.iter_mut() {
            if name(manifest).is_empty() {
                return Err(Denial::NoName { kind: kind(manifest).to_owned() }.into());
            }
            self.normalize_namespace(manifest, cluster).await;
        }
        self.admit(manifests, cluster)?;
        // Compared with record and cluster: an object of ours that somebody deleted is outdated,
        // too.
        let current = self.trackers.current(self.run());
        let mut outdated = Vec::new();
        for manifest in manifests.iter() {
            if !self.is_up_to_date(manifest, cluster, &current).await {
                outdated.push(manifest.clone());
            }
        }
        Ok(outdated)
    }

    /// Whether the Application may touch such an object at all; kinds that have no namespace get none.
    ///
    /// # Errors
    /// It may not.
    pub async fn permit(&self, manifest: &mut Value, cluster: &str) -> Result<(), Denial> {
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
    fn allow(&self, manifest: &Value) -> Result<(), Denial> {
        let identity =
            || (kind(manifest).to_owned(), format!("{}/{}", namespace(manifest), name(manifest)));
        let settings = &self.ctx.settings;
        // With the flag off an Application stays in its namespace, whatever rights its author has
        // elsewhere.
        if !settings.allow_cross_namespace && namespace(manifest) != self.owner.namespace {
            let (kind, object) = identity();
            return Err(Denial::Namespace { kind, object });
        }
        if !settings.allowed_types.allows(api_version(manifest), kind(manifest)) {
            let (kind, object) = identity();
            return Err(Denial::Type { kind, object });
        }
        Ok(())
    }

    pub(super) fn admit(&self, manifests: &[Value], cluster: &str) -> Result<(), Denial> {
        let current = self.trackers.current(self.run());
        for manifest in manifests {
            self.allow(manifest)?;
            // Two components with one object would overwrite each other at every reconcile. Objects
            // of no component, those of policies and steps, are exempt.
            let component = label(manifest, names::label::APP_COMPONENT).unwrap_or_default();
            let key = ResourceKey::of(manifest, cluster);
            let other = self.trackers.record_of(&current, &key).filter(|record| {
                !record.component.is_empty()
                    && record.component != component
                    && self.components.contains(&record.component)
                    && !record.deleted
            });
            if let Some(other) = other.filter(|_| !component.is_empty()) {
                let object =
                    format!("{} {}/{}", kind(manifest), namespace(manifest), name(manifest));
                return Err(Denial::SameObject { object, component: other.component.clone() });
            }
        }
        Ok(())
    }

    /// Recorded as it is, and the live object carries the hash of it. One that somebody else changed since is put back at
    /// once: nothing is dispatched for that.
    async fn is_up_to_date(&self, manifest: &Value, cluster: &str, current: &str) -> bool {
        let metadata_only = self.is_metadata_only();
        let record = tracker::record_of(manifest, cluster, metadata_only, false);
        let key = ResourceKey::of(manifest, cluster);
        let recorded = self.trackers.desired_of(current, &key).is_some_and(|other| {
            other.raw == record.raw && other.component == record.component && !other.deleted
        });
        if !recorded || self.policies.is_read_only(manifest) {
            return recorded
                && (!self.needs_visibility_check(manifest)
                    || self.is_shown(manifest, cluster).await);
        }
        // It cannot be reached: the write says why.
        let Ok(at) = self.reach(cluster) else { return false };
        let live = match at.live.get(api_version(manifest), &key).await {
            Ok(Some(live)) => live,
            // What ran to its end in this run is not created again.
            Ok(None) => return self.has_completed_in_run(manifest, &key),
            Err(_) => return false,
        };
        // Another owner, or a terminating object: applying decides what to do, not the hash.
        if live.deleting || live.owner.as_ref() != Some(&self.owner) {
            return false;
        }
        let seen = record.raw.as_ref().map(|raw| self.dispatch_hash(raw.as_str(), live.version()));
        // Preparing and hashing a manifest is most of the cost of a settled dispatch: done once for
        // each version of the object.
        if seen.is_some_and(|seen| self.memory().lock().as_dispatched.get(&key) == Some(&seen)) {
            return true;
        }
        let value = self.decoded.decode(&key, &live);
        let options = self.options(Stage::Update);
        // A rule that cannot be followed is reported when the state is kept.
        let is_ours = plan::prepare(manifest, Some(&value), &options)
            .map_or(true, |prepared| plan::has_same_hash(&prepared, &value));
        // Remembered only where applying it changed nothing.
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
}
