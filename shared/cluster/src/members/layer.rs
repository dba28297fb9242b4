//! What stands in front of a member's API server: requests do not reach one that is closed, every answer tells of the
//! member's state, and what did not come from an API server is no answer.
//!
//! That an object is gone is believed only of a Status that names the object that was asked for: whatever stands in front of a
//! member may answer 404, and a collection that believed it would forget objects that are there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyStream;
use kube::client::{Body, DynBody};
use serde::Deserialize;
use tower::{BoxError, Layer, Service};

use super::body::{Limit, is_watch};
use super::gate::{Counted, Gate};
use super::state::Heard;
use crate::error::chain;
use crate::{Error, parking};

/// The most of an answer that is no result which is read, in bytes.
const MAX_ERROR_BODY: usize = 256 << 10;
/// The most of what a member says about itself that is kept and shown, in bytes.
const SHOWN: usize = 512;

/// How long a request waits for its answer before it is asked whether the member is there at all.
const LONG: Duration = Duration::from_secs(2);

/// What an API server answers for a path that it does not know; of a group version it is believed after a look at the list
/// of groups.
const UNKNOWN_PATH: &str = "404 page not found";

/// Marks the requests that go out whatever state a member is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe;

/// Puts the gate of a member before a service.
#[derive(Clone, Debug)]
pub(crate) struct MemberLayer(pub(crate) Arc<Gate>);

impl<S> Layer<S> for MemberLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Guarded { inner, gate: Arc::clone(&self.0) }
    }
}

/// The service behind [`MemberLayer`].
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S, B> Service<Request<B>> for Guarded<S>
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
        let gate = Arc::clone(&self.gate);
        let is_probe = request.extensions().get::<Probe>().is_some();
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_watch = is_watch(&query);
        if !is_probe
            && !is_watch
            && let Err(closed) = gate.open()
        {
            return Box::pin(std::future::ready(Err(closed.into())));
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            // What nobody has polled has sent nothing.
            let watched = is_watch.then_some(path.as_str());
            let begin = tokio::time::Instant::now();
            let permit = match is_probe {
                true => None,
                false => match parking::waiting(gate.enter(watched)).await {
                    Ok(permit) => Some(permit),
                    Err(closed) => {
                        gate.end_in_turn(begin).await;
                        return Err(closed.into());
                    }
                },
            };
            let waiting = Counted::of(&gate.in_flight);
            let since = Instant::now();
            let answered = parking::waiting(async {
                match answer.await.map_err(|error| unanswered(error.into())) {
                    Ok(answer) => judge((&path, &query), answer).await,
                    Err(error) => Err(error),
                }
            });
            let judged = match is_probe {
                true => answered.await,
                false => {
                    let given_up = async {
                        tokio::time::sleep(LONG).await;
                        gate.doubt(LONG);
                        gate.disconnected().await
                    };
                    tokio::select! {
                        judged = answered => judged,
                        closed = given_up => {
                            drop((waiting, permit));
                            gate.end_in_turn(begin).await;
                            return Err(closed.into());
                        }
                    }
                }
            };
            let (heard, answer) = match judged {
                Ok((code, refusal, answer)) => {
                    let answered = Heard::Answer(code, since.elapsed());
                    (refusal.map_or(answered, Heard::Refused), Ok(answer))
                }
                Err(Error::NotLeader) => return Err(Error::NotLeader.into()),
                Err(error @ Error::Credential(_)) => {
                    (Heard::Refused(error.to_string()), Err(error.into()))
                }
                Err(error @ Error::Timeout { .. }) => (Heard::silence(), Err(error.into())),
                Err(error) => (Heard::Nothing(error.to_string(), false), Err(error.into())),
            };
            drop((waiting, permit));
            gate.hear(heard);
            answer.map(|answer| answer.map(|body| doubted(body, gate)))
        })
    }
}

/// A body that has its member probed if it breaks off: watches end so when the member goes away, and it is known at once.
fn doubted(body: Box<DynBody>, gate: Arc<Gate>) -> Box<DynBody> {
    let doubt = move |error: BoxError| {
        gate.doubt(Duration::ZERO);
        error
    };
    Box::new(http_body_util::BodyExt::map_err(body, doubt))
}

