//! What a reference gives a vertex: the vertex it leads to, shared or conjunct by conjunct.
//!
//! A vertex that is nothing but a reference shares its target and costs nothing. Where something else defines the vertex
//! too, each conjunct of the target becomes a conjunct of the vertex, in the environment it was written in. Such a conjunct
//! carries the references it came through, because a reference that is followed again may never end.
//!
//! # Worked examples: circles
//!
//! `a: b & {x: 1}, b: a & {y: 2}`. `a` follows `b`, whose conjuncts are the reference `a` and a literal. The reference leads
//! back to the vertex that is being defined: it adds nothing, and `a` is `{x: 1, y: 2}`.
//!
//! `a: {n: a}`. `a.n` follows `a`, which encloses it. All conjuncts of `a.n` lead in a circle, nothing else gives it structure:
//! a structural cycle. With `a: {n: a}, b: {n: {n: 1}}, c: a & b` the vertex `c.n` has structure of its own, and the
//! conjunct from `a`, marked as cyclic, is taken for as long as that lasts.
//!
//! `y: [string]: b: y, x: y, x: c: b: e: {}`. The pattern of `y` gives `x.c` the literal `{b: y}`, so `x.c.b` follows `y` once more.
//! A pattern applies to nothing unless somebody declares a field, so this is no cycle yet: the conjunct is marked as going
//! round again, and is free as long as `x` declares fields. Below the last of them it has one round left, in which the
//! pattern meets no field, and the structure ends.

