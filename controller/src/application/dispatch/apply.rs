//! Applies one object: [`vela_apply::plan`] decides, this module sends the write.
//!
//! Answers for `pkg/utils/apply/apply.go`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use vela_api::names;
use vela_apply::dispatch::ExpectedWrite;
use vela_apply::plan::{self, Options, Write};
use vela_apply::policy::Stage;
use vela_apply::{Owner, ResourceKey, object};
use vela_cluster::{ApiError, Class, RawResponse, Target};

use crate::application::actors::Requests;
use crate::application::dispatch::changes::Changes;
use crate::application::dispatch::error::{Verb, WriteError};
use crate::application::session::Session;
use crate::fleet::owner_label;

/// How long a reconcile waits for an object that has to go before it can be created again; after that the watch says when.
const RECREATE_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// How often a write is decided again because the object changed in the meantime: several Applications may join those that share
/// one at the same moment.
pub(super) const MAX_REPLANS: usize = 6;

/// Kinds whose objects hold what is lost with them.
const HOLDERS: [&str; 4] =
    ["PersistentVolumeClaim", "PersistentVolume", "Namespace", "CustomResourceDefinition"];

/// What happened to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was as wanted.
    Unchanged,
    /// It was made.
    Created,
    /// It was changed; what of it, if that was drift.
    Changed(Changes),
    /// It differs and is left as it is for now.
    Left,
}

