//! Health, message and details of a component or trait.

use crate::cache::{Flavour, Programs};
use crate::context;
use crate::definition::StatusTexts;
use crate::input::Input;
use crate::json;
use cue::{Evaluation, Fields, LabelClass, Limits, Value, Which};
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a status text may read. There is no namespace and no cluster in it.
#[derive(Clone, Debug, Default)]
pub struct HealthInput<'a> {
    /// Name of the component, also for a trait.
    pub name: &'a str,
    /// Name of the Application.
    pub app_name: &'a str,
    /// Name of its revision.
    pub app_revision: &'a str,
    /// The properties of the component or trait.
    pub parameter: Option<&'a Json>,
    /// The live workload (components only).
    pub output: Option<&'a Json>,
    /// The live objects by name: a component's auxiliaries, or the objects of the trait.
    pub outputs: Option<BTreeMap<&'a str, &'a Json>>,
}

/// The status of a component or trait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Whether it is healthy: true without a policy, false if the policy fails.
    pub healthy: bool,
    /// The message, empty without a text or if it fails.
    pub message: String,
    /// The details as text, in the order of the template; `None` if they failed.
    pub details: Option<IndexMap<String, String>>,
    /// The details with their types, as later texts see them.
    pub context_details: Json,
    /// Why a text failed.
    pub warnings: Vec<String>,
}

/// Why a status text has no result.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(transparent)]
    Cue(#[from] cue::Errors),
    /// The context cannot be read.
    #[error(transparent)]
    Input(#[from] serde::de::value::Error),
    #[error("{}", crate::messages::no_field(.0))]
    NoField(String),
}

/// Details with labels from this length on are left out.
const MAX_LABEL: usize = 32;

pub(crate) fn health(
    programs: &Programs,
    limits: &Limits,
    texts: &StatusTexts,
    input: &HealthInput<'_>,
) -> Health {
    let outputs = input.outputs.iter().flatten();
    let outputs: Vec<_> = outputs.map(|(name, object)| (*name, Input::Json(object))).collect();
    let mut context = context::Fields::default();
    context.set("appName", Input::Text(input.app_name));
    context.set("appRevision", Input::Text(input.app_revision));
    context.set("name", Input::Text(input.name));
    if let Some(output) = input.output {
        context.set("output", Input::Json(output));
    }
    if input.outputs.is_some() {
        context.set("outputs", Input::Struct(&outputs));
    }
    health_in(programs, limits, texts, input.parameter, context, None)
}

/// As [`health`], with the context as given, and what its status is already.
pub(crate) fn health_in<'a>(
    programs: &Programs,
    limits: &Limits,
    texts: &StatusTexts,
    parameter: Option<&'a Json>,
    mut context: context::Fields<'a>,
    preset: Option<&Json>,
) -> Health {
    let parameter = parameter.filter(|given| given.is_object());
    let parameter = parameter.map_or(Input::Struct(&[]), Input::Json);
    context.set("parameter", parameter);
    let evaluator = Texts { programs, limits, parameter, context };
    let mut health = Health { healthy: true, details: Some(IndexMap::new()), ..Health::default() };
    // A status that is given and is no struct stays as it is.
    let fixed = preset.is_some_and(|given| !given.is_object());
    let mut status = match preset.map(json::canonical) {
        Some(Value::Struct(fields)) => fields,
        _ => Fields::default(),
    };
    if let Some(text) = &texts.details {
        match evaluator.details(text) {
            Ok((shown, typed)) => {
                health.details = Some(shown);
                health.context_details = json::from_cue(&Value::Struct(typed.clone()));
                status.insert("details".into(), Value::Struct(typed));
            }
            Err(why) => {
                health.details = None;
                health.warnings.push(crate::messages::details_failed(&why));
            }
        }
    }
    let mut status = Value::Struct(status);
    if let Some(text) = &texts.health_policy {
        match evaluator.field(text, Some(&status).filter(|_| !fixed), "isHealth") {
            Ok(Value::Bool(healthy)) => health.healthy = healthy,
            Ok(_) => {
                health.healthy = false;
                health.warnings.push(crate::messages::health_not_bool());
            }
            Err(why) => {
                health.healthy = false;
                health.warnings.push(crate::messages::health_failed(&why));
            }
        }
    }
    if let Some(text) = &texts.custom_status {
        if let Value::Struct(fields) = &mut status {
            fields.insert("healthy".into(), Value::Bool(health.healthy));
        }
        match evaluator.field(text, Some(&status).filter(|_| !fixed), "message") {
            Ok(Value::String(message)) => health.message = message.to_string(),
            Ok(_) => health.warnings.push(crate::messages::message_not_string()),
            Err(why) => health.warnings.push(crate::messages::message_failed(&why)),
        }
    }
    health
}

