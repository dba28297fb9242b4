//! Package `strings`: Go's functions on text, case mapping by code point, and rune validators.

use super::args::{Out, byte_string, bytes, fail, func, int, string, string_list, strings, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

const S: Param = Param::STRING;
const I: Param = Param::INT;
const ONE: &[Param] = &[S];
const TWO: &[Param] = &[S, S];
const SPLIT_N: &[Param] = &[S, S, I];
const BYTES: Kind = Kind::BYTES.or(Kind::STRING);

pub(super) static PACKAGE: &[Member] = &[
    func("ByteAt", &[Param::BYTES, I], Kind::INT, byte_at),
    func("ByteSlice", &[Param::BYTES, I, I], BYTES, byte_slice),
    func("Runes", ONE, Kind::LIST, runes),
    func("MinRunes", &[S, I], Kind::BOOL, |a, _| Ok((rune_count(a)? >= int(a, 1)?).into())),
    func("MaxRunes", &[S, I], Kind::BOOL, |a, _| Ok((rune_count(a)? <= int(a, 1)?).into())),
    func("ToTitle", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64)?;
        Ok(map_words(text(a, 0)?, to_title).into())
    }),
    func("ToCamel", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64)?;
        Ok(map_words(text(a, 0)?, to_lower).into())
    }),
    func("SliceRunes", &[S, I, I], Kind::STRING, slice_runes),
    func("Compare", TWO, Kind::INT, |a, _| Ok(Value::from(text(a, 0)?.cmp(text(a, 1)?) as i64))),
    func("Count", TWO, Kind::INT, count),
    func("Contains", TWO, Kind::BOOL, |a, b| {
        b.steps(text(a, 0)?.len() as u64 >> 6)?;
        Ok(text(a, 0)?.contains(text(a, 1)?).into())
    }),
    func("ContainsAny", TWO, Kind::BOOL, |a, b| {
        scan(a, b)?;
        Ok(text(a, 0)?.contains(&chars(a, 1)?[..]).into())
    }),
    func("Index", TWO, Kind::INT, |a, b| {
        b.steps(text(a, 0)?.len() as u64 >> 6)?;
        position(text(a, 0)?.find(text(a, 1)?))
    }),
    func("LastIndex", TWO, Kind::INT, |a, b| {
        b.steps(text(a, 0)?.len() as u64 >> 6)?;
        position(text(a, 0)?.rfind(text(a, 1)?))
    }),
    func("IndexAny", TWO, Kind::INT, |a, b| {
        scan(a, b)?;
        position(text(a, 0)?.find(&chars(a, 1)?[..]))
    }),
    func("LastIndexAny", TWO, Kind::INT, |a, b| {
        scan(a, b)?;
        position(text(a, 0)?.rfind(&chars(a, 1)?[..]))
    }),
    func("Split", TWO, Kind::LIST, |a, b| split(text(a, 0)?, text(a, 1)?, -1, false, b)),
    func("SplitN", SPLIT_N, Kind::LIST, |a, b| {
        split(text(a, 0)?, text(a, 1)?, int(a, 2)?, false, b)
    }),
    func("SplitAfter", TWO, Kind::LIST, |a, b| split(text(a, 0)?, text(a, 1)?, -1, true, b)),
    func("SplitAfterN", SPLIT_N, Kind::LIST, |a, b| {
        split(text(a, 0)?, text(a, 1)?, int(a, 2)?, true, b)
    }),
    func("Fields", ONE, Kind::LIST, |a, b| string_list(text(a, 0)?.split_whitespace(), b)),
    func("Join", &[Param::STRINGS, S], Kind::STRING, join),
    func("HasPrefix", TWO, Kind::BOOL, |a, _| Ok(text(a, 0)?.starts_with(text(a, 1)?).into())),
    func("HasSuffix", TWO, Kind::BOOL, |a, _| Ok(text(a, 0)?.ends_with(text(a, 1)?).into())),
    func("Repeat", &[S, I], Kind::STRING, repeat),
    func("ToUpper", ONE, Kind::STRING, |a, b| {
        string(text(a, 0)?.chars().map(to_upper).collect::<String>(), b)
    }),
    func("ToLower", ONE, Kind::STRING, |a, b| {
        string(text(a, 0)?.chars().map(to_lower).collect::<String>(), b)
    }),
    func("Trim", TWO, Kind::STRING, |a, b| {
        scan(a, b)?;
        string(text(a, 0)?.trim_matches(&chars(a, 1)?[..]), b)
    }),
    func("TrimLeft", TWO, Kind::STRING, |a, b| {
        scan(a, b)?;
        string(text(a, 0)?.trim_start_matches(&chars(a, 1)?[..]), b)
    }),
    func("TrimRight", TWO, Kind::STRING, |a, b| {
        scan(a, b)?;
        string(text(a, 0)?.trim_end_matches(&chars(a, 1)?[..]), b)
    }),
    func("TrimSpace", ONE, Kind::STRING, |a, b| string(text(a, 0)?.trim(), b)),
    func("TrimPrefix", TWO, Kind::STRING, |a, b| {
        let s = text(a, 0)?;
        string(s.strip_prefix(text(a, 1)?).unwrap_or(s), b)
    }),
    func("TrimSuffix", TWO, Kind::STRING, |a, b| {
        let s = text(a, 0)?;
        string(s.strip_suffix(text(a, 1)?).unwrap_or(s), b)
    }),
    func("Replace", &[S, S, S, I], Kind::STRING, replace),
];

