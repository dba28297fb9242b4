//! Tasks: comprehensions, dynamic fields, computed conjuncts.
//!
//! # A worked example
//!
//! ```cue
//! x: {
//!     n: 2
//!     if n > 1 {big: true}
//!     for i, v in list {"k\(i)": v}
//!     list: [10, 20]
//! }
//! ```
//!
//! Expanding `x` makes arcs for `n` and `list` and queues two tasks: the guard and the loop. Settling `x` runs them in rounds.
//! The guard demands `n` settled, finds `2 > 1`, and adds the literal `{big: true}` as a conjunct of `x`, in an environment of
//! its own; the loop demands `list`, and adds the literal `{"k\(i)": v}` twice, with `i` and `v` bound in two environments. Each of
//! these has a dynamic field, which is a task again: the second round computes the names `k0` and `k1` and adds their arcs.
//!
//! Had `n` been declared by the loop, the guard would fail as incomplete in the first round, and run again in the second,
//! because the round before made progress. A demand for the field `n` alone runs only tasks that may define it.

use super::data::{
    ArcKind, BODY, Conj, EnvId, ErrId, Msg, PART, Phase, Res, Src, Task, TaskKind, TaskState, Val,
    Vid,
};
use super::state::{Assumed, Machine};
use crate::error::Class;
use crate::ir::{Clause, CompId, Expr, ExprId, Part};
use crate::kind::Kind;
use crate::label::{Label, LabelKind};
use smallvec::{SmallVec, smallvec};

/// What a literal says of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Anything.
    Field,
    /// Something of the field, or of what it is in, other than what fields there are.
    Whole,
    /// What fields there are in it.
    Below,
}

/// What is said of a loop over a required field that is not given.
pub(super) const NOT_GIVEN: &str = "required field missing";

/// What a loop goes through. Without a label: a required field before it is not given.
type Members = Vec<(Label, Vid)>;

