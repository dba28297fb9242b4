//! Exponential, logarithm, power and cube root to [`PRECISION`] digits.
//!
//! Worked out with guard digits and rounded once at the end, so the last digit is right except in
//! the rare halfway cases that no fixed number of guard digits decides.

use std::sync::OnceLock;

use num_bigint::BigInt;

use super::{Decimal, DecimalError, MAX_EXPONENT, PRECISION, Result, Rounding};

/// Digits while working.
const WORK: u32 = PRECISION + 18;
/// ln(10), more digits than [`WORK`].
const LN10: &str =
    "2.302585092994045684017991454684364207601101488628772976033327900967572609677352480235997205";

fn ln10() -> &'static Decimal {
    static VALUE: OnceLock<Decimal> = OnceLock::new();
    VALUE.get_or_init(|| Decimal::parse(LN10).unwrap_or(Decimal::ZERO))
}

impl Decimal {
    /// e to the power of `self`.
    pub fn exp(&self) -> Result<Self> {
        self.exp_work()?.rounded()
    }

    /// The natural logarithm; an error unless positive.
    pub fn ln(&self) -> Result<Self> {
        self.ln_work()?.rounded()
    }

    /// The decimal logarithm; exact for powers of ten.
    pub fn log10(&self) -> Result<Self> {
        if self.signum() <= 0 {
            return Err(DecimalError::InvalidOperation);
        }
        let reduced = self.reduced();
        if reduced.coefficient() == BigInt::from(1) {
            return Ok(Self::from(reduced.exponent()));
        }
        self.ln_work()?.quo_to(ln10(), WORK)?.rounded()
    }

    /// `self` to the power of `y`: exact rounding of products for whole `y`, else by logarithm.
    pub fn pow(&self, y: &Self) -> Result<Self> {
        if y.is_zero() {
            return if self.is_zero() {
                Err(DecimalError::InvalidOperation)
            } else {
                Ok(Self::ONE)
            };
        }
        if self.is_zero() {
            return if y.is_negative() {
                Err(DecimalError::DivisionByZero)
            } else {
                Ok(Self::ZERO)
            };
        }
        if let Some(n) = y.to_i64()
            && let Ok(n) = u32::try_from(n.unsigned_abs())
        {
            // Far powers of numbers near one lose digits in each squaring: one digit for each.
            let work = WORK + 10;
            let power = self.powi(n, work)?;
            if y.is_negative() {
                return Self::ONE.quo_to(&power, work)?.reduced().rounded();
            }
            return power.rounded();
        }
        if self.is_negative() {
            return Err(DecimalError::InvalidOperation);
        }
        self.ln_work()?.mul_to(y, WORK)?.exp_work()?.rounded()
    }

    /// The cube root.
    pub fn cbrt(&self) -> Result<Self> {
        if self.is_zero() {
            return Ok(Self::ZERO);
        }
        let magnitude = self.abs();
        // Scale the exponent to a multiple of three, so that a float can start Newton's method.
        let adjusted = magnitude.adjusted().div_euclid(3);
        let shift = i32::try_from(adjusted * 3).map_err(|_| DecimalError::ExponentOutOfRange)?;
        let scaled = Self::new(magnitude.coefficient(), magnitude.exponent() - shift)?;
        let mut root = Self::from_f64(scaled.to_f64().cbrt()).unwrap_or(Self::ONE);
        let three = Self::from(3_i64);
        for _ in 0..4 {
            // r - (r - a/r²)/3
            let square = root.mul_to(&root, WORK)?;
            let correction = root.add_to(&scaled.quo_to(&square, WORK)?.neg(), WORK)?;
            root = root.add_to(&correction.quo_to(&three, WORK)?.neg(), WORK)?;
        }
        let exponent = root.exponent() + shift / 3;
        let root = Self::new(root.coefficient(), exponent)?.rounded()?;
        // 2.999...9 of an exact root is 3.
        let whole = root.reduced();
        let exact = whole.powi(3, WORK * 2)? == magnitude;
        let root = if exact { whole } else { root };
        Ok(if self.is_negative() { root.neg() } else { root })
    }

