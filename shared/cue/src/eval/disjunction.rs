//! Disjunctions: scalar alternatives by filtering, others by evaluating candidates.
//!
//! A candidate is a vertex with the same conjuncts and one alternative chosen for each disjunction.
//! It is evaluated anew from the conjuncts; while that goes on it stands in the place of the vertex
//! it is a candidate for. Alternatives are tried one disjunction after the other, so that a choice
//! that fails early is never combined with the others.
//!
//! # Worked examples
//!
//! `n: *1 | 2 | int` and `n: >1`. All alternatives are scalars, so no vertex is made: the product of `{*1, 2, int}` with the
//! validator `>1` drops `1` (`1` is not above 1), and leaves `2` and `int & >1`. The default failed, so none is left: both
//! survivors are unmarked and `n` is ambiguous until something unifies it with a concrete value.
//!
//! ```cue
//! v: {port: int} & (*{kind: "a", n: 1} | {kind: "b", name: string}) & {kind: "b", name: "x"}
//! ```
//!
//! The alternatives are structs. The candidate for the first is a vertex with the conjuncts `{port: int}`, `{kind: "a", n: 1}` and
//! `{kind: "b", name: "x"}`: before it is evaluated, the atoms `"a"` and `"b"` of `kind` conflict, so it is dropped. The
//! candidate for the second is evaluated in the place of `v`: a reference `v.name` inside it reaches the candidate's own
//! field. It survives alone, and `v` forwards to it.
//!
//! With a second disjunction `& ({a: 1} | {a: 2})` the dropped alternative is never combined with either of its two: there are
//! three candidates after the first disjunction has been decided, not four.

use super::data::{
    Alt, Conj, Data, EnvId, ErrId, Forward, Func, Mark, Mode, Msg, Occurrence, Phase, Res, Src,
    TaskState, Val, Validator, Vid,
};
use super::marks::{Modes, join_nested};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ExprId};
use crate::kind::Kind;
use crate::limits::LimitError;
use smallvec::{SmallVec, smallvec};

/// Alternatives with their default marks.
type Scalars = SmallVec<[(Val, Mode); 4]>;

/// Marks are relative: where no alternative is marked, none is a default and none is excluded from
/// the default.
fn mark(marked: bool, any: bool) -> Mode {
    match (any, marked) {
        (false, _) => Mode::Maybe,
        (true, true) => Mode::Default,
        (true, false) => Mode::Not,
    }
}

