//! The AdmissionReview codec: bytes to a [`Request`], a [`Decision`] to bytes.
//!
//! Answers for `pkg/webhook/admission/{http,response}.go` of controller-runtime. Own wire types,
//! because every failure is answered inside a review with HTTP 200, in the version that was asked
//! in, with the uid of the request. The object stays raw until a rule wants it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::decision::Decision;
use crate::field::Cause;
use crate::messages;

/// Longest request body. The API server itself stops at 3 MiB for objects; a review carries two.
pub(crate) const BODY_LIMIT: usize = 7 << 20;

/// A group, version and kind or resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersion {
    /// The API group.
    #[serde(default, deserialize_with = "nullable")]
    pub group: String,
    /// The version.
    #[serde(default, deserialize_with = "nullable")]
    pub version: String,
    /// The kind, of a kind.
    #[serde(default, deserialize_with = "nullable")]
    pub kind: String,
    /// The plural, of a resource.
    #[serde(default, deserialize_with = "nullable")]
    pub resource: String,
}

/// Who asks.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct User {
    /// Name.
    #[serde(default, deserialize_with = "nullable")]
    pub username: String,
    /// Groups.
    #[serde(default, deserialize_with = "nullable")]
    pub groups: Vec<String>,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Echoed.
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    /// The resource the webhook was registered for.
    #[serde(default, deserialize_with = "nullable")]
    pub resource: GroupVersion,
    /// Name of the object.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Namespace of the request.
    #[serde(default, deserialize_with = "nullable")]
    pub namespace: String,
    /// `CREATE`, `UPDATE`, ..
    #[serde(default, deserialize_with = "nullable")]
    pub operation: String,
    /// Who asks.
    #[serde(default, deserialize_with = "nullable")]
    pub user_info: User,
    /// The object as it would be stored.
    #[serde(default)]
    pub object: Option<Box<RawValue>>,
    /// The object as it is stored.
    #[serde(default)]
    pub old_object: Option<Box<RawValue>>,
    /// Nothing will be stored.
    #[serde(default, deserialize_with = "nullable")]
    pub dry_run: bool,
}

/// The envelope's version, echoed.
#[derive(Debug, Clone, Default)]
pub struct Envelope {
    api_version: Option<String>,
    kind: Option<String>,
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    request: Option<Request>,
}

/// Go reads `null` as the zero value.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a review. A body that is none is answered with the decision returned as the error.
pub fn decode(
    content_type: Option<&str>,
    body: &[u8],
) -> Result<(Envelope, Request), Box<Decision>> {
    if body.is_empty() {
        return Err(Box::new(Decision::errored(400, messages::EMPTY_BODY)));
    }
    let content_type = content_type.unwrap_or_default();
    if content_type != "application/json" {
        return Err(Box::new(Decision::errored(400, messages::content_type(content_type))));
    }
    if body.len() > BODY_LIMIT {
        return Err(Box::new(Decision::errored(413, messages::too_large(BODY_LIMIT))));
    }
    // serde would read an array as a struct, field by field
    let opens_object = body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let incoming = if opens_object {
        serde_json::from_slice::<Incoming>(body).map_err(|error| error.to_string())
    } else {
        Err("not a JSON object".to_owned())
    };
    let incoming = match incoming {
        Ok(incoming) => incoming,
        Err(error) => {
            return Err(Box::new(Decision::errored(400, messages::undecodable(&error))));
        }
    };
    let request = incoming.request.unwrap_or_default();
    let envelope = Envelope {
        api_version: incoming.api_version,
        kind: incoming.kind,
        uid: request.uid.clone(),
    };
    Ok((envelope, request))
}

/// Version and uid of a review, for an answer that does not depend on the rest; nothing else is
/// built of it.
pub(crate) fn envelope(body: &[u8]) -> Option<Envelope> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outline {
        #[serde(default)]
        api_version: Option<String>,
        #[serde(default)]
        kind: Option<String>,
        #[serde(default)]
        request: Option<RequestOutline>,
    }
    #[derive(Default, Deserialize)]
    struct RequestOutline {
        #[serde(default, deserialize_with = "nullable")]
        uid: String,
    }
    let outline: Outline = serde_json::from_slice(body).ok()?;
    let uid = outline.request.unwrap_or_default().uid;
    Some(Envelope { api_version: outline.api_version, kind: outline.kind, uid })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    status: Status<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    causes: &'a [Cause],
}

