//! Values of expressions.
//!
//! An operand, an argument, a guard and a computed label are evaluated to a [`Val`] instead of
//! being distributed over a vertex. Scalars come out as such; what has fields, elements or
//! alternatives comes out as a node, and whoever needs one concrete value takes the defaults with
//! [`Machine::make_concrete`].
//!
//! # A worked example
//!
//! ```cue
//! replicas: *1 | int
//! limit:    int
//! n:        replicas + 1
//! big:      replicas > limit
//! if limit != _|_ {has: true}
//! ```
//!
//! - `replicas + 1`: `replicas` is a node with two alternatives. An operand has to be concrete, so
//!   the default is taken: `2`.
//! - `replicas > limit`: `limit` is a type. That is incomplete and no failure, since somebody may
//!   still say `limit: 3`.
//! - `limit != _|_` asks whether a value is there. A type is none, so the guard is false and there
//!   is no field `has`. Had the value failed with a crossed budget, the test would fail, too: the
//!   budget says nothing about the value.

use super::comprehension::NOT_GIVEN;
use super::data::{
    ArcKind, Conj, EnvId, ErrId, Func, Msg, Phase, Res, Src, TaskKind, TaskState, Val, Validator,
    Vid,
};
use super::state::{Assumed, Machine};
use crate::error::Class;
use crate::ir::{Core, Expr, ExprId, Part};
use crate::kind::Kind;
use crate::label::{Label, LabelKind};
use cue_syntax::ast::{BinaryOp, UnaryOp};
use ecow::EcoString;
use smallvec::SmallVec;
use std::sync::Arc;

