//! The stored ApplicationRevisions of one Application: read, and a new one made.

use std::sync::Arc;

use serde_json::Value;
use vela_api::{AppStatus, Application, ApplicationRevision};
use vela_cluster::{Identity, IoError};

use crate::context::Context;
use crate::queue::Key;
use crate::revisions::Revision;

use super::dispatch::Session;
use super::revision;

/// The revisions of an Application, as they are kept.
pub(super) struct History(Vec<Arc<Revision>>);

impl History {
    pub(super) fn of(ctx: &Context, key: &Key) -> Self {
        Self(ctx.revisions.indexed(key))
    }

    /// One of them.
    pub(super) fn open(&self, name: &str) -> Result<Option<ApplicationRevision>, String> {
        self.0.iter().find(|kept| kept.name() == name).map(|kept| kept.open()).transpose()
    }

    /// All of them.
    pub(super) fn open_all(&self) -> Result<Vec<ApplicationRevision>, String> {
        self.0.iter().map(|kept| kept.open()).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|kept| kept.name())
    }
}

/// Stores a new revision under a number nobody had. Returns its name and hash.
pub(super) async fn create(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
    spec: vela_api::revision::ApplicationRevisionSpec,
    history: &History,
    status: &AppStatus,
) -> Result<(String, String), IoError> {
    let _time = ctx.metrics.stage("apply-apprev");
    let own = Identity::default();
    let hash = vela_api::hash::application_revision(&spec);
    let latest = status.latest_revision.as_ref().map_or(0, |r| r.revision);
    let views = session.trackers.views();
    let seen = history.names().chain(views.iter().map(|tracker| tracker.revision.as_str()));
    let mut number = revision::next_number(latest, seen);
    let gates = &ctx.settings.gates;
    loop {
        let name = format!("{}-v{number}", session.owner.name);
        let mut object = revision::object(app, &name, &hash, spec.clone());
        if gates.zstd_application_revision {
            "zstd".clone_into(&mut object.spec.compression.type_);
        } else if gates.gzip_application_revision {
            "gzip".clone_into(&mut object.spec.compression.type_);
        }
        let stored = object.to_stored().map_err(|e| IoError::Transport(e.to_string()))?;
        let value = serde_json::to_value(stored).map_err(|e| IoError::Transport(e.to_string()))?;
        match ctx.io.create(&value, false, &own).await {
            Ok(answer) => {
                took(ctx, answer);
                return Ok((name, hash));
            }
            // Somebody else's object has the name, or the cache is behind: the next number is free.
            Err(error) if error.is_already_exists() => number = number.saturating_add(1),
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn took(ctx: &Context, answer: Value) {
    if let Ok(stored) = serde_json::from_value::<ApplicationRevision>(answer) {
        let _ = ctx.revisions.put(Revision::of(stored, &ctx.revision_definitions));
    }
}
