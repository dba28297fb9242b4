//! Validators: functions that stand for a constraint, those of the language and of packages.

use super::call::MOST_NESTED;
use super::call::std_defaults;
use super::error::{Msg, Res};
use super::state::{Conj, EnvId, Func, Machine, Src, Val, Validator, Vid};
use crate::error::Class;
use crate::ir::{Core, ExprId};
use crate::kind::Kind;
use crate::label::Label;

impl Machine<'_> {
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

    /// Whether a required field has not been given, at any depth that was looked at.
    pub(super) fn lacks_required(&mut self, w: Vid, depth: u32) -> bool {
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
}
