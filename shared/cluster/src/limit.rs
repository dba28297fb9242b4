//! Two tower layers: client-go's token bucket (queries per second with a burst), and a time limit
//! per class of request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Method, Request};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{BoxError, Layer, Service};

use crate::Error;
use crate::client::Timeouts;

/// A bucket of `burst` tokens that fills with `qps` tokens per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(qps: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { qps: qps.max(f64::MIN_POSITIVE), burst, tokens: burst, filled: now }
    }

    /// Takes a token and says from when on it may be used.
    pub(crate) fn take(&mut self, now: Instant) -> Instant {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * self.qps;
        self.tokens = (self.tokens + gained).min(self.burst) - 1.0;
        self.filled = now;
        if self.tokens >= 0.0 {
            return now;
        }
        // A day bounds what an absurd rate would make of it.
        let wait = (-self.tokens / self.qps).min(86_400.0);
        now + Duration::from_secs_f64(wait)
    }
}

/// Limits the rate of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitLayer {
    pub(crate) qps: f64,
    pub(crate) burst: u32,
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Limit {
            inner,
            bucket: Bucket::new(self.qps, self.burst, Instant::now()),
            state: State::New,
        }
    }
}

enum State {
    New,
    Waiting(Pin<Box<Sleep>>),
    Granted,
}

/// The service behind [`LimitLayer`]: not ready until there is a token.
pub(crate) struct Limit<S> {
    inner: S,
    bucket: Bucket,
    state: State,
}

impl<S, R> Service<R> for Limit<S>
where
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            match &mut self.state {
                State::New => {
                    let now = Instant::now();
                    let from = self.bucket.take(now);
                    self.state = if from <= now {
                        State::Granted
                    } else {
                        State::Waiting(Box::pin(sleep_until(from)))
                    };
                }
                State::Waiting(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    self.state = State::Granted;
                }
                State::Granted => return self.inner.poll_ready(cx),
            }
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.state = State::New;
        self.inner.call(request)
    }
}

/// Limits the time until an answer begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutLayer(pub(crate) Timeouts);

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Timeout { inner, timeouts: self.0 }
    }
}

/// The service behind [`TimeoutLayer`].
#[derive(Debug)]
pub(crate) struct Timeout<S> {
    inner: S,
    timeouts: Timeouts,
}

impl<S, B> Service<Request<B>> for Timeout<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let limit = self.timeouts.of(request.method(), request.uri());
        let what = format!("{} {}", request.method(), request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Some(after) = limit else { return answer.await.map_err(Into::into) };
            match tokio::time::timeout(after, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(Error::Timeout { what, after }.into()),
            }
        })
    }
}

impl Timeouts {
    /// The limit for a request; watches have none (they have their own idle limit).
    #[must_use]
    pub fn of(&self, method: &Method, uri: &http::Uri) -> Option<Duration> {
        if *method != Method::GET && *method != Method::HEAD {
            return Some(self.mutating);
        }
        let query = uri.query().unwrap_or_default();
        if query.split('&').any(|pair| pair == "watch=1" || pair == "watch=true") {
            return None;
        }
        Some(if is_list(uri.path()) { self.list } else { self.request })
    }
}

/// Whether a path names a collection: `/api/v1/[namespaces/<ns>/]<plural>`, and the same below
/// `/apis/<group>/<version>`.
fn is_list(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else {
        return false;
    };
    match rest {
        ["namespaces", _, plural_and_more @ ..] if !plural_and_more.is_empty() => {
            plural_and_more.len() == 1
        }
        rest => rest.len() == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let timeouts = Timeouts::default();
        for (method, uri, limit) in [
            (Method::GET, "/version", Some(timeouts.request)),
            (Method::GET, "/apis/core.oam.dev/v1beta1", Some(timeouts.request)),
            (Method::GET, "/api/v1/namespaces/a/configmaps/b", Some(timeouts.request)),
            (Method::GET, "/api/v1/namespaces/a/configmaps?limit=500", Some(timeouts.list)),
            (Method::GET, "/api/v1/namespaces", Some(timeouts.list)),
            (Method::GET, "/api/v1/namespaces/a", Some(timeouts.request)),
            (Method::GET, "/apis/apps/v1/deployments?limit=1", Some(timeouts.list)),
            (Method::GET, "/apis/apps/v1/deployments?watch=1&x=y", None),
            (Method::GET, "/apis/apps/v1/deployments?a=b&watch=true", None),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b", Some(timeouts.mutating)),
            (Method::DELETE, "/api/v1/namespaces/a", Some(timeouts.mutating)),
        ] {
            assert_eq!(timeouts.of(&method, &uri.parse().expect("a URI")), limit, "{uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bucket_bursts_then_keeps_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), start);
        }
        let millis = |at: Instant| at.duration_since(start).as_millis();
        assert_eq!(millis(bucket.take(start)), 100);
        assert_eq!(millis(bucket.take(start)), 200);
        // After a long rest the burst is there again, and no more than it.
        let later = start + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(bucket.take(later), later);
        }
        assert!(bucket.take(later) > later);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_the_rate_of_a_service() {
        use tower::ServiceExt as _;
        let inner = tower::service_fn(|(): ()| async { Ok::<_, BoxError>(()) });
        let mut service = LimitLayer { qps: 10.0, burst: 2 }.layer(inner);
        let start = Instant::now();
        for _ in 0..12 {
            service.ready().await.expect("ready").call(()).await.expect("answered");
        }
        assert_eq!(start.elapsed().as_millis(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_the_time() {
        use tower::ServiceExt as _;
        let inner = tower::service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok::<_, BoxError>(())
        });
        let mut service = TimeoutLayer(Timeouts::default()).layer(inner);
        let request = Request::get("/api/v1/namespaces/a").body(()).expect("a request");
        let error = service.ready().await.expect("ready").call(request).await.expect_err("late");
        let error = error.downcast::<Error>().expect("our own");
        assert_eq!(error.to_string(), "GET /api/v1/namespaces/a got no answer within 10s");
    }
}
