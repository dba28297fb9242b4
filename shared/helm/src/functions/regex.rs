//! Regular expressions in RE2 syntax. Compiling and searching are paid for.

use std::rc::Rc;

use gotemplate::{Args, Failure, Function, List, Str};
use vela_gocompat::regexp::{self as go, Meter as _, Regexp};

use super::table::{Body, Context, INT, Result, STRING, function, text};
use crate::engine::state::{OverBudget, Searching, State, over};

pub(super) static TABLE: &[Function<State>] = &[
    function("regexMatch", &[STRING, STRING], |call, args| match compiled(call, args)? {
        Ok(regexp) => Ok(regexp.is_match(&args.text(1), &mut Searching(call.host()))?.into()),
        // The one function that takes a wrong pattern for one that does not match.
        Err(_) => Ok(false.into()),
    }),
    function("mustRegexMatch", &[STRING, STRING], |call, args| {
        let regexp = must(call, args)?;
        Ok(regexp.is_match(&args.text(1), &mut Searching(call.host()))?.into())
    }),
    function("regexFind", &[STRING, STRING], |call, args| {
        let regexp = panics(call, args)?;
        find(call, args, &regexp)
    }),
    function("mustRegexFind", &[STRING, STRING], |call, args| {
        let regexp = must(call, args)?;
        find(call, args, &regexp)
    }),
    function("regexFindAll", &[STRING, STRING, INT], |call, args| {
        let regexp = panics(call, args)?;
        find_all(call, args, &regexp)
    }),
    function("mustRegexFindAll", &[STRING, STRING, INT], |call, args| {
        let regexp = must(call, args)?;
        find_all(call, args, &regexp)
    }),
    function("regexReplaceAll", &[STRING, STRING, STRING], |call, args| {
        let regexp = panics(call, args)?;
        replace(call, args, &regexp, true)
    }),
    function("mustRegexReplaceAll", &[STRING, STRING, STRING], |call, args| {
        let regexp = must(call, args)?;
        replace(call, args, &regexp, true)
    }),
    function("regexReplaceAllLiteral", &[STRING, STRING, STRING], |call, args| {
        let regexp = panics(call, args)?;
        replace(call, args, &regexp, false)
    }),
    function("mustRegexReplaceAllLiteral", &[STRING, STRING, STRING], |call, args| {
        let regexp = must(call, args)?;
        replace(call, args, &regexp, false)
    }),
    function("regexSplit", &[STRING, STRING, INT], SPLIT),
    function("mustRegexSplit", &[STRING, STRING, INT], |call, args| {
        let regexp = must(call, args)?;
        split(call, args, &regexp)
    }),
    function("regexQuoteMeta", &[STRING], |call, args| text(call, go::quote_meta(&args.text(0)))),
];

const SPLIT: Body = |call, args| {
    let regexp = panics(call, args)?;
    split(call, args, &regexp)
};

type Compiled = std::result::Result<Rc<Regexp>, go::RegexpError>;

/// Patterns that a render keeps compiled: charts use few, again and again.
const MOST_KEPT: usize = 64;

/// The pattern of the first argument.
fn compiled(call: &mut Context<'_>, args: Args<'_>) -> Result<Compiled> {
    let pattern = args.text(0);
    call.steps((pattern.len() as u64).saturating_mul(8))?;
    if let Some(known) = call.host().patterns.get(&*pattern) {
        return Ok(Ok(Rc::clone(known)));
    }
    let compiled = go::compile(&pattern).map(Rc::new);
    if let Ok(regexp) = &compiled {
        Searching(call.host()).work(regexp.made())?;
        let kept = &mut call.host().patterns;
        if kept.len() < MOST_KEPT {
            kept.insert(pattern.into_owned(), Rc::clone(regexp));
        }
    }
    Ok(compiled)
}

