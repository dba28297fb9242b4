//! Times, versions and certificates.

use gotemplate::{
    Args, Failure, List, Meter, Object, Param, Signature, Type, Uint, Underlying, Value,
};
use vela_gocompat::duration::Duration;
use vela_gocompat::strconv;
use vela_gocompat::time::{self, GoTime};

use crate::semver::Version;

/// `time.Time`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Time(pub(crate) GoTime);

/// How Go prints a time.
const PRINTED: &str = "2006-01-02 15:04:05.999999999 -0700 MST";

impl Time {
    pub(crate) const TYPE: &'static str = "time.Time";

    /// Go's zero time.
    pub(crate) fn zero() -> GoTime {
        GoTime::from_unix(-62_135_596_800, 0)
    }
}

/// A civil time in the zone of another one.
fn in_zone_of(at: &GoTime, mut civil: GoTime) -> GoTime {
    (civil.offset, civil.local) = (at.offset, at.local);
    civil.zone.clone_from(&at.zone);
    civil
}

/// A time that is later by a duration, in the same zone.
pub(crate) fn shifted(at: &GoTime, by: Duration) -> GoTime {
    let (seconds, nanos) = at.unix();
    let by = by.as_nanos();
    let seconds =
        seconds.saturating_add(i64::from(at.offset)).saturating_add(by.div_euclid(1_000_000_000));
    let nanos = i64::from(nanos) + by.rem_euclid(1_000_000_000);
    in_zone_of(at, GoTime::from_unix(seconds, nanos))
}

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

