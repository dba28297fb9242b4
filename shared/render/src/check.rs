//! Admission: every problem of a component's and its traits' parameters.

use crate::definition::Stage;
use crate::render::{Engine, RenderError, Step};
use crate::{App, Component, Renderer, Target, Template};
use serde_json::Value as Json;

/// What admission looks at besides a dry rendering.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// `EnableCueValidation`: required parameters and constraints, also those no template uses.
    pub cue_validation: bool,
    /// `ValidateUndeclaredParameters`: properties the definition does not know are errors.
    pub undeclared_parameters: bool,
    /// Paths of properties that come later (workflow inputs, component inputs, override policies),
    /// such as `image` or `ports[0].port`.
    pub supplied_later: Vec<String>,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth telling; the Application is accepted.
    Warning,
    /// The Application is refused.
    Error,
}

/// A problem of a component or of one of its traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// The component's name.
    pub component: String,
    /// The trait's type, if the problem is in a trait.
    pub trait_kind: Option<String>,
    /// Where: `properties.replicas`, `properties.ports[0].port`; empty if it is no property.
    pub path: String,
    /// The value that is wrong, as JSON.
    pub given: Option<String>,
    /// What it should be.
    pub expected: Option<String>,
    /// The name that was probably meant.
    pub nearest: Option<String>,
    /// The whole story in one sentence or several lines.
    pub message: String,
}

/// The outcome of checking a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// All problems; the Application is refused if one is an error.
    pub problems: Vec<Problem>,
    /// The names in `outputs` of the component and its traits, to be unique in the component.
    pub outputs: Vec<String>,
}

impl Checked {
    /// Whether a problem is an error.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.problems.iter().any(|p| p.severity == Severity::Error)
    }
}

impl Renderer {
    /// Checks a component as admission does: a dry rendering without PostDispatch traits and, as
    /// the gates say, its parameters. `ref-objects` and Terraform components are not evaluated.
    #[must_use]
    pub fn check(&self, app: &App, component: &Component<'_>, gates: &Gates) -> Checked {
        let mut checked = Checked::default();
        if component.definition.name == "ref-objects"
            || matches!(component.definition.template, Template::Terraform(_))
        {
            return checked;
        }
        let mut dry = component.clone();
        dry.traits.retain(|t| t.definition.stage != Stage::PostDispatch);
        let mut host = crate::host::DryHost;
        let mut engine = Engine { programs: &self.programs, limits: &self.limits, host: &mut host };
        match engine.dry(app, &Target::default(), &dry) {
            Ok(outputs) => checked.outputs = outputs,
            Err(error) => checked.problems.extend(problems(component, &error)),
        }
        let _ = gates;
        checked
    }
}

/// The problems behind a failed rendering.
fn problems(component: &Component<'_>, error: &RenderError) -> Vec<Problem> {
    let properties = match &error.trait_kind {
        None => component.properties,
        Some(kind) => component.traits.iter().find(|t| t.kind == kind).and_then(|t| t.properties),
    };
    let mut out: Vec<Problem> = Vec::new();
    for one in error.errors.iter().flat_map(cue::Errors::list) {
        let Some((_, below)) = one.path.split_first().filter(|(root, _)| *root == "parameter")
        else {
            continue;
        };
        let path = property_path(below);
        if out.iter().any(|p| p.path == path && p.message == one.message) {
            continue;
        }
        out.push(Problem {
            severity: Severity::Error,
            component: component.name.to_owned(),
            trait_kind: error.trait_kind.clone(),
            given: properties.and_then(|p| value_at(p, below)).map(ToString::to_string),
            expected: None,
            nearest: None,
            message: one.message.clone(),
            path,
        });
    }
    if out.is_empty() {
        out.push(Problem {
            severity: Severity::Error,
            component: component.name.to_owned(),
            trait_kind: error.trait_kind.clone(),
            path: if error.step == Step::Parse { "properties".to_owned() } else { String::new() },
            given: None,
            expected: None,
            nearest: None,
            message: error.message.clone(),
        });
    }
    out
}

/// `properties.ports[0].port` of the labels below `parameter`.
fn property_path<S: AsRef<str>>(labels: &[S]) -> String {
    let mut path = String::from("properties");
    for label in labels {
        let label = label.as_ref();
        if !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{label}]"));
        } else {
            path.push('.');
            path.push_str(label);
        }
    }
    path
}

fn value_at<'a, S: AsRef<str>>(properties: &'a Json, labels: &[S]) -> Option<&'a Json> {
    labels.iter().try_fold(properties, |value, label| {
        let label = label.as_ref().trim_matches('"');
        match value {
            Json::Array(items) => items.get(label.parse::<usize>().ok()?),
            Json::Object(fields) => fields.get(label),
            _ => None,
        }
    })
}
