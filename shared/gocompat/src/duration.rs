//! Go's `time.Duration`: what `ParseDuration` accepts and `String` writes.
//!
//! Our own: humantime and jiff read and write other forms.

use std::fmt;
use std::str::FromStr;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A signed span in nanoseconds, as Go counts it (about 292 years each way).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

/// Why a text is no duration; the texts are Go's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// Not of the form `[+-](number unit)+`, or out of range.
    Invalid(String),
    /// A number without unit.
    MissingUnit(String),
    /// A unit that is none of `ns us µs ms s m h`.
    UnknownUnit {
        /// The letters between two numbers.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::strconv::quote;
        match self {
            Self::Invalid(text) => write!(f, "time: invalid duration {}", quote(text)),
            Self::MissingUnit(text) => write!(f, "time: missing unit in duration {}", quote(text)),
            Self::UnknownUnit { unit, text } => {
                write!(f, "time: unknown unit {} in duration {}", quote(unit), quote(text))
            }
        }
    }
}

impl std::error::Error for DurationError {}

impl Duration {
    /// From whole seconds, saturating.
    #[must_use]
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// The nanoseconds.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds with fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// As an unsigned standard duration; `None` if negative.
    #[must_use]
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }
}

impl From<std::time::Duration> for Duration {
    /// Saturates at Go's maximum.
    fn from(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        parse(text)
    }
}

/// A time limit as a flag says it; negative ones are refused, since no flag of ours has a use for them.
///
/// # Errors
/// What to write instead.
pub fn parse_limit(text: &str) -> Result<std::time::Duration, &'static str> {
    let read = text.parse::<Duration>().ok().and_then(Duration::to_std);
    read.ok_or("not a duration; write 90s, 5m, 1h30m or 500ms")
}

fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    // "0" needs no unit.
    if rest == "0" {
        return Ok(Duration(0));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_end = digits(rest);
        let (whole, after) = rest.split_at_checked(whole_end).ok_or_else(invalid)?;
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at_checked(digits(after)).ok_or_else(invalid)?,
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end =
            after.bytes().position(|b| b == b'.' || b.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end).ok_or_else(invalid)?;
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let scale = unit_scale(unit).ok_or_else(|| DurationError::UnknownUnit {
            unit: unit.to_owned(),
            text: text.to_owned(),
        })?;
        let nanos = span(whole, fraction, scale).ok_or_else(invalid)?;
        total = total.checked_add(nanos).filter(|t| *t <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        return Ok(Duration(0_i64.wrapping_sub_unsigned(total)));
    }
    i64::try_from(total).map(Duration).map_err(|_| invalid())
}

fn digits(text: &str) -> usize {
    text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len())
}

/// `whole.fraction` times `scale`; the fraction is cut, not rounded, as in Go.
fn span(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(scale).filter(|n| *n <= 1 << 63)?;
    let mut value: u64 = 0;
    let mut divisor = 1_f64;
    for digit in fraction.bytes() {
        // Digits beyond 63 bits cannot change the result.
        match value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0'))) {
            Some(v) if v <= (1 << 63) => value = v,
            _ => break,
        }
        divisor *= 10.0;
    }
    if value > 0 {
        nanos = nanos.checked_add((value as f64 * (scale as f64 / divisor)) as u64)?;
    }
    (nanos <= 1 << 63).then_some(nanos)
}

fn unit_scale(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 micro sign and U+03BC Greek mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos < SECOND {
            let (scale, unit) = match nanos {
                n if n < MICROSECOND => (1, "ns"),
                n if n < MILLISECOND => (MICROSECOND, "\u{b5}s"),
                _ => (MILLISECOND, "ms"),
            };
            return write!(f, "{}{unit}", decimal(nanos, scale));
        }
        let hours = nanos / HOUR;
        let minutes = nanos / MINUTE % 60;
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanos % MINUTE, SECOND))
    }
}

/// `nanos / scale` as decimal text without trailing zeros.
fn decimal(nanos: u64, scale: u64) -> String {
    let whole = nanos / scale;
    let rest = nanos % scale;
    if rest == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_as_go() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-5s", -5_000_000_000),
            ("5.0s", 5_000_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.004s", 1_004_000_000),
            ("3h30m", 12_600_000_000_000),
            ("10.5s4m", 250_500_000_000),
            ("-2m3.4s", -123_400_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s10ns", 12_010),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-2562047h47m16.854775808s", i64::MIN),
        ] {
            assert_eq!(text.parse(), Ok(Duration(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses_as_go() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("3", "time: missing unit in duration \"3\""),
            ("-", "time: invalid duration \"-\""),
            ("s", "time: invalid duration \"s\""),
            (".", "time: invalid duration \".\""),
            ("-.", "time: invalid duration \"-.\""),
            (".s", "time: invalid duration \".s\""),
            ("3000000h", "time: invalid duration \"3000000h\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("-9223372036854775809ns", "time: invalid duration \"-9223372036854775809ns\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1 h", "time: unknown unit \" h\" in duration \"1 h\""),
            ("99999999999999999999s", "time: invalid duration \"99999999999999999999s\""),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn writes_as_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
            (10_920_000_000_000, "3h2m0s"),
        ] {
            assert_eq!(Duration(nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(Duration(nanos)));
        }
    }
}
