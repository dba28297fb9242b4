//! Scalars: kinds, atoms, bounds and validators meet.
//!
//! A vertex keeps what its scalar conjuncts say in three parts: the kinds that it may have, an atom
//! if one is known, and the bounds and validators to be checked. Each part only ever gets narrower,
//! so the order of the conjuncts does not matter.
//!
//! # A worked example
//!
//! `port: int & >0 & <=65535 & 8080`
//!
//! | conjunct | kind | atom | checks |
//! |---|---|---|---|
//! | `int` | `int` | | |
//! | `>0` | `int` | | `>0` |
//! | `<=65535` | `int` | | `>0`, `<=65535` |
//! | `8080` | `int` | `8080` | `>0`, `<=65535` |
//!
//! When the vertex is settled, its atom is checked. Without the last conjunct there is nothing to
//! check, and the value stays incomplete. Some constraints decide earlier: `>3 & >5` is `>5`, `>5 &
//! <3` is an error before any value is known, and `int & >2 & <4` is as good as the atom `3`
//! ([`pinned`]).

use super::data::{Conj, EMBED, Msg, Res, Val, Vid};
use super::state::Machine;
use crate::error::Class;
use crate::kind::Kind;
use cue_syntax::ast::UnaryOp;
use std::cmp::Ordering;
use std::sync::Arc;

