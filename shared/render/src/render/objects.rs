//! Converts the results of templates to Kubernetes objects.

use super::Run;
use super::component::{AUXILIARY_WORKLOAD, Auxiliary, Component, Rendered};
use super::error::{RenderError, Step};
use super::template::named_outputs;
use crate::context::App;
use crate::definition::{Stage, Template};
use crate::json;
use crate::messages;
use crate::patch;
use crate::term::Term;
use cue::{Errors, Evaluation, Node};
use ecow::EcoString;
use serde_json::Value as Json;

/// The objects of a component that neither traits nor a step patch: built from the evaluation without
/// terms in between.
#[derive(Debug)]
pub(super) struct Exported {
    workload: Json,
    auxiliaries: Vec<(EcoString, Json)>,
}

/// The objects, if all of them are complete. Otherwise the way through terms reports what is wrong.
pub(super) fn export(evaluation: &mut Evaluation, root: Node) -> Option<Exported> {
    let one = |evaluation: &mut Evaluation, node| {
        evaluation.export_json(node).ok().and_then(|json| object(json).ok())
    };
    let output = evaluation.field(root, "output")?;
    let workload = one(evaluation, output)?;
    let mut auxiliaries = Vec::new();
    for (name, node) in named_outputs(evaluation, root) {
        auxiliaries.push((name, one(evaluation, node)?));
    }
    Some(Exported { workload, auxiliaries })
}

impl Exported {
    pub(super) fn names(self) -> Vec<String> {
        self.auxiliaries.into_iter().map(|(name, _)| name.into()).collect()
    }

    pub(super) fn rendered(self, warnings: Vec<String>) -> Rendered {
        let auxiliary = |(name, object): (EcoString, Json)| Auxiliary {
            name: name.into(),
            kind: AUXILIARY_WORKLOAD.to_owned(),
            trait_index: None,
            stage: Stage::DefaultDispatch,
            workload_ref_path: None,
            object,
        };
        let auxiliaries = self.auxiliaries.into_iter().map(auxiliary).collect();
        Rendered { workload: self.workload, auxiliaries, warnings }
    }
}

pub(super) fn step_patch(component: &Component<'_>, run: &mut Run) -> Result<(), RenderError> {
    let Some(step) = component.patch else { return Ok(()) };
    if let Some(patch) = &step.workload
        && let Some(base) = run.base.take()
    {
        let patched = patch::strategic(base, patch.clone())
            .map_err(|e| RenderError::new(Step::Export, messages::workflow_patch(&e)))?;
        run.base = Some(patched);
        run.patched = true;
    }
    for (name, patch) in &step.traits {
        for draft in run.drafts.iter_mut().filter(|d| d.name == *name) {
            let base = std::mem::replace(&mut draft.term, Term::TOP);
            draft.term = patch::strategic(base, patch.clone()).map_err(|e| {
                RenderError::new(Step::Export, messages::workflow_patch_outputs(name, &e))
            })?;
        }
    }
    Ok(())
}

/// The workload as an object.
pub(super) fn workload(component: &Component<'_>, run: &mut Run) -> Result<Json, RenderError> {
    let failed = |problems: &[String], errors: Option<Errors>| RenderError {
        errors,
        ..RenderError::new(
            Step::Export,
            messages::groups(&messages::manifests(component.name), &[], problems),
        )
    };
    let Some(base) = &run.base else {
        let mut problems = vec![messages::no_output()];
        if matches!(component.definition.template, Template::None) {
            problems.push(messages::without_template(&component.definition.name));
        }
        return Err(failed(&problems, run.missing.take()));
    };
    match base.to_json() {
        Ok(value) => object(value).map_err(|why| failed(&[why.to_string()], None)),
        Err(missing) => {
            let mut problems: Vec<String> = Vec::new();
            if let Some(errors) = &run.missing {
                problems.extend(errors.list().iter().map(ToString::to_string));
            }
            for gap in &missing {
                let text = gap.to_string();
                let known = format!("output.{text}");
                if run.patched || !problems.contains(&known) {
                    problems.push(if run.patched { text } else { known });
                }
            }
            Err(failed(&problems, run.missing.take()))
        }
    }
}

pub(super) fn auxiliaries(
    app: &App,
    component: &Component<'_>,
    run: &Run,
) -> Result<Vec<Auxiliary>, RenderError> {
    let mut objects = Vec::with_capacity(run.drafts.len());
    for draft in &run.drafts {
        let failed = |why: &dyn std::fmt::Display| {
            RenderError::new(
                Step::Export,
                messages::auxiliary_export(&draft.name, component.name, &app.name, why),
            )
        };
        let value = draft.term.to_json().map_err(|missing| match missing.first() {
            Some(first) => failed(first),
            None => failed(&""),
        })?;
        objects.push(Auxiliary {
            name: draft.name.to_string(),
            kind: draft.kind.clone(),
            trait_index: draft.trait_index,
            stage: draft.stage,
            workload_ref_path: draft
                .trait_index
                .and_then(|index| component.traits.get(index))
                .and_then(|t| t.definition.workload_ref_path.clone()),
            object: object(value).map_err(|why| failed(&why))?,
        });
    }
    Ok(objects)
}

/// What is no Kubernetes object.
#[derive(Debug, thiserror::Error)]
enum NoObject {
    /// A value of another kind: its name.
    #[error("{}", messages::not_an_object_value(.0))]
    Kind(&'static str),
    /// A struct that does not say what it is.
    #[error("{}", messages::missing_kind(.0))]
    Untyped(String),
}

/// A Kubernetes object: a struct with a `kind`.
fn object(json: Json) -> Result<Json, NoObject> {
    let Some(fields) = json.as_object() else {
        return Err(NoObject::Kind(json::kind_name(&json)));
    };
    match fields.get("kind").and_then(Json::as_str) {
        Some(kind) if !kind.is_empty() => Ok(json),
        _ => Err(NoObject::Untyped(json.to_string())),
    }
}