/// A function whose name begins with `must` gives the error itself.
fn must(call: &mut Context<'_>, args: Args<'_>) -> Result<Rc<Regexp>> {
    compiled(call, args)?.map_err(|error| Failure::text(error.to_string()))
}

/// Others panic, with more text around it.
fn panics(call: &mut Context<'_>, args: Args<'_>) -> Result<Rc<Regexp>> {
    compiled(call, args)?.map_err(|error| {
        Failure::text(format!("regexp: Compile({}): {error}", go_quote(&args.text(0))))
    })
}

/// Between backquotes if that is possible.
fn go_quote(pattern: &str) -> String {
    let plain =
        |char: char| char == '\t' || !char.is_control() && char != '`' && char != '\u{feff}';
    if pattern.chars().all(plain) {
        format!("`{pattern}`")
    } else {
        vela_gocompat::strconv::quote(pattern)
    }
}

fn most(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn find(call: &mut Context<'_>, args: Args<'_>, regexp: &Regexp) -> Result {
    let from = args.text(1);
    let whole = |_: &mut Searching<'_>, found: go::Found<'_>| -> Result<String> {
        Ok(found.group(0).unwrap_or_default().to_owned())
    };
    let found = regexp.first(&from, &mut Searching(call.host()), whole)?;
    text(call, found.unwrap_or_default())
}

fn find_all(call: &mut Context<'_>, args: Args<'_>, regexp: &Regexp) -> Result {
    let from = args.text(1);
    let mut all: Vec<Str> = Vec::new();
    regexp.each(&from, most(args.int(2)), &mut Searching(call.host()), |paid, found| {
        paid.0.text(24)?;
        all.push(found.group(0).unwrap_or_default().into());
        Ok::<_, Failure>(())
    })?;
    call.host().elements(all.len())?;
    // Go gives nil where nothing is found.
    if all.is_empty() {
        return Ok(List::nil(&gotemplate::Type::String).into());
    }
    Ok(List::strings(all).into())
}

fn replace(call: &mut Context<'_>, args: Args<'_>, regexp: &Regexp, expand: bool) -> Result {
    let (from, template) = (args.text(1), args.text(2));
    let limit = call.host().budget.file;
    let mut out = String::new();
    let mut done = 0;
    regexp.each(&from, usize::MAX, &mut Searching(call.host()), |paid, found| {
        let (start, end) = found.span();
        out.push_str(from.get(done..start).unwrap_or_default());
        if expand {
            found.expand(&template, limit, &mut out);
        } else {
            out.push_str(&template);
        }
        done = end;
        paid.work(16 + template.len() as u64)?;
        if out.len() > limit {
            return Err(over(OverBudget::Text(limit)));
        }
        Ok(())
    })?;
    out.push_str(from.get(done..).unwrap_or_default());
    text(call, out)
}

/// `Regexp.Split`: the pieces between matches, at most as many as the third argument says.
fn split(call: &mut Context<'_>, args: Args<'_>, regexp: &Regexp) -> Result {
    let from = args.text(1);
    let most = most(args.int(2));
    if most == 0 {
        return Ok(List::nil(&gotemplate::Type::String).into());
    }
    // Of nothing one piece is left, unless the pattern is nothing too.
    if from.is_empty() && !args.str(0).is_empty() {
        return Ok(List::strings([""]).into());
    }
    let mut pieces: Vec<Str> = Vec::new();
    let (mut start, mut last) = (0, 0);
    regexp.each(&from, usize::MAX, &mut Searching(call.host()), |paid, found| {
        paid.0.text(24)?;
        let (from_at, to) = found.span();
        if pieces.len() + 1 < most && to != 0 {
            last = from_at;
            pieces.push(from.get(start..last).unwrap_or_default().into());
            start = to;
        }
        Ok::<_, Failure>(())
    })?;
    if last != from.len() {
        pieces.push(from.get(start..).unwrap_or_default().into());
    }
    call.host().elements(pieces.len())?;
    Ok(List::strings(pieces).into())
}
