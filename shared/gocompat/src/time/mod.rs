//! Times as Go and Kubernetes write them: RFC 3339 of `metav1.Time`, and Go's layouts.
//!
//! [`GoTime`] is a civil time with an offset, what `time.Parse` returns; formatting and parsing by
//! layout are in [`layout`](self). No clock and no time zone database: zones are offsets.
//!
//! Our own: jiff has neither Go's layouts nor its zones without rules.

mod elements;
mod layout;

use std::fmt;

use jiff::Timestamp;

pub use layout::{ParseError, format, parse};

/// Go's `time.RFC3339`.
pub const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
/// Go's `time.RFC3339Nano`.
pub const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

/// `metav1.Time`: UTC, whole seconds, `2006-01-02T15:04:05Z`.
#[must_use]
pub fn metav1(at: Timestamp) -> String {
    format(&GoTime::from_unix(at.as_second(), 0), RFC3339)
}

/// `metav1.MicroTime`: UTC with six digits.
#[must_use]
pub fn metav1_micro(at: Timestamp) -> String {
    format(&GoTime::from(at), "2006-01-02T15:04:05.000000Z07:00")
}

/// Reads what `metav1.Time` accepts: RFC 3339 with any offset and fraction.
///
/// # Errors
/// Go's text for a value that does not fit the layout, or is beyond the range of [`Timestamp`].
pub fn parse_metav1(text: &str) -> Result<Timestamp, ParseError> {
    let time = parse(RFC3339, text)?;
    let (seconds, nanos) = time.unix();
    Timestamp::new(seconds, nanos as i32).map_err(|_| ParseError::out_of_range(text, "time"))
}

/// A civil time in a zone of fixed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoTime {
    /// Year, may be negative or beyond 9999.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999,999.
    pub nanosecond: u32,
    /// Seconds east of UTC.
    pub offset: i32,
    /// Abbreviation of the zone: `UTC`, a parsed name, or empty for a bare offset.
    pub zone: String,
    /// Whether the zone is that of the process, which has no other offset than UTC: what no zone was given for.
    pub local: bool,
}

impl GoTime {
    /// `time.Unix(seconds, nanos).UTC()`. Nanoseconds outside one second carry over. Seconds are
    /// clamped to about ±292 million years, where Go's own counter ends.
    #[must_use]
    pub fn from_unix(seconds: i64, nanos: i64) -> Self {
        const MAX_SECONDS: i64 = i64::MAX / 1000;
        let seconds = seconds.clamp(-MAX_SECONDS, MAX_SECONDS) + nanos.div_euclid(1_000_000_000);
        let mut time = Self::civil(seconds);
        time.nanosecond = nanos.rem_euclid(1_000_000_000) as u32;
        time
    }

    fn civil(seconds: i64) -> Self {
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let rest = seconds.rem_euclid(86_400);
        Self {
            year,
            month,
            day,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
            nanosecond: 0,
            offset: 0,
            zone: "UTC".to_owned(),
            local: false,
        }
    }

    /// Seconds since 1970 and nanoseconds of the second.
    #[must_use]
    pub fn unix(&self) -> (i64, u32) {
        let seconds = days_from_civil(self.year, self.month, self.day) * 86_400
            + i64::from(self.hour) * 3600
            + i64::from(self.minute) * 60
            + i64::from(self.second)
            - i64::from(self.offset);
        (seconds, self.nanosecond)
    }

    /// The same instant in UTC.
    #[must_use]
    pub fn utc(&self) -> Self {
        let (seconds, nanos) = self.unix();
        Self { nanosecond: nanos, ..Self::civil(seconds) }
    }

    /// Day of the week, Sunday 0.
    #[must_use]
    pub fn weekday(&self) -> u8 {
        // 1970-01-01 was a Thursday.
        (days_from_civil(self.year, self.month, self.day) + 4).rem_euclid(7) as u8
    }

    /// Day of the year, from 1.
    #[must_use]
    pub fn year_day(&self) -> u16 {
        let days =
            days_from_civil(self.year, self.month, self.day) - days_from_civil(self.year, 1, 1);
        (days + 1) as u16
    }
}

impl From<Timestamp> for GoTime {
    fn from(at: Timestamp) -> Self {
        Self::from_unix(at.as_second(), i64::from(at.subsec_nanosecond()))
    }
}

impl fmt::Display for GoTime {
    /// RFC 3339 with as many digits of the fraction as there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self, RFC3339_NANO))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(month: u8, year: i64) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of the proleptic Gregorian calendar; years start in March inside.
fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month_index = (i64::from(month) + 9) % 12;
    let of_year = (153 * month_index + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month_index + 2) / 5 + 1) as u8;
    let month = (if month_index < 10 { month_index + 3 } else { month_index - 9 }) as u8;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_times() {
        let at: Timestamp = "2024-02-29T23:59:59.987654321Z".parse().unwrap();
        assert_eq!(metav1(at), "2024-02-29T23:59:59Z");
        assert_eq!(metav1_micro(at), "2024-02-29T23:59:59.987654Z");
        assert_eq!(parse_metav1("2024-03-01T01:59:59.987654321+02:00").unwrap(), at);
        assert_eq!(
            parse_metav1("yesterday").unwrap_err().to_string(),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""
        );
    }

    #[test]
    fn calendar_agrees_with_jiff() {
        for seconds in (-62_135_596_800_i64..253_402_300_800).step_by(86_400 * 37 + 12_345) {
            let ours = GoTime::from_unix(seconds, 0);
            let theirs = Timestamp::from_second(seconds).unwrap();
            assert_eq!(ours.to_string(), theirs.to_string());
            assert_eq!(ours.unix(), (seconds, 0));
            let date = theirs.to_zoned(jiff::tz::TimeZone::UTC);
            assert_eq!(
                i64::from(ours.weekday()),
                i64::from(date.weekday().to_sunday_zero_offset())
            );
            assert_eq!(i64::from(ours.year_day()), i64::from(date.day_of_year()));
        }
    }

    #[test]
    fn nanoseconds_carry() {
        assert_eq!(
            GoTime::from_unix(1_500_000_000, 123_456).to_string(),
            "2017-07-14T02:40:00.000123456Z"
        );
        assert_eq!(GoTime::from_unix(0, -1).to_string(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(GoTime::from_unix(0, 1_500_000_000).to_string(), "1970-01-01T00:00:01.5Z");
        // No overflow at the ends.
        let _ = GoTime::from_unix(i64::MAX, i64::MAX).to_string();
        let _ = GoTime::from_unix(i64::MIN, i64::MIN).utc();
    }
}
