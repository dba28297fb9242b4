//! `/healthz` and `/readyz` on a plain HTTP listener of their own, open before anything else.
//!
//! Liveness says that the process can answer; readiness is the conjunction of named conditions
//! (certificate, caches, leader). Upstream's are constants, so that traffic arrives before caches
//! are filled and a Pod is killed while it waits; ours say what they wait for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type States = BTreeMap<&'static str, Result<(), String>>;

#[derive(Debug, Default)]
struct Inner {
    ready: RwLock<States>,
    live: RwLock<States>,
}

/// The state of the process as probes see it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health {
    inner: Arc<Inner>,
}

/// One named condition. It starts as not met.
#[derive(Debug, Clone)]
pub struct Condition {
    inner: Arc<Inner>,
    name: &'static str,
    live: bool,
}

impl Condition {
    fn states(&self) -> &RwLock<States> {
        if self.live { &self.inner.live } else { &self.inner.ready }
    }

    /// The condition holds.
    pub fn pass(&self) {
        self.states().write().insert(self.name, Ok(()));
    }

    /// The condition does not hold; `reason` is what `/readyz?verbose` shows.
    pub fn fail(&self, reason: impl Into<String>) {
        self.states().write().insert(self.name, Err(reason.into()));
    }

    /// Whether it holds now.
    pub fn is_met(&self) -> bool {
        matches!(self.states().read().get(self.name), Some(Ok(())))
    }
}

impl Health {
    /// Nothing to wait for yet: live and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition of readiness, not met until [`Condition::pass`].
    pub fn readiness(&self, name: &'static str) -> Condition {
        let condition = Condition { inner: Arc::clone(&self.inner), name, live: false };
        condition.fail("not yet");
        condition
    }

    /// Adds a condition of liveness, met until [`Condition::fail`].
    pub fn liveness(&self, name: &'static str) -> Condition {
        let condition = Condition { inner: Arc::clone(&self.inner), name, live: true };
        condition.pass();
        condition
    }

    /// Readiness is withdrawn for good: the process is about to stop.
    pub fn stopping(&self) {
        self.inner.ready.write().insert("shutdown", Err("shutting down".to_owned()));
    }

    /// Every condition of readiness holds.
    pub fn is_ready(&self) -> bool {
        self.inner.ready.read().values().all(Result::is_ok)
    }

    /// The routes, for a server of one's own.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(live))
            .route("/livez", get(live))
            .route("/readyz", get(ready))
            .route("/healthz/{name}", get(one_live))
            .route("/readyz/{name}", get(one_ready))
            .with_state(self.clone())
    }

    /// Serves the probes until the token is cancelled.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        crate::shutdown::serve(listener, self.router(), stop).await
    }
}

fn answer(states: &States, verbose: bool) -> (StatusCode, String) {
    let failed = states.values().any(Result::is_err);
    if !failed && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, state) in states {
        let _ = match state {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => writeln!(text, "[-]{name} failed: {reason}"),
        };
    }
    let code = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    text.push_str(if failed { "check failed\n" } else { "check passed\n" });
    (code, text)
}

fn answer_one(states: &States, name: &str) -> (StatusCode, String) {
    match states.get(name) {
        Some(Ok(())) => (StatusCode::OK, "ok".to_owned()),
        Some(Err(reason)) => (StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
        None => (StatusCode::NOT_FOUND, "no such check".to_owned()),
    }
}

fn is_verbose(query: Option<&str>) -> bool {
    query.is_some_and(|q| q.split('&').any(|p| p == "verbose" || p.starts_with("verbose=")))
}

async fn live(State(health): State<Health>, RawQuery(query): RawQuery) -> impl IntoResponse {
    answer(&health.inner.live.read(), is_verbose(query.as_deref()))
}

async fn ready(State(health): State<Health>, RawQuery(query): RawQuery) -> impl IntoResponse {
    answer(&health.inner.ready.read(), is_verbose(query.as_deref()))
}

async fn one_live(State(health): State<Health>, Path(name): Path<String>) -> impl IntoResponse {
    answer_one(&health.inner.live.read(), &name)
}

async fn one_ready(State(health): State<Health>, Path(name): Path<String>) -> impl IntoResponse {
    answer_one(&health.inner.ready.read(), &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_the_conjunction() {
        let health = Health::new();
        assert!(health.is_ready());
        let certificate = health.readiness("certificate");
        let caches = health.readiness("caches");
        assert!(!health.is_ready());
        certificate.pass();
        caches.fail("2 of 5 synced");
        let (code, text) = answer(&health.inner.ready.read(), false);
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(text, "[-]caches failed: 2 of 5 synced\n[+]certificate ok\ncheck failed\n");
        caches.pass();
        assert!(health.is_ready() && caches.is_met());
        assert_eq!(answer(&health.inner.ready.read(), false), (StatusCode::OK, "ok".to_owned()));
        health.stopping();
        assert!(!health.is_ready());
    }

    #[test]
    fn liveness_does_not_follow_readiness() {
        let health = Health::new();
        health.readiness("certificate");
        assert_eq!(answer(&health.inner.live.read(), false).0, StatusCode::OK);
        let lease = health.liveness("lease");
        lease.fail("expired 30s ago");
        assert_eq!(answer(&health.inner.live.read(), false).0, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer_one(&health.inner.live.read(), "nope").0, StatusCode::NOT_FOUND);
    }
}