impl Machine<'_> {
    /// Intersects the kinds of a vertex; an empty result is a conflict.
    pub(crate) fn narrow(&mut self, v: Vid, kind: Kind, c: Conj) {
        let vertex = self.vm(v);
        let new = vertex.kind & kind;
        if new.is_bottom() {
            // Reported once: the first conflict has named its operands.
            if vertex.kind.is_bottom() {
                return;
            }
            let old = vertex.kind;
            vertex.kind = Kind::BOTTOM;
            // The other side of the conflict is the conjunct that narrowed the kind first.
            let witness = vertex.witness;
            let a = witness.map_or_else(|| old.to_string(), |w| self.conj_text(w));
            let b = self.conj_text(c);
            let text =
                format!("conflicting values {a} and {b} (mismatched types {old} and {kind})");
            let at: Vec<_> =
                witness.into_iter().chain([c]).filter_map(|c| self.conj_expr(c)).collect();
            let e = self.err_at(Class::Eval, Msg::Text(text), v, &at);
            self.fail(v, e);
            return;
        }
        if new != vertex.kind {
            vertex.kind = new;
            vertex.witness.get_or_insert(c);
        }
    }

    /// The kinds that a value has or may have. What excludes all of them can never be satisfied.
    pub(crate) fn val_kind(&self, val: &Val) -> Kind {
        match val {
            Val::Top => Kind::TOP,
            Val::Null => Kind::NULL,
            Val::Bool(_) => Kind::BOOL,
            Val::Int(_) => Kind::INT,
            Val::Num(n) => n.kind(),
            Val::Str(_) => Kind::STRING,
            Val::Bytes(_) => Kind::BYTES,
            Val::Kind(k) => *k,
            Val::CoreFunc(crate::ir::Core::Error) => Kind::STRING,
            Val::CoreFunc(_) => Kind::FUNC,
            Val::Bound(op, x) => {
                // `>1` allows integers and floats alike: all numbers have one order.
                let k = self.val_kind(x);
                if k.intersects(Kind::NUMBER) {
                    Kind::NUMBER
                } else if k == Kind::NULL && *op == UnaryOp::NotEqual {
                    // `!=null` allows values of every other kind.
                    Kind::TOP.without(Kind::NULL)
                } else {
                    k
                }
            }
            Val::Validator(x) => self.validator_kind(x),
            Val::All(list) => list.iter().fold(Kind::TOP, |k, x| k & self.val_kind(x)),
            Val::Node(w) => self.node_kind(*w),
        }
    }

    /// Kinds a computed vertex may have.
    pub(crate) fn node_kind(&self, w: Vid) -> Kind {
        let mut w = w;
        loop {
            // Unlike `deref` this does not enter candidates: one that is tried says nothing about
            // the others.
            let vertex = self.v(w);
            match vertex.forward {
                super::data::Forward::No => break,
                super::data::Forward::Share(x) | super::data::Forward::Chosen(x) => w = x,
            }
        }
        let vertex = self.v(w);
        if vertex.error.is_some() {
            return Kind::BOTTOM;
        }
        if let Some(extra) = &vertex.extra
            && !extra.alts.is_empty()
        {
            return extra.alts.iter().fold(Kind::BOTTOM, |k, alt| k | self.val_kind(&alt.val));
        }
        if vertex.is_struct && vertex.kind.intersects(Kind::STRUCT) {
            return Kind::STRUCT;
        }
        vertex.kind
    }

    /// Unifies a vertex with a value.
    pub(crate) fn unify_val(&mut self, v: Vid, val: Val, c: Conj) {
        // `_`, and a reference alone, give a vertex no structure.
        if !matches!(val, Val::Top | Val::Node(_)) {
            self.note_structure(v, c);
        }
        match val {
            Val::Top => {}
            Val::Kind(k) => self.narrow(v, k, c),
            Val::All(list) => {
                for x in list.iter() {
                    self.unify_val(v, x.clone(), c);
                }
            }
            Val::Validator(ref x)
                if self.v(v).parent.is_none()
                    && self.s.validating.iter().any(|(e, _)| *e == x.expr) =>
            {
                // The schema says which fields there may be, so that the struct must be open to
                // them.
                if self.takes_schema(x) {
                    self.open(v, c, true);
                }
            }
            Val::Bound(..) | Val::Validator(_) => {
                if let Val::Validator(x) = &val
                    && self.takes_schema(x)
                {
                    self.open(v, c, true);
                }
                let kind = self.val_kind(&val);
                // As with `_`, what only has to match schemas may be anything.
                if c.flags & EMBED != 0 && kind == Kind::TOP {
                    self.vm(v).maybe_any = true;
                }
                self.narrow(v, kind, c);
                self.add_check(v, val, c);
            }
            Val::Node(w) => self.follow(v, c, w, None, false),
            atom => {
                let kind = self.val_kind(&atom);
                self.narrow(v, kind, c);
                let vertex = self.v(v);
                // The kinds conflict, which has been reported.
                if vertex.kind.is_bottom() {
                    return;
                }
                // The first atom stands; any other has to be equal to it.
                if !vertex.atom.is_atom() {
                    let vertex = self.vm(v);
                    vertex.atom = atom;
                    vertex.witness = Some(c);
                    return;
                }
                let old = vertex.atom.clone();
                if !self.same_atom(&old, &atom) {
                    // The reference names the later one first.
                    let text = format!(
                        "conflicting values {} and {}",
                        self.val_text(&atom),
                        self.val_text(&old)
                    );
                    let at: Vec<_> = self
                        .v(v)
                        .witness
                        .into_iter()
                        .chain([c])
                        .filter_map(|c| self.conj_expr(c))
                        .collect();
                    let e = self.err_at(Class::Eval, Msg::Text(text), v, &at);
                    self.fail(v, e);
                }
            }
        }
    }

    /// Whether two atoms are the same value. Integer and float are different values: `1 & 1.0` is a
    /// conflict.
    pub(crate) fn same_atom(&self, a: &Val, b: &Val) -> bool {
        match (a, b) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Str(a), Val::Str(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::CoreFunc(a), Val::CoreFunc(b)) => a == b,
            _ => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }

    /// Adds a bound or validator, dropping what it makes redundant.
    fn add_check(&mut self, v: Vid, val: Val, c: Conj) {
        if let Val::Bound(op, x) = &val {
            let int = self.v(v).kind & Kind::NUMBER == Kind::INT;
            // Of two bounds in the same direction the narrower stays. Equal constraints look equal
            // then, whatever they were made from.
            let mut i = 0;
            while i < self.v(v).checks.len() {
                let Val::Bound(old_op, old) = self.v(v).checks[i].clone() else {
                    i += 1;
                    continue;
                };
                match self.simplify(int, (old_op, &old), (*op, x)) {
                    Simple::Both => i += 1,
                    Simple::First => return,
                    Simple::Second => {
                        self.vm(v).checks.remove(i);
                    }
                    Simple::Conflict => {
                        // The text names the lower bound first.
                        let (low, high) =
                            if matches!(old_op, UnaryOp::Greater | UnaryOp::GreaterEqual) {
                                (Val::Bound(old_op, old), val.clone())
                            } else {
                                (val.clone(), Val::Bound(old_op, old))
                            };
                        let text = format!(
                            "incompatible {}bounds {} and {}",
                            if int { "integer " } else { "" },
                            self.val_text(&low),
                            self.val_text(&high)
                        );
                        let at: Vec<_> = self.conj_expr(c).into_iter().collect();
                        let e = self.err_at(Class::Eval, Msg::Text(text), v, &at);
                        self.fail(v, e);
                        return;
                    }
                }
            }
        } else if let Val::Validator(x) = &val {
            // The same validator comes twice when two references lead to one definition.
            let same = self.v(v).checks.iter().any(|old| match old {
                Val::Validator(y) => self.same_validator(x, y),
                _ => false,
            });
            if same {
                return;
            }
        }
        let vertex = self.vm(v);
        vertex.checks.push(val);
        vertex.witness.get_or_insert(c);
    }

    /// What remains of two bounds on the same value: `!=` says nothing beside a pattern that excludes
    /// the same text.
    fn simplify(&mut self, int: bool, a: (UnaryOp, &Val), b: (UnaryOp, &Val)) -> Simple {
        let patterns = |op| matches!(op, UnaryOp::Match | UnaryOp::NotMatch);
        let (value, pattern, rest) = match (a.0, b.0) {
            (UnaryOp::NotEqual, op) if patterns(op) => (a.1, b, Simple::Second),
            (op, UnaryOp::NotEqual) if patterns(op) => (b.1, a, Simple::First),
            _ => return simplify(int, a, b),
        };
        match self.compare_bound(pattern.0, value, pattern.1) {
            Ok(false) => rest,
            _ => Simple::Both,
        }
    }

    /// Checks the value of a vertex against its bounds and validators.
    pub(crate) fn run_checks(&mut self, v: Vid) {
        let vertex = self.v(v);
        if vertex.error.is_some() || vertex.checks.is_empty() {
            return;
        }
        // A type and an undecided disjunction violate nothing yet: only a concrete value is judged.
        let subject = if vertex.atom.is_atom() {
            vertex.atom.clone()
        } else if vertex.is_struct || vertex.is_list {
            Val::Node(v)
        } else {
            return;
        };
        // A function looks at what is known as a whole only.
        let unknown = vertex.incomplete.is_some();
        let checks = vertex.checks.clone();
        for check in checks {
            if unknown && matches!(check, Val::Validator(_)) {
                continue;
            }
            match self.satisfies(&subject, &check) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let at: Vec<_> =
                        self.v(v).witness.into_iter().filter_map(|c| self.conj_expr(c)).collect();
                    let e = self.err_at(Class::Eval, Msg::Text(text), v, &at);
                    self.fail(v, e);
                    return;
                }
                Err(e) => self.fail(v, e),
            }
        }
    }

    /// `None` if the value satisfies a bound or validator, else what is wrong.
    pub(crate) fn satisfies(&mut self, val: &Val, check: &Val) -> Res<Option<String>> {
        match check {
            Val::Bound(op, x) => {
                // A struct or list is unequal to every scalar, and in no order to it.
                if matches!(val, Val::Node(_)) {
                    return Ok((*op != UnaryOp::NotEqual).then(|| "invalid bound".into()));
                }
                let ok = self.compare_bound(*op, val, x)?;
                Ok((!ok).then(|| {
                    format!(
                        "invalid value {} (out of bound {})",
                        self.val_text(val),
                        self.val_text(check)
                    )
                }))
            }
            Val::Validator(x) => {
                let x = Arc::clone(x);
                self.validate_with(&x, val)
            }
            _ => Ok(None),
        }
    }

    /// The meet of two scalars; `None` if they exclude each other.
    pub(crate) fn meet(&mut self, a: &Val, b: &Val) -> Res<Option<Val>> {
        let kind = self.val_kind(a) & self.val_kind(b);
        if kind.is_bottom() {
            return Ok(None);
        }
        // Most pairs need no list of parts.
        match (a, b) {
            (Val::Top | Val::Kind(_), x) | (x, Val::Top | Val::Kind(_)) if x.is_atom() => {
                return Ok(Some(x.clone()));
            }
            (Val::Top | Val::Kind(_), Val::Top | Val::Kind(_)) => {
                return Ok(Some(if kind == Kind::TOP { Val::Top } else { Val::Kind(kind) }));
            }
            (x, y) if x.is_atom() && y.is_atom() => {
                return Ok(self.same_atom(x, y).then(|| x.clone()));
            }
            _ => {}
        }
        // Both are taken apart into kinds, constraints and one atom at the most.
        let mut parts = Vec::new();
        let mut atom: Option<Val> = None;
        for x in flat(a).chain(flat(b)) {
            match x {
                Val::Top => {}
                Val::Kind(_) | Val::Bound(..) | Val::Validator(_) => parts.push(x.clone()),
                x => match &atom {
                    Some(old) if !self.same_atom(old, x) => return Ok(None),
                    _ => atom = Some(x.clone()),
                },
            }
        }
        // An atom that satisfies the constraints makes them superfluous.
        if let Some(atom) = atom {
            for part in &parts {
                if let Val::Bound(..) | Val::Validator(_) = part
                    && self.satisfies(&atom, part)?.is_some()
                {
                    return Ok(None);
                }
            }
            return Ok(Some(atom));
        }
        // Constraints alone: simplified as those of a vertex are.
        let int = kind & Kind::NUMBER == Kind::INT;
        let mut out: Vec<Val> = Vec::new();
        let mut implied = Kind::TOP;
        for part in parts {
            if matches!(part, Val::Kind(_)) {
                continue;
            }
            let mut add = true;
            if let Val::Bound(op, x) = &part {
                let mut i = 0;
                while i < out.len() {
                    let verdict = match &out[i] {
                        Val::Bound(o, y) => self.simplify(int, (*o, y), (*op, x)),
                        _ => Simple::Both,
                    };
                    match verdict {
                        Simple::Both => i += 1,
                        Simple::First => {
                            add = false;
                            break;
                        }
                        Simple::Second => {
                            out.remove(i);
                        }
                        Simple::Conflict => return Ok(None),
                    }
                }
            }
            implied = implied & self.val_kind(&part);
            if add {
                out.push(part);
            }
        }
        if out.is_empty() {
            return Ok(Some(if kind == Kind::TOP { Val::Top } else { Val::Kind(kind) }));
        }
        // The kind is written out only where the constraints do not imply it.
        if implied != kind {
            out.insert(0, Val::Kind(kind));
        }
        if out.len() == 1 {
            return Ok(out.pop());
        }
        Ok(Some(Val::All(Arc::new(out))))
    }
}

