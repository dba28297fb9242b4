//! Validators: functions that stand for a constraint, those of the language and of packages.
//!
//! A validator waits until the vertex that it constrains has a value, and then judges it. `matchN`
//! and `matchIf` unify the value with schemas on the side: the results are thrown away, what counts
//! is whether they failed.
//!
//! # A worked example
//!
//! ```cue
//! x: matchN(1, [{a!: int}, {b!: string}])
//! x: a: 1
//! ```
//!
//! `x` is settled to `{a: 1}`, and the validator unifies that with each schema. With the first
//! nothing fails, and the required `a` is there: a match. With the second nothing fails either, but
//! `b` is required and missing. It may still come, so that schema is a possible match. One matches,
//! as `1` demands: `x` is valid.
//!
//! With `matchN(2, ...)` one match is too few, but two are possible: incomplete, not failed. With
//! `matchN(3, ...)` no addition helps: an error.

use super::call::MOST_NESTED;
use super::call::std_defaults;
use super::data::{
    ArcKind, Conj, Data, DataId, EnvId, ErrId, Func, Msg, Phase, Res, Src, Val, Validator, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Core, Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use crate::std::Run;

impl Machine<'_> {
    /// The kinds of values that a validator can judge.
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

    /// The verdict of one function; its own failure is no verdict.
    fn apply_validator(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        match x.func {
            Func::Core(Core::MatchN) => self.match_n(x, val),
            Func::Core(Core::MatchIf) => self.match_if(x, val),
            Func::Core(_) => Ok(None),
            Func::Std(id) => {
                // The value is the first argument of the function, those that were written follow.
                let mut vals = vec![val.clone()];
                vals.extend(x.args.iter().cloned());
                let std = &self.ir.builtins[id.idx()];
                vals.extend(std_defaults(std.builtin, vals.len()));
                if vals.len() != std.builtin.params.len() {
                    let text = format!("{} is not a validator", self.func_name(id));
                    return Err(self.text_err(Class::Eval, text, x.expr));
                }
                // What it compares with was perhaps not known when it was said. Functions of nodes ask for it
                // themselves.
                let pure = matches!(std.builtin.run, Run::Pure(_));
                for val in vals.iter_mut().skip(1) {
                    if pure && self.is_open_scalar(val) {
                        *val = self.make_concrete(val.clone(), x.expr, "argument")?;
                    }
                }
                let shown = self.ir.text(x.expr).to_owned();
                match self.run_std(id, &vals, true, x.expr) {
                    Ok(Val::Bool(true)) => Ok(None),
                    Ok(_) => Ok(Some(format!(
                        "invalid value {} (does not satisfy {shown})",
                        self.val_text(val)
                    ))),
                    // What may still come true, has no end or ran out of budget is no verdict about
                    // the value.
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

    /// A vertex that unifies a value with a schema, computed as a whole. Nobody else refers to it.
    pub(super) fn meet_with(&mut self, val: &Val, schema: Vid) -> Res<Vid> {
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        match val {
            Val::Node(x) => self.take_choices(w, *x),
            val => {
                let src = self.new_val(val.clone());
                self.vm(w).conjs.push(Conj::new(src, EnvId::NONE));
            }
        }
        self.vm(w).conjs.push(Conj::new(Src::Node(schema), EnvId::NONE));
        self.deep_aside(w);
        if self.s.budget.crossed().is_some() {
            return Err(self.limit(crate::limits::LimitError::Steps));
        }
        Ok(w)
    }

    /// What a schema is asked about: the data of a value. What constrains the fields of a struct that may
    /// come, and the validators of the value, have no part in it.
    fn asked(&mut self, x: &Validator, val: &Val) -> Res<Val> {
        let Val::Node(w) = val else { return Ok(val.clone()) };
        // A validator at work within itself keeps the value with what led to it, so that a circle is seen.
        if self.s.validating.iter().filter(|(e, _)| *e == x.expr).count() > 1 {
            return Ok(val.clone());
        }
        let w = self.deref(*w);
        let vertex = self.v(w);
        let plain = vertex.is_struct || vertex.is_list && vertex.list_closed;
        if !plain || vertex.atom.is_atom() || vertex.is_struct && vertex.is_list {
            return Ok(val.clone());
        }
        let data = self.data_of(w, 0)?;
        let asked = self.new_vertex(Vid::NONE, Label::NONE);
        self.vm(asked).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
        Ok(Val::Node(asked))
    }

    /// The regular fields and elements of a struct or list as data; what is no plain struct, list or atom
    /// stays the vertex it is.
    fn data_of(&mut self, w: Vid, depth: u32) -> Res<DataId> {
        let list = self.v(w).is_list;
        let mut items = Vec::new();
        let mut i = 0;
        while let Some(&(label, arc)) = self.v(w).arcs.get(i) {
            i += 1;
            if !(label.is_string() || label.is_int()) || self.v(arc).arc != ArcKind::Member {
                continue;
            }
            self.step()?;
            items.push((label, self.data_of_field(arc, depth)?));
        }
        let (start, len) = self.add_items(&items);
        Ok(self.push_data(if list { Data::List(start, len) } else { Data::Struct(start, len) }))
    }

    fn data_of_field(&mut self, arc: Vid, depth: u32) -> Res<DataId> {
        const MOST: u32 = 100;
        let target = self.deref(arc);
        let running = matches!(self.v(target).phase, Phase::Settling | Phase::Expanding);
        if running || depth >= MOST {
            return Ok(self.push_data(Data::Node(arc)));
        }
        self.settle(arc);
        let chosen = self.chosen(arc);
        self.settle(chosen);
        let chosen = self.chosen(chosen);
        let vertex = self.v(chosen);
        let known = vertex.error.or(vertex.incomplete).is_none();
        if !known || vertex.phase != Phase::Settled {
            return Ok(self.push_data(Data::Node(arc)));
        }
        let open = vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty());
        if vertex.atom.is_atom() {
            let atom = vertex.atom.clone();
            return Ok(self.push_data(Data::Val(atom)));
        }
        if let Some(atom) = self.default_of(chosen).filter(Val::is_atom) {
            return Ok(self.push_data(Data::Val(atom)));
        }
        if open || !(vertex.is_struct || vertex.is_list && vertex.list_closed) {
            return Ok(self.push_data(Data::Node(arc)));
        }
        self.data_of(chosen, depth + 1)
    }

    /// Makes a vertex what another is; of one that is tried as an alternative that alternative, not the
    /// whole disjunction once more.
    fn take_choices(&mut self, w: Vid, x: Vid) {
        let choices = self.v(x).extra.as_ref().map(|extra| extra.choices.clone());
        match choices {
            Some(choices) if !choices.is_empty() => {
                let conjs = self.v(x).conjs.clone();
                self.vm(w).conjs.extend(conjs);
                self.extra(w).choices = choices;
            }
            _ => self.vm(w).conjs.push(Conj::new(Src::Node(x), EnvId::NONE)),
        }
    }

    /// The error that keeps a value from matching a schema: a schema that has failed by itself matches nothing,
    /// wherever in it that is.
    fn rejection(&mut self, met: Vid, schema: Vid) -> Option<ErrId> {
        let e = self.mismatch(met);
        if e.is_some() || self.final_error(met).is_none() {
            return e;
        }
        self.deep_aside(schema);
        self.final_error(schema).filter(|e| matches!(self.class(*e), Class::Eval | Class::User))
    }

    /// The error that keeps a value from matching what a schema says. What fails in definitions and hidden
    /// fields does not count.
    fn mismatch(&mut self, met: Vid) -> Option<ErrId> {
        let e = self.final_error(met)?;
        let w = self.deref(met);
        let own = self.v(met).error.or(self.v(w).error).is_some();
        if own || self.class(e) == Class::StructuralCycle || self.enter().is_err() {
            return Some(e);
        }
        let arcs = self.v(w).arcs.clone();
        let seen = arcs.into_iter().filter(|(label, _)| label.is_string() || label.is_int());
        let found = seen
            .filter(|(_, arc)| self.v(*arc).arc != ArcKind::Optional)
            .map(|(_, arc)| arc)
            .collect::<Vec<_>>();
        let found = found.into_iter().find_map(|arc| self.mismatch(arc));
        self.leave();
        found
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

    /// Schema, value and what came of both are walked side by side.
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
            // What a schema says of elements and fields that it does not name is not known here.
            let named = of != Some(None) || schema.is_some_and(|schema| !self.says_more(schema));
            if of == Some(None) && named {
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

    /// Whether a schema has elements or fields that it does not name.
    fn says_more(&self, schema: Vid) -> bool {
        let extra = self.v(schema).extra.as_ref();
        extra.is_some_and(|x| {
            !x.patterns.is_empty() || x.rests.iter().any(|r| r.constraint().is_some())
        })
    }

    /// Whether something in what was met cannot be computed yet, definitions and hidden fields aside.
    fn is_unknown(&mut self, met: Vid) -> bool {
        if self.incomplete_error(met).is_none() {
            return false;
        }
        let w = self.deref(met);
        if self.v(w).incomplete.is_some() || self.enter().is_err() {
            return true;
        }
        let arcs = self.v(w).arcs.clone();
        let unknown = arcs.into_iter().any(|(label, arc)| {
            (label.is_string() || label.is_int())
                && self.v(arc).arc == ArcKind::Member
                && self.is_unknown(arc)
        });
        self.leave();
        unknown
    }

    /// `matchN(count, schemas)`: how many of the schemas match. One that may still match counts as
    /// possible.
    fn match_n(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        let [Val::Node(count), Val::Node(list)] = x.args.as_slice() else { return Ok(None) };
        self.check_argument(*count)?;
        self.check_kind(*count, Kind::INT, 2, "int", x.expr)?;
        self.check_kind(*list, Kind::LIST, 3, "list", x.expr)?;
        let asked = &self.asked(x, val)?;
        let schemas = self.chosen(*list);
        let elems = self.list_elems(schemas)?;
        let (mut n, mut possible) = (0, 0);
        // A schema that contains itself is an error only where this validator is already at work.
        let mut endless = None;
        for w in &elems {
            let met = self.meet_with(asked, *w)?;
            if let Some(e) = self.rejection(met, *w) {
                endless = endless.or((self.class(e) == Class::StructuralCycle).then_some(e));
                continue;
            }
            // What is still required may come and make it match.
            if self.is_unknown(met) || self.lacks_required(met, *w, asked) {
                possible += 1;
            } else {
                n += 1;
            }
        }
        // What is not known to be a list has no schemas, and no number of them is right.
        let is_list = self.v(schemas).is_list;
        if is_list && self.fits(&Val::Int(n), *count)? {
            return Ok(None);
        }
        // With some of those that are possible the number may become right.
        let mut open = false;
        for more in 1..=possible {
            open = open || self.fits(&Val::Int(n + more), *count)?;
        }
        // A schema that contains itself has no end in any definition either.
        let within_itself = self.s.validating.iter().filter(|(e, _)| *e == x.expr).count() > 1;
        if let Some(e) = endless.filter(|_| within_itself) {
            return Err(e);
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
            // A schema that leads back to itself ends where the value does, if it is needed at all.
            Some(e) if self.class(e) != Class::StructuralCycle => Err(e),
            _ => Ok(()),
        }
    }

    /// A condition of which it is not known what fields it has is neither met nor unmet, whatever the others say.
    fn check_condition(&mut self, cond: Vid) -> Res<()> {
        let cond = self.deref(cond);
        let waits = self.v(cond).incomplete.filter(|e| self.class(*e) == Class::Incomplete);
        waits.map_or(Ok(()), Err)
    }

    /// What can never be an argument is an error, however many schemas match. The reference counts the value
    /// that is judged as the first.
    fn check_kind(&mut self, arg: Vid, want: Kind, i: usize, name: &str, at: ExprId) -> Res<()> {
        self.settle(arg);
        let arg = self.chosen(arg);
        if !self.never(&Val::Node(arg), want) {
            return Ok(());
        }
        let val = self.node_val(arg)?;
        Err(self.arg_error("matchN", &val, i, name, at))
    }

    /// `matchIf(cond, then, else)`: which schema applies depends on whether `cond` matches.
    fn match_if(&mut self, x: &Validator, val: &Val) -> Res<Option<String>> {
        let [Val::Node(cond), Val::Node(then), Val::Node(other)] = x.args.as_slice() else {
            return Ok(None);
        };
        for arg in [cond, then, other] {
            self.check_argument(*arg)?;
        }
        self.check_condition(*cond)?;
        // Nor is what follows from it, if it is written there.
        for arg in [then, other] {
            if self.deref(*arg) == *arg && self.v(*arg).is_struct {
                self.check_condition(*arg)?;
            }
        }
        let asked = &self.asked(x, val)?;
        let met = self.meet_with(asked, *cond)?;
        // What is undecided counts as no match, so that the other branch applies.
        let holds = self.rejection(met, *cond).is_none()
            && !self.is_unknown(met)
            && !self.lacks_required(met, *cond, asked);
        let branch = if holds { then } else { other };
        let met = self.meet_with(asked, *branch)?;
        let failed = self.rejection(met, *branch).is_some();
        if !failed && !self.is_unknown(met) && !self.lacks_required(met, *branch, asked) {
            return Ok(None);
        }
        let text = format!("invalid value {} (does not satisfy matchIf)", self.val_text(val));
        // What is still required may come.
        if failed { Ok(Some(text)) } else { Err(self.text_err(Class::Incomplete, text, x.expr)) }
    }
}
