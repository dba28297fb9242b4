//! Go's reference-time layouts: `2006-01-02T15:04:05Z07:00` and friends.

use std::fmt;

use super::elements::{Element, Form, Names, Number, Part, Width, parts};
use super::{GoTime, days_in};
use crate::strconv::quote;

/// Why a value does not fit a layout; the text is Go's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    layout: String,
    value: String,
    layout_element: String,
    value_element: String,
    /// Replaces the default text if not empty.
    message: String,
}

/// Fields that are read one by one and are no date together.
#[derive(Clone, Copy)]
enum NoDate {
    YearDay,
    OtherMonth,
    OtherDay,
    Day,
}

impl NoDate {
    const fn text(self) -> &'static str {
        match self {
            Self::YearDay => "day-of-year out of range",
            Self::OtherMonth => "day-of-year does not match month",
            Self::OtherDay => "day-of-year does not match day",
            Self::Day => "day out of range",
        }
    }
}

impl ParseError {
    pub(super) fn out_of_range(value: &str, what: &str) -> Self {
        Self {
            layout: String::new(),
            value: value.to_owned(),
            layout_element: String::new(),
            value_element: String::new(),
            message: format!(": {what} out of range"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.is_empty() {
            return write!(f, "parsing time {}{}", quote(&self.value), self.message);
        }
        write!(
            f,
            "parsing time {} as {}: cannot parse {} as {}",
            quote(&self.value),
            quote(&self.layout),
            quote(&self.value_element),
            quote(&self.layout_element)
        )
    }
}

impl std::error::Error for ParseError {}

/// `Time.Format`.
#[must_use]
pub fn format(time: &GoTime, layout: &str) -> String {
    let mut out = String::with_capacity(layout.len() + 10);
    for part in parts(layout) {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::Element(_, element) => out.push_str(&written(time, element)),
        }
    }
    out
}

/// What stands for an element.
fn written(time: &GoTime, element: Element) -> String {
    match element {
        Element::Number(number, width) => {
            let number = number.of(time);
            let sign = if number < 0 { "-" } else { "" };
            let number = number.unsigned_abs();
            match width {
                Width::Any => format!("{sign}{number}"),
                Width::Zeros(width) => format!("{sign}{number:0width$}"),
                Width::Spaces(width) => format!("{sign}{number:width$}"),
            }
        }
        Element::Name { of, short } => {
            let index = match of {
                Names::Months => usize::from(time.month).wrapping_sub(1),
                Names::Weekdays => usize::from(time.weekday()),
            };
            let name = of.all().get(index).copied().unwrap_or_default();
            if short { name.chars().take(3).collect() } else { name.to_owned() }
        }
        Element::HalfDay(before, after) => if time.hour < 12 { before } else { after }.to_owned(),
        Element::Zone if !time.zone.is_empty() => time.zone.clone(),
        Element::Zone => offset_text(time.offset, Form::Minutes),
        Element::Offset { zulu: true, .. } if time.offset == 0 => "Z".to_owned(),
        Element::Offset { form, .. } => offset_text(time.offset, form),
        Element::Fraction { separator, digits, trim } => {
            fraction_text(time.nanosecond, separator, digits, trim)
        }
    }
}

fn offset_text(offset: i32, form: Form) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.unsigned_abs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match form {
        Form::Hours => format!("{sign}{h:02}"),
        Form::Minutes => format!("{sign}{h:02}{m:02}"),
        Form::ColonMinutes => format!("{sign}{h:02}:{m:02}"),
        Form::Seconds => format!("{sign}{h:02}{m:02}{s:02}"),
        Form::ColonSeconds => format!("{sign}{h:02}:{m:02}:{s:02}"),
    }
}

fn fraction_text(nanosecond: u32, separator: char, digits: usize, trim: bool) -> String {
    let all = format!("{nanosecond:09}");
    let shown = all.get(..digits.min(9)).unwrap_or(&all);
    let shown = if trim { shown.trim_end_matches('0') } else { shown };
    if shown.is_empty() { String::new() } else { format!("{separator}{shown}") }
}