/// Work of looking for each of a set of characters.
fn scan(args: &[Value], budget: &mut Budget) -> Result<(), BuiltinError> {
    let work = (text(args, 0)?.len() as u64).saturating_mul(text(args, 1)?.len() as u64);
    budget.steps(work >> 4)?;
    Ok(())
}

fn chars(args: &[Value], i: usize) -> Result<Vec<char>, BuiltinError> {
    Ok(text(args, i)?.chars().collect())
}

fn position(at: Option<usize>) -> Out {
    Ok(Value::from(at.map_or(-1, |i| i as i64)))
}

fn rune_count(args: &[Value]) -> Result<i64, BuiltinError> {
    Ok(text(args, 0)?.chars().count() as i64)
}

fn byte_at(args: &[Value], _: &mut Budget) -> Out {
    let at = usize::try_from(int(args, 1)?).ok();
    match at.and_then(|i| bytes(args, 0).ok()?.get(i).copied()) {
        Some(byte) => Ok(Value::from(i64::from(byte))),
        None => fail("index out of range"),
    }
}

fn bounds(args: &[Value]) -> Result<Option<(usize, usize)>, BuiltinError> {
    let (start, end) = (usize::try_from(int(args, 1)?), usize::try_from(int(args, 2)?));
    Ok(start.ok().zip(end.ok()).filter(|(start, end)| start <= end))
}

fn byte_slice(args: &[Value], budget: &mut Budget) -> Out {
    let all = bytes(args, 0)?;
    match bounds(args)?.and_then(|(start, end)| all.get(start..end)) {
        Some(part) => byte_string(part, budget),
        None => fail("index out of range"),
    }
}

fn runes(args: &[Value], budget: &mut Budget) -> Out {
    budget.list(text(args, 0)?.len() as u64)?;
    Ok(Value::List(text(args, 0)?.chars().map(|c| Value::from(i64::from(c as u32))).collect()))
}

fn slice_runes(args: &[Value], budget: &mut Budget) -> Out {
    let all = text(args, 0)?;
    budget.steps(all.len() as u64 >> 3)?;
    let Some((start, end)) = bounds(args)? else {
        return fail("index out of range");
    };
    // Byte positions of the code points, and the end.
    let mut ends = all.char_indices().map(|(i, _)| i).chain([all.len()]);
    let from = ends.nth(start);
    let to = if end == start { from } else { ends.nth(end - start - 1) };
    match from.zip(to).and_then(|(from, to)| all.get(from..to)) {
        Some(part) => string(part, budget),
        None => fail("index out of range"),
    }
}

fn count(args: &[Value], budget: &mut Budget) -> Out {
    let (all, part) = (text(args, 0)?, text(args, 1)?);
    budget.steps(all.len() as u64 >> 4)?;
    let n = if part.is_empty() { all.chars().count() + 1 } else { all.matches(part).count() };
    Ok(Value::from(n as i64))
}

