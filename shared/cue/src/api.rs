//! The public face: programs, evaluations, nodes.

use crate::compile::compile;
use crate::error::{Class, Error, Errors};
use crate::eval::{ArcKind, Conj, DataSeed, EnvId, Machine, Src, State, Vid};
use crate::export::Make;
use crate::host::Host;
use crate::ir::Ir;
use crate::kind::Kind;
use crate::label::{Label, LabelKind};
use crate::limits::Limits;
use crate::text::plain_name;
use crate::tree::{LabelClass, Node, PathLabel, Tree};
use crate::value::Value;
use ecow::EcoString;
use serde::de::{DeserializeSeed, Deserializer};
use smallvec::smallvec;
use std::sync::Arc;

/// The packages a program may import: the standard ones and those registered by the host.
///
/// ```
/// use cue::{Limits, Packages, Program};
///
/// let mut packages = Packages::std();
/// packages.register("example/port", "#Port: int & >0 & <65536");
/// let text = r#"
///     import "example/port"
///
///     listen: port.#Port & 8080
/// "#;
/// let program = Program::compile("in.cue", text, &packages)?;
/// let mut evaluation = program.evaluate(&[], &Limits::default());
/// let value = evaluation.export(evaluation.root())?;
/// assert_eq!(value.to_json_text(), r#"{"listen":8080}"#);
/// # Ok::<(), cue::Errors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Packages {
    host: Vec<(EcoString, EcoString)>,
    without_list_arithmetic: bool,
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

    /// Leaves out `+` and `*` on lists, which the language dropped with v0.11 and templates still
    /// use: programs that contain them then fail, as they do in the reference.
    pub fn without_list_arithmetic(&mut self) -> &mut Self {
        self.without_list_arithmetic = true;
        self
    }
}

/// A compiled program: immutable, cheap to clone, shareable between threads.
#[derive(Clone, Debug)]
pub struct Program {
    ir: Arc<Ir>,
}

impl Program {
    /// Compiles one file.
    ///
    /// ```
    /// use cue::{Class, Packages, Program};
    ///
    /// let errors = Program::compile("in.cue", "port: prot\nprto: 80", &Packages::std()).unwrap_err();
    /// assert_eq!(errors.class(), Class::Compile);
    /// assert_eq!(errors.to_string(), "port: reference \"prot\" not found");
    /// assert_eq!(errors.list()[0].hint.as_deref(), Some("did you mean port?"));
    /// ```
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
        let mut ir = compile(files, &packages.host)?;
        ir.list_arithmetic = !packages.without_list_arithmetic;
        Ok(Self { ir: Arc::new(ir) })
    }

    /// Starts an evaluation. Each input is one more declaration of that top-level field, given as
    /// data.
    #[must_use]
    pub fn evaluate(&self, inputs: &[(&str, &Value)], limits: &Limits) -> Evaluation {
        Evaluation::start(Arc::clone(&self.ir), inputs, &[], limits)
    }

    /// As [`evaluate`](Self::evaluate), with inputs in any form that serde reads, such as JSON text
    /// or another library's tree; nothing is built in between. A field that is given twice is
    /// declared twice, as in CUE. A newtype struct around a text is a number that no machine word
    /// holds.
    ///
    /// ```
    /// # use cue::{Limits, Packages, Program};
    /// let program = Program::compile("t.cue", "parameter: n: int\nout: parameter.n + 1", &Packages::std())?;
    /// let mut json = serde_json::Deserializer::from_str(r#"{"n": 1}"#);
    /// let mut evaluation =
    ///     program.evaluate_from([("parameter", &mut json)], &Limits::default())?;
    /// let out = evaluation.lookup(evaluation.root(), "out").ok_or("no out")?;
    /// assert_eq!(evaluation.export(out)?.as_i64(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What serde says of an input that it cannot read.
    pub fn evaluate_from<'n, 'de, D: Deserializer<'de>>(
        &self,
        inputs: impl IntoIterator<Item = (&'n str, D)>,
        limits: &Limits,
    ) -> Result<Evaluation, D::Error> {
        let mut evaluation = Evaluation::new(Arc::clone(&self.ir), limits);
        let root = evaluation.root;
        evaluation.with(|m| {
            for (name, input) in inputs {
                let data = DataSeed(m).deserialize(input)?;
                let label = m.ident_label(name);
                m.add_input(root, smallvec![label], data);
            }
            m.expand(root);
            Ok(())
        })?;
        Ok(evaluation)
    }

    /// Evaluates and answers host calls until none is left or the host says stop.
    ///
    /// ```
    /// use cue::{Answer, Call, Evaluation, Host, Limits, Packages, Program, Value};
    ///
    /// struct Clock;
    ///
    /// impl Host for Clock {
    ///     fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer {
    ///         let zone = evaluation.lookup(call.node, "$params.zone").unwrap();
    ///         assert_eq!(evaluation.export(zone).unwrap(), Value::from("UTC"));
    ///         let returns: Value = [("hour", Value::from(12))].into_iter().collect();
    ///         Answer::Unify([("$returns", returns)].into_iter().collect())
    ///     }
    /// }
    ///
    /// let mut packages = Packages::std();
    /// packages.register(
    ///     "host/clock",
    ///     r##"
    ///         #Now: {
    ///             #do: "now"
    ///             #provider: "clock"
    ///             $params: zone: string
    ///             $returns?: hour: int
    ///         }
    ///     "##,
    /// );
    /// let text = r##"
    ///     import "host/clock"
    ///
    ///     now: clock.#Now & {$params: zone: "UTC"}
    ///     if now.$returns != _|_ {noon: now.$returns.hour == 12}
    /// "##;
    /// let program = Program::compile("in.cue", text, &packages).unwrap();
    /// let mut evaluation = program.evaluate_with_host(&[], &Limits::default(), &mut Clock);
    /// let noon = evaluation.lookup(evaluation.root(), "noon").unwrap();
    /// assert_eq!(evaluation.export(noon).unwrap(), Value::from(true));
    /// ```
    #[must_use]
    pub fn evaluate_with_host(
        &self,
        inputs: &[(&str, &Value)],
        limits: &Limits,
        host: &mut dyn Host,
    ) -> Evaluation {
        crate::host::run(&self.ir, inputs, limits, host)
    }
}

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