impl Machine<'_> {
    /// The value of an expression; undecided things are [`Val::Node`]s.
    pub(crate) fn value(&mut self, e: ExprId, env: EnvId) -> Res<Val> {
        match self.ir.expr(e) {
            Expr::Null
            | Expr::Bool(_)
            | Expr::Int(_)
            | Expr::Num(_)
            | Expr::Str(_)
            | Expr::Bytes(_)
            | Expr::Kind(_)
            | Expr::Top => Ok(self.literal(e)),
            Expr::Bottom => Err(self.err_at(Class::User, Msg::Bottom, Vid::NONE, &[e])),
            Expr::CoreFunc(core) => Ok(match core {
                Core::MatchN | Core::MatchIf => Val::CoreFunc(core),
                _ => Val::CoreFunc(core),
            }),
            Expr::StdFunc(id) => Ok(Val::Validator(Arc::new(Validator {
                func: Func::Std(id),
                args: Vec::new(),
                expr: e,
                env: EnvId::NONE,
            }))),
            _ => {
                // Everything else may nest: it counts as one level.
                self.enter()?;
                let result = self.deep_value(e, env);
                self.leave();
                result
            }
        }
    }

    /// The value of an expression that has operands.
    fn deep_value(&mut self, e: ExprId, env: EnvId) -> Res<Val> {
        match self.ir.expr(e) {
            Expr::Ref { .. }
            | Expr::Frame { .. }
            | Expr::Sel(..)
            | Expr::Index(..)
            | Expr::Package(_) => {
                // Settled, not deep: what lies below is no part of this value.
                let mut w = self.resolve(e, env)?;
                if self.v(w).label.is_let() {
                    w = self.let_as_value(w, e)?;
                }
                self.settle(w);
                // But a struct of which a field is known to have failed is an error.
                if let Some(e) = self.failed_below(w) {
                    return Err(e);
                }
                self.node_val_at(w, e)
            }
            Expr::Key { up } => {
                let label = self.env_up(env, up).key;
                if label == Label::NONE {
                    return Err(self.text_err(Class::Incomplete, NOT_GIVEN, e));
                }
                Ok(match label.kind() {
                    LabelKind::Int => Val::Int(i64::from(label.index())),
                    _ => Val::Str(self.name(label).clone()),
                })
            }
            Expr::Unary(op, x) => self.unary(op, x, env, e),
            Expr::Bound(op, x) => {
                let val = self.concrete(x, env, op.text())?;
                if let Val::Node(w) = val
                    && let Some(of) = self.tried_for(w)
                {
                    self.s.touch = self.s.touch.min(self.v(of).depth);
                    return Err(self.err_at(Class::Cycle, Msg::Choosing(e), of, &[e]));
                }
                let kind = self.val_kind(&val);
                // The rules of the language: patterns match texts, anything may be unequal, and an
                // order exists for numbers, strings and bytes.
                let ok = match op {
                    UnaryOp::Match | UnaryOp::NotMatch => {
                        kind == Kind::STRING || kind == Kind::BYTES
                    }
                    UnaryOp::NotEqual => true,
                    _ => kind.intersects(Kind::NUMBER | Kind::STRING | Kind::BYTES),
                };
                if !ok {
                    let text = format!(
                        "cannot use {} for bound {} (type {kind})",
                        self.val_text(&val),
                        op.text()
                    );
                    return Err(self.text_err(Class::Eval, text, e));
                }
                Ok(Self::bound(op, val))
            }
            Expr::Binary(..) => self.binary_chain(e, env),
            Expr::Presence(x, present) => {
                let there = self.presence(x, env)?;
                Ok(Val::Bool(there == present))
            }
            Expr::Interp(parts, bytes) => self.interpolate(parts, bytes, env),
            Expr::Slice(x, id) => {
                let (lo, hi) = self.ir.slices[id.idx()];
                self.slice(x, lo, hi, env, e)
            }
            Expr::Call(id) => self.call(id, e, env),
            _ => {
                // What is left has structure, or may have: it gets a vertex of its own, which
                // nobody else sees.
                let w = self.inline(e, env);
                self.settle(w);
                if self.is_whole(e, env) {
                    self.check_whole(w)?;
                }
                self.node_val_at(w, e)
            }
        }
    }

    /// What a let is computed with that names a struct around it: that struct, but of the one that the let
    /// is written in nothing is known.
    fn let_as_value(&mut self, w: Vid, e: ExprId) -> Res<Vid> {
        let named = self.named_by_let(w);
        if named != w && named == self.v(w).parent {
            let msg = Msg::NonConcrete(Kind::TOP, "operand");
            return Err(self.err_at(Class::Incomplete, msg, Vid::NONE, &[e]));
        }
        Ok(named)
    }

    /// The value of a settled vertex.
    pub(crate) fn node_val(&mut self, w: Vid) -> Res<Val> {
        let w = self.deref(w);
        let vertex = self.v(w);
        // An error counts before everything that is known besides.
        if let Some(e) = vertex.error {
            return Err(e);
        }
        if vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty()) {
            return Ok(Val::Node(w));
        }
        if vertex.atom.is_atom() {
            // What is not known yet, or waits for itself, stays so.
            if let Some(e) = self.own_incomplete(w)
                && vertex.phase == Phase::Settled
                && !self.is_taken_for_name(w, e)
            {
                return Err(e);
            }
            return Ok(self.v(w).atom.clone());
        }
        // Struct and list are values although fields below may be unknown: whoever needs those asks
        // for them.
        if vertex.is_struct || vertex.is_list {
            return Ok(Val::Node(w));
        }
        if let Some(e) = vertex.incomplete {
            return Err(e);
        }
        Ok(Val::Node(w))
    }

    /// Whether the scalar that is said of a field will do although something else is yet to be known of it: the names in
    /// a struct are computed before its fields are judged.
    fn is_taken_for_name(&mut self, w: Vid, e: ErrId) -> bool {
        let of = self.s.named;
        !of.is_none() && self.class(e) != Class::Limit && self.is_ancestor(of, w)
    }

    /// As [`node_val`](Self::node_val), but an unfinished scalar is a cycle.
    pub(crate) fn node_val_at(&mut self, w: Vid, e: ExprId) -> Res<Val> {
        let root = self.share_root(w);
        if self.has_disjs(root) && self.is_choice_open(root) {
            self.s.touch = self.s.touch.min(self.v(root).depth);
            return Err(self.err_at(Class::Cycle, Msg::Choosing(e), root, &[e]));
        }
        if let Some(e) = self.pending(root) {
            return Err(e);
        }
        let named = w;
        let val = self.node_val(w)?;
        if let Val::Node(w) = val {
            // The value is still being computed. With a kind it is on its way; without one it waits
            // for itself, as in `a: a + 1`.
            let vertex = self.v(w);
            if matches!(vertex.phase, Phase::Settling | Phase::Expanding)
                && !vertex.is_struct
                && !vertex.is_list
                && vertex.maybe_struct == vertex.atom.is_atom()
            {
                // A field that is nothing but a reference to it waits for it all the same.
                let known = vertex.kind != Kind::TOP && root == named;
                self.s.touch = self.s.touch.min(vertex.depth);
                if !known {
                    return Err(self.err_at(Class::Cycle, Msg::Cycle(e), Vid::NONE, &[e]));
                }
            }
        }
        Ok(val)
    }

    /// A concrete value: an atom, or a node that is a struct or list; defaults taken.
    pub(crate) fn concrete(&mut self, e: ExprId, env: EnvId, what: &'static str) -> Res<Val> {
        let val = self.value_to_be_concrete(e, env)?;
        self.make_concrete(val, e, what)
    }

    /// The value of an expression of which a concrete value is to be made.
    fn value_to_be_concrete(&mut self, e: ExprId, env: EnvId) -> Res<Val> {
        let val = self.value(e, env)?;
        if let Val::Node(w) = val
            && let Some(e) = self.waits_by_another_name(w, e, env)
        {
            return Err(e);
        }
        Ok(val)
    }

    /// The circle of a struct that is calculated with by the name of a field which is nothing but a reference
    /// to it, and which waits for it: in `e: {x: 1}, e: -b, b: e` nothing is known of `b` before `e` is known.
    pub(super) fn waits_by_another_name(&mut self, w: Vid, e: ExprId, env: EnvId) -> Option<ErrId> {
        let vertex = self.v(w);
        let depth = vertex.depth;
        if vertex.phase != Phase::Settling
            || vertex.is_list
            || !vertex.is_struct && !vertex.maybe_struct
            || !matches!(self.ir.expr(e), Expr::Ref { .. } | Expr::Sel(..))
        {
            return None;
        }
        let named = self.resolve(e, env).ok()?;
        if named == w || self.share_root(named) != w {
            return None;
        }
        self.s.touch = self.s.touch.min(depth);
        Some(self.err_at(Class::Cycle, Msg::Cycle(e), Vid::NONE, &[e]))
    }

    /// Takes defaults until one concrete value is left. What has none is incomplete: `what` says in
    /// the error what it was needed for.
    pub(crate) fn make_concrete(&mut self, val: Val, e: ExprId, what: &'static str) -> Res<Val> {
        // A default may have alternatives of its own: they are taken until nothing is left to
        // choose.
        let mut val = val;
        loop {
            match val {
                Val::Node(w) => {
                    let w = self.deref(w);
                    match self.default_of(w) {
                        Some(Val::Node(c)) => {
                            self.settle(c);
                            val = self.node_val(c)?;
                            continue;
                        }
                        Some(other) => {
                            val = other;
                            continue;
                        }
                        None => {}
                    }
                    // Several alternatives and no single default: a later conjunct may still
                    // decide.
                    let vertex = self.v(w);
                    if vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty()) {
                        return Err(self.err_at(Class::Incomplete, Msg::Unresolved, w, &[e]));
                    }
                    if vertex.is_struct || vertex.is_list {
                        // What may still get fields cannot be computed with.
                        return vertex.incomplete.map_or(Ok(Val::Node(w)), Err);
                    }
                    // It is a struct, whatever fields its comprehensions add.
                    if self.is_becoming_struct(w) {
                        return Ok(Val::Node(w));
                    }
                    // `>=1 & <=1` leaves one value.
                    let vertex = self.v(w);
                    if let Some(atom) = super::scalar::pinned(vertex.kind, &vertex.checks) {
                        return Ok(atom);
                    }
                    let kind = vertex.kind;
                    return Err(self.err_at(
                        Class::Incomplete,
                        Msg::NonConcrete(kind, what),
                        Vid::NONE,
                        &[e],
                    ));
                }
                Val::Top | Val::Kind(_) | Val::Bound(..) | Val::Validator(_) | Val::All(_) => {
                    if let Val::All(list) = &val
                        && let Some(atom) = super::scalar::pinned(self.val_kind(&val), list)
                    {
                        return Ok(atom);
                    }
                    let kind = self.val_kind(&val);
                    return Err(self.err_at(
                        Class::Incomplete,
                        Msg::NonConcrete(kind, what),
                        Vid::NONE,
                        &[e],
                    ));
                }
                atom => return Ok(atom),
            }
        }
    }

    /// Whether a value is there, for comparisons with `_|_`. A type or constraint is not, what is
    /// not known at all or one of several alternatives is.
    fn presence(&mut self, e: ExprId, env: EnvId) -> Res<bool> {
        if self.selects_from_failed(e, env)? {
            return Ok(false);
        }
        let touch = std::mem::replace(&mut self.s.touch, u32::MAX);
        let tested = match self.value(e, env) {
            Ok(Val::Node(w)) => self.check_no_encloser(w, e, 0).map(|()| Val::Node(w)),
            tested => tested,
        };
        // Whether it depends on something that is being computed.
        let unfinished = self.s.touch <= self.s.depth;
        self.s.touch = self.s.touch.min(touch);
        let mut val = match tested {
            Ok(val) => val,
            // A crossed budget says nothing about whether the value is there.
            Err(err) if self.class(err) == Class::Limit => return Err(err),
            Err(err) => {
                let of = self.s.errs[err.idx()].vertex;
                return match self.s.errs[err.idx()].msg {
                    // When nothing else can be done, the names in question are those that there are.
                    Msg::Naming(at) if of == self.s.naming && self.is_step(at, e) => {
                        self.s.assumed = Some(Assumed { at, asked: None });
                        Ok(false)
                    }
                    // Whichever of the alternatives it will be, it is there.
                    Msg::Choosing(_) => Ok(true),
                    // A field that waits for itself does so for good.
                    Msg::Cycle(_) | Msg::Naming(_)
                        if !unfinished && self.class(err) == Class::Incomplete =>
                    {
                        Ok(false)
                    }
                    Msg::Cycle(_) | Msg::Naming(_) => Err(err),
                    // Only what the test itself looks for: a value that waits for it is not there
                    // yet.
                    Msg::Pending(at) if self.is_step(at, e) => {
                        let named = matches!(self.ir.expr(at), Expr::Ref { .. });
                        let asked = named.then_some((e, env));
                        self.s.assumed = Some(Assumed { at, asked });
                        Ok(false)
                    }
                    Msg::Pending(_) => Err(err),
                    _ => Ok(false),
                };
            }
        };
        loop {
            let Val::Node(w) = val else {
                return Ok(val.is_atom() || self.may_be_struct(&val) || self.is_pinned(&val));
            };
            let w = self.deref(w);
            // The default counts, as for every other use of the value.
            match self.default_of(w) {
                Some(Val::Node(c)) => {
                    self.settle(c);
                    val = match self.node_val(c) {
                        Ok(val) => val,
                        Err(err) if self.class(err) == Class::Limit => return Err(err),
                        Err(_) => return Ok(false),
                    };
                    continue;
                }
                Some(other) => {
                    val = other;
                    continue;
                }
                None => {}
            }
            if self.encloses_test(w) {
                if self.has_failed_sibling()? {
                    return Ok(false);
                }
                return Err(self.err_at(Class::Cycle, Msg::Enclosing(e), Vid::NONE, &[e]));
            }
            // Where an expression that stands for itself asks for a struct around it, that is not there yet.
            if self.is_in_expression(self.s.at) && self.is_ancestor(w, self.s.at) {
                return Ok(false);
            }
            let vertex = self.v(w);
            let open = vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty());
            if vertex.arc == ArcKind::Required && !open && self.tests_required(e, env) {
                // Who gives the field changes what the struct around the test has been made of; what an
                // expression makes for itself is made once.
                let at = self.s.at;
                let made = |at: Vid| self.is_in_expression(at);
                if made(at) || !at.is_none() && made(self.v(at).parent) {
                    return Ok(false);
                }
                let err = self.err_at(Class::Cycle, Msg::Enclosing(e), Vid::NONE, &[e]);
                if self.guards(at) {
                    self.s.not_given = Some(err);
                    self.s.any_not_given = true;
                    return Ok(false);
                }
                return Err(err);
            }
            let vertex = self.v(w);
            // A scalar that is no atom is a type or a bound. It is there if it may be a struct, or
            // if one value is left.
            if !open && !vertex.is_struct && !vertex.is_list {
                return Ok(vertex.kind.intersects(Kind::STRUCT)
                    || super::scalar::pinned(vertex.kind, &vertex.checks).is_some());
            }
            // One of the alternatives will come true.
            if open {
                return Ok(true);
            }
            if let Some(err) = vertex.incomplete {
                return if self.class(err) == Class::Limit { Err(err) } else { Ok(false) };
            }
            // A struct is there only as a whole: an error in one of its fields makes it `_|_`.
            self.deep_aside(w);
            let w = self.deref(w);
            if self.s.budget.crossed().is_some() {
                return Err(self.limit(crate::limits::LimitError::Steps));
            }
            let vertex = self.v(w);
            return Ok(vertex.error.is_none()
                && vertex.incomplete.is_none()
                && vertex.extra.as_ref().is_none_or(|x| x.child_error.is_none()));
        }
    }

    /// Whether a test is about a struct or list which it is part of, or to which the comprehension that it
    /// guards adds fields: the answer would depend on itself.
    fn encloses_test(&mut self, w: Vid) -> bool {
        let at = self.s.at;
        // What is built inside of an expression is no part of the struct yet.
        if at.is_none() || self.is_in_expression(at) {
            return false;
        }
        let vertex = self.v(w);
        let scalar = vertex.atom.is_atom() || !vertex.kind.intersects(Kind::STRUCT | Kind::LIST);
        !scalar
            && (w == at && self.adds_fields(at) || self.is_ancestor(w, at) || self.is_added_to(w))
    }

    /// Whether another field of the struct or list that a test is in has failed: what encloses the test has failed
    /// then, whatever the test says.
    fn has_failed_sibling(&mut self) -> Res<bool> {
        let at = self.s.at;
        let parent = self.v(at).parent;
        // What is tested in a list or by a guard is not the field itself.
        let inside = self.v(at).extra.iter().flat_map(|x| &x.tasks).any(|task| {
            task.state == TaskState::Running
                && matches!(task.kind, TaskKind::List(_) | TaskKind::Comp(_))
        });
        if parent.is_none() || inside {
            return Ok(false);
        }
        self.enter()?;
        let mut failed = false;
        let mut i = 0;
        while let Some(&(_, arc)) = self.v(parent).arcs.get(i) {
            i += 1;
            if arc == at || self.v(arc).arc != ArcKind::Member {
                continue;
            }
            self.deep_aside(arc);
            if self.final_error(arc).is_some() {
                failed = true;
                break;
            }
        }
        self.leave();
        match self.s.budget.crossed() {
            Some(limit) => Err(self.limit(limit)),
            None => Ok(failed),
        }
    }

    /// Whether a vertex is a struct or list that an expression is made of.
    fn is_in_expression(&self, at: Vid) -> bool {
        !at.is_none() && self.v(at).label == Label::NONE && !self.v(at).parent.is_none()
    }

    /// Whether a test is about a required field that nobody has given and that may be anything, or is a
    /// struct or list: whether it is there is then said by who gives it.
    fn tests_required(&mut self, e: ExprId, env: EnvId) -> bool {
        if !matches!(self.ir.expr(e), Expr::Ref { .. } | Expr::Sel(..) | Expr::Index(..)) {
            return false;
        }
        let Ok(arc) = self.resolve(e, env) else { return false };
        let vertex = self.v(arc);
        vertex.arc == ArcKind::Required
            && (vertex.is_struct
                || vertex.is_list
                || vertex.kind == Kind::TOP && vertex.checks.is_empty())
    }

    /// Whether an expression is one of the selections that another is made of.
    fn is_step(&self, step: ExprId, mut of: ExprId) -> bool {
        while step != of {
            let (Expr::Sel(x, _) | Expr::Index(x, _)) = self.ir.expr(of) else { return false };
            of = x;
        }
        true
    }

    /// What may be a struct is there, whatever else is said of it.
    fn may_be_struct(&self, val: &Val) -> bool {
        self.val_kind(val).intersects(Kind::STRUCT)
    }

    /// Whether constraints leave one value.
    fn is_pinned(&self, val: &Val) -> bool {
        match val {
            Val::All(list) => super::scalar::pinned(self.val_kind(val), list).is_some(),
            _ => false,
        }
    }

    /// Whether a presence test selects from a struct in the expression that fails somewhere: a test
    /// looks at such a struct as a whole.
    fn selects_from_failed(&mut self, e: ExprId, env: EnvId) -> Res<bool> {
        let mut at = e;
        // The base of the selections.
        while let Expr::Sel(x, _) | Expr::Index(x, _) = self.ir.expr(at) {
            at = x;
        }
        if at == e || !matches!(self.ir.expr(at), Expr::And(..) | Expr::Struct(_)) {
            return Ok(false);
        }
        self.enter()?;
        // The base is built on the side, open, and judged as a whole; the selection itself is made
        // afterwards.
        let w = self.inline(at, env);
        self.extra(w).opened = true;
        self.deep_aside(w);
        self.leave();
        Ok(self.final_error(w).is_some())
    }

    /// `"a \(b) c"`: the parts one after the other, each concrete.
    fn interpolate(&mut self, parts: crate::ir::PartsId, bytes: bool, env: EnvId) -> Res<Val> {
        let ir = self.ir;
        // Collected as bytes: the parts of `'...'` need not be UTF-8.
        let mut out: Vec<u8> = Vec::new();
        let mut failed: Option<ErrId> = None;
        let most = usize::try_from(self.s.budget.limits().string).unwrap_or(usize::MAX);
        for part in &ir.parts[parts.idx()] {
            match part {
                Part::Text(id) => out.extend_from_slice(ir.texts[id.idx()].as_bytes()),
                Part::Bytes(id) => out.extend_from_slice(&ir.bytes[id.idx()]),
                Part::Expr(x) => {
                    // All parts are computed before one error is reported: the graver counts. What a part is
                    // matters as long as none has failed.
                    let val = self.value_to_be_concrete(*x, env).and_then(|val| match failed {
                        None => self.make_concrete(val, *x, "interpolation"),
                        Some(_) => Ok(val),
                    });
                    let val = match val {
                        Ok(val) => val,
                        Err(e) if self.class(e) == Class::Limit => return Err(e),
                        Err(e) => {
                            failed = Some(self.graver(failed, e));
                            continue;
                        }
                    };
                    if failed.is_some() {
                        continue;
                    }
                    // Refused before the text is copied.
                    if let Val::Str(s) = &val
                        && out.len() + s.len() > most
                    {
                        return Err(self.limit(crate::limits::LimitError::String));
                    }
                    match &val {
                        Val::Str(s) => out.extend_from_slice(s.as_bytes()),
                        Val::Bytes(b) if bytes => out.extend_from_slice(b),
                        Val::Bytes(b) => {
                            out.extend_from_slice(String::from_utf8_lossy(b).as_bytes());
                        }
                        Val::Bool(_) | Val::Int(_) | Val::Num(_) => {
                            // Writing out a large number costs more than its length says.
                            self.pay_digits(&val)?;
                            out.extend_from_slice(self.val_text(&val).as_bytes());
                        }
                        other => {
                            let text = format!(
                                "cannot use {} (type {}) as type (bool|string|bytes|number)",
                                self.val_text(other),
                                self.val_kind(other)
                            );
                            let text = format!("invalid interpolation: {text}");
                            failed = Some(self.text_err(Class::Eval, text, *x));
                        }
                    }
                }
            }
            if out.len() > most {
                return Err(self.limit(crate::limits::LimitError::String));
            }
        }
        if let Some(e) = failed {
            return Err(e);
        }
        if let Err(limit) = self.s.budget.string(out.len() as u64) {
            return Err(self.limit(limit));
        }
        if bytes {
            return Ok(Val::Bytes(out.into()));
        }
        Ok(Val::Str(EcoString::from(String::from_utf8_lossy(&out).as_ref())))
    }

    /// `a + b + c` nests to the left: evaluated in a loop.
    fn binary_chain(&mut self, e: ExprId, env: EnvId) -> Res<Val> {
        let mut chain: SmallVec<[(BinaryOp, ExprId, ExprId, ExprId); 4]> = SmallVec::new();
        let mut at = e;
        while let Expr::Binary(op, a, b) = self.ir.expr(at) {
            chain.push((op, a, b, at));
            at = a;
        }
        let first = chain.last().map_or(BinaryOp::Add, |c| c.0);
        let mut left = self.operand(at, env, first);
        for (op, a, b, at) in chain.into_iter().rev() {
            let right = self.operand(b, env, op);
            self.step()?;
            // Both sides are evaluated; a final error wins over an incomplete one. What is inside of them counts
            // when there are two values.
            left = match (left, right) {
                (Ok(x), Ok(y)) => self
                    .check_operand_known(&x, a)
                    .and_then(|()| self.check_operand_known(&y, b))
                    .and_then(|()| self.binary(op, &x, &y, (a, b), at)),
                (Err(x), Err(y)) => Err(self.graver(Some(x), y)),
                (Err(x), _) | (_, Err(x)) => Err(x),
            };
        }
        left
    }

    /// A struct or list that is calculated or compared with is known all the way down.
    #[inline]
    fn check_operand_known(&mut self, val: &Val, e: ExprId) -> Res<()> {
        match val {
            Val::Node(w) => self.check_known(*w, e, 0),
            _ => Ok(()),
        }
    }

    /// An operand with its default taken.
    #[inline]
    fn operand(&mut self, e: ExprId, env: EnvId, op: BinaryOp) -> Res<Val> {
        let val = self.concrete(e, env, operand_of(op))?;
        if let Val::Node(w) = val {
            if let Some(of) = self.tried_for(w) {
                self.s.touch = self.s.touch.min(self.v(of).depth);
                return Err(self.err_at(Class::Cycle, Msg::Choosing(e), of, &[e]));
            }
            self.check_no_encloser(w, e, 0)?;
        }
        Ok(val)
    }

    /// A literal that is calculated with or tested must not contain what it is written in.
    fn check_no_encloser(&mut self, w: Vid, e: ExprId, depth: u32) -> Res<()> {
        const MOST: u32 = 16;
        if depth > MOST || !matches!(self.ir.expr(e), Expr::Struct(_) | Expr::List(_)) {
            return Ok(());
        }
        let mut i = 0;
        while let Some(&(label, arc)) = self.v(w).arcs.get(i) {
            i += 1;
            if label.is_let() || self.v(arc).arc == ArcKind::Optional {
                continue;
            }
            self.expand(arc);
            let vertex = self.v(arc);
            let circle = vertex.any_cyclic && !vertex.noncyclic;
            let target = self.deref(arc);
            if circle || target != arc && self.is_ancestor(target, w) {
                return Err(self.err(Class::StructuralCycle, Msg::StructuralCycle, arc));
            }
            if let &[Conj { src: Src::Expr(e), .. }] = self.v(arc).conjs.as_slice() {
                self.check_no_encloser(arc, e, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The vertex for which a struct or list is tried as an alternative: it is not known before the choice.
    fn tried_for(&self, w: Vid) -> Option<Vid> {
        let vertex = self.v(w);
        if vertex.phase == Phase::Settled || vertex.parent.is_none() {
            return None;
        }
        let of = self.arc(vertex.parent, vertex.label)?;
        self.v(of).extra.as_ref().is_some_and(|x| x.active == Some(w)).then_some(of)
    }

    /// A struct or list that is calculated or compared with has to be known, all the way down.
    fn check_known(&mut self, w: Vid, at: ExprId, depth: u32) -> Res<()> {
        const MOST: u32 = 100;
        let w = self.chosen(w);
        if depth > MOST || self.v(w).arcs.is_empty() {
            return Ok(());
        }
        let mut i = 0;
        while let Some(&(label, arc)) = self.v(w).arcs.get(i) {
            i += 1;
            if !(label.is_string() || label.is_int()) {
                continue;
            }
            match self.v(arc).arc {
                ArcKind::Required => {
                    let text = Msg::Text("field is required but not present".into());
                    return Err(self.err_at(Class::Incomplete, text, arc, &[at]));
                }
                ArcKind::Optional => continue,
                ArcKind::Member => {}
            }
            let target = self.deref(arc);
            // It is being computed further out, and must not be demanded again: a scalar waits for what
            // is asked here.
            if matches!(self.v(target).phase, Phase::Settling | Phase::Expanding) {
                let vertex = self.v(target);
                if vertex.is_struct || vertex.is_list || vertex.maybe_struct {
                    continue;
                }
                let msg = Msg::NonConcrete(vertex.kind, "operand");
                self.s.touch = self.s.touch.min(vertex.depth);
                return Err(self.err_at(Class::Incomplete, msg, Vid::NONE, &[at]));
            }
            self.settle(arc);
            let val = self.node_val(arc)?;
            if let Val::Node(w) = self.make_concrete(val, at, "operand")? {
                self.check_known(w, at, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// What an operand is called in an error.
fn operand_of(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "operand to +",
        BinaryOp::Subtract => "operand to -",
        BinaryOp::Multiply => "operand to *",
        BinaryOp::Divide => "operand to /",
        BinaryOp::Equal => "operand to ==",
        BinaryOp::NotEqual => "operand to !=",
        BinaryOp::Less => "operand to <",
        BinaryOp::LessEqual => "operand to <=",
        BinaryOp::Greater => "operand to >",
        BinaryOp::GreaterEqual => "operand to >=",
        BinaryOp::Match => "operand to =~",
        BinaryOp::NotMatch => "operand to !~",
        BinaryOp::LogicalAnd => "operand to &&",
        BinaryOp::LogicalOr => "operand to ||",
        BinaryOp::Div => "operand to div",
        BinaryOp::Mod => "operand to mod",
        BinaryOp::Quo => "operand to quo",
        BinaryOp::Rem => "operand to rem",
        BinaryOp::And => "operand to &",
        BinaryOp::Or => "operand to |",
    }
}
