//! What is known of a node before defaults are taken: for printers and conformance tests.

use crate::api::{Evaluation, Marker};
use crate::error::{Class, Error};
use crate::eval::{ArcKind, Forward, Func, Machine, Mode, Val, Vid};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::label::LabelKind;
use crate::tree::Node;
use crate::value::Value;
use ecow::{EcoString, eco_format};

/// A node as far as it is known.
#[derive(Clone, Debug)]
pub struct Description {
    /// The kinds the value may have; bottom for errors, also incomplete ones.
    pub kind: Kind,
    /// Whether a struct or list is closed, `...` aside.
    pub closed: bool,
    /// The value of a scalar, a constraint or a disjunction; `None` for plain structs and lists and
    /// for errors.
    pub form: Option<Form>,
    /// The error of the node, or what the errors below make of it.
    pub error: Option<Error>,
    /// How many further errors there are, as of the alternatives of a disjunction.
    pub more: usize,
    /// The texts of the expressions that define the node, if it is incomplete; the number as it is
    /// written if it is nothing but that.
    pub sources: Vec<EcoString>,
    /// All fields and elements in order, optional, hidden and definitions included.
    pub arcs: Vec<Arc>,
}

/// A field or element of a [`Description`].
#[derive(Clone, Debug)]
pub struct Arc {
    /// The label in CUE syntax; the index of an element.
    pub label: EcoString,
    /// The package a hidden label belongs to, if it has a name: `:name` for that of the program,
    /// else the import path.
    pub package: Option<EcoString>,
    /// Regular, optional or required.
    pub marker: Marker,
    /// The value.
    pub node: Node,
}

/// A value that is not a plain struct or list.
#[derive(Clone, Debug)]
pub enum Form {
    /// A concrete scalar.
    Data(Value),
    /// All values of these kinds.
    Type(Kind),
    /// An operator such as `>=` and its operand.
    Bound(&'static str, Box<Self>),
    /// A validator: its name and arguments.
    Call(EcoString, Vec<Self>),
    /// A function that is not called.
    Function(EcoString),
    /// Several constraints together.
    All(Vec<Self>),
    /// Alternatives, with whether each is a default.
    Any(Vec<(bool, Description)>),
    /// A struct or list inside a constraint.
    Node(Node),
}

impl Evaluation {
    /// Computes a node and everything below it, and says what it is.
    pub fn describe(&mut self, node: Node) -> Description {
        self.with(|m| {
            let v = Vid(node.0);
            if m.is_part_of_no_choice(v) {
                return m.described_as_written(v);
            }
            m.deep(v);
            m.description(v)
        })
    }
}

impl Machine<'_> {
    /// Whether a vertex lies in one of which no alternative can be chosen: fields are computed in the alternatives.
    fn is_part_of_no_choice(&self, v: Vid) -> bool {
        let mut at = self.v(v).parent;
        while !at.is_none() {
            let vertex = self.v(at);
            let left =
                vertex.extra.as_ref().is_some_and(|x| !x.disjs.is_empty() && x.alts.is_empty());
            if left && vertex.forward == Forward::No && vertex.incomplete.is_some() {
                return true;
            }
            at = vertex.parent;
        }
        false
    }

    /// What is known of a vertex without computing it.
    fn described_as_written(&mut self, v: Vid) -> Description {
        self.expand(v);
        let vertex = self.v(v);
        let kind = match (vertex.is_struct, vertex.is_list) {
            (true, _) => Kind::STRUCT,
            (_, true) => Kind::LIST,
            _ => return self.scalar_description(&Val::Top),
        };
        let closed = vertex.list_closed;
        let arcs = self.described_arcs(v);
        Description { kind, closed, form: None, error: None, more: 0, sources: Vec::new(), arcs }
    }

