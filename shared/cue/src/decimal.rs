//! Arbitrary-precision decimals as the reference's number library does them.

use num_bigint::BigUint;
use std::cmp::Ordering;
use std::fmt;

/// A decimal number: `(-1)^negative * coefficient * 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The sign.
    pub negative: bool,
    /// The digits.
    pub coefficient: BigUint,
    /// The power of ten.
    pub exponent: i32,
}

impl From<i64> for Decimal {
    fn from(i: i64) -> Self {
        Self { negative: i < 0, coefficient: BigUint::from(i.unsigned_abs()), exponent: 0 }
    }
}

impl Decimal {
    /// Reads a plain decimal text (`-12.50e3`); digits and exponent are kept as written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (rest.get(..at)?, rest.get(at + 1..)?.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let coefficient = all.parse().ok()?;
        let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        Some(Self { negative, coefficient, exponent })
    }

    /// The value as an `i64`, if it is integral and fits.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        let text = self.coefficient.to_string();
        let text = match usize::try_from(self.exponent) {
            Ok(zeros) if zeros < 20 => format!("{text}{}", "0".repeat(zeros)),
            Ok(_) => return (text == "0").then_some(0),
            Err(_) => {
                let cut = usize::try_from(self.exponent.unsigned_abs()).ok()?;
                if text == "0" {
                    return Some(0);
                }
                let at = text.len().checked_sub(cut)?;
                let (whole, fraction) = text.split_at(at);
                if fraction.bytes().any(|b| b != b'0') {
                    return None;
                }
                whole.to_owned()
            }
        };
        format!("{}{text}", if self.negative { "-" } else { "" }).parse().ok()
    }

    /// Numerical order.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let zero = BigUint::ZERO;
        let sign = |d: &Self| match (d.coefficient == zero, d.negative) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        };
        match (sign(self), sign(other)) {
            (a, b) if a != b => return a.cmp(&b),
            (0, _) => return Ordering::Equal,
            _ => {}
        }
        let ten = BigUint::from(10_u8);
        let low = self.exponent.min(other.exponent);
        let a = &self.coefficient * ten.pow(self.exponent.abs_diff(low));
        let b = &other.coefficient * ten.pow(other.exponent.abs_diff(low));
        if self.negative { b.cmp(&a) } else { a.cmp(&b) }
    }
}

/// The scientific form of the general decimal arithmetic specification.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let digits = self.coefficient.to_string();
        let len = i64::try_from(digits.len()).unwrap_or(i64::MAX);
        let exponent = i64::from(self.exponent);
        let adjusted = exponent + len - 1;
        if exponent <= 0 && adjusted >= -6 {
            let point = len + exponent;
            if exponent == 0 {
                return f.write_str(&digits);
            }
            if point <= 0 {
                let zeros = usize::try_from(-point).unwrap_or(0);
                return write!(f, "0.{}{digits}", "0".repeat(zeros));
            }
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            return write!(f, "{whole}.{fraction}");
        }
        let (first, rest) = digits.split_at(1);
        f.write_str(first)?;
        if !rest.is_empty() {
            write!(f, ".{rest}")?;
        }
        write!(f, "E{adjusted:+}")
    }
}