/// The parts of a constraint.
fn flat(val: &Val) -> impl Iterator<Item = &Val> {
    match val {
        Val::All(list) => list.iter(),
        other => std::slice::from_ref(other).iter(),
    }
}

enum Simple {
    /// Neither implies the other.
    Both,
    /// The first implies the second.
    First,
    /// The second implies the first.
    Second,
    /// No value satisfies both.
    Conflict,
}

/// The order of two operands of bounds, if they are of one kind.
fn order(a: &Val, b: &Val) -> Option<Ordering> {
    match (a, b) {
        (Val::Str(a), Val::Str(b)) => Some(a.as_str().cmp(b.as_str())),
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        _ => Some(a.number()?.compare(&b.number()?)),
    }
}

/// What remains of two bounds on the same value.
fn simplify(int: bool, a: (UnaryOp, &Val), b: (UnaryOp, &Val)) -> Simple {
    use UnaryOp::{Greater, GreaterEqual, Less, LessEqual, Match, NotEqual, NotMatch};
    // Bounds of different kinds say nothing about each other.
    let Some(ord) = order(a.1, b.1) else { return Simple::Both };
    let lower = |op| matches!(op, Greater | GreaterEqual);
    let upper = |op| matches!(op, Less | LessEqual);
    match (a.0, b.0) {
        (x, y) if x == y && ord == Ordering::Equal => Simple::First,
        (Match | NotMatch, _) | (_, Match | NotMatch) => Simple::Both,
        (x, y) if lower(x) && lower(y) => match ord {
            Ordering::Greater => Simple::First,
            Ordering::Less => Simple::Second,
            // `>5` is narrower than `>=5`.
            Ordering::Equal if x == Greater => Simple::First,
            Ordering::Equal => Simple::Second,
        },
        (x, y) if upper(x) && upper(y) => match ord {
            Ordering::Less => Simple::First,
            Ordering::Greater => Simple::Second,
            Ordering::Equal if x == Less => Simple::First,
            Ordering::Equal => Simple::Second,
        },
        (x, y) if lower(x) && upper(y) => range(int, (x, a.1), (y, b.1), ord),
        (x, y) if upper(x) && lower(y) => range(int, (y, b.1), (x, a.1), ord.reverse()),
        // `<3` excludes 3 anyway: `!=3` says nothing next to it.
        (NotEqual, y) if lower(y) || upper(y) => {
            if excludes(y, ord) {
                Simple::Second
            } else {
                Simple::Both
            }
        }
        (x, NotEqual) if lower(x) || upper(x) => {
            if excludes(x, ord.reverse()) {
                Simple::First
            } else {
                Simple::Both
            }
        }
        _ => Simple::Both,
    }
}

