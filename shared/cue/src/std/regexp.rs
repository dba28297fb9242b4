//! Package `regexp`: RE2 syntax, unanchored.

use regex::{Captures, Regex};
use vela_gocompat::regexp as go;

use super::args::{Out, fail, func, int, string, string_list, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::{Fields, Value};

const S: Param = Param::STRING;
const TWO: &[Param] = &[S, S];
const ALL: &[Param] = &[S, S, Param::INT];
const THREE: &[Param] = &[S, S, S];

pub(super) static PACKAGE: &[Member] = &[
    func("Find", TWO, Kind::STRING, |a, b| match compiled(a, b)?.find(text(a, 1)?) {
        Some(found) => string(found.as_str(), b),
        None => no_match(),
    }),
    func("FindAll", ALL, Kind::LIST, |a, b| {
        let regex = compiled(a, b)?;
        let found =
            string_list(regex.find_iter(text(a, 1)?).map(|m| m.as_str()).take(most(a)?), b)?;
        non_empty(found)
    }),
    func("FindAllNamedSubmatch", ALL, Kind::LIST, |a, b| all(a, b, named)),
    func("FindAllSubmatch", ALL, Kind::LIST, |a, b| all(a, b, numbered)),
    func("FindNamedSubmatch", TWO, Kind::STRUCT, |a, b| one(a, b, named)),
    func("FindSubmatch", TWO, Kind::LIST, |a, b| one(a, b, numbered)),
    func("ReplaceAll", THREE, Kind::STRING, |a, b| replace_all(a, b, true)),
    func("ReplaceAllLiteral", THREE, Kind::STRING, |a, b| replace_all(a, b, false)),
    func("Valid", &[S], Kind::BOOL, |a, b| compiled(a, b).map(|_| true.into())),
    func("Match", TWO, Kind::BOOL, |a, b| Ok(compiled(a, b)?.is_match(text(a, 1)?).into())),
    func("QuoteMeta", &[S], Kind::STRING, |a, b| string(go::quote_meta(text(a, 0)?), b)),
];

fn no_match() -> Out {
    fail("no match")
}

/// The pattern of the first argument, its cost counted.
fn compiled(args: &[Value], budget: &mut Budget) -> Result<Regex, BuiltinError> {
    let pattern = text(args, 0)?;
    let subject = args.get(1).and_then(Value::as_str).map_or(0, str::len);
    budget.steps((pattern.len() as u64).saturating_mul(8) + (subject as u64 >> 3))?;
    go::compile(pattern).map_err(|e| {
        if e.code.is_limit() {
            BuiltinError::Limit(budget.cross(LimitError::Regexp))
        } else {
            BuiltinError::new(e.to_string())
        }
    })
}

/// The bound of the third argument: all if negative.
fn most(args: &[Value]) -> Result<usize, BuiltinError> {
    Ok(usize::try_from(int(args, 2)?).unwrap_or(usize::MAX))
}

fn non_empty(found: Value) -> Out {
    match found.as_list() {
        Some([]) => no_match(),
        _ => Ok(found),
    }
}

type Shape = fn(&Regex, &Captures<'_>, &mut Budget) -> Out;

/// The match and its groups; a group that took no part is empty.
fn numbered(_: &Regex, captures: &Captures<'_>, budget: &mut Budget) -> Out {
    string_list(captures.iter().map(|m| m.map_or("", |m| m.as_str())), budget)
}

/// The named groups, sorted by name as Go's maps are.
fn named(regex: &Regex, captures: &Captures<'_>, budget: &mut Budget) -> Out {
    let mut names: Vec<&str> = regex.capture_names().flatten().collect();
    names.sort_unstable();
    let mut fields = Fields::default();
    for name in names {
        let value = captures.name(name).map_or("", |m| m.as_str());
        fields.insert(name.into(), string(value, budget)?);
    }
    Ok(Value::Struct(fields))
}

fn one(args: &[Value], budget: &mut Budget, shape: Shape) -> Out {
    let regex = compiled(args, budget)?;
    match regex.captures(text(args, 1)?) {
        Some(captures) => shape(&regex, &captures, budget),
        None => no_match(),
    }
}

fn all(args: &[Value], budget: &mut Budget, shape: Shape) -> Out {
    let regex = compiled(args, budget)?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(text(args, 1)?).take(most(args)?) {
        budget.list(captures.len() as u64)?;
        found.push(shape(&regex, &captures, budget)?);
    }
    budget.list(found.len() as u64)?;
    non_empty(Value::List(found))
}

fn replace_all(args: &[Value], budget: &mut Budget, expand: bool) -> Out {
    let regex = compiled(args, budget)?;
    let (subject, template) = (text(args, 1)?, text(args, 2)?);
    let mut out = String::new();
    let mut done = 0;
    for captures in regex.captures_iter(subject) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(subject.get(done..whole.start()).unwrap_or_default());
        if expand {
            captures.expand(template, &mut out);
        } else {
            out.push_str(template);
        }
        done = whole.end();
        budget.steps(captures.len() as u64 + (template.len() as u64 >> 6))?;
        if out.len() as u64 > budget.limits().string {
            return Err(budget.cross(LimitError::String).into());
        }
    }
    out.push_str(subject.get(done..).unwrap_or_default());
    string(out, budget)
}
