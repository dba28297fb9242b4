//! Distributing conjuncts over a vertex and its fields, and settling it.
//!
//! To expand a vertex is to hand out what its conjuncts say: fields get conjuncts of their own,
//! references bring those of their target, scalars narrow the vertex itself. To settle it is to run
//! what was put aside and to judge the result.
//!
//! # A worked example
//!
//! ```cue
//! a: {x: 1} & b & {x: int, y: x}
//! b: y: 1
//! ```
//!
//! `a` has one conjunct, an expression.
//!
//! 1. `&` is no computation. Both operands are put on a stack, and each becomes a conjunct of `a`.
//! 2. `{x: 1}` makes a frame for `a` and the arc `x` with the conjunct `1`.
//! 3. `b` is found by its frame. Since `a` has other conjuncts it cannot share `b`: the literal of
//!    `b` becomes a conjunct of `a`, in the frame that `b` was written in, and makes the arc `y`
//!    with `1`.
//! 4. `{x: int, y: x}` adds `int` to `x`, and the reference `x` to `y`.
//!
//! Nothing has been computed. A demand for `a.y` expands `y`: the scalar `1` comes first, then the
//! reference leads to `a.x`, whose conjuncts `1` and `int` join those of `y`. All agree, and `y` is
//! `1`.

use super::data::{
    ArcKind, CYCLIC, CloseId, Conj, Data, Deep, EMBED, ErrId, Forward, INHERITED, INLINE, LATE,
    Mark, Msg, OF_BODY, Occurrence, Opening, PART, Phase, Req, Src, Task, TaskKind, TaskState, Val,
    Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Callee, CompTmpl, Core, Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use cue_syntax::ast::UnaryOp;
use smallvec::SmallVec;

impl Machine<'_> {
    /// The vertex that stands for `v`: follows shared references, chosen alternatives and
    /// candidates under evaluation.
    pub(crate) fn deref(&mut self, mut v: Vid) -> Vid {
        loop {
            let vertex = self.v(v);
            v = match vertex.forward {
                Forward::Share(w) | Forward::Chosen(w) => w,
                Forward::No => match vertex.extra.as_ref().and_then(|x| x.active) {
                    Some(c) => {
                        // Whoever sees a candidate in place of its vertex has seen something
                        // unfinished.
                        let depth = vertex.depth;
                        self.s.touch = self.s.touch.min(depth);
                        let tried = self.v(c);
                        let scalar = tried.arcs.is_empty()
                            && !tried.is_struct
                            && !tried.is_list
                            && !tried.maybe_struct;
                        // Nothing stands inside of a scalar: who asks for it, asks for the
                        // disjunction, which is open.
                        if scalar {
                            return v;
                        }
                        c
                    }
                    None => return v,
                },
            };
        }
    }

    /// Follows shared references only: the vertex whose conjuncts define `v`.
    pub(super) fn share_root(&self, mut v: Vid) -> Vid {
        while let Forward::Share(w) = self.v(v).forward {
            v = w;
        }
        v
    }

    /// Adds a conjunct, also to a vertex that has been computed already.
    pub(crate) fn add_conj(&mut self, v: Vid, conj: Conj) {
        // Looking for a duplicate is work, too; a crossed limit is noticed at the next step.
        let _ = self.s.budget.steps(self.v(v).conjs.len() as u64 >> 3);
        // Unification is idempotent: the same expression in the same frame adds nothing.
        let vertex = self.vm(v);
        if vertex
            .conjs
            .iter()
            .any(|c| c.src == conj.src && c.env == conj.env && c.close == conj.close)
        {
            return;
        }
        if vertex.conjs.len() >= 2 {
            // They leave the vertex and grow by doubling.
            let _ = self.s.budget.bytes(size_of::<Conj>() as u64 * 2);
        }
        let vertex = self.vm(v);
        vertex.conjs.push(conj);
        self.add_to(v, conj);
        if self.v(v).extra.as_ref().is_some_and(|x| !x.followers.is_empty()) {
            self.hand_on(v, conj);
        }
    }

    /// What a new conjunct means for what has been computed. Before and while the vertex is expanded:
    /// nothing, since expanding reaches it. A vertex that stands for another has something of its own now
    /// and begins again. Else this conjunct alone is distributed, and the value is settled again.
    fn add_to(&mut self, v: Vid, conj: Conj) {
        let vertex = self.vm(v);
        match vertex.phase {
            Phase::New | Phase::Expanding => {}
            _ if vertex.forward != Forward::No => self.reset(v),
            phase => {
                if phase == Phase::Settled {
                    vertex.phase = Phase::Expanded;
                }
                vertex.deep = Deep::No;
                vertex.incomplete = None;
                // They were judged without the new conjunct.
                if let Some(extra) = &mut vertex.extra {
                    extra.alts.clear();
                }
                self.inherit_reqs(v);
                self.process(v, conj, false);
            }
        }
    }

    /// Hands a conjunct on to those who took over the others.
    #[cold]
    fn hand_on(&mut self, w: Vid, wc: Conj) {
        let mut i = 0;
        while let Some(&(v, conj)) = self.v(w).extra.as_ref().and_then(|x| x.followers.get(i)) {
            i += 1;
            self.declare_as(v, wc);
            let flags = conj.flags | (wc.flags & (INHERITED | OF_BODY));
            let conj = Conj { src: wc.src, env: wc.env, flags, ..conj };
            match self.v(v).phase {
                Phase::Expanding => self.process(v, conj, false),
                _ => self.add_to(v, conj),
            }
        }
    }

    /// Forgets everything computed about a vertex but its conjuncts.
    pub(super) fn reset(&mut self, v: Vid) {
        let vertex = self.vm(v);
        vertex.phase = Phase::New;
        vertex.deep = Deep::No;
        vertex.forward = Forward::No;
        vertex.kind = Kind::TOP;
        vertex.is_struct = false;
        vertex.maybe_struct = false;
        vertex.maybe_any = false;
        vertex.says_open = false;
        vertex.of_def = false;
        vertex.is_list = false;
        vertex.list_closed = false;
        vertex.noncyclic = false;
        vertex.any_cyclic = false;
        vertex.stale = false;
        vertex.list_len = 0;
        vertex.arcs.clear();
        vertex.atom = Val::Top;
        vertex.checks.clear();
        vertex.error = None;
        vertex.incomplete = None;
        vertex.witness = None;
        // Which alternatives a candidate stands for, and what is injected below it, belong to the
        // vertex and not to its computation.
        if let Some(extra) = &mut vertex.extra {
            let choices = std::mem::take(&mut extra.choices);
            let inputs = std::mem::take(&mut extra.inputs);
            let followers = std::mem::take(&mut extra.followers);
            let (opened, judged) = (extra.opened, extra.judged);
            extra.clear();
            extra.followers = followers;
            extra.choices = choices;
            extra.inputs = inputs;
            extra.opened = opened;
            extra.judged = judged;
        }
    }

    /// Distributes the conjuncts of a vertex: fields get theirs, references are followed, work
    /// that needs values is queued.
    pub(crate) fn expand(&mut self, v: Vid) {
        if self.v(v).phase != Phase::New || self.settle_leaf(v) {
            return;
        }
        if let Err(e) = self.enter() {
            let vertex = self.vm(v);
            vertex.error = Some(e);
            vertex.phase = Phase::Settled;
            return;
        }
        // The depth says later whether an unfinished vertex lies further out or further in
        // (`State::touch`).
        let depth = self.s.depth;
        let vertex = self.vm(v);
        vertex.phase = Phase::Expanding;
        vertex.depth = depth;
        self.inherit_reqs(v);
        // A definition is closed at every depth, whoever refers to it.
        if self.v(v).label.is_def() {
            self.add_req(v, Req { id: CloseId::NONE, recursive: true });
        }
        // Scalars first: whoever comes back here while references are followed sees them.
        let early = match self.v(v).conjs.len() {
            1 => 0,
            n => n,
        };
        for i in 0..early {
            let conj = self.v(v).conjs[i];
            if self.is_scalar_conj(conj) {
                self.process(v, conj, false);
            }
        }
        // The list grows while it is walked: a conjunct may bring others to this vertex.
        let mut i = 0;
        while i < self.v(v).conjs.len() {
            let conj = self.v(v).conjs[i];
            let sole = self.v(v).conjs.len() == 1;
            if i >= early || !self.is_scalar_conj(conj) {
                self.process(v, conj, sole);
            }
            i += 1;
        }
        // Injected data for the fields directly below unify with what the program says there.
        let n = self.v(v).extra.as_ref().map_or(0, |x| x.inputs.len());
        for i in 0..n {
            let input = self.v(v).extra.as_ref().and_then(|x| x.inputs.get(i));
            if let Some((path, conj)) = input
                && let [label] = path.as_slice()
            {
                let (label, conj) = (*label, *conj);
                self.insert_arc(v, label, ArcKind::Member, conj);
            }
        }
        // Vertices expand within each other, so those of this one are the last.
        while self.s.late.last().is_some_and(|(of, _)| *of == v)
            && let Some(first) = self.s.late.iter().position(|(of, _)| *of == v)
        {
            let (_, conj) = self.s.late.remove(first);
            self.process(v, Conj { flags: conj.flags | LATE, ..conj }, false);
        }
        // Something else may have given the vertex structure by now.
        self.flush_cyclic(v);
        if self.v(v).phase == Phase::Expanding {
            self.vm(v).phase = Phase::Expanded;
        }
        self.leave();
    }

    /// Whether a struct embeds one of its own fields before all that defines the field is there: in
    /// `{#A: n: int, #A} & {#A: n: 3}` the second operand adds to `#A`, which the first embeds.
    fn comes_late(&mut self, v: Vid, c: Conj, w: Vid) -> bool {
        c.flags & (EMBED | LATE) == EMBED
            && self.v(v).phase == Phase::Expanding
            && self.is_ancestor(v, w)
    }

    /// Whether a struct embeds what is selected from one of its own fields: what fields there are may depend
    /// on operands that are yet to be distributed, as in `{n: *1 | 2, f: "\(n)": {}, f["2"]} & {n: 2}`.
    fn selects_late(&self, v: Vid, c: Conj, e: ExprId) -> bool {
        let expanding = self.v(v).phase == Phase::Expanding;
        if c.flags & (EMBED | LATE) != EMBED || !expanding {
            return false;
        }
        let mut base = e;
        while let Expr::Sel(x, _) | Expr::Index(x, _) = self.ir.expr(base) {
            base = x;
        }
        match self.ir.expr(base) {
            Expr::Ref { up, label } if base != e && !label.is_let() => {
                self.env_up(c.env, up).vertex == v
            }
            _ => false,
        }
    }

    /// A vertex that is one literal or one piece of data is settled at once: about half of all are.
    fn settle_leaf(&mut self, v: Vid) -> bool {
        let vertex = self.v(v);
        let &[conj] = vertex.conjs.as_slice() else { return false };
        let parent = vertex.parent;
        // A definition, and what has alternatives, requirements or injected data, takes the long
        // way.
        if vertex.extra.is_some() || vertex.label.is_def() || conj.flags & CYCLIC != 0 {
            return false;
        }
        let val = match conj.src {
            Src::Data(d) => match &self.s.data[d.idx()] {
                Data::Val(val) if val.is_atom() => val.clone(),
                _ => return false,
            },
            Src::Expr(e) => match self.ir.expr(e) {
                Expr::Kind(kind) => Val::Kind(kind),
                _ if self.ir.is_literal(e) => self.literal(e),
                _ => return false,
            },
            Src::Node(_) | Src::Val(_) => return false,
        };
        // A field of a closed struct has requirements to inherit.
        let closed =
            !parent.is_none() && self.v(parent).extra.as_ref().is_some_and(|x| !x.reqs.is_empty());
        // Without a budget the long way says so.
        if closed || self.step().is_err() {
            return false;
        }
        let kind = self.val_kind(&val);
        let vertex = self.vm(v);
        vertex.noncyclic = true;
        vertex.kind = kind;
        vertex.witness = Some(conj);
        if val.is_atom() {
            vertex.atom = val;
        }
        vertex.phase = Phase::Settled;
        true
    }

    /// Whether a conjunct is a scalar as it is written: it needs no other vertex.
    fn is_scalar_conj(&self, conj: Conj) -> bool {
        match conj.src {
            Src::Expr(e) => self.is_literal(e),
            Src::Data(d) => matches!(self.s.data[d.idx()], Data::Val(_)),
            Src::Val(_) => true,
            Src::Node(_) => false,
        }
    }

    /// Conjuncts reached in a circle count once something else gives the vertex structure.
    fn flush_cyclic(&mut self, v: Vid) {
        while self.v(v).noncyclic
            && let Some((conj, w)) = self.vm(v).extra.as_mut().and_then(|x| x.cyclic.pop())
        {
            self.take_conjs(v, conj, w);
        }
    }

    /// Distributes one conjunct. `sole` says that nothing else defines the vertex, so that it may
    /// share what a reference leads to.
    pub(crate) fn process(&mut self, v: Vid, conj: Conj, sole: bool) {
        if let Err(e) = self.enter() {
            self.fail(v, e);
            return;
        }
        self.process_all(v, conj, sole);
        self.leave();
    }

    /// `a & b & c` nests as deep as the input wants: a stack of its own takes the place of
    /// recursion.
    fn process_all(&mut self, v: Vid, conj: Conj, sole: bool) {
        let mut stack: SmallVec<[Conj; 4]> = SmallVec::new();
        stack.push(conj);
        let mut sole = sole;
        while let Some(c) = stack.pop() {
            // The last operand of `a & b` is not the only one.
            sole = sole && stack.is_empty();
            if let Err(e) = self.step() {
                self.fail(v, e);
                return;
            }
            match c.src {
                Src::Data(d) => self.add_data_conj(v, c, d),
                Src::Node(w) => self.follow(v, c, w, None, false),
                Src::Val(i) => {
                    let val = self.s.vals[i as usize].clone();
                    self.unify_val(v, val, c);
                }
                Src::Expr(e) => self.process_expr(v, c, e, sole, &mut stack),
            }
        }
    }

    /// What one expression gives the vertex: nothing is evaluated that needs the value of another
    /// vertex.
    fn process_expr(
        &mut self,
        v: Vid,
        c: Conj,
        e: ExprId,
        sole: bool,
        stack: &mut SmallVec<[Conj; 4]>,
    ) {
        let mut c = c;
        if c.flags & OF_BODY != 0
            && !matches!(self.ir.expr(e), Expr::Struct(_) | Expr::AliasScope(_))
        {
            c.flags &= !OF_BODY;
        }
        match self.ir.expr(e) {
            Expr::And(a, b) => {
                if c.flags & EMBED != 0 {
                    // `_` among the operands leaves open whether the vertex is a struct.
                    if self.ir.is_any(e) {
                        self.vm(v).maybe_any = true;
                    }
                    // The operands close each other as they would outside: in `{#A & {b: 1}}` the
                    // field `b` has to be one of `#A`. Only what stands outside of the embedding
                    // may add fields.
                    c.close = self.new_literal(c.close, c.is_embedding());
                    c.flags &= !(EMBED | PART);
                }
                // A scalar first: what leads back here then has nothing to add.
                let swap = c.flags & INLINE != 0 && self.is_literal(b) && !self.is_literal(a);
                let (a, b) = if swap { (b, a) } else { (a, b) };
                stack.push(c.with(Src::Expr(b), c.env));
                stack.push(c.with(Src::Expr(a), c.env));
            }
            Expr::Struct(id) => self.add_struct(v, c, id),
            Expr::List(id) => {
                self.note_literal(v, c);
                self.note_structure(v, c);
                // That it is a list is known already. How long it is, is known when the
                // comprehensions have run.
                if self.ir.lists[id.idx()].has_comp {
                    self.narrow(v, Kind::LIST, c);
                    self.push_task(v, TaskKind::List(id), c);
                } else {
                    self.add_list(v, c, id);
                }
            }
            Expr::Disj(_) => {
                // An embedded disjunction with `_` among its alternatives leaves open whether the
                // vertex is a struct.
                if c.flags & EMBED != 0 && self.ir.is_any(e) {
                    self.vm(v).maybe_any = true;
                }
                self.add_disj(v, c, None);
            }
            Expr::AliasScope(x) => {
                // A value alias (`X={...}`) denotes the whole vertex: a frame around the value
                // holds it.
                let env = self.new_env(c.env, v, Label::NONE);
                stack.push(c.with(Src::Expr(x), env));
            }
            Expr::Ref { .. }
            | Expr::Frame { .. }
            | Expr::Sel(..)
            | Expr::Index(..)
            | Expr::Package(_) => {
                if self.selects_late(v, c, e) {
                    self.s.late.push((v, c));
                    return;
                }
                // A struct that is built on the way inherits the references followed so far, so
                // that a circle through it is noticed.
                let outer = std::mem::replace(&mut self.s.cur_refs, c.refs);
                let in_list = c.flags & INLINE != 0 && self.v(v).label.is_int();
                let outer_list = std::mem::replace(&mut self.s.in_list, in_list);
                let found = self.resolve(e, c.env);
                self.s.in_list = outer_list;
                self.s.cur_refs = outer;
                match found {
                    Ok(w) if self.comes_late(v, c, w) => self.s.late.push((v, c)),
                    // One of several operands waits for what its target waits for; alone it shares it.
                    Ok(w) if !sole && self.pending(w).is_some() => {
                        self.push_task(v, TaskKind::Expr, c);
                    }
                    Ok(w) => self.follow(v, c, w, Some(e), sole),
                    // Not known yet: tried again when the vertex is settled.
                    Err(err) if self.is_incomplete(err) => self.push_task(v, TaskKind::Expr, c),
                    Err(err) => self.fail(v, err),
                }
            }
            Expr::Comp(id) => self.push_task(v, TaskKind::Comp(id), c),
            Expr::Top => {
                // `_` adds nothing, but leaves open whether the vertex is a struct. A circle goes round once more for it.
                self.vm(v).maybe_any = true;
                self.note_structure(v, c);
            }
            Expr::Bottom => {
                let err = self.err_at(Class::User, Msg::Bottom, v, &[e]);
                self.fail(v, err);
            }
            Expr::Null
            | Expr::Bool(_)
            | Expr::Int(_)
            | Expr::Num(_)
            | Expr::Str(_)
            | Expr::Bytes(_)
            | Expr::Kind(_) => {
                let val = self.literal(e);
                self.unify_val(v, val, c);
            }
            Expr::Bound(_, x) if self.ir.is_literal(x) => match self.value(e, c.env) {
                Ok(val) => self.unify_val(v, val, c),
                Err(err) => self.fail(v, err),
            },
            Expr::Call(id) => {
                let call = &self.ir.calls[id.idx()];
                // The argument is a literal, so nothing has to be computed first: it is distributed
                // as usual, under an id that closes.
                if let (Callee::Core(Core::Close), [arg]) = (call.callee, call.args.as_slice())
                    && self.is_literal_struct(*arg)
                {
                    stack.push(self.close_conj(v, c, *arg));
                } else {
                    self.push_task(v, TaskKind::Expr, c);
                }
            }
            // Operators, calls and interpolations need the values of other vertices.
            _ => self.push_task(v, TaskKind::Expr, c),
        }
    }

    /// Whether an expression is a struct literal, whatever else is known: `{_}` may be anything, and what
    /// is embedded or named by an expression has to be known first.
    fn is_literal_struct(&self, e: ExprId) -> bool {
        let Expr::Struct(id) = self.ir.expr(e) else { return false };
        let tmpl = &self.ir.structs[id.idx()];
        tmpl.embeds().is_empty() && tmpl.dynamics().is_empty()
    }

    /// The argument of `close` as a conjunct that closes.
    pub(crate) fn close_conj(&mut self, v: Vid, c: Conj, arg: ExprId) -> Conj {
        // `close` closes one level; a definition closes everything below, too.
        let id = self.new_close(c.close, c.is_embedding());
        self.add_req(v, Req { id, recursive: false });
        let flags = c.flags & INHERITED;
        // Only a struct can be closed.
        self.unify_val(v, Val::Kind(Kind::STRUCT), c);
        Conj { src: Src::Expr(arg), close: id, flags, ..c }
    }

    /// Notes that a conjunct allows any field, by its `...` or because it is a schema.
    pub(crate) fn open(&mut self, v: Vid, c: Conj, schema: bool) {
        // Where nothing closes, nobody asks what is open.
        if !c.close.is_none() || self.v(v).extra.as_ref().is_some_and(|x| !x.reqs.is_empty()) {
            self.extra(v).opens.push(Opening { id: c.close, schema });
        }
    }

    /// Queues work that needs the values of other vertices; settling runs it.
    pub(crate) fn push_task(&mut self, v: Vid, kind: TaskKind, conj: Conj) {
        self.extra(v).tasks.push(Task { kind, conj, state: TaskState::Pending });
    }

    /// A struct or list conjunct gives the vertex structure unless it came around in a circle.
    pub(crate) fn note_structure(&mut self, v: Vid, c: Conj) {
        if c.flags & CYCLIC == 0 {
            self.vm(v).noncyclic = true;
        }
    }

    /// A final error of the vertex itself; the first counts, a conflict beats what the user says, and both beat a
    /// circle, which says nothing where there are no fields that could go on without end.
    pub(crate) fn fail(&mut self, v: Vid, e: ErrId) {
        self.locate(e, v);
        let class = self.class(e);
        let old = self.v(v).error;
        // Incomplete is no failure, since more may be said yet. The first reason is kept.
        if class.is_incomplete() {
            self.vm(v).incomplete.get_or_insert(e);
        } else if old.is_none_or(|old| match self.class(old) {
            Class::User => class == Class::Eval,
            Class::StructuralCycle => matches!(class, Class::Eval | Class::User),
            _ => false,
        }) {
            self.vm(v).error = Some(e);
        }
    }

    /// Whether an error is `_|_` as it is written.
    pub(super) fn is_bottom(&self, e: ErrId) -> bool {
        matches!(self.s.errs[e.idx()].msg, Msg::Bottom)
    }

    /// Computes the vertex's own value.
    pub(crate) fn settle(&mut self, v: Vid) {
        let v = self.deref(v);
        if self.v(v).phase == Phase::Settled {
            return;
        }
        // Expanding may have made the vertex stand for another.
        self.expand(v);
        let v = self.deref(v);
        match self.v(v).phase {
            Phase::Settled => return,
            // It was reset while its conjuncts were distributed.
            Phase::New => return self.settle(v),
            // A circle: the demand is answered with what is known so far.
            Phase::Settling | Phase::Expanding => {
                self.s.touch = self.s.touch.min(self.v(v).depth);
                return;
            }
            Phase::Expanded if self.v(v).stale => {
                // What was computed last time rests on partial knowledge.
                self.reset(v);
                return self.settle(v);
            }
            Phase::Expanded => {}
        }
        if let Err(e) = self.enter() {
            self.fail(v, e);
            return;
        }
        // `touch` is counted for this vertex alone, and joined with the count of those around it at
        // the end.
        let depth = self.s.depth;
        let touch = std::mem::replace(&mut self.s.touch, u32::MAX);
        let vertex = self.vm(v);
        vertex.phase = Phase::Settling;
        vertex.depth = depth;
        vertex.incomplete = None;
        // With alternatives the tasks run in the candidates, once for each choice.
        if !self.has_disjs(v) {
            self.run_tasks(v, None);
        }
        // Tasks may have brought alternatives.
        if self.has_disjs(v) {
            self.resolve_disjs(v);
        } else {
            self.finish(v);
        }
        let touched = self.s.touch;
        let vertex = self.vm(v);
        // The result rests on an unfinished vertex further out: provisional. Errors and choices are
        // forgotten at the next demand. Fields and atoms may stay, since more knowledge never takes
        // them away.
        if touched < depth {
            vertex.phase = Phase::Expanded;
            vertex.stale = vertex.error.is_some()
                || vertex.incomplete.is_some()
                || vertex.forward != Forward::No
                || vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty());
        } else {
            vertex.phase = Phase::Settled;
        }
        // For the vertices around this one only what lies further out counts.
        self.s.touch = touch.min(if touched < depth { touched } else { u32::MAX });
        self.leave();
    }

    /// Whether a disjunction is yet to be resolved.
    pub(crate) fn has_disjs(&self, v: Vid) -> bool {
        self.v(v).extra.as_ref().is_some_and(|x| !x.disjs.is_empty())
    }

    /// The end of a vertex without disjunctions: what its conjuncts and tasks add up to.
    fn finish(&mut self, v: Vid) {
        self.flush_cyclic(v);
        // All conjuncts lead in a circle and nothing else gives structure: the value would have no
        // end.
        let vertex = self.v(v);
        if vertex.any_cyclic
            && !vertex.noncyclic
            && vertex.extra.as_ref().is_some_and(|x| !x.cyclic.is_empty())
        {
            let e = self.err(Class::StructuralCycle, Msg::StructuralCycle, v);
            self.fail(v, e);
            // Nothing is known of what is in it.
            let vertex = self.vm(v);
            vertex.arcs.clear();
            if let Some(extra) = &mut vertex.extra {
                extra.index = None;
            }
            return;
        }
        // What is unknown counts more than what waits for itself.
        let failed = vertex.extra.as_ref().and_then(|x| {
            x.tasks.iter().fold(x.changed, |first, t| match t.state {
                TaskState::Failed(e) => Some(self.graver(first, e)),
                _ => first,
            })
        });
        // `{x}` is whatever `x` turns out to be.
        let open_embedding = vertex.extra.as_ref().is_some_and(|x| {
            x.tasks.iter().any(|t| {
                matches!((t.kind, t.state), (TaskKind::Expr, TaskState::Failed(_)))
                    && t.conj.flags & EMBED != 0
            })
        });
        // A guard or loop that names fields is one of a struct, whether it adds them or not.
        let of_comps = |said: fn(&CompTmpl) -> bool| {
            vertex.extra.iter().flat_map(|x| &x.tasks).any(|task| match task.kind {
                TaskKind::Comp(id) => said(&self.ir.comps[id.idx()]),
                _ => false,
            })
        };
        let named = |comp: &CompTmpl| comp.labels.iter().any(|label| label.is_string());
        let names_fields = vertex.maybe_any && of_comps(named);
        // What is nothing but a constraint of any value is none of structs for what is embedded beside it.
        let constrains_any = vertex.kind == Kind::TOP
            && !vertex.checks.is_empty()
            && !of_comps(|comp| comp.open || comp.labels.iter().any(|label| label.is_string()));
        // What might have been a scalar in braces has nothing but fields: a struct.
        let vertex = self.vm(v);
        if vertex.maybe_struct
            && !open_embedding
            && !vertex.is_struct
            && !vertex.is_list
            && !vertex.atom.is_atom()
            && (!vertex.maybe_any || names_fields)
            && !constrains_any
            && (vertex.kind == Kind::TOP || vertex.kind == Kind::STRUCT)
        {
            vertex.is_struct = true;
            vertex.kind = Kind::STRUCT;
        }
        if let Some(e) = failed {
            if self.is_incomplete(e) {
                self.vm(v).incomplete.get_or_insert(e);
            } else {
                self.fail(v, e);
            }
        }
        // Bounds and validators come last: they judge the value as a whole.
        self.run_checks(v);
        if self.ir.conditional {
            let mut i = 0;
            while let Some(&(_, w)) = self.v(v).arcs.get(i) {
                i += 1;
                self.judge_marker(w);
            }
        }
    }

    /// Notes a disjunction among the conjuncts; in a candidate, takes the alternative that was
    /// chosen for it.
    pub(crate) fn add_disj(&mut self, v: Vid, conj: Conj, nodes: Option<std::sync::Arc<Vec<Vid>>>) {
        // One expression may come several times, in different frames. Its occurrences are counted,
        // and candidates count the same way, since they distribute the same conjuncts in the same
        // order.
        let mut nth = 0;
        let mut again = false;
        for (src, env) in self.v(v).extra.iter().flat_map(|x| &x.seen) {
            if *src == conj.src {
                if self.is_same_env(*env, conj.env) && nodes.is_none() {
                    // The same disjunction once more: the same choice.
                    again = true;
                    break;
                }
                nth += 1;
            }
        }
        let extra = self.extra(v);
        if !again {
            extra.seen.push((conj.src, conj.env));
        }
        let key = (conj.src, nth);
        let choice = extra.choices.iter().find(|(k, _)| *k == key).map(|(_, i)| *i);
        let occurrence = Occurrence { key, conj, nodes };
        match choice {
            Some(i) => {
                let (alt, mode) = self.alternative(&occurrence, i as usize);
                if !again {
                    let within = self.choice_around(v, conj, key);
                    self.extra(v).modes.push(Mark { key, mode, within });
                }
                // The fields of alternatives come after those that there are in any case.
                if self.v(v).phase == Phase::Expanding
                    && alt.flags & LATE == 0
                    && self.may_have_fields(alt)
                {
                    self.s.late.push((v, alt));
                } else {
                    self.process(v, alt, false);
                }
            }
            None if again => {}
            None => self.extra(v).disjs.push(occurrence),
        }
    }

    /// Whether an alternative is a struct literal or refers to something that may be one.
    fn may_have_fields(&self, alt: Conj) -> bool {
        match alt.src {
            Src::Expr(e) => matches!(
                self.ir.expr(e),
                Expr::Struct(_) | Expr::AliasScope(_) | Expr::Ref { .. } | Expr::Sel(..)
            ),
            _ => false,
        }
    }

    /// Whether an expression is a scalar or the name of a type.
    pub(crate) fn is_literal(&self, e: ExprId) -> bool {
        self.ir.is_literal(e) || matches!(self.ir.expr(e), Expr::Kind(_))
    }

    /// The value of a scalar literal or of the name of a type.
    pub(crate) fn literal(&self, e: ExprId) -> Val {
        match self.ir.expr(e) {
            Expr::Null => Val::Null,
            Expr::Bool(b) => Val::Bool(b),
            Expr::Int(i) => Val::Int(i),
            Expr::Num(id) => Val::Num(self.ir.nums[id.idx()].clone()),
            Expr::Str(id) => Val::Str(self.ir.texts[id.idx()].clone()),
            Expr::Bytes(id) => Val::Bytes(std::sync::Arc::clone(&self.ir.bytes[id.idx()])),
            Expr::Kind(k) => Val::Kind(k),
            _ => Val::Top,
        }
    }

    /// A bound such as `>5`.
    pub(crate) fn bound(op: UnaryOp, val: Val) -> Val {
        Val::Bound(op, std::sync::Arc::new(val))
    }
}
