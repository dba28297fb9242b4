//! Go's `strconv`: numbers, booleans and quoted strings, with Go's error texts.

use std::fmt;

/// Why a text did not convert: Go's `NumError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumError {
    /// The function (`ParseInt`, `Atoi`, ...).
    pub function: &'static str,
    /// The text that was to be converted.
    pub input: String,
    /// What is wrong with it.
    pub reason: NumReason,
}

/// The reason in a [`NumError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumReason {
    /// The text has not the right form.
    Syntax,
    /// The value does not fit.
    Range,
    /// The base is neither 0 nor 2 to 36.
    Base(i64),
    /// The size is not within 0 to 64.
    BitSize(i64),
}

impl fmt::Display for NumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strconv.{}: parsing {}: ", self.function, quote(&self.input))?;
        match self.reason {
            NumReason::Syntax => f.write_str("invalid syntax"),
            NumReason::Range => f.write_str("value out of range"),
            NumReason::Base(base) => write!(f, "invalid base {base}"),
            NumReason::BitSize(size) => write!(f, "invalid bit size {size}"),
        }
    }
}

impl std::error::Error for NumError {}

fn error(function: &'static str, input: &str, reason: NumReason) -> NumError {
    NumError { function, input: input.to_owned(), reason }
}

/// `strconv.ParseBool`.
///
/// # Errors
/// If the text is none of `1 t T TRUE true True 0 f F FALSE false False`.
pub fn parse_bool(text: &str) -> Result<bool, NumError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(error("ParseBool", text, NumReason::Syntax)),
    }
}

/// `strconv.Atoi` on a 64-bit machine.
///
/// # Errors
/// As Go's.
pub fn atoi(text: &str) -> Result<i64, NumError> {
    parse_int(text, 10, 64).map_err(|e| NumError { function: "Atoi", ..e })
}

/// `strconv.ParseInt`: base 0 takes the base from a prefix and allows `_` between digits.
///
/// # Errors
/// As Go's.
pub fn parse_int(text: &str, base: i64, bit_size: i64) -> Result<i64, NumError> {
    const NAME: &str = "ParseInt";
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let bits = bits(NAME, text, bit_size)?;
    let limit = 1_u64 << (bits - 1);
    let range = || error(NAME, text, NumReason::Range);
    let magnitude = match magnitude(digits, base) {
        Ok(n) => n,
        Err(reason) => return Err(error(NAME, text, reason)),
    };
    if negative {
        if magnitude > limit {
            return Err(range());
        }
        return Ok(0_i64.wrapping_sub_unsigned(magnitude));
    }
    if magnitude >= limit {
        return Err(range());
    }
    i64::try_from(magnitude).map_err(|_| range())
}

/// `strconv.ParseUint`.
///
/// # Errors
/// As Go's.
pub fn parse_uint(text: &str, base: i64, bit_size: i64) -> Result<u64, NumError> {
    const NAME: &str = "ParseUint";
    let bits = bits(NAME, text, bit_size)?;
    let n = magnitude(text, base).map_err(|reason| error(NAME, text, reason))?;
    if bits < 64 && n >> bits != 0 {
        return Err(error(NAME, text, NumReason::Range));
    }
    Ok(n)
}

fn bits(function: &'static str, text: &str, bit_size: i64) -> Result<u32, NumError> {
    match bit_size {
        0 => Ok(64),
        1..=64 => Ok(bit_size as u32),
        _ => Err(error(function, text, NumReason::BitSize(bit_size))),
    }
}

fn magnitude(text: &str, base: i64) -> Result<u64, NumReason> {
    if text.is_empty() {
        return Err(NumReason::Syntax);
    }
    let (radix, digits) = match base {
        2..=36 => (base as u32, text),
        0 => prefixed(text),
        _ => return Err(NumReason::Base(base)),
    };
    if digits.is_empty() || (base == 0 && !underscores_fit(text)) {
        return Err(NumReason::Syntax);
    }
    let mut value: u64 = 0;
    let mut overflow = false;
    for c in digits.chars() {
        if c == '_' && base == 0 {
            continue;
        }
        let digit = c.to_digit(radix).ok_or(NumReason::Syntax)?;
        let next =
            value.checked_mul(u64::from(radix)).and_then(|v| v.checked_add(u64::from(digit)));
        match next {
            Some(n) => value = n,
            // Go reports the range only if nothing was wrong before the digit that overflowed.
            None => {
                overflow = true;
                break;
            }
        }
    }
    if overflow { Err(NumReason::Range) } else { Ok(value) }
}

