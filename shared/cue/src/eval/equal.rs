//! Equality of evaluated values.
//!
//! Alternatives with the same value are one, and `==` and functions of lists compare data. What a
//! value is counts, not where it was written.
//!
//! # Worked examples
//!
//! - `{a: 1} | {a: 1 & int}` is one alternative: both fields have the atom `1`, and that one of
//!   them was checked against `int` makes no difference any more.
//! - `{a: 1} | {a: 1, b?: int}` stays two: the second says something about a field to come.
//! - `{a: 1, b: 2} | {b: 2, a: 1}` is one: the order of fields is no part of a value.
//! - `{a: 1, [string]: int} | {a: 1}` is one: patterns say nothing about the fields that are there.
//! - `{a: {b: 1}} | {a: close({b: 1})}` stays two: the second refuses other fields of `a`.

use super::data::{ArcKind, ErrId, Res, Src, Val, Vid};
use super::state::Machine;
use crate::error::Class;
use crate::label::Label;
use cue_syntax::ast::UnaryOp;
use smallvec::SmallVec;

/// What of structs is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Everything, with what closes them.
    All,
    /// Everything but optional fields.
    Present,
    /// Regular and required fields.
    Regular,
}

impl Parts {
    fn contain(self, label: Label, arc: ArcKind) -> bool {
        match self {
            Self::All => !label.is_let(),
            Self::Present => !label.is_let() && arc != ArcKind::Optional,
            Self::Regular => {
                let is_regular = !label.is_let() && !label.is_def() && !label.is_hidden();
                is_regular && arc != ArcKind::Optional
            }
        }
    }
}

