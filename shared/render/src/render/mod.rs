//! Rendering one component and its traits.

mod component;
mod error;
mod objects;
mod template;
mod traits;

pub use component::{AUXILIARY_WORKLOAD, Auxiliary, Component, Rendered, StepPatch, Trait};
pub(crate) use error::NotAnObject;
pub use error::{RenderError, Step};

use crate::cache::{Flavour, Programs};
use crate::context::{self, App, Target};
use crate::convert;
use crate::definition::{Stage, Template};
use crate::host::RenderHost;
use crate::input::Input;
use crate::json;
use crate::messages::{self, Subject};
use crate::term::Term;
use crate::terraform;
use cue::{Errors, Limits, Value};
use ecow::EcoString;
use serde_json::Value as Json;

/// An object under construction.
struct Draft {
    name: EcoString,
    kind: String,
    trait_index: Option<usize>,
    stage: Stage,
    term: Term,
}

/// The state of one rendering.
#[derive(Default)]
struct Run {
    /// The workload as far as it is; `None` if the template has no `output`.
    base: Option<Term>,
    drafts: Vec<Draft>,
    /// What the component's template lacks, reported if the workload cannot be exported.
    missing: Option<Errors>,
    /// The evaluated template, for traits that show their whole context.
    template: Option<Value>,
    /// Why the evaluated template cannot be shown to traits.
    incomplete_template: Option<Errors>,
    warnings: Vec<String>,
    /// Whether a trait has patched the workload.
    patched: bool,
    /// The objects of a component that nothing patches; there are no terms of them then.
    exported: Option<objects::Exported>,
}

pub(crate) struct Engine<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) limits: &'a Limits,
    pub(crate) host: &'a mut dyn RenderHost,
}

impl Engine<'_> {
    pub(crate) fn render(
        &mut self,
        app: &App,
        target: &Target,
        component: &Component<'_>,
    ) -> Result<Rendered, RenderError> {
        let mut run = self.run(app, target, component)?;
        if let Some(exported) = run.exported.take() {
            return Ok(exported.rendered(run.warnings));
        }
        objects::step_patch(component, &mut run)?;
        let workload = match &component.definition.template {
            Template::Terraform(schematic) => terraform::configuration(
                schematic,
                component.name,
                &app.namespace,
                &component.definition.annotations,
                component.properties.and_then(Json::as_object),
            )
            .map_err(|why| {
                let message = messages::terraform(component.name, &why);
                RenderError::new(Step::Export, message)
            })?,
            _ => objects::workload(component, &mut run)?,
        };
        let auxiliaries = objects::auxiliaries(app, component, &run)?;
        Ok(Rendered { workload, auxiliaries, warnings: run.warnings })
    }

    /// Evaluates a component and its traits without making objects, as admission does, and gives
    /// the names in `outputs`.
    pub(crate) fn dry(
        &mut self,
        app: &App,
        target: &Target,
        component: &Component<'_>,
    ) -> Result<Vec<String>, RenderError> {
        let run = self.run(app, target, component)?;
        if let Some(exported) = run.exported {
            return Ok(exported.names());
        }
        Ok(run.drafts.iter().map(|draft| draft.name.to_string()).collect())
    }

    /// Evaluates a component and its traits.
    fn run(
        &mut self,
        app: &App,
        target: &Target,
        component: &Component<'_>,
    ) -> Result<Run, RenderError> {
        let parameter = properties(component.properties)
            .map_err(|why| error::parse_error(component.name, &why))?;
        for t in &component.traits {
            properties(t.properties).map_err(|why| error::parse_error(t.kind, &why))?;
        }
        let version = target.cluster_version.fields();
        let components =
            self.programs.asks_for_components(component).then(|| context::components(app));
        let context =
            context::fields(app, target, component.name, &version, parameter, components.as_ref());
        let mut run = Run::default();
        if !matches!(component.definition.template, Template::Terraform(_)) {
            self.component(app, component, parameter, &context, &mut run)?;
        }
        self.traits(target, component, &context, &mut run)?;
        Ok(run)
    }

    fn component(
        &mut self,
        app: &App,
        component: &Component<'_>,
        parameter: Option<&Json>,
        context: &context::Fields<'_>,
        run: &mut Run,
    ) -> Result<(), RenderError> {
        let parameter = parameter.map_or(Input::Struct(&[]), Input::Json);
        let inputs = [("parameter", parameter), ("context", context.input())];
        let mut evaluation = self
            .evaluate(
                component.definition,
                Flavour::Component,
                &inputs,
                Subject::Workload(component.name),
                &mut run.warnings,
            )
            .map_err(|failure| failure.component(app))?;
        let root = evaluation.root();
        if component.traits.is_empty() && component.patch.is_none() {
            run.exported = objects::export(&mut evaluation, root);
            if run.exported.is_some() {
                return Ok(());
            }
        }
        if let Some(output) = evaluation.field(root, "output") {
            run.base = Some(convert::object(&mut evaluation, output));
        }
        template::outputs(
            &mut evaluation,
            root,
            AUXILIARY_WORKLOAD,
            None,
            Stage::DefaultDispatch,
            run,
        );
        if run.base.as_ref().is_none_or(|base| base.check().is_err()) {
            run.missing = evaluation.validate(root, true).err();
        }
        if component.traits.is_empty() {
            return Ok(());
        }
        // Traits may see the whole evaluated template, so all of it must be there.
        if component.traits.iter().any(|t| self.programs.shows_context(t)) {
            match evaluation.export(root) {
                Ok(template) => run.template = Some(template),
                Err(errors) => run.incomplete_template = Some(errors),
            }
        } else if evaluation.validate(root, true).is_err() {
            run.incomplete_template = evaluation.export(root).err();
        }
        Ok(())
    }
}

/// Properties as they are given, if they are an object at all.
pub(crate) fn properties(given: Option<&Json>) -> Result<Option<&Json>, NotAnObject> {
    match given {
        None | Some(Json::Null) => Ok(None),
        Some(object @ Json::Object(_)) => Ok(Some(object)),
        Some(other) => Err(NotAnObject(json::kind_name(other))),
    }
}
