//! An API server for tests: a function of method, path and body behind a client.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tower::service_fn;

/// One request as the API server saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedRequest {
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) media: String,
    pub(crate) user: String,
    pub(crate) body: Value,
}

/// A client whose API server is a function of method, path and body.
pub(crate) fn fake(
    answer: impl Fn(&Method, &str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<RecordedRequest>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let header = |name: &str| {
                let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
                value.unwrap_or_default().to_owned()
            };
            let (code, value) = answer(&parts.method, parts.uri.path(), &body);
            requests.lock().push(RecordedRequest {
                method: parts.method.clone(),
                uri: parts.uri.to_string(),
                media: header("content-type"),
                user: header("impersonate-user"),
                body,
            });
            Ok::<_, tower::BoxError>(
                Response::builder().status(code).body(Body::from(serde_json::to_vec(&value)?))?,
            )
        }
    });
    (Client::new(service, "default"), seen)
}
