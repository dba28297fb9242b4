//! Nodes by number, paths by name, and what a new node is built of.

use crate::value::Value;
use ecow::EcoString;

/// A node of an [`Evaluation`](crate::Evaluation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node(pub(crate) u32);

/// The classes of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelClass {
    /// `a`
    Regular,
    /// `#A`, `_#A`
    Definition,
    /// `_a`
    Hidden,
}

/// A label of a path inside an evaluation, by name so that it outlives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathLabel {
    Index(usize),
    Name(EcoString, LabelClass),
}

/// What [`Evaluation::build`](crate::Evaluation::build) makes a new node of.
#[derive(Clone, Debug)]
pub enum Tree {
    /// A value as it is; nothing in it is looked up.
    Data(Value),
    /// An existing node of the same evaluation, with all its constraints and defaults.
    Node(Node),
    /// `{label: tree, ...}`
    Struct(Vec<(EcoString, Self)>),
    /// A list; an open one may get more elements by unification.
    List(Vec<Self>, bool),
    /// The unification of several.
    Unify(Vec<Self>),
}