/// What an element did to the value.
enum Bad {
    /// It does not fit.
    Syntax,
    /// It fits but is out of range.
    Range(&'static str),
}

#[derive(Default)]
struct Partial {
    year: i64,
    month: Option<u8>,
    day: Option<u8>,
    year_day: Option<u16>,
    hour: u8,
    minute: u8,
    second: u8,
    nanosecond: u32,
    pm: Option<bool>,
    offset: Option<i32>,
    zone: Option<String>,
}

/// `time.Parse`.
///
/// # Errors
/// Go's texts: an element that does not fit, a value out of range, text left over.
pub fn parse(layout: &str, value: &str) -> Result<GoTime, ParseError> {
    let fail = |layout_element: &str, value_element: &str, message: String| ParseError {
        layout: layout.to_owned(),
        value: value.to_owned(),
        layout_element: layout_element.to_owned(),
        value_element: value_element.to_owned(),
        message,
    };
    let parts = parts(layout);
    let mut partial = Partial::default();
    let mut rest = value;
    for (index, part) in parts.iter().enumerate() {
        rest = match *part {
            Part::Literal(text) => {
                skip_literal(rest, text).map_err(|at| fail(text, at, String::new()))?
            }
            Part::Element(spelling, element) => {
                let left = partial.read(element, rest).map_err(|bad| {
                    let message = match bad {
                        Bad::Syntax => String::new(),
                        Bad::Range(what) => format!(": {what} out of range"),
                    };
                    fail(spelling, rest, message)
                })?;
                let mut later = parts.iter().skip(index + 1);
                let next = later.find_map(|part| match part {
                    Part::Element(_, element) => Some(element),
                    Part::Literal(_) => None,
                });
                match (element, next) {
                    (Element::Number(Number::Second, _), Some(Element::Fraction { .. })) => left,
                    // Seconds may have a fraction that the layout does not ask for.
                    (Element::Number(Number::Second, _), _) => partial
                        .read_fraction(left, usize::MAX)
                        .map_err(|_| fail(spelling, rest, String::new()))?,
                    _ => left,
                }
            }
        };
    }
    if !rest.is_empty() {
        return Err(fail("", rest, format!(": extra text: {}", quote(rest))));
    }
    partial.finish().map_err(|why| fail("", value, format!(": {}", why.text())))
}

/// Skips literal text of a layout; one space in it matches any number, also none at the end.
fn skip_literal<'a>(value: &'a str, literal: &str) -> Result<&'a str, &'a str> {
    let mut rest = value;
    let mut literal = literal;
    while let Some(c) = literal.chars().next() {
        if c == ' ' {
            if !rest.is_empty() && !rest.starts_with(' ') {
                return Err(rest);
            }
            literal = literal.trim_start_matches(' ');
            rest = rest.trim_start_matches(' ');
            continue;
        }
        rest = rest.strip_prefix(c).ok_or(rest)?;
        literal = literal.get(c.len_utf8()..).unwrap_or_default();
    }
    Ok(rest)
}

/// As many digits as there are, `most` at the most and one at the least; all of them if `exact`.
fn number(value: &str, most: usize, exact: bool) -> Result<(u32, &str), Bad> {
    let there = value.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if exact && there < most {
        return Err(Bad::Syntax);
    }
    let (text, rest) = value.split_at_checked(there).ok_or(Bad::Syntax)?;
    Ok((text.parse().map_err(|_| Bad::Syntax)?, rest))
}

/// Exactly `len` digits.
fn digits(value: &str, len: usize) -> Result<(u32, &str), Bad> {
    let (text, rest) = value.split_at_checked(len).ok_or(Bad::Syntax)?;
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Bad::Syntax);
    }
    Ok((text.parse().map_err(|_| Bad::Syntax)?, rest))
}

/// A name of a table, ignoring case; index and rest.
fn name<'a>(value: &'a str, names: &[&str], len: Option<usize>) -> Result<(usize, &'a str), Bad> {
    for (i, full) in names.iter().enumerate() {
        let want = match len {
            Some(len) => full.get(..len).unwrap_or(full),
            None => full,
        };
        if let Some(head) = value.get(..want.len())
            && head.eq_ignore_ascii_case(want)
        {
            return Ok((i, value.get(want.len()..).unwrap_or_default()));
        }
    }
    Err(Bad::Syntax)
}

fn in_range(n: u32, low: u8, high: u8, what: &'static str) -> Result<u8, Bad> {
    let fits = u8::try_from(n).ok().filter(|n| (low..=high).contains(n));
    fits.ok_or(Bad::Range(what))
}

/// `.123` or `,123`: nanoseconds and the rest.
fn fraction(value: &str, len: usize) -> Result<(u32, &str), Bad> {
    let (text, rest) = value.split_at_checked(len).ok_or(Bad::Syntax)?;
    let shown = text.strip_prefix(['.', ',']).ok_or(Bad::Syntax)?;
    if !shown.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Bad::Syntax);
    }
    // Digits beyond nine are cut.
    let nine = format!("{:0<9}", shown.get(..shown.len().min(9)).unwrap_or_default());
    Ok((nine.parse().map_err(|_| Bad::Syntax)?, rest))
}

