//! `/healthz` and `/readyz` on a plain HTTP listener of their own, open before anything else.
//!
//! Liveness is that the process answers and that every part of it that can be asked says it continues;
//! readiness is the conjunction of named conditions (certificate, caches). Upstream's are constants,
//! so that traffic arrives before caches are filled, a Pod is killed while it waits, and one whose
//! workers hang is not; ours say what they wait for.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
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

use crate::server::{self, Limits};

/// A condition as a probe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    Met,
    /// Why not.
    Unmet(String),
}

type Statuses = BTreeMap<&'static str, Status>;
type Check = Box<dyn Fn() -> Status + Send + Sync>;

#[derive(Default)]
struct Inner {
    ready: RwLock<Statuses>,
    live: RwLock<BTreeMap<&'static str, Check>>,
}

impl Inner {
    /// Asks everything that can be asked.
    fn alive(&self) -> Statuses {
        self.live.read().iter().map(|(name, check)| (*name, check())).collect()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("ready", &self.ready).finish_non_exhaustive()
    }
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
}

impl Condition {
    /// The condition holds.
    pub fn pass(&self) {
        self.inner.ready.write().insert(self.name, Status::Met);
    }

    /// The condition does not hold; `reason` is what `/readyz?verbose` shows.
    pub fn fail(&self, reason: impl Into<String>) {
        self.inner.ready.write().insert(self.name, Status::Unmet(reason.into()));
    }

    /// Whether it holds now.
    pub fn is_met(&self) -> bool {
        self.inner.ready.read().get(self.name) == Some(&Status::Met)
    }
}

impl Health {
    /// Nothing to wait for yet: live and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition of readiness, not met until [`Condition::pass`].
    pub fn readiness(&self, name: &'static str) -> Condition {
        let condition = Condition { inner: Arc::clone(&self.inner), name };
        condition.fail("not yet");
        condition
    }

    /// Adds a part of the process that is asked at every probe; who is not alive is restarted, so it must not depend on
    /// anything outside of the process.
    pub fn liveness<E: fmt::Display>(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) {
        let check = move || match check() {
            Ok(()) => Status::Met,
            Err(error) => Status::Unmet(error.to_string()),
        };
        self.inner.live.write().insert(name, Box::new(check));
    }

    /// Readiness is withdrawn for good: the process is about to stop.
    pub fn stopping(&self) {
        self.inner.ready.write().insert("shutdown", Status::Unmet("shutting down".to_owned()));
    }

    /// Every condition of readiness holds.
    pub fn is_ready(&self) -> bool {
        self.inner.ready.read().values().all(|status| *status == Status::Met)
    }

    /// The conditions of readiness, and whether each holds.
    pub fn conditions(&self) -> Vec<(&'static str, bool)> {
        self.inner
            .ready
            .read()
            .iter()
            .map(|(name, status)| (*name, *status == Status::Met))
            .collect()
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
        server::serve(listener, None, self.router(), Limits::OBSERVERS, stop).await
    }
}

fn answer(states: &Statuses, verbose: bool) -> (StatusCode, String) {
    let failed = states.values().any(|status| *status != Status::Met);
    if !failed && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, state) in states {
        let _ = match state {
            Status::Met => writeln!(text, "[+]{name} ok"),
            Status::Unmet(reason) => writeln!(text, "[-]{name} failed: {reason}"),
        };
    }
    let code = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    text.push_str(if failed { "check failed\n" } else { "check passed\n" });
    (code, text)
}

fn answer_one(states: &Statuses, name: &str) -> (StatusCode, String) {
    match states.get(name) {
        Some(Status::Met) => (StatusCode::OK, "ok".to_owned()),
        Some(Status::Unmet(reason)) => (StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
        None => (StatusCode::NOT_FOUND, "no such check".to_owned()),
    }
}

fn is_verbose(query: Option<&str>) -> bool {
    query.is_some_and(|q| q.split('&').any(|p| p == "verbose" || p.starts_with("verbose=")))
}

async fn live(State(health): State<Health>, RawQuery(query): RawQuery) -> impl IntoResponse {
    answer(&health.inner.alive(), is_verbose(query.as_deref()))
}

async fn ready(State(health): State<Health>, RawQuery(query): RawQuery) -> impl IntoResponse {
    answer(&health.inner.ready.read(), is_verbose(query.as_deref()))
}

async fn one_live(State(health): State<Health>, Path(name): Path<String>) -> impl IntoResponse {
    answer_one(&health.inner.alive(), &name)
}

async fn one_ready(State(health): State<Health>, Path(name): Path<String>) -> impl IntoResponse {
    answer_one(&health.inner.ready.read(), &name)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

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
    fn liveness_is_asked_and_does_not_follow_readiness() {
        let health = Health::new();
        health.readiness("certificate");
        assert_eq!(answer(&health.inner.alive(), false), (StatusCode::OK, "ok".to_owned()));
        let stuck = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stuck);
        health.liveness("application", move || {
            if seen.load(Ordering::Relaxed) { Err("hangs") } else { Ok(()) }
        });
        let verbose = "[+]application ok\ncheck passed\n".to_owned();
        assert_eq!(answer(&health.inner.alive(), true), (StatusCode::OK, verbose));
        stuck.store(true, Ordering::Relaxed);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        let text = "[-]application failed: hangs\ncheck failed\n".to_owned();
        assert_eq!(answer(&health.inner.alive(), false), (failed, text));
        let one = answer_one(&health.inner.alive(), "application");
        assert_eq!(one, (failed, "hangs".to_owned()));
        assert_eq!(answer_one(&health.inner.alive(), "nope").0, StatusCode::NOT_FOUND);
    }
}
