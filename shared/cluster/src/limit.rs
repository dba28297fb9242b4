//! Two tower layers: client-go's token bucket (queries per second with a burst; `tokens.rs`), and a time limit per class of request.
//! A peer that is gone is noticed by the connection itself (`transport.rs`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyStream, StreamBody};
use kube::client::DynBody;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

use crate::Error;
use crate::client::Timeouts;
use crate::tokens::{Bucket, Tokens};

/// Limits the rate of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitLayer {
    pub(crate) qps: f64,
    pub(crate) burst: u32,
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let bucket = Bucket::new(self.qps, self.burst, Instant::now());
        Limit { inner: Arc::new(Mutex::new(inner)), tokens: Tokens::new(bucket) }
    }
}

/// The service behind [`LimitLayer`]. It is ready at any time: each request waits for its token by itself, so that they need not be
/// sent in the order in which they came.
pub(crate) struct Limit<S> {
    inner: Arc<Mutex<S>>,
    tokens: Tokens,
}

impl<S, R> Service<R> for Limit<S>
where
    S: Service<R> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (inner, tokens) = (Arc::clone(&self.inner), self.tokens.clone());
        Box::pin(async move {
            tokens.take().await;
            let answer = {
                // Whoever is being prepared has the others wait: only one is woken when it can be sent.
                let mut inner = inner.lock().await;
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request)
            };
            answer.await
        })
    }
}

/// Limits the time until an answer is complete; of an answer that lasts, the time until it begins.
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
    S: Service<Request<B>, Response = Response<Box<DynBody>>>,
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
        let after = self.timeouts.of(request.method(), request.uri());
        let lasts = lasts(request.uri());
        let what = format!("{} {}", request.method(), request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let end = Instant::now() + after;
            let late = Error::Timeout { what, after };
            let Ok(answer) = timeout_at(end, answer).await else { return Err(late.into()) };
            let answer = answer.map_err(Into::into)?;
            Ok(if lasts { answer } else { answer.map(|body| until(end, late, body)) })
        })
    }
}

/// A body that can be read until a moment; who waits for more then gets the error.
fn until(end: Instant, late: Error, body: Box<DynBody>) -> Box<DynBody> {
    let mut frames = BodyStream::new(body);
    let mut end = Box::pin(sleep_until(end));
    Box::new(StreamBody::new(stream::poll_fn(move |cx| match frames.poll_next_unpin(cx) {
        Poll::Pending => end.as_mut().poll(cx).map(|()| Some(Err(late.clone().into()))),
        common => common,
    })))
}

impl Timeouts {
    /// The limit for a request. A watch is of a collection, so it has as long to begin as a list.
    fn of(&self, method: &Method, uri: &Uri) -> Duration {
        if *method != Method::GET && *method != Method::HEAD {
            self.mutating
        } else if is_list(uri.path()) {
            self.list
        } else {
            self.request
        }
    }
}

/// Whether an answer continues for as long as the API server likes: a watch, or a log that is followed.
fn lasts(uri: &Uri) -> bool {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .any(|pair| matches!(pair, "watch=1" | "watch=true" | "follow=1" | "follow=true"))
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
    use futures::{StreamExt as _, TryStreamExt as _};
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{WatchEvent, WatchParams};
    use kube::client::{Body, ClientBuilder};
    use kube::{Api, Client};
    use tokio::time::sleep;

    use super::*;
    use crate::Class;

    #[test]
    fn classes() {
        let timeouts = Timeouts::default();
        for (method, uri, limit) in [
            (Method::GET, "/version", timeouts.request),
            (Method::GET, "/apis/core.oam.dev/v1beta1", timeouts.request),
            (Method::GET, "/api/v1/namespaces/a/configmaps/b", timeouts.request),
            (Method::GET, "/api/v1/namespaces/a/configmaps?limit=500", timeouts.list),
            (Method::GET, "/api/v1/namespaces", timeouts.list),
            (Method::GET, "/api/v1/namespaces/a", timeouts.request),
            (Method::GET, "/apis/apps/v1/deployments?limit=1", timeouts.list),
            (Method::GET, "/apis/apps/v1/deployments?watch=1&x=y", timeouts.list),
            (Method::GET, "/apis/apps/v1/deployments?a=b&watch=true", timeouts.list),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b", timeouts.mutating),
            (Method::DELETE, "/api/v1/namespaces/a", timeouts.mutating),
        ] {
            let parsed = uri.parse().expect("a URI");
            assert_eq!(timeouts.of(&method, &parsed), limit, "{uri}");
            assert_eq!(lasts(&parsed), uri.contains("watch="), "{uri}");
        }
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

    const HOUR: Duration = Duration::from_secs(3600);
    const BEGINNING: &str = r#"{"type": "ADDED", "object": "#;
    const END: &str = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {}}}\n";

    /// An API server that begins its answer after a while and ends it an hour later.
    fn slow(head: Duration) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            sleep(head).await;
            let frames = |text: &str| BodyStream::new(Body::from(text.as_bytes().to_vec()));
            let end = stream::once(sleep(HOUR)).flat_map(move |()| frames(END));
            let body = frames(BEGINNING).chain(end).map_err(BoxError::from);
            let body: Box<DynBody> = Box::new(StreamBody::new(Box::pin(body)));
            Ok::<_, BoxError>(Response::new(body))
        });
        let layer = TimeoutLayer(Timeouts::default());
        ClientBuilder::new(service, "default").with_layer(&layer).build()
    }

    async fn get(client: &Client, uri: &str) -> Result<String, Error> {
        let request = Request::get(uri).body(Vec::new()).expect("a request");
        client.request_text(request).await.map_err(Error::from)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_limited_to_its_end() {
        for (head, uri, text) in [
            (HOUR, "/api/v1/namespaces/a", "GET /api/v1/namespaces/a got no answer within 10s"),
            (Duration::ZERO, "/api/v1/pods?limit=500", "GET /api/v1/pods got no answer within 30s"),
            (Duration::from_secs(29), "/api/v1/pods", "GET /api/v1/pods got no answer within 30s"),
        ] {
            let start = Instant::now();
            let error = get(&slow(head), uri).await.expect_err("late");
            assert_eq!((error.to_string().as_str(), error.class()), (text, Class::Retry(None)));
            assert!(start.elapsed() <= Duration::from_secs(31), "{uri} {:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_begins_in_time_and_then_lasts() {
        let watch = |head| async move {
            let pods: Api<Pod> = Api::all(slow(head));
            let mut events = Box::pin(pods.watch(&WatchParams::default(), "1").await?);
            events.next().await.expect("an event")
        };
        let start = Instant::now();
        let error = Error::from(watch(HOUR).await.expect_err("late"));
        assert_eq!(error.to_string(), "GET /api/v1/pods got no answer within 30s");
        assert_eq!((error.class(), start.elapsed()), (Class::Retry(None), Duration::from_secs(30)));
        let event = watch(Duration::from_secs(29)).await.expect("an event");
        assert!(matches!(event, WatchEvent::Added(_)), "{event:?}");
        assert!(start.elapsed() > HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_is_followed_lasts() {
        let start = Instant::now();
        let log = "/api/v1/namespaces/a/pods/b/log";
        get(&slow(Duration::ZERO), &format!("{log}?follow=true")).await.expect("the whole log");
        assert!(start.elapsed() >= HOUR);
        get(&slow(Duration::ZERO), log).await.expect_err("this one ends");
    }
}