fn prefixed(text: &str) -> (u32, &str) {
    let lower = text.get(..2).map(str::to_ascii_lowercase);
    match lower.as_deref() {
        Some("0x") => (16, text.get(2..).unwrap_or_default()),
        Some("0b") => (2, text.get(2..).unwrap_or_default()),
        Some("0o") => (8, text.get(2..).unwrap_or_default()),
        _ if text.len() > 1 && text.starts_with('0') => (8, text.get(1..).unwrap_or_default()),
        _ => (10, text),
    }
}

/// Underscores only between digits or after a base prefix, never doubled or last.
fn underscores_fit(text: &str) -> bool {
    let prefix = ["0x", "0b", "0o"];
    let has_prefix =
        text.get(..2).is_some_and(|p| prefix.contains(&p.to_ascii_lowercase().as_str()));
    let digits = if has_prefix { text.get(2..).unwrap_or_default() } else { text };
    let mut groups = digits.split('_');
    let first = groups.next().unwrap_or_default();
    (has_prefix || !first.is_empty()) && groups.all(|group| !group.is_empty())
}

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

/// Whether Go's `unicode.IsPrint` holds.
#[must_use]
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_graphic() || c == ' ';
    }
    // Behind a first character, escape_debug leaves exactly the printable ones alone.
    let mut probe = String::from("a");
    probe.push(c);
    probe.escape_debug().count() == 2
}

/// `strconv.Quote`.
#[must_use]
pub fn quote(text: &str) -> String {
    quote_with(text, false)
}

/// `strconv.QuoteToASCII`.
#[must_use]
pub fn quote_to_ascii(text: &str) -> String {
    quote_with(text, true)
}

fn quote_with(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c, '"', ascii);
    }
    out.push('"');
    out
}

/// `strconv.QuoteRune`.
#[must_use]
pub fn quote_char(c: char) -> String {
    quote_char_with(c, false)
}

/// `strconv.QuoteRuneToASCII`.
#[must_use]
pub fn quote_char_to_ascii(c: char) -> String {
    quote_char_with(c, true)
}

