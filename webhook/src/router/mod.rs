//! The routes: admission paths, `/convert`. They read bodies and send answers; the rules decide.

mod body;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{RawQuery, Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use tracing::{debug, error, info};
use vela_serve::pool::{Pool, PoolError};

use crate::convert;
use crate::decision::Decision;
use crate::engine::{Endpoint, Engine, ROUNDS, Step, endpoints};
use crate::live::Live;
use crate::messages;
use crate::metrics::{Meters, Metrics};
use crate::review::{self, Envelope, Request};
use crate::snapshot::Published;
use crate::world::Facts;

use body::{BodyMemory, BufferedBody};

/// Fields that the log names of a denied object: the rest are more of the same.
const LOGGED_FIELDS: usize = 16;
/// An API server that names no timeout gets the default of webhook configurations.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is kept back of it for the way.
const MARGIN: Duration = Duration::from_millis(500);

/// What handlers share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) published: Arc<Published>,
    pub(crate) pool: Pool,
    pub(crate) live: Live,
    pub(crate) metrics: Metrics,
    bodies: BodyMemory,
    longest: Duration,
}

impl Server {
    /// No review takes more than `longest`, whatever time it asks for.
    pub(crate) fn new(
        engine: Engine,
        published: Arc<Published>,
        pool: Pool,
        live: Live,
        metrics: Metrics,
        longest: Duration,
    ) -> Self {
        Self { engine, published, pool, live, metrics, bodies: BodyMemory::new(), longest }
    }
}

/// All routes.
pub(crate) fn router(server: Arc<Server>) -> Router {
    let mut router = Router::new().route("/convert", any(conversion));
    for endpoint in endpoints() {
        let meters = server.metrics.of(endpoint.path);
        let handler =
            move |State(server): State<Arc<Server>>, query: RawQuery, request: HttpRequest| {
                admission(server, endpoint, meters.clone(), query, request)
            };
        router = router.route(endpoint.path, any(handler));
    }
    router.with_state(server)
}

async fn conversion(State(server): State<Arc<Server>>, request: HttpRequest) -> Response {
    let deadline = Instant::now() + TIMEOUT.min(server.longest);
    let length = body::length(request.headers());
    match server.bodies.read(length, request.into_body(), deadline).await {
        Ok(body) => convert::convert(body.bytes()),
        Err(decision) => (StatusCode::BAD_REQUEST, decision.message).into_response(),
    }
}

