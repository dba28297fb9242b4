//! Leader mode: of several replicas only the one that holds the Lease works.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};
use vela_cluster::client::{ClientOptions, connect};
use vela_cluster::lease::{self, Elector, LeaseOptions, Outcome};
use vela_serve::health::Health;

use crate::application::context::AppContext;
use crate::config::{Config, Election};
use crate::liveness;

use super::ending::{OF_LEADER, Running};
use super::lease_handles::LeaseHandles;
use super::pod::{own_namespace, pod};

/// Works while it leads.
pub(super) async fn lead(
    config: &Config,
    options: &ClientOptions,
    context: Arc<AppContext>,
    lease_handles: LeaseHandles,
    stop: &CancellationToken,
    health: &Health,
) -> anyhow::Result<()> {
    let release = lease_handles.release.clone();
    let mut master = None;
    let mut election = match &config.election {
        None => None,
        Some(election) => {
            let lease = lease_options(config, election)?;
            let gauge = master.insert(context.metrics.leading.with_label_values(&[&lease.name]));
            gauge.set(0);
            // A connection belongs to the threads that made it.
            let of_lease = options.for_lease(election.renew_deadline);
            let client =
                lease_handles.vital.spawn(async move { connect(&of_lease).await }).await??;
            let of = (lease.namespace.clone(), lease.name.clone(), lease.identity.clone());
            let notes_of = (client.clone(), of);
            let (elector, leadership) = Elector::new(client, lease, Timestamp::now)?;
            // From here on nothing is written without the lease, over whatever client of the process.
            options.fence.guard(leadership.clone());
            liveness::election(health, leadership.clone());
            let running =
                // On the vital threads: workers that are busy for long must not cost the Lease.
                lease_handles.electing.spawn_on(elector.run(release.clone()), &lease_handles.vital);
            tokio::select! {
                acquired = leadership.acquired() => anyhow::ensure!(acquired, "the election ended"),
                () = stop.cancelled() => {
                    release.cancel();
                    let _ = running.await;
                    return Ok(());
                }
            }
            // Before the first reconcile: what killed the predecessor must be known when it comes
            // up.
            lease_handles.take_notes(&context, notes_of).await?;
            Some(running)
        }
    };
    if let Some(gauge) = &master {
        gauge.set(1);
    }
    let workers = Running::start(config, &context, &lease_handles, health, None)?;
    info!("leading");
    let is_lost = match &mut election {
        None => {
            stop.cancelled().await;
            false
        }
        Some(running) => tokio::select! {
            () = stop.cancelled() => false,
            ended = running => {
                error!(?ended, "the lease is lost, exiting immediately");
                true
            }
        },
    };
    // Not ready from now on, so that webhooks go to another replica.
    health.stopping();
    if let Some(gauge) = &master {
        gauge.set(0);
    }
    anyhow::ensure!(!is_lost, "the lease was lost");
    // Nobody else works on anything before the Lease is given away.
    workers.end(OF_LEADER, std::future::ready(())).await;
    release.cancel();
    if let Some(running) = election
        && let Ok(Outcome::Lost) = running.await
    {
        anyhow::bail!("the lease was lost");
    }
    Ok(())
}

/// The Lease as the flags want it.
pub(super) fn lease_options(config: &Config, election: &Election) -> anyhow::Result<LeaseOptions> {
    let namespace = own_namespace(&config.namespace)?;
    // Controllers of different versions that share a cluster elect apart, as the reference's do.
    let version = config.ignore_without_version.then_some(config.version.as_str());
    let shard = config.shard.as_deref().unwrap_or_default();
    let host = pod();
    Ok(LeaseOptions {
        lease_duration: election.lease_duration,
        renew_deadline: election.renew_deadline,
        retry_period: election.retry_period,
        ..LeaseOptions::new(namespace, lease::lease_name(version, shard), lease::identity(&host))
    })
}
