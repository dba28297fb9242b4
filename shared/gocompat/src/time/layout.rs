//! Go's reference-time layouts: `2006-01-02T15:04:05Z07:00` and friends.

use std::fmt;

use super::{GoTime, days_in};
use crate::strconv::quote;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

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

/// An element of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    Zone,
    /// `Z` for UTC, else the numeric form.
    Offset {
        iso: bool,
        form: Form,
    },
    /// `.000` or `.999`: separator, digits, whether trailing zeros go.
    Fraction {
        digits: usize,
        trim: bool,
        comma: bool,
    },
}

/// Forms of a numeric offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-07`
    Hours,
    /// `-0700`
    Minutes,
    /// `-07:00`
    ColonMinutes,
    /// `-070000`
    Seconds,
    /// `-07:00:00`
    ColonSeconds,
}

const OFFSETS: [(&str, Form); 5] = [
    ("070000", Form::Seconds),
    ("07:00:00", Form::ColonSeconds),
    ("0700", Form::Minutes),
    ("07:00", Form::ColonMinutes),
    ("07", Form::Hours),
];

/// The first element of a layout: text before it, itself with its text, text behind it.
fn next_element(layout: &str) -> Option<(&str, &str, Element, &str)> {
    for (at, c) in layout.char_indices() {
        let rest = layout.get(at..)?;
        if let Some((skip, len, element)) = element_at(rest, c) {
            let start = at + skip;
            return Some((
                layout.get(..start)?,
                layout.get(start..start + len)?,
                element,
                layout.get(start + len..)?,
            ));
        }
    }
    None
}

/// The element at the start of `rest`: bytes to skip (an underscore that is literal), length, kind.
fn element_at(rest: &str, c: char) -> Option<(usize, usize, Element)> {
    let starts = |text: &str| rest.starts_with(text);
    let lower_at = |at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_lowercase);
    let found = match c {
        'J' if starts("January") => (0, 7, Element::LongMonth),
        'J' if starts("Jan") && !lower_at(3) => (0, 3, Element::Month),
        'M' if starts("Monday") => (0, 6, Element::LongWeekday),
        'M' if starts("Mon") && !lower_at(3) => (0, 3, Element::Weekday),
        'M' if starts("MST") => (0, 3, Element::Zone),
        '0' if starts("002") => (0, 3, Element::ZeroYearDay),
        '0' => {
            let element = match rest.as_bytes().get(1)? {
                b'1' => Element::ZeroMonth,
                b'2' => Element::ZeroDay,
                b'3' => Element::ZeroHour12,
                b'4' => Element::ZeroMinute,
                b'5' => Element::ZeroSecond,
                b'6' => Element::Year,
                _ => return None,
            };
            (0, 2, element)
        }
        '1' if starts("15") => (0, 2, Element::Hour),
        '1' => (0, 1, Element::NumMonth),
        '2' if starts("2006") => (0, 4, Element::LongYear),
        '2' => (0, 1, Element::Day),
        // `_2006` is a literal underscore before the year.
        '_' if starts("_2006") => (1, 4, Element::LongYear),
        '_' if starts("_2") => (0, 2, Element::UnderDay),
        '_' if starts("__2") => (0, 3, Element::UnderYearDay),
        '3' => (0, 1, Element::Hour12),
        '4' => (0, 1, Element::Minute),
        '5' => (0, 1, Element::Second),
        'P' if starts("PM") => (0, 2, Element::UpperPm),
        'p' if starts("pm") => (0, 2, Element::LowerPm),
        '-' | 'Z' => {
            let behind = rest.get(1..)?;
            let (text, form) = OFFSETS.iter().find(|(text, _)| behind.starts_with(text))?;
            (0, 1 + text.len(), Element::Offset { iso: c == 'Z', form: *form })
        }
        '.' | ',' => {
            let digit = *rest.as_bytes().get(1)?;
            if digit != b'0' && digit != b'9' {
                return None;
            }
            let digits = rest.bytes().skip(1).take_while(|b| *b == digit).count();
            if rest.as_bytes().get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            (0, 1 + digits, Element::Fraction { digits, trim: digit == b'9', comma: c == ',' })
        }
        _ => return None,
    };
    Some(found)
}

