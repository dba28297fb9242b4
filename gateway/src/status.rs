//! Answers that are no success, as a Status of Kubernetes with a reason that clients report apart.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::messages;
use crate::names::{GATEWAYS, GROUP};

/// Why a request is not answered as it was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// Resource and name.
    about: Option<(&'static str, String)>,
    /// Seconds after which to try again.
    again: Option<u16>,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), about: None, again: None }
    }

    fn about(self, resource: &'static str, name: &str) -> Self {
        Self { about: Some((resource, name.to_owned())), ..self }
    }

    fn again(self, seconds: u16) -> Self {
        Self { again: Some(seconds), ..self }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(crate) fn forbidden(name: &str, message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(GATEWAYS, name)
    }

    pub(crate) fn no_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", messages::NO_RESOURCE)
    }

    /// A cluster that is asked for has no Secret.
    pub(crate) fn no_cluster(name: &str) -> Self {
        let message = messages::no_cluster(GATEWAYS, name);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(GATEWAYS, name)
    }

    /// A view that is asked for is of nothing.
    pub(crate) fn not_found(resource: &'static str, name: &str) -> Self {
        let message = messages::not_found(resource, name);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    pub(crate) fn not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", messages::NOT_ACCEPTABLE)
    }

    /// The Secret of a cluster cannot be used.
    pub(crate) fn unusable(name: &str, why: &str) -> Self {
        let message = messages::unusable(name, why);
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(GATEWAYS, name)
    }

    pub(crate) fn too_many(message: String) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).again(1)
    }

    /// This process does not know enough yet.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message).again(1)
    }

    /// The member cannot be reached.
    pub(crate) fn bad_gateway(name: &str, message: String) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "BadGateway", message).about(GATEWAYS, name)
    }

    /// The member did not answer in time.
    pub(crate) fn late(name: &str, message: String) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).about(GATEWAYS, name)
    }

    pub(crate) fn code(&self) -> u16 {
        self.code.as_u16()
    }

    fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        let mut details = serde_json::Map::new();
        if let Some((resource, name)) = &self.about {
            details.insert("group".to_owned(), json!(GROUP));
            details.insert("kind".to_owned(), json!(resource));
            if !name.is_empty() {
                details.insert("name".to_owned(), json!(name));
            }
        }
        if let Some(seconds) = self.again {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        if !details.is_empty()
            && let Some(status) = status.as_object_mut()
        {
            status.insert("details".to_owned(), Value::Object(details));
        }
        status
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = json_response(self.code, &self.status());
        if let Some(seconds) = self.again {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An answer in JSON.
pub(crate) fn json_response(code: StatusCode, value: &Value) -> Response {
    (code, [(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_status() {
        assert_eq!(
            Failure::no_cluster("east").status(),
            json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404, "reason": "NotFound",
                "message": "clustergateways.cluster.core.oam.dev \"east\" not found: no such cluster east",
                "details": {"group": "cluster.core.oam.dev", "kind": "clustergateways", "name": "east"},
            })
        );
        let busy = Failure::too_many("busy".to_owned());
        assert_eq!(busy.status()["details"], json!({"retryAfterSeconds": 1}));
        assert_eq!(busy.into_response().headers()[RETRY_AFTER], "1");
        assert_eq!(Failure::no_resource().status().get("details"), None);
    }
}
