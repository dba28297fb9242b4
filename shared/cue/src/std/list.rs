//! Package `list`.
//!
//! What hands elements through unevaluated is implemented by the evaluator ([`Lazy`]).

use super::args::{
    Out, constant, decimal, decimals, fail, func, lazy, list, number, string_list, strings,
};
use super::{BuiltinError, Lazy, Member, Param};
use crate::decimal::Decimal;
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

const L: Param = Param::LIST;
const A: Param = Param::ANY;
const I: Param = Param::INT;
const N: Param = Param::NUMBER;

pub(super) static PACKAGE: &[Member] = &[
    lazy("Drop", &[L, I], Kind::LIST, Lazy::ListDrop),
    lazy("FlattenN", &[A, I], Kind::LIST, Lazy::ListFlattenN),
    lazy("Repeat", &[L, I], Kind::LIST, Lazy::ListRepeat),
    lazy("Concat", &[L], Kind::LIST, Lazy::ListConcat),
    lazy("Take", &[L, I], Kind::LIST, Lazy::ListTake),
    lazy("Slice", &[L, I, I], Kind::LIST, Lazy::ListSlice),
    lazy("Reverse", &[L], Kind::LIST, Lazy::ListReverse),
    lazy("MinItems", &[L, I], Kind::BOOL, Lazy::ListMinItems),
    lazy("MaxItems", &[L, I], Kind::BOOL, Lazy::ListMaxItems),
    lazy("UniqueItems", &[L], Kind::BOOL, Lazy::ListUniqueItems),
    lazy("Contains", &[L, A], Kind::BOOL, Lazy::ListContains),
    lazy("MatchN", &[L, A, A], Kind::BOOL, Lazy::ListMatchN),
    func("Avg", &[Param::NUMBERS], Kind::NUMBER, avg),
    func("Max", &[Param::NUMBERS], Kind::NUMBER, |a, b| {
        numbers(a, b)?.into_iter().reduce(|x, y| if y > x { y } else { x }).map_or_else(empty, ok)
    }),
    func("Min", &[Param::NUMBERS], Kind::NUMBER, |a, b| {
        numbers(a, b)?.into_iter().reduce(|x, y| if y < x { y } else { x }).map_or_else(empty, ok)
    }),
    func("Product", &[Param::NUMBERS], Kind::NUMBER, |a, b| {
        let mut product = Decimal::ONE;
        for n in numbers(a, b)? {
            product = product.mul(&n)?;
        }
        ok(product)
    }),
    func("Range", &[N, N, N], Kind::LIST, range),
    func("Sum", &[Param::NUMBERS], Kind::NUMBER, |a, b| ok(sum(&numbers(a, b)?)?)),
    lazy("Sort", &[L, A], Kind::LIST, Lazy::ListSort),
    lazy("SortStable", &[L, A], Kind::LIST, Lazy::ListSortStable),
    func("SortStrings", &[Param::STRINGS], Kind::LIST, |a, b| {
        let mut texts = strings(a, 0)?;
        // A comparison may look at all of the shorter text.
        let of_texts: u64 = texts.iter().map(|text| 1 + (text.len() as u64 >> 6)).sum();
        b.steps(of_texts * u64::from(texts.len().max(2).ilog2() + 1))?;
        texts.sort_unstable();
        string_list(texts.into_iter(), b)
    }),
    lazy("IsSorted", &[L, A], Kind::BOOL, Lazy::ListIsSorted),
    func("IsSortedStrings", &[Param::STRINGS], Kind::BOOL, |a, b| {
        b.steps(list(a, 0)?.len() as u64)?;
        Ok(strings(a, 0)?.is_sorted().into())
    }),
    constant("Comparer", "{T: _, x: T, y: T, less: bool}"),
    constant("Ascending", "{T: number | string, x: T, y: T, less: x < y}"),
    constant("Descending", "{T: number | string, x: T, y: T, less: x > y}"),
];

fn ok(n: Decimal) -> Out {
    Ok(number(n))
}

fn empty() -> Out {
    fail("empty list")
}

fn numbers(args: &[Value], budget: &mut Budget) -> Result<Vec<Decimal>, BuiltinError> {
    budget.steps(list(args, 0)?.len() as u64)?;
    decimals(args, 0)
}

fn sum(numbers: &[Decimal]) -> Result<Decimal, BuiltinError> {
    let mut total = Decimal::ZERO;
    for n in numbers {
        total = total.add(n)?;
    }
    Ok(total)
}

fn avg(args: &[Value], budget: &mut Budget) -> Out {
    let all = numbers(args, budget)?;
    if all.is_empty() {
        return empty();
    }
    ok(sum(&all)?.quo(&Decimal::from(all.len()))?)
}

fn range(args: &[Value], budget: &mut Budget) -> Out {
    let (start, limit, step) = (decimal(args, 0)?, decimal(args, 1)?, decimal(args, 2)?);
    if step.is_zero() {
        return fail("step must be non zero");
    }
    let up = !step.is_negative();
    if up && start > limit {
        return fail("end must be greater than start when step is positive");
    }
    if !up && start < limit {
        return fail("end must be less than start when step is negative");
    }
    // The number of elements, before any exists. A quotient too large to say is too many.
    let distance = limit.sub(&start)?;
    let expected = distance.quo(&step).ok().and_then(|n| {
        let n = n.to_integral(crate::decimal::Rounding::Ceil);
        n.to_i64().and_then(|n| u64::try_from(n).ok())
    });
    budget.list(expected.unwrap_or(u64::MAX))?;
    let mut elements = Vec::new();
    let mut at = start;
    while if up { at < limit } else { at > limit } {
        elements.push(number(at.clone()));
        // A step lost in rounding would never arrive.
        let next = at.add(&step)?;
        if next == at {
            return fail("step is too small for the range");
        }
        budget.steps(1)?;
        at = next;
    }
    Ok(Value::List(elements))
}

/// Text that is the same for equal values and for no others.
pub(crate) fn canonical(
    value: &Value,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), LimitError> {
    budget.steps(1)?;
    if out.len() as u64 > budget.limits().string {
        return Err(budget.cross(LimitError::String));
    }
    if let Some(text) = value.as_bytes() {
        budget.steps(text.len() as u64 >> 5)?;
        budget.room(text.len() as u64 * 6)?;
    }
    match value {
        Value::String(s) => super::json::write_string(s, out),
        Value::Number(n) => match n.as_i64() {
            // `1` and `1.0` are different values.
            Some(i) if n.is_int() => out.push_str(&i.to_string()),
            _ => {
                budget.arithmetic(n.whole_words())?;
                out.push(if n.is_int() { 'i' } else { 'f' });
                out.push_str(&n.to_decimal().reduced().to_string());
            }
        },
        Value::List(l) => {
            out.push('[');
            for element in l {
                canonical(element, out, budget)?;
                out.push(',');
            }
            out.push(']');
        }
        Value::Struct(s) => {
            let mut keys: Vec<_> = s.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                super::json::write_string(key, out);
                out.push(':');
                canonical(s.get(key).unwrap_or(&Value::Null), out, budget)?;
                out.push(',');
            }
            out.push('}');
        }
        Value::Bytes(_) => {
            out.push('\'');
            out.push_str(&value.to_json_text());
        }
        other => out.push_str(&other.to_json_text()),
    }
    Ok(())
}
