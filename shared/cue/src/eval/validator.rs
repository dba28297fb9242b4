//! Validators: functions that stand for a constraint, those of the language and of packages.

use super::call::MOST_NESTED;
use super::call::std_defaults;
use super::error::{Msg, Res};
use super::state::{ArcKind, Conj, EnvId, Func, Machine, Src, Val, Validator, Vid};
use crate::error::Class;
use crate::ir::{Core, Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;

impl Machine<'_> {
    pub(crate) fn validator_kind(&self, x: &Validator) -> Kind {
        match x.func {
            Func::Core(_) => Kind::TOP,
            Func::Std(id) => {
                let builtin = self.ir.builtins[id.idx()].builtin;
                let called = !matches!(self.ir.expr(x.expr), Expr::StdFunc(_));
                match builtin.params {
                    [only] if called || builtin.result == Kind::BOOL => only.kind,
                    [first, ..] if called => first.kind,
                    // What is no validator without being called is nothing but a function.
                    _ => Kind::FUNC,
                }
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
    pub(super) fn begin_validation(&mut self, e: ExprId, val: &Val) -> Res<()> {
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
    pub(super) fn fits(&mut self, val: &Val, schema: Vid) -> Res<bool> {
        let w = self.meet_with(val, schema)?;
        Ok(self.final_error(w).is_none())
    }

    pub(super) fn meet_with(&mut self, val: &Val, schema: Vid) -> Res<Vid> {
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

    /// Whether a field that a schema requires of a value has not been given, at any depth that was
    /// looked at. What only the value itself requires is no question of the schema.
    pub(super) fn lacks_required(&mut self, met: Vid, schema: Vid, val: &Val) -> bool {
        let own = match val {
            Val::Node(own) => Some(*own),
            _ => None,
        };
        self.lacks_below(met, Some(schema), own, 0)
    }

    fn lacks_below(&mut self, met: Vid, schema: Option<Vid>, own: Option<Vid>, depth: u32) -> bool {
        if let Some(schema) = schema {
            self.settle(schema);
        }
        let met = self.deref(met);
        let schema = schema.map(|schema| self.deref(schema));
        let own = own.map(|own| self.deref(own));
        // Which of its alternatives was met is not known here.
        let schema = schema
            .filter(|schema| self.v(*schema).extra.as_ref().is_none_or(|x| x.alts.is_empty()));
        let arcs: Vec<(Label, Vid)> =
            self.v(met).arcs.iter().filter(|(label, _)| !label.is_let()).copied().collect();
        arcs.into_iter().any(|(label, arc)| {
            let of = schema.map(|schema| self.arc(schema, label));
            if of == Some(None) {
                return false;
            }
            let of = of.flatten();
            let of_value = own.and_then(|own| self.arc(own, label));
            let required = |at: Option<Vid>| at.map(|w| self.v(w).arc == ArcKind::Required);
            match self.v(arc).arc {
                ArcKind::Required => {
                    required(of).unwrap_or_else(|| required(of_value) != Some(true))
                }
                // Of definitions and hidden fields what a schema requires is never given; they
                // need not be complete themselves.
                ArcKind::Member if label.is_def() || label.is_hidden() => {
                    required(of) == Some(true)
                }
                ArcKind::Member => depth < 100 && self.lacks_below(arc, of, of_value, depth + 1),
                ArcKind::Optional => false,
            }
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
            if self.v(met).incomplete.is_some() || self.lacks_required(met, *w, val) {
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

    /// An argument that cannot be computed is an error, whether the answer depends on it or not.
    fn check_argument(&mut self, arg: Vid) -> Res<()> {
        self.settle(arg);
        let arg = self.deref(arg);
        let vertex = self.v(arg);
        let known = vertex.is_struct || vertex.is_list || vertex.atom.is_atom();
        match vertex.error.or(vertex.incomplete.filter(|_| !known)) {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    fn match_if(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        let [Val::Node(cond), Val::Node(then), Val::Node(other)] = x.args.as_slice() else {
            return Ok(None);
        };
        for arg in [cond, then, other] {
            self.check_argument(*arg)?;
        }
        let met = self.meet_with(val, *cond)?;
        let holds = self.final_error(met).is_none() && !self.lacks_required(met, *cond, val);
        let branch = if holds { then } else { other };
        let met = self.meet_with(val, *branch)?;
        let failed = self.final_error(met).is_some();
        if !failed && !self.lacks_required(met, *branch, val) {
            return Ok(None);
        }
        let text = format!("invalid value {} (does not satisfy matchIf)", self.val_text(val));
        // What is still required may come.
        if failed { Ok(Some(text)) } else { Err(self.text_err(Class::Incomplete, text, x.expr)) }
    }
}
