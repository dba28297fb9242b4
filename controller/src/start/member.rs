//! Fleet mode: several replicas work, each on its share, and this one is a member.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use vela_cluster::LeaseOptions;
use vela_cluster::client::{ClientOptions, connect};
use vela_serve::health::Health;

use crate::application::context::AppContext;
use crate::config::Config;
use crate::fleet::{self, Fleet, Names, Pace, Permit, Pools};

use super::ending::{OF_MEMBER, Running};
use super::leader::lease_options;
use super::lease_handles::LeaseHandles;
use super::pod::pod;

/// A member that did not join yet.
pub(super) struct Prepared {
    fleet: Arc<Fleet>,
    pace: Pace,
    lease: LeaseOptions,
    root_duration: Duration,
}

/// Before the caches are filled: they keep what this member gets when it joins.
pub(super) async fn prepare(
    config: &Config,
    (pace, pools): (Pace, Pools),
    context: &AppContext,
) -> anyhow::Result<Prepared> {
    let election = config.election.as_ref().context("--enable-leader-election is needed")?;
    let lease = lease_options(config, election)?;
    let names = Names { root: lease.name.clone() };
    let of = (&*lease.identity, &*pools.own, &*pod());
    let foreseen =
        fleet::foresee(context.io.client().clone(), (&lease.namespace, &names), of).await;
    let apps = Arc::clone(&context.apps);
    let registry = context.metrics.registry();
    let fleet = Arc::new(Fleet::new(&lease.identity, (pace, pools), apps, registry)?);
    match foreseen {
        Ok(kept) => fleet.begin_with(kept, context),
        Err(error) => warn!(%error, "Leases cannot be listed: the caches begin with everything"),
    }
    Ok(Prepared { fleet, pace, lease, root_duration: election.lease_duration })
}

impl Prepared {
    /// Works on its share, as a member of a fleet.
    pub(super) async fn share(
        self,
        config: &Config,
        options: &ClientOptions,
        context: Arc<AppContext>,
        lease_handles: LeaseHandles,
        stop: &CancellationToken,
        health: &Health,
    ) -> anyhow::Result<()> {
        let Self { fleet, pace, lease, root_duration } = self;
        let joined = health.readiness("fleet");
        // From here on nothing is written that this replica does not hold, over whatever client of the process.
        options.fence.guard_fleet(Arc::new(Permit(Arc::clone(&fleet))));
        let ours = Arc::clone(&fleet);
        context.queue.serve(Arc::new(move |key| ours.is_ours(key)));
        let ours = Arc::clone(&fleet);
        context.share.serve(Arc::new(move |key| ours.is_ours(key)));
        // What others work on waits in no queue here.
        let queues = &context.definition_queues;
        let runs = &context.runs.queue;
        for queue in [&queues.components, &queues.traits, &queues.policies, &queues.steps, runs] {
            let fleet = Arc::clone(&fleet);
            queue.serve(Arc::new(move |_| fleet.is_leading()));
        }
        let of_lease = options.for_lease(pace.renew_deadline);
        let client = lease_handles.vital.spawn(async move { connect(&of_lease).await }).await??;
        let names = Names { root: lease.name.clone() };
        let own_lease = names.member(&pod());
        let member = fleet::Options {
            namespace: lease.namespace.clone(),
            pod: pod(),
            names,
            root_duration,
            pace,
        };
        let tasks = CancellationToken::new();
        let _tasks_end_on_return = tasks.clone().drop_guard();
        let begin = fleet::start(
            (Arc::clone(&fleet), Arc::clone(&context)),
            (member, client.clone()),
            lease_handles.vital.clone(),
            tasks,
        );
        lease_handles.vital.spawn(begin).await??;
        let of = (lease.namespace.clone(), own_lease, lease.identity.clone());
        lease_handles.take_notes(&context, (client, of)).await?;
        let workers = Running::start(config, &context, &lease_handles, health, Some(&fleet))?;
        let is_lost = tokio::select! {
            () = stop.cancelled() => false,
            () = fleet.until_lost() => true,
            () = async {
                fleet.until_joined().await;
                joined.pass();
                std::future::pending::<()>().await;
            } => false,
        };
        health.stopping();
        anyhow::ensure!(!is_lost, "the Lease of this replica was taken from it");
        let hand_over = async {
            fleet.leave();
            tokio::select! {
                () = fleet.until_over() => {}
                () = fleet.until_lost() => {}
            }
        };
        workers.end(OF_MEMBER, hand_over).await;
        Ok(())
    }
}
