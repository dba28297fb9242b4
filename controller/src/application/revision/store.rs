//! The stored ApplicationRevisions of one Application: reads them and creates new ones.
//!
//! Whoever may write them could have the Application deploy anything, so each has a stamp: of the author of the Application as
//! which the controller made it, or of the user who wrote it. What one without a valid stamp says is compared, but not used.

use std::sync::Arc;

use serde_json::Value;
use tracing::warn;
use vela_api::names::{annotation, label};
use vela_api::{AppStatus, Application, ApplicationRevision};
use vela_apply::plan::PatchKind;
use vela_cluster::packed::PackError;
use vela_cluster::{ApiError, Identity, RawResponse, Stored, Target};
use vela_seal::{Content, Keys, Stamp, Subject};

use crate::application::context::AppContext;
use crate::fleet::bucket_label;
use crate::queue::Key;
use crate::revisions::Revision;

use crate::application::facts;
use crate::application::revision;
use crate::application::revision::pending::PendingRevision;
use crate::application::session::Session;

/// For what the controller stamps a revision that it makes: for another kind than the webhook does for users.
const CONTROLLER_MADE: &str = "ApplicationRevision of the controller";

/// The revisions of an Application, as they are kept.
pub(in crate::application) struct History {
    all: Vec<Arc<Revision>>,
    keys: Option<Arc<Keys>>,
    /// What has no stamp at all is not believed either.
    strict: bool,
}

/// A revision that was read.
#[derive(Debug, Clone)]
pub(in crate::application) struct Former {
    pub(in crate::application) revision: ApplicationRevision,
    /// Whose work it is, if that is known.
    pub(in crate::application) author: Option<Stamp>,
    /// The controller made it: what it holds of the cluster was there.
    pub(in crate::application) by_controller: bool,
    /// What it says may be deployed.
    pub(in crate::application) believed: bool,
}

impl History {
    pub(in crate::application) fn of(ctx: &AppContext, key: &Key) -> Self {
        Self {
            all: ctx.revisions.indexed(key),
            keys: ctx.keys.get(),
            strict: ctx.settings.gates.authenticate_application,
        }
    }

    /// One of them.
    pub(in crate::application) fn open(&self, name: &str) -> Result<Option<Former>, PackError> {
        self.all.iter().find(|kept| kept.name() == name).map(|kept| self.read(kept)).transpose()
    }

    /// Those that the Application may go back to, and the present one.
    pub(in crate::application) fn open_all(
        &self,
        present: &str,
    ) -> Result<Vec<ApplicationRevision>, PackError> {
        let all = self.all.iter().map(|kept| self.read(kept));
        let counts = |former: &Result<Former, PackError>| {
            former.as_ref().map_or(true, |former| {
                let is_present = former.revision.metadata.name.as_deref() == Some(present);
                // One without a trustworthy stamp may be what the Application is at, but nothing
                // goes back to it.
                is_present || (former.believed && (former.by_controller || !self.strict))
            })
        };
        all.filter(counts).map(|former| former.map(|former| former.revision)).collect()
    }

    fn read(&self, kept: &Revision) -> Result<Former, PackError> {
        let revision = kept.open()?;
        let stamp = |kind| self.keys.as_ref().and_then(|keys| kept.author(kind, &revision, keys));
        // The controller's own stamp first: it says that the content was in the cluster.
        let by_controller = stamp(CONTROLLER_MADE);
        let (by_controller, author) = match by_controller {
            Some(author) => (true, Some(author)),
            None => (false, stamp(ApplicationRevision::KIND)),
        };
        // Without any stamp: from before stamps were written.
        let is_bare = facts::annotation(&revision.metadata, annotation::STAMP).is_empty();
        let believed = self.keys.is_none() || author.is_some() || (is_bare && !self.strict);
        Ok(Former { revision, author, by_controller, believed })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|kept| kept.name())
    }
}

impl Former {
    /// Whether it says nothing but what an Application says itself.
    pub(in crate::application) fn says(&self, app: &Application) -> bool {
        self.revision.spec.application.spec == revision::with_policy_names(&app.spec)
    }
}

