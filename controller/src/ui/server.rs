//! Requests to answers: files of the page, and values about Applications, each read as the viewer of the request.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use kube::Api;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use vela_api::{Application, Workflow, is_subdomain};
use vela_cluster::ApiError;

use crate::plan::one::{PlanError, Verdict, plan};
use crate::plan::overlay::decoded;
use crate::plan::report;
use crate::plan::setup::{self, SetupError};

use super::access::{Hosts, Refusal, bearer};
use super::assets::{ASSETS, HEADERS};
use super::detail::Detail;
use super::history::{self, Kept};
use super::objects;
use super::summary::{Summary, cut};
use super::viewer::{Viewer, Viewers};

/// Applications of a page of the list, at the most.
const MAX_PAGE: u32 = 500;
/// Time for what is read.
const READ_TIME: Duration = Duration::from_secs(30);
/// Time for a plan.
const PLAN_TIME: Duration = Duration::from_secs(120);
/// Plans at a time: each renders an Application.
pub(super) const PLANS: usize = 2;
/// The word for the spec that the cluster has, among names of revisions.
const LIVE: &str = "live";

/// What requests are answered with.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) hosts: Hosts,
    pub(super) viewers: Viewers,
    pub(super) plans: Semaphore,
    pub(super) system_namespace: String,
    /// Flags of the controller for plans; without any those of its Deployment.
    pub(super) controller: Vec<OsString>,
    /// What vouches for the API server.
    pub(super) authority: String,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the key is wrong")]
    WrongKey,
    #[error("there is no such page")]
    NoSuchPage,
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("the API server does not answer in time")]
    Time,
    #[error("too many plans at a time; try again")]
    Busy,
}

