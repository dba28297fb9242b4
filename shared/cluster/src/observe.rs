//! Reports every answer of the API server to an observer, and to the log at level debug, as client-go's
//! request metrics do: watches, discovery and the lease included, each try by itself, without the
//! time it waited for the rate limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode};
use tower::{BoxError, Layer, Service};
use tracing::{Level, debug};

/// What became of one HTTP request.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest<'a> {
    /// GET, POST, ...
    pub method: &'a Method,
    /// The API server's host, with its port if the configuration names one.
    pub host: &'a str,
    /// The name of the member; empty for the control plane's own cluster.
    pub cluster: &'a str,
    /// `None`: there was no answer.
    pub code: Option<StatusCode>,
    /// Until the answer began: of a watch not its whole life.
    pub time: Duration,
}

/// Receives every answer; called on the thread that waited for it, so it must be quick.
#[derive(Clone)]
pub struct RequestObserver(Arc<dyn Fn(&CompletedRequest<'_>) + Send + Sync>);

impl RequestObserver {
    /// Calls a function for every answer.
    pub fn new(hear: impl Fn(&CompletedRequest<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl std::fmt::Debug for RequestObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerObserver")
    }
}

/// Puts the observer around a service.
#[derive(Clone, Debug)]
pub(crate) struct ObserveLayer {
    pub(crate) host: Arc<str>,
    pub(crate) cluster: Arc<str>,
    pub(crate) observer: Option<RequestObserver>,
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Observe { inner, layer: self.clone() }
    }
}

/// The service behind [`AnswersLayer`].
#[derive(Debug)]
pub(crate) struct Observe<S> {
    inner: S,
    layer: ObserveLayer,
}

impl<S, B, C> Service<Request<B>> for Observe<S>
where
    S: Service<Request<B>, Response = Response<C>>,
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
        let method = request.method().clone();
        let uri = tracing::enabled!(Level::DEBUG).then(|| request.uri().clone());
        let ObserveLayer { host, cluster, observer } = self.layer.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let since = Instant::now();
            let answer = answer.await;
            let code = answer.as_ref().ok().map(Response::status);
            let time = since.elapsed();
            if let Some(uri) = uri {
                let code = code.map(|code| code.as_u16());
                debug!(%method, %uri, code, ?time, "request answered");
            }
            if let Some(observer) = observer {
                let (method, host, cluster) = (&method, &*host, &*cluster);
                (observer.0)(&CompletedRequest { method, host, cluster, code, time });
            }
            answer.map_err(Into::into)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn answers_and_their_absence_are_told() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let observer = {
            let heard = Arc::clone(&heard);
            RequestObserver::new(move |answer| {
                let code = answer.code.map(|code| code.as_u16());
                heard.lock().push((answer.method.clone(), answer.host.to_owned(), code));
            })
        };
        let layer = ObserveLayer {
            host: "server:6443".into(),
            cluster: "".into(),
            observer: Some(observer),
        };
        let mut service = layer.layer(tower::service_fn(|request: Request<()>| async move {
            match request.uri().path() {
                "/gone" => Ok(Response::builder().status(404).body(()).unwrap()),
                _ => Err(BoxError::from("refused")),
            }
        }));
        for (method, path) in [(Method::GET, "/gone"), (Method::POST, "/")] {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let _ = service.ready().await.unwrap().call(request).await;
        }
        let host = || "server:6443".to_owned();
        assert_eq!(
            *heard.lock(),
            [(Method::GET, host(), Some(404)), (Method::POST, host(), None),]
        );
    }
}
