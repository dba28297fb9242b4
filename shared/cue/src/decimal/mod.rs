//! Decimal numbers as CUE knows them: an integer coefficient and a decimal exponent.
//!
//! Answers for `github.com/cockroachdb/apd/v3` as `internal.BaseContext` of CUE configures it:
//! literals keep every digit, arithmetic rounds to 34 digits half up (integers too), a quotient
//! drops trailing zeros but keeps one decimal place, and text follows the scientific form of the
//! General Decimal Arithmetic specification (`1E+2`, `0.10`, `3.0E+100`).
//!
//! Whether a number is an `int` or a `float` is not decided here: `1` and `1.0` are equal
//! decimals and different CUE atoms.
//!
//! Nearly all numbers of templates are small: an `i64` coefficient is stored inline and computed
//! in `i128`; only what does not fit is a shared big integer. No operation allocates in
//! proportion to the *value* of an exponent beyond [`MAX_EXPONENT`].

mod functions;
mod parse;
mod rounding;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::{BigInt, Sign};

use self::parse::{literal, parse_decimal, split_sign};
use self::rounding::{
    add_rounded, add_slow, check_exponent, finish, keep_one_place, round, round_big, strip_zeros,
};

/// Digits kept by arithmetic.
pub const PRECISION: u32 = 34;
/// Most digits a coefficient may have (literals; everything else is rounded).
pub const MAX_DIGITS: usize = 10_000;
/// Bound of the adjusted exponent (the exponent of the first digit), in both directions.
pub const MAX_EXPONENT: i32 = 100_000;

/// Why a number could not be read or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is no number.
    #[error("invalid number")]
    Syntax,
    /// The literal has a multiplier and is not a whole number.
    #[error("number cannot be represented as int")]
    NotInteger,
    /// `x / 0`, and what needs it.
    #[error("division by zero")]
    DivisionByZero,
    /// The function has no value for this argument (logarithm of a negative number, ...).
    #[error("invalid operation")]
    InvalidOperation,
    /// The number has too many digits: a resource limit, not a property of the language.
    #[error("number has more than {MAX_DIGITS} digits")]
    TooManyDigits,
    /// The exponent is too large or too small: a resource limit.
    #[error("exponent of number is outside ±{MAX_EXPONENT}")]
    ExponentOutOfRange,
}

impl DecimalError {
    /// Whether a resource limit was hit, rather than a rule of arithmetic.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::TooManyDigits | Self::ExponentOutOfRange)
    }
}

type Result<T> = std::result::Result<T, DecimalError>;

/// How [`Decimal::to_integral`] rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Towards negative infinity.
    Floor,
    /// Towards positive infinity.
    Ceil,
    /// Towards zero.
    Trunc,
    /// To nearest, halves away from zero.
    HalfUp,
    /// To nearest, halves to the even neighbour.
    HalfEven,
}

/// A decimal number: `coefficient * 10^exponent`.
///
/// Equality, ordering and hashing are numeric: `1`, `1.0` and `100E-2` are the same.
#[derive(Clone)]
pub struct Decimal(Repr);

#[derive(Clone)]
enum Repr {
    Small(i64, i32),
    /// The coefficient does not fit an `i64`.
    Big(Arc<(BigInt, i32)>),
}

/// A coefficient while computing.
enum Coeff {
    Short(i128),
    Long(BigInt),
}

const POW10_I128: [i128; 39] = {
    let mut table = [1_i128; 39];
    let mut i = 1;
    #[allow(
        clippy::indexing_slicing,
        reason = "constant evaluation, bounds are those of the table"
    )]
    while i < 39 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

fn pow10_i128(n: u32) -> Option<i128> {
    POW10_I128.get(n as usize).copied()
}

fn pow10(n: u32) -> BigInt {
    match pow10_i128(n) {
        Some(p) => BigInt::from(p),
        None => BigInt::from(10_u8).pow(n),
    }
}

fn digits_u128(mut n: u128) -> u32 {
    let mut digits = 1;
    while n >= 10 {
        n /= 10;
        digits += 1;
    }
    digits
}

