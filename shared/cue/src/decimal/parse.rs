//! Reading numbers: decimal text and CUE literals, under the limits.

use num_bigint::BigInt;

use super::{Decimal, DecimalError, MAX_DIGITS, Repr, Result, check_exponent};

pub(super) fn split_sign(text: &str) -> (bool, &str) {
    if let Some(rest) = text.strip_prefix('-') {
        (true, rest)
    } else {
        (false, text.strip_prefix('+').unwrap_or(text))
    }
}

/// `digits [. digits] [e [sign] digits]`; underscores between digits if `separators`.
pub(super) fn parse_decimal(text: &[u8], negative: bool, separators: bool) -> Result<Decimal> {
    let mut digits = Vec::with_capacity(text.len().min(40));
    let mut places: i64 = 0;
    let mut seen_digit = false;
    let mut seen_point = false;
    let mut after_digit = false;
    let mut rest = text.iter();
    let mut exponent_text = None;
    let mut pending_separator = false;
    while let Some(&byte) = rest.next() {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte);
                seen_digit = true;
                after_digit = true;
                pending_separator = false;
                if seen_point {
                    places += 1;
                }
            }
            b'_' if separators && after_digit => {
                after_digit = false;
                pending_separator = true;
            }
            b'.' if !seen_point && !pending_separator => {
                seen_point = true;
                after_digit = false;
            }
            b'e' | b'E' if seen_digit && !pending_separator => {
                exponent_text = Some(rest.as_slice());
                break;
            }
            _ => return Err(DecimalError::Syntax),
        }
    }
    if !seen_digit || pending_separator {
        return Err(DecimalError::Syntax);
    }
    let exponent = match exponent_text {
        Some(text) => parse_exponent(text, separators)?,
        None => 0,
    };
    finish_parse(&digits, exponent.saturating_sub(places), negative)
}

fn finish_parse(digits: &[u8], exponent: i64, negative: bool) -> Result<Decimal> {
    let significant = digits.iter().position(|b| *b != b'0').unwrap_or(digits.len());
    let digits = digits.get(significant..).unwrap_or_default();
    if digits.len() > MAX_DIGITS {
        return Err(DecimalError::TooManyDigits);
    }
    let exponent = check_exponent(digits.len().max(1) as u32, exponent, digits.is_empty())?;
    if digits.len() <= 18 {
        let n = digits.iter().fold(0_i64, |n, b| n * 10 + i64::from(b - b'0'));
        return Ok(Decimal(Repr::Small(if negative { -n } else { n }, exponent)));
    }
    let n = BigInt::parse_bytes(digits, 10).ok_or(DecimalError::Syntax)?;
    Ok(Decimal::raw(if negative { -n } else { n }, exponent))
}

fn parse_exponent(text: &[u8], separators: bool) -> Result<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut value: i64 = 0;
    let mut after_digit = false;
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                value = value.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
                after_digit = true;
            }
            b'_' if separators && after_digit => after_digit = false,
            _ => return Err(DecimalError::Syntax),
        }
    }
    if !after_digit {
        return Err(DecimalError::Syntax);
    }
    // Far outside every limit, yet small enough to compute with.
    let value = value.min(1 << 40);
    Ok(if negative { -value } else { value })
}

/// Multiplier suffixes: `K M G T P`, with `i` binary.
fn split_multiplier(text: &str) -> (&str, Option<BigInt>) {
    let (body, binary) = match text.strip_suffix('i') {
        Some(body) => (body, true),
        None => (text, false),
    };
    let power = match body.as_bytes().last() {
        Some(b'K') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(b'P') => 5,
        Some(b'E') if body.len() > 1 => 6,
        _ => return (text, None),
    };
    let base = if binary { 1024_u32 } else { 1000 };
    let body = body.get(..body.len() - 1).unwrap_or_default();
    (body, Some(BigInt::from(base).pow(power)))
}

pub(super) fn literal(text: &str, negative: bool) -> Result<(Decimal, bool)> {
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return based(digits, radix, negative).map(|n| (n, true));
        }
    }
    let (body, multiplier) = split_multiplier(text);
    if let Some(multiplier) = multiplier {
        if body.bytes().any(|b| matches!(b, b'e' | b'E')) {
            return Err(DecimalError::Syntax);
        }
        let number = parse_decimal(body.as_bytes(), negative, true)?;
        let (coefficient, exponent) = number.parts();
        let product = Decimal::new(coefficient * multiplier, exponent)?;
        let whole = product.to_bigint().ok_or(DecimalError::NotInteger)?;
        return Ok((Decimal::raw(whole, 0), true));
    }
    let float = text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    if !float && text.len() > 1 && text.starts_with('0') {
        return Err(DecimalError::Syntax);
    }
    Ok((parse_decimal(text.as_bytes(), negative, true)?, !float))
}

fn based(digits: &str, radix: u32, negative: bool) -> Result<Decimal> {
    let mut clean = Vec::with_capacity(digits.len());
    let mut after_digit = false;
    for byte in digits.bytes() {
        if byte == b'_' && after_digit {
            after_digit = false;
        } else if char::from(byte).is_digit(radix) {
            clean.push(byte);
            after_digit = true;
        } else {
            return Err(DecimalError::Syntax);
        }
    }
    if !after_digit {
        return Err(DecimalError::Syntax);
    }
    if clean.len() > MAX_DIGITS {
        return Err(DecimalError::TooManyDigits);
    }
    let n = BigInt::parse_bytes(&clean, radix).ok_or(DecimalError::Syntax)?;
    Decimal::new(if negative { -n } else { n }, 0)
}
