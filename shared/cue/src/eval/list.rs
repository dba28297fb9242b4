//! Lists: unification by position, open ends, elements made by comprehensions.
//!
//! # A worked example
//!
//! `[1, ...int] & [_, 2, ...]`
//!
//! The first operand makes the element 0 and notes an open end: elements from 1 on are `int`. The
//! second has two elements. Both lists are open, so any length fits, and the length becomes 2. The
//! element 1 is inserted with `2`, and the open end adds `int` to it. The result is `[1, 2,
//! ...int]`.
//!
//! Unified with `[_]` besides, which is closed and shorter, it is an error: incompatible list
//! lengths (1 and 2).

use super::data::{ArcKind, Conj, ListRest, Msg, Src, Val, Vid};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ListId};
use crate::kind::Kind;
use crate::label::Label;

impl Machine<'_> {
    /// Unifies with a list literal whose length is known.
    pub(crate) fn add_list(&mut self, v: Vid, c: Conj, id: ListId) {
        let tmpl = &self.ir.lists[id.idx()];
        let elems: Vec<_> = tmpl.elems.iter().map(|e| c.field(Src::Expr(*e), c.env)).collect();
        let rest = self.open_end(v, c, id);
        self.unify_list(v, c, &elems, rest);
    }

    /// The open end of a list literal. `...` is `..._`, which tells only where something closes.
    fn open_end(&mut self, v: Vid, c: Conj, id: ListId) -> Option<Option<Conj>> {
        let of = self.ir.lists[id.idx()].ellipsis?;
        let closes = || self.v(v).extra.as_ref().is_some_and(|x| !x.reqs.is_empty());
        let src = match of {
            Some(e) => Src::Expr(e),
            None if closes() => self.new_val(Val::Top),
            None => return Some(None),
        };
        Some(Some(c.field(src, c.env)))
    }

    /// A list literal with comprehensions among its elements.
    pub(crate) fn run_list(&mut self, v: Vid, c: Conj, id: ListId) -> super::data::Res<()> {
        let tmpl = &self.ir.lists[id.idx()];
        let mut elems = Vec::with_capacity(tmpl.elems.len());
        for &e in &tmpl.elems {
            // Elements of a comprehension stand where it stands.
            let Expr::Comp(comp) = self.ir.expr(e) else {
                elems.push(c.field(Src::Expr(e), c.env));
                continue;
            };
            let body = self.ir.comps[comp.idx()].body_expr;
            for env in self.run_clauses(comp, c.env)? {
                elems.push(c.field(Src::Expr(body), env));
            }
            // A loop may make elements without end: memory is asked for as they come.
            if let Err(limit) = self.s.budget.room((elems.capacity() * size_of::<Conj>()) as u64) {
                return Err(self.limit(limit));
            }
            if elems.len() as u64 > self.s.budget.limits().list {
                return Err(self.limit(crate::limits::LimitError::List));
            }
        }
        let rest = self.open_end(v, c, id);
        self.unify_list(v, c, &elems, rest);
        Ok(())
    }

    /// Whether an error is that of two lists of different lengths.
    fn is_list_length(&self, e: super::ErrId) -> bool {
        matches!(self.s.errs[e.idx()].msg, Msg::ListLengths(..))
    }

    /// Unifies with a list; `rest` is the constraint of an open end.
    pub(crate) fn unify_list(
        &mut self,
        v: Vid,
        c: Conj,
        elems: &[Conj],
        rest: Option<Option<Conj>>,
    ) {
        let n = u32::try_from(elems.len()).unwrap_or(u32::MAX);
        let first = !self.v(v).is_list;
        self.narrow(v, Kind::LIST, c);
        let vertex = self.vm(v);
        vertex.is_list = true;
        if first {
            vertex.list_len = n;
            vertex.list_closed = rest.is_none();
        } else {
            let (len, closed) = (vertex.list_len, vertex.list_closed);
            // A closed list cannot grow, and as a closed operand it has to have all elements there
            // are.
            let fits = match (closed, rest.is_some()) {
                (true, true) => n <= len,
                (true, false) => n == len,
                (false, false) => n >= len,
                (false, true) => true,
            };
            if !fits {
                let (a, b) = (len.min(n), len.max(n));
                let at: Vec<_> = self.conj_expr(c).into_iter().collect();
                // One error for one list: further operands are its causes.
                let e = self.err_at(Class::Eval, Msg::ListLengths(a, b), v, &at);
                match self.v(v).error.filter(|old| self.is_list_length(*old)) {
                    Some(first) => self.s.errs[first.idx()].causes.push(e),
                    None => self.fail(v, e),
                }
            }
            let vertex = self.vm(v);
            vertex.list_len = len.max(n);
            vertex.list_closed = closed || rest.is_none();
        }
        for (i, conj) in elems.iter().enumerate() {
            if self.is_over() {
                return;
            }
            self.insert_arc(v, Label::int(i), ArcKind::Member, *conj);
        }
        if let Some(conj) = rest {
            self.extra(v).rests.push(ListRest { from: n, conj });
            if let Some(conj) = conj {
                // Elements that other operands have brought lie in the open end of this one.
                let later: Vec<_> = self
                    .v(v)
                    .arcs
                    .iter()
                    .filter(|(l, _)| l.is_int() && l.index() >= n)
                    .map(|(_, w)| *w)
                    .collect();
                for w in later {
                    self.add_conj(w, conj);
                }
            }
        }
    }
}