/// Number of decimal digits; 1 for zero.
fn digits_big(n: &BigInt) -> u32 {
    if let Ok(small) = u128::try_from(n.magnitude()) {
        return digits_u128(small);
    }
    let bits = n.bits();
    // floor((bits - 1) * log10(2)) is at most one below the number of digits minus one.
    let low = ((bits - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    if *n.magnitude() >= *pow10(low + 1).magnitude() {
        low + 2
    } else if *n.magnitude() >= *pow10(low).magnitude() {
        low + 1
    } else {
        low.max(1)
    }
}

impl Coeff {
    fn big(self) -> BigInt {
        match self {
            Self::Short(n) => BigInt::from(n),
            Self::Long(n) => n,
        }
    }

    fn digits(&self) -> u32 {
        match self {
            Self::Short(n) => digits_u128(n.unsigned_abs()),
            Self::Long(n) => digits_big(n),
        }
    }
}

impl Decimal {
    /// `0`, without digits after the point.
    pub const ZERO: Self = Self(Repr::Small(0, 0));
    /// `1`, without digits after the point.
    pub const ONE: Self = Self(Repr::Small(1, 0));

    /// `coefficient * 10^exponent`, exactly; an error if beyond the limits.
    pub fn new(coefficient: BigInt, exponent: i32) -> Result<Self> {
        let digits = digits_big(&coefficient);
        // Integers written by machines (sums, UUIDs as numbers) may be long; no longer than what
        // an exponent can express.
        if digits > MAX_EXPONENT as u32 {
            return Err(DecimalError::TooManyDigits);
        }
        check_exponent(digits, i64::from(exponent), coefficient.sign() == Sign::NoSign)?;
        Ok(Self::raw(coefficient, exponent))
    }

    fn raw(coefficient: BigInt, exponent: i32) -> Self {
        match i64::try_from(&coefficient) {
            Ok(small) => Self(Repr::Small(small, exponent)),
            Err(_) => Self(Repr::Big(Arc::new((coefficient, exponent)))),
        }
    }

    fn raw_i128(coefficient: i128, exponent: i32) -> Self {
        match i64::try_from(coefficient) {
            Ok(small) => Self(Repr::Small(small, exponent)),
            Err(_) => Self(Repr::Big(Arc::new((BigInt::from(coefficient), exponent)))),
        }
    }

    /// Reads decimal text: sign, digits, point, exponent (what JSON, YAML and apd write).
    pub fn parse(text: &str) -> Result<Self> {
        let (negative, rest) = split_sign(text);
        parse_decimal(rest.as_bytes(), negative, false)
    }

    /// Reads a CUE number literal, with separators, base prefixes and multipliers. The flag says
    /// whether it is an `int`.
    pub fn parse_literal(text: &str) -> Result<(Self, bool)> {
        let (negative, rest) = split_sign(text);
        literal(rest, negative)
    }

    /// The shortest decimal that reads back as `value`; `None` for NaN and infinities.
    pub fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        Self::parse(&format!("{value:e}")).ok()
    }

    /// The nearest `f64` (infinite when beyond the range).
    pub fn to_f64(&self) -> f64 {
        if let Repr::Small(n, 0) = self.0 {
            return n as f64;
        }
        let (coefficient, exponent) = self.parts();
        format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN)
    }

    /// The value as `i64`, if it is one (`1E+2` and `1.0` are).
    pub fn to_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Small(n, 0) => Some(n),
            _ => {
                if self.adjusted() > 19 {
                    return None;
                }
                self.to_bigint().and_then(|n| i64::try_from(n).ok())
            }
        }
    }

    /// The value as an integer, if it is one.
    pub fn to_bigint(&self) -> Option<BigInt> {
        let (coefficient, exponent) = self.parts();
        if exponent >= 0 {
            return Some(coefficient * pow10(exponent.unsigned_abs()));
        }
        if coefficient.sign() == Sign::NoSign {
            return Some(coefficient);
        }
        let digits = self.digits();
        if exponent.unsigned_abs() > digits {
            return None;
        }
        let divisor = pow10(exponent.unsigned_abs());
        let rest = &coefficient % &divisor;
        (rest.sign() == Sign::NoSign).then(|| coefficient / divisor)
    }

    /// Whether the value is a whole number.
    pub fn is_integral(&self) -> bool {
        match self.0 {
            Repr::Small(_, exponent) if exponent >= 0 => true,
            _ => self.to_bigint().is_some(),
        }
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small(0, _))
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.signum() < 0
    }

    /// -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small(n, _) => n.signum() as i32,
            Repr::Big(b) => match b.0.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// The decimal exponent.
    pub fn exponent(&self) -> i32 {
        match &self.0 {
            Repr::Small(_, exponent) => *exponent,
            Repr::Big(b) => b.1,
        }
    }

    /// The digits as an integer with the sign: the number is this times ten to the exponent.
    pub fn coefficient(&self) -> BigInt {
        self.parts().0
    }

    fn parts(&self) -> (BigInt, i32) {
        match &self.0 {
            Repr::Small(n, exponent) => (BigInt::from(*n), *exponent),
            Repr::Big(b) => (b.0.clone(), b.1),
        }
    }

    /// Number of digits of the coefficient; 1 for zero.
    pub fn digits(&self) -> u32 {
        match &self.0 {
            Repr::Small(n, _) => digits_u128(u128::from(n.unsigned_abs())),
            Repr::Big(b) => digits_big(&b.0),
        }
    }

    /// Words of 64 bits that the coefficient takes: what arithmetic costs goes by these.
    pub fn words(&self) -> u64 {
        match &self.0 {
            Repr::Small(..) => 1,
            Repr::Big(b) => b.0.bits() / 64 + 1,
        }
    }

    /// As [`words`](Self::words), with the zeros that the exponent stands for written out.
    pub fn whole_words(&self) -> u64 {
        // 19 digits fit one.
        self.words() + u64::from(self.exponent().max(0).unsigned_abs()) / 19
    }

    /// Exponent of the first digit.
    fn adjusted(&self) -> i64 {
        i64::from(self.exponent()) + i64::from(self.digits()) - 1
    }

    /// The negated value.
    #[must_use]
    pub fn neg(&self) -> Self {
        match &self.0 {
            Repr::Small(n, exponent) => Self::raw_i128(-i128::from(*n), *exponent),
            Repr::Big(b) => Self::raw(-&b.0, b.1),
        }
    }

    /// The absolute value.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.is_negative() { self.neg() } else { self.clone() }
    }

    /// The sum, rounded.
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small(a, ea), Repr::Small(b, eb)) = (&self.0, &other.0)
            && ea == eb
            && let Some(sum) = a.checked_add(*b)
        {
            return Ok(Self(Repr::Small(sum, *ea)));
        }
        add_slow(self, other)
    }

    /// The difference, rounded.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        self.add(&other.neg())
    }

    /// The product, rounded.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        let exponent = i64::from(self.exponent()) + i64::from(other.exponent());
        if let (Repr::Small(a, _), Repr::Small(b, _)) = (&self.0, &other.0) {
            return round(Coeff::Short(i128::from(*a) * i128::from(*b)), exponent);
        }
        round(Coeff::Long(self.parts().0 * other.parts().0), exponent)
    }

    /// The quotient, rounded, without trailing zeros but with one decimal place.
    pub fn quo(&self, other: &Self) -> Result<Self> {
        let (divided, exponent) = self.quo_padded(other, PRECISION)?;
        keep_one_place(&divided, exponent)
    }

    /// The quotient with `precision` digits, not yet trimmed; second: its exponent.
    fn quo_padded(&self, other: &Self, precision: u32) -> Result<(BigInt, i64)> {
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        if self.is_zero() {
            return Ok((BigInt::ZERO, -1));
        }
        let (x, ex) = self.parts();
        let (y, ey) = other.parts();
        // Scale so that the integer quotient has at least one digit more than asked.
        let shift = i64::from(precision) + 1 + i64::from(other.digits()) - i64::from(self.digits());
        let (x, y) = if shift >= 0 {
            (x * pow10(shift as u32), y)
        } else {
            (x, y * pow10(shift.unsigned_abs() as u32))
        };
        let negative = (x.sign() == Sign::Minus) != (y.sign() == Sign::Minus);
        let quotient = &x / &y;
        let rest = &x - &quotient * &y;
        let mut exponent = i64::from(ex) - i64::from(ey) - shift;
        let mut quotient = quotient;
        if rest.sign() != Sign::NoSign {
            // One sticky digit keeps the rounding below correct.
            quotient = quotient * 10_u8 + if negative { -1 } else { 1 };
            exponent -= 1;
        }
        let (quotient, exponent) = round_big(quotient, exponent, precision);
        Ok((quotient, exponent))
    }

    /// `div`: Euclidean quotient of two integers.
    pub fn int_div(&self, other: &Self) -> Result<Self> {
        self.euclid(other).map(|(q, _)| q)
    }

    /// `mod`: Euclidean remainder of two integers (never negative).
    pub fn int_mod(&self, other: &Self) -> Result<Self> {
        self.euclid(other).map(|(_, r)| r)
    }

    /// `quo`: truncated quotient of two integers.
    pub fn int_quo(&self, other: &Self) -> Result<Self> {
        self.truncated(other).map(|(q, _)| q)
    }

    /// `rem`: remainder with the sign of the first operand.
    pub fn int_rem(&self, other: &Self) -> Result<Self> {
        self.truncated(other).map(|(_, r)| r)
    }

    fn truncated(&self, other: &Self) -> Result<(Self, Self)> {
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        if let (Repr::Small(a, 0), Repr::Small(b, 0)) = (&self.0, &other.0)
            && let (Some(q), Some(r)) = (a.checked_div(*b), a.checked_rem(*b))
        {
            return Ok((Self::from(q), Self::from(r)));
        }
        let (Some(a), Some(b)) = (self.to_bigint(), other.to_bigint()) else {
            return Err(DecimalError::NotInteger);
        };
        let q = &a / &b;
        let r = &a - &q * &b;
        Ok((Self::raw(q, 0), Self::raw(r, 0)))
    }

    fn euclid(&self, other: &Self) -> Result<(Self, Self)> {
        let (q, r) = self.truncated(other)?;
        if !r.is_negative() {
            return Ok((q, r));
        }
        let (q, r, b) = (
            q.to_bigint().unwrap_or_default(),
            r.to_bigint().unwrap_or_default(),
            other.to_bigint().unwrap_or_default(),
        );
        if b.sign() == Sign::Minus {
            Ok((Self::raw(q + 1, 0), Self::raw(r - b, 0)))
        } else {
            Ok((Self::raw(q - 1, 0), Self::raw(r + b, 0)))
        }
    }

    /// The whole number next to the value, with exponent 0 (or unchanged if already whole with a
    /// positive exponent).
    #[must_use]
    pub fn to_integral(&self, mode: Rounding) -> Self {
        let (coefficient, exponent) = self.parts();
        if exponent >= 0 {
            return self.clone();
        }
        let cut = exponent.unsigned_abs();
        // Everything is behind the point: the magnitude is below 0.1, whatever the digits are.
        let (quotient, rest, half) = if cut > self.digits() {
            (BigInt::ZERO, coefficient, Ordering::Less)
        } else {
            let unit = pow10(cut);
            let quotient = &coefficient / &unit;
            let rest = coefficient - &quotient * &unit;
            let twice = BigInt::from(rest.magnitude().clone()) * 2_u8;
            let half = twice.cmp(&unit);
            (quotient, rest, half)
        };
        let odd = quotient.magnitude().bit(0);
        let up = match (rest.sign(), mode) {
            (Sign::NoSign, _) | (_, Rounding::Trunc) => false,
            (sign, Rounding::Floor) => sign == Sign::Minus,
            (sign, Rounding::Ceil) => sign == Sign::Plus,
            (_, Rounding::HalfUp) => half != Ordering::Less,
            (_, Rounding::HalfEven) => {
                half == Ordering::Greater || (half == Ordering::Equal && odd)
            }
        };
        let step = match (up, rest.sign()) {
            (false, _) => 0,
            (true, Sign::Minus) => -1,
            (true, _) => 1,
        };
        Self::raw(quotient + step, 0)
    }

    /// Rounded to [`PRECISION`] digits.
    pub fn rounded(&self) -> Result<Self> {
        self.rounded_to(PRECISION)
    }

    /// Rounded half up to `precision` digits.
    pub fn rounded_to(&self, precision: u32) -> Result<Self> {
        if self.digits() <= precision {
            return Ok(self.clone());
        }
        let (coefficient, exponent) = self.parts();
        let (coefficient, exponent) = round_big(coefficient, i64::from(exponent), precision);
        finish(coefficient, exponent)
    }

    /// Without trailing zeros (apd's `Reduce`); zero becomes `0`.
    #[must_use]
    pub fn reduced(&self) -> Self {
        if self.is_zero() {
            return Self::ZERO;
        }
        let (coefficient, exponent) = self.parts();
        let (coefficient, dropped) = strip_zeros(coefficient);
        match i32::try_from(i64::from(exponent) + i64::from(dropped)) {
            Ok(exponent) => Self::raw(coefficient, exponent),
            Err(_) => self.clone(),
        }
    }

    /// Without trailing zeros, but with one decimal place if there were any.
    pub fn reduced_keeping_place(&self) -> Result<Self> {
        let (coefficient, exponent) = self.parts();
        keep_one_place(&coefficient, i64::from(exponent))
    }

    /// `self` raised to a whole power, each step rounded to `precision` digits.
    pub fn powi(&self, mut n: u32, precision: u32) -> Result<Self> {
        let mut base = self.clone();
        let mut result = Self::ONE;
        while n > 0 {
            if n & 1 == 1 {
                result = result.mul_to(&base, precision)?;
            }
            n >>= 1;
            if n > 0 {
                base = base.mul_to(&base, precision)?;
            }
        }
        Ok(result)
    }

    /// Product rounded to `precision` digits.
    pub fn mul_to(&self, other: &Self, precision: u32) -> Result<Self> {
        let exponent = i64::from(self.exponent()) + i64::from(other.exponent());
        let (c, e) = round_big(self.parts().0 * other.parts().0, exponent, precision);
        finish(c, e)
    }

    /// Sum rounded to `precision` digits; for the working precision of functions.
    pub fn add_to(&self, other: &Self, precision: u32) -> Result<Self> {
        add_rounded(self, other, precision)
    }

    /// Quotient padded to `precision` digits; for the working precision of functions.
    pub fn quo_to(&self, other: &Self, precision: u32) -> Result<Self> {
        let (c, e) = self.quo_padded(other, precision)?;
        finish(c, e)
    }

    /// Plain text without exponent (`Text('f')`); the caller bounds the size by
    /// [`MAX_EXPONENT`].
    pub fn to_plain(&self) -> String {
        let (coefficient, exponent) = self.parts();
        let mut text = String::new();
        if coefficient.sign() == Sign::Minus {
            text.push('-');
        }
        push_plain(&mut text, &coefficient.magnitude().to_string(), exponent);
        text
    }
}