/// One evaluation of a program: nodes are computed when asked for and dropped all at once.
#[derive(Debug)]
pub struct Evaluation {
    ir: Arc<Ir>,
    state: State,
    root: Vid,
}

/// Data put at a path of the evaluation, beside what the program says.
pub(crate) type Answers = [(Vec<PathLabel>, Value)];

impl Evaluation {
    pub(crate) fn start(
        ir: Arc<Ir>,
        inputs: &[(&str, &Value)],
        answers: &Answers,
        limits: &Limits,
    ) -> Self {
        let mut evaluation = Self::new(ir, limits);
        let root = evaluation.root;
        evaluation.with(|m| {
            for (name, value) in inputs {
                let data = m.add_data(value);
                let label = m.ident_label(name);
                m.add_input(root, smallvec![label], data);
            }
            for (path, value) in answers {
                let data = m.add_data(value);
                let labels = path.iter().map(|l| m.path_label(l)).collect();
                m.add_input(root, labels, data);
            }
            m.expand(root);
        });
        evaluation
    }

    /// The program's files in one vertex, nothing computed.
    fn new(ir: Arc<Ir>, limits: &Limits) -> Self {
        let mut state = State::new(&ir, limits);
        // A crossed limit is noticed at the first step.
        let _ = state.budget.bytes(ir.memory);
        let mut m = Machine::new(&ir, &mut state);
        let root = m.new_vertex(Vid::NONE, Label::NONE);
        for &file in ir.packages.first().map_or(&[][..], Vec::as_slice) {
            m.vm(root).conjs.push(Conj::new(Src::Expr(file), EnvId::NONE));
        }
        Self { ir, state, root }
    }