async fn admission(
    server: Arc<Server>,
    endpoint: Endpoint,
    meters: Meters,
    RawQuery(query): RawQuery,
    request: HttpRequest,
) -> Response {
    let start = Instant::now();
    let deadline = start + allowance(query.as_deref(), server.longest);
    let metrics = &server.metrics;
    let Meters { in_flight, latency, answered } = meters;
    in_flight.inc();
    // also when the client leaves and this future is dropped
    let _in_flight = Guard(Some(move || in_flight.dec()));

    // Headers go before the body is waited for: many requests wait.
    let (length, content_type) = (body::length(request.headers()), content_type(request.headers()));
    let (envelope, decision, request) =
        match server.bodies.read(length, request.into_body(), deadline).await {
            Err(decision) => (None, decision, None),
            Ok(body) => decide(&server, endpoint, content_type, body, deadline).await,
        };
    let elapsed = start.elapsed();
    latency.observe(elapsed.as_secs_f64());
    answered.inc();
    let outcome = if decision.allowed { "allowed" } else { "denied" };
    let dry_run = request.as_ref().is_some_and(|request| request.dry_run);
    let dry_run = if dry_run { "true" } else { "false" };
    metrics.decisions.with_label_values(&[endpoint.path, outcome, decision.rule, dry_run]).inc();
    if let Some(request) = &request {
        let (uid, user) = (request.uid.as_str(), request.user_info.username.as_str());
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let operation = request.operation.as_str();
        if decision.allowed {
            debug!(
                request_uid = uid,
                path = endpoint.path,
                operation,
                namespace,
                name,
                user,
                ?elapsed,
                "admitted"
            );
        } else {
            // Where and by which rule: sentences for the author quote values, which are no business of who reads logs.
            let fields: Vec<_> = decision
                .causes
                .iter()
                .take(LOGGED_FIELDS)
                .map(|cause| cause.field.as_str())
                .collect();
            let message = if decision.code >= 500 { decision.message.as_str() } else { "" };
            info!(
                request_uid = uid,
                path = endpoint.path,
                operation,
                namespace,
                name,
                user,
                code = decision.code,
                rule = decision.rule,
                ?fields,
                message,
                "denied"
            );
        }
    }
    let answer = review::encode(envelope.as_ref(), &decision);
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The time for a review: what the API server waits, at most the longest, less a margin for the way.
fn allowance(query: Option<&str>, longest: Duration) -> Duration {
    let timeout = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(|text| vela_serve::flags::duration(text).ok())
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(TIMEOUT)
        .min(longest);
    timeout.saturating_sub(MARGIN).max(timeout / 2)
}

type Decided = (Option<Envelope>, Decision, Option<Arc<Request>>);

/// Decodes and asks the rules on the pool, answering their questions between the rounds.
async fn decide(
    server: &Arc<Server>,
    endpoint: Endpoint,
    content_type: Option<String>,
    body: BufferedBody,
    deadline: Instant,
) -> Decided {
    let body = Arc::new(body);
    let first = {
        let (server, body) = (Arc::clone(server), Arc::clone(&body));
        move |budget: &vela_serve::pool::Budget| {
            let (envelope, request) = review::decode(content_type.as_deref(), body.bytes())?;
            drop(body);
            let snapshot = server.published.load();
            let is_spent = || budget.is_spent();
            let step = server.engine.step(endpoint, &request, &snapshot, &Facts::new(), &is_spent);
            Ok::<_, Box<Decision>>((envelope, Arc::new(request), step))
        }
    };
    let (envelope, request, mut step) = match server.pool.run(deadline, first).await {
        Ok(Ok(decoded)) => decoded,
        Ok(Err(decision)) => return (None, *decision, None),
        // Nobody has read the review, or who did has not answered: the API server wants its uid.
        Err(error) => {
            return (review::envelope(body.bytes()), failed(server, endpoint, &error), None);
        }
    };
    drop(body);
    let mut facts = Facts::new();
    // Half of the time is for questions that can stay open; the rest is for the rules.
    let now = Instant::now();
    let deadline = now + deadline.saturating_duration_since(now) / 2;
    for _ in 0..ROUNDS {
        let needs = match step {
            Step::Done(decision) => return (Some(envelope), decision, Some(request)),
            Step::Needs(needs) => needs,
        };
        let known = server.live.know(needs, deadline);
        match tokio::time::timeout_at(deadline.into(), known).await {
            Ok(known) => facts.extend(known),
            Err(_) => {
                let decision = failed(server, endpoint, &PoolError::Deadline);
                return (Some(envelope), decision, Some(request));
            }
        }
        let again = {
            let (server, request, facts) =
                (Arc::clone(server), Arc::clone(&request), facts.clone());
            move |budget: &vela_serve::pool::Budget| {
                let snapshot = server.published.load();
                server.engine.step(endpoint, &request, &snapshot, &facts, &|| budget.is_spent())
            }
        };
        step = match server.pool.run(deadline, again).await {
            Ok(step) => step,
            Err(error) => {
                return (Some(envelope), failed(server, endpoint, &error), Some(request));
            }
        };
    }
    let decision = match step {
        Step::Done(decision) => decision,
        Step::Needs(_) => Decision::errored(500, messages::TOO_MANY_LOOKUPS),
    };
    (Some(envelope), decision, Some(request))
}

fn failed(server: &Server, endpoint: Endpoint, failure: &PoolError) -> Decision {
    match failure {
        PoolError::Deadline | PoolError::Busy => {
            Decision { rule: "deadline", ..Decision::errored(504, messages::DEADLINE) }
        }
        PoolError::Closed => {
            Decision { rule: "shutdown", ..Decision::errored(503, messages::SHUTTING_DOWN) }
        }
        PoolError::Panic(text) => {
            server.metrics.panics.inc();
            error!(path = endpoint.path, panic = %text, "a rule panicked");
            Decision { rule: "panic", ..Decision::errored(500, messages::panicked(text)) }
        }
    }
}

/// Runs a function when dropped.
struct Guard<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Guard<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

#[cfg(test)]
mod tests;
