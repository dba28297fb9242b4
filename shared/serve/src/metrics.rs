//! The metrics registry of a process and its `/metrics` listener, in Go's text format.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, Opts, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::health::Health;
use crate::server::{self, Limits};
use crate::tls::{self, TlsError};

pub use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec,
};

/// Buckets of the reference's own histograms (`pkg/monitor/metrics`): fine from 5 ms, up to 60 s.
pub const FINE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Buckets of client-go's request durations.
pub const REQUEST_BUCKETS: &[f64] =
    &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Buckets of client-go's work queues: powers of ten from 10 ns to 1000 s.
pub const QUEUE_BUCKETS: &[f64] =
    &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// Buckets for admission: our answers take tenths of milliseconds, the API server waits 10 s.
pub const ADMISSION_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Between two checks of whether the certificate for `/metrics` is there.
const INTERVAL: Duration = Duration::from_secs(5);
/// After so long without one it is a warning.
const WARN_AFTER: Duration = Duration::from_secs(60);

/// A metric could not be made or was registered twice: a mistake of the programmer, found by the
/// first test that builds the registry.
pub type Error = prometheus::Error;

/// The registry of one process; metrics are fields of structs that are made with it, not statics.
#[derive(Debug, Clone)]
pub struct Registry {
    registry: prometheus::Registry,
}

impl Registry {
    /// A registry with the process collector and `vela_build_info`.
    pub fn new(component: &str, version: &str) -> Result<Self, Error> {
        let registry = Self { registry: prometheus::Registry::new() };
        registry.register(prometheus::process_collector::ProcessCollector::for_self())?;
        let info = registry.int_gauge_vec(
            "vela_build_info",
            "A constant 1 with the component and its version.",
            &["component", "version"],
        )?;
        info.with_label_values(&[component, version]).set(1);
        Ok(registry)
    }

    /// Adds any collector.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), Error> {
        self.registry.register(Box::new(collector))
    }

    fn add<C: Collector + Clone + 'static>(&self, collector: C) -> Result<C, Error> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    /// A counter without labels.
    pub fn int_counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.add(IntCounter::new(name, help)?)
    }

    /// A counter with labels.
    pub fn int_counter_vec(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, Error> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge of whole numbers without labels.
    pub fn int_gauge(&self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.add(IntGauge::new(name, help)?)
    }

    /// A gauge of whole numbers with labels.
    pub fn int_gauge_vec(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, Error> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge without labels.
    pub fn gauge(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.add(Gauge::new(name, help)?)
    }

    /// A gauge with labels.
    pub fn gauge_vec(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.add(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram without labels.
    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(Histogram::with_opts(opts)?)
    }

    /// A histogram with labels.
    pub fn histogram_vec(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, Error> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(HistogramVec::new(opts, labels)?)
    }

    /// Whether the process is ready, and each condition of it: asked when metrics are.
    pub fn readiness(&self, component: &str, health: Health) -> Result<(), Error> {
        let gauge = IntGaugeVec::new(
            Opts::new(
                "vela_ready",
                "1 if a readiness condition holds; condition all: if all hold.",
            )
            .const_label("component", component),
            &["condition"],
        )?;
        self.register(Readiness { gauge, health })
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> Result<String, Error> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// The `/metrics` route, for a server of one's own.
    pub fn router(&self) -> Router {
        Router::new().route("/metrics", get(metrics)).with_state(self.clone())
    }

    /// Serves `/metrics` until the token is cancelled; with a folder over TLS, with the certificate in it, whose files are
    /// followed. Until it holds one, connections wait.
    ///
    /// # Errors
    /// The listener's.
    pub async fn serve(
        self,
        listener: TcpListener,
        certificates: Option<PathBuf>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let Some(dir) = certificates else {
            return server::serve(listener, None, self.router(), Limits::OBSERVERS, stop).await;
        };
        let pair = loop {
            match tls::wait(&dir, WARN_AFTER, INTERVAL, &stop).await {
                Ok(pair) => break pair,
                Err(TlsError::Stopped) => return Ok(()),
                Err(error) => warn!(%error, "metrics are not served without a certificate"),
            }
        };
        let resolver = tls::Resolver::new(pair);
        let config = tls::serving(Arc::clone(&resolver), None).map_err(io::Error::other)?;
        let followed = tls::follow(dir, resolver, stop.clone(), |_| ());
        let served = server::serve(listener, Some(config), self.router(), Limits::OBSERVERS, stop);
        tokio::join!(served, followed).0
    }
}

/// Names of conditions are constants of the programs: there are never many.
struct Readiness {
    gauge: IntGaugeVec,
    health: Health,
}

impl Collector for Readiness {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.reset();
        let conditions = self.health.conditions();
        let all = ("all", conditions.iter().all(|(_, holds)| *holds));
        for (condition, holds) in conditions.into_iter().chain([all]) {
            self.gauge.with_label_values(&[condition]).set(i64::from(holds));
        }
        self.gauge.collect()
    }
}

async fn metrics(State(registry): State<Registry>) -> impl IntoResponse {
    match registry.text() {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            error.to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn readiness_is_told_as_it_is() {
        let registry = Registry::new("vela-test", "0.0.0").unwrap();
        let health = Health::new();
        registry.readiness("vela-test", health.clone()).unwrap();
        let says = |condition: &str, holds: u8| {
            let line = format!(
                "vela_ready{{component=\"vela-test\",condition=\"{condition}\"}} {holds}\n"
            );
            let text = registry.text().unwrap();
            assert!(text.contains(&line), "{line}{text}");
        };
        says("all", 1);
        let certificate = health.readiness("certificate");
        says("certificate", 0);
        says("all", 0);
        certificate.pass();
        says("certificate", 1);
        says("all", 1);
        health.stopping();
        says("all", 0);
    }

    #[tokio::test]
    async fn with_a_certificate_metrics_are_served_over_tls_only() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let registry = Registry::new("vela-test", "0.0.0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving =
            tokio::spawn(registry.serve(listener, Some(dir.path().to_owned()), stop.clone()));

        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let encrypted = connector.connect(name, stream).await.unwrap();
        let answer = asked(encrypted).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("vela_build_info"), "{answer}");
        let answer = asked(TcpStream::connect(address).await.unwrap()).await;
        assert!(!answer.contains("vela_build_info"), "{answer}");
        stop.cancel();
        serving.await.unwrap().unwrap();
    }

    /// What is answered to a request for the metrics, until the connection ends.
    async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
        let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn text_has_exact_names() {
        let registry = Registry::new("vela-test", "0.0.0").unwrap();
        registry.int_counter("list_resourcetracker_num", "Lists.").unwrap().inc();
        let text = registry.text().unwrap();
        assert!(text.contains("\nlist_resourcetracker_num 1\n"), "{text}");
        assert!(text.contains("vela_build_info{component=\"vela-test\",version=\"0.0.0\"} 1"));
        assert!(text.contains("process_resident_memory_bytes"));
        assert!(registry.int_counter("list_resourcetracker_num", "Twice.").is_err());
    }
}
