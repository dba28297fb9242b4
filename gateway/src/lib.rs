//! The aggregated API `cluster.core.oam.dev`: views of the clusters that joined, and a way to their API servers for whoever may.
//!
//! Answers for `cluster-gateway` of upstream, which the command line client and VelaUX reach members through. Stateless: every
//! replica serves, none leads, and nothing that the controller does goes this way.

mod access;
mod body;
mod config;
mod discovery;
mod follow;
mod front;
mod headers;
mod identity;
mod messages;
mod metrics;
mod names;
mod openapi;
mod path;
mod proxy;
mod registry;
mod select;
mod server;
mod status;
mod streams;
mod table;
mod tunnel;
mod view;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use vela_cluster::members::{SharedRules, follow_managed};
use vela_serve::health::{Condition, Health};
use vela_serve::listen::ListenAddr;
use vela_serve::metrics::Registry as MetricsRegistry;
use vela_serve::server::Limits;
use vela_serve::vital::Vital;
use vela_serve::{process, tls};

pub use config::{Config, ConfigError, Flags};
pub use streams::StreamLimits;

use access::Access;
use metrics::Metrics;
use registry::Registry;
use server::Server;

/// How often the certificate is asked for at the start.
const CERT_INTERVAL: Duration = Duration::from_secs(1);
/// How long before the end of the drain what is left is ended in an orderly way.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until the token is cancelled, then drains. The error is one line for the operator.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    use anyhow::Context as _;

    tls::install_crypto();
    let registry = MetricsRegistry::new("vela-gateway", env!("CARGO_PKG_VERSION"))?;
    let metrics = Metrics::new(&registry)?;
    let health = Health::new();
    registry.readiness("vela-gateway", health.clone())?;
    let certificate = health.readiness("certificate");
    let authentication = health.readiness("authentication");
    let known = health.readiness("clusters");
    let tasks = TaskTracker::new();
    // Ends what must live as long as requests are answered.
    let end = CancellationToken::new();
    let _end_on_return = end.clone().drop_guard();

    let vital = Vital::start().context("cannot start threads")?;
    process::observe(&config.process, &health, &registry, (&tasks, &vital), &end).await?;

    // Not waited for: the watches try until the API server answers, and readiness waits for them.
    let options = config.kube.options(concat!("vela-gateway/", env!("CARGO_PKG_VERSION")));
    let client = vela_cluster::connect(&options).await?;
    let clusters = Arc::new(Registry::new(config.rules, config.commands.clone()));
    tasks.spawn({
        let (clusters, client, namespace) =
            (Arc::clone(&clusters), client.clone(), config.namespace.clone());
        let end = end.clone();
        async move {
            tokio::select! {
                () = clusters.follow(client, &namespace, || known.pass()) => {}
                () = end.cancelled() => {}
            }
        }
    });
    tasks.spawn({
        let (clusters, client, end) = (Arc::clone(&clusters), client.clone(), end.clone());
        async move {
            tokio::select! {
                () = follow_managed(&*clusters, client) => {}
                () = end.cancelled() => {}
            }
        }
    });
    let exchange = Arc::new(SharedRules::of(config.exchange.clone()));
    tasks.spawn({
        let (exchange, client, end) = (Arc::clone(&exchange), client.clone(), end.clone());
        async move {
            tokio::select! {
                () = exchange.follow(client) => {}
                () = end.cancelled() => {}
            }
        }
    });
    let (front, mut fronts) = tokio::sync::watch::channel(None);
    tasks.spawn(follow::front(client.clone(), front, end.clone()));

    let waited = tls::wait(&config.cert_dir, config.cert_wait, CERT_INTERVAL, &stop).await;
    let pair = match waited {
        Ok(pair) => pair,
        Err(tls::TlsError::Stopped) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let resolver = tls::Resolver::new(pair);
    tasks.spawn({
        let metrics = metrics.clone();
        let seen = move |reload: &tls::Reload<'_>| record_reload(reload, &certificate, &metrics);
        tls::follow(config.cert_dir.clone(), Arc::clone(&resolver), end.clone(), seen)
    });

    let server = Arc::new(Server {
        front: ArcSwapOption::empty(),
        registry: clusters,
        access: Access::new(client),
        metrics,
        health: health.clone(),
        limits: config.limits,
        penetrates: config.penetrates,
        privileged_groups: config.privileged_groups.clone(),
        exchange,
        closing: CancellationToken::new(),
        cut: CancellationToken::new(),
        tunnels: TaskTracker::new(),
    });
    // Nobody can be believed before it is known who the front proxy is.
    let first = tokio::select! {
        first = follow::next(&mut fronts) => first,
        () = stop.cancelled() => return Ok(()),
    };
    let Some((first, clients)) = first else { return Ok(()) };
    let tls_config = tls::serving(Arc::clone(&resolver), Some(&clients))?;
    server.front.store(Some(first));
    authentication.pass();
    tasks.spawn({
        let (server, tls_config, end) = (Arc::clone(&server), tls_config.clone(), end.clone());
        async move {
            tokio::select! {
                () = follow::renew(&server, fronts, &tls_config, &resolver) => {}
                () = end.cancelled() => {}
            }
        }
    });

    let address = ListenAddr::any(config.port);
    let listener = address
        .bind()
        .await
        .with_context(|| format!("--secure-port: cannot listen on {address}"))?
        .context("--secure-port must not be 0")?;
    info!(port = config.port, version = env!("CARGO_PKG_VERSION"), "serving clusters");

    let limits = Limits::PROXY;
    let close = CancellationToken::new();
    let closing = {
        let (server, close, health, delay) =
            (Arc::clone(&server), close.clone(), health, config.shutdown_delay);
        async move {
            stop.cancelled().await;
            // Not ready first, then, when clients have noticed, no new connections.
            health.stopping();
            tokio::time::sleep(delay).await;
            // Whoever watches goes on at another replica.
            server.closing.cancel();
            server.tunnels.close();
            close.cancel();
            let farewell = limits.drain.saturating_sub(FAREWELL);
            let _ = tokio::time::timeout(farewell, server.tunnels.wait()).await;
            server.cut.cancel();
            let left = server.tunnels.len();
            if left > 0 {
                warn!(left, "streams ended at the end of the drain");
            }
            let _ = tokio::time::timeout(FAREWELL, server.tunnels.wait()).await;
        }
    };
    let routes = server::router(Arc::clone(&server));
    let served =
        vela_serve::server::serve(listener, Some(tls_config), routes, limits, close.clone());
    let ((), served) = tokio::join!(closing, served);
    served?;
    info!("all requests answered");
    end.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

fn record_reload(reload: &tls::Reload<'_>, certificate: &Condition, metrics: &Metrics) {
    #[allow(clippy::cast_precision_loss, reason = "seconds since 1970")]
    metrics.certificate_not_after.set(reload.validity().not_after.as_second() as f64);
    reload.report_to(certificate);
}
