//! What a declaration gives a struct: fields, pattern constraints, data.
//!
//! # A worked example
//!
//! ```cue
//! x: {[=~"^a"]: int, ab: 1}
//! x: ac: 2
//! ```
//!
//! A pattern holds for every field, whenever it comes. The first literal makes the arc `ab` and
//! then adds the pattern, which finds `ab` and gives it the conjunct `int`. The second literal
//! makes the arc `ac`. Patterns that are known by then are applied to a new field at once, so `ac`
//! gets `int`, too.
//!
//! Had the second literal been `ac: "s"`, the conflict would be an error of `ac`, and not of the
//! pattern.

use super::data::{
    ArcKind, BODY, Conj, Data, EMBED, EnvId, INHERITED, Msg, OPTIONAL, Pattern, Res, Src, TaskKind,
    Val, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ExprId, PatternDecl, StructId};
use crate::kind::Kind;
use crate::label::{Label, LabelKind};
use crate::limits::LimitError;
use smallvec::SmallVec;

impl Machine<'_> {
    /// Distributes a struct literal: a frame in which its fields see each other, then fields,
    /// patterns, dynamic fields, embeddings and comprehensions.
    pub(super) fn add_struct(&mut self, v: Vid, c: Conj, id: StructId) {
        let tmpl = &self.ir.structs[id.idx()];
        let env = self.new_env(c.env, v, Label::new(id.0, LabelKind::Int));
        self.note_literal(v, c);
        let mut c = c;
        // Where nothing is embedded, fields have the evidence that the literal has, and need no id
        // of their own.
        if !tmpl.embeds().is_empty() || !tmpl.comps().is_empty() || c.is_embedding() {
            c.close = if c.flags & BODY == 0 {
                self.new_braces(c.close, c.is_embedding())
            } else {
                self.new_literal(c.close, c.is_embedding())
            };
        }
        self.note_structure(v, c);
        // A literal of embeddings alone is whatever they are: `{5}` is 5.
        if tmpl.surely_struct {
            self.vm(v).is_struct = true;
            self.narrow(v, Kind::STRUCT, c);
        } else {
            self.vm(v).maybe_struct = true;
        }
        if tmpl.open {
            self.vm(v).says_open = true;
            self.open(v, c, false);
        }
        for field in &tmpl.fields {
            self.insert_arc(
                v,
                field.label,
                field.marker.into(),
                c.declared(field.marker.into(), Src::Expr(field.value), env),
            );
        }
        for pattern in tmpl.patterns() {
            self.add_pattern(v, *pattern, env, c);
        }
        for &dynamic in tmpl.dynamics() {
            self.push_task(v, TaskKind::Dynamic(dynamic), c.with(c.src, env));
        }
        // Literals first: what they declare is there for the others.
        let ir = self.ir;
        for literals in [true, false] {
            for &embed in tmpl.embeds() {
                if matches!(ir.expr(embed), Expr::Struct(_)) == literals {
                    let flags = (c.flags & INHERITED) | EMBED;
                    self.process(v, Conj { src: Src::Expr(embed), env, flags, ..c }, false);
                }
            }
        }
        // Guards and loops may ask for any field of the literal, so they wait until the vertex is
        // settled.
        for &comp in tmpl.comps() {
            let flags = (c.flags & INHERITED) | EMBED;
            self.push_task(v, TaskKind::Comp(comp), Conj { env, flags, ..c });
        }
    }

    /// Adds a conjunct to a field, and the field if it is new. The strongest marker counts:
    /// declared once without a marker, a field is there.
    pub(crate) fn insert_arc(&mut self, v: Vid, label: Label, kind: ArcKind, conj: Conj) -> Vid {
        if let Some(w) = self.arc(v, label) {
            // Members come before required fields, these before optional ones.
            let vertex = self.vm(w);
            vertex.arc = vertex.arc.min(kind);
            self.add_conj(w, conj);
            return w;
        }
        let w = self.new_vertex(v, label);
        let vertex = self.vm(w);
        vertex.arc = kind;
        vertex.conjs.push(conj);
        if self.v(v).extra.as_ref().is_some_and(|x| x.frozen || x.counted)
            && label.is_string()
            && kind == ArcKind::Member
            && self.comes_too_late(v, w)
        {
            let text = format!(
                "adding field {} not allowed as field set was already referenced",
                self.label_text(label)
            );
            let at: SmallVec<[ExprId; 2]> = self.conj_expr(conj).into_iter().collect();
            let e = self.err_at(Class::Eval, Msg::Text(text), v, &at);
            // The error is one of who adds the field, and the struct stays as it was seen.
            let adding = if self.s.at.is_none() { v } else { self.s.at };
            self.fail(adding, e);
            return w;
        }
        // Injected data and patterns may have something to say of a field that is new.
        self.push_arc(v, label, w);
        self.pass_inputs(v, label, w);
        if self.v(v).arcs.len() as u64 > self.s.budget.limits().list {
            self.limit(LimitError::List);
        }
        self.apply_patterns(v, label, w);
        w
    }

    /// Hands down injected data for paths that lead through this field.
    fn pass_inputs(&mut self, v: Vid, label: Label, w: Vid) {
        let Some(extra) = &self.v(v).extra else { return };
        if extra.inputs.is_empty() {
            return;
        }
        let below: SmallVec<[_; 2]> = extra
            .inputs
            .iter()
            .filter_map(|(path, conj)| match path.as_slice() {
                [first, rest @ ..] if *first == label && !rest.is_empty() => {
                    Some((rest.into(), *conj))
                }
                _ => None,
            })
            .collect();
        if !below.is_empty() {
            self.extra(w).inputs.extend(below);
        }
    }

    /// Patterns constrain regular fields, the rest of an open list its elements. Definitions and
    /// hidden fields are exempt.
    fn apply_patterns(&mut self, v: Vid, label: Label, w: Vid) {
        if label.is_string() {
            let n = self.v(v).extra.as_ref().map_or(0, |x| x.patterns.len());
            for i in 0..n {
                if let Some(pattern) =
                    self.v(v).extra.as_ref().and_then(|x| x.patterns.get(i)).copied()
                {
                    self.apply_pattern(v, pattern, label, w);
                }
            }
        } else if label.is_int() {
            let n = self.v(v).extra.as_ref().map_or(0, |x| x.rests.len());
            for i in 0..n {
                if let Some(rest) = self.v(v).extra.as_ref().and_then(|x| x.rests.get(i)).copied()
                    && label.index() >= rest.from
                    && let Some(mut conj) = rest.conj
                {
                    // What came by a pattern is treated differently in a circle: see `follow.rs`.
                    conj.flags |= OPTIONAL;
                    self.add_conj(w, conj);
                }
            }
        }
    }

    /// Adds a pattern, which holds for the fields that are there, too.
    fn add_pattern(&mut self, v: Vid, decl: PatternDecl, env: EnvId, c: Conj) {
        let pattern = Pattern { decl, env, conj: c };
        self.extra(v).patterns.push(pattern);
        let arcs: Vec<_> = self.v(v).arcs.iter().filter(|(l, _)| l.is_string()).copied().collect();
        for (label, w) in arcs {
            self.apply_pattern(v, pattern, label, w);
        }
    }

    /// Constrains one field by one pattern, if its label matches.
    fn apply_pattern(&mut self, v: Vid, pattern: Pattern, label: Label, w: Vid) {
        match self.matches_label(pattern.decl.pattern, pattern.env, label) {
            Ok(true) => {
                // In `[Name=string]: ...` the body sees the label, through a frame.
                let env = if pattern.decl.framed {
                    self.new_env(pattern.env, w, label)
                } else {
                    pattern.env
                };
                // A pattern is no embedding: it constrains a field and does not declare one.
                let mut conj = pattern.conj.field(Src::Expr(pattern.decl.value), env);
                conj.flags |= OPTIONAL;
                self.add_conj(w, conj);
            }
            Ok(false) => {}
            Err(e) => self.fail(v, e),
        }
    }

    /// Whether a label unifies with a pattern.
    pub(super) fn matches_label(&mut self, pattern: ExprId, env: EnvId, label: Label) -> Res<bool> {
        // The usual patterns need no vertex.
        match self.ir.expr(pattern) {
            Expr::Kind(k) => return Ok(k.intersects(Kind::STRING)),
            Expr::Top => return Ok(true),
            Expr::Str(id) => return Ok(self.ir.texts[id.idx()] == *self.name(label)),
            _ => {}
        }
        let name = Val::Str(self.name(label).clone());
        let w = self.anon(Conj::new(Src::Expr(pattern), env));
        self.settle(w);
        let val = self.node_val(w)?;
        match val {
            Val::Node(w) => {
                let w = self.deref(w);
                let alts = self.v(w).extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
                // Of several alternatives one has to match.
                if !alts.is_empty() {
                    for alt in alts {
                        let ok = match alt.val {
                            Val::Node(c) => self.label_fits(c, &name)?,
                            val => self.meet(&val, &name)?.is_some(),
                        };
                        if ok {
                            return Ok(true);
                        }
                    }
                    return Ok(false);
                }
                self.label_fits(w, &name)
            }
            val => Ok(self.meet(&val, &name)?.is_some()),
        }
    }

    /// Whether a settled pattern allows a name: as an atom, or by kind and constraints.
    fn label_fits(&mut self, w: Vid, name: &Val) -> Res<bool> {
        let w = self.deref(w);
        let vertex = self.v(w);
        if vertex.is_struct || vertex.is_list || !vertex.kind.intersects(Kind::STRING) {
            return Ok(false);
        }
        if vertex.atom.is_atom() {
            let atom = vertex.atom.clone();
            return Ok(self.meet(&atom, name)?.is_some());
        }
        let checks = vertex.checks.clone();
        for check in checks {
            if self.meet(&check, name)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Injected data as a conjunct. They unify as literals do but have no frame, since they refer
    /// to nothing.
    pub(super) fn add_data_conj(&mut self, v: Vid, c: Conj, d: super::data::DataId) {
        match self.s.data[d.idx()].clone() {
            Data::Val(val) => self.unify_val(v, val, c),
            Data::Struct(start, len) => {
                self.note_literal(v, c);
                self.note_structure(v, c);
                self.vm(v).is_struct = true;
                self.narrow(v, Kind::STRUCT, c);
                for i in start..start + len {
                    // However wide, this is one step: the budget is asked for each field.
                    if self.is_over() {
                        return;
                    }
                    let (label, item) = self.s.items[i as usize];
                    self.insert_arc(v, label, ArcKind::Member, c.field(Src::Data(item), c.env));
                }
            }
            data @ (Data::List(start, len) | Data::OpenList(start, len)) => {
                self.note_literal(v, c);
                self.note_structure(v, c);
                if self.s.budget.room(u64::from(len) * size_of::<Conj>() as u64).is_err() {
                    return;
                }
                let elems: Vec<_> = (start..start + len)
                    .map(|i| c.field(Src::Data(self.s.items[i as usize].1), c.env))
                    .collect();
                let rest = matches!(data, Data::OpenList(..)).then_some(None);
                self.unify_list(v, c, &elems, rest);
            }
            Data::Node(w) => self.follow(v, c, w, None, false),
            Data::Choice(..) => self.add_disj(v, c, None),
            Data::Unify(start, len) => {
                for i in start..start + len {
                    let item = self.s.items[i as usize].1;
                    self.process(v, c.with(Src::Data(item), c.env), false);
                }
            }
        }
    }
}