impl Failure {
    fn code(&self, is_own: bool) -> StatusCode {
        let of_api = |error: &ApiError| match error {
            // Credentials of a kubeconfig are no business of whoever has the key.
            ApiError::Api { code: 401, .. } if is_own => StatusCode::BAD_GATEWAY,
            ApiError::Api { code: code @ (400 | 401 | 403 | 404 | 410 | 429), .. } => {
                StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_GATEWAY)
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::WrongKey => StatusCode::UNAUTHORIZED,
            Self::NoSuchPage => StatusCode::NOT_FOUND,
            Self::Api(error)
            | Self::Setup(SetupError::Api(error))
            | Self::Plan(PlanError::Api(error)) => of_api(error),
            Self::Setup(_) | Self::Plan(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Time => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// All requests.
pub(super) fn router(server: Arc<Server>) -> Router {
    Router::new().fallback(respond).with_state(server)
}

async fn respond(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let is_own = matches!(server.viewers, Viewers::Own { .. });
    let mut response = match server.answer(&parts).await {
        Ok(Answer::Asset(media, text)) => {
            ([(CONTENT_TYPE, HeaderValue::from_static(media))], text).into_response()
        }
        Ok(Answer::Value(value)) => json_response(StatusCode::OK, &value),
        Err(failure) => {
            json_response(failure.code(is_own), &json!({ "message": cut(&failure.to_string()) }))
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

fn json_response(code: StatusCode, value: &Value) -> Response {
    let media = HeaderValue::from_static("application/json");
    (code, [(CONTENT_TYPE, media)], value.to_string()).into_response()
}

enum Answer {
    Asset(&'static str, &'static str),
    Value(Value),
}

impl Answer {
    fn of(value: &impl Serialize) -> Self {
        Self::Value(serde_json::to_value(value).unwrap_or_default())
    }
}

impl Server {
    async fn answer(&self, request: &Parts) -> Result<Answer, Failure> {
        self.hosts.check(request)?;
        let path = request.uri.path();
        if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) {
            return Ok(Answer::Asset(asset.media, asset.text));
        }
        let Some(path) = path.strip_prefix("/api/") else { return Err(Failure::NoSuchPage) };
        let credential = bearer(&request.headers)?;
        let viewer = self.viewers.viewer(credential).ok_or(Failure::WrongKey)?;
        let parts: Vec<String> = path.split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        // They become parts of paths and selectors.
        if !parts.iter().all(|part| is_subdomain(part)) {
            return Err(Failure::NoSuchPage);
        }
        let limit = if parts.last() == Some(&"plan") { PLAN_TIME } else { READ_TIME };
        let query = request.uri.query().unwrap_or_default();
        let answer = Box::pin(self.values(&viewer, &parts, query));
        tokio::time::timeout(limit, answer).await.map_err(|_| Failure::Time)?
    }

    async fn values(&self, viewer: &Viewer, path: &[&str], query: &str) -> Result<Answer, Failure> {
        let (namespace, name, rest) = match path {
            ["applications"] => return list(viewer, query).await,
            ["applications", namespace, name, rest @ ..] => (*namespace, *name, rest),
            _ => return Err(Failure::NoSuchPage),
        };
        if rest == ["events"] {
            return Ok(Answer::of(&history::events(viewer, namespace, name).await?));
        }
        let api: Api<Application> = Api::namespaced(viewer.client.clone(), namespace);
        let app = api.get(name).await.map_err(ApiError::from)?;
        match rest {
            [] => {
                let referenced = referenced(viewer, &app).await;
                Ok(Answer::of(&Detail::of(&app, referenced.as_ref())))
            }
            ["objects"] => Ok(Answer::of(&objects::read(viewer, &app).await?)),
            ["revisions"] => Ok(Answer::of(&history::revisions(viewer, &app).await?)),
            ["revisions", from, to] => {
                let from = history::kept(viewer, &app, from).await?;
                let to = match *to {
                    LIVE => Kept::live(&app),
                    name => history::kept(viewer, &app, name).await?,
                };
                Ok(Answer::of(&from.difference(&to)))
            }
            ["plan"] => self.plan(viewer, &app).await,
            _ => Err(Failure::NoSuchPage),
        }
    }

    /// What a reconcile of the Application as it is would write.
    async fn plan(&self, viewer: &Viewer, app: &Application) -> Result<Answer, Failure> {
        let _permit = self.plans.try_acquire().map_err(|_| Failure::Busy)?;
        let namespace = app.metadata.namespace.clone().unwrap_or_default();
        let mut namespaces = vec![self.system_namespace.clone(), namespace];
        namespaces.dedup();
        let means =
            setup::means((viewer.client.clone(), &self.authority), &self.controller, &namespaces)
                .await?;
        let object = serde_json::to_value(app).map_err(PlanError::from)?;
        let present = setup::present(&viewer.client, &object).await?;
        let plan = plan(&means, &present, None).await?;
        let mut value = serde_json::to_value(&plan).unwrap_or_default();
        if let Some(value) = value.as_object_mut() {
            let verdict = match plan.verdict() {
                Verdict::Nothing => "nothing",
                Verdict::Changes => "changes",
                Verdict::Refused => "refused",
                Verdict::Unknown => "unknown",
            };
            value.insert("verdict".to_owned(), verdict.into());
            value.insert("summary".to_owned(), report::summary(&plan).into());
            value.insert("lines".to_owned(), report::lines(&plan).into());
        }
        Ok(Answer::Value(value))
    }
}

/// A page of the list: `namespace`, `limit`, and `continue` of the page before.
async fn list(viewer: &Viewer, query: &str) -> Result<Answer, Failure> {
    let mut limit = MAX_PAGE;
    let mut next = String::new();
    let mut namespace = String::new();
    for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match key {
            "limit" => limit = value.parse().unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE),
            "continue" => next = decoded(value),
            "namespace" => namespace = decoded(value),
            _ => {}
        }
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+/".contains(&byte);
    if !next.bytes().all(is_token) || !(namespace.is_empty() || is_subdomain(&namespace)) {
        return Err(Failure::NoSuchPage);
    }
    let within = if namespace.is_empty() { namespace } else { format!("namespaces/{namespace}/") };
    let next = next.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let path =
        format!("/apis/{}/{within}applications?limit={limit}&continue={next}", vela_api::V1BETA1);
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|_| Failure::NoSuchPage)?;
    let found: Value = viewer.client.request(request).await.map_err(ApiError::from)?;
    let items = found.get("items").and_then(Value::as_array);
    let items: Vec<Summary> = items.into_iter().flatten().map(Summary::of_object).collect();
    let next = found.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
    Ok(Answer::Value(json!({ "items": items, "continue": next })))
}

/// The Workflow that an Application refers to, if the viewer may read it.
async fn referenced(viewer: &Viewer, app: &Application) -> Option<Workflow> {
    let name = &app.spec.workflow.as_ref()?.reference;
    if !is_subdomain(name) {
        return None;
    }
    let namespace = app.metadata.namespace.as_deref()?;
    let api: Api<Workflow> = Api::namespaced(viewer.client.clone(), namespace);
    api.get_opt(name).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, header};
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// A server over an API server that answers everything with this; and the paths that it was asked for.
    fn server(code: u16, body: Value) -> (Router, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let service = {
            let asked = Arc::clone(&asked);
            service_fn(move |request: Request<Body>| {
                asked.lock().push(format!("{} {}", request.method(), request.uri()));
                let body = Body::from(body.to_string().into_bytes());
                async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
            })
        };
        let server = Server {
            hosts: Hosts::new([]),
            viewers: Viewers::Everybody(Client::new(service, "default")),
            plans: Semaphore::new(PLANS),
            system_namespace: "vela-system".to_owned(),
            controller: Vec::new(),
            authority: String::new(),
        };
        (router(Arc::new(server)), asked)
    }

    async fn get(router: &Router, path: &str, token: &str) -> (u16, http::HeaderMap, String) {
        let mut request = Request::get(path).header(header::HOST, "localhost:9180");
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn every_answer_has_the_headers_that_protect_the_page() {
        let (router, asked) = server(200, json!({"items": []}));
        for (path, code) in
            [("/", 200), ("/app.js", 200), ("/api/applications", 401), ("/nothing", 404)]
        {
            let (answered, headers, _) = get(&router, path, "").await;
            assert_eq!(answered, code, "{path}");
            let policy = headers["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && policy.contains("trusted-types"));
            assert_eq!(headers["cache-control"], "no-store");
            assert_eq!(headers["x-content-type-options"], "nosniff");
        }
        assert!(asked.lock().is_empty(), "nobody asks the API server without a credential");
    }

    #[tokio::test]
    async fn the_list_is_read_in_pages() {
        let app = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"components": []}});
        let (router, asked) =
            server(200, json!({"metadata": {"continue": "next"}, "items": [app, {"spec": 3}]}));
        let path = "/api/applications?limit=9999&continue=a%2Bb%3D";
        let (code, _, body) = get(&router, path, "t").await;
        assert_eq!(code, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["continue"], "next");
        assert_eq!(body["items"][0]["name"], "a");
        assert_eq!(body["items"][1]["phase"], "unreadable");
        let expected = "GET /apis/core.oam.dev/v1beta1/applications?limit=500&continue=a%2Bb%3D";
        assert_eq!(*asked.lock(), [expected]);
    }

    #[tokio::test]
    async fn no_path_leads_elsewhere() {
        let (router, asked) = server(200, json!({"items": []}));
        for path in [
            "/api/applications/a/..%2F..%2Fsecrets",
            "/api/applications/a%3Fx/b",
            "/api/applications/a/b/..",
            "/api/applications/a/b/unknown/c/d",
            "/api/applications/A/b",
            "/api/applications?continue=a%26x=y",
            "/api/applications?namespace=a%2F..",
            "/api/secrets",
            "/api/",
        ] {
            let (code, _, _) = get(&router, path, "t").await;
            assert!(code == 404 || code == 502, "{path}: {code}");
        }
        let asked = asked.lock();
        let is_right =
            |line: &String| line == "GET /apis/core.oam.dev/v1beta1/namespaces/a/applications/b";
        assert!(asked.iter().all(is_right), "{asked:?}");
    }

    #[tokio::test]
    async fn what_the_api_server_refuses_is_passed_on() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "applications is forbidden"});
        let (router, _) = server(403, status);
        let (code, _, body) = get(&router, "/api/applications", "t").await;
        assert_eq!((code, body.as_str()), (403, r#"{"message":"applications is forbidden"}"#));
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_refused_is_no_wrong_key() {
        let refused = ApiError::Api {
            code: 401,
            reason: "Unauthorized".to_owned(),
            message: "Unauthorized".to_owned(),
            retry_after: None,
        };
        let failure = Failure::Api(refused);
        assert_eq!(failure.code(true), StatusCode::BAD_GATEWAY);
        assert_eq!(failure.code(false), StatusCode::UNAUTHORIZED);
    }
}
