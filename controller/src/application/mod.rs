//! One reconcile of one Application: facts are read from the caches, each phase decides, effects follow, and the status is
//! written once at the end.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/application/application_controller.go`. This file loads the facts and
//! branches into deletion or reconcile; `settled.rs` ends a reconcile that has nothing to do;
//! `reconcile.rs` writes the status; `phases.rs` runs the
//! phases between them. A folder holds one phase: `facts`, `policies`, `revision`, `workflow`, `dispatch`, `converge`; the
//! finalizer and failed reconciles are in `lifecycle`.

pub mod actors;
pub(crate) mod authors;
pub mod component;
pub mod context;
pub mod converge;
pub mod dispatch;
pub mod facts;
pub mod identity;
pub mod lifecycle;
pub mod memory;
mod phases;
pub mod placement;
pub(crate) mod policies;
pub mod readiness;
mod reconcile;
pub(crate) mod refresh;
pub mod release;
pub mod revision;
pub mod session;
pub mod settled;
pub mod status;
pub mod trackers;
pub mod workflow;
pub mod workflow_owner;
pub(crate) mod write;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use vela_api::Application;
use vela_api::names::{annotation, label};
use vela_apply::Owner;
use vela_cluster::packed::PackError;
use vela_cluster::{ApiError, Identity};

use crate::application::context::AppContext;
use crate::cached::{Cached, Outline};
use crate::evaluation;
use crate::fleet::bucket_label;
use crate::messages;
use crate::queue::{Key, Next};

use lifecycle::failure::{Failed, fail};
use lifecycle::{conflict, finalizer, legacy, planned};
use reconcile::Reconcile;
use session::Session;
use workflow_owner::OwnerKind;

/// Reconciles an Application.
///
/// # Errors
/// Requests about the Application itself failed; it is reconciled again.
pub async fn reconcile(ctx: &AppContext, key: &Key) -> Result<Next, ApiError> {
    let Some(app) = ctx.apps.get(key) else {
        ctx.queue.take_triggered(key);
        ctx.forget(key);
        return Ok(Next::Done);
    };
    let (account, generation) = (ctx.account(key), app.generation.unwrap_or_default());
    // A deletion is never paused: it has to end, however slow the templates of the Application are.
    if !app.outline.is_deleting
        && let Some(left) = account.pauses(generation)
    {
        return Ok(Next::After(left));
    }
    // The future of a whole reconcile is large: on the heap it does not count on every worker's
    // stack.
    let work = Box::pin(reconcile_within(ctx, key, app));
    evaluation::within(account, generation, work).await
}

/// Whether an Application is reconciled again and again, and not only when something happens to it.
pub(crate) fn recurs(ctx: &AppContext, app: &Outline) -> bool {
    ctx.settings.handles(app)
        && !app.is_paused
        // One that somebody else's finalizer holds is over here.
        && (!app.is_deleting || app.has_finalizer)
}

