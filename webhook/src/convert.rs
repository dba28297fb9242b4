//! `/convert`: the conversion endpoint that older installations may have written into the CRD.
//! There is one version, so every conversion is the identity (upstream refuses it).

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Answers a ConversionReview. What is none is a bad request.
pub(crate) fn convert(body: &[u8]) -> Response {
    match answer(body) {
        Some(answer) => {
            (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer.to_string())
                .into_response()
        }
        None => (StatusCode::BAD_REQUEST, "not a ConversionReview").into_response(),
    }
}

/// The answer, if the body is a ConversionReview.
pub fn answer(body: &[u8]) -> Option<Value> {
    // Go's decoder, too, reads one value and no further
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let review = values.next()?.ok()?;
    let request = review.get("request").filter(|request| request.is_object())?;
    let desired = request.get("desiredAPIVersion").and_then(Value::as_str).unwrap_or_default();
    let objects = request.get("objects").and_then(Value::as_array).cloned().unwrap_or_default();
    let known = desired == vela_api::V1BETA1
        && objects.iter().all(|object| {
            object.get("apiVersion").and_then(Value::as_str) == Some(vela_api::V1BETA1)
        });
    let response = if known {
        json!({ "uid": request.get("uid"), "convertedObjects": objects, "result": { "status": "Success" } })
    } else {
        let message = crate::messages::no_conversion(desired);
        json!({ "uid": request.get("uid"), "convertedObjects": [], "result": { "status": "Failure", "message": message } })
    };
    Some(json!({
        "apiVersion": review.get("apiVersion"),
        "kind": review.get("kind"),
        "response": response,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_the_only_conversion() {
        let object = json!({ "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "x": 1 });
        let review = |desired: &str| json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": { "uid": "u", "desiredAPIVersion": desired, "objects": [object] } });
        let same = answer(review("core.oam.dev/v1beta1").to_string().as_bytes()).unwrap();
        assert_eq!(same["response"]["convertedObjects"][0], object);
        assert_eq!(same["response"]["result"]["status"], "Success");
        let other = answer(review("core.oam.dev/v1alpha2").to_string().as_bytes()).unwrap();
        assert_eq!(other["response"]["result"]["status"], "Failure");
        assert!(answer(b"[]").is_none());
    }
}
