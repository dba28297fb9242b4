//! Texts: cutting, joining, quoting, indenting. What Go does to bytes is done to bytes.

use gotemplate::{Args, Failure, Function, List, Str, Value};
use vela_gocompat::strconv;

use super::convert::{display, string_map, strings, strval};
use super::table::{ANY, Body, Context, INT, Result, STRING, function, text, variadic};
use crate::engine::state::{Refused, State};

pub(super) static TABLE: &[Function<State>] = &[
    function("hello", &[], |_, _| Ok(Value::from("Hello!"))),
    function("trim", &[STRING], |call, args| text(call, args.text(0).trim())),
    function("trimAll", &[STRING, STRING], TRIM_ALL),
    function("trimall", &[STRING, STRING], TRIM_ALL),
    function("trimPrefix", &[STRING, STRING], |call, args| {
        let (prefix, from) = (args.str(0), args.str(1));
        let bytes = from.as_bytes();
        text(call, bytes.strip_prefix(prefix.as_bytes()).unwrap_or(bytes))
    }),
    function("trimSuffix", &[STRING, STRING], |call, args| {
        let (suffix, from) = (args.str(0), args.str(1));
        let bytes = from.as_bytes();
        text(call, bytes.strip_suffix(suffix.as_bytes()).unwrap_or(bytes))
    }),
    function("contains", &[STRING, STRING], |call, args| {
        let (part, whole) = (args.text(0), args.text(1));
        call.steps(whole.len() as u64 / 32)?;
        Ok(whole.contains(&*part).into())
    }),
    function("hasPrefix", &[STRING, STRING], |_, args| {
        Ok(args.str(1).as_bytes().starts_with(args.str(0).as_bytes()).into())
    }),
    function("hasSuffix", &[STRING, STRING], |_, args| {
        Ok(args.str(1).as_bytes().ends_with(args.str(0).as_bytes()).into())
    }),
    function("trunc", &[INT, STRING], trunc),
    function("substr", &[INT, INT, STRING], substr),
    function("repeat", &[INT, STRING], |call, args| {
        let count = count(args.int(0))?;
        let part = args.str(1);
        call.host().text(part.len().saturating_mul(count))?;
        Ok(Value::String(part.as_bytes().repeat(count).into()))
    }),
    function("replace", &[STRING, STRING, STRING], replace),
    function("indent", &[INT, STRING], |call, args| indent(call, args, "")),
    function("nindent", &[INT, STRING], |call, args| indent(call, args, "\n")),
    variadic("quote", &[], ANY, |call, args| {
        joined(call, args.all(), |state, value| {
            Ok(strconv::quote(&strval(state, value)?.to_str_lossy()))
        })
    }),
    variadic("squote", &[], ANY, |call, args| {
        joined(call, args.all(), |state, value| Ok(format!("'{}'", display(state, value)?)))
    }),
    variadic("cat", &[], ANY, |call, args| {
        joined(call, args.all(), |state, value| Ok(display(state, value)?.to_string()))
    }),
    function("toString", &[ANY], |call, args| {
        let found = strval(call.host(), args.get(0))?;
        text(call, found)
    }),
    function("toStrings", &[ANY], |call, args| {
        let texts = strings(call.host(), args.get(0))?;
        call.host().elements(texts.len())?;
        Ok(List::strings(texts).into())
    }),
    function("join", &[STRING, ANY], |call, args| {
        let texts = strings(call.host(), args.get(1))?;
        let bytes = texts.iter().map(|text| text.len() + args.str(0).len()).sum();
        call.host().text(bytes)?;
        let texts: Vec<&[u8]> = texts.iter().map(Str::as_bytes).collect();
        Ok(Value::String(texts.join(args.str(0).as_bytes()).into()))
    }),
    function("sortAlpha", &[ANY], |call, args| {
        let value = args.get(0);
        let mut texts = match value.underlying() {
            Value::List(_) | Value::Bytes(_) => strings(call.host(), value)?,
            _ => vec![strval(call.host(), value)?],
        };
        call.host().elements(texts.len())?;
        texts.sort();
        Ok(List::strings(texts).into())
    }),
    function("split", &[STRING, STRING], |call, args| {
        let parts = split(call, &args.text(1), &args.text(0), usize::MAX)?;
        Ok(numbered(parts))
    }),
    function("splitn", &[STRING, INT, STRING], |call, args| {
        let most = usize::try_from(args.int(1)).unwrap_or(usize::MAX);
        let parts = split(call, &args.text(2), &args.text(0), most)?;
        Ok(numbered(parts))
    }),
    function("splitList", &[STRING, STRING], |call, args| {
        Ok(List::strings(split(call, &args.text(1), &args.text(0), usize::MAX)?).into())
    }),
    function("plural", &[STRING, STRING, INT], |_, args| {
        Ok(args.get(usize::from(args.int(2) != 1)).clone())
    }),
    function("fail", &[STRING], |_, args| Err(Failure::other(Refused(args.text(0).into_owned())))),
];