/// Writes the answer. A review that could not be read is answered without a version, in which
/// case the API server takes its own.
pub fn encode(envelope: Option<&Envelope>, decision: &Decision) -> Vec<u8> {
    let patch = decision.patch.as_ref().filter(|patch| !patch.is_empty());
    let outgoing = Outgoing {
        api_version: envelope.and_then(|e| match e.api_version.as_deref() {
            // an empty review gets the version of the server
            None if e.kind.is_none() => Some("admission.k8s.io/v1"),
            other => other,
        }),
        kind: envelope.map(|e| e.kind.as_deref().unwrap_or("AdmissionReview")),
        response: Response {
            uid: envelope.map_or("", |e| e.uid.as_str()),
            allowed: decision.allowed,
            status: Status {
                code: decision.code,
                message: &decision.message,
                reason: decision.reason,
                details: (!decision.causes.is_empty())
                    .then_some(Details { causes: &decision.causes }),
            },
            patch: patch.and_then(|patch| Some(STANDARD.encode(serde_json::to_vec(patch).ok()?))),
            patch_type: patch.map(|_| "JSONPatch"),
            warnings: &decision.warnings,
        },
    };
    // These types hold text, numbers and booleans: writing them cannot fail.
    serde_json::to_vec(&outgoing).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answered(envelope: Option<&Envelope>, decision: &Decision) -> Value {
        serde_json::from_slice(&encode(envelope, decision)).unwrap()
    }

    #[test]
    fn version_and_uid_are_echoed() {
        for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1", "admission.k8s.io/v2"] {
            let body = json!({ "apiVersion": version, "kind": "AdmissionReview", "request": { "uid": "u", "object": null, "userInfo": null } });
            let (envelope, request) =
                decode(Some("application/json"), body.to_string().as_bytes()).unwrap();
            assert_eq!(request.user_info.username, "");
            let answer = answered(Some(&envelope), &Decision::allowed());
            assert_eq!(
                answer,
                json!({ "apiVersion": version, "kind": "AdmissionReview", "response": { "uid": "u", "allowed": true, "status": { "code": 200 } } })
            );
        }
    }

    #[test]
    fn an_outline_has_the_version_and_the_uid() {
        let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": { "uid": "u", "object": { "uid": "x" } } });
        let envelope = envelope(body.to_string().as_bytes()).unwrap();
        let answer = answered(Some(&envelope), &Decision::errored(504, "late"));
        assert_eq!(
            answer,
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": { "uid": "u", "allowed": false, "status": { "code": 504, "message": "late" } } })
        );
        assert!(super::envelope(b"{").is_none() && super::envelope(b"[1]").is_none());
    }

    #[test]
    fn what_is_no_review_is_answered_in_one() {
        let large = vec![b' '; BODY_LIMIT + 1];
        for (content_type, body, code, text) in [
            (Some("application/json"), &b""[..], 400, "request body is empty"),
            (Some("text/plain"), b"{}", 400, "contentType=text/plain, expected application/json"),
            (None, b"{}", 400, "contentType=, expected application/json"),
            (
                Some("application/json"),
                &large,
                413,
                "request entity is too large; limit is 7340032 bytes",
            ),
            (
                Some("application/json"),
                b"[]",
                400,
                "the review cannot be decoded: not a JSON object",
            ),
            (
                Some("application/json"),
                b"{} x",
                400,
                "the review cannot be decoded: trailing characters at line 1 column 4",
            ),
            (
                Some("application/json"),
                br#"{"request":5}"#,
                400,
                "the review cannot be decoded: invalid type: integer `5`, expected struct Request at line 1 column 12",
            ),
        ] {
            let decision = decode(content_type, body).unwrap_err();
            assert_eq!((decision.code, decision.message.as_str()), (code, text));
            assert_eq!(answered(None, &decision)["response"]["allowed"], false);
        }
    }
}
