//! Rendering one component and its traits.

use crate::cache::{Flavour, Programs, trait_flavour};
use crate::context::{self, App, Target};
use crate::convert;
use crate::definition::{Definition, Stage, Template, converted_type};
use crate::host::{Providers, RenderHost};
use crate::input::Input;
use crate::messages::{self, Subject};
use crate::patch::{self, Markers};
use crate::term::Term;
use crate::{json, terraform};
use cue::{Errors, Evaluation, Kind, Limits, Node, Value, Which};
use ecow::EcoString;
use serde_json::Value as Json;

/// A component to render.
#[derive(Clone, Debug)]
pub struct Component<'a> {
    /// The component's name.
    pub name: &'a str,
    /// The type as written in the Application, perhaps with `@v2`.
    pub kind: &'a str,
    /// Its definition.
    pub definition: &'a Definition,
    /// Its properties; `None` if there are none at all.
    pub properties: Option<&'a Json>,
    /// Its traits, in order.
    pub traits: Vec<Trait<'a>>,
    /// What a workflow step patches into the result.
    pub patch: Option<&'a StepPatch>,
}

/// A trait of a component.
#[derive(Clone, Debug)]
pub struct Trait<'a> {
    /// The type as written in the Application.
    pub kind: &'a str,
    /// Its definition.
    pub definition: &'a Definition,
    /// Its properties.
    pub properties: Option<&'a Json>,
}

/// A patch supplied by a workflow step.
#[derive(Clone, Debug, Default)]
pub struct StepPatch {
    /// Patch of the workload.
    pub workload: Option<Term>,
    /// Patches of auxiliary objects, by name.
    pub traits: Vec<(EcoString, Term)>,
}

impl StepPatch {
    /// Reads the patch from a struct with `workload` and `traits`.
    pub fn from_node(evaluation: &mut Evaluation, node: Node) -> Self {
        let workload =
            evaluation.field(node, "workload").map(|workload| convert::term(evaluation, workload));
        let mut traits = Vec::new();
        if let Some(all) = evaluation.field(node, "traits") {
            for field in evaluation.fields(all, Which::default()) {
                traits.push((field.label, convert::term(evaluation, field.node)));
            }
        }
        Self { workload, traits }
    }
}

/// The trait type of a component's own auxiliary objects.
pub const AUXILIARY_WORKLOAD: &str = "AuxiliaryWorkload";

/// What a component renders to, before labels, names and namespaces.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The workload.
    pub workload: Json,
    /// The objects beside it, in order.
    pub auxiliaries: Vec<Auxiliary>,
    /// Things that are worth telling.
    pub warnings: Vec<String>,
}

