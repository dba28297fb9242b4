//! What a node may be, short of a concrete value: alternatives, types, bounds, open ends.

use crate::api::Evaluation;
use crate::error::Errors;
use crate::eval::{Conj, Machine, Mode, Src, Val, Vid};
use crate::kind::Kind;
use crate::label::Label;
use crate::tree::Node;
use crate::value::Value;
use ecow::EcoString;

/// The form of a node's value, defaults not taken.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A concrete scalar.
    Data(Value),
    /// Any value of these kinds: `string`, `int`, `_`.
    Kinds(Kind),
    /// A bound such as `>=1`, `!="x"` or `=~"^a"`: the operator and its operand.
    Bound(&'static str, Value),
    /// A builtin that tests values, such as `strings.MinRunes(3)`: package, name and arguments.
    Call(EcoString, EcoString, Vec<Value>),
    /// All of several.
    All(Vec<Self>),
    /// Alternatives; `true` for those that are the default.
    Any(Vec<(bool, Self)>),
    /// A struct: look at its fields and patterns.
    Struct(Node),
    /// A list: look at its elements and its end.
    List(Node),
    /// No value, or none yet.
    Error(Errors),
}

/// What may follow the elements of a list.
#[derive(Clone, Copy, Debug)]
pub enum Rest {
    /// Nothing: the list has this length.
    Closed,
    /// Anything.
    Open,
    /// Values that this node constrains.
    Of(Node),
}

impl Evaluation {
    /// The form of a node's value, defaults not taken.
    ///
    /// ```
    /// use cue::{Kind, Limits, Packages, Program, Shape};
    ///
    /// let program = Program::compile("in.cue", "replicas: *1 | int", &Packages::std())?;
    /// let mut evaluation = program.evaluate(&[], &Limits::default());
    /// let replicas = evaluation.lookup(evaluation.root(), "replicas").unwrap();
    /// let Shape::Any(alternatives) = evaluation.shape(replicas) else { panic!("no choice") };
    /// assert!(matches!(&alternatives[0], (true, Shape::Data(one)) if one.as_i64() == Some(1)));
    /// assert!(matches!(&alternatives[1], (false, Shape::Kinds(Kind::INT))));
    /// # Ok::<(), cue::Errors>(())
    /// ```
    pub fn shape(&mut self, node: Node) -> Shape {
        self.with(|m| m.shape_of(Vid(node.0)))
    }

    /// The end of a list.
    pub fn rest(&mut self, node: Node) -> Rest {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.deref(Vid(node.0));
            if m.v(v).list_closed {
                return Rest::Closed;
            }
            let conjs: Vec<Conj> = m
                .v(v)
                .extra
                .iter()
                .flat_map(|x| x.rests.iter())
                .filter_map(|rest| rest.constraint())
                .collect();
            if conjs.is_empty() {
                return Rest::Open;
            }
            let w = m.new_vertex(v, Label::int(m.v(v).arcs.len()));
            m.vm(w).conjs.extend(conjs);
            Rest::Of(Node(w.0))
        })
    }

    /// The pattern constraints of a struct: what labels must be, and their values.
    pub fn patterns(&mut self, node: Node) -> Vec<(Node, Node)> {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.deref(Vid(node.0));
            let patterns = m.v(v).extra.as_ref().map(|x| x.patterns.clone()).unwrap_or_default();
            let mut out = Vec::with_capacity(patterns.len());
            for pattern in patterns {
                let key = m.new_vertex(v, Label::NONE);
                m.vm(key).conjs.push(Conj::new(Src::Expr(pattern.decl.pattern), pattern.env));
                let value = m.new_vertex(v, Label::NONE);
                let env = if pattern.decl.framed {
                    m.new_env(pattern.env, value, Label::NONE)
                } else {
                    pattern.env
                };
                m.vm(value).conjs.push(Conj::new(Src::Expr(pattern.decl.value), env));
                out.push((Node(key.0), Node(value.0)));
            }
            out
        })
    }

    /// Whether a struct says `...`.
    pub fn is_open(&mut self, node: Node) -> bool {
        self.with(|m| {
            m.settle(Vid(node.0));
            let v = m.deref(Vid(node.0));
            m.v(v).says_open
        })
    }
}

impl Machine<'_> {
    fn shape_of(&mut self, v: Vid) -> Shape {
        self.settle(v);
        let v = self.deref(v);
        self.settle(v);
        let v = self.deref(v);
        if let Some(e) = self.v(v).error {
            return self.shape_error(e);
        }
        let alts = self.v(v).extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
        if !alts.is_empty() {
            return Shape::Any(
                alts.iter()
                    .map(|alt| (alt.mode == Mode::Default, self.shape_of_val(&alt.val)))
                    .collect(),
            );
        }
        let vertex = self.v(v);
        if vertex.atom.is_atom() {
            let atom = vertex.atom.clone();
            return self.shape_of_val(&atom);
        }
        if vertex.is_list {
            return Shape::List(Node(v.0));
        }
        if vertex.is_struct {
            return Shape::Struct(Node(v.0));
        }
        if let Some(e) = vertex.incomplete {
            return self.shape_error(e);
        }
        let val = self.scalar_val(v);
        self.shape_of_val(&val)
    }

    fn shape_error(&mut self, e: crate::eval::ErrId) -> Shape {
        let mut list = Vec::new();
        self.public(e, &mut list);
        match Errors::from_list(list) {
            Some(errors) => Shape::Error(errors),
            None => Shape::Kinds(Kind::BOTTOM),
        }
    }

    fn shape_of_val(&mut self, val: &Val) -> Shape {
        match val {
            Val::Top => Shape::Kinds(Kind::TOP),
            Val::Kind(kind) => Shape::Kinds(*kind),
            Val::Node(v) => self.shape_of(*v),
            Val::All(list) => Shape::All(list.iter().map(|one| self.shape_of_val(one)).collect()),
            Val::Bound(op, operand) => match self.value_of_val(operand, Vid(0)) {
                Ok(value) => Shape::Bound(op.text(), value),
                Err(e) => self.shape_error(e),
            },
            Val::Validator(validator) => {
                let mut args = Vec::with_capacity(validator.args.len());
                for arg in &validator.args {
                    match self.value_of_val(arg, Vid(0)) {
                        Ok(value) => args.push(value),
                        Err(e) => return self.shape_error(e),
                    }
                }
                let (package, name) = match validator.func {
                    crate::eval::Func::Core(core) => (EcoString::new(), core.name()),
                    crate::eval::Func::Std(id) => {
                        let of = &self.ir.builtins[id.0 as usize];
                        (of.package.clone(), of.name)
                    }
                };
                Shape::Call(package, name.into(), args)
            }
            Val::CoreFunc(core) => Shape::Call(EcoString::new(), core.name().into(), Vec::new()),
            atom => match self.value_of_val(atom, Vid(0)) {
                Ok(value) => Shape::Data(value),
                Err(e) => self.shape_error(e),
            },
        }
    }
}