fn quote_char_with(c: char, ascii: bool) -> String {
    let mut out = String::from("'");
    push_quoted(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

fn push_quoted(out: &mut String, c: char, delimiter: char, ascii: bool) {
    let short = match c {
        _ if c == delimiter => {
            out.push('\\');
            c
        }
        '\\' => {
            out.push('\\');
            c
        }
        '\u{7}' => return out.push_str("\\a"),
        '\u{8}' => return out.push_str("\\b"),
        '\u{c}' => return out.push_str("\\f"),
        '\n' => return out.push_str("\\n"),
        '\r' => return out.push_str("\\r"),
        '\t' => return out.push_str("\\t"),
        '\u{b}' => return out.push_str("\\v"),
        _ if c.is_ascii() && is_print(c) => c,
        _ if !ascii && is_print(c) => c,
        _ if (c as u32) < 0x20 || c == '\u{7f}' => {
            return out.push_str(&format!("\\x{:02x}", c as u32));
        }
        _ if (c as u32) < 0x1_0000 => return out.push_str(&format!("\\u{:04x}", c as u32)),
        _ => return out.push_str(&format!("\\U{:08x}", c as u32)),
    };
    out.push(short);
}

/// `strconv.Unquote`: `"..."` with escapes, `` `...` `` raw, `'c'` one character. Bytes, because
/// `\xff` need not be UTF-8. `None` is Go's `invalid syntax`.
#[must_use]
pub fn unquote(text: &str) -> Option<Vec<u8>> {
    let delimiter = text.chars().next()?;
    let body = text.get(1..text.len().checked_sub(1)?)?;
    if text.len() < 2 || !text.ends_with(delimiter) {
        return None;
    }
    match delimiter {
        '`' if !body.contains('`') => Some(body.replace('\r', "").into_bytes()),
        '"' | '\'' if !body.contains('\n') => {
            let mut out = Vec::with_capacity(body.len());
            let mut rest = body;
            let mut count = 0_usize;
            while !rest.is_empty() {
                rest = unquote_char(rest, delimiter, &mut out)?;
                count += 1;
            }
            (delimiter == '"' || count == 1).then_some(out)
        }
        _ => None,
    }
}

/// `strconv.UnquoteChar`: appends the first character or escape of a text to `out` and gives the
/// rest. `None` is Go's `invalid syntax`, which a bare `delimiter` is too.
pub fn unquote_char<'a>(text: &'a str, delimiter: char, out: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    let push = |c: char, out: &mut Vec<u8>| {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    match chars.next()? {
        c if c == delimiter => return None,
        '\\' => {}
        c => {
            push(c, out);
            return Some(chars.as_str());
        }
    }
    let c = chars.next()?;
    let rest = chars.as_str();
    let (radix, len) = match c {
        'a' => (0, 0x7),
        'b' => (0, 0x8),
        'f' => (0, 0xc),
        'n' => (0, 0xa),
        'r' => (0, 0xd),
        't' => (0, 0x9),
        'v' => (0, 0xb),
        '\\' => (0, 0x5c),
        '\'' | '"' if c == delimiter => (0, c as usize),
        'x' => (16, 2),
        'u' => (16, 4),
        'U' => (16, 8),
        '0'..='7' => (8, 3),
        _ => return None,
    };
    if radix == 0 {
        out.push(len as u8);
        return Some(rest);
    }
    // Octal includes the digit already taken.
    let from = if radix == 8 { text.get(1..)? } else { rest };
    let digits = from.get(..len)?;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = u32::from_str_radix(digits, radix).ok()?;
    if c == 'u' || c == 'U' {
        push(char::from_u32(value)?, out);
    } else {
        out.push(u8::try_from(value).ok()?);
    }
    from.get(len..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (value, format, precision, size, text) in [
            (1.0, 'e', 5, 64, "1.00000e+00"),
            (1.0, 'f', 5, 64, "1.00000"),
            (1.0, 'g', 5, 64, "1"),
            (1.0, 'g', -1, 64, "1"),
            (20.0, 'g', -1, 64, "20"),
            (1_234_567.8, 'g', -1, 64, "1.2345678e+06"),
            (200_000.0, 'g', -1, 64, "200000"),
            (2_000_000.0, 'g', -1, 64, "2e+06"),
            (400.0, 'g', 2, 64, "4e+02"),
            (40.0, 'g', 2, 64, "40"),
            (4.0, 'g', 2, 64, "4"),
            (0.4, 'g', 2, 64, "0.4"),
            (0.0001, 'g', -1, 64, "0.0001"),
            (0.00001, 'g', -1, 64, "1e-05"),
            (0.0, 'e', 4, 64, "0.0000e+00"),
            (0.0, 'f', -1, 64, "0"),
            (-1.0, 'f', -1, 64, "-1"),
            (12.0, 'f', -1, 64, "12"),
            (123_456_700.0, 'f', -1, 64, "123456700"),
            (1.2345e6, 'e', 3, 64, "1.234e+06"),
            (1e23, 'e', -1, 64, "1e+23"),
            (1e23, 'f', -1, 64, "100000000000000000000000"),
            (0.1, 'g', -1, 32, "0.1"),
            (3.02, 'f', 4, 64, "3.0200"),
            (3.02, 'E', -1, 64, "3.02E+00"),
            (1.0, 'b', -1, 64, "4503599627370496p-52"),
            (1.0, 'x', -1, 64, "0x1p+00"),
            (1.5, 'x', 2, 64, "0x1.80p+00"),
            (0.0, 'x', -1, 64, "0x0p+00"),
            (1.9999, 'x', 1, 64, "0x1.0p+01"),
            (f64::NAN, 'g', -1, 64, "NaN"),
            (f64::NEG_INFINITY, 'g', -1, 64, "-Inf"),
            (1.0, 'q', -1, 64, "%q"),
        ] {
            assert_eq!(format_float(value, format, precision, size), text);
        }
    }

    #[test]
    fn integers() {
        for (text, base, size, want) in [
            ("0", 10, 64, Ok(0)),
            ("-9223372036854775808", 10, 64, Ok(i64::MIN)),
            ("9223372036854775808", 10, 64, Err("value out of range")),
            ("+7f", 16, 64, Ok(127)),
            ("0x7f", 0, 64, Ok(127)),
            ("0b101", 0, 64, Ok(5)),
            ("017", 0, 64, Ok(15)),
            ("1_000", 0, 64, Ok(1000)),
            ("1_000", 10, 64, Err("invalid syntax")),
            ("1__0", 0, 64, Err("invalid syntax")),
            ("128", 10, 8, Err("value out of range")),
            ("-128", 10, 8, Ok(-128)),
            ("", 10, 64, Err("invalid syntax")),
            ("-", 10, 64, Err("invalid syntax")),
            ("1", 1, 64, Err("invalid base 1")),
            ("1", 10, 65, Err("invalid bit size 65")),
        ] {
            let got = parse_int(text, base, size);
            let want =
                want.map_err(|why| format!("strconv.ParseInt: parsing {}: {why}", quote(text)));
            assert_eq!(got.map_err(|e| e.to_string()), want);
        }
        assert_eq!(
            atoi("x").unwrap_err().to_string(),
            "strconv.Atoi: parsing \"x\": invalid syntax"
        );
        assert_eq!(parse_uint("18446744073709551615", 10, 64), Ok(u64::MAX));
        assert!(parse_uint("-1", 10, 64).is_err());
        assert_eq!(
            parse_uint("256", 10, 8).unwrap_err().to_string(),
            "strconv.ParseUint: parsing \"256\": value out of range"
        );
    }

    #[test]
    fn booleans() {
        assert_eq!(parse_bool("T"), Ok(true));
        assert_eq!(parse_bool("False"), Ok(false));
        assert_eq!(
            parse_bool("yes").unwrap_err().to_string(),
            "strconv.ParseBool: parsing \"yes\": invalid syntax"
        );
    }

    #[test]
    fn parsed_floats() {
        assert_eq!(parse_float("1e3"), Ok(1000.0));
        assert_eq!(parse_float(".5"), Ok(0.5));
        assert!(parse_float("+Inf").unwrap().is_infinite());
        assert_eq!(
            parse_float("1e400").unwrap_err().to_string(),
            "strconv.ParseFloat: parsing \"1e400\": value out of range"
        );
        for (text, value) in [
            ("1_0.5", 10.5),
            ("1e1_0", 1e10),
            ("0x_1p4", 16.0),
            ("-0x1.8p1", -3.0),
            ("0x.8p1", 1.0),
            ("0x1p1_0", 1024.0),
            ("0x1p-1080", 0.0),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.fffffffffffff7p0", 1.999_999_999_999_999_8),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080001p0", 1.000_000_000_000_000_2),
            ("0x123456789abcdef0123456789p0", 9.014_404_268_289_631e28),
        ] {
            assert_eq!(parse_float(text), Ok(value), "{text}");
        }
        for text in ["0x1", "0x1.8", "0xp1", "1_", "0x1_p1", "1__0", "1_e1", "._5", "infi", "++1"] {
            let error = parse_float(text).unwrap_err();
            assert!(error.to_string().ends_with("invalid syntax"), "{text}");
        }
        assert!(parse_float("0x1p1024").unwrap_err().to_string().ends_with("out of range"));
    }

    #[test]
    fn quoting() {
        for (text, quoted, ascii) in [
            ("", "\"\"", "\"\""),
            ("a\"b\\c'", "\"a\\\"b\\\\c'\"", "\"a\\\"b\\\\c'\""),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#, r#""\a\b\f\n\r\t\v""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#, r#""\x01\x7f""#),
            ("☺\u{301}", "\"☺\u{301}\"", r#""\u263a\u0301""#),
            (
                "\u{a0}\u{feff}\u{10ffff}",
                r#""\u00a0\ufeff\U0010ffff""#,
                r#""\u00a0\ufeff\U0010ffff""#,
            ),
        ] {
            assert_eq!(quote(text), quoted);
            assert_eq!(quote_to_ascii(text), ascii);
            assert_eq!(unquote(quoted), Some(text.as_bytes().to_vec()));
            assert_eq!(unquote(ascii), Some(text.as_bytes().to_vec()));
        }
        assert_eq!(quote_char('\''), r"'\''");
        for bad in [
            "",
            "\"",
            "\"a",
            "a\"",
            "\"\n\"",
            "\"a\"b\"",
            r#""\q""#,
            r#""\'""#,
            "'ab'",
            "''",
            "``x`",
            r#""\ud800""#,
            r#""\400""#,
        ] {
            assert_eq!(unquote(bad), None, "{bad}");
        }
        assert_eq!(unquote("`a\\n`"), Some(b"a\\n".to_vec()));
        assert_eq!(unquote(r"'\x41'"), Some(b"A".to_vec()));
        assert_eq!(unquote(r#""\101\xff""#), Some(vec![b'A', 0xff]));
    }
}
