//! Calls: the language's own functions, those of standard packages, validators.

use super::error::{Msg, Res};
use super::state::{Conj, EnvId, Func, Machine, Src, Val, Validator, Vid};
use crate::error::Class;
use crate::ir::{BuiltinId, CallId, Callee, Core, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use crate::std::{BuiltinError, Lazy, Run};
use crate::value::Value;
use std::sync::Arc;

/// How often a validator may run inside itself: as deep as data that it describes may nest.
const MOST_NESTED: usize = 32;

impl Machine<'_> {
    /// A call as a conjunct: `and` and `or` bring the elements of their list in.
    pub(crate) fn call_conj(&mut self, v: Vid, conj: Conj, id: CallId) -> Res<()> {
        let Src::Expr(e) = conj.src else { return Ok(()) };
        let call = &self.ir.calls[id.idx()];
        if let (Callee::Core(core @ (Core::And | Core::Or)), [arg]) =
            (call.callee, call.args.as_slice())
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
        let val = self.call(id, e, conj.env)?;
        self.unify_val(v, val, conj);
        Ok(())
    }

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

    pub(crate) fn call(&mut self, id: CallId, e: ExprId, env: EnvId) -> Res<Val> {
        let ir = self.ir;
        let call = &ir.calls[id.idx()];
        match call.callee {
            Callee::Core(core) => self.core_call(core, &call.args, e, env),
            Callee::Std(id) => self.std_call(id, &call.args, e, env),
            Callee::Expr(f) => {
                let mut val = self.value(f, env)?;
                // A field that nothing but a function was given to.
                if let Val::Node(w) = val {
                    let w = self.deref(w);
                    if let [function @ Val::Validator(_)] = self.v(w).checks.as_slice() {
                        val = function.clone();
                    }
                }
                match &val {
                    Val::CoreFunc(core) => return self.core_call(*core, &call.args, e, env),
                    Val::Validator(x) if x.args.is_empty() => match x.func {
                        Func::Core(core) => return self.core_call(core, &call.args, e, env),
                        Func::Std(id) => return self.std_call(id, &call.args, e, env),
                    },
                    _ => {}
                }
                let text = format!(
                    "cannot call non-function {} (type {})",
                    self.ir.text(f),
                    self.val_kind(&val)
                );
                Err(self.text_err(Class::Eval, text, e))
            }
        }
    }

    fn check_arity(&mut self, name: &str, want: usize, have: usize, e: ExprId) -> Res<()> {
        if have == want {
            return Ok(());
        }
        let what = if have < want { "not enough" } else { "too many" };
        let text = format!("{what} arguments in call to {name} (have {have}, want {want})");
        Err(self.text_err(Class::Eval, text, e))
    }

    fn core_call(&mut self, core: Core, args: &[ExprId], e: ExprId, env: EnvId) -> Res<Val> {
        match core {
            Core::Len => {
                self.check_arity("len", 1, args.len(), e)?;
                let val = self.concrete(args[0], env, "argument to len")?;
                match &val {
                    Val::Str(s) => Ok(Val::Int(len_int(s.len()))),
                    Val::Bytes(b) => Ok(Val::Int(len_int(b.len()))),
                    Val::Node(w) => {
                        let w = self.deref(*w);
                        self.settle(w);
                        let w = self.deref(w);
                        if let Some(err) = self.v(w).error.or(self.v(w).incomplete) {
                            return Err(err);
                        }
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
            Core::Close | Core::And | Core::Or => {
                self.check_arity(core.name(), 1, args.len(), e)?;
                let w = self.anon(Conj::new(Src::Expr(e), env));
                self.settle(w);
                self.node_val(w)
            }
            Core::Div | Core::Mod | Core::Quo | Core::Rem => {
                self.check_arity(core.name(), 2, args.len(), e)?;
                let a = self.concrete(args[0], env, "argument")?;
                let b = self.concrete(args[1], env, "argument")?;
                self.int_division(core, &a, &b, e)
            }
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
                let mut vals = Vec::with_capacity(want);
                for &arg in args {
                    let w = self.anon(Conj::new(Src::Expr(arg), env));
                    vals.push(Val::Node(w));
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

    fn std_call(&mut self, id: BuiltinId, args: &[ExprId], e: ExprId, env: EnvId) -> Res<Val> {
        let std = &self.ir.builtins[id.idx()];
        let (n, result) = (std.builtin.params.len(), std.builtin.result);
        let mut vals = Vec::with_capacity(args.len());
        let validates = matches!(
            std.builtin.run,
            Run::Lazy(Lazy::JsonValidate | Lazy::YamlValidate | Lazy::YamlValidatePartial)
        );
        for (i, &arg) in args.iter().enumerate() {
            if validates && (i == 1 || args.len() == 1) {
                // A schema is looked at together with the value only.
                let w = self.anon(Conj::new(Src::Expr(arg), env));
                vals.push(Val::Node(w));
                continue;
            }
            let std = &self.ir.builtins[id.idx()];
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
                        | Lazy::StructMinFields
                        | Lazy::StructMaxFields
                )
            );
            if lazy {
                let w = self.anon(Conj::new(Src::Expr(arg), env));
                self.settle(w);
                vals.push(self.node_val(w)?);
            } else {
                // Errors of what can never be an argument are final.
                let val = self.value(arg, env)?;
                let want = std.builtin.params.get(i).map_or(Kind::TOP, |p| p.kind);
                if let Val::Kind(kind) = &val
                    && args.len() == n
                {
                    let name = self.func_name(id);
                    if !kind.intersects(want) {
                        return Err(self.arg_error(&name, &val, i + 1, &want.to_string(), e));
                    }
                }
                vals.push(self.make_concrete(val, arg, "argument")?);
            }
        }
        let std = &self.ir.builtins[id.idx()];
        vals.extend(std_defaults(std.builtin, vals.len()));
        if vals.len() + 1 == n && result == Kind::BOOL {
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
        self.begin_validation(e, &Val::Null)?;
        let result = self.run_std(id, &vals, false, e);
        self.s.validating.pop();
        result
    }

    pub(crate) fn func_name(&self, id: BuiltinId) -> String {
        let std = &self.ir.builtins[id.idx()];
        let package = std.package.rsplit('/').next().unwrap_or_default();
        format!("{package}.{}", std.name)
    }

    /// Runs a function. One that is asked (not `validating`) answers false where a validator
    /// explains what is wrong.
    fn run_std(&mut self, id: BuiltinId, vals: &[Val], validating: bool, e: ExprId) -> Res<Val> {
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
                let mut args = Vec::with_capacity(vals.len());
                for (i, val) in vals.iter().enumerate() {
                    let value = match val {
                        Val::Node(w) => {
                            let w = *w;
                            self.deep_aside(w);
                            if let Some(err) = self.final_error(w) {
                                return Err(err);
                            }
                            let elem = builtin.params.get(i).map_or(Kind::TOP, |p| p.elem);
                            self.check_elements(w, elem, i, e)?;
                            let outer = std::mem::replace(&mut self.s.ordered, true);
                            let value = self.value_of(w);
                            self.s.ordered = outer;
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
                f(&args, &mut self.s.budget)
            }
        };
        match outcome {
            Ok(value) => Ok(self.adopt(&value)),
            Err(BuiltinError::Limit(limit)) => Err(self.limit(limit)),
            Err(BuiltinError::Invalid(_)) if !validating => Ok(Val::Bool(false)),
            Err(BuiltinError::Invalid(text)) => Err(self.text_err(Class::Eval, text, e)),
            Err(BuiltinError::Message(text)) => {
                let text = format!("error in call to {name}: {text}");
                Err(self.text_err(Class::Eval, text, e))
            }
        }
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
            let w = self.chosen(w);
            let kind = self.node_kind(w);
            if !kind.is_bottom() && !kind.intersects(elem) {
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
                let data = self.add_data(value);
                let w = self.new_vertex(Vid::NONE, Label::NONE);
                self.vm(w).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
                self.settle(w);
                Val::Node(w)
            }
        }
    }

    pub(crate) fn validator_kind(&self, x: &Validator) -> Kind {
        match x.func {
            Func::Core(_) => Kind::TOP,
            Func::Std(id) => {
                self.ir.builtins[id.idx()].builtin.params.first().map_or(Kind::TOP, |p| p.kind)
            }
        }
    }

    /// Whether a validator takes a schema: it then says which fields there may be.
    pub(crate) fn takes_schema(&self, x: &Validator) -> bool {
        match x.func {
            Func::Core(core) => matches!(core, Core::MatchN | Core::MatchIf),
            Func::Std(_) => false,
        }
    }

    /// Applies a validator; the text of the violation if there is one.
    pub(crate) fn validate_with(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        self.begin_validation(x.expr, val)?;
        let result = self.apply_validator(x, val);
        self.s.validating.pop();
        result
    }

    /// A schema that takes part in itself without the value getting smaller never ends.
    fn begin_validation(&mut self, e: ExprId, val: &Val) -> Res<()> {
        let mut nested = 0;
        let mut again = false;
        for (x, of) in &self.s.validating {
            if *x == e {
                nested += 1;
                again = again || of.is_atom() && self.same_atom(of, val);
            }
        }
        if again || nested >= MOST_NESTED {
            let msg = Msg::StructuralCycle;
            return Err(self.err_at(Class::StructuralCycle, msg, Vid::NONE, &[e]));
        }
        self.s.validating.push((e, val.clone()));
        Ok(())
    }

    fn apply_validator(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        match x.func {
            Func::Core(Core::MatchN) => self.match_n(x, val),
            Func::Core(Core::MatchIf) => self.match_if(x, val),
            Func::Core(_) => Ok(None),
            Func::Std(id) => {
                let mut vals = vec![val.clone()];
                vals.extend(x.args.iter().cloned());
                let std = &self.ir.builtins[id.idx()];
                vals.extend(std_defaults(std.builtin, vals.len()));
                if vals.len() != std.builtin.params.len() {
                    let text = format!("{} is not a validator", self.func_name(id));
                    return Err(self.text_err(Class::Eval, text, x.expr));
                }
                let shown = self.ir.text(x.expr).to_owned();
                match self.run_std(id, &vals, true, x.expr) {
                    Ok(Val::Bool(true)) => Ok(None),
                    Ok(_) => Ok(Some(format!(
                        "invalid value {} (does not satisfy {shown})",
                        self.val_text(val)
                    ))),
                    Err(err)
                        if self.is_incomplete(err)
                            || matches!(self.class(err), Class::Limit | Class::StructuralCycle) =>
                    {
                        Err(err)
                    }
                    Err(err) => {
                        let why = self.message(err);
                        Ok(Some(format!(
                            "invalid value {} (does not satisfy {shown}): {why}",
                            self.val_text(val)
                        )))
                    }
                }
            }
        }
    }

    /// Whether a value unified with a schema is free of final errors.
    fn fits(&mut self, val: &Val, schema: Vid) -> Res<bool> {
        let w = self.meet_with(val, schema)?;
        Ok(self.final_error(w).is_none())
    }

    fn meet_with(&mut self, val: &Val, schema: Vid) -> Res<Vid> {
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        let src = match val {
            Val::Node(x) => Src::Node(*x),
            val => self.new_val(val.clone()),
        };
        let conjs = [Conj::new(src, EnvId::NONE), Conj::new(Src::Node(schema), EnvId::NONE)];
        self.vm(w).conjs.extend(conjs);
        self.deep_aside(w);
        if self.s.budget.crossed().is_some() {
            return Err(self.limit(crate::limits::LimitError::Steps));
        }
        Ok(w)
    }

    /// Whether a required field has not been given, at any depth that was looked at.
    fn lacks_required(&mut self, w: Vid, depth: u32) -> bool {
        let w = self.deref(w);
        let arcs: Vec<(super::ArcKind, Vid)> =
            self.v(w).arcs.iter().map(|(_, a)| (self.v(*a).arc, *a)).collect();
        arcs.into_iter().any(|(kind, a)| match kind {
            super::ArcKind::Required => true,
            super::ArcKind::Member => depth < 100 && self.lacks_required(a, depth + 1),
            _ => false,
        })
    }

    fn match_n(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        let [Val::Node(count), Val::Node(list)] = x.args.as_slice() else { return Ok(None) };
        let elems = self.list_elems(*list)?;
        let (mut n, mut possible) = (0, 0);
        for w in &elems {
            let met = self.meet_with(val, *w)?;
            if self.final_error(met).is_some() {
                continue;
            }
            // What is still required may come and make it match.
            let met = self.deref(met);
            if self.v(met).incomplete.is_some() || self.lacks_required(met, 0) {
                possible += 1;
            } else {
                n += 1;
            }
        }
        if self.fits(&Val::Int(n), *count)? {
            return Ok(None);
        }
        let mut open = false;
        for more in 1..=possible {
            open = open || self.fits(&Val::Int(n + more), *count)?;
        }
        let count = *count;
        self.settle(count);
        let text = format!(
            "invalid value {} (does not satisfy matchN): {n} matched, expected {}",
            self.val_text(val),
            self.show(count)
        );
        if open {
            return Err(self.text_err(Class::Incomplete, text, x.expr));
        }
        Ok(Some(text))
    }

    fn match_if(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        let [Val::Node(cond), Val::Node(then), Val::Node(other)] = x.args.as_slice() else {
            return Ok(None);
        };
        let branch = if self.fits(val, *cond)? { then } else { other };
        if self.fits(val, *branch)? {
            return Ok(None);
        }
        Ok(Some(format!("invalid value {} (does not satisfy matchIf)", self.val_text(val))))
    }

    fn node_arg(&mut self, vals: &[Val], i: usize) -> Option<Vid> {
        match vals.get(i) {
            Some(Val::Node(w)) => Some(self.deref(*w)),
            _ => None,
        }
    }

    fn int_arg(&mut self, vals: &[Val], i: usize, name: &str, e: ExprId) -> Res<i64> {
        match vals.get(i) {
            Some(Val::Int(n)) => Ok(*n),
            other => {
                let val = other.cloned().unwrap_or(Val::Top);
                Err(self.arg_error(name, &val, i + 1, "int", e))
            }
        }
    }

    fn call_error(&mut self, name: &str, why: &str, e: ExprId) -> super::ErrId {
        self.text_err(Class::Eval, format!("error in call to {name}: {why}"), e)
    }

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
        let schema = match vals.get(1) {
            Some(Val::Node(w)) => *w,
            Some(val) => {
                let src = self.new_val(val.clone());
                self.anon(Conj::new(src, EnvId::NONE))
            }
            None => return Ok(Val::Bool(true)),
        };
        // Every document of a stream has to match.
        for value in documents {
            let src = match self.adopt(&value) {
                Val::Node(x) => Src::Node(x),
                val => self.new_val(val),
            };
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
            if lazy != Lazy::YamlValidatePartial {
                self.value_of(w)?;
            }
        }
        Ok(Val::Bool(true))
    }

    fn run_list_lazy(
        &mut self,
        lazy: Lazy,
        vals: &[Val],
        validating: bool,
        name: &str,
        e: ExprId,
    ) -> Res<Val> {
        let Some(list) = self.node_arg(vals, 0) else {
            return Err(self.call_error(name, "not a list", e));
        };
        let elems = self.list_elems(list)?;
        let len = len_int(elems.len());
        match lazy {
            Lazy::ListConcat => {
                let mut out = Vec::new();
                for w in elems {
                    self.settle(w);
                    let val = self.node_val(w)?;
                    let val = self.make_concrete(val, e, "list.Concat")?;
                    let Val::Node(x) = val else {
                        return Err(self.arg_error(name, &val, 1, "list", e));
                    };
                    out.extend(self.list_elems(x)?);
                }
                self.new_list(&out)
            }
            Lazy::ListRepeat => {
                let n = self.int_arg(vals, 1, name, e)?;
                if n < 0 {
                    return Err(self.call_error(name, "negative count", e));
                }
                self.repeat_list(&elems, n, e)
            }
            Lazy::ListSlice => {
                let (lo, hi) = (self.int_arg(vals, 1, name, e)?, self.int_arg(vals, 2, name, e)?);
                if lo < 0 {
                    return Err(self.call_error(name, "negative index", e));
                }
                if lo > hi {
                    let why = format!("invalid index: {lo} > {hi}");
                    return Err(self.call_error(name, &why, e));
                }
                if hi > len {
                    return Err(self.call_error(name, "slice bounds out of range", e));
                }
                let part: Vec<_> = elems.into_iter().take(index(hi)).skip(index(lo)).collect();
                self.new_list(&part)
            }
            Lazy::ListTake | Lazy::ListDrop => {
                let n = self.int_arg(vals, 1, name, e)?;
                if n < 0 {
                    return Err(self.call_error(name, "negative index", e));
                }
                let n = index(n);
                let part: Vec<_> = if lazy == Lazy::ListTake {
                    elems.into_iter().take(n).collect()
                } else {
                    elems.into_iter().skip(n).collect()
                };
                self.new_list(&part)
            }
            Lazy::ListReverse => {
                let part: Vec<_> = elems.into_iter().rev().collect();
                self.new_list(&part)
            }
            Lazy::ListFlattenN => {
                let depth = self.int_arg(vals, 1, name, e)?;
                let mut out = Vec::new();
                self.flatten(&elems, depth, &mut out)?;
                self.new_list(&out)
            }
            Lazy::ListMinItems | Lazy::ListMaxItems => {
                let n = self.int_arg(vals, 1, name, e)?;
                let (ok, sign, what) = if lazy == Lazy::ListMinItems {
                    (len >= n, "<", "MinItems")
                } else {
                    (len <= n, ">", "MaxItems")
                };
                if ok {
                    return Ok(Val::Bool(true));
                }
                if !validating {
                    return Ok(Val::Bool(false));
                }
                let why = format!("len(list) {sign} {what}({n}) ({len} {sign} {n})");
                let open = !self.v(list).list_closed && lazy == Lazy::ListMinItems;
                let class = if open { Class::Incomplete } else { Class::Eval };
                Err(self.text_err(class, why, e))
            }
            Lazy::ListMatchN => {
                let schema = match vals.get(2) {
                    Some(Val::Node(w)) => *w,
                    Some(val) => {
                        let src = self.new_val(val.clone());
                        self.anon(Conj::new(src, EnvId::NONE))
                    }
                    None => return Ok(Val::Bool(true)),
                };
                let mut n = 0;
                for w in elems {
                    // Unlike matchN, this validates: a required field has to be there.
                    let met = self.meet_with(&Val::Node(w), schema)?;
                    if self.final_error(met).is_none() && !self.lacks_required(met, 0) {
                        n += 1;
                    }
                }
                let count = match vals.get(1) {
                    Some(Val::Node(w)) => *w,
                    Some(val) => {
                        let src = self.new_val(val.clone());
                        self.anon(Conj::new(src, EnvId::NONE))
                    }
                    None => return Ok(Val::Bool(true)),
                };
                if self.fits(&Val::Int(n), count)? {
                    return Ok(Val::Bool(true));
                }
                self.settle(count);
                let why = format!(
                    "number of matched elements is {n}: does not satisfy {}",
                    self.show(count)
                );
                Err(self.text_err(Class::Eval, why, e))
            }
            Lazy::ListSort | Lazy::ListSortStable => {
                let Some(cmp) = self.node_arg(vals, 1) else {
                    return Err(self.call_error(name, "comparator is not a struct", e));
                };
                let sorted = self.merge_sort(elems, cmp)?;
                self.new_list(&sorted)
            }
            Lazy::ListIsSorted => {
                let Some(cmp) = self.node_arg(vals, 1) else {
                    return Err(self.call_error(name, "comparator is not a struct", e));
                };
                for pair in elems.windows(2) {
                    if let [a, b] = pair
                        && self.less(cmp, *b, *a)?
                    {
                        return Ok(Val::Bool(false));
                    }
                }
                Ok(Val::Bool(true))
            }
            Lazy::StructMinFields
            | Lazy::StructMaxFields
            | Lazy::JsonValidate
            | Lazy::YamlValidate
            | Lazy::YamlValidatePartial => Ok(Val::Bool(true)),
        }
    }

    fn flatten(&mut self, elems: &[Vid], depth: i64, out: &mut Vec<Vid>) -> Res<()> {
        self.enter()?;
        for &w in elems {
            self.settle(w);
            let r = self.deref(w);
            if self.v(r).is_list && depth != 0 {
                let inner = self.list_elems(r)?;
                self.flatten(&inner, depth.saturating_sub(1).max(-1), out)?;
            } else {
                out.push(w);
            }
            if out.len() as u64 > self.s.budget.limits().list {
                return Err(self.limit(crate::limits::LimitError::List));
            }
        }
        self.leave();
        Ok(())
    }

    /// `cmp & {x: a, y: b}`, then its field `less`.
    fn less(&mut self, cmp: Vid, a: Vid, b: Vid) -> Res<bool> {
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        self.vm(w).conjs.push(Conj::new(Src::Node(cmp), EnvId::NONE));
        for (name, x) in [("x", a), ("y", b)] {
            let label = self.string_label(name);
            self.insert_arc(w, label, super::ArcKind::Member, Conj::new(Src::Node(x), EnvId::NONE));
        }
        let label = self.string_label("less");
        let Some(less) = self.lookup(w, label)? else {
            let e = self.err(Class::Eval, super::text("comparator has no field less"), cmp);
            return Err(e);
        };
        self.settle(less);
        match self.node_val(less)? {
            Val::Bool(b) => Ok(b),
            _ => Err(self.err(Class::Incomplete, super::text("less is not concrete"), less)),
        }
    }

    fn merge_sort(&mut self, elems: Vec<Vid>, cmp: Vid) -> Res<Vec<Vid>> {
        let mut runs: Vec<Vec<Vid>> = elems.into_iter().map(|w| vec![w]).collect();
        while runs.len() > 1 {
            let mut next = Vec::with_capacity(runs.len().div_ceil(2));
            let mut it = runs.into_iter();
            while let Some(a) = it.next() {
                let Some(b) = it.next() else {
                    next.push(a);
                    break;
                };
                let mut merged = Vec::with_capacity(a.len() + b.len());
                let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
                while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
                    if self.less(cmp, y, x)? {
                        merged.extend(b.next());
                    } else {
                        merged.extend(a.next());
                    }
                }
                merged.extend(a);
                merged.extend(b);
                next.push(merged);
            }
            runs = next;
        }
        Ok(runs.pop().unwrap_or_default())
    }

    pub(crate) fn slice(
        &mut self,
        x: ExprId,
        lo: Option<ExprId>,
        hi: Option<ExprId>,
        env: EnvId,
        e: ExprId,
    ) -> Res<Val> {
        let val = self.concrete(x, env, "slice")?;
        let bound = |m: &mut Self, b: Option<ExprId>| -> Res<Option<i64>> {
            let Some(b) = b else { return Ok(None) };
            match m.concrete(b, env, "slice index")? {
                Val::Int(i) if i >= 0 => Ok(Some(i)),
                other => {
                    let text = format!("invalid slice index {}", m.val_text(&other));
                    Err(m.text_err(Class::Eval, text, b))
                }
            }
        };
        let (lo, hi) = (bound(self, lo)?, bound(self, hi)?);
        let range = |n: usize| {
            let (lo, hi) = (lo.unwrap_or(0), hi.unwrap_or(len_int(n)));
            (lo <= hi && hi <= len_int(n)).then(|| (index(lo), index(hi)))
        };
        match &val {
            Val::Node(w) => {
                let w = self.deref(*w);
                if self.v(w).is_list {
                    let elems = self.list_elems(w)?;
                    let Some((lo, hi)) = range(elems.len()) else {
                        return Err(self.text_err(Class::Eval, "slice bounds out of range", e));
                    };
                    return self.new_list(&elems[lo..hi]);
                }
            }
            Val::Bytes(b) => {
                let Some((lo, hi)) = range(b.len()) else {
                    return Err(self.text_err(Class::Eval, "slice bounds out of range", e));
                };
                return Ok(Val::Bytes(b[lo..hi].into()));
            }
            _ => {}
        }
        let text = format!("cannot slice {} (type {})", self.val_text(&val), self.val_kind(&val));
        Err(self.text_err(Class::Eval, text, e))
    }
}

fn len_int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn index(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The strings that stand for arguments left out at the end, if all of them have one.
fn std_defaults(builtin: &crate::std::Builtin, given: usize) -> Vec<Val> {
    let rest = builtin.params.get(given..).unwrap_or_default();
    let defaults = rest.iter().map(|p| p.default.map(|d| Val::Str(d.into())));
    defaults.collect::<Option<_>>().unwrap_or_default()
}