impl From<i64> for Decimal {
    fn from(n: i64) -> Self {
        Self(Repr::Small(n, 0))
    }
}

impl From<i32> for Decimal {
    fn from(n: i32) -> Self {
        Self::from(i64::from(n))
    }
}

impl From<u32> for Decimal {
    fn from(n: u32) -> Self {
        Self::from(i64::from(n))
    }
}

impl From<u64> for Decimal {
    fn from(n: u64) -> Self {
        Self::raw_i128(i128::from(n), 0)
    }
}

impl From<usize> for Decimal {
    fn from(n: usize) -> Self {
        Self::raw_i128(n as i128, 0)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Small(a, ea), Repr::Small(b, eb)) = (&self.0, &other.0)
            && ea == eb
        {
            return a.cmp(b);
        }
        let signs = self.signum().cmp(&other.signum());
        if signs != Ordering::Equal || self.is_zero() {
            return signs;
        }
        let magnitudes = self.adjusted().cmp(&other.adjusted());
        let magnitudes = match magnitudes {
            Ordering::Equal => compare_aligned(self, other),
            unequal => unequal,
        };
        if self.is_negative() { magnitudes.reverse() } else { magnitudes }
    }
}

/// Compares magnitudes of equal adjusted exponent: the padding is bounded by the digits there are.
fn compare_aligned(a: &Decimal, b: &Decimal) -> Ordering {
    let (ca, ea) = a.parts();
    let (cb, eb) = b.parts();
    let low = ea.min(eb);
    let ca = BigInt::from(ca.magnitude().clone()) * pow10((ea - low).unsigned_abs());
    let cb = BigInt::from(cb.magnitude().clone()) * pow10((eb - low).unsigned_abs());
    ca.cmp(&cb)
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal numbers have one reduced form.
        let reduced = self.reduced();
        reduced.exponent().hash(state);
        match &reduced.0 {
            Repr::Small(n, _) => n.hash(state),
            Repr::Big(b) => b.0.hash(state),
        }
    }
}