impl Machine<'_> {
    /// One alternative as a conjunct, with the mode its mark gives.
    pub(crate) fn alternative(&mut self, of: &Occurrence, i: usize) -> (Conj, Mode) {
        // The elements of `or([...])` carry no marks.
        if let Some(nodes) = &of.nodes {
            let src = nodes.get(i).map_or(of.conj.src, |w| Src::Node(*w));
            return (of.conj.with(src, of.conj.env), Mode::Maybe);
        }
        if let Some((start, len)) = self.choice_of_data(of) {
            let n = u32::try_from(i).unwrap_or(u32::MAX).min(len.saturating_sub(1));
            let item = self.s.items[(start + n) as usize].1;
            return (of.conj.with(Src::Data(item), of.conj.env), mark(i == 0, true));
        }
        let alts = self.alternatives(of);
        let any = alts.iter().any(|a| a.marked);
        match alts.get(i) {
            Some(alt) => (of.conj.with(Src::Expr(alt.expr), of.conj.env), mark(alt.marked, any)),
            None => (of.conj, Mode::Maybe),
        }
    }

    /// The terms of a disjunction as they are written.
    fn alternatives(&self, of: &Occurrence) -> &[crate::ir::Alternative] {
        if let Src::Expr(e) = of.conj.src
            && let Expr::Disj(id) = self.ir.expr(e)
        {
            return &self.ir.disjs[id.idx()];
        }
        &[]
    }

    /// The alternatives of a choice that is data.
    fn choice_of_data(&self, of: &Occurrence) -> Option<(u32, u32)> {
        let Src::Data(d) = of.conj.src else { return None };
        match self.s.data[d.idx()] {
            Data::Choice(start, len) => Some((start, len)),
            _ => None,
        }
    }

    /// How many alternatives there are to choose from.
    fn width(&self, of: &Occurrence) -> usize {
        if let Some((_, len)) = self.choice_of_data(of) {
            return len as usize;
        }
        of.nodes.as_ref().map_or_else(|| self.alternatives(of).len(), |n| n.len())
    }

    /// Chooses among the alternatives of a vertex. The cheap way comes first: most disjunctions of
    /// templates are of scalars, and need no vertex for each alternative.
    pub(crate) fn resolve_disjs(&mut self, v: Vid) {
        if self.v(v).error.is_some() {
            return;
        }
        match self.scalar_disjs(v) {
            Ok(true) => {}
            Ok(false) => self.candidates(v),
            Err(e) => self.fail(v, e),
        }
    }

    /// Resolves disjunctions of scalars; false if some alternative is no scalar.
    fn scalar_disjs(&mut self, v: Vid) -> Res<bool> {
        let vertex = self.v(v);
        // Structure, and tasks that may still add some, want candidates.
        let Some(extra) = &vertex.extra else { return Ok(false) };
        if vertex.is_struct
            || vertex.is_list
            || vertex.maybe_struct
            || !vertex.arcs.is_empty()
            || extra.tasks.iter().any(|t| t.state != TaskState::Done)
            || !extra.cyclic.is_empty()
        {
            return Ok(false);
        }
        let disjs: SmallVec<[Occurrence; 2]> = extra.disjs.iter().cloned().collect();
        // What the other conjuncts say takes part as one more alternative, without a mark.
        let base = self.scalar_val(v);
        let mut result: Scalars = smallvec![(base.clone(), Mode::Maybe)];
        let mut first: Option<Scalars> = None;
        // Disjunctions combine pairwise: `(a | b) & (c | d)` is `a & c | a & d | b & c | b & d`.
        for d in &disjs {
            let alts = match (&d.nodes, d.conj.src) {
                (Some(nodes), _) => self.scalar_nodes(nodes)?,
                (None, Src::Expr(e)) => self.scalar_alts(e, d.conj.env)?,
                _ => None,
            };
            let Some(alts) = alts else { return Ok(false) };
            result = self.product(&result, &alts)?;
            first.get_or_insert(alts);
        }
        // Nothing is left: the conflict of each alternative is reported.
        if result.is_empty() {
            let mut causes = Vec::new();
            for (alt, _) in first.unwrap_or_default() {
                let text = self.conflict_text(&base, &alt)?;
                causes.push(self.err(Class::Eval, Msg::Text(text), v));
            }
            let e = self.empty_disjunction(v, causes);
            self.fail(v, e);
            return Ok(true);
        }
        // One value is left: the vertex is what it would be without alternatives.
        if result.len() == 1 {
            if let Some((val, _)) = result.pop() {
                let picked = !self.v(v).atom.is_atom();
                let vertex = self.vm(v);
                vertex.kind = Kind::TOP;
                vertex.atom = Val::Top;
                vertex.checks.clear();
                self.put_scalar(v, val);
                self.extra(v).picked |= picked;
            }
            return Ok(true);
        }
        // Several values are left: the vertex stays undecided, and whoever needs one takes the
        // default.
        let alts = &mut self.extra(v).alts;
        alts.clear();
        alts.extend(result.into_iter().map(|(val, mode)| Alt { val, mode }));
        Ok(true)
    }

    /// Makes a scalar the vertex's own value.
    fn put_scalar(&mut self, v: Vid, val: Val) {
        match val {
            Val::Top => {}
            Val::All(list) => {
                for x in list.iter() {
                    self.put_scalar(v, x.clone());
                }
            }
            val => {
                let kind = self.val_kind(&val);
                let vertex = self.vm(v);
                vertex.kind = vertex.kind & kind;
                if val.is_atom() {
                    vertex.atom = val;
                } else if !matches!(val, Val::Kind(_)) {
                    vertex.checks.push(val);
                }
            }
        }
    }

    /// Why an alternative does not agree with what the other conjuncts say.
    fn conflict_text(&mut self, base: &Val, alt: &Val) -> Res<String> {
        let (ka, kb) = (self.val_kind(base), self.val_kind(alt));
        if base.is_atom() && !alt.is_atom() && ka.intersects(kb) {
            for check in match alt {
                Val::All(list) => list.to_vec(),
                one => vec![one.clone()],
            } {
                if let Some(text) = self.satisfies(base, &check)? {
                    return Ok(text);
                }
            }
        }
        let mut text =
            format!("conflicting values {} and {}", self.val_text(alt), self.val_text(base));
        if !ka.intersects(kb) {
            text.push_str(&format!(" (mismatched types {kb} and {ka})"));
        }
        Ok(text)
    }

    /// The error of a vertex none of whose alternatives survived, made of what each of them failed
    /// with.
    pub(crate) fn empty_disjunction(&mut self, v: Vid, causes: Vec<ErrId>) -> ErrId {
        // A user's own message replaces the list.
        if let Some(user) = causes.iter().find(|e| {
            self.class(**e) == Class::User && !matches!(self.s.errs[e.idx()].msg, Msg::Bottom)
        }) {
            let user = *user;
            // Whatever the others say less final keeps the whole open.
            let class = self.class_of_all(&causes);
            if class != Class::User {
                let msg = self.s.errs[user.idx()].msg.clone();
                return self.err(class, msg, v);
            }
            return user;
        }
        // What has failed is no alternative any more.
        let mut causes = causes;
        if causes.iter().any(|e| self.is_incomplete(*e)) {
            causes.retain(|e| self.is_incomplete(*e));
        }
        if let [one] = causes.as_slice() {
            return *one;
        }
        // The causes are listed below it.
        let text = format!("{} errors in empty disjunction:", causes.len());
        let class = self.class_of_all(&causes);
        let e = self.err(class, Msg::Text(text), v);
        self.s.errs[e.idx()].causes = causes;
        e
    }

    /// The class of what has failed in each of these ways: what may yet come true counts most, then what has no
    /// end; a conflict says least.
    fn class_of_all(&self, causes: &[ErrId]) -> Class {
        let classes = causes.iter().map(|e| self.class(*e));
        classes.reduce(|a, b| if a.max_severe(b) == a { b } else { a }).unwrap_or(Class::Eval)
    }

    /// Kind, atom and bounds of a vertex as one value.
    pub(crate) fn scalar_val(&self, v: Vid) -> Val {
        let vertex = self.v(v);
        if vertex.atom.is_atom() {
            if vertex.checks.is_empty() {
                return vertex.atom.clone();
            }
            // The constraints have not been checked yet, so they go along with the atom.
            let mut parts = vertex.checks.clone();
            parts.push(vertex.atom.clone());
            return Val::All(std::sync::Arc::new(parts));
        }
        let mut parts = Vec::new();
        // A kind that the constraints imply is not said twice.
        let implied = vertex.checks.iter().fold(Kind::TOP, |k, c| k & self.val_kind(c));
        if vertex.kind != implied {
            parts.push(Val::Kind(vertex.kind));
        }
        parts.extend(vertex.checks.iter().cloned());
        match parts.len() {
            0 => Val::Top,
            1 => parts.pop().unwrap_or(Val::Top),
            _ => Val::All(std::sync::Arc::new(parts)),
        }
    }

    /// All pairs that do not exclude each other. A pair is a default if one side marks it and the
    /// other does not mark against it, which is what `max` of [`Mode`] says.
    fn product(&mut self, a: &Scalars, b: &Scalars) -> Res<Scalars> {
        if let [(Val::Top, Mode::Maybe)] = a.as_slice() {
            // Nothing is known yet: the alternatives as they are.
            self.steps(b.len())?;
            let mut out = b.clone();
            // Without a default the marks mean nothing.
            if !out.iter().any(|(_, mode)| *mode == Mode::Default) {
                out.iter_mut().for_each(|(_, mode)| *mode = Mode::Maybe);
            }
            return Ok(out);
        }
        let mut found: SmallVec<[(Val, Mode, Mode); 4]> = SmallVec::new();
        for (x, mx) in a {
            for (y, my) in b {
                self.step()?;
                if let Some(val) = self.meet(x, y)? {
                    found.push((val, *mx, *my));
                }
            }
        }
        // A side of which no default survives is one without marks; one whose defaults contradict
        // each other had none left before.
        let is_default = |(_, mode): &(Val, Mode)| *mode == Mode::Default;
        let keep_a = found.iter().any(|f| f.1 == Mode::Default) || !a.iter().any(is_default);
        let keep_b = found.iter().any(|f| f.2 == Mode::Default) || !b.iter().any(is_default);
        let mut out = Scalars::with_capacity(found.len());
        for (val, ma, mb) in found {
            let ma = if keep_a { ma } else { Mode::Maybe };
            let mb = if keep_b { mb } else { Mode::Maybe };
            self.push_scalar(&mut out, val, ma.max(mb))?;
        }
        Ok(out)
    }

    /// Adds an alternative, unless its value is there already.
    fn push_scalar(&mut self, out: &mut Scalars, val: Val, mode: Mode) -> Res<()> {
        for (old, m) in out.iter_mut() {
            // Equal alternatives are one, and a default if either was.
            if self.same_scalar(old, &val) {
                if mode == Mode::Default {
                    *m = mode;
                }
                return Ok(());
            }
        }
        // The product of many disjunctions grows exponentially.
        if out.len() >= self.s.budget.limits().alternatives as usize {
            return Err(self.limit(LimitError::Alternatives));
        }
        out.push((val, mode));
        Ok(())
    }

    /// Whether two validators are one constraint: the same call in the source, or the same function
    /// with equal arguments.
    pub(crate) fn same_validator(&self, a: &Validator, b: &Validator) -> bool {
        if std::ptr::eq(a, b) || a.expr == b.expr && a.env == b.env {
            return true;
        }
        let same = match (a.func, b.func) {
            (Func::Core(a), Func::Core(b)) => a == b,
            (Func::Std(a), Func::Std(b)) => {
                let (a, b) = (&self.ir.builtins[a.idx()], &self.ir.builtins[b.idx()]);
                a.name == b.name && a.package == b.package
            }
            _ => false,
        };
        same && a.args.len() == b.args.len()
            && a.args.iter().zip(&b.args).all(|(a, b)| match (a, b) {
                (Val::Node(a), Val::Node(b)) => a == b || self.same_argument(*a, *b),
                (a, b) => self.same_scalar(a, b),
            })
    }

    /// Whether two arguments are written as the same literal or type, or are one expression that refers to
    /// nothing.
    fn same_argument(&self, a: Vid, b: Vid) -> bool {
        if let ([a], [b]) = (self.v(a).conjs.as_slice(), self.v(b).conjs.as_slice())
            && a.src == b.src
            && matches!(a.src, Src::Expr(e) if self.ir.stands_alone(e))
        {
            return true;
        }
        let written = |w: Vid| match self.v(w).conjs.as_slice() {
            [conj] => match conj.src {
                Src::Expr(e) if self.is_literal(e) => Some(self.literal(e)),
                Src::Expr(e) if matches!(self.ir.expr(e), Expr::Top) => Some(Val::Top),
                _ => None,
            },
            _ => None,
        };
        matches!((written(a), written(b)), (Some(a), Some(b)) if self.same_scalar(&a, &b))
    }

    /// Whether two scalars are the same, constraints included.
    pub(crate) fn same_scalar(&self, a: &Val, b: &Val) -> bool {
        match (a, b) {
            (Val::Top, Val::Top) => true,
            (Val::Kind(a), Val::Kind(b)) => a == b,
            (Val::Bound(o, x), Val::Bound(p, y)) => o == p && self.same_atom(x, y),
            (Val::Validator(a), Val::Validator(b)) => self.same_validator(a, b),
            // Constraints say the same in any order.
            (Val::All(a), Val::All(b)) => {
                a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| self.same_scalar(x, y)))
            }
            _ => a.is_atom() && b.is_atom() && self.same_atom(a, b),
        }
    }

    /// The elements of a list as alternatives if all are scalars.
    fn scalar_nodes(&mut self, nodes: &[Vid]) -> Res<Option<Scalars>> {
        let mut out = Scalars::with_capacity(nodes.len());
        for &w in nodes {
            self.step()?;
            let Some(alts) = self.scalar_node_alts(w) else { return Ok(None) };
            for (val, mode) in alts {
                self.push_scalar(&mut out, val, mode)?;
            }
        }
        Ok(Some(out))
    }

    /// A vertex as alternatives if it is a scalar or made of scalars.
    fn scalar_node_alts(&mut self, w: Vid) -> Option<Scalars> {
        self.settle(w);
        let w = self.deref(w);
        let vertex = self.v(w);
        if vertex.phase != Phase::Settled
            || vertex.error.is_some()
            || vertex.incomplete.is_some()
            || vertex.is_struct
            || vertex.is_list
            || vertex.kind == Kind::TOP && vertex.extra.as_ref().is_none_or(|x| x.alts.is_empty())
        {
            return None;
        }
        // An undecided vertex has alternatives of its own. If all are scalars they are alternatives
        // here.
        if let Some(extra) = &vertex.extra
            && !extra.alts.is_empty()
        {
            let mut out = Scalars::with_capacity(extra.alts.len());
            for alt in &extra.alts {
                if matches!(alt.val, Val::Node(_)) {
                    return None;
                }
                out.push((alt.val.clone(), alt.mode));
            }
            return Some(out);
        }
        // A value that is known has met its constraints.
        let atom = &vertex.atom;
        let val = if atom.is_atom() { atom.clone() } else { self.scalar_val(w) };
        // One alternative of marked ones may be left: it keeps its mark only here.
        Some(smallvec![(val, Mode::Maybe)])
    }

    /// The alternatives of an expression if all are scalars.
    fn scalar_alts(&mut self, e: ExprId, env: EnvId) -> Res<Option<Scalars>> {
        self.step()?;
        match self.ir.expr(e) {
            Expr::Disj(id) => {
                let ir = self.ir;
                let alts = &ir.disjs[id.idx()];
                let any = alts.iter().any(|a| a.marked);
                let mut out = Scalars::with_capacity(alts.len());
                for alt in alts {
                    let outer = mark(alt.marked, any);
                    if self.is_literal(alt.expr) {
                        self.step()?;
                        let val = self.literal(alt.expr);
                        self.push_scalar(&mut out, val, outer)?;
                        continue;
                    }
                    let Some(mut inner) = self.scalar_alts(alt.expr, env)? else { return Ok(None) };
                    // Without a default of its own left, a term is like one without marks.
                    if !inner.iter().any(|(_, mode)| *mode == Mode::Default) {
                        for (_, mode) in &mut inner {
                            *mode = Mode::Maybe;
                        }
                    }
                    // Inner and outer mark combine as those of a product do.
                    for (val, mode) in inner {
                        self.push_scalar(&mut out, val, mode.max(outer))?;
                    }
                }
                Ok(Some(out))
            }
            Expr::And(a, b) => {
                self.enter()?;
                let a = self.scalar_alts(a, env);
                let b = self.scalar_alts(b, env);
                self.leave();
                let (Some(a), Some(b)) = (a?, b?) else { return Ok(None) };
                self.product(&a, &b).map(Some)
            }
            _ if self.is_literal(e) => Ok(Some(smallvec![(self.literal(e), Mode::Maybe)])),
            // These have structure, or an error that candidates report better.
            Expr::Top
            | Expr::Bottom
            | Expr::Struct(_)
            | Expr::List(_)
            | Expr::AliasScope(_)
            | Expr::Comp(_)
            | Expr::CoreFunc(_)
            | Expr::Call(_) => Ok(None),
            Expr::Ref { .. }
            | Expr::Frame { .. }
            | Expr::Sel(..)
            | Expr::Index(..)
            | Expr::Package(_) => {
                let w = match self.resolve(e, env) {
                    Ok(w) => w,
                    // Not known yet: what the candidates wait for is reported there.
                    Err(err) if self.class(err) == Class::Limit => return Err(err),
                    Err(_) => return Ok(None),
                };
                Ok(self.scalar_node_alts(w))
            }
            _ => match self.value(e, env) {
                Ok(Val::Node(_) | Val::CoreFunc(_)) => Ok(None),
                Ok(val) => Ok(Some(smallvec![(val, Mode::Maybe)])),
                Err(err) if self.class(err) == Class::Limit => Err(err),
                Err(_) => Ok(None),
            },
        }
    }

    /// Evaluates a candidate for each combination of alternatives.
    fn candidates(&mut self, v: Vid) {
        let most = self.s.budget.limits().alternatives as usize;
        let base_choices = self.v(v).extra.as_ref().map(|x| x.choices.clone()).unwrap_or_default();
        // A stack of partial choices. They are pushed last to first, so that the order of the
        // source is kept.
        let mut work = vec![base_choices];
        let mut survivors: Vec<(Vid, Mode, Modes)> = Vec::new();
        // Candidates that are a value already and still wait for something.
        let mut waiting: Vec<(Vid, Mode, Modes)> = Vec::new();
        let mut causes = Vec::new();
        // What needs the vertex to be known before an alternative is chosen.
        let mut asking = None;
        let mut made = 0;
        // The vertex itself counts as the first, still undecided candidate.
        let mut first = true;
        while let Some(choices) = work.pop() {
            let c = if first {
                v
            } else {
                made += 1;
                if made > most {
                    let e = self.limit(LimitError::Alternatives);
                    self.fail(v, e);
                    return;
                }
                let c = self.candidate(v, &choices);
                // While it is evaluated the candidate stands for the vertex: a reference from one
                // of its fields to the vertex reaches the candidate's own field.
                self.extra(v).active = Some(c);
                self.expand(c);
                c
            };
            if !first {
                if let Some(e) = self.v(c).error {
                    causes.push(e);
                    self.extra(v).active = None;
                    continue;
                }
                // Literals that exclude each other are found without evaluating anything.
                if let Some(e) = self.quick_conflict(c) {
                    causes.push(e);
                    self.extra(v).active = None;
                    continue;
                }
            }
            // With the budget spent nothing can be said of the remaining alternatives.
            if self.s.budget.crossed().is_some() {
                self.extra(v).active = None;
                let e = self.limit(LimitError::Steps);
                self.fail(v, e);
                return;
            }
            let open = self.v(c).extra.as_ref().and_then(|x| x.disjs.first()).cloned();
            // The next undecided disjunction: a choice for each of its alternatives, but for those
            // that a literal excludes.
            if let Some(open) = open
                && self.v(c).forward == Forward::No
            {
                let listed = causes.len();
                for i in (0..self.width(&open)).rev() {
                    if let Some(e) = self.excluded(c, &open, i) {
                        causes.push(e);
                        made += 1;
                        if made > most {
                            let e = self.limit(LimitError::Alternatives);
                            self.fail(v, e);
                            return;
                        }
                        continue;
                    }
                    let mut choices = choices.clone();
                    choices.push((open.key, u32::try_from(i).unwrap_or(u32::MAX)));
                    work.push(choices);
                }
                // Found last to first, reported in order.
                causes[listed..].reverse();
                first = false;
                self.extra(v).active = None;
                continue;
            }
            first = false;
            // Every choice is made. The candidate is judged as a whole, since an error in any field
            // excludes it.
            self.deep(c);
            self.extra(v).active = None;
            let modes = self.v(c).extra.as_ref().map(|x| x.modes.clone()).unwrap_or_default();
            let r = self.deref(c);
            asking = asking.or_else(|| self.asks_for_choice(r));
            if let Some(e) = self.final_error(r) {
                causes.push(e);
                continue;
            }
            // What cannot be computed yet is no alternative either, as long as there are others.
            if let Some(e) = self.unknown_alternative(r) {
                if self.v(r).atom.is_atom() {
                    waiting.push((c, Mode::Maybe, modes));
                }
                causes.push(e);
                continue;
            }
            // Nor is one that needs to know which alternative it will be.
            if let Some(e) = self.circular_choice(r) {
                causes.push(e);
                continue;
            }
            // What survives may be undecided itself: its alternatives become alternatives of the
            // vertex.
            let alts = self.v(r).extra.as_ref().map(|x| x.alts.clone()).unwrap_or_default();
            if alts.is_empty() {
                survivors.push((c, Mode::Maybe, modes));
            } else {
                for alt in alts {
                    let node = match alt.val {
                        Val::Node(x) => x,
                        val => self.scalar_node(c, val),
                    };
                    survivors.push((node, alt.mode, modes.clone()));
                }
            }
        }
        // Of alternatives that all wait for something, those stay that are a value already.
        if survivors.is_empty() && causes.iter().all(|e| self.class(*e) == Class::Incomplete) {
            survivors = waiting;
        }
        // What fails whatever is chosen has failed, and need not be known before.
        let failed = survivors.is_empty() && causes.iter().all(|e| !self.is_incomplete(*e));
        match asking {
            Some(e) if !failed => self.vm(v).incomplete = Some(e),
            _ => self.settle_survivors(v, survivors, causes),
        }
    }

    /// The error of something said of a vertex, whatever alternative is chosen, that asks for its value:
    /// that is not known before the choice. Nor is one that asks for the value of another choice which
    /// waits for this one.
    fn asks_for_choice(&self, c: Vid) -> Option<ErrId> {
        let asks = |e: ErrId| matches!(self.s.errs[e.idx()].msg, Msg::Choosing(_));
        let extra = self.v(c).extra.as_ref()?;
        extra.tasks.iter().find_map(|task| match task.state {
            TaskState::Failed(e) if asks(e) && !self.is_of_choice(task, &extra.choices) => Some(e),
            _ => None,
        })
    }

    /// What an alternative waits for, itself or one of its fields. What is further down may be unknown.
    fn unknown_alternative(&mut self, c: Vid) -> Option<ErrId> {
        if let Some(e) = self.own_incomplete(c) {
            return Some(e);
        }
        let mut i = 0;
        while let Some(&(label, arc)) = self.v(c).arcs.get(i) {
            i += 1;
            if label.is_let() || self.v(arc).arc == super::data::ArcKind::Optional {
                continue;
            }
            let arc = self.deref(arc);
            if let Some(e) = self.own_incomplete(arc) {
                return Some(e);
            }
        }
        None
    }

    /// The cycle that a chosen alternative itself leads into.
    fn circular_choice(&self, c: Vid) -> Option<ErrId> {
        let extra = self.v(c).extra.as_ref()?;
        extra.tasks.iter().find_map(|task| match task.state {
            TaskState::Failed(e) => (self.class(e) == Class::Cycle
                && self.is_of_choice(task, &extra.choices))
            .then_some(e),
            _ => None,
        })
    }

    /// A vertex like `v` for which these alternatives are chosen. Conjuncts and injected data are
    /// copied, everything else is computed again.
    fn candidate(&mut self, v: Vid, choices: &[((Src, u16), u32)]) -> Vid {
        let (parent, label, arc) = {
            let vertex = self.v(v);
            (vertex.parent, vertex.label, vertex.arc)
        };
        let c = self.new_vertex(parent, label);
        let conjs = self.v(v).conjs.clone();
        let vertex = self.vm(c);
        vertex.arc = arc;
        vertex.conjs = conjs;
        let inputs = self.v(v).extra.as_ref().map(|x| x.inputs.clone()).unwrap_or_default();
        let judged = self.v(v).extra.as_ref().is_some_and(|x| x.judged);
        // An alternative is chosen as a whole, also where only a field of it is selected.
        let extra = self.extra(c);
        extra.choices = choices.to_vec();
        extra.inputs = inputs;
        extra.judged = judged;
        c
    }

    /// A settled vertex for a scalar among alternatives that are vertices.
    fn scalar_node(&mut self, like: Vid, val: Val) -> Vid {
        let (parent, label) = (self.v(like).parent, self.v(like).label);
        let x = self.new_vertex(parent, label);
        let src = self.new_val(val);
        self.vm(x).conjs.push(Conj::new(src, EnvId::NONE));
        self.settle(x);
        x
    }

    /// What becomes of the vertex: an error if nothing survived, the one survivor, or alternatives.
    fn settle_survivors(
        &mut self,
        v: Vid,
        mut survivors: Vec<(Vid, Mode, Modes)>,
        causes: Vec<ErrId>,
    ) {
        join_nested(&mut survivors);
        let mut kept: Vec<(Vid, Mode)> = Vec::new();
        // A disjunction of which no default survives is one without marks.
        let mut marked: Vec<(Src, u16)> = Vec::new();
        for (_, _, modes) in &survivors {
            for Mark { key, mode, .. } in modes {
                // A default that is `_|_` as written stays one.
                let bottom = match key.0 {
                    Src::Expr(e) => match self.ir.expr(e) {
                        Expr::Disj(id) => self.ir.disjs[id.idx()]
                            .iter()
                            .any(|a| a.marked && matches!(self.ir.expr(a.expr), Expr::Bottom)),
                        _ => false,
                    },
                    _ => false,
                };
                if (*mode == Mode::Default || bottom) && !marked.contains(key) {
                    marked.push(*key);
                }
            }
        }
        self.close_lists(v, &survivors);
        // `a | a` is `a`: candidates with the same value are one alternative.
        'next: for (c, mode, modes) in survivors {
            let mode = modes
                .iter()
                .filter(|mark| marked.contains(&mark.key))
                .fold(mode, |m, mark| m.max(mark.mode));
            for (old, m) in &mut kept {
                if self.same_alternative(*old, c) {
                    if mode == Mode::Default {
                        *m = mode;
                    }
                    continue 'next;
                }
            }
            kept.push((c, mode));
        }
        // An alternative that needs something that is not there gives way to one that is.
        if kept.len() > 1 {
            let missing: Vec<bool> = kept.iter().map(|(c, _)| self.is_missing(*c)).collect();
            if missing.contains(&false) {
                let mut missing = missing.into_iter();
                kept.retain(|_| !missing.next().unwrap_or(false));
            }
        }
        // What none of several alternatives can be computed without is what the vertex waits for.
        if kept.len() > 1 {
            let waits =
                |c: Vid| self.v(c).incomplete.filter(|e| self.class(*e) == Class::Incomplete);
            let all: Option<Vec<ErrId>> = kept.iter().map(|(c, _)| waits(*c)).collect();
            if let Some(&[e, ..]) = all.as_deref() {
                self.vm(v).incomplete = Some(e);
                return;
            }
        }
        match kept.as_slice() {
            [] => {
                // A crossed budget leaves no survivors either, and that is no empty disjunction.
                if self.s.budget.crossed().is_none() {
                    let e = self.empty_disjunction(v, causes);
                    self.fail(v, e);
                } else {
                    let e = self.limit(LimitError::Steps);
                    self.fail(v, e);
                }
            }
            [(c, _)] => {
                let c = *c;
                self.vm(v).forward = Forward::Chosen(c);
            }
            _ => {
                self.extra(v).alts =
                    kept.into_iter().map(|(c, mode)| Alt { val: Val::Node(c), mode }).collect();
            }
        }
    }

    /// Lists that were unified with a list outside of the alternatives are closed if one of them is.
    fn close_lists(&mut self, v: Vid, survivors: &[(Vid, Mode, Modes)]) {
        if !self.v(v).is_list || survivors.len() < 2 {
            return;
        }
        let mut lists: Vec<Vid> = survivors.iter().map(|(c, ..)| self.deref(*c)).collect();
        lists.retain(|c| self.v(*c).is_list);
        if lists.iter().any(|c| self.v(*c).list_closed) {
            lists.into_iter().for_each(|c| self.vm(c).list_closed = true);
        }
    }

    /// Whether a settled candidate is nothing but an incomplete error.
    fn is_missing(&mut self, c: Vid) -> bool {
        let c = self.deref(c);
        let vertex = self.v(c);
        !vertex.is_struct
            && !vertex.is_list
            && !vertex.atom.is_atom()
            && vertex.incomplete.is_some_and(|e| self.class(e) == Class::Incomplete)
    }

    /// Whether a literal of a struct alternative contradicts one that the vertex already has: the
    /// field that tells alternatives apart decides before any of them is built.
    fn excluded(&mut self, c: Vid, of: &Occurrence, i: usize) -> Option<ErrId> {
        if of.nodes.is_some() {
            return None;
        }
        let ir = self.ir;
        let Expr::Struct(id) = ir.expr(self.alternatives(of).get(i)?.expr) else { return None };
        for field in &ir.structs[id.idx()].fields {
            // Only a literal of a regular field decides without an evaluation.
            let plain = field.marker == crate::ir::Marker::Regular && field.label.is_string();
            if !plain || !ir.is_literal(field.value) {
                continue;
            }
            let Some(w) = self.arc(c, field.label) else { continue };
            if self.v(w).arc != super::data::ArcKind::Member {
                continue;
            }
            let new = self.literal(field.value);
            let old = self.v(w).conjs.iter().find_map(|conj| match conj.src {
                Src::Expr(e) if ir.is_literal(e) => Some(self.literal(e)),
                Src::Data(d) => match &self.s.data[d.idx()] {
                    Data::Val(val) => Some(val.clone()),
                    _ => None,
                },
                _ => None,
            });
            if let Some(old) = old
                && old.is_atom()
                && new.is_atom()
                && !self.same_atom(&old, &new)
            {
                let text = format!(
                    "conflicting values {} and {}",
                    self.val_text(&new),
                    self.val_text(&old)
                );
                return Some(self.err(Class::Eval, Msg::Text(text), w));
            }
        }
        None
    }

    /// Finds a field whose conjuncts are literals that exclude each other, without evaluating.
    fn quick_conflict(&mut self, c: Vid) -> Option<ErrId> {
        for i in 0..self.v(c).arcs.len() {
            let (_, w) = self.v(c).arcs[i];
            let vertex = self.v(w);
            if vertex.conjs.len() < 2 || vertex.arc != super::data::ArcKind::Member {
                continue;
            }
            let mut atom: Option<Val> = None;
            for conj in &vertex.conjs {
                let val = match conj.src {
                    Src::Expr(e) if self.ir.is_literal(e) => self.literal(e),
                    Src::Data(d) => match &self.s.data[d.idx()] {
                        Data::Val(val) => val.clone(),
                        _ => continue,
                    },
                    _ => continue,
                };
                match &atom {
                    Some(old) if !self.same_atom(old, &val) => {
                        let text = format!(
                            "conflicting values {} and {}",
                            self.val_text(&val),
                            self.val_text(old)
                        );
                        return Some(self.err(Class::Eval, Msg::Text(text), w));
                    }
                    _ => atom = Some(val),
                }
            }
        }
        None
    }
}