/// One reconcile, within the budget of one.
async fn reconcile_within(
    ctx: &AppContext,
    key: &Key,
    cached: Arc<Cached>,
) -> Result<Next, ApiError> {
    // Taken before anything is read: a change that comes from here on queues the key again.
    let was_triggered = ctx.queue.take_triggered(key);
    if !ctx.settings.handles(&cached.outline) {
        return Ok(Next::Done);
    }
    let Some(mut app) = ctx.application(key).await? else { return Ok(Next::Done) };
    if cached.outline.is_paused {
        if let Some(planner) = &ctx.planner
            && let Some(stored) = Box::pin(planned::plan(planner, &ctx.io, &app)).await?
        {
            ctx.keep(&stored);
        }
        return Ok(Next::Done);
    }
    if was_triggered {
        // Not forgotten before a reconcile came to its end.
        let memory = ctx.memory(key);
        if let Some(settled) = &mut memory.lock().settled {
            // What happened while the last reconcile was in flight is not part of what that reconcile saw.
            settled.triggered |= !settled.alone;
        }
    }
    let deleting = app.metadata.deletion_timestamp.is_some();
    if !deleting && let Some(left) = finalizer::readd_delay(ctx, key, &app) {
        return Ok(Next::After(left));
    }
    if !deleting
        && finalizer::is_present(&app)
        && let Some(next) = Box::pin(settled::Subject::new(ctx, key.clone(), &app).rest()).await?
    {
        return Ok(next);
    }
    // Never for one that is being deleted: the API server takes no new finalizer then.
    let fresh = !deleting && !finalizer::is_present(&app);
    if fresh {
        // Before anything is created: without the finalizer a deletion would leave the objects behind.
        app = match finalizer::add(ctx, &app).await {
            Err(error) if error.is_conflict() => return conflict::requeue(ctx, &app).await,
            other => other?,
        };
    }
    let (mut session, bad_policies) = match session(ctx, &app) {
        Ok(found) => found,
        Err(error) => {
            let failed = Failed::synced(error.to_string());
            return fail(ctx, &app, app.status.clone(), failed).await;
        }
    };
    // An Application of the same name was deleted and created again, or restored from a backup: its trackers follow it.
    for name in session.trackers.of_other_uid() {
        let (io, store) = (&*ctx.io, &*ctx.trackers);
        session.trackers.relabel(io, store, &name, None).await?;
    }
    if deleting {
        session.actors = identity::of(ctx, &app).await?.identity.into();
        // Policies that protect objects count as they were when the objects were deployed, not as the last edit left them.
        if let Some(spec) = policies::deployed(ctx, &app) {
            (session.policies, _) = facts::resource_policies(&app.metadata, &spec);
            app.spec = spec;
        }
        return finalizer::delete(&mut session, &app).await;
    }
    if let Some(text) = bad_policies {
        let failed = Failed::synced(messages::bad_policy(&text)).for_good();
        return fail(ctx, &app, app.status.clone(), failed).await;
    }
    if legacy::is_obsolete(&session, &app) || legacy::has_early_stamp(&app) {
        let noted = legacy::version_patch(&app, &ctx.settings.version);
        app = match write::patch(ctx, &app, &noted).await {
            Err(error) if error.is_conflict() => return conflict::requeue(ctx, &app).await,
            other => other?,
        };
    }
    let mut turn = Reconcile::begin(session, app, fresh).await?;
    Box::pin(turn.run()).await
}

/// Reads what dispatching needs: identity, trackers, resource policies. An error of a policy is returned in addition.
fn session<'c>(
    ctx: &'c AppContext,
    app: &Application,
) -> Result<(Session<'c>, Option<String>), PackError> {
    let _time = ctx.metrics.stage("create-app-handler");
    ctx.metrics.tracker_lists.with_label_values(&["application"]).inc();
    let metadata = &app.metadata;
    let owner = Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let gates = &ctx.settings.gates;
    let tracker_owner = trackers::TrackedApplication {
        name: owner.name.clone(),
        namespace: owner.namespace.clone(),
        uid: metadata.uid.clone().unwrap_or_default(),
        shard: facts::label(metadata, label::SCHEDULED_SHARD_ID).to_owned(),
        bucket: bucket_label::of_new(
            &ctx.settings,
            &Key::new(owner.namespace.clone(), owner.name.clone()),
        ),
    };
    // Upstream's gates for its two compressions; zstd counts where both are on.
    let compression = if gates.zstd_resource_tracker {
        "zstd"
    } else if gates.gzip_resource_tracker {
        "gzip"
    } else {
        ""
    };
    let trackers =
        trackers::Trackers::read(&ctx.trackers, tracker_owner, compression, ctx.clusters.is_on())?;
    let clusters = ctx.clusters.snapshot();
    let (policies, bad_policies) = facts::resource_policies(metadata, &app.spec);
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let session = Session {
        ctx,
        owner_kind: OwnerKind::Application,
        about: facts::about(app),
        owner,
        stamp: None,
        // Known when there is something to do: `identity::of`.
        actors: Identity::anonymous().into(),
        policies,
        trackers,
        generation: metadata.generation.unwrap_or_default(),
        publish_version: facts::publish_version(metadata).to_owned(),
        revision: latest,
        components: app.spec.components.iter().map(|c| c.name.clone()).collect(),
        now: facts::seconds(Timestamp::now()),
        unstored: None,
        refused: None,
        run_began: None,
        last_run_began: app
            .status
            .workflow
            .as_ref()
            .and_then(|run| Some(run.start_time.as_ref()?.0)),
        completed: Mutex::default(),
        recreate_pending: std::sync::atomic::AtomicBool::new(false),
        forced: Mutex::default(),
        release_busy: std::sync::atomic::AtomicBool::new(false),
        wrote: std::sync::atomic::AtomicBool::new(false),
        decoded: session::decoded::DecodedObjects::default(),
        clusters,
        skips_unreachable: facts::annotation(metadata, annotation::UNREACHABLE) == "skip",
    };
    if ctx.clusters.is_on() && converge::more_clusters::selects(app) {
        ctx.clusters.concerns_any(&session.key());
    }
    for cluster in session.trackers.clusters() {
        ctx.clusters.concerns(&cluster, &session.key());
    }
    Ok((session, bad_policies))
}
