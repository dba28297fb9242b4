//! Go's `strconv`: numbers, booleans and quoted strings, with Go's error texts.
//!
//! Our own: no crate has Go's formats (`%g`, hexadecimal floats), its ranges and its error texts.

mod floats;
mod quote;

use std::fmt;

pub use floats::{format_float, parse_float};
pub use quote::{
    is_print, quote, quote_char, quote_char_to_ascii, quote_to_ascii, unquote, unquote_char,
};

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
