//! Definitions, parameters and context to Kubernetes objects.
//!
//! A [`Renderer`] holds what is shared: compiled templates, limits. It renders components
//! ([`Renderer::render`]), judges their health ([`Renderer::health`]). All of it is pure: what a
//! template asks of the world goes through a [`RenderHost`].

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod context;
pub mod contract;
pub mod definition;
pub mod file;
pub mod json;
pub mod legacy;
pub mod patch;
pub mod schema;
pub mod term;
pub mod terraform;
pub mod transform;

mod cache;
mod check;
mod convert;
mod examine;
mod hcl;
mod health;
mod host;
mod input;
mod lets;
mod messages;
mod packages;
mod render;
mod vet;

pub use check::{Checked, Gates, Problem, Severity};
pub use context::{App, ClusterVersion, Target};
pub use definition::{Definition, Stage, StatusTexts, Template};
pub use health::{Health, HealthInput};
pub use host::{CallError, NoHost, RenderHost};
pub use render::{
    AUXILIARY_WORKLOAD, Auxiliary, Component, RenderError, Rendered, Step, StepPatch, Trait,
};
pub use vela_api::DefinitionKind;

pub use examine::Vetted;
pub use vet::vet;

use cache::Programs;
pub use cue::Limits;
use input::Input;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How to render.
#[derive(Clone, Debug)]
pub struct Options {
    /// The budget of one evaluation.
    pub limits: Limits,
    /// How many compiled texts are kept.
    pub cache: NonZeroUsize,
    /// What compiled texts may take together, about, in bytes.
    pub cache_bytes: usize,
    /// Whether old CUE syntax is rewritten.
    pub rewrite_legacy_syntax: bool,
}

/// Compiled texts kept by default: the built-in definitions with their status texts some times.
const CACHE: NonZeroUsize = match NonZeroUsize::new(1000) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};

/// Compiled texts take this much at most: the built-in definitions need less than a tenth of it.
const CACHE_BYTES: usize = 64 << 20;

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            cache: CACHE,
            cache_bytes: CACHE_BYTES,
            rewrite_legacy_syntax: true,
        }
    }
}

/// Renders components. Shared by all threads.
#[derive(Debug)]
pub struct Renderer {
    programs: Arc<Programs>,
    limits: Limits,
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Renderer {
    /// A renderer with an empty cache.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            programs: Arc::new(Programs::new(
                options.cache,
                options.cache_bytes,
                options.rewrite_legacy_syntax,
            )),
            limits: options.limits,
        }
    }

    /// The same renderer, with other limits.
    #[must_use]
    pub fn within(&self, limits: Limits) -> Self {
        Self { programs: Arc::clone(&self.programs), limits }
    }

    /// What each of its evaluations may cost.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Compiles a definition, or says what is wrong with its text: line, column and reason. What
    /// compiles is kept.
    ///
    /// # Errors
    /// Parse and compile errors.
    pub fn compile(&self, definition: &Definition) -> Result<(), cue::Errors> {
        let flavour = match definition.kind {
            DefinitionKind::Trait => cache::Flavour::Trait,
            DefinitionKind::WorkflowStep => cache::Flavour::Schema,
            DefinitionKind::Component | DefinitionKind::Policy | DefinitionKind::Workload => {
                cache::Flavour::Component
            }
        };
        self.programs.template(&definition.template, flavour).map(drop)
    }

    /// How many compiled texts are kept, and what they take by estimate.
    #[must_use]
    pub fn compiled(&self) -> (usize, usize) {
        self.programs.size()
    }

    /// Renders a component and its traits. Labels, names and namespaces are the business of
    /// [`contract::apply`].
    ///
    /// # Errors
    /// The first step that failed, with every problem of it.
    pub fn render(
        &self,
        app: &App,
        target: &Target,
        component: &Component<'_>,
        host: &mut dyn RenderHost,
    ) -> Result<Rendered, RenderError> {
        render::Engine { programs: &self.programs, limits: &self.limits, host }
            .render(app, target, component)
    }

    /// Whether a component renders to the same as long as it, its definitions, the target and the
    /// Application's name, revision, labels and annotations are the same: its templates read
    /// neither at the other components nor at the live workload.
    #[must_use]
    pub fn is_self_contained(&self, component: &Component<'_>) -> bool {
        self.programs.is_self_contained(component)
    }

    /// Evaluates a text and gives the term of a top-level field (or of the whole text) with the
    /// markers above it.
    ///
    /// # Errors
    /// Parse, compile and evaluation errors.
    pub fn term(
        &self,
        text: &str,
        field: Option<&str>,
    ) -> Result<(term::Term, patch::Markers), cue::Errors> {
        let of = self.programs.text(&text.into(), cache::Flavour::Plain)?;
        let mut evaluation = of.program.evaluate(&[], &self.limits);
        let root = evaluation.root();
        evaluation.validate(root, false)?;
        let node = match field {
            None => root,
            Some(name) => match evaluation.field(root, name) {
                Some(node) => node,
                None => return Ok((term::Term::empty(), patch::Markers::default())),
            },
        };
        let markers = patch::Markers::parse(evaluation.docs(node));
        Ok((convert::term(&mut evaluation, node), markers))
    }

    /// The patch a workflow step supplies as text: `workload` and `traits`.
    ///
    /// # Errors
    /// Parse, compile and evaluation errors.
    pub fn step_patch(&self, text: &str) -> Result<StepPatch, cue::Errors> {
        let of = self.programs.text(&text.into(), cache::Flavour::Plain)?;
        let mut evaluation = of.program.evaluate(&[], &self.limits);
        let root = evaluation.root();
        evaluation.validate(root, false)?;
        Ok(StepPatch::from_node(&mut evaluation, root))
    }

    /// Health, message and details.
    #[must_use]
    pub fn health(&self, texts: &StatusTexts, input: &HealthInput<'_>) -> Health {
        health::health(&self.programs, &self.limits, texts, input)
    }

    /// Health, message and details with `context` as given (`parameter` and `status` are added).
    #[must_use]
    pub fn health_in(
        &self,
        texts: &StatusTexts,
        context: &serde_json::Value,
        parameter: Option<&serde_json::Value>,
    ) -> Health {
        let mut fields = context::Fields::default();
        for (name, value) in context.as_object().into_iter().flatten() {
            fields.set(name, Input::Json(value));
        }
        let preset = context.get("status");
        health::health_in(&self.programs, &self.limits, texts, parameter, fields, preset)
    }
}

impl Renderer {
    /// The parameter schema of a definition.
    ///
    /// # Errors
    /// Why there is none.
    pub fn schema(
        &self,
        definition: &Definition,
    ) -> Result<serde_json::Value, schema::SchemaError> {
        schema::schema(&self.programs, &self.limits, definition)
    }

    /// What editors know of the parameters of a definition; nothing, where it has no parameter schema.
    #[must_use]
    pub fn editor_parameters(&self, definition: &Definition) -> schema::editor::Parameters {
        schema::editor::parameters(&self.programs, &self.limits, definition)
    }
}