impl Session<'_> {
    /// Makes one live object equal to its manifest.
    ///
    /// # Errors
    /// It may not be written, or a request failed.
    pub async fn apply(
        &self,
        manifest: &Value,
        cluster: &str,
        stage: Stage,
        dry_run: bool,
    ) -> Result<Applied, WriteError> {
        let target = Target::of(manifest);
        let key = ResourceKey::of(manifest, cluster);
        // A cluster that cannot be reached fails here, before a cache is taken for the truth.
        self.reach(cluster).map_err(WriteError::Unreachable)?;
        let mut live = self.cached(&target, &key, stage).await?;
        if self.needs_visibility_check(manifest)
            || (live.is_none() && self.needs_live_read(manifest))
        {
            live = self.fetch_live(&target, cluster).await?;
        }
        // Bounded in rounds, not in time: each further round means that somebody else wrote in
        // between.
        let mut left = MAX_REPLANS;
        loop {
            left -= 1;
            match self.write(manifest, live.as_deref(), &key, stage, dry_run).await {
                // Not ours, the cache is behind, or others write too: decide again on what is there.
                Err(WriteError::Request(Verb::Create, error))
                    if error.is_already_exists() && left > 0 =>
                {
                    live = self.fetch_live(&target, cluster).await?;
                }
                Err(WriteError::Request(Verb::Patch | Verb::Share | Verb::Update, error))
                    if (error.is_conflict() || error.is_not_found()) && left > 0 =>
                {
                    live = self.fetch_live(&target, cluster).await?;
                }
                // The object refuses the change of a field, and its component says that it may be
                // made again.
                Err(WriteError::Request(Verb::Patch, error))
                    if error.code() == Some(422)
                        && stage == Stage::Update
                        && self.is_forced(manifest) =>
                {
                    return self.force(manifest, live.as_deref(), &key, dry_run).await;
                }
                ended => {
                    let is_write = matches!(ended, Ok(Applied::Created | Applied::Changed(_)));
                    if is_write && !dry_run {
                        self.wrote.store(true, Ordering::Relaxed);
                    }
                    return ended;
                }
            }
        }
    }

    /// What applying a manifest would send, judged by the caches.
    pub(in crate::application) async fn expected_write(
        &self,
        manifest: &Value,
        cluster: &str,
    ) -> ExpectedWrite {
        let target = Target::of(manifest);
        let key = ResourceKey::of(manifest, cluster);
        // The caches do not know what this identity may see.
        if self.needs_visibility_check(manifest) {
            return ExpectedWrite::Unknown;
        }
        let Ok(live) = self.cached(&target, &key, Stage::Update).await else {
            return ExpectedWrite::Unknown;
        };
        if live.is_none() && self.needs_live_read(manifest) {
            return ExpectedWrite::Unknown;
        }
        match self.plan(manifest, live.as_deref(), &key, Stage::Update) {
            Ok(Write::Skip) => ExpectedWrite::NoChange,
            Ok(Write::Patch { body, .. })
                if is_own_metadata_only(&body)
                    || self.is_known_no_op(&key, manifest, &body, live.as_deref()) =>
            {
                ExpectedWrite::NoChange
            }
            Ok(Write::Create(_) | Write::Patch { .. } | Write::Replace(_)) => ExpectedWrite::Atomic,
            Ok(Write::Recreate { .. }) | Err(_) => ExpectedWrite::Unknown,
        }
    }

    /// Whether the API server decides what may be read of an object: an identity sees no more of a read-only object than
    /// it is shown.
    pub(in crate::application) fn needs_visibility_check(&self, manifest: &Value) -> bool {
        self.actors.are_others() && self.policies.is_read_only(manifest)
    }

    /// Whether that identity is shown the object now.
    pub(in crate::application) async fn is_shown(&self, manifest: &Value, cluster: &str) -> bool {
        matches!(self.fetch_live(&Target::of(manifest), cluster).await, Ok(Some(_)))
    }

    fn needs_live_read(&self, manifest: &Value) -> bool {
        // These rules are about objects of others, which no cache holds.
        self.policies.is_read_only(manifest)
            || self.policies.takes_over(manifest)
            || self.policies.is_shared(manifest)
    }

    async fn cached(
        &self,
        target: &Target<'_>,
        key: &ResourceKey,
        stage: Stage,
    ) -> Result<Option<Arc<Value>>, WriteError> {
        // A kind that is not served is the caller's error, whatever the caches say.
        let unread = |error| WriteError::Request(Verb::Get, error);
        let at = self.reach(&key.cluster).map_err(WriteError::Unreachable)?;
        at.io.resolve(target.api_version, target.kind).await.map_err(unread)?;
        // Only a dispatch creates what is missing without asking why it is.
        let live = match stage.repairs() {
            true => at.live.get(target.api_version, key).await,
            false => at.live.get_sent(target.api_version, key).await,
        };
        match live.map_err(unread)? {
            Some(live) => self.shown(target.api_version, key, live).await.map_err(unread),
            None => Ok(None),
        }
    }

    pub(super) async fn fetch_live(
        &self,
        target: &Target<'_>,
        cluster: &str,
    ) -> Result<Option<Arc<Value>>, WriteError> {
        let at = self.reach_to(cluster, "get").await.map_err(WriteError::Unreachable)?;
        match at.requests().get(target).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(WriteError::Request(Verb::Get, error)),
        }
    }

    fn plan(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        key: &ResourceKey,
        stage: Stage,
    ) -> Result<Write, WriteError> {
        // A three-way patch: fields that were applied before and are no longer wanted go, those of
        // others stay.
        let previous = self.trackers.previous(key, manifest);
        let options = Options { previous: &previous, ..self.options(stage) };
        let prepared = plan::prepare(manifest, live, &options).map_err(WriteError::Plan)?;
        let write = plan::plan(&prepared, live, &options).map_err(WriteError::Plan)?;
        Ok(self.labelled(write, live))
    }

    /// A write that labels the object with its bucket, if objects are labelled.
    fn labelled(&self, write: Write, live: Option<&Value>) -> Write {
        if self.ctx.settings.label_objects { owner_label::labelled(write, live) } else { write }
    }

    async fn write(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        key: &ResourceKey,
        stage: Stage,
        dry_run: bool,
    ) -> Result<Applied, WriteError> {
        let write = self.plan(manifest, live, key, stage)?;
        let repairs = stage.repairs() && !dry_run;
        let is_known = matches!(&write, Write::Patch { body, .. }
            if self.is_known_no_op(key, manifest, body, live));
        // A patch that is known to change nothing is no drift, and must not count as a repair.
        let (fields, changes) = if repairs && !is_known && write != Write::Skip {
            let changes = Changes::of(&write, live);
            match self.may_repair(manifest, key, &write, &changes).await {
                Some(fields) => (fields, changes),
                None => return Ok(Applied::Left),
            }
        } else {
            (BTreeSet::new(), Changes::default())
        };
        let at = self.reach_to(&key.cluster, "patch").await.map_err(WriteError::Unreachable)?;
        let io = at.requests();
        let target = Target::of(manifest);
        // The watch delivers what cannot be read.
        let now = |answer: &RawResponse| if dry_run { None } else { answer.object().ok() };
        let (object, applied) = match write {
            Write::Skip => {
                self.mark_in_sync(key);
                return Ok(Applied::Unchanged);
            }
            Write::Create(object) => (
                io.create(&object, dry_run)
                    .await
                    .map(|answer| now(&answer))
                    .map_err(|e| WriteError::Request(Verb::Create, e))?,
                Applied::Created,
            ),
            Write::Patch { kind, body } => {
                if !dry_run && is_known {
                    self.mark_in_sync(key);
                    return Ok(Applied::Unchanged);
                }
                // The owner is another: this patch adds a sharer.
                let joins = live.and_then(Owner::of).is_some_and(|owner| owner != self.owner);
                let verb = if joins { Verb::Share } else { Verb::Patch };
                let object = io
                    .patch(&target, (kind, &body), dry_run)
                    .await
                    .map(|answer| now(&answer))
                    .map_err(|e| WriteError::Request(verb, e))?;
                // The API server took the patch and changed nothing.
                if let (Some(before), Some(after)) = (live, &object)
                    && version(before) == version(after)
                {
                    self.remember_no_op(key, manifest, &body, before);
                    return Ok(Applied::Unchanged);
                }
                (object, Applied::Changed(changes))
            }
            Write::Replace(object) => (
                io.replace(&object, dry_run)
                    .await
                    .map(|answer| now(&answer))
                    .map_err(|e| WriteError::Request(Verb::Update, e))?,
                Applied::Changed(changes),
            ),
            Write::Recreate { uid, delete, object } => {
                if dry_run || delete {
                    self.can_be_created(&object, io).await?;
                }
                if dry_run {
                    return Ok(Applied::Changed(Changes::default()));
                }
                (
                    now(&self.recreate(&target, &uid, delete, &object, io).await?),
                    Applied::Changed(changes),
                )
            }
        };
        self.repaired(key, &fields);
        if let Some(object) = object {
            at.live.wrote(target.api_version, target.kind, object);
        }
        Ok(applied)
    }

    /// Whether an object that refuses a change may be made again: never one that holds more than its manifest says.
    fn is_forced(&self, manifest: &Value) -> bool {
        let component = object::label(manifest, names::label::APP_COMPONENT).unwrap_or_default();
        !HOLDERS.contains(&object::kind(manifest)) && self.forced.lock().contains(component)
    }

    /// Makes an object again that refuses a change.
    async fn force(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        key: &ResourceKey,
        dry_run: bool,
    ) -> Result<Applied, WriteError> {
        let options = self.options(Stage::Update);
        // Planned as a creation: nothing of the live object is to survive.
        let prepared = plan::prepare(manifest, None, &options).map_err(WriteError::Plan)?;
        let write = plan::plan(&prepared, None, &options).map_err(WriteError::Plan)?;
        let Write::Create(new) = self.labelled(write, None) else { return Ok(Applied::Left) };
        let at = self.reach_to(&key.cluster, "patch").await.map_err(WriteError::Unreachable)?;
        self.can_be_created(&new, at.requests()).await?;
        if dry_run {
            return Ok(Applied::Changed(Changes::default()));
        }
        let uid = live.map(|live| object::str_at(live, &["metadata", "uid"])).unwrap_or_default();
        let target = Target::of(manifest);
        let made = self.recreate(&target, uid, true, &new, at.requests()).await?;
        self.wrote.store(true, Ordering::Relaxed);
        if let Ok(made) = made.object() {
            at.live.wrote(target.api_version, target.kind, made);
        }
        Ok(Applied::Changed(Changes::default()))
    }

    /// Whether the API server would make an object that is to take the place of the present one: what it refuses must not
    /// cost us that one. It refuses the name too, last of all, and what only the present one holds.
    async fn can_be_created(&self, object: &Value, io: Requests<'_>) -> Result<(), WriteError> {
        match io.create(object, true).await {
            Err(error) if is_held_by_present(&error) => Ok(()),
            Err(error) if error.class() == Class::Refused => {
                Err(WriteError::Request(Verb::Recreate, error))
            }
            // What cannot be tried out (no admission webhook answers) fails where it is made, or does not.
            _ => Ok(()),
        }
    }

    /// Deletes an object, waits until it is gone and makes it again.
    async fn recreate(
        &self,
        target: &Target<'_>,
        uid: &str,
        delete: bool,
        object: &Value,
        io: Requests<'_>,
    ) -> Result<RawResponse, WriteError> {
        if delete {
            io.delete(target, uid, Some("Background"))
                .await
                .map_err(|e| WriteError::Request(Verb::Delete, e))?;
        }
        let deadline = tokio::time::Instant::now() + RECREATE_WAIT;
        // The deletion was accepted; finalizers may take their time.
        loop {
            match io.create(object, false).await {
                Err(error)
                    if error.is_already_exists() && tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                Err(error) if error.is_already_exists() => {
                    // Something holds it: no failure, it is made when it is gone.
                    self.recreate_pending.store(true, Ordering::Relaxed);
                    let text = format!("{} {}", target.kind, target.name);
                    return Err(WriteError::Terminating(text));
                }
                other => return other.map_err(|e| WriteError::Request(Verb::Recreate, e)),
            }
        }
    }

    /// A patch the server took without changing anything (it normalises quantities, drops empty fields, fills in what items
    /// of a list leave out) is not sent again to the same content: the same patch may well heal another.
    fn is_known_no_op(
        &self,
        key: &ResourceKey,
        manifest: &Value,
        body: &Value,
        live: Option<&Value>,
    ) -> bool {
        let Some(known) = self.memory().lock().no_ops.get(key).copied() else { return false };
        live.is_some_and(|live| known == no_op(manifest, body, live))
    }

    fn remember_no_op(&self, key: &ResourceKey, manifest: &Value, body: &Value, live: &Value) {
        self.memory().lock().no_ops.insert(key.clone(), no_op(manifest, body, live));
    }
}

