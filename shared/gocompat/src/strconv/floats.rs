//! Floats: reading them as Go does, and all of its formats.

use super::{NumError, NumReason, error};

/// `strconv.ParseFloat(text, 64)`.
///
/// # Errors
/// As Go's.
pub fn parse_float(text: &str) -> Result<f64, NumError> {
    const NAME: &str = "ParseFloat";
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let named = matches!(unsigned.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    let hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let parsed = if text.contains('_') && !separates_digits(unsigned, hex) {
        None
    } else if hex {
        let digits = unsigned.get(2..).unwrap_or_default().replace('_', "");
        hex_float(&digits).map(|n| if text.starts_with('-') { -n } else { n })
    } else {
        text.replace('_', "").parse::<f64>().ok()
    };
    match parsed {
        Some(n) if n.is_infinite() && !named => Err(error(NAME, text, NumReason::Range)),
        Some(n) => Ok(n),
        None => Err(error(NAME, text, NumReason::Syntax)),
    }
}

/// Whether underscores stand between digits only, or between `0x` and a digit.
fn separates_digits(unsigned: &str, hex: bool) -> bool {
    let is_digit = |b: u8| b.is_ascii_digit() || (hex && b.is_ascii_hexdigit());
    let bytes = unsigned.as_bytes();
    bytes.iter().enumerate().filter(|(_, b)| **b == b'_').all(|(i, _)| {
        let before = i.checked_sub(1).and_then(|i| bytes.get(i));
        let after = bytes.get(i + 1);
        let prefix = hex && i == 2;
        before.is_some_and(|b| prefix || is_digit(*b)) && after.is_some_and(|b| is_digit(*b))
    })
}

/// `1.8p-3` of base 16: an exponent there must be.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, power) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    let known = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty();
    if !known || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    // A power out of any float's range stays out of it.
    let magnitude = digits.trim_start_matches('0').parse::<i64>();
    let magnitude = magnitude.unwrap_or(if digits.contains(|c| c != '0') { 1 << 40 } else { 0 });
    let power = if power.starts_with('-') { -magnitude } else { magnitude };
    let mut exponent = power.clamp(-(1 << 40), 1 << 40) - 4 * fraction.len() as i64;
    // Digits that do not fit only matter for rounding.
    let (mut bits, mut rest) = (0_u64, false);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if bits < 1 << 60 {
            bits = bits << 4 | digit;
        } else {
            rest |= digit != 0;
            exponent += 4;
        }
    }
    Some(scaled(bits, rest, exponent))
}

/// `bits * 2^exponent`, and a little more with `rest`, rounded to even.
fn scaled(bits: u64, rest: bool, exponent: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let length = i64::from(64 - bits.leading_zeros());
    let top = exponent + length - 1;
    if top > 1023 {
        return f64::INFINITY;
    }
    // Small floats have fewer bits.
    let keep = 53 - (-1022 - top).max(0);
    if keep < 0 {
        return 0.0;
    }
    let dropped = length - keep;
    let kept = if dropped <= 0 {
        bits << -dropped
    } else {
        let (low, half) = (u128::from(bits) & ((1 << dropped) - 1), 1_u128 << (dropped - 1));
        let kept = (u128::from(bits) >> dropped) as u64;
        let up = low > half || (low == half && (rest || kept & 1 == 1));
        kept + u64::from(up)
    };
    let power = top - keep + 1;
    let unit = if power < -1022 {
        f64::from_bits(1 << (power + 1074))
    } else {
        f64::from_bits(((power + 1023) as u64) << 52)
    };
    kept as f64 * unit
}

/// `strconv.FormatFloat(value, format, precision, bit_size)`; `format` is one of `b e E f g G x X`,
/// precision -1 asks for the shortest text that reads back.
#[must_use]
pub fn format_float(value: f64, format: char, precision: i64, bit_size: u32) -> String {
    let value = if bit_size == 32 { f64::from(value as f32) } else { value };
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    // Enough for every digit a float can have; more only pads zeros without bound.
    let precision = precision.min(2_000);
    let body = match format {
        'b' => binary_form(value, bit_size),
        'x' | 'X' => hex_form(value, precision, format == 'X'),
        'e' | 'E' | 'f' | 'g' | 'G' => decimal_form(value, format, precision, bit_size),
        other => return format!("%{other}"),
    };
    format!("{sign}{body}")
}

/// Digits of a float, `0.d1d2d3... * 10^point`.
struct Digits {
    digits: String,
    point: i64,
}

fn shortest(value: f64, bit_size: u32) -> Digits {
    if bit_size == 32 {
        split(&format!("{:e}", value as f32))
    } else {
        split(&format!("{value:e}"))
    }
}

/// Rust's `d.ddde-x` taken apart, trailing zeros dropped.
fn split(text: &str) -> Digits {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0').to_owned();
    let point = if digits.is_empty() { 0 } else { exponent.parse::<i64>().unwrap_or(0) + 1 };
    Digits { digits, point }
}

