//! What a layout consists of: literal text, and the parts of Go's reference time that stand for
//! something, as a table.

use super::GoTime;

/// A piece of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Text that stands for itself.
    Literal(&'a str),
    /// A part of the reference time: as it is spelled, and what it stands for.
    Element(&'a str, Element),
}

/// What a part of the reference time stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Number(Number, Width),
    /// The name of a month or of a day of the week; `short`: its first three letters.
    Name {
        of: Names,
        short: bool,
    },
    /// What is written before noon, and after it.
    HalfDay(&'static str, &'static str),
    /// The abbreviation of a time zone.
    Zone,
    /// The distance from UTC; `zulu`: `Z` for none.
    Offset {
        zulu: bool,
        form: Form,
    },
    /// Digits of a second behind `separator`; `trim`: zeros at their end go.
    Fraction {
        separator: char,
        digits: usize,
        trim: bool,
    },
}

/// A number that a time has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Year,
    YearOfCentury,
    Month,
    Day,
    YearDay,
    Hour,
    HourOfHalfDay,
    Minute,
    Second,
}

impl Number {
    /// The number of a time.
    pub(super) fn of(self, time: &GoTime) -> i64 {
        match self {
            Self::Year => time.year,
            Self::YearOfCentury => (time.year % 100).abs(),
            Self::Month => time.month.into(),
            Self::Day => time.day.into(),
            Self::YearDay => time.year_day().into(),
            Self::Hour => time.hour.into(),
            Self::HourOfHalfDay => (i64::from(time.hour) + 11) % 12 + 1,
            Self::Minute => time.minute.into(),
            Self::Second => time.second.into(),
        }
    }

    /// How many digits are read at the most.
    pub(super) fn digits(self) -> usize {
        match self {
            Self::Year => 4,
            Self::YearDay => 3,
            _ => 2,
        }
    }
}

/// How many characters a number takes at the least, and what fills them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Any,
    Zeros(usize),
    Spaces(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Months,
    Weekdays,
}

impl Names {
    pub(super) fn all(self) -> &'static [&'static str] {
        match self {
            Self::Months => &[
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
            ],
            Self::Weekdays => {
                &["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
            }
        }
    }
}

/// Forms of a numeric offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
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

/// Behind `-` or `Z`. Of two that begin alike the longer one stands first.
const OFFSETS: [(&str, Form); 5] = [
    ("070000", Form::Seconds),
    ("0700", Form::Minutes),
    ("07:00:00", Form::ColonSeconds),
    ("07:00", Form::ColonMinutes),
    ("07", Form::Hours),
];

/// All other spellings. Of two that begin alike the longer one stands first.
const SPELLINGS: [(&str, Element); 23] = {
    use Element::{HalfDay, Name, Number as N, Zone};
    use Names::{Months, Weekdays};
    use Number::{Day, Hour, HourOfHalfDay, Minute, Month, Second, Year, YearDay, YearOfCentury};
    use Width::{Any, Spaces, Zeros};
    [
        ("2006", N(Year, Zeros(4))),
        ("06", N(YearOfCentury, Zeros(2))),
        ("January", Name { of: Months, short: false }),
        ("Jan", Name { of: Months, short: true }),
        ("Monday", Name { of: Weekdays, short: false }),
        ("Mon", Name { of: Weekdays, short: true }),
        ("002", N(YearDay, Zeros(3))),
        ("__2", N(YearDay, Spaces(3))),
        ("02", N(Day, Zeros(2))),
        ("_2", N(Day, Spaces(2))),
        ("2", N(Day, Any)),
        ("15", N(Hour, Zeros(2))),
        ("01", N(Month, Zeros(2))),
        ("1", N(Month, Any)),
        ("03", N(HourOfHalfDay, Zeros(2))),
        ("3", N(HourOfHalfDay, Any)),
        ("PM", HalfDay("AM", "PM")),
        ("pm", HalfDay("am", "pm")),
        ("04", N(Minute, Zeros(2))),
        ("4", N(Minute, Any)),
        ("05", N(Second, Zeros(2))),
        ("5", N(Second, Any)),
        ("MST", Zone),
    ]
};

/// The pieces of a layout, in order.
pub(super) fn parts(layout: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = layout;
    while !rest.is_empty() {
        let found = rest.char_indices().find_map(|(at, _)| {
            let (literal, here) = rest.split_at_checked(at)?;
            let (length, element) = element(here)?;
            let (spelling, after) = here.split_at_checked(length)?;
            Some((literal, spelling, element, after))
        });
        let Some((literal, spelling, element, after)) = found else {
            parts.push(Part::Literal(rest));
            break;
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        parts.push(Part::Element(spelling, element));
        rest = after;
    }
    parts
}

/// The element that a text begins with, and the length of its spelling.
fn element(text: &str) -> Option<(usize, Element)> {
    // The underscore is literal: what follows is a year, not a day that a space may fill.
    if text.starts_with("_2006") {
        return None;
    }
    if let Some(fraction) = fraction(text) {
        return Some(fraction);
    }
    if let Some(behind) = text.strip_prefix(['-', 'Z']) {
        let (spelling, form) = OFFSETS.iter().find(|(spelling, _)| behind.starts_with(spelling))?;
        let zulu = text.starts_with('Z');
        return Some((1 + spelling.len(), Element::Offset { zulu, form: *form }));
    }
    let (spelling, element) = SPELLINGS.iter().find(|(spelling, _)| text.starts_with(spelling))?;
    // Janet is no month.
    let goes_on = text.as_bytes().get(spelling.len()).is_some_and(u8::is_ascii_lowercase);
    let is_word = goes_on && matches!(element, Element::Name { short: true, .. });
    (!is_word).then_some((spelling.len(), *element))
}

/// `.000`, `,999`: zeros or nines, and no other digit behind them.
fn fraction(text: &str) -> Option<(usize, Element)> {
    let separator = text.chars().next().filter(|char| matches!(char, '.' | ','))?;
    let behind = text.get(1..)?;
    let digits = behind.find(|char: char| !char.is_ascii_digit()).unwrap_or(behind.len());
    let digit = behind.chars().next().filter(|char| matches!(char, '0' | '9'))?;
    let is_uniform = behind.chars().take(digits).all(|char| char == digit);
    let element = Element::Fraction { separator, digits, trim: digit == '9' };
    is_uniform.then_some((1 + digits, element))
}