impl Machine<'_> {
    /// Elements of a list.
    pub(crate) fn list_elems(&mut self, v: Vid) -> Res<Vec<Vid>> {
        self.settle(v);
        let v = self.deref(v);
        if let Some(e) = self.v(v).error.or(self.v(v).incomplete) {
            return Err(e);
        }
        // Long lists are gone through for every call.
        self.steps(self.v(v).arcs.len() >> 4)?;
        Ok(self.v(v).arcs.iter().filter(|(l, _)| l.is_int()).map(|(_, w)| *w).collect())
    }

    /// `==` on lists: all of both has to be known, and the same down to the kinds of numbers.
    pub(crate) fn equal_lists(&mut self, a: Vid, b: Vid) -> Res<bool> {
        let mut keys = [String::new(), String::new()];
        for (key, w) in keys.iter_mut().zip([a, b]) {
            self.deep_aside(w);
            if let Some(e) = self.final_error(w) {
                return Err(e);
            }
            let value = self.value_of(w)?;
            let budget = &mut self.s.budget;
            let written = crate::std::list::canonical(&value, key, budget)
                .and_then(|()| budget.bytes(key.len() as u64));
            if let Err(limit) = written {
                return Err(self.limit(limit));
            }
        }
        Ok(keys[0] == keys[1])
    }

    /// Whether two alternatives are the same value. Of structs it counts whether something closes
    /// them, `...` aside.
    pub(crate) fn same_alternative(&mut self, a: Vid, b: Vid) -> bool {
        let (a, b) = (self.deref(a), self.deref(b));
        let structs = self.v(a).is_struct || self.v(b).is_struct;
        (!structs || self.has_reqs(a) == self.has_reqs(b)) && self.equal_nodes(a, b, Parts::All)
    }

    /// Structural equality of computed vertices.
    pub(crate) fn equal_nodes(&mut self, a: Vid, b: Vid, parts: Parts) -> bool {
        let (a, b) = (self.chosen_or_self(a), self.chosen_or_self(b));
        if a == b {
            return true;
        }
        if self.enter().is_err() {
            return false;
        }
        let equal = self.equal_inner(a, b, parts);
        self.leave();
        equal
    }

    /// The vertex that stands for `v` once it is settled; alternatives are compared, not chosen
    /// from.
    fn chosen_or_self(&mut self, v: Vid) -> Vid {
        self.settle(v);
        self.deref(v)
    }

    /// The parts of two values one by one, the fields at last.
    fn equal_inner(&mut self, a: Vid, b: Vid, parts: Parts) -> bool {
        // What is undecided is its alternatives, with their marks; what else is said of it has been unified with
        // each of them.
        let count = |m: &Self, v: Vid| m.v(v).extra.as_ref().map_or(0, |x| x.alts.len());
        let (n, other) = (count(self, a), count(self, b));
        if n != other {
            return false;
        }
        if n > 0 {
            return self.equal_alternatives(a, b, parts);
        }
        // What is cheap to compare comes first. What is incomplete is equal to nothing: it may
        // still become anything.
        let (x, y) = (self.v(a), self.v(b));
        if x.kind != y.kind
            || x.is_struct != y.is_struct
            || x.is_list != y.is_list
            || x.error.is_some() != y.error.is_some()
            || x.incomplete.is_some()
            || y.incomplete.is_some()
            || x.atom.is_atom() != y.atom.is_atom()
            || x.list_len != y.list_len
            || x.list_closed != y.list_closed
        {
            return false;
        }
        let atoms = x.atom.is_atom();
        if atoms && !self.same_atom(&x.atom, &y.atom) {
            return false;
        }
        // What an atom, a list or a struct has been checked against makes no difference any more.
        let is_checked = atoms || x.is_list || x.is_struct;
        if !is_checked && !self.same_checks(&x.checks, &y.checks) {
            return false;
        }
        // The order of the fields is no part of the value.
        let fields = |m: &Self, v: Vid| -> Vec<(Label, Vid)> {
            let arcs = m.v(v).arcs.iter().copied();
            arcs.filter(|(label, w)| parts.contain(*label, m.v(*w).arc)).collect()
        };
        let (fa, fb) = (fields(self, a), fields(self, b));
        if fa.len() != fb.len() {
            return false;
        }
        for (label, w) in fa {
            let Some(u) = self.arc(b, label) else { return false };
            if self.v(w).arc != self.v(u).arc {
                return false;
            }
            let equal = match self.v(w).arc {
                ArcKind::Member => self.same_part(w, u, parts),
                ArcKind::Optional | ArcKind::Required => self.same_constraint(w, u),
            };
            if !equal {
                return false;
            }
        }
        true
    }

    /// Whether two fields or alternatives inside what is compared are the same value.
    fn same_part(&mut self, a: Vid, b: Vid, parts: Parts) -> bool {
        match parts {
            Parts::All => self.same_alternative(a, b),
            Parts::Present | Parts::Regular => self.equal_nodes(a, b, parts),
        }
    }

    /// Whether two types are constrained alike: by the same bounds, and by the same other constraints in the same order.
    fn same_checks(&self, a: &[Val], b: &[Val]) -> bool {
        let is_bound =
            |check: &&Val| matches!(check, Val::Bound(op, _) if *op != UnaryOp::NotEqual);
        let (p, others_p): (Vec<&Val>, Vec<&Val>) = a.iter().partition(is_bound);
        let (q, others_q): (Vec<&Val>, Vec<&Val>) = b.iter().partition(is_bound);
        let in_order = |(p, q): (&&Val, &&Val)| self.same_scalar(p, q);
        p.len() == q.len()
            && others_p.len() == others_q.len()
            && p.iter().all(|p| q.iter().any(|q| self.same_scalar(p, q)))
            && others_p.iter().zip(&others_q).all(in_order)
    }

    /// Whether two vertices that are undecided have the same alternatives.
    fn equal_alternatives(&mut self, a: Vid, b: Vid, parts: Parts) -> bool {
        let alts =
            |m: &Self, v: Vid| m.v(v).extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
        let (p, q) = (alts(self, a), alts(self, b));
        p.iter().zip(&q).all(|(m, n)| {
            m.mode == n.mode
                && match (&m.val, &n.val) {
                    (Val::Node(m), Val::Node(n)) => self.same_part(*m, *n, parts),
                    (m, n) => self.same_scalar(m, n),
                }
        })
    }

    /// Whether two fields that are not there yet would be the same: by what they are written as, or
    /// as values. They may contain themselves, so of structs far within structs only the text counts.
    fn same_constraint(&mut self, a: Vid, b: Vid) -> bool {
        let sources = |m: &Self, v: Vid| -> SmallVec<[Src; 2]> {
            m.v(v).conjs.iter().map(|conj| conj.src).collect()
        };
        // Within another such field it counts whether there is an end.
        if self.s.comparing == 0 && sources(self, a) == sources(self, b) {
            return true;
        }
        self.settle(a);
        self.settle(b);
        let (x, y) = (self.deref(a), self.deref(b));
        let endless = |e: ErrId| self.class(e) == Class::StructuralCycle;
        if self.s.comparing > 0 {
            if [x, y].iter().any(|v| self.v(*v).error.is_some_and(endless)) {
                return false;
            }
            if sources(self, a) == sources(self, b) {
                return true;
            }
        }
        let composed = |v: Vid| self.v(v).is_struct || self.v(v).is_list;
        if !composed(x) && !composed(y) {
            return self.equal_nodes(x, y, Parts::All);
        }
        if composed(x) != composed(y) {
            return false;
        }
        if self.same_text(a, b) {
            return true;
        }
        const MOST: u32 = 4;
        if self.s.comparing >= MOST || self.step().is_err() {
            return false;
        }
        self.s.comparing += 1;
        let equal = self.same_alternative(x, y);
        self.s.comparing -= 1;
        equal
    }

    /// Whether two fields are written alike.
    fn same_text(&self, a: Vid, b: Vid) -> bool {
        let texts = |v: Vid| -> Vec<Option<&str>> {
            let conjs = self.v(v).conjs.iter();
            conjs.map(|conj| self.conj_expr(*conj).map(|e| self.ir.text(e))).collect()
        };
        texts(a) == texts(b)
    }
}
