//! Equality of evaluated values.

use super::error::Res;
use super::state::{ArcKind, Machine, Val, Vid};
use crate::label::Label;

impl Machine<'_> {
    /// Elements of a list.
    pub(crate) fn list_elems(&mut self, v: Vid) -> Res<Vec<Vid>> {
        self.settle(v);
        let v = self.deref(v);
        if let Some(e) = self.v(v).error.or(self.v(v).incomplete) {
            return Err(e);
        }
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

    /// Whether two alternatives are the same value, closedness included.
    pub(crate) fn same_alternative(&mut self, a: Vid, b: Vid) -> bool {
        let (a, b) = (self.deref(a), self.deref(b));
        self.is_closed(a) == self.is_closed(b) && self.equal_nodes(a, b)
    }

    /// Structural equality of computed vertices.
    pub(crate) fn equal_nodes(&mut self, a: Vid, b: Vid) -> bool {
        let (a, b) = (self.chosen_or_self(a), self.chosen_or_self(b));
        if a == b {
            return true;
        }
        if self.enter().is_err() {
            return false;
        }
        let equal = self.equal_inner(a, b);
        self.leave();
        equal
    }

    fn chosen_or_self(&mut self, v: Vid) -> Vid {
        self.settle(v);
        self.deref(v)
    }

    fn equal_inner(&mut self, a: Vid, b: Vid) -> bool {
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
            || x.checks.len() != y.checks.len() && !x.atom.is_atom()
        {
            return false;
        }
        let atoms = x.atom.is_atom();
        if atoms && !self.same_atom(&x.atom, &y.atom) {
            return false;
        }
        // What an atom has been checked against makes no difference any more.
        if !atoms && !x.checks.iter().zip(&y.checks).all(|(p, q)| self.same_scalar(p, q)) {
            return false;
        }
        let patterns = |v: &super::state::Vertex| v.extra.as_ref().map_or(0, |x| x.patterns.len());
        if patterns(x) != patterns(y) {
            return false;
        }
        let alts =
            |v: &super::state::Vertex| v.extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
        let (p, q) = (alts(x), alts(y));
        if p.len() != q.len() {
            return false;
        }
        for (m, n) in p.iter().zip(&q) {
            let same = m.mode == n.mode
                && match (&m.val, &n.val) {
                    (Val::Node(m), Val::Node(n)) => self.equal_nodes(*m, *n),
                    (m, n) => self.same_scalar(m, n),
                };
            if !same {
                return false;
            }
        }
        let fields = |m: &Self, v: Vid| -> Vec<(Label, Vid)> {
            m.v(v).arcs.iter().filter(|(l, _)| !l.is_let()).copied().collect()
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
            if self.v(w).arc == ArcKind::Member && !self.equal_nodes(w, u) {
                return false;
            }
        }
        true
    }
}
