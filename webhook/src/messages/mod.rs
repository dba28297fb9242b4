//! All messages for users of the API: denials, problems, warnings. One function each.
//!
//! Details keep the words of upstream (`pkg/webhook`, `pkg/appfile`) that scripts match, and add
//! what they lack: the value, the namespaces that were searched, the nearest known name.

use std::fmt::Write as _;

use serde_json::Value;
use vela_api::mistyped::Wanted;

use crate::field::Problem;

mod application;
mod definition;
mod parameters;
mod references;

pub(crate) use application::*;
pub(crate) use definition::*;
pub(crate) use parameters::*;
pub(crate) use references::*;

pub(crate) const EMPTY_BODY: &str = "request body is empty";
pub(crate) const NO_CONTENT: &str = "there is no content to decode";
pub(crate) const DEADLINE: &str = "the review could not be finished within the time the API server allows; split the Application or raise admissionWebhookTimeout";
pub(crate) const SHUTTING_DOWN: &str = "the webhook is shutting down, try again";
pub(crate) const TOO_MANY_LOOKUPS: &str = "the chain of references of this object is too long";
pub(crate) const NO_ANSWER_IN_TIME: &str = "the API server did not answer in time";
pub(crate) const BODY_TIMEOUT: &str = "the request body did not arrive in time";
pub(crate) const BODIES_BUSY: &str =
    "the webhook has no memory left for further request bodies, try again";

/// The list of problems, numbered.
pub(crate) fn numbered(problems: &[Problem], uid: &str) -> String {
    let mut text = String::new();
    for (n, problem) in problems.iter().enumerate() {
        let end = if problem.detail.ends_with(['?', '.']) { "" } else { "." };
        let _ = write!(text, "\n  {}) \"{}\": {}{end}", n + 1, problem.field, problem.detail);
    }
    with_uid(&text, uid)
}

/// The request's uid, which an operator can search in the log.
pub(crate) fn with_uid(text: &str, uid: &str) -> String {
    format!("{text} (requestUID={uid})")
}

pub(crate) fn content_type(got: &str) -> String {
    format!("contentType={got}, expected application/json")
}

pub(crate) fn too_large(limit: usize) -> String {
    format!("request entity is too large; limit is {limit} bytes")
}

/// An object or a part of it is larger than what is admitted.
pub(crate) fn oversized(field: &str, size: usize, limit: usize) -> String {
    format!("{field} is {size} bytes long, at most {limit} are admitted")
}

pub(crate) fn undecodable(error: &str) -> String {
    format!("the review cannot be decoded: {error}")
}

pub(crate) fn failed_to_decode(error: &str) -> String {
    format!("failed to decode: {error}")
}

pub(crate) fn panicked(text: &str) -> String {
    format!("panic: {text} [recovered]")
}

pub(crate) fn wrong_kind(api_version: &str, kind: &str, want: &str) -> String {
    format!("unexpected kind \"{kind}\" in version \"{api_version}\": this path is for {want}")
}

pub(crate) fn wrong_resource(resource: &str) -> String {
    format!("expect resource to be core.oam.dev/v1beta1, Resource={resource}")
}

pub(crate) fn wrong_type(want: &str, got: &Value) -> String {
    format!("must be {want}, not {}", kind_of(got))
}

/// A type, for [`wrong_type`].
pub(crate) fn wanted(type_: Wanted) -> &'static str {
    match type_ {
        Wanted::Text => "a text",
        Wanted::Boolean => "a boolean",
        Wanted::WholeNumber => "a whole number",
        Wanted::List => "a list",
        Wanted::Texts => "a list of texts",
        Wanted::Object => "an object",
        Wanted::Pairs => "an object of texts",
    }
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {}", shortened(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A quoted text of bearable length.
fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    if text.chars().count() <= MAX_SHOWN {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX_SHOWN).collect();
    format!("{:?}", format!("{head}..."))
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

fn in_namespaces(namespaces: &[String]) -> String {
    let quoted: Vec<String> = namespaces.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [one] => format!("in namespace {one}"),
        many => format!("in namespaces {}", many.join(", ")),
    }
}

pub(crate) fn unknown_property(name: &str, nearest: Option<&str>) -> String {
    format!("unknown field \"{name}\"{}", hint(nearest))
}

pub(crate) fn required() -> &'static str {
    "required value"
}

/// A problem that is only a warning.
pub(crate) fn warning(field: &str, detail: &str) -> String {
    format!("{field}: {detail}")
}

pub(crate) fn no_matches(api_version: &str, kind: &str) -> String {
    format!("no matches for kind \"{kind}\" in version \"{api_version}\"")
}

pub(crate) fn lookup_failed(error: &str) -> String {
    format!("the request to the API server failed: {error}")
}

pub(crate) fn no_conversion(desired: &str) -> String {
    format!("there is no conversion to \"{desired}\", only core.oam.dev/v1beta1 exists")
}
