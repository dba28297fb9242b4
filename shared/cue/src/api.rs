//! The public face: programs, evaluations, nodes.

use crate::error::{Class, Error, Errors};
use crate::host::Host;
use crate::kind::Kind;
use crate::limits::Limits;
use crate::value::Value;
use ecow::EcoString;

/// The packages a program may import: the standard ones and those registered by the host.
#[derive(Clone, Debug, Default)]
pub struct Packages {
    host: Vec<(EcoString, EcoString)>,
}

impl Packages {
    /// The standard packages.
    #[must_use]
    pub fn std() -> Self {
        Self::default()
    }

    /// Adds a package made of CUE text under an import path such as `vela/op`. Texts registered
    /// under the same path are files of one package.
    pub fn register(&mut self, path: &str, text: &str) -> &mut Self {
        self.host.push((path.into(), text.into()));
        self
    }
}

/// A compiled program: immutable, cheap to clone, shareable between threads.
#[derive(Clone, Debug)]
pub struct Program;

impl Program {
    /// Compiles one file.
    ///
    /// # Errors
    /// Parse and compile errors, all of them.
    pub fn compile(name: &str, text: &str, packages: &Packages) -> Result<Self, Errors> {
        Self::compile_files(&[(name, text)], packages)
    }

    /// Compiles the files of one package.
    ///
    /// # Errors
    /// Parse and compile errors, all of them.
    pub fn compile_files(files: &[(&str, &str)], packages: &Packages) -> Result<Self, Errors> {
        let _ = (files, packages);
        Err(Error::new(Class::Compile, "the evaluator is not built in yet").into())
    }

    /// Starts an evaluation. Each input is one more declaration of that top-level field, given as
    /// data.
    #[must_use]
    pub fn evaluate(&self, inputs: &[(&str, &Value)], limits: &Limits) -> Evaluation {
        let _ = (inputs, limits);
        Evaluation
    }

    /// Evaluates and answers host calls until none is left or the host says stop.
    #[must_use]
    pub fn evaluate_with_host(
        &self,
        inputs: &[(&str, &Value)],
        limits: &Limits,
        host: &mut dyn Host,
    ) -> Evaluation {
        let _ = host;
        self.evaluate(inputs, limits)
    }
}

/// A node of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node(pub(crate) u32);

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The label without quotes; `#A` and `_a` as written.
    pub label: EcoString,
    /// The field's value.
    pub node: Node,
    /// Regular, optional or required.
    pub marker: Marker,
    /// Whether it is a regular (exported), a definition or a hidden field.
    pub class: LabelClass,
}

/// Whether a field is there or only constrained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// `a:`
    Regular,
    /// `a?:`
    Optional,
    /// `a!:`
    Required,
}

/// The classes of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelClass {
    /// `a`
    Regular,
    /// `#A`, `_#A`
    Definition,
    /// `_a`
    Hidden,
}

/// Which fields [`Evaluation::fields`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Which {
    /// Also optional and required ones.
    pub constraints: bool,
    /// Also definitions.
    pub definitions: bool,
    /// Also hidden ones.
    pub hidden: bool,
}

/// What [`Evaluation::build`] makes a new node of.
#[derive(Clone, Debug)]
pub enum Tree {
    /// Data.
    Data(Value),
    /// An existing node of the same evaluation, with all its constraints and defaults.
    Node(Node),
    /// A struct.
    Struct(Vec<(EcoString, Self)>),
    /// A list; an open one may get more elements by unification.
    List(Vec<Self>, bool),
    /// The unification of several.
    Unify(Vec<Self>),
}

/// One evaluation of a program: nodes are computed when asked for and dropped all at once.
#[derive(Debug)]
pub struct Evaluation;

impl Evaluation {
    /// The top-level struct.
    #[must_use]
    pub fn root(&self) -> Node {
        Node(0)
    }

    /// The node at a path such as `output.metadata.labels."app.oam.dev/name"` or `list[0]`.
    /// `None` if there is no such field (optional fields do not count) or a node on the way is an
    /// error.
    pub fn lookup(&mut self, node: Node, path: &str) -> Option<Node> {
        let _ = (node, path);
        None
    }

    /// The field with this label (without quotes).
    pub fn field(&mut self, node: Node, label: &str) -> Option<Node> {
        let _ = (node, label);
        None
    }

    /// The kinds the node's value may have; a single bit if it is concrete, bottom for an error.
    pub fn kind(&mut self, node: Node) -> Kind {
        let _ = node;
        Kind::BOTTOM
    }

    /// The error of a node itself (not of its fields), final or incomplete.
    pub fn error(&mut self, node: Node) -> Option<Errors> {
        let _ = node;
        None
    }

    /// The fields of a struct found so far, in order; an incomplete struct is not unusable.
    pub fn fields(&mut self, node: Node, which: Which) -> Vec<Field> {
        let _ = (node, which);
        Vec::new()
    }

    /// The elements of a list.
    pub fn elements(&mut self, node: Node) -> Vec<Node> {
        let _ = node;
        Vec::new()
    }

    /// The comment lines of the field the node is the value of, without `//`: `+usage=...`.
    #[must_use]
    pub fn docs(&self, node: Node) -> Vec<EcoString> {
        let _ = node;
        Vec::new()
    }

    /// Looks for errors in a node and everything below: final ones, and with `concrete` also
    /// incomplete ones and non-concrete values.
    ///
    /// # Errors
    /// All errors found.
    pub fn validate(&mut self, node: Node, concrete: bool) -> Result<(), Errors> {
        let _ = (node, concrete);
        Err(Error::new(Class::Eval, "the evaluator is not built in yet").into())
    }

    /// The concrete value of a node: defaults taken; definitions, hidden and optional fields left
    /// out.
    ///
    /// # Errors
    /// Final and incomplete errors and non-concrete values.
    pub fn export(&mut self, node: Node) -> Result<Value, Errors> {
        let _ = node;
        Err(Error::new(Class::Eval, "the evaluator is not built in yet").into())
    }

    /// Adds a node made of data and existing nodes to the evaluation.
    pub fn build(&mut self, tree: &Tree) -> Node {
        let _ = tree;
        Node(0)
    }
}
