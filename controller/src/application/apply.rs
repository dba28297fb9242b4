//! One object made what its manifest says: the decision is [`vela_apply::plan`], here its write is sent.
//!
//! Answers for `pkg/utils/apply/apply.go`.

use std::sync::Arc;

use serde_json::Value;
use vela_apply::plan::{self, Options, Write};
use vela_apply::policy::Stage;
use vela_apply::{ResourceKey, object};
use vela_cluster::{IoError, Target};

use crate::messages;

use super::dispatch::Session;

/// Longest wait for an object that has to go before it can be made again.
const RECREATE_WAIT: std::time::Duration = std::time::Duration::from_secs(20);

/// What happened to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was as wanted.
    Unchanged,
    /// It was made.
    Created,
    /// It was changed.
    Changed,
}

impl Session<'_> {
    /// Makes one live object what its manifest says.
    ///
    /// # Errors
    /// In words.
    pub async fn apply(
        &self,
        manifest: &Value,
        cluster: &str,
        stage: Stage,
        dry_run: bool,
    ) -> Result<Applied, String> {
        let io = &self.ctx.io;
        let target = Target::of(manifest);
        let key = ResourceKey::of(manifest, cluster);
        // A kind that is not served is the caller's error, whatever the caches say.
        io.resolve(target.api_version, target.kind)
            .await
            .map_err(|error| messages::cannot("get", &error.to_string()))?;
        let cached = self
            .ctx
            .live
            .get(target.api_version, &key)
            .await
            .map_err(|error| messages::cannot("get", &error.to_string()))?;
        let mut live = cached.map(|live| live.value());
        let looks_first = self.policies.is_read_only(manifest)
            || self.policies.takes_over(manifest)
            || self.policies.is_shared(manifest);
        let mut looked = false;
        if live.is_none() && looks_first {
            live = self.look(&target).await?;
            looked = true;
        }
        loop {
            match self.write(manifest, live.as_ref(), &key, stage, dry_run).await {
                Err(Failure::Io("create", error)) if error.is_already_exists() && !looked => {
                    // Not ours, or the cache is behind: decide again on what is there.
                    live = self.look(&target).await?;
                    looked = true;
                }
                Err(Failure::Io("patch" | "update", error))
                    if (error.is_conflict() || error.is_gone()) && !looked =>
                {
                    live = self.look(&target).await?;
                    looked = true;
                }
                Err(failure) => return Err(failure.to_string()),
                Ok(applied) => return Ok(applied),
            }
        }
    }

    async fn look(&self, target: &Target<'_>) -> Result<Option<Value>, String> {
        match self.ctx.io.get(target, &self.identity).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(messages::cannot("get", &error.to_string())),
        }
    }

    async fn write(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        key: &ResourceKey,
        stage: Stage,
        dry_run: bool,
    ) -> Result<Applied, Failure> {
        let previous = self.trackers.previous(key, manifest);
        let options = Options { previous: previous.as_ref(), ..self.options(stage) };
        let prepared = plan::prepare(manifest, live, &options).map_err(|e| Failure::plan(&e))?;
        let write = plan::plan(&prepared, live, &options).map_err(|e| Failure::plan(&e))?;
        let io = &self.ctx.io;
        let target = Target::of(manifest);
        let identity = &self.identity;
        let (answer, applied) = match write {
            Write::Skip => return Ok(Applied::Unchanged),
            Write::Create(object) => (
                io.create(&object, dry_run, identity)
                    .await
                    .map_err(|e| Failure::Io("create", e))?,
                Applied::Created,
            ),
            Write::Patch { kind, body } => {
                if !dry_run && self.is_known_no_op(key, manifest, &body) {
                    return Ok(Applied::Unchanged);
                }
                let answer = io
                    .patch(&target, "", (kind, &body), dry_run, identity)
                    .await
                    .map_err(|e| Failure::Io("patch", e))?;
                let version = |object: &Value| {
                    object::str_at(object, &["metadata", "resourceVersion"]).to_owned()
                };
                if live.is_some_and(|live| version(live) == version(&answer)) && !dry_run {
                    self.remember_no_op(key, manifest, &body);
                    return Ok(Applied::Unchanged);
                }
                (answer, Applied::Changed)
            }
            Write::Replace(object) => (
                io.replace(&object, "", dry_run, identity)
                    .await
                    .map_err(|e| Failure::Io("update", e))?,
                Applied::Changed,
            ),
            Write::Recreate { .. } if dry_run => return Ok(Applied::Changed),
            Write::Recreate { uid, delete, object } => {
                (self.recreate(&target, &uid, delete, &object).await?, Applied::Changed)
            }
        };
        if !dry_run {
            self.ctx.live.wrote(target.api_version, target.kind, answer);
        }
        Ok(applied)
    }

    /// Deletes an object, waits until it is gone and makes it again.
    async fn recreate(
        &self,
        target: &Target<'_>,
        uid: &str,
        delete: bool,
        object: &Value,
    ) -> Result<Value, Failure> {
        let io = &self.ctx.io;
        if delete {
            io.delete(target, uid, Some("Background"), &self.identity)
                .await
                .map_err(|e| Failure::Io("recreate", e))?;
        }
        let deadline = tokio::time::Instant::now() + RECREATE_WAIT;
        loop {
            match io.create(object, false, &self.identity).await {
                Err(error)
                    if error.is_already_exists() && tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
                other => return other.map_err(|e| Failure::Io("recreate", e)),
            }
        }
    }

    /// A patch the server took without changing anything (it normalises quantities, drops empty fields) is not sent again.
    fn is_known_no_op(&self, key: &ResourceKey, manifest: &Value, body: &Value) -> bool {
        let memory = self.memory();
        let memory = memory.lock();
        let known = memory.no_ops.get(key);
        known.is_some_and(|known| *known == (fingerprint(manifest), fingerprint(body)))
    }

    fn remember_no_op(&self, key: &ResourceKey, manifest: &Value, body: &Value) {
        let entry = (fingerprint(manifest), fingerprint(body));
        self.memory().lock().no_ops.insert(key.clone(), entry);
    }

    fn memory(&self) -> Arc<parking_lot::Mutex<crate::context::AppMemory>> {
        self.ctx.memory(&crate::queue::Key::new(&*self.owner.namespace, &*self.owner.name))
    }
}

/// A hash of a value's text, for remembering.
#[must_use]
pub fn fingerprint(value: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Plan(String),
    #[error("{}", messages::cannot(.0, &.1.to_string()))]
    Io(&'static str, IoError),
}

impl Failure {
    fn plan(error: &plan::PlanError) -> Self {
        Self::Plan(error.to_string())
    }
}
