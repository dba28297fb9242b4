//! One look at one Application: facts are read from the caches, each phase decides, effects follow, and the status is
//! written once at the end.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/application/application_controller.go`. Here: the facts and the
//! life cycle; in `look.rs` whether there is anything to do, and what is written and remembered at the end; the phases between
//! them in `phases.rs`, what follows the workflow in `end`.

pub mod actors;
pub mod apply;
mod authors;
mod begin;
pub mod brake;
pub mod component;
pub mod dispatch;
mod drift;
mod end;
mod failure;
pub mod finalize;
pub mod gc;
pub mod health;
mod history;
pub mod identity;
mod legacy;
mod look;
pub(crate) mod newest;
mod opened;
pub mod parse;
mod phases;
pub mod referred;
mod resolve;
pub mod restart;
mod revise;
pub mod revision;
pub(crate) mod scoped;
pub mod statekeep;
pub mod status;
pub mod trackers;
pub mod workflow;

use std::sync::Arc;

use jiff::Timestamp;
use vela_api::application::ApplicationSpec;
use vela_api::names::{annotation, label};
use vela_api::{Application, Drift, ObjectMeta};
use vela_apply::policy::{APPLY_ONCE, ApplyOnce};
use vela_apply::{Owner, ResourcePolicies};
use vela_cluster::{Identity, IoError};

use crate::context::Context;
use crate::evaluation;
use crate::events::About;
use crate::messages;
use crate::queue::{Key, Next};

use dispatch::Session;
use failure::{Failed, give_up};
pub(crate) use failure::{set_aside, tell_broken};
use look::Look;
pub(crate) use resolve::follows_definitions;

/// Looks at an Application.
///
/// # Errors
/// Requests about the Application itself failed; it is looked at again.
pub async fn reconcile(ctx: &Context, key: &Key) -> Result<Next, IoError> {
    let Some(app) = ctx.apps.get(key) else {
        ctx.queue.take_told(key);
        ctx.forget(key);
        return Ok(Next::Done);
    };
    let (account, generation) = (ctx.account(key), app.metadata.generation.unwrap_or_default());
    if app.metadata.deletion_timestamp.is_none()
        && let Some(left) = account.pauses(generation)
    {
        return Ok(Next::After(left));
    }
    let work = Box::pin(reconcile_within(ctx, key, app));
    evaluation::within(account, generation, work).await
}

/// One look, within the budget of one.
async fn reconcile_within(
    ctx: &Context,
    key: &Key,
    app: Arc<Application>,
) -> Result<Next, IoError> {
    let told = ctx.queue.take_told(key);
    if revision::label(&app.metadata, label::PAUSE) == "true" || !is_ours(ctx, &app) {
        return Ok(Next::Done);
    }
    if told {
        // Not forgotten before a look came to its end.
        let memory = ctx.memory(key);
        if let Some(settled) = &mut memory.lock().settled {
            // What happened while the last look was under way is not part of what that look saw.
            settled.told |= !settled.alone;
        }
    }
    let deleting = app.metadata.deletion_timestamp.is_some();
    if !deleting && let Some(left) = finalize::stays_off(ctx, key, &app) {
        return Ok(Next::After(left));
    }
    let mut app = Application::clone(&app);
    let fresh = !deleting && !finalize::is_on(&app);
    if fresh {
        app = match finalize::put_on(ctx, &app).await {
            Err(error) if error.is_conflict() => return newest::met(ctx, &app).await,
            other => other?,
        };
    }
    let (mut session, bad_policies) = match session(ctx, &app) {
        Ok(found) => found,
        Err(text) => return give_up(ctx, &app, app.status.clone(), Failed::synced(text)).await,
    };
    for name in session.trackers.of_other_uid() {
        let (io, store) = (&*ctx.io, &*ctx.trackers);
        session.trackers.relabel(io, store, &name, None).await?;
    }
    if deleting {
        session.actors = identity::of(ctx, &app).await?.identity.into();
        if let Some(spec) = scoped::deployed(ctx, &app) {
            (session.policies, _) = resource_policies(&app.metadata, &spec);
            app.spec = spec;
        }
        return finalize::delete(ctx, &mut session, &app).await;
    }
    if let Some(text) = bad_policies {
        let failed = Failed::synced(messages::bad_policy(&text));
        return give_up(ctx, &app, app.status.clone(), failed).await;
    }
    if legacy::is_over(&session, &app) || legacy::has_early_stamp(&app) {
        app = match legacy::stamp(ctx, &app).await {
            Err(error) if error.is_conflict() => return newest::met(ctx, &app).await,
            other => other?,
        };
    }
    let mut look = Look::begin(ctx, session, app, fresh).await?;
    match look.rest().await? {
        Some(next) => Ok(next),
        None => look.run().await,
    }
}