    pub(crate) fn with<T>(&mut self, f: impl FnOnce(&mut Machine<'_>) -> T) -> T {
        self.state.depth = 0;
        self.state.touch = u32::MAX;
        f(&mut Machine::new(&self.ir, &mut self.state))
    }

    /// The top-level struct.
    #[must_use]
    pub fn root(&self) -> Node {
        Node(self.root.0)
    }

    /// The node at a path such as `output.metadata.labels."app.oam.dev/name"` or `list[0]`.
    /// `None` if there is no such field (optional fields do not count) or a node on the way is an
    /// error.
    ///
    /// ```
    /// use cue::{Limits, Packages, Program, Value, Which};
    ///
    /// let text = "a: b: [1, {c: string}]\n// +usage=Where it listens\nport: *80 | int";
    /// let program = Program::compile("in.cue", text, &Packages::std()).unwrap();
    /// let mut evaluation = program.evaluate(&[], &Limits::default());
    /// let root = evaluation.root();
    /// // What is incomplete does not keep the rest from being read.
    /// let first = evaluation.lookup(root, "a.b[0]").unwrap();
    /// assert_eq!(evaluation.export(first).unwrap(), Value::from(1));
    /// let errors = evaluation.export(root).unwrap_err();
    /// assert_eq!(errors.to_string(), "a.b.1.c: incomplete value string");
    ///
    /// let fields = evaluation.fields(root, Which::default());
    /// let labels: Vec<&str> = fields.iter().map(|field| field.label.as_str()).collect();
    /// assert_eq!(labels, ["a", "port"]);
    /// assert_eq!(evaluation.docs(fields[1].node), [" +usage=Where it listens"]);
    /// ```
    pub fn lookup(&mut self, node: Node, path: &str) -> Option<Node> {
        let mut at = node;
        for label in parse_path(path)? {
            at = self.step(at, &label)?;
        }
        Some(at)
    }

    fn step(&mut self, node: Node, label: &PathLabel) -> Option<Node> {
        self.with(|m| {
            let label = m.path_label(label);
            let w = m.lookup(Vid(node.0), label).ok()??;
            (m.v(w).arc == ArcKind::Member).then_some(Node(w.0))
        })
    }

    /// The regular field with this label (without quotes).
    pub fn field(&mut self, node: Node, label: &str) -> Option<Node> {
        self.step(node, &PathLabel::Name(label.into(), LabelClass::Regular))
    }

    /// The kinds the node's value may have; a single bit if it is concrete, bottom for an error.
    pub fn kind(&mut self, node: Node) -> Kind {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.chosen(Vid(node.0));
            match m.default_of(v) {
                Some(val) => m.val_kind(&val),
                None => m.node_kind(v),
            }
        })
    }

    /// The error of a node itself (not of its fields), final or incomplete.
    pub fn error(&mut self, node: Node) -> Option<Errors> {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.chosen(Vid(node.0));
            let e = m.v(v).error.or(m.v(v).incomplete)?;
            let mut list = Vec::new();
            m.public(e, &mut list);
            Errors::from_list(list)
        })
    }

    /// The fields of a struct found so far, in order; an incomplete struct is not unusable.
    pub fn fields(&mut self, node: Node, which: Which) -> Vec<Field> {
        self.fields_in(node, which, true)
    }

    /// As [`fields`](Self::fields), in the order in which they were found: cheaper, for those whose
    /// own order does not depend on it.
    pub fn fields_unordered(&mut self, node: Node, which: Which) -> Vec<Field> {
        self.fields_in(node, which, false)
    }

    fn fields_in(&mut self, node: Node, which: Which, ordered: bool) -> Vec<Field> {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.chosen(Vid(node.0));
            m.settle(v);
            let v = m.deref(v);
            let order = ordered.then(|| m.ordered_arcs(v));
            let count = m.v(v).arcs.len();
            let mut out = Vec::with_capacity(count);
            for i in 0..count {
                let from = order.as_ref().unwrap_or(&m.v(v).arcs);
                let Some(&(label, w)) = from.get(i) else { break };
                let class = match label.kind() {
                    LabelKind::String => LabelClass::Regular,
                    LabelKind::Def | LabelKind::HiddenDef => LabelClass::Definition,
                    LabelKind::Hidden => LabelClass::Hidden,
                    LabelKind::Int | LabelKind::Let => continue,
                };
                let marker = match m.v(w).arc {
                    ArcKind::Member => Marker::Regular,
                    ArcKind::Optional => Marker::Optional,
                    ArcKind::Required => Marker::Required,
                };
                if marker != Marker::Regular && !which.constraints
                    || class == LabelClass::Definition && !which.definitions
                    || (class == LabelClass::Hidden || label.is_hidden()) && !which.hidden
                {
                    continue;
                }
                let label = plain_name(m.name(label)).into();
                out.push(Field { label, node: Node(w.0), marker, class });
            }
            out
        })
    }

    /// The elements of a list.
    pub fn elements(&mut self, node: Node) -> Vec<Node> {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.chosen(Vid(node.0));
            m.settle(v);
            let v = m.deref(v);
            m.v(v).arcs.iter().filter(|(l, _)| l.is_int()).map(|(_, w)| Node(w.0)).collect()
        })
    }

    /// The comment lines of the field the node is the value of, without `//`: `+usage=...`.
    #[must_use]
    pub fn docs(&self, node: Node) -> Vec<EcoString> {
        let Some(vertex) = self.state.vertices.get(node.0 as usize) else { return Vec::new() };
        let mut out = Vec::new();
        for conj in &vertex.conjs {
            if let Src::Expr(e) = conj.src {
                out.extend(self.ir.docs(e).map(EcoString::from));
            }
        }
        out
    }

    /// Looks for errors in a node and everything below: final ones, and with `concrete` also
    /// incomplete ones and non-concrete values.
    ///
    /// # Errors
    /// All errors found.
    pub fn validate(&mut self, node: Node, concrete: bool) -> Result<(), Errors> {
        let list = self.with(|m| m.validate(Vid(node.0), concrete));
        match Errors::from_list(list) {
            Some(errors) => Err(errors),
            None => Ok(()),
        }
    }

    /// The concrete value of a node: defaults taken; definitions, hidden and optional fields left
    /// out.
    ///
    /// # Errors
    /// Final and incomplete errors and non-concrete values.
    pub fn export(&mut self, node: Node) -> Result<Value, Errors> {
        self.export_as(node)
    }

    /// As [`export`](Self::export), as JSON: what [`Value::to_json`] makes of it.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn export_json(&mut self, node: Node) -> Result<serde_json::Value, Errors> {
        self.export_as(node)
    }

    fn export_as<M: Make>(&mut self, node: Node) -> Result<M, Errors> {
        // What nests too deep must not spoil the export of other nodes.
        self.state.budget.forgive_depth();
        self.with(|m| m.export(Vid(node.0))).map_err(|list| {
            Errors::from_list(list)
                .unwrap_or_else(|| Error::new(Class::Eval, "export failed").into())
        })
    }

    /// Adds a node made of data and existing nodes to the evaluation.
    ///
    /// ```
    /// use cue::{Limits, Packages, Program, Tree, Value};
    ///
    /// let text = "base: {image: string, replicas: *1 | int}";
    /// let program = Program::compile("in.cue", text, &Packages::std()).unwrap();
    /// let mut evaluation = program.evaluate(&[], &Limits::default());
    /// let base = evaluation.lookup(evaluation.root(), "base").unwrap();
    /// let patch: Value = [("image", Value::from("nginx"))].into_iter().collect();
    /// let both = evaluation.build(&Tree::Unify(vec![Tree::Node(base), Tree::Data(patch)]));
    /// let value = evaluation.export(both).unwrap();
    /// assert_eq!(value.to_json_text(), r#"{"image":"nginx","replicas":1}"#);
    /// ```
    pub fn build(&mut self, tree: &Tree) -> Node {
        self.with(|m| {
            let data = m.add_tree(tree);
            let v = m.new_vertex(Vid::NONE, Label::NONE);
            m.vm(v).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
            Node(v.0)
        })
    }

    /// Steps spent so far, for tests of budgets and for metrics.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state.budget.spent()
    }
}

