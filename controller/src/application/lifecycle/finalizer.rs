//! The finalizer: added before anything else, removed when a deletion has no objects left.
//!
//! Answers for `handleFinalizers` in `application_controller.go`. The finalizer is added by a patch, not by writing the
//! object back, so the generation stays what the user's write made it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;
use tracing::info;
use vela_api::Application;
use vela_api::names::{annotation, finalizer, phase};
use vela_apply::gc::Scope;
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Stored};

use crate::application::context::AppContext;
use crate::cached::Cached;
use crate::messages;
use crate::queue::{Key, Next};

use crate::application::converge::{gc, prune, removed_clusters, revisions};
use crate::application::facts;
use crate::application::lifecycle::legacy;
use crate::application::readiness::Readiness;
use crate::application::session::Session;
use crate::application::{status, write};

/// How long after the last event a deletion is checked again; watches are faster.
const REQUEUE_DELETION: Duration = Duration::from_secs(3);

/// How long a deletion takes before the status says so. Deletion timestamps are whole seconds.
const DELETION_STATUS_GRACE: SignedDuration = SignedDuration::from_secs(2);

/// How long the finalizer stays off for the deletion to come. Who writes an Application back without it (`kubectl replace`)
/// means no deletion, and has it back soon.
const READD_DELAY: Duration = Duration::from_secs(2);

/// Whether the Application carries our finalizer.
#[must_use]
pub fn is_present(app: &Application) -> bool {
    app.metadata.finalizers.iter().flatten().any(|f| f == finalizer::APPLICATION)
}

/// How much longer our finalizer stays off an Application that somebody took it from after its present generation was
/// handled; `None` where it belongs on at once. Taken off and deleted in the next request, an Application leaves its objects
/// where they are: whoever does that (to restore it from a backup, to hand its objects on) asks for nothing else.
pub fn readd_delay(ctx: &AppContext, key: &Key, app: &Application) -> Option<Duration> {
    let memory = ctx.memory(key);
    let mut memory = memory.lock();
    // A generation that was handled had our finalizer: somebody has taken it off since.
    let is_handled = app.status.observed_generation == app.metadata.generation.unwrap_or_default();
    if is_present(app) || !is_handled {
        memory.finalizer_missing_since = None;
        return None;
    }
    let since = memory.finalizer_missing_since.get_or_insert_with(|| {
        info!(after = ?READD_DELAY, "the finalizer was removed by another client; it is added again unless a deletion follows");
        Instant::now()
    });
    Some(READD_DELAY.saturating_sub(since.elapsed())).filter(|left| !left.is_zero())
}

/// Puts the finalizer (and the version annotation) on. Returns the Application as stored.
///
/// # Errors
/// The API server's answer.
pub async fn add(ctx: &AppContext, app: &Application) -> Result<Application, ApiError> {
    let _time = ctx.metrics.stage("add-finalizer");
    let mut finalizers = app.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer::APPLICATION.to_owned());
    let version = app.metadata.resource_version.as_deref();
    let known = facts::annotation(&app.metadata, annotation::KUBEVELA_VERSION);
    // The version that handled it first stays: migrations go by it.
    let keeps = !known.is_empty() && !legacy::has_early_stamp(app);
    let stamp = if keeps { known } else { ctx.settings.version.as_str() };
    let metadata = json!({
        "finalizers": finalizers,
        "resourceVersion": version,
        "annotations": {annotation::KUBEVELA_VERSION: stamp},
    });
    write::patch(ctx, app, &json!({ "metadata": metadata })).await
}