    fn description(&mut self, v: Vid) -> Description {
        let own = self.v(v).error;
        let not_allowed = self.not_allowed(v);
        let v = if own.is_some() { v } else { self.deref(v) };
        let arcs = self.described_arcs(v);
        let vertex = self.v(v);
        let mut kind = self.node_kind(v);
        let mut closed = if vertex.is_list {
            vertex.list_closed
        } else {
            vertex.is_struct && (vertex.of_def || self.has_reqs(v))
        };
        let error = vertex.error.or(self.own_incomplete(v)).or(not_allowed);
        let mut more = 0;
        let mut error = error.and_then(|e| {
            let mut list = Vec::new();
            self.public(e, &mut list);
            more = list.len().saturating_sub(1);
            list.into_iter().next()
        });
        if !self.is_closing_what_waits(v)
            && let Some(class) = self.class_below(v, &mut Vec::new())
        {
            match &mut error {
                Some(own) if !own.class.is_incomplete() => own.class = own.class.max_severe(class),
                _ => error = Some(Error::new(class, String::new())),
            }
        }
        if error.is_some() {
            let mut sources: Vec<EcoString> = Vec::new();
            for conj in self.v(v).conjs.clone() {
                if let Some(text) = self.conj_expr(conj).map(|e| self.ir.text(e))
                    && !text.is_empty()
                    && !sources.iter().any(|source| source == text)
                {
                    sources.push(text.into());
                }
            }
            let kind = Kind::BOTTOM;
            return Description { kind, closed: false, form: None, error, more, sources, arcs };
        }
        let alts = self.v(v).extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
        let form = if alts.is_empty() {
            let vertex = self.v(v);
            let plain = vertex.is_struct || vertex.is_list;
            if plain && !vertex.atom.is_atom() {
                if vertex.is_list && !vertex.is_struct {
                    kind = Kind::LIST;
                }
                // It satisfies what it is checked against, or there would be an error.
                None
            } else {
                // An atom satisfies what else is said about it.
                let atom = self.v(v).atom.clone();
                let val = if atom.is_atom() { atom } else { self.scalar_val(v) };
                Some(self.form(&val, &mut vec![v]))
            }
        } else {
            kind = Kind::BOTTOM;
            let mut described = Vec::new();
            for alt in alts {
                let one = match alt.val {
                    Val::Node(w) => self.description(w),
                    Val::All(parts) if parts.iter().any(Val::is_atom) => {
                        let atom = parts.iter().find(|part| part.is_atom()).cloned();
                        self.scalar_description(&atom.unwrap_or(Val::Top))
                    }
                    val => self.scalar_description(&val),
                };
                kind = kind | one.kind;
                described.push((alt.mode == Mode::Default, one));
            }
            // Lists are closed by their length; what a definition adds shows on the choice. What closes one
            // alternative closes that alternative only.
            closed = self.has_reqs(v)
                && (kind == Kind::LIST
                    || described.iter().all(|(_, one)| one.closed && one.kind == Kind::STRUCT));
            return Description {
                kind,
                closed,
                form: Some(Form::Any(described)),
                error,
                more,
                sources: Vec::new(),
                arcs: Vec::new(),
            };
        };
        let sources = self.number_as_written(v).into_iter().collect();
        Description { kind, closed, form, error, more, sources, arcs }
    }

    fn scalar_description(&mut self, val: &Val) -> Description {
        Description {
            kind: self.val_kind(val),
            closed: false,
            form: Some(self.form(val, &mut Vec::new())),
            error: None,
            more: 0,
            sources: Vec::new(),
            arcs: Vec::new(),
        }
    }

    fn number_as_written(&self, v: Vid) -> Option<EcoString> {
        let &[conj] = self.v(v).conjs.as_slice() else { return None };
        let e = self.conj_expr(conj)?;
        matches!(self.ir.expr(e), Expr::Int(_) | Expr::Num(_)).then(|| self.ir.text(e).into())
    }

