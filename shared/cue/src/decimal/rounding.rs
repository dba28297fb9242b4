//! Addition, rounding and the removal of trailing zeros.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::{
    Coeff, Decimal, DecimalError, MAX_EXPONENT, PRECISION, Repr, Result, digits_big, digits_u128,
    pow10, pow10_i128,
};

/// Sticky digit and alignment shared by both additions.
pub(super) fn add_rounded(a: &Decimal, b: &Decimal, precision: u32) -> Result<Decimal> {
    if a.is_zero() || b.is_zero() {
        return add_with_zero(a, b, precision);
    }
    let (high, low) = if a.adjusted() >= b.adjusted() { (a, b) } else { (b, a) };
    let (hc, he) = high.parts();
    let (lc, le) = low.parts();
    let (he, le) = (i64::from(he), i64::from(le));
    // Digits from the first of `high` down to where `low` starts; beyond the precision (and all
    // digits of `high`) only the sign of `low` matters.
    let room = i64::from(high.digits().max(precision)) + 3;
    if high.adjusted() - low.adjusted() > room && le < he {
        let pad = (room - i64::from(high.digits())).max(0) as u32;
        let step = if lc.sign() == Sign::Minus { -1 } else { 1 };
        let (c, e) = round_big(hc * pow10(pad) + step, he - i64::from(pad), precision);
        return finish(c, e);
    }
    let exponent = he.min(le);
    let sum = hc * pow10((he - exponent) as u32) + lc * pow10((le - exponent) as u32);
    let (c, e) = round_big(sum, exponent, precision);
    finish(c, e)
}

/// One operand is zero: the other, written with the smaller exponent as far as digits allow.
fn add_with_zero(a: &Decimal, b: &Decimal, precision: u32) -> Result<Decimal> {
    let value = if a.is_zero() { b } else { a };
    let target = i64::from(a.exponent().min(b.exponent()));
    let (c, e) = value.parts();
    let want = (i64::from(e) - target).max(0);
    let spare = i64::from(precision.saturating_sub(value.digits()));
    let pad = if value.is_zero() { 0 } else { want.min(spare) };
    let exponent = if value.is_zero() { target } else { i64::from(e) - pad };
    let (c, e) = round_big(c * pow10(pad as u32), exponent, precision);
    finish(c, e)
}

pub(super) fn add_slow(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    let (ea, eb) = (a.exponent(), b.exponent());
    let gap = i64::from(ea) - i64::from(eb);
    if gap.unsigned_abs() <= 18
        && let (Repr::Small(ca, _), Repr::Small(cb, _)) = (&a.0, &b.0)
        && let Some(scale) = pow10_i128(gap.unsigned_abs() as u32)
    {
        // 2^63 * 10^18 < 2^123: neither the product nor the sum overflows.
        let (ca, cb) = (i128::from(*ca), i128::from(*cb));
        let (sum, exponent) = match gap.cmp(&0) {
            Ordering::Greater => (ca * scale + cb, eb),
            _ => (ca + cb * scale, ea),
        };
        return round(Coeff::Short(sum), i64::from(exponent));
    }
    add_rounded(a, b, PRECISION)
}

/// Rounds to [`PRECISION`] and checks limits.
pub(super) fn round(coefficient: Coeff, exponent: i64) -> Result<Decimal> {
    if coefficient.digits() <= PRECISION
        && let Coeff::Short(c) = coefficient
    {
        let exponent = check_exponent(digits_u128(c.unsigned_abs()), exponent, c == 0)?;
        return Ok(Decimal::raw_i128(c, exponent));
    }
    let (c, e) = round_big(coefficient.big(), exponent, PRECISION);
    finish(c, e)
}

/// Half up (away from zero) to `precision` digits.
pub(super) fn round_big(coefficient: BigInt, exponent: i64, precision: u32) -> (BigInt, i64) {
    let digits = digits_big(&coefficient);
    if digits <= precision {
        return (coefficient, exponent);
    }
    let cut = digits - precision;
    let unit = pow10(cut);
    let quotient = &coefficient / &unit;
    let rest = &coefficient - &quotient * &unit;
    let twice = BigInt::from(rest.magnitude().clone()) * 2_u8;
    let quotient = if twice >= unit {
        if coefficient.sign() == Sign::Minus { quotient - 1 } else { quotient + 1 }
    } else {
        quotient
    };
    let exponent = exponent + i64::from(cut);
    // 999..9 became 1000..0.
    if digits_big(&quotient) > precision {
        return (quotient / 10_u8, exponent + 1);
    }
    (quotient, exponent)
}

pub(super) fn finish(coefficient: BigInt, exponent: i64) -> Result<Decimal> {
    let zero = coefficient.sign() == Sign::NoSign;
    let exponent = check_exponent(digits_big(&coefficient), exponent, zero)?;
    Ok(Decimal::raw(coefficient, exponent))
}

/// The exponent as it will be stored. Zeros are clamped, everything else must be in range.
pub(super) fn check_exponent(digits: u32, exponent: i64, zero: bool) -> Result<i32> {
    let limit = i64::from(MAX_EXPONENT);
    if zero {
        return Ok(exponent.clamp(-limit, limit) as i32);
    }
    let adjusted = exponent + i64::from(digits) - 1;
    if adjusted.abs() > limit {
        return Err(DecimalError::ExponentOutOfRange);
    }
    i32::try_from(exponent).map_err(|_| DecimalError::ExponentOutOfRange)
}

pub(super) fn strip_zeros(mut coefficient: BigInt) -> (BigInt, u32) {
    let mut dropped = 0;
    // Most are a quotient of the precision: no big numbers for those.
    if let Ok(mut short) = i128::try_from(&coefficient) {
        while short != 0 && short % 10 == 0 {
            short /= 10;
            dropped += 1;
        }
        return (if dropped > 0 { BigInt::from(short) } else { coefficient }, dropped);
    }
    // Halving steps keep this linear in the number of digits for long runs of zeros.
    let mut step = 1_u32 << digits_big(&coefficient).ilog2();
    while step > 0 {
        let unit = pow10(step);
        if *coefficient.magnitude() >= *unit.magnitude() {
            let quotient = &coefficient / &unit;
            if (&coefficient - &quotient * &unit).sign() == Sign::NoSign {
                coefficient = quotient;
                dropped += step;
                continue;
            }
        }
        step /= 2;
    }
    (coefficient, dropped)
}

pub(super) fn keep_one_place(coefficient: &BigInt, exponent: i64) -> Result<Decimal> {
    if coefficient.sign() == Sign::NoSign {
        return Ok(if exponent < 0 { Decimal(Repr::Small(0, -1)) } else { Decimal::ZERO });
    }
    let (stripped, dropped) = strip_zeros(coefficient.clone());
    let reduced = exponent + i64::from(dropped);
    if exponent < 0 && reduced >= 0 {
        return finish(stripped * 10_u8, reduced - 1);
    }
    finish(stripped, reduced)
}
