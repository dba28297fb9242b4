//! Package `time`: instants are RFC 3339 strings, durations are nanoseconds.

use vela_gocompat::duration::Duration;
use vela_gocompat::time::{GoTime, RFC3339_NANO, format, parse};

use super::args::{Out, constant, fail, func, int, string, text};
use super::{Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const S: Param = Param::STRING;
const ONE: &[Param] = &[S];
const TWO: &[Param] = &[S, S];

pub(super) static PACKAGE: &[Member] = &[
    constant("ANSIC", "\"Mon Jan _2 15:04:05 2006\""),
    constant("UnixDate", "\"Mon Jan _2 15:04:05 MST 2006\""),
    constant("RubyDate", "\"Mon Jan 02 15:04:05 -0700 2006\""),
    constant("RFC822", "\"02 Jan 06 15:04 MST\""),
    constant("RFC822Z", "\"02 Jan 06 15:04 -0700\""),
    constant("RFC850", "\"Monday, 02-Jan-06 15:04:05 MST\""),
    constant("RFC1123", "\"Mon, 02 Jan 2006 15:04:05 MST\""),
    constant("RFC1123Z", "\"Mon, 02 Jan 2006 15:04:05 -0700\""),
    constant("RFC3339", "\"2006-01-02T15:04:05Z07:00\""),
    constant("RFC3339Nano", "\"2006-01-02T15:04:05.999999999Z07:00\""),
    constant("RFC3339Date", "\"2006-01-02\""),
    constant("Kitchen", "\"3:04PM\""),
    constant("Kitchen24", "\"15:04\""),
    constant("Nanosecond", "1"),
    constant("Microsecond", "1000"),
    constant("Millisecond", "1000000"),
    constant("Second", "1000000000"),
    constant("Minute", "60000000000"),
    constant("Hour", "3600000000000"),
    constant("January", "1"),
    constant("February", "2"),
    constant("March", "3"),
    constant("April", "4"),
    constant("May", "5"),
    constant("June", "6"),
    constant("July", "7"),
    constant("August", "8"),
    constant("September", "9"),
    constant("October", "10"),
    constant("November", "11"),
    constant("December", "12"),
    constant("Sunday", "0"),
    constant("Monday", "1"),
    constant("Tuesday", "2"),
    constant("Wednesday", "3"),
    constant("Thursday", "4"),
    constant("Friday", "5"),
    constant("Saturday", "6"),
    func("Duration", ONE, Kind::BOOL, |a, b| parse_duration(a, b).map(|_| true.into())),
    func("ParseDuration", ONE, Kind::INT, parse_duration),
    func("FormatDuration", &[Param::INT], Kind::STRING, |a, b| {
        string(Duration(int(a, 0)?).to_string(), b)
    }),
    func("Time", ONE, Kind::BOOL, |a, b| valid(text(a, 0)?, RFC3339_NANO, b)),
    func("Format", TWO, Kind::BOOL, |a, b| valid(text(a, 0)?, text(a, 1)?, b)),
    func("FormatString", TWO, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 4)?;
        match parse(RFC3339_NANO, text(a, 1)?) {
            Ok(time) => string(format(&time, text(a, 0)?), b),
            Err(e) => fail(e.to_string()),
        }
    }),
    func("Parse", TWO, Kind::STRING, |a, b| {
        b.steps(text(a, 0)?.len() as u64)?;
        match parse(text(a, 0)?, text(a, 1)?) {
            Ok(time) => string(format(&time.utc(), RFC3339_NANO), b),
            Err(e) => fail(e.to_string()),
        }
    }),
    func("Unix", &[Param::INT, Param::INT], Kind::STRING, |a, b| {
        string(GoTime::from_unix(int(a, 0)?, int(a, 1)?).to_string(), b)
    }),
    func("Split", ONE, Kind::STRUCT, split),
];

fn parse_duration(args: &[Value], budget: &mut Budget) -> Out {
    budget.steps(text(args, 0)?.len() as u64 >> 3)?;
    match text(args, 0)?.parse::<Duration>() {
        Ok(duration) => Ok(Value::from(duration.as_nanos())),
        Err(e) => fail(e.to_string()),
    }
}

fn valid(value: &str, layout: &str, budget: &mut Budget) -> Out {
    budget.steps(layout.len() as u64)?;
    match parse(layout, value) {
        Ok(_) => Ok(true.into()),
        Err(_) => fail(format!("invalid time {}", vela_gocompat::strconv::quote(value))),
    }
}

fn split(args: &[Value], _: &mut Budget) -> Out {
    match parse(RFC3339_NANO, text(args, 0)?) {
        Ok(t) => Ok([
            ("year", t.year),
            ("month", i64::from(t.month)),
            ("day", i64::from(t.day)),
            ("hour", i64::from(t.hour)),
            ("minute", i64::from(t.minute)),
            ("second", i64::from(t.second)),
            ("nanosecond", i64::from(t.nanosecond)),
        ]
        .into_iter()
        .map(|(k, n)| (k, Value::from(n)))
        .collect()),
        Err(e) => fail(e.to_string()),
    }
}
