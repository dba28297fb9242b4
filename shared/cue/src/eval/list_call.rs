//! Functions of package `list` that look at nodes instead of values, and slices.
//!
//! They move elements about, and an element that is not concrete is moved like any other: the
//! result is a list of the same vertices. `list.Take([1, int, 3], 2)` is `[1, int]`. The elements
//! are settled all the same, since one that has failed makes the call fail, needed or not.

use super::data::{Conj, EnvId, Res, Val, Vid};
use super::equal::Parts;
use super::state::Machine;
use crate::error::Class;
use crate::ir::ExprId;
use crate::label::Label;
use crate::std::Lazy;
use std::collections::HashMap;

impl Machine<'_> {
    /// An argument with an element that failed is an error, whether the element is needed or not.
    fn all_sound(&mut self, elems: &[Vid]) -> Res<()> {
        for &w in elems {
            self.step()?;
            self.settle(w);
            let target = self.deref(w);
            if let Some(e) = self.v(w).error.or(self.v(target).error) {
                return Err(e);
            }
        }
        Ok(())
    }

    /// Runs a function of package `list` or a validator of lists.
    pub(super) fn run_list_lazy(
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
        // A validator judges a list as it is; a call wants sound arguments.
        if !validating {
            self.all_sound(&elems)?;
            self.check_no_cycle(list)?;
        }
        let len = len_int(elems.len());
        match lazy {
            Lazy::ListConcat => {
                let mut out = Vec::new();
                for w in elems {
                    self.settle(w);
                    let val = self.node_val(w)?;
                    let val = self.make_concrete(val, e, "list.Concat")?;
                    let list = match val {
                        Val::Node(x) => Some(self.deref(x)).filter(|x| self.v(*x).is_list),
                        _ => None,
                    };
                    let Some(x) = list else {
                        return Err(self.arg_error(name, &val, 1, "list", e));
                    };
                    let elems = self.list_elems(x)?;
                    self.all_sound(&elems)?;
                    out.extend(elems);
                }
                self.new_list(&out)
            }
            // The length is known before the list is made, and is refused if it is too long.
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
                // Each wrong bound has an error of its own.
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
                // More than there are is all of them.
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
                // An open list may still grow long enough.
                let open = !self.v(list).list_closed && lazy == Lazy::ListMinItems;
                let class = if open { Class::Incomplete } else { Class::Eval };
                Err(self.text_err(class, why, e))
            }
            Lazy::ListUniqueItems => self.unique_items(&elems, validating, e),
            Lazy::ListContains => {
                let wanted = vals.get(1).cloned().unwrap_or(Val::Top);
                let wanted = self.make_concrete(wanted, e, "argument")?;
                let src = self.new_val(wanted);
                let wanted = self.anon(Conj::new(src, EnvId::NONE));
                // Concrete elements are compared by their text, others node by node.
                let key = self.data_key(wanted)?;
                for w in elems {
                    let held = self.s.budget.held();
                    let same = match (&key, self.data_key(w)?) {
                        (Some(wanted_key), Some(key)) => {
                            *wanted_key == key && self.same_besides_data(wanted, w)?
                        }
                        _ => self.equal_nodes(wanted, w, Parts::Present),
                    };
                    // The key is gone, if not what was computed for it.
                    self.s.budget.release(held);
                    if same {
                        return Ok(Val::Bool(true));
                    }
                }
                Ok(Val::Bool(false))
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
                    if self.final_error(met).is_none() && !self.lacks_required(met, met, &Val::Top)
                    {
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
                // The count is a constraint itself: `>1`, `2 | 3`.
                if self.fits(&Val::Int(n), count)? {
                    return Ok(Val::Bool(true));
                }
                if !validating {
                    return Ok(Val::Bool(false));
                }
                self.settle(count);
                let why = format!(
                    "number of matched elements is {n}: does not satisfy {}",
                    self.show(count)
                );
                Err(self.text_err(Class::Eval, why, e))
            }
            Lazy::ListSort | Lazy::ListSortStable => match self.node_arg(vals, 1) {
                Some(cmp) => self.sort(elems, cmp, name, e),
                None => Err(self.call_error(name, "comparator is not a struct", e)),
            },
            Lazy::ListIsSorted => match self.node_arg(vals, 1) {
                Some(cmp) => self.is_sorted(&elems, cmp).map(Val::Bool),
                None => Err(self.call_error(name, "comparator is not a struct", e)),
            },
            Lazy::StructMinFields
            | Lazy::StructMaxFields
            | Lazy::JsonValidate
            | Lazy::YamlValidate
            | Lazy::YamlValidatePartial => Ok(Val::Bool(true)),
        }
    }

    /// Whether two values that are the same data have the same definitions and hidden fields, too.
    fn same_besides_data(&mut self, a: Vid, b: Vid) -> Res<bool> {
        let (a, b) = (self.chosen(a), self.chosen(b));
        let given = |m: &Self, v: Vid| -> Vec<(Label, Vid)> {
            let there = |(label, w): &(Label, Vid)| {
                !label.is_let() && m.v(*w).arc == super::ArcKind::Member
            };
            m.v(v).arcs.iter().copied().filter(there).collect()
        };
        let of_a = given(self, a);
        if of_a.len() != given(self, b).len() {
            return Ok(false);
        }
        self.enter()?;
        let same = self.same_fields_besides_data(of_a, b);
        self.leave();
        same
    }

    fn same_fields_besides_data(&mut self, fields: Vec<(Label, Vid)>, other: Vid) -> Res<bool> {
        for (label, w) in fields {
            let found = self.arc(other, label);
            let Some(u) = found.filter(|u| self.v(*u).arc == super::ArcKind::Member) else {
                return Ok(false);
            };
            let is_data = label.is_string() || label.is_int();
            let same = is_data || self.data_key(w)? == self.data_key(u)?;
            if !(same && self.same_besides_data(w, u)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Text that two elements share if they are the same data; none for what is incomplete.
    fn data_key(&mut self, w: Vid) -> Res<Option<String>> {
        self.step()?;
        self.deep_aside(w);
        if let Some(err) = self.final_error(w) {
            return Err(err);
        }
        let held = self.s.budget.held();
        let value = match self.value_of(w) {
            Ok(value) => value,
            Err(err) if self.is_incomplete(err) => return Ok(None),
            Err(err) => return Err(err),
        };
        let mut key = String::new();
        let budget = &mut self.s.budget;
        let written = crate::std::list::canonical(&value, &mut key, budget);
        budget.release(held);
        let written = written.and_then(|()| budget.bytes(key.len() as u64));
        match written {
            Ok(()) => Ok(Some(key)),
            Err(limit) => Err(self.limit(limit)),
        }
    }

    /// Whether nothing more can become of a value: of two equal ones, that they stay equal.
    fn is_final(&mut self, w: Vid) -> bool {
        let w = self.chosen(w);
        if self.enter().is_err() {
            return false;
        }
        let vertex = self.v(w);
        let closed = if vertex.is_list { vertex.list_closed } else { self.is_closed(w) };
        let result = match self.v(w).atom.is_atom() {
            true => true,
            false => {
                let arcs = self.v(w).arcs.clone();
                closed
                    && arcs.iter().all(|&(label, arc)| {
                        // What may still be given tells two structs apart, if it can be given.
                        let given = self.v(arc).arc == super::ArcKind::Member;
                        let regular = label.is_string() || label.is_int();
                        match (regular, given) {
                            (false, _) => true,
                            (true, true) => self.is_final(arc),
                            (true, false) => {
                                self.deep_aside(arc);
                                self.final_error(arc).or_else(|| self.not_allowed(arc)).is_some()
                            }
                        }
                    })
            }
        };
        self.leave();
        result
    }

    /// `list.UniqueItems`. Equal elements are an error only if they can never come to differ.
    fn unique_items(&mut self, elems: &[Vid], validating: bool, e: ExprId) -> Res<Val> {
        // Concrete elements are found in a table by their text. Only the others are compared
        // pairwise.
        let mut seen: HashMap<String, usize> = HashMap::new();
        // Positions of elements without a text.
        let mut open: Vec<usize> = Vec::new();
        let mut equal = None;
        for (at, &w) in elems.iter().enumerate() {
            let first = match self.data_key(w)? {
                Some(key) => seen.insert(key, at),
                None => {
                    let mut first = None;
                    for &other in &open {
                        self.step()?;
                        if self.equal_nodes(elems[other], w, Parts::Regular) {
                            first = Some(other);
                            break;
                        }
                    }
                    open.push(at);
                    first
                }
            };
            let Some(first) = first else { continue };
            if !validating {
                return Ok(Val::Bool(false));
            }
            // Equal structs that are open may yet come to differ.
            if self.is_final(w) {
                equal = Some((first, at, Class::Eval));
                break;
            }
            equal = Some((first, at, Class::Incomplete));
        }
        let Some((first, at, class)) = equal else { return Ok(Val::Bool(true)) };
        let w = self.chosen(elems[at]);
        let atom = self.v(w).atom.clone();
        let why = match atom.is_atom() {
            true => {
                let shown = self.val_text(&atom);
                format!("equal value ({shown}) at position {first} and {at}")
            }
            false => format!("equal values at position {first} and {at}"),
        };
        Err(self.text_err(class, why, e))
    }

    /// The elements of nested lists in order, with their defaults. A negative depth flattens all the way.
    fn flatten(&mut self, elems: &[Vid], depth: i64, out: &mut Vec<Vid>) -> Res<()> {
        self.enter()?;
        for &w in elems {
            self.settle(w);
            let r = self.deref(w);
            let (w, r) = match self.default_of(r) {
                Some(Val::Node(chosen)) => (w, self.deref(chosen)),
                Some(chosen) => {
                    let src = self.new_val(chosen);
                    let w = self.anon(Conj::new(src, EnvId::NONE));
                    self.settle(w);
                    (w, w)
                }
                None => (w, r),
            };
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

    /// `x[lo:hi]` of a list or of bytes; nothing else can be sliced.
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
        // A bound outside is an error: nothing is cut off.
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

/// A length as a value.
pub(super) fn len_int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A position that is known not to be negative.
fn index(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
