//! The life cycle's two ends: the finalizer that is put on first, and the deletion that waits until everything is gone.
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
use vela_cluster::{Identity, IoError, Stored, Target};

use crate::context::Context;
use crate::messages;
use crate::queue::{Key, Next};

use super::dispatch::Session;
use super::{about, gc, legacy, revision, status};

/// How long after the last event a deletion is looked at again; watches are faster.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// How long a deletion takes before the status says so. Deletion timestamps are whole seconds.
const UNTOLD: SignedDuration = SignedDuration::from_secs(2);

/// How long the finalizer stays off for the deletion to come. Who writes an Application back without it (`kubectl replace`)
/// means no deletion, and has it back soon.
const LEFT_OFF: Duration = Duration::from_secs(2);

/// Whether the Application carries our finalizer.
#[must_use]
pub fn is_on(app: &Application) -> bool {
    app.metadata.finalizers.iter().flatten().any(|f| f == finalizer::APPLICATION)
}

/// How much longer our finalizer stays off an Application that somebody took it from after its present generation was
/// handled; `None` where it belongs on at once. Taken off and deleted in the next request, an Application leaves its objects
/// where they are: whoever does that (to restore it from a backup, to hand its objects on) asks for nothing else.
pub fn stays_off(ctx: &Context, key: &Key, app: &Application) -> Option<Duration> {
    let memory = ctx.memory(key);
    let mut memory = memory.lock();
    let is_handled = app.status.observed_generation == app.metadata.generation.unwrap_or_default();
    if is_on(app) || !is_handled {
        memory.finalizer_off = None;
        return None;
    }
    let since = memory.finalizer_off.get_or_insert_with(|| {
        info!(after = ?LEFT_OFF, "the finalizer was taken off; it is put on again unless a deletion follows");
        Instant::now()
    });
    Some(LEFT_OFF.saturating_sub(since.elapsed())).filter(|left| !left.is_zero())
}

/// Puts the finalizer (and the version annotation) on. Returns the Application as stored.
///
/// # Errors
/// The API server's answer.
pub async fn put_on(ctx: &Context, app: &Application) -> Result<Application, IoError> {
    let _time = ctx.metrics.stage("add-finalizer");
    let mut finalizers = app.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer::APPLICATION.to_owned());
    let version = app.metadata.resource_version.as_deref();
    let known = revision::annotation(&app.metadata, annotation::KUBEVELA_VERSION);
    let keeps = !known.is_empty() && !legacy::has_early_stamp(app);
    let stamp = if keeps { known } else { ctx.settings.version.as_str() };
    let metadata = json!({
        "finalizers": finalizers,
        "resourceVersion": version,
        "annotations": {annotation::KUBEVELA_VERSION: stamp},
    });
    patch(ctx, app, &json!({ "metadata": metadata })).await
}

/// A merge patch of an Application; the cache takes in the answer.
///
/// # Errors
/// The API server's answer.
pub async fn patch(
    ctx: &Context,
    app: &Application,
    body: &serde_json::Value,
) -> Result<Application, IoError> {
    patch_part(ctx, app, "", body).await
}

/// A merge patch of an Application or of a subresource of it; the cache takes in the answer.
///
/// # Errors
/// The API server's answer.
pub async fn patch_part(
    ctx: &Context,
    app: &Application,
    part: &str,
    body: &serde_json::Value,
) -> Result<Application, IoError> {
    let target = target(app);
    let own = Identity::default();
    let answer = ctx.io.patch(&target, part, (PatchKind::Merge, body), false, &own).await?;
    let stored: Application = answer.read()?;
    let _ = ctx.apps.put(stored.clone());
    Ok(stored)
}

/// An Application as a target of requests.
#[must_use]
pub fn target(app: &Application) -> Target<'_> {
    Target {
        api_version: vela_api::V1BETA1,
        kind: Application::KIND,
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        name: app.metadata.name.as_deref().unwrap_or_default(),
    }
}