fn version(object: &Value) -> &str {
    object::str_at(object, &["metadata", "resourceVersion"])
}

/// A hash of a value's text, for remembering.
#[must_use]
pub fn fingerprint(value: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// By what a patch that changed nothing is known again: manifest, patch, and the live content, as hashes.
fn no_op(manifest: &Value, body: &Value, live: &Value) -> (u64, u64, u64) {
    (fingerprint(manifest), fingerprint(body), content(live))
}

/// A hash of an object without what changes by itself: its status, and the counts of its changes.
fn content(object: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let mut hash = |map: Option<&Map<String, Value>>, without: &[&str]| {
        for (key, value) in map.into_iter().flatten() {
            if !without.contains(&key.as_str()) {
                (key, value.to_string()).hash(&mut hasher);
            }
        }
    };
    hash(object.as_object(), &["metadata", "status"]);
    let metadata = object.get("metadata").and_then(Value::as_object);
    hash(metadata, &["resourceVersion", "generation", "managedFields"]);
    hasher.finish()
}

/// Whether a patch is about nothing but labels and annotations of our own domain: the revision, hashes, what was applied.
fn is_own_metadata_only(body: &Value) -> bool {
    let only = |value: &Value, keys: &[&str]| {
        value.as_object().is_some_and(|map| map.keys().all(|key| keys.contains(&key.as_str())))
    };
    // `app.oam.dev/...` and `oam.dev/...` are ours, `notoam.dev/...` is not.
    let is_ours = |key: &String| {
        let domain = key.split('/').next().unwrap_or_default();
        domain == "oam.dev" || domain.ends_with(".oam.dev")
    };
    let Some(metadata) = body.get("metadata").filter(|_| only(body, &["metadata"])) else {
        return false;
    };
    only(metadata, &["labels", "annotations"])
        && ["labels", "annotations"]
            .iter()
            .filter_map(|key| metadata.get(*key))
            .all(|marks| marks.as_object().is_some_and(|marks| marks.keys().all(is_ours)))
}

/// Whether the API server refuses an object for nothing but the one that has its name: the name itself, a port, the quota.
fn is_held_by_present(error: &ApiError) -> bool {
    // The API server gives these no reason of their own, so the text has to do.
    let text = error.to_string();
    error.is_already_exists()
        || text.contains("already allocated")
        || text.contains("exceeded quota")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn own_metadata_is_distinguished_from_content() {
        for (body, only_marks) in [
            (json!({"metadata": {"labels": {"app.oam.dev/appRevision": "a-v2"}}}), true),
            (
                json!({"metadata": {
                    "labels": {"oam.dev/render-hash": "x", "app.oam.dev/appRevision": "a-v2"},
                    "annotations": {"app.oam.dev/last-applied-time": "t"}}}),
                true,
            ),
            (json!({"metadata": {"labels": {"team": "a"}}}), false),
            (json!({"metadata": {"labels": {"evil-oam.dev/a": "a"}}}), false),
            (json!({"metadata": {"annotations": {"a.b/c": null}}}), false),
            (json!({"metadata": {"labels": null}}), false),
            (json!({"metadata": {"resourceVersion": "1", "labels": {}}}), false),
            (
                json!({"metadata": {"labels": {"oam.dev/render-hash": "x"}}, "spec": {"a": 1}}),
                false,
            ),
            (json!({"spec": {"a": 1}}), false),
        ] {
            assert_eq!(is_own_metadata_only(&body), only_marks, "{body}");
        }
    }

    #[test]
    fn content_is_all_but_what_changes_by_itself() {
        let object = json!({"kind": "A", "metadata": {"name": "a", "resourceVersion": "1"},
            "spec": {"ports": [80]}, "status": {"ready": 1}});
        let with = |pointer: &str, value: Value| {
            let mut other = object.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            content(&other)
        };
        assert_eq!(with("/status", json!({"ready": 2})), content(&object));
        assert_eq!(with("/metadata/resourceVersion", json!("2")), content(&object));
        assert_ne!(with("/spec/ports", json!([80, 81])), content(&object));
        assert_ne!(with("/metadata/name", json!("b")), content(&object));
    }
}
