//! Answers of the overlay to requests.

use http::Response;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::resource_path::ResourcePath;

/// What a request is answered with.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    pub(super) fn failed(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
            "code": code, "reason": reason, "message": message});
        Self { code, body }
    }

    pub(super) fn not_found(place: &ResourcePath) -> Self {
        let mut answer =
            Self::failed(404, "NotFound", &format!("{} {:?} not found", place.plural, place.name));
        if let Some(body) = answer.body.as_object_mut() {
            let details = json!({"name": place.name, "kind": place.plural, "group": place.group()});
            body.insert("details".to_owned(), details);
        }
        answer
    }

    pub(super) fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(super) fn message(&self) -> &str {
        self.body.get("message").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn into_response(self) -> Result<Response<Body>, BoxError> {
        let bytes = serde_json::to_vec(&self.body)?;
        Ok(Response::builder().status(self.code).body(Body::from(bytes))?)
    }
}