impl Object for Time {
    fn type_of(&self) -> Type {
        Type::Named(Self::TYPE)
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn method(&self, name: &str) -> Option<Signature> {
        const TIME: Param = Param::Of(Type::Named(Time::TYPE));
        Some(match name {
            "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "Weekday"
            | "YearDay" | "Unix" | "UnixMilli" | "UnixNano" | "IsZero" | "UTC" | "String" => {
                Signature::new(&[])
            }
            "Format" => Signature::new(&[Param::STRING]),
            "AddDate" => Signature::new(&[Param::INT, Param::INT, Param::INT]),
            "After" | "Before" | "Equal" => Signature::new(&[TIME]),
            _ => return None,
        })
    }

    fn call(&self, name: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        meter.steps(1)?;
        let at = &self.0;
        let (seconds, nanos) = at.unix();
        let named = |kind, names: &[&'static str], number: u8, from: u8| {
            let text = names.get(usize::from(number.saturating_sub(from))).copied();
            Value::object(Named { kind, number: i64::from(number), text: text.unwrap_or_default() })
        };
        let other = || args.get(0).downcast_ref::<Self>().map_or((0, 0), |other| other.0.unix());
        Ok(match name {
            "Year" => Value::int(at.year),
            "Month" => named("time.Month", &MONTHS, at.month, 1),
            "Weekday" => named("time.Weekday", &DAYS, at.weekday(), 0),
            "Day" => Value::int(i64::from(at.day)),
            "Hour" => Value::int(i64::from(at.hour)),
            "Minute" => Value::int(i64::from(at.minute)),
            "Second" => Value::int(i64::from(at.second)),
            "Nanosecond" => Value::int(i64::from(at.nanosecond)),
            "YearDay" => Value::int(i64::from(at.year_day())),
            "Unix" => Value::int64(seconds),
            "UnixMilli" => {
                Value::int64(seconds.wrapping_mul(1000).wrapping_add(i64::from(nanos / 1_000_000)))
            }
            "UnixNano" => {
                Value::int64(seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(nanos)))
            }
            "IsZero" => (at.unix() == Self::zero().unix()).into(),
            "UTC" => Self(at.utc()).into(),
            "String" => Value::from(time::format(at, PRINTED)),
            "Format" => {
                meter.room(args.str(0).len() as u64 * 4)?;
                Value::from(time::format(at, &args.text(0)))
            }
            "AddDate" => Self(add_date(at, args.int(0), args.int(1), args.int(2))).into(),
            "After" => ((seconds, nanos) > other()).into(),
            "Before" => ((seconds, nanos) < other()).into(),
            _ => ((seconds, nanos) == other()).into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(time::format(&self.0, PRINTED))
    }

    fn go_syntax(&self) -> Option<String> {
        let GoTime { year, month, day, hour, minute, second, nanosecond, .. } = &self.0;
        let month = MONTHS.get(usize::from(month.saturating_sub(1))).copied().unwrap_or_default();
        let zone = match self.0.zone.as_str() {
            "UTC" if self.0.local => "time.Local".to_owned(),
            "UTC" => "time.UTC".to_owned(),
            name => format!("time.Location({})", strconv::quote(name)),
        };
        Some(format!(
            "time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {nanosecond}, {zone})"
        ))
    }

    /// Seconds since the year 1 and what goes with them: what verbs show that are not of texts.
    fn printed(&self) -> Vec<(&str, Value)> {
        let (seconds, nanos) = self.0.unix();
        let (first, _) = Self::zero().unix();
        vec![
            ("wall", Value::Uint(Uint::Uint64, nanos.into())),
            ("ext", Value::int64(seconds.saturating_sub(first))),
            ("loc", Location::of(&self.0)),
        ]
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<Self>().map(|other| self == other)
    }
}

/// The zone of a time: its name and what else such a value has, which is empty. A verb of numbers would show where it is in
/// memory.
#[derive(Debug)]
struct Location(String);

impl Location {
    /// Nil of UTC itself.
    fn of(at: &GoTime) -> Value {
        if at.zone == "UTC" && !at.local {
            return Value::object(Pointer(Self::TYPE));
        }
        Value::object(Self(at.zone.clone()))
    }

    const TYPE: &'static str = "*time.Location";
}

impl Object for Location {
    fn type_of(&self) -> Type {
        Type::Named(Self::TYPE)
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn printed(&self) -> Vec<(&str, Value)> {
        vec![
            ("name", Value::from(self.0.as_str())),
            ("zone", List::new(Vec::new()).into()),
            ("tx", List::new(Vec::new()).into()),
            ("extend", Value::from("")),
            ("cacheStart", Value::int64(0)),
            ("cacheEnd", Value::int64(0)),
            ("cacheZone", Value::object(Pointer("*time.zone"))),
        ]
    }
}

/// A pointer of a type to nothing.
#[derive(Debug)]
struct Pointer(&'static str);

impl Object for Pointer {
    fn type_of(&self) -> Type {
        Type::Named(self.0)
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn format(&self, verb: char) -> Option<String> {
        match verb {
            'v' => Some("<nil>".to_owned()),
            'b' | 'o' | 'd' | 'x' | 'X' => Some("0".to_owned()),
            _ => None,
        }
    }
}

/// Years, months and days later; a day that the month does not have is one of the next month.
fn add_date(at: &GoTime, years: i64, months: i64, days: i64) -> GoTime {
    const MOST: i64 = 1_000_000;
    let months = i64::from(at.month) - 1 + months.clamp(-MOST, MOST);
    let year =
        at.year.saturating_add(years.clamp(-MOST, MOST)).saturating_add(months.div_euclid(12));
    let month = u8::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
    let first = GoTime { year, month, day: 1, ..at.clone() };
    let days = (i64::from(at.day) - 1).saturating_add(days.clamp(-MOST, MOST));
    let (seconds, nanos) = first.unix();
    let local = seconds.saturating_add(i64::from(at.offset)).saturating_add(days * 86_400);
    in_zone_of(at, GoTime::from_unix(local, i64::from(nanos)))
}

/// A number that prints as a name: `time.Month`, `time.Weekday`.
#[derive(Debug)]
struct Named {
    kind: &'static str,
    number: i64,
    text: &'static str,
}

impl Object for Named {
    fn type_of(&self) -> Type {
        Type::Named(self.kind)
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::int(self.number))
    }

    fn text(&self) -> Option<String> {
        Some(self.text.to_owned())
    }
}

/// `semver.Version`, or a pointer to one.
#[derive(Debug)]
pub(crate) struct SemanticVersion {
    pub(crate) version: Version,
    pointer: bool,
}

impl SemanticVersion {
    pub(crate) fn pointer(version: Version) -> Self {
        Self { version, pointer: true }
    }

    /// A pointer to a version of which nothing is set.
    pub(crate) fn zero() -> Self {
        Self::pointer(Version::default())
    }

    fn of(value: &Value) -> Option<&Version> {
        value.downcast_ref::<Self>().map(|version| &version.version)
    }
}

impl Object for SemanticVersion {
    fn type_of(&self) -> Type {
        Type::Named(if self.pointer { "*semver.Version" } else { "semver.Version" })
    }

    fn underlying(&self) -> Underlying {
        if self.pointer { Underlying::Pointer } else { Underlying::Struct }
    }

    fn method(&self, name: &str) -> Option<Signature> {
        const POINTER: Param = Param::Of(Type::Named("*semver.Version"));
        Some(match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String"
            | "IncMajor" | "IncMinor" | "IncPatch" => Signature::new(&[]),
            "SetPrerelease" | "SetMetadata" => Signature::new(&[Param::STRING]),
            "Compare" | "Equal" | "GreaterThan" | "LessThan" | "GreaterThanEqual"
            | "LessThanEqual" => Signature::new(&[POINTER]),
            _ => return None,
        })
    }

    fn call(&self, name: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        meter.steps(1)?;
        let version = &self.version;
        let number = |number: u64| Value::Uint(Uint::Uint64, number);
        let derived = |version: Version| Value::object(Self { version, pointer: false });
        let failed = |error: crate::semver::VersionError| Failure::text(error.to_string());
        let order = || match Self::of(args.get(0)) {
            Some(other) => Ok(version.precedence(other)),
            None => Err(Failure::text(
                "runtime error: invalid memory address or nil pointer dereference",
            )),
        };
        Ok(match name {
            "Major" => number(version.major),
            "Minor" => number(version.minor),
            "Patch" => number(version.patch),
            "Prerelease" => Value::from(version.prerelease.as_str()),
            "Metadata" => Value::from(version.metadata.as_str()),
            "Original" => Value::from(version.original()),
            "IncMajor" => derived(version.next_major()),
            "IncMinor" => derived(version.next_minor()),
            "IncPatch" => derived(version.next_patch()),
            "SetPrerelease" => derived(version.with_prerelease(&args.text(0)).map_err(failed)?),
            "SetMetadata" => derived(version.with_metadata(&args.text(0)).map_err(failed)?),
            "Compare" => Value::int(order()? as i64),
            "Equal" => order()?.is_eq().into(),
            "GreaterThan" => order()?.is_gt().into(),
            "LessThan" => order()?.is_lt().into(),
            "GreaterThanEqual" => order()?.is_ge().into(),
            "LessThanEqual" => order()?.is_le().into(),
            _ => Value::from(version.to_string()),
        })
    }

    fn text(&self) -> Option<String> {
        Some(self.version.to_string())
    }

    fn printed(&self) -> Vec<(&str, Value)> {
        let version = &self.version;
        let number = |number: u64| Value::Uint(Uint::Uint64, number);
        vec![
            ("major", number(version.major)),
            ("minor", number(version.minor)),
            ("patch", number(version.patch)),
            ("pre", Value::from(version.prerelease.as_str())),
            ("metadata", Value::from(version.metadata.as_str())),
            ("original", Value::from(version.original())),
        ]
    }

    /// Pointers are equal if they point to one version, structs if they have the same parts.
    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let other: &dyn std::any::Any = other;
        let other = other.downcast_ref::<Self>()?;
        Some(match self.pointer {
            true => std::ptr::eq(self, other),
            false => self.version == other.version,
        })
    }
}

/// `sprig.certificate`: a certificate and its key, both in PEM.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Certificate {
    pub(crate) const TYPE: &'static str = "sprig.certificate";
}

impl Object for Certificate {
    fn type_of(&self) -> Type {
        Type::Named(Self::TYPE)
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["Cert", "Key"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::from(self.cert.as_str())),
            "Key" => Some(Value::from(self.key.as_str())),
            _ => None,
        }
    }
}