fn decimal_form(value: f64, format: char, precision: i64, bit_size: u32) -> String {
    let magnitude = value.abs();
    let is_shortest = precision < 0;
    match format {
        'e' | 'E' => {
            if is_shortest {
                let d = shortest(magnitude, bit_size);
                let places = d.digits.len().saturating_sub(1);
                scientific(&d, places, format)
            } else {
                let text = format!("{magnitude:.*e}", precision as usize);
                scientific(&split(&text), precision as usize, format)
            }
        }
        'f' if is_shortest => {
            let d = shortest(magnitude, bit_size);
            plain(&d)
        }
        'f' => format!("{magnitude:.*}", precision as usize),
        _ => general(magnitude, format, precision, bit_size),
    }
}

fn general(magnitude: f64, format: char, precision: i64, bit_size: u32) -> String {
    let is_shortest = precision < 0;
    let (d, precision) = if is_shortest {
        (shortest(magnitude, bit_size), 6)
    } else {
        let precision = precision.max(1);
        (split(&format!("{magnitude:.*e}", (precision - 1) as usize)), precision)
    };
    let count = d.digits.len() as i64;
    let limit = if is_shortest {
        6
    } else if precision > count && count >= d.point {
        count
    } else {
        precision
    };
    let exponent = d.point - 1;
    if exponent < -4 || exponent >= limit {
        let letter = if format == 'G' { 'E' } else { 'e' };
        return scientific(&d, d.digits.len().saturating_sub(1), letter);
    }
    plain(&d)
}

fn scientific(d: &Digits, places: usize, letter: char) -> String {
    let first = d.digits.get(..1).unwrap_or("0");
    let rest = d.digits.get(1..).unwrap_or_default();
    let mut text = first.to_owned();
    if places > 0 {
        text.push('.');
        text.push_str(&format!("{rest:0<places$}"));
    }
    let exponent = if d.digits.is_empty() { 0 } else { d.point - 1 };
    let sign = if exponent < 0 { '-' } else { '+' };
    text.push_str(&format!("{letter}{sign}{:02}", exponent.abs()));
    text
}

fn plain(d: &Digits) -> String {
    if d.digits.is_empty() {
        return "0".to_owned();
    }
    if d.point <= 0 {
        return format!("0.{}{}", "0".repeat(d.point.unsigned_abs() as usize), d.digits);
    }
    let point = d.point as usize;
    match d.digits.split_at_checked(point) {
        Some((whole, "")) => whole.to_owned(),
        Some((whole, fraction)) => format!("{whole}.{fraction}"),
        None => format!("{:0<point$}", d.digits),
    }
}

/// Mantissa and exponent as integers: `mantissa * 2^exponent`.
fn parts(value: f64, bit_size: u32) -> (u64, i64) {
    if bit_size == 32 {
        let bits = (value as f32).abs().to_bits();
        let (fraction, exponent) = (u64::from(bits & 0x7f_ffff), i64::from(bits >> 23));
        return if exponent == 0 {
            (fraction, 1 - 127 - 23)
        } else {
            (fraction | 1 << 23, exponent - 127 - 23)
        };
    }
    let bits = value.abs().to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i64);
    if exponent == 0 {
        (fraction, 1 - 1023 - 52)
    } else {
        (fraction | 1 << 52, exponent - 1023 - 52)
    }
}

fn binary_form(value: f64, bit_size: u32) -> String {
    let (mantissa, exponent) = parts(value, bit_size);
    format!("{mantissa}p{exponent:+}")
}

fn hex_form(value: f64, precision: i64, upper: bool) -> String {
    let (mantissa, exponent) = parts(value, 64);
    let mut mantissa = u128::from(mantissa);
    let mut exponent = exponent + 60;
    if mantissa == 0 {
        exponent = 0;
    } else {
        // One bit before the point, 60 bits behind it.
        let shift = mantissa.leading_zeros() - (127 - 60);
        mantissa <<= shift;
        exponent -= i64::from(shift);
        if (0..15).contains(&precision) {
            let cut = (15 - precision) as u32 * 4;
            let rest = mantissa & ((1 << cut) - 1);
            mantissa >>= cut;
            let half = 1_u128 << (cut - 1);
            if rest > half || (rest == half && mantissa & 1 == 1) {
                mantissa += 1;
            }
            mantissa <<= cut;
            if mantissa >> 61 != 0 {
                mantissa >>= 1;
                exponent += 1;
            }
        }
    }
    let lead = mantissa >> 60;
    let fraction = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let fraction = if precision < 0 {
        fraction.trim_end_matches('0').to_owned()
    } else {
        let places = precision as usize;
        format!("{:0<places$}", fraction.get(..places.min(15)).unwrap_or_default())
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("0x{lead}{point}{fraction}p{sign}{:02}", exponent.abs());
    if upper { text.to_ascii_uppercase() } else { text }
}
