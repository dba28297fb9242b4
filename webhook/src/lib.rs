//! The admission server of KubeVela's control plane.
//!
//! [`run`] is the process; [`Engine`] decides reviews without any process around it. Stateless:
//! every replica serves, none leads.

mod admit;
mod application;
mod config;
mod convert;
mod decision;
mod definition;
mod drain_http1;
mod engine;
mod feed;
mod field;
mod live;
mod marker;
mod messages;
mod metrics;
mod review;
mod router;
mod shards;
mod size;
mod snapshot;
mod stamp;
mod stamp_key;
mod stamped_kind;
mod workflow_run;
mod world;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;
use vela_api::DefinitionKind;
use vela_serve::health::Health;
use vela_serve::listen::ListenAddr;
use vela_serve::metrics::Registry;
use vela_serve::pool::Pool;
use vela_serve::server::{self, Limits};
use vela_serve::vital::Vital;
use vela_serve::{memory, process, tls};

pub use admit::Admit;
pub use config::{Config, ConfigError, Flags, Scope, Settings};
pub use convert::answer as convert;
pub use decision::Decision;
pub use engine::{Endpoint, Engine, Step, endpoints};
pub use field::Cause;
pub use field::{Field, Problem, Reason, Rule};
pub use review::{Envelope, Request, decode, encode};
pub use snapshot::{Definition, Published, Snapshot};
pub use vela_cluster::Resource;
pub use world::{Access, Fact, Facts, Need, ObjectKind, World};

use live::Live;
use metrics::Metrics;
use router::{Server, router};

/// Jobs handed to the pool beyond those that run. Further reviews wait for a place, at no cost
/// beyond their body, until their deadline.
const QUEUE: usize = 64;

/// Serves until the token is cancelled, then drains. The error is one line for the operator.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    use anyhow::Context as _;

    tls::install_crypto();
    let registry = Registry::new("vela-webhook", env!("CARGO_PKG_VERSION"))?;
    let metrics = Metrics::new(&registry)?;
    let health = Health::new();
    registry.readiness("vela-webhook", health.clone())?;
    let certificate = health.readiness("certificate");
    let caches = DefinitionKind::WITH_REVISIONS.map(|kind| health.readiness(kind.resource()));
    let tasks = TaskTracker::new();
    // Ends what must live as long as requests are answered.
    let end = CancellationToken::new();
    let _end_on_return = end.clone().drop_guard();

    let vital = Vital::start().context("cannot start threads")?;
    process::observe(&config.process, &health, &registry, (&tasks, &vital), &end).await?;

    // Not waited for: the watches try until the API server answers, and readiness waits for them.
    let options = config.kube.options(concat!("vela-webhook/", env!("CARGO_PKG_VERSION")));
    let client = vela_cluster::connect(&options).await?;
    let published = Arc::new(Published::default());
    for (kind, synced) in DefinitionKind::WITH_REVISIONS.into_iter().zip(caches) {
        let (client, published) = (client.clone(), Arc::clone(&published));
        tasks.spawn(feed::follow(kind, client, published, synced, metrics.clone(), end.clone()));
    }

    if config.settings.sharding && config.settings.shards.is_empty() {
        let namespace = std::env::var("POD_NAMESPACE")
            .unwrap_or_else(|_| client.default_namespace().to_owned());
        let (client, published) = (client.clone(), Arc::clone(&published));
        tasks.spawn(shards::follow(client, namespace, published, end.clone()));
    }

    if let Some(dir) = config.stamp_key_dir.clone() {
        let is_needed = config.settings.gates.authenticate_application;
        let ready = is_needed.then(|| health.readiness("stamp-key"));
        tasks.spawn(stamp_key::follow(dir, config.settings.keys.clone(), ready, end.clone()));
    }

    let waited = tls::wait(&config.cert_dir, config.cert_wait, config.cert_interval, &stop).await;
    let pair = match waited {
        Ok(pair) => pair,
        Err(tls::TlsError::Stopped) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let resolver = tls::Resolver::new(pair);
    let watch = {
        let (certificate, metrics) = (certificate.clone(), metrics.clone());
        move |reload: &tls::Reload<'_>| record_reload(reload, &certificate, &metrics)
    };
    tasks.spawn(tls::follow(config.cert_dir.clone(), Arc::clone(&resolver), end.clone(), watch));
    let clients = config.client_ca.as_deref().map(tls::Clients::load).transpose()?;
    let tls_config = tls::serving(Arc::clone(&resolver), clients.as_ref())?;
    if let Some(clients) = clients {
        let (config, metrics) = (tls_config.clone(), metrics.clone());
        let seen = move |read: Result<(), &tls::TlsError>| {
            metrics.certificate_reads.inc();
            metrics.certificate_errors.inc_by(u64::from(read.is_err()));
        };
        tasks.spawn(clients.follow(resolver, config, end.clone(), seen));
    }

    let evaluations = memory::evaluations(config.concurrency);
    let settings = Settings { evaluation_bytes: evaluations.bytes, ..config.settings.clone() };
    let engine = Engine::new(settings, config.legacy_cue);
    let pool = Pool::new("cue", evaluations.threads, QUEUE).context("cannot start threads")?;
    let live = Live::new(client, metrics.clone());
    let server = Server::new(engine, published, pool, live, metrics, config.max_timeout);
    let address = ListenAddr::any(config.port);
    let listener = address
        .bind()
        .await
        .with_context(|| format!("--webhook-port: cannot listen on {address}"))?
        .context("--webhook-port must not be 0")?;
    info!(port = config.port, version = env!("CARGO_PKG_VERSION"), "serving admission");

    // Not ready first, then, when clients have noticed, no new connections.
    let close = CancellationToken::new();
    let routes = drain_http1::when(stop.clone(), router(Arc::new(server)));
    let closing = {
        let (close, health, delay) = (close.clone(), health.clone(), config.shutdown_delay);
        async move {
            stop.cancelled().await;
            health.stopping();
            tokio::time::sleep(delay).await;
            close.cancel();
        }
    };
    let served = server::serve(listener, Some(tls_config), routes, Limits::REVIEWS, close.clone());
    let ((), served) = tokio::join!(closing, served);
    served?;
    info!("all requests answered");
    end.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

fn record_reload(
    reload: &tls::Reload<'_>,
    certificate: &vela_serve::health::Condition,
    metrics: &Metrics,
) {
    metrics.certificate_reads.inc();
    metrics.certificate_errors.inc_by(u64::from(matches!(reload, tls::Reload::Kept(..))));
    #[allow(clippy::cast_precision_loss, reason = "seconds since 1970")]
    metrics.certificate_not_after.set(reload.validity().not_after.as_second() as f64);
    reload.report_to(certificate);
}