/// Whether a bound excludes a value that stands in this order to the bound's operand.
fn excludes(op: UnaryOp, ord: Ordering) -> bool {
    match op {
        UnaryOp::Greater => ord != Ordering::Greater,
        UnaryOp::GreaterEqual => ord == Ordering::Less,
        UnaryOp::Less => ord != Ordering::Less,
        _ => ord == Ordering::Greater,
    }
}

/// What remains of a lower and an upper bound: a conflict where no value lies between them.
fn range(int: bool, low: (UnaryOp, &Val), high: (UnaryOp, &Val), ord: Ordering) -> Simple {
    match ord {
        Ordering::Greater => Simple::Conflict,
        // `>=1 & <=1` leaves 1.
        Ordering::Equal if low.0 == UnaryOp::GreaterEqual && high.0 == UnaryOp::LessEqual => {
            Simple::Both
        }
        Ordering::Equal => Simple::Conflict,
        // Between two numbers there need not be an integer: `>1 & <2`.
        Ordering::Less if int => {
            let bounds = (low.1.number(), high.1.number());
            let (Some(lo), Some(hi)) = bounds else { return Simple::Both };
            match (first_int(&lo, low.0, true), first_int(&hi, high.0, false)) {
                (Some(lo), Some(hi)) if lo > hi => Simple::Conflict,
                _ => Simple::Both,
            }
        }
        Ordering::Less => Simple::Both,
    }
}

