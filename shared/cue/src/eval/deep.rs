//! Everything below a vertex: errors and closedness.
//!
//! An error anywhere below a vertex is an error of the whole for whoever exports it, tests its
//! presence or chooses it as an alternative. Deep is the phase that finds out: every field is
//! settled, and the first error is kept with each vertex on the way up.
//!
//! # A worked example
//!
//! ```cue
//! a: {b: {c: int}, d: e.n}
//! e: n: string & 1
//! ```
//!
//! `a` is demanded deep. Its fields are settled in order. `b` is a struct, so the same happens to
//! it: `c` is of kind `int` and has no value, which is no error; only an export says that it is
//! incomplete. `d` shares `e.n`, where `string` and `1` conflict. That error becomes the
//! `child_error` of `a`, and [`Machine::final_error`] gives it to whoever asks about `a`.

use super::data::{
    ArcKind, Conj, Deep, ErrId, Forward, Msg, Phase, Src, TaskKind, TaskState, Val, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Callee, Core, Expr, ExprId};
use smallvec::SmallVec;

impl Machine<'_> {
    /// Computes a vertex and everything below it.
    pub(crate) fn deep(&mut self, v: Vid) {
        let v = self.deref(v);
        self.settle(v);
        let v = self.deref(v);
        // Nothing below, and nothing to check.
        let vertex = self.vm(v);
        if vertex.is_leaf() {
            vertex.deep = Deep::Done;
            return;
        }
        if self.v(v).deep != Deep::No {
            // A circle: the answer rests on the walk further out, which has not ended.
            if self.v(v).deep == Deep::Running {
                self.s.touch = self.s.touch.min(self.v(v).depth);
            }
            return;
        }
        if let Err(e) = self.enter() {
            self.fail(v, e);
            return;
        }
        // As in `settle`: `touch` is counted for this walk alone, and joined with the outer count
        // at the end.
        let depth = self.s.depth;
        let touch = std::mem::replace(&mut self.s.touch, u32::MAX);
        let vertex = self.vm(v);
        vertex.deep = Deep::Running;
        vertex.depth = depth;
        // Of what is undecided each alternative is computed as a whole.
        let alts: Vec<Vid> = self
            .v(v)
            .extra
            .as_ref()
            .map(|x| {
                x.alts
                    .iter()
                    .filter_map(|a| match a.val {
                        Val::Node(w) => Some(w),
                        _ => None,
                    })
                    .collect()
            })
            .unwrap_or_default();
        // What is common to alternatives is looked at in each of them: only there it is known which
        // fields are allowed.
        let open = self.has_disjs(v) && self.v(v).incomplete.is_some();
        let common = alts.is_empty() && !open;
        for w in alts {
            self.deep(w);
        }
        // What is said about a struct that fails because the user says so still counts where it is a conflict.
        let goes_on = self.v(v).error.is_none_or(|e| self.class(e) == Class::User);
        if common && goes_on {
            self.deep_arcs(v);
            let vertex = self.v(v);
            if let (Some(own), Some(below)) =
                (vertex.error, vertex.extra.as_ref().and_then(|x| x.child_error))
            {
                let counts = self.graver(Some(own), below);
                self.vm(v).error = Some(counts);
            }
        }
        // What rests on something unfinished further out is looked at again.
        let touched = self.s.touch;
        let done = self.v(v).phase == Phase::Settled && touched >= depth;
        self.vm(v).deep = if done { Deep::Done } else { Deep::No };
        if done && self.v(v).incomplete.is_some() {
            self.leave_pending(v);
        }
        self.s.touch = touch.min(if touched < depth { touched } else { u32::MAX });
        self.leave();
    }

    /// Whether a vertex is nothing but `close` of a literal that waits for something: then nothing is known of its
    /// fields, not even that they fail.
    pub(crate) fn is_closing_what_waits(&self, v: Vid) -> bool {
        let vertex = self.v(v);
        let &[Conj { src: Src::Expr(e), .. }] = vertex.conjs.as_slice() else { return false };
        vertex.incomplete.is_some()
            && matches!(self.ir.expr(e), Expr::Call(id)
                if matches!(self.ir.calls[id.idx()].callee, Callee::Core(Core::Close)))
    }

    /// The same for the fields, and what their errors mean for the vertex.
    fn deep_arcs(&mut self, v: Vid) {
        // A field that is not allowed fails before it is computed: what it contains does not
        // matter, unless it goes on without end.
        self.check_closed(v);
        let mut child: Option<ErrId> = None;
        let mut unfinished: Option<ErrId> = None;
        // By index: settling one field may add others.
        let mut i = 0;
        while let Some(&(label, w)) = self.v(v).arcs.get(i) {
            i += 1;
            // What a required field would be has to be possible, an optional one may not be.
            if label.is_let() || self.v(w).arc == ArcKind::Optional {
                continue;
            }
            if self.v(w).error.is_none() {
                self.settle(w);
                let leaf = self.vm(w);
                if leaf.is_leaf() {
                    leaf.deep = Deep::Done;
                    if let Some(e) = leaf.error {
                        child = Some(self.graver_below(child, e));
                    } else if let Some(e) = leaf.incomplete {
                        unfinished.get_or_insert(e);
                    }
                    continue;
                }
                let target = self.deref(w);
                let running = self.v(target).deep == Deep::Running;
                if running && target == w && self.v(w).depth >= self.s.min_unfinished_depth {
                    // Whatever led here from within this field leads into itself.
                    self.s.into_itself = true;
                } else if running && target != w {
                    self.contains_itself(w);
                } else {
                    self.deep(w);
                    if target != w && std::mem::take(&mut self.s.into_itself) {
                        self.contains_itself(w);
                    }
                }
            } else if !self.is_tried(v) {
                self.judge_denied(w);
            }
            if let Some(e) = self.final_error(w) {
                child = Some(self.graver_below(child, e));
            } else if let Some(e) = self.incomplete_error(w) {
                unfinished.get_or_insert(e);
            }
            if self.s.budget.crossed().is_some() {
                break;
            }
        }
        // The first in the order of the fields, so that the same program gives the same error.
        if let Some(e) = child
            && !self.is_closing_what_waits(v)
        {
            self.extra(v).child_error = Some(e);
        }
        if let Some(e) = unfinished {
            self.extra(v).child_incomplete = Some(e);
        }
    }

    /// A field that is not allowed but has no value says why it has none.
    #[cold]
    fn judge_denied(&mut self, w: Vid) {
        let Some(denied) = self.v(w).error else { return };
        if !self.is_denial(denied) {
            return;
        }
        self.vm(w).error = None;
        self.deep(w);
        if !self.has_no_value(w) {
            self.vm(w).error = Some(denied);
        }
    }

    /// Whether a field is known to fail, itself or below, or to wait for something itself. What it is a mere
    /// reference to does so there, unless that goes on without end.
    pub(super) fn has_no_value(&mut self, w: Vid) -> bool {
        let shared = matches!(self.v(w).forward, Forward::Share(_));
        match self.final_error(w) {
            Some(e) => !shared || self.class(e) == Class::StructuralCycle,
            None => {
                let w = self.deref(w);
                !shared && self.own_incomplete(w).is_some()
            }
        }
    }

    /// Whether a vertex is an alternative, or part of one: why that fails matters less than that it does.
    pub(super) fn is_tried(&self, mut v: Vid) -> bool {
        while !v.is_none() {
            let vertex = self.v(v);
            if vertex.extra.as_ref().is_some_and(|x| !x.choices.is_empty()) {
                return true;
            }
            v = vertex.parent;
        }
        false
    }

    /// Of the errors of two fields the first, but a conflict rather than a circle, and anything rather than that a
    /// field is not allowed: the reference does not ask about that in a struct that fails without it.
    fn graver_below(&self, first: Option<ErrId>, second: ErrId) -> ErrId {
        match first {
            Some(first) if self.is_denial(first) != self.is_denial(second) => {
                if self.is_denial(first) { second } else { first }
            }
            Some(first)
                if self.class(first) != Class::StructuralCycle
                    || !matches!(self.class(second), Class::Eval | Class::User) =>
            {
                first
            }
            _ => second,
        }
    }

    /// The fields that a comprehension names wait for it: what it would add to them is not known.
    fn leave_pending(&mut self, v: Vid) {
        let Some(extra) = &self.v(v).extra else { return };
        let ir = self.ir;
        let waiting: SmallVec<[(ErrId, ExprId); 2]> = extra
            .tasks
            .iter()
            .filter_map(|task| match (task.kind, task.state) {
                (TaskKind::Comp(id), TaskState::Failed(e))
                    if self.is_incomplete(e) && self.class(e) != Class::Cycle =>
                {
                    Some((e, ir.comps[id.idx()].body_expr))
                }
                _ => None,
            })
            .collect();
        for (e, body) in waiting {
            self.leave_fields_pending(v, body, e, 0);
        }
    }

    /// The same for the fields of a literal, but not those of comprehensions in it, of which nothing is known before it is
    /// there. A struct is not pending because one of its fields is.
    fn leave_fields_pending(&mut self, v: Vid, body: ExprId, e: ErrId, depth: u32) {
        const MOST: u32 = 64;
        let ir = self.ir;
        let Expr::Struct(id) = ir.expr(body) else { return };
        let tmpl = &ir.structs[id.idx()];
        for field in &tmpl.fields {
            let Some(w) = self.arc(v, field.label) else { continue };
            if field.label.is_let() || self.final_error(w).is_some() {
                continue;
            }
            let inner = match ir.expr(field.value) {
                Expr::Struct(id) if self.v(w).forward == Forward::No => {
                    Some(&ir.structs[id.idx()]).filter(|inner| !inner.fields.is_empty())
                }
                _ => None,
            };
            if let Some(inner) = inner
                && depth < MOST
            {
                self.leave_fields_pending(w, field.value, e, depth + 1);
                if inner.comps().is_empty() {
                    continue;
                }
            }
            // It stands for nothing and has no value until the comprehension has run.
            let vertex = self.vm(w);
            vertex.forward = Forward::No;
            vertex.phase = Phase::Settled;
            vertex.incomplete = Some(e);
        }
    }

    /// The structure contains itself through a shared reference.
    fn contains_itself(&mut self, w: Vid) {
        let e = self.err(Class::StructuralCycle, Msg::StructuralCycle, w);
        let vertex = self.vm(w);
        vertex.forward = Forward::No;
        vertex.phase = Phase::Settled;
        vertex.error = Some(e);
    }

    /// Computes everything below a vertex that is no part of the structure being computed: what a
    /// test or a function looks at.
    pub(crate) fn deep_aside(&mut self, v: Vid) {
        // Walks further out are no part of what is looked at: running into one of them is no circle
        // within it.
        let outer = std::mem::replace(&mut self.s.min_unfinished_depth, self.s.depth);
        let into_itself = std::mem::take(&mut self.s.into_itself);
        self.deep(v);
        self.s.min_unfinished_depth = outer;
        self.s.into_itself = into_itself;
    }

    /// The error that makes a vertex incomplete, its own or of a field.
    pub(crate) fn incomplete_error(&mut self, v: Vid) -> Option<ErrId> {
        let v = self.deref(v);
        let vertex = self.v(v);
        if vertex.atom.is_atom() {
            return self.own_incomplete(v);
        }
        vertex.incomplete.or_else(|| vertex.extra.as_ref().and_then(|x| x.child_incomplete))
    }

    /// The error that makes a vertex itself incomplete.
    pub(crate) fn own_incomplete(&self, v: Vid) -> Option<ErrId> {
        let vertex = self.v(v);
        // The circle of an alternative is broken by the atom that it chooses.
        let chosen =
            vertex.atom.is_atom() && vertex.extra.as_ref().is_some_and(|x| !x.choices.is_empty());
        vertex.incomplete.filter(|e| !chosen || self.class(*e) == Class::Incomplete)
    }

    /// The error that makes a vertex bottom, its own or of a field.
    pub(crate) fn final_error(&mut self, v: Vid) -> Option<ErrId> {
        if let Some(e) = self.v(v).error {
            return Some(e);
        }
        let v = self.deref(v);
        let vertex = self.v(v);
        vertex.error.or_else(|| vertex.extra.as_ref().and_then(|x| x.child_error))
    }
}