/// Makes a new revision under a number nobody had, as far as is known.
pub(in crate::application) fn draft(
    ctx: &AppContext,
    session: &Session<'_>,
    app: &Application,
    spec: vela_api::revision::ApplicationRevisionSpec,
    history: &History,
    status: &AppStatus,
) -> PendingRevision {
    let hash = vela_api::hash::application_revision(&spec);
    let key = session.key();
    // Numbers that turned out to be taken, although the cache does not know by whom.
    let taken = ctx.memory(&key).lock().taken_revision;
    let latest = status.latest_revision.as_ref().map_or(0, |r| r.revision).max(taken);
    let heads = session.trackers.heads();
    // The tracker of this run may have been stored although its revision was not: its number is still free.
    let present = session.trackers.current(session.run());
    let earlier = heads.iter().filter(|tracker| tracker.name != present);
    let seen = history.names().chain(earlier.map(|tracker| tracker.revision.as_str()));
    let number = revision::next_number(latest, seen);
    let name = format!("{}-v{number}", session.owner.name);
    let mut object = revision::object(app, &name, &hash, spec);
    // Only the controller says which bucket it is in: what is there is the Application's.
    let labels = object.metadata.labels.get_or_insert_default();
    labels.remove(label::BUCKET);
    labels.extend(
        bucket_label::of_new(&ctx.settings, &key).map(|bucket| (label::BUCKET.to_owned(), bucket)),
    );
    let gates = &ctx.settings.gates;
    if gates.zstd_application_revision {
        "zstd".clone_into(&mut object.spec.compression.type_);
    } else if gates.gzip_application_revision {
        "gzip".clone_into(&mut object.spec.compression.type_);
    }
    let author = session.stamp.clone().unwrap_or_default();
    PendingRevision { name, hash, object, author }
}

/// Stores a revision. That the name is taken, by somebody else's object or because the cache is behind, is remembered: the
/// next reconcile takes another number.
pub(in crate::application) async fn save(
    ctx: &AppContext,
    unstored: Option<PendingRevision>,
) -> Result<(), ApiError> {
    let Some(PendingRevision { name, object, author, .. }) = unstored else { return Ok(()) };
    let _time = ctx.metrics.stage("apply-apprev");
    let app = object.index();
    let mut stored = object.to_stored().map_err(|e| ApiError::Transport(e.to_string()))?;
    // Stamped in the form that is stored, which is what will be verified.
    if let Some(keys) = ctx.keys.get() {
        stamp(&mut stored, &author, &keys).map_err(|e| ApiError::Transport(e.to_string()))?;
    }
    // What was made small here need not be opened to be kept.
    let _content = ctx.revision_contents.keep(&stored, object.spec);
    let value = serde_json::to_value(stored).map_err(|e| ApiError::Transport(e.to_string()))?;
    match ctx.io.create(&value, false, &Identity::default()).await {
        Ok(answer) => {
            cache_written(ctx, &answer);
            Ok(())
        }
        Err(error) => {
            // Somebody has the number: the next reconcile takes a higher one.
            if error.is_already_exists()
                && let Some(app) = app
            {
                ctx.memory(&app).lock().taken_revision = revision::number(&name);
            }
            Err(error)
        }
    }
}

/// Says on a revision, in the form in which it is stored, whose work it is. What it says of that otherwise comes from the
/// Application and is not about the revision.
fn stamp(
    revision: &mut ApplicationRevision,
    author: &Stamp,
    keys: &Keys,
) -> Result<(), serde_json::Error> {
    let content = revision.content()?;
    let metadata = &mut revision.metadata;
    let subject = Subject {
        kind: CONTROLLER_MADE,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        content,
    };
    let written = author.annotations(keys, &subject);
    let annotations = metadata.annotations.get_or_insert_default();
    // A key without a value must not stay from the Application's annotations.
    for (key, value) in written {
        match value {
            Some(value) => annotations.insert(key.to_owned(), value),
            None => annotations.remove(key),
        };
    }
    Ok(())
}

/// Notes something on a stored revision; that it could not be is reported, and found out by the next reconcile.
pub(in crate::application) async fn annotate(
    ctx: &AppContext,
    stored: &ApplicationRevision,
    body: &Value,
) {
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: ApplicationRevision::KIND,
        namespace: stored.metadata.namespace.as_deref().unwrap_or_default(),
        name: stored.metadata.name.as_deref().unwrap_or_default(),
    };
    let own = Identity::default();
    match ctx.io.patch(&target, "", (PatchKind::Merge, body), false, &own).await {
        Ok(answer) => cache_written(ctx, &answer),
        Err(error) => warn!(%error, revision = target.name, "a revision could not be annotated"),
    }
}

pub(in crate::application) fn cache_written(ctx: &AppContext, answer: &RawResponse) {
    // Into the cache at once: the next reconcile must not make the revision again.
    if let Ok(stored) = answer.read::<ApplicationRevision>() {
        let _ = ctx.revisions.put(Revision::of(stored, &ctx.revision_contents));
    }
}
