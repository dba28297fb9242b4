//! Package `regexp`: RE2 syntax, unanchored.

use vela_gocompat::regexp::{self as go, Found, Meter, Regexp};

use super::args::{Out, fail, func, int, string, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::{Fields, Value};

const S: Param = Param::STRING;
const TWO: &[Param] = &[S, S];
const ALL: &[Param] = &[S, S, Param::INT];
const THREE: &[Param] = &[S, S, S];

pub(super) static PACKAGE: &[Member] = &[
    func("Find", TWO, Kind::STRING, |a, b| first(a, b, whole)),
    func("FindAll", ALL, Kind::LIST, |a, b| all(a, b, whole)),
    func("FindAllNamedSubmatch", ALL, Kind::LIST, |a, b| all(a, b, named)),
    func("FindAllSubmatch", ALL, Kind::LIST, |a, b| all(a, b, numbered)),
    func("FindNamedSubmatch", TWO, Kind::STRUCT, |a, b| first(a, b, named)),
    func("FindSubmatch", TWO, Kind::LIST, |a, b| first(a, b, numbered)),
    func("ReplaceAll", THREE, Kind::STRING, |a, b| replace_all(a, b, true)),
    func("ReplaceAllLiteral", THREE, Kind::STRING, |a, b| replace_all(a, b, false)),
    func("Valid", &[S], Kind::BOOL, |a, b| compiled(a, b).map(|_| true.into())),
    func("Match", TWO, Kind::BOOL, |a, b| {
        Ok(compiled(a, b)?.is_match(text(a, 1)?, &mut Paid(b))?.into())
    }),
    func("QuoteMeta", &[S], Kind::STRING, |a, b| string(go::quote_meta(text(a, 0)?), b)),
];

/// Work of a search that costs one step: at some ten nanoseconds each, all steps of an evaluation
/// are used up by two thirds of a second of searching.
const WORK_A_STEP: u64 = 16;

impl Meter for Budget {
    type Error = LimitError;

    fn work(&mut self, amount: u64) -> Result<(), LimitError> {
        self.steps(amount / WORK_A_STEP)
    }
}

/// A budget, for functions that also fail for other reasons.
struct Paid<'a>(&'a mut Budget);

impl Meter for Paid<'_> {
    type Error = BuiltinError;

    fn work(&mut self, amount: u64) -> Result<(), BuiltinError> {
        Ok(self.0.work(amount)?)
    }
}

fn no_match() -> Out {
    fail("no match")
}

/// The pattern of the first argument, its cost counted.
fn compiled(args: &[Value], budget: &mut Budget) -> Result<Regexp, BuiltinError> {
    let pattern = text(args, 0)?;
    budget.steps((pattern.len() as u64).saturating_mul(8))?;
    match go::compile(pattern) {
        Ok(compiled) => {
            budget.work(compiled.made())?;
            Ok(compiled)
        }
        Err(e) if e.code.is_limit() => Err(budget.cross(LimitError::Regexp).into()),
        Err(e) => fail(e.to_string()),
    }
}

type Shape = fn(&Regexp, &Found<'_>, &mut Budget) -> Out;

fn whole(_: &Regexp, found: &Found<'_>, budget: &mut Budget) -> Out {
    string(found.group(0).unwrap_or_default(), budget)
}

/// The match and its groups; a group that took no part is empty.
fn numbered(_: &Regexp, found: &Found<'_>, budget: &mut Budget) -> Out {
    budget.list(found.groups() as u64)?;
    let group = |i| string(found.group(i).unwrap_or_default(), budget);
    Ok(Value::List((0..found.groups()).map(group).collect::<Result<_, _>>()?))
}

/// The named groups, sorted by name as Go's maps are.
fn named(regexp: &Regexp, found: &Found<'_>, budget: &mut Budget) -> Out {
    let mut names: Vec<&str> = regexp.names().collect();
    names.sort_unstable();
    budget.list(names.len() as u64)?;
    let mut fields = Fields::default();
    for name in names {
        let value = found.named(name).unwrap_or_default();
        fields.insert(name.into(), string(value, budget)?);
    }
    Ok(Value::Struct(fields))
}

fn first(args: &[Value], budget: &mut Budget, shape: Shape) -> Out {
    let regexp = compiled(args, budget)?;
    let shaped = |paid: &mut Paid<'_>, found: Found<'_>| shape(&regexp, &found, paid.0);
    regexp.first(text(args, 1)?, &mut Paid(budget), shaped)?.map_or_else(no_match, Ok)
}

/// The matches, as many as the third argument says; all if that is negative.
fn all(args: &[Value], budget: &mut Budget, shape: Shape) -> Out {
    let regexp = compiled(args, budget)?;
    let most = usize::try_from(int(args, 2)?).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    regexp.each(text(args, 1)?, most, &mut Paid(budget), |paid, found| {
        paid.0.list(1)?;
        paid.0.collection()?;
        all.push(shape(&regexp, found, paid.0)?);
        if all.len() as u64 > paid.0.limits().list {
            return Err(paid.0.cross(LimitError::List).into());
        }
        Ok(())
    })?;
    if all.is_empty() { no_match() } else { Ok(Value::List(all)) }
}

fn replace_all(args: &[Value], budget: &mut Budget, expand: bool) -> Out {
    let regexp = compiled(args, budget)?;
    let (subject, template) = (text(args, 1)?, text(args, 2)?);
    let most = usize::try_from(budget.limits().string).unwrap_or(usize::MAX);
    let mut out = String::new();
    let mut done = 0;
    regexp.each(subject, usize::MAX, &mut Paid(budget), |paid, found| {
        let (start, end) = found.span();
        out.push_str(subject.get(done..start).unwrap_or_default());
        if expand {
            found.expand(template, most, &mut out);
        } else {
            out.push_str(template);
        }
        done = end;
        paid.0.steps(1 + (template.len() as u64 >> 4))?;
        if out.len() > most {
            return Err(paid.0.cross(LimitError::String).into());
        }
        Ok(())
    })?;
    out.push_str(subject.get(done..).unwrap_or_default());
    string(out, budget)
}