/// Whether this shard, and this version of the controller, handles the Application. One that is in no shard nobody handles.
fn is_ours(ctx: &Context, app: &Application) -> bool {
    let shard = revision::label(&app.metadata, label::SCHEDULED_SHARD_ID);
    if ctx.settings.shard.as_deref().is_some_and(|ours| ours != shard) {
        return false;
    }
    let required = revision::annotation(&app.metadata, annotation::CONTROLLER_VERSION_REQUIRE);
    if required.is_empty() {
        !ctx.settings.ignore_without_version
    } else {
        required == ctx.settings.version
    }
}

/// Reads what dispatching needs: identity, trackers, resource policies. A policy that cannot be read is told beside.
fn session<'c>(
    ctx: &'c Context,
    app: &Application,
) -> Result<(Session<'c>, Option<String>), String> {
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
        shard: revision::label(metadata, label::SCHEDULED_SHARD_ID).to_owned(),
    };
    let compression = if gates.zstd_resource_tracker {
        "zstd"
    } else if gates.gzip_resource_tracker {
        "gzip"
    } else {
        ""
    };
    let trackers = trackers::Trackers::read(&ctx.trackers, tracker_owner, compression)?;
    let (policies, bad_policies) = resource_policies(metadata, &app.spec);
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let session = Session {
        ctx,
        about: about(app),
        owner,
        stamp: None,
        // Known when there is something to do: `identity::of`.
        actors: Identity::nobody().into(),
        policies,
        trackers,
        generation: metadata.generation.unwrap_or_default(),
        publish_version: revision::publish_version(metadata).to_owned(),
        revision: latest,
        components: app.spec.components.iter().map(|c| c.name.clone()).collect(),
        now: seconds(Timestamp::now()),
        unstored: None,
        refused: None,
        run_began: None,
        going: std::sync::atomic::AtomicBool::new(false),
        opened: opened::Opened::default(),
    };
    Ok((session, bad_policies))
}

/// The resource policies of a spec; beside it the first that cannot be read.
fn resource_policies(
    metadata: &ObjectMeta,
    spec: &ApplicationSpec,
) -> (ResourcePolicies, Option<String>) {
    let written = spec.policies.iter();
    let values: Vec<_> = written
        .map(|policy| (policy.type_.as_str(), parse::properties(policy.properties.as_ref())))
        .collect();
    let (mut policies, errors) =
        ResourcePolicies::parse(values.iter().map(|(ty, value)| (*ty, value.as_ref())));
    let word = revision::annotation(metadata, annotation::DRIFT);
    // Admission refuses other words; whoever came by it drifts as if nothing was said.
    policies.drift = Drift::parse(word).unwrap_or_default();
    let is_addon = !revision::label(metadata, label::ADDON_NAME).is_empty();
    if is_addon && !spec.policies.iter().any(|policy| policy.type_ == APPLY_ONCE) {
        policies.apply_once = Some(ApplyOnce { enable: true, rules: Vec::new() });
    }
    (policies, errors.first().map(ToString::to_string))
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// What an event about an Application refers to.
fn about(app: &Application) -> About {
    About {
        api_version: vela_api::V1BETA1.to_owned(),
        kind: Application::KIND.to_owned(),
        namespace: app.metadata.namespace.clone().unwrap_or_default(),
        name: app.metadata.name.clone().unwrap_or_default(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        version: app.metadata.resource_version.clone().unwrap_or_default(),
    }
}