fn unanswered(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => Error::Transport(chain(other.as_ref())),
    }
}

/// What of a Status counts here.
#[derive(Deserialize)]
struct Status {
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    group: String,
}

/// The body of an answer that is no result; one that is too long is cut.
async fn whole(body: Box<DynBody>) -> Result<Vec<u8>, Error> {
    let mut frames = BodyStream::new(body);
    let mut bytes = Vec::new();
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) => return Err(unanswered(error)),
        }
        if bytes.len() > MAX_ERROR_BODY {
            break;
        }
    }
    Ok(bytes)
}

type Judged = (u16, Option<String>, Response<Box<DynBody>>);

/// Tells the answers of an API server from those of something in front of it. Returns the code, and why the credential is
/// refused, if it is.
async fn judge(
    (path, query): (&str, &str),
    answer: Response<Box<DynBody>>,
) -> Result<Judged, Error> {
    let status = answer.status();
    if status.is_success() {
        let limit = Limit::of(path, query);
        let answer = answer.map(|body| Box::new(limit.around(body)) as Box<DynBody>);
        return Ok((status.as_u16(), None, answer));
    }
    if status.is_redirection() || status.is_informational() {
        return Err(not_from_api_server(status, "a redirect"));
    }
    let (parts, body) = answer.into_parts();
    let bytes = whole(body).await?;
    let refusal = verdict(path, status, &bytes)?;
    let body: Box<DynBody> =
        Box::new(http_body_util::BodyExt::map_err(Body::from(bytes), BoxError::from));
    Ok((status.as_u16(), refusal, Response::from_parts(parts, body)))
}

fn not_from_api_server(status: StatusCode, what: &str) -> Error {
    Error::Transport(format!("{} with {what}, not from an API server", status.as_u16()))
}

/// Whether an answer that is no result came from an API server; if so, why it refuses the credential, if it does.
fn verdict(path: &str, status: StatusCode, body: &[u8]) -> Result<Option<String>, Error> {
    let read = serde_json::from_slice::<Status>(body).ok().filter(|read| read.kind == "Status");
    let Some(read) = read else {
        let text = String::from_utf8_lossy(body);
        return match status {
            // Its own limit on requests answers in plain text.
            StatusCode::TOO_MANY_REQUESTS => Ok(None),
            StatusCode::NOT_FOUND if text.trim() == UNKNOWN_PATH && is_discovery(path) => Ok(None),
            _ => Err(not_from_api_server(status, "a body that is no Status")),
        };
    };
    match status {
        StatusCode::UNAUTHORIZED => {
            Ok(Some(format!("the credential is refused: {}", shown(&read.message))))
        }
        StatusCode::FORBIDDEN if read.message.contains("cannot impersonate resource") => {
            Ok(Some(format!("the credential may not act for others: {}", shown(&read.message))))
        }
        StatusCode::NOT_FOUND => match named(path) {
            Some(asked) if !asked.is_named_by(&read) => {
                Err(not_from_api_server(status, "a Status about something else"))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// What is kept of a text of a member: it goes into states, events and conditions of everything that is deployed there.
fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN);
    let kept = text.get(..end).unwrap_or_default();
    let kept: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if end < text.len() { format!("{kept}...") } else { kept }
}

/// Whether a path asks what is served.
pub(super) fn is_discovery(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    matches!(parts.as_slice(), ["api" | "apis"] | ["api", _] | ["apis", _, _])
}

/// The object that a path names.
struct Asked<'p> {
    group: &'p str,
    plural: &'p str,
    name: &'p str,
}

impl Asked<'_> {
    fn is_named_by(&self, status: &Status) -> bool {
        let Details { name, kind, group } = &status.details;
        status.reason == "NotFound"
            && kind == self.plural
            && (group == self.group)
            && (name == self.name || escaped(name).eq_ignore_ascii_case(self.name))
    }
}

fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace(':', "%3A")
}

/// Whether a path names one object.
pub(super) fn is_object(path: &str) -> bool {
    named(path).is_some()
}

