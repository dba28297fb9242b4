//! Package `html`.

use std::cmp::Ordering;

use super::args::{func, string, text};
use super::{Member, Param};
use crate::kind::Kind;

/// Named character references of HTML 5 and their code points, a line each, sorted by name; those
/// without semicolon are the ones that may stand without. One text, because a table of texts would
/// be relocated when the program starts: 175 KB that belong to each process.
const ENTITIES: &str = include_str!("entities.txt");

/// Longest name of a reference that may stand without semicolon.
const LONGEST_BARE: usize = 6;

pub(super) static PACKAGE: &[Member] = &[
    func("Escape", &[Param::STRING], Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 5)?;
        string(escape(text(a, 0)?), b)
    }),
    func("Unescape", &[Param::STRING], Kind::STRING, |a, b| {
        b.steps(text(a, 0)?.len() as u64 >> 2)?;
        string(unescape(text(a, 0)?), b)
    }),
];

/// The five characters that Go's `html.EscapeString` escapes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

/// The text of a named reference: a search by halves, to the beginning of a line each time.
fn lookup(name: &str) -> Option<String> {
    let mut among = ENTITIES;
    while !among.is_empty() {
        let middle = among.as_bytes().get(..among.len() / 2)?;
        let start = middle.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (before, behind) = among.split_at_checked(start)?;
        let (line, behind) = behind.split_once('\n')?;
        let (this, points) = line.split_once(' ')?;
        among = match name.cmp(this) {
            Ordering::Less => before,
            Ordering::Greater => behind,
            Ordering::Equal => {
                let points = points.split(' ').map(|point| u32::from_str_radix(point, 16).ok());
                return points.map(|point| char::from_u32(point?)).collect();
            }
        };
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(rest.get(..at).unwrap_or_default());
        let behind = rest.get(at + 1..).unwrap_or_default();
        let (replacement, len) =
            if behind.starts_with('#') { numeric(behind) } else { named(behind) };
        match replacement {
            Some(replacement) => out.push_str(&replacement),
            None => out.push('&'),
        }
        rest = behind.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// `#65;` or `#x41;`, the semicolon optional.
fn numeric(text: &str) -> (Option<String>, usize) {
    let hex = text.get(1..2).is_some_and(|x| x.eq_ignore_ascii_case("x"));
    let (start, radix) = if hex { (2, 16) } else { (1, 10) };
    let digits = text.bytes().skip(start).take_while(|b| char::from(*b).is_digit(radix)).count();
    if digits == 0 {
        return (None, 0);
    }
    let end = start + digits;
    let value =
        text.get(start..end).and_then(|d| u32::from_str_radix(d, radix).ok()).unwrap_or(u32::MAX);
    let len = end + usize::from(text.as_bytes().get(end) == Some(&b';'));
    let c = match value {
        0 => char::REPLACEMENT_CHARACTER,
        // Windows-1252 in the place of the C1 controls.
        0x80..=0x9f => {
            WINDOWS.get(value as usize - 0x80).copied().unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        value => char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    (Some(c.to_string()), len)
}

const WINDOWS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// A name with semicolon, else the longest known beginning of it.
fn named(text: &str) -> (Option<String>, usize) {
    let len = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    if text.as_bytes().get(len) == Some(&b';')
        && let Some(found) = text.get(..=len).and_then(lookup)
    {
        return (Some(found), len + 1);
    }
    for end in (2..=len.min(LONGEST_BARE)).rev() {
        if let Some(found) = text.get(..end).and_then(lookup) {
            return (Some(found), end);
        }
    }
    (None, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_is_found() {
        let names: Vec<&str> = ENTITIES.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        assert_eq!(names.len(), 2231);
        for name in names {
            assert!(lookup(name).is_some(), "{name}");
        }
        for name in ["", "A", "AElig;;", "zzz;", "0"] {
            assert_eq!(lookup(name), None, "{name}");
        }
        assert_eq!(lookup("acE;").as_deref(), Some("\u{223e}\u{333}"));
    }
}