/// Goes on with the deletion of an Application.
///
/// # Errors
/// The API server's answer.
pub async fn delete(
    ctx: &Context,
    session: &mut Session<'_>,
    app: &Application,
) -> Result<Next, IoError> {
    if !is_on(app) {
        return Ok(Next::Done);
    }
    let collected = gc::collect(session, app, Scope::All, &[]).await;
    let mut wanted = app.status.clone();
    phase::DELETING.clone_into(&mut wanted.phase);
    let now = Timestamp::now();
    let elsewhere = session.trackers.elsewhere();
    let waits_elsewhere = collected.is_done() && !elsewhere.is_empty();
    status::set_elsewhere(&mut wanted, &elsewhere, now);
    if let Some(error) = &collected.error {
        status::set_collecting(&mut wanted, &messages::gc_failed(error), now);
    } else if !collected.waiting.is_empty() {
        status::set_collecting(&mut wanted, &messages::waiting_for(&collected.waiting), now);
    } else if waits_elsewhere {
        let text = messages::deletion_waits_elsewhere(&elsewhere);
        status::set_collecting(&mut wanted, &text, now);
    }
    if !collected.is_done() || !session.trackers.is_empty() {
        // Most deletions are over before anybody could read about them.
        let asked = app.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let lasted = asked.map_or(UNTOLD, |asked| now.duration_since(asked));
        if lasted < UNTOLD && collected.error.is_none() {
            let left = (UNTOLD - lasted).unsigned_abs().min(UNTOLD.unsigned_abs());
            return Ok(Next::After(left));
        }
        // Said once: an ever shrinking count would be a write per object.
        if app.status.phase != phase::DELETING || collected.error.is_some() || waits_elsewhere {
            write_status(ctx, app, &wanted).await?;
        }
        if waits_elsewhere {
            // A change of the trackers is heard at once.
            return Ok(Next::After(ctx.settings.resync));
        }
        return Ok(if collected.error.is_some() { Next::Failed } else { Next::After(LOOK_AGAIN) });
    }
    let _time = ctx.metrics.stage("remove-finalizer");
    if !gc::delete_revisions(session).await? {
        // Somebody else's finalizer holds a revision: it holds the Application too.
        return Ok(Next::After(LOOK_AGAIN));
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
    let last = match ctx.io.patch(&target(app), "", (PatchKind::Merge, &body), false, &own).await {
        Ok(answer) => answer.read()?,
        Err(error) if error.is_gone() => app.clone(),
        Err(error) => return Err(error),
    };
    // With nobody else's finalizer on it that was its end; the watch says so a moment later. It may have told already, and
    // of another one that took the name.
    if left.is_empty() {
        let key = Key::new(&*session.owner.namespace, &*session.owner.name);
        ctx.apps.remove(&key, last.version());
        ctx.forget(&key);
    }
    ctx.events.forget(&about(app));
    Ok(Next::Done)
}

/// How often the objects of an Application that vanished are looked at until they are gone.
const GONE_LOOKS: u32 = 40;
/// The time between two such looks.
const GONE_PAUSE: Duration = Duration::from_millis(250);

/// The Application vanished while it was worked on. A deletion that the API server decided before it saw our finalizer
/// ignores it; what this look made for the Application (`fresh`: the finalizer is from this look) goes with it.
///
/// # Errors
/// The API server's answer.
pub async fn gone(
    session: &mut Session<'_>,
    app: &Application,
    fresh: bool,
) -> Result<Next, IoError> {
    for _ in 0..GONE_LOOKS {
        if !fresh || session.trackers.is_empty() {
            break;
        }
        let collected = gc::collect(session, app, Scope::All, &[]).await;
        if !collected.is_done() {
            tokio::time::sleep(GONE_PAUSE).await;
        }
    }
    // Our own writes may have put it back into the cache after the watch told of its end.
    let key = Key::new(&*session.owner.namespace, &*session.owner.name);
    let same = |found: &Arc<Application>| found.metadata.uid == app.metadata.uid;
    if let Some(last) = session.ctx.apps.get(&key).filter(same) {
        session.ctx.apps.remove(&key, last.version());
    }
    Ok(Next::Done)
}

/// Writes a status if it differs from the stored one. Returns the Application as stored.
///
/// # Errors
/// The API server's answer; a conflict means that the Application changed meanwhile.
pub async fn write_status(
    ctx: &Context,
    app: &Application,
    wanted: &vela_api::AppStatus,
) -> Result<Option<Application>, IoError> {
    let mut wanted = wanted.clone();
    wanted.observed_generation = app.metadata.generation.unwrap_or_default();
    let Some(diff) = status::patch(&app.status, &wanted) else { return Ok(None) };
    // The reference writes the name of a new revision by itself and times that; here it goes with the rest.
    let is_renamed = app.status.latest_revision != wanted.latest_revision;
    let _time = is_renamed.then(|| ctx.metrics.stage("update-apprev-status"));
    let body = json!({
        "metadata": {"resourceVersion": app.metadata.resource_version},
        "status": diff,
    });
    let stored = patch_part(ctx, app, "status", &body).await?;
    if ctx.settings.gates.enable_application_status_metrics {
        log_status(&stored);
    }
    Ok(Some(stored))
}

/// The line that log pipelines of the gate EnableApplicationStatusMetrics wait for.
fn log_status(app: &Application) {
    let json = |value: serde_json::Result<String>| value.unwrap_or_default();
    tracing::info!(
        app = app.metadata.name,
        namespace = app.metadata.namespace,
        phase = app.status.phase,
        services = json(serde_json::to_string(&app.status.services)),
        labels = json(serde_json::to_string(&app.metadata.labels)),
        "application update"
    );
}
