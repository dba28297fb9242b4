//! The fence: below everything a request waits for, it stops the writes of a process that does not lead.
//!
//! It is asked when a request is about to be sent, not when somebody wants to send it. Whoever was frozen for longer than the
//! lease lasts still has requests that wait for the rate limit; a successor is at work already.
//!
//! A request may need a connection before it leaves, and a process may be frozen while one is made. So a write carries a [`Pass`],
//! and the transport asks it again when it sends the body.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Leadership;
use super::permit::{self, Permits, RefusedBy, Scope, Sent};
use crate::Error;

/// What all clients of a process ask before they write. Open until an election begins, which is after clients are made.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<OnceLock<Guard>>);

/// Who is asked.
#[derive(Clone, Debug)]
enum Guard {
    /// One replica works.
    Leader(Leadership),
    /// Several do, each on its share.
    Fleet(Arc<dyn Permits>),
}

/// What a fence says of a write that is about to be sent.
enum Answer {
    Open,
    Permitted(Sent, Arc<dyn Permits>),
    Closed,
}

impl Fence {
    /// From now on only a leader writes. Only the first call counts.
    pub fn guard(&self, leadership: Leadership) {
        let _ = self.0.set(Guard::Leader(leadership));
    }

    /// From now on writes need permits, and carry deadlines. Only the first call counts.
    pub fn guard_fleet(&self, permits: Arc<dyn Permits>) {
        let _ = self.0.set(Guard::Fleet(permits));
    }

    /// The deadline that a write is to carry. Where none may be sent it does not matter.
    fn deadline(&self) -> Option<Duration> {
        let Some(Guard::Fleet(permits)) = self.0.get() else { return None };
        Some(permit::deadline(permits.limit().unwrap_or_default()))
    }

    fn ask(&self, scope: Scope, deadline: Option<Duration>) -> Answer {
        match self.0.get() {
            None => Answer::Open,
            Some(Guard::Leader(leadership)) if leadership.is_leader() => Answer::Open,
            Some(Guard::Leader(_)) => Answer::Closed,
            Some(Guard::Fleet(permits)) => {
                // A write that was prepared before there were permits carries no deadline.
                let time = deadline.filter(|time| !time.is_zero());
                let sent = time.and_then(|time| permits.begin(scope, time));
                sent.map_or(Answer::Closed, |sent| Answer::Permitted(sent, Arc::clone(permits)))
            }
        }
    }
}

/// What a write carries to the transport.
#[derive(Clone, Debug)]
struct Pass {
    fence: Fence,
    deadline: Option<Duration>,
    /// What the write is about, once there was a permit.
    scope: Arc<OnceLock<Scope>>,
}

impl Pass {
    /// Whether the write may leave now.
    fn is_valid(&self) -> bool {
        match self.fence.0.get() {
            None => true,
            Some(Guard::Leader(leadership)) => leadership.is_leader(),
            Some(Guard::Fleet(permits)) => {
                let (scope, time) = (self.scope.get(), self.deadline);
                scope.zip(time).is_some_and(|(scope, time)| permits.holds(scope, time))
            }
        }
    }
}

/// The body of a request, which is not sent when its [`Pass`] is not valid any more: an API server carries out no write whose body
/// breaks off. Every write has one, deletions for their preconditions.
#[derive(Debug)]
pub(crate) struct Departing {
    body: Body,
    pass: Option<Pass>,
}

impl Departing {
    /// The same request, with a body that asks the pass which the fence gave it.
    pub(crate) fn request(request: Request<Body>) -> Request<Self> {
        let (mut parts, body) = request.into_parts();
        let pass = parts.extensions.remove();
        Request::from_parts(parts, Self { body, pass })
    }
}