impl fmt::Display for Decimal {
    /// The scientific form of the General Decimal Arithmetic specification.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Repr::Small(n, 0) = self.0 {
            return write!(f, "{n}");
        }
        let (coefficient, exponent) = self.parts();
        let digits = coefficient.magnitude().to_string();
        let mut text = String::new();
        if coefficient.sign() == Sign::Minus {
            text.push('-');
        }
        // Zeros behind the point count as digits of a zero, so that 0.00000000 prints as such.
        let mut length = digits.len() as i64;
        if self.is_zero() && (-2000..0).contains(&exponent) {
            length -= i64::from(exponent);
        }
        let adjusted = i64::from(exponent) + length - 1;
        if exponent <= 0 && adjusted >= -6 {
            push_plain(&mut text, &digits, exponent);
        } else {
            let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
            text.push_str(first);
            if !rest.is_empty() {
                text.push('.');
                text.push_str(rest);
            }
            let adjusted = i64::from(exponent) + digits.len() as i64 - 1;
            text.push_str(&format!("E{adjusted:+}"));
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

fn push_plain(text: &mut String, digits: &str, exponent: i32) {
    if exponent >= 0 {
        text.push_str(digits);
        if digits != "0" {
            text.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize));
        }
        return;
    }
    let places = exponent.unsigned_abs() as usize;
    if places >= digits.len() {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', places - digits.len()));
        text.push_str(digits);
    } else {
        let (whole, fraction) =
            digits.split_at_checked(digits.len() - places).unwrap_or((digits, ""));
        text.push_str(whole);
        text.push('.');
        text.push_str(fraction);
    }
}

impl std::str::FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