/// `Time.Format`.
#[must_use]
pub fn format(time: &GoTime, layout: &str) -> String {
    let mut out = String::with_capacity(layout.len() + 10);
    let mut rest = layout;
    while let Some((before, _, element, after)) = next_element(rest) {
        out.push_str(before);
        push_element(&mut out, time, element);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn push_element(out: &mut String, time: &GoTime, element: Element) {
    let month = MONTHS.get(usize::from(time.month).wrapping_sub(1)).copied().unwrap_or_default();
    let day = DAYS.get(usize::from(time.weekday())).copied().unwrap_or_default();
    let hour12 = match time.hour % 12 {
        0 => 12,
        h => h,
    };
    let text = match element {
        Element::LongMonth => month.to_owned(),
        Element::Month => month.get(..3).unwrap_or_default().to_owned(),
        Element::NumMonth => time.month.to_string(),
        Element::ZeroMonth => format!("{:02}", time.month),
        Element::LongWeekday => day.to_owned(),
        Element::Weekday => day.get(..3).unwrap_or_default().to_owned(),
        Element::Day => time.day.to_string(),
        Element::UnderDay => format!("{:2}", time.day),
        Element::ZeroDay => format!("{:02}", time.day),
        Element::UnderYearDay => format!("{:3}", time.year_day()),
        Element::ZeroYearDay => format!("{:03}", time.year_day()),
        Element::Hour => format!("{:02}", time.hour),
        Element::Hour12 => hour12.to_string(),
        Element::ZeroHour12 => format!("{hour12:02}"),
        Element::Minute => time.minute.to_string(),
        Element::ZeroMinute => format!("{:02}", time.minute),
        Element::Second => time.second.to_string(),
        Element::ZeroSecond => format!("{:02}", time.second),
        Element::LongYear if time.year < 0 => format!("-{:04}", time.year.unsigned_abs()),
        Element::LongYear => format!("{:04}", time.year),
        Element::Year => format!("{:02}", time.year.unsigned_abs() % 100),
        Element::UpperPm => if time.hour >= 12 { "PM" } else { "AM" }.to_owned(),
        Element::LowerPm => if time.hour >= 12 { "pm" } else { "am" }.to_owned(),
        Element::Zone if !time.zone.is_empty() => time.zone.clone(),
        Element::Zone => {
            let form = if time.offset % 3600 == 0 { Form::Hours } else { Form::Minutes };
            offset_text(time.offset, form)
        }
        Element::Offset { iso: true, .. } if time.offset == 0 => "Z".to_owned(),
        Element::Offset { form, .. } => offset_text(time.offset, form),
        Element::Fraction { digits, trim, comma } => {
            fraction_text(time.nanosecond, digits, trim, comma)
        }
    };
    out.push_str(&text);
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

fn fraction_text(nanosecond: u32, digits: usize, trim: bool, comma: bool) -> String {
    let all = format!("{nanosecond:09}");
    let shown = all.get(..digits.min(9)).unwrap_or(&all);
    let shown = if trim { shown.trim_end_matches('0') } else { shown };
    if trim && shown.is_empty() {
        return String::new();
    }
    format!(
        "{}{shown:0<width$}",
        if comma { ',' } else { '.' },
        width = if trim { 0 } else { digits.min(9) }
    )
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
    let mut partial = Partial::default();
    let mut layout_rest = layout;
    let mut rest = value;
    loop {
        let found = next_element(layout_rest);
        let prefix = found.map_or(layout_rest, |(before, ..)| before);
        rest = skip_literal(rest, prefix).map_err(|at| fail(prefix, at, String::new()))?;
        let Some((_, text, element, after)) = found else {
            break;
        };
        let hold = rest;
        layout_rest = after;
        rest = match partial.read(element, rest, after) {
            Ok(rest) => rest,
            Err(Bad::Syntax) => return Err(fail(text, hold, String::new())),
            Err(Bad::Range(what)) => {
                return Err(fail(text, hold, format!(": {what} out of range")));
            }
        };
    }
    if !rest.is_empty() {
        return Err(fail("", rest, format!(": extra text: {}", quote(rest))));
    }
    partial.finish().map_err(|what| fail("", value, format!(": {what}")))
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

/// One or two digits; exactly two if `fixed`.
fn number(value: &str, fixed: bool) -> Result<(u8, &str), Bad> {
    let digits = value.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if digits == 0 || (digits == 1 && fixed) {
        return Err(Bad::Syntax);
    }
    let (text, rest) = value.split_at_checked(digits).ok_or(Bad::Syntax)?;
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

fn in_range(n: u8, low: u8, high: u8, what: &'static str) -> Result<u8, Bad> {
    if (low..=high).contains(&n) { Ok(n) } else { Err(Bad::Range(what)) }
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
    fn read<'a>(
        &mut self,
        element: Element,
        value: &'a str,
        layout_rest: &str,
    ) -> Result<&'a str, Bad> {
        let rest = match element {
            Element::Year => {
                let (year, rest) = digits(value, 2)?;
                self.year = i64::from(year) + if year >= 69 { 1900 } else { 2000 };
                rest
            }
            Element::LongYear => {
                let (year, rest) = digits(value, 4)?;
                self.year = i64::from(year);
                rest
            }
            Element::Month | Element::LongMonth => {
                let len = (element == Element::Month).then_some(3);
                let (month, rest) = name(value, &MONTHS, len)?;
                self.month = Some(month as u8 + 1);
                rest
            }
            Element::NumMonth | Element::ZeroMonth => {
                let (month, rest) = number(value, element == Element::ZeroMonth)?;
                self.month = Some(in_range(month, 1, 12, "month")?);
                rest
            }
            Element::Weekday => name(value, &DAYS, Some(3))?.1,
            Element::LongWeekday => name(value, &DAYS, None)?.1,
            Element::Day | Element::UnderDay | Element::ZeroDay => {
                let value = match element {
                    Element::UnderDay => value.strip_prefix(' ').unwrap_or(value),
                    _ => value,
                };
                let (day, rest) = number(value, element == Element::ZeroDay)?;
                self.day = Some(day);
                rest
            }
            Element::UnderYearDay | Element::ZeroYearDay => {
                let value = match element {
                    Element::UnderYearDay => value.trim_start_matches(' '),
                    _ => value,
                };
                let len = match element {
                    Element::ZeroYearDay => 3,
                    _ => value.bytes().take(3).take_while(u8::is_ascii_digit).count(),
                };
                let (day, rest) = digits(value, len)?;
                self.year_day = Some(day as u16);
                rest
            }
            Element::Hour => {
                let (hour, rest) = number(value, false)?;
                self.hour = in_range(hour, 0, 23, "hour")?;
                rest
            }
            Element::Hour12 | Element::ZeroHour12 => {
                let (hour, rest) = number(value, element == Element::ZeroHour12)?;
                self.hour = in_range(hour, 0, 12, "hour")?;
                rest
            }
            Element::Minute | Element::ZeroMinute => {
                let (minute, rest) = number(value, element == Element::ZeroMinute)?;
                self.minute = in_range(minute, 0, 59, "minute")?;
                rest
            }
            Element::Second | Element::ZeroSecond => {
                let (second, rest) = number(value, element == Element::ZeroSecond)?;
                self.second = in_range(second, 0, 59, "second")?;
                self.unasked_fraction(rest, layout_rest)?
            }
            Element::UpperPm => self.read_pm(value, "AM", "PM")?,
            Element::LowerPm => self.read_pm(value, "am", "pm")?,
            Element::Zone => self.read_zone(value)?,
            Element::Offset { iso, form } => self.read_offset(value, iso, form)?,
            Element::Fraction { digits, trim: false, .. } => {
                let (nanos, rest) = fraction(value, digits + 1)?;
                self.nanosecond = nanos;
                rest
            }
            Element::Fraction { .. } => {
                let len = fraction_len(value).min(10);
                if len < 2 {
                    return Ok(value);
                }
                let (nanos, rest) = fraction(value, len)?;
                self.nanosecond = nanos;
                rest
            }
        };
        Ok(rest)
    }

    /// Seconds may carry a fraction although the layout has none.
    fn unasked_fraction<'a>(&mut self, value: &'a str, layout_rest: &str) -> Result<&'a str, Bad> {
        let len = fraction_len(value);
        if len < 2 {
            return Ok(value);
        }
        if let Some((_, _, Element::Fraction { .. }, _)) = next_element(layout_rest) {
            return Ok(value);
        }
        let (nanos, rest) = fraction(value, len)?;
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

    fn read_offset<'a>(&mut self, value: &'a str, iso: bool, form: Form) -> Result<&'a str, Bad> {
        if iso && let Some(rest) = value.strip_prefix('Z') {
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

    fn finish(self) -> Result<GoTime, String> {
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let (mut month, mut day) = (self.month, self.day);
        if let Some(year_day) = self.year_day {
            let (m, d) = from_year_day(self.year, year_day).ok_or("day-of-year out of range")?;
            if month.is_some_and(|given| given != m) {
                return Err("day-of-year does not match month".to_owned());
            }
            if day.is_some_and(|given| given != d) {
                return Err("day-of-year does not match day".to_owned());
            }
            (month, day) = (Some(m), Some(d));
        }
        let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
        if day < 1 || day > days_in(month, self.year) {
            return Err("day out of range".to_owned());
        }
        let offset = self.offset.unwrap_or(0);
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
        assert_eq!(format(&sample(), "MST"), "-08");
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
