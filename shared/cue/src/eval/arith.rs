//! Operators on concrete values.
//!
//! Defaults have been taken and unknown operands reported when an operator is applied (`value.rs`).
//! Integers that fit an `i64` take a short way; all other numbers are decimals
//! ([`crate::decimal`]), paid for by their digits.
//!
//! # Worked examples
//!
//! | expression | rule | value |
//! |---|---|---|
//! | `7 / 2` | division makes a float, also of integers | `3.5` |
//! | `6 / 2` | the same | `3.0` |
//! | `1 == 1.0` | numbers compare by value, whatever their kind | `true` |
//! | `"ab" * 2` | a repetition; its length is charged before it is made | `"abab"` |
//! | `[1] + [2]` | the elements of both; an error with `Packages::without_list_arithmetic`, as in newer versions of the language | `[1, 2]` |
//! | `mod(-7, 2)` | Euclidean: the result is never negative | `1` |
//! | `rem(-7, 2)` | truncated: the sign is that of the dividend | `-1` |
//! | `0.1 + 0.2` | numbers are decimals, not binary fractions | `0.3` |
//! | `false && (1 / 0 > 0)` | both sides are computed, and an error of one is an error of the whole | |

use super::data::{Conj, EnvId, Res, Src, Val};
use super::state::Machine;
use crate::decimal::{Decimal, DecimalError};
use crate::error::Class;
use crate::ir::{Core, Expr, ExprId};
use crate::kind::Kind;
use crate::limits::LimitError;
use crate::value::Number;
use cue_syntax::ast::{BinaryOp, UnaryOp};
use ecow::EcoString;
use std::cmp::Ordering;
use std::sync::Arc;
use vela_gocompat::regexp::Matcher;

/// Compiled regular expressions kept during one evaluation.
const MOST_REGEXPS: usize = 64;
/// Bytes that they may take together before they are dropped.
const MOST_OF_REGEXPS: u64 = 8 << 20;
/// Bytes of one that stays with the program for other evaluations.
const MOST_SHARED: u64 = 64 << 10;
/// Room that compiling an expression and searching with it may take for a moment: some times
/// [`vela_gocompat::regexp::SIZE_LIMIT`].
const REGEXP_AT_WORK: u64 = 3 * vela_gocompat::regexp::SIZE_LIMIT as u64;

