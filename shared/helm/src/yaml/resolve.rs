//! What an untagged plain scalar is under YAML 1.1 as Helm's reader (go-yaml v2) decides it: by its first byte, then
//! by tables and number grammars.

use std::borrow::Cow;

use vela_gocompat::{strconv, time};

/// The value of a plain scalar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Recognised as a time, and kept as its text.
    Timestamp,
    Text,
}

/// Resolves an untagged plain scalar.
pub(crate) fn resolve(text: &str) -> Scalar {
    let Some(first) = text.bytes().next() else { return Scalar::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => named(text),
        b'.' => match named(text) {
            Scalar::Text => strconv::parse_float(text).map_or(Scalar::Text, Scalar::Float),
            other => other,
        },
        b'+' | b'-' | b'0'..=b'9' => match named(text) {
            Scalar::Text if is_timestamp(text) => Scalar::Timestamp,
            Scalar::Text => number(text),
            other => other,
        },
        _ => Scalar::Text,
    }
}

fn named(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => Scalar::Text,
    }
}

fn number(text: &str) -> Scalar {
    let plain: Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Ok(int) = strconv::parse_int(&plain, 0, 64) {
        return Scalar::Int(int);
    }
    if let Ok(uint) = strconv::parse_uint(&plain, 0, 64) {
        return Scalar::Uint(uint);
    }
    if is_float(&plain)
        && let Ok(float) = strconv::parse_float(&plain)
    {
        return Scalar::Float(float);
    }
    Scalar::Text
}

/// The float grammar: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    let mut rest = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if whole == 0 && count == 0 {
            return false;
        }
        rest = fraction.get(count..).unwrap_or_default();
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    }
}

/// Whether a text is a number of base 60 (`1:30`): a string when read, but never written without quotes.
pub(crate) fn is_base60(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let (body, fraction) = match rest.split_once('.') {
        Some((body, fraction)) => (body, Some(fraction)),
        None => (rest, None),
    };
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let part = |part: &&str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
        _ => false,
    };
    let loose = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    loose(first) && !rest.is_empty() && rest.iter().all(part) && fraction.is_none_or(loose)
}

/// Layouts of times, with one or two digits for everything but the year.
const TIMESTAMPS: [&str; 4] = [
    "2006-1-2T15:4:5.999999999Z07:00",
    "2006-1-2t15:4:5.999999999Z07:00",
    "2006-1-2 15:4:5.999999999",
    "2006-1-2",
];

fn is_timestamp(text: &str) -> bool {
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    year == 4
        && text.as_bytes().get(4) == Some(&b'-')
        && TIMESTAMPS.iter().any(|layout| time::parse(layout, text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_resolved_by_the_rules_of_yaml_1_1() {
        for (text, want) in [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("Null", Scalar::Null),
            ("y", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("tRue", Scalar::Text),
            ("017", Scalar::Int(15)),
            ("08", Scalar::Float(8.0)),
            ("0o17", Scalar::Int(15)),
            ("0x1F", Scalar::Int(31)),
            ("-0b11", Scalar::Int(-3)),
            ("1_000", Scalar::Int(1000)),
            ("18446744073709551615", Scalar::Uint(u64::MAX)),
            ("18446744073709551616", Scalar::Float(18_446_744_073_709_551_616.0)),
            ("5.", Scalar::Float(5.0)),
            (".5e1", Scalar::Float(5.0)),
            ("+.inf", Scalar::Float(f64::INFINITY)),
            ("1e", Scalar::Text),
            ("1:30", Scalar::Text),
            ("2020-1-2", Scalar::Timestamp),
            ("2020-13-02", Scalar::Text),
            ("<<", Scalar::Text),
            ("NaN", Scalar::Text),
            ("_1", Scalar::Text),
        ] {
            assert_eq!(resolve(text), want, "{text:?}");
        }
    }

    #[test]
    fn base_60_is_recognised() {
        for text in ["1:30", "-1:0", "12:30:45.5", "1_0:59"] {
            assert!(is_base60(text), "{text}");
        }
        for text in ["1:60", "a:1", "1:", "1", "1:300"] {
            assert!(!is_base60(text), "{text}");
        }
    }
}