const TRIM_ALL: Body = |call, args| {
    let (set, from) = (args.text(0), args.text(1));
    call.steps(from.len() as u64 / 16)?;
    text(call, from.trim_matches(|char| set.contains(char)))
};

/// A number of repetitions.
fn count(count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Failure::text("strings: negative Repeat count"))
}

fn trunc(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let from = args.str(1);
    let bytes = from.as_bytes();
    let length = usize::try_from(args.int(0).unsigned_abs()).unwrap_or(usize::MAX);
    let cut = if args.int(0) >= 0 {
        bytes.get(..length)
    } else {
        bytes.len().checked_sub(length).and_then(|start| bytes.get(start..))
    };
    text(call, cut.unwrap_or(bytes))
}

fn substr(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let (start, end, from) = (args.int(0), args.int(1), args.str(2));
    let bytes = from.as_bytes();
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let (start, end) = match (start, end) {
        (..0, end) => (0, end),
        (start, end) if end < 0 || end > length => (start, length),
        within => within,
    };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match range.and_then(|(start, end)| bytes.get(start..end)) {
        Some(part) => text(call, part),
        None if end > length || end < 0 => Err(Failure::text(format!(
            "runtime error: slice bounds out of range [:{end}] with length {length}"
        ))),
        None => {
            Err(Failure::text(format!("runtime error: slice bounds out of range [{start}:{end}]")))
        }
    }
}

fn replace(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let (old, new, from) = (args.text(0), args.text(1), args.text(2));
    call.steps(from.len() as u64 / 16)?;
    // Each occurrence takes the place of what it was, and may be longer.
    let most = match old.len() {
        0 => from.len() + 1,
        length => from.len() / length,
    };
    let growth = new.len().saturating_sub(old.len());
    if growth > 0 {
        let count = from.matches(&*old).count().min(most);
        call.host().text(from.len().saturating_add(growth.saturating_mul(count)))?;
    } else {
        call.host().text(from.len())?;
    }
    Ok(Value::from(from.replace(&*old, &new)))
}

fn indent(call: &mut Context<'_>, args: Args<'_>, before: &str) -> Result {
    let count = count(args.int(0))?;
    let from = args.text(1);
    let lines = memchr::memchr_iter(b'\n', from.as_bytes()).count() + 1;
    call.host().text(from.len().saturating_add(lines.saturating_mul(count)))?;
    let pad = " ".repeat(count);
    let mut out = String::with_capacity(from.len() + lines * count + 1);
    out.push_str(before);
    for (at, line) in from.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        out.push_str(&pad);
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// The texts of all values that are not nil, with blanks between them.
fn joined(
    call: &mut Context<'_>,
    values: &[Value],
    form: impl Fn(&mut State, &Value) -> Result<String>,
) -> Result {
    let values = values.iter().filter(|value| !value.is_nothing());
    let texts: Vec<String> = values.map(|value| form(call.host(), value)).collect::<Result<_>>()?;
    text(call, texts.join(" "))
}

/// `strings.SplitN`: without a separator the characters one by one.
fn split(call: &mut Context<'_>, from: &str, separator: &str, most: usize) -> Result<Vec<Str>> {
    if most == 0 {
        return Ok(Vec::new());
    }
    call.host().text(from.len())?;
    if separator.is_empty() {
        let count = from.chars().count().min(most);
        call.host().elements(count)?;
        let mut chars = from.char_indices();
        let mut parts: Vec<Str> = chars
            .by_ref()
            .take(count.saturating_sub(1))
            .map(|(_, char)| char.to_string().into())
            .collect();
        if let Some((at, _)) = chars.next() {
            parts.push(from.get(at..).unwrap_or_default().into());
        }
        return Ok(parts);
    }
    let finder = memchr::memmem::Finder::new(separator);
    let count = finder.find_iter(from.as_bytes()).count().min(most);
    call.host().elements(count + 1)?;
    let (mut parts, mut start) = (Vec::with_capacity(count + 1), 0);
    for at in finder.find_iter(from.as_bytes()).take(most - 1) {
        parts.push(Str::from(from.get(start..at).unwrap_or_default()));
        start = at + separator.len();
    }
    parts.push(Str::from(from.get(start..).unwrap_or_default()));
    Ok(parts)
}

fn numbered(parts: Vec<Str>) -> Value {
    let key = |at: usize| Str::from(format!("_{at}"));
    string_map(parts.into_iter().enumerate().map(|(at, part)| (key(at), part)))
}
