//! `clustergateways/NAME/proxy`: a request goes to the member's API server as whoever may be there, its answer comes back.
//! Nothing is kept of either but what is on its way.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::OnUpgrade;
use tower::BoxError;
use vela_cluster::members::{ExchangeRules, PassError, Passage, PassedBody};
use vela_serve::server::Busy;

use crate::access::verb;
use crate::body::{Held, Passed};
use crate::front::{Caller, Front};
use crate::metrics;
use crate::registry::Member;
use crate::server::Server;
use crate::status::Failure;
use crate::streams::Full;
use crate::{headers, identity, messages, path, tunnel};

/// Methods that go on.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
    Method::OPTIONS,
];

/// Whether a method goes on.
pub(crate) fn passes(method: &Method) -> bool {
    METHODS.contains(method)
}

/// Passes a request on and says what became of it.
pub(crate) async fn pass(
    server: &Server,
    front: &Front,
    caller: &Caller,
    member: &Arc<Member>,
    rest: &str,
    request: Request,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let name = member.view.name.as_str();
    let (verb, resource) = (verb(request.method()), path::resource_of(rest).to_owned());
    let answer = attempt(server, front, caller, member, rest, request).await;
    let code = match &answer {
        Ok(answer) => answer.status().as_u16(),
        Err(failure) => failure.code(),
    };
    let passed = metrics::Passed { cluster: name, resource: &resource, verb, code };
    server.metrics.passed(passed, began.elapsed());
    answer
}

async fn attempt(
    server: &Server,
    front: &Front,
    caller: &Caller,
    member: &Arc<Member>,
    rest: &str,
    mut request: Request,
) -> Result<Response, Failure> {
    let name = member.view.name.as_str();
    let passage = member.passage()?;
    let query = request.uri().query();
    let is_asked = server.penetrates || path::has(query, "impersonate", &["true"]);
    let is_watch = path::is_watch(query);
    let everywhere = match server.exchange.now() {
        Ok(rules) => rules,
        // A rule that is not known could be one that takes rights away.
        Err(error) if is_asked => return Err(Failure::unavailable(error.to_string())),
        Err(_) => ExchangeRules::default(),
    };
    let rules = [&member.exchange, &everywhere];
    let acting = identity::acting(caller, name, is_asked, rules, &server.privileged_groups)?;
    let target = path::target(passage.uri(), rest, query)?;
    let mut headers = headers::to_member(request.headers(), front);
    acting.apply(&mut headers)?;
    let permit = member.streams.take(&caller.user, server.limits).map_err(|full| {
        Failure::too_many(match full {
            Full::OfUser => messages::too_many(&caller.user, name),
            Full::OfCluster => messages::too_many_of_all(name),
        })
    })?;
    let busy = request.extensions().get::<Busy>().cloned();
    let held = Held::new(permit, busy, server.metrics.streams(name));

    let protocol = headers::upgrade(request.headers());
    let upgrade = protocol.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
    let method = request.method().clone();
    // What comes after the header of an upgrade is of the other protocol.
    let body = match &upgrade {
        Some(_) => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        None => request.into_body().map_err(BoxError::from).boxed_unsync(),
    };
    let mut outgoing = http::Request::new(body);
    (*outgoing.method_mut(), *outgoing.uri_mut(), *outgoing.headers_mut()) =
        (method, target, headers);
    let caller = upgrade.map(|(protocol, caller)| {
        headers::set_upgrade(outgoing.headers_mut(), protocol);
        caller
    });
    let answer = send(server, passage, name, outgoing).await?;
    finish(server, name, answer, caller, held, is_watch)
}

async fn send(
    server: &Server,
    passage: &Passage,
    name: &str,
    request: http::Request<PassedBody>,
) -> Result<http::Response<hyper::body::Incoming>, Failure> {
    let answer = tokio::select! {
        answer = passage.send(request) => answer,
        () = server.cut.cancelled() => return Err(Failure::unavailable(messages::STOPPING)),
    };
    answer.map_err(|error| {
        let message = messages::not_reachable(name, &error.to_string());
        match error {
            PassError::Late(_) => Failure::late(name, message),
            PassError::NotConnected(_) | PassError::Cut(_) => Failure::bad_gateway(name, message),
        }
    })
}

fn finish(
    server: &Server,
    name: &str,
    mut answer: http::Response<hyper::body::Incoming>,
    caller: Option<OnUpgrade>,
    held: Held,
    is_watch: bool,
) -> Result<Response, Failure> {
    let mut headers = headers::to_caller(answer.headers());
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let protocol = headers::upgrade(answer.headers());
        let (Some(caller), Some(protocol)) = (caller, protocol) else {
            return Err(Failure::bad_gateway(name, messages::odd_upgrade(name)));
        };
        let member = hyper::upgrade::on(&mut answer);
        headers::set_upgrade(&mut headers, protocol);
        server.tunnels.spawn(tunnel::run(caller, member, server.cut.clone(), held));
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers;
        return Ok(response);
    }
    let status = answer.status();
    // Whoever follows one takes his credential along, to wherever the member says.
    if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        return Err(Failure::bad_gateway(name, messages::redirects(name)));
    }
    let end = is_watch.then(|| server.closing.clone());
    let mut response = Response::new(Body::new(Passed::new(answer.into_body(), held, end)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}
