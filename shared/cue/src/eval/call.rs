//! Calls: the language's own functions, those of standard packages, validators.
//!
//! Functions differ in what they take. Those of the language each have rules of their own. *Pure*
//! functions of packages take concrete values, copied out of the evaluation, and know nothing of
//! vertices. *Lazy* ones take nodes, of which not everything need be known.
//!
//! # A worked example
//!
//! ```cue
//! name: strings.MaxRunes(3)
//! name: "abcd"
//! up:   strings.ToUpper(name)
//! ```
//!
//! `strings.MaxRunes(3)` has one argument too few, and its result is a bool: it is a validator,
//! which `name` keeps as a check. When `name` is settled the check runs with the value as its first
//! argument and answers false: `invalid value "abcd" (does not satisfy strings.MaxRunes(3))`.
//! `strings.ToUpper(name)` has all its arguments. It demands `name` concrete, and fails with the
//! error of `name`. Had `name` no value yet, the call would be incomplete and run again when more
//! is known.

use super::data::{
    Conj, Data, EnvId, Func, Msg, Phase, Res, Src, TaskKind, TaskState, Val, Validator, Vid,
};
use super::list_call::len_int;
use super::state::Machine;
use crate::error::Class;
use crate::ir::{BuiltinId, CallId, Callee, Core, Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use crate::limits::{Budget, LimitError};
use crate::std::{BuiltinError, Lazy, Run};
use crate::value::{Number, Value};
use std::sync::Arc;

/// How often a validator may run inside itself: as deep as data that it describes may nest.
pub(super) const MOST_NESTED: usize = 32;

impl Machine<'_> {
    /// A call as a conjunct: `and` and `or` bring the elements of their list in.
    pub(crate) fn call_conj(&mut self, v: Vid, conj: Conj, id: CallId) -> Res<()> {
        let Src::Expr(e) = conj.src else { return Ok(()) };
        // `and([a, b])` is `a & b`, and `or([a, b])` is `a | b`: the elements become conjuncts or
        // alternatives, and unify with whatever else is said of the vertex.
        let ir = self.ir;
        let call = &ir.calls[id.idx()];
        let callee = self.callee(call.callee, e, conj.env)?;
        if let (Callee::Core(core @ (Core::And | Core::Or)), [arg]) = (callee, call.args.as_slice())
        {
            let list = self.concrete_list(*arg, conj.env, core.name())?;
            let elems = self.list_elems(list)?;
            match (core, elems.as_slice()) {
                (Core::And, elems) => {
                    for &w in elems {
                        self.follow(v, conj, w, None, false);
                    }
                }
                (_, []) => {
                    return Err(self.text_err(Class::Incomplete, "empty list in call to or", e));
                }
                (_, [one]) => self.follow(v, conj, *one, None, false),
                _ => self.add_disj(v, conj, Some(Arc::new(elems))),
            }
            return Ok(());
        }
        if let (Callee::Core(Core::Close), [arg]) = (callee, call.args.as_slice()) {
            // What leads back to the call adds nothing to it.
            let closed = match self.check_closable(*arg, conj.env) {
                Err(e) if self.class(e) == Class::StructuralCycle => *arg,
                checked => checked?,
            };
            let conj = self.close_conj(v, conj, closed);
            self.process(v, conj, false);
            return Ok(());
        }
        let val = self.call_of(callee, &call.args, e, conj.env)?;
        self.unify_val(v, val, conj);
        Ok(())
    }

    /// The list that an argument is, concrete at least in its length.
    fn concrete_list(&mut self, e: ExprId, env: EnvId, name: &'static str) -> Res<Vid> {
        let val = self.concrete(e, env, "list argument")?;
        if let Val::Node(w) = val {
            let w = self.deref(w);
            if self.v(w).is_list {
                return Ok(w);
            }
        }
        Err(self.arg_error(name, &val, 1, "list", e))
    }

    /// The error of an argument of the wrong kind; `i` counts from 1.
    pub(crate) fn arg_error(
        &mut self,
        name: &str,
        val: &Val,
        i: usize,
        want: &str,
        at: ExprId,
    ) -> super::ErrId {
        let text = format!(
            "cannot use {} (type {}) as {want} in argument {i} to {name}",
            self.val_text(val),
            self.val_kind(val)
        );
        self.text_err(Class::Eval, text, at)
    }

    /// The value of a call in an expression.
    pub(crate) fn call(&mut self, id: CallId, e: ExprId, env: EnvId) -> Res<Val> {
        let ir = self.ir;
        let call = &ir.calls[id.idx()];
        let callee = self.callee(call.callee, e, env)?;
        self.call_of(callee, &call.args, e, env)
    }

    /// The same of a function that is known.
    fn call_of(&mut self, callee: Callee, args: &[ExprId], e: ExprId, env: EnvId) -> Res<Val> {
        match callee {
            Callee::Core(core) => self.core_call(core, args, e, env),
            Callee::Std(id) => self.std_call(id, args, e, env),
            Callee::Expr(f) => {
                let text = format!("cannot call non-function {}", self.ir.text(f));
                Err(self.text_err(Class::Eval, text, e))
            }
        }
    }

    /// The function that is called: functions are values, as in `f: strings.ToUpper, x: f("a")`.
    fn callee(&mut self, callee: Callee, e: ExprId, env: EnvId) -> Res<Callee> {
        let Callee::Expr(f) = callee else { return Ok(callee) };
        let mut val = match self.value(f, env) {
            // Nothing that is yet to be known becomes a function.
            Err(err) if self.is_incomplete(err) || self.is_bottom(err) => {
                let text = format!("cannot call non-function {} (type _|_)", self.ir.text(f));
                return Err(self.text_err(Class::Eval, text, e));
            }
            val => val?,
        };
        if let Val::Node(w) = val
            && let Some(default) = self.default_of(w)
        {
            // A function that checks values is none of the values that are concrete.
            val = match default {
                function @ Val::Validator(_) => function,
                Val::Node(w) if matches!(self.v(w).checks.as_slice(), [Val::Validator(_)]) => {
                    Val::Node(w)
                }
                _ => self.make_concrete(val, f, "function")?,
            };
        }
        // A field that nothing but a function was given to.
        if let Val::Node(w) = val {
            let w = self.deref(w);
            if let [function @ Val::Validator(_)] = self.v(w).checks.as_slice() {
                val = function.clone();
            }
        }
        match &val {
            Val::CoreFunc(core) => return Ok(Callee::Core(*core)),
            Val::Validator(x) if matches!(self.ir.expr(x.expr), Expr::Call(_)) => {
                let text = format!("cannot call previously called validator {}", self.ir.text(f));
                return Err(self.text_err(Class::Eval, text, e));
            }
            Val::Validator(x) if x.args.is_empty() => {
                return Ok(match x.func {
                    Func::Core(core) => Callee::Core(core),
                    Func::Std(id) => Callee::Std(id),
                });
            }
            _ => {}
        }
        let text =
            format!("cannot call non-function {} (type {})", self.ir.text(f), self.val_kind(&val));
        Err(self.text_err(Class::Eval, text, e))
    }

    /// Whether a call has as many arguments as its function has parameters.
    fn check_arity(&mut self, name: &str, want: usize, have: usize, e: ExprId) -> Res<()> {
        if have == want {
            return Ok(());
        }
        let what = if have < want { "not enough" } else { "too many" };
        let text = format!("{what} arguments in call to {name} (have {have}, want {want})");
        Err(self.text_err(Class::Eval, text, e))
    }

    /// The functions that need no import. Each has rules of its own about what must be known of its
    /// arguments.
    fn core_call(&mut self, core: Core, args: &[ExprId], e: ExprId, env: EnvId) -> Res<Val> {
        match core {
            Core::Len => {
                self.check_arity("len", 1, args.len(), e)?;
                let sized = Kind::STRING | Kind::BYTES | Kind::LIST | Kind::STRUCT;
                let val = self.core_arg(core, args, 0, sized, env)?;
                match &val {
                    Val::Str(s) => Ok(Val::Int(len_int(s.len()))),
                    Val::Bytes(b) => Ok(Val::Int(len_int(b.len()))),
                    Val::Node(w) => {
                        let w = self.deref(*w);
                        // A struct counts by its regular fields that are there.
                        self.settle(w);
                        let w = self.deref(w);
                        if let Some(err) = self.v(w).error {
                            return Err(err);
                        }
                        if let Some(err) = self.v(w).incomplete
                            && !self.has_all_fields(w)
                        {
                            return Err(err);
                        }
                        self.count(w);
                        let n = if self.v(w).is_list {
                            self.v(w).list_len as usize
                        } else {
                            self.v(w)
                                .arcs
                                .iter()
                                .filter(|(l, a)| {
                                    l.is_string() && self.v(*a).arc == super::ArcKind::Member
                                })
                                .count()
                        };
                        Ok(Val::Int(len_int(n)))
                    }
                    _ => {
                        let text = format!("invalid argument type {}", self.val_kind(&val));
                        Err(self.text_err(Class::Eval, text, e))
                    }
                }
            }
            // A unification is computed where it is said of a field; as an operand it may be anything.
            Core::And => {
                self.check_arity("and", 1, args.len(), e)?;
                self.concrete_list(args[0], env, "and")?;
                Ok(Val::Top)
            }
            Core::Close | Core::Or => {
                self.check_arity(core.name(), 1, args.len(), e)?;
                self.unified(e, env)
            }
            Core::Div | Core::Mod | Core::Quo | Core::Rem => {
                self.check_arity(core.name(), 2, args.len(), e)?;
                // Both are computed before one error is reported: the graver counts.
                let a = self.core_arg(core, args, 0, Kind::INT, env);
                let b = self.core_arg(core, args, 1, Kind::INT, env);
                let (a, b) = match (a, b) {
                    (Ok(a), Ok(b)) => (a, b),
                    (Err(a), Err(b)) => return Err(self.graver(Some(a), b)),
                    (Err(err), _) | (_, Err(err)) => return Err(err),
                };
                self.int_division(core, &a, &b, e)
            }
            // The template's own message: a class of its own, which other errors do not replace.
            Core::Error => {
                self.check_arity("error", 1, args.len(), e)?;
                let val = self.concrete(args[0], env, "argument to error")?;
                let text = match &val {
                    Val::Str(s) => s.to_string(),
                    other => self.val_text(other),
                };
                Err(self.text_err(Class::User, text, e))
            }
            Core::MatchN | Core::MatchIf => {
                let want = if core == Core::MatchN { 2 } else { 3 };
                self.check_arity(core.name(), want, args.len(), e)?;
                // Schemas stay vertices. They are unified with the value once it is known.
                let mut vals = Vec::with_capacity(want);
                // All are computed before one error is reported: the graver counts.
                let mut failed = None;
                for &arg in args {
                    let w = self.anon(Conj::new(Src::Expr(arg), env));
                    if let Err(err) = self.check_schema(w, arg, env) {
                        failed = Some(self.graver(failed, err));
                    }
                    vals.push(Val::Node(w));
                }
                if let Some(err) = failed {
                    return Err(err);
                }
                Ok(Val::Validator(Arc::new(Validator {
                    func: Func::Core(core),
                    args: vals,
                    expr: e,
                    env,
                })))
            }
        }
    }

    /// Whether all that a struct waits for are guards and loops that name no field which is not there. Where it
    /// has a name, it counts as a whole.
    fn has_all_fields(&self, w: Vid) -> bool {
        self.v(w).label == Label::NONE && self.names_what_is_there(w)
    }

    /// The same of a struct that may have a name.
    pub(super) fn names_what_is_there(&self, w: Vid) -> bool {
        let vertex = self.v(w);
        if !vertex.is_struct {
            return false;
        }
        vertex.extra.iter().flat_map(|x| &x.tasks).all(|task| match (task.kind, task.state) {
            (_, TaskState::Done) => true,
            (TaskKind::Comp(id), TaskState::Failed(_)) => {
                let comp = &self.ir.comps[id.idx()];
                !comp.open
                    && !comp.labels.is_empty()
                    && comp.labels.iter().all(|l| self.arc(w, *l).is_some())
            }
            _ => false,
        })
    }

    /// An argument of a function of a package: what is unified in it is computed.
    fn argument(&mut self, arg: ExprId, env: EnvId) -> Res<Val> {
        match self.ir.expr(arg) {
            Expr::Call(id) if matches!(self.ir.calls[id.idx()].callee, Callee::Core(Core::And)) => {
                self.unified(arg, env)
            }
            _ => self.value(arg, env),
        }
    }

    /// What a call that unifies or chooses comes to: its elements become conjuncts, of a vertex that nobody else sees.
    fn unified(&mut self, call: ExprId, env: EnvId) -> Res<Val> {
        let w = self.anon(Conj::new(Src::Expr(call), env));
        self.settle(w);
        self.node_val(w)
    }

    /// A schema that is computed or named has to be known, or there is nothing to match with. Of what is written as a
    /// struct only what it is put together of is known to fail or not, of a list nothing: they are looked into when
    /// there is a value to match.
    fn check_schema(&mut self, w: Vid, arg: ExprId, env: EnvId) -> Res<()> {
        match self.ir.expr(arg) {
            Expr::List(_) | Expr::Top => Ok(()),
            // One that embeds itself is put together once.
            Expr::Struct(_) if self.s.schemas.contains(&arg) => Ok(()),
            Expr::Struct(_) => {
                self.s.schemas.push(arg);
                self.settle(w);
                self.s.schemas.pop();
                let w = self.deref(w);
                self.v(w).error.map_or(Ok(()), Err)
            }
            Expr::Ref { .. } | Expr::Frame { .. } | Expr::Sel(..) | Expr::Index(..) => {
                let of = self.resolve(arg, env)?;
                self.check_named(of)
            }
            _ => {
                self.settle(w);
                let w = self.deref(w);
                self.v(w).error.or(self.own_incomplete(w)).map_or(Ok(()), Err)
            }
        }
    }

    /// The same of a schema that is a field: what has failed or waits is nothing to match with.
    fn check_named(&mut self, of: Vid) -> Res<()> {
        let of = self.deref(of);
        // It may be what the schema stands in.
        let at = self.s.at;
        if matches!(self.v(of).phase, Phase::Settling | Phase::Expanding)
            || !at.is_none() && self.is_ancestor(of, at)
        {
            return Ok(());
        }
        self.settle(of);
        let of = self.deref(of);
        let known = self.v(of).is_struct || self.is_becoming_struct(of);
        let waits = self.own_incomplete(of).filter(|_| !known);
        let failed = self.v(of).error.or(self.failed_below(of));
        failed.or(waits).or(self.left_undecided(of)).map_or(Ok(()), Err)
    }

    /// An argument of one of the language's own functions, with its default taken.
    fn core_arg(
        &mut self,
        core: Core,
        args: &[ExprId],
        i: usize,
        want: Kind,
        env: EnvId,
    ) -> Res<Val> {
        let arg = args[i];
        let val = self.value(arg, env)?;
        if self.never(&val, want) {
            return Err(self.arg_error(core.name(), &val, i + 1, &want.to_string(), arg));
        }
        let what = if core == Core::Len { "argument to len" } else { "argument" };
        if let (Core::Len, Val::Node(w)) = (core, &val)
            && self.has_all_fields(self.share_root(*w))
        {
            return Ok(val);
        }
        self.make_concrete(val, arg, what)
    }

    /// Whether a value is of other kinds than these, whatever becomes of it.
    pub(crate) fn never(&mut self, val: &Val, want: Kind) -> bool {
        let kind = match val {
            Val::Node(w) => {
                let w = self.deref(*w);
                if self.is_becoming_struct(w) {
                    return !want.intersects(Kind::STRUCT);
                }
                if self.v(w).phase != Phase::Settled {
                    return false;
                }
                match self.default_of(w) {
                    Some(Val::Node(chosen)) => self.node_kind(chosen),
                    Some(chosen) => self.val_kind(&chosen),
                    // Which of the alternatives it is may be said later.
                    None if self.has_choice(w) => return false,
                    None => self.node_kind(w),
                }
            }
            val => self.val_kind(val),
        };
        !kind.is_bottom() && !kind.intersects(want)
    }

    /// Whether a vertex has alternatives left.
    pub(super) fn has_choice(&self, w: Vid) -> bool {
        self.v(w).extra.as_ref().is_some_and(|x| !x.alts.is_empty())
    }

    /// Of two errors the one that counts where both are reported: a conflict before what the user says, what is
    /// final before what is unknown, and that before what only waits for itself.
    pub(crate) fn graver(&self, first: Option<super::ErrId>, second: super::ErrId) -> super::ErrId {
        match first {
            Some(first)
                if self.class(first).max_severe(self.class(second)) == self.class(first) =>
            {
                first
            }
            _ => second,
        }
    }

    /// A function of a package: arguments first, then their number and kinds, then what must be
    /// concrete. The order decides which error a wrong call reports.
    fn std_call(&mut self, id: BuiltinId, args: &[ExprId], e: ExprId, env: EnvId) -> Res<Val> {
        let std = &self.ir.builtins[id.idx()];
        let (n, result) = (std.builtin.params.len(), std.builtin.result);
        let mut vals = Vec::with_capacity(args.len());
        // Their schema is unified with the text, and means nothing by itself.
        let validates = matches!(
            std.builtin.run,
            Run::Lazy(Lazy::JsonValidate | Lazy::YamlValidate | Lazy::YamlValidatePartial)
        );
        // These measure or move nodes: an element that is not concrete is no obstacle.
        let lazy = matches!(
            std.builtin.run,
            Run::Lazy(
                Lazy::ListMatchN
                    | Lazy::JsonValidate
                    | Lazy::YamlValidate
                    | Lazy::YamlValidatePartial
                    | Lazy::ListSort
                    | Lazy::ListSortStable
                    | Lazy::ListIsSorted
                    | Lazy::ListUniqueItems
                    | Lazy::ListContains
                    | Lazy::StructMinFields
                    | Lazy::StructMaxFields
            )
        );
        let mut failed = None;
        for (i, &arg) in args.iter().enumerate() {
            if validates && (i == 1 || args.len() == 1) {
                // A schema is looked at together with the value only.
                let w = self.anon(Conj::new(Src::Expr(arg), env));
                vals.push(Val::Node(w));
                continue;
            }
            match self.argument(arg, env) {
                Ok(val) => {
                    // A struct that waits for something is no argument yet, right or wrong.
                    if !lazy && let Some(err) = self.waiting_struct(&val) {
                        failed = Some(self.graver(failed, err));
                    }
                    vals.push(val);
                }
                Err(err) => failed = Some(self.graver(failed, err)),
            }
        }
        if let Some(err) = failed {
            return Err(err);
        }
        // What can never be an argument is a final error, however little is known of the others.
        let std = &self.ir.builtins[id.idx()];
        // A call with one argument too few waits for the value that it is to constrain.
        let defaults = std_defaults(std.builtin, vals.len());
        let validator = defaults.is_empty() && vals.len() + 1 == n && result == Kind::BOOL;
        // The argument that a validator waits for, and those with a default, need not be written.
        let left_out = usize::from(validator) + defaults.len();
        if vals.len() + left_out != n {
            let name = self.func_name(id);
            self.check_arity(&name, n, vals.len(), e)?;
        }
        for (i, (param, val)) in std.builtin.params.iter().zip(&vals).enumerate() {
            if !validator && self.never(val, param.kind) {
                let (name, want) = (self.func_name(id), param.kind.to_string());
                return Err(self.arg_error(&name, val, i + 1, &want, e));
            }
        }
        // Of a list at least the length has to be known.
        let of_list = std.builtin.params.first().is_some_and(|p| p.kind == Kind::LIST);
        let concrete = match (lazy, of_list) {
            (false, _) => vals.len(),
            (true, true) if !validator => 1,
            (true, _) => 0,
        };
        // A function of values needs them whole, one of nodes only what it measures.
        for (val, &arg) in vals.iter_mut().zip(args).take(concrete) {
            // What a validator compares with has to be known when there is a value to compare.
            if validator && self.is_open_scalar(val) {
                if let Val::Node(w) = *val
                    && let Some(default) = self.default_of(w)
                {
                    *val = default;
                }
            } else if !val.is_atom() {
                let open = std::mem::replace(val, Val::Top);
                *val = self.make_concrete(open, arg, "argument")?;
            }
        }
        vals.extend(defaults);
        if validator {
            return Ok(Val::Validator(Arc::new(Validator {
                func: Func::Std(id),
                args: vals,
                expr: e,
                env,
            })));
        }
        let name = self.func_name(id);
        self.check_arity(&name, n, vals.len(), e)?;
        if !validates {
            return self.run_std(id, &vals, false, e);
        }
        // A schema may call the function that is validating by it, without end.
        self.begin_validation(e, &Val::Null)?;
        let result = self.run_std(id, &vals, false, e);
        self.s.validating.pop();
        result
    }

    /// Whether a value is no choice, struct or list, and not known: a type, a bound and the like.
    pub(super) fn is_open_scalar(&mut self, val: &Val) -> bool {
        let Val::Node(w) = val else { return !val.is_atom() };
        let w = match self.default_of(*w) {
            Some(Val::Node(chosen)) => self.deref(chosen),
            Some(val) => return !val.is_atom(),
            None => self.deref(*w),
        };
        let vertex = self.v(w);
        vertex.phase == Phase::Settled
            && !vertex.atom.is_atom()
            && !vertex.is_struct
            && !vertex.is_list
            && vertex.error.or(vertex.incomplete).is_none()
            && !self.has_choice(w)
    }

    /// What a struct or list waits for itself; what its fields wait for does not count.
    fn waiting_struct(&mut self, val: &Val) -> Option<super::ErrId> {
        let Val::Node(w) = val else { return None };
        let w = self.deref(*w);
        let vertex = self.v(w);
        let known = vertex.phase == Phase::Settled && (vertex.is_struct || vertex.is_list);
        vertex.incomplete.filter(|e| known && self.class(*e) == Class::Incomplete)
    }

    /// A function as it is written in a call: package and name.
    pub(crate) fn func_name(&self, id: BuiltinId) -> String {
        let std = &self.ir.builtins[id.idx()];
        let package = std.package.rsplit('/').next().unwrap_or_default();
        format!("{package}.{}", std.name)
    }

    /// Runs a function. One that is asked (not `validating`) answers false where a validator
    /// explains what is wrong.
    pub(super) fn run_std(
        &mut self,
        id: BuiltinId,
        vals: &[Val],
        validating: bool,
        e: ExprId,
    ) -> Res<Val> {
        let std = &self.ir.builtins[id.idx()];
        let builtin = std.builtin;
        let name = self.func_name(id);
        for (i, (val, param)) in vals.iter().zip(builtin.params).enumerate() {
            let kind = self.val_kind(val);
            if !kind.intersects(param.kind) {
                let want = param.kind.to_string();
                return Err(self.arg_error(&name, val, i + 1, &want, e));
            }
        }
        let outcome = match &builtin.run {
            Run::Lazy(lazy) => return self.run_lazy(*lazy, vals, validating, &name, e),
            Run::Pure(f) => {
                // The arguments are freed when the function has run.
                let held = self.s.budget.held();
                let mut args = Vec::with_capacity(vals.len());
                for (i, val) in vals.iter().enumerate() {
                    let value = match val {
                        Val::Node(w) => {
                            let w = *w;
                            // The function sees a copy of the data, so everything below is computed
                            // and free of errors first.
                            self.deep_aside(w);
                            if let Some(err) = self.final_error(w) {
                                return Err(err);
                            }
                            self.check_no_cycle(w)?;
                            let elem = builtin.params.get(i).map_or(Kind::TOP, |p| p.elem);
                            self.check_elements(w, elem, i, e)?;
                            // A function may write its argument out, so the fields have the order
                            // of the source; `encoding/json` writes regular fields only.
                            let outer = (self.s.ordered, self.s.visible);
                            let visible = self.ir.builtins[id.idx()].package == "encoding/json";
                            (self.s.ordered, self.s.visible) = (true, visible);
                            let value = self.value_of(w);
                            (self.s.ordered, self.s.visible) = outer;
                            value?
                        }
                        val => self.value_of_val(val, Vid::NONE)?,
                    };
                    let elem = builtin.params.get(i).map_or(Kind::TOP, |p| p.elem);
                    if let Value::List(items) = &value
                        && let Some((j, bad)) =
                            items.iter().enumerate().find(|(_, x)| !x.kind().intersects(elem))
                    {
                        let text = format!(
                            "invalid list element {j} in argument {i} to call: cannot use value {} (type {}) as {elem}",
                            bad.to_json_text(),
                            bad.kind()
                        );
                        return Err(self.text_err(Class::Eval, text, e));
                    }
                    args.push(value);
                }
                let budget = &mut self.s.budget;
                // Charged before it runs, not when it has used it up.
                let outcome = pay_for(&args, budget).map_err(BuiltinError::from);
                let outcome = outcome.and_then(|()| f(&args, budget));
                budget.release(held);
                outcome
            }
        };
        match outcome {
            Ok(value) => {
                // The result stays, so it is held and costs steps by its size.
                let size = value.size();
                self.hold(size)?;
                self.steps(usize::try_from(size >> 5).unwrap_or(usize::MAX))?;
                if self.is_yaml_without_document(id, vals, &value) {
                    return Ok(self.no_document(matches!(value, Value::List(_))));
                }
                Ok(self.adopt(&value))
            }
            Err(BuiltinError::Limit(limit)) => Err(self.limit(limit)),
            Err(BuiltinError::Invalid(_)) if !validating => Ok(Val::Bool(false)),
            Err(BuiltinError::Invalid(text)) => Err(self.text_err(Class::Eval, text, e)),
            Err(BuiltinError::Message(text)) => {
                let text = format!("error in call to {name}: {text}");
                Err(self.text_err(Class::Eval, text, e))
            }
        }
    }

    /// Whether a YAML text was read that has no document, not even an empty one: only comments and the like.
    fn is_yaml_without_document(&mut self, id: BuiltinId, vals: &[Val], value: &Value) -> bool {
        let nothing = match value {
            Value::Null => true,
            Value::List(list) => matches!(list.as_slice(), [Value::Null]),
            _ => false,
        };
        let std = &self.ir.builtins[id.idx()];
        if !nothing || std.package != "encoding/yaml" {
            return false;
        }
        let bytes: &[u8] = match vals.first() {
            Some(Val::Str(text)) => text.as_bytes(),
            Some(Val::Bytes(bytes)) => bytes,
            _ => return false,
        };
        let documents =
            crate::std::yaml::read_stream(&String::from_utf8_lossy(bytes), &mut self.s.budget);
        documents.is_ok_and(|documents| documents.is_empty())
    }

    /// What is read where there is nothing: null, unless something else is said.
    fn no_document(&mut self, stream: bool) -> Val {
        // One for all: a choice is known by what it is a choice of, however often the text is read.
        let mut data = match self.s.no_document {
            Some(data) => data,
            None => {
                let alternatives = [Val::Null, Val::Top].map(|val| self.push_data(Data::Val(val)));
                let items = alternatives.map(|data| (Label::int(0), data));
                let (start, len) = self.add_items(&items);
                self.push_data(Data::Choice(start, len))
            }
        };
        self.s.no_document = Some(data);
        if stream {
            let (start, len) = self.add_items(&[(Label::int(0), data)]);
            data = self.push_data(Data::List(start, len));
        }
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        self.vm(w).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
        self.settle(w);
        Val::Node(w)
    }

    /// Elements that are yet to be known must at least be able to become what is wanted.
    fn check_elements(&mut self, list: Vid, elem: Kind, i: usize, e: ExprId) -> Res<()> {
        let list = self.chosen(list);
        if elem == Kind::TOP || !self.v(list).is_list {
            return Ok(());
        }
        for (j, &(_, w)) in self.v(list).arcs.clone().iter().filter(|(l, _)| l.is_int()).enumerate()
        {
            self.step()?;
            let whole = self.deref(w);
            let w = self.chosen(w);
            let kind = match self.default_of(w) {
                Some(default) => self.val_kind(&default),
                None => self.node_kind(w),
            };
            // The first element that is not known or is wrong counts.
            if kind.is_bottom() || self.v(w).incomplete.is_some() {
                return Ok(());
            }
            if kind.intersects(elem) {
                let vertex = self.v(w);
                let known = vertex.atom.is_atom() || vertex.is_struct || vertex.is_list;
                if !known && self.default_of(w).is_none_or(|default| !default.is_atom()) {
                    return Ok(());
                }
            } else {
                // Another alternative than the default may be one.
                if self.node_kind(whole).intersects(elem) {
                    let text = format!(
                        "non-concrete value {} for element {j} of {elem} list argument {i}",
                        self.show(whole)
                    );
                    return Err(self.text_err(Class::Incomplete, text, e));
                }
                let text = format!(
                    "invalid list element {j} in argument {i} to call: cannot use value {} ({kind}) as {elem}",
                    self.show(w)
                );
                return Err(self.text_err(Class::Eval, text, e));
            }
        }
        Ok(())
    }

    /// A concrete value as the evaluator sees it.
    pub(crate) fn adopt(&mut self, value: &Value) -> Val {
        match value {
            Value::Null => Val::Null,
            Value::Bool(b) => Val::Bool(*b),
            Value::Number(n) => Val::from_number(n.clone()),
            Value::String(s) => Val::Str(s.clone()),
            Value::Bytes(b) => Val::Bytes(Arc::clone(b)),
            Value::List(_) | Value::Struct(_) => {
                // Structure becomes a vertex over injected data.
                let data = self.add_data(value);
                let w = self.new_vertex(Vid::NONE, Label::NONE);
                self.vm(w).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
                self.settle(w);
                Val::Node(w)
            }
        }
    }

    /// The node that an argument is.
    pub(super) fn node_arg(&mut self, vals: &[Val], i: usize) -> Option<Vid> {
        match vals.get(i) {
            Some(Val::Node(w)) => Some(self.deref(*w)),
            _ => None,
        }
    }

    /// The integer that an argument is. One that is not known yet is incomplete, anything else is
    /// wrong.
    pub(super) fn int_arg(&mut self, vals: &[Val], i: usize, name: &str, e: ExprId) -> Res<i64> {
        let chosen = match vals.get(i) {
            Some(Val::Node(w)) if self.default_of(*w).is_some() => {
                Some(self.make_concrete(Val::Node(*w), e, "argument")?)
            }
            _ => None,
        };
        match chosen.as_ref().or(vals.get(i)) {
            Some(Val::Int(n)) => Ok(*n),
            Some(val) if !val.is_atom() && self.val_kind(val).intersects(Kind::INT) => {
                let msg = Msg::NonConcrete(self.val_kind(val), "argument");
                Err(self.err_at(Class::Incomplete, msg, Vid::NONE, &[e]))
            }
            other => {
                let val = other.cloned().unwrap_or(Val::Top);
                Err(self.arg_error(name, &val, i + 1, "int", e))
            }
        }
    }

    /// The error that a function itself reports.
    pub(super) fn call_error(&mut self, name: &str, why: &str, e: ExprId) -> super::ErrId {
        self.text_err(Class::Eval, format!("error in call to {name}: {why}"), e)
    }

    /// Functions that look at nodes: what they do not look at need not be known.
    fn run_lazy(
        &mut self,
        lazy: Lazy,
        vals: &[Val],
        validating: bool,
        name: &str,
        e: ExprId,
    ) -> Res<Val> {
        match lazy {
            Lazy::StructMinFields | Lazy::StructMaxFields => {
                let Some(w) = self.node_arg(vals, 0) else { return Ok(Val::Bool(false)) };
                let n = self
                    .v(w)
                    .arcs
                    .iter()
                    .filter(|(l, a)| l.is_string() && self.v(*a).arc == super::ArcKind::Member)
                    .count();
                let limit = self.int_arg(vals, 1, name, e)?;
                let n = len_int(n);
                let (ok, what) = if lazy == Lazy::StructMinFields {
                    (n >= limit, "MinFields")
                } else {
                    (n <= limit, "MaxFields")
                };
                if ok {
                    return Ok(Val::Bool(true));
                }
                if !validating {
                    return Ok(Val::Bool(false));
                }
                let sign = if what == "MinFields" { "<" } else { ">" };
                let why = format!("len(fields) {sign} {what}({limit}) ({n} {sign} {limit})");
                // Fewer fields than wanted may still become enough.
                let possible = self.v(w).arcs.iter().filter(|(l, _)| l.is_string()).count();
                let patterns = self.v(w).extra.as_ref().is_some_and(|x| !x.patterns.is_empty());
                let full = self.is_closed(w) && !patterns && len_int(possible) < limit;
                let class =
                    if what == "MinFields" && !full { Class::Incomplete } else { Class::Eval };
                Err(self.text_err(class, why, e))
            }
            Lazy::JsonValidate | Lazy::YamlValidate | Lazy::YamlValidatePartial => {
                self.validate_text(lazy, vals, name, e)
            }
            _ => self.run_list_lazy(lazy, vals, validating, name, e),
        }
    }

    /// `json.Validate`, `yaml.Validate` and `yaml.ValidatePartial`: a text against a schema.
    fn validate_text(&mut self, lazy: Lazy, vals: &[Val], name: &str, e: ExprId) -> Res<Val> {
        let bytes: &[u8] = match vals.first() {
            Some(Val::Str(s)) => s.as_bytes(),
            Some(Val::Bytes(b)) => b,
            _ => &[],
        };
        let text = String::from_utf8_lossy(bytes).into_owned();
        let budget = &mut self.s.budget;
        let documents = if lazy == Lazy::JsonValidate {
            crate::std::json::read(&text, budget).map(|value| vec![value])
        } else {
            crate::std::yaml::read_stream(&text, budget)
        };
        let documents = match documents {
            Ok(documents) => documents,
            Err(BuiltinError::Limit(limit)) => return Err(self.limit(limit)),
            Err(BuiltinError::Message(why) | BuiltinError::Invalid(why)) => {
                return Err(self.call_error(name, &why, e));
            }
        };
        // The schema is a vertex, so that it can be a conjunct.
        let schema = match vals.get(1) {
            Some(Val::Node(w)) => *w,
            Some(val) => {
                let src = self.new_val(val.clone());
                self.anon(Conj::new(src, EnvId::NONE))
            }
            None => return Ok(Val::Bool(true)),
        };
        // Every document of a stream has to match; where there is none, what is read instead.
        let mut documents: Vec<Val> = documents.iter().map(|value| self.adopt(value)).collect();
        let nothing = documents.is_empty();
        if nothing {
            documents.push(self.no_document(false));
        }
        for value in documents {
            let src = match value {
                Val::Node(x) => Src::Node(x),
                val => self.new_val(val),
            };
            // Document and schema unify: an error of the result is what is wrong with the document.
            let w = self.new_vertex(Vid::NONE, Label::NONE);
            let conjs = [Conj::new(src, EnvId::NONE), Conj::new(Src::Node(schema), EnvId::NONE)];
            self.vm(w).conjs.extend(conjs);
            self.deep_aside(w);
            if let Some(err) = self.final_error(w) {
                if self.class(err) == Class::StructuralCycle {
                    let msg = Msg::StructuralCycle;
                    return Err(self.err_at(Class::StructuralCycle, msg, Vid::NONE, &[e]));
                }
                let why = self.message(err);
                return Err(self.call_error(name, &why, e));
            }
            // A partial validation is content with what is incomplete.
            if lazy != Lazy::YamlValidatePartial
                && let Err(err) = self.value_of(w)
            {
                if !nothing {
                    return Err(err);
                }
                let why = self.message(err);
                return Err(self.call_error(name, &why, e));
            }
        }
        Ok(Val::Bool(true))
    }
}

/// Every function looks at all of its arguments, may copy them, and may calculate with the digits
/// of numbers; what takes more than that is counted by the function itself.
fn pay_for(args: &[Value], budget: &mut Budget) -> Result<(), LimitError> {
    // A step for every 32 bytes, and room for a copy of what is read and of what is written.
    let size: u64 = args.iter().map(Value::size).sum();
    budget.steps(size >> 5)?;
    budget.room(size.saturating_mul(2))?;
    let words = args.iter().filter_map(Value::as_number).map(Number::whole_words).sum();
    budget.arithmetic(words)?;
    for list in args.iter().filter_map(Value::as_list) {
        for number in list.iter().filter_map(Value::as_number) {
            budget.arithmetic(number.whole_words())?;
        }
    }
    Ok(())
}

/// The strings that stand for arguments left out at the end, if all of them have one.
pub(super) fn std_defaults(builtin: &crate::std::Builtin, given: usize) -> Vec<Val> {
    let rest = builtin.params.get(given..).unwrap_or_default();
    let defaults = rest.iter().map(|p| p.default.map(|d| Val::Str(d.into())));
    defaults.collect::<Option<_>>().unwrap_or_default()
}