fn split(all: &str, separator: &str, n: i64, after: bool, budget: &mut Budget) -> Out {
    let limit = usize::try_from(n).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::List(Vec::new()));
    }
    if separator.is_empty() {
        // One code point each, the rest in the last.
        let mut rest = all;
        let mut parts = 0;
        let pieces = std::iter::from_fn(|| {
            let first = rest.chars().next()?;
            parts += 1;
            let len = if parts == limit { rest.len() } else { first.len_utf8() };
            let (piece, tail) = rest.split_at_checked(len)?;
            rest = tail;
            Some(piece)
        });
        return string_list(pieces, budget);
    }
    if after {
        let mut rest = Some(all);
        let mut parts = 0;
        let pieces = std::iter::from_fn(|| {
            let text = rest.take()?;
            parts += 1;
            match text.find(separator) {
                Some(at) if parts < limit => {
                    let (piece, tail) = text.split_at_checked(at + separator.len())?;
                    rest = Some(tail);
                    Some(piece)
                }
                _ => Some(text),
            }
        });
        return string_list(pieces, budget);
    }
    string_list(all.splitn(limit, separator), budget)
}

fn join(args: &[Value], budget: &mut Budget) -> Out {
    let (parts, separator) = (strings(args, 0)?, text(args, 1)?);
    budget.steps(parts.len() as u64)?;
    let len = parts.iter().fold(0_u64, |n, p| n.saturating_add(p.len() as u64));
    let gaps = (parts.len() as u64).saturating_sub(1).saturating_mul(separator.len() as u64);
    budget.string(len.saturating_add(gaps))?;
    Ok(Value::from(parts.join(separator)))
}

fn repeat(args: &[Value], budget: &mut Budget) -> Out {
    let (part, n) = (text(args, 0)?, int(args, 1)?);
    let Ok(n) = usize::try_from(n) else {
        return fail("strings: negative Repeat count");
    };
    budget.string((part.len() as u64).saturating_mul(n as u64))?;
    Ok(Value::from(if part.is_empty() { String::new() } else { part.repeat(n) }))
}

fn replace(args: &[Value], budget: &mut Budget) -> Out {
    let (all, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let limit = usize::try_from(int(args, 3)?).unwrap_or(usize::MAX);
    budget.steps(all.len() as u64 >> 4)?;
    // Count first: the result may be far longer than its parts.
    let matches =
        if old.is_empty() { all.chars().count() + 1 } else { all.matches(old).count() }.min(limit);
    let grown = (matches as u64).saturating_mul(new.len() as u64);
    let kept = (all.len() as u64).saturating_sub((matches * old.len()) as u64);
    budget.string(grown.saturating_add(kept))?;
    if all.len() as u64 > budget.limits().string {
        return Err(budget.cross(LimitError::String).into());
    }
    Ok(Value::from(all.replacen(old, new, limit)))
}

/// Maps the first letter of each word.
fn map_words(text: &str, map: fn(char) -> char) -> String {
    let mut before = ' ';
    text.chars()
        .map(|c| {
            let mapped = if before.is_whitespace() { map(c) } else { c };
            before = c;
            mapped
        })
        .collect()
}

/// Go's `unicode.ToUpper`: the simple mapping, one code point to one.
pub(super) fn to_upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(upper), None) => upper,
        // Greek with iota subscript has a one-character form beside the full one.
        _ => match c as u32 {
            0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => shift(c, 8),
            0x1fb3 | 0x1fc3 | 0x1ff3 => shift(c, 9),
            _ => c,
        },
    }
}

/// Go's `unicode.ToLower`.
pub(super) fn to_lower(c: char) -> char {
    // Only U+0130 has a longer full mapping.
    c.to_lowercase().next().unwrap_or(c)
}

/// Go's `unicode.ToTitle`.
fn to_title(c: char) -> char {
    match c as u32 {
        // Digraphs have a form of their own.
        0x1c4..=0x1c6 => '\u{1c5}',
        0x1c7..=0x1c9 => '\u{1c8}',
        0x1ca..=0x1cc => '\u{1cb}',
        0x1f1..=0x1f3 => '\u{1f2}',
        // Georgian is not capitalised.
        0x10d0..=0x10fa | 0x10fd..=0x10ff => c,
        _ => to_upper(c),
    }
}

fn shift(c: char, by: u32) -> char {
    char::from_u32(c as u32 + by).unwrap_or(c)
}