/// Whether a text as a whole is free of errors.
fn check(evaluation: &mut Evaluation) -> Result<(), StatusError> {
    let root = evaluation.root();
    evaluation.validate(root, false)?;
    crate::lets::error(evaluation).map_or(Ok(()), |errors| Err(errors.into()))
}

/// What the texts of a definition are evaluated with.
struct Texts<'a> {
    programs: &'a Programs,
    limits: &'a Limits,
    parameter: Input<'a>,
    context: context::Fields<'a>,
}

impl Texts<'_> {
    fn evaluate(&self, text: &Arc<str>, status: Option<&Value>) -> Result<Evaluation, StatusError> {
        let mut evaluation = self.begin(text, status)?;
        check(&mut evaluation)?;
        Ok(evaluation)
    }

    /// An evaluation of which nothing has been demanded.
    fn begin(&self, text: &Arc<str>, status: Option<&Value>) -> Result<Evaluation, StatusError> {
        let of = self.programs.text(text, Flavour::Status)?;
        let mut context = self.context.clone();
        if let Some(status) = status {
            context.set("status", Input::Value(status));
        }
        let inputs = [("context", context.input()), ("parameter", self.parameter)];
        Ok(of.program.evaluate_from(inputs, self.limits)?)
    }

    fn field(
        &self,
        text: &Arc<str>,
        status: Option<&Value>,
        name: &str,
    ) -> Result<Value, StatusError> {
        let mut evaluation = self.begin(text, status)?;
        let root = evaluation.root();
        // Before the text as a whole: a guard that leads nowhere would take with it what another
        // has said (render-4).
        let value = evaluation.field(root, name).map(|node| evaluation.export(node));
        check(&mut evaluation)?;
        Ok(value.ok_or_else(|| StatusError::NoField(name.to_owned()))??)
    }

    fn details(&self, text: &Arc<str>) -> Result<(IndexMap<String, String>, Fields), StatusError> {
        let mut evaluation = self.evaluate(text, None)?;
        let root = evaluation.root();
        let private = private_labels(text);
        let mut shown = IndexMap::new();
        let mut typed = Fields::default();
        for field in evaluation.fields(root, Which::default()) {
            let label = field.label.as_str();
            if field.class != LabelClass::Regular
                || label.len() >= MAX_LABEL
                || matches!(label, "context" | "parameter")
                || private.contains(&label)
            {
                continue;
            }
            let value = evaluation.export(field.node).ok();
            if let Some(value) = &value {
                typed.insert(field.label.clone(), value.clone());
            }
            if !label.starts_with('$') {
                let text = match value {
                    Some(Value::String(text)) => text.to_string(),
                    Some(value) => crate::term::Term::from_value(&value).show().replace("E+", "e+"),
                    None => "_|_".to_owned(),
                };
                shown.insert(label.to_owned(), text);
            }
        }
        Ok((shown, typed))
    }
}

/// The labels of fields with the attribute `@local()` or `@private()`.
fn private_labels(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.contains("@local(") || line.contains("@private("))
        .filter_map(|line| line.split_once(':'))
        .map(|(label, _)| label.trim().trim_matches('"'))
        .collect()
}
