//! Which request is answered how: authentication, then what is public, then rights, then views or a member.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_api::cluster::LOCAL;
use vela_cluster::members::SharedRules;
use vela_serve::health::Health;
use vela_serve::server::PeerName;

use crate::access::{Access, Asked, Verdict, verb};
use crate::front::{Caller, Front};
use crate::metrics::Metrics;
use crate::names::{GATEWAYS, GROUP, VERSION, VIRTUAL};
use crate::registry::Registry;
use crate::select::Selection;
use crate::status::{Failure, json_response};
use crate::streams::StreamLimits;
use crate::table::{Form, Resource};
use crate::view::View;
use crate::{discovery, messages, openapi, path, proxy};

/// What requests are answered with.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) front: ArcSwapOption<Front>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) access: Access,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) limits: StreamLimits,
    /// Every request reaches a cluster as its user.
    pub(crate) penetrates: bool,
    /// Whose members do so as its credential.
    pub(crate) privileged_groups: Vec<String>,
    /// Rules about identities in all clusters.
    pub(crate) exchange: Arc<SharedRules>,
    /// This replica is about to stop: what can be asked for elsewhere ends.
    pub(crate) closing: CancellationToken,
    /// It stops: everything ends.
    pub(crate) cut: CancellationToken,
    /// Connections that became those of another protocol.
    pub(crate) tunnels: TaskTracker,
}

/// What a path is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route<'p> {
    Ready,
    Live,
    Groups,
    Group,
    Version,
    OpenApi2,
    OpenApi3,
    OpenApi3Version,
    List(Resource),
    One(Resource, String),
    /// What a health check found.
    Health(String),
    /// A cluster, and the path there as it is written.
    Proxy(String, &'p str),
    Nothing,
}

impl<'p> Route<'p> {
    fn of(path: &'p str) -> Self {
        let trimmed = path.trim_end_matches('/');
        match trimmed {
            "/readyz" => return Self::Ready,
            "/healthz" | "/livez" => return Self::Live,
            "/apis" => return Self::Groups,
            "/openapi/v2" => return Self::OpenApi2,
            "/openapi/v3" => return Self::OpenApi3,
            _ => {}
        }
        if trimmed.strip_prefix("/openapi/v3/") == Some(openapi::V3_PATH) {
            return Self::OpenApi3Version;
        }
        let Some(rest) = trimmed.strip_prefix("/apis/").and_then(|rest| rest.strip_prefix(GROUP))
        else {
            return Self::Nothing;
        };
        if rest.is_empty() {
            return Self::Group;
        }
        let Some(rest) = rest.strip_prefix('/').and_then(|rest| rest.strip_prefix(VERSION)) else {
            return Self::Nothing;
        };
        if rest.is_empty() {
            return Self::Version;
        }
        let mut parts = rest.strip_prefix('/').unwrap_or_default().splitn(3, '/');
        let resource = match parts.next() {
            Some(GATEWAYS) => Resource::Gateways,
            Some(VIRTUAL) => Resource::Virtual,
            _ => return Self::Nothing,
        };
        let Some(name) = parts.next() else { return Self::List(resource) };
        let Some(name) = path::decoded(name).filter(|name| !name.is_empty()) else {
            return Self::Nothing;
        };
        match (resource, parts.next()) {
            (resource, None) => Self::One(resource, name),
            (Resource::Gateways, Some("health")) => Self::Health(name),
            (Resource::Gateways, Some(sub)) => match sub.strip_prefix("proxy") {
                Some("") => Self::Proxy(name, if path.ends_with('/') { "/" } else { "" }),
                Some(rest) if rest.starts_with('/') => {
                    // With the slash at its end, if there is one.
                    let from = trimmed.len() - rest.len();
                    Self::Proxy(name, path.get(from..).unwrap_or(rest))
                }
                _ => Self::Nothing,
            },
            _ => Self::Nothing,
        }
    }
}

/// The routes.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new().fallback(answer).with_state(server)
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    server.answer(request).await.unwrap_or_else(Failure::into_response)
}

