//! Evaluating one template, and reading what every template may have: `errs`, `outputs`.

use super::error::Failure;
use super::{Draft, Engine, Run};
use crate::cache::Flavour;
use crate::convert;
use crate::definition::{Definition, Stage, Template};
use crate::host::Providers;
use crate::input::Input;
use crate::messages::{self, Subject};
use cue::{Errors, Evaluation, Kind, Node, Value, Which};
use ecow::EcoString;

impl Engine<'_> {
    /// Evaluates a template and reports everything that is wrong with it.
    pub(crate) fn evaluate(
        &mut self,
        definition: &Definition,
        flavour: Flavour,
        inputs: &[(&str, Input<'_>)],
        subject: Subject<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Evaluation, Failure> {
        if let Template::Retired(schematic) = definition.template {
            return Err(messages::retired_schematic(schematic, &definition.name).into());
        }
        let of = self.programs.template(&definition.template, flavour).map_err(|errors| {
            let (text, lines) =
                (format!("definition {}", definition.name), definition.template.text());
            let position = |error| messages::position_suffix(error, &text, lines.lines().count());
            let position = errors.list().first().map(position).unwrap_or_default();
            let message = messages::compile(subject, &format_args!("{errors}{position}"));
            Failure { message, errors: Some(errors) }
        })?;
        let mut evaluation = if of.asks_host {
            let values: Vec<(&str, Value)> =
                inputs.iter().map(|(name, input)| (*name, input.value())).collect();
            let values: Vec<(&str, &Value)> = values.iter().map(|(n, v)| (*n, v)).collect();
            let mut providers = Providers::new(self.host);
            let evaluation = of.program.evaluate_with_host(&values, self.limits, &mut providers);
            if let Some(error) = providers.into_error() {
                return Err(messages::compile(subject, &error).into());
            }
            evaluation
        } else {
            of.program
                .evaluate_from(inputs.iter().copied(), self.limits)
                .map_err(|error| Failure::from(messages::compile(subject, &error)))?
        };
        let root = evaluation.root();
        let user = user_errors(&mut evaluation, root, subject, warnings);
        let Err(errors) = evaluation.validate(root, false) else {
            if user.is_empty() {
                return Ok(evaluation);
            }
            let message = messages::groups(&messages::validation(subject), &user, &[]);
            return Err(message.into());
        };
        let more = evaluation.validate(root, true).err();
        let lines: Vec<String> = errors
            .list()
            .iter()
            .chain(more.iter().flat_map(Errors::list))
            .map(ToString::to_string)
            .collect();
        let message = messages::groups(&messages::validation(subject), &user, &lines);
        Err(Failure { message, errors: Some(errors) })
    }
}

/// What the template's author reports in `errs`: a list of strings.
fn user_errors(
    evaluation: &mut Evaluation,
    root: Node,
    subject: Subject<'_>,
    warnings: &mut Vec<String>,
) -> Vec<String> {
    let Some(node) = evaluation.field(root, "errs") else { return Vec::new() };
    if evaluation.kind(node) != Kind::LIST {
        warnings.push(messages::errs_ignored(&subject.to_string()));
        return Vec::new();
    }
    let mut texts = Vec::new();
    for element in evaluation.elements(node) {
        let text = match evaluation.export(element) {
            Ok(Value::String(text)) => text.to_string(),
            _ => String::new(),
        };
        texts.push(text);
    }
    texts
}

/// Appends the fields of `outputs`.
pub(super) fn outputs(
    evaluation: &mut Evaluation,
    root: Node,
    kind: &str,
    trait_index: Option<usize>,
    stage: Stage,
    run: &mut Run,
) {
    for (name, node) in named_outputs(evaluation, root) {
        let term = convert::object(evaluation, node);
        run.drafts.push(Draft { name, kind: kind.to_owned(), trait_index, stage, term });
    }
}

/// The fields of `outputs`, or its elements under their index.
pub(super) fn named_outputs(evaluation: &mut Evaluation, root: Node) -> Vec<(EcoString, Node)> {
    let Some(node) = evaluation.field(root, "outputs") else { return Vec::new() };
    if evaluation.kind(node) == Kind::LIST {
        let elements = evaluation.elements(node).into_iter().enumerate();
        return elements.map(|(index, element)| (index.to_string().into(), element)).collect();
    }
    let fields = evaluation.fields(node, Which::default()).into_iter();
    fields.map(|field| (field.label, field.node)).collect()
}
