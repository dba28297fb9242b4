//! Functions of package `list` that look at nodes instead of values, and slices.

use super::error::Res;
use super::state::{Conj, EnvId, Machine, Src, Val, Vid};
use crate::error::Class;
use crate::ir::ExprId;
use crate::label::Label;
use crate::std::Lazy;

impl Machine<'_> {
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

pub(super) fn len_int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn index(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