/// Goes on with the deletion of an Application.
///
/// # Errors
/// The API server's answer.
pub async fn delete(session: &mut Session<'_>, app: &Application) -> Result<Next, ApiError> {
    let ctx = session.ctx;
    if !is_present(app) {
        return Ok(Next::Done);
    }
    // Everything that trackers record, whatever the spec says now.
    let collected = gc::collect(session, app, Scope::All, &[]).await;
    let mut wanted = app.status.clone();
    phase::DELETING.clone_into(&mut wanted.phase);
    let now = Timestamp::now();
    let elsewhere = session.trackers.elsewhere();
    // Done here, but records of clusters that this controller does not manage are left.
    let waits_elsewhere = collected.is_done() && !elsewhere.is_empty();
    status::set_elsewhere(&mut wanted, &elsewhere, now);
    let troubles = removed_clusters::troubles(session, (&[], false));
    status::set_clusters(&mut wanted, (troubles, String::new()), now);
    let waits_elsewhere = waits_elsewhere
        || (collected.error.is_none()
            && collected.waiting.is_empty()
            && !collected.unavailable.is_empty());
    prune::report(ctx, app, &collected.held, &mut wanted, now);
    let asks =
        collected.error.is_none() && collected.waiting.is_empty() && !collected.held.is_empty();
    // The most urgent reason is reported; one is enough to know what to do.
    let waits = if let Some(error) = &collected.error {
        Some(messages::gc_failed(error))
    } else if !collected.releases.is_empty() {
        Some(messages::waiting_for_releases(&collected.releases))
    } else if !collected.waiting.is_empty() {
        Some(messages::waiting_for(&collected.waiting))
    } else if !collected.unavailable.is_empty() {
        Some(messages::waiting_for_clusters(&collected.unavailable))
    } else {
        waits_elsewhere.then(|| messages::deletion_waits_elsewhere(&elsewhere))
    };
    if let Some(waits) = waits {
        Readiness::collecting(&waits).put(&mut wanted, now);
    }
    if !collected.is_done() || !session.trackers.is_empty() {
        // Most deletions are over before anybody could read about them.
        let asked = app.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let lasted = asked.map_or(DELETION_STATUS_GRACE, |asked| now.duration_since(asked));
        if lasted < DELETION_STATUS_GRACE && collected.error.is_none() {
            let left = (DELETION_STATUS_GRACE - lasted)
                .unsigned_abs()
                .min(DELETION_STATUS_GRACE.unsigned_abs());
            return Ok(Next::After(left));
        }
        // Said once: an ever shrinking count would be a write per object.
        if app.status.phase != phase::DELETING
            || collected.error.is_some()
            // What a person has to act on is written even so.
            || waits_elsewhere
            || asks
        {
            write::write_status(ctx, app, &wanted).await?;
        }
        if collected.recheck {
            return Ok(Next::After(REQUEUE_DELETION));
        }
        if waits_elsewhere || asks {
            // A change of the trackers is heard at once.
            return Ok(Next::Resync(ctx.settings.resync));
        }
        return Ok(if collected.error.is_some() {
            Next::Failed
        } else {
            Next::After(REQUEUE_DELETION)
        });
    }
    let _time = ctx.metrics.stage("remove-finalizer");
    if !revisions::delete_revisions(session).await? {
        // Somebody else's finalizer holds a revision: it holds the Application too.
        return Ok(Next::After(REQUEUE_DELETION));
    }
    let left: Vec<_> = app
        .metadata
        .finalizers
        .iter()
        .flatten()
        .filter(|f| *f != finalizer::APPLICATION && *f != finalizer::ORPHAN_RESOURCE)
        .collect();
    let body = json!({"metadata": {
        "finalizers": left, "resourceVersion": app.metadata.resource_version}});
    let own = Identity::default();
    let last =
        // As the controller: the author may have lost his rights since.
        match ctx.io.patch(&write::target(app), "", (PatchKind::Merge, &body), false, &own).await {
            Ok(answer) => answer.read()?,
            Err(error) if error.is_not_found() => app.clone(),
            Err(error) => return Err(error),
        };
    // If no other finalizer is left, the Application is now gone; the watch event follows a moment later. It may have come already, and
    // of another one that took the name.
    if left.is_empty() {
        let key = session.key();
        ctx.drop(&key, last.version());
        ctx.forget(&key);
    }
    // An Application of the same name starts with events of its own.
    ctx.events.forget(&facts::about(app));
    Ok(Next::Done)
}

/// How often the objects of an Application that vanished are checked until they are gone.
const VANISHED_CHECKS: u32 = 40;
/// The time between two such reconciles.
const VANISHED_INTERVAL: Duration = Duration::from_millis(250);

/// The Application vanished while it was worked on. A deletion that the API server decided before it saw our finalizer
/// ignores it; what this reconcile made for the Application (`fresh`: the finalizer is from this reconcile) goes with it.
///
/// # Errors
/// The API server's answer.
pub async fn vanished(
    session: &mut Session<'_>,
    app: &Application,
    fresh: bool,
) -> Result<Next, ApiError> {
    // It is no watch that ends this: without the Application nobody would be woken.
    for _ in 0..VANISHED_CHECKS {
        if !fresh || session.trackers.is_empty() {
            break;
        }
        let collected = gc::collect(session, app, Scope::All, &[]).await;
        if !collected.is_done() {
            tokio::time::sleep(VANISHED_INTERVAL).await;
        }
    }
    // Our own writes may have put it back into the cache after its deletion event.
    let key = session.key();
    let same = |found: &Arc<Cached>| app.metadata.uid.as_deref().unwrap_or_default() == &*found.uid;
    if let Some(last) = session.ctx.apps.get(&key).filter(same) {
        session.ctx.drop(&key, last.version());
    }
    Ok(Next::Done)
}
