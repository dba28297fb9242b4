//! Admission: every problem of a component's and its traits' parameters.

use crate::cache::Flavour;
use crate::context;
use crate::definition::Stage;
use crate::input::Input;
use crate::render::{Engine, RenderError, Step};
use crate::term::Term;
use crate::{App, Component, Renderer, Target, Template, Trait, convert, messages};
use cue::{Evaluation, Marker, Node, Rest, Shape, Value, Which};
use serde_json::Value as Json;
use vela_gocompat::nearest;

/// What admission checks in addition to a dry rendering.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// `EnableCueValidation`: required parameters and constraints, also those no template uses.
    pub cue_validation: bool,
    /// `ValidateUndeclaredParameters`: properties the definition does not know are errors.
    pub undeclared_parameters: bool,
    /// Names of parameters known to be declared: properties of these names are not checked again.
    pub declared: Vec<String>,
    /// Paths of properties that come later (workflow inputs, component inputs, override policies),
    /// such as `image` or `ports[0].port`.
    pub supplied_later: Vec<String>,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A warning; the Application is accepted.
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
    /// The providers that the templates ask while they are rendered; admission asks none of them.
    pub providers: Vec<String>,
    /// What the component's template asks of the provider of charts (`helm.#Render`).
    pub chart: Option<Json>,
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
        let mut host = crate::host::DryHost::default();
        let mut engine = Engine { programs: &self.programs, limits: &self.limits, host: &mut host };
        let parameters = Parameters { renderer: self, app, component, of: None };
        match engine.dry(app, &Target::default(), &dry) {
            Ok(outputs) => checked.outputs = outputs,
            Err(error) => {
                checked.problems.extend(problems(component, &error));
                // Rendering stops at the first step that fails: the traits behind it are checked
                // on their own.
                for of in &dry.traits {
                    let parameters = Parameters { of: Some(of), ..parameters };
                    parameters.violations(&mut checked.problems);
                    parameters.explain(&mut checked.problems);
                }
            }
        }
        (checked.providers, checked.chart) = (host.asked, host.chart);
        parameters.explain(&mut checked.problems);
        if gates.cue_validation && !checked.refused() {
            parameters.missing(&gates.supplied_later, &mut checked.problems);
        }
        parameters.undeclared(gates, &mut checked.problems);
        checked
    }
}

/// The parameters of one component, or of one of its traits, against their definition.
#[derive(Clone, Copy)]
struct Parameters<'a> {
    renderer: &'a Renderer,
    app: &'a App,
    component: &'a Component<'a>,
    /// The trait, if it is about one.
    of: Option<&'a Trait<'a>>,
}