/// An object beside the workload.
#[derive(Clone, Debug)]
pub struct Auxiliary {
    /// Its name in `outputs`.
    pub name: String,
    /// The converted type of its trait, or [`AUXILIARY_WORKLOAD`].
    pub kind: String,
    /// Which of the component's traits it comes from.
    pub trait_index: Option<usize>,
    /// When it is applied.
    pub stage: Stage,
    /// Where in the object a reference to the workload belongs.
    pub workload_ref_path: Option<String>,
    /// The object.
    pub object: Json,
}

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
    fn new(step: Step, message: String) -> Self {
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
    fn component(self, app: &App) -> RenderError {
        RenderError {
            errors: self.errors,
            ..RenderError::new(
                Step::Component,
                messages::base_template(&app.name, &app.namespace, &self.message),
            )
        }
    }

    fn of_trait(self, kind: &str, component: &str) -> RenderError {
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
    /// What the component's template lacks, told if the workload cannot be exported.
    missing: Option<Errors>,
    /// The evaluated template, for traits that show their whole context.
    template: Option<Value>,
    /// Why the evaluated template cannot be shown to traits.
    incomplete_template: Option<Errors>,
    warnings: Vec<String>,
    /// Whether a trait has patched the workload.
    patched: bool,
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
        step_patch(component, &mut run)?;
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
            _ => workload(component, &mut run)?,
        };
        let auxiliaries = auxiliaries(app, component, &run)?;
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
        Ok(run.drafts.iter().map(|draft| draft.name.to_string()).collect())
    }

    /// Evaluates a component and its traits.
    fn run(
        &mut self,
        app: &App,
        target: &Target,
        component: &Component<'_>,
    ) -> Result<Run, RenderError> {
        let parameter =
            properties(component.properties).map_err(|why| parse_error(component.name, &why))?;
        for t in &component.traits {
            properties(t.properties).map_err(|why| parse_error(t.kind, &why))?;
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
        if let Some(output) = evaluation.field(root, "output") {
            run.base = Some(convert::object(&mut evaluation, output));
        }
        outputs(&mut evaluation, root, AUXILIARY_WORKLOAD, None, Stage::DefaultDispatch, run);
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

    fn traits(
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
        let parameter = properties(t.properties).map_err(Failure::from)?;
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

    /// Evaluates a template and reports everything that is wrong with it.
    pub(crate) fn evaluate(
        &mut self,
        definition: &Definition,
        flavour: Flavour,
        inputs: &[(&str, Input<'_>)],
        subject: Subject<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Evaluation, Failure> {
        let of = self.programs.template(&definition.template, flavour).map_err(|errors| {
            Failure { message: messages::compile(subject, &errors), errors: Some(errors) }
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

/// Whether outputs are left out because something optional is not there. Anything else, such as a
/// name that cannot be computed, is a mistake.
fn is_only_absent(errors: &Errors) -> bool {
    errors.list().iter().all(|e| {
        e.message.starts_with("cannot reference optional field")
            || e.message.starts_with("undefined field")
    })
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

/// Properties as they are given, if they are an object at all.
pub(crate) fn properties(given: Option<&Json>) -> Result<Option<&Json>, String> {
    match given {
        None | Some(Json::Null) => Ok(None),
        Some(object @ Json::Object(_)) => Ok(Some(object)),
        Some(other) => Err(messages::not_an_object(json::kind_name(other))),
    }
}

fn parse_error(name: &str, why: &str) -> RenderError {
    RenderError::new(Step::Parse, messages::settings(name, &why))
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
fn outputs(
    evaluation: &mut Evaluation,
    root: Node,
    kind: &str,
    trait_index: Option<usize>,
    stage: Stage,
    run: &mut Run,
) {
    let Some(node) = evaluation.field(root, "outputs") else { return };
    let mut found: Vec<(EcoString, Node)> = Vec::new();
    if evaluation.kind(node) == Kind::LIST {
        for (index, element) in evaluation.elements(node).into_iter().enumerate() {
            found.push((index.to_string().into(), element));
        }
    } else {
        for field in evaluation.fields(node, Which::default()) {
            found.push((field.label, field.node));
        }
    }
    for (name, node) in found {
        let term = convert::object(evaluation, node);
        run.drafts.push(Draft { name, kind: kind.to_owned(), trait_index, stage, term });
    }
}

fn step_patch(component: &Component<'_>, run: &mut Run) -> Result<(), RenderError> {
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
fn workload(component: &Component<'_>, run: &mut Run) -> Result<Json, RenderError> {
    let failed = |problems: &[String], errors: Option<Errors>| RenderError {
        errors,
        ..RenderError::new(
            Step::Export,
            messages::groups(&messages::manifests(component.name), &[], problems),
        )
    };
    let Some(base) = &run.base else {
        return Err(failed(&[messages::no_output()], run.missing.take()));
    };
    match base.to_json() {
        Ok(value) => object(value).map_err(|why| failed(&[why], None)),
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

fn auxiliaries(
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

/// A Kubernetes object: a struct with a `kind`.
fn object(json: Json) -> Result<Json, String> {
    let Some(fields) = json.as_object() else {
        return Err(messages::not_an_object_value(json::kind_name(&json)));
    };
    match fields.get("kind").and_then(Json::as_str) {
        Some(kind) if !kind.is_empty() => Ok(json),
        _ => Err(messages::missing_kind(&json.to_string())),
    }
}