impl Partial {
    /// Reads what stands for an element at the start of a value; what is left of the value.
    fn read<'a>(&mut self, element: Element, value: &'a str) -> Result<&'a str, Bad> {
        match element {
            Element::Number(number, width) => self.read_number(number, width, value),
            Element::Name { of, short } => {
                let (index, rest) = name(value, of.all(), short.then_some(3))?;
                if of == Names::Months {
                    self.month = u8::try_from(index + 1).ok();
                }
                Ok(rest)
            }
            Element::HalfDay(before, after) => self.read_pm(value, before, after),
            Element::Zone => self.read_zone(value),
            Element::Offset { zulu, form } => self.read_offset(value, zulu, form),
            Element::Fraction { digits, trim: false, .. } => {
                let (nanos, rest) = fraction(value, digits + 1)?;
                self.nanosecond = nanos;
                Ok(rest)
            }
            Element::Fraction { .. } => self.read_fraction(value, 10),
        }
    }

    fn read_number<'a>(
        &mut self,
        which: Number,
        width: Width,
        value: &'a str,
    ) -> Result<&'a str, Bad> {
        let value = match (which, width) {
            (Number::YearDay, Width::Spaces(_)) => value.trim_start_matches(' '),
            (_, Width::Spaces(_)) => value.strip_prefix(' ').unwrap_or(value),
            _ => value,
        };
        // An hour of one digit is an hour, whatever the layout says.
        let exact = matches!(width, Width::Zeros(_)) && which != Number::Hour;
        let (n, rest) = number(value, which.digits(), exact)?;
        match which {
            Number::Year => self.year = n.into(),
            Number::YearOfCentury => self.year = i64::from(n) + if n < 69 { 2000 } else { 1900 },
            Number::Month => self.month = Some(in_range(n, 1, 12, "month")?),
            // Which days there are depends on what comes later.
            Number::Day => self.day = u8::try_from(n).ok(),
            Number::YearDay => self.year_day = u16::try_from(n).ok(),
            Number::Hour => self.hour = in_range(n, 0, 23, "hour")?,
            Number::HourOfHalfDay => self.hour = in_range(n, 0, 12, "hour")?,
            Number::Minute => self.minute = in_range(n, 0, 59, "minute")?,
            Number::Second => self.second = in_range(n, 0, 59, "second")?,
        }
        Ok(rest)
    }

    /// A fraction of a second of at most `most` characters, if there is one.
    fn read_fraction<'a>(&mut self, value: &'a str, most: usize) -> Result<&'a str, Bad> {
        let length = fraction_len(value).min(most);
        if length < 2 {
            return Ok(value);
        }
        let (nanos, rest) = fraction(value, length)?;
        self.nanosecond = nanos;
        Ok(rest)
    }

    fn read_pm<'a>(&mut self, value: &'a str, am: &str, pm: &str) -> Result<&'a str, Bad> {
        if let Some(rest) = value.strip_prefix(pm) {
            self.pm = Some(true);
            return Ok(rest);
        }
        let rest = value.strip_prefix(am).ok_or(Bad::Syntax)?;
        self.pm = Some(false);
        Ok(rest)
    }

    fn read_offset<'a>(&mut self, value: &'a str, zulu: bool, form: Form) -> Result<&'a str, Bad> {
        if zulu && let Some(rest) = value.strip_prefix('Z') {
            self.offset = Some(0);
            self.zone = Some("UTC".to_owned());
            return Ok(rest);
        }
        let (sign, rest) = match value.as_bytes().first() {
            Some(b'+') => (1, value.get(1..).unwrap_or_default()),
            Some(b'-') => (-1, value.get(1..).unwrap_or_default()),
            _ => return Err(Bad::Syntax),
        };
        let colon = |rest: &'a str| match form {
            Form::ColonMinutes | Form::ColonSeconds => rest.strip_prefix(':').ok_or(Bad::Syntax),
            _ => Ok(rest),
        };
        let (hours, mut rest) = digits(rest, 2)?;
        let (mut minutes, mut seconds) = (0, 0);
        if form != Form::Hours {
            (minutes, rest) = digits(colon(rest)?, 2)?;
        }
        if matches!(form, Form::Seconds | Form::ColonSeconds) {
            (seconds, rest) = digits(colon(rest)?, 2)?;
        }
        if hours > 24 {
            return Err(Bad::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Bad::Range("time zone offset minute"));
        }
        if seconds > 60 {
            return Err(Bad::Range("time zone offset second"));
        }
        self.offset = Some(sign * (hours * 3600 + minutes * 60 + seconds) as i32);
        Ok(rest)
    }

    /// A zone abbreviation. Only UTC and `GMT±n` have a known offset.
    fn read_zone<'a>(&mut self, value: &'a str) -> Result<&'a str, Bad> {
        if let Some(rest) = value.strip_prefix("UTC") {
            self.offset = Some(0);
            self.zone = Some("UTC".to_owned());
            return Ok(rest);
        }
        let len = zone_len(value).ok_or(Bad::Syntax)?;
        let (text, rest) = value.split_at_checked(len).ok_or(Bad::Syntax)?;
        let hours: i32 = text.strip_prefix("GMT").and_then(|h| h.parse().ok()).unwrap_or(0);
        // A numeric offset read before stays.
        if self.offset.is_none() {
            self.offset = Some(hours * 3600);
        }
        self.zone = Some(text.to_owned());
        Ok(rest)
    }

    fn finish(self) -> Result<GoTime, NoDate> {
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let (mut month, mut day) = (self.month, self.day);
        if let Some(year_day) = self.year_day {
            let (m, d) = from_year_day(self.year, year_day).ok_or(NoDate::YearDay)?;
            if month.is_some_and(|given| given != m) {
                return Err(NoDate::OtherMonth);
            }
            if day.is_some_and(|given| given != d) {
                return Err(NoDate::OtherDay);
            }
            (month, day) = (Some(m), Some(d));
        }
        let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
        if day < 1 || day > days_in(month, self.year) {
            return Err(NoDate::Day);
        }
        let offset = self.offset.unwrap_or(0);
        let local = self.zone.is_none() && self.offset.is_none();
        let zone = match (self.zone, self.offset) {
            (Some(zone), _) => zone,
            (None, None) => "UTC".to_owned(),
            (None, Some(_)) => String::new(),
        };
        Ok(GoTime {
            year: self.year,
            month,
            day,
            hour,
            minute: self.minute,
            second: self.second,
            nanosecond: self.nanosecond,
            offset,
            zone,
            local,
        })
    }
}