impl Parameters<'_> {
    fn given(&self) -> Option<&Json> {
        match self.of {
            Some(t) => t.properties,
            None => self.component.properties,
        }
    }

    fn is_about(&self, problem: &Problem) -> bool {
        problem.trait_kind.as_deref() == self.of.map(|t| t.kind)
    }

    /// Evaluates the template with these properties; `None` if it cannot be.
    fn evaluate(&self, properties: Option<&Json>) -> Option<(Evaluation, Node)> {
        let given = crate::render::properties(properties).ok()?;
        let (definition, flavour) = match self.of {
            None => (self.component.definition, Flavour::Component),
            Some(t) if given.is_none() => (t.definition, Flavour::TraitBare),
            Some(t) => (t.definition, Flavour::Trait),
        };
        let programs = &self.renderer.programs;
        let program = &programs.template(&definition.template, flavour).ok()?.program;
        let target = Target::default();
        let version = target.cluster_version.fields();
        let components =
            programs.asks_for_components(self.component).then(|| context::components(self.app));
        let context = context::fields(
            self.app,
            &target,
            self.component.name,
            &version,
            None,
            components.as_ref(),
        );
        let mut inputs = vec![("context", context.input())];
        if let Some(given) = given {
            inputs.push(("parameter", Input::Json(given)));
        }
        let mut evaluation = program.evaluate_from(inputs, &self.renderer.limits).ok()?;
        let root = evaluation.root();
        let parameter = evaluation.field(root, "parameter")?;
        Some((evaluation, parameter))
    }

    /// Properties that break a constraint, unless that is known already.
    fn violations(&self, problems: &mut Vec<Problem>) {
        if problems.iter().any(|p| self.is_about(p) && p.path.starts_with("properties")) {
            return;
        }
        let Some((mut evaluation, parameter)) = self.evaluate(self.given()) else { return };
        let Err(errors) = evaluation.validate(parameter, false) else { return };
        for error in errors.list() {
            let Some((_, below)) =
                error.path.split_first().filter(|(root, _)| *root == "parameter")
            else {
                continue;
            };
            let problem = Problem {
                given: self.given().and_then(|p| value_at(p, below)).map(ToString::to_string),
                ..self.problem(Severity::Error, property_path(below), error.message.clone())
            };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }

    fn problem(&self, severity: Severity, path: String, message: String) -> Problem {
        Problem {
            severity,
            component: self.component.name.to_owned(),
            trait_kind: self.of.map(|t| t.kind.to_owned()),
            path,
            given: None,
            expected: None,
            nearest: None,
            message,
        }
    }

    /// Adds to every problem of the component, or of the trait, what the definition expects there.
    fn explain(&self, problems: &mut [Problem]) {
        if !problems.iter().any(|p| self.is_about(p) && p.path.starts_with("properties.")) {
            return;
        }
        let Some((mut evaluation, parameter)) = self.evaluate(None) else { return };
        for problem in problems.iter_mut().filter(|p| self.is_about(p)) {
            let Some(path) = problem.path.strip_prefix("properties.") else { continue };
            let path = path.replace('[', ".").replace(']', "");
            let labels: Vec<&str> = path.split('.').collect();
            if let Some(node) = declared(&mut evaluation, parameter, &labels) {
                let term = convert::term(&mut evaluation, node);
                let given = problem.given.as_deref().unwrap_or_default();
                if let Ok(Json::String(given)) = serde_json::from_str(given) {
                    problem.nearest = nearest(&given, words(&term)).map(str::to_owned);
                }
                problem.expected = Some(term.show());
            } else if let Some((last, above)) = labels.split_last()
                && let Some(node) = declared(&mut evaluation, parameter, above)
            {
                let names = labels_of(&mut evaluation, node);
                problem.nearest =
                    nearest(last, names.iter().map(String::as_str)).map(str::to_owned);
            }
        }
    }

    /// Parameters that must be given and are not, and those that break a constraint.
    fn missing(&self, later: &[String], problems: &mut Vec<Problem>) {
        let Some((mut evaluation, parameter)) = self.evaluate(None) else { return };
        let mut required = Vec::new();
        required_below(&mut evaluation, parameter, &mut Vec::new(), &mut required);
        let given = self.component.properties.unwrap_or(&Json::Null);
        let mut missing: Vec<String> = Vec::new();
        for path in required {
            let dotted = path.join(".");
            if value_at(given, &path).is_none() && !comes_later(later, &dotted) {
                missing.push(dotted);
            }
        }
        if !missing.is_empty() {
            let message = messages::missing_parameters(self.component.name, &missing);
            for path in &missing {
                let labels: Vec<&str> = path.split('.').collect();
                let expected = declared(&mut evaluation, parameter, &labels)
                    .map(|node| convert::term(&mut evaluation, node).show());
                problems.push(Problem {
                    expected,
                    ..self.problem(Severity::Error, format!("properties.{path}"), message.clone())
                });
            }
            return;
        }
        if !later.is_empty() {
            return;
        }
        let Some((mut evaluation, parameter)) = self.evaluate(self.component.properties) else {
            return;
        };
        match evaluation.shape(parameter) {
            Shape::Any(_) => return,
            // The definition declares none, and none is given.
            Shape::Kinds(_) if self.component.properties.is_none() => return,
            _ => {}
        }
        // What is missing inside lists is found when the objects are made.
        let errors = evaluation.validate(parameter, true).err().and_then(|errors| {
            let outside = |e: &&cue::Error| {
                !e.path.iter().any(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_digit()))
            };
            cue::Errors::from_list(errors.list().iter().filter(outside).cloned().collect())
        });
        if let Some(errors) = errors {
            let message = messages::parameter_violation(self.component.name, &errors);
            let path = errors
                .list()
                .first()
                .map_or_else(String::new, |e| property_path(e.path.get(1..).unwrap_or_default()));
            problems.push(self.problem(Severity::Error, path, message));
        }
    }

    /// Properties the definition does not know.
    fn undeclared(&self, gates: &Gates, problems: &mut Vec<Problem>) {
        let Some(Json::Object(given)) = self.component.properties else { return };
        if given.keys().all(|key| gates.declared.contains(key)) {
            return;
        }
        let Some((mut evaluation, parameter)) = self.evaluate(None) else { return };
        if accepts_all(&mut evaluation, parameter) {
            return;
        }
        let known = labels_of(&mut evaluation, parameter);
        let mut unknown: Vec<&String> = Vec::new();
        for key in given.keys().filter(|key| !known.contains(key)) {
            // A field may only be there under a condition that other values meet.
            let mut others = given.clone();
            others.remove(key);
            let is_known = self.evaluate(Some(&Json::Object(others))).is_some_and(
                |(mut evaluation, parameter)| {
                    accepts_all(&mut evaluation, parameter)
                        || labels_of(&mut evaluation, parameter).contains(key)
                },
            );
            if !is_known {
                unknown.push(key);
            }
        }
        let severity =
            if gates.undeclared_parameters { Severity::Error } else { Severity::Warning };
        for key in unknown {
            let nearest = nearest(key, known.iter().map(String::as_str)).map(str::to_owned);
            let message =
                messages::undeclared_parameter(self.component.name, key, nearest.as_deref());
            problems.push(Problem {
                given: given.get(key).map(ToString::to_string),
                nearest,
                ..self.problem(severity, format!("properties.{key}"), message)
            });
        }
    }
}

