//! All messages for users: conditions, events, step messages.
//!
//! Texts that tools match are the reference's; where the reference says nothing useful, ours name the thing and the place.

mod clusters;
mod converge;
mod dispatch;
mod egress;
mod facts;
mod lifecycle;
mod release;
mod workflow;

use std::time::Duration;

pub(crate) use clusters::*;
pub(crate) use converge::*;
pub(crate) use dispatch::*;
pub(crate) use egress::*;
pub(crate) use facts::*;
pub(crate) use lifecycle::*;
pub(crate) use release::*;
pub(crate) use workflow::*;

/// A reconcile that has evaluated for as long as it may.
#[must_use]
pub(crate) fn budget_spent(budget: Duration) -> String {
    format!(
        "the CUE evaluation of one reconcile exceeded its {} s; it continues after a pause",
        budget.as_secs()
    )
}

/// An Application or a WorkflowRun over which processes died.
#[must_use]
pub(crate) fn set_aside(kind: &str, deaths: u32, pause: Duration) -> String {
    let pause = match pause.as_secs() / 3600 {
        1 => "an hour".to_owned(),
        hours => format!("{hours} hours"),
    };
    format!(
        "set aside: {deaths} processes of the controller died while they reconciled this {kind}; it will be retried when its \
         spec is edited, or after {pause}"
    )
}

/// What became of an Application is too large for the API server.
#[must_use]
pub(crate) fn status_too_large(error: &vela_cluster::ApiError) -> String {
    format!(
        "the status cannot be stored, and what is shown is that of an earlier reconcile: {error}"
    )
}

/// The shard of an Application is worked on by a controller outside of the fleet.
#[must_use]
pub(crate) fn foreign_shard(shard: &str, holder: &str) -> String {
    format!(
        "{holder}, which is no replica of this controller, reconciles shard {shard:?} and holds its Lease: this application is \
         not reconciled here until that Lease is released or expires"
    )
}

/// The label of an Application names a shard, and there can be no more of them.
#[must_use]
pub(crate) fn too_many_shards(shard: &str, limit: usize) -> String {
    format!(
        "labels name more than {limit} shards: {shard:?} is treated as unknown, and this application is reconciled by the \
         default pool"
    )
}

/// No replica works on the bucket of an Application.
#[must_use]
pub(crate) fn unowned(bucket: u8, holder: Option<&str>) -> String {
    let why = match holder {
        Some(holder) => {
            format!("{holder}, which holds its bucket {bucket:02x}, does not work on it")
        }
        None => format!("no replica holds its bucket {bucket:02x}"),
    };
    format!("no replica reconciles this application: {why}")
}

/// A replica works on the bucket of an Application, and not on the Application.
#[must_use]
pub(crate) fn lost_from_queue(member: &str) -> String {
    format!("no replica reconciles this application: {member} has lost it from its queue")
}

/// The label of an Application names a shard without replicas.
#[must_use]
pub(crate) fn no_shard(shard: &str) -> String {
    format!(
        "no replica of shard {shard:?} is there, and --shard-fallback=never keeps others from its applications: start one with \
         --shard-id={shard}, or change the label controller.core.oam.dev/scheduled-shard-id"
    )
}

/// Event `RestartInterval`.
#[must_use]
pub(crate) fn restarts_too_often() -> String {
    let shortest = vela_workflow::restart::SHORTEST_PAUSE.as_secs();
    format!(
        "the annotation app.oam.dev/restart-workflow requests runs without a pause between them; each starts {shortest} s \
         after the end of the last one, which is the shortest pause"
    )
}

/// An evaluation that got no thread.
#[must_use]
pub(crate) fn no_thread(waited: Duration) -> String {
    format!("no thread was free to evaluate CUE for {} s", waited.as_secs())
}

/// The revision that the status names does not exist any more.
pub(crate) const LATEST_REVISION_GONE: &str = "the latest revision does not exist";

/// Event `Parsed`.
pub(crate) const PARSED: &str = "Parsed successfully";
/// Event `Revisioned`.
pub(crate) const REVISIONED: &str = "Revisioned successfully";
/// Event `PolicyGenerated`.
pub(crate) const POLICY_GENERATED: &str = "Policy generated successfully";
/// Event `Rendered`.
pub(crate) const RENDERED: &str = "Rendered successfully";
/// Event `Applied`.
pub(crate) const WORKFLOW_FINISHED: &str = "Workflow finished";
/// Event `Deployed`.
pub(crate) const DEPLOYED: &str = "Deployed successfully";
/// A step that waits for its component.
pub(crate) const WAIT_HEALTHY: &str = "wait healthy";
/// A component whose first stage is not healthy.
pub(crate) const WAITING_FOR_PREVIOUS_STAGE: &str = "waiting for previous stage healthy";
/// A trait that is applied after the workload.
pub(crate) const PENDING_TRAIT: &str = "\u{23f3} Waiting for component to be healthy";
/// A component without workload whose traits are not well.
pub(crate) const TRAITS_NOT_HEALTHY: &str = "traits are not healthy";

/// The reconcile itself broke.
#[must_use]
pub(crate) fn reconcile_panicked(text: &str) -> String {
    format!("internal error while reconciling; no further changes were made: {text}")
}

/// The reconcile did not come to an end.
#[must_use]
pub(crate) fn reconcile_timed_out(limit: Duration) -> String {
    format!("the reconcile was stopped after {}s; no further changes were made", limit.as_secs())
}