/// `None` for collections, and for all that is no object.
fn named(path: &str) -> Option<Asked<'_>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    match rest {
        ["namespaces", _, plural, name, ..] => Some(Asked { group, plural, name }),
        ["namespaces", _, _] => None,
        [plural, name, ..] => Some(Asked { group, plural, name }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::super::state::State;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_has_the_member_probed_and_ends_with_its_connection() {
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        let last = Timestamp::now() - SignedDuration::from_secs(40);
        gate.health.lock().hear(Heard::Answer(200, Duration::ZERO), last);
        gate.identify();
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Box<DynBody>>, BoxError>>()
        });
        let mut guarded = MemberLayer(Arc::clone(&gate)).layer(silent);
        let request = Request::get("/api/v1/nodes").body(Body::empty()).unwrap();
        let mut asking = guarded.call(request);
        let since = tokio::time::Instant::now();
        tokio::select! {
            answer = &mut asking => panic!("{:?}", answer.map(|_| ())),
            () = gate.poke.notified() => {}
        }
        assert_eq!(since.elapsed(), LONG);
        assert!(gate.doubted.load(std::sync::atomic::Ordering::Acquire));
        gate.hear(Heard::silence());
        let error = unanswered(asking.await.map(|_| ()).unwrap_err());
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert_eq!(gate.in_flight.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    /// What an Application waits for is not the request of another tenant, and the next probe, as silent, changes nothing about it.
    #[tokio::test]
    async fn why_a_member_is_unreachable_names_no_request() {
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        gate.identify();
        let silent = tower::service_fn(|_: Request<Body>| {
            let what = "PATCH /api/v1/namespaces/secret/configmaps/plan".to_owned();
            let late = Error::Timeout { what, after: Duration::from_secs(15) };
            std::future::ready(Err::<Response<Box<DynBody>>, BoxError>(late.into()))
        });
        let mut guarded = MemberLayer(Arc::clone(&gate)).layer(silent);
        let mut request = Request::get("/version").body(Body::empty()).unwrap();
        request.extensions_mut().insert(Probe);
        assert!(guarded.call(request).await.is_err());
        let closed = gate.open().unwrap_err().to_string();
        assert!(closed.ends_with(": no answer in time"), "{closed}");
        gate.hear(Heard::silence());
        assert_eq!(gate.open().unwrap_err().to_string(), closed);
    }

    /// Hundreds of attempts that wait for one member do not write what became of them at once.
    #[tokio::test(start_paused = true)]
    async fn what_waits_in_vain_ends_one_after_the_other_and_what_comes_later_at_once() {
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        gate.hear(Heard::Answer(200, Duration::ZERO));
        gate.identify();
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Box<DynBody>>, BoxError>>()
        });
        let mut guarded = MemberLayer(Arc::clone(&gate)).layer(silent);
        let mut ask = || guarded.call(Request::get("/api/v1/nodes").body(Body::empty()).unwrap());
        // More than may be in flight: the others wait for their turn.
        let all: Vec<_> = (0..40).map(|_| ask()).collect();
        let asking = futures::future::join_all(all.into_iter().map(async |asking| {
            assert!(asking.await.is_err());
            tokio::time::Instant::now()
        }));
        let closing = async {
            tokio::time::sleep(LONG * 2).await;
            gate.stop(State::Disconnected, "gone".to_owned(), Timestamp::now());
            let since = tokio::time::Instant::now();
            assert!(ask().await.is_err());
            assert_eq!(since.elapsed(), Duration::ZERO);
            // Nobody waits for a member that is there again.
            tokio::time::sleep(Duration::from_millis(1225)).await;
            gate.hear(Heard::Answer(200, Duration::ZERO));
            gate.identify();
            since
        };
        let (mut ends, closed) = tokio::join!(asking, closing);
        ends.sort_unstable();
        let after: Vec<_> = ends.iter().map(|end| end.duration_since(closed).as_millis()).collect();
        let in_turn = (0..25).map(|turn| turn * 50);
        assert_eq!(after, in_turn.chain(std::iter::repeat_n(1225, 15)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_has_the_member_probed() {
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        gate.hear(Heard::Answer(200, Duration::ZERO));
        gate.identify();
        for breaks in [false, true] {
            let server = tower::service_fn(move |_: Request<Body>| async move {
                let frames = futures::stream::iter(breaks.then(|| Err("cut".into())));
                let body: Box<DynBody> = Box::new(http_body_util::StreamBody::new(frames));
                Ok::<_, BoxError>(Response::new(body))
            });
            let mut guarded = MemberLayer(Arc::clone(&gate)).layer(server);
            let request = Request::get("/api/v1/nodes?watch=true").body(Body::empty()).unwrap();
            let body = guarded.call(request).await.unwrap().into_body();
            assert_eq!(whole(body).await.is_err(), breaks);
            assert_eq!(gate.doubted.load(std::sync::atomic::Ordering::Acquire), breaks);
        }
    }

    #[test]
    fn only_a_status_about_the_object_says_that_it_is_gone() {
        let path = "/apis/apps/v1/namespaces/n/deployments/web";
        let status = |name: &str, kind: &str, group: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                "message": "m", "code": 404,
                "details": {"name": name, "kind": kind, "group": group}})
            .to_string()
        };
        for (path, body, is_answer) in [
            (path, status("web", "deployments", "apps"), true),
            (path, status("other", "deployments", "apps"), false),
            (path, status("web", "services", "apps"), false),
            (path, status("web", "deployments", ""), false),
            (path, "<html>not found</html>".to_owned(), false),
            (path, String::new(), false),
            (path, "404 page not found\n".to_owned(), false),
            (path, "{}".to_owned(), false),
            (path, json!({"kind": "Status", "reason": "NotFound"}).to_string(), false),
            ("/apis/x.io/v1", "404 page not found\n".to_owned(), true),
            ("/apis/x.io/v1", "<html></html>".to_owned(), false),
            // A create in a namespace that is not there.
            ("/api/v1/namespaces/n/configmaps", status("n", "namespaces", ""), true),
            ("/api/v1/namespaces/n", status("n", "namespaces", ""), true),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                status("a:b", "clusterroles", "rbac.authorization.k8s.io"),
                true,
            ),
        ] {
            let verdict = verdict(path, StatusCode::NOT_FOUND, body.as_bytes());
            assert_eq!(verdict.is_ok(), is_answer, "{path} {body} {verdict:?}");
        }
    }

    #[test]
    fn what_a_member_says_of_itself_is_shown_shortly_and_on_one_line() {
        assert_eq!(shown("no\nsuch\u{1b}user"), "no such user");
        let long = shown(&"é".repeat(1000));
        assert!(long.len() <= SHOWN + 3 && long.ends_with("é..."), "{long}");
        let body = json!({"kind": "Status", "message": "x".repeat(100_000)}).to_string();
        let why = verdict("/version", StatusCode::UNAUTHORIZED, body.as_bytes()).unwrap().unwrap();
        assert!(why.len() < 2 * SHOWN, "{}", why.len());
    }

    #[test]
    fn refused_credentials_and_answers_of_something_in_front_are_told_from_results() {
        let status = |message: &str| {
            json!({"kind": "Status", "status": "Failure", "reason": "x", "message": message})
                .to_string()
        };
        let may_not =
            status("users \"u\" is forbidden: User \"c\" cannot impersonate resource \"users\"");
        for (code, body, refused) in [
            (401, status("Unauthorized"), Ok(true)),
            (403, status("deployments is forbidden"), Ok(false)),
            (403, may_not, Ok(true)),
            (409, status("conflict"), Ok(false)),
            (422, status("invalid"), Ok(false)),
            (429, "Too many requests, please try again later.".to_owned(), Ok(false)),
            (500, status("internal"), Ok(false)),
            (401, "<html>log in</html>".to_owned(), Err(())),
            (403, "forbidden".to_owned(), Err(())),
            (502, "bad gateway".to_owned(), Err(())),
            (503, String::new(), Err(())),
            (504, "<html></html>".to_owned(), Err(())),
        ] {
            let code = StatusCode::from_u16(code).unwrap();
            let verdict = verdict("/api/v1/namespaces/n/configmaps/a", code, body.as_bytes());
            let refusal = verdict.map(|why| why.is_some()).map_err(|_| ());
            assert_eq!(refusal, refused, "{code} {body}");
        }
    }
}