/// The outermost integer a bound allows.
fn first_int(n: &crate::value::Number, op: UnaryOp, lower: bool) -> Option<num_bigint::BigInt> {
    use crate::decimal::Rounding;
    let d = n.to_decimal();
    let rounded = d.to_integral(if lower { Rounding::Ceil } else { Rounding::Floor });
    let integral = d.is_integral();
    let i = rounded.to_bigint()?;
    // An exclusive bound on an integer excludes that integer. On a fraction, rounding has excluded
    // it.
    Some(match op {
        UnaryOp::Greater if integral => i + 1,
        UnaryOp::Less if integral => i - 1,
        _ => i,
    })
}

/// The only value left between two bounds, as `>=1 & <=1` and `int & >0 & <2` leave 1.
pub(crate) fn pinned(kind: Kind, checks: &[Val]) -> Option<Val> {
    let (mut low, mut high) = (None, None);
    for check in checks {
        let Val::Bound(op, x) = check else { return None };
        match op {
            UnaryOp::Greater | UnaryOp::GreaterEqual => low = Some((*op, x)),
            UnaryOp::Less | UnaryOp::LessEqual => high = Some((*op, x)),
            _ => return None,
        }
    }
    let ((low_op, low), (high_op, high)) = (low?, high?);
    if order(low, high)? != Ordering::Equal {
        // Between different bounds lie countless numbers, unless only integers are allowed.
        if kind & Kind::NUMBER != Kind::INT {
            return None;
        }
        let low = first_int(&low.number()?, low_op, true)?;
        let high = first_int(&high.number()?, high_op, false)?;
        return (low == high).then(|| i64::try_from(low).ok()).flatten().map(Val::Int);
    }
    // Equal bounds leave a value only if both include it.
    if low_op != UnaryOp::GreaterEqual || high_op != UnaryOp::LessEqual {
        return None;
    }
    match (&**low, kind & Kind::NUMBER) {
        (Val::Int(i), _) => Some(Val::Int(*i)),
        (Val::Num(n), k) if k.intersects(n.kind()) => Some(Val::Num(n.clone())),
        (Val::Str(s), _) => Some(Val::Str(s.clone())),
        (Val::Bytes(s), _) => Some(Val::Bytes(Arc::clone(s))),
        _ => None,
    }
}