impl Server {
    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let front =
            self.front.load_full().ok_or_else(|| Failure::unavailable(messages::NOT_SYNCED))?;
        let peer = request.extensions().get::<PeerName>().map(|name| Arc::clone(&name.0));
        let caller = front.caller(peer.as_deref(), request.headers())?;
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        let route = Route::of(&path);
        if !is_read && !matches!(route, Route::Proxy(..)) {
            return Err(match route {
                Route::Nothing => Failure::no_resource(),
                Route::One(resource, _) | Route::List(resource) => Failure::not_allowed(
                    messages::not_allowed(parts.method.as_str(), resource.name()),
                ),
                _ => Failure::not_allowed(messages::not_allowed(parts.method.as_str(), GATEWAYS)),
            });
        }
        let ok = |value| Ok(json_response(StatusCode::OK, &value));
        match route {
            Route::Live => Ok("ok".into_response()),
            Route::Ready if self.health.is_ready() => Ok("ok".into_response()),
            Route::Ready => Err(Failure::unavailable(messages::NOT_SYNCED)),
            Route::Groups => Ok(groups(&parts)),
            Route::Group => ok(discovery::group()),
            Route::Version => ok(discovery::resources()),
            Route::OpenApi2 => ok(openapi::v2()),
            Route::OpenApi3 => ok(openapi::v3()),
            Route::OpenApi3Version => ok(openapi::v3_version()),
            Route::Nothing => Err(Failure::no_resource()),
            Route::List(resource) => self.list(&caller, resource, &parts).await,
            Route::One(resource, name) => self.one(&caller, resource, "", &name, &parts).await,
            Route::Health(name) => {
                self.one(&caller, Resource::Gateways, "health", &name, &parts).await
            }
            Route::Proxy(name, rest) => {
                let request = Request::from_parts(parts, body);
                self.proxy(&front, &caller, &name, rest, request).await
            }
        }
    }

    /// Refuses who may not do something.
    async fn allow(&self, caller: &Caller, asked: Asked<'_>) -> Result<(), Failure> {
        let denied = match self.access.of(caller, asked).await {
            Ok(Verdict::Allowed) => return Ok(()),
            Ok(Verdict::Denied(why)) => why,
            Err(error) => {
                return Err(Failure::unavailable(messages::no_review(&error.to_string())));
            }
        };
        let resource = match asked.subresource {
            "" => asked.resource.to_owned(),
            sub => format!("{}/{sub}", asked.resource),
        };
        let message = messages::forbidden(&caller.user, asked.verb, &resource, asked.name, &denied);
        Err(Failure::forbidden(asked.name, message))
    }

    async fn list(
        &self,
        caller: &Caller,
        resource: Resource,
        request: &Parts,
    ) -> Result<Response, Failure> {
        let query = request.uri.query();
        let asked = Asked { verb: "list", resource: resource.name(), subresource: "", name: "" };
        self.allow(caller, asked).await?;
        if path::is_watch(query) {
            return Err(Failure::not_allowed(messages::NO_WATCH));
        }
        let form = Form::accepted(&request.headers)?;
        let selection = Selection::of_query(query)?;
        let snapshot = self.registry.snapshot();
        if !snapshot.synced {
            return Err(Failure::unavailable(messages::NOT_SYNCED));
        }
        let mut views: Vec<&View> = snapshot.members.values().map(|member| &member.view).collect();
        views.sort_by_key(|view| view.rank());
        let local = View::local();
        views.insert(0, &local);
        let chosen = views.into_iter().filter(|view| selection.chooses(&view.name, &view.labels));
        let objects: Vec<_> = chosen.filter_map(|view| resource.object(view)).collect();
        Ok(json_response(StatusCode::OK, &form.list(resource, &objects, &snapshot.version, query)))
    }

    async fn one(
        &self,
        caller: &Caller,
        resource: Resource,
        subresource: &str,
        name: &str,
        request: &Parts,
    ) -> Result<Response, Failure> {
        let asked = Asked { verb: "get", resource: resource.name(), subresource, name };
        self.allow(caller, asked).await?;
        let form = Form::accepted(&request.headers)?;
        let snapshot = self.registry.snapshot();
        let local = View::local();
        let view = match snapshot.members.get(name) {
            _ if name == LOCAL => Some(&local),
            Some(member) => Some(&member.view),
            None if snapshot.synced => None,
            None => return Err(Failure::unavailable(messages::NOT_SYNCED)),
        };
        let object = view.and_then(|view| resource.object(view));
        let object = object.ok_or_else(|| Failure::not_found(resource.name(), name))?;
        Ok(json_response(StatusCode::OK, &form.one(resource, object, request.uri.query())))
    }

    async fn proxy(
        &self,
        front: &Front,
        caller: &Caller,
        name: &str,
        rest: &str,
        request: Request,
    ) -> Result<Response, Failure> {
        let method = request.method().clone();
        if !proxy::passes(&method) {
            return Err(Failure::not_allowed(messages::not_allowed(method.as_str(), GATEWAYS)));
        }
        let asked = Asked { verb: verb(&method), resource: GATEWAYS, subresource: "proxy", name };
        self.allow(caller, asked).await?;
        let member = self.registry.member(name).await?;
        proxy::pass(self, front, caller, &member, rest, request).await
    }
}

/// All groups, in the way that the client wants.
fn groups(request: &Parts) -> Response {
    let accept =
        request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some((media, version)) = discovery::aggregated_version(accept) else {
        return json_response(StatusCode::OK, &discovery::groups());
    };
    let mut response = json_response(StatusCode::OK, &discovery::aggregated(version));
    if let Ok(media) = HeaderValue::from_str(&media) {
        response.headers_mut().insert(CONTENT_TYPE, media);
    }
    response
}

#[cfg(test)]
mod tests;