impl HttpBody for Departing {
    type Data = <Body as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if self.pass.as_ref().is_some_and(|pass| !pass.is_valid()) {
            return Poll::Ready(Some(Err(Error::NotLeader.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The reason why a write was not sent, however deep the transport has it.
fn reason(error: BoxError) -> BoxError {
    let causes = std::iter::successors(Some(&*error as &dyn std::error::Error), |e| e.source());
    let mut own = causes.filter_map(|cause| cause.downcast_ref::<Error>());
    if own.any(|own| matches!(own, Error::NotLeader)) { Error::NotLeader.into() } else { error }
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

impl<S, B, C> Service<Request<B>> for Fenced<S>
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !writes(request.method(), request.uri().path()) {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        let deadline = self.fence.deadline();
        if let Some(uri) = deadline.and_then(|time| permit::with_deadline(request.uri(), time)) {
            *request.uri_mut() = uri;
        }
        let what = format!("{} {}", request.method(), request.uri().path());
        let method = request.method().clone();
        let pass = Pass { fence: self.fence.clone(), deadline, scope: Arc::default() };
        request.extensions_mut().insert(pass.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            // What nobody has polled has sent nothing, so this is the last moment to ask.
            let scope = permit::current();
            let _ = pass.scope.set(scope.clone());
            match pass.fence.ask(scope, deadline) {
                Answer::Open => answer.await.map_err(|error| reason(error.into())),
                Answer::Closed => Err(Error::NotLeader.into()),
                Answer::Permitted(sent, permits) => {
                    let after = deadline.unwrap_or_default();
                    let Ok(answer) = tokio::time::timeout(after, answer).await else {
                        permits.refused(RefusedBy::Deadline);
                        return Err(Error::Timeout { what, after }.into());
                    };
                    let answer = answer.map_err(|error| reason(error.into()))?;
                    sent.answered();
                    if let Some(by) = RefusedBy::of(&method, answer.status()) {
                        permits.refused(by);
                    }
                    Ok(answer)
                }
            }
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
    use http::StatusCode;
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::{Body, ClientBuilder, DynBody};
    use parking_lot::Mutex;
    use tokio::sync::watch;
    use tokio::time::Instant;
    use tower::{ServiceExt as _, service_fn};

    use super::super::permit::{Assignment, Scope, within};
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
                requests.lock().push(format!("{} {}", request.method(), request.uri()));
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

    /// A fleet member that holds bucket 7 and whose session is valid for so long.
    #[derive(Debug)]
    struct Holds7(Mutex<Duration>, Arc<Mutex<Vec<bool>>>, Mutex<Vec<RefusedBy>>);

    impl Permits for Holds7 {
        fn limit(&self) -> Option<Duration> {
            Some(*self.0.lock())
        }

        fn begin(&self, scope: Scope, time: Duration) -> Option<permit::Sent> {
            let ended = Arc::clone(&self.1);
            let may = scope == of_bucket(7) && time <= *self.0.lock();
            may.then(|| permit::Sent::new(move |answered| ended.lock().push(answered)))
        }

        fn holds(&self, scope: &Scope, time: Duration) -> bool {
            *scope == of_bucket(7) && time <= *self.0.lock()
        }

        fn refused(&self, by: RefusedBy) {
            self.2.lock().push(by);
        }
    }

    fn of_bucket(bucket: u8) -> Scope {
        Scope::Application(Arc::new(assignment(bucket)))
    }

    fn assignment(bucket: u8) -> Assignment {
        Assignment { bucket, pool: "".into(), shard: "".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_of_a_fleet_writes_for_what_it_holds_and_until_its_session_ends() {
        let options = ClientOptions { qps: 0.05, burst: 2, ..ClientOptions::new("test") };
        let (client, sent) = client(&options);
        let ended = Arc::default();
        let session = Mutex::new(Duration::from_secs(4));
        let permits = Arc::new(Holds7(session, Arc::clone(&ended), Mutex::default()));
        options.fence.guard_fleet(Arc::clone(&permits) as Arc<dyn Permits>);
        within(of_bucket(7), send(&client, Method::PUT, OBJECT)).await.expect("it holds that");
        assert_eq!(*sent.lock(), [format!("PUT {OBJECT}?timeout=3750ms")]);
        assert_eq!(*ended.lock(), [true]);
        let wait = within(of_bucket(7), send(&client, Method::DELETE, OBJECT));
        let frozen = async { *permits.0.lock() = Duration::ZERO };
        let (refused, ()) = tokio::join!(wait, frozen);
        assert!(matches!(refused, Err(Error::NotLeader)), "it waited for longer than the session");
        *permits.0.lock() = Duration::from_secs(4);
        let unread = Scope::Unread(Arc::new(assignment(7)));
        for scope in [of_bucket(8), unread, Scope::Lead, Scope::Process] {
            let error = within(scope.clone(), send(&client, Method::PUT, OBJECT)).await;
            assert!(matches!(error, Err(Error::NotLeader)), "{scope:?}");
        }
        let error = send(&client, Method::PUT, OBJECT).await;
        assert!(matches!(error, Err(Error::NotLeader)), "what names no scope has none");
        send(&client, Method::GET, OBJECT).await.expect("reading is free");
        assert_eq!((sent.lock().len(), ended.lock().len()), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_refuses_a_permitted_write_is_reported() {
        let fence = Fence::default();
        let session = Mutex::new(Duration::from_secs(4));
        let permits = Arc::new(Holds7(session, Arc::default(), Mutex::default()));
        fence.guard_fleet(Arc::clone(&permits) as Arc<dyn Permits>);
        let (version, deadline) = (Some(RefusedBy::Version), Some(RefusedBy::Deadline));
        for (method, code, expected) in [
            (Method::PATCH, 200, None),
            (Method::PUT, 409, version),
            (Method::DELETE, 409, version),
            // The name is taken.
            (Method::POST, 409, None),
            (Method::POST, 504, deadline),
            (Method::PUT, 422, None),
            (Method::PUT, 503, None),
            // No answer comes.
            (Method::PUT, 0, deadline),
        ] {
            let server = service_fn(move |_: Request<()>| async move {
                if code == 0 {
                    std::future::pending::<()>().await;
                }
                let code = StatusCode::from_u16(code)?;
                Ok::<_, BoxError>(Response::builder().status(code).body(())?)
            });
            let request = Request::builder().method(method.clone()).uri(OBJECT).body(()).unwrap();
            let answer = within(of_bucket(7), fence.layer(server).oneshot(request)).await;
            assert_eq!(answer.is_ok(), code != 0);
            let refusals: Vec<_> = std::mem::take(&mut *permits.2.lock());
            assert_eq!(refusals, Vec::from_iter(expected), "{method} {code}");
        }
    }

    /// The permit is there before the connection is. The process is frozen while that is made.
    #[tokio::test(start_paused = true)]
    async fn what_waited_for_a_connection_while_the_session_ended_is_not_sent() {
        let session = Mutex::new(Duration::from_secs(4));
        let permits = Arc::new(Holds7(session, Arc::default(), Mutex::default()));
        let leading =
            watch::channel(State::Leading { until: Instant::now() + Duration::from_secs(9) });
        let (fleet, leader) = (Fence::default(), Fence::default());
        fleet.guard_fleet(Arc::clone(&permits) as Arc<dyn Permits>);
        leader.guard(Leadership(Source::Elected(leading.1)));
        for (fence, expected) in
            [(&fleet, true), (&leader, true), (&fleet, false), (&leader, false)]
        {
            let lapsed = Arc::clone(&permits);
            let state = leading.0.clone();
            let transport = service_fn(move |request: Request<Body>| {
                let (permits, state) = (Arc::clone(&lapsed), state.clone());
                async move {
                    if !expected {
                        *permits.0.lock() = Duration::ZERO;
                        let _ = state.send(State::Leading { until: Instant::now() });
                    }
                    let body = Departing::request(request).into_body();
                    assert_eq!(body.size_hint().exact(), Some(7));
                    let sent = body.collect().await.map_err(kube::Error::Service)?;
                    Ok::<_, BoxError>(Response::new(sent.to_bytes()))
                }
            });
            let body = Body::from(b"a write".to_vec());
            let request = Request::builder().method(Method::PUT).uri(OBJECT).body(body).unwrap();
            let sent = within(of_bucket(7), fence.layer(transport).oneshot(request)).await;
            assert_eq!(sent.as_ref().is_ok_and(|sent| sent.body() == "a write"), expected);
            let refused = sent.err().and_then(|error| error.downcast::<Error>().ok());
            assert_eq!(matches!(refused.as_deref(), Some(Error::NotLeader)), !expected);
        }
    }

    /// A session that ends as soon as there is a permit.
    #[derive(Debug)]
    struct EndsAtOnce;

    impl Permits for EndsAtOnce {
        fn limit(&self) -> Option<Duration> {
            Some(Duration::from_secs(4))
        }

        fn begin(&self, _: Scope, _: Duration) -> Option<permit::Sent> {
            Some(permit::Sent::new(|_| {}))
        }

        fn holds(&self, _: &Scope, _: Duration) -> bool {
            false
        }

        fn refused(&self, _: RefusedBy) {}
    }

    #[tokio::test]
    async fn no_body_goes_over_a_connection_that_came_too_late() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut received = String::new();
            let _ = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut received).await;
            received
        });
        let options = ClientOptions::new("test");
        options.fence.guard_fleet(Arc::new(EndsAtOnce));
        let connections = crate::transport::transport(kube::Config::new(uri)).unwrap();
        let client = layered(connections, "server", &options);
        let request = Request::builder().method(Method::PUT).uri(OBJECT);
        let answer = client.request_text(request.body(b"a write".to_vec()).unwrap()).await;
        let error = Error::from(answer.unwrap_err());
        assert!(matches!(error, Error::NotLeader), "{error}");
        drop(client);
        let received = server.await.unwrap();
        assert!(!received.contains("a write"), "{received}");
    }

    #[tokio::test]
    async fn followers_renew_tokens_and_the_lease() {
        let options = ClientOptions::new("test");
        options.fence.guard(Leadership::never());
        let (own, asked) = client(&options);
        let account = Arc::new(ServiceAccount::new(own, "n", "a"));
        account.header().await.expect("a token");
        assert_eq!(*asked.lock(), ["POST /api/v1/namespaces/n/serviceaccounts/a/token?"]);
        let (controller, sent) = client(&options.as_account("application", account));
        let error = send(&controller, Method::PUT, OBJECT).await.expect_err("refused");
        assert!(matches!(error, Error::NotLeader), "{error}");
        assert!(sent.lock().is_empty());
        let (lease, sent) = client(&options.for_lease(Duration::from_secs(10)));
        send(&lease, Method::PUT, OBJECT).await.expect("or nobody would ever lead");
        assert_eq!(sent.lock().len(), 1);
    }
}
