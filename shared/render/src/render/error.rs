//! Errors of rendering.

use crate::context::App;
use crate::messages;
use cue::Errors;

/// Properties of another kind: its name.
#[derive(Debug, thiserror::Error)]
#[error("{}", messages::not_an_object(.0))]
pub(crate) struct NotAnObject(pub(super) &'static str);

/// Where rendering failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading the properties.
    Parse,
    /// Evaluating the component's template.
    Component,
    /// Evaluating a trait or applying its patch.
    Trait,
    /// Making objects of the result.
    Export,
}

impl Step {
    /// The name in the conformance material.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Component => "component",
            Self::Trait => "trait",
            Self::Export => "export",
        }
    }
}

/// Why a component could not be rendered.
#[derive(Clone, Debug)]
pub struct RenderError {
    /// Where.
    pub step: Step,
    /// The whole message.
    pub message: String,
    /// The trait's type, if a trait is to blame.
    pub trait_kind: Option<String>,
    /// The evaluator's errors behind it, if any.
    pub errors: Option<Errors>,
}

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RenderError {}

impl RenderError {
    pub(super) fn new(step: Step, message: String) -> Self {
        Self { step, message, trait_kind: None, errors: None }
    }
}

/// A failed template: its message without the wrapper, and the evaluator's errors.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) errors: Option<Errors>,
}

impl Failure {
    pub(super) fn component(self, app: &App) -> RenderError {
        RenderError {
            errors: self.errors,
            ..RenderError::new(
                Step::Component,
                messages::base_template(&app.name, &app.namespace, &self.message),
            )
        }
    }

    pub(super) fn of_trait(self, kind: &str, component: &str) -> RenderError {
        RenderError {
            errors: self.errors,
            trait_kind: Some(kind.to_owned()),
            ..RenderError::new(
                Step::Trait,
                messages::trait_template(kind, component, &self.message),
            )
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, errors: None }
    }
}

impl From<NotAnObject> for Failure {
    fn from(error: NotAnObject) -> Self {
        error.to_string().into()
    }
}

/// Properties that are no object.
pub(super) fn parse_error(name: &str, why: &NotAnObject) -> RenderError {
    RenderError::new(Step::Parse, messages::settings(name, why))
}