/// Length of `.ddd` or `,ddd` at the start; 0 or 1 if there is no digit.
fn fraction_len(value: &str) -> usize {
    if !value.starts_with(['.', ',']) {
        return 0;
    }
    1 + value.bytes().skip(1).take_while(u8::is_ascii_digit).count()
}

fn from_year_day(year: i64, year_day: u16) -> Option<(u8, u8)> {
    let mut left = year_day;
    for month in 1..=12 {
        let days = u16::from(days_in(month, year));
        if left >= 1 && left <= days {
            return Some((month, left as u8));
        }
        left = left.checked_sub(days)?;
    }
    None
}

/// Length of a zone abbreviation: three letters, four ending in `T` (or `WITA`), five ending in
/// `ST`, `GMT` with hours, a signed number, or the two with lower-case letters.
fn zone_len(value: &str) -> Option<usize> {
    if value.starts_with("ChST") || value.starts_with("MeST") {
        return Some(4);
    }
    let signed = |text: &str| -> usize {
        if !text.starts_with(['+', '-']) {
            return 0;
        }
        let digits = text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let hours = text.get(1..1 + digits).and_then(|d| d.parse::<u32>().ok());
        if hours.is_some_and(|h| h <= 23) { 1 + digits } else { 0 }
    };
    if let Some(rest) = value.strip_prefix("GMT") {
        return Some(3 + signed(rest));
    }
    if value.starts_with(['+', '-']) {
        return Some(signed(value)).filter(|n| *n > 0);
    }
    let upper = value.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    match upper {
        3 => Some(3),
        4 if value.starts_with("WITA") || value.as_bytes().get(3) == Some(&b'T') => Some(4),
        5 if value.as_bytes().get(4) == Some(&b'T') => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RFC3339, RFC3339_NANO};
    use super::*;

    fn sample() -> GoTime {
        // Go's own example time.
        parse(RFC3339_NANO, "2009-02-04T21:00:57.0123456-08:00").unwrap()
    }

    #[test]
    fn formats() {
        let mut time = sample();
        time.zone = "PST".to_owned();
        for (layout, text) in [
            ("Mon Jan _2 15:04:05 2006", "Wed Feb  4 21:00:57 2009"),
            ("Mon Jan _2 15:04:05 MST 2006", "Wed Feb  4 21:00:57 PST 2009"),
            ("Mon Jan 02 15:04:05 -0700 2006", "Wed Feb 04 21:00:57 -0800 2009"),
            ("02 Jan 06 15:04 MST", "04 Feb 09 21:00 PST"),
            ("Monday, 02-Jan-06 15:04:05 MST", "Wednesday, 04-Feb-09 21:00:57 PST"),
            (RFC3339, "2009-02-04T21:00:57-08:00"),
            (RFC3339_NANO, "2009-02-04T21:00:57.0123456-08:00"),
            ("3:04PM", "9:00PM"),
            ("3pm", "9pm"),
            ("Jan _2 15:04:05.000", "Feb  4 21:00:57.012"),
            ("Jan _2 15:04:05.000000000", "Feb  4 21:00:57.012345600"),
            ("15:04:05,99", "21:00:57,01"),
            ("January 2 2006", "February 4 2009"),
            ("2006-002 __2", "2009-035  35"),
            ("Jan_2006 January Janet", "Feb_2009 February Janet"),
            ("Z07 Z0700 Z07:00:00 -070000", "-08 -0800 -08:00:00 -080000"),
            ("03 3 4 5 1 01 06 .001", "09 9 0 57 2 02 09 .002"),
        ] {
            assert_eq!(format(&time, layout), text, "{layout}");
        }
        assert_eq!(format(&time.utc(), "Z07:00 MST -07"), "Z UTC +00");
        assert_eq!(format(&sample(), "MST"), "-0800");
    }

    #[test]
    fn parses() {
        for (layout, value, text) in [
            (RFC3339, "2010-02-04T21:00:57Z", "2010-02-04T21:00:57Z"),
            (RFC3339, "1937-01-01T12:00:27.87+00:20", "1937-01-01T12:00:27.87+00:20"),
            (RFC3339, "2010-02-04T21:00:57,5-08:00", "2010-02-04T21:00:57.5-08:00"),
            ("Mon Jan _2 15:04:05 2006", "Thu Feb  4 21:00:57 2010", "2010-02-04T21:00:57Z"),
            ("Mon Jan _2 15:04:05 MST 2006", "Thu Feb 4 21:00:57 PST 2010", "2010-02-04T21:00:57Z"),
            (
                "Mon Jan 02 15:04:05 -0700 2006",
                "thu feb 04 21:00:57 -0800 2010",
                "2010-02-04T21:00:57-08:00",
            ),
            (
                "Monday, 02-Jan-06 15:04:05 MST",
                "Thursday, 04-Feb-70 21:00:57 UTC",
                "1970-02-04T21:00:57Z",
            ),
            ("3:04PM", "9:05PM", "0000-01-01T21:05:00Z"),
            ("3:04PM", "12:05AM", "0000-01-01T00:05:00Z"),
            ("2006-002", "2012-060", "2012-02-29T00:00:00Z"),
            ("15:04:05.000", "21:00:57.012", "0000-01-01T21:00:57.012Z"),
            ("15:04 MST", "21:00 GMT-8", "0000-01-01T21:00:00-08:00"),
            ("2006-01-02", "2024-02-29", "2024-02-29T00:00:00Z"),
        ] {
            let time = parse(layout, value).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(time.to_string(), text, "{layout} {value}");
        }
    }

    #[test]
    fn refuses() {
        for (layout, value, error) in [
            (
                RFC3339,
                "22-10-25",
                "as \"2006-01-02T15:04:05Z07:00\": cannot parse \"22-10-25\" as \"2006\"",
            ),
            (RFC3339, "2010-13-04T21:00:57Z", ": month out of range"),
            (RFC3339, "2010-02-30T21:00:57Z", ": day out of range"),
            (RFC3339, "2010-02-04T24:00:57Z", ": hour out of range"),
            (RFC3339, "2010-02-04T21:60:57Z", ": minute out of range"),
            (
                RFC3339,
                "2010-02-04T21:00:57",
                "as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"",
            ),
            (
                RFC3339,
                "2010-02-04 21:00:57Z",
                "as \"2006-01-02T15:04:05Z07:00\": cannot parse \" 21:00:57Z\" as \"T\"",
            ),
            ("2006-01-02", "2010-02-04x", ": extra text: \"x\""),
            ("Jan", "Foo", "as \"Jan\": cannot parse \"Foo\" as \"Jan\""),
            ("2006-002", "2011-366", ": day-of-year out of range"),
            ("", "é", ": extra text: \"é\""),
        ] {
            let got = parse(layout, value).unwrap_err().to_string();
            let want = format!(
                "parsing time {}{}{error}",
                quote(value),
                if error.starts_with(':') { "" } else { " " }
            );
            assert_eq!(got, want);
        }
    }
}
