//! Health, message and details of a component or trait.

use crate::cache::{Flavour, Programs};
use crate::definition::StatusTexts;
use crate::json;
use cue::{Evaluation, Fields, LabelClass, Limits, Value, Which};
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::sync::Arc;

/// What a status text may look at. There is no namespace and no cluster in it.
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
    pub outputs: Option<&'a serde_json::Map<String, Json>>,
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

/// Details with labels from this length on are left out.
const LONGEST_LABEL: usize = 32;

struct Texts<'a> {
    programs: &'a Programs,
    limits: &'a Limits,
    parameter: Value,
}

pub(crate) fn health(
    programs: &Programs,
    limits: &Limits,
    texts: &StatusTexts,
    input: &HealthInput<'_>,
) -> Health {
    let mut context: Fields =
        [("appName", input.app_name), ("appRevision", input.app_revision), ("name", input.name)]
            .into_iter()
            .map(|(k, v)| (k.into(), Value::from(v)))
            .collect();
    if let Some(output) = input.output {
        context.insert("output".into(), json::canonical(output));
    }
    if let Some(outputs) = input.outputs {
        let objects =
            outputs.iter().map(|(k, v)| (k.as_str().into(), json::canonical(v))).collect();
        context.insert("outputs".into(), Value::Struct(objects));
    }
    health_in(programs, limits, texts, input.parameter, context)
}

/// As [`health`], with the context as given.
pub(crate) fn health_in(
    programs: &Programs,
    limits: &Limits,
    texts: &StatusTexts,
    parameter: Option<&Json>,
    mut context: Fields,
) -> Health {
    let parameter = match parameter {
        Some(given @ Json::Object(_)) => json::canonical(given),
        _ => Value::empty_struct(),
    };
    context.insert("parameter".into(), parameter.clone());
    let evaluator = Texts { programs, limits, parameter };
    let preset = context.get("status").cloned();
    let mut health = Health { healthy: true, details: Some(IndexMap::new()), ..Health::default() };
    let mut status = match &preset {
        Some(Value::Struct(fields)) => fields.clone(),
        _ => Fields::default(),
    };
    // A status that is given and is no struct stays as it is.
    let fixed = preset.is_some_and(|given| !matches!(given, Value::Struct(_)));
    if let Some(text) = &texts.details {
        match evaluator.details(text, &context) {
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
    if let Some(text) = &texts.health_policy {
        if !fixed {
            context.insert("status".into(), Value::Struct(status.clone()));
        }
        match evaluator.field(text, &context, "isHealth") {
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
        status.insert("healthy".into(), Value::Bool(health.healthy));
        if !fixed {
            context.insert("status".into(), Value::Struct(status));
        }
        match evaluator.field(text, &context, "message") {
            Ok(Value::String(message)) => health.message = message.to_string(),
            Ok(_) => health.warnings.push(crate::messages::message_not_string()),
            Err(why) => health.warnings.push(crate::messages::message_failed(&why)),
        }
    }
    health
}

impl Texts<'_> {
    fn evaluate(&self, text: &Arc<str>, context: &Fields) -> Result<Evaluation, String> {
        let of = self.programs.text(text, Flavour::Status).map_err(|errors| errors.to_string())?;
        let context = Value::Struct(context.clone());
        let inputs = [("context", &context), ("parameter", &self.parameter)];
        let mut evaluation = of.program.evaluate(&inputs, self.limits);
        let root = evaluation.root();
        evaluation.validate(root, false).map_err(|errors| errors.to_string())?;
        match crate::lets::error(&mut evaluation) {
            Some(errors) => Err(errors.to_string()),
            None => Ok(evaluation),
        }
    }

    fn field(&self, text: &Arc<str>, context: &Fields, name: &str) -> Result<Value, String> {
        let mut evaluation = self.evaluate(text, context)?;
        let root = evaluation.root();
        let node = evaluation.field(root, name).ok_or_else(|| crate::messages::no_field(name))?;
        evaluation.export(node).map_err(|errors| errors.to_string())
    }

    fn details(
        &self,
        text: &Arc<str>,
        context: &Fields,
    ) -> Result<(IndexMap<String, String>, Fields), String> {
        let mut evaluation = self.evaluate(text, context)?;
        let root = evaluation.root();
        let private = private_labels(text);
        let mut shown = IndexMap::new();
        let mut typed = Fields::default();
        for field in evaluation.fields(root, Which::default()) {
            let label = field.label.as_str();
            if field.class != LabelClass::Regular
                || label.len() >= LONGEST_LABEL
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