impl Machine<'_> {
    /// A type as an operand never becomes a value.
    pub(crate) fn check_operand(&mut self, x: ExprId, op: &str) -> Res<()> {
        if let Expr::Kind(_) | Expr::Top = self.ir.expr(x) {
            let shown = self.ir.text(x);
            let text = format!("invalid operand {shown} ('{op}' requires concrete value)");
            return Err(self.text_err(Class::Eval, text, x));
        }
        Ok(())
    }

    /// A concrete value, or one of which it is known already that it is of the wrong kind.
    pub(crate) fn concrete_or_wrong(
        &mut self,
        x: ExprId,
        env: EnvId,
        want: Kind,
        what: &'static str,
    ) -> Res<Val> {
        let val = self.value(x, env)?;
        if let Val::Node(w) = val
            && let Some(e) = self.waits_by_another_name(w, x, env)
        {
            return Err(e);
        }
        // Of the wrong kind for good: an error now, not only when it is concrete.
        if !val.is_atom() && self.never(&val, want) {
            return Ok(val);
        }
        self.make_concrete(val, x, what)
    }

    /// `!`, `-` and `+`.
    pub(crate) fn unary(&mut self, op: UnaryOp, x: ExprId, env: EnvId, e: ExprId) -> Res<Val> {
        let sign = match op {
            UnaryOp::Not => "!",
            UnaryOp::Minus => "-",
            _ => "+",
        };
        self.check_operand(x, sign)?;
        let (want, what) = match op {
            UnaryOp::Not => (Kind::BOOL, "operand to !"),
            UnaryOp::Minus => (Kind::NUMBER, "operand to -"),
            _ => (Kind::NUMBER, "operand to +"),
        };
        let val = self.concrete_or_wrong(x, env, want, what)?;
        match (op, &val) {
            (UnaryOp::Not, Val::Bool(b)) => Ok(Val::Bool(!b)),
            (UnaryOp::Plus, Val::Int(_) | Val::Num(_)) => Ok(val),
            // The least `i64` has no positive counterpart.
            (UnaryOp::Minus, Val::Int(i)) => Ok(match i.checked_neg() {
                Some(i) => Val::Int(i),
                None => Val::from_number(Number::int(Decimal::from(*i).neg())),
            }),
            (UnaryOp::Minus, Val::Num(n)) => {
                let d = n.to_decimal().neg();
                Ok(Val::from_number(if n.is_int() { Number::int(d) } else { Number::float(d) }))
            }
            _ => {
                let text = format!(
                    "invalid operation {}{} ({} {})",
                    op.text(),
                    self.ir.text(x),
                    op.text(),
                    self.val_kind(&val)
                );
                Err(self.text_err(Class::Eval, text, e))
            }
        }
    }

    /// An error of decimal arithmetic: a crossed limit, or an operation without a result.
    fn decimal_error(&mut self, error: &DecimalError, at: ExprId) -> super::ErrId {
        if error.is_limit() {
            return self.limit(LimitError::Number);
        }
        self.text_err(Class::Eval, error.to_string(), at)
    }

    /// A binary operator on concrete operands. What no rule covers ends in the error at the bottom.
    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        a: &Val,
        b: &Val,
        operands: (ExprId, ExprId),
        at: ExprId,
    ) -> Res<Val> {
        use BinaryOp as B;
        match op {
            B::LogicalAnd | B::LogicalOr => {
                // Both sides are computed, but of what the first decides the second may be anything.
                match (a, b) {
                    (Val::Bool(a), _) if *a == (op == B::LogicalOr) => return Ok(Val::Bool(*a)),
                    (Val::Bool(_), Val::Bool(b)) => return Ok(Val::Bool(*b)),
                    _ => {}
                }
            }
            B::Equal | B::NotEqual => {
                if let Some(equal) = self.equal_vals(a, b)? {
                    return Ok(Val::Bool(equal == (op == B::Equal)));
                }
            }
            B::Less | B::LessEqual | B::Greater | B::GreaterEqual => {
                // The cost of comparing grows with digits and bytes.
                self.pay_comparison(a, b)?;
                if let Some(ord) = ordering(a, b) {
                    return Ok(Val::Bool(match op {
                        B::Less => ord == Ordering::Less,
                        B::LessEqual => ord != Ordering::Greater,
                        B::Greater => ord == Ordering::Greater,
                        _ => ord != Ordering::Less,
                    }));
                }
            }
            B::Match | B::NotMatch => {
                if let (Some(text), Val::Str(re)) = (text_of(a), b) {
                    let re = re.clone();
                    let matched = self.regexp_match(&re, &text, at)?;
                    return Ok(Val::Bool(matched == (op == B::Match)));
                }
            }
            B::Add | B::Subtract | B::Multiply | B::Divide => {
                if let Some(val) = self.arithmetic(op, a, b, at)? {
                    return Ok(val);
                }
            }
            B::Div => return self.int_division(Core::Div, a, b, at),
            B::Mod => return self.int_division(Core::Mod, a, b, at),
            B::Quo => return self.int_division(Core::Quo, a, b, at),
            B::Rem => return self.int_division(Core::Rem, a, b, at),
            B::And | B::Or => {}
        }
        let text = format!(
            "invalid operands {} and {} to '{}' (type {} and {})",
            self.operand_text(a, operands.0),
            self.operand_text(b, operands.1),
            op.text(),
            self.val_kind(a),
            self.val_kind(b)
        );
        Err(self.text_err(Class::Eval, text, at))
    }

    /// An operand in an error: structure as it is written, a scalar by its value.
    fn operand_text(&mut self, val: &Val, e: ExprId) -> String {
        match val {
            Val::Node(_) => self.ir.text(e).to_owned(),
            atom => self.val_text(atom),
        }
    }

    /// `+ - * /`; none for operands that these do not take.
    fn arithmetic(&mut self, op: BinaryOp, a: &Val, b: &Val, at: ExprId) -> Res<Option<Val>> {
        if let (Val::Int(x), Val::Int(y)) = (a, b) {
            // Results of more than 34 digits are rounded; i64 never gets there.
            let fast = match op {
                BinaryOp::Add => x.checked_add(*y),
                BinaryOp::Subtract => x.checked_sub(*y),
                BinaryOp::Multiply => x.checked_mul(*y),
                _ => None,
            };
            if let Some(i) = fast {
                return Ok(Some(Val::Int(i)));
            }
        }
        if let (Some(x), Some(y)) = (a.number(), b.number()) {
            self.arithmetic_of(x.words() + y.words())?;
            let (dx, dy) = (x.to_decimal(), y.to_decimal());
            let result = match op {
                BinaryOp::Add => dx.add(&dy),
                BinaryOp::Subtract => dx.sub(&dy),
                BinaryOp::Multiply => dx.mul(&dy),
                _ => dx.quo(&dy),
            };
            let d = match result {
                Ok(d) => d,
                Err(error) => return Err(self.decimal_error(&error, at)),
            };
            // Division makes a float, also of two integers.
            let int = x.is_int() && y.is_int() && op != BinaryOp::Divide;
            return Ok(Some(Val::from_number(if int { Number::int(d) } else { Number::float(d) })));
        }
        match (op, a, b) {
            (BinaryOp::Add, Val::Str(x), Val::Str(y)) => {
                // Charged before memory is allocated.
                self.charge_string(x.len() as u64 + y.len() as u64)?;
                let mut out = EcoString::with_capacity(x.len() + y.len());
                out.push_str(x);
                out.push_str(y);
                Ok(Some(Val::Str(out)))
            }
            (BinaryOp::Add, Val::Bytes(_), Val::Bytes(_)) => {
                let (x, y) = (bytes_of(a), bytes_of(b));
                self.charge_string(x.len() as u64 + y.len() as u64)?;
                Ok(Some(Val::Bytes([x, y].concat().into())))
            }
            (BinaryOp::Multiply, Val::Str(_) | Val::Bytes(_), Val::Int(n))
            | (BinaryOp::Multiply, Val::Int(n), Val::Str(_) | Val::Bytes(_)) => {
                let text = if matches!(a, Val::Int(_)) { b } else { a };
                let Ok(n) = usize::try_from(*n) else {
                    let text = "cannot convert negative number to uint64";
                    return Err(self.text_err(Class::Eval, text, at));
                };
                let bytes = bytes_of(text);
                // `"x" * 1_000_000_000` has to fail before memory is allocated.
                self.charge_string((bytes.len() as u64).saturating_mul(n as u64))?;
                Ok(Some(match text {
                    Val::Str(s) => Val::Str(s.repeat(n)),
                    _ => Val::Bytes(bytes.repeat(n).into()),
                }))
            }
            (BinaryOp::Add, Val::Node(x), Val::Node(y)) => {
                let (x, y) = (self.deref(*x), self.deref(*y));
                if !self.v(x).is_list || !self.v(y).is_list {
                    return Ok(None);
                }
                if !self.ir.list_arithmetic {
                    let text = "Addition of lists is superseded by list.Concat; see https://cuelang.org/e/v0.11-list-arithmetic";
                    return Err(self.text_err(Class::Eval, text, at));
                }
                let mut elems = self.list_elems(x)?;
                elems.extend(self.list_elems(y)?);
                Ok(Some(self.new_list(&elems)?))
            }
            (BinaryOp::Multiply, Val::Node(x), Val::Int(n))
            | (BinaryOp::Multiply, Val::Int(n), Val::Node(x)) => {
                let x = self.deref(*x);
                if !self.v(x).is_list {
                    return Ok(None);
                }
                if !self.ir.list_arithmetic {
                    let text = "Multiplication of lists is superseded by list.Repeat; see https://cuelang.org/e/v0.11-list-arithmetic";
                    return Err(self.text_err(Class::Eval, text, at));
                }
                let elems = self.list_elems(x)?;
                Ok(Some(self.repeat_list(&elems, *n, at)?))
            }
            _ => Ok(None),
        }
    }

    /// Charges arithmetic on so many words of digits.
    fn arithmetic_of(&mut self, words: u64) -> Res<()> {
        self.s.budget.arithmetic(words).map_err(|limit| self.limit(limit))
    }

    /// Writing a number takes time by the square of its digits.
    pub(crate) fn pay_digits(&mut self, val: &Val) -> Res<()> {
        match val {
            Val::Num(n) => self.arithmetic_of(n.whole_words()),
            _ => Ok(()),
        }
    }

    /// Charges a comparison by the size of what is compared.
    fn pay_comparison(&mut self, a: &Val, b: &Val) -> Res<()> {
        match (a, b) {
            (Val::Num(a), b) | (b, Val::Num(a)) => {
                let b = if let Val::Num(b) = b { b.words() } else { 1 };
                self.arithmetic_of(a.words() + b)
            }
            (Val::Str(_) | Val::Bytes(_), Val::Str(_) | Val::Bytes(_)) => {
                self.steps(bytes_of(a).len().min(bytes_of(b).len()) >> 8)
            }
            _ => Ok(()),
        }
    }

    /// Counts bytes that stay.
    pub(crate) fn hold(&mut self, bytes: u64) -> Res<()> {
        self.s.budget.bytes(bytes).map_err(|limit| self.limit(limit))
    }

    /// Charges a text before it is made.
    pub(crate) fn charge_string(&mut self, len: u64) -> Res<()> {
        self.s.budget.string(len).map_err(|limit| self.limit(limit))
    }

    /// `div`, `mod`, `quo`, `rem`.
    pub(crate) fn int_division(&mut self, core: Core, a: &Val, b: &Val, at: ExprId) -> Res<Val> {
        let (Some(x), Some(y)) = (a.number(), b.number()) else {
            return Err(self.arg_error(core.name(), a, 1, "int", at));
        };
        for (i, n, val) in [(1, &x, a), (2, &y, b)] {
            if !n.is_int() {
                return Err(self.arg_error(core.name(), val, i, "int", at));
            }
        }
        self.arithmetic_of(x.whole_words() + y.whole_words())?;
        let (x, y) = (x.to_decimal(), y.to_decimal());
        let result = match core {
            Core::Div => x.int_div(&y),
            Core::Mod => x.int_mod(&y),
            Core::Quo => x.int_quo(&y),
            _ => x.int_rem(&y),
        };
        match result {
            Ok(d) => {
                let number = Number::int(d);
                self.hold(number.words() * 8)?;
                Ok(Val::from_number(number))
            }
            Err(error) => Err(self.decimal_error(&error, at)),
        }
    }

    /// Whether a value satisfies a bound.
    pub(crate) fn compare_bound(&mut self, op: UnaryOp, val: &Val, bound: &Val) -> Res<bool> {
        Ok(match op {
            UnaryOp::Match | UnaryOp::NotMatch => {
                let (Some(text), Some(re)) = (text_of(val), text_of(bound)) else {
                    return Ok(false);
                };
                self.regexp_match(&re, &text, ExprId(u32::MAX))? == (op == UnaryOp::Match)
            }
            UnaryOp::NotEqual => !self.equal_vals(val, bound)?.unwrap_or(false),
            _ => match self.pay_comparison(val, bound).map(|()| ordering(val, bound))? {
                None => false,
                Some(ord) => match op {
                    UnaryOp::Less => ord == Ordering::Less,
                    UnaryOp::LessEqual => ord != Ordering::Greater,
                    UnaryOp::Greater => ord == Ordering::Greater,
                    _ => ord != Ordering::Less,
                },
            },
        })
    }

    /// Whether a pattern matches somewhere in a text.
    fn regexp_match(&mut self, re: &EcoString, text: &str, at: ExprId) -> Res<bool> {
        let compiled = self.regexp(re, at)?;
        compiled.is_match(text, &mut self.s.budget).map_err(|limit| self.limit(limit))
    }

    /// The compiled form of a pattern: kept by the evaluation, by the program, or compiled now.
    fn regexp(&mut self, re: &EcoString, at: ExprId) -> Res<Arc<Matcher>> {
        if let Some(compiled) = self.s.regexps.get(re) {
            return Ok(Arc::clone(compiled));
        }
        // Compiling costs by the length of the pattern, before it is known how large the result is.
        if let Err(limit) = self.s.budget.steps((re.len() as u64).saturating_mul(8)) {
            return Err(self.limit(limit));
        }
        // Compiled expressions can be large: patterns computed in a loop do not pile up.
        if self.s.regexps.len() >= MOST_REGEXPS || self.s.of_regexps > MOST_OF_REGEXPS {
            self.s.regexps.clear();
            let held = self.s.budget.held().saturating_sub(self.s.of_regexps);
            self.s.budget.release(held);
            self.s.of_regexps = 0;
        }
        if let Err(limit) = self.s.budget.room(REGEXP_AT_WORK) {
            return Err(self.limit(limit));
        }
        let compiled = match self.ir.regexps.get(re) {
            Some(compiled) => compiled,
            None => match Matcher::new(re) {
                Ok(compiled) => Arc::new(compiled),
                Err(error) if error.code.is_limit() => {
                    return Err(self.limit(LimitError::Regexp));
                }
                Err(error) => {
                    return Err(self.text_err(Class::Eval, format!("invalid regexp: {error}"), at));
                }
            },
        };
        let memory = compiled.memory();
        if let Err(limit) = self.s.budget.steps(memory / 64) {
            return Err(self.limit(limit));
        }
        self.hold(memory)?;
        self.s.of_regexps += memory;
        // A pattern that the program contains comes again in other evaluations, which share it. One
        // that was computed from data would only fill the table.
        if memory <= MOST_SHARED && self.ir.texts.contains(re) {
            self.ir.regexps.keep(re, &compiled);
        }
        self.s.regexps.insert(re.clone(), Arc::clone(&compiled));
        Ok(compiled)
    }

    /// `==` on concrete values; `None` if they cannot be compared.
    pub(crate) fn equal_vals(&mut self, a: &Val, b: &Val) -> Res<Option<bool>> {
        let (ka, kb) = (self.val_kind(a), self.val_kind(b));
        // Only `null` equals `null`, and comparing with it is always allowed.
        if ka == Kind::NULL || kb == Kind::NULL {
            return Ok(Some(ka == kb));
        }
        Ok(match (a, b) {
            (Val::Bool(a), Val::Bool(b)) => Some(a == b),
            (Val::Node(a), Val::Node(b)) => {
                let (a, b) = (self.deref(*a), self.deref(*b));
                match self.v(a).is_list && self.v(b).is_list {
                    true => Some(self.equal_lists(a, b)?),
                    // Structs are not compared.
                    false => None,
                }
            }
            _ => {
                self.pay_comparison(a, b)?;
                ordering(a, b).map(|ord| ord == Ordering::Equal)
            }
        })
    }

    /// A list of existing vertices.
    pub(crate) fn new_list(&mut self, elems: &[super::Vid]) -> Res<Val> {
        if let Err(limit) = self.s.budget.list(elems.len() as u64) {
            return Err(self.limit(limit));
        }
        let data = self.add_nodes(elems);
        let v = self.new_vertex(super::Vid::NONE, crate::label::Label::NONE);
        self.vm(v).conjs.push(Conj::new(Src::Data(data), EnvId::NONE));
        self.settle(v);
        Ok(Val::Node(v))
    }

    /// A list repeated, refused before it is made if it were too long.
    pub(crate) fn repeat_list(&mut self, elems: &[super::Vid], n: i64, at: ExprId) -> Res<Val> {
        let Ok(n) = usize::try_from(n) else {
            return Err(self.text_err(Class::Eval, "negative count", at));
        };
        let total = (elems.len() as u64).saturating_mul(n as u64);
        if total > self.s.budget.limits().list {
            return Err(self.limit(LimitError::List));
        }
        self.new_list(&elems.repeat(n))
    }
}

/// The bytes of a string or of bytes.
fn bytes_of(val: &Val) -> &[u8] {
    match val {
        Val::Str(s) => s.as_bytes(),
        Val::Bytes(b) => b,
        _ => &[],
    }
}

/// What a pattern searches: of bytes that are no UTF-8, the text with replacements.
fn text_of(val: &Val) -> Option<EcoString> {
    match val {
        Val::Str(s) => Some(s.clone()),
        Val::Bytes(b) => Some(String::from_utf8_lossy(b).as_ref().into()),
        _ => None,
    }
}

/// The order of two scalars of comparable kinds.
pub(crate) fn ordering(a: &Val, b: &Val) -> Option<Ordering> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Str(a), Val::Str(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        _ => Some(a.number()?.compare(&b.number()?)),
    }
}
