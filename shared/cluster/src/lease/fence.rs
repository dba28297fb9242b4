//! The fence: below everything a request waits for, it stops the writes of a process that does not lead.
//!
//! It is asked when a request is about to be sent, not when somebody wants to send it. Whoever was frozen for longer than the
//! lease lasts still has requests that wait for the rate limit; a successor is at work already.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::Leadership;
use crate::Error;

/// What all clients of a process ask before they write. Open until an election begins, which is after clients are made.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<OnceLock<Leadership>>);

impl Fence {
    /// From now on only a leader writes. Only the first call counts.
    pub fn guard(&self, leadership: Leadership) {
        let _ = self.0.set(leadership);
    }

    fn is_open(&self) -> bool {
        self.0.get().is_none_or(Leadership::is_leader)
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Fenced { inner, fence: self.clone() }
    }
}

/// The service behind a [`Fence`].
#[derive(Debug)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
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
        let writes = writes(request.method(), request.uri().path());
        let fence = self.fence.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            // What nobody has polled has sent nothing, so this is the last moment to ask.
            if writes && !fence.is_open() {
                return Err(Error::NotLeader.into());
            }
            answer.await.map_err(Into::into)
        })
    }
}

/// Whether a request is to change the cluster, or tries if it could. A token is granted, not stored, and followers renew those
/// of their accounts: to read, and to have them when they lead.
fn writes(method: &Method, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_token = matches!(
        parts.as_slice(),
        ["", "api", "v1", "namespaces", _, "serviceaccounts", _, "token"]
    );
    !(*method == Method::GET || *method == Method::HEAD || (*method == Method::POST && is_token))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Response;
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::{Body, ClientBuilder, DynBody};
    use parking_lot::Mutex;
    use tokio::sync::watch;
    use tokio::time::Instant;
    use tower::{ServiceExt as _, service_fn};

    use super::super::{Source, State};
    use super::*;
    use crate::ServiceAccount;
    use crate::client::{ClientOptions, layered};

    type Sent = Arc<Mutex<Vec<String>>>;

    /// The client of these options before an API server that answers everything with a token.
    fn client(options: &ClientOptions) -> (Client, Sent) {
        let sent = Sent::default();
        let requests = Arc::clone(&sent);
        let server = service_fn(move |request: Request<Body>| {
            let requests = Arc::clone(&requests);
            async move {
                requests.lock().push(format!("{} {}", request.method(), request.uri().path()));
                let token = r#"{"metadata": {}, "spec": {"audiences": []},
                    "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}"#;
                let body = Body::from(token.as_bytes().to_vec()).map_err(BoxError::from);
                Ok::<_, BoxError>(Response::new(Box::new(body) as Box<DynBody>))
            }
        });
        (layered(ClientBuilder::new(server.boxed(), "default"), "server", options), sent)
    }

    async fn send(client: &Client, method: Method, path: &str) -> Result<(), Error> {
        let request = Request::builder().method(method).uri(path).body(Vec::new()).unwrap();
        Ok(client.request_text(request).await.map(|_| ())?)
    }

    const OBJECT: &str = "/api/v1/namespaces/a/configmaps/x";

    #[tokio::test]
    async fn only_leaders_write() {
        let options = ClientOptions::new("test");
        let (client, sent) = client(&options);
        send(&client, Method::PUT, OBJECT).await.expect("there is no election");
        options.fence.guard(Leadership::never());
        sent.lock().clear();
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = send(&client, method, OBJECT).await.expect_err("refused");
            assert!(matches!(error, Error::NotLeader), "{error}");
        }
        assert_eq!(*sent.lock(), [""; 0]);
        send(&client, Method::GET, OBJECT).await.expect("reading is free");
        assert_eq!(*sent.lock(), [format!("GET {OBJECT}")]);
    }

    /// As after a process was frozen: nobody took the leadership away, time did.
    #[tokio::test(start_paused = true)]
    async fn what_waited_while_the_lease_was_lost_is_not_sent() {
        let options = ClientOptions { qps: 0.05, burst: 1, ..ClientOptions::new("test") };
        let (client, sent) = client(&options);
        let until = Instant::now() + Duration::from_secs(10);
        let (_state, leading) = watch::channel(State::Leading { until });
        options.fence.guard(Leadership(Source::Elected(leading)));
        send(&client, Method::PUT, OBJECT).await.expect("a token is there, and the lease");
        let error = send(&client, Method::DELETE, OBJECT).await.expect_err("refused");
        assert!(matches!(error, Error::NotLeader), "{error}");
        assert!(Instant::now() > until, "it waited for its token");
        assert_eq!(*sent.lock(), [format!("PUT {OBJECT}")]);
    }

    #[tokio::test]
    async fn followers_renew_tokens_and_the_lease() {
        let options = ClientOptions::new("test");
        options.fence.guard(Leadership::never());
        let (own, asked) = client(&options);
        let account = Arc::new(ServiceAccount::new(own, "n", "a"));
        account.header().await.expect("a token");
        assert_eq!(*asked.lock(), ["POST /api/v1/namespaces/n/serviceaccounts/a/token"]);
        let (controller, sent) = client(&options.as_account("application", account));
        let error = send(&controller, Method::PUT, OBJECT).await.expect_err("refused");
        assert!(matches!(error, Error::NotLeader), "{error}");
        assert!(sent.lock().is_empty());
        let (lease, sent) = client(&options.for_lease(Duration::from_secs(10)));
        send(&lease, Method::PUT, OBJECT).await.expect("or nobody would ever lead");
        assert_eq!(sent.lock().len(), 1);
    }
}
