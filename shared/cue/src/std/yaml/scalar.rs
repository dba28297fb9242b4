//! What a plain scalar means: the resolution rules of go-yaml v3, which are neither YAML 1.1 nor
//! 1.2. `yes` is a string, `017` is 15, `0o17` too, `1_000` is 1000, `2001-01-01` is a timestamp.

use num_bigint::BigInt;

use crate::decimal::{Decimal, DecimalError};
use crate::value::{Number, Value};

/// The meaning of a plain scalar.
#[derive(Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    /// An integer of any size.
    Int(Decimal),
    Float(Decimal),
    /// Infinities and NaN, which CUE does not have.
    NotANumber,
    /// A date or time; CUE keeps the text.
    Timestamp,
    /// `<<`
    Merge,
    String,
}

/// Resolves a plain scalar. Errors are crossed limits of numbers.
pub(super) fn resolve(text: &str) -> Result<Resolved, DecimalError> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "true" | "True" | "TRUE" => Resolved::Bool(true),
        "false" | "False" | "FALSE" => Resolved::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => Resolved::NotANumber,
        "<<" => Resolved::Merge,
        _ => match text.as_bytes().first() {
            Some(b'.') if is_float(text) => Resolved::Float(Decimal::parse(text)?),
            Some(b'0'..=b'9' | b'+' | b'-') => return number(text),
            _ => Resolved::String,
        },
    })
}

fn number(text: &str) -> Result<Resolved, DecimalError> {
    if is_timestamp(text) {
        return Ok(Resolved::Timestamp);
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, plain.get(1..).unwrap_or_default()),
        Some(b'+') => (false, plain.get(1..).unwrap_or_default()),
        _ => (false, plain.as_str()),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, digits.get(2..).unwrap_or_default()),
        Some("0o" | "0O") => (8, digits.get(2..).unwrap_or_default()),
        Some("0b" | "0B") => (2, digits.get(2..).unwrap_or_default()),
        _ if digits.len() > 1 && digits.starts_with('0') && all_digits(digits, 8) => (8, digits),
        _ => (10, digits),
    };
    let decimal_with_zeros = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    if all_digits(digits, radix) && !decimal_with_zeros {
        if digits.len() > crate::decimal::MAX_DIGITS {
            return Err(DecimalError::TooManyDigits);
        }
        if let Some(n) = BigInt::parse_bytes(digits.as_bytes(), radix) {
            return Ok(Resolved::Int(Decimal::new(if negative { -n } else { n }, 0)?));
        }
    }
    if is_float(&plain) {
        return Ok(Resolved::Float(Decimal::parse(&plain)?));
    }
    Ok(Resolved::String)
}

fn all_digits(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
        None => (rest, None),
    };
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => all_digits(fraction, 10),
        Some((whole, fraction)) => {
            all_digits(whole, 10) && (fraction.is_empty() || all_digits(fraction, 10))
        }
        None => all_digits(mantissa, 10),
    };
    let exponent_fits =
        exponent.is_none_or(|e| all_digits(e.strip_prefix(['-', '+']).unwrap_or(e), 10));
    mantissa_fits && exponent_fits
}

/// `2006-1-2`, optionally followed by `T` or a space and a time.
fn is_timestamp(text: &str) -> bool {
    let quick = text.len() >= 8
        && text.bytes().take(4).all(|b| b.is_ascii_digit())
        && text.as_bytes().get(4) == Some(&b'-');
    quick
        && [
            "2006-1-2T15:4:5.999999999Z07:00",
            "2006-1-2t15:4:5.999999999Z07:00",
            "2006-1-2 15:4:5.999999999",
            "2006-1-2",
        ]
        .iter()
        .any(|layout| vela_gocompat::time::parse(layout, text).is_ok())
}

impl Resolved {
    /// The value; `text` for what stays a string.
    pub(super) fn into_value(self, text: &str) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(n) => Value::Number(Number::int(n)),
            Self::Float(n) => Value::Number(Number::float(n)),
            Self::NotANumber => return None,
            Self::Timestamp | Self::Merge | Self::String => Value::from(text),
        })
    }
}