/// Whether a parameter, or one above it, comes later.
fn comes_later(later: &[String], dotted: &str) -> bool {
    let covers = |path: &String| {
        dotted.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    later.iter().any(covers)
}

/// The texts among the alternatives of a term: the words of an enumeration.
fn words(term: &Term) -> impl Iterator<Item = &str> {
    let alternatives = match term {
        Term::Any(alternatives) => alternatives.as_slice(),
        _ => &[],
    };
    alternatives.iter().filter_map(|alternative| match &alternative.term {
        Term::Scalar(Value::String(word)) if !word.is_empty() => Some(word.as_str()),
        _ => None,
    })
}

/// Everything a struct (or any of its alternatives) may have as a field.
fn labels_of(evaluation: &mut Evaluation, node: Node) -> Vec<String> {
    let mut out = Vec::new();
    for node in structs(evaluation, node) {
        let which = Which { constraints: true, ..Which::default() };
        out.extend(evaluation.fields(node, which).into_iter().map(|f| f.label.to_string()));
    }
    out
}

fn structs(evaluation: &mut Evaluation, node: Node) -> Vec<Node> {
    fn collect(shape: Shape, out: &mut Vec<Node>) {
        match shape {
            Shape::Struct(node) => out.push(node),
            Shape::Any(alternatives) => {
                for (_, shape) in alternatives {
                    collect(shape, out);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    collect(evaluation.shape(node), &mut out);
    out
}

/// Whether a parameter accepts whatever is given: `...`, a pattern, or no struct at all.
fn accepts_all(evaluation: &mut Evaluation, node: Node) -> bool {
    let structs = structs(evaluation, node);
    structs.is_empty()
        || structs
            .into_iter()
            .any(|node| evaluation.is_open(node) || !evaluation.patterns(node).is_empty())
}

/// The declaration of the parameter at a path.
fn declared(evaluation: &mut Evaluation, node: Node, labels: &[&str]) -> Option<Node> {
    let Some((first, rest)) = labels.split_first() else { return Some(node) };
    if let Shape::List(list) = evaluation.shape(node) {
        let index: usize = first.parse().ok()?;
        let element = match evaluation.elements(list).get(index).copied() {
            Some(element) => element,
            None => match evaluation.rest(list) {
                Rest::Of(element) => element,
                Rest::Closed | Rest::Open => return None,
            },
        };
        return declared(evaluation, element, rest);
    }
    for node in structs(evaluation, node) {
        let which = Which { constraints: true, ..Which::default() };
        let found = evaluation.fields(node, which).into_iter().find(|f| f.label == **first);
        let next = match found {
            Some(field) => Some(field.node),
            None => evaluation.patterns(node).first().map(|(_, value)| *value),
        };
        if let Some(next) = next
            && let Some(found) = declared(evaluation, next, rest)
        {
            return Some(found);
        }
    }
    None
}

/// The paths of parameters that are neither optional nor have a value or default.
fn required_below(
    evaluation: &mut Evaluation,
    node: Node,
    path: &mut Vec<String>,
    out: &mut Vec<Vec<String>>,
) {
    const DEPTH: usize = 32;
    let Shape::Struct(node) = evaluation.shape(node) else { return };
    if path.len() > DEPTH {
        return;
    }
    for field in evaluation.fields(node, Which { constraints: true, ..Which::default() }) {
        if field.marker == Marker::Optional {
            continue;
        }
        path.push(field.label.to_string());
        match evaluation.shape(field.node) {
            Shape::Struct(inner) => required_below(evaluation, inner, path, out),
            Shape::Data(_) | Shape::List(_) | Shape::Error(_) => {}
            Shape::Any(alternatives) if alternatives.iter().any(|(default, _)| *default) => {}
            _ => out.push(path.clone()),
        }
        path.pop();
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
