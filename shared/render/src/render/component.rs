//! The input and the output of a render.

use crate::convert;
use crate::definition::{Definition, Stage};
use crate::term::Term;
use cue::{Evaluation, Node, Which};
use ecow::EcoString;
use serde_json::Value as Json;

/// A component to render.
#[derive(Clone, Debug)]
pub struct Component<'a> {
    /// The component's name.
    pub name: &'a str,
    /// The type as written in the Application, perhaps with `@v2`.
    pub kind: &'a str,
    /// What its type was resolved to.
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
    /// What its type was resolved to.
    pub definition: &'a Definition,
    /// As the Application has them; `None` if there are none at all.
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
    /// The object of `output`; `null` without one.
    pub workload: Json,
    /// The auxiliary objects, in order.
    pub auxiliaries: Vec<Auxiliary>,
    /// Sentences about what the definition does wrong; it was rendered nevertheless.
    pub warnings: Vec<String>,
}

/// An auxiliary object.
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
    /// As its template rendered it.
    pub object: Json,
}