    fn described_arcs(&mut self, v: Vid) -> Vec<Arc> {
        let mut out = Vec::new();
        for (label, w) in self.ordered_arcs(v) {
            let marker = match self.v(w).arc {
                ArcKind::Member => Marker::Regular,
                ArcKind::Optional => Marker::Optional,
                ArcKind::Required => Marker::Required,
            };
            if matches!(label.kind(), LabelKind::Let) {
                continue;
            }
            let package = match label.kind() {
                LabelKind::Hidden | LabelKind::HiddenDef => {
                    let id = self.name(label).split_once('\0').map_or("0", |(_, id)| id);
                    let at: usize = id.parse().unwrap_or(0);
                    self.ir.package_names.get(at).filter(|name| !name.is_empty()).cloned()
                }
                _ => None,
            };
            out.push(Arc { label: self.label_text(label), package, marker, node: Node(w.0) });
        }
        out
    }

    /// The class that final errors of the members below give a struct or list. `above` holds the
    /// vertices on the way: shared ones may lead back to them.
    fn class_below(&mut self, v: Vid, above: &mut Vec<Vid>) -> Option<Class> {
        if above.contains(&v) || self.enter().is_err() {
            return None;
        }
        above.push(v);
        let mut worst: Option<Class> = None;
        for (label, w) in self.v(v).arcs.clone() {
            if self.v(w).arc == ArcKind::Optional || label.is_let() {
                continue;
            }
            let own = self.final_error(w).map(|e| self.class(e)).filter(|c| !c.is_incomplete());
            let below = if own.is_some() {
                let w = if self.v(w).error.is_some() { w } else { self.deref(w) };
                self.class_below(w, above)
            } else {
                None
            };
            for class in [own, below].into_iter().flatten() {
                worst = Some(worst.map_or(class, |worst| worst.max_severe(class)));
            }
        }
        above.pop();
        self.leave();
        worst
    }

    /// `above` holds the vertices on the way: the arguments of a validator may lead back to them.
    fn form(&mut self, val: &Val, above: &mut Vec<Vid>) -> Form {
        match val {
            Val::Top => Form::Type(Kind::TOP),
            Val::Kind(kind) => Form::Type(*kind),
            Val::Bound(op, operand) => Form::Bound(op.text(), Box::new(self.form(operand, above))),
            Val::Validator(validator) => {
                let name = match validator.func {
                    Func::Core(core) => core.name().into(),
                    Func::Std(id) => {
                        let std = &self.ir.builtins[id.0 as usize];
                        eco_format!("{}.{}", std.package, std.name)
                    }
                };
                if matches!(self.ir.expr(validator.expr), Expr::StdFunc(_)) {
                    return Form::Function(name);
                }
                Form::Call(name, validator.args.iter().map(|arg| self.form(arg, above)).collect())
            }
            Val::All(list) => Form::All(list.iter().map(|val| self.form(val, above)).collect()),
            Val::CoreFunc(core) => Form::Function(core.name().into()),
            Val::Node(w) => {
                // An argument may not have been looked at yet.
                self.settle(*w);
                let w = self.deref(*w);
                let vertex = self.v(w);
                let kind = vertex.kind;
                let scalar = !vertex.is_struct
                    && !vertex.is_list
                    && vertex.error.is_none()
                    && vertex.extra.as_ref().is_none_or(|x| x.alts.is_empty());
                if scalar {
                    if above.contains(&w) || self.enter().is_err() {
                        return Form::Type(kind);
                    }
                    let atom = self.v(w).atom.clone();
                    let val = if atom.is_atom() { atom } else { self.scalar_val(w) };
                    above.push(w);
                    let form = self.form(&val, above);
                    above.pop();
                    self.leave();
                    form
                } else {
                    Form::Node(Node(w.0))
                }
            }
            Val::Null => Form::Data(Value::Null),
            Val::Bool(b) => Form::Data(Value::Bool(*b)),
            Val::Int(i) => Form::Data(Value::from(*i)),
            Val::Num(n) => Form::Data(Value::Number(n.clone())),
            Val::Str(s) => Form::Data(Value::String(s.clone())),
            Val::Bytes(b) => Form::Data(Value::Bytes(std::sync::Arc::clone(b))),
        }
    }
}
