//! References: from an expression to the vertex it denotes.
//!
//! A reference is a base (a field of a frame, a package, a struct in the expression) and a chain of selections, walked in a loop.
//! Each selection demands as little of the struct it selects from as will do: that its fields are known, not their values. Only
//! what may declare the selected field is run for it.
//!
//! # A worked example
//!
//! ```cue
//! p: {image?: string, if tag != "" {full: "\(name):\(tag)"}}
//! x: p.full
//! y: p.image
//! z: p.nme
//! ```
//!
//! - `p.full`: `p` is expanded, and has no such field. Its guard may declare one, so it is run: it demands `tag`. If that is `"v1"`, the
//!   field is there. If it is `string`, the selection fails as incomplete with the error of the guard, and is tried again
//!   when more is known.
//! - `p.image` is declared, but optional: incomplete, because somebody may still give it.
//! - `p.nme` is neither there nor declared by a guard. It is incomplete as long as `p` is open, since a later conjunct may add it. In
//!   a closed struct it is a final error.
//!
//! A struct that stands in the expression, as in `(#F & {in: 1}).out`, is a vertex without a label that nobody else sees. It is open,
//! and of its fields only those are computed that `out` needs: an error in another field is no error of the selection.

use super::data::{
    ArcKind, Conj, Deep, EnvId, ErrId, INLINE, Mode, Msg, Phase, Res, Src, TaskKind, TaskState,
    Val, Vertex, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use smallvec::SmallVec;

/// A step from a vertex to one of its fields.
enum Step {
    /// `.name`
    Sel(Label),
    /// `[expression]`
    Index(ExprId),
}

impl Machine<'_> {
    /// The vertex an expression denotes. Chains of selectors are walked in a loop.
    pub(crate) fn resolve(&mut self, e: ExprId, env: EnvId) -> Res<Vid> {
        let mut steps: SmallVec<[(Step, ExprId); 6]> = SmallVec::new();
        let mut at = e;
        loop {
            match self.ir.expr(at) {
                Expr::Sel(x, label) => {
                    steps.push((Step::Sel(label), at));
                    at = x;
                }
                Expr::Index(x, i) => {
                    steps.push((Step::Index(i), at));
                    at = x;
                }
                _ => break,
            }
        }
        let mut w = self.base(at, env)?;
        if !steps.is_empty() {
            w = self.named_by_let(w);
        }
        let mut base = at;
        let inline = matches!(self.ir.expr(at), Expr::And(..) | Expr::Struct(_));
        for (i, (step, at)) in steps.into_iter().rev().enumerate() {
            self.step()?;
            // Which of a field's alternatives is selected from is said by what each allows.
            if inline && i > 0 && self.v(w).phase == Phase::New {
                self.extra(w).judged = true;
            }
            let label = match step {
                Step::Sel(label) => label,
                Step::Index(i) => self.index_label(w, i, env, base)?,
            };
            w = self.select_from(w, label, at, base, true)?;
            base = at;
        }
        Ok(w)
    }

    /// What a let is selected from that is nothing but the name of a struct around it: in `a: {b: 1, let
    /// X = a, c: X.b}` the let as a value would contain itself, but `X.b` is `a.b`.
    pub(super) fn named_by_let(&mut self, w: Vid) -> Vid {
        if !self.v(w).label.is_let() {
            return w;
        }
        self.expand(w);
        let vertex = self.v(w);
        let cyclic = vertex.extra.as_ref().map(|x| x.cyclic.as_slice()).unwrap_or_default();
        match (vertex.conjs.as_slice(), cyclic) {
            ([_], &[(_, target)]) if !vertex.noncyclic => target,
            _ => w,
        }
    }

    /// The vertex that a chain of selections begins with.
    fn base(&mut self, e: ExprId, env: EnvId) -> Res<Vid> {
        match self.ir.expr(e) {
            Expr::Ref { up, label } if label.is_let() => Ok(self.let_vertex(env, up, label)),
            Expr::Ref { up, label } => {
                // A field of an enclosing struct: how many frames further out it is was counted
                // when the program was compiled.
                let v = self.env_up(env, up).vertex;
                self.select(v, label, e, e)
            }
            Expr::Frame { up } => Ok(self.env_up(env, up).vertex),
            Expr::Package(id) => {
                let v = self.s.packages[id.idx()];
                if !v.is_none() {
                    return Ok(v);
                }
                // The files of a package are conjuncts of one vertex: together they are one struct.
                let v = self.new_vertex(Vid::NONE, Label::NONE);
                self.s.packages[id.idx()] = v;
                for &file in &self.ir.packages[id.idx()] {
                    self.vm(v).conjs.push(Conj::new(Src::Expr(file), EnvId::NONE));
                }
                Ok(v)
            }
            Expr::And(..) | Expr::Struct(_) => {
                // A struct in the expression: of its fields only those are computed that are
                // selected.
                self.enter()?;
                let result = self.inline_base(e, env);
                self.leave();
                result
            }
            _ => match self.value(e, env)? {
                // Any other value. A scalar has no fields, which the selection will say.
                Val::Node(w) => Ok(w),
                val => {
                    let src = self.new_val(val);
                    Ok(self.anon(Conj::new(src, env)))
                }
            },
        }
    }

    /// A struct built inside an expression, to be selected from: it is open, and its fields are
    /// looked at only as far as they are selected.
    fn inline_base(&mut self, e: ExprId, env: EnvId) -> Res<Vid> {
        let w = self.inline(e, env);
        let whole = self.is_whole(e, env);
        self.extra(w).opened = !whole;
        self.settle(w);
        if whole {
            self.check_whole(w)?;
        }
        // What is selected from a scalar that is not all that is known waits for the rest.
        let made = self.deref(w);
        // A contradiction is one whatever that will be.
        let contradicted = self.v(made).error.is_some();
        if let Some(e) = self.operand_unknown(made)
            && !contradicted
        {
            return Err(e);
        }
        if self.v(made).atom.is_atom()
            && !contradicted
            && let Some(e) = self.v(made).incomplete.filter(|e| self.class(*e) == Class::Incomplete)
        {
            return Err(e);
        }
        match self.node_val_at(w, e)? {
            Val::Node(w) => Ok(w),
            val => {
                let src = self.new_val(val);
                Ok(self.anon(Conj::new(src, env)))
            }
        }
    }

    /// An operand of a unification, or something embedded, a guard or the name of a field that is not known: what there
    /// is of the others is not the whole yet.
    fn operand_unknown(&self, made: Vid) -> Option<ErrId> {
        let vertex = self.v(made);
        if vertex.phase != Phase::Settled {
            return None;
        }
        vertex.extra.iter().flat_map(|x| &x.tasks).find_map(|task| {
            let TaskState::Failed(e) = task.state else { return None };
            let counts = match (task.kind, task.conj.src) {
                // Unless it declares no other fields than those that are there.
                (TaskKind::Comp(id), _) => {
                    let comp = &self.ir.comps[id.idx()];
                    let is_there = |label: &Label| self.arc(made, *label).is_some();
                    comp.open || comp.labels.is_empty() || !comp.labels.iter().all(is_there)
                }
                (TaskKind::Dynamic(..), _) => true,
                (TaskKind::Expr, Src::Expr(x)) => {
                    matches!(self.ir.expr(x), Expr::Ref { .. } | Expr::Sel(..) | Expr::Index(..))
                }
                _ => false,
            };
            (counts && self.class(e) == Class::Incomplete).then_some(e)
        })
    }

    /// A unification that is part of a struct or list which was itself built inside an expression counts as a
    /// whole.
    pub(crate) fn is_whole(&self, e: ExprId, env: EnvId) -> bool {
        matches!(self.ir.expr(e), Expr::And(..)) && (self.s.in_list || self.is_inside_inline(env))
    }

    /// An error in what counts as a whole is an error of the whole, and so is that it contains what it
    /// is part of.
    pub(crate) fn check_whole(&mut self, w: Vid) -> Res<()> {
        self.deep_aside(w);
        if let Some(e) = self.final_error(w) {
            return Err(e);
        }
        self.check_no_cycle(w)
    }

    /// What is built inside of an expression must not contain what the expression is part of.
    pub(crate) fn check_no_cycle(&mut self, w: Vid) -> Res<()> {
        let w = self.deref(w);
        for i in 0..self.v(w).arcs.len() {
            let Some(&(_, arc)) = self.v(w).arcs.get(i) else { break };
            let target = self.deref(arc);
            let unfinished = matches!(self.v(target).phase, Phase::Settling | Phase::Expanding);
            // Shared with something that is being computed: it would contain itself.
            if unfinished && target != arc && self.v(arc).arc == ArcKind::Member {
                return Err(self.err(Class::StructuralCycle, Msg::StructuralCycle, w));
            }
        }
        Ok(())
    }

    /// Whether the struct that a frame belongs to was built inside an expression.
    fn is_inside_inline(&self, env: EnvId) -> bool {
        let Some(frame) = self.s.envs.get(env.idx()) else { return false };
        !frame.vertex.is_none() && {
            let vertex = self.v(frame.vertex);
            vertex.label == Label::NONE
                && vertex.conjs.first().is_some_and(|conj| conj.flags & INLINE != 0)
        }
    }

    /// The label that an index selects: a name of a struct, or a position of a list.
    fn index_label(&mut self, w: Vid, i: ExprId, env: EnvId, base: ExprId) -> Res<Label> {
        let val = self.value(i, env)?;
        // The kind of an index that is not concrete, if it is certain.
        let open = match &val {
            Val::Node(w) => {
                let w = self.deref(*w);
                let vertex = self.v(w);
                (vertex.phase == Phase::Settled
                    && vertex.extra.as_ref().is_none_or(|x| x.alts.is_empty()))
                .then(|| self.node_kind(w))
            }
            val => (!val.is_atom()).then(|| self.val_kind(val)),
        };
        // What need not become a number or string is no index, whatever it becomes.
        if let Some(kind) = open
            && !kind.is_bottom()
            && kind.without(Kind::NUMBER) != Kind::BOTTOM
            && kind.without(Kind::STRING) != Kind::BOTTOM
        {
            let text = format!("invalid index {} (invalid type {kind})", self.ir.text(i));
            return Err(self.text_err(Class::Eval, text, i));
        }
        let val = self.make_concrete(val, i, "index")?;
        match val {
            Val::Str(name) => Ok(self.string_label(&name)),
            Val::Int(n) => {
                let Ok(n) = usize::try_from(n) else {
                    let text = format!("invalid index {n} (index must be non-negative)");
                    return Err(self.text_err(Class::Eval, text, base));
                };
                Ok(Label::int(n))
            }
            other => {
                let w = self.deref(w);
                let list = self.v(w).is_list;
                let text = if list {
                    format!(
                        "cannot use {} (type {}) as type int in list index",
                        self.val_text(&other),
                        self.val_kind(&other)
                    )
                } else {
                    format!(
                        "invalid index {} (invalid type {})",
                        self.val_text(&other),
                        self.val_kind(&other)
                    )
                };
                Err(self.text_err(Class::Eval, text, i))
            }
        }
    }

    /// A field of a vertex, as a reference sees it.
    pub(crate) fn select(&mut self, v: Vid, label: Label, at: ExprId, base: ExprId) -> Res<Vid> {
        self.select_from(v, label, at, base, false)
    }

    /// What is selected from an error is that error, whatever fields there are; what a struct that has
    /// failed says within itself still counts.
    fn select_from(
        &mut self,
        v: Vid,
        label: Label,
        at: ExprId,
        base: ExprId,
        outside: bool,
    ) -> Res<Vid> {
        let selected = self.lookup_in(v, label);
        let w = match &selected {
            Ok((w, _)) => *w,
            Err(_) => self.chosen(v),
        };
        // A selection `a.b` that stands outside of `a`: an `a` that has failed has no fields. From
        // within, its fields are still found.
        if outside
            && let Some(e) = self.v(v).error.or(self.v(w).error).or_else(|| self.failed_below(w))
        {
            return Err(e);
        }
        if outside
            && let Some(e) =
                self.pending(v).or_else(|| self.uncertain(w)).or_else(|| self.left_undecided(w))
        {
            return Err(e);
        }
        let (_, found) = selected?;
        // A required field has a value to refer to: what is asked of it. An optional one has not.
        if let Some(arc) = found
            && self.v(arc).arc != ArcKind::Optional
        {
            return Ok(arc);
        }
        // Whoever asks is part of a task that may define the field: nothing can be said before the
        // task has ended.
        if !self.is_no_struct(w, label)
            && let Some(by) = self.defined_by(w, label)
        {
            self.s.touch = self.s.touch.min(self.v(w).depth);
            let (msg, of) = match by {
                TaskKind::Comp(_) => (Msg::Pending(at), Vid::NONE),
                TaskKind::Dynamic(_) => (Msg::Naming(at), w),
                _ => (Msg::Cycle(at), Vid::NONE),
            };
            return Err(self.err_at(Class::Incomplete, msg, of, &[at]));
        }
        if found.is_some() {
            return Err(self.err_at(
                Class::Incomplete,
                Msg::CannotReference(label),
                Vid::NONE,
                &[at],
            ));
        }
        // It is not there yet, which may change.
        if self.v(w).phase < Phase::Settled {
            self.s.touch = self.s.touch.min(self.v(w).depth);
        }
        if let Some(e) = self.v(w).error {
            return Err(e);
        }
        Err(self.missing(v, w, label, at, base))
    }

    /// What a field waits for that a comprehension declares which could not be decided.
    pub(super) fn pending(&mut self, v: Vid) -> Option<ErrId> {
        if !self.s.undecided {
            return None;
        }
        let (e, of) = self.waits_for_guard(v)?;
        let vertex = self.v(of);
        if vertex.phase < Phase::Settled {
            self.s.touch = self.s.touch.min(vertex.depth);
        }
        Some(e)
    }

    /// The error of a guard that has added fields for as long as a required field is not given.
    fn uncertain(&mut self, w: Vid) -> Option<ErrId> {
        if !self.s.any_not_given {
            return None;
        }
        let tested = self.v(w).extra.iter().flat_map(|x| &x.tasks).find_map(|task| {
            let TaskState::Failed(e) = task.state else { return None };
            match self.s.errs[e.idx()].msg {
                Msg::Enclosing(test) => Some(test),
                _ => None,
            }
        })?;
        Some(self.err_at(Class::Cycle, Msg::Cycle(tested), w, &[tested]))
    }

    /// The error of a field, where it is known that one has failed: a struct that comes later in the order
    /// of evaluation is not asked about all of its fields.
    pub(super) fn failed_below(&self, w: Vid) -> Option<ErrId> {
        let vertex = self.v(self.share_root(w));
        // Of a struct in an expression only what is selected counts.
        let named = vertex.label != Label::NONE && vertex.deep == Deep::Done;
        vertex.extra.as_ref().filter(|_| named)?.child_error
    }

    /// What a struct waits for that has been gone through and left undecided: as of one that has failed, its
    /// fields are not found any more by what comes later in the order of evaluation.
    pub(super) fn left_undecided(&self, w: Vid) -> Option<ErrId> {
        let vertex = self.v(self.share_root(w));
        let left = vertex.label != Label::NONE && vertex.deep == Deep::Done && vertex.is_struct;
        vertex.incomplete.filter(|_| left)
    }

    /// What may define a field, if whoever asks for the field is part of it; of several what is not
    /// a comprehension.
    fn defined_by(&self, w: Vid, label: Label) -> Option<TaskKind> {
        let extra = self.v(w).extra.as_ref()?;
        let running = extra
            .tasks
            .iter()
            .filter(|task| task.state == TaskState::Running && self.concerns(task, Some(label)));
        running.map(|task| task.kind).min_by_key(|kind| matches!(kind, TaskKind::Comp(_)))
    }

    /// Whether something is known to be of another kind than what has regular fields or elements.
    fn is_no_struct(&self, w: Vid, label: Label) -> bool {
        let vertex = self.v(w);
        if label.is_int() {
            return !vertex.is_list
                && !vertex.is_struct
                && !vertex.kind.intersects(Kind::LIST | Kind::STRUCT);
        }
        label.is_string() && !vertex.is_struct && !vertex.kind.intersects(Kind::STRUCT)
    }

    /// Why a field cannot be selected. That is incomplete as long as anything may add it, and final
    /// if what it is selected from is of another kind, or closed and complete.
    fn missing(&mut self, named: Vid, w: Vid, label: Label, at: ExprId, base: ExprId) -> ErrId {
        let wanted = if label.is_int() { Kind::LIST } else { Kind::STRUCT };
        let vertex = self.v(w);
        let a_struct = label.is_string() && vertex.is_struct;
        // Definitions and hidden fields may stand beside any value.
        let plain = label.is_string() || label.is_int();
        if label.is_int()
            && vertex.is_struct
            && let Some(e) = self.waits_for(w)
        {
            return e;
        }
        // What it is may depend on a guard that is not decided.
        if plain && let Some(e) = self.undecided(w).or_else(|| self.undecided(named)) {
            return e;
        }
        // A guard that fails is an error of the struct; one that names the fields it would add is asked
        // for these only. Nor has what is computed the field, but it may have failed.
        if self.v(w).phase == Phase::Expanded {
            self.run_fieldless(w);
            if let Some(e) = self.v(w).error {
                return e;
            }
        }
        let mut kind = self.kind_as_tried(w).unwrap_or_else(|| self.node_kind(w));
        // What a guard at work declares fields of is a struct, and has no elements.
        if label.is_int() && self.is_becoming_struct(w) && self.adds_fields(w) {
            kind = Kind::STRUCT;
        }
        let vertex = self.v(w);
        // It is of another kind, whatever is still said of it.
        if plain && !(kind.intersects(wanted) || kind.is_bottom() || a_struct) {
            let want = if label.is_int() { "list" } else { "struct" };
            let shown = if vertex.atom.is_atom() {
                let atom = vertex.atom.clone();
                self.val_text(&atom)
            } else {
                self.ir.text(base).to_owned()
            };
            let text = format!("invalid operand {shown} (found {kind}, want {want})");
            return self.text_err(Class::Eval, text, at);
        }
        if label.is_int() {
            let vertex = self.v(w);
            if vertex.is_list {
                if vertex.list_closed {
                    let text = format!(
                        "index out of range [{}] with length {}",
                        label.index(),
                        vertex.list_len
                    );
                    return self.text_err(Class::Eval, text, at);
                }
                // An open list may still get the element.
                return self.err_at(Class::Incomplete, Msg::Undefined(label, w), Vid::NONE, &[at]);
            }
            // A validator of lists says nothing of elements.
            let known = vertex.phase == Phase::Settled && vertex.incomplete.is_none();
            if known && vertex.kind == Kind::LIST {
                let shown = self.ir.text(base);
                let text = format!("invalid operand {shown} (found list, want list or struct)");
                return self.text_err(Class::Eval, text, at);
            }
        }
        if let Some(e) = self.v(w).incomplete
            && !self.v(w).is_struct
        {
            return e;
        }
        // A closed struct can never get the field, unless something is yet to say what is in it, or
        // that it is a struct.
        let a_struct = self.v(w).is_struct;
        let expanding = self.v(w).phase == Phase::Expanding;
        // Within a definition it is known what its guards declare.
        let within =
            !self.s.at.is_none() && self.v(w).label.is_def() && self.is_ancestor(w, self.s.at);
        let unfinished = expanding
            || self.may_be_added_to(w)
            || self.v(w).extra.as_ref().is_some_and(|x| {
                x.tasks.iter().any(|task| match task.state {
                    TaskState::Pending | TaskState::Running => true,
                    TaskState::Failed(_) if within && !self.concerns(task, Some(label)) => false,
                    TaskState::Failed(e) => self.is_incomplete(e),
                    TaskState::Done => false,
                })
            });
        let settled = self.v(w).phase == Phase::Settled;
        let closed = !unfinished
            && a_struct
            && label.is_string()
            && (self.is_closed(w) || settled && self.is_complete(w))
            && !self.pattern_may_allow(w, label);
        let class = if closed { Class::Eval } else { Class::Incomplete };
        self.err_at(class, Msg::Undefined(label, w), Vid::NONE, &[at])
    }

    /// The kind of the alternative that is tried in the place of a vertex.
    fn kind_as_tried(&self, w: Vid) -> Option<Kind> {
        let tried = self.v(w).extra.as_ref()?.active?;
        Some(self.v(tried).kind)
    }

    /// What a struct cannot be put together without.
    fn waits_for(&mut self, w: Vid) -> Option<ErrId> {
        if self.v(w).phase == Phase::Expanded {
            self.run_tasks(w, None);
        }
        let vertex = self.v(w);
        let tasks = vertex.extra.iter().flat_map(|x| &x.tasks);
        let of_task = tasks.filter_map(|task| match task.state {
            TaskState::Failed(e) => Some(e),
            _ => None,
        });
        vertex.incomplete.into_iter().chain(of_task).find(|e| self.is_incomplete(*e))
    }

    /// Whether something at work or waiting may declare more of a field, or of one that it is in.
    fn may_be_added_to(&self, w: Vid) -> bool {
        let mut at = w;
        loop {
            let &Vertex { parent, label, .. } = self.v(at);
            if parent.is_none() || label == Label::NONE {
                return false;
            }
            // Not all that is said of it has been distributed.
            if self.v(parent).phase == Phase::Expanding {
                return true;
            }
            let open = self.v(parent).extra.iter().flat_map(|x| &x.tasks).any(|task| {
                match task.state {
                    TaskState::Running => self.concerns(task, Some(label)),
                    // What a guard that is undecided would embed adds no field that it does not name.
                    TaskState::Failed(e) => match task.kind {
                        TaskKind::Comp(id) => {
                            let named = &self.ir.comps[id.idx()].labels;
                            self.is_incomplete(e) && named.binary_search(&label).is_ok()
                        }
                        _ => self.is_incomplete(e) && self.concerns(task, Some(label)),
                    },
                    TaskState::Pending | TaskState::Done => false,
                }
            });
            if open {
                return true;
            }
            at = parent;
        }
    }

    /// What a comprehension waits for that declares more of a field, or of one that it is in.
    fn undecided(&self, w: Vid) -> Option<ErrId> {
        let mut at = w;
        loop {
            let &Vertex { parent, label, .. } = self.v(at);
            if parent.is_none() || label == Label::NONE {
                return None;
            }
            let waiting = self.v(parent).extra.iter().flat_map(|x| &x.tasks).find_map(|task| {
                let TaskKind::Comp(id) = task.kind else { return None };
                let TaskState::Failed(e) = task.state else { return None };
                let named = self.ir.comps[id.idx()].labels.binary_search(&label).is_ok();
                (named && self.class(e) == Class::Incomplete).then_some(e)
            });
            if waiting.is_some() {
                return waiting;
            }
            at = parent;
        }
    }

    /// Whether a pattern may allow a field that nobody declares: one that matches its name, or that is not
    /// known.
    fn pattern_may_allow(&mut self, w: Vid, label: Label) -> bool {
        let mut i = 0;
        while let Some(pattern) = self.v(w).extra.as_ref().and_then(|x| x.patterns.get(i)).copied()
        {
            i += 1;
            if self.matches_label(pattern.decl.pattern, pattern.env, label) != Ok(false) {
                return true;
            }
        }
        false
    }

    /// The vertex that stands for `v` once alternatives are chosen and defaults taken.
    pub(crate) fn chosen(&mut self, v: Vid) -> Vid {
        let mut v = self.deref(v);
        while let Some(&Val::Node(c)) = self.default_alternative(v) {
            v = self.deref(c);
        }
        v
    }

    /// The default among the alternatives of a settled vertex, if it is unique.
    pub(crate) fn default_of(&self, v: Vid) -> Option<Val> {
        self.default_alternative(v).cloned()
    }

    /// See [`default_of`](Self::default_of).
    fn default_alternative(&self, v: Vid) -> Option<&Val> {
        let extra = self.v(v).extra.as_ref()?;
        let mut defaults = extra.alts.iter().filter(|a| a.mode == Mode::Default);
        let first = defaults.next()?;
        // Two defaults decide as little as none.
        if defaults.next().is_some() {
            return None;
        }
        Some(&first.val)
    }

    /// Finds a field, running what may define it.
    pub(crate) fn lookup(&mut self, v: Vid, label: Label) -> Res<Option<Vid>> {
        self.lookup_in(v, label).map(|(_, found)| found)
    }

    /// As [`lookup`](Self::lookup), with what stands for the vertex once alternatives are chosen.
    fn lookup_in(&mut self, v: Vid, label: Label) -> Res<(Vid, Option<Vid>)> {
        let mut v = self.deref(v);
        // Expanding may make the vertex stand for another, which has to be expanded in turn.
        loop {
            self.expand(v);
            let w = self.deref(v);
            if w == v {
                break;
            }
            v = w;
        }
        // Which fields there are depends on the alternative that is chosen. Without alternatives
        // only tasks run that may declare this field.
        if self.has_disjs(v) {
            self.settle(v);
        } else if self.v(v).phase < Phase::Settled {
            self.run_tasks(v, Some(label));
            // One of them brought a disjunction.
            if self.has_disjs(v) {
                self.settle(v);
            }
        }
        if self.s.budget.crossed().is_some() {
            return Err(self.limit(crate::limits::LimitError::Steps));
        }
        let w = self.chosen(v);
        if w != v && self.v(w).phase < Phase::Settled {
            return self.lookup_in(w, label);
        }
        // Of which alternative the field would be is undecided.
        if let Some(extra) = &self.v(w).extra
            && !extra.alts.is_empty()
        {
            // The default is a scalar, which has neither fields nor elements.
            if (label.is_string() || label.is_int())
                && let Some(atom) = self.default_of(w)
            {
                let kind = self.val_kind(&atom);
                let text = format!(
                    "invalid operand {} (found {kind}, want list or struct)",
                    self.val_text(&atom)
                );
                return Err(self.err(Class::Eval, Msg::Text(text), w));
            }
            return Err(self.err(Class::Incomplete, Msg::Unresolved, w));
        }
        let found = self.arc(w, label);
        if let Some(arc) = found {
            self.judge_marker(arc);
        }
        Ok((w, found))
    }
}
