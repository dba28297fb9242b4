//! The input of the rules about Applications, and the collector of their findings.

use serde_json::Value;
use serde_json::value::RawValue;
use vela_api::names::annotation;

use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::world::World;

use super::model::{self, App};

/// What a rule group reports to.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
}

impl Findings {
    pub(crate) fn push(
        &mut self,
        rule: Rule,
        reason: Reason,
        field: Field,
        detail: impl Into<String>,
    ) {
        self.problems.push(Problem::new(rule, reason, field, detail));
    }
}

/// What all rule groups read.
pub(crate) struct Subject<'a> {
    pub(crate) app: &'a App<'a>,
    /// What it was before, in an update.
    pub(crate) old: Option<&'a App<'a>>,
    pub(crate) object: &'a Value,
    pub(crate) namespace: &'a str,
    pub(crate) world: &'a World<'a>,
    pub(crate) request: &'a Request,
}

impl Subject<'_> {
    /// Whether a component is not in the stored Application as it is here.
    pub(crate) fn is_new(&self, component: &model::Component<'_>) -> bool {
        !self.old.is_some_and(|old| old.components.contains(component))
    }

    /// Whether an edit is not deployed, since the publishVersion stays. The revision of that version counts then, which holds the
    /// Workflow and the Policies that the Application referred to.
    pub(crate) fn is_published(&self) -> bool {
        let version = self.app.annotation(annotation::PUBLISH_VERSION).unwrap_or_default();
        let before = self.old.and_then(|old| old.annotation(annotation::PUBLISH_VERSION));
        !version.is_empty() && before == Some(version)
    }
}

impl Findings {
    /// What can never work is denied in a write, and warned about where it is there already:
    /// the rest of such an Application can be edited.
    pub(crate) fn refuse_if(
        &mut self,
        is_new: bool,
        rule: Rule,
        reason: Reason,
        field: Field,
        detail: String,
    ) {
        if is_new {
            self.push(rule, reason, field, detail);
        } else {
            self.warnings.push(messages::warning(&field.to_string(), &detail));
        }
    }
}

/// Why a review has no object to judge; the text is the detail of a denial.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecoded {
    #[error("{}", messages::NO_CONTENT)]
    NoContent,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A value of another type.
    #[error("{}", messages::wrong_type("an object", .0))]
    NoObject(Value),
    /// An object of a kind that the path is not for.
    #[error("{}", messages::wrong_kind(.api_version, .kind, .want))]
    Kind { api_version: String, kind: String, want: String },
}

/// Parses an object of a review.
pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Value, Undecoded> {
    let raw = raw.filter(|raw| raw.get() != "null").ok_or(Undecoded::NoContent)?;
    let value: Value = serde_json::from_str(raw.get())?;
    if value.is_object() { Ok(value) } else { Err(Undecoded::NoObject(value)) }
}

/// A hash of what of an Application decides what is deployed, as the controller reads it.
pub(crate) fn content(object: &Value) -> Result<[u8; 32], serde_json::Error> {
    let spec = object.get("spec").cloned().map(serde_json::from_value).transpose()?;
    let annotations = object.pointer("/metadata/annotations");
    let annotation = |key: &str| {
        annotations.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default()
    };
    vela_seal::application(
        &spec.unwrap_or_default(),
        annotation(annotation::PUBLISH_VERSION),
        annotation(annotation::AUTO_UPDATE),
    )
}

/// The path is for one kind only.
pub(crate) fn is_kind(object: &Value, kind: &str) -> Result<(), Undecoded> {
    is_type(object, vela_api::V1BETA1, kind)
}

/// The same of any version.
pub(crate) fn is_type(object: &Value, api_version: &str, kind: &str) -> Result<(), Undecoded> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    // an object without either is taken for what the path is for
    let is = |key: &str, want: &str| text(key).is_empty() || text(key) == want;
    if is("kind", kind) && is("apiVersion", api_version) {
        Ok(())
    } else {
        Err(Undecoded::Kind {
            api_version: text("apiVersion").to_owned(),
            kind: text("kind").to_owned(),
            want: kind.to_owned(),
        })
    }
}

pub(crate) fn namespace<'a>(request: &'a Request, object: &'a Value) -> &'a str {
    if !request.namespace.is_empty() {
        return &request.namespace;
    }
    object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or("default")
}