    fn exp_work(&self) -> Result<Self> {
        if self.is_zero() {
            return Ok(Self::ONE);
        }
        if self.to_f64().abs() > f64::from(MAX_EXPONENT) * std::f64::consts::LN_10 + 1.0 {
            return Err(DecimalError::ExponentOutOfRange);
        }
        // x = n ln(10) + r with |r| <= ln(10)/2.
        let n = self.quo_to(ln10(), WORK)?.to_integral(Rounding::HalfEven);
        let rest = self.add_to(&ln10().mul_to(&n, WORK + 8)?.neg(), WORK + 8)?;
        // e^r = (e^(r/2^8))^(2^8)
        let small = rest.quo_to(&Self::from(256_i64), WORK)?;
        let mut term = Self::ONE;
        let mut sum = Self::ONE;
        for i in 1..60_i64 {
            term = term.mul_to(&small, WORK)?.quo_to(&Self::from(i), WORK)?;
            if term.is_zero() || term.adjusted() < -i64::from(WORK) - 2 {
                break;
            }
            sum = sum.add_to(&term, WORK)?;
        }
        for _ in 0..8 {
            sum = sum.mul_to(&sum, WORK)?;
        }
        let n = n.to_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        Self::new(sum.coefficient(), sum.exponent() + n)
    }

    fn ln_work(&self) -> Result<Self> {
        if self.signum() <= 0 {
            return Err(DecimalError::InvalidOperation);
        }
        if *self == Self::ONE {
            return Ok(Self::ZERO);
        }
        // self = m * 10^e with 1 <= m < 10; near one from below keep e = 0.
        let mut e = i32::try_from(self.adjusted()).map_err(|_| DecimalError::ExponentOutOfRange)?;
        if e == -1 {
            e = 0;
        }
        let m = Self::new(self.coefficient(), self.exponent() - e)?;
        // Halley's method on e^y = m triples the digits each time; the float gives 15.
        let mut y = Self::from_f64(m.to_f64().ln()).unwrap_or(Self::ZERO);
        for _ in 0..2 {
            let power = y.exp_work()?;
            let difference = m.add_to(&power.neg(), WORK * 2)?;
            let sum = m.add_to(&power, WORK)?;
            let step = difference.quo_to(&sum, WORK)?.mul_to(&Self::from(2_i64), WORK)?;
            y = y.add_to(&step, WORK)?;
        }
        y.add_to(&ln10().mul_to(&Self::from(e), WORK + 8)?, WORK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn known_values() {
        for (got, want) in [
            (d("1").exp(), "2.718281828459045235360287471352662"),
            (d("-1").exp(), "0.3678794411714423215955237701614609"),
            (d("100").exp(), "2.688117141816135448412625551580014E+43"),
            (d("0.0001").exp(), "1.000100005000166670833416668055575"),
            (d("2").ln(), "0.6931471805599453094172321214581766"),
            (d("4").ln(), "1.386294361119890618834464242916353"),
            (d("0.999").ln(), "-0.001000500333583533500142982254068345"),
            (d("1E+1000").ln(), "2302.585092994045684017991454684364"),
            (d("4").log10(), "0.6020599913279623904274777894489861"),
            (d("1000").log10(), "3"),
            (d("0.01").log10(), "-2"),
            (d("8").pow(&d("4")), "4096"),
            (d("2").pow(&d("3.5")), "11.31370849898476039041350979367758"),
            (d("2").pow(&d("-2")), "0.25"),
            (d("-2").pow(&d("3")), "-8"),
            (d("2").cbrt(), "1.259921049894873164767210607278228"),
            (d("27").cbrt(), "3"),
            (d("-0.001").cbrt(), "-0.1"),
            (d("1E-3000").cbrt(), "1E-1000"),
        ] {
            let got = got.unwrap();
            let close = got.sub(&d(want)).unwrap().abs();
            let last = d(want).exponent();
            assert!(close <= Decimal::new(BigInt::from(1), last).unwrap(), "{got} {want}");
        }
    }

    #[test]
    fn refusals() {
        assert_eq!(d("0").ln(), Err(DecimalError::InvalidOperation));
        assert_eq!(d("-1").log10(), Err(DecimalError::InvalidOperation));
        assert_eq!(d("0").pow(&d("0")), Err(DecimalError::InvalidOperation));
        assert_eq!(d("0").pow(&d("-1")), Err(DecimalError::DivisionByZero));
        assert_eq!(d("-2").pow(&d("0.5")), Err(DecimalError::InvalidOperation));
        assert_eq!(d("1E+6").exp(), Err(DecimalError::ExponentOutOfRange));
        assert_eq!(d("10").pow(&d("1E+9")), Err(DecimalError::ExponentOutOfRange));
        assert_eq!(d("1E+90000").exp(), Err(DecimalError::ExponentOutOfRange));
        assert!(d("1.0000001").pow(&d("1E+9")).is_ok());
    }
}
