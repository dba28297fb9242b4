//! Evaluating traits: each sees what those before it have made, and patches it.

use super::component::{Component, Trait};
use super::error::{Failure, RenderError};
use super::template::outputs;
use super::{Draft, Engine, Run, properties};
use crate::cache::trait_flavour;
use crate::context::{self, Target};
use crate::convert;
use crate::definition::{Stage, converted_type};
use crate::input::Input;
use crate::json;
use crate::messages::{self, Subject};
use crate::patch::{self, Markers};
use crate::term::Term;
use cue::{ErrorKind, Errors, Evaluation, Node, Value};

impl Engine<'_> {
    pub(super) fn traits(
        &mut self,
        target: &Target,
        component: &Component<'_>,
        context: &context::Fields<'_>,
        run: &mut Run,
    ) -> Result<(), RenderError> {
        if component.traits.is_empty() {
            return Ok(());
        }
        let mut context = context.clone();
        let kind = converted_type(component.kind);
        context.set("componentType", Input::Text(&kind));
        let template = run.template.take();
        let name = format!("template-context-workload-{}", component.name);
        if let Some(template) = &template {
            context.set(&name, Input::Value(template));
        }
        for (index, t) in component.traits.iter().enumerate() {
            // Traits of the last stage see the workload as it is in the cluster.
            let sees_live = target.live.is_some() && t.definition.stage == Stage::PostDispatch;
            self.apply_trait(index, t, sees_live, &context, run)
                .map_err(|failure| failure.of_trait(t.kind, component.name))?;
        }
        Ok(())
    }

    fn apply_trait(
        &mut self,
        index: usize,
        t: &Trait<'_>,
        sees_live: bool,
        context: &context::Fields<'_>,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let subject = Subject::Trait(t.kind);
        let parameter = properties(t.properties)?;
        let flavour = trait_flavour(t);
        let mut context = context.clone();
        if let Some(base) = run.base.as_ref().filter(|_| !sees_live) {
            base.check().map_err(|missing| {
                Failure::from(messages::into_context("output", missing.first()))
            })?;
            context.set("output", Input::Term(base));
        }
        let outputs_so_far = outputs_in_context(&run.drafts)?;
        if !outputs_so_far.is_empty() {
            context.set("outputs", Input::Struct(&outputs_so_far));
        }
        if let Some(errors) = run.incomplete_template.take() {
            return Err(Failure {
                message: messages::incomplete_template(&errors),
                errors: Some(errors),
            });
        }
        let mut inputs = vec![("context", context.input())];
        if let Some(parameter) = parameter {
            inputs.push(("parameter", Input::Json(parameter)));
        }
        let warnings = &mut run.warnings;
        let mut evaluation = self.evaluate(t.definition, flavour, &inputs, subject, warnings)?;
        let mut root = evaluation.root();
        let answer = match evaluation.field(root, "processing") {
            Some(processing) => Some(self.process(&mut evaluation, processing, t.kind)?),
            None => None,
        };
        if let Some(answer) = &answer {
            inputs.push(("processing", Input::Value(answer)));
            evaluation = self.evaluate(t.definition, flavour, &inputs, subject, warnings)?;
            root = evaluation.root();
        }
        let kind = converted_type(t.kind);
        if let Some(node) = evaluation.field(root, "outputs")
            && let Some(errors) = evaluation.error(node)
            && !is_only_absent(&errors)
        {
            let message = messages::invalid_outputs(t.kind, &errors);
            return Err(Failure { message, errors: Some(errors) });
        }
        outputs(&mut evaluation, root, &kind, Some(index), t.definition.stage, run);
        if let Some(node) = evaluation.field(root, "patch") {
            let markers = Markers::parse(evaluation.docs(node));
            let patch = convert::object(&mut evaluation, node);
            let Some(base) = run.base.take() else {
                return Err(messages::no_base(t.kind).into());
            };
            let patched = patch::apply(base, patch, &markers)
                .map_err(|error| Failure::from(messages::invalid_patch(t.kind, &error)))?;
            run.base = Some(patched);
            run.patched = true;
        }
        if let Some(node) = evaluation.field(root, "patchOutputs") {
            for draft in &mut run.drafts {
                // A name with a dot or bracket is a path, as it always was.
                let found = if draft.name.contains(['.', '[']) {
                    evaluation.lookup(node, &draft.name)
                } else {
                    evaluation.field(node, &draft.name)
                };
                let Some(found) = found else { continue };
                let patch = convert::object(&mut evaluation, found);
                let base = std::mem::replace(&mut draft.term, Term::TOP);
                draft.term = patch::strategic(base, patch).map_err(|error| {
                    Failure::from(messages::invalid_patch_outputs(t.kind, &draft.name, &error))
                })?;
            }
        }
        Ok(())
    }

    /// Does what `processing.http` asks for; the answer is a declaration of `processing`.
    fn process(
        &mut self,
        evaluation: &mut Evaluation,
        processing: Node,
        kind: &str,
    ) -> Result<Value, Failure> {
        let invalid = |why: String| Failure::from(messages::invalid_process(kind, &why));
        let http =
            evaluation.field(processing, "http").ok_or_else(|| invalid(messages::no_http()))?;
        let request = evaluation.export(http).map_err(|e| invalid(e.to_string()))?;
        let answer = self
            .host
            .http(&json::from_cue(&request))
            .map_err(|e| invalid(messages::http_task(&e)))?;
        Ok([("output", json::to_cue(&answer))].into_iter().collect())
    }
}

/// Whether outputs are left out because something optional is not there. Anything else, such as a
/// name that cannot be computed, is a mistake.
fn is_only_absent(errors: &Errors) -> bool {
    errors.list().iter().all(|error| error.kind == ErrorKind::Absent)
}

/// `context.outputs`: the objects so far, by name. Of two with one name the later is seen.
fn outputs_in_context(drafts: &[Draft]) -> Result<Vec<(&str, Input<'_>)>, Failure> {
    let mut objects: Vec<(&str, Input<'_>)> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        draft.term.check().map_err(|missing| {
            let path = format!("outputs.{}", messages::label(&draft.name));
            Failure::from(messages::into_context(&path, missing.first()))
        })?;
        let object = (draft.name.as_str(), Input::Term(&draft.term));
        match objects.binary_search_by_key(&object.0, |(name, _)| name) {
            Ok(at) => objects.splice(at..=at, [object]).for_each(drop),
            Err(at) => objects.insert(at, object),
        }
    }
    Ok(objects)
}