impl Machine<'_> {
    /// Runs the tasks of a vertex in rounds until none makes progress. With a label, only those
    /// that may define that field or change the vertex as a whole.
    pub(crate) fn run_tasks(&mut self, v: Vid, label: Option<Label>) {
        let Some(extra) = &self.v(v).extra else { return };
        if extra.tasks.is_empty() {
            return;
        }
        // To look through them is work also where none is to be run.
        let many = extra.tasks.len() >> 4;
        if many > 0 && self.steps(many).is_err() {
            return;
        }
        loop {
            let mut progress = false;
            let mut failed = false;
            let mut i = 0;
            while let Some(task) = self.v(v).extra.as_ref().and_then(|x| x.tasks.get(i)).copied() {
                i += 1;
                // An incomplete task is tried again: the round before may have brought what it
                // waits for.
                let ready = match task.state {
                    TaskState::Pending => true,
                    TaskState::Failed(e) => self.is_incomplete(e),
                    TaskState::Running | TaskState::Done => false,
                };
                if !ready || !self.concerns(&task, label) {
                    continue;
                }
                self.run_task(v, i - 1, &task);
                match self.v(v).extra.as_ref().and_then(|x| x.tasks.get(i - 1)).map(|t| t.state) {
                    Some(TaskState::Done) => progress = true,
                    _ => failed = true,
                }
                if self.s.budget.crossed().is_some() {
                    return;
                }
            }
            // Without progress another round finds the same. Without failures nothing is left to
            // run.
            if failed && (progress || label.is_none() && self.name_one(v)) {
                continue;
            }
            return;
        }
    }

    /// Computes the first name that waits for what names there are: no other task can add one. False if no
    /// name waits for that.
    #[cold]
    fn name_one(&mut self, v: Vid) -> bool {
        let tasks = self.v(v).extra.iter().flat_map(|x| x.tasks.iter().enumerate());
        let waiting = tasks.filter(|(_, task)| match (task.kind, task.state) {
            (TaskKind::Dynamic(_), TaskState::Failed(e)) => {
                matches!(self.s.errs[e.idx()].msg, Msg::Naming(_))
            }
            _ => false,
        });
        for (i, task) in waiting.map(|(i, task)| (i, *task)).collect::<Vec<_>>() {
            let outer = std::mem::replace(&mut self.s.naming, v);
            self.run_task(v, i, &task);
            self.s.naming = outer;
            let state = self.v(v).extra.as_ref().and_then(|x| x.tasks.get(i)).map(|t| t.state);
            if state == Some(TaskState::Done) {
                return true;
            }
        }
        false
    }

    /// Runs what brings no fields: comprehensions that add nothing, and arithmetic.
    pub(super) fn run_fieldless(&mut self, v: Vid) {
        let mut i = 0;
        while let Some(task) = self.v(v).extra.as_ref().and_then(|x| x.tasks.get(i)).copied() {
            let fieldless = match (task.kind, task.conj.src) {
                (TaskKind::Comp(id), _) => self.ir.comps[id.idx()].labels.is_empty(),
                (TaskKind::Expr, Src::Expr(e)) => !self.ir.may_bring_fields(e),
                _ => false,
            };
            if fieldless && task.state == TaskState::Pending {
                self.run_task(v, i, &task);
            }
            i += 1;
        }
    }

    /// Whether a task may define a field; without a label, whether it may do anything. Running no
    /// more than that is why `{a: 1, if a > 0 {b: 2}}` is no circle: the guard demands `a`, which
    /// it cannot define.
    pub(crate) fn concerns(&self, task: &Task, label: Option<Label>) -> bool {
        let Some(label) = label else { return true };
        match (task.kind, task.conj.src) {
            (TaskKind::Comp(id), _) => {
                let comp = &self.ir.comps[id.idx()];
                comp.open || comp.labels.binary_search(&label).is_ok()
            }
            // The name of a dynamic field is known when it has been computed.
            (TaskKind::Dynamic(_), _) => label.is_string(),
            _ if label.is_int() => true,
            (TaskKind::Expr, Src::Expr(e)) => self.ir.may_bring_fields(e),
            (TaskKind::List(_), _) => false,
            _ => true,
        }
    }

    /// Runs one task and notes how it ended. A final error is an error of the vertex, an incomplete
    /// one only of the task.
    fn run_task(&mut self, v: Vid, i: usize, task: &Task) {
        if let Err(e) = self.enter() {
            self.fail(v, e);
            self.set_task(v, i, task, TaskState::Failed(e));
            return;
        }
        self.set_task(v, i, task, TaskState::Running);
        // Whoever comes back to this vertex while the task runs sees it unfinished.
        let outer = self.v(v).depth;
        if self.v(v).phase != Phase::Settling {
            self.vm(v).depth = self.s.depth;
        }
        // What the task builds inherits the references that led to it.
        let refs = std::mem::replace(&mut self.s.cur_refs, task.conj.refs);
        let at = std::mem::replace(&mut self.s.at, v);
        let in_list = std::mem::take(&mut self.s.in_list);
        let result = self.task(v, task);
        self.s.in_list = in_list;
        self.s.at = at;
        self.s.cur_refs = refs;
        self.vm(v).depth = outer;
        self.leave();
        let state = match result {
            Ok(()) => TaskState::Done,
            Err(e) => {
                self.locate(e, v);
                if !self.is_incomplete(e) {
                    self.fail(v, e);
                } else if matches!(task.kind, TaskKind::Comp(_)) {
                    self.s.undecided = true;
                } else if matches!(self.s.errs[e.idx()].msg, Msg::Enclosing(_)) {
                    self.fail_around(v, task, e);
                }
                TaskState::Failed(e)
            }
        };
        self.set_task(v, i, task, state);
    }

    /// A field that asks about a struct which encloses it is a circle of the struct that it is a field of.
    fn fail_around(&mut self, v: Vid, task: &Task, e: ErrId) {
        let parent = self.v(v).parent;
        if matches!(task.kind, TaskKind::Expr) && !parent.is_none() {
            self.vm(parent).incomplete.get_or_insert(e);
        }
    }

    /// A task that was forgotten while it ran, because its vertex begins anew, has no state.
    fn set_task(&mut self, v: Vid, i: usize, task: &Task, state: TaskState) {
        if let Some(extra) = &mut self.vm(v).extra
            && let Some(there) = extra.tasks.get_mut(i)
            && there.conj.src == task.conj.src
            && there.conj.env == task.conj.env
        {
            there.state = state;
        }
    }

    /// What a task adds to its vertex.
    fn task(&mut self, v: Vid, task: &Task) -> Res<()> {
        let conj = task.conj;
        match task.kind {
            TaskKind::Expr => self.expr_task(v, conj),
            TaskKind::Comp(id) => {
                let body = self.ir.comps[id.idx()].body_expr;
                // Tests in the clauses note what they take for absent; each comprehension has a
                // note of its own.
                let outer = std::mem::take(&mut self.s.assumed);
                let outer_not_given = std::mem::take(&mut self.s.not_given);
                let envs = self.run_clauses(id, conj.env);
                let not_given = std::mem::replace(&mut self.s.not_given, outer_not_given);
                let assumed = std::mem::replace(&mut self.s.assumed, outer);
                // A guard that waits for itself is a circle, not something that is still unknown.
                let envs = envs.map_err(|e| self.asked_of_a_circle(v, id, conj.env, e))?;
                // A guard without loops has one binding, the same each time it is tried.
                let guard = envs.as_slice() == [conj.env];
                let mut asked = None;
                if let Some(assumed) = assumed {
                    // What a loop goes through has no more fields than it has seen; one that is declared with a marker
                    // is none of them yet.
                    let mut clauses = self.ir.comps[id.idx()].clauses.iter();
                    let at = assumed.at;
                    let loops = clauses.any(
                        |clause| matches!(clause, Clause::For { source, .. } if *source == at),
                    );
                    let known = if loops { ArcKind::Optional } else { ArcKind::Member };
                    let kept = self.keep_to_what_was_seen(v, id, &envs, assumed.at, known);
                    let declares = match kept {
                        Ok(()) => self.embeds_in_body(id),
                        Err(_) => self.declares_step(id, assumed.at),
                    };
                    asked = assumed.asked.filter(|_| declares);
                    if asked.is_none() {
                        kept?;
                    }
                }
                // For each binding the body is a conjunct of the struct, as if it were written
                // there.
                if not_given.is_none() || guard {
                    let conj = Conj { flags: conj.flags | BODY, ..conj };
                    // Several bindings stand beside each other, and all of them beside what the loop is in.
                    let loops =
                        (envs.len() > 1).then(|| self.new_literal(conj.close, conj.is_embedding()));
                    for env in envs {
                        let mut conj = conj.with(Src::Expr(body), env);
                        if let Some(loops) = loops {
                            conj.close = self.new_binding(loops);
                            conj.flags |= PART;
                        }
                        self.process(v, conj, false);
                    }
                }
                // What is tested in a loop is not asked again.
                if let Some((test, env)) = asked
                    && env == conj.env
                {
                    self.ask_again(v, test, env)?;
                }
                not_given.map_or(Ok(()), Err)
            }
            TaskKind::List(id) => self.run_list(v, conj, id),
            TaskKind::Dynamic(decl) => {
                // A bound is no label, whatever it bounds.
                if matches!(self.ir.expr(decl.label), Expr::Bound(..)) {
                    let text = "key value of dynamic field must be concrete";
                    return Err(self.text_err(Class::Incomplete, text, decl.label));
                }
                let outer = std::mem::take(&mut self.s.assumed);
                // What a name is put together of is taken as it has been said by then; a name that is nothing
                // but a reference has to be known.
                let made = matches!(self.ir.expr(decl.label), Expr::Interp(..) | Expr::Binary(..));
                let named = if made { v } else { Vid::NONE };
                let outer_named = std::mem::replace(&mut self.s.named, named);
                let val = self.concrete(decl.label, conj.env, "dynamic field");
                self.s.named = outer_named;
                let assumed = std::mem::replace(&mut self.s.assumed, outer);
                let val = val?;
                let Val::Str(name) = val else {
                    let text =
                        format!("invalid label {}: label must be a string", self.val_text(&val));
                    return Err(self.text_err(Class::Eval, text, decl.label));
                };
                let label = self.string_label(&name);
                // A name must not be given to what it has seen to be absent.
                if let Some(Assumed { at: test, .. }) = assumed
                    && match self.ir.expr(test) {
                        Expr::Ref { label: tested, .. } | Expr::Sel(_, tested) => tested == label,
                        _ => true,
                    }
                {
                    return Err(self.err_at(
                        Class::Incomplete,
                        Msg::Cycle(test),
                        Vid::NONE,
                        &[test],
                    ));
                }
                let kind = ArcKind::from(decl.marker);
                let absent = self.v(v).extra.iter().flat_map(|x| &x.absent);
                let test = absent.copied().find(|(tested, _)| *tested == label);
                if let Some((_, test)) = test.filter(|_| kind == ArcKind::Member) {
                    self.note_changed(v, test);
                }
                self.insert_arc(v, label, kind, conj.field(Src::Expr(decl.value), conj.env));
                Ok(())
            }
        }
    }

    /// Whether the body of a comprehension embeds something, which may have any fields.
    fn embeds_in_body(&self, id: CompId) -> bool {
        match self.ir.expr(self.ir.comps[id.idx()].body_expr) {
            Expr::Struct(body) => !self.ir.structs[body.idx()].embeds().is_empty(),
            _ => false,
        }
    }

    /// Whether a comprehension itself declares a field that is named.
    fn declares_step(&self, id: CompId, at: ExprId) -> bool {
        match self.ir.expr(at) {
            Expr::Ref { label, .. } => self.ir.comps[id.idx()].labels.binary_search(&label).is_ok(),
            _ => false,
        }
    }

    /// A guard that has taken a field for absent and then declares it was right if the field has no value all the
    /// same, as in `{a?: 1, if a == _|_ {a: 2}}`. Else the struct depends on itself.
    fn ask_again(&mut self, v: Vid, test: ExprId, env: EnvId) -> Res<()> {
        let changed = match self.value(test, env) {
            Ok(Val::Node(w)) => {
                let w = self.deref(w);
                if self.v(w).phase == Phase::Settled {
                    self.deep_aside(w);
                }
                self.final_error(w).is_none() && self.own_incomplete(w).is_none()
            }
            Ok(_) => true,
            Err(e) if self.class(e) == Class::Limit => return Err(e),
            // One of its alternatives will be there.
            Err(e) => matches!(self.s.errs[e.idx()].msg, Msg::Choosing(_)),
        };
        if changed {
            self.note_changed(v, test);
        }
        Ok(())
    }

    /// The struct depends on what a test has seen otherwise.
    fn note_changed(&mut self, v: Vid, test: ExprId) {
        let text = format!(
            "circular dependency in evaluation of conditionals: {} changed after evaluation",
            self.ir.text(test)
        );
        let e = self.text_err(Class::Cycle, text, test);
        self.extra(v).changed.get_or_insert(e);
    }

    /// A comprehension must not add what it has seen to be absent, but may say more of what is `known`: declared at least
    /// as this.
    fn keep_to_what_was_seen(
        &mut self,
        v: Vid,
        id: CompId,
        envs: &[EnvId],
        test: ExprId,
        known: ArcKind,
    ) -> Res<()> {
        let ir = self.ir;
        let comp = &ir.comps[id.idx()];
        // Nothing is added: the test has seen the truth.
        if envs.is_empty() {
            return Ok(());
        }
        // So it has if a field of the struct itself is tested, unless a name that is yet to be computed adds it.
        if let Expr::Ref { label, .. } = ir.expr(test)
            && self.is_tested_alone(v, id, label)
        {
            self.extra(v).absent.push((label, test));
            return Ok(());
        }
        // Or only what is there is added.
        let present = |label: &Label| self.arc(v, *label).is_some_and(|w| self.v(w).arc <= known);
        if comp.labels.iter().all(present) {
            return Ok(());
        }
        if let Expr::Struct(body) = ir.expr(comp.body_expr) {
            let tmpl = &ir.structs[body.idx()];
            // What comprehensions in the body add counts only if they add it.
            let own = |label: &Label| tmpl.fields.iter().any(|field| field.label == *label);
            if comp.labels.iter().filter(|label| own(label)).all(present) {
                for &nested in tmpl.comps() {
                    for &env in envs {
                        let env = self.new_env(env, v, Label::new(body.0, LabelKind::Int));
                        let inner = self.run_clauses(nested, env)?;
                        self.keep_to_what_was_seen(v, nested, &inner, test, known)?;
                    }
                }
                return Ok(());
            }
        }
        Err(self.err_at(Class::Incomplete, Msg::Cycle(test), Vid::NONE, &[test]))
    }

    /// Whether a test is about a field of the struct that the comprehension is of, which neither that names nor
    /// another one at work might add.
    fn is_tested_alone(&self, v: Vid, id: CompId, label: Label) -> bool {
        let mut tasks = self.v(v).extra.iter().flat_map(|x| &x.tasks);
        let another = tasks.any(|task| {
            task.state == TaskState::Running
                && self.concerns(task, Some(label))
                && !matches!(task.kind, TaskKind::Comp(of) if of == id)
        });
        self.arc(v, label).is_some()
            && self.ir.comps[id.idx()].labels.binary_search(&label).is_err()
            && !another
    }

    /// A guard that asks for the value of a field which is nothing but a circle of references, and
    /// which its own body would declare, or that of another such guard, is part of the circle: in `c: c, if c {c: true}` it waits for
    /// itself, while `c: c, if c {d: true}` only waits for somebody to say what `c` is.
    fn asked_of_a_circle(&mut self, v: Vid, id: CompId, env: EnvId, e: ErrId) -> ErrId {
        let ir = self.ir;
        let comp = &ir.comps[id.idx()];
        let err = &self.s.errs[e.idx()];
        let (Msg::NonConcrete(Kind::TOP, _), &[at]) = (&err.msg, err.at.as_slice()) else {
            return e;
        };
        let Some(Clause::If(guard)) = comp.clauses.first() else { return e };
        if !self.is_operand_of(at, *guard, 0)
            || !matches!(ir.expr(at), Expr::Ref { .. } | Expr::Sel(..))
        {
            return e;
        }
        let Ok(asked) = self.resolve(at, env) else { return e };
        // The field of `v` that was asked for, or in which lies what was asked for.
        let mut field = asked;
        while !self.v(field).parent.is_none() && self.v(field).parent != v {
            field = self.v(field).parent;
        }
        // What is declared by comprehensions within it is not known before it is run.
        let fields = |id: CompId| match ir.expr(ir.comps[id.idx()].body_expr) {
            Expr::Struct(id) => ir.structs[id.idx()].fields.as_slice(),
            _ => &[],
        };
        // Another guard that asks for the same is as much part of the circle.
        let asks_too = |other: CompId| match (ir.comps[other.idx()].clauses.first(), ir.expr(at)) {
            (Some(Clause::If(guard)), Expr::Ref { up, label }) => {
                matches!(ir.expr(*guard), Expr::Ref { up: u, label: l } if (u, l) == (up, label))
            }
            _ => false,
        };
        let declared = |w: Vid| {
            let label = self.v(w).label;
            self.v(w).parent == v
                && self.v(v).extra.iter().flat_map(|x| &x.tasks).any(|task| match task.kind {
                    TaskKind::Comp(of) if of == id || asks_too(of) => {
                        fields(of).iter().any(|field| field.label == label)
                    }
                    _ => false,
                })
        };
        let root = self.share_root(asked);
        if self.is_circle(asked) && (declared(field) || declared(root)) {
            return self.err_at(Class::Cycle, Msg::Cycle(at), Vid::NONE, &[at]);
        }
        e
    }

    /// Whether an expression is part of another and means the same in the environment of that: what stands in a literal
    /// has another one.
    fn is_operand_of(&self, at: ExprId, of: ExprId, depth: u32) -> bool {
        const MOST: u32 = 64;
        if at == of {
            return true;
        }
        let ir = self.ir;
        if depth > MOST || !ir.within(at, of) {
            return false;
        }
        let among = |e: ExprId| self.is_operand_of(at, e, depth + 1);
        match ir.expr(of) {
            Expr::Sel(x, _) | Expr::Unary(_, x) | Expr::Bound(_, x) | Expr::Presence(x, _) => {
                among(x)
            }
            Expr::Index(a, b) | Expr::Binary(_, a, b) | Expr::And(a, b) => among(a) || among(b),
            Expr::Call(id) => ir.calls[id.idx()].args.iter().any(|&arg| among(arg)),
            Expr::Interp(parts, _) => {
                ir.parts[parts.idx()].iter().any(|part| matches!(part, Part::Expr(x) if among(*x)))
            }
            _ => false,
        }
    }

    /// Whether a field is declared by references only, which lead nowhere.
    fn is_circle(&self, w: Vid) -> bool {
        let only = |c: &Conj| match c.src {
            Src::Expr(e) => matches!(self.ir.expr(e), Expr::Ref { .. } | Expr::Sel(..)),
            _ => false,
        };
        let vertex = self.v(self.share_root(w));
        vertex.kind == Kind::TOP && vertex.conjs.iter().all(only)
    }

    /// A conjunct whose value had to be waited for.
    fn expr_task(&mut self, v: Vid, conj: Conj) -> Res<()> {
        let Src::Expr(e) = conj.src else { return Ok(()) };
        match self.ir.expr(e) {
            Expr::Ref { .. }
            | Expr::Frame { .. }
            | Expr::Sel(..)
            | Expr::Index(..)
            | Expr::Package(_) => {
                let w = self.resolve(e, conj.env)?;
                // What is said of it in any case counts before the rest is known: it may contradict.
                let waits = self.pending(w);
                self.follow(v, conj, w, Some(e), false);
                waits.map_or(Ok(()), Err)
            }
            Expr::Call(id) => self.call_conj(v, conj, id),
            _ => {
                let val = self.value(e, conj.env)?;
                self.unify_val(v, val, conj);
                Ok(())
            }
        }
    }

    /// The environments a comprehension's body is to be evaluated in.
    pub(crate) fn run_clauses(&mut self, id: CompId, env: EnvId) -> Res<SmallVec<[EnvId; 8]>> {
        let ir = self.ir;
        let mut envs = smallvec![env];
        // What a loop waits for counts when everything else has been gone through.
        let mut waiting = None;
        // Each clause makes none, one or several bindings of every binding so far.
        for clause in &ir.comps[id.idx()].clauses {
            let mut next = SmallVec::new();
            for env in envs {
                self.step()?;
                match *clause {
                    Clause::If(cond) => {
                        match self.concrete_or_wrong(cond, env, Kind::BOOL, "if clause")? {
                            Val::Bool(true) => next.push(env),
                            Val::Bool(false) => {}
                            other => {
                                let text = format!(
                                    "cannot use {} (type {}) as type bool",
                                    self.val_text(&other),
                                    self.val_kind(&other)
                                );
                                return Err(self.text_err(Class::Eval, text, cond));
                            }
                        }
                    }
                    Clause::Let(e) => {
                        // A let is computed when it is used.
                        let w = self.anon(Conj::new(Src::Expr(e), env));
                        next.push(self.new_env(env, w, Label::NONE));
                    }
                    Clause::For { source, keyed } => {
                        let (members, missing) = self.iterate(source, keyed, env)?;
                        waiting = waiting.or(missing);
                        for (label, w) in members {
                            next.push(self.new_env(env, w, label));
                        }
                    }
                }
                // Nested loops multiply.
                if next.len() as u64 > self.s.budget.limits().list {
                    return Err(self.limit(crate::limits::LimitError::List));
                }
            }
            envs = next;
        }
        waiting.map_or(Ok(envs), Err)
    }

    /// What a `for` goes through: elements, or regular fields that are there. Definitions, hidden
    /// fields and optional fields are left out. A required field that has not been given is an error next to
    /// the others; where a given field follows, the error is that field's key, if somebody asks for it.
    fn iterate(
        &mut self,
        source: ExprId,
        keyed: bool,
        env: EnvId,
    ) -> Res<(Members, Option<ErrId>)> {
        let val = self.value(source, env).map_err(|e| self.asked_of_scalars(e, source))?;
        let kind = match &val {
            Val::Node(w) => self.node_kind(*w),
            val => self.val_kind(val),
        };
        let open = matches!(&val, Val::Node(w) if self.has_choice(*w));
        // A literal that is being put together is taken as it is: to make it concrete would demand
        // what is being computed.
        let becoming = matches!(&val, Val::Node(w)
            if self.is_becoming_struct(*w) || !open && self.has_named_fields(*w));
        let val = if becoming {
            val
        } else if open || kind.intersects(Kind::STRUCT | Kind::LIST) || kind.is_bottom() {
            self.make_concrete(val, source, "for clause")?
        } else {
            // It will never be a struct or list, concrete or not.
            val
        };
        let val = match val {
            Val::Node(w) if !open && !kind.intersects(Kind::STRUCT | Kind::LIST) => {
                self.scalar_val(w)
            }
            val => val,
        };
        let Val::Node(w) = val else {
            let text = format!(
                "cannot range over {} (found {}, want list or struct)",
                self.val_text(&val),
                self.val_kind(&val)
            );
            return Err(self.text_err(Class::Eval, text, source));
        };
        let w = self.deref(w);
        self.settle(w);
        let w = self.deref(w);
        if let Some(e) = self.v(w).error {
            return Err(e);
        }
        // The loop is part of the struct that it goes through, and sees the fields there are now. A
        // field that came later would make it wrong, so the struct takes no more.
        if self.v(w).phase < Phase::Settled
            && let Some(extra) = &mut self.vm(w).extra
            && extra.tasks.iter().any(|task| task.state == TaskState::Running)
        {
            extra.frozen = true;
            self.s.assumed = Some(Assumed { at: source, asked: None });
        } else {
            self.count(w);
        }
        let mut out = Vec::with_capacity(self.v(w).arcs.len());
        let mut missing = None;
        for i in 0..self.v(w).arcs.len() {
            let (label, arc) = self.v(w).arcs[i];
            if !(label.is_string() || label.is_int()) {
                continue;
            }
            match self.v(arc).arc {
                ArcKind::Member if keyed && missing.is_some() => {
                    missing = None;
                    out.push((Label::NONE, arc));
                }
                ArcKind::Member => out.push((label, arc)),
                ArcKind::Required => {
                    let msg = Msg::Text(NOT_GIVEN.into());
                    missing = missing.or(Some(self.err(Class::Incomplete, msg, arc)));
                }
                ArcKind::Optional => {}
            }
        }
        // What is incomplete may still get fields, and the loop would miss them.
        if let Some(e) = self.v(w).incomplete
            && !self.has_named_fields(w)
        {
            return Err(e);
        }
        let _ = self.s.budget.bytes(out.len() as u64 * 16);
        Ok((out, missing))
    }

    /// Whether a struct that is incomplete has all fields that it will have, as far as anybody has asked for it
    /// as a whole.
    fn has_named_fields(&mut self, w: Vid) -> bool {
        let w = self.deref(w);
        self.v(w).incomplete.is_some()
            && self.left_undecided(w).is_none()
            && self.names_what_is_there(w)
    }

    /// A field that may be a scalar cannot be gone through by what declares it, whichever alternative it will be.
    fn asked_of_scalars(&mut self, e: ErrId, source: ExprId) -> ErrId {
        let err = &self.s.errs[e.idx()];
        if !matches!(err.msg, Msg::Choosing(_)) || err.vertex.is_none() {
            return e;
        }
        let ir = self.ir;
        let scalar = |e: ExprId| match ir.expr(e) {
            Expr::Kind(kind) => !kind.intersects(Kind::STRUCT | Kind::LIST),
            Expr::Bound(..) | Expr::Interp(..) => true,
            _ => ir.is_literal(e),
        };
        let mut disjs = self.v(err.vertex).extra.iter().flat_map(|x| &x.disjs);
        let may_be_scalar = disjs.any(|of| match of.conj.src {
            Src::Expr(e) => match ir.expr(e) {
                Expr::Disj(id) => ir.disjs[id.idx()].iter().any(|alt| scalar(alt.expr)),
                _ => false,
            },
            _ => false,
        });
        if may_be_scalar {
            let text = format!("cannot range over {}", ir.text(source));
            return self.text_err(Class::Eval, text, source);
        }
        e
    }

    /// Takes note that the fields of a struct have been gone through or counted, if a comprehension of a struct
    /// around it is at work which may add some.
    pub(super) fn count(&mut self, w: Vid) {
        let mut inner = w;
        let mut outer = self.v(w).parent;
        while !outer.is_none() {
            let label = self.v(inner).label;
            let adds = self.v(outer).extra.iter().flat_map(|x| &x.tasks).any(|task| {
                task.state == TaskState::Running
                    && matches!(task.kind, TaskKind::Comp(_))
                    && self.concerns(task, Some(label))
            });
            if adds {
                self.extra(w).counted = true;
                return;
            }
            inner = outer;
            outer = self.v(outer).parent;
        }
    }

    /// Whether a field is new to a struct of which the fields have been seen. What a comprehension declares by name
    /// is known without it, unless it is one of the struct itself.
    pub(super) fn comes_too_late(&self, v: Vid, w: Vid) -> bool {
        let running = |task: &Task| (task.state == TaskState::Running).then_some(());
        self.v(v).extra.as_ref().is_some_and(|x| x.frozen)
            || self.declaring(w, Said::Field, running).is_none()
    }

    /// Whether a vertex is a struct literal that is still being put together: it has the fields that
    /// are known.
    pub(super) fn is_becoming_struct(&mut self, w: Vid) -> bool {
        let w = self.deref(w);
        let vertex = self.v(w);
        vertex.phase < Phase::Settled
            && vertex.maybe_struct
            && !vertex.atom.is_atom()
            && vertex.checks.is_empty()
            && vertex.kind.intersects(Kind::STRUCT)
    }

    /// Whether a field with alternatives has to be known before they can be chosen from: it is being
    /// computed, or a comprehension at work declares it.
    pub(super) fn is_choice_open(&self, w: Vid) -> bool {
        let vertex = self.v(w);
        let picked = vertex.extra.as_ref().is_some_and(|x| x.picked);
        let known = vertex.atom.is_atom() && !picked;
        if known || vertex.is_struct || vertex.is_list || vertex.maybe_struct {
            return false;
        }
        if matches!(vertex.phase, Phase::Settling | Phase::Expanding) {
            // A candidate with structure stands in its place.
            let tried = vertex.extra.as_ref().and_then(|x| x.active).map(|c| self.v(c));
            return tried.is_none_or(|c| {
                c.arcs.is_empty() && !c.is_struct && !c.is_list && !c.maybe_struct
            });
        }
        let running = |task: &Task| (task.state == TaskState::Running).then_some(());
        self.declaring(w, Said::Field, running).is_some()
    }

    /// Whether a comprehension at work adds fields to a struct.
    pub(super) fn is_added_to(&self, w: Vid) -> bool {
        let running = |task: &Task| (task.state == TaskState::Running).then_some(());
        self.declaring(w, Said::Below, running).is_some()
    }

    /// Whether a comprehension of a vertex is at work.
    pub(super) fn guards(&self, v: Vid) -> bool {
        !v.is_none()
            && self.v(v).extra.iter().flat_map(|x| &x.tasks).any(|task| {
                matches!((task.kind, task.state), (TaskKind::Comp(_), TaskState::Running))
            })
    }

    /// Whether a comprehension of a struct that is at work adds a field.
    pub(super) fn adds_fields(&self, v: Vid) -> bool {
        self.v(v).extra.iter().flat_map(|x| &x.tasks).any(|task| match task.kind {
            TaskKind::Comp(id) => {
                let comp = &self.ir.comps[id.idx()];
                task.state == TaskState::Running && (comp.open || !comp.labels.is_empty())
            }
            _ => false,
        })
    }

    /// What a comprehension waits for that declares a field, and the struct that it is part of.
    pub(super) fn waits_for_guard(&self, w: Vid) -> Option<(ErrId, Vid)> {
        self.declaring(w, Said::Whole, |task| match task.state {
            TaskState::Failed(e) if self.class(e) == Class::Incomplete => Some(e),
            _ => None,
        })
    }

    /// The first comprehension of an enclosing struct that says this of a field and of which the question is
    /// answered, with that struct.
    fn declaring<T>(
        &self,
        w: Vid,
        said: Said,
        ask: impl Fn(&Task) -> Option<T>,
    ) -> Option<(T, Vid)> {
        let mut path: SmallVec<[Label; 4]> = smallvec![self.v(w).label];
        let mut at = self.v(w).parent;
        while !at.is_none() {
            let outer = self.v(at);
            let found = outer.extra.iter().flat_map(|x| &x.tasks).find_map(|task| {
                let TaskKind::Comp(id) = task.kind else { return None };
                let answer = ask(task)?;
                self.declares(self.ir.comps[id.idx()].body_expr, &path, said).then_some(answer)
            });
            if let Some(answer) = found {
                return Some((answer, at));
            }
            path.push(outer.label);
            at = outer.parent;
        }
        None
    }

    /// Whether a literal says this of the field with this path, innermost label first.
    fn declares(&self, body: ExprId, path: &[Label], said: Said) -> bool {
        let fields = |e| match self.ir.expr(e) {
            Expr::Struct(id) => self.ir.structs[id.idx()].fields.as_slice(),
            _ => &[],
        };
        let mut e = body;
        for label in path.iter().rev() {
            let named = fields(e);
            if named.is_empty() {
                return said == Said::Whole && e != body;
            }
            let Some(field) = named.iter().find(|field| field.label == *label) else {
                return false;
            };
            e = field.value;
        }
        match said {
            Said::Field => true,
            Said::Whole => fields(e).is_empty(),
            Said::Below => !fields(e).is_empty(),
        }
    }
}