use super::data::{
    AGAIN, ArcKind, CYCLIC, Conj, EMBED, EnvId, Forward, INHERITED, INLINE, Msg, OF_BODY, OF_DEF,
    OPTIONAL, PART, Phase, Refs, RefsId, Req, Src, TaskKind, TaskState, Vertex, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Callee, Core, Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;

impl Machine<'_> {
    /// Makes `w` part of `v`: by sharing if nothing else defines `v`, else by its conjuncts.
    pub(crate) fn follow(
        &mut self,
        v: Vid,
        mut conj: Conj,
        w: Vid,
        expr: Option<ExprId>,
        sole: bool,
    ) {
        // Circles are judged by the vertex that defines the target. The conjuncts are taken from
        // the one that was named.
        let own = w;
        let w = self.share_root(w);
        // `a: a` says nothing.
        if self.stands_for(w, v) {
            return;
        }
        // A reference to a vertex that encloses this one: the structure contains itself.
        let ancestor = self.is_ancestor(w, v);
        let mut cyclic = ancestor;
        let mut at = conj.refs;
        let mut followed = 0;
        // Of what is built inside of an expression only what is selected is computed: it ends unless
        // that leads to the same reference again.
        let inline = conj.flags & INLINE != 0;
        let built = ancestor && inline;
        let mut again = !(built && self.is_expression_within(w, v));
        // Of what an expression makes to select from only what is selected is computed: as it is named it may
        // contain itself.
        let selected = built && again;
        // What came through a pattern and goes round once more does so for as long as something else
        // gives the vertex content.
        let fed = || self.v(v).conjs.iter().any(|c| c.flags & (CYCLIC | AGAIN) == 0);
        let free = !ancestor && conj.flags & AGAIN != 0 && fed();
        // Has this reference been followed on the way here? At the same vertex it has nothing to
        // add; at another one it goes round.
        while let Some(expr) = expr
            && !free
            && !at.is_none()
            && (!cyclic || inline && !again)
        {
            let r = self.s.refs[at.idx()];
            if r.expr == expr && r.target == w {
                if r.node == v {
                    return;
                }
                cyclic = true;
                again = true;
            }
            at = r.next;
            followed += 1;
        }
        let _ = self.s.budget.steps(followed >> 3);
        let closes = expr.is_some_and(|e| self.is_def_path(e));
        let followed = (own, conj.close, conj.flags);
        // The same target twice, as through two references to one definition.
        if self.v(v).extra.as_ref().is_some_and(|x| x.followed.contains(&followed)) {
            return;
        }
        // Nothing else defines the vertex, and nothing depends on how it was reached: it stands for
        // the target, and no conjunct is copied.
        if sole
            && (!cyclic || selected)
            && conj.flags & (EMBED | CYCLIC) == 0
            && self.is_plain(conj.close)
            && !self.v(v).label.is_def()
            && self.v(v).arc == ArcKind::Member
            && self.v(w).label != Label::NONE
            && self
                .v(v)
                .extra
                .as_ref()
                .is_none_or(|x| x.choices.is_empty() && x.reqs.is_empty() && x.inputs.is_empty())
        {
            self.vm(v).forward = Forward::Share(w);
            return;
        }
        self.extra(v).followed.push(followed);
        // The one round more that a pattern has (see above).
        let renewed = cyclic && !ancestor && conj.flags & (OPTIONAL | AGAIN) == OPTIONAL;
        if renewed {
            conj.flags |= AGAIN;
            conj.refs = RefsId::NONE;
            cyclic = false;
        }
        if let Some(expr) = expr
            && !free
            && !renewed
        {
            let id = RefsId(u32::try_from(self.s.refs.len()).unwrap_or(u32::MAX - 1));
            self.s.refs.push(Refs { expr, target: w, node: v, next: conj.refs });
            conj.refs = id;
        }
        if closes {
            // `{#A}` is whatever `#A` is.
            if conj.flags & EMBED != 0 && self.is_any_of(w) {
                self.vm(v).maybe_any = true;
            }
            // From here on the fields have to come through this reference, at every depth.
            let id = self.new_close(conj.close, conj.is_embedding());
            self.add_req(v, Req { id, recursive: true });
            conj.close = id;
            conj.flags = conj.flags & !(EMBED | PART) | OF_DEF;
        } else if conj.is_embedding() {
            // All that the target is put together of is one embedding: its parts close each other as they do there.
            conj.close = self.new_literal(conj.close, true);
            conj.flags |= PART;
        }
        if cyclic {
            conj.flags |= CYCLIC;
            self.vm(v).any_cyclic = true;
            // What encloses a field is a struct or list.
            let scalar = !self.v(v).kind.intersects(Kind::STRUCT | Kind::LIST);
            if inline && again && scalar && self.v(v).label == Label::NONE {
                return;
            }
            if inline && again && scalar && ancestor {
                self.narrow(v, Kind::STRUCT | Kind::LIST, conj);
                return;
            }
            // A field that is nothing but what is selected has no structure that could go on without end.
            if inline && again && self.is_selection(w) {
                return;
            }
            if inline && again && !selected {
                // A struct has nothing yet for what it is said to be.
                let e = match self.selection(w) {
                    Some(label) => self.err(Class::Incomplete, Msg::Undefined(label, w), v),
                    None => self.err(Class::StructuralCycle, Msg::StructuralCycle, v),
                };
                self.fail(v, e);
            } else if self.v(v).noncyclic || inline && !selected {
                self.take_conjs(v, conj, own);
            } else {
                // Put aside until something else gives the vertex structure.
                self.extra(v).cyclic.push((conj, own));
            }
            return;
        }
        self.take_conjs(v, conj, own);
    }

    /// The conjuncts of `w` become conjuncts of `v`, in the environments they were written in.
    pub(super) fn take_conjs(&mut self, v: Vid, conj: Conj, w: Vid) {
        if let Err(e) = self.enter() {
            self.fail(v, e);
            return;
        }
        // What a field gets because an alternative of it is tried in the place of the struct that
        // embeds it does not come back to that struct.
        let tried = self.v(v).extra.as_ref().is_some_and(|x| !x.choices.is_empty());
        let below = tried && self.is_ancestor(v, w);
        let n = if below { self.v(w).conjs.len() } else { usize::MAX };
        // By index: following one conjunct may add others to `w`.
        let mut i = 0;
        while i < n
            && let Some(&wc) = self.v(w).conjs.get(i)
        {
            self.declare_as(v, wc);
            // How it was reached is inherited: what comes by a cyclic reference is cyclic.
            let flags = conj.flags | (wc.flags & (INHERITED | OF_BODY));
            self.process(v, Conj { src: wc.src, env: wc.env, flags, ..conj }, false);
            i += 1;
        }
        if !below && (self.is_distributed_into(w) || self.may_be_guarded(w)) {
            self.extra(w).followers.push((v, conj));
        }
        self.leave();
    }

    /// A field that takes over what a comprehension declares is declared by it, too: with
    /// `x: {if true {f: 1}}` there is an `e` for `e?: x.f & int`. One that is nothing but the reference is not.
    pub(super) fn declare_as(&mut self, v: Vid, wc: Conj) {
        if let Some(kind) = wc.declares() {
            let vertex = self.vm(v);
            vertex.arc = vertex.arc.min(kind);
        }
    }

    /// Finds out whether a field with a marker takes over what a comprehension declares.
    pub(super) fn judge_marker(&mut self, w: Vid) {
        let vertex = self.v(w);
        if vertex.arc == ArcKind::Member || vertex.phase != Phase::New || !self.ir.conditional {
            return;
        }
        let among = vertex.conjs.len() > 1;
        let exprs = vertex.conjs.iter().filter_map(|c| match c.src {
            Src::Expr(e) => Some(e),
            _ => None,
        });
        let (mut refers, mut waits) = (false, false);
        for e in exprs {
            refers |= self.refers_among(e, among, 0);
            waits |= self.refers_in_bodies(e);
        }
        if refers {
            self.expand(w);
        }
        if waits {
            self.settle(w);
        }
    }

    /// Whether an expression refers to a field and says something else, too, or something else is said next to it.
    fn refers_among(&self, e: ExprId, among: bool, depth: u32) -> bool {
        const MOST: u32 = 16;
        match self.ir.expr(e) {
            Expr::Ref { label, .. } | Expr::Sel(_, label) => {
                among && (self.ir.conditional_defs || !label.is_def())
            }
            Expr::Index(..) => among,
            Expr::And(a, b) if depth < MOST => {
                self.refers_among(a, true, depth + 1) || self.refers_among(b, true, depth + 1)
            }
            Expr::Call(id) if depth < MOST => {
                let call = &self.ir.calls[id.idx()];
                matches!(call.callee, Callee::Core(Core::Close))
                    && call.args.iter().any(|&arg| self.refers_among(arg, true, depth + 1))
            }
            Expr::Struct(id) if depth < MOST => {
                let embeds = self.ir.structs[id.idx()].embeds();
                embeds.iter().any(|&embed| self.refers_among(embed, true, depth + 1))
            }
            _ => false,
        }
    }

    /// Whether the comprehensions of a literal embed such an expression.
    fn refers_in_bodies(&self, e: ExprId) -> bool {
        let Expr::Struct(id) = self.ir.expr(e) else { return false };
        let comps = self.ir.structs[id.idx()].comps();
        comps.iter().any(|comp| self.refers_among(self.ir.comps[comp.idx()].body_expr, true, 0))
    }

    /// Whether something around a vertex is being expanded, so that it may get more conjuncts.
    fn is_distributed_into(&self, w: Vid) -> bool {
        let mut at = self.v(w).parent;
        while !at.is_none() {
            let outer = self.v(at);
            if outer.phase == Phase::Expanding {
                return true;
            }
            at = outer.parent;
        }
        false
    }

    /// Whether a comprehension that is at work, or waits, may add to a field or to one that it is in.
    fn may_be_guarded(&self, w: Vid) -> bool {
        let mut at = w;
        loop {
            let &Vertex { parent, label, .. } = self.v(at);
            if parent.is_none() {
                return false;
            }
            let open = self.v(parent).extra.iter().flat_map(|x| &x.tasks).any(|task| {
                let unfinished = match task.state {
                    TaskState::Running => true,
                    TaskState::Failed(e) => self.is_incomplete(e),
                    TaskState::Pending | TaskState::Done => false,
                };
                unfinished
                    && matches!(task.kind, TaskKind::Comp(_))
                    && self.concerns(task, Some(label))
            });
            if open {
                return true;
            }
            at = parent;
        }
    }

    /// Whether a vertex is made of selections from structs in expressions only, and is nothing yet.
    fn is_selection(&self, w: Vid) -> bool {
        let vertex = self.v(w);
        let nothing = vertex.arcs.is_empty()
            && !vertex.is_struct
            && !vertex.maybe_struct
            && !vertex.is_list
            && vertex.kind == Kind::TOP;
        nothing && vertex.conjs.iter().all(|c| self.selects(c))
    }

    /// What a vertex selects from a struct in an expression, if something else is said of it or not.
    fn selection(&self, w: Vid) -> Option<Label> {
        self.v(w).conjs.iter().find_map(|c| match c.src {
            Src::Expr(e) => self.selected_by(e, 0),
            _ => None,
        })
    }

    /// The same of an expression, or of an operand of a unification.
    fn selected_by(&self, e: ExprId, depth: u32) -> Option<Label> {
        const MOST: u32 = 16;
        match self.ir.expr(e) {
            Expr::AliasScope(x) if depth < MOST => self.selected_by(x, depth + 1),
            Expr::And(a, b) if depth < MOST => {
                self.selected_by(a, depth + 1).or_else(|| self.selected_by(b, depth + 1))
            }
            Expr::Sel(x, label) if matches!(self.ir.expr(x), Expr::And(..)) => Some(label),
            _ => None,
        }
    }

    /// Whether a conjunct is a selection from a struct in an expression.
    fn selects(&self, c: &Conj) -> bool {
        let Src::Expr(mut e) = c.src else { return false };
        while let Expr::AliasScope(x) = self.ir.expr(e) {
            e = x;
        }
        matches!(self.ir.expr(e), Expr::Sel(x, _) if matches!(self.ir.expr(x), Expr::And(..)))
    }

    /// Whether `v` is `w` or a candidate being evaluated in its place.
    fn stands_for(&self, w: Vid, v: Vid) -> bool {
        let mut at = w;
        loop {
            if at == v {
                return true;
            }
            match self.v(at).extra.as_ref().and_then(|x| x.active) {
                Some(c) => at = c,
                None => return false,
            }
        }
    }

    /// Whether `w` encloses `v`, itself or as what a candidate stands for.
    pub(super) fn is_ancestor(&mut self, w: Vid, v: Vid) -> bool {
        let mut at = self.v(v).parent;
        let mut height = 0;
        while !at.is_none() {
            height += 1;
            if self.stands_for(w, at) {
                return true;
            }
            at = self.v(at).parent;
        }
        // Deep nesting makes this walk long, and it is walked often.
        let _ = self.s.budget.steps(height >> 3);
        false
    }

    /// Whether an expression that has a struct of its own lies between `w` and what it encloses.
    fn is_expression_within(&self, w: Vid, mut v: Vid) -> bool {
        while !v.is_none() && !self.stands_for(w, v) {
            let vertex = self.v(v);
            if vertex.label == Label::NONE {
                return true;
            }
            v = vertex.parent;
        }
        false
    }

    /// Whether a reference goes to or through a definition, which closes what it defines.
    pub(crate) fn is_def_path(&self, mut e: ExprId) -> bool {
        loop {
            match self.ir.expr(e) {
                Expr::Ref { label, .. } => return label.is_def(),
                Expr::Sel(x, label) => {
                    if label.is_def() {
                        return true;
                    }
                    e = x;
                }
                Expr::Index(x, _) => e = x,
                _ => return false,
            }
        }
    }

    /// Whether a vertex is declared as `_`, or by references to what is.
    fn is_any_of(&mut self, w: Vid) -> bool {
        let top = |c: &Conj| matches!(c.src, Src::Expr(e) if self.ir.is_any(e));
        if self.v(w).conjs.iter().all(top) {
            return true;
        }
        let names = |c: &Conj| match c.src {
            Src::Expr(e) => {
                matches!(self.ir.expr(e), Expr::Ref { .. } | Expr::Sel(..) | Expr::Index(..))
            }
            _ => false,
        };
        if !self.v(w).conjs.iter().all(names) {
            return false;
        }
        self.expand(w);
        let vertex = self.v(self.share_root(w));
        vertex.phase >= Phase::Expanded
            && vertex.kind == Kind::TOP
            && vertex.arcs.is_empty()
            && vertex.checks.is_empty()
            && !vertex.maybe_struct
            && vertex
                .extra
                .as_ref()
                .is_none_or(|x| x.tasks.is_empty() && x.disjs.is_empty() && x.cyclic.is_empty())
    }

    /// A vertex for a struct or the like in the middle of an expression.
    pub(crate) fn inline(&mut self, e: ExprId, env: EnvId) -> Vid {
        let mut conj = Conj::new(Src::Expr(e), env);
        conj.flags = INLINE;
        self.anon(conj)
    }

    /// A vertex for a value that is no field.
    pub(crate) fn anon(&mut self, conj: Conj) -> Vid {
        let parent =
            if conj.env.is_none() { Vid::NONE } else { self.s.envs[conj.env.idx()].vertex };
        let v = self.new_vertex(parent, Label::NONE);
        let refs = if conj.refs.is_none() { self.s.cur_refs } else { conj.refs };
        self.vm(v).conjs.push(Conj { refs, ..conj });
        v
    }
}