/// Splits a path into labels; `None` if it is not one.
pub(crate) fn parse_path(path: &str) -> Option<Vec<PathLabel>> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut end = 0;
            let bytes = quoted.as_bytes();
            while *bytes.get(end)? != b'"' {
                end += if bytes.get(end) == Some(&b'\\') { 2 } else { 1 };
            }
            let text = rest.get(..end + 2)?;
            let name: String = serde_json::from_str(text).ok()?;
            out.push(PathLabel::Name(name.into(), LabelClass::Regular));
            rest = rest.get(end + 2..)?;
        } else if let Some(index) = rest.strip_prefix('[') {
            let end = index.find(']')?;
            out.push(PathLabel::Index(index.get(..end)?.parse().ok()?));
            rest = index.get(end + 1..)?;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let name = rest.get(..end)?;
            let class = if name.starts_with('#') || name.starts_with("_#") {
                LabelClass::Definition
            } else if name.starts_with('_') {
                LabelClass::Hidden
            } else {
                LabelClass::Regular
            };
            match name.parse() {
                Ok(index) => out.push(PathLabel::Index(index)),
                Err(_) => out.push(PathLabel::Name(name.into(), class)),
            }
            rest = rest.get(end..)?;
        }
        if let Some(next) = rest.strip_prefix('.') {
            rest = next;
        }
    }
    Some(out)
}
