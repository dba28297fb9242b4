//! The stored ApplicationRevisions of one Application: read, and a new one made.

use std::sync::Arc;

use serde_json::Value;
use tracing::warn;
use vela_api::{AppStatus, Application, ApplicationRevision};
use vela_apply::plan::PatchKind;
use vela_cluster::{Answer, Identity, IoError, Stored, Target};

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

/// A new revision that is not stored yet.
#[derive(Debug)]
pub struct Unstored {
    /// Its name.
    pub name: String,
    /// The hash of its content.
    pub hash: String,
    pub(super) object: ApplicationRevision,
}

/// Makes a new revision under a number nobody had, as far as is known.
pub(super) fn prepare(
    ctx: &Context,
    session: &Session<'_>,
    app: &Application,
    spec: vela_api::revision::ApplicationRevisionSpec,
    history: &History,
    status: &AppStatus,
) -> Unstored {
    let hash = vela_api::hash::application_revision(&spec);
    let key = Key::new(&*session.owner.namespace, &*session.owner.name);
    let taken = ctx.memory(&key).lock().taken_revision;
    let latest = status.latest_revision.as_ref().map_or(0, |r| r.revision).max(taken);
    let views = session.trackers.views();
    // The tracker of this run may have been stored beside a revision that was not: its number is still free.
    let present = session.trackers.current(session.run());
    let earlier = views.iter().filter(|tracker| tracker.name != present);
    let seen = history.names().chain(earlier.map(|tracker| tracker.revision.as_str()));
    let number = revision::next_number(latest, seen);
    let name = format!("{}-v{number}", session.owner.name);
    let mut object = revision::object(app, &name, &hash, spec);
    let gates = &ctx.settings.gates;
    if gates.zstd_application_revision {
        "zstd".clone_into(&mut object.spec.compression.type_);
    } else if gates.gzip_application_revision {
        "gzip".clone_into(&mut object.spec.compression.type_);
    }
    Unstored { name, hash, object }
}

/// Stores a revision. That the name is taken, by somebody else's object or because the cache is behind, is remembered: the
/// next look takes another number.
pub(super) async fn store(ctx: &Context, unstored: Option<Unstored>) -> Result<(), IoError> {
    let Some(Unstored { name, object, .. }) = unstored else { return Ok(()) };
    let _time = ctx.metrics.stage("apply-apprev");
    let app = object.index();
    let stored = object.to_stored().map_err(|e| IoError::Transport(e.to_string()))?;
    // What was made small here need not be opened to be kept.
    let _content = ctx.revision_contents.keep(&stored, object.spec);
    let value = serde_json::to_value(stored).map_err(|e| IoError::Transport(e.to_string()))?;
    match ctx.io.create(&value, false, &Identity::default()).await {
        Ok(answer) => {
            took(ctx, &answer);
            Ok(())
        }
        Err(error) => {
            if error.is_already_exists()
                && let Some(app) = app
            {
                ctx.memory(&app).lock().taken_revision = revision::number(&name);
            }
            Err(error)
        }
    }
}

/// Notes something on a stored revision; that it could not be is told, and found out by the next look.
pub(super) async fn annotate(ctx: &Context, stored: &ApplicationRevision, body: &Value) {
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: ApplicationRevision::KIND,
        namespace: stored.metadata.namespace.as_deref().unwrap_or_default(),
        name: stored.metadata.name.as_deref().unwrap_or_default(),
    };
    let own = Identity::default();
    match ctx.io.patch(&target, "", (PatchKind::Merge, body), false, &own).await {
        Ok(answer) => took(ctx, &answer),
        Err(error) => warn!(%error, revision = target.name, "a revision could not be annotated"),
    }
}

pub(super) fn took(ctx: &Context, answer: &Answer) {
    if let Ok(stored) = answer.read::<ApplicationRevision>() {
        let _ = ctx.revisions.put(Revision::of(stored, &ctx.revision_contents));
    }
}
